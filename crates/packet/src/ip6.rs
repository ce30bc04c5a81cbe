//! IPv6 (RFC 8200): header checks, fields, extension headers, builder.

pub mod addr;
pub mod ext;
pub mod frag;

use crate::BuildError;
use crate::bytes::{array, be16, be32, head, put16};
use crate::proto::IpProtocol;
use std::fmt;
use std::net::Ipv6Addr;
use std::ops::Deref;

pub use ext::{ExtError, FragmentInfo, Ip6Option, Options, UnknownAction, UpperLayer};

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The least MTU of a link that carries IPv6 (RFC 8200, 5).
pub const MIN_MTU: u16 = 1280;

/// Which check a packet failed; they run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip6Error {
    /// Fewer than 40 bytes.
    TooShort,
    /// Version is not 6.
    BadVersion,
    /// Payload length beyond the packet.
    BadPayloadLength,
}

impl fmt::Display for Ip6Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ip6Error::TooShort => "shorter than an IPv6 header",
            Ip6Error::BadVersion => "IP version is not 6",
            Ip6Error::BadPayloadLength => "IPv6 payload length beyond the packet",
        })
    }
}

impl std::error::Error for Ip6Error {}

/// Runs the header checks. `first` holds at least the fixed header; `packet_len` is the length of the packet, which
/// may go on in further buffers.
#[inline]
pub fn check(first: &[u8], packet_len: usize) -> Result<&[u8; HEADER_LEN], Ip6Error> {
    let Some(h) = first.first_chunk::<HEADER_LEN>() else { return Err(Ip6Error::TooShort) };
    if h[0] >> 4 != 6 {
        return Err(Ip6Error::BadVersion);
    }
    if HEADER_LEN + usize::from(be16(h, 4)) > packet_len {
        return Err(Ip6Error::BadPayloadLength);
    }
    Ok(h)
}

/// The fixed 40 bytes of a header, with accessors that trust nothing and cannot fail.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Ip6Header<'a>(pub &'a [u8; HEADER_LEN]);

impl Ip6Header<'_> {
    /// Traffic class: DSCP and ECN.
    #[inline]
    pub fn traffic_class(self) -> u8 {
        (be16(self.0, 0) >> 4) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(self) -> u32 {
        be32(self.0, 0) & 0x000f_ffff
    }

    /// Bytes after the fixed header.
    #[inline]
    pub fn payload_len(self) -> u16 {
        be16(self.0, 4)
    }

    /// Bytes of the whole packet.
    #[inline]
    pub fn total_len(self) -> usize {
        HEADER_LEN + usize::from(self.payload_len())
    }

    /// What follows the fixed header: an extension header or the upper layer.
    #[inline]
    pub fn next_header(self) -> IpProtocol {
        IpProtocol(self.0[6])
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(self) -> u8 {
        self.0[7]
    }

    /// Source address.
    #[inline]
    pub fn src(self) -> Ipv6Addr {
        Ipv6Addr::from(array::<HEADER_LEN, 16>(self.0, 8))
    }

    /// Destination address.
    #[inline]
    pub fn dst(self) -> Ipv6Addr {
        Ipv6Addr::from(array::<HEADER_LEN, 16>(self.0, 24))
    }

    /// Source address as a number.
    #[inline]
    pub fn src_u128(self) -> u128 {
        u128::from_be_bytes(array(self.0, 8))
    }

    /// Destination address as a number.
    #[inline]
    pub fn dst_u128(self) -> u128 {
        u128::from_be_bytes(array(self.0, 24))
    }

    /// Destination address as two numbers, the network half first.
    #[inline]
    pub fn dst_halves(self) -> (u64, u64) {
        (u64::from_be_bytes(array(self.0, 24)), u64::from_be_bytes(array(self.0, 32)))
    }
}

/// A checked packet. Dereferences to [`Ip6Header`].
#[derive(Clone, Copy, Debug)]
pub struct Ip6View<'a> {
    fixed: Ip6Header<'a>,
    packet: &'a [u8],
}

impl<'a> Deref for Ip6View<'a> {
    type Target = Ip6Header<'a>;

    #[inline]
    fn deref(&self) -> &Ip6Header<'a> {
        &self.fixed
    }
}

impl<'a> Ip6View<'a> {
    /// Checks a packet that lies in one piece.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, Ip6Error> {
        Self::parse_chained(packet, packet.len())
    }

    /// Checks a packet of `packet_len` bytes of which `first` holds the beginning.
    #[inline]
    pub fn parse_chained(first: &'a [u8], packet_len: usize) -> Result<Self, Ip6Error> {
        Ok(Self::build(check(first, packet_len)?, first))
    }

    /// Reads the packet quoted in an ICMPv6 error, which may be cut: only the version is checked.
    #[inline]
    pub fn parse_quoted(quote: &'a [u8]) -> Result<Self, Ip6Error> {
        Ok(Self::build(check(quote, usize::MAX)?, quote))
    }

    #[inline]
    fn build(fixed: &'a [u8; HEADER_LEN], first: &'a [u8]) -> Self {
        let fixed = Ip6Header(fixed);
        Self { fixed, packet: first.get(..fixed.total_len()).unwrap_or(first) }
    }

    /// The fixed header.
    #[inline]
    pub fn fixed(&self) -> Ip6Header<'a> {
        self.fixed
    }

    /// The packet as far as it was at hand, without padding.
    #[inline]
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// What follows the fixed header, as far as it was at hand.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.packet.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Walks the extension headers to the upper layer.
    #[inline]
    pub fn upper_layer(&self) -> Result<UpperLayer, ExtError> {
        ext::walk(self.packet)
    }
}

