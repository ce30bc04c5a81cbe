//! VRF devices of Linux's, and the tables of interfaces.

use super::part::{self, State};
use super::sync::{Applied, wanted};
use super::vlan_tests::{BELOW, router};
use super::{LcpSetting, Made, Seen, given, take_device, take_vrfs};
use crate::interface::IfIndex;
use crate::router::{Op, RouteTable, Router, Target};
use ipnet::IpNet;
use packet::eth::MacAddr;
use std::collections::{BTreeMap, BTreeSet};

/// Linux's index of the VRF device `red`, and its table.
const RED: (u32, u32) = (20, 10);
const BLUE: (u32, u32) = (21, 11);
/// A bridge.
const BRIDGE: u32 = 22;
const NETS: [&str; 4] = ["10.0.0.1/24", "10.0.0.2/24", "2001:db8::1/64", "10.5.0.1/24"];

fn nets() -> [IpNet; 4] {
    NETS.map(|n| n.parse().unwrap())
}

fn table(v6: bool, id: u32) -> RouteTable {
    RouteTable { v6, id }
}

fn make_tables(r: &mut Router, id: u32) {
    let make = |v6| Op::CreateTable { table: table(v6, id), name: None };
    r.commit(vec![make(false), make(true)]).unwrap();
}

/// The operator has given the interface all addresses but the last one, which is Linux's, and a neighbor.
fn bench() -> (Router, IfIndex) {
    let (mut r, index) = router();
    let add = nets().into_iter().take(3).map(|net| Op::AddAddress { name: BELOW.into(), net });
    let (address, mac) = ("10.0.0.9".parse().unwrap(), MacAddr([2, 0, 0, 0, 0, 9]));
    let more =
        [Op::SetState { name: BELOW.into(), up: true }, Op::SetNeighbor { name: BELOW.into(), address, mac }];
    r.commit(add.chain(more).collect()).unwrap();
    see(&mut r, index, None);
    assert!(stands_in(&mut r, index, 0));
    (r, index)
}

/// The device is read, and is in a VRF.
fn see(r: &mut Router, index: IfIndex, vrf: Option<(u32, u32)>) {
    see_master(r, index, vrf.map_or(0, |v| v.0), vrf.map(|v| v.1));
}

fn see_master(r: &mut Router, index: IfIndex, master: u32, table: Option<u32>) {
    let given = given(r, index).unwrap();
    let addresses = BTreeSet::from(nets());
    let seen = Seen { ifindex: 7, up: true, mtu: 1500, mac: None, master, table, addresses };
    assert_eq!(take_device(r, index, &seen, &given, false), Made::All);
}

/// Its tables, and those in which the operator has it.
fn tables(r: &Router, index: IfIndex) -> ([u32; 2], [u32; 2]) {
    let i = r.interface(index).unwrap();
    ([false, true].map(|v6| r.table_of_interface(i, v6)), [false, true].map(|v6| r.operators_table(i, v6)))
}

/// Where packets go in a table: to the router, to its links, to its neighbor.
fn stands_in(r: &mut Router, index: IfIndex, id: u32) -> bool {
    r.tick();
    let to = |a: &str| r.lookup_in(id, a.parse().unwrap()).map(|g| g.target);
    let all = [
        to("10.0.0.1") == Some(Target::Local(index)),
        to("10.0.0.2") == Some(Target::Local(index)),
        to("10.0.0.8") == Some(Target::Glean(index)),
        to("10.0.0.9") == Some(Target::Neighbor(index, "10.0.0.9".parse().unwrap())),
        to("10.0.0.255") == Some(Target::Broadcast),
        to("10.5.0.8") == Some(Target::Glean(index)),
        to("2001:db8::8") == Some(Target::Glean(index)),
    ];
    assert!(all.iter().all(|one| *one == all[0]), "table {id}: {all:?}");
    all[0]
}

