//! Two ends of the machine over links that lose frames and go down; and one end against frames written down by hand from the standard.

use super::pdu::state::*;
use super::port::{AGGREGATE_WAIT, FAST, LONG_TIMEOUT, MOST_TAKEN, SHORT_TIMEOUT, SLOW};
use super::*;
use crate::neighbor::Millis;
use packet::eth::MacAddr;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

fn config(number: u16) -> PortConfig {
    PortConfig { number, passive: false, long_timeout: false }
}

/// Two systems with links between them; link N of one is link N of the other.
struct Wires {
    now: Millis,
    ends: [Lag; 2],
    /// Frames under way: to which end, over which link.
    under_way: VecDeque<(Millis, usize, u32, Pdu)>,
    /// Frames that are lost.
    cut: BTreeSet<(usize, u32)>,
    sent: BTreeMap<(usize, u32), u64>,
}

impl Wires {
    fn new(links: u32, of: impl Fn(usize, u32) -> PortConfig) -> Wires {
        let mut ends = [Lag::new(A, 1), Lag::new(B, 2)];
        for (end, lag) in ends.iter_mut().enumerate() {
            (0..links).for_each(|id| lag.add(id, of(end, id)));
        }
        let sent = BTreeMap::new();
        Wires { now: Millis(1000), ends, under_way: VecDeque::new(), cut: BTreeSet::new(), sent }
    }

    fn act(&mut self, end: usize, act: impl FnOnce(&mut Lag, Millis, &mut Vec<Send>)) {
        let mut out = vec![];
        act(&mut self.ends[end], self.now, &mut out);
        for (id, pdu) in out {
            *self.sent.entry((end, id)).or_default() += 1;
            if !self.cut.contains(&(end, id)) {
                self.under_way.push_back((self.now.after(1), 1 - end, id, pdu));
            }
        }
    }

    fn up(&mut self, id: u32, on: bool) {
        for end in [0, 1] {
            self.act(end, |lag, now, out| lag.enable(now, id, on, out));
        }
    }

    /// Lets time pass, in steps to whatever comes next.
    fn pass(&mut self, ms: u64) {
        let end = self.now.after(ms);
        for steps in 0.. {
            assert!(steps < 100_000, "the machines do not come to rest");
            let next =
                self.ends.iter().filter_map(Lag::deadline).chain(self.under_way.front().map(|f| f.0)).min();
            let Some(next) = next.filter(|t| *t <= end) else { break };
            self.now = self.now.max(next);
            if let Some((_, to, id, pdu)) = self.under_way.front().copied().filter(|f| f.0 <= self.now) {
                self.under_way.pop_front();
                // As read from the wire.
                let Some(Frame::Lacp(read)) = Frame::parse(&pdu.emit()) else { panic!("{pdu:?}") };
                assert_eq!(read, pdu);
                self.act(to, |lag, now, out| lag.receive(now, id, &read, out));
            } else {
                for e in [0, 1] {
                    self.act(e, |lag, now, out| lag.tick(now, out));
                }
            }
        }
        self.now = end;
    }

    fn distributing(&self, end: usize) -> Vec<u32> {
        self.ends[end].ports().filter(|(_, p)| p.distributes()).map(|(id, _)| id).collect()
    }
}

#[test]
fn links_come_together_and_part() {
    let mut w = Wires::new(3, |_, id| config(id as u16 + 1));
    (0..3).for_each(|id| w.up(id, true));
    w.pass(AGGREGATE_WAIT - 10);
    assert!(w.distributing(0).is_empty(), "they wait for each other");
    // Each end may speak three times a second.
    w.pass(FAST + 100);
    assert_eq!((w.distributing(0), w.distributing(1)), (vec![0, 1, 2], vec![0, 1, 2]));
    // One is cut in one direction: who does not hear says so, and the other end stops at once.
    w.cut.insert((1, 1));
    w.pass(SHORT_TIMEOUT + 100);
    assert_eq!((w.distributing(0), w.distributing(1)), (vec![0, 2], vec![0, 2]));
    assert_eq!(w.ends[0].port(1).unwrap().rx, Rx::Expired);
    w.pass(SHORT_TIMEOUT);
    assert_eq!(w.ends[0].port(1).unwrap().rx, Rx::Defaulted);
    assert_eq!(w.ends[0].port(1).unwrap().mux, Mux::Detached);
    w.cut.clear();
    w.pass(2 * FAST + AGGREGATE_WAIT);
    assert_eq!((w.distributing(0), w.distributing(1)), (vec![0, 1, 2], vec![0, 1, 2]));
    // A link that only goes down for a moment does not wait again.
    w.up(2, false);
    assert_eq!(w.distributing(0), [0, 1]);
    w.up(2, true);
    w.pass(100);
    assert_eq!((w.distributing(0), w.distributing(1)), (vec![0, 1, 2], vec![0, 1, 2]));
    // At rest each end speaks once a second and link.
    let before = w.sent.clone();
    w.pass(10 * FAST);
    assert!(w.sent.iter().all(|(k, n)| (9..=11).contains(&(n - before[k]))), "{before:?} {:?}", w.sent);
}

