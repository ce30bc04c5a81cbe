//! TAP against the kernel's stack on its host side.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use drivers::tap::{self, Config, Device};
use drivers::{Offload, af_packet};
use graph::io::Ready;
use graph::{Packets, RxQueue, TxQueue, flags};
use packet::MacAddr;
use std::sync::atomic::Ordering::Relaxed;

fn config(ns: &Ns, name: &str) -> Config {
    Config { netns: ns.opt(), ..Config::new(name, 7) }
}

fn error(c: &Config) -> String {
    tap::open(c).err().unwrap().to_string()
}

#[test]
fn frames_pass_both_ways() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let mut d = tap::open(&Config { host_mtu: Some(9000), ..config(&ns, "tap0") }).unwrap();
    assert_eq!(d.mtu, 9000);
    let pool = pool();
    let mut b = pool.buffers();
    let host = Raw::new(&ns, "tap0");
    let mut frames: Vec<_> =
        [60, 14, 1514, 2048, 2049, 4224, 4225, 9014, 9014, 61, 9014].map(|n| frame(n, n as u8)).to_vec();
    let mut tagged = frame(200, 1);
    tagged[12..16].copy_from_slice(&[0x88, 0xa8, 0x20, 9]);
    frames.push(tagged);
    frames.iter().for_each(|f| host.send(f));
    let mut got = Vec::new();
    poll_n(&mut *d.rx[0], &mut b, frames.len(), |_, p, bytes| {
        assert_eq!((p.rx, p.l2, p.flags & !flags::CHAINED), (7, p.off, 0));
        got.push(bytes);
    });
    assert!(got == frames);
    let mut descs: Vec<_> = frames.iter().map(|f| b.alloc_bytes(f).unwrap()).collect();
    let report = d.tx[0].send(&mut b, Packets::drain(&mut descs));
    let bytes: usize = frames.iter().map(Vec::len).sum();
    assert_eq!((report.packets, report.bytes), (frames.len() as u64, bytes as u64));
    frames.iter().for_each(|f| assert!(host.recv().as_ref() == Some(f)));
    assert_silent(&mut *d.rx[0], &mut b);
    assert_eq!(pool.in_use(), 0);
}

type Queues = (Box<dyn RxQueue>, Box<dyn TxQueue>);

fn first(d: Device) -> (Queues, tap::Handle) {
    let Device { mut rx, mut tx, handle, .. } = d;
    ((rx.remove(0), tx.remove(0)), handle)
}

#[test]
fn hosts_with_default_offloads_talk() {
    if !root() {
        return;
    }
    // Both behind a TAP; then one behind a veth: what a TAP takes out of Linux, AF_PACKET puts in, and the other way.
    for (veth_side, offload) in
        [(false, Offload::Auto), (true, Offload::Auto), (false, Offload::On), (true, Offload::On)]
    {
        let (a, b, r) = (Ns::new(), Ns::new(), Ns::new());
        let (qa, _ha) = first(tap::open(&Config { offload, ..config(&a, "peer") }).unwrap());
        let mut keep = None;
        let qb = if veth_side {
            veth(&r, "eth0", &b, "peer");
            let c = af_packet::Config { netns: r.opt(), offload, ..af_packet::Config::new("eth0", 1) };
            let mut d = af_packet::open(&c).unwrap();
            (d.rx.remove(0), d.tx.remove(0))
        } else {
            let (q, h) = first(tap::open(&Config { offload, ..config(&b, "peer") }).unwrap());
            keep = Some(h);
            q
        };
        let caps = qa.1.caps();
        assert!(caps.checksum && caps.tso && caps.uso);
        a.ip("addr add 10.77.0.1/24 dev peer");
        b.ip("addr add 10.77.0.2/24 dev peer");
        let wire = Wire::new(qa, qb);
        udp_transfer(&a, &b, "10.77.0.2", &[0, 1, 1472, 1473, 9000, 60_000]);
        assert!(
            wire.passed.partial.load(Relaxed) >= 3,
            "Linux gave no partial checksum: the test tests nothing"
        );
        tcp_transfer(&a, &b, "10.77.0.2", 20 << 20);
        tcp_transfer(&b, &a, "10.77.0.1", 20 << 20);
        assert!(wire.passed.supers.load(Relaxed) > 10, "Linux gave no super-frame: the test tests nothing");
        udp_segments(&a, &b, "10.77.0.2", 1000, 40);
        udp_segments(&b, &a, "10.77.0.1", 500, 20);
        let p = wire.end();
        assert!(p.udp_supers.load(Relaxed) >= 2);
        assert_eq!(p.errors.load(Relaxed), 0);
        drop(keep);
    }
}

