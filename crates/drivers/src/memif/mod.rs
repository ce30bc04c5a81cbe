//! memif: packets over shared memory to another process of the machine, protocol version 2 (docs/memif.md).

mod config;
mod conn;
mod handshake;
pub mod hub;
pub mod message;
mod queue;
mod region;
mod ring;
mod socket;
#[cfg(test)]
mod tests;

pub use crate::place::Place;
pub use config::{Config, MOST_RINGS, Role};
pub use conn::Peer;
pub use hub::{Hub, State, Waits};
pub use message::{Mode, SECRET};
