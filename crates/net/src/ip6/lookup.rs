//! `ip6-lookup`: longest-prefix match of the destination for the whole vector, then the path of the group.

use crate::forward::{Common, Onward, Sender};
use crate::icmp::Ask;
use crate::plane::table::{V6, View};
use crate::plane::{IfCache, Plane, kind};
use crate::protocols::{self, Takers};
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, LookupNode, Packet, QuickLookup, Rooms, TraceRecord, VECTOR_SIZE, flags};
use packet::flow::{self, Flow};
use std::fmt;
use std::sync::Arc;
use tables::groups::GroupId;

graph::edges! {
    /// Where `ip6-lookup` sends packets.
    pub enum Ip6LookupNext {
        Rewrite => "ip6-rewrite",
        Push => "ip6-mpls-label-imposition-pipe",
        PushUniform => "ip6-mpls-label-imposition-uniform",
        Direct => "interface-tx",
        Midchain => "adj-midchain-tx",
        Local => "ip6-local",
        Protocol => "@ip6-protocol",
        Hold => "ip6-hold",
        Error => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// What `ip6-lookup` counts.
    pub enum Ip6LookupDrop {
        /// A route says drop.
        Blackhole => "ip6-route-drop",
        /// No route holds the destination; the sender is told "no route to destination".
        NoRoute => "ip6-no-route" (info),
        /// A route says unreachable; the sender is told "no route to destination".
        Unreachable => "ip6-route-unreachable" (info),
        /// A route says prohibit; the sender is told "administratively prohibited".
        Prohibit => "ip6-route-prohibit" (info),
        /// A link-local destination is not the router's: such packets do not leave their link (RFC 4291 section 2.5.6).
        LinkLocal => "ip6-link-local-destination",
        /// Routes lead from table to table without end.
        Loop => "ip6-lookup-loop",
    }
}

/// The node.
pub struct Ip6Lookup {
    plane: Arc<Plane>,
    takers: Arc<Takers>,
    sent: Arc<Table>,
}

impl Ip6Lookup {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip6Lookup {
            plane: Arc::clone(plane),
            takers: plane.shared(),
            sent: plane.counters.adjacency.of(worker),
        }
    }
}

/// Snapshot of one vector.
pub struct Ip6LookupView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    takers: &'v Takers,
    sent: &'v Table,
    ifs: IfCache<'v>,
    tables: View<'v, V6>,
}

/// True for fe80::/10.
#[inline]
pub fn is_link_local(a: u128) -> bool {
    a >> 118 == 0xfe80 >> 6
}

/// True for the bytes of an address in fe80::/10.
#[inline(always)]
fn begins_link_local(a: &[u8; 16]) -> bool {
    u16::from_le_bytes([a[0], a[1]]) & 0xc0ff == 0x80fe
}

impl LookupNode for Ip6Lookup {
    const NAME: &'static str = "ip6-lookup";
    type Next = Ip6LookupNext;
    type Drop = Ip6LookupDrop;
    type Key = [u8; 16];
    type View<'v> = Ip6LookupView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6LookupView<'v> {
        let (ifs, tables) = (IfCache::new(&self.plane, guard), View::new(&self.plane, guard));
        Ip6LookupView { plane: &self.plane, guard, takers: &self.takers, sent: &self.sent, ifs, tables }
    }

    #[inline]
    fn key(_: &mut Ip6LookupView<'_>, p: &mut Packet<'_>) -> [u8; 16] {
        p.head::<40>().and_then(|h| h.last_chunk()).copied().unwrap_or_default()
    }

    #[inline]
    fn lookup(view: &mut Ip6LookupView<'_>, descs: &[Desc], keys: &[[u8; 16]], results: &mut [u32]) {
        view.tables.lookup(descs, keys, results);
    }

