//! How prefixes longer than the short ones get into the IPv6 table.
//!
//! Below the root, what a part of the table holds is a function of the prefixes there. After a change of the RIB the
//! parts that it may touch are worked out again from the RIB, and stored where they differ from what is there: in place, or by
//! a new node that keeps the unchanged nodes below it.

use super::arena::Arena;
use super::node::{self, ENTRIES, INSIDE, Kind, OUTSIDE, RUNS};
use super::{ARRAY_LINES, LINE, Lpm6, POINTER};
use crate::config::LpmConfig;
use crate::fallback::Fallback;
use crate::lpm::{Change, Engine, LpmWriter, ROOT_BITS};
use crate::mem::Array;
use crate::rib::{Cover, Key, NONE, PrefixSet, Rib, Run, Spot, What};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// An array becomes runs again when there are as few: fewer than fit, so that it does not go back and forth.
const SHRINK: usize = 8;
/// Nodes that take more bytes are not expected to be near.
const FAR: usize = 256 << 10;

/// Fills the root and the nodes.
#[doc(hidden)]
pub struct Nodes {
    shared: Arc<Lpm6>,
    arena: Arena,
    /// Lists that were used before, kept for their memory.
    spare: Vec<Vec<Run>>,
}

/// A part of the table: the addresses that share the bits before a window, or those and the window's first 8 bits.
#[derive(Debug, Clone, Copy)]
struct Part {
    prefix: u128,
    /// Where the window starts, a multiple of 16.
    at: u8,
    half: bool,
}

impl Part {
    /// How many bits its addresses share.
    fn bits(self) -> u8 {
        if self.half { self.at + 8 } else { self.at }
    }

    /// Where the window ends.
    fn end(self) -> u8 {
        self.at + 16
    }

    /// The window's bits of an address.
    fn slot(self, address: u128) -> u16 {
        address.slot(self.end()) as u16
    }

    /// The part below a slot of the window.
    fn below(self, slot: u16) -> Part {
        let all = self.prefix.first(self.at) | u128::from(slot) << (112 - self.at);
        Part { prefix: all, at: self.end(), half: false }
    }
}

/// A change on its way down.
#[derive(Clone, Copy)]
struct Work<'a> {
    rib: &'a Rib<u128>,
    key: u128,
    len: u8,
    removed: bool,
}

impl Work<'_> {
    /// Whether what a slot of `bits` bits holds below them may have changed; `cover` covers it.
    fn touches(&self, prefix: u128, bits: u8, cover: Cover) -> bool {
        if self.len > bits {
            return self.key.first(bits) == prefix;
        }
        // A prefix in between hides the change.
        prefix.first(self.len) == self.key && cover.len <= self.len
    }
}

#[allow(private_interfaces)]
impl Engine for Nodes {
    type Key = u128;
    type Rib = Rib<u128>;
    type Shared = Lpm6;
    const NAME: &'static str = "IPv6 routes";
    const SHORT: u8 = 16;

    fn create(config: LpmConfig) -> std::io::Result<LpmWriter<Self>> {
        Lpm6::new(config).map(|(writer, _)| writer)
    }

    fn shared(&self) -> &Arc<Lpm6> {
        &self.shared
    }

    fn root(&self) -> &Array<AtomicU32> {
        &self.shared.root
    }

    fn fallback(&self) -> &Fallback {
        &self.shared.fallback
    }

    fn advise_huge(&self) {
        self.shared.nodes.advise_huge();
    }

    fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn growth(&self, _: u128, len: u8) -> (usize, Option<usize>) {
        if len <= ROOT_BITS {
            return (0, None);
        }
        // Runs become an array, whose elements are runs again, and a skip is made.
        let need = self.arena.growth(RUNS + 5, 2);
        (need, (self.arena.bytes() + need > self.arena.most()).then_some(self.arena.most()))
    }

    fn inserted(&mut self, rib: &Rib<u128>, _: Spot, change: Change<u128>) {
        self.publish(Work { rib, key: change.key, len: change.len, removed: false });
    }

    fn removed(&mut self, rib: &mut Rib<u128>, _: Spot, change: Change<u128>) {
        rib.remove(change.key, change.len);
        self.publish(Work { rib, key: change.key, len: change.len, removed: true });
    }

    fn retire_epoch(&mut self, epoch: u64) {
        self.arena.retire_epoch(epoch);
    }

    fn reclaim(&mut self, safe: u64) {
        self.arena.reclaim(safe);
    }

    fn retired(&self) -> usize {
        self.arena.retired()
    }
}

