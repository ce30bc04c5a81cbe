//! What workers see of an interface.

use super::following::Change;
use super::interfaces::Interfaces;
use super::tell::Todo;
use super::{Encap, IfState, Kind, Router};
use crate::adjacency::Straight;
use crate::arcs;
use crate::interface::{Interface, L2_XCONNECT, MIDCHAIN_TX, ifflags};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tables::vlan::{Match, Tpid, Vid, VlanTable};

impl Interfaces {
    pub fn vlan_table(&self, parent: &IfState) -> Option<VlanTable> {
        if parent.subs.is_empty() {
            return None;
        }
        let rule = |index: u32| {
            let Kind::Sub { encap, .. } = self.get(index)?.kind else { return None };
            Some((rule_of(encap), index))
        };
        let rules: Vec<(Match, u32)> = parent.subs.values().filter_map(|i| rule(*i)).collect();
        // Two rules for the same frames were refused when the second sub-interface was made.
        VlanTable::build(&rules).ok()
    }
}

impl Router {
    /// Shows workers the sub-interfaces that this transaction made and took out: once, however many there are.
    pub(super) fn publish_subs(&mut self) {
        for (parent, changes) in std::mem::take(&mut self.interfaces.subs_changed) {
            let p = self.interfaces.get(parent);
            let table =
                p.and_then(|p| changed(p, &changes).or_else(|| self.interfaces.vlan_table(p))).map(Arc::new);
            if let Some(p) = self.interfaces.get_mut(parent) {
                p.vlans = table;
            }
            self.publish_interface(parent);
            // Where one went, the device may have to take less.
            if changes.iter().any(|(_, now)| now.is_none()) {
                self.fit_device(parent);
            }
        }
        for index in std::mem::take(&mut self.interfaces.subs_gone) {
            self.release_index(index);
        }
    }

    /// Writes what workers see of an interface.
    pub(crate) fn publish_interface(&mut self, index: u32) {
        self.tell_parts(|part, router| part.publishing(router, index));
        let Some(i) = self.interfaces.get(index) else { return };
        let Some(hw) = self.interfaces.get(i.hw()) else { return };
        let mut flags = 0;
        let mut set = |on: bool, bit: u16| flags |= if on { bit } else { 0 };
        set(i.up && hw.up, ifflags::UP);
        set(hw.link, ifflags::LINK);
        let bvi = i.membership.is_some_and(|m| m.bvi);
        set(i.xconnect.is_some() || i.membership.is_some() && !bvi, ifflags::L2);
        set(bvi, ifflags::BVI);
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
        i.settings.chosen().for_each(|c| set(true, c.declared().flag));
        self.parts.all.iter().for_each(|p| set(true, p.flags(self, index)));
        let bits = self.visited(i);
        let (input, mut output) = (bits.on(&arcs::DEVICE_INPUT), bits.on(&arcs::INTERFACE_OUTPUT));
        if hw.index == index {
            i.rx_features.store(input, Ordering::Relaxed);
        } else {
            output |= self.visited(hw).on(&arcs::INTERFACE_OUTPUT);
        }
        let xconnect = self.workers.feature_bit(&L2_XCONNECT);
        let l2_input = Some(bits.on(&arcs::L2_INPUT)).filter(|b| *b != xconnect).unwrap_or(0);
        let bridged = self.parts.all.iter().map(|p| p.bridged(self, i));
        let (bridge, retag) =
            bridged.reduce(|a, b| if a == Default::default() { b } else { a }).unwrap_or_default();
        let content = Interface {
            flags,
            mtu: i.mtu,
            mac: hw.mac.0,
            hw: hw.index,
            caps: hw.caps,
            ip4_unicast: bits.on(&arcs::IP4_UNICAST),
            ip6_unicast: bits.on(&arcs::IP6_UNICAST),
            l2_input,
            l2_output: bits.on(&arcs::L2_OUTPUT),
            mpls_input: bits.on(&arcs::MPLS_INPUT),
            ip4_local: bits.on(&arcs::IP4_LOCAL),
            ip6_local: bits.on(&arcs::IP6_LOCAL),
            ip4_punt: bits.on(&arcs::IP4_PUNT),
            ip6_punt: bits.on(&arcs::IP6_PUNT),
            input,
            output,
            settings: i.settings.words(),
            table4: i.table(false).0,
            table6: i.table(true).0,
            tags: i.tags(),
            xconnect: i.xconnect,
            bridge,
            retag,
            tunnel: self.parts.all.iter().find_map(|p| p.pseudowire(self, index)),
            midchain: self.parts.all.iter().find_map(|p| p.midchain(self, index)),
            subs: i.vlans.clone(),
            addrs4: addrs4.into(),
            addrs6: addrs6.into(),
            groups4: i.groups4.clone(),
            groups6: i.groups6.clone(),
            tentative6: tentative6.into(),
        };
        // What sub-interfaces have from their interface.
        let handed_on = |i: &Interface| (i.mac, i.caps, i.output, i.flags & (ifflags::UP | ifflags::LINK));
        let same = self.interfaces.slots.get(index).is_some_and(|was| handed_on(was) == handed_on(&content));
        let straight = self.straight(index);
        self.interfaces.stores += 1;
        self.plane.summaries.set(index, Some(&content));
        self.interfaces.slots.replace(index, content);
        self.tell_link(index);
        if straight != self.straight(index) {
            self.refresh_adjacencies(index);
        }
        self.tell_parts(|part, router| part.published(router));
        if !same {
            self.interfaces.have_follow(index, Change::default());
            self.catch_up();
        }
    }

