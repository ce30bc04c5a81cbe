//! Routes that take over: of the routes of a prefix the best whose paths lead somewhere is used.

use super::nexthops::NextHops;
use super::{PrefixRoute, Router};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::BTreeSet;

/// So often a group may turn others before it is left as it is: two routes whose next hops each need the other one gone
/// would turn for ever.
const MOST_ROUNDS: usize = 16;

/// A prefix that has several routes: family and FIB index of its table, and the prefix.
type Place = (bool, FibIndex, IpNet);

/// Which prefixes are to be looked at when a group's paths all go, or one comes back.
#[derive(Default)]
pub(super) struct Backups {
    /// Prefixes with several routes, by the group of each.
    by_group: BTreeSet<(u32, Place)>,
    /// Groups whose paths all went, or came back, and whose prefixes are not looked at yet.
    turned: BTreeSet<u32>,
    /// They are looked at now.
    busy: bool,
}

impl Backups {
    /// A prefix has other routes than before.
    pub fn listed(&mut self, place: Place, before: &[PrefixRoute], now: &[PrefixRoute]) {
        if before.len() > 1 {
            before.iter().for_each(|e| _ = self.by_group.remove(&(e.group, place)));
        }
        if now.len() > 1 {
            self.by_group.extend(now.iter().map(|e| (e.group, place)));
        }
    }

    /// The paths of a group all went, or one came back.
    pub fn turn(&mut self, group: u32) {
        let (first, last) = ((group, FIRST), (group.saturating_add(1), FIRST));
        if self.by_group.range(first..last).next().is_some() {
            self.turned.insert(group);
        }
    }

    fn places(&self, group: u32) -> Vec<Place> {
        let all = self.by_group.range((group, FIRST)..(group.saturating_add(1), FIRST));
        all.map(|(_, place)| *place).collect()
    }
}

/// Before all places.
const FIRST: Place =
    (false, FibIndex(0), IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 0)));

impl NextHops {
    /// The route of a prefix that is used: the best whose paths lead somewhere, or the best where none of them does.
    pub fn chosen(&self, routes: &[PrefixRoute]) -> Option<PrefixRoute> {
        let alive = |e: &&PrefixRoute| self.hop(e.group).is_some_and(|h| !h.resolution.lost);
        routes.iter().find(alive).or(routes.first()).copied()
    }
}

impl Router {
    /// Prefixes whose route is lost take the next one, and those whose better one is back take that.
    pub(super) fn take_over(&mut self) {
        if self.nexthops.backups.busy || self.nexthops.backups.turned.is_empty() {
            return;
        }
        self.nexthops.backups.busy = true;
        for _ in 0..MOST_ROUNDS {
            let turned = std::mem::take(&mut self.nexthops.backups.turned);
            if turned.is_empty() {
                break;
            }
            let places: BTreeSet<Place> =
                turned.into_iter().flat_map(|g| self.nexthops.backups.places(g)).collect();
            let mut tables = BTreeSet::new();
            for (v6, fib_index, prefix) in places {
                let Some(list) = self.fibs.shared(fib_index, prefix) else { continue };
                let Some(best) = self.nexthops.chosen(list) else { continue };
                if self.fibs.group_of(fib_index, prefix) != Some(best.group) {
                    // In the place of another route it needs no memory.
                    if let Err(e) = self.fib_set(fib_index, prefix, best.group) {
                        self.note(true, e.message);
                    }
                    tables.insert((v6, fib_index));
                }
            }
            tables.into_iter().for_each(|(v6, fib_index)| self.settle(v6, fib_index));
        }
        if !self.nexthops.backups.turned.is_empty() {
            self.nexthops.backups.turned.clear();
            self.note(true, "routes whose next hops need each other's absence are left as they are");
        }
        self.nexthops.backups.busy = false;
    }
}
