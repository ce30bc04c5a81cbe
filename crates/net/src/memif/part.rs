//! memif interfaces as a part of the control side.

use super::{Mode, Role, commands};
use crate::chatter::Chatter;
use crate::neighbor::Millis;
use crate::router::{
    Device, DeviceControl, FloodClass, Kind, NewVirtual, Op, OpError, Part, PartOp, Router, Start,
    VirtualKind,
};
use command::{Command, HIDDEN, quote};
use drivers::memif::{self, Config, Drops, Event, Hub, Link, Place};
use graph::{TxCaps, TxQueue};
use rustix::fd::{AsFd, BorrowedFd};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The file of socket 0, unless the operator says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/memif.sock";
/// The largest IP packet, unless the operator says otherwise, bytes.
const MTU: u16 = 1500;

/// The largest IP packet of an interface unless the operator says otherwise, bytes: what its rings can hold, where that is less.
pub fn mtu(config: &Config) -> u16 {
    config.most_mtu().map_or(MTU, |most| most.min(MTU))
}

/// When it is looked again after something went wrong that no descriptor tells of, milliseconds.
const LOOK: u64 = 500;

static FRAMES: VirtualKind = VirtualKind { word: "memif", frames: true, flood: FloodClass::Link };
static PACKETS: VirtualKind = VirtualKind { word: "memif-ip", frames: false, flood: FloodClass::Link };

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum MemifOp {
    /// Makes the interface `memifSOCKET/ID`.
    Create {
        /// Number of its socket.
        socket: u32,
        /// All else.
        config: Config,
    },
    /// Says which file the socket of a number is, for interfaces that are made later; `None`: it is forgotten.
    Socket {
        /// The number.
        number: u32,
        /// The file, and the secret of interfaces on it that have none of their own.
        socket: Option<Socket>,
    },
}

/// A socket as the operator has named it.
#[derive(Clone, PartialEq)]
pub struct Socket {
    /// Where it is.
    pub place: Place,
    /// The secret of interfaces on it that have none of their own.
    pub secret: Option<String>,
}

/// Without the secret: it may come into the log.
impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.secret.as_ref().map(|_| HIDDEN);
        f.debug_struct("Socket").field("place", &self.place).field("secret", &secret).finish()
    }
}

/// Of an interface.
struct Port {
    socket: u32,
    config: Config,
    /// What the operator has set, as the driver is yet to hear.
    up: Arc<AtomicBool>,
}

struct State {
    hub: Option<Hub>,
    sockets: BTreeMap<u32, Socket>,
    ports: BTreeMap<u32, Port>,
    /// When the hub is asked again that could not go on, milliseconds.
    stuck: Option<u64>,
    /// What other sides have written of the log, by interface; that of all sockets together.
    chatter: Chatter<Option<u32>>,
}

/// Socket 0, unless the operator says otherwise.
pub fn default_socket() -> Result<Place, String> {
    Place::parse(DEFAULT_SOCKET)
}

/// What the operator wants of an interface, and the number of its socket.
pub fn config(router: &Router, interface: u32) -> Option<(u32, &Config)> {
    router.state::<State>()?.ports.get(&interface).map(|p| (p.socket, &p.config))
}

/// The socket of a number, as far as it is known.
pub fn socket_of(router: &Router, number: u32) -> Option<Socket> {
    let s = router.state::<State>()?;
    let used = || s.ports.values().find(|p| p.socket == number);
    let of_port = |p: &Port| Socket { place: p.config.socket.clone(), secret: None };
    s.sockets.get(&number).cloned().or_else(|| used().map(of_port)).or_else(|| {
        let place = default_socket().ok().filter(|_| number == 0)?;
        Some(Socket { place, secret: None })
    })
}

/// All sockets that are known, by number.
pub(super) fn sockets(router: &Router) -> BTreeMap<u32, Socket> {
    let numbers = router
        .state::<State>()
        .into_iter()
        .flat_map(|s| s.sockets.keys().copied().chain(s.ports.values().map(|p| p.socket)).chain([0]));
    numbers.filter_map(|n| Some((n, socket_of(router, n)?))).collect()
}

/// What an interface without a connection waits for, with what went wrong last and how many seconds ago.
pub(super) fn waits(router: &Router, interface: u32) -> Option<(String, Option<(String, u64)>)> {
    let memif::Waits { what, error } = router.state::<State>()?.hub.as_ref()?.waits(interface)?;
    let now = router.now().0;
    Some((what, error.map(|(why, at)| (why, now.saturating_sub(at) / 1000))))
}

