//! The rate limit of ICMP errors (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4(f)).

/// A token bucket, kept as the time at which it will be full again (the generic cell rate algorithm): it holds a tenth
/// of a second's tokens, at least `MIN_BURST`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorLimit {
    /// Nanoseconds of the worker's clock.
    full_at: u64,
}

/// Errors that may always be sent at once: a traceroute sends three probes a hop, often all at one time.
pub const MIN_BURST: u32 = 10;

impl ErrorLimit {
    /// Takes a token if there is one. `rate` is in tokens a second; 0 gives none.
    pub fn allow(&mut self, now_ns: u64, rate: u32) -> bool {
        if rate == 0 {
            return false;
        }
        let interval = 1_000_000_000 / u64::from(rate);
        let burst = u64::from((rate / 10).max(MIN_BURST)) * interval;
        let full_at = self.full_at.max(now_ns) + interval;
        let allowed = full_at - now_ns <= burst;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(l: &mut ErrorLimit, now: u64, rate: u32) -> usize {
        (0..1000).take_while(|_| l.allow(now, rate)).count()
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut l = ErrorLimit::default();
        assert_eq!(burst(&mut l, 5_000_000_000, 1000), 100);
        assert_eq!(burst(&mut l, 5_000_999_999, 1000), 0);
        assert_eq!(burst(&mut l, 5_001_000_000, 1000), 1);
        assert_eq!(burst(&mut l, 5_011_000_000, 1000), 10);
        assert_eq!(burst(&mut l, 60_000_000_000, 1000), 100);
        let sent = (0..10_000u64).filter(|i| l.allow(61_000_000_000 + i * 100_000, 1000)).count();
        assert!((1000..=1100).contains(&sent), "{sent} in a second");
    }

    #[test]
    fn slow_and_changing_rates() {
        let mut l = ErrorLimit::default();
        assert_eq!(burst(&mut l, 0, 0), 0);
        assert_eq!(burst(&mut l, 0, 1), 10);
        assert!(!l.allow(999_999_999, 1) && l.allow(1_000_000_000, 1));
        assert_eq!(burst(&mut l, 0, u32::MAX), 0, "the debt of the slow rate stays");
    }
}
