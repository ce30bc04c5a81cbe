//! `ethernet-input`: finds the sub-interface of a frame, whether the frame is for the router, and its protocol.

use super::tagged::Tagged;
use crate::interface::{IfIndex, IfSummary, Interface, ifflags};
use crate::ip4::input::Checks4;
use crate::ip6::input::Checks6;
use crate::layer::{Any, Frame, Ip4, Ip6, Labelled};
use crate::mpls::FirstLabel;
use crate::plane::sources::Marks;
use crate::plane::{IfCache, Plane, RxCounts};
use crate::punt::{self, Asked, Class, Programs};
use graph::counters::Table;
use graph::node::Step;
use graph::stage::{self, Found, Spot, Stage, Then};
use graph::{
    Desc, Edge, Guard, Like, Node, Packet, Published, QuickNode, Rooms, TraceRecord, WINDOW, flags, quick,
};
use packet::eth::EtherType;
use packet::mpls::Entry;
use packet::vlan::VlanStack;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use tables::vlan::{Tags, Tpid, VlanTable};

graph::edges! {
    /// Where `ethernet-input` sends packets.
    pub enum EthernetNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
        Mpls => "mpls-input",
        MplsFeatures => "@mpls-input",
        Ip4Lookup => "ip4-lookup",
        Arp => "arp-input",
        Policed => "punt-policer",
        L2 => "@l2-input",
        Xconnect => "l2-xconnect",
        Ip4Features => "@ip4-unicast",
        Ip6Features => "@ip6-unicast",
        Linux => "linux-cp-punt",
        Program => "program-punt",
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
        /// LACP or another slow protocol (IEEE 802.3 annex 57A), of which the router runs none.
        SlowProtocol => "slow-protocol-not-run",
        /// LLDP (IEEE 802.1AB), which the router does not run.
        Lldp => "lldp-not-run",
    }
}

/// The node.
pub struct EthernetInput {
    plane: Arc<Plane>,
    marks: Arc<Published<Marks>>,
    programs: Arc<Published<Programs>>,
    counts: RxCounts,
}

impl EthernetInput {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        EthernetInput {
            plane: Arc::clone(plane),
            marks: plane.publish(),
            programs: plane.publish(),
            counts: plane.counters.received_by(worker),
        }
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

/// The sub-interface, of these of a device, that takes a frame with these tags.
#[inline]
pub fn sub_interface(subs: &VlanTable, tags: &VlanStack) -> Option<IfIndex> {
    subs.lookup(tags_of(tags))
}

/// LACP and its like (IEEE 802.3 annex 57A).
const SLOW_PROTOCOLS: EtherType = EtherType(0x8809);
/// IEEE 802.1AB.
const LLDP: EtherType = EtherType(0x88cc);

/// Frames of link-layer protocols, for which there is no node: for Linux where the interface has a pair, else counted under their
/// own names.
#[cold]
fn for_control(
    plane: &Plane,
    p: &mut Packet<'_>,
    i: &Interface,
    class: Class,
    not_run: EthernetDrop,
) -> Step<EthernetNext, EthernetDrop> {
    if !plane.admits(p, class) {
        return Ok(EthernetNext::Policed);
    }
    if i.is(ifflags::LINUX) {
        p.d.aux = punt::linux::FRAME;
        return Ok(EthernetNext::Linux);
    }
    Err(not_run.into())
}

/// A frame that a program has asked for.
#[cold]
fn for_program(plane: &Plane, p: &mut Packet<'_>, ethertype: EtherType) -> EthernetNext {
    let class = match ethertype {
        SLOW_PROTOCOLS => Class::SlowProtocols,
        LLDP => Class::Lldp,
        _ => Class::Api,
    };
    if !plane.admits(p, class) {
        return EthernetNext::Policed;
    }
    p.d.aux = Asked::frame(ethertype).word();
    EthernetNext::Program
}

/// A frame of an EtherType that no node takes, or of IEEE 802.2, on an interface with a pair.
#[cold]
fn for_linux(
    plane: &Plane,
    p: &mut Packet<'_>,
    i: &Interface,
    ethertype: u16,
) -> Step<EthernetNext, EthernetDrop> {
    // Up to here it is a length (IEEE 802.3 section 3.2.6).
    if ethertype > 1500 {
        return Err(EthernetDrop::UnknownType.into());
    }
    for_control(plane, p, i, Class::Isis, EthernetDrop::UnknownType)
}

/// Snapshot of one vector.
pub struct EthernetView<'v> {
    pub(super) plane: &'v Plane,
    hw: IfCache<'v>,
    pub(super) sub: IfCache<'v>,
    pub(super) marks: &'v Marks,
    programs: &'v Programs,
    pub(super) counts: &'v RxCounts,
}

