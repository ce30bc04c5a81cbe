//! TCP headers (RFC 9293), as far as a router looks at them.

use crate::BuildError;
use crate::bytes::{be16, be32, head, put16};
use crate::checksum::{Sum, pseudo4, pseudo6};
use crate::proto::IpProtocol;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;
/// Offset of the checksum within the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Flag bits of byte 13.
#[allow(missing_docs)]
pub mod flag {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;
}

/// Option kinds.
#[allow(missing_docs)]
pub mod option {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const MSS: u8 = 2;
    pub const WINDOW_SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
}

/// Why a segment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// Fewer than 20 bytes.
    TooShort,
    /// Data offset under 20 bytes or beyond the bytes at hand.
    BadDataOffset,
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TcpError::TooShort => "shorter than a TCP header",
            TcpError::BadDataOffset => "bad TCP data offset",
        })
    }
}

impl std::error::Error for TcpError {}

/// A segment.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'a> {
    fixed: &'a [u8; HEADER_LEN],
    segment: &'a [u8],
    header_len: usize,
}

impl<'a> TcpView<'a> {
    /// Checks that the header lies within `segment`; the checksum is left to [`TcpView::verify4`] and
    /// [`TcpView::verify6`].
    #[inline]
    pub fn parse(segment: &'a [u8]) -> Result<Self, TcpError> {
        let Some(fixed) = segment.first_chunk::<HEADER_LEN>() else { return Err(TcpError::TooShort) };
        let header_len = usize::from(fixed[12] >> 4) * 4;
        if header_len < HEADER_LEN || header_len > segment.len() {
            return Err(TcpError::BadDataOffset);
        }
        Ok(Self { fixed, segment, header_len })
    }

    /// Source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        be16(self.fixed, 0)
    }

    /// Destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        be16(self.fixed, 2)
    }

    /// Sequence number of the first payload byte.
    #[inline]
    pub fn seq(&self) -> u32 {
        be32(self.fixed, 4)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn ack(&self) -> u32 {
        be32(self.fixed, 8)
    }

    /// Header length with options, 20 to 60 bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// Flags, see [`flag`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.fixed[13]
    }

    /// Receive window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.fixed, 14)
    }

    /// Checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.fixed, 16)
    }

    /// Urgent pointer.
    #[inline]
    pub fn urgent(&self) -> u16 {
        be16(self.fixed, 18)
    }

    /// The options in order.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options { header: self.segment.get(..self.header_len).unwrap_or_default(), at: HEADER_LEN }
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.segment.get(self.header_len..).unwrap_or_default()
    }

    /// The maximum segment size option with the offset of its value from the start of the header, when it is there
    /// and well formed.
    pub fn mss(&self) -> Option<(usize, u16)> {
        let found = self.options().flatten().find(|o| o.kind == option::MSS)?;
        let value: [u8; 2] = found.data.try_into().ok()?;
        Some((found.offset + 2, u16::from_be_bytes(value)))
    }

    /// Whether the checksum is right.
    pub fn verify4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        let Ok(len) = u16::try_from(self.segment.len()) else { return false };
        let mut sum = pseudo4(src, dst, IpProtocol::TCP, len);
        sum.add_bytes(self.segment);
        sum.is_valid()
    }

    /// Whether the checksum is right.
    pub fn verify6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let mut sum = pseudo6(src, dst, IpProtocol::TCP, self.segment.len() as u32);
        sum.add_bytes(self.segment);
        sum.is_valid()
    }
}

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// Option kind, see [`option`].
    pub kind: u8,
    /// Offset of the kind octet from the start of the header.
    pub offset: usize,
    /// What follows kind and length.
    pub data: &'a [u8],
}

/// An option whose length is under 2 or beyond the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOption;

/// Iterates over options up to end-of-list or the first error. No-operations are skipped.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, BadOption>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let offset = self.at;
            match *self.header.get(offset..)? {
                [] | [option::END, ..] => {
                    self.at = self.header.len();
                    return None;
                }
                [option::NOP, ..] => self.at += 1,
                [kind, len, ref rest @ ..] if len >= 2 && usize::from(len) - 2 <= rest.len() => {
                    self.at += usize::from(len);
                    return Some(Ok(TcpOption { kind, offset, data: &rest[..usize::from(len) - 2] }));
                }
                _ => {
                    self.at = self.header.len();
                    return Some(Err(BadOption));
                }
            }
        }
    }
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpBuilder<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Flags, see [`flag`].
    pub flags: u8,
    /// Receive window.
    pub window: u16,
    /// Options, padded with end-of-list to four bytes; at most 40 bytes.
    pub options: &'a [u8],
}

impl<'a> TcpBuilder<'a> {
    /// A segment with the ACK flag, window 65535 and no options.
    pub const fn new(src_port: u16, dst_port: u16) -> Self {
        Self { src_port, dst_port, seq: 0, ack: 0, flags: flag::ACK, window: 65535, options: &[] }
    }

    /// Writes a segment over IPv4, checksum included; returns its length.
    pub fn emit4(
        &self,
        out: &mut [u8],
        src: Ipv4Addr,
        dst: Ipv4Addr,
        payload: &[u8],
    ) -> Result<usize, BuildError> {
        self.emit(out, payload, |len| pseudo4(src, dst, IpProtocol::TCP, len))
    }

