//! `ip6-local`: packets for the router itself.

use crate::icmp::Ask;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::ip6::ext;
use std::fmt;

graph::edges! {
    /// Where `ip6-local` sends packets.
    pub enum Ip6LocalNext {
        Icmp => "icmp6-input",
        Error => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// What `ip6-local` counts.
    pub enum Ip6LocalReason {
        /// The packet has no IPv6 header.
        TooShort => "ip6-local-too-short",
        /// A fragment for the router: it does not reassemble.
        Fragment => "ip6-local-fragment",
        /// A TCP segment for a port on which nothing listens.
        NoTcp => "ip6-local-no-tcp-listener",
        /// "No next header": nothing to do (RFC 8200 section 4.7).
        NoNextHeader => "ip6-local-no-next-header",
        /// An extension header is cut off, too long, or out of its place.
        BadExtension => "ip6-local-bad-extension-header",
        /// A UDP datagram for a port on which nothing listens; the sender is told "port unreachable".
        NoPort => "ip6-local-no-udp-port" (info),
        /// A next header that the router does not know; the sender is told "unrecognized next header".
        NoProtocol => "ip6-local-unknown-next-header" (info),
    }
}

/// The node.
pub struct Ip6Local;

impl Node for Ip6Local {
    const NAME: &'static str = "ip6-local";
    type Next = Ip6LocalNext;
    type Drop = Ip6LocalReason;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _guard: &'v Guard) {}

    fn step(_: &mut (), p: &mut Packet<'_>) -> Step<Ip6LocalNext, Ip6LocalReason> {
        if p.data().len() < 40 {
            return Err(Ip6LocalReason::TooShort.into());
        }
        let Ok(upper) = ext::walk(p.data()) else { return Err(Ip6LocalReason::BadExtension.into()) };
        if upper.fragment.is_some_and(|f| !f.is_atomic()) {
            return Err(Ip6LocalReason::Fragment.into());
        }
        // Where the upper-layer header stands, for the ICMPv6 nodes.
        p.d.hash = u32::from(upper.offset as u16);
        match upper.protocol.0 {
            58 => return Ok(Ip6LocalNext::Icmp),
            6 => return Err(Ip6LocalReason::NoTcp.into()),
            59 => return Err(Ip6LocalReason::NoNextHeader.into()),
            17 => {
                p.count(Ip6LocalReason::NoPort);
                p.d.aux = Ask::V6_PORT_UNREACHABLE.word();
            }
            _ => {
                p.count(Ip6LocalReason::NoProtocol);
                p.d.aux = Ask::v6_parameter_problem(1, upper.named_at as u16).word();
            }
        }
        if p.has(flags::LOCAL) {
            return Err(Ip6LocalReason::TooShort.into());
        }
        Ok(Ip6LocalNext::Error)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}
