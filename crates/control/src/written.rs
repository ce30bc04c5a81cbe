//! Values of a document, and how they are written as YAML and as JSON.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use command::Page;
use serde_json::Value as Json;

/// A value of the document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A number or a switch: written as it is.
    Plain(String),
    /// A text: quoted where YAML would take it for something else.
    Text(String),
    /// A list, an item a line.
    List(Vec<Node>),
    /// A list in one line.
    Row(Vec<Node>),
    /// A mapping, a field a line.
    Map(Map),
    /// A mapping in one line.
    Flow(Map),
}

/// A mapping that is being filled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Vec<Entry>);

#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Field(Cow<'static, str>, Node),
    Remark(String),
}

impl Map {
    /// No fields.
    pub fn new() -> Map {
        Map::default()
    }

    /// Adds a field.
    pub fn put(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Node>) -> &mut Map {
        self.0.push(Entry::Field(name.into(), value.into()));
        self
    }

    /// Adds a field that has a value: nothing for `None`, and for empty lists and mappings.
    pub fn put_some<N: Into<Node>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: Option<N>,
    ) -> &mut Map {
        match value.map(Into::into) {
            Some(node) if !node.is_empty() => self.put(name, node),
            _ => self,
        }
    }

    /// Adds a field whose value is not its default.
    pub fn put_unless<T: PartialEq + Into<Node>>(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: T,
        default: T,
    ) -> &mut Map {
        self.put_some(name, (value != default).then_some(value))
    }

    /// Adds a comment, for what a document cannot say.
    pub fn remark(&mut self, text: impl Into<String>) -> &mut Map {
        self.0.push(Entry::Remark(text.into()));
        self
    }

    /// The fields in order, without remarks.
    pub(crate) fn fields(&self) -> impl DoubleEndedIterator<Item = (&str, &Node)> {
        self.0.iter().filter_map(|e| match e {
            Entry::Field(name, value) => Some((name.as_ref(), value)),
            Entry::Remark(_) => None,
        })
    }

    /// The value of a field. The last ones are found first.
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.fields().rev().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// See [`Map::get`].
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.0.iter_mut().rev().find_map(|e| match e {
            Entry::Field(n, value) if *n == name => Some(value),
            _ => None,
        })
    }

    /// Takes a field away.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Node> {
        let at = self.0.iter().rposition(|e| matches!(e, Entry::Field(n, _) if *n == name))?;
        match self.0.remove(at) {
            Entry::Field(_, value) => Some(value),
            Entry::Remark(_) => None,
        }
    }

    /// The fields in order, to be changed.
    pub(crate) fn fields_mut(&mut self) -> impl Iterator<Item = (&Cow<'static, str>, &mut Node)> {
        self.0.iter_mut().filter_map(|e| match e {
            Entry::Field(name, value) => Some((&*name, value)),
            Entry::Remark(_) => None,
        })
    }

    /// Adds all of another one.
    pub(crate) fn append(&mut self, mut other: Map) {
        self.0.append(&mut other.0);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Node {
    /// Bytes of memory that it takes, more or less.
    pub fn weight(&self) -> usize {
        let fields = |map: &Map| {
            let field = |e: &Entry| match e {
                Entry::Field(name, value) => size_of::<Entry>() + name.len() + value.weight(),
                Entry::Remark(text) => size_of::<Entry>() + text.len(),
            };
            map.0.iter().map(field).sum::<usize>()
        };
        size_of::<Node>()
            + match self {
                Node::Plain(text) | Node::Text(text) => text.len(),
                Node::List(items) | Node::Row(items) => items.iter().map(Node::weight).sum(),
                Node::Map(map) | Node::Flow(map) => fields(map),
            }
    }

    /// A value that writes itself, such as an address, as text.
    pub fn text(value: impl Display) -> Node {
        Node::Text(value.to_string())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Node::Plain(_) | Node::Text(_) => false,
            Node::List(items) | Node::Row(items) => items.is_empty(),
            Node::Map(map) | Node::Flow(map) => map.is_empty(),
        }
    }

    /// The value as JSON, without remarks.
    pub fn to_json(&self) -> Json {
        match self {
            Node::Plain(text) => serde_json::from_str(text).unwrap_or_else(|_| Json::from(text.as_str())),
            Node::Text(text) => Json::from(text.as_str()),
            Node::List(items) | Node::Row(items) => items.iter().map(Node::to_json).collect(),
            Node::Map(map) | Node::Flow(map) => {
                let field = |e: &Entry| match e {
                    Entry::Field(name, value) => Some((name.to_string(), value.to_json())),
                    Entry::Remark(_) => None,
                };
                Json::Object(map.0.iter().filter_map(field).collect())
            }
        }
    }

    /// Writes the value behind `name:` or `-`, at `depth` levels.
    pub(crate) fn write(&self, out: &mut String, depth: usize) {
        match self {
            Node::List(items) if !items.is_empty() => {
                out.push('\n');
                items.iter().for_each(|item| item.write_item(out, depth));
            }
            Node::Map(map) if !map.is_empty() => {
                out.push('\n');
                map.write(out, depth, true);
            }
            inline => {
                out.push(' ');
                inline.write_inline(out, false);
                out.push('\n');
            }
        }
    }

    /// Writes the items or fields of a list or mapping whose name stands already, at `depth` levels.
    pub(crate) fn write_within(&self, out: &mut String, depth: usize) {
        match self {
            Node::List(items) => items.iter().for_each(|item| item.write_item(out, depth)),
            Node::Map(map) => map.write(out, depth, true),
            inline => inline.write(out, depth),
        }
    }

    /// The same as JSON.
    pub(crate) fn write_json(&self, page: &mut Page) {
        match self {
            Node::List(items) => items.iter().for_each(|item| page.item(&item.to_json())),
            Node::Map(map) => {
                for entry in &map.0 {
                    if let Entry::Field(name, value) = entry {
                        page.field(name, &value.to_json());
                    }
                }
            }
            _ => {}
        }
    }

    /// Writes the value as an item of a list.
    pub(crate) fn write_item(&self, out: &mut String, depth: usize) {
        indent(out, depth);
        out.push('-');
        match self {
            Node::Map(map) if !map.is_empty() && !map.starts_with_remark() => {
                out.push(' ');
                map.write(out, depth + 1, false);
            }
            other => other.write(out, depth + 1),
        }
    }

    fn write_inline(&self, out: &mut String, flow: bool) {
        let list = |out: &mut String, items: &[Node]| {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                item.write_inline(out, true);
            }
            out.push(']');
        };
        match self {
            Node::Plain(text) => out.push_str(text),
            Node::Text(text) => write_text(out, text, flow),
            Node::List(items) | Node::Row(items) => list(out, items),
            Node::Map(map) | Node::Flow(map) => {
                out.push('{');
                let mut first = true;
                for entry in &map.0 {
                    let Entry::Field(name, value) = entry else { continue };
                    out.push_str(if first { "" } else { ", " });
                    write_key(out, name);
                    out.push_str(": ");
                    value.write_inline(out, true);
                    first = false;
                }
                out.push('}');
            }
        }
    }
}

