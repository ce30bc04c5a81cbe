//! The neighbour table: RFC 4861, section 7, for IPv6; the same machine for IPv4 (RFC 826; unicast polls of RFC 1122,
//! 2.3.2.1).
//!
//! Each event costs O(log n) and each tick O(log n) for every entry that is due, whatever the size of the table.
//! Memory is bounded by [`NeighborConfig::max_entries`]. Who is turned away or evicted when there is no room:
//! the rules stand in `table/store.rs`, after RFC 6583.

mod store;

#[cfg(test)]
mod flood;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;

use super::config::NeighborConfig;
use super::entry::{Entry, NeighborInfo, State};
use super::limiter::Limiter;
use super::log::NeighborLog;
use super::{Key, Millis, random};
use packet::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use store::{Link, Newcomer};

/// The first and the last of all addresses.
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const LAST: IpAddr = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));

/// What the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send an ARP request or a neighbour solicitation.
    Solicit {
        /// The interface.
        interface: u32,
        /// The address asked for.
        target: IpAddr,
        /// Straight to this station, otherwise broadcast or to the solicited-node group.
        unicast: Option<MacAddr>,
        /// Counts from 1.
        attempt: u8,
    },
    /// Write the forwarding entry; replaces one with another MAC address. Repeated when a worker asks again for an
    /// address that is known: release its packets.
    Publish {
        /// The interface.
        interface: u32,
        /// The neighbour.
        addr: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// Make the forwarding entry incomplete: the next packet asks for resolution.
    Withdraw {
        /// The interface.
        interface: u32,
        /// The neighbour.
        addr: IpAddr,
    },
    /// Give up the packets held for this address: host unreachable.
    Failed {
        /// The interface.
        interface: u32,
        /// The address.
        addr: IpAddr,
    },
    /// Tell the operator.
    Log(NeighborLog),
}

/// What was heard from a neighbour, as `wire` reads it from a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An ARP request. Not `for_us`: for somebody else, or gratuitous.
    ArpRequest {
        /// The target is an address of ours.
        for_us: bool,
    },
    /// An ARP reply.
    ArpReply {
        /// Sent to our MAC and IP address; not gratuitous.
        solicited: bool,
    },
    /// A neighbour solicitation for an address of ours, with a source address and the source link-layer option.
    NsWithSource,
    /// A neighbour advertisement.
    Na {
        /// The answer to a solicitation.
        solicited: bool,
        /// May replace a known MAC address.
        override_: bool,
        /// The neighbour is a router.
        router: bool,
    },
}

/// Why a static entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddStaticError {
    /// Group addresses and zero belong to no station.
    BadMac,
    /// Unspecified, multicast or broadcast.
    BadAddress,
    /// Every entry in the way is static.
    Full,
}

impl fmt::Display for AddStaticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadMac => "the MAC address of a neighbor must be unicast and not zero",
            Self::BadAddress => "the IP address of a neighbor must be unicast",
            Self::Full => "the neighbor table is full of static entries",
        })
    }
}

impl std::error::Error for AddStaticError {}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighborCounters {
    /// Solicitations to everybody.
    pub solicits: u64,
    /// Unicast probes.
    pub probes: u64,
    /// Resolutions without an answer.
    pub failed: u64,
    /// Neighbours that stopped to answer probes.
    pub lost: u64,
    /// Resolutions and neighbours turned away because there was no room.
    pub refused: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Changes of a known MAC address.
    pub moved: u64,
    /// Claims of a static entry's address by another MAC address.
    pub static_claimed: u64,
    /// Messages that changed nothing, as they concern no entry or must not create one.
    pub ignored: u64,
    /// Log lines held back because there were too many.
    pub logs_suppressed: u64,
}

