//! Control-plane policing: what goes to the router itself is classed, counted and limited ([`Police`]), so that a flood of
//! one class takes neither the processor from forwarding nor the place of another class. What passes and is for the
//! control side goes through a bounded queue ([`Punt`]).
//!
//! A new class is one line in [`class`] and a call of [`admits`] in the node that sees its packets.

pub mod class;
pub mod commands;
mod police;
mod policer;
mod queue;

pub use class::{Class, Limit};
pub use police::{ClassCounts, Police};
pub use policer::PuntPolicer;
pub use queue::{Message, PUNT_BYTES, Punt, PuntKind};

use crate::plane::Plane;
use graph::Packet;

/// True when a packet of `class` is within its limit. Otherwise the caller sends it to `punt-policer`, to which the
/// descriptor's scratch word says the class.
#[inline]
pub fn admits(plane: &Plane, p: &mut Packet<'_>, class: Class) -> bool {
    let admitted = plane.police.admit(class, p.env.now_ns, p.env.worker);
    if !admitted {
        p.d.aux = class as u32;
    }
    admitted
}
