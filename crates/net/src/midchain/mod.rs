//! `adj-midchain-tx`: puts what stands between two adjacencies around packets that leave over an interface that is no device.

use crate::adjacency::Straight;
use crate::forward::{Last, Sender};
use crate::interface::{Fixup, IfCache, MIDCHAIN_TX, MIRRORED, MOST_NESTED, Midchain, NESTED};
use crate::mpls::{self, IN_TABLE};
use crate::path_mtu;
use crate::plane::{Plane, PlaneConfig, kind};
use crate::transport;
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags, quick};
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::flow::{self, Flow};
use packet::vlan::VlanStack;
use packet::{ip4, ip6};
use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tables::groups::Paths;

graph::edges! {
    /// Where `adj-midchain-tx` sends packets.
    pub enum MidchainNext {
        Rewrite4 => "ip4-rewrite",
        Rewrite6 => "ip6-rewrite",
        Lookup4 => "ip4-lookup",
        Lookup6 => "ip6-lookup",
        Device => "interface-tx",
    }
}

graph::reasons! {
    /// Why `adj-midchain-tx` drops packets.
    pub enum MidchainDrop {
        /// The interface puts nothing around packets any more.
        Gone => "midchain-gone",
        /// The packet is no packet.
        Malformed => "midchain-malformed",
        /// The packet is too long for the length of the outer header.
        TooBig => "midchain-packet-too-big",
        /// No room in front of the packet for the headers: it was in as many tunnels as fit.
        NoRoom => "midchain-no-headroom",
        /// The way to the other end of the tunnel leads through the tunnel, or the packet is in three tunnels already.
        Recursive => "midchain-recursive-routing",
    }
}

/// The node.
pub struct MidchainTx {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    sent: Arc<Table>,
    adjacency: Arc<Table>,
    id: Cell<u16>,
    workers: u16,
}

impl MidchainTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        // Each worker has numbers of its own, and a restart does not begin where the last one did.
        let workers = plane.counters.tx.workers() as u16;
        let start = RandomState::new().hash_one(worker) as u16 / workers * workers;
        let id = start.wrapping_add(worker as u16);
        MidchainTx {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            sent: plane.counters.tx.of(worker),
            adjacency: plane.counters.adjacency.of(worker),
            id: Cell::new(id),
            workers,
        }
    }
}

/// Snapshot of one vector.
pub struct MidchainView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    config: &'v PlaneConfig,
    ifs: IfCache<'v>,
    path_mtus: &'v path_mtu::Reader,
    sent: &'v Table,
    adjacency: &'v Table,
    ids: Ids<'v>,
}

/// Numbers for IPv4 headers: they may be fragmented (RFC 6864 section 4).
#[derive(Clone, Copy)]
struct Ids<'v> {
    last: &'v Cell<u16>,
    /// What it grows by.
    workers: u16,
    /// All have this one.
    fixed: Option<u16>,
}

impl Ids<'_> {
    #[inline(always)]
    fn next(self) -> u16 {
        self.last.set(self.last.get().wrapping_add(self.workers));
        self.fixed.unwrap_or(self.last.get())
    }
}

/// What of a packet shows on the outside.
struct Inside {
    what: EtherType,
    hash: u32,
    /// Its type of service or traffic class; 0 where it is no IP.
    tos: u8,
    /// Its TTL or hop limit; `None` where it is no IP, nor labelled.
    ttl: Option<u8>,
}

