//! Counters by two things, such as interface and drop reason, of which most rows are never used.

use super::segment::Segment;
use super::{Cells, Layout};
use std::io;
use std::sync::OnceLock;

/// Rows that are mapped together.
const BLOCK: usize = 64;

/// Rows of `WIDTH` counters each.
pub struct Rows<T, const WIDTH: usize> {
    segment: Segment,
    start: u64,
    rows: usize,
    blocks: Box<[OnceLock<Cells<T>>]>,
}

impl<T: Layout, const WIDTH: usize> Rows<T, WIDTH> {
    pub(super) fn new(segment: Segment, start: u64, rows: usize) -> Self {
        const { assert!(((BLOCK * WIDTH * size_of::<T>()) as u64).is_multiple_of(super::segment::PAGE)) };
        let blocks = (0..rows.div_ceil(BLOCK)).map(|_| OnceLock::new()).collect();
        Rows { segment, start, rows, blocks }
    }

    /// Makes room for a row; none is counted in before. What is beyond the last is left out.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn reserve(&self, row: usize) -> io::Result<()> {
        let Some(block) = self.blocks.get(row / BLOCK) else { return Ok(()) };
        if block.get().is_none() {
            let first = row / BLOCK * BLOCK;
            let start = self.start + (first * WIDTH * size_of::<T>()) as u64;
            let cells = self.segment.cells(start, BLOCK.min(self.rows - first) * WIDTH)?;
            let _ = block.set(cells);
        }
        Ok(())
    }

    /// A counter of a row that was reserved.
    #[inline]
    pub fn get(&self, row: usize, column: usize) -> Option<&T> {
        if column >= WIDTH {
            return None;
        }
        self.blocks.get(row / BLOCK)?.get()?.get(row % BLOCK * WIDTH + column)
    }
}
