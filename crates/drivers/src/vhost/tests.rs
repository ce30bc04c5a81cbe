//! The back-end with a driver of the tests' own ([`guest`]), over real sockets and memory.

mod guest;

use super::message::feature as f;
use super::{Config, Hub, Place, Role, State};
use crate::peers::{Event, Hub as _, Link, drops};
use graph::io::Ready;
use graph::{Buffers, Desc, Packets, Pool, PoolConfig, PoolMemory, RxQueue, TxCaps, TxQueue, Vector, flags};
use guest::{BUFFERS, FAR, Guest, RINGS, SIZE, USER, file, is_rung, pair};
use packet::gso::VnetHdr;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendFlags, SocketType};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn pool() -> Arc<Pool> {
    Pool::new(PoolConfig { buffers: 1024, memory: PoolMemory::Normal }).unwrap()
}

fn place() -> Place {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    Place::parse(&format!("@quiver-vhost-test-{}-{n}", std::process::id())).unwrap()
}

fn server(place: &Place) -> Config {
    Config { role: Role::Server, ..Config::new(place.clone()) }
}

fn fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Mappings of the guests' memory.
fn mapped() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("quiver-vhost-guest").count()
}

/// No more is open or mapped than was before, once the tests beside this one have let go of theirs.
fn nothing_is_left(before: (usize, usize)) {
    let until = Instant::now() + Duration::from_secs(30);
    while fds() > before.0 || mapped() > before.1 {
        assert!(Instant::now() < until, "{} {}, before {before:?}", fds(), mapped());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn frame(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + seed * 7 + i / 251) as u8).collect()
}

fn bytes_of(b: &Buffers, d: &Desc) -> Vec<u8> {
    let mut bytes = vec![0; b.total_len(d)];
    assert_eq!(b.copy_out(d, 0, &mut bytes), bytes.len());
    bytes
}

type Queues = (Vec<Box<dyn RxQueue>>, Vec<Box<dyn TxQueue>>, TxCaps);

/// The back-end with what it says.
struct Back {
    hub: Hub,
    now: u64,
    queues: Option<Queues>,
    said: Vec<String>,
}

impl Back {
    fn new(config: Config) -> Back {
        let mut hub = Hub::new().unwrap();
        hub.add(1, "v", config).unwrap();
        assert!(hub.set_up(1, true, 0));
        Back { hub, now: 0, queues: None, said: vec![] }
    }

    fn go(&mut self) {
        for _ in 0..6 {
            self.now += 1;
            for e in self.hub.work(self.now).0 {
                match e {
                    Event::Up { link: Link { rx, mut tx }, words, .. } => {
                        let caps = tx.caps();
                        let all = (0..rx.len()).filter_map(|_| tx.transmit_queue()).collect();
                        self.queues = Some((rx, all, caps));
                        self.said.push(words);
                    }
                    Event::Down { why, .. } => {
                        self.queues = None;
                        self.said.extend(why);
                    }
                    Event::Say { text, .. } => self.said.push(text),
                }
            }
        }
    }

    fn state(&self) -> State {
        self.hub.state(1).unwrap().0
    }

    fn poll(&mut self, b: &mut Buffers, q: usize) -> Vec<Desc> {
        let mut v = Vector::boxed();
        let n = self.queues.as_mut().unwrap().0[q].poll(b, 0, &mut v);
        let all: Vec<Desc> = v.take().as_mut_slice().iter_mut().map(Desc::take).collect();
        assert_eq!(all.len(), n);
        all
    }

    fn take(&mut self, b: &mut Buffers, q: usize) -> Vec<Vec<u8>> {
        let all = self.poll(b, q);
        all.into_iter()
            .map(|d| {
                let bytes = bytes_of(b, &d);
                b.free(d);
                bytes
            })
            .collect()
    }

    fn send(&mut self, b: &mut Buffers, q: usize, packets: &[Vec<u8>]) -> graph::TxReport {
        let mut all: Vec<Desc> = packets.iter().map(|p| b.alloc_bytes(p).unwrap()).collect();
        self.queues.as_mut().unwrap().1[q].send(b, Packets::drain(&mut all))
    }
}

const USUAL: u64 =
    f::VERSION_1 | f::MRG_RXBUF | f::INDIRECT_DESC | f::EVENT_IDX | f::PROTOCOL_FEATURES | f::MQ;

