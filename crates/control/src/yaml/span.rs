//! The section `span`: which interfaces are mirrored, and where to.

use std::collections::HashMap;

use net::router::Op;
use net::span::{Directions, Mirror};

use super::decode::Decoder;
use super::diag::Place;
use super::l3::Setting;
use super::rules::{Names, Port};
use super::tree::Node;

pub(super) const MIRROR: &[&str] = &["source", "destination", "direction"];

/// The section.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Vec<Setting>> {
    let mut mirrors = Vec::new();
    let mut seen: HashMap<(&str, &str), Place> = HashMap::new();
    for (i, node) in d.items(node, "mirrors").iter().enumerate() {
        d.index(i, |d| {
            let Some((source, destination, directions)) = mirror(d, node, names) else { return };
            let (name, to) = (source.name(), destination.name());
            if let Some(first) = seen.get(&(name, to)) {
                let message = format!("`{name}` is mirrored to `{to}` already, on line {}", first.line);
                d.error(node.place, "span-unique", message).help("one entry for both directions");
                return;
            }
            seen.insert((name, to), node.place);
            let feature = Mirror { destination: to.to_string(), directions }.into();
            let op = Op::SetFeature { name: name.to_string(), feature };
            mirrors.push(Setting { place: node.place, path: d.path(), op });
        });
    }
    Some(mirrors)
}

fn mirror<'n, 'a>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'a>,
) -> Option<(Port<'a>, Port<'a>, Directions)> {
    let fields = d.fields(node, MIRROR)?;
    let source = d
        .required(&fields, "source", "the interface whose frames are copied", |d, node| port(d, node, names));
    let destination = d.required(&fields, "destination", "the interface that sends the copies", |d, node| {
        port(d, node, names)
    });
    let directions = match fields.has("direction") {
        true => d.field(&fields, "direction", |d, node| d.choice(node, &Directions::ALL)),
        false => Some(Directions::ALL[0].1),
    };
    let (source, destination) = (source?, destination?);
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
    Some((source, destination, directions?))
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
