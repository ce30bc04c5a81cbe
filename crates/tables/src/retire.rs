//! Things taken out of a table, waiting until no reader can still see them.

use std::collections::VecDeque;

/// A queue of retired items, each stamped with the epoch in which it was taken out.
#[derive(Debug)]
pub(crate) struct Retired<T> {
    epoch: u64,
    queue: VecDeque<(u64, T)>,
}

impl<T> Retired<T> {
    pub(crate) fn new() -> Self {
        Retired { epoch: 0, queue: VecDeque::new() }
    }

    /// Stamp for whatever is retired from now on. Epochs only grow; an older one is ignored.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    pub(crate) fn push(&mut self, item: T) {
        self.queue.push_back((self.epoch, item));
    }

    /// Takes the oldest item stamped before `safe`.
    pub(crate) fn pop(&mut self, safe: u64) -> Option<T> {
        match self.queue.front() {
            Some((stamp, _)) if *stamp < safe => self.queue.pop_front().map(|(_, item)| item),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// All items, whatever their stamp.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.queue.drain(..).map(|(_, item)| item)
    }
}
