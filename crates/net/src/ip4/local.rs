//! `ip4-local`: packets for the router itself.

use crate::icmp::{self, Ask};
use crate::interface::IfIndex;
use crate::plane::table::{V4, View};
use crate::plane::{IfCache, Plane, PlaneConfig, kind};
use crate::protocols::{Common, Takers};
use crate::punt::{self, Class, Programs};
use crate::transport::{self, Fault, TcpResets};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, flags};
use packet::ip4::{Ip4Builder, Ip4Header, addr};
use packet::{IpProtocol, checksum, tcp};
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
        Program => "program-punt",
        Lookup => "ip4-lookup",
        Protocol => "@ip4-protocol",
        Punt => "@ip4-punt",
        Features => "@ip4-local",
    }
}

graph::reasons! {
    /// What `ip4-local` counts.
    pub enum Ip4LocalReason {
        /// The packet has no IPv4 header.
        TooShort => "ip4-local-too-short",
        /// The source is the broadcast or network address of a connected prefix (RFC 1812 section 5.3.7).
        BroadcastSource => "ip4-local-broadcast-source",
        /// A TCP segment for a port on which nothing listens that gets no reset: it is one, was sent to many, or resets are off.
        NoTcp => "ip4-local-no-tcp-listener",
        /// A TCP segment whose header is cut off or says a wrong length.
        TcpLength => "ip4-local-bad-tcp-header",
        /// The checksum of a TCP segment is wrong.
        TcpChecksum => "ip4-local-bad-tcp-checksum",
        /// The length of a UDP datagram is under 8 bytes or beyond the packet.
        UdpLength => "ip4-local-bad-udp-length",
        /// The checksum of a UDP datagram is wrong (RFC 1122 section 4.1.3.4).
        UdpChecksum => "ip4-local-bad-udp-checksum",
        /// A TCP segment for a port on which nothing listens was answered with a reset (RFC 9293 section 3.10.7.1).
        Reset => "ip4-local-tcp-resets-sent" (info),
        /// A UDP datagram for a port on which nothing listens; the sender is told "port unreachable".
        NoPort => "ip4-local-no-udp-port" (info),
        /// A protocol that the router does not speak; the sender is told "protocol unreachable".
        NoProtocol => "ip4-local-unknown-protocol" (info),
        /// Linux got no copy: only buffers that other packets need are left.
        NoCopy => "ip4-local-no-copy-for-linux" (info),
    }
}

/// The node.
pub struct Ip4Local {
    plane: Arc<Plane>,
    resets: Arc<Published<TcpResets>>,
    takers: Arc<Takers>,
    programs: Arc<Published<Programs>>,
}

impl Ip4Local {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Local {
            plane: Arc::clone(plane),
            resets: plane.publish(),
            takers: plane.shared(),
            programs: plane.publish(),
        }
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

/// Whether the router wants to hear of a packet beside Linux: of groups, and answers to what it asked or sent itself.
fn is_for_both(protocol: IpProtocol, packet: &[u8], header_len: usize) -> bool {
    let asks = || packet.get(header_len) == Some(&packet::icmp4::kind::ECHO_REQUEST);
    protocol == IpProtocol::IGMP || protocol == IpProtocol::ICMP && !asks()
}

/// Snapshot of one vector.
pub struct Ip4LocalView<'v> {
    ifs: IfCache<'v>,
    plane: &'v Plane,
    config: &'v PlaneConfig,
    resets: TcpResets,
    tables: View<'v, V4>,
    takers: &'v Takers,
    programs: &'v Programs,
}

/// The answer to a TCP segment behind `header_len` bytes of header.
fn tcp(view: &Ip4LocalView<'_>, p: &mut Packet<'_>, header_len: usize) -> Step<Ip4LocalNext, Ip4LocalReason> {
    let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort.into()) };
    let (src, dst) = (Ip4Header(h).src(), Ip4Header(h).dst());
    let pseudo = |len: u32| checksum::pseudo4(src, dst, IpProtocol::TCP, len as u16);
    let reset = transport::reset(p, header_len, pseudo).map_err(|f| match f {
        Fault::Length => Ip4LocalReason::TcpLength,
        Fault::Checksum => Ip4LocalReason::TcpChecksum,
    })?;
    let to_many = p.has(flags::L2_GROUP) || !addr::is_unicast(dst.to_bits());
    let Some(reset) = reset.filter(|_| view.resets.0 && !to_many) else {
        return Err(Ip4LocalReason::NoTcp.into());
    };
    if !view.plane.admits(p, Class::TcpReset) {
        return Ok(Ip4LocalNext::Policed);
    }
    let ip = Ip4Builder {
        ttl: view.config.ttl,
        dont_fragment: true,
        ..Ip4Builder::new(dst, src, IpProtocol::TCP)
    };
    let mut out = [0; 40];
    let whole = ip.emit(&mut out, tcp::HEADER_LEN).and_then(|at| reset.emit4(&mut out[at..], dst, src, &[]));
    whole.map_err(|_| Ip4LocalReason::TcpLength)?;
    icmp::replace(p, &out);
    p.count(Ip4LocalReason::Reset);
    Ok(Ip4LocalNext::Lookup)
}

