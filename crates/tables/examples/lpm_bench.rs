//! Measures the longest-prefix match tables: `lpm_bench V4_FILE V6_FILE`, one prefix a line.
//!
//! Prints TSC clocks a lookup (median and best of many windows of batches of 256 random keys, drawn over all
//! prefixes), changes a second and bytes a route.

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use tables::lpm4::Lpm4;
use tables::lpm6::Lpm6;
use tables::{CpuLevel, LpmConfig, Pages};

const BATCH: usize = 256;
const KEYS: usize = 1 << 20;

fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction only reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// xorshift64*: the sequence must be the same everywhere, not good.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

fn resident_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("Rss:")).unwrap_or("0 0");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Median and best clocks a key over 60 windows of the whole key sequence's parts.
fn clocks<K>(keys: &[K], mut lookup: impl FnMut(&[K], &mut [u32])) -> (f64, f64, u64) {
    let mut out = [0u32; BATCH];
    let mut windows = Vec::new();
    let mut sum = 0;
    for _ in 0..8 {
        for part in keys.chunks(KEYS / 8) {
            let start = tsc();
            for batch in part.chunks(BATCH) {
                lookup(batch, &mut out);
                sum += u64::from(out[0]);
            }
            windows.push((tsc() - start) as f64 / part.len() as f64);
        }
    }
    windows.sort_by(f64::total_cmp);
    (windows[windows.len() / 2], windows[0], sum)
}

fn rate(name: &str, n: usize, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    let t = start.elapsed().as_secs_f64();
    println!("  {name:<28} {:>6.2} M/s ({:.0} ns each)", n as f64 / t / 1e6, t * 1e9 / n as f64);
}

fn v4(file: &str) {
    let mut prefixes: Vec<(u32, u8)> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|l| {
            let (a, n) = l.split_once('/').unwrap();
            (u32::from(a.parse::<Ipv4Addr>().unwrap()), n.parse().unwrap())
        })
        .collect();
    let n = prefixes.len();
    let mut random = Random(88172645463325252);
    println!("IPv4, {n} prefixes");
    let keys: Vec<u32> = (0..KEYS)
        .map(|_| {
            let (a, len) = prefixes[random.next() as usize % n];
            a | (random.next() as u32).checked_shr(u32::from(len)).unwrap_or(0)
        })
        .collect();
    for pages in [Pages::Small, Pages::Auto] {
        let before = resident_kb();
        let (mut w, t) = Lpm4::new(LpmConfig { pages, level: CpuLevel::V4, limit: None }).unwrap();
        println!(" pages {pages:?}, empty table {} kB", resident_kb() - before);
        rate("insert, file order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1 + i as u32 % 256).unwrap();
            }
        });
        println!(
            "  bytes a route {:.1} counted, {:.1} resident",
            w.bytes() as f64 / n as f64,
            (resident_kb() - before) as f64 * 1024.0 / n as f64
        );
        let mut all = Vec::new();
        for level in [CpuLevel::V2, CpuLevel::V3, CpuLevel::V4].map(CpuLevel::supported) {
            let (median, best, sum) = clocks(&keys, |k, out| t.lookup_batch_at(level, k, out));
            println!("  batch {level:?}                     {median:>6.2} clocks (best {best:.2})");
            all.push(sum);
        }
        let (median, best, sum) = clocks(&keys, |k, out| {
            for (k, o) in k.iter().zip(out) {
                *o = t.lookup_one(*k);
            }
        });
        println!("  one by one                   {median:>6.2} clocks (best {best:.2})");
        all.push(sum);
        assert!(all.iter().all(|s| *s == all[0]));
        random.shuffle(&mut prefixes);
        rate("replace, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1000 + i as u32 % 256).unwrap();
            }
        });
        rate("delete, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.retire_epoch(i as u64);
                w.remove(a, len).unwrap();
                w.reclaim(i as u64);
            }
        });
        rate("insert, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1 + i as u32 % 256).unwrap();
            }
        });
        let mut worst = (0, 0);
        for a in 0..=255u32 {
            for _ in 0..2 {
                let start = Instant::now();
                w.insert(a << 24, 8, 7).unwrap();
                worst.0 = worst.0.max(start.elapsed().as_micros());
                let start = Instant::now();
                w.remove(a << 24, 8).unwrap();
                worst.1 = worst.1.max(start.elapsed().as_micros());
            }
        }
        println!("  worst /8: insert {} us, delete {} us", worst.0, worst.1);
        prefixes.sort_unstable();
    }
}