impl Map {
    fn starts_with_remark(&self) -> bool {
        matches!(self.0.first(), Some(Entry::Remark(_)))
    }

    /// Writes the fields at `depth` levels; the first one behind what stands on the line when `first` is false.
    fn write(&self, out: &mut String, depth: usize, first: bool) {
        for (i, entry) in self.0.iter().enumerate() {
            if i > 0 || first {
                indent(out, depth);
            }
            match entry {
                Entry::Field(name, value) => write_field(out, name, value, depth),
                Entry::Remark(text) => {
                    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                    let _ = writeln!(out, "# {line}");
                }
            }
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// Writes a field at `depth` levels, for which the line is indented already.
pub(crate) fn write_field(out: &mut String, name: &str, value: &Node, depth: usize) {
    write_key(out, name);
    out.push(':');
    value.write(out, depth + 1);
}

/// Writes the name of a list or mapping whose items or fields come in the lines behind it.
pub(crate) fn write_name(out: &mut String, name: &str, depth: usize) {
    indent(out, depth);
    write_key(out, name);
    out.push_str(":\n");
}

/// Writes the name of a field; a number, such as that of a sub-interface, as it is.
fn write_key(out: &mut String, name: &str) {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit()) {
        out.push_str(name);
    } else {
        write_text(out, name, true);
    }
}

/// A text as it stands within braces or brackets.
pub(crate) fn in_line(text: &str) -> String {
    let mut out = String::new();
    write_text(&mut out, text, true);
    out
}

/// Writes a text so that YAML reads the same text back.
fn write_text(out: &mut String, text: &str, flow: bool) {
    if is_plain(text, flow) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => {
                let _ = write!(out, "\\U{:08x}", u32::from(c));
            }
        }
    }
    out.push('"');
}

/// Whether YAML reads the text unquoted as this text, other readers than ours included: to some of them a MAC address is a
/// number.
fn is_plain(text: &str, flow: bool) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric() || "/_)".contains(c);
    let within = |c: char| ends(c) || " .-+(".contains(c) || (c == ':' && !flow) || (c == ',' && !flow);
    let words = ["null", "true", "false", "yes", "no", "on", "off"];
    let first = text.chars().next().is_some_and(|c| ends(c) && c != ')' || c == ':' && !flow);
    first
        && text.chars().next_back().is_some_and(ends)
        && text.chars().all(within)
        && !text.contains(": ")
        && (!text.contains(':') || text.contains(' '))
        && text.parse::<f64>().is_err()
        && !text.starts_with("0x")
        && !text.starts_with("0o")
        && !words.iter().any(|w| text.eq_ignore_ascii_case(w))
}

