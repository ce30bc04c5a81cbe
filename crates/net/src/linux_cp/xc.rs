//! `linux-cp-xc`: what Linux sends on the TAP of a pair leaves by the interface as it is, or comes in on one over which no frames
//! leave.

use super::{FromLinux, Pairs, find};
use crate::interface::{IfIndex, comes_in, retag};
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord, flags};
use packet::eth::{self, EtherType};
use packet::vlan::VlanStack;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `linux-cp-xc` sends frames.
    pub enum XcNext {
        Output => "interface-output",
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
    }
}

graph::reasons! {
    /// What `linux-cp-xc` counts.
    pub enum XcDrop {
        /// The pair of the TAP went a moment ago.
        NoPair => "linux-cp-xc-no-pair",
        /// The frame ends within its Ethernet header, or there is no room for the tags of the interface.
        Malformed => "linux-cp-xc-malformed",
        /// No IP packet, on a loopback, behind which is nobody to have it.
        NoLink => "linux-cp-xc-no-link",
        /// A frame of Linux's was sent on.
        Injected => "linux-cp-packets-injected" (info),
    }
}

/// The node.
pub struct LinuxCpXc {
    plane: Arc<Plane>,
    pairs: Arc<Published<Pairs>>,
}

impl LinuxCpXc {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        LinuxCpXc { plane: Arc::clone(plane), pairs: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct XcView<'v> {
    ifs: IfCache<'v>,
    pairs: &'v Pairs,
    last: IfIndex,
    from: Option<FromLinux>,
}

impl Node for LinuxCpXc {
    const NAME: &'static str = "linux-cp-xc";
    type Next = XcNext;
    type Drop = XcDrop;
    type View<'v> = XcView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> XcView<'v> {
        XcView {
            ifs: IfCache::new(&self.plane, guard),
            pairs: self.pairs.load(guard),
            last: IfIndex::MAX,
            from: None,
        }
    }

    #[inline]
    fn step(view: &mut XcView<'_>, p: &mut Packet<'_>) -> Step<XcNext, XcDrop> {
        if p.d.rx != view.last {
            (view.last, view.from) = (p.d.rx, find(&view.pairs.from, p.d.rx));
        }
        let Some(from) = view.from else { return Err(XcDrop::NoPair.into()) };
        let Some(i) = view.ifs.get(from.interface) else { return Err(XcDrop::NoPair.into()) };
        let Some(link) = VlanStack::parse(p.data()) else { return Err(XcDrop::Malformed.into()) };
        if from.routed {
            if !p.advance(eth::HEADER_LEN) {
                return Err(XcDrop::Malformed.into());
            }
            let next = match link.outer_tpid {
                EtherType::IPV4 => XcNext::Ip4,
                EtherType::IPV6 => XcNext::Ip6,
                _ => return Err(XcDrop::NoLink.into()),
            };
            let offloads = p.d.flags & (flags::CSUM_PARTIAL | flags::GSO);
            comes_in(p.d, from.interface, 0);
            p.d.flags |= offloads;
            p.count(XcDrop::Injected);
            return Ok(next);
        }
        p.d.l2 = p.d.off;
        p.d.tx = from.interface;
        if i.tags.count != 0 && retag::push(p, &i.tags).is_err() {
            return Err(XcDrop::Malformed.into());
        }
        // VLAN devices above a TAP tag their frames themselves: these are the sub-interface's.
        if link.count != 0
            && let Some(subs) = i.subs.as_deref()
            && let Some(sub) = crate::ethernet::sub_interface(subs, &link)
        {
            p.d.tx = sub;
        }
        p.count(XcDrop::Injected);
        Ok(XcNext::Output)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