impl Inside {
    /// Of a packet, whose Ethernet header is taken off, or of a frame.
    #[inline]
    fn of(p: &mut Packet<'_>, frames: bool, flow: Flow) -> Option<Inside> {
        let link = VlanStack::parse(p.data())?;
        if frames {
            let inner = p.data().get(usize::from(link.header_len)..).unwrap_or_default();
            let (tos, ttl) = marks(link.ethertype, inner);
            let hash = flow::of_frame(p.data(), flow);
            return Some(Inside { what: EtherType::TRANSPARENT_ETHERNET, hash, tos, ttl });
        }
        if !p.advance(usize::from(link.header_len)) {
            return None;
        }
        let (tos, ttl) = marks(link.ethertype, p.data());
        let hash = match link.ethertype {
            EtherType::IPV4 => flow::of_ip4(p.data(), flow),
            EtherType::IPV6 => flow::of_ip6(p.data(), flow),
            _ => flow::of_mpls(p.data(), flow),
        };
        Some(Inside { what: link.ethertype, hash, tos, ttl })
    }
}

/// Type of service, and TTL.
#[inline]
fn marks(what: EtherType, h: &[u8]) -> (u8, Option<u8>) {
    match (what, h) {
        (EtherType::IPV4, [_, tos, _, _, _, _, _, _, ttl, ..]) => (*tos, Some(*ttl)),
        (EtherType::IPV6, [a, b, _, _, _, _, _, ttl, ..]) => (a << 4 | b >> 4, Some(*ttl)),
        (EtherType::MPLS, h) => (0, mpls::top(h).map(|e| e.ttl())),
        _ => (0, None),
    }
}

impl Node for MidchainTx {
    const NAME: &'static str = MIDCHAIN_TX.node;
    type Next = MidchainNext;
    type Drop = MidchainDrop;
    type View<'v> = MidchainView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> MidchainView<'v> {
        let plane: &Plane = &self.plane;
        let config = plane.config.load(guard);
        MidchainView {
            plane,
            guard,
            config,
            ifs: IfCache::new(plane, guard),
            path_mtus: &self.path_mtus,
            sent: &self.sent,
            adjacency: &self.adjacency,
            ids: Ids { last: &self.id, workers: self.workers, fixed: config.fragment_id.map(|id| id as u16) },
        }
    }

    #[inline]
    fn step(view: &mut MidchainView<'_>, p: &mut Packet<'_>) -> Step<MidchainNext, MidchainDrop> {
        let index = p.d.tx;
        let Some(m) = view.ifs.get(index).and_then(|i| i.midchain.as_deref()) else {
            return Err(MidchainDrop::Gone.into());
        };
        if p.d.flags & MOST_NESTED == MOST_NESTED {
            return Err(MidchainDrop::Recursive.into());
        }
        let flow = Flow::five_tuple(view.config.hash_seed);
        let Some(inside) = Inside::of(p, m.frames, flow) else { return Err(MidchainDrop::Malformed.into()) };
        let len = p.total_len();
        let sum = if m.sums { transport::sum_of(p, 0, len, Sum::new()) } else { None };
        if !p.prepend(m.template.len()) {
            return Err(MidchainDrop::NoRoom.into());
        }
        let headers = &mut p.data_mut()[..m.template.len()];
        if Outer::new(m, view).put(headers, len, &inside, sum.unwrap_or_default()).is_none() {
            return Err(MidchainDrop::TooBig.into());
        }
        mark(p.d);
        let way = view.plane.groups.resolve_with(m.group, || inside.hash);
        if way.kind == kind::REWRITE {
            let next = view.plane.adjacencies.get(way.adj, view.guard);
            if next.is_some_and(|a| a.interface == index) {
                return Err(MidchainDrop::Recursive.into());
            }
            p.d.aux = way.adj;
            view.sent.count(index, len);
            return Ok(if m.v6 { MidchainNext::Rewrite6 } else { MidchainNext::Rewrite4 });
        }
        view.sent.count(index, len);
        p.d.tx = m.table;
        p.d.flags |= IN_TABLE;
        Ok(if m.v6 { MidchainNext::Lookup6 } else { MidchainNext::Lookup4 })
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// What goes in front of the packets of a tunnel.
#[derive(Clone, Copy)]
struct Outer<'v> {
    m: &'v Midchain,
    /// The sum of what all its IPv4 headers have in common.
    fixed: Sum,
    /// The TTL around what has none.
    ttl: u8,
    ids: Ids<'v>,
}

impl<'v> Outer<'v> {
    #[inline]
    fn new(m: &'v Midchain, view: &MidchainView<'v>) -> Self {
        let header = m.template.first_chunk().filter(|_| !m.v6);
        Outer { m, fixed: header.map_or(Sum::new(), fixed), ttl: view.config.ttl, ids: view.ids }
    }

