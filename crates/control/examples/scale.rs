//! How long a router takes for a document with very many things: `scale [SUBS]` reads, starts, shows, dumps and takes out
//! that many sub-interfaces (10,000), each with an IPv4 and an IPv6 address. `scale SUBS print` prints the document.
//!
//! ```sh
//! cargo run --release -p control --example scale
//! ```
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use command::Access;
use control::dump::{Dump, Source};
use control::{apply, commands, yaml};
use net::router::{Op, Router, RouterConfig};
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Instant;

/// The document: sub-interfaces with two tags under as many interfaces as they need.
fn document(subs: u32) -> String {
    let mut devices = String::from("devices:\n");
    let mut out = String::from("interfaces:\n");
    for n in 0..subs.div_ceil(10_000) {
        let _ = writeln!(devices, "  if{n}: {{driver: pcap, pcap: {{write: /tmp/quiver-scale-{n}.pcap}}}}");
        let _ = writeln!(out, "  if{n}:\n    sub-interfaces:");
        for i in 0..subs.saturating_sub(n * 10_000).min(10_000) {
            let (a, b) = (i >> 8, i & 0xff);
            let (outer, inner) = (1 + i / 4000, 1 + i % 4000);
            let _ = writeln!(
                out,
                "      {id}:\n        addresses: [{net}.{a}.{b}.1/30, \"2001:db8:{site:x}:{id:x}::1/64\"]\n        \
                 encapsulation: {{dot1q: {outer}, inner-dot1q: {inner}, exact-match: true}}",
                id = i + 1,
                net = 100 + n,
                site = n + 1,
            );
        }
    }
    devices + &out
}

fn timed<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    println!("{what:<36} {:>8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let subs = args.first().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let text = document(subs);
    if args.get(1).is_some_and(|a| a == "print") {
        print!("{text}");
        return;
    }
    println!("{subs} sub-interfaces, {} kB", text.len() >> 10);
    let document = timed("read and check", || yaml::load("scale", &text).unwrap_or_else(|e| panic!("{e}")));
    let pool = graph::PoolConfig { buffers: 4096, memory: graph::PoolMemory::Normal };
    let config = RouterConfig { pool, ..apply::router_config(&document) };
    let mut router = Router::new(config).unwrap();
    timed("start", || apply::start(&document, &mut router).unwrap_or_else(|e| panic!("{e}")));
    timed("set an interface down and up", || {
        for up in [false, true] {
            router.commit(vec![Op::SetState { name: "if0".into(), up }]).unwrap();
        }
    });
    timed("one more sub-interface, and less", || {
        let encap = net::router::Encap::Untagged;
        router.commit(vec![Op::CreateSub { parent: "if0".into(), id: 100_000, encap }]).unwrap();
        router.commit(vec![Op::Delete { name: "if0.100000".into() }]).unwrap();
    });
    let settings = document.settings.clone();
    let dump = timed("dump", || Dump::text(Source { router: &router, settings: &settings }));
    timed("read the dump", || yaml::load("dump", &dump).unwrap_or_else(|e| panic!("{e}")));
    let router = Rc::new(RefCell::new(router));
    let registry = commands::registry().unwrap();
    let mut app = commands::App::new(Rc::clone(&router), settings);
    for line in ["show interface", "show interface addr", "show ip fib summary"] {
        timed(line, || {
            registry
                .run(&mut app, Access::Write, line)
                .and_then(|o| o.whole(&mut app, false))
                .map(|o| o.to_text().len())
                .unwrap()
        });
    }
    let name =
        |i: &net::router::IfState| i.subs.keys().take(100).map(|id| format!("{}.{id}", i.name)).collect();
    let some: Vec<String> =
        router.borrow().interfaces().find(|i| !i.subs.is_empty()).map(name).unwrap_or_default();
    timed("delete 100 of them one by one", || {
        for name in some {
            router.borrow_mut().commit(vec![Op::Delete { name }]).unwrap();
        }
    });
    timed("take everything out", || router.borrow_mut().clear());
    router.borrow_mut().shutdown();
}
