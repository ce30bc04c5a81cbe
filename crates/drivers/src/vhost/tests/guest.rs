//! The driver of a virtual machine's network card: its rings are written as the standard says, without the code that the tests are of.

use super::f;
use crate::place::Place;
use packet::gso::VnetHdr;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

pub const SIZE: u16 = 256;
/// Regions: rings, and buffers behind them in the file, far away in the guest.
pub const RINGS: u64 = 1 << 20;
pub const BUFFERS: u64 = 8 << 20;
pub const USER: u64 = 0x7f00_0000_0000;
pub const FAR: u64 = 0x1_0000_0000;

pub struct Ring {
    pub at: u64,
    /// Descriptors that were made available and used so far, as the guest counts.
    pub avail: u16,
    pub used: u16,
    pub kick: OwnedFd,
    pub call: OwnedFd,
}

pub struct Guest {
    pub fd: OwnedFd,
    pub memory: File,
    pub rings: Vec<Ring>,
    pub features: u64,
    /// Bytes of buffers that have been given away, in turn.
    pub next: u64,
    /// Descriptors that are kept for each chain.
    pub stride: u16,
}

pub fn file(bytes: u64) -> File {
    let fd = rustix::fs::memfd_create("quiver-vhost-guest", MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&fd, bytes).unwrap();
    File::from(fd)
}

pub fn pair(a: u32, b: u32) -> Vec<u8> {
    [a.to_ne_bytes(), b.to_ne_bytes()].concat()
}

pub fn is_rung(fd: &OwnedFd) -> bool {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count).is_ok()
}

impl Guest {
    pub fn on(fd: OwnedFd, features: u64) -> Guest {
        let event = || eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let ring = |n: u64| Ring { at: n * 0x8000, avail: 0, used: 0, kick: event(), call: event() };
        let rings = (0..8).map(ring).collect();
        Guest { fd, memory: file(RINGS + BUFFERS), rings, features, next: 0, stride: 16 }
    }

    pub fn connect(place: &Place, features: u64) -> Guest {
        Guest::on(place.connect(SocketType::STREAM).unwrap(), features)
    }

