//! The other side's memory, mapped. What it has written there is never trusted, and never read twice.
#![allow(unsafe_code)]
// Upholds: a place handed out lies within a mapping, which lives as long as whoever holds the memory. The other side writes to it at
// any time, so no reference is ever made to it but to atomics: words are read and written as such, bytes are copied by pointer, and
// every value of either is one that the callers are prepared for. Pages that go missing are replaced (`fault`).

use super::fault::Guard;
use super::message::Region;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// What `statfs(2)` calls file systems in memory: of usual pages, and of huge ones. Reading files of others may wait.
const IN_MEMORY: [rustix::fs::FsWord; 2] = [0x0102_1994, 0x9584_58f6];
/// Most bytes of all regions together.
const MOST_BYTES: u64 = 1 << 44;

#[derive(Debug)]
struct Part {
    guest: u64,
    user: u64,
    size: u64,
    /// Where its first byte is.
    first: *mut u8,
    base: *mut u8,
    mapped: usize,
    guard: Option<Guard>,
}

// SAFETY: the mapping belongs to the part; nothing in it is tied to a thread.
unsafe impl Send for Part {}
// SAFETY: it is read and written as atomics, or copied.
unsafe impl Sync for Part {}

impl Part {
    fn map(r: Region, fd: &OwnedFd, alarm: &Arc<OwnedFd>) -> Result<Part, String> {
        let end = r.offset.checked_add(r.size).filter(|end| r.size != 0 && *end <= MOST_BYTES);
        let ends = r.guest.checked_add(r.size).zip(r.user.checked_add(r.size));
        let (Some(end), Some(_)) = (end, ends) else {
            return Err(format!("{} bytes at {:#x} cannot be", r.size, r.guest));
        };
        if !IN_MEMORY.contains(&rustix::fs::fstatfs(fd).map_err(|e| e.to_string())?.f_type) {
            return Err("no memory file (memfd, tmpfs or hugetlbfs)".into());
        }
        let file = rustix::fs::fstat(fd).map_err(|e| e.to_string())?;
        if u64::try_from(file.st_size).is_ok_and(|has| has < end) {
            return Err(format!("it ends at {end} of its file, which has {} bytes", file.st_size));
        }
        // Huge pages are mapped as a whole.
        let page = (file.st_blksize.max(4096) as u64).next_power_of_two();
        let from = r.offset & !(page - 1);
        let mapped = (end - from).next_multiple_of(page) as usize;
        let (rw, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { rustix::mm::mmap(core::ptr::null_mut(), mapped, rw, flags, fd, from) }
            .map_err(|e| format!("it cannot be mapped: {e}"))?
            .cast::<u8>();
        // What a guest keeps to itself is nothing for core dumps; where Linux refuses that, it maps all the same.
        // SAFETY: the mapping was just made with this length, and the advice changes no byte of it.
        let _ = unsafe { rustix::mm::madvise(base.cast(), mapped, Advice::LinuxDontDump) };
        // SAFETY: within the mapping.
        let first = unsafe { base.add((r.offset - from) as usize) };
        let mut part = Part { guest: r.guest, user: r.user, size: r.size, first, base, mapped, guard: None };
        part.guard = Some(Guard::new(base, mapped, alarm)?);
        Ok(part)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.guard = None;
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
    }
}

/// All of it.
#[derive(Debug, Default)]
pub struct Memory {
    parts: Vec<Part>,
}

#[inline]
fn within(part: &Part, start: u64, at: u64, len: usize) -> Option<*mut u8> {
    let off = at.wrapping_sub(start);
    if off >= part.size || len as u64 > part.size - off {
        return None;
    }
    // SAFETY: within the mapping, as was just seen.
    Some(unsafe { part.first.add(off as usize) })
}

impl Memory {
    /// Maps the regions, each of a file.
    ///
    /// # Errors
    /// Why one is not taken.
    pub fn map(regions: &[Region], files: Vec<OwnedFd>, alarm: &Arc<OwnedFd>) -> Result<Memory, String> {
        if regions.len() != files.len() {
            return Err(format!("{} regions of memory come with {} files", regions.len(), files.len()));
        }
        let all = regions.iter().try_fold(0u64, |all, r| all.checked_add(r.size));
        if all.is_none_or(|all| all > MOST_BYTES) {
            return Err(format!("its memory has more than {} GiB", MOST_BYTES >> 30));
        }
        let part = |(n, (r, file)): (usize, (&Region, OwnedFd))| {
            Part::map(*r, &file, alarm).map_err(|why| format!("region {n} of its memory: {why}"))
        };
        let parts = regions.iter().zip(files).enumerate().map(part).collect::<Result<_, _>>()?;
        Ok(Memory { parts })
    }

