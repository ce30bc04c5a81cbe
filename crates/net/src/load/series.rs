//! What counters said in the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Looks at `N` counters, kept for `SECONDS` seconds when they are made once a second.
pub(super) struct Series<const N: usize, const SECONDS: usize>(VecDeque<(Instant, [u64; N])>);

impl<const N: usize, const SECONDS: usize> Default for Series<N, SECONDS> {
    fn default() -> Self {
        Series(VecDeque::new())
    }
}

impl<const N: usize, const SECONDS: usize> Series<N, SECONDS> {
    pub fn add(&mut self, at: Instant, sums: [u64; N]) {
        if self.0.len() > SECONDS {
            self.0.pop_front();
        }
        self.0.push_back((at, sums));
    }

    /// The last look.
    pub fn last(&self) -> Option<&[u64; N]> {
        self.0.back().map(|(_, sums)| sums)
    }

    /// By how much each counter grew in the last `span`, and in how many seconds that was: half a second more or less, since looks are not
    /// exact, or since the first look. None: there was no second look.
    pub fn over(&self, span: Duration) -> Option<(f64, [u64; N])> {
        let (end, last) = self.0.back()?;
        let enough = span.saturating_sub(Duration::from_millis(500));
        let long_ago = |(at, _): &&(Instant, _)| end.saturating_duration_since(*at) > enough;
        let (start, first) = self.0.iter().rev().find(long_ago).or(self.0.front())?;
        if end <= start {
            return None;
        }
        let grew = std::array::from_fn(|n| last[n].saturating_sub(first[n]));
        Some((end.saturating_duration_since(*start).as_secs_f64(), grew))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_over_spans_and_bounded() {
        let start = Instant::now();
        let mut s = Series::<2, 60>::default();
        assert_eq!((s.last(), s.over(Duration::from_secs(1))), (None, None));
        // Ten a second for 100 seconds, then a hundred.
        for second in 0..=110u64 {
            // Looks come a little late, and later by turns.
            let at = start + Duration::from_millis(second * 1001 + second % 2 * 40);
            s.add(at, [second * 10 + second.saturating_sub(100) * 90, 7]);
            let spans = [1, 10, 60].map(|n| s.over(Duration::from_secs(n)));
            assert_eq!(spans.map(|s| s.is_some()), [second >= 1; 3]);
            let long = spans.map(|s| s.map_or(0, |(time, _)| time.round() as u64));
            assert_eq!(long, [second.min(1), second.min(10), second.min(60)]);
            let [one, ..] = spans;
            if let (101.., Some((time, [grew, none]))) = (second, one) {
                assert!((0.9..1.1).contains(&time));
                assert_eq!((grew, none), (100, 0));
            }
            assert!(s.0.len() <= 61);
        }
        let (time, [grew, _]) = s.over(Duration::from_secs(60)).expect("a minute");
        assert!((59.5..60.7).contains(&time));
        assert_eq!(grew, 10 * 100 + 50 * 10);
    }
}
