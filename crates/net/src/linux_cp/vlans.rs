//! VLAN devices that are made in Linux above the devices of pairs: each is a sub-interface here, and the pair of that.
//!
//! Frames go between both sides on the TAP below, with their tags. The sub-interface is Linux's: it comes and goes with the device,
//! and has from it all that a pair gives its interface.

use super::part::{self, Pair, State};
use super::sync::Applied;
use super::{Paired, part::pairs};
use crate::interface::IfIndex;
use crate::router::{Encap, Kind, Op, OpError, RouteTable, Router};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Sub-interfaces whose number is not the VLAN's are numbered from here on.
const FIRST: u32 = 4096;
/// How long some are made before others have their turn.
const TURN: Duration = Duration::from_millis(2);

/// A VLAN device of Linux's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanDevice {
    /// Linux's index of it.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Linux's index of the device below it.
    pub below: u32,
    /// The VLAN, 1 to 4094.
    pub vlan: u16,
    /// Its tag is one of 802.1ad.
    pub dot1ad: bool,
}

/// The sub-interface of a VLAN device, as it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    parent: IfIndex,
    encap: Encap,
    /// The TAP of the pair below, and the tags that frames have not there.
    tap: IfIndex,
    pop: u8,
    /// The operator's tables of the interface below: they are Linux's main ones.
    tables: [u32; 2],
}

/// The VLAN devices of a namespace.
#[derive(Default)]
struct Space {
    /// Their sub-interfaces, by Linux's index.
    made: BTreeMap<u32, (IfIndex, Wanted)>,
    /// Those that cannot have one, and why.
    refused: BTreeMap<String, String>,
}

/// Those of all namespaces.
#[derive(Default)]
pub(super) struct Vlans(BTreeMap<Option<String>, Space>);

impl Vlans {
    /// A sub-interface is gone.
    pub fn forget(&mut self, index: IfIndex) {
        self.0.values_mut().for_each(|s| s.made.retain(|_, (i, _)| *i != index));
    }
}

/// What is not followed, and why: namespace, device, reason.
pub fn refused_vlans(router: &Router) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
    let all = router.state::<State>().into_iter().flat_map(|s| &s.vlans.0);
    all.flat_map(|(n, s)| s.refused.iter().map(move |(d, why)| (n.as_deref(), d.as_str(), why.as_str())))
}

fn encap(below: Option<Encap>, d: &VlanDevice) -> Result<Encap, &'static str> {
    let tags = |dot1ad, outer, inner: Option<u16>| Encap::Tags {
        dot1ad,
        outer: Some(outer),
        inner: inner.map(Some),
        exact: true,
    };
    match below {
        None => Ok(tags(d.dot1ad, d.vlan, None)),
        Some(Encap::Tags { dot1ad, outer: Some(outer), inner: None, .. }) if !d.dot1ad => {
            Ok(tags(dot1ad, outer, Some(d.vlan)))
        }
        Some(Encap::Tags { inner: None, .. }) => {
            Err("the inner of two tags is one of 802.1Q, not of 802.1ad")
        }
        Some(_) => Err("frames have two tags at most"),
    }
}

/// What a device is to be, where the device below it is a pair's; nothing: it is somebody else's.
fn wanted(
    router: &Router,
    below: &BTreeMap<u32, IfIndex>,
    d: &VlanDevice,
) -> Option<Result<Wanted, &'static str>> {
    let (index, s) = (*below.get(&d.below)?, router.state::<State>()?);
    let (i, pair) = (router.interface(index)?, s.pairs.get(&index)?);
    let (parent, under) = match i.kind {
        Kind::Sub { parent, encap, .. } => (parent, Some(encap)),
        _ => (index, None),
    };
    let tables = [false, true].map(|v6| router.operators_table(i, v6));
    let pop = s.to.get(&index).map_or(0, |to| to.pop);
    Some(encap(under, d).map(|encap| Wanted { parent, encap, tap: pair.tap, pop, tables }))
}

/// Makes a sub-interface of a device, and answers its number.
fn make(router: &mut Router, netns: &Option<String>, d: &VlanDevice, w: &Wanted) -> Result<IfIndex, OpError> {
    let parent = router.interface_name(w.parent);
    let plain = matches!(w.encap, Encap::Tags { inner: None, .. });
    let numbers = plain.then_some(u32::from(d.vlan)).into_iter().chain(FIRST..);
    let id = numbers.into_iter().find(|id| router.interface_index(&format!("{parent}.{id}")).is_none());
    let Some(id) = id else { return Err(OpError::new("there is no number left")) };
    let name = format!("{parent}.{id}");
    let mut ops = vec![Op::CreateSub { parent, id, encap: w.encap }];
    for (v6, table) in [false, true].into_iter().zip(w.tables).filter(|(_, table)| *table != 0) {
        ops.push(Op::SetTable { name: name.clone(), table: RouteTable { v6, id: table } });
    }
    router.commit(ops)?;
    let index = router.index_of(&name)?;
    router.make_companion(index);
    let Some(i) = router.interface(index) else { return Ok(index) };
    let applied = Applied { ifindex: d.ifindex, up: i.up, ..Applied::made(part::mac(router, i), i.mtu) };
    let linux = Paired { host: d.name.clone(), netns: netns.clone() };
    let pair = Pair { vlan: Some(w.pop), ..Pair::new(linux, w.tap, applied) };
    part::insert(router, index, pair);
    router.publish_interface(index);
    Ok(index)
}

