//! `memif-ip-input`: packets that come on memif interfaces for IP packets, without a header of the link.

use crate::interface::ifflags;
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `memif-ip-input` sends packets.
    pub enum MemifIpNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
    }
}

graph::reasons! {
    /// What `memif-ip-input` counts.
    pub enum MemifIpDrop {
        /// The interface is administratively down.
        Down => "memif-interface-down",
        /// Neither IPv4 nor IPv6, on a memif interface for IP packets.
        Protocol => "memif-not-ip",
    }
}

/// The node.
pub struct MemifIpInput(Arc<Plane>);

impl MemifIpInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MemifIpInput(Arc::clone(plane))
    }
}

impl Node for MemifIpInput {
    const NAME: &'static str = "memif-ip-input";
    type Next = MemifIpNext;
    type Drop = MemifIpDrop;
    type View<'v> = IfCache<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IfCache<'v> {
        IfCache::new(&self.0, guard)
    }

    #[inline]
    fn step(ifs: &mut IfCache<'_>, p: &mut Packet<'_>) -> Step<MemifIpNext, MemifIpDrop> {
        if ifs.get(p.d.rx).is_none_or(|i| i.flags & ifflags::UP == 0) {
            return Err(MemifIpDrop::Down.into());
        }
        match p.data().first().map(|b| b >> 4) {
            Some(4) => Ok(MemifIpNext::Ip4),
            Some(6) => Ok(MemifIpNext::Ip6),
            _ => Err(MemifIpDrop::Protocol.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::received(r, f)
    }
}
