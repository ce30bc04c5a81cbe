//! Carries out what the neighbour and address machines say, and feeds them what workers heard.

use super::adjacencies::{AdjKey, Holder};
use super::attached::Again;
use super::workers::Workers;
use super::{Op, OpError, Router, Source, Target};
use crate::hold::{Ip4Hold, Ip6Hold, Key, Known, MplsHold};
use crate::icmp::Ask;
use crate::neighbor::address::AddressState;
use crate::neighbor::table::NeighborCounters;
use crate::neighbor::wire::{self, Local, Message as Frame};
use crate::neighbor::{
    Action, AddressAction, AddressConfig, AddressTable, Heard, Millis, NeighborConfig, NeighborInfo,
    NeighborTable, State,
};
use crate::punt::{Message, PuntKind, Punted, Request};
use graph::clock::Clock;
use graph::flags;
use ipnet::IpNet;
use packet::eth::{EtherType, MacAddr};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

/// How often traffic to stale neighbours is looked for, milliseconds.
const USE_CHECK: u64 = 1000;
/// Packets are not held longer than this, nanoseconds: a guard for lost messages.
const HOLD_LIMIT_NS: u64 = 10_000_000_000;
const PUNTS_A_TURN: usize = 4096;

struct View<'a> {
    router: &'a Router,
    interface: u32,
}

impl Local for View<'_> {
    fn mac(&self) -> MacAddr {
        self.router.mac_of(self.interface)
    }

    fn address(&self, addr: IpAddr) -> Option<AddressState> {
        // One that another station has is that station's.
        let ours = |s: &AddressState| *s != AddressState::Duplicate;
        let state = |interface| self.router.neighbors.addresses.state(interface, addr).filter(ours);
        // A link-local address is that of its own link.
        let lent = || {
            Some(self.router.interfaces.lender(self.interface))
                .filter(|l| Some(addr) != self.router.link_local(*l).map(IpAddr::V6))
        };
        state(self.interface).or_else(|| lent().and_then(state))
    }

    fn is_anycast(&self, addr: IpAddr) -> bool {
        self.router.interfaces.is_anycast(self.interface, addr)
    }

    fn on_link(&self, addr: IpAddr) -> bool {
        self.router.on_link(self.interface, addr)
    }
}

/// The neighbours, the router's own addresses on their links, and what is kept of both for workers.
pub(super) struct Neighbors {
    pub table: NeighborTable,
    pub addresses: AddressTable,
    /// Adjacency counters at the last look, of stale neighbours: traffic makes them worth probing.
    seen_use: BTreeMap<(u32, IpAddr), u64>,
    pub next_use_check: Millis,
    /// Neighbours whose adjacency is kept as workers find it by their address: not all have a route that keeps it.
    pub known: BTreeSet<AdjKey>,
    /// Those of them whose host routes are looked at in the turns that follow.
    pub again: Again,
}

impl Neighbors {
    /// None, and no address; `seed` is for times that are chosen at random.
    pub fn new(config: NeighborConfig, seed: u64) -> Self {
        Neighbors {
            table: NeighborTable::new(config, seed),
            addresses: AddressTable::new(AddressConfig::default(), seed),
            seen_use: BTreeMap::new(),
            next_use_check: Millis(0),
            known: BTreeSet::new(),
            again: Again::default(),
        }
    }
}

impl Workers {
    /// Tells the senders of packets that wait for a neighbour that it is unreachable.
    pub fn fail_held(&mut self, interface: u32, addr: IpAddr) {
        let key = Key::new(interface, addr);
        for w in &self.handles {
            w.send(move |w| {
                for from in Holder::ALL {
                    let (target, aux) = match from {
                        Holder::Ip4 => ("ip4-icmp-error", Ask::V4_HOST_UNREACHABLE.word()),
                        Holder::Ip6 => ("ip6-icmp-error", Ask::V6_ADDRESS_UNREACHABLE.word()),
                        Holder::Mpls => ("mpls-icmp-error", crate::icmp::MplsAsk::UNREACHABLE.word()),
                    };
                    take_held(w, from, |h, out| h.take(key, |d| out.push(d)), target, |d| d.aux = aux);
                }
            });
        }
    }

    pub fn drop_old(&mut self, before_ns: u64, interface: Option<u32>) {
        for w in &self.handles {
            w.send(move |w| {
                for from in Holder::ALL {
                    let take = |h: &mut crate::hold::Waiting, out: &mut Vec<graph::Desc>| {
                        h.take_old(before_ns, interface, |d| out.push(d));
                    };
                    take_held(w, from, take, "error-drop", |d| d.aux = graph::trace::NO_REASON);
                }
            });
        }
    }
}

