//! The router that the targets share: five ports, sub-interfaces, loopbacks, a bridge domain, routes of every kind, labels.

use graph::{PoolConfig, PoolMemory};
use net::gre::{GreConfig, GreOp};
use net::l2::bridge::{BridgeOp, BridgeSettings, StaticMac, TagChange, VlanTag};
use net::labels::{Exp, OutLabels};
use net::mpls::{LabelBatch, MplsOp, TunnelConfig};
use net::mss::Clamp;
use net::neighbor::DadMode;
use net::plane::PlaneConfig;
use net::punt::{Class, Limit};
use net::reassembly::Kind;
use net::router::{
    Encap, Feature, Lookup, Membership, Op, PcapConfig, RoutePath, RouteTable, Router, RouterConfig, Target,
};
use net::span::{Directions, Mirror};
use net::urpf::Mode;
use net::vxlan::{VxlanConfig, VxlanOp};
use packet::MacAddr;
use std::net::Ipv4Addr;

/// Ports with a device; `left` has 02:00:00:00:00:01 and so on.
pub const PORTS: [&str; 5] = ["left", "right", "small", "patch", "six"];

fn tags(dot1ad: bool, outer: Option<u16>, inner: Option<Option<u16>>, exact: bool) -> Encap {
    Encap::Tags { dot1ad, outer, inner, exact }
}

