//! Lookups of IPv6 keys: one, and batches that go down step by step, all keys that are still on their way together.
//! Keys are sorted by the kind of their next node before each step, because a branch on the kind could not be foretold.
//!
//! Upholds: whatever an entry holds, the place of the node that it is taken to name is cut to the array of nodes, whose length is a power of two
//! of lines, before it is read; the root is as long as 24 bits can count. The wide loads of a node's line also take entries, which another thread may store to,
//! and leave them aside; what they use of a line never changes while readers can see it. Gathers
//! read words that another thread may store to; on x86-64 an aligned 32-bit lane is read whole, and loads
//! are not reordered with loads, which makes them as good as acquire loads.
#![allow(unsafe_code)]

use super::node::{self, ARRAY, AT, INSIDE, MASK, OUTSIDE, PLACE, RUNS_BIT};
use super::{LINE, POINTER};
use crate::CpuLevel;
use crate::fallback::Rest;
use crate::lpm::ROOT;
use crate::mem::prefetch;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

/// Keys that go down together.
pub(super) const CHUNK: usize = 256;
/// Most steps below the root: a skip and two arrays for each window. Only what was taken out and, against all rules,
/// used again can lead further.
const STEPS: usize = 24;

type Key = [u8; 16];

mod sealed {
    pub trait Sealed {}
    impl Sealed for u128 {}
    impl Sealed for [u8; 16] {}
}

/// An IPv6 address: `[u8; 16]` as in a packet, or `u128` as a number.
pub trait Address: sealed::Sealed + Copy {
    /// As in a packet.
    #[doc(hidden)]
    fn bytes(&self) -> [u8; 16];
    /// Gives `f` up to 256 addresses as in a packet.
    #[doc(hidden)]
    fn with_bytes(keys: &[Self], f: impl FnOnce(&[[u8; 16]]));
}

impl Address for u128 {
    #[inline(always)]
    fn bytes(&self) -> Key {
        self.to_be_bytes()
    }
    #[inline(always)]
    fn with_bytes(keys: &[u128], f: impl FnOnce(&[Key])) {
        let mut bytes = [[0; 16]; CHUNK];
        for (b, k) in bytes.iter_mut().zip(keys) {
            *b = k.to_be_bytes();
        }
        f(&bytes[..keys.len().min(CHUNK)]);
    }
}

impl Address for Key {
    #[inline(always)]
    fn bytes(&self) -> Key {
        *self
    }
    #[inline(always)]
    fn with_bytes(keys: &[Key], f: impl FnOnce(&[Key])) {
        f(keys);
    }
}

