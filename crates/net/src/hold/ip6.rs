//! `ip6-hold`: Ip6 packets whose neighbour is not known yet.

use super::waiting::{Key, Refused, Waiting};
use crate::adjacency::AdjacencyState;
use crate::plane::Plane;
use crate::punt::Message;
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet};
use std::sync::Arc;

graph::edges! {
    /// Where released packets go (by the control side's mail).
    pub enum Ip6HoldNext {
        Rewrite => "ip6-rewrite",
        Error => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// What `ip6-hold` counts.
    pub enum Ip6HoldReason {
        /// As many packets wait for this neighbour as may.
        NeighborFull => "ip6-hold-neighbor-queue-full",
        /// As many packets wait for neighbours as may.
        Full => "ip6-hold-full",
        /// The adjacency does not exist any more.
        Gone => "ip6-hold-adjacency-gone",
        /// Held until the neighbour is known.
        Held => "ip6-held-for-neighbor" (info),
    }
}

/// The node.
pub struct Ip6Hold {
    plane: Arc<Plane>,
    waiting: Waiting,
}

impl Ip6Hold {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6Hold { plane: Arc::clone(plane), waiting: Waiting::default() }
    }

    /// The held packets, for the control side's mail.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

/// Snapshot of one vector.
pub struct Ip6HoldView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    per_neighbor: u32,
    waiting: &'v mut Waiting,
}

impl Node for Ip6Hold {
    const NAME: &'static str = "ip6-hold";
    type Next = Ip6HoldNext;
    type Drop = Ip6HoldReason;
    type View<'v> = Ip6HoldView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6HoldView<'v> {
        let per_neighbor = self.plane.config.load(guard).hold_per_neighbor;
        Ip6HoldView { plane: &self.plane, guard, per_neighbor, waiting: &mut self.waiting }
    }

    fn step(view: &mut Ip6HoldView<'_>, p: &mut Packet<'_>) -> Step<Ip6HoldNext, Ip6HoldReason> {
        let dst = p.head::<40>().map(|h| packet::ip6::Ip6Header(h).dst());
        // Link-local packets of the router's own carry their interface in `tx`.
        let found = view.plane.adjacencies.get(p.d.aux, view.guard);
        let (interface, address) = match (found.map(|a| (a.state, a.interface, a.next_hop)), dst) {
            (None, Some(dst)) if p.d.aux == u32::MAX => (p.d.tx, dst),
            (Some((AdjacencyState::Glean, interface, _)), Some(dst)) => (interface, dst),
            (Some((_, interface, std::net::IpAddr::V6(next_hop))), _) => (interface, next_hop),
            _ => return Err(Ip6HoldReason::Gone.into()),
        };
        let key = Key { interface, address: u128::from(address) };
        match view.waiting.hold(key, *p.d, p.env.now_ns, view.per_neighbor) {
            Ok(ask) => {
                if ask {
                    view.plane.punt.push(Message::Resolve { interface, address: address.into() });
                }
                p.count(Ip6HoldReason::Held);
                Err(Exit::Consumed)
            }
            Err(Refused::Neighbor) => Err(Ip6HoldReason::NeighborFull.into()),
            Err(Refused::Total) => Err(Ip6HoldReason::Full.into()),
        }
    }
}
