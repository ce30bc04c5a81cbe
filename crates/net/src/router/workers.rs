//! What `show runtime`, `show errors` and `show threads` read, and what `clear` subtracts.

use super::traces::Traces;
use super::{MakeGraph, OpError, Order, Router};
use crate::background::Slot;
use crate::output::InterfaceTx;
use graph::builder::Kind;
use graph::dispatch::PanicReport;
use graph::stats::NodeStats;
use graph::{Graph, Handoff, Severity, WorkerHandle};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// Turns of a worker in which it must have sent what it was given.
const FAREWELL_TURNS: usize = 1000;

/// One node of one worker since the last clear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Calls.
    pub calls: u64,
    /// Packets.
    pub packets: u64,
    /// TSC clocks.
    pub clocks: u64,
    /// Sleeps of an input.
    pub suspends: u64,
    /// Largest vector since the last clear.
    pub max_vector: u64,
    /// Panics caught.
    pub panics: u64,
}

impl NodeCounts {
    fn read(s: &NodeStats) -> Self {
        NodeCounts {
            calls: s.calls.get(),
            packets: s.packets.get(),
            clocks: s.clocks.get(),
            suspends: s.suspends.get(),
            max_vector: s.max_vector.get(),
            panics: s.panics.get(),
        }
    }

    fn since(self, b: &NodeCounts) -> Self {
        NodeCounts {
            calls: self.calls - b.calls,
            packets: self.packets - b.packets,
            clocks: self.clocks - b.clocks,
            suspends: self.suspends - b.suspends,
            max_vector: self.max_vector,
            panics: self.panics - b.panics,
        }
    }
}

/// One row of `show runtime`.
#[derive(Clone, Debug)]
pub struct NodeRow {
    /// Node.
    pub name: &'static str,
    /// `polling`, `interrupt wait` or `active`.
    pub state: &'static str,
    /// Its counters.
    pub counts: NodeCounts,
}

/// One worker for `show runtime` and `show threads`.
#[derive(Clone, Debug)]
pub struct WorkerInfo {
    /// Its number.
    pub index: usize,
    /// CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Seconds since the last clear.
    pub seconds: f64,
    /// Packets that inputs brought.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Packets that were dropped.
    pub packets_dropped: u64,
    /// Loops that found packets.
    pub loops: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Share of the time spent asleep.
    pub asleep: f64,
    /// Its nodes.
    pub nodes: Vec<NodeRow>,
}

/// One row of `show errors`.
#[derive(Clone, Debug)]
pub struct ErrorRow {
    /// Packets or events.
    pub count: u64,
    /// Node.
    pub node: &'static str,
    /// Name of the reason.
    pub reason: &'static str,
    /// What it means.
    pub description: &'static str,
    /// Drop or event.
    pub severity: Severity,
}

struct WorkerBase {
    /// When that was.
    at: Instant,
    nodes: Vec<NodeCounts>,
    loops: u64,
    sleeps: u64,
    asleep: u64,
    packets_in: u64,
}

impl WorkerBase {
    fn now(g: &Graph) -> Self {
        let t = g.stats.turns();
        WorkerBase {
            at: Instant::now(),
            nodes: g.stats.nodes.iter().map(NodeCounts::read).collect(),
            loops: t.loops.get(),
            sleeps: t.sleeps.get(),
            asleep: t.asleep.get(),
            packets_in: t.packets_in.get(),
        }
    }
}

/// Counter values at the last `clear`, or when a worker began: counters themselves have one writer, the worker.
#[derive(Default)]
struct Cleared {
    runtime: Vec<WorkerBase>,
    reasons: Vec<u64>,
    interfaces: BTreeMap<u32, InterfaceCounts>,
    /// Times that the trace was.
    traces: u64,
}

type Queue = Box<dyn graph::RxQueue>;

/// A receive queue goes from one worker to another.
struct Move {
    id: u64,
    from: usize,
    to: usize,
    features: Arc<AtomicU32>,
}

