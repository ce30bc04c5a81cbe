//! Mapped memory that goes away. The file behind it is the other side's, which may cut it or run out of huge pages: the next access
//! is then a signal (SIGBUS) that would end the process. Here it costs that mapping alone: anonymous memory takes its place, the
//! access is repeated, and whoever looks after the mapping is told.
#![allow(unsafe_code)]
// Upholds: the handler makes calls that a handler may make (mmap, write, sigaction, raise), takes no lock and allocates nothing. It
// replaces only ranges that stand in the table, and a range stands there exactly as long as it is mapped by its owner.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Most mappings of the process that are guarded at a time.
const MOST: usize = 1024;

struct Entry {
    /// 0: free.
    base: AtomicUsize,
    /// Written last and cleared first: where it is not 0 the rest is right.
    len: AtomicUsize,
    lost: AtomicBool,
    alarm: AtomicI32,
}

impl Entry {
    const fn new() -> Entry {
        Entry {
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
            alarm: AtomicI32::new(-1),
        }
    }
}

static TABLE: [Entry; MOST] = [const { Entry::new() }; MOST];
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Guards a mapping while it lives.
#[derive(Debug)]
pub struct Guard {
    at: usize,
    /// The descriptor that the handler writes to stays open.
    _alarm: Arc<OwnedFd>,
}

impl Guard {
    /// Guards `len` bytes at `base`, a mapping of the caller's; `alarm`, an eventfd, is raised when it is lost.
    ///
    /// # Errors
    /// There are too many, or the system refuses the handler.
    pub fn new(base: *mut u8, len: usize, alarm: &Arc<OwnedFd>) -> Result<Guard, String> {
        install().map_err(|e| format!("no handler for SIGBUS: {e}"))?;
        let free = |e: &Entry| e.base.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let Some(at) = TABLE.iter().position(free) else {
            return Err(format!("{MOST} regions of memory are mapped, there can be no more"));
        };
        let e = &TABLE[at];
        e.lost.store(false, Ordering::Relaxed);
        e.alarm.store(alarm.as_raw_fd(), Ordering::Relaxed);
        e.base.store(base as usize, Ordering::Release);
        e.len.store(len, Ordering::Release);
        Ok(Guard { at, _alarm: Arc::clone(alarm) })
    }

    /// Whether the memory is not the other side's any more.
    pub fn is_lost(&self) -> bool {
        TABLE[self.at].lost.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let e = &TABLE[self.at];
        e.len.store(0, Ordering::Release);
        e.base.store(0, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zeros is a value of this plain struct, whose fields are set as sigaction(2) asks; the handler has the type that
    // SA_SIGINFO asks for.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Who comes second leaves what is there: it is this handler.
        if BEFORE.set(before).is_err() {
            return Ok(());
        }
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = on_fault as extern "C" fn(_, _, _) as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `info` to handlers with SA_SIGINFO.
    let (address, by_kernel) = unsafe { ((*info).si_addr() as usize, (*info).si_code > 0) };
    let holds = |e: &'static Entry| {
        let (base, len) = (e.base.load(Ordering::Acquire), e.len.load(Ordering::Acquire));
        // Another thread may free the entry and take it anew meanwhile: both are of one mapping where the first is as it was.
        let is_one = e.base.load(Ordering::Acquire) == base;
        (is_one && address.wrapping_sub(base) < len).then_some((e, base, len))
    };
    if by_kernel && let Some((e, base, len)) = TABLE.iter().find_map(holds) {
        // SAFETY: the range is a mapping of its owner's, which has no references into it, and stays one. errno is kept.
        unsafe {
            let errno = *libc::__errno_location();
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let rw = libc::PROT_READ | libc::PROT_WRITE;
            let got = libc::mmap(base as *mut libc::c_void, len, rw, flags, -1, 0);
            if got != libc::MAP_FAILED {
                e.lost.store(true, Ordering::Release);
                let one = 1u64.to_ne_bytes();
                libc::write(e.alarm.load(Ordering::Relaxed), one.as_ptr().cast(), one.len());
                *libc::__errno_location() = errno;
                return;
            }
        }
    }
    // Somebody else's: what was there before has it, as the access is repeated or the signal comes anew.
    if let Some(before) = BEFORE.get() {
        // SAFETY: `before` is what the kernel gave.
        unsafe {
            libc::sigaction(signal, std::ptr::from_ref(before), std::ptr::null_mut());
            if !by_kernel {
                libc::raise(signal);
            }
        }
    }
}
