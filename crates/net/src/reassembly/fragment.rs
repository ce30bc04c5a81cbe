//! What the families say of a fragment: which datagram it is of, where it belongs, and whether it may be trusted.

use super::Kind;
use crate::icmp::Ask;
use graph::{Buffers, Desc, Edge, Packet};
use packet::icmp6::parameter;
use packet::ip4::{self, Ip4Header};
use packet::ip6::{self, Ip6Header, ext, set_traffic_class};
use packet::{IpProtocol, tcp};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

graph::reasons! {
    /// What the reassembly nodes count.
    pub enum ReassemblyReason {
        /// The headers of a fragment are cut off, or do not fit its length.
        BadHeader => "reassembly-bad-header",
        /// A fragment without payload.
        Empty => "reassembly-empty-fragment",
        /// Other fragments follow, but the length is no multiple of eight; over IPv6 the sender is told "erroneous header field".
        BadLength => "reassembly-bad-length",
        /// The fragment would end beyond 65,535 bytes; over IPv6 the sender is told "erroneous header field".
        TooLong => "reassembly-beyond-65535",
        /// A first fragment without the whole transport header, or a second one inside it (RFC 1858, RFC 3128).
        Tiny => "reassembly-tiny-fragment",
        /// The first fragment does not hold the whole chain of headers; its sender is told so (RFC 7112, RFC 8200 section 4.5).
        HeaderChain => "reassembly-incomplete-header-chain",
        /// A neighbour discovery message in fragments (RFC 6980).
        NeighborDiscovery => "reassembly-nd-fragment",
        /// A fragment with a partial checksum, or a super-frame.
        Offload => "reassembly-bad-offload",
        /// The same fragment came before.
        Duplicate => "reassembly-duplicate",
        /// Fragments share bytes: the whole datagram is dropped (RFC 5722).
        Overlap => "reassembly-overlap",
        /// Fragments contradict each other about the end of their datagram, which is dropped.
        BadEnd => "reassembly-bad-end",
        /// More fragments than one datagram may have: it is dropped.
        TooMany => "reassembly-too-many-fragments",
        /// Some fragments tell of congestion, others of a sender that knows no such sign (RFC 3168 section 5.3): dropped.
        BadEcn => "reassembly-bad-ecn",
        /// A fragment of a datagram that was refused before.
        Refused => "reassembly-refused-before",
        /// A fragment whose datagram made room for another.
        Evicted => "reassembly-evicted",
        /// A fragment of a datagram whose others did not come in time.
        Timeout => "reassembly-timeout",
        /// No datagram may be waited for.
        Off => "reassembly-off",
        /// A fragment was sent to the worker that has the others of its datagram.
        HandedOff => "reassembly-handed-off" (info),
        /// A first fragment whose others did not come in time: its sender is told "fragment reassembly time exceeded".
        TimeExceeded => "reassembly-time-exceeded" (info),
        /// All fragments of a datagram came.
        Completed => "reassembly-completed" (info),
    }
}

use ReassemblyReason as R;

/// A fragment that is well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<K> {
    /// What it has in common with the others of its datagram.
    pub key: K,
    /// Its place in the payload of its datagram, bytes.
    pub from: u32,
    /// The end of that place.
    pub to: u32,
    /// Others follow it.
    pub more: bool,
    /// Bytes in front of its payload; they lie in the first buffer.
    pub header: u32,
    /// The ECN field.
    pub ecn: u8,
    /// The upper layer, and where its header starts; of a first fragment only.
    pub upper: Option<(IpProtocol, u32)>,
}

/// Why a fragment is not taken, and what its sender is told.
pub type Refusal = (ReassemblyReason, Option<Ask>);

/// What differs between IPv4 and IPv6.
pub trait Family: Send + 'static {
    /// Name of the node of full reassembly.
    const FULL: &'static str;
    /// Name of the node of virtual reassembly.
    const VIRTUAL: &'static str;
    /// For IPv6.
    const IS_V6: bool;
    /// "Fragment reassembly time exceeded".
    const TIME_EXCEEDED: Ask;
    /// Where full reassembly sends packets.
    type FullNext: Edge;
    /// Where virtual reassembly sends packets.
    type VirtualNext: Edge;
    /// What the fragments of a datagram have in common.
    type Key: Copy + Eq + Hash + Send + fmt::Display;

    /// To the next feature, or to the lookup.
    fn pass() -> Self::FullNext;
    /// To `ip4-local` or `ip6-local`.
    fn local() -> Self::FullNext;
    /// To the ICMP errors.
    fn error() -> Self::FullNext;
    /// To the next feature.
    fn pass_virtual() -> Self::VirtualNext;

    /// The fragment `p`, of a packet in routing table `table`; `None` when it is no fragment.
    fn read(p: &Packet<'_>, table: u32) -> Result<Option<Fragment<Self::Key>>, Refusal>;

    /// Makes the header of the first fragment `d` that of the whole datagram, which has `payload` bytes behind its headers,
    /// `header` in the first fragment. Answers whether the destination is a group.
    fn finish(d: &mut Desc, buffers: &mut Buffers, header: u32, payload: u32, congestion: bool) -> bool;
}

