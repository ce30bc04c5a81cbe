//! Classes of IPv4 addresses, on numbers in host order (`Ipv4Addr::to_bits`).

use crate::eth::MacAddr;

/// 0.0.0.0/8: "this network"; a source only, of a host that has no address yet.
#[inline]
pub const fn is_this_network(a: u32) -> bool {
    a >> 24 == 0
}

/// 127.0.0.0/8
#[inline]
pub const fn is_loopback(a: u32) -> bool {
    a >> 24 == 127
}

/// 169.254.0.0/16; such packets are not forwarded (RFC 3927, 7).
#[inline]
pub const fn is_link_local(a: u32) -> bool {
    a >> 16 == 0xa9fe
}

/// 224.0.0.0/4
#[inline]
pub const fn is_multicast(a: u32) -> bool {
    a >> 28 == 0xe
}

/// 224.0.0.0/24: never forwarded, whatever its TTL (RFC 5771, 4).
#[inline]
pub const fn is_local_multicast(a: u32) -> bool {
    a >> 8 == 0x00e0_0000
}

/// 240.0.0.0/4 without 255.255.255.255 (class E).
#[inline]
pub const fn is_class_e(a: u32) -> bool {
    a >> 28 == 0xf && a != u32::MAX
}

/// 255.255.255.255
#[inline]
pub const fn is_limited_broadcast(a: u32) -> bool {
    a == u32::MAX
}

/// No packet may be forwarded from such a source (RFC 1812, 5.3.7; RFC 1122, 3.2.1.3): this network, loopback,
/// multicast, class E, broadcast.
#[inline]
pub const fn is_martian_source(a: u32) -> bool {
    let top = a >> 24;
    (top == 0) | (top == 127) | (top >= 224)
}

/// No packet may be forwarded to such a destination as unicast (RFC 1812, 5.3.7): this network, loopback, class E,
/// broadcast. Multicast is not among them.
#[inline]
pub const fn is_martian_destination(a: u32) -> bool {
    let top = a >> 24;
    (top == 0) | (top == 127) | (top >= 240)
}

/// Names one host, as far as the address alone tells: neither martian nor multicast. Broadcasts of a subnet are not
/// known here.
#[inline]
pub const fn is_unicast(a: u32) -> bool {
    !is_martian_source(a)
}

/// The Ethernet address of a multicast group (RFC 1112, 6.4).
#[inline]
pub const fn multicast_mac(a: u32) -> MacAddr {
    let b = a.to_be_bytes();
    MacAddr([0x01, 0x00, 0x5e, b[1] & 0x7f, b[2], b[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn a(text: &str) -> u32 {
        text.parse::<Ipv4Addr>().unwrap().to_bits()
    }

    #[test]
    fn edges() {
        assert!(is_martian_source(a("0.255.255.255")) && !is_martian_source(a("1.0.0.0")));
        assert!(is_martian_source(a("127.0.0.1")) && !is_martian_source(a("126.255.255.255")));
        assert!(!is_martian_source(a("128.0.0.0")) && !is_martian_source(a("223.255.255.255")));
        assert!(is_martian_source(a("224.0.0.0")) && is_martian_source(a("255.255.255.255")));
        assert!(!is_martian_destination(a("239.255.255.255")) && is_martian_destination(a("240.0.0.0")));
        assert!(is_local_multicast(a("224.0.0.251")) && !is_local_multicast(a("224.0.1.0")));
        assert_eq!(multicast_mac(a("239.129.2.3")).to_string(), "01:00:5e:01:02:03");
    }

    proptest! {
        #[test]
        fn agrees_with_std(n: u32, top in prop_oneof![Just(0u32), Just(127), Just(169), Just(224), Just(240), Just(255)]) {
            for n in [n, n >> 8 | top << 24, top << 24] {
                let ip = Ipv4Addr::from(n);
                prop_assert_eq!(is_loopback(n), ip.is_loopback());
                prop_assert_eq!(is_link_local(n), ip.is_link_local());
                prop_assert_eq!(is_multicast(n), ip.is_multicast());
                prop_assert_eq!(is_limited_broadcast(n), ip.is_broadcast());
                prop_assert_eq!(is_this_network(n), ip.octets()[0] == 0);
                let class_e = ip.octets()[0] >= 240 && !ip.is_broadcast();
                prop_assert_eq!(is_class_e(n), class_e);
                prop_assert_eq!(is_martian_destination(n),
                    ip.octets()[0] == 0 || ip.is_loopback() || class_e || ip.is_broadcast());
                prop_assert_eq!(is_martian_source(n), is_martian_destination(n) || ip.is_multicast());
                prop_assert_eq!(is_unicast(n), !is_martian_source(n));
            }
        }
    }
}