fn both(features: u64, rings: u32) -> (Back, Guest) {
    let place = place();
    let mut back = Back::new(Config { gso: true, ..server(&place) });
    let guest = Guest::connect(&place, features);
    guest.start(rings);
    back.go();
    assert_eq!(back.state(), State::Running, "{:?}", back.said);
    (back, guest)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn packets_pass_both_ways_whole_and_in_order(
        lens in prop::collection::vec(14usize..9000, 1..12), cuts in prop::collection::vec(0usize..2000, 0..8),
        room in prop::collection::vec(16usize..3000, 1..5), bits in 0u8..32, rounds in 1usize..60,
    ) {
        let has = |n: u8, bit| if bits >> n & 1 != 0 { bit } else { 0 };
        let features = has(0, f::VERSION_1) | has(1, f::MRG_RXBUF) | f::INDIRECT_DESC | has(2, f::EVENT_IDX) | has(3, f::PROTOCOL_FEATURES);
        let table = bits >> 4 & 1 != 0;
        let (mut back, mut guest) = both(features, 2);
        let pool = pool();
        let mut b = pool.buffers();
        for round in 0..rounds {
            let packets: Vec<Vec<u8>> = lens.iter().enumerate().map(|(i, l)| frame(*l, round + i)).collect();
            for p in &packets {
                guest.transmit(0, VnetHdr::default(), p, &cuts, table);
            }
            prop_assert_eq!(back.take(&mut b, 0), packets.clone());
            prop_assert_eq!(guest.used(1).len(), packets.len());
            // And back: what fits arrives, what does not is said.
            let room: Vec<usize> = if features & f::MRG_RXBUF == 0 { vec![9100] } else { room.clone() };
            for p in &packets {
                let need = (p.len() + 12).div_ceil(room.iter().sum::<usize>());
                if need > 16 {
                    continue;
                }
                guest.post(0, need, &room, table);
                let report = back.send(&mut b, 0, std::slice::from_ref(p));
                prop_assert_eq!((report.packets, report.bytes), (1, p.len() as u64), "{:?}", report);
                prop_assert_eq!(guest.received(0), vec![(VnetHdr::default(), p.clone())]);
                prop_assert_eq!(back.send(&mut b, 0, &[frame(60, 0)]).full, 1);
            }
            prop_assert_eq!(pool.in_use(), 0);
        }
    }
}

#[test]
fn a_frame_longer_than_the_buffers_is_refused_and_harms_no_other() {
    let (mut back, mut guest) = both(f::VERSION_1, 2);
    let pool = pool();
    let mut b = pool.buffers();
    guest.post(0, 2, &[1526], false);
    let report = back.send(&mut b, 0, &[frame(1515, 1), frame(1514, 2)]);
    assert_eq!((report.packets, report.errors), (1, 1));
    assert_eq!(guest.received(0)[0].1, frame(1514, 2));
    // Without mergeable buffers, and with 64 chains at most of those.
    let (mut back, mut guest) = both(f::VERSION_1 | f::MRG_RXBUF, 2);
    guest.stride = 1;
    guest.post(0, 100, &[20], false);
    let report = back.send(&mut b, 0, &[frame(1500, 1), frame(1200, 2)]);
    assert_eq!((report.packets, report.errors), (1, 1));
    assert_eq!(guest.received(0)[0].1, frame(1200, 2));
}

