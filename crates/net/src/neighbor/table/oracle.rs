//! The table against a naive model of RFC 4861 that scans everything, and its invariants under limits.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const IFS: u32 = 2;

#[derive(Clone, Copy, Debug)]
enum Event {
    Want(Key),
    Heard(Key, Option<MacAddr>, Heard),
    Used(Key),
    AddStatic(Key, MacAddr),
    Delete(Key),
    Flush(u32),
    Down(u32),
    Up(u32),
    Pass(u64),
}

fn host(n: u8) -> IpAddr {
    if n.is_multiple_of(2) {
        Ipv4Addr::new(10, 0, 0, n + 1).into()
    } else {
        Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(n)).into()
    }
}

fn key(hosts: u8) -> impl Strategy<Value = Key> {
    (0..IFS, 0..hosts).prop_map(|(interface, n)| (interface, host(n)))
}

fn mac() -> impl Strategy<Value = MacAddr> {
    (1u8..4).prop_map(|n| MacAddr([2, 0, 0, 0, 0, n]))
}

/// A message that the family of the address can have.
fn heard(hosts: u8) -> impl Strategy<Value = Event> {
    (key(hosts), mac(), 0u8..9, any::<bool>()).prop_map(|((i, addr), mac, kind, flag)| {
        let (mac, what) = match (addr.is_ipv4(), kind) {
            (true, 0..4) => (Some(mac), Heard::ArpRequest { for_us: flag }),
            (true, _) => (Some(mac), Heard::ArpReply { solicited: flag }),
            (false, 0..3) => (Some(mac), Heard::NsWithSource),
            (false, n) => {
                let na = Heard::Na { solicited: flag, override_: n & 1 == 1, router: n & 2 == 2 };
                ((n < 7).then_some(mac), na)
            }
        };
        Event::Heard((i, addr), mac, what)
    })
}

fn event(hosts: u8) -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => key(hosts).prop_map(Event::Want),
        6 => heard(hosts),
        5 => key(hosts).prop_map(Event::Used),
        1 => (key(hosts), mac()).prop_map(|(k, m)| Event::AddStatic(k, m)),
        1 => key(hosts).prop_map(Event::Delete),
        1 => (0..IFS * 8).prop_map(|n| if n < IFS { Event::Flush(n) } else { Event::Pass(10) }),
        1 => (0..IFS * 4).prop_map(|n| if n < IFS { Event::Down(n) } else { Event::Up(n % IFS) }),
        6 => prop_oneof![0u64..1500, 0u64..10_000, 0u64..60_000, Just(1_200_000)].prop_map(Event::Pass),
    ]
}

fn apply(t: &mut NeighborTable, now: Millis, event: Event, out: &mut Vec<Action>) {
    match event {
        Event::Want((i, a)) => t.resolve_wanted(now, i, a, out),
        Event::Heard((i, a), mac, what) => t.heard(now, i, a, mac, what, out),
        Event::Used((i, a)) => t.used(now, i, a, out),
        Event::AddStatic((i, a), mac) => t.add_static(now, i, a, mac, out).unwrap_or_default(),
        Event::Delete((i, a)) => {
            t.delete(i, a, out);
        }
        Event::Flush(i) => t.flush(i, out),
        Event::Down(i) => t.interface_down(i, out),
        Event::Up(i) => t.interface_up(i, out),
        Event::Pass(_) => t.tick(now, out),
    }
}

/// State, MAC, router flag, time of the next step, attempts, failures, start of the state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Row(State, Option<MacAddr>, bool, u64, u8, u8, u64);

#[derive(Default)]
struct Model {
    rows: HashMap<Key, Row>,
    down: HashSet<u32>,
    out: Vec<String>,
}

impl Model {
    fn hold(failures: u8) -> u64 {
        (1..failures).fold(3_000, |hold, _| (hold * 2).min(60_000))
    }

    fn solicit(&mut self, k: Key, mac: Option<MacAddr>, attempt: u8) {
        let (interface, target) = k;
        self.out.push(format!("{:?}", Action::Solicit { interface, target, unicast: mac, attempt }));
    }

    fn tell_failed(&mut self, (interface, addr): Key) {
        self.out.push(format!("{:?}", Action::Failed { interface, addr }));
    }

