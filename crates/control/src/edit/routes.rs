//! The section `routes`: a line each, of which there may be millions. What is not changed stays the text that it is.

use super::Wrong;
use super::place::{Item, same};
use super::tree;
use crate::written::Node;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How deep the lines stand in the document.
const DEPTH: usize = 1;
/// Bytes of a line, about.
const LINE: usize = 48;
/// Ranks that a refusal tells.
const RANKS: usize = 8;
/// Fields by which a route may be named.
const FIELDS: [&str; 4] = ["prefix", "table", "preference", "metric"];

/// See the module.
#[derive(Default)]
pub(super) struct Routes {
    /// As a dump writes them, an item a line.
    text: String,
    /// Where the lines begin.
    starts: Vec<usize>,
    /// Lines by their table and prefix, in order of a hash of these; made when it is first needed.
    index: Option<Vec<(u64, u32)>>,
    /// Lines that are replaced, or gone.
    changed: BTreeMap<usize, Option<Node>>,
    /// How many of them are gone.
    gone: usize,
    /// What comes behind them.
    added: Vec<Option<Node>>,
    /// How many of these are there.
    more: usize,
    /// The same by table and prefix.
    added_at: HashMap<u64, Vec<usize>>,
}

/// What a route is named by: prefix, table, preference and metric, the last two where it says them.
#[derive(Default)]
struct Key<'t> {
    prefix: &'t str,
    rest: [Option<&'t str>; 3],
}

