//! When advertisements are sent (RFC 4861 sections 6.2.4 to 6.2.6).

use super::content::RaConfig;
use super::withdrawn::{Items, Told};
use crate::neighbor::{Millis, random};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// A solicitation is answered within this time, milliseconds (MAX_RA_DELAY_TIME).
const MAX_DELAY: u64 = 500;
/// Between two advertisements to all nodes, milliseconds (MIN_DELAY_BETWEEN_RAS).
const MIN_BETWEEN: u64 = 3000;
/// Advertisements that end the service (MAX_FINAL_RTR_ADVERTISEMENTS).
const FINAL: u8 = 3;
/// Answers to single hosts on an interface, each second.
const UNICAST_A_SECOND: u32 = 20;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The interface.
    pub interface: u32,
    /// The host that asked; `None`: all nodes.
    pub to: Option<Ipv6Addr>,
    /// The router is not to be used any more.
    pub last: bool,
}

/// Counts of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvertCounts {
    /// Advertisements to all nodes.
    pub multicast: u64,
    /// Advertisements to single hosts.
    pub unicast: u64,
    /// Solicitations heard.
    pub solicits: u64,
    /// Solicitations that were not answered to their sender, for there were too many.
    pub limited: u64,
}

#[derive(Clone, Debug)]
struct Sender {
    config: RaConfig,
    up: bool,
    /// Sent since the start, as far as that matters.
    sent: u8,
    /// The next one of its own accord.
    next: Option<Millis>,
    /// An answer to all nodes.
    answer: Option<Millis>,
    last_multicast: Option<Millis>,
    /// The second in which `in_second` answers went to single hosts.
    second: u64,
    in_second: u32,
    counts: AdvertCounts,
}

/// An interface that sends no more.
#[derive(Clone, Debug)]
struct Ending {
    config: RaConfig,
    left: u8,
    next: Millis,
}

/// The advertising interfaces.
#[derive(Debug)]
pub struct AdvertTable {
    senders: BTreeMap<u32, Sender>,
    endings: BTreeMap<u32, Ending>,
    told: BTreeMap<u32, Told>,
    random: u64,
}

type Out<'a> = &'a mut Vec<Action>;

impl AdvertTable {
    /// None. `seed` spreads the times.
    pub fn new(seed: u64) -> Self {
        AdvertTable {
            senders: BTreeMap::new(),
            endings: BTreeMap::new(),
            told: BTreeMap::new(),
            random: seed,
        }
    }

    /// What an interface advertises.
    pub fn config(&self, interface: u32) -> Option<&RaConfig> {
        self.senders.get(&interface).map(|s| &s.config)
    }

    /// What the last advertisements of an interface are made of.
    pub fn last_config(&self, interface: u32) -> Option<&RaConfig> {
        self.endings.get(&interface).map(|e| &e.config)
    }

    /// Counts of an interface.
    pub fn counts(&self, interface: u32) -> AdvertCounts {
        self.senders.get(&interface).map_or(AdvertCounts::default(), |s| s.counts)
    }

    /// When the interface sends of its own accord next.
    pub fn next(&self, interface: u32) -> Option<Millis> {
        self.senders.get(&interface)?.next
    }

    /// The interface advertises from now on, or advertises something else.
    pub fn enable(&mut self, now: Millis, interface: u32, up: bool, config: RaConfig) {
        self.endings.remove(&interface);
        let old = self.senders.remove(&interface);
        let next = up.then_some(now);
        let (counts, last_multicast) =
            old.map_or((AdvertCounts::default(), None), |s| (s.counts, s.last_multicast));
        let s = Sender {
            config,
            up,
            sent: 0,
            next,
            answer: None,
            last_multicast,
            second: 0,
            in_second: 0,
            counts,
        };
        self.senders.insert(interface, s);
        self.hurry(now, interface);
    }

    /// The next one comes as soon as may be: something changed.
    fn hurry(&mut self, now: Millis, interface: u32) {
        if let Some(s) = self.senders.get_mut(&interface).filter(|s| s.up) {
            s.sent = 0;
            s.next = Some(s.last_multicast.map_or(now, |l| now.max(l.after(MIN_BETWEEN))));
        }
    }

    /// What is advertised changed, such as the prefixes of the interface.
    pub fn changed(&mut self, now: Millis, interface: u32) {
        self.hurry(now, interface);
    }

    /// The interface advertises no more: its hosts are told, at once and twice again.
    pub fn disable(&mut self, now: Millis, interface: u32, out: Out<'_>) {
        let Some(s) = self.senders.remove(&interface) else { return };
        if s.up && s.last_multicast.is_some() {
            out.push(Action { interface, to: None, last: true });
            self.endings.insert(
                interface,
                Ending { config: s.config, left: FINAL - 1, next: now.after(MIN_BETWEEN) },
            );
        }
    }

