//! Counters of one worker's nodes and reasons: written by the worker alone, read by the control side at any time.

use std::sync::atomic::{AtomicU64, Ordering};

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

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one node in one worker.
#[derive(Default)]
#[repr(align(64))]
pub struct NodeStats {
    /// Times it was called.
    pub calls: Count,
    /// Packets it worked on.
    pub packets: Count,
    /// TSC clocks it took.
    pub clocks: Count,
    /// Times it gave up waiting (inputs: went to sleep).
    pub suspends: Count,
    /// Largest vector since the last clear.
    pub max_vector: Count,
    /// Panics that were caught in it.
    pub panics: Count,
}

/// All counters of one worker.
pub struct WorkerStats {
    /// By node.
    pub nodes: Box<[NodeStats]>,
    /// By reason (the graph's list of reasons).
    pub reasons: Box<[Count]>,
    /// Loops that found packets.
    pub loops: Count,
    /// Times the worker slept.
    pub sleeps: Count,
    /// TSC clocks spent asleep.
    pub asleep: Count,
    /// Longest time between two polls of the inputs while awake, TSC clocks.
    pub max_loop: Count,
    /// Packets that inputs brought.
    pub packets_in: Count,
}

impl WorkerStats {
    /// Zeroed counters.
    pub fn new(nodes: usize, reasons: usize) -> Self {
        WorkerStats {
            nodes: (0..nodes).map(|_| NodeStats::default()).collect(),
            reasons: (0..reasons).map(|_| Count::default()).collect(),
            loops: Count::default(),
            sleeps: Count::default(),
            asleep: Count::default(),
            max_loop: Count::default(),
            packets_in: Count::default(),
        }
    }
}
