//! Bonds: several devices as one interface, `BondEthernetN`.
//!
//! A member's frames come in on the bond ([`BondInput`] on `device-input`), but for what is for the link itself, as LACP ([`LacpInput`])
//! and LLDP; what the bond sends leaves over a member that its mode chooses ([`BondTx`], the last feature of `interface-output`). Which
//! members take part, workers read as `plane` has it. The control side (`part`) works that out of the members' links, and with LACP
//! of what its machine says ([`lacp`], pure logic with time as an argument).

mod commands;
mod config;
pub mod hash;
mod input;
pub mod lacp;
mod lacp_input;
mod ops;
mod part;
mod plane;
mod show;
mod slots;
#[cfg(test)]
mod tests;
mod tx;

pub use config::{Balance, BondConfig, MAX_INSTANCE, MOST_MEMBERS, MemberConfig, Mode, is_name};
pub use input::{BondInput, BondInputNext};
pub use lacp_input::{LacpInput, LacpInputNext};
pub use ops::{BondOp, Joins};
pub(crate) use part::Bonding;
pub use part::{MTU, bond, member, members};
pub use tx::{BondTx, BondTxNext};

use crate::arcs;
use crate::capture::PCAP_RX;
use crate::span::SPAN_INPUT;
use graph::Node;
use graph::arcs::Feature;

/// Where frames of members become those of their bond: captures and mirrors of a member see them before.
pub static BOND_INPUT: Feature =
    Feature::new(&arcs::DEVICE_INPUT, BondInput::NAME).after(&[&PCAP_RX, &SPAN_INPUT]);
/// Where frames of a bond get the member over which they leave.
pub static BOND_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, BondTx::NAME);
