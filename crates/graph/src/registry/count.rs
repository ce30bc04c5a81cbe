//! A counter.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A counter with one writer.
#[derive(Default)]
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds; only the owning worker may call it (no atomic read-modify-write is needed then).
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Has readers see that what follows belongs together: the value is odd until [`Count::end_change`].
    pub(crate) fn start_change(&self) {
        self.0.store(self.get() | 1, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// What was written since [`Count::start_change`] is there.
    pub(crate) fn end_change(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Release);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
