//! Routes and labels: by the million, compared as sorted runs.

use super::brought::{Beside, Brought};
use super::ends::End;
use super::objects::{Id, Side, Value};
use super::sorted::{Sorted, pairs};
use crate::yaml::{self, Document, Place, RouteTarget};
use graph::memory::{self, Growth, OutOfMemory};
use ipnet::IpNet;
use model::{Model, Object, Phase};
use net::labels::OutLabels;
use net::mpls::{LabelBatch, MplsOp};
use net::router::{Lookup, Op, Rank, RouteBatch, RoutePath, RouteTable, Router, Target, TargetId};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

/// One way of a route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Next hop.
    pub address: Option<IpAddr>,
    /// Interface, by name.
    pub interface: Option<String>,
    /// Table in which the address, or the packet, is looked up.
    pub table: Option<u32>,
    /// Share.
    pub weight: u8,
    /// Largest IP packet, bytes; 0: as the interface.
    pub mtu: u16,
    /// Labels that packets get.
    pub labels: OutLabels,
    /// The kind of the table.
    pub lookup: Lookup,
}

/// What becomes of the packets of a route or label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Goal {
    /// They are sent.
    Paths(Vec<Hop>),
    /// They are dropped.
    Drop,
    /// They are dropped, and their sender is told.
    Unreachable,
    /// The same, in other words.
    Prohibit,
}

impl Goal {
    pub(super) fn of_paths(paths: &[yaml::RoutePath]) -> Goal {
        let hop = |p: &yaml::RoutePath| Hop {
            address: p.address,
            interface: p.interface.clone(),
            table: p.table,
            weight: p.weight,
            mtu: p.mtu,
            labels: p.labels,
            lookup: p.lookup,
        };
        Goal::Paths(paths.iter().map(hop).collect())
    }

    fn of(t: &RouteTarget) -> Goal {
        match t {
            RouteTarget::Paths(paths) => Goal::of_paths(paths),
            RouteTarget::Drop => Goal::Drop,
            RouteTarget::Unreachable => Goal::Unreachable,
            RouteTarget::Prohibit => Goal::Prohibit,
        }
    }

    /// As the router has it, which knows interfaces by number; `None` for what no operator asks for.
    pub(super) fn of_router(router: &Router, t: &Target) -> Option<Goal> {
        let hop = |p: &RoutePath| Hop {
            address: p.address,
            interface: p.interface.map(|i| router.interface_name(i)),
            table: p.table,
            weight: p.weight,
            mtu: p.mtu,
            labels: p.labels,
            lookup: p.lookup,
        };
        Some(match t {
            Target::Paths(paths) => Goal::Paths(paths.iter().map(hop).collect()),
            Target::Drop => Goal::Drop,
            Target::Unreachable => Goal::Unreachable,
            Target::Prohibit => Goal::Prohibit,
            _ => return None,
        })
    }

    /// For the router.
    pub(super) fn target(&self, router: &Router) -> Target {
        let path = |h: &Hop| RoutePath {
            address: h.address,
            // A name that the rules let through and the router does not know is refused there.
            interface: h.interface.as_deref().map(|n| router.interface_index(n).unwrap_or(u32::MAX)),
            table: h.table,
            weight: h.weight,
            mtu: h.mtu,
            labels: h.labels,
            lookup: h.lookup,
        };
        match self {
            Goal::Paths(hops) => Target::Paths(hops.iter().map(path).collect()),
            Goal::Drop => Target::Drop,
            Goal::Unreachable => Target::Unreachable,
            Goal::Prohibit => Target::Prohibit,
        }
    }

    fn list(&self) -> &[Hop] {
        if let Goal::Paths(hops) = self { hops } else { &[] }
    }

