//! The control side of the MAC table.

use super::table::{ENTRIES, LEAST_BUCKETS, MOST_BUCKETS, Put, Table};
use super::{Entry, MacTable, STAMP_MASK, Stage, key_bridge};
use graph::Reclaimer;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// There is no room for a static address before workers have passed: maintain the table and try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MAC table is full")]
pub struct NoRoom;

/// What the writer waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Steady,
    /// Until all workers know of the new table, to which nothing has been moved before.
    Filling(u64),
    /// Until no worker knows of the old table any more.
    Leaving(u64),
}

/// Buckets that one call of [`MacWriter::age`] looks at.
const SWEEP: usize = 1 << 18;

/// Changes the MAC table beside the workers. One thread owns it.
pub struct MacWriter {
    shared: Arc<MacTable>,
    now: Arc<Table>,
    old: Option<Arc<Table>>,
    phase: Phase,
    /// Static entries.
    fixed: usize,
    /// Dead entries get this colour; those of the other are given away once all workers have passed `closing`.
    colour: usize,
    dead: [bool; 2],
    closing: Option<u64>,
    /// Where ageing goes on, and the time it works with.
    cursor: usize,
}

impl MacWriter {
    pub(super) fn new(shared: Arc<MacTable>, now: Arc<Table>) -> Self {
        MacWriter {
            shared,
            now,
            old: None,
            phase: Phase::Steady,
            fixed: 0,
            colour: 0,
            dead: [false; 2],
            closing: None,
            cursor: 0,
        }
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<MacTable> {
        &self.shared
    }

    /// Static entries.
    pub fn fixed(&self) -> usize {
        self.fixed
    }

    /// All entries.
    pub fn len(&self) -> usize {
        self.fixed + self.shared.learned() as usize
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries for which the table in use has room.
    pub fn room(&self) -> usize {
        self.now.buckets() * ENTRIES
    }

    /// Entries of the table in use, live or dead.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.now.used()
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.old.iter().chain([&self.now]).map(|t| &**t)
    }

    /// All entries with their keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let all = self.tables().flat_map(|t| t.iter(0, t.buckets()));
        all.filter(|(_, _, e)| e.is_live()).map(|(_, key, e)| (key, e))
    }

    /// The entries of some buckets, from the place `from` on (0 at first), and the place that comes next; `None` at the end. A
    /// table that grows meanwhile may show an entry twice.
    pub fn page(&self, from: usize, buckets: usize) -> (Vec<(u64, Entry)>, Option<usize>) {
        let mut start = from;
        for table in self.tables() {
            if start < table.buckets() {
                let all = table.iter(start, start + buckets);
                let live = all.filter(|(_, _, e)| e.is_live()).map(|(_, key, e)| (key, e)).collect();
                return (live, Some(from + buckets.min(table.buckets() - start)));
            }
            start -= table.buckets();
        }
        (vec![], None)
    }

    /// The entry of a key.
    pub fn get(&self, key: u64) -> Option<Entry> {
        let found = self.tables().map(|t| t.find(t.home(key), key));
        found.filter(|e| e.is_live()).last()
    }

    /// Puts a static entry in place of what there is, and answers that.
    ///
    /// # Errors
    /// Workers have to pass before the table can grow again.
    pub fn set(
        &mut self,
        key: u64,
        entry: Entry,
        reclaimer: &mut Reclaimer,
    ) -> Result<Option<Entry>, NoRoom> {
        debug_assert!(entry.is_live() && entry.is_static() && key != 0);
        let mut was = None;
        if let Some(old) = self.old.clone() {
            was = self.kill(&old, key, 0);
        }
        // More tries than workers can spoil: each does so once at most.
        for _ in 0..1000 {
            match self.now.place(key) {
                Some((p, there)) if there.is_live() || there.is_dead() => {
                    if self.now.change(p, there, entry).is_ok() {
                        self.lose(key, there);
                        self.fixed += 1;
                        return Ok(if there.is_live() { Some(there) } else { was });
                    }
                }
                // A worker is about to store the value.
                Some(_) => std::hint::spin_loop(),
                None if self.old.as_ref().is_some_and(|old| !self.now.has_room_beside(old)) => {
                    return Err(NoRoom);
                }
                None => match self.now.put(key, entry) {
                    Put::Done => {
                        self.fixed += 1;
                        self.grow_if_filled(reclaimer);
                        return Ok(was);
                    }
                    Put::There => {}
                    Put::Full => self.grow(reclaimer)?,
                },
            }
        }
        Err(NoRoom)
    }

    /// Takes an entry out and answers it.
    pub fn remove(&mut self, key: u64) -> Option<Entry> {
        let old = self.old.clone().and_then(|old| self.kill(&old, key, 0));
        let colour = self.colour;
        self.kill(&self.now.clone(), key, colour).or(old)
    }

    fn kill(&mut self, table: &Table, key: u64, colour: usize) -> Option<Entry> {
        let mut first = None;
        while let Some((p, there)) = table.place(key).filter(|(_, e)| e.is_live()) {
            if table.change(p, there, Entry::DEAD[colour]).is_ok() {
                self.lose(key, there);
                self.dead[colour] = true;
                first.get_or_insert(there);
            }
        }
        first
    }

    /// Takes out the entries that `wanted` names; how many.
    pub fn remove_if(&mut self, mut wanted: impl FnMut(u64, Entry) -> bool) -> usize {
        let mut n = 0;
        for table in [self.old.clone(), Some(self.now.clone())].into_iter().flatten() {
            for (p, key, mut there) in table.iter(0, table.buckets()) {
                while there.is_live() && wanted(key, there) {
                    match table.change(p, there, Entry::DEAD[self.colour]) {
                        Ok(()) => {
                            self.lose(key, there);
                            self.dead[self.colour] = true;
                            n += 1;
                            break;
                        }
                        // A worker has renewed it.
                        Err(other) => there = other,
                    }
                }
            }
        }
        n
    }

