//! `ip4-lookup`: longest-prefix match of the destination for the whole vector, then the path of the group.

use crate::plane::{Plane, kind};
use graph::node::Step;
use graph::{Guard, LookupNode, Packet, TraceRecord};
use packet::flow;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-lookup` sends packets.
    pub enum Ip4LookupNext {
        Rewrite => "ip4-rewrite",
        Local => "ip4-local",
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
    }
}

/// The node.
pub struct Ip4Lookup {
    plane: Arc<Plane>,
}

impl Ip4Lookup {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Lookup { plane: Arc::clone(plane) }
    }
}

/// Snapshot of one vector.
pub struct Ip4LookupView<'v> {
    plane: &'v Plane,
    seed: u32,
}

impl LookupNode for Ip4Lookup {
    const NAME: &'static str = "ip4-lookup";
    type Next = Ip4LookupNext;
    type Drop = Ip4LookupDrop;
    type Key = u32;
    type View<'v> = Ip4LookupView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4LookupView<'v> {
        Ip4LookupView { plane: &self.plane, seed: self.plane.config.load(guard).hash_seed }
    }

    #[inline]
    fn key(_: &mut Ip4LookupView<'_>, p: &mut Packet<'_>) -> u32 {
        // `aux` cannot be trusted for packets that were injected here, so the header is read.
        p.head::<20>().map_or(0, |h| u32::from_be_bytes([h[16], h[17], h[18], h[19]]))
    }

    #[inline]
    fn lookup(view: &mut Ip4LookupView<'_>, keys: &[u32], results: &mut [u32]) {
        view.plane.fib4.lookup_batch(keys, results);
    }

    #[inline]
    fn step(
        view: &mut Ip4LookupView<'_>,
        p: &mut Packet<'_>,
        group: u32,
    ) -> Step<Ip4LookupNext, Ip4LookupDrop> {
        let e = view.plane.groups.resolve_with(group, || flow::of_ip4(p.data(), view.seed));
        p.d.aux = e.adj;
        match e.kind {
            kind::REWRITE => Ok(Ip4LookupNext::Rewrite),
            kind::LOCAL => Ok(Ip4LookupNext::Local),
            kind::GLEAN => Ok(Ip4LookupNext::Hold),
            kind::DROP => Err(Ip4LookupDrop::Blackhole.into()),
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
