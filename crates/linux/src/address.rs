//! Addresses of devices as the kernel tells them (linux/if_addr.h).

use crate::route;
use crate::wire::{Attributes, u32_at};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;

/// Bytes of `struct ifaddrmsg`.
pub const IFADDRMSG: usize = 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_DADFAILED: u32 = 8;

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Linux's index of the device.
    pub ifindex: u32,
    /// The address, with the length of its prefix; the whole length where that is a peer's of IPv4 of which it is no
    /// host.
    pub net: IpNet,
    /// Another host was found to have it.
    pub duplicate: bool,
}

/// The address of a message; `None` when it is not as it should be.
pub fn parse(body: &[u8]) -> Option<Address> {
    let head = body.get(..IFADDRMSG)?;
    let (mut len, mut flags) = (head[1], u32::from(head[2]));
    let (mut local, mut prefix) = (None, None);
    for (kind, value) in Attributes(&body[IFADDRMSG..]) {
        match kind {
            IFA_LOCAL => local = Some(route::address(value)?),
            IFA_ADDRESS => prefix = Some(route::address(value)?),
            IFA_FLAGS => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    let address = local.or(prefix)?;
    // The prefix is the peer's: the kernel has a route to it, and the address may stand within it or alone. An address of IPv6 has the length
    // for itself, whatever its peer.
    if let (Some(IpAddr::V4(peer)), IpAddr::V4(own)) = (prefix, address)
        && peer != own
    {
        let net = Ipv4Net::new(peer, len).ok()?;
        let is_end = len < 31 && (own == net.network() || own == net.broadcast());
        if is_end || !net.contains(&own) {
            len = 32;
        }
    }
    let net = match address {
        IpAddr::V4(a) => IpNet::from(Ipv4Net::new(a, len).ok()?),
        IpAddr::V6(a) => IpNet::from(Ipv6Net::new(a, len).ok()?),
    };
    Some(Address { ifindex: u32_at(head, 4)?, net, duplicate: flags & IFA_F_DADFAILED != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute;

    fn told(family: u8, len: u8, local: Option<&str>, address: &str) -> Option<String> {
        let mut body = vec![family, len, 0, 0, 3, 0, 0, 0];
        let of = |kind, text: &str| match text.parse().unwrap() {
            IpAddr::V4(a) => attribute(kind, &a.octets()),
            IpAddr::V6(a) => attribute(kind, &a.octets()),
        };
        body.extend(local.into_iter().flat_map(|l| of(IFA_LOCAL, l)));
        body.extend(of(IFA_ADDRESS, address));
        parse(&body).map(|a| a.net.to_string())
    }

    /// As `ip address add LOCAL peer PEER/LEN` comes.
    #[test]
    fn the_prefix_of_a_peer() {
        let v4 = |len, peer| told(route::AF_INET, len, Some("10.0.0.1"), peer).unwrap();
        assert_eq!(v4(24, "10.0.0.1"), "10.0.0.1/24");
        assert_eq!(v4(32, "10.0.0.2"), "10.0.0.1/32");
        assert_eq!(v4(24, "10.0.0.2"), "10.0.0.1/24");
        assert_eq!(v4(24, "10.9.0.2"), "10.0.0.1/32");
        let v6 = |len, local, peer| told(route::AF_INET6, len, local, peer).unwrap();
        assert_eq!(v6(64, None, "2001:db8::1"), "2001:db8::1/64");
        assert_eq!(v6(128, Some("2001:db8::1"), "2001:db8::2"), "2001:db8::1/128");
        assert_eq!(v6(64, Some("2001:db8::1"), "2001:db8::2"), "2001:db8::1/64");
        assert_eq!(v6(64, Some("2001:db8::1"), "2001:db8:9::2"), "2001:db8::1/64");
        // As its network's or broadcast's address it would not be a host's.
        let v4 = |len, local, peer| told(route::AF_INET, len, Some(local), peer).unwrap();
        assert_eq!(v4(24, "10.0.0.0", "10.0.0.2"), "10.0.0.0/32");
        assert_eq!(v4(24, "10.0.0.255", "10.0.0.2"), "10.0.0.255/32");
        assert_eq!(v4(31, "10.0.0.0", "10.0.0.1"), "10.0.0.0/31");
        assert_eq!(told(route::AF_INET, 33, Some("10.0.0.1"), "10.0.0.2"), None);
    }
}
