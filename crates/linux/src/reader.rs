//! The thread that reads: it follows a namespace's routes, and tells changes in batches.
//!
//! When messages were lost (ENOBUFS), or may have been, all routes are read anew, and what differs is told. What changes while that goes on is
//! kept, and taken behind it.

use crate::address::{self, Address};
use crate::fdb::{self, Fdb};
use crate::link::{self, Link};
use crate::mirror::{Doubt, Mirror};
use crate::neighbor::{self, Neighbor};
use crate::route::{Change, LabelChange};
use crate::socket::{DEVICES, FDB, NEIGHBORS, RECV, Read, Request, Sockets, error_of, routes};
use crate::wire::{Message, Messages, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Changes that are told at once, at most about.
const BATCH: usize = 4096;
/// Bytes of changes that are kept while all is read.
const BACKLOG: usize = 64 << 20;
/// Datagrams that are read before all is read anew: what the kernel kept of changes that are older.
const OLDER: usize = 1 << 17;
/// Changes that follow others so soon are a crowd: they are waited for this long, and read together. One by one each would wake this
/// thread and the control thread, at the cost of who makes them.
const CROWD: Duration = Duration::from_millis(10);
const GATHER: Duration = Duration::from_millis(2);
/// The pause before all is read once more because it changed meanwhile, times how often that has happened.
const AGAIN: Duration = Duration::from_millis(200);

/// What a reader tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// Routes have changed, in this order.
    Changes(Vec<Change>),
    /// Routes of labels have changed, in this order.
    Labels(Vec<LabelChange>),
    /// Of these devices (by Linux's index) the link has changed, or addresses have.
    Devices(BTreeSet<u32>),
    /// What is known of these neighbors has changed, in this order.
    Neighbors(Vec<Neighbor>),
    /// All neighbors: others are not known any more. What has changed of devices may not have been told either.
    AllNeighbors(Vec<Neighbor>),
    /// Where these MAC addresses are has changed, in this order.
    Fdb(Vec<Fdb>),
    /// All MAC addresses that are told of: others are not known any more.
    AllFdb(Vec<Fdb>),
    /// All were read; what differed was told before.
    Synced {
        /// Why; `None` at the start.
        why: Option<Doubt>,
        /// Routes that the kernel has.
        routes: usize,
        /// Those that differed.
        differed: usize,
        /// How long it took.
        took: Duration,
    },
    /// It cannot read any more, and has ended.
    Failed(String),
}

/// Counts of a reader. Written by its thread alone.
#[derive(Debug, Default)]
pub struct Stats {
    /// Messages of new or changed routes.
    pub new_routes: AtomicU64,
    /// Messages of routes that went.
    pub deleted_routes: AtomicU64,
    /// Messages of nexthop objects.
    pub nexthops: AtomicU64,
    /// Messages of links.
    pub links: AtomicU64,
    /// Messages of addresses.
    pub addresses: AtomicU64,
    /// Messages of neighbors.
    pub neighbors: AtomicU64,
    /// Messages of other kinds.
    pub others: AtomicU64,
    /// How often the kernel threw messages away.
    pub overflows: AtomicU64,
    /// How often all routes were read.
    pub syncs: AtomicU64,
    /// How long the last reading of all took, microseconds.
    pub sync_us: AtomicU64,
    /// Routes that differed in readings behind the first.
    pub repaired: AtomicU64,
    /// Changes told.
    pub changes: AtomicU64,
    /// Routes of the kernel's now.
    pub routes: AtomicU64,
    /// Different contents that they have.
    pub contents: AtomicU64,
    /// Nexthop objects.
    pub objects: AtomicU64,
    /// Labels that have a route.
    pub labels: AtomicU64,
    /// Most bytes of changes that were kept while all was read.
    pub backlog: AtomicU64,
}

fn add(n: &AtomicU64, more: u64) {
    n.fetch_add(more, Ordering::Relaxed);
}

impl Stats {
    fn count(&self, message: u16) {
        let n = match message {
            kind::RTM_NEWROUTE => &self.new_routes,
            kind::RTM_DELROUTE => &self.deleted_routes,
            kind::RTM_NEWNEXTHOP | kind::RTM_DELNEXTHOP => &self.nexthops,
            kind::RTM_NEWLINK | kind::RTM_DELLINK => &self.links,
            kind::RTM_NEWADDR | kind::RTM_DELADDR => &self.addresses,
            kind::RTM_NEWNEIGH | kind::RTM_DELNEIGH => &self.neighbors,
            _ => &self.others,
        };
        add(n, 1);
    }
}

