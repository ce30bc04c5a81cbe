//! What the routers of the worlds have, of every kind, and what is changed while packets come.

use super::passing;
use crate::bond::{self, BondConfig, BondOp, Joins, MemberConfig};
use crate::gre::{GreConfig, GreOp};
use crate::interface::MtuOf;
use crate::l2::bridge::{BridgeOp, BridgeSettings, StaticMac, TagChange, VlanTag};
use crate::labels::{Exp, OutLabels};
use crate::mpls::{LabelBatch, MplsOp};
use crate::mss::{self, Clamp};
use crate::punt::{Class, Limit};
use crate::router::{Encap, Feature, Lookup, Membership, Op, PcapConfig, RoutePath, RouteTable, Target};
use crate::span::{Directions, Mirror};
use crate::steering::{Handoff, HandoffConfig};
use crate::urpf::{Mode, SourceCheck};
use crate::vxlan::{GroupInterface, VxlanConfig, VxlanOp};
use crate::{ip4, reassembly, redirect};
use packet::eth::MacAddr;
use packet::flow::Fields;

/// Ports with a device; the first has 02:00:00:00:00:01 and so on.
pub const PORTS: [&str; 19] = [
    "left",
    "right",
    "small",
    "six",
    "bare",
    "down",
    "nolink",
    "trunk",
    "patch",
    "cord",
    "loom",
    "hub",
    "spoke",
    "rim",
    "host",
    "vlan-host",
    "strand",
    "twine",
    "lace",
];
/// Those of bonds, by the number of the bond: their MAC address is its own.
const MEMBERS: [(&str, u32); 3] = [("strand", 0), ("twine", 0), ("lace", 1)];

/// A limit of which no packet is left.
pub const NOTHING: Limit = Limit { rate: 0, burst: 1 };

pub fn limit(class: Class, limit: Option<Limit>) -> Op {
    crate::copp::SetLimit { class, limit }.into()
}

fn tags(dot1ad: bool, outer: u16, inner: Option<Option<u16>>, exact: bool) -> Encap {
    Encap::Tags { dot1ad, outer: Some(outer), inner, exact }
}

fn paths(list: &[(&str, u8)]) -> Target {
    let path = |a: &str, weight| RoutePath {
        address: Some(a.parse().unwrap()),
        interface: None,
        table: None,
        weight,
        ..Default::default()
    };
    Target::Paths(list.iter().map(|(a, w)| path(a, *w)).collect())
}

