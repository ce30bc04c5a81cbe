//! ICMP (RFC 792): messages, errors with their quotes, and about which packets an error may be sent.

use crate::BuildError;
use crate::bytes::{be16, be32, head, put16};
use crate::checksum::{self, Sum};
use crate::icmp_ext;
use crate::ip4::{self, Ip4Builder, Ip4View, addr};
use crate::proto::IpProtocol;
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes before the body of every message that Quiver handles.
pub const HEADER_LEN: usize = 8;
/// An error datagram, IP header included, does not exceed this (RFC 1812, 4.3.2.3).
pub const MAX_ERROR_PACKET: usize = 576;

/// Message types.
#[allow(missing_docs)]
pub mod kind {
    pub const ECHO_REPLY: u8 = 0;
    pub const UNREACHABLE: u8 = 3;
    pub const SOURCE_QUENCH: u8 = 4;
    pub const REDIRECT: u8 = 5;
    pub const ECHO_REQUEST: u8 = 8;
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    pub const ROUTER_SOLICITATION: u8 = 10;
    pub const TIME_EXCEEDED: u8 = 11;
    pub const PARAMETER_PROBLEM: u8 = 12;
    pub const TIMESTAMP: u8 = 13;
    pub const TIMESTAMP_REPLY: u8 = 14;
}

/// Codes of destination unreachable (RFC 792; RFC 1122, 3.2.2.1; RFC 1812, 5.2.7.1).
#[allow(missing_docs)]
pub mod unreachable {
    pub const NET: u8 = 0;
    pub const HOST: u8 = 1;
    pub const PROTOCOL: u8 = 2;
    pub const PORT: u8 = 3;
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    pub const NET_UNKNOWN: u8 = 6;
    pub const HOST_UNKNOWN: u8 = 7;
    pub const NET_PROHIBITED: u8 = 9;
    pub const HOST_PROHIBITED: u8 = 10;
    pub const NET_TOS: u8 = 11;
    pub const HOST_TOS: u8 = 12;
    pub const ADMIN_PROHIBITED: u8 = 13;
}

/// Codes of time exceeded.
#[allow(missing_docs)]
pub mod time_exceeded {
    pub const TTL: u8 = 0;
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of redirect.
#[allow(missing_docs)]
pub mod redirect {
    pub const NET: u8 = 0;
    pub const HOST: u8 = 1;
}

/// Whether a message of this type reports an error, so that none may be sent about it.
#[inline]
pub const fn is_error(message: u8) -> bool {
    matches!(
        message,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Fewer than 8 bytes.
    TooShort,
    /// Checksum wrong.
    BadChecksum,
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IcmpError::TooShort => "shorter than an ICMP header",
            IcmpError::BadChecksum => "bad ICMP checksum",
        })
    }
}

impl std::error::Error for IcmpError {}

/// A message of either ICMP version: both have the same first eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct IcmpView<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> IcmpView<'a> {
    /// Checks the length only: for ICMPv6, quotes and messages in several buffers.
    #[inline]
    pub fn parse_unverified(message: &'a [u8]) -> Result<Self, IcmpError> {
        match message.split_first_chunk() {
            Some((header, body)) => Ok(Self { header, body }),
            None => Err(IcmpError::TooShort),
        }
    }

    /// Checks length and ICMPv4 checksum of a message that lies in one piece.
    #[inline]
    pub fn parse4(message: &'a [u8]) -> Result<Self, IcmpError> {
        let view = Self::parse_unverified(message)?;
        if checksum::is_valid(message) { Ok(view) } else { Err(IcmpError::BadChecksum) }
    }

    /// Message type.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    /// Message code.
    #[inline]
    pub fn code(&self) -> u8 {
        self.header[1]
    }

    /// Checksum as it stands.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.header, 2)
    }

    /// Bytes 4 to 8: MTU, pointer, gateway, or identifier and sequence number.
    #[inline]
    pub fn rest(&self) -> u32 {
        be32(self.header, 4)
    }

    /// Identifier of an echo message.
    #[inline]
    pub fn echo_id(&self) -> u16 {
        be16(self.header, 4)
    }

    /// Sequence number of an echo message.
    #[inline]
    pub fn echo_seq(&self) -> u16 {
        be16(self.header, 6)
    }

    /// What follows: echo data, or the quoted packet.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// Turns an echo request into its reply: type and checksum. The IP addresses are the caller's.
