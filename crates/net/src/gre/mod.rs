//! GRE tunnels (RFC 2784, RFC 2890) as interfaces: over IPv4 and IPv6, with IPv4, IPv6 and labelled packets inside, or with frames.
//!
//! What leaves over one gets its headers in `adj-midchain-tx`; what comes is taken by [`GreInput`].

pub mod commands;
pub(crate) mod header;
mod input;
mod part;

pub use input::{GreDrop, GreInput};
pub use part::Gre;
pub use part::{GreConfig, GreOp, GreTunnel, MAX_INSTANCE, tunnel, tunnels};

use crate::arcs;
use crate::protocols::LocalProtocol;
use crate::tunnel::{Over4, Over6, TunnelPart};
use graph::Node;
use graph::arcs::Feature;
use packet::IpProtocol;

/// The part of the router.
pub(crate) static PART: TunnelPart<Gre> = TunnelPart::new();

/// The protocol, with who takes its packets.
pub static PROTOCOL: LocalProtocol = LocalProtocol { number: IpProtocol::GRE, ip4: &IP4_GRE, ip6: &IP6_GRE };

static IP4_GRE: Feature = Feature::new(&arcs::IP4_PROTOCOL, GreInput::<Over4>::NAME);
static IP6_GRE: Feature = Feature::new(&arcs::IP6_PROTOCOL, GreInput::<Over6>::NAME);
