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
mod wide {
    use super::*;
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    /// As `avx512` does it, eight keys at a time.
    ///
    /// # Safety
    /// The processor has AVX2 and what comes with it; see also the head of the module.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn avx2(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
        let n = keys.len().min(out.len()).min(CHUNK);
        let (root, nodes) = (view.root.as_ptr().cast::<i32>(), view.nodes.as_ptr().cast::<i32>());
        let (keys, out) = (&keys[..n], &mut out[..n]);
        let byte = _mm256_set1_epi32(0xff);
        let mask = _mm256_set1_epi32(view.mask as i32);
        // One step through the arrays among the entries, if any, by a byte of the key. Their top bits are 11.
        let step = |e: __m256i, bytes: __m256i| {
            let which = _mm256_and_si256(e, _mm256_slli_epi32::<1>(e));
            if _mm256_movemask_ps(_mm256_castsi256_ps(which)) == 0 {
                return e;
            }
            let at = _mm256_or_si256(_mm256_slli_epi32::<8>(e), bytes);
            // SAFETY: the mask cuts it to the array of nodes.
            unsafe { _mm256_mask_i32gather_epi32::<4>(e, nodes, _mm256_and_si256(at, mask), which) }
        };
        let (mut first, mut second, mut entries) = ([0u32; CHUNK], [0u32; CHUNK], [0u32; CHUNK]);
        for ((k, first), second) in keys.iter().zip(&mut first).zip(&mut second) {
            *first = head(k);
            *second = u32::from_be_bytes([k[4], k[5], k[6], k[7]]);
        }
        let load = |words: &[u32; CHUNK], i: usize| {
            // SAFETY: the callers' places are below `CHUNK`, multiples of 8.
            unsafe { _mm256_loadu_si256(words.as_ptr().add(i).cast()) }
        };
        let store = |words: &mut [u32; CHUNK], i: usize, e: __m256i| {
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(words.as_mut_ptr().add(i).cast(), e) }
        };
        let mut any = _mm256_setzero_si256();
        for i in (0..n).step_by(8) {
            let w0 = load(&first, i);
            // SAFETY: the root counts 24 bits.
            let e = unsafe { _mm256_i32gather_epi32::<4>(root, _mm256_srli_epi32::<8>(w0)) };
            let e = step(e, _mm256_and_si256(w0, byte));
            any = _mm256_or_si256(any, e);
            store(&mut entries, i, e);
        }
        if _mm256_movemask_ps(_mm256_castsi256_ps(any)) != 0 {
            for i in (0..n).step_by(8) {
                let e = step(load(&entries, i), _mm256_srli_epi32::<24>(load(&second, i)));
                store(&mut entries, i, e);
            }
            for i in (0..n).step_by(8) {
                let bytes = _mm256_and_si256(_mm256_srli_epi32::<16>(load(&second, i)), byte);
                let e = step(load(&entries, i), bytes);
                store(&mut entries, i, e);
            }
            sort_and_descend::<true>(view, keys, &mut entries[..n]);
        }
        out.copy_from_slice(&entries[..n]);
        finish(keys, out, rest);
    }

    /// [`go_on`] with AVX2.
    ///
    /// # Safety
    /// As for `avx2`.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn go_on_avx2(view: View<'_>, keys: &[Key], out: &mut [u32]) {
        sort_and_descend::<true>(view, keys, out);
    }

    /// [`go_on`] with AVX-512.
    ///
    /// # Safety
    /// As for `avx512`; there are as many keys as entries in `out`, at most `CHUNK`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn go_on_avx512(view: View<'_>, keys: &[Key], out: &mut [u32]) {
        let (mut entries, mut next) = (Words::uninit(), Lanes::new());
        let lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (g, found) in out.chunks(16).enumerate() {
            let mut sixteen = [0; 16];
            sixteen[..found.len()].copy_from_slice(found);
            // SAFETY: there are at most `CHUNK` / 16 of them; each lane is added once, and only those of keys, for what is
            // behind them is no pointer.
            unsafe {
                let e = _mm512_loadu_si512(sixteen.as_ptr().cast());
                store(&mut entries, 16 * g, e);
                let at = _mm512_add_epi32(lane, _mm512_set1_epi32(16 * g as i32));
                next.add(_mm512_movepi32_mask(e), at, e);
            }
        }
        // SAFETY: as above.
        unsafe { descend_wide(view, keys, &mut entries, &mut next) };
        let found = entries.as_ptr().cast::<u32>();
        for (i, o) in out.iter_mut().enumerate() {
            // SAFETY: as many were stored.
            *o = unsafe { *found.add(i) };
        }
    }

    /// Memory for one word for each key, and for a whole register after any of them.
    type Words = MaybeUninit<[u32; CHUNK + 16]>;

    /// A list of places and entries that 16 lanes at a time are added to: a whole register is written, of which
    /// those count that `len` says.
    struct Lanes {
        at: Words,
        entry: Words,
        len: usize,
    }

    impl Lanes {
        #[inline(always)]
        fn new() -> Self {
            Lanes { at: Words::uninit(), entry: Words::uninit(), len: 0 }
        }

        /// # Safety
        /// As for `avx512`; no more than `CHUNK` lanes are added in all.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
        #[inline]
        unsafe fn add(&mut self, which: u16, at: __m512i, entry: __m512i) {
            debug_assert!(self.len <= CHUNK);
            // SAFETY: there is room for 16 more after any length up to `CHUNK`.
            unsafe {
                store(&mut self.at, self.len, _mm512_maskz_compress_epi32(which, at));
                store(&mut self.entry, self.len, _mm512_maskz_compress_epi32(which, entry));
            }
            self.len += which.count_ones() as usize;
        }
    }

    /// # Safety
    /// As for `avx512`; `at` is at most `CHUNK`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn store(words: &mut Words, at: usize, lanes: __m512i) {
        // SAFETY: there is room for 16 more after any place up to `CHUNK`.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast::<u32>().add(at).cast(), lanes) };
    }

    /// # Safety
    /// As for `avx512`; `at` is at most `CHUNK`, and what is there was stored.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn load(words: &Words, at: usize) -> __m512i {
        // SAFETY: as in `store`.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast::<u32>().add(at).cast()) }
    }

    /// The first two 32-bit words of 16 keys, as numbers.
    ///
    /// # Safety
    /// As for `avx512`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn heads(keys: &[Key; 16]) -> (__m512i, __m512i) {
        let swap = _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
        // From two registers of four keys, their first words, then their second words.
        let pick = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
        let at = keys.as_ptr().cast::<__m512i>();
        // SAFETY: four registers are 16 keys.
        let four = |i: usize| unsafe { _mm512_loadu_si512(at.add(i)) };
        let a = _mm512_permutex2var_epi32(four(0), pick, four(1));
        let b = _mm512_permutex2var_epi32(four(2), pick, four(3));
        let first = _mm512_inserti64x4::<1>(a, _mm512_castsi512_si256(b));
        let second = _mm512_inserti64x4::<0>(b, _mm512_extracti64x4_epi64::<1>(a));
        (_mm512_shuffle_epi8(first, swap), _mm512_shuffle_epi8(second, swap))
    }

    /// The root and the arrays that follow it for bits 24 to 48 are gathered for 16 keys at a time, each step for the whole
    /// batch, so that misses overlap; other nodes one key at a time.
    ///
    /// # Safety
    /// The processor has AVX-512 F, BW, DQ and VL and what comes with it; see also the head of the module.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    pub(crate) unsafe fn avx512(view: View<'_>, keys: &[Key], out: &mut [u32], rest: Rest<'_>) {
        let n = keys.len().min(out.len()).min(CHUNK);
        let (keys, out) = (&keys[..n], &mut out[..n]);
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
        // What the next step reads, for entries that are pointers.
        let fetch = |e: __m512i, bytes: __m512i| {
            let arrays = _mm512_cmpge_epu32_mask(e, array);
            let element = _mm512_or_si512(_mm512_slli_epi32::<8>(e), bytes);
            let line = _mm512_maskz_slli_epi32::<4>(_mm512_movepi32_mask(e), e);
            let at = _mm512_and_si512(_mm512_mask_mov_epi32(line, arrays, element), mask);
            let mut words = [0u32; 16];
            // SAFETY: there are 16 lanes.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), at) };
            words.iter().for_each(|&w| prefetch(view.nodes, w as usize));
        };
        let (mut first, mut second, mut entries) = (Words::uninit(), Words::uninit(), Words::uninit());
        let mut any = _mm512_setzero_si512();
        // Keys beyond the last are looked up too, and forgotten.
        let mut last = [[0; 16]; 16];
        let (full, rest_of_keys) = keys.as_chunks::<16>();
        last[..rest_of_keys.len()].copy_from_slice(rest_of_keys);
        let groups = full.iter().chain((!rest_of_keys.is_empty()).then_some(&last));
        for (g, keys) in groups.enumerate() {
            // SAFETY: the processor has it; there are at most `CHUNK` / 16 groups; the root counts 24 bits.
            unsafe {
                let (w0, w1) = heads(keys);
                let e = _mm512_i32gather_epi32::<4>(_mm512_srli_epi32::<8>(w0), root);
                let e = step(e, _mm512_and_si512(w0, byte));
                if view.far {
                    fetch(e, _mm512_srli_epi32::<24>(w1));
                }
                any = _mm512_or_si512(any, e);
                store(&mut entries, 16 * g, e);
                store(&mut first, 16 * g, w0);
                store(&mut second, 16 * g, w1);
            }
        }
        if _mm512_movepi32_mask(any) != 0 {
            let mut next = Lanes::new();
            for i in (0..n).step_by(16) {
                // SAFETY: as above; what is loaded was stored above.
                unsafe {
                    let w1 = load(&second, i);
                    let e = step(load(&entries, i), _mm512_srli_epi32::<24>(w1));
                    if view.far {
                        fetch(e, _mm512_and_si512(_mm512_srli_epi32::<16>(w1), byte));
                    }
                    store(&mut entries, i, e);
                }
            }
            for i in (0..n).step_by(16) {
                // SAFETY: as above; each lane is added once, and only those of keys.
                unsafe {
                    let bytes = _mm512_and_si512(_mm512_srli_epi32::<16>(load(&second, i)), byte);
                    let e = step(load(&entries, i), bytes);
                    store(&mut entries, i, e);
                    let there = (0xffff_u32 >> (16 - (n - i).min(16))) as u16;
                    let at = _mm512_add_epi32(lane, _mm512_set1_epi32(i as i32));
                    next.add(_mm512_movepi32_mask(e) & there, at, e);
                }
            }
            // SAFETY: as above.
            unsafe { descend_wide(view, keys, &mut entries, &mut next) };
        }
        let (short, shift) = (rest.short.as_ptr().cast::<i32>(), _mm512_set1_epi32(rest.shift as i32));
        let default = _mm512_set1_epi32(rest.default as i32);
        for (g, out) in out.chunks_mut(16).enumerate() {
            // SAFETY: as above; the array of short prefixes, if not empty, has an entry for all first bits.
            unsafe {
                let mut e = load(&entries, 16 * g);
                // A pointer here would be what `STEPS` speaks of.
                let mut none = _mm512_testn_epi32_mask(e, e) | _mm512_movepi32_mask(e);
                if none != 0 && !rest.short.is_empty() {
                    let at = _mm512_srlv_epi32(load(&first, 16 * g), shift);
                    e = _mm512_mask_i32gather_epi32::<4>(e, none, at, short);
                    none = _mm512_testn_epi32_mask(e, e);
                }
                e = _mm512_mask_mov_epi32(e, none, default);
                if let Some(out) = out.as_mut_array::<16>() {
                    _mm512_storeu_si512(out.as_mut_ptr().cast(), e);
                } else {
                    let there = (0xffff_u32 >> (16 - out.len())) as u16;
                    _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), there, e);
                }
            }
        }
    }

    /// # Safety
    /// As for `avx512`; places in `next` are below the number of keys.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
    #[inline]
    unsafe fn descend_wide(view: View<'_>, keys: &[Key], entries: &mut Words, next: &mut Lanes) {
        let (array, runs_bit) = (_mm512_set1_epi32(ARRAY as i32), _mm512_set1_epi32(RUNS_BIT as i32));
        let (mut arrays, mut runs, mut skips) = (Lanes::new(), Lanes::new(), Lanes::new());
        let entries = entries.as_mut_ptr().cast::<u32>();
        for _ in 0..STEPS {
            if next.len == 0 {
                return;
            }
            (arrays.len, runs.len, skips.len) = (0, 0, 0);
            for i in (0..next.len).step_by(16) {
                // SAFETY: `next.len` is at most `CHUNK`, and as many were stored; each of its lanes is added to one list.
                unsafe {
                    let there = (0xffff_u32 >> (16 - (next.len - i).min(16))) as u16;
                    let (e, at) = (load(&next.entry, i), load(&next.at, i));
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
            let (places, found) = (next.at.as_mut_ptr().cast::<u32>(), next.entry.as_mut_ptr().cast::<u32>());
            let mut left = 0;
            macro_rules! all {
                ($list:ident, $step:expr) => {{
                    let at = $list.at.as_ptr().cast::<u32>();
                    let from = $list.entry.as_ptr().cast::<u32>();
                    for j in 0..$list.len {
                        // SAFETY: as many were stored; `i` is the place of a key, and below `CHUNK`; no more are written
                        // to `next` than there were in it.
                        unsafe {
                            let i = *at.add(j);
                            let e: u32 = $step(&view, *from.add(j), keys.get_unchecked(i as usize));
                            *entries.add(i as usize) = e;
                            *places.add(left) = i;
                            *found.add(left) = e;
                            left += (e >> 31) as usize;
                        }
                    }
                }};
            }
            if view.far {
                for list in [&runs, &skips] {
                    let from = list.entry.as_ptr().cast::<u32>();
                    for j in 0..list.len {
                        // SAFETY: as many were stored.
                        view.prefetch(unsafe { *from.add(j) });
                    }
                }
            }
            all!(runs, View::runs::<true>);
            all!(skips, View::skip);
            all!(arrays, View::array);
            next.len = left;
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
