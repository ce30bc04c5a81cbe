//! `converge`: a next hop of very many prefixes goes, and its packets take the other one.

use crate::bench::measure::{ENOUGH, Meter, median};
use crate::bench::prefixes::Prefixes;
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::{Plan, Rig};
use crate::bench::{Bench, Context, Emit, scenarios};
use graph::clock::{tsc, tsc_hz};
use net::router::Op;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Prefixes of the made tables: the time must not depend on them.
const ROUTES: [usize; 2] = [1000, 1_000_000];
/// How often the next hop goes.
const ROUNDS: usize = 21;

#[derive(Serialize)]
struct Converge {
    scenario: &'static str,
    routes: usize,
    workers: usize,
    /// What happened: the link went, or the interface was set down.
    event: &'static str,
    rounds: usize,
    /// From the event to the time when every packet uses the other next hop, median, microseconds.
    converge_us: f64,
    /// The longest of all rounds.
    converge_us_max: f64,
    /// From the event to the last packet over the lost next hop, median.
    last_packet_us: f64,
    /// Packets dropped in one round, median.
    dropped: f64,
    /// Million packets a second while nothing happened.
    mpps: f64,
    #[serde(flatten)]
    place: Place,
}

/// One round: takes the first next hop away, and answers the times (microseconds) until all packets go over the other
/// and until the last went over this one, with the packets dropped.
fn round_of(rig: &mut Rig, meter: &Meter, event: &str) -> Result<(f64, f64, f64), String> {
    let us = |clocks: u64| clocks as f64 * 1e6 / tsc_hz().max(1) as f64;
    let (_, dropped) = meter.totals();
    let name = rig.egress.first().map(|e| e.name.clone()).unwrap_or_default();
    let t0 = tsc();
    match event {
        "link" => rig.set_link(0, false),
        _ => rig.commit(vec![Op::SetState { name: name.clone(), up: false }])?,
    }
    // From here on a worker that begins a vector finds the new state.
    let done = tsc();
    rig.barrier();
    rig.barrier();
    let last = rig.egress.iter().take(1).flat_map(|e| &e.sinks).map(|s| s.last.load(Ordering::Acquire)).max();
    let last = last.unwrap_or(0).saturating_sub(t0);
    let lost = meter.totals().1 - dropped;
    match event {
        "link" => rig.set_link(0, true),
        _ => rig.commit(vec![Op::SetState { name, up: true }])?,
    }
    Ok((us(last.max(done - t0)), us(last), lost as f64))
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let made = || ROUTES.map(|n| Prefixes::mix(false, n, &mut Random::new(1))).to_vec();
    for table in c.input.table(false).map_or_else(|_| made(), |t| vec![t]) {
        // Two paths in one group, on two interfaces: each carries half of the flows, and either can carry all.
        let plan = Plan { paths: 2, egress: 2, ..scenarios::plain(&c.input, table, 2)? };
        let plan = Plan { same_group: true, ..plan };
        let mut rig = Rig::new(&c.machine, &plan, false)?;
        let _aside = c.machine.step_aside();
        let meter = Meter::new(&rig);
        rig.egress.iter().flat_map(|e| &e.sinks).for_each(|s| s.timed.store(true, Ordering::Relaxed));
        rig.start();
        let run = meter.measure(args.seconds / 10.0, ENOUGH, || {});
        let mpps = median(run.windows.iter().map(|w| meter.mpps(w)).collect());
        for event in ["link", "admin-down"] {
            let mut found = vec![];
            for _ in 0..ROUNDS {
                found.push(round_of(&mut rig, &meter, event)?);
                // Both next hops carry packets again.
                std::thread::sleep(Duration::from_secs_f64(args.seconds / 500.0));
            }
            let all = |f: fn(&(f64, f64, f64)) -> f64| found.iter().map(f).collect::<Vec<_>>();
            let found = Converge {
                scenario: "converge",
                routes: rig.routes,
                workers: c.machine.workers,
                event,
                rounds: ROUNDS,
                converge_us: round(median(all(|f| f.0)), 1),
                converge_us_max: round(all(|f| f.0).into_iter().fold(0.0, f64::max), 1),
                last_packet_us: round(median(all(|f| f.1)), 1),
                dropped: median(all(|f| f.2)),
                mpps: round(mpps, 3),
                place: Place::now(),
            };
            let line = format!(
                "converge, {:>7} routes, {:<10}: all packets use the other next hop after {:.1} us (longest {:.1}), \
                 the last one over the lost one after {:.1} us, {} packets dropped",
                found.routes,
                event,
                found.converge_us,
                found.converge_us_max,
                found.last_packet_us,
                found.dropped
            );
            emit(Answer::line(&found, line)?)?;
        }
        rig.stop();
    }
    Ok(())
}
