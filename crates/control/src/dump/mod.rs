//! The running state as a document that loads to the same state: `quiver dump`, `show configuration`.
//!
//! A feature has one file here, with a function for each place of the document that it fills, and one line for each in
//! the lists below: `SECTIONS` for a section or a part of one, `INTERFACE` for fields of interfaces and sub-interfaces, `L3` for
//! those of `l3.interfaces`, `DEVICE` for fields of `devices`, `QUIVER` for fields of `quiver`. A function is given the router and fills a
//! `Map`; fields that have their default are left out. What may be long is made in pieces ([`Pages`]), so that a million
//! routes or thousands of interfaces take little memory and do not hold up the control thread.

mod advertise;
mod devices;
mod interfaces;
mod l2;
mod l3;
mod linux_cp;
mod mpls;
mod neighbors;
mod punt;
mod routes;
mod settings;
mod span;
mod streams;
mod tables;

use crate::written::{Map, Node};
use crate::yaml::Settings;
use crate::yaml::virtuals::SECTIONS;
use command::Page;
use net::router::{IfState, Order, Router};
pub(crate) use routes::target_words;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::VecDeque;

/// Where the state is read.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The router.
    pub router: &'a Router,
    /// What only the process knows: sockets, log.
    pub settings: &'a Settings,
}

