//! Packets from one worker to any node of another: a bounded lock-free queue of frames for each worker.
//!
//! A node that needs packets on a certain worker (fragments of a datagram, or the packets of a flow) sends those that came to another
//! with [`Env::hand_off`](crate::Env::hand_off). They go a frame of up to [`FRAME`] at a time, and enter the node that was named,
//! of the other worker's graph; packets that one worker sends to one node keep their order. Frames are made at the start and come
//! back when they were read. A worker that sleeps is woken by one write for all packets until it looks; one that is awake finds
//! them in its next loop.

use crate::desc::{Desc, Packets, flags};
use crate::edge::NodeId;
use crate::of_workers::{MAX_WORKERS, OfWorkers};
use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// Packets that wait for one worker.
const WAITING: usize = 2048;
/// Frames that wait for one worker.
const FRAMES: usize = 256;
/// The most packets of a frame.
pub const FRAME: usize = 64;

struct Frame {
    node: NodeId,
    /// Room for [`FRAME`].
    packets: Vec<Desc>,
}

struct Lane {
    full: ArrayQueue<Box<Frame>>,
    /// Packets in them, and how many there are of them: taken before anything is put there.
    waiting: AtomicUsize,
    frames: AtomicUsize,
    /// Frames that were put into `full`, or are about to be, and those that came out of it.
    sent: AtomicU64,
    taken: AtomicU64,
    wake: OwnedFd,
    asleep: AtomicBool,
}

/// The queues of all workers.
pub struct Handoff {
    lanes: OfWorkers<Lane>,
    /// As many as all queues take: what waits for one worker leaves others theirs.
    empty: ArrayQueue<Box<Frame>>,
    /// How many workers share the work; one that had its part before still takes what comes.
    workers: AtomicUsize,
}

impl Handoff {
    /// Queues for `workers` workers.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new(workers: usize) -> io::Result<Handoff> {
        let empty = ArrayQueue::new(MAX_WORKERS * FRAMES);
        let all = Handoff { lanes: OfWorkers::default(), empty, workers: AtomicUsize::new(0) };
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
                let frame = Frame { node: NodeId(0), packets: Vec::with_capacity(FRAME) };
                let _ = self.empty.push(Box::new(frame));
            }
            Ok(Lane {
                full: ArrayQueue::new(FRAMES),
                waiting: AtomicUsize::new(0),
                frames: AtomicUsize::new(0),
                sent: AtomicU64::new(0),
                taken: AtomicU64::new(0),
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

    /// Sends packets to `node` of worker `to`, and answers how many: the others stay with the caller, for there is no room. Their
    /// trace ends here: numbers in the trace are each worker's own.
    pub fn send(&self, to: usize, node: NodeId, packets: &mut Packets<'_>) -> usize {
        let Some(lane) = self.lanes.get(to) else { return 0 };
        let before = packets.len();
        while !packets.is_empty() && self.send_frame(lane, node, packets) {}
        let sent = before - packets.len();
        if sent != 0 {
            fence(Ordering::SeqCst);
            if lane.asleep.load(Ordering::SeqCst) && lane.asleep.swap(false, Ordering::SeqCst) {
                let _ = rustix::io::write(&lane.wake, &1u64.to_ne_bytes());
            }
        }
        sent
    }

    /// Sends the first [`FRAME`] of the packets, or none.
    fn send_frame(&self, lane: &Lane, node: NodeId, packets: &mut Packets<'_>) -> bool {
        let n = packets.len().min(FRAME);
        let few = lane.waiting.fetch_add(n, Ordering::Relaxed) + n <= WAITING;
        let fits = lane.frames.fetch_add(1, Ordering::Acquire) < FRAMES;
        if let Some(mut frame) = (few && fits).then(|| self.empty.pop()).flatten() {
            let untraced = |d: Desc| Desc { flags: d.flags & !flags::TRACED, ..d };
            frame.node = node;
            frame.packets.extend(packets.split_to(n).map(untraced));
            // Before it is there: whoever sees a number of frames taken knows of all that stood in front of them.
            lane.sent.fetch_add(1, Ordering::Release);
            let full = lane.full.push(frame);
            debug_assert!(full.is_ok(), "a place was taken");
            return true;
        }
        lane.frames.fetch_sub(1, Ordering::Relaxed);
        lane.waiting.fetch_sub(n, Ordering::Relaxed);
        false
    }

    /// Hands the next packets for worker `worker` to `each`, with their node, and answers how many; 0: none wait.
    #[inline]
    pub fn take(&self, worker: usize, each: impl FnOnce(NodeId, Packets<'_>)) -> usize {
        let Some(lane) = self.lanes.get(worker) else { return 0 };
        let Some(mut frame) = lane.full.pop() else { return 0 };
        let n = frame.packets.len();
        each(frame.node, Packets::drain(&mut frame.packets));
        let _ = self.empty.push(frame);
        lane.waiting.fetch_sub(n, Ordering::Relaxed);
        // Behind the place in the queue that it stands for.
        lane.frames.fetch_sub(1, Ordering::Release);
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
    use crate::handle::Buffer;

    fn packets(first: u32, n: u32) -> Vec<Desc> {
        let d = |n| Desc { buf: Buffer(n), flags: flags::TRACED | flags::LOCAL, ..Desc::default() };
        (first..first + n).map(d).collect()
    }

    /// Takes all that waits for a worker: nodes and buffers, in order.
    fn all(h: &Handoff, worker: usize) -> Vec<(u16, u32)> {
        let mut got = vec![];
        while h.take(worker, |node, packets| {
            assert!(packets.iter().all(|d| d.flags == flags::LOCAL), "traces end");
            got.extend(packets.iter().map(|d| (node.0, d.buf.number())));
        }) != 0
        {}
        got
    }

    #[test]
    fn packets_arrive_in_order_and_are_bounded() {
        let h = Handoff::new(2).unwrap();
        // Again and again: frames come back.
        for _ in 0..20 {
            let mut sent = 0;
            for n in [1, 63, 64, 65, 200, 256, 256, 256, 256, 256, 256, 256] {
                let node = NodeId((sent % 5) as u16);
                sent += h.send(1, node, &mut Packets::drain(&mut packets(sent, n))) as u32;
            }
            assert_eq!(sent, 1 + 63 + 64 + 65 + 200 + 256 * 6 + 64, "as many frames as fit");
            assert_eq!(h.send(1, NodeId(7), &mut Packets::drain(&mut packets(0, 64))), 0, "full");
            assert_eq!(h.send(2, NodeId(7), &mut Packets::drain(&mut packets(0, 1))), 0, "no such worker");
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
        assert_eq!(h.empty.len(), 3 * FRAMES);
    }

    #[test]
    fn a_mark_is_behind_what_was_sent() {
        let h = Handoff::new(2).unwrap();
        assert!(h.has_taken(1, h.mark(1)), "nothing was sent");
        h.send(1, NodeId(0), &mut Packets::drain(&mut packets(0, 130)));
        let mark = h.mark(1);
        h.send(1, NodeId(0), &mut Packets::drain(&mut packets(130, 1)));
        for left in [2, 1, 0] {
            assert!(!h.has_taken(1, mark), "{left} frames are left");
            h.take(1, |_, _| {});
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
