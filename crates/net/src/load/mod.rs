//! What workers do with their time, and how their receive queues are used. The control side looks at their counters
//! once a second; workers do nothing for it.

mod balance;
mod commands;
mod elephants;
mod follow;
mod number;
#[cfg(test)]
mod numbered;
mod series;
mod settings;
#[cfg(test)]
mod steering_tests;
#[cfg(test)]
mod workers_tests;

pub use elephants::{Elephant, elephants};
use follow::Follow;
pub use follow::follow;
pub use number::{MOST_CPU, SetWorkers};
use settings::set_polling;
pub use settings::{LoadOp, LoadSettings, settings};

use crate::router::{Part, Placement, Router, Start};
use crate::steering;
use balance::{History, Second};
use command::Command;
use graph::VECTOR_SIZE;
use series::Series;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// The times over which load is told, seconds.
const SPANS: [u32; 3] = [1, 10, 60];

/// Seconds between two moves of receive queues.
const SETTLE: u32 = 10;

/// What a worker's counters said: clocks of its nodes, nanoseconds on a processor, nanoseconds in want of one, packets, vectors, full
/// vectors, sleeps, wake-ups.
type WorkerSums = [u64; 8];
/// What the counters of a receive queue said: packets, bytes, vectors, full vectors.
type QueueSums = [u64; 4];

/// What a worker does with its time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerLoad {
    /// Its number.
    pub worker: usize,
    /// The share of the last 1, 10 and 60 seconds in which it worked on packets, 0 to 1; empty polls of queues are not work. Of less while
    /// it is not there for so long; none in its first second.
    pub busy: [Option<f64>; 3],
    /// The share in which its thread ran on a processor, polling included. None also where the system does not tell.
    pub processor: [Option<f64>; 3],
    /// The share of the last second in which it could have run and had no processor.
    pub waiting: Option<f64>,
    /// Packets a second that its inputs brought, in the last second.
    pub packets: f64,
    /// Packets of a vector that an input brought, on average of the last second; none when there was no vector.
    pub vector: Option<f64>,
    /// The share of these vectors that were full.
    pub full: Option<f64>,
    /// Sleeps a second.
    pub sleeps: f64,
    /// Sleeps a second that packets, or another thread, ended; others end at a time that was set.
    pub wakes: f64,
}

/// How a receive queue is used.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueLoad {
    /// Interface, number and worker.
    pub placement: Placement,
    /// Packets since the queue is there.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets a second, in the last second.
    pub rate: f64,
    /// Packets of a vector, on average of the last second; none when there was no vector.
    pub vector: Option<f64>,
    /// The share of these vectors that were full.
    pub full: Option<f64>,
    /// Packets that it dropped before the graph, by reason, since its device is open; none where the driver does not know the queue.
    pub drops: Option<Vec<(&'static str, u64)>>,
}

/// The part.
pub(crate) struct Load;

#[derive(Default)]
struct State {
    settings: LoadSettings,
    /// Looks until load is looked at for a move.
    rest: u32,
    /// What workers did while load is to be evened out.
    history: History,
    /// And what they were asked for, while shares of flows follow it.
    follow: Follow,
    workers: Vec<Series<8, 60>>,
    queues: BTreeMap<u64, Queue>,
}

struct Queue {
    interface: u32,
    queue: usize,
    /// What the counters said when it got its number, which another queue may have had.
    start: QueueSums,
    series: Series<4, 2>,
}

fn worker_sums(router: &Router, worker: usize) -> WorkerSums {
    let Some(g) = router.graphs().get(worker) else { return Default::default() };
    let clocks = g.stats.nodes.iter().map(|n| n.clocks.get()).sum();
    let thread = router.worker_thread(worker);
    let told = thread.and_then(|n| fs::read_to_string(format!("/proc/self/task/{n}/schedstat")).ok());
    let told = told.unwrap_or_default();
    let mut told = told.split_ascii_whitespace().map_while(|n| n.parse().ok());
    let (ran, waited) = (told.next().unwrap_or(0), told.next().unwrap_or(0));
    let t = g.stats.turns();
    let [packets, vectors, full, sleeps, wakes] =
        [&t.packets_in, &t.vectors, &t.full, &t.sleeps, &t.wakes].map(graph::stats::Count::get);
    [clocks, ran, waited, packets, vectors, full, sleeps, wakes]
}

fn queue_sums(router: &Router, input: u64) -> QueueSums {
    let mut sums = QueueSums::default();
    for q in router.graphs().iter().filter_map(|g| g.stats.queues.get(usize::try_from(input).ok()?)) {
        let of = [&q.packets, &q.bytes, &q.vectors, &q.full].map(graph::stats::Count::get);
        sums.iter_mut().zip(of).for_each(|(sum, n)| *sum += n);
    }
    sums
}

