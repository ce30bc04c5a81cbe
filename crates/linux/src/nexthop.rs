//! Nexthop objects and groups (linux/nexthop.h).

use crate::route::{Action, Encap, Path, RTNH_F_ONLINK, address};
use crate::wire::{Attributes, u16_at, u32_at};
use std::collections::HashMap;

/// Bytes of `struct nhmsg`.
pub const NHMSG: usize = 8;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_ENCAP_TYPE: u16 = 7;
const NHA_ENCAP: u16 = 8;
const NHA_RES_GROUP: u16 = 12;
const NHA_RES_GROUP_BUCKETS: u16 = 1;
const NEXTHOP_GRP_TYPE_RES: u16 = 1;

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nexthop {
    /// A way.
    Path(Path),
    /// Drops packets.
    Blackhole,
    /// Objects with weights, 1 to 65536; and the number of its buckets where it is resilient, else 0.
    Group(Vec<(u32, u32)>, u16),
}

/// Number and object of a message; `None` when it is not as it should be.
pub fn parse(body: &[u8]) -> Option<(u32, Nexthop)> {
    let head = body.get(..NHMSG)?;
    let onlink = u32_at(head, 4)? & u32::from(RTNH_F_ONLINK) != 0;
    let mut path = Path { weight: 1, onlink, ..Path::default() };
    let (mut id, mut what, mut encap) = (None, None, Encap::default());
    let (mut resilient, mut buckets) = (false, 1);
    for (kind, value) in Attributes(&body[NHMSG..]) {
        match kind {
            NHA_ID => id = Some(u32_at(value, 0)?),
            NHA_GROUP => {
                let member = |m: &[u8; 8]| {
                    let weight = u32::from(m[4]) | u32::from(m[5]) << 8;
                    Some((u32_at(m, 0)?, weight + 1))
                };
                what = Some(Nexthop::Group(value.as_chunks::<8>().0.iter().filter_map(member).collect(), 0));
            }
            NHA_GROUP_TYPE => resilient = u16_at(value, 0)? == NEXTHOP_GRP_TYPE_RES,
            NHA_RES_GROUP => {
                let told = Attributes(value).find(|(kind, _)| *kind == NHA_RES_GROUP_BUCKETS);
                buckets = told.and_then(|(_, v)| u16_at(v, 0)).unwrap_or(1);
            }
            NHA_BLACKHOLE => what = Some(Nexthop::Blackhole),
            NHA_OIF => path.ifindex = u32_at(value, 0)?,
            NHA_GATEWAY => path.gateway = Some(address(value)?),
            NHA_ENCAP_TYPE => encap.kind(value)?,
            NHA_ENCAP => encap.headers(value),
            _ => {}
        }
    }
    encap.put(&mut path);
    if let Some(Nexthop::Group(_, of)) = &mut what
        && resilient
    {
        *of = buckets.max(1);
    }
    Some((id?, what.unwrap_or(Nexthop::Path(path))))
}

/// All objects of a namespace.
#[derive(Debug, Default)]
pub struct Nexthops(HashMap<u32, Nexthop>);

impl Nexthops {
    /// Sets one; whether that changed something that was there.
    pub fn set(&mut self, id: u32, nexthop: Nexthop) -> bool {
        self.0.get(&id) != Some(&nexthop) && self.0.insert(id, nexthop).is_some()
    }

    /// Takes one out.
    pub fn remove(&mut self, id: u32) {
        self.0.remove(&id);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether `user` is `id`, or a group with it.
    pub fn uses(&self, user: u32, id: u32) -> bool {
        user == id
            || matches!(self.0.get(&user), Some(Nexthop::Group(g, _)) if g.iter().any(|(m, _)| *m == id))
    }

    /// The number of buckets of a resilient group; of any other object 0.
    pub fn buckets(&self, id: u32) -> u16 {
        match self.0.get(&id) {
            Some(Nexthop::Group(_, buckets)) => *buckets,
            _ => 0,
        }
    }

    /// Where an object leads, its paths in the order of [`crate::route::parse`]; `None` when it is not known.
    pub fn resolve(&self, id: u32) -> Option<(Action, Vec<Path>)> {
        let group = match self.0.get(&id)? {
            Nexthop::Blackhole => return Some((Action::Blackhole, vec![])),
            Nexthop::Path(path) => return Some((Action::Unicast, vec![path.clone()])),
            Nexthop::Group(group, _) => group,
        };
        let mut paths = Vec::with_capacity(group.len());
        for (id, weight) in group {
            match self.0.get(id) {
                Some(Nexthop::Path(path)) => {
                    paths.push(Path { weight: u16::try_from(*weight).unwrap_or(u16::MAX), ..path.clone() });
                }
                Some(Nexthop::Blackhole) => return Some((Action::Blackhole, vec![])),
                _ => return None,
            }
        }
        // Else a route would change once with its object, and once more when the kernel tells of itself.
        paths.sort_unstable();
        Some((Action::Unicast, paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_group_are_in_order() {
        let mut all = Nexthops::default();
        for (id, gateway) in [(1, "10.0.0.3"), (2, "10.0.0.2")] {
            let gateway = Some(gateway.parse().unwrap());
            all.set(id, Nexthop::Path(Path { gateway, ifindex: 7, weight: 1, ..Path::default() }));
        }
        let paths = [vec![(1, 1), (2, 3)], vec![(2, 3), (1, 1)]].map(|members| {
            all.set(9, Nexthop::Group(members, 0));
            all.resolve(9).unwrap().1
        });
        assert_eq!(paths[0], paths[1]);
    }

    /// As `ip nexthop add id 10 group 1/2,3 type resilient buckets 32` comes.
    #[test]
    fn buckets_of_resilient_groups() {
        use crate::wire::attribute;
        let group = attribute(NHA_GROUP, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
        let buckets = attribute(NHA_RES_GROUP, &attribute(NHA_RES_GROUP_BUCKETS, &32u16.to_ne_bytes()));
        let of = |kind: u16| {
            let id = attribute(NHA_ID, &10u32.to_ne_bytes());
            let kind = attribute(NHA_GROUP_TYPE, &kind.to_ne_bytes());
            parse(&[&[0; NHMSG][..], &id, &group, &kind, &buckets].concat())
        };
        let members = vec![(1, 1), (2, 3)];
        assert_eq!(of(1), Some((10, Nexthop::Group(members.clone(), 32))));
        assert_eq!(of(0), Some((10, Nexthop::Group(members, 0))));
        let mut all = Nexthops::default();
        all.set(10, of(1).unwrap().1);
        assert_eq!([all.buckets(10), all.buckets(1)], [32, 0]);
    }
}
