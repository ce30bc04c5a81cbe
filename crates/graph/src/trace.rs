//! Packet trace: what each node did with the first N packets that an operator asked for.
//!
//! A log is made by the control side before the first record; the worker only appends, so reading needs no lock.
#![allow(unsafe_code)]
// Upholds: only the owning worker appends; a record is never written again after `len` was raised over it.

use crate::buffer::Buffers;
use crate::desc::{Seen, Vector, flags};
use crate::edge::NodeId;
use crate::epoch::{Guard, Published, Reclaimer};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of a packet that a record keeps.
pub const TRACE_BYTES: usize = 96;
/// Records kept for each traced packet.
pub const RECORDS_A_PACKET: usize = 24;
/// "Not dropped".
pub const NO_REASON: u32 = u32::MAX;

/// What one node did with one packet.
#[derive(Clone, Copy, Debug)]
pub struct TraceRecord {
    /// Number of the packet in the log.
    pub id: u32,
    /// The node.
    pub node: NodeId,
    /// The node it went to (the drop node when it was dropped); `None` when the node took it over.
    pub next: Option<NodeId>,
    /// Why it was dropped, or [`NO_REASON`].
    pub reason: u32,
    /// When, in nanoseconds of the TSC.
    pub time_ns: u64,
    /// The descriptor before the step.
    pub before: Seen,
    /// The descriptor after the step.
    pub after: Seen,
    /// Bytes of the packet from its current header, after the step.
    pub total_len: u32,
    /// Valid bytes of `data`.
    pub data_len: u16,
    /// The packet from its current header, after the step.
    pub data: [u8; TRACE_BYTES],
}

impl TraceRecord {
    /// The kept bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..usize::from(self.data_len).min(TRACE_BYTES)]
    }
}

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
    armed: Box<[AtomicU32]>,
    next_id: AtomicU32,
    log: Published<TraceLog>,
}

impl Tracing {
    /// Nothing armed, an empty log.
    pub fn new(nodes: usize) -> Self {
        Tracing {
            armed: (0..nodes).map(|_| AtomicU32::new(0)).collect(),
            next_id: AtomicU32::new(0),
            log: Published::new(TraceLog::new(0)),
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
        if let Some(a) = self.armed.get(usize::from(node.0)) {
            a.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// Control side: forget all records and disarm.
    pub fn clear(&self, reclaimer: &mut Reclaimer) {
        for a in &self.armed {
            a.store(0, Ordering::Relaxed);
        }
        self.next_id.store(0, Ordering::Relaxed);
        self.log.publish(TraceLog::new(0), reclaimer);
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
    pub fn start(&self, node: NodeId, v: &mut Vector, buffers: &mut Buffers) {
        if self.armed[usize::from(node.0)].load(Ordering::Relaxed) != 0 {
            self.mark(node, v, buffers);
        }
    }

    #[cold]
    fn mark(&self, node: NodeId, v: &mut Vector, buffers: &mut Buffers) {
        let armed = &self.armed[usize::from(node.0)];
        for d in v.as_mut_slice().iter_mut().filter(|d| !d.has(flags::TRACED)) {
            let left = armed.load(Ordering::Relaxed);
            if left == 0
                || armed.compare_exchange(left, left - 1, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                break;
            }
            let id = self.next_id.load(Ordering::Relaxed);
            self.next_id.store(id.wrapping_add(1), Ordering::Relaxed);
            d.flags |= flags::TRACED;
            buffers.meta_mut(&d.buf).trace_id = id;
        }
    }

    /// Worker: appends a record.
    #[cold]
    pub fn record(&self, guard: &Guard, r: TraceRecord) {
        self.log.load(guard).append(r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolConfig, PoolMemory};
    use crate::desc::Desc;
    use crate::epoch::Domain;
    use std::sync::Arc;

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
        t.start(NodeId(0), &mut v, &mut b);
        assert_eq!(v.as_slice().iter().filter(|d| d.has(flags::TRACED)).count(), 0);
        t.start(NodeId(1), &mut v, &mut b);
        t.start(NodeId(1), &mut v, &mut b);
        assert_eq!(v.as_slice().iter().filter(|d| d.has(flags::TRACED)).count(), 3);
        assert_eq!(b.meta(&v.as_slice()[2].buf).trace_id, 2);
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