    /// What workers see of a row.
    fn tell(&mut self, k: Key, old: Option<Row>, new: Option<Row>) {
        let (interface, addr) = k;
        let (was, is) = (old.and_then(|r| r.1), new.and_then(|r| r.1));
        if let Some(mac) = is.filter(|_| was != is && !self.down.contains(&k.0)) {
            self.out.push(format!("{:?}", Action::Publish { interface, addr, mac }));
        } else if was.is_some() && is.is_none() && !self.down.contains(&k.0) {
            self.out.push(format!("{:?}", Action::Withdraw { interface, addr }));
        }
        let waiting = |r: Option<Row>| r.is_some_and(|r| r.0 == State::Incomplete);
        if waiting(old) && !waiting(new) && is.is_none() {
            self.tell_failed(k);
        }
    }

    fn put(&mut self, k: Key, new: Option<Row>) {
        let old = self.rows.remove(&k);
        self.rows.extend(new.map(|row| (k, row)));
        self.tell(k, old, new);
    }

    fn stale(now: u64, mac: MacAddr, router: bool) -> Option<Row> {
        Some(Row(State::Stale, Some(mac), router, now + 1_200_000, 0, 0, now))
    }

    fn step(&mut self, now: u64, event: Event) {
        use State::*;
        match event {
            Event::Want(k) => match self.rows.get(&k).copied() {
                _ if self.down.contains(&k.0) => self.tell_failed(k),
                Some(Row(_, Some(mac), ..)) => {
                    self.step(now, Event::Used(k));
                    self.out.push(format!("{:?}", Action::Publish { interface: k.0, addr: k.1, mac }));
                }
                Some(Row(Incomplete, ..)) => {}
                Some(Row(Failed, .., n, since)) if now < since + Self::hold(n) => self.tell_failed(k),
                row => {
                    self.solicit(k, None, 1);
                    let failures = row.map_or(0, |r| r.5);
                    self.put(k, Some(Row(Incomplete, None, false, now + 1000, 1, failures, now)));
                }
            },
            Event::Heard(k, ..) if self.down.contains(&k.0) => {}
            Event::Heard(k, mac, what) => {
                let old = self.rows.get(&k).copied().filter(|r| r.0 != Failed);
                let creates = matches!(what, Heard::NsWithSource | Heard::ArpRequest { for_us: true });
                let Some(row) = old else {
                    return self.put(k, mac.filter(|_| creates).and_then(|m| Self::stale(now, m, false)));
                };
                let (solicited, over, router) = match what {
                    Heard::Na { solicited, override_, router } => (solicited, override_, router),
                    Heard::ArpReply { solicited } => (solicited, true, row.2),
                    _ => (false, true, row.2),
                };
                let differs = mac.is_some() && mac != row.1;
                let new = match row {
                    Row(Static, ..) => row,
                    Row(Incomplete, ..) if mac.is_none() => row,
                    Row(Reachable, m, r, ..) if differs && !over => Self::stale(now, m.unwrap(), r).unwrap(),
                    Row(state, ..) if differs && !over && state != Incomplete => row,
                    _ if solicited => Row(Reachable, mac.or(row.1), router, now + 30_000, 0, 0, now),
                    _ if differs => Self::stale(now, mac.unwrap(), router).unwrap(),
                    Row(Stale, m, _, _, a, f, since) => Row(Stale, m, router, now + 1_200_000, a, f, since),
                    Row(s, m, _, at, a, f, since) => Row(s, m, router, at, a, f, since),
                };
                self.put(k, Some(new));
            }
            Event::Used(k) => {
                if let Some(row) = self.rows.get_mut(&k).filter(|r| r.0 == Stale) {
                    *row = Row(Delay, row.1, row.2, now + 5_000, 0, row.5, now);
                }
            }
            Event::AddStatic(k, mac) => self.put(k, Some(Row(Static, Some(mac), false, u64::MAX, 0, 0, now))),
            Event::Delete(k) => self.put(k, None),
            Event::Flush(i) | Event::Down(i) => {
                let keys: Vec<Key> = self.rows.keys().copied().filter(|k| k.0 == i).collect();
                let gone = |r: &Row| r.0 != Static;
                for k in keys {
                    if gone(&self.rows[&k]) {
                        self.put(k, None);
                    } else if matches!(event, Event::Down(_)) && !self.down.contains(&i) {
                        let old = self.rows[&k];
                        self.tell(k, Some(old), None);
                    }
                }
                if matches!(event, Event::Down(_)) {
                    self.down.insert(i);
                }
            }
            Event::Up(i) => {
                if self.down.remove(&i) {
                    let rows: Vec<(Key, Row)> =
                        self.rows.iter().map(|(k, r)| (*k, *r)).filter(|(k, _)| k.0 == i).collect();
                    for (k, row) in rows {
                        self.tell(k, None, Some(row));
                    }
                }
            }
            Event::Pass(_) => {
                let due: Vec<(Key, Row)> =
                    self.rows.iter().map(|(k, r)| (*k, *r)).filter(|(_, r)| r.3 <= now).collect();
                for (k, Row(state, mac, router, _, attempts, failures, since)) in due {
                    let new = match state {
                        Incomplete | Probe if attempts < 3 => {
                            self.solicit(k, mac, attempts + 1);
                            Some(Row(state, mac, router, now + 1000, attempts + 1, failures, since))
                        }
                        Incomplete => {
                            let n = failures + 1;
                            Some(Row(Failed, None, router, now + 2 * Self::hold(n), 0, n, now))
                        }
                        Reachable => Self::stale(now, mac.unwrap(), router),
                        Delay => {
                            self.solicit(k, mac, 1);
                            Some(Row(Probe, mac, router, now + 1000, 1, 0, now))
                        }
                        _ => None,
                    };
                    self.put(k, new);
                }
            }
        }
    }
}

