//! The pool: one region of memory, and the list of free buffers that all workers share.
#![allow(unsafe_code)]
// Upholds what `buffer` does: every address that is given out lies inside the region.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::shared::SharedFree;
use super::{BATCH, Buffers, HOARD, STRIDE};
use crate::handle::Buffer;

/// Where a pool's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMemory {
    /// 2 MiB huge pages where the system has free ones, else transparent huge pages or normal pages.
    Auto,
    /// Normal pages only.
    Normal,
    /// 2 MiB huge pages or an error.
    Huge,
}

/// Size and memory of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Number of buffers.
    pub buffers: usize,
    /// Kind of memory.
    pub memory: PoolMemory,
}

/// Why a pool could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The count is out of range.
    #[error("{0} buffers: there must be between 64 and 16777216")]
    Count(usize),
    /// The machine has not that much memory available.
    #[error(
        "{buffers} buffers take {need} MiB, but only {have} MiB of memory are available: ask for fewer buffers"
    )]
    NotEnough {
        /// Buffers asked for.
        buffers: usize,
        /// MiB they take.
        need: usize,
        /// MiB that are available.
        have: usize,
    },
    /// No huge pages, though they were required.
    #[error(
        "no huge pages for {need} MiB of buffers: reserve {pages} with \"sysctl vm.nr_hugepages\" or do not require them"
    )]
    NoHugePages {
        /// MiB needed.
        need: usize,
        /// 2 MiB pages needed.
        pages: usize,
    },
    /// The kernel refused the mapping.
    #[error("cannot map {need} MiB for buffers: {err}")]
    Map {
        /// MiB needed.
        need: usize,
        /// The kernel's answer.
        err: rustix::io::Errno,
    },
}

/// The pages that a pool got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB huge pages.
    Huge,
    /// Normal pages, transparent huge pages asked for.
    Transparent,
    /// Normal pages.
    Normal,
}

/// All buffers of a router.
pub struct Pool {
    pub(super) base: *mut u8,
    bytes: usize,
    pub(super) count: u32,
    pages: Pages,
    pub(super) free: SharedFree,
    pub(super) cached: Box<[CachedCount]>,
    next_cache: AtomicUsize,
    lent: AtomicUsize,
    #[cfg(debug_assertions)]
    state: Box<[std::sync::atomic::AtomicU8]>,
}

#[repr(align(128))]
pub(super) struct CachedCount(pub(super) AtomicUsize);

// SAFETY: the region is plain memory; who may touch which buffer is decided by the free lists, which are synchronised.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// MiB of memory that new users can have without the system running short, as Linux estimates it.
pub fn available_mib() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib / 1024)
}

impl Pool {
    /// Maps the memory and puts every buffer in the free list.
    pub fn new(config: PoolConfig) -> Result<Arc<Pool>, PoolError> {
        let count = config.buffers;
        if !(64..=1 << 24).contains(&count) {
            return Err(PoolError::Count(count));
        }
        const HUGE: usize = 2 << 20;
        let bytes = (count * STRIDE).next_multiple_of(HUGE);
        let need = bytes >> 20;
        if let Some(have) = available_mib().filter(|have| need > *have) {
            return Err(PoolError::NotEnough { buffers: count, need, have });
        }
        let map = |extra: MapFlags| {
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
            unsafe {
                rustix::mm::mmap_anonymous(
                    core::ptr::null_mut(),
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | extra,
                )
            }
        };
        let huge = match config.memory {
            PoolMemory::Normal => None,
            // Reserved pages are checked at mmap time, so a success here cannot fault later.
            PoolMemory::Auto | PoolMemory::Huge => map(MapFlags::HUGETLB | MapFlags::HUGE_2MB).ok(),
        };
        let (base, pages) = match huge {
            Some(base) => (base, Pages::Huge),
            None if config.memory == PoolMemory::Huge => {
                return Err(PoolError::NoHugePages { need, pages: bytes / HUGE });
            }
            None => {
                let base = map(MapFlags::empty()).map_err(|err| PoolError::Map { need, err })?;
                let mut pages = Pages::Normal;
                if config.memory == PoolMemory::Auto {
                    // SAFETY: the range was just mapped; the advice does not change its contents.
                    let advised = unsafe { rustix::mm::madvise(base, bytes, Advice::LinuxHugepage) };
                    if advised.is_ok() {
                        pages = Pages::Transparent;
                    }
                }
                (base, pages)
            }
        };
        Ok(Arc::new(Pool {
            base: base.cast(),
            bytes,
            count: count as u32,
            pages,
            free: SharedFree::new(count),
            cached: (0..=crate::epoch::MAX_READERS).map(|_| CachedCount(AtomicUsize::new(0))).collect(),
            next_cache: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
            #[cfg(debug_assertions)]
            state: (0..count).map(|_| std::sync::atomic::AtomicU8::new(0)).collect(),
        }))
    }

