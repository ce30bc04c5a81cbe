//! Transactions of routes against a naive model: all or nothing, and the workers' table answers as the model does.
#![allow(clippy::unwrap_used)]

use command::{Access, Registry};
use graph::{PoolConfig, PoolMemory};
use ipnet::IpNet;
use net::router::{Op, RouteBatch, RouteInfo, RoutePath, RouteTable, Router, RouterConfig, Source, Target};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

fn router() -> Router {
    limited(None)
}

fn limited(route_memory: Option<usize>) -> Router {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, route_memory, ..RouterConfig::default() }).unwrap();
    r.commit(vec![
        Op::CreateLoopback { instance: Some(0), mac: None },
        Op::CreateLoopback { instance: Some(1), mac: None },
        Op::SetState { name: "loop0".into(), up: true },
        Op::SetState { name: "loop1".into(), up: true },
        Op::AddAddress { name: "loop0".into(), net: net("10.0.0.1/24") },
        Op::AddAddress { name: "loop0".into(), net: net("2001:db8::1/64") },
    ])
    .unwrap();
    r
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn path(address: &str, interface: Option<u32>, weight: u8) -> RoutePath {
    RoutePath {
        address: Some(address.parse().unwrap()),
        interface,
        table: None,
        weight,
        ..Default::default()
    }
}

/// A change of the route of a prefix.
#[derive(Clone, Debug)]
enum Change {
    Set(usize),
    Add(usize),
    DelPaths(usize),
    Del,
}

#[derive(Clone, Debug)]
enum Step {
    Batch(Vec<(usize, Change)>),
    /// One change as an operation of its own.
    Single(usize, Change),
    /// The address of loop1, and a static neighbour on loop0.
    Address(bool),
    Neighbor(bool),
}

const LOOP1: &str = "10.0.1.1/24";
const NEIGHBOR: &str = "10.0.0.2";

/// Prefixes that nest, that interfaces and a neighbour have routes for as well, and two that are wrong.
const PREFIXES: [&str; 20] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.0/24",
    "10.0.0.0/25",
    "10.0.0.0/32",
    "10.0.0.1/32",
    "10.0.0.2/32",
    "10.0.0.255/32",
    "10.0.1.0/24",
    "10.0.1.1/32",
    "10.0.1.128/26",
    "255.255.255.255/32",
    "::/0",
    "2001:db8::/32",
    "2001:db8::/64",
    "2001:db8::1/128",
    "2001:db8::/48",
    "10.0.0.1/31",
    "2001:db8::1/32",
];

/// Targets; the last ones are refused for one family or both.
fn targets() -> Vec<Target> {
    let paths = |p: &[RoutePath]| Target::Paths(p.to_vec());
    vec![
        Target::Drop,
        Target::Unreachable,
        paths(&[RoutePath {
            address: None,
            interface: Some(1),
            table: None,
            weight: 1,
            ..Default::default()
        }]),
        paths(&[RoutePath {
            address: None,
            interface: Some(2),
            table: None,
            weight: 3,
            ..Default::default()
        }]),
        paths(&[path("10.0.0.9", None, 1)]),
        paths(&[path("10.0.0.9", Some(1), 2)]),
        paths(&[path("10.0.0.8", None, 1), path("10.0.0.7", None, 5)]),
        paths(&[path("2001:db8::9", None, 1)]),
        // Leads somewhere only while loop1 has its address.
        paths(&[path("10.0.1.9", None, 1)]),
        paths(&[path("0.0.0.0", Some(1), 1)]),
        paths(&[path("10.0.0.9", Some(1), 0)]),
    ]
}

/// What the operator and the others want, by the simplest means.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    routes: BTreeMap<IpNet, Target>,
    loop1: bool,
    neighbor: bool,
}

fn same(a: &RoutePath, b: &RoutePath) -> bool {
    a.address == b.address
        && a.table == b.table
        && (a.interface == b.interface
            || a.address.is_some() && (a.interface.is_none() || b.interface.is_none()))
}

