//! What makes packets one flow.

use super::buckets::Buckets;
use super::{Counts, FlowKey, FlowKind, Shared, key};
use crate::testing::{fix_ip4, hex};
use packet::flow::Flow;
use proptest::prelude::*;
use std::sync::Arc;

const MACS: &str = "020000000002 020000000001";

fn flow(symmetrical: bool) -> Flow {
    Shared::new(Buckets::new(), 7, symmetrical, Arc::new(Counts::new())).flow
}

/// What the first bytes of a frame alone say.
fn near(frame: &[u8], flow: Flow) -> Option<u32> {
    let window = |bytes: &[u8]| {
        let mut window = [0xa5; graph::WINDOW];
        window.iter_mut().zip(bytes).for_each(|(w, b)| *w = *b);
        window
    };
    let behind = &frame[key::tags_len(&window(frame)).min(frame.len())..];
    key::near(&window(behind), behind.len() as u16, flow)
}

/// A packet of 10.1.0.`a` to 10.1.0.`b` with UDP ports.
fn ip4(a: u8, b: u8, sport: u16, dport: u16) -> Vec<u8> {
    let mut p = hex("4500001c 00010000 4011 0000");
    p.extend([10, 1, 0, a, 10, 1, 0, b]);
    [sport, dport, 8, 0].into_iter().for_each(|w| p.extend(w.to_be_bytes()));
    fix_ip4(&mut p);
    p
}

fn ip6(a: u8, b: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = hex("60000000");
    p.extend((payload.len() as u16).to_be_bytes());
    p.extend([next, 64]);
    for n in [a, b] {
        p.extend(hex("20010db8000000000000000000000000"));
        let last = p.len() - 1;
        p[last] = n;
    }
    p.extend(payload);
    p
}

/// `inner` within a packet of 192.0.2.1 to 192.0.2.2 of a protocol.
fn around(protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut p = hex("4500 0000 0001 0000 40 00 0000 c0000201 c0000202");
    let len = (p.len() + inner.len()) as u16;
    p[2..4].copy_from_slice(&len.to_be_bytes());
    p[9] = protocol;
    fix_ip4(&mut p);
    p.extend(inner);
    p
}

fn framed(kind: &str, packet: &[u8]) -> Vec<u8> {
    let mut f = hex(&format!("{MACS} {kind}"));
    f.extend(packet);
    f
}

fn joined(head: &str, rest: &[u8]) -> Vec<u8> {
    [hex(head), rest.to_vec()].concat()
}

/// Each way in which a packet may be wrapped, with its name.
fn wraps(packet: &[u8], v6: bool) -> Vec<(&'static str, Vec<u8>)> {
    let t = if v6 { "86dd" } else { "0800" };
    let plain = framed(t, packet);
    let udp = |rest: &[u8]| joined("d431 12b5 0000 0000 08000000 00000700", rest);
    vec![
        ("plain", plain.clone()),
        ("tagged", framed(&format!("81000064 {t}"), packet)),
        ("twice tagged", framed(&format!("88a80007 81000064 {t}"), packet)),
        ("labelled", framed("8847 00064140", packet)),
        ("two labels", framed("8847 00064040 000c8140", packet)),
        ("IP in IP", framed("0800", &around(if v6 { 41 } else { 4 }, packet))),
        ("IP in IPv6", framed("86dd", &ip6(1, 2, if v6 { 41 } else { 4 }, packet))),
        ("GRE", framed("0800", &around(47, &joined(&format!("0000 {t}"), packet)))),
        (
            "GRE with all",
            framed("0800", &around(47, &joined(&format!("b000 {t} 00000000 00000007 00000001"), packet))),
        ),
        ("frames in GRE", framed("0800", &around(47, &joined("0000 6558", &plain)))),
        ("labels in GRE", framed("0800", &around(47, &joined("0000 8847 00064140", packet)))),
        ("labels in IP", framed("0800", &around(137, &joined("00064140", packet)))),
        ("VXLAN", framed("0800", &around(17, &udp(&plain)))),
        ("VXLAN in IPv6", framed("86dd", &ip6(1, 2, 17, &udp(&plain)))),
        ("tagged in VXLAN", framed("0800", &around(17, &udp(&framed(&format!("81000064 {t}"), packet))))),
        (
            "GRE in GRE",
            framed(
                "0800",
                &around(47, &joined("0000 0800", &around(47, &joined(&format!("0000 {t}"), packet)))),
            ),
        ),
    ]
}