/// A router on which nothing moves: its ports read and write no file.
pub fn router() -> Router {
    let config = RouterConfig {
        pool: PoolConfig { buffers: 4096, memory: PoolMemory::Normal },
        plane: PlaneConfig { fragment_id: Some(7), ..PlaneConfig::default() },
        dad: DadMode::Off,
        ..RouterConfig::default()
    };
    let mut router = Router::new(config).expect("a router");
    let mut ops = vec![];
    for (n, name) in PORTS.iter().enumerate() {
        let name = name.to_string();
        let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
        ops.push(Op::CreatePcap { name: name.clone(), config });
        ops.push(Op::SetMac { name: name.clone(), mac: Some(MacAddr([2, 0, 0, 0, 0, n as u8 + 1])) });
        let mtu = match name.as_str() {
            "small" => 576,
            "six" => 1280,
            _ => 1500,
        };
        ops.push(Op::SetMtu { name: name.clone(), mtu });
        ops.push(Op::SetState { name, up: true });
    }
    let subs = [
        ("left", 100, tags(false, Some(100), None, true)),
        ("left", 200, tags(true, Some(200), Some(Some(300)), true)),
        ("left", 300, tags(false, Some(300), None, false)),
        ("left", 400, tags(false, Some(400), Some(None), false)),
        ("patch", 1, Encap::Untagged),
        ("patch", 2, Encap::Default),
        ("patch", 3, tags(true, Some(7), None, true)),
        ("right", 8, tags(false, Some(8), Some(Some(9)), true)),
    ];
    for (parent, id, encap) in subs {
        ops.push(Op::CreateSub { parent: parent.into(), id, encap });
        ops.push(Op::SetState { name: format!("{parent}.{id}"), up: true });
    }
    ops.push(Op::CreateLoopback { instance: Some(0), mac: None });
    ops.push(Op::SetState { name: "loop0".into(), up: true });
    ops.push(Op::SetPromiscuous { name: "patch".into(), on: true });
    // Untagged frames of `patch` go to a doubly tagged sub-interface and back; the others to and fro among tags.
    for (name, peer) in
        [("patch.1", "right.8"), ("right.8", "patch.1"), ("patch.3", "left.300"), ("left.300", "patch.2")]
    {
        ops.push(Op::SetXconnect { name: name.into(), peer: Some(peer.into()) });
    }
    for (name, tags) in [("patch.3", 1), ("right.8", 2), ("left.300", 1)] {
        ops.push(Op::from(BridgeOp::Tags { name: name.into(), change: Some(TagChange::Pop(tags)) }));
    }
    let addresses = [
        ("left", "192.0.2.1/24"),
        ("left", "2001:db8:1::1/64"),
        ("right", "198.51.100.1/24"),
        ("right", "2001:db8:2::1/64"),
        ("small", "203.0.113.1/24"),
        ("six", "2001:db8:3::1/64"),
        ("left.100", "10.1.0.1/24"),
        ("left.100", "2001:db8:100::1/64"),
        ("left.200", "10.2.0.1/31"),
        ("left.200", "2001:db8:200::1/64"),
        ("loop0", "10.255.0.1/32"),
        ("loop0", "2001:db8:ffff::1/128"),
    ];
    for (name, net) in addresses {
        ops.push(Op::AddAddress { name: name.into(), net: net.parse().expect("an address") });
    }
    let neighbors = [
        ("left", "192.0.2.2"),
        ("left", "2001:db8:1::2"),
        ("right", "198.51.100.2"),
        ("right", "2001:db8:2::2"),
        ("small", "203.0.113.2"),
        ("six", "2001:db8:3::2"),
        ("left.200", "10.2.0.0"),
        ("left.200", "2001:db8:200::2"),
        ("right", "fe80::2"),
    ];
    for (i, (name, address)) in neighbors.iter().enumerate() {
        let (name, address) = (name.to_string(), address.parse().expect("an address"));
        ops.push(Op::SetNeighbor { name, address, mac: MacAddr([2, 0, 0, 0, 1, i as u8]) });
    }
    // One port is in a table of its own.
    for v6 in [false, true] {
        let table = RouteTable { v6, id: 1 };
        ops.insert(0, Op::CreateTable { table, name: None });
    }
    // Of one class nothing passes, so that its packets come to `punt-policer`.
    let limit = |c: Class| (c == Class::Lldp).then_some(Limit { rate: 0, burst: 1 });
    ops.extend(Class::ALL.iter().map(|c| net::copp::SetLimit { class: *c, limit: limit(*c) }.into()));
    for (name, kind) in
        [("left.100", 0), ("left.100", 1), ("left.200", 2), ("left.200", 3), ("six", 1), ("right", 2)]
    {
        let feature = Kind::ALL[kind].setting().to(true).into();
        ops.push(Op::SetFeature { name: name.into(), feature });
    }
    for v6 in [false, true] {
        let feature = net::urpf::SourceCheck { v6, tx: false, mode: Mode::Loose, table: None }.into();
        ops.push(Op::SetFeature { name: "left.100".into(), feature });
    }
    let (urpf, mss) = (
        |v6, tx, mode| net::urpf::SourceCheck { v6, tx, mode, table: None }.into(),
        |v6, rx, tx| Feature::Setting(net::mss::size(v6).to(Clamp { rx, tx })),
    );
    let group =
        |g: &str| Feature::from(net::multicast::Join { group: g.parse().expect("a group"), joined: true });
    let features = [
        ("right", urpf(false, false, Mode::Strict)),
        ("right", urpf(true, false, Mode::Loose)),
        ("small", urpf(false, true, Mode::Loose)),
        ("six", urpf(true, true, Mode::Strict)),
        ("right", mss(false, 1000, 900)),
        ("six", urpf(true, false, Mode::Strict)),
        ("left.200", mss(true, 800, 1200)),
        ("left", net::redirect::sent(false).to(true).into()),
        ("left", net::redirect::sent(true).to(true).into()),
        ("right", net::ip4::LINK_LOCAL_STAYS.to(true).into()),
        ("left", net::proxy::ARP.to(true).into()),
        ("left", group("224.0.0.5")),
        ("left", group("ff02::5")),
        ("left", net::ra::Advertise(Some(Box::default())).into()),
    ];
    ops.extend(features.map(|(name, feature)| Op::SetFeature { name: name.into(), feature }));
    let every = (Ipv4Addr::new(1, 0, 0, 0), Ipv4Addr::new(223, 255, 255, 255));
    ops.push(net::proxy::ProxyArp { first: every.0, last: every.1, on: true }.into());
    router.commit(ops).expect("interfaces");
    let right = router.interface_index("right");
    let path = |address: &str, weight| RoutePath {
        address: Some(address.parse().expect("an address")),
        interface: address.starts_with("fe80").then_some(right).flatten(),
        table: None,
        weight,
        ..RoutePath::default()
    };
    let paths = |list: &[(&str, u8)]| Target::Paths(list.iter().map(|(a, w)| path(a, *w)).collect());
    let attached = Target::Paths(vec![RoutePath {
        address: None,
        interface: right,
        table: None,
        weight: 1,
        ..RoutePath::default()
    }]);
    let routes = [
        ("10.10.0.0/16", paths(&[("198.51.100.2", 1)])),
        ("10.11.0.0/16", paths(&[("198.51.100.2", 1), ("203.0.113.2", 3), ("10.2.0.0", 1)])),
        ("10.12.0.0/16", Target::Drop),
        ("10.13.0.0/16", Target::Unreachable),
        ("10.14.0.0/16", Target::Prohibit),
        ("10.15.0.0/16", paths(&[("203.0.113.2", 1)])),
        ("10.16.0.0/16", paths(&[("198.51.100.99", 1)])),
        ("10.17.0.0/16", attached.clone()),
        ("2001:db8:10::/48", paths(&[("2001:db8:2::2", 1)])),
        ("2001:db8:11::/48", paths(&[("2001:db8:2::2", 1), ("2001:db8:3::2", 2), ("fe80::2", 1)])),
        ("2001:db8:12::/48", Target::Drop),
        ("2001:db8:13::/48", Target::Unreachable),
        ("2001:db8:14::/48", Target::Prohibit),
        ("2001:db8:15::/48", paths(&[("2001:db8:3::2", 1)])),
        ("2001:db8:16::/48", paths(&[("2001:db8:2::99", 1)])),
        ("2001:db8:17::/48", attached),
    ];
    let set = |(prefix, target): (&str, Target)| Op::SetRoute {
        table: 0,
        prefix: prefix.parse().expect("a prefix"),
        target,
    };
    router.commit(routes.into_iter().map(set).collect()).expect("routes");
    tunnels(&mut router);
    mirrors(&mut router);
    labels(&mut router);
    bridge(&mut router);
    // Into another table and back, without end.
    let into = |table| {
        Target::Paths(vec![RoutePath {
            address: None,
            interface: None,
            table: Some(table),
            weight: 1,
            ..RoutePath::default()
        }])
    };
    for (table, prefix) in [
        (0, "10.18.0.0/16"),
        (1, "10.18.0.0/16"),
        (0, "2001:db8:18::/48"),
        (1, "2001:db8:18::/48"),
        (1, "0.0.0.0/0"),
    ] {
        let target = into(1 - table);
        router
            .commit(vec![Op::SetRoute { table, prefix: prefix.parse().expect("a prefix"), target }])
            .expect("a route");
    }
    router
}

