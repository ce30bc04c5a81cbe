//! The section `gre_tunnels`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::super::interface::{numbered, object_number};
use super::{Section, Seen, Virtual, address, outside, put_marks};
use crate::written::{self, Map};
use net::gre::{GreConfig, GreOp, MAX_INSTANCE};
use net::router::{IfState, RouteTable, Router};
use net::tunnel::Outside;

const GRE: &[&str] = &["local", "remote", "table", "teb", "key", "sequence", "checksum", "ttl", "dscp"];

/// The section.
pub(super) const SECTION: Section = Section {
    name: "gre_tunnels",
    named: |name| numbered(name, "gre").is_some(),
    stands_twice: false,
    says_mac: false,
    fields: GRE,
    secrets: &[],
    decode,
    dump,
};

fn decode<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    fields: &Fields<'n>,
    seen: &mut Seen<'n>,
) -> Option<Virtual> {
    let instance = object_number(d, name, place, "gre", 0, MAX_INSTANCE.into())?;
    let local = address(d, fields, "local", "this end, an address of the router");
    let remote = address(d, fields, "remote", "the other end");
    let switch =
        |d: &mut Decoder<'n>, name| d.field(fields, name, |d, node| d.boolean(node)).unwrap_or(false);
    let Outside { local, remote, table, ttl, dscp } = outside(d, fields, local?, remote?);
    let config = GreConfig {
        table,
        teb: switch(d, "teb"),
        key: d.field(fields, "key", |d, node| d.int(node, 0, u32::MAX)),
        sequence: switch(d, "sequence"),
        checksum: switch(d, "checksum"),
        ttl,
        dscp,
        ..GreConfig::new(local, remote)
    };
    if let Err(why) = config.check() {
        d.error(place, "gre-ends", why).help("two unicast addresses of one family");
        return None;
    }
    if let Some((other, _)) = seen.get(&config.identity()) {
        d.error(place, "gre-unique", format!("`{other}` has the same ends and key"))
            .help("a key of its own: packets do not tell them apart");
        return None;
    }
    seen.insert(config.identity(), (name, place));
    let (frames, mtu) = (config.teb, config.mtu());
    let table = RouteTable::of(config.local, config.table);
    let op = Some(GreOp::Create { instance: instance as u32, config }.into());
    Some(Virtual { frames, table, ..Virtual::of(d, place, op, mtu) })
}

fn dump(router: &Router, i: &IfState, to: &mut Map) {
    let Some(c) = net::gre::tunnel(router, i.index).map(|t| &t.config) else { return };
    to.put("local", written::Node::text(c.local)).put("remote", written::Node::text(c.remote));
    to.put_unless("table", c.table, 0).put_unless("teb", c.teb, false);
    to.put_some("key", c.key);
    to.put_unless("sequence", c.sequence, false).put_unless("checksum", c.checksum, false);
    put_marks(to, c.ttl, c.dscp, Outside::new(c.local, c.remote));
}
