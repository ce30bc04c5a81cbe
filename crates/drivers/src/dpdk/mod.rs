//! Devices of DPDK, by a library of Quiver's own (`crates/drivers/dpdk`) that is loaded when one is first named (docs/dpdk.md). Nothing here needs
//! DPDK to be built.

mod abi;
mod burst;
mod config;
mod device;
mod env;
pub mod hub;
mod library;
mod piece;
mod pool;
mod queue;
mod stand;
#[cfg(test)]
mod tests;
mod thread;

pub use abi::{LinkState, Lost};
pub use config::{Config, MOST_QUEUES, Name, mac};
pub use hub::{Event, Handle, Hub, Running, Seen, Setting, State};
pub use library::{Library, load, loaded};
pub use queue::{CAPS, Senders};
