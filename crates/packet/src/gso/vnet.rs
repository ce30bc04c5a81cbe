//! The virtio-net header (virtio 1.2, 5.1.6; linux/virtio_net.h) and the completion of partial checksums.

use crate::checksum::Sum;
use std::fmt;

/// The header as Linux gives and takes it on TAP devices and packet sockets: 10 bytes, numbers in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// [`VnetHdr::NEEDS_CSUM`], [`VnetHdr::DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` values, perhaps with [`VnetHdr::GSO_ECN`].
    pub gso_type: u8,
    /// Bytes of headers; a hint only.
    pub hdr_len: u16,
    /// Payload bytes a segment.
    pub gso_size: u16,
    /// Where to start summing.
    pub csum_start: u16,
    /// Where to store the checksum, counted from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHdr {
    /// Bytes of the header.
    pub const LEN: usize = 10;
    /// Flag: the checksum field holds the pseudo-header sum, the rest is to be added.
    pub const NEEDS_CSUM: u8 = 1;
    /// Flag: the checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    /// Not a super-frame.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// A UDP datagram to be cut into IP fragments (UFO); Linux no longer makes them.
    pub const GSO_UDP: u8 = 3;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// Several UDP datagrams in one (USO).
    pub const GSO_UDP_L4: u8 = 5;
    /// Added to a TCP type: the CWR flag is set.
    pub const GSO_ECN: u8 = 0x80;

    /// Reads the bytes; any are accepted until [`VnetHdr::validate`].
    #[inline]
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        Self {
            flags: b[0],
            gso_type: b[1],
            hdr_len: u16::from_ne_bytes([b[2], b[3]]),
            gso_size: u16::from_ne_bytes([b[4], b[5]]),
            csum_start: u16::from_ne_bytes([b[6], b[7]]),
            csum_offset: u16::from_ne_bytes([b[8], b[9]]),
        }
    }

    /// The header as bytes.
    #[inline]
    pub const fn to_bytes(self) -> [u8; Self::LEN] {
        let [h, g] = [self.hdr_len.to_ne_bytes(), self.gso_size.to_ne_bytes()];
        let [s, o] = [self.csum_start.to_ne_bytes(), self.csum_offset.to_ne_bytes()];
        [self.flags, self.gso_type, h[0], h[1], g[0], g[1], s[0], s[1], o[0], o[1]]
    }

    /// Whether the frame is whole and its checksums stand: nothing is asked for.
    #[inline]
    pub const fn is_plain(&self) -> bool {
        self.flags & Self::NEEDS_CSUM == 0 && self.gso_type == Self::GSO_NONE
    }

    /// The header of the same frame after its front grew by `by` bytes (a tag pushed), or shrank when negative.
    /// `None` when a place would leave the frame.
    pub fn shifted(mut self, by: i16) -> Option<Self> {
        if self.flags & Self::NEEDS_CSUM != 0 {
            self.csum_start = self.csum_start.checked_add_signed(by)?;
        }
        if self.hdr_len != 0 {
            self.hdr_len = self.hdr_len.checked_add_signed(by)?;
        }
        Some(self)
    }

    /// What is asked for, checked against a frame of `frame_len` bytes.
    #[inline]
    pub fn validate(&self, frame_len: usize) -> Result<Offload, VnetError> {
        if self.is_plain() {
            return Ok(Offload { checksum: None, gso: None });
        }
        let mut offload = Offload { checksum: None, gso: None };
        if self.flags & Self::NEEDS_CSUM != 0 {
            let partial = PartialChecksum { start: self.csum_start.into(), offset: self.csum_offset.into() };
            if partial.start + partial.offset + 2 > frame_len {
                return Err(VnetError::ChecksumBeyondFrame);
            }
            offload.checksum = Some(partial);
        }
        let kind = match self.gso_type & !Self::GSO_ECN {
            Self::GSO_NONE if self.gso_type == 0 => return Ok(offload),
            Self::GSO_TCPV4 => GsoKind::Tcp4,
            Self::GSO_TCPV6 => GsoKind::Tcp6,
            Self::GSO_UDP_L4 if self.gso_type & Self::GSO_ECN == 0 => GsoKind::Udp,
            _ => return Err(VnetError::UnsupportedGso(self.gso_type)),
        };
        if self.gso_size == 0 {
            return Err(VnetError::ZeroGsoSize);
        }
        offload.gso = Some(Gso { kind, size: self.gso_size });
        Ok(offload)
    }
}

