//! The control side of all vhost-user interfaces: sockets, connections in both roles, and what becomes of them. Nothing here waits:
//! whoever owns the hub calls [`Hub::work`] when its descriptor is readable and when its deadline has come.

use super::config::{Config, Role};
use super::conn::{Conn, Ended, Peer, Standing, of_process};
use super::queue::{Senders, Shared, VhostRx};
use crate::counts::{Drops, RxDrops};
use crate::place::{Listening, Place};
use graph::RxQueue;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::net::SocketType;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a client waits before it connects anew, milliseconds.
const RETRY: u64 = 500;
/// How long a connection that says nothing keeps others away, milliseconds.
const SILENCE: u64 = 3000;
/// Most lines for the log about an interface in this time, milliseconds.
const LINES: u32 = 10;
const LINES_TIME: u64 = 10_000;
/// Events of one turn, messages of a connection in it, and how long a turn may take until it leaves the rest to the next: maps of
/// memory take their time.
const EVENTS: usize = 32;
const MESSAGES: usize = 64;
const TURN: Duration = Duration::from_millis(2);
const ALARM: u64 = 0;

/// What runs between both sides.
pub struct Link {
    /// One a pair of queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Where packets are sent.
    pub tx: Senders,
}

/// What has happened.
pub enum Event {
    /// The other side's driver runs.
    Up {
        /// The interface.
        interface: u32,
        /// Its queues.
        link: Link,
        /// In words.
        words: String,
    },
    /// It does not any more, or other queues follow.
    Down {
        /// The interface.
        interface: u32,
        /// In words; `None` when other queues follow.
        why: Option<String>,
    },
    /// Something for the log.
    Say {
        /// The interface that it is about.
        interface: u32,
        /// In words.
        text: String,
    },
}

/// How an interface stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody is at the other end of the socket.
    Waiting,
    /// Somebody is, whose driver does not run, or the interface is down.
    Connected,
    /// Packets pass.
    Running,
}

struct Port {
    config: Config,
    name: String,
    up: bool,
    listener: Option<Listening>,
    conn: Option<(u64, Conn)>,
    /// When that came, milliseconds.
    joined: u64,
    /// What the queues were made of that were given away.
    standing: Option<Standing>,
    /// When a client connects next, milliseconds.
    retry: u64,
    /// What was said last of its failures: it is not said twice.
    told: Option<String>,
    /// When lines were last counted from none, milliseconds, and how many there are since.
    lines: (u64, u32),
    drops: Arc<Drops>,
}

