//! Which receive queue moves to which worker where load is uneven.

use std::collections::{BTreeMap, VecDeque};

/// A difference of load between two workers, shares of their time, below which nothing moves.
const UNEVEN: f64 = 0.2;
/// A move must make the busier of both so much less busy.
const GAIN: f64 = 0.05;
/// Seconds over which load is looked at: what is now, and what was long enough that load which comes and goes has no queue follow it.
const SPELLS: [usize; 2] = [10, 60];

/// What took the time of workers in a second, shares of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Second {
    /// Of each worker, without the queues that may move.
    pub others: Vec<f64>,
    /// Each queue that may move by its number, whichever worker had it.
    pub queues: BTreeMap<u64, f64>,
}

/// The last seconds.
#[derive(Default)]
pub(super) struct History(VecDeque<Second>);

impl History {
    pub fn add(&mut self, second: Second) {
        // A queue that may not move any more is among the others from now on, and in the seconds before it is not.
        if self.0.back().is_some_and(|last| last.queues.keys().ne(second.queues.keys())) {
            self.0.clear();
        }
        if self.0.len() == SPELLS[1] {
            self.0.pop_front();
        }
        self.0.push_back(second);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The load of the last seconds on average, had queues been where they are now (number, worker).
    fn over(&self, seconds: usize, placed: &[(u64, usize)], workers: usize) -> Load {
        let n = self.0.len().min(seconds).max(1) as f64;
        let last = || self.0.iter().rev().take(seconds);
        let queue = |id: &u64| last().filter_map(|s| s.queues.get(id)).sum::<f64>() / n;
        let queues: Vec<(usize, f64)> = placed.iter().map(|(id, worker)| (*worker, queue(id))).collect();
        let other = |w: usize| last().filter_map(|s| s.others.get(w)).sum::<f64>() / n;
        let own = |w: usize| queues.iter().filter(|q| q.0 == w).map(|q| q.1).sum::<f64>();
        Load { workers: (0..workers).map(|w| other(w) + own(w)).collect(), queues }
    }

    /// The queue to move (its place in `placed`), and where to, of the workers that `may` have it. A move is worth it only where both workers are less busy then than the busier
    /// one is now, with something to spare, by the load of now and by that of the last minute: so a queue does not come back at the same
    /// load, nor go to and fro with load that does. One that is more than all else of its worker does not go to a worker of which
    /// it would make as much.
    pub fn choose(
        &self,
        placed: &[(u64, usize)],
        workers: usize,
        may: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        if self.0.len() < SPELLS[0] {
            return None;
        }
        let [now, long] = SPELLS.map(|seconds| self.over(seconds, placed, workers));
        now.moves(may).into_iter().find(|(queue, to)| long.gain(*queue, *to) > GAIN)
    }
}

/// The load of workers, and of queues that may move (worker, share of its time).
struct Load {
    workers: Vec<f64>,
    queues: Vec<(usize, f64)>,
}

impl Load {
    /// How much less busy the busier of two workers is when a queue has gone from one to the other.
    fn gain(&self, queue: usize, to: usize) -> f64 {
        let Some((from, share)) = self.queues.get(queue) else { return 0.0 };
        let of = |w: usize| self.workers.get(w).copied().unwrap_or(0.0);
        of(*from).max(of(to)) - (of(*from) - share).max(of(to) + share)
    }

    /// The moves that are worth it, from the busiest worker to the least busy that `may` have the queue; the best first.
    fn moves(&self, may: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
        let by = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
        let Some((from, most)) = self.workers.iter().enumerate().max_by(by) else { return vec![] };
        let least = |queue: usize| {
            let fit = self.workers.iter().enumerate().filter(|(w, _)| may(queue, *w));
            fit.min_by(by).filter(|(_, least)| most - **least >= UNEVEN).map(|(to, _)| (queue, to))
        };
        let own =
            self.queues.iter().enumerate().filter(|(_, (worker, share))| *worker == from && *share > 0.0);
        let all = own.filter_map(|(n, _)| least(n));
        let mut all: Vec<_> = all.map(|(n, to)| (self.gain(n, to), n, to)).filter(|m| m.0 > GAIN).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, n, to)| (n, to)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What moves at a load that stays.
    fn choose(workers: &[f64], queues: &[(usize, f64)]) -> Option<(usize, usize)> {
        choose_of(workers, queues, |_, _| true)
    }

    /// The same where not every worker may have every queue.
    fn choose_of(
        workers: &[f64],
        queues: &[(usize, f64)],
        may: impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let mut others = workers.to_vec();
        queues.iter().for_each(|(w, share)| others[*w] -= share);
        let second =
            Second { others, queues: queues.iter().enumerate().map(|(n, q)| (n as u64, q.1)).collect() };
        let mut all = History::default();
        (0..SPELLS[0]).for_each(|_| all.add(second.clone()));
        let placed: Vec<(u64, usize)> = queues.iter().enumerate().map(|(n, q)| (n as u64, q.0)).collect();
        all.choose(&placed, workers.len(), may)
    }

    #[test]
    fn a_queue_goes_where_it_evens_load() {
        assert_eq!(choose(&[0.9, 0.1], &[(0, 0.2), (0, 0.4), (0, 0.3), (1, 0.1)]), Some((1, 1)));
        assert_eq!(choose(&[0.1, 0.5, 0.9], &[(2, 0.5), (2, 0.4)]), Some((1, 0)));
    }

