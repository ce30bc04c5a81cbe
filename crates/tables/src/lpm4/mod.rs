//! IPv4 longest-prefix match: a root indexed by the first 24 bits, blocks of 256 below it.
//!
//! An entry is 0 (nothing longer than a short prefix holds there), a value, or, with its top bit set, the
//! number of a block indexed by the last 8 bits. Short prefixes and the default route stand outside these arrays, so
//! that changing one takes few stores. Entries are changed in place, one store each; a block is filled before
//! its number is stored, and left as it was when its number is taken out, until all readers have passed.

mod lookup;
mod writer;

#[doc(hidden)]
pub use writer::Blocks;

use crate::CpuLevel;
use crate::config::LpmConfig;
use crate::fallback::Fallback;
use crate::lpm::{Engine, LpmWriter, POINTER, ROOT};
use crate::mem::Array;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Changes an IPv4 table.
pub type Lpm4Writer = LpmWriter<Blocks>;

/// Entries of a block.
const BLOCK: usize = 256;
/// Blocks that address space is reserved for; gathers index them with 31 bits.
const BLOCKS: usize = 1 << 23;
const LEAST_BLOCKS: usize = if cfg!(miri) { 64 } else { 1 << 16 };

/// Prefixes from which on most lookups miss the first-level cache.
const FAR: usize = 2000;

/// The IPv4 table as workers see it.
pub struct Lpm4 {
    /// Has more than [`FAR`] prefixes: the root is worth prefetching.
    far: AtomicBool,
    root: Array<AtomicU32>,
    blocks: Array<AtomicU32>,
    fallback: Fallback,
    level: CpuLevel,
}

impl Lpm4 {
    /// An empty table: the side that changes it, and the side that reads it.
    pub fn new(config: LpmConfig) -> io::Result<(Lpm4Writer, Arc<Lpm4>)> {
        let shared = Arc::new(Lpm4 {
            far: AtomicBool::new(false),
            root: Array::reserve(ROOT)?,
            blocks: Array::reserve_up_to(BLOCKS * BLOCK, LEAST_BLOCKS * BLOCK)?,
            fallback: Fallback::new(Blocks::SHORT)?,
            level: config.level.supported(),
        });
        Ok((LpmWriter::with(Blocks::new(shared.clone()), config), shared))
    }

    /// The value of the longest prefix that holds `key` (host order), or [`crate::MISS`].
    #[inline]
    pub fn lookup_one(&self, key: u32) -> u32 {
        let mut out = 0;
        self.fallback.steady(|rest| out = lookup::one(&self.root, &self.blocks, key, rest));
        out
    }

    /// Looks up `keys` (host order) and writes their values, or [`crate::MISS`], to the same places of `out`.
    /// Stops at the shorter of the two; best with some hundred keys.
    #[inline]
    pub fn lookup_batch(&self, keys: &[u32], out: &mut [u32]) {
        self.lookup_batch_at(self.level, keys, out);
    }

    /// `lookup_batch` with the instructions of a level at most the table's own.
    #[inline]
    pub fn lookup_batch_at(&self, level: CpuLevel, keys: &[u32], out: &mut [u32]) {
        let n = keys.len().min(out.len());
        let (keys, out, level) = (&keys[..n], &mut out[..n], level.min(self.level));
        // The scalar code prefetches anyway.
        if level > CpuLevel::V2 && self.far.load(Relaxed) {
            lookup::fetch(&self.root, keys);
        }
        if !self.fallback.steady(|rest| lookup::batch(level, &self.root, &self.blocks, keys, out, rest)) {
            // One key takes less time than the fallback stays the same.
            keys.iter().zip(out).for_each(|(&k, o)| *o = self.lookup_one(k));
        }
    }

    /// The instructions in use.
    pub fn level(&self) -> CpuLevel {
        self.level
    }
}

// Miri walks all of a slice of atomics at each borrow, and the root has 2^24.
#[cfg(test)]
#[cfg(not(miri))]
mod tests;
