//! `ip4-icmp-error`: turns a packet into the ICMP error that another node asks for, when one may be sent about it.

use super::{Ask, Desk, labels};
use crate::icmp::along::{self, AlongNext, Kept};
use crate::plane::table::{V4, View};
use crate::plane::{Plane, PlaneConfig, kind};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::IpProtocol;
use packet::icmp4::{self, ErrorMessage, MAX_ERROR_PACKET};
use packet::ip4::{Ip4Builder, Ip4View};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-icmp-error` sends packets.
    pub enum Ip4ErrorNext {
        Lookup => "ip4-lookup",
        MplsLookup => "mpls-lookup",
        MplsOutput => "mpls-output",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip4-icmp-error` counts.
    pub enum Ip4ErrorReason {
        /// The packet has no IPv4 header.
        TooShort => "icmp4-error-no-header",
        /// Not an error that exists.
        Unknown => "icmp4-error-unknown",
        /// The packet is the router's own.
        Own => "icmp4-error-about-own-packet",
        /// An ICMP error, a later fragment, sent to many or from no single host (RFC 1812 section 4.3.2.7).
        NotAllowed => "icmp4-error-not-allowed",
        /// The router has no IPv4 address to send from.
        NoSource => "icmp4-error-no-source",
        /// An error was sent.
        Sent => "icmp4-errors-sent" (info),
    }
}

/// The node.
pub struct Ip4IcmpError {
    plane: Arc<Plane>,
    desk: Box<Desk<MAX_ERROR_PACKET>>,
    id: u16,
}

impl Ip4IcmpError {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4IcmpError { plane: Arc::clone(plane), desk: Desk::new(), id: 0 }
    }
}

/// Snapshot of one vector.
pub struct Ip4ErrorView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    config: &'v PlaneConfig,
    desk: &'v mut Desk<MAX_ERROR_PACKET>,
    id: &'v mut u16,
}

/// Precedence "internetwork control" (RFC 1812 section 4.3.2.5).
const TOS: u8 = 0xc0;

impl Ask {
    fn error4(self) -> Option<ErrorMessage> {
        Some(match self.kind {
            icmp4::kind::UNREACHABLE if self.code == icmp4::unreachable::FRAGMENTATION_NEEDED => {
                ErrorMessage::FragmentationNeeded { mtu: self.value }
            }
            icmp4::kind::UNREACHABLE => ErrorMessage::Unreachable(self.code),
            icmp4::kind::TIME_EXCEEDED => ErrorMessage::TimeExceeded(self.code),
            icmp4::kind::PARAMETER_PROBLEM => ErrorMessage::ParameterProblem { pointer: self.value as u8 },
            _ => return None,
        })
    }
}

impl Node for Ip4IcmpError {
    const NAME: &'static str = "ip4-icmp-error";
    type Next = Ip4ErrorNext;
    type Drop = Ip4ErrorReason;
    type View<'v> = Ip4ErrorView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4ErrorView<'v> {
        let Ip4IcmpError { plane, desk, id } = self;
        Ip4ErrorView { plane, guard, config: plane.config.load(guard), desk, id }
    }

