//! `span-l2-output`: copies of the frames that bridge domains and cross-connects send.

use super::{Copier, L2Copies, Mirrors, SpanReason};
use crate::interface::{IfIndex, MIRRORED, ifflags};
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `span-l2-output` sends frames.
    pub enum SpanL2OutputNext {
        Continue => "@l2-output",
        Copy => "interface-output",
    }
}

/// The node.
pub struct SpanL2Output {
    plane: Arc<Plane>,
    mirrors: Arc<Published<Mirrors>>,
}

impl SpanL2Output {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        SpanL2Output { plane: Arc::clone(plane), mirrors: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct SpanL2OutputView<'v> {
    mirrors: &'v Mirrors,
    ifs: IfCache<'v>,
    copier: Copier<'v>,
    tx: IfIndex,
    copies: L2Copies<'v>,
}

impl SpanL2OutputView<'_> {
    fn look(&mut self, tx: IfIndex) {
        (self.tx, self.copies) = (tx, L2Copies::default());
        // `interface-output` will drop what goes nowhere.
        let Some(i) = self.ifs.get(tx).filter(|i| i.is(ifflags::UP | ifflags::LINK)) else { return };
        self.copies = L2Copies {
            to: super::of(&self.mirrors.tx_l2, tx),
            all: super::of(&self.mirrors.tx, i.hw),
            own: super::of(&self.mirrors.tx_own, tx),
        };
    }
}

impl Node for SpanL2Output {
    const NAME: &'static str = "span-l2-output";
    type Next = SpanL2OutputNext;
    type Drop = SpanReason;
    type View<'v> = SpanL2OutputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> SpanL2OutputView<'v> {
        let ifs = || IfCache::new(&self.plane, guard);
        SpanL2OutputView {
            mirrors: self.mirrors.load(guard),
            ifs: ifs(),
            copier: Copier::new(ifs()),
            tx: IfIndex::MAX,
            copies: L2Copies::default(),
        }
    }

    #[inline]
    fn step(view: &mut SpanL2OutputView<'_>, p: &mut Packet<'_>) -> Step<SpanL2OutputNext, SpanReason> {
        if p.d.tx != view.tx {
            view.look(p.d.tx);
        }
        if !p.has(MIRRORED) && super::is_frame(p) {
            view.copies.make(&mut view.copier, p, SpanL2OutputNext::Copy);
        }
        Ok(SpanL2OutputNext::Continue)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
