//! The virtio-net header in front of each packet on AF_PACKET and TAP: offloads as descriptor flags and meta, and back
//! (virtio 1.2, section 5.1.6).

use graph::{Buffers, Desc, flags};
use packet::eth::{self, EtherType};
use packet::gso::{VnetError, VnetHdr};
use packet::ip6;
use packet::vlan::VlanStack;

/// Puts what the header says into `d`, whose bytes are complete and start at the Ethernet header; `tag` bytes of VLAN
/// tag were inserted into the packet after the header was made.
pub fn to_packet(h: VnetHdr, tag: u16, buffers: &mut Buffers, d: &mut Desc) -> Result<(), VnetError> {
    if h.is_plain() {
        if h.flags & VnetHdr::DATA_VALID != 0 {
            d.flags |= flags::CSUM_VALID;
        }
        return Ok(());
    }
    let h = h.shifted(tag as i16).ok_or(VnetError::ChecksumBeyondFrame)?;
    // Whoever completes the checksum writes it into the first buffer.
    let offload = h.validate(d.len.into())?;
    if let Some(sum) = offload.checksum {
        let at = usize::from(d.off) + sum.start;
        if sum.start < transport(buffers.data(d)).unwrap_or(eth::HEADER_LEN + usize::from(tag)) {
            return Err(VnetError::ChecksumBeyondFrame);
        }
        let m = buffers.meta_mut(&d.buf);
        (m.csum_start, m.csum_offset) = (at as u16, h.csum_offset);
        d.flags |= flags::CSUM_PARTIAL;
    } else if h.flags & VnetHdr::DATA_VALID != 0 {
        d.flags |= flags::CSUM_VALID;
    }
    if offload.gso.is_some() {
        let m = buffers.meta_mut(&d.buf);
        (m.gso_size, m.gso_type) = (h.gso_size, h.gso_type);
        d.flags |= flags::GSO;
    }
    Ok(())
}

/// Where the checksum of a transport header can begin at the earliest: behind the IP header, whose fields it must not
/// change.
fn transport(frame: &[u8]) -> Option<usize> {
    let stack = VlanStack::parse(frame)?;
    let l3 = usize::from(stack.header_len);
    Some(match stack.ethertype {
        EtherType::IPV4 => l3 + usize::from(frame.get(l3)? & 15).max(5) * 4,
        EtherType::IPV6 => l3 + ip6::HEADER_LEN,
        _ => l3,
    })
}

/// The header for a packet that starts at its Ethernet header; `None` when its flags and meta contradict its bytes.
pub fn of_packet(buffers: &Buffers, d: &Desc) -> Option<VnetHdr> {
    let mut h = VnetHdr::default();
    if !d.has(flags::CSUM_PARTIAL | flags::GSO) {
        return Some(h);
    }
    let m = buffers.meta(&d.buf);
    if d.has(flags::CSUM_PARTIAL) {
        h.flags = VnetHdr::NEEDS_CSUM;
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
                VnetHdr::GSO_UDP_L4 => 8,
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
    fn a_tag_moves_the_checksum() {
        let p = pool();
        let mut b = p.buffers();
        let mut d = b.alloc_bytes(&[0; 100]).unwrap();
        let h = VnetHdr { flags: VnetHdr::NEEDS_CSUM, csum_start: 34, csum_offset: 6, ..VnetHdr::default() };
        to_packet(h, 4, &mut b, &mut d).unwrap();
        assert!(d.has(flags::CSUM_PARTIAL));
        assert_eq!(b.meta(&d.buf).csum_start, d.off + 38);
        assert_eq!(of_packet(&b, &d).unwrap(), VnetHdr { csum_start: 38, hdr_len: 46, ..h });
        b.free(d);
    }

    #[test]
    fn a_checksum_stands_behind_the_ip_header() {
        let p = pool();
        let mut b = p.buffers();
        let head = |tags: &[u8], ethertype: u16, first: u8| {
            let mut f = [&[0; 12], tags, &ethertype.to_be_bytes(), &[first]].concat();
            f.resize(120, 0);
            f
        };
        for (frame, least) in [
            (head(&[], 0x0800, 0x45), 34),
            (head(&[], 0x0800, 0x47), 42),
            (head(&[], 0x0800, 0x40), 34),
            (head(&[], 0x86dd, 0x60), 54),
            (head(&[0x81, 0, 0, 7], 0x0800, 0x45), 38),
            (head(&[], 0x88f7, 0), 14),
        ] {
            for start in [least - 1, least] {
                let mut d = b.alloc_bytes(&frame).unwrap();
                let h = VnetHdr {
                    flags: VnetHdr::NEEDS_CSUM,
                    csum_start: start,
                    csum_offset: 6,
                    ..VnetHdr::default()
                };
                assert_eq!(to_packet(h, 0, &mut b, &mut d).is_ok(), start == least, "{frame:x?}: {start}");
                b.free(d);
            }
        }
    }

    #[test]
    fn what_contradicts_the_packet_is_refused() {
        let p = pool();
        let mut b = p.buffers();
        let csum = |csum_start, csum_offset| VnetHdr {
            flags: VnetHdr::NEEDS_CSUM,
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
            (gso(VnetHdr::GSO_TCPV4 | VnetHdr::GSO_ECN, 1448), true),
            (gso(VnetHdr::GSO_UDP_L4, 100), true),
            (gso(VnetHdr::GSO_UDP_L4 | VnetHdr::GSO_ECN, 100), false),
            (gso(VnetHdr::GSO_TCPV6, 0), false),
            (gso(3, 100), false),
            (gso(0x7f, 100), false),
        ] {
            let mut d = b.alloc_bytes(&[0; 60]).unwrap();
            assert_eq!(to_packet(h, 0, &mut b, &mut d).is_ok(), good, "{h:?}");
            b.free(d);
        }
        assert_eq!(p.in_use(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_header_is_taken_or_refused(bytes: [u8; VnetHdr::LEN], len in 14usize..5000, tag in prop::bool::ANY) {
            let p = pool();
            let mut b = p.buffers();
            let mut d = b.alloc_bytes(&vec![0x50; len]).unwrap();
            let h = VnetHdr::parse(&bytes);
            let tag = if tag { 4 } else { 0 };
            if to_packet(h, tag, &mut b, &mut d).is_ok()
                && let Some(back) = of_packet(&b, &d)
            {
                prop_assert!(usize::from(back.hdr_len) <= len);
                if h.flags & VnetHdr::NEEDS_CSUM != 0 {
                    prop_assert_eq!(back.csum_start, h.csum_start + tag);
                    prop_assert_eq!(back.csum_offset, h.csum_offset);
                }
                prop_assert_eq!((back.gso_type, back.gso_type == 0 || back.gso_size == h.gso_size), (h.gso_type, true));
            }
            b.free(d);
            prop_assert_eq!(p.in_use(), 0);
        }
    }
}
