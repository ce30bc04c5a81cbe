#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Even values change into each other in place; what is odd, or was, is made anew.
struct Parity;

impl Rules<u8, u8> for Parity {
    fn change(&self, _: &u8, old: &u8, new: &u8) -> Change {
        if (old | new) & 1 == 0 { Change::InPlace } else { Change::Anew("odd") }
    }

    fn lets_go(&self, id: &u8, _: &u8) -> bool {
        id.is_multiple_of(2)
    }
}

fn model(objects: &[(u8, u8, &[u8])]) -> Model<u8, u8> {
    let mut m = Model::default();
    for (id, value, needs) in objects {
        m.set(*id, Object { needs: needs.to_vec(), ..Object::new(*value) });
    }
    m
}

fn steps(from: &Model<u8, u8>, to: &Model<u8, u8>) -> Vec<(u8, Phase)> {
    plan(from, to, &Parity).into_iter().map(|s| (s.id, s.phase)).collect()
}

use Phase::{Change as Turn, Make, Remove};

#[test]
fn nothing_differs() {
    let m = model(&[(1, 0, &[]), (2, 0, &[1])]);
    assert_eq!(steps(&m, &m), []);
}

#[test]
fn what_is_needed_stands_before_and_goes_behind() {
    let (none, all) = (model(&[]), model(&[(9, 0, &[]), (5, 0, &[9]), (1, 0, &[5])]));
    assert_eq!(steps(&none, &all), [(9, Make), (5, Make), (1, Make)]);
    assert_eq!(steps(&all, &none), [(1, Remove), (5, Remove), (9, Remove)]);
}

#[test]
fn what_needs_something_made_anew_is_made_anew() {
    let (a, b) = (
        model(&[(9, 0, &[]), (5, 0, &[9]), (1, 0, &[5])]),
        model(&[(9, 1, &[]), (5, 0, &[9]), (1, 0, &[5])]),
    );
    let all = [(1, Remove), (5, Remove), (9, Remove), (9, Make), (5, Make), (1, Make)];
    assert_eq!(steps(&a, &b), all);
    let anew: Vec<_> = plan(&a, &b, &Parity).into_iter().filter_map(|s| s.anew).collect();
    assert!(anew.contains(&Reason::Value("odd")) && anew.contains(&Reason::Needs(5)));
}

#[test]
fn a_change_in_place_moves_from_what_goes_to_what_comes() {
    let (a, b) = (model(&[(8, 0, &[]), (2, 0, &[8])]), model(&[(9, 0, &[]), (2, 2, &[9])]));
    assert_eq!(steps(&a, &b), [(9, Make), (2, Turn), (8, Remove)]);
    // One that does not let go is made anew.
    let (a, b) = (model(&[(8, 0, &[]), (3, 0, &[8])]), model(&[(9, 0, &[]), (3, 2, &[9])]));
    assert_eq!(steps(&a, &b), [(3, Remove), (8, Remove), (9, Make), (3, Make)]);
}

/// One moves from what goes to what comes, and what comes needs what goes to be gone: no order is there but with it made anew.
#[test]
fn a_circle_is_broken() {
    let (mut a, mut b) = (model(&[(8, 0, &[]), (2, 0, &[8])]), model(&[(9, 0, &[]), (2, 2, &[9])]));
    a.get_mut(&8).unwrap().takes = vec![7];
    b.get_mut(&9).unwrap().bars = vec![7];
    assert_eq!(steps(&a, &b), [(2, Remove), (8, Remove), (9, Make), (2, Make)]);
}

/// A change follows what comes, and goes before what goes; where they wait for each other, that is given up before it is made anew.
#[test]
fn what_is_better_is_done_where_it_can_be() {
    let with = |mut m: Model<u8, u8>, follows: &[u8]| {
        m.get_mut(&2).unwrap().follows = follows.to_vec();
        m
    };
    let (mut a, mut b) =
        (with(model(&[(2, 0, &[]), (8, 0, &[])]), &[8]), with(model(&[(2, 2, &[]), (9, 0, &[])]), &[9]));
    assert_eq!(steps(&a, &b), [(9, Make), (2, Turn), (8, Remove)]);
    a.get_mut(&8).unwrap().takes = vec![7];
    b.get_mut(&9).unwrap().bars = vec![7];
    assert_eq!(steps(&a, &b), [(8, Remove), (2, Turn), (9, Make)]);
}

#[test]
fn what_one_had_to_itself_is_given_up_first() {
    // Without the exclusion the change, of an earlier phase, would come first.
    let (mut a, mut b) = (model(&[(1, 0, &[]), (2, 0, &[])]), model(&[(1, 2, &[]), (2, 2, &[])]));
    a.get_mut(&2).unwrap().takes = vec![7];
    b.get_mut(&1).unwrap().bars = vec![7];
    assert_eq!(steps(&a, &b), [(2, Turn), (1, Turn)]);
}

/// Objects that need some of those with larger ids, and values.
fn any_model() -> impl Strategy<Value = Model<u8, u8>> {
    prop::collection::btree_map(0u8..12, (0u8..4, prop::collection::btree_set(1u8..12, 0..4)), 0..12)
        .prop_map(|all| {
            let ids: BTreeSet<u8> = all.keys().copied().collect();
            let mut m = Model::default();
            for (id, (value, needs)) in all {
                let needs =
                    needs.into_iter().map(|n| id.saturating_add(n)).filter(|n| ids.contains(n)).collect();
                m.set(
                    id,
                    Object {
                        needs,
                        takes: vec![u64::from(value / 2)],
                        bars: vec![u64::from(value / 2)],
                        ..Object::new(value)
                    },
                );
            }
            m
        })
}

/// The way back is the same steps the other way round: what came under an object goes again behind it.
#[test]
fn what_gets_something_to_stand_on_is_made_anew() {
    let (a, b) = (model(&[(3, 0, &[])]), model(&[(9, 0, &[]), (3, 0, &[9])]));
    assert_eq!(steps(&a, &b), [(3, Remove), (9, Make), (3, Make)]);
    assert_eq!(steps(&b, &a), [(3, Remove), (9, Remove), (3, Make)]);
}

proptest! {
    /// Carried out step by step, with all that each step asks for checked.
    #[test]
    fn every_plan_can_be_carried_out(from in any_model(), to in any_model()) {
        let mut now: BTreeMap<u8, (u8, Vec<u8>)> = from.iter().map(|(i, o)| (*i, (o.value, o.needs.clone()))).collect();
        for s in plan(&from, &to, &Parity) {
            match s.phase {
                Remove => {
                    prop_assert!(now.remove(&s.id).is_some(), "{s:?}");
                    prop_assert!(!now.values().any(|(_, needs)| needs.contains(&s.id)), "{s:?}");
                }
                Turn | Make => {
                    prop_assert_eq!(now.contains_key(&s.id), s.phase == Turn, "{:?}", s);
                    let new = to.get(&s.id).unwrap();
                    prop_assert!(new.needs.iter().all(|n| now.contains_key(n)), "{s:?}");
                    now.insert(s.id, (new.value, new.needs.clone()));
                }
            }
        }
        // Values that are the same were left alone with their needs of old.
        let end: BTreeMap<u8, u8> = now.iter().map(|(i, (v, _))| (*i, *v)).collect();
        let want: BTreeMap<u8, u8> = to.iter().map(|(i, o)| (*i, o.value)).collect();
        prop_assert_eq!(end, want);
    }
}
