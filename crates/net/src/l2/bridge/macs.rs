//! The MAC table on the control side: static addresses, ageing, and taking out.

use super::ops::{BridgeOp, StaticMac};
use super::part::{BridgeState, Bridges, bridge, known, state, state_mut};
use super::port::{port, seen};
use crate::interface::BdIndex;
use crate::neighbor::Millis;
use crate::plane::STEP_SECONDS;
use crate::router::{IfState, Op, OpError, Router};
use packet::eth::MacAddr;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tables::macs::{Entry, Learnt, Limits, STAMP_MASK, key_mac};

/// Whose addresses are to go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// A bridge domain's, which is then free.
    Bridge(BdIndex),
    /// Those behind an interface.
    Port(u32),
}

/// One address of `show l2fib`.
#[derive(Clone, Copy, Debug)]
pub struct MacInfo {
    /// Bridge domain.
    pub bridge: u32,
    /// The address.
    pub mac: MacAddr,
    /// The interface behind which it is; none for a filter.
    pub interface: Option<u32>,
    /// Set by the operator.
    pub fixed: bool,
    /// Of the BVI.
    pub bvi: bool,
    /// Seconds since it was seen, in steps of some seconds; none for a static one.
    pub age: Option<u64>,
}

/// How many addresses there are.
#[derive(Clone, Copy, Debug)]
pub struct MacCounts {
    /// Learned.
    pub learned: u32,
    /// Static.
    pub fixed: usize,
    /// The most that are learned.
    pub limit: u32,
    /// For how many the table has room before it grows.
    pub room: usize,
}

/// How long the control side waits for workers to pass while static addresses make the table grow.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the control side waits for workers before it does something else, while the table grows.
const GROWTH: Duration = Duration::from_millis(5);

fn steps(minutes: u8) -> u16 {
    (u64::from(minutes) * 60).div_ceil(STEP_SECONDS) as u16
}

fn stamp(now: Millis) -> u16 {
    (now.0 / 1000 / STEP_SECONDS) as u16 & STAMP_MASK
}

/// Sets an entry that workers do not change; waits for them where the table has to grow more than once.
fn put(router: &mut Router, key: u64, entry: Entry) -> Result<Option<Entry>, OpError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let put = router.with_reclaimer(|b: &mut Bridges, reclaimer| b.macs.set(key, entry, reclaimer));
        match put {
            None => return Ok(None),
            Some(Ok(was)) => return Ok(was),
            Some(Err(_)) if Instant::now() < until => {
                router.domain().advance();
                grow_on(router);
                std::thread::yield_now();
            }
            Some(Err(e)) => return Err(OpError::new(e.to_string())),
        }
    }
}

/// Goes on with a table that grows.
fn grow_on(router: &mut Router) {
    router.with_reclaimer(|b: &mut Bridges, reclaimer| b.macs.maintain(reclaimer));
}

fn get(router: &Router, key: u64) -> Option<Entry> {
    state(router)?.macs.get(key)
}

fn remove(router: &mut Router, key: u64) -> Option<Entry> {
    state_mut(router)?.macs.remove(key)
}

pub(super) fn set_static(
    router: &mut Router,
    id: u32,
    mac: MacAddr,
    to: Option<StaticMac>,
) -> Result<Vec<Op>, OpError> {
    let index = known(router, id)?.index;
    if !mac.is_station() {
        return Err(OpError::new(format!(
            "bridge domain {id}: {mac} is not the address of a single station"
        )));
    }
    let key = index.key(mac.0);
    let there = get(router, key);
    if there.is_some_and(Entry::is_bvi) {
        return Err(OpError::new(format!("bridge domain {id}: {mac} is the address of its BVI")));
    }
    let was = there.filter(|e| e.is_static()).map(|e| place_of(router, e));
    // What was learned comes back by itself.
    let undo = (was.is_some() || to.is_some()).then_some(BridgeOp::Mac { id, mac, to: was });
    match to {
        Some(to) => {
            let entry = match &to {
                StaticMac::Filter => Entry::filter(),
                StaticMac::Port(name) => {
                    let i = router.named(name)?;
                    if i.membership.is_none_or(|m| m.bridge != id || m.bvi) {
                        return Err(OpError::new(format!("{name} is no member of bridge domain {id}")));
                    }
                    Entry::fixed(i.index)
                }
            };
            put(router, key, entry)?;
        }
        None if remove(router, key).is_none() => {
            return Err(OpError::new(format!("bridge domain {id}: there is no address {mac}")));
        }
        None => {}
    }
    Ok(undo.into_iter().map(Op::from).collect())
}

