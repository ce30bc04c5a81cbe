//! How many workers there are, and on which CPUs, changed while packets flow.
//!
//! A worker that is not wanted any more gives its receive queues to others, finishes what it holds and sleeps. It keeps its graph and
//! its transmit queues, and mail reaches it: it is as the others when it is wanted again.

use super::placement::Placement;
use super::{IfState, OpError, Router, StartError};
use graph::MAX_WORKERS;
use std::collections::BTreeMap;

/// Fewest buffers for each worker: half of them may lie in its own free list, where no other worker finds them, and a vector or two
/// is under way.
pub const BUFFERS_A_WORKER: u32 = 1024;
const _: () = assert!(2 * graph::buffer::HOARD <= BUFFERS_A_WORKER as usize);

/// Whether there can be so many workers, on these CPUs where some are named.
pub(super) fn check(workers: usize, cpus: &[usize]) -> Result<(), String> {
    if !(1..=MAX_WORKERS).contains(&workers) {
        return Err(format!("{workers} workers: there must be 1 to {MAX_WORKERS}"));
    }
    if !cpus.is_empty() && cpus.len() != workers {
        return Err(format!("{} CPUs for {workers} workers: name one for each, or none", cpus.len()));
    }
    match cpus.iter().enumerate().find(|(n, cpu)| cpus[..*n].contains(cpu)) {
        Some((_, cpu)) => Err(format!("CPU {cpu} is named twice: a worker has one of its own")),
        None => Ok(()),
    }
}

/// The queue to move where one worker has more than another by two, of the `all` of each: whose it is, its place there, and where to.
fn uneven(all: &[Vec<Placement>], near: &BTreeMap<u32, Vec<usize>>) -> Option<(usize, usize, usize)> {
    let mut workers: Vec<usize> = (0..all.len()).collect();
    workers.sort_by_key(|w| all[*w].len());
    let may = |p: &Placement, to: usize| !p.chosen && near.get(&p.interface).is_none_or(|n| n.contains(&to));
    let pairs = workers.iter().flat_map(|to| workers.iter().rev().map(move |from| (*from, *to)));
    let mut pairs = pairs.filter(|(from, to)| all[*from].len() > all[*to].len() + 1);
    pairs.find_map(|(from, to)| Some((from, all[from].iter().rposition(|p| may(p, to))?, to)))
}

impl Router {
    /// Starts the threads that are missing for `workers` workers. They have no receive queues yet.
    pub(super) fn start_workers(&mut self, workers: usize) -> Result<(), StartError> {
        let system = |what| move |err| StartError::System { what, err };
        self.plane.grow(workers).map_err(system("the counters of workers"))?;
        self.interfaces.iter().for_each(|i| self.plane.counters.drops.reserve(i.index));
        for w in self.workers.handles.len()..workers {
            let (mut dispatcher, graph) = (self.workers.build)(&self.plane, &self.pool, w)?;
            dispatcher.report_panics(self.workers.report.clone());
            let cpu = self.config.cpus.get(w).copied();
            let config = graph::WorkerConfig { cpu, spin: self.config.spin, polling: Default::default() };
            let handle = graph::Worker::spawn(
                dispatcher,
                self.grace.domain.reader(w),
                config,
                &self.plane.handoff,
                &self.plane.counters.received.rx,
                crate::arcs::DEVICE_INPUT.name,
            )
            .map_err(system("a worker"))?;
            self.workers.push(handle, graph);
            self.trace_new_worker(w);
        }
        self.plane.registry.publish().map_err(system("the counters"))
    }

    /// Whether there is such a worker.
    ///
    /// # Errors
    /// Which ones there are, in words.
    pub(crate) fn check_worker(&self, worker: usize) -> Result<(), String> {
        match self.config.workers {
            count if worker < count => Ok(()),
            1 => Err(format!("there is no worker {worker}, only worker 0")),
            count => Err(format!("there is no worker {worker}, workers 0 to {}", count - 1)),
        }
    }