/// Looks at the counters of all workers and receive queues; to be called once a second.
pub fn sample(router: &mut Router, at: Instant) {
    let workers: Vec<WorkerSums> = (0..router.config().workers).map(|w| worker_sums(router, w)).collect();
    let placed = router.rx_placement().into_iter();
    let queues: Vec<QueueSums> = placed.clone().map(|p| queue_sums(router, p.input)).collect();
    let Some(state) = router.state_mut::<State>() else { return };
    state.workers.resize_with(workers.len(), Series::default);
    state.workers.iter_mut().zip(workers).for_each(|(series, sums)| series.add(at, sums));
    let mut before = std::mem::take(&mut state.queues);
    for (p, sums) in placed.zip(queues) {
        let known = before.remove(&p.input).filter(|q| (q.interface, q.queue) == (p.interface, p.queue));
        let mut queue = known.unwrap_or_else(|| Queue {
            interface: p.interface,
            queue: p.queue,
            start: sums,
            series: Series::default(),
        });
        queue.series.add(at, sums);
        state.queues.insert(p.input, queue);
    }
    if state.settings.balance {
        even_out(router);
        follow(router, at);
    } else {
        state.history.clear();
        state.follow = Follow::default();
    }
}

/// Packets a second that each worker works on, of which its load is made: what its queues brought, without what it hands to others,
/// and what others hand to it.
fn worked_on(came: Vec<f64>, handed: &[steering::Handed]) -> Vec<f64> {
    let mut packets = came;
    let others = || handed.iter().filter(|h| h.from != h.to);
    for h in others() {
        if let Some(n) = packets.get_mut(h.from) {
            *n = (*n - h.rate).max(0.0);
        }
    }
    for h in others() {
        if let Some(n) = packets.get_mut(h.to) {
            *n += h.rate;
        }
    }
    packets
}

/// What took workers' time in the last second, of `all` receive queues, of which the `free` may move.
fn last_second(router: &Router, all: &[Placement], free: &[Placement]) -> Option<Second> {
    let state = router.state::<State>()?;
    let brought = |input: u64| {
        let over = state.queues.get(&input).and_then(|q| q.series.over(Duration::from_secs(1)));
        over.map_or(0.0, |(time, [packets, ..])| packets as f64 / time)
    };
    let mut others: Vec<f64> = workers(router).iter().map(|w| w.busy[0].unwrap_or(0.0)).collect();
    let mut came = vec![0.0; others.len()];
    for p in all {
        if let Some(sum) = came.get_mut(p.worker) {
            *sum += brought(p.input);
        }
    }
    let packets = worked_on(came, &steering::handed(router));
    let mut queues = BTreeMap::new();
    for p in free {
        let (n, of) = (brought(p.input), packets.get(p.worker).copied().unwrap_or(0.0));
        queues.insert(number(p), 0.0);
        if let Some(left) = others.get_mut(p.worker).filter(|_| of > 0.0) {
            // A queue's share of its worker's load is that of its packets.
            queues.insert(number(p), (n / of).min(1.0) * *left);
        }
    }
    for p in all {
        if let (Some(left), Some(share)) = (others.get_mut(p.worker), queues.get(&number(p))) {
            *left = (*left - share).max(0.0);
        }
    }
    Some(Second { others, queues })
}

/// A number for a receive queue, whatever its input is called: that number may have been another queue's.
fn number(p: &Placement) -> u64 {
    u64::from(p.interface) << 32 | p.queue as u64
}

/// Packets that are shared out by flow do not go where their queue goes, and what the operator has placed stays.
fn may_move(router: &Router, p: &Placement) -> bool {
    !p.chosen && steering::config(router, p.interface).is_none()
}

