use super::*;
use crate::testing::Stop;
use graph::{Domain, Reclaimer};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

const OPEN: Limits = Limits { bridge: u32::MAX, port: u32::MAX };

fn reclaimer() -> Reclaimer {
    Reclaimer::new(Arc::new(Domain::new()))
}

/// A guard for the test's thread: it maintains nothing while it reads.
#[allow(unsafe_code)]
fn guard() -> Guard {
    // SAFETY: no reader lives while something is reclaimed.
    unsafe { Guard::unprotected() }
}

fn settle(w: &mut MacWriter, r: &mut Reclaimer) {
    for _ in 0..20 {
        w.maintain(r);
        r.domain().advance();
        r.collect();
    }
}

fn mac(n: u32) -> [u8; 6] {
    let [a, b, c, d] = n.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// What an address stands for in the naive model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Learned { port: u32, stamp: u16 },
    Static(Entry),
}

#[derive(Clone, Debug)]
enum Change {
    Learn { bridge: u16, n: u32, port: u32 },
    Set { bridge: u16, n: u32, port: Option<u32> },
    Remove { bridge: u16, n: u32 },
    Flush { port: u32 },
    Age { bridge: u16 },
    Later(u16),
    Maintain,
    Resize { more: bool },
}

fn change() -> impl Strategy<Value = Change> {
    let (bridge, n, port) = (1u16..4, 0u32..150, 1u32..5);
    prop_oneof![
        12 => (bridge.clone(), n.clone(), port.clone()).prop_map(|(bridge, n, port)| Change::Learn { bridge, n, port }),
        2 => (bridge.clone(), n.clone(), prop::option::of(port.clone()))
            .prop_map(|(bridge, n, port)| Change::Set { bridge, n, port }),
        2 => (bridge.clone(), n).prop_map(|(bridge, n)| Change::Remove { bridge, n }),
        1 => port.prop_map(|port| Change::Flush { port }),
        1 => bridge.prop_map(|bridge| Change::Age { bridge }),
        2 => (0u16..6).prop_map(Change::Later),
        3 => Just(Change::Maintain),
        1 => any::<bool>().prop_map(|more| Change::Resize { more }),
    ]
}

const LIMITS: (u32, Limits) = (110, Limits { bridge: 50, port: 30 });

#[derive(Default)]
struct Model {
    all: HashMap<u64, Known>,
    now: u16,
}

impl Model {
    fn count(&self, wanted: impl Fn(u64, u32) -> bool) -> u32 {
        let counts = |(k, v): (&u64, &Known)| matches!(v, Known::Learned { port, .. } if wanted(*k, *port));
        self.all.iter().filter(|e| counts((e.0, e.1))).count() as u32
    }

    fn learn(&mut self, key: u64, port: u32) -> Learnt {
        let on = self.count(|_, p| p == port);
        let entry = Known::Learned { port, stamp: self.now };
        match self.all.get(&key) {
            Some(Known::Static(e)) if e.is_filter() || e.port() != port || e.is_bvi() => Learnt::Fixed(*e),
            Some(Known::Static(_)) => Learnt::Known,
            Some(Known::Learned { port: p, .. }) if *p == port => {
                self.all.insert(key, entry);
                Learnt::Known
            }
            _ if on >= LIMITS.1.port => Learnt::PortLimit,
            Some(_) => {
                self.all.insert(key, entry);
                Learnt::Moved
            }
            None if self.count(|k, _| key_bridge(k) == key_bridge(key)) >= LIMITS.1.bridge => {
                Learnt::BridgeLimit
            }
            None if self.count(|_, _| true) >= LIMITS.0 => Learnt::TableLimit,
            None => {
                self.all.insert(key, entry);
                Learnt::New
            }
        }
    }
}

