//! Readers against a writer, for the tests of all tables.
#![cfg_attr(miri, allow(dead_code))]

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// A count of steps that have begun and been done, and the epoch each reader has seen.
pub(crate) struct Clock {
    begun: AtomicU64,
    done: AtomicU64,
    epoch: AtomicU64,
    seen: Vec<AtomicU64>,
    stop: AtomicU64,
}

impl Clock {
    pub(crate) fn new(readers: usize) -> Self {
        let seen = (0..readers).map(|_| AtomicU64::new(0)).collect();
        Clock { begun: 0.into(), done: 0.into(), epoch: 1.into(), seen, stop: 0.into() }
    }

    /// Runs `f`, after which answers are the next number.
    pub(crate) fn step(&self, f: impl FnOnce(u32)) {
        let n = self.begun.fetch_add(1, SeqCst) + 1;
        f(n as u32);
        self.done.store(n, SeqCst);
    }

    /// Takes the next number without a change that shows.
    pub(crate) fn hidden(&self, f: impl FnOnce(u32)) {
        f(self.begun.fetch_add(1, SeqCst) as u32 + 1);
    }

    /// Shows what was hidden.
    pub(crate) fn reveal(&self, f: impl FnOnce()) {
        f();
        self.done.store(self.begun.load(SeqCst), SeqCst);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(SeqCst)
    }

    /// Ends an epoch; answers the one that all readers have passed.
    pub(crate) fn advance(&self) -> u64 {
        let now = self.epoch.fetch_add(1, SeqCst) + 1;
        self.seen.iter().map(|s| s.load(SeqCst)).min().unwrap_or(now)
    }

    /// Waits until every reader has looked at least once more.
    pub(crate) fn wait_for_readers(&self) {
        let now = self.advance().max(self.epoch());
        while self.seen.iter().any(|s| s.load(SeqCst) < now) {
            std::thread::yield_now();
        }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(1, SeqCst);
    }

    /// Reads until stopped: every answer lies between the steps done before and begun after.
    pub(crate) fn read(&self, me: usize, mut f: impl FnMut(&mut Vec<u32>)) -> u64 {
        let (mut rounds, mut out) = (0, Vec::new());
        while self.stop.load(SeqCst) == 0 {
            self.seen[me].store(self.epoch.load(SeqCst), SeqCst);
            let low = self.done.load(SeqCst);
            out.clear();
            f(&mut out);
            let high = self.begun.load(SeqCst);
            for &v in &out {
                assert!((low..=high).contains(&u64::from(v)), "{v} read between {low} and {high}");
            }
            rounds += 1;
        }
        self.seen[me].store(u64::MAX, SeqCst);
        rounds
    }
}

/// A short prefix has other values only while a longer one hides it: readers must never see these. `set` changes the prefix of a length
/// (0: takes it out), `read` looks the address up.
#[cfg(not(miri))]
pub(crate) fn never_seen(
    mut set: impl FnMut(u8, u32),
    short: [u8; 3],
    long: u8,
    read: impl Fn(&mut [u32]) + Sync,
) {
    const HIDDEN: u32 = 7;
    let clock = Clock::new(2);
    for len in short {
        set(len, 2);
    }
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while clock.stop.load(SeqCst) == 0 {
                    let mut out = [0; 256];
                    read(&mut out);
                    assert!(out.iter().all(|v| [1, 2].contains(v)), "{out:?}");
                }
            });
        }
        let _stop = Stop(&clock);
        for round in 0..60_000 {
            let len = short[round % 3];
            set(long, 1);
            set(len, HIDDEN);
            set(len, 2);
            set(long, 0);
        }
    });
}

/// Stops the readers when the writer's part of a test ends, by a panic too.
pub(crate) struct Stop<'a>(pub(crate) &'a Clock);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