/// The neighbours of all interfaces.
#[derive(Debug)]
pub struct NeighborTable {
    config: NeighborConfig,
    entries: BTreeMap<Key, Entry>,
    timers: BTreeSet<(Millis, Key)>,
    links: BTreeMap<u32, Link>,
    /// The links by number of entries, empty ones left out.
    by_size: BTreeSet<(usize, u32)>,
    random: u64,
    log_limit: Limiter,
    counters: NeighborCounters,
    /// What became of neighbours and was not told yet; none: nobody is told.
    changed: Option<Vec<Changed>>,
}

type Out<'a> = &'a mut Vec<Action>;

/// What is known of a neighbour that has a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The address.
    pub mac: MacAddr,
    /// The operator has set it.
    pub fixed: bool,
}

/// What was known of a neighbour, and what is known now.
pub type Changed = (Key, Option<Known>, Option<Known>);

impl NeighborTable {
    /// An empty table. `seed` spreads the reachable times.
    pub fn new(config: NeighborConfig, seed: u64) -> Self {
        Self {
            config: config.checked(),
            entries: BTreeMap::new(),
            timers: BTreeSet::new(),
            links: BTreeMap::new(),
            by_size: BTreeSet::new(),
            random: seed,
            log_limit: Limiter::new(5, 20),
            counters: NeighborCounters::default(),
            changed: None,
        }
    }

    /// A worker holds packets for `addr`. Answered at once or later with [`Action::Publish`] or [`Action::Failed`].
    pub fn resolve_wanted(&mut self, now: Millis, interface: u32, addr: IpAddr, out: Out<'_>) {
        let key = (interface, addr);
        let old = self.entries.get(&key).copied();
        let failed = Action::Failed { interface, addr };
        if !self.is_up(interface) || !is_host(addr) {
            out.push(failed);
            return;
        }
        match old {
            Some(e) if e.state.has_mac() => {
                self.used(now, interface, addr, out);
                out.push(Action::Publish { interface, addr, mac: e.mac });
            }
            Some(e) if e.state == State::Incomplete => {}
            Some(e) if now.since(e.since) < self.hold(e.failures) => out.push(failed),
            _ => {
                if !self.room_for(key, Newcomer::Resolution, now, out) {
                    self.refuse(key, now, out);
                    out.push(failed);
                    return;
                }
                let mut e = Entry::new(State::Incomplete, MacAddr::ZERO, now);
                e.failures = old.map_or(0, |old| old.failures);
                self.ask(key, &mut e, now, out);
                if e.reserved {
                    e.since = e.deadline.unwrap_or(now);
                }
                self.store(key, Some(e), out);
            }
        }
    }

    /// A message from a neighbour. `mac` is the sender hardware address of ARP, or the link-layer address option.
    ///
    /// The caller has checked that `addr` is on the link of the interface.
    pub fn heard(
        &mut self,
        now: Millis,
        interface: u32,
        addr: IpAddr,
        mac: Option<MacAddr>,
        what: Heard,
        out: Out<'_>,
    ) {
        let key = (interface, addr);
        if !self.is_up(interface) || !is_host(addr) || mac.is_some_and(|mac| !mac.is_station()) {
            self.counters.ignored += 1;
            return;
        }
        let Some(old) = self.entries.get(&key).copied() else {
            self.heard_of_unknown(key, mac, what, now, out);
            return;
        };
        match old.state {
            State::Failed => self.heard_of_unknown(key, mac, what, now, out),
            State::Static => {
                if let Some(by) = mac.filter(|mac| *mac != old.mac) {
                    self.counters.static_claimed += 1;
                    self.log(NeighborLog::StaticClaimed { interface, addr, by }, now, out);
                }
            }
            _ => {
                let Some(new) = self.heard_of_known(old, mac, what, now) else {
                    self.counters.ignored += 1;
                    return;
                };
                if old.state.has_mac() && new.mac != old.mac {
                    self.counters.moved += 1;
                    let moved = NeighborLog::Moved { interface, addr, from: old.mac, to: new.mac };
                    self.log(moved, now, out);
                }
                self.store(key, Some(new), out);
            }
        }
    }

