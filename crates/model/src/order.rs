//! Sorting steps so that each comes behind those that must be before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Why nodes cannot be sorted: edges go in a circle.
pub(crate) struct Stuck {
    /// A node of a circle that breaks it; none where no circle has one.
    pub breaks: Option<usize>,
    /// For each node whether it is of a circle, or behind one.
    pub left: Vec<bool>,
}

/// Positions of all nodes so that `edges` point forward; of those that may come next the one with the least key does.
pub(crate) fn sort<K: Ord + Copy>(
    keys: &[K],
    edges: &[(usize, usize)],
    breaks: impl Fn(usize) -> bool,
) -> Result<Vec<usize>, Stuck> {
    let n = keys.len();
    let mut waits = vec![0u32; n];
    let mut edges: Vec<(usize, usize)> = edges.iter().copied().filter(|(a, b)| a != b).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut first = vec![0usize; n + 1];
    for &(a, b) in &edges {
        first[a + 1] += 1;
        waits[b] += 1;
    }
    for i in 0..n {
        first[i + 1] += first[i];
    }
    let behind = |a: usize| edges[first[a]..first[a + 1]].iter().map(|e| e.1);
    let mut ready: BinaryHeap<_> = (0..n).filter(|i| waits[*i] == 0).map(|i| Reverse((keys[i], i))).collect();
    let mut out = Vec::with_capacity(n);
    while let Some(Reverse((_, i))) = ready.pop() {
        out.push(i);
        for b in behind(i) {
            waits[b] -= 1;
            if waits[b] == 0 {
                ready.push(Reverse((keys[b], b)));
            }
        }
    }
    if out.len() == n {
        return Ok(out);
    }
    let comes_back = |start: usize| {
        let (mut seen, mut todo) = (vec![false; n], vec![start]);
        while let Some(i) = todo.pop() {
            for b in behind(i).filter(|b| waits[*b] != 0) {
                if b == start {
                    return true;
                }
                if !std::mem::replace(&mut seen[b], true) {
                    todo.push(b);
                }
            }
        }
        false
    };
    let mut left: Vec<usize> = (0..n).filter(|i| waits[*i] != 0 && breaks(*i)).collect();
    left.sort_unstable_by_key(|i| keys[*i]);
    let breaks = left.into_iter().find(|i| comes_back(*i));
    Err(Stuck { breaks, left: waits.iter().map(|w| *w != 0).collect() })
}
