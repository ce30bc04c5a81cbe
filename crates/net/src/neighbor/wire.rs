//! Frames of ARP and neighbour discovery: written from actions, read into what the two tables want to hear.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Conflict, Discard, Local, Neighbor, Reading, read};
pub use write::{Message, dad_ns, gratuitous_arp, solicit, unsolicited_na};
