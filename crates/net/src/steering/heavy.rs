//! The heaviest flows of a worker, found in samples: of about one packet in a thousand the flow is looked at, and flows are counted as
//! Misra and Gries do ("Finding repeated elements", 1982). One that has more than a seventeenth of the samples is among those that are kept, and
//! none is counted too often.

use super::FlowKey;
use crate::interface::IfIndex;

/// Packets from one sample to the next, on average.
pub(super) const EVERY: u32 = 1024;
/// Flows that are kept.
const FLOWS: usize = 16;

/// Samples of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub interface: IfIndex,
    pub key: FlowKey,
    /// At least so many.
    pub count: u32,
}

/// What was sampled since it was taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    pub flows: [Option<Sampled>; FLOWS],
    /// All samples.
    pub all: u32,
}

impl Samples {
    fn add(&mut self, interface: IfIndex, key: FlowKey) {
        self.all += 1;
        let own = self.flows.iter_mut().flatten().find(|s| s.interface == interface && s.key == key);
        if let Some(own) = own {
            own.count += 1;
        } else if let Some(free) = self.flows.iter_mut().find(|s| s.is_none()) {
            *free = Some(Sampled { interface, key, count: 1 });
        } else {
            for s in &mut self.flows {
                *s = s.map(|s| Sampled { count: s.count - 1, ..s }).filter(|s| s.count != 0);
            }
        }
    }
}

/// Takes the samples of a worker.
pub(super) struct Sampler {
    left: u32,
    random: u32,
    pub samples: Samples,
}

impl Sampler {
    pub fn new(seed: u32) -> Sampler {
        Sampler { left: EVERY, random: seed | 1, samples: Samples::default() }
    }

    /// That of the next packets, no more than a vector's, which is to be looked at. Packets that come in turns are met at different
    /// places of their turn.
    #[inline]
    pub fn due<'p, P>(&mut self, packets: &'p [P]) -> Option<&'p P> {
        let n = packets.len() as u32;
        if n < self.left {
            self.left -= n;
            return None;
        }
        let due = packets.get(self.left as usize - 1);
        let behind = n - self.left;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.left = (EVERY / 2 + 1 + self.random % EVERY).saturating_sub(behind).max(1);
        due
    }

    /// Looks at one.
    #[cold]
    pub fn take(&mut self, interface: IfIndex, frame: &[u8]) {
        self.samples.add(interface, FlowKey::of(frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> FlowKey {
        FlowKey { src: n.into(), ..FlowKey::of(&[]) }
    }

    #[test]
    fn what_is_heavy_is_kept_and_never_counted_too_often() {
        let (mut s, mut x) = (Samples::default(), 9u64);
        let mut true_counts = std::collections::HashMap::new();
        for n in 0..100_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let flow = match (x >> 33) % 10 {
                0..=2 => 1,
                3 => 2,
                _ => 1000 + n,
            };
            *true_counts.entry((flow % 2, key(flow))).or_insert(0) += 1;
            s.add(flow % 2, key(flow));
        }
        assert_eq!(s.all, 100_000);
        for found in s.flows.iter().flatten() {
            assert!(found.count <= true_counts[&(found.interface, found.key)], "{found:?}");
        }
        let count = |n: u32| s.flows.iter().flatten().find(|f| f.key == key(n)).map_or(0, |f| f.count);
        assert!(count(1) > 100_000 * 3 / 10 - 100_000 / 17 && count(2) > 100_000 / 10 - 100_000 / 17 - 1000);
    }

    #[test]
    fn about_one_in_a_thousand_is_looked_at() {
        let mut s = Sampler::new(7);
        // Every second packet is of one flow, in vectors of all lengths.
        let packets: Vec<u32> = (0..10 * EVERY * EVERY).collect();
        let mut left = packets.as_slice();
        while let Some((vector, rest)) = left.split_at_checked(1 + left.len() % 256) {
            left = rest;
            if let Some(n) = s.due(vector) {
                s.take(1, if n % 2 == 0 { &[2; 14] } else { &[4; 14] });
            }
        }
        let all = s.samples.all;
        assert!((10_000..10_500).contains(&all), "{all}");
        for f in s.samples.flows.iter().flatten() {
            assert!((all * 2 / 5..all * 3 / 5).contains(&f.count), "{f:?}");
        }
    }
}
