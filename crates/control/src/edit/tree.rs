//! Changes of a tree of values at a place.

use super::Wrong;
use super::place::{Item, same};
use crate::written::{Map, Node};
use std::borrow::Cow;

/// Names that an error tells.
const NAMES: usize = 12;

fn null() -> Node {
    Node::Plain("null".into())
}

fn is_null(node: &Node) -> bool {
    matches!(node, Node::Plain(text) if text == "null")
}

fn scalar(node: &Node) -> Option<&str> {
    match node {
        Node::Plain(text) | Node::Text(text) => Some(text),
        _ => None,
    }
}

/// What a value is, in words.
fn kind(node: &Node) -> &'static str {
    match node {
        Node::Plain(_) | Node::Text(_) => "a single value",
        Node::List(_) | Node::Row(_) => "a list",
        Node::Map(_) | Node::Flow(_) => "a mapping",
    }
}

/// Beginnings of what stands at a place, for who looked for something else.
fn there_are<'n>(what: &str, all: impl Iterator<Item = Cow<'n, str>>) -> String {
    let mut names: Vec<_> = all.take(NAMES + 1).collect();
    let more = if names.len() > NAMES { ", ..." } else { "" };
    names.truncate(NAMES);
    match names.is_empty() {
        true => format!("there are no {what} here"),
        false => format!("{what} here: {}{more}", names.join(", ")),
    }
}

fn no_field(map: &Map, name: &str) -> Wrong {
    let help = there_are("fields", map.fields().map(|(n, _)| n.into()));
    Wrong::new("place", format!("{name} is not there, or has its default")).help(help)
}

fn words_of(node: &Node) -> Cow<'_, str> {
    match node {
        Node::Plain(text) | Node::Text(text) => text.as_str().into(),
        other => other.to_json().to_string().chars().take(80).collect::<String>().into(),
    }
}

pub(super) fn no_item<'n>(items: impl Iterator<Item = &'n Node>, element: &str) -> Wrong {
    Wrong::new("place", format!("no item is {element}")).help(there_are("items", items.map(words_of)))
}

pub(super) fn several(count: usize, element: &str) -> Wrong {
    Wrong::new("place", format!("{count} items are {element}"))
        .help("name more of its fields, such as `[name=value,name=value]`")
}

fn not_below(node: &Node, element: &str) -> Wrong {
    Wrong::new("place", format!("{} has nothing below it, such as {element}", kind(node)))
        .help("end the place before it")
}

/// Whether an item is the one that an element names, by its value or fields.
pub(super) fn is(node: &Node, item: &Item<'_>) -> bool {
    match (item, node) {
        (Item::Value(value), node) => scalar(node).is_some_and(|s| same(s, value)),
        (Item::With(fields), Node::Map(map) | Node::Flow(map)) => {
            fields.iter().all(|(name, value)| map.get(name).and_then(scalar).is_some_and(|s| same(s, value)))
        }
        _ => false,
    }
}

/// The number of the item that an element names.
fn position(items: &[Node], element: &str) -> Result<Option<usize>, Wrong> {
    let item = Item::of(element);
    if let Item::Number(n) = item {
        return if n < items.len() { Ok(Some(n)) } else { Err(no_item(items.iter(), element)) };
    }
    let mut found = items.iter().enumerate().filter(|(_, n)| is(n, &item)).map(|(i, _)| i);
    let first = found.next();
    match found.count() {
        0 => Ok(first),
        more => Err(several(more + 1, element)),
    }
}

/// A new item with the fields that its place says.
pub(super) fn with_fields(mut node: Node, item: &Item<'_>) -> Node {
    if let (Item::With(fields), Node::Map(map) | Node::Flow(map)) = (item, &mut node) {
        for (name, value) in fields {
            if map.get(name).is_none() {
                // Read as it would be where it stands in a document.
                let value = crate::yaml::value::read(value).unwrap_or_else(|_| Node::text(value));
                map.put((*name).to_owned(), value);
            }
        }
    }
    node
}

/// Has the item be what its place says.
pub(super) fn must_be(node: &Node, item: &Item<'_>, element: &str) -> Result<(), Wrong> {
    if matches!(item, Item::New | Item::Number(_)) || is(node, item) {
        return Ok(());
    }
    Err(Wrong::new("place", format!("the value is not the item {element} that the place names"))
        .value(words_of(node))
        .help("a value that is that item, or the place `[+]` for one more item"))
}

/// What stands at a place below a value.
pub(super) fn get<'n>(node: &'n Node, place: &[String]) -> Result<&'n Node, Wrong> {
    let Some((element, rest)) = place.split_first() else { return Ok(node) };
    let next = match node {
        Node::Map(map) | Node::Flow(map) => map.get(element).ok_or_else(|| no_field(map, element))?,
        Node::List(items) | Node::Row(items) => {
            let at = position(items, element)?;
            at.and_then(|i| items.get(i)).ok_or_else(|| no_item(items.iter(), element))?
        }
        other => return Err(not_below(other, element)),
    };
    get(next, rest)
}

