//! One case per transition of RFC 4861 and RFC 826, then the events of operators and interfaces.

use super::*;

const IF: u32 = 7;
const M1: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const M2: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn v4() -> IpAddr {
    "10.0.0.2".parse().unwrap()
}

fn v6() -> IpAddr {
    "fe80::2".parse().unwrap()
}

fn config() -> NeighborConfig {
    NeighborConfig { reachable_spread: 0, ..NeighborConfig::default() }
}

fn na(solicited: bool, override_: bool, router: bool) -> Heard {
    Heard::Na { solicited, override_, router }
}

const REQUEST: Heard = Heard::ArpRequest { for_us: true };
const OTHER_REQUEST: Heard = Heard::ArpRequest { for_us: false };
const REPLY: Heard = Heard::ArpReply { solicited: true };
const GRATUITOUS: Heard = Heard::ArpReply { solicited: false };

/// A table with interface `IF` up; each call returns the actions without log lines.
struct Bench {
    table: NeighborTable,
    now: Millis,
}

impl Bench {
    fn new(config: NeighborConfig) -> Self {
        let mut table = NeighborTable::new(config, 1);
        table.interface_up(IF, &mut Vec::new());
        Self { table, now: Millis(1_000_000) }
    }

    fn run(&mut self, f: impl FnOnce(&mut NeighborTable, Millis, &mut Vec<Action>)) -> Vec<Action> {
        let mut out = Vec::new();
        f(&mut self.table, self.now, &mut out);
        out.retain(|a| !matches!(a, Action::Log(_)));
        out
    }

    fn want(&mut self, addr: IpAddr) -> Vec<Action> {
        self.run(|t, now, out| t.resolve_wanted(now, IF, addr, out))
    }

    fn hear(&mut self, addr: IpAddr, mac: Option<MacAddr>, what: Heard) -> Vec<Action> {
        self.run(|t, now, out| t.heard(now, IF, addr, mac, what, out))
    }

    fn used(&mut self, addr: IpAddr) {
        assert_eq!(self.run(|t, now, out| t.used(now, IF, addr, out)), []);
    }

    /// Lets `ms` pass, ticking whenever the table asks for it.
    fn pass(&mut self, ms: u64) -> Vec<Action> {
        let end = self.now.after(ms);
        let mut all = Vec::new();
        while let Some(at) = self.table.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            all.extend(self.run(|t, now, out| t.tick(now, out)));
        }
        self.now = end;
        all
    }

    fn state(&self, addr: IpAddr) -> Option<State> {
        self.table.get(IF, addr).map(|n| n.state)
    }

    fn mac(&self, addr: IpAddr) -> Option<MacAddr> {
        self.table.get(IF, addr).unwrap().mac
    }

    /// Brings `addr` at `M1` into a state.
    fn prepare(addr: IpAddr, state: State) -> Self {
        let mut b = Self::new(config());
        let confirm = if addr.is_ipv4() { REPLY } else { na(true, true, false) };
        if state == State::Static {
            b.run(|t, now, out| t.add_static(now, IF, addr, M1, out).unwrap());
        } else {
            b.want(addr);
        }
        match state {
            State::Incomplete | State::Static => {}
            State::Failed => {
                b.pass(3_000);
            }
            _ => {
                b.hear(addr, Some(M1), confirm);
                if state != State::Reachable {
                    b.pass(30_000);
                }
                if matches!(state, State::Delay | State::Probe) {
                    b.used(addr);
                }
                if state == State::Probe {
                    b.pass(5_000);
                }
            }
        }
        assert_eq!(b.state(addr), Some(state));
        b
    }
}

fn solicit(target: IpAddr, unicast: Option<MacAddr>, attempt: u8) -> Action {
    Action::Solicit { interface: IF, target, unicast, attempt }
}

fn publish(addr: IpAddr, mac: MacAddr) -> Action {
    Action::Publish { interface: IF, addr, mac }
}

fn withdraw(addr: IpAddr) -> Action {
    Action::Withdraw { interface: IF, addr }
}

fn failed(addr: IpAddr) -> Action {
    Action::Failed { interface: IF, addr }
}

#[test]
fn three_solicits_a_second_apart_then_failed() {
    for a in [v4(), v6()] {
        let mut b = Bench::new(config());
        assert_eq!(b.want(a), [solicit(a, None, 1)]);
        assert_eq!(b.want(a), [], "resolution is under way");
        assert_eq!(b.pass(999), []);
        assert_eq!(b.pass(1), [solicit(a, None, 2)]);
        assert_eq!(b.pass(1_000), [solicit(a, None, 3)]);
        assert_eq!(b.pass(999), []);
        assert_eq!(b.pass(1), [failed(a)]);
        assert_eq!(b.state(a), Some(State::Failed));
    }
}

