//! Recursive next hops and routes between tables, against a model that works everything out anew by the simplest means.

#![allow(clippy::unwrap_used, clippy::panic)]

use ipnet::IpNet;
use net::plane::kind;
use net::router::{Op, RouteBatch, RoutePath, RouteTable, Router, RouterConfig, Target};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tables::groups::GroupId;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn path(address: &str, interface: u32, table: i32, weight: u8) -> RoutePath {
    RoutePath {
        address: (!address.is_empty()).then(|| address.parse().unwrap()),
        interface: (interface != 0).then_some(interface),
        table: u32::try_from(table).ok(),
        weight,
        ..Default::default()
    }
}

/// loop0 and loop1 have the same prefix in tables 0 and 1; loop2, in table 0, comes and goes.
const LINKS: [(&str, u32, &str); 3] =
    [("loop0", 0, "10.0.0.1/24"), ("loop1", 1, "10.0.0.1/24"), ("loop2", 0, "10.1.0.1/24")];

/// Prefixes over and under the next hops.
const PREFIXES: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.0.7/32",
    "20.0.0.0/8",
    "20.1.0.0/16",
    "20.1.0.5/32",
    "30.0.0.0/8",
    "30.0.0.5/32",
];

fn targets() -> Vec<Target> {
    let paths = |p: &[RoutePath]| Target::Paths(p.to_vec());
    vec![
        Target::Drop,
        Target::Prohibit,
        paths(&[path("10.0.0.9", 0, -1, 1)]),
        paths(&[path("10.1.0.7", 0, -1, 1)]),
        paths(&[path("20.1.0.5", 0, -1, 1)]),
        paths(&[path("30.0.0.5", 0, -1, 1)]),
        paths(&[path("10.1.0.7", 3, -1, 1)]),
        paths(&[path("", 3, -1, 1)]),
        paths(&[path("", 0, 1, 1)]),
        paths(&[path("", 0, 0, 1)]),
        paths(&[path("20.1.0.5", 0, 1, 1)]),
        paths(&[path("10.0.0.9", 0, 0, 1)]),
        paths(&[path("20.1.0.5", 0, -1, 3), path("30.0.0.5", 0, -1, 1)]),
        paths(&[path("10.0.0.9", 0, -1, 1), path("20.1.0.5", 0, -1, 2)]),
        paths(&[path("10.0.0.8", 0, -1, 1), path("10.1.0.7", 0, -1, 2), path("30.0.0.5", 0, 1, 5)]),
        paths(&[path("", 0, 1, 1), path("10.0.0.9", 0, -1, 1)]),
    ]
}

/// A path over an interface leads of a host route to that host.
fn for_host(prefix: IpNet, target: &Target) -> Target {
    let host = prefix.prefix_len() == prefix.max_prefix_len();
    let path = |p: &RoutePath| match p.address.is_none() && p.interface.is_some() {
        true => RoutePath { address: Some(prefix.addr()), ..*p },
        false => *p,
    };
    match target {
        Target::Paths(paths) if host => Target::Paths(paths.iter().map(path).collect()),
        other => other.clone(),
    }
}

#[derive(Clone, Debug)]
enum Change {
    Set(u32, usize, usize),
    Del(u32, usize),
    State(bool),
    Address(bool),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => (0u32..2, 0..PREFIXES.len(), 0..targets().len()).prop_map(|(t, p, g)| Change::Set(t, p, g)),
        3 => (0u32..2, 0..PREFIXES.len()).prop_map(|(t, p)| Change::Del(t, p)),
        1 => any::<bool>().prop_map(Change::State),
        1 => any::<bool>().prop_map(Change::Address),
    ]
}

/// A neighbour, link or word, with its share.
type Ways = BTreeMap<(u8, u32, Option<IpAddr>), f64>;

#[derive(Default)]
struct Model {
    routes: BTreeMap<(u32, IpNet), Target>,
    up: bool,
    address: bool,
}

/// What a longest match finds.
enum Found {
    Nothing,
    /// An address, or a broadcast, of the router.
    Own,
    Link(u32),
    /// The table and target of a static route: what tells groups apart.
    Static(u32, Target),
}

impl Model {
    fn usable(&self, interface: u32) -> bool {
        interface != 3 || self.up
    }

