//! Pacing: how many packets are due at a time, so that the long-run rate is exact.

/// Most packets that leave together after a wait, as long as these are more than [`BACKLOG_NS`].
pub const BURST: u32 = 256;
/// How much of a stall (the worker was busy or preempted) is made up for.
pub const BACKLOG_NS: u64 = 1_000_000;

/// Gives out packets at a fixed rate. Times are kept in nanoseconds with 32 bits of fraction.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    step: u128,
    due: u128,
    backlog: u128,
}

impl Pace {
    /// A pace of `pps` packets a second, which must be positive.
    pub fn new(pps: f64) -> Self {
        let step = ((1e9 / pps * (1u64 << 32) as f64) as u128).clamp(1, u128::from(u64::MAX) << 32);
        let backlog = (step * u128::from(BURST - 1)).max(u128::from(BACKLOG_NS) << 32);
        Pace { step, due: 0, backlog }
    }

    /// The first packet is due now.
    pub fn start(&mut self, now_ns: u64) {
        self.due = u128::from(now_ns) << 32;
    }

    /// Packets due at `now_ns`, at most `max`.
    #[inline]
    pub fn allowed(&mut self, now_ns: u64, max: usize) -> usize {
        let now = u128::from(now_ns) << 32;
        if now < self.due {
            return 0;
        }
        if now - self.due > self.backlog {
            self.due = now - self.backlog;
        }
        let n = (now - self.due) / self.step + 1;
        usize::try_from(n).map_or(max, |n| n.min(max))
    }

    /// `n` of the packets that were due have left.
    #[inline]
    pub fn sent(&mut self, n: usize) {
        self.due += self.step * n as u128;
    }

    /// When the next packet is due, in nanoseconds.
    pub fn due_ns(&self) -> u64 {
        u64::try_from(self.due.div_ceil(1 << 32)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls every `every` ns for `span` ns, `room` at a time.
    fn run(pps: f64, every: u64, span: u64, room: usize) -> (u64, usize) {
        let (mut pace, mut sent, mut most) = (Pace::new(pps), 0, 0);
        let t0 = 77_777_777_777;
        pace.start(t0);
        for now in (t0..t0 + span).step_by(every as usize) {
            let n = pace.allowed(now, room);
            pace.sent(n);
            sent += n as u64;
            most = most.max(n);
        }
        (sent, most)
    }

    #[test]
    fn the_average_is_right_within_one_per_cent() {
        for pps in [1.0, 3.7, 999.0, 1e5, 1_234_567.0, 9.9e6] {
            let span = 4_000_000_000u64.min((1e9 / pps * 1e6) as u64).max(2_000_000_000 / pps as u64);
            let (sent, _) = run(pps, 3_217, span, 256);
            let want = pps * span as f64 / 1e9;
            assert!((sent as f64 - want).abs() <= (want * 0.01).max(1.0), "{pps}: {sent} for {want}");
        }
    }

    #[test]
    fn polls_at_the_due_time_find_a_packet() {
        let mut pace = Pace::new(7.0);
        pace.start(5);
        for _ in 0..1000 {
            assert_eq!(pace.allowed(pace.due_ns(), 256), 1);
            pace.sent(1);
            assert_eq!(pace.allowed(pace.due_ns() - 1, 256), 0);
        }
    }

    #[test]
    fn a_long_wait_ends_in_one_burst() {
        let mut pace = Pace::new(1000.0);
        pace.start(0);
        let now = 3_600_000_000_000;
        assert_eq!(pace.allowed(now, 10_000), 256);
        pace.sent(256);
        assert_eq!(pace.allowed(now, 10_000), 0);
        assert!(pace.due_ns() <= now + 1_000_000);
    }

    #[test]
    fn what_could_not_leave_stays_due() {
        let mut pace = Pace::new(1e6);
        pace.start(0);
        assert_eq!(pace.allowed(99_000, 256), 100);
        pace.sent(40);
        assert_eq!(pace.allowed(99_000, 256), 60);
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        for pps in [1e-6, 1e12, f64::MIN_POSITIVE] {
            let mut pace = Pace::new(pps);
            pace.start(u64::MAX - 1);
            assert!(pace.allowed(u64::MAX, 256) >= 1);
        }
    }
}
