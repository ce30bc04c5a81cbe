//! Packets from one worker to another: a bounded lock-free queue for each worker.
//!
//! A node that needs all packets of one kind on one worker (fragments of a datagram) sends those that came to another
//! with [`Handoff::send`]; they enter the same node of the other worker's graph. A worker that sleeps is woken by one
//! write for all packets until it looks; one that is awake finds them in its next loop.

use crate::desc::{Desc, flags};
use crate::edge::NodeId;
use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Packets that wait for one worker.
const WAITING: usize = 2048;

struct Lane {
    queue: ArrayQueue<(NodeId, Desc)>,
    wake: OwnedFd,
    asleep: AtomicBool,
}

/// The queues of all workers.
pub struct Handoff(Box<[Lane]>);

impl Handoff {
    /// Queues for `workers` workers.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(workers: usize) -> io::Result<Handoff> {
        let lane = |_| {
            Ok(Lane {
                queue: ArrayQueue::new(WAITING),
                wake: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
                asleep: AtomicBool::new(false),
            })
        };
        Ok(Handoff((0..workers).map(lane).collect::<io::Result<_>>()?))
    }

    /// How many workers there are.
    #[inline]
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    /// Sends a packet to `node` of worker `to`; false when its queue is full, and the packet stays with the caller. Its
    /// trace ends here: numbers in the trace are each worker's own.
    #[must_use]
    pub fn send(&self, to: usize, node: NodeId, mut d: Desc) -> bool {
        let Some(lane) = self.0.get(to) else { return false };
        d.flags &= !flags::TRACED;
        if lane.queue.push((node, d)).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        if lane.asleep.load(Ordering::SeqCst) && lane.asleep.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::write(&lane.wake, &1u64.to_ne_bytes());
        }
        true
    }

    /// The next packet for worker `worker`.
    #[inline]
    pub fn take(&self, worker: usize) -> Option<(NodeId, Desc)> {
        self.0.get(worker)?.queue.pop()
    }

    /// Worker: true when it may sleep; senders wake it from now on until [`Handoff::awake`].
    pub(crate) fn may_sleep(&self, worker: usize) -> bool {
        let Some(lane) = self.0.get(worker) else { return true };
        lane.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        lane.queue.is_empty()
    }

    /// Worker: it is awake again.
    pub(crate) fn awake(&self, worker: usize) {
        if let Some(lane) = self.0.get(worker) {
            lane.asleep.store(false, Ordering::SeqCst);
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&lane.wake, &mut count);
        }
    }

    /// Readable when a packet came for a worker that slept.
    pub(crate) fn fd(&self, worker: usize) -> Option<BorrowedFd<'_>> {
        self.0.get(worker).map(|l| l.wake.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_arrive_in_order_and_are_bounded() {
        let h = Handoff::new(2).unwrap();
        let d = |buf| Desc { buf, flags: flags::TRACED | flags::LOCAL, ..Desc::default() };
        for n in 0..WAITING as u32 {
            assert!(h.send(1, NodeId(7), d(n)));
        }
        assert!(!h.send(1, NodeId(7), d(0)), "full");
        assert!(!h.send(2, NodeId(7), d(0)), "no such worker");
        assert!(h.send(0, NodeId(3), d(9)), "another worker's");
        for n in 0..WAITING as u32 {
            let (node, got) = h.take(1).unwrap();
            assert_eq!((node, got.buf, got.flags), (NodeId(7), n, flags::LOCAL));
        }
        assert!(h.take(1).is_none());
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let h = Handoff::new(1).unwrap();
        assert!(h.may_sleep(0));
        for _ in 0..3 {
            assert!(h.send(0, NodeId(1), Desc::default()));
        }
        let mut count = [0u8; 8];
        rustix::io::read(h.fd(0).unwrap(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
        h.awake(0);
        assert!(!h.may_sleep(0), "packets wait");
    }
}
