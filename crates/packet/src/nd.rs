//! Neighbour discovery (RFC 4861): messages validated as its sections 6.1, 7.1 and 8.1 demand, and solicitations and
//! advertisements to send.

mod advert;
mod build;
pub mod option;

pub use advert::{AdvertHeader, Preference, RouterAdvert};
pub use build::{Advertisement, MAX_PACKET, Redirection, RouterSolicitation, Solicitation};
pub use option::{NdOption, Options, PrefixInfo};

use crate::bytes::{array, be16, be32};
use crate::icmp6::{self, kind};
use crate::ip6::{Ip6View, addr};
use crate::proto::IpProtocol;
use std::fmt;
use std::net::Ipv6Addr;

/// Hop limit of every message: none came through a router (RFC 4861, 7.1).
pub const HOP_LIMIT: u8 = 255;

/// Why a message is silently discarded; the checks run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdError {
    /// Not one of the five message types.
    NotNd,
    /// Hop limit is not 255.
    BadHopLimit,
    /// The message came in a fragment (RFC 6980).
    Fragmented,
    /// Checksum wrong.
    BadChecksum,
    /// Code is not 0.
    BadCode,
    /// Shorter than its fixed part.
    TooShort,
    /// An option of length 0, or one beyond the message.
    BadOption,
    /// The target is a multicast address, or a redirect's target is neither link-local nor its destination.
    BadTarget,
    /// The source is not what this message needs: link-local for router advertisements and redirects.
    BadSource,
    /// The destination is not what this message needs: the solicited-node group for a solicitation from `::`,
    /// unicast for a solicited advertisement; or the redirected destination is multicast.
    BadDestination,
    /// A source link-layer option in a solicitation from `::`.
    UnexpectedOption,
}

impl fmt::Display for NdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NdError::NotNd => "not a neighbour discovery message",
            NdError::BadHopLimit => "ND hop limit is not 255",
            NdError::Fragmented => "ND message in a fragment",
            NdError::BadChecksum => "bad ICMPv6 checksum",
            NdError::BadCode => "ND code is not 0",
            NdError::TooShort => "ND message too short",
            NdError::BadOption => "bad ND option length",
            NdError::BadTarget => "bad ND target",
            NdError::BadSource => "bad ND source address",
            NdError::BadDestination => "bad ND destination address",
            NdError::UnexpectedOption => "link-layer option in a solicitation from ::",
        })
    }
}

impl std::error::Error for NdError {}

/// Is there a neighbour with this address, and where?
#[derive(Clone, Copy, Debug)]
pub struct NeighborSolicitation<'a> {
    /// The address asked for.
    pub target: Ipv6Addr,
    /// Options.
    pub options: Options<'a>,
}

/// Here is the neighbour with this address.
#[derive(Clone, Copy, Debug)]
pub struct NeighborAdvertisement<'a> {
    /// The sender is a router.
    pub router: bool,
    /// Answers a solicitation.
    pub solicited: bool,
    /// Replaces what is in the neighbour table.
    pub override_: bool,
    /// The address advertised.
    pub target: Ipv6Addr,
    /// Options.
    pub options: Options<'a>,
}

/// Which routers are there?
#[derive(Clone, Copy, Debug)]
pub struct RouterSolicit<'a> {
    /// Options.
    pub options: Options<'a>,
}

/// A router tells what it is.
#[derive(Clone, Copy, Debug)]
pub struct RouterAdvertisement<'a> {
    /// Hop limit for hosts to use, 0 for unspecified.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is to be had by DHCPv6.
    pub other: bool,
    /// Seconds for which it is a default router, 0 for not at all.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour counts as reachable, 0 for unspecified.
    pub reachable_time: u32,
    /// Milliseconds between solicitations, 0 for unspecified.
    pub retrans_timer: u32,
    /// Options.
    pub options: Options<'a>,
}

/// There is a better first hop.
#[derive(Clone, Copy, Debug)]
pub struct Redirect<'a> {
    /// The better first hop.
    pub target: Ipv6Addr,
    /// The destination it is better for.
    pub destination: Ipv6Addr,
    /// Options.
    pub options: Options<'a>,
}