pub fn interfaces(with_tables: bool) -> Vec<Op> {
    let mut ops = vec![];
    for (n, name) in PORTS.iter().enumerate() {
        let name = name.to_string();
        let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
        ops.push(Op::CreatePcap { name: name.clone(), config });
        if MEMBERS.iter().all(|m| m.0 != name) {
            ops.push(Op::SetMac { name: name.clone(), mac: Some(MacAddr([2, 0, 0, 0, 0, n as u8 + 1])) });
        }
        let mtu = match name.as_str() {
            "small" => 576,
            "six" => 1280,
            _ => 1500,
        };
        ops.push(Op::SetMtu { name: name.clone(), mtu });
        ops.push(Op::SetState { name, up: true });
    }
    let subs = [
        ("trunk", 100, tags(false, 100, None, true)),
        ("trunk", 200, tags(true, 200, None, true)),
        ("trunk", 300, tags(false, 300, Some(Some(30)), true)),
        ("trunk", 301, tags(false, 300, Some(Some(31)), true)),
        ("trunk", 400, tags(false, 400, None, false)),
        ("trunk", 500, tags(false, 500, Some(None), false)),
        ("trunk", 600, tags(false, 600, None, true)),
        ("trunk", 700, tags(true, 700, None, true)),
        ("trunk", 800, tags(false, 800, None, true)),
        ("trunk", 900, tags(false, 900, None, true)),
        ("trunk", 950, tags(false, 950, None, true)),
        ("trunk", 960, tags(false, 960, Some(Some(60)), true)),
        ("trunk", 970, tags(true, 970, None, true)),
        ("bare", 1, Encap::Default),
        ("bare", 9, tags(false, 9, None, true)),
    ];
    for (parent, id, encap) in subs {
        ops.push(Op::CreateSub { parent: parent.into(), id, encap });
        ops.push(Op::SetState { name: format!("{parent}.{id}"), up: id != 600 });
    }
    // Untagged to and fro; tagged to differently tagged; the default sub-interface to an untagged port.
    for (name, peer) in [
        ("patch", "cord"),
        ("cord", "patch"),
        ("trunk.700", "bare.9"),
        ("bare.9", "trunk.700"),
        ("bare.1", "loom"),
        ("loom", "trunk.900"),
    ] {
        ops.push(Op::SetXconnect { name: name.into(), peer: Some(peer.into()) });
    }
    for (name, tags) in
        [("trunk.700", 1), ("bare.9", 1), ("trunk.900", 1), ("trunk.950", 1), ("trunk.960", 2)]
    {
        ops.push(Op::from(BridgeOp::Tags { name: name.into(), change: Some(TagChange::Pop(tags)) }));
    }
    if with_tables {
        ops.extend(bindings());
    }
    ops.extend(bridge());
    ops.extend(bonds());
    let addresses = [
        ("loop0", "10.40.0.1/24"),
        ("loop0", "2001:db8:40::1/64"),
        ("left", "192.0.2.1/24"),
        ("left", "2001:db8:1::1/64"),
        ("right", "198.51.100.1/24"),
        ("right", "2001:db8:2::1/64"),
        ("small", "203.0.113.1/24"),
        ("six", "10.6.0.1/24"),
        ("six", "2001:db8:3::1/64"),
        ("down", "10.7.0.1/24"),
        ("down", "2001:db8:7::1/64"),
        ("nolink", "10.8.0.1/24"),
        ("nolink", "2001:db8:8::1/64"),
        ("trunk", "10.0.0.1/24"),
        ("trunk", "2001:db8:a::1/64"),
        ("trunk.100", "10.1.0.1/24"),
        ("trunk.100", "2001:db8:100::1/64"),
        ("trunk.200", "10.2.0.1/31"),
        ("trunk.300", "2001:db8:300::1/64"),
        ("trunk.300", "10.3.0.1/24"),
        ("trunk.301", "2001:db8:301::1/64"),
        ("trunk.301", "10.31.0.1/24"),
        ("trunk.600", "10.60.0.1/24"),
        ("trunk.800", "2001:db8:800::1/64"),
        ("BondEthernet0", "10.41.0.1/24"),
        ("BondEthernet0", "2001:db8:41::1/64"),
    ];
    let address = |(name, net): (&str, &str)| Op::AddAddress { name: name.into(), net: net.parse().unwrap() };
    ops.extend(addresses.map(address));
    let neighbors = [
        ("left", "192.0.2.2"),
        ("loop0", "10.40.0.2"),
        ("loop0", "2001:db8:40::2"),
        ("left", "2001:db8:1::2"),
        ("right", "198.51.100.2"),
        ("right", "198.51.100.3"),
        ("right", "2001:db8:2::2"),
        ("small", "203.0.113.2"),
        ("six", "10.6.0.2"),
        ("six", "2001:db8:3::2"),
        ("down", "10.7.0.2"),
        ("nolink", "10.8.0.2"),
        ("nolink", "2001:db8:8::2"),
        ("trunk", "10.0.0.2"),
        ("trunk.100", "10.1.0.2"),
        ("trunk.100", "2001:db8:100::2"),
        ("trunk.200", "10.2.0.0"),
        ("trunk.300", "10.3.0.2"),
        ("trunk.300", "2001:db8:300::2"),
        ("trunk.600", "10.60.0.2"),
        ("BondEthernet0", "10.41.0.2"),
        ("BondEthernet0", "2001:db8:41::2"),
    ];
    let neighbor = |(i, (name, address)): (usize, &(&str, &str))| Op::SetNeighbor {
        name: name.to_string(),
        address: address.parse().unwrap(),
        mac: MacAddr([2, 0, 0, 0, 1, i as u8]),
    };
    ops.extend(neighbors.iter().enumerate().map(neighbor));
    ops
}

