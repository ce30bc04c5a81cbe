//! Fair shares of a class by interface: how much of it each interface has used of late.

use std::sync::atomic::{AtomicU64, Ordering};

/// Interfaces whose use is known at once; those whose numbers are so many apart share a slot.
const SLOTS: usize = 4096;
/// Use of a whole burst. It decays by half in the largest power of two of nanoseconds within the time that a burst takes.
const BURST: u64 = 1 << 19;
/// Bits of one kind of use, and of the time.
const USE: u32 = 20;
const MOST: u64 = (1 << USE) - 1;
const TIME: u32 = 24;
/// Half-life, in units of time.
const HALF: u32 = 6;

/// How the time of a class is counted, and what one packet uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// Nanoseconds that a full burst takes.
    window: u64,
    /// What a packet uses.
    cost: u64,
}

/// What an interface has used: packets of all kinds, and those that were expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    all: u64,
    expected: u64,
}

impl Scale {
    /// A packet counts twice: only those are counted that come when half of the burst is gone. Who alone has used up the
    /// burst has then used as much here, and is allowed no more: use decays more slowly than the bucket fills.
    pub fn new(window: u64, burst: u64) -> Scale {
        // Of an odd burst the smaller half.
        Scale { window, cost: (2 * BURST).div_ceil((burst & !1).max(1)) }
    }

    /// The unit of time is a 64th of the largest power of two within the window.
    fn units(self, now_ns: u64) -> u64 {
        now_ns >> self.window.max(1).ilog2().saturating_sub(HALF)
    }

    /// What is left now of the use in `word`.
    fn decayed(self, word: u64, now_ns: u64) -> Used {
        let passed = self.units(now_ns).wrapping_sub(word >> (2 * USE)) & ((1 << TIME) - 1);
        // Clocks of workers differ a little.
        let passed = if passed >> (TIME - 1) == 0 { passed } else { 0 };
        let (halves, rest) = (passed >> HALF, passed & ((1 << HALF) - 1));
        let left = |used: u64| {
            let used = if halves < u64::from(USE) { used >> halves } else { 0 };
            used - ((used * rest) >> (HALF + 1))
        };
        Used { all: left(word >> USE & MOST), expected: left(word & MOST) }
    }

    fn word(self, used: Used, now_ns: u64) -> u64 {
        let time = self.units(now_ns) & ((1 << TIME) - 1);
        time << (2 * USE) | used.all.min(MOST) << USE | used.expected.min(MOST)
    }

    /// Nanoseconds of `part` that are left to who has `used` so much of a burst. A little less, as time is counted in steps.
    fn left(part: u64, used: u64) -> u64 {
        let free = BURST.saturating_sub(used + BURST / 32);
        (u128::from(part) * u128::from(free) / u128::from(BURST)) as u64
    }
}

/// What the interfaces have used of one class.
pub(super) struct Shares(Box<[AtomicU64]>);

impl Shares {
    pub fn new() -> Shares {
        Shares((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }

    fn slot(&self, interface: u32) -> Option<&AtomicU64> {
        self.0.get(interface as usize % SLOTS)
    }

    /// How far beyond the empty bucket a packet of an interface may go, in nanoseconds: by up to half a burst, the less the
    /// more the interface has used; what is expected by up to a quarter more, the less the more came that was.
    pub fn room(&self, scale: Scale, interface: u32, expected: bool, now_ns: u64) -> u64 {
        let word = self.slot(interface).map_or(0, |s| s.load(Ordering::Relaxed));
        let used = scale.decayed(word, now_ns);
        let kept = if expected { Scale::left(scale.window / 4, used.expected) } else { 0 };
        Scale::left(scale.window / 2, used.all) + kept
    }

    /// A packet of an interface has passed.
    pub fn count(&self, scale: Scale, interface: u32, expected: bool, now_ns: u64) {
        let Some(slot) = self.slot(interface) else { return };
        let mut was = slot.load(Ordering::Relaxed);
        loop {
            let mut used = scale.decayed(was, now_ns);
            used.all += scale.cost;
            used.expected += if expected { scale.cost } else { 0 };
            let word = scale.word(used, now_ns);
            match slot.compare_exchange_weak(was, word, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => was = other,
            }
        }
    }

    /// Nobody has used anything.
    pub fn clear(&self) {
        self.0.iter().for_each(|s| s.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Use decays as an exponential with the half-life of the scale does, whatever the window and the burst.
        #[test]
        fn use_decays_by_halves(
            rate in 1u64..10_000_000, burst in 1u64..100_000, packets in 1u64..200, later in 0u64..400,
        ) {
            let window = (1_000_000_000 / rate).max(1) * burst;
            prop_assume!(window > 1 << 12);
            let (scale, shares) = (Scale::new(window, burst), Shares::new());
            let now = 77_000_000_000_000;
            (0..packets).for_each(|_| shares.count(scale, 5, false, now));
            let half = (1u64 << window.ilog2()) as f64;
            let later_ns = later * (half as u64) / 64;
            let used = (packets * scale.cost).min(MOST) as f64 / BURST as f64;
            let want = used * 0.5f64.powf(later as f64 / 64.0);
            let got = scale.decayed(shares.0[5].load(Ordering::Relaxed), now + later_ns).all as f64 / BURST as f64;
            prop_assert!((got - want).abs() < 0.07 * used + 0.001, "{got} {want}");
            // Another worker's clock is behind; other interfaces have used nothing.
            prop_assert_eq!(shares.room(scale, 5, false, now - 100), shares.room(scale, 5, false, now));
            let fresh = |part| Scale::left(part, 0);
            prop_assert_eq!(shares.room(scale, 6, false, now), fresh(window / 2));
            prop_assert_eq!(shares.room(scale, 6, true, now), fresh(window / 2) + fresh(window / 4));
        }
    }

    #[test]
    fn the_largest_numbers() {
        for (window, burst) in [(u64::MAX, 1), (1, 1), (0, 0), (100_000_000 * 1_000_000_000, 100_000_000)] {
            let (scale, shares) = (Scale::new(window, burst), Shares::new());
            for now in [0, u64::MAX] {
                (0..10).for_each(|_| shares.count(scale, u32::MAX, true, now));
                assert!(shares.room(scale, u32::MAX, true, now) <= window / 4 * 3 + 1);
            }
        }
    }
}
