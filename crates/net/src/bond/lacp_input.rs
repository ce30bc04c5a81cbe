//! `lacp-input`: LACP and markers of links whose bond runs LACP go to the control side.

use crate::plane::Plane;
use crate::punt::{Class, PuntKind};
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `lacp-input` sends frames.
    pub enum LacpInputNext { Policed => "punt-policer" }
}

graph::reasons! {
    /// What `lacp-input` counts.
    pub enum LacpReason {
        /// Neither LACP nor a marker, or longer than these are.
        Unknown => "lacp-unknown-slow-protocol",
        /// A frame was handed to the control side.
        Punted => "lacp-handed-to-control" (info),
        /// The control side was too far behind to take it.
        Lost => "lacp-control-busy" (info),
    }
}

/// The longest frame of a slow protocol (IEEE 802.3 annex 57A), with room for padding and what some put behind.
const MOST: usize = 256;

/// The node.
pub struct LacpInput {
    plane: Arc<Plane>,
}

impl LacpInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        LacpInput { plane: Arc::clone(plane) }
    }
}

impl Node for LacpInput {
    const NAME: &'static str = "lacp-input";
    type Next = LacpInputNext;
    type Drop = LacpReason;
    type View<'v> = &'v Plane;

    fn view<'v>(&'v mut self, _guard: &'v Guard) -> &'v Plane {
        &self.plane
    }

    fn step(plane: &mut &Plane, p: &mut Packet<'_>) -> Step<LacpInputNext, LacpReason> {
        let subtype = p.data().get(14).copied();
        if !matches!(subtype, Some(1 | 2)) || p.total_len() > MOST {
            return Err(LacpReason::Unknown.into());
        }
        if !plane.admits(p, Class::SlowProtocols) {
            return Ok(LacpInputNext::Policed);
        }
        let sent = plane.punt.packet(PuntKind::Lacp, p.d.rx, 0, p.env.buffers.parts(p.d));
        p.count(if sent { LacpReason::Punted } else { LacpReason::Lost });
        p.free();
        Err(Exit::Consumed)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
