use super::*;
use crate::RouteError;
use crate::testing::{Clock, Stop};
use proptest::prelude::*;
use std::collections::HashMap;

fn agrees<K: Key + std::hash::Hash + Ord>(ops: &[(u8, K, u32)]) {
    let (mut w, t) = Exact::<K>::new(None).unwrap();
    let mut map = HashMap::new();
    for (i, &(op, key, value)) in ops.iter().enumerate() {
        w.retire_epoch(i as u64);
        if op == 0 {
            assert_eq!(w.remove(key), map.remove(&key));
        } else {
            assert_eq!(w.insert(key, value).unwrap(), map.insert(key, value));
        }
        w.reclaim(i as u64);
        assert_eq!(t.lookup_one(key), map.get(&key).copied().unwrap_or(NONE));
        assert_eq!((w.get(key), w.len()), (map.get(&key).copied(), map.len()));
    }
    let keys: Vec<K> = ops.iter().map(|o| o.1).collect();
    let mut out = vec![7; keys.len() + 1];
    t.lookup_batch(&keys, &mut out);
    assert_eq!(out.pop(), Some(7));
    for (k, v) in keys.iter().zip(out) {
        assert_eq!(v, map.get(k).copied().unwrap_or(NONE));
    }
    let mut all: Vec<_> = w.iter().collect();
    all.sort();
    let mut want: Vec<_> = map.into_iter().collect();
    want.sort();
    assert_eq!(all, want);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
    #[test]
    fn agrees_with_a_map(ops in prop::collection::vec((0u8..3, 0u64..400, 0..=crate::MAX_VALUE), 1..if cfg!(miri) { 60 } else { 2000 })) {
        agrees::<u64>(&ops.iter().map(|&(op, k, v)| (op, k * 0x1_0000_0001, v)).collect::<Vec<_>>());
        agrees::<u128>(&ops.iter().map(|&(op, k, v)| (op, u128::from(k) << 64 | 5, v)).collect::<Vec<_>>());
    }
}

#[test]
fn grows_and_gives_the_old_tables_back() {
    let n = if cfg!(miri) { 300 } else { 200_000 };
    let (mut w, t) = Exact::<u64>::new(None).unwrap();
    let before = w.bytes();
    for k in 0..n {
        w.insert(k << 20, k as u32).unwrap();
    }
    assert!(w.bytes() > before && w.retired() > 0);
    assert!(w.bytes() as u64 <= n.max(1000) * 40, "{} bytes for {n} keys", w.bytes());
    w.reclaim(1);
    assert_eq!(w.retired(), 0);
    assert!((0..n).all(|k| t.lookup_one(k << 20) == k as u32 && t.lookup_one(k << 20 | 1) == NONE));
}

#[test]
fn churn_does_not_make_it_grow() {
    let (mut w, t) = Exact::<u128>::new(None).unwrap();
    for k in 0..100u128 {
        w.insert(k, 1).unwrap();
    }
    let before = w.bytes();
    for k in 0..if cfg!(miri) { 500 } else { 50_000u128 } {
        w.retire_epoch(k as u64);
        assert_eq!(w.remove(k), Some(1));
        w.reclaim(k as u64);
        w.insert(k + 100, 1).unwrap();
    }
    assert!(w.bytes() <= 2 * before);
    assert_eq!((w.len(), t.lookup_one(7)), (100, NONE));
}

#[test]
fn a_full_table_keeps_answering() {
    let (mut w, t) = Exact::<u64>::new(Some(64 * 64)).unwrap();
    let mut n = 0;
    let full = loop {
        match w.insert(n, n as u32) {
            Ok(_) => n += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(full, RouteError::Full(f) if f.limit == 4096 && f.used == 4096));
    assert!(n > 100 && (0..n).all(|k| t.lookup_one(k) == k as u32) && t.lookup_one(n) == NONE);
    assert_eq!(w.insert(0, 9), Ok(Some(0)));
    w.set_limit(None);
    assert_eq!(w.insert(n, 1), Ok(None));
    assert_eq!(w.insert(n, 1 << 31), Err(RouteError::Value(1 << 31)));
}

#[test]
fn readers_see_the_old_answer_or_the_new_one() {
    let clock = Clock::new(2);
    let (mut w, t) = Exact::<u128>::new(None).unwrap();
    let keys = [1u128, 1 << 100];
    clock.step(|n| keys.iter().for_each(|&k| assert!(w.insert(k, n).is_ok())));
    std::thread::scope(|s| {
        for me in 0..2 {
            let (clock, t) = (&clock, &t);
            s.spawn(move || {
                clock.read(me, |out| {
                    out.resize(2, 0);
                    t.lookup_batch(&keys, out);
                    // Keys that come and go have values that say which they are.
                    for k in 2..60u128 {
                        let v = t.lookup_one(k << 64 | !k & 0xffff);
                        assert!(v == NONE || u128::from(v) == k);
                    }
                })
            });
        }
        let _stop = Stop(&clock);
        clock.wait_for_readers();
        for i in 0..if cfg!(miri) { 20 } else { 20_000u128 } {
            w.retire_epoch(clock.epoch());
            clock.step(|n| keys.iter().for_each(|&k| assert!(w.insert(k, n).is_ok())));
            let other = |i: u128| (2 + i % 58) << 64 | !(2 + i % 58) & 0xffff;
            w.insert(other(i), (2 + i % 58) as u32).unwrap();
            w.remove(other(i + 29));
            // Growing, now and then.
            if i < 3000 {
                w.insert(1 << 127 | i, 0).unwrap();
            }
            let safe = clock.advance();
            w.reclaim(safe);
        }
    });
}
