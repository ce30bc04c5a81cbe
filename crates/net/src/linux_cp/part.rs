//! Pairs as a part of the control side.

use super::sync::{self, Applied};
use super::vlans::Vlans;
use super::vrfs::Vrfs;
use super::{FromLinux, LINUX_CP_PUNT, LINUX_CP_XC, Pairs, ToLinux};
use crate::interface::ifflags;
use crate::neighbor::Millis;
use crate::router::{
    BoxedOp, HadElsewhere, IfState, InterfaceOp, Kind, Op, OpError, Part, PartOp, Router, Start, TapConfig,
    check_namespace, is_tap_host, namespace_for_root,
};
use command::{Command, quote};
use graph::arcs::Feature;
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part.
pub(crate) struct LinuxCp;

/// TAPs of pairs are called `tapN`, N from here on: those that the operator makes end below.
const FIRST_TAP: u32 = 4096;
/// How long pairs are looked at before others have their turn.
const TURN: Duration = Duration::from_millis(2);

/// Groups whose frames routing protocols and others of Linux's want: IPv4 and IPv6 on one link, IS-IS, slow protocols and LLDP.
const GROUPS: &[[u8; 6]] = &[
    [0x01, 0x00, 0x5e, 0, 0, 0x01],
    [0x01, 0x00, 0x5e, 0, 0, 0x02],
    [0x01, 0x00, 0x5e, 0, 0, 0x05],
    [0x01, 0x00, 0x5e, 0, 0, 0x06],
    [0x01, 0x00, 0x5e, 0, 0, 0x09],
    [0x01, 0x00, 0x5e, 0, 0, 0x0a],
    [0x01, 0x00, 0x5e, 0, 0, 0x0d],
    [0x01, 0x00, 0x5e, 0, 0, 0x12],
    [0x01, 0x00, 0x5e, 0, 0, 0x16],
    [0x01, 0x00, 0x5e, 0, 0, 0xfb],
    [0x33, 0x33, 0, 0, 0, 0x01],
    [0x33, 0x33, 0, 0, 0, 0x02],
    [0x33, 0x33, 0, 0, 0, 0x05],
    [0x33, 0x33, 0, 0, 0, 0x06],
    [0x33, 0x33, 0, 0, 0, 0x09],
    [0x33, 0x33, 0, 0, 0, 0x0a],
    [0x33, 0x33, 0, 0, 0, 0x0d],
    [0x33, 0x33, 0, 0, 0, 0x12],
    [0x33, 0x33, 0, 0, 0, 0x16],
    [0x33, 0x33, 0, 0, 0, 0xfb],
    [0x01, 0x80, 0xc2, 0, 0, 0x14],
    [0x01, 0x80, 0xc2, 0, 0, 0x15],
    [0x09, 0x00, 0x2b, 0, 0, 0x05],
    [0x01, 0x80, 0xc2, 0, 0, 0x02],
    [0x01, 0x80, 0xc2, 0, 0, 0x0e],
];

/// A device in Linux.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paired {
    /// Its name.
    pub host: String,
    /// Its network namespace; Quiver's own when absent.
    pub netns: Option<String>,
}

/// The pair of an interface; none: it has none any more.
#[derive(Clone, Debug, PartialEq)]
pub struct LinuxPair(pub Option<Paired>);

/// Bytes of routes' changes that the kernel may keep for us.
pub const RX_BUFFER: RangeInclusive<u32> = 4096..=1 << 30;
/// [`Settings::rx_buffer`] where nothing is said.
pub const DEFAULT_RX_BUFFER: u32 = 32 << 20;

/// Where FRR's zebra is listened to (`dplane_fpm_nl`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FpmListen {
    /// The address.
    pub address: IpAddr,
    /// The TCP port.
    pub port: u16,
    /// The network namespace; that of [`Settings::default_netns`] when absent.
    pub netns: Option<String>,
    /// Seconds that its routes stay when it is gone.
    pub hold: u32,
}

/// What [`FpmListen::hold`] may be, seconds.
pub const FPM_HOLD: RangeInclusive<u32> = 0..=3600;

impl Default for FpmListen {
    fn default() -> Self {
        FpmListen { address: Ipv4Addr::LOCALHOST.into(), port: 2620, netns: None, hold: 60 }
    }
}