fn known(e: Entry) -> Known {
    if e.is_static() { Known::Static(e) } else { Known::Learned { port: e.port(), stamp: e.stamp() } }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
    #[test]
    fn agrees_with_a_map(changes in prop::collection::vec(change(), 1..if cfg!(miri) { 80 } else { 1500 })) {
        let (mut w, t) = MacTable::new(LIMITS.0, CpuLevel::detect()).unwrap();
        // Time soon begins anew.
        let mut model = Model { now: STAMP_MASK - 20, ..Model::default() };
        let (mut r, guard) = (reclaimer(), guard());
        for c in changes {
            match c {
                Change::Learn { bridge, n, port } => {
                    let key = key(bridge, mac(n));
                    let got = t.reader(&guard).learn(key, Entry::learned(port, model.now), LIMITS.1);
                    // A small table may have to grow before it takes another one.
                    if got == Learnt::NoRoom {
                        prop_assert!(t.reader(&guard).wants_room() || w.is_growing());
                        continue;
                    }
                    prop_assert_eq!(got, model.learn(key, port));
                }
                Change::Set { bridge, n, port } => {
                    let entry = port.map_or(Entry::filter(), Entry::fixed);
                    let mut got = w.set(key(bridge, mac(n)), entry, &mut r);
                    if got == Err(NoRoom) {
                        settle(&mut w, &mut r);
                        got = w.set(key(bridge, mac(n)), entry, &mut r);
                    }
                    let was = model.all.insert(key(bridge, mac(n)), Known::Static(entry));
                    prop_assert_eq!(got.unwrap().map(known), was);
                }
                Change::Remove { bridge, n } => {
                    let key = key(bridge, mac(n));
                    prop_assert_eq!(w.remove(key).map(known), model.all.remove(&key));
                }
                Change::Flush { port } => {
                    let before = model.all.len();
                    model.all.retain(|_, v| !matches!(v, Known::Learned { port: p, .. } if *p == port));
                    let gone = w.remove_if(|_, e| !e.is_static() && e.port() == port);
                    prop_assert_eq!(gone, before - model.all.len());
                }
                Change::Age { bridge } => {
                    settle(&mut w, &mut r);
                    let (now, before) = (model.now, model.all.len());
                    model.all.retain(|k, v| match v {
                        Known::Learned { stamp, .. } => key_bridge(*k) != bridge || now.wrapping_sub(*stamp) & STAMP_MASK < 10,
                        Known::Static(_) => true,
                    });
                    prop_assert_eq!(w.age(now, |b, _| if b == bridge { 10 } else { 0 }), (before - model.all.len(), true));
                }
                // Entries stand in two tables until the control side has moved them.
                Change::Resize { more } => {
                    if !w.is_growing() {
                        prop_assert!(w.resize(table::LEAST_BUCKETS << u32::from(more), &mut r));
                    }
                }
                Change::Later(by) => model.now = (model.now + by) & STAMP_MASK,
                Change::Maintain => {
                    w.maintain(&mut r);
                    r.domain().advance();
                    r.collect();
                }
            }
            prop_assert_eq!(w.len(), model.all.len());
        }
        for bridge in 1..4 {
            for n in 0..150 {
                let key = key(bridge, mac(n));
                let want = model.all.get(&key).copied();
                prop_assert_eq!(w.get(key).map(known), want);
                let seen = t.reader(&guard).find(key);
                prop_assert_eq!(seen.is_live().then(|| known(seen)), want);
            }
            prop_assert_eq!(t.learned_in(bridge), model.count(|k, _| key_bridge(k) == bridge));
        }
        for port in 1..5 {
            prop_assert_eq!(t.learned_on(port), model.count(|_, p| p == port));
        }
        let all: HashMap<u64, Known> = w.iter().map(|(k, e)| (k, known(e))).collect();
        prop_assert_eq!(all, model.all);
    }
}

#[test]
fn keys_tell_bridge_and_address() {
    let k = key(7, [1, 2, 3, 4, 5, 6]);
    assert_eq!((key_bridge(k), key_mac(k)), (7, [1, 2, 3, 4, 5, 6]));
    assert_ne!(key(1, [0; 6]), 0);
}

