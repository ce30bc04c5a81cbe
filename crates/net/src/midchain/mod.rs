//! `adj-midchain-tx`: puts what stands between two adjacencies around packets that leave over an interface that is no device.

use crate::interface::{Fixup, MIDCHAIN_TX, MIRRORED, MOST_NESTED, Midchain, NESTED};
use crate::plane::{IN_TABLE, IfCache, Plane, PlaneConfig, kind};
use crate::{path_mtu, transport};
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, TraceRecord, flags};
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::flow::{self, Flow};
use packet::vlan::VlanStack;
use packet::{ip4, ip6};
use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

mod one_way;
mod usual;

pub use usual::Common;

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
    numbers: Numbers,
}

impl MidchainTx {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        MidchainTx {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            sent: plane.counters.tx.of(worker),
            adjacency: plane.counters.adjacency.of(worker),
            numbers: Numbers { next: Cell::new(0), blocks: plane.shared() },
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

/// Numbers for IPv4 headers, which may be fragmented (RFC 6864 section 4).
#[derive(Clone, Copy)]
struct Ids<'v> {
    numbers: &'v Numbers,
    /// All have this one.
    fixed: Option<u16>,
}

/// Where a worker has them from: one block after another.
struct Numbers {
    /// At the start of a block another one is taken.
    next: Cell<u16>,
    blocks: Arc<Blocks>,
}

/// The block that is taken next, of all workers.
struct Blocks(AtomicU16);

/// Numbers of a block.
const BLOCK: u16 = 64;

impl Default for Blocks {
    /// A restart does not begin where the last one did.
    fn default() -> Self {
        Blocks(AtomicU16::new(RandomState::new().hash_one(BLOCK) as u16))
    }
}

impl<'v> Ids<'v> {
    /// For a loop, which keeps the next number in a register.
    fn here(self) -> IdsHere<'v> {
        IdsHere { ids: self, next: self.numbers.next.get() }
    }
}

/// The numbers of a loop.
struct IdsHere<'v> {
    ids: Ids<'v>,
    next: u16,
}

impl IdsHere<'_> {
    #[inline(always)]
    fn next(&mut self) -> u16 {
        if let Some(fixed) = self.ids.fixed {
            return fixed;
        }
        if self.next.is_multiple_of(BLOCK) {
            let block = self.ids.numbers.blocks.0.fetch_add(1, Ordering::Relaxed);
            self.next = block.wrapping_mul(BLOCK);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        id
    }
}

