//! Control-plane policing as the operator has it: limits and counters of the classes of packets for the router itself
//! ([`crate::punt`], which workers have).

mod commands;
mod part;

pub(crate) use part::Copp;
pub use part::{ClassRow, SetLimit, rows};
