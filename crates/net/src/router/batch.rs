//! Many changes of routes of one source as one operation, in 16 bytes a route (IPv6: 32).

use super::{Rank, RouteObject, RoutePath, Source, Target};
use ipnet::IpNet;
use std::collections::HashMap;

/// Number of a target within its [`RouteBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetId(u32);

/// What happens to the route of a prefix, or to a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It gets this target, whatever it was.
    Set,
    /// It gets the target's paths as well.
    Add,
    /// It loses the target's paths, and goes with the last of them.
    DelPaths,
    /// It goes.
    Del,
}

/// What a route becomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Goal {
    pub rank: Rank,
    /// See [`RouteBatch::by_object`].
    pub object: RouteObject,
    /// Where to; none for a route that goes.
    pub target: Option<Target>,
}

/// So few goals are looked through one by one.
const FEW: usize = 8;
const VERBS: [Verb; 4] = [Verb::Set, Verb::Add, Verb::DelPaths, Verb::Del];
/// Bits of `Change::what` that number the goal; the verb stands above them.
const TARGET_BITS: u32 = 30;

/// One change. The order is that of prefixes, and for the same prefix the one in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change<K> {
    /// The prefix, in host order.
    pub key: K,
    /// Position in the batch, both families together.
    pub at: u32,
    what: u32,
    /// Prefix length.
    pub len: u8,
}

impl<K> Change<K> {
    pub fn verb(&self) -> Verb {
        VERBS[(self.what >> TARGET_BITS) as usize]
    }

    pub fn target(&self) -> usize {
        (self.what & ((1 << TARGET_BITS) - 1)) as usize
    }
}

/// Changes of the routes of one source, static ones if it is made by [`RouteBatch::new`], to be applied by one [`super::Op::Routes`]: the way to load a table of a million routes.
///
/// Targets are given once and named by number. The changes are applied as if one after the other; the order in which
/// different prefixes are touched is the router's own choice.
///
/// A source may have several routes of one prefix, which differ in their [`Rank`]: a change is one of the route that has
/// the rank of its target. [`RouteBatch::target`] and [`RouteBatch::del`] stand for the rank that the source's routes have
/// where nothing is said.
///
/// ```
/// use net::router::{Op, RouteBatch, RoutePath, Target};
///
/// let mut batch = RouteBatch::new();
/// let path = RoutePath { address: Some("192.0.2.1".parse().unwrap()), interface: None, table: None, weight: 1, ..Default::default() };
/// let via = batch.target(Target::Paths(vec![path]));
/// for n in 0..=255u8 {
///     batch.set(ipnet::Ipv4Net::new([10, n, 0, 0].into(), 16).unwrap().into(), via);
/// }
/// assert_eq!(batch.len(), 256);
/// let op = Op::Routes(batch); // for Router::commit(vec![op])
/// # drop(op);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RouteBatch {
    /// Number of the table.
    pub(super) table: u32,
    /// Whose routes they are.
    pub(super) source: Source,
    /// The rank of routes of which nothing else is said.
    rank: Rank,
    /// The targets by number.
    pub(super) goals: Vec<Goal>,
    /// Their numbers, where they are many.
    numbers: HashMap<Goal, u32>,
    /// The goal of the last route that goes.
    gone: Option<(Rank, TargetId)>,
    pub(super) v4: Vec<Change<u32>>,
    pub(super) v6: Vec<Change<u128>>,
}

impl Default for RouteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl RouteBatch {
    /// No changes, of static routes in table 0.
    pub fn new() -> Self {
        Self::in_table(0)
    }

    /// No changes, of static routes in the tables of this number.
    pub fn in_table(table: u32) -> Self {
        Self::made_for(Source::Static, Rank::STATIC, table)
    }

    /// No changes, of a source's routes in the tables of this number.
    pub(super) fn made_for(source: Source, rank: Rank, table: u32) -> Self {
        RouteBatch {
            table,
            source,
            rank,
            goals: vec![],
            numbers: HashMap::new(),
            gone: None,
            v4: vec![],
            v6: vec![],
        }
    }

    /// The number of its tables.
    pub fn table(&self) -> u32 {
        self.table
    }

