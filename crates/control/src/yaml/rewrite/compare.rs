//! Whether values are the same, and which of them are about one thing.

use super::super::diag::Place;
use super::super::tree::{Node, Value};
use ipnet::IpNet;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// An item of a list.
#[derive(Clone, Copy)]
pub(super) enum Item<'n, 't> {
    Node(&'n Node<'t>),
    /// One of a long run of lines.
    Line(Place, &'t str),
}

impl Item<'_, '_> {
    pub fn place(&self) -> Place {
        match self {
            Item::Node(node) => node.place,
            Item::Line(place, _) => *place,
        }
    }
}

/// The items of a list, each by itself.
pub(super) fn items<'n, 't>(list: &'n [Node<'t>]) -> Vec<Item<'n, 't>> {
    let mut out = Vec::with_capacity(list.len());
    for node in list {
        match &node.value {
            Value::Lines(lines) => out.extend(lines.iter().map(|(place, text)| Item::Line(place, text))),
            _ => out.push(Item::Node(node)),
        }
    }
    out
}

pub(super) fn name<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    match &node.value {
        Value::Scalar { text, .. } => Some(text),
        _ => None,
    }
}

pub(super) fn pairs_of<'n, 't>(node: &'n Node<'t>) -> Option<&'n [(Node<'t>, Node<'t>)]> {
    match &node.value {
        Value::Map(pairs) => Some(pairs),
        _ => None,
    }
}

/// The prefix that an item of the routes is about.
pub(super) fn prefix(item: &Item<'_, '_>) -> Option<IpNet> {
    let text = match item {
        Item::Line(_, text) => text,
        Item::Node(node) => match &node.value {
            Value::Map(pairs) => {
                pairs.iter().find(|(k, _)| name(k) == Some("prefix")).and_then(|p| name(&p.1))?
            }
            _ => name(node)?,
        },
    };
    let net: IpNet = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(net.trunc())
}

/// A text in the one way that all ways to write a number, an address or a switch share.
fn usual(text: &str) -> Cow<'_, str> {
    if let Ok(n) = text.parse::<u64>() {
        return n.to_string().into();
    }
    if text.contains(['.', ':']) {
        if let Ok(net) = text.parse::<IpNet>() {
            return net.to_string().into();
        }
        if let Ok(a) = text.parse::<IpAddr>() {
            return a.to_string().into();
        }
        if text.bytes().all(|b| b.is_ascii_hexdigit() || b == b':') {
            return text.to_ascii_lowercase().into();
        }
    }
    match text {
        "True" | "TRUE" => "true".into(),
        "False" | "FALSE" => "false".into(),
        other => other.into(),
    }
}

/// What a scalar is: unquoted words may be numbers, switches or nothing.
fn scalar<'n>(node: &'n Node<'_>, lenient: bool) -> Option<(u8, Cow<'n, str>)> {
    let Value::Scalar { text, plain } = &node.value else { return None };
    if node.is_null() {
        return Some((0, "".into()));
    }
    if lenient {
        return Some((1, usual(text)));
    }
    let word = |t: &str| t.parse::<f64>().is_ok() || t.starts_with(['0', '+', '-', '.']) || is_switch(t);
    Some((if *plain && word(text) { 2 } else { 1 }, text.as_ref().into()))
}

fn is_switch(text: &str) -> bool {
    ["true", "false", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str())
}

/// Whether two values say the same: with leniency in one way or another.
pub(super) fn same(a: &Node<'_>, b: &Node<'_>, lenient: bool) -> bool {
    match (&a.value, &b.value) {
        (Value::Map(x), Value::Map(y)) => {
            x.len() == y.len()
                && x.iter().enumerate().all(|(n, (key, value))| {
                    let is = |(k, _): &&(Node<'_>, Node<'_>)| name(k).is_some() && name(k) == name(key);
                    // Most stand in the same order.
                    let at = y.get(n).filter(is).or_else(|| y.iter().find(is));
                    at.is_some_and(|(_, v)| same(value, v, lenient))
                })
        }
        (Value::List(x), Value::List(y)) => {
            let (x, y) = (items(x), items(y));
            x.len() == y.len() && x.iter().zip(&y).all(|(a, b)| same_items(a, b, lenient))
        }
        (Value::List(one), Value::Scalar { .. }) if lenient => {
            matches!(&one[..], [only] if !matches!(only.value, Value::Lines(_)) && same(only, b, true))
        }
        (Value::Scalar { .. }, Value::List(one)) if lenient => {
            matches!(&one[..], [only] if !matches!(only.value, Value::Lines(_)) && same(a, only, true))
        }
        // What is empty says as much as nothing.
        (Value::Map(x), Value::Scalar { .. }) if lenient => x.is_empty() && b.is_null(),
        (Value::Scalar { .. }, Value::Map(x)) if lenient => x.is_empty() && a.is_null(),
        _ => scalar(a, lenient).is_some_and(|x| Some(x) == scalar(b, lenient)),
    }
}

fn same_items(a: &Item<'_, '_>, b: &Item<'_, '_>, lenient: bool) -> bool {
    match (a, b) {
        (Item::Node(a), Item::Node(b)) => same(a, b, lenient),
        (Item::Line(_, a), Item::Line(_, b)) => a == b,
        (Item::Line(_, line), Item::Node(node)) | (Item::Node(node), Item::Line(_, line)) => {
            matches!(node.value, Value::Scalar { .. }) && name(node) == Some(line)
        }
    }
}

/// A number that items have in common which are the same.
pub(super) fn hash(item: &Item<'_, '_>, lenient: bool) -> u64 {
    let mut h = DefaultHasher::new();
    match item {
        // As the scalar that it is: several words are no number, address or switch.
        Item::Line(_, text) => (1u8, *text).hash(&mut h),
        Item::Node(node) => hash_node(node, lenient, &mut h),
    }
    h.finish()
}

fn hash_node(node: &Node<'_>, lenient: bool, h: &mut DefaultHasher) {
    match &node.value {
        Value::Map(pairs) => {
            let field = |(k, v): &(Node<'_>, Node<'_>)| {
                let mut h = DefaultHasher::new();
                name(k).hash(&mut h);
                hash_node(v, lenient, &mut h);
                h.finish()
            };
            let mut fields: Vec<u64> = pairs.iter().map(field).collect();
            fields.sort_unstable();
            (3u8, fields).hash(h);
        }
        Value::List(list) => {
            4u8.hash(h);
            items(list).iter().for_each(|i| hash(i, lenient).hash(h));
        }
        _ => match scalar(node, lenient) {
            Some((kind, text)) => (kind, text.as_ref()).hash(h),
            None => 5u8.hash(h),
        },
    }
}

/// How much two items have in common; 0: they are about different things.
pub(super) fn score(a: &Item<'_, '_>, b: &Item<'_, '_>) -> usize {
    if let (Some(a), Some(b)) = (prefix(a), prefix(b)) {
        return usize::from(a == b);
    }
    let (Item::Node(a), Item::Node(b)) = (a, b) else { return 0 };
    let (Some(a), Some(b)) = (pairs_of(a), pairs_of(b)) else { return 0 };
    let equal = |(key, value): &&(Node<'_>, Node<'_>)| {
        let at = b.iter().find(|(k, _)| name(k).is_some() && name(k) == name(key));
        matches!(value.value, Value::Scalar { .. }) && at.is_some_and(|(_, v)| same(value, v, true))
    };
    a.iter().filter(equal).count()
}
