//! Interfaces: what the operator set, and what workers see of it.

use super::connected::Connected;
use super::devices::{Device, DeviceControl};
use super::placement::Input;
use super::{Membership, Op, OpError, PortFeatures, Router, TagChange};
use crate::interface::{Features, Interface, MtuOf, Tags, ifflags};
use crate::l2::Retag;
use crate::neighbor::Millis;
use crate::neighbor::address::LinkSettings;
use graph::TxCaps;
use ipnet::{IpNet, Ipv6Net};
use packet::eth::MacAddr;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tables::slots::SlotsWriter;
use tables::vlan::{Match, Tpid, Vid, VlanTable};

/// Which tagged frames a sub-interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encap {
    /// One tag, or two.
    Tags {
        /// 802.1ad outer tag instead of 802.1Q.
        dot1ad: bool,
        /// Outer VLAN; `None`: any.
        outer: Option<u16>,
        /// Inner 802.1Q tag: `None`: no inner tag named; `Some(None)`: any.
        inner: Option<Option<u16>>,
        /// Exactly these tags, not more.
        exact: bool,
    },
    /// Frames without a tag.
    Untagged,
    /// Whatever no other sub-interface takes.
    Default,
}

impl Encap {
    /// Tags of its frames that are known by number.
    pub fn known_tags(self) -> u8 {
        match self {
            Encap::Tags { outer: Some(_), inner, .. } => 1 + u8::from(inner.flatten().is_some()),
            _ => 0,
        }
    }

    /// The same for two that take the same frames, which cannot stand under one interface.
    pub(super) fn frames(self) -> Encap {
        match self {
            Encap::Tags { dot1ad, outer, inner, .. } => Encap::Tags { dot1ad, outer, inner, exact: false },
            other => other,
        }
    }
}

/// What stands behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `local0`: nothing.
    Local,
    /// A driver's device.
    Device,
    /// Nothing but its addresses.
    Loopback,
    /// An MPLS tunnel.
    MplsTunnel {
        /// For frames.
        l2: bool,
    },
    /// Tagged frames of another interface.
    Sub {
        /// The interface.
        parent: u32,
        /// The operator's number for it.
        id: u32,
        /// Which frames.
        encap: Encap,
    },
}

/// The place of an interface among all others: its number, or for sub-interfaces that of the interface that they are of, behind
/// which they stand by their own.
pub type Order = (u32, Option<u32>);

