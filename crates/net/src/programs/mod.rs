//! Packets to and from programs, which come over the API: what is for the router and a program has asked for goes to it whole,
//! through a queue of its own, and what a program sends is put into the graph where that can do no harm.
//!
//! Workers find who has asked for what in [`crate::punt::Programs`], and hand packets over in [`ProgramPunt`].

mod inject;
mod node;
mod part;

pub use inject::{Fault, Inject, MOST_PACKETS, NODES};
pub use node::{ProgramPunt, ProgramReason};
pub use part::{Filter, MOST_STREAMS, Registration, What, register, unregister};

pub(crate) use part::ProgramsPart;
