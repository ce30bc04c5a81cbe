//! Waiting for a moment within a spin: with `tpause` where the processor has it (WAITPKG), which leaves more to the other thread of the core and
//! takes less power than `pause`.
#![allow(unsafe_code)]

/// How this processor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// `pause`, some dozens of clocks.
    Pause,
    /// `tpause`, until a set time.
    Timed,
}

impl Pause {
    /// What this processor has.
    pub fn detect() -> Pause {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use core::arch::x86_64::{__cpuid, __cpuid_count};
            // SAFETY: every x86-64 processor has CPUID, and leaf 7 where leaf 0 says so.
            #[allow(unused_unsafe)]
            let waits = unsafe { __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & 1 << 5 != 0 };
            if waits {
                return Pause::Timed;
            }
        }
        Pause::Pause
    }

    /// Waits until the TSC says `until`, or less; `deep`: in a state that takes longer to leave (C0.2), about half a microsecond.
    #[inline]
    pub fn moment(self, until: u64, deep: bool) {
        match self {
            Pause::Pause => core::hint::spin_loop(),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Pause::Timed => {
                let state = u32::from(!deep);
                // SAFETY: `tpause ecx`, which the processor has (`detect`): it reads ECX, EDX and EAX and sets flags.
                unsafe {
                    core::arch::asm!(".byte 0x66, 0x0f, 0xae, 0xf1", in("ecx") state, in("eax") until as u32,
                        in("edx") (until >> 32) as u32, options(nomem, nostack));
                }
            }
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            Pause::Timed => core::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tsc;

    #[test]
    fn a_moment_ends() {
        let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = told.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
        let has = flags.split_ascii_whitespace().any(|f| f == "waitpkg");
        if !flags.is_empty() {
            assert_eq!(Pause::detect() == Pause::Timed, has);
        }
        for deep in [false, true] {
            (0..1000).for_each(|_| Pause::detect().moment(tsc() + 1000, deep));
        }
    }
}
