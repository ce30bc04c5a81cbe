//! Making of bridges what Linux has of them, a little at a time.

use super::heard::{Bridge, Fdb, Made, Netns, Space, State, Work, seen, space};
use crate::l2::bridge::{
    self as bridging, BridgeOp, BridgeSettings, Far, PortFeatures, TagChange, Told, set_far, tell_mac,
    untell_mac,
};
use crate::router::{Membership, Op, OpError, PartOp, RouteTable, Router};
use crate::vxlan::{VxlanConfig, VxlanOp};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::{Duration, Instant};

/// Bridge domains of Linux's have numbers from here on, and tunnels too.
const FIRST_BRIDGE: u32 = 16_000_000;
const FIRST_TUNNEL: u32 = 1_000_000;
/// The last loopback: BVIs are made from there down.
const LAST_LOOPBACK: u32 = 4095;
/// How long changes are made before others have their turn.
const TURN: Duration = Duration::from_millis(2);
/// Addresses that are looked at in one step.
const SWEEP: usize = 512;

/// Makes what has changed, for a while; whether there is more to do.
pub fn work(router: &mut Router, netns: &Netns) -> bool {
    let end = Instant::now() + TURN;
    while let Some(work) = router.state_mut::<State>().and_then(|s| s.spaces.get_mut(netns)?.work.pop_front())
    {
        let done = router.with_companions(|router| At { router, netns }.look(work));
        if !done {
            if let Some(s) = space(router, netns) {
                s.work.push_back(work);
            }
            return true;
        }
        if Instant::now() >= end {
            return true;
        }
    }
    if let Some(all) = router.state_mut::<State>() {
        all.spaces.retain(|_, s| {
            !(s.bridges.is_empty() && s.made.is_empty() && s.fdb.is_empty() && s.cannot.is_empty())
        });
    }
    false
}

/// A namespace, in which something is to be made.
pub(super) struct At<'r> {
    pub router: &'r mut Router,
    pub netns: &'r Netns,
}

