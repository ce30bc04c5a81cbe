//! Routes: who wants which prefix, and what the forwarding table holds.

use super::fibs::{Fibs, Vrf};
use super::nexthops::NextHops;
use super::{NextHopInfo, Op, OpError, PrefixRoute, Rank, RouteBatch, RouteTable, Router, Source, Target};
use crate::plane::sources::{Marks, Nobodies};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use tables::RouteError;
use tables::groups::GroupId;

/// A route as `show ip fib` lists it.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    /// Its prefix.
    pub prefix: IpNet,
    /// Number of its next-hop group.
    pub group: GroupId,
    /// Other routes for the prefix, which are not used, the best first.
    pub hidden: Vec<PrefixRoute>,
    /// None of its routes leads anywhere, and it is taken out of the table that workers read.
    pub withdrawn: bool,
}

/// Counts of what was published for workers. A change of an interface or neighbour is to show in groups alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishCounts {
    /// Routes set and removed in the tables.
    pub routes: u64,
    /// Words of next-hop groups stored, each of which moves all routes of its group.
    pub groups: u64,
}

impl Fibs {
    pub fn group_of(&self, fib_index: FibIndex, p: IpNet) -> Option<GroupId> {
        self.get(p.addr().is_ipv6(), fib_index)?.rib.get(p)
    }

    pub fn remove_route(&mut self, fib_index: FibIndex, p: IpNet) -> Option<GroupId> {
        self.changes += 1;
        let vrf = self.get_mut(p.addr().is_ipv6(), fib_index)?;
        vrf.note_change(p);
        vrf.remove(p)
    }

    pub fn shared(&self, fib_index: FibIndex, p: IpNet) -> Option<&Vec<PrefixRoute>> {
        self.get(p.addr().is_ipv6(), fib_index)?.shared.get(&p)
    }
}

impl NextHops {
    pub fn has_static(&self, r: &RouteInfo) -> bool {
        let hidden = || r.hidden.iter().any(|e| e.source == Source::Static);
        self.source(r.group) == Some(Source::Static) || hidden()
    }
}

impl Router {
    pub(super) fn fib_set(
        &mut self,
        fib_index: FibIndex,
        p: IpNet,
        group: GroupId,
    ) -> Result<Option<GroupId>, OpError> {
        self.fibs.changes += 1;
        let Some(vrf) = self.fibs.get_mut(p.addr().is_ipv6(), fib_index) else {
            return Err(OpError::new(format!("route {p}: its table is gone")));
        };
        let done = vrf.insert(p, group);
        if done != Ok(Some(group)) {
            vrf.note_change(p);
        }
        done.map_err(|e| match (e, self.fibs.budget.short.or(self.config.route_memory)) {
            (RouteError::Full(_), Some(limit)) => self.out_of_memory(p, limit),
            (e, _) => OpError::new(format!("route {p}: {e}")),
        })
    }

    pub(super) fn out_of_memory(&self, p: IpNet, limit: usize) -> OpError {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let count = |v6| self.fibs.iter(v6).map(|v| v.rib.len()).sum::<usize>();
        let (v4, v6) = (count(false), count(true));
        if self.fibs.budget.short.is_some() {
            let text = format!(
                "route {p}: no memory is left for it beside a reserve and {v4} IPv4 and {v6} IPv6 routes: {}",
                graph::memory::HELP
            );
            return OpError { fits: Some(0), ..OpError::new(text) };
        }
        let text = format!(
            "route {p}: no memory is left for it. {v4} IPv4 and {v6} IPv6 routes take {:.1} MiB, and 'memory-mb' in \
             'quiver: routes:' allows {:.1}: allow more, or remove routes",
            mib(self.route_bytes()),
            mib(limit)
        );
        OpError { fits: Some(0), ..OpError::new(text) }
    }

    /// What was published for workers so far: changes of routes in the tables, and words of next-hop groups.
    pub fn published(&self) -> PublishCounts {
        PublishCounts { routes: self.fibs.changes, groups: self.nexthops.groups.stores() }
    }

    /// Bytes that all routes take, next-hop groups included.
    pub fn route_bytes(&self) -> usize {
        self.fibs.bytes() + self.nexthops.bytes()
    }

    /// The group of the route that a source has of a prefix and a rank, used or not.
    pub(super) fn group_of_route(
        &self,
        fib_index: FibIndex,
        prefix: IpNet,
        source: Source,
        rank: Rank,
    ) -> Option<GroupId> {
        let is = |e: &PrefixRoute| (e.source, e.rank) == (source, rank);
        match self.fibs.shared(fib_index, prefix) {
            None => {
                let alone = self.fibs.group_of(fib_index, prefix)?;
                self.nexthops.route(alone).filter(is).map(|e| e.group)
            }
            Some(list) => list.iter().find(|e| is(e)).map(|e| e.group),
        }
    }

