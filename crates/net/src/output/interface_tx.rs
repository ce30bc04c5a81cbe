//! `interface-tx`: hands packets to the device queues of this worker.

use crate::interface::IfIndex;
use crate::plane::{DropTable, Plane};
use graph::counters::Table;
use graph::node::Never;
use graph::{Aside, BatchNode, Desc, Env, Guard, TraceRecord, TxQueue, TxReport, VECTOR_SIZE, Vector};
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
        /// The device has no link, or Linux has taken it down or away.
        NoLink => "tx-no-link",
    }
}

/// The node: transmit queues by interface.
pub struct InterfaceTx {
    queues: Vec<Option<Box<dyn TxQueue>>>,
    used: Vec<IfIndex>,
    others: Aside,
    tx: Arc<Table>,
    drops: Arc<DropTable>,
}

impl InterfaceTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        InterfaceTx {
            queues: Vec::new(),
            used: Vec::with_capacity(1024),
            others: Aside::new(VECTOR_SIZE),
            tx: plane.counters.tx.of(worker),
            drops: plane.counters.drops.of(worker),
        }
    }

    /// Sets or removes the queue of an interface; answers the old one.
    pub fn set(&mut self, index: IfIndex, queue: Option<Box<dyn TxQueue>>) -> Option<Box<dyn TxQueue>> {
        let i = index as usize;
        if self.queues.len() <= i {
            self.queues.resize_with(i + 1, || None);
        }
        std::mem::replace(&mut self.queues[i], queue)
    }

    /// Whether it has a queue for an interface.
    pub fn has(&self, index: IfIndex) -> bool {
        self.queues.get(index as usize).is_some_and(Option::is_some)
    }

    /// Whether the queue of an interface is to be another; what waits in it is handed over then.
    pub fn leaves(&mut self, index: IfIndex) -> bool {
        self.queues.get_mut(index as usize).and_then(Option::as_mut).is_some_and(|q| q.leaves())
    }

    /// Moves the packets to interface `index` to the front of `packets`, where `same` of them already stand; how many.
    fn gather(&mut self, packets: &mut [Desc], index: IfIndex, same: usize) -> usize {
        self.others.bring_forward(packets, same, |d, _, _, _| d.tx == index)
    }

    fn count(&self, env: &mut Env, index: IfIndex, r: TxReport) {
        if let Some(c) = self.tx.get(index) {
            c.packets.add(r.packets);
            c.bytes.add(r.bytes);
        }
        for (why, n) in [(TxDrop::Full, r.full), (TxDrop::Error, r.errors), (TxDrop::NoLink, r.no_link)] {
            if n != 0 {
                env.count_n(why, n);
                if let Some(c) = self.drops.get(index, env.reason(why)) {
                    c.add(n);
                }
            }
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
        // The packets of each interface together, in their order, so that its queue is asked once.
        let mut rest = v.take();
        while let Some(first) = rest.first() {
            let index = first.tx;
            let same = rest.iter().position(|d| d.tx != index).unwrap_or(rest.len());
            let n = if same == rest.len() { same } else { self.gather(rest.as_mut_slice(), index, same) };
            let run = rest.split_to(n);
            if let Some(Some(q)) = self.queues.get_mut(index as usize) {
                let report = q.send(&mut env.buffers, run);
                self.count(env, index, report);
                if !self.used.contains(&index) && self.used.len() < self.used.capacity() {
                    self.used.push(index);
                }
            } else {
                for d in run {
                    env.drop(d, TxDrop::NoQueue);
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Op, Router, RouterConfig};
    use graph::{Buffers, Packets, PoolConfig, PoolMemory, TxCaps};
    use std::time::{Duration, Instant};

    /// Takes every other packet, refuses one in four, and has no room for the rest.
    struct Picky(u64);

    impl TxQueue for Picky {
        fn caps(&self) -> TxCaps {
            TxCaps::default()
        }

        fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
            let mut r = TxReport::default();
            for d in packets {
                self.0 += 1;
                match self.0 % 4 {
                    0 => r.full += 1,
                    1 => r.errors += 1,
                    _ => r.add(TxReport {
                        packets: 1,
                        bytes: buffers.total_len(&d) as u64,
                        ..TxReport::default()
                    }),
                }
                buffers.free(d);
            }
            r
        }
    }

    #[test]
    fn packets_are_gathered_by_interface_in_their_order() {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let mut node = InterfaceTx::new(r.plane(), 0);
        for interfaces in 1..20u32 {
            let mut packets: Vec<Desc> = (0..256)
                .map(|n| Desc { aux: n, tx: n * 7919 % 251 % interfaces, ..Desc::default() })
                .collect();
            let mut wanted: Vec<Desc> = packets.iter().map(Desc::words).collect();
            let index = packets[0].tx;
            wanted.sort_by_key(|d| d.tx != index);
            let n = node.gather(&mut packets, index, 1);
            assert_eq!(n, wanted.iter().filter(|d| d.tx == index).count());
            assert_eq!(packets, wanted);
        }
    }

    #[test]
    fn what_a_device_does_not_take_is_counted_on_its_interface() {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
        let up = Op::SetState { name: "loop0".into(), up: true };
        r.commit(vec![Op::CreateLoopback { instance: None, mac: None }, up]).unwrap();
        let index = r.interface_index("loop0").unwrap();
        r.test_sink("loop0", Box::new(Picky(0)));
        r.workers().each(move |w| {
            for _ in 0..40 {
                assert!(w.inject("interface-output", &[0; 60], |d| d.tx = index));
            }
        });
        let reasons = r.graphs()[0].reasons.clone();
        let by_name = |r: &Router, name: &str| {
            let all = r.interface_counts(index);
            all.drops.iter().find(|(i, _)| reasons[**i].name == name).map_or(0, |(_, n)| *n)
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while by_name(&r, "tx-error") < 10 {
            assert!(Instant::now() < deadline, "10 packets are refused");
            std::thread::yield_now();
        }
        assert_eq!((by_name(&r, "tx-queue-full"), by_name(&r, "tx-error")), (10, 10));
        let c = r.interface_counts(index);
        assert_eq!((c.tx_packets, c.tx_bytes), (20, 20 * 60));
    }
}
