//! `bvi-input`: where frames leave a bridge domain for the router.

use crate::interface::ifflags;
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::eth::EtherType;
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `bvi-input` sends packets.
    pub enum BviNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
        Arp => "arp-input",
    }
}

graph::reasons! {
    /// Why `bvi-input` drops frames.
    pub enum BviDrop {
        /// The frame is shorter than an Ethernet header.
        TooShort => "bvi-frame-too-short",
        /// The BVI does not exist any more.
        Gone => "bvi-gone",
        /// The BVI is administratively down.
        Down => "bvi-down",
        /// The destination MAC address is another station's.
        NotForUs => "bvi-mac-not-for-us",
        /// The source MAC address is the BVI's own.
        BadSource => "bvi-bad-source-mac",
        /// The frame still has a VLAN tag: the member on which it came should take it away.
        Tagged => "bvi-tagged-frame",
        /// No node takes this EtherType.
        UnknownType => "bvi-unknown-ethertype",
    }
}

/// The node.
pub struct BviInput {
    plane: Arc<Plane>,
}

impl BviInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        BviInput { plane: Arc::clone(plane) }
    }
}

impl Node for BviInput {
    const NAME: &'static str = "bvi-input";
    type Next = BviNext;
    type Drop = BviDrop;
    type View<'v> = IfCache<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IfCache<'v> {
        IfCache::new(&self.plane, guard)
    }

    #[inline]
    fn step(view: &mut IfCache<'_>, p: &mut Packet<'_>) -> Step<BviNext, BviDrop> {
        let Some(&head) = p.head::<14>() else { return Err(BviDrop::TooShort.into()) };
        let Some(i) = view.get(p.d.rx) else { return Err(BviDrop::Gone.into()) };
        if !i.is(ifflags::UP) {
            return Err(BviDrop::Down.into());
        }
        p.d.l2 = p.d.off;
        if head[0] & 1 != 0 {
            p.d.flags |= flags::L2_GROUP;
        } else if head[..6] != i.mac {
            return Err(BviDrop::NotForUs.into());
        }
        if head[6..12] == i.mac {
            return Err(BviDrop::BadSource.into());
        }
        let ethertype = EtherType(u16::from_be_bytes([head[12], head[13]]));
        if ethertype.is_vlan() {
            return Err(BviDrop::Tagged.into());
        }
        if !p.advance(14) {
            return Err(BviDrop::TooShort.into());
        }
        match ethertype {
            EtherType::IPV4 => Ok(BviNext::Ip4),
            EtherType::IPV6 => Ok(BviNext::Ip6),
            EtherType::ARP => Ok(BviNext::Arp),
            _ => Err(BviDrop::UnknownType.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
