//! Ethernet: where frames enter the graph.

mod input;

pub use input::{EthernetDrop, EthernetInput};
