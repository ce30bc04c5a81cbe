//! The control side's set of prefixes: a path-compressed binary trie in one vector.
//!
//! It answers what the tables that workers read cannot: which prefixes there are, which one covers
//! another, and which addresses of a prefix belong to no longer one.

/// An address of `WIDTH` bits.
pub trait Key: Copy + Eq + Ord + std::fmt::Debug {
    const WIDTH: u8;
    const ZERO: Self;
    const MAX: Self;
    /// Bit `at` counted from the top, as an index of children.
    fn bit(self, at: u8) -> usize;
    /// The first `len` bits, the others cleared.
    fn first(self, len: u8) -> Self;
    /// The last address of the prefix of `len` bits.
    fn last(self, len: u8) -> Self;
    /// How many leading bits agree.
    fn common(self, other: Self) -> u8;
    fn next(self) -> Self;
    fn before(self) -> Self;
    /// The low 32 bits of its first `cut` bits as a number.
    fn slot(self, cut: u8) -> u32;
}

macro_rules! key {
    ($t:ty, $w:expr) => {
        impl Key for $t {
            const WIDTH: u8 = $w;
            const ZERO: Self = 0;
            const MAX: Self = <$t>::MAX;
            #[inline]
            fn bit(self, at: u8) -> usize {
                ((self >> ($w - 1 - at)) & 1) as usize
            }
            #[inline]
            fn first(self, len: u8) -> Self {
                if len == 0 { 0 } else { self & (<$t>::MAX << ($w - len)) }
            }
            #[inline]
            fn last(self, len: u8) -> Self {
                if len == 0 { <$t>::MAX } else { self | !(<$t>::MAX << ($w - len)) }
            }
            #[inline]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            #[inline]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }
            #[inline]
            fn before(self) -> Self {
                self.wrapping_sub(1)
            }
            #[inline]
            fn slot(self, cut: u8) -> u32 {
                (self >> ($w - cut)) as u32
            }
        }
    };
}
key!(u32, 32);
key!(u128, 128);

/// No node.
pub(crate) const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

/// A set of prefixes with values, as the control side of a table needs it. Values are not 0.
pub trait PrefixSet<K: Key> {
    /// No prefixes. Those up to the length `short` are short: the table keeps them apart, and longer ones do not see them.
    fn new(short: u8) -> Self;
    fn len(&self) -> usize;
    fn bytes(&self) -> usize;
    /// Bytes that an insert may add at most.
    fn growth(&self, key: K, len: u8) -> usize;
    /// Sets the value of a prefix whose host bits are clear.
    fn insert(&mut self, key: K, len: u8, value: u32) -> Spot;
    fn find(&self, key: K, len: u8) -> Option<Spot>;
    fn value_of(&self, key: K, len: u8) -> Option<u32> {
        self.find(key, len).map(|s| s.old)
    }
    /// Takes out a prefix that `find` has found.
    fn remove(&mut self, key: K, len: u8);
    /// Calls `f` with each range of addresses of a prefix, found at `spot`, that no longer prefix holds.
    /// Those of a short prefix may hold longer ones that are not short.
    fn gaps(&self, spot: Spot, key: K, len: u8, f: impl FnMut(K, K));
    /// All prefixes, in order of address and then length.
    fn iter(&self) -> impl Iterator<Item = (K, u8, u32)> + '_ {
        self.iter_from(K::ZERO)
    }
    /// Those of them whose first address is not below `from`.
    fn iter_from(&self, from: K) -> impl Iterator<Item = (K, u8, u32)> + '_;
    /// All prefixes that hold the address, the shortest first.
    fn covering(&self, key: K) -> impl Iterator<Item = (K, u8, u32)> + '_;
}

