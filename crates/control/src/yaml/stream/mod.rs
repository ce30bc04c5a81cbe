//! The section `packet-generator`: streams of made packets.

use std::collections::HashMap;

use drivers::generator::{self, CompileError, Field, MAX_SIZE, Size, StreamDef};

use super::decode::{Decoder, Fields};
use super::device::rate;
use super::diag::Place;
use super::model::Rate;
use super::rules::Names;
use super::scalar::short;
use super::tree::{Node, Value};

mod field;
mod layer;

/// A stream of the packet generator, with the places of what only the running router can refuse.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// The stream.
    pub def: StreamDef,
    /// Where its name stands.
    pub place: Place,
    /// Where the name of its node stands, or its own name when it names none.
    pub node_place: Place,
}

#[cfg(test)]
pub(super) use layer::LAYERS;

pub(super) const STREAM: &[&str] =
    &["name", "node", "interface", "layers", "size", "rate", "count", "seed", "state"];
pub(super) const SIZE: &[&str] = &["range", "mode", "mix"];
pub(super) const MIX: &[&str] = &["size", "weight"];

const MIN_SIZE: u16 = 14;

/// The section: a list of streams, or a mapping by name.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Vec<Stream>> {
    let mut streams: Vec<Stream> = Vec::new();
    if let Value::Map(_) = &node.value {
        for (name, place, node) in d.entries(node, "stream names") {
            let stream = d.key(name, |d| {
                stream_name(d, place, name);
                stream(d, Some((place, name)), node, names)
            });
            streams.extend(stream);
        }
        return Some(streams);
    }
    let mut seen: HashMap<String, Place> = HashMap::new();
    for (i, node) in d.items(node, "streams").iter().enumerate() {
        d.index(i, |d| {
            let Some(stream) = stream(d, None, node, names) else { return };
            if let Some(first) = seen.get(&stream.def.name) {
                let message =
                    format!("the stream `{}` stands on line {} already", stream.def.name, first.line);
                d.error(stream.place, "stream-unique", message).help("a name of its own");
            } else {
                seen.insert(stream.def.name.clone(), stream.place);
            }
            streams.push(stream);
        });
    }
    Some(streams)
}

fn stream_name(d: &mut Decoder<'_>, place: Place, name: &str) {
    let right = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 63 || !name.bytes().all(right) {
        d.error(place, "object-name", format!("{} cannot name a stream", short(name)))
            .help("1 to 63 letters, digits, `-`, `_` and `.`");
    }
}

fn stream<'n>(
    d: &mut Decoder<'n>,
    key: Option<(Place, &'n str)>,
    node: &'n Node<'n>,
    names: &Names<'_>,
) -> Option<Stream> {
    let fields = d.fields(node, STREAM)?;
    let name = match key {
        Some(key) => {
            if fields.has("name") {
                d.error(
                    fields.key_place("name"),
                    "unknown-field",
                    "the stream has its name from the mapping",
                )
                .help("remove `name`");
            }
            Some(key)
        }
        None => d.required(&fields, "name", "the stream's name", |d, node| {
            let name = d.text(node, "a name")?;
            stream_name(d, node.place, name);
            Some((node.place, name))
        }),
    };
    let graph_node = d.field(&fields, "node", |d, node| {
        let text = d.text(node, "the name of a graph node")?;
        let right = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if text.is_empty() || text.len() > 63 || !text.bytes().all(right) {
            d.error(node.place, "object-name", format!("{} cannot name a graph node", short(text)))
                .value(text)
                .help("lower-case letters, digits and `-`, such as ethernet-input or ip4-input");
            return None;
        }
        Some((node.place, text))
    });
    let interface =
        d.required(&fields, "interface", "the interface the packets count as received on", |d, node| {
            let reference = d.reference(node)?;
            match names.get(&reference.name) {
                Ok(_) => Some(reference.name),
                Err(e) => {
                    d.error(node.place, e.rule, e.message).value(reference.name).help(e.help);
                    None
                }
            }
        });
    let mut def = StreamDef::new("", "");
    if let Some((_, node)) = graph_node {
        def.node = node.to_string();
    }
    let layers = d.required(&fields, "layers", "layers: the headers from the outside in", |d, node| {
        layer::decode(d, node, &def.node)
    });
    def.size = d.field(&fields, "size", size);
    def.rate = match d.field(&fields, "rate", rate) {
        Some(Rate::Pps(pps)) => generator::Rate::Pps(pps as f64),
        _ => generator::Rate::Max,
    };
    def.count = d.field(&fields, "count", |d, node| d.int(node, 1u64, 1 << 53)).unwrap_or(def.count);
    def.seed = d.field(&fields, "seed", |d, node| d.int(node, 0u64, u64::MAX)).unwrap_or(def.seed);
    let state =
        d.field(&fields, "state", |d, node| d.choice(node, &[("enabled", true), ("disabled", false)]));
    def.enabled = state.unwrap_or(def.enabled);
    let (place, name) = name?;
    def.name = name.to_string();
    def.interface = interface?;
    def.layers = layers?;
    fits(d, &fields, &def)?;
    Some(Stream { def, place, node_place: graph_node.map_or(place, |n| n.0) })
}

