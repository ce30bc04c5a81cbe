//! A queue that several workers may send to, one at a time. None waits for long.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// How often a worker looks whether another one is done. What follows is lost.
const PATIENCE: usize = 20_000;

/// One that may be another worker's as well.
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    /// One that is nobody else's yet.
    pub fn new(queue: T) -> Shared<T> {
        Shared(Arc::new(Mutex::new(queue)))
    }

    /// The same once more.
    pub fn again(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }

    /// Has the control side use it alone, once the worker that does so now is done with its packets.
    pub fn wait<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many have it.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Has the worker use it alone; nothing where another one does for too long.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut queue = (0..PATIENCE).find_map(|_| match self.0.try_lock() {
            Ok(queue) => Some(queue),
            Err(TryLockError::Poisoned(queue)) => Some(queue.into_inner()),
            Err(TryLockError::WouldBlock) => {
                core::hint::spin_loop();
                None
            }
        })?;
        Some(work(&mut queue))
    }
}
