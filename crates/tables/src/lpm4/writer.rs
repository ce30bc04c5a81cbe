//! How prefixes longer than the short ones get into the IPv4 table.

use super::{BLOCK, FAR, Lpm4, POINTER};
use crate::config::LpmConfig;
use crate::fallback::Fallback;
use crate::lpm::{Change, Engine, LpmWriter};
use crate::mem::Array;
use crate::retire::Retired;
use crate::rib::{Key, PrefixSet, Spot};
use crate::rib4::Rib4;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Fills the root and the blocks.
#[doc(hidden)]
pub struct Blocks {
    shared: Arc<Lpm4>,
    /// How many prefixes longer than 24 bits each block holds.
    pub(super) inside: Vec<u16>,
    pub(super) free: Vec<u32>,
    retired: Retired<u32>,
    pub(super) prefixes: usize,
}

#[allow(private_interfaces)]
impl Engine for Blocks {
    type Key = u32;
    type Rib = Rib4;
    type Shared = Lpm4;
    const NAME: &'static str = "IPv4 routes";
    /// 151 of the Internet's prefixes are as short; they hold few of the keys, and the array fits in L1.
    const SHORT: u8 = 12;

    fn create(config: LpmConfig) -> std::io::Result<LpmWriter<Self>> {
        Lpm4::new(config).map(|(writer, _)| writer)
    }

    fn shared(&self) -> &Arc<Lpm4> {
        &self.shared
    }

    fn root(&self) -> &Array<AtomicU32> {
        &self.shared.root
    }

    fn fallback(&self) -> &Fallback {
        &self.shared.fallback
    }

    fn advise_huge(&self) {
        self.shared.blocks.advise_huge();
    }

    fn bytes(&self) -> usize {
        self.inside.len() * (BLOCK * 4 + 2)
    }

    fn growth(&self, key: u32, len: u8) -> (usize, Option<usize>) {
        if len <= 24 || !self.free.is_empty() || self.block_of(key).is_some() {
            return (0, None);
        }
        let most = self.shared.blocks.len() / BLOCK;
        (BLOCK * 4 + 2, (self.inside.len() >= most).then_some(most * BLOCK * 4))
    }

    fn inserted(&mut self, rib: &Rib4, spot: Spot, change: Change<u32>) {
        self.count(self.prefixes + usize::from(spot.old == 0));
        let slot = (change.key >> 8) as usize;
        if change.len > 24 && self.block_of(change.key).is_none() {
            self.new_block(change);
        } else {
            rib.gaps(spot, change.key, change.len, |lo, hi| self.paint(lo, hi, change.value));
        }
        if change.len > 24 && spot.old == 0 {
            let root = self.shared.root[slot].load(Relaxed);
            self.inside[(root & !POINTER) as usize] += 1;
        }
    }

    fn removed(&mut self, rib: &mut Rib4, spot: Spot, change: Change<u32>) {
        self.count(self.prefixes - 1);
        rib.gaps(spot, change.key, change.len, |lo, hi| self.paint(lo, hi, change.value));
        rib.remove(change.key, change.len);
        if change.len > 24
            && let Some(b) = self.block_of(change.key)
        {
            self.inside[b as usize] -= 1;
            if self.inside[b as usize] == 0 {
                // Nothing longer than 24 bits is left, so that all 256 entries equal the cover.
                self.shared.root[(change.key >> 8) as usize].store(change.value, Release);
                self.retired.push(b);
            }
        }
    }

    fn retire_epoch(&mut self, epoch: u64) {
        self.retired.set_epoch(epoch);
    }

    fn reclaim(&mut self, safe: u64) {
        while let Some(b) = self.retired.pop(safe) {
            self.free.push(b);
        }
    }

    fn retired(&self) -> usize {
        self.retired.len()
    }
}

impl Blocks {
    pub(super) fn new(shared: Arc<Lpm4>) -> Self {
        Blocks { shared, inside: Vec::new(), free: Vec::new(), retired: Retired::new(), prefixes: 0 }
    }

    fn count(&mut self, prefixes: usize) {
        self.prefixes = prefixes;
        let far = prefixes > FAR;
        if self.shared.far.load(Relaxed) != far {
            self.shared.far.store(far, Relaxed);
        }
    }

    fn block_of(&self, key: u32) -> Option<u32> {
        let e = self.shared.root[(key >> 8) as usize].load(Relaxed);
        (e & POINTER != 0).then_some(e & !POINTER)
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
    fn new_block(&mut self, change: Change<u32>) {
        let b = self.free.pop().unwrap_or_else(|| {
            self.inside.push(0);
            self.inside.len() as u32 - 1
        });
        let Change { key, len, value } = change;
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
