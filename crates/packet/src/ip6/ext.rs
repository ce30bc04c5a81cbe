//! IPv6 extension headers (RFC 8200, 4) and the options within them.

use super::HEADER_LEN;
use crate::proto::IpProtocol;
use std::fmt;
use std::ops::Range;

/// No more headers than this are walked: a packet with more serves nobody.
pub const MAX_HEADERS: usize = 8;
/// No more bytes of headers than this are walked.
pub const MAX_BYTES: usize = 2048;

/// Why the walk stopped early. Pointers are offsets from the start of the IPv6 header, as in a parameter problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtError {
    /// The header at `pointer` reaches beyond the packet, or beyond the bytes at hand.
    Truncated {
        /// Offset of the header.
        pointer: usize,
    },
    /// A hop-by-hop header that is not the first; `pointer` is the next-header octet that announced it (parameter
    /// problem code 1).
    HopByHopNotFirst {
        /// Offset of the octet.
        pointer: usize,
    },
    /// More than [`MAX_HEADERS`] headers or [`MAX_BYTES`] bytes of them.
    TooLong {
        /// Offset of the next-header octet where the walk gave up.
        pointer: usize,
    },
}

impl ExtError {
    /// The offset for a parameter problem.
    pub fn pointer(self) -> usize {
        match self {
            Self::Truncated { pointer } | Self::HopByHopNotFirst { pointer } | Self::TooLong { pointer } => {
                pointer
            }
        }
    }
}

impl fmt::Display for ExtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { pointer } => write!(f, "IPv6 extension header at {pointer} is cut"),
            Self::HopByHopNotFirst { pointer } => {
                write!(f, "hop-by-hop header not first, named at {pointer}")
            }
            Self::TooLong { pointer } => write!(f, "too many IPv6 extension headers, stopped at {pointer}"),
        }
    }
}

impl std::error::Error for ExtError {}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentInfo {
    /// Offset of the fragment header from the start of the IPv6 header.
    pub header: usize,
    /// Place of this fragment's payload in the original one, in bytes.
    pub offset: usize,
    /// Further fragments follow.
    pub more: bool,
    /// Identification.
    pub id: u32,
}

impl FragmentInfo {
    /// Offset 0 and nothing follows: a whole packet in one fragment (RFC 6946).
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The first header that is not walked: upper layer, ESP, no-next-header or one that nobody knows.
    pub protocol: IpProtocol,
    /// Its offset from the start of the IPv6 header. May be the packet's end. In a later fragment this is where the
    /// fragment's payload starts, which is no header of `protocol`.
    pub offset: usize,
    /// Offset of the octet that named `protocol`: the pointer of "unrecognized next header".
    pub named_at: usize,
    /// The last fragment header passed.
    pub fragment: Option<FragmentInfo>,
    /// Place of the hop-by-hop header.
    pub hop_by_hop: Option<(u16, u16)>,
    /// Offset of the routing header.
    pub routing: Option<u16>,
}

impl UpperLayer {
    /// Right behind the fixed header, which named `protocol`.
    #[inline]
    fn begin(protocol: IpProtocol) -> Self {
        Self { protocol, offset: HEADER_LEN, named_at: 6, fragment: None, hop_by_hop: None, routing: None }
    }

    /// A fragment that does not hold the upper-layer header.
    #[inline]
    pub fn is_later_fragment(&self) -> bool {
        matches!(self.fragment, Some(f) if f.offset != 0)
    }

    /// Bytes of the hop-by-hop header within the packet.
    #[inline]
    pub fn hop_by_hop_range(&self) -> Option<Range<usize>> {
        self.hop_by_hop.map(|(from, to)| from.into()..to.into())
    }
}

/// Walks from the fixed header (not checked again, but 40 bytes are required) to the upper layer. The walk ends at
/// the first header that is no extension header, at ESP, and after the header of a later fragment.
#[inline]
pub fn walk(packet: &[u8]) -> Result<UpperLayer, ExtError> {
    let Some(fixed) = packet.first_chunk::<HEADER_LEN>() else {
        return Err(ExtError::Truncated { pointer: 0 });
    };
    let protocol = IpProtocol(fixed[6]);
    let at = UpperLayer::begin(protocol);
    if is_extension(protocol) { walk_on(packet, at, false) } else { Ok(at) }
}

/// The first fragment header of a packet, and the offset of the octet that named it: in front of it stands what is the
/// same in all fragments of the packet (RFC 8200, 4.5). Headers behind it are not looked at.
#[inline]
pub fn fragment(packet: &[u8]) -> Result<Option<(FragmentInfo, usize)>, ExtError> {
    let Some(fixed) = packet.first_chunk::<HEADER_LEN>() else {
        return Err(ExtError::Truncated { pointer: 0 });
    };
    let protocol = IpProtocol(fixed[6]);
    if !is_extension(protocol) {
        return Ok(None);
    }
    let at = UpperLayer::begin(protocol);
    let at = walk_on(packet, at, true)?;
    Ok(at.fragment.map(|f| (f, at.named_at)))
}

