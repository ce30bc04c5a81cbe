//! `ip6-local`: packets for the router itself.

use super::options;
use crate::icmp::{self, Ask};
use crate::interface::IfIndex;
use crate::plane::{IfCache, Plane, PlaneConfig};
use crate::protocols::{Common, Takers};
use crate::punt::{self, Class, Programs};
use crate::transport::{self, Fault, TcpResets};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, flags};
use packet::icmp6::{kind, parameter};
use packet::ip6::ext::{self, ExtError};
use packet::ip6::{self, Ip6Builder, Ip6Header};
use packet::{IpProtocol, checksum, tcp};
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
        Program => "program-punt",
        Lookup => "ip6-lookup",
        Protocol => "@ip6-protocol",
        Punt => "@ip6-punt",
        Features => "@ip6-local",
    }
}

graph::reasons! {
    /// What `ip6-local` counts.
    pub enum Ip6LocalReason {
        /// The packet has no IPv6 header.
        TooShort => "ip6-local-too-short",
        /// A TCP segment for a port on which nothing listens that gets no reset: it is one, was sent to many, or resets are off.
        NoTcp => "ip6-local-no-tcp-listener",
        /// A TCP segment whose header is cut off or says a wrong length.
        TcpLength => "ip6-local-bad-tcp-header",
        /// The checksum of a TCP segment is wrong.
        TcpChecksum => "ip6-local-bad-tcp-checksum",
        /// The length of a UDP datagram is under 8 bytes or beyond the packet.
        UdpLength => "ip6-local-bad-udp-length",
        /// The checksum of a UDP datagram is wrong, or zero to a port that no feature takes (RFC 8200 section 8.1, RFC 6935).
        UdpChecksum => "ip6-local-bad-udp-checksum",
        /// An unknown destination option whose type says "discard" (RFC 8200 section 4.2).
        Discard => "ip6-local-option-discard",
        /// More destination options than a node need take (RFC 8504 section 5.3).
        ManyOptions => "ip6-local-too-many-options",
        /// A destination option reaches beyond its header; the sender is told "erroneous header field".
        BadOption => "ip6-local-option-malformed" (info),
        /// An unknown destination option whose type says "discard and report"; the sender is told "unrecognized option".
        UnknownOption => "ip6-local-option-unknown" (info),
        /// A hop-by-hop header that is not the first one; the sender is told "unrecognized next header".
        HopByHop => "ip6-local-hop-by-hop-not-first" (info),
        /// A TCP segment for a port on which nothing listens was answered with a reset (RFC 9293 section 3.10.7.1).
        Reset => "ip6-local-tcp-resets-sent" (info),
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
        /// Linux got no copy: only buffers that other packets need are left.
        NoCopy => "ip6-local-no-copy-for-linux" (info),
    }
}

/// The node.
pub struct Ip6Local {
    plane: Arc<Plane>,
    resets: Arc<Published<TcpResets>>,
    takers: Arc<Takers>,
    programs: Arc<Published<Programs>>,
}

impl Ip6Local {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6Local {
            plane: Arc::clone(plane),
            resets: plane.publish(),
            takers: plane.shared(),
            programs: plane.publish(),
        }
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

/// Snapshot of one vector.
pub struct Ip6LocalView<'v> {
    ifs: IfCache<'v>,
    plane: &'v Plane,
    guard: &'v Guard,
    config: &'v PlaneConfig,
    resets: TcpResets,
    takers: &'v Takers,
    programs: &'v Programs,
}

/// Goes through the extension headers in their order (RFC 8200 section 4.1) and answers what is wrong with the first one that
/// is not to be taken.
fn extensions(packet: &[u8], multicast: bool) -> Result<(), (Ip6LocalReason, Option<Ask>)> {
    for (kind, place) in ext::Headers::new(packet) {
        match kind {
            IpProtocol::DEST_OPTIONS => {
                options::check(packet, place, multicast, |_| Ok(false)).map_err(|f| {
                    let why = match f {
                        options::Fault::TooMany => Ip6LocalReason::ManyOptions,
                        options::Fault::Discard => Ip6LocalReason::Discard,
                        options::Fault::Malformed(_) => Ip6LocalReason::BadOption,
                        options::Fault::Unknown(_) => Ip6LocalReason::UnknownOption,
                    };
                    (why, f.ask())
                })?;
            }
            // Whatever the type, the router is not a waypoint: with segments left it must report (RFC 8200 section 4.4).
            IpProtocol::ROUTING if packet.get(place.start + 3).is_some_and(|left| *left != 0) => {
                let ask = Ask::v6_parameter_problem(parameter::HEADER_FIELD, place.start as u16 + 2);
                return Err((Ip6LocalReason::RoutingHeader, Some(ask)));
            }
            _ => {}
        }
    }
    match ext::walk(packet) {
        Ok(_) => Ok(()),
        Err(ExtError::HopByHopNotFirst { pointer }) => {
            let ask = Ask::v6_parameter_problem(parameter::NEXT_HEADER, pointer as u16);
            Err((Ip6LocalReason::HopByHop, Some(ask)))
        }
        Err(_) => Err((Ip6LocalReason::BadExtension, None)),
    }
}

