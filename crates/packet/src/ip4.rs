//! IPv4 (RFC 791): header checks of RFC 1812, 5.2.2, fields, in-place changes of forwarding, builder.

pub mod addr;
pub mod options;

use crate::BuildError;
use crate::bytes::{array, be16, be32, put16};
use crate::checksum;
use crate::proto::IpProtocol;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Deref;

pub use options::{BadOption, Ip4Option, OptionKind, Options};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;
/// The least MTU of a link that carries IPv4 (RFC 791, 3.2).
pub const MIN_MTU: u16 = 68;

/// Which check of RFC 1812, 5.2.2 a packet failed; they run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip4Error {
    /// Fewer than 20 bytes (check 1).
    TooShort,
    /// Version is not 4 (check 3).
    BadVersion,
    /// Header length under 20 bytes, or beyond the bytes at hand (check 4).
    BadHeaderLength,
    /// Total length under the header length (check 5) or beyond the packet (check 1).
    BadTotalLength,
    /// Header checksum wrong (check 2).
    BadChecksum,
}

impl fmt::Display for Ip4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ip4Error::TooShort => "shorter than an IPv4 header",
            Ip4Error::BadVersion => "IP version is not 4",
            Ip4Error::BadHeaderLength => "bad IPv4 header length",
            Ip4Error::BadTotalLength => "bad IPv4 total length",
            Ip4Error::BadChecksum => "bad IPv4 header checksum",
        })
    }
}

impl std::error::Error for Ip4Error {}

/// Runs the header checks. `first` holds at least the whole header; `packet_len` is the length of the packet, which
/// may go on in further buffers. Returns the fixed header; its lengths may be trusted.
#[inline]
pub fn check(first: &[u8], packet_len: usize) -> Result<&[u8; HEADER_LEN], Ip4Error> {
    let Some(h) = first.first_chunk::<HEADER_LEN>() else { return Err(Ip4Error::TooShort) };
    let total = usize::from(be16(h, 2));
    // One jump for the packets that are usual and right; the reason is looked for elsewhere.
    let good = (h[0] == 0x45) & (total >= HEADER_LEN) & (total <= packet_len) & checksum::is_valid20(h);
    if good { Ok(h) } else { check_slow(h, first, packet_len) }
}

#[cold]
fn check_slow<'a>(
    h: &'a [u8; HEADER_LEN],
    first: &'a [u8],
    packet_len: usize,
) -> Result<&'a [u8; HEADER_LEN], Ip4Error> {
    let header = whole_header(h, first)?;
    let total = usize::from(be16(h, 2));
    if total < header.len() || total > packet_len {
        return Err(Ip4Error::BadTotalLength);
    }
    // Without options it has a sum of its own, far shorter than that of any bytes.
    let good = if header.len() == HEADER_LEN { checksum::is_valid20(h) } else { checksum::is_valid(header) };
    if good { Ok(h) } else { Err(Ip4Error::BadChecksum) }
}

/// Version and header length.
#[inline]
fn whole_header<'a>(h: &[u8; HEADER_LEN], first: &'a [u8]) -> Result<&'a [u8], Ip4Error> {
    if h[0] >> 4 != 4 {
        return Err(Ip4Error::BadVersion);
    }
    let len = usize::from(h[0] & 15) * 4;
    if len < HEADER_LEN {
        return Err(Ip4Error::BadHeaderLength);
    }
    first.get(..len).ok_or(Ip4Error::BadHeaderLength)
}

/// The fixed 20 bytes of a header, with accessors that trust nothing and cannot fail.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Ip4Header<'a>(pub &'a [u8; HEADER_LEN]);

impl<'a> Ip4Header<'a> {
    /// Header length in bytes as the header says, 0 to 60.
    #[inline]
    pub fn header_len(self) -> usize {
        usize::from(self.0[0] & 15) * 4
    }

    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(self) -> u8 {
        self.0[1]
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.0[1] >> 2
    }

    /// Header and payload in bytes.
    #[inline]
    pub fn total_len(self) -> u16 {
        be16(self.0, 2)
    }

    /// Identification, the same in all fragments of a packet.
    #[inline]
    pub fn id(self) -> u16 {
        be16(self.0, 4)
    }

    /// The flags and fragment offset field as it stands.
    #[inline]
    pub fn flags_and_offset(self) -> u16 {
        be16(self.0, 6)
    }

    /// The packet may not be fragmented.
    #[inline]
    pub fn dont_fragment(self) -> bool {
        self.0[6] & 0x40 != 0
    }

    /// Further fragments follow.
    #[inline]
    pub fn more_fragments(self) -> bool {
        self.0[6] & 0x20 != 0
    }

