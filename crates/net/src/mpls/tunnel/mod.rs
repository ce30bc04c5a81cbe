//! MPLS tunnels as interfaces. One that carries frames (a pseudowire, RFC 4448) sends through [`tx`] and receives through
//! [`rx`]; one that carries IP is nothing that packets meet, for routes over it lead where its paths lead.

pub mod commands;
mod rx;
mod tx;

pub use rx::{InterfaceRxL2, InterfaceRxL2Drop};
pub use tx::{MplsTunnelTx, TunnelTxDrop};

use crate::arcs;
use graph::Node;
use graph::arcs::Feature;

/// Where frames meet it that are sent over the interface.
pub static TUNNEL_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, MplsTunnelTx::NAME);

/// A tunnel for frames, as workers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The next-hop group of its paths.
    pub group: u32,
    /// A control word stands in front of each frame (RFC 4448 section 4.6).
    pub control_word: bool,
}
