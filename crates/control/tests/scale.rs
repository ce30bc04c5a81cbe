//! What many things take grows with their number and not with its square: counted, not timed.

#![allow(clippy::unwrap_used, clippy::panic)]

use control::{apply, yaml};
use net::router::{Encap, Op, Router, RouterConfig};
use std::fmt::Write as _;

/// A router with so many sub-interfaces with addresses, in pairs of cross-connects from the second half on.
fn router(subs: u32) -> Router {
    let file = format!("{}/scale.pcap", env!("CARGO_TARGET_TMPDIR"));
    let mut text =
        format!("devices: {{if0: {{driver: pcap, pcap: {{write: {file}}}}}}}\ninterfaces:\n  if0:\n");
    text.push_str("    sub-interfaces:\n");
    for id in 1..=subs {
        let what = match id > subs / 2 {
            false => format!("addresses: [10.{}.{}.1/24, \"2001:db8:{id:x}::1/64\"]", id >> 8, id & 255),
            true => format!("l2xc: if0.{}", if id % 2 == 1 { id + 1 } else { id - 1 }),
        };
        let _ = writeln!(text, "      {id}: {{{what}}}");
    }
    let document = yaml::load("scale", &text).unwrap_or_else(|e| panic!("{e}"));
    let pool = graph::PoolConfig { buffers: 2048, memory: graph::PoolMemory::Normal };
    let mut router = Router::new(RouterConfig { pool, ..apply::router_config(&document) }).unwrap();
    apply::start(&document, &mut router).unwrap_or_else(|e| panic!("{e}"));
    router
}

#[test]
fn sub_interfaces_are_published_a_few_times_each() {
    let (mut few, mut many) = (router(100), router(400));
    let (a, b) = (few.interfaces_published(), many.interfaces_published());
    assert!(b < 4 * a + 40, "{a} for 100, {b} for 400");
    assert!(b < 400 * 12, "{b}");

    // What belongs to one of them is nobody else's business.
    let before = many.interfaces_published();
    many.commit(vec![Op::SetMtu { name: "if0.7".into(), mtu: 1400 }]).unwrap();
    many.commit(vec![Op::AddAddress { name: "if0".into(), net: "172.16.0.1/24".parse().unwrap() }]).unwrap();
    many.commit(vec![Op::CreateSub { parent: "if0".into(), id: 1000, encap: Encap::Untagged }]).unwrap();
    many.commit(vec![Op::Delete { name: "if0.1000".into() }]).unwrap();
    assert!(many.interfaces_published() - before < 20, "{}", many.interfaces_published() - before);

    let (a, b) = (few.interfaces_published(), many.interfaces_published());
    few.clear();
    many.clear();
    let (a, b) = (few.interfaces_published() - a, many.interfaces_published() - b);
    assert!(b < 4 * a + 40, "{a} for 100, {b} for 400");
}

/// A transaction that fails leaves the frames of sub-interfaces as they were.
#[test]
fn a_failed_transaction_brings_sub_interfaces_back() {
    let mut router = router(8);
    let urpf = net::router::Feature::Urpf { v6: true, mode: net::urpf::Mode::Strict };
    router.commit(vec![Op::SetFeature { name: "if0.1".into(), feature: urpf }]).unwrap();
    let names =
        |r: &Router| r.interfaces().map(|i| i.name.clone()).collect::<std::collections::BTreeSet<_>>();
    let was = names(&router);
    let gone = vec![Op::Delete { name: "if0.5".into() }, Op::Delete { name: "if0".into() }];
    let e = router.commit(gone).unwrap_err();
    assert!(e.message.contains("if0.6"), "{e}");
    let ops = vec![
        Op::SetXconnect { name: "if0.6".into(), peer: None },
        Op::Delete { name: "if0.5".into() },
        Op::Delete { name: "if0".into() },
        Op::Delete { name: "if0".into() },
    ];
    router.commit(ops).unwrap_err();
    assert_eq!(names(&router), was);
    let index = |n: &str| router.interface_index(n).unwrap();
    assert_eq!(router.interface(index("if0.5")).unwrap().xconnect, Some(index("if0.6")));
    assert_eq!(router.interface(index("if0.6")).unwrap().xconnect, Some(index("if0.5")));
    assert_eq!(router.interface(index("if0.1")).unwrap().features.urpf6, net::urpf::Mode::Strict);
    // A new one with the tags of one that is there is still refused.
    let tags = Encap::Tags { dot1ad: false, outer: Some(3), inner: None, exact: false };
    let e = router.commit(vec![Op::CreateSub { parent: "if0".into(), id: 99, encap: tags }]).unwrap_err();
    assert!(e.message.contains("if0.3 takes these frames already"), "{e}");
}