impl FpmListen {
    /// As the command has it.
    pub(super) fn words(&self) -> String {
        let netns = self.netns.as_ref().map_or_else(String::new, |n| format!(" netns {n}"));
        format!("address {} port {} hold {}{netns}", self.address, self.port, self.hold)
    }

    fn check(&self) -> Result<(), String> {
        if self.address.is_multicast() || self.port == 0 {
            return Err(format!(
                "fpm: {} port {}: an address of Linux's, and a port from 1",
                self.address, self.port
            ));
        }
        if !FPM_HOLD.contains(&self.hold) {
            return Err(format!(
                "fpm: hold {}: it is {} to {} seconds",
                self.hold,
                FPM_HOLD.start(),
                FPM_HOLD.end()
            ));
        }
        self.netns.as_deref().map_or(Ok(()), check_namespace)
    }
}

/// What holds for all pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The namespace of pairs that are made without one.
    pub default_netns: Option<String>,
    /// Admin state, MTU, table and addresses go over to Linux.
    pub sync: bool,
    /// Sub-interfaces that are made get a pair where their interface has one.
    pub auto_subint: bool,
    /// Routes of Linux's are forwarded by.
    pub netlink: bool,
    /// What is changed in Linux on devices of pairs is made on the interfaces.
    pub nl_sync: bool,
    /// FRR's zebra is listened to.
    pub fpm: Option<FpmListen>,
    /// Bytes of changes of routes that the kernel keeps until they are read; beyond, all routes are read anew.
    pub rx_buffer: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let rx_buffer = DEFAULT_RX_BUFFER;
        Settings {
            default_netns: None,
            sync: false,
            auto_subint: false,
            netlink: true,
            nl_sync: true,
            fpm: None,
            rx_buffer,
        }
    }
}

/// A change of one of [`Settings`].
#[derive(Clone, Debug, PartialEq)]
pub enum LcpSetting {
    /// See [`Settings::default_netns`].
    DefaultNetns(Option<String>),
    /// See [`Settings::sync`].
    Sync(bool),
    /// See [`Settings::auto_subint`].
    AutoSubint(bool),
    /// See [`Settings::netlink`].
    Netlink(bool),
    /// See [`Settings::nl_sync`].
    NlSync(bool),
    /// See [`Settings::fpm`].
    Fpm(Option<FpmListen>),
    /// See [`Settings::rx_buffer`].
    RxBuffer(u32),
}

/// A pair as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairInfo {
    /// The interface.
    pub interface: u32,
    /// Its name.
    pub name: String,
    /// The TAP between both: the number of the interface that it is in Quiver.
    pub tap: u32,
    /// The device in Linux.
    pub linux: Paired,
    /// Linux's number of it; none while it is gone.
    pub ifindex: Option<u32>,
}

/// A pair, and what is known of its device.
pub(super) struct Pair {
    pub linux: Paired,
    pub tap: u32,
    pub applied: Applied,
    /// Held by all that Linux is asked for it.
    pub asked: Arc<()>,
    /// Addresses of Linux's that the interface cannot have, and why.
    pub refused: BTreeMap<IpNet, String>,
    /// The table of the VRF in which the device is and the interface cannot be, and why.
    pub refused_table: Option<(u32, String)>,
    /// It is a VLAN device of Linux's above the TAP of another pair, on which frames lack so many tags of the interface's.
    pub vlan: Option<u8>,
}

impl Pair {
    pub fn new(linux: Paired, tap: u32, applied: Applied) -> Pair {
        let (refused, refused_table) = (BTreeMap::new(), None);
        Pair { linux, tap, applied, asked: Arc::default(), refused, refused_table, vlan: None }
    }

    /// Whether Linux has what was `applied`.
    pub fn is_told(&self) -> bool {
        Arc::strong_count(&self.asked) == 1
    }
}

