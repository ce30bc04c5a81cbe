//! The head of a small table: its ranges in few cache lines, side by side. Vectors whose packets are looked up in
//! thousands of tables in turn compare a key with all starts at once, so that nothing is to be foretold; vectors for one
//! table compare a start with many keys.
//!
//! What does not fit is left to the table itself: the head answers [`ASK`].
#![allow(unsafe_code)]
// Upholds: vector code runs only where the level says that the processor has it, and loads whole arrays.

use crate::CpuLevel;
use crate::small::SmallTable;

/// The head does not know; no table has this value.
pub const ASK: u32 = u32::MAX;
/// Ranges of a head.
pub const RANGES: usize = 16;

/// Where ranges start, in order, and their values. The rest repeats the last value at the end of the space.
#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Head<T> {
    /// With the highest bit turned over: the order of signed numbers is that of addresses.
    starts: [T; RANGES],
    values: [u32; RANGES],
}

/// Of an IPv4 table.
pub type Head4 = Head<i32>;
/// Of an IPv6 table, by the first 64 bits of addresses.
pub type Head6 = Head<i64>;

/// What differs between the families.
pub trait Short: Copy + Send + Sync {
    /// An address as lookups take it.
    type Key: Copy;
    /// The last start there is.
    const LAST: Self;
    /// The part of an address that is compared.
    fn of(key: &Self::Key) -> Self;
    /// How many starts are not behind it.
    fn count(starts: &[Self; RANGES], key: Self) -> usize;
    /// The same with AVX2.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe fn count_avx2(starts: &[Self; RANGES], key: Self) -> usize;
    /// The same with AVX-512.
    ///
    /// # Safety
    /// The processor has AVX-512 F.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe fn count_wide(starts: &[Self; RANGES], key: Self) -> usize;
}

impl Short for i32 {
    type Key = u32;
    const LAST: i32 = i32::MAX;

    #[inline(always)]
    fn of(key: &u32) -> i32 {
        key.cast_signed() ^ i32::MIN
    }

    #[inline(always)]
    fn count(starts: &[i32; RANGES], key: i32) -> usize {
        starts.iter().map(|s| i32::from(*s <= key)).sum::<i32>() as usize
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn count_avx2(starts: &[i32; RANGES], key: i32) -> usize {
        use std::arch::x86_64::*;
        let key = _mm256_set1_epi32(key);
        let behind = |at: usize| {
            // SAFETY: 8 words of 4 bytes are what is loaded, from the start or the middle of 16.
            let part = unsafe { _mm256_loadu_si256(starts.as_ptr().add(at).cast()) };
            _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(part, key))) as u32
        };
        RANGES - (behind(0) | behind(8) << 8).count_ones() as usize
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn count_wide(starts: &[i32; RANGES], key: i32) -> usize {
        use std::arch::x86_64::{_mm512_cmple_epi32_mask, _mm512_loadu_si512, _mm512_set1_epi32};
        // SAFETY: 16 words of 4 bytes are what is loaded.
        let all = unsafe { _mm512_loadu_si512(starts.as_ptr().cast()) };
        _mm512_cmple_epi32_mask(all, _mm512_set1_epi32(key)).count_ones() as usize
    }
}

impl Short for i64 {
    type Key = [u8; 16];
    const LAST: i64 = i64::MAX;

    #[inline(always)]
    fn of(key: &[u8; 16]) -> i64 {
        let [a, b, c, d, e, f, g, h, ..] = *key;
        i64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ i64::MIN
    }

