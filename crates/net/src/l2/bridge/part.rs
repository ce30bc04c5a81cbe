//! Bridge domains as a part of the control side: what the operator set, and what workers see of it.

use super::ops::BridgeOp;
use super::port::{self, Port};
use super::{commands, macs};
use crate::interface::{BdIndex, BridgePort, Retag, bflags};
use crate::neighbor::Millis;
use crate::plane::{Bridge, L2Writers, Member};
use crate::router::{
    FloodClass, IfState, Kind, Membership, Op, OpError, Part, Router, Start, check_description,
};
use command::Command;
use packet::eth::MacAddr;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use tables::macs::MacWriter;
use tables::slots::SlotsWriter;

/// How a bridge domain forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Source addresses are learned.
    pub learn: bool,
    /// Frames to known addresses go where these are.
    pub forward: bool,
    /// Broadcasts and multicasts are flooded.
    pub flood: bool,
    /// Frames to unknown addresses are flooded.
    pub uu_flood: bool,
    /// ARP requests and neighbour solicitations are answered for the entries.
    pub arp_term: bool,
    /// They are sent to the entry's station instead.
    pub arp_ufwd: bool,
    /// Minutes after which an address is forgotten; 0: never.
    pub mac_age: u8,
    /// The most addresses that are learned in it; none: as many as the router may.
    pub mac_limit: Option<u32>,
    /// Free text.
    pub tag: Option<String>,
}

impl Default for BridgeSettings {
    fn default() -> Self {
        BridgeSettings {
            learn: true,
            forward: true,
            flood: true,
            uu_flood: true,
            arp_term: false,
            arp_ufwd: false,
            mac_age: 0,
            mac_limit: None,
            tag: None,
        }
    }
}

impl BridgeSettings {
    pub(super) fn check(&self, id: u32) -> Result<(), OpError> {
        let right = self.tag.as_deref().map_or(Ok(()), check_description);
        right.map_err(|why| OpError::new(format!("bridge domain {id}: {why}")))
    }

    pub(super) fn flags(&self) -> u8 {
        let bits = [
            (self.learn, bflags::LEARN),
            (self.forward, bflags::FORWARD),
            (self.flood, bflags::FLOOD),
            (self.uu_flood, bflags::UU_FLOOD),
            (self.arp_term, bflags::ARP_TERM),
            (self.arp_ufwd, bflags::ARP_UFWD),
        ];
        bits.iter().filter(|b| b.0).fold(0, |all, b| all | b.1)
    }
}

/// A bridge domain on the control side.
#[derive(Clone, Debug)]
pub struct BridgeState {
    /// The operator's number.
    pub id: u32,
    /// That of workers.
    pub index: BdIndex,
    /// How it forwards.
    pub settings: BridgeSettings,
    /// Its members by interface, the BVI among them.
    pub members: BTreeMap<u32, Membership>,
    /// Addresses for which it answers.
    pub arp: BTreeMap<IpAddr, MacAddr>,
    /// The bridge in Linux that it is; the operator neither changes nor saves it.
    pub companion: Option<String>,
    /// What its counters said when it was made.
    pub(super) events: (u64, u64),
}

impl BridgeState {
    /// The interface through which it is routed.
    pub fn bvi(&self) -> Option<u32> {
        self.members.iter().find(|(_, m)| m.bvi).map(|(i, _)| *i)
    }
}

/// The largest number of a bridge domain; 0 is VPP's own and stands for none.
pub const MAX_BRIDGE_ID: u32 = 16_777_215;

/// The part.
pub(crate) struct Bridging;

/// A member of which somebody else says what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Far {
    /// Addresses are learned there as well, and forgotten.
    pub learns: bool,
    /// Frames to all go there.
    pub flooded: bool,
}

/// All bridge domains.
pub(super) struct Bridges {
    pub slots: SlotsWriter<Bridge>,
    pub macs: MacWriter,
    pub by_id: BTreeMap<u32, BridgeState>,
    /// What interfaces were told that is not as by default.
    pub ports: BTreeMap<u32, Port>,
    /// Members of which somebody else says what is behind them.
    pub far: BTreeMap<u32, Far>,
    /// The operator's number of each bridge domain.
    pub ids: Vec<u32>,
    /// The address under which each BVI is known.
    pub bvi_macs: HashMap<u32, MacAddr>,
    /// Bridge domains and ports whose addresses go once all workers have passed an epoch.
    pub gone: Vec<(u64, macs::Gone)>,
    /// The stamp for which the table was last looked at.
    pub aged: u16,
    pub ageing: bool,
}

impl Bridges {
    fn new(writers: L2Writers) -> Self {
        Bridges {
            slots: writers.bridges,
            macs: writers.macs,
            by_id: BTreeMap::new(),
            ports: BTreeMap::new(),
            far: BTreeMap::new(),
            ids: vec![0],
            bvi_macs: HashMap::new(),
            gone: vec![],
            aged: 0,
            ageing: false,
        }
    }
}

pub(super) fn state(router: &Router) -> Option<&Bridges> {
    router.state()
}

pub(super) fn state_mut(router: &mut Router) -> Option<&mut Bridges> {
    router.state_mut()
}

/// The bridge domain of this number, or why there is none.
pub(super) fn known(router: &Router, id: u32) -> Result<&BridgeState, OpError> {
    bridge(router, id).ok_or_else(|| OpError::new(format!("there is no bridge domain {id}")))
}

