//! Memory of large tasks goes back to the system.
#![allow(unsafe_code)]
// Upholds: `malloc_trim` only returns free memory of the allocator, and may be called at any time.

/// Gives back what a large task, such as reading a full table, has left free in the allocator's heaps. It takes some
/// milliseconds; workers do not notice.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
