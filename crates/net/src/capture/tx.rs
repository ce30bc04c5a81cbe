//! `pcap-tx`: captures frames as they go out.

use super::{Active, Tap};
use crate::plane::Plane;
use graph::node::{Never, Step};
use graph::{Guard, Node, Packet};

graph::edges! {
    /// Where `pcap-tx` sends packets.
    pub enum CaptureTxNext { Continue => "@interface-output" }
}

/// The node.
pub struct CaptureTx(Tap);

impl CaptureTx {
    /// A node over `plane`.
    pub fn new(plane: &Plane) -> Self {
        CaptureTx(Tap::of(plane))
    }
}

impl Node for CaptureTx {
    const NAME: &'static str = "pcap-tx";
    type Next = CaptureTxNext;
    type Drop = Never;
    type View<'v> = Option<Active<'v>>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Option<Active<'v>> {
        self.0.active(guard)
    }

    fn step(capture: &mut Option<Active<'_>>, p: &mut Packet<'_>) -> Step<CaptureTxNext, Never> {
        if let Some(c) = capture {
            c.tx(&p.env.buffers, p.d, p.env.now_ns);
        }
        Ok(CaptureTxNext::Continue)
    }
}
