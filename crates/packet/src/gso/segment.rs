//! Cutting a super-frame into segments: the maths and the headers. The payload, which may lie in several buffers,
//! stays with the caller.

use super::vnet::{Gso, GsoKind};
use crate::BuildError;
use crate::checksum::{Sum, pseudo4, pseudo6};
use crate::eth::EtherType;
use crate::ip4::{self, Ip4View};
use crate::ip6::Ip6View;
use crate::proto::IpProtocol;
use crate::tcp::{self, TcpView, flag};
use crate::udp;
use crate::vlan::VlanStack;
use std::fmt;
use std::ops::Range;

/// A super-frame that would become more segments than this is refused: it is made to do harm.
pub const MAX_SEGMENTS: usize = 2048;

/// Why a frame cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoError {
    /// The headers are cut, wrong, or not of the kind that the virtio-net header says.
    BadHeaders,
    /// The packet is an IP fragment.
    Fragment,
    /// The segment size is 0.
    ZeroSize,
    /// A segment would exceed 65,535 bytes.
    SegmentTooLong,
    /// More than [`MAX_SEGMENTS`].
    TooManySegments,
}

impl fmt::Display for GsoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GsoError::BadHeaders => "super-frame with bad headers",
            GsoError::Fragment => "super-frame is an IP fragment",
            GsoError::ZeroSize => "segment size is 0",
            GsoError::SegmentTooLong => "segment exceeds 65535 bytes",
            GsoError::TooManySegments => "super-frame of too many segments",
        })
    }
}

impl std::error::Error for GsoError {}

/// One segment to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number, from 0.
    pub index: usize,
    /// Its part of the payload; add [`Segmenter::header_len`] for the place within the frame.
    pub payload: Range<usize>,
    /// No segment follows.
    pub last: bool,
}

/// A super-frame whose headers were checked.
#[derive(Clone, Debug)]
pub struct Segmenter<'a> {
    /// Headers of layers 2 to 4.
    headers: &'a [u8],
    l3: usize,
    l4: usize,
    ip4: bool,
    tcp: bool,
    payload_len: usize,
    size: usize,
    /// Pseudo-header sum with a length of 0.
    pseudo: Sum,
}

impl<'a> Segmenter<'a> {
    /// `front` is the frame's first piece, from the Ethernet header (tagged or not) on, and holds all headers;
    /// `frame_len` is the length of the whole frame.
    pub fn new(front: &'a [u8], frame_len: usize, gso: Gso) -> Result<Self, GsoError> {
        let stack = VlanStack::parse(front).ok_or(GsoError::BadHeaders)?;
        let l3 = usize::from(stack.header_len);
        match (stack.ethertype, gso.kind) {
            (EtherType::IPV4, GsoKind::Tcp4 | GsoKind::Udp)
            | (EtherType::IPV6, GsoKind::Tcp6 | GsoKind::Udp) => Self::at(front, l3, frame_len, gso),
            _ => Err(GsoError::BadHeaders),
        }
    }

    /// [`Segmenter::new`] for an IP header at a known place, whatever stands before it.
    pub fn at(front: &'a [u8], l3: usize, frame_len: usize, gso: Gso) -> Result<Self, GsoError> {
        let packet = front.get(l3..).ok_or(GsoError::BadHeaders)?;
        let packet_len = frame_len.checked_sub(l3).ok_or(GsoError::BadHeaders)?;
        let (protocol, ip4, l4, pseudo, said) = match packet.first().map_or(0, |b| b >> 4) {
            4 if gso.kind != GsoKind::Tcp6 => {
                let view = Ip4View::parse_quoted(packet).map_err(|_| GsoError::BadHeaders)?;
                if view.is_fragment() {
                    return Err(GsoError::Fragment);
                }
                let pseudo = pseudo4(view.src(), view.dst(), view.protocol(), 0);
                (view.protocol(), true, view.header().len(), pseudo, usize::from(view.total_len()))
            }
            6 if gso.kind != GsoKind::Tcp4 => {
                let view = Ip6View::parse_quoted(packet).map_err(|_| GsoError::BadHeaders)?;
                let upper = view.upper_layer().map_err(|_| GsoError::BadHeaders)?;
                if upper.fragment.is_some() {
                    return Err(GsoError::Fragment);
                }
                let pseudo = pseudo6(view.src(), view.dst(), upper.protocol, 0);
                let said = if view.payload_len() == 0 { 0 } else { view.total_len() };
                (upper.protocol, false, upper.offset, pseudo, said)
            }
            _ => return Err(GsoError::BadHeaders),
        };
        let l4_bytes = packet.get(l4..).unwrap_or_default();
        let tcp = gso.kind != GsoKind::Udp;
        let l4_len = match (tcp, protocol) {
            (true, IpProtocol::TCP) => {
                TcpView::parse(l4_bytes).map_err(|_| GsoError::BadHeaders)?.header_len()
            }
            (false, IpProtocol::UDP) if l4_bytes.len() >= udp::HEADER_LEN => udp::HEADER_LEN,
            _ => return Err(GsoError::BadHeaders),
        };
        // Length 0 stands for more than 65,535 bytes. Otherwise what is beyond the length is padding.
        let packet_len = if said == 0 { packet_len } else { packet_len.min(said) };
        let payload_len = packet_len.checked_sub(l4 + l4_len).ok_or(GsoError::BadHeaders)?;
        let size = usize::from(gso.size).min(payload_len.max(1));
        if size == 0 {
            return Err(GsoError::ZeroSize);
        }
        if l4 + l4_len + size > usize::from(u16::MAX) {
            return Err(GsoError::SegmentTooLong);
        }
        if payload_len.div_ceil(size) > MAX_SEGMENTS {
            return Err(GsoError::TooManySegments);
        }
        let headers = front.get(..l3 + l4 + l4_len).ok_or(GsoError::BadHeaders)?;
        Ok(Self { headers, l3, l4: l3 + l4, ip4, tcp, payload_len, size, pseudo })
    }

