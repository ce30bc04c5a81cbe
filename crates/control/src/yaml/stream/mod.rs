//! The section `packet-generator`: streams of made packets.

use std::collections::HashMap;

use super::decode::{Decoder, Fields};
use super::device::rate;
use super::diag::Place;
use super::model::Rate;
use super::rules::Names;
use super::scalar::short;
use super::tree::{Node, Value};

mod field;
mod layer;
mod model;

pub use model::*;

#[cfg(test)]
pub(super) use layer::LAYERS;

pub(super) const STREAM: &[&str] = &["name", "node", "interface", "layers", "size", "rate", "count", "state"];
pub(super) const SIZE: &[&str] = &["range", "mode", "mix"];
pub(super) const MIX: &[&str] = &["size", "weight"];

/// Longest packet: the largest MTU with an Ethernet header and two tags.
const MAX_SIZE: u16 = 9216 + 22;
const MIN_SIZE: u16 = 14;
const DEFAULT_NODE: &str = "ethernet-input";
const DEFAULT_SIZE: u16 = 64;

/// The section: a list of streams, or a mapping by name.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
) -> Option<Vec<PgStream>> {
    let mut streams: Vec<PgStream> = Vec::new();
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
            if let Some(first) = seen.get(&stream.name) {
                let message = format!("the stream `{}` stands on line {} already", stream.name, first.line);
                d.error(stream.place, "stream-unique", message).help("a name of its own");
            } else {
                seen.insert(stream.name.clone(), stream.place);
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
) -> Option<PgStream> {
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
    let on_wire = graph_node.is_none_or(|(_, name)| name == DEFAULT_NODE);
    let layers = d.required(&fields, "layers", "layers: the headers from the outside in", |d, node| {
        layer::decode(d, node, on_wire)
    });
    let template: usize = layers.iter().flatten().map(PgLayer::len).sum();
    let template = u16::try_from(template).unwrap_or(u16::MAX);
    if template > MAX_SIZE {
        d.error(fields.key_place("layers"), "stream-size", format!("the headers take {template} bytes"))
            .help(format!("at most {MAX_SIZE}"));
    }
    let size = match fields.get("size") {
        Some(node) => d.key("size", |d| size(d, node, template)),
        None => Some(PgSize::Fixed(DEFAULT_SIZE.max(template))),
    };
    let rate = d.field(&fields, "rate", rate).unwrap_or(Rate::Max);
    let count = d.field(&fields, "count", |d, node| d.int(node, 1u64, 1 << 53));
    let enabled =
        d.field(&fields, "state", |d, node| d.choice(node, &[("enabled", true), ("disabled", false)]));
    let (place, name) = name?;
    Some(PgStream {
        name: name.to_string(),
        place,
        node: graph_node.map_or(DEFAULT_NODE, |n| n.1).to_string(),
        node_place: graph_node.map_or(place, |n| n.0),
        interface: interface?,
        layers: layers?,
        size: size?,
        rate,
        count,
        enabled: enabled.unwrap_or(false),
    })
}

/// `N`, `A-B`, `A-B random`, `imix`, or a mapping with `range` and `mode`, or with `mix`.
fn size<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, template: u16) -> Option<PgSize> {
    const HELP: &str = "bytes, LOW-HIGH, LOW-HIGH random, imix, or mix: [{size: N, weight: N}]";
    let fields = match &node.value {
        Value::Scalar { text, .. } if text == "imix" => {
            return check_size(d, node.place, PgSize::imix(), template);
        }
        Value::Map(_) => d.fields(node, SIZE)?,
        _ => Fields::none(node.place),
    };
    let size = if fields.has("mix") {
        for name in ["range", "mode"].into_iter().filter(|name| fields.has(name)) {
            d.error(fields.key_place(name), "stream-size", format!("`mix` and `{name}` exclude each other"))
                .help("remove one of the two");
        }
        PgSize::Mix(d.field(&fields, "mix", mix)?)
    } else {
        field::range(d, node, HELP, &|d, place, text| one_size(d, place, text))?.into()
    };
    check_size(d, node.place, size, template)
}

fn one_size(d: &mut Decoder<'_>, place: Place, text: &str) -> Option<u16> {
    d.int_text(place, text, MIN_SIZE.into(), MAX_SIZE.into()).and_then(|n| u16::try_from(n).ok())
}

fn mix<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<Vec<(u16, u16)>> {
    if let Value::Scalar { text, .. } = &node.value
        && text == "imix"
        && let PgSize::Mix(mix) = PgSize::imix()
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

/// No packet is shorter than its headers.
fn check_size(d: &mut Decoder<'_>, place: Place, size: PgSize, template: u16) -> Option<PgSize> {
    let least = match &size {
        PgSize::Fixed(size) => *size,
        PgSize::Range { low, .. } => *low,
        PgSize::Mix(mix) => mix.iter().map(|(size, _)| *size).min().unwrap_or(MIN_SIZE),
    };
    if least < template {
        d.error(place, "stream-size", format!("packets of {least} bytes cannot hold headers of {template}"))
            .value(least)
            .help(format!("at least {template}"));
        return None;
    }
    Some(size)
}

impl From<PgField<u16>> for PgSize {
    fn from(field: PgField<u16>) -> PgSize {
        match field {
            PgField::Fixed(size) => PgSize::Fixed(size),
            PgField::Range { low, high, mode } => PgSize::Range { low, high, mode },
        }
    }
}
