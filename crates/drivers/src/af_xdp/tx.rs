//! Sending: the kernel reads the router's own buffers, and gives them back when it has.

use super::ring::{Consumer, Producer};
use super::socket::{Shared, address};
use crate::offload;
use crate::stage::{Form, Stage};
use crate::sys;
use graph::{Buffer, Buffers, Desc, Packets, Row, TxCaps, TxQueue, TxReport, flags};
use libc::xdp_desc;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls in a row of which the kernel may send nothing, before the rest waits.
const PATIENCE: u32 = 3;
/// Calls at most by which a queue that goes is emptied.
const LAST_CALLS: u32 = 64;
/// Bytes of the largest super-frame's largest segment.
const SCRATCH: usize = 1 << 16;

/// A transmit queue on an AF_XDP socket.
pub(super) struct XdpTx {
    pub out: Out,
    pub stage: Stage,
    pub caps: TxCaps,
}

pub(super) struct Out {
    pub shared: Arc<Shared>,
    pub ring: Producer<xdp_desc>,
    pub done: Consumer<u64>,
    /// Packets may lie in several buffers.
    pub several: bool,
    /// The device was down when the kernel was last asked to send.
    pub down: bool,
    /// Buffers in the ring that do not count as lent yet.
    pub posted: usize,
    /// To ask whether it has carrier.
    pub control: OwnedFd,
    pub name: String,
    pub scratch: Box<[u8]>,
}

impl XdpTx {
    pub fn new(out: Out) -> XdpTx {
        // Super-frames are cut and checksums completed here, as late as possible.
        XdpTx { out, stage: Stage::new(Form::Whole), caps: TxCaps { checksum: true, tso: true, uso: true } }
    }
}

impl Out {
    pub fn scratch() -> Box<[u8]> {
        vec![0; SCRATCH].into_boxed_slice()
    }

    /// Takes back the buffers of which the kernel is done.
    #[inline]
    fn reclaim(&mut self, buffers: &mut Buffers) {
        let mut back = 0;
        while let Some(address) = self.done.pop() {
            if let Some((buf, _)) = self.shared.take(address) {
                buffers.free_one(buf);
                back += 1;
            }
        }
        if back != 0 {
            self.done.release();
            self.shared.pool().returned(back);
        }
    }

    /// Puts a packet into the ring, whose buffers are the kernel's then; or drops it, and says why.
    #[inline]
    fn post(&mut self, buffers: &mut Buffers, d: Desc, report: &mut TxReport) {
        let chained = d.has(flags::CHAINED);
        if chained && !self.several {
            return self.post_copy(buffers, d, report);
        }
        let pieces = if chained { buffers.count(&d) } else { 1 };
        if self.ring.room(pieces) < pieces {
            self.push(buffers, report);
            self.reclaim(buffers);
            if self.ring.room(pieces) < pieces {
                report.full += 1;
                return buffers.free(d);
            }
        }
        report.packets += 1;
        report.bytes += buffers.total_len(&d) as u64;
        if !chained {
            return self.put(d.buf, d.off, d.len, false);
        }
        let mut row = Row::of(buffers, d);
        let mut before = None;
        while let Some((buf, off, len)) = row.pop(buffers) {
            // The kernel takes no empty piece.
            if len == 0 {
                buffers.free_one(buf);
            } else if let Some((buf, off, len)) = before.replace((buf, off, len)) {
                self.put(buf, off, len, true);
            }
        }
        if let Some((buf, off, len)) = before {
            self.put(buf, off, len, false);
        }
    }

    #[inline]
    fn put(&mut self, buf: Buffer, off: u16, len: u16, more: bool) {
        let buf = self.shared.hold(buf);
        self.posted += 1;
        let options = if more { libc::XDP_PKT_CONTD } else { 0 };
        self.ring.push(xdp_desc { addr: address(buf, off), len: len.into(), options });
    }

    /// A packet of several buffers, where the kernel takes one.
    #[cold]
    fn post_copy(&mut self, buffers: &mut Buffers, d: Desc, report: &mut TxReport) {
        let copy = offload::in_one(buffers, &d, &mut self.scratch);
        buffers.free(d);
        match copy {
            Some(copy) => self.post(buffers, copy, report),
            None => report.errors += 1,
        }
    }

