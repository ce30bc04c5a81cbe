//! The nodes at the graph's output.

mod error_drop;
mod interface_output;
mod interface_tx;

pub use error_drop::ErrorDrop;
pub use interface_output::{InterfaceOutput, OutputDrop};
pub use interface_tx::{InterfaceTx, TxDrop};