/// A reader at work; ends when dropped.
#[derive(Debug)]
pub struct Reader {
    /// Its counts.
    pub stats: Arc<Stats>,
    wake: OwnedFd,
    stop: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Has all routes read anew.
    pub fn sync(&self) {
        self.again.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &[1]);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &[1]);
        // It is not waited for: it may stand in `send`, for whoever drops this to take what it tells.
        drop(self.thread.take());
    }
}

/// Follows the routes of the namespace in which `sockets` were opened, or its devices and neighbors alone where those are told of no routes. `send` takes what there is to tell, on the reader's thread, and may
/// block; the reader ends when it answers false.
///
/// # Errors
/// No thread or pipe could be made.
pub fn follow(sockets: Sockets, send: impl FnMut(Event) -> bool + Send + 'static) -> io::Result<Reader> {
    let (woken, wake) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
    let (stats, stop, again) =
        (Arc::<Stats>::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let teller = Teller {
        send,
        stats: Arc::clone(&stats),
        stop: Arc::clone(&stop),
        changes: Vec::new(),
        told: 0,
        devices: BTreeSet::new(),
        neighbors: Vec::new(),
        fdb: Vec::new(),
    };
    let mirror = Mirror::new();
    let mut at_work =
        AtWork { sockets, mirror, teller, again: Arc::clone(&again), woken, buf: vec![0; RECV] };
    let thread = std::thread::Builder::new().name("netlink".to_owned()).spawn(move || {
        if let Err(e) = at_work.run()
            && e.kind() != io::ErrorKind::ConnectionAborted
        {
            let _ = at_work.teller.tell(Event::Failed(e.to_string()));
        }
    })?;
    Ok(Reader { stats, wake, stop, again, thread: Some(thread) })
}

/// All routes of the namespace of the sockets, read once.
///
/// # Errors
/// The kernel cannot be asked.
pub fn read_all(sockets: &mut Sockets) -> io::Result<Mirror> {
    let mut mirror = Mirror::new();
    let mut buf = vec![0; RECV];
    let mut ignored = Vec::new();
    for request in routes() {
        ask(sockets, request, &mut buf, |step| {
            match step {
                Step::Told(m) => mirror.told(&m, &mut ignored),
                Step::Pause(_) => ignored.clear(),
            }
            Ok(())
        })?;
    }
    Ok(mirror)
}

/// A device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its link.
    pub link: Link,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// All devices of the namespace of the sockets, by Linux's index, read once.
///
/// # Errors
/// The kernel cannot be asked.
pub fn read_devices(sockets: &mut Sockets) -> io::Result<BTreeMap<u32, Device>> {
    let mut buf = vec![0; RECV];
    let mut all: BTreeMap<u32, Device> = BTreeMap::new();
    for request in DEVICES {
        ask(sockets, request, &mut buf, |step| {
            let Step::Told(m) = step else { return Ok(()) };
            if m.kind == kind::RTM_NEWLINK
                && let Some(link) = link::parse(m.body)
            {
                all.insert(link.ifindex, Device { link, addresses: vec![] });
            } else if m.kind == kind::RTM_NEWADDR
                && let Some(address) = address::parse(m.body)
                && let Some(device) = all.get_mut(&address.ifindex)
            {
                device.addresses.push(address);
            }
            Ok(())
        })?;
    }
    Ok(all)
}

/// Tells the kernel of MAC addresses behind ports of bridges (Linux's index of the port, address, whether it is there), one after the other; those
/// that it did not take, and the error number.
///
/// # Errors
/// The kernel cannot be told.
pub fn tell_fdb(sockets: &mut Sockets, all: &[(u32, [u8; 6], bool)]) -> io::Result<Vec<(usize, i32)>> {
    let (mut buf, mut refused) = (vec![0; RECV], vec![]);
    for (n, (ifindex, mac, there)) in all.iter().enumerate() {
        let seq = sockets.tell_fdb(*ifindex, *mac, *there)?;
        loop {
            match sockets.answers(&mut buf)? {
                Read::Bytes(len) => {
                    let answer = Messages(&buf[..len]).find(|m| m.seq == seq && m.kind == NLMSG_ERROR);
                    if let Some(answer) = answer {
                        let error = error_of(answer.body);
                        refused.extend((error != 0).then_some((n, error)));
                        break;
                    }
                }
                Read::Empty => wait_readable(sockets),
                Read::Overflow => break,
            }
        }
    }
    Ok(refused)
}

/// What [`ask`] comes to.
enum Step<'a> {
    /// A message of the answer.
    Told(Message<'a>),
    /// A reading is done, or nothing can be read yet.
    Pause(&'a Sockets),
}

/// Waits until a change that goes on has been made.
fn wait_turn(sockets: &mut Sockets, buf: &mut [u8]) -> io::Result<()> {
    let seq = sockets.request_turn()?;
    loop {
        match sockets.answers(buf)? {
            Read::Bytes(n) if Messages(&buf[..n]).any(|m| m.seq == seq) => return Ok(()),
            Read::Bytes(_) => {}
            Read::Empty => wait_readable(sockets),
            Read::Overflow => return Ok(()),
        }
    }
}

fn wait_readable(sockets: &Sockets) {
    let [_, answers] = sockets.descriptors();
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::from_borrowed_fd(answers, PollFlags::IN)], Some(&second));
}

