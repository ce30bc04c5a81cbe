//! Control-plane policing: what goes to the router itself is classed, counted and limited ([`Police`]), so that a flood of
//! one class takes neither the processor from forwarding nor the place of another class, and a flood on one interface leaves
//! the others their share and room for answers that are expected ([`Expected`]). What passes and is for the
//! control side goes through a bounded queue ([`Punt`]).
//!
//! A new class is one line in [`class`] and a call of [`admits`] in the node that sees its packets.

pub mod class;
pub mod commands;
mod expected;
mod police;
mod policer;
mod queue;
mod share;

pub use class::{Class, Limit};
pub use expected::Expected;
pub use police::{ClassCounts, Police, Verdict};
pub use policer::PuntPolicer;
pub use queue::{Message, PUNT_BYTES, Punt, PuntKind};

use crate::plane::Plane;
use graph::Packet;
use std::net::IpAddr;

/// True when a packet of `class` is within its limit. Otherwise the caller sends it to `punt-policer`, to which the
/// descriptor's scratch word says the class.
#[inline]
pub fn admits(plane: &Plane, p: &mut Packet<'_>, class: Class) -> bool {
    admits_from(plane, p, class, None)
}

/// The same for what a neighbour says of itself: room is kept for those that the router has asked for, and those that it knows.
#[inline]
pub fn admits_from(plane: &Plane, p: &mut Packet<'_>, class: Class, station: Option<IpAddr>) -> bool {
    let (rx, now) = (p.d.rx, p.env.now_ns);
    let expected = || station.is_some_and(|a| plane.police.expected.holds(rx, a, now));
    let admitted = plane.police.admit(class, rx, now, p.env.worker, expected);
    if !admitted {
        p.d.aux = class as u32;
    }
    admitted
}
