//! `ip4-lookup`: longest-prefix match of the destination for the whole vector, then the path of the group.

use crate::forward::{Common, Onward, Sender};
use crate::plane::table::{V4, View};
use crate::plane::{Plane, kind};
use crate::protocols::{self, Takers};
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, LookupNode, Packet, QuickLookup, Rooms, TraceRecord, VECTOR_SIZE, flags, quick};
use packet::flow::{self, Flow};
use packet::ip4;
use std::fmt;
use std::sync::Arc;
use tables::groups::GroupId;

graph::edges! {
    /// Where `ip4-lookup` sends packets.
    pub enum Ip4LookupNext {
        Rewrite => "ip4-rewrite",
        Push => "ip4-mpls-label-imposition-pipe",
        PushUniform => "ip4-mpls-label-imposition-uniform",
        Direct => "interface-tx",
        Midchain => "adj-midchain-tx",
        Local => "ip4-local",
        Protocol => "@ip4-protocol",
        Hold => "ip4-hold",
        Error => "ip4-icmp-error",
    }
}

graph::reasons! {
    /// What `ip4-lookup` counts.
    pub enum Ip4LookupDrop {
        /// A route says drop.
        Blackhole => "ip4-route-drop",
        /// The destination is the broadcast or network address of a connected prefix (RFC 2644).
        Broadcast => "ip4-directed-broadcast",
        /// No route holds the destination; the sender is told "network unreachable".
        NoRoute => "ip4-no-route" (info),
        /// A route says unreachable; the sender is told "host unreachable".
        Unreachable => "ip4-route-unreachable" (info),
        /// A route says prohibit; the sender is told "communication administratively prohibited".
        Prohibit => "ip4-route-prohibit" (info),
        /// Routes lead from table to table without end.
        Loop => "ip4-lookup-loop",
    }
}

/// The node.
pub struct Ip4Lookup {
    plane: Arc<Plane>,
    takers: Arc<Takers>,
    sent: Arc<Table>,
}

impl Ip4Lookup {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip4Lookup {
            plane: Arc::clone(plane),
            takers: plane.shared(),
            sent: plane.counters.adjacency.of(worker),
        }
    }
}

/// Snapshot of one vector.
pub struct Ip4LookupView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    takers: &'v Takers,
    sent: &'v Table,
    tables: View<'v, V4>,
}

impl LookupNode for Ip4Lookup {
    const NAME: &'static str = "ip4-lookup";
    type Next = Ip4LookupNext;
    type Drop = Ip4LookupDrop;
    type Key = u32;
    type View<'v> = Ip4LookupView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4LookupView<'v> {
        Ip4LookupView {
            plane: &self.plane,
            guard,
            takers: &self.takers,
            sent: &self.sent,
            tables: View::new(&self.plane, guard),
        }
    }

    #[inline]
    fn key(_: &mut Ip4LookupView<'_>, p: &mut Packet<'_>) -> u32 {
        // `aux` holds nothing yet for packets that were made or injected here, so the header is read.
        p.head::<20>().map_or(0, |h| u32::from_be_bytes([h[16], h[17], h[18], h[19]]))
    }

    #[inline]
    fn lookup(view: &mut Ip4LookupView<'_>, descs: &[Desc], keys: &[u32], results: &mut [u32]) {
        view.tables.lookup(descs, keys, results);
    }

