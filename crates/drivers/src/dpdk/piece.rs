//! Packets as pieces of buffers, which is how they come from the library and go to it.

use super::abi::{CHAIN, Piece, bits, can};
use super::pool::from;
use crate::counts::{Drops, RxDrop};
use crate::partial;
use graph::buffer::ROOM;
use graph::{Buffers, Chain, Desc, Row, Vector, flags};
use packet::eth::EtherType;
use packet::gso::VnetHdr;
use packet::vlan::VlanStack;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Makes packets of pieces, whose buffers are the caller's; each packet has all of its pieces here, and there is room for all.
/// One with a piece outside of its buffer, or of nothing, is lost as a whole and counted.
#[inline]
pub fn take(pieces: &[Piece], interface: u32, buffers: &mut Buffers, out: &mut Vector, drops: &Drops) {
    let mut rest = pieces;
    while let Some(p) = rest.first() {
        if p.flags & bits::MORE == 0 && p.len != 0 && fits(p) {
            rest = &rest[1..];
            let d = Desc {
                buf: from(p.buf),
                off: p.off,
                l2: p.off,
                len: p.len,
                rx: interface,
                ..Desc::default()
            };
            give(buffers, d, p.flags, out);
            continue;
        }
        let end = rest.iter().position(|p| p.flags & bits::MORE == 0).map_or(rest.len(), |n| n + 1);
        let (packet, others) = rest.split_at(end);
        rest = others;
        match several(packet, interface, buffers) {
            Some(d) => give(buffers, d, packet[0].flags, out),
            None => drops.count(RxDrop::Malformed),
        }
    }
}

/// Whether a piece lies within its buffer.
#[inline]
fn fits(p: &Piece) -> bool {
    usize::from(p.off) + usize::from(p.len) <= ROOM
}

#[inline]
fn give(buffers: &mut Buffers, mut d: Desc, said: u16, out: &mut Vector) {
    if said & bits::CHECKED != 0 {
        d.flags |= flags::CSUM_VALID;
    } else if said & bits::PARTIAL != 0 {
        partial::mark(buffers, &mut d);
    }
    if let Err(d) = out.push(d) {
        buffers.free(d);
    }
}

/// The packet of several pieces, those without bytes left out; all of its buffers go back where it is none.
#[cold]
fn several(pieces: &[Piece], interface: u32, buffers: &mut Buffers) -> Option<Desc> {
    let whole = pieces.last().is_some_and(|p| p.flags & bits::MORE == 0);
    if !whole || !pieces.iter().all(fits) || pieces.iter().all(|p| p.len == 0) {
        buffers.free_each(pieces.iter().map(|p| from(p.buf)));
        return None;
    }
    let mut chain: Option<Chain> = None;
    for p in pieces {
        let buf = from(p.buf);
        match &mut chain {
            _ if p.len == 0 => buffers.free_one(buf),
            None => {
                let d = Desc { buf, off: p.off, l2: p.off, len: p.len, rx: interface, ..Desc::default() };
                chain = Some(Chain::new(buffers, d));
            }
            Some(chain) => chain.push(buffers, buf, p.off, p.len),
        }
    }
    chain.map(Chain::done)
}

/// Packets that wait to be sent together.
pub struct Waiting {
    pieces: Box<[Piece]>,
    count: usize,
    packets: usize,
}

impl Waiting {
    /// None, with room for `packets` and for one of [`CHAIN`] pieces more.
    pub fn new(packets: usize) -> Waiting {
        Waiting { pieces: vec![Piece::default(); packets + CHAIN].into(), count: 0, packets: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Their pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.count]
    }

    /// Pieces of the first `n` packets.
    pub fn pieces_of(&self, n: usize) -> usize {
        if self.count == self.packets {
            // Each is of one piece.
            return n;
        }
        let ends = self.pieces().iter().enumerate().filter(|(_, p)| p.flags & bits::MORE == 0);
        n.checked_sub(1).and_then(|last| ends.map(|(at, _)| at + 1).nth(last)).unwrap_or(0)
    }