/// A path over an interface leads of a host route to that host.
fn for_host(prefix: IpNet, target: &Target) -> Target {
    match target {
        Target::Paths(paths) if prefix.prefix_len() == prefix.max_prefix_len() => {
            let path = |p: &RoutePath| RoutePath { address: Some(p.address.unwrap_or(prefix.addr())), ..*p };
            Target::Paths(paths.iter().map(path).collect())
        }
        other => other.clone(),
    }
}

impl Model {
    fn right(&self, prefix: IpNet, target: &Target) -> bool {
        let Target::Paths(paths) = target else { return true };
        paths.iter().all(|p| {
            let has = |a: &str| p.address == Some(a.parse().unwrap());
            let own = match p.interface {
                Some(2) => self.loop1 && has("10.0.1.1"),
                _ => has("10.0.0.1") || has("2001:db8::1"),
            };
            // Nor may they be what is no host's in a connected prefix.
            let on0 = has("10.0.0.0") || has("10.0.0.255") || has("2001:db8::");
            let on1 = self.loop1 && (has("10.0.1.0") || has("10.0.1.255"));
            let own = own
                || match p.interface {
                    Some(2) => on1,
                    Some(_) => on0,
                    None => on0 || on1,
                };
            p.weight != 0
                && !own
                && p.address.is_none_or(|a| {
                    // IPv4 goes over IPv6 neighbours as well (RFC 8950).
                    (a.is_ipv6() || prefix.addr().is_ipv4())
                        && !a.is_unspecified()
                        && a != IpAddr::from([255, 255, 255, 255])
                })
        })
    }

    /// Whether a route leads over loop1 to this address, which then cannot be its own.
    fn is_next_hop_on_loop1(&self, a: &str) -> bool {
        let here = |p: &RoutePath| p.interface == Some(2) && p.address == Some(a.parse().unwrap());
        self.routes.values().any(|t| matches!(t, Target::Paths(paths) if paths.iter().any(here)))
    }

    /// Whether a change is wrong whatever routes there are.
    fn wrong(&self, prefix: IpNet, change: &Change, all: &[Target]) -> bool {
        prefix != prefix.trunc()
            || match change {
                Change::Set(t) | Change::Add(t) => !self.right(prefix, &for_host(prefix, &all[*t])),
                Change::DelPaths(_) | Change::Del => false,
            }
    }

    fn change(&mut self, prefix: IpNet, change: &Change, all: &[Target]) -> bool {
        match change {
            Change::Set(t) => {
                self.routes.insert(prefix, for_host(prefix, &all[*t]));
                true
            }
            Change::Del => self.routes.remove(&prefix).is_some(),
            Change::Add(t) | Change::DelPaths(t) => {
                let add = matches!(change, Change::Add(_));
                let Target::Paths(change) = &for_host(prefix, &all[*t]) else {
                    let known = self.routes.get(&prefix).cloned();
                    if add && known.is_none() {
                        self.routes.insert(prefix, for_host(prefix, &all[*t]));
                    } else if !add {
                        self.routes.remove(&prefix);
                    }
                    return if add {
                        known.is_none_or(|k| k == all[*t])
                    } else {
                        known.as_ref() == Some(&all[*t])
                    };
                };
                let mut paths = match self.routes.get(&prefix) {
                    None if add => {
                        self.routes.insert(prefix, for_host(prefix, &all[*t]));
                        return true;
                    }
                    Some(Target::Paths(p)) => p.clone(),
                    _ => return false,
                };
                for c in change {
                    let before = paths.len();
                    paths.retain(|p| !same(p, c));
                    if add {
                        paths.push(*c);
                    } else if paths.len() == before {
                        return false;
                    }
                }
                let target = Target::Paths(paths.clone());
                if add && !self.right(prefix, &target) {
                    return false;
                }
                if paths.is_empty() {
                    self.routes.remove(&prefix);
                } else {
                    self.routes.insert(prefix, target);
                }
                true
            }
        }
    }

