//! Whether packets for the router itself are within their limits.

use super::Plane;
use crate::punt::Class;
use graph::Packet;
use std::net::IpAddr;

impl Plane {
    /// True when a packet of `class` is within its limit. Otherwise the caller sends it to `punt-policer`, to which the
    /// descriptor's scratch word says the class.
    #[inline]
    pub fn admits(&self, p: &mut Packet<'_>, class: Class) -> bool {
        self.admits_from(p, class, None)
    }

    /// The same for what a neighbour says of itself: room is kept for those that the router has asked for, and those that it knows.
    #[inline]
    pub fn admits_from(&self, p: &mut Packet<'_>, class: Class, station: Option<IpAddr>) -> bool {
        let (rx, now) = (p.d.rx, p.env.now_ns);
        let expected = || station.is_some_and(|a| self.police.expected.holds(rx, a, now));
        let admitted = self.police.admit(class, rx, now, p.env.worker, expected);
        if !admitted {
            p.d.aux = class as u32;
        }
        admitted
    }
}