/// One interface on the control side.
pub struct IfState {
    /// Its number (VPP: sw_if_index).
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What stands behind it.
    pub kind: Kind,
    /// Operation that made it.
    pub origin: Op,
    /// Free text.
    pub description: Option<String>,
    /// Administratively up.
    pub up: bool,
    /// The device's link.
    pub link: bool,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Its MAC address (a sub-interface has its parent's).
    pub mac: MacAddr,
    /// The MAC address that it had when it was made.
    pub own_mac: MacAddr,
    /// The operator chose its MAC address.
    pub mac_set: bool,
    /// Takes frames for any station.
    pub promiscuous: bool,
    /// Its addresses as configured.
    pub addresses: Vec<IpNet>,
    /// Its IPv6 link-local address, made when it gets its first IPv6 address.
    pub link_local: Option<Ipv6Addr>,
    /// The link-local address that the operator chose in place of the one made from the MAC address.
    pub own_link_local: Option<Ipv6Net>,
    /// The interface to which all its frames go.
    pub xconnect: Option<u32>,
    /// What it is to its bridge domain.
    pub membership: Option<Membership>,
    /// What becomes of the tags of its frames on layer 2; none: they stay as they are.
    pub tag_change: Option<TagChange>,
    /// What its bridge domain may do with its frames.
    pub port_features: PortFeatures,
    /// The most addresses that are learned on it.
    pub mac_limit: Option<u32>,
    /// What the counters of addresses said when it came into its bridge domain.
    pub(super) mac_events: (u64, u64),
    /// Features that the operator switched on.
    pub features: Features,
    /// The interface whose addresses it has as its own.
    pub unnumbered: Option<u32>,
    /// Sub-interfaces by the operator's number.
    pub subs: BTreeMap<u32, u32>,
    /// Places of its IPv4 and IPv6 table.
    pub(super) tables: [u32; 2],
    /// Which of them takes which frames.
    pub(super) by_encap: HashMap<Encap, u32>,
    /// The same as workers see it.
    vlans: Option<Arc<VlanTable>>,
    /// IPv6 addresses that may be used.
    pub(super) usable6: Vec<Ipv6Addr>,
    caps: TxCaps,
    device: Option<Box<dyn DeviceControl>>,
    /// Its device's receive queues.
    pub(super) inputs: Vec<Input>,
    /// Workers that the operator chose, by number of the receive queue.
    pub placed: BTreeMap<usize, usize>,
    /// Packets that devices dropped that stood behind it before this one.
    pub(super) earlier_drops: Vec<(&'static str, u64)>,
    /// Why its device, which is back, cannot be opened, as it was told.
    pub(super) trouble: Option<String>,
    /// When its device came back.
    pub(super) returned: Option<Millis>,
    pub(super) rx_features: Arc<AtomicU32>,
    pub(super) tx_features: u32,
}

impl IfState {
    /// The largest packet of a protocol that is sent, bytes.
    pub fn mtu_of(&self, of: MtuOf) -> u16 {
        match self.features.mtu(of) {
            0 => self.mtu,
            own => own.min(self.mtu),
        }
    }

    /// The tags it puts in front of frames.
    pub fn tags(&self) -> Tags {
        let Kind::Sub { encap: Encap::Tags { dot1ad, outer: Some(outer), inner, .. }, .. } = self.kind else {
            return Tags::default();
        };
        let mut t = Tags { count: 1, bytes: [0; 8] };
        t.bytes[..2].copy_from_slice(&if dot1ad { 0x88a8u16 } else { 0x8100 }.to_be_bytes());
        t.bytes[2..4].copy_from_slice(&outer.to_be_bytes());
        if let Some(Some(inner)) = inner {
            t.count = 2;
            t.bytes[4..6].copy_from_slice(&0x8100u16.to_be_bytes());
            t.bytes[6..8].copy_from_slice(&inner.to_be_bytes());
        }
        t
    }

    /// Place of its table of a family.
    pub(super) fn table(&self, v6: bool) -> u32 {
        self.tables[usize::from(v6)]
    }

    /// The number of the interface whose queues carry its frames.
    pub fn hw(&self) -> u32 {
        if let Kind::Sub { parent, .. } = self.kind { parent } else { self.index }
    }

    /// Where it stands among all interfaces.
    pub fn order(&self) -> Order {
        let Kind::Sub { parent, id, .. } = self.kind else { return (self.index, None) };
        (parent, Some(id))
    }

    /// The driver's words about its device.
    pub fn device(&self) -> Option<&dyn DeviceControl> {
        self.device.as_deref()
    }

    pub(super) fn device_mut(&mut self) -> Option<&mut Box<dyn DeviceControl>> {
        self.device.as_mut()
    }

    pub(super) fn set_device(&mut self, device: Box<dyn DeviceControl>) {
        self.device = Some(device);
    }

    /// Packets that its devices dropped before they reached the graph, by reason.
    pub fn device_drops(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.device.as_ref().map(|d| d.drops()).unwrap_or_default();
        for (reason, n) in &self.earlier_drops {
            match all.iter_mut().find(|d| d.0 == *reason) {
                Some(d) => d.1 += n,
                None => all.push((reason, *n)),
            }
        }
        all
    }

    /// Its IPv6 addresses that are not usable (yet).
    pub fn unusable6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.all6().filter(|a| !self.usable6.contains(a))
    }

    /// All addresses that the operator gave it.
    pub fn configured(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.own_link_local.map(IpNet::V6).into_iter().chain(self.addresses.iter().copied())
    }

    /// Whether it has an IPv6 address of the operator's.
    pub fn has_ip6(&self) -> bool {
        self.configured().any(|a| a.addr().is_ipv6())
    }

    fn all6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let configured = self.addresses.iter().filter_map(|a| match a.addr() {
            IpAddr::V6(a) => Some(a),
            IpAddr::V4(_) => None,
        });
        self.link_local.into_iter().chain(configured)
    }
}

pub(crate) struct Interfaces {
    pub slots: SlotsWriter<Interface>,
    by_index: BTreeMap<u32, IfState>,
    by_name: HashMap<String, u32>,
    /// Who has which address: by place of the table, and whether it is one of IPv6.
    connected: HashMap<(u32, bool), Connected>,
    /// Targets of cross-connects, each with the interface whose target it is.
    pub xconnected: HashMap<u32, u32>,
    /// Times that an interface was written for workers.
    stores: u64,
}

