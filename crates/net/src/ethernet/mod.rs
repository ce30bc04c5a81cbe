//! Ethernet: where frames enter the graph.

mod input;
mod tagged;

pub use input::{EthernetDrop, EthernetInput, sub_interface};
