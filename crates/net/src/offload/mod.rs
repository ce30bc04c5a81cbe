//! Offloads in software: what the driver behind an interface does not do for partial checksums and super-frames.
//! AF_PACKET and TAP do all of it, at the last moment ([`drivers::offload`]); capture files do nothing.

mod segment;

pub use segment::{GsoReason, GsoSegment, complete};

use graph::{Packet, TxCaps, flags};
use packet::gso::VnetHdr;

/// True when a device with `caps` takes the packet as it is.
#[inline]
pub fn fits(p: &Packet<'_>, caps: &TxCaps) -> bool {
    if !p.has(flags::GSO) {
        return caps.checksum;
    }
    match p.meta().gso_type & !VnetHdr::GSO_ECN {
        VnetHdr::GSO_TCPV4 | VnetHdr::GSO_TCPV6 => caps.checksum && caps.tso,
        VnetHdr::GSO_UDP_L4 => caps.checksum && caps.uso,
        _ => false,
    }
}

/// Bytes of the largest IP packet that a super-frame becomes; the packet starts at its IP header.
pub fn segment_len(p: &Packet<'_>) -> usize {
    let m = *p.meta();
    let total = p.total_len();
    let l4 = usize::from(m.csum_start.saturating_sub(p.d.off));
    let l4_len = match m.gso_type & !VnetHdr::GSO_ECN {
        VnetHdr::GSO_UDP_L4 => 8,
        _ => p.data().get(l4 + 12).map_or(20, |b| usize::from(b >> 4) * 4),
    };
    (l4 + l4_len + usize::from(m.gso_size)).min(total)
}
