//! The router's own addresses: duplicate address detection for IPv6 (RFC 4862, 5.4), announcement and defence for IPv4
//! (RFC 5227, 2.3 and 2.4) and IPv6 (RFC 4861, 7.2.6).
//!
//! An IPv4 address is used and announced as soon as its link is up; a conflict is answered by announcing it again, once
//! in [`AddressConfig::defend_interval`], and counted. An IPv6 address that turns out a duplicate during detection is
//! not used until the link comes up again or it is added anew; later conflicts are treated as those of IPv4.

#[cfg(test)]
mod tests;

use super::config::{AddressConfig, DadMode};
use super::limiter::Limiter;
use super::log::NeighborLog;
use super::{Key, Millis, random};
use packet::MacAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAction {
    /// Send a solicitation of duplicate address detection, from `::`.
    SendDadNs {
        /// The interface.
        interface: u32,
        /// The address in question.
        target: Ipv6Addr,
    },
    /// Send a neighbour advertisement to all nodes.
    SendUnsolicitedNa {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: Ipv6Addr,
    },
    /// Broadcast an ARP announcement.
    SendGratuitousArp {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: Ipv4Addr,
    },
    /// The address may be used: accept packets to it, send from it.
    Usable {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: IpAddr,
    },
    /// The address may not be used any more: it was removed or the link went down.
    Unusable {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: IpAddr,
    },
    /// Another station has the address. It may not be used, even if it was said to be usable.
    Duplicate {
        /// The interface.
        interface: u32,
        /// Our address.
        addr: IpAddr,
        /// The other station.
        by: MacAddr,
    },
    /// Tell the operator.
    Log(NeighborLog),
}

/// Where an address stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// The link is down.
    Down,
    /// Detection runs; not used.
    Tentative,
    /// Detection runs; used all the same.
    Optimistic,
    /// Used.
    Usable,
    /// Another station has it; not used.
    Duplicate,
}

impl AddressState {
    /// Whether packets to the address are ours.
    pub const fn is_usable(self) -> bool {
        matches!(self, Self::Optimistic | Self::Usable)
    }
}

impl fmt::Display for AddressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Down => "down",
            Self::Tentative => "tentative",
            Self::Optimistic => "optimistic",
            Self::Usable => "usable",
            Self::Duplicate => "duplicate",
        })
    }
}

/// How somebody else claimed an address of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// A solicitation from `::`: the other one is in detection, too.
    DadSolicit,
    /// A neighbour advertisement of the address.
    Advert,
    /// An ARP message from the address.
    Arp,
}

/// An interface with link, as far as addresses are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Our MAC address: what comes from it is no conflict.
    pub mac: MacAddr,
    /// What happens before an IPv6 address is used.
    pub dad: DadMode,
    /// There are other stations: detect and announce. False for a loopback.
    pub shared: bool,
}

/// An address as shown to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressInfo {
    /// The interface.
    pub interface: u32,
    /// Our address.
    pub addr: IpAddr,
    /// Where it stands.
    pub state: AddressState,
    /// Messages in conflict with it, since it was added.
    pub conflicts: u64,
    /// Who sent the last of them.
    pub last_conflict: Option<MacAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    state: AddressState,
    /// Solicitations of the detection sent.
    probes: u8,
    /// Announcements yet to send.
    announcements: u8,
    deadline: Option<Millis>,
    defended: Option<Millis>,
    conflicts: u64,
    last_conflict: Option<MacAddr>,
}

/// Addresses of all interfaces.
#[derive(Debug)]
pub struct AddressTable {
    config: AddressConfig,
    own: BTreeMap<Key, Own>,
    timers: BTreeSet<(Millis, Key)>,
    /// The interfaces with link.
    links: BTreeMap<u32, LinkSettings>,
    random: u64,
    log_limit: Limiter,
}

type Out<'a> = &'a mut Vec<AddressAction>;

impl AddressTable {
    /// No addresses. `seed` spreads the start of detection.
    pub fn new(config: AddressConfig, seed: u64) -> Self {
        Self {
            config: config.checked(),
            own: BTreeMap::new(),
            timers: BTreeSet::new(),
            links: BTreeMap::new(),
            random: seed,
            log_limit: Limiter::new(5, 20),
        }
    }

