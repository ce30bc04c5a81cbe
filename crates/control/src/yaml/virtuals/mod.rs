//! Interfaces that features make: a section for each kind declares them, and `interfaces` says what they have in common with others.
//! A feature has a file here, with all that the document says of its interfaces, and one line in [`SECTIONS`].

mod bond;
mod gre;
mod memif;
mod vhost;
mod vxlan;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::decode::{Decoder, Fields};
use super::diag::{Diagnostic, Place};
use super::interface::{blank, only_declared};
use super::l3::Setting;
use super::model::{Interface, InterfaceKind};
use super::rules::Names;
use super::table::Tables;
use super::tree::Node;
use crate::written::{self, Map};
use net::router::{IfState, Op, RouteTable, Router};
use net::tunnel::{Identity, Outside};
use packet::MacAddr;

/// An interface that a section declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Virtual {
    /// Where it is declared.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// What makes it; `None` where its entry is faulty, which was reported.
    pub op: Option<Op>,
    /// What its section says to describe it.
    pub description: Option<String>,
    /// It carries frames; else packets to one other end.
    pub frames: bool,
    /// The routing table of its ends.
    pub table: RouteTable,
    /// Its MTU where the document gives none, bytes.
    pub mtu: u16,
    /// Its MAC address, where its section says that.
    pub mac: Option<MacAddr>,
    /// Other interfaces, with what it is told of each, or that of it.
    pub others: Vec<(String, Setting)>,
}

impl Virtual {
    /// One of frames in the main table, of which its section says no more; its path is where the reader is.
    fn of(d: &Decoder<'_>, place: Place, op: Option<Op>, mtu: u16) -> Virtual {
        let table = RouteTable { id: 0, v6: false };
        let (description, mac, others) = (None, None, vec![]);
        Virtual { place, path: d.path(), op, description, frames: true, table, mtu, mac, others }
    }
}

/// Those of one section, by name.
pub(super) type All<'n> = BTreeMap<&'n str, Virtual>;

/// What no two entries of a section share, with the entry that has it.
pub(super) type Seen<'n> = HashMap<Identity, (&'n str, Place)>;

/// A section that declares interfaces.
pub(crate) struct Section {
    /// Its name.
    pub name: &'static str,
    /// Whether its interfaces have names like this one.
    pub named: fn(&str) -> bool,
    /// Whether its interfaces must stand in `interfaces`, too.
    pub stands_twice: bool,
    /// Whether a MAC address stands in the section, and not in `interfaces`.
    pub says_mac: bool,
    /// The fields of an entry.
    pub fields: &'static [&'static str],
    /// Those of them that only who may configure sees.
    pub secrets: &'static [&'static str],
    /// Reads an entry; those before it have been seen.
    pub(in crate::yaml) decode:
        for<'n> fn(&mut Decoder<'n>, &'n str, Place, &Fields<'n>, &mut Seen<'n>) -> Option<Virtual>,
    /// Writes an entry for an interface that is of this kind.
    pub dump: fn(&Router, &IfState, &mut Map),
}

/// All of them.
pub(crate) const SECTIONS: &[Section] =
    &[bond::SECTION, gre::SECTION, vxlan::SECTION, memif::SECTION, vhost::SECTION];

/// The section that declares an interface of this name.
pub(crate) fn section_of(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|s| (s.named)(name))
}

/// The interfaces of a section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, section: &Section) -> Option<All<'n>> {
    let (mut all, mut seen) = (All::new(), Seen::new());
    for (name, place, node) in d.entries(node, "interface names") {
        let one = d.key(name, |d| {
            let path = d.path();
            let fields = d.fields(node, section.fields);
            let description = fields.as_ref().and_then(|fields| {
                let has = section.fields.contains(&"description");
                has.then(|| d.field(fields, "description", |d, node| d.description(node))).flatten()
            });
            let one = fields.and_then(|fields| (section.decode)(d, name, place, &fields, &mut seen));
            let faulty = || Virtual { path, ..Virtual::of(d, place, None, 0) };
            Virtual { description, ..one.unwrap_or_else(faulty) }
        });
        all.insert(name, one);
    }
    Some(all)
}

