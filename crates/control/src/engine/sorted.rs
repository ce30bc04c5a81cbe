//! Routes and labels of two sides, compared in the order of their keys without copies of them.

use super::bulk::Key;
use crate::yaml::Place;

/// Routes or labels in the order of their keys, where they stand.
pub(super) struct Sorted<'s, K> {
    list: &'s [(K, u32, Place)],
    /// Positions in order, where the list itself is in another.
    order: Option<Vec<u32>>,
}

impl<'s, K: Key> Sorted<'s, K> {
    pub fn of(list: &'s [(K, u32, Place)]) -> Self {
        if list.is_sorted_by(|a, b| a.0 <= b.0) {
            return Sorted { list, order: None };
        }
        let mut order: Vec<u32> = (0..u32::try_from(list.len()).unwrap_or(u32::MAX)).collect();
        order.sort_unstable_by_key(|n| (list.get(*n as usize).map(|r| r.0), *n));
        Sorted { list, order: Some(order) }
    }

    /// In the order in which they stand.
    pub fn as_is(list: &'s [(K, u32, Place)]) -> Self {
        Sorted { list, order: None }
    }

    /// Key, goal and position of number `n` in order.
    fn get(&self, n: usize) -> Option<(K, u32, u32)> {
        let at = match &self.order {
            None => u32::try_from(n).unwrap_or(u32::MAX),
            Some(order) => *order.get(n)?,
        };
        self.list.get(at as usize).map(|r| (r.0, r.1, at))
    }

    /// Where those of another prefix begin behind `n`, which has this key.
    fn next(&self, mut n: usize, key: K) -> usize {
        while self.get(n).is_some_and(|r| r.0.prefix_order(&key).is_eq()) {
            n += 1;
        }
        n
    }
}

/// Key, goal and position.
type Found<K> = Option<(K, u32, u32)>;

/// Calls `f` with what stands on both sides, before and behind, each sorted by key; where nothing stood before, in any
/// order. Of the routes of a prefix those of the same rank belong together, and of the rest one with another: such a route
/// changes its rank, without being gone for a moment.
pub(super) fn pairs<K: Key>(old: &Sorted<'_, K>, new: &Sorted<'_, K>, mut f: impl FnMut(Found<K>, Found<K>)) {
    let (mut o, mut n) = (0, 0);
    while let Some(is) = new.get(n) {
        if old.list.is_empty() {
            f(None, Some(is));
            n += 1;
            continue;
        }
        while let Some(gone) = old.get(o).filter(|gone| gone.0.prefix_order(&is.0).is_lt()) {
            f(Some(gone), None);
            o += 1;
        }
        let (olds, news) = (o..old.next(o, is.0), n..new.next(n + 1, is.0));
        (o, n) = (olds.end, news.end);
        if olds.len() < 2 && news.len() == 1 {
            f(olds.clone().next().and_then(|o| old.get(o)), Some(is));
            continue;
        }
        let was: Vec<_> = olds.filter_map(|o| old.get(o)).collect();
        let news: Vec<_> = news.filter_map(|n| new.get(n)).collect();
        let mut rest = was.iter().filter(|o| !news.iter().any(|n| n.0 == o.0));
        for n in &news {
            let same = was.iter().find(|o| o.0 == n.0);
            f(same.or_else(|| rest.next()).copied(), Some(*n));
        }
        rest.for_each(|o| f(Some(*o), None));
    }
    while let Some(gone) = old.get(o) {
        f(Some(gone), None);
        o += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::bulk::RouteKey;
    use super::*;
    use ipnet::{IpNet, Ipv4Net};
    use net::router::Rank;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Of few prefixes and ranks, so that many meet.
    fn routes() -> impl Strategy<Value = Vec<(RouteKey, u32, Place)>> {
        let key = (0..2u32, 0..4u32, 1..4u8);
        prop::collection::btree_map(key, 0..3u32, 0..24).prop_map(Vec::from_iter).prop_shuffle().prop_map(
            |all| {
                let route = |((table, n, preference), goal)| {
                    let prefix =
                        IpNet::V4(Ipv4Net::new_assert(std::net::Ipv4Addr::from(10u32 << 24 | n << 8), 24));
                    ((table, prefix, Rank { preference, metric: 0 }), goal, Place::default())
                };
                all.into_iter().map(route).collect()
            },
        )
    }

    proptest! {
        #[test]
        fn each_is_paired_once_with_its_own(old in routes(), new in routes(), in_order in any::<bool>()) {
            let (mut old, mut new) = (old, new);
            if in_order {
                old.sort_by_key(|r| r.0);
                new.sort_by_key(|r| r.0);
            }
            let (mut olds, mut news, mut last) = (BTreeMap::new(), BTreeMap::new(), None);
            // How many of a prefix changed their rank, and how many came or went alone.
            let mut moved: BTreeMap<(u32, IpNet), [usize; 3]> = BTreeMap::new();
            let order = |list| if old.is_empty() { Sorted::as_is(list) } else { Sorted::of(list) };
            pairs(&Sorted::of(&old), &order(&new), |was, is| {
                let key = was.or(is).unwrap().0;
                let of = (key.0, key.1);
                if !old.is_empty() {
                    assert!(last <= Some(of), "in order");
                }
                last = Some(of);
                for (found, list, all) in [(was, &old, &mut olds), (is, &new, &mut news)] {
                    if let Some(r) = found {
                        assert_eq!((list[r.2 as usize].0, list[r.2 as usize].1), (r.0, r.1), "its position");
                        assert!(all.insert(r.0, was.zip(is).map(|(was, is)| (was.0, is.0))).is_none(), "once");
                    }
                }
                match (was, is) {
                    (Some(was), Some(is)) => {
                        assert_eq!(of, (is.0.0, is.0.1), "of one prefix");
                        moved.entry(of).or_default()[0] += usize::from(was.0 != is.0);
                    }
                    (Some(_), None) => moved.entry(of).or_default()[1] += 1,
                    _ => moved.entry(of).or_default()[2] += 1,
                }
            });
            prop_assert_eq!((olds.len(), news.len()), (old.len(), new.len()));
            for (key, pair) in &olds {
                if news.contains_key(key) {
                    prop_assert_eq!(*pair, Some((*key, *key)), "what stands in both is one");
                }
            }
            for [_, went, came] in moved.values() {
                prop_assert!(*went == 0 || *came == 0, "a route that goes makes room for one that comes");
            }
        }
    }
}
