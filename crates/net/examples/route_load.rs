//! Speed of the control path for routes: transaction, RIB, FIB, published to a running worker; by the CPU time of the
//! control thread.
//! `cargo run --release -p net --example route_load -- [PREFIX_FILE|NUMBERv4|NUMBERv6...]`: files with one prefix a line,
//! or so many random prefixes, such as `4000000v4`. Without any: a million of each family.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use net::router::{Op, RouteBatch, RoutePath, RouteTable, Router, RouterConfig, Target};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// CPU time of this thread, in seconds: others may run on the same cores.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// As many prefixes as asked for, lengths spread about like the Internet's.
fn random(v6: bool, n: usize, rng: &mut Random) -> Vec<IpNet> {
    let mut all = std::collections::HashSet::new();
    while all.len() < n {
        let (a, b) = (rng.next(), rng.next());
        let pick = rng.next() % 100;
        all.insert(if v6 {
            let len = match pick {
                0..50 => 48,
                50..70 => 32 + (rng.next() % 4) as u8 * 4,
                70..90 => 33 + (rng.next() % 15) as u8,
                _ => 29 + (rng.next() % 4) as u8,
            };
            let addr = (u128::from(a) << 64 | u128::from(b)) >> 3 | 1 << 125;
            IpNet::from(Ipv6Net::new(addr.into(), len).unwrap().trunc())
        } else {
            let len = match pick {
                0..60 => 24,
                60..90 => 19 + (rng.next() % 5) as u8,
                _ => 16 + (rng.next() % 3) as u8,
            };
            let addr = (a as u32) % 0xdf00_0000 + 0x0100_0000;
            IpNet::from(Ipv4Net::new(addr.into(), len).unwrap().trunc())
        });
    }
    all.into_iter().collect()
}

fn batch(prefixes: &[IpNet], shift: usize, what: &str) -> RouteBatch {
    let mut b = RouteBatch::new();
    let mut known = vec![None; 256];
    let mut via = |b: &mut RouteBatch, n: usize| {
        let address = match prefixes.first() {
            Some(IpNet::V6(_)) => IpAddr::from(Ipv6Addr::from(0xfd00_ffff_u128 << 96 | 0x100 | n as u128)),
            _ => IpAddr::from([10, 255, 1, n as u8]),
        };
        let path = RoutePath {
            address: Some(address),
            interface: Some(1),
            table: None,
            weight: 1,
            ..Default::default()
        };
        known[n].get_or_insert_with(|| b.target(Target::Paths(vec![path]))).to_owned()
    };
    for (i, p) in prefixes.iter().enumerate() {
        match what {
            "delete" => b.del(*p),
            "add" => {
                let id = via(&mut b, (i + shift) * 7919 % 256);
                b.add(*p, id);
            }
            _ => {
                let id = via(&mut b, (i + shift) * 7919 % 256);
                b.set(*p, id);
            }
        }
    }
    b
}

