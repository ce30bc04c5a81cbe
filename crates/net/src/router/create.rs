//! Operations that make and remove interfaces.

use super::interfaces::NewInterface;
use super::op::Undo;
use super::tell::Last;
use super::{Elsewhere, Encap, IfState, Kind, Op, OpError, Router, Source, devices, mtu_over};
use packet::eth::MacAddr;
use std::collections::HashSet;

/// An interface that a part makes.
pub(crate) struct NewVirtual {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// What makes it.
    pub origin: Op,
    /// Its MAC address, for its link-local address, and in its frames.
    pub mac: MacAddr,
    /// The largest IP packet, bytes.
    pub mtu: u16,
}

impl Router {
    /// Adds an interface over a device of the caller's own making, as benchmarks and tests have. `open` gets the
    /// interface's number and the number of workers, and answers one transmit queue for each.
    ///
    /// It stays outside transactions: one that deletes the interface and is undone brings it back without its device.
    ///
    /// # Errors
    /// The name is taken or cannot be one, `open` fails, or a worker does not take a queue.
    pub fn add_device(
        &mut self,
        name: &str,
        open: impl FnOnce(u32, usize) -> Result<devices::Device, String>,
    ) -> Result<u32, OpError> {
        self.free_name(name)?;
        // Capture files without a file are what comes nearest to nothing.
        let config = devices::PcapConfig { read: None, write: None, pps: None, repeat: false };
        let origin = Op::CreatePcap { name: name.into(), config };
        self.create_device(name.into(), origin, open)?;
        self.reclaim();
        self.index_of(name)
    }

    pub(super) fn create_device(
        &mut self,
        name: String,
        origin: Op,
        open: impl FnOnce(u32, usize) -> Result<devices::Device, String>,
    ) -> Result<Undo, OpError> {
        let index = self.reserve_index()?;
        let workers = self.config.workers;
        let device = match open(index, workers) {
            Ok(d) => d,
            Err(e) => {
                self.release_index(index);
                return Err(OpError::new(format!("{name}: {e}")));
            }
        };
        let new = NewInterface {
            name: name.clone(),
            kind: Kind::Device,
            origin,
            mac: device.mac,
            own_mac: None,
            mtu: mtu_over(device.mtu),
            link: device.link,
        };
        let (note, warnings) = (device.control.describe(), device.control.warnings());
        self.insert_interface(index, new);
        if let Err(e) = self.attach(index, device) {
            self.unmake_device(&name);
            self.remove_interface(index);
            return Err(e);
        }
        self.note(false, format!("interface {name}: {note}"));
        for w in warnings {
            self.note(true, format!("interface {name}: {w}"));
        }
        Ok(vec![Op::Delete { name }])
    }

    /// For an interface whose creation is undone.
    pub(super) fn unmake_device(&mut self, name: &str) {
        let i = self.interface_index(name).and_then(|index| self.interfaces.get_mut(index));
        if let Some(i) = i {
            i.remote.last = Some(Last::Unmake);
        }
    }

    pub(super) fn create_loopback(
        &mut self,
        instance: Option<u32>,
        mac: Option<MacAddr>,
    ) -> Result<Undo, OpError> {
        let free = |n: &u32| self.interface_index(&format!("loop{n}")).is_none();
        let n = match instance {
            Some(n) if n > 4095 => {
                return Err(OpError::new(format!("loop{n}: loopbacks are loop0 to loop4095")));
            }
            Some(n) if !free(&n) => {
                return Err(OpError::new(format!("there is an interface loop{n} already")));
            }
            Some(n) => n,
            None => (0..=4095).find(free).ok_or_else(|| OpError::new("there are 4096 loopbacks already"))?,
        };
        if let Some(m) = mac.filter(|m| !m.is_station()) {
            return Err(OpError::new(format!("loop{n}: {m} is not the address of a single station")));
        }
        let index = self.reserve_index()?;
        let name = format!("loop{n}");
        let own = MacAddr([0xde, 0xad, 0, 0, (n >> 8) as u8, n as u8]);
        let origin = Op::CreateLoopback { instance: Some(n), mac };
        let new = NewInterface {
            name: name.clone(),
            kind: Kind::Loopback,
            origin,
            mac: mac.unwrap_or(own),
            own_mac: mac.map(|_| own),
            mtu: 1500,
            link: true,
        };
        self.insert_interface(index, new);
        Ok(vec![Op::Delete { name }])
    }

