//! What workers tell the control side: packets for it, and neighbours that they need.
//!
//! Bounded and lock-free. When the control side falls behind, messages are lost and counted; protocols repeat.

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

/// Bytes of a packet that are handed over.
pub const PUNT_BYTES: usize = 320;
const MESSAGES: usize = 1024;

/// Each kind at its number.
const KINDS: [PuntKind; 6] =
    [PuntKind::Arp, PuntKind::Nd, PuntKind::Anycast, PuntKind::Solicitation, PuntKind::Group, PuntKind::Icmp];

/// Why a packet is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PuntKind {
    /// An ARP packet for the neighbour table; bytes from the Ethernet header.
    Arp,
    /// A neighbour discovery message; bytes from the Ethernet header.
    Nd,
    /// A neighbor solicitation of a subnet-router anycast address; bytes from the Ethernet header.
    Anycast,
    /// A router solicitation; bytes from the Ethernet header.
    Solicitation,
    /// A query for multicast groups; bytes from the IP header.
    Group,
    /// An ICMP or ICMPv6 message to the router that no node answers (echo reply, error); bytes from the IP header.
    Icmp,
}

/// What a worker asks for.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A worker holds packets for this neighbour and cannot send them.
    Resolve {
        /// Interface behind which it is.
        interface: u32,
        /// Its address.
        address: IpAddr,
    },
    /// The MAC table is filled: a bigger one is to take its place.
    MacTable,
}

/// A packet that a worker has handed over.
#[derive(Clone, Copy, Debug)]
pub struct Punted {
    /// Why.
    pub kind: PuntKind,
    /// Interface on which it came.
    pub interface: u32,
    /// Offset of the network header in `bytes` ([`PuntKind::Arp`], [`PuntKind::Nd`]).
    pub l3: u16,
    /// Valid bytes.
    pub len: u16,
    /// Bytes of the whole packet.
    pub full: u32,
    /// The packet's start.
    pub bytes: [u8; PUNT_BYTES],
}

/// A message from a worker. Not boxed: there is one at a time.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy, Debug)]
pub enum Message {
    /// It asks for something.
    Request(Request),
    /// It hands a packet over.
    Packet(Punted),
}

/// Words of [`PUNT_BYTES`].
const WORDS: usize = PUNT_BYTES / 8;

/// Room for a packet on its way: whoever took its number from one queue has it alone until the number is in the other one. A
/// packet that went through a queue whole would be copied three times, with the bytes that it does not have.
#[derive(Default)]
struct Slot {
    /// [`PuntKind`] as a number.
    kind: AtomicU8,
    interface: AtomicU32,
    l3: AtomicU16,
    len: AtomicU16,
    full: AtomicU32,
    words: [[AtomicU64; WORDS / 8]; 8],
}

impl Slot {
    fn write(&self, kind: PuntKind, interface: u32, l3: u16, data: &[u8], full: usize) {
        let data = &data[..data.len().min(PUNT_BYTES)];
        self.kind.store(kind as u8, Relaxed);
        self.interface.store(interface, Relaxed);
        self.l3.store(l3, Relaxed);
        self.len.store(data.len() as u16, Relaxed);
        self.full.store(full as u32, Relaxed);
        let (whole, rest) = data.as_chunks::<8>();
        let mut words = self.words.as_flattened().iter();
        // The chunks first: `zip` would take a word for the chunk that there is not.
        for (bytes, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        if let (Some(word), false) = (words.next(), rest.is_empty()) {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u64::from_ne_bytes(last), Relaxed);
        }
    }

    fn read(&self) -> Punted {
        let mut bytes = [0; PUNT_BYTES];
        let len = self.len.load(Relaxed);
        let words = self.words.as_flattened();
        for (to, word) in bytes[..usize::from(len)].chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.load(Relaxed).to_ne_bytes()[..to.len()]);
        }
        Punted {
            kind: KINDS[usize::from(self.kind.load(Relaxed))],
            interface: self.interface.load(Relaxed),
            l3: self.l3.load(Relaxed),
            len,
            full: self.full.load(Relaxed),
            bytes,
        }
    }
}

