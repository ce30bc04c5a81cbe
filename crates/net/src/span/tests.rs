use super::*;
use crate::interface::{Interface, Tags};
use crate::l2::bridge::{BridgeOp, BridgeSettings};
use crate::router::{Encap, Membership, Op, Router, RouterConfig};
use crate::testing::{Arrival, Input, Rig, hex};
use graph::{Desc, PoolConfig, PoolMemory};
use std::sync::Arc;
use tables::vlan::{Match, Tpid, Vid, VlanTable};

const BOTH: Directions = Directions::ALL[0].1;
const RX: Directions = Directions::ALL[1].1;
const TX: Directions = Directions::ALL[2].1;

fn frame(vlans: &[u16], size: usize) -> Vec<u8> {
    let tags: String = vlans.iter().map(|v| format!("8100{v:04x}")).collect();
    let mut f = hex(&["020000000001 0200000000aa", &tags, "0800"].concat());
    let start = f.len();
    f.extend((0..size).map(|n| (n ^ start) as u8));
    f
}

/// A frame that begins where its Ethernet header does.
fn input(bytes: &[u8]) -> Input {
    Input { l2: vec![], ..Input::new(bytes) }
}

/// One that leaves over `over`, on `device`.
fn leaving(bytes: &[u8], device: u32, over: u32) -> Input {
    let mut i = input(bytes).aux(over);
    i.d.tx = device;
    i
}

fn change(r: &mut Rig, index: u32, change: impl FnOnce(&mut Interface)) {
    let mut i = r.interfaces.get(index).unwrap().clone();
    change(&mut i);
    r.interfaces.replace(index, i);
}

fn receiving(pairs: &[Pair], devices: &[u32]) -> Rig {
    let mut r = Rig::new(SpanInput::new);
    let (own, all) = pairs.iter().partition::<Vec<Pair>, _>(|p| p.0 == 3);
    r.change(|m: &mut Mirrors| (m.rx, m.rx_own, m.devices) = (all.into(), own.into(), devices.into()));
    r
}

fn sending(pairs: &[Pair]) -> Rig {
    let mut r = Rig::new(SpanOutput::new);
    let (own, all) = pairs.iter().partition::<Vec<Pair>, _>(|p| p.0 == 3);
    r.change(|m: &mut Mirrors| (m.tx, m.tx_own) = (all.into(), own.into()));
    r
}

/// Where copies of a packet go; the packet itself goes on unchanged.
fn copies(r: &mut Rig, i: Input) -> Vec<Arrival> {
    let (bytes, flags) = (i.bytes.clone(), i.d.flags);
    let mut all = r.run(&[i]);
    let is_own = |a: &Arrival| a.node != "interface-output" || !a.d.has(MIRRORED) || flags & MIRRORED != 0;
    let own = all.iter().position(is_own).unwrap();
    let own = all.remove(own);
    let ends = ["ethernet-input", "interface-tx", "l2-bridge", "interface-output"];
    assert!(ends.contains(&own.node), "{own:?}");
    assert_eq!((&own.bytes, own.d.flags & flags), (&bytes, flags));
    for a in &all {
        assert_eq!((a.node, a.d.has(MIRRORED), a.d.l2), ("interface-output", true, a.d.off));
    }
    all
}

fn to(all: &[Arrival]) -> Vec<u32> {
    all.iter().map(|a| a.d.tx).collect()
}

