//! What makes packets one flow: the innermost addresses, protocol and ports of a frame.
//!
//! Up to two VLAN tags, MPLS labels, and the tunnels GRE, IP in IP, MPLS in IP and VXLAN (UDP port 4789) are looked through, whether they
//! end on the router or pass. All fragments of a datagram are told by its addresses alone, and what is inside of a fragmented tunnel packet
//! is not looked at. What is no IP goes by its label stack, or by MAC addresses and type.

use crate::gre::header::GreHeader;
use crate::vxlan;
use graph::WINDOW;
use packet::eth::{EtherType, MacAddr};
use packet::flow::Flow;
use packet::ip4::Ip4Header;
use packet::ip6::{self, Ip6Header};
use packet::mpls::{Payload, StackView};
use packet::vlan::VlanStack;
use packet::{IpProtocol, ip4};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Headers that are looked at, one in another.
const MOST_LAYERS: usize = 12;
/// Labels of a stack.
const MOST_LABELS: usize = 16;
/// Labels of which a flow is told, that are not reserved.
const NAMED_LABELS: usize = 6;
/// Bytes of a UDP header.
const UDP_LEN: usize = 8;
/// Bytes behind the header of the shortest Ethernet frame.
const SHORTEST: usize = 46;

/// Of what a flow is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// IPv4 packets.
    Ip4,
    /// IPv6 packets.
    Ip6,
    /// Labelled packets of something else.
    Labels,
    /// Other frames.
    #[default]
    Frames,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Of what.
    pub kind: FlowKind,
    /// Protocol of IP packets; 0 of fragments.
    pub protocol: IpProtocol,
    /// Source port in the high half and destination port in the low half, or the type of frames in both.
    pub ports: u32,
    /// Source address, or the labels that are not reserved, 20 bits each.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
}

/// What bytes begin with.
#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Frame,
    Ip4,
    Ip6,
    Mpls,
}

impl Layer {
    fn of(t: EtherType) -> Option<Layer> {
        Some(match t {
            EtherType::IPV4 => Layer::Ip4,
            EtherType::IPV6 => Layer::Ip6,
            EtherType::MPLS | EtherType::MPLS_MULTICAST => Layer::Mpls,
            EtherType::TRANSPARENT_ETHERNET => Layer::Frame,
            _ => return None,
        })
    }
}

impl FlowKey {
    const NONE: FlowKey =
        FlowKey { kind: FlowKind::Frames, protocol: IpProtocol(0), ports: 0, src: 0, dst: 0 };

    /// That of a frame that begins with these bytes.
    pub fn of(frame: &[u8]) -> FlowKey {
        let (mut key, mut layer, mut bytes) = (FlowKey::NONE, Layer::Frame, frame);
        for _ in 0..MOST_LAYERS {
            let read = match layer {
                Layer::Frame => read_frame(bytes),
                Layer::Ip4 => read_ip4(bytes),
                Layer::Ip6 => read_ip6(bytes),
                Layer::Mpls => read_mpls(bytes),
            };
            // What is inside of it cannot be read: the flow is that of what is around.
            let Some((own, inside)) = read else { break };
            key = own;
            let Some((next, rest)) = inside else { break };
            (layer, bytes) = (next, rest);
        }
        key
    }

    /// Its hash.
    #[inline]
    pub fn hash(&self, flow: Flow) -> u32 {
        match self.kind {
            FlowKind::Ip4 => flow.hash4(self.src as u32, self.dst as u32, self.ports, self.protocol),
            _ => flow.hash6(self.src, self.dst, self.ports, self.protocol, 0),
        }
    }
}

/// The length of up to two VLAN tags that a frame carries.
#[inline(always)]
pub(super) fn tags_len(w: &[u8; WINDOW]) -> usize {
    let is_tag = |at: usize| EtherType(u16::from_be_bytes([w[at], w[at + 1]])).is_vlan();
    match (is_tag(12), is_tag(16)) {
        (false, _) => 0,
        (true, false) => 4,
        (true, true) => 8,
    }
}

