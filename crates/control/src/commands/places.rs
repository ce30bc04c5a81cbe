//! What takes memory in proportion to what runs, as comparisons do, is made and read one at a time.

use command::{Access, Caller, CommandError};
use net::background::drop_aside;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long one waits for the place.
const WAIT: Duration = Duration::from_secs(30);
/// How long one may read an answer while others wait for the place.
const READ: Duration = Duration::from_secs(20);

/// The place, and who waits for it.
struct Line {
    place: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A place for those who may only look, and one for those who may do more: nobody of the first keeps the others away.
pub(super) struct Places([Arc<Line>; 2]);

impl Default for Places {
    fn default() -> Self {
        let line = || Arc::new(Line { place: Arc::new(Semaphore::new(1)), waiting: AtomicUsize::new(0) });
        Places([line(), line()])
    }
}

/// One waits, until this goes.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Places {
    /// Waits for the place of who asks.
    ///
    /// # Errors
    /// Others have it for long.
    pub async fn take(&self, caller: Option<&Caller>) -> Result<Place, CommandError> {
        let [looking, more] = &self.0;
        let line = if caller.is_some_and(|c| c.access < Access::Operate) { looking } else { more };
        line.waiting.fetch_add(1, Relaxed);
        let waiting = Waiting(&line.waiting);
        let place = tokio::time::timeout(WAIT, Arc::clone(&line.place).acquire_owned()).await;
        drop(waiting);
        match place {
            Ok(Ok(permit)) => Ok(Place { _permit: permit, line: Arc::clone(line), began: Instant::now() }),
            _ => Err("others compare configurations: try again later".into()),
        }
    }
}

/// The place of one comparison.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    line: Arc<Line>,
    began: Instant,
}

impl Place {
    /// Keeps something large until it was read.
    pub fn hold<T: Send + 'static>(mut self, what: T) -> Held<T> {
        self.began = Instant::now();
        Held(Some((what, self)))
    }
}

/// Something large that is read, with its place. It is taken apart on another thread, and then the place is free.
pub struct Held<T: Send + 'static>(Option<(T, Place)>);

impl<T: Send> Held<T> {
    /// What is held, as long as its reader does not keep others waiting.
    ///
    /// # Errors
    /// It does.
    pub fn read(&mut self) -> Result<&mut T, CommandError> {
        match &mut self.0 {
            Some((_, place)) if place.line.waiting.load(Relaxed) != 0 && place.began.elapsed() > READ => {
                Err(format!("cut off after {} s: others wait to compare", READ.as_secs()).as_str().into())
            }
            Some((what, _)) => Ok(what),
            None => Err("internal error: nothing is held".into()),
        }
    }
}

impl<T: Send> Drop for Held<T> {
    fn drop(&mut self) {
        drop_aside(self.0.take());
    }
}
