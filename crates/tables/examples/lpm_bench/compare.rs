//! Other structures for longest-prefix match, built once from a list of prefixes and read only, to be compared with ours:
//! Poptrie (Asai and Ohara, SIGCOMM 2015) and DXR (Zec, Rizzo, Mikuc, CCR 2012).

/// A binary trie of addresses that start at the top bit of a `u128`.
pub(crate) struct Trie {
    nodes: Vec<([u32; 2], u32)>,
}

impl Trie {
    pub(crate) fn new(prefixes: impl Iterator<Item = (u128, u8, u32)>) -> Trie {
        let mut trie = Trie { nodes: vec![([0; 2], 0)] };
        for (address, len, value) in prefixes {
            let mut at = 0;
            for bit in 0..len {
                let side = (address >> (127 - bit)) as usize & 1;
                if trie.nodes[at].0[side] == 0 {
                    trie.nodes[at].0[side] = trie.nodes.len() as u32;
                    trie.nodes.push(([0; 2], 0));
                }
                at = trie.nodes[at].0[side] as usize;
            }
            trie.nodes[at].1 = value;
        }
        trie
    }

    /// Calls `f` with all prefixes of `bits` bits below a node in order: the node there, 0 if there is nothing longer, and
    /// what covers it.
    fn slots(&self, node: u32, bits: u32, cover: u32, first: bool, f: &mut impl FnMut(u32, u32)) {
        if node == 0 && !first {
            (0..1u64 << bits).for_each(|_| f(0, cover));
            return;
        }
        let (child, value) = self.nodes[node as usize];
        let cover = if value != 0 { value } else { cover };
        if bits == 0 {
            return f(if child == [0; 2] { 0 } else { node }, cover);
        }
        self.slots(child[0], bits - 1, cover, false, f);
        self.slots(child[1], bits - 1, cover, false, f);
    }
}

const LEAF: u32 = 1 << 31;

#[derive(Clone, Copy, Default)]
struct Node {
    vector: u64,
    leaves: u64,
    first_leaf: u32,
    first_node: u32,
}

pub(crate) struct Poptrie {
    bits: u32,
    root: Vec<u32>,
    nodes: Vec<Node>,
    leaves: Vec<u32>,
}

impl Poptrie {
    pub(crate) fn new(trie: &Trie, bits: u32) -> Poptrie {
        let mut p = Poptrie { bits, root: Vec::new(), nodes: Vec::new(), leaves: Vec::new() };
        let mut below = Vec::new();
        trie.slots(0, bits, 0, true, &mut |node, cover| {
            let entry = if node == 0 { LEAF | cover } else { below.len() as u32 };
            if node != 0 {
                below.push((node, cover));
            }
            p.root.push(entry);
        });
        p.nodes.resize(below.len(), Node::default());
        for (i, (node, cover)) in below.into_iter().enumerate() {
            p.fill(trie, i, node, cover);
        }
        p
    }