#[test]
fn without_offloads_linux_gives_whole_packets() {
    if !root() {
        return;
    }
    let (a, b) = (Ns::new(), Ns::new());
    let open = |ns: &Ns| tap::open(&Config { offload: Offload::Off, ..config(ns, "peer") }).unwrap();
    let ((qa, _ha), (qb, _hb)) = (first(open(&a)), first(open(&b)));
    a.ip("addr add 10.77.0.1/24 dev peer");
    b.ip("addr add 10.77.0.2/24 dev peer");
    let wire = Wire::new(qa, qb);
    udp_transfer(&a, &b, "10.77.0.2", &[1, 1473]);
    tcp_transfer(&a, &b, "10.77.0.2", 1 << 20);
    let p = wire.end();
    assert_eq!((p.partial.load(Relaxed), p.supers.load(Relaxed), p.errors.load(Relaxed)), (0, 0, 0));
}

#[test]
fn the_host_side_is_as_configured() {
    if !root() {
        return;
    }
    let ns = Ns::unmade();
    let mac = MacAddr([2, 0, 0, 0, 0x12, 0x34]);
    let c = Config {
        netns_create: true,
        host_mac: Some(mac),
        host_mtu: Some(1700),
        bridge: Some("br0".into()),
        bridge_create: true,
        rx_ring: Some(256),
        carrier: false,
        ..config(&ns, "inside")
    };
    tap::probe(&c).unwrap();
    let d = tap::open(&c).unwrap();
    assert!(d.handle.made_netns && d.handle.made_bridge && d.handle.alive());
    wait_for("no carrier", || !d.handle.link.running().unwrap());
    let s = d.handle.link.state().unwrap();
    assert_eq!((s.mac, s.mtu, s.up), (mac, 1700, true));
    let text = ns.ip("link show inside");
    assert!(
        text.contains("master br0") && text.contains("NO-CARRIER") && text.contains("qlen 256"),
        "{text}"
    );
    assert!(ns.ip("link show br0").contains("UP"));
    d.handle.set_carrier(true).unwrap();
    wait_for("carrier", || d.handle.link.running().unwrap());
    d.handle.set_carrier(false).unwrap();
    wait_for("no carrier", || !d.handle.link.running().unwrap());
    drop(d);
    wait_for("the device to vanish", || !ns.ip("link").contains("inside"));
    // All of it again: namespace and bridge are there.
    let d = tap::open(&c).unwrap();
    assert!(!d.handle.made_netns && !d.handle.made_bridge);
    assert_eq!(d.handle.link.mac().unwrap(), mac);
}

#[test]
fn a_persistent_device_stays_and_is_taken_again() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let c = Config { persist: true, bridge: Some("br0".into()), bridge_create: true, ..config(&ns, "tap0") };
    let first = tap::open(&c).unwrap();
    let index = first.handle.link.ifindex().unwrap();
    let mac = first.mac;
    drop(first);
    assert!(ns.ip("link show tap0").contains("master br0"));
    tap::probe(&c).unwrap();
    let again = tap::open(&c).unwrap();
    assert_eq!((again.handle.link.ifindex().unwrap(), again.mac), (index, mac));
    again.handle.set_persist(false).unwrap();
    drop(again);
    wait_for("the device to vanish", || !ns.ip("link").contains("tap0"));
}

