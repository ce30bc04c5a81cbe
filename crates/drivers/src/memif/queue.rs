//! The queues of a connection: each is a ring with its interrupt.

use super::message::Mode;
use super::ring::{Broken, Ring, Sent};
use crate::peers::{self, Shared};
use crate::signal::Signal;
use crate::turn;
use graph::io::Ready;
use graph::{Buffers, Desc, Packets, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use packet::eth;
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// A receive queue.
pub struct MemifRx {
    pub ring: Ring,
    pub interface: u32,
    pub mode: Mode,
    pub signal: Signal,
    /// The other side was told to wake this one.
    pub armed: Cell<bool>,
    pub shared: Arc<Shared>,
}

impl RxQueue for MemifRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "memif-input"
    }

    fn target(&self) -> &'static str {
        match self.mode {
            Mode::Ethernet => "ethernet-input",
            Mode::Ip => "memif-ip-input",
        }
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        if self.shared.is_broken() {
            return 0;
        }
        if self.armed.take() {
            self.ring.interrupt(false);
            self.signal.drain();
        }
        let before = out.len();
        let shared = &self.shared;
        if self.ring.receive(buffers, self.interface, out, |why| shared.drops.count(why)).is_err() {
            self.shared.give_up();
        }
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.signal.fd().as_raw_fd())
    }

    fn ready(&self) -> Ready {
        if self.shared.is_broken() {
            return Ready::Never;
        }
        self.armed.set(true);
        self.ring.interrupt(true);
        // What came before the other side could see that it is to wake this one.
        if self.ring.has_packets() { Ready::Now } else { Ready::Fd }
    }
}

/// The sending side of a ring.
pub struct TxRing {
    pub ring: Ring,
    pub mode: Mode,
    pub signal: Signal,
    pub shared: Arc<Shared>,
}

impl TxRing {
    fn send(&mut self, buffers: &Buffers, packets: &[Desc]) -> TxReport {
        let mut report = TxReport::default();
        if self.shared.is_broken() {
            report.no_link = packets.len() as u64;
            return report;
        }
        let skip = match self.mode {
            Mode::Ethernet => 0,
            Mode::Ip => eth::HEADER_LEN,
        };
        for (n, d) in packets.iter().enumerate() {
            if self.mode == Mode::Ip && !is_ip(buffers, d) {
                report.errors += 1;
                continue;
            }
            match self.ring.send(buffers, d, skip) {
                Ok(Sent::Yes) => {
                    report.packets += 1;
                    report.bytes += buffers.total_len(d) as u64;
                }
                Ok(Sent::Full) => report.full += 1,
                Ok(Sent::TooLong) => {
                    report.errors += 1;
                    self.shared.too_long(buffers.total_len(d) - skip);
                }
                Err(Broken) => {
                    self.shared.give_up();
                    report.no_link += (packets.len() - n) as u64;
                    break;
                }
            }
        }
        if report.packets != 0 {
            self.ring.submit();
            if self.ring.wants_interrupt() {
                self.signal.ring();
            }
        }
        report
    }
}

/// Whether an IP packet is behind the Ethernet header.
fn is_ip(buffers: &Buffers, d: &Desc) -> bool {
    let at = usize::from(d.off) + eth::HEADER_LEN - 2;
    matches!(buffers.room(&d.buf).get(at..at + 2), Some([0x08, 0x00] | [0x86, 0xdd]))
}

/// The transmit rings of a connection, of which it may have fewer than there are workers.
pub struct Senders {
    rings: Vec<turn::Shared<TxRing>>,
    given: usize,
}

impl Senders {
    pub(super) fn new(rings: Vec<TxRing>) -> Senders {
        Senders { rings: rings.into_iter().map(turn::Shared::new).collect(), given: 0 }
    }
}

impl peers::Senders for Senders {
    fn transmit_queue(&mut self) -> Option<Box<dyn TxQueue>> {
        let ring = self.rings.get(self.given.checked_rem(self.rings.len())?)?;
        self.given += 1;
        Some(Box::new(MemifTx(ring.again())))
    }
}

/// A transmit queue over a ring, which may be another worker's as well.
pub struct MemifTx(turn::Shared<TxRing>);

impl TxQueue for MemifTx {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let all_lost = || TxReport { full: packets.len() as u64, ..TxReport::default() };
        let report = self.0.with(|ring| ring.send(buffers, &packets)).unwrap_or_else(all_lost);
        buffers.free_all(packets);
        report
    }
}
