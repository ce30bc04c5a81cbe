//! `steering`: one receive queue, whose packets one worker forwards, against the same with `set interface handoff` among all workers.

use crate::bench::measure::{Meter, median};
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::{Plan, Rig};
use crate::bench::{Bench, Context, Emit, many, scenarios};
use net::load;
use net::router::{Op, Router};
use net::steering::{self, Handoff, HandoffConfig};
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Length of a turn, seconds, and until the workers do what they were told.
const TURN: f64 = 0.1;
const SETTLE: f64 = 0.02;
/// Looks at the load before a turn while shares of flows follow it, and seconds between two.
const LOOKS: usize = 20;
const BETWEEN: f64 = 0.02;
/// Routes of the graph that costs least.
const ROUTES: usize = 1_000_000;
/// Sub-interfaces on which packets of the dearest graph come.
const SUBS: usize = 10_000;

#[derive(Serialize)]
struct Found {
    scenario: &'static str,
    graph: &'static str,
    workers: usize,
    size: usize,
    /// Pairs of turns.
    turns: usize,
    /// Million packets a second that one worker forwards, median.
    mpps: f64,
    /// The same where all workers share the queue's packets.
    mpps_steered: f64,
    /// The one as a share of the other, median of the pairs.
    ratio: f64,
    /// Clocks a packet of the queue with receiving and sending, of all workers together, median.
    clocks_per_packet_total: f64,
    clocks_per_packet_total_steered: f64,
    /// Clocks of `worker-handoff` a packet of the queue, median.
    clocks_handoff: f64,
    /// Packets of the queue that no worker took in time, percent.
    dropped_percent: f64,
    /// Flows that the worker of the queue goes on with, percent.
    kept_percent: f64,
    #[serde(flatten)]
    place: Place,
}

/// Of a turn: million packets a second that were sent and received, clocks a packet in all, and those of the node.
struct Turn {
    sent: f64,
    received: f64,
    clocks: f64,
    node: f64,
    /// The share of flows that stay.
    kept: f64,
}

fn sunk(rig: &Rig) -> u64 {
    rig.egress.iter().flat_map(|e| &e.sinks).map(|s| s.packets.load(Ordering::Acquire)).sum()
}

/// The share of flows with which the worker of the queue goes on.
fn kept(router: &Router) -> f64 {
    let Some(index) = router.interface_index("in0") else { return 0.0 };
    let shares = steering::shares(router, index);
    let polls = router.rx_placement().iter().find(|p| p.interface == index).map(|p| p.worker);
    let all: usize = shares.iter().map(|s| s.1).sum();
    let own: usize = shares.iter().filter(|s| Some(s.0) == polls).map(|s| s.1).sum();
    own as f64 / all.max(1) as f64
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    if c.machine.workers < 2 {
        return Err("this is of several workers: give --workers".into());
    }
    // From one that costs little to one that is the limit.
    let internet = || scenarios::internet_or_mix(&c.input);
    let dearest = || many::behind_two_tags(&c.input, SUBS, internet()?);
    compare(c, args, "a million routes", &scenarios::mix(&c.input, false, ROUTES)?, emit)?;
    compare(c, args, "both families, tables as the Internet's", &internet()?, emit)?;
    compare(c, args, "the same, on 10,000 sub-interfaces with two tags", &dearest()?, emit)
}

/// Measures one graph.
fn compare(
    c: &Context,
    args: &Bench,
    graph: &'static str,
    plan: &Plan,
    emit: Emit<'_>,
) -> Result<(), String> {
    let size = plan.mean_size();
    let mut rig = Rig::new(&c.machine, plan, false)?;
    rig.feed.alone.store(1, Ordering::Release);
    let _aside = c.machine.step_aside();
    rig.start();
    std::thread::sleep(Duration::from_secs_f64((args.seconds / 8.0).min(1.0)));
    let meter = Meter::new(&rig);
    let mut turn = |steered: bool| -> Result<Turn, String> {
        let feature = Handoff(steered.then(HandoffConfig::default)).into();
        rig.commit(vec![Op::SetFeature { name: "in0".into(), feature }])?;
        std::thread::sleep(Duration::from_secs_f64(SETTLE));
        for _ in 0..if steered { LOOKS } else { 0 } {
            load::follow(&mut rig.router, Instant::now());
            std::thread::sleep(Duration::from_secs_f64(BETWEEN));
        }
        let (first, before) = (meter.mark(), sunk(&rig));
        std::thread::sleep(Duration::from_secs_f64(TURN));
        let (window, sent) = (meter.since(&first), sunk(&rig) - before);
        let packets = meter.packets(&window).max(1) as f64;
        let node = meter.names.iter().position(|n| *n == "worker-handoff").and_then(|n| window.nodes.get(n));
        Ok(Turn {
            sent: sent as f64 / window.seconds / 1e6,
            received: meter.mpps(&window),
            clocks: meter.total_clocks(&window).unwrap_or(0.0),
            node: node.map_or(0.0, |n| n.clocks as f64 / packets),
            kept: kept(&rig.router),
        })
    };
    let turns = (args.seconds / (2.0 * (TURN + SETTLE) + LOOKS as f64 * BETWEEN)).ceil().max(1.0) as usize;
    let mut pairs = vec![];
    for _ in 0..turns {
        pairs.push((turn(false)?, turn(true)?));
    }
    let of = |f: fn(&(Turn, Turn)) -> f64| round(median(pairs.iter().map(f).collect()), 3);
    let found = Found {
        scenario: "steering",
        graph,
        workers: c.machine.workers,
        size,
        turns,
        mpps: of(|p| p.0.sent),
        mpps_steered: of(|p| p.1.sent),
        ratio: of(|p| p.1.sent / p.0.sent.max(f64::MIN_POSITIVE)),
        clocks_per_packet_total: of(|p| p.0.clocks),
        clocks_per_packet_total_steered: of(|p| p.1.clocks),
        clocks_handoff: of(|p| p.1.node),
        dropped_percent: of(|p| (1.0 - p.1.sent / p.1.received.max(f64::MIN_POSITIVE)).max(0.0) * 100.0),
        kept_percent: of(|p| p.1.kept * 100.0),
        place: Place::now(),
    };
    let line = format!(
        "steering, one queue, {} workers, {}, {} bytes: {:.2} Mpps, by one worker {:.2} Mpps: {:.2} times that; {:.1} clocks a packet \
         in all, by one {:.1}; worker-handoff {:.1}; {:.2} % dropped; {:.0} % of flows stay",
        found.workers,
        found.graph,
        found.size,
        found.mpps_steered,
        found.mpps,
        found.ratio,
        found.clocks_per_packet_total_steered,
        found.clocks_per_packet_total,
        found.clocks_handoff,
        found.dropped_percent,
        found.kept_percent
    );
    emit(Answer::line(&found, line)?)
}
