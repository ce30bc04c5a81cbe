//! Classes of IPv6 addresses (RFC 4291), on numbers in host order (`Ipv6Addr::to_bits`).

use crate::eth::MacAddr;
use std::net::Ipv6Addr;

/// ff02::1, all nodes on the link.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// ff02::2, all routers on the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// ff02::16, all MLDv2 routers on the link (RFC 3810).
pub const ALL_MLDV2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// `::`
#[inline]
pub const fn is_unspecified(a: u128) -> bool {
    a == 0
}

/// `::1`
#[inline]
pub const fn is_loopback(a: u128) -> bool {
    a == 1
}

/// fe80::/10
#[inline]
pub const fn is_link_local(a: u128) -> bool {
    a >> 118 == 0x3fa
}

/// ff00::/8
#[inline]
pub const fn is_multicast(a: u128) -> bool {
    a >> 120 == 0xff
}

/// ::ffff:0:0/96, which must not be on the wire.
#[inline]
pub const fn is_v4_mapped(a: u128) -> bool {
    a >> 32 == 0xffff
}

/// fc00::/7 (RFC 4193)
#[inline]
pub const fn is_unique_local(a: u128) -> bool {
    a >> 121 == 0x7e
}

/// The scope field of a multicast address (RFC 7346): 1 interface, 2 link, 5 site, 14 global. `None` for unicast.
#[inline]
pub const fn multicast_scope(a: u128) -> Option<u8> {
    if is_multicast(a) { Some((a >> 112) as u8 & 15) } else { None }
}

/// ff02::1:ff00:0/104
#[inline]
pub const fn is_solicited_node(a: u128) -> bool {
    a >> 24 == 0xff02_0000_0000_0000_0000_0001_ff00_0000 >> 24
}

/// No packet may be forwarded from such a source (RFC 4291, 2.5.2, 2.5.3, 2.7): unspecified, loopback, multicast,
/// v4-mapped. Link-local sources are another case: RFC 4291, 2.5.6.
#[inline]
pub const fn is_martian_source(a: u128) -> bool {
    (a <= 1) | is_multicast(a) | is_v4_mapped(a)
}

/// No packet may be forwarded to such a destination: unspecified, loopback, v4-mapped, and multicast of scope
/// reserved (0), interface (1) or link (2).
#[inline]
pub const fn is_martian_destination(a: u128) -> bool {
    (a <= 1) | is_v4_mapped(a) | (is_multicast(a) & ((a >> 112) as u8 & 15 <= 2))
}

/// The solicited-node group of a unicast address (RFC 4291, 2.7.1).
#[inline]
pub const fn solicited_node(a: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | a.to_bits() & 0x00ff_ffff)
}

/// The Ethernet address of a multicast group (RFC 2464, 7).
#[inline]
pub const fn multicast_mac(a: Ipv6Addr) -> MacAddr {
    let b = a.octets();
    MacAddr([0x33, 0x33, b[12], b[13], b[14], b[15]])
}

/// The modified EUI-64 interface identifier of a MAC address (RFC 4291, appendix A).
#[inline]
pub const fn interface_id(mac: MacAddr) -> u64 {
    let m = mac.0;
    u64::from_be_bytes([m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]])
}

/// The link-local address of a MAC address (RFC 2464, 5).
#[inline]
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | interface_id(mac) as u128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    #[test]
    fn edges() {
        assert!(is_link_local(a("fe80::")) && is_link_local(a("febf:ffff::")) && !is_link_local(a("fec0::")));
        assert!(is_unspecified(0) && is_loopback(a("::1")) && is_v4_mapped(a("::ffff:192.0.2.1")));
        assert!(
            is_unique_local(a("fd00::1")) && is_unique_local(a("fc00::")) && !is_unique_local(a("fe00::"))
        );
        assert_eq!(multicast_scope(a("ff05::2")), Some(5));
        assert_eq!(multicast_scope(a("2001:db8::")), None);
        for bad in ["::", "::1", "ff02::1", "ff0e::1", "::ffff:1.2.3.4"] {
            assert!(is_martian_source(a(bad)), "{bad}");
        }
        for bad in ["::", "::1", "ff00::1", "ff01::1", "ff12::1", "::ffff:1.2.3.4"] {
            assert!(is_martian_destination(a(bad)), "{bad}");
        }
        for good in ["2001:db8::1", "fe80::1", "fd00::1", "64:ff9b::1"] {
            assert!(!is_martian_source(a(good)) && !is_martian_destination(a(good)), "{good}");
        }
        assert!(!is_martian_destination(a("ff0e::1")) && !is_martian_destination(a("ff05::2")));
    }

    #[test]
    fn derived_addresses() {
        // RFC 4291, 2.7.1.
        let unicast: Ipv6Addr = "4037::1:800:200e:8c6c".parse().unwrap();
        let group = solicited_node(unicast);
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert!(is_solicited_node(group.to_bits()) && !is_solicited_node(ALL_NODES.to_bits()));
        assert_eq!(multicast_mac(group).to_string(), "33:33:ff:0e:8c:6c");
        // RFC 4291, appendix A: 34-56-78-9A-BC-DE.
        let mac = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(link_local(mac).to_string(), "fe80::3656:78ff:fe9a:bcde");
    }

    proptest! {
        #[test]
        fn agrees_with_std(n: u128, top in prop_oneof![Just(0xfeu128), Just(0xff), Just(0xfd), Just(0)]) {
            for n in [n, n >> 8 | top << 120, n & 0xff, n & 0xffff_ffff | 0xffff << 32] {
                let ip = Ipv6Addr::from(n);
                prop_assert_eq!(is_link_local(n), ip.is_unicast_link_local());
                prop_assert_eq!(is_multicast(n), ip.is_multicast());
                prop_assert_eq!(is_unique_local(n), ip.is_unique_local());
                prop_assert_eq!(is_loopback(n), ip.is_loopback());
                prop_assert_eq!(is_unspecified(n), ip.is_unspecified());
                prop_assert_eq!(is_v4_mapped(n), ip.to_ipv4_mapped().is_some());
            }
        }
    }
}
