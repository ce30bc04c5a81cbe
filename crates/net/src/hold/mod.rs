//! Packets whose neighbour is not known yet: held on the worker until the control side has resolved it, then sent.

mod ip4;
mod ip6;
mod known;
mod mpls;
mod waiting;

pub use ip4::V4;
pub use ip6::V6;
pub use known::Known;
pub use mpls::Mpls;
pub use waiting::{Bounds, Key, Refused, Waiting};

use crate::adjacency::{Adjacency, AdjacencyState};
use crate::plane::Plane;
use crate::punt::Request;
use graph::node::Step;
use graph::{Edge, Exit, Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

/// `ip4-hold`.
pub type Ip4Hold = Hold<V4>;
/// `ip6-hold`.
pub type Ip6Hold = Hold<V6>;
/// `mpls-hold`.
pub type MplsHold = Hold<Mpls>;

graph::reasons! {
    /// What the hold nodes count.
    pub enum HoldReason {
        /// As many packets wait for this neighbour as may.
        NeighborFull => "hold-neighbor-queue-full",
        /// As many packets wait for neighbours on this interface as may.
        InterfaceFull => "hold-interface-queue-full",
        /// As many packets wait for neighbours as may.
        Full => "hold-full",
        /// The adjacency does not exist any more.
        Gone => "hold-adjacency-gone",
        /// Held until the neighbour is known.
        Held => "held-for-neighbor" (info),
    }
}

/// What differs between IPv4, IPv6 and MPLS.
pub trait Family: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// Where released packets go (by the control side's mail).
    type Next: Edge;
    /// Where a packet goes whose neighbour is known although its route does not lead to it.
    const REWRITE: Option<Self::Next>;
    /// The neighbour that a packet needs: interface and address.
    fn neighbor(p: &Packet<'_>, adjacency: Option<&Adjacency>) -> Option<(u32, IpAddr)>;
}

/// The node of a family.
pub struct Hold<F> {
    plane: Arc<Plane>,
    known: Arc<Known>,
    waiting: Waiting,
    family: PhantomData<F>,
}

impl<F: Family> Hold<F> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Hold {
            plane: Arc::clone(plane),
            known: plane.shared(),
            waiting: Waiting::default(),
            family: PhantomData,
        }
    }

    /// The held packets, for the control side's mail.
    pub fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

/// Snapshot of one vector.
pub struct HoldView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    known: &'v Known,
    most: Bounds,
    waiting: &'v mut Waiting,
}

impl<F: Family> Node for Hold<F> {
    const NAME: &'static str = F::NAME;
    type Next = F::Next;
    type Drop = HoldReason;
    type View<'v> = HoldView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> HoldView<'v> {
        let config = self.plane.config.load(guard);
        let most = Bounds { neighbor: config.hold_per_neighbor, interface: config.hold_per_interface };
        HoldView { plane: &self.plane, guard, known: &self.known, most, waiting: &mut self.waiting }
    }

    #[inline]
    fn step(view: &mut HoldView<'_>, p: &mut Packet<'_>) -> Step<F::Next, HoldReason> {
        let adjacency = view.plane.adjacencies.get(p.d.aux, view.guard);
        let Some((interface, address)) = F::neighbor(p, adjacency) else {
            return Err(HoldReason::Gone.into());
        };
        if let Some(rewrite) = F::REWRITE
            && adjacency.is_none_or(|a| a.state == AdjacencyState::Glean)
            && let Some(known) = view.known.find(interface, address, view.guard)
        {
            p.d.aux = known;
            return Ok(rewrite);
        }
        let key = Key::new(interface, address);
        match view.waiting.hold(key, p.d, p.env.now_ns, view.most) {
            Ok(ask) => {
                if ask {
                    view.plane.punt.request(Request::Resolve { interface, address });
                }
                p.count(HoldReason::Held);
                Err(Exit::Consumed)
            }
            Err(Refused::Neighbor) => Err(HoldReason::NeighborFull.into()),
            Err(Refused::Interface) => Err(HoldReason::InterfaceFull.into()),
            Err(Refused::Total) => Err(HoldReason::Full.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};

    fn packet(last: u8) -> Vec<u8> {
        let mut p = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 2, 10, 0, 2, last];
        p.resize(28, 0);
        p
    }

    #[test]
    fn the_first_packets_wait_and_the_neighbour_is_asked_for_once() {
        let mut r = Rig::new(Ip4Hold::new);
        r.configure(|c| c.hold_per_neighbor = 3);
        let adj = r.adjacency_with(1500, AdjacencyState::Glean);
        let inputs: Vec<Input> = [7, 7, 8, 7, 7].iter().map(|n| Input::new(&packet(*n)).aux(adj)).collect();
        let out = r.run_holding(&inputs, 4);
        assert!(out.iter().all(|a| a.node == "error-drop" && a.reason == "hold-neighbor-queue-full"));
        assert_eq!(out.len(), 1);
        assert_eq!(r.count("held-for-neighbor"), 4);
        let asked: Vec<IpAddr> = r.resolves().into_iter().map(|(_, a)| a).collect();
        assert_eq!(asked, ["10.0.2.7".parse::<IpAddr>().unwrap(), "10.0.2.8".parse().unwrap()]);
    }

    #[test]
    fn a_packet_to_a_known_neighbour_goes_on() {
        let mut r = Rig::new(Ip4Hold::new);
        let (glean, adj) =
            (r.adjacency_with(1500, AdjacencyState::Glean), r.adjacency_with(1500, AdjacencyState::Complete));
        r.know(2, "10.0.2.7".parse().unwrap(), adj);
        let out = r.run_holding(&[Input::new(&packet(7)).aux(glean), Input::new(&packet(8)).aux(glean)], 1);
        assert_eq!(out.iter().map(|a| (a.node, a.d.aux)).collect::<Vec<_>>(), [("ip4-rewrite", adj)]);
        assert_eq!(r.resolves().len(), 1, "the other one is asked for");
    }

    #[test]
    fn a_packet_without_adjacency_is_dropped() {
        let mut r = Rig::new(Ip4Hold::new);
        assert_eq!(r.drops(Input::new(&packet(7)).aux(999)), "hold-adjacency-gone");
        let mut r = Rig::new(Ip6Hold::new);
        assert_eq!(r.drops(Input::new(&packet(7)).aux(999)), "hold-adjacency-gone");
    }
}
