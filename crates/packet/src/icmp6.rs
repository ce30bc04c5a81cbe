//! ICMPv6 (RFC 4443): messages, errors with their quotes, and about which packets an error may be sent. Neighbour
//! discovery is in [`crate::nd`].

use crate::BuildError;
use crate::checksum::{Sum, pseudo6};
use crate::icmp_ext;
use crate::icmp4;
pub use crate::icmp4::{HEADER_LEN, IcmpError, IcmpView};
use crate::ip6::{self, Ip6Builder, Ip6View, addr};
use crate::proto::IpProtocol;
use std::net::Ipv6Addr;

/// An error packet, IPv6 header included, does not exceed this (RFC 4443, 2.4(c)).
pub const MAX_ERROR_PACKET: usize = 1280;

/// Message types.
#[allow(missing_docs)]
pub mod kind {
    pub const UNREACHABLE: u8 = 1;
    pub const PACKET_TOO_BIG: u8 = 2;
    pub const TIME_EXCEEDED: u8 = 3;
    pub const PARAMETER_PROBLEM: u8 = 4;
    pub const ECHO_REQUEST: u8 = 128;
    pub const ECHO_REPLY: u8 = 129;
    pub const MLD_QUERY: u8 = 130;
    pub const MLD_REPORT: u8 = 131;
    pub const MLD_DONE: u8 = 132;
    pub const ROUTER_SOLICITATION: u8 = 133;
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    pub const NEIGHBOR_SOLICITATION: u8 = 135;
    pub const NEIGHBOR_ADVERTISEMENT: u8 = 136;
    pub const REDIRECT: u8 = 137;
    pub const MLDV2_REPORT: u8 = 143;
}

/// Codes of destination unreachable.
#[allow(missing_docs)]
pub mod unreachable {
    pub const NO_ROUTE: u8 = 0;
    pub const PROHIBITED: u8 = 1;
    pub const BEYOND_SCOPE: u8 = 2;
    pub const ADDRESS: u8 = 3;
    pub const PORT: u8 = 4;
    pub const SOURCE_POLICY: u8 = 5;
    pub const REJECT_ROUTE: u8 = 6;
}

/// Codes of time exceeded.
#[allow(missing_docs)]
pub mod time_exceeded {
    pub const HOP_LIMIT: u8 = 0;
    pub const REASSEMBLY: u8 = 1;
}

/// Codes of parameter problem.
#[allow(missing_docs)]
pub mod parameter {
    pub const HEADER_FIELD: u8 = 0;
    pub const NEXT_HEADER: u8 = 1;
    pub const OPTION: u8 = 2;
    /// RFC 7112.
    pub const INCOMPLETE_CHAIN: u8 = 3;
}

/// Whether a message of this type reports an error (RFC 4443, 2.1): the high bit is clear.
#[inline]
pub const fn is_error(message: u8) -> bool {
    message < 128
}

/// Whether the checksum of a whole message is right.
#[inline]
pub fn verify(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> bool {
    let mut sum = pseudo6(src, dst, IpProtocol::ICMPV6, message.len() as u32);
    sum.add_bytes(message);
    sum.is_valid()
}

/// Turns an echo request into its reply: type and checksum. Exchanging the addresses, which the caller does, leaves
/// the checksum as it is.
#[inline]
pub fn echo_reply_in_place(header: &mut [u8; HEADER_LEN]) {
    icmp4::change_kind(header, kind::ECHO_REPLY);
}

/// Writes an echo request or reply, checksum included; returns its length.
pub fn emit_echo(
    out: &mut [u8],
    (src, dst): (Ipv6Addr, Ipv6Addr),
    message: u8,
    id: u16,
    seq: u16,
    data: &[u8],
) -> Result<usize, BuildError> {
    let rest = u32::from(id) << 16 | u32::from(seq);
    emit(out, (src, dst), [message, 0], rest, data)
}

/// Writes a message with its checksum.
pub(crate) fn emit(
    out: &mut [u8],
    (src, dst): (Ipv6Addr, Ipv6Addr),
    kind_code: [u8; 2],
    rest: u32,
    body: &[u8],
) -> Result<usize, BuildError> {
    let Ok(len) = u32::try_from(HEADER_LEN + body.len()) else { return Err(BuildError::TooLong) };
    let pseudo: Sum = pseudo6(src, dst, IpProtocol::ICMPV6, len);
    icmp4::emit(out, pseudo, kind_code, rest, body)
}

/// An error to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorMessage {
    /// Destination unreachable with a code of [`mod@unreachable`].
    Unreachable(u8),
    /// Too large for the next link.
    PacketTooBig {
        /// MTU of the next link.
        mtu: u32,
    },
    /// Time exceeded with a code of [`time_exceeded`].
    TimeExceeded(u8),
    /// Something wrong in the headers.
    ParameterProblem {
        /// A code of [`parameter`].
        code: u8,
        /// Offset of the wrong octet from the start of the IPv6 header.
        pointer: u32,
    },
}

