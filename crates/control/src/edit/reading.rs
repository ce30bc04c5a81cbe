//! What runs, as a tree that can be changed.

use super::routes::{Numbers, Routes};
use super::{Wrong, tree};
use crate::dump::{Dump, Source};
use crate::engine::route_count;
use crate::written::{Map, Node, write_field};
use graph::memory::{Growth, OutOfMemory};
use net::background::drop_aside;
use net::router::Router;
use std::collections::{HashMap, HashSet};

/// The section that is kept as text.
const ROUTES: &str = "routes";
/// What a value of the tree takes in memory, about, in bytes.
const NODE: usize = 96;

/// What runs, as far as it was read.
pub struct Reading {
    dump: Dump,
    base: Base,
    memory: Growth,
    begun: u64,
}

/// What runs, or what is to run.
#[derive(Default)]
pub struct Base {
    /// All sections; that of the routes is an empty list.
    root: Map,
    routes: Routes,
    /// MAC addresses that are only written down: those of interfaces for which the operator chose none.
    macs: Vec<(String, Node)>,
}

/// Values in a tree.
fn count(node: &Node) -> usize {
    match node {
        Node::Plain(_) | Node::Text(_) => 1,
        Node::List(items) | Node::Row(items) => 1 + items.iter().map(count).sum::<usize>(),
        Node::Map(map) | Node::Flow(map) => 1 + map.fields().map(|(_, v)| 1 + count(v)).sum::<usize>(),
    }
}

