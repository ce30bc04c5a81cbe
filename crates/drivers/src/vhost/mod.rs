//! vhost-user: packets over virtqueues in the memory of a virtual machine or another process, which this side maps as the back-end
//! (docs/vhost-user.md).

mod config;
mod conn;
mod fault;
pub mod hub;
mod memory;
pub mod message;
mod queue;
mod ring;
#[cfg(test)]
mod tests;

pub use crate::place::Place;
pub use config::{Config, MOST_PAIRS, Role};
pub use conn::Peer;
pub use hub::{Hub, State};
pub use message::feature_names;