    /// Makes an interface of a part, which `then` takes in, before workers see it.
    pub(crate) fn create_virtual(
        &mut self,
        new: NewVirtual,
        then: impl FnOnce(&mut Router, u32),
    ) -> Result<(), OpError> {
        self.free_name(&new.name)?;
        let index = self.reserve_index()?;
        then(self, index);
        let NewVirtual { name, kind, origin, mac, mtu } = new;
        let new = NewInterface { name, kind, origin, mac, own_mac: None, mtu, link: true };
        self.insert_interface(index, new);
        Ok(())
    }

    pub(super) fn create_sub(
        &mut self,
        parent: &str,
        id: u32,
        encap: Encap,
        origin: Op,
    ) -> Result<Undo, OpError> {
        let p = self.named(parent)?;
        let name = format!("{parent}.{id}");
        let fail = |why: &str| Err(OpError::new(format!("{name}: {why}")));
        if matches!(p.kind, Kind::Sub { .. }) {
            return fail("a sub-interface cannot have sub-interfaces");
        }
        if p.kind == Kind::Loopback {
            return fail("a loopback cannot have sub-interfaces");
        }
        if let Some(why) = self.takes_no_frames(p.index) {
            return Err(OpError::new(why));
        }
        self.check_own_frames(p)?;
        if id == 0 {
            return fail("the number of a sub-interface starts at 1");
        }
        if p.xconnect.is_some() {
            return fail("its parent is cross-connected: make it an L3 interface first");
        }
        if let Encap::Tags { outer, inner, exact, .. } = encap {
            let vlans = [outer, inner.flatten()];
            if vlans.iter().flatten().any(|v| !(1..=4095).contains(v)) {
                return fail("a VLAN is 1 to 4095");
            }
            if exact && !encap.is_by_number() {
                return fail("exact-match needs the VLANs by number");
            }
        }
        if let Some(taken) = p.by_encap.get(&encap.frames()) {
            return fail(&format!("{} takes these frames already", self.interface_name(*taken)));
        }
        if self.interface_index(&name).and_then(|i| self.interface(i)).is_some_and(|i| i.companion) {
            return fail("a VLAN device in Linux has this name here (show lcp): delete that first");
        }
        self.free_name(&name)?;
        let (parent, mac, mtu) = (p.index, p.mac, p.mtu);
        let index = self.reserve_index()?;
        let kind = Kind::Sub { parent, id, encap };
        let new = NewInterface { name: name.clone(), kind, origin, mac, own_mac: None, mtu, link: true };
        self.insert_interface(index, new);
        self.fit_tagged(index);
        Ok(vec![Op::Delete { name }])
    }

