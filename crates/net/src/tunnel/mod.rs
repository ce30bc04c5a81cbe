//! What tunnels between two addresses, or to a multicast group, have in common, whatever stands between the IP header outside and what
//! is inside: each is an interface ([`crate::router::VirtualKind`]), what leaves over it gets its headers in `adj-midchain-tx`, and what
//! comes is told by its ends.

mod ecn;
mod input;
mod op;
mod part;

pub(crate) use ecn::hand_on;
pub(crate) use input::{Arrivals, Fault, Inside};
pub use input::{ArrivalsView, Common, Over, Over4, Over6};
pub use op::TunnelOp;
pub(crate) use op::{TunnelConfig, identity};
pub use part::{Tunnel, TunnelPart};
pub(crate) use part::{TunnelKind, send_over, tunnel, tunnels};

use packet::IpProtocol;
use packet::ip4::{self, Ip4Builder};
use packet::ip6::{self, Ip6Builder};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

fn bits(a: IpAddr) -> u128 {
    match a {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// What tells packets of a tunnel from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// To where they come: this end, or a group; IPv4 addresses as such.
    pub local: u128,
    /// The other end; 0: anybody.
    pub remote: u128,
    /// Whether both are IPv6.
    pub v6: bool,
    /// Place of the routing table in which both are addresses.
    pub table: u32,
    /// What tells tunnels between them apart: a key, a network identifier.
    pub id: Option<u64>,
}

impl Ends {
    /// In the table at a place.
    pub fn new(local: IpAddr, remote: IpAddr, table: u32, id: Option<u64>) -> Ends {
        Ends { local: bits(local), remote: bits(remote), v6: local.is_ipv6(), table, id }
    }

    /// All that come out of a tunnel: from its other end, or, where that is a group, from anybody to the group and to this end.
    fn all(outside: &Outside, table: u32, id: Option<u64>) -> Vec<Ends> {
        let Outside { local, remote, .. } = *outside;
        if !remote.is_multicast() {
            return vec![Ends::new(local, remote, table, id)];
        }
        let from_anybody = |to| Ends { remote: 0, ..Ends::new(to, remote, table, id) };
        vec![from_anybody(remote), from_anybody(local)]
    }

    /// In which part of the map they stand.
    #[inline]
    fn shard(&self) -> usize {
        let both = self.local.rotate_left(64) ^ self.remote;
        let all = both as u64 ^ (both >> 64) as u64 ^ self.id.unwrap_or(0).rotate_left(32);
        (all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % SHARDS
    }
}

/// A tunnel as the node sees it that takes its packets.
#[derive(Clone, Debug)]
pub(crate) struct Inbound {
    /// Its interface.
    pub interface: u32,
    /// This end.
    pub local: u128,
    /// Frames come out, and no packets.
    pub frames: bool,
    /// The sequence number that came last with a bit above it that says that there was one, where the order is kept.
    pub last: Option<Arc<AtomicU64>>,
}

/// What the operator tells tunnels of a kind apart by: two that have the same cannot both be, as packets would not tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    local: IpAddr,
    /// None for a group: from anybody in it packets come.
    remote: Option<IpAddr>,
    table: u32,
    id: Option<u64>,
}

/// Parts of the map of all tunnels: a change copies one of them.
const SHARDS: usize = 256;

/// All tunnels of a kind.
pub(crate) struct AllInbound<K> {
    shards: Box<[Arc<HashMap<Ends, Inbound>>]>,
    kind: PhantomData<fn() -> K>,
}

impl<K> AllInbound<K> {
    /// The tunnel of packets with these ends.
    #[inline]
    pub fn get(&self, ends: &Ends) -> Option<&Inbound> {
        self.exactly(ends).or_else(|| self.of_group(ends))
    }

    /// The tunnel with these ends and no other.
    #[inline]
    pub fn exactly(&self, ends: &Ends) -> Option<&Inbound> {
        self.shards.get(ends.shard())?.get(ends)
    }

    /// Packets with these ends come out of a tunnel from now on, or of none.
    pub fn set(&mut self, ends: Ends, tunnel: Option<Inbound>) {
        let Some(shard) = self.shards.get_mut(ends.shard()) else { return };
        let shard = Arc::make_mut(shard);
        match tunnel {
            Some(t) => shard.insert(ends, t),
            None => shard.remove(&ends),
        };
    }

    /// The tunnel of packets to a group, or of those who are in it. Who has a tunnel of its own sends through that to the group as
    /// well; what the router itself has sent comes from nobody.
    #[cold]
    fn of_group(&self, ends: &Ends) -> Option<&Inbound> {
        let t = self.exactly(&Ends { remote: 0, ..*ends }).filter(|t| t.local != ends.remote)?;
        Some(self.exactly(&Ends { local: t.local, ..*ends }).unwrap_or(t))
    }
}

impl<K> Clone for AllInbound<K> {
    fn clone(&self) -> Self {
        AllInbound { shards: self.shards.clone(), kind: PhantomData }
    }
}

impl<K> Default for AllInbound<K> {
    fn default() -> Self {
        AllInbound { shards: (0..SHARDS).map(|_| Arc::default()).collect(), kind: PhantomData }
    }
}

/// What the IP header outside says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// This end.
    pub local: IpAddr,
    /// The other end, or a multicast group.
    pub remote: IpAddr,
    /// Number of the routing table in which both are addresses.
    pub table: u32,
    /// TTL or hop limit, 1 to 255; `None`: that of the packet inside.
    pub ttl: Option<u8>,
    /// DSCP, 0 to 63; `None`: that of the packet inside.
    pub dscp: Option<u8>,
}

