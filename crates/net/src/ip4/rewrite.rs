//! `ip4-rewrite`: TTL, MTU, and the neighbour's link-layer header.

use crate::adjacency::{Adjacency, AdjacencyState};
use crate::forward::Sender;
use crate::icmp::Ask;
use crate::path_mtu;
use crate::plane::Plane;
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, flags};
use packet::ip4;
use std::fmt;
use std::sync::Arc;

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
        Sender::new(self.plane.adjacencies.reader(self.guard), self.sent)
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
