//! IGMP and MLD packets.

use super::table::{Action, Record};
use crate::neighbor::wire::Message;
use packet::IpProtocol;
use packet::checksum::{self, pseudo6};
use packet::eth::{EtherType, MacAddr};
use packet::icmp6::kind;
use packet::ip4::{Ip4Header, addr as addr4, fill_checksum};
use packet::ip6::addr::{self as addr6, ALL_MLDV2_ROUTERS, ALL_ROUTERS};
use packet::ip6::{Ip6Header, ext};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All IGMPv3 routers.
const ALL_IGMPV3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const ALL_ROUTERS4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// Records of one report: fewer than fill 1280 bytes.
const RECORDS: usize = 60;
/// Types of IGMP messages.
pub(super) const IGMP_QUERY: u8 = 0x11;
const IGMPV1_REPORT: u8 = 0x12;
const IGMPV2_REPORT: u8 = 0x16;
const IGMP_LEAVE: u8 = 0x17;
const IGMPV3_REPORT: u8 = 0x22;

/// The packets for an action, from these addresses of the interface. Without a link-local address reports come from `::` (RFC
/// 3590), without an IPv4 address from 0.0.0.0 (RFC 3376 section 4.2.13).
pub fn frames(action: &Action, source4: Option<Ipv4Addr>, source6: Option<Ipv6Addr>) -> Vec<Message> {
    let (source4, source6) =
        (source4.unwrap_or(Ipv4Addr::UNSPECIFIED), source6.unwrap_or(Ipv6Addr::UNSPECIFIED));
    match action {
        Action::Report { records, .. } => records
            .chunks(RECORDS)
            .map(|records| match records.first() {
                Some((_, IpAddr::V6(_))) => mld_report(source6, records),
                _ => igmp_report(source4, records),
            })
            .collect(),
        Action::Old { group: IpAddr::V4(group), version, left, .. } => {
            let (to, what) = match (left, version) {
                (true, _) => (ALL_ROUTERS4, IGMP_LEAVE),
                (false, 1) => (*group, IGMPV1_REPORT),
                (false, _) => (*group, IGMPV2_REPORT),
            };
            let mut message = vec![what, 0, 0, 0];
            message.extend(group.octets());
            vec![igmp(source4, to, message)]
        }
        Action::Old { group: IpAddr::V6(group), left, .. } => {
            let (to, what) = if *left { (ALL_ROUTERS, kind::MLD_DONE) } else { (*group, kind::MLD_REPORT) };
            let mut message = vec![what, 0, 0, 0, 0, 0, 0, 0];
            message.extend(group.octets());
            vec![mld(source6, to, message)]
        }
    }
}

fn record_type(r: Record) -> u8 {
    match r {
        Record::Is => 2,
        Record::Left => 3,
        Record::Joined => 4,
    }
}

fn igmp_report(source: Ipv4Addr, records: &[(Record, IpAddr)]) -> Message {
    let mut message = vec![IGMPV3_REPORT, 0, 0, 0, 0, 0, 0, records.len() as u8];
    for (r, group) in records {
        message.extend([record_type(*r), 0, 0, 0]);
        if let IpAddr::V4(g) = group {
            message.extend(g.octets());
        }
    }
    igmp(source, ALL_IGMPV3_ROUTERS, message)
}

/// An IPv4 packet with TTL 1, internetwork control and a router alert (RFC 3376 section 4).
fn igmp(source: Ipv4Addr, to: Ipv4Addr, mut message: Vec<u8>) -> Message {
    let sum = checksum::checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut packet = vec![0x46, 0xc0, 0, 0, 0, 0, 0x40, 0, 1, 2, 0, 0];
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend([0x94, 4, 0, 0]);
    let total = (packet.len() + message.len()) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    fill_checksum(&mut packet);
    packet.extend(message);
    Message { dst: addr4::multicast_mac(to.into()), ethertype: EtherType::IPV4, payload: packet }
}

fn mld_report(source: Ipv6Addr, records: &[(Record, IpAddr)]) -> Message {
    let mut message = vec![kind::MLDV2_REPORT, 0, 0, 0, 0, 0, 0, records.len() as u8];
    for (r, group) in records {
        message.extend([record_type(*r), 0, 0, 0]);
        if let IpAddr::V6(g) = group {
            message.extend(g.octets());
        }
    }
    mld(source, ALL_MLDV2_ROUTERS, message)
}

