//! The control side of all memif interfaces: sockets that listen, connections in both roles, and what becomes of them. Nothing here
//! waits: whoever owns the hub calls [`Hub::work`] when its descriptor is readable and when its deadline has come.

use super::message::{Message, Mode, SECRET, VERSION};
use super::queue::{MemifRx, MemifTx, Shared, TxRing};
use super::region::{self, Region};
use super::ring::{self, Own, Ring};
use super::signal::Signal;
use super::socket::{self, Listening, Place};
use crate::counts::{Drops, RxDrops};
use graph::{RxQueue, TxQueue};
use packet::MacAddr;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Most rings of a direction.
pub const MOST_RINGS: usize = 64;
/// Connections of a socket whose handshake is under way.
const MOST_YOUNG: usize = 32;
/// How long a handshake may take, milliseconds.
const HANDSHAKE: u64 = 3000;
/// How long a slave waits before it connects anew, milliseconds.
const RETRY: u64 = 500;
/// Events of one turn.
const EVENTS: usize = 32;
const ALARM: u64 = 0;
/// What the other side is told that this one is.
const NAME: &str = "Quiver";

/// Which side of a connection an interface is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It listens, and takes the other side's memory.
    #[default]
    Master,
    /// It connects, and the memory is its own.
    Slave,
}

/// An interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The socket.
    pub socket: Place,
    /// Its number on the socket.
    pub id: u32,
    /// Which side it is.
    pub role: Role,
    /// What it carries.
    pub mode: Mode,
    /// What the other side must know, at most 24 bytes.
    pub secret: Option<String>,
    /// Rings that it receives from, 1 to [`MOST_RINGS`], where it is the slave: the master takes what the slave has.
    pub rx_queues: usize,
    /// Rings that it sends to, as before.
    pub tx_queues: usize,
    /// Slots of a ring, a power of two, where it is the slave.
    pub slots: u32,
    /// Bytes of a buffer, where it is the slave.
    pub buffer: u32,
}

impl Config {
    /// A master for frames, with what a slave has by default.
    pub fn new(socket: Place, id: u32) -> Config {
        Config {
            socket,
            id,
            role: Role::Master,
            mode: Mode::Ethernet,
            secret: None,
            rx_queues: 1,
            tx_queues: 1,
            slots: 1024,
            buffer: 2048,
        }
    }

    fn log2_slots(&self) -> u8 {
        self.slots.trailing_zeros() as u8
    }

    /// An address for this side: the same on every start, and another one on the other side.
    pub fn mac(&self) -> MacAddr {
        let role = if self.role == Role::Master { "master" } else { "slave" };
        crate::station::of(&[&self.socket.to_string(), &self.id.to_string(), role])
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        for (what, n) in [("receive", self.rx_queues), ("transmit", self.tx_queues)] {
            if !(1..=MOST_RINGS).contains(&n) {
                return Err(format!("{n} {what} queues: 1 to {MOST_RINGS}"));
            }
        }
        if !self.slots.is_power_of_two() || !(2..=1 << ring::MOST_LOG2).contains(&self.slots) {
            return Err(format!(
                "a ring of {} slots: a power of two, 2 to {}",
                self.slots,
                1u32 << ring::MOST_LOG2
            ));
        }
        if !(64..=65_536).contains(&self.buffer) || !self.buffer.is_multiple_of(64) {
            return Err(format!("buffers of {} bytes: a multiple of 64, 64 to 65536", self.buffer));
        }
        if let Some(s) = &self.secret
            && !(1..=SECRET).contains(&s.len())
        {
            return Err(format!("a secret of {} bytes: 1 to {SECRET}", s.len()));
        }
        let memory = Layout::of(self, MOST_RINGS, MOST_RINGS, ring::MOST_LOG2).bytes();
        if memory > region::MOST_BYTES {
            return Err(format!(
                "its rings and buffers would take {} MiB, at most {} can be: fewer queues, slots or bytes of a buffer",
                memory >> 20,
                region::MOST_BYTES >> 20
            ));
        }
        Ok(())
    }

    /// The secret as it is sent.
    fn secret_bytes(&self) -> [u8; SECRET] {
        let mut bytes = [0; SECRET];
        for (to, from) in bytes.iter_mut().zip(self.secret.iter().flat_map(|s| s.bytes())) {
            *to = from;
        }
        bytes
    }
}

