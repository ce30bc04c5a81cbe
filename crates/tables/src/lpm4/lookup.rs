//! Lookups in a root of 24 bits and blocks of 8: one, a batch in scalar code, and a batch with AVX2 gathers.
//!
//! Upholds: root indices are below 2^24 and the root is as long; a block's number in an entry was put
//! there by the writer, so that its 256 entries lie in the array of blocks; the array of short prefixes is empty, or
//! has an entry for each value of the key's first bits. Gathers read
//! words that another thread may store to; on x86-64 an aligned 32-bit lane is read whole, and loads
//! are not reordered with loads, which makes them as good as acquire loads.
#![allow(unsafe_code)]

use super::{BLOCK, POINTER};
use crate::CpuLevel;
use crate::fallback::Rest;
use crate::mem::prefetch;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

#[inline(always)]
fn load(array: &[AtomicU32], index: usize) -> u32 {
    debug_assert!(index < array.len());
    // SAFETY: see the head of this module.
    unsafe { array.get_unchecked(index) }.load(Acquire)
}

#[inline(always)]
fn below(entry: u32, key: u32) -> usize {
    (entry & !POINTER) as usize * BLOCK + (key & 0xff) as usize
}

#[inline(always)]
pub(crate) fn one(root: &[AtomicU32], blocks: &[AtomicU32], key: u32, rest: Rest<'_>) -> u32 {
    let mut e = load(root, (key >> 8) as usize);
    if e & POINTER != 0 {
        e = load(blocks, below(e, key));
    }
    rest.or(e, key)
}

#[inline(always)]
pub(crate) fn batch(
    level: CpuLevel,
    root: &[AtomicU32],
    blocks: &[AtomicU32],
    keys: &[u32],
    out: &mut [u32],
    rest: Rest<'_>,
) {
    match level {
        // Gathers of AVX-512 are no faster (decision 0002).
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the level is one that the processor has.
        CpuLevel::V3 | CpuLevel::V4 => unsafe { wide::avx2(root, blocks, keys, out, rest) },
        _ => scalar(root, blocks, keys, out, rest),
    }
}

/// Prefetches the root's entries. A gather waits for all its words before the next begins to miss.
#[inline(never)]
pub(crate) fn fetch(root: &[AtomicU32], keys: &[u32]) {
    keys.iter().for_each(|k| prefetch(root, (k >> 8) as usize));
}

/// Keys whose second loads are kept in flight together.
const CHUNK: usize = 256;

fn scalar(root: &[AtomicU32], blocks: &[AtomicU32], keys: &[u32], out: &mut [u32], rest: Rest<'_>) {
    let mut deep = [0u8; CHUNK];
    for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        for &k in keys {
            prefetch(root, (k >> 8) as usize);
        }
        let mut n = 0;
        for (i, (&k, o)) in keys.iter().zip(out.iter_mut()).enumerate() {
            let e = load(root, (k >> 8) as usize);
            *o = rest.or(e, k);
            deep[n] = i as u8;
            // Without a branch: few keys go on, but which ones cannot be foretold.
            n += (e >> 31) as usize;
            prefetch(blocks, if e & POINTER != 0 { below(e, k) } else { 0 });
        }
        for &i in &deep[..n.min(CHUNK)] {
            let (k, o) = (keys[i as usize], &mut out[i as usize]);
            *o = rest.or(load(blocks, below(*o, k)), k);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod wide {
    use super::*;
    use std::arch::x86_64::*;

    /// # Safety
    /// The processor has AVX2; see also the head of the module.
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn avx2(
        root: &[AtomicU32],
        blocks: &[AtomicU32],
        keys: &[u32],
        out: &mut [u32],
        rest: Rest<'_>,
    ) {
        let (rp, bp) = (root.as_ptr().cast::<i32>(), blocks.as_ptr().cast::<i32>());
        let (low, fall) = (_mm256_set1_epi32(0xff), _mm256_set1_epi32(rest.default as i32));
        let (short, shift) = (rest.short.as_ptr().cast::<i32>(), _mm256_set1_epi32(rest.shift as i32));
        let whole = keys.len() & !7;
        let (head, tail) = keys.split_at(whole);
        let (out, tail_out) = out.split_at_mut(whole);
        for (keys, out) in head.chunks_exact(8).zip(out.chunks_exact_mut(8)) {
            // SAFETY: the chunk holds eight keys; indices as the module says.
            unsafe {
                let k = _mm256_loadu_si256(keys.as_ptr().cast());
                let mut e = _mm256_i32gather_epi32::<4>(rp, _mm256_srli_epi32::<8>(k));
                if _mm256_movemask_ps(_mm256_castsi256_ps(e)) != 0 {
                    let at = _mm256_or_si256(_mm256_slli_epi32::<8>(e), _mm256_and_si256(k, low));
                    e = _mm256_mask_i32gather_epi32::<4>(e, bp, at, e);
                }
                let mut none = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
                if _mm256_movemask_epi8(none) != 0 && !rest.short.is_empty() {
                    e = _mm256_mask_i32gather_epi32::<4>(e, short, _mm256_srlv_epi32(k, shift), none);
                    none = _mm256_cmpeq_epi32(e, _mm256_setzero_si256());
                }
                let e = _mm256_blendv_epi8(e, fall, none);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), e);
            }
        }
        for (&k, o) in tail.iter().zip(tail_out) {
            *o = one(root, blocks, k, rest);
        }
    }
}
