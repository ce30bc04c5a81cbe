//! Which worker polls which receive queue: spread out by the router, or as the operator chose.

use super::op::Undo;
use super::{Kind, Op, OpError, Router};
use graph::{Polling, RxQueue};
use std::sync::Arc;

/// A receive queue of an interface, by its number the place in the interface's list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    /// Its number among the inputs of all workers.
    pub id: u64,
    /// The graph's node that its packets come out of.
    pub node: &'static str,
}

/// A receive queue as `show interface rx-placement` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Interface.
    pub interface: u32,
    /// Number of the queue, from 0.
    pub queue: usize,
    /// Number of the worker that polls it, from 0.
    pub worker: usize,
    /// By this it is counted (`rx-queue/...`).
    pub input: u64,
    /// The node that its packets come out of.
    pub node: &'static str,
    /// The operator chose the worker.
    pub chosen: bool,
    /// How that waits for packets.
    pub polling: Polling,
}

impl Router {
    /// The NUMA node of a worker's CPU.
    pub fn numa_of_worker(&self, worker: usize) -> Option<u32> {
        self.config.numa.of_cpu(*self.config.cpus.get(worker)?)
    }

    /// The workers that may be given receive queues of an interface: those on the NUMA node of its device, if there are any there, else
    /// all.
    pub(crate) fn workers_near(&self, index: u32) -> Vec<usize> {
        let node = self.interface(index).and_then(|i| i.device()?.numa_node());
        let near = |w: &usize| node.is_some() && self.numa_of_worker(*w) == node;
        let all = 0..self.config.workers;
        if all.clone().any(|w| near(&w)) { all.filter(near).collect() } else { all.collect() }
    }

    /// How many receive queues of devices each worker has, of those that count.
    fn queues_of_workers(&self, counts: impl Fn(&Placement) -> bool) -> Vec<usize> {
        let mut queues = vec![0; self.config.workers];
        for p in self.rx_placement().iter().filter(|p| counts(p)) {
            if let Some(n) = queues.get_mut(p.worker) {
                *n += 1;
            }
        }
        queues
    }

    /// The worker with the fewest receive queues of devices, of those that may have these of the interface; `but` for one queue of it:
    /// it is to be placed.
    fn idle_worker(&self, index: u32, but: Option<usize>) -> usize {
        let queues = self.queues_of_workers(|p| p.interface != index || Some(p.queue) != but);
        self.workers_near(index).into_iter().min_by_key(|w| queues[*w]).unwrap_or(0)
    }

    /// Gives the next receive queue of an interface to a worker.
    pub(super) fn place_queue(&mut self, index: u32, queue: Box<dyn RxQueue>) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get(index) else { return Err(OpError::new("no such interface")) };
        let chosen = i.placed.get(&i.inputs.len()).copied();
        let worker = chosen.unwrap_or_else(|| self.idle_worker(index, None));
        let input = self.give_queue(index, queue, worker)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            i.inputs.push(input);
        }
        Ok(())
    }

    /// Gives a receive queue of an interface to a worker.
    pub(super) fn give_queue(
        &mut self,
        index: u32,
        queue: Box<dyn RxQueue>,
        worker: usize,
    ) -> Result<Input, OpError> {
        let worker = worker.min(self.config.workers - 1);
        let features = self.interface(index).map(|i| Arc::clone(&i.rx_features)).unwrap_or_default();
        let node = queue.input_node();
        let id = self.workers.add_input(worker, queue, features).map_err(OpError::new)?;
        Ok(Input { id, node })
    }

    /// The workers for queues that take the place of those of an interface: by number the same, and for more the ones with the fewest.
    pub(super) fn workers_for(&self, index: u32, queues: usize) -> Vec<usize> {
        let Some(i) = self.interface(index) else { return vec![] };
        let mut load = self.queues_of_workers(|p| p.interface != index || p.queue < queues);
        let near = self.workers_near(index);
        let one = |queue: usize| {
            let same = i.inputs.get(queue).map(|input| self.workers.polls(input.id));
            i.placed.get(&queue).copied().or(same).unwrap_or_else(|| {
                let idle = near.iter().copied().min_by_key(|w| load[*w]).unwrap_or(0);
                load[idle] += 1;
                idle
            })
        };
        (0..queues).map(one).collect()
    }

    /// All receive queues of devices, by interface and number.
    pub fn rx_placement(&self) -> Vec<Placement> {
        let of = |i: &super::IfState| {
            let one = |(queue, input): (usize, &Input)| {
                let worker = self.workers.polls(input.id);
                let polling = self.polling.get(&worker).copied().unwrap_or_default();
                let (interface, chosen) = (i.index, i.placed.contains_key(&queue));
                Placement { interface, queue, worker, input: input.id, node: input.node, chosen, polling }
            };
            i.inputs.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        self.interfaces().flat_map(of).collect()
    }

    /// Has a worker wait for packets in this way.
    pub(crate) fn set_polling(&mut self, worker: usize, polling: Polling) {
        self.polling.insert(worker, polling);
        self.workers.on(worker, move |w| w.set_polling(polling));
    }

    /// Has `worker` poll a receive queue from now on, or the router choose. Packets wait in the queue meanwhile: none is lost.
    pub(super) fn set_placement(
        &mut self,
        name: String,
        queue: usize,
        worker: Option<usize>,
    ) -> Result<Undo, OpError> {
        let i = self.named(&name)?;
        if let Some(w) = worker {
            self.check_worker(w).map_err(|why| OpError::new(format!("{name}: {why}")))?;
        }
        // One whose device is gone has its queues again once that is back.
        let has = if i.inputs.is_empty() { i.origin.rx_queues() } else { i.inputs.len() };
        let queues = i.queues_wanted().unwrap_or(has);
        if queue >= queues {
            let has = match queues {
                0 if i.inputs.is_empty() && matches!(i.kind, Kind::Virtual(_)) => {
                    "none now; a memif or vhost-user interface has as many as the other side gives it, while that is there".into()
                }
                0 => "no receive queues".into(),
                1 => "only queue 0".into(),
                n => format!("queues 0 to {}", n - 1),
            };
            return Err(OpError::new(format!("{name}: there is no receive queue {queue}: it has {has}")));
        }
        let (index, was) = (i.index, i.placed.get(&queue).copied());
        let to = worker.unwrap_or_else(|| self.idle_worker(index, Some(queue)));
        self.move_queue(index, queue, to)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            match worker {
                Some(w) => _ = i.placed.insert(queue, w),
                None => _ = i.placed.remove(&queue),
            }
        }
        Ok(vec![Op::SetPlacement { name, queue, worker: was }])
    }

    /// Has another worker poll a receive queue, whoever chose the one that does.
    ///
    /// # Errors
    /// That worker does not take it: the one that had it has it.
    pub(crate) fn move_queue(&mut self, index: u32, queue: usize, to: usize) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get(index) else { return Ok(()) };
        let Some(input) = i.inputs.get(queue) else { return Ok(()) };
        self.workers.move_inputs(&self.plane.handoff, &[(input.id, to)]).map_err(OpError::new)
    }
}