/// The part's state.
#[derive(Default)]
pub(super) struct State {
    pub settings: Settings,
    pub pairs: BTreeMap<u32, Pair>,
    /// Interfaces by their TAPs.
    taps: BTreeMap<u32, u32>,
    pub to: BTreeMap<u32, ToLinux>,
    pub from: BTreeMap<u32, FromLinux>,
    /// Sub-interfaces that were seen, and those of this transaction.
    seen: BTreeSet<u32>,
    new: Vec<u32>,
    /// Pairs that are to be looked at, once workers see the interface.
    changed: BTreeSet<u32>,
    /// Pairs that are to be looked at when the transaction ends.
    settling: BTreeSet<u32>,
    /// Pairs that are to be looked at, in turns, since there is much to do, or a setting of all was changed.
    pub later: BTreeSet<u32>,
    pub vlans: Vlans,
    pub vrfs: Vrfs,
}

/// What holds for all pairs.
pub fn settings(router: &Router) -> Settings {
    router.state::<State>().map(|s| s.settings.clone()).unwrap_or_default()
}

fn info(router: &Router, index: u32, pair: &Pair) -> PairInfo {
    PairInfo {
        interface: index,
        name: router.interface_name(index),
        tap: pair.tap,
        linux: pair.linux.clone(),
        ifindex: match pair.vlan {
            Some(_) => Some(pair.applied.ifindex),
            None => router.companion_ifindex(pair.tap),
        },
    }
}

/// All pairs, by number of the interface.
pub fn pairs(router: &Router) -> impl Iterator<Item = PairInfo> + '_ {
    let all = router.state::<State>().into_iter().flat_map(|s| &s.pairs);
    all.map(|(index, pair)| info(router, *index, pair))
}

/// The pair of an interface.
pub fn pair(router: &Router, interface: u32) -> Option<PairInfo> {
    let found = router.state::<State>()?.pairs.get(&interface)?;
    Some(info(router, interface, found))
}

/// Addresses that the device of an interface's pair has in Linux and the interface cannot have, and why.
pub(super) fn refused_addresses(router: &Router, index: u32) -> impl Iterator<Item = (IpNet, &str)> {
    let pair = router.state::<State>().and_then(|s| s.pairs.get(&index));
    let all = pair.into_iter().flat_map(|p| &p.refused);
    all.filter(|(net, _)| !super::from_linux::is_link_local(net)).map(|(net, why)| (*net, why.as_str()))
}

/// The table of the VRF in which the device of an interface's pair is and the interface cannot be, and why.
pub(super) fn refused_table(router: &Router, index: u32) -> Option<&(u32, String)> {
    router.state::<State>()?.pairs.get(&index)?.refused_table.as_ref()
}

/// Whether a text can name the device of a pair: as a TAP's Linux side, and with dots.
pub fn is_host_name(name: &str) -> bool {
    is_tap_host(&name.replace('.', "-"))
}

/// Whether packets can come and go on an interface.
pub(super) fn is_usable(router: &Router, i: &IfState) -> bool {
    router.interface(i.hw()).is_some_and(|hw| i.up && hw.up && hw.link)
}

/// The MAC address of an interface.
pub(super) fn mac(router: &Router, i: &IfState) -> MacAddr {
    router.interface(i.hw()).map_or(i.mac, |hw| hw.mac)
}

/// Whether an interface can have this pair.
fn check(router: &Router, i: &IfState, linux: &Paired) -> Result<(), OpError> {
    let (name, host) = (&i.name, &linux.host);
    let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
    if !is_host_name(host) {
        return fail(format!(
            "{host:?} cannot name a pair in Linux: a lower-case letter, then lower-case letters, digits, '-' and '.', at most 15"
        ));
    }
    linux.netns.as_deref().map_or(Ok(()), check_namespace).or_else(fail)?;
    match i.kind {
        Kind::Local => return fail("stands for the router itself and has no pair".into()),
        Kind::MplsTunnel { .. } => {
            return fail("an MPLS tunnel has no pair: packets only leave over it".into());
        }
        Kind::Sub { encap, .. } if !encap.is_exact() => {
            return fail(
                "takes frames of several VLANs: only a sub-interface with exact-match has a pair".into(),
            );
        }
        Kind::Device if matches!(i.origin, Op::CreateTap { .. }) => {
            return fail("is a TAP, which Linux has already".into());
        }
        _ => {}
    }
    let other = pairs(router).find(|p| p.interface != i.index && p.linux == *linux);
    if let Some(other) = other {
        return fail(format!("{host} is the pair of {} already", other.name));
    }
    Ok(())
}

