//! Interrupts: an eventfd that one side writes to and the other sleeps on. Either side may have made it, and both may change what
//! the other relies on, so that no call on it may wait.

use crate::sys::Reads;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

thread_local! {
    /// Through which this thread rings, made when it does so first.
    static READS: Option<Reads> = Reads::new().ok();
}

/// An interrupt.
#[derive(Debug)]
pub struct Signal(OwnedFd);

impl Signal {
    /// Makes one.
    pub fn create() -> io::Result<Signal> {
        Ok(Signal(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Takes one of the other side's.
    ///
    /// # Errors
    /// Why it is not taken, in words.
    pub fn open(fd: OwnedFd) -> Result<Signal, String> {
        let kind = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        if !kind.is_ok_and(|k| k.as_os_str() == "anon_inode:[eventfd]") {
            return Err("an interrupt is no eventfd".into());
        }
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(|e| e.to_string())?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).map_err(|e| e.to_string())?;
        Ok(Signal(fd))
    }

    /// The descriptor, readable when it was rung.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes what has come.
    pub fn drain(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::preadv2(
            &self.0,
            &mut [IoSliceMut::new(&mut count)],
            u64::MAX,
            ReadWriteFlags::NOWAIT,
        );
    }

    /// Wakes the other side.
    pub fn ring(&self) {
        let done = READS.with(|reads| reads.as_ref().is_some_and(|r| r.raise(self.fd()).is_ok()));
        if !done {
            self.ring_if_room();
        }
    }

    /// The same where the kernel has no asynchronous I/O (gVisor, some containers).
    fn ring_if_room(&self) {
        // The other side may have let it wait where its count is full: it is awake then. One that fills it after this look has who
        // rings wait.
        let mut asked = [PollFd::new(&self.0, PollFlags::OUT)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = rustix::event::poll(&mut asked, Some(&now));
        // A count at its very end is told as an error, and takes nothing either.
        if polled == Ok(1) && asked[0].revents() & (PollFlags::OUT | PollFlags::ERR) == PollFlags::OUT {
            Signal::raise(&self.0);
        }
    }

    /// Adds one to an eventfd.
    pub fn raise(fd: &OwnedFd) {
        let _ = rustix::io::writev(fd, &[IoSlice::new(&1u64.to_ne_bytes())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_rung(s: &Signal) -> bool {
        let mut asked = [PollFd::new(s, PollFlags::IN)];
        rustix::event::poll(&mut asked, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }

    impl AsFd for Signal {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.fd()
        }
    }

    #[test]
    fn no_call_waits_whatever_the_other_side_does() {
        let s = Signal::create().unwrap();
        let theirs = s.0.try_clone().unwrap();
        s.drain();
        s.ring();
        assert!(is_rung(&s));
        s.drain();
        assert!(!is_rung(&s));
        let flags = rustix::fs::fcntl_getfl(&theirs).unwrap();
        rustix::fs::fcntl_setfl(&theirs, flags - OFlags::NONBLOCK).unwrap();
        s.drain();
        rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        s.ring();
        s.ring_if_room();
        assert!(is_rung(&s));
    }

    #[test]
    fn the_other_side_cannot_make_a_ring_wait() {
        let s = Signal::create().unwrap();
        let theirs = s.0.try_clone().unwrap();
        let flags = rustix::fs::fcntl_getfl(&theirs).unwrap();
        rustix::fs::fcntl_setfl(&theirs, flags - OFlags::NONBLOCK).unwrap();
        rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        // Without a look before it, and more often than reads may be under way.
        let reads = Reads::new().unwrap();
        for _ in 0..1000 {
            reads.raise(s.fd()).unwrap();
        }
        s.drain();
        assert!(!is_rung(&s));
        reads.raise(s.fd()).unwrap();
        assert!(is_rung(&s));
    }

    #[test]
    fn each_ring_counts() {
        let s = Signal::create().unwrap();
        for _ in 0..300 {
            s.ring();
        }
        let mut count = [0; 8];
        rustix::io::read(&s.0, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 300);
    }

    #[test]
    fn only_an_eventfd_is_taken() {
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        assert_eq!(Signal::open(file).unwrap_err(), "an interrupt is no eventfd");
        let made = Signal::create().unwrap();
        assert!(Signal::open(made.0).is_ok());
    }
}