    /// No entry, or one that failed: RFC 4861, 7.2.3 creates, 7.2.5 does not; RFC 826 creates for the target only.
    fn heard_of_unknown(&mut self, key: Key, mac: Option<MacAddr>, what: Heard, now: Millis, out: Out<'_>) {
        let creates = match what {
            Heard::ArpRequest { for_us: true } | Heard::NsWithSource => true,
            Heard::ArpRequest { for_us: false } | Heard::ArpReply { solicited: false } => {
                self.config.learn_gratuitous
            }
            Heard::ArpReply { solicited: true } | Heard::Na { .. } => false,
        };
        let Some(mac) = mac.filter(|_| creates) else {
            // It is there after all: the next packet may ask at once.
            self.store(key, None, out);
            self.counters.ignored += 1;
            return;
        };
        if !self.room_for(key, Newcomer::Learned, now, out) {
            self.refuse(key, now, out);
            return;
        }
        let mut e = Entry::new(State::Stale, mac, now);
        e.deadline = Some(now.after(self.config.gc_stale));
        self.store(key, Some(e), out);
    }

    /// The entry after the message; `None` when the message has no say.
    fn heard_of_known(
        &mut self,
        old: Entry,
        mac: Option<MacAddr>,
        what: Heard,
        now: Millis,
    ) -> Option<Entry> {
        let incomplete = old.state == State::Incomplete;
        let other = mac.is_some_and(|mac| mac != old.mac);
        let mut new = old;
        let confirmed = match what {
            Heard::Na { solicited, override_, router } => {
                if incomplete {
                    mac?;
                } else if !override_ && other {
                    // RFC 4861, 7.2.5, I: doubt what is known, take nothing over.
                    if old.state != State::Reachable {
                        return None;
                    }
                    new.enter(State::Stale, now, Some(now.after(self.config.gc_stale)));
                    return Some(new);
                }
                new.router = router;
                solicited
            }
            Heard::ArpReply { solicited } => {
                mac?;
                solicited
            }
            Heard::ArpRequest { .. } | Heard::NsWithSource => {
                mac?;
                false
            }
        };
        new.mac = mac.unwrap_or(old.mac);
        new.fresh = now;
        if confirmed {
            let reachable = self.reachable_time();
            new.failures = 0;
            new.enter(State::Reachable, now, Some(now.after(reachable)));
        } else if incomplete || other {
            new.failures = 0;
            new.enter(State::Stale, now, Some(now.after(self.config.gc_stale)));
        } else if new.state == State::Stale {
            new.deadline = Some(now.after(self.config.gc_stale));
        }
        Some(new)
    }