    fn step(view: &mut Ip4ErrorView<'_>, p: &mut Packet<'_>) -> Step<Ip4ErrorNext, Ip4ErrorReason> {
        let Ok(original) = Ip4View::parse_quoted(p.data()) else {
            return Err(Ip4ErrorReason::TooShort.into());
        };
        let ask = Ask::from_word(p.d.aux);
        let Some(message) = ask.error4() else {
            return Err(Ip4ErrorReason::Unknown.into());
        };
        if p.has(flags::LOCAL) {
            return Err(Ip4ErrorReason::Own.into());
        }
        let (src, dst) = (original.src_u32(), original.dst_u32());
        // Directed broadcasts are known to the routing table only.
        let tables = View::<V4>::new(view.plane, view.guard);
        let broadcast = |a| view.plane.groups.resolve(tables.lookup_for(p.d, &a), 0).kind == kind::BROADCAST;
        if !icmp4::may_send_error(&original, p.has(flags::L2_GROUP), broadcast(dst) || broadcast(src)) {
            return Err(Ip4ErrorReason::NotAllowed.into());
        }
        if !view.plane.admits(p, ask.class4()) {
            return Ok(Ip4ErrorNext::Policed);
        }
        // The interface on which the packet came, not the one over which the error leaves: traceroute then shows the
        // path that was taken.
        let source = super::any_source(view.plane, view.guard, p.d.rx, |i| i.table4, |i| i.source4(src));
        let Some(source) = source else { return Err(Ip4ErrorReason::NoSource.into()) };
        // The quote is the packet as it was on the wire, its checksum complete.
        if p.has(flags::CSUM_PARTIAL) {
            let _ = crate::offload::complete(&mut p.env.buffers, p.d);
        }
        let Desk { quote, error } = &mut *view.desk;
        let quoted = p.env.buffers.copy_out(p.d, 0, quote);
        *view.id = view.id.wrapping_add(1);
        let ip = Ip4Builder {
            tos: TOS,
            id: *view.id,
            ttl: view.config.ttl,
            ..Ip4Builder::new(Ipv4Addr::from_bits(source), Ipv4Addr::from_bits(src), IpProtocol::ICMP)
        };
        let Ok(len) = message.emit_with_labels(error, ip, &quote[..quoted], labels::received(p)) else {
            return Err(Ip4ErrorReason::Unknown.into());
        };
        let along = Kept::of(p);
        super::replace(p, &error[..len]);
        p.count(Ip4ErrorReason::Sent);
        Ok(match along.and_then(|stack| stack.put(p)) {
            None => Ip4ErrorNext::Lookup,
            Some(AlongNext::Lookup) => Ip4ErrorNext::MplsLookup,
            Some(AlongNext::Output) => Ip4ErrorNext::MplsOutput,
        })
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        along::format_trace(r, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::punt::{Class, ClassCounts, Limit};
    use crate::testing::{Input, Rig, fix_ip4, hex};

    // Scapy: IP(src="203.0.113.7", dst="198.51.100.77", id=0x4242, ttl=1, flags="DF") /
    //   UDP(sport=1000, dport=33434) / b"probe"
    const ORIGINAL: &str = "45000021424240000111d101cb007107c633644d 03e8829a000dcdf3 70726f6265";
    // Scapy: IP(src="192.0.2.1", dst="203.0.113.7", id=1, tos=0xc0, ttl=64)
    const IP: &str = "45c0003d0001000040017bf6c0000201cb007107";

    fn rig() -> Rig {
        Rig::new(Ip4IcmpError::new)
    }

    fn input(p: &[u8]) -> Input {
        Input::new(p).aux(Ask::V4_TTL_EXCEEDED.word())
    }

    #[test]
    fn as_scapy_makes_them() {
        for (ask, icmp) in [
            // Scapy: ICMP(type=11, code=0), ICMP(type=3, code=3), ICMP(type=3, code=4, nexthopmtu=1400),
            //   ICMP(type=12, code=0, ptr=21), each / ORIGINAL
            (Ask::V4_TTL_EXCEEDED, "0b005ba700000000"),
            (Ask::V4_PORT_UNREACHABLE, "030363a400000000"),
            (Ask::v4_fragmentation_needed(1400), "03045e2b00000578"),
            (Ask::v4_parameter_problem(21), "0c0045a715000000"),
        ] {
            let a = rig().one(Input::new(&hex(ORIGINAL)).aux(ask.word()));
            assert_eq!((a.node, a.bytes), ("ip4-lookup", hex(&[IP, icmp, ORIGINAL].concat())), "{ask:?}");
            assert_eq!((a.d.flags, a.d.rx), (flags::LOCAL, 1));
        }
    }

    #[test]
    fn a_large_packet_is_quoted_up_to_576_bytes() {
        let payload: Vec<u8> = (0..3001).map(|i| (i % 251) as u8).collect();
        // Scapy: IP(src="203.0.113.7", dst="198.51.100.77", id=0x4242, ttl=1) / UDP(sport=1000, dport=33434) / payload
        let large = [hex("45000bd5424200000111054ecb007107c633644d03e8829a0bc18de7"), payload].concat();
        // Scapy: the error with the first 548 bytes of it
        let head = hex("45c0024000010000400179f3c0000201cb0071070b00827900000000");
        for split in [40, 547, 548, 549, 2000] {
            let a = rig().one(input(&large).split(split));
            assert_eq!(a.bytes, [&head[..], &large[..548]].concat(), "split at {split}");
            assert!(!a.d.has(flags::CHAINED));
        }
    }

    #[test]
    fn a_partial_checksum_is_completed_in_the_quote() {
        let mut p = hex(ORIGINAL);
        // Sum of the pseudo header: 203.0.113.7, 198.51.100.77, 17, 13.
        let sum =
            packet::checksum::pseudo4([203, 0, 113, 7].into(), [198, 51, 100, 77].into(), IpProtocol(17), 13);
        p[26..28].copy_from_slice(&sum.fold().to_be_bytes());
        let mut i = input(&p);
        i.partial = Some((20, 6));
        i.gso = Some((1000, 5));
        let a = rig().one(i);
        assert_eq!(a.bytes, hex(&[IP, "0b005ba700000000", ORIGINAL].concat()));
        assert_eq!(a.d.flags, flags::LOCAL);
    }

    #[test]
    fn identifications_and_ttl() {
        let mut r = rig();
        r.configure(|c| c.ttl = 99);
        let out = r.run(&[input(&hex(ORIGINAL)), input(&hex(ORIGINAL)).flags(flags::TRACED)]);
        assert_eq!([out[0].bytes[5], out[1].bytes[5]], [1, 2]);
        assert_eq!(out[1].d.flags, flags::LOCAL | flags::TRACED);
        assert!(out.iter().all(|a| a.bytes[8] == 99 && packet::ip4::check(&a.bytes, a.bytes.len()).is_ok()));
        assert_eq!(r.count("icmp4-errors-sent"), 2);
    }

    #[test]
    fn the_source_address() {
        let mut r = rig();
        assert_eq!(r.one(input(&hex(ORIGINAL)).rx(2)).bytes[12..16], [198, 51, 100, 1]);
        assert_eq!(r.one(input(&hex(ORIGINAL)).rx(3)).bytes[12..16], [192, 0, 2, 1], "any of the router's");
        assert_eq!(r.one(input(&hex(ORIGINAL)).rx(77)).bytes[12..16], [192, 0, 2, 1]);
        for index in [1, 2] {
            let mut i = r.interfaces.get(index).unwrap().clone();
            i.addrs4 = Box::new([]);
            r.interfaces.replace(index, i);
        }
        assert_eq!(r.drops(input(&hex(ORIGINAL))), "icmp4-error-no-source");
    }

    #[test]
    fn packets_about_which_no_error_may_be_sent() {
        let mut r = rig();
        let mut refuse = |why: &str, change: &dyn Fn(&mut Vec<u8>), flags: u16| {
            let mut p = hex(ORIGINAL);
            change(&mut p);
            fix_ip4(&mut p);
            assert_eq!(r.drops(input(&p).flags(flags)), "icmp4-error-not-allowed", "{why}");
        };
        refuse("later fragment", &|p| p[7] = 1, 0);
        refuse("link-layer broadcast", &|_| {}, flags::L2_GROUP);
        for kind in [3, 4, 5, 11, 12] {
            refuse("ICMP error", &|p| (p[9], p[20]) = (1, kind), 0);
        }
        for src in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 5], [255; 4], [240, 0, 0, 1], [192, 0, 2, 255]]
        {
            refuse("source", &|p| p[12..16].copy_from_slice(&src), 0);
        }
        for dst in [[224, 0, 0, 5], [255; 4], [192, 0, 2, 255], [198, 51, 100, 255], [192, 0, 2, 0]] {
            refuse("destination", &|p| p[16..20].copy_from_slice(&dst), 0);
        }
        let mut echo = hex(ORIGINAL);
        (echo[9], echo[20]) = (1, 8);
        assert_eq!(r.one(input(&echo)).node, "ip4-lookup");
        let mut first = hex(ORIGINAL);
        first[6] = 0x20;
        assert_eq!(r.one(input(&first)).node, "ip4-lookup");
    }