    /// Applies a transaction; answers the operation, and the change in it, that is refused.
    fn apply(&mut self, steps: &[Step]) -> Result<(), (usize, usize)> {
        let (all, mut next) = (targets(), self.clone());
        for (index, step) in steps.iter().enumerate() {
            let single;
            let changes = match step {
                Step::Address(on) if next.loop1 == *on => return Err((index, 0)),
                Step::Address(true) if next.is_next_hop_on_loop1("10.0.1.1") => return Err((index, 0)),
                Step::Address(on) => {
                    next.loop1 = *on;
                    continue;
                }
                Step::Neighbor(on) if !on && !next.neighbor => return Err((index, 0)),
                Step::Neighbor(on) => {
                    next.neighbor = *on;
                    continue;
                }
                Step::Batch(changes) => changes,
                Step::Single(p, c) => {
                    single = vec![(*p, c.clone())];
                    &single
                }
            };
            let prefix = |p: usize| net(PREFIXES[p]);
            if let Some(at) = changes.iter().position(|(p, c)| next.wrong(prefix(*p), c, &all)) {
                return Err((index, at));
            }
            for (at, (p, c)) in changes.iter().enumerate() {
                if !next.change(prefix(*p), c, &all) {
                    return Err((index, at));
                }
            }
        }
        *self = next;
        Ok(())
    }

    /// Routes by prefix and source, the best source first.
    fn all(&self) -> BTreeMap<IpNet, BTreeMap<Source, Target>> {
        let mut all: BTreeMap<IpNet, BTreeMap<Source, Target>> = BTreeMap::new();
        let mut add = |p: &str, s, t| all.entry(net(p)).or_default().insert(s, t);
        add("10.0.0.1/32", Source::Interface, Target::Local(1));
        add("10.0.0.0/24", Source::Interface, Target::Glean(1));
        add("10.0.0.0/32", Source::Interface, Target::Broadcast);
        add("10.0.0.255/32", Source::Interface, Target::Broadcast);
        add("2001:db8::1/128", Source::Interface, Target::Local(1));
        add("2001:db8::/64", Source::Interface, Target::Glean(1));
        add("2001:db8::/128", Source::Interface, Target::Local(1));
        if self.loop1 {
            add("10.0.1.1/32", Source::Interface, Target::Local(2));
            add("10.0.1.0/24", Source::Interface, Target::Glean(2));
            add("10.0.1.0/32", Source::Interface, Target::Broadcast);
            add("10.0.1.255/32", Source::Interface, Target::Broadcast);
        }
        if self.neighbor {
            add("10.0.0.2/32", Source::Neighbor, Target::Neighbor(1, NEIGHBOR.parse().unwrap()));
        }
        for (p, t) in &self.routes {
            all.entry(*p).or_default().insert(Source::Static, t.clone());
        }
        all
    }
}

fn ops(steps: &[Step]) -> Vec<Op> {
    let all = targets();
    let single = |p: usize, c: &Change| {
        let prefix = net(PREFIXES[p]);
        match (c, c.target().map(|t| all[t].clone())) {
            (Change::Set(_), Some(target)) => Op::SetRoute { table: 0, prefix, target },
            (Change::Add(_), Some(Target::Paths(p))) if p.len() == 1 => {
                Op::AddPath { table: 0, prefix, path: p[0] }
            }
            (Change::DelPaths(_), Some(Target::Paths(p))) if p.len() == 1 => {
                Op::DelPath { table: 0, prefix, path: p[0] }
            }
            (Change::Del, _) => Op::DelRoute { table: 0, prefix },
            _ => Op::Routes(batch(&[(p, c.clone())], &all)),
        }
    };
    let name = || "loop0".to_string();
    let address: IpAddr = NEIGHBOR.parse().unwrap();
    let of = |s: &Step| match s {
        Step::Batch(changes) => Op::Routes(batch(changes, &all)),
        Step::Single(p, c) => single(*p, c),
        Step::Address(true) => Op::AddAddress { name: "loop1".into(), net: net(LOOP1) },
        Step::Address(false) => Op::DelAddress { name: "loop1".into(), net: net(LOOP1) },
        Step::Neighbor(true) => {
            Op::SetNeighbor { name: name(), address, mac: "02:00:00:00:00:22".parse().unwrap() }
        }
        Step::Neighbor(false) => Op::DelNeighbor { name: name(), address },
    };
    steps.iter().map(of).collect()
}

