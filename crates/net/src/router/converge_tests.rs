//! What goes takes its routes away by next-hop groups, never one by one.
#![allow(clippy::unwrap_used)]

use super::{Op, PublishCounts, RouteBatch, RoutePath, Router, RouterConfig, Target};
use crate::neighbor::{NeighborConfig, State};
use crate::plane::kind;
use graph::{PoolConfig, PoolMemory};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tables::groups::Path;

const ROUTES: u32 = 20_000;

fn path(address: &str, interface: Option<u32>) -> RoutePath {
    RoutePath {
        address: Some(address.parse().unwrap()),
        interface,
        table: None,
        weight: 1,
        ..Default::default()
    }
}

/// `loop0` 10.0.0.1/24 and `loop1` 10.0.1.1/24, and routes over these paths.
fn router(paths: &[RoutePath]) -> Router {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let neighbor = NeighborConfig { retrans_timer: 1, ..NeighborConfig::default() };
    let mut r = Router::new(RouterConfig { pool, neighbor, ..RouterConfig::default() }).unwrap();
    for n in 0..2 {
        let name = || format!("loop{n}");
        r.commit(vec![
            Op::CreateLoopback { instance: Some(n), mac: None },
            Op::SetState { name: name(), up: true },
            Op::AddAddress { name: name(), net: format!("10.0.{n}.1/24").parse().unwrap() },
        ])
        .unwrap();
    }
    let mut batch = RouteBatch::new();
    let via = batch.target(Target::Paths(paths.to_vec()));
    for i in 0..ROUTES {
        let net = ipnet::Ipv4Net::new((0x1400_0000 + (i << 8)).into(), 24).unwrap();
        batch.set(net.into(), via);
    }
    r.commit(vec![Op::Routes(batch)]).unwrap();
    r
}

/// Kinds and interfaces of the paths that packets of the last route take.
fn taken(r: &Router) -> Vec<(u8, u32)> {
    let group = r.lookup([20, 0, 7, 7].into()).unwrap();
    assert_eq!(group.routes, ROUTES);
    let interface = |adj| r.adjacency(adj).map_or(0, |a| a.interface);
    let place =
        |p: &Path| (p.entry.kind, if p.entry.kind == kind::REWRITE { interface(p.entry.adj) } else { 0 });
    group.paths.iter().map(place).collect()
}

fn since(r: &Router, before: PublishCounts) -> (u64, u64) {
    let now = r.published();
    (now.routes - before.routes, now.groups - before.groups)
}

const ONE: (u8, u32) = (kind::REWRITE, 1);
const TWO: (u8, u32) = (kind::REWRITE, 2);

#[test]
fn an_interface_takes_its_routes_away_by_one_word() {
    for interface in [Some(1), None] {
        let mut r = router(&[path("10.0.0.2", interface), path("10.0.1.2", Some(2))]);
        assert_eq!(taken(&r), [ONE, TWO]);
        for (name, up, left) in
            [("loop0", false, vec![TWO]), ("loop0", true, vec![ONE, TWO]), ("loop1", false, vec![ONE])]
        {
            let before = r.published();
            r.commit(vec![Op::SetState { name: name.into(), up }]).unwrap();
            assert_eq!((since(&r, before), taken(&r)), ((0, 1), left), "{name} {up}");
        }
        let before = r.published();
        r.commit(vec![Op::SetState { name: "loop0".into(), up: false }]).unwrap();
        assert_eq!((since(&r, before), taken(&r)), ((0, 1), vec![(kind::UNREACHABLE, 0)]));
        r.shutdown();
    }
}

#[test]
fn a_group_over_another_interface_is_left_alone() {
    let mut r = router(&[path("10.0.0.2", Some(1))]);
    let before = r.published();
    r.commit(vec![Op::SetState { name: "loop1".into(), up: false }]).unwrap();
    assert_eq!((since(&r, before), taken(&r)), ((0, 0), vec![ONE]));
    r.shutdown();
}

/// Lets time pass until the neighbour is in this state.
fn until(r: &mut Router, interface: u32, addr: IpAddr, state: State) {
    let end = Instant::now() + Duration::from_secs(10);
    while r.neighbors.table.get(interface, addr).is_none_or(|n| n.state != state) {
        assert!(Instant::now() < end, "{:?}", r.neighbors.table.get(interface, addr));
        r.tick();
        std::thread::yield_now();
    }
}

fn ask(r: &mut Router, interface: u32, addr: IpAddr) {
    let mut out = vec![];
    r.neighbors.table.resolve_wanted(r.now(), interface, addr, &mut out);
    r.carry_out(out);
}

#[test]
fn the_only_next_hop_is_not_asked_for_without_packets() {
    let mut r = router(&[path("10.0.0.2", Some(1))]);
    let before = r.published();
    ask(&mut r, 1, [10, 0, 0, 2].into());
    until(&mut r, 1, [10, 0, 0, 2].into(), State::Failed);
    assert_eq!((since(&r, before), taken(&r)), ((0, 0), vec![ONE]));
    assert_eq!(r.nexthops.dead(), []);
    r.shutdown();
}

#[test]
fn a_neighbor_that_does_not_answer_takes_its_routes_away_by_one_word() {
    let mut r = router(&[path("10.0.0.2", Some(1)), path("10.0.1.2", None)]);
    let (one, two): (IpAddr, IpAddr) = ([10, 0, 0, 2].into(), [10, 0, 1, 2].into());
    let before = r.published();
    ask(&mut r, 1, one);
    until(&mut r, 1, one, State::Failed);
    assert_eq!((since(&r, before), taken(&r)), ((0, 1), vec![TWO]));
    // Nor the other one: then both are asked again by packets.
    ask(&mut r, 2, two);
    until(&mut r, 2, two, State::Failed);
    assert_eq!((since(&r, before), taken(&r)), ((0, 2), vec![ONE, TWO]));
    // The first one is heard of: its host route, and the group.
    let mac = "02:00:00:00:00:22".parse().unwrap();
    r.commit(vec![Op::SetNeighbor { name: "loop0".into(), address: one, mac }]).unwrap();
    assert_eq!(taken(&r), [ONE]);
    assert_eq!(since(&r, before).0, 1);
    // One that was left out is asked for without packets.
    r.neighbors.next_use_check = crate::neighbor::Millis(0);
    let failed = r.neighbors.table.get(2, two).unwrap().since;
    let end = Instant::now() + Duration::from_secs(30);
    while r.neighbors.table.get(2, two).is_none_or(|n| n.since == failed) {
        assert!(Instant::now() < end, "{:?}", r.neighbors.table.get(2, two));
        r.neighbors.next_use_check = crate::neighbor::Millis(0);
        r.tick();
        std::thread::yield_now();
    }
    let address = two;
    r.commit(vec![Op::SetNeighbor { name: "loop1".into(), address, mac }]).unwrap();
    assert_eq!(taken(&r), [ONE, TWO]);
    // An interface that goes and comes forgets who did not answer.
    r.commit(vec![Op::DelNeighbor { name: "loop0".into(), address: one }]).unwrap();
    ask(&mut r, 1, one);
    until(&mut r, 1, one, State::Failed);
    assert_eq!(taken(&r), [TWO]);
    for up in [false, true] {
        r.commit(vec![Op::SetState { name: "loop0".into(), up }]).unwrap();
    }
    assert_eq!(taken(&r), [ONE, TWO]);
    r.shutdown();
}
