//! Workers come and go, and queues move between them, while packets flow: each comes once, and none overtakes another of its queue.
#![allow(clippy::unwrap_used)]

use super::SetWorkers;
use crate::router::{Device, DeviceControl, Op, Router, RouterConfig};
use graph::io::Ready;
use graph::{Buffers, Packets, PoolConfig, PoolMemory, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const QUEUES: usize = 3;
const AHEAD: u64 = 500;

/// What the queues of the device that brings packets share with those of the device that takes them.
#[derive(Default)]
struct Stream {
    sent: AtomicU64,
    came: AtomicU64,
    wrong: AtomicU64,
}

#[derive(Default)]
struct Streams {
    of: [Stream; QUEUES],
    /// Packets come.
    flows: AtomicBool,
}

/// Brings numbered packets, and is never far ahead of what went out.
struct Source {
    interface: u32,
    queue: usize,
    now_ns: u64,
    all: Arc<Streams>,
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn frame(queue: usize, number: u64) -> Vec<u8> {
    let mut f = vec![];
    f.extend(MAC.0);
    f.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2];
    let sum = packet::checksum::Sum::of(&ip).checksum();
    f.extend(&ip[..10]);
    f.extend(sum.to_be_bytes());
    f.extend(&ip[12..]);
    f.extend([0, queue as u8, 0, 9, 0, 20, 0, 0]);
    f.extend([queue as u8, 0, 0, 0]);
    f.extend(number.to_be_bytes());
    f.resize(60, 0);
    f
}

impl RxQueue for Source {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "pcap-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        self.now_ns = now_ns;
        let s = &self.all.of[self.queue];
        let sent = s.sent.load(Ordering::Relaxed);
        let room = AHEAD.saturating_sub(sent - s.came.load(Ordering::Relaxed)).min(32);
        if !self.all.flows.load(Ordering::Relaxed) {
            return 0;
        }
        for n in 0..room {
            let mut d = buffers.alloc_bytes(&frame(self.queue, sent + n)).unwrap();
            (d.rx, d.l2) = (self.interface, d.off);
            let _ = out.push(d);
        }
        s.sent.store(sent + room, Ordering::Relaxed);
        room as usize
    }

    fn ready(&self) -> Ready {
        Ready::At(self.now_ns + 20_000)
    }
}

struct Sink(Arc<Streams>);

impl TxQueue for Sink {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let n = packets.len() as u64;
        for d in packets.iter() {
            let mut said = [0; 54];
            // The router says something for itself as well.
            if buffers.copy_out(d, 0, &mut said) != said.len() || said[36..38] != [0, 9] {
                continue;
            }
            let [.., queue, _, _, _, a, b, c, d, e, f, g, h] = said;
            let number = [a, b, c, d, e, f, g, h];
            let s = &self.0.of[usize::from(queue)];
            if s.came.fetch_add(1, Ordering::Relaxed) != u64::from_be_bytes(number) {
                s.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        buffers.free_all(packets);
        TxReport { packets: n, ..TxReport::default() }
    }
}

struct Control(Arc<Streams>);

impl DeviceControl for Control {
    fn link(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        "test".into()
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(Some(Box::new(Sink(Arc::clone(&self.0)))))
    }
}

fn device(all: &Arc<Streams>, rx: Vec<Box<dyn RxQueue>>, workers: usize) -> Device {
    let tx = (0..workers).map(|_| Box::new(Sink(Arc::clone(all))) as Box<dyn TxQueue>).collect();
    let control = Box::new(Control(Arc::clone(all)));
    Device { rx, tx, caps: TxCaps::default(), mac: MAC, mtu: 1500, link: true, control }
}

fn router(all: &Arc<Streams>, workers: usize) -> Router {
    let pool = PoolConfig { buffers: 8192, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, workers, ..RouterConfig::default() }).unwrap();
    let source = |interface, queue| -> Box<dyn RxQueue> {
        Box::new(Source { interface, queue, now_ns: 0, all: Arc::clone(all) })
    };
    r.add_device("in", |index, n| Ok(device(all, (0..QUEUES).map(|q| source(index, q)).collect(), n)))
        .unwrap();
    r.add_device("out", |_, n| Ok(device(all, vec![], n))).unwrap();
    let mut ops = vec![];
    for (n, name) in ["in", "out"].into_iter().enumerate() {
        let net = format!("10.0.{}.1/24", n + 1).parse().unwrap();
        ops.push(Op::AddAddress { name: name.into(), net });
        ops.push(Op::SetState { name: name.into(), up: true });
    }
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    ops.push(Op::SetNeighbor { name: "out".into(), address: "10.0.2.2".parse().unwrap(), mac });
    r.commit(ops).unwrap();
    // Their transmit queues are on the way to workers.
    r.wait_for_workers();
    all.flows.store(true, Ordering::Relaxed);
    r
}

