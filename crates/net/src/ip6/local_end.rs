//! `ip6-local-end-of-arc`: packets for the router itself that have visited the features of `ip6-local`.

use super::local::{Ip6Local, Ip6LocalNext, Ip6LocalReason, Ip6LocalView, dispatch};
use crate::plane::Plane;
use graph::node::Step;
use graph::{Edge, Guard, Node, Packet, TraceRecord};
use std::fmt;
use std::sync::Arc;

/// Where `ip6-local-end-of-arc` sends packets: where `ip6-local` does, but not to the arc on which they were.
#[derive(Clone, Copy, Debug)]
pub struct Ip6LocalEndNext(Ip6LocalNext);

impl Edge for Ip6LocalEndNext {
    // The last one is the arc.
    const TARGETS: &'static [&'static str] = match Ip6LocalNext::TARGETS.split_last() {
        Some((_, others)) => others,
        None => &[],
    };

    #[inline]
    fn index(self) -> usize {
        self.0.index()
    }
}

const _: () = assert!(Ip6LocalNext::Features as usize + 1 == Ip6LocalNext::TARGETS.len());

/// The node.
pub struct Ip6LocalEnd(Ip6Local);

impl Ip6LocalEnd {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6LocalEnd(Ip6Local::new(plane))
    }
}

impl Node for Ip6LocalEnd {
    const NAME: &'static str = "ip6-local-end-of-arc";
    type Next = Ip6LocalEndNext;
    type Drop = Ip6LocalReason;
    type View<'v> = Ip6LocalView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6LocalView<'v> {
        self.0.view(guard)
    }

    fn step(view: &mut Ip6LocalView<'_>, p: &mut Packet<'_>) -> Step<Ip6LocalEndNext, Ip6LocalReason> {
        let punted = view.punted(p.d.rx);
        dispatch(view, p, punted).map(Ip6LocalEndNext)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ip6Local::format_trace(r, f)
    }
}
