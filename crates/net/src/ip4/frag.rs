//! `ip4-frag`: cuts packets that exceed their adjacency's MTU into fragments (RFC 791 section 3.2).
//!
//! A super-frame is first cut into the segments that its sender meant, then each of these into fragments.

use crate::path_mtu;
use crate::plane::Plane;
use crate::reassembly::REASSEMBLED;
use graph::node::Step;
use graph::{Desc, Exit, Guard, Node, Packet, Packets, TraceRecord, flags};
use packet::checksum::Sum;
use packet::frag::{FragError, Fragmenter};
use packet::gso::{Segmenter, VnetHdr};
use packet::ip4::MAX_HEADER_LEN;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-frag` sends packets.
    pub enum Ip4FragNext {
        Rewrite => "ip4-rewrite",
        Push => "ip4-mpls-label-imposition-pipe",
        PushUniform => "ip4-mpls-label-imposition-uniform",
        Popped => "mpls-output",
    }
}

graph::reasons! {
    /// What `ip4-frag` counts.
    pub enum Ip4FragReason {
        /// The adjacency does not exist any more.
        Gone => "ip4-frag-adjacency-gone",
        /// The header or its options are wrong, or the packet is longer than an IPv4 packet can be.
        BadHeader => "ip4-frag-bad-header",
        /// The packet has "don't fragment" set.
        DontFragment => "ip4-frag-dont-fragment",
        /// The MTU does not hold a header and eight bytes.
        MtuTooSmall => "ip4-frag-mtu-too-small",
        /// A fragment would end beyond 65,535 bytes.
        TooLong => "ip4-frag-beyond-65535",
        /// The partial checksum or the super-frame contradicts the packet.
        BadOffload => "ip4-frag-bad-offload",
        /// More fragments than one packet may become.
        TooMany => "ip4-frag-too-many",
        /// Not enough buffers for all fragments; none was sent.
        NoBuffers => "ip4-frag-no-buffers",
        /// A packet was fragmented.
        Packets => "ip4-packets-fragmented" (info),
        /// Fragments made.
        Fragments => "ip4-fragments-made" (info),
    }
}

impl From<FragError> for Ip4FragReason {
    fn from(e: FragError) -> Self {
        match e {
            FragError::BadHeader => Ip4FragReason::BadHeader,
            FragError::DontFragment => Ip4FragReason::DontFragment,
            FragError::MtuTooSmall => Ip4FragReason::MtuTooSmall,
            FragError::TooLong => Ip4FragReason::TooLong,
        }
    }
}

/// Fragments that one packet may become; the longest packet over the least MTU makes 1,365.
const MAX_FRAGMENTS: usize = 2048;
/// The longest super-frame.
const MAX_FRAME: usize = 1 << 16;

/// The node.
pub struct Ip4Frag {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    work: Work,
}

/// Memory to work in, so that no packet needs any.
pub(crate) struct Work {
    /// The packet in one piece.
    packet: Box<[u8]>,
    /// One segment of a super-frame.
    segment: Box<[u8]>,
    /// Fragments made so far.
    pub made: Vec<Desc>,
}

impl Work {
    pub fn new() -> Self {
        let room = || vec![0; MAX_FRAME].into_boxed_slice();
        Work { packet: room(), segment: room(), made: Vec::with_capacity(MAX_FRAGMENTS) }
    }

    /// Makes all fragments of `p`, or none.
    pub fn cut(&mut self, p: &mut Packet<'_>, mtu: usize) -> Result<(), Ip4FragReason> {
        self.made.clear();
        let done = cut_all(self, p, mtu);
        if done.is_err() {
            p.env.buffers.free_all(Packets::drain(&mut self.made));
        }
        done
    }
}

impl Ip4Frag {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Frag { plane: Arc::clone(plane), path_mtus: path_mtu::Reader::new(plane), work: Work::new() }
    }
}

/// Snapshot of one vector.
pub struct Ip4FragView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    path_mtus: &'v path_mtu::Reader,
    work: &'v mut Work,
}

impl Node for Ip4Frag {
    const NAME: &'static str = "ip4-frag";
    type Next = Ip4FragNext;
    type Drop = Ip4FragReason;
    type View<'v> = Ip4FragView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4FragView<'v> {
        Ip4FragView { plane: &self.plane, guard, path_mtus: &self.path_mtus, work: &mut self.work }
    }

    fn step(view: &mut Ip4FragView<'_>, p: &mut Packet<'_>) -> Step<Ip4FragNext, Ip4FragReason> {
        let Some(a) = view.plane.adjacencies.get(p.d.aux, view.guard) else {
            return Err(Ip4FragReason::Gone.into());
        };
        let work = &mut *view.work;
        work.cut(p, view.path_mtus.largest4(view.guard, p, a.ip_mtu()))?;
        let next = match a.mpls.as_deref() {
            None => Ip4FragNext::Rewrite,
            Some(m) if m.stack.is_empty() => Ip4FragNext::Popped,
            Some(m) if m.uniform => Ip4FragNext::PushUniform,
            Some(_) => Ip4FragNext::Push,
        };
        p.count(Ip4FragReason::Packets);
        p.env.count_n(Ip4FragReason::Fragments, work.made.len() as u64);
        for d in work.made.drain(..) {
            p.env.forward(d, next);
        }
        p.free();
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// Makes all fragments of `p`.
fn cut_all(work: &mut Work, p: &mut Packet<'_>, mtu: usize) -> Result<(), Ip4FragReason> {
    let total = p.total_len();
    if total > MAX_FRAME {
        return Err(Ip4FragReason::BadHeader);
    }
    if !p.has(flags::GSO) {
        if p.has(flags::CSUM_PARTIAL) && !crate::offload::complete(&mut p.env.buffers, p.d) {
            return Err(Ip4FragReason::BadOffload);
        }
        p.env.buffers.copy_out(p.d, 0, &mut work.packet[..total]);
        return cut(&mut work.made, p, &work.packet[..total], mtu);
    }
    p.env.buffers.copy_out(p.d, 0, &mut work.packet[..total]);
    let frame = &work.packet[..total];
    let m = p.meta();
    let header = VnetHdr { gso_type: m.gso_type, gso_size: m.gso_size, ..VnetHdr::default() };
    let gso = header.validate(total).ok().and_then(|o| o.gso).ok_or(Ip4FragReason::BadOffload)?;
    let segmenter = Segmenter::at(frame, 0, total, gso).map_err(|_| Ip4FragReason::BadOffload)?;
    for segment in segmenter.segments() {
        let start = segmenter.header_len();
        let payload = &frame[start + segment.payload.start..start + segment.payload.end];
        let headers = segmenter
            .write_headers(&segment, Sum::of(payload), &mut work.segment)
            .map_err(|_| Ip4FragReason::BadOffload)?;
        let end = headers + payload.len();
        work.segment[headers..end].copy_from_slice(payload);
        cut(&mut work.made, p, &work.segment[..end], mtu)?;
    }
    Ok(())
}

/// Makes the fragments of `packet`, which goes where `p` goes.
fn cut(made: &mut Vec<Desc>, p: &mut Packet<'_>, packet: &[u8], mtu: usize) -> Result<(), Ip4FragReason> {
    let header_len = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
    let payload = packet.get(header_len..).unwrap_or_default();
    let fragmenter = Fragmenter::new(packet, payload.len(), mtu)?;
    if made.len() + fragmenter.count() > MAX_FRAGMENTS {
        return Err(Ip4FragReason::TooMany);
    }
    // The fragments are not to be looked at again: they fit.
    let kept = p.d.flags & !(flags::GSO | flags::CSUM_PARTIAL | flags::CHAINED | REASSEMBLED);
    let trace_id = p.meta().trace_id;
    for fragment in fragmenter.fragments() {
        let mut header = [0; MAX_HEADER_LEN];
        let n = fragmenter.write_header(&fragment, &mut header).map_err(|_| Ip4FragReason::BadHeader)?;
        let part = &payload[fragment.payload.clone()];
        let b = &mut p.env.buffers;
        let Some(d) = b.alloc_bytes(part) else { return Err(Ip4FragReason::NoBuffers) };
        // The header goes into the headroom, which has room for it and for a link-layer header.
        let off = d.off - n as u16;
        b.room_mut(&d.buf)[usize::from(off)..usize::from(d.off)].copy_from_slice(&header[..n]);
        b.meta_mut(&d.buf).trace_id = trace_id;
        let flags = kept | d.flags;
        made.push(Desc { buf: d.buf, off, l2: off, len: d.len + n as u16, flags, ..*p.d });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Arrival, Input, Rig, fix_ip4, hex};

    fn payload() -> Vec<u8> {
        (0..3001).map(|i| (i % 251) as u8).collect()
    }

    // Scapy: IP(src="203.0.113.7", dst="198.51.100.77", id=0x1234, ttl=9) / UDP(sport=1, dport=2) / payload
    fn packet() -> Vec<u8> {
        [hex("45000bd51234000009112d5ccb007107c633644d 000100020bc11467"), payload()].concat()
    }

    /// A UDP super-frame of datagrams of 1200 bytes.
    fn super_frame() -> Input {
        let mut i = Input::new(&packet());
        i.partial = Some((20, 6));
        i.gso = Some((1200, VnetHdr::GSO_UDP_L4));
        i
    }

    fn bytes(all: Vec<Arrival>) -> Vec<Vec<u8>> {
        all.into_iter().map(|a| a.bytes).collect()
    }

    #[test]
    fn as_scapy_does() {
        let mut r = Rig::new(Ip4Frag::new);
        let adjacency = r.adjacency(1400);
        // Scapy: fragment(packet, fragsize=1376)
        let expect = [
            ("4500057412342000091113bdcb007107c633644d", 20..1396),
            ("45000574123420ac09111311cb007107c633644d", 1396..2772),
            ("4500011512340158091136c4cb007107c633644d", 2772..3029),
        ]
        .map(|(header, part)| [hex(header), packet()[part].to_vec()].concat());
        for split in [28, 333, 1396, 2000] {
            let mut i = Input::new(&packet()).split(split).aux(adjacency).flags(flags::LOCAL | flags::TRACED);
            (i.d.hash, i.d.tx) = (5, 6);
            let out = r.run(&[i]);
            for a in &out {
                assert_eq!(
                    (a.node, a.d.aux, a.d.flags),
                    ("ip4-rewrite", adjacency, flags::LOCAL | flags::TRACED)
                );
                assert_eq!(a.trace_id, crate::testing::TRACE_ID);
                assert_eq!((a.d.rx, a.d.tx, a.d.hash, a.d.l2), (1, 6, 5, a.d.off));
            }
            assert_eq!(bytes(out), expect);
        }
        assert_eq!((r.count("ip4-packets-fragmented"), r.count("ip4-fragments-made")), (4, 12));
    }

    #[test]
    fn fragments_that_need_several_buffers() {
        let mut r = Rig::new(Ip4Frag::new);
        let adjacency = r.adjacency(2900);
        let out = bytes(r.run(&[Input::new(&packet()).aux(adjacency)]));
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [2900, 149]);
        assert_eq!([&out[0][20..], &out[1][20..]].concat(), packet()[20..]);
    }

    #[test]
    fn options_stay_with_the_first_unless_copied() {
        // Scapy: the header with options=[IPOption_RR(routers=["0.0.0.0"]), IPOption_Router_Alert()]
        let header = hex("48000be11234000009111ab5cb007107c633644d 070704000000009404000000");
        let p = [header, packet()[20..].to_vec()].concat();
        let mut r = Rig::new(Ip4Frag::new);
        let adjacency = r.adjacency(1400);
        let out = bytes(r.run(&[Input::new(&p).aux(adjacency)]));
        assert_eq!(out[0][20..32], p[20..32]);
        assert_eq!((out[1][0], &out[1][20..24]), (0x46, &[0x94, 4, 0, 0][..]));
        assert!(out.iter().all(|f| f.len() <= 1400 && packet::ip4::check(f, f.len()).is_ok()));
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        let mut r = Rig::new(Ip4Frag::new);
        let adjacency = r.adjacency(1400);
        let mut p = packet();
        let sum = packet::checksum::pseudo4(
            [203, 0, 113, 7].into(),
            [198, 51, 100, 77].into(),
            packet::IpProtocol(17),
            3009,
        );
        p[26..28].copy_from_slice(&sum.fold().to_be_bytes());
        let mut i = Input::new(&p).aux(adjacency);
        i.partial = Some((20, 6));
        let out = r.run(&[i.clone()]);
        assert_eq!(out[0].bytes[20..28], packet()[20..28]);
        assert!(out.iter().all(|a| !a.d.has(flags::CSUM_PARTIAL)));
        i.partial = Some((20, 2040));
        assert_eq!(r.drops(i), "ip4-frag-bad-offload");
    }

    #[test]
    fn a_super_frame_becomes_fragments_of_its_datagrams() {
        let mut r = Rig::new(Ip4Frag::new);
        let adjacency = r.adjacency(1000);
        // Scapy: fragment(IP(..., id=0x1234 + i) / UDP(sport=1, dport=2) / payload[i * 1200:][:1200], fragsize=976)
        let p = payload();
        let expect = [
            ("450003e4123420000911154dcb007107c633644d0001000204b83435", 0..968),
            ("450000fc1234007a091137bbcb007107c633644d", 968..1200),
            ("450003e4123520000911154ccb007107c633644d0001000204b8c8c3", 1200..2168),
            ("450000fc1235007a091137bacb007107c633644d", 2168..2400),
            ("4500027512360000091136bacb007107c633644d0001000202614a13", 2400..3001),
        ]
        .map(|(header, part)| [hex(header), p[part].to_vec()].concat());
        let out = r.run(&[super_frame().aux(adjacency).split(1111)]);
        assert!(out.iter().all(|a| !a.d.has(flags::GSO | flags::CSUM_PARTIAL | flags::CHAINED)));
        assert_eq!(bytes(out), expect);
        for (size, kind) in [(0, VnetHdr::GSO_UDP_L4), (1200, 9), (1200, VnetHdr::GSO_TCPV4)] {
            let mut i = super_frame().aux(adjacency);
            i.gso = Some((size, kind));
            assert_eq!(r.drops(i), "ip4-frag-bad-offload");
        }
    }

    #[test]
    fn what_is_dropped() {
        let mut r = Rig::new(Ip4Frag::new);
        let (normal, small, tiny) = (r.adjacency(1400), r.adjacency(27), r.adjacency(28));
        let changed = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut p = packet();
            change(&mut p);
            fix_ip4(&mut p);
            Input::new(&p).aux(normal)
        };
        assert_eq!(r.drops(Input::new(&packet()).aux(9)), "ip4-frag-adjacency-gone");
        assert_eq!(r.drops(changed(&|p| p[6] = 0x40)), "ip4-frag-dont-fragment");
        assert_eq!(r.drops(Input::new(&packet()).aux(small)), "ip4-frag-mtu-too-small");
        assert_eq!(r.drops(changed(&|p| (p[6], p[7]) = (0x1f, 0xff))), "ip4-frag-beyond-65535");
        assert_eq!(r.drops(changed(&|p| (p[0], p[20], p[21]) = (0x46, 7, 1))), "ip4-frag-bad-header");
        assert_eq!(r.drops(Input::new(&[]).aux(normal)), "ip4-frag-bad-header");
        assert_eq!(r.drops(Input::new(&[0x4f; 30]).aux(normal)), "ip4-frag-bad-header");
        let long = [packet(), vec![0; 65_600]].concat();
        assert_eq!(r.drops(Input::new(&long).aux(normal)), "ip4-frag-bad-header");
        assert_eq!(r.run(&[Input::new(&packet()).aux(tiny)]).len(), 377);
        // 3001 datagrams of one byte are no super-frame; 2 bytes each are 1501 datagrams of two fragments.
        let mut i = super_frame().aux(tiny);
        i.gso = Some((2, VnetHdr::GSO_UDP_L4));
        assert_eq!(r.drops(i), "ip4-frag-too-many");
    }

    #[test]
    fn all_fragments_or_none() {
        let mut r = Rig::with_buffers(Ip4Frag::new, 512);
        let adjacency = r.adjacency(1400);
        // The packet takes two buffers, its fragments three.
        for (left, arrive) in [(2, 0), (4, 0), (5, 3)] {
            let taken = r.hoard(left);
            let out = r.run(&[Input::new(&packet()).aux(adjacency)]);
            assert_eq!(out.iter().filter(|a| a.node == "ip4-rewrite").count(), arrive);
            assert_eq!(
                out.iter().filter(|a| a.reason == "ip4-frag-no-buffers").count(),
                usize::from(arrive == 0)
            );
            r.release(taken);
        }
        assert_eq!(r.count("ip4-packets-fragmented"), 1);
    }
}
