//! Counters by object (interface, adjacency): per worker, growing without moving, so that a reader never sees a hole.
#![allow(unsafe_code)]
// Upholds: `pairs` are the cells that the table holds, `OBJECTS` of them.

use crate::of_workers::OfWorkers;
use crate::registry::{Cells, Group, Owner, Registry};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Objects that a table has room for; few under Miri, which writes all of them.
pub const OBJECTS: usize = if cfg!(miri) { 1 << 10 } else { 1 << 20 };

crate::counter_group! {
    /// Packets and bytes of one object in one worker.
    #[repr(align(16))]
    pub struct Pair {
        /// Packets.
        pub packets: Packets,
        /// Bytes.
        pub bytes: Bytes,
    }
}

/// One worker's counters by object index (below [`OBJECTS`]): address space for all of them, of which pages are taken when
/// they are first counted in.
pub struct Table {
    /// Those of `_cells`, whose number is known to the compiler.
    pairs: NonNull<[Pair; OBJECTS]>,
    _cells: Cells<Pair>,
}

// SAFETY: pairs are atomics, shared by reference only.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

impl Table {
    /// All counters zero: those of a group that a worker counts.
    ///
    /// # Errors
    /// The system has not the address space, or the worker has such a table already.
    pub fn new(registry: &Registry, group: &Group, worker: usize) -> io::Result<Self> {
        let cells = registry.cells(group, Owner::Worker(worker), OBJECTS)?;
        Ok(Table { pairs: cells.first().cast(), _cells: cells })
    }

    /// The counters of `index`, if there is room for it.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Pair> {
        // SAFETY: there are so many cells, valid until the table is dropped, which `&self` excludes.
        unsafe { self.pairs.as_ref() }.get(index as usize)
    }

    /// Brings the counters of `index` near.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        crate::prefetch(self.pairs.as_ptr().cast::<Pair>().wrapping_add(index as usize));
    }

    /// Counts packets of object `index` whose bytes do not matter.
    #[inline(always)]
    pub fn add(&self, index: u32, packets: usize) {
        if let Some(c) = self.get(index) {
            c.packets.add(packets as u64);
        }
    }

    /// Counts a packet of object `index`.
    #[inline(always)]
    pub fn count(&self, index: u32, bytes: usize) {
        if let Some(c) = self.get(index) {
            c.packets.add(1);
            c.bytes.add(bytes as u64);
        }
    }
}

/// Counts packets of one vector by object: successive ones of the same object are written at once, the last ones when
/// it is dropped.
pub struct Run<'t> {
    table: &'t Table,
    index: u32,
    /// Packets in the low 16 bits, bytes above them.
    sum: u64,
}

impl<'t> Run<'t> {
    /// Nothing counted.
    #[inline]
    pub fn new(table: &'t Table) -> Self {
        Run { table, index: u32::MAX, sum: 0 }
    }

    /// Counts a packet of object `index`.
    #[inline(always)]
    pub fn add(&mut self, index: u32, bytes: u16) {
        self.turn(index);
        self.count(bytes);
    }

    /// The next packets are of object `index`.
    #[inline(always)]
    pub fn turn(&mut self, index: u32) {
        if index != self.index {
            self.write();
            (self.index, self.sum) = (index, 0);
        }
    }

    /// Counts a packet of the object that was last turned to; at most 65,535 of them.
    #[inline(always)]
    pub fn count(&mut self, bytes: u16) {
        self.sum += (u64::from(bytes) << 16) + 1;
    }

    #[inline(always)]
    fn write(&self) {
        if let Some(c) = self.table.get(self.index) {
            c.packets.add(self.sum & 0xffff);
            c.bytes.add(self.sum >> 16);
        }
    }
}

impl Drop for Run<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.write();
    }
}

/// The same counters for all workers, those to come among them.
#[derive(Clone)]
pub struct PerWorker {
    group: Group,
    tables: OfWorkers<Table>,
}

impl PerWorker {
    /// Counters of a group for `workers` workers (at least one).
    ///
    /// # Errors
    /// The system has not the address space, or the group is there already.
    pub fn new(registry: &Registry, group: &Group, workers: usize) -> io::Result<Self> {
        let all = PerWorker { group: *group, tables: OfWorkers::default() };
        all.grow(registry, workers.max(1))?;
        Ok(all)
    }

    /// Counters for so many workers; those that are there stay.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn grow(&self, registry: &Registry, workers: usize) -> io::Result<()> {
        self.tables.grow(workers, |w| Table::new(registry, &self.group, w))
    }

    /// The table that worker `w` writes. Falls back to the first for a number that does not exist.
    pub fn of(&self, w: usize) -> Arc<Table> {
        self.tables.of(w)
    }

    /// The counters of `index` in each worker.
    pub fn each(&self, index: u32) -> impl Iterator<Item = &Pair> {
        self.tables.iter().filter_map(move |t| t.get(index))
    }

    /// Packets and bytes of `index` over all workers.
    pub fn sum(&self, index: u32) -> (u64, u64) {
        self.each(index).fold((0, 0), |(p, b), c| (p + c.packets.get(), b + c.bytes.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Group = Group { name: "object", by: &["object"], ..Group::NEW };

    #[test]
    fn counts_by_object_and_worker() {
        let c = PerWorker::new(&Registry::new().unwrap(), &GROUP, 2).unwrap();
        assert_eq!(c.sum(5), (0, 0));
        c.of(0).get(5).unwrap().packets.add(2);
        c.of(1).get(5).unwrap().bytes.add(100);
        c.of(1).get(700).unwrap().packets.add(1);
        assert_eq!(c.sum(5), (2, 100));
        c.of(1).count(5, 60);
        assert_eq!(c.sum(5), (3, 160));
        assert_eq!(c.sum(700), (1, 0));
        assert!(c.of(0).get(OBJECTS as u32 - 1).is_some() && c.of(0).get(OBJECTS as u32).is_none());
    }

    #[test]
    fn a_worker_that_comes_later_counts_beside_the_others() {
        let registry = Registry::new().unwrap();
        let c = PerWorker::new(&registry, &GROUP, 1).unwrap();
        let again = c.clone();
        c.of(0).count(5, 60);
        c.grow(&registry, 3).unwrap();
        c.grow(&registry, 2).unwrap();
        again.of(2).count(5, 100);
        assert_eq!((c.sum(5), c.each(5).count()), ((2, 160), 3));
    }

    #[test]
    fn a_run_is_written_when_its_object_changes_and_at_its_end() {
        let t = Table::new(&Registry::new().unwrap(), &GROUP, 0).unwrap();
        let mut run = Run::new(&t);
        for (index, bytes) in [(3, 60), (3, 9000), (4, 60), (3, 1)] {
            run.add(index, bytes);
        }
        let of = |i| t.get(i).map(|c| (c.packets.get(), c.bytes.get())).unwrap();
        assert_eq!((of(3), of(4)), ((2, 9060), (1, 60)));
        drop(run);
        assert_eq!(of(3), (3, 9061));
    }
}