impl<'t> Key<'t> {
    /// Of the one-line form.
    fn of_line(line: &'t str) -> Key<'t> {
        let mut words = line.split_ascii_whitespace();
        let mut key = Key { prefix: words.next().unwrap_or_default(), ..Key::default() };
        while let Some(word) = words.next() {
            let Some(at) = FIELDS.iter().skip(1).position(|f| *f == word) else { break };
            if let Some(slot) = key.rest.get_mut(at) {
                *slot = words.next();
            }
        }
        key
    }

    fn of(node: &'t Node) -> Key<'t> {
        let (Node::Map(map) | Node::Flow(map)) = node else {
            return match node {
                Node::Text(line) | Node::Plain(line) => Key::of_line(line),
                _ => Key::default(),
            };
        };
        let field = |name: &str| match map.get(name) {
            Some(Node::Text(text) | Node::Plain(text)) => Some(text.as_str()),
            _ => None,
        };
        Key {
            prefix: field("prefix").unwrap_or_default(),
            rest: [field("table"), field("preference"), field("metric")],
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.prefix.parse::<IpNet>() {
            Ok(net) => net.hash(&mut hasher),
            Err(_) => self.prefix.hash(&mut hasher),
        }
        let [table, ..] = self.rest;
        table.and_then(|t| t.parse::<u32>().ok()).unwrap_or(0).hash(&mut hasher);
        hasher.finish()
    }
}

/// A route that a place names. The table that it does not name is the main one.
struct Named<'e> {
    key: Key<'e>,
    element: &'e str,
}

impl<'e> Named<'e> {
    fn of(element: &'e str) -> Result<Named<'e>, Wrong> {
        let wrong = |what: String| {
            Wrong::new("place", what).help(
                "`routes[prefix=10.0.0.0/8]`, with `table`, `preference` and `metric` where it has others than the usual ones; \
                 `routes[+]` is one more route",
            )
        };
        let Item::With(fields) = Item::of(element) else {
            return Err(wrong(format!("{element} names no route")));
        };
        let mut key = Key::default();
        for (name, value) in fields {
            match FIELDS.iter().position(|f| *f == name) {
                Some(0) => key.prefix = value,
                Some(n) => key.rest.iter_mut().skip(n - 1).take(1).for_each(|slot| *slot = Some(value)),
                None => return Err(wrong(format!("a route is not named by {name}"))),
            }
        }
        if key.prefix.parse::<IpNet>().is_err() {
            return Err(wrong(format!("{element} names no prefix")));
        }
        Ok(Named { key, element })
    }

    fn is(&self, other: &Key<'_>) -> bool {
        let [table, preference, metric] = self.key.rest;
        let [has_table, has_preference, has_metric] = other.rest;
        let number = |a: Option<&str>, b: Option<&str>| a.unwrap_or("0") == b.unwrap_or("0");
        // The usual preference is written where it is named only.
        let usual = net::router::Rank::STATIC.preference.to_string();
        same(self.key.prefix, other.prefix)
            && number(table, has_table)
            && preference.is_none_or(|p| p == has_preference.unwrap_or(&usual))
            && metric.is_none_or(|m| m == has_metric.unwrap_or("0"))
    }
}

/// Where a route stands.
#[derive(Clone, Copy)]
enum At {
    Line(usize),
    Added(usize),
}

impl Routes {
    /// Takes the room for so many lines at once: what grows is moved, which takes long where it is large. Without memory it grows.
    pub fn reserve(&mut self, lines: usize) {
        let _ = self.text.try_reserve(lines * LINE);
        let _ = self.starts.try_reserve(lines);
    }

    /// Adds lines as a dump writes them.
    pub fn push(&mut self, items: &[Node]) {
        for item in items {
            self.starts.push(self.text.len());
            item.write_item(&mut self.text, DEPTH);
        }
    }

    /// Bytes that they take.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.starts.len() * size_of::<usize>()
    }

    fn line(&self, n: usize) -> &str {
        let end = self.starts.get(n + 1).copied().unwrap_or(self.text.len());
        let line = self.starts.get(n).and_then(|start| self.text.get(*start..end)).unwrap_or_default();
        line.trim_start().trim_start_matches("- ").trim().trim_matches('"')
    }

    fn key_at(&self, at: At) -> Option<Key<'_>> {
        match at {
            At::Line(n) => match self.changed.get(&n) {
                Some(changed) => changed.as_ref().map(Key::of),
                None => Some(Key::of_line(self.line(n))),
            },
            At::Added(n) => self.added.get(n)?.as_ref().map(Key::of),
        }
    }

    fn node_at(&self, at: At) -> Option<Node> {
        match at {
            At::Line(n) => match self.changed.get(&n) {
                Some(changed) => changed.clone(),
                None => Some(Node::text(self.line(n))),
            },
            At::Added(n) => self.added.get(n)?.clone(),
        }
    }

    fn find(&mut self, named: &Named<'_>) -> Result<Option<At>, Wrong> {
        let hash = named.key.hash();
        if self.index.is_none() {
            let count = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
            let mut index: Vec<(u64, u32)> =
                (0..count).map(|n| (Key::of_line(self.line(n as usize)).hash(), n)).collect();
            index.sort_unstable();
            self.index = Some(index);
        }
        let index = self.index.as_deref().unwrap_or_default();
        let from = index.partition_point(|(h, _)| *h < hash);
        let lines =
            index.iter().skip(from).take_while(|(h, _)| *h == hash).map(|(_, n)| At::Line(*n as usize));
        let added = self.added_at.get(&hash).into_iter().flatten().map(|n| At::Added(*n));
        let found = lines.chain(added).filter(|at| self.key_at(*at).is_some_and(|k| named.is(&k)));
        match found.collect::<Vec<At>>()[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            ref several => Err(self.several(several, named)),
        }
    }

    /// A place names several routes of a prefix: it must say which.
    fn several(&self, all: &[At], named: &Named<'_>) -> Wrong {
        let usual = net::router::Rank::STATIC.preference.to_string();
        let ranks = all.iter().take(RANKS).filter_map(|at| {
            let [_, preference, metric] = self.key_at(*at)?.rest;
            let (preference, metric) = (preference.unwrap_or(&usual), metric.unwrap_or("0"));
            Some(format!("`preference={preference},metric={metric}`"))
        });
        let ranks = ranks.collect::<Vec<_>>().join(", ");
        let more = if all.len() > RANKS { ", and more" } else { "" };
        Wrong::new("place", format!("{} routes are {}", all.len(), named.element))
            .help(format!("say which: {ranks}{more}"))
    }

    /// What a place names, with the rank of the route that is there: what takes its place has that, unless it says another.
    fn ranked(&self, named: &Named<'_>, at: Option<At>) -> String {
        let mut element = named.element.to_owned();
        let has = at.and_then(|at| self.key_at(at)).unwrap_or_default();
        for ((name, said), has) in FIELDS.iter().skip(1).zip(named.key.rest).zip(has.rest).skip(1) {
            if let (None, Some(has)) = (said, has) {
                element.extend([",", name, "=", has]);
            }
        }
        element
    }

    fn put(&mut self, at: Option<At>, node: Option<Node>) {
        match at {
            Some(At::Line(n)) => {
                self.gone += usize::from(node.is_none());
                let was = self.changed.insert(n, node);
                self.gone -= usize::from(was.is_some_and(|was| was.is_none()));
            }
            Some(At::Added(n)) => {
                let Some(slot) = self.added.get_mut(n) else { return };
                self.more += usize::from(node.is_some());
                self.more -= usize::from(slot.is_some());
                *slot = node;
            }
            None => {
                self.more += usize::from(node.is_some());
                if let Some(node) = &node {
                    self.added_at.entry(Key::of(node).hash()).or_default().push(self.added.len());
                }
                self.added.push(node);
            }
        }
    }

    /// Sets the routes, or one of them.
    pub fn set(&mut self, place: &[String], value: &Node) -> Result<(), Wrong> {
        match place {
            [] => {
                let items = match value {
                    Node::List(items) => items.as_slice(),
                    Node::Plain(null) if null == "null" => &[],
                    _ => {
                        return Err(Wrong::new("type", "the routes are a list")
                            .help("a list, or `routes[prefix=10.0.0.0/8]` for one route"));
                    }
                };
                *self = Routes::default();
                items.iter().for_each(|item| self.put(None, Some(item.clone())));
                Ok(())
            }
            [new] if new == "+" => {
                self.put(None, Some(value.clone()));
                Ok(())
            }
            [element] => {
                let named = Named::of(element)?;
                let at = self.find(&named)?;
                let full = self.ranked(&named, at);
                let value = Named::of(&full)?.whole(value);
                if !named.is(&Key::of(&value)) {
                    return Err(Wrong::new("place", format!("the value is not the route {element} that the place names"))
                        .value(value.to_json())
                        .help("what stands behind the prefix, as `via 192.0.2.1`, or a whole route with this prefix and table"));
                }
                self.put(at, Some(value));
                Ok(())
            }
            _ => Err(whole_only()),
        }
    }

    /// Takes the routes away, or one of them.
    pub fn delete(&mut self, place: &[String]) -> Result<(), Wrong> {
        match place {
            [] => {
                *self = Routes::default();
                Ok(())
            }
            [element] => {
                let named = Named::of(element)?;
                let at = self.find(&named)?.ok_or_else(|| no_route(element))?;
                self.put(Some(at), None);
                Ok(())
            }
            _ => Err(whole_only()),
        }
    }

    /// The routes as JSON, or one of them.
    pub fn get(&mut self, place: &[String]) -> Result<String, Wrong> {
        match place {
            [] => {
                let mut out = String::with_capacity(self.text.len());
                for n in 0..self.starts.len() {
                    out.push(if n == 0 { '[' } else { ',' });
                    out.push_str(&serde_json::Value::from(self.line(n)).to_string());
                }
                out.push_str(if self.starts.is_empty() { "[]" } else { "]" });
                Ok(out)
            }
            [element] => {
                let named = Named::of(element)?;
                let at = self.find(&named)?.ok_or_else(|| no_route(element))?;
                Ok(self.node_at(at).map_or_else(String::new, |n| n.to_json().to_string()))
            }
            _ => Err(whole_only()),
        }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.gone == self.starts.len() && self.more == 0
    }

    /// Writes them, an item a line.
    pub fn write(&self, out: &mut String) {
        let mut from = 0;
        for (n, node) in &self.changed {
            let start = self.starts.get(*n).copied().unwrap_or(self.text.len());
            out.push_str(self.text.get(from..start).unwrap_or_default());
            from = self.starts.get(n + 1).copied().unwrap_or(self.text.len());
            node.iter().for_each(|node| write_item(node, out));
        }
        out.push_str(self.text.get(from..).unwrap_or_default());
        self.added.iter().flatten().for_each(|node| write_item(node, out));
    }

    /// What the numbers of items, as they are written, follow from.
    pub fn numbers(&self) -> Numbers {
        let gone = self.changed.iter().filter(|(_, c)| c.is_none()).map(|(n, _)| *n).collect();
        let added = self.added.iter().scan(0, |before, item| {
            let number = *before;
            *before += usize::from(item.is_some());
            Some(number)
        });
        Numbers { gone, added: added.collect() }
    }

    /// The number of the item that a place names, as it is written.
    pub fn number(&mut self, numbers: &Numbers, element: &str) -> Option<usize> {
        let at = match Named::of(element) {
            Ok(named) => self.find(&named).ok()??,
            Err(_) => At::Added(self.added.len().checked_sub(1)?),
        };
        match at {
            At::Line(n) => Some(n - numbers.gone.partition_point(|gone| *gone < n)),
            At::Added(n) => Some(self.starts.len() - numbers.gone.len() + numbers.added.get(n)?),
        }
    }
}

/// See [`Routes::numbers`].
pub(super) struct Numbers {
    /// Lines that are gone, in order.
    gone: Vec<usize>,
    /// Of each that was added, how many stand before it behind the lines.
    added: Vec<usize>,
}

impl Named<'_> {
    /// A value with what the place says of it: before `via 192.0.2.1` the prefix and table, in a mapping these fields.
    fn whole(&self, value: &Node) -> Node {
        let Node::Text(line) = value else {
            let plain = matches!(value, Node::Plain(word) if ["drop", "unreachable", "prohibit"].contains(&word.as_str()));
            return match value {
                Node::Plain(word) if plain => Node::Text(self.before(word)),
                other => tree::with_fields(other.clone(), &Item::of(self.element)),
            };
        };
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if first.parse::<IpNet>().is_ok() { value.clone() } else { Node::Text(self.before(line)) }
    }

