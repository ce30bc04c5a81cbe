//! Neighbours that a route without a next hop puts on a link (`ip route add 55.0.0.0/24 via left`). Once known they have a
//! host route, as those of connected prefixes have, for as long as that route decides on them.
//!
//! A neighbour may be known when the route that attaches it comes, or comes again: packets are forwarded then without asking
//! for it, and nothing but a look at the known neighbours of the link gives it its host route.

use super::adjacencies::{AdjKey, RouteMtu};
use super::neighbors::Neighbors;
use super::nexthops::Hop;
use super::{Router, Source, Target};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long known neighbours are looked at in one turn of the control side.
const TURN: Duration = Duration::from_millis(2);
/// Neighbours that are taken out of the list at once.
const AT_ONCE: usize = 64;
/// More stretches than so many are not kept: all neighbours are looked at.
const MOST_STRETCHES: usize = 64;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const LAST4: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);
const FIRST6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
const LAST: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
const ALL: (AdjKey, AdjKey) =
    (AdjKey::Neighbor(0, FIRST, 0), AdjKey::Neighbor(u32::MAX, LAST, RouteMtu::MAX));

/// Stretches of the known neighbours, from first to last, whose host routes are to be looked at.
#[derive(Default)]
pub(super) struct Again(VecDeque<(AdjKey, AdjKey)>);

