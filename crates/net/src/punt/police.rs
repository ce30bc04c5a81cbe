//! The token buckets of the classes, shared by all workers, and each worker's counters.

use super::class::{COUNT, Class, Limit};
use super::expected::Expected;
use super::share::{Scale, Shares};
use graph::registry::{Cells, Group, Owner};
use graph::{OfWorkers, Registry};
use std::io;
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
    /// What interfaces have used of it.
    shares: Shares,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is within the limit.
    Passes,
    /// The limit is reached, but the packet's interface has a share left, or the packet is expected.
    Spared,
    /// It is beyond the limit.
    Dropped,
}

impl Bucket {
    fn new(limit: Option<Limit>) -> Bucket {
        let b = Bucket {
            full_at: AtomicU64::new(0),
            interval: AtomicU64::new(0),
            window: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            shares: Shares::new(),
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
        self.shares.clear();
    }

    /// Takes a token for a packet of `interface`. When there is none it may still have one of those to come, if the interface
    /// has used few of late: the others then wait until the debt is paid, and the rate holds.
    #[inline]
    fn take(&self, now_ns: u64, interface: u32, expected: impl FnMut() -> bool) -> Verdict {
        let interval = self.interval.load(Ordering::Relaxed);
        match interval {
            UNLIMITED => return Verdict::Passes,
            NOTHING => return Verdict::Dropped,
            _ => {}
        }
        let window = self.window.load(Ordering::Relaxed);
        let at = self.full_at.load(Ordering::Relaxed);
        let full = at.max(now_ns).saturating_add(interval);
        // What a quiet class has used need not be known.
        if full - now_ns <= window / 2
            && self.full_at.compare_exchange(at, full, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return Verdict::Passes;
        }
        self.take_share(now_ns, interface, expected, interval, window)
    }

    #[cold]
    fn take_share(
        &self,
        now_ns: u64,
        interface: u32,
        mut expected: impl FnMut() -> bool,
        interval: u64,
        window: u64,
    ) -> Verdict {
        let scale = Scale::new(window, window / interval);
        let mut at = self.full_at.load(Ordering::Relaxed);
        let mut is_expected = None;
        loop {
            let full = at.max(now_ns).saturating_add(interval);
            let beyond = (full - now_ns).saturating_sub(window);
            let mut wanted = is_expected.unwrap_or(false);
            if beyond > 0 && beyond > self.shares.room(scale, interface, wanted, now_ns) {
                wanted = *is_expected.get_or_insert_with(&mut expected);
                if !wanted || beyond > self.shares.room(scale, interface, true, now_ns) {
                    return Verdict::Dropped;
                }
            }
            match self.full_at.compare_exchange_weak(at, full, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.shares.count(scale, interface, wanted, now_ns);
                    return if beyond == 0 { Verdict::Passes } else { Verdict::Spared };
                }
                Err(other) => at = other,
            }
        }
    }
}

graph::counter_group! {
    /// Packets of one class in one worker.
    struct Counted {
        /// Packets for the router of a class that its limit let pass.
        passed: Packets,
        /// Those of them that came when the limit was reached: interfaces with a share left, and what was expected.
        spared: Packets,
        /// Packets for the router of a class beyond its limit.
        dropped: Packets,
    }
}

const COUNTERS: Group = Group { name: "punt", by: &["punt-class"], ..Group::NEW };

/// Packets of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Packets that passed.
    pub passed: u64,
    /// Those of them that came when the limit was reached: interfaces with a share left, and what was expected.
    pub spared: u64,
    /// Packets beyond it, which were dropped.
    pub dropped: u64,
}

/// The limits of all classes.
pub struct Police {
    buckets: [Bucket; COUNT],
    /// Each worker's, by class.
    workers: OfWorkers<Cells<Counted>>,
    /// Stations from which something is expected.
    pub expected: Expected,
}

impl Police {
    /// Default limits, for `workers` workers.
    ///
    /// # Errors
    /// The system has no room for the counters, or the registry has them already.
    pub fn new(registry: &Registry, workers: usize) -> io::Result<Police> {
        registry.name("punt-class", Class::ALL.iter().map(|c| (c.name().to_string(), String::new())));
        let police = Police {
            buckets: std::array::from_fn(|n| Bucket::new(Some(Class::of_number(n as u32).default_limit()))),
            workers: OfWorkers::default(),
            expected: Expected::default(),
        };
        police.grow(registry, workers)?;
        Ok(police)
    }

    /// Counters for so many workers; those that are there stay.
    ///
    /// # Errors
    /// As [`Police::new`].
    pub fn grow(&self, registry: &Registry, workers: usize) -> io::Result<()> {
        self.workers.grow(workers, |w| registry.cells(&COUNTERS, Owner::Worker(w), COUNT))
    }