#[test]
fn a_persistent_device_with_several_queues_is_taken_with_one() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let c = Config { persist: true, ..config(&ns, "tap0") };
    let first = tap::open(&Config { rx_queues: 2, ..c.clone() }).unwrap();
    let index = first.handle.ifindex;
    // Of such a device others could take a queue as well.
    let hasty = Config { patience: Default::default(), ..c.clone() };
    for held in [hasty.clone(), Config { rx_queues: 2, ..hasty }] {
        assert!(error(&held).ends_with("another process uses this TAP"), "{}", error(&held));
    }
    drop(first);
    ns.ip("addr add 10.77.0.1/24 dev tap0");
    let mut again = tap::open(&c).unwrap();
    assert_eq!((again.rx.len(), again.handle.ifindex, again.handle.made_anew), (1, index, false));
    assert!(ns.ip("addr show tap0").contains("10.77.0.1/24"));
    let (pool, host) = (pool(), Raw::new(&ns, "tap0"));
    let mut b = pool.buffers();
    host.send(&frame(60, 1));
    poll_n(&mut *again.rx[0], &mut b, 1, |_, _, bytes| assert_eq!(bytes, frame(60, 1)));
    drop(again);
    assert_eq!(tap::open(&Config { rx_queues: 3, ..c }).unwrap().handle.ifindex, index);
}

#[test]
fn a_persistent_device_with_one_queue_is_made_anew_with_several() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let c = Config { persist: true, ..config(&ns, "tap0") };
    let first = tap::open(&c).unwrap();
    let index = first.handle.ifindex;
    let many = Config { rx_queues: 2, patience: Default::default(), ..c.clone() };
    assert!(error(&many).ends_with("another process uses this TAP"), "{}", error(&many));
    drop(first);
    let again = tap::open(&many).unwrap();
    assert_eq!((again.rx.len(), again.handle.made_anew, again.handle.was_there), (2, true, false));
    assert_ne!(again.handle.ifindex, index);
    again.handle.set_persist(false).unwrap();
    drop(again);
    // What somebody else has made is theirs.
    ns.ip("tuntap add tap0 mode tap");
    let e = error(&many);
    assert!(e.contains("with one queue") && e.contains("ip link del"), "{e}");
    assert!(ns.ip("link").contains("tap0"));
    tap::open(&c).unwrap();
}

#[test]
fn a_device_that_is_not_to_persist_any_more_ends() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let (c, lasting) = (config(&ns, "tap0"), Config { persist: true, ..config(&ns, "tap0") });
    drop(tap::open(&lasting).unwrap());
    // That it was taken is undone: it stays.
    let mut taken = tap::open(&c).unwrap();
    taken.handle.unmake();
    drop(taken);
    assert!(ns.ip("link").contains("tap0"));
    drop(tap::open(&c).unwrap());
    wait_for("the device to vanish", || !ns.ip("link").contains("tap0"));
    // What somebody else has made is theirs.
    ns.ip("tuntap add tap0 mode tap");
    drop(tap::open(&c).unwrap());
    assert!(ns.ip("link").contains("tap0"));
}

