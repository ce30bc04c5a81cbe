//! Options of neighbour discovery (RFC 4861, 4.6): a type, a length in units of eight bytes, data.

use crate::bytes::{array, be32};
use crate::eth::MacAddr;
use std::net::Ipv6Addr;

/// The sender's MAC address.
pub const SOURCE_LINK_LAYER: u8 = 1;
/// The target's MAC address.
pub const TARGET_LINK_LAYER: u8 = 2;
/// A prefix of the link.
pub const PREFIX: u8 = 3;
/// The packet that a redirect is about.
pub const REDIRECTED: u8 = 4;
/// The link's MTU.
pub const MTU: u8 = 5;
/// Random bytes that tell one's own looped solicitation from another's (RFC 7527).
pub const NONCE: u8 = 14;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdOption<'a> {
    /// Option type.
    pub kind: u8,
    /// What follows type and length: 6 bytes, 14, 22, ...
    pub data: &'a [u8],
}

/// A prefix information option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// Prefix length, as it stands.
    pub len: u8,
    /// The prefix is on the link.
    pub on_link: bool,
    /// Hosts may make themselves addresses of it.
    pub autonomous: bool,
    /// Seconds, all ones for ever.
    pub valid_lifetime: u32,
    /// Seconds, all ones for ever.
    pub preferred_lifetime: u32,
    /// The prefix; bits after its length are to be ignored.
    pub prefix: Ipv6Addr,
}

impl NdOption<'_> {
    /// The MAC address of a link-layer option; on Ethernet that is exactly eight bytes (RFC 2464, 6).
    #[inline]
    pub fn mac(&self) -> Option<MacAddr> {
        match self.kind {
            SOURCE_LINK_LAYER | TARGET_LINK_LAYER => self.data.try_into().ok().map(MacAddr),
            _ => None,
        }
    }

    /// The value of an MTU option.
    pub fn mtu(&self) -> Option<u32> {
        let data: &[u8; 6] = self.data.try_into().ok()?;
        (self.kind == MTU).then(|| be32(data, 2))
    }

    /// The fields of a prefix option.
    pub fn prefix(&self) -> Option<PrefixInfo> {
        let data: &[u8; 30] = self.data.try_into().ok()?;
        (self.kind == PREFIX).then(|| PrefixInfo {
            len: data[0],
            on_link: data[1] & 0x80 != 0,
            autonomous: data[1] & 0x40 != 0,
            valid_lifetime: be32(data, 2),
            preferred_lifetime: be32(data, 6),
            prefix: Ipv6Addr::from(array::<30, 16>(data, 14)),
        })
    }
}

/// Options whose lengths were checked. Iterates when asked with `into_iter`.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// `None` when an option has length 0 or reaches beyond `bytes`.
    pub fn checked(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split(rest)?.1;
        }
        Some(Self(bytes))
    }

    /// The MAC address of the first option of this kind.
    pub fn mac(self, kind: u8) -> Option<MacAddr> {
        self.into_iter().find(|o| o.kind == kind).and_then(|o| o.mac())
    }

    /// The sender's MAC address.
    pub fn source_mac(self) -> Option<MacAddr> {
        self.mac(SOURCE_LINK_LAYER)
    }

    /// The target's MAC address.
    pub fn target_mac(self) -> Option<MacAddr> {
        self.mac(TARGET_LINK_LAYER)
    }
}

fn split(bytes: &[u8]) -> Option<(NdOption<'_>, &[u8])> {
    let [kind, len, ..] = *bytes else { return None };
    let (option, rest) = bytes.split_at_checked(usize::from(len) * 8)?;
    Some((NdOption { kind, data: option.get(2..)? }, rest))
}

impl<'a> IntoIterator for Options<'a> {
    type Item = NdOption<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter(self.0)
    }
}

/// Iterates over options.
#[derive(Clone, Debug)]
pub struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = NdOption<'a>;

    fn next(&mut self) -> Option<NdOption<'a>> {
        let (option, rest) = split(self.0)?;
        self.0 = rest;
        Some(option)
    }
}
