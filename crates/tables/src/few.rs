//! Longest-prefix match over few prefixes: the boundaries of ranges in order, with the value that holds from each on.
//!
//! A router with thousands of routing tables has mostly small ones. Such a table takes some cache lines instead of pages
//! of its own. It is never changed in place: a change makes a new one.

use crate::CpuLevel;
use crate::rib::Key;

/// Boundaries that are counted through for a key instead of being searched.
const SCAN: usize = 24;

/// Few prefixes as workers see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Few<K> {
    /// Where ranges start, in order; the first is 0.
    pub(crate) starts: Box<[K]>,
    /// The value of each range.
    pub(crate) values: Box<[u32]>,
}

impl<K: Key> Few<K> {
    /// The ranges of routes (prefix, length, value) in order of prefix and then length.
    pub(crate) fn new(routes: impl IntoIterator<Item = (K, u8, u32)>) -> Self {
        let (mut starts, mut values) = (vec![K::ZERO], vec![0]);
        // Prefixes over the place that is worked on: last address and value.
        let mut open: Vec<(K, u32)> = vec![];
        let mut put = |at: K, value: u32| {
            if starts.last() == Some(&at) {
                if let Some(v) = values.last_mut() {
                    *v = value;
                }
            } else if values.last() != Some(&value) {
                starts.push(at);
                values.push(value);
            }
        };
        let close = |open: &mut Vec<(K, u32)>, before: Option<K>, put: &mut dyn FnMut(K, u32)| {
            while let Some(&(last, _)) = open.last() {
                if before.is_some_and(|at| last >= at) {
                    break;
                }
                open.pop();
                if last != K::MAX {
                    put(last.next(), open.last().map_or(0, |o| o.1));
                }
            }
        };
        for (key, len, value) in routes {
            close(&mut open, Some(key), &mut put);
            put(key, value);
            open.push((key.last(len), value));
        }
        close(&mut open, None, &mut put);
        // Writing over the value of a boundary may have left two neighbours alike.
        let mut keep: Vec<bool> = values.windows(2).map(|w| w[0] != w[1]).collect();
        keep.insert(0, true);
        let mut flags = keep.iter();
        starts.retain(|_| flags.next().is_none_or(|k| *k));
        let mut flags = keep.iter();
        values.retain(|_| flags.next().is_none_or(|k| *k));
        Few { starts: starts.into(), values: values.into() }
    }

    /// The value of the longest prefix that holds `key`, or [`crate::MISS`].
    #[inline(always)]
    pub fn lookup_one(&self, key: K) -> u32 {
        let mut starts = &*self.starts;
        let mut base = 0;
        // The half to go on with is chosen without a branch.
        while starts.len() > 1 {
            let half = starts.len() / 2;
            let (low, high) = starts.split_at(half);
            let up = high[0] <= key;
            base += if up { half } else { 0 };
            starts = if up { high } else { low };
        }
        self.values.get(base).copied().unwrap_or(0)
    }
}

impl Few<u32> {
    /// Looks up `keys` and writes their values to the same places of `out`.
    #[inline]
    pub fn lookup_batch(&self, level: CpuLevel, keys: &[u32], out: &mut [u32]) {
        if self.starts.len() > SCAN {
            return keys.iter().zip(out).for_each(|(k, o)| *o = self.lookup_one(*k));
        }
        match level {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            CpuLevel::V3 | CpuLevel::V4 => wide(self, keys, out),
            _ => self.scan(keys, out),
        }
    }

    /// Counts the boundaries up to each key, eight keys at a time.
    #[inline(always)]
    fn scan(&self, keys: &[u32], out: &mut [u32]) {
        let (whole, rest) = keys.as_chunks::<8>();
        let (whole_out, rest_out) = out.split_at_mut(whole.len() * 8);
        for (keys, out) in whole.iter().zip(whole_out.as_chunks_mut::<8>().0) {
            let mut counts = [0u32; 8];
            for start in self.starts.iter().skip(1) {
                for (count, key) in counts.iter_mut().zip(keys) {
                    *count += u32::from(key >= start);
                }
            }
            for (o, count) in out.iter_mut().zip(counts) {
                *o = self.values.get(count as usize).copied().unwrap_or(0);
            }
        }
        rest.iter().zip(rest_out).for_each(|(k, o)| *o = self.lookup_one(*k));
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[allow(unsafe_code)]
fn wide(few: &Few<u32>, keys: &[u32], out: &mut [u32]) {
    #[target_feature(enable = "avx2")]
    fn avx2(few: &Few<u32>, keys: &[u32], out: &mut [u32]) {
        few.scan(keys, out);
    }
    // SAFETY: the caller's level says that the processor has AVX2.
    unsafe { avx2(few, keys, out) }
}

impl Few<u128> {
    /// Looks up addresses as they stand in packets.
    #[inline]
    pub fn lookup_batch(&self, keys: &[[u8; 16]], out: &mut [u32]) {
        for (k, o) in keys.iter().zip(out) {
            *o = self.lookup_one(u128::from_be_bytes(*k));
        }
    }
}