    fn find(&self, table: u32, addr: IpAddr) -> Found {
        let mut best: (i32, Found) = (-1, Found::Nothing);
        for (n, (_, t, own)) in LINKS.iter().enumerate() {
            let own = net(own);
            let here = *t == table && own.contains(&addr) && (n != 2 || self.address);
            if here {
                let edge = addr == own.addr() || addr == own.network() || addr == own.broadcast();
                best = if edge { (33, Found::Own) } else { (24, Found::Link(n as u32 + 1)) };
            }
        }
        for ((t, p), target) in &self.routes {
            let len = i32::from(p.prefix_len());
            if *t == table && p.contains(&addr) && len > best.0 {
                best = (len, Found::Static(*t, target.clone()));
            }
        }
        best.1
    }

    /// The static groups over which the next hops of a group are found.
    fn through(&self, table: u32, target: &Target) -> Vec<(u32, Target)> {
        let Target::Paths(paths) = target else { return vec![] };
        let mut out = vec![];
        for p in paths.iter().filter(|p| p.interface.is_none()) {
            let Some(a) = p.address else { continue };
            let mut tables = BTreeSet::from([p.table.unwrap_or(table)]);
            let mut list: Vec<u32> = tables.iter().copied().collect();
            while let Some(t) = list.pop() {
                let Found::Static(t, target) = self.find(t, a) else { continue };
                if let Target::Paths(next) = &target {
                    let into = next.iter().filter(|p| p.interface.is_none() && p.address.is_none());
                    list.extend(into.filter_map(|p| p.table).filter(|t| tables.insert(*t)));
                    out.push((self.at(t, &target), target));
                }
            }
        }
        out
    }

    /// Groups without next hops of their own table are the same in all tables.
    fn at(&self, table: u32, target: &Target) -> u32 {
        let Target::Paths(p) = target else { return 0 };
        if p.iter().any(|p| p.interface.is_none() && p.table.is_none()) { table } else { 0 }
    }

    /// Whether following next hops from a group leads to another.
    fn leads_to(&self, from: &(u32, Target), to: &(u32, Target)) -> bool {
        let mut seen = vec![from.clone()];
        let mut list = seen.clone();
        while let Some(g) = list.pop() {
            if g == *to {
                return true;
            }
            for next in self.through(g.0, &g.1) {
                if !seen.contains(&next) {
                    seen.push(next.clone());
                    list.push(next);
                }
            }
        }
        false
    }

    /// Where packets of a group go. The word that a route on the way says is used when nothing else is left.
    fn group(&self, table: u32, target: &Target) -> Ways {
        let word = match target {
            Target::Drop => Some(kind::DROP),
            Target::Prohibit => Some(kind::PROHIBIT),
            _ => None,
        };
        if let Some(w) = word {
            return Ways::from([((w, 0, None), 1.0)]);
        }
        let Target::Paths(paths) = target else { panic!("{target:?}") };
        let me = (self.at(table, target), target.clone());
        let (mut parts, mut said) = (vec![], None);
        for p in paths {
            let ways = match (p.interface, p.address) {
                (Some(i), a) => {
                    let way = (if a.is_some() { kind::REWRITE } else { kind::GLEAN }, i, a);
                    if self.usable(i) { Ways::from([(way, 1.0)]) } else { Ways::new() }
                }
                (None, Some(a)) => self.follow(&me, p.table.unwrap_or(table), a, &mut vec![], &mut said),
                (None, None) => Ways::from([((kind::LOOKUP, p.table.unwrap(), None), 1.0)]),
            };
            if !ways.is_empty() {
                parts.push((f64::from(p.weight), ways));
            }
        }
        let all = shares(parts);
        if all.is_empty() {
            return Ways::from([((said.unwrap_or(kind::UNREACHABLE), 0, None), 1.0)]);
        }
        all
    }

