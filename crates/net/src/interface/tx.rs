//! `interface-tx`: hands packets to the device queues of this worker.

use super::IfIndex;
use crate::plane::Plane;
use graph::counters::{Pair, Table};
use graph::node::Never;
use graph::{BatchNode, Env, Guard, TraceRecord, TxQueue, TxReport, Vector};
use std::fmt;
use std::sync::Arc;

graph::reasons! {
    /// Why packets end in `interface-tx`.
    pub enum TxDrop {
        /// The interface has no transmit queue on this worker.
        NoQueue => "no-tx-queue",
        /// The device's transmit queue was full.
        Full => "tx-queue-full",
        /// The device refused the packet.
        Error => "tx-error",
    }
}

/// The node: transmit queues by interface.
pub struct InterfaceTx {
    queues: Vec<Option<Box<dyn TxQueue>>>,
    used: Vec<IfIndex>,
    tx: Arc<Table<Pair>>,
}

impl InterfaceTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        InterfaceTx { queues: Vec::new(), used: Vec::with_capacity(1024), tx: plane.counters.tx.of(worker) }
    }

    /// Sets or removes the queue of an interface; answers the old one.
    pub fn set(&mut self, index: IfIndex, queue: Option<Box<dyn TxQueue>>) -> Option<Box<dyn TxQueue>> {
        let i = index as usize;
        if self.queues.len() <= i {
            self.queues.resize_with(i + 1, || None);
        }
        std::mem::replace(&mut self.queues[i], queue)
    }

    fn count(&self, env: &mut Env, index: IfIndex, r: TxReport) {
        if let Some(c) = self.tx.get(index) {
            c.packets.add(r.packets);
            c.bytes.add(r.bytes);
        }
        if r.full != 0 {
            env.count_n(TxDrop::Full, r.full);
        }
        if r.errors != 0 {
            env.count_n(TxDrop::Error, r.errors);
        }
    }
}

impl BatchNode for InterfaceTx {
    const NAME: &'static str = "interface-tx";
    type Next = Never;
    type Drop = TxDrop;

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::sent(r, f)
    }

    fn process(&mut self, env: &mut Env, _guard: &Guard, v: &mut Vector) {
        let mut rest = v.as_slice();
        while let Some(first) = rest.first() {
            let index = first.tx;
            let n = rest.iter().position(|d| d.tx != index).unwrap_or(rest.len());
            let (run, tail) = rest.split_at(n);
            rest = tail;
            if let Some(Some(q)) = self.queues.get_mut(index as usize) {
                let report = q.send(&mut env.buffers, run);
                self.count(env, index, report);
                if !self.used.contains(&index) && self.used.len() < self.used.capacity() {
                    self.used.push(index);
                }
            } else {
                for d in run {
                    env.drop(*d, TxDrop::NoQueue);
                }
            }
        }
        v.clear();
    }

    fn flush(&mut self, env: &mut Env) {
        while let Some(index) = self.used.pop() {
            if let Some(Some(q)) = self.queues.get_mut(index as usize) {
                let report = q.flush(&mut env.buffers);
                self.count(env, index, report);
            }
        }
    }
}