/// Takes one off the hop limit; returns the new one. A hop limit of 0 is left as it is.
#[inline]
pub fn decrement_hop_limit(h: &mut [u8; HEADER_LEN]) -> u8 {
    h[7] = h[7].saturating_sub(1);
    h[7]
}

/// Changes the traffic class.
#[inline]
pub fn set_traffic_class(h: &mut [u8; HEADER_LEN], class: u8) {
    let word = be16(h, 0) & 0xf00f | u16::from(class) << 4;
    put16(h, 0, word);
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip6Builder {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; only the low 20 bits are used.
    pub flow_label: u32,
    /// What follows the fixed header.
    pub next_header: IpProtocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
}

impl Ip6Builder {
    /// Hop limit 64, traffic class and flow label 0.
    pub const fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: IpProtocol) -> Self {
        Self { traffic_class: 0, flow_label: 0, next_header, hop_limit: 64, src, dst }
    }

    /// Writes the header before `payload_len` bytes (extension headers included); returns its length, 40.
    #[inline]
    pub fn emit(&self, out: &mut [u8], payload_len: usize) -> Result<usize, BuildError> {
        let Ok(payload) = u16::try_from(payload_len) else { return Err(BuildError::TooLong) };
        let (h, _) = head::<HEADER_LEN>(out, HEADER_LEN)?;
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        h[..4].copy_from_slice(&word.to_be_bytes());
        put16(h, 4, payload);
        h[6] = self.next_header.0;
        h[7] = self.hop_limit;
        h[8..24].copy_from_slice(&self.src.octets());
        h[24..40].copy_from_slice(&self.dst.octets());
        Ok(HEADER_LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Scapy: IPv6(src="2001:db8::1", dst="2001:db8::2", tc=0xb8, fl=0x12345, hlim=64, nh=17)/(b"\0"*8)
    pub(crate) const PACKET: [u8; 48] = [
        0x6b, 0x81, 0x23, 0x45, 0, 8, 17, 64, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20,
        1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn reads_and_builds() {
        let view = Ip6View::parse(&PACKET).unwrap();
        assert_eq!((view.traffic_class(), view.flow_label(), view.payload_len()), (0xb8, 0x12345, 8));
        assert_eq!((view.next_header(), view.hop_limit()), (IpProtocol::UDP, 64));
        assert_eq!(
            (view.src().to_string(), view.dst().to_string()),
            ("2001:db8::1".into(), "2001:db8::2".into())
        );
        assert_eq!((view.src_u128(), view.dst_u128()), (view.src().to_bits(), view.dst().to_bits()));
        assert_eq!(view.dst_halves(), (0x2001_0db8_0000_0000, 2));
        assert_eq!(view.payload(), [0; 8]);
        let mut builder = Ip6Builder::new(view.src(), view.dst(), IpProtocol::UDP);
        builder.traffic_class = 0xb8;
        builder.flow_label = 0xfff1_2345;
        let mut out = [0xee; 40];
        assert_eq!(builder.emit(&mut out, 8), Ok(40));
        assert_eq!(out, PACKET[..40]);
        assert_eq!(builder.emit(&mut out[..39], 8), Err(BuildError::NoRoom { needed: 40 }));
        assert_eq!(builder.emit(&mut out, 65536), Err(BuildError::TooLong));
    }

    #[test]
    fn each_check() {
        assert_eq!(Ip6View::parse(&PACKET[..39]).unwrap_err(), Ip6Error::TooShort);
        let mut bytes = PACKET;
        bytes[0] = 0x4b;
        assert_eq!(Ip6View::parse(&bytes).unwrap_err(), Ip6Error::BadVersion);
        assert_eq!(Ip6View::parse(&PACKET[..47]).unwrap_err(), Ip6Error::BadPayloadLength);
        assert_eq!(Ip6View::parse_chained(&PACKET[..44], 48).unwrap().payload().len(), 4);
        assert_eq!(Ip6View::parse_quoted(&PACKET[..44]).unwrap().payload().len(), 4);
        assert_eq!(Ip6View::parse(&[&PACKET[..], &[1, 2]].concat()).unwrap().payload().len(), 8);
    }

    #[test]
    fn changes() {
        let mut h: [u8; 40] = *PACKET.first_chunk().unwrap();
        assert_eq!(decrement_hop_limit(&mut h), 63);
        set_traffic_class(&mut h, 0x2e);
        let view = Ip6Header(&h);
        assert_eq!((view.hop_limit(), view.traffic_class(), view.flow_label()), (63, 0x2e, 0x12345));
        h[7] = 0;
        assert_eq!(decrement_hop_limit(&mut h), 0);
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..120), len in 0usize..200) {
            let _ = Ip6View::parse(&data).map(|v| v.upper_layer());
            let _ = Ip6View::parse_chained(&data, len).map(|v| v.payload().len());
            let _ = Ip6View::parse_quoted(&data).map(|v| v.upper_layer());
        }
    }
}
