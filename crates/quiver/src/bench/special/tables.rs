//! `tables`: the longest-prefix match tables alone, the hash table, the table of flows with its timers, and routes through the whole
//! control side.

use crate::bench::measure::median;
use crate::bench::prefixes::{Prefix, Prefixes};
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::{BULK, Plan, Rig};
use crate::bench::routes::Changes;
use crate::bench::{Bench, Context, Emit, scenarios};
use graph::clock::{tsc, tsc_hz};
use net::router::RouteTable;
use serde::Serialize;
use std::hint::black_box;
use std::time::Instant;
use tables::exact::Exact;
use tables::flows::Flows;
use tables::lpm4::{Lpm4, Lpm4Writer};
use tables::lpm6::{Lpm6, Lpm6Writer};
use tables::{CpuLevel, LpmConfig};

/// Keys of one batch: a full vector.
const BATCH: usize = graph::VECTOR_SIZE;
/// Keys that are looked up in turn.
const KEYS: usize = 1 << 20;
/// Parts of the keys, each of which is a window.
const PARTS: usize = 64;
/// Changes between two grace periods.
const GRACE: usize = 256;
/// Lookups of one kind.
#[derive(Clone, Debug, Serialize)]
struct Lookups {
    /// `random` over all prefixes, or `skewed` by Zipf's law.
    keys: &'static str,
    /// Instructions in use.
    level: &'static str,
    /// TSC clocks a lookup, median of short windows.
    clocks: f64,
    /// In the best window.
    clocks_best: f64,
    /// Nanoseconds a lookup, median.
    ns: f64,
}

#[derive(Serialize)]
struct Table {
    scenario: &'static str,
    /// `lpm4`, `lpm6`, `exact`, `flows`, or `router4` and `router6`: through transaction, RIB and FIB.
    table: &'static str,
    /// `internet`, or `mix` or `random` with the number of entries.
    content: String,
    routes: usize,
    lookups: Vec<Lookups>,
    /// In random order, a second.
    inserts_per_second: f64,
    replaces_per_second: f64,
    deletes_per_second: f64,
    /// Memory of table and control side.
    bytes_per_route: f64,
    mb: f64,
    /// The longest change of one wide prefix in the full table, milliseconds.
    worst_change_ms: Option<f64>,
    #[serde(flatten)]
    place: Place,
}

impl Table {
    fn answer(&self) -> Result<Answer, String> {
        let mut text = format!(
            "{:<8} {:<12} {:>8} routes: {:.2} M inserts/s, {:.2} M replaces/s, {:.2} M deletes/s, {:.1} bytes a \
             route, {:.0} MB",
            self.table,
            self.content,
            self.routes,
            self.inserts_per_second / 1e6,
            self.replaces_per_second / 1e6,
            self.deletes_per_second / 1e6,
            self.bytes_per_route,
            self.mb
        );
        if let Some(ms) = self.worst_change_ms {
            text += &format!(", worst change {ms:.2} ms");
        }
        for l in &self.lookups {
            text += &format!(
                "\n  {:<7} {}: {:>7.2} clocks a lookup (best {:.2}), {:.2} ns",
                l.keys, l.level, l.clocks, l.clocks_best, l.ns
            );
        }
        Answer::line(self, text)
    }
}

/// Median and best clocks a key, for at least `seconds`.
pub(super) fn windows<K>(keys: &[K], seconds: f64, mut lookup: impl FnMut(&[K], &mut [u32])) -> (f64, f64) {
    let (mut out, mut found, began) = ([0u32; BATCH], vec![], Instant::now());
    // The first round brings table and keys into the caches that they fit in.
    let mut warm = false;
    while found.is_empty() || began.elapsed().as_secs_f64() < seconds {
        for part in keys.chunks((keys.len() / PARTS).max(1)) {
            let start = tsc();
            for batch in part.chunks(BATCH) {
                lookup(batch, &mut out);
                black_box(&out);
            }
            found.push((tsc() - start) as f64 / part.len() as f64);
        }
        if !warm {
            (warm, found) = (true, vec![]);
        }
    }
    let best = found.iter().copied().fold(f64::MAX, f64::min);
    (median(found), best)
}

