//! `dpdk`: IPv4 from a device of DPDK to another one, both `net_null`, against `ip4`, whose packets come from the feed and end in sinks.

use crate::bench::feed::{Control, Feed};
use crate::bench::measure::{Meter, median};
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::Rig;
use crate::bench::{Bench, Context, Emit, feed, scenarios};
use drivers::dpdk::{Config, Event, Handle, Hub, Name, Running, Setting};
use graph::io::Ready;
use graph::{Buffers, RxQueue, Vector};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long DPDK may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// Length of a turn, seconds, and until the workers do what they were told.
const TURN: f64 = 0.05;
const SETTLE: f64 = 0.01;

/// Million packets a second and clocks a packet: of `ip4`, and from device to device.
type Pair = ((f64, f64), (f64, f64));

#[derive(Serialize)]
struct Found {
    scenario: &'static str,
    size: usize,
    /// Pairs of turns.
    turns: usize,
    /// Million packets a second from device to device, median.
    mpps: f64,
    /// The same of `ip4`.
    mpps_ip4: f64,
    /// The one as a share of the other, median of the pairs.
    ratio: f64,
    /// Clocks a packet with receiving and sending, median; the same of `ip4`, with generator and sink.
    clocks_per_packet_total: f64,
    clocks_per_packet_total_ip4: f64,
    #[serde(flatten)]
    place: Place,
}

/// Packets of the feed in buffers that the device brings.
struct Written {
    device: Box<dyn RxQueue>,
    feed: Feed,
    open: Arc<AtomicBool>,
}

impl RxQueue for Written {
    fn interface(&self) -> u32 {
        self.feed.interface()
    }

    fn input_node(&self) -> &'static str {
        feed::NODE
    }

    fn poll(&mut self, buffers: &mut Buffers, now_ns: u64, out: &mut Vector) -> usize {
        if !self.open.load(Ordering::Acquire) {
            return 0;
        }
        let before = out.len();
        let n = self.device.poll(buffers, now_ns, out);
        let interface = self.interface();
        let new = out.as_mut_slice().get_mut(before..).unwrap_or_default();
        new.iter_mut().for_each(|d| (d.rx, d.tx) = (interface, interface));
        self.feed.overwrite(buffers, new);
        n
    }

    fn ready(&self) -> Ready {
        if self.open.load(Ordering::Acquire) { Ready::Now } else { Ready::Never }
    }
}

/// Waits until two ports run.
fn both(hub: &mut Hub, handles: &[Handle]) -> Result<[Running; 2], String> {
    handles.iter().for_each(|h| h.set(Setting::Up(true)));
    let (mut run, end) = ([None, None], Instant::now() + PATIENCE);
    loop {
        for (interface, event) in hub.events() {
            match event {
                Event::Up { running } => {
                    if let Some(place) = run.get_mut(interface as usize) {
                        *place = Some(running);
                    }
                }
                Event::Say { text } => return Err(text),
                _ => {}
            }
        }
        match &mut run {
            [a, b] if a.is_some() && b.is_some() => {
                if let (Some(a), Some(b)) = (a.take(), b.take()) {
                    return Ok([a, b]);
                }
            }
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
        if Instant::now() > end {
            return Err("DPDK does not begin".into());
        }
    }
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    if c.machine.workers != 1 {
        return Err("this is of one worker: leave --workers out".into());
    }
    let library = drivers::dpdk::load()?;
    let plan = || {
        scenarios::plain(&c.input, scenarios::small_table(false)?, 1)
            .map(|p| crate::bench::rig::Plan { egress: 1, ..p })
    };
    let plain = plan()?;
    if plain.mean_size() > 64 {
        return Err("this is of 64 bytes: leave --size out".into());
    }
    let mut rig4 = Rig::new(&c.machine, &plain, false)?;
    let mut rig = Rig::new(&c.machine, &plan()?, false)?;
    let mut hub = Hub::new().map_err(|e| format!("no descriptor: {e}"))?;
    let name = |n: usize| Name::parse(&format!("net_null{n},size=64,copy=0"));
    let mut add = |n: usize| {
        let pool = Arc::clone(rig.router.pool());
        hub.add(library, &pool, n as u32, Config::new(name(n)?), 1).map_err(|e| format!("no thread: {e}"))
    };
    let handles = [add(0)?, add(1)?];
    let [mut from, mut to] = both(&mut hub, &handles)?;
    let open = Arc::new(AtomicBool::new(false));
    let (device, theirs) = (from.rx.pop().ok_or("no receive queue")?, Arc::clone(&open));
    let traffic = plain.traffic.clone();
    rig.add_queue(move |interface| {
        let feed = Feed::new(interface, 0, 1, &traffic, Arc::new(Control::default()));
        Box::new(Written { device, feed, open: theirs })
    })?;
    rig.router.test_sink("out0", to.tx.transmit_queue().ok_or("no transmit queue")?);
    let _aside = c.machine.step_aside();
    rig4.start();
    rig4.warm_up((args.seconds / 8.0).min(1.0));
    let (meters, sleep) =
        ([Meter::new(&rig4), Meter::new(&rig)], |s| std::thread::sleep(Duration::from_secs_f64(s)));
    let turn = |which: usize, seconds: f64| {
        rig4.feed.open.store(which == 0, Ordering::Release);
        open.store(which == 1, Ordering::Release);
        rig4.barrier();
        rig.barrier();
        sleep(SETTLE);
        let first = meters[which].mark();
        sleep(seconds);
        let window = meters[which].since(&first);
        (meters[which].mpps(&window), meters[which].total_clocks(&window).unwrap_or(0.0))
    };
    turn(1, (args.seconds / 8.0).min(1.0));
    let turns = (args.seconds / (2.0 * (TURN + SETTLE))).ceil().max(1.0) as usize;
    let pairs: Vec<Pair> = (0..turns).map(|_| (turn(0, TURN), turn(1, TURN))).collect();
    open.store(false, Ordering::Release);
    rig.barrier();
    let of = |f: fn(&Pair) -> f64| round(median(pairs.iter().map(f).collect()), 3);
    let found = Found {
        scenario: "dpdk",
        size: plain.mean_size(),
        turns,
        mpps: of(|p| p.1.0),
        mpps_ip4: of(|p| p.0.0),
        ratio: of(|p| p.1.0 / p.0.0.max(f64::MIN_POSITIVE)),
        clocks_per_packet_total: of(|p| p.1.1),
        clocks_per_packet_total_ip4: of(|p| p.0.1),
        place: Place::now(),
    };
    let line = format!(
        "dpdk, net_null to net_null, {} bytes: {:.2} Mpps, ip4 in turns with it {:.2} Mpps: {:.3} of that; {:.1} clocks a packet in all, \
         ip4 {:.1}",
        found.size,
        found.mpps,
        found.mpps_ip4,
        found.ratio,
        found.clocks_per_packet_total,
        found.clocks_per_packet_total_ip4
    );
    // The queues go before their ports.
    drop((rig, from, to));
    drop(hub);
    emit(Answer::line(&found, line)?)
}
