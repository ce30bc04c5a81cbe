//! The short cut of `ethernet-input` for frames with tags: one or two of them, to sub-interfaces that may change with every
//! frame.

use super::input::{EthernetNext, EthernetView, Ours, next_of};
use crate::interface::{IfSummaries, IfSummary, Interface};
use crate::ip4::input::Checks4;
use crate::ip6::input::Checks6;
use crate::plane::RxCounts;
use crate::plane::sources::Marks;
use graph::counters::{Run, Table};
use graph::stage::{self, Rest, Stage};
use graph::{Desc, Rooms, WINDOW, flags, quick};
use packet::eth::EtherType;
use tables::slots::SlotsReader;
use tables::vlan::{NONE, Tpid, VlanTable};

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

/// What the usual tagged frames of a vector have in common: the kinds of their tags, and where they go.
#[derive(Clone, Copy)]
pub struct Tagged<'v> {
    rx: u32,
    /// They have two tags.
    two: bool,
    tpid: Tpid,
    /// What [`tag_word`] has under [`TYPES`]. Of frames to bridge domains, the type behind a single tag may differ.
    types: u64,
    inside: Inside,
    /// The type behind the tags, in memory order.
    ethertype: [u8; 2],
    /// They are for the router.
    ours: Ours,
    /// Features of the sub-interface of the first, where the packets go to their arc.
    feat: u32,
    /// What [`IfSummary`] says of their sub-interfaces.
    want: u64,
    single: &'v [u32; 4096],
    subs: &'v VlanTable,
    summaries: &'v IfSummaries,
    ifs: SlotsReader<'v, Interface>,
    /// Where all of them are counted.
    rx_counts: &'v Table,
    marks: &'v Marks,
    counts: &'v RxCounts,
}