/// Headers with a next-header and a length octet, and the fragment header (RFC 7045, section 1.1).
#[inline]
const fn is_extension(protocol: IpProtocol) -> bool {
    use IpProtocol as P;
    matches!(
        protocol,
        P::HOP_BY_HOP | P::ROUTING | P::FRAGMENT | P::AH | P::DEST_OPTIONS | P::MOBILITY | P::HIP | P::SHIM6
    )
}

/// Bytes of the extension header that begins with `h`.
#[inline]
fn header_len(protocol: IpProtocol, h: &[u8; 8]) -> usize {
    match protocol {
        IpProtocol::FRAGMENT => 8,
        IpProtocol::AH => (usize::from(h[1]) + 2) * 4,
        _ => (usize::from(h[1]) + 1) * 8,
    }
}

/// Iterates over the extension headers of a packet with their places, as far as [`walk`] comes.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    packet: &'a [u8],
    protocol: IpProtocol,
    at: usize,
    left: usize,
}

impl<'a> Headers<'a> {
    /// Those of `packet`, which begins with its fixed header.
    pub fn new(packet: &'a [u8]) -> Self {
        let protocol = packet.get(6).map_or(IpProtocol::NO_NEXT, |p| IpProtocol(*p));
        Self { packet, protocol, at: HEADER_LEN, left: MAX_HEADERS }
    }
}

impl Iterator for Headers<'_> {
    type Item = (IpProtocol, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let protocol = self.protocol;
        let misplaced = protocol == IpProtocol::HOP_BY_HOP && self.at != HEADER_LEN;
        if self.left == 0 || misplaced || !is_extension(protocol) {
            return None;
        }
        let h: &[u8; 8] = self.packet.get(self.at..)?.first_chunk()?;
        let place = self.at..self.at + header_len(protocol, h);
        if place.end > self.packet.len().min(HEADER_LEN + MAX_BYTES) {
            return None;
        }
        // Behind the header of a later fragment there is none.
        let later = protocol == IpProtocol::FRAGMENT && u16::from_be_bytes([h[2], h[3]]) & 0xfff8 != 0;
        self.left = if later { 0 } else { self.left - 1 };
        (self.protocol, self.at) = (IpProtocol(h[0]), place.end);
        Some((protocol, place))
    }
}

#[cold]
fn walk_on(packet: &[u8], mut at: UpperLayer, to_fragment: bool) -> Result<UpperLayer, ExtError> {
    let mut count = 0;
    while is_extension(at.protocol) {
        count += 1;
        if count > MAX_HEADERS {
            return Err(ExtError::TooLong { pointer: at.named_at });
        }
        if at.protocol == IpProtocol::HOP_BY_HOP && at.offset != HEADER_LEN {
            return Err(ExtError::HopByHopNotFirst { pointer: at.named_at });
        }
        let truncated = ExtError::Truncated { pointer: at.offset };
        // Every extension header is at least 8 bytes.
        let h: &[u8; 8] = packet.get(at.offset..).and_then(|p| p.first_chunk()).ok_or(truncated)?;
        let end = at.offset + header_len(at.protocol, h);
        if end > packet.len() {
            return Err(truncated);
        }
        if end > HEADER_LEN + MAX_BYTES {
            return Err(ExtError::TooLong { pointer: at.named_at });
        }
        match at.protocol {
            IpProtocol::HOP_BY_HOP => at.hop_by_hop = Some((at.offset as u16, end as u16)),
            IpProtocol::ROUTING => at.routing = Some(at.offset as u16),
            IpProtocol::FRAGMENT => {
                let field = u16::from_be_bytes([h[2], h[3]]);
                at.fragment = Some(FragmentInfo {
                    header: at.offset,
                    offset: usize::from(field & 0xfff8),
                    more: field & 1 != 0,
                    id: u32::from_be_bytes([h[4], h[5], h[6], h[7]]),
                });
                if to_fragment {
                    return Ok(at);
                }
            }
            _ => {}
        }
        at.protocol = IpProtocol(h[0]);
        at.named_at = at.offset;
        at.offset = end;
        if at.is_later_fragment() {
            break;
        }
    }
    Ok(at)
}

/// What a node that does not know an option does with the packet (RFC 8200, 4.2: the two highest bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// 00: skip the option.
    Skip,
    /// 01: discard the packet.
    Discard,
    /// 10: discard, and send parameter problem code 2 even to a multicast packet.
    DiscardIcmp,
    /// 11: discard, and send parameter problem code 2 unless the destination was multicast.
    DiscardIcmpUnlessMulticast,
}

