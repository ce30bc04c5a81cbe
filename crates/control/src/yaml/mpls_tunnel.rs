//! `tunnels` of the section `mpls`: what interfaces `mpls-tunnelN` are, and where they lead.

use std::collections::BTreeMap;

use super::decode::Decoder;
use super::diag::Place;
use super::interface::{blank, numbered, object_name};
use super::model::{Interface, InterfaceKind, RoutePath};
use super::route::Paths;
use super::tree::{Node, Value};

pub(super) const TUNNEL: &[&str] = &["l2-only", "control-word", "via"];

/// What stands behind an interface `mpls-tunnelN`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MplsTunnel {
    /// Where the document declares it.
    pub place: Place,
    /// For frames.
    pub l2_only: bool,
    /// With a control word in front of them.
    pub control_word: bool,
}

/// Where a tunnel leads.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelPaths {
    /// Its name.
    pub name: String,
    /// Its paths.
    pub paths: Vec<RoutePath>,
    /// Where it stands.
    pub place: Place,
}

/// The tunnels of a document, before its interfaces are read; what is wrong with them, [`paths`] says.
pub(super) fn declared<'n>(root: &'n Node<'n>) -> BTreeMap<&'n str, MplsTunnel> {
    fn get<'n>(node: &'n Node<'n>, key: &str) -> Option<&'n Node<'n>> {
        let Value::Map(pairs) = &node.value else { return None };
        pairs.iter().find(|(k, _)| text(k) == Some(key)).map(|(_, v)| v)
    }
    fn text<'n>(node: &'n Node<'n>) -> Option<&'n str> {
        if let Value::Scalar { text, .. } = &node.value { Some(text) } else { None }
    }
    let Some(Value::Map(all)) = get(root, "mpls").and_then(|n| get(n, "tunnels")).map(|n| &n.value) else {
        return BTreeMap::new();
    };
    let is = |node, key| get(node, key).is_some_and(|n| Decoder::default().boolean(n) == Some(true));
    all.iter()
        .filter_map(|(name, node)| Some((text(name)?, name.place, node)))
        .filter(|(name, ..)| numbered(name, "mpls-tunnel").is_some())
        .map(|(name, place, node)| {
            (name, MplsTunnel { place, l2_only: is(node, "l2-only"), control_word: is(node, "control-word") })
        })
        .collect()
}

/// The interfaces of tunnels that `interfaces` does not speak of.
pub(super) fn remaining(tunnels: BTreeMap<&str, MplsTunnel>) -> impl Iterator<Item = Interface> {
    tunnels
        .into_iter()
        .map(|(name, t)| blank(format!("mpls.tunnels.{name}"), name, t.place, InterfaceKind::MplsTunnel(t)))
}

/// Where the tunnels lead.
pub(super) fn paths<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    read: &Paths<'_>,
) -> Option<Vec<TunnelPaths>> {
    let mut out = vec![];
    for (name, place, node) in d.entries(node, "tunnel names") {
        out.extend(d.key(name, |d| one(d, name, place, node, read)));
    }
    Some(out)
}

fn one<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    node: &'n Node<'n>,
    read: &Paths<'_>,
) -> Option<TunnelPaths> {
    if !object_name(d, name, place, "mpls-tunnel", u64::from(net::mpls::MAX_TUNNEL)) {
        return None;
    }
    let fields = d.fields(node, TUNNEL)?;
    let l2_only = d.field(&fields, "l2-only", |d, node| d.boolean(node)).unwrap_or(false);
    let word = d.field(&fields, "control-word", |d, node| d.boolean(node)).unwrap_or(false);
    if word && !l2_only {
        d.error(fields.key_place("control-word"), "needs", "a control word stands in front of frames")
            .help("add `l2-only: true`, or remove `control-word`");
    }
    if let Ok(port) = read.names.get(name)
        && !l2_only
        && (!port.addresses().is_empty() || read.names.is_l2(port))
    {
        d.error(place, "mpls-tunnel", format!("`{name}` carries IP packets of routes over it alone"))
            .help("add `l2-only: true` for frames and addresses");
    }
    let paths = match fields.has("via") {
        true => d.field(&fields, "via", |d, node| read.via(d, node))?,
        // As commands leave one: it drops what it gets.
        false => vec![],
    };
    for p in &paths {
        if p.labels.pops() || p.address.is_none() && p.table.is_some() {
            d.error(p.place, "mpls-tunnel", "a tunnel leads to a label switching router, with labels")
                .help("ADDRESS [INTERFACE] out-labels L ...");
        } else {
            read.finds_others(d, p);
        }
    }
    Some(TunnelPaths { name: name.to_string(), paths, place })
}