#[test]
fn long_timeouts_are_long() {
    let long = |end: usize, id| PortConfig { long_timeout: true, ..config(id as u16 + 1 + 10 * end as u16) };
    let mut w = Wires::new(1, long);
    w.up(0, true);
    w.pass(5 * FAST);
    assert_eq!(w.distributing(0), [0]);
    let before = w.sent[&(0, 0)];
    w.pass(10 * SLOW);
    assert!((9..=11).contains(&(w.sent[&(0, 0)] - before)));
    w.cut.insert((1, 0));
    w.pass(LONG_TIMEOUT - SLOW - 1000);
    assert_eq!(w.distributing(0), [0]);
    w.pass(SLOW + 2000);
    assert!(w.distributing(0).is_empty() && w.distributing(1).is_empty());
}

#[test]
fn two_that_wait_to_be_spoken_to_stay_silent() {
    let passive = |_, id| PortConfig { passive: true, ..config(id as u16 + 1) };
    let mut w = Wires::new(1, passive);
    w.up(0, true);
    w.pass(100 * FAST);
    assert!(w.sent.is_empty() && w.distributing(0).is_empty());
    let mut w = Wires::new(1, |end, id| PortConfig { passive: end == 0, ..config(id as u16 + 1) });
    w.up(0, true);
    w.pass(5 * FAST);
    assert_eq!((w.distributing(0), w.distributing(1)), (vec![0], vec![0]));
}

/// A partner as somebody writes it down who reads the standard.
fn partner(key: u16, port: u16, bits: u8) -> Info {
    Info { system_priority: 1, system: B, key, port_priority: 2, port, state: bits }
}

/// The router's end with links that are up, of which a test plays the other.
fn alone(links: u32) -> (Lag, Millis) {
    let (mut lag, now) = (Lag::new(A, 1), Millis(10_000));
    for id in 0..links {
        lag.add(id, config(id as u16 + 1));
        lag.enable(now, id, true, &mut vec![]);
    }
    (lag, now)
}

fn hears(lag: &mut Lag, now: Millis, id: u32, actor: Info) -> Vec<Pdu> {
    let known = lag.port(id).unwrap().actor;
    let mut out = vec![];
    lag.receive(now, id, &Pdu { actor, partner: known }, &mut out);
    out.into_iter().map(|(_, pdu)| pdu).collect()
}

const IN_STEP: u8 = ACTIVITY | TIMEOUT | AGGREGATION | SYNCHRONIZATION;
const TAKES: u8 = IN_STEP | COLLECTING;

