//! VLAN devices of Linux's, and their sub-interfaces.

use super::part::{self, Pair, State};
use super::sync::Applied;
use super::vlans::{TakeVlans, VlanDevice, refused_vlans};
use super::{Made, Paired, Seen, find, given, take_device};
use crate::interface::IfIndex;
use crate::router::{Encap, Op, Router, RouterConfig};
use crate::vxlan::{VxlanConfig, VxlanOp};
use graph::{PoolConfig, PoolMemory};
use packet::eth::MacAddr;
use std::collections::BTreeSet;

pub(super) const BELOW: &str = "vxlan_tunnel0";
const TAP: IfIndex = 77;

/// A router with an interface that carries frames, whose pair is Linux's device 7; its number.
pub(super) fn router() -> (Router, IfIndex) {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let ends = ["192.0.2.1", "192.0.2.99"].map(|a| a.parse().unwrap());
    let config = VxlanConfig::new(ends[0], ends[1], 9);
    r.commit(vec![VxlanOp::Create { instance: 0, config }.into()]).unwrap();
    let index = r.index_of(BELOW).unwrap();
    pair_again(&mut r, index);
    (r, index)
}

/// There is no device in Linux here: one of a number that is only said to be a VLAN device's.
fn pair_again(r: &mut Router, index: IfIndex) {
    let linux = Paired { host: "e0".into(), netns: None };
    let applied = Applied { ifindex: 7, ..Applied::made(MacAddr::ZERO, 1500) };
    part::insert(r, index, Pair { vlan: Some(0), ..Pair::new(linux, TAP, applied) });
}

fn device(ifindex: u32, name: &str, below: u32, vlan: u16) -> VlanDevice {
    VlanDevice { ifindex, name: name.into(), below, vlan, dot1ad: false }
}

fn take(r: &mut Router, devices: &[VlanDevice]) {
    let mut take = TakeVlans::new(&None, devices);
    while take.work(r) {}
}

/// Names, hosts and tags of the sub-interfaces.
fn made(r: &Router) -> Vec<(String, String, Vec<u8>)> {
    let all = part::pairs(r).filter(|p| p.name.contains('.'));
    all.map(|p| {
        let tags = r.interface(p.interface).unwrap().tags();
        (p.name, p.linux.host, tags.bytes[..usize::from(tags.count) * 4].to_vec())
    })
    .collect()
}

fn names(r: &Router) -> Vec<String> {
    made(r).into_iter().map(|m| m.0).collect()
}

#[test]
fn sub_interfaces_come_and_go_with_their_devices() {
    let (mut r, below) = router();
    let ad = VlanDevice { dot1ad: true, ..device(9, "e0.9", 7, 9) };
    let on_ad = device(10, "in9", 9, 300);
    // The upper one is told first, and one is above somebody else's device.
    let all = [device(12, "in100", 11, 200), ad, on_ad, device(11, "e0.100", 7, 100), device(13, "x", 3, 5)];
    take(&mut r, &all);
    let mut has = made(&r);
    has.sort();
    let tagged =
        |name: &str, host: &str, tags: &[u8]| (format!("{BELOW}.{name}"), host.into(), tags.to_vec());
    let both = [0x88, 0xa8, 0, 9, 0x81, 0, 1, 44];
    assert_eq!(has[0], tagged("100", "e0.100", &[0x81, 0, 0, 100]));
    assert_eq!(has[3], tagged("9", "e0.9", &both[..4]));
    let mut inner: Vec<_> = has[1..3].iter().map(|(_, host, tags)| (host.as_str(), &tags[..])).collect();
    inner.sort();
    assert_eq!(inner, [("in100", &[0x81, 0, 0, 100, 0x81, 0, 0, 200][..]), ("in9", &both)]);
    assert_eq!(refused_vlans(&r).count(), 0);
    // Frames go to the TAP below with their tags.
    let s = r.state::<State>().unwrap();
    for p in part::pairs(&r).filter(|p| p.name.contains('.')) {
        assert_eq!((p.tap, s.to[&p.interface].tap, s.to[&p.interface].pop), (TAP, TAP, 0));
        assert!(!s.from.values().any(|f| f.interface == p.interface));
    }
    // They are not the operator's, nor do they keep him from anything.
    let name = format!("{BELOW}.100");
    let refused = [
        Op::Delete { name: name.clone() },
        Op::SetMtu { name: name.clone(), mtu: 1000 },
        Op::SetFeature { name: name.clone(), feature: super::LinuxPair(None).into() },
    ];
    for op in refused {
        assert!(r.commit(vec![op.clone()]).is_err(), "{op:?}");
    }
    let encap = Encap::Tags { dot1ad: false, outer: Some(5), inner: None, exact: true };
    let e = r.commit(vec![Op::CreateSub { parent: BELOW.into(), id: 100, encap }]).unwrap_err();
    assert!(e.message.contains("VLAN device in Linux"), "{e}");
    r.commit(vec![Op::SetMtu { name: BELOW.into(), mtu: 1300 }]).unwrap();
    assert_eq!(r.interface(r.index_of(&name).unwrap()).unwrap().mtu, 1300);
    // Without the device below, what is above it goes; one with another name, number or tag is another one.
    take(&mut r, &[device(12, "in100", 11, 200), device(21, "e0.9", 7, 9)]);
    assert_eq!(made(&r), [tagged("9", "e0.9", &[0x81, 0, 0, 9])]);
    take(&mut r, &[device(21, "y", 7, 9)]);
    assert_eq!(made(&r), [tagged("9", "y", &[0x81, 0, 0, 9])]);
    // The pair below is made anew: what stood on it is gone at once, and comes back.
    part::unmake(&mut r, below);
    assert_eq!(part::pairs(&r).count(), 1);
    pair_again(&mut r, below);
    take(&mut r, &[device(21, "y", 7, 9)]);
    assert_eq!(names(&r), [format!("{BELOW}.9")]);
    r.commit(vec![Op::Delete { name: BELOW.into() }]).unwrap();
    assert_eq!(part::pairs(&r).count(), 0);
    take(&mut r, &[]);
    assert!(r.state::<State>().unwrap().to.is_empty());
}

