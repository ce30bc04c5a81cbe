//! Operations on bridge domains.

use super::macs;
use super::part::{self, BridgeSettings, BridgeState, MAX_BRIDGE_ID, change, known};
use super::port::{self, PortFeatures, TagChange};
use crate::interface::BdIndex;
use crate::plane::{Bridge, MAC_LIMIT};
use crate::router::{Kind, Membership, Op, OpError, PartOp, Router};
use packet::eth::MacAddr;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where the frames to a static address go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticMac {
    /// To a member.
    Port(String),
    /// They are dropped, and those from it as well.
    Filter,
}

/// One change of bridge domains.
#[derive(Clone, Debug, PartialEq)]
pub enum BridgeOp {
    /// Makes a bridge domain.
    Create {
        /// Its number, 1 to 16777215.
        id: u32,
        /// How it forwards.
        settings: BridgeSettings,
    },
    /// Takes out a bridge domain without members.
    Delete {
        /// Its number.
        id: u32,
    },
    /// Changes how it forwards.
    Set {
        /// Its number.
        id: u32,
        /// All settings.
        settings: BridgeSettings,
    },
    /// Puts an interface into a bridge domain, or takes it out of the one that it is in.
    Port {
        /// The interface.
        name: String,
        /// The bridge domain, and what the interface is to it.
        member: Option<Membership>,
    },
    /// What becomes of the tags of an interface's frames on layer 2.
    Tags {
        /// The interface.
        name: String,
        /// The change; none: they stay as they are.
        change: Option<TagChange>,
    },
    /// What an interface lets its bridge domain do with its frames.
    PortFeatures {
        /// The interface.
        name: String,
        /// All of them.
        features: PortFeatures,
    },
    /// The most addresses that are learned on an interface.
    PortLimit {
        /// The interface.
        name: String,
        /// None: as many as the bridge domain may have.
        limit: Option<u32>,
    },
    /// The most addresses that are learned in all bridge domains.
    TableLimit {
        /// Addresses.
        limit: u32,
    },
    /// Sets or removes a static address.
    Mac {
        /// Bridge domain.
        id: u32,
        /// A unicast address.
        mac: MacAddr,
        /// Where its frames go; none: the address is forgotten.
        to: Option<StaticMac>,
    },
    /// Sets or removes an address for which the bridge domain answers.
    Arp {
        /// Bridge domain.
        id: u32,
        /// IPv4 or IPv6.
        address: IpAddr,
        /// The station that has it.
        mac: Option<MacAddr>,
    },
}

/// Refuses to change a bridge domain that is a bridge of Linux's.
fn check_own(router: &Router, op: &BridgeOp) -> Result<(), OpError> {
    let of = |name: &str| router.interface_index(name).and_then(|i| router.interface(i)?.membership);
    let (left, id) = match op {
        BridgeOp::Port { name, member } => (of(name).map(|m| m.bridge), member.map(|m| m.bridge)),
        BridgeOp::Create { .. } | BridgeOp::TableLimit { .. } => (None, None),
        BridgeOp::Tags { name, .. }
        | BridgeOp::PortFeatures { name, .. }
        | BridgeOp::PortLimit { name, .. } => (of(name).map(|m| m.bridge), None),
        BridgeOp::Delete { id }
        | BridgeOp::Set { id, .. }
        | BridgeOp::Mac { id, .. }
        | BridgeOp::Arp { id, .. } => (None, Some(*id)),
    };
    let linuxs = |id| part::bridge(router, id).and_then(|b| Some((b.id, b.companion.as_ref()?)));
    match left.and_then(linuxs).or_else(|| id.and_then(linuxs)) {
        Some((id, of)) if !router.changes_companions() => Err(OpError::new(format!(
            "bridge domain {id} is {of} in Linux: change it there (`ip link`, `bridge`), or `lcp nl-sync off`"
        ))),
        _ => Ok(()),
    }
}

fn undo(op: BridgeOp) -> Result<Vec<Op>, OpError> {
    Ok(vec![op.into()])
}

