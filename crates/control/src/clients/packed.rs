//! Prefixes as bytes: of each its length, then all bytes of its address. Five bytes are an IPv4 prefix, 17 an IPv6 one, so
//! that the place of each is known and whoever has arrays of them need not look at each.

use super::RouteError;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::fmt;

/// Bytes of a prefix.
pub fn width(v6: bool) -> usize {
    if v6 { 17 } else { 5 }
}

/// A prefix that is none: its address and length.
pub(super) struct Wrong {
    pub rule: &'static str,
    pub value: String,
    pub message: String,
}

/// Puts a prefix behind others.
pub fn push(bytes: &mut Vec<u8>, prefix: IpNet) {
    bytes.push(prefix.prefix_len());
    match prefix {
        IpNet::V4(p) => bytes.extend(p.addr().octets()),
        IpNet::V6(p) => bytes.extend(p.addr().octets()),
    }
}

/// Whether the bytes are whole prefixes, and how many.
pub(super) fn count(v6: bool, bytes: &[u8]) -> Option<usize> {
    bytes.len().is_multiple_of(width(v6)).then_some(bytes.len() / width(v6))
}

/// The prefixes, of which each is checked when it is taken.
pub(super) fn read(v6: bool, bytes: &[u8]) -> impl Iterator<Item = Result<IpNet, Wrong>> + '_ {
    bytes.chunks_exact(width(v6)).map(move |b| if v6 { one6(b) } else { one4(b) })
}

fn one4(bytes: &[u8]) -> Result<IpNet, Wrong> {
    let (len, address) = bytes.split_first().ok_or_else(|| too_long("", 0, 32))?;
    let address = u32::from_be_bytes(address.try_into().unwrap_or_default());
    match Ipv4Net::new(address.into(), *len) {
        Ok(net) if net.trunc() == net => Ok(net.into()),
        Ok(net) => Err(host_bits(net.into())),
        Err(_) => Err(too_long(std::net::Ipv4Addr::from(address), *len, 32)),
    }
}

fn one6(bytes: &[u8]) -> Result<IpNet, Wrong> {
    let (len, address) = bytes.split_first().ok_or_else(|| too_long("", 0, 128))?;
    let address = u128::from_be_bytes(address.try_into().unwrap_or_default());
    match Ipv6Net::new(address.into(), *len) {
        Ok(net) if net.trunc() == net => Ok(net.into()),
        Ok(net) => Err(host_bits(net.into())),
        Err(_) => Err(too_long(std::net::Ipv6Addr::from(address), *len, 128)),
    }
}

fn too_long(address: impl fmt::Display, len: u8, most: u8) -> Wrong {
    let value = format!("{address}/{len}");
    let message = format!("{value}: a prefix of {address} has 0 to {most} bits");
    Wrong { rule: RouteError::LENGTH, value, message }
}

fn host_bits(net: IpNet) -> Wrong {
    let message = format!("{net} has bits set behind its length: the prefix is {}", net.trunc());
    Wrong { rule: RouteError::HOST_BITS, value: net.to_string(), message }
}