/// All interfaces, with how they stand.
pub(super) fn interfaces(
    router: &Router,
) -> impl Iterator<Item = (u32, u32, &Config, memif::State, Option<&memif::Peer>)> {
    let s = router.state::<State>().into_iter();
    s.flat_map(|s| {
        s.ports.iter().filter_map(|(i, p)| {
            let (state, peer) = s.hub.as_ref()?.state(*i)?;
            Some((*i, p.socket, &p.config, state, peer))
        })
    })
}

/// The control side of an interface, whether or not the other side is there.
struct Control {
    /// Where packets are sent, while it is.
    connected: Option<memif::Senders>,
    up: Arc<AtomicBool>,
    drops: Arc<Drops>,
    words: String,
    /// What its own rings can hold.
    most_mtu: Option<u16>,
}

impl DeviceControl for Control {
    fn set_up(&mut self, up: bool) -> Result<(), drivers::Error> {
        self.up.store(up, Relaxed);
        Ok(())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), drivers::Error> {
        match self.most_mtu.filter(|most| mtu > *most) {
            None => Ok(()),
            Some(most) => Err(drivers::Error::Value {
                name: "its ring".into(),
                within: drivers::error::Within(None),
                what: format!("MTU {mtu}"),
                cause: std::io::Error::other(format!(
                    "{most} at most, more with a larger ring-size or buffer-size"
                )),
            }),
        }
    }

    fn link(&self) -> bool {
        self.connected.is_some()
    }

    fn transmit_queue(&mut self) -> Result<Option<Box<dyn TxQueue>>, drivers::Error> {
        Ok(self.connected.as_mut().and_then(memif::Senders::transmit_queue))
    }

    fn drops(&self) -> Vec<(&'static str, u64)> {
        memif::drops(&self.drops)
    }

    fn describe(&self) -> String {
        self.words.clone()
    }
}

fn control(s: &State, interface: u32, connected: Option<memif::Senders>) -> Option<Box<dyn DeviceControl>> {
    let (port, drops) = (s.ports.get(&interface)?, s.hub.as_ref()?.drops(interface)?);
    let c = &port.config;
    let role = if c.role == Role::Master { "master" } else { "slave" };
    let words = format!("memif {role}, number {} on the socket {}", c.id, c.socket);
    let (up, most_mtu) = (Arc::clone(&port.up), c.most_mtu());
    Some(Box::new(Control { connected, up, drops, words, most_mtu }))
}

impl MemifOp {
    fn create(router: &mut Router, socket: u32, config: Config) -> Result<Vec<Op>, OpError> {
        let name = format!("memif{socket}/{}", config.id);
        let fail = |why: String| OpError::new(format!("{name}: {why}"));
        config.check().map_err(fail)?;
        router.free_name(&name)?;
        if let Some(known) = socket_of(router, socket)
            && known.place != config.socket
            && (socket != 0 || is_used(router, 0))
        {
            return Err(fail(format!("socket {socket} is {}, not {}", known.place, config.socket)));
        }
        let kind = if config.mode == Mode::Ethernet { &FRAMES } else { &PACKETS };
        let origin = MemifOp::Create { socket, config: config.clone() }.into();
        let new = NewVirtual {
            name: name.clone(),
            kind: Kind::Virtual(kind),
            origin,
            mac: config.mac(),
            mtu: mtu(&config),
        };
        let mut made = Ok(());
        router.create_virtual(new, |router, interface| {
            let Some(s) = router.state_mut::<State>() else { return };
            let Some(hub) = &mut s.hub else { return };
            made = hub.add(interface, &name, config.clone());
            s.ports.insert(interface, Port { socket, config, up: Arc::new(AtomicBool::new(false)) });
        })?;
        let Some(index) = router.interface_index(&name) else { return Ok(vec![]) };
        if let Err(why) = made {
            router.remove_virtual(index);
            return Err(fail(why));
        }
        if let Some(c) = router.state::<State>().and_then(|s| control(s, index, None)) {
            router.unplug(index, c);
        }
        Ok(vec![Op::Delete { name }])
    }
}

fn is_used(router: &Router, number: u32) -> bool {
    router.state::<State>().is_some_and(|s| s.ports.values().any(|p| p.socket == number))
}

impl PartOp for MemifOp {
    fn subject(&self) -> String {
        match self {
            MemifOp::Create { socket, config } => format!("memif{socket}/{}", config.id),
            MemifOp::Socket { number, .. } => format!("memif socket {number}"),
        }
    }

