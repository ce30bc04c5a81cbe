//! Packets for the router itself that Linux is to have, where the interface on which they came has a pair: all go over
//! `linux-cp-punt`.

use graph::{Edge, Packet, flags};

/// In [`graph::Desc::aux`] on the way to `linux-cp-punt`: an IP packet, whatever stood in front of it.
pub const PACKET: u32 = 0;
/// There: the frame from its Ethernet header on.
pub const FRAME: u32 = 1;

/// What Linux has of what was found out about a packet.
pub const KEPT: u16 = flags::TRACED | flags::CHAINED | flags::CSUM_PARTIAL | flags::GSO | flags::CSUM_VALID;

/// Sends Linux a copy, over `edge` to `linux-cp-punt` or to an arc on which it has these `features` to visit: the router goes on with the packet itself. False where buffers are short: the
/// last eighth of the pool is for frames that are received.
#[cold]
pub fn copy(p: &mut Packet<'_>, what: u32, features: u32, edge: impl Edge) -> bool {
    let pool = p.env.buffers.pool();
    if pool.global_free() <= pool.count() / 8 {
        return false;
    }
    let Some(mut copy) = p.duplicate() else { return false };
    (copy.aux, copy.feat) = (what, features);
    p.env.forward(copy, edge);
    true
}
