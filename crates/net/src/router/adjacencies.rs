//! The control side of adjacencies: made for next hops and neighbours, shared, counted.

use super::Router;
use crate::adjacency::{Adjacency, AdjacencyState, MAX_REWRITE, Straight};
use crate::arcs;
use crate::interface::MtuOf;
use crate::labels::{Imposition, Stack};
use packet::eth::{EtherType, MacAddr};
use packet::multicast_mac;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::sync::Arc;
use tables::slots::SlotsWriter;

/// Pins after which those whose mail was read are looked for; so many more than mailboxes hold.
const MAX_PINS: usize = 1 << 14;

/// The MTU of the routes that lead over an adjacency, where that is less than the interface's may be; 0: none. An adjacency of its own
/// costs packets of other routes nothing.
pub(crate) type RouteMtu = u16;

/// What an adjacency leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum AdjKey {
    /// A neighbour.
    Neighbor(u32, IpAddr, RouteMtu),
    /// The link itself, for IPv4 (false) or IPv6 (true).
    Glean(u32, bool, RouteMtu),
    /// All IPv4 hosts on the link.
    Broadcast(u32),
    /// A neighbour that is known by its IPv6 address, for IPv4 packets (RFC 8950).
    Via6(u32, Ipv6Addr, RouteMtu),
    /// A neighbour, for labelled packets that get these labels as well.
    Mpls(u32, IpAddr, Stack, RouteMtu),
}

impl AdjKey {
    pub fn interface(self) -> u32 {
        match self {
            AdjKey::Neighbor(i, ..)
            | AdjKey::Glean(i, ..)
            | AdjKey::Broadcast(i)
            | AdjKey::Via6(i, ..)
            | AdjKey::Mpls(i, ..) => i,
        }
    }

    /// The MTU of its routes.
    pub fn mtu(self) -> RouteMtu {
        match self {
            AdjKey::Neighbor(_, _, mtu)
            | AdjKey::Glean(_, _, mtu)
            | AdjKey::Via6(_, _, mtu)
            | AdjKey::Mpls(_, _, _, mtu) => mtu,
            AdjKey::Broadcast(_) => 0,
        }
    }

    /// The same for routes of this MTU as well: the least counts.
    pub fn within(self, mtu: RouteMtu) -> AdjKey {
        let mtu = match self.mtu() {
            0 => mtu,
            own if mtu == 0 => own,
            own => own.min(mtu),
        };
        match self {
            AdjKey::Neighbor(i, a, _) => AdjKey::Neighbor(i, a, mtu),
            AdjKey::Glean(i, v6, _) => AdjKey::Glean(i, v6, mtu),
            AdjKey::Via6(i, a, _) => AdjKey::Via6(i, a, mtu),
            AdjKey::Mpls(i, a, stack, _) => AdjKey::Mpls(i, a, stack, mtu),
            AdjKey::Broadcast(_) => self,
        }
    }

    /// The neighbour: interface and address.
    pub fn neighbor(self) -> Option<(u32, IpAddr)> {
        match self {
            AdjKey::Neighbor(i, a, _) | AdjKey::Mpls(i, a, ..) => Some((i, a)),
            AdjKey::Via6(i, a, _) => Some((i, a.into())),
            AdjKey::Glean(..) | AdjKey::Broadcast(_) => None,
        }
    }

    /// Whether IPv6 packets take it.
    pub fn is_v6(self) -> bool {
        matches!(self, AdjKey::Neighbor(_, IpAddr::V6(_), _) | AdjKey::Glean(_, true, _))
    }

    /// The labels of an adjacency for labelled packets.
    pub fn stack(self) -> Option<Stack> {
        match self {
            AdjKey::Mpls(_, _, stack, _) => Some(stack),
            _ => None,
        }
    }

    /// Which hold node keeps its packets while the neighbour is unknown.
    pub fn holder(self) -> Holder {
        match self {
            AdjKey::Mpls(..) => Holder::Mpls,
            key if key.is_v6() => Holder::Ip6,
            _ => Holder::Ip4,
        }
    }

