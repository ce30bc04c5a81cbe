//! Packet trace: what each node did with the first N packets that an operator asked for.
//!
//! A log is made by the control side before the first record; the worker only appends, so reading needs no lock.
#![allow(unsafe_code)]
// Upholds: only the owning worker appends; a record is never written again after `len` was raised over it.

use crate::buffer::Buffers;
use crate::desc::{Vector, flags};
use crate::edge::NodeId;
use crate::epoch::{Guard, Published, Reclaimer};
use crate::follow::{Follow, Mark, Slots};
pub use crate::record::{NO_REASON, RECORDS_A_PACKET, TRACE_BYTES, TraceRecord};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Records of one worker.
pub struct TraceLog {
    records: Box<[UnsafeCell<core::mem::MaybeUninit<TraceRecord>>]>,
    len: AtomicUsize,
}

// SAFETY: slots below `len` are only read; the slot at `len` is touched by the one appending worker.
unsafe impl Sync for TraceLog {}
// SAFETY: plain data.
unsafe impl Send for TraceLog {}

impl TraceLog {
    /// An empty log of `capacity` records.
    pub fn new(capacity: usize) -> Self {
        TraceLog {
            records: (0..capacity).map(|_| UnsafeCell::new(core::mem::MaybeUninit::uninit())).collect(),
            len: AtomicUsize::new(0),
        }
    }

    fn append(&self, r: TraceRecord) {
        let i = self.len.load(Ordering::Relaxed);
        if let Some(slot) = self.records.get(i) {
            // SAFETY: one worker appends; readers look only below `len`.
            unsafe { (*slot.get()).write(r) };
            self.len.store(i + 1, Ordering::Release);
        }
    }

    /// The records so far.
    pub fn records(&self) -> Vec<TraceRecord> {
        let n = self.len.load(Ordering::Acquire);
        // SAFETY: slots below `len` are initialised and never written again.
        self.records[..n].iter().map(|s| unsafe { (*s.get()).assume_init() }).collect()
    }

    /// A record by its place, from 0 on in the order in which they were made.
    pub fn get(&self, at: usize) -> Option<TraceRecord> {
        let n = self.len.load(Ordering::Acquire);
        // SAFETY: slots below `len` are initialised and never written again.
        self.records.get(..n)?.get(at).map(|s| unsafe { (*s.get()).assume_init() })
    }

    /// Records it can hold.
    pub fn capacity(&self) -> usize {
        self.records.len()
    }
}

/// What the control side and one worker share about tracing.
pub struct Tracing {
    /// By node: packets that are still to come into the log, and above them a bit for each trace that is followed.
    armed: Box<[AtomicU64]>,
    next_id: AtomicU32,
    log: Published<TraceLog>,
    /// The number of the next packet for those that follow.
    next_followed: AtomicU32,
    followed: Published<Slots>,
}

/// Where the bits of traces that are followed begin in a word of `armed`.
const FOLLOWED: u32 = 32;

/// The word with fewer packets, or more, for the log.
fn with_left(word: u64, left: u32) -> u64 {
    word >> FOLLOWED << FOLLOWED | u64::from(left)
}

impl Tracing {
    /// Nothing armed, an empty log.
    pub fn new(nodes: usize) -> Self {
        Tracing {
            armed: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            next_id: AtomicU32::new(0),
            log: Published::new(TraceLog::new(0)),
            next_followed: AtomicU32::new(0),
            followed: Published::new(Slots::default()),
        }
    }

