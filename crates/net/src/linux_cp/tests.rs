use super::*;
use crate::interface::{Interface, Tags};
use crate::punt::linux::{FRAME, PACKET};
use crate::testing::{Input, Rig, fix_ip4, hex};
use graph::flags;

const MACS: &str = "020000000001 0200000000aa";

fn to(tap: u32, pop: u8, packets: Option<[u8; 6]>) -> Pairs {
    Pairs { to: [(1, ToLinux { tap, pop, packets })].into(), from: Box::default() }
}

fn punting(pairs: Pairs) -> Rig {
    let mut r = Rig::new(LinuxCpPunt::new);
    r.change(|p: &mut Pairs| *p = pairs);
    r
}

fn packet() -> Vec<u8> {
    let mut p = hex("4500001c00010000 4001 0000 cb007107 c0000201 0800f7ff00000000");
    fix_ip4(&mut p);
    p
}

fn behind(l2: &str, bytes: &[u8], aux: u32) -> Input {
    Input {
        l2: hex(l2),
        ..Input::new(bytes).aux(aux).flags(flags::L2_GROUP | flags::LOCAL | flags::CSUM_VALID)
    }
}

#[test]
fn packets_go_with_the_headers_with_which_they_came() {
    let mut r = punting(to(3, 0, None));
    for l2 in [[MACS, "0800"].concat(), [MACS, "8100 0064 0800"].concat()] {
        let a = r.one(behind(&l2, &packet(), PACKET));
        assert_eq!((a.node, a.d.tx, a.d.flags), ("interface-output", 3, flags::CSUM_VALID));
        assert_eq!((a.bytes, a.d.l2), ([hex(&l2), packet()].concat(), a.d.off));
    }
    // Its label is gone.
    let a = r.one(behind(&[MACS, "8847 000661 40"].concat(), &packet(), PACKET));
    assert_eq!(a.bytes, [hex(&[MACS, "0800"].concat()), packet()].concat());
    assert_eq!(r.count("linux-cp-packets-punted"), 3);
}

#[test]
fn frames_go_whole_and_without_the_tags_of_their_interface() {
    let mut r = punting(to(3, 1, None));
    let arp = hex("0001 0800 06 04 0001 0200000000aa cb007107 000000000000 c0000201");
    let a = r.one(behind(&[MACS, "8100 0064 0806"].concat(), &arp, FRAME));
    assert_eq!(a.bytes, [hex(&[MACS, "0806"].concat()), arp.clone()].concat());
    let a = r.one(behind(&[MACS, "8100 0064 0800"].concat(), &packet(), PACKET));
    assert_eq!(a.bytes, [hex(&[MACS, "0800"].concat()), packet()].concat());
    assert_eq!(r.drops(behind(&[MACS, "0806"].concat(), &arp, FRAME)), "linux-cp-punt-malformed");
}

#[test]
fn packets_of_tunnels_get_a_header() {
    let mac = [2, 0, 0, 0, 0, 7];
    let mut r = punting(to(3, 0, Some(mac)));
    let six = [0x60; 40];
    for (bytes, ethertype) in [(&packet()[..], [8, 0]), (&six, [0x86, 0xdd])] {
        let a = r.one(behind("", bytes, PACKET));
        assert_eq!(a.bytes, [&mac[..], &mac, &ethertype, bytes].concat());
    }
    assert_eq!(r.drops(behind("", &[0; 20], PACKET)), "linux-cp-punt-malformed");
    let tight = Input { front: Some(13), ..Input::new(&packet()).aux(PACKET) };
    assert_eq!(r.drops(tight), "linux-cp-punt-no-room");
}

#[test]
fn a_pair_that_is_gone() {
    let mut r = punting(Pairs::default());
    assert_eq!(r.drops(behind(&[MACS, "0800"].concat(), &packet(), PACKET)), "linux-cp-punt-no-pair");
    let mut r = Rig::new(LinuxCpXc::new);
    assert_eq!(r.drops(Input::new(&packet())), "linux-cp-xc-no-pair");
}

