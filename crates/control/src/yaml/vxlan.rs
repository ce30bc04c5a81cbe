//! The section `vxlan_tunnels`.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::decode::Decoder;
use super::diag::Place;
use super::interface::object_name;
use super::tree::Node;

pub(super) const VXLAN: &[&str] = &["description", "local", "remote", "vni"];

/// A VXLAN tunnel.
#[derive(Debug, Clone, PartialEq)]
pub struct VxlanTunnel {
    /// Its name, `vxlan_tunnelN`.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// Free text.
    pub description: Option<String>,
    /// Source of its packets.
    pub local: Option<IpAddr>,
    /// Destination of its packets, of the same family.
    pub remote: Option<IpAddr>,
    /// VXLAN network identifier, 1..16777215.
    pub vni: Option<u32>,
}

/// The section, by name.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<BTreeMap<&'n str, VxlanTunnel>> {
    let mut tunnels = BTreeMap::new();
    let mut vnis: HashMap<u32, (&str, Place)> = HashMap::new();
    for (name, place, node) in d.entries(node, "tunnel names") {
        d.key(name, |d| {
            object_name(d, name, place, "vxlan_tunnel", 2_147_483_647);
            let path = d.path();
            let (name_text, description) = (name.to_string(), None);
            let (local, remote, vni) = (None, None, None);
            let mut tunnel = VxlanTunnel { name: name_text, place, path, description, local, remote, vni };
            fill(d, name, node, &mut vnis, &mut tunnel);
            tunnels.insert(name, tunnel);
        });
    }
    Some(tunnels)
}

fn fill<'n>(
    d: &mut Decoder<'n>,
    name: &'n str,
    node: &'n Node<'n>,
    vnis: &mut HashMap<u32, (&'n str, Place)>,
    to: &mut VxlanTunnel,
) -> Option<()> {
    let fields = d.fields(node, VXLAN)?;
    to.description = d.field(&fields, "description", |d, node| d.description(node));
    let address = |d: &mut Decoder<'n>, field, help| {
        d.required(&fields, field, help, |d, node| {
            let text = d.text(node, "an address")?;
            d.address(node.place, text)
        })
    };
    to.local = address(d, "local", "the tunnel's own address");
    to.remote = address(d, "remote", "the address of the other end");
    to.vni = d.required(&fields, "vni", "1 to 16777215", |d, node| d.int(node, 1u32, 16_777_215));
    if let (Some(local), Some(remote)) = (to.local, to.remote)
        && local.is_ipv4() != remote.is_ipv4()
    {
        let place = fields.get("remote").map_or(fields.place, |n| n.place);
        d.key("remote", |d| {
            d.error(place, "vxlan-family", format!("{remote} is not of the family of {local}"))
                .value(remote)
                .help("local and remote are both IPv4, or both IPv6");
        });
    }
    if let (Some(vni), Some(node)) = (to.vni, fields.get("vni")) {
        match vnis.get(&vni) {
            Some((first, at)) => d.key("vni", |d| {
                d.error(
                    node.place,
                    "vni-unique",
                    format!("VNI {vni} is that of `{first}` on line {}", at.line),
                )
                .value(vni)
                .help("a VNI of its own");
            }),
            None => drop(vnis.insert(vni, (name, node.place))),
        }
    }
    Some(())
}
