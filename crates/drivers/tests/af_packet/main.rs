//! AF_PACKET on real veth pairs, against raw sockets and the stack of the kernel.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod queues;

use common::*;
use drivers::af_packet::{self, Config, Handle, RingVersion};
use drivers::host::Device;
use drivers::{Control, LinkWatch, Offload, link, netns};
use graph::io::Ready;
use graph::{Buffer, Buffers, Packets, flags};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const RINGS: [RingVersion; 2] = [RingVersion::V2, RingVersion::V3];

fn config(ns: &Ns, name: &str, ring: RingVersion) -> Config {
    Config { netns: ns.opt(), ring, ..Config::new(name, 7) }
}

fn open(ns: &Ns, name: &str, ring: RingVersion) -> Device<Handle> {
    af_packet::open(&config(ns, name, ring)).unwrap()
}

fn send(d: &mut Device<Handle>, buffers: &mut Buffers, frames: &[Vec<u8>]) -> graph::TxReport {
    let mut descs: Vec<_> = frames.iter().map(|f| buffers.alloc_bytes(f).unwrap()).collect();
    d.tx[0].send(buffers, Packets::drain(&mut descs))
}

#[test]
fn frames_pass_both_ways() {
    if !root() {
        return;
    }
    for ring in RINGS {
        let (r, h) = (Ns::new(), Ns::new());
        veth(&r, "eth0", &h, "peer");
        veth(&r, "eth1", &h, "other");
        let (peer, other) = (Raw::new(&h, "peer"), Raw::new(&h, "other"));
        peer.send(&frame(60, 99));
        let mut d = open(&r, "eth0", ring);
        assert_eq!((d.mtu, d.mac), (1500, d.handle.host.link.mac().unwrap()));
        let pool = pool();
        let mut b = pool.buffers();

        other.send(&frame(60, 98));
        let frames: Vec<_> = [14, 60, 61, 1000, 1514].iter().map(|n| frame(*n, *n as u8)).collect();
        frames.iter().for_each(|f| peer.send(f));
        let mut got = Vec::new();
        poll_n(&mut *d.rx[0], &mut b, frames.len(), |_, p, bytes| {
            assert_eq!((p.rx, p.l2, p.flags), (7, p.off, 0));
            got.push(bytes);
        });
        assert!(got == frames, "{ring:?}: from before the start, from elsewhere, or changed");

        let report = send(&mut d, &mut b, &frames);
        assert_eq!((report.packets, report.bytes, report.full, report.errors), (5, 2649, 0, 0));
        for f in &frames {
            assert_eq!(peer.recv().as_ref(), Some(f));
        }
        // What Linux itself sends on the device is not received by us.
        Raw::new(&r, "eth0").send(&frame(70, 97));
        assert_eq!(peer.recv(), Some(frame(70, 97)));
        // More than one vector, and not one of our own.
        let many: Vec<_> = (0..256).map(|i| frame(100 + i, i as u8)).collect();
        assert_eq!(send(&mut d, &mut b, &many).packets, 256);
        many.iter().for_each(|f| assert_eq!(peer.recv().as_ref(), Some(f)));
        assert_silent(&mut *d.rx[0], &mut b);
        many.iter().for_each(|f| peer.send(f));
        assert!(receive(&mut *d.rx[0], &mut b, 256) == many);
        assert_eq!(d.handle.drops(), drivers::RxDrops::default());
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn what_the_device_refuses_is_counted() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let (mut d, pool) = (open(&r, "eth0", RingVersion::V2), pool());
    let mut b = pool.buffers();
    let peer = Raw::new(&h, "peer");
    let frames = [frame(60, 1), frame(1515, 2), frame(13, 3), frame(1514, 4), frame(20_000, 5)];
    let report = send(&mut d, &mut b, &frames);
    assert_eq!((report.packets, report.full, report.errors), (2, 0, 3));
    assert_eq!(peer.recv().as_ref(), Some(&frames[0]));
    assert_eq!(peer.recv().as_ref(), Some(&frames[3]));
    // A tag may come on top of the MTU.
    let mut tagged = frame(1518, 6);
    tagged[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
    assert_eq!(send(&mut d, &mut b, std::slice::from_ref(&tagged)).packets, 1);
    assert_eq!(peer.recv(), Some(tagged));
    d.handle.host.link.set_up(false).unwrap();
    let report = send(&mut d, &mut b, &frames[..1]);
    assert_eq!((report.packets, report.full, report.errors, report.no_link), (0, 0, 0, 1));
    // Up, and without carrier.
    h.ip("link set peer down");
    d.handle.host.link.set_up(true).unwrap();
    // Linux tells of a lost carrier up to a second later; until then the device is full.
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let report = send(&mut d, &mut b, &frames[..1]);
        assert_eq!((report.packets, report.errors, report.full + report.no_link), (0, 0, 1));
        if report.no_link == 1 {
            break;
        }
        assert!(Instant::now() < deadline, "the lost carrier is never told");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn tags_that_the_kernel_takes_out_come_back() {
    if !root() {
        return;
    }
    for ring in RINGS {
        let (r, h) = (Ns::new(), Ns::new());
        veth(&r, "eth0", &h, "peer");
        r.ip("link set eth0 mtu 9000");
        h.ip("link set peer mtu 9000");
        let (mut d, pool) = (open(&r, "eth0", ring), pool());
        let mut b = pool.buffers();
        let peer = Raw::new(&h, "peer");
        let mut frames = Vec::new();
        for len in [64, 1518, 2047, 2048, 2049, 2052, 4000, 9000] {
            for tag in [
                &[0x81, 0, 0x0f, 0xff][..],
                &[0x88, 0xa8, 0x60, 1],
                &[0x81, 0, 0, 0],
                &[0x88, 0xa8, 0, 2, 0x81, 0, 0, 3],
            ] {
                let mut f = frame(len, tag[3]);
                f.splice(12..12, tag.iter().copied());
                f.truncate(len);
                frames.push(f);
            }
        }
        for f in &frames {
            peer.send(f);
        }
        let got = receive(&mut *d.rx[0], &mut b, frames.len());
        for (g, f) in got.iter().zip(&frames) {
            assert!(g == f, "{ring:?}: {} bytes: {:x?} for {:x?}", f.len(), &g[..24], &f[..24]);
        }
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn jumbo_frames_in_slots_and_past_them() {
    if !root() {
        return;
    }
    // The MTU known at the start, and one that was raised later: the frames are larger than the slots then.
    for (ring, early) in [(RingVersion::V2, true), (RingVersion::V2, false), (RingVersion::V3, false)] {
        let (r, h) = (Ns::new(), Ns::new());
        veth(&r, "eth0", &h, "peer");
        let raise = || {
            r.ip("link set eth0 mtu 9000");
            h.ip("link set peer mtu 9000");
        };
        if early {
            raise();
        }
        let (mut d, pool) = (open(&r, "eth0", ring), pool());
        if !early {
            raise();
        }
        let mut b = pool.buffers();
        let peer = Raw::new(&h, "peer");
        let mut frames: Vec<_> = [9014, 60, 2048, 2176, 2177, 4224, 4225, 8999, 1514, 1972, 1973]
            .map(|n| frame(n, n as u8))
            .to_vec();
        let mut tagged = frame(9018, 1);
        tagged[12..16].copy_from_slice(&[0x81, 0, 0, 9]);
        frames.push(tagged);
        for _ in 0..3 {
            frames.iter().for_each(|f| peer.send(f));
            let got = receive(&mut *d.rx[0], &mut b, frames.len());
            for (g, f) in got.iter().zip(&frames) {
                assert!(g == f, "{ring:?} early {early}: {} for {} bytes, or changed", g.len(), f.len());
            }
        }
        assert_eq!(send(&mut d, &mut b, &frames).packets as usize, frames.len());
        frames.iter().for_each(|f| assert!(peer.recv().as_ref() == Some(f)));
        assert_eq!(d.handle.drops(), drivers::RxDrops::default());
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn large_frames_with_too_few_buffers_are_dropped_whole() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let mut d = open(&r, "eth0", RingVersion::V2);
    r.ip("link set eth0 mtu 9000");
    h.ip("link set peer mtu 9000");
    let pool = pool();
    let mut b = pool.buffers();
    let peer = Raw::new(&h, "peer");
    let hoard: Vec<Buffer> = (0..pool.count() - 3).map(|_| b.alloc().unwrap()).collect();
    for n in [9000, 3000, 8000, 60] {
        peer.send(&frame(n, n as u8));
    }
    let got = receive(&mut *d.rx[0], &mut b, 2);
    assert!(got == [frame(3000, 3000u32 as u8), frame(60, 60)], "the queue is out of step with the ring");
    assert_eq!(d.handle.drops().no_buffer, 2);
    hoard.into_iter().for_each(|buf| b.free_one(buf));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn one_poll_does_not_empty_the_pool() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let mut d = open(&r, "eth0", RingVersion::V2);
    r.ip("link set eth0 mtu 9000");
    h.ip("link set peer mtu 9000");
    let peer = Raw::new(&h, "peer");
    // 1,000 buffers, which wait at once.
    let frames: Vec<_> = (0..200).map(|i| frame(9000, i)).collect();
    frames.iter().for_each(|f| peer.send(f));
    let pool =
        graph::Pool::new(graph::PoolConfig { buffers: 640, memory: graph::PoolMemory::Normal }).unwrap();
    let mut b = pool.buffers();
    assert!(receive(&mut *d.rx[0], &mut b, 200) == frames);
    assert_eq!(d.handle.drops(), drivers::RxDrops::default());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_device_has_one_router() {
    if !root() {
        return;
    }
    let (r, h, other) = (Ns::new(), Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let probe = |until| drivers::host::probe("eth0", Some(&r.0), until);
    let d = open(&r, "eth0", RingVersion::V2);
    let e = af_packet::open(&config(&r, "eth0", RingVersion::V2)).err().unwrap().to_string();
    assert_eq!(e, format!("eth0 in network namespace {r} is the device of another interface of this router"));
    // A device of the same number in another namespace is another device.
    other.ip(&format!("link add eth0 index {} type veth peer name eth1 index 77", d.handle.host.ifindex));
    drop(open(&other, "eth0", RingVersion::V2));
    drop(d);
    // Another test that starts a process at this moment may pass the mark on for an instant.
    probe(Instant::now() + PATIENCE).unwrap();

    // Another process has it. It ends, and nothing is left of its claim.
    let python = format!(
        "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind('\\0quiver/af-packet/{}')\ns.listen()\n\
         print('ready',flush=True)\ntime.sleep(100)",
        r.run("cat /sys/class/net/eth0/ifindex").trim()
    );
    let mut holder = std::process::Command::new("ip")
        .args(["netns", "exec", &r.0, "/usr/bin/python3", "-c", &python])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
    let e = probe(Instant::now() + Duration::from_millis(50)).err().unwrap().to_string();
    let want = format!("eth0 in network namespace {r} is in use by another router (process {})", holder.id());
    assert!(e.starts_with(&want), "{e}");
    std::thread::scope(|s| {
        let waits = s.spawn(|| probe(Instant::now() + PATIENCE));
        holder.kill().unwrap();
        waits.join().unwrap().unwrap();
    });
    holder.wait().unwrap();
    // Anybody may take the name; who is not root has no router.
    let python = python.replace("s=socket", "import os;os.setuid(65534)\ns=socket");
    let mut nobody = std::process::Command::new("ip")
        .args(["netns", "exec", &r.0, "/usr/bin/python3", "-c", &python])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(nobody.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
    probe(Instant::now()).unwrap();
    nobody.kill().unwrap();
    nobody.wait().unwrap();
}

/// Two hosts with a wire of two devices between them.
fn hosts(ring: RingVersion, offload: Offload) -> (Ns, Ns, Ns, Wire) {
    let (a, r, b) = (Ns::new(), Ns::new(), Ns::new());
    veth(&r, "eth0", &a, "peer");
    veth(&r, "eth1", &b, "peer");
    a.ip("addr add 10.77.0.1/24 dev peer");
    b.ip("addr add 10.77.0.2/24 dev peer");
    let queues = |name: &str| {
        let mut d = af_packet::open(&Config { offload, ..config(&r, name, ring) }).unwrap();
        (d.rx.remove(0), d.tx.remove(0))
    };
    let wire = Wire::new(queues("eth0"), queues("eth1"));
    (a, r, b, wire)
}

#[test]
fn hosts_with_default_offloads_talk() {
    if !root() {
        return;
    }
    for (ring, offload) in [
        (RingVersion::V2, Offload::Auto),
        (RingVersion::V2, Offload::On),
        (RingVersion::V3, Offload::Auto),
        (RingVersion::V3, Offload::On),
    ] {
        let (a, _r, b, wire) = hosts(ring, offload);
        udp_transfer(&a, &b, "10.77.0.2", &[0, 1, 1472, 1473, 9000, 60_000]);
        assert!(
            wire.passed.partial.load(Relaxed) >= 3,
            "Linux gave no partial checksum: the test tests nothing"
        );
        tcp_transfer(&a, &b, "10.77.0.2", 20 << 20);
        tcp_transfer(&b, &a, "10.77.0.1", 20 << 20);
        assert!(wire.passed.supers.load(Relaxed) > 10, "Linux gave no super-frame: the test tests nothing");
        udp_segments(&a, &b, "10.77.0.2", 1000, 40);
        let p = wire.end();
        assert!(p.udp_supers.load(Relaxed) >= 1);
        assert_eq!(p.errors.load(Relaxed), 0);
    }
}

#[test]
fn a_device_that_cannot_segment_gets_segments() {
    if !root() {
        return;
    }
    let (a, r, b, wire) = hosts(RingVersion::V2, Offload::On);
    r.run("ethtool -K eth1 tso off gso off tx off sg off");
    r.run("ethtool -K eth0 tso off gso off tx off sg off");
    tcp_transfer(&a, &b, "10.77.0.2", 5 << 20);
    tcp_transfer(&b, &a, "10.77.0.1", 5 << 20);
    let p = wire.end();
    assert!(p.supers.load(Relaxed) > 10);
    assert_eq!(p.errors.load(Relaxed), 0);
    assert!(p.full.load(Relaxed) <= 10, "refused super-frames show as a full device");
}

/// A super-frame as Linux hands it over: its checksum field holds the pseudo-header sum. The descriptor's bytes lie in
/// buffers of odd sizes.
fn super_frame(b: &mut Buffers, n: usize) -> graph::Desc {
    use packet::checksum::{pseudo4, pseudo6};
    use packet::proto::IpProtocol;
    use packet::tcp::TcpBuilder;
    use packet::udp::UdpBuilder;
    let (tcp, ip6, tagged) = (!n.is_multiple_of(3), n.is_multiple_of(2), n.is_multiple_of(5));
    let size = [1428, 1000, 536, 333, 1][n % 5] as u16;
    let payload: Vec<u8> =
        (0..usize::from(size) * (2 + n % 37) - n % 2).map(|i| (i * 7 + i / 256 + n) as u8).collect();
    let (a4, b4) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    let (a6, b6) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let mut l4 = vec![0; payload.len() + 60];
    let options = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let len = if tcp {
        let head = TcpBuilder {
            seq: u32::MAX - 2000,
            ack: 7,
            flags: [0x10, 0x18, 0x19, 0x90][n % 4],
            window: 500,
            options: &options,
            ..TcpBuilder::new(1000, 2000)
        };
        head.emit4(&mut l4, a4, b4, &payload).unwrap()
    } else {
        UdpBuilder { src_port: 1000, dst_port: 2000 }.emit4(&mut l4, a4, b4, &payload).unwrap()
    };
    l4.truncate(len);
    let (proto, field) = if tcp { (IpProtocol::TCP, 16) } else { (IpProtocol::UDP, 6) };
    let pseudo = if ip6 { pseudo6(a6, b6, proto, len as u32) } else { pseudo4(a4, b4, proto, len as u16) };
    l4[field..field + 2].copy_from_slice(&pseudo.fold().to_be_bytes());
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if tagged {
        f.extend([0x81, 0, 0x20, 5]);
    }
    if ip6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 9, (len >> 8) as u8, len as u8, proto.0, 64]);
        f.extend(a6.octets());
        f.extend(b6.octets());
    } else {
        let total = 20 + len;
        let at = f.len() + 2;
        f.extend([8, 0, 0x45, 0, (total >> 8) as u8, total as u8, 0xff, 0xf0, 0x40, 0, 64, proto.0, 0, 0]);
        f.extend(a4.octets());
        f.extend(b4.octets());
        packet::ip4::fill_checksum(&mut f[at..at + 20]);
    }
    let l4_at = f.len();
    f.extend(l4);
    let cut = (l4_at + 60 + n * 31).min(f.len()).min(2048);
    let mut d = b.alloc_bytes(&f[..cut]).unwrap();
    for part in f[cut..].chunks(900 + (n * 397) % 1270) {
        assert!(b.append(&mut d, part));
    }
    let kind = if !tcp {
        5
    } else if ip6 {
        4
    } else {
        1
    };
    let ecn = if tcp && n % 4 == 3 { 0x80 } else { 0 };
    let m = b.meta_mut(&d.buf);
    (m.csum_start, m.csum_offset) = (d.off + l4_at as u16, field as u16);
    (m.gso_size, m.gso_type) = (size, kind | ecn);
    d.flags |= flags::GSO | flags::CSUM_PARTIAL;
    d
}

#[test]
fn segments_equal_those_of_linux() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "ours", &h, "p-ours");
    veth(&r, "linux", &h, "p-linux");
    // So Linux cuts super-frames and completes checksums before it hands them on.
    r.run("ethtool -K linux tx off");
    let tx = |name: &str, offload| {
        let c = Config { offload, ..config(&r, name, RingVersion::V2) };
        af_packet::open(&c).unwrap()
    };
    let (mut ours, mut linux) = (tx("ours", Offload::Auto), tx("linux", Offload::On));
    let (p_ours, p_linux) = (Raw::new(&h, "p-ours"), Raw::new(&h, "p-linux"));
    let pool = pool();
    let mut b = pool.buffers();
    let mut frames = 0;
    for n in 0..60 {
        let (d, e) = (super_frame(&mut b, n), super_frame(&mut b, n));
        let sent = ours.tx[0].send(&mut b, Packets::drain(&mut vec![d]));
        assert_eq!(linux.tx[0].send(&mut b, Packets::drain(&mut vec![e])).errors, 0);
        assert_eq!((sent.full, sent.errors), (0, 0));
        let mut bytes = 0;
        for i in 0..sent.packets {
            let (got, want) = (p_ours.recv().unwrap(), p_linux.recv().unwrap());
            assert!(got == want, "super-frame {n}, segment {i}:\n{got:02x?}\n{want:02x?}");
            bytes += got.len() as u64;
        }
        assert_eq!((sent.bytes, p_linux.recv()), (bytes, None));
        frames += sent.packets;
    }
    assert!(frames > 1000);
    // Many at once, with whole packets between them: nothing is lost, and all stay in order.
    let mut mixed = vec![];
    for n in 0..40 {
        mixed.push(super_frame(&mut b, n));
        mixed.push(b.alloc_bytes(&frame(60 + n, n as u8)).unwrap());
    }
    let sent = ours.tx[0].send(&mut b, Packets::drain(&mut mixed));
    assert_eq!((sent.full, sent.errors), (0, 0));
    let got: Vec<_> = (0..sent.packets).map(|_| p_ours.recv().unwrap()).collect();
    let whole: Vec<_> = got.iter().filter(|f| f[12..14] == [0x88, 0xb5]).cloned().collect();
    assert!(whole == (0..40).map(|n| frame(60 + n, n as u8)).collect::<Vec<_>>());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn super_frames_that_contradict_themselves_are_errors() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let (mut d, pool) = (open(&r, "eth0", RingVersion::V2), pool());
    let mut b = pool.buffers();
    let peer = Raw::new(&h, "peer");
    type Spoil = fn(&mut graph::buffer::Meta, &mut [u8]);
    let spoil: [Spoil; 6] = [
        |m, _| m.gso_size = 0,
        |m, _| m.gso_type = 3,
        |m, _| m.gso_type = 5,
        |_, f| f[14] = 0x44,
        |_, f| f[14 + 9] = 50,
        |_, f| f[14 + 20 + 12] = 0x10,
    ];
    for s in spoil {
        let p = super_frame(&mut b, 1);
        let mut m = *b.meta(&p.buf);
        s(&mut m, b.data_mut(&p));
        *b.meta_mut(&p.buf) = m;
        let report = d.tx[0].send(&mut b, Packets::drain(&mut vec![p]));
        assert_eq!((report.packets, report.full, report.errors), (0, 0, 1));
    }
    // A checksum that would stand outside of the packet.
    let mut p = b.alloc_bytes(&frame(60, 1)).unwrap();
    let m = b.meta_mut(&p.buf);
    (m.csum_start, m.csum_offset) = (p.off + 50, 9);
    p.flags |= flags::CSUM_PARTIAL;
    assert_eq!(d.tx[0].send(&mut b, Packets::drain(&mut vec![p])).errors, 1);
    assert_eq!(d.tx[0].send(&mut b, Packets::drain(&mut vec![])).errors, 0);
    assert_eq!((peer.recv(), pool.in_use()), (None, 0));
}

#[test]
fn a_partial_checksum_says_where_it_is() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    h.ip("addr add 10.77.0.1/24 dev peer");
    h.ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev peer");
    let (mut d, pool) = (open(&r, "eth0", RingVersion::V2), pool());
    let mut b = pool.buffers();
    h.within(|| {
        std::net::UdpSocket::bind("10.77.0.1:0").unwrap().send_to(b"hello, world", "10.77.0.2:9").unwrap()
    });
    poll_n(&mut *d.rx[0], &mut b, 1, |b, p, bytes| {
        assert_eq!(bytes.len(), 14 + 20 + 8 + 12);
        assert!(p.has(flags::CSUM_PARTIAL) && !p.has(flags::GSO));
        let m = b.meta(&p.buf);
        assert_eq!((m.csum_start, m.csum_offset), (p.off + 34, 6));
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_deleted_device_ends_quietly_and_can_come_back() {
    if !root() {
        return;
    }
    for ring in RINGS {
        let (r, h) = (Ns::new(), Ns::new());
        veth(&r, "eth0", &h, "peer");
        let (mut d, pool) = (open(&r, "eth0", ring), pool());
        let mut b = pool.buffers();
        assert!(d.handle.alive());
        assert_eq!(d.rx[0].ready(), Ready::Fd);
        r.ip("link del eth0");
        assert!(!d.handle.alive());
        assert_eq!(d.rx[0].ready(), Ready::Never);
        assert_silent(&mut *d.rx[0], &mut b);
        let report = send(&mut d, &mut b, &[frame(60, 1), frame(60, 2)]);
        assert_eq!((report.packets, report.no_link), (0, 2));
        let e = d.handle.host.link.state().err().unwrap().to_string();
        assert!(e.starts_with(&format!("there is no device eth0 in network namespace {r}")), "{e}");
        assert!(d.handle.host.set_promiscuous(true).is_err());

        veth(&r, "eth0", &h, "peer");
        let mut d = open(&r, "eth0", ring);
        Raw::new(&h, "peer").send(&frame(60, 1));
        assert!(receive(&mut *d.rx[0], &mut b, 1) == [frame(60, 1)]);
        assert_eq!(pool.in_use(), 0);
    }
}

#[test]
fn a_device_that_goes_down_and_up_goes_on() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    r.ip("link set eth0 down");
    let (mut d, pool) = (open(&r, "eth0", RingVersion::V2), pool());
    let mut b = pool.buffers();
    let peer = Raw::new(&h, "peer");
    for i in 0..3 {
        d.handle.host.link.set_up(true).unwrap();
        wait_for("carrier", || d.handle.host.link.running().unwrap());
        comes(&peer, &mut *d.rx[0], &mut b, &frame(60, i));
        let fd = d.rx[0].fd().unwrap();
        d.handle.host.link.set_up(false).unwrap();
        assert_eq!(d.rx[0].ready(), Ready::Fd);
        assert!(!readable(fd), "the worker would never sleep again");
        assert!(d.handle.alive());
    }
    d.handle.host.link.set_up(true).unwrap();
    wait_for("carrier", || d.handle.host.link.running().unwrap());
    let fd = d.rx[0].fd().unwrap();
    wait_for("a packet wakes", || {
        peer.send(&frame(60, 9));
        readable(fd)
    });
    assert!(receive(&mut *d.rx[0], &mut b, 1) == [frame(60, 9)]);
    assert!(!readable(fd));
}

#[allow(unsafe_code)]
fn readable(fd: i32) -> bool {
    let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    unsafe { libc::poll(&raw mut p, 1, 0) == 1 }
}

#[test]
fn the_handle_sets_what_linux_shows() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let mut watch = LinkWatch::open(Some(&r.0)).unwrap();
    let mut d = open(&r, "eth0", RingVersion::V2);
    assert!(d.conflicts.is_empty(), "{:?}", d.conflicts);
    d.handle.host.set_promiscuous(true).unwrap();
    d.handle.host.set_promiscuous(true).unwrap();
    assert!(r.ip("-d link show eth0").contains("promiscuity 1"));
    d.handle.host.set_promiscuous(false).unwrap();
    assert!(r.ip("-d link show eth0").contains("promiscuity 0"));
    let mac = packet::MacAddr([2, 0, 0, 0, 0x12, 0x34]);
    d.handle.host.link.set_mac(mac).unwrap();
    d.handle.host.link.set_mtu(2000).unwrap();
    let s = d.handle.host.link.state().unwrap();
    assert_eq!((s.mac, s.mtu, s.up, d.handle.host.link.running().unwrap()), (mac, 2000, true, true));
    let e = d.handle.host.link.set_mtu(1).err().unwrap().to_string();
    assert!(e.starts_with(&format!("eth0 in network namespace {r} does not take MTU 1")), "{e}");
    assert!(d.handle.host.link.set_mac(packet::MacAddr::BROADCAST).is_err());

    // The peer goes down: no carrier. Then it goes away, and this end with it.
    h.ip("link set peer down");
    h.ip("link del peer");
    let (mut carrier, mut lost, mut deleted) = (false, false, false);
    wait_for("events of the device", || {
        while let Some(e) = watch.next_event() {
            if e.name == "eth0" && e.ifindex == s.ifindex {
                carrier |= e.running && e.mtu == 2000 && e.mac == Some(mac);
                lost |= carrier && !e.running;
                deleted |= e.deleted;
            }
        }
        deleted
    });
    assert!(carrier && lost);
    let mut another = LinkWatch::open(Some(&r.0)).unwrap();
    wait_for("all devices", || another.next_event().is_some_and(|e| e.name == "lo" && e.running));
}

#[test]
fn linux_at_work_on_the_device_is_told() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    r.ip("addr add 10.77.0.1/24 dev eth0");
    r.run("sysctl -qw net.ipv4.conf.eth0.forwarding=1");
    let conflicts = open(&r, "eth0", RingVersion::V2).conflicts;
    assert_eq!(conflicts.len(), 2, "{conflicts:?}");
    assert!(conflicts[0].contains("10.77.0.1 on eth0") && conflicts[0].contains("addr flush dev eth0"));
    assert!(conflicts[1].contains("net.ipv4.conf.eth0.forwarding=0"));
}

#[test]
fn what_cannot_work_is_said() {
    if !root() {
        return;
    }
    let ns = Ns::new();
    let error = |c: Config| af_packet::open(&c).err().unwrap().to_string();
    let base = config(&ns, "eth0", RingVersion::V2);
    assert_eq!(
        error(base.clone()),
        format!(
            "there is no device eth0 in network namespace {ns}: \"ip -n {ns} link\" lists those there are"
        )
    );
    assert_eq!(
        error(Config { ifname: "lo".into(), ..base.clone() }),
        format!("lo in network namespace {ns} is not an Ethernet device")
    );
    assert!(
        error(Config { ifname: "a-name-of-16-byt".into(), ..base.clone() }).contains("more than 15 bytes")
    );
    assert!(
        error(Config { netns: Some("qafp-none".into()), ..base.clone() })
            .contains("no network namespace qafp-none")
    );
    assert!(error(Config { rx_queues: 0, ..base.clone() }).starts_with("0 receive queues for eth0"));
    assert!(error(Config { tx_queues: 65, ..base.clone() }).contains("between 1 and 64"));
    assert!(error(Config { slots: Some(1000), ..base.clone() }).contains("power of two"));
    let huge = Config { slots: Some(65536), rx_queues: 64, ..base.clone() };
    // 8 GiB of rings; a machine that has as much free may open them.
    if graph::buffer::available_mib().is_some_and(|have| have < 8192) {
        assert!(error(huge).contains("MiB of memory are available"));
    }
    assert!(drivers::host::probe("eth0", Some(&ns.0), Instant::now()).is_err());
    ns.ip("link add eth0 type veth peer name eth1");
    drivers::host::probe("eth0", Some(&ns.0), Instant::now()).unwrap();
}

#[test]
fn namespaces_are_made_as_ip_makes_them() {
    if !root() {
        return;
    }
    let ns = Ns::unmade();
    assert!(link::create_netns(&ns.0).unwrap());
    assert!(!link::create_netns(&ns.0).unwrap(), "there already");
    assert!(run("ip netns list").lines().any(|l| l.split_whitespace().next() == Some(&ns.0)));
    assert!(ns.ip("link show lo").contains("UP"));
    netns::remove(&ns.0).unwrap();
    assert!(!netns::exists(&ns.0));
    // What a crash between making the file and mounting the namespace leaves.
    std::fs::write(format!("/run/netns/{ns}"), "").unwrap();
    assert!(link::create_netns(&ns.0).unwrap());
    assert!(netns::exists(&ns.0));
}

#[test]
fn a_device_that_goes_up_has_its_link_at_once() {
    if !root() {
        return;
    }
    let (r, h) = (Ns::new(), Ns::new());
    veth(&r, "eth0", &h, "peer");
    let d = open(&r, "eth0", RingVersion::V2);
    // Linux tells of some changes a second late.
    for _ in 0..5 {
        r.ip("link set eth0 down");
        assert!(!d.handle.host.link.running().unwrap());
        d.handle.host.link.set_up(true).unwrap();
        assert!(d.handle.host.link.running().unwrap());
    }
    h.ip("link set peer down");
    assert!(!d.handle.host.link.running().unwrap());
}
