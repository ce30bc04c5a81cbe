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
    /// The address, with the length of its prefix; of one with a peer the whole length.
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
    // The prefix is the peer's.
    if local.is_some() && prefix.is_some_and(|p| p != address) {
        len = if address.is_ipv4() { 32 } else { 128 };
    }
    let net = match address {
        IpAddr::V4(a) => IpNet::from(Ipv4Net::new(a, len).ok()?),
        IpAddr::V6(a) => IpNet::from(Ipv6Net::new(a, len).ok()?),
    };
    Some(Address { ifindex: u32_at(head, 4)?, net, duplicate: flags & IFA_F_DADFAILED != 0 })
}
