//! Proxied addresses and multicast groups.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::multicast::Join;
use net::proxy::{NdProxy, ProxyArp};

use super::super::decode::{Decoder, Fields};
use super::super::rules::Names;
use super::super::scalar::short;
use super::super::tree::Node;
use super::{Scope, Setting};

const HOST: &[&str] = &["interface", "address"];

/// `proxy-arp`: ranges such as `10.0.1.128 - 10.0.1.254`, or single addresses.
pub(super) fn ranges<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, out: &mut Vec<Setting>) -> Option<()> {
    let mut seen = BTreeSet::new();
    for (i, node) in d.items(node, "ranges of IPv4 addresses").iter().enumerate() {
        d.index(i, |d| {
            let text = d.text(node, "a range of IPv4 addresses")?;
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let parse = |t: &str| t.trim().parse::<Ipv4Addr>().ok();
            let (Some(first), Some(last)) = (parse(first), parse(last)) else {
                d.error(node.place, "proxy-arp", format!("{} is no range of IPv4 addresses", short(text)))
                    .help("first and last, such as 10.0.1.128 - 10.0.1.254, or one address");
                return None;
            };
            if first > last {
                d.error(node.place, "proxy-arp", format!("{first} is behind {last}"))
                    .help(format!("the lower one first: {last} - {first}"));
                return None;
            }
            if !seen.insert((first, last)) {
                d.error(node.place, "proxy-arp", format!("{first} - {last} is there twice"))
                    .help("remove one");
                return None;
            }
            let op = ProxyArp { first, last, on: true }.into();
            out.push(Setting { place: node.place, path: d.path(), op });
            Some(())
        });
    }
    Some(())
}

/// `nd-proxy`: addresses with the interfaces behind which they are.
pub(super) fn hosts<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
    out: &mut Vec<Setting>,
) -> Option<()> {
    let mut seen = BTreeSet::new();
    for (i, node) in d.items(node, "proxied IPv6 addresses").iter().enumerate() {
        d.index(i, |d| {
            let fields = d.fields(node, HOST)?;
            let name =
                d.required(&fields, "interface", "the interface that the host is behind", |d, node| {
                    let reference = d.reference(node)?;
                    match names.get(&reference.name) {
                        Ok(port) => Some(port.name().to_string()),
                        Err(e) => {
                            d.error(node.place, e.rule, e.message).value(reference.name).help(e.help);
                            None
                        }
                    }
                });
            let address = d.required(&fields, "address", "the host's IPv6 address", |d, node| {
                let text = d.text(node, "an IPv6 address")?;
                let address = address6(d, node, text)?;
                if !seen.insert(address) {
                    d.error(node.place, "nd-proxy", format!("{address} is there twice")).help("remove one");
                    return None;
                }
                Some(address)
            });
            let op = NdProxy { name: name?, address: address?, on: true }.into();
            out.push(Setting { place: node.place, path: d.path(), op });
            Some(())
        });
    }
    Some(())
}

/// An IPv6 address.
pub(super) fn address6<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, text: &str) -> Option<Ipv6Addr> {
    match text.parse() {
        Ok(a) => Some(a),
        Err(_) => {
            d.error(node.place, "address", format!("{} is not an IPv6 address", short(text)))
                .value(text)
                .help("such as 2001:db8::1");
            None
        }
    }
}

/// `groups`: multicast groups to join; not where no station can be (`alone`).
pub(super) fn groups<'n>(s: &mut Scope<'_, 'n>, fields: &Fields<'n>, alone: bool) {
    let mut found: Vec<(super::Place, IpAddr)> = vec![];
    s.d.field(fields, "groups", |d, node| {
        for (i, node) in d.items(node, "multicast groups").iter().enumerate() {
            d.index(i, |d| {
                let text = d.text(node, "a multicast group")?;
                let group = d.address(node.place, text)?;
                let mut refuse = |message: String, help: &str| {
                    d.error(node.place, "group", message).value(group).help(help);
                };
                let reach = |a: Ipv6Addr| matches!(a.segments()[0] & 0xf, 0 | 1 | 0xf);
                if !group.is_multicast() {
                    refuse(format!("{group} is no multicast group"), "such as 224.0.0.5 or ff02::5");
                } else if matches!(group, IpAddr::V6(a) if reach(a)) {
                    refuse(
                        format!("the scope of {group} is reserved, or does not reach beyond the interface"),
                        "ff02:: and wider",
                    );
                } else if found.iter().any(|f| f.1 == group) {
                    refuse(format!("{group} is there twice"), "remove one");
                } else if found.len() == net::multicast::MOST_GROUPS {
                    refuse("more than 256 groups on one interface".into(), "at most 256");
                } else {
                    found.push((node.place, group));
                }
                Some(())
            });
        }
        Some(())
    });
    if alone && !found.is_empty() {
        s.d.error(
            fields.key_place("groups"),
            "group",
            "nobody sends to groups on a loopback, or through a tunnel",
        )
        .help("remove `groups`");
        return;
    }
    for (place, group) in found {
        s.set(place, "groups", Join { group, joined: true });
    }
}