    /// Next hops, of what looks up those without interface in a table.
    pub(super) fn hops(&self, table: u32) -> impl Iterator<Item = End<'_>> {
        self.list().iter().filter_map(move |h| {
            let address = h.address?;
            Some(match &h.interface {
                Some(name) => End::On(name, address),
                None => End::In(h.table.unwrap_or(table), address),
            })
        })
    }

    /// The addresses of next hops.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.list().iter().filter_map(|h| h.address)
    }

    /// What its paths need, of routes of IPv6 or not.
    pub(super) fn needs(&self, v6: bool) -> Vec<Id> {
        let mut out = vec![];
        for h in self.list() {
            if let Some(i) = &h.interface {
                out.push(Id::Interface(i.clone()));
                if h.lookup != Lookup::Frame {
                    out.push(Id::Layer(i.clone()));
                }
            }
            let Some(id) = h.table else { continue };
            if h.lookup == Lookup::Ip {
                out.extend([false, true].map(|v6| Id::Table(RouteTable { v6, id })));
                continue;
            }
            out.push(match (h.address, h.lookup) {
                (Some(a), _) => Id::Table(RouteTable::of(a, id)),
                (None, Lookup::Mpls) => Id::LabelTable(id),
                (None, Lookup::Ip4) => Id::Table(RouteTable { v6: false, id }),
                (None, Lookup::Ip6) => Id::Table(RouteTable { v6: true, id }),
                (None, Lookup::Own | Lookup::Frame | Lookup::Ip | Lookup::IpEach(_)) => {
                    Id::Table(RouteTable { v6, id })
                }
            });
        }
        out.sort();
        out.dedup();
        out
    }

    /// Of a host route over an interface the neighbour is the host itself.
    fn for_host(&self, prefix: IpNet) -> Option<Goal> {
        let attached = |h: &Hop| h.address.is_none() && h.interface.is_some();
        if prefix.prefix_len() != prefix.max_prefix_len() || !self.list().iter().any(attached) {
            return None;
        }
        let of = |h: &Hop| match attached(h) {
            true => Hop { address: Some(prefix.addr()), ..h.clone() },
            false => h.clone(),
        };
        Some(Goal::Paths(self.list().iter().map(of).collect()))
    }
}

/// The routes and labels of a side.
#[derive(Clone, Debug, Default)]
pub(super) struct Bulk {
    goals: Vec<Goal>,
    numbers: HashMap<Goal, u32>,
    /// By table, prefix and rank: number of the goal, and where it stands.
    pub routes: Vec<(RouteKey, u32, Place)>,
    /// By table, label, and whether it is at the bottom.
    pub labels: Vec<((u32, u32, bool), u32, Place)>,
}

impl Bulk {
    /// Whether there is memory for the routes of a document beside it.
    ///
    /// # Errors
    /// When there is none.
    pub fn room_for(d: &Document) -> Result<(), OutOfMemory> {
        memory::check(d.routes.len().saturating_mul(size_of::<(RouteKey, u32, Place)>()))
    }

    pub fn of(d: &Document) -> Bulk {
        let mut b = Bulk::default();
        let goals: Vec<u32> = d.routes.targets.iter().map(|t| b.goal(Goal::of(t))).collect();
        let host: Vec<bool> = goals.iter().map(|g| b.leads_to_hosts(*g)).collect();
        b.routes.reserve(d.routes.len());
        for &(prefix, target, place) in &d.routes.list {
            let table = d.routes.tables.get(target as usize).copied().unwrap_or(0);
            let Some(&goal) = goals.get(target as usize) else { continue };
            let goal = if host.get(target as usize) == Some(&true) { b.for_host(goal, prefix) } else { goal };
            b.routes.push(((table, prefix, d.routes.rank(target)), goal, place));
        }
        for l in &d.mpls.labels {
            let goal = b.goal(Goal::of(&l.target));
            b.labels.extend(l.bottoms.iter().map(|bottom| ((l.table, l.label, *bottom), goal, l.place)));
        }
        b
    }