fn place_of(router: &Router, e: Entry) -> StaticMac {
    if e.is_filter() { StaticMac::Filter } else { StaticMac::Port(router.interface_name(e.port())) }
}

/// The static addresses of a bridge domain, all or those behind one interface, as operations.
pub(super) fn static_of(router: &Router, id: u32, port: Option<u32>) -> Vec<BridgeOp> {
    let (Some(b), Some(all)) = (bridge(router, id), state(router)) else { return vec![] };
    if all.macs.fixed() == 0 {
        return vec![];
    }
    let mine = |k: u64, e: Entry| {
        let here = port.is_none_or(|p| !e.is_filter() && e.port() == p);
        BdIndex::of(k) == b.index && e.is_static() && !e.is_bvi() && here
    };
    let all = all.macs.iter().filter(|(k, e)| mine(*k, *e));
    all.map(|(k, e)| BridgeOp::Mac { id, mac: MacAddr(key_mac(k)), to: Some(place_of(router, e)) }).collect()
}

/// The static addresses of a bridge domain, by address.
pub fn static_macs(router: &Router, id: u32) -> Vec<BridgeOp> {
    let mut all = static_of(router, id, None);
    all.sort_by_key(|op| if let BridgeOp::Mac { mac, .. } = op { mac.0 } else { [0; 6] });
    all
}

/// The address of a BVI is known as such.
pub(super) fn follow_bvi(router: &mut Router, index: u32) -> Result<(), OpError> {
    let Some(m) = router.interface(index).and_then(|i| i.membership).filter(|m| m.bvi) else {
        return Ok(());
    };
    let Some(bd) = bridge(router, m.bridge).map(|b| b.index) else { return Ok(()) };
    let mac = router.mac_of(index);
    forget_bvi(router, m.bridge, index);
    if let Some(b) = state_mut(router) {
        b.bvi_macs.insert(index, mac);
    }
    put(router, bd.key(mac.0), Entry::bvi(index)).map(|_| ())
}

/// Whatever address a BVI had is no longer known.
pub(super) fn forget_bvi(router: &mut Router, id: u32, index: u32) {
    let Some(bd) = bridge(router, id).map(|b| b.index) else { return };
    let known = state_mut(router).and_then(|b| b.bvi_macs.remove(&index));
    if let Some(mac) = known {
        remove(router, bd.key(mac.0));
    }
}

/// These addresses go, once no worker learns there any more. The number of a bridge domain can be given out again then.
pub(super) fn forget(router: &mut Router, gone: Gone) {
    let epoch = router.domain().epoch();
    if let Some(b) = state_mut(router) {
        b.gone.push((epoch, gone));
    }
    router.domain().advance();
}

/// Goes on with what waits for workers. Comes before interfaces are reclaimed, whose numbers are given out again then.
pub(super) fn maintain(router: &mut Router) {
    let (epoch, safe) = (router.domain().epoch(), router.domain().safe());
    let Some(b) = state_mut(router) else { return };
    let ready = b.gone.iter().take_while(|g| g.0 < safe).count();
    if ready != 0 {
        let (mut bridges, mut ports) = (HashSet::new(), HashSet::new());
        for (_, gone) in b.gone.drain(..ready) {
            match gone {
                Gone::Bridge(n) => drop(bridges.insert(n)),
                Gone::Port(n) => drop(ports.insert(n)),
            }
        }
        // One that is in a bridge domain again keeps what was learned there since.
        let again = |p: &u32| Some((seen(router, router.interface(*p)?)?.bridge, *p));
        let here: HashSet<(BdIndex, u32)> = ports.iter().filter_map(again).collect();
        let Some(b) = state_mut(router) else { return };
        if !b.macs.is_empty() {
            b.macs.remove_if(|k, e| {
                let index = BdIndex::of(k);
                let left = !e.is_filter() && ports.contains(&e.port());
                bridges.contains(&index) || left && !here.contains(&(index, e.port()))
            });
        }
        for n in bridges {
            b.slots.remove(n.into());
        }
    }
    grow_on(router);
    let Some(b) = state_mut(router) else { return };
    // SAFETY: `safe` is below the epoch of every worker that is awake, and no reference into the slots is held here.
    #[allow(unsafe_code)]
    unsafe {
        b.slots.reclaim(epoch, safe);
    }
}

