//! The main paths of packets through the real graph, run inline on one thread: nothing depends on time or on other
//! threads, so that what a vector costs can be counted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use graph::{
    Buffers, Dispatcher, Guard, NodeId, PoolConfig, PoolMemory, TxCaps, TxQueue, TxReport, VECTOR_SIZE,
    Vector,
};
use net::bond::{BondConfig, BondOp, Joins, MemberConfig, Mode};
use net::gre::{GreConfig, GreOp};
use net::l2::bridge::{BridgeOp, BridgeSettings, StaticMac};
use net::labels::OutLabels;
use net::mpls::{LabelBatch, MplsOp, TunnelConfig};
use net::neighbor::DadMode;
use net::output::InterfaceTx;
use net::punt::{Class, Limit};
use net::router::{
    Encap, Lookup, Membership, Op, PcapConfig, RoutePath, RouteTable, Router, RouterConfig, Target,
};
use net::span::{Directions, Mirror};
use net::vxlan::{VxlanConfig, VxlanOp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The paths. `mixed` is IPv4, IPv6, ARP, unknown types, and a TTL that runs out.
pub const PATHS: [&str; 46] = [
    "ip4",
    "ip6",
    "l2xc",
    "vlan",
    "vlan-many",
    "qinq-many",
    "vrf-many",
    "ip4-ecmp",
    "mixed",
    "icmp-error",
    "drop",
    "unknown-neighbor",
    "reassembly",
    "urpf-strict",
    "urpf-strict6",
    "vrf",
    "vrf6",
    "ip4-recursive",
    "ip4-leak",
    "mss-clamp",
    "l2bd",
    "l2-flood",
    "l2-many",
    "bvi",
    "bvi-out",
    "mpls-ingress",
    "mpls-ingress2",
    "mpls-swap",
    "mpls-egress",
    "mpls-explicit-null",
    "mpls-php",
    "mpls-frag",
    "mpls-error-along",
    "pseudowire",
    "pseudowire-in",
    "span-rx",
    "span-tx",
    "span-beside",
    "gre-encap",
    "gre-decap",
    "vxlan-encap",
    "vxlan-decap",
    "linux-punt",
    "linux-inject",
    "bond-out",
    "bond-in",
];

const PORTS: [&str; 13] = [
    "left", "right", "patch", "cord", "trunk", "guarded", "customer", "clamped", "hub", "spoke", "rim",
    "site", "host",
];

/// Behind these, where there is a bond, its members, with its address.
const MEMBERS: [&str; 2] = ["strand", "twine"];

/// A station behind `spoke`.
const STATION: packet::MacAddr = packet::MacAddr([2, 0, 0, 0, 2, 1]);
/// A station behind the VXLAN tunnel.
const FAR: packet::MacAddr = packet::MacAddr([2, 0, 0, 0, 2, 2]);
/// The network identifier of that.
const VNI: u32 = 7;
/// The address of the BVI.
const BVI: packet::MacAddr = packet::MacAddr([2, 0, 0, 0, 3, 1]);

struct Sink(Arc<AtomicU64>);

impl TxQueue for Sink {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: graph::Packets<'_>) -> TxReport {
        let n = packets.len() as u64;
        buffers.free_all(packets);
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        TxReport { packets: n, bytes: 64 * n, ..TxReport::default() }
    }
}

/// A router, a graph, and the frames of one path.
pub struct Rig {
    _router: Router,
    dispatcher: Dispatcher,
    vector: Box<Vector>,
    guard: Guard,
    frames: Vec<(u32, Vec<u8>)>,
    input: NodeId,
    sent: Arc<AtomicU64>,
}