/// What it means that Linux refuses a pair later.
type Late = fn(&mut Router, OpError) -> Result<(), OpError>;

/// Makes the pair of an interface that has none.
fn make(router: &mut Router, index: u32, linux: Paired, late: Late) -> Result<(), OpError> {
    let Some(i) = router.interface(index) else { return Ok(()) };
    check(router, i, &linux)?;
    let (name, mac, mtu) = (i.name.clone(), mac(router, i), i.mtu);
    let config = TapConfig {
        netns: linux.netns.clone(),
        host_mac: Some(mac),
        host_mtu: Some(mtu.into()),
        ..TapConfig::new(&linux.host)
    };
    let no_pair = move |e: OpError| OpError::new(format!("{name}: no pair: {e}"));
    let later = no_pair.clone();
    let refused = move |router: &mut Router, e| late(router, later(e));
    let made = router.create_companion(index, format!("tap{}", FIRST_TAP + index), config, refused);
    let (tap, memory) = made.map_err(no_pair)?;
    let memory = memory.and_then(|m| m.downcast::<Memory>().ok());
    let applied = memory.as_ref().map_or_else(|| Applied::made(mac, mtu), |m| m.applied.clone());
    insert(router, index, Pair::new(linux, tap, applied));
    if let Some(m) = memory.filter(|m| m.interface == index) {
        router.restore_elsewhere(index, m.had);
    }
    router.publish_interface(tap);
    sync::follow(router, index);
    let usable = router.interface(index).is_some_and(|i| is_usable(router, i));
    router.set_companion_carrier(tap, usable);
    Ok(())
}

/// An interface has a pair from now on.
pub(super) fn insert(router: &mut Router, index: u32, pair: Pair) {
    if let Some(s) = router.state_mut::<State>() {
        if pair.vlan.is_none() {
            s.taps.insert(pair.tap, index);
        }
        s.pairs.insert(index, pair);
    }
    receive_groups(router, index, true);
    seen_by_workers(router, index);
}

/// All is as configured at a start: pairs that an earlier run has left get what they are to have, and those that are none any more go.
pub fn started(router: &mut Router) {
    router.end_start();
    let all: Vec<(u32, u32)> =
        router.state::<State>().into_iter().flat_map(|s| &s.pairs).map(|(i, p)| (*i, p.tap)).collect();
    for (index, tap) in all {
        sync::follow(router, index);
        router.end_companion_carrier(tap);
    }
}

/// Makes one device of the router the TAP of another interface's pair, as benchmarks and tests have it that may make none in Linux.
///
/// # Errors
/// There is no interface of one of these names.
pub fn pair_over(router: &mut Router, interface: &str, tap: &str) -> Result<(), OpError> {
    let (index, tap) = (router.index_of(interface)?, router.index_of(tap)?);
    let linux = Paired { host: format!("pair{index}"), netns: None };
    if let Some(s) = router.state_mut::<State>() {
        s.pairs.insert(index, Pair::new(linux, tap, Applied::made(MacAddr::ZERO, 0)));
        s.taps.insert(tap, index);
    }
    seen_by_workers(router, index);
    router.publish_interface(tap);
    router.publish_interface(index);
    Ok(())
}

/// There is more to do at a pair than was done.
pub(super) fn look_again(router: &mut Router, index: u32) {
    if let Some(s) = router.state_mut::<State>() {
        s.later.insert(index);
    }
}

/// What is known of a pair that is taken away, while that may be undone.
struct Memory {
    interface: u32,
    applied: Applied,
    had: HadElsewhere,
}

/// Takes the pair of an interface away.
pub(super) fn unmake(router: &mut Router, index: u32) {
    unmake_of(router, index);
    router.drop_elsewhere(index, true, None);
}

