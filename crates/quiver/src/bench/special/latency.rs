//! `latency`: how long packets are in the graph, at several loads.

use crate::bench::histogram::{Counts, Histogram};
use crate::bench::measure::{ENOUGH, Meter, median};
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::Rig;
use crate::bench::{Bench, Context, Emit};
use graph::clock::tsc_hz;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Loads, of the most that was measured before.
const LOADS: [f64; 4] = [0.01, 0.1, 0.5, 0.9];

/// Quantiles of a time, microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Times {
    /// Of a histogram of TSC clocks.
    pub fn new(c: &Counts) -> Self {
        let us = |clocks: u64| round(clocks as f64 * 1e6 / tsc_hz().max(1) as f64, 2);
        Times {
            p50: us(c.quantile(0.5)),
            p99: us(c.quantile(0.99)),
            p999: us(c.quantile(0.999)),
            max: us(c.max()),
        }
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "p50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1} us", self.p50, self.p99, self.p999, self.max)
    }
}

#[derive(Serialize)]
struct Latency {
    scenario: &'static str,
    routes: usize,
    workers: usize,
    size: usize,
    /// Share of the most that was forwarded.
    load: f64,
    /// Million packets a second.
    mpps: f64,
    /// Packets measured.
    packets: u64,
    /// From the input node's poll to the output node.
    graph_us: Times,
    /// From the time at which the packet was due, as at a device's ring, to the output node.
    due_us: Times,
    /// Packets that would have found a ring of 4096 full, because the worker did not run.
    missed: u64,
    #[serde(flatten)]
    place: Place,
}

fn sum(rig: &Rig, which: fn(&(Histogram, Histogram)) -> &Histogram) -> Counts {
    let mut c = Counts::default();
    let sinks = rig.egress.iter().flat_map(|e| &e.sinks);
    sinks.filter_map(|s| s.latency.as_ref()).for_each(|l| which(l).add_to(&mut c));
    c
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let plan = c.large_plan()?;
    let mut rig = Rig::new(&c.machine, &plan, true)?;
    let _aside = c.machine.step_aside();
    let meter = Meter::new(&rig);
    rig.feed.stamp.store(true, Ordering::Relaxed);
    rig.start();
    let share = args.seconds / (LOADS.len() + 1) as f64;
    let warm = Duration::from_secs_f64((share / 4.0).min(0.5));
    rig.warm_up(warm.as_secs_f64());
    let run = meter.measure(share, ENOUGH, || {});
    let most = median(run.windows.iter().map(|w| meter.mpps(w)).collect());
    for load in LOADS {
        let pps = most * 1e6 * load / c.machine.workers as f64;
        rig.feed.pps.store((pps as u64).max(1), Ordering::Relaxed);
        std::thread::sleep(warm);
        let sinks = rig.egress.iter().flat_map(|e| &e.sinks);
        sinks.filter_map(|s| s.latency.as_ref()).for_each(|l| (l.0.clear(), l.1.clear()).1);
        rig.feed.missed.store(0, Ordering::Relaxed);
        let run = meter.measure(share, 1, || {});
        let (graph, due) = (sum(&rig, |l| &l.0), sum(&rig, |l| &l.1));
        let found = Latency {
            scenario: "latency",
            routes: rig.routes,
            workers: c.machine.workers,
            size: args.size,
            load,
            mpps: round(median(run.windows.iter().map(|w| meter.mpps(w)).collect()), 3),
            packets: graph.total(),
            graph_us: Times::new(&graph),
            due_us: Times::new(&due),
            missed: rig.feed.missed.load(Ordering::Relaxed),
            place: Place::now(),
        };
        let line = format!(
            "latency, {:>2.0} % load ({:.2} Mpps): in the graph {}; since due {}; missed {}",
            load * 100.0,
            found.mpps,
            found.graph_us,
            found.due_us,
            found.missed
        );
        emit(Answer::line(&found, line)?)?;
    }
    rig.stop();
    Ok(())
}