    /// Worker: takes a token of `class` for a packet of `interface` and counts; false when there was none. `expected` is
    /// asked only where it matters.
    #[inline]
    pub fn admit(
        &self,
        class: Class,
        interface: u32,
        now_ns: u64,
        worker: usize,
        expected: impl FnMut() -> bool,
    ) -> bool {
        let verdict = self.buckets[class as usize].take(now_ns, interface, expected);
        if let Some(c) = self.workers.get(worker).and_then(|row| row.get(class as usize)) {
            if verdict == Verdict::Dropped { &c.dropped } else { &c.passed }.add(1);
            if verdict == Verdict::Spared {
                c.spared.add(1);
            }
        }
        verdict != Verdict::Dropped
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
        let row = self.workers.get(worker).and_then(|row| row.get(class as usize));
        let Some(c) = row else { return ClassCounts::default() };
        ClassCounts { passed: c.passed.get(), spared: c.spared.get(), dropped: c.dropped.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn admit(p: &Police, class: Class, now: u64, worker: usize) -> bool {
        p.admit(class, 1, now, worker, || false)
    }

    fn burst(p: &Police, now: u64) -> usize {
        (0..100_000).take_while(|_| admit(p, Class::Icmp, now, 0)).count()
    }

    fn limited(rate: u32, burst: u32) -> Police {
        let p = Police::new(&Registry::new().unwrap(), 2).unwrap();
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
        let sent = (0..10_000u64).filter(|i| admit(&p, Class::Icmp, 61_000_000_000 + i * 100_000, 0)).count();
        assert!((1000..=1100).contains(&sent), "{sent} in a second");
    }

    #[test]
    fn classes_workers_and_limits_are_apart() {
        let p = limited(1, 10);
        assert_eq!(burst(&p, 7), 10);
        assert!(admit(&p, Class::Bgp, 7, 1), "another class");
        assert!(!admit(&p, Class::Icmp, 7, 1), "workers share the tokens");
        assert_eq!(p.counts(Class::Icmp, 0), ClassCounts { passed: 10, spared: 0, dropped: 1 });
        assert_eq!(p.counts(Class::Icmp, 1), ClassCounts { passed: 0, spared: 0, dropped: 1 });
        assert_eq!(p.counts(Class::Bgp, 1), ClassCounts { passed: 1, spared: 0, dropped: 0 });
        // A worker whose clock is behind.
        assert!(!admit(&p, Class::Icmp, 0, 0));
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
                    prop_assert_eq!(admit(&p, Class::Icmp, now, 0), want);
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
                        move || (0..5000).filter(|_| admit(p, Class::Icmp, 5, w)).count()
                    })
                })
                .collect();
            workers.into_iter().map(|w| w.join().unwrap()).sum()
        });
        assert_eq!(passed, 1000);
    }

    /// A millisecond at a time: packets of interfaces, as (interface, packets a millisecond, whether expected). Answers how many
    /// of each passed within so many milliseconds.
    fn run(p: &Police, from_ms: u64, ms: u64, senders: &[(u32, f64, bool)]) -> Vec<u64> {
        // They do not send all at the same time.
        let (mut passed, mut due) = (vec![0; senders.len()], vec![]);
        due.extend((0..senders.len()).map(|n| n as f64 * 0.618 % 1.0));
        for t in from_ms..from_ms + ms {
            for (n, (interface, rate, expected)) in senders.iter().enumerate() {
                due[n] += rate;
                while due[n] >= 1.0 {
                    due[n] -= 1.0;
                    passed[n] += u64::from(p.admit(Class::Icmp, *interface, t * 1_000_000, 0, || *expected));
                }
            }
        }
        passed
    }

    #[test]
    fn a_flood_on_one_interface_leaves_the_others_their_share() {
        for (rate, burst) in [(2000, 1000), (5000, 1000), (1000, 100), (200, 20), (20_000, 2_000)] {
            let p = limited(rate, burst);
            let quiet = f64::from(rate) / 1000.0 / 20.0;
            // One flood, then three, then ten beside one that asks for a twentieth of the rate. A short burst has no room for
            // ten.
            for (turn, floods) in [1u32, 3, 10].into_iter().enumerate().filter(|f| f.1 < 10 || burst >= 1000)
            {
                let flood = 1.0 + f64::from(rate) / 500.0;
                let mut all: Vec<_> = (0..floods).map(|n| (n + 2, flood, false)).collect();
                all.push((1, quiet, false));
                let from = 10_000 + 20_000 * turn as u64;
                run(&p, from, 1000, &all);
                let got = run(&p, from + 1000, 5000, &all);
                let asked = (quiet * 5000.0) as u64;
                assert!(
                    got[floods as usize] + 1 >= asked,
                    "{rate}/{burst}, {floods} floods: {got:?} of {asked}"
                );
                let (total, most) = (got.iter().sum::<u64>(), u64::from(rate) * 5);
                // The rate holds, and is used up.
                assert!(total <= most + most / 50 + 2 && total + most / 50 + 2 >= most, "{total} of {most}");
                // Floods share evenly what is left.
                let (least, most) =
                    (got[..floods as usize].iter().min(), got[..floods as usize].iter().max());
                assert!(floods == 1 || least.zip(most).is_some_and(|(a, b)| 2 * a >= *b), "{got:?}");
            }
        }
    }

    #[test]
    fn what_is_expected_has_room_behind_a_flood_on_its_own_interface() {
        let p = limited(2000, 1000);
        run(&p, 10_000, 1000, &[(1, 200.0, false)]);
        let got = run(&p, 11_000, 5000, &[(1, 200.0, false), (1, 0.05, true), (1, 0.05, false)]);
        assert!(got[1] >= 249, "{got:?}");
        assert!(got[2] < 10, "{got:?}");
        // A flood that looks as if it were expected takes nothing from others.
        let got = run(&p, 17_000, 5000, &[(1, 200.0, true), (2, 0.05, false), (3, 0.05, true)]);
        assert!(got[1] >= 249 && got[2] >= 249, "{got:?}");
        assert!(got.iter().sum::<u64>() <= 5 * 2000 + 1000 + 750, "{got:?}");
    }

    #[test]
    fn thousands_of_interfaces_share_too() {
        let p = limited(2000, 1000);
        let mut all: Vec<_> = (0..3000).map(|n| (n + 10, 0.0005, false)).collect();
        all.push((1, 200.0, false));
        run(&p, 10_000, 1000, &all);
        let got = run(&p, 11_000, 8000, &all);
        let quiet = got[..3000].iter().sum::<u64>();
        assert!(quiet >= 11_900, "{quiet} of 12,000");
    }
}
