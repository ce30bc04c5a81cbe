//! The header of VXLAN (RFC 7348 section 5).

/// Bytes of it.
pub const LEN: usize = 8;
/// The bit that says that there is a network identifier.
const VALID: u8 = 0x08;
/// The largest network identifier.
pub const MAX_VNI: u32 = (1 << 24) - 1;

/// The header of packets with this network identifier.
pub fn emit(vni: u32) -> [u8; LEN] {
    let [_, a, b, c] = vni.to_be_bytes();
    [VALID, 0, 0, 0, a, b, c, 0]
}

/// The network identifier; `None` where the header says that there is none. What is reserved is not looked at.
#[inline]
pub fn parse(h: &[u8; LEN]) -> Option<u32> {
    (h[0] & VALID != 0).then(|| u32::from_be_bytes([0, h[4], h[5], h[6]]))
}

/// The frame in a datagram to a VXLAN port.
#[inline]
pub(crate) fn frame(datagram: &[u8]) -> Option<&[u8]> {
    let (h, frame) = datagram.split_first_chunk()?;
    parse(h).map(|_| frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_others_write_it() {
        // Scapy: VXLAN(vni=0x123456, flags="Instance")
        assert_eq!(emit(0x12_3456), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(parse(&[0xff, 1, 2, 3, 0x12, 0x34, 0x56, 9]), Some(0x12_3456));
        assert_eq!(parse(&[0xf7, 0, 0, 0, 0x12, 0x34, 0x56, 0]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_written_is_read(vni in 0..=MAX_VNI) {
            prop_assert_eq!(parse(&emit(vni)), Some(vni));
        }
    }
}
