//! Waiting for what processors are at.

use crate::sys;

/// Waits until no processor works any more on a packet that it works on now. It has ended that when a thread runs on it, as packets are
/// not put down by halves; where a thread may not run on all, Linux tells, which takes longer.
pub(crate) fn processors() {
    let whole = std::fs::read_to_string("/sys/kernel/realtime").map_or(true, |s| s.trim() != "1");
    let visit = || sys::online().is_some_and(|all| all.into_iter().all(|cpu| sys::run_on(cpu).is_ok()));
    // A thread of its own: it goes where it is sent.
    let visited = std::thread::scope(|s| {
        let thread = std::thread::Builder::new().name("grace".to_owned());
        whole && thread.spawn_scoped(s, visit).is_ok_and(|t| t.join().unwrap_or(false))
    });
    if !visited {
        sys::wait_for_kernel();
    }
}
