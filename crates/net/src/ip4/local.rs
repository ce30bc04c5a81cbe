//! `ip4-local`: packets for the router itself.

use crate::icmp::Ask;
use crate::plane::Plane;
use crate::punt::{self, Class};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip4::Ip4Header;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-local` sends packets.
    pub enum Ip4LocalNext {
        Icmp => "icmp4-input",
        Error => "ip4-icmp-error",
        Policed => "punt-policer",
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
pub struct Ip4Local {
    plane: Arc<Plane>,
}

impl Ip4Local {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Local { plane: Arc::clone(plane) }
    }
}

/// What kind of packet to the router it is.
fn class(h: Ip4Header<'_>, packet: &[u8]) -> Class {
    if h.is_fragment() {
        return Class::Fragment;
    }
    if h.dst_u32() == u32::MAX {
        return Class::Broadcast;
    }
    Class::of_upper(h.protocol(), packet.get(h.header_len()..).unwrap_or_default())
}

impl Node for Ip4Local {
    const NAME: &'static str = "ip4-local";
    type Next = Ip4LocalNext;
    type Drop = Ip4LocalReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<Ip4LocalNext, Ip4LocalReason> {
        let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort.into()) };
        let h = Ip4Header(h);
        let (protocol, fragment, class) = (h.protocol(), h.is_fragment(), class(h, p.data()));
        if !punt::admits(plane, p, class) {
            return Ok(Ip4LocalNext::Policed);
        }
        if fragment {
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
