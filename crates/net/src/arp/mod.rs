//! ARP (RFC 826): answers requests in the graph; what is learnt goes to the control side's neighbour table.

pub mod commands;
mod input;

pub use input::{ArpInput, ArpReason};

use crate::interface::{Declared, Setting};

/// Whether requests are answered only where the sender is on the link.
pub static SENDER_CHECK: Setting<bool> =
    Setting::new("checks senders of ARP", "set interface arp sender-check {} disable");

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 1] = [&SENDER_CHECK.declared];
