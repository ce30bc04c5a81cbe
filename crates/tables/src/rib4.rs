//! The control side's set of IPv4 prefixes: three levels of complete binary trees of bits.
//!
//! A tree of `n` levels holds a bit for each prefix of 0 to `n` bits: that of number `1 << len | bits`, so that the children of `i`
//! are `2 * i` and `2 * i + 1`. Prefixes of up to 15 bits stand in one tree with a value at each place. Those of 16 to 24 bits
//! with the same first 16 stand in a tree of their own, as do those of 25 to 32 bits with the same first 24; these
//! keep the values of the prefixes that are there side by side. A change reads three or four cache lines, where a trie of
//! nodes takes one for each of its last levels, and moves at most 256 neighbors: no table of all trees is ever made larger.

use crate::rib::{Key, PrefixSet, Spot, gaps_between};

/// A tree of 9 levels below a prefix of 16 or 24 bits.
#[derive(Default)]
struct Tree {
    bits: [u64; 8],
    /// The values of the bits that are set, in order.
    values: Vec<u32>,
}

impl Tree {
    fn has(&self, i: usize) -> bool {
        self.bits[i / 64] >> (i % 64) & 1 == 1
    }

    /// How many bits before `i` are set.
    fn rank(&self, i: usize) -> usize {
        let below: u32 = self.bits[..i / 64].iter().map(|w| w.count_ones()).sum();
        (below + (self.bits[i / 64] & !(u64::MAX << (i % 64))).count_ones()) as usize
    }

    fn get(&self, i: usize) -> u32 {
        if self.has(i) { self.values.get(self.rank(i)).copied().unwrap_or(0) } else { 0 }
    }

    /// Sets a value that is not 0, and answers the one before.
    fn set(&mut self, i: usize, value: u32) -> u32 {
        let at = self.rank(i);
        if self.has(i) {
            return std::mem::replace(&mut self.values[at], value);
        }
        self.bits[i / 64] |= 1 << (i % 64);
        if self.values.len() == self.values.capacity() {
            // By a quarter: most trees are small and there are many.
            self.values.reserve_exact(4 + self.values.len() / 4);
        }
        self.values.insert(at, value);
        0
    }

    fn clear(&mut self, i: usize) {
        if self.has(i) {
            self.values.remove(self.rank(i));
            self.bits[i / 64] &= !(1 << (i % 64));
            if self.values.capacity() > 2 * self.values.len() + 8 {
                self.values.shrink_to(self.values.len() + 4);
            }
        }
    }

    /// The value of the nearest place above `i`.
    fn above(&self, i: usize) -> u32 {
        std::iter::successors(Some(i / 2), |i| Some(i / 2))
            .take_while(|&i| i > 0)
            .map(|i| self.get(i))
            .find(|&v| v != 0)
            .unwrap_or(0)
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Beside its own size.
    fn bytes(&self) -> usize {
        self.values.capacity() * 4
    }
}

/// A tree below a prefix of 16 bits, with those below its prefixes of 24 bits.
#[derive(Default)]
struct Middle {
    tree: Tree,
    /// The prefixes of 24 bits below which there is a tree.
    deeper: [u64; 4],
    /// These, in order.
    deep: Vec<Tree>,
}

impl Middle {
    /// Where the tree below a prefix of 24 bits is, or would be.
    fn rank(&self, key: u32) -> (bool, usize) {
        let slot = (key >> 8 & 0xff) as usize;
        let below: u32 = self.deeper[..slot / 64].iter().map(|w| w.count_ones()).sum();
        let word = self.deeper[slot / 64];
        let at = below + (word & !(u64::MAX << (slot % 64))).count_ones();
        (word >> (slot % 64) & 1 == 1, at as usize)
    }

    fn flip(&mut self, key: u32) {
        let slot = (key >> 8 & 0xff) as usize;
        self.deeper[slot / 64] ^= 1 << (slot % 64);
    }

