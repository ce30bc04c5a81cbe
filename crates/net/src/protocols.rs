//! Protocols above IP that features bring: packets to the router of such a protocol go to the feature's node, past the limits
//! of what the router answers.

use graph::arcs::Feature;
use graph::{Desc, Rooms, flags, quick};
use packet::IpProtocol;
use packet::{ip4, ip6};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A protocol, and who takes its packets. They begin with the IP header, and `aux` says how many bytes the headers are long that
/// stand in front of the protocol's own.
pub struct LocalProtocol {
    /// Its number.
    pub number: IpProtocol,
    /// Who takes it over IPv4, on the arc `ip4-local`.
    pub ip4: &'static Feature,
    /// Who takes it over IPv6, on the arc `ip6-local`.
    pub ip6: &'static Feature,
}

impl LocalProtocol {
    /// Both places.
    pub fn features(&self) -> [&'static Feature; 2] {
        [self.ip4, self.ip6]
    }
}

/// Who takes packets of which protocol at the moment, as workers read it. Packets of the others are answered as if nobody knew the
/// protocol.
pub struct Takers {
    ip4: [AtomicU32; 256],
    ip6: [AtomicU32; 256],
}

impl Default for Takers {
    fn default() -> Self {
        let nobody = || std::array::from_fn(|_| AtomicU32::new(0));
        Takers { ip4: nobody(), ip6: nobody() }
    }
}

impl Takers {
    /// The bit on the arc of a family of who takes a protocol; 0: nobody.
    #[inline]
    pub fn of(&self, v6: bool, protocol: IpProtocol) -> u32 {
        self.entry(v6, protocol).load(Relaxed)
    }

    /// The feature of this bit takes a protocol from now on; 0: nobody.
    pub fn set(&self, v6: bool, protocol: IpProtocol, bit: u32) {
        self.entry(v6, protocol).store(bit, Relaxed);
    }

    fn entry(&self, v6: bool, protocol: IpProtocol) -> &AtomicU32 {
        let all = if v6 { &self.ip6 } else { &self.ip4 };
        &all[usize::from(protocol.0)]
    }
}

/// What usual packets to the router have in common: a feature takes them, and their IP header ends where it can.
pub struct Common {
    protocol: u8,
    taken_by: u32,
}

impl Common {
    /// Judged by the first packet, which begins with its IP header.
    pub fn of<const V6: bool>(takers: &Takers, first: &Desc, mut rooms: Rooms<'_>) -> Option<Common> {
        let w = rooms.window::<0>(first)?;
        let protocol = if V6 { w[6] } else { w[9] };
        let taken_by = takers.of(V6, IpProtocol(protocol));
        (taken_by != 0).then_some(Common { protocol, taken_by })
    }

    /// The bit of who takes them.
    pub fn features(&self) -> u32 {
        self.taken_by
    }

    /// [`graph::QuickNode::quick`].
    #[inline(always)]
    pub fn quick<const V6: bool>(&self, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let (protocol, len) = (self.protocol, if V6 { ip6::HEADER_LEN } else { ip4::HEADER_LEN } as u16);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            // No options, and no fragment.
            let plain = if V6 {
                w[6] == protocol
            } else {
                w[0] == 0x45 && w[9] == protocol && w[6] & 0x3f | w[7] == 0
            };
            if !plain || d.len < len {
                return false;
            }
            d.aux = len.into();
            true
        })
    }
}
