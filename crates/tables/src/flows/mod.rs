//! Flows of one worker: what a node knows of each, by its key, and for how long.
//!
//! Bounded, and without allocation once it is made: memory is reserved at the start and touched when it is first used. Keys of a
//! whole vector are looked up at once, so that their cache lines come together. The hash is keyed with the system's random
//! numbers: who chooses addresses and ports does not choose where they stand.
//!
//! A flow has two buckets of eight places, by two halves of its hash, and stands in the emptier one. There are twice as many places
//! as flows, so both are full only where somebody knows the hash; such a flow is refused, as when all flows are taken.
//!
//! Each flow has a timeout. A packet of it costs one store ([`Flows::touch`]); its timer ([`graph::wheel`]) stays where it is,
//! and when it fires, finds out how much is left.
//!
//! ```
//! use tables::flows::{Flows, NO_FLOW};
//! let mut flows: Flows<(u32, u16), &str> = Flows::new(1000, 0);
//! let flow = flows.insert((1, 80), "one", 0, 2_000_000_000)?;
//! let mut found = [0; 2];
//! flows.lookup(&[(1, 80), (1, 81)], &mut found);
//! assert_eq!(found, [flow, NO_FLOW]);
//! flows.touch(flow, 1_500_000_000);
//! let mut ended = vec![];
//! flows.expire(3_000_000_000, 64, |key, value| ended.push((key, value)));
//! assert!(ended.is_empty(), "a packet came in between");
//! flows.expire(4_000_000_000, 64, |key, value| ended.push((key, value)));
//! assert_eq!(ended, [((1, 80), "one")]);
//! # Ok::<(), tables::flows::NoRoom>(())
//! ```

use graph::prefetch;
use graph::wheel::Wheel;
use std::hash::{BuildHasher, Hash, RandomState};

/// "No such flow."
pub const NO_FLOW: u32 = u32::MAX;

/// There is no room for another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no room for another flow")]
pub struct NoRoom;

/// Places of a bucket.
const PLACES: usize = 8;
/// Keys that are looked up at once: a vector.
const AT_ONCE: usize = graph::VECTOR_SIZE;
/// Ticks of timers are 2^this nanoseconds, 67 ms: timeouts are seconds.
const TICK: u32 = 26;

/// The places of some flows, in one cache line. An empty place has flow 0.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// 16 bits of the hash of each.
    tags: [u16; PLACES],
    /// Each one's number, plus 1.
    flows: [u32; PLACES],
}

impl Bucket {
    /// Places whose tag is this, a bit each. Compared all at once.
    #[inline(always)]
    fn matches(&self, tag: u16) -> u32 {
        let mut bits = 0;
        for (n, t) in self.tags.iter().enumerate() {
            bits |= u32::from(*t == tag) << n;
        }
        bits
    }

    fn taken(&self) -> usize {
        self.flows.iter().filter(|f| **f != 0).count()
    }
}

struct Flow<K, V> {
    key: K,
    /// None: the place is free, and `touched` says which follows.
    value: Option<V>,
    touched: u64,
    timeout: u64,
}

/// The flows of a worker. `S` is the hash: another than by default is for tests.
pub struct Flows<K, V, S = RandomState> {
    buckets: Box<[Bucket]>,
    flows: Vec<Flow<K, V>>,
    free: u32,
    len: usize,
    timers: Wheel,
    hash: S,
}

/// Where a key may stand, and its tag.
#[derive(Clone, Copy, Default)]
struct Where {
    buckets: [u32; 2],
    tag: u16,
}

impl<K: Copy + Eq + Hash, V> Flows<K, V> {
    /// Room for so many flows; the worker's clock is `now_ns`.
    pub fn new(capacity: usize, now_ns: u64) -> Self {
        Flows::with_hash(capacity, now_ns, RandomState::new())
    }
}