    #[test]
    fn a_queue_goes_only_to_workers_that_may_have_it() {
        let (workers, queues) = ([0.9, 0.1, 0.3], [(0, 0.4), (0, 0.3), (1, 0.1)]);
        assert_eq!(choose(&workers, &queues), Some((0, 1)));
        assert_eq!(choose_of(&workers, &queues, |_, w| w != 1), Some((1, 2)));
        // The better of those that may.
        assert_eq!(choose_of(&workers, &queues, |q, w| q == 1 || w != 1), Some((1, 1)));
        assert_eq!(choose_of(&workers, &queues, |_, w| w == 0), None);
    }

    #[test]
    fn nothing_moves_without_gain() {
        // Even enough; one queue that is all of it, or nearly; nothing to move; no load.
        assert_eq!(choose(&[0.5, 0.35], &[(0, 0.1), (0, 0.4)]), None);
        assert_eq!(choose(&[0.9, 0.0], &[(0, 0.9)]), None);
        assert_eq!(choose(&[0.9, 0.0], &[(0, 0.86), (0, 0.04)]), None);
        assert_eq!(choose(&[0.9, 0.3], &[(0, 0.86), (0, 0.04), (1, 0.3)]), None);
        assert_eq!(choose(&[0.9, 0.0], &[(1, 0.4)]), None);
        assert_eq!(choose(&[0.0, 0.0], &[(0, 0.0)]), None);
        assert_eq!(choose(&[0.9], &[(0, 0.4), (0, 0.5)]), None);
        assert_eq!(choose(&[], &[]), None);
    }

    /// Runs workers for so many seconds, of which `load` says what each queue takes; each move with its second. Work for a worker beyond
    /// its time is not seen.
    fn run(
        seconds: usize,
        placed: &mut [(u64, usize)],
        workers: usize,
        mut load: impl FnMut(usize, u64) -> f64,
    ) -> Vec<(usize, u64, usize)> {
        let (mut all, mut moves, mut rest) = (History::default(), vec![], 0);
        for second in 0..seconds {
            let wanted: BTreeMap<u64, f64> = placed.iter().map(|(q, _)| (*q, load(second, *q))).collect();
            let of = |w: usize| placed.iter().filter(|p| p.1 == w).map(|p| wanted[&p.0]).sum::<f64>();
            let fits: Vec<f64> = (0..workers).map(|w| 1.0 / of(w).max(1.0)).collect();
            let queues = placed.iter().map(|(q, w)| (*q, wanted[q] * fits[*w])).collect();
            all.add(Second { others: vec![0.0; workers], queues });
            if rest != 0 {
                rest -= 1;
            } else if let Some((n, to)) = all.choose(placed, workers, |_, _| true) {
                moves.push((second, placed[n].0, to));
                (placed[n].1, rest) = (to, 10);
            }
        }
        moves
    }

    #[test]
    fn load_that_comes_and_goes_is_not_followed() {
        // Queue 0 is heavy for a quarter of a minute and light for another, for ten minutes.
        let load = |second: usize, queue: u64| match queue {
            0 if (second / 15).is_multiple_of(2) => 0.7,
            0 => 0.1,
            _ => 0.3,
        };
        let moves = run(600, &mut [(0, 0), (1, 0), (2, 1)], 2, load);
        assert!(moves.len() <= 1, "{moves:?}");
        // What it is for is done: a load that is another one from some time on.
        let load = |second: usize, queue: u64| if second < 100 || queue == 2 { 0.2 } else { 0.45 };
        let mut placed = [(0, 0), (1, 0), (2, 1)];
        let moves = run(300, &mut placed, 2, load);
        assert!(matches!(moves[..], [(100..=160, _, 1)]), "{moves:?}");
    }

    #[test]
    fn a_queue_that_is_all_of_a_worker_stays() {
        // One is as much as a worker can do and more; the others, with noise, are little.
        let mut x = 7u64;
        let mut noise = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 33) as f64 / f64::from(1u32 << 31)
        };
        let load = |_: usize, queue: u64| if queue == 0 { 1.0 + noise() } else { 0.1 * noise() };
        let mut placed = [(0, 0), (1, 0), (2, 1), (3, 1)];
        let moves = run(900, &mut placed, 2, load);
        assert!(moves.len() <= 1 && moves.iter().all(|m| m.1 == 1), "{moves:?}");
        assert_eq!(placed[0].1, 0);
    }

    #[test]
    fn it_comes_to_rest() {
        let mut x = 7u64;
        for _ in 0..2_000 {
            let mut random = |n: u64| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (x >> 33) % n
            };
            let workers = 1 + random(8) as usize;
            let mut queues: Vec<(usize, f64)> = (0..random(20))
                .map(|_| (random(workers as u64) as usize, random(100) as f64 / 400.0))
                .collect();
            let load = |queues: &[(usize, f64)]| {
                let mut load = vec![0.0; workers];
                queues.iter().for_each(|(w, share)| load[*w] += share);
                load
            };
            let mut moves = 0;
            while let Some((queue, to)) = choose(&load(&queues), &queues) {
                queues[queue].0 = to;
                moves += 1;
                assert!(moves <= 40, "{queues:?}");
            }
        }
    }
}