impl Drop for IdsHere<'_> {
    fn drop(&mut self) {
        self.ids.numbers.next.set(self.next);
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
        (EtherType::MPLS, h) => (0, crate::labels::top(h).map(|e| e.ttl())),
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
            ids: Ids { numbers: &self.numbers, fixed: config.fragment_id.map(|id| id as u16) },
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
        let flow = Flow::outside(view.config.hash_seed);
        let Some(inside) = Inside::of(p, m.frames, flow) else { return Err(MidchainDrop::Malformed.into()) };
        let len = p.total_len();
        let sum = if m.sums { transport::sum_of(p, 0, len, Sum::new()) } else { None };
        if !p.prepend(m.template.len()) {
            return Err(MidchainDrop::NoRoom.into());
        }
        let headers = &mut p.data_mut()[..m.template.len()];
        if put(view, m, headers, len, (&inside, sum.unwrap_or_default())).is_none() {
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

/// What the IP header outside says of each packet.
#[derive(Clone, Copy)]
struct Marks {
    /// DSCP, of the type of service.
    dscp: u8,
    /// What of the type of service is that of the packet inside.
    copied: u8,
    /// TTL; `None`: that of the packet inside.
    ttl: Option<u8>,
    /// The TTL around what has none.
    own: u8,
}

impl Marks {
    fn new(m: &Midchain, own: u8) -> Marks {
        // The ECN field is copied (RFC 6040 section 4.1, normal mode).
        let (dscp, copied) = m.dscp.map_or((0, 0xff), |d| (d << 2, 3));
        Marks { dscp, copied, ttl: m.ttl, own }
    }

    #[inline(always)]
    fn tos(self, inside: u8) -> u8 {
        self.dscp | inside & self.copied
    }

    /// A packet that goes on with what it has must not begin anew by going round.
    #[inline(always)]
    fn ttl(self, inside: Option<u8>) -> u8 {
        self.ttl.unwrap_or_else(|| inside.unwrap_or(self.own).max(1))
    }
}

/// Writes what goes in front of `len` bytes; `None` where they are too many.
fn put(
    view: &MidchainView<'_>,
    m: &Midchain,
    headers: &mut [u8],
    len: usize,
    (inside, sum): (&Inside, Sum),
) -> Option<()> {
    headers.copy_from_slice(&m.template);
    let outer = if m.v6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN };
    let (ip, behind) = headers.split_at_mut_checked(outer)?;
    let upper = behind.len() + len;
    (m.fixup)(m, Fixup { headers: behind, inside: inside.what, hash: inside.hash, len, sum });
    let marks = Marks::new(m, view.config.ttl);
    let (tos, ttl) = (marks.tos(inside.tos), marks.ttl(inside.ttl));
    if m.v6 {
        outer6(ip.first_chunk_mut()?, u16::try_from(upper).ok()?, tos, ttl, inside.hash);
    } else {
        let total = u16::try_from(upper + ip4::HEADER_LEN).ok()?;
        let ip = ip.first_chunk_mut()?;
        let fixed = fixed(ip);
        outer4(ip, total, tos, ttl, view.ids.here().next(), fixed);
    }
    Some(())
}

/// What was known of the packet inside does not hold for the one around it, which is the router's own.
#[inline(always)]
fn mark(d: &mut Desc) {
    let kept = flags::TRACED | flags::CHAINED | MIRRORED | MOST_NESTED;
    d.flags = ((d.flags & kept) + NESTED) | flags::LOCAL;
    (d.l2, d.feat, d.hash) = (d.off, 0, 0);
}

/// The sum of an IPv4 header without what differs from packet to packet, of at most 16 bits.
fn fixed(header: &[u8; ip4::HEADER_LEN]) -> u32 {
    let mut h = *header;
    (h[1], h[8]) = (0, 0);
    h[2..6].fill(0);
    h[10..12].fill(0);
    (!Sum::of(&h).checksum()).into()
}

/// Completes an IPv4 header of a packet of `total` bytes.
#[inline(always)]
fn outer4(h: &mut [u8; ip4::HEADER_LEN], total: u16, tos: u8, ttl: u8, id: u16, fixed: u32) {
    (h[1], h[8]) = (tos, ttl);
    h[2..4].copy_from_slice(&total.to_be_bytes());
    h[4..6].copy_from_slice(&id.to_be_bytes());
    let sum = fixed + u32::from(tos) + u32::from(total) + u32::from(id) + (u32::from(ttl) << 8);
    // Both halves in both halves: what the lower one carries is what the upper one does.
    let sum = sum.wrapping_add(sum.rotate_left(16)) >> 16;
    h[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

/// Completes an IPv6 header over `upper` bytes, with a flow label for those who share flows out on the way (RFC 6438).
#[inline(always)]
fn outer6(h: &mut [u8; ip6::HEADER_LEN], upper: u16, tos: u8, ttl: u8, hash: u32) {
    let word = 6 << 28 | u32::from(tos) << 20 | hash & 0x000f_ffff;
    h[..4].copy_from_slice(&word.to_be_bytes());
    h[4..6].copy_from_slice(&upper.to_be_bytes());
    h[7] = ttl;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{Fixup, Midchain, Varies};
    use crate::testing::{Input, Rig, hex};
    use std::sync::atomic::AtomicU32;
    use tables::groups::GroupId;

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
            varies: Varies::More,
            frames: false,
            group: GroupId::NONE,
            table: 0,
            ttl: Some(64),
            dscp: Some(10),
            sums: false,
            fixup,
            sequence: Arc::new(AtomicU32::new(0)),
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
