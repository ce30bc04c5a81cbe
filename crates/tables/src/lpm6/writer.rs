//! The control side of the IPv6 table.

use super::arena::Arena;
use super::node::{self, Entries, RUNS, Runs, STARTS};
use super::{FULL, FULL_LINES, LINE, Lpm6, POINTER};
use crate::config::{LARGE, LpmConfig, Pages};
use crate::error::{RouteError, TableFull};
use crate::flat::ROOT;
use crate::rib::{Key, Rib};
use crate::{MAX_VALUE, MISS};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// A full node becomes small again with as few runs: fewer than fit, so that it does not go back and forth.
const SHRINK: usize = 9;
/// Entries of the root in a page, the unit in which its memory is counted.
const PAGE: usize = 4096 / 4;

/// Changes an IPv6 table. One thread owns it.
pub struct Lpm6Writer {
    shared: Arc<Lpm6>,
    rib: Rib<u128>,
    arena: Arena,
    /// Pages of the root that were written.
    touched: Vec<u64>,
    pages: usize,
    limit: usize,
    huge: Pages,
    /// Ranges of the change at hand, kept for their memory.
    gaps: Vec<(u128, u128)>,
}

/// Where an entry stands.
#[derive(Clone, Copy)]
enum Place {
    Root(usize),
    Node(usize),
}

impl Lpm6Writer {
    pub(super) fn new(shared: Arc<Lpm6>, config: LpmConfig) -> Self {
        let arena = Arena::new(shared.nodes.len());
        let mut writer = Lpm6Writer {
            shared,
            rib: Rib::new(),
            arena,
            touched: vec![0; ROOT / PAGE / 64],
            pages: 0,
            limit: 0,
            huge: config.pages,
            gaps: Vec::new(),
        };
        writer.set_limit(config.limit);
        if writer.huge == Pages::Huge {
            writer.advise();
        }
        writer
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<Lpm6> {
        &self.shared
    }

    /// Sets a route and answers the value it had. Bits of `addr` past `len` are ignored.
    pub fn insert(&mut self, addr: u128, len: u8, value: u32) -> Result<Option<u32>, RouteError> {
        if len > 128 {
            return Err(RouteError::Length(len));
        }
        if value == MISS || value > MAX_VALUE {
            return Err(RouteError::Value(value));
        }
        let key = addr.first(len);
        self.check_room(key, len)?;
        if self.huge == Pages::Auto && self.rib.len() >= LARGE {
            self.advise();
        }
        let spot = self.rib.insert(key, len, value);
        if spot.old == value {
            return Ok(Some(value));
        }
        if len == 0 {
            self.shared.default.set(value);
        } else if len <= 24 || !self.add_chain(key, len, value) {
            self.touch(key, len);
            self.collect_gaps(spot.node);
            self.paint(key, len, value);
        }
        Ok((spot.old != 0).then_some(spot.old))
    }

    /// Takes out a route and answers its value.
    pub fn remove(&mut self, addr: u128, len: u8) -> Option<u32> {
        if len > 128 {
            return None;
        }
        let key = addr.first(len);
        let spot = self.rib.find(key, len)?;
        if len == 0 {
            self.shared.default.set(MISS);
            self.rib.remove(key, len);
            return Some(spot.old);
        }
        self.collect_gaps(spot.node);
        self.rib.remove(key, len);
        if len <= 24 || !self.drop_chain(key, len, spot.cover) {
            self.paint(key, len, spot.cover);
        }
        Some(spot.old)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, addr: u128, len: u8) -> Option<u32> {
        if len > 128 {
            return None;
        }
        self.rib.find(addr.first(len), len).map(|s| s.old)
    }

    /// All routes that hold the address as (prefix, length, value), the shortest first: the last is the one in use.
    pub fn covering(&self, addr: u128) -> impl Iterator<Item = (u128, u8, u32)> + '_ {
        self.rib.covering(addr)
    }

