use super::*;
use proptest::prelude::*;

const IF: u32 = 3;
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn v4() -> IpAddr {
    "10.0.0.1".parse().unwrap()
}

fn v6() -> IpAddr {
    "2001:db8::1".parse().unwrap()
}

fn dad_ns() -> AddressAction {
    AddressAction::SendDadNs { interface: IF, target: "2001:db8::1".parse().unwrap() }
}

fn told(addr: IpAddr) -> AddressAction {
    announcement((IF, addr))
}

fn usable(addr: IpAddr) -> AddressAction {
    AddressAction::Usable { interface: IF, addr }
}

fn unusable(addr: IpAddr) -> AddressAction {
    AddressAction::Unusable { interface: IF, addr }
}

fn duplicate(addr: IpAddr) -> AddressAction {
    AddressAction::Duplicate { interface: IF, addr, by: OTHER }
}

struct Bench {
    table: AddressTable,
    now: Millis,
    link: LinkSettings,
}

impl Bench {
    fn new(dad: DadMode, config: AddressConfig) -> Self {
        let link = LinkSettings { mac: OWN, dad, shared: true };
        Self { table: AddressTable::new(config, 5), now: Millis(1_000_000), link }
    }

    /// No random delay.
    fn at_once(dad: DadMode) -> Self {
        Self::new(dad, AddressConfig { dad_delay_max: 0, ..AddressConfig::default() })
    }

    fn run(
        &mut self,
        f: impl FnOnce(&mut AddressTable, Millis, &mut Vec<AddressAction>),
    ) -> Vec<AddressAction> {
        let mut out = Vec::new();
        f(&mut self.table, self.now, &mut out);
        out.retain(|a| !matches!(a, AddressAction::Log(_)));
        out
    }

    fn up(&mut self) -> Vec<AddressAction> {
        let link = self.link;
        self.run(|t, now, out| t.link_up(now, IF, link, out))
    }

    fn down(&mut self) -> Vec<AddressAction> {
        self.run(|t, _, out| t.link_down(IF, out))
    }

    fn add(&mut self, addr: IpAddr) -> Vec<AddressAction> {
        self.run(|t, now, out| assert!(t.added(now, IF, addr, out)))
    }

    fn conflict(&mut self, addr: IpAddr, by: MacAddr, kind: ConflictKind) -> Vec<AddressAction> {
        self.run(|t, now, out| t.conflict_seen(now, IF, addr, by, kind, out))
    }

    /// Actions with the time they came, counted from now.
    fn pass(&mut self, ms: u64) -> Vec<(u64, AddressAction)> {
        let (start, end) = (self.now, self.now.after(ms));
        let mut all = Vec::new();
        while let Some(at) = self.table.next_deadline().filter(|at| *at <= end) {
            self.now = at;
            all.extend(self.run(|t, now, out| t.tick(now, out)).into_iter().map(|a| (at.since(start), a)));
        }
        self.now = end;
        all
    }

    fn state(&self, addr: IpAddr) -> Option<AddressState> {
        self.table.state(IF, addr)
    }
}

#[test]
fn ip4_is_used_and_announced_twice() {
    for dad in [DadMode::Off, DadMode::Optimistic, DadMode::Strict] {
        let mut b = Bench::at_once(dad);
        assert_eq!(b.add(v4()), []);
        assert_eq!(b.state(v4()), Some(AddressState::Down));
        assert_eq!(b.up(), [usable(v4()), told(v4())]);
        assert_eq!(b.pass(100_000), [(2_000, told(v4()))]);
        assert_eq!(b.up(), [], "up already");
        assert_eq!(b.down(), [unusable(v4())]);
        assert_eq!(b.down(), []);
    }
}

#[test]
fn strict_detection() {
    let mut b = Bench::at_once(DadMode::Strict);
    b.up();
    assert_eq!(b.add(v6()), [dad_ns()]);
    assert_eq!(b.state(v6()), Some(AddressState::Tentative));
    assert_eq!(b.pass(999), []);
    let wanted = [(1, usable(v6())), (1, told(v6())), (1_001, told(v6())), (2_001, told(v6()))];
    assert_eq!(b.pass(100_000), wanted);
    assert_eq!(b.state(v6()), Some(AddressState::Usable));
}