/// What a valid header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// A checksum to complete. Not needed for frames that are segmented: that makes all checksums anew.
    pub checksum: Option<PartialChecksum>,
    /// A super-frame to segment.
    pub gso: Option<Gso>,
}

/// A checksum whose field holds the pseudo-header sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where to start summing, from the start of the frame.
    pub start: usize,
    /// Where to store, from `start`.
    pub offset: usize,
}

/// How a super-frame is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// What it carries.
    pub kind: GsoKind,
    /// Payload bytes a segment, not 0.
    pub size: u16,
}

/// What a super-frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over either.
    Udp,
}

/// Why a header is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VnetError {
    /// The checksum field is not within the frame, or not within its first buffer.
    ChecksumBeyondFrame,
    /// A kind of segmentation that is not known.
    UnsupportedGso(u8),
    /// A super-frame with segments of no bytes.
    ZeroGsoSize,
}

impl fmt::Display for VnetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VnetError::ChecksumBeyondFrame => f.write_str("virtio-net checksum place beyond the frame"),
            VnetError::UnsupportedGso(kind) => {
                write!(f, "virtio-net segmentation type {kind:#04x} not supported")
            }
            VnetError::ZeroGsoSize => f.write_str("virtio-net segment size is 0"),
        }
    }
}

impl std::error::Error for VnetError {}

