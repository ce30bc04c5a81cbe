//! Bonds as a part of the control side.

use super::lacp::pdu::DESTINATION;
use super::lacp::{Frame, Lag, PortConfig, Send};
use super::plane::{self, Bonds};
use super::{BOND_INPUT, BOND_TX, BondConfig, Joins, MOST_MEMBERS, MemberConfig, Mode, commands, slots};
use crate::neighbor::Millis;
use crate::neighbor::wire::Message;
use crate::punt::PuntKind;
use crate::router::{
    BoxedOp, FloodClass, Handed, IfState, Kind, NewVirtual, Op, OpError, Part, Router, Start, VirtualKind,
};
use command::Command;
use graph::TxCaps;
use graph::arcs::Feature;
use packet::eth::{EtherType, MacAddr};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest IP packet of a bond, unless the operator says otherwise, bytes.
pub const MTU: u16 = 1500;
/// Lines that a bond may say of its members within [`LINES_TIME`].
const MOST_LINES: u32 = 40;
const LINES_TIME: u64 = 60_000;

static BOND: VirtualKind = VirtualKind { word: "bond", frames: true, flood: FloodClass::Link };

/// A bond.
pub struct Bond {
    /// How it is.
    pub config: BondConfig,
    /// Its members, in the order in which they came.
    pub members: Vec<u32>,
    /// Those over which it sends, or could; of active-backup the first one is in use.
    pub active: Vec<u32>,
    /// Its LACP.
    pub lag: Lag,
    /// The MAC address that it has without members.
    mac: MacAddr,
    /// As workers see it.
    seen: Arc<plane::Bond>,
    lines: (Millis, u32),
}

impl Bond {
    /// Whether frames leave over a member.
    pub(super) fn sends(&self, member: u32) -> bool {
        self.seen.tx.contains(&member)
    }
}

/// A member.
pub struct Member {
    /// Its bond.
    pub bond: u32,
    /// What is wanted of it.
    pub config: MemberConfig,
    /// Its frames are taken.
    pub takes: bool,
}

/// The state of the part.
struct State {
    bonds: BTreeMap<u32, Bond>,
    members: BTreeMap<u32, Member>,
    random: u64,
}

/// A bond, by its interface.
pub fn bond(router: &Router, index: u32) -> Option<&Bond> {
    router.state::<State>()?.bonds.get(&index)
}

fn bond_mut(router: &mut Router, index: u32) -> Option<&mut Bond> {
    router.state_mut::<State>()?.bonds.get_mut(&index)
}

/// All bonds, by interface.
pub(super) fn bonds(router: &Router) -> impl Iterator<Item = (u32, &Bond)> {
    router.state::<State>().into_iter().flat_map(|s| s.bonds.iter().map(|(i, b)| (*i, b)))
}

/// What an interface is to a bond, if it is a member.
pub fn member(router: &Router, index: u32) -> Option<&Member> {
    router.state::<State>()?.members.get(&index)
}

/// The members of a bond, in the order of interfaces.
pub fn members(router: &Router, index: u32) -> impl Iterator<Item = (u32, MemberConfig)> + '_ {
    let all = bond(router, index).map(|b| in_order(router, b)).unwrap_or_default();
    all.into_iter().filter_map(|m| Some((m, member(router, m)?.config)))
}

/// In the order of interfaces: no matter which came first, the same document makes the same bond.
pub(super) fn in_order(router: &Router, b: &Bond) -> Vec<u32> {
    let mut all = b.members.clone();
    all.sort_by_key(|m| router.interface(*m).map(IfState::order));
    all
}

/// What an interface was told of bonds.
pub(super) fn told(router: &Router, index: u32) -> Option<(String, MemberConfig)> {
    let m = member(router, index)?;
    Some((router.interface_name(m.bond), m.config))
}

