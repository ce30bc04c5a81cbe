use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, Hasher};

const SECOND: u64 = 1_000_000_000;
/// Later than its time no flow ends: a tick and the step of the clock.
const LATE: u64 = 1 << TICK;

/// An attacker's hash: many keys stand at the same places, with the same tag.
#[derive(Clone, Copy, Default)]
struct Weak(u64);

impl Hasher for Weak {
    fn finish(&self) -> u64 {
        self.0 % 3 * 0x0001_0000_0100_0001
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0 * 31 + u64::from(*b));
    }
}

#[derive(Clone, Debug)]
enum Do {
    Insert(u32, u64),
    Remove(u32),
    Touch(u32),
    Timeout(u32, u64),
    Pass(u64, usize),
}

fn step() -> impl Strategy<Value = Do> {
    let (key, secs) = (0u32..60, 1u64..40);
    prop_oneof![
        6 => (key.clone(), secs.clone()).prop_map(|(k, s)| Do::Insert(k, s)),
        1 => key.clone().prop_map(Do::Remove),
        3 => key.clone().prop_map(Do::Touch),
        1 => (key, secs.clone()).prop_map(|(k, s)| Do::Timeout(k, s)),
        3 => (secs, prop_oneof![Just(1usize), Just(3), Just(500)]).prop_map(|(s, most)| Do::Pass(s, most)),
    ]
}

/// Against a map of value, time of the last packet, and timeout. A flow ends between its time and one tick later.
fn compare<S: BuildHasher>(
    mut flows: Flows<u32, u64, S>,
    steps: Vec<Do>,
    full: bool,
) -> Result<(), TestCaseError> {
    let mut naive: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    let mut now = 5 * SECOND;
    let capacity = flows.flows.capacity();
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Do::Insert(key, secs) => {
                let there = naive.contains_key(&key);
                match flows.insert(key, n as u64, now, secs * SECOND) {
                    Ok(flow) => {
                        prop_assert!(there || naive.len() < capacity);
                        prop_assert_eq!(flows.get(flow), Some(&(n as u64)));
                        naive.insert(key, (n as u64, now, secs * SECOND));
                    }
                    Err(_) => prop_assert!(!there && (naive.len() == capacity || full)),
                }
            }
            Do::Remove(key) => prop_assert_eq!(flows.remove(&key), naive.remove(&key).map(|n| n.0)),
            Do::Touch(key) => {
                flows.find(&key).into_iter().for_each(|flow| flows.touch(flow, now));
                naive.entry(key).and_modify(|n| n.1 = now);
            }
            Do::Timeout(key, secs) => {
                flows.find(&key).into_iter().for_each(|f| flows.set_timeout(f, now, secs * SECOND));
                naive.entry(key).and_modify(|n| (n.1, n.2) = (now, secs * SECOND));
            }
            Do::Pass(secs, most) => {
                now += secs * SECOND;
                let mut ended = vec![];
                for calls in 0.. {
                    prop_assert!(calls < 1000);
                    if !flows.expire(now, most, |k, v| ended.push((k, v))) {
                        break;
                    }
                }
                for (key, value) in ended {
                    let n = naive.remove(&key);
                    prop_assert!(n.is_some_and(|n| n.0 == value && n.1 + n.2 <= now), "{} {:?}", key, n);
                }
                prop_assert!(naive.values().all(|n| n.1 + n.2 + LATE > now), "{:?} at {}", naive, now);
            }
        }
        prop_assert_eq!(flows.len(), naive.len());
        let keys: Vec<u32> = (0..60).cycle().take(300).collect();
        let mut found = vec![7; 300];
        flows.lookup(&keys, &mut found);
        for (key, flow) in keys.iter().zip(found) {
            prop_assert_eq!(flows.find(key).unwrap_or(NO_FLOW), flow);
            prop_assert_eq!(flows.get(flow).copied(), naive.get(key).map(|n| n.0));
        }
        let mut all: Vec<(u32, u64)> = flows.iter(0).map(|(_, k, v)| (*k, *v)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, naive.iter().map(|(k, n)| (*k, n.0)).collect::<Vec<_>>());
        prop_assert!(flows.due_ns().is_none_or(|due| naive.values().all(|n| due < n.1 + n.2 + LATE)));
    }
    prop_assert_eq!(
        (flows.flows.capacity(), flows.buckets.len()),
        (capacity, (2 * capacity).div_ceil(8).next_power_of_two())
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 300 }, failure_persistence: None, ..ProptestConfig::default()
    })]
    #[test]
    fn behaves_as_a_map(steps in prop::collection::vec(step(), 1..100), capacity in prop_oneof![Just(1usize), Just(10), Just(50)]) {
        compare(Flows::new(capacity, 0), steps, false)?;
    }

    #[test]
    fn keys_of_one_hash_are_told_apart_and_bounded(steps in prop::collection::vec(step(), 1..100)) {
        let hash = BuildHasherDefault::<Weak>::default();
        compare(Flows::with_hash(50, 0, hash), steps, true)?;
    }
}

#[test]
fn all_flows_that_were_asked_for_fit() {
    let capacity = if cfg!(miri) { 300 } else { 100_000 };
    for _ in 0..3 {
        let mut flows: Flows<u64, ()> = Flows::new(capacity, 0);
        for key in 0..capacity as u64 {
            assert!(flows.insert(key, (), 0, SECOND).is_ok(), "{key}");
        }
        assert!(flows.is_full() && flows.insert(u64::MAX, (), 0, SECOND).is_err());
        // All at one moment, some at a time.
        let (mut ended, mut calls) = (0, 0);
        while flows.expire(3 * SECOND, 64, |_, _| ended += 1) {
            calls += 1;
        }
        assert!(flows.is_empty() && ended == capacity && calls >= capacity / 64, "{ended} in {calls}");
    }
}

#[test]
fn a_bucket_is_a_cache_line() {
    assert_eq!(size_of::<Bucket>(), 64);
    let mut bucket = Bucket::default();
    (bucket.tags[3], bucket.tags[7]) = (9, 9);
    assert_eq!(bucket.matches(9), 1 << 3 | 1 << 7);
}
