use super::*;
use crate::l2::bridge::{self as bridging, BridgeOp, StaticMac};
use crate::router::{Op, RouteTable, Router, RouterConfig};
use crate::vxlan::{VxlanConfig, VxlanOp, tunnels};
use graph::{PoolConfig, PoolMemory};
use packet::eth::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const ALL: MacAddr = MacAddr::ZERO;
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A router with an interface `vxlan_tunnel0` that carries frames, and its number.
fn router() -> (Router, u32) {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let config = VxlanConfig::new(ip("192.0.2.1"), ip("192.0.2.99"), 9);
    r.commit(vec![VxlanOp::Create { instance: 0, config }.into()]).unwrap();
    let port = r.index_of("vxlan_tunnel0").unwrap();
    (r, port)
}

fn device(ifindex: u32, vni: u32) -> Device {
    Device {
        ifindex,
        name: format!("vxlan{vni}"),
        up: true,
        mtu: 1450,
        vni,
        local: ip("192.0.2.1"),
        port: 4789,
        ttl: 0,
        zero_checksum: false,
        learning: false,
    }
}

fn bridge(ports: &[u32], addresses: &[&str]) -> Bridge {
    Bridge {
        ifindex: 2,
        name: "br10".into(),
        up: true,
        mtu: 1500,
        mac: MacAddr([2, 0, 0, 0, 0, 2]),
        age: 5,
        table: None,
        addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
        ports: ports.iter().map(|p| (*p, true)).collect(),
        devices: vec![device(3, 10)],
    }
}

fn at(mac: MacAddr, end: &str, gone: bool) -> MacAt {
    MacAt { device: 3, mac, end: ip(end), gone }
}

fn take(r: &mut Router, bridges: Vec<Bridge>) {
    take_bridges(r, &None, bridges, BTreeMap::new());
    while work(r, &None) {}
}

fn told(r: &mut Router, macs: &[MacAt]) {
    take_macs(r, &None, macs);
    while work(r, &None) {}
}

/// The other ends of Linux's tunnels.
fn ends(r: &Router) -> Vec<IpAddr> {
    tunnels(r).map(|(_, t)| t.config.clone()).filter(|c| c.vni == 10).map(|c| c.remote).collect()
}

/// Behind which other end an address is.
fn behind(r: &Router, mac: MacAddr) -> Option<IpAddr> {
    let found = bridging::macs(r).into_iter().find(|m| m.mac == mac)?;
    tunnels(r).find(|(i, _)| Some(*i) == found.interface).map(|(_, t)| t.config.remote)
}

#[test]
fn a_bridge_comes_changes_and_goes() {
    let (mut r, port) = router();
    // Addresses may be told before the device is known.
    told(&mut r, &[at(ALL, "192.0.2.2", false), at(A, "192.0.2.3", false)]);
    assert!(ends(&r).is_empty());
    take(&mut r, vec![bridge(&[port], &[])]);
    assert_eq!(ends(&r), [ip("192.0.2.2"), ip("192.0.2.3")]);
    assert_eq!(behind(&r, A), Some(ip("192.0.2.3")));
    let [domain] = bridging::bridges(&r).collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((domain.members.len(), domain.settings.mac_age), (3, 5));
    let id = domain.id;
    // The operator changes none of it.
    let refused = [
        Op::SetState { name: "vxlan_tunnel1000000".into(), up: false },
        BridgeOp::Port { name: "vxlan_tunnel0".into(), member: None }.into(),
        BridgeOp::Mac { id, mac: A, to: Some(StaticMac::Filter) }.into(),
        BridgeOp::Delete { id }.into(),
    ];
    for op in refused {
        assert!(r.commit(vec![op.clone()]).is_err(), "{op:?}");
    }
    // An address moves, and is not taken away by what is said of where it was.
    told(&mut r, &[at(A, "192.0.2.2", false), at(A, "192.0.2.3", true)]);
    assert_eq!((behind(&r, A), ends(&r)), (Some(ip("192.0.2.2")), vec![ip("192.0.2.2")]));
    // Other parameters: the tunnel stays, with the addresses behind it.
    let tunnel =
        |r: &Router| tunnels(r).find(|(_, t)| t.config.vni == 10).map(|(i, t)| (i, t.config.clone()));
    let (was, _) = tunnel(&r).unwrap();
    let changed = Device { local: ip("192.0.2.7"), ttl: 9, port: 4790, ..device(3, 10) };
    take(&mut r, vec![Bridge { devices: vec![changed], ..bridge(&[port], &[]) }]);
    let (is, config) = tunnel(&r).unwrap();
    assert_eq!((is, config.local, config.ttl, config.remote_port), (was, ip("192.0.2.7"), Some(9), 4790));
    assert_eq!(behind(&r, A), Some(ip("192.0.2.2")));
    // Addresses of the bridge: its BVI.
    take(&mut r, vec![bridge(&[port], &["10.0.0.1/24"])]);
    let [(2, bvi)] = svis(&r, &None)[..] else { panic!() };
    let has = |r: &Router| r.interface(bvi).map(|i| (i.up, i.mac, i.configured().collect::<BTreeSet<_>>()));
    assert_eq!(
        has(&r),
        Some((true, MacAddr([2, 0, 0, 0, 0, 2]), BTreeSet::from(["10.0.0.1/24".parse().unwrap()])))
    );
    let moved = Bridge { up: false, mac: A, ..bridge(&[], &["10.0.0.2/24"]) };
    take(&mut r, vec![moved]);
    assert_eq!(has(&r), Some((false, A, BTreeSet::from(["10.0.0.2/24".parse().unwrap()]))));
    assert!(r.interface(port).unwrap().membership.is_none());
    // Another VNI.
    let other = Bridge { devices: vec![Device { vni: 11, ..device(3, 11) }], ..bridge(&[port], &[]) };
    take(&mut r, vec![other]);
    assert!(ends(&r).is_empty() && svis(&r, &None).is_empty());
    assert_eq!(tunnels(&r).filter(|(_, t)| t.config.vni == 11).count(), 1);
    take(&mut r, vec![]);
    assert_eq!((tunnels(&r).count(), bridging::bridges(&r).count()), (1, 0));
}

