//! Members of bridge domains, and the tags of their frames.

use super::ops::{BridgeOp, check_member};
use super::{macs, part};
use crate::interface::{BridgePort, Retag, Tags, bflags};
use crate::router::{IfState, Kind, Membership, Op, OpError, Router};

/// What an interface lets its bridge domain do with the frames that come in on it. What the bridge domain does not do is not
/// done, whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFeatures {
    /// Their source addresses are learned.
    pub learn: bool,
    /// They go to where known addresses are.
    pub forward: bool,
    /// Broadcasts and multicasts are flooded.
    pub flood: bool,
    /// Those to unknown addresses are flooded.
    pub uu_flood: bool,
    /// ARP requests and neighbour solicitations are answered, or sent to the entry's station.
    pub arp_term: bool,
}

impl Default for PortFeatures {
    fn default() -> Self {
        PortFeatures::ALL
    }
}

impl PortFeatures {
    /// Everything is done.
    pub const ALL: PortFeatures =
        PortFeatures { learn: true, forward: true, flood: true, uu_flood: true, arp_term: true };
    /// Their words in commands and in the YAML document.
    pub const NAMES: &'static [&'static str] = &["learn", "forward", "flood", "uu-flood", "arp-term"];

    /// The one of this name.
    pub fn named(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "learn" => &mut self.learn,
            "forward" => &mut self.forward,
            "flood" => &mut self.flood,
            "uu-flood" => &mut self.uu_flood,
            "arp-term" => &mut self.arp_term,
            _ => return None,
        })
    }

    /// The names of those that are off.
    pub fn off(mut self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().copied().filter(move |n| self.named(n).is_some_and(|on| !*on))
    }

    fn flags(self) -> u8 {
        let bits = [
            (self.learn, bflags::LEARN),
            (self.forward, bflags::FORWARD),
            (self.flood, bflags::FLOOD),
            (self.uu_flood, bflags::UU_FLOOD),
            (self.arp_term, bflags::ARP_TERM | bflags::ARP_UFWD),
        ];
        bits.iter().filter(|b| b.0).fold(0, |all, b| all | b.1)
    }
}

/// One VLAN tag to put in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// 802.1ad instead of 802.1Q.
    pub dot1ad: bool,
    /// 1 to 4095.
    pub vlan: u16,
}

/// What becomes of the tags of frames on the way in; on the way out it is reversed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagChange {
    /// They stay as they are.
    Disabled,
    /// So many are taken away, 1 or 2.
    Pop(u8),
    /// These are put in front, outermost first, 1 or 2.
    Push(Vec<VlanTag>),
    /// So many are taken away, 1 or 2, and these put in their place.
    Translate(u8, Vec<VlanTag>),
}

impl TagChange {
    /// Why it cannot be made on an interface, of whose frames so many tags are known; none are changed on a `loopback`.
    pub fn check(&self, known: u8, loopback: bool) -> Result<(), String> {
        if loopback {
            return Err("frames on a loopback have no tags".into());
        }
        let (pop, _) = self.parts();
        if pop <= known {
            return Ok(());
        }
        let tags = |n: u8| if n == 1 { "1 tag".into() } else { format!("{n} tags") };
        Err(format!("{} cannot be taken away, its frames have {known} that are known", tags(pop)))
    }

    /// What workers do to the frames of an interface that puts these tags on.
    pub(super) fn retag(&self, own: Tags) -> Retag {
        let (pop, push) = self.parts();
        let keep_priority = pop != 0 && !push.is_empty();
        Retag { pop, push: tags(push), own: Tags { count: pop.min(own.count), ..own }, keep_priority }
    }

    fn parts(&self) -> (u8, &[VlanTag]) {
        match self {
            TagChange::Disabled => (0, &[]),
            TagChange::Pop(n) => (*n, &[]),
            TagChange::Push(tags) => (0, tags),
            TagChange::Translate(n, tags) => (*n, tags),
        }
    }
}

