//! ICMP errors about labelled packets whose sender this router has no route to: they go on along the label switched path, below
//! the stack of the packet, and the router at its end sends them back (RFC 3032 section 2.3.2).

use crate::labels::top;
use graph::{Packet, TraceRecord, flags};
use packet::eth::EtherType;
use packet::mpls::{ENTRY_LEN, Entry};
use std::fmt;

/// Flag of a packet about which an error is to be sent that way. [`graph::Desc::hash`] has the bytes of its stack, which is in front
/// of its current header, and [`graph::Desc::tx`] the adjacency, or [`LOOK_UP`].
pub(crate) const ALONG: u16 = flags::USER << 2;
/// In the place of an adjacency: the stack is one that is yet to be looked up.
pub(crate) const LOOK_UP: u32 = u32::MAX;

/// Bytes of the largest stack that is put on packets which the router makes of others: the longest IPv4 header and a link-layer
/// header fit in front of a buffer with it.
pub(crate) const MOST_BYTES: usize = 10 * ENTRY_LEN;

/// High enough for the rest of any path.
const TTL: u8 = 255;

/// The stack of a packet, kept while an error takes its place.
pub(crate) struct Kept {
    stack: [u8; MOST_BYTES],
    len: usize,
    way: u32,
}

/// Where an error goes that has its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlongNext {
    /// To `mpls-lookup`.
    Lookup,
    /// To `mpls-output`.
    Output,
}

impl Kept {
    /// The stack in front of `p`, if an error about it is to go along its path.
    pub(crate) fn of(p: &Packet<'_>) -> Option<Kept> {
        if !p.has(ALONG) {
            return None;
        }
        let (off, len) = (usize::from(p.d.off), p.d.hash as usize);
        let bytes = p.env.buffers.room(&p.d.buf).get(off.checked_sub(len)?..off)?;
        let mut kept = Kept { stack: [0; MOST_BYTES], len, way: p.d.tx };
        kept.stack.get_mut(..len)?.copy_from_slice(bytes);
        Some(kept)
    }

    /// Puts the stack on the error that took the packet's place; `None` where there is no room.
    pub(crate) fn put(mut self, p: &mut Packet<'_>) -> Option<AlongNext> {
        for entry in self.stack.as_chunks_mut::<ENTRY_LEN>().0 {
            *entry = Entry::from_bytes(*entry).with_ttl(TTL).to_bytes();
        }
        put(p, &self.stack[..self.len]).then_some(())?;
        p.d.tx = 0;
        if self.way == LOOK_UP {
            p.d.aux = top(p.data())?.0;
            return Some(AlongNext::Lookup);
        }
        (p.d.aux, p.d.hash) = (self.way, EtherType::MPLS.0.into());
        Some(AlongNext::Output)
    }
}

/// What the trace shows of an error: the stack, if it has one, else the IP packet.
pub(crate) fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if r.before.has(ALONG) { crate::labels::stack(r.bytes(), f) } else { crate::format::ip(r.bytes(), f) }
}

/// Puts a label stack in front of a packet; false where there is no room.
pub(crate) fn put(p: &mut Packet<'_>, stack: &[u8]) -> bool {
    if !p.prepend(stack.len()) {
        return false;
    }
    p.data_mut()[..stack.len()].copy_from_slice(stack);
    true
}