/// What workers see, checked at each action.
#[derive(Default)]
struct Workers {
    published: HashMap<Key, MacAddr>,
    waiting: HashSet<Key>,
}

impl Workers {
    fn take(&mut self, action: Action, max: u8) {
        match action {
            Action::Publish { interface, addr, mac } => {
                self.published.insert((interface, addr), mac);
                self.waiting.remove(&(interface, addr));
            }
            Action::Withdraw { interface, addr } => {
                assert!(self.published.remove(&(interface, addr)).is_some(), "withdrawn but not published");
            }
            Action::Failed { interface, addr } => {
                assert!(!self.published.contains_key(&(interface, addr)), "failed but published");
                self.waiting.remove(&(interface, addr));
            }
            Action::Solicit { interface, target, unicast, attempt } => {
                assert!((1..=max).contains(&attempt));
                assert_eq!(self.published.get(&(interface, target)), unicast.as_ref());
            }
            Action::Log(_) => {}
        }
    }

    fn agree(&self, t: &NeighborTable) {
        let known = t.iter().filter(|n| t.is_up(n.interface));
        let known: HashMap<Key, MacAddr> =
            known.filter_map(|n| Some(((n.interface, n.addr), n.mac?))).collect();
        assert_eq!(self.published, known);
        let asked =
            t.iter().filter(|n| n.state == State::Incomplete).map(|n| (n.interface, n.addr)).collect();
        assert!(self.waiting.is_subset(&asked), "packets wait for nothing: {:?} {asked:?}", self.waiting);
    }
}

/// The indexes say what the entries say, and each entry that must move on has its timer.
fn consistent(t: &NeighborTable) {
    let timers: BTreeSet<(Millis, Key)> =
        t.entries.iter().filter_map(|(k, e)| Some((e.deadline?, *k))).collect();
    assert_eq!(timers, t.timers);
    for (key, e) in &t.entries {
        assert_eq!(e.deadline.is_none(), e.state == State::Static, "{key:?} {e:?}");
    }
    let mut sizes = BTreeSet::new();
    for interface in t.links.keys() {
        let count = t.range(*interface).count();
        sizes.extend((count > 0).then_some((count, *interface)));
        assert!(count <= t.config.max_per_interface);
        let incomplete = t.range(*interface).filter(|(_, e)| e.state == State::Incomplete).count();
        assert!(incomplete <= t.config.max_incomplete);
    }
    assert_eq!(sizes, t.by_size);
    assert!(t.len() <= t.config.max_entries);
}

