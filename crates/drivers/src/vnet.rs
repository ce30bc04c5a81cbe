//! The virtio-net header in front of each packet on AF_PACKET and TAP: offloads as descriptor flags and meta, and back
//! (virtio 1.2, section 5.1.6).

use graph::{Buffers, Desc, flags};
use packet::eth;

/// Bytes of the header (without `num_buffers`).
pub const LEN: usize = 10;

/// `flags`: the checksum is partial, `csum_start` and `csum_offset` say where.
pub const NEEDS_CSUM: u8 = 1;
/// `flags`: the checksum was verified.
pub const DATA_VALID: u8 = 2;

/// `gso_type`: no super-frame.
pub const GSO_NONE: u8 = 0;
/// `gso_type`: TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// `gso_type`: TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// `gso_type`: UDP datagrams of one size each.
pub const GSO_UDP_L4: u8 = 5;
/// Bit of `gso_type`: TCP with congestion marks (CWR in the first segment only).
pub const GSO_ECN: u8 = 0x80;

/// `struct virtio_net_hdr`, fields in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHdr {
    /// [`NEEDS_CSUM`], [`DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_` constants.
    pub gso_type: u8,
    /// Bytes of all headers of a super-frame (a hint).
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where checksumming starts, from the Ethernet header.
    pub csum_start: u16,
    /// Where the checksum stands, from `csum_start`.
    pub csum_offset: u16,
}

