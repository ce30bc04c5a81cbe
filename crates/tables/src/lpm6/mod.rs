//! IPv6 longest-prefix match: a root indexed by the first 24 bits, and below it nodes that take 16 bits at once where
//! that fits in a cache line.
//!
//! The 104 bits below the root are cut into *windows* of 16, which end at bits 32, 48, ... 128. An entry is 0 (nothing
//! longer than a short prefix holds there), a value, or, with its top bit set, what kind of node follows and where:
//!
//! - *runs*, one cache line: up to 11 runs of equal entries in a window, ten 16-bit numbers of where runs after the first
//!   start, and an entry each. What follows is the next window;
//! - *array*, 16 lines: an entry for each value of 8 bits. A window with more runs is an array for its first
//!   8 bits, and below that runs or arrays for the rest;
//! - *skip*, one line: a prefix, its mask, and what holds inside and outside of it. Where all longer
//!   prefixes share their first bits, these are compared at once, so that a host route takes one step.
//!
//! What a node looks like follows from the prefixes in it alone, but that an array stays until its runs
//! would easily fit in a line. Entries are changed in place where the rest of the node stays; otherwise a new node is
//! filled, its place is stored in the entry above, and the old one stays as it was until all readers have passed.

mod arena;
mod lookup;
mod node;
mod writer;

pub use lookup::Address;
#[doc(hidden)]
pub use writer::Nodes;

use crate::CpuLevel;
use crate::config::LpmConfig;
use crate::fallback::Fallback;
use crate::lpm::{Engine, LpmWriter, POINTER, ROOT};
use crate::mem::Array;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Changes an IPv6 table.
pub type Lpm6Writer = LpmWriter<Nodes>;

/// Words in a cache line, the unit in which nodes are placed.
const LINE: usize = 16;
/// Lines of an array.
const ARRAY_LINES: usize = 16;
/// Lines that address space is reserved for, 4 GiB: as many as a pointer can name.
const LINES: usize = 1 << 26;
const LEAST_LINES: usize = if cfg!(miri) { 1 << 10 } else { 1 << 18 };

/// The IPv6 table as workers see it.
pub struct Lpm6 {
    root: Array<AtomicU32>,
    /// A power of two of lines: readers cut what they take for the place of a node to that, so that nothing they
    /// may ever read as one leads out of the array.
    nodes: Array<AtomicU32>,
    /// Whether nodes are so many that they are not near anyhow.
    far: AtomicBool,
    fallback: Fallback,
    level: CpuLevel,
}

impl Lpm6 {
    /// An empty table: the side that changes it, and the side that reads it.
    pub fn new(config: LpmConfig) -> io::Result<(Lpm6Writer, Arc<Lpm6>)> {
        let shared = Arc::new(Lpm6 {
            root: Array::reserve(ROOT)?,
            nodes: Array::reserve_up_to(LINES * LINE, LEAST_LINES * LINE)?,
            far: AtomicBool::new(false),
            fallback: Fallback::new(Nodes::SHORT)?,
            level: config.level.supported(),
        });
        Ok((LpmWriter::with(Nodes::new(shared.clone()), config), shared))
    }

    fn view(&self) -> lookup::View<'_> {
        lookup::View::new(&self.root, &self.nodes, self.far.load(Relaxed))
    }

    /// The value of the longest prefix that holds `key`, or [`crate::MISS`].
    #[inline]
    pub fn lookup_one<A: Address>(&self, key: &A) -> u32 {
        let (mut out, key, view) = (0, key.bytes(), self.view());
        self.fallback.steady(|rest| out = lookup::one(view, &key, rest));
        out
    }

    /// Looks up `keys` and writes their values, or [`crate::MISS`], to the same places of `out`. Keys are
    /// addresses as they stand in a packet (`[u8; 16]`) or numbers (`u128`), which take a little longer. Stops at the shorter
    /// of the two; best with some hundred keys.
    #[inline]
    pub fn lookup_batch<A: Address>(&self, keys: &[A], out: &mut [u32]) {
        self.lookup_batch_at(self.level, keys, out);
    }

    /// `lookup_batch` with the instructions of a level at most the table's own.
    pub fn lookup_batch_at<A: Address>(&self, level: CpuLevel, keys: &[A], out: &mut [u32]) {
        let (level, view) = (level.min(self.level), self.view());
        for (keys, out) in keys.chunks(lookup::CHUNK).zip(out.chunks_mut(lookup::CHUNK)) {
            let n = keys.len().min(out.len());
            let (keys, out) = (&keys[..n], &mut out[..n]);
            let mut steady = true;
            A::with_bytes(keys, |keys| {
                steady = self.fallback.steady(|rest| lookup::batch(level, view, keys, out, rest));
            });
            if !steady {
                // One key takes less time than the fallback stays the same.
                keys.iter().zip(out).for_each(|(k, o)| *o = self.lookup_one(k));
            }
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