    /// Changes a word of `armed`, which the worker may change as well.
    fn arm(&self, node: NodeId, change: impl Fn(u64) -> u64) {
        if let Some(a) = self.armed.get(usize::from(node.0)) {
            let _ = a.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(change(word)));
        }
    }

    /// Control side: trace the next `packets` packets that come to `node`.
    pub fn add(&self, node: NodeId, packets: u32, guard: &Guard, reclaimer: &mut Reclaimer) {
        let old = self.log.load(guard);
        let kept = old.records();
        let log = TraceLog::new(old.capacity() + packets as usize * RECORDS_A_PACKET);
        for r in kept {
            log.append(r);
        }
        self.log.publish(log, reclaimer);
        self.arm(node, |word| with_left(word, (word as u32).saturating_add(packets)));
    }

    /// Control side: forget all records and disarm. Those that follow go on.
    pub fn clear(&self, reclaimer: &mut Reclaimer) {
        for a in &self.armed {
            let _ = a.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| Some(with_left(word, 0)));
        }
        self.next_id.store(0, Ordering::Relaxed);
        self.log.publish(TraceLog::new(0), reclaimer);
    }

    /// Control side: has packets that come to these nodes of this worker traced for one who follows, in a place (below
    /// [`MOST_FOLLOWED`](crate::follow::MOST_FOLLOWED)) that is free.
    pub fn follow(
        &self,
        slot: usize,
        worker: u16,
        nodes: &[NodeId],
        follow: &Arc<Follow>,
        guard: &Guard,
        reclaimer: &mut Reclaimer,
    ) {
        let since = self.next_followed.load(Ordering::Relaxed);
        let slots = self.followed.load(guard).with(slot, worker, since, follow);
        self.followed.publish(slots, reclaimer);
        nodes.iter().for_each(|node| self.arm(*node, |word| word | 1 << FOLLOWED << slot));
    }

    /// Control side: a place is free again.
    pub fn unfollow(&self, slot: usize, guard: &Guard, reclaimer: &mut Reclaimer) {
        for a in &self.armed {
            a.fetch_and(!(1 << FOLLOWED << slot), Ordering::Relaxed);
        }
        let slots = self.followed.load(guard).without(slot);
        self.followed.publish(slots, reclaimer);
    }

    /// Control side: the records so far, in the order they were made.
    pub fn records(&self, guard: &Guard) -> Vec<TraceRecord> {
        self.log.load(guard).records()
    }

    /// Control side: a record by its place. It keeps that until all are forgotten.
    pub fn get(&self, at: usize, guard: &Guard) -> Option<TraceRecord> {
        self.log.load(guard).get(at)
    }

    /// Worker: starts tracing packets of `v` if `node` is armed.
    #[inline]
    pub fn start(&self, node: NodeId, v: &mut Vector, buffers: &mut Buffers, guard: &Guard) {
        if self.armed[usize::from(node.0)].load(Ordering::Relaxed) != 0 {
            self.mark(node, v, buffers, guard);
        }
    }

    #[cold]
    fn mark(&self, node: NodeId, v: &mut Vector, buffers: &mut Buffers, guard: &Guard) {
        let armed = &self.armed[usize::from(node.0)];
        let word = armed.load(Ordering::Relaxed);
        let (mut left, bits) = (word as u32, (word >> FOLLOWED) as u8);
        let slots = self.followed.load(guard);
        let mut room = slots.room(bits);
        for d in v.as_mut_slice() {
            let was = if d.has(flags::TRACED) { buffers.meta(&d.buf).trace_id } else { Mark::default() };
            let mut mark = was;
            if left != 0 && was.log().is_none() {
                let taken = armed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                    (word as u32).checked_sub(1).map(|left| with_left(word, left))
                });
                left = taken.map_or(0, |word| word as u32 - 1);
                if taken.is_ok() {
                    let id = self.next_id.load(Ordering::Relaxed);
                    self.next_id.store(id.wrapping_add(1), Ordering::Relaxed);
                    mark = mark.with_log(id);
                }
            }
            if bits != 0 {
                mark = slots.begin(bits, &mut room, d, mark, &self.next_followed);
            } else if left == 0 && mark == was {
                break;
            }
            if mark != was {
                d.flags |= flags::TRACED;
                buffers.meta_mut(&d.buf).trace_id = mark;
            }
        }
    }

    /// Worker: appends a record of a packet with this mark, whose number it gets.
    #[cold]
    pub fn record(&self, guard: &Guard, mark: Mark, r: TraceRecord) {
        if mark.slots() != 0 {
            self.followed.load(guard).append(mark, &r);
        }
        if let Some(id) = mark.log() {
            self.log.load(guard).append(TraceRecord { id, ..r });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolConfig, PoolMemory};
    use crate::desc::{Desc, Seen};
    use crate::epoch::Domain;
    use crate::follow::MOST_FOLLOWED;

    fn record(id: u32) -> TraceRecord {
        TraceRecord {
            id,
            node: NodeId(0),
            next: None,
            reason: NO_REASON,
            time_ns: 0,
            before: Seen::of(&Desc::default()),
            after: Seen::of(&Desc::default()),
            total_len: 0,
            data_len: 0,
            data: [0; TRACE_BYTES],
        }
    }

    #[test]
    fn exactly_the_armed_number_is_traced() {
        let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
        let mut b = pool.buffers();
        let dom = Arc::new(Domain::new());
        let mut rec = Reclaimer::new(Arc::clone(&dom));
        let reader = dom.reader(0);
        let t = Tracing::new(2);
        t.add(NodeId(1), 3, reader.guard(), &mut rec);
        let mut v = Vector::boxed();
        for _ in 0..5 {
            assert!(v.push(b.alloc_desc().unwrap()).is_ok());
        }
        t.start(NodeId(0), &mut v, &mut b, reader.guard());
        assert_eq!(v.as_slice().iter().filter(|d| d.has(flags::TRACED)).count(), 0);
        t.start(NodeId(1), &mut v, &mut b, reader.guard());
        t.start(NodeId(1), &mut v, &mut b, reader.guard());
        assert_eq!(v.as_slice().iter().filter(|d| d.has(flags::TRACED)).count(), 3);
        assert_eq!(b.meta(&v.as_slice()[2].buf).trace_id, Mark::in_log(2));
    }

    /// A worker with packets that all come to one node.
    struct Rig {
        buffers: Buffers,
        reader: crate::epoch::Reader,
        reclaimer: Reclaimer,
        tracing: Tracing,
    }

    impl Rig {
        fn new() -> Rig {
            let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
            let domain = Arc::new(Domain::new());
            Rig {
                buffers: pool.buffers(),
                reclaimer: Reclaimer::new(Arc::clone(&domain)),
                reader: domain.reader(0),
                tracing: Tracing::new(3),
            }
        }

        fn follow(&mut self, slot: usize, node: u16, follow: Follow) -> Arc<Follow> {
            let (follow, guard) = (Arc::new(follow), self.reader.guard());
            self.tracing.follow(slot, 7, &[NodeId(node)], &follow, guard, &mut self.reclaimer);
            follow
        }

        /// Packets that came on these interfaces visit these nodes together, one after another.
        fn pass(&mut self, interfaces: &[u32], nodes: &[u16]) -> Vec<Desc> {
            let mut v = Vector::boxed();
            for rx in interfaces {
                let d = self.buffers.alloc_desc().unwrap();
                assert!(v.push(Desc { rx: *rx, ..d }).is_ok());
            }
            self.visit(&mut v, nodes);
            v.take().collect()
        }

        fn visit(&mut self, v: &mut Vector, nodes: &[u16]) {
            for node in nodes {
                self.tracing.start(NodeId(*node), v, &mut self.buffers, self.reader.guard());
                for d in v.as_slice().iter().filter(|d| d.has(flags::TRACED)) {
                    let mark = self.buffers.meta(&d.buf).trace_id;
                    let r = TraceRecord { node: NodeId(*node), before: Seen::of(d), ..record(u32::MAX) };
                    self.tracing.record(self.reader.guard(), mark, r);
                }
            }
        }

        fn free(&mut self, packets: Vec<Desc>) {
            packets.into_iter().for_each(|d| self.buffers.free(d));
        }
    }

    fn steps(f: &Follow) -> Vec<(u32, u16)> {
        std::iter::from_fn(|| f.take()).map(|s| (s.record.id, s.record.node.0)).collect()
    }

    #[test]
    fn each_who_follows_has_its_packets_and_the_log_has_others() {
        let mut r = Rig::new();
        let all = r.follow(0, 0, Follow::new(None, u64::MAX, 4800));
        let one = r.follow(5, 1, Follow::new(Some(4), 1, 4800));
        r.tracing.add(NodeId(1), 2, r.reader.guard(), &mut r.reclaimer);
        let packets = r.pass(&[3, 4, 4], &[0, 1, 2]);
        assert_eq!(steps(&all), [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(steps(&one), [(1, 1), (1, 2)], "of interface 4 one, from the second node on");
        assert!(one.is_over() && !all.is_over() && one.lost() == 0);
        let log: Vec<_> = r.tracing.records(r.reader.guard()).iter().map(|r| (r.id, r.node.0)).collect();
        assert_eq!(log, [(0, 1), (1, 1), (0, 2), (1, 2)], "as if nobody followed");
        r.free(packets);
        // What is forgotten is the log alone.
        r.tracing.clear(&mut r.reclaimer);
        let packets = r.pass(&[9], &[0, 1]);
        assert_eq!(steps(&all), [(3, 0), (3, 1)]);
        assert!(r.tracing.records(r.reader.guard()).is_empty() && steps(&one).is_empty());
        r.free(packets);
        r.tracing.unfollow(0, r.reader.guard(), &mut r.reclaimer);
        let packets = r.pass(&[9], &[0, 1]);
        assert!(steps(&all).is_empty() && packets.iter().all(|d| !d.has(flags::TRACED)));
        r.free(packets);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_not_traced() {
        let mut r = Rig::new();
        let slow = r.follow(MOST_FOLLOWED - 1, 0, Follow::new(None, 5, 2 * RECORDS_A_PACKET));
        let packets = r.pass(&[1; 4], &[0]);
        assert_eq!((steps(&slow).len(), slow.lost(), slow.missed()), (2, 2, 0));
        r.free(packets);
        // One that visits more nodes than there is room for.
        let packets = r.pass(&[1; 1], &[0; 2 * RECORDS_A_PACKET + 3]);
        assert_eq!((slow.missed(), steps(&slow).len(), slow.is_over()), (3, 2 * RECORDS_A_PACKET, false));
        r.free(packets);
        let packets = r.pass(&[1; 2], &[0]);
        assert_eq!((steps(&slow).len(), slow.is_over()), (2, true));
        r.free(packets);
        let packets = r.pass(&[1; 2], &[0]);
        assert_eq!((steps(&slow).len(), slow.lost()), (0, 2), "no more were asked for");
        r.free(packets);
    }

    #[test]
    fn a_packet_of_a_trace_that_is_over_is_none_of_the_next_in_its_place() {
        let mut r = Rig::new();
        let first = r.follow(2, 0, Follow::new(None, u64::MAX, 4800));
        let mut waits = Vector::boxed();
        r.pass(&[1; 2], &[0]).into_iter().for_each(|d| assert!(waits.push(d).is_ok()));
        r.tracing.unfollow(2, r.reader.guard(), &mut r.reclaimer);
        let second = r.follow(2, 0, Follow::new(None, u64::MAX, 4800));
        r.visit(&mut waits, &[1, 2]);
        assert_eq!((steps(&first).len(), steps(&second).len()), (2, 0));
        // However many packets come, numbers that begin anew are of it.
        for start in [0x0040_0000, 0x0080_0000, 0x00c0_0000, 0x00ff_ffff, 0x0040_0000, 0x0080_0000] {
            r.tracing.next_followed.store(start, Ordering::Relaxed);
            let packets = r.pass(&[1; 2], &[0]);
            assert_eq!(steps(&second), [(start, 0), ((start + 1) & 0xff_ffff, 0)]);
            r.free(packets);
        }
        let waiting = waits.take().collect();
        r.free(waiting);
    }

    #[test]
    fn a_full_log_keeps_what_it_has() {
        let log = TraceLog::new(2);
        assert!(log.get(0).is_none());
        for i in 0..5 {
            log.append(record(i));
        }
        assert_eq!(log.records().iter().map(|r| r.id).collect::<Vec<_>>(), [0, 1]);
        let single: Vec<u32> = (0..3).filter_map(|at| log.get(at)).map(|r| r.id).collect();
        assert_eq!(single, [0, 1]);
    }
}
