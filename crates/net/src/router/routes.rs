//! Routes: who wants which prefix, and what the forwarding table holds.

use super::{NextHopInfo, OpError, Router, Source, Target};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

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

impl Router {
    fn fib_get(&self, p: IpNet) -> Option<u32> {
        match p {
            IpNet::V4(p) => self.fib4.get(p.addr().into(), p.prefix_len()),
            IpNet::V6(p) => self.fib6.get(p.addr().into(), p.prefix_len()),
        }
    }

    fn fib_set(&mut self, p: IpNet, group: u32) -> Result<(), OpError> {
        let done = match p {
            IpNet::V4(p) => self.fib4.insert(p.addr().into(), p.prefix_len(), group),
            IpNet::V6(p) => self.fib6.insert(p.addr().into(), p.prefix_len(), group),
        };
        done.map(|_| ()).map_err(|e| OpError::new(format!("route {p}: {e}")))
    }

    fn fib_remove(&mut self, p: IpNet) {
        match p {
            IpNet::V4(p) => self.fib4.remove(p.addr().into(), p.prefix_len()),
            IpNet::V6(p) => self.fib6.remove(p.addr().into(), p.prefix_len()),
        };
    }

    /// Adds or replaces `source`'s route for a prefix; answers what it was.
    pub(super) fn set_route(
        &mut self,
        prefix: IpNet,
        source: Source,
        target: Target,
    ) -> Result<Option<Target>, OpError> {
        let prefix = prefix.trunc();
        let group = self.hold_group(source, prefix.network().is_ipv6(), target)?;
        let current = self.fib_get(prefix);
        let used_by = current.and_then(|g| self.nexthops.source(g));
        let place = match used_by {
            Some(s) if s < source => None,
            Some(s) => Some(Some(s)),
            None => Some(None),
        };
        let Some(replaced) = place else {
            // A better source has the prefix: wait behind it.
            let list = self.hidden.entry(prefix).or_default();
            let old = list.iter().position(|(s, _)| *s == source).map(|i| list.remove(i).1);
            list.push((source, group));
            list.sort();
            let was = old.and_then(|g| self.group(g)).map(|g| g.target);
            old.into_iter().for_each(|g| self.release_group(g));
            return Ok(was);
        };
        if let Err(e) = self.fib_set(prefix, group) {
            self.release_group(group);
            return Err(e);
        }
        let Some(old) = current else { return Ok(None) };
        if replaced == Some(source) {
            let was = self.group(old).map(|g| g.target);
            self.release_group(old);
            return Ok(was);
        }
        if let Some(s) = replaced {
            let list = self.hidden.entry(prefix).or_default();
            list.push((s, old));
            list.sort();
        }
        Ok(None)
    }

    /// Removes `source`'s route for a prefix; answers what it was.
    pub(super) fn clear_route(&mut self, prefix: IpNet, source: Source) -> Option<Target> {
        let prefix = prefix.trunc();
        let current = self.fib_get(prefix)?;
        if self.nexthops.source(current) != Some(source) {
            let list = self.hidden.get_mut(&prefix)?;
            let i = list.iter().position(|(s, _)| *s == source)?;
            let group = list.remove(i).1;
            if list.is_empty() {
                self.hidden.remove(&prefix);
            }
            let was = self.group(group).map(|g| g.target);
            self.release_group(group);
            return was;
        }
        let next = match self.hidden.get_mut(&prefix) {
            Some(list) if !list.is_empty() => {
                let next = list.remove(0).1;
                if list.is_empty() {
                    self.hidden.remove(&prefix);
                }
                Some(next)
            }
            _ => None,
        };
        match next {
            Some(g) => {
                // Replacing in place needs no memory, so it cannot fail.
                let _ = self.fib_set(prefix, g);
            }
            None => self.fib_remove(prefix),
        }
        let was = self.group(current).map(|g| g.target);
        self.release_group(current);
        was
    }

    /// What `source` wants for a prefix.
    pub fn route_of(&self, prefix: IpNet, source: Source) -> Option<Target> {
        let prefix = prefix.trunc();
        let current = self.fib_get(prefix)?;
        if self.nexthops.source(current) == Some(source) {
            return self.group(current).map(|g| g.target);
        }
        let list = self.hidden.get(&prefix)?;
        let (_, g) = list.iter().find(|(s, _)| *s == source)?;
        self.group(*g).map(|g| g.target)
    }

    fn route_info(&self, prefix: IpNet, group: u32) -> RouteInfo {
        let hidden =
            self.hidden.get(&prefix).map(|l| l.iter().map(|(s, _)| *s).collect()).unwrap_or_default();
        RouteInfo { prefix, group, hidden }
    }

    /// All routes of a table, by prefix.
    pub fn routes(&self, table: RouteTable) -> Box<dyn Iterator<Item = RouteInfo> + '_> {
        match table {
            RouteTable::V4 => Box::new(
                self.fib4
                    .iter()
                    .filter_map(|(a, l, g)| Some(self.route_info(Ipv4Net::new(a.into(), l).ok()?.into(), g))),
            ),
            RouteTable::V6 => Box::new(
                self.fib6
                    .iter()
                    .filter_map(|(a, l, g)| Some(self.route_info(Ipv6Net::new(a.into(), l).ok()?.into(), g))),
            ),
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

    fn has_static(&self, r: &RouteInfo) -> bool {
        self.nexthops.source(r.group) == Some(Source::Static) || r.hidden.contains(&Source::Static)
    }
}