/// Where rings and buffers of a slave lie in its one region.
struct Layout {
    /// Rings to the master, and from it.
    s2m: usize,
    m2s: usize,
    log2_slots: u8,
    buffer: u32,
}

impl Layout {
    fn of(c: &Config, most_s2m: usize, most_m2s: usize, most_log2: u8) -> Layout {
        Layout {
            s2m: c.tx_queues.min(most_s2m),
            m2s: c.rx_queues.min(most_m2s),
            log2_slots: c.log2_slots().min(most_log2),
            buffer: c.buffer,
        }
    }

    /// Where ring `n` is, those to the master first, and its buffers.
    fn ring(&self, n: usize) -> (u64, u64) {
        let ring = ring::bytes(self.log2_slots).next_multiple_of(128) as u64;
        let rings = (self.s2m + self.m2s) as u64 * ring;
        (
            n as u64 * ring,
            rings.next_multiple_of(4096) + n as u64 * (u64::from(self.buffer) << self.log2_slots),
        )
    }

    fn bytes(&self) -> u64 {
        self.ring(self.s2m + self.m2s).1
    }
}

/// A connection that stands, with its queues.
pub struct Link {
    /// One a ring that this side receives from.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// One a worker.
    pub tx: Vec<Box<dyn TxQueue>>,
}

/// What of a connection operators see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// What the other side says that it is.
    pub program: String,
    /// What it calls its interface.
    pub interface: String,
    /// Its process, as Linux knows it.
    pub pid: Option<i32>,
    /// Rings that this side receives from, and that it sends to.
    pub rings: (usize, usize),
    /// Slots of the largest ring.
    pub slots: u32,
    /// Regions of memory, and their bytes together.
    pub regions: (usize, u64),
}

/// What has happened.
pub enum Event {
    /// An interface has a connection now.
    Up {
        /// The interface.
        interface: u32,
        /// Its queues.
        link: Link,
        /// In words.
        words: String,
    },
    /// It has none any more.
    Down {
        /// The interface.
        interface: u32,
        /// In words.
        why: String,
    },
    /// Something for the log.
    Say {
        /// The interface that it is about, if one.
        interface: Option<u32>,
        /// In words.
        text: String,
    },
}

/// How an interface stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is set down.
    Down,
    /// It waits for the other side.
    Waiting,
    /// The handshake is under way.
    Connecting,
    /// The other side is there.
    Connected,
}

struct Port {
    config: Config,
    name: String,
    up: bool,
    conn: Option<u64>,
    /// When a slave connects next, milliseconds.
    retry: u64,
    /// What was said last of its failures: it is not said twice.
    told: Option<String>,
    drops: Arc<Drops>,
}

struct Listener {
    socket: Listening,
    token: u64,
    told: Option<String>,
}

/// A ring that the other side has announced.
struct Announced {
    region: u16,
    at: u32,
    log2_slots: u8,
    signal: Signal,
}

enum Stage {
    /// A master has said what it takes; or a slave has connected.
    Fresh,
    /// A master takes regions and rings. A slave announces them.
    Announcing,
    /// It stands.
    Standing(Arc<Shared>),
}

struct Conn {
    fd: OwnedFd,
    /// The socket that it came to, where this side is the master.
    place: Place,
    role: Role,
    port: Option<u32>,
    stage: Stage,
    /// When the handshake has failed, milliseconds.
    deadline: u64,
    peer: Peer,
    /// A slave's messages that wait for the one before to be taken.
    queue: VecDeque<(Message, Option<Arc<OwnedFd>>)>,
    regions: Vec<Arc<Region>>,
    s2m: BTreeMap<u16, Announced>,
    m2s: BTreeMap<u16, Announced>,
    /// A slave's own rings.
    own: Vec<(bool, Ring, Signal)>,
}

/// All interfaces, sockets and connections.
pub struct Hub {
    epoll: OwnedFd,
    alarm: Arc<OwnedFd>,
    workers: usize,
    next: u64,
    ports: BTreeMap<u32, Port>,
    listeners: BTreeMap<Place, Listener>,
    conns: BTreeMap<u64, Conn>,
    events: Vec<Event>,
}

impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Hub {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

/// Why a connection ends.
struct Ended {
    why: String,
    /// The other side is told.
    tell: bool,
}

fn ended<T>(why: impl Into<String>) -> Result<T, Ended> {
    Err(Ended { why: why.into(), tell: true })
}

fn lost(e: &io::Error) -> Ended {
    let why = match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "the other side has closed it".into(),
        io::ErrorKind::WouldBlock => "the other side takes no messages".into(),
        _ => e.to_string(),
    };
    Ended { why, tell: false }
}

impl Hub {
    /// One for a router with so many workers.
    ///
    /// # Errors
    /// The system refuses descriptors.
    pub fn new(workers: usize) -> io::Result<Hub> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &*alarm, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        Ok(Hub {
            epoll,
            alarm,
            workers,
            next: ALARM + 1,
            ports: BTreeMap::new(),
            listeners: BTreeMap::new(),
            conns: BTreeMap::new(),
            events: vec![],
        })
    }

    fn watch(&mut self, fd: impl AsFd) -> io::Result<u64> {
        let token = self.next;
        self.next += 1;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        Ok(token)
    }

    /// Adds an interface, which is down; the master's socket listens from now on.
    ///
    /// # Errors
    /// The socket cannot be had, in words.
    pub fn add(&mut self, interface: u32, name: &str, config: Config) -> Result<(), String> {
        let place = &config.socket;
        if let Some(other) = self
            .ports
            .values()
            .find(|p| p.config.socket == *place && p.config.id == config.id && p.config.role == config.role)
        {
            return Err(format!("{} has number {} on the socket {place} already", other.name, config.id));
        }
        if config.role == Role::Master && !self.listeners.contains_key(place) {
            if self.ports.values().any(|p| p.config.socket == *place) {
                return Err(format!(
                    "the socket {place} is that of slaves, which connect to another process: name another"
                ));
            }
            let refused = |e: io::Error| match e.kind() {
                io::ErrorKind::AddrInUse => format!(
                    "another process listens on the socket {place}, or a file of another kind is there"
                ),
                io::ErrorKind::NotFound => {
                    format!("the folder of the socket {place} does not exist: make it, or name another")
                }
                _ => format!("cannot listen on the socket {place}: {e}"),
            };
            let socket = place.listen().map_err(refused)?;
            let token = self.watch(&socket).map_err(refused)?;
            self.listeners.insert(place.clone(), Listener { socket, token, told: None });
        } else if config.role == Role::Slave && self.listeners.contains_key(place) {
            return Err(format!(
                "this router's masters listen on the socket {place}: a slave connects to another process's"
            ));
        }
        let drops = Arc::new(Drops::default());
        let port = Port { config, name: name.to_owned(), up: false, conn: None, retry: 0, told: None, drops };
        self.ports.insert(interface, port);
        Ok(())
    }

    /// Takes an interface away. Its queues stay whole for who has them. The socket goes with its last master.
    pub fn remove(&mut self, interface: u32) {
        self.close(interface, "the interface was deleted");
        let Some(port) = self.ports.remove(&interface) else { return };
        let place = port.config.socket;
        if !self.ports.values().any(|p| p.config.socket == place && p.config.role == Role::Master)
            && let Some(l) = self.listeners.remove(&place)
        {
            let _ = epoll::delete(&self.epoll, &l.socket);
            self.conns.retain(|_, c| c.role != Role::Master || c.place != place);
        }
        self.events.retain(|e| !matches!(e, Event::Up { interface: i, .. } | Event::Down { interface: i, .. } if *i == interface));
    }

    /// An interface is set up or down; whether it was not so before.
    pub fn set_up(&mut self, interface: u32, up: bool) -> bool {
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        if port.up == up {
            return false;
        }
        (port.up, port.retry, port.told) = (up, 0, None);
        if !up {
            self.close(interface, "the interface was set down");
        }
        true
    }

    /// Ends the connection of an interface.
    pub fn close(&mut self, interface: u32, why: &str) {
        if let Some(token) = self.ports.get(&interface).and_then(|p| p.conn) {
            self.end(token, Ended { why: why.to_owned(), tell: true }, 0);
        }
    }

    /// How an interface stands, and with whom.
    pub fn state(&self, interface: u32) -> Option<(State, Option<&Peer>)> {
        let port = self.ports.get(&interface)?;
        let conn = port.conn.and_then(|t| self.conns.get(&t));
        Some(match conn {
            Some(c) if matches!(c.stage, Stage::Standing(_)) => (State::Connected, Some(&c.peer)),
            Some(_) => (State::Connecting, None),
            None if port.up => (State::Waiting, None),
            None => (State::Down, None),
        })
    }

    /// Packets that an interface dropped before they reached the graph, over all its connections.
    pub fn drops(&self, interface: u32) -> Option<Arc<Drops>> {
        self.ports.get(&interface).map(|p| Arc::clone(&p.drops))
    }

    /// When there is something to do without a descriptor, milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        let young =
            self.conns.values().filter(|c| !matches!(c.stage, Stage::Standing(_))).map(|c| c.deadline);
        let idle = |p: &&Port| p.up && p.conn.is_none() && p.config.role == Role::Slave;
        young.chain(self.ports.values().filter(idle).map(|p| p.retry)).min()
    }

    /// Does what there is to do at this time; answers what happened, and whether more waits.
    pub fn work(&mut self, now: u64) -> (Vec<Event>, bool) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready: Vec<u64> = match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
            Ok((events, _)) => events.iter().map(|e| e.data.u64()).collect(),
            Err(_) => vec![],
        };
        let mut went = false;
        for token in &ready {
            went |= match *token {
                ALARM => self.alarmed(now),
                token if self.conns.contains_key(&token) => self.read(token, now),
                token => self.accept(token, now),
            };
        }
        let late = |c: &Conn| !matches!(c.stage, Stage::Standing(_)) && c.deadline <= now;
        let late: Vec<u64> = self.conns.iter().filter(|(_, c)| late(c)).map(|(t, _)| *t).collect();
        for token in late {
            let why = format!("the handshake has taken more than {} seconds", HANDSHAKE / 1000);
            self.end(token, Ended { why, tell: true }, now);
        }
        let idle = |p: &Port| p.up && p.conn.is_none() && p.config.role == Role::Slave && p.retry <= now;
        let idle: Vec<u32> = self.ports.iter().filter(|(_, p)| idle(p)).map(|(i, _)| *i).collect();
        idle.into_iter().for_each(|interface| self.connect(interface, now));
        (std::mem::take(&mut self.events), went)
    }

    /// A worker has found a ring that makes no sense.
    fn alarmed(&mut self, now: u64) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.alarm, &mut count);
        let broken = |c: &Conn| matches!(&c.stage, Stage::Standing(s) if s.broken.load(Ordering::Relaxed));
        let broken: Vec<u64> = self.conns.iter().filter(|(_, c)| broken(c)).map(|(t, _)| *t).collect();
        for token in broken {
            let why = "a ring makes no sense: the other side has written what cannot be".to_owned();
            self.end(token, Ended { why, tell: true }, now);
        }
        true
    }

    fn conn(
        &mut self,
        fd: OwnedFd,
        place: Place,
        role: Role,
        port: Option<u32>,
        now: u64,
    ) -> io::Result<u64> {
        let token = self.watch(&fd)?;
        let pid = rustix::net::sockopt::socket_peercred(&fd).ok().map(|c| c.pid.as_raw_nonzero().get());
        let conn = Conn {
            fd,
            place,
            role,
            port,
            stage: Stage::Fresh,
            deadline: now + HANDSHAKE,
            peer: Peer { pid, ..Peer::default() },
            queue: VecDeque::new(),
            regions: vec![],
            s2m: BTreeMap::new(),
            m2s: BTreeMap::new(),
            own: vec![],
        };
        self.conns.insert(token, conn);
        Ok(token)
    }

    /// Takes a connection; false when there is none, or it cannot be taken now.
    fn accept(&mut self, token: u64, now: u64) -> bool {
        let Some(l) = self.listeners.values().find(|l| l.token == token) else { return false };
        let Ok(fd) = l.socket.accept() else { return false };
        let place = l.socket.place().clone();
        let young =
            |c: &&Conn| c.role == Role::Master && c.place == place && !matches!(c.stage, Stage::Standing(_));
        if self.conns.values().filter(young).count() >= MOST_YOUNG {
            let text =
                format!("socket {place}: {MOST_YOUNG} handshakes are under way, further ones are refused");
            self.say_of_socket(&place, text);
            return true;
        }
        let most = (MOST_RINGS - 1) as u16;
        let hello = Message::Hello {
            name: NAME.into(),
            versions: (VERSION, VERSION),
            regions: (region::MOST - 1) as u16,
            m2s: most,
            s2m: most,
            log2_slots: ring::MOST_LOG2,
        };
        if socket::send(&fd, &hello.emit(), None).is_ok() {
            let _ = self.conn(fd, place, Role::Master, None, now);
        }
        true
    }

    fn connect(&mut self, interface: u32, now: u64) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        port.retry = now + RETRY;
        let place = port.config.socket.clone();
        let made =
            place.connect().and_then(|fd| self.conn(fd, place.clone(), Role::Slave, Some(interface), now));
        match made {
            Ok(token) => {
                if let Some(port) = self.ports.get_mut(&interface) {
                    port.conn = Some(token);
                }
            }
            Err(e) => {
                let why = match e.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        format!("no master listens on {place}: it is connected as soon as one does")
                    }
                    _ => format!("cannot connect to {place}: {e}"),
                };
                self.say(interface, why);
            }
        }
    }

    /// Says something of an interface, once.
    fn say(&mut self, interface: u32, text: String) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        if port.told.as_ref() != Some(&text) {
            port.told = Some(text.clone());
            self.events.push(Event::Say { interface: Some(interface), text });
        }
    }

    /// Says something of a socket, once.
    fn say_of_socket(&mut self, place: &Place, text: String) {
        let Some(l) = self.listeners.get_mut(place) else { return };
        if l.told.as_ref() != Some(&text) {
            l.told = Some(text.clone());
            self.events.push(Event::Say { interface: None, text });
        }
    }

    /// Ends a connection.
    fn end(&mut self, token: u64, e: Ended, now: u64) {
        let Some(conn) = self.conns.remove(&token) else { return };
        let _ = epoll::delete(&self.epoll, &conn.fd);
        if e.tell {
            let _ =
                socket::send(&conn.fd, &Message::Disconnect { code: 0, reason: e.why.clone() }.emit(), None);
        }
        let standing = matches!(conn.stage, Stage::Standing(_));
        let Some(interface) = conn.port else {
            let who = of_process(conn.peer.pid);
            return self.say_of_socket(
                &conn.place,
                format!("socket {}: a connection{who} has failed: {}", conn.place, e.why),
            );
        };
        let Some(port) = self.ports.get_mut(&interface).filter(|p| p.conn == Some(token)) else { return };
        port.conn = None;
        port.retry = now + RETRY;
        if standing {
            self.events.push(Event::Down { interface, why: e.why });
        } else {
            self.say(interface, format!("no connection{}: {}", of_process(conn.peer.pid), e.why));
        }
    }

    /// Takes one message of a connection.
    fn read(&mut self, token: u64, now: u64) -> bool {
        let Some(conn) = self.conns.get(&token) else { return false };
        let mut bytes = [0; super::message::LEN + 1];
        let took = match socket::receive(&conn.fd, &mut bytes) {
            Ok(([], _)) => Err(Ended { why: "the other side has closed it".into(), tell: false }),
            Ok((bytes, fd)) => match Message::parse(bytes) {
                Ok(message) => self.take(token, message, fd, now),
                Err(bad) => ended(bad.to_string()),
            },
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(()),
            Err(e) => Err(lost(&e)),
        };
        if let Err(e) = took {
            self.end(token, e, now);
        }
        true
    }

    fn take(&mut self, token: u64, m: Message, fd: Option<OwnedFd>, now: u64) -> Result<(), Ended> {
        let Some(conn) = self.conns.get_mut(&token) else { return Ok(()) };
        if let Message::Disconnect { reason, .. } = m {
            return Err(Ended { why: format!("the other side says: {reason}"), tell: false });
        }
        match (conn.role, &conn.stage, m) {
            (Role::Master, Stage::Fresh, Message::Init { version, id, mode, secret, name }) => {
                conn.peer.program = name;
                self.admit(token, version, id, mode, secret, now)?;
                self.answer(token, &Message::Ack)
            }
            (Role::Master, Stage::Announcing, Message::AddRegion { index, size }) => {
                conn.add_region(index, size, fd)?;
                self.answer(token, &Message::Ack)
            }
            (
                Role::Master,
                Stage::Announcing,
                Message::AddRing { s2m, index, region, offset, log2_slots, private },
            ) => {
                if private != 0 {
                    return ended("private headers in front of packets are not for this side");
                }
                conn.add_ring(s2m, index, (region, offset, log2_slots), fd)?;
                self.answer(token, &Message::Ack)
            }
            (Role::Master, Stage::Announcing, Message::Connect { name }) => {
                conn.peer.interface = name;
                let rings = conn.rings()?;
                let name = self.name_of(token);
                self.answer(token, &Message::Connected { name })?;
                self.stand(token, rings);
                Ok(())
            }
            (
                Role::Slave,
                Stage::Fresh,
                Message::Hello { name, versions, regions: _, m2s, s2m, log2_slots },
            ) => {
                conn.peer.program = name;
                if !(versions.0..=versions.1).contains(&VERSION) {
                    return ended("the other side does not speak version 2.0");
                }
                self.announce(token, usize::from(s2m) + 1, usize::from(m2s) + 1, log2_slots)
            }
            (Role::Slave, Stage::Announcing, Message::Ack) => self.go_on(token),
            (Role::Slave, Stage::Announcing, Message::Connected { name }) if conn.queue.is_empty() => {
                conn.peer.interface = name;
                let rings = std::mem::take(&mut conn.own);
                self.stand(token, rings);
                Ok(())
            }
            // The last message of the handshake may be taken twice.
            (_, Stage::Standing(_), Message::Ack) => Ok(()),
            _ => ended("a message came that does not belong there"),
        }
    }

    fn answer(&mut self, token: u64, m: &Message) -> Result<(), Ended> {
        let Some(conn) = self.conns.get(&token) else { return Ok(()) };
        socket::send(&conn.fd, &m.emit(), None).map_err(|e| lost(&e))
    }

    fn name_of(&self, token: u64) -> String {
        let port = self.conns.get(&token).and_then(|c| c.port).and_then(|i| self.ports.get(&i));
        port.map(|p| p.name.clone()).unwrap_or_default()
    }

    /// A slave says which interface it wants.
    fn admit(
        &mut self,
        token: u64,
        version: u16,
        id: u32,
        mode: Option<Mode>,
        secret: [u8; SECRET],
        now: u64,
    ) -> Result<(), Ended> {
        if version != VERSION {
            return ended("only version 2.0 is spoken here");
        }
        let Some(conn) = self.conns.get(&token) else { return Ok(()) };
        let is =
            |p: &Port| p.config.role == Role::Master && p.config.socket == conn.place && p.config.id == id;
        let Some((interface, port)) = self.ports.iter().find(|(_, p)| is(p)).map(|(i, p)| (*i, p)) else {
            return ended(format!("there is no interface number {id} on this socket"));
        };
        // Every byte is looked at, so that the time taken does not tell how many are right.
        let wrong = port.config.secret_bytes().iter().zip(secret).fold(0, |wrong, (a, b)| wrong | (a ^ b));
        let name = port.name.clone();
        let refuse = |why: &str| ended(format!("{name}: {why}"));
        if !port.up {
            return refuse("the interface is down");
        }
        if wrong != 0 {
            return refuse("the secret is wrong");
        }
        if mode != Some(port.config.mode) {
            return refuse(match port.config.mode {
                Mode::Ethernet => "this side carries Ethernet frames, the other side something else",
                Mode::Ip => "this side carries IP packets, the other side something else",
            });
        }
        if let Some(other) = port.conn {
            // One that is dead, of which was not read yet.
            if !self.conns.get(&other).is_none_or(|c| is_hung_up(&c.fd)) {
                return refuse("it has a connection already");
            }
            self.end(other, Ended { why: "the other side has closed it".into(), tell: false }, now);
        }
        if let Some(port) = self.ports.get_mut(&interface) {
            port.conn = Some(token);
        }
        if let Some(conn) = self.conns.get_mut(&token) {
            (conn.port, conn.stage) = (Some(interface), Stage::Announcing);
        }
        Ok(())
    }

    /// A slave makes its memory, and queues what it has to say.
    fn announce(&mut self, token: u64, most_s2m: usize, most_m2s: usize, most_log2: u8) -> Result<(), Ended> {
        let Some(conn) = self.conns.get_mut(&token) else { return Ok(()) };
        let Some(port) = conn.port.and_then(|i| self.ports.get(&i)) else { return Ok(()) };
        let failed =
            |e: io::Error| Ended { why: format!("no memory for rings and buffers: {e}"), tell: true };
        let c = &port.config;
        let layout = Layout::of(c, most_s2m, most_m2s, most_log2);
        let (region, file) = Region::create(layout.bytes() as usize).map_err(failed)?;
        let regions: Arc<[Arc<Region>]> = Arc::new([Arc::new(region)]);
        let mut queue = VecDeque::new();
        let init = Message::Init {
            version: VERSION,
            id: c.id,
            mode: Some(c.mode),
            secret: c.secret_bytes(),
            name: NAME.into(),
        };
        queue.push_back((init, None));
        queue.push_back((Message::AddRegion { index: 0, size: layout.bytes() }, Some(Arc::new(file))));
        for n in 0..layout.s2m + layout.m2s {
            let s2m = n < layout.s2m;
            let index = if s2m { n } else { n - layout.s2m } as u16;
            // Below 4 GiB, as was checked when the interface was made.
            let (at, buffers) = layout.ring(n);
            let own = Own { region: 0, at: buffers as u32, bytes: layout.buffer };
            let Some(ring) = Ring::new(&regions, 0, at as u32, layout.log2_slots, Some(own)) else {
                return ended("the rings do not fit");
            };
            ring.begin();
            let signal = Signal::create().map_err(failed)?;
            let theirs = signal.fd().try_clone_to_owned().map_err(failed)?;
            conn.own.push((!s2m, ring, signal));
            let log2_slots = layout.log2_slots;
            let say = Message::AddRing { s2m, index, region: 0, offset: at as u32, log2_slots, private: 0 };
            queue.push_back((say, Some(Arc::new(theirs))));
        }
        queue.push_back((Message::Connect { name: port.name.clone() }, None));
        conn.peer.slots = 1 << layout.log2_slots;
        conn.peer.regions = (1, layout.bytes());
        (conn.queue, conn.stage) = (queue, Stage::Announcing);
        self.go_on(token)
    }

    /// A slave says the next that it has to say.
    fn go_on(&mut self, token: u64) -> Result<(), Ended> {
        let Some(conn) = self.conns.get_mut(&token) else { return Ok(()) };
        match conn.queue.pop_front() {
            Some((m, with)) => {
                let with = with.as_ref().map(|fd| fd.as_fd());
                socket::send(&conn.fd, &m.emit(), with).map_err(|e| lost(&e))
            }
            // Some masters take the last message as well before they answer it.
            None => Ok(()),
        }
    }

    /// Both sides have agreed.
    fn stand(&mut self, token: u64, rings: Vec<(bool, Ring, Signal)>) {
        let Some(conn) = self.conns.get_mut(&token) else { return };
        let Some(interface) = conn.port else { return };
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let shared = Arc::new(Shared {
            broken: AtomicBool::new(false),
            alarm: Arc::clone(&self.alarm),
            drops: Arc::clone(&port.drops),
        });
        conn.stage = Stage::Standing(Arc::clone(&shared));
        port.told = None;
        let mode = port.config.mode;
        let mut rx: Vec<Box<dyn RxQueue>> = vec![];
        let mut to = vec![];
        for (receives, mut ring, signal) in rings {
            ring.start(receives);
            let shared = Arc::clone(&shared);
            if receives {
                rx.push(Box::new(MemifRx { ring, interface, mode, signal, armed: Cell::new(false), shared }));
            } else {
                to.push(TxRing { ring, mode, signal, shared });
            }
        }
        conn.peer.rings = (rx.len(), to.len());
        let tx: Vec<Box<dyn TxQueue>> = if to.len() >= self.workers {
            to.into_iter().take(self.workers).map(|r| Box::new(MemifTx::Own(r)) as Box<dyn TxQueue>).collect()
        } else {
            let common: Vec<_> = to.into_iter().map(|r| Arc::new(Mutex::new(r))).collect();
            let one = |w: usize| MemifTx::Common(Arc::clone(&common[w % common.len()]));
            (0..self.workers).map(|w| Box::new(one(w)) as Box<dyn TxQueue>).collect()
        };
        let p = &conn.peer;
        let side = if conn.role == Role::Master { "slave" } else { "master" };
        let words = format!(
            "connected: {side} {} ({}){}, {} receive and {} transmit rings of {} slots",
            p.interface,
            p.program,
            of_process(p.pid),
            p.rings.0,
            p.rings.1,
            p.slots
        );
        self.events.push(Event::Up { interface, link: Link { rx, tx }, words });
    }
}