/// The answer to the TCP segment at `at`.
fn tcp(view: &Ip6LocalView<'_>, p: &mut Packet<'_>, at: usize) -> Step<Ip6LocalNext, Ip6LocalReason> {
    let Some(h) = p.head::<40>() else { return Err(Ip6LocalReason::TooShort.into()) };
    let (src, dst) = (Ip6Header(h).src(), Ip6Header(h).dst());
    let pseudo = |len: u32| checksum::pseudo6(src, dst, IpProtocol::TCP, len);
    let reset = transport::reset(p, at, pseudo).map_err(|f| match f {
        Fault::Length => Ip6LocalReason::TcpLength,
        Fault::Checksum => Ip6LocalReason::TcpChecksum,
    })?;
    // A reset from another address would be of no use to who sent to an anycast address.
    let unicast =
        || icmp::unicast6(view.plane, view.guard, p.d, dst.to_bits(), src.to_bits()) == dst.to_bits();
    let one_each =
        !dst.is_multicast() && !src.is_unspecified() && !src.is_multicast() && !p.has(flags::L2_GROUP);
    let Some(reset) = reset.filter(|_| view.resets.0 && one_each && unicast()) else {
        return Err(Ip6LocalReason::NoTcp.into());
    };
    if !view.plane.admits(p, Class::TcpReset) {
        return Ok(Ip6LocalNext::Policed);
    }
    let ip = Ip6Builder { hop_limit: view.config.ttl, ..Ip6Builder::new(dst, src, IpProtocol::TCP) };
    let mut out = [0; 60];
    let whole = ip.emit(&mut out, tcp::HEADER_LEN).and_then(|at| reset.emit6(&mut out[at..], dst, src, &[]));
    whole.map_err(|_| Ip6LocalReason::TcpLength)?;
    icmp::replace(p, &out);
    if super::lookup::is_link_local(src.to_bits()) || super::lookup::is_link_local(dst.to_bits()) {
        p.d.tx = p.d.rx;
    }
    p.count(Ip6LocalReason::Reset);
    Ok(Ip6LocalNext::Lookup)
}

/// Checks the datagram at `at`; `bare` says whether it may go without a checksum.
fn check_udp(p: &Packet<'_>, at: usize, bare: bool) -> Result<(), Ip6LocalReason> {
    let Some(h) = p.head::<40>() else { return Err(Ip6LocalReason::TooShort) };
    let (src, dst) = (Ip6Header(h).src(), Ip6Header(h).dst());
    let pseudo = |len: u16| checksum::pseudo6(src, dst, IpProtocol::UDP, len.into());
    transport::check_udp(p, at, bare, pseudo).map_err(|f| match f {
        Fault::Length => Ip6LocalReason::UdpLength,
        Fault::Checksum => Ip6LocalReason::UdpChecksum,
    })
}