    /// Refuses to delete an interface that is in use. Its number and those of its sub-interfaces, which go with it; its own
    /// is the last.
    pub fn check_deletable(&self, name: &str) -> Result<Vec<u32>, OpError> {
        let i = self.named(name)?;
        let mut gone: Vec<u32> = i.subs.values().copied().collect();
        gone.push(i.index);
        let all: HashSet<u32> = gone.iter().copied().collect();
        let source = |g: &u32| self.interfaces.xconnected.get(g).filter(|o| !all.contains(o));
        if let Some(o) = gone.iter().find_map(source) {
            let o = self.interface_name(*o);
            return Err(OpError::new(format!("{name} is the cross-connect target of {o}: undo that first")));
        }
        if let Some(why) = self.parts.all.iter().find_map(|p| p.leads_over(self, &all, name)) {
            return Err(OpError::new(why));
        }
        let over = self.nexthops.over(&gone);
        let static_ones =
            over.iter().filter(|id| !matches!(self.nexthops.source(**id), Some(Source::Runtime(_))));
        let routes: u32 = static_ones.filter_map(|id| self.group(*id)).map(|g| g.routes).sum();
        if routes != 0 {
            return Err(OpError::new(format!("{routes} static routes go over {name}: remove them first")));
        }
        if let Some(m) = i.membership.filter(|m| m.bvi) {
            return Err(OpError::new(format!(
                "{name} is the BVI of bridge domain {}: take it out first (set interface l3 {name})",
                m.bridge
            )));
        }
        self.check_features_unused(name, &all)?;
        Ok(gone)
    }

    pub(super) fn delete(&mut self, name: &str) -> Result<Undo, OpError> {
        let gone = self.check_deletable(name)?;
        let i = self.named(name)?;
        // Undone last first: the device, its settings, its sub-interfaces, and at the end what names other interfaces.
        let own = i.index;
        let states = gone.iter().rev().filter_map(|index| self.interface(*index));
        // Linux's sub-interfaces come back by what Linux has.
        let states = states.filter(|i| !i.companion || i.index == own);
        let all = states.flat_map(|i| self.settings_of(i));
        let names_others = |op: &Op| match op {
            Op::SetXconnect { .. } => true,
            Op::SetFeature { feature, .. } => feature.names_others(),
            _ => false,
        };
        let (mut undo, connects): (Undo, Undo) = all.partition(|op| !names_others(op));
        undo.extend(connects);
        undo.reverse();
        let index = i.index;
        self.orphan_groups(&gone);
        self.remove_interface(index);
        Ok(undo)
    }

    /// The operations that make an interface as it is now, in order.
    pub fn settings_of(&self, i: &IfState) -> Vec<Op> {
        let name = || i.name.clone();
        let mut ops = vec![i.origin.clone()];
        if !matches!(i.kind, Kind::Sub { .. }) {
            ops.push(Op::SetMac { name: name(), mac: i.mac_set.then_some(i.mac) });
        }
        let placed = i.placed.iter();
        ops.extend(placed.map(|(q, w)| Op::SetPlacement { name: name(), queue: *q, worker: Some(*w) }));
        ops.push(Op::SetMtu { name: name(), mtu: i.mtu });
        if let Some(text) = &i.description {
            ops.push(Op::SetDescription { name: name(), text: Some(text.clone()) });
        }
        for v6 in [false, true] {
            if let Some(v) = self.fibs.get(v6, i.table(v6)).filter(|v| v.table.id != 0) {
                ops.push(Op::SetTable { name: name(), table: v.table });
            }
        }
        ops.extend(i.configured().map(|net| Op::AddAddress { name: name(), net }));
        if let Some(peer) = i.xconnect {
            ops.push(Op::SetXconnect { name: name(), peer: Some(self.interface_name(peer)) });
        }
        ops.extend(self.made_by_parts(i, true));
        ops.extend(self.feature_ops(i));
        ops.extend(self.made_by_parts(i, false));
        if i.promiscuous {
            ops.push(Op::SetPromiscuous { name: name(), on: true });
        }
        ops.push(Op::SetState { name: name(), up: i.up });
        let neighbors = self.neighbors.table.iter_interface(i.index);
        for n in neighbors.filter(|n| n.state == crate::neighbor::State::Static) {
            ops.extend(n.mac.map(|mac| Op::SetNeighbor { name: name(), address: n.addr, mac }));
        }
        if i.elsewhere != Elsewhere::default() {
            ops.push(Op::SetElsewhere { name: name(), what: i.elsewhere.clone() });
        }
        ops
    }
}
