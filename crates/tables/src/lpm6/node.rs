//! The two forms of a node, as the writer fills and reads them.

use super::{LINE, POINTER};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// All entries of a node.
pub(super) type Entries = [u32; 256];

/// Most runs of a small node.
pub(super) const RUNS: usize = 13;
/// Words of a small node in front of its entries: where runs after the first start, a byte each.
pub(super) const STARTS: usize = 3;

/// Where runs of equal entries start.
pub(super) struct Runs {
    starts: [u8; RUNS],
    pub(super) count: usize,
}

impl Runs {
    /// Counts all runs; starts beyond the thirteenth are not kept.
    pub(super) fn of(entries: &Entries) -> Runs {
        let mut runs = Runs { starts: [0xff; RUNS], count: 1 };
        runs.starts[0] = 0;
        for i in 1..256 {
            if entries[i] != entries[i - 1] {
                if let Some(s) = runs.starts.get_mut(runs.count) {
                    *s = i as u8;
                }
                runs.count += 1;
            }
        }
        runs
    }

    /// The words of a small node. Unused starts are 255 with the last run's entry, which is right for that place too.
    pub(super) fn words(&self, entries: &Entries) -> [u32; LINE] {
        let mut words = [0; LINE];
        for (i, s) in self.starts[1..].chunks_exact(4).enumerate() {
            words[i] = u32::from_le_bytes([s[0], s[1], s[2], s[3]]);
        }
        for (i, w) in words[STARTS..].iter_mut().enumerate() {
            *w = entries[self.starts[i] as usize];
        }
        words
    }
}

/// The entries of a small node.
pub(super) fn expand(line: &[AtomicU32]) -> Entries {
    let mut entries = [0; 256];
    let mut start = 0;
    for run in 0..RUNS {
        // Unused starts are 255, all with the entry that is right there.
        let end = if run + 1 < RUNS { start_of(line, run + 1) as usize } else { 256 };
        entries[start..end.max(start)].fill(line[STARTS + run].load(Relaxed));
        start = end;
    }
    entries
}

fn start_of(line: &[AtomicU32], run: usize) -> u8 {
    line[(run - 1) / 4].load(Relaxed).to_le_bytes()[(run - 1) % 4]
}

/// The entry for a byte in a small node, as a reader finds it.
pub(super) fn run_of(line: &[AtomicU32], byte: u8) -> usize {
    (1..RUNS).filter(|&run| start_of(line, run) <= byte).count()
}

/// Stores words that differ in order, each at once.
pub(super) fn store(words: &[AtomicU32], new: &[u32]) {
    for (w, &n) in words.iter().zip(new) {
        if w.load(Relaxed) != n {
            w.store(n, Release);
        }
    }
}

/// The first line of a node.
pub(super) fn line_of(pointer: u32) -> usize {
    (pointer & !(POINTER | super::FULL)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn small_nodes_hold_what_went_in(cuts in prop::collection::vec((any::<u8>(), 0u32..5), 0..12), last in any::<bool>()) {
            let mut entries = [9; 256];
            for (at, value) in cuts {
                entries[at as usize..].fill(value);
            }
            if last {
                entries[255] = 77;
            }
            let runs = Runs::of(&entries);
            prop_assert!(runs.count <= RUNS);
            let line: Vec<AtomicU32> = runs.words(&entries).map(AtomicU32::new).into();
            prop_assert_eq!(expand(&line), entries);
            for b in 0..=255u8 {
                prop_assert_eq!(line[STARTS + run_of(&line, b)].load(Relaxed), entries[b as usize]);
            }
        }
    }
}