    #[inline(always)]
    fn count(starts: &[i64; RANGES], key: i64) -> usize {
        starts.iter().map(|s| i64::from(*s <= key)).sum::<i64>() as usize
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn count_avx2(starts: &[i64; RANGES], key: i64) -> usize {
        use std::arch::x86_64::*;
        let key = _mm256_set1_epi64x(key);
        let behind = |at: usize| {
            // SAFETY: 4 words of 8 bytes are what is loaded, from one of the four quarters of 16.
            let part = unsafe { _mm256_loadu_si256(starts.as_ptr().add(at).cast()) };
            _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(part, key))) as u32
        };
        let all = behind(0) | behind(4) << 4 | behind(8) << 8 | behind(12) << 12;
        RANGES - all.count_ones() as usize
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn count_wide(starts: &[i64; RANGES], key: i64) -> usize {
        use std::arch::x86_64::{_mm512_cmple_epi64_mask, _mm512_loadu_si512, _mm512_set1_epi64};
        let key = _mm512_set1_epi64(key);
        let half = |at: usize| {
            // SAFETY: 8 words of 8 bytes are what is loaded, from the start or the middle of 16.
            let part = unsafe { _mm512_loadu_si512(starts.as_ptr().add(at).cast()) };
            u32::from(_mm512_cmple_epi64_mask(part, key))
        };
        (half(0) | half(8) << 8).count_ones() as usize
    }
}

impl<T: Short> Head<T> {
    /// Knows nothing.
    pub fn unknown() -> Self {
        Head { starts: [T::LAST; RANGES], values: [ASK; RANGES] }
    }

    /// Of ranges, in order; the first starts at 0.
    fn new(ranges: &[(T, u32)]) -> Self {
        let mut head = Self::unknown();
        let Some(last) = ranges.last().filter(|_| ranges.len() <= RANGES) else { return head };
        head.values = [last.1; RANGES];
        for (n, (start, value)) in ranges.iter().enumerate() {
            (head.starts[n], head.values[n]) = (*start, *value);
        }
        head
    }

    /// Whether it knows anything.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.values != [ASK; RANGES]
    }

    /// Brings it near.
    #[inline(always)]
    pub fn prefetch(this: *const Self) {
        let lines = size_of::<Self>() / 64;
        (0..lines).for_each(|n| graph::prefetch(this.cast::<[u8; 64]>().wrapping_add(n)));
    }

    /// The value behind so many starts.
    #[inline(always)]
    fn value(&self, count: usize) -> u32 {
        self.values[count.wrapping_sub(1) % RANGES]
    }

    /// The value of a key, or [`ASK`].
    #[inline(always)]
    pub fn lookup_one(&self, key: &T::Key) -> u32 {
        self.value(T::count(&self.starts, T::of(key)))
    }
}

impl Head4 {
    /// Looks up `keys` and writes their values, or [`ASK`], to the same places of `out`.
    #[inline]
    pub fn lookup_batch(&self, level: CpuLevel, keys: &[u32], out: &mut [u32]) {
        match level {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: the level says that the processor has AVX-512 F.
            CpuLevel::V4 => unsafe { batch512(self, keys, out) },
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: the level says that the processor has AVX2.
            CpuLevel::V3 => unsafe { batch256(self, keys, out) },
            _ => each(keys, out, |_| Some(self)),
        }
    }
}

/// Sixteen keys at a time.
///
/// # Safety
/// The processor has AVX-512 F.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn batch512(head: &Head4, keys: &[u32], out: &mut [u32]) {
    use std::arch::x86_64::*;
    let (chunks, rest) = keys.as_chunks::<16>();
    let (outs, rest_out) = out.as_chunks_mut::<16>();
    let flip = _mm512_set1_epi32(i32::MIN);
    // SAFETY: sixteen words of a head.
    let values = unsafe { _mm512_loadu_si512(head.values.as_ptr().cast()) };
    for (keys, out) in chunks.iter().zip(&mut *outs) {
        // SAFETY: sixteen words of a chunk.
        let keys = unsafe { _mm512_xor_si512(_mm512_loadu_si512(keys.as_ptr().cast()), flip) };
        // One less than the starts that are not behind the key: where its value stands.
        let (mut at, one) = (_mm512_set1_epi32(-1), _mm512_set1_epi32(1));
        for start in &head.starts {
            let not_behind = _mm512_cmpge_epi32_mask(keys, _mm512_set1_epi32(*start));
            at = _mm512_mask_add_epi32(at, not_behind, at, one);
        }
        // SAFETY: sixteen words of a chunk.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_permutexvar_epi32(at, values)) };
    }
    each(rest, rest_out, |_| Some(head));
}

