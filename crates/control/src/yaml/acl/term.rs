//! One term of an ACL.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::prefixlist::{self, PrefixList};
use super::range::{self, Range};
use super::{Families, is_list_name, names, undeclared};
use crate::yaml::decode::{Decoder, Fields};
use crate::yaml::diag::Place;
use crate::yaml::scalar::{number, short};
use crate::yaml::tree::Node;

pub(in crate::yaml) const TERM: &[&str] = &[
    "description",
    "action",
    "family",
    "source",
    "destination",
    "protocol",
    "source-port",
    "destination-port",
    "icmp-type",
    "icmp-code",
];

/// What is done with a packet that a term matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Permit,
    /// It is dropped.
    Deny,
    /// It passes, and so do the answers to it.
    PermitReflect,
}

/// Which addresses a term matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// All of them.
    Any,
    /// Those of a prefix.
    Prefix(IpNet),
    /// Those of a list of `prefixlists`.
    List(String),
}

/// An endpoint with the families of its addresses; `None` when it was given wrong.
type End = Option<(Endpoint, Families)>;

/// A term; what it does not say matches everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Free text.
    pub description: Option<String>,
    /// What is done.
    pub action: Action,
    /// Families that it is for.
    pub family: Families,
    /// Source addresses.
    pub source: Endpoint,
    /// Destination addresses.
    pub destination: Endpoint,
    /// IP protocol, 1..255.
    pub protocol: Option<u8>,
    /// Source ports of TCP and UDP.
    pub source_port: Option<Range>,
    /// Destination ports of TCP and UDP.
    pub destination_port: Option<Range>,
    /// Types of ICMP and ICMPv6.
    pub icmp_type: Option<Range>,
    /// Codes of ICMP and ICMPv6.
    pub icmp_code: Option<Range>,
}

const V4: Families = Families { v4: true, v6: false };
const V6: Families = Families { v4: false, v6: true };
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    lists: &BTreeMap<&'n str, PrefixList>,
) -> Option<Term> {
    const ACTIONS: &[(&str, Action)] =
        &[("permit", Action::Permit), ("deny", Action::Deny), ("permit+reflect", Action::PermitReflect)];
    const FAMILIES: &[(&str, Families)] = &[("ipv4", V4), ("ipv6", V6), ("any", Families::ANY)];
    let fields = d.fields(node, TERM)?;
    let description = d.field(&fields, "description", |d, node| d.description(node));
    let help = "action: permit, deny or permit+reflect";
    let action = d.required(&fields, "action", help, |d, node| d.choice(node, ACTIONS));
    let family = d.field(&fields, "family", |d, node| d.choice(node, FAMILIES));
    let source = endpoint(d, &fields, "source", lists);
    let destination = endpoint(d, &fields, "destination", lists);
    let protocol = d.field(&fields, "protocol", protocol);
    let wrong = fields.has("protocol") && protocol.is_none();
    let protocol = protocol.flatten();
    if !(fields.has("family") && family.is_none()) {
        common_family(d, &fields, family.unwrap_or(Families::ANY), (&source, &destination));
    }
    let numbers = |d: &mut Decoder<'n>, name, right: [u8; 2], most: u16| {
        let service = (right[0] == TCP).then_some(names::service as fn(&str) -> Option<u16>);
        let range = d.field(&fields, name, |d, node| {
            let text = d.text(node, "a number or range")?;
            range::decode(d, node.place, text, most, service)
        });
        if fields.has(name) && !wrong && !protocol.is_some_and(|p| right.contains(&p)) {
            let words = if right[0] == TCP { "tcp or udp" } else { "icmp or ipv6-icmp" };
            d.key(name, |d| {
                d.error(fields.key_place(name), "needs", format!("`{name}` means nothing without {words}"))
                    .help(format!("protocol: {words}, or remove `{name}`"));
            });
        }
        range
    };
    let source_port = numbers(d, "source-port", [TCP, UDP], u16::MAX);
    let destination_port = numbers(d, "destination-port", [TCP, UDP], u16::MAX);
    let icmp_type = numbers(d, "icmp-type", [ICMP, ICMP6], 255);
    let icmp_code = numbers(d, "icmp-code", [ICMP, ICMP6], 255);
    Some(Term {
        description,
        action: action?,
        family: family.unwrap_or(Families::ANY),
        source: source?.0,
        destination: destination?.0,
        protocol,
        source_port,
        destination_port,
        icmp_type,
        icmp_code,
    })
}

/// `any`, a host, a prefix or a prefix list, with the families of its members.
fn endpoint<'n>(
    d: &mut Decoder<'n>,
    fields: &Fields<'n>,
    name: &'static str,
    lists: &BTreeMap<&'n str, PrefixList>,
) -> Option<(Endpoint, Families)> {
    if !fields.has(name) {
        return Some((Endpoint::Any, Families::ANY));
    }
    d.field(fields, name, |d, node| {
        let text = d.text(node, "a host, a prefix or a prefix list")?;
        if text == "any" {
            return Some((Endpoint::Any, Families::ANY));
        }
        if !is_list_name(text) || text.parse::<std::net::IpAddr>().is_ok() {
            let net = prefixlist::prefix(d, node.place, text)?;
            return Some((Endpoint::Prefix(net), if net.addr().is_ipv4() { V4 } else { V6 }));
        }
        match lists.get(text) {
            Some(list) => Some((Endpoint::List(text.to_string()), list.families())),
            None => {
                let what = ("prefix list", "prefixlists");
                undeclared(d, node.place, text, what, lists.keys().copied());
                None
            }
        }
    })
}

/// Source and destination have members of a family that they share, and of the term's.
fn common_family<'n>(
    d: &mut Decoder<'n>,
    fields: &Fields<'n>,
    family: Families,
    (source, destination): (&End, &End),
) {
    let place = |name| fields.get(name).map_or(fields.place, |n: &Node<'_>| n.place);
    let word = if family == V4 { "IPv4" } else { "IPv6" };
    let mut fits = true;
    for (name, end) in [("source", source), ("destination", destination)] {
        if let Some((_, has)) = end
            && has.and(family).none()
        {
            fits = false;
            d.key(name, |d| {
                d.error(place(name), "acl-family", format!("the {name} has no {word} address"))
                    .help(format!("{word} addresses, or another `family`"));
            });
        }
    }
    if let (Some((_, a)), Some((_, b)), true) = (source, destination, fits)
        && a.and(*b).and(family).none()
    {
        d.key("destination", |d| {
            d.error(place("destination"), "acl-family", "source and destination have no family in common")
                .help("both with IPv4 addresses, or both with IPv6 addresses");
        });
    }
}

/// `Some(None)` for any protocol.
fn protocol<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Option<u8>> {
    let text = d.text(node, "a protocol")?;
    if text == "any" {
        return Some(None);
    }
    if let Some(n) = names::protocol(text) {
        return Some(Some(n));
    }
    let numeric = text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
    let (place, help): (Place, _) = (node.place, "1 to 255, or a name such as tcp, udp, icmp or ipv6-icmp");
    if numeric {
        let n = number(text).and_then(|n| u8::try_from(n).ok()).filter(|n| *n > 0);
        if n.is_none() {
            d.error(place, "range", format!("{} is out of range", short(text))).value(text).help(help);
        }
        return n.map(Some);
    }
    d.error(place, "protocol", format!("{} is no protocol that is known here", short(text)))
        .value(text)
        .help(help);
    None
}
