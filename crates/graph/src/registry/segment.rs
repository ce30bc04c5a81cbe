//! The memory of counters: a file without a name that other processes can map, and pieces of it that this one writes.
#![allow(unsafe_code)]
// Upholds: a mapping is inside the file, which never shrinks, and is unmapped only when what holds it is dropped; cells
// are of types whose every bit pattern is valid and that change through atomics alone.

use super::Layout;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces of the file begin at multiples of this.
pub(super) const PAGE: u64 = 4096;

/// A file in memory. Where there can be none, pieces of it are memory of their own, and others read nothing: under a limit of
/// the size of files (`ulimit -f`), which holds for files without a name as well, and under Miri.
#[derive(Clone)]
pub(super) struct Segment(Arc<File>);

struct File {
    fd: Option<OwnedFd>,
    size: AtomicU64,
}

impl Segment {
    pub(super) fn new() -> io::Result<Segment> {
        use rustix::process::{Resource, getrlimit};
        let fd = if cfg!(miri) || getrlimit(Resource::Fsize).current.is_some() {
            None
        } else {
            use rustix::fs::{MemfdFlags, Mode, SealFlags};
            let fd =
                rustix::fs::memfd_create("quiver-counters", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            // A reader's mapping stays whole, and who opens the file by its name in /proc may only read it.
            rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK)?;
            rustix::fs::fchmod(&fd, Mode::RUSR | Mode::RGRP | Mode::ROTH)?;
            Some(fd)
        };
        Ok(Segment(Arc::new(File { fd, size: AtomicU64::new(0) })))
    }

    /// Room for so many bytes more, which are 0: where it begins. Takes no memory until it is written.
    pub(super) fn extend(&self, bytes: u64) -> io::Result<u64> {
        let bytes = bytes.max(1).next_multiple_of(PAGE);
        let start = self.0.size.fetch_add(bytes, Ordering::Relaxed);
        if let Some(fd) = &self.0.fd {
            rustix::fs::ftruncate(fd, start + bytes)?;
        }
        Ok(start)
    }

    pub(super) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        let why = "they are in no file, as the size of files is limited (ulimit -f)";
        self.0.fd.as_ref().map(AsFd::as_fd).ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// `len` cells from byte `start` of the file on, which [`Segment::extend`] gave for them.
    pub(super) fn cells<T: Layout>(&self, start: u64, len: usize) -> io::Result<Cells<T>> {
        const { assert!(align_of::<T>() <= PAGE as usize) };
        let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let end = start.checked_add(bytes as u64).ok_or(io::ErrorKind::OutOfMemory)?;
        if !start.is_multiple_of(PAGE) || end > self.0.size.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let map = self.map(start, bytes)?;
        Ok(Cells { first: map.start.cast(), len, _map: map, of: PhantomData })
    }

    fn map(&self, start: u64, bytes: usize) -> io::Result<Mapping> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let map = match &self.0.fd {
            Some(fd) => map_file(fd.as_fd(), start, bytes, access)?,
            None => map_memory(bytes, access)?,
        };
        if !cfg!(miri) {
            // A few counters should not cost 2 MiB where the system's default is huge pages always.
            // SAFETY: advice on our own mapping.
            let _ =
                unsafe { rustix::mm::madvise(map.start.as_ptr().cast(), map.len, Advice::LinuxNoHugepage) };
        }
        Ok(map)
    }
}

/// Maps memory of no file.
fn map_memory(bytes: usize, access: ProtFlags) -> io::Result<Mapping> {
    let len = bytes.max(1).next_multiple_of(PAGE as usize);
    // Miri knows nothing of reserving, which changes nothing there.
    let reserve = if cfg!(miri) { MapFlags::empty() } else { MapFlags::NORESERVE };
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let map = unsafe {
        rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, access, MapFlags::PRIVATE | reserve)
    }?;
    Ok(Mapping { start: NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
}

/// Maps bytes of a file, from a multiple of a page on.
fn map_file(fd: BorrowedFd<'_>, start: u64, bytes: usize, access: ProtFlags) -> io::Result<Mapping> {
    let len = bytes.max(1).next_multiple_of(PAGE as usize);
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
    let map = unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, access, flags, fd, start) }?;
    Ok(Mapping { start: NonNull::new(map.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
}

struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference into it outlives its owner.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Counters of one kind, one after another, which begin at 0: a slice of them.
pub struct Cells<T> {
    first: NonNull<T>,
    len: usize,
    _map: Mapping,
    of: PhantomData<T>,
}

// SAFETY: cells are atomics, shared by reference only.
unsafe impl<T: Layout> Sync for Cells<T> {}
// SAFETY: as above.
unsafe impl<T: Layout> Send for Cells<T> {}

impl<T: Layout> Cells<T> {
    /// The first of them, valid as long as this is.
    pub(crate) fn first(&self) -> NonNull<T> {
        self.first
    }
}

impl<T: Layout> Deref for Cells<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` cells that began as zeros, which are valid, and lives as long as `self`.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

/// A piece of the file as others see it: to be read.
pub(super) struct Piece {
    map: Mapping,
    /// Bytes of the mapping in front of the piece.
    skip: usize,
    len: usize,
}

impl Piece {
    /// Maps bytes of the file, which must hold them.
    pub(super) fn new(fd: BorrowedFd<'_>, start: u64, len: usize) -> io::Result<Piece> {
        let skip = start % PAGE;
        let end = start.checked_add(len as u64).ok_or(io::ErrorKind::InvalidData)?;
        // What lies behind the end of the file cannot be touched.
        if end > rustix::fs::fstat(fd)?.st_size as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let map = map_file(fd, start - skip, len + skip as usize, ProtFlags::READ)?;
        Ok(Piece { map, skip: skip as usize, len })
    }

    /// The word at a byte, if the piece holds it.
    pub(super) fn word(&self, at: usize) -> Option<u64> {
        let end = at.checked_add(8)?;
        if end > self.len || !(self.skip + at).is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside the mapping, aligned, and changed by others through atomics of the same size only.
        let word = unsafe { &*self.map.start.as_ptr().add(self.skip + at).cast::<AtomicU64>() };
        Some(word.load(Ordering::Acquire))
    }

    /// All bytes, eight at a time.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = (0..self.len / 8).filter_map(|n| self.word(n * 8));
        words.flat_map(u64::to_ne_bytes).collect()
    }
}