/// Eight keys at a time.
///
/// # Safety
/// The processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn batch256(head: &Head4, keys: &[u32], out: &mut [u32]) {
    use std::arch::x86_64::*;
    let (chunks, rest) = keys.as_chunks::<8>();
    let (outs, rest_out) = out.as_chunks_mut::<8>();
    let flip = _mm256_set1_epi32(i32::MIN);
    // SAFETY: eight words each of the sixteen of a head.
    let [low, high] = [0, 8].map(|n| unsafe { _mm256_loadu_si256(head.values.as_ptr().add(n).cast()) });
    for (keys, out) in chunks.iter().zip(&mut *outs) {
        // SAFETY: eight words of a chunk.
        let keys = unsafe { _mm256_xor_si256(_mm256_loadu_si256(keys.as_ptr().cast()), flip) };
        // As many less than the last place as starts are behind the key.
        let mut at = _mm256_set1_epi32(RANGES as i32 - 1);
        for start in &head.starts {
            at = _mm256_add_epi32(at, _mm256_cmpgt_epi32(_mm256_set1_epi32(*start), keys));
        }
        let (low, high) = (_mm256_permutevar8x32_epi32(low, at), _mm256_permutevar8x32_epi32(high, at));
        let upper = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
        let value = _mm256_blendv_ps(_mm256_castsi256_ps(low), _mm256_castsi256_ps(high), upper);
        // SAFETY: eight words of a chunk.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr().cast(), value) };
    }
    each(rest, rest_out, |_| Some(head));
}

/// Looks each key up in the head that `head` answers for its place; a key without head has no route.
#[inline(always)]
pub fn lookup_each<'h, T: Short + 'h>(
    level: CpuLevel,
    keys: &[T::Key],
    out: &mut [u32],
    head: impl Fn(usize) -> Option<&'h Head<T>>,
) {
    match level {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level says that the processor has AVX-512 F.
        CpuLevel::V4 => unsafe { avx512(keys, out, head) },
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level says that the processor has AVX2.
        CpuLevel::V3 => unsafe { avx2(keys, out, head) },
        _ => each(keys, out, head),
    }
}

#[inline(always)]
fn each<'h, T: Short + 'h>(keys: &[T::Key], out: &mut [u32], head: impl Fn(usize) -> Option<&'h Head<T>>) {
    for (n, (key, out)) in keys.iter().zip(out).enumerate() {
        *out = head(n).map_or(crate::MISS, |h| h.lookup_one(key));
    }
}

/// # Safety
/// The processor has AVX2.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn avx2<'h, T: Short + 'h>(
    keys: &[T::Key],
    out: &mut [u32],
    head: impl Fn(usize) -> Option<&'h Head<T>>,
) {
    for (n, (key, out)) in keys.iter().zip(out).enumerate() {
        // SAFETY: this function's own condition.
        *out = head(n).map_or(crate::MISS, |h| h.value(unsafe { T::count_avx2(&h.starts, T::of(key)) }));
    }
}

/// # Safety
/// The processor has AVX-512 F.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,popcnt")]
unsafe fn avx512<'h, T: Short + 'h>(
    keys: &[T::Key],
    out: &mut [u32],
    head: impl Fn(usize) -> Option<&'h Head<T>>,
) {
    for (n, (key, out)) in keys.iter().zip(out).enumerate() {
        // SAFETY: this function's own condition.
        *out = head(n).map_or(crate::MISS, |h| h.value(unsafe { T::count_wide(&h.starts, T::of(key)) }));
    }
}

impl SmallTable<u32> {
    /// Its head.
    pub fn head(&self) -> Head4 {
        let flipped = |(start, value): (&u32, &u32)| (i32::of(start), *value);
        Head::new(&self.starts.iter().zip(&self.values).map(flipped).collect::<Vec<_>>())
    }
}

