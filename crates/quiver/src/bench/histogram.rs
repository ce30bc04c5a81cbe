//! A histogram of clocks with a relative error of at most 1/64 (the idea of HdrHistogram): one thread records, any
//! thread reads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of each power of two.
const PARTS: usize = 64;
/// Powers of two above the first [`PARTS`] values.
const POWERS: usize = 58;

/// Counts by value.
pub struct Histogram {
    counts: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: (0..(POWERS + 1) * PARTS).map(|_| AtomicU64::new(0)).collect(),
            max: AtomicU64::new(0),
        }
    }
}

fn bucket(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize - PARTS.ilog2() as usize;
    (power + 1) * PARTS + (value >> power) as usize - PARTS
}

/// The largest value of a bucket.
fn top(bucket: usize) -> u64 {
    let (power, part) = (bucket / PARTS, bucket % PARTS);
    match power {
        0 => part as u64,
        _ => ((PARTS + part) as u64).checked_add(1).map_or(u64::MAX, |n| (n << (power - 1)).wrapping_sub(1)),
    }
}

impl Histogram {
    /// Counts a value. Only one thread may.
    #[inline]
    pub fn record(&self, value: u64) {
        if let Some(c) = self.counts.get(bucket(value)) {
            c.store(c.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
    }

    /// Adds what this histogram counted to `sum`.
    pub fn add_to(&self, sum: &mut Counts) {
        sum.counts.resize(self.counts.len(), 0);
        for (s, c) in sum.counts.iter_mut().zip(&self.counts) {
            *s += c.load(Ordering::Relaxed);
        }
        sum.max = sum.max.max(self.max.load(Ordering::Relaxed));
    }

    /// Forgets everything. A value that is recorded at the same time may be lost or kept.
    pub fn clear(&self) {
        self.counts.iter().for_each(|c| c.store(0, Ordering::Relaxed));
        self.max.store(0, Ordering::Relaxed);
    }
}

/// Sum of several histograms.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    counts: Vec<u64>,
    max: u64,
}

impl Counts {
    /// Number of values.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The value that `share` (0 to 1) of all values do not exceed.
    pub fn quantile(&self, share: f64) -> u64 {
        let want = (self.total() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        for (i, n) in self.counts.iter().enumerate() {
            sum += n;
            if sum >= want {
                return top(i).min(self.max);
            }
        }
        self.max
    }

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_values() {
        let mut values: Vec<u64> = (0..300).collect();
        values.extend((0..64).flat_map(|p| [1u64 << p, (1u64 << p) - 1, (1u64 << p) + (1 << p >> 1)]));
        for v in values {
            let b = bucket(v);
            assert!(top(b) >= v, "{v}: bucket {b} ends at {}", top(b));
            assert!((top(b) - v) as f64 <= v as f64 / 64.0, "{v}: bucket {b} ends at {}", top(b));
            assert!(b == 0 || top(b - 1) < v, "{v} is not in bucket {}", b - 1);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let h = Histogram::default();
        let mut list: Vec<u64> = (0..10_000u64).map(|i| i * i % 77_777).collect();
        list.iter().for_each(|v| h.record(*v));
        list.sort_unstable();
        let mut sum = Counts::default();
        h.add_to(&mut sum);
        assert_eq!((sum.total(), sum.max()), (10_000, list[9999]));
        for (share, i) in [(0.5, 4999), (0.99, 9899), (0.999, 9989), (1.0, 9999)] {
            let (got, exact) = (sum.quantile(share) as f64, list[i] as f64);
            assert!((got - exact).abs() <= exact / 60.0, "{share}: {got}, not {exact}");
        }
        h.clear();
        let mut none = Counts::default();
        h.add_to(&mut none);
        assert_eq!((none.total(), none.quantile(0.5)), (0, 0));
    }
}
