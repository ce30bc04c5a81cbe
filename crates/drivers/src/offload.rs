//! Offloads done in software, late: what was one packet all the way through the graph becomes whole packets where it
//! leaves. Payload is named where it lies, never copied here.

use graph::{Buffers, Desc, flags};
use packet::checksum::Sum;
use packet::gso::{Gso, GsoKind, VnetHdr};

/// Who completes checksums and cuts super-frames that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// What keeps captures on the other side right: AF_PACKET sends whole packets, a TAP complete checksums.
    #[default]
    Auto,
    /// The Linux side: it gets partial checksums and super-frames as they are.
    On,
    /// Quiver: whole packets leave (and on a TAP, come in).
    Off,
}

/// Most bytes of headers of a super-frame: Ethernet, tags, IP with options or extension headers, TCP with options.
pub const MAX_HEADERS: usize = 256;

/// Where the partial checksum of a packet stands, from the packet's current header on, and what it is when completed;
/// `None` when its place is not within the first buffer.
pub fn checksum(buffers: &Buffers, d: &Desc) -> Option<(usize, u16)> {
    let m = buffers.meta(d.buf);
    let start = usize::from(m.csum_start.checked_sub(d.off)?);
    let at = start + usize::from(m.csum_offset);
    let mut parts = buffers.parts(d);
    let first = parts.next()?;
    if at + 2 > first.len() {
        return None;
    }
    let mut sum = Sum::of(first.get(start..)?);
    for part in parts {
        sum.add_bytes(part);
    }
    // 0xffff for 0 is needed by UDP and does no harm to the others.
    Some((at, sum.checksum_nonzero()))
}

/// Completes the partial checksum of a packet in place; false when its place is not within the first buffer. The
/// descriptor's flag is the caller's to clear.
pub fn complete(buffers: &mut Buffers, d: &Desc) -> bool {
    let Some((at, sum)) = checksum(buffers, d) else { return false };
    buffers.data_mut(d)[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// How a super-frame ([`flags::GSO`]) is cut; `None` when its meta makes no sense.
pub fn gso(buffers: &Buffers, d: &Desc) -> Option<Gso> {
    let m = buffers.meta(d.buf);
    let kind = match m.gso_type & !VnetHdr::GSO_ECN {
        VnetHdr::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHdr::GSO_TCPV6 => GsoKind::Tcp6,
        VnetHdr::GSO_UDP_L4 => GsoKind::Udp,
        _ => return None,
    };
    (m.gso_size != 0).then_some(Gso { kind, size: m.gso_size })
}

/// Bytes of one buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The buffer.
    pub buf: u32,
    /// Where they start in its room.
    pub off: u16,
    /// How many there are.
    pub len: u16,
}

impl Piece {
    /// The bytes; none when the piece lies outside of a buffer.
    pub fn bytes<'b>(&self, buffers: &'b Buffers) -> &'b [u8] {
        let at = usize::from(self.off);
        buffers.room(self.buf).get(at..at + usize::from(self.len)).unwrap_or_default()
    }
}

/// A walk over the bytes of a packet, from its current header on, piece by piece.
#[derive(Clone, Debug)]
pub struct Walk {
    here: Piece,
    next: u32,
}

impl Walk {
    /// From the packet's first byte.
    pub fn new(buffers: &Buffers, d: &Desc) -> Walk {
        let next = if d.has(flags::CHAINED) { buffers.meta(d.buf).next } else { graph::buffer::NONE };
        Walk { here: Piece { buf: d.buf, off: d.off, len: d.len }, next }
    }

    /// The next piece, of at most `most` bytes; `None` at the end. Empty buffers are passed over.
    #[inline]
    pub fn take(&mut self, buffers: &Buffers, most: usize) -> Option<Piece> {
        while self.here.len == 0 {
            if self.next == graph::buffer::NONE {
                return None;
            }
            let m = buffers.meta(self.next);
            self.here = Piece { buf: self.next, off: m.off, len: m.len };
            self.next = m.next;
        }
        let len = usize::from(self.here.len).min(most) as u16;
        let piece = Piece { len, ..self.here };
        self.here.off += len;
        self.here.len -= len;
        Some(piece)
    }

    /// Passes over `n` bytes; false when there are fewer.
    pub fn skip(&mut self, buffers: &Buffers, mut n: usize) -> bool {
        while n != 0 {
            let Some(piece) = self.take(buffers, n) else { return false };
            n -= usize::from(piece.len);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Pool, PoolConfig, PoolMemory};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_walk_gives_the_bytes_of_the_packet(
            parts in proptest::collection::vec(0usize..300, 1..8), skip in 0usize..1500, most in 1usize..400,
        ) {
            let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
            let mut b = pool.buffers();
            let bytes: Vec<u8> = (0..parts.iter().sum()).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut d = b.alloc_bytes(&bytes[..parts[0]]).unwrap();
            let (mut at, mut last) = (parts[0], d.buf);
            for &n in &parts[1..] {
                let buf = b.alloc().unwrap();
                b.room_mut(buf)[5..5 + n].copy_from_slice(&bytes[at..at + n]);
                b.link(&mut d, last, buf, 5, n as u16);
                (at, last) = (at + n, buf);
            }
            let mut walk = Walk::new(&b, &d);
            prop_assert_eq!(walk.skip(&b, skip), skip <= bytes.len());
            let mut got = vec![];
            while let Some(p) = walk.take(&b, most) {
                prop_assert!(p.len != 0 && usize::from(p.len) <= most);
                got.extend_from_slice(p.bytes(&b));
            }
            prop_assert_eq!(got, &bytes[skip.min(bytes.len())..]);
            b.free(&d);
            prop_assert_eq!(pool.in_use(), 0);
        }
    }
}
