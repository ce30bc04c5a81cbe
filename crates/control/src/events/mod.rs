//! Following what happens: links, neighbours, configuration, lines of the log, drops. This is what the API tells as events,
//! without how it comes over a socket.
//!
//! Who follows has a bounded [queue](Queue) of its own, which any thread fills and one reads. Where it is full, what happens is
//! counted by kind, and told as a gap behind what the queue still has. Kinds that have a state are told as a whole first, piece by
//! piece from the control thread, then a mark, and again behind a gap in which some of them was lost. While nobody follows a
//! kind, nothing is made for it.

mod queue;
mod snapshot;
mod what;

pub use queue::{Queue, Told};
pub use what::{
    Change, Configured, Counts, Dropping, Event, Kind, Level, Line, LinkEvent, NeighborEvent, Phase, Wanted,
    What,
};

use crate::saved::Author;
use net::router::{Happened, Router};
use queue::Kinds;
use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type SharedRouter = Rc<RefCell<Router>>;

/// The most names of interfaces that a follower may ask for.
const NAMES: usize = 256;

/// All who follow. Clones are the same.
#[derive(Clone, Default)]
pub struct Events(Arc<Hub>);

#[derive(Default)]
struct Hub {
    /// The kinds that somebody wants, a bit each.
    wanted: AtomicU8,
    all: Mutex<Vec<Arc<Queue>>>,
}

impl Hub {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Queue>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, all: &[Arc<Queue>]) {
        let kinds = all.iter().fold(0, |kinds, q| kinds | q.wanted.kinds.0);
        self.wanted.store(kinds, Ordering::Relaxed);
    }
}

/// A follower. Nothing is kept for it any more when this is dropped.
pub struct Following {
    events: Events,
    queue: Arc<Queue>,
}

impl Deref for Following {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        &self.queue
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let hub = &self.events.0;
        let mut all = hub.all();
        all.retain(|q| !Arc::ptr_eq(q, &self.queue));
        hub.count(&all);
        drop(all);
        self.queue.close();
    }
}

impl Events {
    /// Whether anybody follows a kind.
    #[inline]
    pub fn wants(&self, kind: Kind) -> bool {
        Kinds(self.0.wanted.load(Ordering::Relaxed)).has(kind)
    }

    /// Tells all who want it, from any thread. It is made once, and only where somebody has room for it.
    pub fn tell(&self, kind: Kind, takes: impl Fn(&Wanted) -> bool, make: impl FnOnce() -> What) {
        if !self.wants(kind) {
            return;
        }
        let (mut make, mut made) = (Some(make), None);
        let all = self.0.all();
        for queue in all.iter().filter(|q| q.wanted.kinds.has(kind) && takes(&q.wanted)) {
            queue.put(kind, || {
                if let Some(make) = make.take() {
                    made = Some(Arc::new(Event::now(make())));
                }
                made.clone()
            });
        }
    }

    /// A line of the log.
    pub fn tell_line(&self, level: Level, text: &str) {
        self.tell(Kind::Log, |w| level <= w.level, || What::Log(Line::of(level, text)));
    }

    /// A change of the configuration.
    pub fn configured(
        &self,
        phase: Phase,
        author: &Author,
        number: Option<u64>,
        within: Option<u64>,
        text: &str,
    ) {
        let event = || Configured { phase, author: author.clone(), number, within, text: text.into() };
        self.tell(Kind::Configuration, |_| true, || What::Configuration(event()));
    }

    /// Begins to follow what is wanted. Must be called on the control thread; the caller bounds how many follow.
    ///
    /// # Errors
    /// What is wanted cannot be.
    pub fn follow(&self, router: &SharedRouter, wanted: Wanted) -> Result<Following, String> {
        if wanted.names() > NAMES {
            return Err(format!("{} names of interfaces: {NAMES} are the most", wanted.names()));
        }
        let states = wanted.kinds.states();
        let queue = Arc::new(Queue::new(wanted));
        let mut all = self.0.all();
        all.push(Arc::clone(&queue));
        self.0.count(&all);
        drop(all);
        if !states.is_empty() {
            let events = self.clone();
            let mut router_now = router.borrow_mut();
            if !router_now.is_listened_to() {
                router_now.listen(Box::new(move |happened| events.happened(happened)));
            }
            drop(router_now);
            let (router, queue, events) = (Rc::clone(router), Arc::clone(&queue), self.clone());
            tokio::task::spawn_local(async move {
                snapshot::keep(&router, &queue).await;
                if let Ok(mut router) = router.try_borrow_mut()
                    && !Kind::ALL.iter().any(|k| k.is_state() && events.wants(*k))
                {
                    router.unlisten();
                }
            });
        }
        Ok(Following { events: self.clone(), queue })
    }

    fn happened(&self, happened: Happened<'_>) {
        match happened {
            Happened::Link { was, now } => {
                let Some(name) = now.or(was).map(|l| l.name.as_str()) else { return };
                self.tell(Kind::Link, |w| w.takes(name), || What::link(was, now));
            }
            Happened::Neighbor { interface, index, address, was, now } => {
                let make = || What::neighbor(interface, index, address, was, now);
                self.tell(Kind::Neighbor, |w| w.takes(interface), make);
            }
        }
    }
}
