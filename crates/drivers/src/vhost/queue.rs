//! The queues of a connection. A ring may be taken from them and given back at any time: the other side starts and stops it.

use super::ring::{Broken, Ring, Sent};
use crate::peers::{self, Shared};
use crate::signal::Signal;
use crate::turn;
use crate::vnet;
use graph::io::Ready;
use graph::{Buffers, Desc, Packets, RxQueue, TxCaps, TxQueue, TxReport, Vector};
use std::cell::Cell;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Where a ring is while it runs.
pub type Slot = turn::Shared<Option<Ring>>;

/// A receive queue: what the driver transmits.
pub struct VhostRx {
    pub slot: Slot,
    pub kick: Option<Arc<Signal>>,
    pub interface: u32,
    /// The driver was told to wake this side.
    pub armed: Cell<bool>,
    pub shared: Arc<Shared>,
}

impl RxQueue for VhostRx {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        "vhost-user-input"
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        if self.shared.is_broken() {
            return 0;
        }
        let was_armed = self.armed.take();
        if was_armed && let Some(kick) = &self.kick {
            kick.drain();
        }
        let before = out.len();
        let (shared, interface) = (&self.shared, self.interface);
        self.slot.with(|ring| {
            let Some(ring) = ring else { return };
            if was_armed {
                ring.notifications(false);
            }
            if ring.receive(buffers, interface, out, |why| shared.drops.count(why)).is_err() {
                shared.give_up();
            }
        });
        out.len() - before
    }

    fn fd(&self) -> Option<RawFd> {
        self.kick.as_ref().map(|kick| kick.fd().as_raw_fd())
    }

    fn ready(&self) -> Ready {
        if self.shared.is_broken() {
            return Ready::Never;
        }
        self.armed.set(true);
        let waits = self.slot.with(|ring| {
            ring.as_ref().is_some_and(|ring| {
                ring.notifications(true);
                // What came before the driver could see that it is to wake this side.
                ring.has_packets()
            })
        });
        if self.kick.is_none() || waits != Some(false) { Ready::Now } else { Ready::Fd }
    }
}

/// The sending side of a pair: what the driver receives.
pub struct Sender {
    slot: Slot,
    shared: Arc<Shared>,
}

impl Sender {
    fn send(&self, buffers: &Buffers, packets: &[Desc]) -> TxReport {
        let mut report = TxReport::default();
        let all = packets.len() as u64;
        if self.shared.is_broken() {
            return TxReport { no_link: all, ..report };
        }
        let sent = self.slot.with(|ring| {
            let Some(ring) = ring else {
                report.no_link = all;
                return;
            };
            for (n, d) in packets.iter().enumerate() {
                let Some(header) = vnet::of_packet(buffers, d) else {
                    report.errors += 1;
                    continue;
                };
                match ring.send(buffers, d, header) {
                    Ok(Sent::Yes) => {
                        report.packets += 1;
                        report.bytes += buffers.total_len(d) as u64;
                    }
                    Ok(Sent::Full) => report.full += 1,
                    Ok(Sent::TooLong) => report.errors += 1,
                    Err(Broken) => {
                        self.shared.give_up();
                        report.no_link += (packets.len() - n) as u64;
                        return;
                    }
                }
            }
            if report.packets != 0 || ring.owes {
                ring.submit();
            }
        });
        if sent.is_none() {
            report.full = all;
        }
        report
    }
}

/// The sending sides of a connection, of which it may have fewer than there are workers.
pub struct Senders {
    all: Vec<Arc<Sender>>,
    caps: TxCaps,
    given: usize,
}

impl Senders {
    pub(super) fn new(slots: Vec<Slot>, caps: TxCaps, shared: &Arc<Shared>) -> Senders {
        let sender = |slot| Arc::new(Sender { slot, shared: Arc::clone(shared) });
        Senders { all: slots.into_iter().map(sender).collect(), caps, given: 0 }
    }
}

impl peers::Senders for Senders {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn transmit_queue(&mut self) -> Option<Box<dyn TxQueue>> {
        let sender = self.all.get(self.given.checked_rem(self.all.len())?)?;
        self.given += 1;
        Some(Box::new(VhostTx { sender: Arc::clone(sender), caps: self.caps }))
    }
}

/// A transmit queue over a ring, which may be another worker's as well.
pub struct VhostTx {
    sender: Arc<Sender>,
    caps: TxCaps,
}

impl TxQueue for VhostTx {
    fn caps(&self) -> TxCaps {
        self.caps
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let report = self.sender.send(buffers, &packets);
        buffers.free_all(packets);
        report
    }
}