/// Moves a receive queue where load is uneven.
fn even_out(router: &mut Router) {
    let all = router.rx_placement();
    let free: Vec<Placement> = all.iter().filter(|p| may_move(router, p)).cloned().collect();
    let Some(second) = last_second(router, &all, &free) else { return };
    let count = router.config().workers;
    let near: BTreeMap<u32, Vec<usize>> =
        free.iter().map(|p| (p.interface, router.workers_near(p.interface))).collect();
    let Some(state) = router.state_mut::<State>() else { return };
    state.history.add(second);
    if state.rest != 0 {
        state.rest -= 1;
        return;
    }
    let placed: Vec<(u64, usize)> = free.iter().map(|p| (number(p), p.worker)).collect();
    let near = |queue: usize, to: usize| free.get(queue).is_some_and(|p| near[&p.interface].contains(&to));
    let Some((queue, to)) = state.history.choose(&placed, count, near) else { return };
    state.rest = SETTLE;
    let Some(p) = free.get(queue) else { return };
    let busy: Vec<f64> = workers(router).iter().map(|w| w.busy[1].unwrap_or(0.0)).collect();
    let percent = |w: usize| busy.get(w).map_or(0.0, |b| b * 100.0);
    let what = format!(
        "{} queue {}: moved from worker {} ({:.0} % busy) to worker {to} ({:.0} %)",
        router.interface_name(p.interface),
        p.queue,
        p.worker,
        percent(p.worker),
        percent(to)
    );
    match router.move_queue(p.interface, p.queue, to) {
        Ok(()) => router.note(false, what),
        Err(e) => router.note(true, format!("{what}: {e}")),
    }
}

fn part(n: u64, of: u64) -> Option<f64> {
    (of != 0).then(|| n as f64 / of as f64)
}

/// What every worker does with its time; of one that was not looked at yet nothing is known.
pub fn workers(router: &Router) -> Vec<WorkerLoad> {
    let hz = graph::clock::tsc_hz() as f64;
    let Some(state) = router.state::<State>() else { return vec![] };
    let new = Series::default();
    let load = |worker: usize| {
        let series = state.workers.get(worker).unwrap_or(&new);
        let over = SPANS.map(|span| series.over(Duration::from_secs(span.into())));
        let share = |field: usize, second: f64| {
            over.map(|o| o.map(|(time, sums)| (sums[field] as f64 / second / time).min(1.0)))
        };
        let mut w = WorkerLoad { worker, busy: share(0, hz), ..WorkerLoad::default() };
        if series.last().is_some_and(|sums| sums[1] != 0) {
            w.processor = share(1, 1e9);
            w.waiting = share(2, 1e9)[0];
        }
        if let Some((time, [_, _, _, packets, vectors, full, sleeps, wakes])) = over[0] {
            (w.packets, w.sleeps, w.wakes) =
                (packets as f64 / time, sleeps as f64 / time, wakes as f64 / time);
            (w.vector, w.full) = (part(packets, vectors), part(full, vectors));
        }
        w
    };
    (0..router.config().workers).map(load).collect()
}

/// How every receive queue is used.
pub fn queues(router: &Router) -> Vec<QueueLoad> {
    let Some(state) = router.state::<State>() else { return vec![] };
    let all = router.rx_placement();
    let mut drops = BTreeMap::new();
    for index in all.iter().map(|p| p.interface).collect::<BTreeSet<_>>() {
        let of = router.interface(index).and_then(|i| i.device()).map(|d| d.queue_drops());
        let of = of.unwrap_or_default().into_iter().enumerate();
        drops.extend(of.map(|(queue, drops)| ((index, queue), drops)));
    }
    let load = |p: Placement| {
        let now = queue_sums(router, p.input);
        let known = state.queues.get(&p.input).filter(|q| (q.interface, q.queue) == (p.interface, p.queue));
        let start = known.map_or(now, |q| q.start);
        let (interface, queue) = (p.interface, p.queue);
        let mut q = QueueLoad {
            placement: p,
            packets: now[0].saturating_sub(start[0]),
            bytes: now[1].saturating_sub(start[1]),
            rate: 0.0,
            vector: None,
            full: None,
            drops: drops.remove(&(interface, queue)),
        };
        if let Some((time, [packets, _, vectors, full])) =
            known.and_then(|q| q.series.over(Duration::from_secs(1)))
        {
            q.rate = packets as f64 / time;
            (q.vector, q.full) = (part(packets, vectors), part(full, vectors));
        }
        q
    };
    all.into_iter().map(load).collect()
}

/// Full vectors have so many packets.
pub const FULL: usize = VECTOR_SIZE;

impl Part for Load {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::RouterConfig;
    use graph::{PoolConfig, PoolMemory};

    #[test]
    fn workers_are_there_before_the_first_look() {
        let pool = PoolConfig { buffers: 1024, memory: PoolMemory::Normal };
        let mut r = Router::new(RouterConfig { pool, workers: 2, ..RouterConfig::default() }).unwrap();
        let named =
            |r: &Router| workers(r).iter().map(|w| (w.worker, w.busy[0].is_some())).collect::<Vec<_>>();
        assert_eq!(named(&r), [(0, false), (1, false)]);
        let start = Instant::now();
        sample(&mut r, start);
        sample(&mut r, start + Duration::from_secs(1));
        assert_eq!(named(&r), [(0, true), (1, true)]);
    }
}