impl Interfaces {
    pub fn new(slots: SlotsWriter<Interface>) -> Self {
        Interfaces {
            slots,
            by_index: BTreeMap::new(),
            by_name: HashMap::new(),
            connected: HashMap::new(),
            xconnected: HashMap::new(),
            stores: 0,
        }
    }

    pub fn get(&self, index: u32) -> Option<&IfState> {
        self.by_index.get(&index)
    }

    pub fn get_mut(&mut self, index: u32) -> Option<&mut IfState> {
        self.by_index.get_mut(&index)
    }

    /// In the order of a document: each with its sub-interfaces behind it, so that a restart keeps it. Those behind a place
    /// in this order ([`IfState::order`]).
    pub fn after(&self, place: Option<Order>) -> impl Iterator<Item = &IfState> {
        let (first, by_index) = (place.map_or(0, |(whole, _)| whole), &self.by_index);
        let whole = by_index.range(first..).map(|(_, i)| i).filter(|i| !matches!(i.kind, Kind::Sub { .. }));
        whole.flat_map(move |i| {
            let within = place.filter(|(whole, _)| *whole == i.index);
            let behind = within.and_then(|(_, id)| id).map_or(Bound::Unbounded, Bound::Excluded);
            let subs = i.subs.range((behind, Bound::Unbounded)).filter_map(|(_, s)| by_index.get(s));
            within.is_none().then_some(i).into_iter().chain(subs)
        })
    }

    /// All of them in this order.
    pub fn iter(&self) -> impl Iterator<Item = &IfState> {
        let whole = self.by_index.values().filter(|i| !matches!(i.kind, Kind::Sub { .. }));
        let subs = |i: &IfState| i.subs.values().copied().collect::<Vec<u32>>();
        whole.flat_map(move |i| {
            std::iter::once(i).chain(subs(i).into_iter().filter_map(|s| self.by_index.get(&s)))
        })
    }

    /// Who has which address of a table.
    pub fn connected(&self, place: u32, v6: bool) -> Option<&Connected> {
        self.connected.get(&(place, v6))
    }

    pub fn connect(&mut self, place: u32, index: u32, net: IpNet) {
        self.connected.entry((place, net.addr().is_ipv6())).or_default().add(index, net);
    }