/// Bytes 12 to 19 of a frame in memory order: both tags, or one and the type behind it.
#[inline(always)]
fn tag_word(w: &[u8; WINDOW]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = *w.first_chunk::<20>().unwrap_or(&[0; 20]);
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The VLAN identifier of a tag whose last two bytes stand at the low end of a word.
#[inline(always)]
fn vid(word: u64) -> u16 {
    (word as u16).swap_bytes() & 0xfff
}

/// What tells sub-interfaces apart in [`tag_word`]: the tags without their priorities.
const TAG: u64 = 0xff0f_ffff;
const TAGS: u64 = TAG << 32 | TAG;
/// Frames whose sub-interfaces are looked up at once.
const CHUNK: usize = 32;

/// In [`tag_word`]: the kind of the outer tag, and the kind of the inner one or the type.
const TYPES: u64 = OUTER | SECOND;
const OUTER: u64 = 0xffff;
const SECOND: u64 = 0xffff << 32;
/// An inner tag.
const INNER: u64 = 0x0081 << 32;

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
        let two = word & SECOND == INNER;
        let at = if two { 20 } else { 16 };
        let tpid = match EtherType((word as u16).swap_bytes()) {
            EtherType::VLAN => Tpid::Dot1q,
            EtherType::QINQ => Tpid::Dot1ad,
            _ => return None,
        };
        let mut t = Tagged {
            rx: first.rx,
            two,
            tpid,
            types: word & TYPES,
            inside: Inside::Frame,
            ethertype: [w[at], w[at + 1]],
            ours: Ours::new(&i.mac),
            feat: 0,
            want: 0,
            // Without an answer for a single tag there is none for two either.
            single: subs.single(tpid)?,
            subs,
            summaries: &view.plane.summaries,
            ifs: view.sub.all(),
            rx_counts: &view.counts.rx,
            marks: view.marks,
            counts: view.counts,
        };
        let index = if two { t.sub::<true>(word) } else { t.sub::<false>(word) };
        let summary = t.summaries.get(index);
        if summary.has(IfSummary::BRIDGED, IfSummary::BRIDGED) {
            t.feat = t.ifs.get(index)?.l2_input;
            t.want = IfSummary::BRIDGED | if t.feat != 0 { IfSummary::FEATURES_L2 } else { 0 };
            return Some((EthernetNext::L2, t));
        }
        let sub = t.ifs.get(index)?;
        let (next, inside) = match next_of(u16::from_be_bytes(t.ethertype))? {
            EthernetNext::Ip4 if sub.takes_ip4() => {
                (t.feat, t.want) = (sub.ip4_unicast, IfSummary::IP4);
                t.want |= if t.feat != 0 { IfSummary::FEATURES4 } else { 0 };
                t.rx_counts = &view.counts.rx4;
                (EthernetNext::Ip4Features, Inside::Ip4)
            }
            EthernetNext::Ip6 if sub.takes_ip6() => {
                (t.feat, t.want) = (sub.ip6_unicast, IfSummary::IP6);
                t.want |= if t.feat != 0 { IfSummary::FEATURES6 } else { 0 };
                t.rx_counts = &view.counts.rx6;
                (EthernetNext::Ip6Features, Inside::Ip6)
            }
            next => {
                t.want = IfSummary::ROUTED;
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
                let (inside, rx_counts) = (Inside::Any(edge), &*self.counts.rx);
                Some(Tagged { inside, feat: 0, want: IfSummary::ROUTED, rx_counts, ..*self })
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
                let fit = |b: IfSummary, _| b.has(IfSummary::ROUTED, IfSummary::ROUTED);
                self.run::<TWO, _>(descs, rooms, fit, Rest)
            }
            Inside::Ip4 => self.run::<TWO, _>(
                descs,
                rooms,
                move |b, index| {
                    b.has(IfSummary::IP4 | IfSummary::FEATURES4, self.want)
                        && (self.feat == 0 || self.ifs.get(index).is_some_and(|i| i.ip4_unicast == self.feat))
                },
                Checks4::new(self.marks),
            ),
            Inside::Ip6 => self.run::<TWO, _>(
                descs,
                rooms,
                move |b, index| {
                    b.has(IfSummary::IP6 | IfSummary::FEATURES6, self.want)
                        && (self.feat == 0 || self.ifs.get(index).is_some_and(|i| i.ip6_unicast == self.feat))
                },
                Checks6,
            ),
        }
    }

    /// The key of two tags.
    #[inline(always)]
    fn key(&self, word: u64) -> u32 {
        tables::vlan::double_key(self.tpid, vid(word >> 16), vid(word >> 48))
    }

    /// The sub-interface for the tags of a frame; none has the number that stands for none, or for more to look at.
    #[inline(always)]
    fn sub<const TWO: bool>(&self, word: u64) -> u32 {
        if TWO { self.subs.double(self.key(word)) } else { self.single[usize::from(vid(word >> 16))] }
    }

    /// Whether the first frames are of different sub-interfaces, as those behind them will be.
    #[inline(always)]
    fn is_mixed(&self, descs: &[Desc], rooms: &mut Rooms<'_>) -> bool {
        let Some((first, rest)) = descs.split_first() else { return false };
        let mut tags =
            |d| rooms.window::<0>(d).map_or(0, |w| tag_word(w) & if self.two { TAGS } else { TAG });
        let first = tags(first);
        rest.iter().take(3).any(|d| tags(d) != first)
    }

    /// Hands frames from the front of `descs` to `usual` that have the right types under a mask and whose sub-interfaces `fit`;
    /// it says which it takes. How many were taken.
    #[inline(always)]
    fn by_tags<const TWO: bool>(
        self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        types: u64,
        fit: impl Fn(IfSummary, u32) -> bool + Copy,
        usual: impl Fn(&mut Desc, &[u8; WINDOW], IfSummary) -> bool + Copy,
    ) -> usize {
        let mask = types | if TWO { TAGS } else { TAG };
        let known = self.types & types;
        if !self.is_mixed(descs, &mut rooms) {
            let mut counts = Run::new(self.rx_counts);
            // The tags of the last one, and what they stand for. Nothing under the mask has all bits.
            let (mut last, mut index, mut summary) = (u64::MAX, NONE, IfSummary::default());
            return quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
                let Some(w) = rooms.window::<0>(d) else { return false };
                let word = tag_word(w) & mask;
                if word != last {
                    let i = self.sub::<TWO>(word);
                    let b = self.summaries.get(i);
                    if word & types != known || !fit(b, i) {
                        return false;
                    }
                    (last, index, summary) = (word, i, b);
                }
                let whole = d.len;
                if d.rx != self.rx || !usual(d, w, summary) {
                    return false;
                }
                counts.add(index, whole);
                d.rx = index;
                true
            });
        }
        // Nobody foretells whether a frame is of the same sub-interface as the one before: that is not asked.
        let each = move |d: &mut Desc, w: &[u8; WINDOW], index| {
            let (summary, whole) = (self.summaries.get(index), d.len);
            if d.rx != self.rx
                || tag_word(w) & types != known
                || !fit(summary, index)
                || !usual(d, w, summary)
            {
                return false;
            }
            self.rx_counts.count(index, whole.into());
            d.rx = index;
            true
        };
        if !TWO {
            return quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
                let Some(w) = rooms.window::<0>(d) else { return false };
                each(d, w, self.sub::<false>(tag_word(w)))
            });
        }
        // The answers for two tags, and what follows from them, lie in no near cache: they are brought near for a few frames
        // at a time, more and more of them as long as they are usual.
        let (mut taken, mut chunk) = (0, 4);
        while taken < descs.len() {
            chunk = (2 * chunk).min(CHUNK);
            let rest = &mut descs[taken..];
            let n = rest.len().min(chunk);
            let part = &mut rest[..n];
            let mut found = [NONE; CHUNK];
            for (d, key) in part.iter().zip(&mut found) {
                *key = rooms.window::<0>(d).map_or(NONE, |w| self.key(tag_word(w)));
                self.subs.prefetch_double(*key);
            }
            for found in &mut found[..n] {
                *found = self.subs.double(*found);
                self.summaries.prefetch(*found);
                self.rx_counts.prefetch(*found);
            }
            let usual =
                quick::run_lookup::<{ flags::UNUSUAL }, ()>(part, &[(); CHUNK], &found, |d, (), index| {
                    rooms.window::<0>(d).is_some_and(|w| each(d, w, index))
                });
            taken += usual;
            if usual < n {
                break;
            }
        }
        taken
    }

    /// Takes frames to sub-interfaces that are `fit`, with what is usual for a stage inside.
    #[inline(always)]
    fn run<const TWO: bool, S: Stage>(
        self,
        descs: &mut [Desc],
        rooms: Rooms<'_>,
        fit: impl Fn(IfSummary, u32) -> bool + Copy,
        inside: S,
    ) -> usize {
        self.by_tags::<TWO>(descs, rooms, TYPES, fit, move |d, w, _| {
            // Worked out here, it is a constant; from outside it would be a number like others.
            let header = header(TWO);
            if TWO && [w[20], w[21]] != self.ethertype || !self.ours.holds(w) {
                return false;
            }
            let Some((len, aux)) = stage::find(&inside, d, w, header.into()) else { return false };
            d.l2 = d.off;
            d.off += header;
            (d.len, d.aux) = (len, aux);
            true
        })
    }

    /// Takes frames to members of bridge domains.
    #[inline(always)]
    fn frames<const TWO: bool>(self, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let fit = |summary: IfSummary, index| {
            self.ifs.prefetch(index);
            summary.has(IfSummary::BRIDGED | IfSummary::FEATURES_L2, self.want)
                && (self.feat == 0 || self.ifs.get(index).is_some_and(|i| i.l2_input == self.feat))
        };
        // Any type may stand behind a single tag but that of another one.
        let types = if TWO { TYPES } else { OUTER };
        self.by_tags::<TWO>(descs, rooms, types, fit, move |d, w, summary| {
            let behind = if TWO { [w[20], w[21]] } else { [w[16], w[17]] };
            if d.len < 22 || EtherType(u16::from_be_bytes(behind)).is_vlan() {
                return false;
            }
            d.l2 = d.off;
            d.aux = summary.bridge();
            true
        })
    }
}