    /// A packet went to the neighbour, as the counter of its adjacency says. Only stale entries take note
    /// ([`NeighborTable::stale`] lists them): they are probed soon.
    pub fn used(&mut self, now: Millis, interface: u32, addr: IpAddr, out: Out<'_>) {
        let key = (interface, addr);
        if let Some(mut e) = self.entries.get(&key).copied().filter(|e| e.state == State::Stale) {
            e.fresh = now;
            e.enter(State::Delay, now, Some(now.after(self.config.delay_first_probe)));
            self.store(key, Some(e), out);
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Millis, out: Out<'_>) {
        while let Some(&(at, key)) = self.timers.first() {
            if at > now {
                break;
            }
            let Some(old) = self.entries.get(&key).copied() else {
                self.timers.pop_first();
                continue;
            };
            let new = self.expire(key, old, now, out);
            self.store(key, new, out);
        }
    }

    /// The entry after its deadline; `None` to forget it. Any new deadline lies after `now`.
    fn expire(&mut self, key: Key, mut e: Entry, now: Millis, out: Out<'_>) -> Option<Entry> {
        match e.state {
            State::Incomplete if e.attempts < self.config.max_multicast_solicit => {
                self.ask(key, &mut e, now, out);
            }
            State::Incomplete => {
                self.counters.failed += 1;
                e.failures = e.failures.saturating_add(1);
                // Kept for as long again after the hold, to know that the next failure is not the first.
                let keep = self.hold(e.failures).saturating_mul(2);
                e.enter(State::Failed, now, Some(now.after(keep)));
            }
            State::Reachable => e.enter(State::Stale, now, Some(now.after(self.config.gc_stale))),
            State::Delay => {
                e.enter(State::Probe, now, None);
                self.ask(key, &mut e, now, out);
            }
            State::Probe if e.attempts < self.config.max_unicast_solicit => {
                self.ask(key, &mut e, now, out);
            }
            State::Probe => {
                self.counters.lost += 1;
                return None;
            }
            State::Stale | State::Failed => return None,
            State::Static => e.deadline = None,
        }
        Some(e)
    }

    /// Sends the next solicitation, or waits for the place that the limiter gives.
    fn ask(&mut self, (interface, target): Key, e: &mut Entry, now: Millis, out: Out<'_>) {
        let unicast = e.known_mac();
        if !e.reserved
            && let Some(link) = self.links.get_mut(&interface)
        {
            let limit = if unicast.is_some() { &mut link.probes } else { &mut link.solicits };
            let at = limit.reserve(now);
            if at > now {
                e.reserved = true;
                e.deadline = Some(at);
                return;
            }
        }
        e.reserved = false;
        e.attempts = e.attempts.saturating_add(1);
        e.deadline = Some(now.after(self.config.retrans_timer));
        *(if unicast.is_some() { &mut self.counters.probes } else { &mut self.counters.solicits }) += 1;
        out.push(Action::Solicit { interface, target, unicast, attempt: e.attempts });
    }

    /// When to call [`NeighborTable::tick`] next.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Sets a static entry, in place of any other. While the interface is down it waits.
    pub fn add_static(
        &mut self,
        now: Millis,
        interface: u32,
        addr: IpAddr,
        mac: MacAddr,
        out: Out<'_>,
    ) -> Result<(), AddStaticError> {
        if !mac.is_station() {
            return Err(AddStaticError::BadMac);
        }
        if !is_host(addr) {
            return Err(AddStaticError::BadAddress);
        }
        let key = (interface, addr);
        self.link(interface);
        if !self.room_for(key, Newcomer::Static, now, out) {
            return Err(AddStaticError::Full);
        }
        self.store(key, Some(Entry::new(State::Static, mac, now)), out);
        Ok(())
    }

    /// Forgets a neighbour, a static one too. `false`: there was none.
    pub fn delete(&mut self, interface: u32, addr: IpAddr, out: Out<'_>) -> bool {
        let known = self.entries.contains_key(&(interface, addr));
        self.store((interface, addr), None, out);
        known
    }

    /// Forgets what was learned on an interface; static entries stay.
    pub fn flush(&mut self, interface: u32, out: Out<'_>) {
        let keys: Vec<Key> =
            self.range(interface).filter(|(_, e)| e.state != State::Static).map(|(key, _)| *key).collect();
        for key in keys {
            self.store(key, None, out);
        }
    }

    /// The interface has link and may send. Static entries are published.
    pub fn interface_up(&mut self, interface: u32, out: Out<'_>) {
        if !std::mem::replace(&mut self.link(interface).up, true) {
            for (&(interface, addr), e) in self.range(interface) {
                out.push(Action::Publish { interface, addr, mac: e.mac });
            }
        }
    }

    /// The interface cannot send. What was learned is forgotten, static entries are withdrawn.
    pub fn interface_down(&mut self, interface: u32, out: Out<'_>) {
        if self.is_up(interface) {
            self.flush(interface, out);
            self.link(interface).up = false;
            out.extend(
                self.range(interface).map(|(&(interface, addr), _)| Action::Withdraw { interface, addr }),
            );
        }
    }

    /// The interface is gone, with its static entries.
    pub fn interface_removed(&mut self, interface: u32, out: Out<'_>) {
        let keys: Vec<Key> = self.range(interface).map(|(key, _)| *key).collect();
        for key in keys {
            self.store(key, None, out);
        }
        self.links.remove(&interface);
    }

    /// One neighbour.
    pub fn get(&self, interface: u32, addr: IpAddr) -> Option<NeighborInfo> {
        let key = (interface, addr);
        self.entries.get(&key).map(|e| e.info(key))
    }

    /// All neighbours, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.entries.iter().map(|(key, e)| e.info(*key))
    }