/// A receive queue that a worker has.
struct Fed {
    worker: usize,
    /// Features of the receive arc on its interface.
    features: Arc<AtomicU32>,
}

/// The workers, their graphs, and what they counted when it was cleared.
pub(crate) struct Workers {
    pub build: MakeGraph,
    /// Those that share the work, as many as the router's configuration says, and behind them those that did once: they sleep, and
    /// mail reaches them.
    pub handles: Vec<WorkerHandle>,
    /// Each worker's graph: names, counters, trace.
    pub graphs: Vec<Graph>,
    /// Where nodes that panicked leave something, and its other end.
    pub report: mpsc::Sender<PanicReport>,
    pub panics: mpsc::Receiver<PanicReport>,
    /// Receive queues by their numbers among those of all workers.
    inputs: BTreeMap<u64, Fed>,
    cleared: Cleared,
    /// Traces that are followed.
    pub traces: Traces,
}

impl Workers {
    /// None yet, for graphs that `build` makes.
    pub fn new(build: MakeGraph) -> Self {
        let (report, panics) = mpsc::channel();
        let cleared = Cleared::default();
        let (inputs, traces) = (BTreeMap::new(), Traces::default());
        Workers { build, handles: vec![], graphs: vec![], report, panics, inputs, cleared, traces }
    }

    /// One more.
    pub fn push(&mut self, handle: WorkerHandle, graph: Graph) {
        self.cleared.runtime.push(WorkerBase::now(&graph));
        self.handles.push(handle);
        self.graphs.push(graph);
    }

    /// Has a worker poll a receive queue, and answers its number among the inputs of all workers.
    ///
    /// # Errors
    /// The worker cannot, or has ended.
    pub fn add_input(
        &mut self,
        worker: usize,
        queue: Box<dyn graph::RxQueue>,
        features: Arc<AtomicU32>,
    ) -> Result<u64, String> {
        // The lowest that is free: those below a limit are counted.
        let id = (1..).zip(self.inputs.keys()).find(|(n, id)| n != *id).map(|(n, _)| n);
        let id = id.unwrap_or(self.inputs.len() as u64 + 1);
        self.feed(worker, id, queue, &features).map_err(|(why, _)| why)?;
        self.inputs.insert(id, Fed { worker, features });
        Ok(id)
    }

    /// Gives a worker a receive queue; it comes back with the reason where the worker does not take it.
    fn feed(
        &self,
        worker: usize,
        id: u64,
        queue: Queue,
        features: &Arc<AtomicU32>,
    ) -> Result<(), (String, Option<Queue>)> {
        // It stays here until the worker has it: one that has ended takes nothing along.
        let place = Slot::new(queue);
        let (there, features) = (place.clone(), Arc::clone(features));
        let add = move |w: &mut graph::Worker| {
            let mut queue = there.take();
            let added = w.add_input(id, &mut queue, features);
            if let Some(queue) = queue {
                there.put(queue);
            }
            added
        };
        let added =
            self.handles[worker].call(add).ok_or_else(|| String::from("a worker has ended")).flatten();
        added.map_err(|why| (why, place.take()))
    }

    /// The worker that polls a receive queue.
    pub fn polls(&self, input: u64) -> usize {
        self.inputs.get(&input).map_or(0, |fed| fed.worker)
    }

    /// Receive queues of workers from number `first` on.
    pub fn inputs_from(&self, first: usize) -> Vec<u64> {
        self.inputs.iter().filter(|(_, fed)| fed.worker >= first).map(|(id, _)| *id).collect()
    }

