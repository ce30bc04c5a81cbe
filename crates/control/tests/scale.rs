//! What many things take grows with their number and not with its square: counted, not timed.

#![allow(clippy::unwrap_used, clippy::panic)]

use control::{apply, yaml};
use net::router::{Encap, Op, RouteTable, Router, RouterConfig};
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
    let urpf =
        net::urpf::SourceCheck { v6: true, tx: false, mode: net::urpf::Mode::Strict, table: None }.into();
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
    assert_eq!(
        net::urpf::rule(router.interface(index("if0.1")).unwrap(), true, false).mode,
        net::urpf::Mode::Strict
    );
    // A new one with the tags of one that is there is still refused.
    let tags = Encap::Tags { dot1ad: false, outer: Some(3), inner: None, exact: false };
    let e = router.commit(vec![Op::CreateSub { parent: "if0".into(), id: 99, encap: tags }]).unwrap_err();
    assert!(e.message.contains("if0.3 takes these frames already"), "{e}");
}

/// Processor time of this thread, ms.
fn on_cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

/// Makes and takes out so many sub-interfaces with addresses in tables of their own, each by transactions of its own as
/// commands do; processor time in ms.
fn one_by_one(n: u32) -> u64 {
    let mut router = router(4);
    let began = on_cpu();
    let name = |id: u32| format!("if0.{id}");
    for id in 5..n + 5 {
        let (outer, inner) = (Some(1 + (id / 100) as u16), Some(Some(1 + (id % 100) as u16)));
        let encap = Encap::Tags { dot1ad: false, outer, inner, exact: true };
        router.commit(vec![Op::CreateSub { parent: "if0".into(), id, encap }]).unwrap();
        router.commit(vec![Op::SetState { name: name(id), up: true }]).unwrap();
        let table = RouteTable { v6: true, id };
        router.commit(vec![Op::CreateTable { table, name: None }]).unwrap();
        router.commit(vec![Op::SetTable { name: name(id), table }]).unwrap();
        let net = "2001:db8::1/64".parse().unwrap();
        router.commit(vec![Op::AddAddress { name: name(id), net }]).unwrap();
        router.tick();
    }
    for id in 5..n + 5 {
        router.commit(vec![Op::Delete { name: name(id) }]).unwrap();
        router.commit(vec![Op::DeleteTable { table: RouteTable { v6: true, id } }]).unwrap();
        router.tick();
    }
    on_cpu() - began
}

/// Eight times as many would take 64 times as long by the square. Beside other work a thread's time is more than its own, so it is
/// measured again before it counts.
fn holds_by_number(mut measure: impl FnMut() -> (u64, u64)) {
    let mut seen = vec![];
    let fits = (0..3).any(|_| {
        let (little, much) = measure();
        seen.push((little, much));
        much < 30 * (little + 20)
    });
    assert!(fits, "ms for some, and for eight times as many: {seen:?}");
}

#[test]
fn commands_one_by_one_take_what_their_number_takes() {
    holds_by_number(|| (one_by_one(500), one_by_one(4000)));
}

/// So many bridge domains of two sub-interfaces each, and so many routing tables of one with routes in it, as
/// `benchmarks/scale.py` writes them; and the processor time in ms that this thread took to load them.
fn everything(n: usize) -> (Router, u64) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks/scale.py");
    let (count, subs) = (n.to_string(), (3 * n).to_string());
    let args = [script, "--bridges", &count, "--vrfs", &count, "--subs", &subs];
    let made = std::process::Command::new("python3").args(args).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut text = String::from_utf8(made.stdout).unwrap();
    text.push_str("devices:\n");
    for name in ["left", "right"] {
        let file = format!("{}/scale-{name}-{n}.pcap", env!("CARGO_TARGET_TMPDIR"));
        let _ = writeln!(text, "  {name}: {{driver: pcap, pcap: {{write: {file}}}}}");
    }
    let began = on_cpu();
    let document = yaml::load("scale", &text).unwrap_or_else(|e| panic!("{e}"));
    let pool = graph::PoolConfig { buffers: 2048, memory: graph::PoolMemory::Normal };
    let mut router = Router::new(RouterConfig { pool, ..apply::router_config(&document) }).unwrap();
    apply::start(&document, &mut router).unwrap_or_else(|e| panic!("{e}"));
    (router, on_cpu() - began)
}

#[test]
fn bridge_domains_and_tables_take_what_their_number_takes() {
    let ((few, little), (many, much)) = (everything(250), everything(2000));
    let counts = |r: &Router| {
        let p = r.published();
        [r.interfaces_published(), p.routes, p.groups]
    };
    for (a, b) in counts(&few).into_iter().zip(counts(&many)) {
        assert!(a > 0 && b < 8 * a + 100, "{a} for 250, {b} for 2000");
    }
    assert_eq!((net::l2::bridge::bridges(&many).count(), many.route_tables(false).len()), (2000, 2001));
    assert_eq!(many.route_tables(true).len(), 2001);
    assert_eq!(many.interfaces().filter(|i| i.membership.is_some()).count(), 4000);
    // What no count sees.
    let mut first = Some((little, much));
    holds_by_number(|| first.take().unwrap_or_else(|| (everything(250).1, everything(2000).1)));
}
