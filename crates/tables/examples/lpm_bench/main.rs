//! Measures the longest-prefix match tables: `lpm_bench V4_FILE V6_FILE [PART...]`, one prefix a line in the files.
//!
//! Parts: `tiny` (a few routes), `real` (the files), `mix` (random prefixes with the lengths of the files), `change` (changes
//! a second on the files' prefixes), `compare` (Poptrie and DXR on the files), `grow` (4 million IPv4 and 2 million IPv6 prefixes), `longest`
//! (what the longest single insert of 8 million IPv4 prefixes takes, most of them below /24). All of them without a name.
//!
//! Prints TSC clocks a lookup (median and best of many short windows of batches of 256 random keys, drawn over all
//! prefixes), changes a second and bytes a route.

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

mod compare;

use compare::{Dxr, Poptrie, Trie};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use tables::lpm4::Lpm4;
use tables::lpm6::Lpm6;
use tables::{CpuLevel, Engine, LpmConfig, LpmWriter, Pages};

const BATCH: usize = 256;
/// More than can be learnt, but keys of IPv6 need not come from memory: packets bring them to L1.
const KEYS: usize = 1 << 18;
/// Keys between two readings of the clock: short, because the machine takes the core away now and then.
const WINDOW: usize = 1 << 13;

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

/// Median and best clocks a key, and a sum of results.
fn clocks<K>(keys: &[K], mut lookup: impl FnMut(&[K], &mut [u32])) -> (f64, f64, u64) {
    let mut out = [0u32; BATCH];
    let mut windows = Vec::new();
    let mut sum = 0;
    for _ in 0..20 {
        for part in keys.chunks(WINDOW) {
            let start = tsc();
            for batch in part.chunks(BATCH) {
                lookup(batch, &mut out);
                sum += u64::from(out[0]);
            }
            windows.push((tsc() - start) as f64 / part.len() as f64);
        }
    }
    windows.sort_by(f64::total_cmp);
    (windows[windows.len() / 2], windows[windows.len() / 100], sum)
}

fn rate(name: &str, n: usize, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    let t = start.elapsed().as_secs_f64();
    println!("  {name:<28} {:>6.2} M/s ({:.0} ns each)", n as f64 / t / 1e6, t * 1e9 / n as f64);
}

/// What the two address families differ in here.
trait Family {
    type Engine: Engine<Key = Self::Key>;
    type Key: Copy + Ord;
    /// A key as packets bring it.
    type Wire: Copy;
    type Table;
    const NAME: &'static str;

    fn table(config: LpmConfig) -> (LpmWriter<Self::Engine>, std::sync::Arc<Self::Table>);
    fn parse(text: &str) -> Self::Key;
    /// The prefix of an address, and one of its addresses at random.
    fn first(key: Self::Key, len: u8) -> Self::Key;
    fn inside(key: Self::Key, len: u8, random: &mut Random) -> Self::Key;
    fn random(random: &mut Random) -> Self::Key;
    fn wire(key: Self::Key) -> Self::Wire;
    fn batch(table: &Self::Table, level: CpuLevel, keys: &[Self::Wire], out: &mut [u32]);
    fn one(table: &Self::Table, key: &Self::Wire) -> u32;
    /// The key from the top bit on.
    fn wide(key: Self::Wire) -> u128;
}

struct V4;
struct V6;

impl Family for V4 {
    type Engine = tables::lpm4::Blocks;
    type Key = u32;
    type Wire = u32;
    type Table = Lpm4;
    const NAME: &'static str = "IPv4";

    fn table(config: LpmConfig) -> (LpmWriter<Self::Engine>, std::sync::Arc<Lpm4>) {
        Lpm4::new(config).unwrap()
    }
    fn parse(text: &str) -> u32 {
        text.parse::<Ipv4Addr>().unwrap().to_bits()
    }
    fn first(key: u32, len: u8) -> u32 {
        key & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
    }
    fn inside(key: u32, len: u8, random: &mut Random) -> u32 {
        key | (random.next() as u32).checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn random(random: &mut Random) -> u32 {
        // Unicast addresses.
        (random.next() >> 32) as u32 % (223 << 24) + (1 << 24)
    }
    fn wire(key: u32) -> u32 {
        key
    }
    fn batch(table: &Lpm4, level: CpuLevel, keys: &[u32], out: &mut [u32]) {
        table.lookup_batch_at(level, keys, out);
    }
    fn one(table: &Lpm4, key: &u32) -> u32 {
        table.lookup_one(*key)
    }
    fn wide(key: u32) -> u128 {
        u128::from(key) << 96
    }
}

impl Family for V6 {
    type Engine = tables::lpm6::Nodes;
    type Key = u128;
    type Wire = [u8; 16];
    type Table = Lpm6;
    const NAME: &'static str = "IPv6";