    /// Has other workers poll some receive queues: all of them, or none. Packets wait in them meanwhile: none is lost, nor overtaken by
    /// one behind it, also where the worker before has handed it over to the one that comes.
    ///
    /// # Errors
    /// A worker does not take its queue, or has ended: all are where they were.
    pub fn move_inputs(&mut self, handoff: &Handoff, moves: &[(u64, usize)]) -> Result<(), String> {
        let new = |(id, to): &(u64, usize)| {
            let fed = self.inputs.get(id).filter(|fed| fed.worker != *to)?;
            Some(Move { id: *id, from: fed.worker, to: *to, features: Arc::clone(&fed.features) })
        };
        let moves: Vec<Move> = moves.iter().filter_map(new).collect();
        for (n, m) in moves.iter().enumerate() {
            // One after the other: each stands still as shortly as can be.
            if let Err(why) = self.move_input(handoff, m, m.from, m.to) {
                for m in moves[..n].iter().rev() {
                    // Who had it a moment ago takes it.
                    let _ = self.move_input(handoff, m, m.to, m.from);
                }
                return Err(why);
            }
        }
        Ok(())
    }

    fn move_input(&mut self, handoff: &Handoff, m: &Move, from: usize, to: usize) -> Result<(), String> {
        let queue = self.take_input(from, m.id).ok_or("a worker has ended")?;
        self.await_handoffs(handoff, to);
        match self.feed(to, m.id, queue, &m.features) {
            Ok(()) => {
                if let Some(fed) = self.inputs.get_mut(&m.id) {
                    fed.worker = to;
                }
                Ok(())
            }
            Err((why, queue)) => {
                self.await_handoffs(handoff, from);
                let back = queue.into_iter().map(|queue| (m.id, queue)).collect();
                let _ = self.resume_inputs(back);
                Err(why)
            }
        }
    }

    /// Takes a receive queue from its worker.
    fn take_input(&self, worker: usize, id: u64) -> Option<Queue> {
        self.handles[worker].call(move |w| w.remove_input(id)).flatten()
    }

    /// Waits until a worker has taken what others have handed to it by now. What it is given by mail comes behind that.
    fn await_handoffs(&self, handoff: &Handoff, worker: usize) {
        let mark = handoff.mark(worker);
        while !handoff.has_taken(worker, mark) {
            // Mail wakes it, and tells whether it is still there.
            if self.handles.get(worker).and_then(|w| w.call(|_| ())).is_none() {
                return;
            }
        }
    }

    /// Takes the receive queues whose packets visit these features from their workers, and waits until all that came out of them
    /// has been sent on or dropped, wherever it was handed to.
    fn halt_inputs(&self, handoff: &Handoff, features: &[Arc<AtomicU32>]) -> Vec<(u64, Queue)> {
        let is_of = |fed: &Fed| features.iter().any(|f| Arc::ptr_eq(&fed.features, f));
        let own = self.inputs.iter().filter(|(_, fed)| is_of(fed));
        let queues: Vec<_> =
            own.filter_map(|(id, fed)| Some((*id, self.take_input(fed.worker, *id)?))).collect();
        if !queues.is_empty() {
            (0..self.handles.len()).for_each(|w| self.await_handoffs(handoff, w));
            self.ask(|_| ()).for_each(drop);
        }
        queues
    }

    /// Gives receive queues back to their workers.
    ///
    /// # Errors
    /// No worker takes one. Where its own does not another has it.
    fn resume_inputs(&mut self, queues: Vec<(u64, Queue)>) -> Result<(), String> {
        let mut answer = Ok(());
        for (id, queue) in queues {
            let Some(fed) = self.inputs.get(&id) else { continue };
            let (own, features, mut left) = (fed.worker, Arc::clone(&fed.features), Some(queue));
            let mut refused = None;
            let others = (0..self.handles.len()).filter(|w| *w != own);
            for worker in std::iter::once(own).chain(others) {
                let Some(queue) = left.take() else { break };
                match self.feed(worker, id, queue, &features) {
                    Ok(()) => {
                        if let Some(fed) = self.inputs.get_mut(&id) {
                            fed.worker = worker;
                        }
                        break;
                    }
                    Err((why, back)) => (refused, left) = (Some(why), back),
                }
            }
            if let (Some(why), Some(_)) = (refused, left) {
                answer = Err(why);
            }
        }
        answer
    }