impl Outside {
    /// Between two addresses of table 0, with TTL 64 and DSCP 0.
    pub fn new(local: IpAddr, remote: IpAddr) -> Self {
        Outside { local, remote, table: 0, ttl: Some(64), dscp: Some(0) }
    }

    /// What tells a tunnel apart whose packets say `id`.
    pub(crate) fn identity(&self, id: Option<u64>) -> Identity {
        let Outside { local, remote, table, .. } = *self;
        Identity { local, remote: Some(remote).filter(|r| !r.is_multicast()), table, id }
    }

    /// Whether it can be, where the other end may be a multicast group (`groups`) or not.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, groups: bool) -> Result<(), String> {
        let (local, remote) = (self.local, self.remote);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(format!("{local} and {remote} are of two families"));
        }
        for a in [local, remote] {
            let link_local = matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
            let reserved = matches!(a, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
            let group = a.is_multicast() && !(groups && a == remote);
            if a.is_unspecified() || group || a.is_loopback() || link_local || reserved {
                return Err(format!("{a} cannot be an end of a tunnel: an address that is routed is needed"));
            }
        }
        if let IpAddr::V6(group) = remote
            && matches!(ip6::addr::multicast_scope(group.to_bits()), Some(0 | 1 | 15))
        {
            return Err(format!(
                "{group} is of a scope that is reserved, or does not reach beyond the interface"
            ));
        }
        if local == remote {
            return Err(format!("both ends are {local}"));
        }
        if self.ttl == Some(0) {
            return Err("a TTL is 1 to 255".into());
        }
        if self.dscp.is_some_and(|d| d > 63) {
            return Err("a DSCP is 0 to 63".into());
        }
        Ok(())
    }

    /// The headers in front of packets, with these behind that of IP.
    pub(crate) fn template(&self, protocol: IpProtocol, behind: &[u8]) -> Vec<u8> {
        let mut out = vec![0; ip6::HEADER_LEN];
        let len = match (self.local, self.remote) {
            (IpAddr::V4(l), IpAddr::V4(r)) => Ip4Builder::new(l, r, protocol).emit(&mut out, 0),
            (IpAddr::V6(l), IpAddr::V6(r)) => Ip6Builder::new(l, r, protocol).emit(&mut out, 0),
            _ => Ok(0),
        };
        out.truncate(len.unwrap_or(0));
        if self.local.is_ipv4() {
            // Worked out with each packet.
            out[ip4::HEADER_LEN - 10..][..2].fill(0);
        }
        out.extend_from_slice(behind);
        out
    }
}
