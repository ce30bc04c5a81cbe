//! The default route, which stands outside a table's arrays.

use crate::MISS;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// The value of the default route, below a count of its changes.
#[derive(Debug)]
pub(crate) struct Fallback(AtomicU64);

impl Fallback {
    pub(crate) fn new() -> Self {
        Fallback(AtomicU64::new(u64::from(MISS)))
    }

    pub(crate) fn set(&self, value: u32) {
        let count = (self.0.load(Relaxed) >> 32).wrapping_add(1);
        self.0.store(count << 32 | u64::from(value), Release);
    }

    /// Runs `f`, a lookup, with the default route. Entries and default are read apart: when the
    /// default changed between, a key could get an answer that was never right, so `f` runs again.
    #[inline(always)]
    pub(crate) fn steady(&self, mut f: impl FnMut(u32)) {
        // A default that changes faster than a batch is looked up must not hold a worker.
        for _ in 0..8 {
            let before = self.0.load(Acquire);
            f(before as u32);
            fence(Acquire);
            if self.0.load(Relaxed) == before {
                return;
            }
        }
    }
}
