//! AF_XDP on real veth pairs, against raw sockets and the stack of the kernel.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use drivers::af_xdp::{self, Config, Handle, Mode};
use drivers::host::Device;
use drivers::{Control, af_packet};
use graph::io::Ready;
use graph::{Buffer, Buffers, Packets, Pool, Vector, flags};
use std::sync::Arc;

const MODES: [Mode; 2] = [Mode::Native, Mode::Generic];

fn config(ns: &Ns, name: &str, mode: Mode, pool: &Arc<Pool>) -> Config {
    Config { netns: ns.opt(), mode: Some(mode), ..Config::new(name, 7, pool) }
}

/// A namespace with `eth0`, one with its `peer`, and buffers.
fn cable() -> (Ns, Ns, Arc<Pool>) {
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    (r, h, pool())
}

/// An open device, whose queues have buffers to receive into.
fn open(config: &Config, b: &mut Buffers) -> Device<Handle> {
    let mut d = af_xdp::open(config).unwrap();
    d.rx.iter_mut().for_each(|rx| assert_silent(&mut **rx, b));
    d
}

fn assert_silent(rx: &mut dyn graph::RxQueue, b: &mut Buffers) {
    let mut v = Vector::boxed();
    assert_eq!(rx.poll(b, 0, &mut v), 0);
}

fn send(d: &mut Device<Handle>, b: &mut Buffers, frames: &[Vec<u8>]) -> graph::TxReport {
    let mut packets: Vec<_> = frames.iter().map(|f| b.alloc_bytes(f).unwrap()).collect();
    d.tx[0].send(b, Packets::drain(&mut packets))
}

#[test]
fn frames_pass_both_ways() {
    if !root() {
        return;
    }
    for mode in MODES {
        let (r, h, pool) = cable();
        let peer = Raw::new(&h, "peer");
        let mut b = pool.buffers();
        let mut d = open(&config(&r, "eth0", mode, &pool), &mut b);
        assert_eq!((d.mtu, d.mac), (1500, d.handle.host.link.mac().unwrap()));
        // More than the rings have entries, so that each is used again.
        for round in 0..8 {
            let frames: Vec<_> = [60, 61, 1000, 1514].iter().map(|n| frame(*n, *n as u8 ^ round)).collect();
            for _ in 0..25 {
                frames.iter().for_each(|f| peer.send(f));
                let mut got = Vec::new();
                poll_n(&mut *d.rx[0], &mut b, frames.len(), |_, p, bytes| {
                    assert_eq!((p.rx, p.l2, p.flags), (7, p.off, 0));
                    got.push(bytes);
                });
                assert!(got == frames, "{mode:?}: changed");
                let report = send(&mut d, &mut b, &frames);
                assert_eq!((report.packets, report.bytes, report.full, report.errors), (4, 2635, 0, 0));
                for f in &frames {
                    assert_eq!(peer.recv().as_ref(), Some(f), "{mode:?}");
                }
            }
        }
        assert_eq!(d.handle.drops(), drivers::RxDrops::default());
        drop((d, b));
        assert_eq!(pool.in_use(), 0, "{mode:?}");
    }
}

#[test]
fn large_frames_lie_in_several_buffers() {
    if !root() {
        return;
    }
    for mode in MODES {
        let (r, h, pool) = cable();
        r.ip("link set eth0 mtu 9000");
        h.ip("link set peer mtu 9000");
        let peer = Raw::new(&h, "peer");
        let mut b = pool.buffers();
        let mut d = open(&config(&r, "eth0", mode, &pool), &mut b);
        assert_eq!(d.conflicts, [""; 0]);
        let frames: Vec<_> = [1920, 1921, 4000, 60, 9014, 9014].iter().map(|n| frame(*n, *n as u8)).collect();
        for _ in 0..200 {
            frames.iter().for_each(|f| peer.send(f));
            assert!(receive(&mut *d.rx[0], &mut b, frames.len()) == frames, "{mode:?}");
            assert_eq!(send(&mut d, &mut b, &frames).packets as usize, frames.len());
            frames.iter().for_each(|f| assert!(peer.recv().as_ref() == Some(f), "{mode:?}: {}", f.len()));
        }
        assert_eq!(d.handle.drops(), drivers::RxDrops::default());
        drop((d, b));
        assert_eq!(pool.in_use(), 0, "{mode:?}");
    }
}