#[test]
fn grows_to_many_and_shrinks_again() {
    let n = if cfg!(miri) { 200 } else { 150_000 };
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let (small, mut refused) = (w.room(), 0);
    for i in 0..n {
        loop {
            let reader = t.reader(&guard);
            let got = reader.learn(key(1, mac(i)), Entry::learned(1, 0), OPEN);
            if got == Learnt::New {
                break;
            }
            assert_eq!(got, Learnt::NoRoom);
            refused += 1;
            settle(&mut w, &mut r);
        }
        if t.reader(&guard).wants_room() {
            settle(&mut w, &mut r);
        }
    }
    assert_eq!((t.learned(), refused), (n, 0), "it grew in time");
    assert!(w.room() >= n as usize && w.room() <= n as usize * 4, "{} for {n}", w.room());
    assert!((0..n).all(|i| t.reader(&guard).find(key(1, mac(i))).port() == 1));
    assert_eq!(w.remove_if(|_, _| true), n as usize);
    for _ in 0..20 {
        settle(&mut w, &mut r);
    }
    assert_eq!((w.room(), t.learned(), t.learned_on(1)), (small, 0, 0));
}

#[test]
fn static_ones_in_one_go_make_it_grow() {
    let n = if cfg!(miri) { 100 } else { 50_000 };
    let (mut w, _t) = MacTable::new(0, CpuLevel::detect()).unwrap();
    let mut r = reclaimer();
    for i in 0..n {
        if w.set(key(1, mac(i)), Entry::fixed(3), &mut r).is_err() {
            settle(&mut w, &mut r);
            w.set(key(1, mac(i)), Entry::fixed(3), &mut r).unwrap();
        }
    }
    assert_eq!((w.fixed(), w.iter().count()), (n as usize, n as usize));
}

#[test]
fn churn_of_addresses_does_not_fill_it() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let most = if cfg!(miri) { 300 } else { 200_000 };
    for i in 0..most {
        assert_eq!(t.reader(&guard).learn(key(1, mac(i)), Entry::learned(1, 0), OPEN), Learnt::New);
        if i >= 10 {
            assert!(w.remove(key(1, mac(i - 10))).is_some());
        }
        if i % 8 == 0 {
            w.maintain(&mut r);
            r.domain().advance();
            r.collect();
        }
    }
    assert!(w.room() <= 4 * table::LEAST_BUCKETS * table::ENTRIES);
}

