//! GRE tunnels (RFC 2784, RFC 2890) as interfaces: over IPv4 and IPv6, with IPv4, IPv6 and labelled packets inside, or with frames.
//!
//! What leaves over one gets its headers in `adj-midchain-tx`; what comes is taken by [`GreInput`].

pub mod commands;
pub(crate) mod header;
mod input;
mod part;

pub use input::{GreDrop, GreInput, Over4, Over6};
pub(crate) use part::Gre;
pub use part::{GreConfig, GreOp, GreTunnel, MAX_INSTANCE, tunnel, tunnels};

use crate::arcs;
use crate::protocols::LocalProtocol;
use graph::Node;
use graph::arcs::Feature;
use packet::IpProtocol;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The protocol, with who takes its packets.
pub static PROTOCOL: LocalProtocol = LocalProtocol { number: IpProtocol::GRE, ip4: &IP4_GRE, ip6: &IP6_GRE };

static IP4_GRE: Feature = Feature::new(&arcs::IP4_LOCAL, GreInput::<Over4>::NAME);
static IP6_GRE: Feature = Feature::new(&arcs::IP6_LOCAL, GreInput::<Over6>::NAME);

/// What tells the packets of a tunnel from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    /// This end; IPv4 addresses as such.
    local: u128,
    /// The other one.
    remote: u128,
    v6: bool,
    /// Place of the routing table in which both are addresses.
    table: u32,
    key: Option<u32>,
}

impl Ends {
    fn new(local: IpAddr, remote: IpAddr, table: u32, key: Option<u32>) -> Ends {
        let bits = |a: IpAddr| match a {
            IpAddr::V4(a) => a.to_bits().into(),
            IpAddr::V6(a) => a.to_bits(),
        };
        Ends { local: bits(local), remote: bits(remote), v6: local.is_ipv6(), table, key }
    }
}

/// A tunnel as `gre-input` sees it.
#[derive(Clone, Debug)]
pub(crate) struct Inbound {
    interface: u32,
    /// Frames come out, and no packets.
    frames: bool,
    /// The sequence number that came last with a bit above it that says that there was one, where the order is kept (RFC 2890
    /// section 2.2).
    last: Option<Arc<AtomicU64>>,
}

/// All tunnels.
pub(crate) type AllInbound = HashMap<Ends, Inbound>;
