//! MPLS tunnels as interfaces. One that carries frames (a pseudowire, RFC 4448) sends through [`tx`] and receives through
//! [`rx`]; one that carries IP is nothing that packets meet, for routes over it lead where its paths lead.

pub mod commands;
mod rx;
pub(super) mod state;
mod tx;

pub use rx::{InterfaceRxL2, InterfaceRxL2Drop};
pub use tx::{MplsTunnelTx, TunnelTxDrop};
