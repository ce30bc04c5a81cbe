//! IPv4 longest-prefix match: a root indexed by the first 24 bits, blocks of 256 below it.
//!
//! An entry is 0 (only the default route holds there), a value, or, with its top bit set, the
//! number of a block indexed by the last 8 bits. The default route stands outside the arrays, so
//! that changing it is one store. Entries are changed in place, one store each; a block is filled before
//! its number is stored, and left as it was when its number is taken out, until all readers have passed.

mod lookup;
mod writer;

pub use writer::Lpm4Writer;

use crate::cpu::CpuLevel;
use crate::mem::Array;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

const ROOT: usize = 1 << 24;
const BLOCK: usize = 256;
/// Marks an entry that holds the number of a block.
const POINTER: u32 = 1 << 31;
/// Blocks that address space is reserved for; gathers index them with 31 bits.
const BLOCKS: usize = 1 << 23;
const LEAST_BLOCKS: usize = if cfg!(miri) { 64 } else { 1 << 16 };

/// What a table may use.
#[derive(Debug, Clone, Copy, Default)]
pub struct LpmConfig {
    /// Instructions for the batch lookup; lowered to what the processor has.
    pub level: CpuLevel,
    /// Most bytes of memory the table may take, control side included.
    pub limit: Option<usize>,
    /// When to ask for huge pages.
    pub pages: Pages,
}

/// When a table asks for huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// Never.
    Small,
    /// From the start.
    Huge,
    /// From the time it holds a few thousand prefixes, so that an idle router stays small.
    #[default]
    Auto,
}

/// The IPv4 table as workers see it.
pub struct Lpm4 {
    root: Array<AtomicU32>,
    blocks: Array<AtomicU32>,
    /// Value of the default route, below a count of its changes.
    default: AtomicU64,
    level: CpuLevel,
}

impl Lpm4 {
    /// An empty table: the side that changes it, and the side that reads it.
    pub fn new(config: LpmConfig) -> io::Result<(Lpm4Writer, Arc<Lpm4>)> {
        let shared = Arc::new(Lpm4 {
            root: Array::reserve(ROOT)?,
            blocks: Array::reserve_up_to(BLOCKS * BLOCK, LEAST_BLOCKS * BLOCK)?,
            default: AtomicU64::new(0),
            level: config.level.supported(),
        });
        Ok((Lpm4Writer::new(shared.clone(), config), shared))
    }

    /// The value of the longest prefix that holds `key` (host order), or [`crate::MISS`].
    #[inline]
    pub fn lookup_one(&self, key: u32) -> u32 {
        let mut out = 0;
        self.steady(|default| out = lookup::one(&self.root, &self.blocks, key, default));
        out
    }

    /// Looks up `keys` (host order) and writes their values, or [`crate::MISS`], to the same places of `out`.
    /// Stops at the shorter of the two; best with some hundred keys.
    #[inline]
    pub fn lookup_batch(&self, keys: &[u32], out: &mut [u32]) {
        let n = keys.len().min(out.len());
        let (keys, out) = (&keys[..n], &mut out[..n]);
        self.steady(|default| lookup::batch(self.level, &self.root, &self.blocks, keys, out, default));
    }

    /// The instructions in use.
    pub fn level(&self) -> CpuLevel {
        self.level
    }

    /// Runs `f` with the default route. Entries and default are read apart: when the default
    /// changed between, a key could get an answer that was never right, so `f` runs again.
    #[inline(always)]
    fn steady(&self, mut f: impl FnMut(u32)) {
        // A default that changes faster than a batch is looked up must not hold a worker.
        for _ in 0..8 {
            let before = self.default.load(Acquire);
            f(before as u32);
            fence(Acquire);
            if self.default.load(Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