    #[test]
    fn other_drops() {
        let mut r = rig();
        assert_eq!(r.drops(input(&hex(ORIGINAL)[..19])), "icmp4-error-no-header");
        assert_eq!(r.drops(input(&hex(ORIGINAL)).flags(flags::LOCAL)), "icmp4-error-about-own-packet");
        for word in [0, 0x0500_0000, 0x0800_0000] {
            assert_eq!(r.drops(Input::new(&hex(ORIGINAL)).aux(word)), "icmp4-error-unknown");
        }
    }

    #[test]
    fn the_rate_is_limited_and_only_errors_count() {
        let mut r = rig();
        r.plane.police.set(Class::TtlExceeded, Some(Limit::of_rate(100)));
        r.at_ns(7_000_000_000);
        let refused = vec![input(&hex(ORIGINAL)).flags(flags::L2_GROUP); 50];
        assert_eq!(r.run(&refused).len(), 50);
        let sent = |r: &mut Rig| {
            let out = r.run(&vec![input(&hex(ORIGINAL)); 30]);
            assert!(out.iter().all(|a| ["ip4-lookup", "punt-policer"].contains(&a.node)));
            out.iter().filter(|a| a.node == "ip4-lookup").count()
        };
        assert_eq!([sent(&mut r), sent(&mut r)], [10, 0]);
        r.at_ns(7_050_000_000);
        assert_eq!(sent(&mut r), 5);
        assert_eq!(r.count("icmp4-errors-sent"), 15);
        assert_eq!(
            r.plane.police.counts(Class::TtlExceeded, 0),
            ClassCounts { passed: 15, spared: 0, dropped: 75 }
        );
        let other = Input::new(&hex(ORIGINAL)).aux(Ask::V4_HOST_UNREACHABLE.word());
        assert_eq!(r.one(other).node, "ip4-lookup", "another class");
    }
}