fn v6(file: &str) {
    let mut prefixes: Vec<(u128, u8)> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|l| {
            let (a, n) = l.split_once('/').unwrap();
            (u128::from(a.parse::<Ipv6Addr>().unwrap()), n.parse().unwrap())
        })
        .collect();
    let n = prefixes.len();
    let mut random = Random(88172645463325252);
    println!("IPv6, {n} prefixes");
    let numbers: Vec<u128> = (0..KEYS)
        .map(|_| {
            let (a, len) = prefixes[random.next() as usize % n];
            let bits = u128::from(random.next()) << 64 | u128::from(random.next());
            a | bits.checked_shr(u32::from(len)).unwrap_or(0)
        })
        .collect();
    let keys: Vec<[u8; 16]> = numbers.iter().map(|k| k.to_be_bytes()).collect();
    for pages in [Pages::Small, Pages::Auto] {
        let before = resident_kb();
        let (mut w, t) = Lpm6::new(LpmConfig { pages, level: CpuLevel::V4, limit: None }).unwrap();
        println!(" pages {pages:?}, empty table {} kB", resident_kb() - before);
        rate("insert, file order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1 + i as u32 % 256).unwrap();
                w.retire_epoch(i as u64);
                w.reclaim(i as u64);
            }
        });
        println!(
            "  bytes a route {:.1} counted, {:.1} resident",
            w.bytes() as f64 / n as f64,
            (resident_kb() - before) as f64 * 1024.0 / n as f64
        );
        let mut all = Vec::new();
        for level in [CpuLevel::V2, CpuLevel::V3, CpuLevel::V4].map(CpuLevel::supported) {
            let (median, best, sum) = clocks(&keys, |k, out| t.lookup_batch_at(level, k, out));
            println!("  batch {level:?}, bytes              {median:>6.2} clocks (best {best:.2})");
            all.push(sum);
            let (median, best, sum) = clocks(&numbers, |k, out| t.lookup_batch_at(level, k, out));
            println!("  batch {level:?}, numbers            {median:>6.2} clocks (best {best:.2})");
            all.push(sum);
        }
        let (median, best, sum) = clocks(&keys, |k, out| {
            for (k, o) in k.iter().zip(out) {
                *o = t.lookup_one(k);
            }
        });
        println!("  one by one                   {median:>6.2} clocks (best {best:.2})");
        all.push(sum);
        assert!(all.iter().all(|s| *s == all[0]));
        random.shuffle(&mut prefixes);
        rate("replace, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1000 + i as u32 % 256).unwrap();
                w.retire_epoch(i as u64);
                w.reclaim(i as u64);
            }
        });
        rate("delete, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.retire_epoch(i as u64);
                w.remove(a, len).unwrap();
                w.reclaim(i as u64);
            }
        });
        rate("insert, random order", n, || {
            for (i, &(a, len)) in prefixes.iter().enumerate() {
                w.insert(a, len, 1 + i as u32 % 256).unwrap();
                w.retire_epoch(i as u64);
                w.reclaim(i as u64);
            }
        });
        for (name, addr, len) in [("2000::/3", 0x2 << 124, 3), ("2a00::/12", 0x2a0 << 116, 12)] {
            let start = Instant::now();
            w.insert(addr, len, 7).unwrap();
            let insert = start.elapsed().as_micros();
            let start = Instant::now();
            w.remove(addr, len).unwrap();
            println!("  {name}: insert {insert} us, delete {} us", start.elapsed().as_micros());
        }
        prefixes.sort_unstable();
    }
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let [four, six] = files.as_slice() else { panic!("usage: lpm_bench V4_FILE V6_FILE") };
    v4(four);
    v6(six);
}