    fn before(&self, rest: &str) -> String {
        let mut line = self.key.prefix.to_owned();
        for (name, value) in FIELDS.iter().skip(1).zip(self.key.rest) {
            if let Some(value) = value {
                line.extend([" ", name, " ", value]);
            }
        }
        line + " " + rest
    }
}

/// A line, whatever it is.
fn write_item(node: &Node, out: &mut String) {
    match node {
        Node::Map(map) => Node::Flow(map.clone()).write_item(out, DEPTH),
        Node::List(items) => Node::Row(items.clone()).write_item(out, DEPTH),
        other => other.write_item(out, DEPTH),
    }
}

fn whole_only() -> Wrong {
    Wrong::new("place", "a route is set, read and deleted as a whole").help("end the place with the route")
}

fn no_route(element: &str) -> Wrong {
    Wrong::new("place", format!("no route is {element}"))
        .help("the prefix of a route that `configuration get routes` tells, and `table` where it is not the main one")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Looks at all of them, as `is_empty` does not: it is asked after each of 100,000 changes.
    fn empty(routes: &Routes) -> bool {
        let gone = routes.changed.values().filter(|c| c.is_none()).count();
        gone == routes.starts.len() && routes.added.iter().all(Option::is_none)
    }

    proptest! {
        #[test]
        fn whether_there_are_any_is_known_after_each_change(
            lines in 0u8..4,
            changes in prop::collection::vec((0u8..6, any::<bool>()), 0..24),
        ) {
            let mut routes = Routes::default();
            let node = |n: u8| Node::text(format!("10.{n}.0.0/16 drop"));
            routes.push(&(0..lines).map(node).collect::<Vec<_>>());
            for (n, set) in changes {
                let place = [format!("prefix=10.{n}.0.0/16")];
                if set {
                    prop_assert!(routes.set(&place, &node(n)).is_ok());
                } else {
                    let _ = routes.delete(&place);
                }
                prop_assert_eq!(routes.is_empty(), empty(&routes));
                let mut written = String::new();
                routes.write(&mut written);
                prop_assert_eq!(routes.is_empty(), written.is_empty());
            }
        }
    }
}