#[test]
fn received_frames_are_copied() {
    let mut r = receiving(&[(1, 2), (1, 3), (2, 3)], &[]);
    let f = frame(&[], 60);
    let all = copies(&mut r, input(&f).flags(flags::L2_GROUP | flags::TRACED | flags::SPECIAL));
    assert_eq!(to(&all), [2, 3]);
    for a in &all {
        assert_eq!((&a.bytes, a.d.flags), (&f, flags::TRACED | MIRRORED));
        assert_eq!(a.trace_id, crate::testing::TRACE_ID);
    }
    assert_eq!(to(&copies(&mut r, input(&f).rx(2))), [3]);
    assert_eq!(to(&copies(&mut r, input(&f).rx(3))), [0; 0]);
    assert_eq!(r.count("span-copies"), 3);
    assert_eq!(to(&copies(&mut r, input(&f[..13]))), [0; 0], "no whole Ethernet header");
    change(&mut r, 1, |i| i.flags &= !ifflags::UP);
    assert_eq!(to(&copies(&mut r, input(&f))), [0; 0], "nothing is received on an interface that is down");
}

#[test]
fn copies_are_whole_and_keep_what_is_left_to_the_device() {
    let mut r = receiving(&[(1, 2)], &[]);
    for (size, split) in [(40, 30), (1500, 20), (9000, 2000)] {
        let f = frame(&[7], size);
        let all = copies(&mut r, input(&f).split(split));
        assert_eq!((all.len(), &all[0].bytes), (1, &f), "{size} in pieces of {split}");
    }
    let partial = Input { partial: Some((34, 6)), ..input(&frame(&[], 80)) };
    let super_frame = Input { gso: Some((1000, 5)), ..Input { bytes: frame(&[], 4000), ..partial.clone() } };
    for (i, wanted) in [(partial, flags::CSUM_PARTIAL), (super_frame, flags::CSUM_PARTIAL | flags::GSO)] {
        let all = copies(&mut r, i);
        assert_eq!(all[0].d.flags & !flags::CHAINED, wanted | MIRRORED);
    }
}

fn with_sub(r: &mut Rig, vlan: u16) {
    let rule = Match::Tagged { tpid: Tpid::Dot1q, outer: Vid::Id(vlan), inner: None, exact: true };
    let subs = VlanTable::build(&[(rule, 3)]).unwrap();
    change(r, 1, |i| i.subs = Some(Arc::new(subs)));
    change(r, 3, |i| i.hw = 1);
}

#[test]
fn frames_of_a_sub_interface() {
    let mut r = receiving(&[(3, 2)], &[1]);
    with_sub(&mut r, 100);
    assert_eq!(to(&copies(&mut r, input(&frame(&[100], 60)))), [2]);
    for vlans in [&[][..], &[101], &[100, 7]] {
        assert_eq!(to(&copies(&mut r, input(&frame(vlans, 60)))), [0; 0], "{vlans:?}");
    }
    assert_eq!(to(&copies(&mut r, input(&frame(&[100], 0)[..16]))), [0; 0], "its tag is cut off");
    change(&mut r, 3, |i| i.flags &= !ifflags::UP);
    assert_eq!(to(&copies(&mut r, input(&frame(&[100], 60)))), [0; 0], "it is down");

    let mut r = receiving(&[(1, 2), (3, 2)], &[1]);
    with_sub(&mut r, 100);
    assert_eq!(to(&copies(&mut r, input(&frame(&[100], 60)))), [2], "one copy for both");
}

#[test]
fn frames_that_layer_2_has_from_an_interface() {
    let mut r = Rig::new(SpanL2Input::new);
    r.change(|m: &mut Mirrors| {
        m.rx_l2 = [(1, 0), (1, 2), (3, 0), (3, 2)].into();
        (m.rx, m.rx_own) = ([(1, 2)].into(), [(3, 0)].into());
    });
    change(&mut r, 0, |i| i.flags = ifflags::UP | ifflags::LINK);
    let f = frame(&[100], 60);
    assert_eq!(to(&copies(&mut r, input(&f))), [0], "all frames of its device go to the other one anyway");
    assert_eq!(to(&copies(&mut r, input(&f).rx(2))), [0; 0]);
    assert_eq!(to(&copies(&mut r, input(&f).rx(3))), [2]);
    change(&mut r, 3, |i| i.hw = 1);
    assert_eq!(to(&copies(&mut r, input(&f).rx(3))), [0; 0], "either goes there anyway");
    assert_eq!(to(&copies(&mut r, input(&f).flags(MIRRORED))), [0; 0], "a copy itself");
    assert_eq!(to(&copies(&mut r, input(&f[..9]))), [0; 0]);
}