/// Goes to a place and changes what stands there; what is missing on the way is made, and null is what was not there.
pub(super) fn change(
    node: &mut Node,
    place: &[String],
    act: &mut dyn FnMut(&mut Node) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let Some((element, rest)) = place.split_first() else { return act(node) };
    if is_null(node) {
        *node = if Item::is_of_a_list(element) { Node::List(vec![]) } else { Node::Map(Map::new()) };
    }
    match node {
        Node::Map(map) | Node::Flow(map) => match map.get_mut(element) {
            Some(field) => change(field, rest, act),
            None => {
                let mut field = null();
                change(&mut field, rest, act)?;
                map.put(element.clone(), field);
                Ok(())
            }
        },
        Node::List(items) | Node::Row(items) => {
            let item = Item::of(element);
            let at = if item == Item::New { None } else { position(items, element)? };
            let mut new = match at.and_then(|i| items.get(i)) {
                Some(old) => old.clone(),
                None if rest.is_empty() => null(),
                None => with_fields(Node::Map(Map::new()), &item),
            };
            change(&mut new, rest, act)?;
            let new = with_fields(new, &item);
            must_be(&new, &item, element)?;
            match at.and_then(|i| items.get_mut(i)) {
                Some(old) => *old = new,
                None => items.push(new),
            }
            Ok(())
        }
        other => Err(not_below(other, element)),
    }
}

/// Takes away what stands at a place.
pub(super) fn delete(node: &mut Node, place: &[String]) -> Result<(), Wrong> {
    let Some((element, rest)) = place.split_first() else {
        return Err(Wrong::new("place", "the whole document cannot be deleted").help("name a place in it"));
    };
    match node {
        Node::Map(map) | Node::Flow(map) if rest.is_empty() => match map.remove(element) {
            Some(_) => Ok(()),
            None => Err(no_field(map, element)),
        },
        Node::Map(map) | Node::Flow(map) => match map.get_mut(element) {
            Some(field) => delete(field, rest),
            None => Err(no_field(map, element)),
        },
        Node::List(items) | Node::Row(items) => {
            let Some(at) = position(items, element)? else { return Err(no_item(items.iter(), element)) };
            match items.get_mut(at) {
                Some(item) if !rest.is_empty() => delete(item, rest),
                _ => {
                    items.remove(at);
                    Ok(())
                }
            }
        }
        other => Err(not_below(other, element)),
    }
}

/// Brings the fields of a mapping to a value: those of mappings within it too, null takes away, and all else is set (RFC 7396).
pub(super) fn merge(node: &mut Node, with: &Node) -> Result<(), Wrong> {
    let Node::Map(with) = with else {
        return Err(Wrong::new("type", "only a mapping can be merged")
            .value(words_of(with))
            .help("a mapping, or `set`"));
    };
    if is_null(node) {
        *node = Node::Map(Map::new());
    }
    let (Node::Map(map) | Node::Flow(map)) = node else {
        return Err(Wrong::new("type", format!("{} stands there, into which no mapping goes", kind(node)))
            .help("`set` replaces it"));
    };
    for (name, value) in with.fields() {
        match (map.get_mut(name), value) {
            (found, value) if is_null(value) => {
                let was = found.is_some();
                if was {
                    map.remove(name);
                }
            }
            (Some(field @ (Node::Map(_) | Node::Flow(_))), Node::Map(_)) => merge(field, value)?,
            (Some(field), value) => *field = value.clone(),
            (None, value @ Node::Map(_)) => {
                let mut new = Node::Map(Map::new());
                merge(&mut new, value)?;
                map.put(name.to_owned(), new);
            }
            (None, value) => drop(map.put(name.to_owned(), value.clone())),
        }
    }
    Ok(())
}

/// The path by which errors of a document name a place, as far as it is there.
pub(super) fn path(node: &Node, place: &[String], out: &mut String) {
    let Some((element, rest)) = place.split_first() else { return };
    let next = match node {
        Node::Map(map) | Node::Flow(map) => {
            out.push_str(if out.is_empty() { "" } else { "." });
            out.push_str(element);
            map.get(element)
        }
        Node::List(items) | Node::Row(items) => {
            let at = match Item::of(element) {
                Item::New => items.len().checked_sub(1),
                _ => position(items, element).ok().flatten(),
            };
            let Some(at) = at else { return };
            out.push_str(&format!("[{at}]"));
            items.get(at)
        }
        _ => None,
    };
    match next {
        Some(next) => path(next, rest, out),
        // What is gone has its names.
        None => rest.iter().filter(|e| !Item::is_of_a_list(e)).for_each(|e| {
            out.push('.');
            out.push_str(e);
        }),
    }
}
