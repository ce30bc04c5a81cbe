//! Interfaces that features make: a section for each kind declares them, and `interfaces` says what they have in common with others.
//! A feature has a file here, with all that the document says of its interfaces, and one line in [`SECTIONS`].

mod gre;

use std::collections::BTreeMap;

use super::decode::{Decoder, Fields};
use super::diag::Place;
use super::interface::{blank, numbered};
use super::model::{Interface, InterfaceKind};
use super::table::Tables;
use super::tree::Node;
use crate::dump::{Map, Source};
use net::router::{IfState, Op, RouteTable};

/// An interface that a section declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Virtual {
    /// Where it is declared.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// What makes it.
    pub op: Op,
    /// It carries frames; else packets to one other end.
    pub frames: bool,
    /// The routing table of its ends.
    pub table: RouteTable,
    /// Its MTU where the document gives none, bytes.
    pub mtu: u16,
}

/// Those of one section, by name.
pub(super) type All<'n> = BTreeMap<&'n str, Virtual>;

/// A section that declares interfaces.
pub(crate) struct Section {
    /// Its name.
    pub name: &'static str,
    /// What the names of its interfaces begin with; a number follows.
    pub stem: &'static str,
    /// The fields of an entry.
    pub fields: &'static [&'static str],
    /// Reads an entry; those before it are known.
    pub(in crate::yaml) decode:
        for<'n> fn(&mut Decoder<'n>, &'n str, Place, &Fields<'n>, &All<'n>) -> Option<Virtual>,
    /// Writes an entry for an interface that is of this kind.
    pub dump: fn(Source<'_>, &IfState, &mut Map),
}

/// All of them.
pub(crate) const SECTIONS: &[Section] = &[gre::SECTION];

/// The section that declares an interface of this name.
pub(super) fn section_of(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|s| numbered(name, s.stem).is_some())
}

/// The interfaces of a section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, section: &Section) -> Option<All<'n>> {
    let mut all = All::new();
    for (name, place, node) in d.entries(node, "interface names") {
        let one = d.key(name, |d| {
            let fields = d.fields(node, section.fields)?;
            (section.decode)(d, name, place, &fields, &all)
        });
        all.extend(one.map(|v| (name, v)));
    }
    Some(all)
}

/// The interfaces of which `interfaces` does not speak.
pub(super) fn remaining(all: All<'_>) -> impl Iterator<Item = Interface> {
    all.into_iter().map(|(name, v)| {
        let (path, place, mtu) = (v.path.clone(), v.place, v.mtu);
        Interface { mtu, ..blank(path, name, place, InterfaceKind::Virtual(v)) }
    })
}

/// Reports routing tables of ends that are not declared.
pub(super) fn check_tables(d: &mut Decoder<'_>, interfaces: &[Interface], tables: &Tables) {
    for i in interfaces {
        if let InterfaceKind::Virtual(v) = &i.kind {
            let section = section_of(&i.name).map_or("interfaces", |s| s.name);
            d.key(section, |d| tables.check(d, v.place, v.table));
        }
    }
}