#[test]
fn frames_that_layer_2_sends() {
    let mut r = Rig::new(SpanL2Output::new);
    r.change(|m: &mut Mirrors| {
        m.tx_l2 = [(1, 0), (1, 2), (3, 0), (3, 2)].into();
        (m.tx, m.tx_own) = ([(1, 2)].into(), [(3, 0)].into());
    });
    change(&mut r, 0, |i| i.flags = ifflags::UP | ifflags::LINK);
    let f = frame(&[100], 60);
    assert_eq!(
        to(&copies(&mut r, leaving(&f, 1, 0))),
        [0],
        "all frames of its device go to the other one anyway"
    );
    assert_eq!(to(&copies(&mut r, leaving(&f, 2, 0))), [0; 0]);
    assert_eq!(to(&copies(&mut r, leaving(&f, 3, 0))), [2]);
    change(&mut r, 3, |i| i.hw = 1);
    assert_eq!(to(&copies(&mut r, leaving(&f, 3, 0))), [0; 0], "either goes there anyway");
    assert_eq!(to(&copies(&mut r, leaving(&f, 1, 0).flags(MIRRORED))), [0; 0], "a copy itself");
    for lost in [ifflags::UP, ifflags::LINK] {
        change(&mut r, 1, |i| i.flags &= !lost);
        assert_eq!(to(&copies(&mut r, leaving(&f, 1, 0))), [0; 0], "it will not leave");
        change(&mut r, 1, |i| i.flags |= lost);
    }
}

#[test]
fn sent_frames_are_copied() {
    let mut r = sending(&[(1, 2), (3, 0), (3, 2)]);
    change(&mut r, 0, |i| i.flags = ifflags::UP | ifflags::LINK);
    let f = frame(&[], 60);
    assert_eq!(to(&copies(&mut r, leaving(&f, 1, 1))), [2]);
    assert_eq!(to(&copies(&mut r, leaving(&f, 1, 3))), [2, 0], "over a sub-interface");
    assert_eq!(to(&copies(&mut r, leaving(&f, 2, 2))), [0; 0]);
    assert_eq!(to(&copies(&mut r, leaving(&f, 1, 1).flags(MIRRORED))), [0; 0], "a copy itself");
    assert_eq!(to(&copies(&mut r, leaving(&f[..9], 1, 1))), [0; 0]);
}

#[test]
fn destinations_that_get_none() {
    let f = frame(&[], 60);
    for lost in [ifflags::UP, ifflags::LINK] {
        let mut r = receiving(&[(1, 2)], &[]);
        change(&mut r, 2, |i| i.flags &= !lost);
        assert_eq!(to(&copies(&mut r, input(&f))), [0; 0]);
        assert_eq!(r.count("span-destination-down"), 1);
    }
    let mut r = sending(&[(1, 9)]);
    assert_eq!(to(&copies(&mut r, leaving(&f, 1, 1))), [0; 0]);
    assert_eq!(r.count("span-destination-gone"), 1);
    let mut r = receiving(&[(1, 2), (1, 3)], &[]);
    let hoard = r.hoard(300);
    assert_eq!(to(&copies(&mut r, input(&f))), [0; 0], "the last eighth is for what is received");
    r.release(hoard);
    assert_eq!((r.count("span-no-buffers"), r.count("span-copies")), (2, 0));
}