#[test]
fn all_is_told_anew() {
    let (mut r, port) = router();
    take(&mut r, vec![bridge(&[port], &[])]);
    let many: Vec<MacAt> = (0..2000u32)
        .map(|n| {
            at(
                MacAddr([2, 0, 1, 0, (n >> 8) as u8, n as u8]),
                ["192.0.2.2", "192.0.2.3"][n as usize % 2],
                false,
            )
        })
        .collect();
    told(&mut r, &many);
    assert_eq!((bridging::macs(&r).len(), ends(&r).len()), (2000, 2));
    // They are not the operator's to forget.
    assert_eq!((bridging::flush_macs(&mut r, None, None), bridging::macs(&r).len()), (0, 2000));
    begin_macs(&mut r, &None);
    let even: Vec<MacAt> = many.iter().copied().step_by(2).collect();
    told(&mut r, &even);
    end_macs(&mut r, &None);
    while work(&mut r, &None) {}
    assert_eq!((bridging::macs(&r).len(), ends(&r)), (1000, vec![ip("192.0.2.2")]));
    // One that has moved here stays when all is told, and goes back when it is told by itself.
    let id = bridging::bridges(&r).next().unwrap().id;
    let one = even[1];
    bridging::learn_mac(&mut r, id, one.mac, "vxlan_tunnel0").unwrap();
    begin_macs(&mut r, &None);
    told(&mut r, &even);
    end_macs(&mut r, &None);
    while work(&mut r, &None) {}
    assert_eq!(behind(&r, one.mac), Some(ip("192.0.2.99")));
    told(&mut r, &[one]);
    assert_eq!(behind(&r, one.mac), Some(one.end));
    // What is heard on a port is for Linux, and what is behind tunnels is not.
    bridging::learn_mac(&mut r, id, A, "vxlan_tunnel0").unwrap();
    let (mut local, mut from) = (vec![], Some(0));
    while let Some(at) = from {
        let some;
        (some, from) = local_macs(&r, &None, at);
        local.extend(some);
    }
    assert_eq!(local, [(port, A)]);
    forget(&mut r, &None);
    while work(&mut r, &None) {}
    assert_eq!((tunnels(&r).count(), bridging::bridges(&r).count(), bridging::macs(&r).len()), (1, 0, 0));
}

#[test]
fn what_cannot_be_is_told_once_and_made_when_it_can() {
    let (mut r, port) = router();
    let other = BridgeOp::Create { id: 5, settings: bridging::BridgeSettings::default() };
    let member = crate::router::Membership { bridge: 5, bvi: false, shg: 0 };
    let join = BridgeOp::Port { name: "vxlan_tunnel0".into(), member: Some(member) };
    r.commit(vec![other.into(), join.into()]).unwrap();
    let refused = |r: &Router| part::refused(r).into_iter().map(|(_, _, why)| why).collect::<Vec<_>>();
    take(&mut r, vec![bridge(&[port], &[])]);
    assert_eq!(refused(&r), ["vxlan_tunnel0 is in bridge domain 5 already"]);
    r.commit(vec![BridgeOp::Port { name: "vxlan_tunnel0".into(), member: None }.into()]).unwrap();
    take(&mut r, vec![bridge(&[port], &[])]);
    assert!(refused(&r).is_empty() && r.interface(port).unwrap().membership.is_some());
    // An end of the other family, and the same tunnel a second time.
    told(&mut r, &[at(ALL, "2001:db8::2", false), at(ALL, "192.0.2.2", false)]);
    assert_eq!((refused(&r).len(), ends(&r)), (1, vec![ip("192.0.2.2")]));
    // All is taken out, and made again when it is told again.
    r.clear();
    assert_eq!((bridging::bridges(&r).count(), tunnels(&r).count()), (0, 0));
    take(&mut r, vec![bridge(&[], &["10.0.0.1/24"])]);
    assert_eq!(
        (bridging::bridges(&r).count(), ends(&r), svis(&r, &None).len()),
        (1, vec![ip("192.0.2.2")], 1)
    );
}

