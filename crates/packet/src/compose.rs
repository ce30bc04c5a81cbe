//! Whole packets and frames from their parts, in a new vector: for the control side, the packet generator's templates
//! and tests. Checksums and lengths are filled in.

use crate::BuildError;
use crate::eth::{EthHeader, EtherType, MacAddr};
use crate::icmp4;
use crate::icmp6;
use crate::ip4::{Ip4Builder, MAX_HEADER_LEN};
use crate::ip6::Ip6Builder;
use crate::proto::IpProtocol;
use crate::tcp::TcpBuilder;
use crate::udp::UdpBuilder;

/// Network layer.
#[derive(Clone, Copy, Debug)]
pub enum L3 {
    /// IPv4
    Ip4(Ip4Builder),
    /// IPv6
    Ip6(Ip6Builder),
}

/// Upper layer; it sets the protocol of the network layer.
#[derive(Clone, Copy, Debug)]
pub enum L4<'a> {
    /// UDP
    Udp(UdpBuilder),
    /// TCP
    Tcp(TcpBuilder<'a>),
    /// An ICMP or ICMPv6 echo request.
    Echo {
        /// Identifier.
        id: u16,
        /// Sequence number.
        seq: u16,
    },
    /// No header: the payload follows the network layer, whose protocol stays.
    Raw,
}

/// An IP packet.
pub fn packet(l3: L3, l4: L4<'_>, payload: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut upper = vec![0; MAX_HEADER_LEN + payload.len()];
    let (protocol, len) = match (l4, l3) {
        (L4::Udp(udp), L3::Ip4(ip)) => {
            (Some(IpProtocol::UDP), udp.emit4(&mut upper, ip.src, ip.dst, payload)?)
        }
        (L4::Udp(udp), L3::Ip6(ip)) => {
            (Some(IpProtocol::UDP), udp.emit6(&mut upper, ip.src, ip.dst, payload)?)
        }
        (L4::Tcp(tcp), L3::Ip4(ip)) => {
            (Some(IpProtocol::TCP), tcp.emit4(&mut upper, ip.src, ip.dst, payload)?)
        }
        (L4::Tcp(tcp), L3::Ip6(ip)) => {
            (Some(IpProtocol::TCP), tcp.emit6(&mut upper, ip.src, ip.dst, payload)?)
        }
        (L4::Echo { id, seq }, L3::Ip4(_)) => {
            let len = icmp4::emit_echo(&mut upper, icmp4::kind::ECHO_REQUEST, id, seq, payload)?;
            (Some(IpProtocol::ICMP), len)
        }
        (L4::Echo { id, seq }, L3::Ip6(ip)) => {
            let addrs = (ip.src, ip.dst);
            let len = icmp6::emit_echo(&mut upper, addrs, icmp6::kind::ECHO_REQUEST, id, seq, payload)?;
            (Some(IpProtocol::ICMPV6), len)
        }
        (L4::Raw, _) => {
            upper[..payload.len()].copy_from_slice(payload);
            (None, payload.len())
        }
    };
    upper.truncate(len);
    let mut out = vec![0; MAX_HEADER_LEN];
    let header_len = match l3 {
        L3::Ip4(ip) => Ip4Builder { protocol: protocol.unwrap_or(ip.protocol), ..ip }.emit(&mut out, len)?,
        L3::Ip6(ip) => {
            Ip6Builder { next_header: protocol.unwrap_or(ip.next_header), ..ip }.emit(&mut out, len)?
        }
    };
    out.truncate(header_len);
    out.append(&mut upper);
    Ok(out)
}

/// An Ethernet frame with `tags` (TPID and tag control field, the outer one first) around `payload`.
pub fn frame(
    dst: MacAddr,
    src: MacAddr,
    tags: &[(EtherType, u16)],
    ethertype: EtherType,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = EthHeader { dst, src, ethertype }.to_bytes()[..12].to_vec();
    for (tpid, tci) in tags {
        out.extend(tpid.0.to_be_bytes());
        out.extend(tci.to_be_bytes());
    }
    out.extend(ethertype.0.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// An Ethernet frame around an IP packet.
pub fn ip_frame(
    dst: MacAddr,
    src: MacAddr,
    tags: &[(EtherType, u16)],
    l3: L3,
    l4: L4<'_>,
    payload: &[u8],
) -> Result<Vec<u8>, BuildError> {
    let ethertype = match l3 {
        L3::Ip4(_) => EtherType::IPV4,
        L3::Ip6(_) => EtherType::IPV6,
    };
    Ok(frame(dst, src, tags, ethertype, &packet(l3, l4, payload)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn etherparse_reads_every_combination() {
        let l3s = [
            L3::Ip4(Ip4Builder::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), IpProtocol(253))),
            L3::Ip6(Ip6Builder::new(Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(9), IpProtocol(253))),
        ];
        let tcp = TcpBuilder { options: &[2, 4, 5, 0xb4], ..TcpBuilder::new(1, 2) };
        let l4s = [
            L4::Udp(UdpBuilder { src_port: 1, dst_port: 2 }),
            L4::Tcp(tcp),
            L4::Echo { id: 1, seq: 2 },
            L4::Raw,
        ];
        let tags = [(EtherType::QINQ, 5), (EtherType::VLAN, 6)];
        for l3 in l3s {
            for l4 in l4s {
                for tags in [&tags[..0], &tags[1..], &tags[..]] {
                    let f = ip_frame(MacAddr([2; 6]), MacAddr([4; 6]), tags, l3, l4, b"payload").unwrap();
                    let p = SlicedPacket::from_ethernet(&f).unwrap();
                    assert_eq!(p.link_exts.len(), tags.len());
                    let body = match (p.transport, l4, p.net) {
                        (Some(TransportSlice::Udp(u)), L4::Udp(_), _) => u.payload().to_vec(),
                        (Some(TransportSlice::Tcp(t)), L4::Tcp(_), _) => t.payload().to_vec(),
                        (Some(TransportSlice::Icmpv4(i)), L4::Echo { .. }, _) => i.payload().to_vec(),
                        (Some(TransportSlice::Icmpv6(i)), L4::Echo { .. }, _) => i.payload().to_vec(),
                        (None, L4::Raw, Some(NetSlice::Ipv4(ip))) => ip.payload().payload.to_vec(),
                        (None, L4::Raw, Some(NetSlice::Ipv6(ip))) => ip.payload().payload.to_vec(),
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(body, b"payload");
                }
            }
        }
    }
}
