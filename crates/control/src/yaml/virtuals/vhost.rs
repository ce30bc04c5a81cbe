//! The section `vhost-users`.

use super::super::decode::{Decoder, Fields};
use super::super::diag::Place;
use super::{Section, Seen, Virtual};
use crate::written::{self, Map};
use net::router::{IfState, Router};
use net::vhost::{self, MTU, Role, VhostConfig, VhostOp};

const VHOST: &[&str] =
    &["socket", "role", "feature-mask", "mergeable-buffers", "indirect-descriptors", "gso"];

/// The section.
pub(super) const SECTION: Section = Section {
    name: "vhost-users",
    named: |name| vhost::is_name(name).is_some(),
    stands_twice: false,
    says_mac: false,
    fields: VHOST,
    secrets: &[],
    decode,
    dump,
};

fn decode<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    place: Place,
    fields: &Fields<'n>,
    _: &mut Seen<'n>,
) -> Option<Virtual> {
    let Some(number) = vhost::is_name(name) else {
        d.error(place, "object-name", format!("`{name}` is not a name for this section"))
            .value(name)
            .help("VirtualEthernet0/0/N: a number from 0 on");
        return None;
    };
    let help = "socket: FILE; the path by which the other side knows it";
    let socket = d.required(fields, "socket", help, |d, node| {
        let text = d.text(node, "the path of a socket")?;
        vhost::Place::parse(text).map_err(|why| _ = d.error(node.place, "vhost-socket", why).value(text)).ok()
    })?;
    let usual = VhostConfig::new(socket);
    let roles = [("client", Role::Client), ("server", Role::Server)];
    let config = VhostConfig {
        role: d.field(fields, "role", |d, node| d.choice(node, &roles)).unwrap_or_default(),
        mask: d.field(fields, "feature-mask", |d, node| d.int(node, 0, u64::MAX)).unwrap_or(usual.mask),
        mergeable: d.field(fields, "mergeable-buffers", |d, node| d.boolean(node)).unwrap_or(usual.mergeable),
        indirect: d
            .field(fields, "indirect-descriptors", |d, node| d.boolean(node))
            .unwrap_or(usual.indirect),
        gso: d.field(fields, "gso", |d, node| d.boolean(node)).unwrap_or(usual.gso),
        ..usual
    };
    let op = Some(VhostOp::Create { number, config }.into());
    Some(Virtual::of(d, place, op, MTU))
}

fn dump(router: &Router, i: &IfState, to: &mut Map) {
    let Some(c) = vhost::config(router, i.index) else { return };
    let usual = VhostConfig::new(c.socket.clone());
    to.put("socket", written::Node::text(&c.socket));
    to.put("role", if c.role == Role::Server { "server" } else { "client" });
    to.put_unless("feature-mask", c.mask, usual.mask);
    to.put_unless("mergeable-buffers", c.mergeable, usual.mergeable);
    to.put_unless("indirect-descriptors", c.indirect, usual.indirect);
    to.put_unless("gso", c.gso, usual.gso);
}
