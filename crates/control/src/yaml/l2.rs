//! The section `l2`: what bridge domains and their members have beyond `bridgedomains`, and the operations of both.

use super::decode::{Decoder, Fields};
use super::diag::Place;
use super::l3::Setting;
use super::model::{BridgeDomain, BridgeSettings, Interface, SubInterface};
use super::rules::{Names, Port};
use super::table;
use super::tree::Node;
use net::l2::bridge::{self, BridgeOp, PortFeatures, StaticMac, TagChange};
use net::router::{Encap, Membership, Op};
use packet::MacAddr;
use std::collections::HashSet;
use std::net::IpAddr;

pub(super) const L2: &[&str] = &["learn-limit", "interfaces", "bridgedomains"];
pub(super) const INTERFACE: &[&str] = &[
    "tag-rewrite",
    "split-horizon-group",
    "learn-limit",
    "own-mtu",
    "learn",
    "forward",
    "flood",
    "uu-flood",
    "arp-term",
];
pub(super) const BRIDGE: &[&str] = &["learn-limit", "macs", "arp"];

impl BridgeDomain {
    /// The settings of the router, but for what only the section `l2` says.
    fn settings(&self) -> bridge::BridgeSettings {
        let BridgeSettings {
            learn,
            unicast_flood,
            unknown_unicast_flood,
            unicast_forward,
            arp_termination,
            arp_unicast_forward,
            mac_age_minutes,
        } = self.settings;
        bridge::BridgeSettings {
            learn,
            forward: unicast_forward,
            flood: unicast_flood,
            uu_flood: unknown_unicast_flood,
            arp_term: arp_termination,
            arp_ufwd: arp_unicast_forward,
            mac_age: mac_age_minutes,
            mac_limit: None,
            tag: self.description.clone(),
        }
    }

    /// The operations that make it.
    pub(crate) fn operations(&self) -> Vec<Setting> {
        let at = |place, op| Setting { place, path: self.path.clone(), op: Op::from(op) };
        let port = |name: &str, bvi| BridgeOp::Port {
            name: name.to_string(),
            member: Some(Membership { bridge: self.id, bvi, shg: 0 }),
        };
        let mut all = vec![at(self.place, BridgeOp::Create { id: self.id, settings: self.settings() })];
        all.extend(self.bvi.iter().map(|b| at(b.place, port(&b.name, true))));
        all.extend(self.members.iter().map(|m| at(m.place, port(&m.name, false))));
        all
    }
}

/// The tags of sub-interfaces that a document bridges or cross-connects are taken away, and put back on the way out, as vppcfg
/// has it told to VPP; the section `l2` may say otherwise.
pub(crate) fn popped(interfaces: &[Interface], bridges: &[BridgeDomain]) -> Vec<Setting> {
    let subs = || interfaces.iter().flat_map(|i| &i.sub_interfaces);
    let crossed = interfaces.iter().flat_map(|i| {
        let own = i.l2xc.iter().map(move |peer| [&i.name, &peer.name]);
        own.chain(i.sub_interfaces.iter().filter_map(|s| Some([&s.name, &s.l2xc.as_ref()?.name])))
    });
    let members = bridges.iter().flat_map(|b| &b.members).map(|m| &m.name);
    let on_l2: HashSet<&String> = crossed.flatten().chain(members).collect();
    let known = |s: &SubInterface| s.encapsulation.map_or(0, Encap::known_tags);
    let popped = subs().filter(|s| on_l2.contains(&s.name) && known(s) != 0);
    let op = |s: &SubInterface| {
        Op::from(BridgeOp::Tags { name: s.name.clone(), change: Some(TagChange::Pop(known(s))) })
    };
    popped.map(|s| Setting { place: s.place, path: s.path.clone(), op: op(s) }).collect()
}

/// Interfaces whose MTU may differ from that of their bridge or cross-connect, read ahead of the section: rules ask for
/// them. What is wrong there is reported later.
pub(super) fn own_mtu<'n>(root: &'n Node<'n>) -> HashSet<&'n str> {
    let is = |node: &'n Node<'n>| {
        let says = table::get(node, "own-mtu");
        says.is_some_and(|n| Decoder::default().boolean(n) == Some(true))
    };
    table::entries_of(root, "l2").filter(|(_, node)| is(node)).map(|(name, _)| name).collect()
}

