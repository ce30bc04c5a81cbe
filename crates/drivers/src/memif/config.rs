//! What an interface is to be, and where a slave's rings and buffers lie.

use super::message::{Mode, SECRET};
use super::region;
use super::ring;
use crate::place::Place;
use packet::MacAddr;
use std::fmt;

/// Bytes of an Ethernet header with two tags.
const HEADERS: u32 = 22;
/// The smallest MTU that an interface may have.
const LEAST_MTU: u32 = 128;

/// Most rings of a direction.
pub const MOST_RINGS: usize = 64;

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
#[derive(Clone, PartialEq)]
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

/// Without the secret: it may come into the log.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { socket, id, role, mode, secret, rx_queues, tx_queues, slots, buffer } = self;
        f.debug_struct("Config")
            .field("socket", socket)
            .field("id", id)
            .field("role", role)
            .field("mode", mode)
            .field("secret", &secret.as_ref().map(|_| "(hidden)"))
            .field("rx_queues", rx_queues)
            .field("tx_queues", tx_queues)
            .field("slots", slots)
            .field("buffer", buffer)
            .finish()
    }
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

    pub(super) fn log2_slots(&self) -> u8 {
        self.slots.trailing_zeros() as u8
    }

    /// An address for this side: the same on every start, and another one on the other side.
    pub fn mac(&self) -> MacAddr {
        let role = if self.role == Role::Master { "master" } else { "slave" };
        crate::station::of(&[&self.socket.to_string(), &self.id.to_string(), role])
    }

    /// The longest IP packet that a slave's rings can hold with its Ethernet header and two tags, bytes; of a master the other side's rings
    /// tell.
    pub fn most_mtu(&self) -> Option<u16> {
        let bytes = self.most_frame().saturating_sub(HEADERS);
        (self.role == Role::Slave).then(|| u16::try_from(bytes).unwrap_or(u16::MAX))
    }

    /// Bytes that a slave's rings can hold of one packet.
    fn most_frame(&self) -> u32 {
        self.buffer.saturating_mul(self.slots.min(ring::MOST_SLOTS as u32))
    }

    /// Why it cannot be in one router with another interface, in words that go on with that one's name.
    pub fn clash(&self, other: &Config) -> Option<String> {
        let (place, id) = (&self.socket, self.id);
        if other.socket != *place {
            return None;
        }
        match (self.role, other.role) {
            (Role::Master, Role::Slave) | (Role::Slave, Role::Master) => Some(format!(
                "is the other side on the socket {place}: a slave connects to another process's, name another"
            )),
            _ if other.id == id => Some(format!("has number {id} on the socket {place} already")),
            _ => None,
        }
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
        let (most, least) = (self.most_frame(), LEAST_MTU + HEADERS);
        if self.role == Role::Slave && most < least {
            return Err(format!(
                "its rings would hold packets of {most} bytes at most, {least} are the least: a larger ring-size or buffer-size"
            ));
        }
        let usual = Config::new(self.socket.clone(), self.id);
        let of_slave = [
            ("rx-queues", self.rx_queues != usual.rx_queues),
            ("tx-queues", self.tx_queues != usual.tx_queues),
            ("ring-size", self.slots != usual.slots),
            ("buffer-size", self.buffer != usual.buffer),
        ];
        if let Some((what, _)) = of_slave.iter().find(|(_, given)| self.role == Role::Master && *given) {
            return Err(format!("{what} is the slave's: a master takes what that has, give it there"));
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
    pub(super) fn secret_bytes(&self) -> [u8; SECRET] {
        let mut bytes = [0; SECRET];
        for (to, from) in bytes.iter_mut().zip(self.secret.iter().flat_map(|s| s.bytes())) {
            *to = from;
        }
        bytes
    }
}

/// Where rings and buffers of a slave lie in its one region.
pub(super) struct Layout {
    /// Rings to the master, and from it.
    pub s2m: usize,
    pub m2s: usize,
    pub log2_slots: u8,
    pub buffer: u32,
}

impl Layout {
    pub(super) fn of(c: &Config, most_s2m: usize, most_m2s: usize, most_log2: u8) -> Layout {
        Layout {
            s2m: c.tx_queues.min(most_s2m),
            m2s: c.rx_queues.min(most_m2s),
            log2_slots: c.log2_slots().min(most_log2),
            buffer: c.buffer,
        }
    }

    /// Where ring `n` is, those to the master first, and its buffers.
    pub(super) fn ring(&self, n: usize) -> (u64, u64) {
        let ring = ring::bytes(self.log2_slots).next_multiple_of(128) as u64;
        let rings = (self.s2m + self.m2s) as u64 * ring;
        (
            n as u64 * ring,
            rings.next_multiple_of(4096) + n as u64 * (u64::from(self.buffer) << self.log2_slots),
        )
    }

    pub(super) fn bytes(&self) -> u64 {
        self.ring(self.s2m + self.m2s).1
    }
}