impl Change {
    fn target(&self) -> Option<usize> {
        match self {
            Change::Set(t) | Change::Add(t) | Change::DelPaths(t) => Some(*t),
            Change::Del => None,
        }
    }
}

fn batch(changes: &[(usize, Change)], all: &[Target]) -> RouteBatch {
    let mut b = RouteBatch::new();
    for (p, c) in changes {
        let prefix = net(PREFIXES[*p]);
        let id = b.target(all[c.target().unwrap_or(0)].clone());
        match c {
            Change::Set(_) => b.set(prefix, id),
            Change::Add(_) => b.add(prefix, id),
            Change::DelPaths(_) => b.del_paths(prefix, id),
            Change::Del => b.del(prefix),
        }
    }
    b
}

/// Label routes that are there always, and their groups.
static OF_LABELS: std::sync::LazyLock<(u32, usize)> = std::sync::LazyLock::new(|| {
    let mut r = router();
    r.clear();
    let groups = r.groups();
    r.shutdown();
    assert!(groups.len() < 5, "{groups:?}");
    (groups.iter().map(|g| g.routes).sum(), groups.len())
});

/// Everything that can be seen of the routes is as the model has it.
fn check(r: &Router, model: &Model) {
    let all = model.all();
    let mut users: BTreeMap<(Source, bool, Target), u32> = BTreeMap::new();
    for (p, sources) in &all {
        for s in [Source::Interface, Source::Static, Source::Neighbor] {
            assert_eq!(r.route_of(*p, s).as_ref(), sources.get(&s), "{p} {s:?}");
        }
        for (s, t) in sources {
            *users.entry((*s, p.addr().is_ipv6(), t.clone())).or_default() += 1;
        }
    }
    for (table, v6) in [(RouteTable::V4, false), (RouteTable::V6, true)] {
        let listed: Vec<IpNet> = r.routes(table).map(|i| i.prefix).collect();
        let want: BTreeSet<IpNet> = all.keys().filter(|p| p.addr().is_ipv6() == v6).copied().collect();
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), want);
        assert_eq!(r.route_count(table), want.len());
        for i in r.routes(table) {
            let hidden: Vec<Source> = all[&i.prefix].keys().skip(1).copied().collect();
            let shown: Vec<Source> = i.hidden.iter().map(|e| e.source).collect();
            assert_eq!(shown, hidden, "{}", i.prefix);
        }
    }
    // No group is left over, none is shared by what is not equal, and each knows its routes.
    let (groups, of_labels) = (r.groups(), *OF_LABELS);
    assert_eq!(groups.iter().map(|g| g.routes).sum::<u32>(), users.values().sum::<u32>() + of_labels.0);
    assert_eq!(groups.len(), users.len() + of_labels.1);
    for p in all.keys() {
        for a in [p.network(), p.broadcast()] {
            let of = |q: &IpNet| q.contains(&a) && q.addr().is_ipv6() == a.is_ipv6();
            let want = all.iter().filter(|(q, _)| of(q)).max_by_key(|(q, _)| q.prefix_len());
            let want = want.and_then(|(_, s)| s.values().next());
            assert_eq!(r.lookup(a).map(|g| g.target).as_ref(), want, "{a}");
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let n = targets().len();
    // Wrong ones are rare, so that long batches get somewhere.
    let target = prop_oneof![12 => 0..n - 3, 1 => n - 3..n];
    prop_oneof![
        4 => target.clone().prop_map(Change::Set),
        4 => target.clone().prop_map(Change::Add),
        1 => target.prop_map(Change::DelPaths),
        1 => Just(Change::Del),
    ]
}

fn place() -> impl Strategy<Value = usize> {
    prop_oneof![40 => 0..PREFIXES.len() - 2, 1 => PREFIXES.len() - 2..PREFIXES.len()]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop::collection::vec((place(), change()), 0..12).prop_map(Step::Batch),
        2 => (place(), change()).prop_map(|(p, c)| Step::Single(p, c)),
        1 => any::<bool>().prop_map(Step::Address),
        1 => any::<bool>().prop_map(Step::Neighbor),
    ]
}

