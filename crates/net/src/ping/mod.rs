//! `ping`: echo requests of the router's own.

use crate::neighbor::Millis;
use crate::punt::PuntKind;
use crate::router::{Handed, IfState, Part, RouteTable, Router, Start};
use graph::flags;
use packet::checksum;
use packet::ip4::{Ip4Builder, Ip4View};
use packet::ip6::{Ip6Builder, Ip6View};
use packet::proto::IpProtocol;
use std::any::Any;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

const KEPT: usize = 1024;

/// What to send.
#[derive(Clone, Debug)]
pub struct PingRequest {
    /// Destination.
    pub to: IpAddr,
    /// Source address; by default that of the interface it leaves by.
    pub source: Option<IpAddr>,
    /// Number of the table in which the destination is looked up; that of the interface where one is given.
    pub table: u32,
    /// Interface, for link-local destinations.
    pub interface: Option<u32>,
    /// Identifier: answers are told apart by it.
    pub id: u16,
    /// Sequence number.
    pub seq: u16,
    /// Payload bytes, at most 8900.
    pub size: usize,
    /// TTL or hop limit; that of the router's other packets by default.
    pub ttl: Option<u8>,
    /// Send a UDP datagram from port `id` to this port in the place of an echo request. Answers then have the port as
    /// their sequence number.
    pub port: Option<u16>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// Who answered.
    pub from: IpAddr,
    /// Identifier of the request.
    pub id: u16,
    /// Sequence number of the request.
    pub seq: u16,
    /// Bytes of the ICMP message.
    pub bytes: usize,
    /// TTL or hop limit of the answer.
    pub ttl: u8,
    /// ICMP type and code; an echo reply, or an error about the request.
    pub kind: (u8, u8),
    /// When it came.
    pub at: Instant,
}

impl PingReply {
    /// True for an echo reply, false for an error.
    pub fn is_reply(&self) -> bool {
        matches!((self.from, self.kind.0), (IpAddr::V4(_), 0) | (IpAddr::V6(_), 129))
    }
}

/// Answers that nobody has taken yet; bounded.
#[derive(Default)]
struct Pings {
    replies: VecDeque<PingReply>,
    wanted: Vec<u16>,
}

impl Pings {
    /// An ICMP message to the router, from its IP header.
    fn heard(&mut self, bytes: &[u8]) {
        let Some(reply) = read(bytes) else { return };
        if !self.wanted.contains(&reply.id) {
            return;
        }
        if self.replies.len() == KEPT {
            self.replies.pop_front();
        }
        self.replies.push_back(reply);
    }
}

fn word(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
}

/// Identifier and sequence number of the request that an error quotes; `echo` is the ICMP type of a request.
fn asked(protocol: IpProtocol, quoted: &[u8], echo: u8) -> Option<(u16, u16)> {
    match protocol {
        IpProtocol::UDP => Some((word(quoted, 0)?, word(quoted, 2)?)),
        IpProtocol::ICMP | IpProtocol::ICMPV6 if *quoted.first()? == echo => {
            Some((word(quoted, 4)?, word(quoted, 6)?))
        }
        _ => None,
    }
}

