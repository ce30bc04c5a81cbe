//! Adjacencies: how to reach one neighbour, or one link.

use crate::labels::Imposition;
use std::net::IpAddr;

/// Room for an Ethernet header with two tags, or for an untagged one with two labels.
pub const MAX_REWRITE: usize = 22;

/// What becomes of packets sent over an adjacency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjacencyState {
    /// The neighbour's link-layer address is not known: packets are held.
    Incomplete,
    /// The rewrite is complete.
    Complete,
    /// Stands for a whole link: the destination itself is the neighbour.
    Glean,
}

/// One adjacency, never changed in place; one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Adjacency {
    /// The interface (or sub-interface) to send on.
    pub interface: u32,
    /// What a short cut asks first: the rewrite is complete with an untagged header, and the interface is a device's
    /// own, up, with link and without features, so that `interface-output` would have nothing to do.
    pub direct: bool,
    /// Enabled features of the interface on the arc `ip4-output` or `ip6-output`.
    pub features: u32,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Whether `rewrite` can be used.
    pub state: AdjacencyState,
    /// Valid bytes of `rewrite`; 0 unless complete.
    pub len: u8,
    /// Labels that stand behind the header in `rewrite`, the same for each IP packet; 0 unless it is `direct`.
    pub pushes: u8,
    /// The link-layer header to put in front.
    pub rewrite: [u8; MAX_REWRITE],
    /// The neighbour; unspecified for a glean adjacency.
    pub next_hop: IpAddr,
    /// For labelled packets, with the labels that they get.
    pub mpls: Option<Box<Imposition>>,
}

const _: () = assert!(size_of::<Adjacency>() == 64, "one cache line");

impl Adjacency {
    /// The largest IP packet that fits with its labels, bytes.
    pub fn ip_mtu(&self) -> u16 {
        self.mtu.saturating_sub(self.mpls.as_ref().map_or(0, |m| m.bytes() as u16))
    }
}