    pub fn disconnect(&mut self, place: u32, index: u32, net: IpNet) {
        let key = (place, net.addr().is_ipv6());
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

fn blank() -> Interface {
    Interface {
        flags: 0,
        mtu: 1500,
        mac: [0; 6],
        hw: 0,
        caps: TxCaps::default(),
        ip4_unicast: 0,
        ip6_unicast: 0,
        output: 0,
        features: Features::default(),
        table4: 0,
        table6: 0,
        tags: Tags::default(),
        xconnect: None,
        bridge: None,
        retag: Retag::default(),
        tunnel: None,
        subs: None,
        addrs4: Box::default(),
        addrs6: Box::default(),
        groups4: Box::default(),
        groups6: Box::default(),
        tentative6: Box::default(),
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
            .insert(blank())
            .map_err(|_| OpError::new("no room for another interface"))?;
        self.plane.counters.drops.reserve(index);
        Ok(index)
    }

    pub(super) fn release_index(&mut self, index: u32) {
        self.interfaces.slots.remove(index);
        self.plane.briefs.set(index, None);
    }

    pub(super) fn insert_interface(&mut self, index: u32, new: NewInterface) {
        self.interfaces.by_name.insert(new.name.clone(), index);
        let state = IfState {
            index,
            name: new.name,
            kind: new.kind,
            origin: new.origin,
            description: None,
            up: false,
            link: new.link,
            mtu: new.mtu,
            mac: new.mac,
            own_mac: new.own_mac.unwrap_or(new.mac),
            mac_set: new.own_mac.is_some(),
            promiscuous: false,
            addresses: vec![],
            link_local: None,
            own_link_local: None,
            xconnect: None,
            membership: None,
            tag_change: None,
            port_features: PortFeatures::default(),
            mac_limit: None,
            mac_events: (0, 0),
            features: Features::default(),
            unnumbered: None,
            subs: BTreeMap::new(),
            tables: [0; 2],
            by_encap: HashMap::new(),
            vlans: None,
            usable6: vec![],
            caps: TxCaps::default(),
            device: None,
            inputs: vec![],
            placed: BTreeMap::new(),
            earlier_drops: vec![],
            trouble: None,
            returned: None,
            rx_features: Arc::new(AtomicU32::new(0)),
            tx_features: 0,
        };
        self.interfaces.by_index.insert(index, state);
        self.start_counts(index);
        self.forget_rates(index);
        if let Kind::Sub { parent, id, encap } = new.kind {
            if let Some(p) = self.interfaces.get_mut(parent) {
                p.subs.insert(id, index);
                p.by_encap.insert(encap.frames(), index);
            }
            self.subs_changed.entry(parent).or_default().push((encap, Some(index)));
        }
        self.publish_interface(index);
        self.apply_capture_to(vec![index]);
    }

    /// Shows workers the sub-interfaces that this transaction made and took out: once, however many there are.
    pub(super) fn publish_subs(&mut self) {
        for (parent, changes) in std::mem::take(&mut self.subs_changed) {
            let p = self.interfaces.get(parent);
            let table = p.and_then(|p| changed(p, &changes).or_else(|| self.vlan_table(p))).map(Arc::new);
            if let Some(p) = self.interfaces.get_mut(parent) {
                p.vlans = table;
            }
            self.publish_interface(parent);
        }
        for index in std::mem::take(&mut self.subs_gone) {
            self.release_index(index);
        }
    }

    /// Gives a device's queues to the workers.
    pub(super) fn attach(&mut self, index: u32, device: Device) -> Result<(), OpError> {
        let workers = self.workers.len();
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        i.caps = device.caps;
        i.device = Some(device.control);
        for (w, q) in device.tx.into_iter().enumerate().take(workers) {
            self.workers[w].send(move |w| {
                if let Some(tx) = w.dispatcher.node_mut::<crate::interface::InterfaceTx>("interface-tx") {
                    drop(tx.set(index, Some(q)));
                }
            });
        }
        for q in device.rx {
            self.place_queue(index, q)?;
        }
        self.publish_interface(index);
        Ok(())
    }

    /// Gives worker 0 a transmit queue for an interface that has none: for benchmarks and tests without a device.
    pub fn test_sink(&mut self, name: &str, queue: Box<dyn graph::TxQueue>) {
        let Some(index) = self.interface_index(name) else { return };
        if let Some(w) = self.workers.first() {
            w.send(move |w| {
                if let Some(tx) = w.dispatcher.node_mut::<crate::interface::InterfaceTx>("interface-tx") {
                    drop(tx.set(index, Some(queue)));
                }
            });
        }
    }

    pub(super) fn detach(&mut self, index: u32) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let inputs = std::mem::take(&mut i.inputs);
        for Input { worker, id, .. } in inputs {
            let old = self.workers[worker].call(move |w| w.remove_input(id));
            drop(old);
        }
        for w in &self.workers {
            let old = w.call(move |w| {
                w.dispatcher
                    .node_mut::<crate::interface::InterfaceTx>("interface-tx")
                    .and_then(|tx| tx.set(index, None))
            });
            drop(old);
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.device = None;
        }
    }

    /// Takes an interface out with its sub-interfaces, addresses and neighbours. The caller has checked that nothing
    /// else refers to it.
    pub(super) fn remove_interface(&mut self, index: u32) {
        let subs: Vec<u32> =
            self.interfaces.get(index).map(|i| i.subs.values().copied().collect()).unwrap_or_default();
        for s in subs {
            self.remove_interface(s);
        }
        self.subs_changed.remove(&index);
        let addresses: Vec<IpNet> =
            self.interfaces.get(index).map(|i| i.configured().collect()).unwrap_or_default();
        for a in addresses {
            let _ = self.del_address(index, a);
        }
        self.forget_urpf(index);
        self.bind(index, false, 0);
        self.bind(index, true, 0);
        self.leave_bridge(index, false);
        self.set_link_state(index, false, false);
        let mut out = vec![];
        self.adverts.removed(index);
        self.forget_groups(index);
        if let Some(lender) = self.interfaces.get(index).and_then(|i| i.unnumbered) {
            self.borrowers.remove(&(lender, index));
        }
        self.neighbors.interface_removed(index, &mut out);
        self.carry_out(out);
        self.drop_held(index);
        self.tunnel_removed(index);
        let sub = self.interfaces.get(index).is_some_and(|i| matches!(i.kind, Kind::Sub { .. }));
        if !sub {
            self.detach(index);
        }
        let Some(i) = self.interfaces.by_index.remove(&index) else { return };
        self.interfaces.by_name.remove(&i.name);
        if let Some(peer) = i.xconnect {
            self.interfaces.xconnected.remove(&peer);
        }
        match i.kind {
            Kind::Sub { parent, id, encap } => {
                if let Some(p) = self.interfaces.get_mut(parent) {
                    p.subs.remove(&id);
                    p.by_encap.remove(&encap.frames());
                }
                self.subs_changed.entry(parent).or_default().push((encap, None));
                self.subs_gone.push(index);
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

    /// Writes what workers see of an interface.
    pub(super) fn publish_interface(&mut self, index: u32) {
        let reports = self.sync_groups(index);
        let (groups4, groups6) = self.published_groups(index);
        let Some(i) = self.interfaces.get(index) else { return };
        let Some(hw) = self.interfaces.get(i.hw()) else { return };
        let mut flags = 0;
        let mut set = |on: bool, bit: u16| flags |= if on { bit } else { 0 };
        set(i.up && hw.up, ifflags::UP);
        set(hw.link, ifflags::LINK);
        let bvi = i.membership.is_some_and(|m| m.bvi);
        set(i.xconnect.is_some() || i.membership.is_some() && !bvi, ifflags::L2);
        set(bvi, ifflags::BVI);
        set(i.features.mpls, ifflags::MPLS);
        set(i.promiscuous, ifflags::PROMISC);
        let prefixes = self.prefixes_of(i);
        let addrs4: Vec<(u32, u8)> = prefixes
            .iter()
            .filter_map(|a| match a {
                IpNet::V4(a) => Some((u32::from(a.addr()), a.prefix_len())),
                IpNet::V6(_) => None,
            })
            .collect();
        let len6 =
            |a: Ipv6Addr| prefixes.iter().find(|n| n.addr() == IpAddr::V6(a)).map_or(64, IpNet::prefix_len);
        let lent = i.unnumbered.and_then(|l| self.interfaces.get(l));
        let lent6 =
            lent.into_iter().flat_map(|l| l.usable6.iter().copied().filter(|a| Some(*a) != l.link_local));
        let addrs6: Vec<(u128, u8)> = i
            .all6()
            .filter(|a| i.usable6.contains(a))
            .chain(lent6)
            .map(|a| (u128::from(a), len6(a)))
            .collect();
        let tentative6: Vec<u128> = i.unusable6().map(u128::from).collect();
        // Packets may come back from where IPv4 goes over IPv6 neighbours (RFC 8950).
        set(!addrs4.is_empty() || self.adjacencies.carries_ip4(index), ifflags::IP4);
        set(i.all6().next().is_some(), ifflags::IP6);
        set(lent.is_some(), ifflags::UNNUMBERED);
        set(self.adverts.config(index).is_some(), ifflags::ADVERTISES);
        let bits = self.feature_bits(i);
        let content = Interface {
            flags,
            mtu: i.mtu,
            mac: hw.mac.0,
            hw: hw.index,
            caps: hw.caps,
            ip4_unicast: bits.ip4,
            ip6_unicast: bits.ip6,
            output: hw.tx_features | self.tunnel_feature(hw.index),
            features: i.features,
            table4: i.table(false),
            table6: i.table(true),
            tags: i.tags(),
            xconnect: i.xconnect,
            bridge: self.bridge_port(i),
            retag: i.retag(),
            tunnel: self.frame_tunnel(index),
            subs: i.vlans.clone(),
            addrs4: addrs4.into(),
            addrs6: addrs6.into(),
            groups4,
            groups6,
            tentative6: tentative6.into(),
        };
        // What sub-interfaces have from their interface.
        let handed_on = |i: &Interface| (i.mac, i.caps, i.output, i.flags & (ifflags::UP | ifflags::LINK));
        let same = self.interfaces.slots.get(index).is_some_and(|was| handed_on(was) == handed_on(&content));
        let subs: Vec<u32> = if same { vec![] } else { i.subs.values().copied().collect() };
        let plain = self.is_plain(index);
        self.interfaces.stores += 1;
        self.plane.briefs.set(index, Some(&content));
        self.interfaces.slots.replace(index, content);
        if plain != self.is_plain(index) {
            self.refresh_adjacencies(index);
        }
        self.carry_out_multicast(reports);
        for s in subs {
            self.publish_interface(s);
        }
    }

    /// Whether workers would find nothing to do for a packet in `interface-output`.
    pub(super) fn is_plain(&self, index: u32) -> bool {
        self.interfaces.slots.get(index).is_some_and(|i| i.is_plain(index))
    }

    fn vlan_table(&self, parent: &IfState) -> Option<VlanTable> {
        if parent.subs.is_empty() {
            return None;
        }
        let rule = |index: u32| {
            let Kind::Sub { encap, .. } = self.interfaces.get(index)?.kind else { return None };
            Some((rule_of(encap), index))
        };
        let rules: Vec<(Match, u32)> = parent.subs.values().filter_map(|i| rule(*i)).collect();
        // Two rules for the same frames were refused when the second sub-interface was made.
        VlanTable::build(&rules).ok()
    }

    /// Changes administrative and link state, and tells whoever depends on them.
    pub(crate) fn set_link_state(&mut self, index: u32, up: bool, link: bool) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        (i.up, i.link) = (up, link);
        if matches!(i.kind, Kind::Sub { .. }) {
            i.link = true;
        }
        let mut all: Vec<u32> = vec![index];
        all.extend(i.subs.values());
        // Routes leave an interface before anything else is done about it, and come to one that is ready.
        let usable = self.is_usable(index);
        if !usable {
            all.iter().for_each(|i| self.forget_dead(*i));
            self.refresh_groups(&all);
        }
        self.publish_interface(index);
        for &index in &all {
            self.follow_state(index);
        }
        if usable {
            self.refresh_groups(&all);
        }
    }

    /// The neighbour and address machines follow the state of an interface.
    fn follow_state(&mut self, index: u32) {
        let (usable, mac, now) = (self.is_usable(index), self.mac_of(index), self.now());
        let (mut n, mut a) = (vec![], vec![]);
        if usable {
            self.neighbors.interface_up(index, &mut n);
            let shared = self.interfaces.get(index).is_some_and(|i| !i.is_alone());
            let dad = self.config.dad;
            self.addresses.link_up(now, index, LinkSettings { mac, dad, shared }, &mut a);
            self.adverts.link_up(now, index);
        } else {
            self.neighbors.interface_down(index, &mut n);
            self.addresses.link_down(index, &mut a);
            self.adverts.link_down(index);
            self.multicast.link_down(index);
        }
        self.carry_out(n);
        self.carry_out_addresses(a);
        self.sync_own_routes(index);
        if usable {
            let mut out = vec![];
            self.multicast.link_up(now, index, &mut out);
            self.carry_out_multicast(out);
        }
    }

    pub(super) fn set_mac(&mut self, index: u32, mac: MacAddr) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        if let Some(d) = &mut i.device {
            d.set_mac(mac)
                .map_err(|e| OpError::new(format!("{}: cannot set the MAC address: {e}", i.name)))?;
        }
        i.mac = mac;
        let mut all: Vec<u32> = vec![index];
        all.extend(i.subs.values());
        for &n in &all {
            self.renew_link_local(n)?;
        }
        self.publish_interface(index);
        self.follow_bvi(index)?;
        for n in all {
            self.refresh_adjacencies(n);
            if self.is_usable(n) {
                self.follow_state(n);
            }
        }
        Ok(())
    }

    fn renew_link_local(&mut self, index: u32) -> Result<(), OpError> {
        if self.interfaces.get(index).is_some_and(|i| i.link_local.is_some()) {
            self.set_link_local(index, false)?;
            self.set_link_local(index, true)?;
        }
        Ok(())
    }

    pub(super) fn set_mtu(&mut self, index: u32, mtu: u16) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        if let Some(d) = &mut i.device {
            d.set_mtu(mtu)
                .map_err(|e| OpError::new(format!("{}: cannot set the MTU to {mtu}: {e}", i.name)))?;
        }
        let less = std::mem::replace(&mut i.mtu, mtu) > mtu;
        let hw = i.hw();
        self.publish_interface(index);
        self.refresh_adjacencies(index);
        // Only what is less may ask for less of the device, and only then are all sub-interfaces looked at.
        if less {
            self.fit_device(hw)
        } else {
            self.fit_tagged(index)
        }
        Ok(())
    }

    /// Raises the Linux device behind a sub-interface whose tagged frames would be too long for it. A device that
    /// cannot be raised still carries shorter packets.
    pub(super) fn fit_tagged(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else { return };
        let more = i.tags().beyond_mtu();
        if more == 0 {
            return;
        }
        let (hw, bytes, name) = (i.hw(), u32::from(i.mtu) + more, i.name.clone());
        let Some(d) = self.interfaces.get_mut(hw).and_then(|h| h.device.as_mut()) else { return };
        if let Err(e) = d.fit_tagged(bytes) {
            self.note(
                true,
                format!("{name}: packets of full size do not pass, the Linux device needs MTU {bytes}: {e}"),
            );
        }
    }

    pub(super) fn set_promiscuous(&mut self, index: u32, on: bool) -> Result<(), OpError> {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.promiscuous = on;
        }
        self.follow_promiscuity(index)
    }