/// Mirrors in a circle, of a sub-interface, and to one.
fn mirrors(router: &mut Router) {
    let [both, rx, tx] = Directions::ALL.map(|(_, directions)| directions);
    let ops = [
        ("left", "right", rx),
        ("right", "left", both),
        ("left.100", "patch.3", both),
        ("right.8", "six", tx),
        ("small", "left.300", tx),
    ];
    let op = |(name, to, directions): (&str, &str, Directions)| Op::SetFeature {
        name: name.into(),
        feature: Mirror { destination: to.into(), directions, l2: false }.into(),
    };
    router.commit(ops.map(op).into()).expect("mirrors");
}

/// The address of `loop1`.
const BVI: MacAddr = MacAddr([2, 0, 0, 0, 0x10, 1]);

/// A bridge domain of three sub-interfaces and `loop1`, which answers for some stations. Nothing is learned: an input means
/// the same each time.
fn bridge(router: &mut Router) {
    let station = |n| MacAddr([2, 0, 0, 0, 5, n]);
    let up = |name: String| Op::SetState { name, up: true };
    let mut made = vec![Op::CreateLoopback { instance: Some(1), mac: Some(BVI) }, up("loop1".into())];
    for net in ["10.50.0.1/24", "2001:db8:50::1/64"] {
        made.push(Op::AddAddress { name: "loop1".into(), net: net.parse().expect("an address") });
    }
    for (parent, dot1ad) in [("left", false), ("right", false), ("patch", true)] {
        let encap = tags(dot1ad, Some(500), None, true);
        made.extend([Op::CreateSub { parent: parent.into(), id: 500, encap }, up(format!("{parent}.500"))]);
    }
    router.commit(made).expect("interfaces");
    let settings = BridgeSettings { learn: false, arp_term: true, ..BridgeSettings::default() };
    let mut ops = vec![BridgeOp::Create { id: 2, settings }];
    for (name, bvi, shg) in
        [("loop1", true, 0), ("left.500", false, 1), ("right.500", false, 1), ("patch.500", false, 0)]
    {
        let member = Some(Membership { bridge: 2, bvi, shg });
        ops.push(BridgeOp::Port { name: name.into(), member });
    }
    for name in ["left.500", "right.500"] {
        ops.push(BridgeOp::Tags { name: name.into(), change: Some(TagChange::Pop(1)) });
    }
    let change = TagChange::Translate(1, vec![VlanTag { dot1ad: false, vlan: 77 }]);
    ops.push(BridgeOp::Tags { name: "patch.500".into(), change: Some(change) });
    for (n, to) in [(1, "left.500"), (2, "right.500"), (3, "patch.500")] {
        ops.push(BridgeOp::Mac { id: 2, mac: station(n), to: Some(StaticMac::Port(to.into())) });
    }
    ops.push(BridgeOp::Mac { id: 2, mac: station(4), to: Some(StaticMac::Filter) });
    for (address, mac) in [
        ("10.50.0.1", BVI),
        ("10.50.0.2", station(2)),
        ("2001:db8:50::1", BVI),
        ("2001:db8:50::2", station(2)),
    ] {
        ops.push(BridgeOp::Arp { id: 2, address: address.parse().expect("an address"), mac: Some(mac) });
    }
    router.commit(ops.into_iter().map(Op::from).collect()).expect("a bridge domain");
}