    fn follow(
        &self,
        me: &(u32, Target),
        table: u32,
        addr: IpAddr,
        tables: &mut Vec<u32>,
        said: &mut Option<u8>,
    ) -> Ways {
        if tables.contains(&table) {
            return Ways::new();
        }
        let (at, target) = match self.find(table, addr) {
            Found::Nothing | Found::Own => return Ways::new(),
            Found::Link(i) if self.usable(i) => {
                return Ways::from([((kind::REWRITE, i, Some(addr)), 1.0)]);
            }
            Found::Link(_) => return Ways::new(),
            Found::Static(t, target) => (t, target),
        };
        let group = (self.at(at, &target), target.clone());
        if matches!(target, Target::Paths(_)) && self.leads_to(&group, me) {
            return Ways::new();
        }
        let mut parts = vec![];
        for ((k, i, a), share) in self.group(at, &target) {
            let ways = match k {
                kind::REWRITE => Ways::from([((k, i, a), 1.0)]),
                kind::GLEAN => Ways::from([((kind::REWRITE, i, Some(addr)), 1.0)]),
                kind::LOOKUP => {
                    tables.push(table);
                    let ways = self.follow(me, i, addr, tables, said);
                    tables.pop();
                    ways
                }
                kind::UNREACHABLE => Ways::new(),
                word => {
                    said.get_or_insert(word);
                    Ways::new()
                }
            };
            if !ways.is_empty() {
                parts.push((share, ways));
            }
        }
        shares(parts)
    }
}

/// Each part has its share of the whole, and each way of it its share of that.
fn shares(parts: Vec<(f64, Ways)>) -> Ways {
    let total: f64 = parts.iter().map(|p| p.0).sum();
    let mut out = Ways::new();
    for (weight, ways) in parts {
        for (way, share) in ways {
            *out.entry(way).or_default() += weight / total * share;
        }
    }
    out
}

/// What a group of the router holds.
fn held(r: &Router, group: GroupId) -> Ways {
    let g = r.group(group).unwrap();
    let total: f64 = g.paths.iter().map(|p| f64::from(p.weight)).sum();
    let way = |p: &tables::groups::Path| {
        let key = match p.entry.kind {
            kind::REWRITE | kind::GLEAN => {
                let a = r.adjacency(p.entry.adj).unwrap();
                let next = Some(a.next_hop).filter(|a| !a.is_unspecified());
                (p.entry.kind, a.interface, next)
            }
            kind::LOOKUP => (kind::LOOKUP, r.table_at(false, net::plane::table::FibIndex(p.entry.adj)), None),
            k => (k, 0, None),
        };
        (key, f64::from(p.weight) / total)
    };
    g.paths.iter().map(way).collect()
}

