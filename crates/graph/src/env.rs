//! What a worker does for its nodes.

use crate::arcs::ArcNodes;
use crate::buffer::Buffers;
use crate::desc::{Desc, Packets, Seen};
use crate::edge::{Edge, NodeId, Reason};
use crate::epoch::Guard;
use crate::frames::Frames;
use crate::handoff::Handoff;
use crate::stats::WorkerStats;
use crate::trace::{TRACE_BYTES, TraceRecord, Tracing};
use std::sync::Arc;

crate::reasons! {
    /// Why the dispatcher itself drops packets.
    pub enum DispatchReason {
        /// A node panicked; the vector it worked on was dropped and the worker went on.
        Panic => "node-panic",
        /// A node left packets in its vector.
        Left => "left-in-vector",
        /// The other worker to which a packet was to go has too many waiting.
        HandoffFull => "handoff-queue-full",
    }
}

/// Edges from here on name an arc.
pub(crate) const ARC: u16 = 0x8000;

/// What the builder worked out once for all workers.
pub struct Wiring {
    /// Arcs, by number.
    pub arcs: Vec<ArcNodes>,
    /// Names of the nodes.
    pub names: Vec<&'static str>,
    /// Targets of each node: a node's number, or 0x8000 + an arc's number.
    pub edges: Vec<Box<[u16]>>,
    /// First reason of each node in the list of reasons.
    pub reason_base: Vec<u32>,
    /// Where dropped packets go.
    pub drop: NodeId,
}

/// A worker's services for its nodes.
pub struct Env {
    /// Its buffers.
    pub buffers: Buffers,
    /// Its pending vectors.
    pub frames: Frames,
    /// Its counters.
    pub stats: Arc<WorkerStats>,
    /// Its share of the trace.
    pub tracing: Arc<Tracing>,
    /// Names, arcs and edges.
    pub wiring: Arc<Wiring>,
    /// Nanoseconds of the TSC at the start of this loop.
    pub now_ns: u64,
    /// The worker's number, from 0.
    pub worker: usize,
    /// The queues between workers; none where there is one worker, or a test.
    pub handoff: Option<Arc<Handoff>>,
    /// Packets for other workers: sent when the vector is done, since until then this one may look at them.
    pub(crate) outbox: Vec<(usize, NodeId, Desc)>,
    /// The dispatcher's own first reason.
    pub(crate) own_base: u32,
    pub(crate) node: NodeId,
    pub(crate) reason_base: u32,
}

impl Env {
    /// Sends a packet to `node`.
    #[inline]
    pub fn enqueue(&mut self, d: Desc, node: NodeId) {
        if let Err(d) = self.frames.push(node, d) {
            self.buffers.free(d);
        }
    }

    /// Sends packets to `node`.
    #[inline]
    pub fn enqueue_all(&mut self, mut packets: Packets<'_>, node: NodeId) {
        self.frames.push_all(node, &mut packets);
        self.buffers.free_all(packets);
    }

    /// The running node.
    #[inline]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The node behind an edge of the running node; for an arc the packet's next feature (its bit is cleared).
    #[inline]
    pub fn edge<E: Edge>(&self, edge: E, d: &mut Desc) -> NodeId {
        let target = self.wiring.edges[usize::from(self.node.0)][edge.index()];
        NodeId(resolve(&self.wiring.arcs, target, &mut d.feat))
    }

    /// Sends a packet over an edge of the running node.
    #[inline]
    pub fn forward<E: Edge>(&mut self, mut d: Desc, edge: E) {
        let node = self.edge(edge, &mut d);
        self.enqueue(d, node);
    }

    /// Counts and drops a packet.
    pub fn drop<R: Reason>(&mut self, mut d: Desc, reason: R) {
        self.count(reason);
        d.aux = self.reason_base + reason.index() as u32;
        self.enqueue(d, self.wiring.drop);
    }

    /// Sends a packet to a node of worker `to`, once the vector is done: to the same one ([`Env::node`]), or to one behind an
    /// edge ([`Env::edge`]). The node answers [`Exit::Consumed`](crate::Exit::Consumed). Packets that one node sends to one keep their order. When that
    /// worker is too far behind, or a node sends many more than came, packets are dropped and counted by the dispatcher.
    #[inline]
    pub fn hand_off(&mut self, to: usize, node: NodeId, d: Desc) {
        if self.outbox.len() < self.outbox.capacity() {
            self.outbox.push((to, node, d));
        } else {
            self.lose(d);
        }
    }

    /// The same for several packets.
    pub fn hand_off_all(&mut self, to: usize, node: NodeId, packets: Packets<'_>) {
        packets.for_each(|d| self.hand_off(to, node, d));
    }

    /// Drops a packet that no other worker takes.
    #[cold]
    pub(crate) fn lose(&mut self, d: Desc) {
        let base = std::mem::replace(&mut self.reason_base, self.own_base);
        self.drop(d, DispatchReason::HandoffFull);
        self.reason_base = base;
    }

    /// Counts an event of the running node.
    #[inline]
    pub fn count<R: Reason>(&mut self, event: R) {
        self.count_n(event, 1);
    }

    /// The number of a reason of the running node in the graph's list of reasons.
    #[inline]
    pub fn reason<R: Reason>(&self, reason: R) -> usize {
        self.reason_base as usize + reason.index()
    }

    /// Counts an event of the running node `n` times.
    #[inline]
    pub fn count_n<R: Reason>(&mut self, event: R, n: u64) {
        if let Some(c) = self.stats.reasons.get(self.reason(event)) {
            c.add(n);
        }
    }

    /// Appends a trace record for a packet that the running node worked on.
    #[cold]
    pub fn trace(&self, guard: &Guard, before: &Seen, after: &Desc, next: Option<NodeId>, reason: u32) {
        let mut data = [0u8; TRACE_BYTES];
        // A packet that the node took over may have been freed, but its bytes are still where they were.
        let shown = if next.is_some() { after } else { before };
        let data_len = self.buffers.copy_out(shown, 0, &mut data) as u16;
        let total_len = self.buffers.total_len(shown) as u32;
        let mark = self.buffers.meta(&before.buf).trace_id;
        let (node, time_ns, before, after) = (self.node, self.now_ns, *before, Seen::of(after));
        self.tracing.record(
            guard,
            mark,
            TraceRecord { id: 0, node, next, reason, time_ns, before, after, total_len, data_len, data },
        );
    }
}

#[inline]
pub(crate) fn resolve(arcs: &[ArcNodes], target: u16, feat: &mut u32) -> u16 {
    if target < ARC { target } else { arcs[usize::from(target - ARC)].next(feat).0 }
}