/// An option of a hop-by-hop or destination-options header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip6Option<'a> {
    /// Option type.
    pub kind: u8,
    /// Offset of the type octet from the start of the IPv6 header: the pointer of "unrecognized option".
    pub offset: usize,
    /// Option data.
    pub data: &'a [u8],
}

/// Router alert (RFC 2711).
pub const OPTION_ROUTER_ALERT: u8 = 5;
/// Jumbo payload (RFC 2675).
pub const OPTION_JUMBO: u8 = 0xc2;

impl Ip6Option<'_> {
    /// What to do when the option is not known.
    #[inline]
    pub fn unknown_action(&self) -> UnknownAction {
        match self.kind >> 6 {
            0 => UnknownAction::Skip,
            1 => UnknownAction::Discard,
            2 => UnknownAction::DiscardIcmp,
            _ => UnknownAction::DiscardIcmpUnlessMulticast,
        }
    }

    /// Routers may change the data on the way.
    #[inline]
    pub fn may_change(&self) -> bool {
        self.kind & 0x20 != 0
    }
}

/// Iterates over the options of one header up to the first error. Padding is skipped.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    packet: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// `header` is the place of the options header within `packet`, as the walk found it.
    #[inline]
    pub fn new(packet: &'a [u8], header: Range<usize>) -> Self {
        Self { packet: packet.get(..header.end).unwrap_or_default(), at: header.start.saturating_add(2) }
    }
}