#[test]
fn tunnels_and_labels_are_looked_through() {
    let udp = |sport: u16| [sport.to_be_bytes(), 53u16.to_be_bytes(), [0, 8], [0, 0]].concat();
    for (v6, one, other) in [
        (false, ip4(1, 2, 1000, 53), ip4(1, 2, 1001, 53)),
        (true, ip6(8, 9, 17, &udp(1000)), ip6(8, 9, 17, &udp(1001))),
    ] {
        let want = FlowKey::of(&wraps(&one, v6)[0].1);
        assert_eq!(want.ports, 1000 << 16 | 53);
        assert_eq!(want.kind, if v6 { FlowKind::Ip6 } else { FlowKind::Ip4 });
        for ((name, a), (_, b)) in wraps(&one, v6).iter().zip(wraps(&other, v6)) {
            assert_eq!(FlowKey::of(a), want, "{name}, v6 {v6}");
            assert_ne!(FlowKey::of(&b).hash(flow(false)), want.hash(flow(false)), "{name}, v6 {v6}");
        }
    }
}

#[test]
fn both_directions_are_one_where_they_are_to_be() {
    for v6 in [false, true] {
        let packet = |a, b, s: u16, d: u16| {
            if v6 { ip6(a, b, 6, &[s.to_be_bytes(), d.to_be_bytes()].concat()) } else { ip4(a, b, s, d) }
        };
        let (there, back) = (wraps(&packet(1, 2, 1000, 80), v6), wraps(&packet(2, 1, 80, 1000), v6));
        for ((name, a), (_, b)) in there.iter().zip(back) {
            let hash = |f: &[u8], symmetrical| FlowKey::of(f).hash(flow(symmetrical));
            assert_eq!(hash(a, true), hash(&b, true), "{name}");
            assert_ne!(hash(a, false), hash(&b, false), "{name}");
        }
    }
    let frame = |macs: &str| FlowKey::of(&hex(&format!("{macs} 88cc 0000"))).hash(flow(true));
    assert_eq!(frame(MACS), frame("020000000001 020000000002"));
}

#[test]
fn fragments_of_a_datagram_are_one_flow() {
    let mut first = ip4(1, 2, 1000, 53);
    let mut later = ip4(1, 2, 0xaaaa, 0xbbbb);
    (first[6], later[7]) = (0x20, 0x10);
    let (first, later) = (framed("0800", &first), framed("0800", &later));
    assert_eq!(FlowKey::of(&first), FlowKey::of(&later));
    assert_ne!(FlowKey::of(&first), FlowKey::of(&framed("0800", &ip4(1, 3, 1000, 53))));
    for f in [&first, &later] {
        assert_eq!(near(f, flow(false)), None);
    }
    // Of a tunnel's packet, whatever is inside.
    let inner = ip4(1, 2, 1000, 53);
    let mut outer = around(4, &inner);
    outer[6] = 0x20;
    fix_ip4(&mut outer[..20]);
    let key = FlowKey::of(&framed("0800", &outer));
    assert_eq!((key.src, key.dst, key.ports), (0xc000_0201, 0xc000_0202, 0));
    // IPv6: the first one has a header that the others do not show.
    let first = ip6(1, 2, 44, &hex("3c000001 00000007 1100010400000000 03e80035"));
    let later = ip6(1, 2, 44, &hex("3c000010 00000007 ffeeddccbbaa9988 03e80035"));
    assert_eq!(FlowKey::of(&framed("86dd", &first)), FlowKey::of(&framed("86dd", &later)));
    // One that is a whole packet is none (RFC 6946).
    let whole = FlowKey::of(&framed("86dd", &ip6(1, 2, 44, &hex("11000000 00000007 03e80035"))));
    assert_eq!(whole.ports, 1000 << 16 | 53);
}

