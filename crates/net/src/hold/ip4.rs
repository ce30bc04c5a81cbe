//! `ip4-hold`.

use super::Family;
use crate::adjacency::{Adjacency, AdjacencyState};
use graph::Packet;
use packet::ip4::Ip4Header;
use std::net::IpAddr;

graph::edges! {
    /// Where `ip4-hold` sends packets.
    pub enum Ip4HoldNext {
        Rewrite => "ip4-rewrite",
        Error => "ip4-icmp-error",
    }
}

/// IPv4.
pub struct V4;

impl Family for V4 {
    const NAME: &'static str = "ip4-hold";
    type Next = Ip4HoldNext;
    const REWRITE: Option<Ip4HoldNext> = Some(Ip4HoldNext::Rewrite);

    fn neighbor(p: &Packet<'_>, adjacency: Option<&Adjacency>) -> Option<(u32, IpAddr)> {
        let a = adjacency?;
        match a.state {
            AdjacencyState::Glean => Some((a.interface, Ip4Header(p.head()?).dst().into())),
            // IPv4 packets may go to an IPv6 neighbour (RFC 8950).
            _ => Some((a.interface, a.next_hop)),
        }
    }
}