    fn deep(&self, key: u32) -> Option<&Tree> {
        match self.rank(key) {
            (true, at) => self.deep.get(at),
            (false, _) => None,
        }
    }

    /// The tree below a prefix of 24 bits, made where there is none.
    fn make_deep(&mut self, key: u32) -> &mut Tree {
        let (has, at) = self.rank(key);
        if !has {
            if self.deep.len() == self.deep.capacity() {
                self.deep.reserve_exact(4 + self.deep.len() / 4);
            }
            self.deep.insert(at, Tree::default());
            self.flip(key);
        }
        &mut self.deep[at]
    }

    /// Takes a prefix out of the tree below one of 24 bits, and the tree if that was the last.
    fn clear_deep(&mut self, key: u32, i: usize) {
        let (true, at) = self.rank(key) else { return };
        let Some(tree) = self.deep.get_mut(at) else { return };
        tree.clear(i);
        if tree.is_empty() {
            self.deep.remove(at);
            self.flip(key);
            if self.deep.capacity() > 2 * self.deep.len() + 8 {
                self.deep.shrink_to(self.deep.len() + 4);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.tree.is_empty() && self.deep.is_empty()
    }

    /// Beside those of the trees below.
    fn bytes(&self) -> usize {
        size_of::<Middle>() + self.tree.bytes() + self.deep.capacity() * size_of::<Tree>()
    }
}

/// Bytes of a tree below 24 bits beside its own size.
fn deep_bytes(tree: Option<&Tree>) -> usize {
    tree.map_or(0, Tree::bytes)
}

/// Lengths at which trees start.
const MIDDLE: u8 = 16;
const DEEP: u8 = 24;

pub struct Rib4 {
    /// Values of prefixes shorter than `MIDDLE`, by their number in the tree.
    top: Vec<u32>,
    middle: Vec<Option<Box<Middle>>>,
    bytes: usize,
    count: usize,
    short: u8,
}

/// The number of a prefix in a tree that starts at a length.
fn place(key: u32, len: u8, start: u8) -> usize {
    let bits = key.checked_shr(32 - u32::from(len)).unwrap_or(0) as usize;
    1 << (len - start) | bits & ((1 << (len - start)) - 1)
}

/// The prefix at a number in a tree below one of `start` bits.
fn prefix(base: u32, start: u8, i: usize) -> (u32, u8) {
    let level = i.ilog2() as u8;
    let bits = (i - (1 << level)) as u32;
    (base | bits.checked_shl(32 - u32::from(start + level)).unwrap_or(0), start + level)
}

impl Rib4 {
    /// Whether nothing is left but the arrays for all.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn is_empty(&self) -> bool {
        let no_trees = self.middle.iter().all(|t| t.is_none());
        self.count == 0 && self.bytes == 0 && no_trees && self.top.iter().all(|&v| v == 0)
    }

    fn tree(&self, key: u32, len: u8) -> Option<&Tree> {
        let middle = self.middle(key)?;
        if len <= DEEP { Some(&middle.tree) } else { middle.deep(key) }
    }

    fn middle(&self, key: u32) -> Option<&Middle> {
        self.middle.get((key >> 16) as usize)?.as_deref()
    }

    /// The value of a prefix; 0 if there is none.
    fn value(&self, key: u32, len: u8) -> u32 {
        match len {
            ..MIDDLE => self.top.get(place(key, len, 0)).copied().unwrap_or(0),
            MIDDLE..=DEEP => self.tree(key, len).map_or(0, |t| t.get(place(key, len, MIDDLE))),
            _ => self.tree(key, len).map_or(0, |t| t.get(place(key, len, DEEP))),
        }
    }

    /// The value of the longest prefix over one, among those it sees.
    fn cover(&self, key: u32, len: u8) -> u32 {
        let floor = if len > self.short { self.short } else { 0 };
        if len > DEEP {
            let deep = self.tree(key, len).map_or(0, |t| t.above(place(key, len, DEEP)));
            if deep != 0 {
                return deep;
            }
        }
        if len > MIDDLE
            && let Some(t) = self.tree(key, DEEP)
        {
            let i = if len > DEEP { 2 * place(key, DEEP, MIDDLE) } else { place(key, len, MIDDLE) };
            let middle = t.above(i);
            if middle != 0 {
                return middle;
            }
        }
        (floor + 1..len.min(MIDDLE)).rev().map(|l| self.value(key.first(l), l)).find(|&v| v != 0).unwrap_or(0)
    }

    /// Calls `f` with the highest prefixes at or below a number of a tree, down to `most` bits.
    fn highest_in(&self, tree: &Tree, base: u32, start: u8, i: usize, most: u8, f: &mut impl FnMut(u32, u8)) {
        let (key, len) = prefix(base, start, i);
        if len > most {
            return;
        }
        if tree.has(i) {
            return f(key, len);
        }
        if len == start + 8 {
            if start == MIDDLE {
                self.highest_below(key, len, most, f);
            }
            return;
        }
        self.highest_in(tree, base, start, 2 * i, most, f);
        self.highest_in(tree, base, start, 2 * i + 1, most, f);
    }

    fn highest_in_top(&self, key: u32, len: u8, most: u8, f: &mut impl FnMut(u32, u8)) {
        if len > most {
            return;
        }
        if len == MIDDLE {
            if let Some(tree) = self.tree(key, len) {
                self.highest_in(tree, key, MIDDLE, 1, most, f);
            }
            return;
        }
        if self.top.get(place(key, len, 0)).is_some_and(|&v| v != 0) {
            return f(key, len);
        }
        self.highest_in_top(key, len + 1, most, f);
        self.highest_in_top(key | 1 << (31 - len), len + 1, most, f);
    }

    /// Calls `f` with the highest of the prefixes longer than one and inside it, in order, up to `most` bits.
    fn highest_below(&self, key: u32, len: u8, most: u8, f: &mut impl FnMut(u32, u8)) {
        if len < MIDDLE {
            self.highest_in_top(key, len + 1, most, f);
            return self.highest_in_top(key | 1 << (31 - len), len + 1, most, f);
        }
        let start = if len < DEEP { MIDDLE } else { DEEP };
        let (Some(tree), true) = (self.tree(key, len + 1), len < 32) else { return };
        let (base, i) = (key.first(start), place(key, len, start));
        self.highest_in(tree, base, start, 2 * i, most, f);
        self.highest_in(tree, base, start, 2 * i + 1, most, f);
    }

    /// Adds what is at or below a number of a tree, in order.
    fn collect(&self, tree: &Tree, base: u32, start: u8, i: usize, out: &mut Vec<(u32, u8, u32)>) {
        let (key, len) = prefix(base, start, i);
        if tree.has(i) {
            out.push((key, len, tree.get(i)));
        }
        if len < start + 8 {
            self.collect(tree, base, start, 2 * i, out);
            self.collect(tree, base, start, 2 * i + 1, out);
        } else if start == MIDDLE
            && let Some(deep) = self.tree(key, 32)
        {
            self.collect(deep, key, DEEP, 1, out);
        }
    }
}

impl PrefixSet<u32> for Rib4 {
    fn new(short: u8) -> Self {
        Rib4 { top: Vec::new(), middle: Vec::new(), bytes: 0, count: 0, short }
    }