#[test]
fn states_are_those_of_the_standard() {
    let (mut lag, now) = alone(1);
    let p = |lag: &Lag| lag.port(0).unwrap().clone();
    assert_eq!((p(&lag).rx, p(&lag).mux), (Rx::Expired, Mux::Detached));
    assert_eq!(p(&lag).actor.state, ACTIVITY | TIMEOUT | AGGREGATION | DEFAULTED | EXPIRED);
    let mut out = vec![];
    lag.tick(now.after(SHORT_TIMEOUT), &mut out);
    assert_eq!(
        (p(&lag).rx, p(&lag).actor.state),
        (Rx::Defaulted, ACTIVITY | TIMEOUT | AGGREGATION | DEFAULTED)
    );
    let now = now.after(SHORT_TIMEOUT);
    // Out of step: the link waits, and is put together with none.
    let out = hears(&mut lag, now, 0, partner(5, 7, IN_STEP & !SYNCHRONIZATION));
    assert_eq!((p(&lag).rx, p(&lag).mux), (Rx::Current, Mux::Waiting));
    assert_eq!(out.len(), 1, "asked to speak every second, it begins at once");
    assert_eq!(
        hears(&mut lag, now, 0, partner(5, 7, IN_STEP & !SYNCHRONIZATION)),
        [],
        "what it knows is right"
    );
    let mut out = vec![];
    let now = now.after(AGGREGATE_WAIT);
    lag.tick(now, &mut out);
    assert_eq!(p(&lag).mux, Mux::Attached);
    assert_eq!(out.last().unwrap().1.actor.state, ACTIVITY | TIMEOUT | AGGREGATION | SYNCHRONIZATION);
    hears(&mut lag, now, 0, partner(5, 7, IN_STEP));
    assert_eq!(p(&lag).mux, Mux::Collecting);
    assert!(p(&lag).collects() && !p(&lag).distributes());
    hears(&mut lag, now, 0, partner(5, 7, TAKES));
    assert_eq!((p(&lag).mux, p(&lag).actor.state), (Mux::Distributing, TAKES | DISTRIBUTING));
    hears(&mut lag, now, 0, partner(5, 7, IN_STEP));
    assert_eq!(p(&lag).mux, Mux::Collecting);
    hears(&mut lag, now, 0, partner(5, 7, IN_STEP & !SYNCHRONIZATION));
    assert_eq!(p(&lag).mux, Mux::Attached);
    // It has another key: it leaves before it waits again.
    hears(&mut lag, now, 0, partner(6, 7, TAKES));
    assert_eq!((p(&lag).mux, p(&lag).actor.state), (Mux::Waiting, ACTIVITY | TIMEOUT | AGGREGATION));
}

#[test]
fn who_knows_another_link_is_not_in_step() {
    let (mut lag, now) = alone(1);
    let other = Info { port: 99, ..lag.port(0).unwrap().actor };
    let mut out = vec![];
    lag.receive(now, 0, &Pdu { actor: partner(5, 7, TAKES), partner: other }, &mut out);
    assert!(!lag.port(0).unwrap().partner.is(SYNCHRONIZATION));
    assert_eq!(out.len(), 1, "it is told");
    // One that puts no links together need not know.
    lag.receive(now, 0, &Pdu { actor: partner(5, 7, TAKES & !AGGREGATION), partner: other }, &mut out);
    assert!(lag.port(0).unwrap().partner.is(SYNCHRONIZATION));
}

#[test]
fn links_to_others_stay_out() {
    let (mut lag, mut now) = alone(4);
    let bring = |lag: &mut Lag, now: &mut Millis, of: &[(u32, Info)]| {
        for _ in 0..5 {
            of.iter().for_each(|(id, info)| drop(hears(lag, *now, *id, *info)));
            *now = now.after(FAST);
            lag.tick(*now, &mut vec![]);
        }
        lag.ports().filter(|(_, p)| p.distributes()).map(|(id, _)| id).collect::<Vec<_>>()
    };
    let odd = Info { system: MacAddr([2, 0, 0, 0, 0, 1]), ..partner(5, 1, TAKES) };
    let all = [(0, odd), (1, partner(5, 2, TAKES)), (2, partner(5, 3, TAKES)), (3, partner(6, 4, TAKES))];
    // Whoever comes first stays, so that nobody takes the bond over who comes later.
    assert_eq!(bring(&mut lag, &mut now, &all), [0]);
    lag.enable(now, 0, false, &mut vec![]);
    assert_eq!(bring(&mut lag, &mut now, &all[1..]), [1, 2], "then most of them");
    lag.enable(now, 0, true, &mut vec![]);
    assert_eq!(bring(&mut lag, &mut now, &all), [1, 2]);
    // A link that leads back is none.
    let own = Info { system: A, ..partner(5, 9, TAKES) };
    let mut looped = alone(1);
    assert_eq!(bring(&mut looped.0, &mut looped.1, &[(0, own)]), [0; 0]);
    // Of one that puts none together one is taken.
    let single = |port| partner(5, port, TAKES & !AGGREGATION);
    let (mut lag, mut now) = alone(2);
    assert_eq!(bring(&mut lag, &mut now, &[(0, single(1)), (1, single(2))]), [0]);
}

