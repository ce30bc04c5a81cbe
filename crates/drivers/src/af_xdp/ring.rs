//! The rings that an AF_XDP socket shares with the kernel: one side writes, the other reads, each tells how far it is.
#![allow(unsafe_code)]
// Upholds: an entry is touched only while it belongs to this side: a producer's between the other's index and its own plus the
// ring's size, a consumer's between its own index and the other's. Indices and entries lie within the mapping, as is seen when it is made.

use crate::sys::Plain;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Which of a socket's rings (`XDP_PGOFF_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rx,
    Tx,
    Fill,
    Completion,
}

impl Kind {
    fn offset(self) -> i64 {
        match self {
            Kind::Rx => 0,
            Kind::Tx => 0x8000_0000,
            Kind::Fill => 0x1_0000_0000,
            Kind::Completion => 0x1_8000_0000,
        }
    }
}

/// Memory shared with the kernel.
struct Map {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping belongs to this; nothing in it is tied to a thread.
unsafe impl Send for Map {}
// SAFETY: this gives nothing of it away.
unsafe impl Sync for Map {}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `Ring::new` with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// A ring in it.
struct Ring<T> {
    map: Arc<Map>,
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
    flags: *const AtomicU32,
    entries: *mut T,
    size: u32,
}

// SAFETY: the mapping belongs to the ring; nothing in it is tied to a thread.
unsafe impl<T: Plain + Send> Send for Ring<T> {}

impl<T: Plain> Ring<T> {
    fn new(fd: &OwnedFd, kind: Kind, at: &libc::xdp_ring_offset, size: u32) -> io::Result<Ring<T>> {
        let bytes = at.desc as usize + size as usize * size_of::<T>();
        let within = |offset: u64, align: usize| {
            offset as usize + 4 <= bytes && (offset as usize).is_multiple_of(align)
        };
        let fits = within(at.producer, 4)
            && within(at.consumer, 4)
            && within(at.flags, 4)
            && within(at.desc, align_of::<T>())
            && size.is_power_of_two();
        if !fits {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: a new mapping at an address of the kernel's choice; the result is checked.
        let base = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                kind.offset(),
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base: *mut u8 = base.cast();
        let map = Arc::new(Map { base, bytes });
        // SAFETY: all four lie within the mapping, as was just seen.
        let place = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(Ring {
            map,
            producer: place(at.producer).cast_const().cast(),
            consumer: place(at.consumer).cast_const().cast(),
            flags: place(at.flags).cast_const().cast(),
            entries: place(at.desc).cast(),
            size,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: within the mapping, which lives as long as this, and aligned.
        unsafe { &*self.producer }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.consumer }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as above.
        unsafe { &*self.flags }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Where the entry of an index is.
    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: masked, it is below the ring's size.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// How far both sides of a ring are, for who is on neither.
pub(super) struct Position {
    _map: Arc<Map>,
    producer: *const AtomicU32,
    consumer: *const AtomicU32,
}

// SAFETY: both indices are atomic, and lie in memory that lives as long as this.
unsafe impl Send for Position {}

impl Position {
    fn of<T>(ring: &Ring<T>) -> Position {
        Position { _map: Arc::clone(&ring.map), producer: ring.producer, consumer: ring.consumer }
    }

    /// Entries that were ever written.
    pub fn written(&self) -> u32 {
        // SAFETY: within the mapping, which lives as long as this, and aligned.
        unsafe { &*self.producer }.load(Ordering::Acquire)
    }

    /// Whether the reader has given back all of so many entries.
    pub fn is_past(&self, written: u32) -> bool {
        // SAFETY: as above.
        let read = unsafe { &*self.consumer }.load(Ordering::Acquire);
        // The one is never far behind the other.
        read.wrapping_sub(written) as i32 >= 0
    }
}

/// The writing side of a ring.
pub(super) struct Producer<T: Plain> {
    ring: Ring<T>,
    /// Entries written so far, told or not, and the other side's index as last seen.
    at: u32,
    taken: u32,
}

impl<T: Plain> Producer<T> {
    /// Maps the ring.
    pub fn new(fd: &OwnedFd, kind: Kind, at: &libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(fd, kind, at, size)?;
        let (at, taken) = (ring.producer().load(Ordering::Relaxed), ring.consumer().load(Ordering::Acquire));
        Ok(Producer { ring, at, taken })
    }

    /// Entries that can be written; asks the other side only where fewer than `wanted` are known of.
    #[inline]
    pub fn room(&mut self, wanted: u32) -> u32 {
        let known = self.ring.size - self.at.wrapping_sub(self.taken);
        if known >= wanted {
            return known;
        }
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        // More than the size, only a kernel that is mad would answer.
        self.ring.size.saturating_sub(self.at.wrapping_sub(self.taken))
    }

    /// Writes an entry; the caller has seen that there is room. It is the other side's after [`Producer::submit`].
    #[inline]
    pub fn push(&mut self, value: T) {
        // SAFETY: the entry is this side's: there was room.
        unsafe { self.ring.entry(self.at).write(value) };
        self.at = self.at.wrapping_add(1);
    }

    /// Hands over what was written.
    #[inline]
    pub fn submit(&self) {
        self.ring.producer().store(self.at, Ordering::Release);
    }

    /// Whether the other side has taken all that was handed over.
    pub fn is_drained(&self) -> bool {
        self.ring.consumer().load(Ordering::Acquire) == self.at
    }

    /// How far both sides are.
    pub fn position(&self) -> Position {
        Position::of(&self.ring)
    }

    /// How far the other side is.
    pub fn taken(&self) -> u32 {
        self.ring.consumer().load(Ordering::Acquire)
    }

    /// Whether the kernel must be told that there is something.
    pub fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

/// The reading side of a ring.
pub(super) struct Consumer<T: Plain> {
    ring: Ring<T>,
    /// Entries read so far, given back or not, and the other side's index as last seen.
    at: u32,
    there: u32,
}

impl<T: Plain> Consumer<T> {
    /// Maps the ring.
    pub fn new(fd: &OwnedFd, kind: Kind, at: &libc::xdp_ring_offset, size: u32) -> io::Result<Self> {
        let ring = Ring::new(fd, kind, at, size)?;
        let at = ring.consumer().load(Ordering::Relaxed);
        Ok(Consumer { ring, at, there: at })
    }

    /// How far both sides are.
    pub fn position(&self) -> Position {
        Position::of(&self.ring)
    }

    /// The next entry, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.at == self.there {
            self.there = self.ring.producer().load(Ordering::Acquire);
            if self.at == self.there {
                return None;
            }
        }
        // SAFETY: the entry is this side's: the other has handed it over. Every bit pattern is a value.
        let value = unsafe { self.ring.entry(self.at).read() };
        self.at = self.at.wrapping_add(1);
        Some(value)
    }

    /// Gives back what was read.
    #[inline]
    pub fn release(&self) {
        self.ring.consumer().store(self.at, Ordering::Release);
    }
}
