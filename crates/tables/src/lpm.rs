//! The control side of the longest-prefix match tables: what IPv4 and IPv6 share.

use crate::config::{LARGE, LpmConfig, Pages};
use crate::error::{RouteError, TableFull};
use crate::fallback::Fallback;
use crate::mem::Array;
use crate::rib::{Key, PrefixSet, Spot};
use crate::{MAX_VALUE, MISS};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Release;

/// Bits that the root of a table looks up.
pub(crate) const ROOT_BITS: u8 = 24;
/// Entries of the root.
pub(crate) const ROOT: usize = 1 << ROOT_BITS;
/// Marks an entry that leads to a lower part of the table.
pub(crate) const POINTER: u32 = 1 << 31;
/// Entries of the root in a page, the unit in which its memory is counted.
const PAGE: usize = 4096 / 4;

/// A change of one prefix longer than the short ones.
#[derive(Debug, Clone, Copy)]
pub struct Change<K> {
    pub(crate) key: K,
    pub(crate) len: u8,
    /// What holds now where no longer prefix does; 0 when that is a short one or none.
    pub(crate) value: u32,
}

/// The part of a table that differs between address families: how prefixes longer than the short ones are published.
#[doc(hidden)]
#[allow(private_interfaces)]
pub trait Engine: Sized {
    /// An address.
    type Key: Key;
    /// What knows the prefixes.
    type Rib: PrefixSet<Self::Key>;
    /// What workers read.
    type Shared;
    /// The table's name in errors.
    const NAME: &'static str;
    /// Prefixes up to this length are short.
    const SHORT: u8;

    /// An empty table.
    fn create(config: LpmConfig) -> std::io::Result<LpmWriter<Self>>;
    fn shared(&self) -> &Arc<Self::Shared>;
    fn root(&self) -> &Array<AtomicU32>;
    fn fallback(&self) -> &Fallback;
    fn advise_huge(&self);
    /// Bytes below the root.
    fn bytes(&self) -> usize;
    /// Bytes by which it may grow for an insert, and, if that is more than there can be, the most there can be.
    fn growth(&self, key: Self::Key, len: u8) -> (usize, Option<usize>);
    /// Publishes a prefix that is in the RIB.
    fn inserted(&mut self, rib: &Self::Rib, spot: Spot, change: Change<Self::Key>);
    /// Takes a prefix out of the RIB and publishes that.
    fn removed(&mut self, rib: &mut Self::Rib, spot: Spot, change: Change<Self::Key>);
    fn retire_epoch(&mut self, epoch: u64);
    fn reclaim(&mut self, safe: u64);
    fn retired(&self) -> usize;
}

/// Changes a longest-prefix match table. One thread owns it.
pub struct LpmWriter<E: Engine> {
    pub(crate) engine: E,
    rib: E::Rib,
    /// Short prefixes other than the default route.
    short: usize,
    /// Pages of the root that were written.
    pub(crate) touched: Vec<u64>,
    pages: usize,
    limit: usize,
    huge: Pages,
}

#[allow(private_bounds)]
impl<E: Engine> LpmWriter<E> {
    pub(crate) fn with(engine: E, config: LpmConfig) -> Self {
        let mut writer = LpmWriter {
            engine,
            rib: E::Rib::new(E::SHORT),
            short: 0,
            touched: vec![0; ROOT / PAGE / 64],
            pages: 0,
            limit: config.limit.unwrap_or(usize::MAX),
            huge: config.pages,
        };
        if writer.huge == Pages::Huge {
            writer.advise();
        }
        writer
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<E::Shared> {
        self.engine.shared()
    }

    /// Sets a route and answers the value it had. Bits of `addr` (host order) past `len` are ignored.
    pub fn insert(&mut self, addr: E::Key, len: u8, value: u32) -> Result<Option<u32>, RouteError> {
        if len > E::Key::WIDTH {
            return Err(RouteError::Length(len));
        }
        if value == MISS || value > MAX_VALUE {
            return Err(RouteError::Value(value));
        }
        let key = addr.first(len);
        self.check_room(key, len)?;
        if self.huge == Pages::Auto && self.rib.len() >= LARGE {
            self.advise();
        }
        let spot = self.rib.insert(key, len, value);
        if spot.old == value {
            return Ok(Some(value));
        }
        if len == 0 {
            self.engine.fallback().set_default(value);
        } else if len <= E::SHORT {
            self.short += usize::from(spot.old == MISS);
            self.paint_short(spot, key, len, value);
        } else {
            self.touch(key, len);
            self.engine.inserted(&self.rib, spot, Change { key, len, value });
        }
        Ok((spot.old != MISS).then_some(spot.old))
    }

    /// Takes out a route and answers its value.
    pub fn remove(&mut self, addr: E::Key, len: u8) -> Option<u32> {
        if len > E::Key::WIDTH {
            return None;
        }
        let key = addr.first(len);
        let spot = self.rib.find(key, len)?;
        if len == 0 {
            self.engine.fallback().set_default(MISS);
            self.rib.remove(key, len);
        } else if len <= E::SHORT {
            self.short -= 1;
            self.paint_short(spot, key, len, spot.cover);
            self.rib.remove(key, len);
        } else {
            self.engine.removed(&mut self.rib, spot, Change { key, len, value: spot.cover });
        }
        Some(spot.old)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, addr: E::Key, len: u8) -> Option<u32> {
        if len > E::Key::WIDTH {
            return None;
        }
        self.rib.value_of(addr.first(len), len)
    }

    /// All routes that hold the address as (prefix, length, value), the shortest first: the last is the one in use.
    pub fn covering(&self, addr: E::Key) -> impl Iterator<Item = (E::Key, u8, u32)> + '_ {
        self.rib.covering(addr)
    }