    /// Whether a packet of so many pieces has room.
    #[inline]
    pub fn has_room(&self, pieces: usize) -> bool {
        self.pieces.len() - self.count >= pieces
    }

    /// Adds a packet of one buffer, for which there is room.
    #[inline]
    pub fn put(&mut self, d: Desc, offloads: Piece) {
        let piece = Piece { buf: d.buf.number(), off: d.off, len: d.len, ..offloads };
        if let Some(place) = self.pieces.get_mut(self.count) {
            *place = piece;
            (self.count, self.packets) = (self.count + 1, self.packets + 1);
        }
    }

    /// Adds a packet of several buffers, for which there is room. Buffers without bytes go back.
    pub fn put_chain(&mut self, buffers: &mut Buffers, d: Desc, offloads: Piece) {
        let first = self.count;
        let mut row = Row::of(buffers, d);
        while let Some((buf, off, len)) = row.pop(buffers) {
            if len == 0 {
                buffers.free_one(buf);
            } else if let Some(place) = self.pieces.get_mut(self.count) {
                let said = if self.count == first { offloads } else { Piece::default() };
                *place = Piece { buf: buf.number(), off, len, flags: said.flags | bits::MORE, ..said };
                self.count += 1;
            }
        }
        if self.count != first {
            self.pieces[self.count - 1].flags &= !bits::MORE;
            self.packets += 1;
        }
    }

    /// Forgets the first `taken` packets, which are somebody else's, and gives the buffers of the others back. Bytes of those that
    /// were taken.
    pub fn settle(&mut self, taken: usize, buffers: &mut Buffers) -> u64 {
        let split = self.pieces_of(taken);
        let (theirs, ours) = self.pieces().split_at(split);
        let bytes = theirs.iter().map(|p| u64::from(p.len)).sum();
        buffers.free_each(ours.iter().map(|p| from(p.buf)));
        (self.count, self.packets) = (0, 0);
        bytes
    }
}

/// What the device is to do for a packet whose checksum is partial, or that is to be cut; nothing where it cannot.
pub fn offloads(buffers: &Buffers, d: &Desc, can: u32) -> Option<Piece> {
    let frame = buffers.data(d);
    let m = buffers.meta(&d.buf);
    let stack = VlanStack::parse(frame)?;
    let l2 = usize::from(stack.header_len);
    let ip = frame.get(l2..)?;
    let (l3, protocol, version) = match stack.ethertype {
        EtherType::IPV4 => (usize::from(ip.first()? & 15) * 4, *ip.get(9)?, bits::IP4),
        EtherType::IPV6 => (40, *ip.get(6)?, 0),
        _ => return None,
    };
    // Only what stands right behind the first IP header: a device knows of one.
    let start = usize::from(m.csum_start.checked_sub(d.off)?);
    let (kind, offset, l4, checks, cuts) = match protocol {
        TCP => {
            let l4 = usize::from(ip.get(l3 + 12)? >> 4) * 4;
            (bits::TCP, 16, l4, can & can::TCP, can & can::TSO)
        }
        UDP => (bits::UDP, 6, 8, can & can::UDP, can & can::USO),
        _ => return None,
    };
    if checks == 0 || start != l2 + l3 || m.csum_offset != offset || start + l4 > frame.len() {
        return None;
    }
    let mut piece =
        Piece { flags: kind | version, l2: l2 as u8, l3: l3 as u8, l4: l4 as u8, ..Piece::default() };
    if d.has(flags::GSO) {
        let right = match m.gso_type & !VnetHdr::GSO_ECN {
            VnetHdr::GSO_TCPV4 => kind == bits::TCP && version != 0,
            VnetHdr::GSO_TCPV6 => kind == bits::TCP && version == 0,
            VnetHdr::GSO_UDP_L4 => kind == bits::UDP,
            _ => false,
        };
        if cuts == 0 || !right || m.gso_size == 0 {
            return None;
        }
        piece.flags |= bits::SEGMENT;
        piece.segment = m.gso_size;
    }
    Some(piece)
}
