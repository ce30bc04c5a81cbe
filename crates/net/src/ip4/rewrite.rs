//! `ip4-rewrite`: TTL, MTU, and the neighbour's link-layer header.

use crate::adjacency::{Adjacency, AdjacencyState, MAX_REWRITE};
use crate::icmp::Ask;
use crate::path_mtu;
use crate::plane::{Plane, kind};
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags, quick};
use packet::flow::Flow;
use packet::ip4;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use tables::groups::{Entry, GroupsReader, Paths};
use tables::slots::SlotsReader;

graph::edges! {
    /// Where `ip4-rewrite` sends packets.
    pub enum Ip4RewriteNext {
        Output => "@ip4-output",
        Hold => "ip4-hold",
        Fragment => "ip4-frag",
        Error => "ip4-icmp-error",
    }
}

graph::reasons! {
    /// What `ip4-rewrite` counts.
    pub enum Ip4RewriteDrop {
        /// The packet has no IPv4 header.
        TooShort => "ip4-rewrite-too-short",
        /// The adjacency does not exist any more.
        Gone => "ip4-adjacency-gone",
        /// No room in front of the packet for the link-layer header.
        NoRoom => "ip4-no-headroom",
        /// The TTL ran out; the sender is told "time exceeded".
        TtlExpired => "ip4-ttl-expired" (info),
        /// Larger than the MTU with "don't fragment" set; the sender is told "fragmentation needed".
        FragmentationNeeded => "ip4-fragmentation-needed" (info),
    }
}

/// The node.
pub struct Ip4Rewrite {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    sent: Arc<Table>,
}

impl Ip4Rewrite {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip4Rewrite {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            sent: plane.counters.adjacency.of(worker),
        }
    }
}

/// Snapshot of one vector.
pub struct RewriteView<'v> {
    /// What nodes read.
    pub plane: &'v Plane,
    /// Keeps what is read.
    pub guard: &'v Guard,
    sent: &'v Table,
}

impl<'v> RewriteView<'v> {
    /// A view over `plane`, counting in `sent`.
    pub fn new(plane: &'v Plane, guard: &'v Guard, sent: &'v Table) -> Self {
        RewriteView { plane, guard, sent }
    }

    /// For the short cuts.
    pub fn sender(&self) -> Sender<'v> {
        Sender::new(self.plane, self.guard, self.sent)
    }

    /// The adjacency with this number.
    #[inline]
    pub fn adjacency(&self, index: u32) -> Option<&'v Adjacency> {
        self.plane.adjacencies.get(index, self.guard)
    }

    /// Puts the adjacency's header in front, counts, and sets the output interface. False when there is no room.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>, a: &Adjacency) -> bool {
        self.sent.count(p.d.aux, p.total_len());
        let n = usize::from(a.len);
        if !p.prepend(n) {
            return false;
        }
        let data = p.data_mut();
        if let (14, Some(d)) = (n, data.first_chunk_mut::<14>()) {
            d.copy_from_slice(&a.rewrite[..14]);
        } else {
            data[..n].copy_from_slice(&a.rewrite[..n]);
        }
        p.d.l2 = p.d.off;
        p.d.tx = a.interface;
        true
    }
}

/// Snapshot of one vector of IP packets.
pub struct IpRewriteView<'v> {
    /// What sends them to their neighbours.
    pub to: RewriteView<'v>,
    /// How large the router's own may be.
    pub(crate) path_mtus: &'v path_mtu::Reader,
}

/// Bytes of the largest IP packet that will be on the wire: a super-frame counts by its segments.
#[inline]
pub fn wire_len(p: &Packet<'_>) -> usize {
    if p.has(flags::GSO) { crate::offload::segment_len(p) } else { p.total_len() }
}

/// True when the packet goes no further than this router (RFC 1812 section 5.3.1).
pub(super) fn is_last_hop(p: &Packet<'_>) -> bool {
    !p.has(flags::LOCAL) && p.head::<20>().is_some_and(|h| h[8] <= 1)
}

impl Node for Ip4Rewrite {
    const NAME: &'static str = "ip4-rewrite";
    type Next = Ip4RewriteNext;
    type Drop = Ip4RewriteDrop;
    type View<'v> = IpRewriteView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IpRewriteView<'v> {
        IpRewriteView { to: RewriteView::new(&self.plane, guard, &self.sent), path_mtus: &self.path_mtus }
    }

