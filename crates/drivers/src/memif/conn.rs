//! A connection, and what the other side has announced on it.

use super::config::{MOST_RINGS, Role};
use super::message::Message;
use super::region::{self, Region};
use super::ring::Ring;
use super::socket;
use crate::peers::{self, Shared};
use crate::place::Place;
use crate::signal::Signal;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// What of a connection operators see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// What the other side says that it is.
    pub program: String,
    /// What it calls its interface.
    pub interface: String,
    /// Its process, as Linux knows it.
    pub pid: Option<i32>,
    /// Rings that this side receives from, and that it sends to.
    pub rings: (usize, usize),
    /// Slots of the largest ring.
    pub slots: u32,
    /// Regions of memory, and their bytes together.
    pub regions: (usize, u64),
}

/// A ring that the other side has announced.
pub(super) struct Announced {
    pub region: u16,
    pub at: u32,
    pub log2_slots: u8,
    pub signal: Signal,
}

pub(super) enum Stage {
    /// A master has said what it takes; or a slave has connected.
    Fresh,
    /// A master takes regions and rings. A slave announces them.
    Announcing,
    /// It stands.
    Standing(Arc<Shared>),
}

pub(super) struct Conn {
    pub fd: OwnedFd,
    /// The socket that it came to, where this side is the master.
    pub place: Place,
    pub role: Role,
    pub port: Option<u32>,
    pub stage: Stage,
    /// When the handshake has failed, milliseconds.
    pub deadline: u64,
    pub peer: Peer,
    /// A slave's messages that wait for the one before to be taken.
    pub queue: VecDeque<(Message, Option<Arc<OwnedFd>>)>,
    pub regions: Vec<Arc<Region>>,
    pub s2m: BTreeMap<u16, Announced>,
    pub m2s: BTreeMap<u16, Announced>,
    /// A slave's own rings.
    pub own: Vec<(bool, Ring, Signal)>,
}

/// Why a connection ends.
pub(super) struct Ended {
    pub why: String,
    /// The other side is told.
    pub tell: bool,
}

pub(super) fn ended<T>(why: impl Into<String>) -> Result<T, Ended> {
    Err(Ended { why: why.into(), tell: true })
}

pub(super) fn lost(e: &io::Error) -> Ended {
    Ended { why: peers::lost(e), tell: false }
}

impl Conn {
    /// Says something.
    pub fn say(&self, m: &Message) -> Result<(), Ended> {
        socket::send(&self.fd, &m.emit(), None).map_err(|e| lost(&e))
    }

    /// The interface whose packets were too long for its rings, and how long one was; once.
    pub fn too_long(&self) -> Option<(u32, u32)> {
        let Stage::Standing(shared) = &self.stage else { return None };
        let bytes = shared.longest();
        Some((self.port?, bytes)).filter(|_| bytes != 0)
    }

    /// A slave says the next that it has to say; some masters take the last message as well before they answer it.
    pub fn go_on(&mut self) -> Result<(), Ended> {
        let Some((m, with)) = self.queue.pop_front() else { return Ok(()) };
        socket::send(&self.fd, &m.emit(), with.as_ref().map(|fd| fd.as_fd())).map_err(|e| lost(&e))
    }

    /// The slave has a region of memory.
    pub fn add_region(&mut self, index: u16, size: u64, fd: Option<OwnedFd>) -> Result<(), Ended> {
        let Some(fd) = fd else { return ended(format!("region {index} comes without its file")) };
        if usize::from(index) != self.regions.len() || self.regions.len() >= region::MOST {
            return ended(format!("region {index} is not the next, {}, or one too many", self.regions.len()));
        }
        if size.saturating_add(self.peer.regions.1) > region::MOST_BYTES {
            return ended(format!("its regions have more than {} MiB together", region::MOST_BYTES >> 20));
        }
        let region = Region::open(&fd, size)
            .map_err(|why| Ended { why: format!("region {index}: {why}"), tell: true })?;
        self.peer.regions = (self.peer.regions.0 + 1, self.peer.regions.1 + region.len() as u64);
        self.regions.push(Arc::new(region));
        Ok(())
    }

    /// The slave has a ring: its region, where it is there, and how large.
    pub fn add_ring(
        &mut self,
        s2m: bool,
        index: u16,
        at: (u16, u32, u8),
        fd: Option<OwnedFd>,
    ) -> Result<(), Ended> {
        let Some(fd) = fd else { return ended(format!("ring {index} comes without its interrupt")) };
        if usize::from(index) >= MOST_RINGS {
            return ended(format!("ring {index}: there may be {MOST_RINGS} of a direction"));
        }
        let signal = Signal::open(fd).map_err(|why| Ended { why, tell: true })?;
        let (region, at, log2_slots) = at;
        let rings = if s2m { &mut self.s2m } else { &mut self.m2s };
        if rings.insert(index, Announced { region, at, log2_slots, signal }).is_some() {
            return ended(format!("ring {index} comes twice"));
        }
        Ok(())
    }

    /// The rings that a slave has announced, as they lie in its memory, and whether this side receives from each.
    pub fn rings(&mut self) -> Result<Vec<(bool, Ring, Signal)>, Ended> {
        let regions: Arc<[Arc<Region>]> = std::mem::take(&mut self.regions).into();
        let mut rings = vec![];
        for (receives, announced) in [(true, &mut self.s2m), (false, &mut self.m2s)] {
            let count = announced.len();
            if announced.last_key_value().is_none_or(|(last, _)| usize::from(*last) + 1 != count) {
                return ended("rings are missing: at least one of each direction, and none left out");
            }
            for (index, a) in std::mem::take(announced) {
                let ring = Ring::new(&regions, a.region, a.at, a.log2_slots, None);
                let Some(ring) = ring else {
                    return ended(format!("ring {index} does not lie within its region"));
                };
                if !ring.has_cookie() {
                    return ended(format!("ring {index} does not begin as rings do"));
                }
                self.peer.slots = self.peer.slots.max(1 << a.log2_slots);
                rings.push((receives, ring, a.signal));
            }
        }
        Ok(rings)
    }
}
