//! What workers tell the control side: packets for it, and neighbours that they need.
//!
//! Bounded and lock-free. When the control side falls behind, messages are lost and counted; protocols repeat.

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

/// Bytes of a packet in one slot.
const PIECE: usize = 320;
/// Messages that wait at most: each has a slot, whatever long packets take.
const MESSAGES: usize = 1024;
/// Slots for further pieces.
const FURTHER: usize = 4 * MESSAGES;
/// The longest packet that is handed over, bytes: IPv6 with the most of payload, and Ethernet with two tags.
pub const MOST_BYTES: usize = 65_535 + 40 + 22;

/// Each kind at its number.
const KINDS: [PuntKind; 8] = [
    PuntKind::Arp,
    PuntKind::Nd,
    PuntKind::Anycast,
    PuntKind::Solicitation,
    PuntKind::Group,
    PuntKind::Icmp,
    PuntKind::Lacp,
    PuntKind::Program,
];

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
    /// LACP or a marker, on a member of a bond that runs LACP; bytes from the Ethernet header.
    Lacp,
    /// What a program has asked for, in the program's own queue; bytes from the Ethernet header, where there is one.
    Program,
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
#[derive(Clone, Debug)]
pub struct Punted {
    /// Why.
    pub kind: PuntKind,
    /// Interface on which it came.
    pub interface: u32,
    /// Offset of the network header in `bytes` ([`PuntKind::Arp`], [`PuntKind::Nd`], [`PuntKind::Program`]).
    pub l3: u16,
    /// The whole packet.
    pub bytes: Vec<u8>,
}

/// A message from a worker.
#[derive(Clone, Debug)]
pub enum Message {
    /// It asks for something.
    Request(Request),
    /// It hands a packet over.
    Packet(Punted),
}

/// Words of [`PIECE`].
const WORDS: usize = PIECE / 8;
/// "No further slot".
const LAST: u16 = u16::MAX;

/// Room for a piece of a packet on its way: whoever took its number from one queue has it alone until the number, or that of the
/// packet's first slot, is in the other one. A packet that went through a queue whole would be copied three times, with the bytes that
/// it does not have.
#[derive(Default)]
struct Slot {
    /// [`PuntKind`] as a number; of a packet's first slot, as the two that follow.
    kind: AtomicU8,
    interface: AtomicU32,
    l3: AtomicU16,
    /// Bytes of this slot.
    len: AtomicU16,
    /// The packet's next slot, or [`LAST`].
    next: AtomicU16,
    words: [[AtomicU64; WORDS / 8]; 8],
}

