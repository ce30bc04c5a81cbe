//! Exact match: a hash table from `u64` or `u128` keys to numbers.
//!
//! Buckets are single cache lines with 5 or 3 entries. An entry counts once its value is there, which is
//! stored after its key; a key is overwritten only after all readers have passed the removal of its value. A bucket
//! says how many entries went past it because it was full, so that a search knows when to stop. A table
//! that fills up is copied into a bigger one, which takes its place by one store. The hash is keyed with random
//! numbers, so that nobody outside can choose keys that collide.

mod table;
mod writer;

pub use writer::ExactWriter;

use crate::mem::prefetch;
use std::io;
use std::sync::Arc;
use table::{Current, Table};

/// What a lookup answers for a key that is not there.
pub const NONE: u32 = u32::MAX;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for u128 {}
}

/// A key: `u64` or `u128`.
pub trait Key: sealed::Sealed + Copy + Eq + Send + Sync + std::fmt::Debug {
    /// 32-bit words of a key.
    #[doc(hidden)]
    const WORDS: usize;
    /// Entries of a bucket.
    #[doc(hidden)]
    const ENTRIES: usize;
    /// A word of the key, the lowest first.
    #[doc(hidden)]
    fn word(self, at: usize) -> u32;
    #[doc(hidden)]
    fn from_words(word: impl Fn(usize) -> u32) -> Self;
    #[doc(hidden)]
    fn hash(self, seed: &[u64; 4]) -> u64;
}

#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Key for u64 {
    const WORDS: usize = 2;
    const ENTRIES: usize = 5;
    #[inline(always)]
    fn word(self, at: usize) -> u32 {
        (self >> (32 * at)) as u32
    }
    fn from_words(word: impl Fn(usize) -> u32) -> u64 {
        u64::from(word(1)) << 32 | u64::from(word(0))
    }
    #[inline(always)]
    fn hash(self, seed: &[u64; 4]) -> u64 {
        mix(mix(self ^ seed[0], seed[1]) ^ seed[2], seed[3])
    }
}

impl Key for u128 {
    const WORDS: usize = 4;
    const ENTRIES: usize = 3;
    #[inline(always)]
    fn word(self, at: usize) -> u32 {
        (self >> (32 * at)) as u32
    }
    fn from_words(word: impl Fn(usize) -> u32) -> u128 {
        (0..4).rev().fold(0, |k, at| k << 32 | u128::from(word(at)))
    }
    #[inline(always)]
    fn hash(self, seed: &[u64; 4]) -> u64 {
        mix(mix(self as u64 ^ seed[0], (self >> 64) as u64 ^ seed[1]) ^ seed[2], seed[3])
    }
}

/// The table as workers see it.
pub struct Exact<K: Key> {
    current: Current<K>,
}

impl<K: Key> Exact<K> {
    /// An empty table that may grow to `limit` bytes.
    pub fn new(limit: Option<usize>) -> io::Result<(ExactWriter<K>, Arc<Exact<K>>)> {
        let shared = Arc::new(Exact { current: Current::new(Table::new(writer::LEAST_BUCKETS)?) });
        Ok((ExactWriter::new(shared.clone(), limit), shared))
    }

    /// The value of a key, or [`NONE`].
    #[inline]
    pub fn lookup_one(&self, key: K) -> u32 {
        let table = self.current.get();
        table.find(table.home(key), key).map_or(NONE, |(_, value)| value)
    }

    /// The values of `keys`, or [`NONE`], in the same places of `out`; as many as the shorter of the two has.
    pub fn lookup_batch(&self, keys: &[K], out: &mut [u32]) {
        const CHUNK: usize = 64;
        let table = self.current.get();
        let mut homes = [0; CHUNK];
        for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            for (home, &key) in homes.iter_mut().zip(keys) {
                *home = table.home(key);
                prefetch(table.words(), *home * table::LINE);
            }
            for ((&home, &key), out) in homes.iter().zip(keys).zip(out) {
                *out = table.find(home, key).map_or(NONE, |(_, value)| value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