struct Inner {
    /// Requests have their own queue: a flood of packets must not displace them, nor the reverse.
    requests: ArrayQueue<Request>,
    slots: Box<[Slot]>,
    /// Numbers of slots that are free, and of those with a packet.
    free: ArrayQueue<u16>,
    filled: ArrayQueue<u16>,
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
        let free = ArrayQueue::new(MESSAGES);
        (0..MESSAGES as u16).for_each(|n| {
            let _ = free.push(n);
        });
        Ok(Punt(Arc::new(Inner {
            requests: ArrayQueue::new(MESSAGES),
            slots: (0..MESSAGES).map(|_| Slot::default()).collect(),
            free,
            filled: ArrayQueue::new(MESSAGES),
            signalled: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            lost: AtomicU64::new(0),
        })))
    }

    /// Worker: asks for something; false when the request is lost.
    pub fn request(&self, r: Request) -> bool {
        self.pushed(self.0.requests.push(r).is_ok())
    }

    /// Worker: hands a packet over; false when it is lost.
    pub fn packet(&self, kind: PuntKind, interface: u32, l3: u16, data: &[u8], full: usize) -> bool {
        let slot = self.0.free.pop().and_then(|n| Some((n, self.0.slots.get(usize::from(n))?)));
        let taken = slot.is_some_and(|(n, slot)| {
            slot.write(kind, interface, l3, data, full);
            self.0.filled.push(n).is_ok()
        });
        self.pushed(taken)
    }

    fn pushed(&self, taken: bool) -> bool {
        if !taken {
            self.0.lost.fetch_add(1, Relaxed);
            return false;
        }
        // One write wakes the control side for all messages until it looks.
        if !self.0.signalled.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
        }
        true
    }

    /// Control side: the next message.
    pub fn pop(&self) -> Option<Message> {
        let request = self.0.requests.pop().map(Message::Request);
        request.or_else(|| {
            let n = self.0.filled.pop()?;
            let packet = self.0.slots[usize::from(n)].read();
            let _ = self.0.free.push(n);
            Some(Message::Packet(packet))
        })
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
        self.0.lost.load(Relaxed)
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
        assert!(p.request(Request::Resolve { interface: 1, address: "10.0.0.1".parse().unwrap() }));
        p.acknowledge();
        assert!(
            matches!(p.pop(), Some(Message::Request(Request::Resolve { interface: 1, .. }))),
            "requests first"
        );
        let Some(Message::Packet(Punted { len, full, .. })) = p.pop() else { panic!() };
        assert_eq!((len as usize, full), (PUNT_BYTES, 1000));
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let p = Punt::new().unwrap();
        let data: Vec<u8> = (0..=255).cycle().take(PUNT_BYTES + 1).collect();
        for round in 0..3 * MESSAGES {
            let (kind, len) = (KINDS[round % KINDS.len()], round % (PUNT_BYTES + 2));
            assert!(p.packet(kind, round as u32, 14, &data[..len], 2000 + len));
            let Some(Message::Packet(out)) = p.pop() else { panic!() };
            let kept = len.min(PUNT_BYTES);
            assert_eq!((out.kind, out.interface, out.l3), (kind, round as u32, 14));
            assert_eq!((usize::from(out.len), out.full as usize), (kept, 2000 + len));
            assert!(out.bytes[..kept] == data[..kept] && out.bytes[kept..].iter().all(|b| *b == 0), "{len}");
        }
        assert!(p.pop().is_none() && p.lost() == 0);
    }

    #[test]
    fn two_threads_lose_nothing_and_mix_nothing() {
        let p = Punt::new().unwrap();
        let packets: u32 = if cfg!(miri) { 200 } else { 20_000 };
        std::thread::scope(|threads| {
            for of in [1u8, 2] {
                let p = p.clone();
                threads.spawn(move || {
                    for n in 0..packets {
                        while !p.packet(PuntKind::Arp, n, 14, &[of; 61], 61) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0, 0];
            while next != [packets; 2] {
                let Some(Message::Packet(m)) = p.pop() else {
                    std::thread::yield_now();
                    continue;
                };
                let of = m.bytes[0];
                assert!(m.bytes[..61].iter().all(|b| *b == of) && m.len == 61);
                assert_eq!(m.interface, next[usize::from(of) - 1], "in order");
                next[usize::from(of) - 1] += 1;
            }
        });
    }
}