/// Calls `f` with each range of addresses of a prefix that is not in one of those that `longer` calls its argument
/// with, in order and apart.
pub(crate) fn gaps_between<K: Key>(
    key: K,
    len: u8,
    longer: impl FnOnce(&mut dyn FnMut(K, u8)),
    mut f: impl FnMut(K, K),
) {
    let end = key.last(len);
    let mut from = Some(key);
    longer(&mut |key, len| {
        if let Some(lo) = from
            && lo < key
        {
            f(lo, key.before());
        }
        let last = key.last(len);
        from = (last != K::MAX).then(|| last.next());
    });
    if let Some(lo) = from
        && lo <= end
    {
        f(lo, end);
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<K> {
    pub(crate) key: K,
    pub(crate) child: [u32; 2],
    /// 0 where the node only joins two others.
    pub(crate) value: u32,
    pub(crate) len: u8,
}

impl<K> Node<K> {
    pub(crate) fn is_leaf(&self) -> bool {
        self.child == [NONE; 2]
    }
}

/// What holds where no longer prefix does: a value and the length of its prefix. 0 when that is a short one, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cover {
    pub(crate) value: u32,
    pub(crate) len: u8,
}

/// A range of slots, as `Rib::slots` finds it. It ends where the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Counted from the first slot asked for.
    pub(crate) start: u32,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// One value in all of it.
    Value(u32),
    /// One slot with longer prefixes in it: the highest node of them, and what covers it.
    Below(u32, Cover),
}

/// Where a prefix stands, and the value of the longest shorter one over it. Of a prefix longer than the short
/// ones only others that are not short count. 0 when there is none but the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    pub(crate) node: u32,
    pub(crate) old: u32,
    pub(crate) cover: u32,
}

#[derive(Debug)]
pub struct Rib<K> {
    nodes: Vec<Node<K>>,
    free: u32,
    freed: usize,
    count: usize,
    /// Prefixes up to this length are short: the table keeps them apart, and longer ones do not see them.
    short: u8,
}

impl<K: Key> Rib<K> {
    /// The length above which prefixes cover one of this length.
    #[inline]
    fn floor(&self, len: u8) -> u8 {
        if len > self.short { self.short } else { 0 }
    }

    #[inline]
    pub(crate) fn at(&self, i: u32) -> &Node<K> {
        &self.nodes[i as usize]
    }

    #[inline]
    fn at_mut(&mut self, i: u32) -> &mut Node<K> {
        &mut self.nodes[i as usize]
    }

    fn alloc(&mut self, key: K, len: u8, value: u32) -> u32 {
        let node = Node { key, child: [NONE; 2], value, len };
        if self.free == NONE {
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let i = self.free;
        self.free = self.at(i).child[0];
        self.freed -= 1;
        *self.at_mut(i) = node;
        i
    }

    fn release(&mut self, i: u32) {
        let next = self.free;
        self.at_mut(i).child = [next, NONE];
        self.free = i;
        self.freed += 1;
    }

    /// Puts `child` in the place of `node` under `parent`.
    fn splice(&mut self, parent: u32, key: K, node: u32, child: u32) {
        let side = key.bit(self.at(parent).len);
        self.at_mut(parent).child[side] = child;
        self.release(node);
    }

    /// The highest node inside a prefix, or `NONE`, and what covers the prefix from outside.
    pub(crate) fn inside(&self, key: K, len: u8) -> (u32, Cover) {
        self.inside_from(ROOT, Cover::default(), key, len)
    }

    /// Like `inside`, from a node above the prefix (or inside it), which `cover` covers.
    pub(crate) fn inside_from(&self, node: u32, mut cover: Cover, key: K, len: u8) -> (u32, Cover) {
        let mut cur = node;
        while cur != NONE {
            let n = self.at(cur);
            if n.len >= len {
                return (if n.key.first(len) == key { cur } else { NONE }, cover);
            }
            if n.key != key.first(n.len) {
                break;
            }
            if n.value != 0 && n.len > self.short {
                cover = Cover { value: n.value, len: n.len };
            }
            cur = n.child[key.bit(n.len)];
        }
        (NONE, cover)
    }

    /// The highest node of the prefixes longer than `len` at and below a node that `inside` has found for that length,
    /// and what covers them.
    pub(crate) fn longer(&self, node: u32, cover: Cover, len: u8) -> (u32, Cover) {
        if node == NONE || self.at(node).len > len {
            return (node, cover);
        }
        let n = self.at(node);
        let cover = if n.value != 0 { Cover { value: n.value, len } } else { cover };
        match n.child {
            [only, NONE] | [NONE, only] => (only, cover),
            _ => (node, cover),
        }
    }

    /// Cuts a prefix into slots, the prefixes of `cut` bits, and adds them to `out` as runs. `node` and `cover` are
    /// what `inside` has found for the prefix. Stops when there are more than `most` runs.
    pub(crate) fn slots(
        &self,
        found: (u32, Cover),
        key: K,
        len: u8,
        cut: u8,
        most: usize,
        out: &mut Vec<Run>,
    ) {
        let mut cutter = Cutter { rib: self, base: key.slot(cut), cut, most, at: 0, out };
        let (node, cover) = found;
        if node != NONE {
            cutter.visit(node, cover);
        }
        cutter.fill(1 << (cut - len), cover.value);
    }

    /// The prefixes directly below `node` that have values, in order, up to the length `most`.
    fn maximal(&self, node: u32, most: u8, mut f: impl FnMut(K, u8)) {
        let mut stack = [0u32; 130];
        let mut depth = 0;
        for c in self.at(node).child.into_iter().rev().filter(|&c| c != NONE) {
            stack[depth] = c;
            depth += 1;
        }
        while depth > 0 {
            depth -= 1;
            let n = self.at(stack[depth]);
            if n.len > most {
                continue;
            }
            if n.value != 0 {
                f(n.key, n.len);
                continue;
            }
            for c in n.child.into_iter().rev().filter(|&c| c != NONE) {
                stack[depth] = c;
                depth += 1;
            }
        }
    }
}

impl<K: Key> PrefixSet<K> for Rib<K> {
    fn new(short: u8) -> Self {
        let root = Node { key: K::ZERO, child: [NONE; 2], value: 0, len: 0 };
        Rib { nodes: vec![root], free: NONE, freed: 0, count: 0, short }
    }

