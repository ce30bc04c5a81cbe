//! What drivers share whose interfaces lead to another process of the machine, over a Unix socket and memory that both map: memif and
//! vhost-user.

use crate::counts::{Drops, RxDrops};
use crate::place::Place;
use crate::signal::Signal;
use graph::{RxQueue, TxCaps, TxQueue};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How long the side that connects waits before it does so anew, milliseconds.
pub(crate) const RETRY: u64 = 500;
/// Events of one turn.
const EVENTS: usize = 32;
const ALARM: u64 = 0;
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
pub(crate) const CLOSED: &str = "the other side has closed it";

/// The sending sides of a connection, of which it may have fewer than there are workers.
pub trait Senders: Send {
    /// What they do for packets.
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    /// One transmit queue more: the rings are given in turn.
    fn transmit_queue(&mut self) -> Option<Box<dyn TxQueue>>;
}

/// A connection that stands, with its queues.
pub struct Link {
    /// Where packets come from.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Where packets are sent.
    pub tx: Box<dyn Senders>,
}

/// Without what the queues hold.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("rx", &self.rx.len()).finish_non_exhaustive()
    }
}

/// What has happened.
#[derive(Debug)]
pub enum Event {
    /// Packets pass from now on.
    Up {
        /// The interface.
        interface: u32,
        /// Its queues.
        link: Link,
        /// In words.
        words: String,
    },
    /// They do not any more, or other queues follow.
    Down {
        /// The interface.
        interface: u32,
        /// In words; `None` when other queues follow.
        why: Option<String>,
    },
    /// Something for the log.
    Say {
        /// The interface that it is about, if one.
        interface: Option<u32>,
        /// In words.
        text: String,
    },
}

impl Event {
    /// The interface that it is about, if one.
    pub fn interface(&self) -> Option<u32> {
        match self {
            Event::Up { interface, .. } | Event::Down { interface, .. } => Some(*interface),
            Event::Say { interface, .. } => *interface,
        }
    }
}

/// The control side of all interfaces of a driver. Nothing of it waits: whoever owns it calls [`Hub::work`] when its descriptor is
/// readable and when its deadline has come. Times are milliseconds.
pub trait Hub: AsFd + Send + Sized {
    /// What an interface is to be.
    type Config;

    /// One without interfaces.
    ///
    /// # Errors
    /// The system refuses descriptors.
    fn new() -> io::Result<Self>;

    /// Adds an interface, which is down; the side that listens does so from now on.
    ///
    /// # Errors
    /// The socket cannot be had, in words.
    fn add(&mut self, interface: u32, name: &str, config: Self::Config) -> Result<(), String>;

    /// Takes an interface away. Its queues stay whole for who has them.
    fn remove(&mut self, interface: u32, now: u64);

    /// An interface is set up or down; whether it was not so before.
    fn set_up(&mut self, interface: u32, up: bool, now: u64) -> bool;

    /// Ends the connection of an interface.
    fn close(&mut self, interface: u32, why: &str, now: u64);

    /// Packets that an interface dropped before they reached the graph, over all its connections.
    fn drops(&self, interface: u32) -> Option<Arc<Drops>>;

    /// When there is something to do without a descriptor.
    fn deadline(&self) -> Option<u64>;

    /// Does what there is to do at this time; answers what happened, and whether more waits.
    fn work(&mut self, now: u64) -> (Vec<Event>, bool);
}

/// What the queues of a connection and its control side both know.
#[derive(Debug)]
pub(crate) struct Shared {
    /// A ring makes no sense any more.
    broken: AtomicBool,
    /// Bytes of the first packet that no ring can ever hold; 0 for none.
    too_long: AtomicU32,
    /// Wakes the control side.
    pub alarm: Arc<OwnedFd>,
    /// What was dropped, over all connections of the interface.
    pub drops: Arc<Drops>,
}

impl Shared {
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// A ring makes no sense: no queue of the connection touches one any more, and the control side ends it.
    #[cold]
    pub fn give_up(&self) {
        if !self.broken.swap(true, Ordering::Relaxed) {
            Signal::raise(&self.alarm);
        }
    }

