//! A YAML document as a tree in which every node knows its place.
//!
//! The parser below is the one that `serde-saphyr` stands on. Going through serde would end at the first wrong
//! type; a tree lets the decoders go on and report everything. The tree is bounded in size, depth and in what
//! aliases may expand to, whatever the text is.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};

use graph::memory::{self, Growth, OutOfMemory};

use super::diag::Place;
use super::runs::Lines;

/// Longest document, in bytes. A full Internet table in the one-line form takes about 50 MB.
pub const MAX_BYTES: usize = 256 << 20;
/// Most nodes (scalars, lists, mappings) in a document.
pub const MAX_NODES: usize = 12_000_000;
/// Deepest nesting. The deepest field of the format stands at level 8.
pub const MAX_DEPTH: usize = 32;
/// What all anchors and aliases together may expand to, in nodes.
pub const MAX_ALIAS_NODES: usize = 1_000_000;

/// One value of the document.
#[derive(Debug, Clone)]
pub(super) struct Node<'t> {
    pub place: Place,
    pub value: Value<'t>,
}

#[derive(Debug, Clone)]
pub(super) enum Value<'t> {
    /// Any scalar; `plain` means unquoted, so that it may also be a number, a boolean or null.
    Scalar {
        text: Cow<'t, str>,
        plain: bool,
    },
    List(Vec<Node<'t>>),
    Map(Vec<(Node<'t>, Node<'t>)>),
    /// Several items of the list `routes`, see [`super::runs`].
    Lines(Lines<'t>),
}

impl Node<'_> {
    /// True for an empty value, `~` and `null`.
    pub fn is_null(&self) -> bool {
        match &self.value {
            Value::Scalar { text, plain: true } => {
                matches!(text.as_ref(), "" | "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// Bytes that the node and all below it take, and room for the routes of [`Value::Lines`].
    pub fn bytes(&self) -> usize {
        let below = match &self.value {
            Value::Scalar { text: Cow::Owned(text), .. } => text.len(),
            Value::Scalar { .. } => 0,
            Value::List(items) => items.iter().map(Node::bytes).sum(),
            Value::Map(pairs) => pairs.iter().map(|(k, v)| k.bytes() + v.bytes()).sum(),
            Value::Lines(lines) => lines.len() * ROUTE_BYTES,
        };
        size_of::<Self>() + below
    }

    /// What the node is, for error messages.
    pub fn describe(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } => "a single value",
            Value::List(_) | Value::Lines(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// Typed data of a route that stands on a line of its own, and what its table takes, about.
const ROUTE_BYTES: usize = 128;

/// Why a text is no usable YAML document: there is one such error at most.
#[derive(Debug)]
pub(super) struct TreeError {
    pub place: Place,
    pub rule: &'static str,
    pub message: String,
    pub help: String,
}

/// Reads the one document of `text`, and how many nodes it has; `None` when it is empty.
pub(super) fn parse(text: &str) -> Result<(Option<Node<'_>>, usize), TreeError> {
    if text.len() > MAX_BYTES {
        return Err(limit(Place::new(1, 1, 1), format!("the document has {} bytes", text.len()), MAX_BYTES));
    }
    let options = granit_parser::options! {
        block_nesting_limit: MAX_DEPTH,
        flow_nesting_limit: MAX_DEPTH,
        max_directive_bytes: 256,
    };
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|e| TreeError {
            place: place_of(e.marker(), 1),
            rule: "yaml-syntax",
            message: e.info(),
            help: "see the YAML syntax at this place: indentation, quotes, colons".into(),
        })?;
        builder.event(event, &span)?;
    }
    Ok((builder.root, builder.nodes))
}

fn limit(place: Place, message: String, most: usize) -> TreeError {
    TreeError { place, rule: "document-limit", message, help: format!("at most {most}") }
}

fn place_of(mark: &Marker, width: usize) -> Place {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place::new(small(mark.line()), small(mark.col().saturating_add(1)), small(width))
}

fn place(span: &Span) -> Place {
    let width = if span.start.line() == span.end.line() {
        span.end.col().saturating_sub(span.start.col()).max(1)
    } else {
        1
    };
    place_of(&span.start, width)
}

enum Frame<'t> {
    List(Vec<Node<'t>>),
    Map(Vec<(Node<'t>, Node<'t>)>, Option<Node<'t>>),
}

#[derive(Default)]
struct Builder<'t> {
    root: Option<Node<'t>>,
    documents: usize,
    open: Vec<(Place, usize, Frame<'t>)>,
    anchors: HashMap<usize, Anchor<'t>>,
    nodes: usize,
    alias_nodes: usize,
    growth: Growth,
}

struct Anchor<'t> {
    node: Node<'t>,
    cost: usize,
    depth: usize,
}

impl<'t> Builder<'t> {
    fn event(&mut self, event: Event<'t>, span: &Span) -> Result<(), TreeError> {
        let at = place(span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(TreeError {
                        place: at,
                        rule: "one-document",
                        message: "a second YAML document starts here".into(),
                        help: "one file holds one document: remove the `---`".into(),
                    });
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let string_tag = match &tag {
                    None => false,
                    Some(tag) if tag.is_yaml_core_schema_tag("str") => true,
                    Some(_) => return Err(tag_error(at)),
                };
                let plain = style == ScalarStyle::Plain && !string_tag;
                let node = Node { place: at, value: Value::Scalar { text, plain } };
                self.add(node, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.start(at, anchor, tag.is_some(), Frame::List(Vec::new()))?
            }
            Event::MappingStart(_, anchor, tag) => {
                self.start(at, anchor, tag.is_some(), Frame::Map(Vec::new(), None))?
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((place, anchor, frame)) = self.open.pop() {
                    // Vectors grow to four items at once, and a document may have millions of mappings with one.
                    let value = match frame {
                        Frame::List(mut items) => {
                            items.shrink_to_fit();
                            Value::List(items)
                        }
                        Frame::Map(mut pairs, _) => {
                            pairs.shrink_to_fit();
                            Value::Map(pairs)
                        }
                    };
                    self.add(Node { place, value }, anchor)?;
                }
            }
            Event::Alias(id) => {
                let Some(anchor) = self.anchors.get(&id) else {
                    return Err(TreeError {
                        place: at,
                        rule: "yaml-syntax",
                        message: "the alias stands inside the value it names".into(),
                        help: "name a value that ends before this place".into(),
                    });
                };
                if self.open.len() + anchor.depth > MAX_DEPTH {
                    return Err(limit(at, "aliases nest too deep".into(), MAX_DEPTH));
                }
                let (node, cost) = (anchor.node.clone(), anchor.cost);
                self.spend(at, cost)?;
                self.add(node, 0)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, at: Place, anchor: usize, tagged: bool, frame: Frame<'t>) -> Result<(), TreeError> {
        if tagged {
            return Err(tag_error(at));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(limit(at, "the document nests too deep".into(), MAX_DEPTH));
        }
        self.open.push((at, anchor, frame));
        Ok(())
    }

    /// Counts what an anchor or alias copies, before it is copied a second time.
    fn spend(&mut self, at: Place, cost: usize) -> Result<(), TreeError> {
        self.alias_nodes = self.alias_nodes.saturating_add(cost);
        if self.alias_nodes > MAX_ALIAS_NODES {
            return Err(limit(
                at,
                "the document's aliases expand to too many values".into(),
                MAX_ALIAS_NODES,
            ));
        }
        Ok(())
    }

    fn add(&mut self, node: Node<'t>, anchor: usize) -> Result<(), TreeError> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(limit(node.place, "the document has too many values".into(), MAX_NODES));
        }
        if anchor != 0 {
            let (cost, depth) = measure(&node);
            self.spend(node.place, cost)?;
            self.anchors.insert(anchor, Anchor { node: node.clone(), cost, depth });
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some((_, _, Frame::List(items))) => {
                let at = node.place;
                self.growth.push(items, 1).map_err(|e| out_of_memory(at, &e))?;
                items.push(node);
            }
            Some((_, _, Frame::Map(pairs, key))) => match key.take() {
                None => *key = Some(node),
                Some(key) => {
                    let at = node.place;
                    self.growth.push(pairs, 1).map_err(|e| out_of_memory(at, &e))?;
                    pairs.push((key, node));
                }
            },
        }
        Ok(())
    }
}

fn out_of_memory(place: Place, e: &OutOfMemory) -> TreeError {
    let message = format!("the document up to here is all that fits: {e}");
    TreeError { place, rule: "memory", message, help: memory::HELP.into() }
}

fn tag_error(place: Place) -> TreeError {
    TreeError {
        place,
        rule: "yaml-tag",
        message: "tags have no meaning in this document".into(),
        help: "remove the tag".into(),
    }
}

/// The memory a copy of `node` takes, in nodes, and its depth. The tree is at most `MAX_DEPTH` deep.
fn measure(node: &Node<'_>) -> (usize, usize) {
    let children = |list: &mut dyn Iterator<Item = &Node<'_>>| {
        let (mut cost, mut depth) = (1usize, 0usize);
        for child in list {
            let (c, d) = measure(child);
            cost = cost.saturating_add(c);
            depth = depth.max(d);
        }
        (cost, depth + 1)
    };
    match &node.value {
        Value::Scalar { text: Cow::Owned(text), .. } => (1 + text.len() / 32, 0),
        Value::Scalar { .. } | Value::Lines(_) => (1, 0),
        Value::List(items) => children(&mut items.iter()),
        Value::Map(pairs) => children(&mut pairs.iter().flat_map(|(k, v)| [k, v])),
    }
}
