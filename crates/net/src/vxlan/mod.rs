//! VXLAN tunnels (RFC 7348) as interfaces that carry frames: over IPv4 and IPv6, to one other end or a multicast group, with a network
//! identifier.
//!
//! What leaves over one gets its headers in `adj-midchain-tx`; what comes is taken by [`VxlanInput`].

pub mod commands;
mod header;
mod input;
mod part;

pub use header::MAX_VNI;
pub(crate) use header::frame;
pub use input::{VxlanDrop, VxlanInput};
pub use part::{
    GroupInterface, MAX_INSTANCE, MTU, PORT, Vxlan, VxlanConfig, VxlanOp, VxlanTunnel, tunnel, tunnels,
};

use crate::arcs;
use crate::protocols::LocalProtocol;
use crate::tunnel::{Over4, Over6, TunnelPart};
use graph::Node;
use graph::arcs::Feature;
use packet::IpProtocol;

/// The part of the router.
pub(crate) static PART: TunnelPart<Vxlan> = TunnelPart::new();

/// Who takes its datagrams.
pub static PROTOCOL: LocalProtocol =
    LocalProtocol { number: IpProtocol::UDP, ip4: &IP4_VXLAN, ip6: &IP6_VXLAN };

static IP4_VXLAN: Feature = Feature::new(&arcs::IP4_PROTOCOL, VxlanInput::<Over4>::NAME);
static IP6_VXLAN: Feature = Feature::new(&arcs::IP6_PROTOCOL, VxlanInput::<Over6>::NAME);