/// The bridge domain of this number, for a change; nothing where there is none.
pub(super) fn change(router: &mut Router, id: u32) -> Option<&mut BridgeState> {
    state_mut(router)?.by_id.get_mut(&id)
}

/// The bridge domain of this number.
pub fn bridge(router: &Router, id: u32) -> Option<&BridgeState> {
    state(router)?.by_id.get(&id)
}

/// The bridge domains from a number on.
pub fn bridges_from(router: &Router, id: u32) -> impl Iterator<Item = &BridgeState> {
    state(router).into_iter().flat_map(move |b| b.by_id.range(id..)).map(|(_, b)| b)
}

/// All bridge domains, by number.
pub fn bridges(router: &Router) -> impl Iterator<Item = &BridgeState> {
    bridges_from(router, 0)
}

/// Somebody else says what is behind an interface, or no more; workers see it.
pub(crate) fn set_far(router: &mut Router, index: u32, far: Option<Far>) {
    let Some(b) = state_mut(router) else { return };
    let was = match far {
        Some(far) => b.far.insert(index, far),
        None => b.far.remove(&index),
    };
    if let Some(m) = router.interface(index).and_then(|i| i.membership).filter(|_| was != far) {
        publish(router, m.bridge);
    }
}

/// A bridge domain is a bridge of Linux's.
pub(crate) fn make_companion(router: &mut Router, id: u32, of: String) {
    if let Some(b) = change(router, id) {
        b.companion = Some(of);
    }
}

/// Writes what workers see of a bridge domain.
pub(super) fn publish(router: &mut Router, id: u32) {
    let Some(b) = bridge(router, id) else { return };
    let is = |member: &u32, class| {
        let i = router.interface(*member).and_then(|i| router.interface(i.hw()));
        i.is_some_and(|i| matches!(i.kind, Kind::Virtual(v) if v.flood == class))
    };
    let group = b.members.keys().any(|m| is(m, FloodClass::Group));
    let far = state(router).map(|b| &b.far);
    let quiet = |m: &u32| far.and_then(|f| f.get(m)).is_some_and(|f| !f.flooded);
    let reached = b.members.iter().filter(|(m, _)| !(quiet(m) || group && is(m, FloodClass::End)));
    let members = reached.map(|(i, m)| Member { interface: *i, shg: m.shg });
    let (mut arp4, mut arp6) = (vec![], vec![]);
    for (address, mac) in &b.arp {
        match address {
            IpAddr::V4(a) => arp4.push((u32::from(*a), mac.0)),
            IpAddr::V6(a) => arp6.push((u128::from(*a), mac.0)),
        }
    }
    let content = Bridge {
        limit: b.settings.mac_limit.unwrap_or(u32::MAX),
        members: members.collect(),
        arp4: arp4.into(),
        arp6: arp6.into(),
    };
    let index = b.index.into();
    if let Some(all) = state_mut(router) {
        all.slots.replace(index, content);
    }
}

impl Part for Bridging {
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send> {
        match start.ends.l2.take() {
            Some(writers) => Box::new(Bridges::new(writers)),
            None => Box::new(()),
        }
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn makes(&self, router: &Router, i: &IfState, before_features: bool) -> Vec<Op> {
        let name = || i.name.clone();
        let bvi = i.membership.is_some_and(|m| m.bvi);
        let member = i.membership.map(|m| BridgeOp::Port { name: name(), member: Some(m) });
        // A loopback has stations only as a BVI, and some features need them.
        let mut ops: Vec<BridgeOp> = member.into_iter().filter(|_| bvi == before_features).collect();
        if !before_features {
            let told = port::port(router, i.index);
            let change =
                told.tag_change.as_ref().map(|c| BridgeOp::Tags { name: name(), change: Some(c.clone()) });
            let features = (told.features != Default::default())
                .then(|| BridgeOp::PortFeatures { name: name(), features: told.features });
            let limit = told.mac_limit.map(|l| BridgeOp::PortLimit { name: name(), limit: Some(l) });
            ops.splice(..0, change.into_iter().chain(features).chain(limit));
            let fixed = i.membership.map(|m| macs::static_of(router, m.bridge, Some(i.index)));
            ops.extend(fixed.into_iter().flatten());
        }
        ops.into_iter().map(Op::from).collect()
    }

    fn bridged(&self, router: &Router, i: &IfState) -> (Option<BridgePort>, Retag) {
        let change = port::port(router, i.index).tag_change.as_ref();
        (port::seen(router, i), change.map(|c| c.retag(i.tags())).unwrap_or_default())
    }

    fn mac_changed(&self, router: &mut Router, index: u32) -> Result<(), OpError> {
        macs::follow_bvi(router, index)
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let members = router.interfaces().filter(|i| i.membership.is_some());
        let leave = members.map(|i| BridgeOp::Port { name: i.name.clone(), member: None });
        let all = leave.chain(bridges(router).map(|b| BridgeOp::Delete { id: b.id }));
        all.map(Op::from).collect()
    }

    fn removed(&self, router: &mut Router, index: u32) {
        port::leave(router, index, false);
        if let Some(b) = state_mut(router) {
            b.ports.remove(&index);
            b.far.remove(&index);
        }
    }

    fn filled(&self, router: &mut Router) {
        macs::grow(router);
    }

    fn reclaiming(&self, router: &mut Router) {
        macs::maintain(router);
    }

    /// A growing table goes on as soon as workers have passed.
    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        state(router)?.macs.is_growing().then(|| router.now().after(1))
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        macs::age(router, now);
    }
}
