//! The thread that listens for zebra: one connection at a time, of which the newest counts.

use super::Frames;
use crate::mirror::Mirror;
use crate::route::{AF_INET, AF_INET6, AF_MPLS, Change, LabelChange};
use crate::wire::{Message, Messages, kind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Changes that are told at once, at most about.
const BATCH: usize = 4096;
/// Bytes of one reading, and readings before others have their turn.
const READ: usize = 64 << 10;
const READINGS: usize = 64;
/// So long nothing comes when zebra has told all.
const QUIET: Duration = Duration::from_secs(3);
/// Routes and nexthop objects of one zebra: who tells more is no router.
const MOST_ROUTES: usize = 8 << 20;
const MOST_OBJECTS: usize = 1 << 20;

/// How zebra is listened to.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long routes stay when the connection has ended: until another came, and over that until they are told again.
    pub hold: Duration,
}

/// What a listener tells.
#[derive(Clone, Debug)]
pub enum Event {
    /// zebra has connected.
    Connected(SocketAddr),
    /// The connection has ended, and why.
    Ended(String),
    /// All routes come anew as changes: what was told before counts no longer.
    Begins,
    /// Routes have changed, in this order.
    Changes(Vec<Change>),
    /// Routes of labels have changed, in this order.
    Labels(Vec<LabelChange>),
    /// All has been told; so many routes there are.
    Synced(usize),
    /// It cannot listen any more, and has ended.
    Failed(String),
}

/// Counts of a listener. Written by its thread alone.
#[derive(Debug, Default)]
pub struct Stats {
    /// Messages of new or changed routes.
    pub new_routes: AtomicU64,
    /// Messages of routes that went.
    pub deleted_routes: AtomicU64,
    /// Messages of nexthop objects.
    pub nexthops: AtomicU64,
    /// Messages of other kinds.
    pub others: AtomicU64,
    /// Connections.
    pub connections: AtomicU64,
    /// Those that were ended for what came over them.
    pub refused: AtomicU64,
    /// Routes now.
    pub routes: AtomicU64,
    /// Different contents that they have.
    pub contents: AtomicU64,
    /// Nexthop objects.
    pub objects: AtomicU64,
    /// Labels that have a route.
    pub labels: AtomicU64,
}

impl Stats {
    fn count(&self, m: &Message<'_>) {
        let route = matches!(m.body.first(), Some(&AF_INET | &AF_INET6 | &AF_MPLS));
        let n = match m.kind {
            kind::RTM_NEWROUTE if route => &self.new_routes,
            kind::RTM_DELROUTE if route => &self.deleted_routes,
            kind::RTM_NEWNEXTHOP | kind::RTM_DELNEXTHOP => &self.nexthops,
            _ => &self.others,
        };
        n.fetch_add(1, Ordering::Relaxed);
    }
}

/// A listener at work; ends when dropped.
#[derive(Debug)]
pub struct Fpm {
    /// Its counts.
    pub stats: Arc<Stats>,
    wake: OwnedFd,
    stop: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
}

impl Fpm {
    /// Has all routes told anew.
    pub fn tell_all(&self) {
        self.again.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &[1]);
    }
}

impl Drop for Fpm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.wake, &[1]);
    }
}

