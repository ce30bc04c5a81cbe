//! What Linux has of bridges, as it is told, and what is made of each.

use super::make::At;
use crate::l2::bridge as bridging;
use crate::router::{OpError, Router};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

/// A bridge as Linux has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Linux's index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// The largest IP packet, bytes.
    pub mtu: u16,
    /// Its MAC address.
    pub mac: MacAddr,
    /// Minutes after which addresses are forgotten, at least 1.
    pub age: u8,
    /// The table of the VRF in which it is.
    pub table: Option<u32>,
    /// Its addresses but the link-local ones.
    pub addresses: BTreeSet<IpNet>,
    /// The interfaces whose pairs are its ports, and whether addresses are learned there.
    pub ports: BTreeMap<u32, bool>,
    /// The VXLAN devices that are its ports.
    pub devices: Vec<Device>,
}

impl Bridge {
    /// Whether packets are routed through it: it has addresses, or it is how a VRF reaches other routers (RFC 9135), which needs none.
    pub fn is_routed(&self) -> bool {
        !self.addresses.is_empty() || self.table.is_some() && !self.devices.is_empty()
    }
}

/// A VXLAN device that is a port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Linux's index.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// The largest IP packet inside, bytes.
    pub mtu: u16,
    /// The network identifier.
    pub vni: u32,
    /// The address of this end.
    pub local: IpAddr,
    /// The UDP port of both ends.
    pub port: u16,
    /// TTL or hop limit outside; 0: as by default.
    pub ttl: u8,
    /// Over IPv6, packets have no UDP checksum.
    pub zero_checksum: bool,
    /// Addresses are learned from what comes, besides those that are said.
    pub learning: bool,
}

/// A MAC address behind another end of a VXLAN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAt {
    /// Linux's index of the device.
    pub device: u32,
    /// The address; zero: where frames to all and to unknown addresses go.
    pub mac: MacAddr,
    /// The other end.
    pub end: IpAddr,
    /// It is there no more.
    pub gone: bool,
}

/// What Linux says of a VXLAN device's other ends. Each entry has the number of the telling that it was in.
#[derive(Default)]
pub(super) struct Fdb {
    pub flood: BTreeMap<IpAddr, u32>,
    pub macs: BTreeMap<[u8; 6], (IpAddr, u32)>,
    /// How many addresses are behind each.
    pub uses: BTreeMap<IpAddr, usize>,
}

impl Fdb {
    pub fn unuse(&mut self, end: IpAddr) {
        if let Some(n) = self.uses.get_mut(&end) {
            *n -= 1;
            if *n == 0 {
                self.uses.remove(&end);
            }
        }
    }

    pub fn is_used(&self, end: &IpAddr) -> bool {
        self.flood.contains_key(end) || self.uses.contains_key(end)
    }

    pub fn ends(&self) -> impl Iterator<Item = IpAddr> {
        self.flood.keys().chain(self.uses.keys()).copied()
    }
}

/// What is made of a bridge.
#[derive(Clone, Copy, Default)]
pub(super) struct Made {
    /// The bridge domain; 0: none yet.
    pub id: u32,
    pub bvi: Option<u32>,
}

/// Something to look at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Bridge(u32),
    /// A VXLAN device, and another end.
    End(u32, IpAddr),
    Mac(u32, [u8; 6]),
    /// Addresses of a VXLAN device behind this one, those that were not told again.
    Sweep(u32, Option<[u8; 6]>),
}

/// A namespace.
#[derive(Default)]
pub(super) struct Space {
    pub bridges: BTreeMap<u32, Bridge>,
    pub fdb: BTreeMap<u32, Fdb>,
    /// The number of the last telling of all.
    pub telling: u32,
    /// It goes on.
    pub telling_all: bool,
    pub made: BTreeMap<u32, Made>,
    pub tunnels: BTreeMap<(u32, IpAddr), u32>,
    pub work: VecDeque<Work>,
    /// What could not be made, and why.
    pub refused: BTreeMap<String, String>,
    /// What was told to be such.
    pub cannot: BTreeMap<String, String>,
}

impl Space {
    /// A VXLAN device, and its bridge.
    pub fn device(&self, ifindex: u32) -> Option<(&Bridge, &Device)> {
        self.bridges.values().find_map(|b| Some((b, b.devices.iter().find(|d| d.ifindex == ifindex)?)))
    }

    pub fn tunnels_of(&self, device: u32) -> Vec<(IpAddr, u32)> {
        self.tunnels.iter().filter(|((d, _), _)| *d == device).map(|((_, end), i)| (*end, *i)).collect()
    }
}

pub(super) type Netns = Option<String>;

/// The part's state.
#[derive(Default)]
pub(super) struct State {
    pub spaces: BTreeMap<Netns, Space>,
    /// The number that the next tunnel may have.
    pub next_tunnel: u32,
}

pub(super) fn space<'r>(router: &'r mut Router, netns: &Netns) -> Option<&'r mut Space> {
    router.state_mut::<State>().map(|s| s.spaces.entry(netns.clone()).or_default())
}

pub(super) fn seen<'r>(router: &'r Router, netns: &Netns) -> Option<&'r Space> {
    router.state::<State>()?.spaces.get(netns)
}

