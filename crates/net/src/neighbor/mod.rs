//! Neighbours and own addresses on a link, for IPv4 (ARP) and IPv6 (neighbour discovery) alike.
//!
//! Everything here is pure logic on the control side: time is an argument, inputs are method calls, outputs are
//! actions pushed to a vector of the caller. [`table`] maps next hops to MAC addresses, [`address`] looks after the
//! router's own addresses, [`wire`] turns actions into frames and frames into inputs.
//!
//! The caller's loop: call the method for what happened, carry out the actions, sleep until the sooner of the two
//! `next_deadline`s, call `tick`.

pub mod address;
pub mod config;
pub mod table;
pub mod wire;

mod entry;
mod limiter;
mod log;
mod proxies;

pub use address::{AddressAction, AddressTable};
pub use config::{AddressConfig, DadMode, NeighborConfig};
pub use entry::{NeighborInfo, State};
pub use log::NeighborLog;
pub use proxies::{MOST_PROXIES, Proxies};
pub use table::{Action, AddStaticError, Heard, Known, NeighborTable};

use std::net::IpAddr;

/// Milliseconds since an origin that the caller chooses; never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// This long after.
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to here; 0 if that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Identifies an address on a link.
pub type Key = (u32, IpAddr);

/// Steps a splitmix64 generator: spreads timers, nothing here needs secrecy.
pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
