//! Packets that a receive queue dropped before they reached the graph, by reason.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a receive queue dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxDrop {
    /// No free buffer.
    NoBuffer,
    /// The virtio-net header contradicts the packet.
    Malformed,
    /// The kernel kept only a part of the packet, because its queue was full.
    Truncated,
}

/// Counters of a receive queue, or of all of a device.
#[derive(Debug, Default)]
pub struct Drops {
    no_buffer: AtomicU64,
    malformed: AtomicU64,
    truncated: AtomicU64,
    ring_full: AtomicU64,
}

/// The counters' values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxDrops {
    /// No free buffer.
    pub no_buffer: u64,
    /// The virtio-net header contradicts the packet.
    pub malformed: u64,
    /// The kernel kept only a part of the packet, because its queue was full.
    pub truncated: u64,
    /// The ring was full.
    pub ring_full: u64,
}

impl std::iter::Sum for RxDrops {
    fn sum<I: Iterator<Item = RxDrops>>(all: I) -> RxDrops {
        all.fold(RxDrops::default(), |a, b| RxDrops {
            no_buffer: a.no_buffer + b.no_buffer,
            malformed: a.malformed + b.malformed,
            truncated: a.truncated + b.truncated,
            ring_full: a.ring_full + b.ring_full,
        })
    }
}

impl Drops {
    #[cold]
    pub(crate) fn count(&self, why: RxDrop) {
        let counter = match why {
            RxDrop::NoBuffer => &self.no_buffer,
            RxDrop::Malformed => &self.malformed,
            RxDrop::Truncated => &self.truncated,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_ring_full(&self, n: u64) {
        self.ring_full.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RxDrops {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        RxDrops {
            no_buffer: get(&self.no_buffer),
            malformed: get(&self.malformed),
            truncated: get(&self.truncated),
            ring_full: get(&self.ring_full),
        }
    }
}
