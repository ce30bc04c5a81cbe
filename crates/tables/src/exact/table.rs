//! One size of the hash table, and the pointer to the one in use.
//!
//! Upholds: a table that was ever in use is freed with its `Current`, not before; when it is out of use and all readers
//! have passed, only its memory goes back to the system, and reads as empty buckets from then on.
#![allow(unsafe_code)]

use super::Key;
use crate::mem::Array;
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::sync::{Mutex, PoisonError};

/// Words of a bucket: keys, then values, and last how many entries went past it.
pub(super) const LINE: usize = 16;
const PASSED: usize = LINE - 1;
/// Buckets that a key may stand in, from its own on.
pub(super) const PROBES: usize = 32;
/// Value words: nothing was here, or it is gone but readers may still compare its key; live ones are 2 more than
/// their value.
pub(super) const EMPTY: u32 = 0;
pub(super) const GONE: u32 = 1;
pub(super) const LIVE: u32 = 2;

pub(super) struct Table<K> {
    words: Array<AtomicU32>,
    mask: usize,
    seed: [u64; 4],
    keys: PhantomData<fn(K)>,
}

impl<K: Key> Table<K> {
    /// An empty table with a new seed; `buckets` is a power of two.
    pub(super) fn new(buckets: usize) -> io::Result<Self> {
        use std::hash::{BuildHasher, RandomState};
        // The standard library's hasher is keyed from the system's random numbers.
        let random = RandomState::new();
        let seed = std::array::from_fn(|i| random.hash_one((buckets, i)) | 1);
        Ok(Table { words: Array::reserve(buckets * LINE)?, mask: buckets - 1, seed, keys: PhantomData })
    }

    pub(super) fn buckets(&self) -> usize {
        self.mask + 1
    }

    pub(super) fn words(&self) -> &[AtomicU32] {
        &self.words
    }

    /// The bucket where a key belongs.
    #[inline(always)]
    pub(super) fn home(&self, key: K) -> usize {
        (key.hash(&self.seed) >> 32) as usize & self.mask
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &[AtomicU32] {
        // Cannot fail: the mask fits the array. A slice of fixed length spares the checks inside.
        let at = (at & self.mask) * LINE;
        &self.words[at..at + LINE]
    }

    /// The place and value of a live key.
    #[inline(always)]
    pub(super) fn find(&self, home: usize, key: K) -> Option<(usize, u32)> {
        for probe in 0..PROBES {
            let bucket = self.bucket(home + probe);
            for entry in 0..K::ENTRIES {
                // The value before the key: a live value says that the key is whole.
                let value = bucket[K::ENTRIES * K::WORDS + entry].load(Acquire);
                let same = (0..K::WORDS)
                    .fold(0, |diff, w| diff | (bucket[entry * K::WORDS + w].load(Acquire) ^ key.word(w)));
                if same == 0 && value >= LIVE {
                    return Some((((home + probe) & self.mask) * K::ENTRIES + entry, value - LIVE));
                }
            }
            if bucket[PASSED].load(Acquire) == 0 {
                break;
            }
        }
        None
    }

    pub(super) fn value(&self, place: usize) -> &AtomicU32 {
        &self.bucket(place / K::ENTRIES)[K::ENTRIES * K::WORDS + place % K::ENTRIES]
    }

    pub(super) fn key(&self, place: usize) -> K {
        let bucket = self.bucket(place / K::ENTRIES);
        K::from_words(|w| bucket[place % K::ENTRIES * K::WORDS + w].load(Acquire))
    }

    /// Puts a key that is not there into the first free entry, if one is near enough.
    pub(super) fn place(&self, key: K, value: u32) -> bool {
        let home = self.home(key);
        for probe in 0..PROBES.min(self.buckets()) {
            let bucket = self.bucket(home + probe);
            for entry in 0..K::ENTRIES {
                let word = &bucket[K::ENTRIES * K::WORDS + entry];
                if word.load(Acquire) == EMPTY {
                    for w in 0..K::WORDS {
                        bucket[entry * K::WORDS + w].store(key.word(w), Release);
                    }
                    self.pass(home, probe, 1);
                    word.store(value + LIVE, Release);
                    return true;
                }
            }
        }
        false
    }

    /// Notes in the buckets before `home + probe` that an entry went past them, or no longer does.
    fn pass(&self, home: usize, probe: usize, change: u32) {
        for before in 0..probe {
            let passed = &self.bucket(home + before)[PASSED];
            passed.store(passed.load(Acquire).wrapping_add(change), Release);
        }
    }

    /// Takes a key out of its place; the place stays taken until it is `freed`.
    pub(super) fn take(&self, place: usize, key: K) {
        let home = self.home(key);
        self.value(place).store(GONE, Release);
        self.pass(home, (place / K::ENTRIES).wrapping_sub(home) & self.mask, u32::MAX);
    }

    pub(super) fn freed(&self, place: usize) {
        self.value(place).store(EMPTY, Release);
    }

    /// All keys with their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, u32)> + '_ {
        (0..self.buckets() * K::ENTRIES).filter_map(|place| {
            let value = self.value(place).load(Acquire);
            (value >= LIVE).then(|| (self.key(place), value - LIVE))
        })
    }
}

/// The table in use, and those that were.
pub(super) struct Current<K> {
    now: AtomicPtr<Table<K>>,
    before: Mutex<Vec<OldTable<K>>>,
}

struct OldTable<K>(*mut Table<K>);

// SAFETY: it owns the table, which may be sent.
unsafe impl<K: Key> Send for OldTable<K> {}

impl<K> Drop for OldTable<K> {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and nothing else owns it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl<K: Key> Current<K> {
    pub(super) fn new(table: Table<K>) -> Self {
        let now = AtomicPtr::new(Box::into_raw(Box::new(table)));
        Current { now, before: Mutex::new(Vec::new()) }
    }

    #[inline(always)]
    pub(super) fn get(&self) -> &Table<K> {
        // SAFETY: tables live as long as `self`.
        unsafe { &*self.now.load(Acquire) }
    }

    /// Puts another table in use; answers the number of the one before.
    pub(super) fn set(&self, table: Table<K>) -> usize {
        let old = self.now.swap(Box::into_raw(Box::new(table)), Release);
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        before.push(OldTable(old));
        before.len() - 1
    }

    /// Gives the memory of a table out of use back.
    pub(super) fn discard(&self, number: usize) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = before.get(number) {
            // SAFETY: tables live as long as `self`.
            unsafe { &*old.0 }.words.discard();
        }
    }
}

impl<K> Drop for Current<K> {
    fn drop(&mut self) {
        drop(OldTable(*self.now.get_mut()));
    }
}