/// Listens for zebra. `send` takes what there is to tell, on the listener's thread, and may block: zebra waits then. The listener ends when it
/// answers false. `devices` answers the tables of VRF devices, and of `lo`, by Linux's index: zebra does not tell what a device is. It is asked on that
/// thread when a label leads over a device that is not known.
///
/// # Errors
/// No thread or pipe could be made.
pub fn listen(
    listener: TcpListener,
    config: Config,
    devices: impl FnMut() -> Option<HashMap<u32, u32>> + Send + 'static,
    send: impl FnMut(Event) -> bool + Send + 'static,
) -> io::Result<Fpm> {
    listener.set_nonblocking(true)?;
    let (woken, wake) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK)?;
    let (stats, stop, again) =
        (Arc::<Stats>::default(), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let mut at_work = AtWork {
        listener,
        config,
        devices,
        send,
        mirror: Mirror::new(),
        changes: vec![],
        stats: Arc::clone(&stats),
        stop: Arc::clone(&stop),
        again: Arc::clone(&again),
        woken,
        connection: None,
        syncing: false,
        gone: None,
        held: None,
    };
    std::thread::Builder::new().name("fpm".to_owned()).spawn(move || {
        if let Err(e) = at_work.run()
            && e.kind() != io::ErrorKind::ConnectionAborted
        {
            let _ = at_work.tell(Event::Failed(e.to_string()));
        }
    })?;
    Ok(Fpm { stats, wake, stop, again })
}

struct Connection {
    stream: TcpStream,
    frames: Frames,
    /// When something came last.
    heard: Instant,
}

/// What came over a connection.
enum Came {
    /// This much, and more may wait.
    More,
    /// Nothing waits.
    Nothing,
    /// The end.
    End(String, bool),
}

struct AtWork<D, S> {
    listener: TcpListener,
    config: Config,
    devices: D,
    send: S,
    mirror: Mirror,
    changes: Vec<Change>,
    stats: Arc<Stats>,
    stop: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
    woken: OwnedFd,
    connection: Option<Connection>,
    /// zebra tells all, and has not come to an end.
    syncing: bool,
    /// When the connection ended, while its routes are there still.
    gone: Option<Instant>,
    /// Routes of the connection before this one stay until then at least: daemons that are started anew with zebra tell theirs when their sessions are up, which
    /// is no end of what there is to tell.
    held: Option<Instant>,
}