/// Makes a bond.
pub(super) fn create(router: &mut Router, name: &str, config: BondConfig, origin: Op) -> Result<(), OpError> {
    let Some(s) = router.state_mut::<State>() else { return Ok(()) };
    let [a, b, c, d, ..] = crate::neighbor::random(&mut s.random).to_be_bytes();
    let mac = MacAddr([0x02, 0xfe, a, b, c, d]);
    let new = NewVirtual { name: name.into(), kind: Kind::Virtual(&BOND), origin, mac, mtu: MTU };
    router.create_virtual(new, |router, index| {
        let Some(s) = router.state_mut::<State>() else { return };
        let seen = Arc::new(plane::Bond {
            mode: config.mode,
            balance: config.balance,
            tx: [].into(),
            slots: slots::assign(&[]),
        });
        let lag = Lag::new(mac, index as u16);
        let lines = (Millis(0), 0);
        let bond = Bond { config, members: vec![], active: vec![], lag, mac, seen, lines };
        s.bonds.insert(index, bond);
    })?;
    if let Some(index) = router.interface_index(name) {
        // Without members it has no link.
        router.set_link_state(index, false, false);
        show(router);
    }
    Ok(())
}

fn named(router: &Router, name: &str) -> Result<u32, OpError> {
    let found = router.interface_index(name).filter(|i| bond(router, *i).is_some());
    found.ok_or_else(|| OpError::new(format!("there is no bond {name}")))
}

/// A bond becomes another one; what it was.
pub(super) fn change(
    router: &mut Router,
    name: &str,
    config: BondConfig,
    origin: Op,
) -> Result<BondConfig, OpError> {
    let index = named(router, name)?;
    let now = router.now();
    let Some(b) = bond_mut(router, index) else { return Ok(config) };
    let was = std::mem::replace(&mut b.config, config);
    let members = b.members.clone();
    router.set_origin(index, origin);
    if (was.mode == Mode::Lacp) != (config.mode == Mode::Lacp) {
        show(router);
        for m in members {
            if was.mode == Mode::Lacp {
                lacp_ends(router, now, index, m);
            } else {
                lacp_begins(router, now, index, m);
            }
        }
    }
    update(router, index);
    Ok(was)
}

/// An interface becomes a member, or another one than it was.
pub(super) fn join(router: &mut Router, index: u32, to: &str, config: MemberConfig) -> Result<(), OpError> {
    let bond_index = named(router, to)?;
    let now = router.now();
    if member(router, index).is_some_and(|m| m.bond == bond_index) {
        if let Some(m) = router.state_mut::<State>().and_then(|s| s.members.get_mut(&index)) {
            m.config = config;
        }
        let mut out = vec![];
        if let Some(lag) = lacp(router, bond_index)
            && let Some(number) = lag.port(index).map(|p| p.actor.port)
        {
            lag.configure(now, index, port_config(number, config), &mut out);
        }
        say(router, out);
        update(router, bond_index);
        return Ok(());
    }
    if member(router, index).is_some() {
        leave(router, index)?;
    }
    check(router, index, bond_index)?;
    let Some(s) = router.state_mut::<State>() else { return Ok(()) };
    s.members.insert(index, Member { bond: bond_index, config, takes: false });
    let Some(b) = s.bonds.get_mut(&bond_index) else { return Ok(()) };
    b.members.push(index);
    let first = b.members.len() == 1;
    if let Err(e) = take_in(router, index, bond_index, first) {
        // What of it was done is undone.
        let _ = leave(router, index);
        return Err(e);
    }
    lacp_begins(router, now, bond_index, index);
    show(router);
    router.publish_interface(index);
    update(router, bond_index);
    Ok(())
}

/// A new member gets what it has from its bond.
fn take_in(router: &mut Router, index: u32, to: u32, first: bool) -> Result<(), OpError> {
    let (Some(m), Some(b)) = (router.interface(index), router.interface(to)) else { return Ok(()) };
    let (own, mac, free) = (m.own_mac, b.mac, !b.mac_set);
    if first && free {
        // The bond has the MAC address of its first member.
        router.set_own_mac(to, own);
        router.set_mac(to, own)?;
    } else {
        router.set_mac(index, mac)?;
    }
    router.follow_carrying(index, to, true)?;
    fit_caps(router, to);
    Ok(())
}

