//! The three kinds of nodes, as pointers name them and as the writer fills and reads them.

use super::{ARRAY_LINES, LINE, POINTER};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// Most runs of a node of runs.
pub(super) const RUNS: usize = 11;
/// The word of its first entry, after the starts.
pub(super) const ENTRIES: usize = 5;

/// Words of a skip: a prefix and its mask as 16 bytes each, the entry outside of the prefix, the one inside.
pub(super) const MASK: usize = 4;
pub(super) const OUTSIDE: usize = 8;
pub(super) const INSIDE: usize = 9;

/// The top bits of a pointer to an array; below them, in which byte of the address it looks (4 bits), and its
/// number, counted in arrays (23 bits and room for more).
pub(super) const ARRAY: u32 = 0b11 << 30;
/// The top bits of a pointer to runs; below them, in which 16-bit word of the address they look (3 bits), and the line.
pub(super) const RUNS_BIT: u32 = 1 << 29;
pub(super) const AT: u32 = 26;
pub(super) const PLACE: u32 = (1 << AT) - 1;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Value,
    Skip,
    Runs,
    Array,
}

pub(super) fn kind(entry: u32) -> Kind {
    match entry >> 29 {
        0b110.. => Kind::Array,
        0b101 => Kind::Runs,
        0b100 => Kind::Skip,
        _ => Kind::Value,
    }
}

pub(super) fn skip(line: u32) -> u32 {
    POINTER | line
}

/// Runs of the window that starts after `bits` bits.
pub(super) fn runs(bits: u8, line: u32) -> u32 {
    POINTER | RUNS_BIT | u32::from(bits / 16) << AT | line
}

/// An array for the 8 bits after `bits` bits.
pub(super) fn array(bits: u8, line: u32) -> u32 {
    ARRAY | u32::from(bits / 8) << AT | (line / ARRAY_LINES as u32)
}

/// How many bits stand before those that an array looks at.
pub(super) fn array_bits(pointer: u32) -> u8 {
    (pointer >> AT & 15) as u8 * 8
}

/// The first word of a node.
pub(super) fn word(pointer: u32) -> usize {
    let place = (pointer & PLACE) as usize * LINE;
    if kind(pointer) == Kind::Array { place * ARRAY_LINES } else { place }
}

/// The words of runs that start as said; the first starts at 0 in any case. Unused starts are the last number with the last
/// run's entry, which is right for that place too.
pub(super) fn runs_words(runs: &[(u16, u32)]) -> [u32; LINE] {
    let mut words = [0; LINE];
    let last = runs.last().map_or(0, |r| r.1);
    for i in 0..RUNS {
        let (start, entry) = runs.get(i).copied().unwrap_or((u16::MAX, last));
        words[ENTRIES + i] = entry;
        if i > 0 {
            words[(i - 1) / 2] |= u32::from(start) << ((i - 1) % 2 * 16);
        }
    }
    words
}

/// The runs in a line, and how many there are: of a window, or of the 256 slots from `first` on.
pub(super) fn runs_of(line: &[AtomicU32], first: u16, half: bool) -> ([(u16, u32); RUNS], usize) {
    let mut runs = [(first, line[ENTRIES].load(Relaxed)); RUNS];
    let last = if half { first | 0xff } else { u16::MAX };
    let mut n = 1;
    for i in 1..RUNS {
        let start = (line[(i - 1) / 2].load(Relaxed) >> ((i - 1) % 2 * 16)) as u16;
        let entry = line[ENTRIES + i].load(Relaxed);
        let (before, same) = runs[n - 1];
        // Places that no run uses.
        if start <= before || start > last || entry == same {
            continue;
        }
        runs[n] = (start, entry);
        n += 1;
    }
    (runs, n)
}