    /// The interface can send.
    pub fn link_up(&mut self, now: Millis, interface: u32) {
        if let Some(s) = self.senders.get_mut(&interface).filter(|s| !s.up) {
            s.up = true;
            s.last_multicast = None;
            self.hurry(now, interface);
        }
    }

    /// The interface cannot send.
    pub fn link_down(&mut self, interface: u32) {
        self.endings.remove(&interface);
        if let Some(s) = self.senders.get_mut(&interface) {
            (s.up, s.next, s.answer) = (false, None, None);
        }
    }

    /// What is to be said when the router, or an interface of it, goes away in a moment.
    pub fn farewells(&self, only: Option<u32>) -> Vec<Action> {
        let (first, last) = only.map_or((0, u32::MAX), |only| (only, only));
        self.senders
            .range(first..=last)
            .filter(|(_, s)| s.up && s.last_multicast.is_some())
            .map(|(i, _)| Action { interface: *i, to: None, last: true })
            .collect()
    }

    /// The interface is gone.
    pub fn removed(&mut self, interface: u32) {
        self.senders.remove(&interface);
        self.endings.remove(&interface);
        self.told.remove(&interface);
    }

    /// All hosts are about to be told of `now`: what they are to be told of as gone.
    pub fn tell_all(&mut self, interface: u32, now: Items) -> Items {
        let told = self.told.entry(interface).or_default();
        let gone = told.all(now);
        if told.is_empty() {
            self.told.remove(&interface);
        }
        gone
    }

    /// What hosts are being told of as gone.
    pub fn gone(&self, interface: u32) -> Items {
        self.told.get(&interface).map_or_else(Items::new, Told::gone)
    }

    /// A host solicits an advertisement; `from` is `None` where it has no address yet.
    pub fn solicited(&mut self, now: Millis, interface: u32, from: Option<Ipv6Addr>, out: Out<'_>) {
        let delay = random(&mut self.random) % (MAX_DELAY + 1);
        let Some(s) = self.senders.get_mut(&interface).filter(|s| s.up) else { return };
        s.counts.solicits += 1;
        if let Some(to) = from.filter(|_| s.config.unicast) {
            if s.second != now.0 / 1000 {
                (s.second, s.in_second) = (now.0 / 1000, 0);
            }
            if s.in_second < UNICAST_A_SECOND {
                s.in_second += 1;
                s.counts.unicast += 1;
                out.push(Action { interface, to: Some(to), last: false });
                return;
            }
            // More than that are answered together.
            s.counts.limited += 1;
        }
        let at = now.after(delay);
        let at = s.last_multicast.map_or(at, |l| at.max(l.after(MIN_BETWEEN)));
        let sooner = |due: Option<Millis>| due.is_some_and(|due| due <= at);
        if !sooner(s.answer) && !sooner(s.next) {
            s.answer = Some(at);
        }
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: Millis, out: Out<'_>) {
        for (&interface, s) in &mut self.senders {
            let due = |at: Option<Millis>| at.is_some_and(|at| at <= now);
            if !due(s.next) && !due(s.answer) {
                continue;
            }
            out.push(Action { interface, to: None, last: false });
            s.counts.multicast += 1;
            s.last_multicast = Some(now);
            s.answer = None;
            s.sent = s.sent.saturating_add(1);
            // One that answers counts for one of its own accord: the timer starts anew (section 6.2.6).
            let (min, max) =
                (u64::from(s.config.min_interval) * 1000, u64::from(s.config.max_interval) * 1000);
            let mut wait = min + random(&mut self.random) % (max - min + 1);
            if s.sent < s.config.initial_count {
                wait = wait.min(u64::from(s.config.initial_interval) * 1000);
            }
            s.next = Some(now.after(wait.max(MIN_BETWEEN)));
        }
        for (&interface, e) in &mut self.endings {
            if e.next <= now && e.left > 0 {
                out.push(Action { interface, to: None, last: true });
                e.left -= 1;
                e.next = now.after(MIN_BETWEEN);
            }
        }
        // One that has said its last stays for this turn, so that what it says can be made.
        self.endings.retain(|_, e| e.left > 0 || e.next > now);
    }

