//! Routes of one prefix from several sources against a naive model: which one packets take, what the others are, and what
//! a sweep leaves.
#![allow(clippy::unwrap_used)]

use graph::{PoolConfig, PoolMemory};
use ipnet::IpNet;
use net::router::{
    Op, PcapConfig, Rank, RouteBatch, RoutePath, RouteSource, RouteTable, Router, RouterConfig, Source,
    SourcePreference, Sweep, Target,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn router() -> Router {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    r.commit(vec![
        Op::CreateLoopback { instance: Some(0), mac: None },
        Op::CreateLoopback { instance: Some(1), mac: None },
        Op::SetState { name: "loop0".into(), up: true },
        Op::SetState { name: "loop1".into(), up: true },
        Op::AddAddress { name: "loop0".into(), net: net("10.0.0.1/24") },
        Op::AddAddress { name: "loop0".into(), net: net("2001:db8::1/64") },
        Op::CreateTable { table: RouteTable { v6: false, id: 7 }, name: None },
        Op::CreateTable { table: RouteTable { v6: true, id: 7 }, name: None },
    ])
    .unwrap();
    r
}

const NAMES: [(&str, u8); 3] = [("kernel:bird", 20), ("kernel:zebra", 110), ("api:fleet", 1)];

/// Names of which a preference is said.
const SAID: [&str; 6] = ["connected", "static", "kernel", "kernel:bird", "api:fleet", "bgp"];

const PREFIXES: [&str; 9] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.0.1/32",
    "10.0.0.2/32",
    "10.0.1.0/24",
    "10.9.0.0/16",
    "2001:db8::/32",
    "2001:db8::/64",
];

fn targets() -> Vec<Target> {
    let via = |a: &str| RoutePath { address: Some(a.parse().unwrap()), ..Default::default() };
    vec![
        Target::Drop,
        Target::Unreachable,
        Target::Paths(vec![RoutePath { interface: Some(1), ..Default::default() }]),
        Target::Paths(vec![RoutePath { interface: Some(2), weight: 3, ..Default::default() }]),
        // Refused, as it is the router's own address.
        Target::Paths(vec![RoutePath { interface: Some(1), ..via("10.0.0.1") }]),
    ]
}

#[derive(Clone, Debug)]
enum Change {
    Set(usize),
    Del,
}

/// One change: prefix, preference or that of the source, metric.
type Line = (usize, Option<u8>, u32, Change);

#[derive(Clone, Debug)]
enum Step {
    /// Changes of a source's routes, of table 7 or 0; the source behind the last is the operator.
    Batch {
        source: usize,
        other: bool,
        lines: Vec<Line>,
    },
    Mark(usize),
    Sweep(usize),
    Address(bool),
    Neighbor(bool),
    Preference(usize, u8),
    /// The operator says the preference of a source, or no more.
    Said(usize, Option<u8>),
    /// Loop1 goes up or down.
    State(bool),
}

type Key = (u32, IpNet);

/// All routes by table and prefix, each list in any order; and who is marked.
#[derive(Clone, Default)]
struct Model {
    routes: BTreeMap<Key, Vec<(Source, Rank, Target, u32)>>,
    preferences: Vec<u8>,
    said: BTreeMap<&'static str, u8>,
    sources: Vec<RouteSource>,
    generations: Vec<u32>,
    address: bool,
    neighbor: bool,
    down: bool,
}

impl Model {
    /// The preference by which a route is chosen.
    fn preference(&self, rank: Rank, source: Source, target: &Target) -> u8 {
        let said = |names: &[&str]| names.iter().find_map(|n| self.said.get(n)).copied();
        let of = match source {
            Source::Interface if matches!(target, Target::Glean(_)) => said(&["connected"]),
            Source::Static if rank.preference == 1 => said(&["static"]),
            Source::Runtime(s) => {
                let n = self.sources.iter().position(|k| *k == s).unwrap();
                let own = self.preferences[n] == rank.preference;
                own.then(|| said(&[NAMES[n].0, NAMES[n].0.split(':').next().unwrap()])).flatten()
            }
            _ => None,
        };
        of.unwrap_or(rank.preference)
    }

    /// Whether what decides on the neighbour, its own host route left out, leads onto its link.
    fn attaches_neighbor(&self) -> bool {
        let covering = ["10.0.0.2/32", "10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0"].map(|p| (0, net(p)));
        let over = RoutePath { interface: Some(1), ..Default::default() };
        match covering.iter().find_map(|key| self.sorted_but(key, false).into_iter().next()) {
            Some((_, _, Target::Glean(1))) => true,
            Some((_, _, Target::Paths(paths))) => paths == [over],
            _ => false,
        }
    }

