//! Cutting an IPv4 packet into fragments (RFC 791, 3.2): the maths and the headers. The payload, which may lie in
//! several buffers, stays with the caller.

use crate::BuildError;
use crate::ip4::{self, Ip4View, MAX_HEADER_LEN, OptionKind};
use std::fmt;
use std::ops::Range;

/// Why a packet is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragError {
    /// "Don't fragment" is set: an ICMP "fragmentation needed" is due.
    DontFragment,
    /// The MTU does not hold a header and eight bytes.
    MtuTooSmall,
    /// A fragment would end beyond 65,535 bytes: the packet is a fragment made to do harm.
    TooLong,
    /// The header or its options are wrong, or the payload does not fit a packet.
    BadHeader,
}

impl fmt::Display for FragError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FragError::DontFragment => "packet exceeds the MTU and may not be fragmented",
            FragError::MtuTooSmall => "MTU too small for a fragment",
            FragError::TooLong => "fragment would end beyond 65535 bytes",
            FragError::BadHeader => "bad IPv4 header or options",
        })
    }
}

impl std::error::Error for FragError {}

/// One fragment to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its number, from 0.
    pub index: usize,
    /// Its part of the payload.
    pub payload: Range<usize>,
    /// Bytes of its header, at most 60.
    pub header_len: usize,
    /// No fragment follows; it takes "more fragments" from the packet.
    pub last: bool,
}

/// A packet that is to be cut.
#[derive(Clone, Debug)]
pub struct Fragmenter<'a> {
    first: &'a [u8],
    /// Header of the later fragments: only options with the copied flag.
    later: [u8; MAX_HEADER_LEN],
    later_len: usize,
    payload_len: usize,
    /// Payload bytes of the first fragment and of the later ones but the last, multiples of eight.
    first_data: usize,
    later_data: usize,
    /// Payload bytes that the last fragment has room for: it need not end at a multiple of eight.
    last_room: usize,
}

impl<'a> Fragmenter<'a> {
    /// `header` is the packet's whole header (bytes after it are not looked at), `payload_len` the length of its
    /// payload, `mtu` the largest IP packet in bytes. A packet that fits becomes one fragment, the packet itself.
    pub fn new(header: &'a [u8], payload_len: usize, mtu: usize) -> Result<Self, FragError> {
        let view = Ip4View::parse_quoted(header).map_err(|_| FragError::BadHeader)?;
        let first = view.header();
        if first.len() + payload_len > usize::from(u16::MAX) {
            return Err(FragError::BadHeader);
        }
        let mut later = [0; MAX_HEADER_LEN];
        let later_len = later_header(&view, &mut later)?;
        let whole = first.len() + payload_len <= mtu;
        if !whole {
            if view.dont_fragment() {
                return Err(FragError::DontFragment);
            }
            if mtu < first.len() + 8 {
                return Err(FragError::MtuTooSmall);
            }
            if view.fragment_offset() + payload_len > usize::from(u16::MAX) {
                return Err(FragError::TooLong);
            }
        }
        let data = |header_len: usize| mtu.saturating_sub(header_len) / 8 * 8;
        let first_data = if whole { payload_len } else { data(first.len()) };
        let last_room = mtu.saturating_sub(later_len);
        Ok(Self { first, later, later_len, payload_len, first_data, later_data: data(later_len), last_room })
    }

    /// Number of fragments, at least 1.
    #[inline]
    pub fn count(&self) -> usize {
        let rest = self.payload_len.saturating_sub(self.first_data);
        if rest == 0 { 1 } else { 2 + rest.saturating_sub(self.last_room).div_ceil(self.later_data) }
    }

    /// The fragments in order.
    #[inline]
    pub fn fragments(&self) -> impl ExactSizeIterator<Item = Fragment> + use<'_, 'a> {
        let count = self.count();
        (0..count).map(move |index| {
            let start = if index == 0 { 0 } else { self.first_data + (index - 1) * self.later_data };
            let size = if index == 0 { self.first_data } else { self.later_data };
            let last = index + 1 == count;
            Fragment {
                index,
                payload: start..if last { self.payload_len } else { start + size },
                header_len: if index == 0 { self.first.len() } else { self.later_len },
                last,
            }
        })
    }

