//! Receive and transmit queues of a port.

use super::abi::{BURST, Piece, can};
use super::burst::{Queue, RECEIVED, Running};
use super::piece::{self, Waiting};
use crate::counts::{Drops, RxDrop};
use crate::offload;
use crate::stage::{Form, Stage};
use crate::turn::Shared;
use graph::io::Ready;
use graph::{Buffers, Desc, Packets, RxQueue, TxCaps, TxQueue, TxReport, Vector, flags};
use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a queue without interrupts is left alone while nothing comes, nanoseconds: at least, and at most.
const LOOK: (u64, u64) = (20_000, 1_000_000);
/// The same, and how long it lasts until the least becomes the most: a share of the time since the last packet.
const PATIENCE: u64 = 8;
/// How long a queue is left alone whose interrupt may come too early to be seen, nanoseconds.
const AGAIN: u64 = 1_000_000;
/// Bytes of the largest super-frame.
const SCRATCH: usize = 1 << 16;

/// A receive queue.
pub struct DpdkRx {
    queue: Queue,
    interface: u32,
    pieces: Box<[Piece; RECEIVED]>,
    drops: Arc<Drops>,
    /// Readable when packets wait, where the device tells.
    interrupt: Option<OwnedFd>,
    armed: Cell<bool>,
    /// It tells of packets only while it is armed.
    switched: Cell<bool>,
    /// Nothing came before it was armed.
    sure: Cell<bool>,
    now: u64,
    /// When the last packet came.
    last: u64,
}

impl DpdkRx {
    /// Queue `number` of a port.
    pub fn new(
        running: &Arc<Running>,
        number: u16,
        interface: u32,
        interrupts: bool,
        drops: &Arc<Drops>,
    ) -> DpdkRx {
        let queue = Queue::new(running, number);
        let interrupt = if interrupts { queue.descriptor() } else { None };
        DpdkRx {
            queue,
            interface,
            pieces: pieces(),
            drops: Arc::clone(drops),
            interrupt,
            armed: Cell::new(false),
            switched: Cell::new(true),
            sure: Cell::new(false),
            now: 0,
            last: 0,
        }
    }

    /// The device need not tell of packets any more.
    fn disarm(&self) {
        if self.armed.take()
            && let Some(fd) = &self.interrupt
        {
            self.queue.arm(fd, false);
        }
    }

    /// Whether the device tells of packets.
    pub fn has_interrupt(&self) -> bool {
        self.interrupt.is_some()
    }
}

fn pieces() -> Box<[Piece; RECEIVED]> {
    let all: Box<[Piece]> = vec![Piece::default(); RECEIVED].into();
    all.try_into().unwrap_or_else(|_| Box::new([Piece::default(); RECEIVED]))
}

impl RxQueue for DpdkRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "dpdk-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        // The first look after it was armed leaves it so: then what comes is told of, and until then nothing came.
        let first = self.armed.get() && self.switched.get() && !self.sure.get();
        if !first {
            self.disarm();
        }
        self.now = now_ns;
        let (before, mut empty) = (out.len(), false);
        while out.room() != 0 {
            let most = out.room().min(BURST);
            let (n, lost) = self.queue.receive(buffers, &mut self.pieces, most);
            let had = out.len();
            piece::take(&self.pieces[..n.min(RECEIVED)], self.interface, buffers, out, &self.drops);
            (0..lost).for_each(|_| self.drops.count(RxDrop::Malformed));
            empty = n == 0;
            if empty || out.len() - had < most / 2 {
                break;
            }
        }
        if out.len() != before {
            self.last = now_ns;
            self.disarm();
        } else if first {
            self.sure.set(empty);
        }
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        self.interrupt.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn ready(&self) -> Ready {
        let Some(fd) = &self.interrupt else {
            return Ready::At(next_look(self.now, self.now.saturating_sub(self.last)));
        };
        if !self.armed.replace(true) {
            self.switched.set(self.queue.arm(fd, true));
            self.sure.set(false);
        }
        if !self.switched.get() || self.sure.get() {
            return Ready::Fd;
        }
        // What came before the device knew that it is to tell.
        match self.queue.waiting() {
            Some(true) => Ready::Now,
            Some(false) => Ready::Fd,
            None => Ready::At(self.now + AGAIN),
        }
    }
}

/// When a queue is looked at again to which nothing has come for a time. Queues that are left alone as long are looked at together.
fn next_look(now: u64, idle: u64) -> u64 {
    let step = (idle / PATIENCE).clamp(LOOK.0, LOOK.1);
    // A power of two, so that the times of one length are among those of a shorter one.
    let step = 1 << (63 - step.leading_zeros());
    (now / step + 1) * step
}

/// The sending side of a queue.
pub struct Out {
    queue: Queue,
    /// See [`can`].
    can: u32,
    waiting: Waiting,
    scratch: Box<[u8]>,
}

impl Out {
    fn push(&mut self, buffers: &mut Buffers, report: &mut TxReport) {
        let packets = self.waiting.len();
        if packets == 0 {
            return;
        }
        let waiting = &self.waiting;
        let (sent, bad) = self.queue.send(buffers, waiting.pieces(), |n| waiting.pieces_of(n));
        report.bytes += self.waiting.settle(sent, buffers);
        report.packets += sent as u64;
        report.errors += u64::from(bad);
        report.full += (packets - sent) as u64 - u64::from(bad);
    }