fn lookups<K>(
    kinds: [(&'static str, Vec<K>); 2],
    levels: &[CpuLevel],
    seconds: f64,
    lookup: impl Fn(CpuLevel, &[K], &mut [u32]),
) -> Vec<Lookups> {
    let mut all = vec![];
    let each = seconds / (2 * levels.len()) as f64;
    for (name, keys) in kinds {
        for &level in levels {
            let (clocks, best) = windows(&keys, each, |k, out| lookup(level, k, out));
            all.push(Lookups {
                keys: name,
                level: crate::bench::report::level_name(level),
                clocks: round(clocks, 2),
                clocks_best: round(best, 2),
                ns: round(clocks * 1e9 / tsc_hz().max(1) as f64, 2),
            });
        }
    }
    all
}

/// The levels that this processor has.
fn levels() -> Vec<CpuLevel> {
    let mut all = vec![CpuLevel::V2, CpuLevel::V3, CpuLevel::V4];
    all.retain(|l| *l <= CpuLevel::detect());
    all
}

/// A table that routes are put into and taken out of.
trait Writer {
    fn put(&mut self, p: Prefix, value: u32) -> Result<(), String>;
    fn take(&mut self, p: Prefix);
    fn grace(&mut self, epoch: u64);
    fn size(&self) -> usize;
}

macro_rules! writer {
    ($writer:ty, $addr:expr) => {
        impl Writer for $writer {
            fn put(&mut self, p: Prefix, value: u32) -> Result<(), String> {
                self.insert($addr(p.addr), p.len, value).map(|_| ()).map_err(|e| e.to_string())
            }
            fn take(&mut self, p: Prefix) {
                self.remove($addr(p.addr), p.len);
            }
            fn grace(&mut self, epoch: u64) {
                self.retire_epoch(epoch);
                self.reclaim(epoch);
            }
            fn size(&self) -> usize {
                self.bytes()
            }
        }
    };
}
writer!(Lpm4Writer, |a: u128| (a >> 96) as u32);
writer!(Lpm6Writer, |a: u128| a);

/// Operations a second when `f` is done for each of `list`.
fn rate<T: Copy>(list: &[T], mut f: impl FnMut(usize, T) -> Result<(), String>) -> Result<f64, String> {
    let began = Instant::now();
    for (i, x) in list.iter().enumerate() {
        f(i, *x)?;
    }
    Ok(round(list.len() as f64 / began.elapsed().as_secs_f64(), 0))
}

/// The changes of a table: all out, in and replaced in random order; it is full before and after.
fn changes(w: &mut impl Writer, list: &[Prefix]) -> Result<[f64; 3], String> {
    let mut epoch = 0;
    let mut grace = |w: &mut _, i: usize| {
        if i.is_multiple_of(GRACE) {
            epoch += 1;
            Writer::grace(w, epoch);
        }
    };
    let deletes = rate(list, |i, p| {
        grace(w, i);
        w.take(p);
        Ok(())
    })?;
    let inserts = rate(list, |i, p| {
        grace(w, i);
        w.put(p, 1 + i as u32 % 256)
    })?;
    let replaces = rate(list, |i, p| {
        grace(w, i);
        w.put(p, 257 + i as u32 % 256)
    })?;
    Ok([inserts, replaces, deletes])
}

/// The longest change, milliseconds, of one prefix that covers much.
fn worst(w: &mut impl Writer, v6: bool, list: &[Prefix]) -> Result<f64, String> {
    let mut longest = 0f64;
    let mut time = |f: &mut dyn FnMut() -> Result<(), String>| {
        let began = Instant::now();
        f()?;
        longest = longest.max(began.elapsed().as_secs_f64() * 1e3);
        Ok::<(), String>(())
    };
    // Every length on which a table might do most of its work, at places all over the list.
    let lengths = if v6 { 3..=36 } else { 8..=20 };
    let places = list.iter().step_by(list.len().div_ceil(16).max(1));
    let mut wide: Vec<Prefix> = places.flat_map(|p| lengths.clone().map(|len| p.shortened(len))).collect();
    wide.push(Prefix { addr: 0, len: 0 });
    wide.sort_unstable();
    wide.dedup();
    for p in wide.into_iter().filter(|p| list.binary_search(p).is_err()) {
        time(&mut || w.put(p, 7))?;
        time(&mut || {
            w.take(p);
            Ok(())
        })?;
        w.grace(u64::MAX / 2);
    }
    Ok(round(longest, 3))
}

fn filled(w: &mut impl Writer, table: &Prefixes) -> Result<(), String> {
    for (i, p) in table.list.iter().enumerate() {
        w.put(*p, 1 + i as u32 % 256)?;
    }
    Ok(())
}

fn keys_of(table: &Prefixes) -> [(&'static str, Vec<u128>); 2] {
    [("random", table.uniform(KEYS, &mut Random::new(1))), ("skewed", table.zipf(KEYS, &mut Random::new(2)))]
}

fn lpm(content: &str, table: &Prefixes, seconds: f64) -> Result<Table, String> {
    let config = LpmConfig { level: CpuLevel::detect(), ..LpmConfig::default() };
    let fail = |e: std::io::Error| format!("cannot make a table: {e}");
    let mut shuffled = table.list.clone();
    Random::new(3).shuffle(&mut shuffled);
    let keys = keys_of(table);
    let (lookups, changes, worst, bytes) = if table.v6 {
        let (mut w, t) = Lpm6::new(config).map_err(fail)?;
        filled(&mut w, table)?;
        let bytes = w.size();
        let keys = keys.map(|(n, k)| (n, k.iter().map(|a| a.to_be_bytes()).collect::<Vec<[u8; 16]>>()));
        let lookups = lookups(keys, &levels(), seconds, |l, k, out| t.lookup_batch_at(l, k, out));
        (lookups, changes(&mut w, &shuffled)?, worst(&mut w, true, &table.list)?, bytes)
    } else {
        let (mut w, t) = Lpm4::new(config).map_err(fail)?;
        filled(&mut w, table)?;
        let bytes = w.size();
        let keys = keys.map(|(n, k)| (n, k.iter().map(|a| (a >> 96) as u32).collect::<Vec<u32>>()));
        let lookups = lookups(keys, &levels(), seconds, |l, k, out| t.lookup_batch_at(l, k, out));
        (lookups, changes(&mut w, &shuffled)?, worst(&mut w, false, &table.list)?, bytes)
    };
    let [inserts_per_second, replaces_per_second, deletes_per_second] = changes;
    Ok(Table {
        scenario: "tables",
        table: if table.v6 { "lpm6" } else { "lpm4" },
        content: content.into(),
        routes: table.len(),
        lookups,
        inserts_per_second,
        replaces_per_second,
        deletes_per_second,
        bytes_per_route: round(bytes as f64 / table.len().max(1) as f64, 1),
        mb: round(bytes as f64 / 1e6, 1),
        worst_change_ms: Some(worst),
        place: Place::now(),
    })
}

fn exact(n: usize, seconds: f64) -> Result<Table, String> {
    let (mut w, t) = Exact::<u64>::new(None).map_err(|e| format!("cannot make a table: {e}"))?;
    let mut random = Random::new(5);
    let entries: Vec<u64> = (0..n).map(|_| random.next()).collect();
    let mut epoch = 0;
    let mut put = |i: usize, k: u64| {
        if i.is_multiple_of(GRACE) {
            epoch += 1;
            w.retire_epoch(epoch);
            w.reclaim(epoch);
        }
        w.insert(k, i as u32).map(|_| ()).map_err(|e| e.to_string())
    };
    let (inserts_per_second, replaces_per_second) = (rate(&entries, &mut put)?, rate(&entries, &mut put)?);
    let pick = |random: &mut Random| (0..KEYS).map(|_| entries[random.below(n)]).collect::<Vec<u64>>();
    // Zipf's law by the inverse of its distribution, near enough: rank = n^u.
    let skew = (0..KEYS).map(|_| entries[((n as f64).powf(random.unit()) as usize - 1).min(n - 1)]).collect();
    let kinds = [("random", pick(&mut random)), ("skewed", skew)];
    let lookups = lookups(kinds, &[CpuLevel::V2], seconds, |_, k, out| t.lookup_batch(k, out));
    let bytes = w.bytes();
    let deletes_per_second = rate(&entries, |_, k| {
        w.remove(k);
        Ok(())
    })?;
    Ok(Table {
        scenario: "tables",
        table: "exact",
        content: format!("random {n}"),
        routes: n,
        lookups,
        inserts_per_second,
        replaces_per_second,
        deletes_per_second,
        bytes_per_route: round(bytes as f64 / n as f64, 1),
        mb: round(bytes as f64 / 1e6, 1),
        worst_change_ms: None,
        place: Place::now(),
    })
}

/// Routes through the whole control side, in transactions of many.
fn through_router(c: &Context, content: &str, table: &Prefixes) -> Result<Table, String> {
    let plan = Plan { hops: scenarios::HOPS, egress: 4, ..Plan::default() };
    let mut rig = Rig::new(&c.machine, &plan, false)?;
    let _aside = c.machine.step_aside();
    let v6 = table.v6;
    let targets = rig.targets(&plan, v6);
    let mut shuffled = table.list.clone();
    Random::new(3).shuffle(&mut shuffled);
    let mut rate = |list: &[Prefix], change: &dyn Fn(&mut Changes, usize, Prefix)| {
        let began = Instant::now();
        for (n, part) in list.chunks(BULK).enumerate() {
            let mut changes = Changes::new(v6, &targets);
            part.iter().enumerate().for_each(|(i, p)| change(&mut changes, n * BULK + i, *p));
            rig.commit(changes.ops())?;
        }
        Ok::<f64, String>(round(list.len() as f64 / began.elapsed().as_secs_f64(), 0))
    };
    rate(&table.list, &|c, i, p| c.set(p, i))?;
    let deletes_per_second = rate(&shuffled, &|c, _, p| c.del(p))?;
    let inserts_per_second = rate(&shuffled, &|c, i, p| c.set(p, i))?;
    let replaces_per_second = rate(&shuffled, &|c, i, p| c.set(p, i + 1))?;
    let kind = if v6 { RouteTable::V6 } else { RouteTable::V4 };
    let bytes = rig.router.table_bytes(kind);
    Ok(Table {
        scenario: "tables",
        table: if v6 { "router6" } else { "router4" },
        content: content.into(),
        routes: table.len(),
        lookups: vec![],
        inserts_per_second,
        replaces_per_second,
        deletes_per_second,
        bytes_per_route: round(bytes as f64 / table.len().max(1) as f64, 1),
        mb: round(bytes as f64 / 1e6, 1),
        worst_change_ms: None,
        place: Place::now(),
    })
}

/// What tells flows of IPv4 apart: addresses, ports, protocol and table.
type FlowKey = (u32, u32, u32, u16);

/// Flows of one worker. They are let go of by their timers, a vector's worth at a time.
fn flows(n: usize, seconds: f64) -> Result<Table, String> {
    const TIMEOUT_NS: u64 = 60_000_000_000;
    let mut table: Flows<FlowKey, u64> = Flows::new(n, 0);
    let mut random = Random::new(6);
    let mut word = || random.next() as u32;
    let entries: Vec<FlowKey> = (0..n).map(|_| (word(), word(), word(), 6)).collect();
    let put = |table: &mut Flows<FlowKey, u64>, at: u64| {
        rate(&entries, |i, k| {
            table.insert(k, i as u64, at, TIMEOUT_NS).map(|_| ()).map_err(|e| e.to_string())
        })
    };
    let (inserts_per_second, replaces_per_second) = (put(&mut table, 0)?, put(&mut table, 1_000_000_000)?);
    let mut random = Random::new(7);
    let pick = (0..KEYS).map(|_| entries[random.below(n)]).collect::<Vec<FlowKey>>();
    let skew = (0..KEYS).map(|_| entries[((n as f64).powf(random.unit()) as usize - 1).min(n - 1)]).collect();
    let kinds = [("random", pick), ("skewed", skew)];
    let lookups = lookups(kinds, &[CpuLevel::V2], seconds, |_, k, out| table.lookup(k, out));
    let (bytes, began) = (table.bytes(), Instant::now());
    let mut ended = 0;
    while table.expire(70_000_000_000, BATCH, |_, value| ended += usize::from(value < n as u64)) {}
    let deletes_per_second = round(n as f64 / began.elapsed().as_secs_f64(), 0);
    if ended != n {
        return Err(format!("{ended} of {n} flows ended in their time"));
    }
    Ok(Table {
        scenario: "tables",
        table: "flows",
        content: format!("random {n}"),
        routes: n,
        lookups,
        inserts_per_second,
        replaces_per_second,
        deletes_per_second,
        bytes_per_route: round(bytes as f64 / n as f64, 1),
        mb: round(bytes as f64 / 1e6, 1),
        worst_change_ms: None,
        place: Place::now(),
    })
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let mut contents: Vec<(String, Prefixes)> = vec![];
    for v6 in [false, true] {
        contents.extend(c.input.table(v6).ok().map(|t| ("internet".to_string(), t)));
        for n in [100_000, 1_000_000] {
            contents.push((format!("mix {n}"), Prefixes::mix(v6, n, &mut Random::new(20_260_511))));
        }
    }
    for (name, table) in &contents {
        // On the CPU on which a worker would be.
        let on = c.machine.take_worker_cpu();
        let found = lpm(name, table, args.seconds)?;
        drop(on);
        emit(found.answer()?)?;
    }
    emit(exact(1_000_000, args.seconds)?.answer()?)?;
    for n in [1000, 1_000_000] {
        let on = c.machine.take_worker_cpu();
        let found = flows(n, args.seconds)?;
        drop(on);
        emit(found.answer()?)?;
    }
    for (name, table) in &contents {
        emit(through_router(c, name, table)?.answer()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_has_all_figures() {
        for v6 in [false, true] {
            let table = Prefixes::mix(v6, 500, &mut Random::new(1));
            let t = lpm("mix 500", &table, 0.01).unwrap();
            assert_eq!((t.table, t.routes), (if v6 { "lpm6" } else { "lpm4" }, 500));
            assert_eq!(t.lookups.len(), 2 * levels().len());
            assert!(t.lookups.iter().all(|l| l.clocks >= l.clocks_best && l.clocks_best > 0.0 && l.ns > 0.0));
            assert!(
                [t.inserts_per_second, t.replaces_per_second, t.deletes_per_second].iter().all(|x| *x > 0.0)
            );
            assert!(t.bytes_per_route > 4.0 && t.worst_change_ms.is_some());
        }
        let t = exact(1000, 0.01).unwrap();
        assert!(t.lookups.len() == 2 && t.bytes_per_route >= 12.0);
        let t = flows(1000, 0.01).unwrap();
        assert!(t.lookups.iter().all(|l| l.clocks >= l.clocks_best && l.clocks_best > 0.0));
        assert!(t.deletes_per_second > 0.0 && t.bytes_per_route >= 64.0);
    }

    #[test]
    fn changes_leave_the_table_full() {
        let table = Prefixes::mix(false, 2000, &mut Random::new(1));
        let (mut w, t) = Lpm4::new(LpmConfig::default()).unwrap();
        filled(&mut w, &table).unwrap();
        let _ = changes(&mut w, &table.list).unwrap();
        worst(&mut w, false, &table.list).unwrap();
        assert_eq!(w.len(), 2000);
        // Every address finds one of the values of the last round.
        for a in table.uniform(4000, &mut Random::new(2)) {
            assert!((257..513).contains(&t.lookup_one((a >> 96) as u32)));
        }
    }
}