#[test]
fn nobody_is_answered_more_than_the_standard_lets() {
    let (mut lag, now) = alone(1);
    let (mut out, mut taken) = (vec![], 0);
    for n in 0..10_000u32 {
        let now = now.after(u64::from(n / 10));
        let odd = Pdu { actor: partner(n as u16, n as u16, n as u8), partner: Info::default() };
        lag.receive(now, 0, &odd, &mut out);
        taken = lag.port(0).unwrap().counts.received;
    }
    // A second of a flood.
    assert!(out.len() <= 2 * port::MOST_SENT, "{}", out.len());
    assert!(taken <= u64::from(2 * MOST_TAKEN), "{taken}");
    assert_eq!(lag.port(0).unwrap().counts.ignored, 10_000 - taken);
    assert!(!lag.marker(now.after(999), 0));
    assert!(lag.marker(now.after(5000), 0));
}

/// What happens to two ends in the property below.
#[derive(Clone, Debug)]
enum Event {
    Up(u32, bool),
    Cut(usize, u32, bool),
    Pass(u64),
    Odd(usize, u32, Info, Info),
    System(u8),
}

fn info() -> impl Strategy<Value = Info> {
    let of = (any::<u8>(), 0u16..3, 0u16..3, 0u8..3);
    of.prop_map(|(state, key, port, system)| Info {
        system_priority: 0xffff,
        system: [A, B, MacAddr::ZERO][usize::from(system)],
        key,
        port_priority: 0xff,
        port,
        state,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0u32..3, any::<bool>()).prop_map(|(id, on)| Event::Up(id, on)),
        (0usize..2, 0u32..3, any::<bool>()).prop_map(|(e, id, on)| Event::Cut(e, id, on)),
        (0u64..8000).prop_map(Event::Pass),
        (0usize..2, 0u32..3, info(), info()).prop_map(|(e, id, a, p)| Event::Odd(e, id, a, p)),
        (0u8..3).prop_map(Event::System),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    /// Whatever happened: links that are whole come together in the end, and a link over which one end sends is one on which the
    /// other takes frames.
    #[test]
    fn ends_agree(events in prop::collection::vec(event(), 0..40), long: bool) {
        let mut w = Wires::new(3, |_, id| PortConfig { long_timeout: long, ..config(id as u16 + 1) });
        for e in events {
            match e {
                Event::Up(id, on) => w.up(id, on),
                Event::Cut(end, id, true) => _ = w.cut.insert((end, id)),
                Event::Cut(end, id, false) => _ = w.cut.remove(&(end, id)),
                Event::Pass(ms) => w.pass(ms),
                Event::Odd(end, id, actor, partner) => {
                    w.act(end, |lag, now, out| lag.receive(now, id, &Pdu { actor, partner }, out));
                }
                Event::System(n) => {
                    w.act(0, |lag, now, out| lag.set_system(now, MacAddr([2, 0, 0, 1, 0, n]), out));
                }
            }
            for lag in &w.ends {
                for (_, p) in lag.ports() {
                    prop_assert!(!p.distributes() || p.collects() && p.enabled && p.partner.is(TAKES & !TIMEOUT & !ACTIVITY & !AGGREGATION));
                    prop_assert_eq!(p.actor.is(SYNCHRONIZATION), p.mux >= Mux::Attached);
                    prop_assert!(!p.enabled || p.rx != Rx::PortDisabled);
                }
            }
        }
        let whole: Vec<u32> = (0..3).filter(|id| w.ends[0].port(*id).unwrap().enabled).collect();
        let whole: Vec<u32> = whole.into_iter().filter(|id| [0, 1].iter().all(|e| !w.cut.contains(&(*e, *id)))).collect();
        w.pass(2 * LONG_TIMEOUT);
        prop_assert_eq!(w.distributing(0), &whole[..]);
        prop_assert_eq!(w.distributing(1), &whole[..]);
    }
}
