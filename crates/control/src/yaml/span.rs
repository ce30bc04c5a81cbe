//! The section `span`: which interfaces are mirrored, and where to.

use std::collections::HashMap;

use net::router::Op;
use net::span::{Directions, Mirror, MirrorBridge};

use super::decode::Decoder;
use super::diag::Place;
use super::l3::Setting;
use super::model::BridgeDomain;
use super::rules::{Names, Port};
use super::tree::Node;

pub(super) const MIRROR: &[&str] = &["source", "bridgedomain", "destination", "direction", "l2"];

/// Whose frames are mirrored.
enum Of<'a> {
    Interface(Port<'a>),
    Bridge(&'a BridgeDomain),
}

impl Of<'_> {
    fn name(&self) -> &str {
        match self {
            Of::Interface(port) => port.name(),
            Of::Bridge(b) => &b.name,
        }
    }
}

/// The section.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
    bridges: &[BridgeDomain],
) -> Option<Vec<Setting>> {
    let mut mirrors = Vec::new();
    let mut seen: HashMap<(bool, String, &str), Place> = HashMap::new();
    for (i, node) in d.items(node, "mirrors").iter().enumerate() {
        d.index(i, |d| {
            let Some((source, destination, mirror)) = mirror(d, node, names, bridges) else { return };
            let (name, to) = (source.name().to_string(), destination.name());
            let key = (matches!(source, Of::Bridge(_)), name, to);
            if let Some(first) = seen.get(&key) {
                let name = &key.1;
                let message = format!("`{name}` is mirrored to `{to}` already, on line {}", first.line);
                d.error(node.place, "span-unique", message).help("one entry for both directions");
                return;
            }
            let op = match source {
                Of::Interface(_) => Op::SetFeature { name: key.1.clone(), feature: mirror.into() },
                Of::Bridge(b) => MirrorBridge { bridge: b.id, mirror }.into(),
            };
            seen.insert(key, node.place);
            mirrors.push(Setting { place: node.place, path: d.path(), op });
        });
    }
    Some(mirrors)
}

fn mirror<'n, 'a>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'a>,
    bridges: &'a [BridgeDomain],
) -> Option<(Of<'a>, Port<'a>, Mirror)> {
    let fields = d.fields(node, MIRROR)?;
    let source = if fields.has("bridgedomain") {
        d.field(&fields, "bridgedomain", |d, node| bridge(d, node, bridges)).map(Of::Bridge)
    } else {
        let help = "the interface whose frames are copied, or `bridgedomain`";
        d.required(&fields, "source", help, |d, node| port(d, node, names)).map(Of::Interface)
    };
    for alone in ["source", "l2"] {
        if fields.has("bridgedomain") && fields.has(alone) {
            let message = format!("`{alone}` is of mirrors of an interface");
            d.error(fields.key_place(alone), "span-source", message).help("`source`, or `bridgedomain`");
            return None;
        }
    }
    let l2 = d.field(&fields, "l2", |d, node| d.boolean(node)).unwrap_or(false);
    let destination = d.required(&fields, "destination", "the interface that sends the copies", |d, node| {
        port(d, node, names)
    });
    let directions = match fields.has("direction") {
        true => d.field(&fields, "direction", |d, node| d.choice(node, &Directions::ALL)),
        false => Some(Directions::ALL[0].1),
    };
    let (source, destination) = (source?, destination?);
    let mirror = Mirror { destination: destination.name().to_string(), directions: directions?, l2 };
    let Of::Interface(source) = source else { return Some((source, destination, mirror)) };
    let (from, to) = (source.interface, destination.interface);
    // One of them is the device of the other, or the same.
    if from.name == to.name
        && (source.sub.is_none() || destination.sub.is_none() || source.name() == destination.name())
    {
        let message = format!("`{}` cannot be mirrored to `{}`", source.name(), destination.name());
        d.error(fields.key_place("destination"), "span-destination", message)
            .help("an interface that is neither the source nor a sub-interface of it, nor the interface that it is of");
        return None;
    }
    Some((Of::Interface(source), destination, mirror))
}

/// A bridge domain of the document.
fn bridge<'n, 'a>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    bridges: &'a [BridgeDomain],
) -> Option<&'a BridgeDomain> {
    let name = d.text(node, "the name of a bridge domain")?;
    let found = bridges.iter().find(|b| b.name == name);
    if found.is_none() {
        d.error(node.place, "unknown-bridgedomain", format!("there is no bridge domain `{name}`"))
            .value(name)
            .help("one of `bridgedomains`");
    }
    found
}

/// An interface on which there are frames.
fn port<'n, 'a>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'a>) -> Option<Port<'a>> {
    let reference = d.reference(node)?;
    let port = match names.get(&reference.name) {
        Ok(port) => port,
        Err(e) => {
            d.error(node.place, e.rule, e.message).value(reference.name).help(e.help);
            return None;
        }
    };
    if port.is_loopback() {
        d.error(
            node.place,
            "span-frames",
            format!("`{}` is a loopback, over which no frames go", port.name()),
        )
        .help("the interfaces that its packets take");
        return None;
    }
    if !port.carries_frames() {
        d.error(node.place, "span-frames", format!("`{}` carries packets and no frames", port.name()))
            .help("a tunnel for frames, or the interface that its packets take");
        return None;
    }
    Some(port)
}