#[test]
fn an_interface_follows_its_vrf_with_all_that_it_has() {
    let (mut r, index) = bench();
    make_tables(&mut r, RED.1);
    make_tables(&mut r, BLUE.1);
    let (version, applied) = (r.version(), r.state::<State>().unwrap().pairs[&index].applied.clone());
    for (vrf, is) in [(Some(RED), RED.1), (Some(BLUE), BLUE.1), (Some(BLUE), BLUE.1), (None, 0)] {
        see(&mut r, index, vrf);
        assert_eq!(tables(&r, index), ([is; 2], [0; 2]));
        assert_eq!(r.interface(index).unwrap().elsewhere.addresses, BTreeSet::from([nets()[3]]));
        for id in [0, RED.1, BLUE.1] {
            assert_eq!(stands_in(&mut r, index, id), id == is, "table {id} of {vrf:?}");
        }
        let master = vrf.map_or(0, |v| v.0);
        assert_eq!(r.state::<State>().unwrap().pairs[&index].applied, Applied { master, ..applied.clone() });
    }
    assert_eq!(r.version(), version, "the operator has said nothing");
}

#[test]
fn the_operators_table_stays_his() {
    let (mut r, index) = router();
    [RED.1, BLUE.1].into_iter().for_each(|id| make_tables(&mut r, id));
    let set = |v6, id| Op::SetTable { name: BELOW.into(), table: table(v6, id) };
    r.commit(vec![set(false, RED.1), set(true, RED.1)]).unwrap();
    // It is in the same VRF in Linux, and leaves it there: it is the operator's as before.
    see(&mut r, index, Some(RED));
    assert_eq!(r.interface(index).unwrap().elsewhere.tables, [None; 2]);
    see(&mut r, index, Some(BLUE));
    assert_eq!(tables(&r, index), ([BLUE.1; 2], [RED.1; 2]));
    let e = r.commit(vec![set(false, 0)]).unwrap_err();
    assert!(e.message.contains("nomaster"), "{e}");
    let e = r.commit(vec![Op::DeleteTable { table: table(true, RED.1) }]).unwrap_err();
    assert!(e.message.contains("comes back into it"), "{e}");
    see(&mut r, index, None);
    assert_eq!(tables(&r, index), ([RED.1; 2], [RED.1; 2]));
    // What the operator says last is his, whatever becomes of Linux's.
    see(&mut r, index, Some(BLUE));
    r.commit(vec![set(false, BLUE.1), set(true, BLUE.1)]).unwrap();
    assert_eq!(tables(&r, index), ([BLUE.1; 2], [BLUE.1; 2]));
    see(&mut r, index, None);
    assert_eq!(tables(&r, index), ([BLUE.1; 2], [BLUE.1; 2]));
}

#[test]
fn a_dump_loads_while_an_interface_is_away() {
    let (mut r, index) = bench();
    make_tables(&mut r, RED.1);
    see(&mut r, index, Some(RED));
    r.commit(vec![Op::CreateLoopback { instance: None, mac: None }]).unwrap();
    let add = |name: &str, net: &str| Op::AddAddress { name: name.into(), net: net.parse().unwrap() };
    for net in ["10.0.0.1/32", "10.0.0.65/26", "2001:db8::/32"] {
        let e = r.commit(vec![add("loop0", net)]).unwrap_err();
        assert!(e.message.contains("taken out of"), "{e}");
    }
    // Linux's address is no part of it; in the other table nobody has what the operator gives, in his own somebody has.
    r.commit(vec![add("loop0", "10.5.0.1/32"), add("loop0", "10.6.0.1/24")]).unwrap();
    let e = r.commit(vec![add(BELOW, "10.6.0.2/25")]).unwrap_err();
    assert!(e.message.contains("on loop0"), "{e}");
    // Its place was taken by what is Linux's: it stays, and the log tells.
    for _ in 0..2 {
        see(&mut r, index, None);
        assert_eq!(tables(&r, index), ([RED.1; 2], [0; 2]));
    }
    let told = r.take_log().into_iter().filter(|l| l.warn && l.text.contains("has left its VRF for table 0"));
    assert_eq!(told.count(), 1);
}

