//! UDP (RFC 768).

use crate::BuildError;
use crate::bytes::{be16, head, put16};
use crate::checksum::{Sum, pseudo4, pseudo6};
use crate::proto::IpProtocol;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum within the header.
pub const CHECKSUM_OFFSET: usize = 6;

/// Why a datagram is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpError {
    /// Fewer than 8 bytes.
    TooShort,
    /// The length field is under 8 or beyond the IP payload.
    BadLength,
}

impl fmt::Display for UdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UdpError::TooShort => "shorter than a UDP header",
            UdpError::BadLength => "bad UDP length",
        })
    }
}

impl std::error::Error for UdpError {}

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a> {
    header: &'a [u8; HEADER_LEN],
    datagram: &'a [u8],
}

impl<'a> UdpView<'a> {
    /// Checks the lengths of a datagram that lies in one piece; the checksum is left to [`UdpView::verify4`] and
    /// [`UdpView::verify6`].
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, UdpError> {
        let Some(header) = payload.first_chunk::<HEADER_LEN>() else { return Err(UdpError::TooShort) };
        let len = usize::from(be16(header, 4));
        match payload.get(..len) {
            Some(datagram) if len >= HEADER_LEN => Ok(Self { header, datagram }),
            _ => Err(UdpError::BadLength),
        }
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.header, 0)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Length of header and payload.
    #[inline]
    pub fn len(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Whether there is no payload.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.datagram.len() == HEADER_LEN
    }

    /// Checksum as it stands, 0 for none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.header, 6)
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.datagram.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Whether the checksum is right or absent.
    pub fn verify4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let mut sum = pseudo4(src, dst, IpProtocol::UDP, self.len());
        sum.add_bytes(self.datagram);
        self.checksum() == 0 || sum.is_valid()
    }

    /// Whether the checksum is right; over IPv6 it must be there (RFC 8200, 8.1).
    pub fn verify6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let mut sum = pseudo6(src, dst, IpProtocol::UDP, self.len().into());
        sum.add_bytes(self.datagram);
        self.checksum() != 0 && sum.is_valid()
    }
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpBuilder {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl UdpBuilder {
    /// Writes a datagram over IPv4, checksum included; returns its length.
    pub fn emit4(
        &self,
        out: &mut [u8],
        src: Ipv4Addr,
        dst: Ipv4Addr,
        payload: &[u8],
    ) -> Result<usize, BuildError> {
        self.emit(out, payload, |len| pseudo4(src, dst, IpProtocol::UDP, len))
    }

    /// Writes a datagram over IPv6, checksum included; returns its length.
    pub fn emit6(
        &self,
        out: &mut [u8],
        src: Ipv6Addr,
        dst: Ipv6Addr,
        payload: &[u8],
    ) -> Result<usize, BuildError> {
        self.emit(out, payload, |len| pseudo6(src, dst, IpProtocol::UDP, len.into()))
    }

    fn emit(&self, out: &mut [u8], payload: &[u8], pseudo: impl Fn(u16) -> Sum) -> Result<usize, BuildError> {
        let total = HEADER_LEN + payload.len();
        let Ok(len) = u16::try_from(total) else { return Err(BuildError::TooLong) };
        let (h, body) = head::<HEADER_LEN>(out, total)?;
        body.copy_from_slice(payload);
        put16(h, 0, self.src_port);
        put16(h, 2, self.dst_port);
        put16(h, 4, len);
        put16(h, 6, 0);
        let mut sum = pseudo(len);
        sum.add_bytes(h);
        sum.add_bytes(payload);
        put16(h, 6, sum.checksum_nonzero());
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    // Scapy: IP(src="192.0.2.1", dst="198.51.100.2")/UDP(sport=12345, dport=53)/b"hello", from byte 20
    const DATAGRAM: [u8; 13] = [0x30, 0x39, 0, 53, 0, 13, 0x9f, 0x5c, b'h', b'e', b'l', b'l', b'o'];

    #[test]
    fn reads_and_builds() {
        let view = UdpView::parse(&DATAGRAM).unwrap();
        assert_eq!(
            (view.src_port(), view.dst_port(), view.len(), view.payload()),
            (12345, 53, 13, &b"hello"[..])
        );
        assert!(view.verify4(A, B) && !view.verify4(A, A) && !view.is_empty());
        let mut out = [0; 13];
        let builder = UdpBuilder { src_port: 12345, dst_port: 53 };
        assert_eq!(builder.emit4(&mut out, A, B, b"hello"), Ok(13));
        assert_eq!(out, DATAGRAM);
        assert_eq!(builder.emit4(&mut out[..12], A, B, b"hello"), Err(BuildError::NoRoom { needed: 13 }));
        assert_eq!(builder.emit4(&mut [0; 70000], A, B, &[0; 65528]), Err(BuildError::TooLong));
    }

    #[test]
    fn checksum_zero_means_none_only_over_ip4() {
        let mut bytes = DATAGRAM;
        bytes[6..8].fill(0);
        let view = UdpView::parse(&bytes).unwrap();
        assert!(view.verify4(A, B));
        assert!(!view.verify6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
    }

    #[test]
    fn computed_zero_is_sent_as_ones() {
        // A payload that makes the sum 0xffff: the complement of the rest.
        let builder = UdpBuilder { src_port: 1, dst_port: 2 };
        let mut out = [0; 10];
        builder.emit4(&mut out, A, B, &[0, 0]).unwrap();
        let fill = [out[6], out[7]];
        builder.emit4(&mut out, A, B, &fill).unwrap();
        assert_eq!(out[6..8], [0xff, 0xff]);
        assert!(UdpView::parse(&out).unwrap().verify4(A, B));
    }

    #[test]
    fn lengths() {
        assert_eq!(UdpView::parse(&DATAGRAM[..7]).unwrap_err(), UdpError::TooShort);
        assert_eq!(UdpView::parse(&DATAGRAM[..12]).unwrap_err(), UdpError::BadLength);
        let mut bytes = DATAGRAM;
        bytes[5] = 7;
        assert_eq!(UdpView::parse(&bytes).unwrap_err(), UdpError::BadLength);
        bytes[5] = 8;
        assert!(UdpView::parse(&bytes).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0)], 0..40)) {
            if let Ok(view) = UdpView::parse(&data) {
                view.verify4(A, B);
                prop_assert_eq!(view.payload().len() + 8, usize::from(view.len()));
            }
        }

        #[test]
        fn round_trip6(src: u128, dst: u128, payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut out = [0; 80];
            let len = UdpBuilder { src_port: 7, dst_port: 9 }
                .emit6(&mut out, src.into(), dst.into(), &payload).unwrap();
            let view = UdpView::parse(&out[..len]).unwrap();
            prop_assert!(view.verify6(src.into(), dst.into()));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