impl<D: FnMut() -> Option<HashMap<u32, u32>>, S: FnMut(Event) -> bool> AtWork<D, S> {
    fn tell(&mut self, event: Event) -> io::Result<()> {
        match (self.send)(event) && !self.stop.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Tells what has changed, when it is at least `n`.
    fn flush(&mut self, n: usize) -> io::Result<()> {
        self.stats.routes.store(self.mirror.len() as u64, Ordering::Relaxed);
        self.stats.contents.store(self.mirror.contents() as u64, Ordering::Relaxed);
        self.stats.objects.store(self.mirror.nexthops() as u64, Ordering::Relaxed);
        self.stats.labels.store(self.mirror.labels() as u64, Ordering::Relaxed);
        if self.mirror.asks_for_devices() {
            // Linux always has a `lo`.
            match (self.devices)().filter(|d| !d.is_empty()) {
                Some(devices) => self.mirror.take_devices(&devices),
                None => self.mirror.ask_for_devices(),
            }
        }
        let labels = self.mirror.take_label_changes();
        if !labels.is_empty() {
            self.tell(Event::Labels(labels))?;
        }
        if self.changes.len() < n {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        self.tell(Event::Changes(changes))
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            if self.again.swap(false, Ordering::AcqRel) {
                self.tell_all()?;
            }
            match self.listener.accept() {
                Ok((stream, peer)) => self.connected(stream, peer)?,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Its peer is gone already, or descriptors are short: nobody is the worse for it.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            self.read()?;
            self.settle()?;
        }
    }

    /// When there is something to do by itself.
    fn deadline(&self) -> Option<Instant> {
        let quiet = self.connection.as_ref().filter(|_| self.syncing).map(|c| c.heard + QUIET);
        let quiet = quiet.max(self.held.filter(|_| quiet.is_some()));
        quiet.into_iter().chain(self.gone.map(|at| at + self.config.hold)).min()
    }

    fn wait(&mut self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN),
        ];
        fds.extend(self.connection.iter().map(|c| PollFd::from_borrowed_fd(c.stream.as_fd(), PollFlags::IN)));
        let wait = self.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        // Up to the next millisecond, so as not to look before the time.
        let wait = wait.and_then(|w| Timespec::try_from(w + Duration::from_millis(1)).ok());
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let mut bytes = [0u8; 64];
        let _ = rustix::io::read(&self.woken, &mut bytes);
        match self.stop.load(Ordering::Acquire) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    fn connected(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        if self.connection.is_some() {
            self.ended(format!("{peer} has connected in its place"))?;
        }
        stream.set_nonblocking(true)?;
        self.stats.connections.fetch_add(1, Ordering::Relaxed);
        self.connection = Some(Connection { stream, frames: Frames::default(), heard: Instant::now() });
        self.held = self.gone.take().map(|at| at + self.config.hold);
        self.syncing = true;
        self.mirror.begin_anew();
        self.tell(Event::Connected(peer))
    }

    fn ended(&mut self, why: String) -> io::Result<()> {
        self.connection = None;
        self.syncing = false;
        self.gone = Some(Instant::now());
        self.tell(Event::Ended(why))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buf = vec![0; READ];
        for _ in 0..READINGS {
            let came = match &mut self.connection {
                Some(c) => take(c, &mut buf, &mut self.mirror, &self.stats, &mut self.changes),
                None => return Ok(()),
            };
            self.flush(BATCH)?;
            match came {
                Came::More => {}
                Came::Nothing => break,
                Came::End(why, bad) => {
                    self.stats.refused.fetch_add(u64::from(bad), Ordering::Relaxed);
                    self.ended(why)?;
                    break;
                }
            }
        }
        self.flush(1)
    }

    /// Takes out what zebra has not told again, once it has told all, and what has stayed without it for long enough.
    fn settle(&mut self) -> io::Result<()> {
        let due = self.deadline().is_some_and(|at| at <= Instant::now());
        if !due {
            return Ok(());
        }
        if self.gone.take().is_some() {
            self.mirror.begin_anew();
        }
        (self.syncing, self.held) = (false, None);
        self.mirror.end(&mut self.changes);
        self.flush(1)?;
        self.tell(Event::Synced(self.mirror.len()))
    }

    fn tell_all(&mut self) -> io::Result<()> {
        self.tell(Event::Begins)?;
        let all = self.mirror.iter().map(|(key, r)| Change { key, was: None, is: Some(Arc::clone(r)) });
        let mut all: Vec<Change> = all.collect();
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(BATCH));
            self.tell(Event::Changes(std::mem::replace(&mut all, rest)))?;
        }
        let labels = self.mirror.label_routes();
        let labels: Vec<LabelChange> =
            labels.map(|(key, r)| LabelChange { key, was: None, is: Some(Arc::clone(r)) }).collect();
        if !labels.is_empty() {
            self.tell(Event::Labels(labels))?;
        }
        self.tell(Event::Synced(self.mirror.len()))
    }
}

/// Reads once.
fn take(
    c: &mut Connection,
    buf: &mut [u8],
    mirror: &mut Mirror,
    stats: &Stats,
    out: &mut Vec<Change>,
) -> Came {
    let n = match c.stream.read(buf) {
        Ok(0) => return Came::End("zebra has ended it".into(), false),
        Ok(n) => n,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Came::Nothing,
        Err(e) if e.kind() == io::ErrorKind::Interrupted => return Came::More,
        Err(e) => return Came::End(e.to_string(), false),
    };
    c.heard = Instant::now();
    c.frames.push(&buf[..n]);
    loop {
        let messages = match c.frames.next_frame() {
            Ok(Some(messages)) => messages,
            Ok(None) => break,
            Err(e) => return Came::End(e.to_string(), true),
        };
        for m in Messages(messages) {
            stats.count(&m);
            mirror.take_plain(&m, out);
        }
    }
    if mirror.len() + mirror.labels() > MOST_ROUTES || mirror.nexthops() > MOST_OBJECTS {
        return Came::End(format!("more than {MOST_ROUTES} routes or {MOST_OBJECTS} nexthop objects"), true);
    }
    Came::More
}
