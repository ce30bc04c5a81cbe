//! Packets that somebody follows while they pass, in a ring of bounded size: what finds no room, as nobody has taken what is there,
//! is lost, and it is known how many and between which packets.

use super::capture::{CaptureConfig, CaptureError, Direction};
use super::slots::{CaptureRecord, Seen, Slots};
use crossbeam_queue::ArrayQueue;
use graph::buffer::Buffers;
use graph::desc::Desc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The ring; workers append to it, and one reader takes.
pub struct Ring {
    config: CaptureConfig,
    slots: Slots,
    /// How many had been lost when the packet of a slot came.
    before: Box<[AtomicU64]>,
    /// Numbers of slots that are free, and of those with a packet.
    free: ArrayQueue<u32>,
    filled: ArrayQueue<u32>,
    lost: AtomicU64,
    ended: AtomicBool,
}

impl Ring {
    /// An empty ring of `max` packets, its memory ready.
    ///
    /// # Errors
    /// As for [`super::Capture::new`].
    pub fn new(config: CaptureConfig) -> Result<Ring, CaptureError> {
        let slots = config.slots()?;
        let count = slots.len();
        let (free, filled) = (ArrayQueue::new(count), ArrayQueue::new(count));
        (0..count as u32).for_each(|n| _ = free.push(n));
        let before = (0..count).map(|_| AtomicU64::new(0)).collect();
        let (lost, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        Ok(Ring { config, slots, before, free, filled, lost, ended })
    }

    /// What it captures.
    pub fn config(&self) -> &CaptureConfig {
        &self.config
    }

    /// Worker: keeps a packet, as [`super::Capture::append`] does; false when it is lost.
    #[cold]
    pub fn append(
        &self,
        buffers: &Buffers,
        d: &Desc,
        start: u16,
        direction: Direction,
        interface: u32,
        time_ns: u64,
    ) -> bool {
        let Some(n) = self.free.pop() else {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        self.slots.put(n as usize, buffers, d, start, Seen { direction, interface, time_ns });
        if let Some(before) = self.before.get(n as usize) {
            before.store(self.lost.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.filled.push(n).is_ok()
    }

    /// Reader: the next packet, and how many were lost before it since the beginning.
    pub fn take(&self) -> Option<(u64, CaptureRecord)> {
        let n = self.filled.pop()?;
        let before = self.before.get(n as usize).map_or(0, |b| b.load(Ordering::Relaxed));
        let packet = self.slots.get(n as usize);
        let _ = self.free.push(n);
        packet.map(|p| (before, p))
    }

    /// How many were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Its interface is gone: no packet comes any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether that is so.
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::buffer::{Pool, PoolConfig, PoolMemory};

    #[test]
    fn what_is_lost_is_counted_where_it_was_lost() {
        let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
        let mut b = pool.buffers();
        let ring = Ring::new(CaptureConfig { max: 4, ..CaptureConfig::default() }).unwrap();
        let mut put = |n: u8| {
            let d = b.alloc_bytes(&[n; 60]).unwrap();
            let kept = ring.append(&b, &d, d.l2, Direction::Rx, 3, n.into());
            b.free(d);
            kept
        };
        assert_eq!((0..7).map(&mut put).filter(|kept| *kept).count(), 4);
        assert_eq!(ring.lost(), 3);
        let of = |(before, r): (u64, CaptureRecord)| (before, r.bytes[0], r.wire);
        assert_eq!(ring.take().map(of), Some((0, 0, 60)));
        assert!(put(7));
        for n in 1..4 {
            assert_eq!(ring.take().map(of), Some((0, n, 60)));
        }
        assert_eq!(ring.take().map(of), Some((3, 7, 60)), "three are lost before it");
        assert!(ring.take().is_none());
        assert_eq!((8..12).map(put).filter(|kept| *kept).count(), 4, "all slots are free again");
    }

    #[test]
    fn workers_and_a_reader_mix_nothing() {
        const EACH: u64 = if cfg!(miri) { 50 } else { 20_000 };
        let pool = Pool::new(PoolConfig { buffers: 64, memory: PoolMemory::Normal }).unwrap();
        let ring = Ring::new(CaptureConfig { max: 16, ..CaptureConfig::default() }).unwrap();
        let taken = std::thread::scope(|threads| {
            let writers: Vec<_> = (0..2u8)
                .map(|of| {
                    let (pool, ring) = (&pool, &ring);
                    threads.spawn(move || {
                        let mut b = pool.buffers();
                        let d = b.alloc_bytes(&[of; 300]).unwrap();
                        for n in 0..EACH {
                            ring.append(&b, &d, d.l2, Direction::Tx, of.into(), n);
                        }
                        b.free(d);
                    })
                })
                .collect();
            let (mut taken, mut last) = (0, [None; 2]);
            loop {
                let over = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
                while let Some((_, r)) = ring.take() {
                    let of = r.interface as usize;
                    assert!(r.bytes.iter().all(|b| usize::from(*b) == of) && r.bytes.len() == 300);
                    assert!(last[of] < Some(r.time_ns), "in order");
                    last[of] = Some(r.time_ns);
                    taken += 1;
                }
                if over {
                    return taken;
                }
            }
        });
        assert_eq!(taken + ring.lost(), 2 * EACH);
    }
}