    fn len(&self) -> usize {
        self.count
    }

    fn bytes(&self) -> usize {
        self.bytes + self.top.capacity() * 4 + self.middle.capacity() * 8
    }

    fn growth(&self, key: u32, len: u8) -> usize {
        if len < MIDDLE {
            return if self.top.is_empty() { 4 << MIDDLE } else { 0 };
        }
        let index = if self.middle.is_empty() { 8 << MIDDLE } else { 0 };
        let values = 4 * self.tree(key, len).map_or(4, |t| 4 + t.values.len() / 4);
        let others = self.middle(key).map_or(4, |m| 4 + m.deep.len() / 4);
        let below = if len > DEEP { size_of::<Tree>() * others } else { 0 };
        index + size_of::<Middle>() + values + below
    }

    fn insert(&mut self, key: u32, len: u8, value: u32) -> Spot {
        let cover = self.cover(key, len);
        if len < MIDDLE && self.top.is_empty() {
            self.top = vec![0; 1 << MIDDLE];
        }
        if len >= MIDDLE && self.middle.is_empty() {
            self.middle.resize_with(1 << MIDDLE, || None);
        }
        let old = if len < MIDDLE {
            std::mem::replace(&mut self.top[place(key, len, 0)], value)
        } else {
            let place_of = &mut self.middle[(key >> 16) as usize];
            let bytes = |m: &Middle| m.bytes() + if len > DEEP { deep_bytes(m.deep(key)) } else { 0 };
            let before = place_of.as_deref().map_or(0, bytes);
            let middle = place_of.get_or_insert_default();
            let old = if len <= DEEP {
                middle.tree.set(place(key, len, MIDDLE), value)
            } else {
                middle.make_deep(key).set(place(key, len, DEEP), value)
            };
            self.bytes += bytes(middle) - before;
            old
        };
        self.count += usize::from(old == 0);
        Spot { node: 0, old, cover }
    }