    fn off(&self) -> Option<Op> {
        match self {
            MemifOp::Create { .. } => None,
            MemifOp::Socket { number, .. } => Some(MemifOp::Socket { number: *number, socket: None }.into()),
        }
    }

    fn turned(&self, _: &Self) -> Option<Op> {
        None
    }

    fn commands(&self, secrets: bool) -> Vec<String> {
        let quoted = |s: &str| if secrets { quote(s) } else { HIDDEN.into() };
        let secret =
            |s: &Option<String>| s.as_deref().map_or(String::new(), |s| format!(" secret {}", quoted(s)));
        let file = |number: u32, place: &Place| {
            format!("create memif socket id {number} filename {}", quote(&place.to_string()))
        };
        match self {
            MemifOp::Create { socket, config: c } => {
                let usual = Config::new(c.socket.clone(), c.id);
                let role = if c.role == Role::Master { "master" } else { "slave" };
                let mut make = format!("create interface memif id {} socket-id {socket} {role}", c.id);
                if c.mode == Mode::Ip {
                    make += " mode ip";
                }
                for (word, is, usual) in [
                    ("ring-size", c.slots as usize, usual.slots as usize),
                    ("buffer-size", c.buffer as usize, usual.buffer as usize),
                    ("rx-queues", c.rx_queues, usual.rx_queues),
                    ("tx-queues", c.tx_queues, usual.tx_queues),
                ] {
                    if is != usual {
                        make += &format!(" {word} {is}");
                    }
                }
                vec![file(*socket, &c.socket), make + &secret(&c.secret)]
            }
            MemifOp::Socket { number, socket: Some(s) } => vec![file(*number, &s.place) + &secret(&s.secret)],
            MemifOp::Socket { number, socket: None } => vec![format!("delete memif socket id {number}")],
        }
    }

    fn exclusive(&self) -> Option<String> {
        match self {
            MemifOp::Create { config: c, .. } => Some(format!("{} {} {:?}", c.socket, c.id, c.role)),
            MemifOp::Socket { .. } => None,
        }
    }

    fn for_root(&self) -> Option<String> {
        let place = match self {
            MemifOp::Create { config, .. } => &config.socket,
            MemifOp::Socket { socket, .. } => &socket.as_ref()?.place,
        };
        Some(for_root(place))
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        match self {
            MemifOp::Create { socket, config } => MemifOp::create(router, socket, config),
            MemifOp::Socket { number, socket } => {
                if is_used(router, number) {
                    return Err(OpError::new(format!(
                        "memif socket {number} has interfaces: take them out first"
                    )));
                }
                let Some(s) = router.state_mut::<State>() else { return Ok(vec![]) };
                let was = match socket {
                    Some(socket) => s.sockets.insert(number, socket),
                    None => s.sockets.remove(&number),
                };
                Ok(vec![MemifOp::Socket { number, socket: was }.into()])
            }
        }
    }

    fn log_line(&self) -> Option<String> {
        match self {
            MemifOp::Create { socket, config: c } => {
                let role = if c.role == Role::Master { "master" } else { "slave" };
                Some(format!("interface memif{socket}/{}: memif {role} on the socket {}", c.id, c.socket))
            }
            MemifOp::Socket { .. } => None,
        }
    }
}

/// Why a socket is refused to who does not have all rights.
pub(super) fn for_root(place: &Place) -> String {
    format!("socket {place}: the router makes and opens it with its own rights, so only root may name it")
}

/// The part.
pub(crate) struct Memif;

/// Writes a line of the log that the other side of an interface, or of a socket, has caused; only so many.
fn say(router: &mut Router, interface: Option<u32>, warns: bool, text: &str) {
    let now = router.now().0;
    if router.state_mut::<State>().is_none_or(|s| s.chatter.hears(interface, text, now)) {
        note(router, interface, warns, text);
    }
}

fn note(router: &mut Router, interface: Option<u32>, warns: bool, text: &str) {
    let name = interface.map_or(String::new(), |i| format!("{}: ", router.interface_name(i)));
    router.note(warns, format!("{name}{text}"));
}

