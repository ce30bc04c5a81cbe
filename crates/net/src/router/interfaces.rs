//! All interfaces: how they come, are found, and go.

use super::connected::Connected;
use super::devices::{Device, PcapFiles};
use super::following::Following;
use super::tell::{Last, Remote};
use super::{Encap, IfState, Kind, Membership, Op, OpError, Order, Router};
use crate::interface::{Columns, Interface, Settings, Switch};
use crate::plane::table::FibIndex;
use graph::TxCaps;
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tables::slots::SlotsWriter;

/// Places from here on are those of companions.
const COMPANIONS: u32 = 1 << 31;

pub(crate) struct Interfaces {
    pub slots: SlotsWriter<Interface>,
    by_index: BTreeMap<u32, IfState>,
    by_name: HashMap<String, u32>,
    /// Those that are no sub-interfaces, by their places.
    by_rank: BTreeMap<u32, u32>,
    /// Who has which address: by FIB index of the table, and whether it is one of IPv6.
    connected: HashMap<(FibIndex, bool), Connected>,
    /// Targets of cross-connects, each with the interface whose target it is.
    pub xconnected: HashMap<u32, u32>,
    /// Times that an interface was written for workers.
    pub(super) stores: u64,
    columns: Columns,
    /// Which nodes of the arcs settings switch on.
    pub switches: Vec<&'static Switch>,
    /// Interfaces whose addresses others use, with those.
    pub borrowers: BTreeSet<(u32, u32)>,
    /// Interfaces that want frames for a group, by the device below and the group's MAC address.
    pub device_groups: HashMap<(u32, MacAddr), u32>,
    /// Interfaces whose sub-interfaces changed in the transaction that is applied, and sub-interfaces that are gone.
    pub subs_changed: BTreeMap<u32, Vec<(Encap, Option<u32>)>>,
    pub subs_gone: Vec<u32>,
    pub following: Following,
    /// Those that are in the table of Linux's VRF, and not in the operator's.
    pub away: BTreeSet<u32>,
    /// What devices that are being opened do last, whose interfaces are gone: by the errand on which they are.
    pub unopened: BTreeMap<u64, Last>,
    /// Capture files that were opened for the operation of this moment.
    pub opened: Option<PcapFiles>,
}

impl Interfaces {
    pub fn new(slots: SlotsWriter<Interface>, columns: Columns, switches: Vec<&'static Switch>) -> Self {
        Interfaces {
            slots,
            by_index: BTreeMap::new(),
            by_name: HashMap::new(),
            by_rank: BTreeMap::new(),
            connected: HashMap::new(),
            xconnected: HashMap::new(),
            stores: 0,
            columns,
            switches,
            borrowers: BTreeSet::new(),
            device_groups: HashMap::new(),
            subs_changed: BTreeMap::new(),
            subs_gone: vec![],
            following: Following::default(),
            away: BTreeSet::new(),
            unopened: BTreeMap::new(),
            opened: None,
        }
    }

    pub fn get(&self, index: u32) -> Option<&IfState> {
        self.by_index.get(&index)
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut IfState> {
        self.by_index.get_mut(&index)
    }

    /// An interface, with what waits to follow it.
    pub fn followers(&mut self, index: u32) -> Option<(&IfState, &mut Following)> {
        Some((self.by_index.get(&index)?, &mut self.following))
    }

    /// In the order of a document: each with its sub-interfaces behind it, so that a restart keeps it. Those behind a place
    /// in this order ([`IfState::order`]).
    pub fn after(&self, place: Option<Order>) -> impl Iterator<Item = &IfState> {
        let (first, by_index) = (place.map_or(0, |(whole, _)| whole), &self.by_index);
        let whole = self.by_rank.range(first..).filter_map(|(_, i)| by_index.get(i));
        whole.flat_map(move |i| {
            let within = place.filter(|(whole, _)| *whole == i.rank);
            let behind = within.and_then(|(_, id)| id).map_or(Bound::Unbounded, Bound::Excluded);
            let subs = i.subs.range((behind, Bound::Unbounded)).filter_map(|(_, s)| by_index.get(s));
            within.is_none().then_some(i).into_iter().chain(subs)
        })
    }

    /// The place of a new interface: its number; behind all others where one that was moved has that place.
    fn next_rank(&self, index: u32) -> u32 {
        match self.by_rank.contains_key(&index) {
            false => index,
            true => self.by_rank.range(..COMPANIONS).next_back().map_or(index, |(last, _)| last + 1),
        }
    }

    /// Puts a companion behind all interfaces, in the order of those that they belong to, whichever was made first.
    pub fn rank_companion(&mut self, index: u32, of: u32) {
        if let Some(i) = self.by_index.get(&index) {
            self.by_rank.remove(&i.rank);
            self.set_rank(index, COMPANIONS + of);
        }
    }

    /// Gives an interface and its sub-interfaces a place.
    fn set_rank(&mut self, index: u32, rank: u32) {
        let Some(i) = self.by_index.get_mut(&index) else { return };
        i.rank = rank;
        let subs: Vec<u32> = i.subs.values().copied().collect();
        self.by_rank.insert(rank, index);
        for s in subs {
            if let Some(s) = self.by_index.get_mut(&s) {
                s.rank = rank;
            }
        }
    }

    /// Their numbers from one on, in the order of these.
    pub fn numbers_from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.by_index.range(first..).map(|(index, _)| *index)
    }

