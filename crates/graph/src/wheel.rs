//! Timers of a worker: a hierarchical wheel (Varghese and Lauck) of a fixed number of timers, which are numbers of its user's.
//!
//! Starting and stopping take the same time however many run, and nothing is allocated once the wheel is made. Time is the
//! worker's clock ([`Env::now_ns`](crate::Env::now_ns)). A timer never fires early, and late by less than a tick and the time between two calls
//! of [`Wheel::expire`]; how many one call may handle, its caller says, so that a million timers of one moment do not keep a worker.
//!
//! ```
//! use graph::wheel::Wheel;
//! let mut wheel = Wheel::new(1000, 20, 0);
//! wheel.start(7, 5_000_000);
//! wheel.start(8, 3_000_000);
//! wheel.stop(8);
//! let mut fired = vec![];
//! assert!(!wheel.expire(4_000_000, 64, |timer| fired.push(timer)) && fired.is_empty());
//! wheel.expire(7_000_000, 64, |timer| fired.push(timer));
//! assert_eq!(fired, [7]);
//! ```

/// A level has as many slots as a word has bits, so that the next one with timers is found at once.
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough that no time is beyond the last level: see [`LAST`].
const LEVELS: usize = 7;
/// The last tick there is; later times count as this one. With the shortest tick it comes after 9 years.
const LAST: u64 = (1 << (BITS * LEVELS as u32)) - 1;
/// "No timer", and the slot of a timer that does not run.
const NONE: u32 = u32::MAX;
const IDLE: u16 = u16::MAX;

/// The shortest tick is 2^this nanoseconds, 65.5 µs.
pub const SHORTEST: u32 = 16;

#[derive(Clone, Copy)]
struct Timer {
    next: u32,
    /// The one before it in its slot, or [`NONE`].
    prev: u32,
    /// The tick at which it fires, in units of 2^16: see [`Timer::at`].
    at: u32,
    at_high: u16,
    /// Which list it is in.
    slot: u16,
}

impl Timer {
    fn at(&self) -> u64 {
        u64::from(self.at_high) << 32 | u64::from(self.at)
    }
}

/// The wheel.
pub struct Wheel {
    timers: Box<[Timer]>,
    /// The first timer of each slot, by level.
    heads: [[u32; SLOTS]; LEVELS],
    /// Slots that have timers, a bit each.
    filled: [u64; LEVELS],
    /// The tick that is to be looked at next: all before it are done.
    now: u64,
    /// Clock of tick 0.
    start_ns: u64,
    /// A tick is 2^this nanoseconds.
    shift: u32,
    running: u32,
}

impl Wheel {
    /// Room for timers 0 to `timers`, with ticks of 2^`shift` nanoseconds (at least [`SHORTEST`]); the clock is `now_ns`.
    pub fn new(timers: usize, shift: u32, now_ns: u64) -> Self {
        let idle = Timer { next: NONE, prev: NONE, at: 0, at_high: 0, slot: IDLE };
        Wheel {
            timers: vec![idle; timers.min(NONE as usize)].into(),
            heads: [[NONE; SLOTS]; LEVELS],
            filled: [0; LEVELS],
            now: 0,
            start_ns: now_ns,
            shift: shift.max(SHORTEST),
            running: 0,
        }
    }