fn ops() -> Vec<Op> {
    let mut ops = vec![];
    for (n, name) in PORTS.iter().enumerate() {
        let name = name.to_string();
        let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
        ops.push(Op::CreatePcap { name: name.clone(), config });
        let mac = packet::MacAddr([2, 0, 0, 0, 0, n as u8 + 1]);
        ops.push(Op::SetMac { name: name.clone(), mac: Some(mac) });
        if ["right", "site"].contains(&name.as_str()) {
            ops.push(Op::SetMtu { name: name.clone(), mtu: 1500 });
        }
        ops.push(Op::SetState { name, up: true });
    }
    for (parent, vlan) in [("trunk", 100), ("trunk", 200)] {
        let encap = Encap::Tags { dot1ad: false, outer: Some(vlan), inner: None, exact: true };
        ops.push(Op::CreateSub { parent: parent.into(), id: vlan.into(), encap });
        ops.push(Op::SetState { name: format!("{parent}.{vlan}"), up: true });
    }
    for (name, peer) in [("patch", "cord"), ("cord", "patch")] {
        ops.push(Op::SetXconnect { name: name.into(), peer: Some(peer.into()) });
    }
    for v6 in [false, true] {
        let table = RouteTable { v6, id: 1 };
        ops.push(Op::CreateTable { table, name: None });
        ops.push(Op::SetTable { name: "customer".into(), table });
    }
    ops.push(Op::CreateLoopback { instance: Some(0), mac: Some(BVI) });
    ops.push(Op::SetState { name: "loop0".into(), up: true });
    ops.push(Op::from(BridgeOp::Create { id: 1, settings: BridgeSettings::default() }));
    for name in ["hub", "spoke", "rim", "loop0"] {
        let member = Some(Membership { bridge: 1, bvi: name == "loop0", shg: 0 });
        ops.push(Op::from(BridgeOp::Port { name: name.into(), member }));
    }
    let to = Some(StaticMac::Port("spoke".into()));
    ops.push(Op::from(BridgeOp::Mac { id: 1, mac: STATION, to }));
    for (name, net) in [
        ("loop0", "10.0.6.1/24"),
        ("left", "10.0.1.1/24"),
        ("left", "2001:db8:1::1/64"),
        ("right", "10.0.2.1/24"),
        ("right", "2001:db8:2::1/64"),
        ("trunk.100", "10.0.3.1/24"),
        ("trunk.200", "10.0.4.1/24"),
        ("guarded", "10.0.5.1/24"),
        ("guarded", "2001:db8:5::1/64"),
        ("customer", "10.0.6.1/24"),
        ("customer", "2001:db8:6::1/64"),
        ("clamped", "10.0.7.1/24"),
    ] {
        ops.push(Op::AddAddress { name: name.into(), net: net.parse().unwrap() });
    }
    for (name, address) in [
        ("left", "10.0.1.2"),
        ("right", "10.0.2.2"),
        ("right", "10.0.2.3"),
        ("right", "10.0.2.4"),
        ("right", "10.0.2.5"),
        ("right", "2001:db8:2::2"),
        // Not who sends: a link without any known host is rare, and its sources are found a step sooner.
        ("guarded", "2001:db8:5::9"),
        ("trunk.200", "10.0.4.2"),
    ] {
        let mac = packet::MacAddr([2, 0, 0, 0, 1, 1]);
        ops.push(Op::SetNeighbor { name: name.into(), address: address.parse().unwrap(), mac });
    }
    let feature = net::mss::size(false).to(net::mss::Clamp { rx: 1000, tx: 0 }).into();
    ops.push(Op::SetFeature { name: "clamped".into(), feature });
    for v6 in [false, true] {
        let feature =
            net::urpf::SourceCheck { v6, tx: false, mode: net::urpf::Mode::Strict, table: None }.into();
        ops.push(Op::SetFeature { name: "guarded".into(), feature });
    }
    let address = "10.0.6.2".parse().unwrap();
    ops.push(Op::SetNeighbor { name: "loop0".into(), address, mac: STATION });
    let several = ["10.0.2.2", "10.0.2.3", "10.0.2.4", "10.0.2.5"];
    for (prefix, paths) in [
        ("20.0.0.0/8", &several[..1]),
        ("21.0.0.0/8", &several[..]),
        ("22.0.0.0/8", &["10.0.4.2"]),
        ("24.0.0.0/8", &["10.0.2.99"]),
        ("25.0.0.0/8", &["10.0.6.2"]),
        ("2001:db8:20::/48", &["2001:db8:2::2"]),
    ] {
        let path = |a: &&str| RoutePath {
            address: Some(a.parse().unwrap()),
            interface: None,
            table: None,
            weight: 1,
            ..Default::default()
        };
        let target = Target::Paths(paths.iter().map(path).collect());
        ops.push(Op::SetRoute { table: 0, prefix: prefix.parse().unwrap(), target });
    }
    // A route over two others, one in a table of its own, and one that leads from there into table 0.
    let via = |a: &str, table| RoutePath {
        address: (!a.is_empty()).then(|| a.parse().unwrap()),
        interface: None,
        table,
        weight: 1,
        ..Default::default()
    };
    for (table, prefix, path) in [
        (0, "30.0.0.0/8", via("31.0.0.1", None)),
        (0, "31.0.0.0/8", via("32.0.0.1", None)),
        (0, "32.0.0.0/8", via("10.0.2.2", None)),
        (1, "20.0.0.0/8", via("10.0.2.2", Some(0))),
        (1, "2001:db8:20::/48", via("2001:db8:2::2", Some(0))),
        (1, "30.0.0.0/8", via("", Some(0))),
    ] {
        let target = Target::Paths(vec![path]);
        ops.push(Op::SetRoute { table, prefix: prefix.parse().unwrap(), target });
    }
    ops.push(Op::SetRoute { table: 0, prefix: "23.0.0.0/8".parse().unwrap(), target: Target::Drop });
    ops.extend(labels());
    ops
}