/// Workers learn, look up and meet the control side, which takes out, sets, ages and grows. The port of an address is always one that
/// belongs to it, and in the end every count is right.
#[test]
fn workers_learn_at_once() {
    const WORKERS: usize = 3;
    let (rounds, addresses) = if cfg!(miri) { (8, 40) } else { (1500, 60_000u32) };
    let domain = Arc::new(Domain::new());
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let mut r = Reclaimer::new(domain.clone());
    let stop = crate::testing::Clock::new(0);
    let done = AtomicU64::new(0);
    let learned = AtomicU64::new(0);
    std::thread::scope(|s| {
        for me in 0..WORKERS {
            let (t, domain, done, learned) = (&t, &domain, &done, &learned);
            s.spawn(move || {
                let mut reader = domain.reader(me);
                reader.online();
                let mut x = me as u32 + 1;
                while done.load(Relaxed) == 0 {
                    {
                        let macs = t.reader(reader.guard());
                        for _ in 0..64 {
                            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                            let n = (x >> 8) % addresses;
                            let k = key(1 + (n % 3) as u16, mac(n));
                            let port = 1 + n % 100;
                            let got = macs.learn(k, Entry::learned(port, (x >> 4) as u16), OPEN);
                            learned.fetch_add(u64::from(got == Learnt::New), Relaxed);
                            assert!(!matches!(got, Learnt::Moved), "{n} was elsewhere");
                            let k = key(1 + ((n / 2) % 3) as u16, mac(n / 2));
                            let e = macs.find(k);
                            assert!(
                                !e.is_live() || e.is_filter() || e.port() == 1 + n / 2 % 100,
                                "{e:?} for {}",
                                n / 2
                            );
                        }
                        macs.wants_room();
                    }
                    reader.quiescent();
                    // Where threads are not preempted, the control side would never have its turn.
                    std::thread::yield_now();
                }
            });
        }
        let _stop = Stop(&stop);
        for round in 0..rounds {
            let n = round * 7 % addresses;
            let k = key(1 + (n % 3) as u16, mac(n));
            match round % 5 {
                0 => drop(w.set(k, Entry::fixed(1 + n % 100), &mut r)),
                1 => drop(w.remove_if(|k, e| e.is_static() || key_mac(k)[5] == round as u8)),
                2 => drop(w.age(round as u16, |_, _| 1)),
                3 => drop(w.set(k, Entry::filter(), &mut r)),
                _ => drop(w.remove(k)),
            }
            w.maintain(&mut r);
            domain.advance();
            r.collect();
            std::thread::yield_now();
        }
        // On a busy machine workers may not have had their turn since the last ones were taken out.
        for _ in 0..50_000_000 {
            if t.learned() != 0 && learned.load(Relaxed) != 0 {
                break;
            }
            w.maintain(&mut r);
            domain.advance();
            r.collect();
            std::thread::yield_now();
        }
        done.store(1, Relaxed);
    });
    settle(&mut w, &mut r);
    let live: Vec<(u64, Entry)> = w.iter().filter(|(_, e)| !e.is_static()).collect();
    assert!(learned.load(Relaxed) > 0 && !live.is_empty());
    assert_eq!(t.learned() as usize, live.len());
    for b in 1..4 {
        assert_eq!(t.learned_in(b) as usize, live.iter().filter(|(k, _)| key_bridge(*k) == b).count());
    }
    for p in 1..101 {
        assert_eq!(t.learned_on(p) as usize, live.iter().filter(|(_, e)| e.port() == p).count());
    }
}

/// So many keys of bridge domain 1 that belong to the bucket `home`, from address number `from` on.
fn colliding(home: u32, of: impl Fn(u64) -> u32, from: u32) -> impl Iterator<Item = u64> {
    (from..).map(|n| key(1, mac(n))).filter(move |k| of(*k) == home)
}

/// Keys that stand near one place: 64 buckets of five.
const NEAR: usize = 64 * table::ENTRIES;

#[test]
#[cfg(not(miri))]
fn a_full_neighbourhood_is_told_and_counted() {
    let t = Table::new(128, CpuLevel::detect()).unwrap();
    let keys: Vec<u64> = colliding(0, |k| t.home(k), 0).take(NEAR + 1).collect();
    for k in &keys[..NEAR] {
        assert_eq!(t.put(*k, Entry::learned(1, 0)), table::Put::Done);
    }
    let passed = t.passed();
    assert_eq!(t.put(keys[NEAR - 1], Entry::learned(2, 0)), table::Put::There);
    assert_eq!((t.passed(), t.is_filled()), (passed, false));
    assert_eq!(t.put(keys[NEAR], Entry::learned(1, 0)), table::Put::Full);
    assert_eq!((t.passed(), t.is_filled()), (passed, true));
    // An entry that somebody brought back to life is not given away; dead ones are, and leave nothing.
    let dead = Entry::DEAD[0];
    let (p, _) = t.place(keys[7]).unwrap();
    t.free(p, keys[7], dead);
    assert_eq!((t.find(0, keys[7]).port(), t.used()), (1, NEAR));
    for k in &keys[..NEAR] {
        let (p, there) = t.place(*k).unwrap();
        t.change(p, there, dead).unwrap();
        t.free(p, *k, dead);
    }
    assert_eq!((t.passed(), t.used()), (0, 0));
}