/// What the section is read with.
struct Scope<'s, 'n, 'a> {
    d: &'s mut Decoder<'n>,
    names: &'s Names<'a>,
    bridges: &'s [BridgeDomain],
    out: &'s mut Vec<Setting>,
}

impl<'n, 'a> Scope<'_, 'n, 'a> {
    fn set(&mut self, place: Place, op: BridgeOp) {
        self.out.push(Setting { place, path: self.d.path(), op: Op::from(op) });
    }

    /// An interface that the document has.
    fn interface(&mut self, name: &str, place: Place) -> Option<Port<'a>> {
        self.names
            .get(name)
            .map_err(|e| _ = self.d.error(place, e.rule, e.message).value(name).help(e.help))
            .ok()
    }

    fn limit(&mut self, fields: &Fields<'n>) -> Option<(Place, u32)> {
        let limit = self.d.field(fields, "learn-limit", |d, node| d.int(node, 0u32, u32::MAX));
        limit.map(|n| (fields.get("learn-limit").map_or(fields.place, |n| n.place), n))
    }
}

/// The section.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
    bridges: &[BridgeDomain],
) -> Option<Vec<Setting>> {
    let fields = d.fields(node, L2)?;
    let mut out = vec![];
    let mut s = Scope { d, names, bridges, out: &mut out };
    if let Some((place, limit)) = s.limit(&fields) {
        s.set(place, BridgeOp::TableLimit { limit });
    }
    if let Some(node) = fields.get("interfaces") {
        s.d.key("interfaces", |d| {
            let s = Scope { d, names, bridges, out: s.out };
            for (name, place, node) in s.d.entries(node, "interface names") {
                s.d.key(name, |d| interface(&mut Scope { d, names, bridges, out: s.out }, name, place, node));
            }
        });
    }
    if let Some(node) = fields.get("bridgedomains") {
        s.d.key("bridgedomains", |d| {
            let s = Scope { d, names, bridges, out: s.out };
            for (name, place, node) in s.d.entries(node, "bridge names") {
                s.d.key(name, |d| bridge(&mut Scope { d, names, bridges, out: s.out }, name, place, node));
            }
        });
    }
    Some(out)
}

fn interface<'n>(s: &mut Scope<'_, 'n, '_>, name: &'n str, place: Place, node: &'n Node<'n>) -> Option<()> {
    let port = s.interface(name, place)?;
    let fields = s.d.fields(node, INTERFACE)?;
    let own = || name.to_string();
    let at = |field: &str| fields.get(field).map_or(fields.place, |n| n.place);
    let known = port.sub.and_then(|sub| sub.encapsulation).map_or(0, Encap::known_tags);
    let change = s.d.field(&fields, "tag-rewrite", |d, node| {
        let text = d.text(node, "a change of tags")?;
        match text.parse::<TagChange>() {
            Ok(change) => match change.check(known, port.is_loopback()) {
                Ok(()) => Some(change),
                Err(why) => {
                    let help = "a sub-interface stands for tags by number; `push` needs none";
                    d.error(node.place, "tag-rewrite", format!("`{name}`: {why}")).value(text).help(help);
                    None
                }
            },
            Err(why) => {
                d.error(node.place, "tag-rewrite", why).value(text).help(
                    "disable, pop 1, push dot1q 100, push dot1ad 100 200, translate 1-1 dot1q 100, ...",
                );
                None
            }
        }
    });
    if let Some(change) = change {
        s.set(at("tag-rewrite"), BridgeOp::Tags { name: own(), change: Some(change) });
    }
    let mut features = PortFeatures::default();
    for field in PortFeatures::NAMES {
        if let Some((on, feature)) =
            s.d.field(&fields, field, |d, node| d.boolean(node)).zip(features.named(field))
        {
            *feature = on;
        }
    }
    if features != PortFeatures::default() {
        s.set(fields.place, BridgeOp::PortFeatures { name: own(), features });
    }
    if let Some((place, limit)) = s.limit(&fields) {
        s.set(place, BridgeOp::PortLimit { name: own(), limit: Some(limit) });
    }
    // Read ahead, for the rules.
    s.d.field(&fields, "own-mtu", |d, node| d.boolean(node));
    let group = s.d.field(&fields, "split-horizon-group", |d, node| d.int(node, 0u8, 255));
    if let Some(shg) = group {
        let place = at("split-horizon-group");
        let is = |b: &&BridgeDomain| b.members.iter().chain(&b.bvi).any(|m| m.name == name);
        let Some(b) = s.bridges.iter().find(is) else {
            s.d.error(place, "bridge-member", format!("`{name}` is in no bridge domain"))
                .help("name it in the interfaces of one, or remove the group");
            return None;
        };
        let bvi = b.bvi.as_ref().is_some_and(|r| r.name == name);
        let member = Some(Membership { bridge: b.id, bvi, shg });
        s.set(place, BridgeOp::Port { name: own(), member });
    }
    Some(())
}