impl Again {
    fn add(&mut self, stretch: (AdjKey, AdjKey)) {
        // One that has begun is another: what changed may lie behind where it is.
        let stretch = if self.0.len() < MOST_STRETCHES { stretch } else { ALL };
        if !self.0.contains(&stretch) {
            self.0.push_back(stretch);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Neighbors {
    /// All known neighbours are looked at in the turns that follow.
    pub fn look_at_all_again(&mut self) {
        if !self.known.is_empty() {
            self.again.add(ALL);
        }
    }

    /// The known neighbours of a family on an interface are looked at in the turns that follow.
    pub fn look_again_at(&mut self, index: u32, v6: bool) {
        let (first, last) = if v6 { (FIRST6, LAST) } else { (FIRST, LAST4) };
        let stretch = AdjKey::neighbors(index, first, last).into_inner();
        if self.known.range(stretch.0..=stretch.1).next().is_some() {
            self.again.add(stretch);
        }
    }
}

impl Router {
    /// Whether the route that holds an address, host routes of neighbours left out, leads straight onto the link of an
    /// interface.
    pub(super) fn is_attached(&self, index: u32, addr: IpAddr) -> bool {
        let v6 = addr.is_ipv6();
        self.attached_by(v6, self.table_of(index, v6), addr.into()) == Some(index)
    }

    /// The interface onto whose link the route leads that decides on a prefix, host routes of neighbours left out.
    fn attached_by(&self, v6: bool, fib_index: FibIndex, prefix: IpNet) -> Option<u32> {
        let covering = self.fibs.get(v6, fib_index)?.rib.covering(prefix.network());
        let around = covering.iter().rev().filter(|(p, _)| p.prefix_len() <= prefix.prefix_len());
        let mut others = around.filter_map(|(_, group)| self.nexthops.hop(*group));
        others.find(|hop| hop.group_key.source != Source::Neighbor).and_then(Hop::attaches)
    }

    /// Prefixes of a table changed, all of them for `None`: the neighbours that they attach now and that are known already
    /// are looked at in the turns that follow.
    pub(super) fn note_attaching(&mut self, v6: bool, fib_index: FibIndex, changed: Option<Vec<IpNet>>) {
        if self.neighbors.known.is_empty() {
            return;
        }
        let Some(changed) = changed else { return self.neighbors.again.add(ALL) };
        for p in changed {
            // A host route of a neighbour is what comes of this.
            let host = p.prefix_len() == p.max_prefix_len();
            if host && self.route_at(fib_index, p, Source::Neighbor).is_some() {
                continue;
            }
            let Some(index) = self.attached_by(v6, fib_index, p) else { continue };
            let stretch = AdjKey::neighbors(index, p.network(), p.broadcast()).into_inner();
            if self.neighbors.known.range(stretch.0..=stretch.1).next().is_some() {
                self.neighbors.again.add(stretch);
            }
        }
    }

    /// Looks at known neighbours whose routes changed, for a moment.
    pub(super) fn look_again(&mut self) {
        let until = Instant::now() + TURN;
        while let Some((next, last)) = self.neighbors.again.0.pop_front() {
            let keys: Vec<AdjKey> =
                self.neighbors.known.range(next..=last).take(AT_ONCE + 1).copied().collect();
            let done = keys.iter().take(AT_ONCE).try_for_each(|key| {
                if Instant::now() >= until {
                    return ControlFlow::Break(*key);
                }
                if let Some((interface, addr)) = key.neighbor() {
                    self.look_at(interface, addr);
                }
                ControlFlow::Continue(())
            });
            let rest = match done {
                ControlFlow::Break(key) => Some(key),
                ControlFlow::Continue(()) => keys.get(AT_ONCE).copied(),
            };
            if let Some(next) = rest {
                self.neighbors.again.0.push_front((next, last));
            }
            if done.is_break() {
                return;
            }
        }
    }

    /// Gives a known neighbour its host route, or takes it, as the routes are now.
    fn look_at(&mut self, index: u32, addr: IpAddr) {
        let v6 = addr.is_ipv6();
        let fib_index = self.table_of(index, v6);
        let route = self.route_at(fib_index, addr.into(), Source::Neighbor);
        if route == Some(Target::Neighbor(index, addr)) {
            match self.is_connected(index, addr) {
                true if self.sources.preferences.connected.is_none() => {
                    return self.forget_attached(index, addr);
                }
                true => self.note_attached(index, addr),
                false => {}
            }
            if self.fibs.get(v6, fib_index).is_some_and(|vrf| vrf.attached.get(&addr) == Some(&index)) {
                self.follow_attached(v6, fib_index, vec![(addr, index)]);
            }
        } else if route.is_none() || self.is_attached(index, addr) {
            self.route_neighbor(index, addr);
        }
    }

    /// Whether an address is in a connected prefix of an interface.
    fn is_connected(&self, index: u32, addr: IpAddr) -> bool {
        self.interfaces.get(index).is_some_and(|i| i.addresses.iter().any(|n| n.contains(&addr)))
    }

    /// Gives a neighbour its host route, where it is on a connected prefix or a route attaches it.
    pub(super) fn route_neighbor(&mut self, index: u32, addr: IpAddr) {
        // Connected prefixes decide, unless it is said that others come before them.
        let connected = self.is_connected(index, addr) && self.sources.preferences.connected.is_none();
        let attached = !connected && self.is_attached(index, addr);
        if !(connected || attached) {
            return;
        }
        if attached {
            self.note_attached(index, addr);
        }
        let target = Target::Neighbor(index, addr);
        let fib_index = self.table_of(index, addr.is_ipv6());
        let known = self.route_at(fib_index, addr.into(), Source::Neighbor);
        if known.as_ref() != Some(&target)
            && let Err(e) = self.set_route(fib_index, addr.into(), Source::Neighbor, target)
        {
            self.note(true, format!("neighbor {addr}: {e}"));
        }
    }

    /// The host route of a neighbour hangs on the route that attaches it.
    pub(super) fn note_attached(&mut self, index: u32, addr: IpAddr) {
        let v6 = addr.is_ipv6();
        let fib_index = self.table_of(index, v6);
        if let Some(vrf) = self.fibs.get_mut(v6, fib_index) {
            vrf.attached.insert(addr, index);
        }
    }

    /// A neighbour on an interface has no host route any more.
    pub(super) fn forget_attached(&mut self, index: u32, addr: IpAddr) {
        let v6 = addr.is_ipv6();
        let fib_index = self.table_of(index, v6);
        if let Some(vrf) = self.fibs.get_mut(v6, fib_index)
            && vrf.attached.get(&addr) == Some(&index)
        {
            vrf.attached.remove(&addr);
        }
    }

    /// Prefixes of a table changed over these neighbours: those that no route attaches any more lose their host routes.
    pub(super) fn follow_attached(&mut self, v6: bool, fib_index: FibIndex, neighbors: Vec<(IpAddr, u32)>) {
        for (addr, index) in neighbors {
            if self.table_of(index, v6) == fib_index && self.is_attached(index, addr) {
                continue;
            }
            if let Some(vrf) = self.fibs.get_mut(v6, fib_index) {
                vrf.attached.remove(&addr);
            }
            self.clear_route(fib_index, addr.into(), Source::Neighbor);
        }
    }

    /// An interface leaves a table: its neighbours have no routes there.
    pub(super) fn leave_table(&mut self, index: u32, v6: bool, fib_index: FibIndex) {
        let Some(vrf) = self.fibs.get(v6, fib_index) else { return };
        let all = vrf.attached.iter().filter(|(_, at)| **at == index).map(|(a, at)| (*a, *at)).collect();
        self.follow_attached(v6, fib_index, all);
    }
}