/// Labels to and from the neighbour on `right`.
fn labels() -> Vec<Op> {
    let via = |labels: &[u32]| {
        let labels = OutLabels::new(labels).unwrap();
        let address = Some("10.0.2.2".parse().unwrap());
        Target::Paths(vec![RoutePath { address, labels, ..RoutePath::default() }])
    };
    let mut batch = LabelBatch::in_table(0);
    for bottom in [false, true] {
        batch.set(100, bottom, &via(&[200]));
        batch.set(101, bottom, &via(&[3]));
        batch.set(103, bottom, &via(&[200, 300]));
    }
    let lookup = RoutePath { table: Some(0), lookup: Lookup::Ip4, ..RoutePath::default() };
    batch.set(102, true, &Target::Paths(vec![lookup]));
    let route = |prefix: &str, labels: &[u32]| Op::SetRoute {
        table: 0,
        prefix: prefix.parse().unwrap(),
        target: via(labels),
    };
    let Target::Paths(paths) = via(&[100, 1000]) else { unreachable!("it has paths") };
    let config = TunnelConfig { l2_only: true, control_word: false, paths };
    let wire = |name: &str, peer: &str| Op::SetXconnect { name: name.into(), peer: Some(peer.into()) };
    vec![
        Op::from(MplsOp::CreateTunnel { instance: Some(0), config }),
        Op::SetState { name: "mpls-tunnel0".into(), up: true },
        wire("site", "mpls-tunnel0"),
        wire("mpls-tunnel0", "site"),
        Op::SetFeature { name: "left".into(), feature: net::mpls::TAKEN.to(true).into() },
        Op::from(MplsOp::Routes(batch)),
        route("40.0.0.0/8", &[100]),
        route("41.0.0.0/8", &[100, 200]),
    ]
}

/// A label below which frames come in on the tunnel.
fn frames_in(router: &Router) -> Op {
    let interface = router.interface_index("mpls-tunnel0");
    let path = RoutePath { interface, lookup: Lookup::Frame, ..RoutePath::default() };
    let mut batch = LabelBatch::in_table(0);
    batch.set(1000, true, &Target::Paths(vec![path]));
    Op::from(MplsOp::Routes(batch))
}

/// The tunnel of a path: from `right` to its neighbour, or from `left` for what comes out.
fn tunnel(path: &str) -> Vec<Op> {
    let out = path.ends_with("-decap");
    let end = |host: u8| std::net::IpAddr::from([10, 0, if out { 1 } else { 2 }, host]);
    let up = |name: &str| Op::SetState { name: name.into(), up: true };
    if path.starts_with("gre-") {
        let config = GreConfig::new(end(1), end(2));
        let via = RoutePath { address: Some([10, 0, 42, 2].into()), ..RoutePath::default() };
        let (prefix, target) = ("42.0.0.0/8".parse().unwrap(), Target::Paths(vec![via]));
        return vec![
            GreOp::Create { instance: 0, config }.into(),
            up("gre0"),
            Op::AddAddress { name: "gre0".into(), net: "10.0.42.1/30".parse().unwrap() },
            Op::SetRoute { table: 0, prefix, target },
        ];
    }
    if path.starts_with("vxlan-") {
        let name = || "vxlan_tunnel0".to_string();
        let member = Some(Membership { bridge: 1, bvi: false, shg: 0 });
        let to = Some(StaticMac::Port(name()));
        return vec![
            VxlanOp::Create { instance: 0, config: VxlanConfig::new(end(1), end(2), VNI) }.into(),
            up(&name()),
            Op::from(BridgeOp::Port { name: name(), member }),
            Op::from(BridgeOp::Mac { id: 1, mac: FAR, to }),
        ];
    }
    vec![]
}