    pub(super) fn set_xconnect(&mut self, index: u32, peer: Option<u32>) -> Result<(), OpError> {
        if let Some(i) = self.interfaces.get_mut(index)
            && let Some(was) = std::mem::replace(&mut i.xconnect, peer)
        {
            self.interfaces.xconnected.remove(&was);
        }
        if let Some(peer) = peer {
            self.interfaces.xconnected.insert(peer, index);
        }
        self.follow_promiscuity(index)
    }

    /// A device takes frames for other stations when it, or one of its sub-interfaces, is promiscuous or
    /// cross-connected.
    pub(super) fn follow_promiscuity(&mut self, index: u32) -> Result<(), OpError> {
        let hw = self.interfaces.get(index).map_or(index, IfState::hw);
        let all = |i: &IfState| i.promiscuous || i.xconnect.is_some() || i.membership.is_some_and(|m| !m.bvi);
        let want = self
            .interfaces
            .get(hw)
            .is_some_and(|h| all(h) || h.subs.values().filter_map(|s| self.interfaces.get(*s)).any(all));
        if let Some(h) = self.interfaces.get_mut(hw)
            && let Some(d) = &mut h.device
        {
            d.set_promiscuous(want)
                .map_err(|e| OpError::new(format!("{}: cannot change promiscuous mode: {e}", h.name)))?;
        }
        self.publish_interface(index);
        Ok(())
    }

