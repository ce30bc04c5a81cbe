//! Neighbours that a route without a next hop puts on a link (`ip route add 55.0.0.0/24 via left`). Once known they have a
//! host route, as those of connected prefixes have, for as long as that route decides on them.

use super::adjacencies::AdjKey;
use super::{Router, Source, Target};
use crate::plane::kind;
use std::net::IpAddr;

impl Router {
    /// Whether the route that holds an address, host routes of neighbours left out, leads straight onto the link of an
    /// interface. One of several paths does not count: flows are then spread, and no host has a route.
    pub(super) fn is_attached(&self, index: u32, addr: IpAddr) -> bool {
        let v6 = addr.is_ipv6();
        let Some(vrf) = self.fibs.get(v6, self.table_of(index, v6)) else { return false };
        let covering = vrf.rib.covering(addr);
        let others = covering.iter().filter_map(|(_, group)| self.nexthops.hop(*group));
        let route = others.rev().find(|hop| hop.wish.source != Source::Neighbor);
        route.is_some_and(|hop| match &hop.wish.target {
            Target::Glean(i) => *i == index,
            Target::Paths(_) => match hop.resolution.leads[..] {
                [lead] => lead.kind == kind::GLEAN && lead.key == Some(AdjKey::Glean(index, v6)),
                _ => false,
            },
            _ => false,
        })
    }

    /// The host route of a neighbour hangs on the route that attaches it.
    pub(super) fn note_attached(&mut self, index: u32, addr: IpAddr) {
        let v6 = addr.is_ipv6();
        let place = self.table_of(index, v6);
        if let Some(vrf) = self.fibs.get_mut(v6, place) {
            vrf.attached.insert(addr, index);
        }
    }

    /// A neighbour on an interface has no host route any more.
    pub(super) fn forget_attached(&mut self, index: u32, addr: IpAddr) {
        let v6 = addr.is_ipv6();
        let place = self.table_of(index, v6);
        if let Some(vrf) = self.fibs.get_mut(v6, place)
            && vrf.attached.get(&addr) == Some(&index)
        {
            vrf.attached.remove(&addr);
        }
    }

    /// Prefixes of a table changed over these neighbours: those that no route attaches any more lose their host routes.
    pub(super) fn follow_attached(&mut self, v6: bool, place: u32, neighbors: Vec<(IpAddr, u32)>) {
        for (addr, index) in neighbors {
            if self.table_of(index, v6) == place && self.is_attached(index, addr) {
                continue;
            }
            if let Some(vrf) = self.fibs.get_mut(v6, place) {
                vrf.attached.remove(&addr);
            }
            self.clear_route(place, addr.into(), Source::Neighbor);
        }
    }

    /// An interface leaves a table: its neighbours have no routes there.
    pub(super) fn leave_table(&mut self, index: u32, v6: bool, place: u32) {
        let Some(vrf) = self.fibs.get(v6, place) else { return };
        let all = vrf.attached.iter().filter(|(_, at)| **at == index).map(|(a, at)| (*a, *at)).collect();
        self.follow_attached(v6, place, all);
    }
}
