//! The router that the targets share: five ports, sub-interfaces, a loopback, routes of every kind.

use graph::{PoolConfig, PoolMemory};
use net::mss::Clamp;
use net::neighbor::DadMode;
use net::plane::PlaneConfig;
use net::punt::{Class, Limit};
use net::reassembly::Kind;
use net::router::{Encap, Feature, Op, PcapConfig, RoutePath, RouteTable, Router, RouterConfig, Target};
use net::urpf::Mode;
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
    ops.extend(Class::ALL.iter().map(|c| Op::SetPunt { class: *c, limit: limit(*c) }));
    for (name, kind) in
        [("left.100", 0), ("left.100", 1), ("left.200", 2), ("left.200", 3), ("six", 1), ("right", 2)]
    {
        let feature = Feature::Reassembly { kind: Kind::ALL[kind], on: true };
        ops.push(Op::SetFeature { name: name.into(), feature });
    }
    for v6 in [false, true] {
        let feature = Feature::Urpf { v6, tx: false, mode: Mode::Loose, table: None };
        ops.push(Op::SetFeature { name: "left.100".into(), feature });
    }
    let (urpf, mss) =
        (|v6, mode| Feature::Urpf { v6, tx: false, mode, table: None }, |v6, rx, tx| Feature::Mss { v6, clamp: Clamp { rx, tx } });
    let group = |g: &str| Feature::Group { group: g.parse().expect("a group"), joined: true };
    let features = [
        ("right", urpf(false, Mode::Strict)),
        ("right", urpf(true, Mode::Loose)),
        ("right", mss(false, 1000, 900)),
        ("six", urpf(true, Mode::Strict)),
        ("left.200", mss(true, 800, 1200)),
        ("left", Feature::ProxyArp(true)),
        ("left", group("224.0.0.5")),
        ("left", group("ff02::5")),
        ("left", Feature::Advertise(Some(Box::default()))),
    ];
    ops.extend(features.map(|(name, feature)| Op::SetFeature { name: name.into(), feature }));
    let every = (Ipv4Addr::new(1, 0, 0, 0), Ipv4Addr::new(223, 255, 255, 255));
    ops.push(Op::SetProxyArp { first: every.0, last: every.1, on: true });
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
