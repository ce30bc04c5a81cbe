//! `igmp-input`: queries for the groups that the router has joined go to the control side.

use crate::plane::Plane;
use crate::punt::PuntKind;
use graph::node::{Never, Step};
use graph::{Exit, Guard, Node, Packet, TraceRecord};
use packet::checksum::is_valid;
use packet::ip4::Ip4Header;
use std::fmt;
use std::sync::Arc;

graph::reasons! {
    /// What `igmp-input` counts.
    pub enum IgmpReason {
        /// Cut off, or the checksum is wrong.
        Malformed => "igmp-malformed",
        /// No query: the router keeps no list of the groups of others.
        NotQuery => "igmp-not-a-query",
        /// A query was handed to the control side.
        Punted => "igmp-handed-to-control" (info),
        /// The control side was too far behind to take it.
        Lost => "igmp-control-busy" (info),
    }
}

/// The node.
pub struct IgmpInput {
    plane: Arc<Plane>,
}

impl IgmpInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        IgmpInput { plane: Arc::clone(plane) }
    }
}

impl Node for IgmpInput {
    const NAME: &'static str = "igmp-input";
    type Next = Never;
    type Drop = IgmpReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<Never, IgmpReason> {
        let Some(h) = p.head::<20>() else { return Err(IgmpReason::Malformed.into()) };
        let message = p.data().get(Ip4Header(h).header_len()..).filter(|m| m.len() >= 8);
        // A query is short: one of several buffers is none.
        let Some(message) = message.filter(|m| p.total_len() == p.data().len() && is_valid(m)) else {
            return Err(IgmpReason::Malformed.into());
        };
        if message[0] != super::wire::IGMP_QUERY {
            return Err(IgmpReason::NotQuery.into());
        }
        let sent = plane.punt.packet(PuntKind::Group, p.d.rx, 0, p.env.buffers.parts(p.d));
        p.count(if sent { IgmpReason::Punted } else { IgmpReason::Lost });
        p.free();
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}
