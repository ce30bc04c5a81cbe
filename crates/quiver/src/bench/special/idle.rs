//! `idle`: what the router takes when nothing comes, and how fast it wakes up.

use super::latency::Times;
use crate::bench::histogram::{Counts, Histogram};
use crate::bench::random::Random;
use crate::bench::report::{Answer, Place, round};
use crate::bench::rig::Rig;
use crate::bench::{Bench, Context, Emit, feed, scenarios};
use graph::clock::tsc;
use graph::{Buffers, Desc, RxQueue, Vector};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::time::Timespec;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Wake-ups measured.
const ROUNDS: usize = 500;

#[derive(Serialize)]
struct Idle {
    scenario: &'static str,
    workers: usize,
    /// Seconds without a packet.
    seconds: f64,
    /// CPU time of the whole process in them, of one CPU, percent.
    cpu_percent: f64,
    /// Times that a worker woke up in them, a second.
    wakeups_per_second: f64,
    /// Rounds of the following.
    rounds: usize,
    /// From a packet at a sleeping worker's device to the packet at the output node.
    wake_us: Times,
    #[serde(flatten)]
    place: Place,
}

/// A device that has one packet whenever its descriptor is written to.
struct Doorbell {
    interface: u32,
    fd: Arc<OwnedFd>,
    frame: Vec<u8>,
}

impl RxQueue for Doorbell {
    fn interface(&self) -> u32 {
        self.interface
    }

    fn input_node(&self) -> &'static str {
        feed::NODE
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.fd.as_raw_fd())
    }

    fn poll(&mut self, buffers: &mut Buffers, _now_ns: u64, out: &mut Vector) -> usize {
        let mut count = [0; 8];
        if rustix::io::read(&self.fd, &mut count).is_err() {
            return 0;
        }
        let Some(d) = buffers.alloc_bytes(&self.frame) else { return 0 };
        let d = Desc { rx: self.interface, tx: self.interface, ..d };
        match out.push(d) {
            Ok(()) => 1,
            Err(d) => {
                buffers.free(d);
                0
            }
        }
    }
}

fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// What the control thread of `quiver run` does: waits for the workers and for its own timers.
fn control_loop(rig: &mut Rig, until: Instant) {
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        let due = rig.router.next_deadline().0.saturating_sub(rig.router.now().0);
        let wait = left.min(Duration::from_millis(due.max(1)));
        let time = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let _ = poll(&mut [PollFd::from_borrowed_fd(rig.router.punt_fd(), PollFlags::IN)], Some(&time));
        rig.router.handle_punts();
        rig.router.tick();
    }
}

/// Runs the scenario.
pub fn run(c: &Context, args: &Bench, emit: Emit<'_>) -> Result<(), String> {
    let mut plan = scenarios::plain(&c.input, scenarios::small_table(false)?, 1)?;
    plan.egress = 1;
    let mut rig = Rig::new(&c.machine, &plan, false)?;
    let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
    let fd = Arc::new(fd.map_err(|e| format!("cannot make an eventfd: {e}"))?);
    let frame = plan.first_frame()?;
    let bell = Arc::clone(&fd);
    rig.add_queue(move |interface| Box::new(Doorbell { interface, fd: bell, frame }))?;
    let _aside = c.machine.step_aside();
    // Long enough for whatever a start brings with it.
    control_loop(&mut rig, Instant::now() + Duration::from_secs_f64((args.seconds / 4.0).min(2.0)));
    let sleeps = |rig: &Rig| rig.router.graphs().iter().map(|g| g.stats.turns().sleeps.get()).sum::<u64>();
    let (began, cpu, slept) = (Instant::now(), cpu_seconds(), sleeps(&rig));
    control_loop(&mut rig, Instant::now() + Duration::from_secs_f64(args.seconds));
    let (seconds, cpu, slept) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu, sleeps(&rig) - slept);
    let (times, mut random) = (Histogram::default(), Random::new(9));
    let sink = Arc::clone(rig.egress.first().and_then(|e| e.sinks.first()).ok_or("no sink")?);
    sink.timed.store(true, Ordering::Relaxed);
    let rounds = ROUNDS.min((args.seconds * 200.0) as usize).max(10);
    for n in 0..rounds {
        // Longer than a worker polls before it sleeps.
        std::thread::sleep(Duration::from_micros(500 + random.below(2000) as u64));
        let (before, t0) = (sink.packets.load(Ordering::Acquire), tsc());
        rustix::io::write(&fd, &1u64.to_ne_bytes()).map_err(|e| format!("cannot wake the worker: {e}"))?;
        let patience = Instant::now() + Duration::from_secs(5);
        while sink.packets.load(Ordering::Acquire) == before {
            if Instant::now() > patience {
                return Err(format!("packet {n} did not wake the worker"));
            }
            std::thread::yield_now();
        }
        // The stamp is written before the packet is counted.
        times.record(sink.last.load(Ordering::Acquire).saturating_sub(t0));
    }
    let mut counts = Counts::default();
    times.add_to(&mut counts);
    let found = Idle {
        scenario: "idle",
        workers: c.machine.workers,
        seconds: round(seconds, 2),
        cpu_percent: round(cpu / seconds * 100.0, 3),
        wakeups_per_second: round(slept as f64 / seconds, 2),
        rounds,
        wake_us: Times::new(&counts),
        place: Place::now(),
    };
    let line = format!(
        "idle, {} worker{}: {:.3} % of one CPU, {:.1} wake-ups a second, {} MB; from a packet to its forwarding by a \
         sleeping worker {}",
        found.workers,
        if found.workers == 1 { "" } else { "s" },
        found.cpu_percent,
        found.wakeups_per_second,
        found.place.rss_mb,
        found.wake_us
    );
    emit(Answer::line(&found, line)?)
}