    /// What packets take, and what is hidden.
    fn sorted(&self, key: &Key) -> Vec<(Rank, Source, Target)> {
        let connected_decides = !self.said.contains_key("connected");
        self.sorted_but(key, self.neighbor && (connected_decides || self.attaches_neighbor()))
    }

    fn sorted_but(&self, key: &Key, neighbor: bool) -> Vec<(Rank, Source, Target)> {
        let mut list: Vec<_> =
            self.routes.get(key).into_iter().flatten().map(|(s, r, t, _)| (*r, *s, t.clone())).collect();
        let mut add = |s, r, t| list.push((r, s, t));
        let connected = Rank::CONNECTED;
        let (table, prefix) = key;
        if *table == 0 {
            match prefix.to_string().as_str() {
                "10.0.0.0/24" | "2001:db8::/64" => add(Source::Interface, connected, Target::Glean(1)),
                "10.0.0.1/32" => add(Source::Interface, connected, Target::Local(1)),
                "10.0.1.0/24" if self.address => add(Source::Interface, connected, Target::Glean(2)),
                "10.0.0.2/32" if neighbor => {
                    let target = Target::Neighbor(1, "10.0.0.2".parse().unwrap());
                    add(Source::Neighbor, Rank::NEIGHBOR, target);
                }
                _ => {}
            }
        }
        list.sort_by_key(|(r, s, t)| (self.preference(*r, *s, t), r.metric, *s, *r));
        // The best that leads somewhere comes first.
        let lost = |t: &Target| matches!(t, Target::Paths(p) if self.down && p.iter().all(|p| p.interface == Some(2)));
        if let Some(at) = list.iter().position(|(_, _, t)| !lost(t)) {
            list[..=at].rotate_right(1);
        }
        list
    }
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

fn apply(r: &mut Router, model: &mut Model, sources: &[RouteSource], step: &Step) {
    match step {
        Step::Batch { source, other, lines } => {
            let table = if *other { 7 } else { 0 };
            let (whose, mut batch, preference, generation) = match sources.get(*source) {
                Some(s) => (
                    Source::Runtime(*s),
                    r.route_batch(*s, table),
                    model.preferences[*source],
                    model.generations[*source],
                ),
                None => (Source::Static, RouteBatch::in_table(table), 1, 0),
            };
            let (mut next, mut refused) = (model.clone(), None);
            for (at, (prefix, wanted, metric, change)) in lines.iter().enumerate() {
                let rank = Rank { preference: wanted.unwrap_or(preference), metric: *metric };
                let prefix = net(PREFIXES[*prefix]);
                let list = next.routes.entry((table, prefix)).or_default();
                let known = list.iter().position(|(s, r, ..)| (*s, *r) == (whose, rank));
                let gone = known.map(|at| list.remove(at));
                match change {
                    Change::Set(t) => {
                        let target = targets()[*t].clone();
                        // An IPv6 route to an IPv4 neighbour, or one to the router's own address.
                        let host = for_host(prefix, &target);
                        let own = match &host {
                            Target::Paths(p) if p[0].address == Some([10, 0, 0, 1].into()) => {
                                prefix.addr().is_ipv6() || p[0].interface == Some(1)
                            }
                            _ => false,
                        };
                        if own && refused.is_none() {
                            refused = Some(at);
                        }
                        list.push((whose, rank, host, generation));
                        let target = batch.ranked(rank, target);
                        batch.set(prefix, target);
                    }
                    Change::Del => {
                        batch.del_ranked(prefix, rank);
                        if gone.is_none() && whose == Source::Static && refused.is_none() {
                            refused = Some(at);
                        }
                    }
                }
            }
            match r.commit(vec![Op::Routes(batch)]) {
                Ok(()) => {
                    assert_eq!(refused, None, "{step:?}");
                    *model = next;
                }
                Err(e) => assert!(refused.is_some(), "{step:?}: {e}"),
            }
        }
        Step::Mark(n) => {
            r.mark_routes(sources[*n]);
            model.generations[*n] += 1;
        }
        Step::Sweep(n) => {
            let mut at = Some(Sweep::default());
            while let Some(here) = at {
                at = r.sweep_routes(sources[*n], here).unwrap();
            }
            let (whose, generation) = (Source::Runtime(sources[*n]), model.generations[*n]);
            for list in model.routes.values_mut() {
                list.retain(|(s, _, _, g)| *s != whose || *g == generation);
            }
        }
        Step::Address(on) if *on != model.address => {
            let (name, net) = ("loop1".to_owned(), net("10.0.1.1/24"));
            let op = if *on { Op::AddAddress { name, net } } else { Op::DelAddress { name, net } };
            r.commit(vec![op]).unwrap();
            model.address = *on;
        }
        Step::Neighbor(on) if *on != model.neighbor => {
            let (name, address) = ("loop0".to_owned(), "10.0.0.2".parse().unwrap());
            let mac = "02:00:00:00:00:22".parse().unwrap();
            let op =
                if *on { Op::SetNeighbor { name, address, mac } } else { Op::DelNeighbor { name, address } };
            r.commit(vec![op]).unwrap();
            model.neighbor = *on;
        }
        Step::Preference(n, preference) => {
            assert_eq!(r.route_source(NAMES[*n].0, *preference).unwrap(), sources[*n]);
            model.preferences[*n] = *preference;
        }
        Step::Said(n, preference) => {
            let op = SourcePreference { source: SAID[*n].into(), preference: *preference };
            r.commit(vec![op.into()]).unwrap();
            match preference {
                Some(p) => _ = model.said.insert(SAID[*n], *p),
                None => _ = model.said.remove(SAID[*n]),
            }
        }
        Step::State(up) => {
            r.commit(vec![Op::SetState { name: "loop1".into(), up: *up }]).unwrap();
            model.down = !up;
        }
        Step::Address(_) | Step::Neighbor(_) => {}
    }
}

fn check(r: &Router, model: &Model, sources: &[RouteSource]) {
    let mut counted: BTreeMap<Source, u64> = BTreeMap::new();
    for table in [0, 7] {
        for prefix in PREFIXES.map(net) {
            let at = RouteTable::of(prefix.addr(), table);
            let want = model.sorted(&(table, prefix));
            let found = r.routes(at).find(|i| i.prefix == prefix);
            let of = |group| {
                let g = r.group(group).unwrap();
                (g.rank, g.source, g.target)
            };
            let shown: Vec<_> =
                found.iter().flat_map(|i| r.routes_of_prefix(i)).map(|e| of(e.group)).collect();
            assert_eq!(shown, want, "{table} {prefix}");
            for (_, source, _) in &want {
                *counted.entry(*source).or_default() += 1;
            }
            // What workers read.
            let addr = prefix.addr();
            let covers = |p: &IpNet| p.contains(&addr) && p.addr().is_ipv6() == addr.is_ipv6();
            let best = PREFIXES.map(net).into_iter().filter(covers).max_by_key(|p| {
                (if model.sorted(&(table, *p)).is_empty() { 0 } else { 1 + p.prefix_len() }, p.prefix_len())
            });
            let want = best.and_then(|p| model.sorted(&(table, p)).first().cloned());
            // The network addresses of loop0 and loop1 are nobody's, and those of IPv6 anybody's.
            let special = ["10.0.0.0", "10.0.1.0", "2001:db8::"].contains(&addr.to_string().as_str());
            if !special || table == 7 {
                let got = r.lookup_in(table, addr).map(|g| (g.rank, g.source, g.target));
                assert_eq!(got, want, "{table} {addr}");
            }
        }
    }
    for info in r.route_sources() {
        let n = sources.iter().position(|s| *s == info.source).unwrap();
        let whose = Source::Runtime(info.source);
        let all = || model.routes.iter().flat_map(|(k, l)| l.iter().map(move |e| (k, e)));
        let own: BTreeSet<_> = all().filter(|(_, e)| e.0 == whose).map(|((t, p), e)| (*t, *p, e.1)).collect();
        let stale = all().filter(|(_, e)| e.0 == whose && e.3 != model.generations[n]).count();
        assert_eq!((info.name.as_str(), info.preference), (NAMES[n].0, model.preferences[n]));
        assert_eq!((info.routes, info.stale), (own.len() as u64, stale as u64), "{}", info.name);
        let tables = [(false, 0), (true, 0), (false, 7), (true, 7)];
        let listed = tables.into_iter().flat_map(|(v6, id)| {
            r.routes_of_source(whose, RouteTable { v6, id }, None).map(move |(p, e)| (id, p, e.rank))
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), own);
    }
}

fn step() -> impl Strategy<Value = Step> {
    let change = prop_oneof![20 => (0..4usize).prop_map(Change::Set), 1 => Just(Change::Set(4)), 6 => Just(Change::Del)];
    let preference = prop_oneof![3 => Just(None), 1 => Just(Some(5)), 1 => Just(Some(200))];
    let line = (0..PREFIXES.len(), preference, prop_oneof![2 => Just(0u32), 1 => Just(7)], change);
    let batch = (0..4usize, prop::bool::weighted(0.2), prop::collection::vec(line, 1..8));
    prop_oneof![
        12 => batch.prop_map(|(source, other, lines)| Step::Batch { source, other, lines }),
        1 => (0..3usize).prop_map(Step::Mark),
        1 => (0..3usize).prop_map(Step::Sweep),
        1 => any::<bool>().prop_map(Step::Address),
        1 => any::<bool>().prop_map(Step::Neighbor),
        2 => any::<bool>().prop_map(Step::State),
        1 => (0..3usize, 1u8..=254).prop_map(|(n, p)| Step::Preference(n, p)),
        3 => (0..SAID.len(), prop::option::weighted(0.7, prop_oneof![1u8..=254, Just(1), Just(5), Just(20)]))
            .prop_map(|(n, p)| Step::Said(n, p)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn the_best_is_used_and_the_next_takes_over(steps in prop::collection::vec(step(), 1..40)) {
        let mut r = router();
        let before = r.groups().len();
        let sources = NAMES.map(|(name, preference)| r.route_source(name, preference).unwrap());
        let mut model = Model {
            preferences: NAMES.map(|n| n.1).to_vec(), sources: sources.to_vec(), generations: vec![0; 3],
            ..Model::default()
        };
        for step in &steps {
            apply(&mut r, &mut model, &sources, step);
            settle(&mut r);
            check(&r, &model, &sources);
        }
        // Tables go with the routes of all their sources.
        for v6 in [false, true] {
            r.commit(vec![Op::DeleteTable { table: RouteTable { v6, id: 7 } }]).unwrap();
        }
        model.routes.retain(|(table, _), _| *table == 0);
        for source in sources {
            r.mark_routes(source);
            let mut at = Some(Sweep::default());
            while let Some(here) = at {
                at = r.sweep_routes(source, here).unwrap();
            }
            r.remove_route_source(source).unwrap();
            model.routes.values_mut().for_each(|l| l.retain(|e| e.0 != Source::Runtime(source)));
        }
        settle(&mut r);
        check(&r, &model, &[]);
        let statics: Vec<_> = [RouteTable::V4, RouteTable::V6]
            .into_iter().flat_map(|t| { let all: Vec<_> = r.routes(t).collect(); r.removal(t, all) }).collect();
        r.commit(statics).unwrap();
        apply(&mut r, &mut model, &[], &Step::Address(false));
        apply(&mut r, &mut model, &[], &Step::Neighbor(false));
        settle(&mut r);
        prop_assert_eq!(r.groups().len(), before);
        r.shutdown();
    }
}

#[test]
fn names_and_preferences_are_checked() {
    let mut r = router();
    for name in ["", "two words", "static", "interface", "neighbor", &"x".repeat(64)] {
        r.route_source(name, 20).unwrap_err();
    }
    for preference in [0, 255] {
        let e = r.route_source("kernel:bird", preference).unwrap_err();
        assert!(e.message.contains("1 to 254"), "{e}");
    }
    let source = r.route_source("kernel:bird", 20).unwrap();
    let mut batch = r.route_batch(source, 0);
    for preference in [20, 0] {
        let target = batch.ranked(Rank { preference, metric: 0 }, Target::Drop);
        batch.set(net("10.9.0.0/16"), target);
    }
    let e = r.commit(vec![Op::Routes(batch)]).unwrap_err();
    assert!(e.route == 1 && e.message.contains("route 10.9.0.0/16: preference 0"), "{e}");
    assert!(r.route_in(0, net("10.9.0.0/16"), Source::Runtime(source)).is_none());
    let mut batch = r.route_batch(source, 0);
    let target = batch.target(Target::Drop);
    batch.set(net("10.9.0.0/16"), target);
    r.commit(vec![Op::Routes(batch.clone())]).unwrap();
    let e = r.remove_route_source(source).unwrap_err();
    assert!(e.message.contains("kernel:bird still has 1 routes"), "{e}");
    r.mark_routes(source);
    assert_eq!(r.sweep_routes(source, Sweep::default()).unwrap().map(|_| ()), Some(()));
    r.remove_route_source(source).unwrap();
    let e = r.commit(vec![Op::Routes(batch)]).unwrap_err();
    assert!(e.message.contains("not registered any more"), "{e}");
    r.shutdown();
}

/// A backup takes over when nothing leads to the next hop of the better one, and two routes that need each other gone end.
#[test]
fn next_hops_without_a_way_give_way() {
    let mut r = router();
    let via = |a: &str| {
        let path = RoutePath { address: Some(a.parse().unwrap()), ..Default::default() };
        Target::Paths(vec![path])
    };
    let set = |r: &mut Router, prefix: &str, preference, target: Target| {
        let mut batch = RouteBatch::new();
        let target = batch.ranked(Rank { preference, metric: 0 }, target);
        batch.set(net(prefix), target);
        r.commit(vec![Op::Routes(batch)]).unwrap();
    };
    let used = |r: &Router| r.lookup("10.9.0.1".parse().unwrap()).map(|g| g.rank.preference);
    set(&mut r, "10.9.0.0/16", 1, via("172.16.0.1"));
    set(&mut r, "10.9.0.0/16", 5, via("10.0.0.9"));
    assert_eq!(used(&r), Some(5));
    set(&mut r, "172.16.0.0/16", 1, via("10.0.0.8"));
    assert_eq!(used(&r), Some(1));
    r.commit(vec![Op::SetState { name: "loop0".into(), up: false }]).unwrap();
    assert_eq!(used(&r), Some(1));
    r.commit(vec![Op::SetState { name: "loop0".into(), up: true }]).unwrap();
    r.commit(vec![Op::DelRoute { table: 0, prefix: net("172.16.0.0/16") }]).unwrap();
    assert_eq!(used(&r), Some(5));
    // The better one leads over the backup of its own prefix, and only while that is used.
    set(&mut r, "10.7.0.0/16", 1, via("10.7.0.1"));
    set(&mut r, "10.7.0.0/16", 5, via("10.0.0.9"));
    let log: Vec<_> = r.take_log().into_iter().filter(|l| l.warn).map(|l| l.text).collect();
    assert!(log.len() <= 1, "{log:?}");
    assert!(r.lookup("10.7.0.2".parse().unwrap()).is_some());
    r.shutdown();
}

/// A full table of one source stands in the table alone: no route costs more than a static one.
#[test]
fn a_table_of_one_source_takes_no_more_than_a_static_one() {
    let bytes = |own: bool| {
        let mut r = router();
        let source = r.route_source("kernel:bird", 20).unwrap();
        let mut batch = if own { r.route_batch(source, 0) } else { RouteBatch::new() };
        let target = batch.target(Target::Drop);
        for n in 0..200_000u32 {
            batch.set(
                IpNet::new(std::net::Ipv4Addr::from(0x0b00_0000 + (n << 8)).into(), 24).unwrap(),
                target,
            );
        }
        r.commit(vec![Op::Routes(batch)]).unwrap();
        let bytes = r.route_bytes();
        // Marked and set again it is a group of another generation, and nothing else.
        r.mark_routes(source);
        r.shutdown();
        bytes
    };
    assert_eq!(bytes(true), bytes(false));
}

/// An interface goes though a daemon's routes lead over it: they lose that way at once, and are the source's to change.
#[test]
fn an_interface_goes_under_routes_of_a_source() {
    let mut r = router();
    let source = r.route_source("kernel:bird", 20).unwrap();
    let over = |i: u32| RoutePath { interface: Some(i), ..Default::default() };
    let (one, two) = (r.interface_index("loop0").unwrap(), r.interface_index("loop1").unwrap());
    let set = |r: &mut Router, prefix: &str, paths: Vec<RoutePath>| {
        let mut batch = r.route_batch(source, 0);
        let target = batch.target(Target::Paths(paths));
        batch.set(net(prefix), target);
        r.commit(vec![Op::Routes(batch)]).unwrap();
    };
    set(&mut r, "10.7.0.0/16", vec![over(two)]);
    set(&mut r, "10.8.0.0/16", vec![over(one), over(two)]);
    let bytes = r.route_bytes();
    r.commit(vec![Op::Delete { name: "loop1".into() }]).unwrap();
    let target = |r: &Router, a: &str| r.lookup(a.parse().unwrap()).map(|g| g.target);
    assert_eq!(target(&r, "10.7.0.2"), Some(Target::Unreachable));
    assert_eq!(target(&r, "10.8.0.2"), Some(Target::Paths(vec![over(one)])));
    // Its number is another's: what was set before does not lead there.
    r.commit(vec![Op::CreateLoopback { instance: Some(5), mac: None }]).unwrap();
    assert_eq!(target(&r, "10.7.0.2"), Some(Target::Unreachable));
    // A group of the same target is another group, and both go.
    set(&mut r, "10.9.0.0/16", vec![over(one)]);
    set(&mut r, "10.8.0.0/16", vec![over(one)]);
    let mut batch = r.route_batch(source, 0);
    for prefix in ["10.7.0.0/16", "10.8.0.0/16", "10.9.0.0/16"] {
        batch.del(net(prefix));
    }
    r.commit(vec![Op::Routes(batch)]).unwrap();
    assert_eq!(target(&r, "10.8.0.2"), None);
    assert!(r.route_bytes() < bytes);
    r.remove_route_source(source).unwrap();
    r.shutdown();
}

/// What is said of sources is checked, changes which route is used, and is undone with its transaction.
#[test]
fn what_is_said_of_a_source_counts() {
    let mut r = router();
    let say = |source: &str, preference| Op::from(SourcePreference { source: source.into(), preference });
    for (source, preference, why) in [
        ("interface", Some(5), "are called connected"),
        ("neighbor", Some(5), "behind those of all other sources"),
        ("two words", Some(5), "1 to 63 letters"),
        ("static", Some(0), "1 to 254"),
        ("static", Some(255), "1 to 254"),
    ] {
        let e = r.commit(vec![say(source, preference)]).unwrap_err();
        assert!(e.message.contains(why), "{e}");
    }
    r.route_source("connected", 20).unwrap_err();
    let kernel = r.route_source("kernel:bird@blue", 20).unwrap();
    let mut batch = r.route_batch(kernel, 0);
    let target = batch.target(Target::Drop);
    batch.set(net("10.9.0.0/16"), target);
    r.commit(vec![Op::Routes(batch)]).unwrap();
    r.commit(vec![Op::SetRoute { table: 0, prefix: net("10.9.0.0/16"), target: Target::Prohibit }]).unwrap();
    let used = |r: &Router| r.lookup("10.9.0.1".parse().unwrap()).unwrap().target;
    assert_eq!(used(&r), Target::Prohibit);
    // The longest name that fits counts.
    for (source, preference, want) in [
        ("static", Some(50), Target::Drop),
        ("kernel", Some(60), Target::Prohibit),
        ("kernel:bird", Some(40), Target::Drop),
        ("kernel:bird@blue", Some(70), Target::Prohibit),
        ("kernel:bird@blue", None, Target::Drop),
        ("kernel:bird", None, Target::Prohibit),
        ("kernel", None, Target::Drop),
    ] {
        r.commit(vec![say(source, preference)]).unwrap();
        assert_eq!(used(&r), want, "{source} {preference:?}");
    }
    let wrong = Op::DelRoute { table: 0, prefix: net("10.77.0.0/16") };
    r.commit(vec![say("static", None), wrong]).unwrap_err();
    assert_eq!(used(&r), Target::Drop);
    assert_eq!(r.source_preferences().count(), 1);
    // Connected prefixes give way, the router's own addresses do not.
    r.commit(vec![Op::SetRoute { table: 0, prefix: net("10.0.0.0/24"), target: Target::Prohibit }]).unwrap();
    r.commit(vec![say("connected", Some(90))]).unwrap();
    let at = |r: &Router, a: &str| r.lookup(a.parse().unwrap()).unwrap().target;
    assert_eq!(at(&r, "10.0.0.9"), Target::Prohibit);
    assert_eq!(at(&r, "10.0.0.1"), Target::Local(1));
    r.commit(vec![say("connected", None)]).unwrap();
    assert_eq!(at(&r, "10.0.0.9"), Target::Glean(1));
    r.shutdown();
}

fn settle(r: &mut Router) {
    assert!(!r.is_behind() || r.next_deadline() <= r.now(), "the rest is due");
    while r.next_deadline() <= r.now() {
        r.tick();
    }
}

/// The prefix that decides on an address, as the control side has it and as workers do.
fn decides(r: &Router, addr: &str) -> Option<String> {
    let addr = addr.parse().unwrap();
    let route = r.covering(addr).pop();
    assert_eq!(route.as_ref().map(|r| r.group), r.lookup(addr).map(|g| g.id));
    route.map(|r| r.prefix.to_string())
}

/// Prefixes without a way are in the table or not, as it says; they are listed, changed and taken away all the same.
#[test]
fn what_leads_nowhere_is_withdrawn_where_the_table_says_so() {
    let mut r = router();
    let over = |i: u32| Target::Paths(vec![RoutePath { interface: Some(i), ..Default::default() }]);
    let set = |r: &mut Router, prefix: &str, target: Target| {
        r.commit(vec![Op::SetRoute { table: 0, prefix: net(prefix), target }]).unwrap();
    };
    let loop0 = |r: &mut Router, up: bool| {
        r.commit(vec![Op::SetState { name: "loop0".into(), up }, Op::SetState { name: "if0".into(), up }])
            .unwrap();
        settle(r);
    };
    let when_down = |r: &mut Router, withdraw: bool| {
        r.commit(vec![Op::SetWhenDown { table: RouteTable::V4, withdraw }]).unwrap();
        settle(r);
    };
    let listed = |r: &Router| {
        let all = r.routes(RouteTable::V4);
        all.map(|r| (r.prefix.to_string(), r.withdrawn)).collect::<Vec<_>>()
    };
    // Neighbours are on links with stations.
    let config = PcapConfig { read: None, write: None, pps: None, repeat: false };
    r.commit(vec![
        Op::CreatePcap { name: "if0".into(), config },
        Op::SetState { name: "if0".into(), up: true },
        Op::AddAddress { name: "if0".into(), net: net("10.1.0.1/24") },
    ])
    .unwrap();
    set(&mut r, "0.0.0.0/0", over(2));
    set(&mut r, "10.9.0.0/16", over(1));
    set(&mut r, "10.8.0.0/16", over(1));
    let mac = packet::eth::MacAddr([2, 0, 0, 0, 0, 9]);
    let neighbor = Op::SetNeighbor { name: "if0".into(), address: "10.1.0.9".parse().unwrap(), mac };
    r.commit(vec![neighbor]).unwrap();
    let before = listed(&r);
    assert_eq!(decides(&r, "10.1.0.9").as_deref(), Some("10.1.0.9/32"));
    loop0(&mut r, false);
    assert_eq!(decides(&r, "10.9.0.1").as_deref(), Some("10.9.0.0/16"), "unreachable is the default");
    assert_eq!(decides(&r, "10.0.0.5").as_deref(), Some("10.0.0.0/24"));
    when_down(&mut r, true);
    for addr in ["10.9.0.1", "10.8.0.1", "10.0.0.5", "10.1.0.9"] {
        assert_eq!(decides(&r, addr).as_deref(), Some("0.0.0.0/0"), "{addr}");
    }
    assert_eq!(decides(&r, "10.0.0.1").as_deref(), Some("10.0.0.1/32"), "its own address stays");
    let names = |l: &[(String, bool)]| l.iter().map(|(p, _)| p.clone()).collect::<Vec<_>>();
    let gone: Vec<String> = listed(&r).into_iter().filter(|(_, w)| *w).map(|(p, _)| p).collect();
    assert_eq!(gone, ["10.0.0.0/24", "10.1.0.0/24", "10.8.0.0/16", "10.9.0.0/16"]);
    let all_but_neighbor: Vec<_> = names(&before).into_iter().filter(|p| p != "10.1.0.9/32").collect();
    assert_eq!(names(&listed(&r)), all_but_neighbor);
    assert_eq!(r.route_count(RouteTable::V4), all_but_neighbor.len());
    let after = Some(net("10.8.0.0/16"));
    assert_eq!(r.routes_after(RouteTable::V4, after).next().unwrap().prefix, net("10.9.0.0/16"));
    // What is set while it leads nowhere is withdrawn at once, what is removed is gone, what leads elsewhere is used.
    set(&mut r, "10.7.0.0/16", over(1));
    assert_eq!(decides(&r, "10.7.0.1").as_deref(), Some("0.0.0.0/0"));
    r.commit(vec![Op::DelRoute { table: 0, prefix: net("10.8.0.0/16") }]).unwrap();
    set(&mut r, "10.9.0.0/16", over(2));
    assert_eq!(decides(&r, "10.9.0.1").as_deref(), Some("10.9.0.0/16"));
    set(&mut r, "10.9.0.0/16", over(1));
    assert_eq!(decides(&r, "10.9.0.1").as_deref(), Some("0.0.0.0/0"));
    when_down(&mut r, false);
    assert_eq!(decides(&r, "10.9.0.1").as_deref(), Some("10.9.0.0/16"));
    assert_eq!(decides(&r, "10.1.0.9").as_deref(), Some("10.1.0.0/24"));
    assert!(listed(&r).iter().all(|(_, w)| !w));
    when_down(&mut r, true);
    loop0(&mut r, true);
    for (addr, prefix) in
        [("10.9.0.1", "10.9.0.0/16"), ("10.7.0.1", "10.7.0.0/16"), ("10.1.0.9", "10.1.0.9/32")]
    {
        assert_eq!(decides(&r, addr).as_deref(), Some(prefix));
    }
    assert_eq!(decides(&r, "10.8.0.1").as_deref(), Some("0.0.0.0/0"));
    assert!(listed(&r).iter().all(|(_, w)| !w));
    // A link goes that was up when the table was told.
    loop0(&mut r, false);
    assert_eq!(decides(&r, "10.9.0.1").as_deref(), Some("0.0.0.0/0"));
    assert_eq!(decides(&r, "10.1.0.9").as_deref(), Some("0.0.0.0/0"));
    r.clear();
    assert_eq!(r.route_count(RouteTable::V4), 0);
    r.shutdown();
}

/// The processor time of this thread so far.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// A hundred thousand prefixes change over in turns, none of which takes long, whether others take over or shorter serve.
#[test]
fn a_hundred_thousand_prefixes_take_over_in_turns() {
    const N: u32 = 100_000;
    let at = |n: u32| IpNet::new(std::net::Ipv4Addr::from(0x0b00_0000 + (n << 8)).into(), 24).unwrap();
    let over = |i: u32| Target::Paths(vec![RoutePath { interface: Some(i), ..Default::default() }]);
    for backup in [true, false] {
        let mut r = router();
        r.commit(vec![Op::SetWhenDown { table: RouteTable::V4, withdraw: true }]).unwrap();
        let mut batch = RouteBatch::new();
        let [first, second] = [(1, over(1)), (9, over(2))]
            .map(|(preference, target)| batch.ranked(Rank { preference, metric: 0 }, target));
        batch.set(net("0.0.0.0/0"), second);
        for n in 0..N {
            batch.set(at(n), first);
            if backup {
                batch.set(at(n), second);
            }
        }
        r.commit(vec![Op::Routes(batch)]).unwrap();
        let uses = |r: &Router, n: u32| {
            let route = r.covering(at(n).addr()).pop().unwrap();
            (route.prefix == at(n), r.group(route.group).unwrap().rank.preference)
        };
        assert!((0..N).all(|n| uses(&r, n) == (true, 1)));
        for up in [false, true] {
            r.commit(vec![Op::SetState { name: "loop0".into(), up }]).unwrap();
            assert!(r.is_behind(), "not all at once");
            let mut turns = vec![];
            while r.is_behind() {
                let begin = cpu();
                r.tick();
                turns.push(cpu().saturating_sub(begin));
            }
            assert!(turns.len() > 3, "{turns:?}");
            turns.sort();
            // What the host takes from the machine counts as this thread's.
            let long = turns[turns.len() * 9 / 10];
            println!("{} turns, most up to {long:?}, the longest {:?}", turns.len(), turns[turns.len() - 1]);
            assert!(long < Duration::from_millis(10), "{long:?}");
            let want = if up { (true, 1) } else { (backup, 9) };
            assert!((0..N).all(|n| uses(&r, n) == want));
        }
        r.shutdown();
    }
}

/// What is said of a source chooses a hundred thousand routes again in turns, none of which takes long; routes of prefixes
/// that have one route alone are only passed by.
#[test]
fn a_hundred_thousand_prefixes_are_chosen_again_in_turns() {
    const N: u32 = 200_000;
    let at = |n: u32| IpNet::new(std::net::Ipv4Addr::from(0x0b00_0000 + (n << 8)).into(), 24).unwrap();
    let mut r = router();
    let kernel = r.route_source("kernel:bird", 20).unwrap();
    let (mut own, mut batch) = (RouteBatch::new(), r.route_batch(kernel, 0));
    let (one, other) = (own.target(Target::Drop), batch.target(Target::Prohibit));
    for n in 0..N {
        own.set(at(n), one);
        if n % 2 == 0 {
            batch.set(at(n), other);
        }
    }
    r.commit(vec![Op::Routes(own), Op::Routes(batch)]).unwrap();
    for (preference, want) in [(Some(30), Target::Prohibit), (None, Target::Drop)] {
        let (mut turns, began) = (vec![], cpu());
        r.commit(vec![SourcePreference { source: "static".into(), preference }.into()]).unwrap();
        turns.push(cpu().saturating_sub(began));
        assert!(r.is_behind(), "not all at once");
        while r.is_behind() {
            let begin = cpu();
            r.tick();
            turns.push(cpu().saturating_sub(begin));
        }
        turns.sort();
        let (long, all) = (turns[turns.len() * 9 / 10], turns.iter().sum::<Duration>());
        println!(
            "{} turns, {all:?}, most up to {long:?}, the longest {:?}",
            turns.len(),
            turns[turns.len() - 1]
        );
        assert!(long < Duration::from_millis(10), "{long:?}");
        for n in 0..N {
            let found = r.lookup(at(n).addr()).unwrap().target;
            assert_eq!(found, if n % 2 == 0 { want.clone() } else { Target::Drop });
        }
    }
    r.shutdown();
}
