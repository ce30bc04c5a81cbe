//! `ip4-hold`: Ip4 packets whose neighbour is not known yet.

use super::waiting::{Key, Refused, Waiting};
use crate::adjacency::AdjacencyState;
use crate::plane::Plane;
use crate::punt::Message;
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet};
use std::sync::Arc;

graph::edges! {
    /// Where released packets go (by the control side's mail).
    pub enum Ip4HoldNext {
        Rewrite => "ip4-rewrite",
        Error => "ip4-icmp-error",
    }
}

graph::reasons! {
    /// What `ip4-hold` counts.
    pub enum Ip4HoldReason {
        /// As many packets wait for this neighbour as may.
        NeighborFull => "ip4-hold-neighbor-queue-full",
        /// As many packets wait for neighbours as may.
        Full => "ip4-hold-full",
        /// The adjacency does not exist any more.
        Gone => "ip4-hold-adjacency-gone",
        /// Held until the neighbour is known.
        Held => "ip4-held-for-neighbor" (info),
    }
}

/// The node.
pub struct Ip4Hold {
    plane: Arc<Plane>,
    waiting: Waiting,
}

impl Ip4Hold {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Hold { plane: Arc::clone(plane), waiting: Waiting::default() }
    }

    /// The held packets, for the control side's mail.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

/// Snapshot of one vector.
pub struct Ip4HoldView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    per_neighbor: u32,
    waiting: &'v mut Waiting,
}

impl Node for Ip4Hold {
    const NAME: &'static str = "ip4-hold";
    type Next = Ip4HoldNext;
    type Drop = Ip4HoldReason;
    type View<'v> = Ip4HoldView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4HoldView<'v> {
        let per_neighbor = self.plane.config.load(guard).hold_per_neighbor;
        Ip4HoldView { plane: &self.plane, guard, per_neighbor, waiting: &mut self.waiting }
    }

    fn step(view: &mut Ip4HoldView<'_>, p: &mut Packet<'_>) -> Step<Ip4HoldNext, Ip4HoldReason> {
        let Some(a) = view.plane.adjacencies.get(p.d.aux, view.guard) else {
            return Err(Ip4HoldReason::Gone.into());
        };
        let interface = a.interface;
        let address = match (a.state, a.next_hop, p.head::<20>()) {
            (AdjacencyState::Glean, _, Some(h)) => packet::ip4::Ip4Header(h).dst(),
            (_, std::net::IpAddr::V4(next_hop), _) => next_hop,
            _ => return Err(Ip4HoldReason::Gone.into()),
        };
        let key = Key { interface, address: u128::from(u32::from(address)) };
        match view.waiting.hold(key, *p.d, p.env.now_ns, view.per_neighbor) {
            Ok(ask) => {
                if ask {
                    view.plane.punt.push(Message::Resolve { interface, address: address.into() });
                }
                p.count(Ip4HoldReason::Held);
                Err(Exit::Consumed)
            }
            Err(Refused::Neighbor) => Err(Ip4HoldReason::NeighborFull.into()),
            Err(Refused::Total) => Err(Ip4HoldReason::Full.into()),
        }
    }
}
