//! What holds where a table's arrays say nothing: short prefixes, and the default route.
//!
//! A short prefix covers so much of a table that writing it into all entries would take milliseconds. It stands in
//! an array of its own instead, one entry for each prefix of the longest short length, which is looked up for those keys
//! alone whose entry is 0. The default route stands in one word.

use crate::MISS;
use crate::mem::Array;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

pub(crate) struct Fallback {
    /// The value of the default route, a bit that says whether there are short prefixes, and a count of changes.
    state: AtomicU64,
    short: Array<AtomicU32>,
    bits: u8,
}

const IN_USE: u64 = 1 << 32;
const ONE: u64 = 1 << 33;

/// One state of the fallback, for one batch.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    pub(crate) default: u32,
    /// Empty when there are no short prefixes.
    pub(crate) short: &'a [AtomicU32],
    /// Shifts the first 32 bits of a key to its place in `short`.
    pub(crate) shift: u32,
}

impl Rest<'_> {
    /// The value of a key, given its first 32 bits, whose entry is 0.
    #[inline(always)]
    pub(crate) fn of(&self, head: u32) -> u32 {
        match self.short.get((head >> self.shift) as usize).map_or(0, |e| e.load(Acquire)) {
            0 => self.default,
            value => value,
        }
    }

    /// The value that an entry means.
    #[inline(always)]
    pub(crate) fn or(&self, entry: u32, head: u32) -> u32 {
        if entry == 0 { self.of(head) } else { entry }
    }
}

impl Fallback {
    /// Prefixes of 1 to `bits` bits (at most 31) are short.
    pub(crate) fn new(bits: u8) -> io::Result<Self> {
        Ok(Fallback { state: AtomicU64::new(u64::from(MISS)), short: Array::reserve(1 << bits)?, bits })
    }

    pub(crate) fn set_default(&self, value: u32) {
        let state = self.state.load(Relaxed);
        self.state.store((state & !0xffff_ffff).wrapping_add(ONE) | u64::from(value), Release);
    }

    /// Changes short prefixes by `store`, which writes to the array. The count comes first: a reader that sees a change here,
    /// but an entry of the table from before it, sees the count too.
    pub(crate) fn change_short(&self, in_use: bool, store: impl FnOnce(&[AtomicU32])) {
        let state = self.state.load(Relaxed).wrapping_add(ONE);
        self.state.store(state | IN_USE, Release);
        store(&self.short);
        if !in_use {
            self.state.store(state.wrapping_add(ONE) & !IN_USE, Release);
        }
    }

    /// Runs `f`, a lookup. Entries and the fallback are read apart: when the fallback changed
    /// between, a key could get an answer that was never right, so `f` runs again. False if it changed each time.
    #[inline(always)]
    pub(crate) fn steady(&self, mut f: impl FnMut(Rest<'_>)) -> bool {
        // A fallback that changes faster than a batch is looked up must not hold a worker.
        for _ in 0..8 {
            let before = self.state.load(Acquire);
            let short: &[AtomicU32] = if before & IN_USE == 0 { &[] } else { &self.short };
            f(Rest { default: before as u32, short, shift: 32 - u32::from(self.bits) });
            fence(Acquire);
            if self.state.load(Relaxed) == before {
                return true;
            }
        }
        false
    }
}
