//! `ip4-local`: packets for the router itself.

use crate::icmp::Ask;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip4::Ip4Header;
use std::fmt;

graph::edges! {
    /// Where `ip4-local` sends packets.
    pub enum Ip4LocalNext {
        Icmp => "icmp4-input",
        Error => "ip4-icmp-error",
    }
}

graph::reasons! {
    /// What `ip4-local` counts.
    pub enum Ip4LocalReason {
        /// The packet has no IPv4 header.
        TooShort => "ip4-local-too-short",
        /// A fragment for the router: it does not reassemble.
        Fragment => "ip4-local-fragment",
        /// A TCP segment for a port on which nothing listens.
        NoTcp => "ip4-local-no-tcp-listener",
        /// A UDP datagram for a port on which nothing listens; the sender is told "port unreachable".
        NoPort => "ip4-local-no-udp-port" (info),
        /// A protocol that the router does not speak; the sender is told "protocol unreachable".
        NoProtocol => "ip4-local-unknown-protocol" (info),
    }
}

/// The node.
pub struct Ip4Local;

impl Node for Ip4Local {
    const NAME: &'static str = "ip4-local";
    type Next = Ip4LocalNext;
    type Drop = Ip4LocalReason;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _guard: &'v Guard) {}

    fn step(_: &mut (), p: &mut Packet<'_>) -> Step<Ip4LocalNext, Ip4LocalReason> {
        let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort.into()) };
        let h = Ip4Header(h);
        let protocol = h.protocol();
        if h.is_fragment() {
            return Err(Ip4LocalReason::Fragment.into());
        }
        match protocol.0 {
            1 => return Ok(Ip4LocalNext::Icmp),
            6 => return Err(Ip4LocalReason::NoTcp.into()),
            17 => {
                p.count(Ip4LocalReason::NoPort);
                p.d.aux = Ask::V4_PORT_UNREACHABLE.word();
            }
            _ => {
                p.count(Ip4LocalReason::NoProtocol);
                p.d.aux = Ask::V4_PROTOCOL_UNREACHABLE.word();
            }
        }
        Ok(Ip4LocalNext::Error)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}