/// Linux has these bridges in a namespace, and no others; `cannot`: others, by what they are called, and why they cannot be.
pub fn take_bridges(
    router: &mut Router,
    netns: &Netns,
    bridges: Vec<Bridge>,
    cannot: BTreeMap<String, String>,
) {
    if bridges.is_empty() && cannot.is_empty() && seen(router, netns).is_none() {
        return;
    }
    let mut at = At { router, netns };
    let was = at.space().map(|s| std::mem::take(&mut s.cannot)).unwrap_or_default();
    for what in was.keys().filter(|what| !cannot.contains_key(*what)) {
        at.told(what, Ok(()));
    }
    for (what, why) in &cannot {
        at.told(what, Err::<(), _>(OpError::new(why.clone())));
    }
    let Some(s) = space(router, netns) else { return };
    s.cannot = cannot;
    let new: BTreeMap<u32, Bridge> = bridges.into_iter().map(|b| (b.ifindex, b)).collect();
    let devices = |all: &BTreeMap<u32, Bridge>| -> BTreeMap<u32, (u32, Device)> {
        let of =
            |b: &Bridge| b.devices.iter().map(|d| (d.ifindex, (b.ifindex, d.clone()))).collect::<Vec<_>>();
        all.values().flat_map(of).collect()
    };
    let (was, is) = (devices(&s.bridges), devices(&new));
    let all: BTreeSet<u32> = s.bridges.keys().chain(new.keys()).chain(s.made.keys()).copied().collect();
    s.bridges = new;
    s.work.extend(all.into_iter().map(Work::Bridge));
    // Where the bridge or the device is another one, its tunnels are, and what was behind them.
    for device in was.keys().chain(is.keys()).collect::<BTreeSet<_>>() {
        let ends: BTreeSet<IpAddr> = s.fdb.get(device).into_iter().flat_map(Fdb::ends).collect();
        let made = s.tunnels.keys().filter(|(d, _)| d == device).map(|(_, end)| *end);
        let ends: BTreeSet<IpAddr> = ends.into_iter().chain(made).collect();
        s.work.extend(ends.into_iter().map(|end| Work::End(*device, end)));
    }
}

/// All addresses behind VXLAN devices of a namespace are told anew, by [`take_macs`].
pub fn begin_macs(router: &mut Router, netns: &Netns) {
    if let Some(s) = space(router, netns) {
        (s.telling, s.telling_all) = (s.telling.wrapping_add(1), true);
    }
}

/// Addresses behind VXLAN devices of a namespace, at most some hundreds.
pub fn take_macs(router: &mut Router, netns: &Netns, macs: &[MacAt]) {
    let Some(s) = space(router, netns) else { return };
    for m in macs {
        let fdb = s.fdb.entry(m.device).or_default();
        s.work.push_back(Work::End(m.device, m.end));
        if m.mac == MacAddr::ZERO {
            match m.gone {
                true => _ = fdb.flood.remove(&m.end),
                false => _ = fdb.flood.insert(m.end, s.telling),
            }
            continue;
        }
        let was = fdb.macs.get(&m.mac.0).map(|(end, _)| *end);
        if m.gone {
            // It may be behind another one by now.
            if was != Some(m.end) {
                continue;
            }
            fdb.macs.remove(&m.mac.0);
            fdb.unuse(m.end);
        } else {
            fdb.macs.insert(m.mac.0, (m.end, s.telling));
            if was != Some(m.end) {
                *fdb.uses.entry(m.end).or_default() += 1;
                if let Some(was) = was {
                    fdb.unuse(was);
                    s.work.push_back(Work::End(m.device, was));
                }
            } else if s.telling_all {
                // It may have been heard elsewhere since, which the daemon is about to hear.
                continue;
            }
        }
        s.work.push_back(Work::Mac(m.device, m.mac.0));
    }
}

/// All were told: the others are gone.
pub fn end_macs(router: &mut Router, netns: &Netns) {
    let Some(s) = space(router, netns) else { return };
    s.telling_all = false;
    for (device, fdb) in &mut s.fdb {
        let gone: Vec<IpAddr> =
            fdb.flood.extract_if(.., |_, n| *n != s.telling).map(|(end, _)| end).collect();
        s.work.extend(gone.into_iter().map(|end| Work::End(*device, end)));
        s.work.push_back(Work::Sweep(*device, None));
    }
}

/// A namespace is followed no more.
pub fn forget(router: &mut Router, netns: &Netns) {
    if seen(router, netns).is_none() {
        return;
    }
    take_bridges(router, netns, vec![], BTreeMap::new());
    if let Some(s) = space(router, netns) {
        s.fdb.clear();
    }
}

/// The BVIs that are made for bridges of a namespace, with Linux's index of the bridge.
pub fn svis(router: &Router, netns: &Netns) -> Vec<(u32, u32)> {
    let made = seen(router, netns).into_iter().flat_map(|s| &s.made);
    made.filter_map(|(ifindex, m)| Some((*ifindex, m.bvi?))).collect()
}

/// Some addresses that were learnt on ports of bridges of a namespace, from a place in the table on, and the place that comes next: the interface, and the address.
pub fn local_macs(router: &Router, netns: &Netns, from: usize) -> (Vec<(u32, MacAddr)>, Option<usize>) {
    let Some(s) = seen(router, netns).filter(|s| !s.made.is_empty()) else { return (vec![], None) };
    let ports: BTreeMap<u32, bool> =
        s.bridges.values().flat_map(|b| b.ports.iter().map(|(i, learns)| (*i, *learns))).collect();
    let (some, next) = bridging::macs_from(router, from);
    let learnt = some.into_iter().filter(|m| !m.fixed && !m.bvi);
    let local = learnt.filter_map(|m| Some((m.interface.filter(|i| ports.get(i) == Some(&true))?, m.mac)));
    (local.collect(), next)
}