impl Nodes {
    pub(super) fn new(shared: Arc<Lpm6>) -> Self {
        let arena = Arena::new(shared.nodes.len());
        Nodes { shared, arena, spare: Vec::new() }
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn spare_bytes(&self) -> usize {
        self.arena.spare()
    }

    fn publish(&mut self, work: Work<'_>) {
        let root = self.shared.clone();
        let Work { rib, key, len, .. } = work;
        let set = |nodes: &mut Nodes, slot: u32, found: (u32, Cover)| {
            let place = &root.root[slot as usize];
            let part = Part { prefix: u128::from(slot) << (128 - ROOT_BITS), at: ROOT_BITS - 8, half: true };
            let old = place.load(Relaxed);
            let new = nodes.part(&work, found, part, old, true);
            if new != old {
                place.store(new, Release);
            }
        };
        if len > ROOT_BITS {
            let first = key.first(ROOT_BITS);
            set(self, key.slot(ROOT_BITS), rib.inside(first, ROOT_BITS));
        } else {
            let mut runs = self.spare.pop().unwrap_or_default();
            rib.slots(rib.inside(key, len), key, len, ROOT_BITS, usize::MAX, &mut runs);
            let (base, end) = (key.slot(ROOT_BITS), 1u32 << (ROOT_BITS - len));
            for (i, run) in runs.iter().enumerate() {
                match run.what {
                    What::Value(value) => {
                        let end = runs.get(i + 1).map_or(end, |r| r.start);
                        for e in &root.root[(base + run.start) as usize..(base + end) as usize] {
                            e.store(value, Release);
                        }
                    }
                    What::Below(node, cover) => {
                        let slot = base + run.start;
                        if work.touches(
                            u128::from(slot) << (128 - ROOT_BITS),
                            ROOT_BITS,
                            rib.longer(node, cover, ROOT_BITS).1,
                        ) {
                            set(self, slot, (node, cover));
                        }
                    }
                }
            }
            self.put_back(runs);
        }
        let far = self.arena.bytes() > FAR;
        if self.shared.far.load(Relaxed) != far {
            self.shared.far.store(far, Relaxed);
        }
    }

    fn put_back(&mut self, mut list: Vec<Run>) {
        list.clear();
        self.spare.push(list);
    }

    fn line(&self, pointer: u32) -> &[AtomicU32] {
        let at = node::word(pointer);
        let lines = if node::kind(pointer) == Kind::Array { ARRAY_LINES } else { 1 };
        &self.shared.nodes[at..at + lines * LINE]
    }

    fn entry(&self, pointer: u32, word: usize) -> u32 {
        self.line(pointer)[word].load(Relaxed)
    }

    fn set(&self, pointer: u32, word: usize, entry: u32) {
        node::store(&self.line(pointer)[word..=word], &[entry]);
    }

    /// Fills a new node, which no reader sees yet.
    fn fill(&self, pointer: u32, words: &[u32]) -> u32 {
        for (w, &n) in self.line(pointer).iter().zip(words) {
            w.store(n, Relaxed);
        }
        pointer
    }

    fn new_skip(&mut self, prefix: u128, len: u8, outside: u32, inside: u32) -> u32 {
        let pointer = node::skip(self.arena.alloc(false));
        self.fill(pointer, &node::skip_words(prefix, u128::MAX << (128 - len), outside, inside))
    }

    /// The entry for a part of the table. `found` is what the RIB has for it, `old` the entry to be replaced.
    /// Nodes below the window are used again or retired; that of `old` itself, and what belongs to it in this window, only if
    /// it is `own`, and not a part of something larger.
    fn part(&mut self, work: &Work<'_>, found: (u32, Cover), part: Part, old: u32, own: bool) -> u32 {
        let (top, cover) = work.rib.longer(found.0, found.1, part.bits());
        if top == NONE {
            if own {
                let lost = self.lost(work, (top, cover), part, old);
                self.retire_all(lost);
                self.retire(old, part.end());
            }
            return cover.value;
        }
        let n = *work.rib.at(top);
        if n.is_leaf() || n.len >= part.end() {
            return self.skip(work, (top, cover), part, old, own);
        }
        if own && self.changed_below(work, (top, cover), part, old) {
            return old;
        }
        if own && node::kind(old) == Kind::Array {
            let few = work.removed && !self.has_many_runs(old) && {
                let mut runs = self.spare.pop().unwrap_or_default();
                work.rib.slots((top, cover), part.prefix, part.bits(), part.end(), SHRINK, &mut runs);
                let few = runs.len() <= SHRINK;
                self.put_back(runs);
                few
            };
            if !few {
                self.change_array(work, (top, cover), part, old);
                return old;
            }
        }
        let lost = if own { self.lost(work, (top, cover), part, old) } else { 0 };
        let new = self.window(work, (top, cover), part, old, own);
        self.retire_all(lost);
        if own && new != old {
            self.retire(old, part.end());
        }
        new
    }

    /// The entry for a part whose longer prefixes share bits beyond its window, or are a single one.
    fn skip(&mut self, work: &Work<'_>, found: (u32, Cover), part: Part, old: u32, own: bool) -> u32 {
        let (top, cover) = found;
        let n = *work.rib.at(top);
        let (len, leaf) = if n.is_leaf() { (n.len, true) } else { (n.len / 16 * 16, false) };
        let prefix = n.key.first(len);
        if own && node::kind(old) == Kind::Skip {
            let inside = self.entry(old, INSIDE);
            let same = node::skip_prefix(self.line(old)) == (prefix, u128::MAX << (128 - len));
            if same && leaf == (inside & POINTER == 0) {
                let inside = if leaf {
                    n.value
                } else if work.touches(prefix, len, work.rib.longer(top, cover, len).1) {
                    self.part(work, found, Part { prefix, at: len, half: false }, inside, true)
                } else {
                    inside
                };
                self.set(old, INSIDE, inside);
                self.set(old, OUTSIDE, cover.value);
                return old;
            }
        }
        let new = if leaf && n.len <= part.end() {
            self.new_skip(prefix, len, cover.value, n.value)
        } else {
            let slot = part.slot(n.key);
            let below = part.below(slot);
            let entry = self.window_entry(work, What::Below(top, cover), part, slot, old);
            if node::kind(entry) == Kind::Skip && n.len > below.at {
                // Nothing holds between here and there.
                entry
            } else {
                self.new_skip(below.prefix, below.at, cover.value, entry)
            }
        };
        if own && new != old {
            let lost = self.lost(work, found, part, old);
            self.retire_all(lost);
            self.retire(old, part.end());
        }
        new
    }

    /// Follows a change that is wholly below an entry that stays a pointer. False if there is none such.
    fn changed_below(&mut self, work: &Work<'_>, found: (u32, Cover), part: Part, old: u32) -> bool {
        if work.len <= part.end() || node::kind(old) != Kind::Runs {
            return false;
        }
        let slot = part.slot(work.key);
        let word = node::run_of(self.line(old), slot);
        let child = self.entry(old, word);
        let below = part.below(slot);
        let found = work.rib.inside_from(found.0, found.1, below.prefix, below.at);
        if child & POINTER == 0 || work.rib.longer(found.0, found.1, below.at).0 == NONE {
            return false;
        }
        let new = self.part(work, found, below, child, true);
        if new != child {
            // The last run's entry also stands in the places that no run uses.
            let line = self.line(old);
            for w in &line[ENTRIES..] {
                if w.load(Relaxed) == child {
                    w.store(new, Release);
                }
            }
        }
        true
    }

    /// Changes those elements of an array that a change touches.
    fn change_array(&mut self, work: &Work<'_>, found: (u32, Cover), part: Part, array: u32) {
        let bits = part.bits();
        let cut = bits + 8;
        let below = |key: u128| {
            if part.half {
                Part { prefix: key.first(cut), at: cut, half: false }
            } else {
                Part { prefix: key.first(cut), at: part.at, half: true }
            }
        };
        if work.len > cut {
            let element = below(work.key);
            let word = element.prefix.slot(cut) as u8 as usize;
            let found = work.rib.inside_from(found.0, found.1, element.prefix, cut);
            let new = self.part(work, found, element, self.entry(array, word), true);
            return self.set(array, word, new);
        }
        let (key, len) = if work.len > bits { (work.key, work.len) } else { (part.prefix, bits) };
        let found = work.rib.inside_from(found.0, found.1, key, len);
        let mut runs = self.spare.pop().unwrap_or_default();
        work.rib.slots(found, key, len, cut, usize::MAX, &mut runs);
        let base = key.slot(cut) as u8 as usize;
        for (i, run) in runs.iter().enumerate() {
            let word = base + run.start as usize;
            match run.what {
                What::Value(value) => {
                    let end = runs.get(i + 1).map_or(1 << (cut - len), |r| r.start as usize);
                    let line = self.line(array);
                    line[word..base + end].iter().for_each(|e| e.store(value, Release));
                }
                What::Below(node, cover) => {
                    let element = below(part.prefix.first(bits) | (word as u128) << (128 - cut));
                    if work.touches(element.prefix, cut, work.rib.longer(node, cover, cut).1) {
                        let new = self.part(work, (node, cover), element, self.entry(array, word), true);
                        self.set(array, word, new);
                    }
                }
            }
        }
        self.put_back(runs);
    }

    /// A window whose prefixes neither are one alone nor share its bits: runs, or an array.
    fn window(&mut self, work: &Work<'_>, found: (u32, Cover), part: Part, old: u32, own: bool) -> u32 {
        if own && let Some((runs, n)) = self.overlay(work, found, part, old) {
            return self.store_runs(&runs[..n], part, old, own);
        }
        let mut runs = self.spare.pop().unwrap_or_default();
        work.rib.slots(found, part.prefix, part.bits(), part.end(), RUNS, &mut runs);
        let new = if runs.len() <= RUNS {
            self.window_runs(work, &runs, part, old, own)
        } else {
            runs.clear();
            work.rib.slots(found, part.prefix, part.bits(), part.bits() + 8, usize::MAX, &mut runs);
            self.window_array(work, &runs, part, old)
        };
        self.put_back(runs);
        new
    }

    /// Whether an array surely stands for more than `SHRINK` runs: as its lines are near, the RIB is asked for few.
    fn has_many_runs(&self, array: u32) -> bool {
        let line = self.line(array);
        let cuts = line.windows(2).filter(|e| e[0].load(Relaxed) != e[1].load(Relaxed));
        cuts.take(SHRINK).count() == SHRINK
    }

    /// What runs become by a change within their window, worked out from what they are: the prefixes beside it stay as they
    /// were, and are not looked at. `None` if the change is not of that kind, or there are more runs than fit.
    fn overlay(
        &mut self,
        work: &Work<'_>,
        found: (u32, Cover),
        part: Part,
        old: u32,
    ) -> Option<([(u16, u32); RUNS], usize)> {
        if node::kind(old) != Kind::Runs || work.len <= part.bits() || work.len > part.end() {
            return None;
        }
        let found = work.rib.inside_from(found.0, found.1, work.key, work.len);
        let mut inner = self.spare.pop().unwrap_or_default();
        work.rib.slots(found, work.key, work.len, part.end(), RUNS, &mut inner);
        let from = u32::from(part.slot(work.key));
        let end = from + (1 << (part.end() - work.len));
        let (before, count) = node::runs_of(self.line(old), part.slot(part.prefix), part.half);
        let before = &before[..count];
        let (mut all, mut n) = ([(0, 0); RUNS], 0);
        let mut fits = inner.len() <= RUNS;
        let mut add = |start: u32, entry: u32| {
            if n > 0 && entry & POINTER == 0 && all[n - 1].1 == entry {
                return true;
            }
            if let Some(to) = all.get_mut(n) {
                *to = (start as u16, entry);
                n += 1;
                return true;
            }
            false
        };
        for &(start, entry) in before.iter().take_while(|r| u32::from(r.0) < from) {
            fits = fits && add(u32::from(start), entry);
        }
        if fits {
            for run in &inner {
                let slot = from + run.start;
                let entry = match run.what {
                    What::Value(value) => value,
                    // Not yet followed: that may change it, and must not be done in vain.
                    What::Below(..) => self.child(old, part, slot as u16),
                };
                fits = fits && add(slot, entry);
            }
        }
        // The run that goes on behind it, and those after.
        let last = u32::from(part.slot(part.prefix)) + if part.half { 0xff } else { 0xffff };
        if end <= last
            && let Some(at) = before.iter().rposition(|r| u32::from(r.0) <= end)
        {
            fits = fits && add(end, before[at].1);
            for &(start, entry) in &before[at + 1..] {
                fits = fits && add(u32::from(start), entry);
            }
        }
        for run in inner.iter().filter(|_| fits) {
            let slot = (from + run.start) as u16;
            if let (What::Below(..), Some(to)) = (run.what, all[..n].iter().position(|r| r.0 == slot)) {
                all[to].1 = self.window_entry(work, run.what, part, slot, old);
            }
        }
        self.put_back(inner);
        fits.then_some((all, n))
    }

    fn window_runs(&mut self, work: &Work<'_>, runs: &[Run], part: Part, old: u32, own: bool) -> u32 {
        let base = part.slot(part.prefix);
        let mut all = [(0u16, 0u32); RUNS];
        for (to, run) in all.iter_mut().zip(runs) {
            let slot = base + run.start as u16;
            *to = (slot, self.window_entry(work, run.what, part, slot, old));
        }
        self.store_runs(&all[..runs.len().min(RUNS)], part, old, own)
    }

    /// Puts runs in the place of `old`, in place where they start at the same slots.
    fn store_runs(&mut self, runs: &[(u16, u32)], part: Part, old: u32, own: bool) -> u32 {
        let words = node::runs_words(runs);
        if own && node::kind(old) == Kind::Runs {
            let line = self.line(old);
            if line.iter().zip(&words).take(ENTRIES).all(|(w, &n)| w.load(Relaxed) == n) {
                node::store(line, &words);
                return old;
            }
        }
        let pointer = node::runs(part.at, self.arena.alloc(false));
        self.fill(pointer, &words)
    }

    fn window_array(&mut self, work: &Work<'_>, runs: &[Run], part: Part, old: u32) -> u32 {
        let pointer = node::array(part.bits(), self.arena.alloc(true));
        let mut words = [0; 256];
        for (i, run) in runs.iter().enumerate() {
            let end = runs.get(i + 1).map_or(256, |r| r.start);
            let slot = run.start as u16;
            let entry = match run.what {
                What::Below(node, cover) if !part.half => {
                    let prefix = part.prefix | u128::from(slot) << (120 - part.at);
                    self.part(work, (node, cover), Part { prefix, at: part.at, half: true }, old, false)
                }
                what => self.window_entry(work, what, part, part.slot(part.prefix) + slot, old),
            };
            words[run.start as usize..end as usize].fill(entry);
        }
        self.fill(pointer, &words)
    }

    /// The entry for a slot of a window: a value, or what follows.
    fn window_entry(&mut self, work: &Work<'_>, what: What, part: Part, slot: u16, old: u32) -> u32 {
        match what {
            What::Value(value) => value,
            What::Below(node, cover) => {
                let (below, child) = (part.below(slot), self.child(old, part, slot));
                let inner = work.rib.longer(node, cover, below.at).1;
                if child & POINTER != 0 && !work.touches(below.prefix, below.at, inner) {
                    return child;
                }
                self.part(work, (node, cover), below, child, true)
            }
        }
    }

    /// What an entry for a part leads to after its window, for a slot of it.
    fn child(&self, old: u32, part: Part, slot: u16) -> u32 {
        match node::kind(old) {
            Kind::Value => old,
            Kind::Runs => self.entry(old, node::run_of(self.line(old), slot)),
            Kind::Array if node::array_bits(old) == part.at => {
                self.child(self.entry(old, usize::from(slot >> 8)), part, slot)
            }
            Kind::Array => self.entry(old, usize::from(slot as u8)),
            Kind::Skip => {
                let (prefix, mask) = node::skip_prefix(self.line(old));
                let (len, inside) = (mask.count_ones() as u8, self.entry(old, INSIDE));
                if len < part.end() || part.slot(prefix) != slot {
                    return self.entry(old, OUTSIDE);
                }
                if len > part.end() { old } else { inside }
            }
        }
    }

    /// What was below the slot of a removed prefix, if nothing is left there; 0 otherwise.
    fn lost(&self, work: &Work<'_>, found: (u32, Cover), part: Part, old: u32) -> u32 {
        if !work.removed || work.len <= part.end() || old & POINTER == 0 {
            return 0;
        }
        let slot = part.slot(work.key);
        let below = part.below(slot);
        let found = work.rib.inside_from(found.0, found.1, below.prefix, below.at);
        if work.rib.longer(found.0, found.1, below.at).0 == NONE { self.child(old, part, slot) } else { 0 }
    }

    /// Retires the nodes of a window that ends after `end` bits.
    fn retire(&mut self, pointer: u32, end: u8) {
        match node::kind(pointer) {
            Kind::Value => return,
            Kind::Runs => {}
            Kind::Array => {
                if node::array_bits(pointer) + 16 == end {
                    for i in 0..256 {
                        self.retire(self.entry(pointer, i), end);
                    }
                }
            }
            Kind::Skip => {
                // One that goes further stands below the window.
                if node::skip_prefix(self.line(pointer)).1.count_ones() > u32::from(end) {
                    return;
                }
            }
        }
        self.arena.retire(pointer);
    }

    /// Retires a node and all below it.
    fn retire_all(&mut self, pointer: u32) {
        let words = match node::kind(pointer) {
            Kind::Value => return,
            Kind::Skip => INSIDE..INSIDE + 1,
            Kind::Runs => ENTRIES..LINE,
            Kind::Array => 0..256,
        };
        let mut last = 0;
        for w in words {
            let entry = self.entry(pointer, w);
            // Equal entries are one.
            if entry & POINTER != 0 && entry != last {
                self.retire_all(entry);
            }
            last = entry;
        }
        self.arena.retire(pointer);
    }
}