fn workers(count: usize) -> Op {
    SetWorkers { count, cpus: vec![] }.into()
}

/// All that was sent came, in its order.
fn all_came(r: &Router, all: &Streams) {
    let until = Instant::now() + Duration::from_secs(20);
    while all.of.iter().any(|s| s.came.load(Ordering::Relaxed) < 1000) {
        assert!(Instant::now() < until, "packets flow");
        std::thread::yield_now();
    }
    all.flows.store(false, Ordering::Relaxed);
    r.wait_for_workers();
    for s in &all.of {
        let sent = || s.sent.load(Ordering::Relaxed);
        while s.came.load(Ordering::Relaxed) != sent() {
            let came = s.came.load(Ordering::Relaxed);
            assert!(Instant::now() < until, "{came} of {} came: {:?}", sent(), r.errors());
            std::thread::yield_now();
        }
        assert_eq!(s.wrong.load(Ordering::Relaxed), 0);
    }
    while r.pool().in_use() != 0 {
        assert!(Instant::now() < until, "{} buffers are missing", r.pool().in_use());
    }
}

#[test]
fn ten_thousand_changes_lose_and_reorder_nothing() {
    let all = Arc::<Streams>::default();
    let mut r = router(&all, 1);
    let mut seed = 7u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..5000 {
        let count = 1 + draw(4);
        r.commit(vec![workers(count)]).unwrap();
        r.move_queue(r.interface_index("in").unwrap(), draw(QUEUES), draw(count)).unwrap();
    }
    all_came(&r, &all);
}

#[test]
fn queues_are_shared_out_among_those_that_are_there() {
    let all = Arc::<Streams>::default();
    let mut r = router(&all, 1);
    let placed = |r: &Router| r.rx_placement().iter().map(|p| p.worker).collect::<Vec<_>>();
    let at = |r: &mut Router, count| {
        r.commit(vec![workers(count)]).unwrap();
        let mut of = vec![0; count];
        placed(r).into_iter().for_each(|w| of[w] += 1);
        of
    };
    assert_eq!(at(&mut r, 2), [2, 1]);
    assert_eq!(at(&mut r, 3), [1, 1, 1]);
    assert_eq!(at(&mut r, 4).iter().sum::<usize>(), 3);
    assert_eq!(at(&mut r, 1), [3]);
    let chosen = |worker| Op::SetPlacement { name: "in".into(), queue: 1, worker };
    r.commit(vec![workers(3), chosen(Some(2))]).unwrap();
    let refused = r.commit(vec![workers(2)]).unwrap_err().message;
    assert!(refused.starts_with("in has its receive queue 1 on worker 2"), "{refused}");
    // What fails behind it takes it back.
    r.commit(vec![workers(4), chosen(Some(9))]).unwrap_err();
    assert_eq!((r.config().workers, placed(&r)[1]), (3, 2));
    r.commit(vec![chosen(None), workers(1)]).unwrap();
    assert_eq!(placed(&r), [0, 0, 0]);
    for (count, cpus, why) in [
        (0, vec![], "0 workers: there must be 1 to 64"),
        (65, vec![], "65 workers: there must be 1 to 64"),
        (2, vec![0], "1 CPUs for 2 workers"),
        (2, vec![0, 0], "CPU 0 is named twice"),
        (1, vec![4000], "CPU 4000 does not exist"),
        (9, vec![], "8192 buffers are too few for 9 workers: 9216 are needed"),
    ] {
        let e = r.commit(vec![SetWorkers { count, cpus }.into()]).unwrap_err().message;
        assert!(e.starts_with(why), "{e}");
    }
    all_came(&r, &all);
}

#[test]
fn counters_of_workers_that_sleep_count() {
    let all = Arc::<Streams>::default();
    let mut r = router(&all, 3);
    let index = r.interface_index("in").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while r.plane().counters.received.rx.each(index).any(|c| c.packets.get() == 0) {
        assert!(Instant::now() < until);
    }
    r.commit(vec![workers(1)]).unwrap();
    all_came(&r, &all);
    let sent: u64 = all.of.iter().map(|s| s.sent.load(Ordering::Relaxed)).sum();
    assert_eq!(r.interface_counts(index).rx_packets, sent);
    assert_eq!(r.runtime().len(), 1);
}