/// The hash of usual frames by their first bytes, those from [`tags_len`] on: with TCP or UDP over IPv4 without options or IPv6 without extension headers,
/// no fragment, and no tunnel. None for others. `len` bytes of the window belong to the frame.
#[inline(always)]
pub(super) fn near(w: &[u8; WINDOW], len: u16, flow: Flow) -> Option<u32> {
    let word = |at: usize| u32::from_be_bytes([w[at], w[at + 1], w[at + 2], w[at + 3]]);
    let address = |at: usize| (0..4).fold(0, |all, n| all << 32 | u128::from(word(at + 4 * n)));
    let usual = |protocol: IpProtocol, ports: u32| {
        protocol == IpProtocol::TCP || (protocol == IpProtocol::UDP && ports as u16 != vxlan::PORT)
    };
    let (protocol, ports) = (IpProtocol(w[23]), word(34));
    // EtherType, version and length of the header; no fragment.
    let plain = (word(12) >> 8 == 0x08_0045) & (word(18) & 0x3fff == 0) & (len >= 38);
    if plain && usual(protocol, ports) {
        return Some(flow.hash4(word(26), word(30), ports, protocol));
    }
    let (protocol, ports) = (IpProtocol(w[20]), word(54));
    let plain = (word(12) & 0xffff_f000 == 0x86dd_6000) & (len >= 58);
    (plain && usual(protocol, ports)).then(|| flow.hash6(address(22), address(38), ports, protocol, 0))
}

/// A flow, and what is inside of its packets where that tells more.
type Read<'b> = Option<(FlowKey, Option<(Layer, &'b [u8])>)>;

fn read_frame(frame: &[u8]) -> Read<'_> {
    let mac = |at: usize| {
        let [a, b, c, d, e, f] = *frame.get(at..)?.first_chunk()?;
        Some(u128::from(MacAddr([a, b, c, d, e, f]).to_u64()))
    };
    let (dst, src) = (mac(0)?, mac(6)?);
    let link = VlanStack::parse(frame);
    let t = link.map_or(0, |l| u32::from(l.ethertype.0));
    let key = FlowKey { ports: t << 16 | t, src, dst, ..FlowKey::NONE };
    let layer = link.and_then(|l| Some((Layer::of(l.ethertype)?, frame.get(usize::from(l.header_len)..)?)));
    Some((key, layer.filter(|(layer, _)| *layer != Layer::Frame)))
}

fn ports(l4: &[u8]) -> u32 {
    l4.first_chunk().map_or(0, |p| u32::from_be_bytes(*p))
}

fn read_ip4(packet: &[u8]) -> Read<'_> {
    let h = Ip4Header(packet.first_chunk()?);
    if packet[0] >> 4 != 4 || h.header_len() < ip4::HEADER_LEN {
        return None;
    }
    let (src, dst) = (h.src_u32().into(), h.dst_u32().into());
    let key = FlowKey { kind: FlowKind::Ip4, src, dst, ..FlowKey::NONE };
    if h.is_fragment() {
        return Some((key, None));
    }
    Some(above(key, h.protocol(), packet.get(h.header_len()..).unwrap_or_default()))
}

fn read_ip6(packet: &[u8]) -> Read<'_> {
    let h = Ip6Header(packet.first_chunk()?);
    if packet[0] >> 4 != 6 {
        return None;
    }
    let key = FlowKey { kind: FlowKind::Ip6, src: h.src_u128(), dst: h.dst_u128(), ..FlowKey::NONE };
    let Ok(upper) = ip6::ext::walk(packet) else {
        return Some((FlowKey { protocol: h.next_header(), ..key }, None));
    };
    if upper.fragment.is_some_and(|f| !f.is_atomic()) {
        return Some((key, None));
    }
    Some(above(key, upper.protocol, packet.get(upper.offset..).unwrap_or_default()))
}