#[test]
fn failures_are_remembered_and_hold_longer_each_time() {
    let a = v6();
    let mut b = Bench::prepare(a, State::Failed);
    for hold in [3_000, 6_000, 12_000, 24_000, 48_000, 60_000, 60_000] {
        b.pass(hold - 1);
        assert_eq!(b.want(a), [failed(a)], "within the hold of {hold}");
        b.pass(1);
        assert_eq!(b.want(a), [solicit(a, None, 1)], "after the hold of {hold}");
        assert_eq!(b.pass(3_000).last(), Some(&failed(a)));
    }
    // The memory ends one more hold later.
    b.pass(119_999);
    assert_eq!(b.state(a), Some(State::Failed));
    b.pass(1);
    assert_eq!(b.state(a), None);
}

#[test]
fn news_end_the_negative_answer() {
    // RFC 4861, 7.2.5: without an entry an advertisement creates none; but then the host is there.
    for (a, what) in [(v6(), na(false, true, false)), (v4(), GRATUITOUS), (v4(), REPLY)] {
        let mut b = Bench::prepare(a, State::Failed);
        assert_eq!(b.hear(a, Some(M1), what), []);
        assert_eq!(b.state(a), None);
        assert_eq!(b.want(a), [solicit(a, None, 1)]);
    }
    for (a, what) in [(v6(), Heard::NsWithSource), (v4(), REQUEST)] {
        let mut b = Bench::prepare(a, State::Failed);
        assert_eq!(b.hear(a, Some(M1), what), [publish(a, M1)]);
        assert_eq!(b.state(a), Some(State::Stale));
    }
}

#[test]
fn who_creates() {
    for (a, mac, what, created) in [
        (v6(), Some(M1), Heard::NsWithSource, true),
        (v6(), None, Heard::NsWithSource, false),
        (v6(), Some(M1), na(true, true, true), false),
        (v6(), Some(M1), na(false, true, true), false),
        (v4(), Some(M1), REQUEST, true),
        (v4(), Some(M1), OTHER_REQUEST, false),
        (v4(), Some(M1), REPLY, false),
        (v4(), Some(M1), GRATUITOUS, false),
        (v4(), Some(MacAddr::BROADCAST), REQUEST, false),
        (v4(), Some(MacAddr::ZERO), REQUEST, false),
        ("224.0.0.5".parse().unwrap(), Some(M1), REQUEST, false),
        ("0.0.0.0".parse().unwrap(), Some(M1), REQUEST, false),
        ("::".parse().unwrap(), Some(M1), Heard::NsWithSource, false),
    ] {
        let mut b = Bench::new(config());
        let expected: &[Action] = if created { &[publish(a, M1)] } else { &[] };
        assert_eq!(b.hear(a, mac, what), expected, "{a} {what:?}");
        assert_eq!(b.state(a), created.then_some(State::Stale), "{a} {what:?}");
    }
    let mut b = Bench::new(NeighborConfig { learn_gratuitous: true, ..config() });
    assert_eq!(b.hear(v4(), Some(M1), GRATUITOUS), [publish(v4(), M1)]);
    assert_eq!(b.hear(v6(), Some(M1), na(false, true, false)), []);
}

/// RFC 4861, appendix C, and the same for ARP: state, message, MAC in it, then state and MAC.
#[test]
fn messages_in_each_state() {
    use State::*;
    let known = [Reachable, Stale, Delay, Probe];
    let check = |a: IpAddr, from: State, mac: Option<MacAddr>, what: Heard, to: State, to_mac| {
        let mut b = Bench::prepare(a, from);
        let before = b.mac(a);
        let out = b.hear(a, mac, what);
        let case = format!("{a} {from} {what:?} {mac:?}");
        assert_eq!((b.state(a), b.mac(a)), (Some(to), to_mac), "{case}");
        let expected: Vec<Action> =
            to_mac.filter(|_| before != to_mac).map(|m| publish(a, m)).into_iter().collect();
        assert_eq!(out, expected, "{case}");
    };
    let (a, b) = (v6(), v4());
    for over in [false, true] {
        check(a, Incomplete, Some(M1), na(false, over, false), Stale, Some(M1));
        check(a, Incomplete, Some(M1), na(true, over, false), Reachable, Some(M1));
        check(a, Incomplete, None, na(true, over, false), Incomplete, None);
    }
    for from in known {
        // Solicited, O=0: the same address or none confirms; another one makes REACHABLE stale and is not taken.
        for mac in [None, Some(M1)] {
            for over in [false, true] {
                check(a, from, mac, na(true, over, false), Reachable, Some(M1));
                check(a, from, mac, na(false, over, false), from, Some(M1));
            }
        }
        let doubted = if from == Reachable { Stale } else { from };
        for solicited in [false, true] {
            check(a, from, Some(M2), na(solicited, false, false), doubted, Some(M1));
        }
        check(a, from, Some(M2), na(true, true, false), Reachable, Some(M2));
        check(a, from, Some(M2), na(false, true, false), Stale, Some(M2));
        check(a, from, Some(M1), Heard::NsWithSource, from, Some(M1));
        check(a, from, Some(M2), Heard::NsWithSource, Stale, Some(M2));
        for what in [REQUEST, OTHER_REQUEST, GRATUITOUS] {
            check(b, from, Some(M1), what, from, Some(M1));
            check(b, from, Some(M2), what, Stale, Some(M2));
        }
        check(b, from, Some(M1), REPLY, Reachable, Some(M1));
        check(b, from, Some(M2), REPLY, Reachable, Some(M2));
        check(b, from, None, REPLY, from, Some(M1));
    }
    check(a, Incomplete, Some(M1), Heard::NsWithSource, Stale, Some(M1));
    check(b, Incomplete, Some(M1), REPLY, Reachable, Some(M1));
    for what in [REQUEST, OTHER_REQUEST, GRATUITOUS] {
        check(b, Incomplete, Some(M1), what, Stale, Some(M1));
    }
    for (a, what) in [(a, na(true, true, false)), (a, Heard::NsWithSource), (b, REPLY), (b, REQUEST)] {
        check(a, Static, Some(M2), what, Static, Some(M1));
    }
}