    /// Makes room for routes.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn reserve(&mut self, routes: usize) -> Result<(), OutOfMemory> {
        Growth::default().push(&mut self.routes, routes)
    }

    /// Whether there is memory for a plan between the routes and labels of two sides.
    ///
    /// # Errors
    /// When there is none.
    pub fn room_beside(&self, other: &Bulk) -> Result<(), OutOfMemory> {
        let all = |b: &Bulk| b.routes.len() + b.labels.len();
        // The order of both, and what differs, in a vector that grows.
        let each = size_of::<u32>() + 3 * size_of::<Item<RouteKey>>();
        memory::check(all(self).saturating_add(all(other)).saturating_mul(each))
    }

    /// The number of a goal.
    pub fn goal(&mut self, goal: Goal) -> u32 {
        let next = self.goals.len() as u32;
        if let Some(n) = self.numbers.get(&goal) {
            return *n;
        }
        self.numbers.insert(goal.clone(), next);
        self.goals.push(goal);
        next
    }

    /// All goals; routes and labels have their numbers.
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    fn leads_to_hosts(&self, goal: u32) -> bool {
        let attached = |h: &Hop| h.address.is_none() && h.interface.is_some();
        self.goals.get(goal as usize).is_some_and(|g| g.list().iter().any(attached))
    }

    fn for_host(&mut self, goal: u32, prefix: IpNet) -> u32 {
        let of = self.goals.get(goal as usize).and_then(|g| g.for_host(prefix));
        of.map_or(goal, |g| self.goal(g))
    }

    /// Takes the routes of another, in place of its own.
    pub fn take_routes(&mut self, other: Bulk) {
        let numbers: Vec<u32> = other.goals.into_iter().map(|g| self.goal(g)).collect();
        let own = |(key, goal, place): (RouteKey, u32, Place)| {
            (key, numbers.get(goal as usize).copied().unwrap_or(NONE), place)
        };
        self.routes = other.routes.into_iter().map(own).collect();
    }

    pub fn route_place(&self, number: u32) -> Option<Place> {
        self.routes.get(number as usize).map(|r| r.2)
    }

    pub fn label_place(&self, number: u32) -> Option<Place> {
        self.labels.get(number as usize).map(|r| r.2)
    }
}

/// No goal: of a route that there was not, or will not be.
const NONE: u32 = u32::MAX;

/// One route or label that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<K> {
    pub key: K,
    /// The rank that it had before, which may be another than that of the key where it changes.
    pub before: Rank,
    /// Numbers of goals.
    old: u32,
    new: u32,
    /// Its position in the new side.
    pub number: u32,
}

impl<K: Key> Item<K> {
    /// One that stands, and would not.
    pub fn gone(key: K, goal: u32) -> Item<K> {
        Item { key, before: key.rank(), old: goal, new: NONE, number: NONE }
    }
}

/// Routes or labels that change alike.
#[derive(Clone, Debug)]
pub(super) struct Run<K> {
    pub items: Vec<Item<K>>,
    /// Whether they stand before, and behind.
    had: bool,
    has: bool,
    /// They stand in both as they are, and are here for what they need.
    same: bool,
    old_needs: Vec<Id>,
    new_needs: Vec<Id>,
}

pub(super) type RouteKey = (u32, IpNet, Rank);
pub(super) type LabelKey = (u32, u32, bool);

/// All runs, with what they lead to.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub goals: Arc<Vec<Goal>>,
    pub routes: Vec<Run<RouteKey>>,
    pub labels: Vec<Run<LabelKey>>,
    /// Routes and labels of commands that no document brought, with the numbers of their goals.
    pub routes_stay: Vec<(RouteKey, u32)>,
    pub labels_stay: Vec<(LabelKey, u32)>,
}

/// A key of a bulk kind.
pub(super) trait Key: Copy + Ord + Hash {
    /// What it needs itself.
    fn table(self) -> Option<Id>;
    /// The table in which next hops without interface are looked up, where they do not say it.
    fn hops_table(self) -> u32;
    /// Whether paths into a table of the route's own kind lead into one of IPv6.
    fn v6(self) -> bool;
    /// Which of the routes of a prefix it is.
    fn rank(self) -> Rank;
    /// Where it stands among the keys of other prefixes.
    fn prefix_order(&self, other: &Self) -> Ordering;
}

impl Key for RouteKey {
    fn table(self) -> Option<Id> {
        (self.0 != 0).then(|| Id::Table(RouteTable::of(self.1.addr(), self.0)))
    }

    fn hops_table(self) -> u32 {
        self.0
    }

    fn v6(self) -> bool {
        self.1.addr().is_ipv6()
    }

    fn rank(self) -> Rank {
        self.2
    }

    fn prefix_order(&self, other: &Self) -> Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl Key for LabelKey {
    fn table(self) -> Option<Id> {
        (self.0 != 0).then_some(Id::LabelTable(self.0))
    }

    fn hops_table(self) -> u32 {
        0
    }

    fn v6(self) -> bool {
        false
    }

    fn rank(self) -> Rank {
        Rank::STATIC
    }

    fn prefix_order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
}

/// Targets of a batch by goal and rank.
type Targets = HashMap<(u32, Rank), TargetId>;

/// What runs are told apart by: what they do, and what they need.
type Alike = (bool, bool, bool, Vec<Id>, Vec<Id>);

struct Needs<'g> {
    goals: &'g [Goal],
    known: HashMap<(u32, bool, Option<Id>), Arc<Vec<Id>>>,
}

