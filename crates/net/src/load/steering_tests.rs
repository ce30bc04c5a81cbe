//! One queue feeds several workers while those who share its packets change, and the queue moves: each packet comes once, and none
//! overtakes another of its flow.
#![allow(clippy::unwrap_used)]

use super::SetWorkers;
use crate::router::{Device, DeviceControl, Op, Router, RouterConfig};
use crate::steering::{self, Handoff, HandoffConfig, handed, heavy};
use graph::io::Ready;
use graph::{Buffers, Packets, PoolConfig, PoolMemory, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FLOWS: usize = 32;
/// Fewer than the frames that may wait for a worker: no queue between workers is full.
const ON_THE_WAY: u64 = 200;

#[derive(Default)]
struct Flow {
    sent: AtomicU64,
    came: AtomicU64,
    wrong: AtomicU64,
}

/// What the queue of the device that brings packets shares with those of the device that takes them.
#[derive(Default)]
struct Flows {
    of: [Flow; FLOWS],
    sent: AtomicU64,
    came: AtomicU64,
    /// Packets come.
    flow: AtomicBool,
    /// Of so many one is of another flow than the first; 0: all flows come in turns.
    mice: AtomicU64,
}

struct Source {
    interface: u32,
    now_ns: u64,
    all: Arc<Flows>,
}

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn frame(flow: usize, number: u64) -> Vec<u8> {
    let mut f = vec![];
    f.extend(MAC.0);
    f.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2];
    let sum = packet::checksum::Sum::of(&ip).checksum();
    f.extend(&ip[..10]);
    f.extend(sum.to_be_bytes());
    f.extend(&ip[12..]);
    f.extend([7, flow as u8, 0, 9, 0, 20, 0, 0]);
    f.extend([flow as u8, 0, 0, 0]);
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
        let all = &self.all;
        let sent = all.sent.load(Ordering::Relaxed);
        let room = ON_THE_WAY.saturating_sub(sent - all.came.load(Ordering::Relaxed)).min(64);
        if !all.flow.load(Ordering::Relaxed) {
            return 0;
        }
        let mice = all.mice.load(Ordering::Relaxed);
        for n in sent..sent + room {
            let flow = if mice != 0 && n % mice != 0 { 0 } else { (n.max(1) / mice.max(1)) as usize % FLOWS };
            let number = all.of[flow].sent.fetch_add(1, Ordering::Relaxed);
            let mut d = buffers.alloc_bytes(&frame(flow, number)).unwrap();
            (d.rx, d.l2) = (self.interface, d.off);
            let _ = out.push(d);
        }
        all.sent.store(sent + room, Ordering::Relaxed);
        room as usize
    }

    fn ready(&self) -> Ready {
        Ready::At(self.now_ns + 20_000)
    }
}

struct Sink(Arc<Flows>);

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
            let [.., flow, _, _, _, a, b, c, d, e, f, g, h] = said;
            let of = &self.0.of[usize::from(flow)];
            if of.came.fetch_add(1, Ordering::Relaxed) != u64::from_be_bytes([a, b, c, d, e, f, g, h]) {
                of.wrong.fetch_add(1, Ordering::Relaxed);
            }
            self.0.came.fetch_add(1, Ordering::Relaxed);
        }
        buffers.free_all(packets);
        TxReport { packets: n, ..TxReport::default() }
    }
}

struct Control(Arc<Flows>);

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

fn device(all: &Arc<Flows>, rx: Vec<Box<dyn RxQueue>>, workers: usize) -> Device {
    let tx = (0..workers).map(|_| Box::new(Sink(Arc::clone(all))) as Box<dyn TxQueue>).collect();
    let control = Box::new(Control(Arc::clone(all)));
    Device { rx, tx, caps: TxCaps::default(), mac: MAC, mtu: 1500, link: true, control }
}

fn router(all: &Arc<Flows>, workers: usize) -> Router {
    let pool = PoolConfig { buffers: 8192, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, workers, ..RouterConfig::default() }).unwrap();
    let source = |interface| -> Vec<Box<dyn RxQueue>> {
        vec![Box::new(Source { interface, now_ns: 0, all: Arc::clone(all) })]
    };
    r.add_device("in", |index, n| Ok(device(all, source(index), n))).unwrap();
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
    all.flow.store(true, Ordering::Relaxed);
    r
}

fn count(count: usize) -> Op {
    SetWorkers { count, cpus: vec![] }.into()
}

fn handoff(workers: &[usize], symmetrical: bool) -> Op {
    let feature = Handoff(Some(HandoffConfig { workers: workers.into(), symmetrical })).into();
    Op::SetFeature { name: "in".into(), feature }
}

