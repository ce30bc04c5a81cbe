//! How long the control thread is busy at a stretch: nothing else is done meanwhile, neighbours and timers included.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A stretch that is longer is counted: nothing that an operator asks for should take so long.
pub const LONG: Duration = Duration::from_millis(10);

/// A longest stretch so far.
#[derive(Clone, Debug, Default)]
pub struct Longest {
    /// How long it was.
    pub time: Duration,
    /// When it ended.
    pub at: Option<Instant>,
    /// The last command, or piece of one, that was run in it; empty when there was none.
    pub what: String,
}

/// What is kept of the control thread's work.
#[derive(Debug)]
pub struct Load {
    since: Cell<Instant>,
    busy: Cell<Duration>,
    stretches: Cell<u64>,
    long: Cell<u64>,
    longest: RefCell<Longest>,
    /// The one that took the processor longest: a thread that others keep from it is not busy.
    busiest: RefCell<Longest>,
    /// Processor time of the thread when the last stretch ended.
    used: Cell<Duration>,
    /// What is run in this stretch.
    what: RefCell<String>,
}

impl Default for Load {
    fn default() -> Self {
        Load {
            since: Cell::new(Instant::now()),
            busy: Cell::default(),
            stretches: Cell::default(),
            long: Cell::default(),
            longest: RefCell::default(),
            busiest: RefCell::default(),
            used: Cell::new(used()),
            what: RefCell::default(),
        }
    }
}

impl Load {
    /// Tells what is run now.
    pub fn note(&self, what: &str) {
        let mut to = self.what.borrow_mut();
        to.clear();
        // A line may be as long as a request.
        to.extend(what.chars().take(80));
    }

    /// Watches the future that does all of the thread's work.
    pub async fn watch<F: Future>(self: Rc<Self>, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|context| {
            let began = Instant::now();
            let done = work.as_mut().poll(context);
            self.add(began);
            done
        })
        .await
    }

    fn add(&self, began: Instant) {
        let now = Instant::now();
        let time = now - began;
        self.busy.set(self.busy.get() + time);
        self.stretches.set(self.stretches.get() + 1);
        self.long.set(self.long.get() + u64::from(time > LONG));
        let before = self.used.replace(used());
        let taken = self.used.get().saturating_sub(before);
        for (kept, time) in [(&self.longest, time), (&self.busiest, taken)] {
            let mut kept = kept.borrow_mut();
            if time > kept.time {
                *kept = Longest { time, at: Some(now), what: self.what.borrow().clone() };
            }
        }
        self.what.borrow_mut().clear();
    }

    /// Begins anew.
    pub fn clear(&self) {
        self.since.set(Instant::now());
        self.busy.set(Duration::ZERO);
        self.stretches.set(0);
        self.long.set(0);
        *self.longest.borrow_mut() = Longest::default();
        *self.busiest.borrow_mut() = Longest::default();
    }

    /// The longest stretch.
    pub fn longest(&self) -> Longest {
        self.longest.borrow().clone()
    }

    /// The stretch that took the processor longest.
    pub fn busiest(&self) -> Longest {
        self.busiest.borrow().clone()
    }

    /// How many stretches there were, and how many of them longer than [`LONG`].
    pub fn stretches(&self) -> (u64, u64) {
        (self.stretches.get(), self.long.get())
    }

    /// The share of time in which the thread worked, 0 to 1.
    pub fn share(&self) -> f64 {
        self.busy.get().as_secs_f64() / self.since.get().elapsed().as_secs_f64().max(1e-9)
    }
}

/// Processor time that this thread has had.
fn used() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stretch_is_kept_with_what_was_run() {
        let load = Rc::new(Load::default());
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (inner, mut left) = (Rc::clone(&load), 3);
        tokio.block_on(Rc::clone(&load).watch(poll_fn(move |context| {
            left -= 1;
            if left == 1 {
                inner.note("slow");
                let until = Instant::now() + LONG;
                while Instant::now() < until {}
            }
            context.waker().wake_by_ref();
            if left == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })));
        let (longest, busiest) = (load.longest(), load.busiest());
        assert!(longest.time >= LONG && longest.what == "slow", "{longest:?}");
        assert!(busiest.what == "slow" && busiest.time <= longest.time + LONG, "{busiest:?}");
        assert_eq!(load.stretches().0, 3);
        assert!(load.stretches().1 >= 1);
        load.clear();
        assert_eq!((load.stretches(), load.longest().time), ((0, 0), Duration::ZERO));
    }
}
