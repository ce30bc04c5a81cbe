//! The section `prefixlists`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Families;
use crate::yaml::decode::Decoder;
use crate::yaml::diag::Place;
use crate::yaml::scalar::short;
use crate::yaml::tree::Node;

pub(in crate::yaml) const PREFIX_LIST: &[&str] = &["description", "members"];

/// A named list of prefixes, of either family.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixList {
    /// Where the document speaks of it.
    pub place: Place,
    /// Free text.
    pub description: Option<String>,
    /// Its members; a host has all bits.
    pub members: Vec<IpNet>,
    /// Whether one of its members was wrong: then rules about its members keep quiet.
    pub(super) broken: bool,
}

impl PrefixList {
    pub(super) fn families(&self) -> Families {
        let has = |v6: bool| self.broken || self.members.iter().any(|m| m.addr().is_ipv6() == v6);
        Families { v4: has(false), v6: has(true) }
    }
}

/// The section, by name.
pub(in crate::yaml) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
) -> Option<BTreeMap<&'n str, PrefixList>> {
    let mut lists = BTreeMap::new();
    for (name, place, node) in d.entries(node, "names of prefix lists") {
        d.key(name, |d| {
            if name == "any" {
                d.error(place, "object-name", "`any` stands for all addresses").help("another name");
            } else {
                super::list_name(d, name, place);
            }
            let mut list = PrefixList { place, description: None, members: Vec::new(), broken: false };
            let Some(fields) = d.fields(node, PREFIX_LIST) else {
                list.broken = true;
                lists.insert(name, list);
                return;
            };
            list.description = d.field(&fields, "description", |d, node| d.description(node));
            d.required(&fields, "members", "members: hosts and prefixes", |d, node| {
                let items = d.items(node, "hosts and prefixes");
                for (i, node) in items.iter().enumerate() {
                    let member = d.index(i, |d| {
                        let text = d.text(node, "a host or prefix")?;
                        prefix(d, node.place, text)
                    });
                    list.broken |= member.is_none();
                    list.members.extend(member);
                }
                Some(())
            });
            list.broken |= list.members.is_empty();
            lists.insert(name, list);
        });
    }
    Some(lists)
}

/// A host or prefix. Bits behind the length mean nothing: they are worth a note.
pub(super) fn prefix(d: &mut Decoder<'_>, place: Place, text: &str) -> Option<IpNet> {
    if let Ok(host) = text.parse::<IpAddr>() {
        return Some(host.into());
    }
    let Ok(net) = text.parse::<IpNet>() else {
        d.error(place, "prefix", format!("{} is neither a host nor a prefix", short(text)))
            .value(text)
            .help("an address, or ADDRESS/LENGTH, such as 192.0.2.1 or 2001:db8::/32");
        return None;
    };
    if net.trunc() != net {
        d.note(place, "host-bits", format!("{net} has bits set behind its prefix length"))
            .value(text)
            .help(format!("it means {}", net.trunc()));
    }
    Some(net.trunc())
}
