//! `churn`: full speed while routes change as fast as the control side can change them.

use crate::bench::measure::{Meter, Window, median};
use crate::bench::prefixes::{Prefix, Prefixes, text_of};
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::{Plan, Rig};
use crate::bench::routes::Changes;
use crate::bench::{Bench, Context, Emit, scenarios};
use graph::clock::tsc_hz;
use ipnet::IpNet;
use net::router::Op;
use serde::Serialize;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Updates of one transaction.
const BATCH: usize = 1024;
/// Turns of undisturbed and disturbed windows.
const ROUNDS: usize = 10;

/// One update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The prefix.
    pub prefix: Prefix,
    /// It goes; else it comes, or changes its next hop.
    pub withdraw: bool,
}

/// The updates of a file (`A PREFIX` or `W PREFIX` a line) of one family.
pub fn load(file: &Path, v6: bool) -> Result<Vec<Update>, String> {
    let mut all = vec![];
    for (n, line) in text_of(file)?.lines().enumerate() {
        let wrong =
            || format!("{}:{}: {line:?} is neither \"A PREFIX\" nor \"W PREFIX\"", file.display(), n + 1);
        let (kind, prefix) = line.trim().split_once(' ').ok_or_else(wrong)?;
        let net: IpNet = prefix.trim().parse().map_err(|_| wrong())?;
        let withdraw = match kind {
            "A" => false,
            "W" => true,
            _ => return Err(wrong()),
        };
        if net.addr().is_ipv6() == v6 {
            all.push(Update { prefix: Prefix::new(net), withdraw });
        }
    }
    Ok(all)
}

/// The updates as a circle: withdrawals of what is not there are left out, and at the end the table is as it was.
pub fn circle(table: &Prefixes, updates: &[Update]) -> Vec<Update> {
    let before: HashSet<Prefix> = table.list.iter().copied().collect();
    let mut there = before.clone();
    let mut out: Vec<Update> = updates
        .iter()
        .copied()
        .filter(|u| {
            if u.withdraw {
                return there.remove(&u.prefix);
            }
            there.insert(u.prefix);
            true
        })
        .collect();
    let mut more: Vec<Prefix> = there.difference(&before).copied().collect();
    more.sort_unstable();
    out.extend(more.into_iter().map(|prefix| Update { prefix, withdraw: true }));
    let mut gone: Vec<Prefix> = before.difference(&there).copied().collect();
    gone.sort_unstable();
    out.extend(gone.into_iter().map(|prefix| Update { prefix, withdraw: false }));
    out
}

#[derive(Serialize)]
struct Churn {
    scenario: &'static str,
    family: u8,
    routes: usize,
    workers: usize,
    size: usize,
    /// Updates a second, median.
    updates_per_second: f64,
    /// Updates of one transaction.
    batch: usize,
    /// Updates applied in all.
    updates: u64,
    /// Million packets a second, disturbed and not, medians.
    mpps: f64,
    mpps_undisturbed: f64,
    /// Their ratio: median over pairs of windows that followed each other.
    throughput_ratio: f64,
    /// Clocks a packet, disturbed and not.
    clocks_per_packet: f64,
    clocks_per_packet_undisturbed: f64,
    /// Longest time between two vectors in a window, median over windows, microseconds.
    gap_us: f64,
    gap_us_undisturbed: f64,
    /// The longest of all.
    gap_us_max: f64,
    gap_us_undisturbed_max: f64,
    /// Packets dropped or lost.
    dropped: u64,
    lost: i64,
    leaked: i64,
    #[serde(flatten)]
    place: Place,
}

/// What one window found.
struct Part {
    window: Window,
    gap: f64,
    updates: u64,
}

/// Applies updates for `seconds`, or none.
fn part(
    rig: &mut Rig,
    meter: &Meter,
    seconds: f64,
    mut next: Option<&mut dyn FnMut() -> (usize, Vec<Op>)>,
) -> Result<Part, String> {
    let us = 1e6 / tsc_hz().max(1) as f64;
    let mut updates = 0;
    rig.feed.gap.store(0, Ordering::Relaxed);
    let (began, first) = (Instant::now(), meter.mark());
    while began.elapsed().as_secs_f64() < seconds {
        match &mut next {
            Some(next) => {
                let (n, ops) = next();
                updates += n as u64;
                rig.commit(ops)?;
            }
            None => std::thread::sleep(std::time::Duration::from_millis(2)),
        }
    }
    let window = meter.since(&first);
    Ok(Part { window, gap: rig.feed.gap.swap(0, Ordering::Relaxed) as f64 * us, updates })
}