    /// Those of labelled packets to neighbours from `first` to `last`.
    fn labelled(interface: u32, first: IpAddr, last: IpAddr) -> std::ops::RangeInclusive<AdjKey> {
        AdjKey::Mpls(interface, first, Stack::EMPTY, 0)
            ..=AdjKey::Mpls(interface, last, Stack::LAST, RouteMtu::MAX)
    }

    /// Those of neighbours from `first` to `last`, of whatever MTU.
    pub fn neighbors(interface: u32, first: IpAddr, last: IpAddr) -> std::ops::RangeInclusive<AdjKey> {
        AdjKey::Neighbor(interface, first, 0)..=AdjKey::Neighbor(interface, last, RouteMtu::MAX)
    }

    /// Those of IPv4 packets to IPv6 neighbours on an interface.
    fn via6(interface: u32) -> std::ops::RangeInclusive<AdjKey> {
        let last = Ipv6Addr::from(u128::MAX);
        AdjKey::Via6(interface, Ipv6Addr::UNSPECIFIED, 0)..=AdjKey::Via6(interface, last, RouteMtu::MAX)
    }
}

/// The hold nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    Ip4,
    Ip6,
    Mpls,
}

impl Holder {
    pub const ALL: [Holder; 3] = [Holder::Ip4, Holder::Ip6, Holder::Mpls];
}

struct State {
    id: u32,
    users: u32,
    mac: Option<MacAddr>,
}

pub(crate) struct Adjacencies {
    pub slots: SlotsWriter<Adjacency>,
    by_key: BTreeMap<AdjKey, State>,
    /// Adjacencies that mail on its way to workers names; nobody else has the pin when all have read it.
    pins: Vec<(u32, Arc<()>)>,
    /// Those of them that nothing else uses any more.
    unused: Vec<u32>,
}

impl Adjacencies {
    pub fn new(slots: SlotsWriter<Adjacency>) -> Self {
        Adjacencies { slots, by_key: BTreeMap::new(), pins: Vec::new(), unused: Vec::new() }
    }

    /// Whether IPv4 packets go to IPv6 neighbours on an interface.
    pub fn carries_ip4(&self, interface: u32) -> bool {
        self.by_key.range(AdjKey::via6(interface)).next().is_some()
    }

    /// All keys by which packets reach a neighbour.
    pub fn keys(&self, interface: u32, addr: IpAddr) -> Vec<AdjKey> {
        let via6 = match addr {
            IpAddr::V6(a) => Some(AdjKey::Via6(interface, a, 0)..=AdjKey::Via6(interface, a, RouteMtu::MAX)),
            IpAddr::V4(_) => None,
        };
        let plain = self.by_key.range(AdjKey::neighbors(interface, addr, addr));
        let via6 = via6.into_iter().flat_map(|range| self.by_key.range(range));
        let labelled = self.by_key.range(AdjKey::labelled(interface, addr, addr));
        plain.chain(via6).chain(labelled).map(|(k, _)| *k).collect()
    }

    pub fn find(&self, key: AdjKey) -> Option<u32> {
        self.by_key.get(&key).map(|s| s.id)
    }
}

/// An adjacency as `show adjacency` lists it.
#[derive(Clone, Debug)]
pub struct AdjacencyInfo {
    /// Its number.
    pub id: u32,
    /// What workers see.
    pub adjacency: Adjacency,
    /// Routes, groups and neighbours that use it.
    pub users: u32,
    /// Packets sent over it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// True for IPv6.
    pub v6: bool,
}

impl Adjacencies {
    /// Removes the adjacencies that are not used, once no mail names them.
    pub fn remove_unused(&mut self) {
        let Adjacencies { slots, pins, unused, .. } = self;
        pins.retain(|(_, pin)| Arc::strong_count(pin) > 1);
        // Late, as packets are on their way as well.
        unused.retain(|id| pins.iter().any(|(of, _)| of == id) || !slots.remove_late(*id));
    }
}