impl PartOp for BridgeOp {
    fn subject(&self) -> String {
        match self {
            BridgeOp::Create { id, .. } | BridgeOp::Delete { id } | BridgeOp::Set { id, .. } => {
                format!("bridge domain {id}")
            }
            BridgeOp::Port { name, .. } => format!("{name}: bridge domain"),
            BridgeOp::Tags { name, .. } => format!("{name}: tag rewrite"),
            BridgeOp::PortFeatures { name, .. } => format!("{name}: what its bridge domain does"),
            BridgeOp::PortLimit { name, .. } => format!("{name}: limit of learned addresses"),
            BridgeOp::TableLimit { .. } => "limit of learned addresses".into(),
            BridgeOp::Mac { id, mac, .. } => format!("bridge domain {id}: address {mac}"),
            BridgeOp::Arp { id, address, .. } => format!("bridge domain {id}: ARP entry {address}"),
        }
    }

    fn off(&self) -> Option<Op> {
        let op = match self {
            BridgeOp::Create { id, .. } | BridgeOp::Delete { id } => BridgeOp::Delete { id: *id },
            BridgeOp::Set { id, .. } => BridgeOp::Set { id: *id, settings: BridgeSettings::default() },
            BridgeOp::Port { name, .. } => BridgeOp::Port { name: name.clone(), member: None },
            BridgeOp::Tags { name, .. } => BridgeOp::Tags { name: name.clone(), change: None },
            BridgeOp::PortFeatures { name, .. } => {
                BridgeOp::PortFeatures { name: name.clone(), features: PortFeatures::default() }
            }
            BridgeOp::PortLimit { name, .. } => BridgeOp::PortLimit { name: name.clone(), limit: None },
            BridgeOp::TableLimit { .. } => BridgeOp::TableLimit { limit: MAC_LIMIT },
            BridgeOp::Mac { id, mac, .. } => BridgeOp::Mac { id: *id, mac: *mac, to: None },
            BridgeOp::Arp { id, address, .. } => BridgeOp::Arp { id: *id, address: *address, mac: None },
        };
        Some(op.into())
    }

    fn turned(&self, new: &Self) -> Option<Op> {
        Some(match (self, new) {
            (BridgeOp::Create { .. }, BridgeOp::Create { id, settings }) => {
                BridgeOp::Set { id: *id, settings: settings.clone() }.into()
            }
            _ => new.clone().into(),
        })
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        check_own(router, &self)?;
        match self {
            BridgeOp::Create { id, settings } => {
                create(router, id, settings)?;
                undo(BridgeOp::Delete { id })
            }
            BridgeOp::Delete { id } => delete(router, id),
            BridgeOp::Set { id, settings } => {
                known(router, id)?;
                settings.check(id)?;
                let Some(b) = change(router, id) else { return Ok(vec![]) };
                let was = std::mem::replace(&mut b.settings, settings);
                let members: Vec<u32> = b.members.keys().copied().collect();
                part::publish(router, id);
                members.into_iter().for_each(|m| router.publish_interface(m));
                undo(BridgeOp::Set { id, settings: was })
            }
            BridgeOp::Port { name, member } => port::join(router, name, member),
            BridgeOp::Tags { name, change } => port::set_tags(router, name, change),
            BridgeOp::PortLimit { name, limit } => {
                let was = port::tell(router, &name, |port| std::mem::replace(&mut port.mac_limit, limit))?;
                undo(BridgeOp::PortLimit { name, limit: was })
            }
            BridgeOp::PortFeatures { name, features } => {
                let was = port::tell(router, &name, |port| std::mem::replace(&mut port.features, features))?;
                undo(BridgeOp::PortFeatures { name, features: was })
            }
            BridgeOp::TableLimit { limit } => {
                let macs = &router.plane().l2.macs;
                let was = macs.limit();
                macs.set_limit(limit);
                undo(BridgeOp::TableLimit { limit: was })
            }
            BridgeOp::Mac { id, mac, to } => macs::set_static(router, id, mac, to),
            BridgeOp::Arp { id, address, mac } => {
                known(router, id)?;
                if address.is_unspecified() || address.is_multicast() {
                    return Err(OpError::new(format!(
                        "bridge domain {id}: {address} is not the address of a station"
                    )));
                }
                if let Some(m) = mac.filter(|m| !m.is_station()) {
                    return Err(OpError::new(format!(
                        "bridge domain {id}: {m} is not the address of a single station"
                    )));
                }
                let Some(b) = change(router, id) else { return Ok(vec![]) };
                let was = match mac {
                    Some(mac) => b.arp.insert(address, mac),
                    None => b.arp.remove(&address),
                };
                if mac.is_none() && was.is_none() {
                    return Err(OpError::new(format!("bridge domain {id}: there is no entry for {address}")));
                }
                part::publish(router, id);
                undo(BridgeOp::Arp { id, address, mac: was })
            }
        }
    }

