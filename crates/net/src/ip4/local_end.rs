//! `ip4-local-end-of-arc`: packets for the router itself that have visited the features of `ip4-local`.

use super::local::{Ip4Local, Ip4LocalNext, Ip4LocalReason, Ip4LocalView, dispatch};
use crate::plane::Plane;
use graph::node::Step;
use graph::{Edge, Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::sync::Arc;

/// Where `ip4-local-end-of-arc` sends packets: where `ip4-local` does, but not to the arc on which they were.
#[derive(Clone, Copy, Debug)]
pub struct Ip4LocalEndNext(Ip4LocalNext);

impl Edge for Ip4LocalEndNext {
    // The last one is the arc.
    const TARGETS: &'static [&'static str] = match Ip4LocalNext::TARGETS.split_last() {
        Some((_, others)) => others,
        None => &[],
    };

    #[inline]
    fn index(self) -> usize {
        self.0.index()
    }
}

const _: () = assert!(Ip4LocalNext::Features as usize + 1 == Ip4LocalNext::TARGETS.len());

/// The node.
pub struct Ip4LocalEnd(Ip4Local);

impl Ip4LocalEnd {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4LocalEnd(Ip4Local::new(plane))
    }
}

impl Node for Ip4LocalEnd {
    const NAME: &'static str = "ip4-local-end-of-arc";
    type Next = Ip4LocalEndNext;
    type Drop = Ip4LocalReason;
    type View<'v> = Ip4LocalView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4LocalView<'v> {
        self.0.view(guard)
    }

    fn step(view: &mut Ip4LocalView<'_>, p: &mut Packet<'_>) -> Step<Ip4LocalEndNext, Ip4LocalReason> {
        let punted = view.punted(p.d.rx);
        dispatch(view, p, punted).map(Ip4LocalEndNext)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ip4Local::format_trace(r, f)
    }
}