    /// Number of buffers.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The pages that back it.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Where its memory starts, and how many bytes there are: for devices that read and write buffers by themselves.
    pub fn memory(&self) -> (usize, usize) {
        (self.base as usize, self.bytes)
    }

    /// Gives a buffer back that was lent to a device, where no worker is at hand.
    pub fn give_back(&self, buf: Buffer) {
        assert!(buf.0 < self.count, "buffer index out of range");
        self.mark(buf.0, 1, 0);
        self.returned(1);
        self.free.push(buf.0);
    }

    /// A buffer for a device, where no worker is at hand; counted as lent.
    pub fn lend_one(&self) -> Option<Buffer> {
        let buf = self.free.pop()?;
        self.mark(buf, 0, 1);
        self.lend(1);
        Some(Buffer(buf))
    }

    /// Buffers in the shared free list.
    pub fn global_free(&self) -> usize {
        self.free.len()
    }

    /// Buffers in the free lists of the workers, by worker.
    pub fn cached(&self) -> Vec<usize> {
        let n = self.next_cache.load(Ordering::Relaxed).min(self.cached.len());
        self.cached[..n].iter().map(|c| c.0.load(Ordering::Relaxed)).collect()
    }

    /// Buffers that some packet owns.
    pub fn in_use(&self) -> usize {
        self.count().saturating_sub(self.global_free() + self.cached().iter().sum::<usize>() + self.lent())
    }

    /// Buffers that devices have: to receive into, or to send from.
    pub fn lent(&self) -> usize {
        // For a moment it may be less than nothing: who takes a buffer from a device may count before who gave it.
        usize::try_from(self.lent.load(Ordering::Relaxed).cast_signed()).unwrap_or(0)
    }

    /// A device has so many buffers more.
    pub fn lend(&self, buffers: usize) {
        self.lent.fetch_add(buffers, Ordering::Relaxed);
    }

    /// A device has so many buffers less.
    pub fn returned(&self, buffers: usize) {
        self.lent.fetch_sub(buffers, Ordering::Relaxed);
    }

    /// Devices have so many buffers more, or fewer.
    #[inline]
    pub fn lend_more(&self, buffers: isize) {
        self.lent.fetch_add(buffers.cast_unsigned(), Ordering::Relaxed);
    }

    /// A free list of its own for one worker (or test).
    pub fn buffers(self: &Arc<Self>) -> Buffers {
        let slot = self.next_cache.fetch_add(1, Ordering::Relaxed).min(self.cached.len() - 1);
        Buffers { pool: Arc::clone(self), slot, free: Vec::with_capacity(HOARD + BATCH), failures: 0 }
    }

    #[inline]
    pub(super) fn at(&self, buf: u32) -> *mut u8 {
        assert!(buf < self.count, "buffer index out of range");
        // SAFETY: index < count, and the region holds count * STRIDE bytes.
        unsafe { self.base.add(buf as usize * STRIDE) }
    }

    #[cfg(debug_assertions)]
    pub(super) fn mark(&self, buf: u32, from: u8, to: u8) {
        let old = self.state[buf as usize].swap(to, Ordering::Relaxed);
        assert_eq!(old, from, "buffer {buf} {}", if to == 0 { "freed twice" } else { "handed out twice" });
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    pub(super) fn mark(&self, _buf: u32, _from: u8, _to: u8) {}
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no reference into it outlives the pool.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.bytes) };
    }
}