impl Router {
    /// The content of an adjacency as the interface is now.
    fn adjacency_of(&self, key: AdjKey, mac: Option<MacAddr>) -> Adjacency {
        let interface = key.interface();
        let (mtu, own, tags, straight) = self.interfaces.get(interface).map_or(
            (1500, MacAddr::ZERO, Default::default(), Straight::No),
            |i| {
                let of = match key {
                    _ if key.stack().is_some() => MtuOf::Mpls,
                    _ if key.is_v6() => MtuOf::Ip6,
                    _ => MtuOf::Ip4,
                };
                (i.mtu_of(of), self.mac_of(interface), i.tags(), self.straight(interface))
            },
        );
        let mtu = if key.mtu() == 0 { mtu } else { mtu.min(key.mtu()) };
        let v6 = key.is_v6();
        let everybody = matches!(key, AdjKey::Broadcast(_));
        // The other end has no address of the link layer. What it is sent has a header all the same, which says what it is.
        let one_end = self.is_point_to_point(interface);
        let mac = match mac {
            _ if one_end => Some(MacAddr::ZERO),
            _ if everybody => Some(MacAddr([0xff; 6])),
            mac => match key.neighbor() {
                Some((_, group)) if group.is_multicast() => Some(multicast_mac(group)),
                _ => mac,
            },
        };
        let (state, next_hop) = match key.neighbor() {
            _ if everybody => (AdjacencyState::Complete, Ipv4Addr::BROADCAST.into()),
            None if one_end && v6 => (AdjacencyState::Complete, Ipv6Addr::UNSPECIFIED.into()),
            None if one_end => (AdjacencyState::Complete, Ipv4Addr::UNSPECIFIED.into()),
            Some((_, a)) if mac.is_some() => (AdjacencyState::Complete, a),
            Some((_, a)) => (AdjacencyState::Incomplete, a),
            None if v6 => (AdjacencyState::Glean, Ipv6Addr::UNSPECIFIED.into()),
            None => (AdjacencyState::Glean, Ipv4Addr::UNSPECIFIED.into()),
        };
        let mut rewrite = [0; MAX_REWRITE];
        let mut len = 0;
        if let Some(mac) = mac {
            let ethertype = match key {
                AdjKey::Mpls(..) => EtherType::MPLS,
                _ if v6 => EtherType::IPV6,
                _ => EtherType::IPV4,
            };
            len = crate::interface::l2_header(&mut rewrite, mac, own, &tags, ethertype);
        }
        let bits = self.interfaces.get(interface).map(|i| self.feature_bits(i)).unwrap_or_default();
        let mpls = key.stack().map(|stack| Box::new(Imposition::new(stack)));
        let features = match &mpls {
            Some(_) => 0,
            None if v6 => bits.on(&arcs::IP6_OUTPUT),
            None => bits.on(&arcs::IP4_OUTPUT),
        };
        let complete = features == 0 && state == AdjacencyState::Complete && len == 14;
        let straight = if complete { straight } else { Straight::No };
        let mut pushes = 0;
        if let Some(m) =
            mpls.as_deref().filter(|m| straight == Straight::Device && (1..=2).contains(&m.stack.len()))
            && let Some(entries) = m.fixed()
        {
            for (place, entry) in rewrite[len..].chunks_exact_mut(4).zip(entries) {
                place.copy_from_slice(&entry.to_bytes());
                pushes += 1;
            }
        }
        Adjacency {
            interface,
            features,
            mtu,
            state,
            len: len as u8,
            pushes,
            rewrite,
            next_hop,
            straight,
            mpls,
        }
    }

    /// The adjacency for `key`, with one user more; made when there is none.
    pub(super) fn hold_adjacency(&mut self, key: AdjKey) -> Option<u32> {
        if let Some(s) = self.adjacencies.by_key.get_mut(&key) {
            s.users += 1;
            return Some(s.id);
        }
        let known = key.neighbor().and_then(|(i, a)| self.neighbors.table.get(i, a));
        let mac = known.filter(|n| n.state.has_mac()).and_then(|n| n.mac);
        let content = self.adjacency_of(key, mac);
        let id = self.adjacencies.slots.insert(content).ok()?;
        self.adjacencies.by_key.insert(key, State { id, users: 1, mac });
        self.follow_via6(key);
        Some(id)
    }

