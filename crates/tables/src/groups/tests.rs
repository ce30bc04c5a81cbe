use super::*;
use crate::testing::{Clock, Stop};
use proptest::prelude::*;

const DROP: Entry = Entry { kind: 0, adj: 0 };

#[test]
fn group_0_and_unknown_ones_resolve_to_the_zero_entry() {
    let (_, g) = Groups::new(16).unwrap();
    assert!([0, 1, 15, 16, u32::MAX].iter().all(|&id| g.resolve(GroupId(id), 9) == DROP));
}

#[test]
fn same_paths_share_a_group() {
    let (mut w, g) = Groups::new(16).unwrap();
    let (a, b) = (Path::new(1, 10), Path::new(1, 20));
    let one = w.acquire(&[a]).unwrap();
    let two = w.acquire(&[a, b]).unwrap();
    assert_eq!((one, two), (GroupId(1), GroupId(2)));
    assert_eq!(w.acquire(&[b, a]), Ok(two));
    assert_eq!(w.acquire(&[Path { weight: 7, ..a }]), Ok(one));
    assert_eq!(w.acquire(&[Path { weight: 7, ..a }, Path { weight: 7, ..b }]), Ok(two));
    assert_eq!((w.users(one), w.users(two), w.len()), (2, 3, 2));
    assert_eq!(g.resolve(one, 77), a.entry);
    assert_eq!((g.resolve(two, 0), g.resolve(two, 1), g.resolve(two, 2)), (a.entry, b.entry, a.entry));
    let mut out = [DROP; 3];
    g.resolve_batch(&[two, GroupId::NONE, one], &[1, 1, 1], &mut out);
    assert_eq!(out, [b.entry, DROP, a.entry]);
}

#[test]
fn numbers_and_buckets_wait_for_their_epoch() {
    let (mut w, g) = Groups::new(3).unwrap();
    let (a, b, c) = (Path::new(1, 1), Path::new(1, 2), Path::new(1, 3));
    let id = w.acquire(&[a, b]).unwrap();
    w.acquire(&[c]).unwrap();
    w.retire_epoch(3);
    w.set(id, &[a, c]).unwrap();
    assert!(w.release(id) && !w.release(id));
    assert_eq!(g.resolve(id, 1), c.entry, "a worker may still come from a route");
    w.reclaim(3);
    assert!(matches!(w.acquire(&[b]), Err(GroupError::Full(_))));
    assert_eq!(w.retired(), 2);
    w.reclaim(4);
    assert_eq!((w.retired(), g.resolve(id, 1)), (0, DROP));
    assert_eq!(w.acquire(&[b]), Ok(id));
    assert_eq!(w.used, 4, "buckets of two arrays");
    w.set(id, &[a, b]).unwrap();
    assert_eq!(w.used, 4);
}

#[test]
fn set_moves_a_group_and_keeps_sharing_right() {
    let (mut w, g) = Groups::new(16).unwrap();
    let (a, b) = (Path::new(1, 1), Path::new(2, 2));
    let x = w.acquire(&[a]).unwrap();
    let y = w.acquire(&[b]).unwrap();
    w.set(x, &[b]).unwrap();
    assert_eq!((g.resolve(x, 0), w.acquire(&[b])), (b.entry, Ok(y)));
    let z = w.acquire(&[a]).unwrap();
    assert!(z != x);
    w.set(y, &[a]).unwrap();
    w.release(x);
    assert_eq!(w.acquire(&[a]), Ok(z));
    assert_eq!(w.set(GroupId(9), &[a]), Err(GroupError::Unknown(GroupId(9))));
    assert_eq!(w.iter().map(|(id, p)| (id, p[0])).collect::<Vec<_>>(), [(y, a), (z, a)]);
}