    pub fn say_with(&self, request: u32, flags: u32, body: &[u8], with: &[BorrowedFd<'_>]) {
        let head = [request.to_ne_bytes(), (1 | flags).to_ne_bytes(), (body.len() as u32).to_ne_bytes()];
        let bytes = [&head.concat(), body].concat();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(40))];
        let mut along = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() {
            along.push(SendAncillaryMessage::ScmRights(with));
        }
        let _ = rustix::net::sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut along, SendFlags::NOSIGNAL);
    }

    pub fn say(&self, request: u32, body: &[u8]) {
        self.say_with(request, 0, body, &[]);
    }

    pub fn reply(&self) -> Option<(u32, u64)> {
        let mut b = [0; 20];
        let got = rustix::net::recv(&self.fd, &mut b, rustix::net::RecvFlags::DONTWAIT).ok()?;
        (got.0 == 20).then(|| {
            (
                b[..4].try_into().map(u32::from_ne_bytes).unwrap(),
                b[12..].try_into().map(u64::from_ne_bytes).unwrap(),
            )
        })
    }

    pub fn regions(&self) -> Vec<u8> {
        let region = |guest: u64, size: u64, user: u64, at: u64| {
            [guest, size, user, at].map(u64::to_ne_bytes).concat()
        };
        [pair(2, 0), region(0, RINGS, USER, 0), region(FAR, BUFFERS, USER + (1 << 40), RINGS)].concat()
    }

    /// The messages by which a front-end begins, for so many rings.
    pub fn messages(&self, rings: u32) -> Vec<(u32, Vec<u8>, Vec<BorrowedFd<'_>>)> {
        let memory = vec![self.memory.as_fd(); 2];
        let mut all = vec![
            (3, vec![], vec![]),
            (2, self.features.to_ne_bytes().to_vec(), vec![]),
            (5, self.regions(), memory),
        ];
        if self.features & f::PROTOCOL_FEATURES != 0 {
            all.insert(1, (16, 9u64.to_ne_bytes().to_vec(), vec![]));
        }
        for n in 0..rings {
            let r = &self.rings[n as usize];
            let at = |off: u64| USER + r.at + off;
            let address =
                [pair(n, 0), [at(0), at(8192), at(4096), 0].map(u64::to_ne_bytes).concat()].concat();
            all.push((8, pair(n, SIZE.into()), vec![]));
            all.push((10, pair(n, r.used.into()), vec![]));
            all.push((9, address, vec![]));
            all.push((13, u64::from(n).to_ne_bytes().to_vec(), vec![r.call.as_fd()]));
            all.push((12, u64::from(n).to_ne_bytes().to_vec(), vec![r.kick.as_fd()]));
        }
        if self.features & f::PROTOCOL_FEATURES != 0 {
            all.extend((0..rings).map(|n| (18, pair(n, 1), vec![])));
        }
        all
    }

    pub fn start(&self, rings: u32) {
        for (request, body, with) in self.messages(rings) {
            self.say_with(request, 0, &body, &with);
        }
    }

    pub fn header(&self) -> usize {
        if self.features & (f::VERSION_1 | f::MRG_RXBUF) != 0 { 12 } else { 10 }
    }

    pub fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    pub fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut b = [0; N];
        self.memory.read_exact_at(&mut b, at).unwrap();
        b
    }

    /// Room in the buffers: its address in the guest.
    pub fn room(&mut self, len: usize) -> u64 {
        if self.next + len as u64 > BUFFERS / 2 {
            self.next = 0;
        }
        let at = self.next;
        self.next += len.next_multiple_of(8) as u64;
        FAR + at
    }

    pub fn to_file(at: u64) -> u64 {
        at - FAR + RINGS
    }

    /// Makes a chain available; its pieces have addresses and lengths. `table`: an indirect one.
    pub fn offer(&mut self, ring: usize, pieces: &[(u64, usize)], writable: bool, table: bool) {
        let descriptors = |first: u16| -> Vec<u8> {
            let one = |(n, (addr, len)): (usize, &(u64, usize))| {
                let last = n + 1 == pieces.len();
                let flags = u16::from(!last) | u16::from(writable) << 1;
                let next = (first + n as u16 + 1) % SIZE;
                [
                    &addr.to_ne_bytes()[..],
                    &(*len as u32).to_ne_bytes(),
                    &flags.to_ne_bytes(),
                    &next.to_ne_bytes(),
                ]
                .concat()
            };
            pieces.iter().enumerate().flat_map(one).collect()
        };
        // Descriptors of a queue are used in turn: none is used that could still be on its way.
        let head = self.rings[ring].avail.wrapping_mul(self.stride) % SIZE;
        let at = self.rings[ring].at;
        if table {
            let bytes = descriptors(0);
            let to = self.room(bytes.len());
            self.put(Guest::to_file(to), &bytes);
            let one =
                [&to.to_ne_bytes()[..], &(bytes.len() as u32).to_ne_bytes(), &4u16.to_ne_bytes(), &[0; 2]]
                    .concat();
            self.put(at + u64::from(head) * 16, &one);
        } else {
            for (n, d) in descriptors(head).chunks(16).enumerate() {
                self.put(at + (u64::from(head) + n as u64) % u64::from(SIZE) * 16, d);
            }
        }
        let r = &mut self.rings[ring];
        let slot = at + 4096 + 4 + u64::from(r.avail % SIZE) * 2;
        r.avail = r.avail.wrapping_add(1);
        let idx = r.avail.to_ne_bytes();
        self.put(slot, &head.to_ne_bytes());
        self.put(at + 4096 + 2, &idx);
    }

    /// Transmits a frame, cut into pieces of these lengths, the last taking the rest.
    pub fn transmit(&mut self, q: usize, header: VnetHdr, bytes: &[u8], cuts: &[usize], table: bool) {
        let mut all = header.to_bytes().to_vec();
        all.resize(self.header(), 0);
        all.extend(bytes);
        let at = self.room(all.len());
        self.put(Guest::to_file(at), &all);
        let (mut pieces, mut from) = (vec![], 0);
        for cut in cuts.iter().copied().chain([usize::MAX]) {
            let n = cut.min(all.len() - from);
            pieces.push((at + from as u64, n));
            from += n;
            if from == all.len() {
                break;
            }
        }
        self.offer(2 * q + 1, &pieces, false, table);
    }

    /// What the device has used since: head and bytes.
    pub fn used(&mut self, ring: usize) -> Vec<(u32, u32)> {
        let at = self.rings[ring].at;
        let idx = u16::from_ne_bytes(self.get(at + 8192 + 2));
        let mut all = vec![];
        while self.rings[ring].used != idx {
            let e: [u8; 8] = self.get(at + 8192 + 4 + u64::from(self.rings[ring].used % SIZE) * 8);
            all.push((
                u32::from_ne_bytes(e[..4].try_into().unwrap()),
                u32::from_ne_bytes(e[4..].try_into().unwrap()),
            ));
            self.rings[ring].used = self.rings[ring].used.wrapping_add(1);
        }
        all
    }

    /// Offers buffers for what it is to receive, each of these pieces.
    pub fn post(&mut self, q: usize, count: usize, pieces: &[usize], table: bool) {
        for _ in 0..count {
            let pieces: Vec<(u64, usize)> = pieces.iter().map(|n| (self.room(*n), *n)).collect();
            self.offer(2 * q, &pieces, true, table);
        }
    }

    /// The bytes of a used chain.
    pub fn chain(&self, ring: usize, head: u32, mut len: usize) -> Vec<u8> {
        let (mut at, mut bytes) = (self.rings[ring].at + u64::from(head) * 16, vec![]);
        let read = |at| {
            let d: [u8; 16] = self.get(at);
            let word = |i: usize| u16::from_ne_bytes(d[i..i + 2].try_into().unwrap());
            (
                u64::from_ne_bytes(d[..8].try_into().unwrap()),
                u32::from_ne_bytes(d[8..12].try_into().unwrap()) as usize,
                word(12),
                word(14),
            )
        };
        let mut base = self.rings[ring].at;
        let first = read(at);
        if first.2 & 4 != 0 {
            (at, base) = (Guest::to_file(first.0), Guest::to_file(first.0));
        }
        loop {
            let (addr, has, flags, next) = read(at);
            let mut piece = vec![0; has.min(len)];
            self.memory.read_exact_at(&mut piece, Guest::to_file(addr)).unwrap();
            len -= piece.len();
            bytes.extend(piece);
            if flags & 1 == 0 || len == 0 {
                assert_eq!(len, 0, "more bytes are said to be used than there are");
                return bytes;
            }
            at = base + u64::from(next) * 16;
        }
    }

    /// Packets that it has received: header and bytes.
    pub fn received(&mut self, q: usize) -> Vec<(VnetHdr, Vec<u8>)> {
        let mut packets = vec![];
        let mut used = self.used(2 * q).into_iter();
        while let Some((head, len)) = used.next() {
            let mut bytes = self.chain(2 * q, head, len as usize);
            let header = VnetHdr::parse(bytes[..10].try_into().unwrap());
            let buffers = if self.header() == 12 { u16::from_ne_bytes([bytes[10], bytes[11]]) } else { 1 };
            bytes.drain(..self.header());
            for _ in 1..buffers {
                let (head, len) = used.next().unwrap();
                bytes.extend(self.chain(2 * q, head, len as usize));
            }
            packets.push((header, bytes));
        }
        packets
    }
}