    #[inline]
    fn step(
        view: &mut Ip6LookupView<'_>,
        p: &mut Packet<'_>,
        result: u32,
    ) -> Step<Ip6LookupNext, Ip6LookupDrop> {
        let group = GroupId(result);
        let dst = p.head::<40>().map_or(0, |h| packet::ip6::Ip6Header(h).dst_u128());
        if is_link_local(dst) || leaves_as_it_came(p, dst) {
            return link_local(view, p, dst);
        }
        let flow = |p: &Packet<'_>| flow::of_ip6(p.data(), view.tables.flow(p.d));
        let mut e = view.plane.groups.resolve_with(group, || flow(p));
        if e.kind == kind::LOOKUP {
            let onward = view.tables.onward(e.adj, &dst.to_be_bytes(), || flow(p));
            let Some(found) = onward else { return Err(Ip6LookupDrop::Loop.into()) };
            e = found;
        }
        p.d.aux = e.adj;
        match e.kind {
            kind::REWRITE => Ok(Ip6LookupNext::Rewrite),
            kind::LABEL if view.plane.is_uniform(view.guard, e.adj) => Ok(Ip6LookupNext::PushUniform),
            kind::LABEL => Ok(Ip6LookupNext::Push),
            kind::LOCAL => Ok(Ip6LookupNext::Local),
            kind::GLEAN => Ok(Ip6LookupNext::Hold),
            kind::DROP => Err(Ip6LookupDrop::Blackhole.into()),
            kind::UNREACHABLE => error(p, Ip6LookupDrop::Unreachable, Ask::V6_NO_ROUTE),
            kind::PROHIBIT => error(p, Ip6LookupDrop::Prohibit, Ask::V6_PROHIBITED),
            _ => error(p, Ip6LookupDrop::NoRoute, Ask::V6_NO_ROUTE),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  adjacency {}", r.after.aux)?;
        crate::format::ip(r.bytes(), f)
    }
}

#[cold]
fn error(p: &mut Packet<'_>, why: Ip6LookupDrop, ask: Ask) -> Step<Ip6LookupNext, Ip6LookupDrop> {
    p.count(why);
    p.d.aux = ask.word();
    Ok(Ip6LookupNext::Error)
}

/// Whether a packet of the router's own must leave on the link of the one that it answers: from its link-local address there.
/// Who sent to that address is on the link, whatever a table says of its own address (RFC 4007 section 9). A group is no
/// neighbour.
#[inline]
fn leaves_as_it_came(p: &Packet<'_>, dst: u128) -> bool {
    p.has(flags::LOCAL)
        && p.d.tx == p.d.rx
        && dst >> 120 != 0xff
        && p.head::<40>().is_some_and(|h| is_link_local(packet::ip6::Ip6Header(h).src_u128()))
}

/// Link-local addresses are looked up on their interface, not in the table: ours, or a neighbour for packets that the
/// router itself sends (their output interface is set).
#[cold]
fn link_local(
    view: &mut Ip6LookupView<'_>,
    p: &mut Packet<'_>,
    dst: u128,
) -> Step<Ip6LookupNext, Ip6LookupDrop> {
    if p.has(crate::plane::IN_TABLE) {
        return Err(Ip6LookupDrop::LinkLocal.into());
    }
    if p.has(flags::LOCAL) {
        // The glean adjacency of the interface is resolved by the hold node from `tx`.
        p.d.aux = u32::MAX;
        return Ok(Ip6LookupNext::Hold);
    }
    let ours = view.ifs.get(p.d.rx).is_some_and(|i| i.addrs6.iter().any(|a| a.0 == dst));
    if ours { Ok(Ip6LookupNext::Local) } else { Err(Ip6LookupDrop::LinkLocal.into()) }
}

impl Onward for Ip6LookupNext {
    type Key = [u8; 16];
    type Head = [u8; 44];
    const REWRITE: Self = Self::Rewrite;
    const PUSH: Self = Self::Push;
    const PUSH_UNIFORM: Self = Self::PushUniform;
    const DEVICE: Self = Self::Direct;
    const MIDCHAIN: Self = Self::Midchain;
    const LOCAL: Self = Self::Local;
    const PROTOCOL: Self = Self::Protocol;
    const V6: bool = true;

    #[inline(always)]
    fn head(packet: &mut [u8]) -> Option<&mut [u8; 44]> {
        packet.first_chunk_mut()
    }

    #[inline(always)]
    fn takes(dst: &[u8; 16]) -> bool {
        !begins_link_local(dst)
    }

    #[inline(always)]
    fn hash(head: &[u8; 44], flow: Flow) -> Option<u32> {
        flow::of_ip6_plain(head, flow)
    }

    #[inline(always)]
    fn hop(packet: &mut [u8]) -> bool {
        packet.first_chunk_mut().is_some_and(super::rewrite::usual)
    }
}

impl QuickLookup for Ip6Lookup {
    type Common<'v> = Common<'v>;

    fn quick_keys(descs: &[Desc], keys: &mut [[u8; 16]; VECTOR_SIZE], mut rooms: Rooms<'_>) -> usize {
        // What came here by way of the checks has a whole header.
        let mut seen = 0;
        for (i, (d, key)) in descs.iter().zip(keys).enumerate() {
            let Some(dst) = rooms.window::<0>(d).and_then(|w| w[24..].first_chunk()) else { return i };
            *key = *dst;
            seen |= d.flags;
            debug_assert!(d.has(flags::UNUSUAL) || d.len >= 40);
        }
        if seen & flags::UNUSUAL == 0 {
            return descs.len();
        }
        descs.iter().position(|d| d.has(flags::UNUSUAL)).unwrap_or(descs.len())
    }

    fn common<'v>(
        view: &Ip6LookupView<'v>,
        first: &Desc,
        result: u32,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Ip6LookupNext, Common<'v>)> {
        let sender = Sender::new(view.plane.adjacencies.reader(guard), view.sent);
        let taken = || protocols::Common::of::<true>(view.takers, view.plane, guard, first, rooms);
        Common::of(sender, view.plane.groups.reader(), view.tables.flow, GroupId(result), taken)
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn ends(edge: Ip6LookupNext, p: &Packet<'_>) -> bool {
        edge == Ip6LookupNext::Rewrite && super::rewrite::is_last_hop(p)
    }

    fn behind(common: &mut Common<'_>, edge: Ip6LookupNext, d: &Desc) -> Option<Ip6LookupNext> {
        common.behind(edge, d)
    }

    fn quick(
        common: &Common<'_>,
        descs: &mut [Desc],
        keys: &[[u8; 16]],
        results: &[u32],
        rooms: Rooms<'_>,
    ) -> usize {
        common.quick::<Ip6LookupNext>(descs, keys, results, rooms)
    }
}
