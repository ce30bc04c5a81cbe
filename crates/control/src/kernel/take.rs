//! Changes of routes of the kernel's, or of FRR's, made in the router.

use super::goals::{Goal, MAIN, Not, leads_to_own};
use super::{Failed, Taken};
use linux::{Change, Key, Route};
use net::router::{Op, RouteBatch, RouteSource, Router};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// One change of one source's routes in one table.
struct Step {
    key: Key,
    source: RouteSource,
    goal: Goal,
    gone: bool,
}

impl Taken {
    /// Counts what the router cannot forward by.
    pub(super) fn counted<T>(&self, goal: Result<T, Not>, more: i64) -> Option<T> {
        match goal {
            Ok(goal) => return Some(goal),
            Err(Not::Foreign) => self.counts.foreign.set(self.counts.foreign.get() + more),
            Err(Not::Supported(what)) => {
                *self.counts.unsupported.borrow_mut().entry(what).or_default() += more;
            }
        }
        None
    }

    fn goal(&self, key: &Key, route: &Route, more: i64) -> Option<Goal> {
        self.counted(self.devices.goal(self.speaker.preference, key, route), more)
    }

    /// Makes changes, at most some hundreds: the control thread does nothing else meanwhile.
    pub(super) fn take(&self, router: &mut Router, changes: &[Change]) {
        let mut sources: HashMap<u8, Option<RouteSource>> = HashMap::new();
        let (netns, speaker) = (self.netns.as_deref(), self.speaker);
        // What is new first: a prefix whose route goes over to another source is not without one.
        let (mut new, mut gone) = (vec![], vec![]);
        for change in last_of_each(changes) {
            let Change { key, was, is } = &change;
            let step = |router: &mut Router, sources: &mut HashMap<_, _>, route: &Arc<Route>, more| {
                let goal = self.goal(key, route, more)?;
                if key.table != MAIN {
                    self.counts.other_tables.set(true);
                }
                let source = *sources.entry(route.protocol).or_insert_with(|| {
                    router.route_source(&speaker.source_name(netns, route.protocol), speaker.preference).ok()
                });
                Some(Step { key: *key, source: source?, goal, gone: more < 0 })
            };
            let was = was.as_ref().and_then(|r| step(router, &mut sources, r, -1));
            let is = is.as_ref().and_then(|r| step(router, &mut sources, r, 1));
            self.counts.failed.borrow_mut().remove(&Failed::Route(*key));
            let place = |s: &Step| (s.source, s.goal.table);
            if let Some(was) = was
                && is.as_ref().map(place) != Some(place(&was))
            {
                gone.push(was);
            }
            new.extend(is);
        }
        self.make(router, new);
        self.make(router, gone);
    }

    fn make(&self, router: &mut Router, steps: Vec<Step>) {
        let mut by: HashMap<(RouteSource, u32), Vec<Step>> = HashMap::new();
        for step in steps {
            by.entry((step.source, step.goal.table)).or_default().push(step);
        }
        for ((source, table), steps) in by {
            let mut batch = router.route_batch(source, table);
            steps.iter().for_each(|s| s.put(&mut batch));
            let made = router.commit(vec![Op::Routes(batch)]);
            let count = if made.is_ok() { steps.len() } else { self.one_by_one(router, &steps) };
            self.counts.made.set(self.counts.made.get() + count as u64);
        }
    }

    /// One of them was refused: which, and the others are made.
    fn one_by_one(&self, router: &mut Router, steps: &[Step]) -> usize {
        let mut count = 0;
        for step in steps {
            let mut batch = router.route_batch(step.source, step.goal.table);
            step.put(&mut batch);
            match router.commit(vec![Op::Routes(batch)]) {
                Ok(()) => count += 1,
                Err(_) if step.gone => {}
                Err(e) => {
                    // What it was is right no longer.
                    let mut batch = router.route_batch(step.source, step.goal.table);
                    batch.del_ranked(step.key.prefix, step.goal.rank);
                    let _ = router.commit(vec![Op::Routes(batch)]);
                    if !leads_to_own(router, step.key.prefix, &step.goal.target) {
                        self.counts.fail(Failed::Route(step.key), e.message);
                    }
                }
            }
        }
        count
    }
}

/// What became of each route in the end; only that is made.
pub(super) fn last_of_each<K: Clone + Eq + Hash>(changes: &[Change<K>]) -> Vec<Change<K>> {
    let mut place: HashMap<&K, usize> = HashMap::new();
    let mut last: Vec<Change<K>> = Vec::with_capacity(changes.len());
    for change in changes {
        match place.get(&change.key) {
            Some(at) => last[*at].is.clone_from(&change.is),
            None => {
                place.insert(&change.key, last.len());
                last.push(change.clone());
            }
        }
    }
    last
}

impl Step {
    fn put(&self, batch: &mut RouteBatch) {
        if self.gone {
            batch.del_ranked(self.key.prefix, self.goal.rank);
        } else {
            let target = batch.ranked(self.goal.rank, self.goal.target.clone());
            batch.set(self.key.prefix, target);
        }
    }
}