/// Has sub-interfaces made of the VLAN devices of a namespace, and those of others taken away.
pub struct TakeVlans<'d> {
    netns: &'d Option<String>,
    devices: BTreeMap<u32, &'d VlanDevice>,
    /// Devices that are to be looked at; those above others twice.
    next: Vec<&'d VlanDevice>,
    refused: BTreeMap<String, String>,
    began: bool,
}

impl<'d> TakeVlans<'d> {
    /// They are these.
    pub fn new(netns: &'d Option<String>, devices: &'d [VlanDevice]) -> Self {
        let next = devices.iter().rev().chain(devices.iter().rev()).collect();
        let devices = devices.iter().map(|d| (d.ifindex, d)).collect();
        TakeVlans { netns, devices, next, refused: BTreeMap::new(), began: false }
    }

    /// Makes some of it; whether there is more to do.
    pub fn work(&mut self, router: &mut Router) -> bool {
        let known = router.state::<State>().is_some_and(|s| s.vlans.0.contains_key(self.netns));
        if self.devices.is_empty() && !known {
            return false;
        }
        router.with_companions(|router| self.some(router))
    }

    /// Linux's indices of devices that may have VLAN devices above, and their interfaces.
    fn below(&self, router: &Router) -> BTreeMap<u32, IfIndex> {
        let all = pairs(router).filter(|p| p.linux.netns == *self.netns);
        all.filter_map(|p| Some((p.ifindex?, p.interface))).collect()
    }

    /// Those that are not as they are to be, the uppermost first: what it stands on may go as well.
    fn old(&self, router: &Router, mut below: BTreeMap<u32, IfIndex>) -> Vec<(u32, IfIndex)> {
        let made = router.state::<State>().and_then(|s| s.vlans.0.get(self.netns)).map(|s| &s.made);
        let mut left: Vec<_> = made.into_iter().flatten().collect();
        let mut old = vec![];
        for _ in 0..2 {
            let stays = |(ifindex, (index, was)): &mut (&u32, &(IfIndex, Wanted))| {
                let Some(d) = self.devices.get(ifindex) else { return false };
                let named = part::pair(router, *index).is_some_and(|p| p.linux.host == d.name);
                named && wanted(router, &below, d) == Some(Ok(*was))
            };
            let gone: Vec<_> =
                left.extract_if(.., |m| !stays(m)).map(|(ifindex, (i, _))| (*ifindex, *i)).collect();
            gone.iter().for_each(|(ifindex, _)| _ = below.remove(ifindex));
            old.extend(gone);
        }
        old.reverse();
        old
    }

    fn some(&mut self, router: &mut Router) -> bool {
        let end = Instant::now() + TURN;
        let mut below = self.below(router);
        if !self.began {
            for (ifindex, index) in self.old(router, below.clone()) {
                let name = router.interface_name(index);
                match router.commit(vec![Op::Delete { name: name.clone() }]) {
                    Ok(()) if Instant::now() >= end => return true,
                    Ok(()) => _ = below.remove(&ifindex),
                    Err(e) => _ = self.refused.insert(name, format!("its VLAN device is gone: {e}")),
                }
            }
            self.began = true;
        }
        while let Some(d) = self.next.pop() {
            if below.contains_key(&d.ifindex) {
                continue;
            }
            let Some(wanted) = wanted(router, &below, d) else { continue };
            match wanted.map_err(OpError::new).and_then(|w| Ok((make(router, self.netns, d, &w)?, w))) {
                Ok((index, w)) => {
                    self.refused.remove(&d.name);
                    below.insert(d.ifindex, index);
                    if let Some(s) = router.state_mut::<State>() {
                        let space = s.vlans.0.entry(self.netns.clone()).or_default();
                        space.made.insert(d.ifindex, (index, w));
                    }
                }
                Err(e) => _ = self.refused.insert(d.name.clone(), e.message),
            }
            if Instant::now() >= end && !self.next.is_empty() {
                return true;
            }
        }
        self.tell(router);
        false
    }

    /// What cannot be is told once.
    fn tell(&mut self, router: &mut Router) {
        let Some(s) = router.state_mut::<State>() else { return };
        let space = s.vlans.0.entry(self.netns.clone()).or_default();
        let was = std::mem::replace(&mut space.refused, self.refused.clone());
        if space.made.is_empty() && self.refused.is_empty() {
            s.vlans.0.remove(self.netns);
        }
        let of = self.netns.as_ref().map_or_else(String::new, |n| format!(" of namespace {n}"));
        for (device, why) in self.refused.iter().filter(|(d, why)| was.get(*d) != Some(why)) {
            router.note(true, format!("VLAN device {device}{of} is not followed: {why}"));
        }
    }
}