/// What IPv4 fragments of one datagram have in common (RFC 791 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key4 {
    src: u32,
    dst: u32,
    id: u16,
    protocol: u8,
    table: u32,
}

/// Two words at once: the hash with a key costs most by the number of pieces.
impl Hash for Key4 {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ends = u128::from(self.src) << 32 | u128::from(self.dst);
        let rest = u128::from(self.table) << 32 | u128::from(self.id) << 8 | u128::from(self.protocol);
        state.write(&(rest << 64 | ends).to_ne_bytes());
    }
}

impl fmt::Display for Key4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (Ipv4Addr::from_bits(self.src), Ipv4Addr::from_bits(self.dst));
        write!(f, "{src} -> {dst} id {:#06x} protocol {} table {}", self.id, self.protocol, self.table)
    }
}

/// What IPv6 fragments of one datagram have in common (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key6 {
    src: u128,
    dst: u128,
    id: u32,
    table: u32,
}

impl fmt::Display for Key6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (Ipv6Addr::from_bits(self.src), Ipv6Addr::from_bits(self.dst));
        write!(f, "{src} -> {dst} id {:#010x} table {}", self.id, self.table)
    }
}

/// Bytes of the header of an upper layer, as far as a first fragment must hold it.
fn upper_len(protocol: IpProtocol) -> usize {
    match protocol {
        IpProtocol::TCP => tcp::HEADER_LEN,
        IpProtocol::UDP | IpProtocol::UDP_LITE | IpProtocol::ICMP | IpProtocol::ICMPV6 => 8,
        _ => 0,
    }
}

const LONGEST: usize = u16::MAX as usize;

/// IPv4.
pub struct V4;

graph::edges! {
    /// Where `ip4-full-reassembly` sends packets.
    pub enum Ip4FullNext {
        Features => "@ip4-unicast",
        Local => "ip4-local",
        Error => "ip4-icmp-error",
    }
}

graph::edges! {
    /// Where `ip4-sv-reassembly` sends packets.
    pub enum Ip4VirtualNext { Features => "@ip4-unicast" }
}

impl Family for V4 {
    const FULL: &'static str = Kind { v6: false, shallow: false }.node();
    const VIRTUAL: &'static str = Kind { v6: false, shallow: true }.node();
    const IS_V6: bool = false;
    const TIME_EXCEEDED: Ask = Ask::V4_REASSEMBLY_TIME_EXCEEDED;
    type FullNext = Ip4FullNext;
    type VirtualNext = Ip4VirtualNext;
    type Key = Key4;

    fn pass() -> Ip4FullNext {
        Ip4FullNext::Features
    }

    fn local() -> Ip4FullNext {
        Ip4FullNext::Local
    }

    fn error() -> Ip4FullNext {
        Ip4FullNext::Error
    }

    fn pass_virtual() -> Ip4VirtualNext {
        Ip4VirtualNext::Features
    }

    #[inline]
    fn read(p: &Packet<'_>, table: u32) -> Result<Option<Fragment<Key4>>, Refusal> {
        let refuse = |why| Err((why, None));
        let Some(h) = p.head::<{ ip4::HEADER_LEN }>() else { return refuse(R::BadHeader) };
        let h = Ip4Header(h);
        if !h.is_fragment() {
            return Ok(None);
        }
        let (header, total) = (h.header_len(), usize::from(h.total_len()));
        if header < ip4::HEADER_LEN || header > p.data().len() || total != p.total_len() {
            return refuse(R::BadHeader);
        }
        let (from, len, more) = (h.fragment_offset(), total - header, h.more_fragments());
        if len == 0 {
            return refuse(R::Empty);
        }
        if more && !len.is_multiple_of(8) {
            return refuse(R::BadLength);
        }
        if header + from + len > LONGEST {
            return refuse(R::TooLong);
        }
        // Filters look at ports and flags, which a TCP header has in its first 16 bytes.
        let protocol = h.protocol();
        if protocol == IpProtocol::TCP && (from == 0 && len < 16 || from == 8)
            || from == 0 && len < upper_len(protocol).min(8)
        {
            return refuse(R::Tiny);
        }
        let key = Key4 { src: h.src_u32(), dst: h.dst_u32(), id: h.id(), protocol: protocol.0, table };
        Ok(Some(Fragment {
            key,
            from: from as u32,
            to: (from + len) as u32,
            more,
            header: header as u32,
            ecn: h.0[1] & 3,
            upper: (from == 0).then_some((protocol, header as u32)),
        }))
    }