/// The MAC table is filled. A bigger one takes its place as soon as all workers have passed, mostly before this returns.
pub(super) fn grow(router: &mut Router) {
    let until = Instant::now() + GROWTH;
    loop {
        router.reclaim();
        if !state(router).is_some_and(|b| b.macs.is_growing()) || Instant::now() > until {
            return;
        }
        std::thread::yield_now();
    }
}

/// The time of bridge domains: addresses that were not seen for long go.
pub(super) fn age(router: &mut Router, now: Millis) {
    let stamp = stamp(now);
    router.plane().l2.clock.store(stamp.into(), Ordering::Relaxed);
    let learned = router.plane().l2.macs.learned();
    let Some(b) = state_mut(router) else { return };
    if stamp != b.aged {
        b.aged = stamp;
        b.ageing = true;
    }
    let wanted = b.by_id.values().any(|b| b.settings.mac_age != 0);
    if !b.ageing || !wanted || learned == 0 {
        return;
    }
    let mut ages = vec![0; b.ids.len()];
    for b in b.by_id.values() {
        if let Some(age) = ages.get_mut(b.index.index()) {
            *age = steps(b.settings.mac_age);
        }
    }
    let far = &b.far;
    let age = |number: u16, port: u32| match far.get(&port) {
        Some(far) if !far.learns => 0,
        _ => ages.get(usize::from(number)).copied().unwrap_or(0),
    };
    let (_, all) = b.macs.age(stamp, age);
    b.ageing = !all;
}

/// Since the bridge domain was made: addresses that were not learned for a limit, and moves.
pub fn bridge_events(router: &Router, b: &BridgeState) -> (u64, u64) {
    let (refused, moves) = router.plane().l2.bridge_events.sum(b.index.into());
    (refused - b.events.0, moves - b.events.1)
}

/// The same for an interface, since it came into its bridge domain.
pub fn port_events(router: &Router, i: &IfState) -> (u64, u64) {
    let (refused, moves) = router.plane().l2.port_events.sum(i.index);
    let then = port(router, i.index).events;
    (refused - then.0, moves - then.1)
}

/// How many addresses there are.
pub fn mac_counts(router: &Router) -> MacCounts {
    let shared = &router.plane().l2.macs;
    let (fixed, room) = state(router).map_or((0, 0), |b| (b.macs.fixed(), b.macs.room()));
    MacCounts { learned: shared.learned(), fixed, limit: shared.limit(), room }
}

/// The addresses of all bridge domains, by these and by address.
pub fn macs(router: &Router) -> Vec<MacInfo> {
    let now = router.plane().l2.clock.load(Ordering::Relaxed) as u16;
    let all = state(router).into_iter().flat_map(|b| b.macs.iter().map(move |(k, e)| info(b, now, k, e)));
    let mut all: Vec<MacInfo> = all.collect();
    all.sort_by_key(|m| (m.bridge, m.mac.0));
    all.dedup_by_key(|m| (m.bridge, m.mac.0));
    all
}

/// Some addresses, from a place in the table on, and the place that comes next.
pub fn macs_from(router: &Router, from: usize) -> (Vec<MacInfo>, Option<usize>) {
    let now = router.plane().l2.clock.load(Ordering::Relaxed) as u16;
    let Some(b) = state(router) else { return (vec![], None) };
    let (some, next) = b.macs.page(from, 64);
    (some.into_iter().map(|(k, e)| info(b, now, k, e)).collect(), next)
}

fn info(all: &Bridges, now: u16, k: u64, e: Entry) -> MacInfo {
    MacInfo {
        bridge: all.ids.get(BdIndex::of(k).index()).copied().unwrap_or(0),
        mac: MacAddr(key_mac(k)),
        interface: (!e.is_filter()).then_some(e.port()),
        fixed: e.is_static(),
        bvi: e.is_bvi(),
        age: (!e.is_static()).then(|| u64::from(now.wrapping_sub(e.stamp()) & STAMP_MASK) * STEP_SECONDS),
    }
}

