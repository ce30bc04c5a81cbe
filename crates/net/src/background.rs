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

/// Takes apart what is large, on a thread of its own.
pub fn drop_aside<T: Send + 'static>(what: T) {
    // Without a thread it goes here.
    let _ = std::thread::Builder::new().name("background".into()).spawn(move || drop(what));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Wake};

    struct Unpark(std::thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(done) => return done,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[test]
    fn work_that_panics_is_an_error_for_who_waits() {
        assert_eq!(wait(run(|| 7)).ok(), Some(7));
        let fault = wait(run(|| -> u32 { panic!("on purpose") })).err();
        assert_eq!(fault.map(|e| e.to_string()).as_deref(), Some("a fault in the router"));
    }
}
