//! Which receive queue moves to which worker where load is uneven.

/// A difference of load between two workers, shares of their time, below which nothing moves.
const UNEVEN: f64 = 0.2;
/// A move must make the busier of both so much less busy.
const GAIN: f64 = 0.05;

/// The queue to move, and where to, from the load of workers (shares of their time) and of the queues that may move (worker, share of
/// a worker's time). A move is worth it only where both workers are less busy then than the busier one is now, with something to spare: so
/// the queue does not come back at the same load.
pub(super) fn choose(workers: &[f64], queues: &[(usize, f64)]) -> Option<(usize, usize)> {
    let by = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
    let (from, most) = workers.iter().enumerate().max_by(by)?;
    let (to, least) = workers.iter().enumerate().min_by(by)?;
    if most - least < UNEVEN {
        return None;
    }
    let after = |share: f64| (most - share).max(least + share);
    let own = queues.iter().enumerate().filter(|(_, (worker, share))| *worker == from && *share > 0.0);
    let (queue, (_, share)) = own.min_by(|a, b| after(a.1.1).total_cmp(&after(b.1.1)))?;
    (after(*share) < most - GAIN).then_some((queue, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_goes_where_it_evens_load() {
        assert_eq!(choose(&[0.9, 0.1], &[(0, 0.2), (0, 0.4), (0, 0.3), (1, 0.1)]), Some((1, 1)));
        assert_eq!(choose(&[0.1, 0.5, 0.9], &[(2, 0.5), (2, 0.4)]), Some((1, 0)));
    }

    #[test]
    fn nothing_moves_without_gain() {
        // Even enough; one queue that is all of it; nothing to move; no load.
        assert_eq!(choose(&[0.5, 0.35], &[(0, 0.1), (0, 0.4)]), None);
        assert_eq!(choose(&[0.9, 0.0], &[(0, 0.9)]), None);
        assert_eq!(choose(&[0.9, 0.0], &[(1, 0.4)]), None);
        assert_eq!(choose(&[0.0, 0.0], &[(0, 0.0)]), None);
        assert_eq!(choose(&[0.9], &[(0, 0.4), (0, 0.5)]), None);
        assert_eq!(choose(&[], &[]), None);
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