/// Whether an interface can be a member of a bond.
fn check(router: &Router, index: u32, to: u32) -> Result<(), OpError> {
    let (Some(i), Some(b)) = (router.interface(index), router.interface(to)) else { return Ok(()) };
    let (name, bond_name) = (&i.name, &b.name);
    let fail = |why: String| Err(OpError::new(format!("{name} cannot be a member of {bond_name}: {why}")));
    let device = matches!(i.origin, Op::CreateHost { .. } | Op::CreatePcap { .. } | Op::Part(_));
    if i.kind != Kind::Device || i.companion || !device {
        let what = match (&i.kind, &i.origin) {
            (_, Op::CreateTap { .. }) => "TAP",
            (Kind::Virtual(kind), _) => kind.word,
            (Kind::Sub { .. }, _) => "sub-interface",
            (Kind::Loopback, _) => "loopback",
            _ => "interface without a device",
        };
        return fail(format!("it is a {what}; members are Linux devices, devices of DPDK and capture files"));
    }
    if let Some(sub) = i.subs.values().next() {
        let sub = router.interface_name(*sub);
        return fail(format!("it has the sub-interface {sub}: delete that, and make it on {bond_name}"));
    }
    router.check_routed(i)?;
    if let Some(has) = router.layer3(i) {
        return fail(format!("it {has}"));
    }
    if i.mac_set {
        return fail(format!(
            "it was given the MAC address {}, and a member has that of its bond: make it anew without one, or give the bond one",
            i.mac
        ));
    }
    if i.mtu < b.mtu {
        let (has, wants) = (i.mtu, b.mtu);
        return fail(format!("its MTU {has} is less than the {wants} of the bond (set interface mtu)"));
    }
    if bond(router, to).is_some_and(|b| b.members.len() >= MOST_MEMBERS) {
        return fail(format!("that has {MOST_MEMBERS} members, as many as may be"));
    }
    Ok(())
}

/// A member is none any more.
pub(super) fn leave(router: &mut Router, index: u32) -> Result<(), OpError> {
    let now = router.now();
    let Some(of) = member(router, index).map(|m| m.bond) else { return Ok(()) };
    lacp_ends(router, now, of, index);
    let Some(s) = router.state_mut::<State>() else { return Ok(()) };
    s.members.remove(&index);
    let left = s.bonds.get_mut(&of).map_or(0, |b| {
        b.members.retain(|m| *m != index);
        b.members.len()
    });
    show(router);
    update(router, of);
    router.follow_carrying(index, of, false)?;
    router.publish_interface(index);
    let Some(own) = router.interface(index).map(|i| i.own_mac) else { return Ok(()) };
    router.set_mac(index, own)?;
    let Some(i) = router.interface(of) else { return Ok(()) };
    let (name, mac, free) = (i.name.clone(), i.mac, !i.mac_set);
    if left == 0 && free {
        let base = bond(router, of).map_or(mac, |b| b.mac);
        router.set_own_mac(of, base);
        router.set_mac(of, base)?;
    } else if mac == own {
        let member = router.interface_name(index);
        router.note(
            true,
            format!("{name} keeps the MAC address {mac}, which is that of {member} as well: they must not be on one link"),
        );
    }
    fit_caps(router, of);
    Ok(())
}

/// What is done for packets over a bond is what is done on all of its members. A member that does less is used only once nobody counts
/// on more.
fn fit_caps(router: &mut Router, index: u32) {
    let Some(b) = bond(router, index) else { return };
    let of = |m: &u32| router.interface(*m).map(IfState::caps);
    let all = b.members.iter().filter_map(of).reduce(|a, b| TxCaps {
        checksum: a.checksum && b.checksum,
        tso: a.tso && b.tso,
        uso: a.uso && b.uso,
    });
    let (caps, was) = (all.unwrap_or_default(), router.interface(index).map(IfState::caps));
    if was != Some(caps) {
        router.set_caps(index, caps);
        router.wait_for_workers();
    }
}