/// What becomes of a packet that its features have let pass, on an interface whose packets are `punted` to these features of
/// `ip6-punt`.
pub(super) fn dispatch(
    view: &mut Ip6LocalView<'_>,
    p: &mut Packet<'_>,
    punted: u32,
) -> Step<Ip6LocalNext, Ip6LocalReason> {
    let Some(h) = p.head::<40>() else { return Err(Ip6LocalReason::TooShort.into()) };
    let dst = Ip6Header(h).dst();
    // Before the rest of the headers is looked at: only all fragments together must hold it.
    let linux = punted != 0;
    if let Ok(Some((f, _))) = ext::fragment(p.data())
        && !f.is_atomic()
    {
        if !view.plane.admits(p, Class::Fragment) {
            return Ok(Ip6LocalNext::Policed);
        }
        // Linux puts fragments together itself.
        let taken = |next: &u8| {
            let protocol = IpProtocol(*next);
            view.takers.may_take(true, protocol) || view.programs.may_take(true, protocol)
        };
        if linux && !p.data().get(f.header).is_some_and(taken) {
            (p.d.aux, p.d.feat) = (punt::linux::PACKET, punted);
            return Ok(Ip6LocalNext::Punt);
        }
        return Ok(Ip6LocalNext::Reassembly);
    }
    let upper = ext::walk(p.data());
    if let Ok(u) = upper
        && let taken_by @ 1.. = view.takers.of_packet(true, u.protocol, p.data(), u.offset)
        && extensions(p.data(), dst.is_multicast()).is_ok()
    {
        if u.protocol == IpProtocol::UDP {
            // Who takes tunnels takes them without a checksum, too (RFC 6935).
            check_udp(p, u.offset, true)?;
        }
        (p.d.feat, p.d.aux) = (taken_by, u.offset as u32);
        return Ok(Ip6LocalNext::Protocol);
    }
    let mut class = upper
        .map_or(Class::Local, |u| Class::of_upper(u.protocol, p.data().get(u.offset..).unwrap_or_default()));
    let asked = |u: ext::UpperLayer| view.programs.of_packet(true, u.protocol, p.data(), u.offset, p.d.rx);
    let program = upper.ok().and_then(|u| Some((asked(u)?, u)));
    if class == Class::Local {
        class = match (program, linux) {
            (Some(_), _) => Class::Api,
            (None, true) => Class::Linux,
            (None, false) => class,
        };
    }
    let station = upper.ok().and_then(|u| station(p.data(), u.offset, class));
    if !view.plane.admits_from(p, class, station) {
        return Ok(Ip6LocalNext::Policed);
    }
    if let Some((asked, u)) = program
        && extensions(p.data(), dst.is_multicast()).is_ok()
    {
        if u.protocol == IpProtocol::UDP {
            check_udp(p, u.offset, false)?;
        }
        p.d.aux = asked.word();
        return Ok(Ip6LocalNext::Program);
    }
    if linux {
        let both = |u: ext::UpperLayer| {
            u.protocol == IpProtocol::ICMPV6 && p.data().get(u.offset) != Some(&kind::ECHO_REQUEST)
        };
        if !upper.is_ok_and(both) {
            (p.d.aux, p.d.feat) = (punt::linux::PACKET, punted);
            return Ok(Ip6LocalNext::Punt);
        }
        if !punt::linux::copy(p, punt::linux::PACKET, punted, Ip6LocalNext::Punt) {
            p.count(Ip6LocalReason::NoCopy);
        }
    }
    if upper.is_err() || upper.is_ok_and(|u| u.offset != ip6::HEADER_LEN) {
        match extensions(p.data(), dst.is_multicast()) {
            Ok(()) => {}
            Err((why, None)) => return Err(why.into()),
            Err((why, Some(ask))) => {
                p.count(why);
                p.d.aux = ask.word();
                return Ok(Ip6LocalNext::Error);
            }
        }
    }
    let Ok(upper) = upper else { return Err(Ip6LocalReason::BadExtension.into()) };
    // Where the upper-layer header stands, for the ICMPv6 nodes.
    p.d.hash = u32::from(upper.offset as u16);
    match upper.protocol.0 {
        58 => return Ok(Ip6LocalNext::Icmp),
        6 => return tcp(view, p, upper.offset),
        59 => return Err(Ip6LocalReason::NoNextHeader.into()),
        17 => {
            check_udp(p, upper.offset, false)?;
            p.count(Ip6LocalReason::NoPort);
            p.d.aux = Ask::V6_PORT_UNREACHABLE.word();
        }
        _ => {
            p.count(Ip6LocalReason::NoProtocol);
            p.d.aux = Ask::v6_parameter_problem(parameter::NEXT_HEADER, upper.named_at as u16).word();
        }
    }
    Ok(Ip6LocalNext::Error)
}

impl Ip6LocalView<'_> {
    /// What packets of an interface visit that are not the router's alone.
    pub(super) fn punted(&mut self, rx: IfIndex) -> u32 {
        self.ifs.get(rx).map_or(0, |i| i.ip6_punt)
    }
}

impl Node for Ip6Local {
    const NAME: &'static str = "ip6-local";
    type Next = Ip6LocalNext;
    type Drop = Ip6LocalReason;
    type View<'v> = Ip6LocalView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6LocalView<'v> {
        Ip6LocalView {
            ifs: IfCache::new(&self.plane, guard),
            plane: &self.plane,
            guard,
            config: self.plane.config.load(guard),
            resets: *self.resets.load(guard),
            takers: &self.takers,
            programs: self.programs.load(guard),
        }
    }

