//! Settings of interfaces that change while they run, and who follows them.

use super::following::Change;
use super::tell::Todo;
use super::{IfState, Kind, OpError, Router};
use crate::neighbor::address::LinkSettings;
use graph::TxCaps;
use packet::eth::MacAddr;

impl Router {
    /// Changes administrative and link state, and tells whoever depends on them.
    pub(crate) fn set_link_state(&mut self, index: u32, up: bool, link: bool) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        (i.up, i.link) = (up, link);
        if matches!(i.kind, Kind::Sub { .. }) {
            i.link = true;
        }
        // Routes leave an interface before anything else is done about it, and come to one that is ready.
        let usable = self.is_usable(index);
        self.interfaces.have_follow(index, Change { state: true, down: !usable, mac: false });
        if !usable {
            self.nexthops.forget_dead(index);
            self.refresh_groups(&[index]);
        }
        self.publish_interface(index);
        self.follow_state(index, usable);
        if usable {
            self.refresh_groups(&[index]);
        }
        self.catch_up();
    }

    /// The neighbour and address machines follow the state of an interface.
    pub(super) fn follow_state(&mut self, index: u32, usable: bool) {
        let (mac, now) = (self.mac_of(index), self.now());
        let (mut n, mut a) = (vec![], vec![]);
        if usable {
            self.neighbors.table.interface_up(index, &mut n);
            let shared = self.interfaces.get(index).is_some_and(|i| !i.is_without_stations());
            let dad = self.config.dad;
            self.neighbors.addresses.link_up(now, index, LinkSettings { mac, dad, shared }, &mut a);
        } else {
            self.neighbors.table.interface_down(index, &mut n);
            self.neighbors.addresses.link_down(index, &mut a);
            self.tell_parts(|part, router| part.usable(router, index, false));
        }
        self.carry_out(n);
        self.carry_out_addresses(a);
        self.sync_own_routes(index);
        if usable {
            self.tell_parts(|part, router| part.usable(router, index, true));
        }
    }

    pub(crate) fn set_mac(&mut self, index: u32, mac: MacAddr) -> Result<(), OpError> {
        self.tell_device(index, Todo::Mac(mac))?;
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        i.mac = mac;
        self.renew_link_local(index)?;
        self.interfaces.have_follow(index, Change { mac: true, ..Change::default() });
        self.publish_interface(index);
        for part in self.parts.all {
            part.mac_changed(self, index)?;
        }
        self.refresh_adjacencies(index);
        if self.is_usable(index) {
            self.follow_state(index, true);
        }
        self.catch_up();
        Ok(())
    }

    pub(super) fn renew_link_local(&mut self, index: u32) -> Result<(), OpError> {
        if let Some(i) = self.interfaces.get(index).filter(|i| i.link_local.is_some()) {
            if i.own_link_local.is_none() {
                self.tell_parts(|part, router| part.link_local_goes(router, index, None));
            }
            self.set_link_local(index, false)?;
            self.set_link_local(index, true)?;
        }
        Ok(())
    }

    pub(crate) fn set_mtu(&mut self, index: u32, mtu: u16) -> Result<(), OpError> {
        self.tell_device(index, Todo::Mtu(mtu))?;
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        i.remote.mtu_set |= i.remote.opening.is_some();
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
        for device in self.devices_below(hw) {
            // What it does not take is only told.
            let _ = self.tell_device(device, Todo::FitTagged(bytes, name.clone()));
        }
    }

    /// The interface itself, or those that carry its frames.
    pub(super) fn devices_below(&self, hw: u32) -> Vec<u32> {
        let by = self.carried_by(hw);
        if by.is_empty() { vec![hw] } else { by }
    }

    /// What is sent to an interface and its sub-interfaces is to come another way: their addresses are announced.
    pub(crate) fn announce(&mut self, index: u32) {
        let subs = self.interfaces.get(index).map(|i| i.subs.values().copied().collect::<Vec<_>>());
        let (now, mut out) = (self.now(), vec![]);
        for i in std::iter::once(index).chain(subs.into_iter().flatten()) {
            self.neighbors.addresses.moved(now, i, &mut out);
        }
        self.carry_out_addresses(out);
    }

    /// An interface begins to carry the frames of another, or ends: its device takes what the other takes, or what is its own.
    pub(crate) fn follow_carrying(&mut self, index: u32, of: u32, begins: bool) -> Result<(), OpError> {
        let groups = self.interfaces.device_groups.keys().filter(|k| k.0 == of).map(|k| k.1);
        for group in groups.collect::<Vec<_>>() {
            self.receive_frames_to(index, group, begins);
        }
        self.fit_device(index);
        self.follow_promiscuity(index)
    }

    /// What the device of an interface has is another address from now on than that which was set, which stays: what it has by itself.
    pub(crate) fn set_own_mac(&mut self, index: u32, mac: MacAddr) {
        if let Some(i) = self.interfaces.get_mut(index) {
            i.own_mac = mac;
        }
    }

    /// What is done for packets that are sent over an interface without a device.
    pub(crate) fn set_caps(&mut self, index: u32, caps: TxCaps) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        if std::mem::replace(&mut i.caps, caps) != caps {
            self.publish_interface(index);
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
    pub(crate) fn follow_promiscuity(&mut self, index: u32) -> Result<(), OpError> {
        let hw = self.interfaces.get(index).map_or(index, IfState::hw);
        for device in self.devices_below(hw) {
            let above = self.carries(device).is_some_and(|(to, _)| self.wants_all_frames(to));
            let want = above || self.wants_all_frames(device);
            self.tell_device(device, Todo::Promiscuous(want))?;
        }
        self.publish_interface(index);
        Ok(())
    }

    fn wants_all_frames(&self, hw: u32) -> bool {
        let all = |i: &IfState| i.promiscuous || i.xconnect.is_some() || i.membership.is_some_and(|m| !m.bvi);
        let subs = |h: &IfState| h.subs.values().filter_map(|s| self.interfaces.get(*s)).any(all);
        self.interfaces.get(hw).is_some_and(|h| all(h) || subs(h))
    }
}
