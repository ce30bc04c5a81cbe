//! The sections `interfaces` and `loopbacks`.

use super::{INTERFACE, Pages, Path, Pieces, Source, each};
use crate::written::{Map, Node};
use crate::yaml::virtuals::section_of;
use net::router::{Encap, IfState, Kind, Op, Order};

/// The most addresses that the format allows in `interfaces`; the others stand in `l3.interfaces`.
const MOST: usize = 6;

/// `addresses` of an entry of `l3.interfaces`.
pub(super) fn further_addresses(_from: Source<'_>, i: &IfState, to: &mut Map) {
    to.put_some("addresses", Some(Node::Row(i.operators_addresses().skip(MOST).map(Node::text).collect())));
}

/// `interfaces`: devices and TAPs in the order in which they were made, with their sub-interfaces. Of loopbacks the state
/// of those that are down, and their places where these are not behind all others.
#[derive(Default)]
pub(super) struct Interfaces {
    after: Option<Order>,
    /// The last one that is to be named.
    last: Option<Option<Order>>,
}

impl Pages for Interfaces {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let named = |i: &&IfState| match i.kind {
            Kind::Device | Kind::MplsTunnel { .. } | Kind::Virtual(_) => true,
            Kind::Loopback => !i.operators_up(),
            Kind::Local | Kind::Sub { .. } => false,
        };
        let find =
            || from.router.interfaces().filter(|i| !i.companion).filter(named).last().map(IfState::order);
        let last = *self.last.get_or_insert_with(find);
        each(from, &mut self.after, |i| {
            let mut fields = Map::new();
            let mut put = |place: Path, name: String, fields: Map| {
                let mut field = Map::new();
                field.put(name, fields);
                to.fields(place, field);
            };
            match i.kind {
                Kind::Device | Kind::MplsTunnel { .. } | Kind::Virtual(_) => {
                    common(from, i, i.own_mtu, &mut fields);
                    fields.put_some("state", (!i.operators_up()).then_some("down"));
                    let sub = |s: &u32| from.router.interface(*s).is_some_and(|s| !s.companion);
                    match i.subs.values().any(sub) {
                        false => put(vec![], i.name.clone(), fields),
                        // They come behind it.
                        true => to.fields(vec![i.name.clone().into()], fields),
                    }
                }
                Kind::Loopback if Some(i.order()) <= last => {
                    fields.put_some("state", (!i.operators_up()).then_some("down"));
                    put(vec![], i.name.clone(), fields);
                }
                Kind::Sub { parent, id, encap } => {
                    let Some(parent) = from.router.interface(parent).filter(|p| named(p)) else { return };
                    common(from, i, parent.operators_mtu(), &mut fields);
                    let state = if !i.operators_up() {
                        Some("down")
                    } else {
                        (!parent.operators_up()).then_some("follow")
                    };
                    fields.put_some("state", state);
                    fields.put_some("encapsulation", encapsulation(id, encap).map(Node::Flow));
                    let place = vec![parent.name.clone().into(), "sub-interfaces".into()];
                    put(place, id.to_string(), fields);
                }
                _ => {}
            }
        })
    }
}

/// An entry of `loopbacks`.
pub(super) fn loopback(from: Source<'_>, i: &IfState) -> Option<Node> {
    if i.kind != Kind::Loopback {
        return None;
    }
    let mut fields = Map::new();
    common(from, i, 1500, &mut fields);
    Some(fields.into())
}

/// What every kind of interface has.
fn common(from: Source<'_>, i: &IfState, mtu: u16, to: &mut Map) {
    to.put_some("description", i.description.as_deref());
    // A capture file has an address made of its number, and a tunnel any, which may be another one next time. Who carries the frames of
    // another has that one's.
    let of = from.router.carries(i.index).and_then(|(of, _)| from.router.interface(of));
    let any = matches!(i.origin, Op::CreatePcap { .. }) || matches!(i.kind, Kind::MplsTunnel { l2: true });
    let mac = i.operators_mac().or((any && of.is_none()).then_some(i.mac));
    if !section_of(&i.name).is_some_and(|s| s.says_mac) {
        to.put_some("mac", mac.map(Node::text));
    }
    // Its own may be larger, of which it has nothing.
    to.put_unless("mtu", of.unwrap_or(i).operators_mtu(), mtu);
    let addresses: Vec<Node> = i.operators_addresses().take(MOST).map(Node::text).collect();
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
