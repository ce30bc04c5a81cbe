//! What several workers forward together, against what one of them does alone: measured in turns, for a machine that others
//! use is never the same for long.

use super::feed::Control;
use super::measure::{Meter, median};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Length of a turn, seconds: a neighbour on the machine mostly stays longer.
const TURN: f64 = 0.02;
/// Until the workers do what they were told, seconds.
const SETTLE: f64 = 0.003;

/// Turns in which one worker forwards alone, and then all.
pub struct Turns<'m> {
    meter: &'m Meter,
    feed: &'m Control,
    workers: usize,
    /// How many times as much all forwarded as the one before them.
    times: Vec<f64>,
}

impl<'m> Turns<'m> {
    /// Of so many workers.
    pub fn new(meter: &'m Meter, feed: &'m Control, workers: usize) -> Self {
        Turns { meter, feed, workers, times: vec![] }
    }

    /// Takes turns for so many seconds, where there are several workers; each is the one that is alone as often.
    pub fn take(&mut self, seconds: f64) {
        if self.workers < 2 {
            return;
        }
        for turn in 0..(seconds / (2.0 * TURN)).ceil() as usize {
            let alone = self.mpps(1 + turn % self.workers);
            let all = self.mpps(0);
            if alone > 0.0 {
                self.times.push(all / alone);
            }
        }
    }

    /// Million packets a second of one worker, or with 0 of all.
    fn mpps(&self, alone: usize) -> f64 {
        let sleep = |s| std::thread::sleep(Duration::from_secs_f64(s));
        self.feed.alone.store(alone, Ordering::Relaxed);
        sleep(SETTLE);
        let first = self.meter.mark();
        sleep(TURN);
        self.meter.mpps(&self.meter.since(&first))
    }

    /// How many times as much all forwarded as one: the median.
    pub fn times_one(self) -> Option<f64> {
        (!self.times.is_empty()).then(|| median(self.times))
    }
}