/// Asks for all of a kind. Whether that changed while it was told.
fn ask(
    sockets: &mut Sockets,
    request: Request,
    buf: &mut [u8],
    mut step: impl FnMut(Step<'_>) -> io::Result<()>,
) -> io::Result<bool> {
    let seq = sockets.request_all(request)?;
    let mut changed = false;
    loop {
        match sockets.answers(buf)? {
            Read::Bytes(n) => {
                for m in Messages(&buf[..n]) {
                    changed |= m.flags & NLM_F_DUMP_INTR != 0;
                    match m.kind {
                        _ if m.seq != seq => {}
                        NLMSG_DONE => return Ok(changed),
                        // The kernel has nothing of this kind.
                        NLMSG_ERROR if error_of(m.body) != 0 => return Ok(changed),
                        _ => step(Step::Told(m))?,
                    }
                }
            }
            Read::Empty => wait_readable(sockets),
            Read::Overflow => changed = true,
        }
        step(Step::Pause(sockets))?;
    }
}

/// What there is to tell, and to whom.
struct Teller<S> {
    send: S,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
    changes: Vec<Change>,
    /// Changes told.
    told: usize,
    devices: BTreeSet<u32>,
    neighbors: Vec<Neighbor>,
    fdb: Vec<Fdb>,
}

impl<S: FnMut(Event) -> bool> Teller<S> {
    fn tell(&mut self, event: Event) -> io::Result<()> {
        match (self.send)(event) && !self.stop.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Notes what a message says of devices and neighbors.
    fn note(&mut self, m: &Message<'_>) {
        self.stats.count(m.kind);
        match m.kind {
            kind::RTM_NEWLINK | kind::RTM_DELLINK => {
                self.devices.extend(link::parse(m.body).map(|l| l.ifindex));
            }
            kind::RTM_NEWADDR | kind::RTM_DELADDR => {
                self.devices.extend(address::parse(m.body).map(|a| a.ifindex));
            }
            kind::RTM_NEWNEIGH | kind::RTM_DELNEIGH => {
                self.neighbors.extend(neighbor::parse(m));
                self.fdb.extend(fdb::parse(m));
            }
            _ => {}
        }
    }

    /// Tells what has changed of labels.
    fn flush_labels(&mut self, mirror: &mut Mirror) -> io::Result<()> {
        match mirror.take_label_changes() {
            changes if changes.is_empty() => Ok(()),
            changes => self.tell(Event::Labels(changes)),
        }
    }

    /// Tells what has changed, when it is at least `n`.
    fn flush(&mut self, n: usize) -> io::Result<()> {
        if self.stop.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if self.changes.len() + self.neighbors.len() + self.devices.len() + self.fdb.len() < n {
            return Ok(());
        }
        // Routes lead over devices, and to neighbors.
        if !self.devices.is_empty() {
            let devices = std::mem::take(&mut self.devices);
            self.tell(Event::Devices(devices))?;
        }
        if !self.neighbors.is_empty() {
            let neighbors = std::mem::take(&mut self.neighbors);
            self.tell(Event::Neighbors(neighbors))?;
        }
        if !self.fdb.is_empty() {
            let fdb = std::mem::take(&mut self.fdb);
            self.tell(Event::Fdb(fdb))?;
        }
        if self.changes.is_empty() {
            return Ok(());
        }
        add(&self.stats.changes, self.changes.len() as u64);
        self.told += self.changes.len();
        let changes = std::mem::take(&mut self.changes);
        self.tell(Event::Changes(changes))
    }
}

struct AtWork<S> {
    sockets: Sockets,
    mirror: Mirror,
    teller: Teller<S>,
    again: Arc<AtomicBool>,
    woken: OwnedFd,
    buf: Vec<u8>,
}

impl<S: FnMut(Event) -> bool> AtWork<S> {
    fn note(&self) {
        let Teller { stats, .. } = &self.teller;
        stats.routes.store(self.mirror.len() as u64, Ordering::Relaxed);
        stats.contents.store(self.mirror.contents() as u64, Ordering::Relaxed);
        stats.objects.store(self.mirror.nexthops() as u64, Ordering::Relaxed);
        stats.labels.store(self.mirror.labels() as u64, Ordering::Relaxed);
    }

    fn run(&mut self) -> io::Result<()> {
        self.sync(None)?;
        let (mut restless, mut crowd) = (0, Instant::now());
        loop {
            let why = self.mirror.take_doubt();
            if self.again.swap(false, Ordering::AcqRel) || why.is_some() {
                // Older changes first, so that what is read is newer than what has been told.
                self.read(OLDER)?;
                let why = self.mirror.take_doubt().max(why).unwrap_or(Doubt::Silent);
                match self.sync(Some(why))? {
                    true => restless += 1,
                    false => restless = 0,
                }
                // Half of the time for what changes, at least.
                let took = Duration::from_micros(self.teller.stats.sync_us.load(Ordering::Relaxed));
                std::thread::sleep(if restless > 0 { AGAIN * restless.min(10) } else { took });
                continue;
            }
            self.wait()?;
            if crowd.elapsed() < CROWD {
                std::thread::sleep(GATHER);
            }
            self.read(BATCH)?;
            crowd = Instant::now();
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        let [events, _] = self.sockets.descriptors();
        let mut fds = [
            PollFd::from_borrowed_fd(events, PollFlags::IN),
            PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let mut bytes = [0u8; 64];
        let _ = rustix::io::read(&self.woken, &mut bytes);
        Ok(())
    }

    /// Reads up to `n` datagrams of changes, and tells them.
    fn read(&mut self, n: usize) -> io::Result<()> {
        for _ in 0..n {
            match self.sockets.changes(&mut self.buf)? {
                Read::Bytes(n) => {
                    for m in Messages(&self.buf[..n]) {
                        self.teller.note(&m);
                        self.mirror.take(&m, &mut self.teller.changes);
                    }
                }
                Read::Empty => break,
                Read::Overflow => {
                    add(&self.teller.stats.overflows, 1);
                    self.mirror.doubt(Doubt::Overflow);
                }
            }
            self.teller.flush(BATCH)?;
        }
        self.teller.flush(1)?;
        self.teller.flush_labels(&mut self.mirror)?;
        self.note();
        Ok(())
    }

    /// Reads all routes, and tells what differs. Whether it has to be done once more.
    fn sync(&mut self, why: Option<Doubt>) -> io::Result<bool> {
        let began = Instant::now();
        let (mut backlog, mut lost, mut changed) = (Vec::new(), false, false);
        let mut later = vec![0; RECV];
        let AtWork { sockets, mirror, teller, buf, .. } = &mut *self;
        let before = teller.told;
        wait_turn(sockets, buf)?;
        mirror.begin();
        let told_of_routes = sockets.has_routes();
        for request in routes().filter(|_| told_of_routes) {
            changed |= ask(sockets, request, buf, |step| {
                let sockets = match step {
                    Step::Told(m) => {
                        mirror.told(&m, &mut teller.changes);
                        return Ok(());
                    }
                    Step::Pause(sockets) => sockets,
                };
                // What changes meanwhile is newer than what is read.
                loop {
                    match sockets.changes(&mut later)? {
                        Read::Bytes(n) if backlog.len() + n <= BACKLOG => backlog.extend(&later[..n]),
                        Read::Bytes(_) => lost = true,
                        Read::Empty => break,
                        Read::Overflow => {
                            add(&teller.stats.overflows, 1);
                            lost = true;
                        }
                    }
                }
                teller.flush(BATCH)
            })?;
        }
        mirror.end(&mut teller.changes);
        teller.flush(1)?;
        teller.flush_labels(mirror)?;
        if why != Some(Doubt::Silent) {
            let mut all = Vec::new();
            changed |= ask(sockets, NEIGHBORS, buf, |step| {
                if let Step::Told(m) = step {
                    all.extend(neighbor::parse(&m));
                }
                Ok(())
            })?;
            teller.tell(Event::AllNeighbors(all))?;
            let mut all = Vec::new();
            changed |= ask(sockets, FDB, buf, |step| {
                if let Step::Told(m) = step {
                    all.extend(fdb::parse(&m));
                }
                Ok(())
            })?;
            teller.tell(Event::AllFdb(all))?;
        }
        let differed = teller.told - before;
        teller.stats.backlog.fetch_max(backlog.len() as u64, Ordering::Relaxed);
        for m in Messages(&backlog) {
            teller.note(&m);
            mirror.take(&m, &mut teller.changes);
        }
        teller.flush(1)?;
        teller.flush_labels(mirror)?;
        if lost {
            mirror.doubt(Doubt::Overflow);
        } else if changed {
            mirror.doubt(Doubt::Silent);
        }
        add(&teller.stats.syncs, 1);
        if why.is_some() {
            add(&teller.stats.repaired, differed as u64);
        }
        let took = began.elapsed();
        teller.stats.sync_us.store(took.as_micros() as u64, Ordering::Relaxed);
        teller.tell(Event::Synced { why, routes: mirror.len(), differed, took })?;
        self.note();
        Ok(lost || changed)
    }
}