#[test]
fn router_flag_follows_advertisements_that_count() {
    let mut b = Bench::prepare(v6(), State::Reachable);
    let router = |b: &Bench| b.table.get(IF, v6()).unwrap().router;
    b.hear(v6(), Some(M2), na(true, false, true));
    assert!(!router(&b), "an advertisement that is not taken over");
    b.hear(v6(), None, na(false, false, true));
    assert!(router(&b));
    b.hear(v6(), Some(M2), Heard::NsWithSource);
    assert!(router(&b), "solicitations do not tell");
    b.hear(v6(), Some(M2), na(true, true, false));
    assert!(!router(&b));
}

#[test]
fn life_of_a_neighbor() {
    for (a, confirm) in [(v4(), REPLY), (v6(), na(true, true, false))] {
        let mut b = Bench::prepare(a, State::Reachable);
        b.used(a);
        assert_eq!(b.state(a), Some(State::Reachable));
        assert_eq!(b.pass(29_999), []);
        assert_eq!(b.state(a), Some(State::Reachable));
        assert_eq!(b.pass(1), []);
        assert_eq!(b.state(a), Some(State::Stale));
        assert_eq!(b.table.stale().collect::<Vec<_>>(), [(IF, a)]);
        b.used(a);
        assert_eq!((b.state(a), b.table.stale().count()), (Some(State::Delay), 0));
        assert_eq!(b.pass(4_999), []);
        assert_eq!(b.pass(1), [solicit(a, Some(M1), 1)]);
        assert_eq!(b.pass(1_000), [solicit(a, Some(M1), 2)]);
        assert_eq!(b.hear(a, Some(M1), confirm), []);
        assert_eq!(b.state(a), Some(State::Reachable));
        // Next time nobody answers.
        assert_eq!(b.pass(30_000), []);
        b.used(a);
        let probes: Vec<Action> = (1..=3).map(|n| solicit(a, Some(M1), n)).collect();
        assert_eq!(b.pass(7_999), probes);
        assert_eq!(b.pass(1), [withdraw(a)]);
        assert_eq!(b.state(a), None);
        assert_eq!(b.table.counters().lost, 1);
        assert_eq!(b.want(a), [solicit(a, None, 1)]);
    }
}

#[test]
fn unused_stale_entries_are_forgotten() {
    let mut b = Bench::prepare(v4(), State::Stale);
    assert_eq!(b.pass(20 * 60_000 - 1), []);
    b.hear(v4(), Some(M1), GRATUITOUS);
    assert_eq!(b.pass(20 * 60_000 - 1), [], "it spoke meanwhile");
    assert_eq!(b.pass(1), [withdraw(v4())]);
    assert!(b.table.is_empty() && b.table.next_deadline().is_none());
}

#[test]
fn a_late_question_is_answered_again() {
    for state in [State::Reachable, State::Stale, State::Delay, State::Probe, State::Static] {
        let mut b = Bench::prepare(v4(), state);
        assert_eq!(b.want(v4()), [publish(v4(), M1)]);
        let expected = if state == State::Stale { State::Delay } else { state };
        assert_eq!(b.state(v4()), Some(expected));
    }
}