/// Does what there is to do; whether more waits.
fn work(router: &mut Router) -> bool {
    let now = router.now().0;
    let hub = router.state_mut::<State>().and_then(|s| s.hub.as_mut());
    let Some((events, more)) = hub.map(|hub| hub.work(now)) else { return false };
    let changed = events.iter().any(|e| !matches!(e, Event::Say { .. }));
    for event in events {
        match event {
            Event::Up { interface, link, words } => connected(router, interface, link, &words),
            Event::Down { interface, why } => {
                let Some(c) = router.state::<State>().and_then(|s| control(s, interface, None)) else {
                    continue;
                };
                router.unplug(interface, c);
                say(router, Some(interface), true, &format!("the connection has ended: {why}"));
            }
            Event::Say { interface, text } => say(router, interface, true, &text),
        }
    }
    if changed {
        router.reclaim();
    }
    more
}

fn connected(router: &mut Router, interface: u32, link: Link, words: &str) {
    let Some(i) = router.interface(interface) else { return };
    let (mac, mtu) = (i.mac, i.mtu.into());
    let mut senders = link.tx;
    let tx = (0..router.config().workers).filter_map(|_| senders.transmit_queue()).collect();
    let Some(control) = router.state::<State>().and_then(|s| control(s, interface, Some(senders))) else {
        return;
    };
    let device = Device { rx: link.rx, tx, caps: TxCaps::default(), mac, mtu, link: true, control };
    match router.plug(interface, device) {
        Ok(()) => say(router, Some(interface), false, words),
        Err(e) => {
            say(router, Some(interface), true, &e.to_string());
            let now = router.now().0;
            if let Some(hub) = router.state_mut::<State>().and_then(|s| s.hub.as_mut()) {
                hub.close(interface, "the router cannot take its queues", now);
            }
            if let Some(c) = router.state::<State>().and_then(|s| self::control(s, interface, None)) {
                router.unplug(interface, c);
            }
        }
    }
}

impl Part for Memif {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(State {
            hub: None,
            sockets: BTreeMap::new(),
            ports: BTreeMap::new(),
            stuck: None,
            chatter: Chatter::new(),
        })
    }

    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        let hub = Hub::new().map_err(|e| OpError::new(format!("no descriptors for memif: {e}")))?;
        if let Some(s) = router.state_mut::<State>() {
            s.hub = Some(hub);
        }
        Ok(())
    }

    fn settled(&self, router: &mut Router) {
        let now = router.now().0;
        let Some(s) = router.state_mut::<State>() else { return };
        let Some(hub) = &mut s.hub else { return };
        let set = |any, (i, p): (&u32, &Port)| hub.set_up(*i, p.up.load(Relaxed), now) | any;
        let changed = s.ports.iter().fold(false, set);
        if changed {
            work(router);
        }
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let now = router.now().0;
        if let Some(s) = router.state_mut::<State>()
            && s.ports.remove(&index).is_some()
        {
            s.chatter.forget(Some(index));
            if let Some(hub) = &mut s.hub {
                hub.remove(index, now);
            }
        }
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn descriptor<'r>(&self, router: &'r Router) -> Option<BorrowedFd<'r>> {
        Some(router.state::<State>()?.hub.as_ref()?.as_fd())
    }

    fn readable(&self, router: &mut Router) -> bool {
        let more = work(router);
        let now = router.now().0;
        if let Some(s) = router.state_mut::<State>() {
            s.stuck = Some(now + LOOK).filter(|_| !s.ports.is_empty());
        }
        more
    }

    fn next_deadline(&self, router: &Router) -> Option<Millis> {
        let s = router.state::<State>()?;
        let hub = s.hub.as_ref().and_then(Hub::deadline);
        hub.into_iter().chain(s.stuck).chain(s.chatter.due()).min().map(Millis)
    }

    fn tick(&self, router: &mut Router, now: Millis) {
        let due = |t: u64| t <= now.0;
        let Some(s) = router.state_mut::<State>() else { return };
        let sums = s.chatter.sums(now.0);
        let stuck = s.stuck.is_some_and(due);
        if stuck {
            s.stuck = None;
        }
        let works = stuck || s.hub.as_ref().and_then(Hub::deadline).is_some_and(due);
        sums.into_iter().for_each(|(interface, text)| note(router, interface, true, &text));
        if works {
            work(router);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_the_log_tell_no_secret() {
        let (place, secret) = (Place::parse("@lab").unwrap(), Some("s3cr3t".to_owned()));
        let config = Config { secret: secret.clone(), ..Config::new(place.clone(), 7) };
        let make = MemifOp::Create { socket: 1, config };
        let name = MemifOp::Socket { number: 1, socket: Some(Socket { place, secret }) };
        for op in [make, name] {
            let words = format!("{op:?}");
            assert!(words.contains(HIDDEN) && words.contains("@lab") && !words.contains("s3cr3t"), "{words}");
        }
    }
}