impl std::fmt::Display for TagChange {
    /// As `set interface l2 tag-rewrite` takes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pop, push) = self.parts();
        match self {
            TagChange::Disabled => f.write_str("disable")?,
            TagChange::Pop(n) => write!(f, "pop {n}")?,
            TagChange::Push(_) => f.write_str("push")?,
            TagChange::Translate(..) => write!(f, "translate {pop}-{}", push.len())?,
        }
        if let Some(first) = push.first() {
            f.write_str(if first.dot1ad { " dot1ad" } else { " dot1q" })?;
        }
        push.iter().try_for_each(|t| write!(f, " {}", t.vlan))
    }
}

fn tags(list: &[VlanTag]) -> Tags {
    let mut t = Tags { count: list.len().min(2) as u8, bytes: [0; 8] };
    for (tag, to) in list.iter().zip(t.bytes.chunks_exact_mut(4)) {
        to[..2].copy_from_slice(&if tag.dot1ad { 0x88a8u16 } else { 0x8100 }.to_be_bytes());
        to[2..].copy_from_slice(&tag.vlan.to_be_bytes());
    }
    t
}

/// What an interface was told for layer 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// What becomes of the tags of its frames; none: they stay as they are.
    pub tag_change: Option<TagChange>,
    /// What its bridge domain may do with its frames.
    pub features: PortFeatures,
    /// The most addresses that are learned on it.
    pub mac_limit: Option<u32>,
    /// What the counters of addresses said when it came into its bridge domain.
    pub(super) events: (u64, u64),
}

/// What an interface was told for layer 2.
pub fn port(router: &Router, index: u32) -> &Port {
    static USUAL: Port =
        Port { tag_change: None, features: PortFeatures::ALL, mac_limit: None, events: (0, 0) };
    part::state(router).and_then(|b| b.ports.get(&index)).unwrap_or(&USUAL)
}

/// Tells it, and shows it to workers.
pub(super) fn tell<R: Default>(
    router: &mut Router,
    name: &str,
    change: impl FnOnce(&mut Port) -> R,
) -> Result<R, OpError> {
    let index = router.named(name)?.index;
    let Some(b) = part::state_mut(router) else { return Ok(R::default()) };
    let port = b.ports.entry(index).or_default();
    let was = change(port);
    if *port == Port::default() {
        b.ports.remove(&index);
    }
    router.publish_interface(index);
    Ok(was)
}

/// Puts an interface into a bridge domain, or takes it out of the one that it is in.
pub(super) fn join(
    router: &mut Router,
    name: String,
    member: Option<Membership>,
) -> Result<Vec<Op>, OpError> {
    let i = router.named(&name)?;
    let (index, was) = (i.index, i.membership);
    if let Some(m) = &member {
        check_member(router, &name, m)?;
    }
    if was == member {
        return Ok(vec![]);
    }
    if member.is_none() && was.is_some_and(|w| w.bvi) {
        router.check_stations_gone(index, &name)?;
    }
    // Addresses set for it go with it, unless it stays.
    let mut ops = vec![BridgeOp::Port { name, member: was }];
    if let Some(old) = was.filter(|w| member.is_none_or(|m| m.bridge != w.bridge)) {
        ops.extend(macs::static_of(router, old.bridge, Some(index)));
    }
    leave(router, index, member.is_some_and(|m| was.is_some_and(|w| w.bridge == m.bridge)));
    if let Some(m) = member {
        let events = router.plane().l2.port_events.sum(index);
        if let Some(b) = part::state_mut(router) {
            if let Some(b) = b.by_id.get_mut(&m.bridge) {
                b.members.insert(index, m);
            }
            b.ports.entry(index).or_default().events = events;
        }
        router.set_membership(index, Some(m));
        part::publish(router, m.bridge);
        router.follow_promiscuity(index)?;
        macs::follow_bvi(router, index)?;
    }
    router.refresh_adjacencies(index);
    Ok(ops.into_iter().rev().map(Op::from).collect())
}