    /// Writes it in front of `len` bytes; `None` where they are too many.
    #[inline(always)]
    fn put(&self, headers: &mut [u8], len: usize, inside: &Inside, sum: Sum) -> Option<()> {
        let m = self.m;
        copy(headers, &m.template);
        let outer = if m.v6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
        let (ip, behind) = headers.split_at_mut(outer.min(headers.len()));
        let upper = behind.len() + len;
        (m.fixup)(m, Fixup { headers: behind, inside: inside.what, hash: inside.hash, len, sum });
        // The ECN field is copied (RFC 6040 section 4.1, normal mode).
        let tos = m.dscp.map_or(inside.tos, |d| d << 2 | inside.tos & 3);
        // A packet that goes on with what it has must not begin anew by going round.
        let ttl = m.ttl.unwrap_or(inside.ttl.unwrap_or(self.ttl).max(1));
        if m.v6 {
            outer6(ip, upper, tos, ttl, inside.hash)
        } else {
            outer4(ip, upper, tos, ttl, self.ids.next(), self.fixed)
        }
    }
}

/// What was known of the packet inside does not hold for the one around it, which is the router's own.
#[inline(always)]
fn mark(d: &mut Desc) {
    let kept = flags::TRACED | flags::CHAINED | MIRRORED | MOST_NESTED;
    d.flags = ((d.flags & kept) + NESTED) | flags::LOCAL;
    (d.l2, d.feat, d.hash) = (d.off, 0, 0);
}

/// The sum of an IPv4 header without what differs from packet to packet.
fn fixed(header: &[u8; ip4::HEADER_LEN]) -> Sum {
    let mut h = *header;
    (h[1], h[8]) = (0, 0);
    h[2..6].fill(0);
    h[10..12].fill(0);
    Sum::of(&h)
}

/// Copies as many bytes, mostly in two pieces of a length that is known.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) -> Option<()> {
        *to.first_chunk_mut::<N>()? = *from.first_chunk()?;
        *to.last_chunk_mut::<N>()? = *from.last_chunk()?;
        Some(())
    }
    let done = match (to.len(), from.len()) {
        (a @ 16..=32, b) if a == b => ends::<16>(to, from),
        (a @ 33..=64, b) if a == b => ends::<32>(to, from),
        _ => None,
    };
    if done.is_none() {
        to.copy_from_slice(from);
    }
}

