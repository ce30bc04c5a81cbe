//! Grace periods: the control side changes what workers read, and frees the old version only after every worker has
//! passed a point at which it holds no reference (quiescent-state-based reclamation, McKenney and Slingwine 1998).
//!
//! A worker reports a quiescent state once a loop, and goes offline while it sleeps. The control side stamps what it
//! takes out of use with [`Domain::epoch`], then [`Domain::advance`]s; what is stamped below [`Domain::safe`] can go.
#![allow(unsafe_code)]
// Upholds: a reference from `Published::load` lives at most as long as the `Guard`, which a worker lends out only
// between two quiescent states; `Reclaimer` frees an old value only after all workers have passed one.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// The most workers (and other readers) of a domain.
pub const MAX_READERS: usize = crate::MAX_WORKERS + 2;
const OFFLINE: u64 = 0;

#[repr(align(128))]
struct Slot(AtomicU64);

/// All readers and the epoch that the control side counts.
pub struct Domain {
    global: AtomicU64,
    slots: Box<[Slot]>,
}

impl Default for Domain {
    fn default() -> Self {
        Self::new()
    }
}

impl Domain {
    /// A domain in which all readers are offline.
    pub fn new() -> Self {
        Domain {
            global: AtomicU64::new(1),
            slots: (0..MAX_READERS).map(|_| Slot(AtomicU64::new(OFFLINE))).collect(),
        }
    }

    /// The epoch with which to stamp what is taken out of use now.
    pub fn epoch(&self) -> u64 {
        self.global.load(Ordering::Relaxed)
    }

    /// Starts the next epoch; call it after something was unlinked.
    pub fn advance(&self) -> u64 {
        self.global.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// What is stamped below this epoch is no longer seen by any worker.
    pub fn safe(&self) -> u64 {
        fence(Ordering::SeqCst);
        let mut safe = self.global.load(Ordering::SeqCst);
        for s in &self.slots {
            let seen = s.0.load(Ordering::SeqCst);
            if seen != OFFLINE {
                safe = safe.min(seen);
            }
        }
        safe
    }

    /// The reader side of slot `index` (a worker's number). Panics never; an index out of range is clamped by the
    /// caller's configuration check (at most [`MAX_READERS`]).
    pub fn reader(self: &Arc<Self>, index: usize) -> Reader {
        Reader { domain: Arc::clone(self), index: index.min(MAX_READERS - 1), guard: Guard { _priv: () } }
    }
}

/// Proof that the holder is between two quiescent states of its worker.
pub struct Guard {
    _priv: (),
}

impl Guard {
    /// A guard for code that runs where no reclamation can happen: the control thread itself, which is the only one
    /// that frees, or a test.
    ///
    /// # Safety
    /// Nothing published in the domain may be reclaimed while the guard lives.
    pub unsafe fn unprotected() -> Guard {
        Guard { _priv: () }
    }
}

/// One worker's place in the domain.
pub struct Reader {
    domain: Arc<Domain>,
    index: usize,
    guard: Guard,
}

impl Reader {
    /// Reports a quiescent state. Needs `&mut`, so that no guard is lent out.
    #[inline]
    pub fn quiescent(&mut self) {
        // Whoever sees an epoch sees what was unlinked before it began.
        let now = self.domain.global.load(Ordering::Acquire);
        let slot = &self.domain.slots[self.index].0;
        if slot.load(Ordering::Relaxed) != now {
            // Earlier reads must not move below the report, later ones not above it.
            slot.swap(now, Ordering::SeqCst);
        }
    }

    /// Before a sleep: reclamation does not wait for this worker any more.
    pub fn offline(&mut self) {
        self.domain.slots[self.index].0.store(OFFLINE, Ordering::SeqCst);
    }

    /// After a sleep.
    pub fn online(&mut self) {
        let now = self.domain.global.load(Ordering::SeqCst);
        self.domain.slots[self.index].0.swap(now, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The guard for the time until the next quiescent state.
    #[inline]
    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.offline();
    }
}

/// A value that was unlinked and that readers may still see. It becomes a `Box`, which claims to be the only access,
/// no sooner than it is freed.
struct Retired<T>(*mut T);

// SAFETY: it is the unlinked value's owner, and values that may be sent may be freed elsewhere.
unsafe impl<T: Send> Send for Retired<T> {}

impl<T> Drop for Retired<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from Box::into_raw, nobody else owns it, and the reclaimer drops it after the grace
        // period (or with the control side, after the workers).
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// What the control side has taken out of use and not yet freed.
pub struct Reclaimer {
    domain: Arc<Domain>,
    waiting: std::collections::VecDeque<(u64, Box<dyn Send>)>,
}

impl Reclaimer {
    /// An empty list.
    pub fn new(domain: Arc<Domain>) -> Self {
        Reclaimer { domain, waiting: std::collections::VecDeque::new() }
    }