#[inline]
pub fn echo_reply_in_place(header: &mut [u8; HEADER_LEN]) {
    change_kind(header, kind::ECHO_REPLY);
    // All zeros sum up to 0, whose complement is 0xffff; the correction of a checksum cannot see that. With anything
    // but zeros behind the header both are right.
    if *header == [0; HEADER_LEN] {
        put16(header, 2, 0xffff);
    }
}

/// Changes the type and corrects the checksum.
#[inline]
pub(crate) fn change_kind(header: &mut [u8; HEADER_LEN], to: u8) {
    let old = be16(header, 0);
    header[0] = to;
    let check = checksum::update16(be16(header, 2), old, be16(header, 0));
    put16(header, 2, check);
}

/// Writes an echo request or reply, checksum included; returns its length.
pub fn emit_echo(out: &mut [u8], message: u8, id: u16, seq: u16, data: &[u8]) -> Result<usize, BuildError> {
    let rest = u32::from(id) << 16 | u32::from(seq);
    emit(out, Sum::new(), [message, 0], rest, data)
}

/// Writes header and body with a checksum that includes `pseudo`.
pub(crate) fn emit(
    out: &mut [u8],
    pseudo: Sum,
    kind_code: [u8; 2],
    rest: u32,
    body: &[u8],
) -> Result<usize, BuildError> {
    let len = HEADER_LEN + body.len();
    let (h, to) = head::<HEADER_LEN>(out, len)?;
    to.copy_from_slice(body);
    h[..2].copy_from_slice(&kind_code);
    put16(h, 2, 0);
    h[4..].copy_from_slice(&rest.to_be_bytes());
    let mut sum = pseudo;
    sum.add_bytes(h);
    sum.add_bytes(to);
    put16(h, 2, sum.checksum());
    Ok(len)
}

/// An error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorMessage {
    /// Destination unreachable with a code of [`mod@unreachable`].
    Unreachable(u8),
    /// Too large for the next link, and "don't fragment" is set (RFC 1191).
    FragmentationNeeded {
        /// MTU of the next link.
        mtu: u16,
    },
    /// A better gateway, with a code of [`redirect`].
    Redirect {
        /// [`redirect::NET`] or [`redirect::HOST`].
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
    },
    /// Time exceeded with a code of [`time_exceeded`].
    TimeExceeded(u8),
    /// A wrong octet in the header.
    ParameterProblem {
        /// Its offset.
        pointer: u8,
    },
}

impl ErrorMessage {
    /// Type, code and bytes 4 to 8.
    fn fields(self) -> ([u8; 2], u32) {
        match self {
            Self::Unreachable(code) => ([kind::UNREACHABLE, code], 0),
            Self::FragmentationNeeded { mtu } => {
                ([kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED], mtu.into())
            }
            Self::Redirect { code, gateway } => ([kind::REDIRECT, code], gateway.to_bits()),
            Self::TimeExceeded(code) => ([kind::TIME_EXCEEDED, code], 0),
            Self::ParameterProblem { pointer } => ([kind::PARAMETER_PROBLEM, 0], u32::from(pointer) << 24),
        }
    }

    /// Writes a whole IPv4 packet that reports this error about `original`, of which it quotes as much as RFC 1812,
    /// 4.3.2.3 allows. `original` starts with the IP header and has no padding; `ip` gives addresses, TTL, TOS and
    /// id (its protocol is overwritten). Returns the length.
    pub fn emit(self, out: &mut [u8], ip: Ip4Builder, original: &[u8]) -> Result<usize, BuildError> {
        let room = MAX_ERROR_PACKET - ip4::HEADER_LEN - HEADER_LEN;
        self.emit_body(out, ip, 0, &original[..original.len().min(room)])
    }