fn port_config(number: u16, m: MemberConfig) -> PortConfig {
    PortConfig { number, passive: m.passive, long_timeout: m.long_timeout }
}

/// The LACP of a bond that runs it.
fn lacp(router: &mut Router, index: u32) -> Option<&mut Lag> {
    bond_mut(router, index).filter(|b| b.config.mode == Mode::Lacp).map(|b| &mut b.lag)
}

/// Whether LACP may speak over a member: both it and the bond are up.
fn is_enabled(router: &Router, bond: u32, member: u32) -> bool {
    router.is_usable(member) && router.interface(bond).is_some_and(|i| i.up)
}

fn lacp_begins(router: &mut Router, now: Millis, bond: u32, index: u32) {
    let (on, config) = (is_enabled(router, bond, index), member(router, index).map(|m| m.config));
    let system = router.mac_of(bond);
    let mut out = vec![];
    if let (Some(config), Some(lag)) = (config, lacp(router, bond)) {
        lag.set_system(now, system, &mut out);
        lag.add(index, port_config(lag.free_number(), config));
        lag.enable(now, index, on, &mut out);
    }
    say(router, out);
}

fn lacp_ends(router: &mut Router, now: Millis, bond: u32, index: u32) {
    let mut out = vec![];
    let Some(b) = bond_mut(router, bond) else { return };
    let last = b.lag.remove(now, index, &mut out);
    out.extend(last.map(|pdu| (index, pdu)));
    say(router, out);
}

/// Sends what LACP has to say, each from the link's own MAC address.
fn say(router: &mut Router, all: Vec<Send>) {
    for (member, pdu) in all {
        send(router, member, pdu.emit());
    }
}

fn send(router: &mut Router, member: u32, payload: Vec<u8>) {
    let Some(own) = router.interface(member).map(|i| i.own_mac) else { return };
    router.send_frame_from(member, own, &Message { dst: DESTINATION, ethertype: EtherType::SLOW, payload });
}

/// The members that a bond may use, those in use first.
fn active(router: &Router, b: &Bond) -> Vec<u32> {
    let usable = |m: &u32| match b.config.mode {
        Mode::Lacp => b.lag.port(*m).is_some_and(|p| p.distributes()),
        _ => router.is_usable(*m),
    };
    let mut active = in_order(router, b);
    active.retain(usable);
    if b.config.mode == Mode::ActiveBackup {
        // The heaviest; of several that in use, else the first one.
        let in_use = b.active.first().copied();
        let weight = |m: &u32| member(router, *m).map_or(0, |m| m.config.weight);
        let rank = |m: &u32| (u32::MAX - weight(m), Some(*m) != in_use);
        active.sort_by_key(rank);
    }
    active
}