    /// Takes a packet over, which is whole but for what the device does.
    #[inline]
    fn post(&mut self, buffers: &mut Buffers, d: Desc, offloads: Piece, report: &mut TxReport) {
        if self.waiting.len() == BURST {
            self.push(buffers, report);
        }
        if d.has(flags::CHAINED) {
            return self.post_chain(buffers, d, offloads, report);
        }
        if !self.waiting.has_room(1) {
            self.push(buffers, report);
        }
        self.waiting.put(d, offloads);
    }

    #[cold]
    fn post_chain(&mut self, buffers: &mut Buffers, d: Desc, offloads: Piece, report: &mut TxReport) {
        let pieces = buffers.count(&d) as usize;
        if self.can & can::CHAIN != 0 && pieces <= super::abi::CHAIN {
            if !self.waiting.has_room(pieces) {
                self.push(buffers, report);
            }
            return self.waiting.put_chain(buffers, d, offloads);
        }
        let copy = offload::in_one(buffers, &d, &mut self.scratch);
        buffers.free(d);
        match copy {
            Some(copy) => self.post(buffers, copy, offloads, report),
            None => report.errors += 1,
        }
    }

    /// The packets of a stage, each in buffers of its own.
    fn post_stage(&mut self, stage: &mut Stage, buffers: &mut Buffers, report: &mut TxReport) {
        for n in 0..stage.len() {
            match stage.copied(n, buffers, &mut self.scratch) {
                Some(d) => self.post(buffers, d, Piece::default(), report),
                None => report.errors += 1,
            }
        }
        stage.clear();
    }
}

/// A transmit queue with what is done here for its packets.
pub struct Sender {
    out: Out,
    stage: Stage,
    up: Arc<AtomicBool>,
}

impl Sender {
    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut report = TxReport::default();
        if !self.up.load(Ordering::Relaxed) {
            report.no_link = packets.len() as u64;
            buffers.free_all(packets);
            return report;
        }
        for d in packets {
            if d.has(flags::GSO | flags::CSUM_PARTIAL) {
                self.post_special(buffers, d, &mut report);
            } else {
                self.out.post(buffers, d, Piece::default(), &mut report);
            }
        }
        self.out.push(buffers, &mut report);
        report
    }

    /// A packet with a partial checksum, or a super-frame: for the device as far as it can, else done here.
    #[cold]
    fn post_special(&mut self, buffers: &mut Buffers, d: Desc, report: &mut TxReport) {
        let Sender { out, stage, .. } = self;
        if let Some(offloads) = piece::offloads(buffers, &d, out.can) {
            return out.post(buffers, d, offloads, report);
        }
        if d.has(flags::GSO) {
            let cut = stage.put(buffers, &d, |stage, buffers| out.post_stage(stage, buffers, report));
            report.errors += u64::from(!cut);
            out.post_stage(stage, buffers, report);
            return buffers.free(d);
        }
        if offload::complete(buffers, &d) {
            return out.post(buffers, d, Piece::default(), report);
        }
        report.errors += 1;
        buffers.free(d);
    }
}

/// The transmit queues of a port, of which it may have fewer than there are workers.
pub struct Senders(Vec<Shared<Sender>>);

impl Senders {
    /// The first `count` queues of a port, which send while its link is `up`.
    pub fn new(running: &Arc<Running>, count: u16, can: u32, up: &Arc<AtomicBool>) -> Senders {
        let out = |n| Out {
            queue: Queue::new(running, n),
            can,
            waiting: Waiting::new(BURST),
            scratch: vec![0; SCRATCH].into(),
        };
        let sender = |n| Sender { out: out(n), stage: Stage::new(Form::Whole), up: Arc::clone(up) };
        Senders((0..count).map(|n| Shared::new(sender(n))).collect())
    }

    /// One for a worker: that which the fewest have.
    pub fn transmit_queue(&mut self) -> Option<Box<dyn TxQueue>> {
        let queue = self.0.iter().min_by_key(|q| q.holders())?;
        Some(Box::new(DpdkTx(queue.again())))
    }
}

/// A transmit queue, which may be another worker's as well.
pub struct DpdkTx(Shared<Sender>);

/// What is done for packets, by the device or else here, as late as possible.
pub const CAPS: TxCaps = TxCaps { checksum: true, tso: true, uso: true };

impl TxQueue for DpdkTx {
    fn caps(&self) -> TxCaps {
        CAPS
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut packets = Some(packets);
        let report = self.0.with(|sender| packets.take().map(|p| sender.send(buffers, p)));
        match (report.flatten(), packets) {
            (Some(report), _) => report,
            (None, Some(packets)) => {
                let full = packets.len() as u64;
                buffers.free_all(packets);
                TxReport { full, ..TxReport::default() }
            }
            (None, None) => TxReport::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_interrupts_is_looked_at_less_and_less() {
        assert!(next_look(1_000_000, 0) <= 1_000_000 + LOOK.0);
        let (mut now, mut looks) = (5_000_000u64, 0);
        while now < 1_005_000_000 {
            let next = next_look(now, now - 5_000_000);
            assert!(next > now && next - now <= LOOK.1);
            (now, looks) = (next, looks + 1);
        }
        assert!((1000..2500).contains(&looks), "{looks} looks in a second");
        // Two that have been idle for long are looked at at the same times.
        assert_eq!(next_look(7_000_000_000, 3_000_000_000), next_look(7_000_100_000, 900_000_000));
    }
}
