//! IP protocol numbers, used by IPv4 `protocol` and IPv6 `next header` alike.

use std::fmt;

/// An IP protocol number (IANA "Assigned Internet Protocol Numbers").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct IpProtocol(pub u8);

#[allow(missing_docs)]
impl IpProtocol {
    pub const HOP_BY_HOP: Self = Self(0);
    pub const ICMP: Self = Self(1);
    pub const IGMP: Self = Self(2);
    pub const IP_IN_IP: Self = Self(4);
    pub const TCP: Self = Self(6);
    pub const UDP: Self = Self(17);
    pub const DCCP: Self = Self(33);
    pub const IPV6: Self = Self(41);
    pub const ROUTING: Self = Self(43);
    pub const FRAGMENT: Self = Self(44);
    pub const GRE: Self = Self(47);
    pub const ESP: Self = Self(50);
    pub const AH: Self = Self(51);
    pub const ICMPV6: Self = Self(58);
    pub const NO_NEXT: Self = Self(59);
    pub const DEST_OPTIONS: Self = Self(60);
    pub const OSPF: Self = Self(89);
    pub const PIM: Self = Self(103);
    pub const VRRP: Self = Self(112);
    pub const SCTP: Self = Self(132);
    pub const MOBILITY: Self = Self(135);
    pub const UDP_LITE: Self = Self(136);
    pub const MPLS_IN_IP: Self = Self(137);
    pub const HIP: Self = Self(139);
    pub const SHIM6: Self = Self(140);
}

impl IpProtocol {
    /// Whether the first four bytes of the payload are a source and a destination port.
    #[inline]
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::DCCP | Self::SCTP | Self::UDP_LITE)
    }

    /// Short name, where the protocol is one that Quiver knows.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMP => "ICMP",
            Self::IGMP => "IGMP",
            Self::IP_IN_IP => "IP-in-IP",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::DCCP => "DCCP",
            Self::IPV6 => "IPv6",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "GRE",
            Self::ESP => "ESP",
            Self::AH => "AH",
            Self::ICMPV6 => "ICMPv6",
            Self::NO_NEXT => "no-next-header",
            Self::DEST_OPTIONS => "destination-options",
            Self::OSPF => "OSPF",
            Self::PIM => "PIM",
            Self::VRRP => "VRRP",
            Self::SCTP => "SCTP",
            Self::MOBILITY => "mobility",
            Self::UDP_LITE => "UDP-Lite",
            Self::MPLS_IN_IP => "MPLS-in-IP",
            Self::HIP => "HIP",
            Self::SHIM6 => "Shim6",
            _ => return None,
        })
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}