/// The same of an interface that goes, and with it all that Linux has given it.
fn unmake_of(router: &mut Router, index: u32) {
    let Some(s) = router.state_mut::<State>() else { return };
    let Some(pair) = s.pairs.remove(&index) else { return };
    s.changed.remove(&index);
    s.later.remove(&index);
    s.settling.remove(&index);
    // VLAN devices above it go with it; their sub-interfaces follow.
    let on_it = |(i, p): (&u32, &Pair)| (p.tap == pair.tap && pair.vlan.is_none()).then_some(*i);
    let above: Vec<u32> = s.pairs.iter().filter_map(on_it).collect();
    if pair.vlan.is_none() {
        s.taps.remove(&pair.tap);
    }
    receive_groups(router, index, false);
    seen_by_workers(router, index);
    above.into_iter().for_each(|i| unmake(router, i));
    if pair.vlan.is_none() {
        forget(router, pair.tap);
        let had = router.has_elsewhere(index);
        let memory = Memory { interface: index, applied: pair.applied, had };
        router.remove_companion(pair.tap, Some(Box::new(memory)));
    }
}

/// Looks at pairs after a setting of all was changed, `within` that transaction or behind it, for a while; the rest follows.
fn look_at_pairs(router: &mut Router, within: bool) {
    let end = Instant::now() + TURN;
    while let Some(index) = router.state::<State>().and_then(|s| s.later.first().copied()) {
        if !settings(router).nl_sync && !router.drop_elsewhere(index, within, Some(end)) {
            return;
        }
        if let Some(s) = router.state_mut::<State>() {
            s.later.remove(&index);
            if let Some(pair) = s.pairs.get_mut(&index).filter(|_| !s.settings.nl_sync) {
                // That it is in a VRF is news when Linux is followed again.
                (pair.applied.master, pair.refused_table) = (0, None);
            }
        }
        sync::follow(router, index);
        if Instant::now() >= end {
            return;
        }
    }
}

/// The device below an interface takes frames that are for Linux, or no more.
fn receive_groups(router: &mut Router, index: u32, on: bool) {
    let frames = |i: &IfState| match i.kind {
        Kind::Device | Kind::Sub { .. } => true,
        Kind::Virtual(kind) => kind.frames,
        _ => false,
    };
    if router.interface(index).is_some_and(frames) {
        GROUPS.iter().for_each(|g| router.receive_frames_to(index, MacAddr(*g), on));
    }
}

/// Workers see of the pair of an interface what it is now.
fn seen_by_workers(router: &mut Router, index: u32) {
    let Some(s) = router.state::<State>() else { return };
    let pair = s.pairs.get(&index);
    let (to, from) = match (pair, router.interface(index)) {
        (Some(pair), Some(i)) => {
            let packets = i.is_point_to_point().then(|| mac(router, i).0);
            let to = ToLinux { tap: pair.tap, pop: pair.vlan.unwrap_or(i.tags().count), packets };
            let from = (pair.tap, FromLinux { interface: index, routed: i.is_alone() });
            (Some(to), pair.vlan.is_none().then_some(from))
        }
        _ => (None, None),
    };
    if s.to.get(&index) == to.as_ref() && from.is_none_or(|(tap, from)| s.from.get(&tap) == Some(&from)) {
        return;
    }
    let Some(s) = router.state_mut::<State>() else { return };
    match to {
        Some(to) => _ = s.to.insert(index, to),
        None => _ = s.to.remove(&index),
    }
    s.from.extend(from);
    publish(router);
}

/// A TAP is gone.
fn forget(router: &mut Router, tap: u32) {
    let was = router.state_mut::<State>().and_then(|s| s.from.remove(&tap));
    if was.is_some() {
        publish(router);
    }
}

fn publish(router: &mut Router) {
    let Some(s) = router.state::<State>() else { return };
    let to = s.to.iter().map(|(i, to)| (*i, *to)).collect();
    let from = s.from.iter().map(|(i, from)| (*i, *from)).collect();
    router.publish(Pairs { to, from });
}

impl InterfaceOp for LinuxPair {
    fn subject(&self) -> String {
        "pair in Linux".into()
    }

    fn off(&self) -> Self {
        LinuxPair(None)
    }

    fn for_root(&self) -> Option<String> {
        self.0.as_ref()?.netns.as_deref().map(namespace_for_root)
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let was = pair(router, index).map(|p| p.linux);
        if self.0 == was {
            return Ok(self);
        }
        if let (Some(linux), Some(i)) = (&self.0, router.interface(index)) {
            check(router, i, linux)?;
        }
        unmake(router, index);
        if let Some(linux) = self.0
            && let Err(e) = make(router, index, linux, |_, e| Err(e))
        {
            if let Some(Err(again)) = was.map(|was| make(router, index, was, |_, e| Err(e))) {
                router.note(true, again.message);
            }
            return Err(e);
        }
        Ok(LinuxPair(was))
    }

