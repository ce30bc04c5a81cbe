//! Packets put ready for one system call: headers are written here, everything else is named where it lies.

use crate::offload::{self, MAX_HEADERS};
use crate::vnet;
use graph::chain::{Piece, Walk};
use graph::{Buffers, Desc, Seen, flags};
use packet::checksum::Sum;
use packet::gso::{Segment, Segmenter, VnetHdr};

/// Most pieces of one packet; a 64 KiB packet takes 31 buffers.
pub const MAX_PIECES: usize = 63;
/// Most packets in one call.
pub const BATCH: usize = 64;
/// Most pieces of all of them.
pub const PIECES: usize = BATCH * 2 + MAX_PIECES;

/// How packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are: who takes them completes checksums and cuts super-frames.
    AsIs,
    /// With complete checksums; TCP super-frames stay whole, UDP super-frames are cut (Linux refuses them so).
    Checksummed,
    /// With complete checksums, super-frames cut into segments.
    Whole,
}

#[derive(Clone, Copy, Default)]
struct Staged {
    /// Bytes of its header: the virtio-net header, and those of layers 2 to 4 of a segment.
    header: usize,
    /// Its first piece, and the one behind its last.
    pieces: (usize, usize),
    /// Bytes of the packet.
    bytes: usize,
}

/// Packets for one call. They stay the caller's and must not change before they are sent.
pub struct Stage {
    headers: Box<[[u8; VnetHdr::LEN + MAX_HEADERS]; BATCH]>,
    pieces: Box<[Piece; PIECES]>,
    staged: [Staged; BATCH],
    count: usize,
    form: Form,
}

impl Stage {
    /// An empty one.
    pub fn new(form: Form) -> Stage {
        Stage {
            headers: Box::new([[0; VnetHdr::LEN + MAX_HEADERS]; BATCH]),
            pieces: Box::new([Piece::default(); PIECES]),
            staged: [Staged::default(); BATCH],
            count: 0,
            form,
        }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// No room for one more packet.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.count == BATCH || self.used() + MAX_PIECES > PIECES
    }

    /// Forgets all packets.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Bytes of packet `n`.
    pub fn bytes(&self, n: usize) -> usize {
        self.staged[n].bytes
    }

    /// Packet `n` is a super-frame that the kernel is to cut.
    pub fn is_super_frame(&self, n: usize) -> bool {
        self.headers[n][1] != VnetHdr::GSO_NONE
    }

    /// Header and pieces of packet `n`.
    pub fn packet(&self, n: usize) -> (&[u8], &[Piece]) {
        let s = &self.staged[n];
        (&self.headers[n][..s.header], &self.pieces[s.pieces.0..s.pieces.1])
    }

    /// Packet `n` in buffers of its own, without its virtio-net header; nothing where `scratch` or the pool has no room for it.
    pub fn copied(&self, n: usize, buffers: &mut Buffers, scratch: &mut [u8]) -> Option<Desc> {
        let (header, pieces) = self.packet(n);
        let header = header.get(VnetHdr::LEN..).unwrap_or_default();
        let mut at = 0;
        for bytes in std::iter::once(header).chain(pieces.iter().map(|p| p.bytes(buffers))) {
            scratch.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
            at += bytes.len();
        }
        (at == self.bytes(n)).then(|| buffers.alloc_bytes(&scratch[..at])).flatten()
    }

    #[inline]
    fn used(&self) -> usize {
        match self.count {
            0 => 0,
            n => self.staged[n - 1].pieces.1,
        }
    }

    /// Adds a packet, or the segments of a super-frame; `push` hands over and clears whatever is full. False when the
    /// packet's flags contradict its bytes.
    #[inline]
    pub fn put(
        &mut self,
        buffers: &mut Buffers,
        d: &Desc,
        mut push: impl FnMut(&mut Stage, &mut Buffers),
    ) -> bool {
        if d.has(flags::GSO) && self.cuts(buffers, d) {
            return self.segments(buffers, d, push);
        }
        if self.is_full() {
            push(self, buffers);
        }
        self.add(buffers, d)
    }

    fn cuts(&self, buffers: &Buffers, d: &Desc) -> bool {
        match self.form {
            Form::AsIs => false,
            Form::Checksummed => buffers.meta(&d.buf).gso_type == VnetHdr::GSO_UDP_L4,
            Form::Whole => true,
        }
    }

    fn add(&mut self, buffers: &mut Buffers, d: &Desc) -> bool {
        let mut header = VnetHdr::default();
        if d.has(flags::CSUM_PARTIAL | flags::GSO) {
            let mut said = Seen::of(d);
            if self.form != Form::AsIs && d.has(flags::CSUM_PARTIAL) {
                if !offload::complete(buffers, d) {
                    return false;
                }
                said = Seen::without(d, flags::CSUM_PARTIAL);
            }
            let Some(h) = vnet::of_packet(buffers, &said) else { return false };
            header = h;
        }
        let first = self.used();
        let (mut at, mut bytes) = (first, 0);
        let mut walk = Walk::new(buffers, d);
        while let Some(piece) = walk.take(buffers, usize::MAX) {
            let Some(place) = self.pieces.get_mut(at).filter(|_| at - first < MAX_PIECES) else {
                return false;
            };
            *place = piece;
            bytes += usize::from(piece.len);
            at += 1;
        }
        self.headers[self.count][..VnetHdr::LEN].copy_from_slice(&header.to_bytes());
        self.staged[self.count] = Staged { header: VnetHdr::LEN, pieces: (first, at), bytes };
        self.count += 1;
        true
    }

    fn segments(
        &mut self,
        buffers: &mut Buffers,
        d: &Desc,
        mut push: impl FnMut(&mut Stage, &mut Buffers),
    ) -> bool {
        let mut front = [0u8; MAX_HEADERS];
        let n = buffers.copy_out(d, 0, &mut front);
        let Some(gso) = offload::gso(buffers, d) else { return false };
        let Ok(s) = Segmenter::new(&front[..n], buffers.total_len(d), gso) else { return false };
        let mut walk = Walk::new(buffers, d);
        walk.skip(buffers, s.header_len())
            && s.segments().all(|segment| {
                if self.is_full() {
                    push(self, buffers);
                }
                self.add_segment(buffers, &s, &segment, &mut walk)
            })
    }

    /// Adds one segment, whose payload is the next in `walk`; false when that ends early or lies in too many pieces.
    fn add_segment(
        &mut self,
        buffers: &Buffers,
        s: &Segmenter<'_>,
        segment: &Segment,
        walk: &mut Walk,
    ) -> bool {
        let first = self.used();
        let (mut at, mut left) = (first, segment.payload.len());
        let mut sum = Sum::new();
        while left != 0 {
            let Some(piece) = walk.take(buffers, left) else { return false };
            let Some(place) = self.pieces.get_mut(at).filter(|_| at - first < MAX_PIECES) else {
                return false;
            };
            *place = piece;
            sum.add_bytes(piece.bytes(buffers));
            left -= usize::from(piece.len);
            at += 1;
        }
        let header = &mut self.headers[self.count];
        header[..VnetHdr::LEN].fill(0);
        let Ok(wrote) = s.write_headers(segment, sum, &mut header[VnetHdr::LEN..]) else { return false };
        let bytes = wrote + segment.payload.len();
        self.staged[self.count] = Staged { header: VnetHdr::LEN + wrote, pieces: (first, at), bytes };
        self.count += 1;
        true
    }
}