    fn fill(&mut self, trie: &Trie, at: usize, node: u32, cover: u32) {
        let (mut slot, mut last) = (0, None);
        let mut made = Node { first_leaf: self.leaves.len() as u32, ..Node::default() };
        let mut below = Vec::new();
        let leaves = &mut self.leaves;
        trie.slots(node, 6, cover, true, &mut |node, cover| {
            if node != 0 {
                made.vector |= 1 << slot;
                below.push((node, cover));
            } else if last != Some(cover) {
                made.leaves |= 1 << slot;
                leaves.push(cover);
                last = Some(cover);
            }
            slot += 1;
        });
        made.first_node = self.nodes.len() as u32;
        self.nodes.resize(self.nodes.len() + below.len(), Node::default());
        self.nodes[at] = made;
        for (i, (node, cover)) in below.into_iter().enumerate() {
            self.fill(trie, made.first_node as usize + i, node, cover);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.root.len() * 4 + self.nodes.len() * size_of::<Node>() + self.leaves.len() * 4
    }

    /// One step from a node by six bits of the key: a node, or a leaf's place with the top bit set.
    #[inline(always)]
    fn step(&self, node: u32, six: u32) -> u32 {
        // SAFETY: nodes were numbered when they were made.
        let n = unsafe { self.nodes.get_unchecked(node as usize) };
        let low = u64::MAX >> (63 - six);
        if n.vector >> six & 1 == 1 {
            n.first_node + (n.vector & low).count_ones() - 1
        } else {
            LEAF | (n.first_leaf + (n.leaves & low).count_ones() - 1)
        }
    }

    #[inline(always)]
    fn leaf(&self, entry: u32) -> u32 {
        // SAFETY: as above.
        unsafe { *self.leaves.get_unchecked((entry & !LEAF) as usize) }
    }

    /// # Safety
    /// The processor has POPCNT.
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    pub(crate) unsafe fn one_by_one<K: Copy>(&self, keys: &[K], out: &mut [u32], wide: impl Fn(K) -> u128) {
        for (&k, o) in keys.iter().zip(out) {
            let k = wide(k);
            let mut e = self.root[(k >> (128 - self.bits)) as usize];
            if e & LEAF != 0 {
                *o = e & !LEAF;
                continue;
            }
            let mut rest = k << self.bits;
            while e & LEAF == 0 {
                e = self.step(e, (rest >> 122) as u32);
                rest <<= 6;
            }
            *o = self.leaf(e);
        }
    }

    /// All keys at one level before the next, with the next nodes on their way.
    ///
    /// # Safety
    /// The processor has POPCNT.
    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    pub(crate) unsafe fn in_step<K: Copy>(&self, keys: &[K], out: &mut [u32], wide: impl Fn(K) -> u128) {
        let mut way = [0u32; 256];
        let mut left = 0;
        for &k in keys {
            fetch(&self.root, (wide(k) >> (128 - self.bits)) as usize);
        }
        for (i, (&k, o)) in keys.iter().zip(out.iter_mut()).enumerate() {
            let e = self.root[(wide(k) >> (128 - self.bits)) as usize];
            *o = e & !LEAF;
            way[left & 255] = i as u32;
            left += usize::from(e & LEAF == 0);
            fetch(&self.nodes, (e & !LEAF) as usize);
        }
        let mut at = self.bits;
        let mut ends = [0u32; 256];
        let mut ended = 0;
        while left > 0 {
            let n = left;
            left = 0;
            for j in 0..n {
                let i = way[j & 255] as usize;
                let e = self.step(out[i], (wide(keys[i]) << at >> 122) as u32);
                out[i] = e & !LEAF;
                let leaf = e & LEAF != 0;
                ends[ended & 255] = i as u32;
                ended += usize::from(leaf);
                way[left & 255] = i as u32;
                left += usize::from(!leaf);
                if leaf { fetch(&self.leaves, out[i] as usize) } else { fetch(&self.nodes, out[i] as usize) }
            }
            at += 6;
        }
        for &i in &ends[..ended.min(256)] {
            out[i as usize] = self.leaf(out[i as usize]);
        }
    }
}

#[inline(always)]
fn fetch<T>(list: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(list.as_ptr().wrapping_add(at).cast(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (list, at);
}

/// IPv4 only: a root, and for each entry a sorted list of where ranges start, with their values.
pub(crate) struct Dxr {
    bits: u32,
    /// The first range of an entry, and how many it has.
    root: Vec<(u32, u32)>,
    ranges: Vec<(u16, u16)>,
}

impl Dxr {
    /// `bits` is 16 or more; values fit 16 bits.
    pub(crate) fn new(trie: &Trie, bits: u32) -> Dxr {
        let mut d = Dxr { bits, root: Vec::new(), ranges: Vec::new() };
        trie.slots(0, bits, 0, true, &mut |node, cover| {
            let first = d.ranges.len();
            if node == 0 {
                d.ranges.push((0, cover as u16));
            } else {
                let mut slot = 0u32;
                trie.slots(node, 32 - bits, cover, true, &mut |_, value| {
                    let fresh = d.ranges.len() == first;
                    if fresh || d.ranges[d.ranges.len() - 1].1 != value as u16 {
                        d.ranges.push((slot as u16, value as u16));
                    }
                    slot += 1;
                });
            }
            d.root.push((first as u32, (d.ranges.len() - first) as u32));
        });
        d
    }

    pub(crate) fn bytes(&self) -> usize {
        // An entry takes four bytes where counts and places are packed as in the paper.
        self.root.len() * 4 + self.ranges.len() * 4
    }

    pub(crate) fn one_by_one(&self, keys: &[u32], out: &mut [u32]) {
        for (&k, o) in keys.iter().zip(out) {
            let (first, count) = self.root[(k >> (32 - self.bits)) as usize];
            let low = (k & (u32::MAX >> self.bits)) as u16;
            let (mut at, mut n) = (first as usize, count as usize);
            while n > 1 {
                let half = n / 2;
                // SAFETY: within the ranges of the entry.
                let start = unsafe { self.ranges.get_unchecked(at + half) }.0;
                at = if start <= low { at + half } else { at };
                n -= half;
            }
            *o = u32::from(self.ranges[at].1);
        }
    }

    /// All searches halve together.
    pub(crate) fn in_step(&self, keys: &[u32], out: &mut [u32]) {
        let mut way = [(0u32, 0u32); 256];
        for &k in keys {
            fetch(&self.root, (k >> (32 - self.bits)) as usize);
        }
        let mut most = 1;
        for (w, &k) in way.iter_mut().zip(keys) {
            *w = self.root[(k >> (32 - self.bits)) as usize];
            most = most.max(w.1);
            fetch(&self.ranges, (w.0 + w.1 / 2) as usize);
        }
        while most > 1 {
            most -= most / 2;
            for (w, &k) in way.iter_mut().zip(keys) {
                let low = (k & (u32::MAX >> self.bits)) as u16;
                let half = w.1 / 2;
                // SAFETY: as above.
                let start = unsafe { self.ranges.get_unchecked((w.0 + half) as usize) }.0;
                w.0 = if start <= low { w.0 + half } else { w.0 };
                w.1 -= half;
                fetch(&self.ranges, (w.0 + w.1 / 2) as usize);
            }
        }
        for (w, o) in way.iter().zip(out) {
            *o = u32::from(self.ranges[w.0 as usize].1);
        }
    }
}