/// An address that stands there twice: the live entry counts, wherever it stands.
#[test]
fn the_live_one_of_two_is_found() {
    let t = Table::new(4, CpuLevel::detect()).unwrap();
    let keys: Vec<u64> = colliding(0, |k| t.home(k), 0).take(2).collect();
    for k in &keys {
        assert_eq!(t.put(*k, Entry::learned(3, 0)), table::Put::Done);
    }
    let (p, there) = t.place(keys[0]).unwrap();
    t.change(p, there, Entry::DEAD[0]).unwrap();
    t.free(p, keys[0], Entry::DEAD[0]);
    // The place before it is free: a worker that did not see it puts it there again.
    assert_eq!(t.put(keys[1], Entry::learned(2, 0)), table::Put::Done);
    let (p, there) = t.place(keys[1]).unwrap();
    assert_eq!(there.port(), 2);
    t.change(p, there, Entry::DEAD[0]).unwrap();
    assert_eq!(t.place(keys[1]).unwrap().1, Entry::learned(3, 0));
}

#[test]
#[cfg(not(miri))]
fn addresses_without_room_are_not_counted() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let learn = |k, port| t.reader(&guard).learn(k, Entry::learned(port, 0), OPEN);
    let home = |k| t.reader(&guard).home(k);
    let keys: Vec<u64> = colliding(0, home, 0).take(NEAR + 1).collect();
    let got: Vec<Learnt> = keys.iter().map(|k| learn(*k, 1)).collect();
    assert!(got[..NEAR].iter().all(|g| *g == Learnt::New) && got[NEAR] == Learnt::NoRoom);
    assert_eq!((t.learned(), t.learned_on(1), t.learned_in(1)), (320, 320, 320));

    // While a bigger table fills: an old address whose new place is full.
    assert!(w.resize(2 * table::LEAST_BUCKETS, &mut r));
    let home = |k| t.reader(&guard).home(k);
    let at = home(keys[0]);
    let full: Vec<u64> = colliding(at, home, 1 << 24).take(NEAR).collect();
    assert!(full.iter().all(|k| learn(*k, 2) == Learnt::New));
    assert_eq!(learn(keys[0], 1), Learnt::NoRoom);
    assert_eq!((t.learned(), t.learned_on(1)), (639, 319));
    settle(&mut w, &mut r);
    assert_eq!(w.iter().count(), t.learned() as usize);
}

#[test]
#[cfg(not(miri))]
fn entries_that_cannot_be_moved_are_not_counted() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let learn = |k, port| t.reader(&guard).learn(k, Entry::learned(port, 0), OPEN);
    let old = key(2, mac(1));
    assert_eq!(learn(old, 1), Learnt::New);
    assert!(w.resize(2 * table::LEAST_BUCKETS, &mut r));
    let home = |k| t.reader(&guard).home(k);
    let full: Vec<u64> = colliding(home(old), home, 0).take(NEAR).collect();
    assert!(full.iter().all(|k| learn(*k, 2) == Learnt::New));
    settle(&mut w, &mut r);
    assert_eq!((t.learned(), t.learned_on(1), w.iter().count()), (320, 0, 320));
}

/// While entries are moved, no more are taken than both tables' fit in the new one.
#[test]
fn a_growing_table_keeps_room_for_what_is_to_come() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let learn = |n| t.reader(&guard).learn(key(1, mac(n)), Entry::learned(1, 0), OPEN);
    let first = w.room() as u32 / 2;
    assert!((0..first).all(|n| learn(n) == Learnt::New));
    assert!(w.resize(2 * table::LEAST_BUCKETS, &mut r));
    let more = (first..).take_while(|n| learn(*n) == Learnt::New).count() as u32;
    let most = w.room() as u32 / 20 * 13;
    assert!(more > 0 && first + more <= most, "{first} and {more} of {most}");
    settle(&mut w, &mut r);
    assert_eq!(t.learned(), first + more);
    assert!((0..first + more).all(|n| t.reader(&guard).find(key(1, mac(n))).is_live()));
}

/// Dead entries that fill the table make it new, not bigger.
#[test]
fn dead_entries_make_no_table_grow() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let small = w.room();
    for n in 0..small as u32 / 5 * 3 + 5 {
        t.reader(&guard).learn(key(1, mac(n)), Entry::learned(1, 0), OPEN);
    }
    w.remove_if(|_, _| true);
    w.maintain(&mut r);
    assert_eq!((w.is_growing(), w.room()), (true, small));
}