impl Router {
    /// Workers tell the time by their own clock: what is to be added to it.
    pub(super) fn set_wall(&self) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        self.plane.wall.store(wall.wrapping_sub(Clock::new().now_ns()), Relaxed);
    }

    /// Sends a frame out of an interface.
    pub(crate) fn send_frame(&mut self, interface: u32, frame: &Frame) {
        self.send_frame_from(interface, self.mac_of(interface), frame);
    }

    /// The same with another source address than that of the interface.
    pub(crate) fn send_frame_from(&mut self, interface: u32, source: MacAddr, frame: &Frame) {
        let tags: Vec<(EtherType, u16)> = self.interfaces.get(interface).map_or(vec![], |i| {
            let t = i.tags();
            let words = t.as_slice().chunks_exact(4);
            words
                .map(|w| (EtherType(u16::from_be_bytes([w[0], w[1]])), u16::from_be_bytes([w[2], w[3]])))
                .collect()
        });
        let bytes = frame.frame(source, &tags);
        if let Some(w) = self.workers.handles.first() {
            w.send(move |w| {
                w.inject("interface-output", &bytes, |d| {
                    d.tx = interface;
                    d.rx = interface;
                    d.flags |= flags::LOCAL;
                });
            });
        }
    }

    /// The address of an interface from which to speak to a host on its link.
    pub(crate) fn source_towards(&self, interface: u32, target: IpAddr) -> Option<IpAddr> {
        let i = self.plane.interfaces.get(interface, &self.grace.guard)?;
        match target {
            IpAddr::V4(t) => i.source4(t.into()).map(|a| IpAddr::V4(a.into())),
            IpAddr::V6(t) => i.source6(t.into()).map(|a| IpAddr::V6(a.into())),
        }
    }

    pub(super) fn carry_out(&mut self, actions: Vec<Action>) {
        self.tell_neighbors();
        for a in actions {
            match a {
                Action::Solicit { interface, target, unicast, .. } => {
                    let Some(source) = self.source_towards(interface, target) else { continue };
                    if let Some(f) = wire::solicit(self.mac_of(interface), source, target, unicast) {
                        self.plane.police.expected.asked(interface, target, Clock::new().now_ns());
                        self.send_frame(interface, &f);
                    }
                }
                Action::Publish { interface, addr, mac } => self.publish_neighbor(interface, addr, mac),
                Action::Withdraw { interface, addr } => {
                    self.plane.police.expected.forget(interface, addr);
                    self.follow_failure(interface, addr);
                    for key in self.adjacencies.keys(interface, addr) {
                        self.set_adjacency_mac(key, None);
                    }
                    self.unroute_neighbor(interface, addr);
                }
                Action::Failed { interface, addr } => {
                    self.follow_failure(interface, addr);
                    self.workers.fail_held(interface, addr);
                }
                Action::Log(line) => {
                    let name = self.interface_name(line.interface());
                    self.note(true, format!("{name}: {line}"));
                }
            }
        }
    }

    fn publish_neighbor(&mut self, interface: u32, addr: IpAddr, mac: MacAddr) {
        self.plane.police.expected.known(interface, addr, Clock::new().now_ns());
        let key = AdjKey::Neighbor(interface, addr, 0);
        for key in self.adjacencies.keys(interface, addr) {
            self.set_adjacency_mac(key, Some(mac));
        }
        self.route_neighbor(interface, addr);
        if !self.neighbors.known.contains(&key)
            && let Some(adjacency) = self.hold_adjacency(key)
        {
            self.neighbors.known.insert(key);
            self.plane.shared::<Known>().set(
                interface,
                addr,
                Some(adjacency),
                &self.grace.guard,
                &mut self.grace.reclaimer,
            );
        }
        self.set_adjacency_mac(key, Some(mac));
        self.next_hop_found(interface, addr);
        for key in self.adjacencies.keys(interface, addr) {
            self.release_held(key);
        }
    }

    /// Moves routes away from a neighbour that did not answer.
    fn follow_failure(&mut self, interface: u32, addr: IpAddr) {
        if self.neighbors.table.get(interface, addr).is_some_and(|n| n.state == State::Failed) {
            self.next_hop_lost(interface, addr);
        }
    }

    fn unroute_neighbor(&mut self, interface: u32, addr: IpAddr) {
        let key = AdjKey::Neighbor(interface, addr, 0);
        if self.neighbors.known.remove(&key) {
            self.plane.shared::<Known>().set(
                interface,
                addr,
                None,
                &self.grace.guard,
                &mut self.grace.reclaimer,
            );
            self.release_adjacency_key(key);
        }
        let place = self.table_of(interface, addr.is_ipv6());
        if self.route_at(place, addr.into(), Source::Neighbor) == Some(Target::Neighbor(interface, addr)) {
            self.clear_route(place, addr.into(), Source::Neighbor);
        }
        self.forget_attached(interface, addr);
        self.neighbors.seen_use.remove(&(interface, addr));
    }

    /// Sends the packets that wait for a neighbour and take this adjacency.
    fn release_held(&mut self, to: AdjKey) {
        let Some((interface, addr)) = to.neighbor() else { return };
        let Some((adj, pin)) = self.pin_adjacency(to) else { return };
        let (key, from) = (Key::new(interface, addr), to.holder());
        for w in &self.workers.handles {
            let pin = Arc::clone(&pin);
            w.send(move |w| {
                let _until_they_are_queued = pin;
                let target = match from {
                    Holder::Ip4 => "ip4-rewrite",
                    Holder::Ip6 => "ip6-rewrite",
                    Holder::Mpls => "mpls-output",
                };
                take_held(w, from, |h, out| h.take(key, |d| out.push(d)), target, |d| d.aux = adj);
            });
        }
    }

    /// Drops the packets that wait for neighbours on an interface.
    pub(super) fn drop_held(&mut self, interface: u32) {
        self.workers.drop_old(0, Some(interface));
    }

    pub(super) fn carry_out_addresses(&mut self, actions: Vec<AddressAction>) {
        for a in actions {
            match a {
                AddressAction::SendDadNs { interface, target } => {
                    self.send_frame(interface, &wire::dad_ns(target))
                }
                AddressAction::SendUnsolicitedNa { interface, addr } => {
                    let f = wire::unsolicited_na(self.mac_of(interface), addr);
                    self.send_frame(interface, &f);
                }
                AddressAction::SendGratuitousArp { interface, addr } => {
                    let f = wire::gratuitous_arp(self.mac_of(interface), addr);
                    self.send_frame(interface, &f);
                }
                AddressAction::Usable { interface, addr: IpAddr::V6(a) } => {
                    self.set_usable6(interface, a, true)
                }
                AddressAction::Unusable { interface, addr: IpAddr::V6(a) } => {
                    self.set_usable6(interface, a, false)
                }
                AddressAction::Usable { .. } | AddressAction::Unusable { .. } => {}
                AddressAction::Duplicate { interface, addr, .. } => {
                    if let IpAddr::V6(a) = addr {
                        self.set_usable6(interface, a, false);
                    }
                }
                AddressAction::Log(line) => {
                    let name = self.interface_name(line.interface());
                    self.note(true, format!("{name}: {line}"));
                }
            }
        }
    }

    /// A host was heard of, with its MAC address where that was said.
    pub(crate) fn heard_of_neighbor(
        &mut self,
        now: Millis,
        interface: u32,
        host: IpAddr,
        mac: Option<MacAddr>,
        how: Heard,
    ) {
        let mut out = vec![];
        self.neighbors.table.heard(now, interface, host, mac, how, &mut out);
        self.carry_out(out);
    }

    /// A neighbour, where there is an entry for it.
    pub(crate) fn neighbor(&self, interface: u32, host: IpAddr) -> Option<NeighborInfo> {
        self.neighbors.table.get(interface, host)
    }

    /// The MAC address of a neighbour, where it is known.
    pub(crate) fn neighbor_mac(&self, interface: u32, host: IpAddr) -> Option<MacAddr> {
        self.neighbors.table.get(interface, host)?.mac
    }

    /// Takes what workers have handed over. Call when [`Router::punt_fd`] is readable. True when more may wait.
    pub fn handle_punts(&mut self) -> bool {
        self.plane.punt.acknowledge();
        for _ in 0..PUNTS_A_TURN {
            let Some(m) = self.plane.punt.pop() else { return false };
            let now = self.now();
            match m {
                // Nobody can answer.
                Message::Request(Request::Resolve { interface, .. }) if self.is_point_to_point(interface) => {
                    self.drop_held(interface);
                }
                Message::Request(Request::Resolve { interface, address }) => {
                    let mut out = vec![];
                    self.neighbors.table.resolve_wanted(now, interface, address, &mut out);
                    self.carry_out(out);
                }
                Message::Request(Request::MacTable) => self.tell_parts(|part, router| part.filled(router)),
                Message::Packet(Punted { kind, interface, bytes, .. }) => {
                    let bytes = &bytes[..];
                    match kind {
                        PuntKind::Arp | PuntKind::Nd | PuntKind::Anycast
                            if !self.is_point_to_point(interface) =>
                        {
                            self.heard(now, interface, bytes);
                        }
                        _ => {}
                    }
                    let packet = super::Handed { interface, bytes };
                    for part in self.parts.all.iter().filter(|p| p.hears(kind)) {
                        part.heard(self, now, packet);
                    }
                }
            }
        }
        true
    }

    fn heard(&mut self, now: Millis, interface: u32, frame: &[u8]) {
        // The nodes have answered requests already; `reply` is for addresses that they do not answer for.
        let Ok(r) = wire::read(frame, &View { router: self, interface }) else { return };
        if let Some(n) = r.neighbor {
            self.heard_of_neighbor(now, interface, n.addr, n.mac, n.what);
        }
        if let Some(c) = r.conflict {
            let mut out = vec![];
            self.neighbors.addresses.conflict_seen(now, interface, c.addr, c.by, c.kind, &mut out);
            self.carry_out_addresses(out);
        }
    }

    /// When to call [`Router::tick`] next.
    pub fn next_deadline(&self) -> Millis {
        let machines = [
            self.neighbors.table.next_deadline(),
            self.neighbors.addresses.next_deadline(),
            self.parts.all.iter().filter_map(|p| p.next_deadline(self)).min(),
            (!self.neighbors.again.is_empty() || self.is_behind()).then(|| self.now()),
        ];
        machines.into_iter().flatten().fold(self.neighbors.next_use_check, Millis::min)
    }

    /// Does what is due: timers of neighbours and addresses, and reclamation.
    pub fn tick(&mut self) {
        let now = self.now();
        let mut out = vec![];
        self.neighbors.table.tick(now, &mut out);
        self.carry_out(out);
        let mut out = vec![];
        self.neighbors.addresses.tick(now, &mut out);
        self.carry_out_addresses(out);
        self.tell_parts(|part, router| part.tick(router, now));
        if now >= self.neighbors.next_use_check {
            self.neighbors.next_use_check = now.after(USE_CHECK);
            self.check_use(now);
            self.set_wall();
            // No packet asks for a next hop that is left out. The table says how soon it may be asked again.
            let mut out = vec![];
            for (interface, addr) in self.nexthops.dead() {
                self.neighbors.table.resolve_wanted(now, interface, addr, &mut out);
            }
            self.carry_out(out);
            if self.pool.in_use() != 0 {
                let before = Clock::new().now_ns().saturating_sub(HOLD_LIMIT_NS);
                self.workers.drop_old(before, None);
            }
        }
        self.catch_up();
        self.look_again();
        self.reclaim();
    }

    /// Namespaces in which interfaces have Linux devices.
    pub fn namespaces(&self) -> Vec<Option<String>> {
        let mut all: Vec<Option<String>> =
            self.interfaces.iter().filter_map(|i| i.device()?.linux()).map(|(ns, _)| ns).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Stale neighbours to which packets went are worth probing.
    fn check_use(&mut self, now: Millis) {
        let stale: Vec<(u32, IpAddr)> = self.neighbors.table.stale().collect();
        let mut out = vec![];
        for (interface, addr) in stale {
            let keys = self.adjacencies.keys(interface, addr);
            let all = keys.into_iter().filter_map(|k| self.adjacencies.find(k));
            let ids: Vec<u32> = all.collect();
            if ids.is_empty() {
                continue;
            }
            let sent: u64 = ids.iter().map(|id| self.plane.counters.adjacency.sum(*id).0).sum();
            let before = self.neighbors.seen_use.insert((interface, addr), sent);
            if before.is_some_and(|b| b != sent) {
                self.neighbors.table.used(now, interface, addr, &mut out);
            }
        }
        self.carry_out(out);
    }

    pub(super) fn flush_neighbors(&mut self, interface: u32, net: IpNet, left: &[IpNet]) {
        let gone: Vec<IpAddr> = self
            .neighbors
            .table
            .iter_interface(interface)
            .map(|n| n.addr)
            .filter(|a| net.contains(a) && !left.iter().any(|n| n.contains(a)))
            .collect();
        let mut out = vec![];
        for a in gone {
            self.neighbors.table.delete(interface, a, &mut out);
        }
        self.carry_out(out);
    }

    pub(super) fn set_neighbor(
        &mut self,
        index: u32,
        name: String,
        address: IpAddr,
        mac: MacAddr,
    ) -> Result<Vec<Op>, OpError> {
        let was =
            self.neighbors.table.get(index, address).filter(|n| n.state == State::Static).and_then(|n| n.mac);
        let (now, mut out) = (self.now(), vec![]);
        let done = self.neighbors.table.add_static(now, index, address, mac, &mut out);
        done.map_err(|e| OpError::new(format!("{name}: neighbor {address} {mac}: {e}")))?;
        self.carry_out(out);
        self.tell_parts(|part, router| part.neighbors_changed(router, index));
        Ok(match was {
            Some(mac) => vec![Op::SetNeighbor { name, address, mac }],
            None => vec![Op::DelNeighbor { name, address }],
        })
    }

    pub(super) fn del_neighbor(
        &mut self,
        index: u32,
        name: String,
        address: IpAddr,
    ) -> Result<Vec<Op>, OpError> {
        let was = self.neighbors.table.get(index, address);
        // One that is being resolved has nothing to forget yet, and packets wait for it.
        if was.is_some_and(|n| n.state == State::Incomplete) {
            return Ok(vec![]);
        }
        let mut out = vec![];
        if !self.neighbors.table.delete(index, address, &mut out) {
            return Err(OpError::new(format!("{name} has no neighbor {address}")));
        }
        self.carry_out(out);
        self.tell_parts(|part, router| part.neighbors_changed(router, index));
        let fixed = was.filter(|n| n.state == State::Static).and_then(|n| n.mac);
        Ok(fixed.map(|mac| Op::SetNeighbor { name, address, mac }).into_iter().collect())
    }

    /// The static neighbours of an interface.
    pub(crate) fn static_neighbors(&self, index: u32) -> impl Iterator<Item = (IpAddr, MacAddr)> + '_ {
        let fixed = self.neighbors.table.iter_interface(index).filter(|n| n.state == State::Static);
        fixed.filter_map(|n| Some((n.addr, n.mac?)))
    }

    /// All neighbours, by interface and address.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.neighbors.table.iter()
    }

    /// The neighbours behind that of an interface and address, in the order of [`Router::neighbors`].
    pub fn neighbors_after(&self, after: Option<(u32, IpAddr)>) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.neighbors.table.iter_after(after)
    }

    /// The neighbours of an interface, by address: those behind `after`, or all.
    pub fn neighbors_on(
        &self,
        interface: u32,
        after: Option<IpAddr>,
    ) -> impl Iterator<Item = NeighborInfo> + '_ {
        self.neighbors.table.iter_interface_after(interface, after)
    }

    /// What the neighbour table counts.
    pub fn neighbor_counters(&self) -> NeighborCounters {
        self.neighbors.table.counters()
    }

    /// State of an address of the router's own.
    pub fn address_state(&self, interface: u32, addr: IpAddr) -> Option<AddressState> {
        self.neighbors.addresses.state(interface, addr)
    }

    /// The IPv6 link-local address of an interface.
    pub fn link_local(&self, interface: u32) -> Option<Ipv6Addr> {
        self.interfaces.get(interface).and_then(|i| i.link_local)
    }
}

/// On a worker: takes held packets out and puts them into the graph.
fn take_held(
    w: &mut graph::Worker,
    from: Holder,
    take: impl FnOnce(&mut crate::hold::Waiting, &mut Vec<graph::Desc>),
    target: &str,
    edit: impl Fn(&mut graph::Desc),
) {
    let mut out = vec![];
    let d = &mut w.dispatcher;
    let waiting = match from {
        Holder::Ip4 => d.node_mut::<Ip4Hold>("ip4-hold").map(Ip4Hold::waiting),
        Holder::Ip6 => d.node_mut::<Ip6Hold>("ip6-hold").map(Ip6Hold::waiting),
        Holder::Mpls => d.node_mut::<MplsHold>("mpls-hold").map(MplsHold::waiting),
    };
    if let Some(waiting) = waiting {
        take(waiting, &mut out);
    }
    let Some(node) = w.dispatcher.id(target) else { return };
    for mut d in out {
        edit(&mut d);
        w.dispatcher.env.enqueue(d, node);
    }
}