/// Works out which members a bond uses, and has all follow that.
fn update(router: &mut Router, index: u32) {
    let Some(b) = bond(router, index) else { return };
    let (was, now) = (b.active.clone(), active(router, b));
    let config = b.config;
    let takes = |m: &u32| match config.mode {
        Mode::Lacp => b.lag.port(*m).is_some_and(|p| p.collects()),
        Mode::ActiveBackup => now.first() == Some(m),
        Mode::RoundRobin | Mode::Xor | Mode::Broadcast => now.contains(m),
    };
    let takes: Vec<(u32, bool)> = b.members.iter().map(|m| (*m, takes(m))).collect();
    let tx = if config.mode == Mode::ActiveBackup { &now[..now.len().min(1)] } else { &now[..] };
    let names: Vec<u64> = tx.iter().map(|m| slots::name_of(&router.interface_name(*m))).collect();
    let same = *b.seen.tx == *tx && (b.seen.mode, b.seen.balance) == (config.mode, config.balance);
    let seen = (!same).then(|| {
        Arc::new(plane::Bond {
            mode: config.mode,
            balance: config.balance,
            tx: tx.into(),
            slots: slots::assign(&names),
        })
    });
    let Some(s) = router.state_mut::<State>() else { return };
    let mut changed = seen.is_some();
    if let Some(b) = s.bonds.get_mut(&index) {
        b.active.clone_from(&now);
        b.seen = seen.unwrap_or_else(|| Arc::clone(&b.seen));
    }
    for (m, takes) in takes {
        if let Some(m) = s.members.get_mut(&m) {
            changed |= std::mem::replace(&mut m.takes, takes) != takes;
        }
    }
    if changed {
        show(router);
    }
    tell(router, index, &was, &now);
    let Some(i) = router.interface(index) else { return };
    let (up, link) = (i.up, now.len() >= usize::from(config.min_links));
    if i.link != link {
        router.set_link_state(index, up, link);
    } else if config.mode == Mode::ActiveBackup && was.first() != now.first() && link {
        // Whoever sends to it learns where it is now.
        router.announce(index);
    }
    if changed {
        router.reclaim();
    }
}

/// Says which members a bond uses no more, or from now on.
fn tell(router: &mut Router, index: u32, was: &[u32], now: &[u32]) {
    let time = router.now();
    let Some(mode) = bond(router, index).map(|b| b.config.mode) else { return };
    let (was, now) = match mode {
        Mode::ActiveBackup => (&was[..was.len().min(1)], &now[..now.len().min(1)]),
        _ => (was, now),
    };
    let ends = was.iter().filter(|m| !now.contains(m)).map(|m| (*m, "no more"));
    let begins = now.iter().filter(|m| !was.contains(m)).map(|m| (*m, "from now on"));
    for (m, how) in ends.chain(begins) {
        let text = format!("{} uses {} {how}", router.interface_name(index), router.interface_name(m));
        let Some(b) = bond_mut(router, index) else { return };
        if time.since(b.lines.0) >= LINES_TIME {
            b.lines = (time, 0);
        }
        b.lines.1 += 1;
        match b.lines.1 {
            n if n < MOST_LINES => router.note(false, text),
            MOST_LINES => {
                router.note(true, format!("{text}; it is not told for a minute how its members change"))
            }
            _ => {}
        }
    }
}

/// Shows workers all bonds and members.
fn show(router: &mut Router) {
    let Some(s) = router.state::<State>() else { return };
    let seen = |m: &Member| plane::Member {
        bond: m.bond,
        takes: m.takes,
        lacp: s.bonds.get(&m.bond).is_some_and(|b| b.config.mode == Mode::Lacp),
    };
    let bonds = Bonds {
        bonds: s.bonds.iter().map(|(i, b)| (*i, Arc::clone(&b.seen))).collect(),
        members: s.members.iter().map(|(i, m)| (*i, seen(m))).collect(),
    };
    router.publish(bonds);
}

/// The part.
pub(crate) struct Bonding;

impl Part for Bonding {
    fn state(&self, start: &mut Start) -> Box<dyn Any + std::marker::Send> {
        Box::new(State { bonds: BTreeMap::new(), members: BTreeMap::new(), random: start.seed })
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        told(router, index).into_iter().map(|told| BoxedOp::new(Joins { bond: Some(told) })).collect()
    }

    /// Members come back with their bond.
    fn makes(&self, router: &Router, i: &IfState, before_features: bool) -> Vec<Op> {
        let all = members(router, i.index).filter(|_| !before_features);
        all.map(|(m, config)| {
            let feature = Joins { bond: Some((i.name.clone(), config)) }.into();
            Op::SetFeature { name: router.interface_name(m), feature }
        })
        .collect()
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let all = router.state::<State>().into_iter().flat_map(|s| s.members.keys());
        let off = |m: &u32| Op::SetFeature {
            name: router.interface_name(*m),
            feature: Joins { bond: None }.into(),
        };
        all.map(off).collect()
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        let input = member(router, index).map(|_| &BOND_INPUT);
        input.into_iter().chain(bond(router, index).map(|_| &BOND_TX)).collect()
    }