/// All interfaces, sockets and connections.
pub struct Hub {
    epoll: OwnedFd,
    alarm: Arc<OwnedFd>,
    next: u64,
    /// The time that was given last, milliseconds.
    now: u64,
    /// Whose descriptors were ready and had no turn yet: whoever sends much has them wait, and not starve.
    ready: VecDeque<u64>,
    /// When the turn began.
    began: Instant,
    ports: BTreeMap<u32, Port>,
    /// Whose descriptor a token of epoll stands for.
    tokens: BTreeMap<u64, u32>,
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

impl Hub {
    /// One without interfaces.
    ///
    /// # Errors
    /// The system refuses descriptors.
    pub fn new() -> io::Result<Hub> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &*alarm, epoll::EventData::new_u64(ALARM), epoll::EventFlags::IN)?;
        let (ports, tokens) = (BTreeMap::new(), BTreeMap::new());
        Ok(Hub {
            epoll,
            alarm,
            next: ALARM + 1,
            now: 0,
            ready: VecDeque::new(),
            began: Instant::now(),
            ports,
            tokens,
            events: vec![],
        })
    }

    fn watch(&mut self, fd: impl AsFd, interface: u32) -> io::Result<u64> {
        let token = self.next;
        self.next += 1;
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        self.tokens.insert(token, interface);
        Ok(token)
    }

    /// Adds an interface, which is down; a server's socket listens from now on.
    ///
    /// # Errors
    /// The socket cannot be had, in words.
    pub fn add(&mut self, interface: u32, name: &str, config: Config) -> Result<(), String> {
        let place = &config.socket;
        if let Some(other) = self.ports.values().find(|p| p.config.socket == *place) {
            return Err(format!("the socket {place} is that of {} already: name another", other.name));
        }
        let mut listener = None;
        if config.role == Role::Server {
            let refused = |e: io::Error| match e.kind() {
                io::ErrorKind::AddrInUse => {
                    format!(
                        "another process listens on the socket {place}, or a file of another kind is there"
                    )
                }
                io::ErrorKind::NotFound => {
                    format!("the folder of the socket {place} does not exist: make it, or name another")
                }
                _ => format!("cannot listen on the socket {place}: {e}"),
            };
            let socket = place.listen(SocketType::STREAM).map_err(refused)?;
            self.watch(&socket, interface).map_err(refused)?;
            listener = Some(socket);
        }
        let port = Port {
            config,
            name: name.to_owned(),
            up: false,
            listener,
            conn: None,
            joined: 0,
            standing: None,
            retry: 0,
            told: None,
            lines: (0, 0),
            drops: Arc::new(Drops::default()),
        };
        self.ports.insert(interface, port);
        Ok(())
    }

    /// Takes an interface away, with its socket. Its queues stay whole for who has them, and bring nothing any more.
    pub fn remove(&mut self, interface: u32) {
        if let Some(port) = self.ports.remove(&interface) {
            port.listener.iter().for_each(|l| _ = epoll::delete(&self.epoll, l));
            port.conn.iter().for_each(|(_, c)| _ = epoll::delete(&self.epoll, &c.fd));
        }
        self.tokens.retain(|_, i| *i != interface);
        self.events.retain(|e| match e {
            Event::Up { interface: i, .. }
            | Event::Down { interface: i, .. }
            | Event::Say { interface: i, .. } => *i != interface,
        });
    }

    /// An interface is set up or down; whether it was not so before. A connection stays.
    pub fn set_up(&mut self, interface: u32, up: bool) -> bool {
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        if port.up == up {
            return false;
        }
        (port.up, port.told) = (up, None);
        self.settle(interface, "the interface was set down");
        true
    }

    /// Ends the connection of an interface.
    pub fn close(&mut self, interface: u32, why: &str) {
        self.end(interface, why.to_owned(), self.now);
    }

    /// How an interface stands, and with whom.
    pub fn state(&self, interface: u32) -> Option<(State, Option<Peer>)> {
        let port = self.ports.get(&interface)?;
        let peer = port.conn.as_ref().map(|(_, c)| c.peer(port.standing.as_ref()));
        Some(match (&port.standing, &port.conn) {
            (Some(_), _) => (State::Running, peer),
            (None, Some(_)) => (State::Connected, peer),
            (None, None) => (State::Waiting, None),
        })
    }

    /// Packets that an interface dropped before they reached the graph, over all its connections.
    pub fn drops(&self, interface: u32) -> Option<Arc<Drops>> {
        self.ports.get(&interface).map(|p| Arc::clone(&p.drops))
    }

    /// When there is something to do without a descriptor, milliseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.ports.values().filter(|p| p.connects()).map(|p| p.retry).min()
    }

    /// Does what there is to do at this time; answers what happened, and whether more waits.
    pub fn work(&mut self, now: u64) -> (Vec<Event>, bool) {
        self.now = now;
        let mut events = [const { std::mem::MaybeUninit::uninit() }; EVENTS];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if self.ready.is_empty()
            && let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&at_once))
        {
            self.ready.extend(events.iter().map(|e| e.data.u64()));
        }
        let mut went = false;
        self.began = Instant::now();
        while let Some(token) = self.ready.pop_front() {
            went |= match (token, self.tokens.get(&token).copied()) {
                (ALARM, _) => self.alarmed(now),
                (token, Some(interface)) => self.turn(interface, token, now),
                _ => false,
            };
            if self.began.elapsed() >= TURN {
                break;
            }
        }
        went |= !self.ready.is_empty();
        let due: Vec<u32> =
            self.ports.iter().filter(|(_, p)| p.connects() && p.retry <= now).map(|(i, _)| *i).collect();
        due.into_iter().for_each(|interface| self.connect(interface, now));
        (std::mem::take(&mut self.events), went)
    }

    /// A worker has found a ring that makes no sense, or memory has gone.
    fn alarmed(&mut self, now: u64) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.alarm, &mut count);
        let why = |(_, c): &(u64, Conn)| {
            if c.is_lost() {
                Some("memory has gone that it had announced".to_owned())
            } else {
                let broken = c.shared.broken.load(Ordering::Relaxed);
                broken.then(|| "a queue makes no sense: the other side has written what cannot be".to_owned())
            }
        };
        let over: Vec<(u32, String)> =
            self.ports.iter().filter_map(|(i, p)| Some((*i, why(p.conn.as_ref()?)?))).collect();
        over.into_iter().for_each(|(interface, why)| self.end(interface, why, now));
        true
    }

    /// Does what a descriptor asks for; false when it cannot be done now.
    fn turn(&mut self, interface: u32, token: u64, now: u64) -> bool {
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        let Some((_, conn)) = port.conn.as_mut().filter(|(t, _)| *t == token) else {
            return self.accept(interface, now);
        };
        for _ in 0..MESSAGES {
            match conn.read() {
                Ok(true) if self.began.elapsed() >= TURN => break,
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => {
                    self.end(interface, why, now);
                    return true;
                }
            }
        }
        self.settle(interface, "the other side's driver has stopped");
        true
    }

    /// Takes a connection; false when there is none, or it cannot be taken now.
    fn accept(&mut self, interface: u32, now: u64) -> bool {
        let Some(port) = self.ports.get(&interface) else { return false };
        let Some(Ok(fd)) = port.listener.as_ref().map(Listening::accept) else { return false };
        if let Some((_, conn)) = &port.conn {
            // One that is dead, of which was not read yet, gives way, and one that never said anything.
            let why = if conn.is_hung_up() {
                "the other side has closed it".to_owned()
            } else if !conn.heard && now >= port.joined + SILENCE {
                format!("it has said nothing for {} seconds, another takes its place", SILENCE / 1000)
            } else {
                let text = format!("a second connection to the socket {} is refused", port.config.socket);
                self.say(interface, text);
                return true;
            };
            self.end(interface, why, now);
        }
        self.join(interface, fd);
        true
    }

    fn connect(&mut self, interface: u32, now: u64) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        port.retry = now + RETRY;
        let place: Place = port.config.socket.clone();
        match place.connect(SocketType::STREAM) {
            Ok(fd) => self.join(interface, fd),
            Err(e) => {
                let why = match e.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        format!("nobody listens on {place}: it is connected as soon as somebody does")
                    }
                    _ => format!("cannot connect to {place}: {e}"),
                };
                self.say(interface, why);
            }
        }
    }

    fn join(&mut self, interface: u32, fd: OwnedFd) {
        let Ok(token) = self.watch(&fd, interface) else { return };
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let shared = Arc::new(Shared {
            broken: AtomicBool::new(false),
            alarm: Arc::clone(&self.alarm),
            drops: Arc::clone(&port.drops),
        });
        port.conn = Some((token, Conn::new(fd, port.config.features(), shared)));
        port.joined = self.now;
    }

    /// The connection of an interface is over.
    fn end(&mut self, interface: u32, why: Ended, now: u64) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let Some((token, conn)) = port.conn.take() else { return };
        let _ = epoll::delete(&self.epoll, &conn.fd);
        self.tokens.remove(&token);
        port.retry = now + RETRY;
        if port.standing.take().is_some() {
            self.events.push(Event::Down { interface, why: Some(why) });
        } else {
            let text = format!("no connection{}: {why}", of_process(conn.pid));
            self.say(interface, text);
        }
    }

    /// Gives queues away for what runs now, in place of those for what ran before.
    fn settle(&mut self, interface: u32, why: &str) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let runs = port.conn.as_ref().filter(|_| port.up).map(|(_, c)| c.runs()).filter(|r| !r.0.is_empty());
        if runs == port.standing {
            return;
        }
        if port.standing.is_some() {
            let why = runs.is_none().then(|| why.to_owned());
            self.events.push(Event::Down { interface, why });
        }
        port.standing.clone_from(&runs);
        let (Some((pairs, _)), Some((_, conn))) = (runs, &port.conn) else { return };
        port.told = None;
        let (mut rx, mut to): (Vec<Box<dyn RxQueue>>, _) = (vec![], vec![]);
        for p in pairs {
            let (sends, slot, kick) = conn.pair(p);
            let shared = Arc::clone(&conn.shared);
            // What came before this side looked needs no kick: a worker asks what waits before it sleeps.
            rx.push(Box::new(VhostRx { slot, kick, interface, armed: Cell::new(true), shared }));
            to.push(sends);
        }
        let peer = conn.peer(port.standing.as_ref());
        let words = format!(
            "the driver{} runs: {} {} of queues, {} descriptors",
            of_process(peer.pid),
            peer.pairs,
            if peer.pairs == 1 { "pair" } else { "pairs" },
            peer.size
        );
        let tx = Senders::new(to, conn.caps(), &conn.shared);
        self.events.push(Event::Up { interface, link: Link { rx, tx }, words });
    }

    /// Says something of an interface, once, and not more than the log can bear.
    fn say(&mut self, interface: u32, text: String) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        if port.told.as_ref() == Some(&text) {
            return;
        }
        port.told = Some(text.clone());
        if self.now >= port.lines.0 + LINES_TIME {
            let (_, had) = std::mem::replace(&mut port.lines, (self.now, 0));
            if had > LINES {
                let text = format!("{} lines more about it were left out", had - LINES);
                self.events.push(Event::Say { interface, text });
            }
        }
        port.lines.1 = port.lines.1.saturating_add(1);
        if port.lines.1 <= LINES {
            self.events.push(Event::Say { interface, text });
        }
    }
}

impl Port {
    /// A client without a connection.
    fn connects(&self) -> bool {
        self.config.role == Role::Client && self.conn.is_none() && self.up
    }
}

/// Packets that were dropped before they reached the graph, by reason.
pub fn drops(d: &Drops) -> Vec<(&'static str, u64)> {
    let RxDrops { no_buffer, malformed, .. } = d.read();
    vec![("no-buffer", no_buffer), ("bad-descriptor", malformed)]
}
