//! IPv6 longest-prefix match: a root indexed by the first 24 bits, and below it one node for each 8 bits.
//!
//! An entry is 0 (only the default route holds there), a value, or, with its top bit set, the place of a node.
//! A node stands for 256 entries in one of two forms, so that a step down reads one cache line: *full*, an array; or
//! *small*, one line, for up to 13 runs of equal entries: 12 bytes say where runs after the first start, 13 words
//! what they hold. Nodes right below the root are always full, so that the first 32 bits are looked up with gathers. Entries are changed in place where the runs stay; otherwise a new node is filled, its place is stored in
//! the entry above, and the old one stays as it was until all readers have passed.

mod arena;
mod lookup;
mod node;
mod writer;

pub use lookup::Address;
pub use writer::Lpm6Writer;

use crate::CpuLevel;
use crate::config::LpmConfig;
use crate::fallback::Fallback;
use crate::flat::{self, ROOT};
use crate::mem::Array;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Marks an entry that holds the place of a node: its first line, and whether it is full. In the root,
/// where all are full, it holds the number of a block of 16 lines instead.
const POINTER: u32 = flat::POINTER;
const FULL: u32 = 1 << 30;
/// Words in a cache line, the unit in which nodes are placed.
const LINE: usize = 16;
/// Lines of a full node.
const FULL_LINES: usize = 16;
/// Lines that address space is reserved for: 8 GiB.
const LINES: usize = 1 << 27;
const LEAST_LINES: usize = if cfg!(miri) { 1 << 10 } else { 1 << 18 };

/// The IPv6 table as workers see it.
pub struct Lpm6 {
    root: Array<AtomicU32>,
    nodes: Array<AtomicU32>,
    default: Fallback,
    level: CpuLevel,
}

impl Lpm6 {
    /// An empty table: the side that changes it, and the side that reads it.
    pub fn new(config: LpmConfig) -> io::Result<(Lpm6Writer, Arc<Lpm6>)> {
        let shared = Arc::new(Lpm6 {
            root: Array::reserve(ROOT)?,
            nodes: Array::reserve_up_to(LINES * LINE, LEAST_LINES * LINE)?,
            default: Fallback::new(),
            level: config.level.supported(),
        });
        Ok((Lpm6Writer::new(shared.clone(), config), shared))
    }

    /// The value of the longest prefix that holds `key`, or [`crate::MISS`].
    #[inline]
    pub fn lookup_one<A: Address>(&self, key: &A) -> u32 {
        let mut out = 0;
        self.default.steady(|default| out = lookup::one(&self.root, &self.nodes, key, default));
        out
    }

    /// Looks up `keys` and writes their values, or [`crate::MISS`], to the same places of `out`. Keys are
    /// addresses as they stand in a packet (`[u8; 16]`) or numbers (`u128`). Stops at the shorter of the two;
    /// best with some hundred keys.
    #[inline]
    pub fn lookup_batch<A: Address>(&self, keys: &[A], out: &mut [u32]) {
        self.lookup_batch_at(self.level, keys, out);
    }

    /// `lookup_batch` with the instructions of a level at most the table's own.
    #[inline]
    pub fn lookup_batch_at<A: Address>(&self, level: CpuLevel, keys: &[A], out: &mut [u32]) {
        let n = keys.len().min(out.len());
        let (keys, out, level) = (&keys[..n], &mut out[..n], level.min(self.level));
        self.default.steady(|default| lookup::batch(level, &self.root, &self.nodes, keys, out, default));
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