    /// Gives a worker a transmit queue for an interface.
    pub fn set_transmit_queue(&self, worker: usize, interface: u32, queue: Box<dyn graph::TxQueue>) {
        self.on(worker, move |w| {
            if let Some(tx) = w.dispatcher.node_mut::<InterfaceTx>("interface-tx") {
                drop(tx.set(interface, Some(queue)));
            }
        });
    }

    /// Whether a worker's transmit queue for an interface is to be another, which has handed over all that waited in it.
    pub fn leaves_transmit_queue(&self, worker: usize, interface: u32) -> bool {
        let ask = move |w: &mut graph::Worker| {
            w.dispatcher.node_mut::<InterfaceTx>("interface-tx").is_some_and(|tx| tx.leaves(interface))
        };
        self.handles.get(worker).and_then(|w| w.call(ask)).unwrap_or(false)
    }

    /// Gives a worker another transmit queue for an interface, behind all that waits in the one that it had; that one.
    pub fn renew_transmit_queue(
        &self,
        worker: usize,
        interface: u32,
        queue: Box<dyn graph::TxQueue>,
    ) -> Option<Box<dyn graph::TxQueue>> {
        let renew = move |w: &mut graph::Worker| {
            let tx = w.dispatcher.node_mut::<InterfaceTx>("interface-tx")?;
            tx.leaves(interface);
            tx.set(interface, Some(queue))
        };
        self.handles.get(worker)?.call(renew).flatten()
    }

    /// Those of some interfaces for which a worker has no transmit queue.
    pub fn without_transmit_queue(&self, worker: usize, mut interfaces: Vec<u32>) -> Vec<u32> {
        let ask = move |w: &mut graph::Worker| {
            let node = w.dispatcher.node_mut::<InterfaceTx>("interface-tx");
            interfaces.retain(|i| node.as_ref().is_some_and(|tx| !tx.has(*i)));
            interfaces
        };
        self.handles[worker].call(ask).unwrap_or_default()
    }

    /// Has the worker of a receive queue look at it, which may sleep.
    pub fn look_at(&self, input: u64) {
        // Any mail makes it look at its inputs.
        self.on(self.polls(input), |_| {});
    }
}

/// Counters of one interface since the last clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// IPv4 packets received, without those under labels.
    pub ip4: u64,
    /// IPv6 packets received, without those under labels.
    pub ip6: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped that came on it, by reason's number.
    pub drops: BTreeMap<usize, u64>,
    /// Packets its device dropped before the graph saw them.
    pub device_drops: Vec<(&'static str, u64)>,
}

impl Workers {
    /// Has every worker run `f` between two vectors.
    pub fn each(&self, f: impl Fn(&mut graph::Worker) + Clone + Send + 'static) {
        for w in &self.handles {
            w.send(f.clone());
        }
    }

    /// Has every worker run `f` between two vectors, one after another, and waits for what it answers; none from one that has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        f: impl Fn(&mut graph::Worker) -> T + Clone + Send + 'static,
    ) -> impl Iterator<Item = Option<T>> {
        self.handles.iter().map(move |w| w.call(f.clone()))
    }

    /// Has one worker run `f` between two vectors.
    pub fn on(&self, worker: usize, f: impl FnOnce(&mut graph::Worker) + Send + 'static) {
        if let Some(w) = self.handles.get(worker) {
            w.send(f);
        }
    }

    /// Has the worker of an input forget it, and takes it back; its number is given to another.
    pub fn remove_input(&mut self, input: u64) -> Option<Box<dyn graph::RxQueue>> {
        let fed = self.inputs.remove(&input)?;
        self.take_input(fed.worker, input)
    }

    /// Takes the transmit queues for an interface back from all workers.
    pub fn take_transmit_queues(&self, interface: u32) -> Vec<Box<dyn graph::TxQueue>> {
        let take = move |w: &mut graph::Worker| {
            w.dispatcher.node_mut::<InterfaceTx>("interface-tx").and_then(|tx| tx.set(interface, None))
        };
        self.ask(take).flatten().flatten().collect()
    }

    /// The names of all nodes.
    pub fn node_names(&self) -> &[&'static str] {
        self.graphs.first().map_or(&[], |g| &g.wiring.names)
    }

    pub fn raw_errors(&self) -> Vec<u64> {
        let n = self.graphs.first().map_or(0, |g| g.reasons.len());
        (0..n).map(|r| self.graphs.iter().map(|g| g.stats.reasons[r].get()).sum()).collect()
    }
}

