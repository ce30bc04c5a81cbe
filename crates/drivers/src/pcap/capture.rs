//! Packets that an operator wants to see, kept in memory while they pass (`pcap trace rx tx drop max N file F`) and
//! written to a file afterwards.
//!
//! One log serves all workers: a packet claims the next slot, copies itself there and marks the slot ready, so
//! nobody waits, and the number of packets and the memory are exactly what was asked for. All memory is made
//! beforehand.

use super::write::{wall_offset_ns, write_all};
use crate::offload;
use graph::buffer::Buffers;
use graph::clock::Clock;
use graph::desc::{Desc, Seen, flags};
use std::fs::File;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

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

/// One captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureRecord {
    /// When, in nanoseconds of the TSC.
    pub time_ns: u64,
    /// Where it was seen.
    pub direction: Direction,
    /// Interface on which it was received or sent.
    pub interface: u32,
    /// Its length on the wire.
    pub wire: u32,
    /// What was kept of it.
    pub bytes: Vec<u8>,
}

const FREE: u32 = 0;

/// A slot's head; `len` is 0 until the packet is there, then its kept bytes plus 1.
struct Slot {
    time_ns: AtomicU64,
    interface: AtomicU32,
    wire: AtomicU32,
    direction: AtomicU32,
    len: AtomicU32,
}

/// A log of packets, shared by workers and the control side.
pub struct Capture {
    config: CaptureConfig,
    next: AtomicUsize,
    missed: AtomicU64,
    slots: Box<[Slot]>,
    /// Bytes of the packets as words, so that writer and reader need no lock; `words_each` a packet.
    words: Box<[AtomicU64]>,
    words_each: usize,
}

impl Capture {
    /// An empty log, its memory ready.
    pub fn new(config: CaptureConfig) -> Result<Capture, CaptureError> {
        let CaptureConfig { max, snap, .. } = config;
        if !(config.rx || config.tx || config.drop) {
            return Err(CaptureError::Nothing);
        }
        if max == 0 {
            return Err(CaptureError::Max(max));
        }
        if !(14..=MAX_SNAP).contains(&snap) {
            return Err(CaptureError::Snap(snap));
        }
        let words_each = snap.div_ceil(8);
        if max.saturating_mul(words_each * 8 + size_of::<Slot>()) > MAX_MEMORY {
            return Err(CaptureError::Memory { max, snap });
        }
        graph::memory::check(max * (words_each * 8 + size_of::<Slot>()))?;
        let slot = |_| Slot {
            time_ns: AtomicU64::new(0),
            interface: AtomicU32::new(0),
            wire: AtomicU32::new(0),
            direction: AtomicU32::new(0),
            len: AtomicU32::new(FREE),
        };
        Ok(Capture {
            config,
            next: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            slots: (0..max).map(slot).collect(),
            words: (0..max * words_each).map(|_| AtomicU64::new(0)).collect(),
            words_each,
        })
    }

    /// What it captures.
    pub fn config(&self) -> &CaptureConfig {
        &self.config
    }

    /// Whether a packet of this direction on this interface is to be appended.
    #[inline]
    pub fn wants(&self, direction: Direction, interface: u32) -> bool {
        let wanted = match direction {
            Direction::Rx => self.config.rx,
            Direction::Tx => self.config.tx,
            Direction::Drop => self.config.drop,
        };
        wanted && self.config.interface.is_none_or(|only| only == interface)
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
        let words = i.checked_mul(self.words_each).and_then(|at| self.words.get(at..at + self.words_each));
        let (Some(slot), Some(words)) = (self.slots.get(i), words) else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        // The packet with the bytes before its current header, which nodes leave in place.
        let front = d.off.saturating_sub(start);
        let whole = Seen::of_bytes(d, d.off - front, d.len.saturating_add(front));
        let mut writer = WordWriter { words, at: 0, word: 0, left: self.config.snap };
        let mut parts = buffers.parts(&whole);
        // What has an unfinished checksum gets it before it leaves; without it every reader would call it wrong.
        if d.has(flags::CSUM_PARTIAL)
            && let Some((at, sum)) = offload::checksum(buffers, &whole)
            && let Some(first) = parts.next()
        {
            writer.write(&first[..at]);
            writer.write(&sum.to_be_bytes());
            writer.write(&first[at + 2..]);
        }
        parts.for_each(|part| writer.write(part));
        let kept = self.config.snap - writer.left;
        slot.time_ns.store(time_ns, Ordering::Relaxed);
        slot.interface.store(interface, Ordering::Relaxed);
        slot.wire.store(buffers.total_len(&whole) as u32, Ordering::Relaxed);
        slot.direction.store(direction as u32, Ordering::Relaxed);
        slot.len.store(kept as u32 + 1, Ordering::Release);
        true
    }

    /// The packets so far, in the order of time over all workers.
    pub fn records(&self) -> Vec<CaptureRecord> {
        let mut all: Vec<CaptureRecord> = (0..self.len()).filter_map(|i| self.record(i)).collect();
        all.sort_by_key(|r| r.time_ns);
        all
    }

    fn record(&self, i: usize) -> Option<CaptureRecord> {
        let slot = self.slots.get(i)?;
        let kept = (slot.len.load(Ordering::Acquire) as usize).checked_sub(1)?;
        let words = self.words.get(i * self.words_each..)?;
        let bytes = words.iter().take(kept.div_ceil(8)).flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes());
        let direction = match slot.direction.load(Ordering::Relaxed) {
            0 => Direction::Rx,
            1 => Direction::Tx,
            _ => Direction::Drop,
        };
        Some(CaptureRecord {
            time_ns: slot.time_ns.load(Ordering::Relaxed),
            direction,
            interface: slot.interface.load(Ordering::Relaxed),
            wire: slot.wire.load(Ordering::Relaxed),
            bytes: bytes.take(kept).collect(),
        })
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

/// Puts bytes into words.
struct WordWriter<'a> {
    words: &'a [AtomicU64],
    /// Bytes so far.
    at: usize,
    word: u64,
    /// Bytes still wanted.
    left: usize,
}

impl WordWriter<'_> {
    fn put(&mut self, word: u64) {
        if let Some(w) = self.words.get(self.at / 8) {
            w.store(word, Ordering::Relaxed);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.get(..self.left).unwrap_or(bytes);
        self.left -= bytes.len();
        while let Some((first, rest)) = bytes.split_first() {
            if self.at.is_multiple_of(8)
                && let Some((word, rest)) = bytes.split_first_chunk()
            {
                self.put(u64::from_ne_bytes(*word));
                self.at += 8;
                bytes = rest;
                continue;
            }
            let mut word = self.word.to_ne_bytes();
            word[self.at % 8] = *first;
            self.word = u64::from_ne_bytes(word);
            self.put(self.word);
            self.at += 1;
            if self.at.is_multiple_of(8) {
                self.word = 0;
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests;
