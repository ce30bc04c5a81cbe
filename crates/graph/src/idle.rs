//! What a worker does while no packet waits: it turns round, dozes for a set time, or sleeps until a descriptor wakes it.
//!
//! To spin is worth it where the next packet comes before the time is over that sleeping and waking take of the processor. Whether it does is seen
//! from the idle periods so far: of those in which the worker has spun or dozed, how many ended soon. While most did not, it sleeps at once, and
//! tries again in one of [`TRY`] periods.

use std::time::Duration;

/// How a worker waits for packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Does not sleep while packets came in the last second.
    Latency,
    /// Spins where the next packet is expected sooner than a sleep and a wake-up cost, and sleeps where it is not.
    #[default]
    Balanced,
    /// Does not spin; where packets come closely it lets them gather for some microseconds.
    Power,
}

impl Polling {
    /// All, with their names.
    pub const ALL: [(&'static str, Polling); 3] =
        [("latency", Polling::Latency), ("balanced", Polling::Balanced), ("power", Polling::Power)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Poll again at once.
    Spin,
    /// Poll again in so many clocks.
    Doze(u64),
    /// Wait for descriptors.
    Sleep,
}

/// In [`Polling::Latency`], packets came lately.
const LATELY: Duration = Duration::from_secs(1);
/// How long packets gather in [`Polling::Power`].
const DOZE: Duration = Duration::from_micros(40);
/// The least that sleeping and waking are thought to cost.
const LEAST: Duration = Duration::from_micros(3);
/// One of so many idle periods is tried while most do not end soon.
const TRY: u32 = 16;
/// All idle periods ended soon.
const ALWAYS: u32 = 1 << 10;

/// What a worker has seen of its idle periods. Times are clocks of the TSC.
pub(crate) struct Idle {
    polling: Polling,
    /// The longest that it spins.
    spin: u64,
    /// What sleeping and waking take of the processor.
    cost: u64,
    least: u64,
    lately: u64,
    doze: u64,
    /// When the idle period began, if it is in one.
    since: Option<u64>,
    /// How long to spin or doze in this period.
    limit: u64,
    dozed: bool,
    slept: bool,
    /// How many periods ended soon, of [`ALWAYS`]; later ones count more.
    soon: u32,
    /// Periods without a try.
    untried: u32,
}

impl Idle {
    /// One that has seen nothing, and spins for `spin` at most; `clocks` makes clocks of a time.
    pub fn new(polling: Polling, spin: Duration, clocks: impl Fn(Duration) -> u64) -> Idle {
        let least = clocks(LEAST);
        Idle {
            polling,
            spin: clocks(spin),
            cost: least,
            least,
            lately: clocks(LATELY),
            doze: clocks(DOZE),
            since: None,
            limit: 0,
            dozed: false,
            slept: false,
            soon: ALWAYS,
            untried: 0,
        }
    }

    pub fn set(&mut self, polling: Polling) {
        (self.polling, self.since) = (polling, None);
    }

    pub fn polling(&self) -> Polling {
        self.polling
    }

    /// A sleep and a wake-up took so much of the processor.
    pub fn cost(&mut self, cost: u64) {
        // One that met with other work does not count for much.
        let cost = cost.min(4 * self.cost.max(self.least));
        self.cost = (self.cost * 7 + cost) / 8;
    }

    /// An idle period that ends within this was worth its wait: a spin may take as much of the processor as a sleep, with the wake-up in
    /// another program's time counted as once more.
    fn worth(&self) -> u64 {
        match self.polling {
            Polling::Latency => self.lately,
            Polling::Balanced => (2 * self.cost).max(self.least).min(self.spin),
            Polling::Power => self.doze,
        }
    }

    /// What is due sooner than this is waited for by spinning.
    pub fn at_once(&self) -> u64 {
        match self.polling {
            Polling::Power => self.least,
            Polling::Latency | Polling::Balanced => self.spin,
        }
    }

    /// There was work.
    #[inline]
    pub fn worked(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.ended(now.wrapping_sub(since));
        }
    }

    fn ended(&mut self, took: u64) {
        if self.limit != 0 {
            let soon = !self.slept && (self.polling != Polling::Balanced || took <= self.worth());
            self.soon = (self.soon * 7 + if soon { ALWAYS } else { 0 }) / 8;
        }
    }

    /// There was none.
    pub fn next(&mut self, now: u64) -> Next {
        let since = match self.since {
            Some(since) => since,
            None => self.begin(now),
        };
        if self.polling == Polling::Power && self.limit != 0 && !self.dozed {
            self.dozed = true;
            return Next::Doze(self.doze);
        }
        if self.polling == Polling::Power || now.wrapping_sub(since) >= self.limit {
            self.slept = true;
            return Next::Sleep;
        }
        Next::Spin
    }

    /// An idle period begins.
    fn begin(&mut self, now: u64) -> u64 {
        (self.dozed, self.slept) = (false, false);
        let likely = 2 * self.soon > ALWAYS;
        self.untried += 1;
        let tries = likely || self.untried >= TRY;
        if tries {
            self.untried = 0;
        }
        self.limit = match self.polling {
            Polling::Latency => self.lately.max(self.spin),
            Polling::Balanced if likely => self.spin,
            Polling::Balanced if tries => self.worth(),
            Polling::Power if tries => self.doze,
            Polling::Balanced | Polling::Power => 0,
        };
        self.since = Some(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker to whose device packets come at set times; a clock is a nanosecond, a look at the device takes 100, a sleep 4,000 and
    /// the wake-up 15,000 until it looks again. Answers the share of time that it took, and the mean time from a packet to its look.
    fn run(idle: &mut Idle, gaps: impl IntoIterator<Item = u64>) -> (f64, f64) {
        let (mut now, mut at, mut busy, mut late, mut n) = (1u64, 1u64, 0u64, 0u64, 0u64);
        for gap in gaps {
            at += gap;
            n += 1;
            while now < at {
                now += 100;
                match idle.next(now) {
                    Next::Spin => busy += 100,
                    Next::Doze(time) => {
                        now += time;
                        busy += 4_000;
                    }
                    Next::Sleep => {
                        now = now.max(at) + 15_000;
                        busy += 4_000;
                        idle.cost(4_000);
                    }
                }
            }
            late += now - at;
            busy += 200;
            now += 200;
            idle.worked(now);
        }
        (busy as f64 / now as f64, late as f64 / n as f64)
    }

    fn idle(polling: Polling) -> Idle {
        Idle::new(polling, Duration::from_micros(50), |t| t.as_nanos() as u64)
    }

    /// Gaps as of independent packets, `mean` on average.
    fn random(mean: f64, n: usize) -> impl Iterator<Item = u64> {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        (0..n).map(move |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let share = ((x >> 11) as f64 / (1u64 << 53) as f64).max(1e-12);
            (-share.ln() * mean) as u64
        })
    }

    #[test]
    fn balanced_spins_for_close_packets_alone() {
        let mut i = idle(Polling::Balanced);
        // Far apart: what fixed spinning would take half of the processor for.
        let (busy, _) = run(&mut i, random(100_000.0, 5_000));
        assert!(busy < 0.07, "{busy}");
        // Closely: it is there when they come.
        let (_, late) = run(&mut i, random(2_000.0, 50_000));
        assert!(late < 1_000.0, "{late}");
        // And apart again.
        let (busy, _) = run(&mut i, random(300_000.0, 5_000));
        assert!(busy < 0.03, "{busy}");
    }

    #[test]
    fn bursts_far_apart_are_slept_for() {
        let mut i = idle(Polling::Balanced);
        let bursts = (0..5_000u64).map(|n| if n % 20 == 0 { 1_000_000 } else { 150 });
        let (busy, _) = run(&mut i, bursts);
        assert!(busy < 0.06, "{busy}");
    }

    #[test]
    fn latency_does_not_sleep_within_a_second() {
        let mut i = idle(Polling::Latency);
        let (busy, late) = run(&mut i, random(300_000.0, 1_000));
        assert!(busy > 0.99 && late < 200.0, "{busy} {late}");
        let start = 1 << 40;
        i.worked(start);
        assert_eq!(i.next(start), Next::Spin);
        assert_eq!(i.next(start + 999_000_000), Next::Spin);
        assert_eq!(i.next(start + 1_000_000_001), Next::Sleep);
    }

    #[test]
    fn power_never_spins_and_dozes_for_close_packets() {
        let mut i = idle(Polling::Power);
        let (busy, late) = run(&mut i, random(2_000.0, 50_000));
        assert!(busy < 0.4 && late < 45_000.0, "{busy} {late}");
        let (busy, late) = run(&mut i, random(1_000_000.0, 1_000));
        assert!(busy < 0.01 && late < 20_000.0, "{busy} {late}");
    }

    #[test]
    fn one_long_sleep_says_little() {
        let mut i = idle(Polling::Balanced);
        i.cost(1 << 40);
        assert!(i.cost < 2 * 3_000);
        (0..100).for_each(|_| i.cost(1_000));
        assert!(i.cost < 1_100 && i.worth() == 3_000, "{}", i.cost);
    }
}