/// What the generator itself says about the stream.
fn fits<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>, def: &StreamDef) -> Option<()> {
    let e = match def.check() {
        Ok(()) => return Some(()),
        // The layer at fault was shown.
        Err(CompileError::Order { .. }) => return None,
        Err(e) => e,
    };
    let (field, rule, help) = match &e {
        CompileError::TooSmall { layers, .. } => {
            ("size", "stream-size", format!("at least {}", (*layers).max(MIN_SIZE.into())))
        }
        CompileError::Mix | CompileError::SizeOrder => ("size", "stream-size", HELP.into()),
        CompileError::TooLong(_) => ("layers", "stream-size", format!("at most {MAX_SIZE} bytes")),
        _ => ("layers", "layers", "fewer or other layers".into()),
    };
    let name = if fields.has(field) { field } else { "layers" };
    d.key(name, |d| {
        let place = fields.get(name).map_or(fields.place, |node| node.place);
        d.error(place, rule, e.to_string()).help(help);
    });
    None
}

const HELP: &str = "bytes, LOW-HIGH, LOW-HIGH random, imix, or mix: [{size: N, weight: N}]";

/// `N`, `A-B`, `A-B random`, `imix`, or a mapping with `range` and `mode`, or with `mix`.
fn size<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Size> {
    let fields = match &node.value {
        Value::Scalar { text, .. } if text == "imix" => return Some(Size::imix()),
        Value::Map(_) => d.fields(node, SIZE)?,
        _ => Fields::none(node.place),
    };
    if fields.has("mix") {
        for name in ["range", "mode"].into_iter().filter(|name| fields.has(name)) {
            d.error(fields.key_place(name), "stream-size", format!("`mix` and `{name}` exclude each other"))
                .help("remove one of the two");
        }
        return d.field(&fields, "mix", mix).map(Size::Mix);
    }
    Some(match field::range(d, node, HELP, &|d, place, text| one_size(d, place, text))? {
        Field::Fixed(size) => Size::Fixed(size),
        Field::Range { low, high, mode } => Size::Range { low, high, mode },
    })
}

fn one_size(d: &mut Decoder<'_>, place: Place, text: &str) -> Option<u16> {
    d.int_text(place, text, MIN_SIZE.into(), MAX_SIZE.into()).and_then(|n| u16::try_from(n).ok())
}

fn mix<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<(u16, u16)>> {
    if let Value::Scalar { text, .. } = &node.value
        && text == "imix"
        && let Size::Mix(mix) = Size::imix()
    {
        return Some(mix);
    }
    let mut mix = Vec::new();
    let items = d.items(node, "sizes with weights");
    if items.is_empty() || items.len() > 64 {
        d.error(node.place, "stream-size", format!("a mix of {} sizes", items.len())).help("1 to 64 sizes");
        return None;
    }
    for (i, node) in items.iter().enumerate() {
        let entry = d.index(i, |d| {
            let fields = d.fields(node, MIX)?;
            let size = d.required(&fields, "size", "bytes", |d, node| d.int(node, MIN_SIZE, MAX_SIZE));
            let weight = d.field(&fields, "weight", |d, node| d.int(node, 1u16, 1000));
            Some((size?, weight.unwrap_or(1)))
        });
        mix.extend(entry);
    }
    (!mix.is_empty()).then_some(mix)
}