#[test]
fn they_have_what_linux_has() {
    let (mut r, _) = router();
    let d = [device(11, "e0.100", 7, 100)];
    take(&mut r, &d);
    let index = r.index_of(&format!("{BELOW}.100")).unwrap();
    let addresses = ["10.0.0.1/24", "2001:db8::1/64"].map(|a| a.parse().unwrap());
    let mut seen = Seen {
        ifindex: 11,
        up: true,
        mtu: 1400,
        mac: None,
        master: 0,
        table: None,
        addresses: BTreeSet::from(addresses),
    };
    let see = |r: &mut Router, seen: &Seen| {
        let given = given(r, index).unwrap();
        assert_eq!(take_device(r, index, seen, &given, false), Made::All);
        let i = r.interface(index).unwrap();
        (i.up, i.mtu, i.configured().collect::<BTreeSet<_>>())
    };
    assert_eq!(see(&mut r, &seen), (true, 1400, BTreeSet::from(addresses)));
    // An MTU larger than its interface's is that; it is had when there is room for it.
    r.commit(vec![Op::SetMtu { name: BELOW.into(), mtu: 1300 }]).unwrap();
    assert_eq!(see(&mut r, &seen).1, 1300);
    r.commit(vec![Op::SetMtu { name: BELOW.into(), mtu: 1450 }]).unwrap();
    assert_eq!(see(&mut r, &seen).1, 1400);
    (seen.up, seen.addresses) = (false, BTreeSet::new());
    assert_eq!(see(&mut r, &seen), (false, 1400, BTreeSet::new()));
}

#[test]
fn what_cannot_be_is_told_once_and_made_when_it_can() {
    let (mut r, _) = router();
    let encap = Encap::Tags { dot1ad: false, outer: Some(100), inner: None, exact: true };
    r.commit(vec![Op::CreateSub { parent: BELOW.into(), id: 5, encap }]).unwrap();
    let d = [
        device(11, "e0.100", 7, 100),
        device(12, "e0.200", 7, 200),
        device(13, "b", 12, 1),
        device(14, "c", 13, 2),
        VlanDevice { dot1ad: true, ..device(15, "d", 12, 3) },
    ];
    take(&mut r, &d);
    let why: Vec<_> = refused_vlans(&r).map(|(_, d, why)| (d.to_owned(), why.to_owned())).collect();
    assert_eq!(why.len(), 3, "{why:?}");
    assert_eq!((why[0].0.as_str(), why[0].1.as_str()), ("c", "frames have two tags at most"));
    assert!(why[1].1.contains("802.1Q"), "{why:?}");
    assert!(why[2].1.contains(&format!("{BELOW}.5 takes these frames already")), "{why:?}");
    r.commit(vec![Op::Delete { name: format!("{BELOW}.5") }]).unwrap();
    take(&mut r, &d[..3]);
    assert_eq!((refused_vlans(&r).count(), names(&r).len()), (0, 3));
    let s = r.state::<State>().unwrap();
    let to: Box<[_]> = s.to.iter().map(|(i, to)| (*i, *to)).collect();
    assert!(find(&to, r.index_of(&format!("{BELOW}.100")).unwrap()).is_some());
    // All is taken out.
    r.clear();
    assert_eq!(part::pairs(&r).count(), 0);
}
