//! The dispatcher of one worker: runs the nodes for which vectors wait, in the graph's order, until none waits.

use crate::clock::tsc;
use crate::desc::{Desc, Packets, Vector};
use crate::driver::DynNode;
use crate::edge::{NodeId, Reason};
use crate::env::{DispatchReason, Env};
use crate::epoch::Guard;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Sender;

/// A caught panic, for the log.
#[derive(Clone, Debug)]
pub struct PanicReport {
    /// Worker's number.
    pub worker: usize,
    /// Node in which it happened.
    pub node: &'static str,
    /// What the panic said.
    pub message: String,
    /// Packets that were dropped with it.
    pub packets: usize,
    /// The first bytes of the first of them.
    pub bytes: Vec<u8>,
}

/// The nodes that have work at certain times.
pub(crate) struct Timers {
    pub nodes: Vec<NodeId>,
    /// When they are asked next.
    pub at_ns: u64,
}

impl Timers {
    pub fn new(nodes: Vec<NodeId>) -> Self {
        Timers { nodes, at_ns: 0 }
    }
}

/// One worker's graph.
pub struct Dispatcher {
    pub(crate) nodes: Vec<Box<dyn DynNode>>,
    pub(crate) flushers: Vec<NodeId>,
    pub(crate) reason_base: u32,
    pub(crate) panics: Option<Sender<PanicReport>>,
    /// Packets that go to another worker's node together.
    pub(crate) together: Vec<Desc>,
    pub(crate) timers: Timers,
    /// The worker's services; public for inputs and for tests that feed nodes directly.
    pub env: Env,
}

impl Dispatcher {
    /// Sends caught panics to `reports`.
    pub fn report_panics(&mut self, reports: Sender<PanicReport>) {
        self.panics = Some(reports);
    }

    /// The node of type `N` called `name`, to change its own state between two vectors.
    pub fn node_mut<N: Any>(&mut self, name: &str) -> Option<&mut N> {
        let i = self.env.wiring.names.iter().position(|n| *n == name)?;
        self.nodes.get_mut(i)?.node().downcast_mut()
    }

    /// Has `work` done by the node of type `N` called `name` between two vectors, as if it ran: what it counts, drops and
    /// forwards is its own.
    pub fn visit<N: Any, R>(&mut self, name: &str, work: impl FnOnce(&mut N, &mut Env) -> R) -> Option<R> {
        let id = self.id(name)?;
        self.env.node = id;
        self.env.reason_base = *self.env.wiring.reason_base.get(usize::from(id.0))?;
        let node = self.nodes.get_mut(usize::from(id.0))?.node().downcast_mut()?;
        Some(work(node, &mut self.env))
    }

    /// The number of the node called `name`.
    pub fn id(&self, name: &str) -> Option<NodeId> {
        self.env.wiring.names.iter().position(|n| *n == name).map(|i| NodeId(i as u16))
    }

    /// Starts tracing in `v` as `node` and hands its packets to `to`.
    pub fn feed(&mut self, v: &mut Box<Vector>, to: NodeId) {
        if v.is_empty() {
            return;
        }
        if self.env.frames.pass(to, v) {
            return;
        }
        self.env.enqueue_all(v.take(), to);
    }

    /// Runs nodes until no packet waits; returns the number of packets handled (a packet counts once a node).
    pub fn run(&mut self, guard: &Guard) -> u64 {
        let (mut at, mut handled) = (0u16, 0u64);
        let mut t0 = tsc();
        let start = t0;
        while let Some(id) = self.env.frames.next_ready(at) {
            let Some(mut v) = self.env.frames.take(id) else { break };
            let n = v.len() as u64;
            handled += n;
            self.env.node = id;
            self.env.reason_base = self.env.wiring.reason_base[usize::from(id.0)];
            self.env.tracing.start(id, &mut v, &mut self.env.buffers, guard);
            let node = &mut self.nodes[usize::from(id.0)];
            let env = &mut self.env;
            let result = catch_unwind(AssertUnwindSafe(|| node.process(env, guard, &mut v)));
            if let Err(cause) = result {
                self.contain(id, &mut v, cause);
            } else if !v.is_empty() {
                self.env.reason_base = self.reason_base;
                v.take().for_each(|d| self.env.drop(d, DispatchReason::Left));
            }
            if !self.env.outbox.is_empty() {
                self.hand_off();
            }
            self.env.frames.give(v);
            let t1 = tsc();
            let s = &self.env.stats.nodes[usize::from(id.0)];
            s.calls.add(1);
            s.packets.add(n);
            s.clocks.add(t1.wrapping_sub(t0));
            if n > s.max_vector.get() {
                s.max_vector.set(n);
            }
            t0 = t1;
            at = id.0;
        }
        if handled != 0 {
            for i in 0..self.flushers.len() {
                let id = self.flushers[i];
                self.env.node = id;
                self.env.reason_base = self.env.wiring.reason_base[usize::from(id.0)];
                let (node, env) = (&mut self.nodes[usize::from(id.0)], &mut self.env);
                if let Err(cause) = catch_unwind(AssertUnwindSafe(|| node.flush(env))) {
                    let mut none = Vector::boxed();
                    self.contain(id, &mut none, cause);
                }
                let t1 = tsc();
                self.env.stats.nodes[usize::from(id.0)].clocks.add(t1.wrapping_sub(t0));
                t0 = t1;
            }
            let took = t0.wrapping_sub(start);
            if took > self.env.stats.turns().max_loop.get() {
                self.env.stats.turns().max_loop.set(took);
            }
        }
        handled
    }

    /// Sends what a node has for other workers: the packets for each of their nodes together, in order.
    #[cold]
    pub(crate) fn hand_off(&mut self) {
        let env = &mut self.env;
        while let Some(&(to, node, _)) = env.outbox.first() {
            let together = &mut self.together;
            env.outbox.retain_mut(|(t, n, d)| {
                let same = (*t, *n) == (to, node) && together.len() < together.capacity();
                if same {
                    together.push(d.take());
                }
                !same
            });
            let mut packets = Packets::drain(together);
            if let Some(h) = &env.handoff {
                h.send(to, node, &mut packets);
            }
            packets.for_each(|d| env.lose(d));
        }
    }

    #[cold]
    pub(crate) fn contain(&mut self, id: NodeId, v: &mut Vector, cause: Box<dyn Any + Send>) {
        self.nodes[usize::from(id.0)].salvage(v);
        let message = cause
            .downcast_ref::<&str>()
            .map(|s| (*s).to_string())
            .or_else(|| cause.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_string());
        let mut bytes = vec![0; 128];
        let n = v.as_slice().first().map_or(0, |d| self.env.buffers.copy_out(d, 0, &mut bytes));
        bytes.truncate(n);
        let node = self.env.wiring.names[usize::from(id.0)];
        let report = PanicReport { worker: self.env.worker, node, message, packets: v.len(), bytes };
        if let Some(to) = &self.panics {
            let _ = to.send(report);
        }
        self.env.stats.nodes[usize::from(id.0)].panics.add(1);
        if id == self.env.wiring.drop {
            // The drop node itself failed: free here, or the packets would come round again.
            self.env.buffers.free_all(v.take());
        } else {
            self.env.reason_base = self.reason_base;
            v.take().for_each(|d| self.env.drop(d, DispatchReason::Panic));
        }
    }
}

/// Number and name of every reason of the dispatcher itself.
pub(crate) fn own_reasons() -> &'static [(&'static str, &'static str, crate::Severity)] {
    DispatchReason::ALL
}