    /// Publishes all interfaces anew.
    pub(crate) fn publish_interfaces(&mut self) {
        let all: Vec<u32> = self.interfaces.iter().map(|i| i.index).collect();
        for index in all {
            self.publish_interface(index);
        }
    }

    /// An interface that is about to be published is in these multicast groups.
    pub(crate) fn set_groups(&mut self, index: u32, groups: &BTreeSet<IpAddr>) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let v4 = groups.iter().filter_map(|g| if let IpAddr::V4(a) = g { Some(u32::from(*a)) } else { None });
        let v6 =
            groups.iter().filter_map(|g| if let IpAddr::V6(a) = g { Some(u128::from(*a)) } else { None });
        (i.groups4, i.groups6) = (v4.collect(), v6.collect());
    }

    /// The addresses with which an interface says which groups it is in, of IGMP and MLD; none where there is no such interface.
    pub(crate) fn report_sources(&self, index: u32) -> Option<(Option<Ipv4Addr>, Option<Ipv6Addr>)> {
        let i = self.plane.interfaces.get(index, &self.grace.guard)?;
        let source4 = i.addrs4.first().map(|a| Ipv4Addr::from(a.0));
        let source6 = i.addrs6.iter().map(|a| Ipv6Addr::from(a.0)).find(Ipv6Addr::is_unicast_link_local);
        Some((source4, source6))
    }

    /// The device below an interface takes frames for a group address on its account, or no more.
    pub(crate) fn receive_frames_to(&mut self, index: u32, mac: MacAddr, on: bool) {
        let Some(hw) = self.interfaces.get(index).map(IfState::hw) else { return };
        let users = self.interfaces.device_groups.entry((hw, mac)).or_insert(0);
        let was = *users;
        *users = if on { was + 1 } else { was.saturating_sub(1) };
        let now = *users;
        if now == 0 {
            self.interfaces.device_groups.remove(&(hw, mac));
        }
        if (was == 0) == (now == 0) {
            return;
        }
        for member in self.carried_by(hw) {
            self.receive_frames_to(member, mac, on);
        }
        // A refusal is only told.
        let _ = self.tell_device(hw, Todo::Group(mac, on));
    }

    /// How far untagged packets to an interface can go at once, for there is nothing to do for them in `interface-output`.
    pub(super) fn straight(&self, index: u32) -> Straight {
        match self.interfaces.slots.get(index).filter(|i| i.is_ready(index)) {
            Some(i) if i.output == 0 => Straight::Device,
            Some(i) if i.midchain.is_some() && i.output == self.workers.feature_bit(&MIDCHAIN_TX) => {
                Straight::Midchain
            }
            _ => Straight::No,
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
