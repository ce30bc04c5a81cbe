//! Fragments of datagrams.
//!
//! *Full reassembly* puts a datagram together from its fragments: for packets to the router itself always, for packets
//! through it where an interface asks for it. *Virtual reassembly* lets fragments go on as they are and tells each the
//! ports of its datagram ([`L4`]), which only the first fragment holds; those that come before it wait.
//!
//! All fragments of a datagram meet on one worker, which a keyed hash of what they have in common chooses: devices share
//! packets out by hashes of their own, and fragments may come over several of them. The memory of each worker is bounded
//! by number, time and buffers; when there is no room the oldest datagram goes. Overlaps, and whatever else makes a
//! datagram ambiguous, end the whole datagram (RFC 5722, RFC 8200 section 4.5); what comes of it later is dropped, too.

mod commands;
mod fragment;
mod full;
mod part;
mod reassembler;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod virt;

pub use fragment::{Family, Key4, Key6, ReassemblyReason, V4, V6};
pub use full::FullReassembly;
pub(crate) use part::Reassembly;
pub use part::{SetLimits, limits};
pub use virt::VirtualReassembly;

use crate::arcs;
use crate::interface::{Declared, Setting, Switch};
use crate::plane::Plane;
use graph::arcs::Feature;
use graph::{Dispatcher, Exit, Guard, Packet, flags};
use packet::IpProtocol;
use packet::ip6::MIN_MTU;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// `ip4-full-reassembly`.
pub type Ip4FullReassembly = FullReassembly<V4>;
/// `ip6-full-reassembly`.
pub type Ip6FullReassembly = FullReassembly<V6>;
/// `ip4-sv-reassembly`.
pub type Ip4VirtualReassembly = VirtualReassembly<V4>;
/// `ip6-sv-reassembly`.
pub type Ip6VirtualReassembly = VirtualReassembly<V6>;

static IP4_FULL: Feature = Feature::new(&arcs::IP4_UNICAST, V4::FULL);
static IP6_FULL: Feature = Feature::new(&arcs::IP6_UNICAST, V6::FULL);
static IP4_VIRTUAL: Feature = Feature::new(&arcs::IP4_UNICAST, V4::VIRTUAL);
static IP6_VIRTUAL: Feature = Feature::new(&arcs::IP6_UNICAST, V6::VIRTUAL);

const DOES: &str = "reassembles fragments";
const FULL: &str = "set interface reassembly {} off";
const VIRTUAL: &str = "set interface virtual-reassembly {} off";
static FULL4: Setting<bool> = Setting::new(DOES, FULL);
static FULL6: Setting<bool> = Setting::new(DOES, FULL);
static VIRTUAL4: Setting<bool> = Setting::new(DOES, VIRTUAL);
static VIRTUAL6: Setting<bool> = Setting::new(DOES, VIRTUAL);

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 4] =
    [&FULL4.declared, &FULL6.declared, &VIRTUAL4.declared, &VIRTUAL6.declared];

/// What they are switched on by.
pub static SWITCHES: [Switch; 4] = [
    Switch { feature: &IP4_FULL, on: |s| s.get(&FULL4) },
    Switch { feature: &IP6_FULL, on: |s| s.get(&FULL6) },
    Switch { feature: &IP4_VIRTUAL, on: |s| s.get(&VIRTUAL4) },
    Switch { feature: &IP6_VIRTUAL, on: |s| s.get(&VIRTUAL6) },
];

/// Flag of a packet that was put together here; the first user word of its meta line holds the size of its largest
/// fragment.
pub const REASSEMBLED: u16 = flags::SPECIAL;
/// Flag of a fragment to which virtual reassembly has told its [`L4`].
pub const KNOWN_L4: u16 = flags::USER;
/// The user word of a packet's meta line that holds the size of the largest fragment.
const LARGEST: usize = 0;
/// The user word that holds protocol and kind of an [`L4`].
const KIND: usize = 1;

/// The largest IPv6 packet that may leave over a link of this MTU: one that was put together here leaves in fragments not
/// larger than those that came, since its sender may know of a smaller MTU on the way. IPv4 routers there may cut it again.
#[inline]
pub fn largest6(p: &Packet<'_>, mtu: u16) -> usize {
    if p.has(REASSEMBLED) {
        return usize::from(mtu).min((p.meta().user[LARGEST] as usize).max(MIN_MTU.into()));
    }
    mtu.into()
}

