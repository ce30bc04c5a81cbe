//! The free buffers that all workers share: by the batch where they go from one worker to another, else one by one.

use super::BATCH;
use crossbeam_queue::ArrayQueue;

/// Batches that are passed on as such. Few: what one worker frees, another receives into while it is in a cache.
const WARM: usize = 8;

type Batch = Box<[u32; BATCH]>;

pub(super) struct SharedFree {
    /// Freed last.
    warm: ArrayQueue<Batch>,
    /// Room for batches.
    blank: ArrayQueue<Batch>,
    /// The others.
    others: ArrayQueue<u32>,
}

impl SharedFree {
    /// All of `count` buffers.
    pub fn new(count: usize) -> Self {
        let (warm, blank) = (ArrayQueue::new(WARM), ArrayQueue::new(WARM));
        let others = ArrayQueue::new(count);
        for _ in 0..WARM {
            let _ = blank.push(Box::new([0; BATCH]));
        }
        for i in 0..count as u32 {
            let _ = others.push(i);
        }
        SharedFree { warm, blank, others }
    }

    pub fn len(&self) -> usize {
        self.warm.len() * BATCH + self.others.len()
    }

    pub fn push(&self, buf: u32) {
        let _ = self.others.push(buf);
    }

    /// Takes a batch of buffers.
    pub fn push_batch(&self, batch: &[u32; BATCH]) {
        match self.blank.pop() {
            Some(mut room) => {
                *room = *batch;
                // There are as many places as there is room for batches.
                if let Err(room) = self.warm.push(room) {
                    room.iter().for_each(|b| self.push(*b));
                    let _ = self.blank.push(room);
                }
            }
            None => batch.iter().for_each(|b| self.push(*b)),
        }
    }

    pub fn pop(&self) -> Option<u32> {
        if let Some(buf) = self.others.pop() {
            return Some(buf);
        }
        let batch = self.warm.pop()?;
        let [first, rest @ ..] = &*batch;
        rest.iter().for_each(|b| self.push(*b));
        let first = *first;
        let _ = self.blank.push(batch);
        Some(first)
    }

    /// Appends a batch of buffers to `to`, or what there is.
    pub fn pop_batch(&self, to: &mut Vec<u32>) {
        if let Some(batch) = self.warm.pop() {
            to.extend_from_slice(&*batch);
            let _ = self.blank.push(batch);
            return;
        }
        for _ in 0..BATCH {
            let Some(buf) = self.others.pop() else { break };
            to.push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_buffer_is_there_once() {
        let free = SharedFree::new(20 * BATCH);
        let mut own = vec![];
        // More batches than are passed on as such, one by one and by the batch, in all orders.
        for round in 0..40 {
            while own.len() < 12 * BATCH {
                free.pop_batch(&mut own);
            }
            while own.len() >= (1 + round % 3) * BATCH
                && let Some(last) = own.last_chunk()
            {
                free.push_batch(last);
                own.truncate(own.len() - BATCH);
            }
            own.extend((0..round * 7 % 300).filter_map(|_| free.pop()));
            own.drain(..round.min(own.len())).for_each(|b| free.push(b));
            assert_eq!(free.len() + own.len(), 20 * BATCH);
        }
        while let Some(buf) = free.pop() {
            own.push(buf);
        }
        own.sort_unstable();
        assert_eq!(own, (0..20 * BATCH as u32).collect::<Vec<_>>());
        assert_eq!((free.len(), free.blank.len()), (0, WARM));
    }

    #[test]
    #[cfg(not(miri))]
    fn several_workers_lose_none() {
        let free = SharedFree::new(16 * BATCH);
        std::thread::scope(|s| {
            for n in 0..3 {
                let free = &free;
                s.spawn(move || {
                    let mut own = vec![];
                    for round in 0..20_000 {
                        free.pop_batch(&mut own);
                        own.extend(free.pop());
                        if round % 3 == n
                            && let Some((_, batch)) = own.split_last_chunk::<BATCH>()
                        {
                            free.push_batch(batch);
                            own.truncate(own.len() - BATCH);
                        }
                        if own.len() > 2 * BATCH {
                            own.drain(..).for_each(|b| free.push(b));
                        }
                    }
                    own.drain(..).for_each(|b| free.push(b));
                });
            }
        });
        let mut all: Vec<u32> = std::iter::from_fn(|| free.pop()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..16 * BATCH as u32).collect::<Vec<_>>());
    }
}