impl<'a> Iterator for Options<'a> {
    /// An error is an option that reaches beyond its header: the offset of its length octet, or of its type octet when
    /// nothing follows.
    type Item = Result<Ip6Option<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let offset = self.at;
            match *self.packet.get(offset..)? {
                [] => return None,
                [0, ..] => self.at += 1,
                [kind, len, ref rest @ ..] if usize::from(len) <= rest.len() => {
                    self.at += 2 + usize::from(len);
                    if kind != 1 {
                        return Some(Ok(Ip6Option { kind, offset, data: &rest[..usize::from(len)] }));
                    }
                }
                [_, ref rest @ ..] => {
                    self.at = self.packet.len();
                    return Some(Err(offset + usize::from(!rest.is_empty())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(next: u8, rest: &[u8]) -> Vec<u8> {
        let mut p = vec![0; 40];
        (p[0], p[6]) = (0x60, next);
        p.extend_from_slice(rest);
        p
    }

    #[test]
    fn plain_upper_layer() {
        let up = walk(&packet(6, &[])).unwrap();
        assert_eq!((up.protocol, up.offset, up.named_at, up.fragment), (IpProtocol::TCP, 40, 6, None));
        assert_eq!(walk(&[0x60; 39]), Err(ExtError::Truncated { pointer: 0 }));
    }

    #[test]
    fn chain() {
        // Hop-by-hop (router alert) - routing - fragment (first) - destination options - UDP
        let p = packet(
            0,
            &[
                43, 0, 5, 2, 0, 0, 1, 0, // 40
                44, 0, 4, 0, 0, 0, 0, 0, // 48
                60, 0, 0, 1, 0, 0, 0, 9, // 56
                17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 64
                0xab,
            ],
        );
        let up = walk(&p).unwrap();
        assert_eq!((up.protocol, up.offset, up.named_at), (IpProtocol::UDP, 80, 64));
        assert_eq!(up.fragment, Some(FragmentInfo { header: 56, offset: 0, more: true, id: 9 }));
        assert_eq!((up.hop_by_hop_range(), up.routing), (Some(40..48), Some(48)));
        let options: Vec<_> = Options::new(&p, 40..48).map(|o| o.unwrap()).collect();
        assert_eq!(options, [Ip6Option { kind: OPTION_ROUTER_ALERT, offset: 42, data: &[0, 0] }]);
        assert_eq!(Options::new(&p, 64..80).count(), 0);
    }

    #[test]
    fn headers_one_by_one() {
        let p = packet(
            0,
            &[
                60, 0, 1, 4, 0, 0, 0, 0, // 40
                44, 0, 1, 4, 0, 0, 0, 0, // 48
                60, 0, 0, 0, 0, 0, 0, 1, // 56
                0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // 64
                59, 0, 1, 4, 0, 0, 0, 0,
            ],
        );
        let found: Vec<_> = Headers::new(&p).map(|(kind, place)| (kind.0, place)).collect();
        assert_eq!(found, [(0, 40..48), (60, 48..56), (44, 56..64), (60, 64..80)]);
        let many = packet(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9));
        assert_eq!(Headers::new(&many).count(), MAX_HEADERS);
        assert_eq!(Headers::new(&packet(44, &[60, 0, 0, 8, 0, 0, 0, 1, 59, 0, 0, 0, 0, 0, 0, 0])).count(), 1);
        assert_eq!(Headers::new(&[]).count(), 0);
    }

    #[test]
    fn later_fragment_ends_the_walk() {
        let up = walk(&packet(44, &[60, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff])).unwrap();
        assert!(up.is_later_fragment());
        assert_eq!((up.protocol, up.offset), (IpProtocol::DEST_OPTIONS, 48));
        let up = walk(&packet(44, &[17, 0, 0, 0, 0, 0, 0, 1])).unwrap();
        assert!(up.fragment.unwrap().is_atomic());
    }

    #[test]
    fn the_fragment_header_is_found_whatever_follows() {
        let p = packet(0, &[44, 0, 1, 4, 0, 0, 0, 0, 60, 0, 0, 0x11, 0, 0, 0, 7, 17, 99]);
        assert_eq!(fragment(&p), Ok(Some((FragmentInfo { header: 48, offset: 16, more: true, id: 7 }, 40))));
        assert_eq!(fragment(&packet(6, &[])), Ok(None));
        assert_eq!(fragment(&packet(60, &[6, 0, 1, 4, 0, 0, 0, 0])), Ok(None));
        assert_eq!(fragment(&packet(44, &[6, 0, 0])), Err(ExtError::Truncated { pointer: 40 }));
        assert_eq!(fragment(&[0; 39]), Err(ExtError::Truncated { pointer: 0 }));
    }

    #[test]
    fn errors() {
        assert_eq!(walk(&packet(0, &[59, 0, 0, 0, 0, 0, 0])), Err(ExtError::Truncated { pointer: 40 }));
        assert_eq!(walk(&packet(0, &[59, 1, 1, 4, 0, 0, 0, 0])), Err(ExtError::Truncated { pointer: 40 }));
        let twice = packet(0, &[0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(walk(&twice), Err(ExtError::HopByHopNotFirst { pointer: 40 }));
        let many = packet(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(9));
        assert_eq!(walk(&many), Err(ExtError::TooLong { pointer: 40 + 8 * 7 }));
        let long = packet(60, &[&[60, 255][..], &[0; 2046], &[59, 0, 1, 4, 0, 0, 0, 0]].concat());
        assert_eq!(walk(&long), Err(ExtError::TooLong { pointer: 40 }));
        assert_eq!(walk(&long).unwrap_err().pointer(), 40);
        // The longest chain that is still walked: 2048 bytes.
        let fits = packet(60, &[&[59, 255][..], &[0; 2046]].concat());
        assert_eq!(walk(&fits).unwrap().offset, 2088);
    }

    #[test]
    fn authentication_header_counts_in_words() {
        let up = walk(&packet(51, &[[6, 4, 0, 0].as_slice(), &[0; 20]].concat())).unwrap();
        assert_eq!((up.protocol, up.offset), (IpProtocol::TCP, 64));
    }

    #[test]
    fn bad_options_say_where() {
        let p = packet(0, &[59, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(Options::new(&p, 40..48).collect::<Vec<_>>(), [Err(47)]);
        let p = packet(0, &[59, 0, 0xc2, 5, 0, 0, 0, 0]);
        assert_eq!(Options::new(&p, 40..48).collect::<Vec<_>>(), [Err(43)]);
    }

    #[test]
    fn unknown_actions() {
        let action = |kind| Ip6Option { kind, offset: 0, data: &[] }.unknown_action();
        assert_eq!(action(0x1e), UnknownAction::Skip);
        assert_eq!(action(0x5e), UnknownAction::Discard);
        assert_eq!(action(0x9e), UnknownAction::DiscardIcmp);
        assert_eq!(action(0xde), UnknownAction::DiscardIcmpUnlessMulticast);
        assert!(Ip6Option { kind: 0x3e, offset: 0, data: &[] }.may_change());
    }

    proptest! {
        #[test]
        fn any_bytes(
            next in prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60), any::<u8>()],
            rest in proptest::collection::vec(
                prop_oneof![Just(0u8), Just(1), Just(43), Just(44), Just(51), Just(60), any::<u8>()], 0..200),
            from in 0usize..300, len in 0usize..300,
        ) {
            let p = packet(next, &rest);
            if let Ok(up) = walk(&p) {
                prop_assert!(up.offset <= p.len() && up.named_at < up.offset);
                if let Some(range) = up.hop_by_hop_range() {
                    for option in Options::new(&p, range).flatten() {
                        prop_assert!(option.offset + 2 + option.data.len() <= p.len());
                    }
                }
            }
            prop_assert!(Options::new(&p, from..from + len).count() <= p.len());
        }
    }
}
