//! The short cut of `adj-midchain-tx`.

use super::{Ids, Marks, MidchainNext, MidchainTx, MidchainView, fixed, mark, outer4, outer6};
use crate::adjacency::{Straight, kind};
use crate::forward::{LastAdjacency, Sender};
use crate::interface::{Fixup, MOST_NESTED, Midchain, Varies};
use graph::counters::{Run, Table};
use graph::{Desc, Guard, QuickNode, Rooms, WINDOW, flags, quick};
use packet::checksum::Sum;
use packet::eth::{self, EtherType};
use packet::flow::{self, Flow};
use packet::vlan;
use packet::{ip4, ip6};
use tables::groups::Paths;

/// What the usual packets of a vector have in common: they leave by one tunnel straight to a device, and the same kinds of headers
/// are in front of what is inside.
pub struct Common<'v> {
    /// Packets of the vector went a longer way: all do.
    slow: bool,
    /// The interface of the tunnel.
    index: u32,
    m: &'v Midchain,
    inside: Inside,
    /// The headers as all packets have them, and how long they are.
    template: [u8; WINDOW],
    front: u16,
    marks: Marks,
    /// The sum of the IPv4 header.
    fixed: u32,
    ids: Ids<'v>,
    next: LastAdjacency<'v>,
    flow: Flow,
    sent: &'v Table,
}

/// Bytes of a packet from the link-layer header outside on, as far as the ports inside.
const SEEN: usize = 136;

/// The link-layer header of packets, and what is behind.
#[derive(Clone, Copy)]
struct Inside {
    /// What the tunnel's header says.
    what: EtherType,
    /// Where the IP header begins.
    at: usize,
    /// Types in the header: of the frame, and behind its tag; and what of its bytes says so.
    types: u64,
    mask: u64,
    /// Bytes of it that do not go inside.
    skip: u16,
    v6: bool,
}

/// The bytes of a frame behind its addresses.
#[inline(always)]
fn behind_addresses(frame: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*frame.get(12..)?.first_chunk()?))
}

impl Inside {
    /// Of a packet in sight, if it is IP behind one tag at most.
    fn of(frame: &[u8], frames: bool) -> Option<Inside> {
        let word = behind_addresses(frame)?;
        let first = EtherType((word >> 48) as u16);
        let (at, kind, mask) = match first.is_vlan() {
            false => (eth::HEADER_LEN, first, 0xffff << 48),
            true if frames => {
                (eth::HEADER_LEN + vlan::TAG_LEN, EtherType((word >> 16) as u16), 0xffff_0000_ffff_0000)
            }
            true => return None,
        };
        let v6 = match kind {
            EtherType::IPV4 => false,
            EtherType::IPV6 => true,
            _ => return None,
        };
        let (what, skip) = if frames { (EtherType::TRANSPARENT_ETHERNET, 0) } else { (kind, at as u16) };
        Some(Inside { what, at, types: word & mask, mask, skip, v6 })
    }

    /// Type of service, TTL, and, where it is to be known, flow hash of a packet of `len` bytes with these headers; `None` where more
    /// has to be looked at.
    #[inline(always)]
    fn look<const HASHED: bool>(self, frame: &[u8], len: u16, flow: Flow) -> Option<(u8, u8, u32)> {
        if behind_addresses(frame)? & self.mask != self.types {
            return None;
        }
        let h = frame.get(self.at..)?;
        let have = usize::from(len).checked_sub(self.at)?;
        if self.v6 {
            let h: &[u8; 44] = h.first_chunk().filter(|h| have >= h.len())?;
            let hash = if HASHED { flow::of_ip6_near(h, flow)? } else { 0 };
            Some((h[0] << 4 | h[1] >> 4, h[7], hash))
        } else {
            let h: &[u8; 24] = h.first_chunk().filter(|h| have >= h.len())?;
            let hash = if HASHED { flow::of_ip4_near(h, flow)? } else { 0 };
            Some((h[1], h[8], hash))
        }
    }
}

impl Common<'_> {
    /// For tunnels whose IP header has `IP` bytes, and whose headers differ as [`Varies`] says, by its number; `HASHED`: the flow
    /// matters.
    #[inline(always)]
    fn send<const IP: usize, const VARIES: u8, const HASHED: bool>(
        &self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
    ) -> usize {
        let &Common {
            index, m, inside, ref template, front, marks, fixed, ids, ref next, flow, sent, ..
        } = self;
        let (mut next, mut counts) = (next.begin(), Run::new(sent));
        counts.turn(index);
        // From the link-layer header outside to that inside, and what comes to a packet's length.
        let back = front + eth::HEADER_LEN as u16 - inside.skip;
        let (grows, group) = (front - inside.skip, m.group);
        let all = template.get(..usize::from(front)).and_then(|t| t.split_first_chunk::<IP>());
        let Some((&ip_template, upper_template)) = all else { return 0 };
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
            if d.tx != index || d.flags & MOST_NESTED == MOST_NESTED {
                return false;
            }
            let Some(start) = d.off.checked_sub(back) else { return false };
            let Some(w) = rooms.sight::<SEEN>(d, start.into()) else { return false };
            let Some(frame) = w.get(usize::from(back)..) else { return false };
            let Some((tos, ttl, hash)) = inside.look::<HASHED>(frame, d.len, flow) else { return false };
            let Some(whole) = d.len.checked_add(grows) else { return false };
            let Some(a) = next.adjacency(group, whole, |_| HASHED.then_some(hash)) else { return false };
            let (tos, ttl, above) = (marks.tos(tos), marks.ttl(Some(ttl)), whole - IP as u16);
            let Some((ip, upper)) = w[eth::HEADER_LEN..].split_first_chunk_mut::<IP>() else { return false };
            *ip = ip_template;
            copy(upper, upper_template);
            if VARIES == Varies::Flow as u8
                && let Some(udp) = upper.first_chunk_mut()
            {
                Varies::udp(udp, hash, above);
            }
            if VARIES == Varies::More as u8 {
                let (headers, len) = (&mut upper[..upper_template.len()], usize::from(whole - front));
                (m.fixup)(m, Fixup { headers, inside: inside.what, hash, len, sum: Sum::new() });
            }
            if IP == ip6::HEADER_LEN
                && let Some(ip) = ip.first_chunk_mut()
            {
                outer6(ip, above, tos, ttl, hash);
            } else if let Some(ip) = ip.first_chunk_mut() {
                outer4(ip, whole, tos, ttl, ids.next(), fixed);
            }
            counts.count(whole - front);
            (d.off, d.len) = (start + eth::HEADER_LEN as u16, whole);
            mark(d);
            if let Some(w) = w.first_chunk_mut() {
                next.send(d, a, w);
            }
            true
        })
    }
}

