//! Who has which address: answers without looking at every interface.

use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// The addresses of the interfaces of a table, and their connected prefixes.
#[derive(Default)]
pub(crate) struct Connected {
    own: HashMap<IpAddr, u32>,
    /// Interfaces with an address in the prefix, once for each address.
    prefixes: BTreeMap<IpNet, Vec<u32>>,
    /// Number of prefixes by length.
    lengths: BTreeMap<u8, usize>,
}

impl Connected {
    pub fn add(&mut self, index: u32, net: IpNet) {
        self.own.insert(net.addr(), index);
        let list = self.prefixes.entry(net.trunc()).or_default();
        if list.is_empty() {
            *self.lengths.entry(net.prefix_len()).or_default() += 1;
        }
        list.push(index);
    }

    pub fn remove(&mut self, index: u32, net: IpNet) {
        self.own.remove(&net.addr());
        let Some(list) = self.prefixes.get_mut(&net.trunc()) else { return };
        if let Some(at) = list.iter().position(|i| *i == index) {
            list.swap_remove(at);
        }
        if list.is_empty() {
            self.prefixes.remove(&net.trunc());
            if let Some(count) = self.lengths.get_mut(&net.prefix_len()) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&net.prefix_len());
                }
            }
        }
    }

    /// The interface whose address this is.
    pub fn owner(&self, addr: IpAddr) -> Option<u32> {
        self.own.get(&addr).copied()
    }

    /// Whether no interface has an address.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Prefixes of at most `most` bits that hold `addr`, the longest first, each with its interfaces.
    fn around(&self, addr: IpAddr, most: u8) -> impl Iterator<Item = (IpNet, u32)> + '_ {
        let lengths = self.lengths.range(..=most).rev();
        let of = move |len: &u8| Some(IpNet::new(addr, *len).ok()?.trunc());
        lengths
            .filter_map(move |(len, _)| of(len))
            .flat_map(|net| self.prefixes.get(&net).into_iter().flatten().map(move |index| (net, *index)))
    }

    /// A prefix that shares addresses with `net`, of another interface, or another one of this interface.
    pub fn overlapping(&self, index: u32, net: IpNet) -> Option<(IpNet, u32)> {
        let net = net.trunc();
        let around = self.around(net.addr(), net.prefix_len());
        let last = IpNet::new(net.broadcast(), net.max_prefix_len()).unwrap_or(net);
        let within = self.prefixes.range(net..=last);
        let within = within.flat_map(|(net, list)| list.iter().map(|index| (*net, *index)));
        around.chain(within).find(|(other, of)| *of != index || *other != net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn net() -> impl Strategy<Value = IpNet> {
        prop_oneof![
            (0u32..256, 24u8..=32)
                .prop_map(|(a, len)| IpNet::new(IpAddr::V4((0x0a00_0000 + a).into()), len).unwrap()),
            (0u128..256, 120u8..=128).prop_map(|(a, len)| IpNet::new(IpAddr::V6(a.into()), len).unwrap()),
            Just("0.0.0.5/0".parse().unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn it_answers_as_a_list(ops in prop::collection::vec((net(), 1u32..5, any::<bool>()), 1..60), probe in net()) {
            let (mut c, mut list) = (Connected::default(), Vec::<(u32, IpNet)>::new());
            for (net, index, add) in ops {
                let have = list.iter().position(|(_, n)| n.addr() == net.addr());
                match have {
                    None if add => {
                        c.add(index, net);
                        list.push((index, net));
                    }
                    Some(at) if !add => {
                        let (index, net) = list.swap_remove(at);
                        c.remove(index, net);
                    }
                    _ => {}
                }
                prop_assert_eq!(c.owner(probe.addr()), list.iter().find(|(_, n)| n.addr() == probe.addr()).map(|(i, _)| *i));
                let other = list.iter().any(|(i, n)| {
                    let other = *i != index || n.trunc() != probe.trunc();
                    other && (n.contains(&probe.trunc()) || probe.trunc().contains(&n.trunc()))
                });
                prop_assert_eq!(c.overlapping(index, probe).is_some(), other);
            }
            for (index, net) in list {
                c.remove(index, net);
            }
            prop_assert!(c.is_empty() && c.prefixes.is_empty() && c.lengths.is_empty());
        }
    }
}
