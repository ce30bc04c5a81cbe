//! The section `vxlan_tunnels`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::super::interface::{numbered, object_number};
use super::super::l3::Setting;
use super::{Section, Seen, Virtual, address, outside, put_marks};
use crate::written::{self, Map};
use net::router::{IfState, Op, RouteTable, Router};
use net::tunnel::Outside;
use net::vxlan::{GroupInterface, MAX_INSTANCE, MAX_VNI, MTU, PORT, VxlanConfig, VxlanOp};

const VXLAN: &[&str] = &[
    "description",
    "local",
    "remote",
    "group-interface",
    "vni",
    "table",
    "local-port",
    "remote-port",
    "zero-checksum",
    "ttl",
    "dscp",
];

/// The section.
pub(super) const SECTION: Section = Section {
    name: "vxlan_tunnels",
    named: |name| numbered(name, "vxlan_tunnel").is_some(),
    stands_twice: true,
    says_mac: false,
    fields: VXLAN,
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
    let instance = object_number(d, name, place, "vxlan_tunnel", 0, MAX_INSTANCE.into());
    let local = address(d, fields, "local", "this end, an address of the router");
    let remote = address(d, fields, "remote", "the other end");
    let vni = d.required(fields, "vni", "1 to 16777215", |d, node| d.int(node, 1, MAX_VNI));
    if let (Some(local), Some(remote)) = (local, remote)
        && local.is_ipv4() != remote.is_ipv4()
    {
        let place = fields.get("remote").map_or(fields.place, |n| n.place);
        d.key("remote", |d| {
            d.error(place, "vxlan-family", format!("{remote} is not of the family of {local}"))
                .value(remote)
                .help("local and remote are both IPv4, or both IPv6");
        });
        return None;
    }
    let own = VxlanConfig::new(local?, remote?, vni?);
    let Outside { table, ttl, dscp, .. } = outside(d, fields, own.local, own.remote);
    let port = |d: &mut Decoder<'n>, field| {
        d.field(fields, field, |d, node| d.int(node, 1, u16::MAX)).unwrap_or(PORT)
    };
    let config = VxlanConfig {
        table,
        local_port: port(d, "local-port"),
        remote_port: port(d, "remote-port"),
        zero_checksum: d.field(fields, "zero-checksum", |d, node| d.boolean(node)).unwrap_or(false),
        ttl,
        dscp,
        ..own
    };
    if let Err(why) = config.check() {
        d.error(place, "vxlan-ends", why)
            .help("two addresses of one family, of which `remote` may be a multicast group");
        return None;
    }
    let over =
        d.field(fields, "group-interface", |d, node| d.text(node, "an interface").map(|n| (n, node.place)));
    if over.is_some() != config.remote.is_multicast() {
        let message = match over {
            Some(_) => format!("{} is no multicast group", config.remote),
            None => {
                format!("{} is a multicast group, and no interface is named over which it is", config.remote)
            }
        };
        d.error(place, "vxlan-group", message)
            .help("`group-interface` where `remote` is a multicast group, and only there");
        return None;
    }
    if let Some((other, first)) = seen.get(&config.identity()) {
        let (vni, line) = (config.vni, first.line);
        let place = fields.get("vni").map_or(place, |n| n.place);
        d.key("vni", |d| {
            d.error(place, "vni-unique", format!("`{other}` on line {line} has VNI {vni} and the same ends"))
                .value(vni)
                .help("a VNI of its own: packets do not tell them apart");
        });
        return None;
    }
    seen.insert(config.identity(), (name, place));
    let table = RouteTable::of(config.local, config.table);
    let others = over.map(|(over, place)| {
        let feature = GroupInterface(Some(over.to_string())).into();
        let op = Op::SetFeature { name: name.to_string(), feature };
        (over.to_string(), Setting { place, path: format!("{}.group-interface", d.path()), op })
    });
    let others = others.into_iter().collect();
    let op = Some(VxlanOp::Create { instance: instance? as u32, config }.into());
    Some(Virtual { table, others, ..Virtual::of(d, place, op, MTU) })
}

fn dump(router: &Router, i: &IfState, to: &mut Map) {
    let Some(tunnel) = net::vxlan::tunnel(router, i.index) else { return };
    let c = &tunnel.config;
    to.put("local", written::Node::text(c.local))
        .put("remote", written::Node::text(c.remote))
        .put("vni", c.vni);
    to.put_some("group-interface", tunnel.over().map(|i| router.interface_name(i)));
    to.put_unless("table", c.table, 0);
    to.put_unless("local-port", c.local_port, PORT).put_unless("remote-port", c.remote_port, PORT);
    to.put_unless("zero-checksum", c.zero_checksum, false);
    put_marks(to, c.ttl, c.dscp, Outside::new(c.local, c.remote));
}
