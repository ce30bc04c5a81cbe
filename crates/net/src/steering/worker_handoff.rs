//! `worker-handoff`: each frame goes on at the worker of its flow.

use super::heavy::{Sampler, Samples};
use super::{FlowKey, Shared, Steered, key};
use crate::plane::Plane;
use graph::stats::Count;
use graph::{Desc, Env, Guard, MAX_WORKERS, Published, Rooms, SpreadNode, TraceRecord};
use packet::flow::Flow;
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

/// How many packets ahead headers are asked for.
const AHEAD: usize = 8;

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
}

impl WorkerHandoffView<'_> {
    /// Says the worker of packets that came on one interface.
    #[inline(never)]
    fn of_interface(&mut self, shared: &Shared, env: &mut Env, descs: &[Desc], to: &mut [u8]) {
        descs.iter().take(AHEAD).for_each(|d| env.buffers.prefetch(d));
        for (i, (d, to)) in descs.iter().zip(to.iter_mut()).enumerate() {
            if let Some(ahead) = descs.get(i + AHEAD) {
                env.buffers.prefetch(ahead);
            }
            let near = near(&mut env.buffers.rooms(), d, shared.flow);
            *to = shared.buckets.worker(near.unwrap_or_else(|| far(env, d, shared)));
        }
        if let Some(d) = self.sampler.due(descs) {
            self.sampler.take(d.rx, env.buffers.data(d));
        }
        if let Some(counts) = shared.counts.of(self.worker) {
            count(counts, to);
        }
    }
}

/// The hash of a usual packet, tagged or not.
#[inline(always)]
fn near(rooms: &mut Rooms<'_>, d: &Desc, flow: Flow) -> Option<u32> {
    let tags = key::tags_len(rooms.window::<0>(d)?);
    let behind = rooms.sight(d, usize::from(d.off) + tags)?;
    key::near(behind, d.len.saturating_sub(tags as u16), flow)
}

/// The hash of a packet that is not usual.
#[inline(never)]
fn far(env: &Env, d: &Desc, shared: &Shared) -> u32 {
    FlowKey::of(env.buffers.data(d)).hash(shared.flow)
}

/// Counts packets by the worker that gets them.
fn count(counts: &[Count; MAX_WORKERS], to: &[u8]) {
    let mut seen = to.iter().fold(0u64, |seen, w| seen | 1 << (w % MAX_WORKERS as u8));
    while seen != 0 {
        let worker = seen.trailing_zeros();
        seen &= seen - 1;
        if let Some(count) = counts.get(worker as usize) {
            // Many packets at a time, where increments of one word would wait for each other.
            count.add(to.iter().filter(|to| **to == worker as u8).count() as u64);
        }
    }
}

impl SpreadNode for WorkerHandoff {
    const NAME: &'static str = "worker-handoff";
    const EDGE: WorkerHandoffNext = WorkerHandoffNext::Continue;
    type Next = WorkerHandoffNext;
    type Drop = WorkerHandoffReason;
    type View<'v> = WorkerHandoffView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> WorkerHandoffView<'v> {
        let steered = self.steered.load(guard);
        WorkerHandoffView { steered, sampler: &mut self.sampler, worker: self.worker }
    }

    fn workers(view: &mut WorkerHandoffView<'_>, env: &mut Env, descs: &[Desc], to: &mut [u8]) {
        let steered = view.steered;
        let mut at = 0;
        for run in descs.chunk_by(|a, b| a.rx == b.rx) {
            let to = &mut to[at..][..run.len()];
            at += run.len();
            match run.first().and_then(|d| steered.get(d.rx)) {
                Some(shared) => view.of_interface(shared, env, run, to),
                None => to.fill(view.worker as u8),
            }
        }
        let own = view.worker as u8;
        let away = to.iter().filter(|to| **to != own).count();
        env.count_n(WorkerHandoffReason::HandedOff, away as u64);
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