    fn exclusive(&self) -> Option<String> {
        self.0.as_ref().map(|linux| format!("{} {}", linux.host, linux.netns.as_deref().unwrap_or_default()))
    }

    fn switches_on(&self) -> bool {
        self.0.is_some()
    }

    fn is_pair(&self) -> bool {
        self.0.is_some()
    }

    fn names_others(&self) -> bool {
        false
    }

    fn words(&self, name: &str) -> (String, String) {
        let host = self.0.as_ref().map_or("none", |p| &p.host);
        (format!("has the pair {host} in Linux"), format!("lcp delete {name}"))
    }

    fn commands(&self, name: &str, changes: bool) -> Vec<String> {
        let delete = || format!("lcp delete {name}");
        let Some(p) = &self.0 else { return vec![delete()] };
        let netns = p.netns.as_ref().map_or_else(String::new, |n| format!(" netns {}", quote(n)));
        let create = format!("lcp create {name} host-if {}{netns}", quote(&p.host));
        changes.then(delete).into_iter().chain([create]).collect()
    }
}

impl LcpSetting {
    /// What it means that there is no namespace of the name that it says; there may be one later.
    pub(super) fn names_missing(&self) -> Option<String> {
        let (netns, what) = match self {
            LcpSetting::DefaultNetns(Some(netns)) => (netns, "no pair can be made there"),
            LcpSetting::Fpm(Some(FpmListen { netns: Some(netns), .. })) => (netns, "nobody is listened to"),
            _ => return None,
        };
        let words = || format!("there is no network namespace {netns}: {what} before `ip netns add {netns}`");
        (!drivers::netns::exists(netns)).then(words)
    }
}

impl PartOp for LcpSetting {
    fn subject(&self) -> String {
        match self {
            LcpSetting::DefaultNetns(_) => "namespace of pairs in Linux",
            LcpSetting::Sync(_) => "lcp-sync",
            LcpSetting::AutoSubint(_) => "lcp-auto-subint",
            LcpSetting::Netlink(_) => "lcp netlink",
            LcpSetting::NlSync(_) => "lcp nl-sync",
            LcpSetting::Fpm(_) => "lcp fpm",
            LcpSetting::RxBuffer(_) => "lcp nl-rx-buffer-size",
        }
        .into()
    }

    fn off(&self) -> Option<Op> {
        let off = match self {
            LcpSetting::DefaultNetns(_) => LcpSetting::DefaultNetns(None),
            LcpSetting::Sync(_) => LcpSetting::Sync(false),
            LcpSetting::AutoSubint(_) => LcpSetting::AutoSubint(false),
            LcpSetting::Netlink(_) => LcpSetting::Netlink(true),
            LcpSetting::NlSync(_) => LcpSetting::NlSync(true),
            LcpSetting::Fpm(_) => LcpSetting::Fpm(None),
            LcpSetting::RxBuffer(_) => LcpSetting::RxBuffer(DEFAULT_RX_BUFFER),
        };
        Some(off.into())
    }

    fn command(&self) -> Option<String> {
        let on = |yes: &bool| if *yes { "on" } else { "off" };
        Some(match self {
            LcpSetting::DefaultNetns(Some(netns)) => format!("lcp default netns {}", quote(netns)),
            LcpSetting::DefaultNetns(None) => "lcp default clear netns".into(),
            LcpSetting::Sync(yes) => format!("lcp lcp-sync {}", on(yes)),
            LcpSetting::AutoSubint(yes) => format!("lcp lcp-auto-subint {}", on(yes)),
            LcpSetting::Netlink(yes) => format!("lcp netlink {}", on(yes)),
            LcpSetting::NlSync(yes) => format!("lcp nl-sync {}", on(yes)),
            LcpSetting::Fpm(Some(fpm)) => format!("lcp fpm on {}", fpm.words()),
            LcpSetting::Fpm(None) => "lcp fpm off".into(),
            LcpSetting::RxBuffer(n) => format!("lcp nl-rx-buffer-size {n}"),
        })
    }

