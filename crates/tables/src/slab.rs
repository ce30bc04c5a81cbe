//! Memory for the objects of one table, side by side: thousands of them spread over the heap, each in a page of its own,
//! would cost every reader the walk of a page table beside the cache line.
//!
//! Upholds: a cell is as large and aligned as an object, lies in a chunk that lives as long as the slab, and is given out
//! to one object at a time.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const LINE: usize = 64;
/// Cells of the first chunks, in common pages: most tables have few objects.
const FEW: usize = 64;
/// Bytes of all further ones: a huge page each, where the system has one.
const CHUNK: usize = 2 << 20;

/// The memory.
pub struct Slab<T> {
    chunks: Vec<(NonNull<u8>, Layout)>,
    /// Cells that were never used: those from here on, and how many.
    fresh: (NonNull<T>, usize),
    free: Vec<NonNull<T>>,
}

// SAFETY: it owns its memory; whose the objects are, is not its concern.
unsafe impl<T> Send for Slab<T> {}

impl<T> Slab<T> {
    /// Bytes from a cell to the next: an odd number of lines, so that the first lines of objects share out all sets of a cache.
    const STRIDE: usize = (size_of::<T>().div_ceil(LINE) | 1) * LINE;

    /// Without memory.
    pub fn new() -> Self {
        const { assert!(align_of::<T>() <= LINE && 4 * Self::STRIDE <= CHUNK) };
        Slab { chunks: vec![], fresh: (NonNull::dangling(), 0), free: vec![] }
    }

    fn grow(&mut self) {
        let few = FEW * Self::STRIDE;
        let (size, align) = if self.chunks.len() < 4 { (few.min(CHUNK), LINE) } else { (CHUNK, CHUNK) };
        let Ok(layout) = Layout::from_size_align(size, align) else { handle_alloc_error(Layout::new::<T>()) };
        // SAFETY: the layout is not empty.
        let Some(chunk) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        #[cfg(not(miri))]
        if align == CHUNK {
            // SAFETY: advice on memory of our own, whole pages of it.
            unsafe { libc::madvise(chunk.as_ptr().cast(), size, libc::MADV_HUGEPAGE) };
        }
        self.chunks.push((chunk, layout));
        self.fresh = (chunk.cast(), size / Self::STRIDE);
    }

    /// Puts an object into a cell.
    pub fn put(&mut self, object: T) -> NonNull<T> {
        let cell = self.free.pop().unwrap_or_else(|| {
            if self.fresh.1 == 0 {
                self.grow();
            }
            let (cell, left) = self.fresh;
            // SAFETY: the last cell of a chunk has at most its end behind it.
            self.fresh = (unsafe { cell.byte_add(Self::STRIDE) }, left - 1);
            cell
        });
        // SAFETY: a cell that no object has.
        unsafe { cell.write(object) };
        cell
    }

    /// Takes back the cell of an object that was dropped.
    ///
    /// # Safety
    /// The cell is of this slab, and nobody uses it.
    pub unsafe fn take_back(&mut self, cell: NonNull<T>) {
        self.free.push(cell);
    }
}

impl<T> Drop for Slab<T> {
    fn drop(&mut self) {
        for (chunk, layout) in &self.chunks {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(chunk.as_ptr(), *layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_cells_of_their_own() {
        let mut slab = Slab::<[u8; 70]>::new();
        let many = if cfg!(miri) { 300 } else { 30_000 };
        let mut cells: Vec<_> = (0..many).map(|n| slab.put([n as u8; 70])).collect();
        for n in (0..many).step_by(3) {
            // SAFETY: the cell is not used any more.
            unsafe { slab.take_back(cells[n]) };
        }
        let chunks = slab.chunks.len();
        for n in (0..many).step_by(3) {
            cells[n] = slab.put([n as u8; 70]);
        }
        assert_eq!(slab.chunks.len(), chunks, "cells are used again");
        for (n, cell) in cells.iter().enumerate() {
            // SAFETY: an object of the slab.
            assert_eq!(unsafe { cell.read() }, [n as u8; 70]);
            assert_eq!(cell.as_ptr() as usize % 64, 0);
        }
        let mut places: Vec<usize> = cells.iter().map(|c| c.as_ptr() as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|w| w[1] - w[0] >= 192), "an odd number of lines each");
    }
}