impl Needs<'_> {
    fn of<K: Key>(&mut self, key: K, goal: u32) -> Arc<Vec<Id>> {
        let (v6, table) = (key.v6(), key.table());
        let goals = self.goals;
        let make = || {
            let mut all = goals.get(goal as usize).map(|g| g.needs(v6)).unwrap_or_default();
            all.extend(table.clone());
            all.sort();
            all.dedup();
            Arc::new(all)
        };
        Arc::clone(self.known.entry((goal, v6, table.clone())).or_insert_with(make))
    }
}

/// Routes of one table and family that are made or taken away are one run each. `was` has the new numbers of old goals.
fn runs<K: Key>(
    old: &[(K, u32, Place)],
    new: &[(K, u32, Place)],
    was: impl Fn(u32) -> u32,
    goals: &[Goal],
    beside: &Beside<'_>,
) -> (Vec<Run<K>>, Vec<(K, u32)>) {
    // From nothing, in the order of the document: a batch sorts itself.
    let new = if old.is_empty() { Sorted::as_is(new) } else { Sorted::of(new) };
    let old = Sorted::of(old);
    // Goals that need nothing, of routes of IPv4 and of IPv6 in table 0.
    let free = |v6| goals.iter().map(|g| g.needs(v6).is_empty()).collect::<Vec<bool>>();
    let free = [free(false), free(true)];
    let mut needs = Needs { goals, known: HashMap::new() };
    let mut by: HashMap<Alike, usize> = HashMap::new();
    let mut out: Vec<Run<K>> = vec![];
    let mut last: Option<(u32, u32, Option<Id>, bool, usize)> = None;
    let mut put = |item: Item<K>| {
        let (table, v6) = (item.key.table(), item.key.v6());
        // Nothing ever takes them along.
        let same = item.old == item.new && item.before == item.key.rank();
        if same && table.is_none() && free[usize::from(v6)].get(item.new as usize) == Some(&true) {
            return;
        }
        // Neighbours are mostly alike.
        if let Some((o, n, t, six, at)) = &last
            && (*o, *n, *six) == (item.old, item.new, v6)
            && *t == table
            && item.before == item.key.rank()
        {
            if *at != usize::MAX
                && let Some(run) = out.get_mut(*at)
            {
                run.items.push(item);
            }
            return;
        }
        let of = |needs: &mut Needs<'_>, goal| match goal {
            NONE => vec![],
            goal => needs.of(item.key, goal).to_vec(),
        };
        let (old_needs, new_needs) = (of(&mut needs, item.old), of(&mut needs, item.new));
        let (had, has) = (item.old != NONE, item.new != NONE);
        let moves = item.before != item.key.rank();
        let at = if same && old_needs.is_empty() {
            // Nothing ever takes them along.
            usize::MAX
        } else {
            let alike = match (had, has) {
                (true, true) => (had, has, same, old_needs.clone(), new_needs.clone()),
                _ => (had, has, v6, table.clone().into_iter().collect(), vec![]),
            };
            let next = out.len();
            let at = *by.entry(alike).or_insert(next);
            if at == next {
                out.push(Run { items: vec![], had, has, same, old_needs: vec![], new_needs: vec![] });
            }
            if let Some(run) = out.get_mut(at) {
                for (all, more) in [(&mut run.old_needs, old_needs), (&mut run.new_needs, new_needs)] {
                    if all.is_empty() {
                        *all = more;
                    } else if *all != more {
                        all.extend(more);
                        all.sort();
                        all.dedup();
                    }
                }
                run.items.push(item);
            }
            at
        };
        last = (!moves).then_some((item.old, item.new, table, v6, at));
    };
    let (mut stay, mut wants) = (vec![], Needs { goals, known: HashMap::new() });
    let mut stays = |key: K, goal: u32| {
        let hops = goals.get(goal as usize).into_iter().flat_map(|g| g.hops(key.hops_table()));
        let stays = beside.brought.is_some() && beside.stays(key, &wants.of(key, goal), hops);
        if stays {
            stay.push((key, goal));
        }
        stays
    };
    pairs(&old, &new, |before, is| {
        let before = before.filter(|o| {
            let other = is.is_none_or(|n| n.0 != o.0);
            let goal = was(o.1);
            let stays = other && stays(o.0, goal);
            if stays {
                put(Item { key: o.0, before: o.0.rank(), old: goal, new: goal, number: NONE });
            }
            !stays
        });
        let (key, new, number) = match (before, is) {
            (_, Some(n)) => n,
            (Some(o), None) => (o.0, NONE, 0),
            (None, None) => return,
        };
        let (before, old) = before.map_or((key, NONE), |o| (o.0, was(o.1)));
        put(Item { key, before: before.rank(), old, new, number });
    });
    (out, stay)
}

