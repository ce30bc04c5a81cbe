//! What a worker does with the source address of a frame.

use super::table::{Put, Table};
use super::{Entry, MacReader, MacTable, key_bridge};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The most addresses that may be learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In the bridge domain.
    pub bridge: u32,
    /// On the port.
    pub port: u32,
}

/// What became of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// It was known; it has the time of the frame now.
    Known,
    /// It is new.
    New,
    /// It was on another port.
    Moved,
    /// It belongs to another port for good, or its frames are dropped.
    Fixed(Entry),
    /// The table has as many learned addresses as it may.
    TableLimit,
    /// The bridge domain has.
    BridgeLimit,
    /// The port has.
    PortLimit,
    /// There is no room near its place until the table has grown.
    NoRoom,
    /// Another worker is at it: the next frame will do.
    Busy,
}

/// Tries against other workers that change the same entry.
const TRIES: usize = 4;

/// Adds one unless that would be more than `limit`.
fn take(count: &AtomicU32, limit: u32) -> bool {
    // Looked at first: a flood of addresses beyond the limit writes nothing that workers share.
    if count.load(Relaxed) >= limit {
        return false;
    }
    if count.fetch_add(1, Relaxed) < limit {
        return true;
    }
    count.fetch_sub(1, Relaxed);
    false
}

impl MacTable {
    fn of_bridge(&self, key: u64) -> &AtomicU32 {
        &self.by_bridge[usize::from(key_bridge(key)) % super::OBJECTS]
    }

    fn of_port(&self, entry: Entry) -> &AtomicU32 {
        &self.by_port[entry.port() as usize % super::OBJECTS]
    }

    /// Counts a new learned entry, within the limits.
    fn count(&self, key: u64, entry: Entry, limits: Limits) -> Result<(), Learnt> {
        let (bridge, port) = (self.of_bridge(key), self.of_port(entry));
        if !take(port, limits.port) {
            return Err(Learnt::PortLimit);
        }
        if !take(bridge, limits.bridge) {
            port.fetch_sub(1, Relaxed);
            return Err(Learnt::BridgeLimit);
        }
        if !take(&self.learned, self.limit.load(Relaxed)) {
            port.fetch_sub(1, Relaxed);
            bridge.fetch_sub(1, Relaxed);
            return Err(Learnt::TableLimit);
        }
        Ok(())
    }

    /// An entry that was there is none any more.
    pub(super) fn uncount(&self, key: u64, entry: Entry) {
        if entry.is_live() && !entry.is_static() {
            self.of_port(entry).fetch_sub(1, Relaxed);
            self.of_bridge(key).fetch_sub(1, Relaxed);
            self.learned.fetch_sub(1, Relaxed);
        }
    }

    /// A learned entry changed its port; false when the new one has its limit.
    fn recount(&self, from: Entry, to: Entry, limit: u32) -> bool {
        if !take(self.of_port(to), limit) {
            return false;
        }
        self.of_port(from).fetch_sub(1, Relaxed);
        true
    }
}

impl MacReader<'_> {
    /// Notes that a frame came from the address of `key` on the port and at the time of `seen`.
    pub fn learn(&self, key: u64, seen: Entry, limits: Limits) -> Learnt {
        match self.now.place(key) {
            Some((_, there)) if !there.is_live() && !there.is_dead() => Learnt::Busy,
            Some(_) => self.renew(self.now, key, seen, limits),
            None => {
                if let Some(old) = self.old
                    && let Some(answer) = self.fetch(old, key, seen, limits)
                {
                    return answer;
                }
                self.add(key, seen, limits)
            }
        }
    }

    /// A key that has a place.
    fn renew(&self, table: &Table, key: u64, seen: Entry, limits: Limits) -> Learnt {
        let shared = self.shared;
        for _ in 0..TRIES {
            let Some((place, there)) = table.place(key) else { return Learnt::Busy };
            if there.is_settled(seen) {
                return Learnt::Known;
            }
            if there.is_static() {
                return Learnt::Fixed(there);
            }
            if there.is_dead() {
                if let Err(why) = shared.count(key, seen, limits) {
                    return why;
                }
                if table.change(place, there, seen).is_ok() {
                    return Learnt::New;
                }
                shared.uncount(key, seen);
                continue;
            }
            if !there.is_live() {
                return Learnt::Busy;
            }
            let moves = there.port() != seen.port();
            if moves && !shared.recount(there, seen, limits.port) {
                return Learnt::PortLimit;
            }
            if table.change(place, there, seen).is_ok() {
                return if moves { Learnt::Moved } else { Learnt::Known };
            }
            if moves {
                shared.recount(seen, there, u32::MAX);
            }
        }
        Learnt::Busy
    }

    /// Brings an entry over from the old table; `None` when it has none.
    #[cold]
    fn fetch(&self, old: &Table, key: u64, seen: Entry, limits: Limits) -> Option<Learnt> {
        let (place, there) = old.place(key).filter(|(_, e)| e.is_live())?;
        if there.is_static() {
            return Some(if there.is_settled(seen) { Learnt::Known } else { Learnt::Fixed(there) });
        }
        // Whoever makes it dead moves it, and it stays counted.
        if old.change(place, there, Entry::DEAD[0]).is_err() {
            return Some(Learnt::Busy);
        }
        let moves = there.port() != seen.port();
        let entry = if moves && !self.shared.recount(there, seen, limits.port) { there } else { seen };
        if self.now.put(key, entry) != Put::Done {
            self.shared.uncount(key, entry);
            return Some(Learnt::NoRoom);
        }
        Some(match (moves, entry == seen) {
            (false, _) => Learnt::Known,
            (true, true) => Learnt::Moved,
            (true, false) => Learnt::PortLimit,
        })
    }

    fn add(&self, key: u64, seen: Entry, limits: Limits) -> Learnt {
        if self.old.is_some_and(|old| !self.now.has_room_beside(old)) {
            return Learnt::NoRoom;
        }
        if let Err(why) = self.shared.count(key, seen, limits) {
            return why;
        }
        match self.now.put(key, seen) {
            Put::Done => return Learnt::New,
            Put::There => self.shared.uncount(key, seen),
            Put::Full => {
                self.shared.uncount(key, seen);
                return Learnt::NoRoom;
            }
        }
        Learnt::Busy
    }

    /// True, once, when the control side should make the table bigger.
    pub fn wants_room(&self) -> bool {
        let asked = &self.shared.asked;
        self.now.is_filled() && !asked.load(Relaxed) && !asked.swap(true, Relaxed)
    }
}
