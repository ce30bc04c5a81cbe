//! The sections `interfaces` and `loopbacks`.

use super::{INTERFACE, Map, Node, Source};
use net::router::{Encap, IfState, Kind, Op};

/// The most addresses that the format allows in `interfaces`; the others stand in `l3.interfaces`.
const MOST: usize = 6;

/// `addresses` of an entry of `l3.interfaces`.
pub(super) fn further_addresses(_from: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_some("addresses", Some(Node::Row(i.configured().skip(MOST).map(Node::text).collect())));
}

/// `interfaces`: devices and TAPs in the order in which they were made, with their sub-interfaces. Of loopbacks the state
/// of those that are down, and their places where these are not behind all others.
pub(super) fn write(from: Source<'_>, to: &mut Map) {
    let all: Vec<&IfState> = from.router.interfaces().collect();
    let named = |i: &&IfState| match i.kind {
        Kind::Device | Kind::MplsTunnel { .. } => true,
        Kind::Loopback => !i.up,
        Kind::Local | Kind::Sub { .. } => false,
    };
    let last = all.iter().rposition(named).unwrap_or(0);
    for (at, i) in all.into_iter().enumerate() {
        match i.kind {
            Kind::Device | Kind::MplsTunnel { .. } => {
                let mut fields = Map::new();
                interface(from, i, &mut fields);
                to.put(i.name.clone(), fields);
            }
            Kind::Loopback if at <= last => {
                let mut fields = Map::new();
                fields.put_some("state", (!i.up).then_some("down"));
                to.put(i.name.clone(), fields);
            }
            _ => {}
        }
    }
}

/// `loopbacks`.
pub(super) fn loopbacks(from: Source<'_>, to: &mut Map) {
    for i in from.router.interfaces().filter(|i| i.kind == Kind::Loopback) {
        let mut fields = Map::new();
        common(from, i, 1500, &mut fields);
        to.put(i.name.clone(), fields);
    }
}

fn interface(from: Source<'_>, i: &IfState, to: &mut Map) {
    common(from, i, 1500, to);
    to.put_some("state", (!i.up).then_some("down"));
    let mut subs = Map::new();
    for s in i.subs.values().filter_map(|s| from.router.interface(*s)) {
        let Kind::Sub { id, encap, .. } = s.kind else { continue };
        let mut fields = Map::new();
        common(from, s, i.mtu, &mut fields);
        fields.put_some("state", if !s.up { Some("down") } else { (!i.up).then_some("follow") });
        fields.put_some("encapsulation", encapsulation(id, encap).map(Node::Flow));
        subs.put(id.to_string(), fields);
    }
    to.put_some("sub-interfaces", Some(subs));
}

/// What every kind of interface has.
fn common(from: Source<'_>, i: &IfState, mtu: u16, to: &mut Map) {
    to.put_some("description", i.description.as_deref());
    // A capture file has an address made of its number, and a tunnel any, which may be another one next time.
    let any = matches!(i.origin, Op::CreatePcap { .. }) || matches!(i.kind, Kind::MplsTunnel { l2: true });
    let pinned = i.mac_set || any;
    to.put_some("mac", pinned.then(|| Node::text(i.mac)));
    to.put_unless("mtu", i.mtu, mtu);
    let addresses: Vec<Node> = i.configured().take(MOST).map(Node::text).collect();
    to.put_some("addresses", Some(Node::Row(addresses)));
    to.put_some("l2xc", i.xconnect.map(|peer| from.router.interface_name(peer)));
    INTERFACE.iter().for_each(|write| write(from, i, to));
}

/// `None` for what a sub-interface of this number takes by itself.
fn encapsulation(id: u32, encap: Encap) -> Option<Map> {
    let mut to = Map::new();
    match encap {
        Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true }
            if u32::from(vlan) == id =>
        {
            return None;
        }
        Encap::Tags { dot1ad, outer, inner, exact } => {
            let vlan = |v: Option<u16>| v.map_or(Node::from("any"), Node::from);
            to.put(if dot1ad { "dot1ad" } else { "dot1q" }, vlan(outer));
            to.put_some("inner-dot1q", inner.map(vlan));
            to.put_unless("exact-match", exact, false);
        }
        Encap::Untagged => drop(to.put("untagged", true)),
        Encap::Default => drop(to.put("default", true)),
    }
    Some(to)
}
