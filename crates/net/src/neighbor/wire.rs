//! Frames of ARP and neighbour discovery: written from actions, read into what the two tables want to hear.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{Asked, Conflict, Discard, Local, Neighbor, Reading, asked, read};
pub use write::{Message, anycast_na, dad_ns, gratuitous_arp, solicit, unsolicited_na};