    fn finish(d: &mut Desc, buffers: &mut Buffers, header: u32, payload: u32, congestion: bool) -> bool {
        let Some(h) = buffers.data_mut(d).get_mut(..header as usize) else { return false };
        if congestion {
            h[1] |= 3;
        }
        h[2..4].copy_from_slice(&((header + payload) as u16).to_be_bytes());
        h[6..8].fill(0);
        ip4::fill_checksum(h);
        d.aux = u32::from_be_bytes([h[16], h[17], h[18], h[19]]);
        d.aux >= 0xe000_0000
    }
}

/// IPv6.
pub struct V6;

graph::edges! {
    /// Where `ip6-full-reassembly` sends packets.
    pub enum Ip6FullNext {
        Features => "@ip6-unicast",
        Local => "ip6-local",
        Error => "ip6-icmp-error",
    }
}

graph::edges! {
    /// Where `ip6-sv-reassembly` sends packets.
    pub enum Ip6VirtualNext { Features => "@ip6-unicast" }
}

impl Family for V6 {
    const FULL: &'static str = Kind { v6: true, shallow: false }.node();
    const VIRTUAL: &'static str = Kind { v6: true, shallow: true }.node();
    const IS_V6: bool = true;
    const TIME_EXCEEDED: Ask = Ask::V6_REASSEMBLY_TIME_EXCEEDED;
    type FullNext = Ip6FullNext;
    type VirtualNext = Ip6VirtualNext;
    type Key = Key6;

    fn pass() -> Ip6FullNext {
        Ip6FullNext::Features
    }

    fn local() -> Ip6FullNext {
        Ip6FullNext::Local
    }

    fn error() -> Ip6FullNext {
        Ip6FullNext::Error
    }

    fn pass_virtual() -> Ip6VirtualNext {
        Ip6VirtualNext::Features
    }

    #[inline]
    fn read(p: &Packet<'_>, table: u32) -> Result<Option<Fragment<Key6>>, Refusal> {
        let refuse = |why| Err((why, None));
        let tell = |why, code, pointer| Err((why, Some(Ask::v6_parameter_problem(code, pointer))));
        let data = p.data();
        let Some(h) = data.first_chunk::<{ ip6::HEADER_LEN }>() else { return refuse(R::BadHeader) };
        let h = Ip6Header(h);
        let found = match ext::fragment(data) {
            Ok(None) => return Ok(None),
            // RFC 6946: an atomic fragment is a datagram by itself, whatever else has its identification.
            Ok(Some((f, _))) if f.is_atomic() => return Ok(None),
            Ok(Some((f, _))) => f,
            // Headers in front of a fragment header that nobody can read: not for this node to judge.
            Err(_) => return Ok(None),
        };
        let (header, total) = (found.header + 8, p.total_len());
        if total != h.total_len() || total < header {
            return refuse(R::BadHeader);
        }
        let (from, len) = (found.offset, total - header);
        if len == 0 {
            return refuse(R::Empty);
        }
        if found.more && !len.is_multiple_of(8) {
            // The pointer is to the payload length.
            return tell(R::BadLength, parameter::HEADER_FIELD, 4);
        }
        if found.header - ip6::HEADER_LEN + from + len > LONGEST {
            // To the fragment offset.
            return tell(R::TooLong, parameter::HEADER_FIELD, found.header as u16 + 2);
        }
        let mut upper = None;
        if from == 0 {
            let chain = ext::walk(data).ok().filter(|u| u.offset + upper_len(u.protocol) <= total);
            let Some(u) = chain else { return tell(R::HeaderChain, parameter::INCOMPLETE_CHAIN, 0) };
            let kind = data.get(u.offset).copied().unwrap_or(0);
            if u.protocol == IpProtocol::ICMPV6 && (133..=137).contains(&kind) {
                return refuse(R::NeighborDiscovery);
            }
            upper = Some((u.protocol, u.offset as u32));
        }
        let key = Key6 { src: h.src_u128(), dst: h.dst_u128(), id: found.id, table };
        Ok(Some(Fragment {
            key,
            from: from as u32,
            to: (from + len) as u32,
            more: found.more,
            header: header as u32,
            ecn: h.traffic_class() & 3,
            upper,
        }))
    }

    fn finish(d: &mut Desc, buffers: &mut Buffers, header: u32, payload: u32, congestion: bool) -> bool {
        let data = buffers.data_mut(d);
        let Ok(Some((f, named_at))) = ext::fragment(data) else { return false };
        debug_assert_eq!(f.header + 8, header as usize);
        // The headers in front of the fragment header move over it.
        data[named_at] = data[f.header];
        data.copy_within(..f.header, 8);
        d.off += 8;
        d.len -= 8;
        let data = buffers.data_mut(d);
        let len = (f.header - ip6::HEADER_LEN) as u32 + payload;
        let Some(h) = data.first_chunk_mut::<{ ip6::HEADER_LEN }>() else { return false };
        h[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        if congestion {
            let class = Ip6Header(h).traffic_class();
            set_traffic_class(h, class | 3);
        }
        h[24] == 0xff
    }
}
