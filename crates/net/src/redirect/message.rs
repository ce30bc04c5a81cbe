//! Whether there is something to tell, and the message.

use crate::interface::Interface;
use packet::eth::MacAddr;
use packet::icmp4::{self, ErrorMessage, redirect};
use packet::ip4::{self, Ip4Builder, Ip4View};
use packet::ip6::{Ip6View, addr};
use packet::nd::Redirection;
use packet::{IpProtocol, icmp6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the longest message, and of what it may quote.
pub(super) const MOST: usize = icmp6::MAX_ERROR_PACKET;

/// Writes the redirect about `packet`, as it came, to `out`, for a next hop with this address and this MAC address; `None`
/// where there is none to be sent.
pub type Writer = fn(
    out: &mut [u8; MOST],
    packet: &mut [u8],
    i: &Interface,
    next_hop: IpAddr,
    mac: [u8; 6],
    id: u16,
) -> Option<usize>;

/// A hash of a packet's addresses, not 0. FNV-1a: who finds pairs with the same one gets more of what the class limits anyway.
pub(super) fn hash(packet: &[u8; MOST]) -> u64 {
    let pair = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    let step = |h: u64, b: &u8| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3);
    pair.iter().fold(0xcbf2_9ce4_8422_2325, step) | 1
}

/// Writes the redirect about a packet that was counted down already. Its source and the next hop must be in one prefix of the
/// interface (RFC 1812 section 5.2.7.2).
pub(super) fn redirect4(
    out: &mut [u8; MOST],
    packet: &mut [u8],
    i: &Interface,
    next_hop: IpAddr,
    _mac: [u8; 6],
    id: u16,
) -> Option<usize> {
    let IpAddr::V4(gateway) = next_hop else { return None };
    let header = packet.first().map(|b| usize::from(b & 15) * 4)?;
    let h = packet.get_mut(..header).filter(|h| h.len() >= ip4::HEADER_LEN)?;
    h[8] = h[8].wrapping_add(1);
    ip4::fill_checksum(h);
    let original = Ip4View::parse_quoted(packet).ok()?;
    let (src, to) = (original.fixed().src_u32(), gateway.to_bits());
    let holds =
        |a: u32, len: u8, b: u32| (a ^ b) & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0) == 0;
    let near = |(a, len): &&(u32, u8)| holds(*a, *len, src) && holds(*a, *len, to);
    let (own, len) = *i.addrs4.iter().find(near)?;
    let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
    // Neither the network's own address nor its broadcast.
    let group = len < 31 && (src & host == 0 || src & host == host);
    if src == to || src == own || to == own || group || !icmp4::may_send_error(&original, false, false) {
        return None;
    }
    let ip = Ip4Builder {
        tos: 0xc0,
        id,
        ..Ip4Builder::new(own.into(), Ipv4Addr::from_bits(src), IpProtocol::ICMP)
    };
    ErrorMessage::Redirect { code: redirect::HOST, gateway }.emit(out, ip, packet).ok()
}

/// The same for IPv6 (RFC 4861 section 8.2): the source must be a neighbour, and the next hop the destination itself or known by
/// its link-local address.
pub(super) fn redirect6(
    out: &mut [u8; MOST],
    packet: &mut [u8],
    i: &Interface,
    next_hop: IpAddr,
    mac: [u8; 6],
    _id: u16,
) -> Option<usize> {
    let IpAddr::V6(target) = next_hop else { return None };
    let hops = packet.get_mut(7)?;
    *hops = hops.wrapping_add(1);
    let original = Ip6View::parse_quoted(packet).ok()?;
    let (src, destination) = (original.src_u128(), Ipv6Addr::from_bits(original.dst_u128()));
    let near =
        |(a, len): &(u128, u8)| (a ^ src) & u128::MAX.checked_shl(128 - u32::from(*len)).unwrap_or(0) == 0;
    let own = i.addrs6.iter().find(|a| addr::is_link_local(a.0))?.0;
    if !i.addrs6.iter().any(near) || i.addrs6.iter().any(|a| a.0 == src || a.0 == target.to_bits()) {
        return None;
    }
    if target != destination && !addr::is_link_local(target.to_bits()) || target.to_bits() == src {
        return None;
    }
    let unlike_errors = icmp6::ErrorMessage::Unreachable(0).may_be_sent(&original, false);
    let message =
        Redirection { src: own.into(), dst: src.into(), target, destination, target_mac: MacAddr(mac) };
    if unlike_errors { message.emit(out, packet).ok() } else { None }
}