fn main() {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        files = vec!["1000000v4".into(), "1000000v6".into()];
    }
    let mut rng = Random(0x9e37_79b9_7f4a_7c15);
    let mut tables: Vec<(String, Vec<IpNet>)> = vec![];
    for f in &files {
        let number = f.strip_suffix("v4").or(f.strip_suffix("v6")).and_then(|n| n.parse().ok());
        if let Some(n) = number {
            tables.push((f.clone(), random(f.ends_with("v6"), n, &mut rng)));
            continue;
        }
        let text = std::fs::read_to_string(f).unwrap();
        tables
            .push((f.rsplit('/').next().unwrap().into(), text.lines().map(|l| l.parse().unwrap()).collect()));
    }
    let mut r = Router::new(RouterConfig::default()).unwrap();
    r.commit(vec![
        Op::CreateLoopback { instance: Some(0), mac: None },
        Op::SetState { name: "loop0".into(), up: true },
        Op::AddAddress { name: "loop0".into(), net: "10.255.0.1/16".parse().unwrap() },
        Op::AddAddress { name: "loop0".into(), net: "fd00:ffff::1/64".parse().unwrap() },
    ])
    .unwrap();
    println!("idle, with the prefixes in memory: {} MB", rss());
    for (name, prefixes) in &mut tables {
        for order in ["file order", "random order"] {
            if order == "random order" {
                for i in (1..prefixes.len()).rev() {
                    prefixes.swap(i, (rng.next() % (i as u64 + 1)) as usize);
                }
            }
            for chunk in [usize::MAX, 10_000, 1] {
                let mut line = format!(
                    "{name}, {order}, {}:",
                    match chunk {
                        usize::MAX => "one batch".to_string(),
                        n => format!("batches of {n}"),
                    }
                );
                let before = rss();
                for (what, shift) in [("add", 0), ("replace", 1), ("delete", 0)] {
                    let batches: Vec<RouteBatch> = prefixes
                        .chunks(chunk.min(prefixes.len()))
                        .map(|p| batch(p, shift, what))
                        .take(if chunk == 1 { 20_000 } else { usize::MAX })
                        .collect();
                    let n: usize = batches.iter().map(RouteBatch::len).sum();
                    let start = cpu();
                    for b in batches {
                        r.commit(vec![Op::Routes(b)]).unwrap();
                    }
                    let speed = n as f64 / (cpu() - start) / 1e6;
                    line += &format!(" {what} {speed:.2} M/s");
                    if what == "add" {
                        line += &format!(" (+{} MB)", rss().saturating_sub(before));
                    }
                }
                println!("{line}");
            }
        }
    }
    for (name, prefixes) in &tables {
        r.commit(vec![Op::Routes(batch(prefixes, 0, "set"))]).unwrap();
        println!("{name} loaded: {} MB resident", rss());
    }
    let (b4, b6) = (r.table_bytes(RouteTable::V4), r.table_bytes(RouteTable::V6));
    println!("tables: IPv4 {} MB, IPv6 {} MB", b4 >> 20, b6 >> 20);
    converge(&mut r, &tables);
    r.shutdown();
}

/// All prefixes over one pair of next hops, of which one goes: how long until its routes have left it.
fn converge(r: &mut Router, tables: &[(String, Vec<IpNet>)]) {
    r.commit(vec![
        Op::CreateLoopback { instance: Some(1), mac: None },
        Op::SetState { name: "loop1".into(), up: true },
        Op::AddAddress { name: "loop1".into(), net: "10.254.0.1/16".parse().unwrap() },
        Op::AddAddress { name: "loop1".into(), net: "fd00:fffe::1/64".parse().unwrap() },
    ])
    .unwrap();
    for (name, prefixes) in tables {
        let v6 = prefixes.iter().any(|p| p.addr().is_ipv6());
        let hops = if v6 { ["fd00:ffff::100", "fd00:fffe::100"] } else { ["10.255.1.1", "10.254.1.1"] };
        let path = |i: usize| RoutePath {
            address: Some(hops[i].parse().unwrap()),
            interface: None,
            table: None,
            weight: 1,
            ..Default::default()
        };
        let mut b = RouteBatch::new();
        let id = b.target(Target::Paths(vec![path(0), path(1)]));
        prefixes.iter().for_each(|p| b.set(*p, id));
        r.commit(vec![Op::Routes(b)]).unwrap();
        let mut times = vec![];
        for _ in 0..20 {
            let before = r.published();
            let start = Instant::now();
            r.commit(vec![Op::SetState { name: "loop1".into(), up: false }]).unwrap();
            times.push(start.elapsed());
            let now = r.published();
            assert_eq!(now.routes, before.routes);
            r.commit(vec![Op::SetState { name: "loop1".into(), up: true }]).unwrap();
        }
        times.sort();
        println!(
            "{name}, {} routes over one group, an interface goes: the whole transaction takes {:?} (median of 20)",
            prefixes.len(),
            times[10]
        );
    }
}