/// How a part of the document is made.
enum Part {
    /// Fields of a mapping, made at once.
    Fields(fn(Source<'_>, &mut Map)),
    /// A field for each interface of which the function has something to say.
    Interfaces(fn(Source<'_>, &IfState) -> Option<Node>),
    /// A list or mapping that may be long.
    Pages(fn() -> Box<dyn Pages>),
}

/// A long list or mapping that is made in pieces. The state may change between two of them.
pub trait Pages: Send {
    /// Adds what comes next, some [`PAGE`] items or fields, or nothing where it has looked in vain for as long; false at the end.
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool;

    /// The same as lines of text at `depth` levels, where they are made without values in between. There are no secrets in them.
    fn lines(&mut self, _from: Source<'_>, _depth: usize, _out: &mut String) -> Option<bool> {
        None
    }
}

/// Items or fields of a page, about.
pub const PAGE: usize = 100;
/// Interfaces that are looked at for a page.
const INTERFACES: usize = 16;

/// The names from a section down to a list or mapping within it.
type Path = Vec<Cow<'static, str>>;

/// What a page holds: items and fields, each with its place below that of the part.
#[derive(Default)]
pub struct Pieces(VecDeque<(Path, Node)>);

impl Pieces {
    /// Adds items to the list of the part.
    pub fn items(&mut self, items: Vec<Node>) {
        self.0.push_back((vec![], Node::List(items)));
    }

    /// Adds fields to the mapping at a place, which stand together: one that another place followed is not gone back to.
    pub fn fields(&mut self, place: Path, fields: Map) {
        match self.0.back_mut() {
            Some((last, Node::Map(map))) if *last == place => map.append(fields),
            _ => self.0.push_back((place, Node::Map(fields))),
        }
    }
}

/// The parts of a document, each with its place, in the order in which they are written. What turns out empty is left out.
const PARTS: &[(&[&str], Part)] = &[
    (&["quiver"], Part::Fields(settings::write)),
    (&["devices"], Part::Interfaces(devices::device)),
    (&["taps"], Part::Interfaces(devices::tap)),
    (&["loopbacks"], Part::Interfaces(interfaces::loopback)),
    (&[], Part::Pages(|| Box::<Virtuals>::default())),
    (&["interfaces"], Part::Pages(|| Box::<interfaces::Interfaces>::default())),
    (&["bridgedomains"], Part::Pages(|| Box::<l2::Bridges>::default())),
    (&["l2"], Part::Fields(l2::limit)),
    (&["l2", "interfaces"], Part::Pages(|| Box::<l2::Ports>::default())),
    (&["l2", "bridgedomains"], Part::Pages(|| Box::<l2::Domains>::default())),
    (&["linux-cp"], Part::Fields(linux_cp::settings)),
    (&["linux-cp", "interfaces"], Part::Interfaces(linux_cp::pair)),
    (&["span"], Part::Pages(|| Box::<span::Mirrors>::default())),
    (&["tables"], Part::Pages(|| Box::<tables::Tables>::default())),
    (&["l3"], Part::Fields(l3::reassembly_limits)),
    (&["l3", "interfaces"], Part::Interfaces(l3::interface)),
    (&["l3"], Part::Fields(l3::write)),
    (&["punt"], Part::Fields(punt::write)),
    (&["mpls"], Part::Fields(mpls::tables)),
    (&["mpls", "local-labels"], Part::Pages(|| Box::<mpls::Labels>::default())),
    (&["mpls", "tunnels"], Part::Interfaces(mpls::tunnel)),
    (&["neighbors"], Part::Pages(|| Box::<neighbors::Neighbors>::default())),
    (&["routes"], Part::Pages(|| Box::<routes::Routes>::default())),
    (&["packet-generator"], Part::Fields(streams::write)),
];

/// Fields of an interface, loopback or sub-interface that a feature adds to those of `interfaces.rs`.
const INTERFACE: &[fn(Source<'_>, &IfState, &mut Map)] = &[l3::unnumbered, mpls::enabled, linux_cp::lcp];

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
const DEVICE: &[fn(Source<'_>, &IfState, &mut Map)] = &[devices::handoff];

/// Fields of `quiver` that a feature adds to those of `settings.rs`.
const QUIVER: &[fn(Source<'_>, &mut Map)] = &[];

/// A mapping with a field for each interface.
struct Interfaces {
    after: Option<Order>,
    field: fn(Source<'_>, &IfState) -> Option<Node>,
}

impl Pages for Interfaces {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let mut fields = Map::new();
        let more = each(from, &mut self.after, |i| {
            if let Some(value) = (self.field)(from, i) {
                fields.put(i.name.clone(), value);
            }
        });
        to.fields(vec![], fields);
        more
    }
}

/// The sections of interfaces that features make.
#[derive(Default)]
struct Virtuals {
    /// The section that comes next.
    at: usize,
    after: Option<Order>,
}

impl Pages for Virtuals {
    fn page(&mut self, from: Source<'_>, to: &mut Pieces) -> bool {
        let Some(section) = SECTIONS.get(self.at) else { return false };
        let mut all = Map::new();
        let more = each(from, &mut self.after, |i| {
            let mut fields = Map::new();
            (section.dump)(from.router, i, &mut fields);
            if !fields.is_empty() {
                all.put(i.name.clone(), fields);
            }
        });
        to.fields(vec![section.name.into()], all);
        if !more {
            (self.at, self.after) = (self.at + 1, None);
        }
        self.at < SECTIONS.len()
    }
}

/// Calls `take` with some interfaces behind a place, which it moves; false when those were the last.
fn each(from: Source<'_>, after: &mut Option<Order>, mut take: impl FnMut(&IfState)) -> bool {
    let mut left = INTERFACES;
    for i in from.router.interfaces_after(*after) {
        if !i.companion {
            take(i);
        }
        *after = Some(i.order());
        left -= 1;
        if left == 0 {
            return true;
        }
    }
    false
}

/// The fields of the section `quiver`, a line each.
pub(crate) fn settings_text(from: Source<'_>) -> String {
    let (mut fields, mut out) = (Map::new(), String::new());
    settings::write(from, &mut fields);
    Node::Map(fields).write_within(&mut out, 0);
    out
}

/// A document that is being written.
#[derive(Default)]
pub struct Dump {
    /// The part that comes next.
    at: usize,
    /// The section of routes is left out.
    routeless: bool,
    /// Secrets are hidden.
    hides: bool,
    pages: Option<Box<dyn Pages>>,
    /// What is made of it and not written yet.
    made: Pieces,
    /// The names from the section down to the list or mapping that was written last.
    open: Path,
    /// In JSON: that is a list; something was written.
    in_list: bool,
    begun: bool,
}

impl Dump {
    /// One without the section `routes`.
    pub fn without_routes() -> Self {
        Dump { routeless: true, ..Dump::default() }
    }

    /// One without secrets, where these are `hidden`.
    #[must_use]
    pub fn hiding(mut self, hidden: bool) -> Self {
        self.hides = hidden;
        self
    }

    /// The next piece of the document: a place, and items of the list or fields of the mapping there. It may be empty, so that
    /// others have their turn. `None` at the end.
    pub(crate) fn next(&mut self, from: Source<'_>) -> Option<(Path, Node)> {
        if self.made.0.is_empty() {
            if self.routeless && PARTS.get(self.at).is_some_and(|(place, _)| *place == ["routes"]) {
                self.at += 1;
            }
            let (place, part) = PARTS.get(self.at)?;
            let mut made = Pieces::default();
            let more = match part {
                Part::Fields(write) => {
                    let mut fields = Map::new();
                    write(from, &mut fields);
                    made.fields(vec![], fields);
                    false
                }
                Part::Interfaces(field) => {
                    let start = || Box::new(Interfaces { after: None, field: *field });
                    self.pages.get_or_insert_with(|| start()).page(from, &mut made)
                }
                Part::Pages(start) => self.pages.get_or_insert_with(start).page(from, &mut made),
            };
            if !more {
                self.pages = None;
                self.at += 1;
            }
            let whole = |below: Path| place.iter().map(|name| Cow::Borrowed(*name)).chain(below).collect();
            self.made.0.extend(made.0.into_iter().map(|(below, node)| (whole(below), node)));
        }
        let mut piece = self.made.0.pop_front().unwrap_or_else(|| (vec![], Node::Map(Map::new())));
        if self.hides {
            crate::yaml::secrets::hide(&mut piece.1);
        }
        Some(piece)
    }

    /// Goes to a place, and answers how many of the names to it were open.
    fn go(&mut self, place: Path) -> usize {
        let same = self.open.iter().zip(&place).take_while(|(a, b)| a == b).count();
        self.open = place;
        same
    }

    /// Goes to a place; the lines that name what was not open.
    fn names_to(&mut self, place: Path) -> String {
        let (open, mut out) = (self.go(place), String::new());
        for (depth, name) in self.open.iter().enumerate().skip(open) {
            crate::written::write_name(&mut out, name, depth);
        }
        out
    }

    /// The next piece of the document as YAML, which may be empty; `None` at the end.
    pub fn next_text(&mut self, from: Source<'_>) -> Option<String> {
        if let Some(lines) = self.next_lines(from) {
            return Some(lines);
        }
        let (place, node) = self.next(from)?;
        if node.is_empty() {
            return Some(String::new());
        }
        let mut out = self.names_to(place);
        node.write_within(&mut out, self.open.len());
        Some(out)
    }

    /// The next piece where its part makes lines.
    fn next_lines(&mut self, from: Source<'_>) -> Option<String> {
        if !self.made.0.is_empty() {
            return None;
        }
        let (place, Part::Pages(start)) = PARTS.get(self.at)? else { return None };
        if self.routeless && *place == ["routes"] {
            return None;
        }
        let mut out = String::new();
        let more = self.pages.get_or_insert_with(start).lines(from, place.len(), &mut out)?;
        if !more {
            self.pages = None;
            self.at += 1;
        }
        if !out.is_empty() {
            let names = self.names_to(place.iter().copied().map(Cow::Borrowed).collect());
            out.insert_str(0, &names);
        }
        Some(out)
    }

    /// Writes the next piece of the document as JSON; false at the end.
    pub fn next_json(&mut self, from: Source<'_>, page: &mut Page) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            page.open("{");
        }
        let piece = self.next(from);
        let more = piece.is_some();
        let (place, node) = piece.unwrap_or_else(|| (vec![], Node::Map(Map::new())));
        if more && node.is_empty() {
            return true;
        }
        let was = self.open.len();
        let open = self.go(place);
        for depth in (open..was).rev() {
            page.close(if self.in_list && depth + 1 == was { "]" } else { "}" });
        }
        self.in_list = matches!(node, Node::List(_));
        for (depth, name) in self.open.iter().enumerate().skip(open) {
            let list = self.in_list && depth + 1 == self.open.len();
            page.open_field(name, if list { "[" } else { "{" });
        }
        node.write_json(page);
        if !more {
            page.close("}");
        }
        more
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