#[test]
fn a_sub_interface_puts_its_tags_in_front() {
    let mut r = receiving(&[(1, 3)], &[]);
    change(&mut r, 3, |i| i.tags = Tags { count: 1, bytes: [0x81, 0, 0, 9, 0, 0, 0, 0] });
    let all = copies(&mut r, input(&frame(&[100], 60)));
    assert_eq!(all[0].bytes[..24], hex("020000000001 0200000000aa 81000009 81000064 0800 1213")[..]);
    let cramped = Input { front: Some(3), ..input(&frame(&[], 60)) };
    assert_eq!(to(&copies(&mut r, cramped)), [0; 0]);
    assert_eq!(r.count("span-no-room-for-tags"), 1);
}

fn router() -> Router {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let config = crate::router::PcapConfig { read: None, write: None, pps: None, repeat: false };
    let device = |name: &str| Op::CreatePcap { name: name.into(), config: config.clone() };
    let vlan = |outer| Encap::Tags { dot1ad: false, outer: Some(outer), inner: None, exact: true };
    let sub = |id: u16| Op::CreateSub { parent: "a".into(), id: id.into(), encap: vlan(id) };
    let ops = vec![device("a"), device("b"), device("c"), sub(7), sub(8)];
    r.commit(ops).unwrap();
    r.commit(vec![Op::CreateLoopback { instance: None, mac: None }]).unwrap();
    r
}

fn mirror(name: &str, to: &str, directions: Directions) -> Op {
    Op::SetFeature {
        name: name.into(),
        feature: Mirror { destination: to.into(), directions, l2: false }.into(),
    }
}

fn delete(name: &str) -> Op {
    Op::Delete { name: name.into() }
}

fn refused(r: &mut Router, op: Op) -> String {
    r.commit(vec![op]).unwrap_err().message
}

/// All that is mirrored.
fn state(r: &Router) -> Vec<String> {
    let name = |index| r.interface_name(index);
    let pair = |from: u32, (to, told): (u32, Told)| {
        format!("{}>{} {}", name(from), name(to), told.directions.name())
    };
    r.interfaces().flat_map(|i| mirrors(r, i.index).map(move |m| pair(i.index, m))).collect()
}

/// The nodes that frames of `name` visit.
fn visited(r: &Router, name: &str) -> Vec<&'static str> {
    let all = r.features(r.interface_index(name).unwrap()).into_iter();
    all.filter(|a| a.arc != "mpls-input").flat_map(|a| a.enabled).collect()
}

#[test]
fn mirrors_switch_the_nodes_on_where_frames_meet_them() {
    let mut r = router();
    let nodes = ["span-input", "span-output"];
    r.commit(vec![mirror("a", "b", BOTH)]).unwrap();
    assert_eq!((visited(&r, "a"), visited(&r, "b")), (nodes.to_vec(), vec![]));
    assert_eq!(visited(&r, "a.7"), ["span-output"], "its frames leave over the device");
    r.commit(vec![mirror("a", "b", TX)]).unwrap();
    assert_eq!((visited(&r, "a"), state(&r)), (nodes[1..].to_vec(), vec!["a>b tx".into()]));
    r.commit(vec![mirror("a", "b", Directions::default()), mirror("a.7", "c", RX)]).unwrap();
    assert_eq!(visited(&r, "a"), nodes[..1], "where frames of its sub-interface come in");
    r.commit(vec![mirror("a.7", "c", TX)]).unwrap();
    assert_eq!((visited(&r, "a"), visited(&r, "a.7")), (vec![], nodes[1..].to_vec()));
    r.commit(vec![mirror("a.7", "c", BOTH), delete("a.7")]).unwrap();
    assert_eq!((visited(&r, "a"), state(&r)), (vec![], vec![]));
}

