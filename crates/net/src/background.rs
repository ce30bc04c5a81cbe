//! Work that would hold the control thread up, done by a thread of its own.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::{io, panic::AssertUnwindSafe, panic::catch_unwind};

struct Shared<T> {
    done: Option<io::Result<T>>,
    waiting: Option<Waker>,
}

/// Runs `work` on a thread; the answer is what it returns, or why there is no thread. It goes on when nobody waits any
/// more.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let shared = Arc::new(Mutex::new(Shared { done: None, waiting: None }));
    let theirs = Arc::clone(&shared);
    std::thread::Builder::new().name("background".to_owned()).spawn(move || {
        let done =
            catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("a fault in the router"));
        let mut shared = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        shared.done = Some(done);
        if let Some(waker) = shared.waiting.take() {
            waker.wake();
        }
    })?;
    poll_fn(|context| {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                shared.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}
