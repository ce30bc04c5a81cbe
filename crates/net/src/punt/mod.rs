//! Control-plane policing: what goes to the router itself is classed, counted and limited ([`Police`]), so that a flood of
//! one class takes neither the processor from forwarding nor the place of another class, and a flood on one interface leaves
//! the others their share and room for answers that are expected ([`Expected`]). What passes and is for the
//! control side goes through a bounded queue ([`Punt`]).
//!
//! A new class is one line in [`class`] and a call of `Plane::admits` in the node that sees its packets.

pub mod class;
mod expected;
pub mod linux;
mod police;
mod policer;
mod programs;
mod queue;
mod share;

pub use class::{Class, Limit};
pub use expected::Expected;
pub use police::{ClassCounts, Police, Verdict};
pub use policer::PuntPolicer;
pub use programs::{Asked, Programs};
pub use queue::{MOST_BYTES, Message, Punt, PuntKind, Punted, Request};