    /// Place of this fragment's payload in the original payload, in bytes.
    #[inline]
    pub fn fragment_offset(self) -> usize {
        usize::from(self.flags_and_offset() & 0x1fff) * 8
    }

    /// Part of a larger packet.
    #[inline]
    pub fn is_fragment(self) -> bool {
        self.flags_and_offset() & 0x3fff != 0
    }

    /// Whole, or the fragment that holds the upper-layer header.
    #[inline]
    pub fn is_first(self) -> bool {
        self.flags_and_offset() & 0x1fff == 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(self) -> u8 {
        self.0[8]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(self) -> IpProtocol {
        IpProtocol(self.0[9])
    }

    /// Header checksum as it stands.
    #[inline]
    pub fn checksum(self) -> u16 {
        be16(self.0, 10)
    }

    /// Source address.
    #[inline]
    pub fn src(self) -> Ipv4Addr {
        Ipv4Addr::from(array::<HEADER_LEN, 4>(self.0, 12))
    }

    /// Destination address.
    #[inline]
    pub fn dst(self) -> Ipv4Addr {
        Ipv4Addr::from(array::<HEADER_LEN, 4>(self.0, 16))
    }

    /// Source address as a number.
    #[inline]
    pub fn src_u32(self) -> u32 {
        be32(self.0, 12)
    }

    /// Destination address as a number.
    #[inline]
    pub fn dst_u32(self) -> u32 {
        be32(self.0, 16)
    }
}

/// A checked packet. Dereferences to [`Ip4Header`].
#[derive(Clone, Copy, Debug)]
pub struct Ip4View<'a> {
    fixed: Ip4Header<'a>,
    header: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Deref for Ip4View<'a> {
    type Target = Ip4Header<'a>;

    #[inline]
    fn deref(&self) -> &Ip4Header<'a> {
        &self.fixed
    }
}

impl<'a> Ip4View<'a> {
    /// Checks a packet that lies in one piece.
    #[inline]
    pub fn parse(packet: &'a [u8]) -> Result<Self, Ip4Error> {
        Self::parse_chained(packet, packet.len())
    }

    /// Checks a packet of `packet_len` bytes of which `first` holds the beginning.
    #[inline]
    pub fn parse_chained(first: &'a [u8], packet_len: usize) -> Result<Self, Ip4Error> {
        let fixed = check(first, packet_len)?;
        let header = whole_header(fixed, first)?;
        Ok(Self::build(fixed, header, first))
    }

    /// Reads the packet quoted in an ICMP error: it is cut, and its TTL and checksum may have been changed on its
    /// way, so only version and header length are checked.
    #[inline]
    pub fn parse_quoted(quote: &'a [u8]) -> Result<Self, Ip4Error> {
        let Some(fixed) = quote.first_chunk() else { return Err(Ip4Error::TooShort) };
        let header = whole_header(fixed, quote)?;
        Ok(Self::build(fixed, header, quote))
    }

    #[inline]
    fn build(fixed: &'a [u8; HEADER_LEN], header: &'a [u8], first: &'a [u8]) -> Self {
        let end = usize::from(be16(fixed, 2)).min(first.len());
        Self { fixed: Ip4Header(fixed), header, payload: first.get(header.len()..end).unwrap_or_default() }
    }

    /// The fixed header.
    #[inline]
    pub fn fixed(&self) -> Ip4Header<'a> {
        self.fixed
    }

    /// The header with its options, 20 to 60 bytes.
    #[inline]
    pub fn header(&self) -> &'a [u8] {
        self.header
    }

    /// The payload as far as it was at hand; padding after the total length is left out.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether the header is longer than 20 bytes.
    #[inline]
    pub fn has_options(&self) -> bool {
        self.header.len() > HEADER_LEN
    }

    /// The options in order.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        Options::new(self.header)
    }
}

/// Takes one off the TTL and corrects the checksum; returns the new TTL. A TTL of 0 is left as it is: the caller
/// sends time exceeded for 0 and 1 and does not come here with them.
#[inline]
pub fn decrement_ttl(h: &mut [u8; HEADER_LEN]) -> u8 {
    // RFC 1624 equation 3 for m' = m - 0x0100 comes to HC + 0x0100 with end-around carry, 0xffff becoming 0.
    let step = u8::from(h[8] != 0);
    h[8] -= step;
    let sum = u32::from(be16(h, 10)) + (u32::from(step) << 8);
    put16(h, 10, (sum + u32::from(sum >= 0xffff)) as u16);
    h[8]
}