    /// Gives the route that a source has of a prefix and a rank another group, makes it or removes it, and answers the
    /// group that it had. Who counts the users of groups is the caller, who also calls [`Router::settle`] in the end.
    pub(super) fn put(
        &mut self,
        fib_index: FibIndex,
        prefix: IpNet,
        (source, rank): (Source, Rank),
        group: Option<GroupId>,
    ) -> Result<Option<GroupId>, OpError> {
        let is = |e: &PrefixRoute| (e.source, e.rank) == (source, rank);
        let this = PrefixRoute { rank, source, group: group.unwrap_or_default() };
        let v6 = prefix.addr().is_ipv6();
        let mut alone = None;
        let before = match self.fibs.shared(fib_index, prefix) {
            Some(list) => list.clone(),
            None => match self.beside(fib_index, prefix, &this) {
                Some(_) if group.is_none() => return Ok(None),
                Some(other) => {
                    alone = Some(other);
                    vec![]
                }
                None if !this.is_set() => vec![],
                // A route that is withdrawn at once does not stand in the table.
                None if self.fibs.withdraws(v6, fib_index)
                    && group.is_some_and(|g| self.nexthops.is_lost(g)) =>
                {
                    alone = self.fibs.group_of(fib_index, prefix).and_then(|g| self.nexthops.route(g));
                    vec![]
                }
                None => return self.put_alone(fib_index, prefix, &this, group),
            },
        };
        let mut list: Vec<PrefixRoute> = before.iter().copied().chain(alone).collect();
        let old = list.iter().position(is).map(|i| list.remove(i).group);
        list.extend(group.map(|group| PrefixRoute { rank, source, group }));
        self.order_routes(&mut list);
        self.put_routes(fib_index, prefix, (&before, alone), list)?;
        Ok(old)
    }

    /// The route of a prefix that stands alone, and is another one than this.
    #[inline]
    fn beside(&self, fib_index: FibIndex, prefix: IpNet, this: &PrefixRoute) -> Option<PrefixRoute> {
        let vrf = self.fibs.get(prefix.addr().is_ipv6(), fib_index)?;
        // A full table of static routes is not looked up twice.
        if vrf.odd == 0 && !this.is_odd() {
            return None;
        }
        let alone = vrf.rib.get(prefix).and_then(|g| self.nexthops.route(g))?;
        ((alone.source, alone.rank) != (this.source, this.rank)).then_some(alone)
    }

    /// [`Router::put`] of a prefix that has no other route.
    #[inline]
    fn put_alone(
        &mut self,
        fib_index: FibIndex,
        prefix: IpNet,
        this: &PrefixRoute,
        group: Option<GroupId>,
    ) -> Result<Option<GroupId>, OpError> {
        let old = match group {
            Some(g) => self.fib_set(fib_index, prefix, g)?,
            None => self.fibs.remove_route(fib_index, prefix),
        };
        if old != group {
            self.tell_change(fib_index, prefix);
        }
        if this.is_odd()
            && old.is_some() != group.is_some()
            && let Some(vrf) = self.fibs.get_mut(prefix.addr().is_ipv6(), fib_index)
        {
            if group.is_some() {
                vrf.odd += 1;
            } else {
                vrf.odd -= 1;
            }
        }
        Ok(old)
    }

    /// Adds or replaces the route for a prefix of a source that is not the operator.
    pub(crate) fn set_route(
        &mut self,
        fib_index: FibIndex,
        prefix: IpNet,
        source: Source,
        target: Target,
    ) -> Result<(), OpError> {
        let prefix = prefix.trunc();
        let v6 = prefix.network().is_ipv6();
        let was = self.is_nobodys(fib_index, prefix, source);
        let group = self.hold_group(source, RouteTable { v6, id: 0 }, target)?;
        let result = self.put(fib_index, prefix, (source, self.rank_of(source)), Some(group));
        self.settle(v6, fib_index);
        if let Ok(old) = result {
            self.nexthops.add_route(group);
            self.leave_for_good(old);
            self.mark_nobodys(fib_index, prefix, source, was);
        }
        self.let_go(group);
        result.map(|_| ())
    }

    /// Removes the route for a prefix of a source that is not the operator.
    pub(crate) fn clear_route(&mut self, fib_index: FibIndex, prefix: IpNet, source: Source) {
        // Removing needs no memory, and what takes its place replaces it: it cannot fail.
        let was = self.is_nobodys(fib_index, prefix, source);
        if let Ok(old) = self.put(fib_index, prefix.trunc(), (source, self.rank_of(source)), None) {
            self.settle(prefix.addr().is_ipv6(), fib_index);
            self.leave_for_good(old);
            self.mark_nobodys(fib_index, prefix, source, was);
        }
    }