/// GRE tunnels over both families, one of them for frames, and VXLAN tunnels over both.
fn tunnels(router: &mut Router) {
    let gre = |local: &str, remote: &str| {
        let address = |a: &str| a.parse().expect("an address");
        GreConfig::new(address(local), address(remote))
    };
    let all = [
        GreConfig { ttl: None, dscp: None, ..gre("198.51.100.1", "198.51.100.2") },
        GreConfig { key: Some(5), checksum: true, ..gre("2001:db8:2::1", "2001:db8:2::2") },
        GreConfig { teb: true, ..gre("203.0.113.1", "203.0.113.2") },
    ];
    let mut ops = vec![];
    for (instance, config) in (0..).zip(all) {
        ops.push(GreOp::Create { instance, config }.into());
        ops.push(Op::SetState { name: format!("gre{instance}"), up: true });
    }
    let vxlan = |local: &str, remote: &str| {
        let address = |a: &str| a.parse().expect("an address");
        VxlanConfig::new(address(local), address(remote), 5)
    };
    let all = [
        vxlan("198.51.100.1", "198.51.100.2"),
        VxlanConfig { zero_checksum: true, ..vxlan("2001:db8:2::1", "2001:db8:2::2") },
    ];
    for (instance, config) in (0..).zip(all) {
        ops.push(VxlanOp::Create { instance, config }.into());
        let name = format!("vxlan_tunnel{instance}");
        ops.push(Op::SetState { name: name.clone(), up: true });
        ops.push(Op::SetMac { name, mac: Some(MacAddr([2, 0, 0, 0, 1, 37])) });
    }
    for (name, net) in [
        ("gre0", "10.34.0.1/24"),
        ("gre0", "2001:db8:34::1/64"),
        ("gre1", "10.35.0.1/24"),
        ("gre1", "2001:db8:35::1/64"),
        ("gre2", "10.36.0.1/24"),
        ("vxlan_tunnel0", "10.37.0.1/24"),
        ("vxlan_tunnel1", "2001:db8:37::1/64"),
    ] {
        ops.push(Op::AddAddress { name: name.into(), net: net.parse().expect("an address") });
    }
    for (name, address, last) in [
        ("gre2", "10.36.0.2", 36),
        ("vxlan_tunnel0", "10.37.0.2", 37),
        ("vxlan_tunnel1", "2001:db8:37::2", 37),
    ] {
        let address = address.parse().expect("an address");
        ops.push(Op::SetNeighbor { name: name.into(), address, mac: MacAddr([2, 0, 0, 0, 2, last]) });
    }
    router.commit(ops).expect("tunnels");
}

