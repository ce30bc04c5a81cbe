//! Bridges of Linux's as a part of the control side.

use super::heard::{Bridge, Device, Netns, Space, State};
use crate::interface::ifflags;
use crate::router::{IfState, Kind, Op, Part, Router, Start};
use command::Command;
use std::any::Any;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A bridge of Linux's, for `show lcp bridges`.
pub(super) struct Shown {
    pub netns: Netns,
    pub bridge: Bridge,
    pub id: Option<u32>,
    pub bvi: Option<u32>,
    /// Of each VXLAN device.
    pub ends: Vec<Vec<ShownEnd>>,
}

/// Another end of a VXLAN device.
pub(super) struct ShownEnd {
    pub end: IpAddr,
    pub tunnel: Option<u32>,
    /// Frames to all go there.
    pub flood: bool,
    /// Addresses behind it.
    pub macs: usize,
}

/// All bridges.
pub(super) fn shown(router: &Router) -> Vec<Shown> {
    let all = router.state::<State>().into_iter().flat_map(|s| &s.spaces);
    let one = |netns: &Netns, s: &Space, b: &Bridge| {
        let made = s.made.get(&b.ifindex);
        let ends = |d: &Device| {
            let Some(f) = s.fdb.get(&d.ifindex) else { return vec![] };
            let all: BTreeSet<IpAddr> = f.ends().collect();
            let end = |end: IpAddr| {
                let (tunnel, macs) = (s.tunnels.get(&(d.ifindex, end)), f.uses.get(&end));
                let flood = f.flood.contains_key(&end);
                ShownEnd { end, tunnel: tunnel.copied(), flood, macs: macs.copied().unwrap_or(0) }
            };
            all.into_iter().map(end).collect()
        };
        Shown {
            netns: netns.clone(),
            bridge: b.clone(),
            id: made.map(|m| m.id),
            bvi: made.and_then(|m| m.bvi),
            ends: b.devices.iter().map(ends).collect(),
        }
    };
    all.flat_map(|(n, s)| s.bridges.values().map(move |b| one(n, s, b))).collect()
}

/// What could not be made of what Linux has, and why.
pub(super) fn refused(router: &Router) -> Vec<(Netns, String, String)> {
    let all = router.state::<State>().into_iter().flat_map(|s| &s.spaces);
    all.flat_map(|(n, s)| s.refused.iter().map(|(what, why)| (n.clone(), what.clone(), why.clone())))
        .collect()
}

/// The part.
pub(crate) struct LinuxBridges;

impl Part for LinuxBridges {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    /// In a VRF, packets come to the bridge of a VNI between routers, which has no addresses.
    fn flags(&self, router: &Router, index: u32) -> u16 {
        let is_bvi = router.interface(index).and_then(|i| i.membership).is_some_and(|m| m.bvi);
        let Some(all) = router.state::<State>().filter(|_| is_bvi) else { return 0 };
        let in_vrf = |s: &Space| {
            let (bridge, _) = s.made.iter().find(|(_, m)| m.bvi == Some(index))?;
            s.bridges.get(bridge)?.table
        };
        if all.spaces.values().any(|s| in_vrf(s).is_some()) { ifflags::IP4 | ifflags::IP6 } else { 0 }
    }

    /// Behind those of bridge domains, which ports leave.
    fn releases(&self, router: &Router) -> Vec<Op> {
        let Some(s) = router.state::<State>() else { return vec![] };
        let bvis = s.spaces.values().flat_map(|s| s.made.values().filter_map(|m| m.bvi));
        let tunnels = s.spaces.values().flat_map(|s| s.tunnels.values().copied());
        let there = |i: &u32| router.interface(*i).is_some_and(|i: &IfState| i.kind != Kind::Local);
        bvis.chain(tunnels).filter(there).map(|i| Op::Delete { name: router.interface_name(i) }).collect()
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let Some(all) = router.state_mut::<State>() else { return };
        for s in all.spaces.values_mut() {
            s.tunnels.retain(|_, i| *i != index);
            s.made.values_mut().for_each(|m| m.bvi = m.bvi.filter(|i| *i != index));
        }
    }
}
