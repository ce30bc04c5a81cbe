//! What an interface advertised and advertises no more: its hosts are told by lifetimes of 0, or they would use it until it
//! expires, which may take a month (RFC 9096 section 3.3; RFC 4191 section 2.3 and RFC 8106 section 5 for what is no prefix).

use ipnet::Ipv6Net;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Advertisements in which an item is withdrawn, as a router's last ones are (MAX_FINAL_RTR_ADVERTISEMENTS).
const TIMES: u8 = 3;
/// The most items that are being withdrawn at a time.
const MOST: usize = 64;

/// Something that is advertised with a lifetime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A prefix.
    Prefix(Ipv6Net),
    /// A route.
    Route(Ipv6Net),
    /// A DNS server.
    Server(Ipv6Addr),
    /// A domain in which names are looked up.
    Domain(String),
}

/// Of a prefix: on the link, and hosts make addresses in it.
pub type Flags = (bool, bool);
/// What an advertisement holds.
pub type Items = BTreeMap<Item, Flags>;

/// What hosts on a link were told.
#[derive(Clone, Debug, Default)]
pub struct Told {
    last: Items,
    gone: BTreeMap<Item, (Flags, u8)>,
}

impl Told {
    /// All hosts are about to be told of `now`: what they are to be told of as gone.
    pub fn all(&mut self, now: Items) -> Items {
        let was = std::mem::replace(&mut self.last, now);
        for (item, flags) in was {
            if self.gone.len() < MOST {
                self.gone.insert(item, (flags, TIMES));
            }
        }
        self.gone.retain(|item, _| !self.last.contains_key(item));
        let told = self.gone();
        self.gone.values_mut().for_each(|g| g.1 -= 1);
        self.gone.retain(|_, g| g.1 > 0);
        told
    }

    /// What is being withdrawn now.
    pub fn gone(&self) -> Items {
        self.gone.iter().map(|(item, g)| (item.clone(), g.0)).collect()
    }

    /// Whether hosts know of anything.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty() && self.gone.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix(n: u16) -> Item {
        Item::Prefix(Ipv6Net::new(Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0), 64).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// An item is withdrawn in the three advertisements behind the last one that held it, unless it comes back.
        #[test]
        fn three_times_after_the_last(turns in prop::collection::vec(0u16..256, 1..40)) {
            let mut told = Told::default();
            let holds = |set: u16, n: u16| set >> n & 1 == 1;
            for (i, set) in turns.iter().enumerate() {
                let now: Items = (0..8).filter(|n| holds(*set, *n)).map(|n| (prefix(n), (true, n % 2 == 0))).collect();
                let want: Items = (0..8)
                    .filter(|n| !holds(*set, *n) && turns[i.saturating_sub(3)..i].iter().any(|s| holds(*s, *n)))
                    .map(|n| (prefix(n), (true, n % 2 == 0)))
                    .collect();
                prop_assert_eq!(told.all(now), want);
            }
        }
    }

    #[test]
    fn there_is_an_end_to_it() {
        let mut told = Told::default();
        told.all((0..500).map(|n| (prefix(n), (true, true))).collect());
        assert_eq!(told.all(Items::new()).len(), MOST);
        (0..3).for_each(|_| drop(told.all(Items::new())));
        assert!(told.is_empty());
    }
}