#[test]
fn optimistic_detection() {
    let mut b = Bench::at_once(DadMode::Optimistic);
    b.up();
    assert_eq!(b.add(v6()), [usable(v6()), dad_ns()]);
    assert_eq!(b.state(v6()), Some(AddressState::Optimistic));
    let wanted = [(1_000, told(v6())), (2_000, told(v6())), (3_000, told(v6()))];
    assert_eq!(b.pass(100_000), wanted);
    assert_eq!(b.state(v6()), Some(AddressState::Usable));
}

#[test]
fn without_detection() {
    let mut b = Bench::at_once(DadMode::Off);
    b.up();
    assert_eq!(b.add(v6()), [usable(v6()), told(v6())]);
    let config = AddressConfig { dad_transmits: 0, ..AddressConfig::default() };
    let mut b = Bench::new(DadMode::Strict, config);
    b.up();
    assert_eq!(b.add(v6()), [usable(v6()), told(v6())]);
    let mut b = Bench::at_once(DadMode::Strict);
    b.link.shared = false;
    b.up();
    assert_eq!(b.add(v6()), [usable(v6())]);
    assert_eq!(b.add(v4()), [usable(v4())]);
    assert_eq!(b.pass(100_000), []);
}

#[test]
fn several_transmits_after_a_random_delay() {
    let mut firsts = Vec::new();
    for seed in 0..100 {
        let config = AddressConfig { dad_transmits: 3, ..AddressConfig::default() };
        let mut b = Bench::new(DadMode::Strict, config);
        b.table = AddressTable::new(config, seed);
        b.up();
        let mut all: Vec<(u64, AddressAction)> = b.add(v6()).into_iter().map(|a| (0, a)).collect();
        all.extend(b.pass(5_000));
        let first = all[0].0;
        let wanted = [
            (first, dad_ns()),
            (first + 1_000, dad_ns()),
            (first + 2_000, dad_ns()),
            (first + 3_000, usable(v6())),
        ];
        assert_eq!(all[..4], wanted);
        firsts.push(first);
    }
    assert!(firsts.iter().all(|first| *first <= 1_000), "{firsts:?}");
    assert!(firsts.iter().max() > Some(&800) && firsts.iter().min() < Some(&200), "{firsts:?}");
}

#[test]
fn duplicates_are_not_used() {
    for dad in [DadMode::Strict, DadMode::Optimistic] {
        for kind in [ConflictKind::DadSolicit, ConflictKind::Advert] {
            let mut b = Bench::at_once(dad);
            b.up();
            b.add(v6());
            assert_eq!(b.conflict(v6(), OWN, kind), [], "our own message");
            assert_eq!(b.conflict(v6(), OTHER, kind), [duplicate(v6())]);
            assert_eq!(b.conflict(v6(), OTHER, kind), []);
            assert_eq!(b.pass(100_000), []);
            assert_eq!(b.state(v6()), Some(AddressState::Duplicate));
            let shown: Vec<_> = b.table.iter().map(|a| (a.conflicts, a.last_conflict)).collect();
            assert_eq!(shown, [(1, Some(OTHER))]);
            // A new start when the link comes back.
            assert_eq!(b.down(), []);
            assert_eq!(b.up().last(), Some(&dad_ns()));
            assert_eq!(
                b.run(|t, _, out| assert!(t.removed(IF, v6(), out))).len(),
                (dad == DadMode::Optimistic) as usize
            );
            assert_eq!(b.pass(100_000), []);
        }
    }
}

#[test]
fn a_conflict_before_the_first_solicit_counts() {
    let mut b =
        Bench::new(DadMode::Strict, AddressConfig { dad_delay_max: 1_000_000, ..AddressConfig::default() });
    b.up();
    assert_eq!(b.add(v6()), []);
    assert_eq!(b.conflict(v6(), OTHER, ConflictKind::DadSolicit), [duplicate(v6())]);
    assert_eq!(b.pass(2_000_000), []);
}

#[test]
fn defence_once_in_ten_seconds() {
    for (addr, kind) in [(v4(), ConflictKind::Arp), (v6(), ConflictKind::Advert)] {
        let mut b = Bench::at_once(DadMode::Off);
        b.up();
        b.add(addr);
        b.pass(60_000);
        assert_eq!(b.conflict(addr, OWN, kind), []);
        assert_eq!(b.conflict(addr, OTHER, ConflictKind::DadSolicit), []);
        assert_eq!(b.conflict(addr, OTHER, kind), [told(addr)]);
        b.pass(9_999);
        assert_eq!(b.conflict(addr, OTHER, kind), []);
        b.pass(1);
        assert_eq!(b.conflict(addr, OTHER, kind), [told(addr)]);
        assert_eq!(b.state(addr), Some(AddressState::Usable));
        assert_eq!(b.table.iter().next().unwrap().conflicts, 3);
        let mut out = Vec::new();
        b.table.conflict_seen(b.now.after(10_000), IF, addr, OTHER, kind, &mut out);
        let line = NeighborLog::Defended { interface: IF, addr, by: OTHER };
        assert_eq!(out, [told(addr), AddressAction::Log(line)]);
    }
}