    /// The packets of a stage, each in buffers of its own.
    fn post_stage(&mut self, stage: &mut Stage, buffers: &mut Buffers, report: &mut TxReport) {
        for n in 0..stage.len() {
            match stage.copied(n, buffers, &mut self.scratch) {
                Some(d) => self.post(buffers, d, report),
                None => report.errors += 1,
            }
        }
        stage.clear();
    }

    /// Hands over what was posted. What the kernel does not take waits in the ring.
    fn push(&mut self, buffers: &mut Buffers, report: &mut TxReport) {
        self.ring.submit();
        self.shared.pool().lend(std::mem::take(&mut self.posted));
        let (mut idle, mut before) = (0, self.ring.taken());
        while !self.ring.is_drained() && idle < PATIENCE {
            if !self.ring.needs_wakeup() {
                break;
            }
            let answer = self.shared.kick();
            let now = self.ring.taken();
            idle = if now == before { idle + 1 } else { 0 };
            let took = u64::from(now.wrapping_sub(before));
            before = now;
            match answer.err().and_then(|e| e.raw_os_error()) {
                None => {}
                Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                    self.down = true;
                    break;
                }
                // The device has refused the last of those that were taken.
                Some(libc::EBUSY) if took != 0 => self.refused(report, took),
                Some(_) => self.reclaim(buffers),
            }
        }
        self.shared.pending.store(!self.ring.is_drained(), Ordering::Relaxed);
    }

    /// The device has dropped a packet that counts as sent.
    #[cold]
    fn refused(&mut self, report: &mut TxReport, took: u64) {
        let no_carrier = sys::running(&self.control, &self.name).is_ok_and(|running| !running);
        let lost = if no_carrier { took } else { 1 }.min(report.packets);
        // Their bytes are not known any more; the mean of what was sent is near.
        let bytes = report.bytes * lost / report.packets.max(1);
        report.packets -= lost;
        report.bytes -= bytes;
        if no_carrier {
            report.no_link += lost;
        } else {
            report.full += lost;
        }
    }

    /// Whether the device takes packets; one that was down is asked again.
    #[inline]
    fn is_up(&mut self) -> bool {
        if self.down && !self.shared.gone.load(Ordering::Relaxed) {
            let answer = self.shared.kick().err().and_then(|e| e.raw_os_error());
            self.down = matches!(answer, Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV));
        }
        !self.down
    }
}

impl TxQueue for XdpTx {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn leaves(&mut self) -> bool {
        let leaving = self.out.shared.leaving.load(Ordering::Relaxed);
        let mut calls = 0;
        while leaving && !self.out.ring.is_drained() && calls < LAST_CALLS && self.out.shared.kick().is_ok() {
            calls += 1;
        }
        leaving
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut report = TxReport::default();
        let XdpTx { out, stage, .. } = self;
        out.reclaim(buffers);
        if !out.is_up() {
            report.no_link = packets.len() as u64;
            buffers.free_all(packets);
            return report;
        }
        for d in packets {
            if d.has(flags::GSO) {
                let cut =
                    stage.put(buffers, &d, |stage, buffers| out.post_stage(stage, buffers, &mut report));
                report.errors += u64::from(!cut);
                out.post_stage(stage, buffers, &mut report);
                buffers.free(d);
            } else if d.has(flags::CSUM_PARTIAL) && !offload::complete(buffers, &d) {
                report.errors += 1;
                buffers.free(d);
            } else {
                out.post(buffers, d, &mut report);
            }
        }
        out.push(buffers, &mut report);
        report
    }
}

/// Sends by AF_PACKET for a worker for which the device has no queue, for as long as that is so.
pub(super) struct StandIn {
    pub queue: Box<dyn TxQueue>,
    /// The device has a queue that nobody has.
    pub spare: Arc<AtomicBool>,
}

impl TxQueue for StandIn {
    fn caps(&self) -> TxCaps {
        self.queue.caps()
    }

    fn leaves(&mut self) -> bool {
        self.spare.load(Ordering::Relaxed)
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        self.queue.send(buffers, packets)
    }

    fn flush(&mut self, buffers: &mut Buffers) -> TxReport {
        self.queue.flush(buffers)
    }
}