/// Takes an interface out of its bridge domain, if it is in one. Its addresses stay where it is about to `return`.
pub(super) fn leave(router: &mut Router, index: u32, returns: bool) {
    let Some(m) = router.set_membership(index, None) else { return };
    if let Some(b) = part::change(router, m.bridge) {
        b.members.remove(&index);
    }
    part::publish(router, m.bridge);
    if m.bvi {
        macs::forget_bvi(router, m.bridge, index);
    }
    if !returns {
        macs::forget(router, macs::Gone::Port(index));
    }
    if let Err(e) = router.follow_promiscuity(index) {
        router.note(true, e.to_string());
    }
}

pub(super) fn set_tags(
    router: &mut Router,
    name: String,
    change: Option<TagChange>,
) -> Result<Vec<Op>, OpError> {
    let i = router.named(&name)?;
    let change = change.filter(|c| *c != TagChange::Disabled);
    if let Some(change) = &change {
        let (_, push) = change.parts();
        let loopback = i.kind == Kind::Loopback;
        change.check(i.tags().count, loopback).map_err(|why| OpError::new(format!("{name}: {why}")))?;
        if let Some(t) = push.iter().find(|t| !(1..=4095).contains(&t.vlan)) {
            return Err(OpError::new(format!("{name}: VLAN {} is out of range, 1 to 4095", t.vlan)));
        }
    }
    let was = tell(router, &name, |port| std::mem::replace(&mut port.tag_change, change))?;
    Ok(vec![BridgeOp::Tags { name, change: was }.into()])
}

/// What workers see of an interface's membership.
pub(super) fn seen(router: &Router, i: &IfState) -> Option<BridgePort> {
    let m = i.membership?;
    let (b, told) = (part::bridge(router, m.bridge)?, port(router, i.index));
    let (bridge, flags) = (b.index, b.settings.flags() & told.features.flags());
    let limit = told.mac_limit.unwrap_or(u32::MAX);
    Some(BridgePort { bridge, shg: m.shg, bvi: m.bvi, flags, limit })
}

impl std::str::FromStr for TagChange {
    type Err = String;

    /// From what `set interface l2 tag-rewrite` takes.
    fn from_str(text: &str) -> Result<TagChange, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let tags = |kind: &str, vlans: &[&str]| {
            let dot1ad = match kind {
                "dot1q" => false,
                "dot1ad" => true,
                other => return Err(format!("`{other}` is neither dot1q nor dot1ad")),
            };
            if !(1..=2).contains(&vlans.len()) {
                return Err(format!("{} tags: there must be 1 or 2", vlans.len()));
            }
            let tag = |(n, text): (usize, &&str)| {
                let vlan: Option<u16> = text.parse().ok().filter(|v| (1..=4095).contains(v));
                let vlan = vlan.ok_or_else(|| format!("`{text}` is not a VLAN, 1 to 4095"))?;
                // Inside is 802.1Q.
                Ok(VlanTag { dot1ad: dot1ad && n == 0, vlan })
            };
            vlans.iter().enumerate().map(tag).collect::<Result<Vec<_>, String>>()
        };
        match words.as_slice() {
            ["disable"] => Ok(TagChange::Disabled),
            ["pop", "1"] => Ok(TagChange::Pop(1)),
            ["pop", "2"] => Ok(TagChange::Pop(2)),
            // The number of tags, which VPP's own output has, may stand there.
            ["push", "1" | "2", kind, vlans @ ..] | ["push", kind, vlans @ ..] => {
                Ok(TagChange::Push(tags(kind, vlans)?))
            }
            ["translate", how @ ("1-1" | "1-2" | "2-1" | "2-2"), kind, vlans @ ..] => {
                let (pop, push) =
                    (if how.starts_with('2') { 2 } else { 1 }, if how.ends_with('2') { 2 } else { 1 });
                let tags = tags(kind, vlans)?;
                if tags.len() != push {
                    return Err(format!("translate {how} needs {push} VLANs"));
                }
                Ok(TagChange::Translate(pop, tags))
            }
            _ => Err("this is no change of tags".into()),
        }
    }
}
