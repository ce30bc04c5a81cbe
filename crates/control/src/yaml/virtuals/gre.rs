//! The section `gre_tunnels`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::super::interface::object_number;
use super::super::tree::{Node, Value};
use super::{All, Section, Virtual};
use crate::dump::{self, Map, Source};
use net::gre::{GreConfig, GreOp, MAX_INSTANCE};
use net::router::{IfState, RouteTable};

const GRE: &[&str] = &["local", "remote", "table", "teb", "key", "sequence", "checksum", "ttl", "dscp"];

/// The section.
pub(super) const SECTION: Section = Section { name: "gre_tunnels", stem: "gre", fields: GRE, decode, dump };

fn decode<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    fields: &Fields<'n>,
    before: &All<'n>,
) -> Option<Virtual> {
    let instance = object_number(d, name, place, "gre", 0, MAX_INSTANCE.into())?;
    let address = |d: &mut Decoder<'n>, field, help| {
        d.required(fields, field, help, |d, node| {
            let text = d.text(node, "an address")?;
            d.address(node.place, text)
        })
    };
    let local = address(d, "local", "this end, an address of the router");
    let remote = address(d, "remote", "the other end");
    let switch =
        |d: &mut Decoder<'n>, name| d.field(fields, name, |d, node| d.boolean(node)).unwrap_or(false);
    let own = GreConfig::new(local?, remote?);
    let config = GreConfig {
        table: d.field(fields, "table", |d, node| d.int(node, 0, u32::MAX)).unwrap_or(0),
        teb: switch(d, "teb"),
        key: d.field(fields, "key", |d, node| d.int(node, 0, u32::MAX)),
        sequence: switch(d, "sequence"),
        checksum: switch(d, "checksum"),
        ttl: d.field(fields, "ttl", |d, node| copied(d, node, 1, 255)).unwrap_or(own.ttl),
        dscp: d.field(fields, "dscp", |d, node| copied(d, node, 0, 63)).unwrap_or(own.dscp),
        ..own
    };
    if let Err(why) = config.check() {
        d.error(place, "gre-ends", why).help("two unicast addresses of one family");
        return None;
    }
    let same = |v: &Virtual| match v.op.part_op() {
        Some(GreOp::Create { config: other, .. }) => other.has_ends_of(&config),
        None => false,
    };
    if let Some((other, _)) = before.iter().find(|(_, v)| same(v)) {
        d.error(place, "gre-unique", format!("`{other}` has the same ends and key"))
            .help("a key of its own: packets do not tell them apart");
        return None;
    }
    let (frames, mtu) = (config.teb, config.mtu());
    let table = RouteTable::of(config.local, config.table);
    let op = GreOp::Create { instance: instance as u32, config }.into();
    Some(Virtual { place, path: d.path(), op, frames, table, mtu })
}

/// A number, or `copy`: `Some(None)`.
fn copied<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, least: u8, most: u8) -> Option<Option<u8>> {
    match &node.value {
        Value::Scalar { text, .. } if text == "copy" => Some(None),
        _ => d.int(node, least, most).map(Some),
    }
}

fn dump(from: Source<'_>, i: &IfState, to: &mut Map) {
    let Some(c) = net::gre::tunnel(from.router, i.index).map(|t| &t.config) else { return };
    let own = GreConfig::new(c.local, c.remote);
    let copied = |n: Option<u8>| n.map_or(dump::Node::from("copy"), dump::Node::from);
    to.put("local", dump::Node::text(c.local)).put("remote", dump::Node::text(c.remote));
    to.put_unless("table", c.table, 0).put_unless("teb", c.teb, false);
    to.put_some("key", c.key);
    to.put_unless("sequence", c.sequence, false).put_unless("checksum", c.checksum, false);
    to.put_some("ttl", (c.ttl != own.ttl).then(|| copied(c.ttl)));
    to.put_some("dscp", (c.dscp != own.dscp).then(|| copied(c.dscp)));
}
