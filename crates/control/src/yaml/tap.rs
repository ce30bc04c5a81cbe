//! The section `taps`.

use std::collections::BTreeMap;

use ipnet::IpNet;
use net::router::{TapAddresses, is_namespace};
use std::net::IpAddr;

use super::decode::{Decoder, Fields};
use super::device::{self, DeviceEntry};
use super::diag::Place;
use super::interface::{blank, mtu, object_name};
use super::model::{Interface, InterfaceKind, Offload, Tap};
use super::scalar::Reference;
use super::tree::Node;

pub(super) const TAP: &[&str] = &["description", "host", "rx-ring-size", "tx-ring-size"];
pub(super) const TAP_HOST: &[&str] = &[
    "name",
    "mac",
    "mtu",
    "ip4-address",
    "ip4-gateway",
    "ip6-address",
    "ip6-gateway",
    "bridge",
    "bridge-create",
    "namespace",
    "namespace-create",
];

/// The section. A host MTU that is not given is 0 until the interface's is known.
pub(super) fn decode<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<BTreeMap<&'n str, Tap>> {
    let mut taps = BTreeMap::new();
    let mut hosts: BTreeMap<(Option<String>, String), Place> = BTreeMap::new();
    for (name, place, node) in d.entries(node, "TAP names") {
        d.key(name, |d| {
            object_name(d, name, place, "tap", 1024);
            // One that is declared wrong stays, so that its name is known.
            let tap = tap(d, place, node, &mut hosts);
            taps.insert(name, tap.unwrap_or_else(|| blank_tap(place)));
        });
    }
    Some(taps)
}

fn tap<'n>(
    d: &mut Decoder<'n>,
    place: Place,
    node: &'n Node<'n>,
    hosts: &mut BTreeMap<(Option<String>, String), Place>,
) -> Option<Tap> {
    let fields = d.fields(node, TAP)?;
    let description = d.field(&fields, "description", |d, node| d.description(node));
    let rx = d.field(&fields, "rx-ring-size", ring_size);
    let tx = d.field(&fields, "tx-ring-size", ring_size);
    let mut tap = d.required(&fields, "host", "host: {name: NAME} names the Linux side", |d, node| {
        host(d, place, node, hosts)
    })?;
    tap.description = description;
    tap.rx_ring_size = rx.unwrap_or(256);
    tap.tx_ring_size = tx.unwrap_or(256);
    Some(tap)
}

fn host<'n>(
    d: &mut Decoder<'n>,
    place: Place,
    node: &'n Node<'n>,
    hosts: &mut BTreeMap<(Option<String>, String), Place>,
) -> Option<Tap> {
    let fields = d.fields(node, TAP_HOST)?;
    let mac = d.field(&fields, "mac", |d, node| d.mac(node));
    let bridge = d.field(&fields, "bridge", device::linux_device);
    let bridge_create = d.field(&fields, "bridge-create", |d, node| d.boolean(node));
    let namespace = d.field(&fields, "namespace", namespace);
    let namespace_create = d.field(&fields, "namespace-create", |d, node| d.boolean(node));
    for (create, of) in [("bridge-create", "bridge"), ("namespace-create", "namespace")] {
        if fields.has(create) && !fields.has(of) {
            d.key(create, |d| {
                d.error(fields.key_place(create), "needs", format!("there is no `{of}` to create"))
                    .help(format!("add `{of}`, or remove `{create}`"));
            });
        }
    }
    let host_mtu = mtu(d, &fields, 0);
    let addresses = addresses(d, &fields);
    let name = d.required(&fields, "name", "the name of the Linux side", |d, node| d.linux_name(node))?;
    unique_host(d, &name, namespace.clone(), hosts);
    Some(Tap {
        host_name: name.name,
        host_mac: mac,
        host_mtu,
        addresses,
        bridge,
        bridge_create: bridge_create.unwrap_or(false),
        namespace,
        namespace_create: namespace_create.unwrap_or(false),
        ..blank_tap(place)
    })
}