fn up(config: NeighborConfig) -> NeighborTable {
    let mut t = NeighborTable::new(config, 3);
    (0..IFS).for_each(|i| t.interface_up(i, &mut Vec::new()));
    t
}

fn row(t: &NeighborTable, k: Key, e: &Entry) -> (Key, Row) {
    let n = t.get(k.0, k.1).unwrap();
    let at = e.deadline.map_or(u64::MAX, |at| at.0);
    (k, Row(n.state, n.mac, n.router, at, n.attempts, n.failures, n.since.0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn equals_the_model(events in proptest::collection::vec(event(4), 1..150)) {
        let config = NeighborConfig { reachable_spread: 0, ..Default::default() };
        let mut t = up(config);
        let mut model = Model::default();
        let mut now = 1_000_000;
        for event in events {
            let mut out = Vec::new();
            if let Event::Pass(ms) = event {
                let end = now + ms;
                // Every deadline in order, as the caller's timer would.
                while let Some(at) = model.rows.values().map(|r| r.3).min().filter(|at| *at <= end) {
                    prop_assert_eq!(t.next_deadline(), Some(Millis(at)));
                    t.tick(Millis(at), &mut out);
                    model.step(at, event);
                }
                now = end;
            } else {
                apply(&mut t, Millis(now), event, &mut out);
                model.step(now, event);
            }
            let mut got: Vec<String> = out.iter().filter(|a| !matches!(a, Action::Log(_))).map(|a| format!("{a:?}")).collect();
            let mut wanted = std::mem::take(&mut model.out);
            got.sort();
            wanted.sort();
            prop_assert_eq!(got, wanted, "{:?}", event);
            let rows: HashMap<Key, Row> = t.entries.iter().map(|(k, e)| row(&t, *k, e)).collect();
            prop_assert_eq!(&rows, &model.rows, "{:?}", event);
        }
    }

    #[test]
    fn holds_its_limits(
        events in proptest::collection::vec(event(60), 1..300),
        max_entries in 1usize..30,
        max_per_interface in 1usize..30,
        max_incomplete in 0usize..8,
        rate in 1u32..5,
    ) {
        let config = NeighborConfig {
            max_entries, max_per_interface, max_incomplete,
            solicit_rate: rate, solicit_burst: 2, probe_rate: 10 * rate, stale_protect: 5_000,
            ..Default::default()
        };
        let mut t = up(config);
        let mut workers = Workers::default();
        let mut sent: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut now = Millis(1_000_000);
        let mut run = |t: &mut NeighborTable, now: Millis, event: Event| {
            let mut out = Vec::new();
            if let Event::Want(k) = event {
                workers.waiting.insert(k);
            }
            apply(t, now, event, &mut out);
            for action in out {
                workers.take(action, 3);
                if let Action::Solicit { interface, unicast: None, .. } = action {
                    sent.entry(interface).or_default().push(now.0);
                }
            }
            workers.agree(t);
            consistent(t);
            workers.waiting.len()
        };
        for event in events {
            if let Event::Pass(ms) = event {
                let end = now.after(ms);
                // A timer may be late: half of the steps skip deadlines.
                while let Some(at) = t.next_deadline().filter(|at| *at <= end && ms % 2 == 0) {
                    now = now.max(at);
                    run(&mut t, now, event);
                    prop_assert!(t.next_deadline().is_none_or(|next| next > now));
                }
                now = end;
            }
            run(&mut t, now, event);
        }
        // Whatever still waits is answered, by the timer alone.
        let end = now.after(120_000);
        let mut waiting = 0;
        while let Some(at) = t.next_deadline().filter(|at| *at <= end) {
            now = now.max(at);
            waiting = run(&mut t, now, Event::Pass(0));
        }
        prop_assert_eq!(waiting, 0);
        for times in sent.values() {
            // In any window: the burst, and the rate times its length.
            for (n, from) in times.iter().enumerate() {
                for (m, to) in times.iter().enumerate().skip(n) {
                    let most = 3 + u64::from(rate) * (to - from) / 1000;
                    let late = t.config.max_incomplete as u64;
                    prop_assert!((m - n) as u64 <= most + late, "{} in {} ms", m - n + 1, to - from);
                }
            }
        }
    }
}
