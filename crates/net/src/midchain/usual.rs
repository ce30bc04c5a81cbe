//! The short cut of `adj-midchain-tx`.

use super::one_way::{self, Way};
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
    pub(super) slow: bool,
    /// The interface of the tunnel.
    pub(super) index: u32,
    pub(super) m: &'v Midchain,
    pub(super) inside: Inside,
    /// The headers as all packets have them, and how long they are.
    pub(super) template: [u8; WINDOW],
    pub(super) front: u16,
    pub(super) marks: Marks,
    /// The sum of the IPv4 header.
    pub(super) fixed: u32,
    pub(super) ids: Ids<'v>,
    pub(super) next: LastAdjacency<'v>,
    /// Where all packets go, if it is one way.
    pub(super) way: Option<Way<'v>>,
    pub(super) flow: Flow,
    pub(super) sent: &'v Table,
}

/// Bytes of a packet from the link-layer header outside on, as far as the ports inside.
pub(super) const SEEN: usize = 136;

/// The link-layer header of packets, and what is behind.
#[derive(Clone, Copy)]
pub(super) struct Inside {
    /// What the tunnel's header says.
    what: EtherType,
    /// Where the IP header begins.
    at: usize,
    /// Types in the header: of the frame, and behind its tag; and what of its bytes says so.
    types: u64,
    mask: u64,
    /// Bytes of it that do not go inside.
    skip: u16,
    pub(super) v6: bool,
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

    /// Without a tag.
    fn is_untagged(&self) -> bool {
        self.at == eth::HEADER_LEN
    }