fn off() -> Op {
    Op::SetFeature { name: "in".into(), feature: Handoff(None).into() }
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// All that was sent came, in its order.
fn all_came(r: &Router, all: &Flows) {
    let came = |n| all.of.iter().all(|f| f.came.load(Ordering::Relaxed) >= n);
    let some = if all.mice.load(Ordering::Relaxed) == 0 { 100 } else { 1 };
    until("packets flow", || came(some));
    all.flow.store(false, Ordering::Relaxed);
    r.wait_for_workers();
    let left = || all.sent.load(Ordering::Relaxed) - all.came.load(Ordering::Relaxed);
    until(&format!("some are lost: {:?}", r.errors()), || left() == 0);
    let wrong: Vec<u64> = all.of.iter().map(|f| f.wrong.load(Ordering::Relaxed)).collect();
    assert_eq!(wrong, [0; FLOWS], "some were overtaken");
    until("buffers are missing", || r.pool().in_use() == 0);
}

#[test]
fn ten_thousand_changes_lose_and_reorder_nothing() {
    let all = Arc::<Flows>::default();
    let mut r = router(&all, 4);
    let index = r.interface_index("in").unwrap();
    let mut seed = 7u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut workers = 4;
    let mut among = std::collections::BTreeSet::new();
    for _ in 0..2_500 {
        let list: Vec<usize> = (0..workers).filter(|_| draw(2) == 0).collect();
        r.commit(vec![handoff(&list, draw(2) == 0)]).unwrap();
        r.move_queue(index, 0, draw(workers)).unwrap();
        if draw(4) == 0 {
            r.commit(vec![off()]).unwrap();
        } else {
            r.commit(vec![handoff(&[], false)]).unwrap();
        }
        workers = 1 + draw(4);
        r.commit(vec![count(workers)]).unwrap();
        among.extend(handed(&r).iter().filter(|h| h.packets != 0).map(|h| (h.from, h.to)));
    }
    assert!(among.len() > 12, "{among:?}");
    all_came(&r, &all);
}

#[test]
fn flows_are_shared_out_and_counted() {
    let all = Arc::<Flows>::default();
    let mut r = router(&all, 2);
    r.commit(vec![handoff(&[], false)]).unwrap();
    let index = r.interface_index("in").unwrap();
    let from = r.rx_placement()[0].worker;
    let of =
        |r: &Router, to| handed(r).iter().find(|h| (h.from, h.to) == (from, to)).map_or(0, |h| h.packets);
    until("both have some", || of(&r, 0) > 1000 && of(&r, 1) > 1000);
    // A worker that comes has its share, and one that goes none any more.
    r.commit(vec![count(3)]).unwrap();
    let now = r.rx_placement()[0].worker;
    until("the third has some", || handed(&r).iter().any(|h| (h.from, h.to) == (now, 2) && h.packets > 1000));
    r.commit(vec![handoff(&[2], true)]).unwrap();
    let e = r.commit(vec![count(2)]).unwrap_err().message;
    assert_eq!(
        e,
        "packets of in are handed to worker 2: share them out among others first (set interface handoff in workers LIST, or all)"
    );
    for (list, why) in
        [(&[3][..], "in: there is no worker 3, workers 0 to 2"), (&[1, 1], "in: worker 1 is named twice")]
    {
        assert_eq!(r.commit(vec![handoff(list, false)]).unwrap_err().message, why);
    }
    // What fails behind it takes it back.
    r.commit(vec![handoff(&[0, 1], false), handoff(&[9], false)]).unwrap_err();
    assert_eq!(steering::config(&r, index).unwrap().workers, [2]);
    r.commit(vec![off(), count(1)]).unwrap();
    assert_eq!((steering::config(&r, index), handed(&r)), (None, vec![]));
    all_came(&r, &all);
    let sent = all.sent.load(Ordering::Relaxed);
    assert_eq!(r.interface_counts(index).rx_packets, sent, "each is counted once");
}

#[test]
fn an_elephant_is_named() {
    let all = Arc::<Flows>::default();
    let mut r = router(&all, 2);
    all.mice.store(4, Ordering::Relaxed);
    r.commit(vec![handoff(&[], false)]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let found = loop {
        r.tick();
        if let [first, ..] = &heavy(&r)[..]
            && first.rate > 0.0
        {
            break first.clone();
        }
        assert!(Instant::now() < end, "{:?}", handed(&r));
        std::thread::yield_now();
    };
    assert_eq!(found.flow.to_string(), "10.0.1.2:1792 -> 10.0.2.2:9 UDP");
    let rates = |to: Option<usize>| -> f64 {
        handed(&r).iter().filter(|h| to.is_none_or(|to| h.to == to)).map(|h| h.rate).sum()
    };
    assert!(
        found.rate > rates(None) / 2.0 && found.rate <= rates(Some(found.worker)) * 1.2,
        "{found:?} {:?}",
        handed(&r)
    );
    all_came(&r, &all);
}
