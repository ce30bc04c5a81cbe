//! One size of the MAC table.
//!
//! Upholds: vector instructions run only on processors that have them, as [`Table::new`] makes sure.
#![allow(unsafe_code)]

use super::Entry;
use crate::CpuLevel;
use crate::mem::{Array, Zeroed, prefetch};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// Entries of a bucket.
pub(super) const ENTRIES: usize = 5;
/// Buckets that a key may stand in, from its own on.
const PROBES: usize = 64;
/// Buckets of a new table: 64 KiB.
pub(super) const LEAST_BUCKETS: usize = if cfg!(miri) { 4 } else { 1 << 10 };
/// Buckets of the largest: 256 MiB, 16 million addresses.
pub(super) const MOST_BUCKETS: usize = if cfg!(miri) { 64 } else { 1 << 22 };
/// From this size on huge pages are worth asking for.
const LARGE: usize = 1 << 15;

#[repr(C, align(64))]
pub(crate) struct Bucket {
    keys: [AtomicU64; ENTRIES],
    values: [AtomicU32; ENTRIES],
    /// Entries that went past it because it was full.
    passed: AtomicU32,
}

// SAFETY: made of atomic integers, and its alignment of 64 divides a page.
unsafe impl Zeroed for Bucket {}

pub(super) struct Table {
    buckets: Array<Bucket>,
    mask: usize,
    /// What the processor has.
    level: CpuLevel,
    seed: [u64; 4],
    /// Entries with a key.
    used: AtomicU32,
    /// A key found no room.
    failed: AtomicBool,
}

/// Where an entry stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    bucket: usize,
    entry: usize,
}

/// What became of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Another worker was faster.
    There,
    Full,
}

#[inline(always)]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// [`Table::position`] with one comparison of the whole bucket. What it sees of keys that change meanwhile does not matter:
/// a key counts once it was read again after its value.
///
/// # Safety
/// The processor has AVX-512F.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn position_wide(b: &Bucket, key: u64) -> usize {
    let hits: u32;
    // SAFETY: reads the 64 bytes of a bucket, as the processor does it and not as Rust does: other threads may write there.
    unsafe {
        std::arch::asm!(
            "vpbroadcastq zmm16, {key}",
            "vpcmpeqq k1, zmm16, zmmword ptr [{bucket}]",
            "kmovw {hits:e}, k1",
            key = in(reg) key,
            bucket = in(reg) b,
            hits = lateout(reg) hits,
            out("xmm16") _,
            out("k1") _,
            options(readonly, nostack, preserves_flags),
        );
    }
    // Behind the keys are the values.
    (hits | 1 << ENTRIES).trailing_zeros() as usize
}

impl Table {
    /// An empty table with a new seed; `buckets` is a power of two.
    pub fn new(buckets: usize, level: CpuLevel) -> io::Result<Self> {
        use std::hash::{BuildHasher, RandomState};
        // The standard library's hasher is keyed from the system's random numbers.
        let random = RandomState::new();
        let seed = std::array::from_fn(|i| random.hash_one((buckets, i)) | 1);
        let array = Array::reserve(buckets)?;
        if buckets >= LARGE {
            array.advise_huge();
        }
        Ok(Table {
            buckets: array,
            mask: buckets - 1,
            level: level.supported(),
            seed,
            used: AtomicU32::new(0),
            failed: AtomicBool::new(false),
        })
    }

    pub fn level(&self) -> CpuLevel {
        self.level
    }

    pub fn buckets(&self) -> usize {
        self.mask + 1
    }