    fn len(&self) -> usize {
        self.count
    }

    fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node<K>>()
    }

    fn growth(&self, _: K, _: u8) -> usize {
        2usize.saturating_sub(self.freed) * size_of::<Node<K>>()
    }

    fn insert(&mut self, key: K, len: u8, value: u32) -> Spot {
        let (mut cur, mut cover, floor) = (ROOT, 0, self.floor(len));
        loop {
            let n = *self.at(cur);
            if n.len == len {
                self.at_mut(cur).value = value;
                self.count += usize::from(n.value == 0);
                return Spot { node: cur, old: n.value, cover };
            }
            if n.value != 0 && n.len > floor {
                cover = n.value;
            }
            let side = key.bit(n.len);
            let child = n.child[side];
            if child == NONE {
                let leaf = self.alloc(key, len, value);
                self.at_mut(cur).child[side] = leaf;
                self.count += 1;
                return Spot { node: leaf, old: 0, cover };
            }
            let c = *self.at(child);
            let common = key.common(c.key).min(c.len).min(len);
            if common == c.len {
                cur = child;
                continue;
            }
            let node = self.alloc(key, len, value);
            let top = if common == len { node } else { self.alloc(key.first(common), common, 0) };
            if top != node {
                self.at_mut(top).child[key.bit(common)] = node;
            }
            self.at_mut(top).child[c.key.bit(common)] = child;
            self.at_mut(cur).child[side] = top;
            self.count += 1;
            return Spot { node, old: 0, cover };
        }
    }

    fn find(&self, key: K, len: u8) -> Option<Spot> {
        let (mut cur, mut cover, floor) = (ROOT, 0, self.floor(len));
        loop {
            let n = self.at(cur);
            if n.len > len || n.key != key.first(n.len) {
                return None;
            }
            if n.len == len {
                return (n.value != 0).then_some(Spot { node: cur, old: n.value, cover });
            }
            if n.value != 0 && n.len > floor {
                cover = n.value;
            }
            cur = n.child[key.bit(n.len)];
            if cur == NONE {
                return None;
            }
        }
    }

