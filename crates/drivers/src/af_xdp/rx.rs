//! Receiving: frames that the kernel has put into the router's own buffers.

use super::ring::{Consumer, Producer};
use super::socket::{Shared, address};
use crate::counts::{Drops, RxDrop};
use crate::partial;
use graph::buffer::ROOM;
use graph::io::Ready;
use graph::{Buffers, Chain, Desc, RxQueue, Vector};
use libc::xdp_desc;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After how long to look again whether there are buffers for the kernel, or room in the device.
const AGAIN_NS: u64 = 500_000;
/// Buffers that are given to the kernel at once at least.
const BATCH: u32 = 32;

/// A receive queue on an AF_XDP socket.
pub(super) struct XdpRx {
    pub shared: Arc<Shared>,
    pub ring: Consumer<xdp_desc>,
    pub fill: Producer<u64>,
    pub interface: u32,
    pub drops: Arc<Drops>,
    /// Buffers that the kernel has to receive into, and those that it is to have.
    pub filled: u32,
    pub slots: u32,
    /// The beginning of a frame whose rest has not come yet; lost where a part of it was none.
    pub part: Option<Chain>,
    pub lost: bool,
    /// Frames come from Linux's own stack, and may have partial checksums.
    pub software: bool,
    pub now_ns: u64,
}

impl XdpRx {
    fn refill(&mut self, buffers: &mut Buffers) {
        let wanted = self.slots - self.filled;
        let room = self.fill.room(wanted).min(wanted);
        let mut given = 0;
        while given < room {
            let Some(buf) = buffers.alloc() else { break };
            self.fill.push(address(self.shared.hold(buf), 0));
            given += 1;
        }
        self.filled += given;
        if given != 0 {
            self.shared.pool().lend(given as usize);
            self.fill.submit();
            if self.fill.needs_wakeup() {
                self.shared.kick_receive();
            }
        }
    }

    /// The packet, or what of it is there so far.
    fn take(&mut self, x: &xdp_desc, buffers: &mut Buffers) -> Option<Desc> {
        let more = x.options & libc::XDP_PKT_CONTD != 0;
        let (buf, off) = self.shared.take(x.addr)?;
        self.filled = self.filled.saturating_sub(1);
        let len = x.len as usize;
        let fits = len != 0 && off <= ROOM && len <= ROOM - off;
        let (off, len) = (off as u16, len as u16);
        if self.lost || !fits {
            buffers.free_one(buf);
            self.lose(buffers);
            self.lost = more;
            return None;
        }
        let begun = self.part.take();
        if begun.is_none() && !more {
            return Some(Desc { buf, off, l2: off, len, rx: self.interface, ..Desc::default() });
        }
        let chain = match begun {
            None => {
                Chain::new(buffers, Desc { buf, off, l2: off, len, rx: self.interface, ..Desc::default() })
            }
            Some(mut chain) => {
                chain.push(buffers, buf, off, len);
                chain
            }
        };
        if more {
            self.part = Some(chain);
            return None;
        }
        Some(chain.done())
    }

    #[cold]
    fn lose(&mut self, buffers: &mut Buffers) {
        if let Some(begun) = self.part.take() {
            buffers.free(begun.done());
        }
        self.drops.count(RxDrop::Malformed);
    }
}

impl RxQueue for XdpRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "af-xdp-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        self.now_ns = now_ns;
        if self.shared.held.load(Ordering::Acquire) {
            // What is to be received into is there before anything comes.
            self.refill(buffers);
            return 0;
        }
        let before = out.len();
        let filled = self.filled;
        while out.room() > 0 {
            let Some(x) = self.ring.pop() else { break };
            let Some(mut d) = self.take(&x, buffers) else { continue };
            if self.software {
                partial::mark(buffers, &mut d);
            }
            if let Err(d) = out.push(d) {
                buffers.free(d);
            }
        }
        if filled != self.filled {
            self.ring.release();
            self.shared.pool().returned((filled - self.filled) as usize);
        }
        if self.slots - self.filled >= BATCH {
            self.refill(buffers);
        }
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.shared.fd())
    }

    fn ready(&self) -> Ready {
        if self.shared.error() == libc::ENETDOWN {
            self.shared.gone.store(true, Ordering::Relaxed);
        }
        if self.shared.gone.load(Ordering::Relaxed) {
            return Ready::Never;
        }
        let waiting = self.shared.pending.load(Ordering::Relaxed);
        if waiting {
            let _ = self.shared.kick();
        }
        // Without buffers nothing comes that would wake the worker.
        if waiting || self.slots - self.filled >= BATCH {
            Ready::At(self.now_ns + AGAIN_NS)
        } else {
            Ready::Fd
        }
    }
}
