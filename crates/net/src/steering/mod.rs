//! Steering (`set interface handoff`): the packets of an interface with few receive queues are shared out among several workers by
//! their flow.
//!
//! [`WorkerHandoff`] stands at the front of the arc `device-input`. It hashes the innermost addresses, protocol and ports of a frame
//! ([`FlowKey`]), and a table of buckets says which worker goes on with it: all packets of a flow meet on one worker, in the order in
//! which they came. Where buckets or queues change workers, the control side lets no packet in until those on their way have gone on
//! (`Router::between_packets`), so that workers keep no account of them.

mod buckets;
pub mod commands;
mod heavy;
mod key;
mod part;
#[cfg(test)]
mod tests;
mod worker_handoff;

pub(crate) use buckets::BUCKETS;
pub use key::{FlowKey, FlowKind};
pub use part::{Handed, Handoff, HandoffConfig, HeavyFlow, config, handed, heavy, shares};
pub(crate) use part::{Steering, move_share};
pub use worker_handoff::{WorkerHandoff, WorkerHandoffNext};

use crate::arcs;
use crate::interface::IfIndex;
use buckets::Buckets;
use graph::arcs::Feature;
use graph::stats::Count;
use graph::{MAX_WORKERS, SpreadNode};
use packet::flow::{Fields, Flow};
use std::sync::Arc;

/// Where frames are shared out.
pub static WORKER_HANDOFF: Feature = Feature::new(&arcs::DEVICE_INPUT, WorkerHandoff::NAME);

/// Packets that each worker has shared out, by the worker that got them.
struct Counts(Box<[[Count; MAX_WORKERS]]>);

impl Counts {
    fn new() -> Counts {
        Counts((0..MAX_WORKERS).map(|_| std::array::from_fn(|_| Count::default())).collect())
    }

    /// Those that a worker has shared out.
    #[inline]
    fn of(&self, worker: usize) -> Option<&[Count; MAX_WORKERS]> {
        self.0.get(worker)
    }
}

/// How the packets of an interface are shared out.
struct Shared {
    buckets: Buckets,
    flow: Flow,
    counts: Arc<Counts>,
}

impl Shared {
    /// Choices by the same seed for other ends, as those of paths, are independent of it.
    fn new(buckets: Buckets, seed: u32, symmetrical: bool, counts: Arc<Counts>) -> Shared {
        let fields = Fields::FIVE_TUPLE;
        let fields = if symmetrical { fields.with(Fields::SYMMETRIC) } else { fields };
        Shared { buckets, flow: Flow { seed: seed ^ 0x57ee_12a7, fields }, counts }
    }
}

/// The interfaces whose packets are shared out, as workers see them, in order.
#[derive(Default)]
struct Steered(Box<[(IfIndex, Arc<Shared>)]>);

impl Steered {
    fn get(&self, index: IfIndex) -> Option<&Shared> {
        let at = self.0.binary_search_by_key(&index, |s| s.0).ok()?;
        self.0.get(at).map(|s| &*s.1)
    }
}
