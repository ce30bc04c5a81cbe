//! Packets that an operator wants to see, kept in memory while they pass (`pcap trace rx tx drop max N file F`) and
//! written to a file afterwards.
//!
//! One log serves all workers: a packet claims the next slot, copies itself there and marks the slot ready, so
//! nobody waits, and the number of packets and the memory are exactly what was asked for. All memory is made
//! beforehand.

use super::slots::{CaptureRecord, Seen, Slots};
use super::write::{wall_offset_ns, write_all};
use graph::buffer::Buffers;
use graph::clock::Clock;
use graph::desc::Desc;
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of a packet that are kept if nothing else is asked for.
pub const DEFAULT_SNAP: usize = 2000;
/// Most bytes of a packet that can be kept.
pub const MAX_SNAP: usize = 9216;
/// Most memory of a capture.
pub const MAX_MEMORY: usize = 256 << 20;

/// Where a packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Rx,
    /// Sent.
    Tx,
    /// Dropped.
    Drop,
}

/// What to capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureConfig {
    /// Packets to keep.
    pub max: usize,
    /// Bytes to keep of each.
    pub snap: usize,
    /// Received packets.
    pub rx: bool,
    /// Sent packets.
    pub tx: bool,
    /// Dropped packets.
    pub drop: bool,
    /// Only those of this interface.
    pub interface: Option<u32>,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        CaptureConfig { max: 1000, snap: DEFAULT_SNAP, rx: true, tx: true, drop: true, interface: None }
    }
}

impl CaptureConfig {
    /// Whether a packet of this direction on this interface is captured.
    #[inline]
    pub fn wants(&self, direction: Direction, interface: u32) -> bool {
        let wanted = match direction {
            Direction::Rx => self.rx,
            Direction::Tx => self.tx,
            Direction::Drop => self.drop,
        };
        wanted && self.interface.is_none_or(|only| only == interface)
    }

    /// The memory that it takes.
    pub(super) fn slots(&self) -> Result<Slots, CaptureError> {
        let CaptureConfig { max, snap, .. } = *self;
        if !(self.rx || self.tx || self.drop) {
            return Err(CaptureError::Nothing);
        }
        if max == 0 {
            return Err(CaptureError::Max(max));
        }
        if !(14..=MAX_SNAP).contains(&snap) {
            return Err(CaptureError::Snap(snap));
        }
        let bytes = max.saturating_mul(Slots::bytes_each(snap));
        if bytes > MAX_MEMORY {
            return Err(CaptureError::Memory { max, snap });
        }
        graph::memory::check(bytes)?;
        Ok(Slots::new(max, snap))
    }
}

/// Why a capture cannot be.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum CaptureError {
    #[error("nothing to capture: rx, tx or drop")]
    Nothing,
    #[error("{0} packets: at least 1")]
    Max(usize),
    #[error("{0} bytes of a packet: between 14 and {max}", max = MAX_SNAP)]
    Snap(usize),
    #[error("{max} packets of {snap} bytes take more than {limit} MiB: ask for fewer packets or bytes", limit = MAX_MEMORY >> 20)]
    Memory { max: usize, snap: usize },
    #[error("no memory for the packets: {0}; ask for fewer packets or bytes")]
    Room(#[from] graph::memory::OutOfMemory),
}

/// A log of packets, shared by workers and the control side.
pub struct Capture {
    config: CaptureConfig,
    next: AtomicUsize,
    missed: AtomicU64,
    slots: Slots,
}

impl Capture {
    /// An empty log, its memory ready.
    ///
    /// # Errors
    /// There is nothing to capture, or more than there may be.
    pub fn new(config: CaptureConfig) -> Result<Capture, CaptureError> {
        let slots = config.slots()?;
        Ok(Capture { config, next: AtomicUsize::new(0), missed: AtomicU64::new(0), slots })
    }

    /// What it captures.
    pub fn config(&self) -> &CaptureConfig {
        &self.config
    }

    /// Whether a packet of this direction on this interface is to be appended.
    #[inline]
    pub fn wants(&self, direction: Direction, interface: u32) -> bool {
        self.config.wants(direction, interface)
    }

    /// It holds as many packets as were asked for.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.slots.len()
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(self.slots.len())
    }

    /// True when it holds no packet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets that came after it was full.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Keeps a packet from `start` on (an offset in the first buffer's room: the link-layer header) if there is room.
    /// `time_ns` is that of the TSC.
    #[cold]
    pub fn append(
        &self,
        buffers: &Buffers,
        d: &Desc,
        start: u16,
        direction: Direction,
        interface: u32,
        time_ns: u64,
    ) -> bool {
        // Looking first keeps `next` from running over in a long capture.
        let i = if self.is_full() { usize::MAX } else { self.next.fetch_add(1, Ordering::Relaxed) };
        let kept = self.slots.put(i, buffers, d, start, Seen { direction, interface, time_ns });
        if !kept {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
        kept
    }

    /// The packets so far, in the order of time over all workers.
    pub fn records(&self) -> Vec<CaptureRecord> {
        let mut all: Vec<CaptureRecord> = (0..self.len()).filter_map(|i| self.slots.get(i)).collect();
        all.sort_by_key(|r| r.time_ns);
        all
    }

    /// Writes the packets so far to an open file in place of what is in it, in order of time; returns how many.
    ///
    /// # Errors
    /// The file does not take them, or has no name any more. They are still here: another file may.
    pub fn write_file(&self, mut file: &File) -> io::Result<usize> {
        if file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("it was removed meanwhile"));
        }
        file.set_len(0)?;
        file.rewind()?;
        let mut out = io::BufWriter::with_capacity(1 << 20, file);
        let packets = self.write(&mut out)?;
        io::Write::flush(&mut out)?;
        drop(out);
        file.sync_data()?;
        Ok(packets)
    }

    /// Writes the packets so far as a pcap file.
    pub fn write(&self, out: &mut impl io::Write) -> io::Result<usize> {
        let offset = wall_offset_ns(&Clock::new());
        let records = self.records();
        let snap = self.config.snap as u32;
        write_all(
            out,
            snap,
            records.iter().map(|r| (r.time_ns.wrapping_add(offset), r.bytes.as_slice(), r.wire)),
        )?;
        Ok(records.len())
    }
}

#[cfg(test)]
mod tests;
