//! Which worker goes on with which packets.

/// So many shares of flows: the share of a worker among 64 differs from that of another by 7 %.
const BUCKETS: usize = 1024;

/// The worker of each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buckets(Box<[u8; BUCKETS]>);

impl Buckets {
    /// All are of worker 0.
    pub fn new() -> Buckets {
        Buckets(Box::new([0; BUCKETS]))
    }

    /// The worker that goes on with packets of this hash.
    #[inline(always)]
    pub fn worker(&self, hash: u32) -> u8 {
        self.0[(hash >> (32 - BUCKETS.trailing_zeros())) as usize]
    }

    /// Shared out evenly among these workers, of which there is one at least. No bucket changes its worker without need.
    #[must_use]
    pub fn among(&self, workers: &[usize]) -> Buckets {
        let mut new = self.clone();
        let mut fair: Vec<usize> = (0..workers.len())
            .map(|n| BUCKETS / workers.len() + usize::from(n < BUCKETS % workers.len()))
            .collect();
        let mut over = vec![];
        for (n, worker) in new.0.iter().enumerate() {
            let place = workers.iter().position(|w| w == &usize::from(*worker));
            match place.and_then(|at| fair.get_mut(at)).filter(|left| **left != 0) {
                Some(left) => *left -= 1,
                None => over.push(n),
            }
        }
        let short = workers.iter().zip(fair).flat_map(|(w, left)| std::iter::repeat_n(*w, left));
        for (bucket, worker) in over.into_iter().zip(short) {
            new.0[bucket] = worker as u8;
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(b: &Buckets) -> [usize; 64] {
        let mut n = [0; 64];
        b.0.iter().for_each(|w| n[usize::from(*w)] += 1);
        n
    }

    #[test]
    fn shares_are_even_and_few_buckets_move() {
        let mut b = Buckets::new();
        for workers in
            [vec![0, 1], vec![1, 0], vec![0, 1, 2], vec![2], vec![5, 2, 63], (0..64).collect(), vec![0]]
        {
            let (was, old) = (b.clone(), counts(&b));
            b = b.among(&workers);
            let now = counts(&b);
            for (w, n) in now.iter().enumerate() {
                let fair = BUCKETS / workers.len();
                let is_fair = if workers.contains(&w) { (fair..=fair + 1).contains(n) } else { *n == 0 };
                assert!(is_fair, "{workers:?}: worker {w} has {n}");
            }
            let moved = was.0.iter().zip(b.0.iter()).filter(|(a, b)| a != b).count();
            let least: usize = old.iter().zip(now).map(|(old, now)| old.saturating_sub(now)).sum();
            assert_eq!(moved, least, "{workers:?}");
        }
        assert_eq!((b.worker(0), b.worker(u32::MAX)), (0, 0));
    }
}
