//! No two interfaces of one table hold overlapping prefixes; one interface may hold several addresses of one prefix.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Names, Port, say};
use crate::yaml::diag::Sink;
use crate::yaml::model::Address;

/// Sorts all prefixes so that those that contain a prefix come before it, and walks them with the stack of those that
/// are still open: whatever is on top when a prefix starts contains it.
pub(super) fn overlap(names: &Names<'_>, errors: &mut Sink) {
    let mut tables: BTreeMap<u32, Vec<(Address, Port<'_>, usize)>> = BTreeMap::new();
    for port in &names.list {
        let mut local = port.addresses().iter().enumerate().filter(|(_, a)| is_link_local(a.net));
        if let (Some((_, first)), Some((i, second))) = (local.next(), local.next()) {
            let (has, line) = (first.net, first.place.line);
            let message =
                format!("{} is a second link-local address, {has} on line {line} is one", second.net);
            let path = format!("{}.addresses[{i}]", port.path());
            say(errors, second.place, path, "link-local", message).value(second.net).help("remove one");
        }
        let own = port.addresses().iter().enumerate().map(|(i, a)| (*a, *port, i));
        for (a, port, i) in own.filter(|(a, ..)| !is_link_local(a.net)) {
            let table = names.table(port.name(), a.net.addr().is_ipv6());
            tables.entry(table).or_default().push((a, port, i));
        }
    }
    tables.into_values().for_each(|all| overlap_in(all, errors));
}

/// The addresses of one table.
fn overlap_in(mut all: Vec<(Address, Port<'_>, usize)>, errors: &mut Sink) {
    let order = |a: &Address| (a.net.network(), a.net.prefix_len(), a.place.line, a.place.column);
    all.sort_by_key(|(a, ..)| order(a));
    let mut open: Vec<(Address, Port<'_>, usize)> = Vec::new();
    for (address, port, index) in all {
        while open.last().is_some_and(|(a, ..)| !a.net.contains(&address.net.network())) {
            open.pop();
        }
        if let Some((outer, owner, outer_index)) = open.last() {
            let same_port = owner.name() == port.name();
            let same_net = outer.net.trunc() == address.net.trunc();
            if !same_port || !same_net || outer.net == address.net {
                let second = (address.place.line, address.place.column);
                // The error stands at whichever comes second in the document.
                let (at, first) = match second >= (outer.place.line, outer.place.column) {
                    true => ((address, port, index), (outer, owner)),
                    false => ((*outer, *owner, *outer_index), (&address, &port)),
                };
                report(at, first, same_port, errors);
            }
        }
        open.push((address, port, index));
    }
}

fn report(
    (address, port, index): (Address, Port<'_>, usize),
    (first, owner): (&Address, &Port<'_>),
    same_port: bool,
    errors: &mut Sink,
) {
    let path = format!("{}.addresses[{index}]", port.path());
    let (message, help) = if !same_port {
        (
            format!(
                "{} overlaps {} of `{}` on line {}",
                address.net,
                first.net,
                owner.name(),
                first.place.line
            ),
            "a prefix that no other interface has",
        )
    } else if first.net == address.net {
        (format!("{} stands here twice, first on line {}", address.net, first.place.line), "remove one")
    } else {
        (
            format!("{} and {} (line {}) are not of one prefix", address.net, first.net, first.place.line),
            "addresses of one interface share a prefix with the same length, or do not overlap",
        )
    };
    say(errors, address.place, path, "address-overlap", message).value(address.net).help(help);
}

/// Link-local prefixes are of one link each, so that every interface may hold fe80::/64.
fn is_link_local(net: IpNet) -> bool {
    matches!(net.addr(), IpAddr::V6(a) if a.is_unicast_link_local())
}
