//! The shares of an interface's flows follow the load of the workers among which they are shared out: the one that polls the queue
//! receives, hashes and hands over, and gets less of the rest.

use super::State;
use crate::router::Router;
use crate::steering::{self, BUCKETS};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A difference of load between two workers, shares of their time, from which on flows move, and at which they have moved enough.
const UNEVEN: f64 = 0.1;
const EVEN: f64 = 0.04;
/// So many packets that find no room, of those that do, are more than a moment's.
const OVER: f64 = 0.01;
/// A worker that is asked for far more than it can do counts as asked for so much.
const MOST_ASKED: f64 = 2.0;

/// Packets by interface, who shared them out, and who got them.
type Handed = BTreeMap<(u32, usize, usize), u64>;

/// What counters said at the last look.
struct Look {
    at: Instant,
    /// Of workers: clocks of their nodes, and packets that others could not hand to them.
    workers: Vec<(u64, u64)>,
    handed: Handed,
}

/// What is known from one look to the next.
#[derive(Default)]
pub(super) struct Follow {
    last: Option<Look>,
    /// Interfaces of which flows are on the move.
    moving: BTreeSet<u32>,
}

/// One of the workers among which an interface is shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sharer {
    worker: usize,
    /// What it is asked for, a share of its time.
    load: f64,
    /// Buckets of the interface that are its own.
    buckets: usize,
}

/// Who gives how many buckets to whom.
fn choose(all: &[Sharer], moving: bool) -> Option<(usize, usize, usize)> {
    let from = all.iter().filter(|s| s.buckets != 0).max_by(|a, b| a.load.total_cmp(&b.load))?;
    let to = all.iter().min_by(|a, b| a.load.total_cmp(&b.load))?;
    let uneven = from.load - to.load;
    if uneven <= if moving { EVEN } else { UNEVEN } {
        return None;
    }
    // What a bucket takes of a worker at most: other work is in it. One that moves makes the difference less by twice as much.
    let of_bucket = |s: &Sharer| if s.buckets == 0 { 0.0 } else { s.load / s.buckets as f64 };
    let evens = uneven / (2.0 * of_bucket(from).max(of_bucket(to)));
    Some((from.worker, to.worker, (evens as usize).clamp(1, from.buckets)))
}

fn look(router: &Router, at: Instant) -> Look {
    let worker = |w: usize| {
        let clocks = router.graphs().get(w).map_or(0, |g| g.stats.nodes.iter().map(|n| n.clocks.get()).sum());
        (clocks, router.handoff_refused(w))
    };
    let handed = steering::handed(router).into_iter().map(|h| ((h.interface, h.from, h.to), h.packets));
    Look { at, workers: (0..router.config().workers).map(worker).collect(), handed: handed.collect() }
}

/// What each worker was asked for between two looks, a share of its time: what it did, and what it would have had to do for packets that
/// found no room on their way to it.
fn asked(before: &Look, now: &Look, hz: f64) -> Vec<f64> {
    let clocks = (now.at.saturating_duration_since(before.at).as_secs_f64() * hz).max(1.0);
    let mut came = vec![0u64; now.workers.len()];
    for ((_, from, to), n) in grew(before, now) {
        if let Some(sum) = came.get_mut(to).filter(|_| from != to) {
            *sum += n;
        }
    }
    let asked = |worker: usize| {
        let (was, is) = (before.workers[worker], now.workers[worker]);
        let (came, busy, refused) = (came[worker], is.0.saturating_sub(was.0), is.1.saturating_sub(was.1));
        let over = refused as f64 / came.saturating_sub(refused).max(1) as f64;
        // One for which too many wait does all that it can: it may want for a processor.
        let does = if over > OVER { 1.0 } else { (busy as f64 / clocks).min(1.0) };
        (does * (1.0 + over)).min(MOST_ASKED)
    };
    (0..now.workers.len().min(before.workers.len())).map(asked).collect()
}

/// Packets between two looks.
fn grew(before: &Look, now: &Look) -> Handed {
    let was = |key| before.handed.get(key).copied().unwrap_or(0);
    now.handed.iter().map(|(key, n)| (*key, n.saturating_sub(was(key)))).collect()
}