impl Slot {
    fn write(&self, data: &[u8]) {
        let data = &data[..data.len().min(PIECE)];
        self.len.store(data.len() as u16, Relaxed);
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

    fn read(&self, bytes: &mut Vec<u8>) {
        let mut left = usize::from(self.len.load(Relaxed)).min(PIECE);
        for word in self.words.as_flattened().iter().take(left.div_ceil(8)) {
            let n = left.min(8);
            bytes.extend_from_slice(&word.load(Relaxed).to_ne_bytes()[..n]);
            left -= n;
        }
    }
}

struct Inner {
    /// Requests have their own queue: a flood of packets must not displace them, nor the reverse.
    requests: ArrayQueue<Request>,
    slots: Box<[Slot]>,
    /// Numbers of first slots that are free, and of those with a packet.
    free: ArrayQueue<u16>,
    filled: ArrayQueue<u16>,
    /// Free slots for further pieces.
    further: ArrayQueue<u16>,
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
        let (free, further) = (ArrayQueue::new(MESSAGES), ArrayQueue::new(FURTHER));
        for n in 0..(MESSAGES + FURTHER) as u16 {
            let _ = if usize::from(n) < MESSAGES { free.push(n) } else { further.push(n) };
        }
        Ok(Punt(Arc::new(Inner {
            requests: ArrayQueue::new(MESSAGES),
            slots: (0..MESSAGES + FURTHER).map(|_| Slot::default()).collect(),
            free,
            further,
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

    /// Worker: hands a packet of these parts over, whole; false when it is lost.
    pub fn packet<'p>(
        &self,
        kind: PuntKind,
        interface: u32,
        l3: u16,
        parts: impl Iterator<Item = &'p [u8]> + Clone,
    ) -> bool {
        let taken = self.0.free.pop().is_some_and(|n| {
            let Some(slot) = self.0.slots.get(usize::from(n)) else { return false };
            slot.kind.store(kind as u8, Relaxed);
            slot.interface.store(interface, Relaxed);
            slot.l3.store(l3, Relaxed);
            slot.next.store(LAST, Relaxed);
            let mut rest = parts.clone();
            let first = rest.next().unwrap_or_default();
            if first.len() <= PIECE && rest.next().is_none() {
                slot.write(first);
            } else if !self.write_pieces(slot, parts) {
                self.give_back(n);
                return false;
            }
            self.0.filled.push(n).is_ok()
        });
        self.pushed(taken)
    }

    /// Puts a packet into its slot and as many others as it takes; false when there are too few.
    #[inline(never)]
    fn write_pieces<'p>(&self, first: &Slot, parts: impl Iterator<Item = &'p [u8]> + Clone) -> bool {
        let mut left = parts.clone().map(<[u8]>::len).sum::<usize>();
        if left > MOST_BYTES {
            return false;
        }
        let (mut at, mut empty) = (first, true);
        let (mut gathered, mut n) = ([0; PIECE], 0);
        for mut part in parts {
            while !part.is_empty() {
                let (piece, rest) = part.split_at(part.len().min(PIECE - n));
                part = rest;
                left = left.saturating_sub(piece.len());
                // What lies together is copied once.
                let whole = n == 0 && (piece.len() == PIECE || left == 0);
                if !whole {
                    gathered[n..][..piece.len()].copy_from_slice(piece);
                    n += piece.len();
                    if n < PIECE && left != 0 {
                        continue;
                    }
                }
                if !std::mem::take(&mut empty) {
                    let next =
                        self.0.further.pop().and_then(|n| Some((n, self.0.slots.get(usize::from(n))?)));
                    let Some((number, slot)) = next else { return false };
                    slot.next.store(LAST, Relaxed);
                    at.next.store(number, Relaxed);
                    at = slot;
                }
                at.write(if whole { piece } else { &gathered[..n] });
                n = 0;
            }
        }
        if empty {
            first.write(&[]);
        }
        true
    }

    /// Frees the slots of a packet.
    fn give_back(&self, first: u16) {
        let mut at = first;
        while let Some(slot) = self.0.slots.get(usize::from(at)) {
            let next = slot.next.load(Relaxed);
            let _ = if at == first { self.0.free.push(at) } else { self.0.further.push(at) };
            at = next;
        }
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
            let first = &self.0.slots[usize::from(n)];
            let (mut bytes, mut at) = (Vec::with_capacity(PIECE), n);
            while let Some(slot) = self.0.slots.get(usize::from(at)) {
                slot.read(&mut bytes);
                at = slot.next.load(Relaxed);
            }
            let packet = Punted {
                kind: KINDS[usize::from(first.kind.load(Relaxed))],
                interface: first.interface.load(Relaxed),
                l3: first.l3.load(Relaxed),
                bytes,
            };
            self.give_back(n);
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
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
        std::iter::once(bytes)
    }

    fn free(p: &Punt) -> usize {
        p.0.free.len() + p.0.further.len()
    }

    fn next(p: &Punt) -> Option<Punted> {
        match p.pop()? {
            Message::Packet(packet) => Some(packet),
            m => panic!("{m:?}"),
        }
    }

    #[test]
    fn a_flood_of_packets_is_bounded_and_leaves_room_for_requests() {
        for (len, fit) in [(60, MESSAGES), (1600, MESSAGES), (1601, FURTHER / 5), (65_000, FURTHER / 203)] {
            let p = Punt::new().unwrap();
            for _ in 0..MESSAGES + 10 {
                p.packet(PuntKind::Arp, 1, 14, whole(&vec![7; len]));
            }
            assert_eq!(p.lost() as usize, MESSAGES + 10 - fit, "{len}");
            assert!(p.request(Request::Resolve { interface: 1, address: "10.0.0.1".parse().unwrap() }));
            // Long packets leave short ones theirs.
            for n in fit..MESSAGES + 1 {
                assert_eq!(p.packet(PuntKind::Nd, 1, 14, whole(&[7; 320])), n < MESSAGES);
            }
            p.acknowledge();
            assert!(
                matches!(p.pop(), Some(Message::Request(Request::Resolve { interface: 1, .. }))),
                "requests first"
            );
            for n in 0..MESSAGES {
                assert_eq!(next(&p).unwrap().bytes, vec![7; if n < fit { len } else { 320 }]);
            }
            assert!(p.pop().is_none());
            assert_eq!(free(&p), MESSAGES + FURTHER);
        }
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let p = Punt::new().unwrap();
        let data: Vec<u8> = (0..=250).cycle().take(10_000).collect();
        for round in 0..3 * MESSAGES {
            let (kind, len) = (KINDS[round % KINDS.len()], round * 7 % 2000);
            assert!(p.packet(kind, round as u32, 14, whole(&data[..len])));
            let out = next(&p).unwrap();
            assert_eq!((out.kind, out.interface, out.l3), (kind, round as u32, 14));
            assert!(out.bytes == data[..len], "{len}");
        }
        assert!(p.pop().is_none() && p.lost() == 0);
        let longest = vec![9; MOST_BYTES + 1];
        assert!(p.packet(PuntKind::Icmp, 1, 0, whole(&longest[1..])));
        assert!(!p.packet(PuntKind::Icmp, 1, 0, whole(&longest)), "no packet is that long");
        assert_eq!(next(&p).unwrap().bytes.len(), MOST_BYTES);
        assert_eq!(free(&p), MESSAGES + FURTHER);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn parts_come_out_as_one(
            packets in prop::collection::vec(
                prop::collection::vec(prop_oneof![0usize..9, 300usize..330, 0usize..3000], 0..6),
                1..20,
            ),
        ) {
            let p = Punt::new().unwrap();
            let data: Vec<u8> = (0..20_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
            let mut want = vec![];
            for lens in &packets {
                let mut at = 0;
                let parts: Vec<&[u8]> = lens.iter().map(|n| (&data[at..at + n], at += n).0).collect();
                prop_assert!(p.packet(PuntKind::Group, 3, 0, parts.iter().copied()));
                want.push(&data[..at]);
            }
            let slots: usize = want.iter().map(|b| b.len().div_ceil(PIECE).max(1)).sum();
            prop_assert_eq!(free(&p), MESSAGES + FURTHER - slots, "no slot more than it takes");
            for bytes in want {
                prop_assert!(next(&p).unwrap().bytes == bytes);
            }
            prop_assert_eq!(free(&p), MESSAGES + FURTHER);
        }
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
                        let len = if n % 3 == 0 { 61 } else { 5000 };
                        while !p.packet(PuntKind::Arp, n, 14, whole(&vec![of; len])) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut counts = [0, 0];
            while counts != [packets; 2] {
                let Some(m) = next(&p) else {
                    std::thread::yield_now();
                    continue;
                };
                let of = m.bytes[0];
                assert!(m.bytes.iter().all(|b| *b == of));
                assert_eq!(m.bytes.len(), if m.interface % 3 == 0 { 61 } else { 5000 });
                assert_eq!(m.interface, counts[usize::from(of) - 1], "in order");
                counts[usize::from(of) - 1] += 1;
            }
        });
        assert_eq!(free(&p), MESSAGES + FURTHER);
    }
}