    #[inline]
    fn step(view: &mut IpRewriteView<'_>, p: &mut Packet<'_>) -> Step<Ip4RewriteNext, Ip4RewriteDrop> {
        let Some(a) = view.to.adjacency(p.d.aux) else { return Err(Ip4RewriteDrop::Gone.into()) };
        let local = p.has(flags::LOCAL);
        let (len, most) = (wire_len(p), view.path_mtus.largest4(view.to.guard, p, a.mtu));
        let Some(h) = p.head_mut::<20>() else { return Err(Ip4RewriteDrop::TooShort.into()) };
        // The TTL is looked at first (RFC 1812 section 5.3.1), but changed only when the packet leaves.
        if !local && h[8] <= 1 {
            p.count(Ip4RewriteDrop::TtlExpired);
            p.d.aux = Ask::V4_TTL_EXCEEDED.word();
            return Ok(Ip4RewriteNext::Error);
        }
        if len > most {
            if h[6] & 0x40 != 0 {
                p.count(Ip4RewriteDrop::FragmentationNeeded);
                p.d.aux = Ask::v4_fragmentation_needed(a.mtu).word();
                return Ok(Ip4RewriteNext::Error);
            }
            return Ok(Ip4RewriteNext::Fragment);
        }
        if a.state != AdjacencyState::Complete {
            return Ok(Ip4RewriteNext::Hold);
        }
        if !local {
            ip4::decrement_ttl(h);
        }
        if !view.to.apply(p, a) {
            return Err(Ip4RewriteDrop::NoRoom.into());
        }
        p.d.feat = a.features;
        Ok(Ip4RewriteNext::Output)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}

/// What sends usual packets to neighbours: the adjacencies and where to count.
#[derive(Clone, Copy)]
pub struct Sender<'v> {
    adjacencies: SlotsReader<'v, Adjacency>,
    sent: &'v Table,
}

impl<'v> Sender<'v> {
    /// Over `plane`, counting in `sent`.
    pub fn new(plane: &'v Plane, guard: &'v Guard, sent: &'v Table) -> Self {
        Sender { adjacencies: plane.adjacencies.reader(guard), sent }
    }

    /// For packets straight from a lookup; `flow` tells flows apart.
    pub fn last(self, groups: GroupsReader<'v>, flow: Option<Flow>) -> Last<'v> {
        Last { sender: self, groups, flow, group: 0, found: &NOWHERE, sent: Run::new(self.sent) }
    }

    /// The labels that usual IP packets to adjacency `adj` get on their way straight to the device.
    pub fn pushes(&self, adj: u32) -> u8 {
        self.adjacencies.get(adj).map_or(0, |a| a.pushes)
    }

    /// True when packets to adjacency `adj` go straight to the device.
    pub fn is_direct(&self, adj: u32) -> bool {
        self.adjacencies.get(adj).is_some_and(|a| a.direct)
    }

    /// What [`QuickNode::quick`] of both rewrite nodes does: `change` decrements the TTL or hop limit of a header of `N`
    /// bytes, or refuses the packet.
    #[inline(always)]
    pub fn rewrite<const N: usize>(
        self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        change: impl Fn(&mut [u8; N]) -> bool,
    ) -> usize {
        let mut counts = Run::new(self.sent);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(a) = self.adjacencies.get(d.aux) else { return false };
            let n = u16::from(a.len);
            if a.state != AdjacencyState::Complete
                || a.features != 0
                || d.len > a.mtu
                || usize::from(d.len) < N
                || d.off < n
            {
                return false;
            }
            let Some(w) = rooms.window::<0>(d) else { return false };
            if !w.first_chunk_mut().is_some_and(&change) {
                return false;
            }
            counts.add(d.aux, d.len);
            d.off -= n;
            d.len += n;
            d.l2 = d.off;
            d.tx = a.interface;
            let Some(w) = rooms.window::<0>(d) else { return true };
            if n == 14 {
                w[..14].copy_from_slice(&a.rewrite[..14]);
            } else {
                let n = usize::from(n).min(MAX_REWRITE);
                w[..n].copy_from_slice(&a.rewrite[..n]);
            }
            true
        })
    }
}

/// What chooses the path of usual packets: the groups, and what tells flows apart.
#[derive(Clone, Copy)]
pub struct Choice<'v> {
    /// The groups.
    pub groups: GroupsReader<'v>,
    /// What tells flows apart; `None`: that is not the same for all packets of the vector.
    pub flow: Option<Flow>,
}

impl Choice<'_> {
    /// The path of a packet to a group; `hash` is its flow hash, if it can be worked out.
    #[inline(always)]
    pub fn path(&self, group: u32, hash: impl FnOnce(Flow) -> Option<u32>) -> Option<Entry> {
        match self.groups.paths(group) {
            Paths::One(e) => Some(e),
            Paths::Many(word) => Some(self.groups.pick(word, hash(self.flow?)?)),
        }
    }
}

/// Sends packets from a lookup straight to the device. It remembers the adjacency of the last group, which many vectors
/// share.
pub struct Last<'v> {
    sender: Sender<'v>,
    groups: GroupsReader<'v>,
    flow: Option<Flow>,
    group: u32,
    found: &'v Adjacency,
    sent: Run<'v>,
}

/// Takes no packet.
static NOWHERE: Adjacency = Adjacency {
    interface: 0,
    features: 0,
    direct: false,
    mtu: 0,
    state: AdjacencyState::Incomplete,
    len: 0,
    rewrite: [0; MAX_REWRITE],
    next_hop: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    pushes: 0,
    mpls: None,
};

