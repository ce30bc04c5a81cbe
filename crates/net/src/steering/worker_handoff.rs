//! `worker-handoff`: each frame goes on at the worker of its flow.

use super::heavy::{Sampler, Samples};
use super::{FlowKey, Shared, Steered, key};
use crate::interface::IfIndex;
use crate::plane::Plane;
use graph::node::{Exit, Step};
use graph::stats::Count;
use graph::{Guard, MAX_WORKERS, Node, Packet, Published, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `worker-handoff` sends frames, of this worker or another one.
    pub enum WorkerHandoffNext {
        Continue => "@device-input",
    }
}

graph::reasons! {
    /// What `worker-handoff` counts.
    pub enum WorkerHandoffReason {
        /// Another worker goes on with the packet.
        HandedOff => "handed-off" (info),
    }
}

/// The node.
pub struct WorkerHandoff {
    steered: Arc<Published<Steered>>,
    sampler: Sampler,
    worker: usize,
}

impl WorkerHandoff {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        let sampler = Sampler::new(0x9e37_79b9 ^ worker as u32);
        WorkerHandoff { steered: plane.publish(), sampler, worker }
    }

    /// What was sampled since the last time.
    pub(super) fn take_samples(&mut self) -> Samples {
        std::mem::take(&mut self.sampler.samples)
    }
}

/// Snapshot of one vector.
pub struct WorkerHandoffView<'v> {
    steered: &'v Steered,
    sampler: &'v mut Sampler,
    worker: usize,
    last: IfIndex,
    shared: Option<(&'v Shared, &'v [Count; MAX_WORKERS])>,
}

impl WorkerHandoffView<'_> {
    fn look(&mut self, index: IfIndex) {
        self.last = index;
        self.shared = self.steered.get(index).and_then(|s| Some((s, s.counts.of(self.worker)?)));
    }
}

impl Node for WorkerHandoff {
    const NAME: &'static str = "worker-handoff";
    type Next = WorkerHandoffNext;
    type Drop = WorkerHandoffReason;
    type View<'v> = WorkerHandoffView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> WorkerHandoffView<'v> {
        WorkerHandoffView {
            steered: self.steered.load(guard),
            sampler: &mut self.sampler,
            worker: self.worker,
            last: IfIndex::MAX,
            shared: None,
        }
    }

    #[inline]
    fn step(
        view: &mut WorkerHandoffView<'_>,
        p: &mut Packet<'_>,
    ) -> Step<WorkerHandoffNext, WorkerHandoffReason> {
        if p.d.rx != view.last {
            view.look(p.d.rx);
        }
        let Some((shared, counts)) = view.shared else { return Ok(WorkerHandoffNext::Continue) };
        let near = p.head().and_then(|h| key::near(h, shared.flow));
        let hash = near.unwrap_or_else(|| FlowKey::of(p.data()).hash(shared.flow));
        if view.sampler.is_due() {
            view.sampler.take(p.d.rx, p.data());
        }
        let to = shared.buckets.worker(hash);
        if let Some(count) = counts.get(to) {
            count.add(1);
        }
        if to == view.worker {
            return Ok(WorkerHandoffNext::Continue);
        }
        p.count(WorkerHandoffReason::HandedOff);
        let node = p.env.edge(WorkerHandoffNext::Continue, p.d);
        let d = p.take();
        p.env.hand_off(to, node, d);
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
