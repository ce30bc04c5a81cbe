//! `ip6-frag`: cuts packets that the router made, or put together, and that exceed their adjacency's MTU
//! (RFC 8200 section 4.5). Other packets only their source may cut.

use crate::plane::Plane;
use crate::{path_mtu, reassembly};
use graph::node::Step;
use graph::{Desc, Exit, Guard, Node, Packet, Packets, TraceRecord, flags};
use packet::checksum::Sum;
use packet::gso::{Segmenter, VnetHdr};
use packet::ip6::frag::{FRAGMENT_LEN, FragError, Fragmenter, MAX_HEAD};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-frag` sends packets.
    pub enum Ip6FragNext {
        Rewrite => "ip6-rewrite",
        Push => "ip6-mpls-label-imposition-pipe",
        PushUniform => "ip6-mpls-label-imposition-uniform",
    }
}

graph::reasons! {
    /// What `ip6-frag` counts.
    pub enum Ip6FragReason {
        /// The adjacency does not exist any more.
        Gone => "ip6-frag-adjacency-gone",
        /// The headers are wrong, or the packet is longer than an IPv6 packet can be.
        BadHeader => "ip6-frag-bad-header",
        /// The partial checksum contradicts the packet, or it is a super-frame.
        BadOffload => "ip6-frag-bad-offload",
        /// Not enough buffers for all fragments; none was sent.
        NoBuffers => "ip6-frag-no-buffers",
        /// A packet was fragmented.
        Packets => "ip6-packets-fragmented" (info),
        /// Fragments made.
        Fragments => "ip6-fragments-made" (info),
    }
}

impl From<FragError> for Ip6FragReason {
    fn from(_: FragError) -> Self {
        Ip6FragReason::BadHeader
    }
}

/// Fragments that one packet may become: the longest one over the least MTU makes 54.
const MAX_FRAGMENTS: usize = 64;
/// Segments that a super-frame may become: as many as the longest holds TCP segments of 32 bytes.
const MAX_SEGMENTS: usize = 2048;
/// The longest packet: the length field counts what is behind 40 bytes.
const MAX_PACKET: usize = 40 + u16::MAX as usize;

/// The node.
pub struct Ip6Frag {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    /// The packet in one piece.
    packet: Box<[u8]>,
    /// Fragments made so far.
    made: Vec<Desc>,
    ids: Ids,
}

impl Ip6Frag {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip6Frag {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            packet: vec![0; MAX_PACKET].into_boxed_slice(),
            made: Vec::with_capacity(MAX_SEGMENTS),
            ids: Ids { secret: RandomState::new(), next: worker as u64 },
        }
    }
}

/// Identifications that nobody outside can guess (RFC 7739).
struct Ids {
    secret: RandomState,
    next: u64,
}

impl Ids {
    fn take(&mut self) -> u32 {
        // Workers are told apart by their secrets.
        self.next = self.next.wrapping_add(1);
        self.secret.hash_one(self.next) as u32
    }
}

/// Snapshot of one vector.
pub struct Ip6FragView<'v> {
    guard: &'v Guard,
    node: &'v mut Ip6Frag,
}

impl Node for Ip6Frag {
    const NAME: &'static str = "ip6-frag";
    type Next = Ip6FragNext;
    type Drop = Ip6FragReason;
    type View<'v> = Ip6FragView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6FragView<'v> {
        Ip6FragView { guard, node: self }
    }

    fn step(view: &mut Ip6FragView<'_>, p: &mut Packet<'_>) -> Step<Ip6FragNext, Ip6FragReason> {
        let Some(a) = view.node.plane.adjacencies.get(p.d.aux, view.guard) else {
            return Err(Ip6FragReason::Gone.into());
        };
        let mtu = view.node.path_mtus.largest6(view.guard, p, a.ip_mtu());
        let next = match a.mpls.as_deref() {
            None => Ip6FragNext::Rewrite,
            Some(m) if m.uniform => Ip6FragNext::PushUniform,
            Some(_) => Ip6FragNext::Push,
        };
        let node = &mut *view.node;
        node.made.clear();
        let id = node.plane.config.load(view.guard).fragment_id.unwrap_or_else(|| node.ids.take());
        if let Err(why) = cut(node, p, mtu, id) {
            p.env.buffers.free_all(Packets::drain(&mut node.made));
            return Err(why.into());
        }
        p.count(Ip6FragReason::Packets);
        p.env.count_n(Ip6FragReason::Fragments, node.made.len() as u64);
        for d in node.made.drain(..) {
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
fn cut(node: &mut Ip6Frag, p: &mut Packet<'_>, mtu: usize, id: u32) -> Result<(), Ip6FragReason> {
    let total = p.total_len();
    let super_frame = p.has(flags::GSO);
    let done =
        !super_frame && p.has(flags::CSUM_PARTIAL) && !crate::offload::complete(&mut p.env.buffers, p.d);
    if super_frame {
        return segment(node, p, mtu);
    }
    if done {
        return Err(Ip6FragReason::BadOffload);
    }
    let packet = node.packet.get_mut(..total).ok_or(Ip6FragReason::BadHeader)?;
    p.env.buffers.copy_out(p.d, 0, packet);
    let fragmenter = Fragmenter::new(packet, mtu)?;
    if fragmenter.count() > MAX_FRAGMENTS {
        return Err(Ip6FragReason::BadHeader);
    }
    // The fragments are not to be looked at again: they fit.
    let kept = p.d.flags & !(flags::CSUM_PARTIAL | flags::CHAINED | reassembly::REASSEMBLED);
    let trace_id = p.meta().trace_id;
    for part in fragmenter.fragments() {
        let mut header = [0; MAX_HEAD + FRAGMENT_LEN];
        let n = fragmenter.write_header(&part, id, &mut header).ok_or(Ip6FragReason::BadHeader)?;
        let b = &mut p.env.buffers;
        let Some(mut d) = b.alloc_bytes(&header[..n]) else { return Err(Ip6FragReason::NoBuffers) };
        // Behind the headers, as far as the first buffer has room.
        let at = usize::from(d.off) + n;
        let room = &mut b.room_mut(&d.buf)[at..];
        let here = part.len().min(room.len());
        let (first, rest) = packet[part].split_at(here);
        room[..here].copy_from_slice(first);
        d.len += here as u16;
        let whole = b.append(&mut d, rest);
        b.meta_mut(&d.buf).trace_id = trace_id;
        node.made.push(Desc { buf: d.buf, off: d.off, l2: d.off, len: d.len, flags: kept | d.flags, ..*p.d });
        if !whole {
            return Err(Ip6FragReason::NoBuffers);
        }
    }
    Ok(())
}

/// Makes the segments of a super-frame, which fit.
fn segment(node: &mut Ip6Frag, p: &mut Packet<'_>, mtu: usize) -> Result<(), Ip6FragReason> {
    let total = p.total_len();
    let frame = node.packet.get_mut(..total).ok_or(Ip6FragReason::BadHeader)?;
    p.env.buffers.copy_out(p.d, 0, frame);
    let m = *p.meta();
    let header = VnetHdr { gso_type: m.gso_type, gso_size: m.gso_size, ..VnetHdr::default() };
    let gso = header.validate(total).ok().and_then(|o| o.gso).ok_or(Ip6FragReason::BadOffload)?;
    let segmenter = Segmenter::at(frame, 0, total, gso).map_err(|_| Ip6FragReason::BadOffload)?;
    let start = segmenter.header_len();
    if start > MAX_HEAD || start + usize::from(gso.size) > mtu || segmenter.count() > MAX_SEGMENTS {
        return Err(Ip6FragReason::BadOffload);
    }
    let kept = p.d.flags & !(flags::GSO | flags::CSUM_PARTIAL | flags::CHAINED | reassembly::REASSEMBLED);
    for part in segmenter.segments() {
        let payload = &frame[start + part.payload.start..start + part.payload.end];
        let mut headers = [0; MAX_HEAD];
        let n = segmenter
            .write_headers(&part, Sum::of(payload), &mut headers)
            .map_err(|_| Ip6FragReason::BadOffload)?;
        let b = &mut p.env.buffers;
        let Some(mut d) = b.alloc_bytes(&headers[..n]) else { return Err(Ip6FragReason::NoBuffers) };
        let whole = b.append(&mut d, payload);
        b.meta_mut(&d.buf).trace_id = m.trace_id;
        node.made.push(Desc { buf: d.buf, off: d.off, l2: d.off, len: d.len, flags: kept | d.flags, ..*p.d });
        if !whole {
            return Err(Ip6FragReason::NoBuffers);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};
    use std::collections::BTreeSet;

    fn rig() -> Rig {
        Rig::new(|plane| Ip6Frag::new(plane, 0))
    }

    fn packet(len: usize) -> Vec<u8> {
        let mut p = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, 58, 64];
        p.extend([0x20; 32]);
        p.extend((0..len).map(|n| (n % 251) as u8));
        p
    }

    #[test]
    fn all_bytes_in_fragments_that_fit() {
        let mut r = rig();
        for (mtu, len, split) in
            [(1280, 1300, 2000), (1500, 65_535, 2000), (9000, 65_535, 1999), (1280, 4000, 60)]
        {
            let adj = r.adjacency(mtu);
            let p = packet(len);
            let i = Input::new(&p).split(split).aux(adj).flags(flags::LOCAL | flags::TRACED);
            let out = r.run(&[i]);
            let mut joined = vec![0; len];
            let mut ids = BTreeSet::new();
            for (n, a) in out.iter().enumerate() {
                assert!(a.bytes.len() <= usize::from(mtu) && a.node == "ip6-rewrite");
                assert_eq!(
                    (a.d.aux, a.d.rx, a.d.l2, a.trace_id),
                    (adj, 1, a.d.off, crate::testing::TRACE_ID)
                );
                assert!(a.d.has(flags::LOCAL) && a.d.has(flags::TRACED));
                let (f, _) = packet::ip6::ext::fragment(&a.bytes).unwrap().unwrap();
                assert_eq!(f.more, n + 1 < out.len());
                ids.insert(f.id);
                joined[f.offset..f.offset + a.bytes.len() - 48].copy_from_slice(&a.bytes[48..]);
            }
            assert_eq!((joined, ids.len()), (p[40..].to_vec(), 1));
        }
        assert_eq!(r.count("ip6-packets-fragmented"), 4);
    }

    #[test]
    fn identifications_differ_and_are_not_counted_up() {
        let mut ids = Ids { secret: RandomState::new(), next: 0 };
        let all: Vec<u32> = (0..1000).map(|_| ids.take()).collect();
        assert!(all.iter().collect::<BTreeSet<_>>().len() > 990);
        assert!(all.windows(2).filter(|w| w[1].wrapping_sub(w[0]) < 1 << 20).count() < 10);
    }

    #[test]
    fn a_packet_put_together_leaves_in_no_larger_fragments() {
        let mut r = rig();
        let adj = r.adjacency(1500);
        let mut i = Input::new(&packet(3000)).split(2000).aux(adj).flags(reassembly::REASSEMBLED);
        i.largest = Some(1300);
        let out = r.run(&[i]);
        assert_eq!(out.iter().map(|a| a.bytes.len()).collect::<Vec<_>>(), [1296, 1296, 552]);
        assert!(out.iter().all(|a| !a.d.has(reassembly::REASSEMBLED)));
    }

    #[test]
    fn what_is_dropped() {
        let mut r = rig();
        let (adj, tiny) = (r.adjacency(1280), r.adjacency(50));
        let input = |p: &[u8]| Input::new(p).split(1000).aux(adj);
        assert_eq!(r.drops(input(&packet(3000)).aux(9)), "ip6-frag-adjacency-gone");
        assert_eq!(r.drops(input(&packet(3000)).aux(tiny)), "ip6-frag-bad-header");
        let mut bad = packet(3000);
        (bad[6], bad[41]) = (60, 255);
        bad[40] = 60;
        assert_eq!(r.drops(input(&bad)), "ip6-frag-bad-header");
        assert_eq!(r.drops(input(&[packet(60_000), vec![0; 9000]].concat())), "ip6-frag-bad-header");
        let mut gso = input(&packet(3000));
        gso.gso = Some((1000, 1));
        assert_eq!(r.drops(gso), "ip6-frag-bad-offload");
        let mut partial = input(&packet(3000));
        partial.partial = Some((40, 2040));
        assert_eq!(r.drops(partial), "ip6-frag-bad-offload");
        let mut r = Rig::with_buffers(|plane| Ip6Frag::new(plane, 0), 512);
        let adj = r.adjacency(1280);
        let taken = r.hoard(4);
        let out = r.run(&[Input::new(&packet(3000)).aux(adj)]);
        assert_eq!((out.len(), out[0].reason), (1, "ip6-frag-no-buffers"));
        r.release(taken);
    }
}