impl VnetHdr {
    /// Reads the header (the kernel writes it in the machine's byte order).
    pub fn from_bytes(b: [u8; LEN]) -> VnetHdr {
        let word = |i: usize| u16::from_ne_bytes([b[i], b[i + 1]]);
        VnetHdr {
            flags: b[0],
            gso_type: b[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Writes the header.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut b = [0; LEN];
        (b[0], b[1]) = (self.flags, self.gso_type);
        for (i, v) in [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset].into_iter().enumerate()
        {
            b[2 + 2 * i..4 + 2 * i].copy_from_slice(&v.to_ne_bytes());
        }
        b
    }
}

/// A header whose fields contradict its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Puts what the header says into `d`, whose bytes are complete and start at the Ethernet header; `tag` bytes of VLAN
/// tag were inserted into the packet after the header was made.
pub fn to_packet(h: VnetHdr, tag: u16, buffers: &mut Buffers, d: &mut Desc) -> Result<(), Malformed> {
    if h.flags & NEEDS_CSUM != 0 {
        let start = h.csum_start.checked_add(tag).ok_or(Malformed)?;
        let end = usize::from(start) + usize::from(h.csum_offset) + 2;
        // Whoever completes the checksum writes it into the first buffer.
        if usize::from(start) < eth::HEADER_LEN + usize::from(tag) || end > usize::from(d.len) {
            return Err(Malformed);
        }
        let at = d.off.checked_add(start).ok_or(Malformed)?;
        let m = buffers.meta_mut(d.buf);
        (m.csum_start, m.csum_offset) = (at, h.csum_offset);
        d.flags |= flags::CSUM_PARTIAL;
    } else if h.flags & DATA_VALID != 0 {
        d.flags |= flags::CSUM_VALID;
    }
    if h.gso_type != GSO_NONE {
        let known = match h.gso_type & !GSO_ECN {
            GSO_TCPV4 | GSO_TCPV6 => true,
            GSO_UDP_L4 => h.gso_type & GSO_ECN == 0,
            _ => false,
        };
        if !known || h.gso_size == 0 {
            return Err(Malformed);
        }
        let m = buffers.meta_mut(d.buf);
        (m.gso_size, m.gso_type) = (h.gso_size, h.gso_type);
        d.flags |= flags::GSO;
    }
    Ok(())
}

/// The header for a packet that starts at its Ethernet header; `None` when its flags and meta contradict its bytes.
pub fn of_packet(buffers: &Buffers, d: &Desc) -> Option<VnetHdr> {
    let mut h = VnetHdr::default();
    if !d.has(flags::CSUM_PARTIAL | flags::GSO) {
        return Some(h);
    }
    let m = buffers.meta(d.buf);
    if d.has(flags::CSUM_PARTIAL) {
        h.flags = NEEDS_CSUM;
        h.csum_start = m.csum_start.checked_sub(d.off)?;
        h.csum_offset = m.csum_offset;
        let end = usize::from(h.csum_start) + usize::from(h.csum_offset) + 2;
        if end > usize::from(d.len) {
            return None;
        }
        h.hdr_len = end as u16;
    }
    if d.has(flags::GSO) {
        (h.gso_type, h.gso_size) = (m.gso_type, m.gso_size);
        if d.has(flags::CSUM_PARTIAL) {
            let at = usize::from(h.csum_start);
            let l4 = match h.gso_type {
                GSO_UDP_L4 => 8,
                _ => usize::from(buffers.data(d).get(at + 12)? >> 4) * 4,
            };
            h.hdr_len = u16::try_from(at + l4).ok().filter(|n| *n <= d.len)?;
        }
    }
    Some(h)
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Pool, PoolConfig, PoolMemory};
    use proptest::prelude::*;

    fn pool() -> std::sync::Arc<Pool> {
        Pool::new(PoolConfig { buffers: 256, memory: PoolMemory::Normal }).unwrap()
    }

    #[test]
    fn literal_bytes() {
        let h = VnetHdr {
            flags: NEEDS_CSUM,
            gso_type: GSO_TCPV4,
            hdr_len: 66,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
        };
        let bytes = [1, 1, 66, 0, 0xa8, 0x05, 34, 0, 16, 0];
        assert_eq!(h.to_bytes(), bytes);
        assert_eq!(VnetHdr::from_bytes(bytes), h);
    }

    #[test]
    fn a_tag_moves_the_checksum() {
        let p = pool();
        let mut b = p.buffers();
        let mut d = b.alloc_bytes(&[0; 100]).unwrap();
        let h = VnetHdr { flags: NEEDS_CSUM, csum_start: 34, csum_offset: 6, ..VnetHdr::default() };
        to_packet(h, 4, &mut b, &mut d).unwrap();
        assert!(d.has(flags::CSUM_PARTIAL));
        assert_eq!(b.meta(d.buf).csum_start, d.off + 38);
        assert_eq!(of_packet(&b, &d).unwrap(), VnetHdr { csum_start: 38, hdr_len: 46, ..h });
        b.free(&d);
    }

    #[test]
    fn what_contradicts_the_packet_is_refused() {
        let p = pool();
        let mut b = p.buffers();
        let csum = |csum_start, csum_offset| VnetHdr {
            flags: NEEDS_CSUM,
            csum_start,
            csum_offset,
            ..VnetHdr::default()
        };
        let gso = |gso_type, gso_size| VnetHdr { gso_type, gso_size, ..VnetHdr::default() };
        for (h, good) in [
            (csum(34, 6), true),
            (csum(34, 24), true),
            (csum(34, 25), false),
            (csum(13, 6), false),
            (csum(u16::MAX, 0), false),
            (csum(34, u16::MAX), false),
            (gso(GSO_TCPV4 | GSO_ECN, 1448), true),
            (gso(GSO_UDP_L4, 100), true),
            (gso(GSO_UDP_L4 | GSO_ECN, 100), false),
            (gso(GSO_TCPV6, 0), false),
            (gso(3, 100), false),
            (gso(0x7f, 100), false),
        ] {
            let mut d = b.alloc_bytes(&[0; 60]).unwrap();
            assert_eq!(to_packet(h, 0, &mut b, &mut d).is_ok(), good, "{h:?}");
            b.free(&d);
        }
        assert_eq!(p.in_use(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_header_is_taken_or_refused(bytes: [u8; LEN], len in 14usize..5000, tag in prop::bool::ANY) {
            let p = pool();
            let mut b = p.buffers();
            let mut d = b.alloc_bytes(&vec![0x50; len]).unwrap();
            let h = VnetHdr::from_bytes(bytes);
            let tag = if tag { 4 } else { 0 };
            if to_packet(h, tag, &mut b, &mut d).is_ok()
                && let Some(back) = of_packet(&b, &d)
            {
                prop_assert!(usize::from(back.hdr_len) <= len);
                if h.flags & NEEDS_CSUM != 0 {
                    prop_assert_eq!(back.csum_start, h.csum_start + tag);
                    prop_assert_eq!(back.csum_offset, h.csum_offset);
                }
                prop_assert_eq!((back.gso_type, back.gso_type == 0 || back.gso_size == h.gso_size), (h.gso_type, true));
            }
            b.free(&d);
            prop_assert_eq!(p.in_use(), 0);
        }
    }
}