#[test]
fn a_transaction_is_applied_as_a_whole_or_not_at_all() {
    let (taken, refused) = (Cell::new(0), Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    let transactions = prop::collection::vec(prop::collection::vec(step(), 1..4), 1..8);
    let result = runner.run(&transactions, |transactions| {
        let (mut r, mut model) = (router(), Model::default());
        for steps in transactions {
            let want = model.apply(&steps);
            let before = r.published();
            let got = r.commit(ops(&steps)).map_err(|e| (e.index, e.route, e.message));
            if steps.len() == 1 && want.is_err() {
                let routes = (before.routes, r.published().routes);
                prop_assert_eq!(routes.0, routes.1, "workers saw routes that were refused");
            }
            prop_assert_eq!(got.clone().map_err(|(i, c, _)| (i, c)), want, "{:?}", got);
            let count = if want.is_ok() { &taken } else { &refused };
            count.set(count.get() + 1);
            check(&r, &model);
        }
        r.clear();
        prop_assert_eq!(
            (r.groups().len(), r.route_count(RouteTable::V4), r.route_count(RouteTable::V6)),
            (OF_LABELS.1, 0, 0)
        );
        let warnings: Vec<String> = r.take_log().into_iter().filter(|l| l.warn).map(|l| l.text).collect();
        prop_assert_eq!(warnings, [""; 0]);
        r.shutdown();
        Ok(())
    });
    result.unwrap();
    // Both happen often, or the test says little.
    assert!(taken.get() > 100 && refused.get() > 100, "{taken:?} taken, {refused:?} refused");
}

/// Runs lines until one is refused, one by one or with as many at once as can be; answers how many were applied, and
/// the refusal.
fn run_lines(
    r: &mut Router,
    registry: &Registry<Router>,
    lines: &[&str],
    at_once: bool,
) -> (usize, Option<String>) {
    let mut n = 0;
    while n < lines.len() {
        let taken = if at_once { net::fib::lines::run(r, &lines[n..]) } else { 0 };
        n += taken;
        if taken == 0 {
            if let Err(e) = registry.run(r, Access::Write, lines[n]) {
                return (n, Some(e.render(lines[n])));
            }
            n += 1;
        }
    }
    (n, None)
}

fn line() -> impl Strategy<Value = String> {
    let verb = prop::sample::select(vec!["add", "add", "add", "set", "del"]);
    let prefix = prop::sample::select(vec![
        "10.0.0.0/8",
        "10.0.0.0/24",
        "10.2.0.0/16",
        "0.0.0.0/0",
        "2001:db8::/32",
        "::/0",
    ]);
    let paths = prop::sample::select(vec![
        "via 10.0.0.9",
        "via 10.0.0.9 loop0 weight 3",
        "via 10.0.0.8",
        "via 10.0.0.9 via 10.0.0.8 weight 2 via 10.0.0.9",
        "via loop0",
        "via loop1",
        "via 2001:db8::9 loop0",
        "via drop",
        "via unreachable",
        // Wrong for all: no such interface, no connected prefix, the router's own address.
        "via 10.0.0.9 loop7",
        "via 10.77.0.1",
        "via 10.0.0.1",
    ]);
    let bare = (Just("del"), prefix.clone()).prop_map(|(v, p)| format!("ip route {v} {p}"));
    let route = (verb, prefix, paths).prop_map(|(v, p, paths)| format!("ip route {v} {p} {paths}"));
    let other = prop::sample::select(vec![
        "",
        "# a comment",
        "ip route add 10.3.0.0/16 via \"10.0.0.9\"",
        "set interface state loop1 down",
        "ip rou a 10.4.0.0/16 via loop1 w 2",
    ]);
    prop_oneof![12 => route, 1 => bare, 1 => other.prop_map(String::from)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn lines_run_at_once_do_what_they_do_one_by_one(lines in prop::collection::vec(line(), 1..40)) {
        let registry = Registry::new(net::commands::all()).unwrap();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (mut a, mut b) = (router(), router());
        prop_assert_eq!(run_lines(&mut a, &registry, &lines, true), run_lines(&mut b, &registry, &lines, false));
        for line in ["show ip fib", "show ip6 fib"] {
            let shown = |r: &mut Router| {
                let routes = r.routes(RouteTable::V4).chain(r.routes(RouteTable::V6));
                let what = |group| r.group(group).map(|g| (g.source, g.rank, g.target));
                let hidden = |i: &RouteInfo| i.hidden.iter().map(|e| what(e.group)).collect::<Vec<_>>();
                let routes: Vec<_> = routes.map(|i| (i.prefix, what(i.group), hidden(&i))).collect();
                (registry.run(r, Access::Write, line).unwrap().to_text().lines().count(), routes)
            };
            prop_assert_eq!(shown(&mut a), shown(&mut b));
        }
        prop_assert_eq!(a.groups().len(), b.groups().len());
        a.shutdown();
        b.shutdown();
    }
}

/// Routes of both families over loop0, the n-th of them different from all others, with `hops` next hops.
fn listed(from: u32, n: u32, hops: u32) -> Vec<(IpNet, Target)> {
    let route = |i: u32| {
        let (mixed, hop) = (i.wrapping_mul(0x9e37_79b1), i % hops);
        let (prefix, address): (IpNet, IpAddr) = if i.is_multiple_of(3) {
            let a = 0x2400_u128 << 112 | u128::from(mixed) << 80;
            (ipnet::Ipv6Net::new(a.into(), 48).unwrap().into(), "2001:db8::9".parse().unwrap())
        } else {
            let a = [10, 3, (hop >> 8) as u8, hop as u8];
            (ipnet::Ipv4Net::new((0x0b00_0000 | mixed & 0x7f_ffff).into(), 32).unwrap().into(), a.into())
        };
        let weight = 1 + (hop % 255) as u8;
        (
            prefix,
            Target::Paths(vec![RoutePath {
                address: Some(address),
                interface: Some(1),
                table: None,
                weight,
                ..Default::default()
            }]),
        )
    };
    (from..from + n).map(route).collect()
}

fn many(from: u32, n: u32, hops: u32) -> RouteBatch {
    let mut b = RouteBatch::new();
    for (prefix, target) in listed(from, n, hops) {
        let id = b.target(target);
        b.set(prefix, id);
    }
    b
}

/// Prefixes and targets of all routes, in order.
fn all(r: &Router) -> Vec<(IpNet, Source, Target)> {
    let routes = r.routes(RouteTable::V4).chain(r.routes(RouteTable::V6));
    routes.filter_map(|i| r.group(i.group).map(|g| (i.prefix, g.source, g.target))).collect()
}

#[test]
fn what_does_not_fit_is_refused_as_a_whole() {
    let limit = 1 << 20;
    let mut r = limited(Some(limit));
    r.commit(vec![Op::Routes(many(0, 300, 7))]).unwrap();
    let before = all(&r);
    // In one batch, and after other changes of the same transaction.
    let e = r.commit(vec![Op::Routes(many(1000, 20_000, 7))]).unwrap_err();
    assert!(
        e.message.contains("no memory is left")
            && e.message.contains("'memory-mb' in 'quiver: routes:' allows 1.0"),
        "{e}"
    );
    assert!(e.fits > Some(100), "{e:?}");
    assert_eq!(all(&r), before);
    let mut gone = RouteBatch::new();
    before.iter().filter(|b| b.1 == Source::Static).for_each(|b| gone.del(b.0));
    let address = Op::AddAddress { name: "loop1".into(), net: net(LOOP1) };
    let e = r.commit(vec![Op::Routes(gone.clone()), address, Op::Routes(many(1000, 20_000, 7))]).unwrap_err();
    assert_eq!((e.index, all(&r)), (2, before.clone()));
    // With a next hop for each route the groups count as well: fewer fit.
    let fits = |hops| {
        let mut r = limited(Some(limit));
        let e = r.commit(vec![Op::Routes(many(0, 60_000, hops))]).unwrap_err();
        r.shutdown();
        e.fits.unwrap()
    };
    assert!(fits(60_000) * 5 < fits(1) * 4, "{} {}", fits(60_000), fits(1));
    // What is full takes replacements, addresses and neighbours, and gives room when something goes.
    r.commit(vec![Op::Routes(many(0, 300, 7))]).unwrap();
    r.commit(vec![Op::AddAddress { name: "loop1".into(), net: net(LOOP1) }]).unwrap();
    let (address, mac) = (NEIGHBOR.parse().unwrap(), "02:00:00:00:00:22".parse().unwrap());
    r.commit(vec![Op::SetNeighbor { name: "loop0".into(), address, mac }]).unwrap();
    assert_eq!(r.lookup(address).map(|g| g.source), Some(Source::Neighbor));
    let full = all(&r).len();
    r.commit(vec![Op::Routes(gone)]).unwrap();
    r.tick();
    r.commit(vec![Op::Routes(many(0, 100, 7))]).unwrap();
    assert_eq!(all(&r).len(), full - 200);
    assert_eq!(r.take_log().into_iter().filter(|l| l.warn).map(|l| l.text).collect::<Vec<_>>(), [""; 0]);
    r.shutdown();
}

/// Random batches against a limit: each is there as a whole or not at all, for control and for workers.
#[test]
fn a_limit_leaves_whole_transactions() {
    let (taken, refused) = (Cell::new(0), Cell::new(0));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(40));
    let step = (0u32..4000, 1u32..1500, 1u32..400, any::<bool>());
    let result =
        runner.run(&(300_000usize..4_000_000, prop::collection::vec(step, 1..12)), |(limit, steps)| {
            let mut r = limited(Some(limit));
            let first = all(&r);
            let mut model: BTreeMap<IpNet, Target> = BTreeMap::new();
            for (from, n, hops, remove) in steps {
                let mut batch = many(from, n, hops);
                let mut next = model.clone();
                next.extend(listed(from, n, hops));
                if remove {
                    model.keys().for_each(|p| batch.del(*p));
                    model.keys().for_each(|p| drop(next.remove(p)));
                }
                let result = r.commit(vec![Op::Routes(batch)]);
                let count = if result.is_ok() { &taken } else { &refused };
                count.set(count.get() + 1);
                match result {
                    Ok(()) => model = next,
                    Err(e) => prop_assert!(e.message.contains("no memory is left"), "{}", e),
                }
                let shown = all(&r);
                let statics = shown.iter().filter(|l| l.1 == Source::Static).map(|l| (l.0, l.2.clone()));
                prop_assert_eq!(&statics.collect::<BTreeMap<_, _>>(), &model);
                prop_assert_eq!(shown.len(), model.len() + first.len());
                for (p, t) in &model {
                    prop_assert_eq!(r.lookup(p.addr()).map(|g| g.target), Some(t.clone()));
                }
                r.tick();
            }
            r.shutdown();
            Ok(())
        });
    result.unwrap();
    assert!(taken.get() > 20 && refused.get() > 20, "{taken:?} taken, {refused:?} refused");
}

/// Of a route's MTU, that of routes on the way, and the interface's, the least counts; other routes to the same neighbour have none of it.
#[test]
fn the_mtu_of_a_route_is_that_of_its_own_packets() {
    let mut r = router();
    let via = |a: &str, interface, mtu| Target::Paths(vec![RoutePath { mtu, ..path(a, interface, 1) }]);
    let set = |prefix: &str, target| Op::SetRoute { table: 0, prefix: net(prefix), target };
    r.commit(vec![
        set("20.0.0.0/16", via("10.0.0.9", Some(1), 0)),
        set("20.1.0.0/16", via("10.0.0.9", Some(1), 1300)),
        set("20.2.0.0/16", via("10.0.0.9", None, 9300)),
        set("20.3.0.0/16", via("20.1.0.1", None, 0)),
        set("20.4.0.0/16", via("20.1.0.1", None, 1200)),
        set("20.5.0.0/16", via("20.1.0.1", None, 1400)),
        set("20.6.0.0/16", via("2001:db8::9", Some(1), 1290)),
        set("2001:db8:6::/48", via("2001:db8::9", Some(1), 1280)),
    ])
    .unwrap();
    let mtus = |r: &Router| {
        let of = |a: &str| {
            let group = r.lookup(a.parse().unwrap()).unwrap();
            r.adjacency(group.paths[0].entry.adj).unwrap().mtu
        };
        let v4: Vec<u16> = (0..7).map(|n| of(&format!("20.{n}.0.1"))).collect();
        (v4, of("2001:db8:6::1"), of("10.0.0.9"))
    };
    let whole = mtus(&r).2;
    assert!(whole > 1400);
    assert_eq!(mtus(&r).0, [whole, 1300, whole.min(9300), 1300, 1200, 1300, 1290]);
    assert_eq!(mtus(&r).1, 1280);
    // Onto a link with many neighbours, the MTU of a route does not apply.
    let onto = RoutePath { interface: Some(1), mtu: 1300, ..RoutePath::default() };
    r.commit(vec![set("20.9.0.0/16", Target::Paths(vec![onto]))]).unwrap();
    let group = r.lookup("20.9.0.1".parse().unwrap()).unwrap();
    assert_eq!(r.adjacency(group.paths[0].entry.adj).unwrap().mtu, whole);
    // Neighbours that are found, and go, have all of them.
    let mac = "02:00:00:00:00:09".parse().unwrap();
    for address in ["10.0.0.9", "2001:db8::9"] {
        let (name, address) = ("loop0".into(), address.parse().unwrap());
        r.commit(vec![Op::SetNeighbor { name, address, mac }]).unwrap();
    }
    let states = |r: &Router| {
        let all = r.adjacency_list();
        let of =
            all.iter().filter(|a| ["10.0.0.9", "2001:db8::9"].contains(&&*a.adjacency.next_hop.to_string()));
        of.map(|a| (a.adjacency.mtu, format!("{:?}", a.adjacency.state))).collect::<BTreeSet<_>>()
    };
    assert!(states(&r).iter().all(|(_, state)| state == "Complete"), "{:?}", states(&r));
    assert!(states(&r).len() >= 4);
    r.commit(vec![Op::SetMtu { name: "loop0".into(), mtu: 1285 }]).unwrap();
    assert_eq!(mtus(&r).0, [1285, 1285, 1285, 1285, 1200, 1285, 1285]);
    // What cannot be is refused.
    let refused = |r: &mut Router, prefix, target| r.commit(vec![set(prefix, target)]).unwrap_err().message;
    assert!(refused(&mut r, "20.7.0.0/16", via("10.0.0.9", None, 67)).contains("68 to 65535"));
    assert!(refused(&mut r, "2001:db8:7::/48", via("2001:db8::9", None, 1279)).contains("1280 to 65535"));
    let labels = net::labels::OutLabels::new(&[100]).unwrap();
    let labelled = RoutePath { mtu: 71, labels, ..path("10.0.0.9", Some(1), 1) };
    assert!(refused(&mut r, "20.7.0.0/16", Target::Paths(vec![labelled])).contains("72 to 65535"));
    let into = Target::Paths(vec![RoutePath { table: Some(7), mtu: 1400, ..RoutePath::default() }]);
    assert!(refused(&mut r, "20.8.0.0/16", into).contains("once more"));
    r.shutdown();
}
