//! Two hubs, joined over real sockets and memory.

use super::message::{LEN, Message, Mode, VERSION};
use super::region::Region;
use super::ring;
use super::socket;
use super::{Config, Hub, Role, State, Waits};
use crate::peers::{Event, Hub as _, Link};
use crate::place::Place;
use crate::signal::Signal;
use graph::{Buffers, Desc, Packets, Pool, PoolConfig, PoolMemory, RxQueue, TxQueue, Vector};
use proptest::prelude::*;
use rustix::fs::MemfdFlags;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn pool() -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: 1024, memory: PoolMemory::Normal }).unwrap()
}

fn place() -> Place {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    Place::parse(&format!("@quiver-memif-test-{}-{n}", std::process::id())).unwrap()
}

/// A connection as workers have it.
struct Queues {
    rx: Vec<Box<dyn RxQueue>>,
    tx: Vec<Box<dyn TxQueue>>,
}

impl Queues {
    fn of(mut link: Link, workers: usize) -> Queues {
        let tx = (0..workers).filter_map(|_| link.tx.transmit_queue()).collect();
        Queues { rx: link.rx, tx }
    }
}

/// Two sides with their clocks.
struct Pair {
    hubs: [Hub; 2],
    workers: usize,
    now: u64,
    said: Vec<String>,
}

impl Pair {
    fn new(master: Config, slave: Config, workers: usize) -> Pair {
        let mut hubs = [Hub::new().unwrap(), Hub::new().unwrap()];
        hubs[0].add(1, "master", master).unwrap();
        hubs[1].add(1, "slave", slave).unwrap();
        hubs.iter_mut().for_each(|h| assert!(h.set_up(1, true, 0)));
        Pair { hubs, workers, now: 0, said: vec![] }
    }

    fn step(&mut self, links: &mut [Option<Queues>; 2]) {
        self.now += 1;
        for (hub, link) in self.hubs.iter_mut().zip(links) {
            for e in hub.work(self.now).0 {
                match e {
                    Event::Up { link: new, words, .. } => {
                        *link = Some(Queues::of(new, self.workers));
                        self.said.push(words);
                    }
                    Event::Down { why, .. } => {
                        *link = None;
                        self.said.extend(why);
                    }
                    Event::Say { text, .. } => self.said.push(text),
                }
            }
        }
    }

    fn join(&mut self) -> [Queues; 2] {
        let mut links = [None, None];
        for _ in 0..5000 {
            self.step(&mut links);
            if links.iter().all(Option::is_some) {
                return links.map(Option::unwrap);
            }
        }
        panic!("{:?}", self.said);
    }
}

fn both(place: &Place) -> (Config, Config) {
    let master = Config::new(place.clone(), 7);
    (master.clone(), Config { role: Role::Slave, ..master })
}

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// No more descriptors are open than were before, once the tests beside this one have closed theirs.
fn nothing_is_left(before: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    while fds() > before {
        assert!(Instant::now() < until, "{} descriptors, {before} before", fds());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn bytes_of(b: &Buffers, d: &Desc) -> Vec<u8> {
    let mut bytes = vec![0; b.total_len(d)];
    assert_eq!(b.copy_out(d, 0, &mut bytes), bytes.len());
    bytes
}

fn frame(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + i / 251) as u8).collect()
}

/// Sends over one link and takes what comes over the other.
fn pass(
    from: &mut Queues,
    to: &mut Queues,
    queue: usize,
    b: &mut Buffers,
    packets: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut descs: Vec<Desc> = packets.iter().map(|p| b.alloc_bytes(p).unwrap()).collect();
    let report = from.tx[queue].send(b, Packets::drain(&mut descs));
    assert_eq!(report.packets, packets.len() as u64, "{report:?}");
    take(to, b)
}

