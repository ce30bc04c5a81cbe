//! The control side of all memif interfaces: sockets that listen, connections in both roles, and what becomes of them. Nothing here
//! waits: whoever owns the hub calls [`work`](crate::peers::Hub::work) when its descriptor is readable and when its deadline has come.

use super::config::{Config, MOST_RINGS, Role};
use super::conn::{Conn, Ended, Peer, Stage, ended, lost};
use super::message::{Message, VERSION};
use super::region;
use super::ring;
use super::socket;
use crate::counts::Drops;
use crate::peers::{
    self, CLOSED, Descriptors, Event, RETRY, Ready, cannot_connect, cannot_listen, of_process, process_of,
};
use crate::place::{Listening, Place};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Connections of a socket whose handshake is under way.
const MOST_YOUNG: usize = 32;
/// How long a handshake may take, milliseconds.
const HANDSHAKE: u64 = 3000;
/// What the other side is told that this one is.
pub(super) const NAME: &str = "Quiver";

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
    pub(super) fds: Descriptors,
    pub(super) ports: BTreeMap<u32, Port>,
    listeners: BTreeMap<Place, Listener>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) events: Vec<Event>,
}

impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fds.as_fd()
    }
}

impl peers::Hub for Hub {
    type Config = Config;

    fn new() -> io::Result<Hub> {
        Ok(Hub {
            fds: Descriptors::new()?,
            ports: BTreeMap::new(),
            listeners: BTreeMap::new(),
            conns: BTreeMap::new(),
            events: vec![],
        })
    }

    fn add(&mut self, interface: u32, name: &str, config: Config) -> Result<(), String> {
        let place = &config.socket;
        let clash = |p: &Port| config.clash(&p.config).map(|why| format!("{} {why}", p.name));
        if let Some(why) = self.ports.values().find_map(clash) {
            return Err(why);
        }
        if config.role == Role::Master && !self.listeners.contains_key(place) {
            let refused = |e| cannot_listen(place, &e);
            let socket = place.listen(socket::KIND).map_err(refused)?;
            let token = self.fds.watch(&socket).map_err(refused)?;
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

    /// The socket goes with its last master.
    fn remove(&mut self, interface: u32, now: u64) {
        self.close(interface, "the interface was deleted", now);
        let Some(port) = self.ports.remove(&interface) else { return };
        let place = port.config.socket;
        if !self.ports.values().any(|p| p.config.socket == place && p.config.role == Role::Master)
            && let Some(l) = self.listeners.remove(&place)
        {
            self.fds.forget(&l.socket);
            self.conns.retain(|_, c| c.role != Role::Master || c.place != place);
        }
        self.events.retain(|e| e.interface() != Some(interface));
    }

    fn set_up(&mut self, interface: u32, up: bool, now: u64) -> bool {
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

    /// Where it is the slave's, it is connected anew as after any other end.
    fn close(&mut self, interface: u32, why: &str, now: u64) {
        if let Some(token) = self.ports.get(&interface).and_then(|p| p.conn) {
            self.end(token, Ended { why: why.to_owned(), tell: true }, now);
        }
    }

    fn drops(&self, interface: u32) -> Option<Arc<Drops>> {
        self.ports.get(&interface).map(|p| Arc::clone(&p.drops))
    }

    fn deadline(&self) -> Option<u64> {
        let young =
            self.conns.values().filter(|c| !matches!(c.stage, Stage::Standing(_))).map(|c| c.deadline);
        let idle = |p: &&Port| p.up && p.conn.is_none() && p.config.role == Role::Slave;
        young.chain(self.ports.values().filter(idle).map(|p| p.retry)).min()
    }

    fn work(&mut self, now: u64) -> (Vec<Event>, bool) {
        let mut went = false;
        for ready in self.fds.ready() {
            went |= match ready {
                Ready::Alarm => self.alarmed(now),
                Ready::Token(token) if self.conns.contains_key(&token) => self.read(token, now),
                Ready::Token(token) => self.accept(token, now),
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
}

impl Hub {
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

    /// A worker has found a ring that makes no sense.
    fn alarmed(&mut self, now: u64) -> bool {
        let broken = |c: &Conn| matches!(&c.stage, Stage::Standing(s) if s.is_broken());
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
        let token = self.fds.watch(&fd)?;
        let pid = process_of(&fd);
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
                let nobody = format!("no master listens on {place}: it is connected as soon as one does");
                let why = cannot_connect(&place, &e, nobody);
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
        self.fds.forget(&conn.fd);
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
            self.events.push(Event::Down { interface, why: Some(e.why) });
        } else {
            self.say(interface, format!("no connection{}: {}", of_process(conn.peer.pid), e.why), now);
        }
    }

    /// Takes one message of a connection.
    fn read(&mut self, token: u64, now: u64) -> bool {
        let Some(conn) = self.conns.get(&token) else { return false };
        let mut bytes = [0; super::message::LEN + 1];
        let took = match socket::receive(&conn.fd, &mut bytes) {
            Ok(([], _)) => Err(Ended { why: CLOSED.into(), tell: false }),
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