/// Compares the bulk of two sides: the runs, which are objects of both models from here on.
/// With what a document brought, routes and labels of others stay.
pub(super) fn compare(
    sides: [&Side; 2],
    old: &mut Model<Id, Value>,
    new: &mut Model<Id, Value>,
    brought: Option<&Brought>,
) -> Runs {
    let [from, to] = sides.map(|s| &s.bulk);
    let mut all = Bulk { goals: to.goals.clone(), numbers: to.numbers.clone(), ..Bulk::default() };
    let number: Vec<u32> = from.goals.iter().map(|g| all.goal(g.clone())).collect();
    let was = |g: u32| number.get(g as usize).copied().unwrap_or(NONE);
    let beside = Beside::new(brought, old, new);
    let (routes, routes_stay) = runs(&from.routes, &to.routes, was, &all.goals, &beside);
    let (labels, labels_stay) = runs(&from.labels, &to.labels, was, &all.goals, &beside);
    for (n, r) in routes.iter().enumerate() {
        r.objects(Id::Routes(n), &all.goals, sides, old, new);
    }
    for (n, r) in labels.iter().enumerate() {
        r.objects(Id::Labels(n), &all.goals, sides, old, new);
    }
    Runs { goals: Arc::new(all.goals), routes, labels, routes_stay, labels_stay }
}

/// What next hops are by these goals, each of what looks them up in a table: a token each.
fn tokens(goals: &[Goal], of: &[(u32, u32)], what: &str) -> Vec<u64> {
    let all = of.iter().filter_map(|(goal, table)| Some((goals.get(*goal as usize)?, *table)));
    all.flat_map(|(goal, table)| goal.hops(table)).map(|h| h.token(what)).collect()
}

impl Bulk {
    /// Whose next hops may not be the router's own, nor nobody's: their tokens.
    pub fn bars(&self) -> Vec<u64> {
        let (mut last, mut all) = (None, HashSet::new());
        let routes = self.routes.iter().map(|(key, goal, _)| (*goal, key.hops_table()));
        for one in routes.chain(self.labels.iter().map(|(key, goal, _)| (*goal, key.hops_table()))) {
            // Neighbours are mostly alike.
            if last.replace(one) != Some(one) {
                all.insert(one);
            }
        }
        tokens(&self.goals, &all.into_iter().collect::<Vec<_>>(), "own")
    }
}

impl<K: Key> Run<K> {
    fn objects(
        &self,
        id: Id,
        goals: &[Goal],
        sides: [&Side; 2],
        old: &mut Model<Id, Value>,
        new: &mut Model<Id, Value>,
    ) {
        let ends = |which: fn(&Item<K>) -> u32, whats: [&str; 2]| {
            let mut all: Vec<(u32, u32)> =
                self.items.iter().map(|i| (which(i), i.key.hops_table())).collect();
            all.sort_unstable();
            all.dedup();
            whats.map(|what| tokens(goals, &all, what))
        };
        if self.had {
            let [takes, _] = ends(|i| i.old, ["hop", "own"]);
            let object = Object {
                needs: self.old_needs.clone(),
                takes,
                place: sides[0].bulk_place,
                follows: sides[0].carry(&self.old_needs),
                ..Object::new(Value::Run(self.same))
            };
            old.set_at(id.clone(), object);
        }
        if self.has {
            let [takes, bars] = ends(|i| i.new, ["hop", "own"]);
            let object = Object {
                needs: self.new_needs.clone(),
                takes,
                bars,
                place: sides[1].bulk_place,
                follows: sides[1].carry(&self.new_needs),
                ..Object::new(Value::Run(true))
            };
            new.set_at(id, object);
        }
    }

    /// Whether they stand before or behind a step.
    fn is(&self, item: &Item<K>, new: bool) -> Option<u32> {
        Some(if new { item.new } else { item.old }).filter(|g| *g != NONE)
    }
}

