//! Messages to send.

use super::read::Asked;
use packet::MacAddr;
use packet::arp::{ArpMessage, ArpView};
use packet::eth::{EthHeader, EtherType};
use packet::ip6::addr::multicast_mac;
use packet::nd::{Advertisement, MAX_PACKET, Solicitation};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What goes into a frame; the caller knows the source and the tags of the interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Destination of the frame.
    pub dst: MacAddr,
    /// ARP or IPv6.
    pub ethertype: EtherType,
    /// What follows the ethertype, without padding.
    pub payload: Vec<u8>,
}

impl Message {
    fn arp(dst: MacAddr, message: &ArpMessage) -> Self {
        Self { dst, ethertype: EtherType::ARP, payload: message.to_bytes().to_vec() }
    }

    fn ip6(dst: MacAddr, packet: [u8; MAX_PACKET], len: usize) -> Self {
        let payload = packet.into_iter().take(len).collect();
        Self { dst, ethertype: EtherType::IPV6, payload }
    }

    fn solicitation(dst: MacAddr, ns: &Solicitation) -> Self {
        let mut packet = [0; MAX_PACKET];
        // The array holds the longest packet there is: the builder cannot fail.
        let len = ns.emit(&mut packet).unwrap_or_default();
        Self::ip6(dst, packet, len)
    }

    fn advertisement(dst: MacAddr, na: &Advertisement) -> Self {
        let mut packet = [0; MAX_PACKET];
        let len = na.emit(&mut packet).unwrap_or_default();
        Self::ip6(dst, packet, len)
    }

    /// The frame from `src`, with `tags` (TPID and TCI, the outer first).
    pub fn frame(&self, src: MacAddr, tags: &[(EtherType, u16)]) -> Vec<u8> {
        let header = EthHeader { dst: self.dst, src, ethertype: self.ethertype }.to_bytes();
        let (addresses, ethertype) = header.split_at(12);
        let mut frame = Vec::with_capacity(header.len() + 4 * tags.len() + self.payload.len());
        frame.extend_from_slice(addresses);
        for (tpid, tci) in tags {
            frame.extend_from_slice(&tpid.0.to_be_bytes());
            frame.extend_from_slice(&tci.to_be_bytes());
        }
        frame.extend_from_slice(ethertype);
        frame.extend_from_slice(&self.payload);
        frame
    }
}

/// The solicitation of `target` that a [`Action::Solicit`](super::super::Action) asks for: ARP request or neighbour
/// solicitation, to `unicast` or to all who may have it. `source` is an address of ours on the link, best one of the
/// subnet of `target` (RFC 4861, 7.2.2). `None` when it is of the other family.
pub fn solicit(mac: MacAddr, source: IpAddr, target: IpAddr, unicast: Option<MacAddr>) -> Option<Message> {
    Some(match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            Message::arp(unicast.unwrap_or(MacAddr::BROADCAST), &ArpMessage::request(mac, source, target))
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => match unicast {
            Some(dst) => Message::solicitation(dst, &Solicitation::probe(source, mac, target)),
            None => {
                let ns = Solicitation::resolve(source, mac, target);
                Message::solicitation(multicast_mac(ns.dst), &ns)
            }
        },
        _ => return None,
    })
}

/// Announces an IPv4 address of ours (RFC 5227, 2.3).
pub fn gratuitous_arp(mac: MacAddr, addr: Ipv4Addr) -> Message {
    Message::arp(MacAddr::BROADCAST, &ArpMessage::announcement(mac, addr))
}

/// Asks whether anybody has an IPv6 address that is to be ours (RFC 4862, 5.4.2).
pub fn dad_ns(target: Ipv6Addr) -> Message {
    let ns = Solicitation::duplicate_detection(target);
    Message::solicitation(multicast_mac(ns.dst), &ns)
}

/// Announces an IPv6 address of ours (RFC 4861, 7.2.6).
pub fn unsolicited_na(mac: MacAddr, addr: Ipv6Addr) -> Message {
    let na = Advertisement::unsolicited(addr, mac);
    Message::advertisement(multicast_mac(na.dst), &na)
}

/// The answer to an ARP request for an address of ours.
pub(super) fn arp_reply(mac: MacAddr, request: &ArpView<'_>) -> Message {
    Message::arp(request.sender_mac(), &ArpMessage::reply_to(request, mac))
}

/// The answer to a solicitation of an anycast address of ours, from an address `src` of the interface: who answers first is heeded
/// (RFC 4861 section 7.2.7).
pub fn anycast_na(mac: MacAddr, src: Ipv6Addr, asked: &Asked) -> Message {
    let mut na = Advertisement::answer(asked.target, mac, asked.asker);
    (na.src, na.override_) = (src, false);
    let dst = if asked.asker.is_unspecified() { multicast_mac(na.dst) } else { asked.mac };
    Message::advertisement(dst, &na)
}

/// The answer to a solicitation of `target`, an address of ours. While that is `optimistic` it must not replace what
/// others know (RFC 4429, 3.3).
pub(super) fn na_answer(
    mac: MacAddr,
    target: Ipv6Addr,
    asker: Ipv6Addr,
    asker_mac: MacAddr,
    optimistic: bool,
) -> Message {
    let mut na = Advertisement::answer(target, mac, asker);
    na.override_ = !optimistic;
    let dst = if asker.is_unspecified() { multicast_mac(na.dst) } else { asker_mac };
    Message::advertisement(dst, &na)
}