    /// One user less; the last one takes it out.
    pub(super) fn release_adjacency_key(&mut self, key: AdjKey) {
        let Some(s) = self.adjacencies.by_key.get_mut(&key) else { return };
        s.users -= 1;
        if s.users == 0 {
            let id = s.id;
            self.adjacencies.by_key.remove(&key);
            self.adjacencies.unused.push(id);
            self.adjacencies.remove_unused();
            self.follow_via6(key);
        }
    }

    /// The number of an adjacency, which is not removed for as long as mail with a clone of the pin is on its way to a
    /// worker.
    pub(super) fn pin_adjacency(&mut self, key: AdjKey) -> Option<(u32, Arc<()>)> {
        let id = self.adjacencies.find(key)?;
        if self.adjacencies.pins.len() >= MAX_PINS {
            self.adjacencies.remove_unused();
        }
        let pin = Arc::new(());
        self.adjacencies.pins.push((id, Arc::clone(&pin)));
        Some((id, pin))
    }

    /// Whether all that was taken out of use before can be given out again.
    #[cfg(test)]
    pub(crate) fn adjacencies_are_settled(&mut self) -> bool {
        self.reclaim();
        let Adjacencies { slots, pins, .. } = &self.adjacencies;
        pins.is_empty() && slots.retired() == 0
    }

    /// An interface takes IPv4 packets for as long as some go out to its IPv6 neighbours.
    fn follow_via6(&mut self, key: AdjKey) {
        if let AdjKey::Via6(i, ..) = key
            && self.adjacencies.by_key.range(AdjKey::via6(i)).count() <= 1
        {
            self.publish_interface(i);
        }
    }

    /// A neighbour's link-layer address became known, another, or unknown.
    pub(super) fn set_adjacency_mac(&mut self, key: AdjKey, mac: Option<MacAddr>) {
        let Some(id) = self.adjacencies.by_key.get_mut(&key).map(|s| {
            s.mac = mac;
            s.id
        }) else {
            return;
        };
        let content = self.adjacency_of(key, mac);
        self.adjacencies.slots.replace(id, content);
    }

    /// The MTU, MAC, state or features of an interface changed: its adjacencies follow.
    pub(crate) fn refresh_adjacencies(&mut self, interface: u32) {
        let least: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let neighbors = AdjKey::neighbors(interface, least, Ipv6Addr::from(u128::MAX).into());
        let gleans = AdjKey::Glean(interface, false, 0)..=AdjKey::Glean(interface, true, RouteMtu::MAX);
        let labelled = AdjKey::labelled(interface, least, Ipv6Addr::from(u128::MAX).into());
        let by_key = &self.adjacencies.by_key;
        let everybody = AdjKey::Broadcast(interface);
        let all =
            by_key.range(neighbors).chain(by_key.range(gleans)).chain(by_key.range(everybody..=everybody));
        let all = all.chain(by_key.range(AdjKey::via6(interface))).chain(by_key.range(labelled));
        for (key, mac) in all.map(|(k, s)| (*k, s.mac)).collect::<Vec<_>>() {
            self.set_adjacency_mac(key, mac);
        }
    }

    /// One adjacency.
    pub fn adjacency(&self, id: u32) -> Option<&Adjacency> {
        self.adjacencies.slots.get(id)
    }

    /// All adjacencies, by number.
    pub fn adjacency_list(&self) -> Vec<AdjacencyInfo> {
        let mut out: Vec<AdjacencyInfo> = self.adjacencies_after(None).map(|(_, a)| a).collect();
        out.sort_by_key(|a| a.id);
        out
    }

    /// The adjacencies behind that of a key, whether it is still there or not, by key.
    pub(crate) fn adjacencies_after(
        &self,
        after: Option<AdjKey>,
    ) -> impl Iterator<Item = (AdjKey, AdjacencyInfo)> + '_ {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.adjacencies.by_key.range((from, Bound::Unbounded)).filter_map(|(k, s)| {
            let (packets, bytes) = self.plane.counters.adjacency.sum(s.id);
            let adjacency = self.adjacencies.slots.get(s.id)?.clone();
            Some((*k, AdjacencyInfo { id: s.id, adjacency, users: s.users, packets, bytes, v6: k.is_v6() }))
        })
    }
}
