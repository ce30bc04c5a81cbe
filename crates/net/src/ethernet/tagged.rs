//! The short cut of `ethernet-input` for frames with tags: one or two of them, to sub-interfaces that may change with every
//! frame.

use super::input::{EthernetNext, EthernetView, Ours, next_of};
use crate::interface::{Brief, Briefs, Interface};
use crate::{ip4, ip6};
use graph::counters::{Run, Table};
use graph::{Desc, Rooms, WINDOW, flags, quick};
use packet::eth::EtherType;
use tables::slots::SlotsReader;
use tables::vlan::{Tpid, VlanTable};

/// What the node does with the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Leaves the packet inside to the next node.
    Any(EthernetNext),
    /// Checks it as `ip4-input` would.
    Ip4,
    /// Checks it as `ip6-input` would.
    Ip6,
    /// Hands the frame to its bridge domain.
    Frame,
}

/// What the usual tagged frames of a vector have in common: as many tags, and where they go.
#[derive(Clone, Copy)]
pub struct Tagged<'v> {
    rx: u32,
    /// They have two tags.
    two: bool,
    inside: Inside,
    ethertype: u16,
    /// They are for the router.
    ours: Ours,
    /// Features of the sub-interface of the first, where the packets go to their arc.
    feat: u32,
    /// What [`Brief`] says of their sub-interfaces.
    want: u64,
    subs: &'v VlanTable,
    briefs: &'v Briefs,
    ifs: SlotsReader<'v, Interface>,
    rx_counts: &'v Table,
}