impl<'v> Last<'v> {
    /// What chooses without remembering.
    pub fn choice(&self) -> Choice<'v> {
        Choice { groups: self.groups, flow: self.flow }
    }

    /// True when packets to adjacency `adj` go straight to the device.
    pub fn is_direct(&self, adj: u32) -> bool {
        self.sender.is_direct(adj)
    }

    /// The same with nothing remembered.
    pub fn begin(&self) -> Last<'v> {
        self.sender.last(self.groups, self.flow)
    }

    /// The direct adjacency to which a group sends a packet of `len` bytes; `hash` is its flow hash, if it can be worked out.
    #[inline(always)]
    pub fn adjacency(
        &mut self,
        group: u32,
        len: u16,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        self.by::<{ kind::REWRITE }>(group, len, |_| true, hash)
    }

    /// The same for paths of another kind, over adjacencies that are `fit`.
    #[inline(always)]
    pub fn by<const KIND: u8>(
        &mut self,
        group: u32,
        len: u16,
        fit: impl FnOnce(&Adjacency) -> bool,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        let a = if group == self.group { self.found } else { self.find::<KIND>(group, fit, hash)? };
        (len <= a.mtu).then_some(a)
    }

    #[inline(always)]
    fn find<const KIND: u8>(
        &mut self,
        group: u32,
        fit: impl FnOnce(&Adjacency) -> bool,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        let (e, group) = match self.groups.paths(group) {
            Paths::One(e) => (e, group),
            // The next packet may go elsewhere. Group 0 stands for no route: nothing is remembered for it.
            Paths::Many(word) => (self.groups.pick(word, hash(self.flow?)?), 0),
        };
        if e.kind != KIND {
            return None;
        }
        let a = self.sender.adjacencies.get(e.adj).filter(|a| a.direct && fit(a))?;
        self.sent.turn(e.adj);
        (self.group, self.found) = (group, if group == 0 { &NOWHERE } else { a });
        Some(a)
    }

    /// What both lookups do with usual packets whose adjacencies put `LABELS` labels on: `N` bytes with the link-layer header.
    /// `hash` is the flow hash of a packet, if it can be worked out; `hop` counts its TTL or hop limit down, or refuses it.
    #[inline(always)]
    pub fn push<const LABELS: u8, const N: u16, K: Copy>(
        &self,
        descs: &mut [Desc],
        keys: &[K],
        results: &[u32],
        mut rooms: Rooms<'_>,
        hash: impl Fn(&[u8], Flow) -> Option<u32>,
        hop: impl Fn(&K, &mut [u8]) -> bool,
    ) -> usize {
        let mut last = self.begin();
        quick::run_lookup::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, _>(
            descs,
            keys,
            results,
            move |d, key, group| {
                // The window begins where the link-layer header will.
                let w = match N {
                    18 => rooms.window::<18>(d),
                    _ => rooms.window::<22>(d),
                };
                let Some(w) = w else { return false };
                let below = &mut w[usize::from(N)..];
                let fit = |a: &Adjacency| a.pushes == LABELS;
                let hash = |flow| hash(below, flow);
                let Some(a) = last.by::<{ kind::LABEL }>(group, d.len + N - 14, fit, hash) else {
                    return false;
                };
                if !hop(key, below) {
                    return false;
                }
                last.send_labelled::<N>(d, a, w);
                true
            },
        )
    }

    /// [`Last::send`] with the adjacency's `N` bytes of header and labels; `w` begins as many bytes before the packet's
    /// current header.
    #[inline(always)]
    pub fn send_labelled<const N: u16>(&mut self, d: &mut Desc, a: &Adjacency, w: &mut [u8; WINDOW]) {
        const { assert!(N as usize <= MAX_REWRITE) };
        // Counted with its labels, as `mpls-output` does.
        self.sent.count(d.len + N - 14);
        w[..usize::from(N)].copy_from_slice(&a.rewrite[..usize::from(N)]);
        d.grow_front::<N>();
        d.l2 = d.off;
        d.tx = a.interface;
    }

    /// Counts the packet and puts the adjacency's header in front of it; `w` begins 14 bytes before its current header.
    #[inline(always)]
    pub fn send(&mut self, d: &mut Desc, a: &Adjacency, w: &mut [u8; WINDOW]) {
        self.sent.count(d.len);
        w[..14].copy_from_slice(&a.rewrite[..14]);
        d.grow_front::<14>();
        d.l2 = d.off;
        d.tx = a.interface;
    }
}

impl QuickNode for Ip4Rewrite {
    type Common<'v> = Sender<'v>;

    fn common<'v>(
        view: &IpRewriteView<'v>,
        _first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip4RewriteNext, Sender<'v>)> {
        Some((Ip4RewriteNext::Output, view.to.sender()))
    }

    fn quick(sender: &Sender<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        sender.rewrite(descs, rooms, ip4::decrement_ttl_usual)
    }
}