    /// Makes room for so many changes of IPv4 and IPv6 routes.
    pub fn reserve(&mut self, v4: usize, v6: usize) {
        self.v4.reserve(v4);
        self.v6.reserve(v6);
    }

    /// The rank of routes of which nothing else is said.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of a target; equal ones have the same.
    pub fn target(&mut self, target: Target) -> TargetId {
        self.ranked(self.rank, target)
    }

    /// The number of a target of routes of a rank; equal ones have the same.
    pub fn ranked(&mut self, rank: Rank, target: Target) -> TargetId {
        self.by_object(rank, RouteObject::NONE, target)
    }

    /// The same of routes that lead by an object of their source's: those of one object move together
    /// ([`super::Router::move_object`]), and share next hops with no other.
    pub fn by_object(&mut self, rank: Rank, object: RouteObject, target: Target) -> TargetId {
        self.goal(Goal { rank, object, target: Some(target) })
    }

    fn goal(&mut self, goal: Goal) -> TargetId {
        let next = self.goals.len() as u32;
        if self.goals.len() < FEW {
            if let Some(at) = self.goals.iter().position(|g| *g == goal) {
                return TargetId(at as u32);
            }
            self.goals.push(goal);
            return TargetId(next);
        }
        if self.numbers.is_empty() {
            self.numbers.extend(self.goals.iter().cloned().zip(0..));
        }
        let id = *self.numbers.entry(goal.clone()).or_insert(next);
        if id == next {
            self.goals.push(goal);
        }
        TargetId(id)
    }

    /// Sets the route of a prefix, in place of an earlier one of the same rank.
    pub fn set(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::Set, target.0);
    }

    /// Adds the target's paths to the route of a prefix, or makes the route. A path that it has already gets
    /// the new weight. A target without paths is refused where the route does something else.
    pub fn add(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::Add, target.0);
    }

    /// Removes the target's paths, whatever their weights, from the route of a prefix; the route goes with its
    /// last path. Refused where the route does not have one of them. With a target without paths, removes a route that
    /// has this target.
    pub fn del_paths(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::DelPaths, target.0);
    }

    /// Removes the route of a prefix. Refused where there is no such static one.
    pub fn del(&mut self, prefix: IpNet) {
        self.del_ranked(prefix, self.rank);
    }

    /// Removes the route of a prefix that has this rank. Refused where there is no such static one.
    pub fn del_ranked(&mut self, prefix: IpNet, rank: Rank) {
        let goal = match self.gone {
            Some((known, goal)) if known == rank => goal,
            _ => self.goal(Goal { rank, object: RouteObject::NONE, target: None }),
        };
        self.gone = Some((rank, goal));
        self.push(prefix, Verb::Del, goal.0);
    }

    /// A path without an address leads to neighbours on its interface. Of a host route that is one: the host itself, so that
    /// packets go to it without asking for it each time.
    fn for_host(&mut self, prefix: IpNet, target: TargetId) -> TargetId {
        let host = prefix.prefix_len() == prefix.max_prefix_len();
        let attached = |p: &RoutePath| p.address.is_none() && p.interface.is_some();
        let (rank, object, paths) = match self.goals.get(target.0 as usize) {
            Some(Goal { rank, object, target: Some(Target::Paths(paths)) })
                if host && paths.iter().any(attached) =>
            {
                (*rank, *object, paths)
            }
            _ => return target,
        };
        let address = |p: &RoutePath| match attached(p) {
            true => RoutePath { address: Some(prefix.addr()), ..*p },
            false => *p,
        };
        let paths = paths.iter().map(address).collect();
        self.by_object(rank, object, Target::Paths(paths))
    }

    fn push(&mut self, prefix: IpNet, verb: Verb, target: u32) {
        let (at, what, len) = (self.len() as u32, (verb as u32) << TARGET_BITS | target, prefix.prefix_len());
        match prefix {
            IpNet::V4(p) => self.v4.push(Change { key: p.addr().into(), at, what, len }),
            IpNet::V6(p) => self.v6.push(Change { key: p.addr().into(), at, what, len }),
        }
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Only the first `n` changes.
    pub fn truncate(&mut self, n: usize) {
        self.v4.retain(|c| (c.at as usize) < n);
        self.v6.retain(|c| (c.at as usize) < n);
    }
}
