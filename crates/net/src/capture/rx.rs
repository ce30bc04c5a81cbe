//! `pcap-rx`: captures frames as they come in.

use super::{Active, Tap};
use crate::plane::Plane;
use graph::node::{Never, Step};
use graph::{Guard, Node, Packet};

graph::edges! {
    /// Where `pcap-rx` sends packets.
    pub enum CaptureRxNext { Continue => "@device-input" }
}

/// The node.
pub struct CaptureRx(Tap);

impl CaptureRx {
    /// A node over `plane`.
    pub fn new(plane: &Plane) -> Self {
        CaptureRx(Tap::of(plane))
    }
}

impl Node for CaptureRx {
    const NAME: &'static str = "pcap-rx";
    type Next = CaptureRxNext;
    type Drop = Never;
    type View<'v> = Option<Active<'v>>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Option<Active<'v>> {
        self.0.active(guard)
    }

    fn step(capture: &mut Option<Active<'_>>, p: &mut Packet<'_>) -> Step<CaptureRxNext, Never> {
        if let Some(c) = capture {
            c.rx(&p.env.buffers, p.d, p.env.now_ns);
        }
        Ok(CaptureRxNext::Continue)
    }
}