/// The payload of the IP packet of a request, its checksum complete, and its protocol.
fn payload(r: &PingRequest, source: IpAddr) -> Option<(Vec<u8>, IpProtocol)> {
    let mut bytes = vec![0u8; 8 + r.size];
    for (i, b) in bytes.iter_mut().enumerate().skip(8) {
        *b = i as u8;
    }
    let protocol = match (r.port, r.to) {
        (Some(_), _) => IpProtocol::UDP,
        (None, IpAddr::V4(_)) => IpProtocol::ICMP,
        (None, IpAddr::V6(_)) => IpProtocol::ICMPV6,
    };
    let words: [u16; 4] = match r.port {
        Some(port) => [r.id, port, bytes.len() as u16, 0],
        None if r.to.is_ipv4() => [8 << 8, 0, r.id, r.seq],
        None => [128 << 8, 0, r.id, r.seq],
    };
    for (to, word) in bytes.chunks_exact_mut(2).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    let length = bytes.len() as u32;
    let mut sum = match (source, r.to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) if r.port.is_some() => {
            checksum::pseudo4(src, dst, protocol, length as u16)
        }
        (IpAddr::V4(_), IpAddr::V4(_)) => checksum::Sum::default(),
        (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::pseudo6(src, dst, protocol, length),
        _ => return None,
    };
    sum.add_bytes(&bytes);
    // A UDP checksum of 0 would say that there is none.
    let sum = if r.port.is_some() { sum.checksum_nonzero() } else { sum.checksum() };
    let place = if r.port.is_some() { 6..8 } else { 2..4 };
    bytes.get_mut(place)?.copy_from_slice(&sum.to_be_bytes());
    Some((bytes, protocol))
}

fn read(bytes: &[u8]) -> Option<PingReply> {
    let at = Instant::now();
    match bytes.first()? >> 4 {
        4 => {
            let v = Ip4View::parse_quoted(bytes).ok()?;
            let icmp = v.payload();
            let kind = (*icmp.first()?, *icmp.get(1)?);
            let (from, ttl, bytes) = (v.src().into(), v.ttl(), bytes.len().saturating_sub(v.header().len()));
            if kind.0 == 0 {
                return Some(PingReply {
                    from,
                    id: word(icmp, 4)?,
                    seq: word(icmp, 6)?,
                    bytes,
                    ttl,
                    kind,
                    at,
                });
            }
            let inner = Ip4View::parse_quoted(icmp.get(8..)?).ok()?;
            let (id, seq) = asked(inner.protocol(), inner.payload(), 8)?;
            Some(PingReply { from, id, seq, bytes, ttl, kind, at })
        }
        6 => {
            let v = Ip6View::parse_quoted(bytes).ok()?;
            let upper = v.upper_layer().ok()?;
            let icmp = bytes.get(upper.offset..)?;
            let kind = (*icmp.first()?, *icmp.get(1)?);
            let (from, ttl, bytes) =
                (v.src().into(), v.hop_limit(), bytes.len().saturating_sub(upper.offset));
            if kind.0 == 129 {
                return Some(PingReply {
                    from,
                    id: word(icmp, 4)?,
                    seq: word(icmp, 6)?,
                    bytes,
                    ttl,
                    kind,
                    at,
                });
            }
            let quote = icmp.get(8..)?;
            let inner = Ip6View::parse_quoted(quote).ok()?;
            let upper = inner.upper_layer().ok()?;
            let (id, seq) = asked(upper.protocol, quote.get(upper.offset..)?, 128)?;
            Some(PingReply { from, id, seq, bytes, ttl, kind, at })
        }
        _ => None,
    }
}

/// The part of the control side that keeps answers.
pub(crate) struct Ping;

impl Part for Ping {
    fn state(&self, _: &mut Start) -> Box<dyn Any + Send> {
        Box::new(Pings::default())
    }

    fn hears(&self, kind: PuntKind) -> bool {
        kind == PuntKind::Icmp
    }

    fn heard(&self, router: &mut Router, _now: Millis, packet: Handed<'_>) {
        if let Some(pings) = router.state_mut::<Pings>() {
            pings.heard(packet.bytes);
        }
    }
}

/// Answers to requests with this identifier are kept from now on.
pub fn open(router: &mut Router, id: u16) {
    if let Some(pings) = router.state_mut::<Pings>()
        && pings.wanted.len() < 256
        && !pings.wanted.contains(&id)
    {
        pings.wanted.push(id);
    }
}

/// Forgets answers with this identifier.
pub fn close(router: &mut Router, id: u16) {
    if let Some(pings) = router.state_mut::<Pings>() {
        pings.wanted.retain(|w| *w != id);
        pings.replies.retain(|r| r.id != id);
    }
}

