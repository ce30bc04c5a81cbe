//! How many receive queues a device has, changed while packets flow.
//!
//! Other queues take the place of those that there are, or come beside them and go, as the device can. It takes steps aside, where it may
//! wait for Linux; between them workers get queues or give them back. What is wanted may change meanwhile: then it begins anew behind that.

use super::aside::Asks;
use super::op::Undo;
use super::placement::Input;
use super::tell::Todo;
use super::{HostConfig, IfState, Op, OpError, Router};
use drivers::host::MAX_QUEUES;

/// A change of a device's queues that is under way.
#[derive(Default)]
pub(super) struct Resizing {
    /// Queues that workers have beside those of the interface: those that are to take their place, or were there before.
    pub others: Vec<Input>,
    /// How many of the interface's stay, and how many there were.
    staying: usize,
    before: usize,
    /// Why those before are opened again.
    refused: Option<OpError>,
    /// The transactions that wait for it.
    pub waits: Vec<Option<u64>>,
}

impl IfState {
    /// How many receive queues are wanted of it, where their number may be changed.
    pub(super) fn queues_wanted(&self) -> Option<usize> {
        match &self.origin {
            Op::CreateHost { config, .. } if config.is_resized() => Some(config.rx_queues),
            _ => None,
        }
    }

    fn want_queues(&mut self, queues: usize) {
        if let Op::CreateHost { config, .. } = &mut self.origin {
            config.rx_queues = queues;
        }
    }
}

impl Router {
    /// Has the device of an interface get so many receive queues, and none of its packets lost or overtaken.
    pub(super) fn set_rx_queues(&mut self, name: String, queues: usize) -> Result<Undo, OpError> {
        let i = self.named(&name)?;
        let refusal = |why: String| OpError::new(format!("{name}: {why}"));
        let fail = |why| Err(refusal(why));
        if !(1..=MAX_QUEUES).contains(&queues) {
            return fail(format!("{queues} receive queues: 1 to {MAX_QUEUES}"));
        }
        let Some(was) = i.queues_wanted() else {
            return fail(
                "it keeps the receive queues that it was made with; devices with AF_XDP, or AF_PACKET with a ring of version 2, change \
                 theirs"
                    .into(),
            );
        };
        if let Op::CreateHost { config, .. } = &i.origin {
            let config = HostConfig { rx_queues: queues, ..config.clone() };
            self.check_rings(&config, Some(i.index)).map_err(refusal)?;
        }
        if let Some((queue, worker)) = i.placed.range(queues..).next() {
            return fail(format!(
                "its receive queue {queue} is to be on worker {worker}: let the router choose first (set interface rx-placement {name} \
                 queue {queue} auto)"
            ));
        }
        let index = i.index;
        if let Some(i) = self.interfaces.get_mut(index) {
            i.want_queues(queues);
        }
        self.follow_queues(index)?;
        Ok(vec![Op::SetRxQueues { name, queues: was }])
    }