/// The interfaces of which `interfaces` does not speak; those of which it must are reported.
pub(super) fn remaining(d: &mut Decoder<'_>, all: All<'_>) -> Vec<Interface> {
    let must = all.iter().filter(|(name, _)| section_of(name).is_some_and(|s| s.stands_twice));
    must.for_each(|(name, v)| only_declared(d, name, v.place, &v.path));
    let interface = |(name, v): (&str, Virtual)| {
        let (path, place, mtu, mac, description) =
            (v.path.clone(), v.place, v.mtu, v.mac, v.description.clone());
        Interface { mtu, mac, description, ..blank(path, name, place, InterfaceKind::Virtual(v)) }
    };
    all.into_iter().map(interface).collect()
}

/// What `interfaces` says of an interface, with what its section says where that is silent.
pub(super) fn fill(i: &mut Interface, has_mtu: bool) {
    let InterfaceKind::Virtual(v) = &i.kind else { return };
    if !has_mtu {
        i.mtu = v.mtu;
    }
    if i.description.is_none() {
        i.description.clone_from(&v.description);
    }
    i.mac = i.mac.or(v.mac);
}

/// What the header outside of a tunnel between these ends says.
fn outside<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, local: IpAddr, remote: IpAddr) -> Outside {
    let own = Outside::new(local, remote);
    Outside {
        table: d.field(fields, "table", |d, node| d.int(node, 0, u32::MAX)).unwrap_or(own.table),
        ttl: d.field(fields, "ttl", |d, node| copied(d, node, 1, 255)).unwrap_or(own.ttl),
        dscp: d.field(fields, "dscp", |d, node| copied(d, node, 0, 63)).unwrap_or(own.dscp),
        ..own
    }
}

/// A number, or `copy`: `Some(None)`.
fn copied<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, least: u8, most: u8) -> Option<Option<u8>> {
    if d.is_word(node, "copy") { Some(None) } else { d.int(node, least, most).map(Some) }
}

/// An address that a tunnel must have.
fn address<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, field: &'static str, help: &str) -> Option<IpAddr> {
    d.required(fields, field, help, |d, node| {
        let text = d.text(node, "an address")?;
        d.address(node.place, text)
    })
}

/// Writes the TTL and DSCP of a tunnel's packets where they are not what they are by default.
fn put_marks(to: &mut Map, ttl: Option<u8>, dscp: Option<u8>, own: Outside) {
    let copied = |n: Option<u8>| n.map_or(written::Node::from("copy"), written::Node::from);
    to.put_some("ttl", (ttl != own.ttl).then(|| copied(ttl)));
    to.put_some("dscp", (dscp != own.dscp).then(|| copied(dscp)));
}

/// What they are told of other interfaces, once all stand; names that stand for none are reported.
pub(super) fn of_others(d: &mut Decoder<'_>, interfaces: &[Interface], names: &Names<'_>) -> Vec<Setting> {
    let mut settings = vec![];
    for i in interfaces {
        let InterfaceKind::Virtual(v) = &i.kind else { continue };
        for (other, setting) in &v.others {
            match names.get(other) {
                Ok(_) => settings.push(setting.clone()),
                Err(e) => {
                    let error = Diagnostic::new(setting.place, setting.path.clone(), e.rule, e.message);
                    d.errors.add(error).value(other).help(e.help);
                }
            }
        }
    }
    settings
}

/// Reports interfaces that cannot be beside one another, and those whose MTU is more than they can have.
pub(super) fn check(d: &mut Decoder<'_>, interfaces: &[Interface]) {
    memif::check(d, interfaces);
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
