//! A router between two devices of its own, for tests: one brings numbered frames of some streams, the other takes them, and counts those
//! that come out of order.
#![allow(clippy::unwrap_used)]

use crate::router::{Device, DeviceControl, Op, Router, RouterConfig};
use graph::io::Ready;
use graph::{Buffers, Packets, PoolConfig, PoolMemory, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth::MacAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Frames of one flow, numbered from 0.
#[derive(Default)]
struct Stream {
    sent: AtomicU64,
    came: AtomicU64,
    wrong: AtomicU64,
}

/// What the receive queues of `in` share with the transmit queues of `out`. Queue `q` of `n` brings streams `q`, `q + n`, ..., a frame of
/// each in turn.
pub(super) struct Numbered {
    streams: Vec<Stream>,
    queues: usize,
    /// So many frames of a queue may be on their way.
    ahead: u64,
    /// Frames come.
    flow: AtomicBool,
    /// Of so many one is of another stream than the queue's first; 0: all streams come in turns.
    mice: AtomicU64,
    /// Queues that no worker can take the next time, a bit for each.
    refused: AtomicU64,
}

struct Source {
    interface: u32,
    queue: usize,
    now_ns: u64,
    all: Arc<Numbered>,
}

fn frame(stream: usize, number: u64) -> Vec<u8> {
    let mut f = vec![];
    f.extend(MAC.0);
    f.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let ip = [0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, 2];
    let sum = packet::checksum::Sum::of(&ip).checksum();
    f.extend(&ip[..10]);
    f.extend(sum.to_be_bytes());
    f.extend(&ip[12..]);
    f.extend([7, stream as u8, 0, 9, 0, 20, 0, 0]);
    f.extend([stream as u8, 0, 0, 0]);
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
        if !all.flow.load(Ordering::Relaxed) {
            return 0;
        }
        let own: Vec<usize> = (self.queue..all.streams.len()).step_by(all.queues).collect();
        let sum = |of: fn(&Stream) -> &AtomicU64| -> u64 {
            own.iter().map(|s| of(&all.streams[*s]).load(Ordering::Relaxed)).sum()
        };
        let (sent, mice) = (sum(|s| &s.sent), all.mice.load(Ordering::Relaxed));
        let room = all.ahead.saturating_sub(sent - sum(|s| &s.came)).min(64);
        for n in sent..sent + room {
            let turn = if mice != 0 && n % mice != 0 { 0 } else { n.max(1) / mice.max(1) };
            let stream = own[turn as usize % own.len()];
            let number = all.streams[stream].sent.fetch_add(1, Ordering::Relaxed);
            let mut d = buffers.alloc_bytes(&frame(stream, number)).unwrap();
            (d.rx, d.l2) = (self.interface, d.off);
            let _ = out.push(d);
        }
        room as usize
    }

    fn fd(&self) -> Option<i32> {
        let own = 1 << self.queue;
        // There is no such descriptor.
        (self.all.refused.fetch_and(!own, Ordering::Relaxed) & own != 0).then_some(1 << 20)
    }

    fn ready(&self) -> Ready {
        Ready::At(self.now_ns + 20_000)
    }
}

struct Sink(Arc<Numbered>);

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
            let [.., stream, _, _, _, a, b, c, d, e, f, g, h] = said;
            let stream = &self.0.streams[usize::from(stream)];
            let number = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
            if stream.came.fetch_add(1, Ordering::Relaxed) != number {
                stream.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        buffers.free_all(packets);
        TxReport { packets: n, ..TxReport::default() }
    }
}

struct Control(Arc<Numbered>);

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

pub(super) fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

/// Numbers as if by chance, the same in each run: `draw(n)` is below `n`.
pub(super) fn draws() -> impl FnMut(usize) -> usize {
    let mut seed = 7u64;
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    }
}

impl Numbered {
    /// Streams that queues share, with frames of each queue on their way.
    pub(super) fn new(streams: usize, queues: usize, ahead: u64) -> Arc<Numbered> {
        let streams = (0..streams).map(|_| Stream::default()).collect();
        Arc::new(Numbered {
            streams,
            queues,
            ahead,
            flow: AtomicBool::new(false),
            mice: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// From now on one frame of so many is of another stream than the queue's first.
    pub(super) fn mice(&self, of: u64) {
        self.mice.store(of, Ordering::Relaxed);
    }

    /// No worker can take these queues the next time, a bit for each.
    pub(super) fn refuse(&self, queues: u64) {
        self.refused.store(queues, Ordering::Relaxed);
    }

    fn device(self: &Arc<Self>, rx: Vec<Box<dyn RxQueue>>, workers: usize) -> Device {
        let tx = (0..workers).map(|_| Box::new(Sink(Arc::clone(self))) as Box<dyn TxQueue>).collect();
        let control = Box::new(Control(Arc::clone(self)));
        Device { rx, tx, caps: TxCaps::default(), mac: MAC, mtu: 1500, link: true, control }
    }

    /// A router that forwards them from `in` to `out`, with frames coming.
    pub(super) fn router(self: &Arc<Self>, workers: usize) -> Router {
        let pool = PoolConfig { buffers: 8192, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, workers, ..RouterConfig::default() }).unwrap();
        let source = |interface, queue| -> Box<dyn RxQueue> {
            Box::new(Source { interface, queue, now_ns: 0, all: Arc::clone(self) })
        };
        let sources = |interface| (0..self.queues).map(|queue| source(interface, queue)).collect();
        r.add_device("in", |interface, n| Ok(self.device(sources(interface), n))).unwrap();
        r.add_device("out", |_, n| Ok(self.device(vec![], n))).unwrap();
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
        self.flow.store(true, Ordering::Relaxed);
        r
    }

    fn each(&self, of: fn(&Stream) -> &AtomicU64) -> Vec<u64> {
        self.streams.iter().map(|s| of(s).load(Ordering::Relaxed)).collect()
    }

    /// Frames of all streams.
    pub(super) fn sent(&self) -> u64 {
        self.each(|s| &s.sent).iter().sum()
    }

    /// Waits for this many frames of each stream, stops them, and asserts that all that were sent come, in their order, and that no buffer
    /// is left behind.
    pub(super) fn all_come(&self, r: &Router, at_least: u64) {
        until("frames flow", || self.each(|s| &s.came).iter().all(|came| *came >= at_least));
        self.flow.store(false, Ordering::Relaxed);
        r.wait_for_workers();
        until(&format!("some are lost: {:?}", r.errors()), || {
            self.each(|s| &s.came) == self.each(|s| &s.sent)
        });
        assert_eq!(self.each(|s| &s.wrong), vec![0; self.streams.len()], "some were overtaken");
        until("buffers are missing", || r.pool().in_use() == 0);
    }
}