impl SmallTable<u128> {
    /// Its head: of prefixes longer than 64 bits it only knows that it does not know.
    pub fn head(&self) -> Head6 {
        let high = |a: u128| (a >> 64) as u64;
        let mut ranges: Vec<(u64, u32)> = vec![];
        let all: Vec<(u128, u32)> = self.starts.iter().copied().zip(self.values.iter().copied()).collect();
        for group in all.chunk_by(|a, b| high(a.0) == high(b.0)) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let at = high(first.0);
            if group.len() == 1 && first.0 as u64 == 0 {
                if let Some(same) = ranges.last_mut().filter(|r| r.0 == at) {
                    same.1 = first.1;
                } else {
                    ranges.push((at, first.1));
                }
                continue;
            }
            ranges.retain(|r| r.0 != at);
            ranges.push((at, ASK));
            // Where the next range starts right there, it says so itself.
            ranges.extend(at.checked_add(1).map(|next| (next, last.1)));
        }
        let flipped: Vec<(i64, u32)> =
            ranges.iter().map(|(start, value)| (start.cast_signed() ^ i64::MIN, *value)).collect();
        Head::new(&flipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn levels() -> [CpuLevel; 3] {
        CpuLevel::ALL.map(CpuLevel::supported)
    }

    proptest! {
        #[test]
        fn a_head_says_what_its_table_does(
            routes in prop::collection::btree_map((0u32..64, 0u8..33), 1u32..9, 0..9),
            keys in prop::collection::vec(0u32..64, 1..40),
        ) {
            // Neighbouring prefixes at both ends of the space.
            let spread = |n: u32| n << 26 | (n & 1).wrapping_neg() >> 6 & !3 | n >> 4;
            let all: std::collections::BTreeMap<(u32, u8), u32> =
                routes.iter().map(|((a, l), v)| ((crate::rib::Key::first(spread(*a), *l), *l), *v)).collect();
            let small = SmallTable::new(all.iter().map(|(&(k, l), &v)| (k, l, v)));
            let (head, fits) = (small.head(), small.starts.len() <= RANGES);
            let keys: Vec<u32> = keys.into_iter().map(spread).chain([0, u32::MAX]).collect();
            for level in levels() {
                let mut out = vec![7; keys.len()];
                lookup_each(level, &keys, &mut out, |n| (n != 1).then_some(&head));
                for (n, (key, got)) in keys.iter().zip(&out).enumerate() {
                    let want = if fits { small.lookup_one(*key) } else { ASK };
                    prop_assert_eq!(*got, if n == 1 { crate::MISS } else { want }, "{:08x}", key);
                }
            }
            for level in levels() {
                for n in [keys.len(), keys.len().min(16)] {
                    let (mut out, keys) = (vec![7; n + 1], &keys[..n]);
                    head.lookup_batch(level, keys, &mut out[..n]);
                    for (key, got) in keys.iter().zip(&out) {
                        prop_assert_eq!(*got, if fits { small.lookup_one(*key) } else { ASK }, "{:08x}", key);
                    }
                    prop_assert_eq!(out[n], 7);
                }
            }
            // The same routes twice as far up and down the longer addresses.
            for shift in [96, 60, 32] {
                let wide = |k: u32| u128::from(k) << shift;
                let small = SmallTable::new(all.iter().map(|(&(k, l), &v)| (wide(k), l + 96 - shift as u8, v)));
                let head = small.head();
                let keys: Vec<[u8; 16]> = keys.iter().map(|k| wide(*k).to_be_bytes()).collect();
                for level in levels() {
                    let mut out = vec![7; keys.len()];
                    lookup_each(level, &keys, &mut out, |_| Some(&head));
                    for (key, got) in keys.iter().zip(&out) {
                        let key = u128::from_be_bytes(*key);
                        prop_assert!(*got == small.lookup_one(key) || *got == ASK, "{:x}: {}", key, got);
                        let inside = small.starts.iter().any(|s| s >> 64 == key >> 64 && *s as u64 != 0);
                        prop_assert!(*got != ASK || inside || head == Head6::unknown(), "{:x}", key);
                    }
                }
            }
        }
    }
}