    /// Its memory, bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Wheel>() + size_of_val(&*self.timers)
    }

    /// Timers that run.
    pub fn len(&self) -> usize {
        self.running as usize
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.running == 0
    }

    /// Whether this timer runs.
    pub fn is_running(&self, timer: u32) -> bool {
        self.timers.get(timer as usize).is_some_and(|t| t.slot != IDLE)
    }

    /// Has a timer fire when the clock is `at_ns`, or a little later, instead of when it was to fire before. Numbers beyond the
    /// wheel's are left out.
    #[inline]
    pub fn start(&mut self, timer: u32, at_ns: u64) {
        self.stop(timer);
        if (timer as usize) < self.timers.len() {
            let at = at_ns.saturating_sub(self.start_ns).div_ceil(1 << self.shift);
            self.running += 1;
            self.put(timer, at.clamp(self.now, LAST));
        }
    }

    /// Has a timer not fire.
    #[inline]
    pub fn stop(&mut self, timer: u32) {
        if self.is_running(timer) {
            self.take(timer);
            self.running -= 1;
        }
    }

    /// Calls `fired` for each timer whose time has come, the earlier ticks first; timers of one tick in any order. Handles at most
    /// `most` of them, and as many that only come nearer: true when others are left for the next call.
    pub fn expire(&mut self, now_ns: u64, most: usize, mut fired: impl FnMut(u32)) -> bool {
        let until = (now_ns.saturating_sub(self.start_ns) >> self.shift).min(LAST);
        if self.running == 0 {
            self.now = self.now.max(until);
            return false;
        }
        let (mut fires, mut moves) = (most, most);
        while self.now <= until {
            for level in 1..LEVELS {
                let slot = self.digit(level);
                while self.filled[level] & 1 << slot != 0 {
                    if moves == 0 {
                        return true;
                    }
                    moves -= 1;
                    let timer = self.heads[level][slot];
                    let at = self.timers[timer as usize].at();
                    self.take(timer);
                    self.put(timer, at);
                }
            }
            let slot = self.digit(0);
            while self.filled[0] & 1 << slot != 0 {
                if fires == 0 {
                    return true;
                }
                fires -= 1;
                let timer = self.heads[0][slot];
                self.take(timer);
                self.running -= 1;
                fired(timer);
            }
            match self.next() {
                Some(next) if next <= until => self.now = next,
                // All of this tick fired; one that is started for it now waits for the next look.
                _ => {
                    self.now = until;
                    return false;
                }
            }
        }
        false
    }

    /// Before which clock nothing will fire: how long its worker may sleep. None: no timer runs.
    pub fn due_ns(&self) -> Option<u64> {
        if self.running == 0 {
            return None;
        }
        let now = (0..LEVELS).any(|level| self.filled[level] & 1 << self.digit(level) != 0);
        let tick = if now { self.now } else { self.next()? };
        Some(self.start_ns.saturating_add(tick << self.shift))
    }

    /// The slot of the tick that is looked at.
    fn digit(&self, level: usize) -> usize {
        (self.now >> (BITS * level as u32)) as usize % SLOTS
    }

    /// The tick of the next slot that has timers, behind those of the tick that is looked at.
    fn next(&self) -> Option<u64> {
        (0..LEVELS).find_map(|level| {
            let low = BITS * level as u32;
            let later = self.filled[level] & (u64::MAX << self.digit(level)) << 1;
            let slot = u64::from(later.trailing_zeros());
            (later != 0).then(|| (self.now >> low >> BITS << BITS | slot) << low)
        })
    }

    /// Puts a timer in the slot for a tick: on the level of the highest digit in which it differs from the tick that is looked at.
    #[inline]
    fn put(&mut self, timer: u32, at: u64) {
        let level = ((63 - ((at ^ self.now) | 1).leading_zeros()) / BITS) as usize;
        let slot = (at >> (BITS * level as u32)) as usize % SLOTS;
        let next = std::mem::replace(&mut self.heads[level][slot], timer);
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.prev = timer;
        }
        self.filled[level] |= 1 << slot;
        self.timers[timer as usize] = Timer {
            next,
            prev: NONE,
            at: at as u32,
            at_high: (at >> 32) as u16,
            slot: (level * SLOTS + slot) as u16,
        };
    }

    /// Takes a timer that runs out of its slot.
    #[inline]
    fn take(&mut self, timer: u32) {
        let Timer { next, prev, slot, .. } = self.timers[timer as usize];
        let (level, slot) = (usize::from(slot) / SLOTS, usize::from(slot) % SLOTS);
        if let Some(next) = self.timers.get_mut(next as usize) {
            next.prev = prev;
        }
        match self.timers.get_mut(prev as usize) {
            Some(prev) => prev.next = next,
            None => {
                self.heads[level][slot] = next;
                if next == NONE {
                    self.filled[level] &= !(1 << slot);
                }
            }
        }
        self.timers[timer as usize].slot = IDLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The ticks at which timers fire, by timer, and nothing else.
    #[derive(Default)]
    struct Naive {
        at: BTreeMap<u32, u64>,
        now: u64,
    }

    fn delay() -> impl Strategy<Value = u64> {
        // Of every length, and those beside the borders of levels.
        prop_oneof![
            0u64..200,
            (0u32..42, 0u64..3).prop_map(|(bits, more)| (1 << bits) + more - 1),
            Just(u64::MAX >> 20),
        ]
    }

    #[derive(Clone, Debug)]
    enum Do {
        Start(u32, u64),
        Stop(u32),
        Pass(u64, usize),
    }

    fn step() -> impl Strategy<Value = Do> {
        let timer = 0u32..40;
        prop_oneof![
            4 => (timer.clone(), delay()).prop_map(|(t, d)| Do::Start(t, d)),
            1 => timer.prop_map(Do::Stop),
            4 => (delay(), prop_oneof![Just(1usize), 1usize..5, Just(1000)]).prop_map(|(d, most)| Do::Pass(d >> 4, most)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 5 } else { 2000 }, failure_persistence: None, ..ProptestConfig::default()
        })]
        #[test]
        fn fires_what_a_sorted_list_fires(first in 0u64..1 << 40, steps in prop::collection::vec(step(), 1..120)) {
            const SHIFT: u32 = 16;
            let ns = |tick: u64| first.saturating_add(tick << SHIFT);
            let mut wheel = Wheel::new(32, SHIFT, first);
            let mut naive = Naive::default();
            for step in steps {
                match step {
                    Do::Start(timer, after) => {
                        let at = (naive.now + after).min(LAST);
                        // Anywhere within the tick before.
                        let early = if after > 0 && after % 2 == 1 { 1 << (SHIFT - 1) } else { 0 };
                        wheel.start(timer, ns(at) - early);
                        if timer < 32 {
                            naive.at.insert(timer, at);
                        }
                    }
                    Do::Stop(timer) => {
                        wheel.stop(timer);
                        naive.at.remove(&timer);
                    }
                    Do::Pass(ticks, most) => {
                        naive.now = (naive.now + ticks).min(LAST);
                        let due: Vec<(u32, u64)> =
                            naive.at.iter().filter(|t| *t.1 <= naive.now).map(|(t, at)| (*t, *at)).collect();
                        let (mut last, mut fired) = (0, 0);
                        // Calls that only bring timers nearer are as many as there are levels and timers, at most.
                        for call in 0.. {
                            prop_assert!(call < 2 + (LEVELS + 1) * 32);
                            let mut now = vec![];
                            let more = wheel.expire(ns(naive.now) + (1 << SHIFT) - 1, most, |t| now.push(t));
                            prop_assert!(now.len() <= most);
                            for timer in now {
                                let at = naive.at.remove(&timer);
                                prop_assert!(at.is_some_and(|at| at >= last && at <= naive.now), "{} {:?}", timer, at);
                                last = at.unwrap();
                                fired += 1;
                            }
                            if !more {
                                break;
                            }
                        }
                        prop_assert_eq!(fired, due.len());
                    }
                }
                prop_assert_eq!(wheel.len(), naive.at.len());
                for timer in 0..40 {
                    prop_assert_eq!(wheel.is_running(timer), naive.at.contains_key(&timer));
                }
                let due = wheel.due_ns();
                prop_assert_eq!(due.is_some(), !naive.at.is_empty());
                // A worker that sleeps until then misses nothing.
                prop_assert!(due.is_none_or(|due| naive.at.values().all(|at| due <= ns((*at).max(naive.now)))));
            }
        }
    }

    #[test]
    fn a_sleeper_that_wakes_when_told_fires_everything_in_time() {
        let mut wheel = Wheel::new(1000, 20, 0);
        let at = |n: u64| n * n * 7_000_003;
        (0..1000).for_each(|n| wheel.start(n as u32, at(n)));
        let (mut fired, mut wakes) = (vec![], 0);
        while let Some(due) = wheel.due_ns() {
            wheel.expire(due, 1000, |t| fired.push((t, due)));
            wakes += 1;
        }
        assert!(fired.iter().all(|(t, now)| *now >= at((*t).into()) && *now - at((*t).into()) < 1 << 20));
        assert_eq!(fired.iter().map(|f| f.0).collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
        assert!(wakes < 1000 * LEVELS, "{wakes}");
    }

    #[test]
    fn what_starts_while_others_fire_is_not_lost() {
        let mut wheel = Wheel::new(4, 16, 0);
        wheel.start(0, 0);
        wheel.expire(0, 9, |_| {});
        // For a time that has passed: at the next look.
        wheel.expire(100 << 16, 9, |_| {});
        wheel.start(1, 5 << 16);
        assert_eq!(wheel.due_ns(), Some(100 << 16));
        let mut fired = vec![];
        wheel.expire(100 << 16, 9, |t| fired.push(t));
        assert_eq!(fired, [1]);
        assert_eq!(size_of::<Timer>(), 16);
    }
}
