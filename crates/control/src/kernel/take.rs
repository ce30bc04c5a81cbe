//! Changes of routes of the kernel's, or of FRR's, made in the router.

use super::goals::{Goal, MAIN, Not, leads_to_own};
use super::{Failed, Taken};
use ipnet::IpNet;
use linux::route::RTPROT_KERNEL;
use linux::{Change, Key, Route};
use net::router::{
    Op, Rank, RouteBatch, RouteObject, RoutePath, RouteSource, RouteTable, Router, Source, Target,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// One change of one source's routes in one table.
struct Step {
    key: Key,
    source: RouteSource,
    goal: Goal,
    gone: bool,
    /// The nexthop object by which it leads.
    object: RouteObject,
}

fn object(route: &Route) -> RouteObject {
    RouteObject { id: route.nexthop, buckets: route.buckets }
}

/// What a nexthop object was and is, where that is what has changed of a route: it has for all that lead by it.
fn of_object(change: &Change) -> Option<(&Arc<Route>, &Arc<Route>)> {
    let (was, is) = (change.was.as_ref()?, change.is.as_ref()?);
    let beside = |r: &Route| (r.protocol, r.nexthop, r.buckets, r.source, r.mtu, r.wanted);
    (was.nexthop != 0 && beside(was) == beside(is)).then_some((was, is))
}

/// What routes have in common that move together: what they were and are, their table, metric and family.
type Alike = (*const Route, *const Route, u32, u32, bool);

/// Whose the routes are that have moved together, and where they lead now; `None`: each of them is to be set.
type Moved = Option<(RouteSource, Goal)>;

impl Taken {
    /// Counts what the router cannot forward by.
    pub(super) fn counted<T>(&self, goal: Result<T, Not>, more: i64) -> Option<T> {
        match goal {
            Ok(goal) => return Some(goal),
            Err(Not::Foreign) => self.counts.foreign.set(self.counts.foreign.get() + more),
            Err(Not::Supported(what)) => {
                *self.counts.unsupported.borrow_mut().entry(what).or_default() += more;
            }
        }
        None
    }

    fn goal(&self, key: &Key, route: &Route, more: i64) -> Option<Goal> {
        let goal = self.devices.goal(self.speaker.preference, key, route);
        // Those of the kernel's own over other devices are nobody's business.
        if route.protocol == RTPROT_KERNEL && goal == Err(Not::Foreign) {
            return None;
        }
        self.counted(goal, more)
    }

    /// Makes changes, at most some hundreds: the control thread does nothing else meanwhile. Where a nexthop object has changed, the first
    /// of its routes moves all of them.
    pub(super) fn take(&self, router: &mut Router, changes: &[Change]) {
        let moves = |c: &Change| of_object(c).is_some();
        for run in changes.chunk_by(|a, b| moves(a) == moves(b)) {
            if !run.first().is_some_and(moves) {
                self.take_each(router, run);
                continue;
            }
            let (mut known, mut apart, mut alone) = (HashMap::new(), HashSet::new(), vec![]);
            for change in run {
                // What is set for itself is set after all moves of the run: what becomes of it later is, too.
                if apart.contains(&change.key) || !self.is_moved(router, change, &mut known) {
                    apart.insert(change.key);
                    alone.push(change.clone());
                }
            }
            self.counts.made.set(self.counts.made.get() + (run.len() - alone.len()) as u64);
            self.take_each(router, &alone);
        }
    }

    /// Whether a route has moved with its object, or moves with it now. `known`: whose those like it are and where they lead, where they have
    /// moved before.
    fn is_moved(&self, router: &mut Router, change: &Change, known: &mut HashMap<Alike, Moved>) -> bool {
        let Some((was, is)) = of_object(change) else { return false };
        let key = &change.key;
        let refused = self.counts.more_failed.get() != 0
            || self.counts.failed.borrow().contains_key(&Failed::Route(*key));
        // A host may be its own next hop, or an address of the router's: such a route is one for itself.
        let host = key.prefix.addr();
        let whole = key.prefix.prefix_len() == key.prefix.max_prefix_len();
        let on_link = |r: &Route| r.paths.iter().any(|p| p.gateway.is_none_or(|g| g == host));
        if refused || whole && (on_link(was) || on_link(is)) {
            return false;
        }
        let alike = (Arc::as_ptr(was), Arc::as_ptr(is), key.table, key.metric, host.is_ipv6());
        let moved = known.entry(alike).or_insert_with(|| self.move_all(router, key, [was, is]));
        let Some((source, goal)) = moved else { return false };
        // That nothing was left to move says nothing of this route: it may stand elsewhere, or not be set yet.
        router.leads_to(*source, goal.rank, (goal.table, key.prefix), &goal.target)
    }

    /// Moves all routes that lead by an object as that of `key` does.
    fn move_all(&self, router: &mut Router, key: &Key, [was, is]: [&Arc<Route>; 2]) -> Moved {
        let was_goal = self.devices.goal(self.speaker.preference, key, was).ok()?;
        let goal = self.devices.goal(self.speaker.preference, key, is).ok()?;
        if was_goal.table != goal.table {
            return None;
        }
        let name = self.speaker.source_name(self.netns.as_deref(), is.protocol);
        let source = router.route_source(&name, self.speaker.preference).ok()?;
        let (what, like) = ((goal.rank, object(is)), (goal.table, key.prefix));
        let moved = was_goal == goal
            || router.move_object(source, what, like, &was_goal.target, &goal.target).unwrap_or(false);
        moved.then_some((source, goal))
    }

    fn take_each(&self, router: &mut Router, changes: &[Change]) {
        let mut sources: HashMap<u8, Option<RouteSource>> = HashMap::new();
        let (netns, speaker) = (self.netns.as_deref(), self.speaker);
        // What is new first: a prefix whose route goes over to another source is not without one.
        let (mut new, mut gone) = (vec![], vec![]);
        for change in last_of_each(changes) {
            let Change { key, was, is } = &change;
            let step = |router: &mut Router, sources: &mut HashMap<_, _>, route: &Arc<Route>, more| {
                let goal = self.goal(key, route, more)?;
                if key.table != MAIN {
                    self.counts.other_tables.set(true);
                }
                let source = *sources.entry(route.protocol).or_insert_with(|| {
                    router.route_source(&speaker.source_name(netns, route.protocol), speaker.preference).ok()
                });
                Some(Step { key: *key, source: source?, goal, gone: more < 0, object: object(route) })
            };
            let was = was.as_ref().and_then(|r| step(router, &mut sources, r, -1));
            let is = is.as_ref().and_then(|r| step(router, &mut sources, r, 1));
            self.counts.failed.borrow_mut().remove(&Failed::Route(*key));
            let place = |s: &Step| (s.source, s.goal.table);
            if let Some(was) = was
                && is.as_ref().map(place) != Some(place(&was))
            {
                gone.push(was);
            }
            new.extend(is);
        }
        self.make(router, new);
        self.make(router, gone);
    }

    fn make(&self, router: &mut Router, steps: Vec<Step>) {
        let mut by: HashMap<(RouteSource, u32), Vec<Step>> = HashMap::new();
        for step in steps {
            by.entry((step.source, step.goal.table)).or_default().push(step);
        }
        for ((source, table), steps) in by {
            let mut batch = router.route_batch(source, table);
            steps.iter().for_each(|s| s.put(&mut batch));
            let made = router.commit(vec![Op::Routes(batch)]);
            let count = if made.is_ok() { steps.len() } else { self.one_by_one(router, &steps) };
            self.counts.made.set(self.counts.made.get() + count as u64);
        }
    }

    /// One of them was refused: which, and the others are made.
    fn one_by_one(&self, router: &mut Router, steps: &[Step]) -> usize {
        let mut count = 0;
        for step in steps {
            let mut batch = router.route_batch(step.source, step.goal.table);
            step.put(&mut batch);
            match router.commit(vec![Op::Routes(batch)]) {
                Ok(()) => count += 1,
                Err(_) if step.gone => {}
                Err(e) => {
                    // What it was is right no longer.
                    let mut batch = router.route_batch(step.source, step.goal.table);
                    batch.del_ranked(step.key.prefix, step.goal.rank);
                    let _ = router.commit(vec![Op::Routes(batch)]);
                    if !leads_to_own(router, step.key.prefix, &step.goal.target) {
                        self.counts.fail(Failed::Route(step.key), e.message);
                    }
                }
            }
        }
        count
    }
}

/// A route to one host, which is taken away.
pub(super) struct Own {
    source: RouteSource,
    table: u32,
    host: IpNet,
    rank: Rank,
    target: Target,
}

impl Taken {
    /// Takes routes of Linux's away that lead to these addresses on the link of an interface which is to have them: Linux makes the route of
    /// a /128 before it tells of the address, and nobody is his own neighbor. Later ones are refused in silence.
    pub(super) fn give_way(
        &self,
        router: &mut Router,
        interface: u32,
        addresses: &BTreeSet<IpNet>,
    ) -> Vec<Own> {
        let Some(i) = router.interface(interface) else { return vec![] };
        let has: HashSet<IpAddr> = i.configured().map(|net| net.addr()).collect();
        let (mut own, mut sources) = (vec![], None);
        for host in addresses.iter().map(IpNet::addr).filter(|a| !has.contains(a)) {
            let table = RouteTable { v6: host.is_ipv6(), id: router.table_of_interface(i, host.is_ipv6()) };
            let host = IpNet::from(host);
            for route in router.routes_at(table, host).iter().flat_map(|r| router.routes_of_prefix(r)) {
                let sources: &HashSet<RouteSource> = sources.get_or_insert_with(|| self.sources(router));
                let Source::Runtime(source) = route.source else { continue };
                let Some(target) = router.route_of_rank(table.id, host, route.source, route.rank) else {
                    continue;
                };
                let leads = |p: &RoutePath| p.address == Some(host.addr()) && p.interface == Some(interface);
                let itself = matches!(&target, Target::Paths(paths) if paths.iter().all(leads));
                if itself && sources.contains(&source) {
                    own.push(Own { source, table: table.id, host, rank: route.rank, target });
                }
            }
        }
        own.retain(|o| {
            let mut batch = router.route_batch(o.source, o.table);
            batch.del_ranked(o.host, o.rank);
            router.commit(vec![Op::Routes(batch)]).is_ok()
        });
        own
    }

    /// Sets those again whose addresses the interface has not got.
    pub(super) fn come_back(&self, router: &mut Router, interface: u32, own: Vec<Own>) {
        for o in own {
            let Some(i) = router.interface(interface) else { return };
            if i.configured().any(|net| net.addr() == o.host.addr()) {
                continue;
            }
            let mut batch = router.route_batch(o.source, o.table);
            let target = batch.ranked(o.rank, o.target);
            batch.set(o.host, target);
            let _ = router.commit(vec![Op::Routes(batch)]);
        }
    }

    /// Of all of its protocols.
    fn sources(&self, router: &Router) -> HashSet<RouteSource> {
        let all = router.route_sources().into_iter();
        all.filter(|s| self.speaker.is_source(&s.name, self.netns.as_deref())).map(|s| s.source).collect()
    }
}

/// What became of each route in the end; only that is made.
pub(super) fn last_of_each<K: Clone + Eq + Hash>(changes: &[Change<K>]) -> Vec<Change<K>> {
    let mut place: HashMap<&K, usize> = HashMap::new();
    let mut last: Vec<Change<K>> = Vec::with_capacity(changes.len());
    for change in changes {
        match place.get(&change.key) {
            Some(at) => last[*at].is.clone_from(&change.is),
            None => {
                place.insert(&change.key, last.len());
                last.push(change.clone());
            }
        }
    }
    last
}

impl Step {
    fn put(&self, batch: &mut RouteBatch) {
        if self.gone {
            batch.del_ranked(self.key.prefix, self.goal.rank);
        } else {
            let target = batch.by_object(self.goal.rank, self.object, self.goal.target.clone());
            batch.set(self.key.prefix, target);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, Speaker};
    use super::*;
    use linux::{Action, Path};
    use net::router::RouterConfig;

    const ROUTES: u32 = 100_000;

    fn route(gateway: &str, nexthop: u32) -> Arc<Route> {
        let gateway = Some(gateway.parse().unwrap());
        let path = Path { gateway, ifindex: 7, weight: 1, ..Path::default() };
        let (action, paths) = (Action::Unicast, vec![path]);
        Arc::new(Route { protocol: 186, action, paths, nexthop, buckets: 0, source: None, mtu: 0, wanted: 0 })
    }

    fn key(n: u32) -> Key {
        let prefix = ipnet::Ipv4Net::new((0x1400_0000 + (n << 8)).into(), 24).unwrap();
        Key { table: MAIN, prefix: prefix.into(), metric: 20, tos: 0 }
    }

    fn changes(was: Option<&Arc<Route>>, is: Option<&Arc<Route>>, all: std::ops::Range<u32>) -> Vec<Change> {
        all.map(|n| Change { key: key(n), was: was.cloned(), is: is.cloned() }).collect()
    }

    /// A route is one of a prefix's; others have none beside it.
    fn gateway(router: &Router, n: u32) -> String {
        let group = router.lookup(key(n).prefix.addr()).unwrap();
        let Source::Runtime(_) = group.source else { panic!("{group:?}") };
        let Target::Paths(paths) = &group.target else { panic!("{group:?}") };
        paths[0].address.unwrap().to_string()
    }

    /// A router with `loop0`, which is Linux's device 7.
    fn bench() -> (Router, Taken) {
        let mut router = Router::new(RouterConfig::default()).unwrap();
        router
            .commit(vec![
                Op::CreateLoopback { instance: Some(0), mac: None },
                Op::SetState { name: "loop0".into(), up: true },
                Op::AddAddress { name: "loop0".into(), net: "10.0.0.1/24".parse().unwrap() },
            ])
            .unwrap();
        let mut devices = super::super::Devices::default();
        devices.insert(&router, 7, router.interface_index("loop0").unwrap());
        let speaker = Speaker::KERNEL;
        let taken = Taken { speaker, netns: None, devices, tables_made: 0, counts: Counts::default() };
        (router, taken)
    }

    /// What is set for itself stands at its end, whatever moves meanwhile.
    #[test]
    fn a_route_that_does_not_move_with_its_object_is_set() {
        let (mut router, taken) = bench();
        let nowhere =
            Arc::new(Route { action: Action::Blackhole, paths: vec![], ..(*route("10.0.0.2", 10)).clone() });
        let [x, y] = ["10.0.0.2", "10.0.0.3"].map(|to| route(to, 10));
        let one = |was: &Arc<Route>, is: &Arc<Route>, n| changes(Some(was), Some(is), n..n + 1);
        // It leads nowhere at first, as no group of paths does.
        taken.take(&mut router, &changes(None, Some(&nowhere), 0..2));
        let turn = [one(&nowhere, &x, 0), one(&nowhere, &x, 1), one(&x, &y, 0), one(&x, &y, 1)].concat();
        taken.take(&mut router, &turn);
        assert_eq!([0, 1].map(|n| gateway(&router, n)), ["10.0.0.3"; 2].map(String::from));
        // There and back, and on.
        let turn = [one(&y, &nowhere, 0), one(&nowhere, &y, 0), one(&y, &x, 0), one(&y, &x, 1)].concat();
        taken.take(&mut router, &turn);
        assert_eq!([0, 1].map(|n| gateway(&router, n)), ["10.0.0.2"; 2].map(String::from));
        // One that the router has not is set, though others like it have moved.
        taken.take(&mut router, &[one(&x, &y, 0), one(&x, &y, 1), one(&x, &y, 2)].concat());
        assert_eq!([0, 1, 2].map(|n| gateway(&router, n)), ["10.0.0.3"; 3].map(String::from));
        router.shutdown();
    }

    /// Where each route is set by itself, flows stay as they do where one group is changed.
    #[test]
    fn flows_keep_their_way_where_routes_of_an_object_are_set_one_by_one() {
        let (mut router, taken) = bench();
        let of = |last: &[u8]| {
            let path = |n: &u8| Path {
                gateway: Some([10, 0, 0, *n].into()),
                ..route("10.0.0.9", 10).paths[0].clone()
            };
            let paths = last.iter().map(path).collect();
            Arc::new(Route { paths, buckets: 32, ..(*route("10.0.0.9", 10)).clone() })
        };
        let [three, two] = [&[2, 3, 4][..], &[2, 4]].map(of);
        taken.take(&mut router, &changes(None, Some(&three), 0..2));
        let look = |router: &Router| {
            let g = router.lookup(key(0).prefix.addr()).unwrap();
            (g.id, g.object.buckets, router.group_buckets(g.id))
        };
        let (id, buckets, before) = look(&router);
        assert_eq!((buckets, before.len()), (32, 64));
        // Who follows routes is told each prefix.
        router.follow_routes();
        taken.take(&mut router, &changes(Some(&three), Some(&two), 0..2));
        let (other, _, without) = look(&router);
        assert_ne!(id, other);
        let left = without.clone();
        let stay = |from: &[_], to: &[_]| from.iter().zip(to).filter(|(a, b)| a == b).count();
        assert_eq!(stay(&before, &without), before.iter().filter(|e| left.contains(e)).count());
        // It comes back, and takes its share from the others.
        taken.take(&mut router, &changes(Some(&two), Some(&three), 0..2));
        let (_, _, again) = look(&router);
        assert_eq!(stay(&without, &again), again.iter().filter(|e| left.contains(e)).count());
        router.shutdown();
    }

    #[test]
    fn what_changes_of_a_nexthop_object_moves_all_its_routes_at_once() {
        let (mut router, taken) = bench();
        let make = |router: &mut Router, all: &[Change]| {
            all.chunks(512).for_each(|turn| taken.take(router, turn));
        };
        // By an object, by another one with the same next hop, and by none.
        let (by10, by11, plain) = (route("10.0.0.2", 10), route("10.0.0.2", 11), route("10.0.0.2", 0));
        make(&mut router, &changes(None, Some(&by10), 0..ROUTES));
        make(&mut router, &changes(None, Some(&by11), ROUTES..ROUTES + 1));
        make(&mut router, &changes(None, Some(&plain), ROUTES + 1..ROUTES + 2));
        let (before, group) = (router.published(), router.lookup(key(7).prefix.addr()).unwrap());
        assert_eq!(group.routes, ROUTES);
        let now10 = route("10.0.0.3", 10);
        make(&mut router, &changes(Some(&by10), Some(&now10), 0..ROUTES));
        let after = router.published();
        assert_eq!((after.routes - before.routes, after.groups - before.groups), (0, 1));
        assert_eq!(router.lookup(key(7).prefix.addr()).unwrap().id, group.id);
        assert_eq!([0, 7, ROUTES - 1].map(|n| gateway(&router, n)), ["10.0.0.3"; 3].map(String::from));
        assert_eq!([ROUTES, ROUTES + 1].map(|n| gateway(&router, n)), ["10.0.0.2"; 2].map(String::from));
        // There and back within one turn, a route that goes, and one that comes.
        let back10 = route("10.0.0.4", 10);
        let mut all = changes(Some(&now10), Some(&by10), 0..2);
        all.extend(changes(Some(&by10), None, 1..2));
        all.extend(changes(None, Some(&by10), ROUTES + 2..ROUTES + 3));
        all.extend(changes(Some(&by10), Some(&back10), 0..1));
        make(&mut router, &all);
        assert_eq!([0, 2, ROUTES + 2].map(|n| gateway(&router, n)), ["10.0.0.4"; 3].map(String::from));
        assert!(router.lookup(key(1).prefix.addr()).is_none_or(|g| !matches!(g.source, Source::Runtime(_))));
        // Who follows routes is told each prefix.
        let from = router.follow_routes();
        make(&mut router, &changes(Some(&back10), Some(&now10), 2..ROUTES));
        assert_eq!(router.next_route_change() - from, u64::from(ROUTES) - 2);
        assert_eq!((gateway(&router, 2), gateway(&router, 0)), ("10.0.0.3".into(), "10.0.0.4".into()));
        router.shutdown();
    }
}
