//! VLAN tags (IEEE 802.1Q, 802.1ad): reading up to two, pushing and popping in place.

use crate::eth::EtherType;

/// Bytes of a tag.
pub const TAG_LEN: usize = 4;
/// VLAN id 0: the tag carries a priority only.
pub const VID_PRIORITY: u16 = 0;
/// The largest VLAN id that may be used; 4095 is reserved.
pub const VID_MAX: u16 = 4094;

/// The VLAN id of a tag control field.
#[inline]
pub const fn vid(tci: u16) -> u16 {
    tci & 0x0fff
}

/// The priority code point of a tag control field, 0 to 7.
#[inline]
pub const fn pcp(tci: u16) -> u8 {
    (tci >> 13) as u8
}

/// The drop-eligible bit of a tag control field.
#[inline]
pub const fn dei(tci: u16) -> bool {
    tci & 0x1000 != 0
}

/// A tag control field.
#[inline]
pub const fn tci(pcp: u8, dei: bool, vid: u16) -> u16 {
    ((pcp as u16 & 7) << 13) | ((dei as u16) << 12) | (vid & 0x0fff)
}

/// What stands between the addresses and the payload of a frame: at most two tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanStack {
    /// Number of tags read: 0, 1 or 2. A third tag is left, with its TPID as `ethertype`.
    pub count: u8,
    /// Bytes before the payload: 14, 18 or 22.
    pub header_len: u8,
    /// TPID of the first tag; the frame's ethertype when there is none.
    pub outer_tpid: EtherType,
    /// First tag, 0 when there is none.
    pub outer_tci: u16,
    /// TPID of the second tag; the type after the first tag when there is none.
    pub inner_tpid: EtherType,
    /// Second tag, 0 when there is none.
    pub inner_tci: u16,
    /// Type of the payload after the tags that were read.
    pub ethertype: EtherType,
}

impl VlanStack {
    /// Reads the header of `frame`; `None` when it ends within the header or a tag.
    #[inline]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let head: &[u8; 14] = frame.first_chunk()?;
        let first = EtherType(u16::from_be_bytes([head[12], head[13]]));
        if !first.is_vlan() {
            return Some(Self {
                count: 0,
                header_len: 14,
                outer_tpid: first,
                outer_tci: 0,
                inner_tpid: first,
                inner_tci: 0,
                ethertype: first,
            });
        }
        let head: &[u8; 18] = frame.first_chunk()?;
        let outer_tci = u16::from_be_bytes([head[14], head[15]]);
        let second = EtherType(u16::from_be_bytes([head[16], head[17]]));
        if !second.is_vlan() {
            return Some(Self {
                count: 1,
                header_len: 18,
                outer_tpid: first,
                outer_tci,
                inner_tpid: second,
                inner_tci: 0,
                ethertype: second,
            });
        }
        let head: &[u8; 22] = frame.first_chunk()?;
        Some(Self {
            count: 2,
            header_len: 22,
            outer_tpid: first,
            outer_tci,
            inner_tpid: second,
            inner_tci: u16::from_be_bytes([head[18], head[19]]),
            ethertype: EtherType(u16::from_be_bytes([head[20], head[21]])),
        })
    }

    /// VLAN id of the first tag, 0 when there is none.
    #[inline]
    pub const fn outer_vid(&self) -> u16 {
        vid(self.outer_tci)
    }

    /// VLAN id of the second tag, 0 when there is none.
    #[inline]
    pub const fn inner_vid(&self) -> u16 {
        vid(self.inner_tci)
    }
}

/// Pushes a tag. `front` is 4 bytes of room followed by the frame's two addresses; afterwards the frame starts at
/// the first byte of `front`.
#[inline]
pub fn push(front: &mut [u8; 16], tpid: EtherType, tci: u16) {
    front.copy_within(4..16, 0);
    front[12..14].copy_from_slice(&tpid.0.to_be_bytes());
    front[14..16].copy_from_slice(&tci.to_be_bytes());
}

/// Pops the first tag. `front` is the frame's first 16 bytes (the caller knows there is a tag); afterwards the
/// frame starts 4 bytes later.
#[inline]
pub fn pop(front: &mut [u8; 16]) {
    front.copy_within(0..12, 4);
}

/// Pushes two tags at once. `front` is 8 bytes of room followed by the frame's two addresses; afterwards the frame
/// starts at the first byte of `front`, with `outer` before `inner`.
#[inline]
pub fn push2(front: &mut [u8; 20], outer: (EtherType, u16), inner: (EtherType, u16)) {
    front.copy_within(8..20, 0);
    front[12..14].copy_from_slice(&outer.0.0.to_be_bytes());
    front[14..16].copy_from_slice(&outer.1.to_be_bytes());
    front[16..18].copy_from_slice(&inner.0.0.to_be_bytes());
    front[18..20].copy_from_slice(&inner.1.to_be_bytes());
}

/// Pops two tags at once. `front` is the frame's first 20 bytes; afterwards the frame starts 8 bytes later.
#[inline]
pub fn pop2(front: &mut [u8; 20]) {
    front.copy_within(0..12, 8);
}

