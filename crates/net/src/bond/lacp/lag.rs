//! The links of a bond together: which of them make it up.

use super::pdu::{Info, Pdu, state};
use super::port::{Mux, Port, PortConfig, Rx};
use crate::neighbor::Millis;
use packet::eth::MacAddr;
use std::collections::BTreeMap;

/// Priority of the router among systems (the lowest, as in VPP).
pub const SYSTEM_PRIORITY: u16 = 0xffff;
/// Priority of its links among themselves, as in VPP.
pub const PORT_PRIORITY: u16 = 0xff;

/// A PDU to be sent over a link.
pub type Send = (u32, Pdu);

/// Whom a link leads to: links with the same can be put together (IEEE 802.1AX-2014 section 6.3.6). Of an other end that puts none
/// together each link is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Partner {
    priority: u16,
    system: MacAddr,
    key: u16,
    alone: Option<(u16, u16)>,
}

/// The links of a bond, by a number of the caller's.
#[derive(Clone, Debug)]
pub struct Lag {
    system: MacAddr,
    key: u16,
    ports: BTreeMap<u32, Port>,
    /// Whom the links lead to that make up the bond.
    chosen: Option<Partner>,
}

impl Lag {
    /// Without links, of a system with this MAC address, whose links have this key.
    pub fn new(system: MacAddr, key: u16) -> Lag {
        Lag { system, key, ports: BTreeMap::new(), chosen: None }
    }

    /// A link.
    pub fn port(&self, id: u32) -> Option<&Port> {
        self.ports.get(&id)
    }

    /// All links.
    pub fn ports(&self) -> impl Iterator<Item = (u32, &Port)> {
        self.ports.iter().map(|(id, p)| (*id, p))
    }

    fn actor(&self) -> Info {
        Info {
            system_priority: SYSTEM_PRIORITY,
            system: self.system,
            key: self.key,
            port_priority: PORT_PRIORITY,
            ..Info::default()
        }
    }

    /// A number for another link.
    pub fn free_number(&self) -> u16 {
        (1..=u16::MAX).find(|n| self.ports.values().all(|p| p.config.number != *n)).unwrap_or(u16::MAX)
    }

    /// Another link, which is down at first.
    pub fn add(&mut self, id: u32, config: PortConfig) {
        self.ports.insert(id, Port::new(self.actor(), config));
    }

    /// A link is the bond's no more; what it says for the last time.
    pub fn remove(&mut self, now: Millis, id: u32, out: &mut Vec<Send>) -> Option<Pdu> {
        let last = self.ports.remove(&id)?.farewell();
        self.run(now, out);
        last
    }

    /// What each link says before all goes down.
    pub fn farewells(&self) -> impl Iterator<Item = Send> + '_ {
        self.ports.iter().filter_map(|(id, p)| Some((*id, p.farewell()?)))
    }

    /// Something else is chosen for a link.
    pub fn configure(&mut self, now: Millis, id: u32, config: PortConfig, out: &mut Vec<Send>) {
        if let Some(p) = self.ports.get_mut(&id) {
            p.configure(config);
        }
        self.run(now, out);
    }

    /// The system has another MAC address: it is another one for the other end, and all begins anew.
    pub fn set_system(&mut self, now: Millis, system: MacAddr, out: &mut Vec<Send>) {
        if self.system == system {
            return;
        }
        self.system = system;
        let actor = self.actor();
        for p in self.ports.values_mut() {
            p.begin_anew(now, actor);
        }
        self.chosen = None;
        self.run(now, out);
    }

    /// A link comes up, or goes down.
    pub fn enable(&mut self, now: Millis, id: u32, on: bool, out: &mut Vec<Send>) {
        if let Some(p) = self.ports.get_mut(&id) {
            p.enable(now, on);
        }
        self.run(now, out);
    }

    /// A PDU came over a link.
    pub fn receive(&mut self, now: Millis, id: u32, pdu: &Pdu, out: &mut Vec<Send>) {
        let Some(p) = self.ports.get_mut(&id).filter(|p| p.enabled) else { return };
        if !p.takes(now) {
            p.counts.ignored += 1;
            return;
        }
        p.receive(now, pdu);
        // One that leads to somebody else now leaves before it is chosen again.
        if !p.selected {
            while p.step(now, false) {}
        }
        self.run(now, out);
    }

    /// A marker came over a link; whether it is to be answered.
    pub fn marker(&mut self, now: Millis, id: u32) -> bool {
        let Some(p) = self.ports.get_mut(&id).filter(|p| p.enabled) else { return false };
        let takes = p.takes(now);
        let count = if takes { &mut p.counts.markers } else { &mut p.counts.ignored };
        *count += 1;
        takes
    }

    /// A frame came over a link that is neither.
    pub fn bad(&mut self, id: u32) {
        if let Some(p) = self.ports.get_mut(&id) {
            p.counts.bad += 1;
        }
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Millis, out: &mut Vec<Send>) {
        self.run(now, out);
    }

    /// When there is something to do next.
    pub fn deadline(&self) -> Option<Millis> {
        self.ports.values().filter_map(Port::deadline).min()
    }

    /// Whom a link leads to, if it can be one of the bond's.
    fn leads_to(&self, p: &Port) -> Option<Partner> {
        let known = !p.actor.is(state::DEFAULTED) && p.partner.system != MacAddr::ZERO;
        // A link that leads back to the router leads nowhere.
        if !known || p.partner.system == self.system {
            return None;
        }
        let i = &p.partner;
        let alone = (!i.is(state::AGGREGATION)).then_some((i.port_priority, i.port));
        Some(Partner { priority: i.system_priority, system: i.system, key: i.key, alone })
    }

    /// The selection logic (section 6.4.14): the links to one other system, with one key there. They stay chosen for as long as one of
    /// them is up and hears it; then those come that are most.
    fn select(&mut self) {
        let up = |p: &Port| p.enabled && matches!(p.rx, Rx::Current | Rx::Expired);
        let lead: Vec<(u32, Partner, bool)> =
            self.ports.iter().filter_map(|(id, p)| Some((*id, self.leads_to(p)?, up(p)))).collect();
        let stays = |c: &Partner| lead.iter().any(|(_, to, up)| *up && to == c);
        if !self.chosen.is_some_and(|c| stays(&c)) {
            let mut counts: BTreeMap<Partner, usize> = BTreeMap::new();
            lead.iter().filter(|l| l.2).for_each(|(_, to, _)| *counts.entry(*to).or_default() += 1);
            let best = counts.into_iter().min_by_key(|(to, n)| (usize::MAX - n, *to)).map(|c| c.0);
            // Without any other one, those that were chosen may come back.
            self.chosen = best.or(self.chosen);
        }
        let chosen = self.chosen;
        for (id, p) in &mut self.ports {
            let to = lead.iter().find(|l| l.0 == *id).map(|l| l.1);
            p.selected = to.is_some() && to == chosen && (p.enabled || p.selected);
        }
    }

    /// Runs all machines until nothing changes.
    fn run(&mut self, now: Millis, out: &mut Vec<Send>) {
        self.ports.values_mut().for_each(|p| p.tick(now));
        self.select();
        loop {
            let waits = |p: &Port| p.mux == Mux::Waiting && p.selected && p.enabled && !p.has_waited();
            let together = !self.ports.values().any(waits);
            let steps = self.ports.values_mut().filter_map(|p| p.step(now, together).then_some(()));
            if steps.count() == 0 {
                break;
            }
        }
        for (id, p) in &mut self.ports {
            out.extend(p.say(now).map(|pdu| (*id, pdu)));
        }
    }
}
