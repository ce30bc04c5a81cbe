//! Several receive queues, and their number as it changes.

use super::*;

#[test]
fn several_queues_share_the_packets() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    h.ip("addr add 10.77.0.1/24 dev peer");
    h.ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev peer");
    let mut d =
        af_packet::open(&Config { rx_queues: 3, tx_queues: 2, ..config(&r, "eth0", RingVersion::V2) })
            .unwrap();
    assert_eq!((d.rx.len(), d.tx.len()), (3, 2));
    let pool = pool();
    let mut b = pool.buffers();
    // What Linux itself sends on the device is not received by us.
    Raw::new(&r, "eth0").send(&frame(70, 97));
    h.within(|| {
        // All are open at once, or one of the ports might be given out twice.
        let sockets: Vec<_> = (0..64).map(|_| std::net::UdpSocket::bind("10.77.0.1:0").unwrap()).collect();
        for s in sockets {
            for i in 0..3u8 {
                s.send_to(&[i], "10.77.0.2:9").unwrap();
            }
        }
    });
    let mut flows = std::collections::HashMap::<[u8; 2], (usize, Vec<u8>)>::new();
    let mut by_queue = [0; 3];
    let mut v = graph::Vector::boxed();
    wait_for("192 packets in three queues", || {
        for (i, q) in d.rx.iter_mut().enumerate() {
            by_queue[i] += q.poll(&mut b, 0, &mut v);
            for p in v.take() {
                let data = b.data(&p);
                let (queue, seen) = flows.entry([data[34], data[35]]).or_insert((i, Vec::new()));
                assert_eq!(*queue, i, "a flow in two queues");
                seen.push(data[42]);
                b.free(p);
            }
        }
        by_queue.iter().sum::<usize>() >= 192
    });
    assert_eq!(by_queue.iter().sum::<usize>(), 192, "no packet twice");
    assert!(by_queue.iter().all(|n| *n > 0), "{by_queue:?}");
    assert!(flows.values().all(|(_, seen)| *seen == [0, 1, 2]), "in order within each flow");
    let peer = Raw::new(&h, "peer");
    for (i, q) in d.tx.iter_mut().enumerate() {
        let p = b.alloc_bytes(&frame(60 + i, 1)).unwrap();
        assert_eq!(q.send(&mut b, Packets::drain(&mut vec![p])).packets, 1);
        assert_eq!(peer.recv(), Some(frame(60 + i, 1)));
    }
    assert_eq!(pool.in_use(), 0);
}

/// What a thread that polls queues is told.
enum Told {
    Take(Vec<Box<dyn graph::RxQueue>>),
    /// To answer when it is between two polls.
    Pass(std::sync::mpsc::Sender<()>),
    /// To give its first queue back.
    Give(std::sync::mpsc::Sender<Box<dyn graph::RxQueue>>),
}

const FLOWS: usize = 256;

/// Sets something when it goes, also where a test fails: threads that it ends would be waited for.
struct AtEnd<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The number in a packet of a flow: none in those of others.
fn numbered(data: &[u8]) -> Option<(usize, u64)> {
    let flow = usize::from(u16::from_be_bytes([*data.get(34)?, *data.get(35)?]));
    let number = u64::from_be_bytes(data.get(42..50)?.try_into().ok()?);
    (data[12..14] == [8, 0] && flow < FLOWS).then_some((flow, number))
}

/// UDP packets of all flows by turns, each with its number among those of its flow, and as many under way as a ring holds well.
fn flood(peer: &Raw, end: &std::sync::atomic::AtomicBool, got: &std::sync::atomic::AtomicU64) -> u64 {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0];
    f.extend([10, 77, 0, 1, 10, 77, 0, 2, 0, 0, 0, 9, 0, 26, 0, 0]);
    f.resize(60, 0);
    // On one processor: Linux hands packets to that which sends them, and who moves overtakes what waits on another.
    let tid = rustix::thread::gettid();
    let mut one = rustix::thread::CpuSet::new();
    let all = rustix::thread::sched_getaffinity(Some(tid)).unwrap();
    one.set((0..).find(|cpu| all.is_set(*cpu)).unwrap());
    rustix::thread::sched_setaffinity(Some(tid), &one).unwrap();
    let mut round = 0u64;
    while !end.load(Relaxed) {
        if round * FLOWS as u64 > got.load(Relaxed) + 1024 {
            std::thread::yield_now();
            continue;
        }
        round += 1;
        for flow in 0..FLOWS as u16 {
            f[34..36].copy_from_slice(&flow.to_be_bytes());
            f[42..50].copy_from_slice(&round.to_be_bytes());
            peer.send(&f);
        }
    }
    round * FLOWS as u64
}