impl EthernetView<'_> {
    /// The EtherType behind the tags of a frame that is routed; none where it, or its whole interface, is on layer 2. An interface
    /// without sub-interfaces, and not on layer 2, becomes the `plain` one.
    #[inline(never)]
    fn within(&mut self, rx: u32, w: &[u8; WINDOW], plain: &mut u32) -> Option<EtherType> {
        let tags = VlanStack::parse(w)?;
        let Some(i) = self.hw.get(rx) else { return Some(tags.ethertype) };
        if i.is(ifflags::L2) {
            return None;
        }
        match &i.subs {
            None => *plain = rx,
            Some(subs) => {
                let sub = sub_interface(subs, &tags);
                let routed = |sub| self.plane.summaries.get(sub).has(IfSummary::ROUTED, IfSummary::ROUTED);
                if !sub.is_none_or(routed) {
                    return None;
                }
            }
        }
        Some(tags.ethertype)
    }
}

impl Node for EthernetInput {
    const NAME: &'static str = "ethernet-input";
    type Next = EthernetNext;
    type Drop = EthernetDrop;
    type View<'v> = EthernetView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> EthernetView<'v> {
        EthernetView {
            plane: &self.plane,
            hw: IfCache::new(&self.plane, guard),
            sub: IfCache::new(&self.plane, guard),
            marks: self.marks.load(guard),
            programs: self.programs.load(guard),
            counts: &self.counts,
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
            match i.subs.as_ref().and_then(|subs| sub_interface(subs, &tags)) {
                Some(index) => {
                    p.d.rx = index;
                    let Some(sub) = view.sub.get(index) else { return Err(EthernetDrop::Gone.into()) };
                    i = sub;
                    if !i.is(ifflags::UP) {
                        return Err(EthernetDrop::SubDown.into());
                    }
                    view.counts.rx.count(index, p.total_len());
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
            if i.is_xconnect() {
                return Ok(EthernetNext::Xconnect);
            }
            p.d.feat = i.l2_input;
            p.d.aux = i.bridge.map_or(0, |port| port.bridge.into());
            return Ok(EthernetNext::L2);
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
            EtherType::MPLS => {
                p.d.hash = ethertype.into();
                Ok(EthernetNext::Mpls)
            }
            other if view.programs.queue(Asked::frame(other), p.d.rx).is_some() => {
                Ok(for_program(view.plane, p, other))
            }
            SLOW_PROTOCOLS => for_control(view.plane, p, i, Class::SlowProtocols, EthernetDrop::SlowProtocol),
            LLDP => for_control(view.plane, p, i, Class::Lldp, EthernetDrop::Lldp),
            _ if i.is(ifflags::LINUX) => for_linux(view.plane, p, i, ethertype),
            _ => Err(EthernetDrop::UnknownType.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

/// What the usual frames of a vector have in common: they come from one interface.
pub enum Common<'v> {
    /// Cross-connected, without sub-interfaces or features: any frame.
    Xconnect(u32),
    /// On layer 2, without sub-interfaces: any frame. With the bridge domain, if it is in one, and the features of the interface.
    L2(u32, u32, u32),
    /// Without sub-interfaces: untagged frames of one EtherType for the router.
    Plain(Ethernet<Any>),
    /// The same, and `ip4-input` would find nothing unusual either. With the features of the interface.
    Ip4(Then<Ethernet<Ip4>, Checks4<'v>>, u32, &'v Table),
    /// The same for IPv6.
    Ip6(Then<Ethernet<Ip6>, Checks6>, u32, &'v Table),
    /// Without sub-interfaces: untagged labelled frames for the router. With the features of the interface.
    Mpls(Then<Ethernet<Labelled>, FirstLabel>, u32),
    /// The same with the label IPv4 explicit null alone, and the packet behind it would not be found unusual either.
    ExplicitNull(Then<Ethernet<Labelled>, Then<ExplicitNull, Checks4<'v>>>),
    /// With sub-interfaces: frames with one or two tags.
    Tagged(Tagged<'v>),
}

/// Frames to the router from another station.
#[derive(Clone, Copy)]
pub(super) struct Ours {
    like: Like,
    /// The router's MAC address in the high six bytes, in memory order.
    mac: u64,
}

impl Ours {
    /// To an interface with this address.
    pub fn new(mac: &[u8; 6]) -> Self {
        let [a, b, c, d, e, f] = *mac;
        let to = mac.iter().enumerate().fold(Like::default(), |like, (n, byte)| like.and(n, *byte, 0xff));
        // No station has a group address.
        Ours { like: to.and(6, 0, 1), mac: u64::from_le_bytes([0, 0, a, b, c, d, e, f]) }
    }

    /// True for such a frame.
    #[inline(always)]
    pub fn holds(&self, w: &[u8; WINDOW]) -> bool {
        // The address first: behind the comparison of all bytes at once it would be taken out of them, in more steps.
        let from = u64::from_le_bytes([w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13]]);
        from << 16 != self.mac && self.like.holds(w)
    }
}

/// Takes the header off an untagged frame of one EtherType that came on one interface, to the router and from another station.
#[derive(Clone, Copy)]
pub struct Ethernet<P> {
    rx: u32,
    ours: Ours,
    inside: PhantomData<P>,
}

impl<P> Ethernet<P> {
    fn new(rx: u32, mac: &[u8; 6], ethertype: [u8; 2]) -> Self {
        let ours = Ours::new(mac);
        let like = ours.like.and(12, ethertype[0], 0xff).and(13, ethertype[1], 0xff);
        Ethernet { rx, ours: Ours { like, ..ours }, inside: PhantomData }
    }

    /// The same, whatever is inside.
    fn with_any(&self) -> Ethernet<Any> {
        Ethernet { rx: self.rx, ours: self.ours, inside: PhantomData }
    }
}

impl<P: Copy> Stage for Ethernet<P> {
    type Needs = Frame;
    type Leaves = P;
    const HEADER: u16 = 14;
    const LINK: bool = true;
    const COMPARES: bool = true;
    const NODE: &'static str = EthernetInput::NAME;

    fn asks(&self, _: Like, _: usize) -> Like {
        self.ours.like
    }

    fn comparing(self, like: Like) -> Self {
        Ethernet { ours: Ours { like, ..self.ours }, ..self }
    }

    #[inline(always)]
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], _: Spot, found: &mut Found) -> bool {
        found.len = u32::from(d.len).wrapping_sub(Self::HEADER.into());
        d.rx == self.rx && self.ours.holds(w)
    }
}

/// Takes the label IPv4 explicit null off.
#[derive(Clone, Copy)]
pub struct ExplicitNull;

impl Stage for ExplicitNull {
    type Needs = Labelled;
    type Leaves = Ip4;
    const HEADER: u16 = 4;
    const NODE: &'static str = "mpls-lookup";

    #[inline(always)]
    fn usual(&self, _: &Desc, w: &[u8; WINDOW], spot: Spot, _: &mut Found) -> bool {
        spot.header(w).is_some_and(is_explicit_null)
    }

    fn does(name: &str) -> bool {
        FirstLabel::does(name) || name == Self::NODE
    }
}

/// Whether an entry has the label IPv4 explicit null at the bottom of its stack, with a TTL that lets it pass. What
/// `mpls-lookup` does with it is the same in each table: the packet is looked up in the table of its interface.
#[inline(always)]
fn is_explicit_null(entry: &[u8; 4]) -> bool {
    let entry = u32::from_be_bytes(*entry);
    entry & !0xeff == Entry::BOTTOM && entry as u8 > 1
}

/// The stage of Ethernet alone, where a packet goes over an edge to a node that the chain leaves out.
fn cut<'v, P: Copy, S: Stage<Needs = P>>(
    chain: &Then<Ethernet<P>, S>,
    edge: EthernetNext,
) -> Option<Common<'v>> {
    let to = EthernetNext::TARGETS[edge.index()];
    Then::<Ethernet<P>, S>::leaves_out(to).then(|| Common::Plain(chain.0.with_any()))
}

/// What a kind has beside its interface: 0 IPv4, 1 IPv6, 2 MPLS, and this for all that has no short cut, ARP among it.
const OTHER: u32 = 3;
/// The kind of frames that stay on layer 2: they keep their order whatever is in them, and bridge domains learn from it.
const LAYER2: u32 = u32::MAX;

/// The kind of a frame that is routed.
#[inline(always)]
fn kind_of(rx: u32, ethertype: EtherType) -> u32 {
    // No branches: where both families come, nobody foretells which is next.
    let is = |t: EtherType| u32::from(ethertype == t);
    let less = 3 * is(EtherType::IPV4) + 2 * is(EtherType::IPV6) + is(EtherType::MPLS);
    (rx << 2 | OTHER) - less
}

pub(super) fn next_of(ethertype: u16) -> Option<EthernetNext> {
    match EtherType(ethertype) {
        EtherType::IPV4 => Some(EthernetNext::Ip4),
        EtherType::IPV6 => Some(EthernetNext::Ip6),
        EtherType::MPLS => Some(EthernetNext::Mpls),
        _ => None,
    }
}

impl QuickNode for EthernetInput {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &EthernetView<'v>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(EthernetNext, Common<'v>)> {
        let rx = first.rx;
        let i = view.hw.peek(rx).filter(|i| i.is(ifflags::UP))?;
        if i.subs.is_some() {
            let (next, tagged) = Tagged::new(view, i, first, rooms)?;
            return Some((next, Common::Tagged(tagged)));
        }
        if i.is(ifflags::L2) {
            if i.is_xconnect() {
                return Some((EthernetNext::Xconnect, Common::Xconnect(rx)));
            }
            let bridge = i.bridge.map_or(0, |port| port.bridge.into());
            return Some((EthernetNext::L2, Common::L2(rx, bridge, i.l2_input)));
        }
        let w = rooms.window::<0>(first)?;
        let ethertype = [w[12], w[13]];
        match next_of(u16::from_be_bytes(ethertype))? {
            EthernetNext::Ip4 if i.takes_ip4() => {
                let chain = Then::new(Ethernet::new(rx, &i.mac, ethertype), Checks4::new(view.marks));
                Some((EthernetNext::Ip4Features, Common::Ip4(chain, i.ip4_unicast, &view.counts.ip4)))
            }
            EthernetNext::Ip6 if i.takes_ip6() => {
                let chain = Then::new(Ethernet::new(rx, &i.mac, ethertype), Checks6);
                Some((EthernetNext::Ip6Features, Common::Ip6(chain, i.ip6_unicast, &view.counts.ip6)))
            }
            EthernetNext::Mpls => {
                let frame = Ethernet::new(rx, &i.mac, ethertype);
                Some(if i.mpls_input == 0 && w[14..].first_chunk().is_some_and(is_explicit_null) {
                    let chain = Then::new(frame, Then::new(ExplicitNull, Checks4::unlabelled()));
                    (EthernetNext::Ip4Lookup, Common::ExplicitNull(chain))
                } else {
                    (EthernetNext::MplsFeatures, Common::Mpls(Then::new(frame, FirstLabel), i.mpls_input))
                })
            }
            next => Some((next, Common::Plain(Ethernet::new(rx, &i.mac, ethertype)))),
        }
    }

    fn features(common: &Common<'_>) -> u32 {
        match common {
            Common::Ip4(_, feat, _) | Common::Ip6(_, feat, _) | Common::L2(.., feat) => *feat,
            Common::Mpls(_, feat) => *feat,
            Common::Tagged(tagged) => tagged.features(),
            Common::Xconnect(_) | Common::Plain(_) => 0,
            Common::ExplicitNull(_) => 0,
        }
    }

    fn ends(edge: EthernetNext, p: &Packet<'_>) -> bool {
        match edge {
            EthernetNext::Ip4 => packet::ip4::check(p.data(), p.total_len()).is_err(),
            EthernetNext::Ip6 => packet::ip6::check(p.data(), p.total_len()).is_err(),
            _ => false,
        }
    }

    fn behind(common: &mut Common<'_>, edge: EthernetNext, _: &Desc) -> Option<EthernetNext> {
        let other = match common {
            Common::Ip4(chain, ..) => cut(chain, edge),
            Common::Ip6(chain, ..) => cut(chain, edge),
            Common::Mpls(chain, _) => cut(chain, edge),
            Common::ExplicitNull(chain) => cut(chain, edge),
            Common::Tagged(t) => t.behind(edge).map(Common::Tagged),
            Common::Xconnect(_) | Common::L2(..) | Common::Plain(_) => None,
        };
        *common = other?;
        Some(edge)
    }

    const SORTS: bool = true;

    fn kinds(view: &mut EthernetView<'_>, descs: &[Desc], mut rooms: Rooms<'_>, kinds: &mut [u32]) {
        // The last interface without sub-interfaces and not on layer 2: the usual one.
        let mut plain = u32::MAX;
        for (d, kind) in descs.iter().zip(kinds) {
            let Some(w) = rooms.window::<0>(d) else {
                *kind = d.rx << 2 | OTHER;
                continue;
            };
            let ethertype = EtherType(u16::from_be_bytes([w[12], w[13]]));
            *kind = kind_of(d.rx, ethertype);
            if plain != d.rx || *kind & OTHER == OTHER && ethertype.is_vlan() {
                *kind = view.within(d.rx, w, &mut plain).map_or(LAYER2, |within| kind_of(d.rx, within));
            }
        }
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        match common {
            Common::Xconnect(rx) => {
                let rx = *rx;
                quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
                    // Long enough for two tags, which are not looked at.
                    let good = d.rx == rx && d.len >= 22;
                    if good {
                        d.l2 = d.off;
                    }
                    good
                })
            }
            Common::L2(rx, bridge, _) => {
                let (rx, bridge) = (*rx, *bridge);
                quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
                    let good = d.rx == rx && d.len >= 22;
                    if good {
                        d.l2 = d.off;
                        d.aux = bridge;
                    }
                    good
                })
            }
            Common::Plain(frame) => stage::run(*frame, descs, rooms),
            Common::Mpls(chain, _) => stage::run(*chain, descs, rooms),
            Common::ExplicitNull(chain) => stage::run(*chain, descs, rooms),
            Common::Ip4(chain, _, counts) => {
                let taken = stage::run(*chain, descs, rooms);
                counts.add(chain.0.rx, taken);
                taken
            }
            Common::Ip6(chain, _, counts) => {
                let taken = stage::run(*chain, descs, rooms);
                counts.add(chain.0.rx, taken);
                taken
            }
            Common::Tagged(t) => t.quick(descs, rooms),
        }
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
