//! Clocks a packet of the IPv4 and IPv6 paths: the packet generator feeds the real graph, and a capture file of
//! `/dev/null`-like kind takes the packets. Prints each node's clocks a packet, for a look while developing:
//! `cargo run --release -p net --example forward_clocks [SECONDS]`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use drivers::generator::parse_words;
use graph::{Buffers, Desc, TxCaps, TxQueue, TxReport};
use net::router::{Op, Router, RouterConfig};
use std::time::Duration;

struct Sink;

impl TxQueue for Sink {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: &[Desc]) -> TxReport {
        for d in packets {
            buffers.free(d);
        }
        TxReport { packets: packets.len() as u64, ..TxReport::default() }
    }
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let mut r = Router::new(RouterConfig { cpus: vec![1], ..RouterConfig::default() }).unwrap();
    let lo = |n| Op::CreateLoopback { instance: Some(n), mac: None };
    let up = |n: &str| Op::SetState { name: n.into(), up: true };
    let addr = |n: &str, a: &str| Op::AddAddress { name: n.into(), net: a.parse().unwrap() };
    r.commit(vec![lo(0), lo(1), up("loop0"), up("loop1")]).unwrap();
    r.commit(vec![addr("loop0", "10.0.1.1/24"), addr("loop1", "10.0.2.1/24")]).unwrap();
    r.commit(vec![addr("loop0", "2001:db8:1::1/64"), addr("loop1", "2001:db8:2::1/64")]).unwrap();
    let mac = "02:00:00:00:00:99".parse().unwrap();
    for a in ["10.0.2.2", "2001:db8:2::2"] {
        r.commit(vec![Op::SetNeighbor { name: "loop1".into(), address: a.parse().unwrap(), mac }]).unwrap();
    }
    r.test_sink("loop1", Box::new(Sink));
    let dst = r.interface(r.interface_index("loop0").unwrap()).unwrap().mac;
    for (name, l3) in [
        ("ip4", "ipv4 src 10.0.1.2 dst 10.0.2.2 / udp sport 1000-60000 random dport 80"),
        ("ip6", "ipv6 src 2001:db8:1::2 dst 2001:db8:2::2 / udp sport 1000-60000 random dport 80"),
    ] {
        let words = format!(
            "name {name} interface loop0 rate max size 64 data \"ethernet src 02:00:00:00:00:01 dst {dst} / {l3}\""
        );
        let def = parse_words(&words).unwrap();
        r.commit(vec![Op::CreateStream { def: Box::new(def) }]).unwrap();
        r.commit(vec![Op::EnableStream { name: name.into(), on: true }]).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        // The best of many short windows: the machine is shared.
        let mut best: Vec<(&str, f64, f64)> = vec![];
        let mut total = f64::MAX;
        for _ in 0..(seconds / 0.001) as usize {
            r.clear_runtime();
            std::thread::sleep(Duration::from_millis(1));
            let w = &r.runtime()[0];
            let rows: Vec<(&str, f64, f64)> = w
                .nodes
                .iter()
                .filter(|n| n.counts.packets != 0)
                .map(|n| {
                    let c = &n.counts;
                    (n.name, c.clocks as f64 / c.packets as f64, c.packets as f64 / c.calls as f64)
                })
                .collect();
            let sum: f64 =
                rows.iter().filter(|r| r.0 != "pg-input" && r.0 != "interface-tx").map(|r| r.1).sum();
            // A window in which the worker did not run says nothing.
            if sum < total && w.packets_in > 2560 && rows.len() > 3 {
                (total, best) = (sum, rows);
            }
        }
        let made = r.streams().first().map_or(0, |s| s.packets);
        r.commit(vec![Op::DeleteStream { name: name.into() }]).unwrap();
        println!("{name}: {} packets made", made);
        for (node, clocks, vector) in best {
            println!("  {node:<20} {clocks:>6.2} clocks, {vector:>5.1} packets a call");
        }
        println!("  all but generator and transmit: {total:.1} clocks a packet");
    }
}