/// Takes the answers with this identifier.
pub fn replies(router: &mut Router, id: u16) -> Vec<PingReply> {
    let Some(pings) = router.state_mut::<Pings>() else { return vec![] };
    let (taken, kept) = pings.replies.drain(..).partition(|r| r.id == id);
    pings.replies = kept;
    taken.into_iter().collect::<Vec<PingReply>>()
}

/// The interfaces in a table.
fn in_table(router: &Router, table: RouteTable) -> impl Iterator<Item = u32> + '_ {
    let inside = move |i: &&IfState| router.table_of_interface(i, table.v6) == table.id;
    router.interfaces().filter(inside).map(|i| i.index)
}

/// The address from which the router speaks to `to`.
pub fn source_for(router: &Router, table: u32, to: IpAddr, interface: Option<u32>) -> Option<IpAddr> {
    let interface = interface.or_else(|| {
        let g = router.lookup_in(table, to)?;
        let p = g.paths.first()?;
        match p.entry.kind {
            crate::plane::kind::REWRITE | crate::plane::kind::LABEL | crate::plane::kind::GLEAN => {
                router.adjacency(p.entry.adj).map(|a| a.interface)
            }
            crate::plane::kind::LOCAL => Some(p.entry.adj),
            _ => None,
        }
    });
    let of = |i: u32| router.seen(i);
    let pick = |i: &crate::interface::Interface| match to {
        IpAddr::V4(t) => i.source4(t.into()).map(|a| IpAddr::V4(Ipv4Addr::from(a))),
        IpAddr::V6(t) => i.source6(t.into()).map(|a| IpAddr::V6(Ipv6Addr::from(a))),
    };
    let first = interface.and_then(of).and_then(pick);
    // Another address of the same table: the answer finds back.
    let mut own = in_table(router, RouteTable::of(to, table));
    first.or_else(|| own.find_map(|i| of(i).and_then(pick)))
}

/// Sends an echo request or a UDP datagram. The error says why it cannot be sent.
pub fn send(router: &Router, r: &PingRequest) -> Result<(), String> {
    let source = r.source.or_else(|| source_for(router, r.table, r.to, r.interface));
    let Some(source) = source else {
        return Err(format!("no interface has an address to reach {} from", r.to));
    };
    let Some((payload, protocol)) = payload(r, source) else {
        return Err(format!("source {source} and destination {} are of different families", r.to));
    };
    let ttl = r.ttl.unwrap_or(router.config().plane.ttl);
    let mut bytes = vec![0u8; 60];
    let (length, node) = match (source, r.to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = Ip4Builder { ttl, ..Ip4Builder::new(src, dst, protocol) };
            (header.emit(&mut bytes, payload.len()), "ip4-lookup")
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = Ip6Builder { hop_limit: ttl, ..Ip6Builder::new(src, dst, protocol) };
            (header.emit(&mut bytes, payload.len()), "ip6-lookup")
        }
        _ => return Ok(()),
    };
    bytes.truncate(length.map_err(|e| e.to_string())?);
    bytes.extend_from_slice(&payload);
    // Packets are looked up in the table of the interface on which they seem to come.
    // Only where the destination says nothing of its link does the interface say where they leave: to all others a
    // gateway may lead, from a link-local address as well.
    let on_link = matches!(r.to, IpAddr::V6(a) if a.is_unicast_link_local() || a.is_multicast());
    let tx = r.interface.filter(|_| on_link).unwrap_or(u32::MAX);
    let rx = r.interface.or_else(|| in_table(router, RouteTable::of(r.to, r.table)).next());
    let Some(rx) = rx else { return Err(format!("no interface is in table {}", r.table)) };
    router.workers().on(0, move |w| {
        w.inject(node, &bytes, |d| {
            d.flags |= flags::LOCAL;
            (d.tx, d.rx) = (tx, rx);
        });
    });
    Ok(())
}
