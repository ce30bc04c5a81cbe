//! What each worker has one of: room for as many workers as there can ever be, so that what readers hold never moves.

use std::io;
use std::sync::{Arc, OnceLock};

/// The most workers.
pub const MAX_WORKERS: usize = 64;

/// One `T` for each worker that there is or was, from worker 0 on without a gap; clones share them.
pub struct OfWorkers<T>(Arc<[OnceLock<Arc<T>>; MAX_WORKERS]>);

impl<T> Clone for OfWorkers<T> {
    fn clone(&self) -> Self {
        OfWorkers(Arc::clone(&self.0))
    }
}

impl<T> Default for OfWorkers<T> {
    /// For no worker yet.
    fn default() -> Self {
        OfWorkers(Arc::new([const { OnceLock::new() }; MAX_WORKERS]))
    }
}

impl<T> OfWorkers<T> {
    /// Makes those that are missing for `workers` workers; those that are there stay. By the control side alone.
    ///
    /// # Errors
    /// Those of `make`; what was made until then stays.
    pub fn grow(&self, workers: usize, make: impl Fn(usize) -> io::Result<T>) -> io::Result<()> {
        for (w, one) in self.0.iter().enumerate().take(workers) {
            if one.get().is_none() {
                let _ = one.set(Arc::new(make(w)?));
            }
        }
        Ok(())
    }

    /// Worker `w`'s.
    #[inline]
    pub fn get(&self, w: usize) -> Option<&Arc<T>> {
        self.0.get(w)?.get()
    }

    /// The one of worker `w`, or the first where that has none.
    ///
    /// # Panics
    /// There is none at all.
    #[allow(clippy::expect_used)]
    pub fn of(&self, w: usize) -> Arc<T> {
        Arc::clone(self.get(w).or_else(|| self.get(0)).expect("one for worker 0 is made first"))
    }

    /// All, by worker.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.0.iter().map_while(OnceLock::get)
    }
}