/// The arrays of a table.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    root: &'a [AtomicU32],
    nodes: &'a [AtomicU32],
    /// Cuts the number of a word to those of the array.
    mask: usize,
    far: bool,
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(super) fn new(root: &'a [AtomicU32], nodes: &'a [AtomicU32], far: bool) -> Self {
        debug_assert!(root.len() == ROOT && nodes.len().is_power_of_two() && nodes.len() >= LINE);
        View { root, nodes, mask: nodes.len() - 1, far }
    }

    #[inline(always)]
    fn load(&self, word: usize) -> u32 {
        // SAFETY: the mask makes it less than the array's length, a power of two.
        unsafe { self.nodes.get_unchecked(word & self.mask) }.load(Acquire)
    }

    #[inline(always)]
    fn top(&self, key: &Key) -> u32 {
        let at = head(key) >> 8;
        debug_assert!((at as usize) < self.root.len());
        // SAFETY: 24 bits, which the root counts, see the head of this module.
        unsafe { self.root.get_unchecked(at as usize) }.load(Acquire)
    }

    /// The first word of the line of a skip or of runs.
    #[inline(always)]
    fn line(&self, pointer: u32) -> usize {
        ((pointer & PLACE) as usize * LINE) & self.mask
    }

    /// The word for a key in an array.
    #[inline(always)]
    fn element(pointer: u32, key: &Key) -> usize {
        (pointer & PLACE) as usize * 256 + usize::from(key[(pointer >> AT & 15) as usize])
    }

    #[inline(always)]
    fn array(&self, pointer: u32, key: &Key) -> u32 {
        self.load(Self::element(pointer, key))
    }

    #[inline(always)]
    fn runs<const POPCNT: bool>(&self, pointer: u32, key: &Key) -> u32 {
        let word = (pointer >> (AT - 1) & 14) as usize;
        let bits = u16::from_be_bytes([key[word], key[word + 1]]);
        let line = self.line(pointer);
        self.load(line + count_starts::<POPCNT>(self.nodes, line, bits))
    }

    #[inline(always)]
    fn skip(&self, pointer: u32, key: &Key) -> u32 {
        let line = self.line(pointer);
        self.load(line + if holds(self.nodes, line, key) { INSIDE } else { OUTSIDE })
    }

    /// The entry of a key in whatever node a pointer names.
    #[inline(always)]
    fn step(&self, pointer: u32, key: &Key) -> u32 {
        match pointer {
            ARRAY.. => self.array(pointer, key),
            _ if pointer & RUNS_BIT != 0 => self.runs::<false>(pointer, key),
            _ => self.skip(pointer, key),
        }
    }

    /// Whether the node that a pointer names looks at some of the bits `differ`.
    #[inline(always)]
    fn parts(&self, pointer: u32, differ: &[u8; 16]) -> bool {
        match pointer {
            ARRAY.. => differ[(pointer >> AT & 15) as usize] != 0,
            _ if pointer & RUNS_BIT != 0 => {
                let word = (pointer >> (AT - 1) & 14) as usize;
                differ[word] | differ[word + 1] != 0
            }
            _ => {
                let line = self.line(pointer);
                let masks = (0..4).map(|n| self.load(line + MASK + n).to_ne_bytes());
                masks
                    .zip(differ.as_chunks::<4>().0)
                    .any(|(mask, differ)| u32::from_ne_bytes(mask) & u32::from_ne_bytes(*differ) != 0)
            }
        }
    }

    /// [`View::step`] for all keys.
    #[inline(always)]
    fn step_all(&self, pointer: u32, keys: &[Key], out: &mut [u32]) {
        let all = keys.iter().zip(out);
        match pointer {
            ARRAY.. => all.for_each(|(k, o)| *o = self.array(pointer, k)),
            _ if pointer & RUNS_BIT != 0 => all.for_each(|(k, o)| *o = self.runs::<false>(pointer, k)),
            _ => {
                let line = self.line(pointer);
                let (inside, outside) = (self.load(line + INSIDE), self.load(line + OUTSIDE));
                all.for_each(|(k, o)| *o = if holds(self.nodes, line, k) { inside } else { outside });
            }
        }
    }

    #[inline(always)]
    fn prefetch(&self, pointer: u32) {
        prefetch(self.nodes, self.line(pointer));
    }
}

#[inline(always)]
fn head(key: &Key) -> u32 {
    u32::from_be_bytes([key[0], key[1], key[2], key[3]])
}

#[inline(always)]
fn is_array(entry: u32) -> bool {
    entry >= ARRAY
}

/// The word of the entry for 16 bits in the line of runs that starts at a word.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn count_starts<const POPCNT: bool>(nodes: &[AtomicU32], line: usize, bits: u16) -> usize {
    use std::arch::x86_64::*;
    debug_assert!(line + LINE <= nodes.len());
    // SAFETY: the line lies in the array, see the head of this module; SSE2 is always there.
    unsafe {
        let at = nodes.as_ptr().add(line).cast::<__m128i>();
        let (bits, zero) = (_mm_set1_epi16(bits as i16), _mm_setzero_si128());
        // A start at or below leaves nothing of itself.
        let low = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_load_si128(at), bits), zero);
        let high = _mm_cmpeq_epi16(_mm_subs_epu16(_mm_load_si128(at.add(1)), bits), zero);
        if POPCNT {
            let both = _mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0x3ff;
            return node::ENTRIES + both.count_ones() as usize;
        }
        // Each is -1 where it counts: as few bytes as can be added up at once.
        let high = _mm_and_si128(high, _mm_set_epi32(0, 0, 0, -1));
        let ones = _mm_sub_epi8(zero, _mm_packs_epi16(low, high));
        let sums = _mm_sad_epu8(ones, zero);
        node::ENTRIES + (_mm_cvtsi128_si32(sums) + _mm_extract_epi16::<4>(sums)) as usize
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn count_starts<const POPCNT: bool>(nodes: &[AtomicU32], line: usize, bits: u16) -> usize {
    node::run_of(&nodes[line..line + LINE], bits)
}