/// Forgets learned addresses, but not those that somebody else says: all, or those of one bridge domain or interface. How many there were.
pub fn flush_macs(router: &mut Router, id: Option<u32>, interface: Option<u32>) -> usize {
    let index = id.map(|id| bridge(router, id).map_or(BdIndex::default(), |b| b.index));
    let n = state_mut(router).map_or(0, |b| {
        let Bridges { macs, far, .. } = b;
        macs.remove_if(|k, e| {
            let here = index.is_none_or(|n| n == BdIndex::of(k)) && interface.is_none_or(|i| i == e.port());
            let told = far.get(&e.port()).is_some_and(|f| !f.learns);
            !e.is_static() && here && !told
        })
    });
    router.reclaim();
    n
}

/// What became of an address that was to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is known there.
    Done,
    /// There is no room yet.
    Later,
    /// The operator says where it is, or it is the BVI's.
    Refused,
}

/// An address is behind a member of which somebody else says what is there: it moves as if a frame had come from it, and away again when one comes.
pub(crate) fn tell_mac(router: &mut Router, id: u32, mac: MacAddr, port: u32) -> Told {
    let Some(index) = bridge(router, id).map(|b| b.index) else { return Told::Refused };
    let seen = Entry::learned(port, stamp(router.now()));
    let macs = router.plane().l2.macs.reader(router.guard());
    let limits = Limits { bridge: u32::MAX, port: u32::MAX };
    let (learnt, filled) = (macs.learn(index.key(mac.0), seen, limits), macs.wants_room());
    if filled {
        grow(router);
    }
    match learnt {
        Learnt::Known | Learnt::New | Learnt::Moved => Told::Done,
        Learnt::NoRoom | Learnt::Busy => Told::Later,
        Learnt::Fixed(_) | Learnt::BridgeLimit | Learnt::PortLimit | Learnt::TableLimit => Told::Refused,
    }
}

/// An address is not behind such a member any more.
pub(crate) fn untell_mac(router: &mut Router, id: u32, mac: MacAddr, port: u32) {
    let Some(index) = bridge(router, id).map(|b| b.index) else { return };
    let key = index.key(mac.0);
    if get(router, key).is_some_and(|e| e.is_live() && !e.is_static() && e.port() == port) {
        remove(router, key);
    }
}

/// Adds an address as if a frame had come from it.
///
/// # Errors
/// There is no such member, a limit is reached, or the address is a static one.
pub fn learn_mac(router: &mut Router, id: u32, mac: MacAddr, name: &str) -> Result<(), OpError> {
    let b = known(router, id)?;
    let (index, limit) = (b.index, b.settings.mac_limit.unwrap_or(u32::MAX));
    let i = router.named(name)?;
    if i.membership.is_none_or(|m| m.bridge != id || m.bvi) {
        return Err(OpError::new(format!("{name} is no member of bridge domain {id}")));
    }
    if !mac.is_station() {
        return Err(OpError::new(format!("{mac} is not the address of a single station")));
    }
    let limits = Limits { bridge: limit, port: port(router, i.index).mac_limit.unwrap_or(u32::MAX) };
    let seen = Entry::learned(i.index, stamp(router.now()));
    let until = Instant::now() + PATIENCE;
    loop {
        let macs = router.plane().l2.macs.reader(router.guard());
        let (learnt, filled) = (macs.learn(index.key(mac.0), seen, limits), macs.wants_room());
        if filled {
            grow(router);
        }
        let why = match learnt {
            Learnt::Known | Learnt::New | Learnt::Moved => return Ok(()),
            Learnt::NoRoom | Learnt::Busy if Instant::now() < until => {
                router.reclaim();
                std::thread::yield_now();
                continue;
            }
            Learnt::NoRoom | Learnt::Busy => "the MAC table is full",
            Learnt::Fixed(_) => "it is static already",
            Learnt::BridgeLimit => "the bridge domain has as many addresses as it may",
            Learnt::PortLimit => "the interface has as many addresses as it may",
            Learnt::TableLimit => "the router has as many addresses as it may",
        };
        return Err(OpError::new(format!("bridge domain {id}: {mac} cannot be added: {why}")));
    }
}