fn family(c: &Context, args: &Bench, v6: bool, updates: &[Update], emit: Emit<'_>) -> Result<(), String> {
    let table = c.input.table(v6)?;
    let circle = circle(&table, updates);
    if circle.is_empty() {
        return Err("no update of the files changes the table".into());
    }
    // A default route: a packet to a prefix that is withdrawn for the moment has a way, so that none may be lost.
    let all = table.clone().with(scenarios::default_route(v6)?);
    let plan: Plan = Plan { routes: vec![all], ..scenarios::plain(&c.input, table, scenarios::HOPS)? };
    let mut rig = Rig::new(&c.machine, &plan, false)?;
    let _aside = c.machine.step_aside();
    let meter = Meter::new(&rig);
    let targets = rig.targets(&plan, v6);
    let (mut at, mut turn) = (0, 0);
    let mut next = || {
        let mut changes = Changes::new(v6, &targets);
        while changes.len() < BATCH {
            let u = circle[at];
            at = (at + 1) % circle.len();
            // The next hop changes with every announcement.
            turn += 1;
            match u.withdraw {
                true => changes.del(u.prefix),
                false => changes.set(u.prefix, turn),
            }
        }
        (changes.len(), changes.ops())
    };
    rig.start();
    let length = args.seconds / (2 * ROUNDS) as f64;
    drop(part(&mut rig, &meter, length, None)?);
    let (mut quiet, mut busy) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        quiet.push(part(&mut rig, &meter, length, None)?);
        busy.push(part(&mut rig, &meter, length, Some(&mut next))?);
    }
    rig.stop();
    let (made, dropped) = meter.totals();
    let mpps = |p: &Part| meter.mpps(&p.window);
    let clocks = |p: &Part| meter.clocks(&p.window).unwrap_or(0.0);
    let of = |list: &[Part], f: &dyn Fn(&Part) -> f64| median(list.iter().map(f).collect());
    let most = |list: &[Part]| list.iter().map(|p| p.gap).fold(0.0, f64::max);
    let ratio = quiet.iter().zip(&busy).map(|(q, b)| mpps(b) / mpps(q)).collect();
    let found = Churn {
        scenario: "churn",
        family: if v6 { 6 } else { 4 },
        routes: rig.routes,
        workers: c.machine.workers,
        size: args.size,
        updates_per_second: round(of(&busy, &|p| p.updates as f64 / p.window.seconds), 0),
        batch: BATCH,
        updates: busy.iter().map(|p| p.updates).sum(),
        mpps: round(of(&busy, &mpps), 3),
        mpps_undisturbed: round(of(&quiet, &mpps), 3),
        throughput_ratio: round(median(ratio), 3),
        clocks_per_packet: round(of(&busy, &clocks), 2),
        clocks_per_packet_undisturbed: round(of(&quiet, &clocks), 2),
        gap_us: round(of(&busy, &|p| p.gap), 1),
        gap_us_undisturbed: round(of(&quiet, &|p| p.gap), 1),
        gap_us_max: round(most(&busy), 1),
        gap_us_undisturbed_max: round(most(&quiet), 1),
        dropped,
        lost: made as i64 - rig.sent() as i64 - dropped as i64,
        leaked: rig.router.pool().in_use() as i64 - rig.held() as i64,
        place: Place::now(),
    };
    let line = format!(
        "churn, IPv{}, {} routes: {:.0} updates a second; {:.2} Mpps, undisturbed {:.2}, ratio {:.3}; longest gap \
         {:.0} us, undisturbed {:.0} us; {} packets dropped, {} lost",
        found.family,
        found.routes,
        found.updates_per_second,
        found.mpps,
        found.mpps_undisturbed,
        found.throughput_ratio,
        found.gap_us,
        found.gap_us_undisturbed,
        found.dropped,
        found.lost
    );
    emit(Answer::line(&found, line)?)
}

/// Runs the scenario, for each family of which there are updates.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    if args.updates.is_empty() || args.table.is_empty() {
        return Err("needs a table and updates of it: give the files with --table and --updates".into());
    }
    let mut any = false;
    for v6 in [false, true] {
        let mut updates = vec![];
        for f in &args.updates {
            updates.extend(load(f, v6)?);
        }
        if !updates.is_empty() {
            any = true;
            family(c, args, v6, &updates, emit)?;
        }
    }
    if any { Ok(()) } else { Err("there is no update in the files of --updates".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_ends_where_it_began() {
        let net = |t: &str| Prefix::new(t.parse().unwrap());
        let (a, b, d) = (net("10.0.0.0/8"), net("10.1.0.0/16"), net("192.0.2.0/24"));
        let mut table = Prefixes::one("10.0.0.0/8".parse().unwrap());
        table = table.with(Prefixes::one("10.1.0.0/16".parse().unwrap()));
        let up = |prefix| Update { prefix, withdraw: false };
        let down = |prefix| Update { prefix, withdraw: true };
        let list = [down(d), up(d), down(a), down(a), up(b)];
        assert_eq!(circle(&table, &list), [up(d), down(a), up(b), down(d), up(a)]);
    }
}