/// A valid message.
#[derive(Clone, Copy, Debug)]
pub enum NdMessage<'a> {
    /// Type 133.
    RouterSolicitation(RouterSolicit<'a>),
    /// Type 134.
    RouterAdvertisement(RouterAdvertisement<'a>),
    /// Type 135.
    NeighborSolicitation(NeighborSolicitation<'a>),
    /// Type 136.
    NeighborAdvertisement(NeighborAdvertisement<'a>),
    /// Type 137.
    Redirect(Redirect<'a>),
}

impl<'a> NdMessage<'a> {
    /// Validates a packet that lies in one piece.
    pub fn parse(ip: &Ip6View<'a>) -> Result<Self, NdError> {
        let upper = ip.upper_layer().map_err(|_| NdError::NotNd)?;
        let message = ip.packet().get(upper.offset..).unwrap_or_default();
        let [kind, code, ..] = *message else { return Err(NdError::NotNd) };
        if upper.protocol != IpProtocol::ICMPV6
            || upper.is_later_fragment()
            || !(kind::ROUTER_SOLICITATION..=kind::REDIRECT).contains(&kind)
        {
            return Err(NdError::NotNd);
        }
        if ip.hop_limit() != HOP_LIMIT {
            return Err(NdError::BadHopLimit);
        }
        if upper.fragment.is_some() {
            return Err(NdError::Fragmented);
        }
        if !icmp6::verify(ip.src(), ip.dst(), message) {
            return Err(NdError::BadChecksum);
        }
        if code != 0 {
            return Err(NdError::BadCode);
        }
        match kind {
            kind::ROUTER_SOLICITATION => router_solicitation(ip, message),
            kind::ROUTER_ADVERTISEMENT => router_advertisement(ip, message),
            kind::NEIGHBOR_SOLICITATION => solicitation(ip, message),
            kind::NEIGHBOR_ADVERTISEMENT => advertisement(ip, message),
            _ => redirect(ip, message),
        }
    }
}

/// Splits the fixed part off and checks the lengths of all options.
fn split<const N: usize>(message: &[u8]) -> Result<(&[u8; N], Options<'_>), NdError> {
    let (fixed, options) = message.split_first_chunk().ok_or(NdError::TooShort)?;
    Ok((fixed, Options::checked(options).ok_or(NdError::BadOption)?))
}

fn address<const N: usize>(b: &[u8; N], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(array::<N, 16>(b, at))
}

fn unicast_target(target: Ipv6Addr) -> Result<Ipv6Addr, NdError> {
    if addr::is_multicast(target.to_bits()) { Err(NdError::BadTarget) } else { Ok(target) }
}

fn without_source_option(options: Options<'_>) -> Result<(), NdError> {
    if options.into_iter().any(|o| o.kind == option::SOURCE_LINK_LAYER) {
        return Err(NdError::UnexpectedOption);
    }
    Ok(())
}

/// RFC 4861, 7.1.1
fn solicitation<'a>(ip: &Ip6View<'a>, message: &'a [u8]) -> Result<NdMessage<'a>, NdError> {
    let (fixed, options) = split::<24>(message)?;
    let target = unicast_target(address(fixed, 8))?;
    if ip.src().is_unspecified() {
        if !addr::is_solicited_node(ip.dst_u128()) {
            return Err(NdError::BadDestination);
        }
        without_source_option(options)?;
    }
    Ok(NdMessage::NeighborSolicitation(NeighborSolicitation { target, options }))
}

/// RFC 4861, 7.1.2
fn advertisement<'a>(ip: &Ip6View<'a>, message: &'a [u8]) -> Result<NdMessage<'a>, NdError> {
    let (fixed, options) = split::<24>(message)?;
    let target = unicast_target(address(fixed, 8))?;
    let solicited = fixed[4] & 0x40 != 0;
    if solicited && addr::is_multicast(ip.dst_u128()) {
        return Err(NdError::BadDestination);
    }
    Ok(NdMessage::NeighborAdvertisement(NeighborAdvertisement {
        router: fixed[4] & 0x80 != 0,
        solicited,
        override_: fixed[4] & 0x20 != 0,
        target,
        options,
    }))
}

/// RFC 4861, 6.1.1
fn router_solicitation<'a>(ip: &Ip6View<'a>, message: &'a [u8]) -> Result<NdMessage<'a>, NdError> {
    let (_, options) = split::<8>(message)?;
    if ip.src().is_unspecified() {
        without_source_option(options)?;
    }
    Ok(NdMessage::RouterSolicitation(RouterSolicit { options }))
}

/// RFC 4861, 6.1.2
fn router_advertisement<'a>(ip: &Ip6View<'a>, message: &'a [u8]) -> Result<NdMessage<'a>, NdError> {
    let (fixed, options) = split::<16>(message)?;
    if !addr::is_link_local(ip.src_u128()) {
        return Err(NdError::BadSource);
    }
    Ok(NdMessage::RouterAdvertisement(RouterAdvertisement {
        hop_limit: fixed[4],
        managed: fixed[5] & 0x80 != 0,
        other: fixed[5] & 0x40 != 0,
        lifetime: be16(fixed, 6),
        reachable_time: be32(fixed, 8),
        retrans_timer: be32(fixed, 12),
        options,
    }))
}

/// RFC 4861, 8.1
fn redirect<'a>(ip: &Ip6View<'a>, message: &'a [u8]) -> Result<NdMessage<'a>, NdError> {
    let (fixed, options) = split::<40>(message)?;
    let (target, destination) = (address(fixed, 8), address(fixed, 24));
    if !addr::is_link_local(target.to_bits()) && target != destination {
        return Err(NdError::BadTarget);
    }
    if !addr::is_link_local(ip.src_u128()) {
        return Err(NdError::BadSource);
    }
    if addr::is_multicast(destination.to_bits()) {
        return Err(NdError::BadDestination);
    }
    Ok(NdMessage::Redirect(Redirect { target, destination, options }))
}

#[cfg(test)]
mod tests;
