//! Bridge domains as workers see them.

use crate::interface::IfIndex;
use graph::Registry;
use graph::counters::PerWorker;
use packet::CpuLevel;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tables::macs::{MacTable, MacWriter};
use tables::slots::{Slots, SlotsWriter};

/// Seconds of one step of the stamps in the MAC table.
pub const STEP_SECONDS: u64 = 8;
/// Learned addresses that the router may have by default, over all bridge domains.
pub const MAC_LIMIT: u32 = 1 << 21;
/// The most bridge domains.
pub const MAX_BRIDGES: usize = 65_536;

/// A member, for flooding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The interface.
    pub interface: IfIndex,
    /// As in [`BridgePort`](crate::interface::BridgePort).
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
    pub fn new(registry: &Registry, workers: usize, level: CpuLevel) -> io::Result<(L2Writers, L2Plane)> {
        let (mut bridges, shared) = Slots::new(MAX_BRIDGES)?;
        // Its first number stands for no bridge domain.
        bridges.insert(Bridge::default()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let (writer, macs) = MacTable::new(MAC_LIMIT, level)?;
        let plane = L2Plane {
            bridges: shared,
            macs,
            clock: AtomicU32::new(0),
            bridge_events: PerWorker::new(registry, &super::groups::BRIDGE, workers)?,
            port_events: PerWorker::new(registry, &super::groups::PORT, workers)?,
        };
        Ok((L2Writers { bridges, macs: writer }, plane))
    }

    /// Counters for so many workers; those that are there stay.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn grow(&self, registry: &Registry, workers: usize) -> io::Result<()> {
        self.bridge_events.grow(registry, workers)?;
        self.port_events.grow(registry, workers)
    }
}
