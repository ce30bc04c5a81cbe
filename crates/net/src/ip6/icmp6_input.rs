//! `icmp6-input`: ICMPv6 messages to the router. Echo requests and solicitations of the router's addresses are answered
//! here; what neighbours say of themselves, echo replies and errors go to the control side.

use crate::interface::{Interface, ifflags, untag};
use crate::neighbor::Proxies;
use crate::plane::{IfCache, Plane};
use crate::punt::PuntKind;
use graph::buffer::ROOM;
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, Published, Seen, TraceRecord, flags};
use packet::checksum::{Sum, pseudo6, update128};
use packet::eth::{self, MacAddr};
use packet::icmp6::{self, kind};
use packet::ip6::{self, Ip6Header, Ip6View, addr};
use packet::nd::{self, Advertisement, NdError, NdMessage, NeighborSolicitation};
use packet::{IpProtocol, ip6::set_traffic_class};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `icmp6-input` sends packets.
    pub enum Icmp6Next {
        Lookup => "ip6-lookup",
        Output => "interface-output",
    }
}

graph::reasons! {
    /// What `icmp6-input` counts.
    pub enum Icmp6Reason {
        /// Fewer bytes than an IPv6 and an ICMPv6 header have.
        TooShort => "icmp6-too-short",
        /// The checksum of the message is wrong.
        BadChecksum => "icmp6-bad-checksum",
        /// The interface does not exist any more, or has no IPv6 address to answer from.
        NoAddress => "icmp6-no-address",
        /// An echo request from a source that names no single node.
        BadSource => "icmp6-echo-bad-source",
        /// A neighbour discovery message that came through a router: its hop limit is not 255 (RFC 4861 section 7.1).
        NdHopLimit => "nd-bad-hop-limit",
        /// A neighbour discovery message that is not valid (RFC 4861 sections 6.1, 7.1 and 8.1, RFC 6980).
        NdInvalid => "nd-invalid",
        /// There is no room for the answer to a solicitation.
        NoRoom => "nd-no-room",
        /// A router advertisement, or a solicitation on an interface that sends no advertisements.
        Router => "nd-router-message-ignored",
        /// A redirect: routers do not heed them (RFC 4861 section 8.2).
        Redirect => "nd-redirect-ignored",
        /// A multicast listener query that does not come from the link, or has no router alert (RFC 3810 section 6.2).
        MldInvalid => "icmp6-mld-invalid",
        /// A multicast listener report: the router keeps no list of the groups of others.
        Mld => "icmp6-mld-ignored",
        /// An informational type that the router does not know (RFC 4443 section 2.4(b)).
        Unsupported => "icmp6-unsupported-type",
        /// An echo request was answered.
        EchoReplied => "icmp6-echo-replies-sent" (info),
        /// A solicitation for an address that is not the router's.
        NotForUs => "nd-not-for-us" (info),
        /// A solicitation was answered.
        Advertised => "nd-advertisements-sent" (info),
        /// A solicitation for an address that another link has was answered.
        Proxied => "nd-proxied" (info),
        /// A neighbour discovery message was handed to the neighbour table.
        NdPunted => "nd-handed-to-control" (info),
        /// An echo reply or an error was handed to the control side.
        Punted => "icmp6-handed-to-control" (info),
        /// The control side was too far behind to take it.
        Lost => "icmp6-control-busy" (info),
    }
}

/// The node.
pub struct Icmp6Input {
    plane: Arc<Plane>,
    proxies: Arc<Published<Proxies>>,
}

impl Icmp6Input {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Icmp6Input { plane: Arc::clone(plane), proxies: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct Icmp6InputView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    ifs: IfCache<'v>,
    /// Addresses of others that are answered for.
    proxies: &'v Proxies,
    hop_limit: u8,
}

impl Node for Icmp6Input {
    const NAME: &'static str = "icmp6-input";
    type Next = Icmp6Next;
    type Drop = Icmp6Reason;
    type View<'v> = Icmp6InputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Icmp6InputView<'v> {
        let hop_limit = self.plane.config.load(guard).ttl;
        let ifs = IfCache::new(&self.plane, guard);
        Icmp6InputView { plane: &self.plane, guard, ifs, proxies: self.proxies.load(guard), hop_limit }
    }

