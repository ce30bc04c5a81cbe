//! The control side of the hash table.

use super::table::{LINE, LIVE, Table};
use super::{Exact, Key};
use crate::MAX_VALUE;
use crate::error::{RouteError, TableFull};
use crate::retire::Retired;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// Buckets of a new table: a page.
pub(super) const LEAST_BUCKETS: usize = 64;

/// Something taken out.
enum Gone {
    /// A place in the table that is the nth.
    Place {
        table: usize,
        place: usize,
    },
    Table(usize),
}

/// Changes a hash table. One thread owns it.
pub struct ExactWriter<K: Key> {
    shared: Arc<Exact<K>>,
    count: usize,
    /// Which table is in use, counted from the first.
    table: usize,
    retired: Retired<Gone>,
    limit: usize,
}

impl<K: Key> ExactWriter<K> {
    pub(super) fn new(shared: Arc<Exact<K>>, limit: Option<usize>) -> Self {
        let limit = limit.unwrap_or(usize::MAX);
        ExactWriter { shared, count: 0, table: 0, retired: Retired::new(), limit }
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<Exact<K>> {
        &self.shared
    }

    /// Sets the value of a key (0 to 2^31 - 1) and answers the one it had. Takes long now and then, when the table grows.
    pub fn insert(&mut self, key: K, value: u32) -> Result<Option<u32>, RouteError> {
        if value > MAX_VALUE {
            return Err(RouteError::Value(value));
        }
        let table = self.shared.current.get();
        if let Some((place, old)) = table.find(table.home(key), key) {
            table.value(place).store(value + LIVE, Release);
            return Ok(Some(old));
        }
        let room = table.buckets() * K::ENTRIES;
        // Three quarters full is where searches would start to get long.
        if self.count >= room / 4 * 3 || !table.place(key, value) {
            self.rebuild(key, value)?;
        }
        self.count += 1;
        Ok(None)
    }

    /// Takes out a key and answers its value.
    pub fn remove(&mut self, key: K) -> Option<u32> {
        let table = self.shared.current.get();
        let (place, old) = table.find(table.home(key), key)?;
        table.take(place, key);
        self.retired.push(Gone::Place { table: self.table, place });
        self.count -= 1;
        Some(old)
    }

    /// The value of a key.
    pub fn get(&self, key: K) -> Option<u32> {
        let table = self.shared.current.get();
        table.find(table.home(key), key).map(|(_, value)| value)
    }

    /// All keys with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (K, u32)> + '_ {
        self.shared.current.get().iter()
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the table in use.
    pub fn bytes(&self) -> usize {
        self.shared.current.get().buckets() * LINE * 4
    }

    /// Changes the most bytes the table may take; what is in it stays. While it grows, the old and
    /// the new table exist together.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        self.retired.set_epoch(epoch);
    }

    /// Makes places and tables taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        while let Some(gone) = self.retired.pop(safe) {
            match gone {
                Gone::Place { table, place } if table == self.table => {
                    self.shared.current.get().freed(place);
                }
                Gone::Place { .. } => {}
                Gone::Table(number) => self.shared.current.discard(number),
            }
        }
    }

    /// Places and tables that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Copies everything and one key more into another table, bigger where this one is well filled (otherwise the seed
    /// was unlucky, or removed keys crowd it).
    fn rebuild(&mut self, key: K, value: u32) -> Result<(), TableFull> {
        let old = self.shared.current.get();
        let grow = self.count >= old.buckets() * K::ENTRIES / 2;
        let mut buckets = old.buckets() << u32::from(grow);
        let full = TableFull { table: "hash table", used: self.bytes(), limit: self.limit };
        loop {
            if buckets * LINE * 4 > self.limit {
                return Err(full);
            }
            let new = Table::new(buckets).map_err(|_| full)?;
            if old.iter().all(|(k, v)| new.place(k, v)) && new.place(key, value) {
                let number = self.shared.current.set(new);
                self.retired.push(Gone::Table(number));
                self.table += 1;
                return Ok(());
            }
            buckets *= 2;
        }
    }
}
