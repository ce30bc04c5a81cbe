//! Linux's routing state, read over netlink: what the kernel has, and each change of it.
//!
//! Knows nothing of Quiver. [`mirror`] is pure; [`follow`] is the thread that reads.

mod contents;
pub mod link;
pub mod mirror;
pub mod nexthop;
pub mod reader;
pub mod route;
mod routes;
pub mod socket;
pub mod wire;

pub use mirror::{Doubt, Mirror};
pub use reader::{Event, Reader, Stats, follow};
pub use route::{Action, Change, Key, Path, Route};
pub use socket::Sockets;