    fn table(config: LpmConfig) -> (LpmWriter<Self::Engine>, std::sync::Arc<Lpm6>) {
        Lpm6::new(config).unwrap()
    }
    fn parse(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }
    fn first(key: u128, len: u8) -> u128 {
        key & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
    }
    fn inside(key: u128, len: u8, random: &mut Random) -> u128 {
        let bits = u128::from(random.next()) << 64 | u128::from(random.next());
        key | bits.checked_shr(u32::from(len)).unwrap_or(0)
    }
    fn random(random: &mut Random) -> u128 {
        // Global unicast addresses: 2000::/3.
        1 << 125 | (u128::from(random.next()) << 64 | u128::from(random.next())) >> 3
    }
    fn wire(key: u128) -> [u8; 16] {
        key.to_be_bytes()
    }
    fn batch(table: &Lpm6, level: CpuLevel, keys: &[[u8; 16]], out: &mut [u32]) {
        table.lookup_batch_at(level, keys, out);
    }
    fn one(table: &Lpm6, key: &[u8; 16]) -> u32 {
        table.lookup_one(key)
    }
    fn wide(key: [u8; 16]) -> u128 {
        u128::from_be_bytes(key)
    }
}

type Prefixes<F> = Vec<(<F as Family>::Key, u8)>;

fn read<F: Family>(file: &str) -> Prefixes<F> {
    let text = std::fs::read_to_string(file).unwrap();
    let line = |l: &str| {
        let (a, n) = l.split_once('/').unwrap();
        (F::parse(a), n.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// As many different random prefixes, with the lengths of those given.
fn mix<F: Family>(like: &Prefixes<F>, n: usize) -> Prefixes<F> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut all = Prefixes::<F>::new();
    while all.len() < n {
        while all.len() < n {
            let len = like[random.next() as usize % like.len()].1;
            all.push((F::first(F::random(&mut random), len), len));
        }
        all.sort_unstable();
        all.dedup();
    }
    random.shuffle(&mut all);
    all
}

fn keys<F: Family>(prefixes: &Prefixes<F>) -> Vec<F::Wire> {
    let mut random = Random(88172645463325252);
    let mut key = |_| {
        let (a, len) = prefixes[random.next() as usize % prefixes.len()];
        F::wire(F::inside(a, len, &mut random))
    };
    (0..KEYS).map(&mut key).collect()
}

fn fill<F: Family>(w: &mut LpmWriter<F::Engine>, prefixes: &Prefixes<F>) {
    for (i, &(a, len)) in prefixes.iter().enumerate() {
        w.insert(a, len, 1 + i as u32 % 256).unwrap();
        w.retire_epoch(i as u64);
        w.reclaim(i as u64);
    }
}

fn lookups<F: Family>(name: &str, prefixes: &Prefixes<F>, pages: Pages) {
    let before = resident_kb();
    let (mut w, t) = F::table(LpmConfig { pages, level: CpuLevel::V4, limit: None });
    let n = prefixes.len();
    println!("{} {name}, {n} prefixes, pages {pages:?}", F::NAME);
    rate("insert, in order", n, || fill::<F>(&mut w, prefixes));
    println!(
        "  {:.1} MB: bytes a route {:.1} counted, {:.1} resident",
        w.bytes() as f64 / 1e6,
        w.bytes() as f64 / n as f64,
        (resident_kb() - before) as f64 * 1024.0 / n as f64
    );
    let keys = keys::<F>(prefixes);
    let mut all = Vec::new();
    for level in CpuLevel::ALL.map(CpuLevel::supported) {
        let (median, best, sum) = clocks(&keys, |k, out| F::batch(&t, level, k, out));
        println!("  batch {level:?}                     {median:>6.2} clocks (best {best:.2})");
        all.push(sum);
    }
    let (median, best, sum) = clocks(&keys[..KEYS / 8], |k, out| {
        for (k, o) in k.iter().zip(out) {
            *o = F::one(&t, k);
        }
    });
    println!("  one by one                   {median:>6.2} clocks (best {best:.2})");
    let (_, _, again) = clocks(&keys[..KEYS / 8], |k, out| F::batch(&t, CpuLevel::V4, k, out));
    assert!(sum == again && all.iter().all(|s| *s == all[0]), "levels do not agree");
}

fn changes<F: Family>(prefixes: &Prefixes<F>, wide: &[(&str, u8)]) {
    let n = prefixes.len();
    let mut prefixes = prefixes.clone();
    let mut random = Random(88172645463325252);
    println!("{} changes, {n} prefixes", F::NAME);
    let (mut w, _t) = F::table(LpmConfig { pages: Pages::Auto, level: CpuLevel::V4, limit: None });
    rate("insert, file order", n, || fill::<F>(&mut w, &prefixes));
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
    rate("insert, random order", n, || fill::<F>(&mut w, &prefixes));
    // Of each prefix the best of some rounds, because the machine takes the core away for milliseconds.
    let worst = |w: &mut LpmWriter<F::Engine>, name: &str, all: &[(F::Key, u8)]| {
        let mut worst = [0, 0];
        for &(a, len) in all {
            let old = w.get(a, len);
            let mut best = [u128::MAX; 2];
            for _ in 0..4 {
                let start = Instant::now();
                w.insert(a, len, 7).unwrap();
                best[0] = best[0].min(start.elapsed().as_nanos());
                let start = Instant::now();
                w.remove(a, len).unwrap();
                best[1] = best[1].min(start.elapsed().as_nanos());
                w.retire_epoch(0);
                w.reclaim(u64::MAX);
            }
            worst = [worst[0].max(best[0]), worst[1].max(best[1])];
            if let Some(v) = old {
                w.insert(a, len, v).unwrap();
            }
        }
        println!(
            "  {name:<28} insert {:.1} us, delete {:.1} us",
            worst[0] as f64 / 1e3,
            worst[1] as f64 / 1e3
        );
    };
    for &(a, len) in wide {
        worst(&mut w, &format!("{a}/{len}"), &[(F::parse(a), len)]);
    }
    for len in [8, 13, 17, 24] {
        let mut all: Vec<_> = prefixes.iter().map(|p| (F::first(p.0, len), len)).collect();
        all.sort_unstable();
        all.dedup();
        worst(&mut w, &format!("worst of {} /{len}", all.len()), &all);
    }
}

/// Processor time of this thread, ns.
fn processor_time() -> i64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `t` alone.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// The longest single insert while a table grows to this many prefixes of random addresses.
fn longest(n: usize) {
    let (mut w, _t) = V4::table(LpmConfig { pages: Pages::Auto, level: CpuLevel::V4, limit: None });
    let (mut random, mut longest) = (Random(88172645463325252), [0; 3]);
    let started = processor_time();
    for i in 0..n {
        let len = [20, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 32, 32][random.next() as usize % 13];
        let a = V4::first(random.next() as u32, len);
        let before = processor_time();
        w.insert(a, len, 1 + i as u32 % 256).unwrap();
        w.retire_epoch(i as u64);
        w.reclaim(i as u64);
        let took = processor_time() - before;
        if took > longest[0] {
            longest[0] = took;
            longest.sort_unstable();
        }
    }
    let [c, b, a] = longest.map(|ns| ns as f64 / 1e6);
    let all = (processor_time() - started) as f64 / 1e9;
    println!(
        "ip4 {n} random inserts: the longest {a:.1}, {b:.1} and {c:.1} ms; all {all:.1} s, {:.0} MB",
        w.bytes() as f64 / 1e6
    );
}

fn report(name: &str, bytes: usize, (median, best, sum): (f64, f64, u64), want: u64) {
    println!("  {name:<28} {median:>6.2} clocks (best {best:.2}), {:.1} MB", bytes as f64 / 1e6);
    assert_eq!(sum, want, "{name} gives other answers");
}

fn compare<F: Family>(prefixes: &Prefixes<F>, roots: &[u32]) -> (Trie, Vec<F::Wire>, u64) {
    println!("{} compared, {} prefixes, lookup parts alone", F::NAME, prefixes.len());
    let (mut w, t) = F::table(LpmConfig { pages: Pages::Auto, level: CpuLevel::V4, limit: None });
    fill::<F>(&mut w, prefixes);
    let keys = keys::<F>(prefixes);
    let trie = Trie::new(
        prefixes.iter().enumerate().map(|(i, &(a, len))| (F::wide(F::wire(a)), len, 1 + i as u32 % 256)),
    );
    let mut want = None;
    for level in CpuLevel::ALL.map(CpuLevel::supported) {
        let found = clocks(&keys, |k, out| F::batch(&t, level, k, out));
        want = want.or(Some(found.2));
        report(&format!("ours, {level:?}"), w.lookup_bytes(), found, want.unwrap_or(0));
    }
    let want = want.unwrap_or(0);
    for &bits in roots {
        let p = Poptrie::new(&trie, bits);
        // SAFETY: `main` has looked.
        let found = clocks(&keys, |k, out| unsafe { p.one_by_one(k, out, F::wide) });
        report(&format!("Poptrie/{bits}, one by one"), p.bytes(), found, want);
        // SAFETY: as above.
        let found = clocks(&keys, |k, out| unsafe { p.in_step(k, out, F::wide) });
        report(&format!("Poptrie/{bits}, in step"), p.bytes(), found, want);
    }
    (trie, keys, want)
}

fn tiny<F: Family>(routes: &[&str]) {
    for routes in routes {
        let prefixes: Prefixes<F> = routes
            .split(' ')
            .map(|r| r.split_once('/').map(|(a, len)| (F::parse(a), len.parse().unwrap())).unwrap())
            .collect();
        let (mut w, t) = F::table(LpmConfig { level: CpuLevel::V4, ..Default::default() });
        fill::<F>(&mut w, &prefixes);
        let keys = keys::<F>(&prefixes);
        print!("{:<48}", routes);
        for level in CpuLevel::ALL.map(CpuLevel::supported) {
            let (median, best, _) = clocks(&keys, |k, out| F::batch(&t, level, k, out));
            print!(" {level:?} {median:>5.2} ({best:.2})");
        }
        println!();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [four, six, parts @ ..] = args.as_slice() else {
        panic!("usage: lpm_bench V4_FILE V6_FILE [PART...]")
    };
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|p| p == part);
    let (four, six) = (read::<V4>(four), read::<V6>(six));
    if wanted("tiny") {
        tiny::<V4>(&["0.0.0.0/0", "192.0.2.0/24", "192.0.2.1/32", "0.0.0.0/0 192.0.2.0/24 192.0.2.1/32"]);
        tiny::<V6>(&[
            "::/0",
            "2001:db8::/32",
            "2001:db8::/64",
            "2001:db8::1/128",
            "::/0 2001:db8::/64 2001:db8::1/128",
            "2001:db8::/64 2001:db8::1/128 2001:db8:1::/64 2001:db8:1::1/128",
        ]);
    }
    if wanted("real") {
        lookups::<V4>("real", &four, Pages::Auto);
        lookups::<V6>("real", &six, Pages::Auto);
    }
    if wanted("mix") {
        for n in [1000, 100_000, 1_000_000] {
            lookups::<V4>("mix", &mix::<V4>(&four, n), Pages::Auto);
            lookups::<V6>("mix", &mix::<V6>(&six, n), Pages::Auto);
        }
    }
    if wanted("change") {
        changes::<V4>(&four, &[("0.0.0.0", 0), ("0.0.0.0", 1)]);
        changes::<V6>(&six, &[("::", 0), ("2000::", 3), ("2a00::", 12)]);
    }
    if wanted("compare") {
        assert!(CpuLevel::detect() >= CpuLevel::V3, "the others need POPCNT");
        let (trie, keys, want) = compare::<V4>(&four, &[16, 18, 20]);
        for bits in [16, 18, 20] {
            let d = Dxr::new(&trie, bits);
            report(
                &format!("DXR/{bits}, one by one"),
                d.bytes(),
                clocks(&keys, |k, out| d.one_by_one(k, out)),
                want,
            );
            report(
                &format!("DXR/{bits}, in step"),
                d.bytes(),
                clocks(&keys, |k, out| d.in_step(k, out)),
                want,
            );
        }
        compare::<V6>(&six, &[16, 20, 24]);
    }
    if wanted("grow") {
        lookups::<V4>("mix", &mix::<V4>(&four, 4_000_000), Pages::Auto);
        lookups::<V6>("mix", &mix::<V6>(&six, 2_000_000), Pages::Auto);
    }
    if wanted("longest") {
        longest(8_000_000);
    }
}