/// The words of a skip.
pub(super) fn skip_words(prefix: u128, mask: u128, outside: u32, inside: u32) -> [u32; LINE] {
    let mut words = [0; LINE];
    for (at, number) in [(0, prefix), (MASK, mask)] {
        for (w, b) in words[at..at + 4].iter_mut().zip(number.to_be_bytes().chunks_exact(4)) {
            *w = u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        }
    }
    words[OUTSIDE] = outside;
    words[INSIDE] = inside;
    words
}

/// The prefix and the mask of a skip.
pub(super) fn skip_prefix(line: &[AtomicU32]) -> (u128, u128) {
    let number = |at: usize| {
        let mut bytes = [0; 16];
        for (b, w) in bytes.chunks_exact_mut(4).zip(&line[at..at + 4]) {
            b.copy_from_slice(&w.load(Relaxed).to_ne_bytes());
        }
        u128::from_be_bytes(bytes)
    };
    (number(0), number(MASK))
}

/// The word of the entry for 16 bits in a line of runs.
pub(super) fn run_of(line: &[AtomicU32], bits: u16) -> usize {
    let start = |run: usize| (line[(run - 1) / 2].load(Relaxed) >> ((run - 1) % 2 * 16)) as u16;
    ENTRIES + (1..RUNS).filter(|&run| start(run) <= bits).count()
}

/// The word of the entry for an address in a skip.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
pub(super) fn skip_of(line: &[AtomicU32], address: u128) -> usize {
    let (prefix, mask) = skip_prefix(line);
    if address & mask == prefix { INSIDE } else { OUTSIDE }
}

/// Stores words that differ in order, each at once.
pub(super) fn store(words: &[AtomicU32], new: &[u32]) {
    for (w, &n) in words.iter().zip(new) {
        if w.load(Relaxed) != n {
            w.store(n, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn runs_hold_what_went_in(cuts in prop::collection::btree_map(1..=u16::MAX, 1u32..5, 0..RUNS)) {
            let mut runs = vec![(0, 9)];
            runs.extend(cuts.iter().map(|(&at, &value)| (at, value)));
            let line = runs_words(&runs).map(AtomicU32::new);
            let (again, n) = runs_of(&line, 0, false);
            let mut merged = runs.clone();
            merged.dedup_by_key(|r| r.1);
            prop_assert_eq!(&again[..n], &merged[..]);
            for probe in cuts.keys().flat_map(|&c| [c - 1, c, c.saturating_add(1)]).chain([0, u16::MAX]) {
                let want = runs.iter().rfind(|r| r.0 <= probe).unwrap().1;
                prop_assert_eq!(line[run_of(&line, probe)].load(Relaxed), want, "{}", probe);
            }
        }

        #[test]
        fn skips_tell_inside_from_outside(address in any::<u128>(), len in 17u32..=128, flip in 0u32..128) {
            let mask = u128::MAX << (128 - len);
            let line = skip_words(address & mask, mask, 3, 4).map(AtomicU32::new);
            prop_assert_eq!(skip_prefix(&line), (address & mask, mask));
            prop_assert_eq!(skip_of(&line, address), INSIDE);
            let other = skip_of(&line, address ^ 1 << (127 - flip));
            prop_assert_eq!(other, if flip < len { OUTSIDE } else { INSIDE });
        }
    }

    #[test]
    fn pointers_name_kind_and_place() {
        for line in [0, 16, (1 << 26) - 16] {
            assert_eq!((kind(skip(line)), word(skip(line))), (Kind::Skip, line as usize * LINE));
            for bits in (16..=112).step_by(16) {
                assert_eq!(
                    (kind(runs(bits, line)), word(runs(bits, line))),
                    (Kind::Runs, line as usize * LINE)
                );
            }
            for bits in (24..=120).step_by(8) {
                let p = array(bits, line);
                assert_eq!((kind(p), word(p), array_bits(p)), (Kind::Array, line as usize * LINE, bits));
            }
        }
        assert_eq!((kind(0), kind(crate::MAX_VALUE)), (Kind::Value, Kind::Value));
    }
}