    /// All routes as (prefix, length, value), in order of address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (E::Key, u8, u32)> + '_ {
        self.rib.iter()
    }

    /// Those of [`Self::iter`] whose first address is not below `from`.
    pub fn iter_from(&self, from: E::Key) -> impl Iterator<Item = (E::Key, u8, u32)> + '_ {
        self.rib.iter_from(from)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.rib.len() == 0
    }

    /// Bytes in use, control side included; pages of the root count once they were written.
    pub fn bytes(&self) -> usize {
        self.lookup_bytes() + self.rib.bytes()
    }

    /// Of them, bytes that lookups read.
    pub fn lookup_bytes(&self) -> usize {
        self.pages * PAGE * 4 + self.engine.bytes()
    }

    /// Changes the most bytes the table may take; what is in it stays. Deletes, and changes of prefixes that cover
    /// many others, may take a little more for as long as what they replace waits for its epoch.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        self.engine.retire_epoch(epoch);
    }

    /// Makes what was taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        self.engine.reclaim(safe);
    }

    /// Parts of the table that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.engine.retired()
    }

    fn advise(&mut self) {
        self.engine.root().advise_huge();
        self.engine.advise_huge();
        self.huge = Pages::Small;
    }

    /// Refuses an insert that could need more than there is, before anything is changed.
    fn check_room(&self, key: E::Key, len: u8) -> Result<(), TableFull> {
        let (below, most) = if len > E::SHORT { self.engine.growth(key, len) } else { (0, None) };
        if self.limit == usize::MAX && most.is_none() {
            return Ok(());
        }
        let need = self.rib.growth(key, len) + below + self.new_pages(key, len) * PAGE * 4;
        let used = self.bytes();
        // A replacement takes nothing.
        if (most.is_none() && used.saturating_add(need) <= self.limit)
            || self.rib.value_of(key, len).is_some()
        {
            return Ok(());
        }
        Err(TableFull { table: E::NAME, used, limit: most.unwrap_or(self.limit) })
    }

    fn pages_of(key: E::Key, len: u8) -> RangeInclusive<usize> {
        key.slot(ROOT_BITS) as usize / PAGE..=key.last(len).slot(ROOT_BITS) as usize / PAGE
    }

    fn new_pages(&self, key: E::Key, len: u8) -> usize {
        if len <= E::SHORT {
            return 0;
        }
        Self::pages_of(key, len).filter(|p| self.touched[p / 64] >> (p % 64) & 1 == 0).count()
    }

    fn touch(&mut self, key: E::Key, len: u8) {
        for p in Self::pages_of(key, len) {
            let bit = 1 << (p % 64);
            self.pages += usize::from(self.touched[p / 64] & bit == 0);
            self.touched[p / 64] |= bit;
        }
    }

    /// A short prefix has this value now where no longer short one holds.
    fn paint_short(&self, spot: Spot, key: E::Key, len: u8, value: u32) {
        self.engine.fallback().change_short(self.short > 0, |entries| {
            self.rib.gaps(spot, key, len, |lo, hi| {
                let (lo, hi) = (lo.slot(E::SHORT) as usize, hi.slot(E::SHORT) as usize);
                for e in entries.get(lo..=hi).unwrap_or_default() {
                    e.store(value, Release);
                }
            });
        });
    }
}