    /// `hash` of the descriptor holds the offset of the ICMPv6 header.
    fn step(view: &mut Icmp6InputView<'_>, p: &mut Packet<'_>) -> Step<Icmp6Next, Icmp6Reason> {
        let at = p.d.hash as usize;
        let Some(h) = p.head::<40>() else { return Err(Icmp6Reason::TooShort.into()) };
        let (src, dst) = (Ip6Header(h).src(), Ip6Header(h).dst());
        if at < ip6::HEADER_LEN || at + icmp6::HEADER_LEN > p.data().len() {
            return Err(Icmp6Reason::TooShort.into());
        }
        if p.has(flags::CSUM_PARTIAL) && !crate::offload::complete(&mut p.env.buffers, p.d) {
            return Err(Icmp6Reason::BadChecksum.into());
        }
        let mut sum = pseudo6(src, dst, IpProtocol::ICMPV6, (p.total_len() - at) as u32);
        for (i, part) in p.env.buffers.parts(p.d).enumerate() {
            sum.append(Sum::of(if i == 0 { part.get(at..).unwrap_or_default() } else { part }));
        }
        if !sum.is_valid() {
            return Err(Icmp6Reason::BadChecksum.into());
        }
        match p.data()[at] {
            kind::ECHO_REQUEST => echo(view, p, at),
            kind::ROUTER_SOLICITATION..=kind::REDIRECT => neighbour_discovery(view, p),
            // Unknown errors too (RFC 4443 section 2.4(a)).
            k if icmp6::is_error(k) || k == kind::ECHO_REPLY => {
                let sent = view.plane.punt.packet(PuntKind::Icmp, p.d.rx, 0, p.env.buffers.parts(p.d));
                p.count(if sent { Icmp6Reason::Punted } else { Icmp6Reason::Lost });
                consume(p)
            }
            kind::MLD_QUERY => {
                let h = p.head::<40>();
                let near = h.is_some_and(|h| h[7] == 1 && addr::is_link_local(Ip6Header(h).src_u128()));
                // What the query asks for the control side reads, router alert included.
                if !near || p.data()[6] != 0 {
                    return Err(Icmp6Reason::MldInvalid.into());
                }
                let sent = view.plane.punt.packet(PuntKind::Group, p.d.rx, 0, p.env.buffers.parts(p.d));
                p.count(if sent { Icmp6Reason::Punted } else { Icmp6Reason::Lost });
                consume(p)
            }
            kind::MLD_REPORT | kind::MLD_DONE | kind::MLDV2_REPORT => Err(Icmp6Reason::Mld.into()),
            _ => Err(Icmp6Reason::Unsupported.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if r.after.off == r.after.l2 {
            return crate::format::output(r, f);
        }
        crate::format::ip(r.bytes(), f)
    }
}

fn consume(p: &mut Packet<'_>) -> Step<Icmp6Next, Icmp6Reason> {
    p.free();
    Err(Exit::Consumed)
}

/// Makes an echo request its own reply (RFC 4443 section 4.2). Extension headers are left out; the traffic class
/// stays.
fn echo(view: &mut Icmp6InputView<'_>, p: &mut Packet<'_>, at: usize) -> Step<Icmp6Next, Icmp6Reason> {
    let Some(&h) = p.head::<40>() else { return Err(Icmp6Reason::TooShort.into()) };
    let old = Ip6Header(&h);
    let (asker, asked) = (old.src_u128(), old.dst_u128());
    if addr::is_unspecified(asker) || addr::is_multicast(asker) {
        return Err(Icmp6Reason::BadSource.into());
    }
    let mut source = asked;
    if addr::is_multicast(asked) {
        let own = view.ifs.get(p.d.rx).and_then(|i| i.source6(asker));
        source = own.ok_or(Icmp6Reason::NoAddress)?;
    } else if !view.ifs.get(p.d.rx).is_some_and(|i| i.addrs6.iter().any(|a| a.0 == asked)) {
        source = crate::icmp::unicast6(view.plane, view.guard, p.d, asked, asker);
    }
    let moved = p.advance(at - ip6::HEADER_LEN);
    debug_assert!(moved, "the ICMPv6 header lies in the first buffer");
    let payload = p.total_len() - ip6::HEADER_LEN;
    let Some((h, message)) = p.data_mut().split_first_chunk_mut::<40>() else {
        return Err(Icmp6Reason::TooShort.into());
    };
    *h = [0; 40];
    h[0] = 0x60;
    set_traffic_class(h, old.traffic_class());
    h[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    h[6] = IpProtocol::ICMPV6.0;
    h[7] = view.hop_limit;
    h[8..24].copy_from_slice(&source.to_be_bytes());
    h[24..].copy_from_slice(&asker.to_be_bytes());
    if let Some(m) = message.first_chunk_mut::<8>() {
        icmp6::echo_reply_in_place(m);
        let check = u16::from_be_bytes([m[2], m[3]]);
        let check = update128(check, &asked.to_be_bytes(), &source.to_be_bytes());
        m[2..4].copy_from_slice(&check.to_be_bytes());
    }
    p.d.flags = p.d.flags & !flags::L2_GROUP | flags::LOCAL;
    if addr::is_link_local(asker) || addr::is_link_local(source) {
        p.d.tx = p.d.rx;
    }
    p.count(Icmp6Reason::EchoReplied);
    Ok(Icmp6Next::Lookup)
}

/// Validates a message and hands it to the neighbour table where that is of use; answers a solicitation of one of the
/// interface's addresses.
fn neighbour_discovery(view: &mut Icmp6InputView<'_>, p: &mut Packet<'_>) -> Step<Icmp6Next, Icmp6Reason> {
    // Messages of more than one buffer are longer than any that is of use: they fail here.
    let packet = Ip6View::parse(p.data()).map_err(|_| Icmp6Reason::NdInvalid)?;
    let message = NdMessage::parse(&packet).map_err(|e| match e {
        NdError::BadHopLimit => Icmp6Reason::NdHopLimit,
        _ => Icmp6Reason::NdInvalid,
    })?;
    match message {
        NdMessage::NeighborSolicitation(ns) => {
            let Some(i) = view.ifs.get(p.d.rx) else { return Err(Icmp6Reason::NoAddress.into()) };
            let (asker, target) = (packet.src_u128(), ns.target.to_bits());
            let usable = |a: u128| i.addrs6.iter().any(|ours| ours.0 == a);
            if i.is_anycast6(target) {
                // The control side answers: not at once.
                punt(view.plane, PuntKind::Anycast, p);
                return consume(p);
            }
            if !usable(target) && !i.tentative6.contains(&target) {
                let behind = view.proxies.behind(target);
                let elsewhere =
                    |at: u32| at != p.d.rx && view.ifs.peek(at).is_some_and(|o| o.table6 == i.table6);
                if !behind.is_some_and(elsewhere) {
                    p.count(Icmp6Reason::NotForUs);
                    return consume(p);
                }
                let reply = advertisement(p, i, &packet, &ns, From::Proxy)?;
                p.count(Icmp6Reason::Proxied);
                send(p, i, &reply);
                return Ok(Icmp6Next::Output);
            }
            // Another node probing for a tentative address, or using one of ours, is for the control side to know and
            // not to be answered.
            if !usable(target) || usable(asker) {
                punt(view.plane, PuntKind::Nd, p);
                return consume(p);
            }
            let reply = advertisement(p, i, &packet, &ns, From::Own)?;
            punt(view.plane, PuntKind::Nd, p);
            p.count(Icmp6Reason::Advertised);
            send(p, i, &reply);
            Ok(Icmp6Next::Output)
        }
        NdMessage::NeighborAdvertisement(_) => {
            punt(view.plane, PuntKind::Nd, p);
            consume(p)
        }
        NdMessage::RouterSolicitation(_)
            if view.ifs.get(p.d.rx).is_some_and(|i| i.is(ifflags::ADVERTISES)) =>
        {
            punt(view.plane, PuntKind::Solicitation, p);
            consume(p)
        }
        NdMessage::RouterSolicitation(_) | NdMessage::RouterAdvertisement(_) => {
            Err(Icmp6Reason::Router.into())
        }
        NdMessage::Redirect(_) => Err(Icmp6Reason::Redirect.into()),
    }
}

/// Hands the frame to the neighbour table.
fn punt(plane: &Plane, kind: PuntKind, p: &mut Packet<'_>) {
    let l3 = p.d.off.saturating_sub(p.d.l2);
    let frame = Seen::of_bytes(p.d, p.d.off - l3, p.d.len + l3);
    let sent = plane.punt.packet(kind, p.d.rx, l3, p.env.buffers.parts(&frame));
    p.count(if sent { Icmp6Reason::NdPunted } else { Icmp6Reason::Lost });
}

/// An advertisement and the MAC address to which it goes.
struct Reply {
    to: MacAddr,
    bytes: [u8; nd::MAX_PACKET],
    len: usize,
    own: [u8; 6],
}

/// For which address an advertisement is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// One of the interface's.
    Own,
    /// That of a host on another link.
    Proxy,
}

/// The answer to `ns`.
fn advertisement(
    p: &Packet<'_>,
    i: &Interface,
    packet: &Ip6View<'_>,
    ns: &NeighborSolicitation<'_>,
    from: From,
) -> Result<Reply, Icmp6Reason> {
    let (l2, l3) = (usize::from(p.d.l2), usize::from(p.d.off));
    let ethernet =
        p.env.buffers.room(&p.d.buf).get(l2..l3).and_then(|b| b.first_chunk::<{ eth::HEADER_LEN }>());
    let Some(ethernet) = ethernet.filter(|_| l3 + nd::MAX_PACKET <= ROOM) else {
        return Err(Icmp6Reason::NoRoom);
    };
    let mut answer = Advertisement::answer(ns.target, MacAddr(i.mac), packet.src());
    if from != From::Own {
        // RFC 4861 section 7.2.8: who has the address itself is heeded rather than this. The answer comes from an address of the interface.
        let own = i.source6(packet.src_u128()).ok_or(Icmp6Reason::NoAddress)?;
        (answer.src, answer.router, answer.override_) = (own.into(), false, false);
    }
    let mut to = addr::multicast_mac(addr::ALL_NODES);
    if answer.solicited {
        let sender =
            MacAddr([ethernet[6], ethernet[7], ethernet[8], ethernet[9], ethernet[10], ethernet[11]]);
        to = ns.options.source_mac().unwrap_or(sender);
        if !to.is_station() {
            return Err(Icmp6Reason::NdInvalid);
        }
    }
    let mut bytes = [0; nd::MAX_PACKET];
    let len = answer.emit(&mut bytes).map_err(|_| Icmp6Reason::NoRoom)?;
    Ok(Reply { to, bytes, len, own: i.mac })
}

/// Puts the answer in the place of the solicitation on `i`, behind its own Ethernet header and tags but for one that only
/// tells a priority.
fn send(p: &mut Packet<'_>, i: &Interface, reply: &Reply) {
    untag(p, i);
    let (l2, l3) = (usize::from(p.d.l2), usize::from(p.d.off));
    let end = l3 + reply.len;
    let room = p.env.buffers.room_mut(&p.d.buf);
    room[l2..l2 + 6].copy_from_slice(&reply.to.0);
    room[l2 + 6..l2 + 12].copy_from_slice(&reply.own);
    room[l3..end].copy_from_slice(&reply.bytes[..reply.len]);
    p.d.off = p.d.l2;
    p.d.len = (end - l2) as u16;
    p.d.tx = p.d.rx;
    p.d.flags = p.d.flags & !flags::L2_GROUP | flags::LOCAL;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, fix_icmp6, hex};

    // Scapy: IPv6(src="2001:db8:9::9", dst="2001:db8:1::1", hlim=17, tc=0x28, fl=0x12345) /
    //   ICMPv6EchoRequest(id=7, seq=9, data=b"quiver echo")
    const REQUEST: &str = "6281234500133a11 20010db8000900000000000000000009 20010db8000100000000000000000001
        8000f0ef00070009 717569766572206563686f";
    // Scapy: IPv6(src="2001:db8:1::1", dst="2001:db8:9::9", hlim=64, tc=0x28) / ICMPv6EchoReply(...)
    const REPLY: &str = "6280000000133a40 20010db8000100000000000000000001 20010db8000900000000000000000009
        8100efef00070009 717569766572206563686f";
    // Scapy: Ether(src="02:00:00:00:00:aa", dst="33:33:ff:00:00:01") /
    //   IPv6(src="2001:db8:1::9", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="2001:db8:1::1") /
    //   ICMPv6NDOptSrcLLAddr(lladdr="02:00:00:00:00:aa")
    const SOLICIT_L2: &str = "3333ff0000010200000000aa86dd";
    const SOLICIT: &str = "6000000000203aff 20010db8000100000000000000000009 ff0200000000000000000001ff000001
        87001b7600000000 20010db8000100000000000000000001 01010200000000aa";
    // Scapy: Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:aa") /
    //   IPv6(src="2001:db8:1::1", dst="2001:db8:1::9", hlim=255) /
    //   ICMPv6ND_NA(tgt="2001:db8:1::1", R=1, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:01")
    const ADVERT: &str = "0200000000aa02000000000186dd
        6000000000203aff 20010db8000100000000000000000001 20010db8000100000000000000000009
        88000a69e0000000 20010db8000100000000000000000001 0201020000000001";
    // Scapy: IPv6(src="2001:db8:1::9", dst="2001:db8:1::1", hlim=255) /
    //   ICMPv6ND_NA(tgt="2001:db8:1::9", R=0, S=1, O=1) / ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:aa")
    const NEIGHBOR_ADVERT: &str =
        "6000000000203aff 20010db8000100000000000000000009 20010db8000100000000000000000001
        880089b860000000 20010db8000100000000000000000009 02010200000000aa";

    fn rig() -> Rig {
        Rig::new(Icmp6Input::new)
    }

    /// As `ip6-local` hands it on.
    fn input(p: &[u8]) -> Input {
        let mut i = Input::new(p);
        i.d.hash = 40;
        i.l2 = hex(SOLICIT_L2);
        i
    }

    /// `text` with a change and a right checksum.
    fn changed(text: &str, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut p = hex(text);
        change(&mut p);
        fix_icmp6(&mut p, 40);
        p
    }

    fn kind(k: u8) -> Vec<u8> {
        changed(REQUEST, |p| p[40] = k)
    }

    #[test]
    fn an_echo_request_is_answered() {
        let mut r = rig();
        let a = r.one(input(&hex(REQUEST)));
        assert_eq!((a.node, a.bytes), ("ip6-lookup", hex(REPLY)));
        assert_eq!((a.d.flags, a.d.tx), (flags::LOCAL, 0));
        assert_eq!(r.count("icmp6-echo-replies-sent"), 1);
        r.configure(|c| c.ttl = 200);
        assert_eq!(r.one(input(&hex(REQUEST))).bytes[7], 200);
    }

    #[test]
    fn extension_headers_are_left_out_of_the_answer() {
        // Scapy: REQUEST with IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)]) between
        let p = "62812345001b3c11 20010db8000900000000000000000009 20010db8000100000000000000000001
            3a00010400000000 8000f0ef00070009 717569766572206563686f";
        let mut i = input(&hex(p));
        i.d.hash = 48;
        assert_eq!(rig().one(i).bytes, hex(REPLY));
    }

    #[test]
    fn echo_to_a_group() {
        // Scapy: IPv6(src=asker, dst="ff02::1", hlim=17) / ICMPv6EchoRequest(...) and the reply, both ways
        let echo = "00070009 717569766572206563686f";
        for (request, reply, tx) in [
            (
                "6000000000133a11 fe800000000000000000000000000009 ff020000000000000000000000000001 80004ee8",
                "6000000000133a40 fe800000000000000000000000000001 fe800000000000000000000000000009 81004e6a",
                1,
            ),
            (
                "6000000000133a11 20010db8000900000000000000000009 ff020000000000000000000000000001 80001fa7",
                "6000000000133a40 20010db8000100000000000000000001 20010db8000900000000000000000009 8100efef",
                0,
            ),
        ] {
            let mut r = rig();
            let request = hex(&[request, echo].concat());
            let a = r.one(input(&request).flags(flags::L2_GROUP));
            assert_eq!((a.node, a.bytes), ("ip6-lookup", hex(&[reply, echo].concat())));
            assert_eq!((a.d.flags, a.d.tx), (flags::LOCAL, tx));
            assert_eq!(r.drops(input(&request).rx(3)), "icmp6-no-address");
            assert_eq!(r.drops(input(&request).rx(9)), "icmp6-no-address");
        }
    }

    #[test]
    fn large_requests_in_several_buffers() {
        let payload: Vec<u8> = (0..3001).map(|i| (i % 251) as u8).collect();
        // Scapy: IPv6(src="2001:db8:9::9", dst="2001:db8:1::1") / ICMPv6EchoRequest(id=7, seq=9, data=payload), reply
        let (a, b) = ("20010db8000900000000000000000009", "20010db8000100000000000000000001");
        let request =
            [hex(&["600000000bc13a40", a, b, "8000aaf400070009"].concat()), payload.clone()].concat();
        let reply = [hex(&["600000000bc13a40", b, a, "8100a9f400070009"].concat()), payload].concat();
        let mut r = rig();
        for split in [48, 49, 101, 1000, 2000] {
            let a = r.one(input(&request).split(split));
            assert_eq!((a.node, a.bytes == reply), ("ip6-lookup", true), "split at {split}");
        }
        let mut damaged = request;
        damaged[3000] ^= 1;
        assert_eq!(r.drops(input(&damaged)), "icmp6-bad-checksum");
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        let mut p = hex(REQUEST);
        let h = Ip6Header(p.first_chunk().unwrap());
        let sum = pseudo6(h.src(), h.dst(), IpProtocol::ICMPV6, 19);
        p[42..44].copy_from_slice(&sum.fold().to_be_bytes());
        let mut i = input(&p);
        i.partial = Some((40, 2));
        let mut r = rig();
        assert_eq!(r.one(i.clone()).bytes, hex(REPLY));
        i.partial = Some((40, 2000));
        assert_eq!(r.drops(i), "icmp6-bad-checksum");
    }

    #[test]
    fn what_is_dropped() {
        let mut r = rig();
        assert_eq!(r.drops(input(&hex(REQUEST)[..39])), "icmp6-too-short");
        assert_eq!(r.drops(input(&hex(REQUEST)[..47])), "icmp6-too-short");
        let mut i = input(&hex(REQUEST));
        i.d.hash = 39;
        assert_eq!(r.drops(i.clone()), "icmp6-too-short");
        i.d.hash = u32::MAX;
        assert_eq!(r.drops(i), "icmp6-too-short");
        for at in [8, 39, 41, 43, 58] {
            let mut p = hex(REQUEST);
            p[at] ^= 0x10;
            assert_eq!(r.drops(input(&p)), "icmp6-bad-checksum");
        }
        for src in [0, 0xff02 << 112 | 1u128] {
            let p = changed(REQUEST, |p| p[8..24].copy_from_slice(&src.to_be_bytes()));
            assert_eq!(r.drops(input(&p)), "icmp6-echo-bad-source");
        }
        assert_eq!(r.drops(input(&kind(130))), "icmp6-mld-invalid");
        for k in [131, 132, 143] {
            assert_eq!(r.drops(input(&kind(k))), "icmp6-mld-ignored");
        }
        for k in [138, 139, 142, 144, 255] {
            assert_eq!(r.drops(input(&kind(k))), "icmp6-unsupported-type");
        }
        assert!(r.punted().is_empty());
    }

    #[test]
    fn replies_and_errors_go_to_the_control_side() {
        let mut r = rig();
        for k in [129, 0, 1, 2, 3, 4, 127] {
            assert!(r.run(&[input(&kind(k)).rx(2)]).is_empty());
            assert_eq!(r.punted(), [(PuntKind::Icmp, 2, 0, kind(k))]);
        }
        assert_eq!(r.count("icmp6-handed-to-control"), 7);
        r.fill_punt();
        assert!(r.run(&[input(&kind(129))]).is_empty());
        assert_eq!((r.count("icmp6-handed-to-control"), r.count("icmp6-control-busy")), (7, 1));
    }

    #[test]
    fn a_solicitation_is_answered_and_handed_on() {
        let mut r = rig();
        let a = r.one(input(&hex(SOLICIT)).flags(flags::L2_GROUP));
        assert_eq!((a.node, a.bytes), ("interface-output", hex(ADVERT)));
        assert_eq!((a.d.flags, a.d.tx, a.d.off), (flags::LOCAL, 1, a.d.l2));
        let frame = [hex(SOLICIT_L2), hex(SOLICIT)].concat();
        assert_eq!(r.punted(), [(PuntKind::Nd, 1, 14, frame)]);
        assert_eq!((r.count("nd-advertisements-sent"), r.count("nd-handed-to-control")), (1, 1));
        r.fill_punt();
        assert_eq!(r.one(input(&hex(SOLICIT))).bytes, hex(ADVERT));
        assert_eq!(r.count("icmp6-control-busy"), 1);
    }

    #[test]
    fn the_answer_goes_where_the_sender_says() {
        let mut r = rig();
        let p = changed(SOLICIT, |p| p[71] = 0xbb);
        assert_eq!(r.one(input(&p)).bytes[..6], [2, 0, 0, 0, 0, 0xbb]);
        // Without the option: where it came from.
        let p = changed(SOLICIT, |p| {
            p.truncate(64);
            p[5] = 24;
        });
        let a = r.one(input(&p));
        assert_eq!(a.bytes, hex(ADVERT));
        // A MAC address of a group is nobody's.
        r.punted();
        assert_eq!(r.drops(input(&changed(SOLICIT, |p| p[66] = 0x33))), "nd-invalid");
        assert!(r.punted().is_empty());
    }

    #[test]
    fn duplicate_detection() {
        // Scapy: Ether(src="02:00:00:00:00:aa", dst="33:33:ff:00:00:01") / Dot1Q(vlan=100) /
        //   IPv6(src="::", dst="ff02::1:ff00:1", hlim=255) / ICMPv6ND_NS(tgt="fe80::1")
        let l2 = hex("3333ff0000010200000000aa8100006486dd");
        let probe = hex("6000000000183aff 00000000000000000000000000000000 ff0200000000000000000001ff000001
            87007c2500000000 fe800000000000000000000000000001");
        // Scapy: Ether(src="02:00:00:00:00:01", dst="33:33:00:00:00:01") / Dot1Q(vlan=100) /
        //   IPv6(src="fe80::1", dst="ff02::1", hlim=255) / ICMPv6ND_NA(tgt="fe80::1", R=1, S=0, O=1) /
        //   ICMPv6NDOptDstLLAddr(lladdr="02:00:00:00:00:01")
        let answer = hex("3333000000010200000000018100006486dd
            6000000000203aff fe800000000000000000000000000001 ff020000000000000000000000000001
            8800d79aa0000000 fe800000000000000000000000000001 0201020000000001");
        let mut r = rig();
        let mut i = input(&probe);
        i.l2 = l2.clone();
        assert_eq!(r.one(i).bytes, answer);
        assert_eq!(r.punted(), [(PuntKind::Nd, 1, 18, [l2, probe].concat())]);
    }

    #[test]
    fn solicitations_that_are_only_handed_on() {
        let mut r = rig();
        // Scapy: IPv6(src="::", dst="ff02::1:ff00:99", hlim=255) / ICMPv6ND_NS(tgt="2001:db8:1::99")
        let tentative =
            hex("6000000000183aff 00000000000000000000000000000000 ff0200000000000000000001ff000099
            87004bbc00000000 20010db8000100000000000000000099");
        assert!(r.run(&[input(&tentative)]).is_empty());
        // Our own address as the sender: looped back, or somebody else's claim.
        let own = changed(SOLICIT, |p| p[23] = 1);
        assert!(r.run(&[input(&own)]).is_empty());
        let frames: Vec<_> = r.punted().into_iter().map(|m| (m.0, m.3[14..].to_vec())).collect();
        assert_eq!(frames, [(PuntKind::Nd, tentative), (PuntKind::Nd, own)]);
        assert_eq!((r.count("nd-advertisements-sent"), r.count("nd-handed-to-control")), (0, 2));
    }

    #[test]
    fn solicitations_for_others() {
        let mut r = rig();
        assert!(r.run(&[input(&changed(SOLICIT, |p| p[63] = 7)), input(&hex(SOLICIT)).rx(2)]).is_empty());
        assert_eq!(r.count("nd-not-for-us"), 2);
        assert_eq!(r.drops(input(&hex(SOLICIT)).rx(9)), "icmp6-no-address");
        assert!(r.punted().is_empty());
    }

    #[test]
    fn advertisements_are_handed_on() {
        let mut r = rig();
        assert!(r.run(&[input(&hex(NEIGHBOR_ADVERT))]).is_empty());
        assert_eq!(r.punted()[0].3[14..], hex(NEIGHBOR_ADVERT));
        assert_eq!(r.count("nd-handed-to-control"), 1);
    }

    #[test]
    fn invalid_messages_reach_nobody() {
        let mut r = rig();
        for text in [SOLICIT, NEIGHBOR_ADVERT] {
            assert_eq!(r.drops(input(&changed(text, |p| p[7] = 254))), "nd-bad-hop-limit");
            assert_eq!(r.drops(input(&changed(text, |p| p[41] = 1))), "nd-invalid");
            assert_eq!(r.drops(input(&changed(text, |p| p[65] = 0))), "nd-invalid");
            assert_eq!(r.drops(input(&changed(text, |p| p[48] = 0xff))), "nd-invalid");
            assert_eq!(r.drops(input(&hex(text)).split(60)), "nd-invalid");
            let mut damaged = hex(text);
            damaged[70] ^= 1;
            assert_eq!(r.drops(input(&damaged)), "icmp6-bad-checksum");
        }
        assert!(r.punted().is_empty());
    }

    #[test]
    fn no_room_for_the_answer() {
        let mut r = rig();
        for l2 in [0, 13] {
            let mut i = input(&hex(SOLICIT));
            i.l2.truncate(l2);
            assert_eq!(r.drops(i), "nd-no-room");
        }
        // A message without an option at the very end of the room: the answer is eight bytes longer.
        let p = changed(SOLICIT, |p| {
            p.truncate(64);
            p[5] = 24;
        });
        let mut i = input(&p);
        i.l2 = vec![2; 2048 - 64];
        assert_eq!(r.drops(i.clone()), "nd-no-room");
        i.l2.truncate(2048 - 72);
        assert_eq!(r.one(i).node, "interface-output");
    }

    #[test]
    fn router_messages_are_ignored() {
        let mut r = rig();
        // Scapy: IPv6(src="fe80::9", dst="ff02::2", hlim=255) / ICMPv6ND_RS(), and ICMPv6ND_RA() to ff02::1
        let from = "fe800000000000000000000000000009";
        let rs = ["6000000000083aff", from, "ff020000000000000000000000000002 85007d2e00000000"].concat();
        let ra =
            ["6000000000103aff", from, "ff020000000000000000000000000001 8600751700080708 0000000000000000"]
                .concat();
        // Scapy: ... / ICMPv6ND_Redirect(tgt="fe80::8", dst="2001:db8:7::7") to 2001:db8:1::1
        let redirect = [
            "6000000000283aff",
            from,
            "20010db8000100000000000000000001 89001e0800000000",
            "fe800000000000000000000000000008 20010db8000700000000000000000007",
        ]
        .concat();
        assert_eq!(r.drops(input(&hex(&rs))), "nd-router-message-ignored");
        assert_eq!(r.drops(input(&hex(&ra))), "nd-router-message-ignored");
        assert_eq!(r.drops(input(&hex(&redirect))), "nd-redirect-ignored");
        assert_eq!(r.drops(input(&changed(&redirect, |p| p[7] = 64))), "nd-bad-hop-limit");
    }
}