/// Overwrites the first tag of a tagged frame.
#[inline]
pub fn rewrite(front: &mut [u8; 16], tpid: EtherType, tci: u16) {
    front[12..14].copy_from_slice(&tpid.0.to_be_bytes());
    front[14..16].copy_from_slice(&tci.to_be_bytes());
}

/// [`push`] for a frame that starts at `start` of `buf`: the new start, or `None` without 4 bytes of room or 12
/// bytes of frame.
#[inline]
pub fn push_at(buf: &mut [u8], start: usize, tpid: EtherType, tci: u16) -> Option<usize> {
    let new_start = start.checked_sub(TAG_LEN)?;
    push(buf.get_mut(new_start..)?.first_chunk_mut()?, tpid, tci);
    Some(new_start)
}

/// [`pop`] for a frame that starts at `start` of `buf`: the new start, or `None` when the frame has no complete
/// first tag followed by a type.
#[inline]
pub fn pop_at(buf: &mut [u8], start: usize) -> Option<usize> {
    let frame = buf.get_mut(start..)?;
    let head: &mut [u8; 18] = frame.first_chunk_mut()?;
    if !EtherType(u16::from_be_bytes([head[12], head[13]])).is_vlan() {
        return None;
    }
    pop(head.first_chunk_mut()?);
    Some(start + TAG_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Scapy: Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")/Dot1AD(prio=5, id=1, vlan=100)/
    //        Dot1Q(prio=3, vlan=4000)/IP() (first bytes)
    const QINQ: [u8; 23] = [
        2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0xb0, 0x64, 0x81, 0x00, 0x6f, 0xa0, 0x08, 0x00, 0x45,
    ];

    #[test]
    fn reads_two_tags() {
        let stack = VlanStack::parse(&QINQ).unwrap();
        assert_eq!((stack.count, stack.header_len), (2, 22));
        assert_eq!((stack.outer_tpid, stack.inner_tpid), (EtherType::QINQ, EtherType::VLAN));
        assert_eq!((stack.outer_vid(), stack.inner_vid()), (100, 4000));
        assert_eq!((pcp(stack.outer_tci), dei(stack.outer_tci), pcp(stack.inner_tci)), (5, true, 3));
        assert_eq!(stack.ethertype, EtherType::IPV4);
        assert_eq!(tci(5, true, 100), 0xb064);
        for cut in 0..22 {
            assert_eq!(VlanStack::parse(&QINQ[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn third_tag_is_left() {
        let mut frame = QINQ.to_vec();
        frame.splice(20..20, [0x81, 0, 0, 7]);
        let stack = VlanStack::parse(&frame).unwrap();
        assert_eq!((stack.count, stack.ethertype), (2, EtherType::VLAN));
    }

    #[test]
    fn pop_then_push_restores() {
        let mut buf = QINQ;
        assert_eq!(pop_at(&mut buf, 0), Some(4));
        let stack = VlanStack::parse(&buf[4..]).unwrap();
        assert_eq!((stack.count, stack.outer_vid()), (1, 4000));
        assert_eq!(pop_at(&mut buf, 4), Some(8));
        assert_eq!(buf[8..], [&QINQ[..12], &QINQ[20..]].concat());
        assert_eq!(pop_at(&mut buf, 8), None);
        assert_eq!(push_at(&mut buf, 8, EtherType::VLAN, 0x6fa0), Some(4));
        assert_eq!(push_at(&mut buf, 4, EtherType::QINQ, 0xb064), Some(0));
        assert_eq!(buf, QINQ);
        assert_eq!(push_at(&mut buf, 3, EtherType::VLAN, 1), None);
        pop2(buf.first_chunk_mut().unwrap());
        assert_eq!(buf[8..], [&QINQ[..12], &QINQ[20..]].concat());
        push2(buf.first_chunk_mut().unwrap(), (EtherType::QINQ, 0xb064), (EtherType::VLAN, 0x6fa0));
        assert_eq!(buf, QINQ);
        rewrite(buf.first_chunk_mut().unwrap(), EtherType::VLAN, 7);
        assert_eq!(VlanStack::parse(&buf).unwrap().outer_vid(), 7);
    }

    #[test]
    fn the_first_tag_goes_although_the_second_is_cut_off() {
        let mut buf = QINQ[..18].to_vec();
        assert_eq!(pop_at(&mut buf, 0), Some(4));
        assert_eq!(buf[4..], [&QINQ[..12], &QINQ[16..18]].concat());
        assert_eq!(pop_at(&mut QINQ[..17].to_vec(), 0), None);
    }

    proptest! {
        #[test]
        fn any_bytes(mut data in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(0x81), Just(0x88), Just(0xa8), Just(0)], 0..40), start in 0usize..50,
        ) {
            if let Some(stack) = VlanStack::parse(&data) {
                prop_assert!(usize::from(stack.header_len) <= data.len());
                prop_assert_eq!(usize::from(stack.header_len), 14 + 4 * usize::from(stack.count));
            }
            pop_at(&mut data, start);
            push_at(&mut data, start, EtherType::VLAN, 1);
        }
    }
}