#[test]
fn what_nobody_takes_up_is_dropped_and_counted() {
    if !root() {
        return;
    }
    let (r, h, pool) = cable();
    let peer = Raw::new(&h, "peer");
    let mut b = pool.buffers();
    let mut d = open(&Config { slots: Some(64), ..config(&r, "eth0", Mode::Native, &pool) }, &mut b);
    (0..100).for_each(|i| peer.send(&frame(60, i)));
    wait_for("all to come", || d.handle.drops().no_buffer == 36);
    assert_eq!(receive(&mut *d.rx[0], &mut b, 64).len(), 64);
    peer.send(&frame(60, 200));
    assert_eq!(receive(&mut *d.rx[0], &mut b, 1), [frame(60, 200)]);
}

#[test]
fn without_buffers_it_looks_again() {
    if !root() {
        return;
    }
    let (r, h, pool) = cable();
    let peer = Raw::new(&h, "peer");
    let mut b = pool.buffers();
    let hoard: Vec<Buffer> = std::iter::from_fn(|| b.alloc()).collect();
    let mut d = open(&config(&r, "eth0", Mode::Native, &pool), &mut b);
    assert!(matches!(d.rx[0].ready(), Ready::At(_)), "nothing would ever wake the worker");
    hoard.into_iter().for_each(|buf| b.free_one(buf));
    assert_silent(&mut *d.rx[0], &mut b);
    assert_eq!(d.rx[0].ready(), Ready::Fd);
    peer.send(&frame(60, 1));
    assert_eq!(receive(&mut *d.rx[0], &mut b, 1), [frame(60, 1)]);
}

