//! The section `l3`: what interfaces do at layer 3 besides having addresses, and what the router answers for.

mod advertise;
mod proxy;
mod reassembly;
mod urpf;

use net::interface::MtuOf;
use net::ip4::{self, OptionPolicy};
use net::local::TcpResets;
use net::mss::{self, Clamp};
use net::router::{self, Feature, Op, SourcePreference};
use net::{arp, redirect};
use std::collections::BTreeMap;

use super::decode::{Decoder, Fields};
use super::diag::Place;
use super::model::{Address, Interface};
use super::rules::{Names, Port};
use super::table;
use super::tree::{Node, Value};

#[cfg(test)]
pub(super) use reassembly::{KINDS as REASSEMBLY, LIMITS as REASSEMBLY_LIMITS};

pub(super) const L3: &[&str] =
    &["reassembly", "interfaces", "proxy-arp", "nd-proxy", "tcp-resets", "ip4-options", "route-preferences"];
pub(super) const INTERFACE: &[&str] = &[
    "addresses",
    "table",
    "urpf",
    "reassembly",
    "virtual-reassembly",
    "tcp-mss-clamp",
    "mtu",
    "redirects",
    "proxy-arp",
    "arp-sender-check",
    "directed-broadcast",
    "ip4-link-local",
    "ip4-broadcast-sources",
    "groups",
    "router-advertisements",
];
const FAMILIES: &[&str] = &["ip4", "ip6"];
pub(super) const MTU: &[&str] = &["ip4", "ip6", "mpls"];
const DIRECTIONS: &[&str] = &["rx", "tx"];

/// An operation that the section asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Where it stands.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// The operation.
    pub op: Op,
}

/// What a mapping of the section says of one interface.
struct Scope<'s, 'n> {
    d: &'s mut Decoder<'n>,
    name: &'s str,
    mtu: u16,
    out: &'s mut Vec<Setting>,
}

impl Scope<'_, '_> {
    fn set(&mut self, place: Place, field: &'static str, feature: impl Into<Feature>) {
        let op = Op::SetFeature { name: self.name.to_string(), feature: feature.into() };
        self.out.push(Setting { place, path: format!("{}.{field}", self.d.path()), op });
    }
}

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Vec<Setting>> {
    let fields = d.fields(node, L3)?;
    let mut out = vec![];
    d.field(&fields, "reassembly", |d, node| reassembly::settings(d, node, &mut out));
    d.field(&fields, "interfaces", |d, node| {
        for (name, place, node) in d.entries(node, "interface names") {
            d.key(name, |d| interface(d, name, place, node, names, &mut out));
        }
        Some(())
    });
    d.field(&fields, "proxy-arp", |d, node| proxy::ranges(d, node, &mut out));
    d.field(&fields, "nd-proxy", |d, node| proxy::hosts(d, node, names, &mut out));
    let resets = d.field(&fields, "tcp-resets", |d, node| d.boolean(node)).map(|on| TcpResets(on).into());
    let options = d.field(&fields, "ip4-options", |d, node| d.choice(node, OptionPolicy::ALL));
    for (field, op) in [("tcp-resets", resets), ("ip4-options", options.map(Op::from))] {
        let path = format!("{}.{field}", d.path());
        out.extend(op.map(|op| Setting { place: fields.key_place(field), path, op }));
    }
    d.field(&fields, "route-preferences", |d, node| preferences(d, node, &mut out));
    Some(out)
}

/// By which preference routes of a source are chosen.
fn preferences<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, out: &mut Vec<Setting>) -> Option<()> {
    for (source, place, node) in d.entries(node, "sources of routes") {
        d.key(source, |d| {
            let Some(preference) = d.int(node, 1u8, 254) else { return };
            let op = SourcePreference { source: source.to_owned(), preference: Some(preference) };
            match op.check() {
                Ok(()) => out.push(Setting { place, path: d.path(), op: op.into() }),
                Err(e) => {
                    d.error(place, "route-source", e.message)
                        .value(source)
                        .help("`connected`, `static`, `kernel`, `kernel:bird` or the like");
                }
            }
        });
    }
    Some(())
}

fn interface<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    node: &'n Node<'n>,
    names: &Names<'_>,
    out: &mut Vec<Setting>,
) -> Option<()> {
    let port = match names.get(name) {
        Ok(port) => port,
        Err(e) => {
            d.error(place, e.rule, e.message).value(name).help(e.help);
            return None;
        }
    };
    let fields = d.fields(node, INTERFACE)?;
    routed(d, place, port, names);
    // They stand among those of the interface already.
    d.field(&fields, "addresses", addresses);
    let bound = d.field(&fields, "table", |d, node| table::binding(d, node, names.tables));
    for (place, table) in bound.unwrap_or_default() {
        out.push(Setting { place, path: d.path(), op: Op::SetTable { name: name.to_string(), table } });
    }
    let mut scope = Scope { d, name, mtu: port.mtu(), out };
    urpf::decode(&mut scope, &fields, names.tables);
    reassembly::features(&mut scope, &fields);
    clamp(&mut scope, &fields);
    mtu(&mut scope, &fields);
    let redirects =
        scope.d.field(&fields, "redirects", |d, node| families(d, node, |d, node| d.boolean(node)));
    for (v6, place, on) in redirects.unwrap_or_default() {
        scope.set(place, "redirects", redirect::sent(v6).to(on));
    }
    if let Some(on) = scope.d.field(&fields, "proxy-arp", |d, node| d.boolean(node)) {
        scope.set(fields.key_place("proxy-arp"), "proxy-arp", net::proxy::ARP.to(on));
    }
    switches(&mut scope, &fields);
    let alone = names.is_alone(port);
    proxy::groups(&mut scope, &fields, alone);
    advertise::decode(&mut scope, &fields, alone);
    Some(())
}

