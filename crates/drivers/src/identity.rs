//! A thread takes on the rights of somebody else, to open what that one may open.
#![allow(unsafe_code)]
// Upholds: the pointers handed to the kernel come from values that live through the call, with their true lengths. The
// calls change the calling thread alone: the C library's own `setgroups` would change all threads.

use std::io;
use std::sync::{Mutex, PoisonError};

/// Whose rights files are opened with: user, group and further groups, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// `struct __user_cap_header_struct`: version 3, the calling thread.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

impl Identity {
    /// Whether this one has all rights that the router has: root, and the user that the router runs as.
    pub fn is_privileged(&self) -> bool {
        // SAFETY: the call has no arguments and cannot fail.
        self.user == 0 || self.user == unsafe { libc::geteuid() }
    }

    /// Runs `f` on a thread of its own that has these rights to files and no capability.
    ///
    /// # Errors
    /// The router may not take on these rights (it has neither CAP_SETUID nor CAP_SETGID), or what `f` answers.
    pub fn with<R: Send>(&self, f: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
        let _changes = Changes::begin();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("files".to_owned()).spawn_scoped(scope, || {
                self.assume()?;
                f()
            })?;
            thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
        })
    }

    /// The calling thread takes on these rights for good.
    fn assume(&self) -> io::Result<()> {
        let refused = |error: io::Error| {
            let why = format!("the router cannot take on the rights of user {}: {error}", self.user);
            io::Error::new(error.kind(), why)
        };
        // SAFETY: the pointer is to as many groups as are said.
        let groups = unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) };
        if groups != 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        for (call, id) in [(libc::SYS_setfsgid, self.group), (libc::SYS_setfsuid, self.user)] {
            // SAFETY: the calls take an integer. They answer what was before and tell of no failure: asked again with a
            // number that is none, they answer what is now.
            let now = unsafe {
                libc::syscall(call, id);
                libc::syscall(call, u32::MAX)
            };
            if u32::try_from(now).ok() != Some(id) {
                return Err(refused(io::Error::from_raw_os_error(libc::EPERM)));
            }
        }
        let header = CapHeader { version: CAP_VERSION_3, pid: 0 };
        let none = [0u32; 6];
        // SAFETY: version 3 reads a header and two times three words.
        if unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) } != 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        Ok(())
    }
}

/// A time in which a thread has other rights. The kernel takes a process whose threads change their rights for one that must
/// not dump core: it may again when the last such thread is gone.
struct Changes;

/// How many there are at once, and whether the process might dump core before the first.
static CHANGES: Mutex<(usize, bool)> = Mutex::new((0, false));

impl Changes {
    fn begin() -> Changes {
        let mut changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.0 == 0 {
            changes.1 = dumpable();
        }
        changes.0 += 1;
        Changes
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        changes.0 -= 1;
        if *changes == (0, true) {
            // SAFETY: the call takes integers only.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
        }
    }
}

fn dumpable() -> bool {
    // SAFETY: the call takes integers only.
    unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_dump_core_again_when_the_last_thread_has_its_rights_back() {
        let other = Identity { user: 65534, group: 65534, groups: vec![] };
        if other.with(|| Ok(())).is_err() {
            return; // Only root can be somebody else.
        }
        assert!(dumpable());
        std::thread::scope(|scope| {
            for n in 0..8u64 {
                let other = &other;
                scope.spawn(move || {
                    for round in 0..20 {
                        let pause = std::time::Duration::from_micros((n * 37 + round * 13) % 400);
                        let seen = other.with(|| {
                            std::thread::sleep(pause);
                            Ok(dumpable())
                        });
                        assert!(!seen.unwrap(), "it may dump what a thread of other rights does");
                    }
                });
            }
        });
        assert!(dumpable());
    }
}