/// A bridge domain of `hub`, `spoke`, `rim` and three sub-interfaces, routed through `loop0`, which has the address of `hub`.
fn bridge() -> Vec<Op> {
    let member = |name: &str, bvi, shg| {
        let member = Some(Membership { bridge: 1, bvi, shg });
        Op::from(BridgeOp::Port { name: name.into(), member })
    };
    let mac = |last: u8, to: StaticMac| {
        let mac = MacAddr([2, 0, 0, 0, 1, last]);
        Op::from(BridgeOp::Mac { id: 1, mac, to: Some(to) })
    };
    let port = |name: &str| StaticMac::Port(name.into());
    let translate = TagChange::Translate(1, vec![VlanTag { dot1ad: false, vlan: 950 }]);
    vec![
        Op::from(BridgeOp::Create { id: 1, settings: BridgeSettings::default() }),
        Op::CreateLoopback { instance: Some(0), mac: Some(MacAddr([2, 0, 0, 0, 0, 12])) },
        Op::SetState { name: "loop0".into(), up: true },
        member("hub", false, 0),
        member("spoke", false, 1),
        member("rim", false, 1),
        member("trunk.950", false, 0),
        member("trunk.960", false, 2),
        member("trunk.970", false, 0),
        Op::from(BridgeOp::Tags { name: "trunk.970".into(), change: Some(translate) }),
        member("loop0", true, 0),
        // The neighbours of `loop0` in the list below.
        mac(1, port("spoke")),
        mac(2, port("spoke")),
        mac(0xbb, port("rim")),
        mac(0xcc, port("trunk.950")),
        mac(0xce, port("trunk.960")),
        mac(0xcf, port("trunk.970")),
        mac(0xdd, StaticMac::Filter),
    ]
}

/// A bond with the address of `strand`, whose members share its flows, and one that waits for an LACP that nobody speaks.
fn bonds() -> Vec<Op> {
    let mut ops = vec![];
    for (instance, mode) in [(0, bond::Mode::Xor), (1, bond::Mode::Lacp)] {
        let config = BondConfig { mode, ..BondConfig::default() };
        ops.push(BondOp::Create { instance, config }.into());
        let name = format!("BondEthernet{instance}");
        let mac = MacAddr([2, 0, 0, 0, 0, 17 + instance as u8]);
        ops.push(Op::SetMac { name: name.clone(), mac: Some(mac) });
        ops.push(Op::SetState { name, up: true });
    }
    for (name, bond) in MEMBERS {
        let bond = Some((format!("BondEthernet{bond}"), MemberConfig::default()));
        let feature = Joins { bond }.into();
        ops.push(Op::SetFeature { name: name.into(), feature });
    }
    ops
}