#[test]
fn a_table_that_is_not_there_is_told_once_and_made_when_it_is() {
    let (mut r, index) = bench();
    make_tables(&mut r, RED.1);
    see(&mut r, index, Some(RED));
    r.take_log();
    // It does not stay in the table of a VRF that it has left.
    for _ in 0..2 {
        see(&mut r, index, Some(BLUE));
        assert!(stands_in(&mut r, index, 0) && tables(&r, index) == ([0; 2], [0; 2]));
        assert_eq!(part::refused_table(&r, index).unwrap().0, BLUE.1);
    }
    assert_eq!(r.take_log().iter().filter(|l| l.text.contains("is in the VRF of table 11")).count(), 1);
    // With one family alone it is not in it, either.
    r.commit(vec![Op::CreateTable { table: table(false, BLUE.1), name: None }]).unwrap();
    see(&mut r, index, Some(BLUE));
    assert!(stands_in(&mut r, index, 0));
    r.commit(vec![Op::CreateTable { table: table(true, BLUE.1), name: None }]).unwrap();
    see(&mut r, index, Some(BLUE));
    assert!(stands_in(&mut r, index, BLUE.1) && part::refused_table(&r, index).is_none());
}

#[test]
fn nl_sync_switches_it_off() {
    let (mut r, index) = bench();
    make_tables(&mut r, RED.1);
    see(&mut r, index, Some(RED));
    r.commit(vec![LcpSetting::NlSync(false).into()]).unwrap();
    assert_eq!(tables(&r, index), ([0; 2], [0; 2]));
    see(&mut r, index, Some(RED));
    assert_eq!(tables(&r, index), ([0; 2], [0; 2]));
    r.commit(vec![LcpSetting::NlSync(true).into()]).unwrap();
    see(&mut r, index, Some(RED));
    assert!(stands_in(&mut r, index, RED.1));
    // The pair goes, and comes back where that is undone.
    let had = r.has_elsewhere(index);
    part::unmake(&mut r, index);
    assert_eq!(tables(&r, index), ([0; 2], [0; 2]));
    r.restore_elsewhere(index, had);
    assert!(stands_in(&mut r, index, RED.1) && tables(&r, index).1 == [0; 2]);
    r.clear();
    assert!(!r.has_table(table(false, RED.1)));
}

#[test]
fn linux_follows_the_operators_table() {
    let (mut r, index) = router();
    [RED.1, BLUE.1].into_iter().for_each(|id| make_tables(&mut r, id));
    let set = |r: &mut Router, v6, id| {
        r.commit(vec![Op::SetTable { name: BELOW.into(), table: table(v6, id) }]).unwrap();
    };
    let of = |r: &Router, was: u32, sync| {
        let was = Applied { master: was, ..Applied::made(MacAddr::ZERO, 1500) };
        wanted(r, r.interface(index).unwrap(), &was, sync).master
    };
    set(&mut r, false, RED.1);
    set(&mut r, true, RED.1);
    // Nothing is known of VRF devices yet.
    assert_eq!(of(&r, RED.0, true), RED.0);
    take_vrfs(&mut r, &None, BTreeMap::from([RED, BLUE]));
    assert!(r.state::<State>().unwrap().later.contains(&index));
    assert_eq!([0, RED.0, BLUE.0].map(|was| of(&r, was, true)), [RED.0; 3]);
    assert_eq!([0, RED.0, BLUE.0].map(|was| of(&r, was, false)), [0, RED.0, BLUE.0]);
    // It stays in a bridge; in two tables it is in no VRF's.
    assert_eq!(of(&r, BRIDGE, true), BRIDGE);
    set(&mut r, true, 0);
    assert_eq!([0, BLUE.0].map(|was| of(&r, was, true)), [0, BLUE.0]);
    set(&mut r, false, 0);
    assert_eq!([0, RED.0, BRIDGE].map(|was| of(&r, was, true)), [0, 0, BRIDGE]);
    // What Linux says stays, also where the interface cannot be in it.
    see(&mut r, index, Some(RED));
    assert_eq!(of(&r, RED.0, true), RED.0);
    see(&mut r, index, Some((23, 99)));
    assert_eq!(of(&r, 23, true), 23);
    see_master(&mut r, index, BRIDGE, None);
    assert_eq!(tables(&r, index), ([0; 2], [0; 2]));
    take_vrfs(&mut r, &None, BTreeMap::new());
    assert!(r.state::<State>().unwrap().vrfs.is_empty());
}