    /// All of them in this order.
    pub fn iter(&self) -> impl Iterator<Item = &IfState> {
        let whole = self.by_rank.values().filter_map(|i| self.by_index.get(i));
        let subs = |i: &IfState| i.subs.values().copied().collect::<Vec<u32>>();
        whole.flat_map(move |i| {
            std::iter::once(i).chain(subs(i).into_iter().filter_map(|s| self.by_index.get(&s)))
        })
    }

    /// Who has which address of a table.
    pub fn connected(&self, fib_index: FibIndex, v6: bool) -> Option<&Connected> {
        self.connected.get(&(fib_index, v6))
    }

    pub fn connect(&mut self, fib_index: FibIndex, index: u32, net: IpNet) {
        self.connected.entry((fib_index, net.addr().is_ipv6())).or_default().add(index, net);
    }

    pub fn disconnect(&mut self, fib_index: FibIndex, index: u32, net: IpNet) {
        let key = (fib_index, net.addr().is_ipv6());
        if let Some(connected) = self.connected.get_mut(&key) {
            connected.remove(index, net);
            if connected.is_empty() {
                self.connected.remove(&key);
            }
        }
    }

    pub fn close(&mut self) {
        for i in self.by_index.values_mut() {
            i.device = None;
        }
    }
}

/// What a new interface starts with.
pub(super) struct NewInterface {
    pub name: String,
    pub kind: Kind,
    pub origin: Op,
    pub mac: MacAddr,
    /// The one that it would have, where the operator chose another.
    pub own_mac: Option<MacAddr>,
    pub mtu: u16,
    pub link: bool,
}

impl Router {
    pub(super) fn make_local0(&mut self) {
        let origin = Op::CreateLoopback { instance: None, mac: None };
        let new = NewInterface {
            name: "local0".into(),
            kind: Kind::Local,
            origin,
            mac: MacAddr::ZERO,
            own_mac: None,
            mtu: 1500,
            link: false,
        };
        let made = self.reserve_index().map(|i| self.insert_interface(i, new));
        debug_assert!(made.is_ok(), "the first interface always fits");
    }

    /// The number for the next interface; workers see an interface that is down.
    pub(super) fn reserve_index(&mut self) -> Result<u32, OpError> {
        let index = self
            .interfaces
            .slots
            .insert(Interface::default())
            .map_err(|_| OpError::new("no room for another interface"))?;
        self.plane.counters.drops.reserve(index);
        Ok(index)
    }

    pub(super) fn release_index(&mut self, index: u32) {
        self.interfaces.slots.remove(index);
        self.plane.summaries.set(index, None);
    }