/// Completes an IPv4 header over `upper` bytes; `None` where it cannot say as many.
#[inline]
fn outer4(h: &mut [u8], upper: usize, tos: u8, ttl: u8, id: u16, fixed: Sum) -> Option<()> {
    let h: &mut [u8; ip4::HEADER_LEN] = h.first_chunk_mut()?;
    let total = u16::try_from(upper + ip4::HEADER_LEN).ok()?;
    (h[1], h[8]) = (tos, ttl);
    h[2..4].copy_from_slice(&total.to_be_bytes());
    h[4..6].copy_from_slice(&id.to_be_bytes());
    let mut sum = fixed;
    for word in [tos.into(), total, id, u16::from(ttl) << 8] {
        sum.add_u16(word);
    }
    h[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
    Some(())
}

/// The same for IPv6, with a flow label for those who share flows out on the way (RFC 6438).
#[inline]
fn outer6(h: &mut [u8], upper: usize, tos: u8, ttl: u8, hash: u32) -> Option<()> {
    let h: &mut [u8; ip6::HEADER_LEN] = h.first_chunk_mut()?;
    let word = 6 << 28 | u32::from(tos) << 20 | hash & 0x000f_ffff;
    h[..4].copy_from_slice(&word.to_be_bytes());
    h[4..6].copy_from_slice(&u16::try_from(upper).ok()?.to_be_bytes());
    h[7] = ttl;
    Some(())
}

impl Inside {
    /// Of a usual packet of `len` bytes from its link-layer header on, and how many bytes of that do not go inside; `None` where
    /// more has to be looked at.
    #[inline(always)]
    fn near(w: &[u8; WINDOW], len: u16, frames: bool, flow: Flow) -> Option<(Inside, u16)> {
        let mut at = packet::eth::HEADER_LEN;
        let mut what = EtherType(u16::from_be_bytes([w[12], w[13]]));
        if frames && what.is_vlan() {
            let link = VlanStack::parse(w)?;
            (at, what) = (link.header_len.into(), link.ethertype);
        }
        let h = w.get(at..)?;
        let have = usize::from(len).checked_sub(at)?;
        let hash = match what {
            EtherType::IPV4 => flow::of_ip4_near(h.first_chunk().filter(|h| have >= h.len())?, flow)?,
            EtherType::IPV6 => flow::of_ip6_near(h.first_chunk().filter(|h| have >= h.len())?, flow)?,
            _ => return None,
        };
        let (tos, ttl) = marks(what, h);
        let (what, skip) = if frames { (EtherType::TRANSPARENT_ETHERNET, 0) } else { (what, at as u16) };
        Some((Inside { what, hash, tos, ttl }, skip))
    }
}

/// What the usual packets of a vector have in common: they leave by one tunnel, and straight to a device.
pub struct Common<'v> {
    /// Packets of the vector went a longer way: all do.
    slow: bool,
    /// The interface of the tunnel.
    index: u32,
    outer: Outer<'v>,
    next: Last<'v>,
    flow: Flow,
    sent: &'v Table,
}

