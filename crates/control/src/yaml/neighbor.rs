//! The section `neighbors`: static ARP and neighbour discovery entries.

use std::collections::HashMap;
use std::net::IpAddr;

use super::decode::Decoder;
use super::diag::Place;
use super::model::Neighbor;
use super::rules::{Names, Port};
use super::tree::Node;

pub(super) const NEIGHBOR_ENTRY: &[&str] = &["interface", "address", "mac"];

/// The section.
pub(super) fn decode<'n>(
    d: &mut Decoder<'n>,
    node: &'n Node<'n>,
    names: &Names<'_>,
) -> Option<Vec<Neighbor>> {
    let mut neighbors = Vec::new();
    let mut seen: HashMap<(String, IpAddr), Place> = HashMap::new();
    for (i, node) in d.items(node, "neighbours").iter().enumerate() {
        d.index(i, |d| {
            let Some(neighbor) = entry(d, node, names) else { return };
            let key = (neighbor.interface.clone(), neighbor.address);
            if let Some(first) = seen.get(&key) {
                let message = format!("{} has an entry already, on line {}", neighbor.address, first.line);
                d.error(neighbor.place, "neighbor-unique", message).help("one MAC an address");
            } else {
                seen.insert(key, neighbor.place);
            }
            neighbors.push(neighbor);
        });
    }
    Some(neighbors)
}

fn entry<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, names: &Names<'_>) -> Option<Neighbor> {
    let fields = d.fields(node, NEIGHBOR_ENTRY)?;
    let mac = d.required(&fields, "mac", "the neighbour's MAC address", |d, node| d.mac(node));
    let address = d.required(&fields, "address", "the neighbour's IP address", |d, node| {
        let text = d.text(node, "an address")?;
        d.address(node.place, text).map(|address| (address, node.place))
    });
    let port = d.required(&fields, "interface", "the interface it is behind", |d, node| {
        let reference = d.reference(node)?;
        match names.get(&reference.name) {
            Ok(port) => Some(port),
            Err(e) => {
                d.error(node.place, e.rule, e.message).value(reference.name).help(e.help);
                None
            }
        }
    });
    let (address, place) = address?;
    let port = port?;
    d.key("address", |d| connected(d, place, address, port, names));
    Some(Neighbor { interface: port.name().to_string(), address, mac: mac?, place })
}

/// A neighbour is on a wire, and not the router itself. It need not be in a prefix of the interface: routes may lead to it
/// there.
fn connected(d: &mut Decoder<'_>, place: Place, address: IpAddr, port: Port<'_>, names: &Names<'_>) {
    let name = port.name();
    if names.is_alone(port) {
        d.error(place, "neighbor-connected", format!("`{name}` has no neighbors"))
            .help("an interface with a wire, or a BVI");
        return;
    }
    if port
        .addresses()
        .iter()
        .any(|a| a.net.addr() == address || net::router::anycast(a.net) == Some(address))
    {
        d.error(place, "neighbor-connected", format!("{address} is the router's own address on `{name}`"))
            .value(address)
            .help("the neighbour's address");
    }
}
