//! One neighbour.

use super::table::Known;
use super::{Key, Millis};
use packet::MacAddr;
use std::fmt;
use std::net::IpAddr;

/// Where a neighbour stands (RFC 4861, 7.3.2, and two more).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Being resolved; no MAC address yet.
    Incomplete,
    /// Confirmed a short time ago.
    Reachable,
    /// The confirmation is old; used as it is until somebody sends.
    Stale,
    /// Somebody sent; probed soon unless confirmed otherwise.
    Delay,
    /// Being probed; used meanwhile.
    Probe,
    /// Did not answer; packets to it are refused for a while.
    Failed,
    /// Set by the operator; never expires.
    Static,
}

impl State {
    /// Whether a MAC address is known.
    pub const fn has_mac(self) -> bool {
        !matches!(self, Self::Incomplete | Self::Failed)
    }

    /// Short name in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Delay => "delay",
            Self::Probe => "probe",
            Self::Failed => "failed",
            Self::Static => "static",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A neighbour as shown to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborInfo {
    /// The interface.
    pub interface: u32,
    /// The neighbour's IP address.
    pub addr: IpAddr,
    /// Where it stands.
    pub state: State,
    /// Its MAC address, where known.
    pub mac: Option<MacAddr>,
    /// It says that it is a router (IPv6 only).
    pub router: bool,
    /// When it came into its state.
    pub since: Millis,
    /// When it was last heard of, asked for or set.
    pub fresh: Millis,
    /// Solicitations sent in this state.
    pub attempts: u8,
    /// Failed resolutions in a row.
    pub failures: u8,
}

/// Order in which entries make room for others, the first first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Failed,
    Incomplete,
    Stale,
    Live,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) state: State,
    /// Zero where the state has none.
    pub(crate) mac: MacAddr,
    pub(crate) router: bool,
    /// The limiter has given a place for the next solicitation: the deadline.
    pub(crate) reserved: bool,
    pub(crate) attempts: u8,
    pub(crate) failures: u8,
    pub(crate) since: Millis,
    pub(crate) fresh: Millis,
    pub(crate) deadline: Option<Millis>,
}

impl Entry {
    pub(crate) fn new(state: State, mac: MacAddr, now: Millis) -> Self {
        Self {
            state,
            mac,
            router: false,
            reserved: false,
            attempts: 0,
            failures: 0,
            since: now,
            fresh: now,
            deadline: None,
        }
    }

    /// Changes state; keeps what is known of the neighbour.
    pub(crate) fn enter(&mut self, state: State, now: Millis, deadline: Option<Millis>) {
        self.state = state;
        self.since = now;
        self.attempts = 0;
        self.reserved = false;
        self.deadline = deadline;
    }

    pub(crate) fn known_mac(&self) -> Option<MacAddr> {
        self.state.has_mac().then_some(self.mac)
    }

    pub(crate) fn known(&self) -> Option<Known> {
        Some(Known { mac: self.known_mac()?, fixed: self.state == State::Static })
    }

    /// Place in the order of eviction: class, then age. `None`: never evicted.
    pub(crate) fn rank(&self) -> Option<(Class, Millis)> {
        Some(match self.state {
            State::Failed => (Class::Failed, self.since),
            State::Incomplete => (Class::Incomplete, self.since),
            State::Stale => (Class::Stale, self.fresh),
            State::Delay | State::Probe | State::Reachable => (Class::Live, self.fresh),
            State::Static => return None,
        })
    }

    pub(crate) fn info(&self, (interface, addr): Key) -> NeighborInfo {
        NeighborInfo {
            interface,
            addr,
            state: self.state,
            mac: self.known_mac(),
            router: self.router,
            since: self.since,
            fresh: self.fresh,
            attempts: self.attempts,
            failures: self.failures,
        }
    }
}