impl QuickNode for MidchainTx {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &MidchainView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
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
        let flow = Flow::five_tuple(view.config.hash_seed);
        let next = sender.last(groups, Some(flow));
        let outer = Outer::new(m, view);
        let common = Common { slow: false, index: first.tx, outer, next, flow, sent: view.sent };
        Some((MidchainNext::Device, common))
    }

    fn behind(common: &mut Common<'_>, edge: MidchainNext) -> Option<MidchainNext> {
        let was = std::mem::replace(&mut common.slow, true);
        (!was).then_some(edge)
    }

    const SORTS: bool = true;
    const SORTS_UNUSUAL: bool = false;

    /// Packets of one tunnel.
    fn kinds(_: &mut MidchainView<'_>, descs: &[Desc], _: Rooms<'_>, kinds: &mut [u32]) {
        for (d, kind) in descs.iter().zip(kinds) {
            *kind = d.tx;
        }
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let &Common { slow, index, outer: before, ref next, flow, sent } = common;
        let m = before.m;
        if slow {
            return 0;
        }
        let (mut next, mut counts, front) = (next.begin(), Run::new(sent), m.template.len());
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }>(descs, move |d| {
            if d.tx != index || d.flags & MOST_NESTED == MOST_NESTED {
                return false;
            }
            let Some(w) = rooms.window::<0>(d) else { return false };
            let Some((inside, skip)) = Inside::near(w, d.len, m.frames, flow) else { return false };
            let len = d.len - skip;
            let whole = usize::from(len) + front;
            let outside = u16::try_from(whole).ok();
            let start = usize::from(d.off + skip).checked_sub(front);
            let (Some(outside), Some(start)) = (outside, start) else { return false };
            let mut outer = Desc { off: start as u16, len: outside, ..*d };
            if rooms.window::<14>(&outer).is_none() {
                return false;
            }
            let Some(a) = next.adjacency(m.group, outside, |_| Some(inside.hash)) else { return false };
            let Some(w) = rooms.window::<0>(&outer) else { return false };
            let headers = &mut w[..front.min(WINDOW)];
            if before.put(headers, len.into(), &inside, Sum::new()).is_none() {
                return false;
            }
            mark(&mut outer);
            if let Some(w) = rooms.window::<14>(&outer) {
                next.send(&mut outer, a, w);
            }
            counts.add(index, len);
            *d = outer;
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{Fixup, Midchain};
    use crate::testing::{Input, Rig, hex};
    use std::sync::atomic::AtomicU32;

    const PACKET: &str = "000000000000 000000000000 0800 45b90014000100000740000001020304 05060708";

    fn rig(change: impl FnOnce(&mut Midchain)) -> Rig {
        fn fixup(_: &Midchain, f: Fixup<'_>) {
            f.headers.copy_from_slice(&f.inside.0.to_be_bytes());
        }
        let mut template = hex("4500000000000000402f00000a0000010a000002");
        template.extend([0; 2]);
        let mut m = Midchain {
            template: template.into(),
            v6: false,
            remote: "10.0.0.2".parse().unwrap(),
            frames: false,
            group: 0,
            table: 0,
            ttl: Some(64),
            dscp: Some(10),
            sums: false,
            fixup,
            sequence: AtomicU32::new(0),
        };
        change(&mut m);
        let mut r = Rig::new(|plane| MidchainTx::new(plane, 0));
        let mut i = r.interfaces.get(2).unwrap().clone();
        i.midchain = Some(Arc::new(m));
        r.interfaces.replace(2, i);
        r
    }

    fn sent(bytes: &[u8], tx: u32) -> Input {
        let mut i = Input::new(bytes);
        i.d.tx = tx;
        i
    }

    #[test]
    fn headers_go_in_front() {
        let mut r = rig(|_| ());
        let a = r.one(sent(&hex(PACKET), 2));
        // Nothing leads to the other end: it is looked up.
        assert_eq!((a.node, a.d.flags), ("ip4-lookup", flags::LOCAL | IN_TABLE | NESTED));
        assert!(ip4::check(&a.bytes, a.bytes.len()).is_ok());
        // The DSCP is its own, the ECN field that of the packet; the Ethernet header is gone.
        assert_eq!((a.bytes[1], a.bytes[8], &a.bytes[20..22]), (10 << 2 | 1, 64, &[8, 0][..]));
        assert_eq!(a.bytes[22..], hex(PACKET)[14..]);
        assert_eq!(r.plane.counters.tx.of(0).get(2).unwrap().bytes.get(), 20);
        let mut r = rig(|m| (m.ttl, m.dscp) = (None, None));
        let a = r.one(sent(&hex(PACKET), 2));
        assert_eq!((a.bytes[1], a.bytes[8]), (0xb9, 7));
        let mut r = rig(|m| m.frames = true);
        let a = r.one(sent(&hex(PACKET), 2));
        assert_eq!((&a.bytes[20..22], &a.bytes[22..]), (&[0x65, 0x58][..], &hex(PACKET)[..]));
    }

    #[test]
    fn packets_that_cannot_go() {
        let mut r = rig(|_| ());
        assert_eq!(r.drops(sent(&hex(PACKET), 3)), "midchain-gone");
        assert_eq!(r.drops(sent(&[0; 13], 2)), "midchain-malformed");
        let twice = sent(&hex(PACKET), 2).flags(2 * NESTED);
        assert_eq!(r.one(twice).d.flags & MOST_NESTED, 3 * NESTED);
        assert_eq!(r.drops(sent(&hex(PACKET), 2).flags(3 * NESTED)), "midchain-recursive-routing");
        let mut r = rig(|m| m.template = vec![0; 200].into());
        assert_eq!(r.drops(sent(&hex(PACKET), 2)), "midchain-no-headroom");
    }
}
