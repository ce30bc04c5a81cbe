//! Messages to send, as whole IPv6 packets with hop limit 255.

use super::{HOP_LIMIT, option};
use crate::BuildError;
use crate::eth::MacAddr;
use crate::icmp6::{self, kind};
use crate::ip6::{self, Ip6Builder, addr};
use crate::proto::IpProtocol;
use std::net::Ipv6Addr;

/// Bytes of the longest packet that is written here.
pub const MAX_PACKET: usize = 40 + 24 + 8;

/// A neighbour solicitation to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// The address asked for.
    pub target: Ipv6Addr,
    /// The sender's MAC address, where it is told.
    pub source_mac: Option<MacAddr>,
}

impl Solicitation {
    /// Who has `target`? Goes to its solicited-node group.
    pub const fn resolve(src: Ipv6Addr, mac: MacAddr, target: Ipv6Addr) -> Self {
        Self { src, dst: addr::solicited_node(target), target, source_mac: Some(mac) }
    }

    /// Is `target` still there? Goes to it alone.
    pub const fn probe(src: Ipv6Addr, mac: MacAddr, target: Ipv6Addr) -> Self {
        Self { src, dst: target, target, source_mac: Some(mac) }
    }

    /// Does anybody have `target` already (RFC 4862, 5.4.2)? From `::`, without a link-layer option.
    pub const fn duplicate_detection(target: Ipv6Addr) -> Self {
        Self { src: Ipv6Addr::UNSPECIFIED, dst: addr::solicited_node(target), target, source_mac: None }
    }

    /// Writes the packet; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        let mac = self.source_mac.map(|m| (option::SOURCE_LINK_LAYER, m));
        packet(out, (self.src, self.dst), kind::NEIGHBOR_SOLICITATION, 0, Some(self.target), mac)
    }
}

/// A neighbour advertisement to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// The address advertised.
    pub target: Ipv6Addr,
    /// The target's MAC address, where it is told.
    pub target_mac: Option<MacAddr>,
    /// The sender is a router.
    pub router: bool,
    /// Answers a solicitation.
    pub solicited: bool,
    /// Replaces what is in the neighbour table.
    pub override_: bool,
}

impl Advertisement {
    /// A router's answer for its own address `target` to a solicitation from `asker`. An asker without an address
    /// (`::`) is answered at all nodes, unsolicited (RFC 4861, 7.2.4).
    pub const fn answer(target: Ipv6Addr, mac: MacAddr, asker: Ipv6Addr) -> Self {
        let known = !asker.is_unspecified();
        Self {
            src: target,
            dst: if known { asker } else { addr::ALL_NODES },
            target,
            target_mac: Some(mac),
            router: true,
            solicited: known,
            override_: true,
        }
    }

    /// A router's announcement to all nodes that `target` is at `mac` (RFC 4861, 7.2.6).
    pub const fn unsolicited(target: Ipv6Addr, mac: MacAddr) -> Self {
        Self::answer(target, mac, Ipv6Addr::UNSPECIFIED)
    }

    /// Writes the packet; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        let flags =
            u32::from(self.router) << 31 | u32::from(self.solicited) << 30 | u32::from(self.override_) << 29;
        let mac = self.target_mac.map(|m| (option::TARGET_LINK_LAYER, m));
        packet(out, (self.src, self.dst), kind::NEIGHBOR_ADVERTISEMENT, flags, Some(self.target), mac)
    }
}

/// A router solicitation to send, to all routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSolicitation {
    /// Source address; `source_mac` must be absent when it is `::`.
    pub src: Ipv6Addr,
    /// The sender's MAC address, where it is told.
    pub source_mac: Option<MacAddr>,
}

impl RouterSolicitation {
    /// Writes the packet; returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, BuildError> {
        let mac = self.source_mac.map(|m| (option::SOURCE_LINK_LAYER, m));
        packet(out, (self.src, addr::ALL_ROUTERS), kind::ROUTER_SOLICITATION, 0, None, mac)
    }
}

/// A redirect to send: `destination` is reached better by `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// The router's link-local address.
    pub src: Ipv6Addr,
    /// The host that is told.
    pub dst: Ipv6Addr,
    /// The better next hop: link-local, or the destination itself where it is on the link.
    pub target: Ipv6Addr,
    /// What the host sent to.
    pub destination: Ipv6Addr,
    /// The target's MAC address.
    pub target_mac: MacAddr,
}

impl Redirection {
    /// Writes the packet about `original`, of which it quotes what fits the minimum MTU in words of eight bytes (RFC 4861,
    /// 4.5 and 4.6.3); returns its length.
    pub fn emit(&self, out: &mut [u8], original: &[u8]) -> Result<usize, BuildError> {
        const BEFORE: usize = ip6::HEADER_LEN + icmp6::HEADER_LEN;
        const BODY: usize = icmp6::MAX_ERROR_PACKET - BEFORE;
        let mut body = [0; BODY];
        body[..16].copy_from_slice(&self.target.octets());
        body[16..32].copy_from_slice(&self.destination.octets());
        body[32..34].copy_from_slice(&[option::TARGET_LINK_LAYER, 1]);
        body[34..40].copy_from_slice(&self.target_mac.0);
        let quoted = original.len().min(BODY - 48) & !7;
        body[40..42].copy_from_slice(&[option::REDIRECTED, (quoted / 8 + 1) as u8]);
        body[48..48 + quoted].copy_from_slice(&original[..quoted]);
        let len = 48 + quoted;
        let total = BEFORE + len;
        let Some(out) = out.get_mut(..total) else { return Err(BuildError::NoRoom { needed: total }) };
        let mut ip = Ip6Builder::new(self.src, self.dst, IpProtocol::ICMPV6);
        ip.hop_limit = HOP_LIMIT;
        let at = ip.emit(out, icmp6::HEADER_LEN + len)?;
        icmp6::emit(&mut out[at..], (self.src, self.dst), [kind::REDIRECT, 0], 0, &body[..len])?;
        Ok(total)
    }
}

fn packet(
    out: &mut [u8],
    (src, dst): (Ipv6Addr, Ipv6Addr),
    message: u8,
    rest: u32,
    target: Option<Ipv6Addr>,
    mac: Option<(u8, MacAddr)>,
) -> Result<usize, BuildError> {
    let mut body = [0; 24];
    let mut len = 0;
    if let Some(target) = target {
        body[..16].copy_from_slice(&target.octets());
        len = 16;
    }
    if let Some((kind, mac)) = mac {
        body[len..len + 2].copy_from_slice(&[kind, 1]);
        body[len + 2..len + 8].copy_from_slice(&mac.0);
        len += 8;
    }
    let total = ip6::HEADER_LEN + icmp6::HEADER_LEN + len;
    let Some(out) = out.get_mut(..total) else { return Err(BuildError::NoRoom { needed: total }) };
    let mut ip = Ip6Builder::new(src, dst, IpProtocol::ICMPV6);
    ip.hop_limit = HOP_LIMIT;
    let at = ip.emit(out, icmp6::HEADER_LEN + len)?;
    icmp6::emit(&mut out[at..], (src, dst), [message, 0], rest, &body[..len])?;
    Ok(total)
}
