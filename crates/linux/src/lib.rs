//! Linux's routing state, read over netlink: what the kernel has, and each change of it. Routes, and the links, addresses and neighbors
//! that they stand on.
//!
//! Knows nothing of Quiver. [`mirror`] is pure; [`follow`] is the thread that reads.

pub mod address;
mod contents;
pub mod fdb;
pub mod fpm;
mod labels;
pub mod link;
pub mod mirror;
pub mod neighbor;
pub mod nexthop;
pub mod reader;
pub mod route;
mod routes;
pub mod socket;
pub mod wire;

pub use address::Address;
pub use fdb::Fdb;
pub use link::{Link, LinkKind};
pub use mirror::{Doubt, Mirror};
pub use neighbor::{Knows, Neighbor};
pub use reader::{Event, Reader, Stats, follow};
pub use route::{Action, Change, Key, LabelChange, Path, Route};
pub use socket::Sockets;
