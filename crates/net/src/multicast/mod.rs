//! Multicast groups that interfaces have joined, and what is said of them on the link: as a host, IGMPv3 (RFC 3376) and MLDv2
//! (RFC 3810), with the older versions where a querier speaks those. So that switches which listen in forward the groups here.
//!
//! What comes for a group that its interface has not joined is dropped by `ip4-input` and `ip6-input`. Joined groups go to
//! `ip4-local` and `ip6-local`. [`table`] is pure logic, with time as an argument; [`wire`] makes and reads packets;
//! `part` follows interfaces and addresses.

pub mod commands;
pub mod table;
pub mod wire;

mod igmp_input;
mod part;

pub use igmp_input::IgmpInput;
pub(crate) use part::Multicast;
pub use part::{Join, joined, wanted};
pub use table::{Action, MulticastTable, Record};
pub use wire::Query;

/// The most groups that the operator may have an interface join.
pub const MOST_GROUPS: usize = 256;
