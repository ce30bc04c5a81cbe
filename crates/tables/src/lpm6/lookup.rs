//! Lookups of IPv6 keys: one, and batches that go down step by step, all keys that are still on their way together.
//! Keys are sorted by the kind of their next node before each step, because a branch on the kind could not be foretold.
//!
//! Upholds: whatever an entry holds, the place of the node that it is taken to name is cut to the array of nodes, whose length is a power of two
//! of lines, before it is read; the root is as long as 24 bits can count. The wide loads of a node's line also take entries, which another thread may store to,
//! and leave them aside; what they use of a line never changes while readers can see it. Gathers
//! read words that another thread may store to; on x86-64 an aligned 32-bit lane is read whole, and loads
//! are not reordered with loads, which makes them as good as acquire loads.
#![allow(unsafe_code)]

use super::node::{self, ARRAY, AT, INSIDE, OUTSIDE, PLACE, RUNS_BIT};
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
        e = match e {
            ARRAY.. => view.array(e, key),
            _ if e & POINTER == 0 => return rest.or(e, head(key)),
            _ if e & RUNS_BIT != 0 => view.runs::<false>(e, key),
            _ => view.skip(e, key),
        };
    }
    rest.of(head(key))
}

/// Looks up at most `CHUNK` keys, for which `out` has room.
#[inline(always)]
pub(super) fn batch(level: CpuLevel, view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
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

/// Keys on their way that meet the same kind of node next: their place in the batch and their entry. Adding writes first and counts
/// then, without a branch.
struct List {
    items: [(u32, u32); CHUNK],
    len: usize,
}

impl List {
    #[inline(always)]
    fn new() -> Self {
        List { items: [(0, 0); CHUNK], len: 0 }
    }

    #[inline(always)]
    fn add(&mut self, at: u32, entry: u32, really: bool) {
        self.items[self.len & (CHUNK - 1)] = (at, entry);
        self.len += usize::from(really);
    }

    #[inline(always)]
    fn items(&self) -> &[(u32, u32)] {
        &self.items[..self.len.min(CHUNK)]
    }
}

#[inline(always)]
fn scalar<const POPCNT: bool>(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
    for k in keys {
        prefetch(view.root, (head(k) >> 8) as usize);
    }
    let lists = || [List::new(), List::new(), List::new()];
    let (mut now, mut next) = (&mut lists(), &mut lists());
    let mut go_on = |next: &mut [List; 3], i: u32, k: &Key, e: u32| {
        out[i as usize] = e;
        next[0].add(i, e, is_array(e));
        next[1].add(i, e, e >> 29 == 0b101);
        next[2].add(i, e, e >> 29 == 0b100);
        let array = usize::from(is_array(e));
        let word = array.wrapping_neg() & View::element(e, k) | array.wrapping_sub(1) & view.line(e);
        prefetch(view.nodes, word);
    };
    for (i, k) in keys.iter().enumerate() {
        go_on(next, i as u32, k, view.top(k));
    }
    for _ in 0..STEPS {
        if next.iter().all(|l| l.len == 0) {
            break;
        }
        std::mem::swap(&mut now, &mut next);
        next.iter_mut().for_each(|l| l.len = 0);
        for &(i, e) in now[0].items() {
            let k = &keys[i as usize];
            go_on(next, i, k, view.array(e, k));
        }
        for &(i, e) in now[1].items() {
            let k = &keys[i as usize];
            go_on(next, i, k, view.runs::<POPCNT>(e, k));
        }
        for &(i, e) in now[2].items() {
            let k = &keys[i as usize];
            go_on(next, i, k, view.skip(e, k));
        }
    }
    finish(keys, out, rest);
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
mod wide {
    use super::*;
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX2 and what comes with it.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn avx2(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
        scalar::<true>(view, keys, out, rest);
    }

    /// Lists of places and entries that 16 lanes at a time are added to: a whole register is written, so
    /// there is room for one more than counts.
    struct Lanes {
        at: [u32; CHUNK + 16],
        entry: [u32; CHUNK + 16],
        len: usize,
    }

    impl Lanes {
        #[inline(always)]
        fn new() -> Self {
            Lanes { at: [0; CHUNK + 16], entry: [0; CHUNK + 16], len: 0 }
        }

        /// # Safety
        /// As for `avx512`; no more than `CHUNK` lanes are added in all.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
        #[inline]
        unsafe fn add(&mut self, which: u16, at: __m512i, entry: __m512i) {
            debug_assert!(self.len <= CHUNK);
            // SAFETY: there is room for 16 more after any length up to `CHUNK`.
            unsafe {
                let to = self.at.as_mut_ptr().add(self.len).cast();
                _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(which, at));
                let to = self.entry.as_mut_ptr().add(self.len).cast();
                _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(which, entry));
            }
            self.len += which.count_ones() as usize;
        }
    }

    /// The first two 32-bit words of 16 keys, as numbers; 0 for those that are not there.
    ///
    /// # Safety
    /// As for `avx512`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn heads(keys: &[Key]) -> (__m512i, __m512i) {
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
        // From two registers of four keys, their first words, then their second words.
        let pick = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
        let lanes = u64::MAX >> (64 - 4 * keys.len().min(16));
        // SAFETY: a masked load takes only the words of keys that are there, four a key.
        let four = |i: usize| unsafe {
            let at = keys.as_ptr().cast::<i32>().wrapping_add(16 * i);
            _mm512_maskz_loadu_epi32((lanes >> (16 * i)) as u16, at)
        };
        let a = _mm512_permutex2var_epi32(four(0), pick, four(1));
        let b = _mm512_permutex2var_epi32(four(2), pick, four(3));
        let first = _mm512_inserti64x4::<1>(a, _mm512_castsi512_si256(b));
        let second = _mm512_inserti64x4::<0>(b, _mm512_extracti64x4_epi64::<1>(a));
        (_mm512_shuffle_epi8(first, swap), _mm512_shuffle_epi8(second, swap))
    }

    /// The root and the arrays that follow it for bits 24 to 48 are gathered for 16 keys at a time, each step for the whole batch, so
    /// that misses overlap; other nodes one key at a time.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL and what comes with it; see also the head of the module.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn avx512(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
        let keys = &keys[..keys.len().min(CHUNK)];
        let (root, nodes) = (view.root.as_ptr().cast::<i32>(), view.nodes.as_ptr().cast::<i32>());
        let (byte, array) = (_mm512_set1_epi32(0xff), _mm512_set1_epi32(ARRAY as i32));
        let mask = _mm512_set1_epi32(view.mask as i32);
        let lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        // One step through the arrays among the entries, if any, by a byte of the key.
        let step = |e: __m512i, bytes: __m512i| {
            let which = _mm512_cmpge_epu32_mask(e, array);
            if which == 0 {
                return e;
            }
            // The number of the array times 256; its shift also drops the kind.
            let at = _mm512_or_si512(_mm512_slli_epi32::<8>(e), bytes);
            // SAFETY: the mask cuts it to the array of nodes.
            unsafe { _mm512_mask_i32gather_epi32::<4>(e, which, _mm512_and_si512(at, mask), nodes) }
        };
        let mut first = [0u32; CHUNK];
        let mut second = [0u32; CHUNK];
        let mut entries = [0u32; CHUNK];
        let mut any = 0;
        for i in (0..keys.len()).step_by(16) {
            // SAFETY: the processor has it; indices are below `CHUNK`, a multiple of 16, and the root counts 24 bits.
            unsafe {
                let (w0, w1) = heads(&keys[i..]);
                let e = _mm512_i32gather_epi32::<4>(_mm512_srli_epi32::<8>(w0), root);
                let e = step(e, _mm512_and_si512(w0, byte));
                any |= _mm512_movepi32_mask(e);
                _mm512_storeu_si512(entries.as_mut_ptr().add(i).cast(), e);
                _mm512_storeu_si512(first.as_mut_ptr().add(i).cast(), w0);
                _mm512_storeu_si512(second.as_mut_ptr().add(i).cast(), w1);
            }
        }
        if any != 0 {
            let mut next = Lanes::new();
            for i in (0..keys.len()).step_by(16) {
                // SAFETY: as above.
                unsafe {
                    let e = _mm512_loadu_si512(entries.as_ptr().add(i).cast());
                    let w1 = _mm512_loadu_si512(second.as_ptr().add(i).cast());
                    let e = step(e, _mm512_srli_epi32::<24>(w1));
                    _mm512_storeu_si512(entries.as_mut_ptr().add(i).cast(), e);
                }
            }
            for i in (0..keys.len()).step_by(16) {
                // SAFETY: as above; each lane is added once, and only those of keys.
                unsafe {
                    let e = _mm512_loadu_si512(entries.as_ptr().add(i).cast());
                    let w1 = _mm512_loadu_si512(second.as_ptr().add(i).cast());
                    let e = step(e, _mm512_and_si512(_mm512_srli_epi32::<16>(w1), byte));
                    _mm512_storeu_si512(entries.as_mut_ptr().add(i).cast(), e);
                    let there = (0xffff_u32 >> (16 - (keys.len() - i).min(16))) as u16;
                    let at = _mm512_add_epi32(lane, _mm512_set1_epi32(i as i32));
                    next.add(_mm512_movepi32_mask(e) & there, at, e);
                }
            }
            // SAFETY: as above.
            unsafe { descend(view, keys, &mut entries, &mut next) };
        }
        let (short, shift) = (rest.short.as_ptr().cast::<i32>(), _mm512_set1_epi32(rest.shift as i32));
        for (i, out) in out.chunks_mut(16).enumerate() {
            let there = (0xffff_u32 >> (16 - out.len())) as u16;
            // SAFETY: as above; `out` is as long as `keys`; the array of short prefixes has an entry for all first bits.
            unsafe {
                let mut e = _mm512_loadu_si512(entries.as_ptr().add(16 * i).cast());
                // A pointer here would be what `STEPS` speaks of.
                e = _mm512_maskz_mov_epi32(!_mm512_movepi32_mask(e), e);
                let mut none = _mm512_testn_epi32_mask(e, e);
                if none != 0 && !rest.short.is_empty() {
                    let w0 = _mm512_loadu_si512(first.as_ptr().add(16 * i).cast());
                    e = _mm512_mask_i32gather_epi32::<4>(e, none, _mm512_srlv_epi32(w0, shift), short);
                    none = _mm512_testn_epi32_mask(e, e);
                }
                e = _mm512_mask_mov_epi32(e, none, _mm512_set1_epi32(rest.default as i32));
                _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), there, e);
            }
        }
    }

    /// # Safety
    /// As for `avx512`; places in `next` are below the number of keys.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn descend(view: View<'_>, keys: &[Key], entries: &mut [u32; CHUNK], next: &mut Lanes) {
        let (array, runs_bit) = (_mm512_set1_epi32(ARRAY as i32), _mm512_set1_epi32(RUNS_BIT as i32));
        let (mut arrays, mut runs, mut skips) = (Lanes::new(), Lanes::new(), Lanes::new());
        for _ in 0..STEPS {
            if next.len == 0 {
                return;
            }
            (arrays.len, runs.len, skips.len) = (0, 0, 0);
            for i in (0..next.len).step_by(16) {
                // SAFETY: `next.len` is at most `CHUNK`; each of its lanes is added to one list.
                unsafe {
                    let there = (0xffff_u32 >> (16 - (next.len - i).min(16))) as u16;
                    let e = _mm512_loadu_si512(next.entry.as_ptr().add(i).cast());
                    let at = _mm512_loadu_si512(next.at.as_ptr().add(i).cast());
                    let a = _mm512_mask_cmpge_epu32_mask(there, e, array);
                    let r = _mm512_mask_test_epi32_mask(there & !a, e, runs_bit);
                    let s = there & !a & !r;
                    runs.add(r, at, e);
                    if s != 0 {
                        skips.add(s, at, e);
                    }
                    if a != 0 {
                        arrays.add(a, at, e);
                    }
                }
            }
            next.len = 0;
            if view.far {
                for list in [&runs, &skips] {
                    list.entry[..list.len].iter().for_each(|&e| view.prefetch(e));
                }
            }
            macro_rules! all {
                ($list:ident, $step:expr) => {
                    for (&i, &e) in $list.at[..$list.len].iter().zip(&$list.entry[..$list.len]) {
                        // SAFETY: `i` is the place of a key, and below `CHUNK`; no more are added to `next` than there
                        // were in it.
                        unsafe {
                            let e = $step(&view, e, keys.get_unchecked(i as usize));
                            *entries.get_unchecked_mut(i as usize) = e;
                            *next.at.get_unchecked_mut(next.len) = i;
                            *next.entry.get_unchecked_mut(next.len) = e;
                            next.len += (e >> 31) as usize;
                        }
                    }
                };
            }
            all!(runs, View::runs::<true>);
            all!(skips, View::skip);
            all!(arrays, View::array);
        }
    }
}

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