    /// Whether so many workers could share the work, each on its CPU.
    pub(crate) fn check_workers(&self, workers: usize, cpus: &[usize]) -> Result<(), OpError> {
        check(workers, cpus).map_err(OpError::new)?;
        for cpu in cpus {
            graph::worker::may_run(Some(*cpu)).map_err(|e| OpError::new(e.to_string()))?;
        }
        let least = workers * BUFFERS_A_WORKER as usize;
        if workers > self.config.workers && self.pool.count() < least {
            return Err(OpError::new(format!(
                "{} buffers are too few for {workers} workers: {least} are needed, quiver.buffers.count sets how many there are \
                 from the next start on",
                self.pool.count()
            )));
        }
        if let Some(why) = self.parts.all.iter().find_map(|p| p.needs_workers(self, workers)) {
            return Err(OpError::new(why));
        }
        // Those of a device that is gone as well: they hold when it is back.
        let placed = |i: &IfState| i.placed.iter().find(|(_, w)| **w >= workers).map(|(q, w)| (*q, *w));
        match self.interfaces().find_map(|i| Some((&i.name, placed(i)?))) {
            Some((name, (queue, worker))) => Err(OpError::new(format!(
                "{name} has its receive queue {queue} on worker {worker}: give it to another first (set interface rx-placement \
                 {name} queue {queue} worker N, or auto)"
            ))),
            None => Ok(()),
        }
    }

    /// Has so many workers share the work from now on, each on its CPU of the list where it is not empty. No packet is lost, and
    /// none of a flow overtakes another.
    ///
    /// # Errors
    /// There cannot be so many, a queue that the operator has given to a worker would be without it, or the system refuses what
    /// another worker needs, or a worker does not take a queue: all is as it was then.
    pub(crate) fn set_workers(&mut self, workers: usize, cpus: Vec<usize>) -> Result<(), OpError> {
        self.check_workers(workers, &cpus)?;
        let was = (self.config.workers, std::mem::replace(&mut self.config.cpus, cpus));
        while self.ready_workers(workers).inspect_err(|_| self.config.cpus.clone_from(&was.1))? {}
        self.config.workers = workers;
        if let Err(e) = self.spread_inputs() {
            (self.config.workers, self.config.cpus) = was;
            return Err(e);
        }
        // Who takes work by a packet's flow sees it here; what is on its way to others still comes there.
        self.plane.handoff.share(workers);
        for w in 0..workers {
            let cpu = self.config.cpus.get(w).copied();
            self.workers.on(w, move |w| w.set_cpu(cpu));
        }
        self.tell_parts(|part, router| part.workers_changed(router));
        Ok(())
    }

    /// Makes ready another of so many workers, which takes some milliseconds: its thread, and its transmit queues. False when all
    /// are.
    ///
    /// # Errors
    /// The system refuses what it needs.
    pub(crate) fn ready_workers(&mut self, workers: usize) -> Result<bool, OpError> {
        let numbers = |r: &Router| r.interfaces().filter(|i| i.has_device()).map(|i| i.index).collect();
        for w in self.config.workers..workers {
            let new = w == self.workers.handles.len();
            if new {
                self.start_workers(w + 1).map_err(|e| OpError::new(e.to_string()))?;
            }
            let missing = self.workers.without_transmit_queue(w, numbers(self));
            let mut given = 0;
            for index in missing {
                let name = self.interface_name(index);
                let device = self.interfaces.get_mut(index).and_then(IfState::device_mut);
                let queue = device.map_or(Ok(None), |d| d.transmit_queue());
                if let Some(queue) = queue.map_err(|e| OpError::new(format!("{name}: {e}")))? {
                    self.workers.set_transmit_queue(w, index, queue);
                    given += 1;
                }
            }
            if new || given != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives all receive queues of workers that are not there any more to others, and shares those out evenly that nobody has
    /// placed.
    fn spread_inputs(&mut self) -> Result<(), OpError> {
        let workers = self.config.workers;
        // All that is polled has a place: inputs that are none of a device's as well.
        let homeless = self.workers.inputs_from(workers);
        let mut to: BTreeMap<u64, usize> =
            homeless.into_iter().enumerate().map(|(n, input)| (input, n % workers)).collect();
        let mut all = vec![vec![]; workers];
        let (placed, mut near) = (self.rx_placement(), BTreeMap::new());
        for (n, p) in placed.into_iter().enumerate() {
            let may: &Vec<usize> = near.entry(p.interface).or_insert_with(|| self.workers_near(p.interface));
            let mut worker = to.get(&p.input).copied().unwrap_or(p.worker);
            if !p.chosen && !may.contains(&worker) {
                worker = may[n % may.len()];
                to.insert(p.input, worker);
            }
            all[worker].push(p);
        }
        while let Some((from, place, idle)) = uneven(&all, &near) {
            let moved = all[from].remove(place);
            to.insert(moved.input, idle);
            all[idle].push(moved);
        }
        let moves: Vec<(u64, usize)> = to.into_iter().collect();
        self.workers.move_inputs(&self.plane.handoff, &moves).map_err(OpError::new)
    }
}