/// [`decrement_ttl`] where it is a plain addition: answers false, and changes nothing, for a TTL under 2 and for the two
/// checksums from which a carry comes.
#[inline(always)]
pub fn decrement_ttl_usual(h: &mut [u8; HEADER_LEN]) -> bool {
    // TTL is the low byte, the checksum the high half, in memory order: a ones-complement sum does not mind the order.
    let word = u32::from_le_bytes(array::<HEADER_LEN, 4>(h, 8));
    if word & 0xff < 2 || word >= 0xfffe_0000 {
        return false;
    }
    h[8..12].copy_from_slice(&(word + 0xffff).to_le_bytes());
    true
}

/// Changes the TTL and corrects the checksum.
#[inline]
pub fn set_ttl(h: &mut [u8; HEADER_LEN], ttl: u8) {
    let protocol = u16::from(h[9]);
    let word = |ttl: u8| u16::from(ttl) << 8 | protocol;
    let check = checksum::update16(be16(h, 10), word(h[8]), word(ttl));
    put16(h, 10, check);
    h[8] = ttl;
}

/// Changes the type of service and corrects the checksum.
#[inline]
pub fn set_tos(h: &mut [u8; HEADER_LEN], tos: u8) {
    let check = checksum::update16(be16(h, 10), u16::from(h[1]), u16::from(tos));
    h[1] = tos;
    put16(h, 10, check);
}

/// Changes the source address and corrects the header checksum (not the one of the upper layer).
#[inline]
pub fn set_src(h: &mut [u8; HEADER_LEN], addr: Ipv4Addr) {
    let check = checksum::update32(be16(h, 10), be32(h, 12), addr.to_bits());
    h[12..16].copy_from_slice(&addr.octets());
    put16(h, 10, check);
}

/// Changes the destination address and corrects the header checksum (not the one of the upper layer).
#[inline]
pub fn set_dst(h: &mut [u8; HEADER_LEN], addr: Ipv4Addr) {
    let check = checksum::update32(be16(h, 10), be32(h, 16), addr.to_bits());
    h[16..20].copy_from_slice(&addr.octets());
    put16(h, 10, check);
}

/// Computes and stores the checksum of a header with its options; slices under 20 bytes are left alone.
#[inline]
pub fn fill_checksum(header: &mut [u8]) {
    if header.len() < HEADER_LEN {
        return;
    }
    header[10..12].fill(0);
    let check = checksum::checksum(header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
}

/// The fields of a header to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip4Builder {
    /// Type of service.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// Set "don't fragment".
    pub dont_fragment: bool,
    /// Set "more fragments".
    pub more_fragments: bool,
    /// Fragment offset in bytes, a multiple of 8.
    pub fragment_offset: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: IpProtocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
}

impl Ip4Builder {
    /// A whole packet with TTL 64 and everything else zero.
    pub const fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProtocol) -> Self {
        Self {
            tos: 0,
            id: 0,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol,
            src,
            dst,
        }
    }

    /// Writes a header without options before `payload_len` bytes of payload; returns its length, 20.
    #[inline]
    pub fn emit(&self, out: &mut [u8], payload_len: usize) -> Result<usize, BuildError> {
        self.emit_with_options(out, &[], payload_len)
    }

    /// Writes a header with `options`, which are padded with end-of-list to four bytes; returns its length.
    pub fn emit_with_options(
        &self,
        out: &mut [u8],
        options: &[u8],
        payload_len: usize,
    ) -> Result<usize, BuildError> {
        let len = HEADER_LEN + options.len().next_multiple_of(4);
        let Ok(total) = u16::try_from(len.saturating_add(payload_len)) else {
            return Err(BuildError::TooLong);
        };
        if len > MAX_HEADER_LEN {
            return Err(BuildError::TooLong);
        }
        let (h, padded) = crate::bytes::head::<HEADER_LEN>(out, len)?;
        h[0] = 0x40 | (len / 4) as u8;
        h[1] = self.tos;
        put16(h, 2, total);
        put16(h, 4, self.id);
        let flags = u16::from(self.dont_fragment) << 14 | u16::from(self.more_fragments) << 13;
        put16(h, 6, flags | (self.fragment_offset / 8));
        h[8] = self.ttl;
        h[9] = self.protocol.0;
        put16(h, 10, 0);
        h[12..16].copy_from_slice(&self.src.octets());
        h[16..20].copy_from_slice(&self.dst.octets());
        let (given, rest) = padded.split_at_mut(options.len());
        given.copy_from_slice(options);
        rest.fill(0);
        let check = checksum::checksum(&out[..len]);
        out[10..12].copy_from_slice(&check.to_be_bytes());
        Ok(len)
    }
}

#[cfg(test)]
mod tests;