    /// The interface has link; its addresses start over. When it had link already only a new MAC address matters: it
    /// is announced; a new mode counts for later addresses.
    pub fn link_up(&mut self, now: Millis, interface: u32, settings: LinkSettings, out: Out<'_>) {
        let before = self.links.insert(interface, settings);
        for key in self.keys(interface) {
            match before {
                None => self.start(now, key, out),
                Some(old) if old.mac != settings.mac && self.settled(key) => self.announce(now, key, out),
                Some(_) => {}
            }
        }
    }

    /// Who sends to the addresses of an interface is to learn anew where they are.
    pub fn moved(&mut self, now: Millis, interface: u32, out: Out<'_>) {
        for key in self.keys(interface) {
            if self.settled(key) {
                self.announce(now, key, out);
            }
        }
    }

    /// The interface lost its link.
    pub fn link_down(&mut self, interface: u32, out: Out<'_>) {
        if self.links.remove(&interface).is_none() {
            return;
        }
        for key in self.keys(interface) {
            self.set_deadline(key, None);
            if let Some(own) = self.own.get_mut(&key) {
                if own.state.is_usable() {
                    out.push(AddressAction::Unusable { interface, addr: key.1 });
                }
                own.state = AddressState::Down;
            }
        }
    }

    /// An address was configured. `false`: it was there already.
    pub fn added(&mut self, now: Millis, interface: u32, addr: IpAddr, out: Out<'_>) -> bool {
        let key = (interface, addr);
        if self.own.contains_key(&key) {
            return false;
        }
        let own = Own {
            state: AddressState::Down,
            probes: 0,
            announcements: 0,
            deadline: None,
            defended: None,
            conflicts: 0,
            last_conflict: None,
        };
        self.own.insert(key, own);
        self.start(now, key, out);
        true
    }

    /// An address was taken away. `false`: it was not there.
    pub fn removed(&mut self, interface: u32, addr: IpAddr, out: Out<'_>) -> bool {
        let key = (interface, addr);
        self.set_deadline(key, None);
        let Some(own) = self.own.remove(&key) else { return false };
        if own.state.is_usable() {
            out.push(AddressAction::Unusable { interface, addr });
        }
        true
    }

    /// Another station claims `addr`. Claims of addresses that are not ours, and our own messages heard again, are
    /// ignored.
    pub fn conflict_seen(
        &mut self,
        now: Millis,
        interface: u32,
        addr: IpAddr,
        by: MacAddr,
        kind: ConflictKind,
        out: Out<'_>,
    ) {
        let key = (interface, addr);
        let Some(link) = self.links.get(&interface) else { return };
        let Some(own) = self.own.get_mut(&key) else { return };
        if by == link.mac {
            return;
        }
        match own.state {
            AddressState::Tentative | AddressState::Optimistic => {
                own.conflicts += 1;
                own.last_conflict = Some(by);
                own.state = AddressState::Duplicate;
                self.set_deadline(key, None);
                out.push(AddressAction::Duplicate { interface, addr, by });
                self.log(NeighborLog::Duplicate { interface, addr, by }, now, out);
            }
            // Somebody in detection asks whether the address is free: the usual answer tells.
            AddressState::Usable if kind != ConflictKind::DadSolicit => {
                own.conflicts += 1;
                own.last_conflict = Some(by);
                if own.defended.is_none_or(|at| now.since(at) >= self.config.defend_interval) {
                    own.defended = Some(now);
                    out.push(announcement(key));
                    self.log(NeighborLog::Defended { interface, addr, by }, now, out);
                }
            }
            _ => {}
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Millis, out: Out<'_>) {
        while let Some(&(at, key)) = self.timers.first()
            && at <= now
        {
            self.set_deadline(key, None);
            let Some(own) = self.own.get_mut(&key) else { continue };
            match own.state {
                AddressState::Tentative | AddressState::Optimistic => self.detect(now, key, out),
                AddressState::Usable => self.announce_next(now, key, out),
                AddressState::Down | AddressState::Duplicate => {}
            }
        }
    }

    /// When to call [`AddressTable::tick`] next.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Where an address stands; `None`: it is not ours.
    pub fn state(&self, interface: u32, addr: IpAddr) -> Option<AddressState> {
        self.own.get(&(interface, addr)).map(|own| own.state)
    }

    /// All addresses, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = AddressInfo> + '_ {
        self.own.iter().map(|(&(interface, addr), own)| AddressInfo {
            interface,
            addr,
            state: own.state,
            conflicts: own.conflicts,
            last_conflict: own.last_conflict,
        })
    }