    /// Writes the header of `fragment`; returns its length.
    pub fn write_header(&self, fragment: &Fragment, out: &mut [u8]) -> Result<usize, BuildError> {
        let header = if fragment.index == 0 { self.first } else { &self.later[..self.later_len] };
        let len = header.len();
        let Some(h) = out.get_mut(..len) else { return Err(BuildError::NoRoom { needed: len }) };
        h.copy_from_slice(header);
        let total = (len + fragment.payload.len()) as u16;
        h[2..4].copy_from_slice(&total.to_be_bytes());
        let mut flags = u16::from_be_bytes([h[6], h[7]]) + (fragment.payload.start / 8) as u16;
        if !fragment.last {
            flags |= 0x2000;
        }
        h[6..8].copy_from_slice(&flags.to_be_bytes());
        ip4::fill_checksum(h);
        Ok(len)
    }
}

/// The fixed header with the copied options, padded to four bytes.
fn later_header(view: &Ip4View<'_>, out: &mut [u8; MAX_HEADER_LEN]) -> Result<usize, FragError> {
    let fixed = view.fixed().0;
    out[..ip4::HEADER_LEN].copy_from_slice(fixed);
    let mut len = ip4::HEADER_LEN;
    for option in view.options() {
        let option = option.map_err(|_| FragError::BadHeader)?;
        if option.kind.is_copied() {
            let to = out.get_mut(len..len + option.bytes.len()).ok_or(FragError::BadHeader)?;
            to.copy_from_slice(option.bytes);
            len += option.bytes.len();
        }
    }
    out[len..len.next_multiple_of(4)].fill(OptionKind::END.0);
    len = len.next_multiple_of(4);
    out[0] = 0x40 | (len / 4) as u8;
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip4::Ip4Builder;
    use crate::proto::IpProtocol;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn packet(base: Ip4Builder, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut p = vec![0; 60];
        let len = base.emit_with_options(&mut p, options, payload.len()).unwrap();
        p.truncate(len);
        p.extend_from_slice(payload);
        p
    }

    fn base() -> Ip4Builder {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(198, 51, 100, 2));
        Ip4Builder { id: 0x1234, ..Ip4Builder::new(a, b, IpProtocol::UDP) }
    }

    fn cut(p: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, FragError> {
        let header_len = usize::from(p[0] & 15) * 4;
        let payload = &p[header_len..];
        let f = Fragmenter::new(p, payload.len(), mtu)?;
        Ok(f.fragments()
            .map(|one| {
                let mut out = vec![0; 60];
                assert_eq!(f.write_header(&one, &mut out), Ok(one.header_len));
                out.truncate(one.header_len);
                out.extend_from_slice(&payload[one.payload.clone()]);
                out
            })
            .collect())
    }

    /// Puts fragments together in any order by their offsets.
    fn reassemble(fragments: &[Vec<u8>], base_offset: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let mut more = true;
        for f in fragments {
            let view = Ip4View::parse(f).unwrap();
            let at = view.fragment_offset() - base_offset;
            out.resize(out.len().max(at + view.payload().len()), 0);
            out[at..at + view.payload().len()].copy_from_slice(view.payload());
            more &= view.more_fragments();
        }
        (out, more)
    }

    #[test]
    fn as_scapy_does() {
        // Scapy: fragment(IP(src="192.0.2.1", dst="198.51.100.2", id=0x1234, proto=17)/(b"\xab" * 100), fragsize=48)
        let out = cut(&packet(base(), &[], &[0xab; 100]), 68).unwrap();
        let headers = [
            "450000441234200040115c3ec0000201c6336402",
            "450000441234200640115c38c0000201c6336402",
            "450000181234000c40117c5ec0000201c6336402",
        ];
        let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
        assert_eq!(out.iter().map(|f| hex(&f[..20])).collect::<Vec<_>>(), headers);
        assert_eq!(out.iter().map(|f| f.len()).collect::<Vec<_>>(), [68, 68, 24]);
    }

    #[test]
    fn the_last_fragment_fills_the_mtu() {
        // 70 bytes hold 48 of payload in all fragments but the last, which may have 50 (RFC 791, 3.2: what fits is sent).
        for (payload, lengths) in
            [(98, &[68, 70][..]), (99, &[68, 68, 23]), (146, &[68, 68, 70]), (50, &[70]), (51, &[68, 23])]
        {
            let out = cut(&packet(base(), &[], &vec![7; payload]), 70).unwrap();
            assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), lengths, "{payload} bytes");
        }
    }

    #[test]
    fn options_with_the_copied_flag_only() {
        // Record route (7) stays in the first; router alert (148) and loose source route (131) go everywhere.
        let options = [7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 1, 131, 3, 4, 0];
        let out = cut(&packet(base(), &options, &[1; 100]), 76).unwrap();
        let first = Ip4View::parse(&out[0]).unwrap();
        assert_eq!((first.header().len(), first.payload().len()), (36, 40));
        let later = Ip4View::parse(&out[1]).unwrap();
        assert_eq!(later.header()[20..], [148, 4, 0, 0, 131, 3, 4, 0]);
        assert_eq!((later.payload().len(), later.fragment_offset()), (48, 40));
        assert_eq!(out.len(), 3);
    }

    #[test]
    fn errors_and_edges() {
        let p = packet(base(), &[], &[1; 100]);
        assert_eq!(cut(&p, 120).unwrap(), std::slice::from_ref(&p));
        assert_eq!(cut(&p, 119).unwrap().len(), 2);
        assert_eq!(cut(&p, 28).unwrap().len(), 13);
        assert_eq!(cut(&p, 27), Err(FragError::MtuTooSmall));
        assert_eq!(cut(&p, 0), Err(FragError::MtuTooSmall));
        let df = packet(Ip4Builder { dont_fragment: true, ..base() }, &[], &[1; 100]);
        assert_eq!(cut(&df, 119), Err(FragError::DontFragment));
        assert_eq!(cut(&df, 120).unwrap(), std::slice::from_ref(&df));
        let end = packet(Ip4Builder { fragment_offset: 65472, ..base() }, &[], &[1; 100]);
        assert_eq!(cut(&end, 68), Err(FragError::TooLong));
        assert_eq!(cut(&packet(base(), &[7, 1, 0, 0], &[1; 100]), 68), Err(FragError::BadHeader));
        assert_eq!(Fragmenter::new(&p, 65516, 1500).err(), Some(FragError::BadHeader));
        let f = Fragmenter::new(&p, 100, 68).unwrap();
        let one = f.fragments().next().unwrap();
        assert_eq!(f.write_header(&one, &mut [0; 19]), Err(BuildError::NoRoom { needed: 20 }));
    }

    proptest! {
        #[test]
        fn fragments_make_the_packet_again(
            payload in proptest::collection::vec(any::<u8>(), 0..3000), mtu in 68usize..1600,
            offset in 0u16..500, more: bool, words in 0usize..10, kind in prop_oneof![Just(7u8), Just(148)],
        ) {
            let mut options = vec![1; words * 4];
            if words > 0 {
                (options[0], options[1]) = (kind, words as u8 * 4);
            }
            let b = Ip4Builder { fragment_offset: offset * 8, more_fragments: more, ..base() };
            let p = packet(b, &options, &payload);
            let out = cut(&p, mtu).unwrap();
            for (i, f) in out.iter().enumerate() {
                let view = Ip4View::parse(f).unwrap();
                prop_assert!(f.len() <= mtu);
                prop_assert_eq!(view.more_fragments(), more || i + 1 < out.len());
                prop_assert_eq!((view.id(), view.ttl(), view.protocol()), (b.id, b.ttl, b.protocol));
                prop_assert_eq!(view.has_options(), words > 0 && (i == 0 || kind == 148));
                if i + 1 < out.len() {
                    prop_assert_eq!(view.payload().len() % 8, 0);
                }
            }
            prop_assert_eq!(reassemble(&out, usize::from(offset) * 8), (payload, more));
        }

        #[test]
        fn fragments_of_fragments(payload in proptest::collection::vec(any::<u8>(), 1..3000), mtu in 68usize..800) {
            let p = packet(base(), &[], &payload);
            let mut out = Vec::new();
            for f in cut(&p, mtu * 2).unwrap() {
                out.extend(cut(&f, mtu).unwrap());
            }
            let (joined, more) = reassemble(&out, 0);
            prop_assert!(joined == payload && !more);
            prop_assert_eq!(out.iter().filter(|f| !Ip4View::parse(f).unwrap().more_fragments()).count(), 1);
        }

        #[test]
        fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..80), len in 0usize..70_000, mtu in 0usize..70_000) {
            let mut data = data;
            if let Some(b) = data.first_mut() {
                *b = 0x40 | *b & 15;
            }
            if let Ok(f) = Fragmenter::new(&data, len, mtu) {
                let mut at = 0;
                for one in f.fragments() {
                    prop_assert_eq!(one.payload.start, at);
                    at = one.payload.end;
                    prop_assert_eq!(f.write_header(&one, &mut [0; 60]), Ok(one.header_len));
                }
                prop_assert_eq!(at, len);
            }
        }
    }
}
