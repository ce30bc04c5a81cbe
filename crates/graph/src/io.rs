//! The edge of the graph: queues that bring packets in and take them out. Drivers implement these.

use crate::buffer::Buffers;
use crate::desc::{Packets, Vector};
use std::os::fd::RawFd;

/// When an input wants to be polled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When its descriptor is readable.
    Fd,
    /// At once: it has more.
    Now,
    /// At this time (nanoseconds of the TSC, as [`crate::clock::Clock::now_ns`]).
    At(u64),
    /// Not before it is changed.
    Never,
}

/// One receive queue; owned by one worker at a time.
pub trait RxQueue: Send {
    /// Interface on which its packets are counted.
    fn interface(&self) -> u32;

    /// Name of the graph's input node under which its clocks are counted, e.g. `af-packet-input`.
    fn input_node(&self) -> &'static str;

    /// Name of the node to which its packets go.
    fn target(&self) -> &'static str {
        "ethernet-input"
    }

    /// Appends packets to `out` (never more than its room) and returns how many. Their descriptors carry the
    /// interface, `off` and `l2` at the Ethernet header, and flags. Must not block.
    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize;

    /// Descriptor to sleep on, readable when packets wait.
    fn fd(&self) -> Option<RawFd> {
        None
    }

    /// When to poll again after a poll that found nothing.
    fn ready(&self) -> Ready {
        Ready::Fd
    }
}

/// What the other side of a transmit queue can do for the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCaps {
    /// Completes partial checksums.
    pub checksum: bool,
    /// Takes TCP super-frames.
    pub tso: bool,
    /// Takes UDP super-frames.
    pub uso: bool,
}

/// What became of the packets given to a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxReport {
    /// Packets accepted.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped because the device took no more.
    pub full: u64,
    /// Packets dropped because the device refused them.
    pub errors: u64,
    /// Packets dropped because the device has no link, is down or gone.
    pub no_link: u64,
}

impl TxReport {
    /// Adds another report.
    pub fn add(&mut self, o: TxReport) {
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.full += o.full;
        self.errors += o.errors;
        self.no_link += o.no_link;
    }
}

/// One transmit queue; owned by one worker.
pub trait TxQueue: Send {
    /// What the device does for packets.
    fn caps(&self) -> TxCaps;

    /// Takes the packets over (it frees their buffers, now or later). Each starts at its Ethernet header.
    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport;

    /// Whether its device wants another queue to take its place; what waits in it is handed over then.
    fn leaves(&mut self) -> bool {
        false
    }

    /// Called after the last `send` of a loop: hands over what was only queued.
    fn flush(&mut self, buffers: &mut Buffers) -> TxReport {
        let _ = buffers;
        TxReport::default()
    }
}
