//! The control side of all memif interfaces: sockets that listen, connections in both roles, and what becomes of them. Nothing here
//! waits: whoever owns the hub calls [`Hub::work`] when its descriptor is readable and when its deadline has come.

use super::config::{Config, MOST_RINGS, Role};
use super::conn::{Conn, Ended, Peer, Stage, ended, lost, of_process};
use super::message::{Message, VERSION};
use super::queue::Senders;
use super::region;
use super::ring;
use super::socket;
use crate::counts::{Drops, RxDrops};
use crate::place::{Listening, Place};
use graph::RxQueue;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
pub(super) const NAME: &str = "Quiver";

/// A connection that stands, with its queues.
pub struct Link {
    /// One a ring that this side receives from.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Where packets are sent.
    pub tx: Senders,
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

/// What an interface without a connection waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// For what, in words.
    pub what: String,
    /// What went wrong last, in words, and when, milliseconds.
    pub error: Option<(String, u64)>,
}

pub(super) struct Port {
    pub config: Config,
    pub name: String,
    pub up: bool,
    pub conn: Option<u64>,
    /// When a slave connects next, milliseconds.
    pub retry: u64,
    /// What was said last of its failures: it is not said twice.
    pub told: Option<String>,
    /// Why it has no connection, as far as that is known, and since when, milliseconds.
    pub trouble: Option<(String, u64)>,
    pub drops: Arc<Drops>,
}

struct Listener {
    socket: Listening,
    token: u64,
    told: Option<String>,
}

/// All interfaces, sockets and connections.
pub struct Hub {
    epoll: OwnedFd,
    pub(super) alarm: Arc<OwnedFd>,
    next: u64,
    pub(super) ports: BTreeMap<u32, Port>,
    listeners: BTreeMap<Place, Listener>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) events: Vec<Event>,
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
        Ok(Hub {
            epoll,
            alarm,
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
        let clash = |p: &Port| config.clash(&p.config).map(|why| format!("{} {why}", p.name));
        if let Some(why) = self.ports.values().find_map(clash) {
            return Err(why);
        }
        if config.role == Role::Master && !self.listeners.contains_key(place) {
            let refused = |e: io::Error| match e.kind() {
                io::ErrorKind::AddrInUse => format!(
                    "another process listens on the socket {place}, or a file of another kind is there"
                ),
                io::ErrorKind::NotFound => {
                    format!("the folder of the socket {place} does not exist: make it, or name another")
                }
                _ => format!("cannot listen on the socket {place}: {e}"),
            };
            let socket = place.listen(socket::KIND).map_err(refused)?;
            let token = self.watch(&socket).map_err(refused)?;
            self.listeners.insert(place.clone(), Listener { socket, token, told: None });
        }
        let drops = Arc::new(Drops::default());
        let port = Port {
            config,
            name: name.to_owned(),
            up: false,
            conn: None,
            retry: 0,
            told: None,
            trouble: None,
            drops,
        };
        self.ports.insert(interface, port);
        Ok(())
    }

    /// Takes an interface away. Its queues stay whole for who has them. The socket goes with its last master.
    pub fn remove(&mut self, interface: u32, now: u64) {
        self.close(interface, "the interface was deleted", now);
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
    pub fn set_up(&mut self, interface: u32, up: bool, now: u64) -> bool {
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        if port.up == up {
            return false;
        }
        (port.up, port.retry, port.told, port.trouble) = (up, 0, None, None);
        if !up {
            self.close(interface, "the interface was set down", now);
        }
        true
    }

    /// Ends the connection of an interface. Where it is the slave's, it is connected anew as after any other end.
    pub fn close(&mut self, interface: u32, why: &str, now: u64) {
        if let Some(token) = self.ports.get(&interface).and_then(|p| p.conn) {
            self.end(token, Ended { why: why.to_owned(), tell: true }, now);
        }
    }

    /// What an interface waits for; `None` where it has a connection.
    pub fn waits(&self, interface: u32) -> Option<Waits> {
        let port = self.ports.get(&interface)?;
        let c = &port.config;
        let what = match (self.state(interface)?.0, c.role) {
            (State::Connected, _) => return None,
            (State::Connecting, _) => "the end of the handshake".to_owned(),
            (State::Down, _) => "being set up".to_owned(),
            (State::Waiting, Role::Master) => format!("a slave to ask for number {} on {}", c.id, c.socket),
            (State::Waiting, Role::Slave) => format!("a master on {}", c.socket),
        };
        Some(Waits { what, error: port.trouble.clone() })
    }

    /// Keeps in mind why an interface has no connection.
    pub(super) fn remember(&mut self, interface: u32, why: String, now: u64) {
        if let Some(port) = self.ports.get_mut(&interface) {
            port.trouble = Some((why, now));
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
        let lost: Vec<(u32, u32)> = self.conns.values().filter_map(Conn::too_long).collect();
        for (interface, bytes) in lost {
            let which = "make the slave's `ring-size` or `buffer-size` larger, or the MTU smaller";
            let text =
                format!("a packet of {bytes} bytes is longer than the rings can hold, and was lost: {which}");
            self.say(interface, text, now);
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
        let made = place
            .connect(socket::KIND)
            .and_then(|fd| self.conn(fd, place.clone(), Role::Slave, Some(interface), now));
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
                self.say(interface, why, now);
            }
        }
    }

    /// Says something of an interface, once.
    fn say(&mut self, interface: u32, text: String, now: u64) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        if port.conn.is_none() {
            port.trouble = Some((text.clone(), now));
        }
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
    pub(super) fn end(&mut self, token: u64, e: Ended, now: u64) {
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
            port.trouble = Some((format!("the connection has ended: {}", e.why), now));
            self.events.push(Event::Down { interface, why: e.why });
        } else {
            self.say(interface, format!("no connection{}: {}", of_process(conn.peer.pid), e.why), now);
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
}

/// Packets that were dropped before they reached the graph, by reason.
pub fn drops(d: &Drops) -> Vec<(&'static str, u64)> {
    let RxDrops { no_buffer, malformed, .. } = d.read();
    vec![("no-buffer", no_buffer), ("bad-descriptor", malformed)]
}