fn bridge<'n>(s: &mut Scope<'_, 'n, '_>, name: &'n str, place: Place, node: &'n Node<'n>) -> Option<()> {
    let Some(b) = s.bridges.iter().find(|b| b.name == name) else {
        s.d.error(place, "bridge-unknown", format!("there is no bridge domain `{name}`"))
            .value(name)
            .help("declare it in the section bridgedomains");
        return None;
    };
    let fields = s.d.fields(node, BRIDGE)?;
    let id = b.id;
    if let Some((place, limit)) = s.limit(&fields) {
        let settings = bridge::BridgeSettings { mac_limit: Some(limit), ..b.settings() };
        s.set(place, BridgeOp::Set { id, settings });
    }
    if let Some(node) = fields.get("macs") {
        s.d.key("macs", |d| {
            for (text, place, node) in d.entries(node, "MAC addresses") {
                d.key(text, |d| {
                    let mac = mac(d, text, place);
                    let to =
                        d.text(node, "an interface, or filter").and_then(|to| target(d, node.place, b, to));
                    let path = d.path();
                    let op = mac.zip(to).map(|(mac, to)| Op::from(BridgeOp::Mac { id, mac, to: Some(to) }));
                    s.out.extend(op.map(|op| Setting { place, path, op }));
                });
            }
        });
    }
    if let Some(node) = fields.get("arp") {
        s.d.key("arp", |d| {
            for (text, place, node) in d.entries(node, "IP addresses") {
                d.key(text, |d| {
                    let (address, mac) = (station(d, text, place), d.mac(node));
                    let path = d.path();
                    let op = address
                        .zip(mac)
                        .map(|(address, mac)| Op::from(BridgeOp::Arp { id, address, mac: Some(mac) }));
                    s.out.extend(op.map(|op| Setting { place, path, op }));
                });
            }
        });
    }
    Some(())
}

fn mac(d: &mut Decoder<'_>, text: &str, place: Place) -> Option<MacAddr> {
    let mac = text.parse::<MacAddr>().ok().filter(|m| m.is_station());
    if mac.is_none() {
        d.error(place, "mac", format!("`{text}` is not the MAC address of a station"))
            .value(text)
            .help("six hexadecimal bytes with colons, such as \"02:00:00:00:00:01\"");
    }
    mac
}

fn station(d: &mut Decoder<'_>, text: &str, place: Place) -> Option<IpAddr> {
    let address = d.address(place, text)?;
    if address.is_unspecified() || address.is_multicast() {
        d.error(place, "address", format!("{address} is not the address of a station"))
            .value(text)
            .help("a unicast address");
        return None;
    }
    Some(address)
}

fn target(d: &mut Decoder<'_>, place: Place, b: &BridgeDomain, to: &str) -> Option<StaticMac> {
    if to == "filter" {
        return Some(StaticMac::Filter);
    }
    if !b.members.iter().any(|m| m.name == to) {
        d.error(place, "bridge-member", format!("`{to}` is no member of `{}`", b.name))
            .value(to)
            .help(format!("one of the interfaces of {}, or filter", b.path));
        return None;
    }
    Some(StaticMac::Port(to.to_string()))
}
