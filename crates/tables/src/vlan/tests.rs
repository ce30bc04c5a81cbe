use super::*;
use proptest::prelude::*;

fn takes(rule: Match, tags: Tags) -> bool {
    match rule {
        Match::Default => true,
        Match::Untagged => tags.count == 0,
        Match::Tagged { tpid, outer, inner, exact } => {
            let asked = 1 + u8::from(inner.is_some());
            let is = |vid, tag| vid == Vid::Any || vid == Vid::Id(tag);
            tags.count >= asked
                && (!exact || tags.count == asked)
                && tags.tpid == tpid
                && is(outer, tags.outer)
                && inner.is_none_or(|vid| is(vid, tags.inner))
        }
    }
}

fn rank(rule: Match) -> (u8, u8, u8, bool) {
    match rule {
        Match::Default => (0, 0, 0, false),
        Match::Untagged => (1, 0, 0, false),
        Match::Tagged { outer, inner, exact, .. } => {
            let inner = match inner {
                None => 0,
                Some(Vid::Any) => 1,
                Some(Vid::Id(_)) => 2,
            };
            (1, u8::from(outer != Vid::Any), inner, exact)
        }
    }
}

fn vid() -> impl Strategy<Value = Vid> {
    prop_oneof![Just(Vid::Any), (0u16..4).prop_map(Vid::Id), Just(Vid::Id(4095))]
}

fn tpid() -> impl Strategy<Value = Tpid> {
    prop_oneof![Just(Tpid::Dot1q), Just(Tpid::Dot1ad)]
}

fn rule() -> impl Strategy<Value = Match> {
    let tagged = (tpid(), vid(), prop::option::of(vid()), any::<bool>())
        .prop_map(|(tpid, outer, inner, exact)| Match::Tagged { tpid, outer, inner, exact });
    prop_oneof![1 => Just(Match::Default), 1 => Just(Match::Untagged), 20 => tagged]
}

proptest! {
    #[test]
    fn agrees_with_a_linear_search(mut rules in prop::collection::vec(rule(), 0..40)) {
        let mut seen = std::collections::HashSet::new();
        rules.retain(|r| seen.insert(*r));
        let rules: Vec<(Match, u32)> = rules.into_iter().zip(100..).collect();
        let table = VlanTable::build(&rules).unwrap();
        for count in 0..=3 {
            for tpid in [Tpid::Dot1q, Tpid::Dot1ad] {
                for outer in [0, 1, 2, 3, 7, 4095] {
                    for inner in [0, 1, 2, 3, 7, 4095] {
                        let tags = Tags { count, tpid, outer, inner };
                        let best = rules.iter().filter(|r| takes(r.0, tags)).max_by_key(|r| rank(r.0));
                        prop_assert_eq!(table.lookup(tags), best.map(|r| r.1), "{:?}", tags);
                        match count {
                            1 => prop_assert_eq!(table.single(tpid, outer), best.map_or(NONE, |r| r.1)),
                            2 => {
                                let found = table.double(tpid, outer, inner);
                                prop_assert!(found == NONE || Some(found) == best.map(|r| r.1), "{:?}", tags);
                                let named = Match::Tagged {
                                    tpid, outer: Vid::Id(outer), inner: Some(Vid::Id(inner)), exact: true,
                                };
                                prop_assert!(found != NONE || rules.iter().all(|r| r.0 != named), "{:?}", tags);
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }
}

fn dot1q(vid: u16, exact: bool) -> Match {
    Match::Tagged { tpid: Tpid::Dot1q, outer: Vid::Id(vid), inner: None, exact }
}

#[test]
fn exact_takes_no_packet_with_more_tags() {
    let table = VlanTable::build(&[(dot1q(10, true), 1), (dot1q(20, false), 2)]).unwrap();
    let tags = |count, outer| Tags { count, tpid: Tpid::Dot1q, outer, inner: 5 };
    assert_eq!((table.lookup(tags(1, 10)), table.lookup(tags(2, 10))), (Some(1), None));
    assert_eq!((table.lookup(tags(1, 20)), table.lookup(tags(2, 20))), (Some(2), Some(2)));
    assert_eq!(table.lookup(Tags::NONE), None);
    assert_eq!(table.lookup(tags(1, 0x700a)), Some(1), "priority bits do not count");
}

#[test]
fn thousands_of_inner_tags() {
    let qinq = |outer, inner| Match::Tagged {
        tpid: Tpid::Dot1ad,
        outer: Vid::Id(outer),
        inner: Some(Vid::Id(inner)),
        exact: true,
    };
    let rules: Vec<(Match, u32)> = (0..4096u16)
        .flat_map(|i| [(qinq(i, 4095 - i), 2 * u32::from(i)), (qinq(7, i), 1 + 2 * u32::from(i))])
        .collect();
    let rules: Vec<(Match, u32)> =
        rules.into_iter().filter(|r| r.0 != qinq(7, 4088) || r.1 % 2 == 1).collect();
    let table = VlanTable::build(&rules).unwrap();
    for (rule, value) in rules {
        let Match::Tagged { outer: Vid::Id(outer), inner: Some(Vid::Id(inner)), .. } = rule else { continue };
        let tags = Tags { count: 2, tpid: Tpid::Dot1ad, outer, inner };
        assert_eq!(table.lookup(tags), Some(value));
        assert_eq!(table.double(Tpid::Dot1ad, outer, inner), value);
        assert_eq!(table.double(Tpid::Dot1q, outer, inner), NONE);
        assert_eq!(table.lookup(Tags { tpid: Tpid::Dot1q, ..tags }), None);
    }
}

#[test]
fn refuses_what_makes_no_sense() {
    assert_eq!(VlanTable::build(&[(dot1q(4096, true), 1)]).err(), Some(VlanError::Vid(4096)));
    let twice = [(dot1q(9, true), 1), (dot1q(9, false), 2), (dot1q(9, true), 3)];
    assert_eq!(VlanTable::build(&twice).err(), Some(VlanError::Twice(dot1q(9, true))));
    let inner =
        Match::Tagged { tpid: Tpid::Dot1q, outer: Vid::Any, inner: Some(Vid::Id(5000)), exact: false };
    assert_eq!(VlanTable::build(&[(inner, 1)]).err(), Some(VlanError::Vid(5000)));
}