/// Bytes 12 to 19 of a frame in memory order.
#[inline(always)]
fn tag_word(w: &[u8; WINDOW]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *w.first_chunk::<20>().unwrap_or(&[0; 20]);
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The parts of a tag, as it stands at the low end of a word.
#[inline(always)]
fn tag(word: u64) -> (Option<Tpid>, u16) {
    let tpid = match word as u16 {
        0x0081 => Some(Tpid::Dot1q),
        0xa888 => Some(Tpid::Dot1ad),
        _ => None,
    };
    (tpid, ((word >> 16) as u16).swap_bytes() & 0xfff)
}

/// What tells sub-interfaces apart in [`tag_word`]: the tags without their priorities, and the type behind a single one.
const ONE: u64 = 0x0000_ffff_ff0f_ffff;
const TWO: u64 = 0xff0f_ffff_ff0f_ffff;

/// Bytes of an Ethernet header with one tag or two.
const fn header(two: bool) -> u16 {
    if two { 22 } else { 18 }
}

impl<'v> Tagged<'v> {
    /// Judges by the first frame of an interface.
    pub fn new(
        view: &EthernetView<'v>,
        i: &'v Interface,
        first: &Desc,
        mut rooms: Rooms<'_>,
    ) -> Option<(EthernetNext, Self)> {
        let subs = i.subs.as_ref()?;
        let w = rooms.window::<0>(first)?;
        let word = tag_word(w);
        let two = word >> 32 & 0xffff == 0x0081;
        let at = if two { 20 } else { 16 };
        let mut t = Tagged {
            rx: first.rx,
            two,
            inside: Inside::Frame,
            ethertype: u16::from_be_bytes([w[at], w[at + 1]]),
            ours: Ours::new(&i.mac),
            feat: 0,
            want: 0,
            subs,
            briefs: &view.plane.briefs,
            ifs: view.sub.all(),
            rx_counts: view.rx,
        };
        let index = if two { t.sub::<true>(word) } else { t.sub::<false>(word) };
        let brief = t.briefs.get(index);
        if brief.has(Brief::BRIDGED, Brief::BRIDGED) {
            t.want = Brief::BRIDGED;
            return Some((EthernetNext::Bridge, t));
        }
        let sub = t.ifs.get(index)?;
        let (next, inside) = match next_of(t.ethertype)? {
            EthernetNext::Ip4 if sub.takes_ip4() => {
                (t.feat, t.want) = (sub.ip4_unicast, Brief::IP4);
                t.want |= if t.feat != 0 { Brief::FEATURES4 } else { 0 };
                (EthernetNext::Ip4Features, Inside::Ip4)
            }
            EthernetNext::Ip6 if sub.takes_ip6() => {
                (t.feat, t.want) = (sub.ip6_unicast, Brief::IP6);
                t.want |= if t.feat != 0 { Brief::FEATURES6 } else { 0 };
                (EthernetNext::Ip6Features, Inside::Ip6)
            }
            next => {
                t.want = Brief::ROUTED;
                (next, Inside::Any(next))
            }
        };
        t.inside = inside;
        Some((next, t))
    }

    /// As [`graph::QuickNode::features`].
    pub fn features(&self) -> u32 {
        self.feat
    }

    /// As [`graph::QuickNode::behind`].
    pub fn behind(&self, edge: EthernetNext) -> Option<Self> {
        match (self.inside, edge) {
            (Inside::Ip4, EthernetNext::Ip4) | (Inside::Ip6, EthernetNext::Ip6) => {
                Some(Tagged { inside: Inside::Any(edge), feat: 0, want: Brief::ROUTED, ..*self })
            }
            _ => None,
        }
    }

    /// As [`graph::QuickNode::quick`].
    pub fn quick(self, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        if self.two { self.each::<true>(descs, rooms) } else { self.each::<false>(descs, rooms) }
    }

    #[inline(always)]
    fn each<const TWO: bool>(self, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        match self.inside {
            Inside::Frame => self.frames::<TWO>(descs, rooms),
            Inside::Any(_) => {
                let fit = |b: Brief, _| b.has(Brief::ROUTED, Brief::ROUTED);
                self.run::<TWO>(descs, rooms, 0, fit, |_, d| Some(d.len - header(TWO)))
            }
            Inside::Ip4 => self.run::<TWO>(
                descs,
                rooms,
                20,
                |b, index| {
                    b.has(Brief::IP4 | Brief::FEATURES4, self.want)
                        && (self.feat == 0 || self.ifs.get(index).is_some_and(|i| i.ip4_unicast == self.feat))
                },
                |w, d| {
                    let (total, dst) = ip4::input::usual(w[usize::from(header(TWO))..].first_chunk()?)?;
                    if u32::from(total) + u32::from(header(TWO)) > u32::from(d.len) {
                        return None;
                    }
                    d.aux = dst;
                    Some(total)
                },
            ),
            Inside::Ip6 => self.run::<TWO>(
                descs,
                rooms,
                40,
                |b, index| {
                    b.has(Brief::IP6 | Brief::FEATURES6, self.want)
                        && (self.feat == 0 || self.ifs.get(index).is_some_and(|i| i.ip6_unicast == self.feat))
                },
                |w, d| {
                    let total = ip6::input::usual(w[usize::from(header(TWO))..].first_chunk()?)?;
                    (total + u32::from(header(TWO)) <= u32::from(d.len)).then_some(total as u16)
                },
            ),
        }
    }

    /// The sub-interface for the tags of a frame; none has the number that stands for none, or for more to look at.
    #[inline(always)]
    fn sub<const TWO: bool>(&self, word: u64) -> u32 {
        let (Some(tpid), outer) = tag(word) else { return tables::vlan::NONE };
        if TWO { self.subs.double(tpid, outer, tag(word >> 32).1) } else { self.subs.single(tpid, outer) }
    }

    /// Takes frames to sub-interfaces that are `fit`, with packets of at least `least` bytes; `inside` says how long the
    /// packet is.
    #[inline(always)]
    fn run<const TWO: bool>(
        self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        least: u16,
        fit: impl Fn(Brief, u32) -> bool,
        inside: impl Fn(&[u8; WINDOW], &mut Desc) -> Option<u16>,
    ) -> usize {
        let mut counts = Run::new(self.rx_counts);
        let mask = if TWO { self::TWO } else { ONE };
        let header = header(TWO);
        // The tags of the last one, and what they stand for. Nothing under the mask has all bits.
        let (mut last, mut index) = (u64::MAX, 0);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            let at = usize::from(header) - 2;
            if d.rx != self.rx
                || d.len < header + least
                || u16::from_be_bytes([w[at], w[at + 1]]) != self.ethertype
            {
                return false;
            }
            let word = tag_word(w) & mask;
            if word != last {
                if TWO && word >> 32 & 0xffff != 0x0081 {
                    return false;
                }
                let i = self.sub::<TWO>(word);
                if !fit(self.briefs.get(i), i) {
                    return false;
                }
                (last, index) = (word, i);
            }
            if !self.ours.holds(w) {
                return false;
            }
            let whole = d.len;
            let Some(len) = inside(w, d) else { return false };
            counts.add(index, whole);
            d.rx = index;
            d.l2 = d.off;
            d.off += header;
            d.len = len;
            true
        })
    }

    /// Takes frames to members of bridge domains.
    #[inline(always)]
    fn frames<const TWO: bool>(self, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let mut counts = Run::new(self.rx_counts);
        let mask = if TWO { self::TWO } else { ONE };
        let (mut last, mut index, mut bridge) = (u64::MAX, 0, 0);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            if d.rx != self.rx || d.len < 22 {
                return false;
            }
            let word = tag_word(w) & mask;
            let inner = EtherType(u16::from_be_bytes([w[20], w[21]]));
            if TWO && inner.is_vlan() {
                return false;
            }
            if word != last {
                let second = EtherType(((word >> 32) as u16).swap_bytes());
                if if TWO { second != EtherType::VLAN } else { second.is_vlan() } {
                    return false;
                }
                let i = self.sub::<TWO>(word);
                let brief = self.briefs.get(i);
                if !brief.has(Brief::BRIDGED, Brief::BRIDGED) {
                    return false;
                }
                self.ifs.prefetch(i);
                (last, index, bridge) = (word, i, brief.bridge());
            }
            counts.add(index, d.len);
            d.rx = index;
            d.l2 = d.off;
            d.aux = bridge;
            true
        })
    }
}
