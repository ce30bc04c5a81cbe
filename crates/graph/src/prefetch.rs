//! Lines of memory, asked for before they are needed.
#![allow(unsafe_code)]
// Upholds: a prefetch of any address is harmless, and changes neither registers nor flags.

/// Asks the CPU for the line at an address, to be written: other cores let go of it. A CPU without such a thing does nothing.
#[inline(always)]
pub fn prefetch_to_write<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is harmless, and changes neither registers nor flags.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

/// Asks the CPU for the line at an address, whatever it is.
#[inline(always)]
pub fn prefetch<T>(place: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}