    fn remove(&mut self, key: K, len: u8) {
        let (mut grand, mut parent, mut cur) = (NONE, NONE, ROOT);
        loop {
            let n = self.at(cur);
            if n.len >= len {
                break;
            }
            (grand, parent, cur) = (parent, cur, n.child[key.bit(n.len)]);
            if cur == NONE {
                return;
            }
        }
        let n = *self.at(cur);
        if n.len != len || n.key != key || n.value == 0 {
            return;
        }
        self.at_mut(cur).value = 0;
        self.count -= 1;
        if cur == ROOT {
            return;
        }
        match n.child {
            [NONE, NONE] => {
                let side = key.bit(self.at(parent).len);
                self.at_mut(parent).child[side] = NONE;
                self.release(cur);
                let p = *self.at(parent);
                let rest = p.child[1 - side];
                if parent != ROOT && p.value == 0 && rest != NONE {
                    self.splice(grand, p.key, parent, rest);
                }
            }
            [only, NONE] | [NONE, only] => self.splice(parent, key, cur, only),
            _ => {}
        }
    }

    fn gaps(&self, spot: Spot, key: K, len: u8, f: impl FnMut(K, K)) {
        let most = if (1..=self.short).contains(&len) { self.short } else { K::WIDTH };
        gaps_between(key, len, |longer| self.maximal(spot.node, most, longer), f);
    }

    fn iter_from(&self, from: K) -> impl Iterator<Item = (K, u8, u32)> + '_ {
        let mut stack = vec![ROOT];
        std::iter::from_fn(move || {
            while let Some(i) = stack.pop() {
                let n = self.at(i);
                if n.key.last(n.len) < from {
                    continue;
                }
                stack.extend(n.child.into_iter().rev().filter(|&c| c != NONE));
                if n.value != 0 && n.key >= from {
                    return Some((n.key, n.len, n.value));
                }
            }
            None
        })
    }

    fn covering(&self, key: K) -> impl Iterator<Item = (K, u8, u32)> + '_ {
        let mut cur = ROOT;
        std::iter::from_fn(move || {
            while cur != NONE {
                let n = self.at(cur);
                if n.key != key.first(n.len) {
                    break;
                }
                cur = if n.len < K::WIDTH { n.child[key.bit(n.len)] } else { NONE };
                if n.value != 0 {
                    return Some((n.key, n.len, n.value));
                }
            }
            cur = NONE;
            None
        })
    }
}

struct Cutter<'a, K> {
    rib: &'a Rib<K>,
    base: u32,
    cut: u8,
    most: usize,
    /// The first slot that no run holds yet.
    at: u32,
    out: &'a mut Vec<Run>,
}