/// The table in which the BVI of the bridge is, of each family, with the addresses that lead to it there.
fn in_tables(r: &Router) -> Option<[(u32, bool); 2]> {
    let [(2, bvi)] = svis(r, &None)[..] else { return None };
    let i = r.interface(bvi)?;
    let has = |v6, at: &str| {
        let id = r.table_of_interface(i, v6);
        let led = r.covering_in(id, ip(at));
        (id, led.iter().any(|route| route.prefix.prefix_len() > 0))
    };
    Some([has(false, "10.0.0.9"), has(true, "2001:db8::9")])
}

#[test]
fn a_bridge_is_in_the_table_of_its_vrf() {
    let (mut r, port) = router();
    let nets = ["10.0.0.1/24", "2001:db8::1/64"];
    let within = |table| Bridge { table, ..bridge(&[port], &nets) };
    take(&mut r, vec![within(None)]);
    assert_eq!(in_tables(&r), Some([(0, true); 2]));
    // A table that is not there, for both families: better no interface than one of another customer's.
    r.commit(vec![Op::CreateTable { table: RouteTable { v6: false, id: 10 }, name: None }]).unwrap();
    take(&mut r, vec![within(Some(10))]);
    let why = |r: &Router| {
        part::refused(r).into_iter().map(|(_, what, why)| format!("{what}: {why}")).collect::<Vec<_>>()
    };
    assert_eq!(in_tables(&r), None);
    assert!(
        matches!(&why(&r)[..], [one] if one.starts_with("bridge br10: BVI: it is in the VRF of table 10")),
        "{:?}",
        why(&r)
    );
    r.commit(vec![Op::CreateTable { table: RouteTable { v6: true, id: 10 }, name: None }]).unwrap();
    take(&mut r, vec![within(Some(10))]);
    assert_eq!((in_tables(&r), why(&r)), (Some([(10, true); 2]), vec![]));
    // To another one and out of it, the addresses with it.
    for v6 in [false, true] {
        r.commit(vec![Op::CreateTable { table: RouteTable { v6, id: 20 }, name: None }]).unwrap();
    }
    take(&mut r, vec![within(Some(20))]);
    assert_eq!(in_tables(&r), Some([(20, true); 2]));
    take(&mut r, vec![within(None)]);
    assert_eq!(in_tables(&r), Some([(0, true); 2]));
    // It goes while it is in one, which is free then.
    take(&mut r, vec![within(Some(10))]);
    assert_eq!(in_tables(&r), Some([(10, true); 2]));
    take(&mut r, vec![]);
    for v6 in [false, true] {
        r.commit(vec![Op::DeleteTable { table: RouteTable { v6, id: 10 } }]).unwrap();
    }
}

/// Between routers a VRF has a VNI of its own, whose bridge has neither ports nor addresses (RFC 9135).
#[test]
fn a_bridge_between_routers_of_a_vrf_needs_no_address() {
    let (mut r, _) = router();
    for v6 in [false, true] {
        r.commit(vec![Op::CreateTable { table: RouteTable { v6, id: 10 }, name: None }]).unwrap();
    }
    let without = |table| Bridge { table, ..bridge(&[], &[]) };
    let takes = |r: &Router| {
        let [(2, bvi)] = svis(r, &None)[..] else { return None };
        let i = r.plane().interfaces.get(bvi, r.guard())?;
        Some((i.takes_ip4(), i.takes_ip6(), r.table_of_interface(r.interface(bvi)?, false)))
    };
    take(&mut r, vec![without(None)]);
    assert_eq!(takes(&r), None);
    take(&mut r, vec![without(Some(10))]);
    assert_eq!(takes(&r), Some((true, true, 10)));
    // The other router, by its MAC address.
    told(&mut r, &[at(A, "192.0.2.3", false)]);
    assert_eq!(behind(&r, A), Some(ip("192.0.2.3")));
    // With addresses, out of the VRF: those families alone.
    take(&mut r, vec![bridge(&[], &["10.0.0.1/24"])]);
    assert_eq!(takes(&r), Some((true, false, 0)));
    take(&mut r, vec![without(Some(10))]);
    assert_eq!(takes(&r), Some((true, true, 10)));
    take(&mut r, vec![Bridge { devices: vec![], ..without(Some(10)) }]);
    assert_eq!(takes(&r), None);
}