impl ErrorMessage {
    /// Type, code and bytes 4 to 8.
    fn fields(self) -> ([u8; 2], u32) {
        match self {
            Self::Unreachable(code) => ([kind::UNREACHABLE, code], 0),
            Self::PacketTooBig { mtu } => ([kind::PACKET_TOO_BIG, 0], mtu),
            Self::TimeExceeded(code) => ([kind::TIME_EXCEEDED, code], 0),
            Self::ParameterProblem { code, pointer } => ([kind::PARAMETER_PROBLEM, code], pointer),
        }
    }

    /// May be sent about a packet to a multicast destination (RFC 4443, 2.4(e.3)).
    #[inline]
    fn allowed_for_multicast(self) -> bool {
        matches!(self, Self::PacketTooBig { .. } | Self::ParameterProblem { code: parameter::OPTION, .. })
    }

    /// Writes a whole IPv6 packet that reports this error about `original`, of which it quotes as much as fits the
    /// minimum MTU. `original` starts with the IPv6 header and has no padding; `ip` gives addresses, hop limit and
    /// class (its next header is overwritten). Returns the length.
    pub fn emit(self, out: &mut [u8], ip: Ip6Builder, original: &[u8]) -> Result<usize, BuildError> {
        let room = MAX_ERROR_PACKET - ip6::HEADER_LEN - HEADER_LEN;
        self.emit_body(out, ip, 0, &original[..original.len().min(room)])
    }

    /// [`ErrorMessage::emit`] about a packet that came with the label stack `labels`, whole entries, which the message
    /// tells too where its type has room for it (RFC 4950). It then quotes 128 bytes.
    pub fn emit_with_labels(
        self,
        out: &mut [u8],
        ip: Ip6Builder,
        original: &[u8],
        labels: &[u8],
    ) -> Result<usize, BuildError> {
        match icmp_ext::body(original, labels) {
            Some((body, len)) if matches!(self, Self::Unreachable(_) | Self::TimeExceeded(_)) => {
                // The quote's length in words of 64 bits (RFC 4884, 4.4 and 4.5).
                self.emit_body(out, ip, (icmp_ext::QUOTE_LEN as u32 / 8) << 24, &body[..len])
            }
            _ => self.emit(out, ip, original),
        }
    }

    fn emit_body(
        self,
        out: &mut [u8],
        ip: Ip6Builder,
        length: u32,
        body: &[u8],
    ) -> Result<usize, BuildError> {
        let header = Ip6Builder { next_header: IpProtocol::ICMPV6, ..ip };
        let at = header.emit(out, HEADER_LEN + body.len())?;
        let (kind_code, rest) = self.fields();
        let message = out.get_mut(at..).unwrap_or_default();
        match emit(message, (ip.src, ip.dst), kind_code, rest | length, body) {
            Ok(len) => Ok(at + len),
            Err(_) => Err(BuildError::NoRoom { needed: at + HEADER_LEN + body.len() }),
        }
    }

