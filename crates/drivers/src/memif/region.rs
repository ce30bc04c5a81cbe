//! Memory that both sides of a connection map. What the other side has written into it is never trusted, and never read twice.
#![allow(unsafe_code)]
// Upholds: a place handed out lies within the mapping, which lives as long as whoever holds the region. The other process writes
// to it at any time, so no reference is ever made to it: words are read and written as atomics, bytes are copied by pointer, and
// every value of either is one that the callers are prepared for. The file cannot shrink, which would turn reads into signals.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Most regions of a connection.
pub const MOST: usize = 256;
/// Most bytes that the regions of a connection may have together: pages of a sparse file are this process's once it has read them.
pub const MOST_BYTES: u64 = 4 << 30;

/// What `statfs(2)` calls the file system of memory files of usual pages.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// A mapping.
#[derive(Debug)]
pub struct Region {
    base: *mut u8,
    len: usize,
    /// Bytes that are mapped: whole pages, of the file's size.
    mapped: usize,
}

// SAFETY: the mapping belongs to the region; nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: it is read and written as atomics, or copied.
unsafe impl Sync for Region {}

impl Region {
    fn map(fd: impl AsFd, len: usize) -> io::Result<Region> {
        let page = rustix::fs::fstat(&fd)?.st_blksize.max(1) as usize;
        let mapped = len.next_multiple_of(page);
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            let rw = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(core::ptr::null_mut(), mapped, rw, MapFlags::SHARED, fd, 0)?
        };
        Ok(Region { base: base.cast(), len, mapped })
    }

    /// Makes one of the router's own, with a file for the other side.
    pub fn create(len: usize) -> io::Result<(Region, OwnedFd)> {
        let fd = rustix::fs::memfd_create("quiver-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&fd, len as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let region = Region::map(&fd, len)?;
        Ok((region, fd))
    }

    /// Maps one of the other side's.
    ///
    /// # Errors
    /// Why it is not taken, in words.
    pub fn open(fd: &OwnedFd, size: u64) -> Result<Region, String> {
        let len = usize::try_from(size).ok().filter(|n| *n != 0 && size <= MOST_BYTES);
        let Some(len) = len else { return Err(format!("{size} bytes, not 1 to {MOST_BYTES}")) };
        // A file of any other kind may block, or shrink under us.
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| "not a memory file (memfd)")?;
        if !seals.contains(SealFlags::SHRINK) && rustix::fs::fcntl_add_seals(fd, SealFlags::SHRINK).is_err() {
            return Err("its file may shrink, and cannot be sealed (F_SEAL_SHRINK)".into());
        }
        // Pages of hugetlbfs are few, and one that is missing when it is read ends the process (SIGBUS).
        if rustix::fs::fstatfs(fd).map_err(|e| e.to_string())?.f_type != TMPFS_MAGIC {
            return Err("its memory is of huge pages, which the kernel may be without when it is read".into());
        }
        let has = rustix::fs::fstat(fd).map_err(|e| e.to_string())?.st_size;
        if u64::try_from(has).is_ok_and(|has| has < size) {
            return Err(format!("{size} bytes are announced, its file has {has}"));
        }
        Region::map(fd, len).map_err(|e| format!("it cannot be mapped: {e}"))
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Where bytes of it lie; `None` when they do not all lie within.
    #[inline]
    fn place(&self, at: usize, len: usize) -> Option<*mut u8> {
        if at > self.len || len > self.len - at {
            return None;
        }
        // SAFETY: within the mapping, as was just seen.
        Some(unsafe { self.base.add(at) })
    }

    /// Copies bytes out of it; false when they do not all lie within.
    #[inline]
    pub fn read(&self, at: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.place(at, to.len()) else { return false };
        // SAFETY: both places hold as many bytes; `to` is this process's alone, so they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// Has the line there brought into the cache, if it lies within, to be written or only read.
    #[inline]
    pub fn prefetch(&self, at: usize, write: bool) {
        match self.place(at, 1) {
            Some(place) if write => graph::prefetch_to_write(place),
            Some(place) => graph::prefetch(place.cast_const()),
            None => {}
        }
    }

    /// Copies bytes into it; false when they do not all lie within.
    #[inline]
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let Some(to) = self.place(at, from.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
    }
}

/// A place of a region whose words are read and written one at a time, checked once.
#[derive(Clone, Debug)]
pub struct Words {
    /// Holds the mapping.
    _region: Arc<Region>,
    at: *mut u8,
    len: usize,
}

// SAFETY: as for the region.
unsafe impl Send for Words {}
// SAFETY: as for the region.
unsafe impl Sync for Words {}

impl Words {
    /// `None` when the place does not lie within, or not at a multiple of 8 bytes.
    pub fn new(region: &Arc<Region>, at: usize, len: usize) -> Option<Words> {
        let place = region.place(at, len).filter(|_| at.is_multiple_of(8))?;
        Some(Words { _region: Arc::clone(region), at: place, len })
    }

    /// The word of 16 bits there.
    #[inline]
    pub fn u16(&self, at: usize) -> &AtomicU16 {
        assert!(at.is_multiple_of(2) && at + 2 <= self.len, "outside of the ring");
        // SAFETY: within the mapping and aligned; the region lives as long as this; any value is one.
        unsafe { &*self.at.add(at).cast() }
    }

    /// The word of 32 bits there.
    #[inline]
    pub fn u32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len, "outside of the ring");
        // SAFETY: as above.
        unsafe { &*self.at.add(at).cast() }
    }

    /// The word of 64 bits there.
    #[inline]
    pub fn u64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "outside of the ring");
        // SAFETY: as above.
        unsafe { &*self.at.add(at).cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_touched() {
        let (r, _fd) = Region::create(4096).unwrap();
        let mut b = [0; 16];
        assert!(r.read(4080, &mut b) && r.write(4080, &b));
        assert!(!r.read(4081, &mut b) && !r.write(4081, &b) && !r.read(usize::MAX, &mut b));
        assert!(r.read(4096, &mut []) && !r.read(4097, &mut []));
        let r = Arc::new(r);
        assert!(Words::new(&r, 4088, 8).is_some() && Words::new(&r, 4089, 4).is_none());
        assert!(Words::new(&r, 4088, 9).is_none() && Words::new(&r, usize::MAX - 7, 8).is_none());
    }

    #[test]
    fn files_that_could_shrink_are_refused_or_sealed() {
        let open = |flags| rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | flags).unwrap();
        let fd = open(MemfdFlags::ALLOW_SEALING);
        rustix::fs::ftruncate(&fd, 8192).unwrap();
        assert_eq!(Region::open(&fd, 8193).unwrap_err(), "8193 bytes are announced, its file has 8192");
        let r = Region::open(&fd, 8192).unwrap();
        assert_eq!(r.len(), 8192);
        assert!(rustix::fs::ftruncate(&fd, 0).is_err(), "it was sealed");
        let fd = open(MemfdFlags::empty());
        rustix::fs::ftruncate(&fd, 8192).unwrap();
        assert!(Region::open(&fd, 8192).unwrap_err().contains("F_SEAL_SHRINK"));
        assert!(Region::open(&fd, 0).unwrap_err().starts_with("0 bytes"));
        assert!(Region::open(&fd, u64::MAX).is_err());
        let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        assert_eq!(Region::open(&file, 10).unwrap_err(), "not a memory file (memfd)");
    }
}
