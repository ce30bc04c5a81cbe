//! Routes: who wants which prefix, and what the forwarding table holds.

use super::{NextHopInfo, OpError, Router, Source, Target};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;
use tables::RouteError;

/// Which table to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteTable {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A route as `show ip fib` lists it.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    /// Its prefix.
    pub prefix: IpNet,
    /// Number of its next-hop group.
    pub group: u32,
    /// Sources that also have a route for the prefix, and are not used.
    pub hidden: Vec<Source>,
}

/// Counts of what was published for workers. A change of an interface or neighbour is to show in groups alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishCounts {
    /// Routes set and removed in the tables.
    pub routes: u64,
    /// Words of next-hop groups stored, each of which moves all routes of its group.
    pub groups: u64,
}

impl Router {
    fn fib_get(&self, p: IpNet) -> Option<u32> {
        match p {
            IpNet::V4(p) => self.fib4.get(p.addr().into(), p.prefix_len()),
            IpNet::V6(p) => self.fib6.get(p.addr().into(), p.prefix_len()),
        }
    }

    fn fib_set(&mut self, p: IpNet, group: u32) -> Result<Option<u32>, OpError> {
        self.fib_changes += 1;
        let done = match p {
            IpNet::V4(p) => self.fib4.insert(p.addr().into(), p.prefix_len(), group),
            IpNet::V6(p) => self.fib6.insert(p.addr().into(), p.prefix_len(), group),
        };
        done.map_err(|e| match (e, self.config.route_memory) {
            (RouteError::Full(_), Some(limit)) => self.out_of_memory(p, limit),
            (e, _) => OpError::new(format!("route {p}: {e}")),
        })
    }

    pub(super) fn out_of_memory(&self, p: IpNet, limit: usize) -> OpError {
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        let (v4, v6) = (self.fib4.len(), self.fib6.len());
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
        PublishCounts { routes: self.fib_changes, groups: self.nexthops.groups.stores() }
    }

    /// Bytes that all routes take, next-hop groups included.
    pub fn route_bytes(&self) -> usize {
        self.fib4.bytes() + self.fib6.bytes() + self.nexthops.bytes()
    }

    fn fib_remove(&mut self, p: IpNet) -> Option<u32> {
        self.fib_changes += 1;
        match p {
            IpNet::V4(p) => self.fib4.remove(p.addr().into(), p.prefix_len()),
            IpNet::V6(p) => self.fib6.remove(p.addr().into(), p.prefix_len()),
        }
    }

    /// The group of the static route of a prefix, used or not.
    pub(super) fn static_group(&self, prefix: IpNet) -> Option<u32> {
        match self.shared.get(&prefix) {
            None => self.fib_get(prefix),
            Some(list) => list.iter().find(|(s, _)| *s == Source::Static).map(|(_, g)| *g),
        }
    }

    /// Gives `source`'s route for a prefix another group, makes it or removes it, and answers the group that it had.
    /// Who counts the users of groups is the caller.
    pub(super) fn put(
        &mut self,
        prefix: IpNet,
        source: Source,
        group: Option<u32>,
    ) -> Result<Option<u32>, OpError> {
        if source == Source::Static && !self.shared.contains_key(&prefix) {
            return match group {
                Some(g) => self.fib_set(prefix, g),
                None => Ok(self.fib_remove(prefix)),
            };
        }
        let mut list = match self.shared.get(&prefix) {
            Some(list) => list.clone(),
            None => self.fib_get(prefix).map(|g| (Source::Static, g)).into_iter().collect(),
        };
        let used = list.first().map(|(_, g)| *g);
        let old = list.iter().position(|(s, _)| *s == source).map(|i| list.remove(i).1);
        list.extend(group.map(|g| (source, g)));
        list.sort_unstable();
        match list.first() {
            Some((_, g)) if used == Some(*g) => {}
            Some((_, g)) => {
                self.fib_set(prefix, *g)?;
            }
            None => {
                self.fib_remove(prefix);
            }
        }
        if list.iter().all(|(s, _)| *s == Source::Static) {
            self.shared.remove(&prefix);
        } else {
            self.shared.insert(prefix, list);
        }
        Ok(old)
    }

    /// Puts a static route back as it was.
    pub(super) fn put_back(&mut self, prefix: IpNet, group: Option<u32>) -> Result<Option<u32>, OpError> {
        self.put(prefix, Source::Static, group)
    }

    /// Adds or replaces the route for a prefix of a source that is not the operator.
    pub(super) fn set_route(&mut self, prefix: IpNet, source: Source, target: Target) -> Result<(), OpError> {
        let prefix = prefix.trunc();
        let group = self.hold_group(source, prefix.network().is_ipv6(), target)?;
        let result = self.put(prefix, source, Some(group));
        if let Ok(old) = result {
            self.nexthops.add_route(group);
            self.leave_for_good(old);
        }
        self.let_go(group);
        result.map(|_| ())
    }