impl At<'_> {
    pub fn space(&mut self) -> Option<&mut Space> {
        space(self.router, self.netns)
    }

    fn seen(&self) -> Option<&Space> {
        seen(self.router, self.netns)
    }

    /// Whether it is done.
    fn look(&mut self, work: Work) -> bool {
        match work {
            Work::Bridge(ifindex) => self.bridge(ifindex),
            Work::End(device, end) => self.end(device, end),
            Work::Mac(device, mac) => return self.mac(device, mac),
            Work::Sweep(device, from) => self.sweep(device, from),
        }
        true
    }

    /// Notes what became of something: what cannot be is told once.
    pub fn told<T>(&mut self, what: &str, made: Result<T, OpError>) -> Option<T> {
        let of = self.netns.as_ref().map_or_else(String::new, |n| format!(" of namespace {n}"));
        let (told, made) = match made {
            Ok(made) => (None, Some(made)),
            Err(e) => (Some(e.message), None),
        };
        let new = self.space().and_then(|s| match told {
            None => {
                s.refused.remove(what);
                None
            }
            Some(why) => {
                let was = s.refused.insert(what.to_owned(), why.clone());
                (was.as_ref() != Some(&why)).then_some(why)
            }
        });
        if let Some(why) = new {
            self.router.note(true, format!("{what}{of}: {why}"));
        }
        made
    }

    fn bridge(&mut self, ifindex: u32) {
        let Some(s) = self.seen() else { return };
        let (wanted, made) = (s.bridges.get(&ifindex).cloned(), s.made.get(&ifindex).copied());
        let made = made.unwrap_or_default();
        match wanted {
            Some(b) => {
                let what = format!("bridge {}", b.name);
                let made = self.domain(&b, made);
                if let Some(made) = self.told(&what, made) {
                    self.ports(&b, made.id);
                    self.bvi(&b, made);
                }
            }
            None => self.unmake(ifindex, made),
        }
    }

    /// The bridge domain of a bridge.
    fn domain(&mut self, b: &Bridge, mut made: Made) -> Result<Made, OpError> {
        let of = self.netns.as_ref().map_or_else(String::new, |n| format!(" of namespace {n}"));
        let settings = BridgeSettings {
            mac_age: b.age,
            tag: Some(format!("bridge {}{of}", b.name)),
            ..BridgeSettings::default()
        };
        match bridging::bridge(self.router, made.id).map(|d| d.settings != settings) {
            Some(false) => {}
            Some(true) => self.router.commit(vec![BridgeOp::Set { id: made.id, settings }.into()])?,
            None => {
                let free = |id: &u32| bridging::bridge(self.router, *id).is_none();
                let id = (FIRST_BRIDGE..=bridging::MAX_BRIDGE_ID).find(free);
                let id = id.ok_or_else(|| OpError::new("there is no number left for its bridge domain"))?;
                self.router.commit(vec![BridgeOp::Create { id, settings }.into()])?;
                bridging::make_companion(self.router, id, format!("bridge {}{of}", b.name));
                made = Made { id, bvi: None };
                if let Some(s) = self.space() {
                    s.made.insert(b.ifindex, made);
                }
            }
        }
        Ok(made)
    }

    /// The interfaces that are its ports.
    fn ports(&mut self, b: &Bridge, id: u32) {
        let tunnels: BTreeSet<u32> =
            self.seen().into_iter().flat_map(|s| s.tunnels.values().copied()).collect();
        let Some(domain) = bridging::bridge(self.router, id) else { return };
        let has: Vec<u32> = domain.members.iter().filter(|(_, m)| !m.bvi).map(|(i, _)| *i).collect();
        for index in has {
            if !b.ports.contains_key(&index) && !tunnels.contains(&index) {
                self.leave(index);
            }
        }
        for index in b.ports.keys().copied() {
            let Some(i) = self.router.interface(index) else { continue };
            let member = Membership { bridge: id, bvi: false, shg: 0 };
            if i.membership == Some(member) {
                continue;
            }
            if let Some(of) = i.membership.and_then(|m| bridging::bridge(self.router, m.bridge)) {
                let (id, own) = (of.id, of.companion.is_none());
                if own {
                    let name = self.router.interface_name(index);
                    let why = OpError::new(format!("{name} is in bridge domain {id} already"));
                    self.told(&format!("bridge {}: {name}", b.name), Err::<(), _>(why));
                    continue;
                }
                // It was in another bridge of Linux's.
                self.leave(index);
            }
            let Some(i) = self.router.interface(index) else { continue };
            let (name, tags) = (i.name.clone(), i.tags().count);
            let mut ops: Vec<Op> = vec![BridgeOp::Port { name: name.clone(), member: Some(member) }.into()];
            if tags != 0 {
                let change = Some(TagChange::Pop(tags));
                ops.push(BridgeOp::Tags { name: name.clone(), change }.into());
            }
            let made = self.router.commit(ops);
            self.told(&format!("bridge {}: {name}", b.name), made);
        }
    }

    fn leave(&mut self, index: u32) {
        let name = self.router.interface_name(index);
        let tagged = bridging::port(self.router, index).tag_change.is_some();
        let untagged = tagged.then(|| BridgeOp::Tags { name: name.clone(), change: None }.into());
        let left = BridgeOp::Port { name: name.clone(), member: None }.into();
        let made = self.router.commit(untagged.into_iter().chain([left]).collect());
        self.told(&format!("port {name}"), made);
    }

    /// The interface through which it is routed, where it has addresses, or other routers behind VXLAN devices in a VRF.
    fn bvi(&mut self, b: &Bridge, made: Made) {
        let has = made.bvi.filter(|i| self.router.interface(*i).is_some());
        let what = format!("bridge {}: BVI", b.name);
        let lacks = b.table.filter(|id| {
            [false, true].iter().any(|v6| !self.router.has_table(RouteTable { v6: *v6, id: *id }))
        });
        if !b.is_routed() || lacks.is_some() {
            if let Some(index) = has {
                self.unmake_bvi(b.ifindex, index);
            }
            // Better no interface than one in the table of others.
            let why = |id| {
                OpError::new(format!(
                    "it is in the VRF of table {id}, which is not there for both families (ip table add {id}, ip6 table add {id})"
                ))
            };
            self.told(&what, lacks.map_or(Ok(()), |id| Err(why(id))));
            return;
        }
        let index = match has {
            Some(index) => Some(index),
            None => {
                let made = self.make_bvi(b, made.id);
                self.told(&what, made)
            }
        };
        let Some(index) = index else { return };
        let moved = self.move_bvi(index, b.table.unwrap_or(0));
        if moved.is_err() {
            self.unmake_bvi(b.ifindex, index);
            self.told(&what, moved);
            return;
        }
        let Some(i) = self.router.interface(index) else { return };
        let name = i.name.clone();
        let mut ops = vec![];
        if i.mac != b.mac {
            ops.push(Op::SetMac { name: name.clone(), mac: Some(b.mac) });
        }
        if i.mtu != b.mtu {
            ops.push(Op::SetMtu { name: name.clone(), mtu: b.mtu });
        }
        if i.up != b.up {
            ops.push(Op::SetState { name: name.clone(), up: b.up });
        }
        let has: BTreeSet<IpNet> = i.configured().collect();
        let gone = has.difference(&b.addresses);
        ops.extend(gone.map(|net| Op::DelAddress { name: name.clone(), net: *net }));
        let new = b.addresses.difference(&has);
        ops.extend(new.map(|net| Op::AddAddress { name: name.clone(), net: *net }));
        let made = ops.into_iter().try_for_each(|op| self.router.commit(vec![op]));
        self.told(&what, made);
    }

    /// Puts a BVI with its addresses into the table of a VRF, or out of it.
    fn move_bvi(&mut self, index: u32, id: u32) -> Result<(), OpError> {
        let Some(i) = self.router.interface(index) else { return Ok(()) };
        let is_elsewhere = |v6: &bool| self.router.table_of_interface(i, *v6) != id;
        let mut ops: Vec<Op> = [false, true]
            .into_iter()
            .filter(is_elsewhere)
            .map(|v6| Op::MoveTable { name: i.name.clone(), table: RouteTable { v6, id } })
            .collect();
        if ops.is_empty() {
            return Ok(());
        }
        // Linux's `main` stays table 0 for what leads over it: its VRF is no part of that.
        let mut what = i.elsewhere.clone();
        what.tables = [(id != 0).then_some(0); 2];
        ops.push(Op::SetElsewhere { name: i.name.clone(), what });
        self.router.commit(ops)
    }

    fn make_bvi(&mut self, b: &Bridge, id: u32) -> Result<u32, OpError> {
        let free = |n: &u32| self.router.interface_index(&format!("loop{n}")).is_none();
        let n = (0..=LAST_LOOPBACK).rev().find(free);
        let n = n.ok_or_else(|| OpError::new("there are as many loopbacks as there may be"))?;
        let name = format!("loop{n}");
        let member = Some(Membership { bridge: id, bvi: true, shg: 0 });
        self.router.commit(vec![
            Op::CreateLoopback { instance: Some(n), mac: Some(b.mac) },
            BridgeOp::Port { name: name.clone(), member }.into(),
        ])?;
        let index = self.router.index_of(&name)?;
        self.router.make_companion(index);
        if let Some(m) = self.space().and_then(|s| s.made.get_mut(&b.ifindex)) {
            m.bvi = Some(index);
        }
        Ok(index)
    }

    fn unmake_bvi(&mut self, bridge: u32, index: u32) {
        self.router.drop_elsewhere(index, false, None);
        self.leave(index);
        let name = self.router.interface_name(index);
        let made = self.router.commit(vec![Op::Delete { name: name.clone() }]);
        self.told(&name, made);
        if let Some(m) = self.space().and_then(|s| s.made.get_mut(&bridge)) {
            m.bvi = None;
        }
    }

    /// What was made of a bridge goes, one thing after the other: each may have many addresses.
    fn unmake(&mut self, ifindex: u32, made: Made) {
        if let Some(index) = made.bvi {
            self.unmake_bvi(ifindex, index);
        }
        let members = bridging::bridge(self.router, made.id).map(|b| b.members.keys().copied().collect());
        let members: Vec<u32> = members.unwrap_or_default();
        if let Some(first) = members.first() {
            let of = |s: &Space| s.tunnels.iter().find(|(_, i)| *i == first).map(|(at, _)| *at);
            match self.seen().and_then(of) {
                Some((device, end)) => self.unmake_tunnel(device, end),
                None => self.leave(*first),
            }
            let left = self.router.interface(*first).is_none_or(|i| i.membership.is_none());
            if let Some(s) = self.space().filter(|_| left) {
                s.work.push_back(Work::Bridge(ifindex));
            }
            return;
        }
        if let Some(s) = self.space() {
            s.made.remove(&ifindex);
        }
        if bridging::bridge(self.router, made.id).is_some() {
            let made = self.router.commit(vec![BridgeOp::Delete { id: made.id }.into()]);
            self.told("a bridge that is gone", made);
        }
    }

    /// The tunnel of a VXLAN device to another end.
    fn end(&mut self, device: u32, end: IpAddr) {
        let Some(s) = self.seen() else { return };
        let has = s.tunnels.get(&(device, end)).copied();
        let used = s.fdb.get(&device).is_some_and(|f| f.is_used(&end));
        let wanted = s.device(device).filter(|_| used).and_then(|(b, d)| {
            let id = s.made.get(&b.ifindex)?.id;
            let place = b.devices.iter().position(|o| o.ifindex == device)?;
            Some((id, 1 + place.min(254) as u8, d.clone()))
        });
        let flooded = s.fdb.get(&device).is_some_and(|f| f.flood.contains_key(&end));
        let Some((id, shg, d)) = wanted else {
            if has.is_some() {
                self.unmake_tunnel(device, end);
            }
            return;
        };
        let ttl = if d.ttl == 0 { 64 } else { d.ttl };
        let config = VxlanConfig {
            local_port: d.port,
            remote_port: d.port,
            zero_checksum: d.zero_checksum && end.is_ipv6(),
            ttl: Some(ttl),
            ..VxlanConfig::new(d.local, end, d.vni)
        };
        let member = Membership { bridge: id, bvi: false, shg };
        let stays = |i: &u32| self.router.interface(*i).is_some_and(|i| i.membership == Some(member));
        let index = match has.filter(stays) {
            Some(index) if self.change_tunnel(index, &config) => index,
            _ => {
                if has.is_some() {
                    self.unmake_tunnel(device, end);
                }
                let made = self.make_tunnel(device, end, config, member);
                let Some(index) = self.told(&format!("{} to {end}", d.name), made) else { return };
                index
            }
        };
        set_far(self.router, index, Some(Far { learns: d.learning, flooded }));
        let Some(i) = self.router.interface(index) else { return };
        let name = i.name.clone();
        let mut ops = vec![];
        let learns = bridging::port(self.router, index).features.learn;
        if learns != d.learning {
            let features = PortFeatures { learn: d.learning, ..PortFeatures::default() };
            ops.push(BridgeOp::PortFeatures { name: name.clone(), features }.into());
        }
        if i.mtu != d.mtu {
            ops.push(Op::SetMtu { name: name.clone(), mtu: d.mtu });
        }
        if i.up != d.up {
            ops.push(Op::SetState { name, up: d.up });
        }
        if !ops.is_empty() {
            let made = self.router.commit(ops);
            self.told(&format!("{} to {end}", d.name), made);
        }
    }

    fn make_tunnel(
        &mut self,
        device: u32,
        end: IpAddr,
        config: VxlanConfig,
        member: Membership,
    ) -> Result<u32, OpError> {
        let Some(s) = self.router.state::<State>() else { return Err(OpError::new("there is no room")) };
        let free = |n: &u32| self.router.interface_index(&format!("vxlan_tunnel{n}")).is_none();
        let instance = (s.next_tunnel.max(FIRST_TUNNEL)..).find(free).unwrap_or(FIRST_TUNNEL);
        let name = format!("vxlan_tunnel{instance}");
        self.router.commit(vec![
            VxlanOp::Create { instance, config }.into(),
            BridgeOp::Port { name: name.clone(), member: Some(member) }.into(),
        ])?;
        let index = self.router.index_of(&name)?;
        self.router.make_companion(index);
        if let Some(all) = self.router.state_mut::<State>() {
            all.next_tunnel = instance + 1;
        }
        if let Some(s) = self.space() {
            s.tunnels.insert((device, end), index);
            let behind = |f: &Fdb| f.macs.iter().filter(|(_, at)| at.0 == end).map(|(m, _)| *m).collect();
            let macs: Vec<[u8; 6]> = s.fdb.get(&device).map(behind).unwrap_or_default();
            s.work.extend(macs.into_iter().map(|m| Work::Mac(device, m)));
        }
        Ok(index)
    }

    /// Has a tunnel become another one while it stands; whether it could.
    fn change_tunnel(&mut self, index: u32, config: &VxlanConfig) -> bool {
        let Some(Op::Part(made)) = self.router.interface(index).map(|i| &i.origin) else { return false };
        let Some(made @ VxlanOp::Create { instance, .. }) = made.get() else { return false };
        let wanted = VxlanOp::Create { instance: *instance, config: config.clone() };
        *made == wanted || made.turned(&wanted).is_some_and(|op| self.router.commit(vec![op]).is_ok())
    }

    fn unmake_tunnel(&mut self, device: u32, end: IpAddr) {
        let Some(index) = self.space().and_then(|s| s.tunnels.remove(&(device, end))) else { return };
        let name = self.router.interface_name(index);
        let made = self.router.commit(vec![Op::Delete { name: name.clone() }]);
        self.told(&name, made);
    }

    /// An address behind another end; false: once more.
    fn mac(&mut self, device: u32, mac: [u8; 6]) -> bool {
        let Some(s) = self.seen() else { return true };
        let Some((b, d)) = s.device(device) else { return true };
        let Some(id) = s.made.get(&b.ifindex).map(|m| m.id) else { return true };
        let (name, key) = (d.name.clone(), MacAddr(mac));
        let Some((end, _)) = s.fdb.get(&device).and_then(|f| f.macs.get(&mac)).copied() else {
            for (_, index) in s.tunnels_of(device) {
                untell_mac(self.router, id, key, index);
            }
            return true;
        };
        // Its tunnel is made first, and comes back to it.
        let Some(index) = s.tunnels.get(&(device, end)).copied() else { return true };
        let what = format!("{name}: address {key}");
        match tell_mac(self.router, id, key, index) {
            Told::Done => _ = self.told(&what, Ok(())),
            Told::Later => return false,
            Told::Refused => {
                let why = OpError::new("it is static, or the table of addresses is full");
                self.told(&what, Err::<(), _>(why));
            }
        }
        true
    }

    /// Takes out some addresses that were not told again.
    fn sweep(&mut self, device: u32, from: Option<[u8; 6]>) {
        let Some(s) = self.space() else { return };
        let telling = s.telling;
        let Some(fdb) = s.fdb.get_mut(&device) else { return };
        let behind = from.map_or(Bound::Unbounded, Bound::Excluded);
        let some: Vec<([u8; 6], IpAddr, u32)> = fdb
            .macs
            .range((behind, Bound::Unbounded))
            .take(SWEEP)
            .map(|(m, (end, n))| (*m, *end, *n))
            .collect();
        for (mac, end, n) in &some {
            if *n != telling {
                fdb.macs.remove(mac);
                fdb.unuse(*end);
                s.work.extend([Work::Mac(device, *mac), Work::End(device, *end)]);
            }
        }
        if some.len() == SWEEP {
            s.work.push_back(Work::Sweep(device, some.last().map(|(m, ..)| *m)));
        } else if fdb.macs.is_empty() && fdb.flood.is_empty() {
            s.fdb.remove(&device);
        }
    }
}
