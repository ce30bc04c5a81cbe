//! `mpls-hold`: packets that have their labels already.

use super::Family;
use crate::adjacency::Adjacency;
use graph::Packet;
use std::net::IpAddr;

graph::edges! {
    /// Where `mpls-hold` sends packets.
    pub enum MplsHoldNext {
        Output => "mpls-output",
        Error => "mpls-icmp-error",
    }
}

/// Packets on their way to a label switching router.
pub struct Mpls;

impl Family for Mpls {
    const NAME: &'static str = "mpls-hold";
    type Next = MplsHoldNext;
    const REWRITE: Option<MplsHoldNext> = None;

    fn neighbor(_: &Packet<'_>, adjacency: Option<&Adjacency>) -> Option<(u32, IpAddr)> {
        adjacency.map(|a| (a.interface, a.next_hop))
    }
}
