//! Batches by the wide instructions of x86-64.

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
