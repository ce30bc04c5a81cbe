//! `mpls-output`: the link-layer header of packets that label switching sends to a neighbour.

use crate::adjacency::AdjacencyState;
use crate::ip4::rewrite::RewriteView;
use crate::plane::Plane;
use graph::counters::Table;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::eth::EtherType;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `mpls-output` sends packets.
    pub enum MplsOutputNext {
        Output => "interface-output",
        Hold => "mpls-hold",
        Fragment => "mpls-frag",
    }
}

graph::reasons! {
    /// What `mpls-output` counts.
    pub enum MplsOutputReason {
        /// The adjacency does not exist any more.
        Gone => "mpls-adjacency-gone",
        /// No room in front of the packet for the link-layer header.
        NoRoom => "mpls-output-no-headroom",
        /// A packet without label that is larger than the MTU.
        TooBig => "mpls-output-too-big",
        /// A labelled packet is larger than the MTU; the IPv4 packet that it carries is fragmented, or its sender told so.
        LabelledTooBig => "mpls-labelled-packet-too-big" (info),
    }
}

/// The node.
pub struct MplsOutput {
    plane: Arc<Plane>,
    sent: Arc<Table>,
}

impl MplsOutput {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        MplsOutput { plane: Arc::clone(plane), sent: plane.counters.adjacency.of(worker) }
    }
}

impl Node for MplsOutput {
    const NAME: &'static str = "mpls-output";
    type Next = MplsOutputNext;
    type Drop = MplsOutputReason;
    type View<'v> = RewriteView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> RewriteView<'v> {
        RewriteView::new(&self.plane, guard, &self.sent)
    }

    /// `aux` is the adjacency, `hash` the EtherType.
    #[inline]
    fn step(view: &mut RewriteView<'_>, p: &mut Packet<'_>) -> Step<MplsOutputNext, MplsOutputReason> {
        let Some(a) = view.adjacency(p.d.aux) else { return Err(MplsOutputReason::Gone.into()) };
        let ethertype = p.d.hash as u16;
        if p.total_len() > usize::from(a.mtu) {
            if ethertype != EtherType::MPLS.0 {
                return Err(MplsOutputReason::TooBig.into());
            }
            p.count(MplsOutputReason::LabelledTooBig);
            return Ok(MplsOutputNext::Fragment);
        }
        if a.state != AdjacencyState::Complete {
            return Ok(MplsOutputNext::Hold);
        }
        if !view.apply(p, a) {
            return Err(MplsOutputReason::NoRoom.into());
        }
        let end = usize::from(a.len);
        if let Some(place) = p.data_mut().get_mut(end.saturating_sub(2)..end) {
            place.copy_from_slice(&ethertype.to_be_bytes());
        }
        Ok(MplsOutputNext::Output)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}