fn take(to: &mut Queues, b: &mut Buffers) -> Vec<Vec<u8>> {
    let mut got = vec![];
    for rx in &mut to.rx {
        let mut v = Vector::boxed();
        rx.poll(b, 0, &mut v);
        for d in v.take() {
            got.push(bytes_of(b, &d));
            b.free(d);
        }
    }
    got
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn packets_pass_both_ways_whole_and_in_order(
        lens in proptest::collection::vec(1usize..9000, 1..12), buffer in 1u32..64, log2 in 8u32..11, rounds in 1usize..40,
    ) {
        let (master, slave) = both(&place());
        let slave = Config { buffer: buffer * 64, slots: 1 << log2, ..slave };
        // As many as a ring holds at once.
        let lens: Vec<usize> = lens.iter().map(|l| (*l).min(60 * buffer as usize * 64 / lens.len().min(4))).collect();
        let lens = &lens[..lens.len().min(4)];
        let mut pair = Pair::new(master, slave, 1);
        let [mut m, mut s] = pair.join();
        let pool = pool();
        let mut b = pool.buffers();
        for round in 0..rounds {
            let packets: Vec<Vec<u8>> = lens.iter().enumerate().map(|(i, l)| frame(*l, round + i)).collect();
            prop_assert_eq!(pass(&mut m, &mut s, 0, &mut b, &packets), packets.clone());
            prop_assert_eq!(pass(&mut s, &mut m, 0, &mut b, &packets), packets);
        }
        prop_assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn a_full_ring_loses_the_packets_that_do_not_fit_and_goes_on() {
    let (master, slave) = both(&place());
    let slave = Config { slots: 4, ..slave };
    let mut pair = Pair::new(master, slave, 1);
    let [mut m, mut s] = pair.join();
    let pool = pool();
    let mut b = pool.buffers();
    for (from, to) in [(&mut m, &mut s)] {
        for _ in 0..3 {
            let mut descs: Vec<Desc> = (0..6).map(|n| b.alloc_bytes(&frame(100, n)).unwrap()).collect();
            let report = from.tx[0].send(&mut b, Packets::drain(&mut descs));
            assert_eq!((report.packets, report.full), (4, 2));
            assert_eq!(take(to, &mut b), (0..4).map(|n| frame(100, n)).collect::<Vec<_>>());
        }
    }
    let long = b.alloc_bytes(&frame(2048 * 4 + 1, 0)).unwrap();
    let report = s.tx[0].send(&mut b, Packets::drain(&mut vec![long]));
    assert_eq!((report.errors, report.full), (1, 0));
    assert_eq!(pass(&mut s, &mut m, 0, &mut b, &[frame(2048 * 4, 1)]), [frame(2048 * 4, 1)]);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn what_no_ring_can_hold_is_told_of() {
    let (master, slave) = both(&place());
    let slave = Config { slots: 4, buffer: 64, ..slave };
    assert_eq!((slave.most_mtu(), master.most_mtu()), (Some(256 - 22), None));
    let mut pair = Pair::new(master, slave, 1);
    let [mut m, mut s] = pair.join();
    let (pool, mut links) = (pool(), [None, None]);
    let mut b = pool.buffers();
    for (n, from) in [&mut m, &mut s].into_iter().enumerate() {
        pair.said.clear();
        for len in [257, 300, 9000] {
            let long = b.alloc_bytes(&frame(len, 0)).unwrap();
            let report = from.tx[0].send(&mut b, Packets::drain(&mut vec![long]));
            assert_eq!((report.packets, report.errors, report.full), (0, 1, 0), "{n}: {len}");
            (0..5).for_each(|_| pair.step(&mut links));
        }
        assert_eq!(pair.said.len(), 1, "{:?}", pair.said);
        assert!(
            pair.said[0].starts_with("a packet of 257 bytes is longer than the rings can hold"),
            "{:?}",
            pair.said
        );
    }
    assert_eq!(pass(&mut s, &mut m, 0, &mut b, &[frame(256, 1)]), [frame(256, 1)]);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn who_waits_says_for_what_and_since_when() {
    let place = place();
    let (master, slave) = both(&place);
    let mut hub = Hub::new().unwrap();
    hub.add(1, "s", slave).unwrap();
    let what = |hub: &Hub| hub.waits(1).unwrap();
    assert_eq!((what(&hub).what.as_str(), what(&hub).error), ("being set up", None));
    hub.set_up(1, true, 7);
    hub.work(1000);
    let Waits { what: wants, error } = what(&hub);
    let (why, at) = error.unwrap();
    assert_eq!((wants, at), (format!("a master on {place}"), 1000));
    assert!(why.starts_with("no master listens on"), "{why}");
    drop(hub);
    // A master tells whom it has refused, and how the last connection ended.
    let right = |c: &Config| Config { secret: Some("right".into()), ..c.clone() };
    let (m, s) = both(&self::place());
    let mut pair = Pair::new(right(&m), Config { secret: Some("wrong".into()), ..s.clone() }, 1);
    let mut links = [None, None];
    (0..300).for_each(|_| pair.step(&mut links));
    let w = pair.hubs[0].waits(1).unwrap();
    assert!(w.what.starts_with("a slave to ask for number 7 on @"), "{w:?}");
    assert!(w.error.unwrap().0.ends_with("the secret is wrong"));
    assert!(pair.hubs[1].waits(1).unwrap().error.unwrap().0.contains("the secret is wrong"));
    let mut pair = Pair::new(master.clone(), Config { role: Role::Slave, ..master }, 1);
    drop(pair.join());
    assert_eq!(pair.hubs.each_ref().map(|h| h.waits(1)), [None, None]);
    // What was closed is connected anew as after any other end, and not at once.
    let now = pair.now;
    pair.hubs[1].close(1, "it is enough", now);
    assert!(pair.hubs[1].deadline().unwrap() >= now + 500);
    assert_eq!(
        pair.hubs[1].waits(1).unwrap().error,
        Some(("the connection has ended: it is enough".into(), now))
    );
}

#[test]
fn options_of_a_slave_are_refused_of_a_master() {
    let (master, slave) = both(&place());
    let with: [fn(Config) -> Config; 4] = [
        |c| Config { rx_queues: 2, ..c },
        |c| Config { tx_queues: 2, ..c },
        |c| Config { slots: 2048, ..c },
        |c| Config { buffer: 4096, ..c },
    ];
    for (with, what) in with.iter().zip(["rx-queues", "tx-queues", "ring-size", "buffer-size"]) {
        assert_eq!(with(slave.clone()).check(), Ok(()));
        let why = with(master.clone()).check().unwrap_err();
        assert_eq!(why, format!("{what} is the slave's: a master takes what that has, give it there"));
    }
}

#[test]
fn several_rings_are_shared_out_among_workers() {
    let (master, slave) = both(&place());
    let slave = Config { tx_queues: 2, rx_queues: 3, ..slave };
    let mut pair = Pair::new(master, slave, 4);
    let [mut m, mut s] = pair.join();
    assert_eq!((m.rx.len(), m.tx.len(), s.rx.len(), s.tx.len()), (2, 4, 3, 4));
    let pool = pool();
    let mut b = pool.buffers();
    for worker in 0..4 {
        let packets = [frame(60, worker), frame(1500, worker)];
        assert_eq!(pass(&mut m, &mut s, worker, &mut b, &packets), packets);
        assert_eq!(pass(&mut s, &mut m, worker, &mut b, &packets), packets);
    }
    let (state, peer) = pair.hubs[0].state(1).unwrap();
    assert_eq!(
        (state, peer.unwrap().rings, peer.unwrap().interface.as_str()),
        (State::Connected, (2, 3), "slave")
    );
}

#[test]
fn ip_packets_travel_without_their_ethernet_header() {
    let (master, slave) = both(&place());
    let ip = |c: Config| Config { mode: Mode::Ip, ..c };
    let mut pair = Pair::new(ip(master), ip(slave), 1);
    let [mut m, mut s] = pair.join();
    let pool = pool();
    let mut b = pool.buffers();
    let mut packet = vec![0; 12];
    packet.extend([0x08, 0x00]);
    packet.extend(frame(3000, 1));
    assert_eq!(pass(&mut m, &mut s, 0, &mut b, std::slice::from_ref(&packet)), [&packet[14..]]);
    assert_eq!(s.rx[0].target(), "memif-ip-input");
    packet[13] = 0x06;
    let arp = b.alloc_bytes(&packet).unwrap();
    assert_eq!(m.tx[0].send(&mut b, Packets::drain(&mut vec![arp])).errors, 1);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn who_sleeps_is_woken_once_there_is_something() {
    let (master, slave) = both(&place());
    let mut pair = Pair::new(master, slave, 1);
    let [mut m, mut s] = pair.join();
    let pool = pool();
    let mut b = pool.buffers();
    let is_woken = |l: &Queues| {
        // SAFETY of the number: the queue owns the descriptor, and lives.
        let fd = l.rx[0].fd().unwrap();
        std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap().lines().any(|l| {
            l.strip_prefix("eventfd-count:").is_some_and(|n| u64::from_str_radix(n.trim(), 16).unwrap() != 0)
        })
    };
    for (from, to) in [(0, 1), (1, 0)] {
        let [one, two] = [&mut m, &mut s];
        let (from, to) = if from < to { (one, two) } else { (two, one) };
        let send = |from: &mut Queues, b: &mut Buffers| {
            let d = b.alloc_bytes(&frame(60, 0)).unwrap();
            assert_eq!(from.tx[0].send(b, Packets::drain(&mut vec![d])).packets, 1);
        };
        send(from, &mut b);
        assert!(!is_woken(to), "it polls");
        assert_eq!(to.rx[0].ready(), graph::io::Ready::Now);
        assert_eq!(take(to, &mut b).len(), 1);
        assert_eq!(to.rx[0].ready(), graph::io::Ready::Fd);
        send(from, &mut b);
        assert!(is_woken(to));
        assert_eq!(take(to, &mut b).len(), 1);
        assert!(!is_woken(to), "it has taken that in");
    }
}

#[test]
fn either_side_may_go_and_come_back() {
    let place = place();
    let (master, slave) = both(&place);
    let mut pair = Pair::new(master.clone(), slave.clone(), 1);
    let pool = pool();
    let mut b = pool.buffers();
    let mut before = None;
    for round in 0..6 {
        let mut links = pair.join().map(Some);
        {
            let [m, s] = &mut links;
            let (m, s) = (m.as_mut().unwrap(), s.as_mut().unwrap());
            assert_eq!(pass(m, s, 0, &mut b, &[frame(70, round)]), [frame(70, round)]);
        }
        if round % 2 == 0 {
            before.get_or_insert_with(fds);
        }
        // One of them is gone without a word: its descriptors are closed.
        let gone = round % 2;
        links[gone] = None;
        pair.hubs[gone] = Hub::new().unwrap();
        for _ in 0..50 {
            pair.step(&mut links);
        }
        assert!(links[1 - gone].is_none(), "{:?}", pair.said);
        let (name, config) = if gone == 0 { ("master", &master) } else { ("slave", &slave) };
        pair.hubs[gone].add(1, name, config.clone()).unwrap();
        pair.hubs[gone].set_up(1, true, 0);
    }
    let links = pair.join();
    nothing_is_left(before.unwrap());
    drop(links);
    // In order: down, and up again.
    pair.hubs[1].set_up(1, false, 0);
    let mut links = [None, None];
    for _ in 0..20 {
        pair.step(&mut links);
    }
    assert_eq!(pair.hubs[0].state(1).unwrap().0, State::Waiting);
    pair.hubs[1].set_up(1, true, 0);
    pair.join();
}

#[test]
fn who_does_not_fit_is_told_why() {
    let refused = |master: &dyn Fn(Config) -> Config, slave: &dyn Fn(Config) -> Config| {
        let (m, s) = both(&place());
        let mut pair = Pair::new(master(m), slave(s), 1);
        let mut links = [None, None];
        for _ in 0..5000 {
            pair.step(&mut links);
        }
        assert!(links.iter().all(Option::is_none));
        // Each side says it once, however often it is tried.
        assert_eq!(pair.said.len(), 2, "{:?}", pair.said);
        pair.said.remove(1)
    };
    let with = |s: &str| Some(s.to_owned());
    let wrong =
        refused(&|m| Config { secret: with("right"), ..m }, &|s| Config { secret: with("wrong"), ..s });
    assert!(wrong.ends_with("the other side says: master: the secret is wrong"), "{wrong}");
    let none = refused(&|m| Config { secret: with("right"), ..m }, &|s| s);
    assert!(none.ends_with("the secret is wrong"), "{none}");
    let id = refused(&|m| m, &|s| Config { id: 8, ..s });
    assert!(id.ends_with("there is no interface number 8 on this socket"), "{id}");
    let mode = refused(&|m| m, &|s| Config { mode: Mode::Ip, ..s });
    assert!(mode.ends_with("this side carries Ethernet frames, the other side something else"), "{mode}");
}

#[test]
fn what_cannot_be_is_refused() {
    let c = Config::new(place(), 0);
    let why = |c: Config| c.check().unwrap_err();
    assert_eq!(why(Config { slots: 1000, ..c.clone() }), "a ring of 1000 slots: a power of two, 2 to 16384");
    assert_eq!(
        why(Config { slots: 32768, ..c.clone() }),
        "a ring of 32768 slots: a power of two, 2 to 16384"
    );
    assert_eq!(
        why(Config { buffer: 100, ..c.clone() }),
        "buffers of 100 bytes: a multiple of 64, 64 to 65536"
    );
    assert_eq!(why(Config { rx_queues: 65, ..c.clone() }), "65 receive queues: 1 to 64");
    assert_eq!(why(Config { secret: Some("s".repeat(25)), ..c.clone() }), "a secret of 25 bytes: 1 to 24");
    let small = Config { role: Role::Slave, slots: 2, buffer: 64, ..c.clone() };
    assert_eq!(
        why(small.clone()),
        "its rings would hold packets of 128 bytes at most, 150 are the least: a larger ring-size or buffer-size"
    );
    assert_eq!(Config { buffer: 128, ..small.clone() }.check(), Ok(()));
    assert_eq!(Config { slots: 4, ..small }.check(), Ok(()));
    let large = Config { role: Role::Slave, rx_queues: 8, slots: 16384, buffer: 65_536, ..c.clone() };
    assert!(why(large).starts_with("its rings and buffers would take 9218 MiB, at most 4096"));
    assert!(c.check().is_ok());
    assert!(Place::parse("memif.sock").is_err() && Place::parse("@").is_err());
    assert!(Place::parse(&format!("/{}", "x".repeat(107))).is_err());
    assert_eq!(Place::parse("abstract:x").unwrap(), Place::parse("@x").unwrap());
}

#[test]
fn a_file_that_was_left_is_replaced_and_one_in_use_is_not() {
    let file = std::env::temp_dir().join(format!("quiver-memif-{}.sock", std::process::id()));
    let place = Place::parse(file.to_str().unwrap()).unwrap();
    let (master, slave) = both(&place);
    let left = place.listen(socket::KIND).unwrap();
    let mut hub = Hub::new().unwrap();
    let e = hub.add(1, "m", master.clone()).unwrap_err();
    assert!(e.starts_with("another process listens on the socket"), "{e}");
    // As after kill -9: the file stays.
    let kept = std::fs::hard_link(&file, file.with_extension("kept"));
    kept.unwrap();
    drop(left);
    std::fs::rename(file.with_extension("kept"), &file).unwrap();
    hub.add(1, "m", master.clone()).unwrap();
    let e = hub.add(2, "s", slave).unwrap_err();
    assert!(e.contains("a slave connects to another process"), "{e}");
    let e = hub.add(3, "n", master).unwrap_err();
    assert!(e.starts_with("m has number 7 on the socket"), "{e}");
    hub.remove(1, 0);
    assert!(!file.exists());
    std::fs::write(&file, "not a socket").unwrap();
    assert!(place.listen(socket::KIND).is_err());
    std::fs::remove_file(&file).unwrap();
}

/// A slave of the test's own, which may do anything.
struct Mad {
    fd: std::os::fd::OwnedFd,
}

impl Mad {
    fn connect(place: &Place) -> Mad {
        Mad { fd: place.connect(socket::KIND).unwrap() }
    }

    fn say(&self, m: &Message, with: Option<std::os::fd::BorrowedFd<'_>>) {
        let _ = socket::send(&self.fd, &m.emit(), with);
    }

    fn last(&self) -> Option<Message> {
        let mut last = None;
        let mut bytes = [0; LEN + 1];
        while let Ok((b, _)) = socket::receive(&self.fd, &mut bytes) {
            let Ok(m) = Message::parse(b) else { break };
            last = Some(m);
        }
        last
    }
}

fn init() -> Message {
    Message::Init { version: VERSION, id: 7, mode: Some(Mode::Ethernet), secret: [0; 24], name: "mad".into() }
}

/// Has a mad slave that has got as far as `CONNECT`, over a region of its own with one ring each way.
fn mad_slave(hub: &mut Hub, place: &Place, now: &mut u64) -> (Mad, Region, Option<Queues>, Vec<Signal>) {
    const SIZE: u64 = 64 << 10;
    let mut link = None;
    let mut go = |hub: &mut Hub| {
        for _ in 0..8 {
            *now += 1;
            for e in hub.work(*now).0 {
                if let Event::Up { link: l, .. } = e {
                    link = Some(l);
                }
            }
        }
    };
    let mad = Mad::connect(place);
    let (region, file) = Region::create(SIZE as usize).unwrap();
    region.write(0, &0x03e3_1f20u32.to_ne_bytes());
    region.write(8192, &0x03e3_1f20u32.to_ne_bytes());
    mad.say(&init(), None);
    mad.say(&Message::AddRegion { index: 0, size: SIZE }, Some(file.as_fd()));
    let signals: Vec<Signal> = (0..2).map(|_| Signal::create().unwrap()).collect();
    for (s2m, offset, signal) in [(true, 0, &signals[0]), (false, 8192, &signals[1])] {
        let ring = Message::AddRing { s2m, index: 0, region: 0, offset, log2_slots: 8, private: 0 };
        mad.say(&ring, Some(signal.fd()));
    }
    mad.say(&Message::Connect { name: "mad0".into() }, None);
    go(hub);
    (mad, region, link.map(|l| Queues::of(l, 1)), signals)
}

#[test]
fn a_peer_that_writes_anything_anywhere_does_no_harm() {
    let place = place();
    let mut hub = Hub::new().unwrap();
    hub.add(1, "m", Config::new(place.clone(), 7)).unwrap();
    hub.set_up(1, true, 0);
    let (pool, mut now, mut x) = (pool(), 0, 0x9e37_79b9_7f4a_7c15u64);
    let mut b = pool.buffers();
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let (mut received, mut ended) = (0, 0);
    let until = Instant::now() + Duration::from_secs(10);
    let mut writes = 0u64;
    while writes < 1_000_000 && Instant::now() < until {
        let (mad, region, link, _signals) = mad_slave(&mut hub, &place, &mut now);
        let mut link = link.unwrap_or_else(|| panic!("{:?}", mad.last()));
        let mut v = Vector::boxed();
        for turn in 0..2000 {
            for _ in 0..4 {
                let r = random();
                let ring = if r & 1 == 0 { 0 } else { 8192 };
                // Mostly what makes sense, so that the rings are not given up at once.
                let mut tail = [0; 2];
                region.read(ring + 64, &mut tail);
                let tail = u64::from(u16::from_ne_bytes(tail));
                let (at, value, len) = match (r >> 8) % 16 {
                    0..=3 if (r >> 40) % 500 == 0 => (ring + 6, random(), 2),
                    0..=3 => (ring + 6, tail + (r >> 32) % 64, 2),
                    4..=9 => (
                        ring + 128 + (r >> 16) as usize % 256 * 16,
                        (r >> 60) & 1 | (random() % 3000) << 32,
                        8,
                    ),
                    10..=12 => (ring + 136 + (r >> 16) as usize % 256 * 16, random() % 70_000, 8),
                    13 | 14 => (ring + 128 + (r >> 16) as usize % 256 * 16, random(), 8),
                    _ if (r >> 40) % 100 != 0 => {
                        (16384 + (((r >> 16) as usize % (48 << 10)) & !7), random(), 8)
                    }
                    _ => (((r >> 16) as usize % (64 << 10)) & !7, random(), 8),
                };
                region.write(at, &value.to_ne_bytes()[..len]);
                writes += 1;
            }
            received += link.rx[0].poll(&mut b, 0, &mut v);
            for d in v.take() {
                assert_eq!(bytes_of(&b, &d).len(), b.total_len(&d));
                b.free(d);
            }
            let d = b.alloc_bytes(&frame(1000, 0)).unwrap();
            link.tx[0].send(&mut b, Packets::drain(&mut vec![d]));
            let _ = link.rx[0].ready();
            assert_eq!(pool.in_use(), 0);
            if turn % 16 != 0 {
                continue;
            }
            now += 1;
            let events = hub.work(now).0;
            if events.iter().any(|e| matches!(e, Event::Down { .. })) {
                ended += 1;
                break;
            }
        }
        drop(mad);
        now += 1;
        for _ in 0..4 {
            hub.work(now);
        }
    }
    assert!(received > 1000 && ended > 10, "{received} packets, {ended} connections, {writes} writes");
}

#[test]
fn memory_of_huge_pages_is_not_taken() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let open = |flags| {
        let file = rustix::fs::memfd_create("huge", flags).unwrap();
        rustix::fs::ftruncate(&file, 2 << 20).unwrap();
        Region::open(&file, 2 << 20).map(|_| ())
    };
    assert_eq!(open(flags), Ok(()));
    let why = open(flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB).unwrap_err();
    assert!(why.starts_with("its memory is of huge pages"), "{why}");
}

#[test]
fn a_peer_may_vanish_or_err_at_every_step() {
    let place = place();
    let mut hub = Hub::new().unwrap();
    hub.add(1, "m", Config::new(place.clone(), 7)).unwrap();
    hub.set_up(1, true, 0);
    let (region, file) = Region::create(64 << 10).unwrap();
    region.write(0, &0x03e3_1f20u32.to_ne_bytes());
    let signal = Signal::create().unwrap();
    let (mut now, before) = (0, fds());
    let mut go = |hub: &mut Hub, n: usize| {
        let mut said = vec![];
        for _ in 0..n {
            now += 1;
            said.extend(hub.work(now).0);
        }
        said
    };
    let region = |index, size| (Message::AddRegion { index, size }, true);
    let ring = |region, offset, log2_slots| {
        (Message::AddRing { s2m: true, index: 0, region, offset, log2_slots, private: 0 }, false)
    };
    let connect = (Message::Connect { name: "x".into() }, false);
    let wrong: Vec<(Vec<(Message, bool)>, &str)> = vec![
        (vec![(Message::Ack, false)], "a message came that does not belong there"),
        (vec![region(0, 1 << 16)], "a message came that does not belong there"),
        (vec![(init(), false), (init(), false)], "a message came that does not belong there"),
        (vec![(init(), false), region(1, 1 << 16)], "region 1 is not the next"),
        (
            vec![(init(), false), region(0, (1 << 16) + 1)],
            "region 0: 65537 bytes are announced, its file has 65536",
        ),
        (vec![(init(), false), region(0, u64::MAX)], "its regions have more than 4096 MiB together"),
        (
            vec![(init(), false), (Message::AddRegion { index: 0, size: 9 }, false)],
            "region 0: not a memory file",
        ),
        (vec![(init(), false), connect.clone()], "rings are missing"),
        (vec![(init(), false), region(0, 1 << 16), ring(0, 0, 8), ring(0, 0, 8)], "ring 0 comes twice"),
        (vec![(init(), false), region(0, 1 << 16), ring(0, 0, 8), connect.clone()], "rings are missing"),
    ];
    for (messages, why) in &wrong {
        let mad = Mad::connect(&place);
        for (m, with_file) in messages {
            let with = if *with_file { file.as_fd() } else { signal.fd() };
            mad.say(m, Some(with));
        }
        go(&mut hub, 8);
        let Some(Message::Disconnect { reason, .. }) = mad.last() else { panic!("{why}: no answer") };
        assert!(reason.starts_with(why), "{reason}");
    }
    for s2m in [0, 1] {
        for (region, offset, log2_slots) in
            [(1, 0, 8), (0, 65_000, 8), (0, 4, 8), (0, 0, 15), (0, 0, 255), (0, u32::MAX - 7, 1)]
        {
            let mad = Mad::connect(&place);
            mad.say(&init(), None);
            mad.say(&Message::AddRegion { index: 0, size: 1 << 16 }, Some(file.as_fd()));
            for (n, s2m_now) in [true, false].into_iter().enumerate() {
                let bad = n == s2m;
                let (region, offset, log2_slots) = if bad { (region, offset, log2_slots) } else { (0, 0, 8) };
                let ring =
                    Message::AddRing { s2m: s2m_now, index: 0, region, offset, log2_slots, private: 0 };
                mad.say(&ring, Some(signal.fd()));
            }
            mad.say(&connect.0, None);
            go(&mut hub, 8);
            let Some(Message::Disconnect { reason, .. }) = mad.last() else { panic!("no answer") };
            let right = ["ring 0 does not lie within its region", "ring 0 does not begin as rings do"];
            assert!(right.contains(&&*reason), "{reason}");
        }
    }
    // Gone behind each message; and bytes that are no message.
    for steps in 0..5 {
        let mad = Mad::connect(&place);
        let all = [&init(), &Message::AddRegion { index: 0, size: 1 << 16 }, &ring(0, 0, 8).0, &connect.0];
        for m in &all[..steps.min(4)] {
            mad.say(m, Some(file.as_fd()));
        }
        drop(mad);
        go(&mut hub, 8);
    }
    let mad = Mad::connect(&place);
    rustix::net::send(&mad.fd, b"GET / HTTP/1.0", rustix::net::SendFlags::empty()).unwrap();
    go(&mut hub, 4);
    drop(mad);
    // One that says nothing has its time, and many such do not use up more than a few descriptors.
    let silent: Vec<Mad> = (0..20).map(|_| Mad::connect(&place)).collect();
    go(&mut hub, 30);
    let more: Vec<Mad> = (0..20).map(|_| Mad::connect(&place)).collect();
    let said = go(&mut hub, 30);
    assert!(
        said.iter()
            .any(|e| matches!(e, Event::Say { text, .. } if text.contains("further ones are refused")))
    );
    let said = go(&mut hub, 3100);
    assert!(
        said.iter().any(|e| matches!(e, Event::Say { text, .. } if text.contains("more than 3 seconds")))
    );
    drop((silent, more));
    go(&mut hub, 4);
    nothing_is_left(before);
    assert_eq!(ring::bytes(8), 128 + 256 * 16);
}
