//! `ip6-local`: packets for the router itself.

use crate::icmp::Ask;
use crate::plane::Plane;
use crate::punt::{self, Class};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip6::ext;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-local` sends packets.
    pub enum Ip6LocalNext {
        Icmp => "icmp6-input",
        Error => "ip6-icmp-error",
        Reassembly => "ip6-full-reassembly",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip6-local` counts.
    pub enum Ip6LocalReason {
        /// The packet has no IPv6 header.
        TooShort => "ip6-local-too-short",
        /// A TCP segment for a port on which nothing listens.
        NoTcp => "ip6-local-no-tcp-listener",
        /// "No next header": nothing to do (RFC 8200 section 4.7).
        NoNextHeader => "ip6-local-no-next-header",
        /// An extension header is cut off, too long, or out of its place.
        BadExtension => "ip6-local-bad-extension-header",
        /// A routing header with segments left, RFC 8200 section 4.4; the sender is told "erroneous header field".
        RoutingHeader => "ip6-local-unknown-routing-header" (info),
        /// A UDP datagram for a port on which nothing listens; the sender is told "port unreachable".
        NoPort => "ip6-local-no-udp-port" (info),
        /// A next header that the router does not know; the sender is told "unrecognized next header".
        NoProtocol => "ip6-local-unknown-next-header" (info),
    }
}

/// The node.
pub struct Ip6Local {
    plane: Arc<Plane>,
}

impl Ip6Local {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6Local { plane: Arc::clone(plane) }
    }
}

/// Of whom a message of neighbour discovery tells: its sender, or the target of an advertisement.
#[inline]
fn station(packet: &[u8], upper: usize, class: Class) -> Option<IpAddr> {
    let at = match class {
        Class::NdSolicitation => 8,
        Class::NdAdvertisement => upper + 8,
        _ => return None,
    };
    // From beyond the link come none (RFC 4861 section 7.1).
    let near = packet.get(7) == Some(&255);
    packet.get(at..at + 16)?.first_chunk::<16>().filter(|_| near).map(|a| Ipv6Addr::from(*a).into())
}

impl Node for Ip6Local {
    const NAME: &'static str = "ip6-local";
    type Next = Ip6LocalNext;
    type Drop = Ip6LocalReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<Ip6LocalNext, Ip6LocalReason> {
        if p.data().len() < 40 {
            return Err(Ip6LocalReason::TooShort.into());
        }
        // Before the rest of the headers is looked at: only all fragments together must hold it.
        if matches!(ext::fragment(p.data()), Ok(Some((f, _))) if !f.is_atomic()) {
            if !punt::admits(plane, p, Class::Fragment) {
                return Ok(Ip6LocalNext::Policed);
            }
            return Ok(Ip6LocalNext::Reassembly);
        }
        let Ok(upper) = ext::walk(p.data()) else { return Err(Ip6LocalReason::BadExtension.into()) };
        let class = Class::of_upper(upper.protocol, p.data().get(upper.offset..).unwrap_or_default());
        let station = station(p.data(), upper.offset, class);
        if !punt::admits_from(plane, p, class, station) {
            return Ok(Ip6LocalNext::Policed);
        }
        // Whatever the type, the router is not a waypoint: with segments left it must report (RFC 8200 section 4.4).
        if let Some(at) = upper.routing
            && p.data().get(usize::from(at) + 3).is_some_and(|left| *left != 0)
        {
            p.count(Ip6LocalReason::RoutingHeader);
            p.d.aux = Ask::v6_parameter_problem(0, at + 2).word();
            return Ok(Ip6LocalNext::Error);
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
        Ok(Ip6LocalNext::Error)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};

    /// An IPv6 packet with this first next header, and these bytes behind the fixed header.
    fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        p.extend([0x20; 32]);
        p.extend_from_slice(rest);
        p
    }

    fn asked(r: &mut Rig, p: &[u8]) -> Ask {
        let a = r.one(Input::new(p));
        assert_eq!(a.node, "ip6-icmp-error");
        Ask::from_word(a.d.aux)
    }

    #[test]
    fn protocols_are_told_apart() {
        let mut r = Rig::new(Ip6Local::new);
        let a = r.one(Input::new(&packet(58, &[128; 8])));
        assert_eq!((a.node, a.d.hash), ("icmp6-input", 40));
        assert_eq!(asked(&mut r, &packet(17, &[0; 8])), Ask::V6_PORT_UNREACHABLE);
        assert_eq!(asked(&mut r, &packet(200, &[0; 8])), Ask::v6_parameter_problem(1, 6));
        assert_eq!(r.drops(Input::new(&packet(6, &[0; 20]))), "ip6-local-no-tcp-listener");
        assert_eq!(r.drops(Input::new(&packet(59, &[]))), "ip6-local-no-next-header");
        for fragment in [[17, 0, 0, 8, 0, 0, 0, 1, 0, 0], [60, 0, 0, 1, 0, 0, 0, 1, 17, 9]] {
            assert_eq!(r.one(Input::new(&packet(44, &fragment))).node, "ip6-full-reassembly");
        }
        assert_eq!(r.drops(Input::new(&packet(60, &[17, 9, 0, 0]))), "ip6-local-bad-extension-header");
        assert_eq!(r.drops(Input::new(&packet(17, &[])[..39])), "ip6-local-too-short");
    }

    #[test]
    fn a_routing_header_with_segments_left_is_reported() {
        let mut r = Rig::new(Ip6Local::new);
        let mut p = packet(43, &[58, 0, 4, 1, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(asked(&mut r, &p), Ask::v6_parameter_problem(0, 42));
        assert_eq!(r.count("ip6-local-unknown-routing-header"), 1);
        p[43] = 0;
        assert_eq!(r.one(Input::new(&p)).node, "icmp6-input", "nothing left: the header is ignored");
    }
}