    fn step(view: &mut Ip6LocalView<'_>, p: &mut Packet<'_>) -> Step<Ip6LocalNext, Ip6LocalReason> {
        let i = view.ifs.get(p.d.rx);
        let (features, punt) = i.map_or((0, 0), |i| (i.ip6_local, i.ip6_punt));
        if features != 0 {
            p.d.feat = features;
            return Ok(Ip6LocalNext::Features);
        }
        dispatch(view, p, punt)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

impl QuickNode for Ip6Local {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &Ip6LocalView<'v>,
        first: &Desc,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Ip6LocalNext, Common<'v>)> {
        Common::of::<true>(view.takers, view.plane, guard, first, rooms)
            .map(|common| (Ip6LocalNext::Protocol, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        common.quick::<true>(descs, rooms)
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

    fn udp() -> Vec<u8> {
        let mut p = packet(17, &[0, 1, 0, 7, 0, 8, 0, 0]);
        let h = Ip6Header(p.first_chunk().unwrap());
        let mut sum = checksum::pseudo6(h.src(), h.dst(), IpProtocol::UDP, 8);
        sum.add_bytes(&p[40..]);
        p[46..48].copy_from_slice(&sum.checksum_nonzero().to_be_bytes());
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
        assert_eq!(asked(&mut r, &udp()), Ask::V6_PORT_UNREACHABLE);
        assert_eq!(asked(&mut r, &packet(200, &[0; 8])), Ask::v6_parameter_problem(1, 6));
        assert_eq!(r.drops(Input::new(&packet(6, &[0; 19]))), "ip6-local-bad-tcp-header");
        assert_eq!(r.drops(Input::new(&packet(59, &[]))), "ip6-local-no-next-header");
        for fragment in [[17, 0, 0, 8, 0, 0, 0, 1, 0, 0], [60, 0, 0, 1, 0, 0, 0, 1, 17, 9]] {
            assert_eq!(r.one(Input::new(&packet(44, &fragment))).node, "ip6-full-reassembly");
        }
        assert_eq!(r.drops(Input::new(&packet(60, &[17, 9, 0, 0]))), "ip6-local-bad-extension-header");
        assert_eq!(r.drops(Input::new(&packet(17, &[])[..39])), "ip6-local-too-short");
    }

    #[test]
    fn datagrams_are_checked_first() {
        let mut r = Rig::new(Ip6Local::new);
        for (at, value, why) in [
            (46, 0x12, "ip6-local-bad-udp-checksum"),
            (45, 7, "ip6-local-bad-udp-length"),
            (45, 9, "ip6-local-bad-udp-length"),
        ] {
            let mut p = udp();
            p[at] = value;
            assert_eq!(r.drops(Input::new(&p)), why);
        }
        let mut p = udp();
        p[46..48].fill(0);
        assert_eq!(r.drops(Input::new(&p)), "ip6-local-bad-udp-checksum", "none over IPv6");
        assert_eq!(r.drops(Input::new(&p[..47])), "ip6-local-bad-udp-length");
        assert_eq!(r.one(Input::new(&udp()).split(45)).node, "ip6-icmp-error", "in pieces");
        p = udp();
        p[46] ^= 1;
        assert_eq!(
            r.one(Input::new(&p).flags(flags::CSUM_VALID)).node,
            "ip6-icmp-error",
            "seen by the device"
        );
    }

    #[test]
    fn destination_options() {
        let mut r = Rig::new(Ip6Local::new);
        let with = |kind: u8, dst: u8| {
            let mut p = packet(60, &[58, 0, kind, 2, 0, 0, 1, 0, 128, 0, 0, 0, 0, 0, 0, 0]);
            p[24] = dst;
            p
        };
        let unknown = Ask::v6_parameter_problem(2, 42);
        for dst in [0x20, 0xff] {
            assert_eq!(r.one(Input::new(&with(0x1e, dst))).node, "icmp6-input");
            assert_eq!(r.drops(Input::new(&with(0x5e, dst))), "ip6-local-option-discard");
            assert_eq!(asked(&mut r, &with(0x9e, dst)), unknown);
        }
        assert_eq!(asked(&mut r, &with(0xde, 0x20)), unknown);
        assert_eq!(r.drops(Input::new(&with(0xde, 0xff))), "ip6-local-option-discard", "to a group");
        let mut p = with(0x1e, 0x20);
        p[43] = 5;
        assert_eq!(asked(&mut r, &p), Ask::v6_parameter_problem(0, 43));
        let many = [&[58, 2][..], &[0x1e, 0].repeat(9), &[1, 2, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(r.drops(Input::new(&packet(60, &many))), "ip6-local-too-many-options");
        // What stands first is found first: an option, then a hop-by-hop header that is not in its place.
        let two = [0, 0, 0x9e, 2, 0, 0, 1, 0, 58, 0, 1, 4, 0, 0, 0, 0, 128, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked(&mut r, &packet(60, &two)), unknown);
        let mut good = two;
        good[2] = 0x1e;
        assert_eq!(asked(&mut r, &packet(60, &good)), Ask::v6_parameter_problem(1, 40));
        assert_eq!(r.count("ip6-local-hop-by-hop-not-first"), 1);
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
