//! The token buckets of the classes, shared by all workers, and each worker's counters.

use super::class::{COUNT, Class, Limit};
use graph::stats::Count;
use std::sync::atomic::{AtomicU64, Ordering};

/// [`Bucket::interval`] of a class that is not limited, and of one of which nothing passes.
const UNLIMITED: u64 = 0;
const NOTHING: u64 = u64::MAX;
/// [`Bucket::limit`] of a class that is not limited.
const OFF: u64 = u64::MAX;

/// A token bucket kept as the time at which it will be full again (the generic cell rate algorithm): one word, so that
/// workers share it without a lock. While it is empty they only read.
#[repr(align(128))]
struct Bucket {
    /// Nanoseconds of the workers' clock.
    full_at: AtomicU64,
    /// Nanoseconds between two packets.
    interval: AtomicU64,
    /// Nanoseconds that a full burst takes.
    window: AtomicU64,
    /// Rate and burst as the operator said, for the control side.
    limit: AtomicU64,
}

impl Bucket {
    fn new(limit: Option<Limit>) -> Bucket {
        let b = Bucket {
            full_at: AtomicU64::new(0),
            interval: AtomicU64::new(0),
            window: AtomicU64::new(0),
            limit: AtomicU64::new(0),
        };
        b.set(limit);
        b
    }

    fn set(&self, limit: Option<Limit>) {
        let (interval, burst) = match limit {
            None => (UNLIMITED, 0),
            Some(Limit { rate: 0, .. }) => (NOTHING, 0),
            Some(l) => ((1_000_000_000 / u64::from(l.rate)).max(1), u64::from(l.burst.max(1))),
        };
        let word = limit.map_or(OFF, |l| u64::from(l.rate) << 32 | u64::from(l.burst));
        self.limit.store(word, Ordering::Relaxed);
        self.window.store(interval.saturating_mul(burst), Ordering::Relaxed);
        self.interval.store(interval, Ordering::Relaxed);
        // The debt of a slower rate is forgotten.
        self.full_at.store(0, Ordering::Relaxed);
    }

    #[inline]
    fn take(&self, now_ns: u64) -> bool {
        let interval = self.interval.load(Ordering::Relaxed);
        if interval == UNLIMITED || interval == NOTHING {
            return interval == UNLIMITED;
        }
        let window = self.window.load(Ordering::Relaxed);
        let mut at = self.full_at.load(Ordering::Relaxed);
        loop {
            let full = at.max(now_ns).saturating_add(interval);
            if full - now_ns > window {
                return false;
            }
            match self.full_at.compare_exchange_weak(at, full, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => at = other,
            }
        }
    }
}

#[derive(Default)]
struct Counted {
    passed: Count,
    dropped: Count,
}

/// One worker's counters, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Row([Counted; COUNT]);

/// Packets of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Packets within the limit.
    pub passed: u64,
    /// Packets beyond it, which were dropped.
    pub dropped: u64,
}

/// The limits of all classes.
pub struct Police {
    buckets: [Bucket; COUNT],
    workers: Box<[Row]>,
}

impl Police {
    /// Default limits, for `workers` workers.
    pub fn new(workers: usize) -> Police {
        Police {
            buckets: std::array::from_fn(|n| Bucket::new(Some(Class::of_number(n as u32).default_limit()))),
            workers: (0..workers).map(|_| Row::default()).collect(),
        }
    }

    /// Worker: takes a token of `class` and counts; false when there was none.
    #[inline]
    pub fn admit(&self, class: Class, now_ns: u64, worker: usize) -> bool {
        let admitted = self.buckets[class as usize].take(now_ns);
        if let Some(row) = self.workers.get(worker) {
            let c = &row.0[class as usize];
            if admitted { &c.passed } else { &c.dropped }.add(1);
        }
        admitted
    }

    /// Control side: sets the limit of a class; `None`: no limit.
    pub fn set(&self, class: Class, limit: Option<Limit>) {
        self.buckets[class as usize].set(limit);
    }