/// Looks at what workers were asked for since the last look, and moves flows from those that are busier to those that are less. None is
/// lost, and none overtakes another of its flow.
pub fn follow(router: &mut Router, at: Instant) {
    let now = look(router, at);
    let Some(state) = router.state_mut::<State>().map(|s| &mut s.follow) else { return };
    let Some(before) = state.last.take().filter(|b| b.workers.len() == now.workers.len()) else {
        state.last = Some(now);
        return;
    };
    let load = asked(&before, &now, graph::clock::tsc_hz() as f64);
    let mut packets = BTreeMap::new();
    for ((interface, ..), n) in grew(&before, &now) {
        *packets.entry(interface).or_insert(0) += n;
    }
    // One of fewer packets than buckets has nothing to share out.
    packets.retain(|_, n| *n >= BUCKETS as u64);
    for interface in packets.into_keys() {
        let sharer =
            |(worker, buckets): (usize, usize)| Some(Sharer { worker, load: *load.get(worker)?, buckets });
        let all: Vec<Sharer> = steering::shares(router, interface).into_iter().filter_map(sharer).collect();
        let Some(state) = router.state_mut::<State>().map(|s| &mut s.follow) else { return };
        let moved = choose(&all, state.moving.contains(&interface));
        match moved {
            Some((from, to, buckets)) => {
                state.moving.insert(interface);
                steering::move_share(router, interface, from, to, buckets);
            }
            None => _ = state.moving.remove(&interface),
        }
    }
    // What was done while flows moved counts for nothing.
    let now = look(router, Instant::now());
    if let Some(s) = router.state_mut::<State>() {
        s.follow.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Clocks a packet of a model: what the worker that polls does for each, and what each one costs who goes on with it.
    struct Model {
        receive: f64,
        forward: f64,
        /// Packets that come in the time of a clock; the worker that polls takes no more than it can.
        offered: f64,
    }

    impl Model {
        /// What each worker is asked for where these are the shares; worker 0 polls.
        fn load(&self, shares: &[usize]) -> Vec<f64> {
            let part = |n: usize| n as f64 / BUCKETS as f64;
            let of_poller = self.receive + part(shares[0]) * self.forward;
            let came = self.offered.min(1.0 / of_poller);
            let other = |n: &usize| (came * part(*n) * self.forward).min(MOST_ASKED);
            std::iter::once(came * of_poller).chain(shares[1..].iter().map(other)).collect()
        }

        /// Packets that go out.
        fn sent(&self, shares: &[usize]) -> f64 {
            let part = |n: usize| n as f64 / BUCKETS as f64;
            let came = self.offered.min(1.0 / (self.receive + part(shares[0]) * self.forward));
            let out = |n: &usize| (came * part(*n)).min(1.0 / self.forward);
            came * part(shares[0]) + shares[1..].iter().map(out).sum::<f64>()
        }

        /// Follows the load until nothing moves, with noise; the shares then, and the steps.
        fn settle(&self, shares: &mut [usize], noise: f64) -> usize {
            let (mut moving, mut x) = (false, 7u64);
            for step in 0..100 {
                let all: Vec<Sharer> = (self.load(shares).iter().zip(shares.iter()).enumerate())
                    .map(|(worker, (load, buckets))| {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let chance = (x >> 33) as f64 / f64::from(1u32 << 31) - 0.5;
                        Sharer { worker, load: load * (1.0 + noise * chance), buckets: *buckets }
                    })
                    .collect();
                let Some((from, to, n)) = choose(&all, moving) else { return step };
                moving = true;
                shares[from] -= n;
                shares[to] += n;
            }
            panic!("it does not come to rest: {shares:?}");
        }
    }

    #[test]
    fn shares_follow_what_workers_are_asked_for() {
        for (receive, forward) in [(60.0, 90.0), (20.0, 400.0), (200.0, 300.0), (120.0, 60.0)] {
            for workers in [2, 3, 8] {
                for offered in [0.2 / (receive + forward), 0.7 / (receive + forward), 1.0] {
                    let m = Model { receive, forward, offered };
                    let even = vec![BUCKETS / workers; workers];
                    let mut shares = even.clone();
                    let steps = m.settle(&mut shares, 0.02);
                    let load = m.load(&shares);
                    let most =
                        load.iter().zip(&shares).filter(|s| *s.1 != 0).map(|s| *s.0).fold(0.0, f64::max);
                    let least = load.iter().copied().fold(MOST_ASKED, f64::min);
                    let case = format!("{receive} {forward} {workers} {offered}: {shares:?} {load:?}");
                    assert!(most - least <= UNEVEN + 0.05, "{case}");
                    assert!(steps <= 40, "{steps} steps, {case}");
                    assert!(m.sent(&shares) >= 0.98 * m.sent(&even), "{case}");
                }
            }
        }
        // The worker that polls keeps little where receiving is dear, and two do what one and a half could.
        let m = Model { receive: 60.0, forward: 90.0, offered: 1.0 };
        let mut shares = [BUCKETS / 2; 2];
        m.settle(&mut shares, 0.0);
        assert!((100..220).contains(&shares[0]), "{shares:?}");
        assert!(m.sent(&shares) > 1.3 * m.sent(&[BUCKETS / 2; 2]));
    }

    #[test]
    fn small_differences_move_nothing_until_something_moves() {
        let of = |loads: [f64; 2], moving| {
            let all = [0, 1].map(|worker| Sharer { worker, load: loads[worker], buckets: BUCKETS / 2 });
            choose(&all, moving)
        };
        assert_eq!(of([0.5, 0.42], false), None);
        assert_eq!(of([0.5, 0.42], true), Some((0, 1, 40)));
        assert_eq!(of([0.5, 0.48], true), None);
        assert_eq!(of([0.0, 0.9], false), Some((1, 0, BUCKETS / 4)));
        // One without a share has nothing to give, whatever keeps it busy.
        let all = [(0.9, 0), (0.5, 600), (0.3, 424)];
        let all = [0, 1, 2].map(|worker| Sharer { worker, load: all[worker].0, buckets: all[worker].1 });
        assert_eq!(choose(&all, false), Some((1, 2, 120)));
        assert_eq!(choose(&all[..1], false), None);
        assert_eq!(choose(&[], true), None);
    }

    #[test]
    fn packets_that_found_no_room_are_asked_for() {
        let at = Instant::now();
        let look = |ms, workers: [(u64, u64); 2], handed: [u64; 2]| Look {
            at: at + Duration::from_millis(ms),
            workers: workers.into(),
            handed: [((1, 0, 0), handed[0]), ((1, 0, 1), handed[1])].into(),
        };
        let before = look(0, [(50, 0), (20, 10)], [5, 100]);
        let load = |after| asked(&before, &after, 1000.0);
        assert_eq!(load(look(1000, [(1050, 0), (420, 10)], [505, 600])), [1.0, 0.4]);
        assert_eq!(load(look(1000, [(1050, 0), (1020, 110)], [505, 600])), [1.0, 1.25], "a fifth is refused");
        assert_eq!(
            load(look(1000, [(1050, 0), (420, 110)], [505, 600])),
            [1.0, 1.25],
            "it wants a processor"
        );
        assert_eq!(load(look(1000, [(550, 0), (1020, 510)], [505, 600])), [0.5, MOST_ASKED]);
    }
}
