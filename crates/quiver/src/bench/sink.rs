//! Where packets end: a transmit queue that keeps the last ones for a while and frees the oldest, so that buffers go
//! round in a long rotation instead of coming back while they are still in the nearest cache.

use super::feed::STAMP;
use super::histogram::Histogram;
use graph::clock::tsc;
use graph::{Buffer, Buffers, Desc, Packets, TxCaps, TxQueue, TxReport, flags};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What the control side sees of a sink; one for each interface and worker, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub struct Seen {
    /// Packets that ended here.
    pub packets: AtomicU64,
    /// Buffers that it keeps.
    pub held: AtomicU64,
    /// Time at which the last packet ended here, TSC clocks, if [`Seen::timed`].
    pub last: AtomicU64,
    /// Note the time of the packets.
    pub timed: AtomicBool,
    /// Clocks from poll to here and from due time to here, of stamped packets.
    pub latency: Option<(Histogram, Histogram)>,
}

/// One queue.
pub struct Sink {
    seen: Arc<Seen>,
    /// The buffers of packets; none for each in `chains`.
    kept: Box<[Buffer]>,
    /// The packets of several buffers.
    chains: VecDeque<Desc>,
    at: usize,
    full: bool,
    /// Buffers behind the first one of the packets kept.
    more: u64,
}

impl Sink {
    /// A queue that keeps `keep` packets, at least 1.
    pub fn new(keep: usize, seen: Arc<Seen>) -> Self {
        let kept = (0..keep.max(1)).map(|_| Buffer::default()).collect();
        Sink { seen, kept, chains: VecDeque::new(), at: 0, full: false, more: 0 }
    }

    /// Gives back the oldest packet of several buffers.
    #[cold]
    fn release_chain(&mut self, buffers: &mut Buffers) {
        if let Some(d) = self.chains.pop_front() {
            self.more -= u64::from(buffers.count(&d)) - 1;
            buffers.free(d);
        }
    }

    /// Keeps a packet of several buffers; what stands for it.
    #[cold]
    fn keep_chain(&mut self, buffers: &Buffers, d: Desc) -> Buffer {
        self.more += u64::from(buffers.count(&d)) - 1;
        self.chains.push_back(d);
        Buffer::default()
    }

    /// Keeps one packet, frees the oldest.
    #[inline]
    fn keep(&mut self, buffers: &mut Buffers, d: Desc) {
        let buf = if d.has(flags::CHAINED) { self.keep_chain(buffers, d) } else { d.buf };
        let Some(slot) = self.kept.get_mut(self.at) else { return };
        let old = std::mem::replace(slot, buf);
        if self.full {
            if old == Buffer::default() {
                self.release_chain(buffers);
            } else {
                buffers.free_one(old);
            }
        }
        self.at += 1;
        if self.at == self.kept.len() {
            (self.at, self.full) = (0, true);
        }
    }
}

fn stamp(buffers: &Buffers, d: &Desc, at: usize) -> u64 {
    let at = usize::from(d.off) + at;
    let bytes = buffers.room(&d.buf).get(at..).and_then(|b| b.first_chunk::<8>());
    bytes.map_or(0, |b| u64::from_le_bytes(*b))
}

/// Flags of a packet from the control side.
const OWN: u16 = flags::LOCAL | flags::INJECTED;

impl TxQueue for Sink {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut report = TxReport { packets: packets.len() as u64, ..TxReport::default() };
        // What the control side sends (announcements, reports of groups) answers nothing that was sent into the router.
        let mut own = 0;
        for d in packets.iter() {
            report.bytes += buffers.total_len(d) as u64;
            own += u64::from(d.flags & OWN == OWN);
        }
        if let Some((poll, due)) = &self.seen.latency {
            let now = tsc();
            for d in packets.iter() {
                poll.record(now.saturating_sub(stamp(buffers, d, STAMP)));
                due.record(now.saturating_sub(stamp(buffers, d, STAMP + 8)));
            }
        }
        for d in packets {
            self.keep(buffers, d);
        }
        let s = &self.seen;
        let held = if self.full { self.kept.len() } else { self.at };
        s.held.store(held as u64 + self.more, Ordering::Relaxed);
        if s.timed.load(Ordering::Relaxed) {
            s.last.store(tsc(), Ordering::Relaxed);
        }
        // Last: who sees the count sees the time.
        s.packets.store(s.packets.load(Ordering::Relaxed) + report.packets - own, Ordering::Release);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Pool, PoolConfig, PoolMemory};

    #[test]
    fn the_oldest_go_first_and_none_is_forgotten() {
        let mut b = Pool::new(PoolConfig { buffers: 256, memory: PoolMemory::Normal }).unwrap().buffers();
        let seen = Arc::new(Seen::default());
        let mut sink = Sink::new(4, Arc::clone(&seen));
        let mut sent = vec![];
        for n in 0..20usize {
            // Every third packet has more than one buffer.
            let d = b.alloc_bytes(&vec![n as u8; if n % 3 == 0 { 7000 } else { 64 }]).unwrap();
            sent.push(graph::Seen::of(&d));
            let report = sink.send(&mut b, Packets::drain(&mut vec![d]));
            assert_eq!((report.packets, report.bytes), (1, if n % 3 == 0 { 7000 } else { 64 }));
            assert_eq!(seen.held.load(Ordering::Relaxed) as usize, b.pool().in_use());
            // The last four are untouched.
            for (age, d) in sent.iter().rev().take(4).enumerate() {
                assert_eq!(b.room(&d.buf)[usize::from(d.off)], (n - age) as u8);
            }
        }
        assert_eq!(seen.packets.load(Ordering::Relaxed), 20);
        assert!(b.pool().in_use() <= 16);
    }
}