impl Op {
    /// Receive queues of the device that it makes.
    fn rx_queues(&self) -> usize {
        match self {
            Op::CreateHost { config, .. } => config.rx_queues,
            Op::CreateTap { config, .. } => config.rx_queues,
            Op::Part(op) => op.rx_queues(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Device, DeviceControl, RouterConfig};
    use graph::io::Ready;
    use graph::{Buffers, PoolConfig, PoolMemory, TxCaps, Vector};
    use packet::MacAddr;

    /// A queue to which nothing comes.
    struct Silent;

    impl RxQueue for Silent {
        fn interface(&self) -> u32 {
            0
        }

        fn input_node(&self) -> &'static str {
            "af-packet-input"
        }

        fn poll(&mut self, _: &mut Buffers, _: u64, _: &mut Vector) -> usize {
            0
        }

        fn ready(&self) -> Ready {
            Ready::Never
        }
    }

    struct On(Option<u32>);

    impl DeviceControl for On {
        fn link(&self) -> bool {
            true
        }

        fn describe(&self) -> String {
            "test".into()
        }

        fn numa_node(&self) -> Option<u32> {
            self.0
        }
    }

    fn add(r: &mut Router, name: &str, node: Option<u32>, queues: usize) {
        let rx = (0..queues).map(|_| Box::new(Silent) as Box<dyn RxQueue>).collect();
        let (caps, mac) = (TxCaps::default(), MacAddr([2, 0, 0, 0, 0, 1]));
        let control = Box::new(On(node));
        r.add_device(name, |_, _| Ok(Device { rx, tx: vec![], caps, mac, mtu: 1500, link: true, control }))
            .unwrap();
    }

    /// How many queues of an interface each worker has.
    fn at(r: &Router, name: &str) -> [usize; 2] {
        let index = r.interface_index(name);
        let of = |w| r.rx_placement().iter().filter(|p| Some(p.interface) == index && p.worker == w).count();
        [of(0), of(1)]
    }

    #[test]
    fn queues_go_to_workers_on_the_node_of_their_device() {
        let pool = PoolConfig { buffers: 4096, memory: PoolMemory::Normal };
        let numa = drivers::numa::Nodes::new([(0, 0), (1, 4)]);
        let config = RouterConfig { pool, workers: 2, cpus: vec![0, 1], numa, ..RouterConfig::default() };
        let mut r = Router::new(config).unwrap();
        add(&mut r, "far", Some(4), 3);
        add(&mut r, "anywhere", None, 3);
        add(&mut r, "nowhere", Some(7), 2);
        // There is no worker on node 7: as without one.
        assert_eq!((at(&r, "far"), at(&r, "anywhere"), at(&r, "nowhere")), ([0, 3], [3, 0], [1, 1]));
        // With nobody on the node the others have them, until there is somebody.
        r.set_workers(1, vec![0]).unwrap();
        assert_eq!(at(&r, "far"), [3, 0]);
        r.set_workers(2, vec![0, 1]).unwrap();
        assert_eq!((at(&r, "far"), r.numa_of_worker(1)), ([0, 3], Some(4)));
        // The operator may have it otherwise.
        r.commit(vec![Op::SetPlacement { name: "far".into(), queue: 1, worker: Some(0) }]).unwrap();
        assert_eq!(at(&r, "far"), [1, 2]);
        r.commit(vec![Op::SetPlacement { name: "far".into(), queue: 1, worker: None }]).unwrap();
        assert_eq!(at(&r, "far"), [0, 3]);
    }
}