    pub(super) fn insert_interface(&mut self, index: u32, new: NewInterface) {
        self.interfaces.by_name.insert(new.name.clone(), index);
        let rank = match new.kind {
            Kind::Sub { parent, .. } => self.interfaces.get(parent).map_or(parent, |p| p.rank),
            _ => self.interfaces.next_rank(index),
        };
        let state = IfState {
            index,
            rank,
            name: new.name,
            kind: new.kind,
            origin: new.origin,
            companion: false,
            description: None,
            own_mtu: if matches!(new.kind, Kind::Virtual(_)) { new.mtu } else { 1500 },
            up: false,
            link: new.link,
            mtu: new.mtu,
            mac: new.mac,
            own_mac: new.own_mac.unwrap_or(new.mac),
            mac_set: new.own_mac.is_some(),
            promiscuous: false,
            told: None,
            addresses: vec![],
            link_local: None,
            own_link_local: None,
            elsewhere: super::Elsewhere::default(),
            xconnect: None,
            membership: None,
            settings: Settings::new(self.interfaces.columns),
            unnumbered: None,
            subs: BTreeMap::new(),
            tables: [FibIndex::MAIN; 2],
            by_encap: HashMap::new(),
            vlans: None,
            usable6: vec![],
            groups4: Box::default(),
            groups6: Box::default(),
            caps: TxCaps::default(),
            device: None,
            inputs: vec![],
            placed: BTreeMap::new(),
            earlier_drops: vec![],
            trouble: None,
            returned: None,
            remote: Remote::default(),
            rx_features: Arc::new(AtomicU32::new(0)),
        };
        if !matches!(new.kind, Kind::Sub { .. }) {
            self.interfaces.by_rank.insert(rank, index);
        }
        self.interfaces.by_index.insert(index, state);
        self.start_counts(index);
        if let Kind::Sub { parent, id, encap } = new.kind {
            if let Some(p) = self.interfaces.get_mut(parent) {
                p.subs.insert(id, index);
                p.by_encap.insert(encap.frames(), index);
            }
            self.interfaces.subs_changed.entry(parent).or_default().push((encap, Some(index)));
        }
        self.publish_interface(index);
    }

    /// Puts interfaces into an order: they share out the places that they have together.
    pub(super) fn order_interfaces(&mut self, names: Vec<String>) -> Result<Vec<Op>, OpError> {
        let mut wanted = Vec::with_capacity(names.len());
        for name in &names {
            let i = self.named(name)?;
            if matches!(i.kind, Kind::Sub { .. }) {
                return Err(OpError::new(format!("{name} stands behind its parent")));
            }
            wanted.push((i.index, i.rank));
        }
        let mut ranks: Vec<u32> = wanted.iter().map(|w| w.1).collect();
        ranks.sort_unstable();
        if ranks.windows(2).any(|w| w[0] == w[1]) {
            return Err(OpError::new("an interface is named twice"));
        }
        let was = ranks.iter().filter_map(|r| self.interfaces.by_rank.get(r)).copied();
        let was: Vec<String> = was.map(|i| self.interface_name(i)).collect();
        for ((index, _), rank) in wanted.into_iter().zip(ranks) {
            self.interfaces.set_rank(index, rank);
        }
        Ok(vec![Op::OrderInterfaces(was)])
    }