/// The largest IPv4 packet that may leave over a link of this MTU: the same, for one that was put together here and goes on. Its
/// largest fragment had room for a header and eight bytes, so what is cut to it has, too.
#[inline]
pub fn largest4(p: &Packet<'_>, mtu: u16) -> usize {
    if p.has(REASSEMBLED) && !p.has(flags::LOCAL) {
        return usize::from(mtu).min(p.meta().user[LARGEST] as usize);
    }
    mtu.into()
}

/// Limits of one kind of reassembly, for each worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Datagrams at once; 0: every fragment is dropped.
    pub max_reassemblies: u32,
    /// Fragments of one datagram.
    pub max_length: u32,
    /// How long the fragments of a datagram are waited for.
    pub timeout: Duration,
    /// How often what is too old is looked for. Between two looks it goes when another fragment comes.
    pub walk: Duration,
}

impl Settings {
    /// The most datagrams at once.
    pub const MOST_REASSEMBLIES: u32 = 16_384;
    /// The most fragments of one datagram: the longest one in the smallest fragments of a link for IPv4.
    pub const MOST_LENGTH: u32 = 2048;
    /// The longest timeout and interval, milliseconds.
    pub const MOST_MS: u32 = 600_000;

    const fn new(timeout: Duration) -> Settings {
        Settings { max_reassemblies: 1024, max_length: 128, timeout, walk: Duration::from_secs(1) }
    }
}

/// A kind of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// For IPv6 instead of IPv4.
    pub v6: bool,
    /// Virtual instead of full.
    pub shallow: bool,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [
        Kind { v6: false, shallow: false },
        Kind { v6: true, shallow: false },
        Kind { v6: false, shallow: true },
        Kind { v6: true, shallow: true },
    ];

    /// Its node.
    pub const fn node(self) -> &'static str {
        match (self.v6, self.shallow) {
            (false, false) => "ip4-full-reassembly",
            (true, false) => "ip6-full-reassembly",
            (false, true) => "ip4-sv-reassembly",
            (true, true) => "ip6-sv-reassembly",
        }
    }

    /// What switches it on for an interface.
    pub fn setting(self) -> &'static Setting<bool> {
        match (self.v6, self.shallow) {
            (false, false) => &FULL4,
            (true, false) => &FULL6,
            (false, true) => &VIRTUAL4,
            (true, true) => &VIRTUAL6,
        }
    }

    /// Its name in the YAML document.
    pub const fn name(self) -> &'static str {
        match (self.v6, self.shallow) {
            (false, false) => "ip4",
            (true, false) => "ip6",
            (false, true) => "ip4-virtual",
            (true, true) => "ip6-virtual",
        }
    }

    /// The limits with which the router starts: RFC 8200 section 4.5 asks for 60 seconds, Linux waits 30 for IPv4.
    pub const fn defaults(self) -> Settings {
        match (self.v6, self.shallow) {
            (false, false) => Settings::new(Duration::from_secs(30)),
            (true, false) => Settings::new(Duration::from_secs(60)),
            (_, true) => Settings::new(Duration::from_secs(2)),
        }
    }

    const fn index(self) -> usize {
        (self.v6 as usize) | (self.shallow as usize) << 1
    }
}

/// The limits of all kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config([Settings; 4]);

impl Default for Config {
    fn default() -> Self {
        Config(Kind::ALL.map(Kind::defaults))
    }
}

impl Config {
    /// The limits of one kind.
    #[inline]
    pub fn of(&self, kind: Kind) -> &Settings {
        &self.0[kind.index()]
    }

    /// The limits of one kind, to be changed.
    pub fn of_mut(&mut self, kind: Kind) -> &mut Settings {
        &mut self.0[kind.index()]
    }
}

/// When a node looks for datagrams that are too old: in intervals, from the first one that it holds on.
#[derive(Default)]
struct Walk {
    next_ns: u64,
}

impl Walk {
    /// Datagrams that go in one look at most: others have their turn between two.
    const AT_ONCE: usize = 64;

    /// When the node has to look, if it holds anything.
    fn due_ns(&self, holds: bool) -> Option<u64> {
        holds.then_some(self.next_ns)
    }

    /// Notes that some went: whether the node looks again at once, as there may be more.
    fn looked(&mut self, now_ns: u64, gone: usize, settings: &Settings) -> bool {
        if gone < Self::AT_ONCE {
            self.next_ns = now_ns.saturating_add(settings.walk.as_nanos() as u64);
        }
        gone >= Self::AT_ONCE
    }
}

/// Has all nodes of a worker's graph let go of what they hold: tests look for lost buffers then.
pub fn clear(d: &mut Dispatcher) {
    d.visit(Kind::ALL[0].node(), Ip4FullReassembly::clear);
    d.visit(Kind::ALL[1].node(), Ip6FullReassembly::clear);
    d.visit(Kind::ALL[2].node(), Ip4VirtualReassembly::clear);
    d.visit(Kind::ALL[3].node(), Ip6VirtualReassembly::clear);
}

