//! The control side's set of prefixes: a path-compressed binary trie in one vector.
//!
//! It answers what the tables that workers read cannot: which prefixes there are, which one covers
//! another, and which addresses of a prefix belong to no longer one.

/// An address of `WIDTH` bits.
pub(crate) trait Key: Copy + Eq + Ord + std::fmt::Debug {
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
        }
    };
}
key!(u32, 32);
key!(u128, 128);

const NONE: u32 = u32::MAX;
const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy)]
struct Node<K> {
    key: K,
    child: [u32; 2],
    /// 0 where the node only joins two others.
    value: u32,
    len: u8,
}

/// Where a prefix stands, and the value of the longest shorter one over it (0 when that is
/// none but the default).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) node: u32,
    pub(crate) old: u32,
    pub(crate) cover: u32,
}

#[derive(Debug)]
pub(crate) struct Rib<K> {
    nodes: Vec<Node<K>>,
    free: u32,
    freed: usize,
    count: usize,
}

impl<K: Key> Rib<K> {
    pub(crate) fn new() -> Self {
        let root = Node { key: K::ZERO, child: [NONE; 2], value: 0, len: 0 };
        Rib { nodes: vec![root], free: NONE, freed: 0, count: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Bytes its nodes take; it grows by at most two nodes an insert.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node<K>>()
    }

    /// Bytes that an insert may add at most.
    pub(crate) fn growth(&self) -> usize {
        2usize.saturating_sub(self.freed) * size_of::<Node<K>>()
    }

    #[inline]
    fn at(&self, i: u32) -> &Node<K> {
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

    /// Sets the value of a prefix whose host bits are clear; `value` is not 0.
    pub(crate) fn insert(&mut self, key: K, len: u8, value: u32) -> Spot {
        let (mut cur, mut cover) = (ROOT, 0);
        loop {
            let n = *self.at(cur);
            if n.len == len {
                self.at_mut(cur).value = value;
                self.count += usize::from(n.value == 0);
                return Spot { node: cur, old: n.value, cover };
            }
            if n.value != 0 && cur != ROOT {
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

    /// Finds a prefix that has a value.
    pub(crate) fn find(&self, key: K, len: u8) -> Option<Spot> {
        let (mut cur, mut cover) = (ROOT, 0);
        loop {
            let n = self.at(cur);
            if n.len > len || n.key != key.first(n.len) {
                return None;
            }
            if n.len == len {
                return (n.value != 0).then_some(Spot { node: cur, old: n.value, cover });
            }
            if n.value != 0 && cur != ROOT {
                cover = n.value;
            }
            cur = n.child[key.bit(n.len)];
            if cur == NONE {
                return None;
            }
        }
    }

    /// Takes out a prefix that `find` has found.
    pub(crate) fn remove(&mut self, key: K, len: u8) {
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

    /// Puts `child` in the place of `node` under `parent`.
    fn splice(&mut self, parent: u32, key: K, node: u32, child: u32) {
        let side = key.bit(self.at(parent).len);
        self.at_mut(parent).child[side] = child;
        self.release(node);
    }

    /// The most leading bits of the address that a longer prefix shares; `None` if there is none but the default.
    pub(crate) fn shared_bits(&self, key: K) -> Option<u8> {
        let (mut cur, mut most) = (ROOT, None);
        loop {
            let n = self.at(cur);
            let other = n.child[1 - key.bit(n.len.min(K::WIDTH - 1))];
            if n.len < K::WIDTH && other != NONE {
                most = Some(n.len);
            }
            if n.value != 0 && n.len > 0 {
                most = most.max(Some(n.len - 1));
            }
            if n.len == K::WIDTH {
                return most;
            }
            let child = n.child[key.bit(n.len)];
            if child == NONE {
                return most;
            }
            let c = self.at(child);
            let common = key.common(c.key).min(c.len);
            if common < c.len {
                return most.max(Some(common));
            }
            cur = child;
        }
    }

    /// Calls `f` with each range of addresses of `node`'s prefix that no longer prefix holds.
    pub(crate) fn gaps(&self, node: u32, mut f: impl FnMut(K, K)) {
        let top = self.at(node);
        let end = top.key.last(top.len);
        let mut from = Some(top.key);
        self.maximal(node, |key, len| {
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

    /// The prefixes directly below `node` that have values, in order.
    fn maximal(&self, node: u32, mut f: impl FnMut(K, u8)) {
        let mut stack = [0u32; 130];
        let mut depth = 0;
        for c in self.at(node).child.into_iter().rev().filter(|&c| c != NONE) {
            stack[depth] = c;
            depth += 1;
        }
        while depth > 0 {
            depth -= 1;
            let n = self.at(stack[depth]);
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

    /// All prefixes with values, in order of address and then length.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, u8, u32)> + '_ {
        let mut stack = vec![ROOT];
        std::iter::from_fn(move || {
            while let Some(i) = stack.pop() {
                let n = self.at(i);
                stack.extend(n.child.into_iter().rev().filter(|&c| c != NONE));
                if n.value != 0 {
                    return Some((n.key, n.len, n.value));
                }
            }
            None
        })
    }

    /// All prefixes with values that hold the address, the shortest first.
    pub(crate) fn covering(&self, key: K) -> impl Iterator<Item = (K, u8, u32)> + '_ {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn holds(p: (u32, u8), q: (u32, u8)) -> bool {
        p.1 <= q.1 && q.0.first(p.1) == p.0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec((0u8..4, any::<u32>(), 0u8..=32, 1u32..9), 1..200)) {
            let mut rib = Rib::<u32>::new();
            let mut map: BTreeMap<(u32, u8), u32> = BTreeMap::new();
            for (op, addr, len, value) in ops {
                // Few addresses, so that prefixes nest and meet again.
                let key = (addr & 0xc300_0003).first(len);
                let at = rib.find(key, len);
                prop_assert_eq!(at.map(|s| s.old), map.get(&(key, len)).copied());
                let cover = map.iter().rev().filter(|(p, _)| p.1 > 0 && p.1 < len && holds(**p, (key, len)))
                    .max_by_key(|(p, _)| p.1).map_or(0, |(_, v)| *v);
                if op == 0 {
                    if let Some(s) = at { prop_assert_eq!(s.cover, cover); }
                    rib.remove(key, len);
                    map.remove(&(key, len));
                } else {
                    let s = rib.insert(key, len, value);
                    prop_assert_eq!(s.cover, cover);
                    prop_assert_eq!(s.old, map.insert((key, len), value).unwrap_or(0));
                    let mut free = Vec::new();
                    rib.gaps(s.node, |lo, hi| free.push((lo, hi)));
                    for probe in [key, key.last(len), key | 1, key | 3, key | 0x0100_0000, key | 0x0200_0002] {
                        if probe.first(len) != key { continue; }
                        let own = !map.keys().any(|p| p.1 > len && probe.first(p.1) == p.0);
                        prop_assert_eq!(free.iter().any(|&(lo, hi)| (lo..=hi).contains(&probe)), own);
                    }
                }
                prop_assert_eq!(rib.len(), map.len());
            }
            for key in [0, 3, 0x8000_0000, 0xc300_0002] {
                let shares = |b: &u8| map.keys().any(|p| p.1 > *b && p.0.common(key) >= *b);
                prop_assert_eq!(rib.shared_bits(key), (0..32).rfind(shares));
            }
            let all: Vec<_> = rib.iter().collect();
            let want: Vec<_> = map.iter().map(|(p, v)| (p.0, p.1, *v)).collect();
            prop_assert_eq!(all, want);
            for (key, _) in map.keys() {
                let got: Vec<_> = rib.covering(*key).map(|p| p.1).collect();
                let mut want: Vec<_> = map.keys().filter(|p| key.first(p.1) == p.0).map(|p| p.1).collect();
                want.sort();
                prop_assert_eq!(got, want);
            }
            let joints = rib.nodes.len() - rib.freed;
            prop_assert!(joints <= 2 * rib.len() + 1, "{} nodes for {} prefixes", joints, rib.len());
        }
    }
}
