//! `mpls-icmp-error`: what becomes of a labelled packet that cannot go on. When it carries IP, the stack is taken off and the
//! sender of that is told, with the stack in the error (RFC 3032 section 2.3, RFC 4950).

use crate::icmp;
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
const MOST: usize = 64;
/// Shorter IP packets are not made of longer ones (RFC 791, RFC 8200 section 5).
const LEAST4: u16 = 68;
const LEAST6: u16 = 1280;

/// What is wrong with a labelled packet, carried in [`graph::Desc::aux`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask(u32);

impl Ask {
    /// The TTL of its label ran out.
    pub const TTL_EXPIRED: Ask = Ask(1 << 16);
    /// The next router does not answer.
    pub const UNREACHABLE: Ask = Ask(2 << 16);

    /// It is larger than this MTU.
    pub const fn too_big(mtu: u16) -> Ask {
        Ask(3 << 16 | mtu as u32)
    }

    /// As a descriptor's scratch word.
    pub const fn word(self) -> u32 {
        self.0
    }

    /// The error for an IP packet below `labels` bytes of labels.
    fn icmp(self, v6: bool, labels: usize) -> icmp::Ask {
        match (self.0 >> 16, v6) {
            (2, false) => icmp::Ask::V4_HOST_UNREACHABLE,
            (2, true) => icmp::Ask::V6_ADDRESS_UNREACHABLE,
            (3, false) => {
                let mtu = (self.0 as u16).saturating_sub(labels as u16);
                icmp::Ask::v4_fragmentation_needed(mtu.max(LEAST4))
            }
            (3, true) => {
                let mtu = (self.0 as u16).saturating_sub(labels as u16);
                icmp::Ask::v6_too_big(mtu.max(LEAST6))
            }
            (_, false) => icmp::Ask::V4_TTL_EXCEEDED,
            (_, true) => icmp::Ask::V6_HOP_LIMIT_EXCEEDED,
        }
    }
}

/// The node.
pub struct MplsIcmpError;

impl MplsIcmpError {
    /// The node has no state; `plane` is taken for uniformity of the list of nodes.
    pub fn new(_plane: &Arc<crate::plane::Plane>) -> Self {
        MplsIcmpError
    }
}

impl Node for MplsIcmpError {
    const NAME: &'static str = "mpls-icmp-error";
    type Next = MplsErrorNext;
    type Drop = MplsErrorReason;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _guard: &'v Guard) {}

    /// `hash` is the EtherType of the packet.
    fn step(_: &mut (), p: &mut Packet<'_>) -> Step<MplsErrorNext, MplsErrorReason> {
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
        let ask = Ask(p.d.aux);
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
        Ok(next)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}
