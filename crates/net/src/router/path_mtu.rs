//! Path MTUs: what messages to the router say, and what workers are told.

use super::Router;
use crate::neighbor::Millis;
use crate::path_mtu::Told;
use crate::plane::kind;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// A path MTU as the operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuInfo {
    /// Number of the table.
    pub table: u32,
    /// The destination.
    pub to: IpAddr,
    /// Bytes.
    pub mtu: u16,
    /// Milliseconds since it was heard of last.
    pub age_ms: u64,
}

impl Router {
    /// An ICMP message came on an interface, from its IP header.
    pub(super) fn heard_path_mtu(&mut self, now: Millis, interface: u32, message: &[u8]) {
        let Some(told) = Told::read(message) else { return };
        // Nothing is between two hosts of one link.
        if matches!(told.to, IpAddr::V6(a) if a.is_unicast_link_local()) {
            return;
        }
        let v6 = told.to.is_ipv6();
        let place = self.table_of(interface, v6);
        let table = self.fibs.get(v6, place).map_or(0, |v| v.table.id);
        let own = self.lookup_in(table, told.own);
        if !own.is_some_and(|g| g.paths.iter().any(|p| p.entry.kind == kind::LOCAL)) {
            return;
        }
        if self.path_mtus.learn(now, place, told) {
            self.publish_path_mtus();
        }
    }

    /// Forgets path MTUs that are too old.
    pub(super) fn age_path_mtus(&mut self, now: Millis) {
        if self.path_mtus.age(now) {
            self.publish_path_mtus();
        }
    }

    fn publish_path_mtus(&mut self) {
        self.publish(self.path_mtus.published());
    }

    /// What was learnt.
    pub fn path_mtus(&self) -> Vec<PathMtuInfo> {
        let now = self.now();
        let info = |((place, to), l): ((u32, IpAddr), crate::path_mtu::Learnt)| PathMtuInfo {
            table: self.table_at(to.is_ipv6(), place),
            to,
            mtu: l.mtu,
            age_ms: now.0.saturating_sub(l.at.0),
        };
        self.path_mtus.iter().map(info).collect()
    }

    /// Workers tell the time by their own clock: what is to be added to it.
    pub(super) fn set_wall(&self) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        self.plane.wall.store(wall.wrapping_sub(graph::clock::Clock::new().now_ns()), Relaxed);
    }
}
