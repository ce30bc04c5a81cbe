use super::*;
use crate::testing::{Clock, Stop};
use crate::{MAX_VALUE, MISS, RouteError, TableFull};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

type Naive = BTreeMap<(u32, u8), u32>;

fn mask(len: u8) -> u32 {
    if len == 0 { 0 } else { u32::MAX << (32 - len) }
}

fn naive(map: &Naive, key: u32) -> u32 {
    map.iter().filter(|(p, _)| key & mask(p.1) == p.0).max_by_key(|(p, _)| p.1).map_or(MISS, |(_, v)| *v)
}

fn table(level: CpuLevel) -> (Lpm4Writer, Arc<Lpm4>) {
    Lpm4::new(LpmConfig { level, ..Default::default() }).unwrap()
}

const LEVELS: [CpuLevel; 3] = [CpuLevel::V2, CpuLevel::V3, CpuLevel::V4];

fn prefix() -> impl Strategy<Value = (u32, u8)> {
    // Addresses from a few places, so that prefixes nest, and blocks come and go.
    let addr = prop_oneof![Just(0u32), Just(0x0a01_0200), Just(0x0a01_0300), Just(0xffff_ff00), any::<u32>()];
    let len = prop_oneof![2 => 22u8..=32, 1 => 14u8..=32, 1 => Just(0u8)];
    (addr, 0u32..256, len).prop_map(|(a, low, len)| ((a | low) & mask(len), len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn agrees_with_a_linear_scan(ops in prop::collection::vec((0u8..3, prefix(), 1u32..=MAX_VALUE), 1..120)) {
        let (mut w, t) = table(CpuLevel::V4);
        let mut map = Naive::new();
        for (i, (op, (addr, len), value)) in ops.into_iter().enumerate() {
            w.retire_epoch(i as u64);
            if op == 0 {
                prop_assert_eq!(w.remove(addr, len), map.remove(&(addr, len)));
            } else {
                prop_assert_eq!(w.insert(addr, len, value).unwrap(), map.insert((addr, len), value));
            }
            w.reclaim(i as u64);
            let mut keys = vec![0, u32::MAX, addr, addr.wrapping_sub(1), addr | !mask(len), (addr | !mask(len)).wrapping_add(1)];
            keys.extend(map.keys().flat_map(|p| [p.0, p.0 | !mask(p.1), p.0 ^ 0x55]));
            let want: Vec<u32> = keys.iter().map(|&k| naive(&map, k)).collect();
            let mut out = vec![7; keys.len()];
            for (k, v) in keys.iter().zip(&want) {
                prop_assert_eq!(t.lookup_one(*k), *v);
            }
            for level in LEVELS {
                t.lookup_batch_at(level, &keys, &mut out);
                prop_assert_eq!(&out, &want, "{:?}", level);
            }
        }
        let all: Vec<_> = w.iter().collect();
        prop_assert_eq!(all, map.iter().map(|(p, v)| (p.0, p.1, *v)).collect::<Vec<_>>());
        for (addr, len) in map.into_keys() {
            w.remove(addr, len);
        }
        w.retire_epoch(u64::MAX - 1);
        w.reclaim(u64::MAX);
        prop_assert_eq!(w.engine.free.len(), w.engine.inside.len());
        prop_assert!(w.is_empty() && w.engine.prefixes == 0);
        let written = |page: &usize| w.touched[page / 64] >> (page % 64) & 1 == 1;
        for page in (0..w.touched.len() * 64).filter(written) {
            let entries = &t.root[page * 1024..][..1024];
            prop_assert!(entries.iter().all(|e| e.load(Relaxed) == 0), "page {page}");
        }
    }
}

#[test]
fn batches_of_any_length() {
    for level in LEVELS {
        let (mut w, t) = table(level);
        w.insert(0x0a000000, 8, 1).unwrap();
        w.insert(0x0a000080, 25, 2).unwrap();
        w.insert(0, 0, 3).unwrap();
        for n in 0..=600 {
            let keys: Vec<u32> = (0..n).map(|i| [0x0a000001, 0x0a0000ff, 0x0b000000][i % 3]).collect();
            let mut out = vec![0; n];
            t.lookup_batch(&keys, &mut out);
            assert!(out.iter().enumerate().all(|(i, &v)| v == [1, 2, 3][i % 3]), "{n} {level:?} {out:?}");
        }
        let mut short = [9; 3];
        t.lookup_batch(&[0x0a000001], &mut short);
        assert_eq!(short, [1, 9, 9]);
    }
}

#[test]
fn refuses_what_makes_no_sense() {
    let (mut w, t) = table(CpuLevel::V2);
    assert_eq!(w.insert(0, 33, 1), Err(RouteError::Length(33)));
    assert_eq!(w.insert(0, 8, 0), Err(RouteError::Value(0)));
    assert_eq!(w.insert(0, 8, 1 << 31), Err(RouteError::Value(1 << 31)));
    assert_eq!(w.remove(0, 33), None);
    assert_eq!((w.len(), t.lookup_one(1)), (0, MISS));
}

#[test]
fn a_full_table_keeps_answering_and_takes_replacements() {
    let (mut w, t) = table(CpuLevel::V2);
    w.insert(0x0a000000, 16, 1).unwrap();
    w.set_limit(Some(w.bytes() + 4500));
    let mut held = Vec::new();
    let refused = loop {
        let addr = 0x0a000000 + ((held.len() as u32) << 8);
        match w.insert(addr, 32, 2) {
            Ok(_) => held.push(addr),
            Err(e) => break (addr, e),
        }
    };
    assert!(matches!(refused.1, RouteError::Full(TableFull { limit, used, .. }) if used <= limit));
    assert!(refused.1.to_string().starts_with("IPv4 routes is full: "));
    assert!(held.len() >= 2 && w.len() == held.len() + 1, "{}", held.len());
    assert_eq!(t.lookup_one(refused.0), 1);
    assert!(held.iter().all(|&a| t.lookup_one(a) == 2 && t.lookup_one(a + 1) == 1));
    assert_eq!(w.insert(held[0], 32, 3), Ok(Some(2)));
    assert_eq!(t.lookup_one(held[0]), 3);
    // What is taken out is room again, once it is reclaimed.
    w.remove(held[0], 32);
    w.reclaim(1);
    assert_eq!(w.insert(refused.0, 32, 4), Ok(None));
    assert_eq!(t.lookup_one(refused.0), 4);
}

#[test]
fn a_block_is_not_used_again_before_its_epoch() {
    let (mut w, t) = table(CpuLevel::V2);
    w.insert(0, 32, 1).unwrap();
    w.retire_epoch(5);
    w.remove(0, 32);
    assert_eq!((w.retired(), t.lookup_one(0)), (1, MISS));
    w.reclaim(5);
    w.insert(0x100, 32, 1).unwrap();
    assert_eq!((w.retired(), w.engine.inside.len()), (1, 2));
    w.reclaim(6);
    w.insert(0x200, 32, 1).unwrap();
    assert_eq!((w.retired(), w.engine.inside.len()), (0, 2));
}

#[test]
fn readers_see_the_old_answer_or_the_new_one() {
    const KEY: u32 = 0x0a01_02fe;
    let rounds = 3000;
    // Covers and covered: in the root, in a block, a block made and unmade, the default.
    for (cover, len) in [
        (0, 32),
        (0, 20),
        (8, 16),
        (16, 30),
        (24, 25),
        (26, 32),
        (0, 8),
        (23, 24),
        (3, 12),
        (12, 13),
        (1, 32),
    ] {
        let (mut w, t) = table(CpuLevel::V4);
        let clock = Clock::new(2);
        clock.step(|n| assert!(w.insert(KEY, cover, n).is_ok()));
        std::thread::scope(|s| {
            for me in 0..2 {
                let (clock, t) = (&clock, &t);
                s.spawn(move || {
                    clock.read(me, |out| {
                        out.resize(64, 0);
                        t.lookup_batch(&[KEY; 64][..out.len()], out);
                        out.push(t.lookup_one(KEY));
                    })
                });
            }
            let _stop = Stop(&clock);
            clock.wait_for_readers();
            for _ in 0..rounds {
                w.retire_epoch(clock.epoch());
                clock.step(|n| assert!(w.insert(KEY, cover, n).is_ok()));
                clock.step(|n| assert!(w.insert(KEY, len, n).is_ok()));
                // Something else in the way of collapsing, now and then.
                let other = clock.epoch().is_multiple_of(3) && len < 32;
                if other {
                    w.insert(KEY ^ 1, 32, 1).unwrap();
                }
                clock.step(|n| assert!(w.insert(KEY, len, n).is_ok()));
                clock.hidden(|n| assert!(w.insert(KEY, cover, n).is_ok()));
                clock.reveal(|| assert!(w.remove(KEY, len).is_some()));
                if other {
                    w.remove(KEY ^ 1, 32).unwrap();
                }
                let safe = clock.advance();
                w.reclaim(safe);
            }
        });
    }
}

#[test]
fn a_hidden_short_prefix_is_never_seen() {
    const KEY: u32 = 0x0a01_02fe;
    let (mut w, t) = table(CpuLevel::V4);
    crate::testing::never_seen(
        |len, value| match value {
            0 => drop(w.remove(KEY, len)),
            _ => drop(w.insert(KEY, len, value)),
        },
        [0, 3, 12],
        20,
        |out| {
            t.lookup_batch(&[KEY; 256][..out.len()], out);
            out[0] = t.lookup_one(KEY);
        },
    );
}