    /// Bytes of layers 2 to 4: where the payload starts in the frame, and what each segment has before its own.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.headers.len()
    }

    /// Bytes of payload in all segments.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Number of segments, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        self.payload_len.div_ceil(self.size).max(1)
    }

    /// The segments in order.
    #[inline]
    pub fn segments(&self) -> Segments {
        Segments { next: 0, count: self.count(), size: self.size, payload_len: self.payload_len }
    }

    /// Writes the headers of `segment`, whose payload has the sum `payload`; returns their length.
    pub fn write_headers(
        &self,
        segment: &Segment,
        payload: Sum,
        out: &mut [u8],
    ) -> Result<usize, BuildError> {
        let len = self.headers.len();
        let Some(out) = out.get_mut(..len) else { return Err(BuildError::NoRoom { needed: len }) };
        out.copy_from_slice(self.headers);
        let (lower, l4) = out.split_at_mut(self.l4);
        let ip = &mut lower[self.l3..];
        let l4_total = l4.len() + segment.payload.len();
        if self.ip4 {
            // Neither sum can wrap: `at` refused segments over 65,535 bytes.
            let total = (ip.len() + l4_total) as u16;
            ip[2..4].copy_from_slice(&total.to_be_bytes());
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(segment.index as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip4::fill_checksum(ip);
        } else {
            let payload_len = (ip.len() - crate::ip6::HEADER_LEN + l4_total) as u16;
            ip[4..6].copy_from_slice(&payload_len.to_be_bytes());
        }
        if self.tcp {
            let seq = u32::from_be_bytes([l4[4], l4[5], l4[6], l4[7]]);
            let seq = seq.wrapping_add(segment.payload.start as u32);
            l4[4..8].copy_from_slice(&seq.to_be_bytes());
            if !segment.last {
                l4[13] &= !(flag::FIN | flag::PSH);
            }
            if segment.index != 0 {
                l4[13] &= !flag::CWR;
            }
        } else {
            l4[4..6].copy_from_slice(&(l4_total as u16).to_be_bytes());
        }
        let field = if self.tcp { tcp::CHECKSUM_OFFSET } else { udp::CHECKSUM_OFFSET };
        l4[field..field + 2].fill(0);
        let mut sum = self.pseudo;
        sum.add_u32(l4_total as u32);
        sum.add_bytes(l4);
        sum.append(payload);
        let check = if self.tcp { sum.checksum() } else { sum.checksum_nonzero() };
        l4[field..field + 2].copy_from_slice(&check.to_be_bytes());
        Ok(len)
    }

    /// [`Segmenter::write_headers`] with the segment's payload in pieces instead of its sum.
    pub fn write_headers_of<'b>(
        &self,
        segment: &Segment,
        payload: impl IntoIterator<Item = &'b [u8]>,
        out: &mut [u8],
    ) -> Result<usize, BuildError> {
        let mut sum = Sum::new();
        for piece in payload {
            sum.add_bytes(piece);
        }
        self.write_headers(segment, sum, out)
    }
}

/// Iterates over segments.
#[derive(Clone, Debug)]
pub struct Segments {
    next: usize,
    count: usize,
    size: usize,
    payload_len: usize,
}

impl Iterator for Segments {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        let index = self.next;
        if index >= self.count {
            return None;
        }
        self.next += 1;
        let start = index * self.size;
        let end = (start + self.size).min(self.payload_len);
        Some(Segment { index, payload: start..end, last: self.next == self.count })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count - self.next, Some(self.count - self.next))
    }
}

impl ExactSizeIterator for Segments {}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