    fn carries(&self, router: &Router, index: u32) -> Option<(u32, String)> {
        let m = member(router, index)?;
        Some((m.bond, format!("bond del {}", router.interface_name(index))))
    }

    fn carried_by(&self, router: &Router, index: u32) -> Vec<u32> {
        bond(router, index).map_or(vec![], |b| b.members.clone())
    }

    fn mac_changed(&self, router: &mut Router, index: u32) -> Result<(), OpError> {
        let mac = router.mac_of(index);
        if let Some(m) = member(router, index) {
            // Of a device that is back, or was changed in Linux.
            let of = router.mac_of(m.bond);
            return if of == mac { Ok(()) } else { router.set_mac(index, of) };
        }
        let Some(b) = bond(router, index) else { return Ok(()) };
        for m in b.members.clone() {
            if router.mac_of(m) != mac {
                router.set_mac(m, mac)?;
            }
        }
        let (now, mut out) = (router.now(), vec![]);
        if let Some(lag) = lacp(router, index) {
            lag.set_system(now, mac, &mut out);
        }
        say(router, out);
        update(router, index);
        Ok(())
    }

    fn usable(&self, router: &mut Router, index: u32, _: bool) {
        let now = router.now();
        let (of, members) = match (member(router, index), bond(router, index)) {
            (Some(m), _) => (m.bond, vec![index]),
            (_, Some(b)) => (index, b.members.clone()),
            _ => return,
        };
        let mut out = vec![];
        for m in members {
            let on = is_enabled(router, of, m);
            if let Some(lag) = lacp(router, of) {
                lag.enable(now, m, on, &mut out);
            }
        }
        say(router, out);
        update(router, of);
    }

    /// The other ends are told, so that they send nothing more.
    fn ends(&self, router: &mut Router, index: Option<u32>) {
        let of = |i: u32| index.is_none_or(|index| index == i);
        let all = bonds(router).flat_map(|(i, b)| b.lag.farewells().filter(move |s| of(i) || of(s.0)));
        let all: Vec<Send> = all.collect();
        let over: Vec<u32> = all.iter().map(|s| s.0).collect();
        router.send_before(&over, |router| say(router, all));
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let members = bond(router, index).map_or(vec![], |b| b.members.clone());
        for m in members.into_iter().chain([index]) {
            if let Err(e) = leave(router, m) {
                router.note(true, e.message);
            }
        }
        let gone = router.state_mut::<State>().and_then(|s| s.bonds.remove(&index));
        if gone.is_some() {
            show(router);
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        bonds(router).filter_map(|(_, b)| b.lag.deadline()).min()
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        let due = |b: &Bond| b.lag.deadline().is_some_and(|t| t <= now);
        let all: Vec<u32> = bonds(router).filter(|(_, b)| due(b)).map(|(i, _)| i).collect();
        for index in all {
            let mut out = vec![];
            if let Some(lag) = lacp(router, index) {
                lag.tick(now, &mut out);
            }
            say(router, out);
            update(router, index);
        }
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Lacp
    }

    fn heard(&self, router: &mut Router, now: Millis, packet: Handed<'_>) {
        let Handed { interface, bytes } = packet;
        let Some(of) = member(router, interface).map(|m| m.bond) else { return };
        let frame = bytes.get(packet::eth::HEADER_LEN..).and_then(Frame::parse);
        let mut out = vec![];
        let Some(lag) = lacp(router, of) else { return };
        match frame {
            Some(Frame::Lacp(pdu)) => lag.receive(now, interface, &pdu, &mut out),
            Some(Frame::Marker(m)) => {
                if lag.marker(now, interface) {
                    send(router, interface, m.response());
                }
                return;
            }
            None => return lag.bad(interface),
        }
        say(router, out);
        update(router, of);
    }
}