    /// Puts addresses of an interface into an order, those that are not named behind.
    pub(super) fn order_addresses(
        &mut self,
        name: String,
        addresses: Vec<IpNet>,
    ) -> Result<Vec<Op>, OpError> {
        let index = self.named(&name)?.index;
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(vec![]) };
        let was = i.addresses.clone();
        let place = |a: &IpNet| addresses.iter().position(|w| w == a).unwrap_or(usize::MAX);
        i.addresses.sort_by_key(place);
        if i.addresses != was {
            self.publish_interface(index);
            self.follow_lent(index)?;
        }
        Ok(vec![Op::OrderAddresses { name, addresses: was }])
    }

    /// Gives a device's queues to the workers.
    pub(super) fn attach(&mut self, index: u32, mut device: Device) -> Result<(), OpError> {
        let workers = self.config.workers;
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        i.caps = device.caps;
        // There may be more workers than when it was opened.
        while !device.tx.is_empty() && device.tx.len() < workers {
            let queue =
                device.control.transmit_queue().map_err(|e| OpError::new(format!("{}: {e}", i.name)))?;
            let Some(queue) = queue else { break };
            device.tx.push(queue);
        }
        i.device = Some(device.control);
        for (w, q) in device.tx.into_iter().enumerate().take(workers) {
            self.workers.set_transmit_queue(w, index, q);
        }
        for q in device.rx {
            self.place_queue(index, q)?;
        }
        self.publish_interface(index);
        // Another number may have been set while it was opened.
        self.follow_queues(index)
    }

    /// Gives worker 0 a transmit queue for an interface that has none: for benchmarks and tests without a device.
    pub fn test_sink(&mut self, name: &str, queue: Box<dyn graph::TxQueue>) {
        let Some(index) = self.interface_index(name) else { return };
        self.workers.set_transmit_queue(0, index, queue);
    }

    /// Takes an interface out with its sub-interfaces, addresses and neighbours. The caller has checked that nothing
    /// else refers to it.
    pub(super) fn remove_interface(&mut self, index: u32) {
        let subs: Vec<u32> =
            self.interfaces.get(index).map(|i| i.subs.values().copied().collect()).unwrap_or_default();
        for s in subs {
            self.remove_interface(s);
        }
        self.interfaces.subs_changed.remove(&index);
        let addresses: Vec<IpNet> =
            self.interfaces.get(index).map(|i| i.configured().collect()).unwrap_or_default();
        for a in addresses {
            let _ = self.del_address(index, a);
        }
        self.bind(index, false, FibIndex::MAIN);
        self.bind(index, true, FibIndex::MAIN);
        self.set_link_state(index, false, false);
        let mut out = vec![];
        self.tell_parts(|part, router| part.removed(router, index));
        if let Some(lender) = self.interfaces.get(index).and_then(|i| i.unnumbered) {
            self.interfaces.borrowers.remove(&(lender, index));
        }
        self.neighbors.table.interface_removed(index, &mut out);
        self.carry_out(out);
        self.drop_held(index);
        let sub = self.interfaces.get(index).is_some_and(|i| matches!(i.kind, Kind::Sub { .. }));
        if !sub {
            self.detach(index);
        }
        self.interfaces.away.remove(&index);
        let Some(i) = self.interfaces.by_index.remove(&index) else { return };
        if !matches!(i.kind, Kind::Sub { .. }) {
            self.interfaces.by_rank.remove(&i.rank);
        }
        self.interfaces.by_name.remove(&i.name);
        self.interfaces.following.forget(index);
        self.trace_interface_gone(index);
        self.tell_link_gone(&i);
        if let Some(peer) = i.xconnect {
            self.interfaces.xconnected.remove(&peer);
        }
        match i.kind {
            Kind::Sub { parent, id, encap } => {
                if let Some(p) = self.interfaces.get_mut(parent) {
                    p.subs.remove(&id);
                    p.by_encap.remove(&encap.frames());
                }
                self.interfaces.subs_changed.entry(parent).or_default().push((encap, None));
                self.interfaces.subs_gone.push(index);
            }
            _ => self.release_index(index),
        }
        self.refresh_groups(&[index]);
    }

    /// The interface of this number.
    pub fn interface(&self, index: u32) -> Option<&IfState> {
        self.interfaces.get(index)
    }

    /// All interfaces, in the order in which they were made, each with its sub-interfaces behind it.
    pub fn interfaces(&self) -> impl Iterator<Item = &IfState> {
        self.interfaces.iter()
    }

    /// What makes an interface is another operation from now on.
    pub(crate) fn set_origin(&mut self, index: u32, origin: Op) {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.origin = origin;
        }
    }

    /// The MTU that an interface has by itself is another one from now on; what it has stays.
    pub(crate) fn set_own_mtu(&mut self, index: u32, mtu: u16) {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.own_mtu = mtu;
        }
    }

    /// Says what an interface is to a bridge domain from now on, and answers what it was.
    pub(crate) fn set_membership(&mut self, index: u32, member: Option<Membership>) -> Option<Membership> {
        std::mem::replace(&mut self.interfaces.get_mut(index)?.membership, member)
    }

    /// Their numbers from one on, in the order of these.
    pub fn numbers_from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.interfaces.numbers_from(first)
    }

    /// Those of them that stand behind a place ([`IfState::order`]).
    pub fn interfaces_after(&self, place: Option<Order>) -> impl Iterator<Item = &IfState> {
        self.interfaces.after(place)
    }

    /// The number of the interface called `name`.
    pub fn interface_index(&self, name: &str) -> Option<u32> {
        self.interfaces.by_name.get(name).copied()
    }

    /// Whether all frames of another interface go to this one.
    pub fn is_xconnect_target(&self, index: u32) -> bool {
        self.interfaces.xconnected.contains_key(&index)
    }

    /// The name of an interface, or its number when it is gone.
    pub fn interface_name(&self, index: u32) -> String {
        self.interfaces.get(index).map_or_else(|| format!("#{index}"), |i| i.name.clone())
    }

    /// Its MAC address; a sub-interface has its parent's.
    pub fn mac_of(&self, index: u32) -> MacAddr {
        self.interfaces.get(index).and_then(|i| self.interfaces.get(i.hw())).map_or(MacAddr::ZERO, |i| i.mac)
    }

    /// Times so far that what workers see of an interface was written.
    pub fn interfaces_published(&self) -> u64 {
        self.interfaces.stores
    }

    /// Whether packets can be sent: it and its parent are up and have link.
    pub fn is_usable(&self, index: u32) -> bool {
        self.interfaces.get(index).is_some_and(|i| {
            let parent = self.interfaces.get(i.hw());
            i.up && parent.is_some_and(|p| p.up && p.link)
        })
    }
}
