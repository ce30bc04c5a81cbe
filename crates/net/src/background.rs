//! Work that would hold the control thread up, done by a thread of its own.

use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, JoinHandle};
use std::{io, panic::AssertUnwindSafe, panic::catch_unwind};

struct Shared<T> {
    done: Option<io::Result<T>>,
    waiting: Option<Waker>,
}

/// What somebody is going to say. One that is dropped says that nobody will.
pub struct Promise<T>(Arc<Mutex<Shared<T>>>);

/// What a [`Promise`] is kept with.
pub struct Answer<T>(Arc<Mutex<Shared<T>>>);

/// A promise, and where it is waited for.
pub fn promise<T>() -> (Promise<T>, Answer<T>) {
    let shared = Arc::new(Mutex::new(Shared { done: None, waiting: None }));
    (Promise(Arc::clone(&shared)), Answer(shared))
}

impl<T> Promise<T> {
    /// Keeps it.
    pub fn keep(self, done: io::Result<T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).done = Some(done);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.done.get_or_insert_with(|| Err(io::Error::other("the router ends")));
        if let Some(waker) = shared.waiting.take() {
            waker.wake();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.done.take() {
            Some(done) => Poll::Ready(done),
            None => {
                shared.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// What work comes to, where a panic is a fault.
fn caught<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| io::Error::other("a fault in the router"))
}

/// Runs `work` on a thread; the answer is what it returns, or why there is no thread. It goes on when nobody waits any
/// more.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (promise, answer) = promise();
    Builder::new().name("background".to_owned()).spawn(move || promise.keep(caught(work)))?;
    answer.await
}

/// A thread that does work in order, one after another.
pub struct Line {
    to: Option<Sender<Box<dyn FnOnce() + Send>>>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// One without work.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new(name: &str) -> io::Result<Line> {
        let (to, work) = channel::<Box<dyn FnOnce() + Send>>();
        let thread = Builder::new().name(name.to_owned()).spawn(move || work.iter().for_each(|job| job()))?;
        Ok(Line { to: Some(to), thread: Some(thread) })
    }

    /// Has it do something behind all else; `then` gets what comes of it, on the line's thread.
    pub fn push<T>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        then: impl FnOnce(io::Result<T>) + Send + 'static,
    ) {
        if let Some(to) = &self.to {
            // Its thread ends behind its work alone.
            let _ = to.send(Box::new(move || then(caught(work))));
        }
    }

    /// Returns when all is done.
    pub fn finish(mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A thing that two threads hand to each other: who has taken it out has it alone.
pub struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Slot<T> {
    /// With a thing in it.
    pub fn new(thing: T) -> Slot<T> {
        Slot(Arc::new(Mutex::new(Some(thing))))
    }

    /// Takes it out, where it is there.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts it back.
    pub fn put(&self, thing: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(thing);
    }
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Slot(Arc::clone(&self.0))
    }
}

/// Takes apart what is large, on a thread of its own.
pub fn drop_aside<T: Send + 'static>(what: T) {
    // Without a thread it goes here.
    let _ = Builder::new().name("background".into()).spawn(move || drop(what));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Wake;

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

    #[test]
    fn who_waits_for_a_promise_is_told_when_nobody_keeps_it() {
        let (promise, answer) = promise::<u32>();
        drop(promise);
        assert!(wait(answer).is_err());
    }

    #[test]
    fn a_line_does_its_work_in_order_and_goes_on_behind_a_panic() {
        let line = Line::new("test").unwrap();
        let (tell, told) = channel();
        for n in 0..100 {
            let tell = tell.clone();
            let work = move || if n == 50 { panic!("on purpose") } else { n };
            line.push(work, move |done| tell.send(done.ok()).unwrap());
        }
        line.finish();
        let want: Vec<Option<u32>> = (0..100).map(|n| (n != 50).then_some(n)).collect();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), want);
    }
}