#[test]
fn a_new_mac_is_announced() {
    let mut b = Bench::at_once(DadMode::Off);
    b.up();
    b.add(v4());
    b.add(v6());
    b.pass(60_000);
    b.link.mac = OTHER;
    assert_eq!(b.up(), [told(v4()), told(v6())]);
    assert_eq!(b.pass(60_000).len(), 3);
    assert_eq!(b.conflict(v4(), OTHER, ConflictKind::Arp), [], "that is us now");
}

#[test]
fn strangers_are_ignored() {
    let mut b = Bench::at_once(DadMode::Strict);
    b.up();
    assert_eq!(b.conflict(v4(), OTHER, ConflictKind::Arp), []);
    b.add(v4());
    assert!(!b.table.added(b.now, IF, v4(), &mut Vec::new()));
    assert!(!b.table.removed(IF, v6(), &mut Vec::new()));
    b.down();
    assert_eq!(b.conflict(v4(), OTHER, ConflictKind::Arp), []);
}

proptest! {
    /// Whatever happens, what was told equals the state, no timer is lost, and detection ends.
    #[test]
    fn told_equals_state(events in proptest::collection::vec((0u8..8, 0u8..3, 0u64..3_000), 1..120)) {
        let addrs = [v4(), v6(), "fe80::1".parse().unwrap()];
        let mut t = AddressTable::new(AddressConfig::default(), 9);
        let mut used: BTreeSet<IpAddr> = BTreeSet::new();
        let mut now = Millis(0);
        let mut check = |t: &AddressTable, out: Vec<AddressAction>| {
            for action in out {
                match action {
                    AddressAction::Usable { addr, .. } => assert!(used.insert(addr), "twice"),
                    AddressAction::Unusable { addr, .. } => assert!(used.remove(&addr)),
                    AddressAction::Duplicate { addr, .. } => { used.remove(&addr); }
                    AddressAction::SendUnsolicitedNa { addr, .. } => assert!(used.contains(&addr.into())),
                    AddressAction::SendGratuitousArp { addr, .. } => assert!(used.contains(&addr.into())),
                    AddressAction::SendDadNs { .. } | AddressAction::Log(_) => {}
                }
            }
            let usable: BTreeSet<IpAddr> =
                t.iter().filter(|a| a.state.is_usable()).map(|a| a.addr).collect();
            assert_eq!(used, usable);
            let timers: BTreeSet<(Millis, Key)> =
                t.own.iter().filter_map(|(k, o)| Some((o.deadline?, *k))).collect();
            assert_eq!(timers, t.timers);
            for own in t.own.values() {
                let detecting = matches!(own.state, AddressState::Tentative | AddressState::Optimistic);
                assert!(!detecting || own.deadline.is_some());
            }
        };
        for (what, n, ms) in events {
            let mut out = Vec::new();
            let addr = addrs[usize::from(n)];
            let dad = [DadMode::Off, DadMode::Optimistic, DadMode::Strict][usize::from(n)];
            match what {
                0 => t.link_up(now, IF, LinkSettings { mac: OWN, dad, shared: true }, &mut out),
                1 => t.link_down(IF, &mut out),
                2 | 3 => { t.added(now, IF, addr, &mut out); }
                4 => { t.removed(IF, addr, &mut out); }
                5 => t.conflict_seen(now, IF, addr, OTHER, ConflictKind::Advert, &mut out),
                6 => t.conflict_seen(now, IF, addr, OTHER, ConflictKind::DadSolicit, &mut out),
                _ => {
                    now = now.after(ms);
                    t.tick(now, &mut out);
                }
            }
            check(&t, out);
        }
        let mut out = Vec::new();
        t.tick(now.after(20_000), &mut out);
        t.tick(now.after(40_000), &mut out);
        check(&t, out);
        for own in t.iter() {
            prop_assert!(!matches!(own.state, AddressState::Tentative | AddressState::Optimistic));
        }
    }
}