    /// The neighbours behind that of an interface and address, or all.
    pub fn iter_after(&self, after: Option<Key>) -> impl Iterator<Item = NeighborInfo> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(|(key, e)| e.info(*key))
    }

    /// The neighbours of an interface, by address.
    pub fn iter_interface(&self, interface: u32) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.range(interface).map(|(key, e)| e.info(*key))
    }

    /// Those of them behind an address, or all.
    pub fn iter_interface_after(
        &self,
        interface: u32,
        after: Option<IpAddr>,
    ) -> impl Iterator<Item = NeighborInfo> + '_ {
        let first = after.map_or(Bound::Included((interface, FIRST)), |a| Bound::Excluded((interface, a)));
        self.entries.range((first, Bound::Included((interface, LAST)))).map(|(key, e)| e.info(*key))
    }

    /// The stale neighbours: those whose adjacency counters are worth a look, for [`NeighborTable::used`].
    pub fn stale(&self) -> impl Iterator<Item = Key> + '_ {
        self.links.iter().flat_map(|(interface, link)| link.stale().map(|addr| (*interface, addr)))
    }

    /// Number of entries, failed ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No entry at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether changes are kept for [`NeighborTable::told`], which is to be called soon behind each call.
    pub fn tell(&mut self, on: bool) {
        self.changed = on.then(Vec::new);
    }

    /// What changed since it was last asked for, in order.
    pub fn told(&mut self) -> Vec<Changed> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What happened since the start.
    pub fn counters(&self) -> NeighborCounters {
        self.counters
    }

    fn range(&self, interface: u32) -> impl Iterator<Item = (&Key, &Entry)> {
        self.entries.range((interface, FIRST)..=(interface, LAST))
    }

    fn is_up(&self, interface: u32) -> bool {
        self.links.get(&interface).is_some_and(|link| link.up)
    }

    /// How long packets are refused after so many failures in a row.
    fn hold(&self, failures: u8) -> u64 {
        let doublings = u32::from(failures.saturating_sub(1)).min(32);
        self.config.negative.saturating_mul(1 << doublings).min(self.config.negative_max)
    }

    /// ReachableTime (RFC 4861, 6.3.2), drawn anew for each confirmation.
    fn reachable_time(&mut self) -> u64 {
        let spread = self.config.base_reachable * u64::from(self.config.reachable_spread) / 100;
        let drawn = random(&mut self.random) % (2 * spread + 1);
        (self.config.base_reachable - spread + drawn).max(1)
    }

    fn refuse(&mut self, (interface, addr): Key, now: Millis, out: Out<'_>) {
        self.counters.refused += 1;
        self.log(NeighborLog::Full { interface, addr }, now, out);
    }

    fn log(&mut self, line: NeighborLog, now: Millis, out: Out<'_>) {
        if self.log_limit.allow(now) {
            out.push(Action::Log(line));
        } else {
            self.counters.logs_suppressed += 1;
        }
    }
}

/// An address that one station can have.
fn is_host(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(a) => !a.is_unspecified() && !a.is_multicast() && !a.is_broadcast() && !a.is_loopback(),
        IpAddr::V6(a) => !a.is_unspecified() && !a.is_multicast() && !a.is_loopback(),
    }
}