/// With the protocol above IP.
fn above(mut key: FlowKey, protocol: IpProtocol, l4: &[u8]) -> (FlowKey, Option<(Layer, &[u8])>) {
    key.protocol = protocol;
    if protocol.has_ports() {
        key.ports = ports(l4);
    }
    let inside = match protocol {
        IpProtocol::IP_IN_IP => Some((Layer::Ip4, l4)),
        IpProtocol::IPV6 => Some((Layer::Ip6, l4)),
        IpProtocol::MPLS_IN_IP => Some((Layer::Mpls, l4)),
        IpProtocol::GRE => {
            GreHeader::parse(l4).ok().and_then(|h| Some((Layer::of(h.protocol)?, l4.get(h.len()..)?)))
        }
        IpProtocol::UDP if key.ports as u16 == vxlan::PORT => {
            vxlan::frame(l4.get(UDP_LEN..).unwrap_or_default()).map(|frame| (Layer::Frame, frame))
        }
        _ => None,
    };
    (key, inside)
}

/// Whether bytes behind labels are an IPv6 packet, which has no checksum: it is as long as it says, or padded to the shortest frame.
fn is_ip6(p: &[u8]) -> bool {
    let Some(h) = p.first_chunk::<{ ip6::HEADER_LEN }>() else { return false };
    let len = Ip6Header(h).total_len();
    // No source is a group.
    (len == p.len() || len < p.len() && p.len() <= SHORTEST) && h[8] != 0xff
}

fn read_mpls(bytes: &[u8]) -> Read<'_> {
    let stack = StackView::parse(bytes, MOST_LABELS).ok()?;
    let labels = stack.entries().map(|e| e.label()).filter(|l| !l.is_reserved()).take(NAMED_LABELS);
    let src = labels.fold(0, |all, l| all << 20 | u128::from(l.value()));
    let key = FlowKey { kind: FlowKind::Labels, src, ..FlowKey::NONE };
    // The stack does not say what it carries, and frames may begin as IP does: so more than the first bits must be right.
    let inside = match Payload::guess(stack.payload()) {
        Payload::Ip4 => ip4::check(stack.payload(), usize::MAX).is_ok().then_some(Layer::Ip4),
        Payload::Ip6 => is_ip6(stack.payload()).then_some(Layer::Ip6),
        Payload::Other => None,
    };
    Some((key, inside.map(|layer| (layer, stack.payload()))))
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sport, dport) = (self.ports >> 16, self.ports & 0xffff);
        let mac = |n: u128| MacAddr::from_u64(n as u64);
        match (self.kind, self.ports) {
            (FlowKind::Ip4, 0) => {
                write!(f, "{} -> {}", Ipv4Addr::from(self.src as u32), Ipv4Addr::from(self.dst as u32))?;
            }
            (FlowKind::Ip4, _) => {
                let (src, dst) = (Ipv4Addr::from(self.src as u32), Ipv4Addr::from(self.dst as u32));
                write!(f, "{src}:{sport} -> {dst}:{dport}")?;
            }
            (FlowKind::Ip6, 0) => write!(f, "{} -> {}", Ipv6Addr::from(self.src), Ipv6Addr::from(self.dst))?,
            (FlowKind::Ip6, _) => {
                let (src, dst) = (Ipv6Addr::from(self.src), Ipv6Addr::from(self.dst));
                write!(f, "[{src}]:{sport} -> [{dst}]:{dport}")?;
            }
            (FlowKind::Labels, _) => {
                let all = (0..NAMED_LABELS).rev().map(|n| (self.src >> (20 * n)) as u32 & 0xf_ffff);
                let all: Vec<String> = all.skip_while(|l| *l == 0).map(|l| l.to_string()).collect();
                return write!(f, "labels {}", all.join("/"));
            }
            (FlowKind::Frames, _) => {
                return write!(f, "{} -> {} 0x{dport:04x}", mac(self.src), mac(self.dst));
            }
        }
        match (self.protocol.name(), self.protocol.0) {
            (_, 0) => f.write_str(" fragments"),
            (Some(name), _) => write!(f, " {name}"),
            (None, number) => write!(f, " protocol {number}"),
        }
    }
}
