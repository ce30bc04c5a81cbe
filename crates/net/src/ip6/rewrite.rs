//! `ip6-rewrite`: hop limit, MTU, and the neighbour's link-layer header.

use super::lookup::is_link_local;
use crate::adjacency::AdjacencyState;
use crate::forward::Sender;
use crate::icmp::Ask;
use crate::ip4::rewrite::{IpRewriteView, RewriteView, wire_len};
use crate::plane::Plane;
use crate::{path_mtu, reassembly};
use graph::counters::Table;
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, flags};
use packet::ip6;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-rewrite` sends packets.
    pub enum Ip6RewriteNext {
        Output => "@ip6-output",
        Hold => "ip6-hold",
        Fragment => "ip6-frag",
        Error => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// What `ip6-rewrite` counts.
    pub enum Ip6RewriteDrop {
        /// The packet has no IPv6 header.
        TooShort => "ip6-rewrite-too-short",
        /// The adjacency does not exist any more.
        Gone => "ip6-adjacency-gone",
        /// No room in front of the packet for the link-layer header.
        NoRoom => "ip6-no-headroom",
        /// The hop limit ran out; the sender is told "time exceeded".
        HopLimitExpired => "ip6-hop-limit-expired" (info),
        /// Larger than the MTU; the sender is told "packet too big".
        TooBig => "ip6-packet-too-big" (info),
        /// A link-local source address does not leave its link; the sender is told "beyond scope".
        BeyondScope => "ip6-beyond-scope" (info),
    }
}

/// The node.
pub struct Ip6Rewrite {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    sent: Arc<Table>,
}

impl Ip6Rewrite {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip6Rewrite {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            sent: plane.counters.adjacency.of(worker),
        }
    }
}

#[cold]
fn error(p: &mut Packet<'_>, why: Ip6RewriteDrop, ask: Ask) -> Step<Ip6RewriteNext, Ip6RewriteDrop> {
    p.count(why);
    p.d.aux = ask.word();
    Ok(Ip6RewriteNext::Error)
}

/// True when the packet goes no further than this router (RFC 8200 section 3).
pub(super) fn is_last_hop(p: &Packet<'_>) -> bool {
    !p.has(flags::LOCAL) && p.head::<40>().is_some_and(|h| h[7] <= 1)
}

impl Node for Ip6Rewrite {
    const NAME: &'static str = "ip6-rewrite";
    type Next = Ip6RewriteNext;
    type Drop = Ip6RewriteDrop;
    type View<'v> = IpRewriteView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IpRewriteView<'v> {
        IpRewriteView { to: RewriteView::new(&self.plane, guard, &self.sent), path_mtus: &self.path_mtus }
    }

    #[inline]
    fn step(view: &mut IpRewriteView<'_>, p: &mut Packet<'_>) -> Step<Ip6RewriteNext, Ip6RewriteDrop> {
        let Some(a) = view.to.adjacency(p.d.aux) else { return Err(Ip6RewriteDrop::Gone.into()) };
        let local = p.has(flags::LOCAL);
        let (len, most) = (wire_len(p), view.path_mtus.largest6(view.to.guard, p, a.mtu));
        let rx = p.d.rx;
        let Some(h) = p.head_mut::<40>() else { return Err(Ip6RewriteDrop::TooShort.into()) };
        if !local {
            if h[7] <= 1 {
                return error(p, Ip6RewriteDrop::HopLimitExpired, Ask::V6_HOP_LIMIT_EXCEEDED);
            }
            if is_link_local(ip6::Ip6Header(h).src_u128()) && a.interface != rx {
                return error(p, Ip6RewriteDrop::BeyondScope, Ask::V6_BEYOND_SCOPE);
            }
        }
        if len > most {
            // Only who made a packet, or put it together, may cut it (RFC 8200 section 4.5).
            if local || p.has(reassembly::REASSEMBLED) {
                return Ok(Ip6RewriteNext::Fragment);
            }
            return error(p, Ip6RewriteDrop::TooBig, Ask::v6_too_big(a.mtu));
        }
        if a.state != AdjacencyState::Complete {
            return Ok(Ip6RewriteNext::Hold);
        }
        if !local {
            ip6::decrement_hop_limit(h);
        }
        if !view.to.apply(p, a) {
            return Err(Ip6RewriteDrop::NoRoom.into());
        }
        p.d.feat = a.features;
        Ok(Ip6RewriteNext::Output)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}

/// Decrements the hop limit of a usual packet; false, and nothing changed, for others: the last hop, and link-local
/// sources.
#[inline(always)]
pub(super) fn usual(h: &mut [u8; ip6::HEADER_LEN]) -> bool {
    let good = h[7] > 1 && !(h[8] == 0xfe && h[9] & 0xc0 == 0x80);
    if good {
        h[7] -= 1;
    }
    good
}

impl QuickNode for Ip6Rewrite {
    type Common<'v> = Sender<'v>;

    fn common<'v>(
        view: &IpRewriteView<'v>,
        _first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip6RewriteNext, Sender<'v>)> {
        Some((Ip6RewriteNext::Output, view.to.sender()))
    }

    fn quick(sender: &Sender<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        sender.rewrite(descs, rooms, usual)
    }
}
