//! Memory of large tasks: it is asked for, and goes back to the system.
#![allow(unsafe_code)]
// Upholds: `malloc_trim` only returns free memory of the allocator, and may be called at any time; `mallopt` sets a number.

use graph::memory::{OutOfMemory, check};

/// Room that must be left for commands of a long script, whatever they are.
const LEAST: usize = 64 << 20;
/// Lines that are run between two looks at the memory, where it is short.
pub const LINES: usize = 1 << 16;

/// Whether there is memory for the next lines of a long script, and how many may run before it is asked again. A table that
/// grows stands there twice for a moment: a third of what the process has, which is about its largest, must be left.
///
/// # Errors
/// When memory runs short.
pub fn for_lines() -> Result<usize, OutOfMemory> {
    let resident = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = resident.as_deref().and_then(|s| s.split(' ').nth(1)?.parse::<usize>().ok());
    let wanted = LEAST.max(pages.unwrap_or(0).saturating_mul(4096) / 3);
    check(wanted)?;
    // Plenty of room: the longer a batch of routes is, the quicker it is.
    Ok(if check(wanted.saturating_mul(16)).is_ok() { usize::MAX } else { LINES })
}

/// To be called before there are threads. glibc gives each thread an arena of its own, and for that takes 128 MiB of addresses for
/// a moment and keeps 64: where `ulimit -v` counts addresses, others find none in that moment, whatever they asked for before.
/// There all threads share one arena.
pub fn share_where_addresses_are_few() {
    #[cfg(target_env = "gnu")]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some() {
        // SAFETY: it touches nothing that is in use.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Gives back what a large task, such as reading a full table, has left free in the allocator's heaps. It takes some
/// milliseconds; workers do not notice.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}
