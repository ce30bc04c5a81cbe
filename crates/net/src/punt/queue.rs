//! What workers tell the control side: packets for it, and neighbours that they need.
//!
//! Bounded and lock-free. When the control side falls behind, messages are lost and counted; protocols repeat.

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a packet that are handed over.
pub const PUNT_BYTES: usize = 320;
const MESSAGES: usize = 1024;

/// Why a packet is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntKind {
    /// An ARP packet for the neighbour table; bytes from the Ethernet header.
    Arp,
    /// A neighbour discovery message; bytes from the Ethernet header.
    Nd,
    /// A router solicitation; bytes from the Ethernet header.
    Solicitation,
    /// A query for multicast groups; bytes from the IP header.
    Group,
    /// An ICMP or ICMPv6 message to the router that no node answers (echo reply, error); bytes from the IP header.
    Icmp,
}

/// A message from a worker. Not boxed: workers do not allocate.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// A worker holds packets for this neighbour and cannot send them.
    Resolve {
        /// Interface behind which it is.
        interface: u32,
        /// Its address.
        address: IpAddr,
    },
    /// The MAC table is filled: a bigger one is to take its place.
    MacTable,
    /// A packet.
    Packet {
        /// Why.
        kind: PuntKind,
        /// Interface on which it came.
        interface: u32,
        /// Offset of the network header in `bytes` ([`PuntKind::Arp`], [`PuntKind::Nd`]).
        l3: u16,
        /// Valid bytes.
        len: u16,
        /// Bytes of the whole packet.
        full: u32,
        /// The packet's start.
        bytes: [u8; PUNT_BYTES],
    },
}

struct Inner {
    queue: ArrayQueue<Message>,
    /// Resolve requests have their own queue: a flood of packets must not displace them, nor the reverse.
    resolve: ArrayQueue<Message>,
    signalled: AtomicBool,
    wake: OwnedFd,
    lost: AtomicU64,
}

/// Both ends of the queue.
#[derive(Clone)]
pub struct Punt(Arc<Inner>);

impl Punt {
    /// An empty queue.
    pub fn new() -> std::io::Result<Punt> {
        Ok(Punt(Arc::new(Inner {
            queue: ArrayQueue::new(MESSAGES),
            resolve: ArrayQueue::new(MESSAGES),
            signalled: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            lost: AtomicU64::new(0),
        })))
    }

    /// Worker: hands a message over; false when it is lost. Out of line: inside of several callers the queue's own function would
    /// be out of line, and a message be copied once more.
    #[inline(never)]
    pub fn push(&self, m: Message) -> bool {
        let q = if matches!(m, Message::Resolve { .. } | Message::MacTable) {
            &self.0.resolve
        } else {
            &self.0.queue
        };
        if q.push(m).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        // One write wakes the control side for all messages until it looks.
        if !self.0.signalled.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
        }
        true
    }

    /// Worker: hands a packet over.
    pub fn packet(&self, kind: PuntKind, interface: u32, l3: u16, data: &[u8], full: usize) -> bool {
        let mut bytes = [0; PUNT_BYTES];
        let n = data.len().min(PUNT_BYTES);
        bytes[..n].copy_from_slice(&data[..n]);
        self.push(Message::Packet { kind, interface, l3, len: n as u16, full: full as u32, bytes })
    }

    /// Control side: the next message.
    pub fn pop(&self) -> Option<Message> {
        self.0.resolve.pop().or_else(|| self.0.queue.pop())
    }

    /// Control side: call when the descriptor was readable, before taking messages.
    pub fn acknowledge(&self) {
        let mut n = [0u8; 8];
        let _ = rustix::io::read(&self.0.wake, &mut n);
        self.0.signalled.store(false, Ordering::Release);
    }

    /// Readable when messages wait.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }

    /// Messages lost so far because the control side was behind.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_packets_is_bounded_and_leaves_room_for_requests() {
        let p = Punt::new().unwrap();
        for _ in 0..MESSAGES + 10 {
            p.packet(PuntKind::Arp, 1, 14, &[7; 1000], 1000);
        }
        assert_eq!(p.lost(), 10);
        assert!(p.push(Message::Resolve { interface: 1, address: "10.0.0.1".parse().unwrap() }));
        p.acknowledge();
        assert!(matches!(p.pop(), Some(Message::Resolve { interface: 1, .. })), "requests first");
        let Some(Message::Packet { len, full, .. }) = p.pop() else { panic!() };
        assert_eq!((len as usize, full), (PUNT_BYTES, 1000));
    }
}
