//! TSC clocks a packet of the generator, buffers given back after each vector: `cargo run --release --example
//! generator_clocks -p drivers`.

use drivers::generator::{GeneratorQueue, parse_words};
use graph::clock::tsc;
use graph::desc::Vector;
use graph::io::RxQueue;
use graph::{Pool, PoolConfig, PoolMemory};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::new(PoolConfig { buffers: 16384, memory: PoolMemory::Auto })?;
    let mut buffers = pool.buffers();
    for (what, words) in [
        ("64 B fixed", "data \"ethernet / ipv4 / udp\""),
        ("64 B, random destination", "data \"ethernet / ipv4 dst 10.0.0.0-10.255.255.255 random / udp\""),
        (
            "64 B, four changing fields",
            "data \"ethernet src 02::-02::ff / ipv4 src 10.0.0.1-10.0.0.9 dst 11.0.0.0-11.255.255.255 random / udp sport 1-9\"",
        ),
        ("64 B IPv6, random destination", "data \"ethernet / ipv6 dst 2001::-3fff:: random / udp\""),
        (
            "imix, random destination",
            "size imix data \"ethernet / ipv4 dst 10.0.0.0-10.255.255.255 random / udp\"",
        ),
        ("1500 B fixed", "size 1500 data \"ethernet / ipv4 / udp\""),
        ("1500 B random payload", "size 1500 data \"ethernet / ipv4 / udp / payload random\""),
    ] {
        let stream = parse_words(&format!("s interface x state enabled {words}"))?;
        let mut queue = GeneratorQueue::new(stream.compile(1, &["ethernet-input"])?);
        let mut v = Vector::boxed();
        let (mut best, mut freeing) = (u64::MAX, u64::MAX);
        for _ in 0..20_000 {
            let t0 = tsc();
            let n = queue.poll(&mut buffers, 0, &mut v) as u64;
            let t1 = tsc();
            buffers.free_all(v.take());
            freeing = freeing.min((tsc() - t1) * 10 / n);
            best = best.min((t1 - t0) * 10 / n);
        }
        let tenths = |n: u64| n as f64 / 10.0;
        println!("{what:32} {:6.1} clocks a packet (freeing them {:.1})", tenths(best), tenths(freeing));
    }
    Ok(())
}