/// Writes an item of a list that is a text, made in place, at `depth` levels.
pub(crate) fn write_text_item(out: &mut String, depth: usize, text: impl FnOnce(&mut String)) {
    indent(out, depth);
    out.push_str("- ");
    let begins = out.len();
    text(out);
    if !is_plain(out.get(begins..).unwrap_or_default(), false) {
        let text = out.split_off(begins);
        write_text(out, &text, false);
    }
    out.push('\n');
}

/// A long text that grows: one string would be copied when it does, which takes longer the longer it is.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Vec<String>);

impl Chunks {
    /// Bytes of a chunk.
    const SIZE: usize = 256 << 10;

    /// Adds to it.
    pub fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(last) if last.capacity() - last.len() >= text.len() => last.push_str(text),
            _ => {
                let mut chunk = String::with_capacity(Self::SIZE.max(text.len()));
                chunk.push_str(text);
                self.0.push(chunk);
            }
        }
    }

    /// All of it. Takes a while: not for the control thread.
    pub fn whole(self) -> String {
        let mut out = String::with_capacity(self.0.iter().map(String::len).sum());
        self.0.into_iter().for_each(|chunk| out += &chunk);
        out
    }
}

macro_rules! plain {
    ($($t:ty),+) => {
        $(impl From<$t> for Node {
            fn from(value: $t) -> Node {
                Node::Plain(value.to_string())
            }
        })+
    };
}
plain!(bool, u8, u16, u32, u64, usize);

impl From<&str> for Node {
    fn from(text: &str) -> Node {
        Node::Text(text.to_string())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Node {
        Node::Text(text)
    }
}

impl From<Map> for Node {
    fn from(map: Map) -> Node {
        Node::Map(map)
    }
}

impl From<Vec<Node>> for Node {
    fn from(items: Vec<Node>) -> Node {
        Node::List(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yaml(node: &Node) -> String {
        let mut out = String::from("x:");
        node.write(&mut out, 1);
        out
    }

    #[test]
    fn shapes() {
        let mut inner = Map::new();
        inner.put("a", 1u16).put("b", "text: with colon").put_some("c", None::<&str>);
        let mut map = Map::new();
        map.put("mac", "12:00:00:00:00:01").put("digits", "12");
        map.put("row", Node::Row(vec!["10.0.0.1/24".into(), "2001:db8::1/64".into()]));
        map.put("flow", Node::Flow(inner.clone())).remark("two\nlines").put("map", inner.clone());
        map.put("list", vec![Node::from(inner), "::/0 via fe80::1 x".into(), "2001:db8::".into()]);
        map.put("none", Map::new()).put_unless("same", 1u8, 1).put_unless("other", 2u8, 1);
        let want = "x:
  mac: \"12:00:00:00:00:01\"
  digits: \"12\"
  row: [10.0.0.1/24, \"2001:db8::1/64\"]
  flow: {a: 1, b: \"text: with colon\"}
  # two lines
  map:
    a: 1
    b: \"text: with colon\"
  list:
    - a: 1
      b: \"text: with colon\"
    - ::/0 via fe80::1 x
    - \"2001:db8::\"
  none: {}
  other: 2
";
        assert_eq!(yaml(&map.into()), want);
    }

    #[test]
    fn chunks_are_one_text() {
        let (mut chunks, mut all) = (Chunks::default(), String::new());
        for n in 0..40_000 {
            let piece = format!("{n} ").repeat(n % 7);
            chunks.push(&piece);
            all += &piece;
        }
        let long = "x".repeat(2 * Chunks::SIZE);
        chunks.push(&long);
        all += &long;
        assert!(chunks.0.len() > 2 && chunks.whole() == all);
    }

    proptest! {
        #[test]
        fn texts_come_back(text in "\\PC{1,20}|[a-z0-9 :,.{}\\[\\]&*#?|<>=!%@`'\"\\\\~-]{1,12}|true|NULL|~|0x1f|1e5") {
            for node in [
                Node::Text(text.clone()),
                Node::Row(vec![Node::Text(text.clone()), Node::Text(text.clone())]),
                Node::List(vec![Node::Text(text.clone())]),
            ] {
                let written = yaml(&node);
                let read = crate::yaml::texts(&written);
                prop_assert!(!read.is_empty());
                prop_assert!(read.iter().skip(1).all(|t| *t == text), "{:?} {:?}", written, read);
                prop_assert!(read.len() > 1);
            }
            let (mut made, mut said) = (String::new(), String::new());
            write_text_item(&mut made, 1, |out| out.push_str(&text));
            Node::Text(text).write_item(&mut said, 1);
            prop_assert_eq!(made, said);
        }
    }
}