    /// Removes the route for a prefix of a source that is not the operator.
    pub(super) fn clear_route(&mut self, prefix: IpNet, source: Source) {
        // Removing needs no memory, and what takes its place replaces it: it cannot fail.
        if let Ok(old) = self.put(prefix.trunc(), source, None) {
            self.leave_for_good(old);
        }
    }

    fn leave_for_good(&mut self, group: Option<u32>) {
        if let Some(g) = group {
            self.nexthops.leave(g);
            self.let_go(g);
        }
    }

    /// What `source` wants for a prefix.
    pub fn route_of(&self, prefix: IpNet, source: Source) -> Option<Target> {
        let prefix = prefix.trunc();
        let group = match self.shared.get(&prefix) {
            Some(list) => list.iter().find(|(s, _)| *s == source).map(|(_, g)| *g),
            None if source == Source::Static => self.fib_get(prefix),
            None => None,
        };
        group.and_then(|g| self.nexthops.target(g)).cloned()
    }

    fn route_info(&self, prefix: IpNet, group: u32) -> RouteInfo {
        let list = self.shared.get(&prefix);
        let hidden = list.map(|l| l.iter().skip(1).map(|(s, _)| *s).collect()).unwrap_or_default();
        RouteInfo { prefix, group, hidden }
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
        let behind = move |r: &RouteInfo| after.is_none_or(|after| r.prefix > after);
        match table {
            RouteTable::V4 => {
                let from = match after {
                    Some(IpNet::V4(p)) => p.addr().into(),
                    _ => 0,
                };
                let info = |(a, l, g): (u32, u8, u32)| {
                    Some(self.route_info(Ipv4Net::new(a.into(), l).ok()?.into(), g))
                };
                Box::new(self.fib4.iter_from(from).filter_map(info).filter(behind))
            }
            RouteTable::V6 => {
                let from = match after {
                    Some(IpNet::V6(p)) => p.addr().into(),
                    _ => 0,
                };
                let info = |(a, l, g): (u128, u8, u32)| {
                    Some(self.route_info(Ipv6Net::new(a.into(), l).ok()?.into(), g))
                };
                Box::new(self.fib6.iter_from(from).filter_map(info).filter(behind))
            }
        }
    }

    /// Number of routes of a table.
    pub fn route_count(&self, table: RouteTable) -> usize {
        match table {
            RouteTable::V4 => self.fib4.len(),
            RouteTable::V6 => self.fib6.len(),
        }
    }

    /// Bytes that a table takes.
    pub fn table_bytes(&self, table: RouteTable) -> usize {
        match table {
            RouteTable::V4 => self.fib4.bytes(),
            RouteTable::V6 => self.fib6.bytes(),
        }
    }

    /// Every route that holds an address, the shortest prefix first: the last one is used. Read from the control
    /// side's tree.
    pub fn covering(&self, addr: IpAddr) -> Vec<RouteInfo> {
        match addr {
            IpAddr::V4(a) => self
                .fib4
                .covering(a.into())
                .filter_map(|(a, l, g)| Some(self.route_info(Ipv4Net::new(a.into(), l).ok()?.into(), g)))
                .collect(),
            IpAddr::V6(a) => self
                .fib6
                .covering(a.into())
                .filter_map(|(a, l, g)| Some(self.route_info(Ipv6Net::new(a.into(), l).ok()?.into(), g)))
                .collect(),
        }
    }

    /// The group that workers find for an address: read from the table that they read.
    pub fn lookup(&self, addr: IpAddr) -> Option<NextHopInfo> {
        let id = match addr {
            IpAddr::V4(a) => self.plane.fib4.lookup_one(a.into()),
            IpAddr::V6(a) => self.plane.fib6.lookup_one(&u128::from(a)),
        };
        self.group(id)
    }

    /// Prefixes of all static routes, in order.
    pub fn static_routes(&self) -> Vec<IpNet> {
        let of = |t| self.routes(t).filter(|r| self.has_static(r)).map(|r| r.prefix);
        of(RouteTable::V4).chain(of(RouteTable::V6)).collect()
    }

    /// The static route of a prefix of [`Router::routes`]: its group.
    pub fn static_route(&self, r: &RouteInfo) -> Option<u32> {
        self.has_static(r).then(|| self.static_group(r.prefix)).flatten()
    }

    fn has_static(&self, r: &RouteInfo) -> bool {
        self.nexthops.source(r.group) == Some(Source::Static) || r.hidden.contains(&Source::Static)
    }
}