    /// All routes as (prefix, length, value), in order of address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (u128, u8, u32)> + '_ {
        self.rib.iter()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.rib.len() == 0
    }

    /// Bytes in use, control side included; pages of the root count once they were written.
    pub fn bytes(&self) -> usize {
        self.pages * PAGE * 4 + self.arena.bytes() + self.rib.bytes()
    }

    /// Changes the most bytes the table may take; what is in it stays. Deletes may take a little more for
    /// as long as what they replace waits for its epoch.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        self.arena.retire_epoch(epoch);
    }

    /// Makes nodes taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        self.arena.reclaim(safe);
    }

    /// Nodes that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.arena.retired()
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn node_bytes(&self) -> usize {
        self.arena.bytes()
    }

    #[cfg(all(test, not(miri)))]
    pub(super) fn spare_nodes(&self) -> usize {
        self.arena.spare()
    }

    fn advise(&mut self) {
        self.shared.root.advise_huge();
        self.shared.nodes.advise_huge();
        self.huge = Pages::Small;
    }

    /// Refuses an insert that could need more than there is, before anything is changed.
    fn check_room(&self, key: u128, len: u8) -> Result<(), TableFull> {
        // The nodes down to the prefix; the one above them, or the last, may be made anew as a full one.
        let chain = usize::from(len.saturating_sub(24)).div_ceil(8);
        let nodes = if chain > 0 { self.arena.growth(chain + 1, 2) } else { 0 };
        let need = self.rib.growth() + nodes + self.new_pages(key, len) * PAGE * 4;
        let (used, max) = (self.bytes(), self.arena.max());
        let crowded = self.arena.bytes() + nodes > max;
        if (!crowded && used.saturating_add(need) <= self.limit) || self.rib.find(key, len).is_some() {
            return Ok(());
        }
        Err(TableFull { table: "IPv6 routes", used, limit: if crowded { max } else { self.limit } })
    }

    fn pages_of(key: u128, len: u8) -> std::ops::RangeInclusive<usize> {
        (key >> 104) as usize / PAGE..=(key.last(len) >> 104) as usize / PAGE
    }

    fn new_pages(&self, key: u128, len: u8) -> usize {
        if len == 0 {
            return 0;
        }
        Self::pages_of(key, len).filter(|p| self.touched[p / 64] >> (p % 64) & 1 == 0).count()
    }

    fn touch(&mut self, key: u128, len: u8) {
        for p in Self::pages_of(key, len) {
            let bit = 1 << (p % 64);
            self.pages += usize::from(self.touched[p / 64] & bit == 0);
            self.touched[p / 64] |= bit;
        }
    }

    fn collect_gaps(&mut self, node: u32) {
        let gaps = &mut self.gaps;
        gaps.clear();
        self.rib.gaps(node, |lo, hi| gaps.push((lo, hi)));
    }

    fn word(&self, place: Place) -> &AtomicU32 {
        match place {
            Place::Root(i) => &self.shared.root[i],
            Place::Node(i) => &self.shared.nodes[i],
        }
    }

    fn load(&self, place: Place) -> u32 {
        let e = self.word(place).load(Relaxed);
        match place {
            Place::Root(_) if e & POINTER != 0 => POINTER | FULL | ((e & !POINTER) * FULL_LINES as u32),
            _ => e,
        }
    }

    fn store(&self, place: Place, entry: u32) {
        let entry = match place {
            Place::Root(_) if entry & POINTER != 0 => POINTER | (node::line_of(entry) / FULL_LINES) as u32,
            _ => entry,
        };
        self.word(place).store(entry, Release);
    }

    fn line(&self, pointer: u32) -> &[AtomicU32] {
        let at = node::line_of(pointer) * LINE;
        &self.shared.nodes[at..at + if pointer & FULL != 0 { FULL_LINES * LINE } else { LINE }]
    }

    /// The place of the entry for a byte in a node.
    fn below(&self, pointer: u32, byte: u8) -> Place {
        let at = node::line_of(pointer) * LINE;
        Place::Node(if pointer & FULL != 0 {
            at + byte as usize
        } else {
            at + STARTS + node::run_of(self.line(pointer), byte)
        })
    }

    fn entries(&self, pointer: u32) -> Entries {
        let line = self.line(pointer);
        if pointer & FULL == 0 {
            return node::expand(line);
        }
        std::array::from_fn(|i| line[i].load(Relaxed))
    }

    /// A new node below the first `bits` bits, which no reader sees yet.
    fn make(&mut self, bits: u8, entries: &Entries) -> u32 {
        let runs = Runs::of(entries);
        let full = runs.count > RUNS || bits == 24;
        let pointer = self.arena.alloc(full);
        let words = runs.words(entries);
        let new: &[u32] = if full { entries } else { &words };
        for (w, &n) in self.line(pointer).iter().zip(new) {
            w.store(n, Relaxed);
        }
        pointer
    }

    /// Makes the node at `place` hold `entries`: in place, or by a new one.
    fn put(&mut self, place: Place, entries: &Entries) {
        let pointer = self.load(place);
        let runs = Runs::of(entries);
        let line = self.line(pointer);
        if pointer & FULL != 0 {
            if runs.count > SHRINK || matches!(place, Place::Root(_)) {
                return node::store(line, entries);
            }
        } else if runs.count <= RUNS {
            let words = runs.words(entries);
            if line.iter().zip(&words).take(STARTS).all(|(w, &n)| w.load(Relaxed) == n) {
                return node::store(line, &words);
            }
        }
        // Not one right below the root: those are changed in place.
        let new = self.make(32, entries);
        self.store(place, new);
        self.arena.retire(pointer);
    }

    /// Stores `value` for the gaps of a prefix, whose nodes are all there.
    fn paint(&mut self, key: u128, len: u8, value: u32) {
        let gaps = std::mem::take(&mut self.gaps);
        if len <= 24 {
            let mut todo = gaps.as_slice();
            for slot in (key >> 104) as usize..=(key.last(len) >> 104) as usize {
                let first = (slot as u128) << 104;
                let last = first.last(24);
                while todo.first().is_some_and(|g| g.1 < first) {
                    todo = &todo[1..];
                }
                match todo.first() {
                    None => break,
                    Some(g) if g.0 > last => {}
                    Some(g) if g.0 <= first && g.1 >= last => {
                        self.shared.root[slot].store(value, Release);
                    }
                    _ => self.paint_node(Place::Root(slot), first, 24, todo, value),
                }
            }
        } else {
            let (mut place, mut bits) = (Place::Root((key >> 104) as usize), 24);
            while bits + 8 < len {
                place = self.below(self.load(place), byte_at(key, bits));
                bits += 8;
            }
            self.paint_node(place, key.first(bits), bits, &gaps, value);
        }
        self.gaps = gaps;
    }

    /// `paint` within the node at `place`, whose addresses share the first `bits` bits of `base`.
    /// `gaps` are in order; those outside are passed over.
    fn paint_node(&mut self, place: Place, base: u128, bits: u8, gaps: &[(u128, u128)], value: u32) {
        let pointer = self.load(place);
        debug_assert!(pointer & POINTER != 0, "part of an entry without a node");
        let end = base.last(bits);
        // Entries wholly in a gap take the value; the others' nodes are painted first, as
        // that may change where they are.
        let mut whole = [(0u8, 0u8); 129];
        let mut n = 0;
        let mut last_child = None;
        for (i, &(lo, hi)) in gaps.iter().enumerate() {
            if lo > end {
                break;
            }
            if hi < base {
                continue;
            }
            let (lo, hi) = (lo.max(base), hi.min(end));
            let (mut a, mut b) = (u16::from(byte_at(lo, bits)), u16::from(byte_at(hi, bits)));
            let ends = [(a, lo != lo.first(bits + 8)), (b, hi != hi.last(bits + 8))];
            for (byte, part) in ends {
                if part && last_child != Some(byte) {
                    last_child = Some(byte);
                    let child = self.below(self.load(place), byte as u8);
                    let base = base | u128::from(byte) << (120 - bits);
                    self.paint_node(child, base, bits + 8, &gaps[i..], value);
                }
            }
            a += u16::from(ends[0].1);
            b = (b + 1) - u16::from(ends[1].1);
            if a < b {
                whole[n] = (a as u8, (b - 1) as u8);
                n += 1;
            }
        }
        if n > 0 {
            let mut entries = self.entries(pointer);
            for &(a, b) in &whole[..n] {
                entries[a as usize..=b as usize].fill(value);
            }
            self.put(place, &entries);
        }
    }

    /// Adds the nodes from the first that is missing down to a prefix longer than 24 bits. False if all are there.
    fn add_chain(&mut self, key: u128, len: u8, value: u32) -> bool {
        let (mut above, mut place, mut bits) = (None, Place::Root((key >> 104) as usize), 24);
        let cover = loop {
            let e = self.load(place);
            if e & POINTER == 0 {
                break e;
            }
            if bits + 8 >= len {
                return false;
            }
            above = Some(place);
            place = self.below(e, byte_at(key, bits));
            bits += 8;
        };
        // The lowest node first, so that nothing is seen before it is whole.
        let mut low = (len - 1) / 8 * 8;
        let mut entries = [cover; 256];
        entries[byte_at(key, low) as usize..=byte_at(key.last(len), low) as usize].fill(value);
        let mut node = self.make(low, &entries);
        while low > bits {
            low -= 8;
            entries = [cover; 256];
            entries[byte_at(key, low) as usize] = node;
            node = self.make(low, &entries);
        }
        self.link(above, key, bits, node);
        true
    }

    /// Takes out the nodes that only a prefix longer than 24 bits, no longer in the RIB, had needed. False if there
    /// are none.
    fn drop_chain(&mut self, key: u128, len: u8, cover: u32) -> bool {
        let needed = self.rib.shared_bits(key);
        let (mut above, mut place, mut bits) = (None, Place::Root((key >> 104) as usize), 24);
        while needed.is_some_and(|n| bits <= n) {
            if bits + 8 >= len {
                return false;
            }
            above = Some(place);
            place = self.below(self.load(place), byte_at(key, bits));
            bits += 8;
        }
        let mut pointer = self.load(place);
        self.link(above, key, bits, cover);
        loop {
            self.arena.retire(pointer);
            if bits + 8 >= len {
                return true;
            }
            pointer = self.load(self.below(pointer, byte_at(key, bits)));
            bits += 8;
        }
    }

    /// Sets the entry for the first `bits` bits of `key`, in the node at `above` or in the root.
    fn link(&mut self, above: Option<Place>, key: u128, bits: u8, entry: u32) {
        match above {
            None => {
                self.touch(key, 24);
                self.store(Place::Root((key >> 104) as usize), entry);
            }
            Some(place) => {
                let mut entries = self.entries(self.load(place));
                entries[byte_at(key, bits - 8) as usize] = entry;
                self.put(place, &entries);
            }
        }
    }
}

/// The byte of an address that follows its first `bits` bits.
fn byte_at(addr: u128, bits: u8) -> u8 {
    (addr >> (120 - bits)) as u8
}