/// A bond of two members that share its flows, with a route over it.
fn bond() -> Vec<Op> {
    let name = || "BondEthernet0".to_string();
    let config = BondConfig { mode: Mode::Xor, ..BondConfig::default() };
    let up = |name: &str| Op::SetState { name: name.into(), up: true };
    let mut ops = vec![
        BondOp::Create { instance: 0, config }.into(),
        Op::SetMac { name: name(), mac: Some(packet::MacAddr([2, 0, 0, 0, 0, PORTS.len() as u8 + 1])) },
        up(&name()),
    ];
    for member in MEMBERS {
        let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
        let feature = Joins { bond: Some((name(), MemberConfig::default())) }.into();
        ops.push(Op::CreatePcap { name: member.into(), config });
        ops.push(Op::SetMtu { name: member.into(), mtu: 9000 });
        ops.push(Op::SetFeature { name: member.into(), feature });
        ops.push(up(member));
    }
    let (mac, address) = (packet::MacAddr([2, 0, 0, 0, 1, 1]), "10.0.43.2".parse().unwrap());
    let via = RoutePath { address: Some(address), ..RoutePath::default() };
    let (prefix, target) = ("43.0.0.0/8".parse().unwrap(), Target::Paths(vec![via]));
    ops.push(Op::AddAddress { name: name(), net: "10.0.43.1/24".parse().unwrap() });
    ops.push(Op::SetNeighbor { name: name(), address, mac });
    ops.push(Op::SetRoute { table: 0, prefix, target });
    ops
}

/// A packet from the host on `left` to the router, with these bytes behind its header.
fn to_router(protocol: u8, inside: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 20 + inside.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    p.extend([10, 0, 1, 2, 10, 0, 1, 1]);
    packet::ip4::fill_checksum(&mut p);
    p.extend(inside);
    p
}

/// Sub-interfaces on which packets come in turn.
const MANY: u16 = 16;

/// Those with two tags, and those with one; each of these has a table of its own with `tables`, whose route leads to `right`.
fn many(tables: bool, right: u32) -> Vec<Op> {
    let mut ops = vec![];
    for n in 0..MANY {
        for (id, outer, inner) in [(1000 + n, 300 + n, None), (2000 + n, 400, Some(Some(1 + n)))] {
            let encap = Encap::Tags { dot1ad: false, outer: Some(outer), inner, exact: true };
            ops.push(Op::CreateSub { parent: "trunk".into(), id: id.into(), encap });
            let name = format!("trunk.{id}");
            let table = RouteTable { v6: false, id: id.into() };
            if tables && inner.is_none() {
                ops.push(Op::CreateTable { table, name: None });
                ops.push(Op::SetTable { name: name.clone(), table });
                let address = Some("10.0.2.2".parse().unwrap());
                let path = RoutePath { address, interface: Some(right), ..RoutePath::default() };
                let (prefix, target) = ("20.0.0.0/8".parse().unwrap(), Target::Paths(vec![path]));
                ops.push(Op::SetRoute { table: id.into(), prefix, target });
            }
            let net = format!("10.{}.{n}.1/30", id / 1000 + 10).parse().unwrap();
            ops.push(Op::AddAddress { name: name.clone(), net });
            ops.push(Op::SetState { name, up: true });
        }
    }
    ops
}

/// What only routers with further tables have: theirs look at each packet's interface.
fn of_tables(op: &Op) -> bool {
    match op {
        Op::CreateTable { .. } | Op::SetTable { .. } => true,
        Op::SetRoute { table, .. } => *table != 0,
        Op::AddAddress { name, .. } => name == "customer",
        _ => false,
    }
}

fn ethernet(port: u8, vlan: Option<u16>, ethertype: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, port + 1, 2, 0, 0, 0, 1, 0xaa];
    if let Some(vlan) = vlan {
        f.extend([0x81, 0]);
        f.extend(vlan.to_be_bytes());
    }
    f.extend(ethertype.to_be_bytes());
    f
}

fn udp(n: u8) -> [u8; 8] {
    [4, n, 0, 80, 0, 26, 0, 0]
}