    fn for_root(&self) -> Option<String> {
        match self {
            LcpSetting::DefaultNetns(Some(netns)) => Some(namespace_for_root(netns)),
            LcpSetting::Fpm(Some(FpmListen { netns: Some(netns), .. })) => Some(namespace_for_root(netns)),
            _ => None,
        }
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        if let LcpSetting::DefaultNetns(Some(netns)) = &self {
            check_namespace(netns).map_err(OpError::new)?;
        }
        if let LcpSetting::RxBuffer(n) = &self
            && !RX_BUFFER.contains(n)
        {
            let (least, most) = RX_BUFFER.into_inner();
            return Err(OpError::new(format!("nl-rx-buffer-size {n}: it is {least} to {most} bytes")));
        }
        if let LcpSetting::Fpm(Some(fpm)) = &self {
            fpm.check().map_err(OpError::new)?;
        }
        if let Some(missing) = self.names_missing() {
            router.note(true, missing);
        }
        let Some(s) = router.state_mut::<State>() else { return Ok(vec![]) };
        let was = match self {
            LcpSetting::DefaultNetns(netns) => {
                LcpSetting::DefaultNetns(std::mem::replace(&mut s.settings.default_netns, netns))
            }
            LcpSetting::Sync(on) => LcpSetting::Sync(std::mem::replace(&mut s.settings.sync, on)),
            LcpSetting::AutoSubint(on) => {
                LcpSetting::AutoSubint(std::mem::replace(&mut s.settings.auto_subint, on))
            }
            LcpSetting::Netlink(on) => LcpSetting::Netlink(std::mem::replace(&mut s.settings.netlink, on)),
            LcpSetting::NlSync(on) => LcpSetting::NlSync(std::mem::replace(&mut s.settings.nl_sync, on)),
            LcpSetting::Fpm(fpm) => LcpSetting::Fpm(std::mem::replace(&mut s.settings.fpm, fpm)),
            LcpSetting::RxBuffer(n) => LcpSetting::RxBuffer(std::mem::replace(&mut s.settings.rx_buffer, n)),
        };
        if matches!(was, LcpSetting::Sync(false) | LcpSetting::NlSync(true)) {
            s.later.extend(s.pairs.keys());
            look_at_pairs(router, true);
        }
        Ok(vec![was.into()])
    }

    fn log_line(&self) -> Option<String> {
        let word = |on: &bool| if *on { "on" } else { "off" };
        Some(match self {
            LcpSetting::DefaultNetns(Some(netns)) => format!("pairs in Linux: namespace {netns}"),
            LcpSetting::DefaultNetns(None) => "pairs in Linux: Quiver's own namespace".into(),
            LcpSetting::Sync(on) => format!("pairs in Linux: lcp-sync {}", word(on)),
            LcpSetting::AutoSubint(on) => format!("pairs in Linux: lcp-auto-subint {}", word(on)),
            LcpSetting::Netlink(on) => format!("pairs in Linux: netlink {}", word(on)),
            LcpSetting::NlSync(on) => format!("pairs in Linux: nl-sync {}", word(on)),
            LcpSetting::Fpm(Some(fpm)) => format!("FRR's zebra is listened to: {}", fpm.words()),
            LcpSetting::Fpm(None) => "FRR's zebra is not listened to".into(),
            LcpSetting::RxBuffer(n) => format!("pairs in Linux: nl-rx-buffer-size {n}"),
        })
    }
}

/// Gives a new sub-interface the pair that its interface's has it get.
fn pair_by_itself(router: &mut Router, index: u32) {
    let Some(i) = router.interface(index) else { return };
    let (Kind::Sub { parent, id, .. }, None) = (i.kind, pair(router, index)) else { return };
    let Some(above) = pair(router, parent) else { return };
    let host = format!("{}.{id}", above.linux.host);
    let linux = Paired { host, netns: above.linux.netns };
    // The sub-interface stays without it.
    let noted = |router: &mut Router, e| {
        router.note(true, format!("lcp-auto-subint: {e}"));
        Ok(())
    };
    match make(router, index, linux, noted) {
        Ok(()) => router.publish_interface(index),
        Err(e) => router.note(true, format!("lcp-auto-subint: {e}")),
    }
}

