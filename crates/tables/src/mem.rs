//! Big arrays of atomics in lazily committed memory.
//!
//! Upholds: the mapping is zeroed, aligned, as long as the slice says, and lives as long as the
//! `Array`; its elements are valid when all bytes are zero and are only changed through atomics.
#![allow(unsafe_code)]

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

/// Types that are valid when all their bytes are zero, need no drop and are shared by threads.
///
/// # Safety
/// The above holds, and the alignment divides a page.
pub(crate) unsafe trait Zeroed: Sync + Send {}
// SAFETY: any bytes are a valid atomic integer.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: zero is the null pointer.
unsafe impl<T> Zeroed for AtomicPtr<T> {}

#[cfg(not(miri))]
const HUGE: usize = 2 << 20;

/// A slice of `T` over memory that the kernel provides, zeroed, page by page as it is first written.
pub(crate) struct Array<T: Zeroed> {
    base: NonNull<T>,
    len: usize,
    #[cfg(not(miri))]
    map: (NonNull<libc::c_void>, usize),
}

// SAFETY: it owns its mapping, and `T` may be shared and sent.
unsafe impl<T: Zeroed> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroed> Sync for Array<T> {}

#[cfg(not(miri))]
impl<T: Zeroed> Array<T> {
    /// Reserves room for `len` elements without using memory yet.
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let total = bytes.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping touches nothing that exists.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), total, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(start) = NonNull::new(map) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        let pad = map.align_offset(HUGE);
        // SAFETY: pad < HUGE, so that bytes from there still lie in the mapping.
        let base = unsafe { start.byte_add(pad) }.cast();
        // No small table should cost 2 MiB where the system's default is huge pages always.
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(map, total, libc::MADV_NOHUGEPAGE) };
        Ok(Array { base, len, map: (start, total) })
    }

    /// Like `reserve`, but takes less, down to `least`, where the system refuses so much address space.
    pub(crate) fn reserve_up_to(len: usize, least: usize) -> io::Result<Self> {
        let mut want = len;
        loop {
            match Self::reserve(want) {
                Err(e) if want <= least => return Err(e),
                Err(_) => want = (want / 2).max(least),
                ok => return ok,
            }
        }
    }

    /// Asks for huge pages where memory is touched from now on. Only advice: failing is harmless.
    pub(crate) fn advise_huge(&self) {
        // SAFETY: advice on our own mapping.
        unsafe { libc::madvise(self.map.0.as_ptr(), self.map.1, libc::MADV_HUGEPAGE) };
    }

    /// Gives the memory back; all elements read zero from now on.
    pub(crate) fn discard(&self) {
        // SAFETY: advice on our own private mapping; zero is valid for its elements.
        unsafe { libc::madvise(self.map.0.as_ptr(), self.map.1, libc::MADV_DONTNEED) };
    }
}

#[cfg(miri)]
impl<T: Zeroed> Array<T> {
    pub(crate) fn reserve(len: usize) -> io::Result<Self> {
        let layout = std::alloc::Layout::array::<T>(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the layout is not empty in any use here.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) });
        let base = base.ok_or(io::ErrorKind::OutOfMemory)?.cast();
        Ok(Array { base, len })
    }

    pub(crate) fn reserve_up_to(len: usize, least: usize) -> io::Result<Self> {
        Self::reserve(least.min(len))
    }

    pub(crate) fn advise_huge(&self) {}

    pub(crate) fn discard(&self) {}
}

impl<T: Zeroed> Drop for Array<T> {
    fn drop(&mut self) {
        #[cfg(not(miri))]
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        unsafe {
            libc::munmap(self.map.0.as_ptr(), self.map.1);
        }
        #[cfg(miri)]
        if let Ok(layout) = std::alloc::Layout::array::<T>(self.len) {
            // SAFETY: allocated with this very layout.
            unsafe { std::alloc::dealloc(self.base.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Zeroed> Deref for Array<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: base is aligned to a page and followed by len zeroed or valid elements.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

/// Brings the line of `slice[index]` near; an index out of range does nothing bad.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    graph::prefetch(slice.as_ptr().wrapping_add(index));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn reads_zero_until_written() {
        let a: Array<AtomicU32> = Array::reserve(1 << 16).unwrap();
        assert_eq!(a.len(), 1 << 16);
        assert_eq!(a[0].load(Relaxed) | a[65535].load(Relaxed), 0);
        a[65535].store(7, Relaxed);
        a.advise_huge();
        assert_eq!(a[65535].load(Relaxed), 7);
        prefetch(&a, usize::MAX);
    }

    #[test]
    fn takes_less_when_refused() {
        let a: Array<AtomicU64> = Array::reserve_up_to(1 << 58, 1 << 12).unwrap();
        assert!(a.len() >= 1 << 12);
    }
}