/// Completes a partial checksum. `first` is the frame's first piece, which must hold the checksum field; `rest` are
/// the other pieces in order, none when the frame lies in one.
pub fn complete_checksum<'a>(
    first: &mut [u8],
    rest: impl IntoIterator<Item = &'a [u8]>,
    partial: PartialChecksum,
) -> Result<(), VnetError> {
    let Some(from_start) = first.get_mut(partial.start..) else { return Err(VnetError::ChecksumBeyondFrame) };
    let mut sum = Sum::of(from_start);
    let field = from_start.get_mut(partial.offset..).and_then(|f| f.first_chunk_mut::<2>());
    let Some(field) = field else { return Err(VnetError::ChecksumBeyondFrame) };
    for piece in rest {
        sum.add_bytes(piece);
    }
    // 0xffff for 0 is needed by UDP and does no harm to the others.
    *field = sum.checksum_nonzero().to_be_bytes();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{pseudo4, pseudo6};
    use crate::proto::IpProtocol;
    use crate::tcp::{TcpBuilder, TcpView};
    use crate::udp::{UdpBuilder, UdpView};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn header_round_trip() {
        let bytes = [1, 0x81, 66, 0, 0xa8, 5, 34, 0, 16, 0];
        let h = VnetHdr::parse(&bytes);
        assert_eq!(h.to_bytes(), bytes);
        if cfg!(target_endian = "little") {
            assert_eq!((h.hdr_len, h.gso_size, h.csum_start, h.csum_offset), (66, 1448, 34, 16));
        }
    }

    #[test]
    fn validation() {
        let h = VnetHdr { flags: 1, csum_start: 34, csum_offset: 16, ..VnetHdr::default() };
        let partial = Some(PartialChecksum { start: 34, offset: 16 });
        assert_eq!(h.validate(52), Ok(Offload { checksum: partial, gso: None }));
        assert_eq!(h.validate(51), Err(VnetError::ChecksumBeyondFrame));
        let far = VnetHdr { csum_start: 65535, csum_offset: 65535, ..h };
        assert_eq!(far.validate(1000), Err(VnetError::ChecksumBeyondFrame));
        let gso = |gso_type, gso_size| VnetHdr { gso_type, gso_size, ..h }.validate(100).map(|o| o.gso);
        assert_eq!(gso(1, 100), Ok(Some(Gso { kind: GsoKind::Tcp4, size: 100 })));
        assert_eq!(gso(0x84, 100), Ok(Some(Gso { kind: GsoKind::Tcp6, size: 100 })));
        assert_eq!(gso(5, 7), Ok(Some(Gso { kind: GsoKind::Udp, size: 7 })));
        assert_eq!(gso(1, 0), Err(VnetError::ZeroGsoSize));
        for unknown in [2, 3, 6, 0x40, 0x80, 0x85] {
            assert_eq!(gso(unknown, 9), Err(VnetError::UnsupportedGso(unknown)));
        }
        // The places are nobody's business while the flag is clear.
        assert_eq!(VnetHdr { flags: 2, ..far }.validate(0), Ok(Offload { checksum: None, gso: None }));
        assert!(VnetHdr { flags: 2, ..far }.is_plain());
    }

    #[test]
    fn shifting() {
        let h = VnetHdr { flags: 1, csum_start: 34, hdr_len: 54, ..VnetHdr::default() };
        assert_eq!(h.shifted(4).map(|h| (h.csum_start, h.hdr_len)), Some((38, 58)));
        assert_eq!(h.shifted(-35), None);
        assert_eq!(VnetHdr::default().shifted(-4), Some(VnetHdr::default()));
    }

    proptest! {
        #[test]
        fn completion_equals_the_builder(
            payload in proptest::collection::vec(any::<u8>(), 0..300), pad in 0usize..40,
            cuts in proptest::collection::vec(0usize..300, 3), udp: bool,
        ) {
            let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            let (a6, b6) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(7));
            let mut l4 = vec![0; 400];
            let (len, offset, pseudo) = if udp {
                let len = UdpBuilder { src_port: 1, dst_port: 2 }.emit4(&mut l4, a, b, &payload).unwrap();
                (len, 6, pseudo4(a, b, IpProtocol::UDP, len as u16))
            } else {
                let len = TcpBuilder::new(1, 2).emit6(&mut l4, a6, b6, &payload).unwrap();
                (len, 16, pseudo6(a6, b6, IpProtocol::TCP, len as u32))
            };
            l4[offset..offset + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
            let mut frame = vec![0xee; pad];
            frame.extend_from_slice(&l4[..len]);
            let mut cuts: Vec<usize> = cuts.iter().map(|c| (c + pad + 18).min(frame.len())).collect();
            cuts.sort_unstable();
            let (first, rest) = frame.split_at_mut(cuts[0]);
            let at = cuts[0];
            let pieces = [&rest[..cuts[1] - at], &rest[cuts[1] - at..cuts[2] - at], &rest[cuts[2] - at..]];
            complete_checksum(first, pieces, PartialChecksum { start: pad, offset }).unwrap();
            if udp {
                prop_assert!(UdpView::parse(&frame[pad..]).unwrap().verify4(a, b));
            } else {
                prop_assert!(TcpView::parse(&frame[pad..]).unwrap().verify6(a6, b6));
            }
        }

        #[test]
        fn any_bytes(
            bytes: [u8; 10], mut frame in proptest::collection::vec(any::<u8>(), 0..100), cut in 0usize..100, by: i16,
        ) {
            let h = VnetHdr::parse(&bytes);
            h.shifted(by);
            if let Ok(Offload { checksum: Some(partial), .. }) = h.validate(frame.len()) {
                let cut = cut.min(frame.len());
                let (first, rest) = frame.split_at_mut(cut);
                let fits = partial.start + partial.offset + 2 <= cut;
                prop_assert_eq!(complete_checksum(first, [&*rest], partial).is_ok(), fits);
            }
            let _ = complete_checksum(&mut frame, [], PartialChecksum { start: cut, offset: usize::from(bytes[0]) });
        }
    }
}