/// Checks the datagram at `at`.
fn check_udp(p: &Packet<'_>, at: usize) -> Result<(), Ip4LocalReason> {
    let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort) };
    let (src, dst) = (Ip4Header(h).src(), Ip4Header(h).dst());
    let pseudo = |len| checksum::pseudo4(src, dst, IpProtocol::UDP, len);
    transport::check_udp(p, at, true, pseudo).map_err(|f| match f {
        Fault::Length => Ip4LocalReason::UdpLength,
        Fault::Checksum => Ip4LocalReason::UdpChecksum,
    })
}

/// What becomes of a packet that its features have let pass, on an interface whose packets are `punted` to these features of
/// `ip4-punt`.
pub(super) fn dispatch(
    view: &mut Ip4LocalView<'_>,
    p: &mut Packet<'_>,
    punted: u32,
) -> Step<Ip4LocalNext, Ip4LocalReason> {
    let Some(h) = p.head::<20>() else { return Err(Ip4LocalReason::TooShort.into()) };
    let h = Ip4Header(h);
    let (protocol, fragment, mut class) = (h.protocol(), h.is_fragment(), class(h, p.data()));
    let (header_len, src) = (h.header_len(), h.src());
    let taken_by = view.takers.of_packet(false, protocol, p.data(), header_len);
    if taken_by != 0 && !fragment {
        if protocol == IpProtocol::UDP {
            check_udp(p, header_len)?;
        }
        (p.d.feat, p.d.aux) = (taken_by, header_len as u32);
        return Ok(Ip4LocalNext::Protocol);
    }
    let linux = punted != 0;
    let program = match fragment {
        true => None,
        false => view.programs.of_packet(false, protocol, p.data(), header_len, p.d.rx),
    };
    if class == Class::Local {
        class = match (program, linux) {
            (Some(_), _) => Class::Api,
            (None, true) => Class::Linux,
            (None, false) => class,
        };
    }
    if !view.plane.admits(p, class) {
        return Ok(Ip4LocalNext::Policed);
    }
    // Linux puts fragments together itself.
    let taken = || view.takers.may_take(false, protocol) || view.programs.may_take(false, protocol);
    if fragment && (!linux || taken()) {
        return Ok(Ip4LocalNext::Reassembly);
    }
    let from = view.tables.lookup_for(p.d, &src.to_bits());
    if view.plane.groups.resolve(from, 0).kind == kind::BROADCAST {
        return Err(Ip4LocalReason::BroadcastSource.into());
    }
    if let Some(asked) = program {
        if protocol == IpProtocol::UDP {
            check_udp(p, header_len)?;
        }
        p.d.aux = asked.word();
        return Ok(Ip4LocalNext::Program);
    }
    if linux {
        if !is_for_both(protocol, p.data(), header_len) || fragment {
            (p.d.aux, p.d.feat) = (punt::linux::PACKET, punted);
            return Ok(Ip4LocalNext::Punt);
        }
        if !punt::linux::copy(p, punt::linux::PACKET, punted, Ip4LocalNext::Punt) {
            p.count(Ip4LocalReason::NoCopy);
        }
    }
    match protocol.0 {
        1 => return Ok(Ip4LocalNext::Icmp),
        2 => return Ok(Ip4LocalNext::Igmp),
        6 => return tcp(view, p, header_len),
        17 => {
            check_udp(p, header_len)?;
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

impl Ip4LocalView<'_> {
    /// What packets of an interface visit that are not the router's alone.
    pub(super) fn punted(&mut self, rx: IfIndex) -> u32 {
        self.ifs.get(rx).map_or(0, |i| i.ip4_punt)
    }
}

impl Node for Ip4Local {
    const NAME: &'static str = "ip4-local";
    type Next = Ip4LocalNext;
    type Drop = Ip4LocalReason;
    type View<'v> = Ip4LocalView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4LocalView<'v> {
        Ip4LocalView {
            ifs: IfCache::new(&self.plane, guard),
            plane: &self.plane,
            config: self.plane.config.load(guard),
            resets: *self.resets.load(guard),
            tables: View::new(&self.plane, guard),
            takers: &self.takers,
            programs: self.programs.load(guard),
        }
    }

    fn step(view: &mut Ip4LocalView<'_>, p: &mut Packet<'_>) -> Step<Ip4LocalNext, Ip4LocalReason> {
        let i = view.ifs.get(p.d.rx);
        let (features, punt) = i.map_or((0, 0), |i| (i.ip4_local, i.ip4_punt));
        if features != 0 {
            p.d.feat = features;
            return Ok(Ip4LocalNext::Features);
        }
        dispatch(view, p, punt)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

impl QuickNode for Ip4Local {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &Ip4LocalView<'v>,
        first: &Desc,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Ip4LocalNext, Common<'v>)> {
        Common::of::<false>(view.takers, view.plane, guard, first, rooms)
            .map(|common| (Ip4LocalNext::Protocol, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        common.quick::<false>(descs, rooms)
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

    #[test]
    fn datagrams_are_checked_first() {
        let mut r = Rig::new(Ip4Local::new);
        let ours = [192, 0, 2, 1];
        let bare = [3, 232, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4];
        let node = |r: &mut Rig, upper: &[u8]| r.one(Input::new(&packet(17, ours, upper))).node;
        assert_eq!(node(&mut r, &bare), "ip4-icmp-error", "no checksum is none");
        let mut sum = checksum::pseudo4([203, 0, 113, 7].into(), ours.into(), IpProtocol::UDP, 12);
        sum.add_bytes(&bare);
        let mut whole = bare;
        whole[6..8].copy_from_slice(&sum.checksum().to_be_bytes());
        assert_eq!(node(&mut r, &whole), "ip4-icmp-error");
        // Bytes behind the datagram are not of it.
        assert_eq!(node(&mut r, &[&whole[..], &[9; 5]].concat()), "ip4-icmp-error");
        let mut bad = whole;
        bad[9] ^= 1;
        assert_eq!(r.drops(Input::new(&packet(17, ours, &bad))), "ip4-local-bad-udp-checksum");
        assert_eq!(r.drops(Input::new(&packet(17, ours, &whole[..11]))), "ip4-local-bad-udp-length");
        assert_eq!(r.drops(Input::new(&packet(17, ours, &whole[..7]))), "ip4-local-bad-udp-length");
    }

    #[test]
    fn segments_are_reset() {
        use packet::tcp::{TcpBuilder, TcpView, flag};
        let mut r = Rig::new(Ip4Local::new);
        let (host, ours) = ([203, 0, 113, 7], [192, 0, 2, 1]);
        let segment = |flags: u8, payload: &[u8]| {
            let mut out = vec![0; 20 + payload.len()];
            let t = TcpBuilder { seq: 1000, ack: 77, flags, ..TcpBuilder::new(4000, 22) };
            t.emit4(&mut out, host.into(), ours.into(), payload).unwrap();
            packet(6, ours, &out)
        };
        for (bits, payload, want) in [
            (flag::SYN, &b""[..], (0, 1001, flag::RST | flag::ACK)),
            (flag::SYN | flag::FIN, b"data", (0, 1006, flag::RST | flag::ACK)),
            (0, b"", (0, 1000, flag::RST | flag::ACK)),
            (flag::ACK, b"data", (77, 0, flag::RST)),
            (flag::SYN | flag::ACK, b"", (77, 0, flag::RST)),
        ] {
            let a = r.one(Input::new(&segment(bits, payload)));
            assert_eq!((a.node, a.d.flags, a.bytes.len()), ("ip4-lookup", flags::LOCAL, 40));
            assert!(packet::ip4::check(&a.bytes, 40).is_ok());
            assert_eq!((&a.bytes[12..16], &a.bytes[16..20]), (&ours[..], &host[..]));
            let t = TcpView::parse(&a.bytes[20..]).unwrap();
            assert!(t.verify4(ours.into(), host.into()));
            assert_eq!((t.src_port(), t.dst_port()), (22, 4000));
            assert_eq!((t.seq(), t.ack(), t.flags()), want);
        }
        assert_eq!(r.drops(Input::new(&segment(flag::RST, b""))), "ip4-local-no-tcp-listener");
        assert_eq!(r.drops(Input::new(&segment(flag::RST | flag::ACK, b""))), "ip4-local-no-tcp-listener");
        let many = Input::new(&segment(flag::SYN, b"")).flags(flags::L2_GROUP);
        assert_eq!(r.drops(many), "ip4-local-no-tcp-listener");
        let mut bad = segment(flag::SYN, b"data");
        bad[43] ^= 1;
        assert_eq!(r.drops(Input::new(&bad)), "ip4-local-bad-tcp-checksum");
        assert_eq!(r.drops(Input::new(&segment(flag::SYN, b"")[..39])), "ip4-local-bad-tcp-header");
        r.plane.police.set(Class::TcpReset, Some(Limit { rate: 0, burst: 1 }));
        assert_eq!(r.one(Input::new(&segment(flag::SYN, b""))).node, "punt-policer");
        r.change(|resets| *resets = TcpResets(false));
        assert_eq!(r.drops(Input::new(&segment(flag::SYN, b""))), "ip4-local-no-tcp-listener");
    }
}