    /// The domain it waits for.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Keeps `old` until no worker can see it.
    fn retire<T: Send + 'static>(&mut self, old: Retired<T>) {
        self.waiting.push_back((self.domain.epoch(), Box::new(old)));
        self.domain.advance();
    }

    /// Frees what no worker sees any more; returns how many objects still wait.
    pub fn collect(&mut self) -> usize {
        let safe = self.domain.safe();
        while self.waiting.front().is_some_and(|(e, _)| *e < safe) {
            self.waiting.pop_front();
        }
        self.waiting.len()
    }
}

/// One value that the control side replaces as a whole and workers read without a lock.
pub struct Published<T> {
    ptr: AtomicPtr<T>,
}

// SAFETY: the pointee is shared between threads by reference and moved to the control thread when replaced.
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: as above; owning it is owning the value.
unsafe impl<T: Send + Sync> Send for Published<T> {}

impl<T> Published<T> {
    /// Publishes the first value.
    pub fn new(value: T) -> Self {
        Published { ptr: AtomicPtr::new(Box::into_raw(Box::new(value))) }
    }

    /// The current value.
    #[inline]
    pub fn load<'g>(&'g self, _guard: &'g Guard) -> &'g T {
        // SAFETY: the pointer is never null and its value is freed only after a grace period, which cannot end while
        // the guard is borrowed.
        unsafe { &*self.ptr.load(Ordering::Acquire) }
    }
}

impl<T: Send + 'static> Published<T> {
    /// Replaces the value; the old one goes to `reclaimer`. Control side only.
    pub fn publish(&self, value: T, reclaimer: &mut Reclaimer) {
        let old = self.ptr.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        // It came from Box::into_raw and was unlinked by the swap: nobody else retires it.
        reclaimer.retire(Retired(old));
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` proves that no reader has a reference; the pointer came from Box::into_raw.
        drop(unsafe { Box::from_raw(*self.ptr.get_mut()) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    struct Counted(Arc<AtomicUsize>, u64, u64);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_online_reader_holds_back_reclamation() {
        let dom = Arc::new(Domain::new());
        let mut rec = Reclaimer::new(Arc::clone(&dom));
        let freed = Arc::new(AtomicUsize::new(0));
        let p = Published::new(Counted(Arc::clone(&freed), 1, 1));
        let mut r = dom.reader(0);
        r.online();
        p.publish(Counted(Arc::clone(&freed), 2, 2), &mut rec);
        assert_eq!(rec.collect(), 1);
        assert_eq!(freed.load(Ordering::SeqCst), 0);
        r.quiescent();
        assert_eq!(rec.collect(), 0);
        assert_eq!(freed.load(Ordering::SeqCst), 1);
        p.publish(Counted(Arc::clone(&freed), 3, 3), &mut rec);
        r.offline();
        assert_eq!(rec.collect(), 0, "a sleeping worker holds nothing back");
    }

    #[test]
    fn readers_see_whole_values_while_they_change() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let dom = Arc::new(Domain::new());
        let freed = Arc::new(AtomicUsize::new(0));
        let p = Arc::new(Published::new(Counted(Arc::clone(&freed), 0, 0)));
        let stop = Arc::new(AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|i| {
                let (p, stop, mut r) = (Arc::clone(&p), Arc::clone(&stop), dom.reader(i));
                std::thread::spawn(move || {
                    r.online();
                    while !stop.load(Ordering::Relaxed) {
                        let v = p.load(r.guard());
                        assert_eq!(v.1, v.2);
                        r.quiescent();
                    }
                })
            })
            .collect();
        let mut rec = Reclaimer::new(Arc::clone(&dom));
        for i in 1..=rounds {
            p.publish(Counted(Arc::clone(&freed), i, i), &mut rec);
            rec.collect();
        }
        stop.store(true, Ordering::Relaxed);
        for t in threads {
            t.join().unwrap();
        }
        assert_eq!(rec.collect(), 0);
        assert_eq!(freed.load(Ordering::SeqCst) as u64, rounds);
    }
}