#[test]
fn a_poll_takes_no_more_bad_chains_than_it_could_take_packets() {
    let (mut back, mut guest) = both(USUAL, 2);
    let pool = pool();
    let mut b = pool.buffers();
    // For this side to write into: nothing that a driver transmits.
    for _ in 0..20 {
        guest.offer(1, &[(FAR, 100)], true, false);
    }
    let mut v = Vector::boxed();
    while v.room() != 6 {
        assert!(v.push(b.alloc_bytes(&frame(60, 0)).unwrap()).is_ok());
    }
    for _ in 0..2 {
        assert_eq!(back.queues.as_mut().unwrap().0[0].poll(&mut b, 0, &mut v), 0);
        assert_eq!(guest.used(1).len(), 6);
    }
    assert_eq!(drops(&back.hub.drops(1).unwrap())[1], ("bad-descriptor", 12));
    let all: Vec<Desc> = v.take().as_mut_slice().iter_mut().map(Desc::take).collect();
    all.into_iter().for_each(|d| b.free(d));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn an_empty_buffer_to_receive_into_ends_the_connection() {
    let (mut back, mut guest) = both(USUAL, 2);
    let pool = pool();
    let mut b = pool.buffers();
    guest.post(0, 1, &[1000, 0, 1000], false);
    let report = back.send(&mut b, 0, &[frame(1500, 1)]);
    assert_eq!((report.packets, report.no_link), (0, 1));
    back.go();
    let why = "a queue makes no sense: the other side has written what cannot be";
    assert_eq!((back.state(), back.said.last().unwrap().as_str()), (State::Waiting, why));
}

#[test]
fn a_queue_that_starts_wakes_the_driver_once_whatever_it_wants() {
    let (mut back, guest) = both(USUAL & !f::EVENT_IDX, 2);
    let pool = pool();
    let mut b = pool.buffers();
    for ring in &guest.rings[..2] {
        guest.put(ring.at + 4096, &1u16.to_ne_bytes());
        is_rung(&ring.call);
    }
    for first in [true, false] {
        assert!(back.take(&mut b, 0).is_empty());
        assert_eq!(back.send(&mut b, 0, &[frame(60, 1)]).full, 1);
        assert_eq!([0, 1].map(|n: usize| is_rung(&guest.rings[n].call)), [first; 2]);
    }
}

/// A TCP segment over IPv4 whose checksum is partial.
fn tcp(len: usize) -> Vec<u8> {
    let mut p = frame(len, 3);
    p[12..14].copy_from_slice(&[8, 0]);
    p[14] = 0x45;
    p[46] = 0x50;
    p
}

#[test]
fn offloads_are_those_that_both_have() {
    let tso = f::GUEST_CSUM | f::GUEST_TSO4 | f::GUEST_TSO6 | f::GUEST_ECN;
    let (mut back, mut guest) = both(USUAL | tso | f::CSUM | f::HOST_TSO4, 2);
    assert_eq!(back.queues.as_ref().unwrap().2, TxCaps { checksum: true, tso: true, uso: false });
    let pool = pool();
    let mut b = pool.buffers();
    let header = VnetHdr {
        flags: VnetHdr::NEEDS_CSUM,
        gso_type: VnetHdr::GSO_TCPV4,
        hdr_len: 54,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
    };
    let bytes = tcp(20_000);
    guest.transmit(0, header, &bytes, &[3000], true);
    let mut got = back.poll(&mut b, 0);
    let d = got.pop().unwrap();
    assert!(d.has(flags::GSO) && d.has(flags::CSUM_PARTIAL));
    assert_eq!((b.meta(&d.buf).gso_size, b.meta(&d.buf).csum_start), (1448, d.off + 34));
    // And the same back.
    guest.post(0, 20, &[1526], false);
    let report = back.queues.as_mut().unwrap().1[0].send(&mut b, Packets::drain(&mut vec![d]));
    assert_eq!(report.packets, 1);
    assert_eq!(guest.received(0), vec![(header, bytes.clone())]);
    // What contradicts the packet is dropped and counted.
    guest.transmit(0, VnetHdr { csum_start: 60_000, ..header }, &bytes, &[], false);
    assert!(back.poll(&mut b, 0).is_empty());
    assert_eq!(drops(&back.hub.drops(1).unwrap())[1], ("bad-descriptor", 1));
    let (back, _guest) = both(USUAL | f::GUEST_CSUM, 2);
    assert_eq!(back.queues.as_ref().unwrap().2, TxCaps { checksum: true, tso: false, uso: false });
    // Nothing of it is offered by default.
    let place = place();
    let mut back = Back::new(server(&place));
    let guest = Guest::connect(&place, USUAL);
    guest.say(1, &[]);
    back.go();
    let offered = guest.reply().unwrap().1;
    assert_eq!(offered, USUAL | f::ANY_LAYOUT);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_driver_is_woken_as_it_wants_and_wakes_as_it_should() {
    for features in [USUAL, USUAL & !f::EVENT_IDX] {
        let (mut back, mut guest) = both(features, 2);
        let pool = pool();
        let mut b = pool.buffers();
        let at = guest.rings[1].at;
        let asked = |guest: &Guest| match features & f::EVENT_IDX {
            0 => guest.get::<2>(at + 8192) == [0, 0],
            _ => u16::from_ne_bytes(guest.get(at + 8192 + 4 + 8 * u64::from(SIZE))) == guest.rings[1].avail,
        };
        let ready = |back: &Back| back.queues.as_ref().unwrap().0[0].ready();
        assert!(back.take(&mut b, 0).is_empty());
        assert_eq!((ready(&back), asked(&guest)), (Ready::Fd, true));
        guest.transmit(0, VnetHdr::default(), &frame(60, 1), &[], false);
        assert_eq!(ready(&back), Ready::Now, "it came before the driver could see");
        assert_eq!(back.take(&mut b, 0).len(), 1);
        guest.transmit(0, VnetHdr::default(), &frame(60, 1), &[], false);
        assert!(!asked(&guest), "this side polls");
        assert_eq!(back.take(&mut b, 0).len(), 1);
        // The kick is readable once and drained then.
        assert_eq!(ready(&back), Ready::Fd);
        rustix::io::write(&guest.rings[1].kick, &1u64.to_ne_bytes()).unwrap();
        back.take(&mut b, 0);
        let mut asked = [PollFd::new(&guest.rings[1].kick, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut asked, Some(&at_once)), Ok(0));
        // What it is told of received packets.
        let (mut silent, at) = (0, guest.rings[0].at);
        is_rung(&guest.rings[0].call);
        for n in 0..40u16 {
            guest.post(0, 1, &[2000], false);
            let want = n % 3 == 0;
            match features & f::EVENT_IDX {
                0 => guest.put(at + 4096, &u16::from(!want).to_ne_bytes()),
                _ => guest.put(
                    at + 4096 + 4 + 2 * u64::from(SIZE),
                    &if want { n } else { n.wrapping_sub(5) }.to_ne_bytes(),
                ),
            }
            back.send(&mut b, 0, &[frame(60, 1)]);
            assert_eq!(is_rung(&guest.rings[0].call), want, "{n}");
            silent += u16::from(!want);
        }
        assert!(silent > 20);
    }
}

#[test]
fn queues_stop_and_go_on_where_they_were() {
    let before = (fds(), mapped());
    let pool = pool();
    let mut b = pool.buffers();
    let (mut back, mut guest) = both(USUAL, 4);
    assert_eq!(back.queues.as_ref().map(|q| (q.0.len(), q.1.len())), Some((2, 2)));
    assert_eq!(back.hub.state(1).unwrap().1.unwrap().pairs, 2);
    for round in 0..300usize {
        let q = round % 2;
        guest.transmit(q, VnetHdr::default(), &frame(100, round), &[], false);
        assert_eq!(back.take(&mut b, q), vec![frame(100, round)]);
        assert_eq!(guest.used(2 * q + 1).len(), 1);
        guest.post(q, 1, &[1526], false);
        assert_eq!(back.send(&mut b, q, &[frame(90, round)]).packets, 1);
        assert_eq!(guest.received(q), vec![(VnetHdr::default(), frame(90, round))]);
    }
    // The driver resets its device, as at a reboot.
    for n in 0..4u32 {
        guest.say(11, &pair(n, 0));
        back.go();
        assert_eq!(guest.reply(), Some((11, u64::from(n) | 150 << 32)));
    }
    assert_eq!((back.state(), back.queues.is_none()), (State::Connected, true));
    assert_eq!(back.said.last().unwrap(), "the other side's driver has stopped");
    // What it puts there meanwhile is taken when it goes on; one pair less runs then.
    guest.transmit(0, VnetHdr::default(), &frame(100, 7), &[], false);
    guest.start(2);
    back.go();
    assert_eq!(back.take(&mut b, 0), vec![frame(100, 7)]);
    // New memory at any time.
    guest.transmit(0, VnetHdr::default(), &frame(100, 8), &[], false);
    guest.say_with(5, 8, &guest.regions(), &[guest.memory.as_fd(); 2]);
    back.go();
    assert_eq!(guest.reply(), Some((5, 0)));
    assert_eq!(back.take(&mut b, 0), vec![frame(100, 8)]);
    // A queue that is switched off and on again; down and up by the operator.
    guest.say(18, &pair(1, 0));
    back.go();
    assert_eq!(back.state(), State::Connected);
    guest.say(18, &pair(1, 1));
    back.go();
    assert_eq!(back.state(), State::Running);
    back.hub.set_up(1, false, back.now);
    back.go();
    assert_eq!((back.state(), back.queues.is_none()), (State::Connected, true));
    back.hub.set_up(1, true, back.now);
    back.go();
    guest.transmit(0, VnetHdr::default(), &frame(100, 9), &[], false);
    assert_eq!(back.take(&mut b, 0), vec![frame(100, 9)]);
    drop(guest);
    back.go();
    assert_eq!(
        (back.state(), back.said.last().unwrap().as_str()),
        (State::Waiting, "the other side has closed it")
    );
    drop(back);
    nothing_is_left(before);
}

#[test]
fn a_client_connects_as_soon_as_somebody_listens_and_again() {
    let place = place();
    let mut back = Back::new(Config::new(place.clone()));
    back.go();
    assert_eq!(
        back.said,
        vec![format!("nobody listens on {place}: it is connected as soon as somebody does")]
    );
    let pool = pool();
    let mut b = pool.buffers();
    for round in 0..3 {
        let listening = place.listen(SocketType::STREAM).unwrap();
        back.now = back.hub.deadline().unwrap();
        back.go();
        let mut guest = Guest::on(listening.accept().unwrap(), USUAL);
        guest.start(2);
        back.go();
        guest.transmit(0, VnetHdr::default(), &frame(100, round), &[], false);
        assert_eq!(back.take(&mut b, 0), vec![frame(100, round)]);
        drop((guest, listening));
        back.go();
        assert_eq!(back.state(), State::Waiting);
    }
    // One socket, one interface.
    let e = back.hub.add(2, "w", server(&place)).unwrap_err();
    assert!(e.ends_with("is that of v already: name another"), "{e}");
}

#[test]
fn a_second_connection_waits_for_the_end_of_the_first() {
    let place = place();
    let mut back = Back::new(server(&place));
    let first = Guest::connect(&place, USUAL);
    first.start(2);
    back.go();
    let second = Guest::connect(&place, USUAL);
    back.go();
    assert!(back.said.last().unwrap().starts_with("a second connection"), "{:?}", back.said);
    drop((first, second));
    let third = Guest::connect(&place, USUAL);
    third.start(2);
    back.go();
    back.go();
    assert_eq!(back.state(), State::Running);
}

#[test]
fn a_connection_that_says_nothing_gives_way() {
    let place = place();
    let mut back = Back::new(server(&place));
    let first = Guest::connect(&place, USUAL);
    back.go();
    back.now += 2000;
    let second = Guest::connect(&place, USUAL);
    back.go();
    assert!(back.said.last().unwrap().starts_with("a second connection"), "{:?}", back.said);
    back.now += 1000;
    let third = Guest::connect(&place, USUAL);
    third.start(2);
    back.go();
    assert_eq!(back.state(), State::Running, "{:?}", back.said);
    drop((first, second));
}

#[test]
fn memory_that_is_cut_under_us_ends_the_connection_alone() {
    let before = (fds(), mapped());
    let (mut back, mut guest) = both(USUAL, 2);
    let (mut other, mut good) = both(USUAL, 2);
    let pool = pool();
    let mut b = pool.buffers();
    for _ in 0..10 {
        guest.transmit(0, VnetHdr::default(), &frame(1000, 1), &[], false);
    }
    rustix::fs::ftruncate(&guest.memory, 4096).unwrap();
    for d in back.poll(&mut b, 0) {
        b.free(d);
    }
    back.send(&mut b, 0, &[frame(60, 0)]);
    back.go();
    assert_eq!(
        (back.state(), back.said.last().unwrap().as_str()),
        (State::Waiting, "memory has gone that it had announced")
    );
    good.transmit(0, VnetHdr::default(), &frame(100, 1), &[], false);
    assert_eq!(other.take(&mut b, 0), vec![frame(100, 1)]);
    assert_eq!(pool.in_use(), 0);
    drop((back, guest, other, good));
    nothing_is_left(before);
}

#[test]
fn a_peer_may_vanish_or_err_at_every_step() {
    let before = (fds(), mapped());
    let place = place();
    let mut back = Back::new(server(&place));
    let count = Guest::connect(&place, USUAL).messages(2).len();
    back.go();
    for steps in 0..=count {
        let guest = Guest::connect(&place, USUAL);
        for (request, body, with) in guest.messages(2).into_iter().take(steps) {
            guest.say_with(request, 0, &body, &with);
        }
        // A header without its body, too.
        if steps % 2 == 0 {
            rustix::net::send(&guest.fd, &[5, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0], SendFlags::empty()).unwrap();
        }
        back.go();
        drop(guest);
        back.go();
        assert_eq!(back.state(), State::Waiting);
    }
    let address = |desc: u64, avail: u64, used: u64| {
        [pair(1, 0), [desc, used, avail, 0].map(u64::to_ne_bytes).concat()].concat()
    };
    let region = |guest: u64, size: u64, at: u64| {
        [pair(1, 0), [guest, size, USUAL, at].map(u64::to_ne_bytes).concat()].concat()
    };
    let exe = File::open("/proc/self/exe").unwrap();
    let memory = file(1 << 20);
    type Wrong<'a> = (u32, Vec<u8>, Vec<BorrowedFd<'a>>, &'a str);
    let wrong: Vec<Wrong<'_>> = vec![
        (99, vec![], vec![], "message 99 is not known here"),
        (6, vec![0; 16], vec![], "message 6 is not known here"),
        (8, vec![0; 4], vec![], "message 8 has 4 bytes, not 8"),
        (
            2,
            (1u64 << 34).to_ne_bytes().to_vec(),
            vec![],
            "its driver takes features that were not offered: 0x400000000",
        ),
        (8, pair(32, 256), vec![], "a message speaks of queue 32, there are 32"),
        (18, pair(u32::MAX, 1), vec![], "a message speaks of queue 4294967295"),
        (8, pair(1, 255), vec![], "queue 1: 255 descriptors, not a power of two"),
        (8, pair(1, 65_536), vec![], "queue 1: 65536 descriptors, not a power of two"),
        (9, address(0, 0, 0), vec![], "queue 1: its descriptors at 0x0 do not lie"),
        (9, address(USER + 4, USER, USER), vec![], "queue 1: its descriptors at 0x7f0000000004 do not lie"),
        (9, address(USER, USER + RINGS - 516, USER), vec![], "queue 1: its available chains at"),
        (9, address(USER, USER, u64::MAX - 3), vec![], "queue 1: its used chains at"),
        (12, 1u64.to_ne_bytes().to_vec(), vec![], "a message comes without its descriptor"),
        (12, 1u64.to_ne_bytes().to_vec(), vec![exe.as_fd()], "an interrupt is no eventfd"),
        (5, region(0, 1 << 20, 0), vec![], "1 regions of memory come with 0 files"),
        (5, region(0, 1 << 20, 0), vec![exe.as_fd()], "region 0 of its memory: no memory file"),
        (5, region(0, 0, 0), vec![memory.as_fd()], "region 0 of its memory: 0 bytes"),
        (5, region(0, (1 << 20) + 1, 0), vec![memory.as_fd()], "region 0 of its memory: it ends at 1048577"),
        (5, region(0, 1 << 20, 1), vec![memory.as_fd()], "region 0 of its memory: it ends at 1048577"),
        (5, region(0, 8, u64::MAX), vec![memory.as_fd()], "region 0 of its memory: 8 bytes"),
        (5, region(u64::MAX, 8, 0), vec![memory.as_fd()], "region 0 of its memory: 8 bytes"),
        (5, region(0, u64::MAX, 0), vec![memory.as_fd()], "its memory has more than"),
        (5, pair(33, 0), vec![], "33 regions of memory in 8 bytes"),
        (5, vec![0; 1033], vec![], "a message of 1033 bytes"),
        (1, vec![0; 8], vec![memory.as_fd(); 33], ""),
    ];
    for (request, body, with, why) in wrong {
        let guest = Guest::connect(&place, USUAL);
        guest.start(2);
        back.go();
        assert_eq!(back.state(), State::Running, "{:?}", back.said);
        guest.say_with(request, 0, &body, &with);
        back.go();
        if !why.is_empty() {
            assert!(back.said.last().unwrap().starts_with(why), "{:?}, not {why}", back.said.last());
            assert_eq!(back.state(), State::Waiting);
        }
        drop(guest);
        back.go();
        back.go();
    }
    let guest = Guest::connect(&place, USUAL);
    rustix::net::send(&guest.fd, b"GET / HTTP/1.0\r\n", SendFlags::empty()).unwrap();
    back.go();
    assert!(
        back.said.last().unwrap().ends_with("bytes came that begin no message of version 1"),
        "{:?}",
        back.said
    );
    drop((guest, back, exe, memory));
    nothing_is_left(before);
}

#[test]
fn a_peer_that_writes_anything_anywhere_does_no_harm() {
    let place = place();
    let mut back = Back::new(Config { gso: true, ..server(&place) });
    let (pool, mut x) = (pool(), 0x9e37_79b9_7f4a_7c15u64);
    let mut b = pool.buffers();
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let until = Instant::now() + Duration::from_secs(20);
    let (mut received, mut sent, mut ended, mut writes) = (0, 0, 0, 0u64);
    while writes < 1_000_000 && Instant::now() < until {
        let guest = Guest::connect(&place, USUAL | f::CSUM | f::HOST_TSO4);
        guest.start(2);
        back.go();
        back.go();
        assert_eq!(back.state(), State::Running, "{:?}", back.said);
        for n in 0..u64::from(SIZE) {
            for (ring, flags) in [(0, 2), (1, 0)] {
                let d =
                    [&(FAR + n * 4096).to_ne_bytes()[..], &1500u32.to_ne_bytes(), &[flags, 0, 0, 0]].concat();
                guest.put(guest.rings[ring].at + n * 16, &d);
            }
        }
        for turn in 0..2000 {
            for _ in 0..8 {
                let r = random();
                let ring = (r & 1) as usize;
                let at = guest.rings[ring].at;
                // Mostly what makes sense, so that the queues are not given up at once.
                let d = at + (r >> 16) % u64::from(SIZE) * 16;
                let address = if r >> 60 == 0 { random() } else { FAR + random() % (BUFFERS - 3000) };
                let rare = (r >> 40) % 2000 == 0;
                match (r >> 8) % 16 {
                    0..=5 if ring == 1 || address < FAR + BUFFERS || rare => {
                        guest.put(d, &address.to_ne_bytes())
                    }
                    6..=9 => guest.put(d + 8, &(1000 + random() as u32 % 2000).to_ne_bytes()),
                    10 if ring == 1 || rare => guest.put(d + 12, &[(r >> 44) as u8 & 7, 0]),
                    11 => guest.put(d + 12, &[(ring as u8 ^ 1) << 1 | (r >> 44) as u8 & 1, 0]),
                    12 => guest.put(d + 14, &[(r >> 32) as u8, 0]),
                    13 => guest.put(
                        at + 4096 + 4 + (r >> 16) % u64::from(SIZE) * 2,
                        &[(r >> 32) as u8, u8::from(rare)],
                    ),
                    14 if rare => guest.put(at + (r >> 16) % 0x8000, &random().to_ne_bytes()),
                    14 => guest.put(RINGS + (r >> 16) % (BUFFERS - 8), &random().to_ne_bytes()),
                    _ => {
                        let used = u16::from_ne_bytes(guest.get(at + 8192 + 2));
                        guest.put(at + 4096 + 2, &used.wrapping_add((r >> 32) as u16 % 8).to_ne_bytes());
                    }
                }
                writes += 1;
            }
            if back.queues.is_some() {
                for d in back.poll(&mut b, 0) {
                    received += 1;
                    assert_eq!(bytes_of(&b, &d).len(), b.total_len(&d));
                    b.free(d);
                }
                sent += back.send(&mut b, 0, &[frame(1000, 0)]).packets;
                let _ = back.queues.as_ref().unwrap().0[0].ready();
            }
            assert_eq!(pool.in_use(), 0);
            if turn % 16 == 0 {
                back.go();
                if back.state() != State::Running {
                    ended += 1;
                    break;
                }
            }
        }
        drop(guest);
        back.go();
    }
    assert!(
        received > 1000 && sent > 100 && ended > 10,
        "{received} {sent} packets, {ended} connections, {writes} writes"
    );
}