#[test]
fn refuses_what_makes_no_sense() {
    let (mut w, _) = Groups::new(16).unwrap();
    assert_eq!(w.acquire(&[]), Err(GroupError::Paths(0)));
    let many: Vec<Path> = (0..257).map(|i| Path::new(1, i)).collect();
    assert_eq!(w.acquire(&many), Err(GroupError::Paths(257)));
    assert!(w.acquire(&many[..256]).is_ok());
    let none = Path { weight: 0, ..many[0] };
    assert_eq!(w.acquire(&[none]), Err(GroupError::Path { weight: 0, kind: 1 }));
    assert!(w.acquire(&[Path::new(128, 0)]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn flows_follow_the_weights(weights in prop::collection::vec(prop_oneof![1u32..20, 1u32..=u32::MAX], 1..if cfg!(miri) { 6 } else { 60 })) {
        let (mut w, g) = Groups::new(4).unwrap();
        let paths: Vec<Path> = weights.iter().enumerate()
            .map(|(i, &weight)| Path { entry: Entry { kind: 1, adj: i as u32 }, weight }).collect();
        let id = w.acquire(&paths).unwrap();
        let buckets = w.buckets(id);
        let n = buckets.len();
        prop_assert!(n.is_power_of_two() && n <= MAX_BUCKETS);
        let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        // Paths too light for a bucket take one from the others.
        let light = weights.iter().filter(|&&w| f64::from(w) / total * (n as f64) < 1.0).count();
        for (i, &weight) in weights.iter().enumerate() {
            let got = (0..n as u32).filter(|&h| g.resolve(id, h | 0x1000).adj == i as u32).count();
            prop_assert!(got >= 1);
            let ideal = f64::from(weight) / total * n as f64;
            prop_assert!((got as f64 - ideal).abs() < 1.0 + light as f64, "{} for {} of {}", got, ideal, n);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn only_flows_that_must_move_do(
        steps in prop::collection::vec(prop::collection::btree_map(0u32..24, 1u32..9, 1..20), 2..6),
    ) {
        let (mut w, _) = Groups::new(64).unwrap();
        let of = |m: &std::collections::BTreeMap<u32, u32>| -> Vec<Path> {
            m.iter().map(|(&adj, &weight)| Path { entry: Entry { kind: 1, adj }, weight }).collect()
        };
        let id = w.create(&of(&steps[0])).unwrap();
        for pair in steps.windows(2) {
            // A path goes first, then the others come and go.
            let mut less = pair[0].clone();
            if less.len() > 2 {
                let gone = *less.keys().next_back().unwrap();
                less.remove(&gone);
                let before = w.buckets(id);
                w.set(id, &of(&less)).unwrap();
                let after = w.buckets(id);
                for hash in 0..256usize {
                    let (b, a) = (before[hash % before.len()], after[hash % after.len()]);
                    prop_assert!(b == a || b.adj == gone, "flow {} moved from {} to {}, {} went", hash, b.adj, a.adj, gone);
                }
            }
            let before = w.buckets(id);
            let beside = w.create_after(&of(&pair[1]), id, 1).unwrap();
            w.set(id, &of(&pair[1])).unwrap();
            let after = w.buckets(id);
            prop_assert_eq!(w.buckets(beside), &after[..], "made after a group it is as that becomes");
            let (n, total) = (after.len() as f64, f64::from(pair[1].values().sum::<u32>()));
            for (&adj, &weight) in &pair[1] {
                let got = after.iter().filter(|e| e.adj == adj).count() as f64;
                let ideal = f64::from(weight) / total * n;
                // A path too light for a bucket has one at the cost of others.
                let light = pair[1].values().filter(|&&w| f64::from(w) / total * n < 1.0).count() as f64;
                prop_assert!(pair[1].len() == 1 || (got - ideal).abs() < 1.0 + light, "{} for {} of {}", got, ideal, n);
                // Nobody gains a flow from a path that is left and has not more than its share.
                if less.contains_key(&adj) && n as usize >= before.len() {
                    let had = before.iter().filter(|e| e.adj == adj).count() as f64 * n / before.len() as f64;
                    let stayed = (0..n as usize)
                        .filter(|h| before[h % before.len()].adj == adj && after[*h].adj == adj)
                        .count() as f64;
                    prop_assert!(stayed >= had.min(ideal) - 2.0, "{} stayed of {}, {} is fair", stayed, had, ideal);
                }
            }
        }
    }
}

#[test]
fn a_group_may_have_more_buckets_than_it_needs() {
    let (mut w, _) = Groups::new(8).unwrap();
    let paths = [1, 2, 3].map(|n| Path::new(1, n));
    let id = w.create_after(&paths[..2], GroupId::NONE, 33).unwrap();
    let count = |w: &GroupsWriter, p: Path| w.buckets(id).iter().filter(|e| **e == p.entry).count();
    assert_eq!([count(&w, paths[0]), count(&w, paths[1])], [32, 32]);
    // Also after it had one path alone.
    w.set(id, &paths[..1]).unwrap();
    w.set(id, &paths).unwrap();
    assert_eq!(w.buckets(id).len(), 64);
    let id = w.create_after(&paths, GroupId(99), 9999).unwrap();
    assert_eq!(w.buckets(id).len(), MAX_BUCKETS);
}

#[test]
fn readers_see_the_old_paths_or_the_new_ones() {
    let clock = Clock::new(2);
    let (mut w, g) = Groups::new(8).unwrap();
    let mut id = GroupId::NONE;
    clock.step(|n| id = w.acquire(&[Path::new(1, n)]).unwrap());
    std::thread::scope(|s| {
        for me in 0..2 {
            let (clock, g) = (&clock, &g);
            s.spawn(move || clock.read(me, |out| out.extend((0..9).map(|h| g.resolve(id, h).adj))));
        }
        let _stop = Stop(&clock);
        clock.wait_for_readers();
        for i in 0..if cfg!(miri) { 20 } else { 20_000u32 } {
            w.retire_epoch(clock.epoch());
            // Kinds tell paths apart; every packet goes to the same adjacency.
            clock.step(|n| {
                w.set(id, &(0..1 + i % 5).map(|k| Path::new(k as u8, n)).collect::<Vec<_>>()).unwrap()
            });
            let safe = clock.advance();
            w.reclaim(safe);
        }
    });
}
