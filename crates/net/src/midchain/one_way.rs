//! Usual packets of a tunnel with one way to its other end, whose headers have a length that is known here: all headers, that of the
//! link layer in front, go on at once.

use super::usual::{Common, SEEN};
use super::{mark, outer4, outer6};
use crate::adjacency::Adjacency;
use crate::interface::{MOST_NESTED, Varies};
use graph::counters::Table;
use graph::{Desc, Rooms, flags, quick};
use packet::eth::{self, EtherType};
use packet::flow::{self, Flow};
use packet::{ip4, ip6};

/// The way that all packets of a tunnel take.
#[derive(Clone, Copy)]
pub struct Way<'v> {
    /// The adjacency, whose packets go straight to the device.
    pub to: &'v Adjacency,
    /// Its number.
    pub number: u32,
    /// Where it counts.
    pub counts: &'v Table,
}

/// What went over the tunnel and over the adjacency; both are told when it is dropped.
struct Sent<'v> {
    way: Way<'v>,
    tunnel: u32,
    counts: &'v Table,
    /// Packets in the low 16 bits, above them their bytes before anything was put in front.
    sum: u64,
    /// Bytes of each that do not go inside.
    skip: u64,
    /// Bytes of each that are put in front, without the link-layer header.
    front: u64,
}

impl Sent<'_> {
    /// A packet, before anything is put in front; at most 65,535 of them.
    #[inline(always)]
    fn count(&mut self, bytes: u16) {
        self.sum += (u64::from(bytes) << 16) + 1;
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let packets = self.sum & 0xffff;
        let inside = (self.sum >> 16) - packets * self.skip;
        for (table, index, bytes) in [
            (self.counts, self.tunnel, inside),
            (self.way.counts, self.way.number, inside + packets * self.front),
        ] {
            if let Some(c) = table.get(index).filter(|_| packets != 0) {
                c.packets.add(packets);
                c.bytes.add(bytes);
            }
        }
    }
}

/// Sends packets whose headers are `FRONT` bytes with that of the link layer, the IP header `IP` of them; frames go inside behind a
/// UDP header that depends on the flow, or packets behind what is the same for all. How many were taken.
#[inline(always)]
pub fn send<const IP: usize, const FRONT: usize, const FRAMES: bool>(
    common: &Common<'_>,
    way: Way<'_>,
    descs: &mut [Desc],
    mut rooms: Rooms<'_>,
) -> usize {
    const { assert!(FRONT > eth::HEADER_LEN + IP && FRONT + eth::HEADER_LEN + 44 <= SEEN) };
    let &Common { index, inside, ref template, marks, fixed, ids, flow, sent, .. } = common;
    let skip = if FRAMES { 0 } else { eth::HEADER_LEN };
    let grows = (FRONT - eth::HEADER_LEN - skip) as u16;
    let mut headers = [0; FRONT];
    let (link, behind) = headers.split_at_mut(eth::HEADER_LEN);
    link.copy_from_slice(&way.to.rewrite[..eth::HEADER_LEN]);
    let Some(template) = template.get(..behind.len()) else { return 0 };
    behind.copy_from_slice(template);
    let Some(most) = way.to.mtu.checked_sub(grows) else { return 0 };
    let least = (eth::HEADER_LEN + if inside.v6 { 44 } else { 24 }) as u16;
    let Some(more) = most.checked_sub(least) else { return 0 };
    let kind = if inside.v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let (v6, kind, seed) = (inside.v6, kind.0.to_be_bytes(), flow.seed);
    let (tx, front) = (way.to.interface, (FRONT - eth::HEADER_LEN) as u64);
    let mut ids = ids.here();
    let mut counts = Sent { way, tunnel: index, counts: sent, sum: 0, skip: skip as u64, front };
    quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
        let (back, hashed) =
            (FRONT - if FRAMES { 0 } else { eth::HEADER_LEN }, FRAMES || IP == ip6::HEADER_LEN);
        if d.tx != index || d.flags & MOST_NESTED == MOST_NESTED || d.len.wrapping_sub(least) > more {
            return false;
        }
        let Some(start) = usize::from(d.off).checked_sub(back) else { return false };
        let Some(w) = rooms.sight::<SEEN>(d, start) else { return false };
        let (_, frame) = w.split_at(back);
        if frame[12..14] != kind {
            return false;
        }
        let h = &frame[eth::HEADER_LEN..];
        let flow = Flow::five_tuple(seed);
        let hash = match (hashed, v6) {
            (false, _) => Some(0),
            (true, false) => h.first_chunk().and_then(|h| flow::of_ip4_near(h, flow)),
            (true, true) => h.first_chunk().and_then(|h| flow::of_ip6_near(h, flow)),
        };
        let Some(hash) = hash else { return false };
        let (tos, ttl) = if v6 { (h[0] << 4 | h[1] >> 4, h[7]) } else { (h[1], h[8]) };
        let (tos, ttl, whole) = (marks.tos(tos), marks.ttl(Some(ttl)), d.len + grows);
        let above = whole - IP as u16;
        counts.count(d.len);
        let Some(front) = w.first_chunk_mut::<FRONT>() else { return false };
        *front = headers;
        let ip = &mut front[eth::HEADER_LEN..];
        if FRAMES && let Some(udp) = ip[IP..].first_chunk_mut() {
            Varies::udp(udp, hash, above);
        }
        if IP == ip6::HEADER_LEN
            && let Some(ip) = ip.first_chunk_mut()
        {
            outer6(ip, above, tos, ttl, hash);
        } else if let Some(ip) = ip.first_chunk_mut::<{ ip4::HEADER_LEN }>() {
            outer4(ip, whole, tos, ttl, ids.next(), fixed);
        }
        d.off = start as u16;
        d.len = whole + eth::HEADER_LEN as u16;
        mark(d);
        d.tx = tx;
        true
    })
}