    /// Writes a segment over IPv6, checksum included; returns its length.
    pub fn emit6(
        &self,
        out: &mut [u8],
        src: Ipv6Addr,
        dst: Ipv6Addr,
        payload: &[u8],
    ) -> Result<usize, BuildError> {
        self.emit(out, payload, |len| pseudo6(src, dst, IpProtocol::TCP, len.into()))
    }

    fn emit(&self, out: &mut [u8], payload: &[u8], pseudo: impl Fn(u16) -> Sum) -> Result<usize, BuildError> {
        let header_len = HEADER_LEN + self.options.len().next_multiple_of(4);
        let total = header_len + payload.len();
        let Ok(len) = u16::try_from(total) else { return Err(BuildError::TooLong) };
        if header_len > MAX_HEADER_LEN {
            return Err(BuildError::TooLong);
        }
        let (h, rest) = head::<HEADER_LEN>(out, total)?;
        put16(h, 0, self.src_port);
        put16(h, 2, self.dst_port);
        h[4..8].copy_from_slice(&self.seq.to_be_bytes());
        h[8..12].copy_from_slice(&self.ack.to_be_bytes());
        h[12] = (header_len as u8 / 4) << 4;
        h[13] = self.flags;
        put16(h, 14, self.window);
        put16(h, 16, 0);
        put16(h, 18, 0);
        let (options, body) = rest.split_at_mut(header_len - HEADER_LEN);
        options.fill(0);
        options[..self.options.len()].copy_from_slice(self.options);
        body.copy_from_slice(payload);
        let mut sum = pseudo(len);
        sum.add_bytes(h);
        sum.add_bytes(rest);
        put16(h, 16, sum.checksum());
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    // Scapy: IP(src="192.0.2.1", dst="198.51.100.2")/TCP(sport=1024, dport=80, seq=0x01020304, flags="S",
    //        window=8192, options=[("MSS", 1460), ("NOP", None), ("WScale", 7)])/b"x", from byte 20
    const SYN: [u8; 29] = [
        0x04, 0, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x70, 0x02, 0x20, 0, 0xf7, 0x89, 0, 0, 2, 4, 5, 0xb4, 1, 3,
        3, 7, b'x',
    ];

    #[test]
    fn reads_and_builds() {
        let view = TcpView::parse(&SYN).unwrap();
        assert_eq!((view.src_port(), view.dst_port(), view.seq(), view.ack()), (1024, 80, 0x01020304, 0));
        assert_eq!((view.header_len(), view.flags(), view.window()), (28, flag::SYN, 8192));
        assert_eq!((view.mss(), view.payload()), (Some((22, 1460)), &b"x"[..]));
        assert!(view.verify4(A, B));
        let mut builder = TcpBuilder::new(1024, 80);
        (builder.seq, builder.flags, builder.window) = (0x01020304, flag::SYN, 8192);
        builder.options = &SYN[20..28];
        let mut out = [0; 40];
        assert_eq!(builder.emit4(&mut out, A, B, b"x"), Ok(29));
        assert_eq!(out[..29], SYN);
        assert_eq!(builder.emit4(&mut out[..28], A, B, b"x"), Err(BuildError::NoRoom { needed: 29 }));
        builder.options = &[1; 41];
        assert_eq!(builder.emit4(&mut [0; 100], A, B, b"x"), Err(BuildError::TooLong));
    }

    #[test]
    fn each_check() {
        assert_eq!(TcpView::parse(&SYN[..19]).unwrap_err(), TcpError::TooShort);
        assert_eq!(TcpView::parse(&SYN[..27]).unwrap_err(), TcpError::BadDataOffset);
        let mut bytes = SYN;
        bytes[12] = 0x40;
        assert_eq!(TcpView::parse(&bytes).unwrap_err(), TcpError::BadDataOffset);
        bytes = SYN;
        bytes[21] = 5;
        assert_eq!(TcpView::parse(&bytes).unwrap().mss(), None);
        for len in [0, 1, 9] {
            bytes[21] = len;
            let view = TcpView::parse(&bytes).unwrap();
            assert_eq!(view.options().collect::<Vec<_>>(), [Err(BadOption)]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..6, Just(0x80)], 0..80)) {
            if let Ok(view) = TcpView::parse(&data) {
                prop_assert!(view.options().count() <= 40);
                if let Some((at, mss)) = view.mss() {
                    prop_assert_eq!(&data[at..at + 2], &mss.to_be_bytes()[..]);
                }
                prop_assert_eq!(view.payload().len() + view.header_len(), data.len());
            }
        }

        #[test]
        fn round_trip6(src: u128, dst: u128, payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut out = [0; 100];
            let len = TcpBuilder::new(7, 9).emit6(&mut out, src.into(), dst.into(), &payload).unwrap();
            let view = TcpView::parse(&out[..len]).unwrap();
            prop_assert!(view.verify6(src.into(), dst.into()));
            prop_assert_eq!(view.payload(), &payload[..]);
        }
    }
}
