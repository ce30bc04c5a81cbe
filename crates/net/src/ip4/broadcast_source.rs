//! `ip4-broadcast-source`: drops packets that come from the broadcast address of a connected prefix, where the operator wants that.

use crate::arcs;
use crate::interface::{Setting, Switch};
use crate::plane::table::{V4, View};
use crate::plane::{Plane, kind};
use graph::arcs::Feature;
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord};
use packet::ip4::Ip4Header;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip4-broadcast-source` sends packets.
    pub enum Ip4BroadcastSourceNext {
        Features => "@ip4-unicast",
    }
}

graph::reasons! {
    /// Why `ip4-broadcast-source` drops packets.
    pub enum Ip4BroadcastSourceDrop {
        /// The source is the network or broadcast address of a connected prefix, which no host has (RFC 1812 section 5.3.7).
        NoHost => "ip4-source-no-host",
    }
}

/// The node.
pub struct Ip4BroadcastSource {
    plane: Arc<Plane>,
}

static BROADCAST_SOURCE: Feature = Feature::new(&arcs::IP4_UNICAST, Ip4BroadcastSource::NAME);

/// Whether packets received from the network or broadcast address of a connected prefix are dropped (RFC 1812 section 5.3.7).
pub static BROADCAST_SOURCES_DROP: Setting<bool> =
    Setting::new("drops packets from broadcast addresses", "set interface ip broadcast-sources {} forward");

/// What it is switched on by.
pub(super) const SWITCH: Switch =
    Switch { feature: &BROADCAST_SOURCE, on: |s| s.get(&BROADCAST_SOURCES_DROP) };

impl Ip4BroadcastSource {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4BroadcastSource { plane: Arc::clone(plane) }
    }
}

impl Node for Ip4BroadcastSource {
    const NAME: &'static str = "ip4-broadcast-source";
    type Next = Ip4BroadcastSourceNext;
    type Drop = Ip4BroadcastSourceDrop;
    type View<'v> = (&'v Plane, View<'v, V4>);

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v> {
        (&self.plane, View::new(&self.plane, guard))
    }

    #[inline]
    fn step(
        (plane, tables): &mut Self::View<'_>,
        p: &mut Packet<'_>,
    ) -> Step<Ip4BroadcastSourceNext, Ip4BroadcastSourceDrop> {
        let src = p.head::<20>().map_or(0, |h| Ip4Header(h).src_u32());
        let found = tables.lookup_one(p.d.rx, &src);
        if plane.groups.resolve(found, 0).kind == kind::BROADCAST {
            return Err(Ip4BroadcastSourceDrop::NoHost.into());
        }
        Ok(Ip4BroadcastSourceNext::Features)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, fix_ip4};

    #[test]
    fn only_addresses_that_no_host_has_are_dropped() {
        let mut r = Rig::new(Ip4BroadcastSource::new);
        let packet = |src: [u8; 4]| {
            let mut p = vec![0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0];
            p.extend(src);
            p.extend([203, 0, 113, 7]);
            fix_ip4(&mut p);
            Input::new(&p)
        };
        for src in [[192, 0, 2, 255], [192, 0, 2, 0], [198, 51, 100, 255]] {
            assert_eq!(r.drops(packet(src)), "ip4-source-no-host", "{src:?}");
        }
        for src in [[192, 0, 2, 1], [192, 0, 2, 254], [192, 0, 3, 255], [10, 9, 8, 255]] {
            assert_eq!(r.one(packet(src)).node, "ip4-lookup", "{src:?}");
        }
    }
}
