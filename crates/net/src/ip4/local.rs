//! `ip4-local`: packets for the router itself.

use crate::fib::table::{V4, View};
use crate::icmp::Ask;
use crate::plane::{Plane, kind};
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
        Igmp => "igmp-input",
        Error => "ip4-icmp-error",
        Reassembly => "ip4-full-reassembly",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip4-local` counts.
    pub enum Ip4LocalReason {
        /// The packet has no IPv4 header.
        TooShort => "ip4-local-too-short",
        /// The source is the broadcast or network address of a connected prefix (RFC 1812 section 5.3.7).
        BroadcastSource => "ip4-local-broadcast-source",
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
    type View<'v> = (&'v Plane, View<'v, V4>);

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v> {
        (&self.plane, View::new(&self.plane, guard))
    }

    fn step((plane, tables): &mut Self::View<'_>, p: &mut Packet<'_>) -> Step<Ip4LocalNext, Ip4LocalReason> {
        let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort.into()) };
        let h = Ip4Header(h);
        let (src, protocol, fragment) = (h.src_u32(), h.protocol(), h.is_fragment());
        let class = class(h, p.data());
        if !punt::admits(plane, p, class) {
            return Ok(Ip4LocalNext::Policed);
        }
        if fragment {
            return Ok(Ip4LocalNext::Reassembly);
        }
        let from = tables.lookup_for(p.d, &src);
        if plane.groups.resolve(from, 0).kind == kind::BROADCAST {
            return Err(Ip4LocalReason::BroadcastSource.into());
        }
        match protocol.0 {
            1 => return Ok(Ip4LocalNext::Icmp),
            2 => return Ok(Ip4LocalNext::Igmp),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::punt::Limit;
    use crate::testing::{Input, Rig, fix_ip4};

    fn packet(protocol: u8, dst: [u8; 4], upper: &[u8]) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 20 + upper.len() as u8, 0, 1, 0, 0, 64, protocol, 0, 0, 203, 0, 113, 7];
        p.extend(dst);
        fix_ip4(&mut p);
        p.extend_from_slice(upper);
        p
    }

    #[test]
    fn every_packet_has_a_class_with_a_limit() {
        let mut r = Rig::new(Ip4Local::new);
        let ours = [192, 0, 2, 1];
        let mut fragment = packet(17, ours, &[0; 8]);
        fragment[6] = 0x20;
        for (p, class) in [
            (packet(1, ours, &[8, 0]), Class::Icmp),
            (packet(2, ours, &[0; 8]), Class::Igmp),
            (packet(6, ours, &[0, 1, 0, 179]), Class::Bgp),
            (packet(17, ours, &[0, 1, 0x0e, 0xc8]), Class::Bfd),
            (packet(17, ours, &[0, 1, 0, 7]), Class::Local),
            (packet(89, ours, &[]), Class::Ospf),
            (packet(17, [255; 4], &[0, 68, 0, 67]), Class::Broadcast),
            (fragment, Class::Fragment),
        ] {
            let limit = Limit { rate: 1, burst: 2 };
            r.plane.police.set(class, Some(limit));
            let nodes: Vec<_> = (0..3).map(|_| r.one(Input::new(&p)).node).collect();
            assert!(nodes[..2].iter().all(|n| *n != "punt-policer"), "{class:?}: {nodes:?}");
            let a = r.one(Input::new(&p));
            assert_eq!((nodes[2], a.node, a.d.aux), ("punt-policer", "punt-policer", class as u32));
        }
    }

    #[test]
    fn broadcast_sources_are_dropped() {
        let mut r = Rig::new(Ip4Local::new);
        for src in [[192, 0, 2, 255], [192, 0, 2, 0], [198, 51, 100, 255]] {
            for protocol in [1, 6, 17] {
                let mut p = packet(protocol, [192, 0, 2, 1], &[8, 0, 0, 0, 0, 0, 0, 0]);
                p[12..16].copy_from_slice(&src);
                fix_ip4(&mut p);
                assert_eq!(r.drops(Input::new(&p)), "ip4-local-broadcast-source");
            }
        }
    }

    #[test]
    fn fragments_are_put_together_first() {
        let mut r = Rig::new(Ip4Local::new);
        for place in [[0x20, 0], [0, 1], [0x20, 9]] {
            let mut p = packet(1, [192, 0, 2, 1], &[8; 8]);
            p[6..8].copy_from_slice(&place);
            assert_eq!(r.one(Input::new(&p)).node, "ip4-full-reassembly");
        }
        assert_eq!(r.drops(Input::new(&[0x45; 19])), "ip4-local-too-short");
    }
}