/// Labels of every kind, and tunnels: 100 to 119 are swapped, taken off or looked up, 1000 and 1001 carry frames.
fn labels(router: &mut Router) {
    let out = |list: &[u32]| OutLabels::new(list).expect("labels");
    let uniform = |list| out(list).with_mode(true, None, Exp::Usual);
    let via = |address: &str, labels| RoutePath {
        address: Some(address.parse().expect("an address")),
        labels,
        ..RoutePath::default()
    };
    let into = |table, lookup| RoutePath { table: Some(table), lookup, ..RoutePath::default() };
    let (right, small, six, tagged) = ("198.51.100.2", "203.0.113.2", "2001:db8:3::2", "10.2.0.0");
    let tunnel = |n, control_word, paths| {
        let config = TunnelConfig { l2_only: true, control_word, paths };
        let name = format!("mpls-tunnel{n}");
        [Op::from(MplsOp::CreateTunnel { instance: Some(n), config }), Op::SetState { name, up: true }]
    };
    let mut ops: Vec<Op> = ["left", "right", "small", "left.200"]
        .map(|name| Op::SetFeature { name: name.into(), feature: net::mpls::TAKEN.to(true).into() })
        .into();
    ops.extend(tunnel(0, false, vec![via(right, out(&[100, 1000]))]));
    ops.extend(tunnel(1, true, vec![via(right, out(&[1001])), via(small, out(&[1001]))]));
    ops.extend([
        // Nothing is learned: an input means the same each time.
        Op::from(BridgeOp::Create {
            id: 1,
            settings: BridgeSettings { learn: false, ..BridgeSettings::default() },
        }),
        Op::from(MplsOp::CreateTable { table: 7 }),
    ]);
    ops.extend(["mpls-tunnel0", "mpls-tunnel1"].map(|name| {
        let member = Some(Membership { bridge: 1, bvi: false, shg: 0 });
        Op::from(BridgeOp::Port { name: name.into(), member })
    }));
    router.commit(ops).expect("tunnels");
    let frames = |router: &Router, name| {
        let interface = router.interface_index(name);
        RoutePath { interface, lookup: Lookup::Frame, ..RoutePath::default() }
    };
    let mut batch = LabelBatch::in_table(0);
    for (label, bottoms, paths) in [
        (100, &[true, false][..], vec![via(right, out(&[200]))]),
        (101, &[true, false], vec![via(right, out(&[3]))]),
        (102, &[true], vec![into(0, Lookup::Ip4)]),
        (103, &[true], vec![into(0, Lookup::Ip6)]),
        (104, &[true], vec![into(1, Lookup::Ip4)]),
        (105, &[true], vec![into(1, Lookup::Ip6)]),
        (106, &[false], vec![into(7, Lookup::Mpls)]),
        (107, &[true, false], vec![via(small, out(&[201]))]),
        (108, &[true, false], vec![via(small, out(&[3]))]),
        (109, &[true, false], vec![via(right, out(&[33, 34, 35, 202]))]),
        (110, &[true, false], vec![via(tagged, out(&[203])), via(right, out(&[204])), via(six, out(&[3]))]),
        (111, &[true, false], vec![via("198.51.100.99", out(&[205]))]),
        (112, &[true, false], vec![via(right, uniform(&[34, 206]))]),
        (113, &[true, false], vec![via(right, uniform(&[3]))]),
        (114, &[true], vec![RoutePath { labels: uniform(&[]), ..into(0, Lookup::Ip4) }]),
        (115, &[true], vec![into(1, Lookup::Ip)]),
        (1000, &[true], vec![frames(router, "mpls-tunnel0")]),
        (1001, &[true], vec![frames(router, "mpls-tunnel1")]),
    ] {
        for bottom in bottoms {
            batch.set(label, *bottom, &Target::Paths(paths.clone()));
        }
    }
    let mut seven = LabelBatch::in_table(7);
    seven.set(100, true, &Target::Paths(vec![via(right, out(&[300]))]));
    seven.set(106, false, &Target::Paths(vec![into(7, Lookup::Mpls)]));
    router.commit([batch, seven].map(|b| Op::from(MplsOp::Routes(b))).into()).expect("labels");
    let routes = [
        ("10.20.0.0/16", via(right, out(&[100]))),
        ("10.21.0.0/16", via(small, out(&[100, 200]))),
        ("10.22.0.0/16", via(right, uniform(&[100]))),
        ("2001:db8:20::/48", via(right, out(&[100, 2]))),
        ("2001:db8:21::/48", via(six, uniform(&[100]))),
    ];
    let set = |(prefix, path): (&str, RoutePath)| Op::SetRoute {
        table: 0,
        prefix: prefix.parse().expect("a prefix"),
        target: Target::Paths(vec![path]),
    };
    router.commit(routes.into_iter().map(set).collect()).expect("routes");
}
