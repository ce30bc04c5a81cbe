//! Bridge domains (IEEE 802.1Q clause 8): workers learn and look up the addresses of all of them in one table.

pub mod commands;

mod answer;
mod flood;
mod forward;
#[cfg(test)]
mod model;
mod show;
mod tagged;
mod up;
#[cfg(test)]
mod vectors;

pub use answer::{L2ArpTerm, TermReason};
pub use flood::{FloodReason, L2Flood};
pub use forward::{BridgeReason, L2Bridge};
pub use up::{BviDrop, BviInput};

use super::retag::RetagError;
use crate::interface::{IfCache, IfIndex};
use crate::plane::Plane;
use graph::counters::{PerWorker, Table};
use graph::{Guard, Packet, flags};
use packet::CpuLevel;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tables::macs::{Entry, MacTable, MacWriter};
use tables::slots::{Slots, SlotsWriter};

/// Seconds of one step of the stamps in the MAC table.
pub const STEP_SECONDS: u64 = 8;
/// Learned addresses that the router may have by default, over all bridge domains.
pub const MAC_LIMIT: u32 = 1 << 21;
/// The most bridge domains.
pub const MAX_BRIDGES: usize = 65_536;

/// Bits of [`BridgePort::flags`].
pub mod bflags {
    /// Source addresses are learned.
    pub const LEARN: u8 = 1 << 0;
    /// Frames to known addresses go where these are.
    pub const FORWARD: u8 = 1 << 1;
    /// Broadcasts and multicasts go to all members.
    pub const FLOOD: u8 = 1 << 2;
    /// Frames to unknown addresses go to all members.
    pub const UU_FLOOD: u8 = 1 << 3;
    /// ARP requests and neighbour solicitations are answered for the entries of the bridge domain.
    pub const ARP_TERM: u8 = 1 << 4;
    /// They are sent to the entry's station instead.
    pub const ARP_UFWD: u8 = 1 << 5;
}

/// What an interface is to its bridge domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// The number of the bridge domain in [`L2Plane::bridges`], from 1.
    pub bridge: u16,
    /// Split-horizon group: members of one group other than 0 do not exchange frames.
    pub shg: u8,
    /// The interface through which the bridge domain is routed.
    pub bvi: bool,
    /// What the bridge domain and the interface both do, see [`bflags`].
    pub flags: u8,
    /// The most addresses that may be learned on it.
    pub limit: u32,
}

/// A member, for flooding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The interface.
    pub interface: IfIndex,
    /// As in [`BridgePort`].
    pub shg: u8,
}

/// A bridge domain as workers see it, never changed in place.
#[derive(Clone, Debug, Default)]
pub struct Bridge {
    /// The most addresses that may be learned in it.
    pub limit: u32,
    /// The members over which it floods, the BVI among them.
    pub members: Box<[Member]>,
    /// IPv4 addresses for which it answers, sorted.
    pub arp4: Box<[(u32, [u8; 6])]>,
    /// IPv6 addresses for which it answers, sorted.
    pub arp6: Box<[(u128, [u8; 6])]>,
}

impl BridgePort {
    /// True when all of `bits` are set.
    #[inline]
    pub fn is(&self, bits: u8) -> bool {
        self.flags & bits == bits
    }
}

/// What workers read of bridge domains.
pub struct L2Plane {
    /// Bridge domains by number; 0 is none.
    pub bridges: Arc<Slots<Bridge>>,
    /// The addresses of all of them.
    pub macs: Arc<MacTable>,
    /// The stamp of now.
    pub clock: AtomicU32,
    /// By bridge domain: addresses that were not learned for a limit ("packets"), and moves ("bytes").
    pub bridge_events: PerWorker,
    /// By interface: addresses that were not learned for a limit ("packets"), and moves to it ("bytes").
    pub port_events: PerWorker,
}

/// The control side's ends.
pub struct L2Writers {
    /// Of the bridge domains.
    pub bridges: SlotsWriter<Bridge>,
    /// Of the MAC table.
    pub macs: MacWriter,
}

impl L2Plane {
    /// Nothing, for `workers` workers on processors of a level.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn new(workers: usize, level: CpuLevel) -> io::Result<(L2Writers, L2Plane)> {
        let (mut bridges, shared) = Slots::new(MAX_BRIDGES)?;
        // Its first number stands for no bridge domain.
        bridges.insert(Bridge::default()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (writer, macs) = MacTable::new(MAC_LIMIT, level)?;
        let plane = L2Plane {
            bridges: shared,
            macs,
            clock: AtomicU32::new(0),
            bridge_events: PerWorker::new(workers)?,
            port_events: PerWorker::new(workers)?,
        };
        Ok((L2Writers { bridges, macs: writer }, plane))
    }
}

/// The bridge domain of the last frame: most frames of a vector share theirs.
pub(crate) struct BridgeCache<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    number: u16,
    found: Option<&'v Bridge>,
}

impl<'v> BridgeCache<'v> {
    pub fn new(plane: &'v Plane, guard: &'v Guard) -> Self {
        BridgeCache { plane, guard, number: 0, found: None }
    }

    /// Looked up without remembering it.
    #[inline]
    pub fn peek(&self, number: u16) -> Option<&'v Bridge> {
        self.plane.l2.bridges.get(u32::from(number), self.guard)
    }

    #[inline]
    pub fn get(&mut self, number: u16) -> Option<&'v Bridge> {
        if number != self.number {
            (self.number, self.found) = (number, self.peek(number));
        }
        self.found
    }
}

/// Whether a frame from one member may go to another.
#[inline]
fn may_pass(from: &BridgePort, to: &BridgePort) -> bool {
    from.bridge == to.bridge && (from.shg == 0 || from.shg != to.shg)
}

/// The frame goes up through the BVI.
#[inline]
fn to_bvi(p: &mut Packet<'_>, bvi: IfIndex, rx: &Table) {
    rx.count(bvi, p.total_len());
    p.d.rx = bvi;
    p.d.flags &= !flags::L2_GROUP;
}

/// How a frame goes on.
enum Way {
    /// Out of the member in its descriptor.
    Output,
    /// Up through the BVI.
    Bvi,
}

/// Why a frame does not go to where its destination is.
enum Refused {
    Filter,
    SameInterface,
    SplitHorizon,
    Tags(RetagError),
}

/// Sends a frame of a member to where its destination is; `None` where that is not known.
#[inline]
fn towards(
    p: &mut Packet<'_>,
    port: &BridgePort,
    found: Entry,
    ifs: &mut IfCache<'_>,
    rx: &Table,
) -> Result<Option<Way>, Refused> {
    if !found.is_live() {
        return Ok(None);
    }
    if found.is_filter() {
        return Err(Refused::Filter);
    }
    if found.port() == p.d.rx {
        return Err(Refused::SameInterface);
    }
    // An address whose interface has left the bridge domain is as good as unknown.
    let Some(tx) = ifs.get(found.port()) else { return Ok(None) };
    let Some(to) = tx.bridge.filter(|t| t.bridge == port.bridge) else { return Ok(None) };
    if !may_pass(port, &to) {
        return Err(Refused::SplitHorizon);
    }
    if to.bvi {
        to_bvi(p, found.port(), rx);
        return Ok(Some(Way::Bvi));
    }
    tx.retag.leave(p).map_err(Refused::Tags)?;
    p.d.tx = found.port();
    Ok(Some(Way::Output))
}
