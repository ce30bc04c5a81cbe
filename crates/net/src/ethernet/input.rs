//! `ethernet-input`: finds the sub-interface of a frame, whether the frame is for the router, and its protocol.

use crate::interface::{IfCache, ifflags};
use crate::plane::Plane;
use graph::counters::{Pair, Table};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::eth::EtherType;
use packet::vlan::VlanStack;
use std::fmt;
use std::sync::Arc;
use tables::vlan::{Tags, Tpid};

graph::edges! {
    /// Where `ethernet-input` sends packets.
    pub enum EthernetNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
        Arp => "arp-input",
        Xconnect => "l2-xconnect",
    }
}

graph::reasons! {
    /// Why `ethernet-input` drops frames.
    pub enum EthernetDrop {
        /// The frame is shorter than an Ethernet header.
        TooShort => "frame-too-short",
        /// The interface does not exist any more.
        Gone => "interface-gone",
        /// The interface is administratively down.
        Down => "interface-down",
        /// The frame has a VLAN tag for which there is no sub-interface.
        UnknownVlan => "unknown-vlan",
        /// The tags of the frame are cut off.
        BadVlan => "truncated-vlan-tag",
        /// The sub-interface is administratively down.
        SubDown => "sub-interface-down",
        /// The destination MAC address is another station's.
        NotForUs => "mac-not-for-us",
        /// The source MAC address is a multicast address or the router's own.
        BadSource => "bad-source-mac",
        /// No node takes this EtherType.
        UnknownType => "unknown-ethertype",
    }
}

/// The node.
pub struct EthernetInput {
    plane: Arc<Plane>,
    rx: Arc<Table<Pair>>,
}

impl EthernetInput {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        EthernetInput { plane: Arc::clone(plane), rx: plane.counters.rx.of(worker) }
    }
}

#[inline]
fn tags_of(s: &VlanStack) -> Tags {
    let tpid = if s.outer_tpid == EtherType::VLAN { Tpid::Dot1q } else { Tpid::Dot1ad };
    let inner_counts = s.count < 2 || s.inner_tpid == EtherType::VLAN;
    let count = match s.count {
        // A third tag, of which nothing is read, still makes the frame one with more than two.
        2 if inner_counts && s.ethertype.is_vlan() => 3,
        2 if !inner_counts => 1,
        n => n,
    };
    Tags { count, tpid, outer: s.outer_vid(), inner: s.inner_vid() }
}

/// Snapshot of one vector.
pub struct EthernetView<'v> {
    hw: IfCache<'v>,
    sub: IfCache<'v>,
    rx: &'v Table<Pair>,
}

impl Node for EthernetInput {
    const NAME: &'static str = "ethernet-input";
    type Next = EthernetNext;
    type Drop = EthernetDrop;
    type View<'v> = EthernetView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> EthernetView<'v> {
        EthernetView {
            hw: IfCache::new(&self.plane, guard),
            sub: IfCache::new(&self.plane, guard),
            rx: &self.rx,
        }
    }

    #[inline]
    fn step(view: &mut EthernetView<'_>, p: &mut Packet<'_>) -> Step<EthernetNext, EthernetDrop> {
        let Some(&head) = p.head::<14>() else { return Err(EthernetDrop::TooShort.into()) };
        let Some(mut i) = view.hw.get(p.d.rx) else { return Err(EthernetDrop::Gone.into()) };
        if !i.is(ifflags::UP) {
            return Err(EthernetDrop::Down.into());
        }
        p.d.l2 = p.d.off;
        let mut ethertype = u16::from_be_bytes([head[12], head[13]]);
        let mut header_len = 14;
        if EtherType(ethertype).is_vlan() || i.subs.is_some() {
            let Some(tags) = VlanStack::parse(p.data()) else { return Err(EthernetDrop::BadVlan.into()) };
            match i.subs.as_ref().and_then(|t| t.lookup(tags_of(&tags))) {
                Some(index) => {
                    p.d.rx = index;
                    let Some(sub) = view.sub.get(index) else { return Err(EthernetDrop::Gone.into()) };
                    i = sub;
                    if !i.is(ifflags::UP) {
                        return Err(EthernetDrop::SubDown.into());
                    }
                    if let Some(c) = view.rx.get(index) {
                        c.packets.add(1);
                        c.bytes.add(p.total_len() as u64);
                    }
                }
                // A tag that only carries a priority belongs to the interface itself (IEEE 802.1Q section 6.9).
                None if tags.count == 0 || tags.count == 1 && tags.outer_vid() == 0 => {}
                None if i.is(ifflags::L2) => {}
                None => return Err(EthernetDrop::UnknownVlan.into()),
            }
            ethertype = tags.ethertype.0;
            header_len = usize::from(tags.header_len);
        }
        if i.is(ifflags::L2) {
            return Ok(EthernetNext::Xconnect);
        }
        if head[0] & 1 != 0 {
            p.d.flags |= flags::L2_GROUP;
        } else if head[..6] != i.mac {
            return Err(EthernetDrop::NotForUs.into());
        }
        if head[6] & 1 != 0 || head[6..12] == i.mac {
            return Err(EthernetDrop::BadSource.into());
        }
        if !p.advance(header_len) {
            return Err(EthernetDrop::BadVlan.into());
        }
        match EtherType(ethertype) {
            EtherType::IPV4 => Ok(EthernetNext::Ip4),
            EtherType::IPV6 => Ok(EthernetNext::Ip6),
            EtherType::ARP => Ok(EthernetNext::Arp),
            _ => Err(EthernetDrop::UnknownType.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_tag_is_counted() {
        let frame = |tpids: &[u16]| {
            let mut f = vec![0; 12];
            for t in tpids {
                f.extend(t.to_be_bytes());
                f.extend([0, 7]);
            }
            f.extend([8, 0, 0, 0]);
            tags_of(&VlanStack::parse(&f).unwrap()).count
        };
        assert_eq!([frame(&[]), frame(&[0x8100]), frame(&[0x88a8, 0x8100])], [0, 1, 2]);
        assert_eq!(frame(&[0x8100, 0x8100, 0x8100]), 3, "no exact match takes it");
        assert_eq!(frame(&[0x8100, 0x88a8]), 1, "only an 802.1Q inner tag is one");
    }
}
