//! ICMP (RFC 792, RFC 1812 section 4.3) and ICMPv6 (RFC 4443): echo, errors, neighbour discovery on the wire.

pub(crate) mod along;
mod ip4_error;
mod ip6_error;
mod labels;
mod mpls_ask;

pub use ip4_error::{Ip4ErrorReason, Ip4IcmpError};
pub use ip6_error::{Ip6ErrorReason, Ip6IcmpError};
pub use mpls_ask::MplsAsk;

use crate::plane::table::{V6, View};
use crate::plane::{Plane, kind};
use crate::punt::Class;
use graph::{Desc, Guard, Packet, flags};
use packet::ip6::addr::is_link_local;

/// The ICMP error that a node asks `ip4-icmp-error` or `ip6-icmp-error` to send, carried in [`graph::Desc::aux`]:
/// type, code, and a 16-bit value (MTU or pointer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// MTU (fragmentation needed, packet too big) or pointer (parameter problem).
    pub value: u16,
}

impl Ask {
    /// Destination unreachable, network (RFC 792).
    pub const V4_NET_UNREACHABLE: Ask = Ask::new(3, 0, 0);
    /// Destination unreachable, host.
    pub const V4_HOST_UNREACHABLE: Ask = Ask::new(3, 1, 0);
    /// Destination unreachable, protocol.
    pub const V4_PROTOCOL_UNREACHABLE: Ask = Ask::new(3, 2, 0);
    /// Destination unreachable, port.
    pub const V4_PORT_UNREACHABLE: Ask = Ask::new(3, 3, 0);
    /// Destination unreachable, source route failed.
    pub const V4_SOURCE_ROUTE_FAILED: Ask = Ask::new(3, 5, 0);
    /// Destination unreachable, communication administratively prohibited (RFC 1812 section 5.2.7.1).
    pub const V4_PROHIBITED: Ask = Ask::new(3, 13, 0);
    /// Time exceeded in transit.
    pub const V4_TTL_EXCEEDED: Ask = Ask::new(11, 0, 0);
    /// Fragment reassembly time exceeded (RFC 792).
    pub const V4_REASSEMBLY_TIME_EXCEEDED: Ask = Ask::new(11, 1, 0);
    /// No route to destination (RFC 4443 section 3.1).
    pub const V6_NO_ROUTE: Ask = Ask::new(1, 0, 0);
    /// Communication with destination administratively prohibited.
    pub const V6_PROHIBITED: Ask = Ask::new(1, 1, 0);
    /// Beyond scope of source address.
    pub const V6_BEYOND_SCOPE: Ask = Ask::new(1, 2, 0);
    /// Address unreachable.
    pub const V6_ADDRESS_UNREACHABLE: Ask = Ask::new(1, 3, 0);
    /// Port unreachable.
    pub const V6_PORT_UNREACHABLE: Ask = Ask::new(1, 4, 0);
    /// Hop limit exceeded in transit.
    pub const V6_HOP_LIMIT_EXCEEDED: Ask = Ask::new(3, 0, 0);

    /// Fragment reassembly time exceeded (RFC 8200 section 4.5).
    pub const V6_REASSEMBLY_TIME_EXCEEDED: Ask = Ask::new(3, 1, 0);

    /// An error of this type and code.
    pub const fn new(kind: u8, code: u8, value: u16) -> Ask {
        Ask { kind, code, value }
    }

    /// Fragmentation needed and DF set, with the next hop's MTU (RFC 1191).
    pub const fn v4_fragmentation_needed(mtu: u16) -> Ask {
        Ask::new(3, 4, mtu)
    }

    /// Parameter problem at byte `pointer` of the IPv4 header.
    pub const fn v4_parameter_problem(pointer: u8) -> Ask {
        Ask::new(12, 0, pointer as u16)
    }

    /// Packet too big, with the next hop's MTU (RFC 4443 section 3.2).
    pub const fn v6_too_big(mtu: u16) -> Ask {
        Ask::new(2, 0, mtu)
    }

    /// Parameter problem of this code at byte `pointer` of the packet (RFC 4443 section 3.4).
    pub const fn v6_parameter_problem(code: u8, pointer: u16) -> Ask {
        Ask::new(4, code, pointer)
    }