#[test]
fn mirrors_that_cannot_be() {
    let mut r = router();
    for (from, to, why) in [
        ("a", "a", "a cannot be mirrored to itself"),
        ("a", "a.7", "a cannot be mirrored to a.7: one is a sub-interface"),
        ("a.7", "a", "one is a sub-interface of the other"),
        ("a", "loop0", "loop0 is a loopback, over which no frames go"),
        ("loop0", "a", "loop0 is a loopback, over which no frames go"),
        ("a", "nowhere", "there is no interface nowhere"),
        ("a", "local0", "local0 stands for the router itself"),
    ] {
        let said = refused(&mut r, mirror(from, to, RX));
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(refused(&mut r, mirror("a", "b", Directions::default())), "a is not mirrored to b");
    let many: Vec<Op> = (1..=9)
        .flat_map(|n| {
            let outer = Some(n);
            let encap = Encap::Tags { dot1ad: false, outer, inner: None, exact: true };
            [Op::CreateSub { parent: "b".into(), id: n.into(), encap }, mirror("a", &format!("b.{n}"), RX)]
        })
        .collect();
    r.commit(many[..16].to_vec()).unwrap();
    let said = r.commit(many[16..].to_vec()).unwrap_err().message;
    assert_eq!(said, "a is mirrored to 8 interfaces already, as many as may be");
    r.commit(vec![mirror("a", "b.8", TX)]).unwrap();
    r.clear();
    assert_eq!(r.interfaces().count(), 1);
}

#[test]
fn a_destination_stays_until_nothing_is_mirrored_to_it() {
    let mut r = router();
    r.commit(vec![mirror("a", "b", BOTH), mirror("a.7", "a.8", RX), mirror("a.8", "b", TX)]).unwrap();
    let was = state(&r);
    let said = refused(&mut r, delete("b"));
    assert!(said.ends_with("undo that first (set interface span a destination b disable)"), "{said}");
    let said = refused(&mut r, delete("a.8"));
    assert!(said.ends_with("(set interface span a.7 destination a.8 disable)"), "{said}");
    // What is undone comes back as it was, whatever had gone.
    for ops in [
        vec![delete("a"), delete("c"), mirror("b", "c", RX)],
        vec![
            mirror("a", "b", TX),
            mirror("a", "c", RX),
            mirror("a.8", "b", Directions::default()),
            delete("x"),
        ],
    ] {
        r.commit(ops).unwrap_err();
        assert_eq!((state(&r), visited(&r, "a").len()), (was.clone(), 2));
    }
    r.commit(vec![delete("a"), delete("b")]).unwrap();
    assert_eq!(state(&r), [""; 0]);
}

#[test]
fn mirrored_interfaces_change_their_layer() {
    let mut r = router();
    r.commit(vec![mirror("a", "b", BOTH)]).unwrap();
    let connect = |peer: Option<&str>| Op::SetXconnect { name: "b".into(), peer: peer.map(Into::into) };
    r.commit(vec![connect(Some("c")), mirror("c", "a", RX), connect(None)]).unwrap();
    assert_eq!(state(&r), ["a>b both", "c>a rx"]);
}

/// Copies of copies: two interfaces mirror each other, and what leaves over one is a copy on the other.
#[test]
fn no_arrangement_makes_a_loop() {
    let mut r = router();
    for name in ["a", "b", "c"] {
        r.commit(vec![Op::SetState { name: name.into(), up: true }]).unwrap();
    }
    r.commit(vec![mirror("a", "b", BOTH), mirror("b", "a", BOTH), mirror("b", "c", BOTH)]).unwrap();
    let [a, b] = ["a", "b"].map(|n| r.interface_index(n).unwrap());
    r.workers().each(move |w| {
        assert!(w.inject("interface-output", &[0; 60], |d: &mut Desc| d.tx = a));
        assert!(w.inject("interface-output", &[0; 60], |d: &mut Desc| d.tx = b));
    });
    let copies = |r: &Router| {
        let g = &r.graphs()[0];
        let all = g.reasons.iter().zip(g.stats.reasons.iter());
        let named = all.filter(|(reason, _)| reason.name == "span-copies" || reason.name == "no-tx-queue");
        named.fold((0, 0), |(copies, sent), (reason, n)| match reason.name {
            "span-copies" => (copies + n.get(), sent),
            _ => (copies, sent + n.get()),
        })
    };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    // Both frames, one copy of the first and two of the second.
    while copies(&r) != (3, 5) {
        assert!(std::time::Instant::now() < deadline, "{:?}", copies(&r));
        std::thread::yield_now();
    }
}

fn bridge(name: &str, on: bool) -> Op {
    let member = Membership { bridge: 10, bvi: false, shg: 0 };
    Op::from(BridgeOp::Port { name: name.into(), member: on.then_some(member) })
}

fn new_bridge() -> Op {
    Op::from(BridgeOp::Create { id: 10, settings: BridgeSettings::default() })
}

fn mirror_bridge(to: &str, directions: Directions) -> Op {
    MirrorBridge { bridge: 10, mirror: Mirror { destination: to.into(), directions, l2: false } }.into()
}

#[test]
fn members_of_a_bridge_domain_follow_it() {
    let mut r = router();
    r.commit(vec![new_bridge()]).unwrap();
    let nodes = ["span-l2-input", "span-l2-output"];
    r.commit(vec![bridge("a.7", true), mirror_bridge("b", RX)]).unwrap();
    assert_eq!((visited(&r, "a"), visited(&r, "a.7")), (vec![], nodes[..1].to_vec()));
    r.commit(vec![mirror_bridge("b", BOTH), bridge("c", true)]).unwrap();
    assert_eq!((visited(&r, "a.7"), visited(&r, "c")), (nodes.to_vec(), nodes.to_vec()));
    // A change that fails leaves all as it was, whatever came before in it.
    for op in
        [bridge("c", false), mirror_bridge("b", Directions::default()), mirror_bridge("b", TX), delete("a")]
    {
        r.commit(vec![op, delete("x")]).unwrap_err();
        assert_eq!((visited(&r, "a.7"), visited(&r, "c")), (nodes.to_vec(), nodes.to_vec()));
    }
    // The destination comes in, and is not mirrored to itself; also where it was there before, and after a change that fails.
    r.commit(vec![bridge("b", true)]).unwrap();
    r.commit(vec![mirror_bridge("b", Directions::default()), mirror_bridge("b", BOTH)]).unwrap();
    r.commit(vec![mirror_bridge("b", Directions::default()), delete("x")]).unwrap_err();
    assert_eq!((visited(&r, "b"), visited(&r, "c")), (vec![], nodes.to_vec()));
    let said = refused(&mut r, delete("b"));
    assert!(said.ends_with("(set bridge-domain span 10 destination b disable)"), "{said}");
    r.commit(vec![delete("a"), bridge("c", false), bridge("b", false)]).unwrap();
    assert_eq!(visited(&r, "c"), [""; 0]);
    let said = refused(&mut r, Op::from(BridgeOp::Delete { id: 10 }));
    assert!(said.ends_with("(set bridge-domain span 10 destination b disable)"), "{said}");
    r.clear();
    assert_eq!((r.interfaces().count(), crate::l2::bridge::bridge(&r, 10).is_none()), (1, true));
}

#[test]
fn layer_2_only() {
    let mut r = router();
    r.commit(vec![new_bridge()]).unwrap();
    let l2 = Mirror { destination: "a".into(), directions: BOTH, l2: true };
    r.commit(vec![Op::SetFeature { name: "c".into(), feature: l2.into() }]).unwrap();
    assert_eq!(visited(&r, "c"), [""; 0]);
    r.commit(vec![bridge("c", true)]).unwrap();
    assert_eq!(visited(&r, "c"), ["span-l2-input", "span-l2-output"]);
    r.commit(vec![bridge("c", false)]).unwrap();
    assert_eq!(visited(&r, "c"), [""; 0]);
    let connect = |peer: Option<&str>| Op::SetXconnect { name: "c".into(), peer: peer.map(Into::into) };
    r.commit(vec![connect(Some("b"))]).unwrap();
    assert_eq!(visited(&r, "c"), ["span-l2-input", "l2-xconnect", "span-l2-output"]);
}