    /// Whether an IPv4 prefix is the network or broadcast address of an interface's prefix.
    fn is_nobodys(&self, fib_index: FibIndex, prefix: IpNet, source: Source) -> bool {
        let host = source == Source::Interface && matches!(prefix, IpNet::V4(n) if n.prefix_len() == 32);
        let nobodys = |t| matches!(t, Target::Broadcast | Target::DirectedBroadcast(_));
        host && self.route_at(fib_index, prefix, source).is_some_and(nobodys)
    }

    /// Has workers look for packets from such an address where that is new, and no more where it is gone.
    fn mark_nobodys(&mut self, fib_index: FibIndex, prefix: IpNet, source: Source, was: bool) {
        let IpNet::V4(net) = prefix else { return };
        let is = self.is_nobodys(fib_index, prefix, source);
        if is == was {
            return;
        }
        let (marks, nobodies) = (self.plane.publish::<Marks>(), self.plane.shared::<Nobodies>());
        let new = nobodies.count(net.addr().to_bits(), is, marks.load(&self.grace.guard));
        if let Some(marks) = new {
            self.publish(marks);
        }
    }

    fn leave_for_good(&mut self, group: Option<GroupId>) {
        if let Some(g) = group {
            self.nexthops.leave(g);
            self.let_go(g);
        }
    }

    /// What the best route of `source` wants for a prefix of table 0.
    pub fn route_of(&self, prefix: IpNet, source: Source) -> Option<Target> {
        self.route_at(FibIndex::MAIN, prefix, source)
    }

    /// What the best route of `source` wants for a prefix of a table.
    pub fn route_in(&self, table: u32, prefix: IpNet, source: Source) -> Option<Target> {
        let fib_index = self.fibs.fib_index(RouteTable::of(prefix.addr(), table))?;
        self.route_at(fib_index, prefix, source)
    }

    /// What the route of `source` of a rank wants for a prefix of a table.
    pub fn route_of_rank(&self, table: u32, prefix: IpNet, source: Source, rank: Rank) -> Option<Target> {
        let fib_index = self.fibs.fib_index(RouteTable::of(prefix.addr(), table))?;
        let group = self.group_of_route(fib_index, prefix.trunc(), source, rank)?;
        self.nexthops.target(group).cloned()
    }

    /// The ranks of the static routes of a prefix of a table.
    pub fn static_ranks(&self, table: u32, prefix: IpNet) -> Vec<Rank> {
        let Some(fib_index) = self.fibs.fib_index(RouteTable::of(prefix.addr(), table)) else {
            return vec![];
        };
        let alone = || self.fibs.group_of(fib_index, prefix).and_then(|g| self.nexthops.route(g));
        let list = match self.fibs.shared(fib_index, prefix) {
            Some(list) => list.clone(),
            None => alone().into_iter().collect(),
        };
        list.iter().filter(|e| e.source == Source::Static).map(|e| e.rank).collect()
    }

    pub(super) fn route_at(&self, fib_index: FibIndex, prefix: IpNet, source: Source) -> Option<Target> {
        let prefix = prefix.trunc();
        let is = |e: &PrefixRoute| e.source == source;
        let route = match self.fibs.shared(fib_index, prefix) {
            Some(list) => list.iter().find(|e| is(e)).copied(),
            None => {
                let alone = self.fibs.group_of(fib_index, prefix)?;
                self.nexthops.route(alone).filter(is)
            }
        };
        route.and_then(|e| self.nexthops.target(e.group)).cloned()
    }

    pub(super) fn route_info(&self, vrf: &Vrf, (prefix, group): (IpNet, GroupId)) -> RouteInfo {
        let list = vrf.shared.get(&prefix);
        let others = |l: &Vec<PrefixRoute>| l.iter().filter(|e| e.group != group).copied().collect();
        let hidden = list.map(others).unwrap_or_default();
        RouteInfo { prefix, group, hidden, withdrawn: false }
    }