/// The mapping at a place, made where there is none.
fn mapping<'m>(root: &'m mut Map, names: &[std::borrow::Cow<'static, str>]) -> Option<&'m mut Map> {
    let Some((name, rest)) = names.split_first() else { return Some(root) };
    if root.get(name).is_none() {
        root.put(name.clone(), Map::new());
    }
    match root.get_mut(name) {
        Some(Node::Map(map)) => mapping(map, rest),
        _ => None,
    }
}

impl Reading {
    /// The whole document, or all but the routes where these are of no interest.
    pub fn of(router: &Router, with_routes: bool) -> Reading {
        let dump = if with_routes { Dump::default() } else { Dump::without_routes() };
        let mut reading =
            Reading { dump, base: Base::default(), memory: Growth::default(), begun: router.version() };
        if with_routes {
            reading.base.routes.reserve(route_count(router));
        }
        reading
    }

    /// Reads the next piece; false at the end.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn next(&mut self, from: Source<'_>) -> Result<bool, OutOfMemory> {
        let Some((place, node)) = self.dump.next(from) else {
            let written = from.router.interfaces().filter(|i| i.operators_mac().is_none());
            let written: HashSet<&str> = written.map(|i| i.name.as_str()).collect();
            let macs = self.base.macs().filter(|(name, _)| written.contains(name));
            self.base.macs = macs.map(|(name, mac)| (name.to_owned(), mac.clone())).collect();
            return Ok(false);
        };
        let Base { root, routes, .. } = &mut self.base;
        match node {
            Node::List(items) if place == [ROUTES] => {
                let before = routes.bytes();
                routes.push(&items);
                // A text grows to twice its size, beside the old one, and the document is written from it.
                self.memory.take(3 * (routes.bytes() - before))?;
                if root.get(ROUTES).is_none() && !items.is_empty() {
                    root.put(ROUTES, Node::List(vec![]));
                }
            }
            Node::List(items) => {
                self.memory.take(NODE * items.iter().map(count).sum::<usize>())?;
                let Some((name, above)) = place.split_last() else { return Ok(true) };
                if items.is_empty() {
                    return Ok(true);
                }
                if let Some(map) = mapping(root, above) {
                    match map.get_mut(name) {
                        Some(Node::List(all)) => all.extend(items),
                        _ => drop(map.put(name.clone(), Node::List(items))),
                    }
                }
            }
            Node::Map(fields) if !fields.is_empty() => {
                self.memory.take(NODE * fields.fields().map(|(_, v)| 1 + count(v)).sum::<usize>())?;
                if let Some(map) = mapping(root, &place) {
                    map.append(fields);
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Whether what a document says has changed since it began.
    pub fn is_stale(&self, router: &Router) -> bool {
        self.begun != router.version()
    }

    /// What was read.
    pub fn base(mut self) -> Base {
        std::mem::take(&mut self.base)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // It may be large, and is given up on the control thread.
        if !self.base.root.is_empty() {
            drop_aside(std::mem::take(&mut self.base));
        }
    }
}

/// What a place begins with, and the rest of it where that is of routes.
fn of_routes(place: &[String]) -> Option<&[String]> {
    place.split_first().filter(|(first, _)| *first == ROUTES).map(|(_, rest)| rest)
}

impl Base {
    /// The MAC addresses of interfaces that the section of these has.
    fn macs(&self) -> impl Iterator<Item = (&str, &Node)> {
        let section = match self.root.get("interfaces") {
            Some(Node::Map(map) | Node::Flow(map)) => Some(map),
            _ => None,
        };
        section.into_iter().flat_map(Map::fields).filter_map(|(name, fields)| match fields {
            Node::Map(map) | Node::Flow(map) => Some((name, map.get("mac")?)),
            _ => None,
        })
    }

    /// Those interfaces whose MAC address is only written down, and the same as it was.
    pub(super) fn macs_as_they_were(&self) -> Vec<String> {
        let is: HashMap<&str, &Node> = self.macs().collect();
        let same = self.macs.iter().filter(|(name, was)| is.get(name.as_str()) == Some(&was));
        same.map(|(name, _)| name.clone()).collect()
    }

    /// Does something with the tree as one value.
    fn with_root<R>(&mut self, act: impl FnOnce(&mut Node) -> R) -> R {
        let mut node = Node::Map(std::mem::take(&mut self.root));
        let done = act(&mut node);
        if let Node::Map(map) = node {
            self.root = map;
        }
        done
    }

    /// Has the section of routes stand there where there are any, and only then.
    fn mark_routes(&mut self) {
        match (self.root.get(ROUTES).is_some(), self.routes.is_empty()) {
            (false, false) => _ = self.root.put(ROUTES, Node::List(vec![])),
            (true, true) => _ = self.root.remove(ROUTES),
            _ => {}
        }
    }

    pub(super) fn set(&mut self, place: &[String], value: Node) -> Result<(), Wrong> {
        if place.is_empty() {
            return Err(Wrong::new("place", "the whole document is not set")
                .help("`configuration apply`, or a place in it"));
        }
        if let Some(rest) = of_routes(place) {
            self.routes.set(rest, &value)?;
            self.mark_routes();
            return Ok(());
        }
        let mut value = Some(value);
        let mut act = |node: &mut Node| {
            *node = value.take().unwrap_or_else(|| Node::Map(Map::new()));
            Ok(())
        };
        self.with_root(|root| tree::change(root, place, &mut act))
    }

    pub(super) fn merge(&mut self, place: &[String], with: &Node) -> Result<(), Wrong> {
        if of_routes(place).is_some() {
            return Err(Wrong::new("type", "routes are no mapping").help("`set` and `delete`"));
        }
        if !place.is_empty() {
            return self.with_root(|root| tree::change(root, place, &mut |node| tree::merge(node, with)));
        }
        let Node::Map(fields) = with else {
            return self.with_root(|root| tree::merge(root, with));
        };
        // The routes are none of the tree.
        let (mut others, mut routes) = (fields.clone(), None);
        if fields.get(ROUTES).is_some() {
            routes = others.remove(ROUTES);
        }
        self.with_root(|root| tree::merge(root, &Node::Map(others)))?;
        if let Some(routes) = routes {
            self.routes.set(&[], &routes)?;
        }
        self.mark_routes();
        Ok(())
    }

    pub(super) fn delete(&mut self, place: &[String]) -> Result<(), Wrong> {
        match of_routes(place) {
            Some(rest) => {
                self.routes.delete(rest)?;
                self.mark_routes();
                Ok(())
            }
            None => self.with_root(|root| tree::delete(root, place)),
        }
    }

    /// Hides the secrets.
    pub fn hide(&mut self) {
        self.with_root(crate::yaml::secrets::hide);
    }

    /// What stands at a place, as JSON; `None` where nothing does.
    ///
    /// # Errors
    /// The place names several things, or nothing can stand there.
    pub fn get(&mut self, place: &super::Place) -> Result<String, command::CommandError> {
        let elements = place.elements();
        let found = match of_routes(elements) {
            Some(rest) => self.routes.get(rest),
            None if elements.is_empty() => Ok(self.whole()),
            None => self.with_root(|root| tree::get(root, elements).map(|n| n.to_json().to_string())),
        };
        found.map_err(|Wrong(fault)| {
            let fault = command::Fault { object: place.to_string(), ..*fault };
            command::CommandError::new(super::sentence(&fault)).with_faults(vec![fault])
        })
    }

    fn whole(&mut self) -> String {
        let mut out = String::from("{");
        for (name, value) in self.root.fields() {
            out.push_str(if out.len() == 1 { "" } else { "," });
            out.push_str(&serde_json::Value::from(name).to_string());
            out.push(':');
            match name == ROUTES {
                true => out.push_str(&self.routes.get(&[]).unwrap_or_default()),
                false => out.push_str(&value.to_json().to_string()),
            }
        }
        out.push('}');
        out
    }

    /// What the paths of routes follow from.
    pub(super) fn numbers(&self) -> Numbers {
        self.routes.numbers()
    }

    /// The path by which errors of a document name a place.
    pub(super) fn path(&mut self, numbers: &Numbers, place: &[String]) -> String {
        match of_routes(place) {
            Some([element, ..]) => {
                let number = self.routes.number(numbers, element);
                number.map_or_else(|| ROUTES.into(), |n| format!("{ROUTES}[{n}]"))
            }
            Some([]) => ROUTES.into(),
            None => self.with_root(|root| {
                let mut path = String::new();
                tree::path(root, place, &mut path);
                path
            }),
        }
    }

    /// The document, and the line of its first route, 0 where it has none.
    pub(super) fn write(&self) -> (String, u32) {
        let (mut out, mut line) = (String::with_capacity(self.routes.bytes() + 4096), 0);
        for (name, value) in self.root.fields() {
            if name == ROUTES {
                crate::written::write_name(&mut out, name, 0);
                let before = out.bytes().filter(|b| *b == b'\n').count();
                line = u32::try_from(before + 1).unwrap_or(u32::MAX);
                self.routes.write(&mut out);
            } else {
                write_field(&mut out, name, value, 0);
            }
        }
        (out, line)
    }
}
