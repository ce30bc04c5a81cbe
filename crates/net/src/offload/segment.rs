//! `gso-segment`: cuts super-frames into segments and completes partial checksums for devices that do neither.

use crate::plane::Plane;
use graph::buffer::HEADROOM;
use graph::node::Step;
use graph::{Buffers, Desc, Edge, Exit, Guard, Node, Packet, flags};
use packet::checksum::Sum;
use packet::gso::{Gso, GsoKind, PartialChecksum, Segmenter, VnetHdr, complete_checksum};
use std::sync::Arc;

graph::edges! {
    /// Where `gso-segment` sends packets.
    pub enum GsoNext { Output => "@interface-output" }
}

graph::reasons! {
    /// What `gso-segment` counts.
    pub enum GsoReason {
        /// The headers do not fit the offload that the sender asked for.
        Malformed => "gso-malformed",
        /// Not enough buffers for all segments; none was sent.
        NoBuffers => "gso-no-buffers",
        /// Segments made of super-frames.
        Segments => "gso-segments" (info),
        /// Checksums completed.
        Checksums => "checksums-completed" (info),
    }
}

/// The node.
pub struct GsoSegment;

impl GsoSegment {
    /// The node has no state; `plane` is taken for uniformity of the list of nodes.
    pub fn new(_plane: &Arc<Plane>) -> Self {
        GsoSegment
    }
}

fn gso_of(gso_type: u8, size: u16) -> Option<Gso> {
    let kind = match gso_type & !VnetHdr::GSO_ECN {
        VnetHdr::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHdr::GSO_TCPV6 => GsoKind::Tcp6,
        VnetHdr::GSO_UDP_L4 => GsoKind::Udp,
        _ => return None,
    };
    (size != 0).then_some(Gso { kind, size })
}

/// Completes the partial checksum of a packet in place. False when its place is not within the first buffer.
pub fn complete(buffers: &mut Buffers, d: &mut Desc) -> bool {
    let m = *buffers.meta(d.buf);
    let Some(start) = m.csum_start.checked_sub(d.off) else { return false };
    let partial = PartialChecksum { start: usize::from(start), offset: usize::from(m.csum_offset) };
    let mut rest = Sum::new();
    for part in buffers.parts(d).skip(1) {
        rest.add_bytes(part);
    }
    let tail = rest.fold().to_be_bytes();
    let ok = complete_checksum(buffers.data_mut(d), [&tail[..]], partial).is_ok();
    d.flags &= !flags::CSUM_PARTIAL;
    ok
}

impl Node for GsoSegment {
    const NAME: &'static str = "gso-segment";
    type Next = GsoNext;
    type Drop = GsoReason;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _guard: &'v Guard) {}

    fn step(_: &mut (), p: &mut Packet<'_>) -> Step<GsoNext, GsoReason> {
        if !p.has(flags::GSO) {
            if !complete(&mut p.env.buffers, p.d) {
                return Err(GsoReason::Malformed.into());
            }
            p.count(GsoReason::Checksums);
            return Ok(GsoNext::Output);
        }
        let m = *p.meta();
        let Some(gso) = gso_of(m.gso_type, m.gso_size) else { return Err(GsoReason::Malformed.into()) };
        let made = segment(&mut p.env.buffers, p.d, gso)?;
        let mut next = made;
        let mut n = 0;
        while next != graph::buffer::NONE {
            let link = *p.env.buffers.meta(next);
            let mut d = Desc { buf: next, off: HEADROOM as u16, l2: HEADROOM as u16, len: link.len, ..*p.d };
            d.flags &= !(flags::GSO | flags::CSUM_PARTIAL | flags::CHAINED | flags::TRACED);
            let node = p.env.edge(GsoNext::Output, &mut d);
            p.env.enqueue(d, node);
            next = link.next;
            n += 1;
        }
        p.env.count_n(GsoReason::Segments, n);
        p.env.buffers.free(p.d);
        debug_assert_eq!(GsoNext::Output.index(), 0, "the only edge");
        Err(Exit::Consumed)
    }
}

/// Makes all segments of a super-frame, each in one buffer, linked by `Meta::next` with their length in `Meta::len`.
fn segment(buffers: &mut Buffers, d: &Desc, gso: Gso) -> Result<u32, GsoReason> {
    let mut headers = [0u8; 256];
    let total = buffers.total_len(d);
    let front_len = buffers.copy_out(d, 0, &mut headers);
    let front = &headers[..front_len];
    let s = Segmenter::new(front, total, gso).map_err(|_| GsoReason::Malformed)?;
    let header_len = s.header_len();
    if header_len + usize::from(gso.size) > graph::buffer::DATA {
        return Err(GsoReason::Malformed);
    }
    let (mut first, mut last) = (graph::buffer::NONE, graph::buffer::NONE);
    for seg in s.segments() {
        let Some(buf) = buffers.alloc() else {
            if first != graph::buffer::NONE {
                buffers.free_chain(first);
            }
            return Err(GsoReason::NoBuffers);
        };
        let m = buffers.meta_mut(buf);
        (m.next, m.off) = (graph::buffer::NONE, HEADROOM as u16);
        let mut payload = [0u8; graph::buffer::DATA];
        let n = buffers.copy_out(d, header_len + seg.payload.start, &mut payload[..seg.payload.len()]);
        let room = &mut buffers.room_mut(buf)[HEADROOM..];
        let wrote = s.write_headers(&seg, Sum::of(&payload[..n]), room).unwrap_or(0);
        room[wrote..wrote + n].copy_from_slice(&payload[..n]);
        buffers.meta_mut(buf).len = (wrote + n) as u16;
        if first == graph::buffer::NONE {
            first = buf;
        } else {
            buffers.meta_mut(last).next = buf;
        }
        last = buf;
    }
    Ok(first)
}
