//! Settings of interfaces that change while they run, and who follows them.

use super::following::Change;
use super::{IfState, Kind, OpError, Router};
use crate::neighbor::address::LinkSettings;
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

    pub(super) fn set_mac(&mut self, index: u32, mac: MacAddr) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get_mut(index) else { return Err(OpError::new("no such interface")) };
        if let Some(d) = &mut i.device {
            d.set_mac(mac)
                .map_err(|e| OpError::new(format!("{}: cannot set the MAC address: {e}", i.name)))?;
        }
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
    pub(crate) fn follow_promiscuity(&mut self, index: u32) -> Result<(), OpError> {
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
}