fn ip4(first: u8, n: u8, ttl: u8) -> Vec<u8> {
    ip4_from(1, first, n, ttl)
}

/// From a host on the network of a port.
fn ip4_from(port: u8, first: u8, n: u8, ttl: u8) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 46, 0, n, 0, 0, ttl, 17, 0, 0, 10, 0, port, 2];
    p.extend([first, n.wrapping_mul(7), n.wrapping_mul(13), n]);
    packet::ip4::fill_checksum(&mut p);
    p.extend(udp(n));
    p.resize(46, 0);
    p
}

/// One of the two fragments of an echo request to the router.
fn echo_part(n: u8) -> Vec<u8> {
    let mut echo = [8, 0, 0, 0, 0, 1, 0, n / 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let sum = packet::checksum::Sum::of(&echo).checksum();
    echo[2..4].copy_from_slice(&sum.to_be_bytes());
    let (place, part) = if n.is_multiple_of(2) { ([0x20, 0], &echo[..16]) } else { ([0, 2], &echo[16..]) };
    let mut p = vec![
        0x45,
        0,
        0,
        20 + part.len() as u8,
        0,
        n / 2,
        place[0],
        place[1],
        64,
        1,
        0,
        0,
        10,
        0,
        1,
        2,
        10,
        0,
        1,
        1,
    ];
    packet::ip4::fill_checksum(&mut p);
    p.extend_from_slice(part);
    p
}

fn tcp4(port: u8, n: u8) -> Vec<u8> {
    let mut p = ip4_from(port, 20, n, 64);
    p.truncate(20);
    (p[3], p[9]) = (44, 6);
    packet::ip4::fill_checksum(&mut p);
    p.extend([
        4,
        n,
        0,
        80,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0x60,
        if n.is_multiple_of(8) { 2 } else { 0x10 },
        255,
        255,
        0,
        0,
        0,
        0,
    ]);
    p.extend([2, 4, 5, 0xb4]);
    p
}

fn ip6(port: u8, n: u8) -> Vec<u8> {
    let mut p = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    for a in [format!("2001:db8:{port}::2"), format!("2001:db8:20:{n}::{n}")] {
        p.extend(a.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    p.extend(udp(n));
    p
}

/// An IPv4 packet behind a label at the bottom of its stack.
fn labelled(label: u32, n: u8) -> Vec<u8> {
    under(label, 64, ip4(20, n, 64))
}

fn under(label: u32, ttl: u8, packet: Vec<u8>) -> Vec<u8> {
    let entry = label << 12 | 1 << 8 | u32::from(ttl);
    [&entry.to_be_bytes()[..], &packet].concat()
}

/// An IPv4 packet of 1496 bytes that may be fragmented.
fn long(n: u8) -> Vec<u8> {
    let mut p = ip4(20, n, 64);
    p[2..4].copy_from_slice(&1496u16.to_be_bytes());
    packet::ip4::fill_checksum(&mut p[..20]);
    p.resize(1496, n);
    p
}

/// An IPv4 packet from where no route leads.
fn stray(n: u8) -> Vec<u8> {
    let mut p = ip4(20, n, 64);
    p[12] = 99;
    packet::ip4::fill_checksum(&mut p[..20]);
    p
}

/// A frame that comes on `hub` from one of many stations.
fn bridged(to: packet::MacAddr, from: u8, packet: Vec<u8>) -> (u8, Vec<u8>) {
    let mut f = ethernet(8, None, 0x0800);
    f[..6].copy_from_slice(&to.0);
    f[11] = from;
    f.extend(packet);
    f.resize(f.len().max(60), 0);
    (8, f)
}

/// Port and bytes of packet `n` of a path's vectors.
fn frame(path: &str, n: u8) -> (u8, Vec<u8>) {
    let (port, vlan, ethertype, packet) = match path {
        "ip4" | "span-rx" | "span-tx" | "span-beside" => (0, None, 0x0800, ip4(20, n, 64)),
        "ip6" => (0, None, 0x86dd, ip6(1, n)),
        // Every eighth packet is a SYN.
        "mss-clamp" => (7, None, 0x0800, tcp4(7, n)),
        "urpf-strict" => (5, None, 0x0800, ip4_from(5, 20, n, 64)),
        "urpf-strict6" => (5, None, 0x86dd, ip6(5, n)),
        "vrf" => (6, None, 0x0800, ip4_from(6, 20, n, 64)),
        "vrf6" => (6, None, 0x86dd, ip6(6, n)),
        "ip4-recursive" => (0, None, 0x0800, ip4(30, n, 64)),
        "ip4-leak" => (6, None, 0x0800, ip4_from(6, 30, n, 64)),
        "l2xc" => (2, None, 0x0800, ip4(20, n, 64)),
        "vlan" => (4, Some(100), 0x0800, ip4(22, n, 64)),
        "vlan-many" | "vrf-many" => (4, Some(300 + u16::from(n) % MANY), 0x0800, ip4(20, n, 64)),
        "qinq-many" => {
            let mut inner = vec![0, 1 + n % MANY as u8, 8, 0];
            inner.extend(ip4(20, n, 64));
            (4, Some(400), 0x8100, inner)
        }
        "ip4-ecmp" => (0, None, 0x0800, ip4(21, n, 64)),
        "l2bd" => return bridged(STATION, 1, ip4(20, n, 64)),
        "l2-flood" => return bridged(packet::MacAddr([0xff; 6]), 1, ip4(20, n, 64)),
        // From as many stations as the vector has frames.
        "l2-many" => return bridged(STATION, n, ip4(20, n, 64)),
        "bvi" => return bridged(BVI, 1, ip4(20, n, 64)),
        "gre-encap" => (0, None, 0x0800, ip4(42, n, 64)),
        "gre-decap" => (0, None, 0x0800, to_router(47, &[&[0, 0, 8, 0], &ip4(20, n, 64)[..]].concat())),
        "linux-punt" => (0, None, 0x0800, to_router(6, &[n; 20])),
        "linux-inject" => (12, None, 0x0800, ip4(20, n, 64)),
        "vxlan-encap" => return bridged(FAR, 1, ip4(20, n, 64)),
        "vxlan-decap" => {
            let (_, inner) = bridged(STATION, 1, ip4(20, n, 64));
            let mut inside = vec![0xc0, n, 0x12, 0xb5, 0, 16 + inner.len() as u8, 0, 0, 8, 0, 0, 0];
            inside.extend((VNI << 8).to_be_bytes());
            inside.extend(inner);
            (0, None, 0x0800, to_router(17, &inside))
        }
        "bond-out" => (0, None, 0x0800, ip4(43, n, 64)),
        "bond-in" => (PORTS.len() as u8, None, 0x0800, ip4(20, n, 64)),
        "bvi-out" => (0, None, 0x0800, ip4(25, n, 64)),
        "mpls-ingress" => (0, None, 0x0800, ip4(40, n, 64)),
        "mpls-ingress2" => (0, None, 0x0800, ip4(41, n, 64)),
        "mpls-swap" => (0, None, 0x8847, labelled(100, n)),
        "mpls-php" => (0, None, 0x8847, labelled(101, n)),
        "mpls-egress" => (0, None, 0x8847, labelled(102, n)),
        "mpls-explicit-null" => (0, None, 0x8847, labelled(0, n)),
        "mpls-frag" => (0, None, 0x8847, under(103, 64, long(n))),
        "mpls-error-along" => (0, None, 0x8847, under(100, 1, stray(n))),
        "pseudowire" => (11, None, 0x0800, ip4(20, n, 64)),
        "pseudowire-in" => {
            let frame = [ethernet(11, None, 0x0800), ip4(20, n, 64)].concat();
            (0, None, 0x8847, under(1000, 64, frame))
        }
        "icmp-error" => (0, None, 0x0800, ip4(20, n, 1)),
        "reassembly" => (0, None, 0x0800, echo_part(n)),
        "unknown-neighbor" => (0, None, 0x0800, ip4(24, n, 64)),
        "drop" => match n % 4 {
            0 => (0, None, 0x0800, ip4(23, n, 64)),
            1 => (0, None, 0x0800, ip4(127, n, 64)),
            2 => (0, None, 0x1234, vec![0; 46]),
            _ => {
                let mut bad = ip4(20, n, 64);
                bad[10] ^= 1;
                (0, None, 0x0800, bad)
            }
        },
        "mixed" => match n % 8 {
            0..=3 => return frame("ip4", n),
            4 | 5 => return frame("ip6", n),
            6 if n & 8 == 0 => return frame("icmp-error", n),
            6 => return frame("drop", n),
            _ => {
                let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 1, 0xaa, 10, 0, 1, 2];
                arp.extend([0, 0, 0, 0, 0, 0, 10, 0, 1, 1]);
                (0, None, 0x0806, arp)
            }
        },
        other => panic!("there is no path {other}, but {PATHS:?}"),
    };
    let mut f = ethernet(port, vlan, ethertype);
    f.extend(packet);
    f.resize(f.len().max(60), 0);
    (port, f)
}

/// Copies of all frames of an interface go out of `cord`.
fn mirror(name: &str) -> Op {
    let directions = Directions { rx: true, tx: true };
    let feature = Mirror { destination: "cord".into(), directions, l2: false }.into();
    Op::SetFeature { name: name.into(), feature }
}

impl Rig {
    /// The graph, and the frames of `path`.
    pub fn new(path: &str) -> Rig {
        let config = RouterConfig {
            pool: PoolConfig { buffers: 4096, memory: PoolMemory::Normal },
            dad: DadMode::Off,
            ..RouterConfig::default()
        };
        let mut router = Router::new(config).unwrap();
        let mut all = ops();
        if !matches!(path, "vrf" | "vrf6" | "ip4-leak") {
            all.retain(|op| !of_tables(op));
        }
        router.commit(all).unwrap();
        if path.ends_with("-many") {
            let right = router.interface_index("right").unwrap();
            router.commit(many(path == "vrf-many", right)).unwrap();
        }
        router.commit(vec![frames_in(&router)]).unwrap();
        router.commit(tunnel(path)).unwrap();
        if path.starts_with("bond-") {
            router.commit(bond()).unwrap();
        }
        // Of `ip4`, where its packets come in and where they leave, and an interface where they do neither.
        let mirrored = [("span-rx", "left"), ("span-tx", "right"), ("span-beside", "clamped")]
            .into_iter()
            .find(|m| m.0 == path);
        router.commit(mirrored.map(|(_, name)| mirror(name)).into_iter().collect()).unwrap();
        if path.starts_with("linux-") {
            net::linux_cp::pair_over(&mut router, "left", "host").unwrap();
        }
        let limit = Some(Limit { rate: 1_000_000, burst: 1_000_000 });
        router
            .commit(Class::ALL.iter().map(|c| net::copp::SetLimit { class: *c, limit }.into()).collect())
            .unwrap();
        let pool = Arc::clone(router.pool());
        // The router's own worker still sends what the new interfaces have to say.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while pool.in_use() != 0 {
            assert!(std::time::Instant::now() < deadline, "the router's worker is stuck");
            std::thread::yield_now();
        }
        router.shutdown();
        let (mut dispatcher, _) =
            net::nodes::build_from(net::nodes::empty(), router.plane(), &pool, 0).unwrap();
        let sent = Arc::new(AtomicU64::new(0));
        let names = PORTS.iter().chain(&MEMBERS);
        let ports: Vec<u32> = names.filter_map(|name| router.interface_index(name)).collect();
        for port in &ports {
            let tx: &mut InterfaceTx = dispatcher.node_mut("interface-tx").unwrap();
            tx.set(*port, Some(Box::new(Sink(Arc::clone(&sent)))));
        }
        let frames = (0..VECTOR_SIZE).map(|n| {
            let (port, bytes) = frame(path, n as u8);
            (ports[usize::from(port)], bytes)
        });
        Rig {
            frames: frames.collect(),
            input: dispatcher
                .id(match path {
                    "span-rx" => "span-input",
                    "linux-inject" => "linux-cp-xc",
                    "bond-in" => "bond-input",
                    _ => "ethernet-input",
                })
                .unwrap(),
            _router: router,
            dispatcher,
            vector: Vector::boxed(),
            // SAFETY: nothing is reclaimed: the router is never touched again.
            guard: unsafe { Guard::unprotected() },
            sent,
        }
    }

    /// Makes the packets of one vector.
    pub fn make(&mut self) {
        self.dispatcher.env.now_ns += 1_000_000;
        for (rx, bytes) in &self.frames {
            let mut d = self.dispatcher.env.buffers.alloc_bytes(bytes).expect("a buffer");
            d.rx = *rx;
            assert!(self.vector.push(d).is_ok());
        }
    }

    /// Runs them through the graph.
    pub fn run(&mut self) {
        self.dispatcher.feed(&mut self.vector, self.input);
        self.dispatcher.run(&self.guard);
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}
