//! Bridge domains: what the operator set, and what workers see of it.

mod macs;
mod ops;
mod port;

pub use macs::{MacCounts, MacInfo};
pub use ops::{BridgeOp, StaticMac};
pub use port::{Membership, PortFeatures, TagChange, VlanTag};

use super::interfaces::Interfaces;
use super::{FloodClass, Kind, OpError, Router, check_description};
use crate::interface::bflags;
use crate::plane::{Bridge, L2Writers, Member};
use packet::eth::MacAddr;
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
    fn check(&self, id: u32) -> Result<(), OpError> {
        let right = self.tag.as_deref().map_or(Ok(()), check_description);
        right.map_err(|why| OpError::new(format!("bridge domain {id}: {why}")))
    }

    fn flags(&self) -> u8 {
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
    /// The workers' number.
    pub number: u16,
    /// How it forwards.
    pub settings: BridgeSettings,
    /// Its members by interface, the BVI among them.
    pub members: BTreeMap<u32, Membership>,
    /// Addresses for which it answers.
    pub arp: BTreeMap<IpAddr, MacAddr>,
    /// What its counters said when it was made.
    events: (u64, u64),
}

impl BridgeState {
    /// The interface through which it is routed.
    pub fn bvi(&self) -> Option<u32> {
        self.members.iter().find(|(_, m)| m.bvi).map(|(i, _)| *i)
    }
}

/// The largest number of a bridge domain; 0 is VPP's own and stands for none.
pub const MAX_BRIDGE_ID: u32 = 16_777_215;

pub(crate) struct Bridges {
    slots: SlotsWriter<Bridge>,
    macs: MacWriter,
    by_id: BTreeMap<u32, BridgeState>,
    /// The operator's number of each bridge domain.
    ids: Vec<u32>,
    /// The address under which each BVI is known.
    bvi_macs: HashMap<u32, MacAddr>,
    /// Bridge domains and ports whose addresses go once all workers have passed an epoch.
    gone: Vec<(u64, macs::Gone)>,
    /// The stamp for which the table was last looked at.
    aged: u16,
    ageing: bool,
}

impl Bridges {
    pub fn new(writers: L2Writers) -> Self {
        Bridges {
            slots: writers.bridges,
            macs: writers.macs,
            by_id: BTreeMap::new(),
            ids: vec![0],
            bvi_macs: HashMap::new(),
            gone: vec![],
            aged: 0,
            ageing: false,
        }
    }

    /// Whether something goes on as soon as workers have passed.
    pub fn waits_for_workers(&self) -> bool {
        self.macs.is_growing()
    }

    fn find(&self, id: u32) -> Result<&BridgeState, OpError> {
        self.by_id.get(&id).ok_or_else(|| OpError::new(format!("there is no bridge domain {id}")))
    }

    /// Writes what workers see of a bridge domain.
    fn publish(&mut self, id: u32, interfaces: &Interfaces) {
        let Some(b) = self.by_id.get(&id) else { return };
        let is = |member: &u32, class| {
            let i = interfaces.get(*member).and_then(|i| interfaces.get(i.hw()));
            i.is_some_and(|i| matches!(i.kind, Kind::Virtual(v) if v.flood == class))
        };
        let group = b.members.keys().any(|m| is(m, FloodClass::Group));
        let reached = b.members.iter().filter(|(m, _)| !(group && is(m, FloodClass::End)));
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
        self.slots.replace(b.number.into(), content);
    }
}

impl Router {
    /// The bridge domain of this number.
    pub fn bridge(&self, id: u32) -> Option<&BridgeState> {
        self.bridges.by_id.get(&id)
    }

    /// The bridge domains from a number on.
    pub fn bridges_from(&self, id: u32) -> impl Iterator<Item = &BridgeState> {
        self.bridges.by_id.range(id..).map(|(_, b)| b)
    }

    /// All bridge domains, by number.
    pub fn bridges(&self) -> impl Iterator<Item = &BridgeState> {
        self.bridges.by_id.values()
    }
}
