//! The one place where entries change: keeps the indexes in step, derives what workers must be told, makes room.
//!
//! Rules for room (RFC 6583, 6.1 and 6.2): a new resolution may take the place of a failure, of a resolution that has
//! had its chance for one retransmission interval, or of a neighbour that has been stale for a while, and never of one
//! in use. A neighbour that spoke to us may displace any failure, resolution or stale one. Nothing displaces a static
//! entry. When the whole table is full the interface with the most entries pays.

use super::super::entry::{Class, Entry, State};
use super::super::limiter::Limiter;
use super::super::{Key, Millis};
use super::{Action, NeighborTable, Out};
use packet::MacAddr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// How many of the largest interfaces are looked at for a victim.
const LARGEST: usize = 8;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) up: bool,
    entries: usize,
    incomplete: usize,
    order: BTreeSet<(Class, Millis, IpAddr)>,
    pub(super) solicits: Limiter,
    pub(super) probes: Limiter,
}

impl Link {
    /// The first of a class in the order of eviction.
    fn first(&self, class: Class) -> Option<(Millis, IpAddr)> {
        self.from(class).next()
    }

    fn from(&self, class: Class) -> impl Iterator<Item = (Millis, IpAddr)> + '_ {
        self.order
            .range((class, Millis(0), IpAddr::V4(Ipv4Addr::UNSPECIFIED))..)
            .take_while(move |(of, ..)| *of == class)
            .map(|(_, age, addr)| (*age, *addr))
    }

    pub(super) fn stale(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.from(Class::Stale).map(|(_, addr)| addr)
    }
}

/// On whose behalf an entry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Newcomer {
    Resolution,
    Learned,
    Static,
}

impl NeighborTable {
    pub(super) fn link(&mut self, interface: u32) -> &mut Link {
        let config = &self.config;
        self.links.entry(interface).or_insert_with(|| Link {
            up: false,
            entries: 0,
            incomplete: 0,
            order: BTreeSet::new(),
            solicits: Limiter::new(config.solicit_rate, config.solicit_burst),
            probes: Limiter::new(config.probe_rate, config.probe_rate / 10),
        })
    }

    /// Replaces the entry of `key` and tells the workers the difference.
    pub(super) fn store(&mut self, key: Key, new: Option<Entry>, out: Out<'_>) {
        let old = match new {
            Some(e) => self.entries.insert(key, e),
            None => self.entries.remove(&key),
        };
        if old == new {
            return;
        }
        if let Some(changed) = &mut self.changed {
            let (was, now) = (old.and_then(|e| e.known()), new.and_then(|e| e.known()));
            if was != now {
                changed.push((key, was, now));
            }
        }
        let (interface, addr) = key;
        if let Some(at) = old.and_then(|e| e.deadline) {
            self.timers.remove(&(at, key));
        }
        if let Some(at) = new.and_then(|e| e.deadline) {
            self.timers.insert((at, key));
        }
        let incomplete = |e: Option<Entry>| e.is_some_and(|e| e.state == State::Incomplete);
        let link = self.link(interface);
        if let Some((class, age)) = old.and_then(|e| e.rank()) {
            link.order.remove(&(class, age, addr));
        }
        if let Some((class, age)) = new.and_then(|e| e.rank()) {
            link.order.insert((class, age, addr));
        }
        link.incomplete = link.incomplete + usize::from(incomplete(new)) - usize::from(incomplete(old));
        let before = link.entries;
        link.entries = before + usize::from(new.is_some()) - usize::from(old.is_some());
        let (after, up) = (link.entries, link.up);
        if before != after {
            self.by_size.remove(&(before, interface));
            if after > 0 {
                self.by_size.insert((after, interface));
            }
        }

        let forwards = |e: Option<Entry>| -> Option<MacAddr> { e.filter(|_| up)?.known_mac() };
        match (forwards(old), forwards(new)) {
            (was, Some(mac)) if was != Some(mac) => out.push(Action::Publish { interface, addr, mac }),
            (Some(_), None) => out.push(Action::Withdraw { interface, addr }),
            (None, None) if incomplete(old) && !incomplete(new) => {
                out.push(Action::Failed { interface, addr });
            }
            _ => {}
        }
    }

    /// Makes room for an entry at `key`. `false`: there is none to be had for this newcomer.
    pub(super) fn room_for(&mut self, key: Key, who: Newcomer, now: Millis, out: Out<'_>) -> bool {
        let (interface, _) = key;
        let max_incomplete = self.config.max_incomplete;
        if who == Newcomer::Resolution && self.link(interface).incomplete >= max_incomplete {
            let victim = self.link(interface).first(Class::Incomplete);
            match victim.filter(|(age, _)| self.may_evict(who, Class::Incomplete, *age, now)) {
                Some((_, addr)) => self.evict((interface, addr), out),
                None => return false,
            }
        }
        if self.entries.contains_key(&key) {
            return true;
        }
        while self.link(interface).entries >= self.config.max_per_interface {
            let Some(victim) = self.victim(interface, who, now) else { return false };
            self.evict(victim, out);
        }
        while self.entries.len() >= self.config.max_entries {
            let victim = self.by_size.iter().rev().take(LARGEST);
            let victim = victim.map(|(_, interface)| *interface).chain([interface]);
            let Some(victim) = victim.filter_map(|interface| self.victim(interface, who, now)).next() else {
                return false;
            };
            self.evict(victim, out);
        }
        true
    }

    fn victim(&self, interface: u32, who: Newcomer, now: Millis) -> Option<Key> {
        let link = self.links.get(&interface)?;
        [Class::Failed, Class::Incomplete, Class::Stale, Class::Live].into_iter().find_map(|class| {
            let (age, addr) = link.first(class)?;
            self.may_evict(who, class, age, now).then_some((interface, addr))
        })
    }

    fn may_evict(&self, who: Newcomer, class: Class, age: Millis, now: Millis) -> bool {
        match (who, class) {
            (Newcomer::Static, _) | (_, Class::Failed) => true,
            (_, Class::Live) => false,
            (Newcomer::Learned, _) => true,
            (Newcomer::Resolution, Class::Incomplete) => now >= age.after(self.config.retrans_timer),
            (Newcomer::Resolution, Class::Stale) => now >= age.after(self.config.stale_protect),
        }
    }

    fn evict(&mut self, key: Key, out: Out<'_>) {
        self.counters.evicted += 1;
        self.store(key, None, out);
    }
}