    /// The limit of a class; `None`: no limit.
    pub fn limit(&self, class: Class) -> Option<Limit> {
        let word = self.buckets[class as usize].limit.load(Ordering::Relaxed);
        (word != OFF).then_some(Limit { rate: (word >> 32) as u32, burst: word as u32 })
    }

    /// What worker `worker` counted of a class since the start.
    pub fn counts(&self, class: Class, worker: usize) -> ClassCounts {
        let Some(row) = self.workers.get(worker) else { return ClassCounts::default() };
        let c = &row.0[class as usize];
        ClassCounts { passed: c.passed.get(), dropped: c.dropped.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn burst(p: &Police, now: u64) -> usize {
        (0..100_000).take_while(|_| p.admit(Class::Icmp, now, 0)).count()
    }

    fn limited(rate: u32, burst: u32) -> Police {
        let p = Police::new(2);
        p.set(Class::Icmp, Some(Limit { rate, burst }));
        p
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let p = limited(1000, 100);
        assert_eq!(burst(&p, 5_000_000_000), 100);
        assert_eq!(burst(&p, 5_000_999_999), 0);
        assert_eq!(burst(&p, 5_001_000_000), 1);
        assert_eq!(burst(&p, 5_011_000_000), 10);
        assert_eq!(burst(&p, 60_000_000_000), 100);
        let sent = (0..10_000u64).filter(|i| p.admit(Class::Icmp, 61_000_000_000 + i * 100_000, 0)).count();
        assert!((1000..=1100).contains(&sent), "{sent} in a second");
    }

    #[test]
    fn classes_workers_and_limits_are_apart() {
        let p = limited(1, 10);
        assert_eq!(burst(&p, 7), 10);
        assert!(p.admit(Class::Bgp, 7, 1), "another class");
        assert!(!p.admit(Class::Icmp, 7, 1), "workers share the tokens");
        assert_eq!(p.counts(Class::Icmp, 0), ClassCounts { passed: 10, dropped: 1 });
        assert_eq!(p.counts(Class::Icmp, 1), ClassCounts { passed: 0, dropped: 1 });
        assert_eq!(p.counts(Class::Bgp, 1), ClassCounts { passed: 1, dropped: 0 });
        // A worker whose clock is behind.
        assert!(!p.admit(Class::Icmp, 0, 0));
        p.set(Class::Icmp, Some(Limit { rate: 5, burst: 3 }));
        assert_eq!((burst(&p, 8), p.limit(Class::Icmp)), (3, Some(Limit { rate: 5, burst: 3 })), "no debt");
        p.set(Class::Icmp, Some(Limit { rate: 0, burst: 3 }));
        assert_eq!(burst(&p, 9), 0);
        p.set(Class::Icmp, None);
        assert_eq!((burst(&p, 9), p.limit(Class::Icmp)), (100_000, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// In any time no more passes than a burst and the rate give, and whatever a full bucket holds does pass.
        #[test]
        fn as_a_bucket_of_tokens(
            rate in 1u32..1_000_000, burst in 1u32..500, steps in prop::collection::vec((0u64..3_000_000, 1usize..40), 1..60),
        ) {
            let p = limited(rate, burst);
            let interval = (1_000_000_000 / u64::from(rate)).max(1);
            // A model that counts nanoseconds of credit.
            let full = interval * u64::from(burst);
            let (mut now, mut credit) = (1_000_000_000u64, full);
            for (pause, packets) in steps {
                now += pause;
                credit = (credit + pause).min(full);
                for _ in 0..packets {
                    let want = credit >= interval;
                    prop_assert_eq!(p.admit(Class::Icmp, now, 0), want);
                    if want {
                        credit -= interval;
                    }
                }
            }
        }
    }

    #[test]
    fn workers_share_the_total() {
        let p = limited(1, 1000);
        let passed: usize = std::thread::scope(|s| {
            let workers: Vec<_> = (0..2)
                .map(|w| {
                    s.spawn({
                        let p = &p;
                        move || (0..5000).filter(|_| p.admit(Class::Icmp, 5, w)).count()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).sum()
        });
        assert_eq!(passed, 1000);
    }
}