    fn find(&self, key: u32, len: u8) -> Option<Spot> {
        let old = self.value(key, len);
        (old != 0).then(|| Spot { node: 0, old, cover: self.cover(key, len) })
    }

    fn value_of(&self, key: u32, len: u8) -> Option<u32> {
        Some(self.value(key, len)).filter(|&v| v != 0)
    }

    fn remove(&mut self, key: u32, len: u8) {
        if self.value(key, len) == 0 {
            return;
        }
        self.count -= 1;
        if len < MIDDLE {
            self.top[place(key, len, 0)] = 0;
            return;
        }
        let Some(place_of) = self.middle.get_mut((key >> 16) as usize) else { return };
        let Some(middle) = place_of else { return };
        let bytes = |m: &Middle| m.bytes() + if len > DEEP { deep_bytes(m.deep(key)) } else { 0 };
        self.bytes -= bytes(middle);
        if len <= DEEP {
            middle.tree.clear(place(key, len, MIDDLE));
        } else {
            middle.clear_deep(key, place(key, len, DEEP));
        }
        self.bytes += bytes(middle);
        if middle.is_empty() {
            self.bytes -= middle.bytes();
            *place_of = None;
        }
    }

    fn gaps(&self, _: Spot, key: u32, len: u8, f: impl FnMut(u32, u32)) {
        let most = if (1..=self.short).contains(&len) { self.short } else { 32 };
        gaps_between(key, len, |longer| self.highest_below(key, len, most, &mut |k, l| longer(k, l)), f);
    }

    fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, u8, u32)> + '_ {
        let mut list = Vec::new();
        (from >> 16..1u32 << MIDDLE).flat_map(move |i| {
            list.clear();
            let key = i << 16;
            // Shorter ones that start here.
            for len in (MIDDLE - (i.trailing_zeros() as u8).min(MIDDLE))..MIDDLE {
                let value = self.value(key, len);
                if value != 0 {
                    list.push((key, len, value));
                }
            }
            if let Some(Some(tree)) = self.middle.get(i as usize) {
                self.collect(&tree.tree, key, MIDDLE, 1, &mut list);
            }
            list.retain(|p| p.0 >= from);
            std::mem::take(&mut list)
        })
    }

    fn covering(&self, key: u32) -> impl Iterator<Item = (u32, u8, u32)> + '_ {
        (0..=32).map(move |len| (key.first(len), len, self.value(key.first(len), len))).filter(|p| p.2 != 0)
    }
}
