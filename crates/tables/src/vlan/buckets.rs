//! Values by tags: a hash table of buckets that are searched without a branch for each place, because packets of thousands of
//! sub-interfaces come in an order that no processor foretells.

use std::collections::HashMap;

/// What stands for no key.
const FREE: u32 = u32::MAX;
/// Places of a bucket.
const PLACES: usize = 4;

/// Half a cache line with values of a word. What a bucket has no place for stands in the next that has one.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Bucket<V> {
    keys: [u32; PLACES],
    values: [V; PLACES],
}

impl<V: Copy> Bucket<V> {
    #[inline(always)]
    fn get(&self, key: u32) -> Option<V> {
        let hits: u32 = self.keys.iter().enumerate().map(|(n, k)| u32::from(*k == key) << n).sum();
        (hits != 0).then(|| self.values[hits.trailing_zeros() as usize % PLACES])
    }

    fn place(&self, key: u32) -> Option<usize> {
        self.keys.iter().position(|k| *k == key)
    }
}

/// The table: at most half full. Keys are below `u32::MAX`.
#[derive(Debug, Clone)]
pub struct Buckets<V> {
    buckets: Box<[Bucket<V>]>,
    used: usize,
    /// What shifts a hash to a bucket.
    shift: u32,
    /// The answer for a key that is not there.
    none: V,
}

impl<V: Copy> Buckets<V> {
    /// Without values, with room for so many.
    pub fn with_room(values: usize, none: V) -> Self {
        let bits = (2 * values).div_ceil(PLACES).max(2).next_power_of_two().trailing_zeros();
        let empty = Bucket { keys: [FREE; PLACES], values: [none; PLACES] };
        Buckets { buckets: vec![empty; 1 << bits].into(), used: 0, shift: 32 - bits, none }
    }

    /// Of these values.
    pub fn build(all: &HashMap<u32, V>, none: V) -> Self {
        let mut table = Buckets::with_room(all.len(), none);
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

    fn set(&mut self, at: usize, place: usize, key: u32, value: V) {
        let bucket = &mut self.buckets[at];
        (bucket.keys[place], bucket.values[place]) = (key, value);
    }

    /// Puts a value in, in place of the one that is there, or takes that out.
    pub fn put(&mut self, key: u32, value: Option<V>) {
        let mut at = self.home(key);
        loop {
            let bucket = &self.buckets[at];
            match (bucket.place(key), bucket.place(FREE), value) {
                (Some(place), _, Some(value)) => return self.set(at, place, key, value),
                (Some(place), _, None) => return self.take_out(at, place),
                (None, Some(place), Some(value)) => {
                    self.used += 1;
                    return self.set(at, place, key, value);
                }
                (None, Some(_), None) => return,
                (None, None, _) => at = self.next(at),
            }
        }
    }

    /// Frees a place; what then would not be found any more, because its search would end there, is put in again.
    fn take_out(&mut self, mut at: usize, place: usize) {
        let mut was_full = self.buckets[at].place(FREE).is_none();
        self.set(at, place, FREE, self.none);
        self.used -= 1;
        while was_full {
            at = self.next(at);
            was_full = self.buckets[at].place(FREE).is_none();
            for place in 0..PLACES {
                let (key, value) = (self.buckets[at].keys[place], self.buckets[at].values[place]);
                if key != FREE && self.home(key) != at {
                    self.set(at, place, FREE, self.none);
                    self.used -= 1;
                    self.put(key, Some(value));
                }
            }
        }
    }

    /// Brings the place of a key near.
    #[inline(always)]
    pub fn prefetch(&self, key: u32) {
        crate::mem::prefetch(&self.buckets, self.home(key));
    }

    /// The value of a key, or the one for none.
    #[inline(always)]
    pub fn get(&self, key: u32) -> V {
        let home = self.buckets.get(self.home(key)).and_then(|bucket| bucket.get(key));
        home.unwrap_or_else(|| self.get_elsewhere(key))
    }

    #[cold]
    #[inline(never)]
    fn get_elsewhere(&self, key: u32) -> V {
        let mut at = self.home(key);
        while self.buckets[at].place(FREE).is_none() {
            at = self.next(at);
            if let Some(value) = self.buckets[at].get(key) {
                return value;
            }
        }
        self.none
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, Tpid, double_key};
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
            let keys: Vec<u32> = tags.iter().map(|(o, i)| double_key(Tpid::Dot1ad, *o, *i)).collect();
            let table = Buckets::build(&keys.iter().map(|k| (*k, 1)).collect(), NONE);
            let away = keys.iter().filter(|k| table.buckets[table.home(**k)].get(**k).is_none()).count();
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
            let mut table = Buckets::with_room(20, NONE);
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
            let built = Buckets::build(&map, NONE);
            prop_assert!(map.iter().all(|(key, value)| built.get(*key) == *value));
        }
    }
}
