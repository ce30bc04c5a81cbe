//! How fast messages of routes become changes: the prefixes of a file, one a line, announced twice with other next hops and taken back.
//!
//! `cargo run --release -p linux --example mirror_bench FILE`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use ipnet::IpNet;
use linux::Mirror;
use linux::wire::{Messages, attribute};
use std::net::IpAddr;
use std::time::Instant;

/// A message as the kernel sends it of a route that BIRD made.
fn message(kind: u16, flags: u16, prefix: IpNet, hop: u8) -> Vec<u8> {
    let mut m = vec![0; 4];
    m.extend(kind.to_ne_bytes());
    m.extend(flags.to_ne_bytes());
    m.extend([0; 8]);
    let family = if matches!(prefix, IpNet::V4(_)) { 2 } else { 10 };
    m.extend([family, prefix.prefix_len(), 0, 0, 254, 12, 0, 1, 0, 0, 0, 0]);
    m.extend(attribute(15, &254u32.to_ne_bytes()));
    match prefix.addr() {
        IpAddr::V4(a) => {
            m.extend(attribute(1, &a.octets()));
            m.extend(attribute(6, &32u32.to_ne_bytes()));
            m.extend(attribute(5, &[10, 0, 0, hop]));
        }
        IpAddr::V6(a) => {
            m.extend(attribute(1, &a.octets()));
            m.extend(attribute(6, &32u32.to_ne_bytes()));
            m.extend(attribute(5, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, hop]));
        }
    }
    m.extend(attribute(4, &3u32.to_ne_bytes()));
    let len = m.len() as u32;
    m[..4].copy_from_slice(&len.to_ne_bytes());
    m
}

fn main() {
    let file = std::env::args().nth(1).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let prefixes: Vec<IpNet> =
        text.lines().filter_map(|l| l.split_whitespace().next()?.parse().ok()).collect();
    let mut mirror = Mirror::new();
    for (what, kind, flags, turn) in [("new", 24, 0x600, 0), ("changed", 24, 0x100, 3), ("gone", 25, 0, 3)] {
        let all: Vec<Vec<u8>> = prefixes
            .iter()
            .enumerate()
            .map(|(n, p)| message(kind, flags, *p, 1 + ((n + turn) % 8) as u8))
            .collect();
        let began = Instant::now();
        let mut changes = 0;
        let mut out = Vec::new();
        for m in &all {
            for m in Messages(m) {
                mirror.take(&m, &mut out);
            }
            if out.len() >= 4096 {
                changes += out.len();
                out.clear();
            }
        }
        let ns = began.elapsed().as_nanos() as f64 / all.len() as f64;
        println!("{what}: {} messages, {} changes, {ns:.0} ns a message", all.len(), changes + out.len());
    }
}