/// Copies all of `from` to the front of `to`, which is longer.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    fn words<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
        *to.first_chunk_mut::<N>()? = *from.first_chunk()?;
        Some(())
    }
    // The lengths that headers mostly have.
    let done = match from.len() {
        4 => words::<4>(to, from),
        8 => words::<8>(to, from),
        16 => words::<16>(to, from),
        _ => None,
    };
    if done.is_none() {
        to[..from.len()].copy_from_slice(from);
    }
}

impl QuickNode for MidchainTx {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &MidchainView<'v>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(MidchainNext, Common<'v>)> {
        let m = view.plane.interfaces.get(first.tx, guard)?.midchain.as_deref()?;
        let groups = view.plane.groups.reader();
        let way = match groups.paths(m.group) {
            Paths::One(e) => e,
            Paths::Many(word) => groups.pick(word, 0),
        };
        let sender = Sender::new(view.plane.adjacencies.reader(guard), view.adjacency);
        if m.sums
            || way.kind != kind::REWRITE
            || sender.straight(way.adj) != Straight::Device
            || view.path_mtus.knows(guard, m.remote)
        {
            return None;
        }
        let inside = Inside::of(rooms.window::<0>(first)?, m.frames)?;
        let mut template = [0; WINDOW];
        template.get_mut(..m.template.len())?.copy_from_slice(&m.template);
        if m.varies == Varies::Kind {
            let behind = if m.v6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
            let headers = template.get_mut(behind..m.template.len())?;
            (m.fixup)(m, Fixup { headers, inside: inside.what, hash: 0, len: 0, sum: Sum::new() });
        }
        let flow = Flow::outside(view.config.hash_seed);
        let common = Common {
            slow: false,
            index: first.tx,
            m,
            inside,
            front: m.template.len() as u16,
            fixed: template.first_chunk().map_or(0, fixed),
            template,
            marks: Marks::new(m, view.config.ttl),
            ids: view.ids,
            next: sender.last(groups, Some(flow)),
            flow,
            sent: view.sent,
        };
        Some((MidchainNext::Device, common))
    }

    /// Nothing of another tunnel is overtaken.
    fn behind(common: &mut Common<'_>, edge: MidchainNext, before: &Desc) -> Option<MidchainNext> {
        if before.tx != common.index {
            return None;
        }
        let was = std::mem::replace(&mut common.slow, true);
        (!was).then_some(edge)
    }

    /// What goes to all stations of a bridge domain goes through many tunnels in turn.
    const MOST_KINDS: usize = 16;

    const SORTS: bool = true;
    const SORTS_UNUSUAL: bool = false;

    /// Packets of one tunnel with one kind of headers.
    fn kinds(_: &mut MidchainView<'_>, descs: &[Desc], mut rooms: Rooms<'_>, kinds: &mut [u32]) {
        for (d, kind) in descs.iter().zip(kinds) {
            let w = rooms.window::<0>(d).map(|w| &w[..]);
            let types = w.and_then(|w| Some(Inside::of(w, true)?.types)).unwrap_or_default();
            *kind = d.tx ^ ((types >> 32 | types) as u32).wrapping_mul(0x9e37_79b1);
        }
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        const IP4: usize = ip4::HEADER_LEN;
        const IP6: usize = ip6::HEADER_LEN;
        const KIND: u8 = Varies::Kind as u8;
        const FLOW: u8 = Varies::Flow as u8;
        const MORE: u8 = Varies::More as u8;
        let m = common.m;
        match (m.v6, m.varies) {
            _ if common.slow => 0,
            (false, Varies::Kind) if common.next.is_one(m.group) => {
                common.send::<IP4, KIND, false>(descs, rooms)
            }
            (false, Varies::Kind) => common.send::<IP4, KIND, true>(descs, rooms),
            (false, Varies::Flow) => common.send::<IP4, FLOW, true>(descs, rooms),
            (false, Varies::More) => common.send::<IP4, MORE, true>(descs, rooms),
            (true, Varies::Kind) => common.send::<IP6, KIND, true>(descs, rooms),
            (true, Varies::Flow) => common.send::<IP6, FLOW, true>(descs, rooms),
            (true, Varies::More) => common.send::<IP6, MORE, true>(descs, rooms),
        }
    }
}
