//! Room for captured packets: whoever has a slot's number copies a packet into it, and whoever gets to know of it reads it back.

use super::capture::Direction;
use crate::offload;
use graph::buffer::Buffers;
use graph::desc::{self, Desc, flags};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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

/// What is known of a packet beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Where it was seen.
    pub direction: Direction,
    /// Interface on which it was received or sent.
    pub interface: u32,
    /// When, in nanoseconds of the TSC.
    pub time_ns: u64,
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

/// Slots of one size.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// Bytes of the packets as words, so that writer and reader need no lock; `words_each` a packet.
    words: Box<[AtomicU64]>,
    words_each: usize,
    /// Bytes kept of a packet.
    snap: usize,
}

impl Slots {
    /// Memory of a slot, bytes.
    pub fn bytes_each(snap: usize) -> usize {
        snap.div_ceil(8) * 8 + size_of::<Slot>()
    }

    /// So many slots, their memory ready.
    pub fn new(count: usize, snap: usize) -> Slots {
        let slot = |_| Slot {
            time_ns: AtomicU64::new(0),
            interface: AtomicU32::new(0),
            wire: AtomicU32::new(0),
            direction: AtomicU32::new(0),
            len: AtomicU32::new(FREE),
        };
        let words_each = snap.div_ceil(8);
        let words = (0..count * words_each).map(|_| AtomicU64::new(0)).collect();
        Slots { slots: (0..count).map(slot).collect(), words, words_each, snap }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Puts a packet into a slot from `start` on (an offset in the first buffer's room: the link-layer header); false where there is no such slot.
    #[cold]
    pub fn put(&self, i: usize, buffers: &Buffers, d: &Desc, start: u16, seen: Seen) -> bool {
        let words = i.checked_mul(self.words_each).and_then(|at| self.words.get(at..at + self.words_each));
        let (Some(slot), Some(words)) = (self.slots.get(i), words) else { return false };
        // The packet with the bytes before its current header, which nodes leave in place.
        let front = d.off.saturating_sub(start);
        let whole = desc::Seen::of_bytes(d, d.off - front, d.len.saturating_add(front));
        let mut writer = WordWriter { words, at: 0, word: 0, left: self.snap };
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
        let kept = self.snap - writer.left;
        slot.time_ns.store(seen.time_ns, Ordering::Relaxed);
        slot.interface.store(seen.interface, Ordering::Relaxed);
        slot.wire.store(buffers.total_len(&whole) as u32, Ordering::Relaxed);
        slot.direction.store(seen.direction as u32, Ordering::Relaxed);
        slot.len.store(kept as u32 + 1, Ordering::Release);
        true
    }

    /// The packet of a slot, where one was put into it.
    pub fn get(&self, i: usize) -> Option<CaptureRecord> {
        let slot = self.slots.get(i)?;
        let kept = (slot.len.load(Ordering::Acquire) as usize).checked_sub(1)?;
        let words = self.words.get(i * self.words_each..)?;
        let mut bytes = Vec::with_capacity(kept.next_multiple_of(8));
        words
            .iter()
            .take(kept.div_ceil(8))
            .for_each(|w| bytes.extend_from_slice(&w.load(Ordering::Relaxed).to_ne_bytes()));
        bytes.truncate(kept);
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
            bytes,
        })
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