#[test]
fn reachable_time_is_spread() {
    let mut b = Bench::new(NeighborConfig::default());
    let mut times = Vec::new();
    for _ in 0..200 {
        b.want(v4());
        b.hear(v4(), Some(M1), REPLY);
        times.push(b.table.next_deadline().unwrap().since(b.now));
        b.run(|t, _, out| t.flush(IF, out));
    }
    assert!(times.iter().all(|t| (15_000..=45_000).contains(t)), "{times:?}");
    assert!(times.iter().min() < Some(&18_000) && times.iter().max() > Some(&42_000), "{times:?}");
}

#[test]
fn static_entries() {
    let mut b = Bench::prepare(v4(), State::Incomplete);
    let add = |b: &mut Bench, addr, mac| {
        let mut result = Ok(());
        let out = b.run(|t, now, out| result = t.add_static(now, IF, addr, mac, out));
        (result, out)
    };
    assert_eq!(add(&mut b, v4(), M1), (Ok(()), vec![publish(v4(), M1)]));
    assert_eq!(add(&mut b, v4(), M1), (Ok(()), vec![]));
    assert_eq!(add(&mut b, v4(), M2), (Ok(()), vec![publish(v4(), M2)]));
    assert_eq!(add(&mut b, v4(), MacAddr::ZERO), (Err(AddStaticError::BadMac), vec![]));
    assert_eq!(add(&mut b, "ff02::1".parse().unwrap(), M1), (Err(AddStaticError::BadAddress), vec![]));
    assert_eq!(b.pass(1 << 40), []);
    b.run(|t, now, out| {
        t.heard(now, IF, v4(), Some(M1), REPLY, out);
        assert!(matches!(out[..], [Action::Log(NeighborLog::StaticClaimed { by: M1, .. })]));
    });
    assert_eq!(b.run(|t, _, out| t.flush(IF, out)), []);
    assert_eq!(b.run(|t, _, out| assert!(t.delete(IF, v4(), out))), [withdraw(v4())]);
    assert_eq!(b.run(|t, _, out| assert!(!t.delete(IF, v4(), out))), []);
}

#[test]
fn interfaces_come_and_go() {
    let mut b = Bench::prepare(v4(), State::Reachable);
    let stat: IpAddr = "10.0.0.9".parse().unwrap();
    b.run(|t, now, out| t.add_static(now, IF, stat, M2, out).unwrap());
    b.want(v6());
    let mut out = b.run(|t, _, out| t.interface_down(IF, out));
    out.sort_by_key(|a| format!("{a:?}"));
    assert_eq!(out, [failed(v6()), withdraw(v4()), withdraw(stat)]);
    assert_eq!(b.run(|t, _, out| t.interface_down(IF, out)), []);
    assert_eq!(b.want(v4()), [failed(v4())]);
    assert_eq!(b.hear(v4(), Some(M1), REQUEST), []);
    let late: IpAddr = "10.0.0.8".parse().unwrap();
    assert_eq!(b.run(|t, now, out| t.add_static(now, IF, late, M1, out).unwrap()), []);
    assert_eq!(b.run(|t, _, out| t.interface_up(IF, out)), [publish(late, M1), publish(stat, M2)]);
    assert_eq!(b.run(|t, _, out| t.interface_up(IF, out)), []);
    b.want(v6());
    let out = b.run(|t, _, out| t.interface_removed(IF, out));
    assert_eq!(out, [withdraw(late), withdraw(stat), failed(v6())]);
    assert!(b.table.is_empty() && b.table.next_deadline().is_none());
    assert_eq!(b.want(v4()), [failed(v4())]);
}

#[test]
fn moves_are_logged_within_reason() {
    let mut b = Bench::prepare(v4(), State::Reachable);
    let mut lines = 0;
    for n in 0..1000 {
        let mut out = Vec::new();
        let mac = if n % 2 == 0 { M2 } else { M1 };
        b.table.heard(b.now, IF, v4(), Some(mac), GRATUITOUS, &mut out);
        lines += out.iter().filter(|a| matches!(a, Action::Log(NeighborLog::Moved { .. }))).count();
    }
    let counters = b.table.counters();
    assert_eq!((counters.moved, lines, counters.logs_suppressed), (1000, 20, 980));
}

#[test]
fn show_in_order() {
    let mut b = Bench::prepare(v4(), State::Stale);
    b.run(|t, now, out| {
        t.interface_up(3, out);
        t.add_static(now, 3, v6(), M2, out).unwrap();
    });
    let shown: Vec<_> = b.table.iter().map(|n| (n.interface, n.addr, n.state, n.mac)).collect();
    assert_eq!(shown, [(3, v6(), State::Static, Some(M2)), (IF, v4(), State::Stale, Some(M1))]);
    assert_eq!(b.table.iter_interface(IF).count(), 1);
    assert_eq!(b.table.len(), 2);
}