    /// The class whose limit holds for it as an ICMP error (RFC 1812 section 4.3.2.8).
    pub fn class4(self) -> Class {
        let hops = Ask::V4_TTL_EXCEEDED;
        if (self.kind, self.code) == (hops.kind, hops.code) { Class::TtlExceeded } else { Class::IcmpError }
    }

    /// The class whose limit holds for it as an ICMPv6 error (RFC 4443 section 2.4(f)).
    pub fn class6(self) -> Class {
        let hops = Ask::V6_HOP_LIMIT_EXCEEDED;
        if (self.kind, self.code) == (hops.kind, hops.code) { Class::TtlExceeded } else { Class::IcmpError }
    }

    /// As a descriptor's scratch word.
    pub const fn word(self) -> u32 {
        (self.kind as u32) << 24 | (self.code as u32) << 16 | self.value as u32
    }

    /// From a descriptor's scratch word.
    pub const fn from_word(w: u32) -> Ask {
        Ask { kind: (w >> 24) as u8, code: (w >> 16) as u8, value: w as u16 }
    }
}

/// How many interfaces are searched for an address when the one in question has none.
const SEARCHED: u32 = 4096;

/// What `of` finds on interface `rx`, else on the first interface where it finds anything: the source address of an
/// error must be one of the router's, and any serves (RFC 1812 section 4.3.2.4).
fn any_source<T>(
    plane: &Plane,
    guard: &Guard,
    rx: u32,
    table: impl Fn(&crate::interface::Interface) -> u32,
    of: impl Fn(&crate::interface::Interface) -> Option<T>,
) -> Option<T> {
    let interface = |index| plane.interfaces.get(index, guard);
    // An address of another table means nothing to the sender, but is better than silence.
    let own = interface(rx).map_or(0, &table);
    let near = |index| interface(index).filter(|i| table(i) == own).and_then(&of);
    let far = |index| interface(index).and_then(&of);
    far(rx).or_else(|| (0..SEARCHED).find_map(near)).or_else(|| (0..SEARCHED).find_map(far))
}

/// The address from which an answer comes to `asker`, who sent a packet to `asked`, an address of the router: itself, or where
/// it is no address that an interface may use, as a subnet-router anycast address, one of its interface (RFC 4443 section 2.2).
pub(crate) fn unicast6(plane: &Plane, guard: &Guard, d: &Desc, asked: u128, asker: u128) -> u128 {
    let found = View::<V6>::new(plane, guard).lookup_for(d, &asked.to_be_bytes());
    let e = plane.groups.resolve(found, 0);
    let interface = |index| plane.interfaces.get(index, guard);
    let owner = interface(e.adj).filter(|i| e.kind == kind::LOCAL && !is_link_local(asked) && !i.has6(asked));
    let near = if is_link_local(asker) { interface(d.rx) } else { owner };
    owner.and(near).and_then(|i| i.source6(asker)).unwrap_or(asked)
}

/// Where a node puts an error and what it quotes together: filled with zeros once, and not for each packet.
struct Desk<const N: usize> {
    quote: [u8; N],
    error: [u8; N],
}

impl<const N: usize> Desk<N> {
    fn new() -> Box<Self> {
        // Tests must see what nobody has written.
        let fill = if cfg!(test) { 0xa5 } else { 0 };
        Box::new(Desk { quote: [fill; N], error: [fill; N] })
    }
}

/// Puts `bytes`, a packet that the router made, in the place of `p`. They fit one buffer.
pub(crate) fn replace(p: &mut Packet<'_>, bytes: &[u8]) {
    // First empty, so that the rest of a chain goes back.
    p.trim(0);
    let start = graph::buffer::HEADROOM;
    p.env.buffers.room_mut(&p.d.buf)[start..start + bytes.len()].copy_from_slice(bytes);
    let flags = p.d.flags & (flags::TRACED | crate::plane::IN_TABLE) | flags::LOCAL;
    *p.d = Desc { off: start as u16, l2: start as u16, len: bytes.len() as u16, flags, ..p.take() };
}
