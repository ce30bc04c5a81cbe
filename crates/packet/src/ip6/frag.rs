//! Cutting an IPv6 packet into fragments at its source (RFC 8200, 4.5).

use super::{HEADER_LEN, ext};
use crate::proto::IpProtocol;
use std::fmt;
use std::ops::Range;

/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// No more bytes than this stand in front of a fragment header.
pub const MAX_HEAD: usize = 512;

/// Why a packet is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragError {
    /// The headers are wrong, or too long.
    BadHeader,
    /// The MTU does not hold the headers and eight bytes.
    MtuTooSmall,
}

impl fmt::Display for FragError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FragError::BadHeader => "bad IPv6 header or extension headers",
            FragError::MtuTooSmall => "MTU too small for a fragment",
        })
    }
}

impl std::error::Error for FragError {}

/// A packet that is to be cut.
#[derive(Clone, Debug)]
pub struct Fragmenter<'a> {
    /// The per-fragment headers: everything up to a routing header, or up to hop-by-hop options.
    head: &'a [u8],
    /// Octet of `head` that names what follows.
    named_at: usize,
    payload_len: usize,
    /// Payload bytes of each fragment but the last, a multiple of eight.
    data: usize,
}

impl<'a> Fragmenter<'a> {
    /// `packet` is the whole packet, `mtu` the largest one in bytes. Even a packet that fits becomes a fragment.
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, FragError> {
        let upper = ext::walk(packet).map_err(|_| FragError::BadHeader)?;
        // Both were just walked over.
        let end = |at: u16| {
            let at = usize::from(at);
            packet.get(at + 1).map(|units| (at + (usize::from(*units) + 1) * 8, at))
        };
        let head = upper.routing.or(upper.hop_by_hop.map(|r| r.0)).and_then(end);
        let (head_len, named_at) = head.unwrap_or((HEADER_LEN, 6));
        let head = packet.get(..head_len).filter(|h| h.len() <= MAX_HEAD).ok_or(FragError::BadHeader)?;
        let data = mtu.saturating_sub(head_len + FRAGMENT_LEN) / 8 * 8;
        if data == 0 {
            return Err(FragError::MtuTooSmall);
        }
        Ok(Self { head, named_at, payload_len: packet.len() - head_len, data })
    }

    /// Number of fragments, at least 1.
    pub fn count(&self) -> usize {
        self.payload_len.div_ceil(self.data).max(1)
    }

    /// Bytes in front of each fragment's payload.
    pub fn header_len(&self) -> usize {
        self.head.len() + FRAGMENT_LEN
    }

    /// Places of the fragments' payload in the packet, in order.
    pub fn fragments(&self) -> impl ExactSizeIterator<Item = Range<usize>> + use<'_, 'a> {
        let start = self.head.len();
        let end = start + self.payload_len;
        (0..self.count()).map(move |n| {
            let from = start + n * self.data;
            from..(from + self.data).min(end)
        })
    }

    /// Writes the headers of the fragment whose payload stands at `part` of the packet; `None` when `out` has no room.
    pub fn write_header(&self, part: &Range<usize>, id: u32, out: &mut [u8]) -> Option<usize> {
        let (head_len, len) = (self.head.len(), self.header_len());
        let out = out.get_mut(..len)?;
        let (head, fragment) = out.split_at_mut(head_len);
        head.copy_from_slice(self.head);
        let next = std::mem::replace(&mut head[self.named_at], IpProtocol::FRAGMENT.0);
        let payload = (len - HEADER_LEN + part.len()) as u16;
        head[4..6].copy_from_slice(&payload.to_be_bytes());
        let offset = (part.start - head_len) as u16;
        let more = u16::from(part.end < head_len + self.payload_len);
        fragment.fill(0);
        fragment[0] = next;
        fragment[2..4].copy_from_slice(&(offset | more).to_be_bytes());
        fragment[4..8].copy_from_slice(&id.to_be_bytes());
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        p[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
        p.extend([0x20; 32]);
        p.extend_from_slice(rest);
        p
    }

    fn cut(p: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, FragError> {
        let f = Fragmenter::new(p, mtu)?;
        let one = |part: Range<usize>| {
            let mut out = vec![0; f.header_len()];
            assert_eq!(f.write_header(&part, 0xabcd, &mut out), Some(out.len()));
            out.extend_from_slice(&p[part]);
            out
        };
        Ok(f.fragments().map(one).collect())
    }

    #[test]
    fn headers_of_all_fragments() {
        // Hop-by-hop (router alert) - destination options - UDP: only the first stands in all fragments.
        let p = packet(0, &[&[60, 0, 5, 2, 0, 0, 1, 0][..], &[17, 0, 1, 4, 0, 0, 0, 0], &[7; 40]].concat());
        let out = cut(&p, 40 + 8 + 8 + 24).unwrap();
        assert_eq!(out.len(), 2);
        assert_eq!(out[0][..6], [0x60, 0, 0, 0, 0, 40]);
        assert_eq!(out[0][40..56], [44, 0, 5, 2, 0, 0, 1, 0, 60, 0, 0, 1, 0, 0, 0xab, 0xcd]);
        assert_eq!(out[1][40..56], [44, 0, 5, 2, 0, 0, 1, 0, 60, 0, 0, 24, 0, 0, 0xab, 0xcd]);
        assert_eq!(out[1].len(), 40 + 8 + 8 + 24);
        let routed = packet(43, &[&[58, 0, 4, 0, 0, 0, 0, 0][..], &[7; 40]].concat());
        assert_eq!(cut(&routed, 80).unwrap()[0][40..49], [44, 0, 4, 0, 0, 0, 0, 0, 58]);
        assert_eq!(cut(&packet(58, &[1; 9]), 55), Err(FragError::MtuTooSmall));
        assert_eq!(cut(&packet(60, &[1; 7]), 1280), Err(FragError::BadHeader));
        assert_eq!(cut(&packet(58, &[]), 1280).unwrap().len(), 1);
        let f = Fragmenter::new(&p, 1280).unwrap();
        assert_eq!(f.write_header(&(48..56), 1, &mut [0; 55]), None);
    }

    proptest! {
        #[test]
        fn fragments_make_the_packet_again(payload in proptest::collection::vec(any::<u8>(), 1..4000), mtu in 56usize..1600) {
            let p = packet(17, &payload);
            let mut joined = vec![0; payload.len()];
            let out = cut(&p, mtu).unwrap();
            for (n, f) in out.iter().enumerate() {
                prop_assert!(f.len() <= mtu);
                let (info, named_at) = ext::fragment(f).unwrap().unwrap();
                prop_assert_eq!((named_at, info.more, info.id), (6, n + 1 < out.len(), 0xabcd));
                prop_assert!(f.len() % 8 == 0 || !info.more);
                prop_assert_eq!(usize::from(u16::from_be_bytes([f[4], f[5]])), f.len() - 40);
                joined[info.offset..info.offset + f.len() - 48].copy_from_slice(&f[48..]);
            }
            prop_assert_eq!(joined, payload);
        }
    }
}
