//! Counters of one worker's nodes and reasons: written by the worker alone, read by the control side at any time.

pub use crate::registry::Count;

use crate::registry::{Cells, Group, Meaning, Owner, Registry, Unit};
use std::io;

crate::counter_group! {
    /// Counters of one node in one worker.
    #[repr(align(64))]
    pub struct NodeStats {
        /// Times it was called.
        pub calls: Times,
        /// Packets it worked on.
        pub packets: Packets,
        /// TSC clocks it took.
        pub clocks: Clocks,
        /// Times it gave up waiting (inputs: went to sleep).
        pub suspends: Times,
        /// Largest vector since the last clear.
        pub max_vector: Packets(Most),
        /// Panics that were caught in it.
        pub panics: Times,
    }
}

crate::counter_group! {
    /// Counters of a worker's loop.
    #[repr(align(64))]
    pub struct LoopStats {
        /// Loops that found packets.
        pub loops: Times,
        /// Times the worker slept.
        pub sleeps: Times,
        /// TSC clocks spent asleep.
        pub asleep: Clocks,
        /// Longest time between two polls of the inputs while awake, TSC clocks.
        pub max_loop: Clocks(Most),
        /// Packets that inputs brought.
        pub packets_in: Packets,
        /// Polls of inputs that brought packets: so many vectors came.
        pub vectors: Times,
        /// Of them, polls that filled a vector.
        pub full: Times,
        /// Sleeps that a descriptor ended: packets, or something from another thread.
        pub wakes: Times,
    }
}

crate::counter_group! {
    /// Counters of a receive queue in one worker.
    #[repr(align(32))]
    pub struct QueueStats {
        /// Packets that a receive queue brought.
        pub packets: Packets,
        /// Bytes of these packets.
        pub bytes: Bytes,
        /// Polls of a receive queue that brought packets.
        pub vectors: Times,
        /// Of them, polls that filled a vector.
        pub full: Times,
    }
}

/// Receive queues that are counted: those with lower numbers.
pub const QUEUES: usize = 4096;

const NODES: Group = Group { name: "node", by: &["node"], ..Group::NEW };
const LOOPS: Group = Group { name: "worker", ..Group::NEW };
const RX_QUEUES: Group = Group { name: "rx-queue", by: &["input"], ..Group::NEW };
const REASONS: Group = Group {
    name: "reason",
    by: &["reason"],
    fields: &[Meaning {
        name: "",
        unit: Unit::Packets,
        help: "Packets that were dropped for a reason, or met an event, as the reason's own text says.",
    }],
};

/// All counters of one worker.
pub struct WorkerStats {
    /// By node.
    pub nodes: Cells<NodeStats>,
    /// By reason (the graph's list of reasons).
    pub reasons: Cells<Count>,
    /// By number of the receive queue, as [`Worker::add_input`](crate::Worker::add_input) is told.
    pub queues: Cells<QueueStats>,
    /// Of its loop: one.
    turns: Cells<LoopStats>,
}

impl WorkerStats {
    /// Zeroed counters of worker `worker`.
    ///
    /// # Errors
    /// The worker has some already, or there is no memory for them.
    pub fn new(registry: &Registry, worker: usize, nodes: usize, reasons: usize) -> io::Result<Self> {
        let owner = Owner::Worker(worker);
        Ok(WorkerStats {
            nodes: registry.cells(&NODES, owner, nodes)?,
            reasons: registry.cells(&REASONS, owner, reasons)?,
            queues: registry.cells(&RX_QUEUES, owner, QUEUES)?,
            turns: registry.cells(&LOOPS, owner, 1)?,
        })
    }

    /// Those of its loop.
    #[inline]
    pub fn turns(&self) -> &LoopStats {
        &self.turns[0]
    }
}