    /// Switches the capture features of all interfaces on or off, as the capture's filter says.
    pub(super) fn apply_capture(&mut self) {
        self.apply_capture_to(self.interfaces.iter().map(|i| i.index).collect());
    }

    fn apply_capture_to(&mut self, interfaces: Vec<u32>) {
        let wants = self.tap.wants(&self.guard);
        let rx_bit = self.feature_bit(crate::nodes::DEVICE_INPUT, "pcap-rx");
        let tx_bit = self.feature_bit("interface-output", "pcap-tx");
        for index in interfaces {
            if self.interfaces.get(index).is_none_or(|i| i.hw() != index) {
                continue;
            }
            let (rx, tx) = wants.as_ref().map_or((false, false), |w| (w.rx(index), w.tx(index)));
            let Some(i) = self.interfaces.get_mut(index) else { continue };
            i.rx_features.store(if rx { rx_bit } else { 0 }, Ordering::Relaxed);
            let tx = if tx { tx_bit } else { 0 };
            if i.tx_features != tx {
                i.tx_features = tx;
                self.publish_interface(index);
            }
        }
    }
}

/// What packets a sub-interface takes, as its parent's table has it.
fn rule_of(encap: Encap) -> Match {
    let vid = |v: Option<u16>| v.map_or(Vid::Any, Vid::Id);
    match encap {
        Encap::Untagged => Match::Untagged,
        Encap::Default => Match::Default,
        Encap::Tags { dot1ad, outer, inner, exact } => {
            let tpid = if dot1ad { Tpid::Dot1ad } else { Tpid::Dot1q };
            Match::Tagged { tpid, outer: vid(outer), inner: inner.map(vid), exact }
        }
    }
}

/// The table of a parent of thousands after a few changes, where that does not take going through all of them.
fn changed(parent: &IfState, changes: &[(Encap, Option<u32>)]) -> Option<VlanTable> {
    let was = parent.vlans.as_ref().filter(|_| !parent.subs.is_empty() && changes.len() <= 8)?;
    let mut table = VlanTable::clone(was);
    changes.iter().all(|(encap, to)| table.change(rule_of(*encap), *to)).then_some(table)
}
