//! The control side of the IPv4 table.

use super::Lpm4;
use crate::config::{LARGE, LpmConfig, Pages};
use crate::error::{RouteError, TableFull};
use crate::flat::{BLOCK, POINTER, ROOT};
use crate::retire::Retired;
use crate::rib::{Key, Rib};
use crate::{MAX_VALUE, MISS};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Entries of the root in a page, the unit in which its memory is counted.
const PAGE: usize = 4096 / 4;

/// Changes an IPv4 table. One thread owns it.
pub struct Lpm4Writer {
    shared: Arc<Lpm4>,
    rib: Rib<u32>,
    /// How many prefixes longer than 24 bits each block holds.
    pub(super) inside: Vec<u16>,
    pub(super) free: Vec<u32>,
    retired: Retired<u32>,
    /// Pages of the root that were written.
    pub(super) touched: Vec<u64>,
    pages: usize,
    limit: usize,
    huge: Pages,
}

impl Lpm4Writer {
    pub(super) fn new(shared: Arc<Lpm4>, config: LpmConfig) -> Self {
        let mut writer = Lpm4Writer {
            shared,
            rib: Rib::new(),
            inside: Vec::new(),
            free: Vec::new(),
            retired: Retired::new(),
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
    pub fn shared(&self) -> &Arc<Lpm4> {
        &self.shared
    }

    /// Sets a route and answers the value it had. Bits of `addr` (host order) past `len` are ignored.
    pub fn insert(&mut self, addr: u32, len: u8, value: u32) -> Result<Option<u32>, RouteError> {
        if len > 32 {
            return Err(RouteError::Length(len));
        }
        if value == MISS || value > MAX_VALUE {
            return Err(RouteError::Value(value));
        }
        let key = addr.first(len);
        if self.limit != usize::MAX || len > 24 {
            self.check_room(key, len)?;
        }
        if self.huge == Pages::Auto && self.rib.len() >= LARGE {
            self.advise();
        }
        let spot = self.rib.insert(key, len, value);
        if spot.old == value {
            return Ok(Some(value));
        }
        if len == 0 {
            self.shared.default.set(value);
        } else if len <= 24 {
            self.touch(key, len);
            self.paint_gaps(spot.node, value);
        } else {
            match self.block_of(key) {
                Some(_) => self.paint_gaps(spot.node, value),
                None => self.new_block(key, len, value),
            }
            if spot.old == 0 {
                let root = self.shared.root[(key >> 8) as usize].load(Relaxed);
                self.inside[(root & !POINTER) as usize] += 1;
            }
        }
        Ok((spot.old != 0).then_some(spot.old))
    }

    /// Takes out a route and answers its value. Never needs memory.
    pub fn remove(&mut self, addr: u32, len: u8) -> Option<u32> {
        if len > 32 {
            return None;
        }
        let key = addr.first(len);
        let spot = self.rib.find(key, len)?;
        if len == 0 {
            self.shared.default.set(MISS);
        } else {
            self.paint_gaps(spot.node, spot.cover);
        }
        self.rib.remove(key, len);
        if len > 24
            && let Some(b) = self.block_of(key)
        {
            self.inside[b as usize] -= 1;
            if self.inside[b as usize] == 0 {
                // Nothing longer than 24 bits is left, so that all 256 entries equal the cover.
                self.shared.root[(key >> 8) as usize].store(spot.cover, Release);
                self.retired.push(b);
            }
        }
        Some(spot.old)
    }

    /// The value of exactly this prefix.
    pub fn get(&self, addr: u32, len: u8) -> Option<u32> {
        if len > 32 {
            return None;
        }
        self.rib.find(addr.first(len), len).map(|s| s.old)
    }

    /// All routes that hold the address as (prefix, length, value), the shortest first: the last is the one in use.
    pub fn covering(&self, addr: u32) -> impl Iterator<Item = (u32, u8, u32)> + '_ {
        self.rib.covering(addr)
    }

    /// All routes as (prefix, length, value), in order of address, then length.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u8, u32)> + '_ {
        self.rib.iter()
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
        self.pages * PAGE * 4 + self.inside.len() * (BLOCK * 4 + 2) + self.rib.bytes()
    }