fn change(r: &mut Rig, index: u32, change: impl FnOnce(&mut Interface)) {
    let mut i = r.interfaces.get(index).unwrap().clone();
    change(&mut i);
    r.interfaces.replace(index, i);
}

fn injecting(routed: bool) -> Rig {
    let mut r = Rig::new(LinuxCpXc::new);
    let from = FromLinux { interface: 2, routed };
    r.change(|p: &mut Pairs| p.from = [(1, from), (3, FromLinux { interface: 99, routed })].into());
    r
}

fn frame(kind: &str) -> Input {
    let bytes = [hex(&[MACS, kind].concat()), packet()].concat();
    Input { l2: vec![], ..Input::new(&bytes) }
}

#[test]
fn what_linux_sends_leaves_as_it_is() {
    let mut r = injecting(false);
    for kind in ["0800", "8100 0064 0800", "8847", "0040"] {
        let a = r.one(frame(kind));
        assert_eq!((a.node, a.d.tx, a.d.l2, a.bytes), ("interface-output", 2, a.d.off, frame(kind).bytes));
    }
    change(&mut r, 2, |i| i.tags = Tags { count: 1, bytes: [0x81, 0, 0, 100, 0, 0, 0, 0] });
    assert_eq!(r.one(frame("0800")).bytes, frame("8100 0064 0800").bytes);
    assert_eq!(r.drops(frame("0800").rx(3)), "linux-cp-xc-no-pair");
    assert_eq!(r.count("linux-cp-packets-injected"), 5);
    let short = Input { bytes: hex(MACS), ..frame("") };
    assert_eq!(r.drops(short), "linux-cp-xc-malformed");
}

#[test]
fn what_linux_sends_on_a_loopback_comes_in() {
    let mut r = injecting(true);
    for (kind, node) in [("0800", "ip4-input"), ("86dd", "ip6-input")] {
        let a = r.one(frame(kind).flags(flags::L2_GROUP));
        assert_eq!((a.node, a.d.rx, a.d.flags, a.bytes), (node, 2, 0, packet()));
    }
    assert_eq!(r.drops(frame("0806")), "linux-cp-xc-no-link");
}

#[test]
fn linux_is_asked_where_the_interface_has_a_pair() {
    use crate::ip4::Ip4Local;
    let mut r = Rig::new(Ip4Local::new);
    change(&mut r, 1, |i| i.ip4_punt = 1);
    let to_us = |protocol: u8, first: u8| {
        let mut p = packet();
        (p[9], p[20]) = (protocol, first);
        p[12..16].copy_from_slice(&[203, 0, 113, 7]);
        p[16..20].copy_from_slice(&[192, 0, 2, 1]);
        fix_ip4(&mut p);
        Input::new(&p)
    };
    for (protocol, first) in [(1, 8), (6, 0), (17, 0), (89, 2), (112, 3), (47, 0)] {
        let all = r.run(&[to_us(protocol, first)]);
        assert_eq!(all.iter().map(|a| a.node).collect::<Vec<_>>(), ["linux-cp-punt"], "{protocol}");
    }
    let mut fragment = to_us(17, 0);
    fragment.bytes[6] = 0x20;
    fix_ip4(&mut fragment.bytes);
    assert_eq!(r.one(fragment.clone()).node, "linux-cp-punt");
    for (protocol, first, node) in [(1, 0, "icmp4-input"), (1, 3, "icmp4-input"), (2, 0x11, "igmp-input")] {
        let mut all: Vec<_> = r.run(&[to_us(protocol, first)]).iter().map(|a| a.node).collect();
        all.sort_unstable();
        assert_eq!(all, [node, "linux-cp-punt"]);
    }
    // A feature may want it.
    r.plane.shared::<crate::protocols::Takers>().set_port(false, 4789, 1);
    assert_eq!(r.one(fragment.clone()).node, "ip4-full-reassembly");
    r.plane.shared::<crate::protocols::Takers>().set_port(false, 4789, 0);
    assert_eq!(r.one(fragment).node, "linux-cp-punt");
}