    /// All routes of a table, by prefix.
    pub fn routes(&self, table: RouteTable) -> Box<dyn Iterator<Item = RouteInfo> + '_> {
        self.routes_after(table, None)
    }

    /// The routes of a table behind the prefix `after`, whether that is still there or not.
    pub fn routes_after(
        &self,
        table: RouteTable,
        after: Option<IpNet>,
    ) -> Box<dyn Iterator<Item = RouteInfo> + '_> {
        let behind = move |p: IpNet| after.is_none_or(|after| p > after);
        let Some(vrf) = self.fibs.of(table) else { return Box::new(std::iter::empty()) };
        let routes = vrf.rib.iter_from(after.map(|p| p.addr())).filter(move |r| behind(r.0));
        let routes = routes.map(move |r| self.route_info(vrf, r));
        if vrf.withdrawn.is_empty() {
            return Box::new(routes);
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let gone = vrf.withdrawn.range((from, Bound::Unbounded));
        let mut gone = gone.filter_map(move |p| super::backup::withdrawn(vrf, *p)).peekable();
        let mut routes = routes.peekable();
        Box::new(std::iter::from_fn(move || match (routes.peek(), gone.peek()) {
            (Some(r), Some(g)) if g.prefix < r.prefix => gone.next(),
            (None, _) => gone.next(),
            _ => routes.next(),
        }))
    }

    /// Number of routes of a table.
    pub fn route_count(&self, table: RouteTable) -> usize {
        self.fibs.of(table).map_or(0, Vrf::routes)
    }

    /// Bytes that a table takes.
    pub fn table_bytes(&self, table: RouteTable) -> usize {
        self.fibs.of(table).map_or(0, |v| v.rib.bytes())
    }

    /// Every route of table 0 that holds an address, the shortest prefix first: the last one is used. Read from the
    /// control side's tree.
    pub fn covering(&self, addr: IpAddr) -> Vec<RouteInfo> {
        self.covering_in(0, addr)
    }

    /// [`Router::covering`] in a table.
    pub fn covering_in(&self, table: u32, addr: IpAddr) -> Vec<RouteInfo> {
        let Some(vrf) = self.fibs.of(RouteTable::of(addr, table)) else { return vec![] };
        vrf.rib.covering(addr).into_iter().map(|r| self.route_info(vrf, r)).collect()
    }

    /// The group that workers find for an address in table 0: read from the table that they read.
    pub fn lookup(&self, addr: IpAddr) -> Option<NextHopInfo> {
        self.lookup_in(0, addr)
    }

    /// [`Router::lookup`] in a table.
    pub fn lookup_in(&self, table: u32, addr: IpAddr) -> Option<NextHopInfo> {
        let fib_index = self.fibs.fib_index(RouteTable::of(addr, table))?;
        let id = match addr {
            IpAddr::V4(a) => {
                self.plane.tables4.slots.get(fib_index.0, &self.grace.guard)?.routes.lookup_one(a.into())
            }
            IpAddr::V6(a) => {
                self.plane.tables6.slots.get(fib_index.0, &self.grace.guard)?.routes.lookup_one(&a.octets())
            }
        };
        self.group(GroupId(id))
    }

    /// Prefixes of all static routes of table 0, in order.
    pub fn static_routes(&self) -> Vec<IpNet> {
        let of = |t| self.static_routes_of(t);
        of(RouteTable::V4).into_iter().chain(of(RouteTable::V6)).collect()
    }

    /// Prefixes of the static routes of a table, in order.
    pub fn static_routes_of(&self, table: RouteTable) -> Vec<IpNet> {
        self.routes(table).filter(|r| self.nexthops.has_static(r)).map(|r| r.prefix).collect()
    }

    /// The static routes of a prefix of [`Router::routes`], the best first: their groups.
    pub fn static_routes_at(&self, r: &RouteInfo) -> impl Iterator<Item = GroupId> + use<> {
        self.routes_of_prefix(r).filter(|e| e.source == Source::Static).map(|e| e.group)
    }

    /// What takes the routes of these prefixes of a table away, those of interfaces and neighbours left out.
    pub fn removal(&self, table: RouteTable, of: impl IntoIterator<Item = RouteInfo>) -> Vec<Op> {
        let mut batches: BTreeMap<Source, RouteBatch> = BTreeMap::new();
        for r in of {
            for e in self.routes_of_prefix(&r).filter(|e| e.is_set()) {
                let new = || RouteBatch::made_for(e.source, e.rank, table.id);
                batches.entry(e.source).or_insert_with(new).del_ranked(r.prefix, e.rank);
            }
        }
        batches.into_values().map(Op::Routes).collect()
    }

    /// All routes of a prefix of [`Router::routes`], the one in use first.
    pub fn routes_of_prefix(&self, r: &RouteInfo) -> impl Iterator<Item = PrefixRoute> + use<> {
        self.nexthops.route(r.group).into_iter().chain(r.hidden.clone())
    }
}

/// `1 route`, `2 routes`.
pub(crate) fn plural_routes(n: u32) -> String {
    format!("{n} route{}", if n == 1 { "" } else { "s" })
}
