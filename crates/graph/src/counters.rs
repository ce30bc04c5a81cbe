//! Counters by object (interface, adjacency): per worker, growing without moving, so that a reader never sees a hole.
#![allow(unsafe_code)]
// Upholds: a chunk is published once with release order and freed only with the whole table.

use crate::stats::Count;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

const CHUNK: usize = 256;
const CHUNKS: usize = 4096;

/// Packets and bytes of one object in one worker.
#[derive(Default)]
#[repr(align(16))]
pub struct Pair {
    /// Packets.
    pub packets: Count,
    /// Bytes.
    pub bytes: Count,
}

/// One worker's counters of type `T`, by object index (below 1,048,576).
pub struct Table<T> {
    chunks: Box<[AtomicPtr<[T; CHUNK]>]>,
}

// SAFETY: chunks are shared by reference only; `T: Sync` makes that sound.
unsafe impl<T: Send + Sync> Sync for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Table<T> {}

impl<T: Default> Default for Table<T> {
    fn default() -> Self {
        Table { chunks: (0..CHUNKS).map(|_| AtomicPtr::new(core::ptr::null_mut())).collect() }
    }
}

impl<T: Default> Table<T> {
    /// Makes room for `index`; control side, before the index is handed to workers.
    pub fn reserve(&self, index: u32) {
        let Some(slot) = self.chunks.get(index as usize / CHUNK) else { return };
        if slot.load(Ordering::Acquire).is_null() {
            let chunk: Box<[T; CHUNK]> = Box::new(core::array::from_fn(|_| T::default()));
            let fresh = Box::into_raw(chunk);
            if slot
                .compare_exchange(core::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}

impl<T> Table<T> {
    /// The counters of `index`, if there is room for it.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.load(Ordering::Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: published chunks are valid until the table is dropped, which `&self` excludes.
        Some(unsafe { &(&*chunk)[index as usize % CHUNK] })
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        for c in &mut self.chunks {
            let p = *c.get_mut();
            if !p.is_null() {
                // SAFETY: came from Box::into_raw in `reserve`, freed once here.
                drop(unsafe { Box::from_raw(p) });
            }
        }
    }
}

/// Counts packets of one vector by object: successive ones of the same object are written at once, the last ones when
/// it is dropped.
pub struct Run<'t> {
    table: &'t Table<Pair>,
    index: u32,
    /// Packets in the upper half, bytes in the lower one: a vector has less than 2^32.
    sum: u64,
}

impl<'t> Run<'t> {
    /// Nothing counted.
    #[inline]
    pub fn new(table: &'t Table<Pair>) -> Self {
        Run { table, index: u32::MAX, sum: 0 }
    }

    /// Counts a packet of object `index`.
    #[inline(always)]
    pub fn add(&mut self, index: u32, bytes: u16) {
        if index != self.index {
            self.write();
            (self.index, self.sum) = (index, 0);
        }
        self.sum += 1 << 32 | u64::from(bytes);
    }

    #[inline(always)]
    fn write(&self) {
        if let Some(c) = self.table.get(self.index) {
            c.packets.add(self.sum >> 32);
            c.bytes.add(self.sum & 0xffff_ffff);
        }
    }
}

impl Drop for Run<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.write();
    }
}

/// The same counters for all workers.
pub struct PerWorker<T>(Vec<Arc<Table<T>>>);

impl<T> Clone for PerWorker<T> {
    fn clone(&self) -> Self {
        PerWorker(self.0.clone())
    }
}

impl<T: Default> PerWorker<T> {
    /// Counters for `workers` workers.
    pub fn new(workers: usize) -> Self {
        PerWorker((0..workers).map(|_| Arc::new(Table::default())).collect())
    }

    /// Makes room for `index` in all workers.
    pub fn reserve(&self, index: u32) {
        for t in &self.0 {
            t.reserve(index);
        }
    }
}

impl<T> PerWorker<T> {
    /// The table that worker `w` writes. Falls back to the first for a number that does not exist.
    pub fn of(&self, w: usize) -> Arc<Table<T>> {
        Arc::clone(self.0.get(w).unwrap_or(&self.0[0]))
    }

    /// The counters of `index` in each worker.
    pub fn each(&self, index: u32) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(move |t| t.get(index))
    }
}

impl PerWorker<Pair> {
    /// Packets and bytes of `index` over all workers.
    pub fn sum(&self, index: u32) -> (u64, u64) {
        self.each(index).fold((0, 0), |(p, b), c| (p + c.packets.get(), b + c.bytes.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_object_and_worker() {
        let c: PerWorker<Pair> = PerWorker::new(2);
        assert!(c.of(0).get(5).is_none());
        c.reserve(5);
        c.reserve(70_000);
        c.of(0).get(5).unwrap().packets.add(2);
        c.of(1).get(5).unwrap().bytes.add(100);
        c.of(1).get(70_000).unwrap().packets.add(1);
        assert_eq!(c.sum(5), (2, 100));
        assert_eq!(c.sum(70_000), (1, 0));
        c.reserve(u32::MAX);
        assert!(c.of(0).get(u32::MAX).is_none());
    }
}
