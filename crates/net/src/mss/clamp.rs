//! Finding the segment and changing its option.

use packet::checksum::update16;
use packet::eth;
use packet::ip4::Ip4Header;
use packet::ip6::ext;
use packet::tcp::TcpView;
use packet::vlan::VlanStack;

const SYN: u8 = 2;
const CHECKSUM: usize = 16;

/// The TCP segment of an IP packet as far as it is at hand; `None` for another protocol and for fragments behind the first.
/// With `framed` the packet stands behind an Ethernet header.
pub(super) fn segment(data: &mut [u8], v6: bool, framed: bool) -> Option<&mut [u8]> {
    let at = if framed { usize::from(VlanStack::parse(data)?.header_len) } else { 0 };
    debug_assert!(!framed || at >= eth::HEADER_LEN);
    let packet = data.get_mut(at..)?;
    let header = if v6 {
        let upper = ext::walk(packet).ok()?;
        (upper.protocol.0 == 6 && !upper.is_later_fragment()).then_some(usize::from(upper.offset as u16))?
    } else {
        let h = Ip4Header(packet.first_chunk()?);
        (h.protocol().0 == 6 && h.fragment_offset() == 0).then_some(h.header_len())?
    };
    packet.get_mut(header..)
}

/// Lowers the segment size of a SYN to `most`; false, and nothing changed, where there is nothing to lower. The checksum
/// follows, unless it is `partial` and does not cover the segment yet.
pub(super) fn lower(segment: &mut [u8], most: u16, partial: bool) -> bool {
    let Some((at, size)) =
        TcpView::parse(segment).ok().filter(|t| t.flags() & SYN != 0).and_then(|t| t.mss())
    else {
        return false;
    };
    if size <= most {
        return false;
    }
    // The words of the sum that the value touches: one, or two where an odd number of bytes stands before it.
    let words = at & !1..(at + 3) & !1;
    let Some(covered) = segment.get(words.clone()) else { return false };
    let mut old = [0; 4];
    old[..covered.len()].copy_from_slice(covered);
    segment[at..at + 2].copy_from_slice(&most.to_be_bytes());
    if !partial {
        let mut sum = u16::from_be_bytes([segment[CHECKSUM], segment[CHECKSUM + 1]]);
        for (n, new) in segment[words].chunks_exact(2).enumerate() {
            let was = u16::from_be_bytes([old[2 * n], old[2 * n + 1]]);
            sum = update16(sum, was, u16::from_be_bytes([new[0], new[1]]));
        }
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::tcp::TcpBuilder;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    /// A SYN with this option in front of the segment size, and its checksum right.
    fn syn(before: &[u8], size: u16, flags: u8) -> Vec<u8> {
        let mut options = before.to_vec();
        options.extend([2, 4]);
        options.extend(size.to_be_bytes());
        while !options.len().is_multiple_of(4) {
            options.push(0);
        }
        let tcp = TcpBuilder { flags, options: &options, ..TcpBuilder::new(1000, 80) };
        let mut out = vec![0; 80];
        let n = tcp.emit4(&mut out, A, B, b"data").unwrap();
        out.truncate(n);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_checksum_stays_right(before in prop::collection::vec(Just(1u8), 0..5), size: u16, most in 1u16.., more: u8) {
            let flags = SYN | more & 0x10;
            let mut s = syn(&before, size, flags);
            prop_assert!(TcpView::parse(&s).unwrap().verify4(A, B));
            prop_assert_eq!(lower(&mut s, most, false), size > most);
            let t = TcpView::parse(&s).unwrap();
            prop_assert!(t.verify4(A, B));
            prop_assert_eq!(t.mss().unwrap().1, size.min(most));
            prop_assert_eq!(s, syn(&before, size.min(most), flags));
        }

        #[test]
        fn any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..80), most in 1u16..) {
            let before = bytes.clone();
            let changed = lower(&mut bytes, most, false);
            prop_assert_eq!(changed, bytes != before);
            for framed in [false, true] {
                for v6 in [false, true] {
                    let _ = segment(&mut bytes, v6, framed);
                }
            }
        }
    }

    #[test]
    fn what_is_left_alone() {
        let mut plain = syn(&[], 1460, 0x10);
        assert!(!lower(&mut plain, 1000, false), "no SYN");
        let mut cut = syn(&[], 1460, SYN);
        cut.truncate(22);
        assert!(!lower(&mut cut, 1000, false), "the option is cut off");
        let mut partial = syn(&[1], 1460, SYN);
        let sum = partial[16..18].to_vec();
        assert!(lower(&mut partial, 1000, true));
        assert_eq!(partial[16..18], sum, "who completes the checksum sums the new value up");
    }
}
