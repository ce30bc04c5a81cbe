//! Time: the TSC for clocks, and its conversion to nanoseconds.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time-stamp counter.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: rdtsc is available on every x86_64 CPU and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

static HZ: OnceLock<u64> = OnceLock::new();

/// TSC clocks a second, measured once (about 10 ms) against the monotonic clock.
pub fn tsc_hz() -> u64 {
    *HZ.get_or_init(|| {
        let (t0, c0) = (Instant::now(), tsc());
        while t0.elapsed() < Duration::from_millis(10) {
            core::hint::spin_loop();
        }
        let (dt, dc) = (t0.elapsed(), tsc() - c0);
        (dc as f64 / dt.as_secs_f64()) as u64
    })
}

/// Converts TSC clocks to nanoseconds without a division in the loop.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    mult: u64,
    hz: u64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A converter for this machine's TSC.
    pub fn new() -> Self {
        let hz = tsc_hz().max(1);
        Clock { mult: ((1u128 << 32) * 1_000_000_000 / u128::from(hz)) as u64, hz }
    }

    /// TSC clocks as nanoseconds.
    #[inline]
    pub fn to_ns(&self, clocks: u64) -> u64 {
        ((u128::from(clocks) * u128::from(self.mult)) >> 32) as u64
    }

    /// Nanoseconds as TSC clocks.
    #[inline]
    pub fn from_ns(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.hz) / 1_000_000_000) as u64
    }

    /// Now, in nanoseconds of the TSC.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.to_ns(tsc())
    }
}