    /// Entries with a key, live or dead.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed) as usize
    }

    /// True when a bigger one should take its place. Three fifths full is where searches start to get long.
    pub fn is_filled(&self) -> bool {
        self.used() > self.buckets() * ENTRIES / 5 * 3 || self.failed.load(Relaxed)
    }

    /// True while it has room for one more beside all that may still come from `old`.
    pub fn has_room_beside(&self, old: &Table) -> bool {
        self.used() + old.used() < self.buckets() * ENTRIES / 20 * 13
    }

    /// The bucket where a key belongs.
    #[inline(always)]
    pub fn home(&self, key: u64) -> u32 {
        let [a, b, c, d] = self.seed;
        (mix(mix(key ^ a, b) ^ c, d) >> 32) as u32 & self.mask as u32
    }

    #[inline(always)]
    pub fn prefetch(&self, home: u32) {
        prefetch(&self.buckets, home as usize);
    }

    #[inline(always)]
    fn bucket(&self, at: usize) -> &Bucket {
        &self.buckets[at & self.mask]
    }

    /// Which entry of a bucket has a key; [`ENTRIES`] when none has.
    #[inline(always)]
    fn position(&self, b: &Bucket, key: u64) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.level == CpuLevel::V4 {
            // SAFETY: the processor has AVX-512.
            return unsafe { position_wide(b, key) };
        }
        // Which entry it is, nobody can foretell: all keys are looked at without a branch.
        let mut at = ENTRIES;
        for (i, k) in b.keys.iter().enumerate().rev() {
            at = if k.load(Acquire) == key { i } else { at };
        }
        at
    }

    fn value(&self, p: Place) -> &AtomicU32 {
        &self.bucket(p.bucket).values[p.entry % ENTRIES]
    }

    /// The live entry of a key.
    #[inline(always)]
    pub fn find(&self, home: u32, key: u64) -> Entry {
        let b = self.bucket(home as usize);
        let at = self.position(b, key);
        if let (Some(value), Some(k)) = (b.values.get(at), b.keys.get(at)) {
            let value = Entry(value.load(Acquire));
            // The key once more after the value: while that is live, the key cannot become another one.
            if value.is_live() && k.load(Acquire) == key {
                return value;
            }
        } else if b.passed.load(Acquire) == 0 {
            return Entry::NONE;
        }
        self.search(home as usize, key)
    }

    /// The same for a key that is dead in its own bucket, or may stand behind it.
    #[inline(never)]
    fn search(&self, home: usize, key: u64) -> Entry {
        self.place_from(home, key).map_or(Entry::NONE, |(_, e)| if e.is_live() { e } else { Entry::NONE })
    }

    /// The place of a key and what stands there, dead or live; a live one first.
    pub fn place(&self, key: u64) -> Option<(Place, Entry)> {
        self.place_from(self.home(key) as usize, key)
    }

    fn place_from(&self, home: usize, key: u64) -> Option<(Place, Entry)> {
        let mut dead = None;
        for probe in 0..PROBES {
            let b = self.bucket(home + probe);
            for entry in 0..ENTRIES {
                let value = Entry(b.values[entry].load(Acquire));
                if b.keys[entry].load(Acquire) == key {
                    let found = (Place { bucket: home + probe, entry }, value);
                    if value.is_live() {
                        return Some(found);
                    }
                    dead.get_or_insert(found);
                }
            }
            if b.passed.load(Acquire) == 0 {
                break;
            }
        }
        dead
    }

    /// Changes what stands in a place, if it is still `was`; otherwise answers what stands there.
    pub fn change(&self, p: Place, was: Entry, to: Entry) -> Result<(), Entry> {
        self.value(p).compare_exchange(was.0, to.0, AcqRel, Acquire).map(|_| ()).map_err(Entry)
    }

    /// Puts a key that is not there into the first free entry near enough.
    pub fn put(&self, key: u64, value: Entry) -> Put {
        let home = self.home(key) as usize;
        for probe in 0..PROBES.min(self.buckets()) {
            let b = self.bucket(home + probe);
            for (k, v) in b.keys.iter().zip(&b.values) {
                let mut there = k.load(Acquire);
                if there == 0 {
                    match k.compare_exchange(0, key, AcqRel, Acquire) {
                        Ok(_) => {
                            self.used.fetch_add(1, Relaxed);
                            v.store(value.0, Release);
                            return Put::Done;
                        }
                        Err(other) => there = other,
                    }
                }
                if there == key {
                    self.unpass(home, probe);
                    return Put::There;
                }
            }
            // Before the key is there, so that no search ends in front of it.
            b.passed.fetch_add(1, AcqRel);
        }
        self.unpass(home, PROBES.min(self.buckets()));
        self.failed.store(true, Relaxed);
        Put::Full
    }

    /// An entry no longer went past this many buckets.
    fn unpass(&self, home: usize, probes: usize) {
        for before in 0..probes {
            self.bucket(home + before).passed.fetch_sub(1, AcqRel);
        }
    }

    /// How often entries went past full buckets.
    #[cfg(test)]
    pub fn passed(&self) -> u32 {
        (0..self.buckets()).map(|b| self.bucket(b).passed.load(Acquire)).sum()
    }

    /// Keys and entries from bucket `from` up to bucket `to`, live or not.
    pub fn iter(&self, from: usize, to: usize) -> impl Iterator<Item = (Place, u64, Entry)> + '_ {
        (from..to.min(self.buckets())).flat_map(move |bucket| {
            let b = self.bucket(bucket);
            (0..ENTRIES).filter_map(move |entry| {
                let value = Entry(b.values[entry].load(Acquire));
                let key = b.keys[entry].load(Acquire);
                (key != 0).then_some((Place { bucket, entry }, key, value))
            })
        })
    }

    /// Gives the place of a dead entry to whoever wants it, unless a worker has brought it back to life. All workers have
    /// passed since it died.
    pub fn free(&self, p: Place, key: u64, dead: Entry) {
        if self.change(p, dead, Entry::FREED).is_err() {
            return;
        }
        let home = self.home(key) as usize;
        self.unpass(home, p.bucket.wrapping_sub(home) & self.mask);
        self.used.fetch_sub(1, Relaxed);
        self.bucket(p.bucket).keys[p.entry % ENTRIES].store(0, Release);
    }
}
