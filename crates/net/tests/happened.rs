//! What happens to interfaces and neighbours, as a listener is told, and what the router has then.
#![allow(clippy::unwrap_used)]

use graph::{PoolConfig, PoolMemory};
use net::neighbor::{Heard, Millis, NeighborConfig, NeighborTable};
use net::router::{Happened, Op, Router, RouterConfig};
use packet::eth::MacAddr;
use std::sync::{Arc, Mutex};

fn said(happened: Happened<'_>) -> String {
    match happened {
        Happened::Link { was, now } => {
            let one =
                |l: &net::router::LinkState| format!("{} {} {} {} {}", l.name, l.up, l.link, l.mtu, l.mac);
            format!("link {} -> {}", was.map_or("none".into(), one), now.map_or("none".into(), one))
        }
        Happened::Neighbor { interface, address, was, now, .. } => {
            let one = |k: net::neighbor::Known| format!("{} {}", k.mac, k.fixed);
            let (was, now) = (was.map_or("none".into(), one), now.map_or("none".into(), one));
            format!("{interface} {address} {was} -> {now}")
        }
    }
}

#[test]
fn each_change_is_told_with_what_was_before() {
    let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
    let mut r = Router::new(RouterConfig { pool, ..RouterConfig::default() }).unwrap();
    let loop0 = || "loop0".to_owned();
    let mac = |n: u8| MacAddr([2, 0, 0, 0, 0, n]);
    // Nobody listens: nothing is told of this.
    r.commit(vec![Op::CreateLoopback { instance: Some(0), mac: Some(mac(1)) }]).unwrap();
    let told = Arc::new(Mutex::new(vec![]));
    let heard = Arc::clone(&told);
    r.listen(Box::new(move |happened| heard.lock().unwrap().push(said(happened))));
    let take = |r: &mut Router, ops: Vec<Op>| {
        r.commit(ops).unwrap();
        std::mem::take(&mut *told.lock().unwrap())
    };
    let at = "10.0.0.9".parse().unwrap();
    let up = take(&mut r, vec![Op::SetState { name: loop0(), up: true }]);
    assert_eq!(
        up.last().unwrap().split(" -> ").nth(1),
        Some("loop0 true true 1500 02:00:00:00:00:01"),
        "{up:?}"
    );
    let mtu = take(&mut r, vec![Op::SetMtu { name: loop0(), mtu: 1400 }]);
    let was = "loop0 true true 1500 02:00:00:00:00:01";
    assert_eq!(mtu, [format!("link {was} -> {}", was.replace("1500", "1400"))]);
    // What is not told changes nothing.
    let net = "10.0.0.1/24".parse().unwrap();
    assert_eq!(take(&mut r, vec![Op::AddAddress { name: loop0(), net }]), Vec::<String>::new());
    let set = |n| vec![Op::SetNeighbor { name: loop0(), address: at, mac: mac(n) }];
    assert_eq!(take(&mut r, set(7)), ["loop0 10.0.0.9 none -> 02:00:00:00:00:07 true"]);
    assert_eq!(take(&mut r, set(7)), Vec::<String>::new());
    assert_eq!(take(&mut r, set(8)), ["loop0 10.0.0.9 02:00:00:00:00:07 true -> 02:00:00:00:00:08 true"]);
    // What is undone is told both ways.
    let wrong = vec![Op::SetMtu { name: loop0(), mtu: 1300 }, Op::SetMtu { name: "none".into(), mtu: 1300 }];
    assert!(r.commit(wrong).is_err());
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()).len(), 2);
    // The neighbour goes before its interface does.
    let gone = take(&mut r, vec![Op::Delete { name: loop0() }]);
    let neighbor = gone.iter().position(|l| l == "loop0 10.0.0.9 02:00:00:00:00:08 true -> none").unwrap();
    let link = gone.iter().position(|l| l.starts_with("link loop0 ") && l.ends_with("-> none")).unwrap();
    assert!(neighbor < link && link == gone.len() - 1, "{gone:?}");
    r.unlisten();
    assert_eq!(take(&mut r, vec![Op::CreateLoopback { instance: Some(1), mac: None }]), Vec::<String>::new());
    r.shutdown();
}

#[test]
fn a_neighbor_is_learnt_moves_and_is_forgotten() {
    let mut table = NeighborTable::new(NeighborConfig::default(), 1);
    let mut out = vec![];
    table.interface_up(3, &mut out);
    let at = "10.0.0.9".parse().unwrap();
    let mac = |n: u8| MacAddr([2, 0, 0, 0, 0, n]);
    let asks = Heard::ArpRequest { for_us: true };
    table.heard(Millis(0), 3, at, Some(mac(1)), asks, &mut out);
    assert!(table.told().is_empty(), "nobody is told");
    table.flush(3, &mut out);
    table.tell(true);
    let told = |table: &mut NeighborTable| -> Vec<(Option<u8>, Option<u8>)> {
        let last = |k: Option<net::neighbor::Known>| k.map(|k| k.mac.0[5]);
        table.told().into_iter().map(|(_, was, now)| (last(was), last(now))).collect()
    };
    // Being asked for is nothing that is told, nor is being confirmed.
    table.resolve_wanted(Millis(1), 3, at, &mut out);
    assert_eq!(told(&mut table), []);
    table.heard(Millis(2), 3, at, Some(mac(1)), Heard::ArpReply { solicited: true }, &mut out);
    table.heard(Millis(3), 3, at, Some(mac(1)), Heard::ArpReply { solicited: true }, &mut out);
    table.heard(Millis(4), 3, at, Some(mac(2)), asks, &mut out);
    table.interface_down(3, &mut out);
    assert_eq!(told(&mut table), [(None, Some(1)), (Some(1), Some(2)), (Some(2), None)]);
}
