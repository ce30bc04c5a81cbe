//! Values by both tags of a packet: a hash table of buckets that are searched without a branch for each place, because
//! packets of thousands of sub-interfaces come in an order that no processor foretells.

use super::{NONE, Tpid};
use std::collections::HashMap;

/// The key of both tags: the 25 low bits of a word. Bits of identifiers above the low 12 are ignored.
#[inline(always)]
pub fn key(tpid: Tpid, outer: u16, inner: u16) -> u32 {
    (tpid as u32) << 24 | u32::from(outer & 0xfff) << 12 | u32::from(inner & 0xfff)
}

/// What stands for no key; asked for, it has no value either.
const FREE: u32 = NONE;
/// Places of a bucket.
const PLACES: usize = 4;

/// Half a cache line. What a bucket has no place for stands in the next that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(32))]
struct Bucket {
    keys: [u32; PLACES],
    values: [u32; PLACES],
}

const EMPTY: Bucket = Bucket { keys: [FREE; PLACES], values: [NONE; PLACES] };

impl Bucket {
    /// Bit n where place n has the key.
    #[inline(always)]
    fn find(&self, key: u32) -> u32 {
        self.keys.iter().enumerate().map(|(n, k)| u32::from(*k == key) << n).sum()
    }
}

/// The table: at most half full.
#[derive(Debug, Clone)]
pub struct DoubleTable {
    buckets: Box<[Bucket]>,
    used: usize,
    /// What shifts a hash to a bucket.
    shift: u32,
}

impl Default for DoubleTable {
    fn default() -> Self {
        DoubleTable::with_room(0)
    }
}

impl DoubleTable {
    /// Without values, with room for so many.
    fn with_room(values: usize) -> Self {
        let bits = (2 * values).div_ceil(PLACES).max(2).next_power_of_two().trailing_zeros();
        DoubleTable { buckets: vec![EMPTY; 1 << bits].into(), used: 0, shift: 32 - bits }
    }

    /// Of these values.
    pub fn build(all: &HashMap<u32, u32>) -> Self {
        let mut table = DoubleTable::with_room(all.len());
        all.iter().for_each(|(key, value)| table.put(*key, Some(*value)));
        table
    }

    /// Whether one more value has room.
    pub fn has_room(&self) -> bool {
        2 * (self.used + 1) <= PLACES * self.buckets.len()
    }

    #[inline(always)]
    fn home(&self, key: u32) -> usize {
        // Both halves of the product: the upper alone shares out rows of tags unevenly, as operators give them.
        let product = u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((product >> 32) as u32 ^ product as u32) >> self.shift) as usize
    }

    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) % self.buckets.len()
    }

    /// Puts a value in, in place of the one that is there, or takes that out.
    pub fn put(&mut self, key: u32, value: Option<u32>) {
        let mut at = self.home(key);
        loop {
            let bucket = &mut self.buckets[at];
            let found = bucket.keys.iter().position(|k| *k == key);
            if let Some(n) = found {
                match value {
                    Some(value) => bucket.values[n] = value,
                    None => self.take_out(at, n),
                }
                return;
            }
            if let Some(n) = bucket.keys.iter().position(|k| *k == FREE) {
                if let Some(value) = value {
                    (bucket.keys[n], bucket.values[n]) = (key, value);
                    self.used += 1;
                }
                return;
            }
            at = self.next(at);
        }
    }

    /// Frees a place; what then would not be found any more, because its search would end there, is put in again.
    fn take_out(&mut self, mut at: usize, place: usize) {
        let mut was_full = !self.buckets[at].keys.contains(&FREE);
        (self.buckets[at].keys[place], self.buckets[at].values[place]) = (FREE, NONE);
        self.used -= 1;
        while was_full {
            at = self.next(at);
            was_full = !self.buckets[at].keys.contains(&FREE);
            for n in 0..PLACES {
                let Bucket { keys, values } = self.buckets[at];
                if keys[n] != FREE && self.home(keys[n]) != at {
                    (self.buckets[at].keys[n], self.buckets[at].values[n]) = (FREE, NONE);
                    self.used -= 1;
                    self.put(keys[n], Some(values[n]));
                }
            }
        }
    }

    /// Brings the place of a key near.
    #[inline(always)]
    pub fn prefetch(&self, key: u32) {
        crate::mem::prefetch(&self.buckets, self.home(key));
    }

    /// The value of a key, or [`NONE`].
    #[inline(always)]
    pub fn get(&self, key: u32) -> u32 {
        let Some(bucket) = self.buckets.get(self.home(key)) else { return NONE };
        match bucket.find(key) {
            0 => self.get_elsewhere(key, bucket),
            found => bucket.values[found.trailing_zeros() as usize % PLACES],
        }
    }

    #[cold]
    #[inline(never)]
    fn get_elsewhere(&self, key: u32, home: &Bucket) -> u32 {
        let (mut at, mut bucket) = (self.home(key), home);
        while !bucket.keys.contains(&FREE) {
            at = self.next(at);
            bucket = &self.buckets[at];
            let found = bucket.find(key);
            if found != 0 {
                return bucket.values[found.trailing_zeros() as usize % PLACES];
            }
        }
        NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tags as operators give them: few of them stand in another bucket than their own, which each lookup would notice.
    #[test]
    fn rows_of_tags_are_shared_out() {
        let rows =
            |outer: std::ops::Range<u16>, inner: std::ops::Range<u16>, step: usize| -> Vec<(u16, u16)> {
                outer.flat_map(|o| inner.clone().step_by(step).map(move |i| (o, i))).collect()
            };
        for tags in [
            rows(1..101, 1..101, 1),
            rows(5..6, 1..4095, 1),
            rows(1..4095, 7..8, 1),
            rows(100..103, 1..4001, 1),
            rows(1..30, 10..4000, 10),
            rows(1000..1064, 100..164, 1),
            (1..4095).map(|n| (n, n)).collect(),
        ] {
            let keys: Vec<u32> = tags.iter().map(|(o, i)| key(Tpid::Dot1ad, *o, *i)).collect();
            let table = DoubleTable::build(&keys.iter().map(|k| (*k, 1)).collect());
            let away = keys.iter().filter(|k| table.buckets[table.home(**k)].find(**k) == 0).count();
            assert!(away * 20 < keys.len(), "{away} of {} from {:?}", keys.len(), tags[0]);
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            changes in prop::collection::vec((0u32..40, prop::option::of(0u32..1000)), 1..200),
            apart in 1u32..10_000,
        ) {
            // Fuller than tables get: buckets have no place left, and what belongs there goes around.
            let mut table = DoubleTable::with_room(20);
            let mut map = HashMap::new();
            for (n, value) in changes {
                let key = (n * apart) & 0x1ff_ffff;
                table.put(key, value);
                match value {
                    Some(value) => map.insert(key, value),
                    None => map.remove(&key),
                };
                prop_assert_eq!(table.used, map.len());
                for n in 0..50 {
                    let key = (n * apart) & 0x1ff_ffff;
                    prop_assert_eq!(table.get(key), map.get(&key).copied().unwrap_or(NONE));
                }
            }
            let built = DoubleTable::build(&map);
            prop_assert!(map.iter().all(|(key, value)| built.get(*key) == *value));
        }
    }
}
