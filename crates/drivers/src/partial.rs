//! Checksums that a peer has left to its device, as on veth: AF_XDP does not say which they are, and DPDK not where they stand. A partial checksum is the
//! sum over the pseudo header (RFC 9293 section 3.1, RFC 768), which a complete one equals once in 65,536 frames; to complete that
//! one a second time changes nothing, as long as it is right.

use graph::{Buffers, Desc, flags};
use packet::checksum::Sum;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Marks the packet, which starts at its Ethernet header, where its TCP or UDP checksum is partial.
#[inline]
pub(crate) fn mark(buffers: &mut Buffers, d: &mut Desc) {
    let Some((start, offset)) = find(buffers.data(d)) else { return };
    let m = buffers.meta_mut(&d.buf);
    (m.csum_start, m.csum_offset) = (d.off + start, offset);
    d.flags |= flags::CSUM_PARTIAL;
}

/// Where checksumming starts in the frame, and where the checksum stands from there on, if it is partial.
#[inline]
fn find(frame: &[u8]) -> Option<(u16, u16)> {
    let mut l3 = 14;
    let mut kind = word(frame, 12)?;
    for _ in 0..2 {
        if !matches!(kind, 0x8100 | 0x88a8) {
            break;
        }
        kind = word(frame, l3 + 2)?;
        l3 += 4;
    }
    let ip = frame.get(l3..)?;
    let (l4, protocol, addresses, length) = match kind {
        0x0800 => {
            let header = usize::from(ip.first()? & 15) * 4;
            let total = usize::from(word(ip, 2)?);
            let fragment = word(ip, 6)? & 0x3fff != 0;
            if ip[0] >> 4 != 4 || header < 20 || total < header || fragment {
                return None;
            }
            (header, *ip.get(9)?, ip.get(12..20)?, total - header)
        }
        0x86dd => (40, *ip.get(6)?, ip.get(8..40)?, usize::from(word(ip, 4)?)),
        _ => return None,
    };
    let offset = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    let there = word(ip, l4 + offset)?;
    let mut sum = Sum::of(addresses);
    sum.add_u32(length as u32);
    sum.add_u16(protocol.into());
    (there == sum.fold()).then_some(((l3 + l4) as u16, offset as u16))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]))
}