/// An IPv6 packet with hop limit 1 and a router alert in a hop-by-hop header (RFC 3810 section 5).
fn mld(source: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Message {
    let mut sum = pseudo6(source, to, IpProtocol::ICMPV6, message.len() as u32);
    sum.add_bytes(&message);
    message[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(((message.len() + 8) as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend([IpProtocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0]);
    packet.extend(message);
    let dst: MacAddr = addr6::multicast_mac(to);
    Message { dst, ethertype: EtherType::IPV6, payload: packet }
}

/// A query for groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of IPv6 groups.
    pub v6: bool,
    /// The group asked for; `None`: all.
    pub group: Option<IpAddr>,
    /// Within which time answers are to come, milliseconds.
    pub delay: u64,
    /// The version, where it is an older one.
    pub old: Option<u8>,
}

/// A number in the floating-point form of RFC 3376 section 4.1.1 (8 bits) or RFC 3810 section 5.1.3 (16 bits).
fn long(code: u16, bits: u32) -> u64 {
    let top = 1u64 << (bits - 1);
    let (code, mantissa) = (u64::from(code), bits - 4);
    if code < top {
        return code;
    }
    let exponent = (code >> mantissa) & 7;
    ((code & ((1 << mantissa) - 1)) | 1 << mantissa) << (exponent + 3)
}

impl Query {
    /// Reads a packet that begins with its IP header. `None` for what is no valid query: those of the newest versions must have a
    /// router alert and come from the link (RFC 3376 section 9.1, RFC 3810 section 5.1.14).
    pub fn parse(packet: &[u8]) -> Option<Query> {
        match packet.first()? >> 4 {
            4 => Self::igmp(packet),
            6 => Self::mld(packet),
            _ => None,
        }
    }

    fn igmp(packet: &[u8]) -> Option<Query> {
        let h = Ip4Header(packet.first_chunk()?);
        let total = usize::from(h.total_len());
        let message = packet.get(h.header_len()..total.min(packet.len()))?;
        let [IGMP_QUERY, code, _, _, a, b, c, d, ..] = *message else { return None };
        if !checksum::is_valid(message) || h.ttl() != 1 {
            return None;
        }
        let group = Ipv4Addr::new(a, b, c, d);
        let group = (!group.is_unspecified()).then_some(IpAddr::V4(group));
        let old = match message.len() {
            8 if code == 0 => Some(1),
            8 => Some(2),
            12.. => None,
            _ => return None,
        };
        if group.is_some_and(|g| !g.is_multicast()) || old.is_none() && h.header_len() < 24 {
            return None;
        }
        // Tenths of a second; version 1 means ten seconds.
        let tenths = match old {
            Some(1) => 100,
            Some(_) => u64::from(code),
            None => long(code.into(), 8),
        };
        Some(Query { v6: false, group, delay: tenths * 100, old })
    }

    fn mld(packet: &[u8]) -> Option<Query> {
        let h = Ip6Header(packet.first_chunk()?);
        let upper = ext::walk(packet).ok()?;
        let message = packet.get(usize::from(upper.offset as u16)..h.total_len().min(packet.len()))?;
        let header = message.first_chunk::<24>()?;
        let alert = upper.hop_by_hop_range().is_some_and(|range| {
            ext::Options::new(packet, range).flatten().any(|o| o.kind == ext::OPTION_ROUTER_ALERT)
        });
        if header[0] != kind::MLD_QUERY || h.hop_limit() != 1 || !h.src().is_unicast_link_local() || !alert {
            return None;
        }
        let old = match message.len() {
            24 => Some(1),
            28.. => None,
            _ => return None,
        };
        let code = u16::from_be_bytes([header[4], header[5]]);
        let delay = if old.is_some() { code.into() } else { long(code, 16) };
        let group = Ipv6Addr::from(*header.last_chunk::<16>()?);
        let group = (!group.is_unspecified()).then_some(IpAddr::V6(group));
        if group.is_some_and(|g| !g.is_multicast()) {
            return None;
        }
        Some(Query { v6: true, group, delay, old })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn delays_have_a_floating_point() {
        assert_eq!((long(127, 8), long(128, 8), long(255, 8)), (127, 128, 31_744));
        assert_eq!((long(32_767, 16), long(32_768, 16), long(65_535, 16)), (32_767, 32_768, 8_387_584));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..90), first in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60)]) {
            let mut bytes = bytes;
            if let Some(b) = bytes.first_mut() {
                *b = first;
            }
            let _ = Query::parse(&bytes);
        }
    }
}
