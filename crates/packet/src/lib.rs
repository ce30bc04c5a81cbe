//! Packet headers as checked zero-copy views and builders, checksums, flow hash and segmentation maths, and the
//! instructions that vector code may use.
//!
//! A parser looks at every field it needs once, in dependency order (a header length before a checksum over it), and
//! returns a view over fixed-size arrays: its accessors neither check again nor panic. Every parser takes any bytes.
//! Multi-byte numbers are given and taken in host order. Nothing here allocates, except
//! [`compose`].
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
pub mod compose;
pub mod cpu;
pub mod eth;
pub mod flow;
pub mod frag;
pub mod gso;
pub mod icmp4;
pub mod icmp6;
pub mod icmp_ext;
pub mod ip4;
pub mod ip6;
pub mod mpls;
pub mod nd;
pub mod proto;
pub mod tcp;
pub mod udp;
pub mod vlan;

mod bytes;

pub use cpu::{CpuChoice, CpuLevel};
pub use eth::{EtherType, MacAddr};
pub use proto::IpProtocol;

use std::fmt;
use std::net::IpAddr;

/// The Ethernet address of a multicast group (RFC 1112, 6.4; RFC 2464, 7).
pub const fn multicast_mac(group: IpAddr) -> MacAddr {
    match group {
        IpAddr::V4(a) => ip4::addr::multicast_mac(a.to_bits()),
        IpAddr::V6(a) => ip6::addr::multicast_mac(a),
    }
}

/// Why a builder wrote nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// The output slice is shorter than the `needed` bytes.
    NoRoom {
        /// Bytes the output needs.
        needed: usize,
    },
    /// A length does not fit its header field.
    TooLong,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoRoom { needed } => write!(f, "the output has no room for {needed} bytes"),
            BuildError::TooLong => f.write_str("a length does not fit its header field"),
        }
    }
}

impl std::error::Error for BuildError {}