#[test]
fn a_deleted_device_ends_quietly_and_one_that_is_down_refuses() {
    if !root() {
        return;
    }
    for mode in MODES {
        let (r, h, pool) = cable();
        let peer = Raw::new(&h, "peer");
        let mut b = pool.buffers();
        let mut d = open(&config(&r, "eth0", mode, &pool), &mut b);
        assert!(d.handle.alive());
        assert_eq!(d.rx[0].ready(), Ready::Fd);
        for i in 0..3 {
            d.handle.host.link.set_up(false).unwrap();
            // What was posted when the device went down may count as sent.
            for _ in 0..2 {
                send(&mut d, &mut b, &[frame(60, 1), frame(60, 2)]);
            }
            let report = send(&mut d, &mut b, &[frame(60, 1), frame(60, 2)]);
            assert_eq!((report.packets, report.no_link), (0, 2), "{mode:?}");
            d.handle.host.link.set_up(true).unwrap();
            wait_for("carrier", || d.handle.host.link.running().unwrap());
            comes(&peer, &mut *d.rx[0], &mut b, &frame(60, i));
            while peer.recv().is_some_and(|f| f != frame(60, 100 + i)) {
                send(&mut d, &mut b, &[frame(60, 100 + i)]);
            }
        }
        r.ip("link del eth0");
        assert!(!d.handle.alive());
        assert_eq!(d.rx[0].ready(), Ready::Never);
        assert_silent(&mut *d.rx[0], &mut b);
        send(&mut d, &mut b, &[frame(60, 1)]);
        let report = send(&mut d, &mut b, &[frame(60, 1), frame(60, 2)]);
        assert_eq!((report.packets, report.no_link), (0, 2));
        drop((d, b));
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn queues_and_settings_are_put_back() {
    if !root() {
        return;
    }
    let (r, h, pool) = (Ns::new(), Ns::new(), pool());
    r.ip(&format!("link add eth0 numrxqueues 4 numtxqueues 4 type veth peer name peer netns {h} numrxqueues 4 numtxqueues 3"));
    h.ip("link set peer up");
    r.ip("link set eth0 up");
    let settings = || {
        let read = |what: &str| r.run(&format!("cat /sys/class/net/eth0/{what}")).trim().to_owned();
        let queues =
            r.run("ls /sys/class/net/eth0/queues").split_whitespace().filter(|q| q.starts_with("rx")).count();
        (
            queues,
            read("napi_defer_hard_irqs"),
            read("gro_flush_timeout"),
            r.ip("link show eth0").contains("quiver"),
        )
    };
    let before = settings();
    let mut b = pool.buffers();
    let d = open(&Config { rx_queues: 3, tx_queues: 4, ..config(&r, "eth0", Mode::Native, &pool) }, &mut b);
    assert_eq!((d.rx.len(), d.tx.len()), (3, 4));
    assert_eq!(settings(), (3, "2".into(), "200000".into(), true));
    let words = d.handle.describe();
    for part in
        ["af-xdp (native, copy)", "3 queues", "put off 2 times for 200 us", "number of receive queues set"]
    {
        assert!(words.contains(part), "{words}");
    }
    let e = af_packet::open(&af_packet::Config { netns: r.opt(), ..af_packet::Config::new("eth0", 1) });
    assert!(e.err().unwrap().to_string().contains("is the device of another interface of this router"));
    drop(d);
    assert_eq!(settings(), before);

    // A number that cannot be had, and a program of somebody else's.
    let error = |c: Config| af_xdp::open(&c).err().unwrap().to_string();
    let e = error(Config { rx_queues: 9, ..config(&r, "eth0", Mode::Native, &pool) });
    assert!(e.contains("9 receive queues where it has") && e.contains("give `rx-queues: "), "{e}");
    let e = error(Config { slots: Some(100), ..config(&r, "eth0", Mode::Native, &pool) });
    assert!(e.contains("power of two"), "{e}");
    assert_eq!(settings(), before);
}

#[test]
fn queues_that_were_added_are_taken_away_again() {
    if !root() {
        return;
    }
    let (r, h, pool) = (Ns::new(), Ns::new(), pool());
    r.ip(&format!("link add eth0 numrxqueues 4 numtxqueues 4 type veth peer name peer netns {h} numrxqueues 4 numtxqueues 4"));
    for (ns, device) in [(&h, "peer"), (&r, "eth0")] {
        ns.run(&format!("ethtool -L {device} rx 1 tx 1"));
        ns.ip(&format!("link set {device} up"));
    }
    let queues = || r.run("ls /sys/class/net/eth0/queues").matches("rx-").count();
    let mut b = pool.buffers();
    for (mode, workers) in [(Mode::Native, 1), (Mode::Generic, 1), (Mode::Native, 4)] {
        assert_eq!(queues(), 1);
        // With fewer workers than queues some transmit queues are nobody's.
        let config = Config { rx_queues: 3, tx_queues: workers, ..config(&r, "eth0", mode, &pool) };
        let d = open(&config, &mut b);
        assert_eq!((d.rx.len(), queues()), (3, 3), "{mode:?}");
        drop(d);
        assert_eq!(queues(), 1, "{mode:?}, {workers} workers");
        assert!(!r.ip("link show eth0").contains("quiver"));
    }
}

#[test]
fn rings_leave_buffers_for_packets_under_way() {
    if !root() {
        return;
    }
    let (r, _h, pool) = cable();
    let of = |slots, rx_queues| Config { slots, rx_queues, ..config(&r, "eth0", Mode::Native, &pool) };
    assert_eq!(pool.count(), 4096);
    let e = af_xdp::open(&of(Some(4096), 1)).err().unwrap().to_string();
    for part in [
        "rings of eth0 would hold 4096 of the router's 4096 buffers",
        "they may have 3072",
        "fewer queues or slots",
    ] {
        assert!(e.contains(part), "{e}");
    }
    assert!(!r.ip("link show eth0").contains("xdp"));
    assert_eq!(af_xdp::open(&of(Some(2048), 1)).unwrap().handle.slots, 2048);
    assert_eq!(af_xdp::open(&of(None, 1)).unwrap().handle.slots, 256);
    // So many queues that a sixteenth for each were more than there is.
    for (queues, buffers) in [(1, 16_384), (8, 16_384), (16, 16_384), (64, 16_384), (64, 1 << 20)] {
        let slots = af_xdp::slots(None, queues, buffers);
        assert!(slots.is_power_of_two() && queues * slots <= af_xdp::most_held(buffers), "{queues}: {slots}");
    }
    assert_eq!(af_xdp::slots(None, 1, 1 << 20), 2048);
    assert_eq!(af_xdp::slots(Some(512), 64, 16_384), 512);
}

#[test]
fn who_waits_for_the_device_finds_it_as_it_was() {
    if !root() {
        return;
    }
    let (r, _h, pool) = cable();
    let waits = Config { patience: PATIENCE, ..config(&r, "eth0", Mode::Native, &pool) };
    for _ in 0..10 {
        let first = af_xdp::open(&waits).unwrap();
        std::thread::scope(|s| {
            let second = s.spawn(|| af_xdp::open(&waits).map(|d| d.handle.describe()));
            drop(first);
            let words = second.join().unwrap().unwrap();
            assert!(words.contains("put off 2 times"), "the first one had not put it back: {words}");
        });
    }
    assert_eq!(r.run("cat /sys/class/net/eth0/napi_defer_hard_irqs").trim(), "0");
}

#[test]
fn addresses_of_linux_that_nobody_reaches_are_named() {
    if !root() {
        return;
    }
    let (r, _h, pool) = cable();
    r.ip("addr add 10.0.0.1/24 dev eth0");
    let d = af_xdp::open(&config(&r, "eth0", Mode::Native, &pool)).unwrap();
    assert_eq!(d.conflicts.len(), 1);
    let words = &d.conflicts[0];
    assert!(
        words.starts_with(&format!(
            "Linux has 10.0.0.1 on eth0 in network namespace {r}, where it hears nothing"
        )),
        "{words}"
    );
    drop(d);
    // A port of the address, of all addresses, or all that is for it: for the last alone ARP is left to Linux.
    for (rule, warns) in [("tcp/22@10.0.0.1", true), ("ospf", true), ("10.0.0.1", false)] {
        let kept = vec![rule.parse().unwrap()];
        let d = af_xdp::open(&Config { kept, ..config(&r, "eth0", Mode::Native, &pool) }).unwrap();
        assert_eq!(d.conflicts.len(), usize::from(warns), "{rule}: {:?}", d.conflicts);
        for words in &d.conflicts {
            assert!(words.contains("Linux has 10.0.0.1 on eth0") && words.contains("no ARP"), "{words}");
        }
    }
}

#[test]
fn partial_checksums_of_linux_are_completed() {
    if !root() {
        return;
    }
    for mode in MODES {
        let (r, h, far, pool) = (Ns::new(), Ns::new(), Ns::new(), pool());
        veth(&r, "eth0", &h, "peer");
        veth(&r, "eth1", &far, "peer");
        for (ns, n) in [(&h, 1), (&far, 2)] {
            ns.run("sysctl -qw net.ipv6.conf.peer.disable_ipv6=0");
            ns.ip(&format!("addr add 10.0.0.{n}/24 dev peer"));
            ns.ip(&format!("addr add fd00::{n}/64 dev peer nodad"));
        }
        let mut b = pool.buffers();
        let mut left = open(&config(&r, "eth0", mode, &pool), &mut b);
        let mut right = open(&config(&r, "eth1", mode, &pool), &mut b);
        // TCP and UDP over both families, whose checksums Linux leaves to veth; the kernel at the other end checks them.
        let server = |kind: &str, port: u16| {
            let code = format!(
                "import socket\ns=socket.socket(socket.AF_INET6,socket.SOCK_{kind})\ns.bind(('::',{port}))\n\
                 {}print('ready',flush=True)\n{}",
                if kind == "STREAM" { "s.listen()\n" } else { "" },
                if kind == "STREAM" {
                    "for _ in range(2):\n c,_=s.accept()\n n=0\n while True:\n  d=c.recv(65536)\n  if not d: break\n  n+=len(d)\n c.sendall(str(n).encode())\n c.close()\n"
                } else {
                    "for _ in range(2):\n d,a=s.recvfrom(2000)\n s.sendto(str(len(d)).encode(),a)\n"
                }
            );
            let mut child = std::process::Command::new("ip")
                .args(["netns", "exec", &far.0, "/usr/bin/python3", "-c", &code])
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
            child
        };
        let servers = [server("STREAM", 7000), server("DGRAM", 7001)];
        // In generic mode super-frames would come, which AF_XDP cannot tell from frames.
        let bytes = if mode == Mode::Native { 100_000 } else { 1000 };
        let code = format!(
            "import socket\nfor a in ['10.0.0.2','fd00::2']:\n s=socket.create_connection((a,7000),5)\n \
                    s.sendall(b'x'*{bytes})\n s.shutdown(1)\n assert s.recv(100)==b'{bytes}'\n \
                    f=socket.AF_INET6 if ':' in a else socket.AF_INET\n u=socket.socket(f,socket.SOCK_DGRAM)\n u.settimeout(5)\n \
                    u.sendto(b'y'*501,(a,7001))\n assert u.recv(100)==b'501'\n"
        );
        let mut client = std::process::Command::new("ip")
            .args(["netns", "exec", &h.0, "/usr/bin/python3", "-c", &code])
            .spawn()
            .unwrap();
        let (mut v, mut partial) = (Vector::boxed(), 0);
        let mut status = None;
        wait_for("the client to end", || {
            left.rx[0].poll(&mut b, 0, &mut v);
            partial += v.as_slice().iter().filter(|d| d.has(flags::CSUM_PARTIAL)).count();
            right.tx[0].send(&mut b, v.take());
            right.rx[0].poll(&mut b, 0, &mut v);
            left.tx[0].send(&mut b, v.take());
            status = client.try_wait().unwrap();
            status.is_some()
        });
        for mut s in servers {
            let _ = s.kill();
            let _ = s.wait();
        }
        assert!(status.unwrap().success(), "{mode:?}");
        assert!(partial > 4, "{mode:?}: this proves nothing without partial checksums");
        drop((left, right, b));
        assert_eq!(pool.in_use(), 0);
    }
}