/// Buffers that one kind of reassembly of one worker may hold: all of them together hold a quarter of the pool at most.
pub fn allowance(buffers: usize, workers: usize) -> usize {
    (buffers / 16 / workers.max(1)).max(64)
}

/// What a worker says of its datagrams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Datagrams of which fragments are missing.
    pub datagrams: usize,
    /// Fragments held.
    pub fragments: usize,
    /// Their buffers.
    pub buffers: usize,
    /// Buffers that may be held.
    pub allowance: usize,
    /// Datagrams of which all fragments came, since the start.
    pub completed: u64,
    /// Datagrams that went to make room, since the start.
    pub evicted: u64,
    /// Datagrams whose time ran out, since the start.
    pub timeouts: u64,
    /// Datagrams that were refused for what their fragments said, since the start.
    pub refused: u64,
    /// The datagrams themselves, oldest first.
    pub details: Vec<Datagram>,
}

/// One datagram of a [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Addresses, identification and protocol.
    pub key: String,
    /// Milliseconds since its first fragment came.
    pub age_ms: u64,
    /// Fragments held.
    pub fragments: u32,
    /// Bytes of payload that came so far.
    pub bytes: u32,
    /// Refused: what still comes of it is dropped.
    pub refused: bool,
}

/// Upper-layer ports of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L4 {
    /// Source port; of an ICMP echo its identifier.
    pub src: u16,
    /// Destination port; of an ICMP echo its identifier.
    pub dst: u16,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// TCP flags, or ICMP type.
    pub kind: u8,
}

impl L4 {
    /// Reads the header `upper` of `protocol`. Protocols without ports have zeros.
    pub fn read(protocol: IpProtocol, upper: &[u8]) -> Option<L4> {
        let word = |at: usize| upper.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let base = L4 { protocol: protocol.0, ..L4::default() };
        Some(match protocol {
            IpProtocol::TCP => L4 { src: word(0)?, dst: word(2)?, kind: *upper.get(13)?, ..base },
            IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                let kind = *upper.first()?;
                let echo = match protocol {
                    IpProtocol::ICMP => kind == 0 || kind == 8,
                    _ => kind == 128 || kind == 129,
                };
                let id = if echo { word(4)? } else { 0 };
                L4 { src: id, dst: id, kind, ..base }
            }
            p if p.has_ports() => L4 { src: word(0)?, dst: word(2)?, ..base },
            _ => base,
        })
    }

    /// What virtual reassembly told the fragment `p`: ports in the descriptor's second scratch word, the rest in its meta
    /// line.
    pub fn of(p: &Packet<'_>) -> Option<L4> {
        let kind = p.meta().user[KIND];
        p.has(KNOWN_L4).then_some(L4 {
            src: (p.d.hash >> 16) as u16,
            dst: p.d.hash as u16,
            protocol: (kind >> 8) as u8,
            kind: kind as u8,
        })
    }

    /// Tells a fragment.
    fn tell(self, d: &mut graph::Desc, buffers: &mut graph::Buffers) {
        d.hash = u32::from(self.src) << 16 | u32::from(self.dst);
        d.flags |= KNOWN_L4;
        buffers.meta_mut(&d.buf).user[KIND] = u32::from(self.protocol) << 8 | u32::from(self.kind);
    }
}

/// The routing table in which packets from interface `rx` are looked up: datagrams of different tables have nothing to do
/// with each other, even where their addresses are the same.
fn table_of(plane: &Plane, guard: &Guard, rx: u32, v6: bool) -> u32 {
    plane.interfaces.get(rx, guard).map_or(0, |i| if v6 { i.table6 } else { i.table4 })
}

/// The worker that has the datagrams of `key`.
fn owner<K: Hash>(plane: &Plane, key: &K) -> usize {
    match plane.handoff.workers() {
        0 | 1 => 0,
        workers => (plane.fragment_hash.hash_one(key) % workers as u64) as usize,
    }
}

/// Goes on when this worker is the one that has the datagrams of `key`, else sends the fragment there.
fn to_owner<K: Hash>(plane: &Plane, p: &mut Packet<'_>, key: &K) -> Result<(), Exit<ReassemblyReason>> {
    let owner = owner(plane, key);
    if owner == p.env.worker {
        return Ok(());
    }
    p.count(ReassemblyReason::HandedOff);
    let node = p.env.node();
    let d = p.take();
    p.env.hand_off(owner, node, d);
    Err(Exit::Consumed)
}