    /// Brings the receive queues of a device to their wanted number.
    pub(super) fn follow_queues(&mut self, index: u32) -> Result<(), OpError> {
        let aside = self.aside.is_on();
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        let (have, wanted) = (i.inputs.len(), i.queues_wanted());
        let under_way = i.remote.resizing.is_some();
        // One that is being opened, or is gone, has them when it is there.
        if have == 0 || !under_way && wanted.is_none_or(|wanted| wanted == have) {
            return Ok(());
        }
        let resizing = i.remote.resizing.get_or_insert_default();
        if aside {
            resizing.waits.push(self.aside.hold());
            if !under_way {
                self.send_todo(index, Todo::OpenQueues(wanted.unwrap_or(have)));
            }
            return Ok(());
        }
        let mut next = wanted.map(Todo::OpenQueues);
        let mut refused = None;
        while let Some(todo) = next.take() {
            let device = self.interfaces.get_mut(index).and_then(IfState::device_mut);
            let Some((_, result, _)) = device.map(|d| todo.clone().run(&mut **d)) else { break };
            let name = self.interface_name(index);
            let result = result.map_err(|e| OpError::new(todo.refusal(&name, &e).0));
            match result.and_then(|()| self.did_with_queues(index, &todo)) {
                Ok(then) => next = then,
                Err(e) if matches!(todo, Todo::CloseQueues(_)) && refused.is_none() => {
                    (refused, next) = (Some(e), Some(Todo::OpenQueues(have)));
                }
                Err(e) => {
                    self.leave_queues(index);
                    if let Some(d) = self.interfaces.get_mut(index).and_then(IfState::device_mut) {
                        // It never fails.
                        let _ = Todo::CloseQueues(0).run(&mut **d);
                    }
                    if let Some(i) = self.interfaces.get_mut(index) {
                        i.remote.resizing = None;
                        i.want_queues(have);
                    }
                    return Err(e);
                }
            }
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            i.remote.resizing = None;
            if refused.is_some() {
                i.want_queues(have);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// A device has done what it was told of its queues; what it is told next.
    fn did_with_queues(&mut self, index: u32, todo: &Todo) -> Result<Option<Todo>, OpError> {
        match *todo {
            Todo::OpenQueues(queues) => {
                let Some(i) = self.interfaces.get_mut(index) else { return Ok(None) };
                let before = i.inputs.len();
                let Some(d) = i.device_mut() else { return Ok(None) };
                let opened = d.opened();
                let staying = d.resize().map_or(0, |q| q.staying(queues));
                if let Some(r) = &mut i.remote.resizing {
                    (r.staying, r.before) = (staying, before);
                }
                let workers = self.workers_for(index, queues).into_iter().skip(staying);
                for (queue, worker) in opened.into_iter().zip(workers) {
                    let input = self.give_queue(index, queue, worker)?;
                    let i = self.interfaces.get_mut(index);
                    i.and_then(|i| i.remote.resizing.as_mut()).into_iter().for_each(|r| r.others.push(input));
                }
                self.renew_transmit_queues(index)?;
                Ok(Some(Todo::TurnQueues(queues)))
            }
            Todo::TurnQueues(queues) => {
                // What workers have of the queues before goes first, wherever it was handed to.
                self.wait_for_handoffs();
                let Some(i) = self.interfaces.get_mut(index) else { return Ok(None) };
                if let Some(r) = &mut i.remote.resizing {
                    let gone = i.inputs.split_off(r.staying.min(i.inputs.len()));
                    i.inputs.append(&mut r.others);
                    r.others = gone;
                }
                if let Some(q) = i.device_mut().and_then(|d| d.resize()) {
                    q.settled();
                }
                self.renew_transmit_queues(index)?;
                self.leave_queues(index);
                Ok(Some(Todo::CloseQueues(queues)))
            }
            _ => Ok(None),
        }
    }

    /// Workers that are to send to a device by another queue than before get that.
    fn renew_transmit_queues(&mut self, index: u32) -> Result<(), OpError> {
        let mut gone = vec![];
        for worker in 0..self.workers.handles.len() {
            if !self.workers.leaves_transmit_queue(worker, index) {
                continue;
            }
            let Some(i) = self.interfaces.get_mut(index) else { break };
            let name = i.name.clone();
            let queue = i.device_mut().map_or(Ok(None), |d| d.transmit_queue());
            if let Some(queue) = queue.map_err(|e| OpError::new(format!("{name}: {e}")))? {
                gone.extend(self.workers.renew_transmit_queue(worker, index, queue));
            }
        }
        if !gone.is_empty() {
            self.ask(Asks::Linux, move || drop(gone), |_, _| Ok(()));
        }
        Ok(())
    }

    /// Workers give back the queues that are not the interface's, and these are closed.
    fn leave_queues(&mut self, index: u32) {
        let i = self.interfaces.get_mut(index);
        let Some(r) = i.and_then(|i| i.remote.resizing.as_mut()) else { return };
        let gone: Vec<Input> = std::mem::take(&mut r.others);
        let queues: Vec<_> = gone.into_iter().map(|input| self.workers.remove_input(input.id)).collect();
        self.ask(Asks::Linux, move || drop(queues), |_, _| Ok(()));
    }

    /// A device has taken a step, or could not.
    pub(super) fn queues_answered(&mut self, index: u32, todo: &Todo, result: Result<(), OpError>) {
        if matches!(todo, Todo::CloseQueues(0)) {
            // Behind a failure: nobody waits.
            return;
        }
        if let (Err(e), Todo::CloseQueues(_)) = (&result, todo) {
            // The device does not do without those that went: it has them again before that is told.
            let i = self.interfaces.get_mut(index);
            let again = i.and_then(|i| {
                let r = i.remote.resizing.as_mut().filter(|r| r.refused.is_none())?;
                r.refused = Some(e.clone());
                let before = r.before;
                i.want_queues(before);
                Some(before)
            });
            if let Some(before) = again {
                return self.send_todo(index, Todo::OpenQueues(before));
            }
        }
        let done = match result {
            Ok(()) => self.did_with_queues(index, todo),
            Err(e) => Err(e),
        };
        if let Ok(Some(next)) = done {
            return self.send_todo(index, next);
        }
        if done.is_err() {
            self.leave_queues(index);
        }
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let (have, wanted) = (i.inputs.len(), i.queues_wanted());
        if let (Ok(_), Some(wanted)) = (&done, wanted.filter(|wanted| *wanted != have)) {
            // It was set again meanwhile.
            return self.send_todo(index, Todo::OpenQueues(wanted));
        }
        let (waits, refused) = i.remote.resizing.take().map(|r| (r.waits, r.refused)).unwrap_or_default();
        let failed = done.as_ref().err().cloned();
        if failed.is_some() {
            self.send_todo(index, Todo::CloseQueues(0));
        }
        let outcome = refused.map_or(done.map(|_| ()), Err);
        waits.into_iter().for_each(|commit| self.answered(commit, outcome.clone()));
        // Where nobody has undone it: there are as many as there were.
        let i = self.interfaces.get_mut(index).filter(|i| failed.is_some() && i.remote.resizing.is_none());
        i.into_iter().for_each(|i| i.want_queues(have));
    }
}
