//! Label tables: one word for each of the 2^20 MPLS labels, at the bottom of its stack and above it.
//!
//! Memory is used page by page as labels are set, so that a table of a few labels is small and one of a million is an
//! array access a packet.

use crate::groups::GroupId;
use crate::mem::{Array, prefetch};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Labels of one table.
pub const LABELS: u32 = if cfg!(miri) { 1 << 8 } else { 1 << 20 };
/// Entries of one table: two a label.
pub const ENTRIES: u32 = 2 * LABELS;

/// What a label leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelEntry {
    /// The next-hop group, or none: there is no entry.
    pub group: GroupId,
    /// A word for the user of the table: what to put in the label's place, where the group does not say it.
    pub swap: u32,
}

impl LabelEntry {
    #[inline(always)]
    fn unpack(word: u64) -> Self {
        LabelEntry { group: GroupId((word >> 32) as u32), swap: word as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.group.0) << 32 | u64::from(self.swap)
    }
}

/// Where a label stands in a table.
#[inline(always)]
pub const fn key(label: u32, bottom: bool) -> u32 {
    label << 1 | bottom as u32
}

/// A table as workers see it.
pub struct Labels {
    words: Array<AtomicU64>,
}

impl Labels {
    /// An empty table.
    ///
    /// # Errors
    /// The system has not the address space (16 MiB).
    pub fn new() -> io::Result<(LabelsWriter, Arc<Labels>)> {
        let shared = Arc::new(Labels { words: Array::reserve(ENTRIES as usize)? });
        Ok((
            LabelsWriter { shared: Arc::clone(&shared), set: vec![0; ENTRIES as usize / 64], len: 0 },
            shared,
        ))
    }

    /// The entry of a key; the empty one where there is none.
    #[inline(always)]
    pub fn get(&self, key: u32) -> LabelEntry {
        LabelEntry::unpack(self.words.get(key as usize).map_or(0, |w| w.load(Acquire)))
    }

    /// Brings the entry of a key near.
    #[inline(always)]
    pub fn prefetch(&self, key: u32) {
        prefetch(&self.words, key as usize);
    }
}

/// Changes a table. One thread owns it.
pub struct LabelsWriter {
    shared: Arc<Labels>,
    /// One bit an entry that is set: so that going through few labels does not touch the whole array.
    set: Vec<u64>,
    len: usize,
}

impl LabelsWriter {
    /// The entry of a key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<LabelEntry> {
        Some(self.shared.get(key)).filter(|e| e.group != GroupId::NONE)
    }

    /// Sets the entry of a key, or removes it, and answers what was there. Nothing happens beyond the last key.
    pub fn set(&mut self, key: u32, entry: Option<LabelEntry>) -> Option<LabelEntry> {
        let word = self.shared.words.get(key as usize)?;
        let old = LabelEntry::unpack(word.load(Relaxed));
        let new = entry.filter(|e| e.group != GroupId::NONE);
        word.store(new.map_or(0, LabelEntry::pack), Release);
        let (at, bit) = (key as usize / 64, 1 << (key % 64));
        match (old.group != GroupId::NONE, new.is_some()) {
            (false, true) => {
                self.set[at] |= bit;
                self.len += 1;
            }
            (true, false) => {
                self.set[at] &= !bit;
                self.len -= 1;
            }
            _ => {}
        }
        (old.group != GroupId::NONE).then_some(old)
    }

    /// All entries from a key on, in order.
    pub fn iter_from(&self, from: u32) -> impl Iterator<Item = (u32, LabelEntry)> + '_ {
        let first = from as usize / 64;
        let words = self.set.get(first..).unwrap_or_default().iter().enumerate();
        words
            .flat_map(move |(n, word)| {
                let base = (first + n) as u32 * 64;
                let mut left = if base < from { word & (u64::MAX << (from - base)) } else { *word };
                std::iter::from_fn(move || {
                    let bit = left.trailing_zeros();
                    left &= left.wrapping_sub(1);
                    (bit < 64).then_some(base + bit)
                })
            })
            .map(|key| (key, self.shared.get(key)))
    }

    /// How many entries are set.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What workers read.
    pub fn shared(&self) -> &Arc<Labels> {
        &self.shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]
        #[test]
        fn behaves_as_a_map(
            steps in prop::collection::vec((prop_oneof![0..200u32, ENTRIES - 100..ENTRIES + 2], 0..4u32, any::<u32>()), 1..300),
            from in 0..200u32,
        ) {
            let (mut w, shared) = Labels::new().unwrap();
            let mut model: BTreeMap<u32, LabelEntry> = BTreeMap::new();
            for (key, group, swap) in steps {
                let entry = LabelEntry { group: GroupId(group), swap };
                let new = (group != 0).then_some(entry);
                let old = match new.filter(|_| key < ENTRIES) {
                    Some(e) => model.insert(key, e),
                    None => model.remove(&key),
                };
                prop_assert_eq!(w.set(key, new), old);
                prop_assert_eq!(w.get(key), model.get(&key).copied());
                prop_assert_eq!(shared.get(key), model.get(&key).copied().unwrap_or_default());
                prop_assert_eq!(w.len(), model.len());
            }
            let all: Vec<_> = w.iter_from(from).collect();
            let want: Vec<_> = model.range(from..).map(|(p, e)| (*p, *e)).collect();
            prop_assert_eq!(all, want);
        }
    }

    #[test]
    fn each_label_has_two_keys() {
        assert_eq!((key(0, false), key(0, true), key(LABELS - 1, true)), (0, 1, ENTRIES - 1));
        let (w, shared) = Labels::new().unwrap();
        assert!(w.is_empty());
        shared.prefetch(u32::MAX);
        assert_eq!(shared.get(ENTRIES), LabelEntry::default());
    }
}
