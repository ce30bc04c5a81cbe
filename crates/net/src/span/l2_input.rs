//! `span-l2-input`: copies of the frames that bridge domains and cross-connects have from interfaces.

use super::{Copier, L2Copies, Mirrors, SpanReason};
use crate::interface::{IfIndex, MIRRORED};
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `span-l2-input` sends frames.
    pub enum SpanL2InputNext {
        Continue => "@l2-input",
        Copy => "interface-output",
    }
}

/// The node.
pub struct SpanL2Input {
    plane: Arc<Plane>,
    mirrors: Arc<Published<Mirrors>>,
}

impl SpanL2Input {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        SpanL2Input { plane: Arc::clone(plane), mirrors: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct SpanL2InputView<'v> {
    mirrors: &'v Mirrors,
    ifs: IfCache<'v>,
    copier: Copier<'v>,
    rx: IfIndex,
    copies: L2Copies<'v>,
}

impl SpanL2InputView<'_> {
    fn look(&mut self, rx: IfIndex) {
        self.rx = rx;
        let hw = self.ifs.get(rx).map_or(rx, |i| i.hw);
        self.copies = L2Copies {
            to: super::of(&self.mirrors.rx_l2, rx),
            all: super::of(&self.mirrors.rx, hw),
            own: super::of(&self.mirrors.rx_own, rx),
        };
    }
}

impl Node for SpanL2Input {
    const NAME: &'static str = "span-l2-input";
    type Next = SpanL2InputNext;
    type Drop = SpanReason;
    type View<'v> = SpanL2InputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> SpanL2InputView<'v> {
        let ifs = || IfCache::new(&self.plane, guard);
        SpanL2InputView {
            mirrors: self.mirrors.load(guard),
            ifs: ifs(),
            copier: Copier::new(ifs()),
            rx: IfIndex::MAX,
            copies: L2Copies::default(),
        }
    }

    #[inline]
    fn step(view: &mut SpanL2InputView<'_>, p: &mut Packet<'_>) -> Step<SpanL2InputNext, SpanReason> {
        if p.d.rx != view.rx {
            view.look(p.d.rx);
        }
        if !p.has(MIRRORED) && super::is_frame(p) {
            view.copies.make(&mut view.copier, p, SpanL2InputNext::Copy);
        }
        Ok(SpanL2InputNext::Continue)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