    /// When to call [`AdvertTable::tick`] next.
    pub fn next_deadline(&self) -> Option<Millis> {
        let senders = self.senders.values().flat_map(|s| [s.next, s.answer]).flatten();
        senders.chain(self.endings.values().map(|e| e.next)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(config: RaConfig) -> AdvertTable {
        let mut t = AdvertTable::new(7);
        t.enable(Millis(0), 1, true, config);
        t
    }

    fn run(t: &mut AdvertTable, until: u64) -> Vec<(u64, Action)> {
        let mut all = vec![];
        while let Some(at) = t.next_deadline().filter(|at| at.0 <= until) {
            let mut out = vec![];
            t.tick(at, &mut out);
            all.extend(out.into_iter().map(|a| (at.0, a)));
        }
        all
    }

    #[test]
    fn the_first_three_come_faster_and_then_with_jitter() {
        let mut t = table(RaConfig::default());
        let times: Vec<u64> = run(&mut t, 10_000_000).iter().map(|(at, _)| *at).collect();
        assert_eq!(times[..3], [0, 16_000, 32_000]);
        let waits: Vec<u64> = times.windows(2).skip(2).map(|w| w[1] - w[0]).collect();
        assert!(waits.len() > 15 && waits.iter().all(|w| (198_000..=600_000).contains(w)), "{waits:?}");
        assert!(waits.iter().max().unwrap() - waits.iter().min().unwrap() > 100_000, "{waits:?}");
    }

    #[test]
    fn solicitations_are_answered_together_and_not_too_often() {
        let mut t = table(RaConfig::default());
        let (mut out, mut sent) = (vec![], vec![]);
        run(&mut t, 100_000);
        for n in 0..1000 {
            let now = 200_000 + n * 10;
            sent.extend(run(&mut t, now));
            t.solicited(Millis(now), 1, None, &mut out);
        }
        sent.extend(run(&mut t, 215_000));
        let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
        assert!(out.is_empty() && (3..=5).contains(&times.len()), "{times:?}");
        assert!((200_000..=200_500).contains(&times[0]), "{times:?}");
        assert!(times.windows(2).all(|w| w[1] - w[0] >= 3000), "{times:?}");
        assert_eq!(t.counts(1).solicits, 1000);
    }

    #[test]
    fn single_hosts_are_answered_at_once_but_not_without_bound() {
        let mut t = table(RaConfig { unicast: true, ..RaConfig::default() });
        run(&mut t, 0);
        let (mut out, host) = (vec![], "fe80::9".parse().unwrap());
        for _ in 0..500 {
            t.solicited(Millis(4000), 1, Some(host), &mut out);
        }
        assert_eq!(out.len(), 20);
        assert!(out.iter().all(|a| a.to == Some(host)));
        assert_eq!(t.counts(1).limited, 480);
        t.solicited(Millis(5000), 1, Some(host), &mut out);
        assert_eq!(out.len(), 21);
    }

    #[test]
    fn the_end_is_told() {
        let mut t = table(RaConfig::default());
        let mut out = vec![];
        run(&mut t, 0);
        t.disable(Millis(50), 1, &mut out);
        let last = Action { interface: 1, to: None, last: true };
        assert_eq!(out, [last]);
        let mut at = vec![];
        while let Some(next) = t.next_deadline().filter(|n| n.0 < 60_000) {
            out.clear();
            t.tick(next, &mut out);
            assert!(out.is_empty() || t.last_config(1).is_some());
            at.extend(out.iter().map(|_| next.0));
        }
        assert_eq!(at, [3050, 6050]);
        // Nobody is told of the end of what never began.
        let mut t = AdvertTable::new(1);
        t.enable(Millis(0), 1, false, RaConfig::default());
        out.clear();
        t.disable(Millis(9), 1, &mut out);
        assert!(out.is_empty() && t.next_deadline().is_none());
    }

    #[test]
    fn a_link_that_comes_back_starts_over() {
        let mut t = table(RaConfig::default());
        run(&mut t, 100_000);
        t.link_down(1);
        assert!(t.next_deadline().is_none() && t.farewells(None).is_empty());
        t.link_up(Millis(200_000), 1);
        let times: Vec<u64> = run(&mut t, 240_000).iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [200_000, 216_000, 232_000]);
        assert_eq!(t.farewells(Some(1)).len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn never_more_than_one_in_three_seconds(events in prop::collection::vec((0u64..4000, 0u8..4), 1..80)) {
            let mut t = table(RaConfig { max_interval: 4, min_interval: 3, lifetime: 1800, ..RaConfig::default() });
            let (mut now, mut times, mut out) = (0, vec![], vec![]);
            for (wait, what) in events {
                now += wait;
                times.extend(run(&mut t, now).iter().map(|(at, _)| *at));
                match what {
                    0 => t.changed(Millis(now), 1),
                    1 => t.enable(Millis(now), 1, true, t.config(1).unwrap().clone()),
                    _ => t.solicited(Millis(now), 1, None, &mut out),
                }
            }
            times.extend(run(&mut t, now + 10_000).iter().map(|(at, _)| *at));
            prop_assert!(times.windows(2).all(|w| w[1] - w[0] >= MIN_BETWEEN), "{times:?}");
            prop_assert!(times.len() >= 2);
        }
    }
}