    fn lose(&mut self, key: u64, there: Entry) {
        if there.is_live() && there.is_static() {
            self.fixed -= 1;
        }
        self.shared.uncount(key, there);
    }

    /// Takes out learned entries that were not seen for as long as `age` says for their bridge domain and port (0: never), in
    /// steps of the stamps; `now` is the last that workers were given. Looks at a part of a large table in one call.
    /// Answers how many went, and whether the whole table has been looked at since the last time it said so.
    pub fn age(&mut self, now: u16, age: impl Fn(u16, u32) -> u16) -> (usize, bool) {
        if self.phase != Phase::Steady {
            return (0, false);
        }
        let (table, mut n) = (self.now.clone(), 0);
        let end = self.cursor + SWEEP;
        for (p, key, there) in table.iter(self.cursor, end) {
            if !there.is_live() || there.is_static() {
                continue;
            }
            let limit = age(key_bridge(key), there.port());
            let old = limit != 0 && now.wrapping_sub(there.stamp()) & STAMP_MASK >= limit;
            // A worker that renews it at this very time is right.
            if old && table.change(p, there, Entry::DEAD[self.colour]).is_ok() {
                self.lose(key, there);
                self.dead[self.colour] = true;
                n += 1;
            }
        }
        let all = end >= table.buckets();
        self.cursor = if all { 0 } else { end };
        (n, all)
    }

    /// Goes on with what waited for workers: growing, shrinking, and giving away the places of dead entries. Call it now
    /// and then, and soon when a worker asks.
    pub fn maintain(&mut self, reclaimer: &mut Reclaimer) {
        let safe = reclaimer.domain().safe();
        match self.phase {
            Phase::Filling(since) if since < safe => self.move_over(reclaimer),
            Phase::Leaving(since) if since < safe => {
                self.old = None;
                self.phase = Phase::Steady;
            }
            Phase::Steady => {
                self.give_away(reclaimer, safe);
                self.grow_if_filled(reclaimer);
                let few = self.len() < self.room() / 20 && self.now.buckets() > LEAST_BUCKETS;
                if few && self.phase == Phase::Steady {
                    self.resize(self.now.buckets() / 4, reclaimer);
                }
            }
            _ => {}
        }
    }

    /// True while a table of another size takes the place of the one before.
    pub fn is_growing(&self) -> bool {
        self.phase != Phase::Steady
    }

    fn grow_if_filled(&mut self, reclaimer: &mut Reclaimer) {
        if self.phase == Phase::Steady && self.now.is_filled() {
            let _ = self.grow(reclaimer);
        }
    }

    fn grow(&mut self, reclaimer: &mut Reclaimer) -> Result<(), NoRoom> {
        if self.phase != Phase::Steady {
            return Err(NoRoom);
        }
        // Where it is dead entries that fill it, a new table of the same size is rid of them.
        let crowded = self.len() > self.room() / 5 * 2;
        let buckets = self.now.buckets() << u32::from(crowded);
        if buckets > MOST_BUCKETS || !self.resize(buckets, reclaimer) {
            return Err(NoRoom);
        }
        Ok(())
    }

    fn publish(&mut self, reclaimer: &mut Reclaimer) -> u64 {
        let since = reclaimer.domain().epoch();
        let stage = Stage { now: self.now.clone(), old: self.old.clone() };
        self.shared.stage.publish(stage, reclaimer);
        since
    }

    /// Puts a table of another size in use beside the one there is; false when there is no memory for it.
    pub(super) fn resize(&mut self, buckets: usize, reclaimer: &mut Reclaimer) -> bool {
        let Ok(new) = Table::new(buckets.max(LEAST_BUCKETS), self.now.level()) else { return false };
        self.old = Some(std::mem::replace(&mut self.now, Arc::new(new)));
        (self.dead, self.closing, self.cursor) = ([false; 2], None, 0);
        self.phase = Phase::Filling(self.publish(reclaimer));
        true
    }

    /// No worker adds to the old table any more.
    fn move_over(&mut self, reclaimer: &mut Reclaimer) {
        if let Some(old) = self.old.clone() {
            for (p, key, mut there) in old.iter(0, old.buckets()) {
                // Whoever makes it dead moves it; workers do that as well.
                while there.is_live() {
                    match old.change(p, there, Entry::DEAD[0]) {
                        Ok(()) => break,
                        Err(other) => there = other,
                    }
                }
                if there.is_live() && self.now.put(key, there) != Put::Done {
                    self.lose(key, there);
                }
            }
        }
        let now = self.now.clone();
        let old = self.old.take();
        self.phase = Phase::Leaving(self.publish(reclaimer));
        self.old = old;
        debug_assert!(Arc::ptr_eq(&now, &self.now));
        self.shared.asked.store(false, Relaxed);
    }

    fn give_away(&mut self, reclaimer: &Reclaimer, safe: u64) {
        match self.closing {
            None if self.dead[self.colour] => {
                self.closing = Some(reclaimer.domain().epoch());
                self.colour ^= 1;
                reclaimer.domain().advance();
            }
            Some(since) if since < safe => {
                let colour = self.colour ^ 1;
                let dead = Entry::DEAD[colour];
                for (p, key, there) in self.now.iter(0, self.now.buckets()) {
                    if there == dead {
                        self.now.free(p, key, dead);
                    }
                }
                self.dead[colour] = false;
                self.closing = None;
            }
            _ => {}
        }
    }
}
