//! `mpls-icmp-error`: what becomes of a labelled packet that cannot go on. When it carries IP, the stack is taken off and the
//! sender of that is told, with the stack in the error (RFC 3032 section 2.3, RFC 4950); where the router knows no way to the
//! sender, along the label switched path.

use crate::icmp::MplsAsk;
use crate::icmp::along::{ALONG, MOST_BYTES};
use crate::plane::table::{Family, V4, V6, View};
use crate::plane::{Plane, kind};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::eth::EtherType;
use packet::mpls::{Payload, StackError, StackView};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `mpls-icmp-error` sends packets.
    pub enum MplsErrorNext {
        Ip4 => "ip4-icmp-error",
        Ip6 => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// Why `mpls-icmp-error` drops packets.
    pub enum MplsErrorReason {
        /// The packet ends before the bottom of its label stack.
        Truncated => "mpls-stack-truncated",
        /// The bottom is not among the first labels of the stack.
        TooDeep => "mpls-stack-too-deep",
        /// What the stack carries is not IP: nobody can be told.
        NotIp => "mpls-error-not-ip",
    }
}

/// Labels among which the bottom of a stack is looked for.
pub(super) const MOST: usize = 64;
/// The node.
pub struct MplsIcmpError {
    plane: Arc<Plane>,
}

impl MplsIcmpError {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MplsIcmpError { plane: Arc::clone(plane) }
    }
}

/// Snapshot of one vector.
pub struct MplsErrorView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
}

impl MplsErrorView<'_> {
    /// Whether the table of the packet's interface has a route to an address.
    fn leads<F: Family>(&self, p: &Packet<'_>, to: &F::Key) -> bool {
        let group = View::<F>::new(self.plane, self.guard).lookup_for(p.d, to);
        let kind = self.plane.groups.resolve(group, 0).kind;
        kind::is_neighbor(kind) || kind == kind::GLEAN || kind == kind::LOCAL
    }

    /// Whether an error about the IP packet would find its way to who sent that.
    fn finds_sender(&self, p: &Packet<'_>, v6: bool) -> bool {
        let Some(&h) = p.head::<20>() else { return true };
        if !v6 {
            return self.leads::<V4>(p, &u32::from_be_bytes([h[12], h[13], h[14], h[15]]));
        }
        let Some(src) = p.head::<24>().and_then(|h| h.last_chunk()) else { return true };
        // Link-local addresses are of the link on which the packet came.
        crate::ip6::lookup::is_link_local(u128::from_be_bytes(*src)) || self.leads::<V6>(p, src)
    }
}

impl Node for MplsIcmpError {
    const NAME: &'static str = "mpls-icmp-error";
    type Next = MplsErrorNext;
    type Drop = MplsErrorReason;
    type View<'v> = MplsErrorView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> MplsErrorView<'v> {
        MplsErrorView { plane: &self.plane, guard }
    }

    /// `hash` is the EtherType of the packet, `tx` what `ALONG` says, unless a neighbour is unreachable.
    fn step(view: &mut MplsErrorView<'_>, p: &mut Packet<'_>) -> Step<MplsErrorNext, MplsErrorReason> {
        let labelled = p.d.hash as u16 == EtherType::MPLS.0;
        let (labels, payload) = if labelled {
            let stack = StackView::parse(p.data(), MOST).map_err(|e| match e {
                StackError::Truncated => MplsErrorReason::Truncated,
                StackError::TooDeep => MplsErrorReason::TooDeep,
            })?;
            (stack.as_bytes().len(), Payload::guess(stack.payload()))
        } else {
            (0, Payload::guess(p.data()))
        };
        let ask = MplsAsk::from_word(p.d.aux);
        let (next, v6) = match payload {
            Payload::Ip4 => (MplsErrorNext::Ip4, false),
            Payload::Ip6 => (MplsErrorNext::Ip6, true),
            Payload::Other => return Err(MplsErrorReason::NotIp.into()),
        };
        // The labels stay in front, for the error to tell them.
        if !p.advance(labels) {
            return Err(MplsErrorReason::Truncated.into());
        }
        p.d.aux = ask.icmp(v6, labels).word();
        let onward = labels != 0 && labels <= MOST_BYTES && ask != MplsAsk::UNREACHABLE;
        if onward && !view.finds_sender(p, v6) {
            p.d.flags |= ALONG;
            p.d.hash = labels as u32;
        }
        Ok(next)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}