impl<K: Copy + Eq + Hash, V, S: BuildHasher> Flows<K, V, S> {
    fn with_hash(capacity: usize, now_ns: u64, hash: S) -> Self {
        let capacity = capacity.clamp(1, 1 << 28);
        Flows {
            buckets: vec![Bucket::default(); (2 * capacity).div_ceil(PLACES).next_power_of_two()].into(),
            flows: Vec::with_capacity(capacity),
            free: NO_FLOW,
            len: 0,
            timers: Wheel::new(capacity, TICK, now_ns),
            hash,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no other fits.
    pub fn is_full(&self) -> bool {
        self.len == self.flows.capacity()
    }

    /// Memory of all that there is room for, bytes.
    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
            + self.flows.capacity() * size_of::<Flow<K, V>>()
            + self.timers.bytes()
    }

    #[inline(always)]
    fn whereabouts(&self, key: &K) -> Where {
        let hash = self.hash.hash_one(key);
        let mask = self.buckets.len() as u32 - 1;
        Where { buckets: [hash as u32 & mask, (hash >> 24) as u32 & mask], tag: (hash >> 48) as u16 }
    }

    /// Bucket and place of a key, and its number.
    #[inline(always)]
    fn place(&self, key: &K, at: Where) -> Option<(usize, usize, u32)> {
        for b in at.buckets {
            let bucket = &self.buckets[b as usize];
            let mut left = bucket.matches(at.tag);
            while left != 0 {
                let place = left.trailing_zeros() as usize;
                left &= left - 1;
                let flow = bucket.flows[place].wrapping_sub(1);
                if self.flows.get(flow as usize).is_some_and(|f| f.key == *key) {
                    return Some((b as usize, place, flow));
                }
            }
        }
        None
    }

    /// The flow of a key.
    #[inline]
    pub fn find(&self, key: &K) -> Option<u32> {
        self.place(key, self.whereabouts(key)).map(|p| p.2)
    }

    /// The flows of all keys, or [`NO_FLOW`]; as many are found as `found` has room for.
    pub fn lookup(&self, keys: &[K], found: &mut [u32]) {
        let mut at = [Where::default(); AT_ONCE];
        for (keys, found) in keys.chunks(AT_ONCE).zip(found.chunks_mut(AT_ONCE)) {
            for (key, at) in keys.iter().zip(&mut at) {
                *at = self.whereabouts(key);
                at.buckets.iter().for_each(|b| prefetch(&raw const self.buckets[*b as usize]));
            }
            // The flow that a tag speaks for: mostly it is the one.
            for at in &at[..keys.len()] {
                for b in at.buckets {
                    let bucket = &self.buckets[b as usize];
                    let place = bucket.matches(at.tag).trailing_zeros() as usize;
                    if let Some(flow) = bucket.flows.get(place) {
                        prefetch(self.flows.as_ptr().wrapping_add(flow.wrapping_sub(1) as usize));
                    }
                }
            }
            for ((key, at), found) in keys.iter().zip(&at).zip(found) {
                *found = self.place(key, *at).map_or(NO_FLOW, |p| p.2);
            }
        }
    }

    /// Adds a flow, which ends when no packet comes for `timeout_ns`; one of this key that is there gets this value and timeout.
    ///
    /// # Errors
    /// There is no room for another.
    pub fn insert(&mut self, key: K, value: V, now_ns: u64, timeout_ns: u64) -> Result<u32, NoRoom> {
        let at = self.whereabouts(&key);
        let flow = Flow { key, value: Some(value), touched: now_ns, timeout: timeout_ns };
        if let Some((_, _, old)) = self.place(&key, at) {
            self.flows[old as usize] = flow;
            self.timers.start(old, now_ns.saturating_add(timeout_ns));
            return Ok(old);
        }
        let emptier = at.buckets.map(|b| (self.buckets[b as usize].taken(), b)).into_iter().min();
        let Some((_, b)) = emptier.filter(|e| e.0 < PLACES && !self.is_full()) else {
            return Err(NoRoom);
        };
        let number = match self.flows.get_mut(self.free as usize) {
            Some(slot) => {
                let number = self.free;
                self.free = slot.touched as u32;
                *slot = flow;
                number
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        let bucket = &mut self.buckets[b as usize];
        if let Some(place) = bucket.flows.iter().position(|f| *f == 0) {
            (bucket.tags[place], bucket.flows[place]) = (at.tag, number + 1);
        }
        self.len += 1;
        self.timers.start(number, now_ns.saturating_add(timeout_ns));
        Ok(number)
    }

    /// A packet of a flow came: its time begins anew.
    #[inline]
    pub fn touch(&mut self, flow: u32, now_ns: u64) {
        if let Some(f) = self.flows.get_mut(flow as usize).filter(|f| f.value.is_some()) {
            f.touched = now_ns;
        }
    }

    /// Gives a flow another timeout, and its time begins anew: a connection that was closed ends sooner.
    pub fn set_timeout(&mut self, flow: u32, now_ns: u64, timeout_ns: u64) {
        if let Some(f) = self.flows.get_mut(flow as usize).filter(|f| f.value.is_some()) {
            (f.touched, f.timeout) = (now_ns, timeout_ns);
            self.timers.start(flow, now_ns.saturating_add(timeout_ns));
        }
    }

    /// What is known of a flow.
    #[inline]
    pub fn get(&self, flow: u32) -> Option<&V> {
        self.flows.get(flow as usize)?.value.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, flow: u32) -> Option<&mut V> {
        self.flows.get_mut(flow as usize)?.value.as_mut()
    }

    /// Takes a flow out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (bucket, place, flow) = self.place(key, self.whereabouts(key))?;
        let bucket = &mut self.buckets[bucket];
        (bucket.tags[place], bucket.flows[place]) = (0, 0);
        self.timers.stop(flow);
        self.len -= 1;
        let f = &mut self.flows[flow as usize];
        f.touched = self.free.into();
        self.free = flow;
        f.value.take()
    }

    /// Takes flows out for which no packet came in their time, and tells which; looks at `most` timers at most. True when others
    /// are left for the next call.
    pub fn expire(&mut self, now_ns: u64, most: usize, mut ended: impl FnMut(K, V)) -> bool {
        let mut fired = [0; AT_ONCE];
        let mut n = 0;
        let most = most.min(fired.len());
        let more = self.timers.expire(now_ns, most, |flow| {
            fired[n] = flow;
            n += 1;
        });
        for flow in &fired[..n] {
            let f = &self.flows[*flow as usize];
            let (key, until) = (f.key, f.touched.saturating_add(f.timeout));
            if until > now_ns {
                self.timers.start(*flow, until);
            } else if let Some(value) = self.remove(&key) {
                ended(key, value);
            }
        }
        more
    }

    /// Before which clock no flow ends: how long its worker may sleep.
    pub fn due_ns(&self) -> Option<u64> {
        self.timers.due_ns()
    }

    /// All flows from number `from` on, with their numbers.
    pub fn iter(&self, from: u32) -> impl Iterator<Item = (u32, &K, &V)> {
        let flows = self.flows.iter().enumerate().skip(from as usize);
        flows.filter_map(|(n, f)| f.value.as_ref().map(|v| (n as u32, &f.key, v)))
    }
}

#[cfg(test)]
mod tests;
