//! `ip4-link-local`: keeps packets from and for 169.254.0.0/16 on their link, where the operator wants that.

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
    /// Where `ip4-link-local` sends packets.
    pub enum Ip4LinkLocalNext {
        Features => "@ip4-unicast",
    }
}

graph::reasons! {
    /// Why `ip4-link-local` drops packets.
    pub enum Ip4LinkLocalDrop {
        /// The source or destination is link-local: not forwarded (RFC 3927 section 2.7).
        Stays => "ip4-link-local-not-forwarded",
    }
}

/// The node.
pub struct Ip4LinkLocal {
    plane: Arc<Plane>,
}

static LINK_LOCAL: Feature = Feature::new(&arcs::IP4_UNICAST, Ip4LinkLocal::NAME);

/// Whether packets received from or for 169.254.0.0/16 are not forwarded (RFC 3927 section 2.7).
pub static LINK_LOCAL_STAYS: Setting<bool> =
    Setting::new("keeps 169.254.0.0/16 on the link", "set interface ip link-local {} forward");

/// What it is switched on by.
pub(super) const SWITCH: Switch = Switch { feature: &LINK_LOCAL, on: |s| s.get(&LINK_LOCAL_STAYS) };

impl Ip4LinkLocal {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4LinkLocal { plane: Arc::clone(plane) }
    }
}

/// True for 169.254.0.0/16.
fn is_link_local(address: u32) -> bool {
    address >> 16 == 0xa9fe
}

impl Node for Ip4LinkLocal {
    const NAME: &'static str = "ip4-link-local";
    type Next = Ip4LinkLocalNext;
    type Drop = Ip4LinkLocalDrop;
    type View<'v> = (&'v Plane, View<'v, V4>);

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v> {
        (&self.plane, View::new(&self.plane, guard))
    }

    #[inline]
    fn step(
        (plane, tables): &mut Self::View<'_>,
        p: &mut Packet<'_>,
    ) -> Step<Ip4LinkLocalNext, Ip4LinkLocalDrop> {
        let (src, dst) = p.head::<20>().map_or((0, 0), |h| (Ip4Header(h).src_u32(), Ip4Header(h).dst_u32()));
        if !is_link_local(src) && !is_link_local(dst) {
            return Ok(Ip4LinkLocalNext::Features);
        }
        // What is for the router itself does not leave the link.
        let found = tables.lookup_one(p.d.rx, &dst);
        if plane.groups.resolve(found, 0).kind == kind::LOCAL {
            return Ok(Ip4LinkLocalNext::Features);
        }
        Err(Ip4LinkLocalDrop::Stays.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, fix_ip4};

    fn packet(src: [u8; 4], dst: [u8; 4]) -> Input {
        let mut p = vec![0x45, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0];
        p.extend(src);
        p.extend(dst);
        fix_ip4(&mut p);
        Input::new(&p)
    }

    #[test]
    fn only_what_is_for_the_router_goes_on() {
        let mut r = Rig::new(Ip4LinkLocal::new);
        let (ours, other, local) = ([192, 0, 2, 1], [203, 0, 113, 7], [169, 254, 3, 4]);
        for (src, dst) in [(other, other), (local, ours), ([169, 253, 0, 1], [169, 255, 0, 1])] {
            assert_eq!(r.one(packet(src, dst)).node, "ip4-lookup", "{src:?} {dst:?}");
        }
        for (src, dst) in [(local, other), (other, local), (local, [169, 254, 9, 9])] {
            assert_eq!(r.drops(packet(src, dst)), "ip4-link-local-not-forwarded", "{src:?} {dst:?}");
        }
    }
}
