//! The MAC table on the control side: static addresses, ageing, and taking out.

use super::{BridgeOp, BridgeState, StaticMac};
use crate::neighbor::Millis;
use crate::plane::STEP_SECONDS;
use crate::router::op::Undo;
use crate::router::{IfState, Op, OpError, Router};
use packet::eth::MacAddr;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tables::macs::{Entry, Learnt, Limits, STAMP_MASK, key, key_bridge, key_mac};

/// Whose addresses are to go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// A bridge domain's, which is then free.
    Bridge(u16),
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

impl Router {
    /// Sets an entry that workers do not change; waits for them where the table has to grow more than once.
    fn put_mac(&mut self, key: u64, entry: Entry) -> Result<Option<Entry>, OpError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.bridges.macs.set(key, entry, &mut self.reclaimer) {
                Ok(was) => return Ok(was),
                Err(_) if Instant::now() < until => {
                    self.domain.advance();
                    self.bridges.macs.maintain(&mut self.reclaimer);
                    std::thread::yield_now();
                }
                Err(e) => return Err(OpError::new(e.to_string())),
            }
        }
    }

    pub(super) fn set_static_mac(
        &mut self,
        id: u32,
        mac: MacAddr,
        to: Option<StaticMac>,
    ) -> Result<Undo, OpError> {
        let number = self.bridges.find(id)?.number;
        if !mac.is_station() {
            return Err(OpError::new(format!(
                "bridge domain {id}: {mac} is not the address of a single station"
            )));
        }
        let key = key(number, mac.0);
        let there = self.bridges.macs.get(key);
        if there.is_some_and(Entry::is_bvi) {
            return Err(OpError::new(format!("bridge domain {id}: {mac} is the address of its BVI")));
        }
        let was = there.filter(|e| e.is_static()).map(|e| self.static_of(e));
        // What was learned comes back by itself.
        let undo = (was.is_some() || to.is_some()).then_some(BridgeOp::Mac { id, mac, to: was });
        match to {
            Some(to) => {
                let entry = match &to {
                    StaticMac::Filter => Entry::filter(),
                    StaticMac::Port(name) => {
                        let i = self.named(name)?;
                        if i.membership.is_none_or(|m| m.bridge != id || m.bvi) {
                            return Err(OpError::new(format!("{name} is no member of bridge domain {id}")));
                        }
                        Entry::fixed(i.index)
                    }
                };
                self.put_mac(key, entry)?;
            }
            None if self.bridges.macs.remove(key).is_none() => {
                return Err(OpError::new(format!("bridge domain {id}: there is no address {mac}")));
            }
            None => {}
        }
        Ok(undo.into_iter().map(Op::Bridge).collect())
    }

    fn static_of(&self, e: Entry) -> StaticMac {
        if e.is_filter() { StaticMac::Filter } else { StaticMac::Port(self.interface_name(e.port())) }
    }

    /// The static addresses of a bridge domain, all or those behind one interface, as operations.
    pub(in crate::router) fn static_macs_of(&self, id: u32, port: Option<u32>) -> Vec<BridgeOp> {
        let Some(number) = self.bridge(id).map(|b| b.number) else { return vec![] };
        if self.bridges.macs.fixed() == 0 {
            return vec![];
        }
        let mine = |k: u64, e: Entry| {
            let here = port.is_none_or(|p| !e.is_filter() && e.port() == p);
            key_bridge(k) == number && e.is_static() && !e.is_bvi() && here
        };
        let all = self.bridges.macs.iter().filter(|(k, e)| mine(*k, *e));
        all.map(|(k, e)| BridgeOp::Mac { id, mac: MacAddr(key_mac(k)), to: Some(self.static_of(e)) })
            .collect()
    }

    /// The static addresses of a bridge domain, by address.
    pub fn static_macs(&self, id: u32) -> Vec<BridgeOp> {
        let mut all = self.static_macs_of(id, None);
        all.sort_by_key(|op| if let BridgeOp::Mac { mac, .. } = op { mac.0 } else { [0; 6] });
        all
    }

    /// The address of a BVI is known as such.
    pub(in crate::router) fn follow_bvi(&mut self, index: u32) -> Result<(), OpError> {
        let Some(m) = self.interface(index).and_then(|i| i.membership).filter(|m| m.bvi) else {
            return Ok(());
        };
        let Some(number) = self.bridge(m.bridge).map(|b| b.number) else { return Ok(()) };
        let mac = self.mac_of(index);
        self.forget_bvi(m.bridge, index);
        self.bridges.bvi_macs.insert(index, mac);
        self.put_mac(key(number, mac.0), Entry::bvi(index)).map(|_| ())
    }

    /// Whatever address a BVI had is no longer known.
    pub(super) fn forget_bvi(&mut self, id: u32, index: u32) {
        let Some(number) = self.bridge(id).map(|b| b.number) else { return };
        let known = self.bridges.bvi_macs.remove(&index);
        if let Some(mac) = known {
            self.bridges.macs.remove(key(number, mac.0));
        }
    }

    /// The addresses behind an interface go, once no worker learns there any more.
    pub(super) fn forget_port(&mut self, index: u32) {
        self.bridges.gone.push((self.domain.epoch(), Gone::Port(index)));
        self.domain.advance();
    }

    /// The same for a bridge domain, whose number can be given out again then.
    pub(super) fn forget_bridge(&mut self, number: u16) {
        self.bridges.gone.push((self.domain.epoch(), Gone::Bridge(number)));
        self.domain.advance();
    }

    /// Goes on with what waits for workers. Comes before interfaces are reclaimed, whose numbers are given out again then.
    pub(in crate::router) fn maintain_bridges(&mut self) {
        let safe = self.domain.safe();
        let ready = self.bridges.gone.iter().take_while(|g| g.0 < safe).count();
        if ready != 0 {
            let (mut bridges, mut ports) = (HashSet::new(), HashSet::new());
            for (_, gone) in self.bridges.gone.drain(..ready) {
                match gone {
                    Gone::Bridge(n) => drop(bridges.insert(n)),
                    Gone::Port(n) => drop(ports.insert(n)),
                }
            }
            // One that is in a bridge domain again keeps what was learned there since.
            let again = |p: &u32| Some((self.bridge_port(self.interface(*p)?)?.bridge, *p));
            let here: HashSet<(u16, u32)> = ports.iter().filter_map(again).collect();
            if !self.bridges.macs.is_empty() {
                self.bridges.macs.remove_if(|k, e| {
                    let number = key_bridge(k);
                    let left = !e.is_filter() && ports.contains(&e.port());
                    bridges.contains(&number) || left && !here.contains(&(number, e.port()))
                });
            }
            for n in bridges {
                self.bridges.slots.remove(n.into());
            }
        }
        self.bridges.macs.maintain(&mut self.reclaimer);
        // SAFETY: `safe` is below the epoch of every worker that is awake, and no reference into the slots is held here.
        #[allow(unsafe_code)]
        unsafe {
            self.bridges.slots.reclaim(self.domain.epoch(), safe);
        }
    }

    /// The MAC table is filled. A bigger one takes its place as soon as all workers have passed, mostly before this returns.
    pub(in crate::router) fn grow_macs(&mut self) {
        let until = Instant::now() + GROWTH;
        loop {
            self.reclaim();
            if !self.bridges.macs.is_growing() || Instant::now() > until {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// The time of bridge domains: addresses that were not seen for long go.
    pub(crate) fn age_macs(&mut self, now: Millis) {
        let stamp = stamp(now);
        self.plane.l2.clock.store(stamp.into(), Ordering::Relaxed);
        if stamp != self.bridges.aged {
            self.bridges.aged = stamp;
            self.bridges.ageing = true;
        }
        let wanted = self.bridges.by_id.values().any(|b| b.settings.mac_age != 0);
        if !self.bridges.ageing || !wanted || self.plane.l2.macs.learned() == 0 {
            return;
        }
        let mut ages = vec![0; self.bridges.ids.len()];
        for b in self.bridges.by_id.values() {
            if let Some(age) = ages.get_mut(usize::from(b.number)) {
                *age = steps(b.settings.mac_age);
            }
        }
        let age = |number: u16| ages.get(usize::from(number)).copied().unwrap_or(0);
        let (_, all) = self.bridges.macs.age(stamp, age);
        self.bridges.ageing = !all;
    }

    /// Since the bridge domain was made: addresses that were not learned for a limit, and moves.
    pub fn bridge_events(&self, b: &BridgeState) -> (u64, u64) {
        let (refused, moves) = self.plane.l2.bridge_events.sum(b.number.into());
        (refused - b.events.0, moves - b.events.1)
    }

    /// The same for an interface, since it came into its bridge domain.
    pub fn port_events(&self, i: &IfState) -> (u64, u64) {
        let (refused, moves) = self.plane.l2.port_events.sum(i.index);
        (refused - i.mac_events.0, moves - i.mac_events.1)
    }

    /// How many addresses there are.
    pub fn mac_counts(&self) -> MacCounts {
        let shared = &self.plane.l2.macs;
        let macs = &self.bridges.macs;
        MacCounts { learned: shared.learned(), fixed: macs.fixed(), limit: shared.limit(), room: macs.room() }
    }

    /// The addresses of all bridge domains, by these and by address.
    pub fn macs(&self) -> Vec<MacInfo> {
        let now = self.plane.l2.clock.load(Ordering::Relaxed) as u16;
        let mut all: Vec<MacInfo> = self.bridges.macs.iter().map(|(k, e)| self.mac_info(now, k, e)).collect();
        all.sort_by_key(|m| (m.bridge, m.mac.0));
        all.dedup_by_key(|m| (m.bridge, m.mac.0));
        all
    }

    /// Some addresses, from a place in the table on, and the place that comes next.
    pub fn macs_from(&self, from: usize) -> (Vec<MacInfo>, Option<usize>) {
        let now = self.plane.l2.clock.load(Ordering::Relaxed) as u16;
        let (some, next) = self.bridges.macs.page(from, 64);
        (some.into_iter().map(|(k, e)| self.mac_info(now, k, e)).collect(), next)
    }

    fn mac_info(&self, now: u16, k: u64, e: Entry) -> MacInfo {
        MacInfo {
            bridge: self.bridges.ids.get(usize::from(key_bridge(k))).copied().unwrap_or(0),
            mac: MacAddr(key_mac(k)),
            interface: (!e.is_filter()).then_some(e.port()),
            fixed: e.is_static(),
            bvi: e.is_bvi(),
            age: (!e.is_static()).then(|| u64::from(now.wrapping_sub(e.stamp()) & STAMP_MASK) * STEP_SECONDS),
        }
    }

    /// Forgets learned addresses: all, or those of one bridge domain or interface. How many there were.
    pub fn flush_macs(&mut self, bridge: Option<u32>, interface: Option<u32>) -> usize {
        let number = bridge.map(|id| self.bridge(id).map_or(0, |b| b.number));
        let n = self.bridges.macs.remove_if(|k, e| {
            let here = number.is_none_or(|n| n == key_bridge(k)) && interface.is_none_or(|i| i == e.port());
            !e.is_static() && here
        });
        self.reclaim();
        n
    }

    /// Adds an address as if a frame had come from it.
    ///
    /// # Errors
    /// There is no such member, a limit is reached, or the address is a static one.
    pub fn learn_mac(&mut self, id: u32, mac: MacAddr, name: &str) -> Result<(), OpError> {
        let b = self.bridges.find(id)?;
        let (number, limit) = (b.number, b.settings.mac_limit.unwrap_or(u32::MAX));
        let i = self.named(name)?;
        if i.membership.is_none_or(|m| m.bridge != id || m.bvi) {
            return Err(OpError::new(format!("{name} is no member of bridge domain {id}")));
        }
        if !mac.is_station() {
            return Err(OpError::new(format!("{mac} is not the address of a single station")));
        }
        let limits = Limits { bridge: limit, port: i.mac_limit.unwrap_or(u32::MAX) };
        let seen = Entry::learned(i.index, stamp(self.now()));
        let until = Instant::now() + PATIENCE;
        loop {
            let macs = self.plane.l2.macs.reader(&self.guard);
            let (learnt, filled) = (macs.learn(key(number, mac.0), seen, limits), macs.wants_room());
            if filled {
                self.grow_macs();
            }
            let why = match learnt {
                Learnt::Known | Learnt::New | Learnt::Moved => return Ok(()),
                Learnt::NoRoom | Learnt::Busy if Instant::now() < until => {
                    self.reclaim();
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
}
