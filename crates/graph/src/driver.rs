//! The generic drivers: the loop over a vector that is the same for every node of a kind.

use crate::desc::{Desc, Seen, VECTOR_SIZE, Vector, flags};
use crate::edge::{Edge, NodeId, Reason};
use crate::env::{Env, resolve};
use crate::epoch::Guard;
use crate::node::{BatchNode, Exit, LookupNode, Node, Step};
use crate::packet::Packet;
use crate::trace::{NO_REASON, TraceRecord};
use std::any::Any;
use std::fmt;

/// How many packets ahead the drivers prefetch.
const AHEAD: usize = 6;
/// "The node took the packet over" in a driver's list of decisions.
const CONSUMED: u16 = u16::MAX;
/// A node as the dispatcher sees it.
pub trait DynNode: Send {
    /// Works on one vector; `v` is empty (or its packets passed on) afterwards.
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>);
    /// After a panic in `process`: the packets of `v` that the graph still owns are moved to its front.
    fn salvage(&mut self, v: &mut Vector);
    /// After all vectors of a loop.
    fn flush(&mut self, env: &mut Env);
    /// The node itself.
    fn node(&mut self) -> &mut dyn Any;
    /// As [`Node::due_ns`].
    fn due_ns(&self) -> Option<u64> {
        None
    }
    /// As [`Node::tick`].
    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        let _ = (env, guard);
        false
    }
}

/// Writes what a kind of node has to say of a traced packet.
pub type FormatTrace = fn(&TraceRecord, &mut fmt::Formatter<'_>) -> fmt::Result;

/// Decisions of one vector so far.
pub(crate) struct Decisions {
    next: [u16; VECTOR_SIZE],
    done: usize,
    uniform: bool,
}

impl Decisions {
    pub(crate) fn new() -> Self {
        Decisions { next: [0; VECTOR_SIZE], done: 0, uniform: true }
    }

    #[inline]
    pub(crate) fn begin(&mut self) {
        self.done = 0;
        self.uniform = true;
    }

    /// Notes that the next `n` packets go to `to`.
    #[inline]
    pub(crate) fn run(&mut self, n: usize, to: NodeId) {
        if n == 0 {
            return;
        }
        let end = (self.done + n).min(VECTOR_SIZE);
        self.next[self.done..end].fill(to.0);
        self.uniform &= to.0 == self.next[0];
        self.done = end;
    }

    /// Notes the decision for the next packet.
    #[inline(always)]
    pub(crate) fn note<N: Edge, D: Reason>(
        &mut self,
        env: &mut Env,
        guard: &Guard,
        edges: &[u16],
        before: &Seen,
        d: &mut Desc,
        decision: Step<N, D>,
    ) {
        let mut reason = NO_REASON;
        let to = match decision {
            Ok(edge) => resolve(&env.wiring.arcs, edges[edge.index()], &mut d.feat),
            Err(Exit::Drop(r)) => {
                env.count(r);
                reason = env.reason_base + r.index() as u32;
                d.aux = reason;
                env.wiring.drop.0
            }
            Err(Exit::Consumed) => CONSUMED,
        };
        self.next[self.done % VECTOR_SIZE] = to;
        self.uniform &= to == self.next[0];
        self.done += 1;
        if before.has(flags::TRACED) {
            env.trace(guard, before, d, (to != CONSUMED).then_some(NodeId(to)), reason);
        }
    }

    /// Sends every packet where it was decided.
    #[inline]
    pub(crate) fn settle(&mut self, env: &mut Env, v: &mut Box<Vector>) {
        let first = self.next[0];
        if self.uniform && first != CONSUMED && env.frames.pass(NodeId(first), v) {
            return;
        }
        let mut left = v.take();
        for run in self.next[..left.len()].chunk_by(|a, b| a == b) {
            let packets = left.split_to(run.len());
            if run[0] != CONSUMED {
                env.enqueue_all(packets, NodeId(run[0]));
            }
        }
    }

    pub(crate) fn salvage(&self, v: &mut Vector) {
        v.retain(|i| i >= self.done || self.next[i] != CONSUMED);
    }
}

pub(crate) struct StepDriver<N> {
    pub node: N,
    pub edges: Box<[u16]>,
    decisions: Decisions,
}

impl<N: Node> StepDriver<N> {
    pub fn new(node: N, edges: Box<[u16]>) -> Self {
        StepDriver { node, edges, decisions: Decisions::new() }
    }
}

impl<N: Node> DynNode for StepDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        self.decisions.begin();
        let mut view = self.node.view(guard);
        let descs = v.as_mut_slice();
        if N::READS_PACKET {
            for d in descs.iter().take(AHEAD) {
                env.buffers.prefetch(d);
            }
        }
        for i in 0..descs.len() {
            if N::READS_PACKET
                && let Some(d) = descs.get(i + AHEAD)
            {
                env.buffers.prefetch(d);
            }
            let d = &mut descs[i];
            let before = Seen::of(d);
            let decision = N::step(&mut view, &mut Packet { d, env });
            self.decisions.note(env, guard, &self.edges, &before, d, decision);
        }
        drop(view);
        self.decisions.settle(env, v);
    }

    fn salvage(&mut self, v: &mut Vector) {
        self.decisions.salvage(v);
    }

    fn flush(&mut self, _env: &mut Env) {}

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }

    fn due_ns(&self) -> Option<u64> {
        self.node.due_ns()
    }

    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        self.node.tick(env, guard)
    }
}

pub(crate) struct LookupDriver<N: LookupNode> {
    pub node: N,
    pub edges: Box<[u16]>,
    keys: Box<[N::Key; VECTOR_SIZE]>,
    results: Box<[u32; VECTOR_SIZE]>,
    decisions: Decisions,
}

impl<N: LookupNode> LookupDriver<N> {
    pub fn new(node: N, edges: Box<[u16]>) -> Self {
        LookupDriver {
            node,
            edges,
            keys: Box::new([N::Key::default(); VECTOR_SIZE]),
            results: Box::new([0; VECTOR_SIZE]),
            decisions: Decisions::new(),
        }
    }
}

impl<N: LookupNode> DynNode for LookupDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        self.decisions.begin();
        let mut view = self.node.view(guard);
        let descs = v.as_mut_slice();
        for (d, key) in descs.iter_mut().zip(self.keys.iter_mut()) {
            *key = N::key(&mut view, &mut Packet { d, env });
        }
        let n = descs.len();
        N::lookup(&mut view, descs, &self.keys[..n], &mut self.results[..n]);
        for (i, d) in descs.iter_mut().enumerate() {
            let before = Seen::of(d);
            let decision = N::step(&mut view, &mut Packet { d, env }, self.results[i]);
            self.decisions.note(env, guard, &self.edges, &before, d, decision);
        }
        drop(view);
        self.decisions.settle(env, v);
    }

    fn salvage(&mut self, v: &mut Vector) {
        self.decisions.salvage(v);
    }

    fn flush(&mut self, _env: &mut Env) {}

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }
}

pub(crate) struct BatchDriver<N> {
    pub node: N,
}

impl<N: BatchNode> DynNode for BatchDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        let traced = v.as_slice().iter().any(|d| d.has(flags::TRACED));
        if traced {
            for d in v.as_slice().iter().filter(|d| d.has(flags::TRACED)) {
                env.trace(guard, &Seen::of(d), d, Some(env.node), NO_REASON);
            }
        }
        self.node.process(env, guard, v);
    }

    fn salvage(&mut self, _v: &mut Vector) {}

    fn flush(&mut self, env: &mut Env) {
        self.node.flush(env);
    }

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }
}
