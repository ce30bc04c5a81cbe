//! What changed of prefixes, in order, for those who follow it: which prefix, not what became of it, so that a change takes
//! few bytes and what is told is never older than the table. Nothing is kept while nobody follows.

use super::{RouteInfo, RouteTable, Router};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::VecDeque;
use std::task::Waker;
use tables::groups::GroupId;

/// The most changes that are kept. Who is further behind has a gap.
const MOST: usize = 1 << 18;

/// The last changes.
#[derive(Default)]
pub(super) struct Told {
    followers: usize,
    /// Number of the first that is kept.
    first: u64,
    changes: VecDeque<(RouteTable, IpNet)>,
    waiting: Vec<Waker>,
}

/// Changes that are not kept any more: all from one number up to another that is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first.
    pub from: u64,
    /// The first that is not lost.
    pub to: u64,
}

impl Told {
    fn next(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    fn note(&mut self, table: RouteTable, prefix: IpNet) {
        if self.changes.len() == MOST {
            self.changes.pop_front();
            self.first += 1;
        }
        self.changes.push_back((table, prefix));
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Router {
    /// Routes of a prefix are others than before, or another of them is used.
    #[inline]
    pub(super) fn tell_change(&mut self, fib_index: FibIndex, prefix: IpNet) {
        if self.told.followers != 0
            && let Some(vrf) = self.fibs.get(prefix.addr().is_ipv6(), fib_index)
        {
            self.told.note(vrf.table, prefix);
        }
    }

    /// Whether somebody follows what changes of prefixes.
    pub(super) fn are_routes_followed(&self) -> bool {
        self.told.followers != 0
    }

    /// Begins to keep what changes of prefixes, and answers the number that the next change gets.
    /// [`Router::unfollow_routes`] must follow.
    pub fn follow_routes(&mut self) -> u64 {
        self.told.followers += 1;
        self.told.next()
    }

    /// One follower less: after the last one nothing is kept.
    pub fn unfollow_routes(&mut self) {
        let told = &mut self.told;
        told.followers = told.followers.saturating_sub(1);
        if told.followers == 0 {
            told.first = told.next();
            told.changes = VecDeque::new();
            told.waiting = vec![];
        }
    }

    /// The prefixes that changed from this number on, so many at most, each as often as it changed.
    ///
    /// # Errors
    /// Changes from there on are not kept any more.
    pub fn changed_routes(
        &self,
        from: u64,
        most: usize,
    ) -> Result<impl Iterator<Item = (RouteTable, IpNet)> + '_, Lost> {
        let told = &self.told;
        if from < told.first {
            return Err(Lost { from, to: told.next() });
        }
        let skip = usize::try_from(from - told.first).unwrap_or(usize::MAX).min(told.changes.len());
        Ok(told.changes.range(skip..).take(most).copied())
    }

    /// The number that the next change gets.
    pub fn next_route_change(&self) -> u64 {
        self.told.next()
    }

    /// Wakes who waits for the next change.
    pub fn wake_at_route_change(&mut self, waker: &Waker) {
        if !self.told.waiting.iter().any(|w| w.will_wake(waker)) {
            self.told.waiting.push(waker.clone());
        }
    }

    /// The routes of one prefix of a table; nothing where it has none.
    pub fn routes_at(&self, table: RouteTable, prefix: IpNet) -> Option<RouteInfo> {
        let vrf = self.fibs.of(table)?;
        match vrf.rib.get(prefix) {
            Some(group) => Some(self.route_info(vrf, (prefix, group))),
            None => super::backup::withdrawn(vrf, prefix),
        }
    }

    /// What tells what a next-hop group stands for from what any other group ever stood for, also one of its number.
    pub fn group_serial(&self, id: GroupId) -> Option<u64> {
        self.nexthops.hop(id).map(|h| h.serial)
    }
}
