//! Which worker goes on with which packets.

/// So many shares of flows: the share of a worker among 64 differs from that of another by 7 %.
pub(crate) const BUCKETS: usize = 1024;

/// The worker of each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Buckets(Box<[u8; BUCKETS]>);

impl Buckets {
    /// All are of worker 0.
    pub fn new() -> Buckets {
        Buckets(Box::new([0; BUCKETS]))
    }

    /// That of packets of this hash.
    #[inline(always)]
    pub fn number(hash: u32) -> usize {
        (hash >> (32 - BUCKETS.trailing_zeros())) as usize
    }

    /// The worker that goes on with packets of this hash.
    #[inline(always)]
    pub fn worker(&self, hash: u32) -> u8 {
        self.0[Buckets::number(hash)]
    }

    /// How many a worker has.
    pub fn of(&self, worker: usize) -> usize {
        self.0.iter().filter(|w| usize::from(**w) == worker).count()
    }

    /// So many of one worker's are another's, or as many as it has that need not stay.
    #[must_use]
    pub fn moved(&self, from: usize, to: usize, buckets: usize, stay: &[usize]) -> Buckets {
        let mut new = self.clone();
        let is_own = |(n, w): &(usize, &mut u8)| usize::from(**w) == from && !stay.contains(n);
        new.0.iter_mut().enumerate().filter(is_own).take(buckets).for_each(|(_, w)| *w = to as u8);
        new
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

    #[test]
    fn some_buckets_move_and_some_stay() {
        let even = Buckets::new().among(&[0, 1, 2]);
        let hash = |bucket: usize| (bucket as u32) << 22 | 5;
        let own: Vec<usize> = (0..BUCKETS).filter(|n| even.worker(hash(*n)) == 1).collect();
        let b = even.moved(1, 2, 100, &own[..10]);
        assert_eq!([0, 1, 2].map(|w| b.of(w)), [342, 241, 441]);
        assert!(own[..10].iter().all(|n| b.worker(hash(*n)) == 1 && Buckets::number(hash(*n)) == *n));
        let b = b.moved(1, 0, BUCKETS, &own[..10]);
        assert_eq!([0, 1, 2].map(|w| b.of(w)), [573, 10, 441]);
        assert_eq!(b.moved(1, 0, BUCKETS, &own), b);
    }
}
