use super::*;
use crate::testing::{Clock, Stop};
use crate::{MAX_VALUE, MISS, RouteError, TableFull};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

type Naive = BTreeMap<(u128, u8), u32>;

const LEVELS: [CpuLevel; 3] = [CpuLevel::V2, CpuLevel::V3, CpuLevel::V4];

fn mask(len: u8) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len) }
}

fn naive(map: &Naive, key: u128) -> u32 {
    map.iter().filter(|(p, _)| key & mask(p.1) == p.0).max_by_key(|(p, _)| p.1).map_or(MISS, |(_, v)| *v)
}

fn table(level: CpuLevel) -> (Lpm6Writer, Arc<Lpm6>) {
    Lpm6::new(LpmConfig { level, ..Default::default() }).unwrap()
}

const SITE: u128 = 0x2001_0db8_0000_0000_0000_0000_0000_0000;

fn prefix() -> impl Strategy<Value = (u128, u8)> {
    // Addresses that differ in a few places, so that prefixes nest, and nodes come, fill and go.
    let len = prop_oneof![
        4 => 24u8..=48,
        1 => 14u8..=24,
        2 => 48u8..=128,
        1 => Just(128u8),
        1 => Just(0u8),
        3 => prop::sample::select(vec![32u8, 40, 48, 56, 64, 80, 112])
    ];
    let base = prop_oneof![4 => Just(SITE), 1 => Just(0u128), 1 => Just(!0u128), 1 => any::<u128>()];
    let place = prop::sample::select(vec![0u32, 8, 16, 48, 56, 64, 72, 80, 80, 88, 89, 96]);
    (base, any::<u8>(), place, 0u128..4, len)
        .prop_map(|(base, byte, at, low, len)| ((base ^ u128::from(byte) << at ^ low) & mask(len), len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn agrees_with_a_linear_scan(
        ops in prop::collection::vec((0u8..3, prefix(), prop_oneof![1u32..4, 1u32..=MAX_VALUE]), 1..200),
        reclaim in any::<bool>(),
    ) {
        let (mut w, t) = table(CpuLevel::V4);
        let mut map = Naive::new();
        let last = ops.len() - 1;
        for (i, (op, (addr, len), value)) in ops.into_iter().enumerate() {
            w.retire_epoch(i as u64);
            if op == 0 {
                // Of a prefix that is there, if any.
                let (addr, len) = *map.range((addr, len)..).next().map_or(&(addr, len), |(p, _)| p);
                prop_assert_eq!(w.remove(addr, len), map.remove(&(addr, len)));
            } else {
                prop_assert_eq!(w.insert(addr, len, value).unwrap(), map.insert((addr, len), value));
            }
            if reclaim {
                w.reclaim(i as u64);
            }
            let mut keys = vec![0, !0, addr, addr.wrapping_sub(1), addr | !mask(len), (addr | !mask(len)).wrapping_add(1)];
            if i % 16 == 0 || i == last {
                keys.extend(map.keys().flat_map(|p| [p.0, p.0 | !mask(p.1), p.0 ^ 0x55, p.0 ^ 1 << 80, (p.0 | !mask(p.1)).wrapping_add(1)]));
            }
            let want: Vec<u32> = keys.iter().map(|&k| naive(&map, k)).collect();
            let bytes: Vec<[u8; 16]> = keys.iter().map(|k| k.to_be_bytes()).collect();
            for (k, v) in keys.iter().zip(&want) {
                prop_assert_eq!(t.lookup_one(k), *v, "{:x}", k);
            }
            for level in LEVELS {
                let mut out = vec![7; keys.len()];
                t.lookup_batch_at(level, &keys, &mut out);
                prop_assert_eq!(&out, &want, "{:?}", level);
                out.fill(7);
                t.lookup_batch_at(level, &bytes, &mut out);
                prop_assert_eq!(&out, &want, "{:?}", level);
            }
            // Keys that go down together: they differ in their last bits, or in some bits somewhere.
            let low = [104, 1, 9, 17, 40, 55, 63, 64, 80, 88, 96, 103][i % 12];
            let differ = if i % 2 == 0 { !mask(128 - low) } else { 0xff << (i * 8 % 104) };
            let under = |k: u128| (addr & !differ | k & differ).to_be_bytes();
            let bits = (0..104).map(|b| under(addr ^ 1 << b));
            let ends = map.keys().flat_map(|p| [p.0, p.0 | !mask(p.1)]).map(under);
            let near: Vec<[u8; 16]> = bits.chain(ends).chain([under(addr); 3]).collect();
            let want: Vec<u32> = near.iter().map(|k| naive(&map, u128::from_be_bytes(*k))).collect();
            for level in LEVELS {
                let mut out = vec![7; near.len()];
                t.lookup_batch_at(level, &near, &mut out);
                prop_assert_eq!(&out, &want, "{:?}, differing in {:x}", level, differ);
            }
        }
        let all: Vec<_> = w.iter().collect();
        prop_assert_eq!(all, map.iter().map(|(p, v)| (p.0, p.1, *v)).collect::<Vec<_>>());
        let roots: Vec<usize> = map.keys().map(|p| (p.0 >> 104) as usize).collect();
        for (addr, len) in map.into_keys() {
            w.remove(addr, len);
        }
        prop_assert!(w.is_empty() && roots.iter().all(|&r| t.root[r].load(Relaxed) == 0));
        w.reclaim(u64::MAX);
        prop_assert_eq!(w.engine.spare_bytes(), w.engine.bytes());
    }
}

#[test]
fn nodes_grow_full_and_small_again() {
    let (mut w, t) = table(CpuLevel::V4);
    w.insert(SITE, 32, 1).unwrap();
    let site = |i: u128| SITE | i << 88;
    for i in 0..256 {
        w.insert(site(i), 40, 2 + i as u32).unwrap();
        assert_eq!((t.lookup_one(&site(i)), t.lookup_one(&(site(i) | 77))), (2 + i as u32, 2 + i as u32));
    }
    let keys: Vec<u128> = (0..256).map(|i| site(i) | 5).collect();
    let mut out = vec![0; 256];
    t.lookup_batch(&keys, &mut out);
    assert!(out.iter().enumerate().all(|(i, &v)| v == 2 + i as u32));
    for i in 0..256 {
        assert_eq!(w.remove(site(i), 40), Some(2 + i as u32));
        assert_eq!(t.lookup_one(&site(i)), 1);
        assert!(i == 255 || t.lookup_one(&site(255)) == 257);
    }
}

#[test]
fn host_routes_go_all_the_way_down() {
    let (mut w, t) = table(CpuLevel::V4);
    w.insert(SITE, 48, 9).unwrap();
    for i in 0..600u32 {
        w.insert(SITE | u128::from(i), 128, 10 + i).unwrap();
    }
    for i in 0..600u32 {
        assert_eq!(t.lookup_one(&(SITE | u128::from(i)).to_be_bytes()), 10 + i);
    }
    assert_eq!(t.lookup_one(&(SITE | 600)), 9);
    for i in 0..600u32 {
        assert_eq!(w.remove(SITE | u128::from(i), 128), Some(10 + i));
    }
    assert_eq!((t.lookup_one(&SITE), t.lookup_one(&(SITE | 599))), (9, 9));
}

#[test]
fn one_bit_is_enough_to_part_keys() {
    // A skip alone, and below others.
    for wide in [None, Some((SITE, 32)), Some((SITE | 7 << 88, 40))] {
        let (mut w, t) = table(CpuLevel::V4);
        let mut map = Naive::from([((SITE | 1, 128), 5)]);
        map.extend(wide.map(|p| (p, 9)));
        for ((prefix, len), value) in &map {
            w.insert(*prefix, *len, *value).unwrap();
        }
        for (bit, level) in (0..128).flat_map(|bit| LEVELS.map(|l| (bit, l))) {
            let keys = [SITE | 1, (SITE | 1) ^ 1 << bit, SITE | 1];
            let mut out = [0; 3];
            t.lookup_batch_at(level, &keys, &mut out);
            assert_eq!(out, keys.map(|k| naive(&map, k)), "bit {bit}, {level:?}");
        }
    }
}

#[test]
fn refuses_what_makes_no_sense() {
    let (mut w, t) = table(CpuLevel::V2);
    assert_eq!(w.insert(0, 129, 1), Err(RouteError::Length(129)));
    assert_eq!(w.insert(0, 8, 0), Err(RouteError::Value(0)));
    assert_eq!(w.remove(0, 129), None);
    assert_eq!((w.len(), t.lookup_one(&1u128)), (0, MISS));
}

#[test]
fn a_full_table_keeps_answering_and_takes_replacements() {
    let (mut w, t) = table(CpuLevel::V2);
    w.insert(SITE, 32, 1).unwrap();
    w.set_limit(Some(w.bytes() + 20_000));
    let mut held = Vec::new();
    let refused = loop {
        let addr = SITE | (held.len() as u128) << 80;
        match w.insert(addr, 64, 2) {
            Ok(_) => held.push(addr),
            Err(e) => break (addr, e),
        }
        w.retire_epoch(held.len() as u64);
        w.reclaim(held.len() as u64);
    };
    assert!(matches!(refused.1, RouteError::Full(TableFull { limit, used, .. }) if used <= limit));
    assert!(held.len() > 20 && w.len() == held.len() + 1);
    assert_eq!(t.lookup_one(&refused.0), 1);
    assert!(held.iter().all(|a| t.lookup_one(a) == 2 && t.lookup_one(&(a | 1 << 64)) == 1));
    assert_eq!(w.insert(held[0], 64, 3), Ok(Some(2)));
    assert_eq!(t.lookup_one(&held[0]), 3);
    // What is taken out is room again, once it is reclaimed.
    for a in &held[..20] {
        w.remove(*a, 64);
    }
    w.reclaim(u64::MAX);
    assert_eq!(w.insert(refused.0, 64, 4), Ok(None));
    assert_eq!(t.lookup_one(&refused.0), 4);
}

#[test]
fn readers_see_the_old_answer_or_the_new_one() {
    const KEY: u128 = SITE | 0xfe << 80 | 0x77 << 88;
    let rounds = 2000;
    // Covers and covered: in the root, in nodes, a chain made and unmade, the default, a node growing full and back.
    let cases = [
        (0, 128),
        (0, 48),
        (20, 32),
        (20, 33),
        (32, 48),
        (40, 41),
        (44, 48),
        (47, 64),
        (64, 128),
        (0, 20),
        (3, 16),
        (12, 48),
        (16, 17),
    ];
    for (cover, len) in cases {
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
                        out.push(t.lookup_one(&KEY));
                    })
                });
            }
            let _stop = Stop(&clock);
            clock.wait_for_readers();
            for round in 0..rounds {
                w.retire_epoch(clock.epoch());
                clock.step(|n| assert!(w.insert(KEY, cover, n).is_ok()));
                clock.step(|n| assert!(w.insert(KEY, len, n).is_ok()));
                // Neighbours in the same node, which make it full now and then.
                let others = if len % 8 == 0 && len > 24 { [0, 3, 30][round % 3] } else { 0 };
                let other = |i: u128| KEY ^ (i + 1) << (128 - len);
                for i in 0..others {
                    w.insert(other(i), len, 5 + i as u32).unwrap();
                }
                clock.step(|n| assert!(w.insert(KEY, len, n).is_ok()));
                clock.hidden(|n| assert!(w.insert(KEY, cover, n).is_ok()));
                clock.reveal(|| assert!(w.remove(KEY, len).is_some()));
                for i in 0..others {
                    w.remove(other(i), len).unwrap();
                }
                let safe = clock.advance();
                w.reclaim(safe);
            }
        });
    }
}

#[test]
fn a_hidden_short_prefix_is_never_seen() {
    const KEY: u128 = SITE | 0xfe << 80;
    let (mut w, t) = table(CpuLevel::V4);
    crate::testing::never_seen(
        |len, value| match value {
            0 => drop(w.remove(KEY, len)),
            _ => drop(w.insert(KEY, len, value)),
        },
        [0, 3, 16],
        20,
        |out| {
            t.lookup_batch(&[KEY; 256][..out.len()], out);
            out[0] = t.lookup_one(&KEY);
        },
    );
}