    /// Changes the most bytes the table may take; what is in it stays.
    pub fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit.unwrap_or(usize::MAX);
    }

    /// Epoch stamped on what is taken out from now on.
    pub fn retire_epoch(&mut self, epoch: u64) {
        self.retired.set_epoch(epoch);
    }

    /// Makes blocks taken out before epoch `safe` usable again; all workers must have passed it.
    pub fn reclaim(&mut self, safe: u64) {
        while let Some(b) = self.retired.pop(safe) {
            self.free.push(b);
        }
    }

    /// Blocks that wait for their epoch.
    pub fn retired(&self) -> usize {
        self.retired.len()
    }

    fn advise(&mut self) {
        self.shared.root.advise_huge();
        self.shared.blocks.advise_huge();
        self.huge = Pages::Small;
    }

    fn block_of(&self, key: u32) -> Option<u32> {
        let e = self.shared.root[(key >> 8) as usize].load(Relaxed);
        (e & POINTER != 0).then_some(e & !POINTER)
    }

    /// Refuses an insert that could need more than there is, before anything is changed.
    fn check_room(&self, key: u32, len: u8) -> Result<(), TableFull> {
        let block = len > 24 && self.free.is_empty() && self.block_of(key).is_none();
        let blocks = self.shared.blocks.len() / BLOCK;
        let mut need = self.rib.growth() + self.new_pages(key, len) * PAGE * 4;
        need += usize::from(block) * (BLOCK * 4 + 2);
        let used = self.bytes();
        let lacks_block = block && self.inside.len() == blocks;
        if !lacks_block && used.saturating_add(need) <= self.limit {
            return Ok(());
        }
        // A replacement takes nothing.
        if self.rib.find(key, len).is_some() {
            return Ok(());
        }
        let limit = if lacks_block { used } else { self.limit };
        Err(TableFull { table: "IPv4 routes", used, limit })
    }

    fn pages_of(key: u32, len: u8) -> std::ops::RangeInclusive<usize> {
        (key >> 8) as usize / PAGE..=(key.last(len) >> 8) as usize / PAGE
    }

    fn new_pages(&self, key: u32, len: u8) -> usize {
        if len == 0 {
            return 0;
        }
        Self::pages_of(key, len).filter(|p| self.touched[p / 64] >> (p % 64) & 1 == 0).count()
    }

    fn touch(&mut self, key: u32, len: u8) {
        for p in Self::pages_of(key, len) {
            let bit = 1 << (p % 64);
            self.pages += usize::from(self.touched[p / 64] & bit == 0);
            self.touched[p / 64] |= bit;
        }
    }

    fn paint_gaps(&self, node: u32, value: u32) {
        self.rib.gaps(node, |lo, hi| self.paint(lo, hi, value));
    }

    /// Stores `value` for the addresses from `lo` to `hi`, which no block holds but at the ends.
    fn paint(&self, lo: u32, hi: u32, value: u32) {
        let (mut first, mut last) = ((lo >> 8) as usize, (hi >> 8) as usize);
        let (from, to) = ((lo & 0xff) as usize, (hi & 0xff) as usize);
        if first == last && (from != 0 || to != 0xff) {
            return self.paint_block(first, from, to, value);
        }
        if from != 0 {
            self.paint_block(first, from, 0xff, value);
            first += 1;
        }
        if to != 0xff {
            self.paint_block(last, 0, to, value);
            last -= 1;
        }
        for e in self.shared.root.get(first..=last).unwrap_or_default() {
            e.store(value, Release);
        }
    }

    fn paint_block(&self, slot: usize, from: usize, to: usize, value: u32) {
        let e = self.shared.root[slot].load(Relaxed);
        debug_assert!(e & POINTER != 0, "a part of a slot without a block");
        let base = (e & !POINTER) as usize * BLOCK;
        for e in &self.shared.blocks[base + from..=base + to] {
            e.store(value, Release);
        }
    }

    /// Makes the block for a slot whose first prefix longer than 24 bits this is.
    fn new_block(&mut self, key: u32, len: u8, value: u32) {
        let b = self.free.pop().unwrap_or_else(|| {
            self.inside.push(0);
            self.inside.len() as u32 - 1
        });
        self.touch(key, len);
        let slot = &self.shared.root[(key >> 8) as usize];
        let cover = slot.load(Relaxed);
        let base = b as usize * BLOCK;
        let own = (key & 0xff) as usize..=(key.last(len) & 0xff) as usize;
        for (i, e) in self.shared.blocks[base..base + BLOCK].iter().enumerate() {
            e.store(if own.contains(&i) { value } else { cover }, Relaxed);
        }
        slot.store(POINTER | b, Release);
    }
}
