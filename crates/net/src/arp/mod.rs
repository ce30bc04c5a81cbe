//! ARP (RFC 826): answers requests in the graph; what is learnt goes to the control side's neighbour table.

mod input;

pub use input::{ArpInput, ArpReason};