    /// [`ErrorMessage::emit`] about a packet that came with the label stack `labels`, whole entries, which the message
    /// tells too where its type has room for it (RFC 4950). It then quotes 128 bytes.
    pub fn emit_with_labels(
        self,
        out: &mut [u8],
        ip: Ip4Builder,
        original: &[u8],
        labels: &[u8],
    ) -> Result<usize, BuildError> {
        match icmp_ext::body(original, labels) {
            Some((body, len)) if !matches!(self, Self::Redirect { .. }) => {
                // The quote's length in words of 32 bits (RFC 4884, 4.1 to 4.3).
                self.emit_body(out, ip, (icmp_ext::QUOTE_LEN as u32 / 4) << 16, &body[..len])
            }
            _ => self.emit(out, ip, original),
        }
    }

    fn emit_body(
        self,
        out: &mut [u8],
        ip: Ip4Builder,
        length: u32,
        body: &[u8],
    ) -> Result<usize, BuildError> {
        let header = Ip4Builder { protocol: IpProtocol::ICMP, ..ip };
        let at = header.emit(out, HEADER_LEN + body.len())?;
        let (kind_code, rest) = self.fields();
        let message = out.get_mut(at..).unwrap_or_default();
        match emit(message, Sum::new(), kind_code, rest | length, body) {
            Ok(len) => Ok(at + len),
            Err(_) => Err(BuildError::NoRoom { needed: at + HEADER_LEN + body.len() }),
        }
    }
}