    /// A packet is lost that no ring can ever hold: the control side is told of the first.
    #[cold]
    pub fn too_long(&self, bytes: usize) {
        let first = self.too_long.compare_exchange(0, bytes as u32, Ordering::Relaxed, Ordering::Relaxed);
        if first.is_ok() {
            Signal::raise(&self.alarm);
        }
    }

    /// Bytes of the first such packet; 0 for none.
    pub fn longest(&self) -> u32 {
        self.too_long.load(Ordering::Relaxed)
    }
}

/// The descriptors of a hub, told apart by numbers, and its alarm.
pub(crate) struct Descriptors {
    epoll: OwnedFd,
    /// Wakes the control side.
    pub alarm: Arc<OwnedFd>,
    next: u64,
}

/// What a descriptor of a hub has.
pub(crate) enum Ready {
    /// A worker has raised the alarm.
    Alarm,
    /// The descriptor of this number is readable.
    Token(u64),
}

impl AsFd for Descriptors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Descriptors {
    pub fn new() -> io::Result<Descriptors> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &*alarm, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        Ok(Descriptors { epoll, alarm, next: ALARM + 1 })
    }

    /// Follows a descriptor: its number.
    pub fn watch(&mut self, fd: impl AsFd) -> io::Result<u64> {
        let token = self.next;
        self.next += 1;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        Ok(token)
    }

    pub fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Those that have something, some at a time. The alarm is over with this.
    pub fn ready(&self) -> Vec<Ready> {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&AT_ONCE)) else { return vec![] };
        let of = |e: &epoll::Event| match e.data.u64() {
            ALARM => {
                let _ = rustix::io::read(&*self.alarm, &mut [0; 8]);
                Ready::Alarm
            }
            token => Ready::Token(token),
        };
        events.iter().map(of).collect()
    }

    /// For the queues of a new connection.
    pub fn shared(&self, drops: &Arc<Drops>) -> Arc<Shared> {
        let (alarm, drops) = (Arc::clone(&self.alarm), Arc::clone(drops));
        Arc::new(Shared { broken: AtomicBool::new(false), too_long: AtomicU32::new(0), alarm, drops })
    }
}

/// Why nobody can listen there, in words.
pub(crate) fn cannot_listen(place: &Place, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another process listens on the socket {place}, or a file of another kind is there")
        }
        io::ErrorKind::NotFound => {
            format!("the folder of the socket {place} does not exist: make it, or name another")
        }
        _ => format!("cannot listen on the socket {place}: {e}"),
    }
}

/// Why there is no connection to a socket, in words; `nobody` where nobody listens.
pub(crate) fn cannot_connect(place: &Place, e: &io::Error, nobody: String) -> String {
    match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => nobody,
        _ => format!("cannot connect to {place}: {e}"),
    }
}

/// Why a connection has ended, in words.
pub(crate) fn lost(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CLOSED.into(),
        io::ErrorKind::WouldBlock => "the other side takes no messages".into(),
        _ => e.to_string(),
    }
}

/// The process at the other end of a socket, as Linux knows it.
pub(crate) fn process_of(fd: &OwnedFd) -> Option<i32> {
    rustix::net::sockopt::socket_peercred(fd).ok().map(|c| c.pid.as_raw_nonzero().get())
}

/// Its words for the log, behind others.
pub(crate) fn of_process(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" of process {pid}"))
}

/// Whether the other end is closed.
pub(crate) fn is_hung_up(fd: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(fd, PollFlags::RDHUP)];
    rustix::event::poll(&mut asked, Some(&AT_ONCE)) == Ok(1)
}

/// Packets that were dropped before they reached the graph, by reason.
pub fn drops(d: &Drops) -> Vec<(&'static str, u64)> {
    let RxDrops { no_buffer, malformed, .. } = d.read();
    vec![("no-buffer", no_buffer), ("bad-descriptor", malformed)]
}