#[test]
fn queues_come_and_go_under_a_flood() {
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::sync::mpsc::{Sender, channel};
    if !root() {
        return;
    }
    for workers in [1, 2] {
        let (r, h) = (Ns::new(), Ns::new());
        veth(&r, "eth0", &h, "peer");
        let mut d = open(&r, "eth0", RingVersion::V2);
        let pool = pool();
        let (end, sent_all) = (AtomicBool::new(false), AtomicBool::new(false));
        let last: Vec<AtomicU64> = (0..FLOWS).map(|_| AtomicU64::new(0)).collect();
        let (got, moved) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|s| {
            let (ends, received) = (AtEnd(&end), AtEnd(&sent_all));
            let worker = |_| {
                let (tell, told) = channel();
                let (pool, last, got, moved, sent_all) = (&pool, &last, &got, &moved, &sent_all);
                s.spawn(move || {
                    let (mut b, mut v) = (pool.buffers(), graph::Vector::boxed());
                    let mut queues: Vec<Box<dyn graph::RxQueue>> = vec![];
                    let mut idle = Instant::now();
                    while !sent_all.load(Relaxed) || idle.elapsed() < Duration::from_millis(200) {
                        match told.try_recv() {
                            Ok(Told::Take(more)) => queues.extend(more),
                            Ok(Told::Pass(back)) => back.send(()).unwrap(),
                            Ok(Told::Give(back)) => back.send(queues.remove(0)).unwrap(),
                            Err(_) => {}
                        }
                        for (n, q) in queues.iter_mut().enumerate() {
                            q.poll(&mut b, 0, &mut v);
                            for p in v.take() {
                                if let Some((flow, number)) = numbered(b.data(&p)) {
                                    let before = last[flow].swap(number, Relaxed);
                                    assert!(before < number, "flow {flow}: {number} behind {before}");
                                    got.fetch_add(1, Relaxed);
                                    moved.fetch_add(u64::from(n != 0), Relaxed);
                                }
                                b.free(p);
                                idle = Instant::now();
                            }
                        }
                    }
                });
                tell
            };
            let tell: Vec<Sender<Told>> = (0..workers).map(worker).collect();
            let pass = || {
                for t in &tell {
                    let (back, done) = channel();
                    t.send(Told::Pass(back)).unwrap();
                    done.recv().unwrap();
                }
            };
            tell[0].send(Told::Take(std::mem::take(&mut d.rx))).unwrap();
            let (peer, end, got) = (Raw::new(&h, "peer"), &end, &got);
            let sender = s.spawn(move || flood(&peer, end, got));
            let mut have = 1;
            for n in (0..40).map(|i| [2, 4, 3, 1][i % 4]) {
                let q = d.handle.resize().unwrap();
                for (i, queue) in q.open(n).unwrap().into_iter().enumerate() {
                    tell[i % workers].send(Told::Take(vec![queue])).unwrap();
                }
                q.turn().unwrap();
                pass();
                q.settled();
                for i in 0..have {
                    let (back, queue) = channel();
                    tell[i % workers].send(Told::Give(back)).unwrap();
                    drop(queue.recv().unwrap());
                }
                q.close().unwrap();
                have = n;
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(ends);
            let sent = sender.join().unwrap();
            drop(received);
            wait_for("all packets", || got.load(Relaxed) >= sent);
            assert_eq!((got.load(Relaxed), d.handle.drops()), (sent, drivers::RxDrops::default()));
            assert!(moved.load(Relaxed) > sent / 10, "few went through other queues");
        });
        assert_eq!(pool.in_use(), 0);
    }
}
