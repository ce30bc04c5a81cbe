//! `ip6-icmp-error`: turns a packet into the ICMPv6 error that another node asks for, when one may be sent about it
//! (RFC 4443 section 2.4).

use super::{Ask, Desk, labels};
use crate::icmp::along::{self, AlongNext, Kept};
use crate::plane::table::{V6, View};
use crate::plane::{Plane, PlaneConfig, kind};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::IpProtocol;
use packet::icmp6::{self, ErrorMessage, MAX_ERROR_PACKET};
use packet::ip6::{Ip6Builder, Ip6View, addr};
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-icmp-error` sends packets.
    pub enum Ip6ErrorNext {
        Lookup => "ip6-lookup",
        MplsLookup => "mpls-lookup",
        MplsOutput => "mpls-output",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `ip6-icmp-error` counts.
    pub enum Ip6ErrorReason {
        /// The packet has no IPv6 header.
        TooShort => "icmp6-error-no-header",
        /// Not an error that exists.
        Unknown => "icmp6-error-unknown",
        /// The packet is the router's own.
        Own => "icmp6-error-about-own-packet",
        /// An ICMPv6 error or redirect, sent to many, or from no single node (RFC 4443 section 2.4(e)).
        NotAllowed => "icmp6-error-not-allowed",
        /// The router has no IPv6 address to send from.
        NoSource => "icmp6-error-no-source",
        /// An error was sent.
        Sent => "icmp6-errors-sent" (info),
    }
}

/// The node.
pub struct Ip6IcmpError {
    plane: Arc<Plane>,
    desk: Box<Desk<MAX_ERROR_PACKET>>,
}

impl Ip6IcmpError {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6IcmpError { plane: Arc::clone(plane), desk: Desk::new() }
    }
}

/// Snapshot of one vector.
pub struct Ip6ErrorView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    config: &'v PlaneConfig,
    desk: &'v mut Desk<MAX_ERROR_PACKET>,
}

impl Ask {
    fn error6(self) -> Option<ErrorMessage> {
        Some(match self.kind {
            icmp6::kind::UNREACHABLE => ErrorMessage::Unreachable(self.code),
            icmp6::kind::PACKET_TOO_BIG => ErrorMessage::PacketTooBig { mtu: self.value.into() },
            icmp6::kind::TIME_EXCEEDED => ErrorMessage::TimeExceeded(self.code),
            icmp6::kind::PARAMETER_PROBLEM => {
                ErrorMessage::ParameterProblem { code: self.code, pointer: self.value.into() }
            }
            _ => return None,
        })
    }
}

impl Ip6ErrorView<'_> {
    /// The address to send from (RFC 4443 section 2.2): the one that was addressed if it is the router's own, else one
    /// of the interface on which the packet came. A link-local address is of no use beyond its link.
    fn source(&self, rx: u32, src: u128, dst: u128) -> Option<u128> {
        let interface = self.plane.interfaces.get(rx, self.guard);
        let local = if addr::is_link_local(dst) {
            interface.is_some_and(|i| i.addrs6.iter().any(|a| a.0 == dst))
        } else {
            let tables = View::<V6>::new(self.plane, self.guard);
            let group = tables.lookup_one(rx, &dst.to_be_bytes());
            let e = self.plane.groups.resolve(group, 0);
            e.kind == kind::LOCAL && self.plane.interfaces.get(e.adj, self.guard).is_none_or(|i| i.has6(dst))
        };
        let reaches = |a: &u128| !addr::is_link_local(*a) || addr::is_link_local(src);
        if local && reaches(&dst) {
            return Some(dst);
        }
        if addr::is_link_local(src) {
            return interface.and_then(|i| i.source6(src));
        }
        super::any_source(self.plane, self.guard, rx, |i| i.table6, |i| i.source6(src).filter(reaches))
    }
}

impl Node for Ip6IcmpError {
    const NAME: &'static str = "ip6-icmp-error";
    type Next = Ip6ErrorNext;
    type Drop = Ip6ErrorReason;
    type View<'v> = Ip6ErrorView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6ErrorView<'v> {
        let Ip6IcmpError { plane, desk } = self;
        Ip6ErrorView { plane, guard, config: plane.config.load(guard), desk }
    }

    fn step(view: &mut Ip6ErrorView<'_>, p: &mut Packet<'_>) -> Step<Ip6ErrorNext, Ip6ErrorReason> {
        let Ok(original) = Ip6View::parse_quoted(p.data()) else {
            return Err(Ip6ErrorReason::TooShort.into());
        };
        let ask = Ask::from_word(p.d.aux);
        let Some(message) = ask.error6() else {
            return Err(Ip6ErrorReason::Unknown.into());
        };
        if p.has(flags::LOCAL) {
            return Err(Ip6ErrorReason::Own.into());
        }
        if !message.may_be_sent(&original, p.has(flags::L2_GROUP)) {
            return Err(Ip6ErrorReason::NotAllowed.into());
        }
        let (src, dst) = (original.src_u128(), original.dst_u128());
        if !view.plane.admits(p, ask.class6()) {
            return Ok(Ip6ErrorNext::Policed);
        }
        let Some(source) = view.source(p.d.rx, src, dst) else { return Err(Ip6ErrorReason::NoSource.into()) };
        // The quote is the packet as it was on the wire, its checksum complete.
        if p.has(flags::CSUM_PARTIAL) {
            let _ = crate::offload::complete(&mut p.env.buffers, p.d);
        }
        let Desk { quote, error } = &mut *view.desk;
        let quoted = p.env.buffers.copy_out(p.d, 0, quote);
        let ip = Ip6Builder {
            hop_limit: view.config.ttl,
            ..Ip6Builder::new(Ipv6Addr::from_bits(source), Ipv6Addr::from_bits(src), IpProtocol::ICMPV6)
        };
        let Ok(len) = message.emit_with_labels(error, ip, &quote[..quoted], labels::received(p)) else {
            return Err(Ip6ErrorReason::Unknown.into());
        };
        let along = Kept::of(p);
        super::replace(p, &error[..len]);
        if addr::is_link_local(src) {
            p.d.tx = p.d.rx;
        }
        p.count(Ip6ErrorReason::Sent);
        Ok(match along.and_then(|stack| stack.put(p)) {
            None => Ip6ErrorNext::Lookup,
            Some(AlongNext::Lookup) => Ip6ErrorNext::MplsLookup,
            Some(AlongNext::Output) => Ip6ErrorNext::MplsOutput,
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
    use crate::testing::{Input, Rig, hex};

    // Scapy: IPv6(src="2001:db8:9::9", dst="2001:db8:5::5", hlim=1) / UDP(sport=1000, dport=33434) / b"probe"
    const ORIGINAL: &str =
        "60000000000d1101 20010db8000900000000000000000009 20010db8000500000000000000000005
        03e8829a000dd8ee 70726f6265";
    // Scapy: IPv6(src="2001:db8:1::1", dst="2001:db8:9::9", hlim=64)
    const IP: &str = "60000000003d3a40 20010db8000100000000000000000001 20010db8000900000000000000000009";

    fn rig() -> Rig {
        Rig::new(Ip6IcmpError::new)
    }

    fn input(p: &[u8]) -> Input {
        Input::new(p).aux(Ask::V6_HOP_LIMIT_EXCEEDED.word())
    }

    fn addressed(src: &str, dst: &str) -> Vec<u8> {
        let mut p = hex(ORIGINAL);
        p[8..24].copy_from_slice(&src.parse::<Ipv6Addr>().unwrap().octets());
        p[24..40].copy_from_slice(&dst.parse::<Ipv6Addr>().unwrap().octets());
        p
    }

    #[test]
    fn as_scapy_makes_them() {
        for (ask, icmp) in [
            // Scapy: ICMPv6TimeExceeded(), ICMPv6PacketTooBig(mtu=1400), ICMPv6ParamProblem(code=2, ptr=42),
            //   ICMPv6DestUnreach(code=0), each / ORIGINAL
            (Ask::V6_HOP_LIMIT_EXCEEDED, "0300301200000000"),
            (Ask::v6_too_big(1400), "02002b9a00000578"),
            (Ask::v6_parameter_problem(2, 42), "04022ee60000002a"),
            (Ask::V6_NO_ROUTE, "0100321200000000"),
        ] {
            let a = rig().one(Input::new(&hex(ORIGINAL)).aux(ask.word()));
            assert_eq!((a.node, a.bytes), ("ip6-lookup", hex(&[IP, icmp, ORIGINAL].concat())), "{ask:?}");
            assert_eq!((a.d.flags, a.d.rx, a.d.tx), (flags::LOCAL, 1, 0));
        }
    }

    #[test]
    fn a_large_packet_is_quoted_up_to_1280_bytes() {
        let payload: Vec<u8> = (0..3001).map(|i| (i % 251) as u8).collect();
        // Scapy: IPv6(src=..., dst=..., hlim=1) / UDP(sport=1000, dport=33434) / payload
        let head = "600000000bc1110120010db800090000000000000000000920010db800050000000000000000000503e8829a0bc198e2";
        let large = [hex(head), payload].concat();
        // Scapy: the error with the first 1232 bytes of it
        let head = "6000000004d83a4020010db800010000000000000000000120010db800090000000000000000000903001b1900000000";
        for split in [48, 1231, 1232, 1233, 2000] {
            let a = rig().one(input(&large).split(split));
            assert_eq!(a.bytes, [&hex(head)[..], &large[..1232]].concat(), "split at {split}");
        }
    }

    #[test]
    fn a_partial_checksum_is_completed_in_the_quote() {
        let mut p = hex(ORIGINAL);
        let (a, b) = ("2001:db8:9::9".parse().unwrap(), "2001:db8:5::5".parse().unwrap());
        let sum = packet::checksum::pseudo6(a, b, IpProtocol(17), 13);
        p[46..48].copy_from_slice(&sum.fold().to_be_bytes());
        let mut i = input(&p);
        i.partial = Some((40, 6));
        assert_eq!(rig().one(i).bytes, hex(&[IP, "0300301200000000", ORIGINAL].concat()));
    }

    #[test]
    fn the_address_that_was_asked_is_the_source() {
        // Scapy: IPv6(src="2001:db8:9::9", dst="2001:db8:2::1", hlim=9) / UDP(...), and the error from 2001:db8:2::1
        let original = "60000000000d1109 20010db8000900000000000000000009 20010db8000200000000000000000001
            03e8829a000dd8f5 70726f6265";
        let error = "60000000003d3a40 20010db8000200000000000000000001 20010db8000900000000000000000009
            0104320500000000";
        let mut r = rig();
        let a = r.one(Input::new(&hex(original)).aux(Ask::V6_PORT_UNREACHABLE.word()));
        assert_eq!(a.bytes, hex(&[error, original].concat()));
        // Scapy: the same between link-local addresses of interface 1
        let original = "60000000000d1109 fe800000000000000000000000000009 fe800000000000000000000000000001
            03e8829a000d3771 70726f6265";
        let error = "60000000003d3a40 fe800000000000000000000000000001 fe800000000000000000000000000009
            0104908000000000";
        let a = r.one(Input::new(&hex(original)).aux(Ask::V6_PORT_UNREACHABLE.word()));
        assert_eq!(a.bytes, hex(&[error, original].concat()));
        assert_eq!((a.d.tx, a.d.rx), (1, 1), "back to the link");
        // Even where another address of the interface is nearer to the sender.
        let mut i = r.interfaces.get(1).unwrap().clone();
        i.addrs6 = Box::new([(0xfe80 << 112 | 8, 64), (0xfe80 << 112 | 1, 64)]);
        r.interfaces.replace(1, i);
        assert_eq!(r.one(input(&hex(original))).bytes[23], 1);
    }

    #[test]
    fn other_source_addresses() {
        let mut r = rig();
        let source = |r: &mut Rig, rx, src: &str, dst: &str| {
            let a = r.one(input(&addressed(src, dst)).rx(rx));
            assert_eq!((a.d.flags, a.d.tx), (flags::LOCAL, if src.starts_with("fe80") { rx } else { 0 }));
            Ipv6Addr::from(*a.bytes[8..].first_chunk::<16>().unwrap()).to_string()
        };
        assert_eq!(source(&mut r, 2, "2001:db8:9::9", "2001:db8:5::5"), "2001:db8:2::1");
        assert_eq!(
            source(&mut r, 3, "2001:db8:9::9", "2001:db8:5::5"),
            "2001:db8:1::1",
            "any of the router's"
        );
        assert_eq!(source(&mut r, 2, "fe80::9", "2001:db8:5::5"), "fe80::2");
        // A link-local address of another interface, or towards a source that is not on the link, is no answer.
        assert_eq!(source(&mut r, 2, "fe80::9", "fe80::1"), "fe80::2");
        assert_eq!(source(&mut r, 1, "2001:db8:9::9", "fe80::1"), "2001:db8:1::1");
        let mut i = r.interfaces.get(1).unwrap().clone();
        i.addrs6 = Box::new([(0xfe80 << 112 | 1, 64)]);
        r.interfaces.replace(1, i);
        assert_eq!(
            source(&mut r, 1, "2001:db8:9::9", "2001:db8:5::5"),
            "2001:db8:2::1",
            "not a link-local one"
        );
        assert_eq!(r.drops(input(&addressed("fe80::9", "2001:db8:5::5")).rx(3)), "icmp6-error-no-source");
    }

    #[test]
    fn packets_about_which_no_error_may_be_sent() {
        let mut r = rig();
        let refused = "icmp6-error-not-allowed";
        let (a, b) = ("2001:db8:9::9", "2001:db8:5::5");
        for src in ["::", "::1", "ff02::1"] {
            assert_eq!(r.drops(input(&addressed(src, b))), refused, "{src}");
        }
        assert_eq!(r.drops(input(&addressed(a, "ff0e::1"))), refused);
        assert_eq!(r.drops(input(&addressed(a, b)).flags(flags::L2_GROUP)), refused);
        for kind in [0, 1, 2, 3, 4, 127, 137] {
            let mut p = addressed(a, b);
            (p[6], p[40]) = (58, kind);
            assert_eq!(r.drops(input(&p)), refused, "type {kind}");
        }
        let mut echo = addressed(a, b);
        (echo[6], echo[40]) = (58, 128);
        assert_eq!(r.one(input(&echo)).node, "ip6-lookup");
        // The two that may answer what was sent to many.
        for ask in [Ask::v6_too_big(1280), Ask::v6_parameter_problem(2, 42)] {
            let many = Input::new(&addressed(a, "ff0e::1")).flags(flags::L2_GROUP).aux(ask.word());
            assert_eq!(r.one(many).node, "ip6-lookup");
        }
        let one = Input::new(&addressed(a, "ff0e::1")).aux(Ask::v6_parameter_problem(0, 42).word());
        assert_eq!(r.drops(one), refused);
    }

    #[test]
    fn other_drops() {
        let mut r = rig();
        assert_eq!(r.drops(input(&hex(ORIGINAL)[..39])), "icmp6-error-no-header");
        assert_eq!(r.drops(input(&hex(ORIGINAL)).flags(flags::LOCAL)), "icmp6-error-about-own-packet");
        for word in [0, 0x0500_0000, 0x8000_0000] {
            assert_eq!(r.drops(Input::new(&hex(ORIGINAL)).aux(word)), "icmp6-error-unknown");
        }
    }

    #[test]
    fn the_rate_is_limited_and_only_errors_count() {
        let mut r = rig();
        r.configure(|c| c.ttl = 99);
        r.plane.police.set(Class::TtlExceeded, Some(Limit::of_rate(100)));
        r.at_ns(7_000_000_000);
        r.run(&vec![input(&hex(ORIGINAL)).flags(flags::L2_GROUP); 50]);
        let out = r.run(&vec![input(&hex(ORIGINAL)); 30]);
        assert!(out.iter().all(|a| a.bytes[7] == 99 || a.node == "punt-policer"));
        assert_eq!(r.count("icmp6-errors-sent"), 10);
        assert_eq!(
            r.plane.police.counts(Class::TtlExceeded, 0),
            ClassCounts { passed: 10, spared: 0, dropped: 20 }
        );
        r.at_ns(7_020_000_000);
        assert_eq!(
            r.run(&vec![input(&hex(ORIGINAL)); 3]).iter().filter(|a| a.node == "ip6-lookup").count(),
            2
        );
    }
}
