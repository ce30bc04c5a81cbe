//! Packets from one worker to any node of another: a bounded lock-free queue of frames for each worker.
//!
//! A node that needs packets on a certain worker (fragments of a datagram) sends those that came to another with
//! [`Env::hand_off`](crate::Env::hand_off); one that does nothing else says of each packet whose it is
//! ([`SpreadNode`](crate::SpreadNode)). They go a vector at a time, of which only the pointer moves, and enter the node that was named,
//! of the other worker's graph; packets that one worker sends to one node keep their order. Empty vectors are made at the start and
//! go the other way. A worker that sleeps is woken by one write for all packets until it looks; one that is awake finds
//! them in its next loop.

use crate::desc::{Packets, VECTOR_SIZE, Vector, flags};
use crate::edge::NodeId;
use crate::of_workers::{MAX_WORKERS, OfWorkers};
use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// From so many packets on that wait for one worker nothing more is taken for it. A vector is taken as a whole, so there may be as
/// many as that and one less than a vector.
const WAITING: usize = 2048;
/// Frames that wait for one worker.
const FRAMES: usize = 256;
/// Empty vectors that were read last: whoever fills one next finds it in a cache. What more of them there is lies aside.
const WARM: usize = 8;

struct Frame {
    node: NodeId,
    packets: Box<Vector>,
}

struct Lane {
    full: ArrayQueue<Frame>,
    /// Packets in them, and how many there are of them: taken before anything is put there.
    waiting: AtomicUsize,
    frames: AtomicUsize,
    /// Frames that were put into `full`, or are about to be, and those that came out of it.
    sent: AtomicU64,
    taken: AtomicU64,
    /// Packets for which there was no room.
    refused: AtomicU64,
    wake: OwnedFd,
    asleep: AtomicBool,
}

impl Lane {
    /// Takes a place for so many packets, if there is one.
    fn admit(&self, n: usize) -> bool {
        let few = self.waiting.fetch_add(n, Ordering::Relaxed) < WAITING;
        let fits = self.frames.fetch_add(1, Ordering::Acquire) < FRAMES;
        if !(few && fits) {
            self.leave(n);
        }
        few && fits
    }

    /// Leaves a place, behind that in the queue for which it stands.
    fn leave(&self, n: usize) {
        self.waiting.fetch_sub(n, Ordering::Relaxed);
        self.frames.fetch_sub(1, Ordering::Release);
    }

    /// Notes packets for which there is no room.
    #[cold]
    fn refuse(&self, n: usize) {
        self.refused.fetch_add(n as u64, Ordering::Relaxed);
    }

    /// Puts packets where a place was taken.
    fn put(&self, frame: Frame) {
        // Before it is there: whoever sees a number of frames taken knows of all that stood in front of them.
        self.sent.fetch_add(1, Ordering::Release);
        let full = self.full.push(frame);
        debug_assert!(full.is_ok(), "a place was taken");
    }

    /// Wakes its worker, if it sleeps.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// The queues of all workers.
pub struct Handoff {
    lanes: OfWorkers<Lane>,
    /// As many as all queues take: what waits for one worker leaves others theirs.
    empty: ArrayQueue<Box<Vector>>,
    warm: ArrayQueue<Box<Vector>>,
    /// How many workers share the work; one that had its part before still takes what comes.
    workers: AtomicUsize,
}

impl Handoff {
    /// Queues for `workers` workers.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(workers: usize) -> io::Result<Handoff> {
        let (empty, warm) = (ArrayQueue::new(MAX_WORKERS * FRAMES), ArrayQueue::new(WARM));
        let all = Handoff { lanes: OfWorkers::default(), empty, warm, workers: AtomicUsize::new(0) };
        all.grow(workers)?;
        all.share(workers);
        Ok(all)
    }