    /// How many regions there are, and their bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.parts.len(), self.parts.iter().map(|p| p.size).sum())
    }

    /// Whether some of it has gone.
    pub fn is_lost(&self) -> bool {
        self.parts.iter().any(|p| p.guard.as_ref().is_some_and(Guard::is_lost))
    }

    #[inline]
    fn guest(&self, at: u64, len: usize) -> Option<*mut u8> {
        self.parts.iter().find_map(|p| within(p, p.guest, at, len))
    }

    /// Copies bytes out of it; false when they do not all lie within one region.
    #[inline]
    pub fn read(&self, at: u64, to: &mut [u8]) -> bool {
        let Some(from) = self.guest(at, to.len()) else { return false };
        // SAFETY: both places hold as many bytes; `to` is this process's alone, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes into it; false when they do not all lie within one region.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> bool {
        let Some(to) = self.guest(at, from.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    /// Copies bytes out of it, into one place and then into another; false when they do not all lie within one region.
    #[inline]
    pub fn read_behind(&self, at: u64, first: &mut [u8], then: &mut [u8]) -> bool {
        let Some(from) = self.guest(at, first.len() + then.len()) else { return false };
        // SAFETY: as in `read`; the second part lies behind the first.
        unsafe {
            core::ptr::copy_nonoverlapping(from, first.as_mut_ptr(), first.len());
            core::ptr::copy_nonoverlapping(from.add(first.len()), then.as_mut_ptr(), then.len());
        }
        true
    }

    /// Copies bytes into it, and others behind them; false when they do not all lie within one region.
    #[inline]
    pub fn write_behind(&self, at: u64, first: &[u8], then: &[u8]) -> bool {
        let Some(to) = self.guest(at, first.len() + then.len()) else { return false };
        // SAFETY: as in `read_behind`.
        unsafe {
            core::ptr::copy_nonoverlapping(first.as_ptr(), to, first.len());
            core::ptr::copy_nonoverlapping(then.as_ptr(), to.add(first.len()), then.len());
        }
        true
    }

    /// Has the two lines there brought into the cache, if there is memory, to be written or only read.
    #[inline]
    pub fn prefetch(&self, at: u64, write: bool) {
        let Some(place) = self.guest(at, 1) else { return };
        for line in [place, place.wrapping_add(64)] {
            if write {
                graph::prefetch_to_write(line);
            } else {
                graph::prefetch(line.cast_const());
            }
        }
    }

    /// The place of a ring, by the address that messages have; `None` when it does not lie within one region, or not at a multiple of
    /// `align`.
    pub fn words(self: &Arc<Self>, user: u64, len: usize, align: usize) -> Option<Words> {
        let at = self.parts.iter().find_map(|p| within(p, p.user, user, len))?;
        (at as usize).is_multiple_of(align).then(|| Words { _memory: Arc::clone(self), at, len, align })
    }
}

/// A place whose words are read and written one at a time, checked once.
#[derive(Debug)]
pub struct Words {
    /// Holds the mapping.
    _memory: Arc<Memory>,
    at: *mut u8,
    len: usize,
    align: usize,
}

// SAFETY: as for the part.
unsafe impl Send for Words {}
// SAFETY: as for the part.
unsafe impl Sync for Words {}

impl Words {
    #[inline]
    fn place(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(
            at.is_multiple_of(bytes) && bytes <= self.align && at + bytes <= self.len,
            "outside of the ring"
        );
        // SAFETY: within the mapping.
        unsafe { self.at.add(at) }
    }

    /// The word of 16 bits there.
    #[inline]
    pub fn u16(&self, at: usize) -> &AtomicU16 {
        // SAFETY: within the mapping and aligned; the memory lives as long as this; any value is one.
        unsafe { &*self.place(at, 2).cast() }
    }

    /// The word of 32 bits there.
    #[inline]
    pub fn u32(&self, at: usize) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { &*self.place(at, 4).cast() }
    }

    /// The word of 64 bits there.
    #[inline]
    pub fn u64(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { &*self.place(at, 8).cast() }
    }
}