fn of_process(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" of process {pid}"))
}

fn is_hung_up(fd: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(fd, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&at_once)) == Ok(1)
}

impl Conn {
    /// The slave has a region of memory.
    fn add_region(&mut self, index: u16, size: u64, fd: Option<OwnedFd>) -> Result<(), Ended> {
        let Some(fd) = fd else { return ended(format!("region {index} comes without its file")) };
        if usize::from(index) != self.regions.len() || self.regions.len() >= region::MOST {
            return ended(format!("region {index} is not the next, {}, or one too many", self.regions.len()));
        }
        if size.saturating_add(self.peer.regions.1) > region::MOST_BYTES {
            return ended(format!("its regions have more than {} MiB together", region::MOST_BYTES >> 20));
        }
        let region = Region::open(&fd, size)
            .map_err(|why| Ended { why: format!("region {index}: {why}"), tell: true })?;
        self.peer.regions = (self.peer.regions.0 + 1, self.peer.regions.1 + region.len() as u64);
        self.regions.push(Arc::new(region));
        Ok(())
    }

    /// The slave has a ring: its region, where it is there, and how large.
    fn add_ring(
        &mut self,
        s2m: bool,
        index: u16,
        at: (u16, u32, u8),
        fd: Option<OwnedFd>,
    ) -> Result<(), Ended> {
        let Some(fd) = fd else { return ended(format!("ring {index} comes without its interrupt")) };
        if usize::from(index) >= MOST_RINGS {
            return ended(format!("ring {index}: there may be {MOST_RINGS} of a direction"));
        }
        let signal = Signal::open(fd).map_err(|why| Ended { why, tell: true })?;
        let (region, at, log2_slots) = at;
        let rings = if s2m { &mut self.s2m } else { &mut self.m2s };
        if rings.insert(index, Announced { region, at, log2_slots, signal }).is_some() {
            return ended(format!("ring {index} comes twice"));
        }
        Ok(())
    }

