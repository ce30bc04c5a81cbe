//! What only one may have, as numbers that objects take and bar: addresses of the router, of neighbours, and of nobody.

use super::objects::{Id, Value};
use ipnet::IpNet;
use model::Model;
use net::router::{Op, anycast, nobody};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// A number for what only one may have.
pub(super) fn token(what: &str, of: impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    (what, of).hash(&mut h);
    h.finish()
}

/// An address of somebody: the router's own, or that of a neighbour.
#[derive(Clone, Copy)]
pub(super) enum End<'n> {
    /// On the link of an interface.
    On(&'n str, IpAddr),
    /// In a table.
    In(u32, IpAddr),
    /// On any link.
    Anywhere(IpAddr),
}

impl End<'_> {
    /// That it is the router's own or nobody's (`own`), or a neighbour's (`hop`): it is never both.
    pub fn token(self, what: &str) -> u64 {
        match self {
            End::On(name, a) => token(what, (0u8, name, a)),
            End::In(table, a) => token(what, (1u8, table, a)),
            End::Anywhere(a) => token(what, (2u8, a)),
        }
    }
}

/// What an address of an interface makes the router's own, or nobody's.
fn ends<'n>(name: &'n str, net: IpNet, table: u32) -> impl Iterator<Item = End<'n>> {
    let nobodys = [net.network(), net.broadcast()].into_iter().filter(move |a| nobody(net, *a));
    let all = std::iter::once(net.addr()).chain(nobodys).chain(anycast(net));
    let all = all.flat_map(move |a| [End::On(name, a), End::In(table, a)]);
    all.chain([End::Anywhere(net.addr())])
}

/// What an address of an interface in a table takes, and what others must not have taken where it comes: with its prefix, or as one
/// more address of a prefix that the interface has.
pub(super) fn address_tokens(name: &str, net: IpNet, table: u32, with_prefix: bool) -> (Vec<u64>, Vec<u64>) {
    let [mut takes, mut bars] =
        ["own", "hop"].map(|what| ends(name, net, table).map(|e| e.token(what)).collect::<Vec<u64>>());
    takes.push(token("numbered", name));
    bars.push(token("unnumbered", name));
    // Two overlap where one is, or is within, the other. Link-local prefixes are on every interface.
    if with_prefix && !is_link_local(net.addr()) {
        takes.push(token("net", (table, net.trunc())));
        bars.push(token("in", (table, net.trunc())));
        for n in around(net) {
            takes.push(token("in", (table, n)));
            bars.push(token("net", (table, n)));
        }
    }
    (takes, bars)
}

/// The prefix of an address, and all in which that is.
fn around(net: IpNet) -> impl Iterator<Item = IpNet> {
    (0..=net.prefix_len()).filter_map(move |len| IpNet::new(net.addr(), len).ok()).map(|n| n.trunc())
}

/// The number of the table in which the addresses of an interface are.
pub(super) fn table_of(model: &Model<Id, Value>, name: &str, v6: bool) -> u32 {
    match model.get(&Id::Binding(name.into(), v6)).map(|o| &o.value) {
        Some(Value::Op(Op::SetTable { table, .. })) => table.id,
        _ => 0,
    }
}

pub(super) fn is_link_local(a: IpAddr) -> bool {
    matches!(a, IpAddr::V6(a) if a.is_unicast_link_local())
}
