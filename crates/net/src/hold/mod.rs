//! Packets whose neighbour is not known yet: held on the worker until the control side has resolved it, then sent.

mod ip4;
mod ip6;
mod waiting;

pub use ip4::{Ip4Hold, Ip4HoldReason};
pub use ip6::{Ip6Hold, Ip6HoldReason};
pub use waiting::{Key, Refused, Waiting};
