//! Addresses of the interfaces and next hops.

use ipnet::IpNet;
use packet::eth::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of an interface that has this address.
pub fn host_net(a: IpAddr) -> Result<IpNet, String> {
    let len = if a.is_ipv6() { 64 } else { 24 };
    IpNet::new(a, len).map_err(|e| e.to_string())
}

/// The router's address on egress interface `i`.
pub fn own(i: usize, v6: bool) -> IpAddr {
    let n = i as u16 + 1;
    match v6 {
        true => Ipv6Addr::new(0xfd00, n, 0, 0, 0, 0, 0, 1).into(),
        false => Ipv4Addr::new(10, (n >> 8) as u8, n as u8, 1).into(),
    }
}

/// Next hop `k`: they take turns on the egress interfaces.
pub fn hop(k: usize, egress: usize, v6: bool) -> (usize, IpAddr) {
    let (i, host) = (k % egress, k / egress + 2);
    let address = match own(i, v6) {
        IpAddr::V4(a) => Ipv4Addr::from(u32::from(a) - 1 + host as u32).into(),
        IpAddr::V6(a) => Ipv6Addr::from(u128::from(a) - 1 + host as u128).into(),
    };
    (i, address)
}

/// The network of sub-interface `in0.v`; the router is its first host.
pub fn tagged_net(v: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(100, 64, 0, 0)) + 4 * v + 1)
}

/// The IPv6 network of the same, and the router's address in it.
pub fn tagged_net6(v: u32) -> Result<IpNet, String> {
    host_net(Ipv6Addr::new(0xfd01, (v >> 16) as u16, v as u16, 0, 0, 0, 0, 1).into())
}

/// MAC address of next hop `k`.
pub fn hop_mac(k: usize) -> MacAddr {
    MacAddr([0x02, 1, 0, 0, (k >> 8) as u8, k as u8])
}