fn router() -> Router {
    let pool = graph::PoolConfig { buffers: 64, memory: graph::PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let mut ops = vec![Op::CreateTable { table: RouteTable { v6: false, id: 1 }, name: None }];
    for (name, table, address) in LINKS {
        ops.push(Op::CreateLoopback { instance: None, mac: None });
        ops.push(Op::SetTable { name: name.into(), table: RouteTable { v6: false, id: table } });
        ops.push(Op::SetState { name: name.into(), up: true });
        ops.push(Op::AddAddress { name: name.into(), net: net(address) });
    }
    r.commit(ops).unwrap();
    r
}

fn check(r: &Router, m: &Model, after: &Change) -> Result<(), TestCaseError> {
    for ((table, prefix), target) in &m.routes {
        let at = RouteTable { v6: false, id: *table };
        let info = r.routes(at).find(|i| i.prefix == *prefix).unwrap();
        let group = r.static_routes_at(&info).next().unwrap();
        let (have, want) = (held(r, group), m.group(*table, target));
        let same = have.keys().eq(want.keys()) && have.iter().all(|(k, s)| (s - want[k]).abs() < 1e-6);
        prop_assert!(same, "{prefix} of table {table}, {target:?}, after {after:?}:\n{have:?}\nnot {want:?}");
    }
    // The workers' tables say the same as a longest match.
    for table in [0, 1] {
        for addr in ["10.0.0.9", "10.1.0.7", "20.1.0.5", "20.1.0.6", "30.0.0.5", "99.0.0.1"] {
            let addr: IpAddr = addr.parse().unwrap();
            let group = r.lookup_in(table, addr);
            match m.find(table, addr) {
                Found::Nothing => prop_assert!(group.is_none()),
                Found::Own => {}
                Found::Link(i) => prop_assert_eq!(group.map(|g| g.target), Some(Target::Glean(i))),
                Found::Static(_, t) => prop_assert_eq!(group.map(|g| g.target), Some(t)),
            }
        }
    }
    Ok(())
}

/// Groups with paths.
fn paths(r: &Router) -> usize {
    r.groups().into_iter().filter(|g| matches!(g.target, Target::Paths(_))).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn next_hops_are_followed_as_the_model_says(changes in prop::collection::vec(change(), 1..60)) {
        // With it the number of groups that label routes have always.
        thread_local!(static ROUTER: std::cell::RefCell<(Router, usize)> = std::cell::RefCell::new({
            let r = router();
            let n = paths(&r);
            (r, n)
        }));
        ROUTER.with_borrow_mut(|(r, of_labels)| {
            let mut m = Model { up: true, address: true, ..Model::default() };
            let all = targets();
            for c in &changes {
                let ops = match *c {
                    Change::Set(table, p, t) => {
                        let prefix = net(PREFIXES[p]);
                        vec![Op::SetRoute { table, prefix, target: all[t].clone() }]
                    }
                    Change::Del(table, p) => vec![Op::DelRoute { table, prefix: net(PREFIXES[p]) }],
                    Change::State(up) => vec![Op::SetState { name: "loop2".into(), up }],
                    Change::Address(on) if on == m.address => continue,
                    Change::Address(true) => vec![Op::AddAddress { name: "loop2".into(), net: net(LINKS[2].2) }],
                    Change::Address(false) => vec![Op::DelAddress { name: "loop2".into(), net: net(LINKS[2].2) }],
                };
                let done = r.commit(ops).is_ok();
                match *c {
                    Change::Set(table, p, t) if done => {
                        let prefix = net(PREFIXES[p]);
                        m.routes.insert((table, prefix), for_host(prefix, &all[t]));
                    }
                    Change::Set(table, _, t) => {
                        let itself = matches!(&all[t], Target::Paths(p)
                            if p.iter().any(|p| p.address.is_none() && p.table == Some(table)));
                        prop_assert!(itself, "{:?} was refused", c);
                    }
                    Change::Del(table, p) => {
                        prop_assert_eq!(m.routes.remove(&(table, net(PREFIXES[p]))).is_some(), done);
                    }
                    Change::State(up) => m.up = up,
                    Change::Address(on) => m.address = on,
                }
                check(r, &m, c)?;
            }
            let mut ops = vec![];
            for table in [0, 1] {
                let mut batch = RouteBatch::in_table(table);
                m.routes.keys().filter(|k| k.0 == table).for_each(|k| batch.del(k.1));
                ops.push(Op::Routes(batch));
            }
            ops.push(Op::SetState { name: "loop2".into(), up: true });
            if !m.address {
                ops.push(Op::AddAddress { name: "loop2".into(), net: net(LINKS[2].2) });
            }
            r.commit(ops).unwrap();
            prop_assert_eq!(paths(r), *of_labels, "groups without routes are left");
            Ok(())
        })?;
    }
}

/// A million routes over one recursive next hop move by one stored word.
#[test]
fn routes_over_a_recursive_next_hop_move_with_it() {
    let mut r = router();
    let mut batch = RouteBatch::new();
    let via = batch.target(Target::Paths(vec![path("20.1.0.5", 0, -1, 1)]));
    for n in 0..200_000u32 {
        batch.set(ipnet::Ipv4Net::new((0x4000_0000 + (n << 8)).into(), 24).unwrap().into(), via);
    }
    r.commit(vec![Op::Routes(batch)]).unwrap();
    let over = |address: &str| {
        let (prefix, target) = (net("20.1.0.0/16"), Target::Paths(vec![path(address, 0, -1, 1)]));
        vec![Op::SetRoute { table: 0, prefix, target }]
    };
    r.commit(over("10.0.0.9")).unwrap();
    let before = r.published();
    r.commit(over("10.1.0.7")).unwrap();
    let after = r.published();
    assert_eq!(
        (after.routes - before.routes, after.groups - before.groups),
        (1, 2),
        "its own route and two groups"
    );
    let group = r.lookup([0x40, 0, 5, 5].into()).unwrap();
    assert_eq!(
        r.adjacency(group.paths[0].entry.adj).unwrap().next_hop,
        "10.1.0.7".parse::<IpAddr>().unwrap()
    );
}

/// Chains are followed to any depth, and moved from their far end.
#[test]
fn a_chain_of_a_thousand_routes() {
    let mut r = router();
    let hop = |n: u32| IpAddr::from([40, (n >> 8) as u8, n as u8, 1]);
    let mut batch = RouteBatch::new();
    for n in 0..1000u32 {
        let next = if n == 999 { "10.0.0.9".parse().unwrap() } else { hop(n + 1) };
        let target = batch.target(Target::Paths(vec![RoutePath {
            address: Some(next),
            interface: None,
            table: None,
            weight: 1,
            ..Default::default()
        }]));
        batch.set(IpNet::new(hop(n), 24).unwrap().trunc(), target);
    }
    r.commit(vec![Op::Routes(batch)]).unwrap();
    let first = |r: &Router| held(r, r.lookup(hop(0)).unwrap().id);
    assert_eq!(first(&r), Ways::from([((kind::REWRITE, 1, Some("10.0.0.9".parse().unwrap())), 1.0)]));
    let target = Target::Paths(vec![path("10.1.0.7", 3, -1, 1)]);
    r.commit(vec![Op::SetRoute { table: 0, prefix: IpNet::new(hop(999), 24).unwrap().trunc(), target }])
        .unwrap();
    assert_eq!(first(&r), Ways::from([((kind::REWRITE, 3, Some("10.1.0.7".parse().unwrap())), 1.0)]));
    // The ends meet: nobody gets anywhere.
    let target = Target::Paths(vec![RoutePath {
        address: Some(hop(0)),
        interface: None,
        table: None,
        weight: 1,
        ..Default::default()
    }]);
    r.commit(vec![Op::SetRoute { table: 0, prefix: IpNet::new(hop(999), 24).unwrap().trunc(), target }])
        .unwrap();
    assert_eq!(first(&r), Ways::from([((kind::UNREACHABLE, 0, None), 1.0)]));
}

#[test]
fn tables_come_and_go_as_a_whole() {
    let mut r = router();
    let table = RouteTable { v6: false, id: 7 };
    r.commit(vec![
        Op::CreateTable { table, name: Some("seven".into()) },
        Op::SetRoute { table: 7, prefix: net("20.0.0.0/8"), target: Target::Drop },
        Op::SetRoute {
            table: 7,
            prefix: net("30.0.0.0/8"),
            target: Target::Paths(vec![path("20.0.0.1", 0, -1, 1)]),
        },
    ])
    .unwrap();
    let before: Vec<_> = r.routes(table).map(|r| r.prefix).collect();
    let info = r.table_info(table);
    // What follows is refused, and the table with its routes is back.
    let failed = r.commit(vec![
        Op::DeleteTable { table },
        Op::CreateTable { table, name: None },
        Op::SetRoute { table: 7, prefix: net("40.0.0.0/8"), target: Target::Drop },
        Op::DelRoute { table: 7, prefix: net("20.0.0.0/8") },
    ]);
    assert!(failed.is_err());
    assert_eq!((r.routes(table).map(|r| r.prefix).collect::<Vec<_>>(), r.table_info(table)), (before, info));
    assert_eq!(r.lookup_in(7, [30, 0, 0, 1].into()).map(|g| g.paths[0].entry.kind), Some(kind::DROP));
    let groups = r.groups().len();
    r.commit(vec![Op::DeleteTable { table }]).unwrap();
    assert!(r.table_info(table).is_none() && r.groups().len() == groups - 2);
    assert!(
        r.commit(vec![Op::SetRoute { table: 7, prefix: net("20.0.0.0/8"), target: Target::Drop }]).is_err()
    );
}

/// The neighbours that went with an address come back when its removal is undone.
#[test]
fn an_undone_removal_of_an_address_keeps_its_neighbours() {
    let mut r = router();
    let address: IpAddr = "10.0.0.9".parse().unwrap();
    let mac = packet::MacAddr([2, 0, 0, 0, 0, 9]);
    r.commit(vec![Op::SetNeighbor { name: "loop1".into(), address, mac }]).unwrap();
    let known = |r: &Router| {
        r.neighbors().filter(|n| n.addr == address).map(|n| (n.interface, n.mac)).collect::<Vec<_>>()
    };
    let before = known(&r);
    assert_eq!(before, [(2, Some(mac))]);
    let ops = vec![
        Op::DelAddress { name: "loop1".into(), net: net("10.0.0.1/24") },
        Op::DelRoute { table: 0, prefix: net("99.0.0.0/8") },
    ];
    assert!(r.commit(ops).is_err());
    assert_eq!(known(&r), before);
    assert_eq!(
        r.route_in(1, net("10.0.0.9/32"), net::router::Source::Neighbor),
        Some(Target::Neighbor(2, address))
    );
}