    /// Makes the queues that are missing for `workers` workers.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn grow(&self, workers: usize) -> io::Result<()> {
        self.lanes.grow(workers, |_| {
            let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
            for _ in 0..FRAMES {
                let _ = self.empty.push(Vector::boxed());
            }
            Ok(Lane {
                full: ArrayQueue::new(FRAMES),
                waiting: AtomicUsize::new(0),
                frames: AtomicUsize::new(0),
                sent: AtomicU64::new(0),
                taken: AtomicU64::new(0),
                refused: AtomicU64::new(0),
                wake,
                asleep: AtomicBool::new(false),
            })
        })
    }

    /// Says how many workers share the work from now on, from worker 0 on; there are queues for them.
    pub fn share(&self, workers: usize) {
        self.workers.store(workers, Ordering::Release);
    }

    /// How many workers share the work.
    #[inline]
    pub fn workers(&self) -> usize {
        self.workers.load(Ordering::Acquire)
    }

    /// An empty vector, to be filled and sent; none: too much waits.
    pub(crate) fn empty(&self) -> Option<Box<Vector>> {
        self.warm.pop().or_else(|| self.empty.pop())
    }

    /// Takes an empty vector back.
    fn give(&self, v: Box<Vector>) {
        if let Err(v) = self.warm.push(v) {
            let _ = self.empty.push(v);
        }
    }

    /// Sends packets to `node` of worker `to`, and answers how many: the others stay with the caller, for there is no room. Their
    /// trace ends here: numbers in the trace are each worker's own.
    pub fn send(&self, to: usize, node: NodeId, packets: &mut Packets<'_>) -> usize {
        let Some(lane) = self.lanes.get(to) else { return 0 };
        let before = packets.len();
        while !packets.is_empty() {
            let n = packets.len().min(VECTOR_SIZE);
            if !lane.admit(n) {
                break;
            }
            let Some(mut v) = self.empty() else {
                lane.leave(n);
                break;
            };
            packets.as_mut_slice().iter_mut().take(n).for_each(|d| d.flags &= !flags::TRACED);
            v.append(packets);
            lane.put(Frame { node, packets: v });
        }
        let sent = before - packets.len();
        if sent != 0 {
            lane.wake();
        }
        if !packets.is_empty() {
            lane.refuse(packets.len());
        }
        sent
    }

    /// Sends a whole vector of untraced packets to `node` of worker `to`, which is an empty one then; false: there is no room.
    pub(crate) fn pass(&self, to: usize, node: NodeId, v: &mut Box<Vector>) -> bool {
        debug_assert!(v.as_slice().iter().all(|d| !d.has(flags::TRACED)), "traces end");
        let Some(lane) = self.lanes.get(to) else { return false };
        if !lane.admit(v.len()) {
            lane.refuse(v.len());
            return false;
        }
        let Some(empty) = self.empty() else {
            lane.leave(v.len());
            lane.refuse(v.len());
            return false;
        };
        lane.put(Frame { node, packets: std::mem::replace(v, empty) });
        lane.wake();
        true
    }

    /// Hands the next packets for worker `worker` to `each`, with their node, and answers how many; 0: none wait. What `each` leaves is an
    /// empty vector.
    #[inline]
    pub fn take(&self, worker: usize, each: impl FnOnce(NodeId, &mut Box<Vector>)) -> usize {
        let Some(lane) = self.lanes.get(worker) else { return 0 };
        let Some(mut frame) = lane.full.pop() else { return 0 };
        let n = frame.packets.len();
        each(frame.node, &mut frame.packets);
        debug_assert!(frame.packets.is_empty(), "all are taken");
        self.give(frame.packets);
        lane.leave(n);
        lane.taken.fetch_add(1, Ordering::Release);
        n
    }

    /// Control side: a mark behind all that has been sent to a worker by now.
    pub fn mark(&self, worker: usize) -> u64 {
        self.lanes.get(worker).map_or(0, |l| l.sent.load(Ordering::Acquire))
    }

    /// Control side: whether the worker has taken all that was sent before a mark. The work that it began with it may not have ended.
    pub fn has_taken(&self, worker: usize, mark: u64) -> bool {
        self.lanes.get(worker).is_none_or(|l| l.taken.load(Ordering::Acquire) >= mark)
    }

    /// Control side: packets for a worker for which there was no room.
    pub fn refused(&self, worker: usize) -> u64 {
        self.lanes.get(worker).map_or(0, |l| l.refused.load(Ordering::Relaxed))
    }

    /// Worker: true when it may sleep; senders wake it from now on until [`Handoff::awake`].
    pub(crate) fn may_sleep(&self, worker: usize) -> bool {
        let Some(lane) = self.lanes.get(worker) else { return true };
        lane.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        lane.full.is_empty()
    }

    /// Worker: it is awake again.
    pub(crate) fn awake(&self, worker: usize) {
        if let Some(lane) = self.lanes.get(worker) {
            lane.asleep.store(false, Ordering::SeqCst);
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&lane.wake, &mut count);
        }
    }

    /// Readable when a packet came for a worker that slept.
    pub(crate) fn fd(&self, worker: usize) -> Option<BorrowedFd<'_>> {
        self.lanes.get(worker).map(|l| l.wake.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desc::Desc;
    use crate::handle::Buffer;

    fn packets(first: u32, n: u32) -> Vec<Desc> {
        let d = |n| Desc { buf: Buffer(n), flags: flags::TRACED | flags::LOCAL, ..Desc::default() };
        (first..first + n).map(d).collect()
    }

    /// Takes all that waits for a worker: nodes and buffers, in order.
    fn all(h: &Handoff, worker: usize) -> Vec<(u16, u32)> {
        let mut got = vec![];
        while h.take(worker, |node, v| {
            assert!(v.as_slice().iter().all(|d| d.flags == flags::LOCAL), "traces end");
            got.extend(v.take().map(|d| (node.0, d.buf.number())));
        }) != 0
        {}
        got
    }

    #[test]
    fn packets_arrive_in_order_and_are_bounded() {
        let h = Handoff::new(2).unwrap();
        // Again and again: frames come back.
        for round in 1..=20 {
            let mut sent = 0;
            for n in [1, 63, 64, 65, 200, 256, 256, 256, 256, 256, 256, 256] {
                let node = NodeId((sent % 5) as u16);
                sent += h.send(1, node, &mut Packets::drain(&mut packets(sent, n))) as u32;
            }
            assert_eq!(sent, 1 + 63 + 64 + 65 + 200 + 256 * 7, "the last vector as a whole");
            assert_eq!(h.send(1, NodeId(7), &mut Packets::drain(&mut packets(0, 1))), 0, "full");
            assert_eq!(h.send(2, NodeId(7), &mut Packets::drain(&mut packets(0, 1))), 0, "no such worker");
            assert_eq!((h.refused(0), h.refused(1), h.refused(2)), (0, round, 0));
            assert_eq!(h.send(0, NodeId(3), &mut Packets::drain(&mut packets(9, 1))), 1, "another worker's");
            let got = all(&h, 1);
            assert_eq!(got.iter().map(|g| g.1).collect::<Vec<_>>(), (0..sent).collect::<Vec<_>>());
            assert_eq!((got[0].0, got[1].0, got[64].0, got[128].0), (0, 1, 4, 3));
            assert_eq!(all(&h, 0), [(3, 9)]);
        }
        // One by one there are as many as there are frames.
        let sent: usize =
            (0..1000).map(|n| h.send(1, NodeId(0), &mut Packets::drain(&mut packets(n, 1)))).sum();
        assert_eq!(sent, FRAMES);
        assert_eq!(
            h.send(0, NodeId(0), &mut Packets::drain(&mut packets(0, 256))),
            256,
            "others have theirs"
        );
        assert_eq!(all(&h, 1).len(), FRAMES);
    }

    #[test]
    #[cfg(not(miri))]
    fn what_several_workers_send_comes_whole_and_in_their_order() {
        let h = Handoff::new(3).unwrap();
        std::thread::scope(|s| {
            let from = |w: u16| {
                let h = &h;
                s.spawn(move || {
                    let mut sent: u32 = 0;
                    while sent < 500_000 {
                        match h.send(2, NodeId(w), &mut Packets::drain(&mut packets(sent, 1 + sent % 100))) {
                            0 => std::thread::yield_now(),
                            n => sent += n as u32,
                        }
                    }
                    sent
                })
            };
            let senders = [from(0), from(1)];
            let mut got = [0u32; 2];
            while senders.iter().any(|s| !s.is_finished()) || !h.lanes.of(2).full.is_empty() {
                for (node, buf) in all(&h, 2) {
                    assert_eq!(buf, got[usize::from(node)]);
                    got[usize::from(node)] += 1;
                }
            }
            assert_eq!(senders.map(|s| s.join().unwrap()), got);
        });
        assert_eq!(h.lanes.of(2).waiting.load(Ordering::Relaxed), 0);
        assert_eq!(h.empty.len() + h.warm.len(), 3 * FRAMES);
    }

    #[test]
    fn a_mark_is_behind_what_was_sent() {
        let h = Handoff::new(2).unwrap();
        assert!(h.has_taken(1, h.mark(1)), "nothing was sent");
        for n in 0..3 {
            h.send(1, NodeId(0), &mut Packets::drain(&mut packets(50 * n, 50)));
        }
        let mark = h.mark(1);
        h.send(1, NodeId(0), &mut Packets::drain(&mut packets(130, 1)));
        for left in [2, 1, 0] {
            assert!(!h.has_taken(1, mark), "{left} vectors are left");
            h.take(1, |_, v| v.take().for_each(drop));
        }
        assert!(h.has_taken(1, mark) && !h.has_taken(1, h.mark(1)));
        assert!(h.has_taken(0, h.mark(0)) && h.has_taken(7, h.mark(7)));
    }

    #[test]
    fn a_worker_that_comes_later_has_a_queue_too() {
        let h = Handoff::new(1).unwrap();
        assert_eq!(h.send(1, NodeId(1), &mut Packets::drain(&mut packets(0, 1))), 0);
        h.grow(3).unwrap();
        assert_eq!(h.workers(), 1, "it has no part yet");
        h.share(3);
        assert_eq!((h.workers(), h.empty.len()), (3, 3 * FRAMES));
        assert_eq!(h.send(2, NodeId(1), &mut Packets::drain(&mut packets(7, 1))), 1);
        h.share(1);
        assert_eq!(all(&h, 2), [(1, 7)], "what is on its way comes");
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let h = Handoff::new(1).unwrap();
        assert!(h.may_sleep(0));
        for _ in 0..3 {
            assert_eq!(h.send(0, NodeId(1), &mut Packets::drain(&mut packets(0, 1))), 1);
        }
        let mut count = [0u8; 8];
        rustix::io::read(h.fd(0).unwrap(), &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
        h.awake(0);
        assert!(!h.may_sleep(0), "packets wait");
    }
}