impl<K: Key> Cutter<'_, K> {
    /// Everything up to `end` that is not yet in a run has this value.
    fn fill(&mut self, end: u32, value: u32) {
        if self.at >= end {
            return;
        }
        let what = What::Value(value);
        if self.out.last().is_none_or(|r| r.what != what) {
            self.out.push(Run { start: self.at, what });
        }
        self.at = end;
    }

    fn visit(&mut self, node: u32, cover: Cover) {
        if self.out.len() > self.most {
            return;
        }
        let n = self.rib.at(node);
        let start = n.key.slot(self.cut).wrapping_sub(self.base);
        self.fill(start, cover.value);
        if n.len > self.cut || (n.len == self.cut && !n.is_leaf()) {
            self.out.push(Run { start, what: What::Below(node, cover) });
            self.at = start + 1;
            return;
        }
        let inner =
            if n.value != 0 && n.len > self.rib.short { Cover { value: n.value, len: n.len } } else { cover };
        for c in n.child {
            if c != NONE {
                self.visit(c, inner);
            }
        }
        self.fill(start + (1 << (self.cut - n.len)), inner.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(miri))]
    use crate::rib4::Rib4;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn holds(p: (u32, u8), q: (u32, u8)) -> bool {
        p.1 <= q.1 && q.0.first(p.1) == p.0
    }

    type Ops = Vec<(u8, u32, u8, u32)>;

    fn agrees<S: PrefixSet<u32>>(short: u8, ops: Ops) -> Result<S, TestCaseError> {
        let mut rib = S::new(short);
        let mut map: BTreeMap<(u32, u8), u32> = BTreeMap::new();
        for (op, addr, len, value) in ops {
            // Few addresses, so that prefixes nest and meet again.
            let key = (addr & 0xc301_0183).first(len);
            let at = rib.find(key, len);
            prop_assert_eq!(at.map(|s| s.old), map.get(&(key, len)).copied());
            prop_assert_eq!(rib.value_of(key, len), map.get(&(key, len)).copied());
            let floor = if len > short { short } else { 0 };
            let over = |p: (u32, u8)| p.1 > floor && p.1 < len && holds(p, (key, len));
            let cover = map.iter().filter(|(p, _)| over(**p)).max_by_key(|(p, _)| p.1).map_or(0, |(_, v)| *v);
            if op == 0 {
                if let Some(s) = at {
                    prop_assert_eq!(s.cover, cover);
                }
                rib.remove(key, len);
                map.remove(&(key, len));
            } else {
                let growth = rib.growth(key, len);
                let before = rib.bytes();
                let s = rib.insert(key, len, value);
                prop_assert!(
                    rib.bytes() <= before + growth || short == 0,
                    "{} {} {}",
                    before,
                    growth,
                    rib.bytes()
                );
                prop_assert_eq!(s.cover, cover);
                prop_assert_eq!(s.old, map.insert((key, len), value).unwrap_or(0));
                let mut free = Vec::new();
                rib.gaps(s, key, len, |lo, hi| free.push((lo, hi)));
                let most = if (1..=short).contains(&len) { short } else { 32 };
                for probe in
                    [0, 1, 3, 0x80, 0x100, 0x0001_0000, 0x0100_0000, 0x0200_0002].map(|bits| key | bits)
                {
                    if probe.first(len) != key {
                        continue;
                    }
                    let own = !map.keys().any(|p| p.1 > len && p.1 <= most && probe.first(p.1) == p.0);
                    prop_assert_eq!(free.iter().any(|&(lo, hi)| (lo..=hi).contains(&probe)), own);
                }
            }
            prop_assert_eq!(rib.len(), map.len());
        }
        let all: Vec<_> = rib.iter().collect();
        let want: Vec<_> = map.iter().map(|(p, v)| (p.0, p.1, *v)).collect();
        prop_assert_eq!(&all, &want);
        for (key, _) in map.keys() {
            let got: Vec<_> = rib.covering(*key).map(|p| p.1).collect();
            let mut want: Vec<_> = map.keys().filter(|p| key.first(p.1) == p.0).map(|p| p.1).collect();
            want.sort();
            prop_assert_eq!(got, want);
            for from in [*key, key.saturating_sub(1), key.saturating_add(1)] {
                let rest: Vec<_> = rib.iter_from(from).collect();
                let want: Vec<_> = all.iter().copied().filter(|p| p.0 >= from).collect();
                prop_assert_eq!(rest, want);
            }
        }
        Ok(rib)
    }

    fn ops() -> impl Strategy<Value = Ops> {
        prop::collection::vec((0u8..4, any::<u32>(), 0u8..=32, 1u32..9), 1..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
        #[test]
        fn a_trie_agrees_with_a_map(ops in ops(), short in prop::sample::select(vec![0, 12])) {
            let rib = agrees::<Rib<u32>>(short, ops)?;
            let joints = rib.nodes.len() - rib.freed;
            prop_assert!(joints <= 2 * rib.len() + 1, "{} nodes for {} prefixes", joints, rib.len());
        }

        #[test]
        #[cfg(not(miri))]
        fn trees_agree_with_a_map(ops in ops(), short in prop::sample::select(vec![0, 12])) {
            let mut rib = agrees::<Rib4>(short, ops)?;
            let all: Vec<_> = rib.iter().collect();
            for (key, len, _) in all {
                rib.remove(key, len);
            }
            let empty = rib.bytes();
            prop_assert!(rib.is_empty(), "{} bytes", empty);
        }
    }
}
