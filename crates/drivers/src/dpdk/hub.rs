//! The ports of a router, each with what it is told and what is known of it. All that DPDK may wait in is done by a thread of its
//! own; whoever owns the hub reads [`Hub::events`] when its descriptor is readable.

use super::abi::{LinkState, Lost};
use super::config::Config;
use super::env::Happened;
use super::library::Library;
use super::queue::Senders;
use super::thread::Thread;
use crate::counts::Drops;
use crate::signal::Signal;
use graph::{Pool, RxQueue};
use packet::MacAddr;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the end of a router waits for its ports to be let go.
const END: Duration = Duration::from_secs(3);

/// What the thread is told.
pub(super) enum Work {
    /// There is an interface more.
    Add { id: u32, interface: u32, config: Config, workers: usize, told: Arc<Told> },
    /// One is gone.
    Remove(u32),
    /// Something is to be otherwise.
    Set(u32, Setting),
    /// Something happened to a port.
    Happened(u32, Happened),
    /// The router ends.
    End,
}

/// What an interface can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// It receives and sends, or not.
    Up(bool),
    /// The largest IP packet, bytes.
    Mtu(u16),
    /// Its address.
    Mac(MacAddr),
    /// It takes frames for any station.
    Promiscuous(bool),
    /// It takes frames for a group, or not.
    Group(MacAddr, bool),
}

/// How an interface stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The device is looked for.
    #[default]
    Opening,
    /// It is there, and the interface is down.
    Down,
    /// It receives and sends.
    Up,
    /// It is not there, or refuses.
    Absent,
}

/// What is known of a port.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How it stands.
    pub state: State,
    /// Its driver, and what it does, in words.
    pub words: String,
    /// Its link.
    pub link: LinkState,
    /// The largest IP packet it takes, bytes; 0 where it is not known yet.
    pub most_mtu: u16,
    /// Why it is not there.
    pub trouble: Option<String>,
    /// Packets dropped by the device, over all times it was there.
    pub lost: Lost,
    /// Extended statistics, as they were a second ago at most.
    pub stats: Vec<(String, u64)>,
}

/// What both sides know of an interface.
#[derive(Default)]
pub(super) struct Told {
    pub seen: Mutex<Seen>,
    pub drops: Arc<Drops>,
    /// Packets are sent: its link is up.
    pub link: Arc<AtomicBool>,
}

impl Told {
    pub fn seen<R>(&self, work: impl FnOnce(&mut Seen) -> R) -> R {
        work(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A port that runs, with its queues.
pub struct Running {
    /// Its receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Where packets are sent.
    pub tx: Senders,
    /// It has link.
    pub link: bool,
}

/// What has happened.
pub enum Event {
    /// The device of an interface is there, with an address.
    Found {
        /// The address.
        mac: MacAddr,
        /// In words.
        words: String,
    },
    /// It runs.
    Up {
        /// Its queues.
        running: Running,
    },
    /// It is to stop: its queues are to be dropped.
    Down {
        /// In words, where it was not asked for.
        why: Option<String>,
    },
    /// Its link has changed.
    Link {
        /// It has link.
        up: bool,
    },
    /// It does not take an MTU, and goes on with another one.
    Mtu {
        /// The one that it does not take, bytes.
        mtu: u16,
        /// The one that it has, bytes.
        stays: u16,
        /// In words.
        why: String,
    },
    /// Something for the log.
    Say {
        /// In words.
        text: String,
    },
}

/// Where the thread puts events.
pub(super) struct Events {
    list: Mutex<Vec<(u32, Event)>>,
    signal: Signal,
}

impl Events {
    pub fn push(&self, id: u32, event: Event) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push((id, event));
        self.signal.ring();
    }
}

/// All ports of a router.
pub struct Hub {
    events: Arc<Events>,
    thread: Option<(Sender<Work>, JoinHandle<()>)>,
    /// The interfaces, each by a number that no other had before.
    ports: BTreeMap<u32, u32>,
    next: u32,
}

/// What tells an interface what it is to be, and knows what it is.
#[derive(Clone)]
pub struct Handle {
    id: u32,
    work: Sender<Work>,
    told: Arc<Told>,
}

impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.signal.fd()
    }
}

impl Hub {
    /// One without ports.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn new() -> io::Result<Hub> {
        let events = Arc::new(Events { list: Mutex::new(vec![]), signal: Signal::create()? });
        Ok(Hub { events, thread: None, ports: BTreeMap::new(), next: 0 })
    }

    /// Where work is taken to the thread, which begins with the first port, and with it DPDK's environment, unless that has begun already.
    fn work(&mut self, library: &'static Library, pool: &Arc<Pool>) -> io::Result<Sender<Work>> {
        if let Some((work, _)) = &self.thread {
            return Ok(work.clone());
        }
        let (work, theirs) = channel();
        let (pool, events, own) = (Arc::clone(pool), Arc::clone(&self.events), work.clone());
        let run = move || Thread::new(library, pool, events, own).run(&theirs);
        let thread = std::thread::Builder::new().name("quiver_dpdk".into()).spawn(run)?;
        self.thread = Some((work.clone(), thread));
        Ok(work)
    }

    /// Adds an interface, which is down, and over which so many workers send. All ports of a hub have one pool.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn add(
        &mut self,
        library: &'static Library,
        pool: &Arc<Pool>,
        interface: u32,
        config: Config,
        workers: usize,
    ) -> io::Result<Handle> {
        let work = self.work(library, pool)?;
        let (id, told) = (self.next, Arc::new(Told::default()));
        self.next += 1;
        let _ = work.send(Work::Add { id, interface, config, workers, told: Arc::clone(&told) });
        self.ports.insert(id, interface);
        Ok(Handle { id, work, told })
    }

    /// Takes an interface away: its port is let go as soon as nobody has its queues.
    pub fn remove(&mut self, handle: &Handle) {
        if self.ports.remove(&handle.id).is_some() {
            let _ = handle.work.send(Work::Remove(handle.id));
        }
    }

    /// What has happened since this was last asked, to interfaces that are there, each with its number.
    pub fn events(&mut self) -> Vec<(u32, Event)> {
        self.events.signal.drain();
        let all = std::mem::take(&mut *self.events.list.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().filter_map(|(id, e)| Some((*self.ports.get(&id)?, e))).collect()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let Some((work, thread)) = self.thread.take() else { return };
        let _ = work.send(Work::End);
        // Queues that nobody has asked for are no reason to wait.
        self.ports.clear();
        let end = Instant::now() + END;
        while !thread.is_finished() && Instant::now() < end {
            drop(self.events());
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

impl Handle {
    /// Tells it something, which takes its time.
    pub fn set(&self, setting: Setting) {
        let _ = self.work.send(Work::Set(self.id, setting));
    }

    /// Looks at what is known of it.
    pub fn seen<R>(&self, look: impl FnOnce(&Seen) -> R) -> R {
        self.told.seen(|s| look(s))
    }

    /// Whether it has link.
    pub fn link(&self) -> bool {
        self.told.link.load(Ordering::Relaxed)
    }

    /// Packets dropped before they reached the graph, by reason.
    pub fn drops(&self) -> Vec<(&'static str, u64)> {
        let (own, lost) = (self.told.drops.read(), self.told.seen(|s| s.lost));
        vec![
            ("no-buffer", lost.no_buffer),
            ("malformed", own.malformed),
            ("rx-ring-full", lost.missed),
            ("rx-error", lost.errors),
        ]
    }
}