/// What workers may still read stays until they have passed.
#[test]
fn nothing_goes_before_workers_have_passed() {
    let domain = Arc::new(Domain::new());
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let mut r = Reclaimer::new(domain.clone());
    let mut worker = domain.reader(0);
    worker.online();
    let mut maintain = |w: &mut MacWriter| {
        for _ in 0..5 {
            w.maintain(&mut r);
            r.domain().advance();
            r.collect();
        }
    };
    for n in 0..3 {
        t.reader(worker.guard()).learn(key(1, mac(n)), Entry::learned(1, 0), OPEN);
    }
    w.remove(key(1, mac(0)));
    maintain(&mut w);
    assert_eq!(w.used(), 3);
    // It dies after the others began to wait: it waits for itself.
    w.remove(key(1, mac(1)));
    worker.quiescent();
    w.maintain(&mut Reclaimer::new(domain.clone()));
    assert_eq!(w.used(), 2);
    maintain(&mut w);
    worker.quiescent();
    maintain(&mut w);
    worker.quiescent();
    maintain(&mut w);
    assert_eq!(w.used(), 1);

    let mut r = Reclaimer::new(domain.clone());
    assert!(w.resize(2 * table::LEAST_BUCKETS, &mut r));
    for passes in 0..3 {
        // Once it is steady again it soon shrinks.
        for _ in 0..if passes == 0 { 5 } else { 1 } {
            w.maintain(&mut r);
            r.domain().advance();
        }
        assert_eq!(w.is_growing(), passes < 2, "after {passes} passes");
        assert_eq!(t.reader(worker.guard()).find(key(1, mac(2))).port(), 1);
        worker.quiescent();
    }
    drop(worker);
    r.collect();
}

/// An address that moves while entries are moved stays where it was when its new port has its limit.
#[test]
fn limits_hold_while_it_grows() {
    let (mut w, t) = MacTable::new(u32::MAX, CpuLevel::detect()).unwrap();
    let (mut r, guard) = (reclaimer(), guard());
    let one = Limits { port: 1, ..OPEN };
    let learn = |n, port| t.reader(&guard).learn(key(1, mac(n)), Entry::learned(port, 0), one);
    assert_eq!((learn(1, 1), learn(2, 2)), (Learnt::New, Learnt::New));
    assert!(w.resize(2 * table::LEAST_BUCKETS, &mut r));
    assert_eq!(
        (learn(1, 2), learn(2, 2), learn(3, 2)),
        (Learnt::PortLimit, Learnt::Known, Learnt::PortLimit)
    );
    assert_eq!(t.reader(&guard).find(key(1, mac(1))).port(), 1);
    assert_eq!((t.learned_on(1), t.learned_on(2), t.learned()), (1, 1, 2));
}

/// Whatever instructions look for a key, they see the keys of a bucket and nothing else.
#[test]
fn every_level_finds_the_same() {
    for level in CpuLevel::ALL {
        let t = Table::new(4, level).unwrap();
        let keys: Vec<u64> = (1..).map(|i| key(1, mac(i))).filter(|k| t.home(*k) == 2).take(7).collect();
        let entry = |n: usize| Entry::learned(n as u32, n as u16);
        for (n, &k) in keys.iter().enumerate() {
            let known: Vec<Entry> = keys.iter().map(|k| t.find(2, *k)).collect();
            let want = |m| if m < n { entry(m) } else { Entry::NONE };
            assert_eq!(known, (0..keys.len()).map(want).collect::<Vec<_>>(), "{level:?}, {n} there");
            assert_eq!(t.put(k, entry(n)), table::Put::Done);
        }
        // The words behind the keys: values two by two, and what went past.
        let word = |low: Entry, high: u32| u64::from(low.bits()) | u64::from(high) << 32;
        for k in [word(entry(0), entry(1).bits()), word(entry(2), entry(3).bits()), word(entry(4), 2), 0] {
            assert_eq!(t.find(2, k), Entry::NONE, "{level:?}");
        }
    }
}