    fn start(&mut self, now: Millis, key: Key, out: Out<'_>) {
        let (interface, addr) = key;
        let Some(link) = self.links.get(&interface).copied() else { return };
        let detect = addr.is_ipv6() && link.shared && self.config.dad_transmits > 0;
        let state = match link.dad {
            DadMode::Strict if detect => AddressState::Tentative,
            DadMode::Optimistic if detect => AddressState::Optimistic,
            _ => AddressState::Usable,
        };
        if let Some(own) = self.own.get_mut(&key) {
            own.state = state;
            own.probes = 0;
            own.announcements = 0;
        }
        if state.is_usable() {
            out.push(AddressAction::Usable { interface, addr });
        }
        if state == AddressState::Usable {
            self.announce(now, key, out);
            return;
        }
        match random(&mut self.random) % (self.config.dad_delay_max + 1) {
            0 => self.detect(now, key, out),
            delay => self.set_deadline(key, Some(now.after(delay))),
        }
    }

    /// Sends the next solicitation, or ends the detection when the last one found no answer.
    fn detect(&mut self, now: Millis, key: Key, out: Out<'_>) {
        let (interface, addr) = key;
        let (Some(own), IpAddr::V6(target)) = (self.own.get_mut(&key), addr) else { return };
        if own.probes < self.config.dad_transmits {
            own.probes += 1;
            out.push(AddressAction::SendDadNs { interface, target });
            self.set_deadline(key, Some(now.after(self.config.retrans_timer)));
            return;
        }
        if own.state == AddressState::Tentative {
            out.push(AddressAction::Usable { interface, addr });
        }
        own.state = AddressState::Usable;
        self.announce(now, key, out);
    }

    fn announce(&mut self, now: Millis, key: Key, out: Out<'_>) {
        let shared = self.links.get(&key.0).is_some_and(|link| link.shared);
        let count = if key.1.is_ipv4() { self.config.announce_num } else { self.config.unsolicited_na };
        if let Some(own) = self.own.get_mut(&key).filter(|_| shared) {
            own.announcements = count;
            self.announce_next(now, key, out);
        }
    }

    fn announce_next(&mut self, now: Millis, key: Key, out: Out<'_>) {
        let Some(own) = self.own.get_mut(&key) else { return };
        if own.announcements == 0 {
            return;
        }
        own.announcements -= 1;
        let more = own.announcements > 0;
        out.push(announcement(key));
        let interval =
            if key.1.is_ipv4() { self.config.announce_interval } else { self.config.retrans_timer };
        self.set_deadline(key, more.then(|| now.after(interval)));
    }

    fn settled(&self, key: Key) -> bool {
        self.own.get(&key).is_some_and(|own| own.state == AddressState::Usable)
    }

    fn keys(&self, interface: u32) -> Vec<Key> {
        let first = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let last = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
        self.own.range((interface, first)..=(interface, last)).map(|(key, _)| *key).collect()
    }

    fn set_deadline(&mut self, key: Key, at: Option<Millis>) {
        let Some(own) = self.own.get_mut(&key) else { return };
        if let Some(old) = std::mem::replace(&mut own.deadline, at) {
            self.timers.remove(&(old, key));
        }
        if let Some(at) = at {
            self.timers.insert((at, key));
        }
    }

    fn log(&mut self, line: NeighborLog, now: Millis, out: Out<'_>) {
        if self.log_limit.allow(now) {
            out.push(AddressAction::Log(line));
        }
    }
}

fn announcement((interface, addr): Key) -> AddressAction {
    match addr {
        IpAddr::V4(addr) => AddressAction::SendGratuitousArp { interface, addr },
        IpAddr::V6(addr) => AddressAction::SendUnsolicitedNa { interface, addr },
    }
}