impl Part for LinuxCp {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn told(&self, router: &Router, index: u32) -> Vec<BoxedOp> {
        pair(router, index).map(|p| BoxedOp::new(LinuxPair(Some(p.linux)))).into_iter().collect()
    }

    fn flags(&self, router: &Router, index: u32) -> u16 {
        let has = router.state::<State>().is_some_and(|s| s.pairs.contains_key(&index));
        if has { ifflags::LINUX } else { 0 }
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        let is = router.state::<State>().is_some_and(|s| s.taps.contains_key(&index));
        let has = self.flags(router, index) != 0;
        let punted = LINUX_CP_PUNT.iter().filter(|_| has);
        punted.chain(is.then_some(&LINUX_CP_XC)).collect()
    }

    fn publishing(&self, router: &mut Router, index: u32) {
        let sub = router.interface(index).is_some_and(|i| matches!(i.kind, Kind::Sub { .. }));
        let linuxs = router.changes_companions();
        let Some(s) = router.state_mut::<State>() else { return };
        if sub && s.seen.insert(index) && s.settings.auto_subint && !linuxs {
            s.new.push(index);
        }
        let pair = s.taps.get(&index).copied().unwrap_or(index);
        if s.pairs.contains_key(&pair) {
            s.changed.insert(pair);
            seen_by_workers(router, pair);
        }
    }

    fn published(&self, router: &mut Router) {
        while let Some(index) = router.state_mut::<State>().and_then(|s| s.changed.pop_first()) {
            sync::follow(router, index);
        }
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let waits = router.state::<State>().is_some_and(|s| !s.later.is_empty());
        waits.then(|| router.now())
    }

    fn tick(&self, router: &mut Router, _: Millis) {
        look_at_pairs(router, false);
    }

    fn settled(&self, router: &mut Router) {
        let new = router.state_mut::<State>().map(|s| std::mem::take(&mut s.new)).unwrap_or_default();
        new.into_iter().for_each(|index| pair_by_itself(router, index));
        while let Some(index) = router.state_mut::<State>().and_then(|s| s.settling.pop_first()) {
            sync::follow(router, index);
        }
    }

    fn neighbors_changed(&self, router: &mut Router, index: u32) {
        let Some(s) = router.state_mut::<State>().filter(|s| s.settings.sync) else { return };
        if s.pairs.contains_key(&index) {
            s.settling.insert(index);
        }
    }

    fn usable(&self, router: &mut Router, index: u32, usable: bool) {
        let pair = router.state::<State>().and_then(|s| s.pairs.get(&index));
        if let Some(pair) = pair.filter(|p| p.vlan.is_none()) {
            router.set_companion_carrier(pair.tap, usable);
        }
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let Some(s) = router.state::<State>() else { return vec![] };
        let off = |index: &u32| Op::SetFeature {
            name: router.interface_name(*index),
            feature: LinuxPair(None).into(),
        };
        let was = [
            s.settings.default_netns.clone().map(|n| LcpSetting::DefaultNetns(Some(n))),
            s.settings.sync.then_some(LcpSetting::Sync(true)),
            s.settings.auto_subint.then_some(LcpSetting::AutoSubint(true)),
            (!s.settings.netlink).then_some(LcpSetting::Netlink(false)),
            (!s.settings.nl_sync).then_some(LcpSetting::NlSync(false)),
            s.settings.fpm.clone().map(|fpm| LcpSetting::Fpm(Some(fpm))),
            (s.settings.rx_buffer != DEFAULT_RX_BUFFER).then_some(LcpSetting::RxBuffer(s.settings.rx_buffer)),
        ];
        let settings = was.into_iter().flatten().filter_map(|s| PartOp::off(&s));
        s.pairs.keys().rev().map(off).chain(settings).collect()
    }

    fn companion_refused(&self, router: &mut Router, index: u32) {
        match router.state::<State>().and_then(|s| s.taps.get(&index).copied()) {
            Some(of) => unmake(router, of),
            None => router.remove_companion(index, None),
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        unmake_of(router, index);
        if let Some(s) = router.state_mut::<State>() {
            s.seen.remove(&index);
            s.new.retain(|i| *i != index);
            s.vlans.forget(index);
        }
    }
}
