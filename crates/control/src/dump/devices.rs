//! The sections `devices` and `taps`: what stands behind interfaces.

use super::{DEVICE, Source};
use crate::written::{Map, Node};
use net::dpdk::{DpdkConfig, DpdkOp};
use net::router::{HostConfig, HostDriver, IfState, Kind, Offload, Op, PcapConfig, Ring, TapConfig, XdpMode};

/// An entry of `devices`: what is not as it is without one.
pub(super) fn device(from: Source<'_>, i: &IfState) -> Option<Node> {
    if i.kind == Kind::Local {
        return None;
    }
    let mut fields = Map::new();
    match &i.origin {
        Op::CreateHost { config, .. } => host(i, config, &mut fields),
        Op::CreatePcap { config, .. } => pcap(config, &mut fields),
        Op::CreateTap { config, .. } => tap_device(i, config, &mut fields),
        Op::Part(op) => op.get().into_iter().for_each(|op: &DpdkOp| dpdk(&op.config, &mut fields)),
        _ => {}
    }
    let mut placed = Map::new();
    // The queues of an interface of a part are there only while its other end is.
    for (queue, worker) in i.placed.iter().filter(|_| !matches!(i.kind, Kind::Virtual(_))) {
        placed.put(queue.to_string(), *worker);
    }
    fields.put_some("rx-placement", Some(Node::Flow(placed)));
    fields.put_unless("promiscuous", i.promiscuous, false);
    DEVICE.iter().for_each(|write| write(from, i, &mut fields));
    (!fields.is_empty()).then_some(fields.into())
}

/// `handoff` of an entry of `devices`.
pub(super) fn handoff(from: Source<'_>, i: &IfState, to: &mut Map) {
    let Some(config) = net::steering::config(from.router, i.index) else { return };
    let mut fields = Map::new();
    fields
        .put_some("workers", Some(Node::Row(config.workers.iter().map(|w| Node::from(*w as u64)).collect())));
    // So that it says something in any case.
    fields.put("symmetrical", config.symmetrical);
    to.put("handoff", Node::Flow(fields));
}

fn offload(o: Offload) -> Option<Node> {
    match o {
        Offload::Auto => None,
        Offload::On => Some(true.into()),
        Offload::Off => Some(false.into()),
    }
}

fn host(i: &IfState, c: &HostConfig, to: &mut Map) {
    to.put_unless("driver", c.driver.name(), HostDriver::default().name());
    to.put_some("mode", c.mode.map(XdpMode::name));
    to.put_some("left-to-linux", Some(Node::List(c.kept.iter().map(|k| k.to_string().into()).collect())));
    to.put_unless("host", c.host.as_str(), i.name.as_str());
    to.put_some("namespace", c.netns.as_deref());
    to.put_unless("rx-queues", c.rx_queues, 1);
    let mut ring = Map::new();
    ring.put_some("slots", c.slots);
    ring.put_some("version", (c.ring == Ring::V3).then_some("tpacket-v3"));
    to.put_some("rx-ring", Some(Node::Flow(ring)));
    to.put_some("offload", offload(c.offload));
}

fn dpdk(c: &DpdkConfig, to: &mut Map) {
    let usual = DpdkConfig::new(c.device.clone());
    to.put("driver", "dpdk").put("device", Node::text(&c.device));
    to.put_unless("rx-queues", c.rx_queues, usual.rx_queues);
    to.put_unless("tx-queues", c.tx_queues, usual.tx_queues);
    let mut ring = Map::new();
    ring.put_some("slots", c.slots);
    to.put_some("rx-ring", Some(Node::Flow(ring)));
    to.put_some("offload", offload(c.offload));
}

fn pcap(c: &PcapConfig, to: &mut Map) {
    let mut file = Map::new();
    file.put_some("read", c.read.as_deref()).put_some("write", c.write.as_deref());
    file.put_some("rate", c.pps).put_unless("loop", c.repeat, false);
    to.put("driver", "pcap").put("pcap", file);
}

fn tap_device(i: &IfState, c: &TapConfig, to: &mut Map) {
    to.put_unless("rx-queues", c.rx_queues, 1);
    to.put_some("offload", offload(c.offload));
    to.put_unless("persistent", c.persist, false);
    // Without it the format allows neither.
    to.put_some("routed", (i.operators_addresses().next().is_some() || !i.subs.is_empty()).then_some(true));
}

/// An entry of `taps`.
pub(super) fn tap(_: Source<'_>, i: &IfState) -> Option<Node> {
    let Op::CreateTap { config: c, .. } = &i.origin else { return None };
    let mut host = Map::new();
    host.put("name", c.host_name.as_str());
    host.put_some("mac", c.host_mac.map(Node::text));
    host.put_some("ip4-address", c.addresses.ip4.map(Node::text));
    host.put_some("ip4-gateway", c.addresses.gw4.map(Node::text));
    host.put_some("ip6-address", c.addresses.ip6.map(Node::text));
    host.put_some("ip6-gateway", c.addresses.gw6.map(Node::text));
    host.put_some("bridge", c.bridge.as_deref()).put_unless("bridge-create", c.bridge_create, false);
    host.put_some("namespace", c.netns.as_deref());
    host.put_unless("namespace-create", c.netns_create, false);
    let mut fields = Map::new();
    fields.put("host", host);
    fields.put_unless("rx-ring-size", c.rx_ring.unwrap_or(256), 256);
    Some(fields.into())
}
