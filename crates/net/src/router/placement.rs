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
    /// The worker with the fewest receive queues of devices, `but` for one queue of an interface: it is to be placed.
    fn idle_worker(&self, but: Option<(u32, usize)>) -> usize {
        let mut queues = vec![0usize; self.config.workers];
        for p in self.rx_placement().iter().filter(|p| Some((p.interface, p.queue)) != but) {
            if let Some(n) = queues.get_mut(p.worker) {
                *n += 1;
            }
        }
        queues.iter().enumerate().min_by_key(|(_, n)| **n).map_or(0, |(w, _)| w)
    }

    /// Gives the next receive queue of an interface to a worker.
    pub(super) fn place_queue(&mut self, index: u32, queue: Box<dyn RxQueue>) -> Result<(), OpError> {
        let Some(i) = self.interfaces.get(index) else { return Err(OpError::new("no such interface")) };
        let chosen = i.placed.get(&i.inputs.len()).copied();
        let worker = chosen.unwrap_or_else(|| self.idle_worker(None)).min(self.config.workers - 1);
        let (node, features) = (queue.input_node(), Arc::clone(&i.rx_features));
        let id = self.workers.add_input(worker, queue, features).map_err(OpError::new)?;
        if let Some(i) = self.interfaces.get_mut(index) {
            i.inputs.push(Input { id, node });
        }
        Ok(())
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
        let queues = if i.inputs.is_empty() { i.origin.rx_queues() } else { i.inputs.len() };
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
        let to = worker.unwrap_or_else(|| self.idle_worker(Some((index, queue))));
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