    /// The rings that a slave has announced, as they lie in its memory, and whether this side receives from each.
    fn rings(&mut self) -> Result<Vec<(bool, Ring, Signal)>, Ended> {
        let regions: Arc<[Arc<Region>]> = std::mem::take(&mut self.regions).into();
        let mut rings = vec![];
        for (receives, announced) in [(true, &mut self.s2m), (false, &mut self.m2s)] {
            let count = announced.len();
            if announced.last_key_value().is_none_or(|(last, _)| usize::from(*last) + 1 != count) {
                return ended("rings are missing: at least one of each direction, and none left out");
            }
            for (index, a) in std::mem::take(announced) {
                let ring = Ring::new(&regions, a.region, a.at, a.log2_slots, None);
                let Some(ring) = ring else {
                    return ended(format!("ring {index} does not lie within its region"));
                };
                if !ring.has_cookie() {
                    return ended(format!("ring {index} does not begin as rings do"));
                }
                self.peer.slots = self.peer.slots.max(1 << a.log2_slots);
                rings.push((receives, ring, a.signal));
            }
        }
        Ok(rings)
    }
}

/// Packets that were dropped before they reached the graph, by reason.
pub fn drops(d: &Drops) -> Vec<(&'static str, u64)> {
    let RxDrops { no_buffer, malformed, .. } = d.read();
    vec![("no-buffer", no_buffer), ("bad-descriptor", malformed)]
}