    /// Whether this error may be sent about `packet` (RFC 4443, 2.4(e)): not about an ICMPv6 error or redirect, nor
    /// when the source names no single node, nor, with two exceptions, about what was sent to many.
    /// `link_multicast`: it came as a link-layer multicast or broadcast. A later fragment of an ICMPv6 message
    /// hides its type, so it gets none either.
    pub fn may_be_sent(self, packet: &Ip6View<'_>, link_multicast: bool) -> bool {
        let (src, dst) = (packet.src_u128(), packet.dst_u128());
        if (link_multicast || addr::is_multicast(dst)) && !self.allowed_for_multicast() {
            return false;
        }
        if addr::is_unspecified(src)
            || addr::is_multicast(src)
            || addr::is_loopback(src)
            || addr::is_v4_mapped(src)
        {
            return false;
        }
        // A broken chain of headers is what a parameter problem reports: what is behind it is not known to be an error.
        let Ok(upper) = packet.upper_layer() else { return true };
        if upper.protocol != IpProtocol::ICMPV6 {
            return true;
        }
        let message = packet.packet().get(upper.offset).copied();
        !upper.is_later_fragment() && message.is_some_and(|k| !is_error(k) && k != kind::REDIRECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    // Scapy: IPv6(src="2001:db8::1", dst="2001:db8::2")/ICMPv6EchoRequest(id=0x1234, seq=7, data=b"ping!"), from 40
    const ECHO: [u8; 13] = [128, 0, 0x12, 0x37, 0x12, 0x34, 0, 7, b'p', b'i', b'n', b'g', b'!'];

    #[test]
    fn echo() {
        let (a, b) = (ip("2001:db8::1"), ip("2001:db8::2"));
        assert!(verify(a, b, &ECHO) && !verify(a, a, &ECHO));
        let mut out = [0; 13];
        assert_eq!(emit_echo(&mut out, (a, b), kind::ECHO_REQUEST, 0x1234, 7, b"ping!"), Ok(13));
        assert_eq!(out, ECHO);
        echo_reply_in_place(out.first_chunk_mut().unwrap());
        assert!(verify(b, a, &out));
        assert_eq!(out[0], kind::ECHO_REPLY);
    }

    fn packet(src: &str, dst: &str, next: IpProtocol, payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0; 40];
        Ip6Builder::new(ip(src), ip(dst), next).emit(&mut p, payload.len()).unwrap();
        p.extend_from_slice(payload);
        p
    }

    #[test]
    fn error_packets() {
        let (a, b) = (ip("2001:db8::1"), ip("2001:db8::2"));
        let mut out = [0; 1300];
        let from = Ip6Builder::new(b, a, IpProtocol::UDP);
        let original = packet("2001:db8::1", "2001:db8::2", IpProtocol::UDP, &[9; 30]);
        let cases = [
            (ErrorMessage::Unreachable(unreachable::PORT), (1, 4, 0)),
            (ErrorMessage::PacketTooBig { mtu: 1400 }, (2, 0, 1400)),
            (ErrorMessage::TimeExceeded(time_exceeded::HOP_LIMIT), (3, 0, 0)),
            (ErrorMessage::ParameterProblem { code: parameter::OPTION, pointer: 42 }, (4, 2, 42)),
        ];
        for (message, fields) in cases {
            let len = message.emit(&mut out, from, &original).unwrap();
            let view = Ip6View::parse(&out[..len]).unwrap();
            assert_eq!(view.next_header(), IpProtocol::ICMPV6);
            assert!(verify(b, a, view.payload()));
            let icmp = IcmpView::parse_unverified(view.payload()).unwrap();
            assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), fields);
            assert_eq!(icmp.body(), original);
        }
        let large = packet("2001:db8::1", "2001:db8::2", IpProtocol::UDP, &[9; 1400]);
        assert_eq!(ErrorMessage::PacketTooBig { mtu: 1400 }.emit(&mut out, from, &large), Ok(1280));
        assert_eq!(
            ErrorMessage::TimeExceeded(0).emit(&mut out[..100], from, &large),
            Err(BuildError::NoRoom { needed: 1280 })
        );
    }

    #[test]
    fn when_an_error_may_be_sent() {
        let time = ErrorMessage::TimeExceeded(0);
        let big = ErrorMessage::PacketTooBig { mtu: 1280 };
        let option = ErrorMessage::ParameterProblem { code: parameter::OPTION, pointer: 0 };
        let field = ErrorMessage::ParameterProblem { code: parameter::HEADER_FIELD, pointer: 0 };
        let may = |e: ErrorMessage, p: &[u8], link| e.may_be_sent(&Ip6View::parse(p).unwrap(), link);
        let udp = packet("2001:db8::1", "2001:db8::2", IpProtocol::UDP, &[0; 8]);
        assert!(may(time, &udp, false) && !may(time, &udp, true) && may(big, &udp, true));
        let many = packet("2001:db8::1", "ff0e::1", IpProtocol::UDP, &[0; 8]);
        assert!(!may(time, &many, false) && !may(field, &many, false));
        assert!(may(big, &many, false) && may(option, &many, false));
        for src in ["::", "::1", "ff02::1", "::ffff:1.2.3.4"] {
            assert!(!may(big, &packet(src, "2001:db8::2", IpProtocol::UDP, &[]), false), "{src}");
        }
        let icmp = |payload: &[u8]| packet("2001:db8::1", "2001:db8::2", IpProtocol::ICMPV6, payload);
        assert!(may(time, &icmp(&[128; 8]), false));
        for error in [0, 1, 2, 3, 4, 100, 127, kind::REDIRECT] {
            assert!(!may(time, &icmp(&[error; 8]), false), "type {error}");
        }
        assert!(!may(time, &icmp(&[]), false));
        // An error behind a destination-options header is still an error.
        let hidden = [58, 0, 1, 4, 0, 0, 0, 0, 1, 0, 0, 0];
        assert!(!may(time, &packet("2001:db8::1", "2001:db8::2", IpProtocol::DEST_OPTIONS, &hidden), false));
        let later = [58, 0, 0, 8, 0, 0, 0, 1, 128, 0];
        assert!(!may(time, &packet("2001:db8::1", "2001:db8::2", IpProtocol::FRAGMENT, &later), false));
    }

    proptest! {
        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..120), link: bool) {
            if let Ok(view) = Ip6View::parse_quoted(&data) {
                ErrorMessage::TimeExceeded(0).may_be_sent(&view, link);
            }
            let mut out = [0; 1300];
            let from = Ip6Builder::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, IpProtocol::ICMPV6);
            prop_assert_eq!(ErrorMessage::TimeExceeded(0).emit(&mut out, from, &data), Ok(48 + data.len()));
        }
    }
}
