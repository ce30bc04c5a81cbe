//! The section `bridgedomains`.

use super::decode::Decoder;
use super::diag::Place;
use super::interface::{DEFAULT_MTU, mtu, object_number};
use super::model::{BridgeDomain, BridgeSettings};
use super::tree::Node;

pub(super) const BRIDGE: &[&str] = &["description", "mtu", "bvi", "interfaces", "settings"];
pub(super) const SETTINGS: &[&str] = &[
    "learn",
    "unicast-flood",
    "unknown-unicast-flood",
    "unicast-forward",
    "arp-termination",
    "arp-unicast-forward",
    "mac-age-minutes",
];

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<BridgeDomain>> {
    let mut bridges = Vec::new();
    for (name, place, node) in d.entries(node, "bridge names") {
        bridges.extend(d.key(name, |d| bridge(d, name, place, node)));
    }
    Some(bridges)
}

fn bridge<'n>(d: &mut Decoder<'n>, name: &'n str, place: Place, node: &'n Node<'n>) -> Option<BridgeDomain> {
    let id = object_number(d, name, place, "bd", 1, 16_777_215);
    let fields = d.fields(node, BRIDGE);
    let mut bridge = BridgeDomain {
        id: id.and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        name: name.to_string(),
        place,
        path: d.path(),
        description: None,
        mtu: DEFAULT_MTU,
        bvi: None,
        members: Vec::new(),
        settings: BridgeSettings::default(),
    };
    let Some(fields) = fields else {
        bridge.mtu = 0;
        return Some(bridge);
    };
    bridge.description = d.field(&fields, "description", |d, node| d.description(node));
    bridge.mtu = mtu(d, &fields, DEFAULT_MTU);
    bridge.bvi = d.field(&fields, "bvi", |d, node| d.reference(node));
    bridge.members = d.field(&fields, "interfaces", |d, node| Some(d.references(node))).unwrap_or_default();
    bridge.settings = d.field(&fields, "settings", settings).unwrap_or_default();
    Some(bridge)
}

fn settings<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<BridgeSettings> {
    let fields = d.fields(node, SETTINGS)?;
    let mut s = BridgeSettings::default();
    let mut switch = |name, to: &mut bool| {
        if let Some(on) = d.field(&fields, name, |d, node| d.boolean(node)) {
            *to = on;
        }
    };
    switch("learn", &mut s.learn);
    switch("unicast-flood", &mut s.unicast_flood);
    switch("unknown-unicast-flood", &mut s.unknown_unicast_flood);
    switch("unicast-forward", &mut s.unicast_forward);
    switch("arp-termination", &mut s.arp_termination);
    switch("arp-unicast-forward", &mut s.arp_unicast_forward);
    s.mac_age_minutes = d.field(&fields, "mac-age-minutes", |d, node| d.int(node, 0u8, 255)).unwrap_or(0);
    Some(s)
}
