//! `gso-segment`: cuts super-frames into segments and completes partial checksums for devices that do neither.

use crate::plane::Plane;
use drivers::offload::{self, MAX_HEADERS};
use graph::buffer::HEADROOM;
use graph::chain::{Row, Walk};
use graph::node::Step;
use graph::{Buffers, Desc, Edge, Exit, Guard, Node, Packet, flags};
use packet::checksum::Sum;
use packet::gso::{Gso, Segmenter};
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

/// Completes the partial checksum of a packet in place. False when its place is not within the first buffer.
pub fn complete(buffers: &mut Buffers, d: &mut Desc) -> bool {
    let ok = offload::complete(buffers, d);
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
        let Some(gso) = offload::gso(&p.env.buffers, p.d) else { return Err(GsoReason::Malformed.into()) };
        let mut made = segment(&mut p.env.buffers, p.d, gso)?;
        let mut n = 0;
        while let Some((buf, off, len)) = made.pop(&p.env.buffers) {
            let mut d = Desc { buf, off, l2: off, len, ..*p.d };
            d.flags &= !(flags::GSO | flags::CSUM_PARTIAL | flags::CHAINED | flags::TRACED);
            let node = p.env.edge(GsoNext::Output, &mut d);
            p.env.enqueue(d, node);
            n += 1;
        }
        p.env.count_n(GsoReason::Segments, n);
        p.free();
        debug_assert_eq!(GsoNext::Output.index(), 0, "the only edge");
        Err(Exit::Consumed)
    }
}

/// Makes all segments of a super-frame, each in one buffer.
fn segment(buffers: &mut Buffers, d: &Desc, gso: Gso) -> Result<Row, GsoReason> {
    let mut headers = [0u8; MAX_HEADERS];
    let total = buffers.total_len(d);
    let front_len = buffers.copy_out(d, 0, &mut headers);
    let front = &headers[..front_len];
    let s = Segmenter::new(front, total, gso).map_err(|_| GsoReason::Malformed)?;
    let header_len = s.header_len();
    if header_len + usize::from(gso.size) > graph::buffer::DATA {
        return Err(GsoReason::Malformed);
    }
    let mut made = Row::default();
    let mut walk = Walk::new(buffers, d);
    if !walk.skip(buffers, header_len) {
        return Err(GsoReason::Malformed);
    }
    let mut payload = [0u8; graph::buffer::DATA];
    for seg in s.segments() {
        let Some(buf) = buffers.alloc() else {
            made.free(buffers);
            return Err(GsoReason::NoBuffers);
        };
        let mut n = 0;
        while let Some(piece) = walk.take(buffers, seg.payload.len() - n).filter(|p| p.len != 0) {
            payload[n..n + usize::from(piece.len)].copy_from_slice(piece.bytes(buffers));
            n += usize::from(piece.len);
        }
        let room = &mut buffers.room_mut(&buf)[HEADROOM..];
        let wrote = s.write_headers(&seg, Sum::of(&payload[..n]), room).unwrap_or(0);
        room[wrote..wrote + n].copy_from_slice(&payload[..n]);
        made.push(buffers, buf, HEADROOM as u16, (wrote + n) as u16);
    }
    Ok(made)
}
