//! Lookups of IPv6 keys: one, and a batch that goes down level by level, with the next level's lines on their way.
//! The first 32 bits are looked up as an IPv4 address would be.
//!
//! Upholds: a node's place in an entry was put there by
//! the writer, so that its one or 16 lines lie in the array of nodes. A small node's starts never change while readers
//! can see it; the 16-byte load that takes them also takes the first entry, which another thread may
//! store to, and leaves it aside.
#![allow(unsafe_code)]

use super::{FULL, LINE, POINTER};
use crate::CpuLevel;
use crate::flat;
use crate::mem::prefetch;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Acquire;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u128 {}
    impl Sealed for [u8; 16] {}
}

/// An IPv6 address: `[u8; 16]` as in a packet, or `u128` as a number.
pub trait Address: sealed::Sealed + Copy {
    /// The first 32 bits.
    #[doc(hidden)]
    fn head(&self) -> u32;
    /// A byte, the first of the address being 0.
    #[doc(hidden)]
    fn byte(&self, at: usize) -> u8;
}

impl Address for u128 {
    #[inline(always)]
    fn head(&self) -> u32 {
        (self >> 96) as u32
    }
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        (self >> (120 - 8 * (at & 15))) as u8
    }
}

impl Address for [u8; 16] {
    #[inline(always)]
    fn head(&self) -> u32 {
        u32::from_be_bytes([self[0], self[1], self[2], self[3]])
    }
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        self[at & 15]
    }
}

#[inline(always)]
fn load(array: &[AtomicU32], index: usize) -> u32 {
    debug_assert!(index < array.len());
    // SAFETY: see the head of this module.
    unsafe { array.get_unchecked(index) }.load(Acquire)
}

#[inline(always)]
fn base(pointer: u32) -> usize {
    (pointer & !(POINTER | FULL)) as usize * LINE
}

/// All ones where the entry is a node of the full form. Arithmetic, because the compiler makes a branch of
/// a condition, and which keys meet which form cannot be foretold.
#[inline(always)]
fn full(entry: u32) -> usize {
    (((entry << 1) as i32) >> 31) as usize
}

/// The word that a step down from an entry needs first; some word where there is no step.
#[inline(always)]
fn first_word(entry: u32, byte: u8) -> usize {
    let node = ((entry as i32) >> 31) as usize & base(entry);
    node + (full(entry) & byte as usize)
}

/// How many starts of the small node at a word are at or below a byte.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn count_starts<const POPCNT: bool>(nodes: &[AtomicU32], at: usize, byte: u8) -> usize {
    use std::arch::x86_64::*;
    debug_assert!(at + LINE <= nodes.len());
    // SAFETY: the line lies in the array, see the head of this module; SSE2 is always there.
    unsafe {
        let starts = _mm_load_si128(nodes.as_ptr().add(at).cast());
        let below = _mm_cmpeq_epi8(_mm_min_epu8(starts, _mm_set1_epi8(byte as i8)), starts);
        if POPCNT {
            return (_mm_movemask_epi8(below) & 0xfff).count_ones() as usize;
        }
        let sums = _mm_sad_epu8(
            _mm_and_si128(below, _mm_set_epi32(0, 0x0101_0101, 0x0101_0101, 0x0101_0101)),
            _mm_setzero_si128(),
        );
        (_mm_cvtsi128_si32(sums) + _mm_extract_epi16::<4>(sums)) as usize
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
fn count_starts<const POPCNT: bool>(nodes: &[AtomicU32], at: usize, byte: u8) -> usize {
    super::node::run_of(&nodes[at..at + LINE], byte)
}

/// The entry below `pointer` for a byte.
#[inline(always)]
fn step<const POPCNT: bool>(nodes: &[AtomicU32], pointer: u32, byte: u8) -> u32 {
    let at = base(pointer);
    let full = full(pointer);
    // In a full node the count is thrown away, and made from the line that is needed anyhow.
    let line = at + (full & byte as usize & !(LINE - 1));
    let run = super::node::STARTS + count_starts::<POPCNT>(nodes, line, byte);
    load(nodes, at + (full & byte as usize) + (!full & run))
}

pub(super) fn one<A: Address>(root: &[AtomicU32], nodes: &[AtomicU32], key: &A, default: u32) -> u32 {
    let mut e = flat::one(root, nodes, key.head(), default);
    let mut at = 4;
    while e & POINTER != 0 {
        e = step::<false>(nodes, e, key.byte(at));
        at += 1;
    }
    if e == 0 { default } else { e }
}

#[inline(always)]
pub(super) fn batch<A: Address>(
    level: CpuLevel,
    root: &[AtomicU32],
    nodes: &[AtomicU32],
    keys: &[A],
    out: &mut [u32],
    default: u32,
) {
    let mut heads = [0; CHUNK];
    for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
        for (h, k) in heads.iter_mut().zip(keys) {
            *h = k.head();
        }
        flat::batch(level, root, nodes, &heads[..keys.len()], out, default);
        match level {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: the level is one that the processor has.
            CpuLevel::V4 => unsafe { v4(nodes, keys, out, default) },
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            // SAFETY: as above.
            CpuLevel::V3 => unsafe { v3(nodes, keys, out, default) },
            _ => descend::<A, false>(nodes, keys, out, default),
        }
    }
}

/// Keys that go down together.
const CHUNK: usize = 256;

/// Goes on from the entries for the first 32 bits in `out`, as many as there are keys, at most `CHUNK`.
#[inline(always)]
fn descend<A: Address, const POPCNT: bool>(nodes: &[AtomicU32], keys: &[A], out: &mut [u32], default: u32) {
    let mut deep = [0u32; CHUNK];
    let mut n = 0;
    for (i, (k, &e)) in keys.iter().zip(out.iter()).enumerate() {
        prefetch(nodes, first_word(e, k.byte(4)));
        deep[n & (CHUNK - 1)] = i as u32;
        n += (e >> 31) as usize;
    }
    if n == 0 {
        return;
    }
    let mut at = 4;
    while n > 0 {
        let mut left = 0;
        for j in 0..n {
            let i = deep[j & (CHUNK - 1)];
            // SAFETY: `deep` holds indices of both.
            let (k, o) = unsafe { (keys.get_unchecked(i as usize), out.get_unchecked_mut(i as usize)) };
            let e = step::<POPCNT>(nodes, *o, k.byte(at));
            *o = e;
            prefetch(nodes, first_word(e, k.byte(at + 1)));
            deep[left & (CHUNK - 1)] = i;
            left += (e >> 31) as usize;
        }
        n = left;
        at += 1;
    }
    for o in out {
        *o = if *o == 0 { default } else { *o };
    }
}

/// # Safety
/// The processor has AVX-512 and what comes with it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn v4<A: Address>(nodes: &[AtomicU32], keys: &[A], out: &mut [u32], default: u32) {
    descend::<A, true>(nodes, keys, out, default);
}

/// # Safety
/// The processor has AVX2 and what comes with it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn v3<A: Address>(nodes: &[AtomicU32], keys: &[A], out: &mut [u32], default: u32) {
    descend::<A, true>(nodes, keys, out, default);
}