/// What fits and what does not is said when the MTU is known.
fn addresses<'n>(d: &mut Decoder<'n>, fields: &Fields<'n>) -> TapAddresses {
    let mut a = TapAddresses::default();
    for (field, six) in [("ip4-address", false), ("ip6-address", true)] {
        let family = |d: &mut Decoder<'n>, node| {
            let net = d.interface_address(node)?;
            of_family(d, node, net.addr(), six)?;
            Some(net)
        };
        match d.field(fields, field, family) {
            Some(IpNet::V4(net)) => a.ip4 = Some(net),
            Some(IpNet::V6(net)) => a.ip6 = Some(net),
            None => {}
        }
    }
    for (field, six) in [("ip4-gateway", false), ("ip6-gateway", true)] {
        let gateway = |d: &mut Decoder<'n>, node: &'n Node<'n>| {
            let text = d.text(node, "an address")?;
            let address = d.address(node.place, text)?;
            of_family(d, node, address, six)?;
            Some(address)
        };
        match d.field(fields, field, gateway) {
            Some(IpAddr::V4(gateway)) => a.gw4 = Some(gateway),
            Some(IpAddr::V6(gateway)) => a.gw6 = Some(gateway),
            None => {}
        }
    }
    a
}

fn of_family<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, address: IpAddr, six: bool) -> Option<()> {
    if address.is_ipv6() == six {
        return Some(());
    }
    let (wanted, other) = if six { ("IPv6", "ip4") } else { ("IPv4", "ip6") };
    d.error(node.place, "address-family", format!("{address} is not an {wanted} address"))
        .value(address)
        .help(format!("the fields {other}-address and {other}-gateway take it"));
    None
}

fn blank_tap(place: Place) -> Tap {
    Tap {
        place,
        description: None,
        host_name: String::new(),
        host_mac: None,
        host_mtu: 0,
        addresses: TapAddresses::default(),
        bridge: None,
        bridge_create: false,
        namespace: None,
        namespace_create: false,
        rx_ring_size: 256,
        tx_ring_size: 256,
        persistent: false,
        routed: false,
        rx_queues: 1,
        tx_queues: 1,
        offload: Offload::Auto,
    }
}

fn unique_host(
    d: &mut Decoder<'_>,
    name: &Reference,
    namespace: Option<String>,
    hosts: &mut BTreeMap<(Option<String>, String), Place>,
) {
    if let Some(first) = hosts.get(&(namespace.clone(), name.name.clone())) {
        let message = format!("the host name `{}` is taken by the TAP on line {}", name.name, first.line);
        d.error(name.place, "host-name-unique", message)
            .value(&name.name)
            .help("a name of its own, or another namespace");
        return;
    }
    hosts.insert((namespace, name.name.clone()), name.place);
}

fn ring_size<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<u32> {
    power_of_two(d, node, 8, 32768)
}

/// A power of two in a range.
pub(super) fn power_of_two<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>, low: u32, high: u32) -> Option<u32> {
    let size = d.int(node, low, high)?;
    if !size.is_power_of_two() {
        d.error(node.place, "power-of-two", format!("{size} is not a power of two"))
            .value(size)
            .help(format!("{} or {}", size.next_power_of_two() / 2, size.next_power_of_two()));
        return None;
    }
    Some(size)
}

/// The name of a network namespace: one path component.
pub(super) fn namespace<'n>(d: &mut Decoder<'n>, node: &'n Node<'n>) -> Option<String> {
    let name = d.string(node, "the name of a network namespace", 255)?;
    if !is_namespace(&name) {
        d.error(node.place, "namespace", "this cannot name a network namespace")
            .value(&name)
            .help("a name as `ip netns list` shows it");
        return None;
    }
    Some(name)
}

/// The interfaces of TAPs that `interfaces` does not speak of: all defaults, the host side's MTU.
pub(super) fn remaining<'n>(
    taps: BTreeMap<&'n str, Tap>,
    devices: &mut BTreeMap<&'n str, DeviceEntry>,
) -> Vec<Interface> {
    let mut interfaces = Vec::new();
    for (name, mut tap) in taps {
        let entry = devices.remove(name);
        let mut interface = blank(format!("taps.{name}"), name, tap.place, InterfaceKind::Loopback);
        interface.placement = entry.as_ref().map(|e| e.placement.clone()).unwrap_or_default();
        interface.handoff = entry.as_ref().and_then(|e| e.handoff.clone());
        interface.promiscuous = entry.as_ref().is_some_and(|e| e.promiscuous);
        device::apply_to_tap(&mut tap, entry);
        interface.description.clone_from(&tap.description);
        if tap.host_mtu != 0 {
            interface.mtu = tap.host_mtu;
        }
        tap.host_mtu = interface.mtu;
        interface.kind = InterfaceKind::Tap(tap);
        interfaces.push(interface);
    }
    interfaces
}
