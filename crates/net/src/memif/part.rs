//! memif interfaces as a part of the control side.

use super::{Mode, Role, commands};
use crate::peers::{self, MTU, PeerKind, Peers, for_root};
use crate::router::{FloodClass, Kind, NewVirtual, Op, OpError, PartOp, Router, VirtualKind};
use command::{Command, HIDDEN, quote};
use drivers::memif::{self, Config, Hub, Place};
use std::collections::BTreeMap;
use std::fmt;

/// The file of socket 0, unless the operator says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/quiver/memif.sock";

/// The largest IP packet of an interface unless the operator says otherwise, bytes: what its rings can hold, where that is less.
pub fn mtu(config: &Config) -> u16 {
    config.most_mtu().map_or(MTU, |most| most.min(MTU))
}

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

/// Interfaces whose mark is the number of their socket; beside them, the sockets that the operator has named.
pub(crate) struct Memif;

impl PeerKind for Memif {
    type Hub = Hub;
    type Config = Config;
    type Mark = u32;
    type Own = BTreeMap<u32, Socket>;
    const TITLE: &'static str = "memif";
    const ENDED: &'static str = "the connection has ended";

    fn words(c: &Config) -> String {
        format!("memif {}, number {} on the socket {}", role(c), c.id, c.socket)
    }

    fn most_mtu(c: &Config) -> Option<(u16, &'static str)> {
        Some((c.most_mtu()?, "more with a larger ring-size or buffer-size"))
    }

    fn commands() -> Vec<Command<Router>> {
        commands::all()
    }
}

/// The role in words.
pub(super) fn role(c: &Config) -> &'static str {
    match c.role {
        Role::Master => "master",
        Role::Slave => "slave",
    }
}

/// Socket 0, unless the operator says otherwise.
pub fn default_socket() -> Result<Place, String> {
    Place::parse(DEFAULT_SOCKET)
}

/// What the operator wants of an interface, and the number of its socket.
pub fn config(router: &Router, interface: u32) -> Option<(u32, &Config)> {
    Peers::<Memif>::port(router, interface).map(|p| (p.mark, &p.config))
}

/// The socket of a number, as far as it is known.
pub fn socket_of(router: &Router, number: u32) -> Option<Socket> {
    let s = router.state::<Peers<Memif>>()?;
    let used = || s.ports.values().find(|p| p.mark == number);
    let place_of_port = || Some(Socket { place: used()?.config.socket.clone(), secret: None });
    s.own.get(&number).cloned().or_else(place_of_port).or_else(|| {
        let place = default_socket().ok().filter(|_| number == 0)?;
        Some(Socket { place, secret: None })
    })
}

/// All sockets that are known, by number.
pub(super) fn sockets(router: &Router) -> BTreeMap<u32, Socket> {
    let numbers = router
        .state::<Peers<Memif>>()
        .into_iter()
        .flat_map(|s| s.own.keys().copied().chain(s.ports.values().map(|p| p.mark)).chain([0]));
    numbers.filter_map(|n| Some((n, socket_of(router, n)?))).collect()
}

/// What an interface without a connection waits for, with what went wrong last and how many seconds ago.
pub(super) fn waits(router: &Router, interface: u32) -> Option<(String, Option<(String, u64)>)> {
    let memif::Waits { what, error } = Peers::<Memif>::hub(router)?.waits(interface)?;
    let now = router.now().0;
    Some((what, error.map(|(why, at)| (why, now.saturating_sub(at) / 1000))))
}

/// All interfaces, with how they stand.
pub(super) fn interfaces(
    router: &Router,
) -> impl Iterator<Item = (u32, u32, &Config, memif::State, Option<&memif::Peer>)> {
    Peers::<Memif>::standing(router).filter_map(|(i, p, hub)| {
        let (state, peer) = hub.state(i)?;
        Some((i, p.mark, &p.config, state, peer))
    })
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
        let mtu = mtu(&config);
        let new = NewVirtual { name, kind: Kind::Virtual(kind), origin, mac: config.mac(), mtu };
        peers::create::<Memif>(router, new, config, socket)
    }
}

fn is_used(router: &Router, number: u32) -> bool {
    router.state::<Peers<Memif>>().is_some_and(|s| s.ports.values().any(|p| p.mark == number))
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
                let mut make = format!("create interface memif id {} socket-id {socket} {}", c.id, role(c));
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
                let Some(s) = router.state_mut::<Peers<Memif>>() else { return Ok(vec![]) };
                let was = match socket {
                    Some(socket) => s.own.insert(number, socket),
                    None => s.own.remove(&number),
                };
                Ok(vec![MemifOp::Socket { number, socket: was }.into()])
            }
        }
    }

    fn log_line(&self) -> Option<String> {
        match self {
            MemifOp::Create { socket, config: c } => Some(format!(
                "interface memif{socket}/{}: memif {} on the socket {}",
                c.id,
                role(c),
                c.socket
            )),
            MemifOp::Socket { .. } => None,
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
