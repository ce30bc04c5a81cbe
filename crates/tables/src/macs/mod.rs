//! The MAC table of all bridge domains: workers learn into it at once, the control side ages and takes out.
//!
//! A bucket is one cache line with five entries. A worker claims an entry by putting its key there with one
//! compare-and-swap, and then stores the value; nobody waits for anybody. A value is read before its key and counts only
//! while it is live; the control side alone takes entries out, by making their values dead, and gives a place to another
//! key only after all workers have passed. So whoever reads a live value reads the key that belongs to it.
//!
//! Two workers that learn one address while a place before it becomes free may both put it there. The one found
//! first counts, the other is never refreshed and ages; whatever takes an address out takes out both.
//!
//! A table that fills up is replaced by a bigger one: both are in use until the control side has moved the entries of the
//! old one, which it begins when all workers have seen the new one. The hash is keyed with random numbers, so that nobody
//! outside can choose addresses that collide.

mod entry;
mod learn;
mod table;
mod writer;

pub use entry::{Entry, STAMP_MASK, key, key_bridge, key_mac};
pub use learn::{Learnt, Limits};
pub use writer::{MacWriter, NoRoom};

use crate::CpuLevel;
use crate::mem::Array;
use graph::{Guard, Published};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use table::Table;

/// Bridge domains and ports that can be counted: their numbers are below it.
pub const OBJECTS: usize = if cfg!(miri) { 64 } else { 1 << 16 };

/// The tables in use.
struct Stage {
    now: Arc<Table>,
    /// Where entries stand that have not been moved yet.
    old: Option<Arc<Table>>,
}

/// The MAC table as workers see it.
pub struct MacTable {
    stage: Published<Stage>,
    /// Learned entries: all, and by bridge domain and port.
    learned: AtomicU32,
    by_bridge: Array<AtomicU32>,
    by_port: Array<AtomicU32>,
    /// The most learned entries.
    limit: AtomicU32,
    /// The control side was asked for a bigger table.
    asked: AtomicBool,
}

impl MacTable {
    /// An empty table in which workers may learn `limit` addresses, for processors of a level.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn new(limit: u32, level: CpuLevel) -> std::io::Result<(MacWriter, Arc<MacTable>)> {
        let now = Arc::new(Table::new(table::LEAST_BUCKETS, level)?);
        let shared = Arc::new(MacTable {
            stage: Published::new(Stage { now: Arc::clone(&now), old: None }),
            learned: AtomicU32::new(0),
            by_bridge: Array::reserve(OBJECTS)?,
            by_port: Array::reserve(OBJECTS)?,
            limit: AtomicU32::new(limit),
            asked: AtomicBool::new(false),
        });
        Ok((MacWriter::new(Arc::clone(&shared), now), shared))
    }

    /// The table for as long as the guard holds.
    #[inline]
    pub fn reader<'g>(&'g self, guard: &'g Guard) -> MacReader<'g> {
        let stage = self.stage.load(guard);
        MacReader { shared: self, now: &stage.now, old: stage.old.as_deref() }
    }

    /// Learned addresses.
    pub fn learned(&self) -> u32 {
        self.learned.load(Relaxed)
    }

    /// Learned addresses of a bridge domain.
    pub fn learned_in(&self, bridge: u16) -> u32 {
        self.by_bridge.get(usize::from(bridge)).map_or(0, |n| n.load(Relaxed))
    }

    /// Learned addresses behind a port.
    pub fn learned_on(&self, port: u32) -> u32 {
        self.by_port.get(port as usize).map_or(0, |n| n.load(Relaxed))
    }

    /// The most addresses that workers may learn.
    pub fn limit(&self) -> u32 {
        self.limit.load(Relaxed)
    }

    /// Changes the most addresses that workers may learn; what is there stays.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Relaxed);
    }
}

/// The table while a guard holds.
#[derive(Clone, Copy)]
pub struct MacReader<'g> {
    shared: &'g MacTable,
    now: &'g Table,
    old: Option<&'g Table>,
}

impl MacReader<'_> {
    /// Where a key belongs; of use while this reader lives.
    #[inline(always)]
    pub fn home(&self, key: u64) -> u32 {
        self.now.home(key)
    }

    /// Brings near what [`MacReader::find_at`] reads.
    #[inline(always)]
    pub fn prefetch(&self, home: u32) {
        self.now.prefetch(home);
    }

    /// The entry of a key whose home is known; [`Entry::NONE`] when there is none.
    #[inline(always)]
    pub fn find_at(&self, home: u32, key: u64) -> Entry {
        let found = self.now.find(home, key);
        if found.is_live() || self.old.is_none() {
            return found;
        }
        self.find_old(key)
    }

    /// The entry of a key.
    #[inline]
    pub fn find(&self, key: u64) -> Entry {
        self.find_at(self.home(key), key)
    }

    #[cold]
    fn find_old(&self, key: u64) -> Entry {
        let Some(old) = self.old else { return Entry::NONE };
        let found = old.find(old.home(key), key);
        // It may have been moved between the two looks.
        if found.is_live() { found } else { self.now.find(self.now.home(key), key) }
    }
}

#[cfg(test)]
mod tests;