impl Router {
    /// Has frames of the router's own made, one on each of `interfaces`, and returns when they have been sent, or should have been.
    pub(crate) fn send_before(&mut self, interfaces: &[u32], make: impl FnOnce(&mut Router)) {
        if interfaces.is_empty() {
            return;
        }
        let sent = |r: &Router| -> u64 { interfaces.iter().map(|i| r.plane.counters.tx.sum(*i).0).sum() };
        let want = sent(self) + interfaces.len() as u64;
        make(self);
        // The first worker sends them: it takes mail, and then runs what the mail put into its graph. Mail that it takes in the
        // same turn comes back too soon, so its counters say when; one without a device never counts.
        let Some(w) = self.workers.handles.first() else { return };
        for _ in 0..FAREWELL_TURNS {
            if w.call(|_| ()).is_none() || sent(self) >= want {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn raw_counts(&self, index: u32) -> InterfaceCounts {
        let c = &self.plane.counters;
        let ((rx_packets, rx_bytes), (tx_packets, tx_bytes)) = (c.received(index), c.tx.sum(index));
        let (ip4, ip6) = c.by_family(index);
        let reasons = self.workers.graphs.first().map_or(0, |g| g.reasons.len());
        let drops = (0..reasons).map(|r| (r, c.drops.sum(index, r))).filter(|(_, n)| *n != 0).collect();
        let device_drops = self.interface(index).map(super::IfState::device_drops).unwrap_or_default();
        InterfaceCounts { rx_packets, rx_bytes, ip4, ip6, tx_packets, tx_bytes, drops, device_drops }
    }

    /// Counters of an interface since the last clear (or since it was made).
    pub fn interface_counts(&self, index: u32) -> InterfaceCounts {
        let mut now = self.raw_counts(index);
        let Some(b) = self.workers.cleared.interfaces.get(&index) else { return now };
        now.rx_packets -= b.rx_packets;
        now.rx_bytes -= b.rx_bytes;
        now.ip4 -= b.ip4;
        now.ip6 -= b.ip6;
        now.tx_packets -= b.tx_packets;
        now.tx_bytes -= b.tx_bytes;
        for (r, n) in &mut now.drops {
            *n -= b.drops.get(r).copied().unwrap_or(0);
        }
        now.drops.retain(|_, n| *n != 0);
        for (name, n) in &mut now.device_drops {
            *n -= b.device_drops.iter().find(|d| d.0 == *name).map_or(0, |d| d.1);
        }
        now
    }

    /// `clear interfaces`, for some of those that stand behind a place: behind which one it goes on, if there are more.
    pub fn clear_interfaces(&mut self, after: Option<Order>) -> Option<Order> {
        const AT_ONCE: usize = 256;
        let all = self.interfaces_after(after).take(AT_ONCE);
        let some: Vec<(u32, Order)> = all.map(|i| (i.index, i.order())).collect();
        for (i, _) in &some {
            self.start_counts(*i);
        }
        some.get(AT_ONCE - 1).map(|(_, place)| *place)
    }

    /// A number that was an interface's before is given to a new one: its counters start at 0.
    pub(super) fn start_counts(&mut self, index: u32) {
        let c = self.raw_counts(index);
        self.workers.cleared.interfaces.insert(index, c);
    }

    /// The number by which the system knows a worker's thread.
    pub fn worker_thread(&self, worker: usize) -> Option<i32> {
        self.workers.handles.get(worker)?.thread()
    }

    /// `clear runtime`.
    pub fn clear_runtime(&mut self) {
        for (b, g) in self.workers.cleared.runtime.iter_mut().zip(&self.workers.graphs) {
            for n in g.stats.nodes.iter() {
                n.max_vector.set(0);
            }
            *b = WorkerBase::now(g);
        }
    }

    /// `clear errors`.
    pub fn clear_errors(&mut self) {
        self.workers.cleared.reasons = self.workers.raw_errors();
    }

    /// Packets received on an interface that were dropped for the reason of this name, since the last clear.
    pub fn dropped(&self, index: u32, reason: &str) -> u64 {
        let number =
            self.workers.graphs.first().and_then(|g| g.reasons.iter().position(|r| r.name == reason));
        number.and_then(|n| self.interface_counts(index).drops.get(&n).copied()).unwrap_or(0)
    }

    /// Drops and events that happened since the last clear.
    pub fn errors(&self) -> Vec<ErrorRow> {
        let Some(g) = self.workers.graphs.first() else { return vec![] };
        let now = self.workers.raw_errors();
        let rows = now.iter().zip(g.reasons.iter()).enumerate().map(|(i, (n, r))| ErrorRow {
            count: n - self.workers.cleared.reasons.get(i).copied().unwrap_or(0),
            node: r.node,
            reason: r.name,
            description: r.description,
            severity: r.severity,
        });
        rows.filter(|r| r.count != 0).collect()
    }

    /// Changes where workers have the packets of some interfaces while none is on its way: what comes waits in their receive queues, and
    /// what came before has gone on. So none is lost, and none overtakes another.
    ///
    /// # Errors
    /// No worker takes a queue back: the change is made.
    pub(crate) fn between_packets<R>(
        &mut self,
        interfaces: &[u32],
        change: impl FnOnce(&mut Router) -> R,
    ) -> Result<R, OpError> {
        let own = |index: &u32| Some(Arc::clone(&self.interface(*index)?.rx_features));
        let features: Vec<_> = interfaces.iter().filter_map(own).collect();
        let queues = self.workers.halt_inputs(&self.plane.handoff, &features);
        let answer = change(self);
        self.workers.resume_inputs(queues).map_err(OpError::new)?;
        Ok(answer)
    }

    /// Waits until what workers have in hand is sent on or dropped, wherever it was handed to.
    pub(super) fn wait_for_handoffs(&self) {
        self.wait_for_workers();
        (0..self.workers.handles.len()).for_each(|w| self.workers.await_handoffs(&self.plane.handoff, w));
        self.wait_for_workers();
    }

    /// Packets that others could not hand to a worker, where too many waited.
    pub(crate) fn handoff_refused(&self, worker: usize) -> u64 {
        self.plane.handoff.refused(worker)
    }

    /// Waits until no worker works on a vector any more that it works on now.
    pub(crate) fn wait_for_workers(&self) {
        for w in &self.workers.handles {
            w.call(|_| ());
        }
    }

    /// A point in time, for [`Router::passed`].
    pub fn mark(&self) -> u64 {
        self.grace.reclaimer.domain().advance()
    }

    /// Whether every worker has ended a loop since `mark` was made, or sleeps: whether none of them hangs.
    pub fn passed(&self, mark: u64) -> bool {
        self.grace.reclaimer.domain().safe() >= mark
    }

    /// Every worker's nodes since the last clear.
    pub fn runtime(&self) -> Vec<WorkerInfo> {
        let clock_hz = graph::clock::tsc_hz() as f64;
        let worker = |(index, (g, b)): (usize, (&Graph, &WorkerBase))| {
            let seconds = b.at.elapsed().as_secs_f64().max(1e-9);
            let zero = NodeCounts::default();
            let rows: Vec<NodeRow> = g
                .nodes
                .iter()
                .zip(g.stats.nodes.iter())
                .enumerate()
                .map(|(i, (info, s))| {
                    let counts = NodeCounts::read(s).since(b.nodes.get(i).unwrap_or(&zero));
                    let state = match info.kind {
                        Kind::Input if counts.suspends != 0 => "interrupt wait",
                        Kind::Input => "polling",
                        Kind::Internal => "active",
                    };
                    NodeRow { name: info.name, state, counts }
                })
                .collect();
            let of = |name: &str| rows.iter().find(|r| r.name == name).map_or(0, |r| r.counts.packets);
            WorkerInfo {
                index,
                cpu: self.config.cpus.get(index).copied(),
                seconds,
                packets_in: g.stats.turns().packets_in.get() - b.packets_in,
                packets_out: of("interface-tx"),
                packets_dropped: of("error-drop"),
                loops: g.stats.turns().loops.get() - b.loops,
                sleeps: g.stats.turns().sleeps.get() - b.sleeps,
                asleep: (g.stats.turns().asleep.get() - b.asleep) as f64 / clock_hz / seconds,
                nodes: rows,
            }
        };
        let all = self.workers.graphs.iter().zip(&self.workers.cleared.runtime);
        all.take(self.config.workers).enumerate().map(worker).collect()
    }

    /// Traces the next `packets` packets of every worker that come to `node`.
    pub fn trace_add(&mut self, node: &str, packets: u32) -> Result<(), String> {
        let Some(id) = self.workers.graphs.first().and_then(|g| g.node(node)) else {
            return Err(format!("there is no node {node}"));
        };
        for g in &self.workers.graphs {
            g.tracing.add(id, packets, &self.grace.guard, &mut self.grace.reclaimer);
        }
        Ok(())
    }

    /// `clear trace`.
    pub fn trace_clear(&mut self) {
        for g in &self.workers.graphs {
            g.tracing.clear(&mut self.grace.reclaimer);
        }
        self.workers.cleared.traces += 1;
    }

    /// Times that the trace was cleared.
    pub fn traces_cleared(&self) -> u64 {
        self.workers.cleared.traces
    }

    /// A trace record of worker `w` by its place, which it keeps until the trace is cleared.
    pub fn trace_record(&self, w: usize, at: usize) -> Option<graph::TraceRecord> {
        self.workers.graphs.get(w).and_then(|g| g.tracing.get(at, &self.grace.guard))
    }

    /// Receive queues of each worker: input node and interface.
    pub fn placement(&self) -> Vec<Vec<(String, String)>> {
        let g = &self.workers.graphs;
        let name = |n: graph::NodeId| g.first().map_or("?", |g| g.wiring.names[usize::from(n.0)]).to_string();
        let workers = self.workers.handles.iter().take(self.config.workers);
        let all = workers.map(|w| w.call(|w| w.inputs()).unwrap_or_default());
        all.map(|v| v.into_iter().map(|(n, i)| (name(n), self.interface_name(i))).collect()).collect()
    }

    /// Has a worker, the `nth` round about, poll an input whose packets seem to come on an interface. Answers the number of the
    /// input.
    ///
    /// # Errors
    /// The worker cannot.
    pub(crate) fn add_input(
        &mut self,
        nth: usize,
        interface: u32,
        queue: Box<dyn graph::RxQueue>,
    ) -> Result<u64, String> {
        let features = self.interface(interface).map(|i| Arc::clone(&i.rx_features)).unwrap_or_default();
        self.workers.add_input(nth % self.config.workers, queue, features)
    }

    /// An interface as workers see it.
    pub(crate) fn seen(&self, index: u32) -> Option<&crate::interface::Interface> {
        self.plane.interfaces.get(index, &self.grace.guard)
    }

    /// Packets that each worker holds for neighbours that are being resolved (IPv4, IPv6).
    pub fn held(&self) -> Vec<(usize, usize)> {
        let count = |w: &mut graph::Worker| {
            let four =
                w.dispatcher.node_mut::<crate::hold::Ip4Hold>("ip4-hold").map_or(0, |h| h.waiting().len());
            let six =
                w.dispatcher.node_mut::<crate::hold::Ip6Hold>("ip6-hold").map_or(0, |h| h.waiting().len());
            (four, six)
        };
        let workers = self.workers.handles.iter().take(self.config.workers);
        workers.map(|w| w.call(count).unwrap_or_default()).collect()
    }
}
