//! `ip6-hold`.

use super::Family;
use crate::adjacency::{Adjacency, AdjacencyState};
use graph::Packet;
use packet::ip6::Ip6Header;
use std::net::IpAddr;

graph::edges! {
    /// Where `ip6-hold` sends packets.
    pub enum Ip6HoldNext {
        Rewrite => "ip6-rewrite",
        Error => "ip6-icmp-error",
    }
}

/// IPv6.
pub struct V6;

impl Family for V6 {
    const NAME: &'static str = "ip6-hold";
    type Next = Ip6HoldNext;
    const REWRITE: Option<Ip6HoldNext> = Some(Ip6HoldNext::Rewrite);

    fn neighbor(p: &Packet<'_>, adjacency: Option<&Adjacency>) -> Option<(u32, IpAddr)> {
        let Some(a) = adjacency else {
            // Link-local packets of the router's own have no adjacency: `tx` is their interface.
            let link_local = p.d.aux == u32::MAX;
            return if link_local { Some((p.d.tx, Ip6Header(p.head()?).dst().into())) } else { None };
        };
        match a.state {
            AdjacencyState::Glean => Some((a.interface, Ip6Header(p.head()?).dst().into())),
            _ => a.next_hop.is_ipv6().then_some((a.interface, a.next_hop)),
        }
    }
}