    fn log_line(&self) -> Option<String> {
        Some(match self {
            BridgeOp::Create { id, .. } => format!("bridge domain {id}: made"),
            BridgeOp::Delete { id } => format!("bridge domain {id}: deleted"),
            BridgeOp::Port { name, member: Some(m) } => {
                let what = if m.bvi { "BVI" } else { "member" };
                format!("interface {name}: {what} of bridge domain {}", m.bridge)
            }
            BridgeOp::Port { name, member: None } => format!("interface {name}: in no bridge domain"),
            _ => return None,
        })
    }
}

fn create(router: &mut Router, id: u32, settings: BridgeSettings) -> Result<(), OpError> {
    settings.check(id)?;
    if !(1..=MAX_BRIDGE_ID).contains(&id) {
        return Err(OpError::new(format!("bridge domain {id}: the number is 1 to {MAX_BRIDGE_ID}")));
    }
    if part::bridge(router, id).is_some() {
        return Err(OpError::new(format!("there is a bridge domain {id} already")));
    }
    let full = || OpError::new(format!("bridge domain {id}: there are as many as there may be, 65535"));
    let number = part::state_mut(router).ok_or_else(full)?.slots.insert(Bridge::default());
    let number = number.map_err(|_| full())?;
    let index = BdIndex(u16::try_from(number).map_err(|_| OpError::new("too many bridge domains"))?);
    // A number that was another's before is given to a new one: its counters start at 0.
    let events = router.plane().l2.bridge_events.sum(index.into());
    if let Some(all) = part::state_mut(router) {
        if all.ids.len() <= index.index() {
            all.ids.resize(index.index() + 1, 0);
        }
        all.ids[index.index()] = id;
        let (members, arp) = (BTreeMap::new(), BTreeMap::new());
        all.by_id.insert(id, BridgeState { id, index, settings, members, arp, companion: None, events });
    }
    part::publish(router, id);
    Ok(())
}

fn delete(router: &mut Router, id: u32) -> Result<Vec<Op>, OpError> {
    let b = known(router, id)?;
    if let Some(member) = b.members.keys().next() {
        let (n, name) = (b.members.len(), router.interface_name(*member));
        return Err(OpError::new(format!(
            "bridge domain {id} has {n} members, such as {name}: take them out first (set interface l3 {name})"
        )));
    }
    if let Some(why) = router.user_of_bridge(id) {
        return Err(OpError::new(format!("bridge domain {id} cannot go: {why}")));
    }
    let b = b.clone();
    let mut ops = vec![BridgeOp::Create { id, settings: b.settings.clone() }];
    ops.extend(b.arp.iter().map(|(a, m)| BridgeOp::Arp { id, address: *a, mac: Some(*m) }));
    ops.extend(macs::static_of(router, id, None));
    if let Some(all) = part::state_mut(router) {
        all.by_id.remove(&id);
    }
    macs::forget(router, macs::Gone::Bridge(b.index));
    // Undone last first.
    Ok(ops.into_iter().rev().map(Op::from).collect())
}

/// Whether an interface may carry frames of a bridge domain.
pub(super) fn check_member(router: &Router, name: &str, m: &Membership) -> Result<(), OpError> {
    let i = router.named(name)?;
    let b = known(router, m.bridge)?;
    let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
    if i.xconnect.is_some() || router.is_xconnect_target(i.index) {
        return fail("is cross-connected: make it an L3 interface first (set interface l3)".into());
    }
    if m.bvi {
        if i.kind != Kind::Loopback {
            return fail("only a loopback can be the BVI of a bridge domain".into());
        }
        if let Some(other) = b.bvi().filter(|o| *o != i.index) {
            let other = router.interface_name(other);
            return fail(format!("bridge domain {} has the BVI {other} already", b.id));
        }
        return Ok(());
    }
    if let Some(why) = router.takes_no_frames(i.index) {
        return Err(OpError::new(why));
    }
    router.check_own_frames(i)?;
    if i.kind == Kind::Loopback {
        return fail("is a loopback: it can only be the BVI of a bridge domain".into());
    }
    if let Some(has) = router.has_pair(i) {
        return fail(format!("it {has}"));
    }
    if let Some(a) = i.configured().next() {
        return fail(format!("has the address {a}: a bridge domain's own addresses stand on its BVI"));
    }
    if let Some(has) = router.layer3(i) {
        return fail(format!("it {has}"));
    }
    Ok(())
}
