//! The control side of all vhost-user interfaces: sockets, connections in both roles, and what becomes of them. Nothing here waits:
//! whoever owns the hub calls [`work`](crate::peers::Hub::work) when its descriptor is readable and when its deadline has come.

use super::config::{Config, Role};
use super::conn::{Conn, Ended, Peer, Standing};
use super::queue::{Senders, VhostRx};
use crate::counts::Drops;
use crate::peers::{
    self, CLOSED, Descriptors, Event, Link, RETRY, Ready, cannot_connect, cannot_listen, is_hung_up,
    of_process,
};
use crate::place::{Listening, Place};
use graph::RxQueue;
use rustix::net::SocketType;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a connection that says nothing keeps others away, milliseconds.
const SILENCE: u64 = 3000;
/// Messages of a connection in one turn, and how long a turn may take until it leaves the rest to the next: maps of memory take their
/// time.
const MESSAGES: usize = 64;
const TURN: Duration = Duration::from_millis(2);

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
    drops: Arc<Drops>,
}

/// All interfaces, sockets and connections.
pub struct Hub {
    fds: Descriptors,
    /// The time that was given last, milliseconds.
    now: u64,
    /// Whose descriptors were ready and had no turn yet: whoever sends much has them wait, and not starve.
    ready: VecDeque<Ready>,
    /// When the turn began.
    began: Instant,
    ports: BTreeMap<u32, Port>,
    /// Whose descriptor a token of epoll stands for.
    tokens: BTreeMap<u64, u32>,
    events: Vec<Event>,
}

impl AsFd for Hub {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fds.as_fd()
    }
}

impl peers::Hub for Hub {
    type Config = Config;

    fn new() -> io::Result<Hub> {
        let (ports, tokens) = (BTreeMap::new(), BTreeMap::new());
        let (ready, began) = (VecDeque::new(), Instant::now());
        Ok(Hub { fds: Descriptors::new()?, now: 0, ready, began, ports, tokens, events: vec![] })
    }

    fn add(&mut self, interface: u32, name: &str, config: Config) -> Result<(), String> {
        let place = &config.socket;
        if let Some(other) = self.ports.values().find(|p| p.config.socket == *place) {
            return Err(format!("the socket {place} is that of {} already: name another", other.name));
        }
        let mut listener = None;
        if config.role == Role::Server {
            let refused = |e| cannot_listen(place, &e);
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
            drops: Arc::new(Drops::default()),
        };
        self.ports.insert(interface, port);
        Ok(())
    }

    /// Its socket goes with it.
    fn remove(&mut self, interface: u32, _now: u64) {
        if let Some(port) = self.ports.remove(&interface) {
            port.listener.iter().for_each(|l| self.fds.forget(l));
            port.conn.iter().for_each(|(_, c)| self.fds.forget(&c.fd));
        }
        self.tokens.retain(|_, i| *i != interface);
        self.events.retain(|e| e.interface() != Some(interface));
    }

    /// A connection stays.
    fn set_up(&mut self, interface: u32, up: bool, now: u64) -> bool {
        self.now = now;
        let Some(port) = self.ports.get_mut(&interface) else { return false };
        if port.up == up {
            return false;
        }
        (port.up, port.told) = (up, None);
        self.settle(interface, "the interface was set down");
        true
    }

    fn close(&mut self, interface: u32, why: &str, now: u64) {
        self.end(interface, why.to_owned(), now);
    }

    fn drops(&self, interface: u32) -> Option<Arc<Drops>> {
        self.ports.get(&interface).map(|p| Arc::clone(&p.drops))
    }

    fn deadline(&self) -> Option<u64> {
        // What a turn left over was taken from epoll already: nothing is readable for it.
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        self.ports.values().filter(|p| p.connects()).map(|p| p.retry).min()
    }

    fn work(&mut self, now: u64) -> (Vec<Event>, bool) {
        self.now = now;
        if self.ready.is_empty() {
            self.ready.extend(self.fds.ready());
        }
        let mut went = false;
        self.began = Instant::now();
        while let Some(ready) = self.ready.pop_front() {
            went |= match ready {
                Ready::Alarm => self.alarmed(now),
                Ready::Token(token) => match self.tokens.get(&token).copied() {
                    Some(interface) => self.turn(interface, token, now),
                    None => false,
                },
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
}

impl Hub {
    fn watch(&mut self, fd: impl AsFd, interface: u32) -> io::Result<u64> {
        let token = self.fds.watch(fd)?;
        self.tokens.insert(token, interface);
        Ok(token)
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

    /// A worker has found a ring that makes no sense, or memory has gone.
    fn alarmed(&mut self, now: u64) -> bool {
        let why = |(_, c): &(u64, Conn)| {
            if c.is_lost() {
                Some("memory has gone that it had announced".to_owned())
            } else {
                c.shared
                    .is_broken()
                    .then(|| "a queue makes no sense: the other side has written what cannot be".to_owned())
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
            let why = if is_hung_up(&conn.fd) {
                CLOSED.to_owned()
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
                let nobody = format!("nobody listens on {place}: it is connected as soon as somebody does");
                let why = cannot_connect(&place, &e, nobody);
                self.say(interface, why);
            }
        }
    }

    fn join(&mut self, interface: u32, fd: OwnedFd) {
        let Ok(token) = self.watch(&fd, interface) else { return };
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let shared = self.fds.shared(&port.drops);
        port.conn = Some((token, Conn::new(fd, port.config.features(), shared)));
        port.joined = self.now;
    }

    /// The connection of an interface is over.
    fn end(&mut self, interface: u32, why: Ended, now: u64) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        let Some((token, conn)) = port.conn.take() else { return };
        self.fds.forget(&conn.fd);
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
        self.events.push(Event::Up { interface, link: Link { rx, tx: Box::new(tx) }, words });
    }

    /// Says something of an interface, once.
    fn say(&mut self, interface: u32, text: String) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        if port.told.as_ref() != Some(&text) {
            port.told = Some(text.clone());
            self.events.push(Event::Say { interface: Some(interface), text });
        }
    }
}

impl Port {
    /// A client without a connection.
    fn connects(&self) -> bool {
        self.config.role == Role::Client && self.conn.is_none() && self.up
    }
}
