//! The running state as a document that loads to the same state: `quiver dump`, `show configuration`.
//!
//! A feature has one file here, with a function for each place of the document that it fills, and one line for each in
//! the lists below: `SECTIONS` for a section of its own, `INTERFACE` for fields of interfaces and sub-interfaces, `L3` for
//! those of `l3.interfaces`, `DEVICE` for fields of `devices`, `QUIVER` for fields of `quiver`. A function is given the router and fills a
//! [`Map`]; fields that have their default are left out. A list that may be long is made page by page ([`Pages`]), so
//! that a million routes take little memory and do not hold up the control thread.

mod advertise;
mod devices;
mod interfaces;
mod l2;
mod l3;
mod mpls;
mod neighbors;
mod node;
mod punt;
mod routes;
mod settings;
mod streams;
mod tables;

pub use node::{Map, Node};

use crate::yaml::Settings;
use command::Page;
use net::router::{IfState, Router};
use serde_json::Value as Json;

/// Where the state is read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The router.
    pub router: &'a Router,
    /// What only the process knows: sockets, log.
    pub settings: &'a Settings,
}

/// How a section is made.
enum Section {
    /// A mapping, made at once.
    Map(fn(Source<'_>, &mut Map)),
    /// A list that may be long.
    Pages(fn() -> Box<dyn Pages>),
}

/// A long list that is made in pieces. The state may change between two of them.
pub trait Pages {
    /// Adds the next items, some [`PAGE`] of them, to `items`; false when the list is at its end.
    fn page(&mut self, from: Source<'_>, items: &mut Vec<Node>) -> bool;
}

/// Items of a page, about.
pub const PAGE: usize = 2000;

/// The sections of a document, in the order in which they are written. One that turns out empty is left out.
const SECTIONS: &[(&str, Section)] = &[
    ("quiver", Section::Map(settings::write)),
    ("devices", Section::Map(devices::write)),
    ("taps", Section::Map(devices::taps)),
    ("loopbacks", Section::Map(interfaces::loopbacks)),
    ("interfaces", Section::Map(interfaces::write)),
    ("bridgedomains", Section::Map(l2::bridges)),
    ("l2", Section::Map(l2::write)),
    ("tables", Section::Map(tables::write)),
    ("l3", Section::Map(l3::write)),
    ("punt", Section::Map(punt::write)),
    ("mpls", Section::Map(mpls::write)),
    ("neighbors", Section::Pages(|| Box::<neighbors::Neighbors>::default())),
    ("routes", Section::Pages(|| Box::<routes::Routes>::default())),
    ("packet-generator", Section::Map(streams::write)),
];

/// Fields of an interface, loopback or sub-interface that a feature adds to those of `interfaces.rs`.
const INTERFACE: &[fn(Source<'_>, &IfState, &mut Map)] = &[l3::unnumbered, mpls::enabled];

/// Fields of an entry of `l3.interfaces`.
const L3: &[fn(Source<'_>, &IfState, &mut Map)] = &[
    interfaces::further_addresses,
    tables::binding,
    l3::urpf,
    l3::reassembly,
    l3::clamp,
    l3::mtu,
    l3::redirects,
    l3::proxy_arp,
    l3::switches,
    l3::groups,
    advertise::write,
];

/// Fields of an entry of `devices` that a feature adds to those of `devices.rs`.
const DEVICE: &[fn(Source<'_>, &IfState, &mut Map)] = &[];

/// Fields of `quiver` that a feature adds to those of `settings.rs`.
const QUIVER: &[fn(Source<'_>, &mut Map)] = &[];

/// A document that is being written.
#[derive(Default)]
pub struct Dump {
    /// The section that comes next.
    at: usize,
    pages: Option<Box<dyn Pages>>,
    /// The section whose name was written last.
    named: Option<&'static str>,
    /// In JSON: that section is a list which may go on.
    open: bool,
}

impl Dump {
    /// The next piece of the document: the name of its section, and its value or more items of its list. `None` at the
    /// end.
    fn next(&mut self, from: Source<'_>) -> Option<(&'static str, Node)> {
        loop {
            let (name, section) = SECTIONS.get(self.at)?;
            let node = match section {
                Section::Map(write) => {
                    self.at += 1;
                    let mut map = Map::new();
                    write(from, &mut map);
                    Node::Map(map)
                }
                Section::Pages(start) => {
                    let pages = self.pages.get_or_insert_with(start);
                    let mut items = Vec::with_capacity(PAGE);
                    if !pages.page(from, &mut items) {
                        self.pages = None;
                        self.at += 1;
                    }
                    Node::List(items)
                }
            };
            if !node.is_empty() {
                return Some((name, node));
            }
        }
    }

    /// The next piece of the document as YAML; `None` at the end.
    pub fn next_text(&mut self, from: Source<'_>) -> Option<String> {
        let (name, node) = self.next(from)?;
        let mut out = String::new();
        if self.named != Some(name) {
            out.push_str(name);
            out.push(':');
            node.write(&mut out, 1);
            self.named = Some(name);
        } else if let Node::List(items) = node {
            items.iter().for_each(|item| item.write_item(&mut out, 1));
        }
        Some(out)
    }

    /// Writes the next piece of the document as JSON; false at the end.
    pub fn next_json(&mut self, from: Source<'_>, page: &mut Page) -> bool {
        let (piece, open) = (self.next(from), self.open);
        if self.named.is_none() {
            page.open("{");
            self.named = Some("");
        }
        let name = piece.as_ref().map(|(name, _)| *name);
        // A list goes on over several pieces.
        if open && name != self.named {
            page.close("]");
            self.open = false;
        }
        let Some((name, node)) = piece else {
            page.close("}");
            return false;
        };
        match node {
            Node::List(items) => {
                if !self.open {
                    page.open_field(name, "[");
                    self.open = true;
                }
                items.iter().for_each(|item| page.item(&item.to_json()));
            }
            node => page.field(name, &node.to_json()),
        }
        self.named = Some(name);
        true
    }

    /// The whole document as YAML.
    pub fn text(from: Source<'_>) -> String {
        let mut dump = Dump::default();
        std::iter::from_fn(|| dump.next_text(from)).collect()
    }

    /// The whole document as JSON.
    pub fn json(from: Source<'_>) -> Json {
        let (mut dump, mut page) = (Dump::default(), Page::new(true));
        while dump.next_json(from, &mut page) {}
        serde_json::from_str(&page.take()).unwrap_or_default()
    }
}