impl Runs {
    /// What they are called.
    pub fn ids(&self) -> impl Iterator<Item = Id> + use<> {
        let (routes, labels) = (self.routes.len(), self.labels.len());
        (0..routes).map(Id::Routes).chain((0..labels).map(Id::Labels))
    }

    /// How many a run has.
    pub fn len(&self, id: &Id) -> usize {
        match id {
            Id::Routes(n) => self.routes.get(*n).map_or(0, |r| r.items.len()),
            Id::Labels(n) => self.labels.get(*n).map_or(0, |r| r.items.len()),
            _ => 1,
        }
    }

    /// The batches of a step, or those that undo it (`back`, with the phase turned round already), of some items of a run, with
    /// the position of each change in the new side.
    pub fn ops(
        &self,
        router: &Router,
        id: &Id,
        items: std::ops::Range<usize>,
        phase: Phase,
        back: bool,
    ) -> Vec<(Op, Vec<u32>)> {
        let to = (phase != Phase::Remove).then_some(!back);
        let mut out = vec![];
        match id {
            Id::Routes(n) => {
                let Some(run) = self.routes.get(*n) else { return out };
                let mut batch: Option<(RouteBatch, Vec<u32>, Targets)> = None;
                for item in run.items.get(items).unwrap_or_default() {
                    let (table, prefix, rank) = item.key;
                    // What goes in place of what comes.
                    let (rank, other) = if back { (item.before, rank) } else { (rank, item.before) };
                    if batch.as_ref().is_some_and(|b| b.0.table() != table) {
                        out.extend(batch.take().map(|(b, n, _)| (Op::Routes(b), n)));
                    }
                    let (b, numbers, targets) =
                        batch.get_or_insert_with(|| (RouteBatch::in_table(table), vec![], HashMap::new()));
                    match to.and_then(|new| run.is(item, new)) {
                        Some(goal) => {
                            let target = *targets.entry((goal, rank)).or_insert_with(|| {
                                let goal = self.goals.get(goal as usize);
                                b.ranked(rank, goal.map_or(Target::Drop, |g| g.target(router)))
                            });
                            b.set(prefix, target);
                            if phase == Phase::Change && other != rank {
                                b.del_ranked(prefix, other);
                                numbers.push(item.number);
                            }
                        }
                        None => b.del_ranked(prefix, other),
                    }
                    numbers.push(item.number);
                }
                out.extend(batch.map(|(b, n, _)| (Op::Routes(b), n)));
            }
            Id::Labels(n) => {
                let Some(run) = self.labels.get(*n) else { return out };
                let mut batch: Option<(LabelBatch, Vec<u32>)> = None;
                for item in run.items.get(items).unwrap_or_default() {
                    let (table, label, bottom) = item.key;
                    if batch.as_ref().is_some_and(|b| b.0.table() != table) {
                        out.extend(batch.take().map(|(b, n)| (Op::from(MplsOp::Routes(b)), n)));
                    }
                    let (b, numbers) = batch.get_or_insert_with(|| (LabelBatch::in_table(table), vec![]));
                    match to.and_then(|new| run.is(item, new)) {
                        Some(goal) => {
                            let goal = self.goals.get(goal as usize);
                            let target = goal.map_or(Target::Drop, |g| g.target(router));
                            b.set(label, bottom, &target);
                        }
                        None => b.del(label, bottom),
                    }
                    numbers.push(item.number);
                }
                out.extend(batch.map(|(b, n)| (Op::from(MplsOp::Routes(b)), n)));
            }
            _ => {}
        }
        out
    }

    /// The goals of an item before and behind.
    pub fn goals_of<K>(&self, item: &Item<K>) -> (Option<&Goal>, Option<&Goal>) {
        (self.goals.get(item.old as usize), self.goals.get(item.new as usize))
    }
}

impl Side {
    /// What carries packets over the interfaces of these.
    fn carry(&self, needs: &[Id]) -> Vec<Id> {
        let interfaces =
            needs.iter().filter_map(|n| if let Id::Interface(name) = n { Some(name) } else { None });
        interfaces.filter_map(|n| self.carried.get(n)).flatten().cloned().collect()
    }

    /// Routes of what runs, which are not read from text.
    pub(super) fn add_route(&mut self, key: RouteKey, goal: u32) {
        self.bulk.routes.push((key, goal, Place::default()));
    }

    pub(super) fn add_goal(&mut self, goal: Goal) -> u32 {
        self.bulk.goal(goal)
    }
}
