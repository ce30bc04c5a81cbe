//! The addresses of others that the router answers for.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The most ranges, and the most proxied IPv6 addresses.
pub const MOST_PROXIES: usize = 4096;

/// What is answered for, as workers read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// First and last addresses, in order, none touching another.
    ranges: Box<[(u32, u32)]>,
    /// Addresses in order, with the interface behind which each is.
    hosts: Box<[(u128, u32)]>,
}

impl Proxies {
    /// From ranges and hosts in any order; ranges may overlap.
    pub fn new(
        ranges: impl IntoIterator<Item = (Ipv4Addr, Ipv4Addr)>,
        hosts: impl IntoIterator<Item = (Ipv6Addr, u32)>,
    ) -> Proxies {
        let mut sorted: Vec<(u32, u32)> = ranges.into_iter().map(|(a, b)| (a.into(), b.into())).collect();
        sorted.sort_unstable();
        let mut merged: Vec<(u32, u32)> = vec![];
        for (first, last) in sorted {
            match merged.last_mut() {
                Some(m) if first <= m.1.saturating_add(1) => m.1 = m.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        let mut hosts: Vec<(u128, u32)> = hosts.into_iter().map(|(a, i)| (a.into(), i)).collect();
        hosts.sort_unstable();
        Proxies { ranges: merged.into(), hosts: hosts.into() }
    }

    /// Whether an IPv4 address is in a range.
    pub fn holds4(&self, address: u32) -> bool {
        let after = self.ranges.partition_point(|r| r.0 <= address);
        after.checked_sub(1).and_then(|n| self.ranges.get(n)).is_some_and(|r| address <= r.1)
    }

    /// The interface behind which a proxied IPv6 address is.
    pub fn behind(&self, address: u128) -> Option<u32> {
        let at = self.hosts.binary_search_by_key(&address, |h| h.0).ok()?;
        self.hosts.get(at).map(|h| h.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn ranges_are_a_set(ranges in prop::collection::vec((0u32..60, 0u32..12), 0..8), top: bool) {
            let base = if top { u32::MAX - 80 } else { 0 };
            let list: Vec<(u32, u32)> = ranges.iter().map(|(a, n)| (base + a, base + a + n)).collect();
            let p = Proxies::new(list.iter().map(|(a, b)| ((*a).into(), (*b).into())), []);
            for a in base..=base + 80 {
                prop_assert_eq!(p.holds4(a), list.iter().any(|(x, y)| (*x..=*y).contains(&a)), "{}", a);
            }
        }
    }

    #[test]
    fn hosts_are_found() {
        let a: Ipv6Addr = "2001:db8::5".parse().unwrap();
        let p = Proxies::new([], [(a, 7), ("2001:db8::1".parse().unwrap(), 3)]);
        assert_eq!((p.behind(a.into()), p.behind(u128::from(a) + 1)), (Some(7), None));
        assert_eq!(Proxies::default().behind(0), None);
    }
}
