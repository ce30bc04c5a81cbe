//! The sections `acls` and `prefixlists`, and the field `acls` of interfaces.

use std::collections::BTreeMap;

use super::decode::{Decoder, nearest};
use super::diag::Place;
use super::scalar::{Reference, short};
use super::tree::{Node, Value};

mod names;
pub(super) mod prefixlist;
mod range;
mod term;

pub use prefixlist::PrefixList;
pub use range::Range;
pub use term::{Action, Endpoint, Term};

#[cfg(test)]
pub(super) use term::TERM;

pub(super) const ACL: &[&str] = &["description", "terms"];
const SIDES: &[&str] = &["input", "output"];
const MOST_TERMS: usize = 100;

/// An access control list.
#[derive(Debug, Clone, PartialEq)]
pub struct Acl {
    /// Its name.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Free text.
    pub description: Option<String>,
    /// Its terms: the first that matches decides.
    pub terms: Vec<Term>,
}

/// The access control lists of an interface, in the order in which they are asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AclUse {
    /// For packets received.
    pub input: Vec<Reference>,
    /// For packets sent.
    pub output: Vec<Reference>,
}

/// Families of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

impl Families {
    const ANY: Families = Families { v4: true, v6: true };

    fn and(self, other: Families) -> Families {
        Families { v4: self.v4 && other.v4, v6: self.v6 && other.v6 }
    }

    fn none(self) -> bool {
        !self.v4 && !self.v6
    }
}

/// The section.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    lists: &BTreeMap<&'n str, PrefixList>,
) -> Option<Vec<Acl>> {
    let mut acls = Vec::new();
    for (name, place, node) in d.entries(node, "names of ACLs") {
        let acl = d.key(name, |d| {
            list_name(d, name, place);
            acl(d, name, place, node, lists)
        });
        acls.push(acl);
    }
    Some(acls)
}

fn acl<'n>(
    d: &mut Decoder<'n>,
    name: &str,
    place: Place,
    node: &'n Node<'n>,
    lists: &BTreeMap<&'n str, PrefixList>,
) -> Acl {
    let mut acl = Acl { name: name.to_string(), place, description: None, terms: Vec::new() };
    let Some(fields) = d.fields(node, ACL) else { return acl };
    acl.description = d.field(&fields, "description", |d, node| d.description(node));
    d.required(&fields, "terms", "terms: 1 to 100 of them, each with an action", |d, node| {
        let items = d.items(node, "terms");
        let is_list = matches!(node.value, Value::List(_));
        if is_list && (items.is_empty() || items.len() > MOST_TERMS) {
            let place = items.get(MOST_TERMS).map_or(node.place, |n| n.place);
            d.error(place, "terms-count", format!("{} terms in one ACL", items.len()))
                .help(format!("1 to {MOST_TERMS}"));
        }
        for (i, node) in items.iter().enumerate() {
            acl.terms.extend(d.index(i, |d| term::decode(d, node, lists)));
        }
        Some(())
    });
    acl
}

/// Checks the name of an ACL or of a prefix list.
fn list_name(d: &mut Decoder<'_>, name: &str, place: Place) {
    if !is_list_name(name) {
        d.error(place, "object-name", format!("{} is not a name for this section", short(name)))
            .value(name)
            .help("a lower-case letter, then lower-case letters, digits and `-`; 2 to 56 characters");
    }
}

fn is_list_name(name: &str) -> bool {
    let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (2..=56).contains(&name.len())
        && name.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
        && name.bytes().all(rest)
}

/// The field `acls` of an interface.
pub(super) fn uses<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<AclUse> {
    let fields = d.fields(node, SIDES)?;
    let side = |d: &mut Decoder<'n>, name| {
        d.field(&fields, name, |d, node| {
            let one = |d: &mut Decoder<'n>, node: &'n Node<'n>| {
                let name = d.text(node, "the name of an ACL")?.to_string();
                Some(Reference { name, place: node.place })
            };
            let Value::List(items) = &node.value else { return one(d, node).map(|r| vec![r]) };
            let of = |(i, node)| d.index(i, |d| one(d, node));
            Some(items.iter().enumerate().filter_map(of).collect())
        })
    };
    let (input, output) = (side(d, "input"), side(d, "output"));
    Some(AclUse { input: input.unwrap_or_default(), output: output.unwrap_or_default() })
}

/// Why a name stands for none of the things of a section.
fn undeclared<'k>(
    d: &mut Decoder<'_>,
    place: Place,
    name: &str,
    (what, section): (&str, &str),
    known: impl Iterator<Item = &'k str>,
) {
    let near = nearest(name, known.take(1000).filter(|_| !d.errors.is_full()));
    let help = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("add it to the section `{section}`"),
    };
    d.error(place, "undeclared", format!("the {what} {} is not declared", short(name)))
        .value(name)
        .help(help);
}
