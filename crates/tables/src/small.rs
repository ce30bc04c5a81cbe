//! Longest-prefix match over few prefixes: the boundaries of ranges in order, with the value that holds from each on.
//!
//! A router with thousands of routing tables has mostly small ones. Such a table takes some cache lines instead of pages
//! of its own. It is never changed in place: a change makes a new one. Up to [`RANGES`](crate::head::RANGES) ranges are not
//! searched at all, but counted through by the table's [head](crate::head).

use crate::rib::Key;

/// Few prefixes as workers see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallTable<K> {
    /// Where ranges start, in order; the first is 0.
    pub(crate) starts: Box<[K]>,
    /// The value of each range.
    pub(crate) values: Box<[u32]>,
}

impl<K: Key> SmallTable<K> {
    /// The ranges of routes (prefix, length, value) in order of prefix and then length.
    pub(crate) fn new(routes: impl IntoIterator<Item = (K, u8, u32)>) -> Self {
        let (mut starts, mut values) = (vec![K::ZERO], vec![0]);
        // Prefixes over the place that is worked on: last address and value.
        let mut open: Vec<(K, u32)> = vec![];
        let mut put = |at: K, value: u32| {
            if starts.last() == Some(&at) {
                if let Some(v) = values.last_mut() {
                    *v = value;
                }
            } else if values.last() != Some(&value) {
                starts.push(at);
                values.push(value);
            }
        };
        let close = |open: &mut Vec<(K, u32)>, before: Option<K>, put: &mut dyn FnMut(K, u32)| {
            while let Some(&(last, _)) = open.last() {
                if before.is_some_and(|at| last >= at) {
                    break;
                }
                open.pop();
                if last != K::MAX {
                    put(last.next(), open.last().map_or(0, |o| o.1));
                }
            }
        };
        for (key, len, value) in routes {
            close(&mut open, Some(key), &mut put);
            put(key, value);
            open.push((key.last(len), value));
        }
        close(&mut open, None, &mut put);
        // Writing over the value of a boundary may have left two neighbours alike.
        let mut keep: Vec<bool> = values.windows(2).map(|w| w[0] != w[1]).collect();
        keep.insert(0, true);
        let mut flags = keep.iter();
        starts.retain(|_| flags.next().is_none_or(|k| *k));
        let mut flags = keep.iter();
        values.retain(|_| flags.next().is_none_or(|k| *k));
        SmallTable { starts: starts.into(), values: values.into() }
    }

    /// The value of the longest prefix that holds `key`, or [`crate::MISS`].
    #[inline(always)]
    pub fn lookup_one(&self, key: K) -> u32 {
        let mut starts = &*self.starts;
        let mut base = 0;
        // The half to go on with is chosen without a branch.
        while starts.len() > 1 {
            let half = starts.len() / 2;
            let (low, high) = starts.split_at(half);
            let up = high[0] <= key;
            base += if up { half } else { 0 };
            starts = if up { high } else { low };
        }
        self.values.get(base).copied().unwrap_or(0)
    }
}