    #[inline]
    fn step(
        view: &mut Ip4LookupView<'_>,
        p: &mut Packet<'_>,
        result: u32,
    ) -> Step<Ip4LookupNext, Ip4LookupDrop> {
        let group = GroupId(result);
        let flow = |p: &Packet<'_>| flow::of_ip4(p.data(), view.tables.flow(p.d));
        let mut e = view.plane.groups.resolve_with(group, || flow(p));
        if e.kind == kind::LOOKUP {
            let key = p.head::<20>().map_or(0, |h| u32::from_be_bytes([h[16], h[17], h[18], h[19]]));
            let onward = view.tables.onward(e.adj, &key, || flow(p));
            let Some(found) = onward else { return Err(Ip4LookupDrop::Loop.into()) };
            e = found;
        }
        p.d.aux = e.adj;
        match e.kind {
            kind::REWRITE => Ok(Ip4LookupNext::Rewrite),
            kind::LABEL if view.plane.is_uniform(view.guard, e.adj) => Ok(Ip4LookupNext::PushUniform),
            kind::LABEL => Ok(Ip4LookupNext::Push),
            kind::LOCAL => Ok(Ip4LookupNext::Local),
            kind::GLEAN => Ok(Ip4LookupNext::Hold),
            kind::DROP => Err(Ip4LookupDrop::Blackhole.into()),
            kind::BROADCAST if e.adj != u32::MAX => Ok(Ip4LookupNext::Rewrite),
            kind::BROADCAST => Err(Ip4LookupDrop::Broadcast.into()),
            kind::UNREACHABLE => {
                p.count(Ip4LookupDrop::Unreachable);
                p.d.aux = crate::icmp::Ask::V4_HOST_UNREACHABLE.word();
                Ok(Ip4LookupNext::Error)
            }
            kind::PROHIBIT => {
                p.count(Ip4LookupDrop::Prohibit);
                p.d.aux = crate::icmp::Ask::V4_PROHIBITED.word();
                Ok(Ip4LookupNext::Error)
            }
            _ => {
                p.count(Ip4LookupDrop::NoRoute);
                p.d.aux = crate::icmp::Ask::V4_NET_UNREACHABLE.word();
                Ok(Ip4LookupNext::Error)
            }
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  adjacency {}", r.after.aux)?;
        crate::format::ip(r.bytes(), f)
    }
}

impl Onward for Ip4LookupNext {
    type Key = u32;
    type Head = [u8; 24];
    const REWRITE: Self = Self::Rewrite;
    const PUSH: Self = Self::Push;
    const PUSH_UNIFORM: Self = Self::PushUniform;
    const DEVICE: Self = Self::Direct;
    const MIDCHAIN: Self = Self::Midchain;
    const LOCAL: Self = Self::Local;
    const PROTOCOL: Self = Self::Protocol;
    const V6: bool = false;

    #[inline(always)]
    fn head(packet: &mut [u8]) -> Option<&mut [u8; 24]> {
        packet.first_chunk_mut()
    }

    #[inline(always)]
    fn takes(_: &u32) -> bool {
        true
    }

    #[inline(always)]
    fn hash(head: &[u8; 24], flow: Flow) -> Option<u32> {
        flow::of_ip4_plain(head, flow)
    }

    #[inline(always)]
    fn hop(packet: &mut [u8]) -> bool {
        packet.first_chunk_mut().is_some_and(ip4::decrement_ttl_usual)
    }
}

impl QuickLookup for Ip4Lookup {
    type Common<'v> = Common<'v>;

    fn quick_keys(descs: &[Desc], keys: &mut [u32; VECTOR_SIZE], mut rooms: Rooms<'_>) -> usize {
        // Nodes of the arc leave the destination in `aux`; a debug build holds them to it.
        let mut right = |d: &Desc| rooms.window::<0>(d).is_some_and(|w| w[16..20] == d.aux.to_be_bytes());
        debug_assert!(descs.iter().all(|d| d.has(flags::UNUSUAL) || right(d)));
        quick::keys_in_aux(descs, keys)
    }

    fn common<'v>(
        view: &Ip4LookupView<'v>,
        first: &Desc,
        result: u32,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Ip4LookupNext, Common<'v>)> {
        let sender = Sender::new(view.plane.adjacencies.reader(guard), view.sent);
        let taken = || protocols::Common::of::<false>(view.takers, view.plane, guard, first, rooms);
        Common::of(sender, view.plane.groups.reader(), view.tables.flow, GroupId(result), taken)
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn ends(edge: Ip4LookupNext, p: &Packet<'_>) -> bool {
        edge == Ip4LookupNext::Rewrite && super::rewrite::is_last_hop(p)
    }

    fn behind(common: &mut Common<'_>, edge: Ip4LookupNext, d: &Desc) -> Option<Ip4LookupNext> {
        common.behind(edge, d)
    }

    fn quick(
        common: &Common<'_>,
        descs: &mut [Desc],
        keys: &[u32],
        results: &[u32],
        rooms: Rooms<'_>,
    ) -> usize {
        common.quick::<Ip4LookupNext>(descs, keys, results, rooms)
    }
}
