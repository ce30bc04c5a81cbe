//! Many changes of static routes as one operation, in 16 bytes a route (IPv6: 32).

use super::{RoutePath, Target};
use ipnet::IpNet;
use std::collections::HashMap;

/// Number of a target within its [`RouteBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetId(u32);

/// What happens to the static route of a prefix, or to a label.
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

const VERBS: [Verb; 4] = [Verb::Set, Verb::Add, Verb::DelPaths, Verb::Del];
/// Bits of `Change::what` that number the target; the verb stands above them.
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

/// Changes of static routes, to be applied by one [`super::Op::Routes`]: the way to load a table of a million routes.
///
/// Targets are given once and named by number. The changes are applied as if one after the other; the order in which
/// different prefixes are touched is the router's own choice.
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteBatch {
    /// Number of the table.
    pub(super) table: u32,
    pub(super) targets: Vec<Target>,
    numbers: HashMap<Target, u32>,
    pub(super) v4: Vec<Change<u32>>,
    pub(super) v6: Vec<Change<u128>>,
}

impl RouteBatch {
    /// No changes, of table 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// No changes, of the tables of this number.
    pub fn in_table(table: u32) -> Self {
        RouteBatch { table, ..Self::default() }
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

    /// The number of a target; equal ones have the same.
    pub fn target(&mut self, target: Target) -> TargetId {
        let next = self.targets.len() as u32;
        let id = *self.numbers.entry(target.clone()).or_insert(next);
        if id == next {
            self.targets.push(target);
        }
        TargetId(id)
    }

    /// Sets the static route of a prefix, in place of an earlier one.
    pub fn set(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::Set, target.0);
    }

    /// Adds the target's paths to the static route of a prefix, or makes the route. A path that it has already gets
    /// the new weight. A target without paths is refused where the route does something else.
    pub fn add(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::Add, target.0);
    }

    /// Removes the target's paths, whatever their weights, from the static route of a prefix; the route goes with its
    /// last path. Refused where the route does not have one of them. With a target without paths, removes a route that
    /// has this target.
    pub fn del_paths(&mut self, prefix: IpNet, target: TargetId) {
        let target = self.for_host(prefix, target);
        self.push(prefix, Verb::DelPaths, target.0);
    }

    /// Removes the static route of a prefix. Refused where there is none.
    pub fn del(&mut self, prefix: IpNet) {
        self.push(prefix, Verb::Del, 0);
    }

    /// A path without an address leads to neighbours on its interface. Of a host route that is one: the host itself, so that
    /// packets go to it without asking for it each time.
    fn for_host(&mut self, prefix: IpNet, target: TargetId) -> TargetId {
        let host = prefix.prefix_len() == prefix.max_prefix_len();
        let attached = |p: &RoutePath| p.address.is_none() && p.interface.is_some();
        let paths = match self.targets.get(target.0 as usize) {
            Some(Target::Paths(paths)) if host && paths.iter().any(attached) => paths,
            _ => return target,
        };
        let address = |p: &RoutePath| match attached(p) {
            true => RoutePath { address: Some(prefix.addr()), ..*p },
            false => *p,
        };
        let paths = paths.iter().map(address).collect();
        self.target(Target::Paths(paths))
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