/// Whether an ICMP error may be sent about `packet` (RFC 1122, 3.2.2; RFC 1812, 4.3.2.7): not about an ICMP error, a
/// later fragment, a packet whose source names no single host, or one that was sent to many.
/// `link_multicast`: it came as a link-layer broadcast or multicast. `dst_broadcast`: its destination is a broadcast
/// address of one of our networks, which the address alone does not tell.
pub fn may_send_error(packet: &Ip4View<'_>, link_multicast: bool, dst_broadcast: bool) -> bool {
    let dst = packet.dst_u32();
    let to_many =
        link_multicast || dst_broadcast || addr::is_multicast(dst) || addr::is_limited_broadcast(dst);
    if to_many || !packet.is_first() || addr::is_martian_source(packet.src_u32()) {
        return false;
    }
    // An ICMP packet cut before its type might be an error.
    packet.protocol() != IpProtocol::ICMP || packet.payload().first().is_some_and(|&k| !is_error(k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const B: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

    // Scapy: ICMP(type=8, id=0x1234, seq=7)/b"ping!"
    const ECHO: [u8; 13] = [8, 0, 0xe5, 0xf3, 0x12, 0x34, 0, 7, b'p', b'i', b'n', b'g', b'!'];

    #[test]
    fn echo() {
        let view = IcmpView::parse4(&ECHO).unwrap();
        assert_eq!((view.kind(), view.code(), view.echo_id(), view.echo_seq()), (8, 0, 0x1234, 7));
        assert_eq!((view.rest(), view.body()), (0x12340007, &b"ping!"[..]));
        let mut out = [0; 13];
        assert_eq!(emit_echo(&mut out, kind::ECHO_REQUEST, 0x1234, 7, b"ping!"), Ok(13));
        assert_eq!(out, ECHO);
        echo_reply_in_place(out.first_chunk_mut().unwrap());
        let reply = IcmpView::parse4(&out).unwrap();
        assert_eq!((reply.kind(), reply.rest()), (kind::ECHO_REPLY, view.rest()));
        assert_eq!(IcmpView::parse4(&ECHO[..7]).unwrap_err(), IcmpError::TooShort);
        assert_eq!(IcmpView::parse4(&ECHO[..12]).unwrap_err(), IcmpError::BadChecksum);
        assert!(emit_echo(&mut out[..12], 8, 0, 0, b"ping!").is_err());
    }

    #[test]
    fn a_reply_of_zeros_only() {
        for data in [&[][..], &[0; 56], &[0xff; 2]] {
            let mut out = vec![0; 8 + data.len()];
            emit_echo(&mut out, kind::ECHO_REQUEST, 0, 0, data).unwrap();
            echo_reply_in_place(out.first_chunk_mut().unwrap());
            // As Linux and Scapy check it: the complement of the sum over all is zero.
            assert_eq!(checksum::checksum(&out), 0, "{data:?}");
        }
    }

    fn original(payload: usize) -> Vec<u8> {
        let mut p = vec![0x5a; 20 + payload];
        Ip4Builder::new(A, B, IpProtocol::UDP).emit(&mut p, payload).unwrap();
        p
    }

    #[test]
    fn error_packets() {
        let mut out = [0; 600];
        let ip = Ip4Builder { ttl: 255, tos: 0xc0, ..Ip4Builder::new(B, A, IpProtocol::UDP) };
        let packet = original(30);
        let check = |message: ErrorMessage, out: &mut [u8], fields: (u8, u8, u32)| {
            let len = message.emit(out, ip, &packet).unwrap();
            assert_eq!(len, 20 + 8 + 50);
            let view = Ip4View::parse(&out[..len]).unwrap();
            assert_eq!((view.protocol(), view.tos(), view.dst()), (IpProtocol::ICMP, 0xc0, A));
            let icmp = IcmpView::parse4(view.payload()).unwrap();
            assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), fields);
            assert_eq!(icmp.body(), packet);
        };
        check(ErrorMessage::Unreachable(unreachable::HOST), &mut out, (3, 1, 0));
        check(ErrorMessage::FragmentationNeeded { mtu: 1400 }, &mut out, (3, 4, 1400));
        check(ErrorMessage::TimeExceeded(time_exceeded::TTL), &mut out, (11, 0, 0));
        check(ErrorMessage::ParameterProblem { pointer: 21 }, &mut out, (12, 0, 21 << 24));
        check(ErrorMessage::Redirect { code: redirect::HOST, gateway: B }, &mut out, (5, 1, B.to_bits()));

        let large = original(2000);
        assert_eq!(ErrorMessage::TimeExceeded(0).emit(&mut out, ip, &large), Ok(576));
        assert_eq!(
            ErrorMessage::TimeExceeded(0).emit(&mut out[..500], ip, &large),
            Err(BuildError::NoRoom { needed: 576 })
        );
    }

    #[test]
    fn when_an_error_may_be_sent() {
        let packet = |src: Ipv4Addr, dst: Ipv4Addr, protocol, offset, payload: &[u8]| {
            let mut p = vec![0; 20];
            let b = Ip4Builder { fragment_offset: offset, ..Ip4Builder::new(src, dst, protocol) };
            b.emit(&mut p, payload.len()).unwrap();
            p.extend_from_slice(payload);
            p
        };
        let may = |p: &[u8]| may_send_error(&Ip4View::parse(p).unwrap(), false, false);
        let udp = packet(A, B, IpProtocol::UDP, 0, &[0; 8]);
        assert!(may(&udp));
        assert!(!may_send_error(&Ip4View::parse(&udp).unwrap(), true, false));
        assert!(!may_send_error(&Ip4View::parse(&udp).unwrap(), false, true));
        assert!(!may(&packet(A, B, IpProtocol::UDP, 8, &[0; 8])));
        assert!(may(&packet(A, B, IpProtocol::ICMP, 0, &[kind::ECHO_REQUEST; 8])));
        for error in [3, 4, 5, 11, 12] {
            assert!(!may(&packet(A, B, IpProtocol::ICMP, 0, &[error; 8])), "type {error}");
        }
        assert!(!may(&packet(A, B, IpProtocol::ICMP, 0, &[])));
        for dst in ["224.0.0.1", "255.255.255.255"] {
            assert!(!may(&packet(A, dst.parse().unwrap(), IpProtocol::UDP, 0, &[])), "to {dst}");
        }
        for src in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"] {
            assert!(!may(&packet(src.parse().unwrap(), B, IpProtocol::UDP, 0, &[])), "from {src}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = IcmpView::parse4(&data);
            if let Ok(view) = Ip4View::parse_quoted(&data) {
                may_send_error(&view, false, false);
            }
            let mut out = [0; 600];
            let ip = Ip4Builder::new(A, B, IpProtocol::ICMP);
            prop_assert_eq!(ErrorMessage::TimeExceeded(0).emit(&mut out, ip, &data), Ok(28 + data.len()));
        }
    }
}
