//! What several workers forward together, against what one of them does alone: measured in turns, for a machine that others
//! use is never the same for long.

use super::feed::Control;
use super::measure::{Meter, Run, median};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Until the workers do what they were told, seconds.
const SETTLE: f64 = 0.005;

/// Turns in which one worker forwards alone.
pub struct Turns<'m> {
    meter: &'m Meter,
    feed: &'m Control,
    workers: usize,
    length: f64,
    /// Million packets a second of each turn.
    mpps: Vec<f64>,
}

impl<'m> Turns<'m> {
    /// Of `length` seconds, of so many workers.
    pub fn new(meter: &'m Meter, feed: &'m Control, workers: usize, length: f64) -> Self {
        Turns { meter, feed, workers, length, mpps: vec![] }
    }

    /// Lets the next worker forward alone, where there are several.
    pub fn take(&mut self) {
        if self.workers < 2 {
            return;
        }
        let sleep = |s| std::thread::sleep(Duration::from_secs_f64(s));
        self.feed.alone.store(1 + self.mpps.len() % self.workers, Ordering::Relaxed);
        sleep(SETTLE);
        let first = self.meter.mark();
        sleep(self.length);
        self.mpps.push(self.meter.mpps(&self.meter.since(&first)));
        self.feed.alone.store(0, Ordering::Relaxed);
        sleep(SETTLE);
    }

    /// How many times as much as one worker all of them forwarded in the windows of `run`, each against the turn behind
    /// it: the median.
    pub fn times_one(&self, run: &Run) -> Option<f64> {
        let pairs = run.windows.iter().zip(&self.mpps).filter(|(_, alone)| **alone > 0.0);
        let times: Vec<f64> = pairs.map(|(w, alone)| self.meter.mpps(w) / alone).collect();
        (!times.is_empty()).then(|| median(times))
    }
}
