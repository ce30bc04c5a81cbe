//! The sections `bridgedomains` and `l2`.

use super::{Map, Node, Source};
use net::l2::bridge::MAC_LIMIT;
use net::router::{BridgeOp, BridgeSettings, BridgeState, IfState, Router, StaticMac, TagChange};
use std::collections::{BTreeMap, HashSet};

/// `bridgedomains`.
pub(super) fn bridges(from: Source<'_>, to: &mut Map) {
    for b in from.router.bridges() {
        to.put(format!("bd{}", b.id), bridge(from, b));
    }
}

/// Its members in the order of all interfaces.
fn members<'r>(router: &'r Router, b: &BridgeState) -> Vec<&'r IfState> {
    let mut all: Vec<&IfState> = b.members.keys().filter_map(|i| router.interface(*i)).collect();
    all.sort_by_key(|i| i.order());
    all
}

/// A bridge domain of the format has an MTU, here its first member's; those that have another one say so.
fn mtu(router: &Router, b: &BridgeState) -> Option<u16> {
    members(router, b).first().map(|i| i.mtu)
}

fn bridge(from: Source<'_>, b: &BridgeState) -> Map {
    let (s, usual) = (&b.settings, BridgeSettings::default());
    let mut to = Map::new();
    to.put_some("description", s.tag.as_deref());
    to.put_some("mtu", mtu(from.router, b).filter(|mtu| *mtu != 1500));
    to.put_some("bvi", b.bvi().map(|i| from.router.interface_name(i)));
    let ports = members(from.router, b).into_iter().filter(|i| !i.membership.is_some_and(|m| m.bvi));
    to.put_some("interfaces", Some(Node::Row(ports.map(|i| Node::text(&i.name)).collect())));
    let mut settings = Map::new();
    settings
        .put_unless("learn", s.learn, usual.learn)
        .put_unless("unicast-flood", s.flood, usual.flood)
        .put_unless("unknown-unicast-flood", s.uu_flood, usual.uu_flood)
        .put_unless("unicast-forward", s.forward, usual.forward)
        .put_unless("arp-termination", s.arp_term, usual.arp_term)
        .put_unless("arp-unicast-forward", s.arp_ufwd, usual.arp_ufwd)
        .put_unless("mac-age-minutes", u16::from(s.mac_age), u16::from(usual.mac_age));
    to.put_some("settings", Some(settings));
    to
}

/// `None` for what a document does by itself: it takes away the tags of sub-interfaces that are bridged or cross-connected.
fn tag_rewrite(i: &IfState, target: bool) -> Option<Node> {
    let on_l2 = i.membership.is_some_and(|m| !m.bvi) || i.xconnect.is_some() || target;
    let popped = Some(i.tags().count).filter(|n| on_l2 && *n != 0).map(TagChange::Pop);
    let change = || i.tag_change.as_ref().unwrap_or(&TagChange::Disabled);
    (i.tag_change != popped).then(|| Node::text(change()))
}

/// `l2`.
pub(super) fn write(from: Source<'_>, to: &mut Map) {
    to.put_unless("learn-limit", u64::from(from.router.mac_counts().limit), u64::from(MAC_LIMIT));
    let targets: HashSet<u32> = from.router.interfaces().filter_map(|i| i.xconnect).collect();
    let mtus: BTreeMap<u32, Option<u16>> =
        from.router.bridges().map(|b| (b.id, mtu(from.router, b))).collect();
    let mut interfaces = Map::new();
    for i in from.router.interfaces() {
        let peer = i.xconnect.and_then(|p| from.router.interface(p)).map(|p| p.mtu);
        let other = peer.or_else(|| mtus.get(&i.membership?.bridge).copied().flatten());
        let mut fields = Map::new();
        fields
            .put_some("tag-rewrite", tag_rewrite(i, targets.contains(&i.index)))
            .put_some("split-horizon-group", i.membership.filter(|m| m.shg != 0).map(|m| u16::from(m.shg)))
            .put_some("learn-limit", i.mac_limit.map(u64::from))
            .put_some("own-mtu", other.filter(|mtu| *mtu != i.mtu).map(|_| true));
        for feature in i.port_features.off() {
            fields.put(feature, false);
        }
        interfaces.put_some(i.name.clone(), Some(fields));
    }
    to.put_some("interfaces", Some(interfaces));
    let mut domains = Map::new();
    for b in from.router.bridges() {
        let (mut fields, mut macs, mut arp) = (Map::new(), Map::new(), Map::new());
        fields.put_some("learn-limit", b.settings.mac_limit.map(u64::from));
        for op in from.router.static_macs(b.id) {
            let BridgeOp::Mac { mac, to: Some(place), .. } = op else { continue };
            match place {
                StaticMac::Filter => macs.put(mac.to_string(), "filter"),
                StaticMac::Port(name) => macs.put(mac.to_string(), Node::text(name)),
            };
        }
        for (a, mac) in &b.arp {
            arp.put(a.to_string(), Node::text(mac));
        }
        fields.put_some("macs", Some(macs)).put_some("arp", Some(arp));
        domains.put_some(format!("bd{}", b.id), Some(fields));
    }
    to.put_some("bridgedomains", Some(domains));
}