#[test]
fn several_queues_share_the_packets() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let mut d = tap::open(&Config { rx_queues: 2, tx_queues: 3, ..config(&ns, "tap0") }).unwrap();
    assert_eq!((d.rx.len(), d.tx.len()), (2, 3));
    ns.ip("addr add 10.77.0.1/24 dev tap0");
    ns.ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev tap0");
    let (pool, mut v) = (pool(), graph::Vector::boxed());
    let mut b = pool.buffers();
    ns.within(|| {
        for _ in 0..64 {
            let s = std::net::UdpSocket::bind("10.77.0.1:0").unwrap();
            s.send_to(b"x", "10.77.0.2:9").unwrap();
        }
    });
    let mut by_queue = [0; 2];
    wait_for("64 packets", || {
        for (i, q) in d.rx.iter_mut().enumerate() {
            by_queue[i] += q.poll(&mut b, 0, &mut v);
            b.free_all(v.take());
        }
        by_queue.iter().sum::<usize>() == 64
    });
    assert!(by_queue.iter().all(|n| *n > 0), "{by_queue:?}");
    let host = Raw::new(&ns, "tap0");
    for (i, q) in d.tx.iter_mut().enumerate() {
        let p = b.alloc_bytes(&frame(60 + i, 1)).unwrap();
        assert_eq!(q.send(&mut b, Packets::drain(&mut vec![p])).packets, 1);
        assert_eq!(host.recv(), Some(frame(60 + i, 1)));
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_deleted_device_ends_quietly() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let mut d = tap::open(&config(&ns, "tap0")).unwrap();
    let (pool, mut v) = (pool(), graph::Vector::boxed());
    let mut b = pool.buffers();
    ns.ip("link set tap0 down");
    let p = b.alloc_bytes(&frame(60, 1)).unwrap();
    assert_eq!(d.tx[0].send(&mut b, Packets::drain(&mut vec![p])).no_link, 1);
    assert_eq!(d.rx[0].poll(&mut b, 0, &mut v), 0);
    assert_eq!(d.rx[0].ready(), Ready::Fd);
    ns.ip("link del tap0");
    assert!(!d.handle.alive());
    assert_silent(&mut *d.rx[0], &mut b);
    assert_eq!(d.rx[0].ready(), Ready::Never);
    let p = b.alloc_bytes(&frame(60, 1)).unwrap();
    assert_eq!(d.tx[0].send(&mut b, Packets::drain(&mut vec![p])).no_link, 1);
    assert_eq!(pool.in_use(), 0);
    // The name is free while the old queues are still held.
    let again = tap::open(&config(&ns, "tap0")).unwrap();
    assert!(again.handle.alive());
}

#[test]
fn a_killed_quiver_leaves_the_name_free() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let me = std::env::current_exe().unwrap();
    let mut holder = std::process::Command::new(me)
        .args(["--exact", "holds_a_tap_until_killed", "--nocapture"])
        .env("QAFP_HOLD", &ns.0)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the other process's TAP", || ns.ip("link").contains("tap0"));
    assert!(error(&config(&ns, "tap0")).contains("another process uses this TAP"));
    holder.kill().unwrap();
    tap::open(&config(&ns, "tap0")).unwrap();
    holder.wait().unwrap();
}

/// The other process of `a_killed_quiver_leaves_the_name_free`; without its variable there is nothing to hold.
#[test]
fn holds_a_tap_until_killed() {
    if let Ok(ns) = std::env::var("QAFP_HOLD") {
        let _d = tap::open(&Config { netns: Some(ns), ..Config::new("tap0", 1) }).unwrap();
        std::thread::sleep(PATIENCE * 6);
    }
}

#[test]
fn what_cannot_work_is_said_and_leaves_nothing() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let c = config(&ns, "tap0");
    ns.ip("link add tap0 type veth peer name other");
    assert_eq!(
        error(&c),
        format!("the name tap0 is taken in network namespace {ns}: by a device of another kind")
    );
    assert!(tap::probe(&c).err().unwrap().to_string().contains("by a device of another kind"));
    ns.ip("link del tap0");
    assert_eq!(
        error(&Config { bridge: Some("br9".into()), ..c.clone() }),
        format!(
            "there is no bridge br9 in network namespace {ns}: \"ip -n {ns} link add br9 type bridge\" makes it"
        )
    );
    assert!(error(&Config { host_mtu: Some(70_000), ..c.clone() }).contains("does not take MTU 70000"));
    assert!(
        error(&Config { host_mac: Some(MacAddr::BROADCAST), ..c.clone() })
            .contains("does not take MAC address")
    );
    assert!(!ns.ip("link").contains("tap0"));
    let absent = Ns::unmade();
    let c = config(&absent, "tap0");
    assert!(error(&c).starts_with(&format!("there is no network namespace {absent}")));
    assert!(tap::probe(&c).is_err());
    let c = Config { netns_create: true, host_mtu: Some(70_000), ..c };
    tap::probe(&c).unwrap();
    assert!(error(&c).contains("does not take MTU"));
    assert!(!drivers::netns::exists(&absent.0), "the namespace made for it is gone");
}
