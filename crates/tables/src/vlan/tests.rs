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

/// Answers of a table against a linear search of the rules.
fn compare(table: &VlanTable, rules: &[(Match, u32)]) -> Result<(), TestCaseError> {
    for count in 0..=3 {
        for tpid in [Tpid::Dot1q, Tpid::Dot1ad] {
            for outer in [0, 1, 2, 3, 7, 4095] {
                for inner in [0, 1, 2, 3, 7, 4095] {
                    let tags = Tags { count, tpid, outer, inner };
                    let best = rules.iter().filter(|r| takes(r.0, tags)).max_by_key(|r| rank(r.0));
                    prop_assert_eq!(table.lookup(tags), best.map(|r| r.1), "{:?}", tags);
                    match count {
                        1 => {
                            let found = table.single(tpid).map_or(NONE, |all| all[usize::from(outer)]);
                            prop_assert_eq!(found, best.map_or(NONE, |r| r.1));
                        }
                        2 => {
                            let found = table.double(double_key(tpid, outer, inner));
                            prop_assert!(found == NONE || Some(found) == best.map(|r| r.1), "{:?}", tags);
                            let named = Match::Tagged {
                                tpid,
                                outer: Vid::Id(outer),
                                inner: Some(Vid::Id(inner)),
                                exact: true,
                            };
                            prop_assert!(found != NONE || rules.iter().all(|r| r.0 != named), "{:?}", tags);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn agrees_with_a_linear_search(mut rules in prop::collection::vec(rule(), 0..40)) {
        let mut seen = std::collections::HashSet::new();
        rules.retain(|r| seen.insert(*r));
        let rules: Vec<(Match, u32)> = rules.into_iter().zip(100..).collect();
        compare(&VlanTable::build(&rules).unwrap(), &rules)?;
    }

    /// Rules come and go one by one; a table that cannot follow says so before it is wrong.
    #[test]
    fn changes_are_like_building_anew(changes in prop::collection::vec(rule(), 1..60), first in 0..20usize) {
        let mut rules: Vec<(Match, u32)> = vec![];
        let mut table = VlanTable::build(&rules).unwrap();
        for (n, rule) in changes.into_iter().enumerate() {
            let was = rules.iter().position(|r| r.0 == rule);
            let value = was.is_none().then_some(100 + n as u32);
            match was {
                Some(at) => _ = rules.swap_remove(at),
                None => rules.push((rule, 100 + n as u32)),
            }
            if n < first || !table.change(rule, value) {
                table = VlanTable::build(&rules).unwrap();
            }
            compare(&table, &rules)?;
        }
    }
}

/// Thousands of rules for two tags: nearly all changes are made in place.
#[test]
fn thousands_of_rules_change_in_place() {
    let rule = |n: u16| Match::Tagged {
        tpid: Tpid::Dot1q,
        outer: Vid::Id(1 + n / 100),
        inner: Some(Vid::Id(n % 100)),
        exact: true,
    };
    let tags = |n: u16| Tags { count: 2, tpid: Tpid::Dot1q, outer: 1 + n / 100, inner: n % 100 };
    let mut rules = vec![(rule(0), 0)];
    let mut table = VlanTable::build(&rules).unwrap();
    let mut built = 0;
    for n in 1..5000 {
        rules.push((rule(n), n.into()));
        if !table.change(rule(n), Some(n.into())) {
            (table, built) = (VlanTable::build(&rules).unwrap(), built + 1);
        }
    }
    assert!(built < 20, "{built}");
    for n in (0..5000).step_by(3) {
        assert!(table.change(rule(n), None));
    }
    for n in 0..5000 {
        let want = if n % 3 == 0 { None } else { Some(n.into()) };
        assert_eq!(
            (table.lookup(tags(n)), table.double(double_key(Tpid::Dot1q, 1 + n / 100, n % 100))),
            (want, want.unwrap_or(NONE))
        );
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
        assert_eq!(table.double(double_key(Tpid::Dot1ad, outer, inner)), value);
        assert_eq!(table.double(double_key(Tpid::Dot1q, outer, inner)), NONE);
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
