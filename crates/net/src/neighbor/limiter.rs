//! A rate limit that hands out places in time.

use super::Millis;

/// The generic cell rate algorithm. A place, once reserved, is kept: who waits does not have to ask again, so the
/// cost of waiting does not grow with the number of those who wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limiter {
    /// Microseconds between two places.
    interval: u64,
    /// Microseconds that a burst may run ahead.
    ahead: u64,
    /// When the next place would be due at the steady rate, in microseconds.
    next: u64,
}

impl Limiter {
    /// `rate` a second, at least 1, and `burst` at once, at least 1.
    pub(crate) fn new(rate: u32, burst: u32) -> Self {
        let interval = (1_000_000 / u64::from(rate.max(1))).max(1);
        Self { interval, ahead: interval * u64::from(burst.max(1) - 1), next: 0 }
    }

    /// Takes the next place: `now`, or later when the limit is reached.
    pub(crate) fn reserve(&mut self, now: Millis) -> Millis {
        let now_us = now.0.saturating_mul(1000);
        let at = self.next.saturating_sub(self.ahead).max(now_us);
        self.next = self.next.max(now_us).saturating_add(self.interval);
        Millis(at.div_ceil(1000))
    }

    /// Takes a place only if it is to be had at once.
    pub(crate) fn allow(&mut self, now: Millis) -> bool {
        let free = self.next.saturating_sub(self.ahead) <= now.0.saturating_mul(1000);
        if free {
            self.reserve(now);
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_steady() {
        let mut limiter = Limiter::new(100, 3);
        let places: Vec<u64> = (0..6).map(|_| limiter.reserve(Millis(1000)).0).collect();
        assert_eq!(places, [1000, 1000, 1000, 1010, 1020, 1030]);
        assert!(!limiter.allow(Millis(1039)));
        assert!(limiter.allow(Millis(1040)) && !limiter.allow(Millis(1040)));
        // After a pause the burst is there again, and no more than that.
        let places: Vec<u64> = (0..4).map(|_| limiter.reserve(Millis(9000)).0).collect();
        assert_eq!(places, [9000, 9000, 9000, 9010]);
    }

    #[test]
    fn never_faster_than_the_rate() {
        let mut limiter = Limiter::new(3000, 1);
        let last = (0..3000).map(|_| limiter.reserve(Millis(0)).0).last().unwrap();
        assert_eq!(last, 999);
    }
}
