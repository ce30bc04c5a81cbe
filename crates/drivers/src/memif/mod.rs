//! memif: packets over shared memory to another process of the machine, protocol version 2 (docs/memif.md).

pub mod hub;
pub mod message;
mod queue;
mod region;
mod ring;
mod signal;
mod socket;
#[cfg(test)]
mod tests;

pub use crate::counts::Drops;
pub use hub::{Config, Event, Hub, Link, MOST_RINGS, Peer, Role, State, drops};
pub use message::{Mode, SECRET};
pub use socket::Place;