/// Whether the skip at a word holds the key.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn holds(nodes: &[AtomicU32], line: usize, key: &Key) -> bool {
    use std::arch::x86_64::*;
    debug_assert!(line + LINE <= nodes.len());
    // SAFETY: as above; the key has 16 bytes.
    unsafe {
        let at = nodes.as_ptr().add(line).cast::<__m128i>();
        let key = _mm_and_si128(_mm_loadu_si128(key.as_ptr().cast()), _mm_load_si128(at.add(1)));
        _mm_movemask_epi8(_mm_cmpeq_epi8(key, _mm_load_si128(at))) == 0xffff
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn holds(nodes: &[AtomicU32], line: usize, key: &Key) -> bool {
    node::skip_of(&nodes[line..line + LINE], u128::from_be_bytes(*key)) == INSIDE
}

pub(super) fn one(view: View<'_>, key: &Key, rest: Rest<'_>) -> u32 {
    let mut e = view.top(key);
    for _ in 0..STEPS {
        if e & POINTER == 0 {
            return rest.or(e, head(key));
        }
        e = view.step(e, key);
    }
    rest.of(head(key))
}

/// Looks up at most `CHUNK` keys, for which `out` has room.
#[inline(always)]
pub(super) fn batch(level: CpuLevel, view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
    if together(level, view, keys, out, rest) {
        return;
    }
    match level {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level is one that the processor has.
        CpuLevel::V4 => unsafe { wide::avx512(view, keys, out, rest) },
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: as above.
        CpuLevel::V3 => unsafe { wide::avx2(view, keys, out, rest) },
        _ => scalar::<false>(view, keys, out, rest),
    }
}

/// Looks keys up that have the first 24 bits in common, as the sources of one link and all keys of a small table do: they go
/// down together, without being sorted, for as long as no node parts them. A node that looks at nothing in which they differ
/// is asked once for all. False, and nothing of use in `out`, when their first bits differ.
#[inline(always)]
fn together(level: CpuLevel, view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) -> bool {
    let Some(first) = keys.first() else { return false };
    let n = keys.len().min(out.len()).min(CHUNK);
    let (keys, out) = (&keys[..n], &mut out[..n]);
    let start = |k: &Key| u32::from_le_bytes([k[0], k[1], k[2], k[3]]) & 0xff_ffff;
    if keys.iter().take(8).any(|k| start(k) != start(first)) {
        return false;
    }
    let halves = |k: &Key| {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *k;
        [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes([i, j, k, l, m, n, o, p])]
    };
    let of_first = halves(first);
    let differ = keys
        .iter()
        .map(halves)
        .fold([0; 2], |all, [high, low]| [all[0] | (high ^ of_first[0]), all[1] | (low ^ of_first[1])]);
    let mut bits = [0; 16];
    bits[..8].copy_from_slice(&differ[0].to_ne_bytes());
    bits[8..].copy_from_slice(&differ[1].to_ne_bytes());
    if start(&bits) != 0 {
        return false;
    }
    go_together(level, view, keys, out, rest, &bits);
    true
}

/// [`together`] from the root on, where keys differ in some of the bits `differ`.
#[inline(never)]
fn go_together(
    level: CpuLevel,
    view: View<'_>,
    keys: &[Key],
    out: &mut [u32],
    rest: Rest<'_>,
    differ: &[u8; 16],
) {
    let Some(first) = keys.first() else { return };
    let mut e = view.top(first);
    for _ in 0..STEPS {
        if e & POINTER == 0 {
            break;
        }
        if !view.parts(e, differ) {
            e = view.step(e, first);
            continue;
        }
        view.step_all(e, keys, out);
        e = out[0];
        if out.iter().fold(0, |all, o| all | (o ^ e)) != 0 {
            if out.iter().fold(0, |all, o| all | o) & POINTER != 0 {
                go_on(level, view, keys, out);
            }
            return finish_some(keys, out, rest);
        }
    }
    out.fill(e);
    finish_some(keys, out, rest);
}

/// [`finish`] where it is needed.
#[inline(always)]
fn finish_some(keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
    if out.iter().fold(false, |some, o| some | (*o == 0) | (*o & POINTER != 0)) {
        finish(keys, out, rest);
    }
}

/// Goes on with the keys whose entries so far, in `out`, are pointers.
#[inline(never)]
fn go_on(level: CpuLevel, view: View<'_>, keys: &[Key], out: &mut [u32]) {
    match level {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level is one that the processor has; the caller has as many keys as entries, at most `CHUNK`.
        CpuLevel::V4 => unsafe { wide::go_on_avx512(view, keys, out) },
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level is one that the processor has.
        CpuLevel::V3 => unsafe { wide::go_on_avx2(view, keys, out) },
        _ => sort_and_descend::<false>(view, keys, out),
    }
}

#[inline(always)]
fn sort_and_descend<const POPCNT: bool>(view: View<'_>, keys: &[Key], out: &mut [u32]) {
    let (mut list, mut n) = ([(0, 0); CHUNK], 0);
    for (i, &e) in out.iter().enumerate() {
        list[n % CHUNK] = (i as u32, e);
        n += (e >> 31) as usize;
    }
    descend::<POPCNT>(view, keys, out, &mut list, n);
}

/// A place in the batch and its entry.
type Item = (u32, u32);

/// Keys on their way. One is written first and counted then, without a branch.
type List = [Item; CHUNK];

/// The root, and the arrays that follow it for bits 24 to 48, all keys at each before the next; then what follows.
#[inline(always)]
fn scalar<const POPCNT: bool>(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
    let n = keys.len().min(out.len()).min(CHUNK);
    let (keys, out) = (&keys[..n], &mut out[..n]);
    // Where an array is looked at next; some place that is there, if the entry is no array.
    let element = |e: u32, byte: u8| {
        let word = ((e & PLACE) << 8 | u32::from(byte)) as usize;
        usize::from(is_array(e)).wrapping_neg() & word
    };
    if view.far {
        for k in keys {
            prefetch(view.root, (head(k) >> 8) as usize);
        }
    }
    let mut any = 0;
    for (k, o) in keys.iter().zip(out.iter_mut()) {
        *o = view.top(k);
        any |= *o;
        prefetch(view.nodes, element(*o, k[3]));
    }
    if any & POINTER != 0 {
        let mut step = |byte: usize| {
            let mut arrays = 0;
            for (k, o) in keys.iter().zip(out.iter_mut()) {
                let below = view.load(element(*o, k[byte]));
                *o = if is_array(*o) { below } else { *o };
                arrays += usize::from(is_array(*o));
                prefetch(view.nodes, element(*o, k[byte + 1]));
            }
            arrays > 0
        };
        let _ = step(3) && step(4) && step(5);
        sort_and_descend::<POPCNT>(view, keys, out);
    }
    finish(keys, out, rest);
}

/// Goes on with the keys in the first `n` items of `list`.
#[inline(always)]
fn descend<const POPCNT: bool>(view: View<'_>, keys: &[Key], out: &mut [u32], list: &mut List, mut n: usize) {
    let (mut arrays, mut runs, mut skips) = ([(0, 0); CHUNK], [(0, 0); CHUNK], [(0, 0); CHUNK]);
    for _ in 0..STEPS {
        if n == 0 {
            return;
        }
        let (mut a, mut r, mut s) = (0, 0, 0);
        for &(i, e) in &list[..n.min(CHUNK)] {
            arrays[a % CHUNK] = (i, e);
            a += usize::from(is_array(e));
            runs[r % CHUNK] = (i, e);
            r += usize::from(e >> 29 == 0b101);
            skips[s % CHUNK] = (i, e);
            s += usize::from(e >> 29 == 0b100);
            if view.far {
                view.prefetch(e);
            }
        }
        n = 0;
        macro_rules! all {
            ($items:expr, $step:expr) => {
                for &(i, e) in $items {
                    let e: u32 = $step(&view, e, &keys[i as usize]);
                    out[i as usize] = e;
                    list[n % CHUNK] = (i, e);
                    n += (e >> 31) as usize;
                }
            };
        }
        all!(&arrays[..a.min(CHUNK)], View::array);
        all!(&runs[..r.min(CHUNK)], View::runs::<POPCNT>);
        all!(&skips[..s.min(CHUNK)], View::skip);
    }
}

/// Puts what holds there into the places of keys that no entry is for.
#[inline(always)]
fn finish(keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
    for (k, o) in keys.iter().zip(out) {
        // A pointer here would be what `STEPS` speaks of.
        if *o == 0 || *o & POINTER != 0 {
            *o = rest.of(head(k));
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide;

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    #[test]
    fn starts_are_counted_alike_everywhere() {
        let runs: Vec<(u16, u32)> = (0..11).map(|i| (i * 0x1700, u32::from(i) + 1)).collect();
        #[repr(align(64))]
        struct Line([AtomicU32; LINE]);
        for n in 1..=11 {
            let line = Line(node::runs_words(&runs[..n]).map(AtomicU32::new));
            for bits in 0..=u16::MAX {
                let want = node::run_of(&line.0, bits);
                assert_eq!(count_starts::<false>(&line.0, 0, bits), want, "{n} {bits}");
                assert_eq!(count_starts::<true>(&line.0, 0, bits), want, "{n} {bits}");
            }
        }
    }
}