fn addresses<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<Address>> {
    let items = d.items(node, "addresses with prefix lengths");
    let one = |(i, node): (usize, &'n Node<'n>)| {
        let net = d.index(i, |d| d.interface_address(node))?;
        Some(Address { net, place: node.place })
    };
    Some(items.iter().enumerate().filter_map(one).collect())
}

/// Further addresses of interfaces: the format allows six in `interfaces`. Errors are told when the section is read.
pub(super) fn further_addresses<'n>(root: &'n Node<'n>, interfaces: &mut [Interface]) {
    let mut further: BTreeMap<&str, Vec<Address>> = BTreeMap::new();
    for (name, node) in table::entries_of(root, "l3") {
        if let Some(node) = table::get(node, "addresses") {
            further.insert(name, addresses(&mut Decoder::default(), node).unwrap_or_default());
        }
    }
    if further.is_empty() {
        return;
    }
    for i in interfaces {
        i.addresses.extend(further.remove(i.name.as_str()).unwrap_or_default());
        for s in &mut i.sub_interfaces {
            s.addresses.extend(further.remove(s.name.as_str()).unwrap_or_default());
        }
    }
}

/// An interface in L2 mode takes no part in layer 3.
fn routed(d: &mut Decoder<'_>, place: Place, port: Port<'_>, names: &Names<'_>) {
    if names.is_l2(port) {
        d.error(place, "l3-mode", format!("`{}` is in L2 mode", port.name()))
            .help("remove its entry here, its l2xc, or take it out of the bridge");
    }
}

/// Both families of a field: one value for both, or a mapping of `ip4` and `ip6`. Each with whether it is of IPv6.
fn families<'n, T: Clone>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    mut one: impl FnMut(&mut Decoder<'n>, &'n Node<'n>) -> Option<T>,
) -> Option<Vec<(bool, Place, T)>> {
    #[cfg(test)]
    d.fact(super::schema::Fact::Families);
    if let Value::Scalar { .. } = &node.value {
        let value = one(d, node)?;
        return Some(vec![(false, node.place, value.clone()), (true, node.place, value)]);
    }
    let fields = d.fields(node, FAMILIES)?;
    let mut all = vec![];
    for (v6, name) in [(false, "ip4"), (true, "ip6")] {
        if let Some(value) = d.field(&fields, name, &mut one) {
            all.push((v6, fields.get(name).map_or(fields.place, |n| n.place), value));
        }
    }
    Some(all)
}

/// What an interface does with addresses that name no host elsewhere.
fn switches<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>) {
    if let Some(on) = s.d.field(fields, "arp-sender-check", |d, node| d.boolean(node)) {
        s.set(fields.key_place("arp-sender-check"), "arp-sender-check", arp::SENDER_CHECK.to(on));
    }
    if let Some(on) = s.d.field(fields, "directed-broadcast", |d, node| d.boolean(node)) {
        s.set(
            fields.key_place("directed-broadcast"),
            "directed-broadcast",
            net::interface::DIRECTED_BROADCAST.to(on),
        );
    }
    let choices = [
        ("ip4-link-local", &ip4::LINK_LOCAL_STAYS, "drop"),
        ("ip4-broadcast-sources", &ip4::BROADCAST_SOURCES_FORWARD, "forward"),
    ];
    for (name, setting, on) in choices {
        let words = ["forward", "drop"].map(|word| (word, word == on));
        if let Some(on) = s.d.field(fields, name, |d, node| d.choice(node, &words)) {
            s.set(fields.key_place(name), name, setting.to(on));
        }
    }
}

/// MTUs that protocols have of their own.
fn mtu<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>) {
    let all = s.d.field(fields, "mtu", |d, node| {
        let fields = d.fields(node, MTU)?;
        let mut all = vec![];
        for (name, of) in MtuOf::ALL {
            let mtu = d.field(&fields, name, |d, node| d.int(node, of.least(), *router::MTU.end()));
            all.extend(mtu.map(|mtu| (fields.key_place(name), of, mtu)));
        }
        Some(all)
    });
    for (place, of, mtu) in all.unwrap_or_default() {
        if of == MtuOf::Ip6 && s.mtu != 0 {
            s.mtu = s.mtu.min(mtu);
        }
        s.set(place, "mtu", of.setting().to(mtu));
    }
}

/// A size for both directions, or a mapping.
fn clamp<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>) {
    let size = |d: &mut Decoder<'n>, node: &'n Node<'n>| d.int(node, mss::LEAST, mss::most(false));
    let all = s.d.field(fields, "tcp-mss-clamp", |d, node| {
        families(d, node, |d, node| {
            if let Value::Scalar { .. } = &node.value {
                let both = size(d, node)?;
                return Some(Clamp { rx: both, tx: both });
            }
            let fields = d.fields(node, DIRECTIONS)?;
            let mut one = |name| d.field(&fields, name, size).unwrap_or(0);
            Some(Clamp { rx: one("rx"), tx: one("tx") })
        })
    });
    for (v6, place, clamp) in all.unwrap_or_default() {
        let (size, most) = (clamp.rx.max(clamp.tx), mss::most(v6));
        if size > most {
            s.d.key("tcp-mss-clamp", |d| {
                d.error(place, "range", format!("`{size}` is out of range for IPv6"))
                    .value(size)
                    .help(format!("{} to {most}: what a packet has room for behind its headers", mss::LEAST));
            });
        }
        s.set(place, "tcp-mss-clamp", mss::size(v6).to(clamp));
    }
}
