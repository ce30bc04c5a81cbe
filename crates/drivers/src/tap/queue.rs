//! The queues of a TAP: readv into buffers, writev per packet, a virtio-net header in front.

use crate::af_packet::POLL_BYTES;
use crate::counts::{Drops, RxDrop};
use crate::stage::{Form, Stage};
use crate::sys::{self, RxArrays, Sent, TxArrays};
use crate::vnet;
use graph::buffer::{DATA, HEADROOM, ROOM};
use graph::io::Ready;
use graph::{Buffer, Buffers, Chain, Desc, Packets, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::gso::VnetHdr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Buffers behind the first one that hold a super-frame of 64 KiB.
const FOLLOWING: usize = (65536 + 18 - DATA).div_ceil(ROOM);
/// Packets that one poll reads at most: each is a system call.
const POLL: usize = 64;

/// What both sides of a device's queues know.
#[derive(Debug)]
pub(super) struct Shared {
    /// The device was deleted under us.
    pub gone: AtomicBool,
    /// `/dev/null`: takes the place of a deleted device's descriptor, which would stay readable for ever.
    pub null: OwnedFd,
}

/// A receive queue of a TAP.
pub(super) struct TapRx {
    pub queue: Arc<OwnedFd>,
    pub interface: u32,
    pub arrays: RxArrays,
    pub shared: Arc<Shared>,
    pub drops: Arc<Drops>,
    /// The last packet did not fit in one buffer: the next may not either.
    pub big: bool,
}

impl TapRx {
    pub fn new(queue: Arc<OwnedFd>, interface: u32, shared: Arc<Shared>, drops: Arc<Drops>) -> TapRx {
        TapRx { queue, interface, arrays: RxArrays::new(65536 + 64), shared, drops, big: false }
    }

    /// Reads one packet; `Ok(None)` when none waits.
    fn read(&mut self, buffers: &mut Buffers) -> Result<Option<Desc>, RxDrop> {
        let mut bufs: [Buffer; 1 + FOLLOWING] = std::array::from_fn(|_| Buffer::default());
        let want = if self.big { bufs.len() } else { 1 };
        let mut have = 0;
        while have < want {
            let Some(buf) = buffers.alloc() else { break };
            bufs[have] = buf;
            have += 1;
        }
        let (header, len) = match self.arrays.read(&self.queue, buffers, &bufs[..have], HEADROOM) {
            Ok(got) => got,
            Err(e) => {
                bufs.into_iter().take(have).for_each(|b| buffers.free_one(b));
                // EBADFD: the device was deleted; EIO: its host side is down.
                if e.raw_os_error() == Some(libc::EBADFD) {
                    self.end();
                }
                return Ok(None);
            }
        };
        if have == 0 {
            return Err(RxDrop::NoBuffer);
        }
        self.packet(header, len, bufs.into_iter().take(have), buffers).map(Some)
    }

    fn packet(
        &mut self,
        header: VnetHdr,
        len: usize,
        mut bufs: impl Iterator<Item = Buffer>,
        buffers: &mut Buffers,
    ) -> Result<Desc, RxDrop> {
        self.big = len > DATA;
        let first = len.min(DATA);
        let (off, l2) = (HEADROOM as u16, HEADROOM as u16);
        let buf = bufs.next().unwrap_or_default();
        let d = Desc { buf, off, l2, len: first as u16, rx: self.interface, ..Desc::default() };
        let (mut left, mut chain) = (len - first, Chain::new(buffers, d));
        for buf in bufs {
            if left == 0 {
                buffers.free_one(buf);
                continue;
            }
            let n = left.min(ROOM);
            chain.push(buffers, buf, 0, n as u16);
            left -= n;
        }
        let mut d = chain.done();
        let spill = self.arrays.spill();
        let spilled = spill.get(..left).is_some_and(|rest| buffers.append(&mut d, rest));
        if !spilled {
            buffers.free(d);
            return Err(if left > spill.len() { RxDrop::Truncated } else { RxDrop::NoBuffer });
        }
        match vnet::to_packet(header, 0, buffers, &mut d) {
            Ok(()) => Ok(d),
            Err(_) => {
                buffers.free(d);
                Err(RxDrop::Malformed)
            }
        }
    }

    #[cold]
    fn end(&mut self) {
        self.shared.gone.store(true, Ordering::Relaxed);
        let _ = sys::replace(&self.queue, &self.shared.null);
    }
}

impl RxQueue for TapRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "tap-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        if self.shared.gone.load(Ordering::Relaxed) {
            return 0;
        }
        let before = out.len();
        let mut bytes = 0;
        for _ in 0..POLL.min(out.room()) {
            if bytes >= POLL_BYTES {
                break;
            }
            match self.read(buffers) {
                Ok(None) => break,
                Ok(Some(d)) => {
                    bytes += buffers.total_len(&d);
                    if let Err(d) = out.push(d) {
                        buffers.free(d);
                    }
                }
                Err(why) => self.drops.count(why),
            }
        }
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.queue.as_raw_fd())
    }

    fn ready(&self) -> Ready {
        if self.shared.gone.load(Ordering::Relaxed) { Ready::Never } else { Ready::Fd }
    }
}

/// A transmit queue of a TAP.
pub(super) struct TapTx {
    stage: Stage,
    out: Out,
    caps: TxCaps,
}

struct Out {
    queue: Arc<OwnedFd>,
    arrays: TxArrays,
    shared: Arc<Shared>,
}

impl TapTx {
    pub fn new(queue: Arc<OwnedFd>, form: Form, caps: TxCaps, shared: Arc<Shared>) -> TapTx {
        TapTx { stage: Stage::new(form), out: Out { queue, arrays: TxArrays::new(), shared }, caps }
    }
}

impl Out {
    /// Hands over what is staged, one packet a call: the driver takes no more.
    fn push(&mut self, stage: &mut Stage, buffers: &Buffers, report: &mut TxReport) {
        for n in 0..stage.len() {
            if self.shared.gone.load(Ordering::Relaxed) {
                report.no_link += 1;
                continue;
            }
            let mut sent = self.arrays.write(&self.queue, buffers, stage, n);
            if sent == Sent::Refused(libc::EINTR) {
                sent = self.arrays.write(&self.queue, buffers, stage, n);
            }
            match sent {
                Sent::Some(_) => {
                    report.packets += 1;
                    report.bytes += stage.bytes(n) as u64;
                }
                Sent::Refused(libc::EAGAIN | libc::ENOBUFS) => report.full += 1,
                // EIO: its host side is down; EBADFD: it was deleted.
                Sent::Refused(libc::EIO | libc::EBADFD) => report.no_link += 1,
                Sent::Refused(_) => report.errors += 1,
            }
        }
        stage.clear();
    }
}

impl TxQueue for TapTx {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut report = TxReport::default();
        let TapTx { stage, out, .. } = self;
        for d in packets.iter() {
            if !stage.put(buffers, d, |stage, buffers| out.push(stage, buffers, &mut report)) {
                report.errors += 1;
            }
        }
        out.push(stage, buffers, &mut report);
        buffers.free_all(packets);
        report
    }
}