pub fn routes(right: Option<u32>) -> Vec<Op> {
    let attached = Target::Paths(vec![RoutePath {
        address: None,
        interface: right,
        table: None,
        weight: 1,
        ..Default::default()
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
        ("10.18.0.0/16", paths(&[("10.1.0.2", 1)])),
        ("10.19.0.0/16", paths(&[("10.6.0.2", 1)])),
        ("10.20.0.0/16", paths(&[("10.7.0.2", 1)])),
        ("10.21.0.0/16", paths(&[("10.8.0.2", 1)])),
        ("10.22.0.0/16", paths(&[("10.3.0.2", 1)])),
        ("10.23.0.0/16", paths(&[("198.51.100.3", 1)])),
        ("10.25.0.0/16", paths(&[("10.40.0.2", 1)])),
        ("2001:db8:25::/48", paths(&[("2001:db8:40::2", 1)])),
        ("10.24.0.0/16", paths(&[("10.60.0.2", 1)])),
        ("223.0.0.0/8", paths(&[("198.51.100.2", 1)])),
        ("2001:db8:10::/48", paths(&[("2001:db8:2::2", 1)])),
        ("2001:db8:11::/48", paths(&[("2001:db8:2::2", 1), ("2001:db8:3::2", 2), ("2001:db8:300::2", 1)])),
        ("2001:db8:12::/48", Target::Drop),
        ("2001:db8:13::/48", Target::Unreachable),
        ("2001:db8:14::/48", Target::Prohibit),
        ("2001:db8:15::/48", paths(&[("2001:db8:3::2", 1)])),
        ("2001:db8:16::/48", paths(&[("2001:db8:2::99", 1)])),
        ("2001:db8:17::/48", attached),
        ("2001:db8:18::/48", paths(&[("2001:db8:100::2", 1)])),
        ("2001:db8:21::/48", paths(&[("2001:db8:8::2", 1)])),
        // Where packets go for which a short cut must not take its word: mapped and unspecified-like addresses.
        ("::/32", paths(&[("2001:db8:2::2", 1)])),
        ("fe80::/16", paths(&[("2001:db8:2::2", 1)])),
    ];
    let set =
        |(prefix, target): (&str, Target)| Op::SetRoute { table: 0, prefix: prefix.parse().unwrap(), target };
    routes.into_iter().map(set).collect()
}

/// GRE tunnels over both families, and one for frames, and VXLAN tunnels over both.
pub fn tunnels() -> Vec<Op> {
    let gre = |local: &str, remote: &str| GreConfig::new(local.parse().unwrap(), remote.parse().unwrap());
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
    let vxlan =
        |local: &str, remote: &str| VxlanConfig::new(local.parse().unwrap(), remote.parse().unwrap(), 5);
    let all = [
        vxlan("198.51.100.1", "198.51.100.2"),
        VxlanConfig { zero_checksum: true, ..vxlan("2001:db8:2::1", "2001:db8:2::2") },
        vxlan("198.51.100.1", "239.1.1.1"),
    ];
    for (instance, config) in (0..).zip(all) {
        ops.push(VxlanOp::Create { instance, config }.into());
        let name = format!("vxlan_tunnel{instance}");
        ops.push(Op::SetState { name: name.clone(), up: true });
        ops.push(Op::SetMac { name, mac: Some(MacAddr([2, 0, 0, 0, 1, 37])) });
    }
    let feature = GroupInterface(Some("right".into())).into();
    ops.push(Op::SetFeature { name: "vxlan_tunnel2".into(), feature });
    for (name, net) in [
        ("gre0", "10.34.0.1/24"),
        ("gre0", "2001:db8:34::1/64"),
        ("gre1", "10.35.0.1/24"),
        ("gre1", "2001:db8:35::1/64"),
        ("gre2", "10.36.0.1/24"),
        ("vxlan_tunnel0", "10.37.0.1/24"),
        ("vxlan_tunnel1", "2001:db8:37::1/64"),
        ("vxlan_tunnel2", "10.38.0.1/24"),
    ] {
        ops.push(Op::AddAddress { name: name.into(), net: net.parse().unwrap() });
    }
    for (name, address, last) in [
        ("gre2", "10.36.0.2", 36),
        ("vxlan_tunnel0", "10.37.0.2", 37),
        ("vxlan_tunnel1", "2001:db8:37::2", 37),
        ("vxlan_tunnel2", "10.38.0.2", 37),
    ] {
        let (name, address) = (name.to_string(), address.parse().unwrap());
        ops.push(Op::SetNeighbor { name, address, mac: MacAddr([2, 0, 0, 0, 2, last]) });
    }
    ops
}

/// Labels of every kind, and routes that put some on.
pub fn labels(with_tables: bool) -> Vec<Op> {
    let out = |list: &[u32]| OutLabels::new(list).unwrap();
    let via = |address: &str, labels: OutLabels| RoutePath {
        address: Some(address.parse().unwrap()),
        labels,
        ..RoutePath::default()
    };
    let into = |table, lookup| RoutePath { table: Some(table), lookup, ..RoutePath::default() };
    let mut ops = vec![];
    for name in ["left", "right", "small", "trunk.100", "trunk.400"] {
        ops.push(Op::SetFeature { name: name.into(), feature: crate::mpls::TAKEN.to(true).into() });
    }
    let table = u32::from(with_tables);
    let (right, small, tagged, unknown) = ("198.51.100.2", "203.0.113.2", "10.1.0.2", "198.51.100.77");
    let uniform = |o: OutLabels| o.with_mode(true, None, Exp::Usual);
    let mut batch = LabelBatch::in_table(0);
    for (label, bottoms, paths) in [
        (100, &[true, false][..], vec![via(right, out(&[200]))]),
        (101, &[true, false], vec![via(right, out(&[3]))]),
        (102, &[true], vec![into(0, Lookup::Ip4)]),
        (103, &[true], vec![into(0, Lookup::Ip6)]),
        (104, &[true], vec![into(table, Lookup::Ip4)]),
        (105, &[true], vec![into(table, Lookup::Ip6)]),
        (106, &[false], vec![into(7, Lookup::Mpls)]),
        (107, &[true, false], vec![via(small, out(&[201]))]),
        (108, &[true, false], vec![via(small, out(&[]))]),
        (109, &[true, false], vec![via(right, out(&[33, 202]))]),
        (110, &[true, false], vec![via(tagged, out(&[203])), via(right, out(&[204]))]),
        (111, &[true, false], vec![via(unknown, out(&[205]))]),
        (112, &[true, false], vec![via(right, uniform(out(&[34, 206])))]),
        (113, &[true, false], vec![via(right, uniform(out(&[3])))]),
        (114, &[true], vec![into(0, Lookup::Ip4)]),
        (115, &[true, false], vec![via(right, out(&[207]).with_mode(false, None, Exp::Set(5)))]),
        (116, &[true, false], vec![via(tagged, out(&[208]))]),
        (117, &[true], vec![into(table, Lookup::Ip)]),
        (118, &[true], vec![RoutePath { labels: uniform(out(&[])), ..into(0, Lookup::Ip) }]),
    ] {
        for bottom in bottoms {
            batch.set(label, *bottom, &Target::Paths(paths.clone()));
        }
    }
    let mut seven = LabelBatch::in_table(7);
    seven.set(100, true, &Target::Paths(vec![via(right, out(&[300]))]));
    seven.set(106, false, &Target::Paths(vec![into(7, Lookup::Mpls)]));
    ops.push(Op::from(MplsOp::CreateTable { table: 7 }));
    ops.extend([batch, seven].map(|b| Op::from(MplsOp::Routes(b))));
    let routes = [
        ("10.26.0.0/16", vec![via(right, out(&[100]))]),
        ("10.27.0.0/16", vec![via(right, out(&[100, 200]))]),
        ("10.28.0.0/16", vec![via(right, uniform(out(&[100])))]),
        ("10.29.0.0/16", vec![via(small, out(&[100])), via(right, out(&[101, 102, 103]))]),
        ("10.30.0.0/16", vec![via("10.27.0.1", out(&[55]))]),
        ("2001:db8:26::/48", vec![via("2001:db8:2::2", out(&[100]))]),
        ("2001:db8:27::/48", vec![via(right, out(&[100, 2]))]),
    ];
    let set = |(prefix, paths): (&str, Vec<RoutePath>)| Op::SetRoute {
        table: 0,
        prefix: prefix.parse().unwrap(),
        target: Target::Paths(paths),
    };
    ops.extend(routes.map(set));
    ops
}

/// Some interfaces are in a table of their own, where flows are told apart in another way.
fn bindings() -> Vec<Op> {
    let mut ops = vec![];
    for v6 in [false, true] {
        let table = |id| RouteTable { v6, id };
        ops.extend([1, 2].map(|id| Op::CreateTable { table: table(id), name: None }));
        for name in ["left", "six", "trunk.300"] {
            ops.push(Op::SetTable { name: name.into(), table: table(1) });
        }
        let fields = Fields::FIVE_TUPLE.with(Fields::SYMMETRIC);
        ops.push(Op::SetFlowHash { table: table(1), fields });
    }
    ops
}

/// Routes from table to table, over IPv6 neighbours, and over other routes.
pub fn table_routes() -> Vec<Op> {
    let into = |table: u32| RoutePath {
        address: None,
        interface: None,
        table: Some(table),
        weight: 1,
        ..Default::default()
    };
    let over = |address: &str, table: u32| RoutePath {
        address: Some(address.parse().unwrap()),
        interface: None,
        table: Some(table),
        weight: 1,
        ..Default::default()
    };
    let routes = [
        (1, "10.10.0.0/16", vec![over("198.51.100.2", 0)]),
        (1, "10.11.0.0/16", vec![over("198.51.100.2", 0), over("203.0.113.2", 0), over("10.2.0.0", 0)]),
        (1, "10.12.0.0/16", vec![into(2)]),
        (2, "10.12.0.0/16", vec![into(1)]),
        (1, "10.13.0.0/16", vec![over("2001:db8:2::2", 0)]),
        (1, "10.14.0.0/16", vec![over("10.10.0.1", 1)]),
        (1, "10.15.0.0/16", vec![into(0)]),
        (1, "10.16.0.0/16", vec![into(2)]),
        (2, "10.16.0.0/16", vec![into(0)]),
        (1, "10.17.0.0/16", vec![over("198.51.100.2", 0), into(0)]),
        (1, "10.18.0.0/16", vec![over("10.12.0.1", 1)]),
        (1, "10.19.0.0/16", vec![over("2001:db8:2::99", 0)]),
        (0, "10.19.0.0/16", vec![into(1)]),
        (0, "10.23.0.0/16", vec![over("10.11.0.1", 1)]),
        (0, "192.0.2.0/24", vec![into(1)]),
        (1, "2001:db8:10::/48", vec![over("2001:db8:2::2", 0)]),
        (1, "2001:db8:11::/48", vec![over("2001:db8:2::2", 0), over("2001:db8:300::2", 1)]),
        (1, "2001:db8:12::/48", vec![into(2)]),
        (2, "2001:db8:12::/48", vec![into(1)]),
        (1, "2001:db8:13::/48", vec![into(0)]),
        (1, "2001:db8:15::/48", vec![into(0), over("2001:db8:2::2", 0)]),
        (0, "2001:db8:1::/64", vec![into(1)]),
    ];
    let set = |(table, prefix, paths): (u32, &str, Vec<RoutePath>)| Op::SetRoute {
        table,
        prefix: prefix.parse().unwrap(),
        target: Target::Paths(paths),
    };
    routes.into_iter().map(set).collect()
}

/// Each interface has other features than the one before.
pub fn features(names: &[String]) -> Vec<Op> {
    let mut ops = vec![];
    for (n, name) in names.iter().enumerate() {
        let modes = [Mode::Strict, Mode::Loose, Mode::Off];
        let urpf = |v6, n: usize| SourceCheck { v6, tx: false, mode: modes[n % 3], table: None }.into();
        let out = |v6, n: usize| {
            SourceCheck { v6, tx: true, mode: modes[(n + 1) % 3], table: (n % 4 == 1).then_some(0) }.into()
        };
        let part = |kind: usize, on| reassembly::Kind::ALL[kind].setting().to(on).into();
        let parts = [part(n % 4, n % 3 == 0), part((n + 2) % 4, n % 5 == 0)];
        let mss =
            |v6, n: usize| mss::size(v6).to(Clamp { rx: [0, 1000][n % 2], tx: [0, 900][n / 2 % 2] }).into();
        let checks = [urpf(false, n), urpf(true, n / 2 + 1), out(false, n / 2), out(true, n)];
        let singles = [mss(false, n), mss(true, n + 1)];
        let others = [
            redirect::sent(n % 2 == 0).to(n % 3 != 0).into(),
            redirect::sent(n % 2 == 1).to(n % 5 == 0).into(),
            MtuOf::ALL[n % 3].1.setting().to([0, 1300][n / 2 % 2]).into(),
            ip4::LINK_LOCAL_STAYS.to(n % 3 == 1).into(),
            ip4::BROADCAST_SOURCES_FORWARD.to(n % 4 == 2).into(),
            crate::interface::DIRECTED_BROADCAST.to(n % 2 == 0).into(),
        ];
        for feature in checks.into_iter().chain(singles).chain(parts).chain(others) {
            ops.push(Op::SetFeature { name: name.clone(), feature });
        }
    }
    ops
}

/// Nodes that let everything pass, and mirrors, each to a port to which nothing else goes of what comes in where its frames do: nothing is said of the order between
/// copies and others. One destination puts tags in front, one has no link, and one is mirrored itself.
pub fn mirrors() -> Vec<Op> {
    let [both, rx, tx] = Directions::ALL.map(|(_, directions)| directions);
    const L2: [&str; 3] = ["trunk.700", "spoke", "hub"];
    let mirror = |(name, to, directions): (&str, &str, Directions)| Op::SetFeature {
        name: name.into(),
        feature: Mirror { destination: to.into(), directions, l2: L2.contains(&name) }.into(),
    };
    let all = [
        ("left", "loom", rx),
        ("left", "nolink", rx),
        ("right", "patch", tx),
        ("six", "bare", tx),
        ("trunk.100", "hub", both),
        ("trunk.700", "cord", both),
        ("spoke", "bare.9", both),
        ("hub", "loom", tx),
        ("loom", "patch", both),
    ];
    let visits = |name: &str| {
        let feature = passing::VISITS.to(true).into();
        Op::SetFeature { name: name.into(), feature }
    };
    let passing = ["left", "trunk.100", "gre1", "spoke", "trunk.960", "cord"].map(visits);
    let handoff = Handoff(Some(HandoffConfig { workers: vec![0], symmetrical: true })).into();
    let handoff = Op::SetFeature { name: "six".into(), feature: handoff };
    all.map(mirror).into_iter().chain(passing).chain([handoff]).collect()
}

/// What is changed while packets come: there and back.
pub fn changes() -> Vec<[Vec<Op>; 2]> {
    let set = |name: &str, feature: Feature| vec![Op::SetFeature { name: name.into(), feature }];
    let check = |v6, tx, mode| Feature::from(SourceCheck { v6, tx, mode, table: None });
    let clamp = |v6, rx, tx| Feature::from(mss::size(v6).to(Clamp { rx, tx }));
    let route =
        |prefix: &str, target| vec![Op::SetRoute { table: 0, prefix: prefix.parse().unwrap(), target }];
    let mtu = |name: &str, mtu| vec![Op::SetMtu { name: name.into(), mtu }];
    let up = |name: &str, up| vec![Op::SetState { name: name.into(), up }];
    let rim = |member| vec![BridgeOp::Port { name: "rim".into(), member }.into()];
    let kind = reassembly::Kind::ALL[0].setting();
    let to_cord = |(_, directions)| Mirror { destination: "cord".into(), directions, l2: true };
    let mirror = |name, mirror: Mirror| set(name, mirror.into());
    let visits = |name, on| set(name, passing::VISITS.to(on).into());
    vec![
        [set("left", check(false, false, Mode::Strict)), set("left", check(false, false, Mode::Off))],
        [set("left", check(true, false, Mode::Loose)), set("left", check(true, false, Mode::Off))],
        [set("right", check(false, true, Mode::Loose)), set("right", check(false, true, Mode::Off))],
        [set("trunk.100", clamp(false, 1000, 900)), set("trunk.100", clamp(false, 0, 0))],
        [set("right", clamp(true, 0, 900)), set("right", clamp(true, 0, 0))],
        [
            set("right", redirect::sent(false).to(true).into()),
            set("right", redirect::sent(false).to(false).into()),
        ],
        [set("left", kind.to(true).into()), set("left", kind.to(false).into())],
        [set("six", crate::mpls::TAKEN.to(true).into()), set("six", crate::mpls::TAKEN.to(false).into())],
        [
            route("10.10.0.0/16", paths(&[("203.0.113.2", 1), ("198.51.100.2", 2)])),
            route("10.10.0.0/16", paths(&[("198.51.100.2", 1)])),
        ],
        [route("2001:db8:10::/48", Target::Drop), route("2001:db8:10::/48", paths(&[("2001:db8:2::2", 1)]))],
        [
            route("10.11.0.0/16", Target::Unreachable),
            route("10.11.0.0/16", paths(&[("198.51.100.2", 1), ("203.0.113.2", 3), ("10.2.0.0", 1)])),
        ],
        [mtu("right", 1280), mtu("right", 1500)],
        [up("spoke", false), up("spoke", true)],
        [up("trunk.300", false), up("trunk.300", true)],
        [up("strand", false), up("strand", true)],
        [mirror("rim", to_cord(Directions::ALL[0])), mirror("rim", Mirror::off("cord".into()))],
        [mirror("trunk.950", to_cord(Directions::ALL[2])), mirror("trunk.950", Mirror::off("cord".into()))],
        [visits("left", true), visits("left", false)],
        [visits("right", true), visits("right", false)],
        [visits("hub", true), visits("hub", false)],
        [visits("patch", true), visits("patch", false)],
        [visits("trunk.950", true), visits("trunk.950", false)],
        [visits("gre0", true), visits("gre0", false)],
        [visits("loop0", true), visits("loop0", false)],
        [visits("BondEthernet0", true), visits("BondEthernet0", false)],
        [vec![limit(Class::Icmp, Some(NOTHING))], vec![limit(Class::Icmp, None)]],
        [rim(None), rim(Some(Membership { bridge: 1, bvi: false, shg: 1 }))],
    ]
}
