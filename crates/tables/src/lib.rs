//! Tables that one control thread changes in place while workers read them.
//!
//! Every table comes as a pair: a *writer*, owned by the control thread, and an `Arc` of what
//! workers read. Reads never lock, wait or allocate; a reader sees for a key the answer from before a
//! change or the one from after it, never anything else.
//!
//! What a change takes out of a table is not reused at once, because a worker may be in the middle
//! of reading it. The writer stamps it with the epoch set by `retire_epoch`, and `reclaim(safe)` gives back
//! everything stamped before `safe`. Control advances the epoch now and then, and reclaims what
//! all workers have since passed.

mod config;
pub mod error;
pub mod exact;
mod fallback;
pub mod fib;
pub mod flows;
pub mod groups;
pub mod head;
pub mod labels;
mod lpm;
pub mod lpm4;
pub mod lpm6;
pub mod macs;
mod mem;
mod retire;
mod rib;
mod rib4;
mod slab;
pub mod slots;
pub mod small;
#[cfg(test)]
mod testing;
pub mod vlan;

pub use config::{LpmConfig, Pages};
pub use error::{RouteError, TableFull};
#[doc(hidden)]
pub use lpm::Engine;
pub use lpm::LpmWriter;
pub use packet::CpuLevel;
pub use slots::Guard;

/// Value of a longest-prefix match that found no route. Group 0 is reserved for it.
pub const MISS: u32 = 0;
/// Largest value a route may carry.
pub const MAX_VALUE: u32 = (1 << 31) - 1;