#[test]
fn what_cannot_be_read_goes_by_what_is_around() {
    let outer = |f: Vec<u8>| {
        let k = FlowKey::of(&f);
        (k.kind, k.src, k.ports)
    };
    let tunnel = (FlowKind::Ip4, 0xc000_0201, 0);
    for (name, packet) in [
        ("no IP", around(4, &hex("0102"))),
        ("an older GRE", around(47, &joined("4000 0800", &ip4(1, 2, 3, 4)))),
        ("PPTP", around(47, &joined("3001 880b 00000000 00000000", &ip4(1, 2, 3, 4)))),
        ("cut off", around(47, &hex("00"))),
        ("ESP", around(50, &ip4(1, 2, 3, 4))),
    ] {
        assert_eq!(outer(framed("0800", &packet)), tunnel, "{name}");
    }
    // VXLAN without the bit that says that there is a network.
    let no_vni = joined("d431 12b5 0000 0000 00000000 00000700", &framed("0800", &ip4(1, 2, 3, 4)));
    assert_eq!(outer(framed("0800", &around(17, &no_vni))), (FlowKind::Ip4, 0xc000_0201, 0xd431_12b5));
    // Frames of a pseudowire begin as IP does now and then: they go by their labels all the same.
    for wire in [
        "00000000 020000000009",
        "4500 0000 0102 0304 0506 0708 0900 0000 0102 0304 0506 0708",
        "6000 0000 0102 0304 0506 0708 0900 0000 0102 0304 0506 0708 0000 0000 0000 0000 0000 0000 0000 0000",
    ] {
        let labelled = |stack: &str| FlowKey::of(&hex(&format!("{MACS} 8847 {stack} {wire}")));
        let (one, other) = (labelled("0006404000065140"), labelled("0006404000066140"));
        assert_eq!((one.kind, one.to_string().as_str()), (FlowKind::Labels, "labels 100/101"));
        assert_ne!(one.hash(flow(false)), other.hash(flow(false)));
    }
    assert_eq!(FlowKey::of(&hex("0102")), FlowKey::of(&[]));
}

#[test]
fn flows_have_names() {
    let name = |f: &[u8]| FlowKey::of(f).to_string();
    assert_eq!(name(&framed("0800", &ip4(1, 2, 1000, 53))), "10.1.0.1:1000 -> 10.1.0.2:53 UDP");
    assert_eq!(
        name(&framed("86dd", &ip6(1, 2, 6, &[0, 1, 0, 80]))),
        "[2001:db8::1]:1 -> [2001:db8::2]:80 TCP"
    );
    assert_eq!(name(&framed("0800", &around(50, &[]))), "192.0.2.1 -> 192.0.2.2 ESP");
    assert_eq!(name(&framed("0800", &around(200, &[]))), "192.0.2.1 -> 192.0.2.2 protocol 200");
    assert_eq!(name(&framed("0806", &[])), "02:00:00:00:00:01 -> 02:00:00:00:00:02 0x0806");
    let mut fragment = ip4(1, 2, 1000, 53);
    fragment[6] = 0x20;
    assert_eq!(name(&framed("0800", &fragment)), "10.1.0.1 -> 10.1.0.2 fragments");
}

#[test]
fn flows_spread_over_buckets() {
    let among = Buckets::new().among(&[0, 1, 2, 3]);
    for symmetrical in [false, true] {
        let mut n = [0; 4];
        for port in 0..4000 {
            let f = framed("0800", &ip4(1, 2, port, 53));
            n[usize::from(among.worker(FlowKey::of(&f).hash(flow(symmetrical))))] += 1;
        }
        assert!(n.iter().all(|n| (850..1150).contains(n)), "{n:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// What is hashed from the first bytes is hashed from the whole frame.
    #[test]
    fn near_is_as_from_the_whole(
        mut f in prop::collection::vec(any::<u8>(), 30..100), usual: bool, v6: bool, protocol in 0usize..4, symmetrical: bool,
        vxlan: bool, tags in 0usize..4,
    ) {
        let usual = usual && f.len() >= if v6 { 58 } else { 38 };
        let (at, ports) = if v6 { (20, 54) } else { (23, 34) };
        if usual {
            (f[12], f[13], f[14], f[20], f[21]) = if v6 { (0x86, 0xdd, 0x6a, 0, 0) } else { (8, 0, 0x45, 0x40, 0) };
            f[at] = [6, 17, 47, 4][protocol];
            if vxlan {
                (f[ports + 2], f[ports + 3]) = (0x12, 0xb5);
            }
        }
        let tags = &hex("88a80007 81000064 81000005")[..4 * tags];
        f.splice(12..12, tags.iter().copied());
        let near = near(&f, flow(symmetrical));
        prop_assert!(near.is_none_or(|hash| hash == FlowKey::of(&f).hash(flow(symmetrical))));
        prop_assert!(!usual || near.is_some() == (tags.len() <= 8 && (protocol == 0 || protocol == 1 && !vxlan)));
    }

    #[test]
    fn no_frame_is_too_odd(f in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..14, kind in 0usize..6) {
        let mut f = f;
        let kinds: [&[u8]; 6] = [&[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x88, 0x47], &[0x81, 0, 0, 1, 8, 0, 0x4f], &[8, 0, 0x40], &[0x65, 0x58]];
        if f.len() > 60 {
            f[12..12 + kinds[kind].len()].copy_from_slice(kinds[kind]);
            f[23] = [47, 4, 41, 17, 137, 6][at % 6];
        }
        let _ = FlowKey::of(&f).to_string();
    }
}