    /// The same, known to be untagged.
    #[inline(always)]
    fn untagged(self) -> Inside {
        Inside { at: eth::HEADER_LEN, mask: 0xffff << 48, ..self }
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

/// What is the same for all tunnels of a sort, so that the loop knows it: the bytes of the IP header and of those behind it, whether
/// frames go inside, and what the headers depend on ([`Varies`], by its number).
trait Sort {
    const IP: usize;
    /// Without a tag inside. `None`: of any length, with a tag or without.
    const UPPER: Option<usize> = None;
    const FRAMES: bool = false;
    const VARIES: u8;
    /// Whether the flow matters.
    const HASHED: bool = true;
}

/// Any tunnel over a family; `HASHED` where its headers or its way depend on the flow.
struct Over<const IP: usize, const VARIES: u8, const HASHED: bool>;

impl<const IP: usize, const VARIES: u8, const HASHED: bool> Sort for Over<IP, VARIES, HASHED> {
    const IP: usize = IP;
    const VARIES: u8 = VARIES;
    const HASHED: bool = HASHED;
}

/// Packets in IPv4 behind a word, as with GRE.
struct Word4;

impl Sort for Word4 {
    const IP: usize = ip4::HEADER_LEN;
    const UPPER: Option<usize> = Some(4);
    const VARIES: u8 = Varies::Kind as u8;
}

/// Frames in datagrams behind two words, as with VXLAN.
struct Datagram<const IP: usize>;

impl<const IP: usize> Sort for Datagram<IP> {
    const IP: usize = IP;
    const UPPER: Option<usize> = Some(16);
    const FRAMES: bool = true;
    const VARIES: u8 = Varies::Flow as u8;
}

impl Common<'_> {
    /// Whether the tunnel, and what goes into it, is of a sort that has a length.
    fn is<S: Sort>(&self) -> bool {
        S::UPPER.is_some_and(|upper| {
            usize::from(self.front) == S::IP + upper
                && self.m.frames == S::FRAMES
                && self.m.varies as u8 == S::VARIES
                && self.inside.is_untagged()
        })
    }

    #[inline(always)]
    fn send<S: Sort, const IP: usize>(&self, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let &Common {
            index,
            m,
            mut inside,
            ref template,
            mut front,
            marks,
            fixed,
            ids,
            ref next,
            flow,
            sent,
            ..
        } = self;
        if let Some(upper) = S::UPPER {
            inside = inside.untagged();
            inside.skip = if S::FRAMES { 0 } else { eth::HEADER_LEN as u16 };
            front = (IP + upper) as u16;
        }
        let (mut next, mut counts, mut ids) = (next.begin(), Run::new(sent), ids.here());
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
            let seen = if S::HASHED {
                inside.look::<true>(frame, d.len, flow)
            } else {
                inside.look::<false>(frame, d.len, flow)
            };
            let Some((tos, ttl, hash)) = seen else { return false };
            let Some(whole) = d.len.checked_add(grows) else { return false };
            let Some(a) = next.adjacency(group, whole, |_| S::HASHED.then_some(hash)) else { return false };
            let (tos, ttl, above) = (marks.tos(tos), marks.ttl(Some(ttl)), whole - IP as u16);
            let Some((ip, upper)) = w[eth::HEADER_LEN..].split_first_chunk_mut::<IP>() else { return false };
            *ip = ip_template;
            match S::UPPER {
                Some(4) => copy::<4>(upper, upper_template),
                Some(16) => copy::<16>(upper, upper_template),
                _ => upper[..upper_template.len()].copy_from_slice(upper_template),
            }
            if S::VARIES == Varies::Flow as u8
                && let Some(udp) = upper.first_chunk_mut()
            {
                Varies::udp(udp, hash, above);
            }
            if S::VARIES == Varies::More as u8 {
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

/// Copies `N` bytes to the front of `to`.
#[inline(always)]
fn copy<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *from;
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
        let (way, is_one) = match groups.paths(m.group) {
            Paths::One(e) => (e, true),
            Paths::Many(word) => (groups.pick(word, 0), false),
        };
        let adjacencies = view.plane.adjacencies.reader(guard);
        let sender = Sender::new(adjacencies, view.adjacency);
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
            way: adjacencies.get(way.adj).filter(|_| is_one).map(|to| Way {
                to,
                number: way.adj,
                counts: view.adjacency,
            }),
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
        const LINK: usize = eth::HEADER_LEN;
        const KIND: u8 = Varies::Kind as u8;
        const FLOW: u8 = Varies::Flow as u8;
        const MORE: u8 = Varies::More as u8;
        let m = common.m;
        match (m.v6, m.varies) {
            _ if common.slow => 0,
            (false, _) if common.is::<Word4>() => match common.way {
                Some(way) => one_way::send::<IP4, { LINK + IP4 + 4 }, false>(common, way, descs, rooms),
                None => common.send::<Word4, IP4>(descs, rooms),
            },
            (false, _) if common.is::<Datagram<IP4>>() => match common.way {
                Some(way) => one_way::send::<IP4, { LINK + IP4 + 16 }, true>(common, way, descs, rooms),
                None => common.send::<Datagram<IP4>, IP4>(descs, rooms),
            },
            (true, _) if common.is::<Datagram<IP6>>() => match common.way {
                Some(way) => one_way::send::<IP6, { LINK + IP6 + 16 }, true>(common, way, descs, rooms),
                None => common.send::<Datagram<IP6>, IP6>(descs, rooms),
            },
            (false, Varies::Kind) if common.way.is_some() => {
                common.send::<Over<IP4, KIND, false>, IP4>(descs, rooms)
            }
            (false, Varies::Kind) => common.send::<Over<IP4, KIND, true>, IP4>(descs, rooms),
            (false, Varies::Flow) => common.send::<Over<IP4, FLOW, true>, IP4>(descs, rooms),
            (false, Varies::More) => common.send::<Over<IP4, MORE, true>, IP4>(descs, rooms),
            (true, Varies::Kind) => common.send::<Over<IP6, KIND, true>, IP6>(descs, rooms),
            (true, Varies::Flow) => common.send::<Over<IP6, FLOW, true>, IP6>(descs, rooms),
            (true, Varies::More) => common.send::<Over<IP6, MORE, true>, IP6>(descs, rooms),
        }
    }
}
