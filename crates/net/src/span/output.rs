//! `span-output`: copies of the frames that interfaces send.

use super::{Copier, MIRRORED, Mirrors, Pair, SpanReason};
use crate::interface::IfIndex;
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `span-output` sends frames.
    pub enum SpanOutputNext {
        Continue => "@interface-output",
        Copy => "interface-output",
    }
}

/// The node.
pub struct SpanOutput {
    plane: Arc<Plane>,
    mirrors: Arc<Published<Mirrors>>,
}

impl SpanOutput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        SpanOutput { plane: Arc::clone(plane), mirrors: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct SpanOutputView<'v> {
    mirrors: &'v Mirrors,
    copier: Copier<'v>,
    /// A device, and the interface over which frames leave that it sends.
    last: (IfIndex, IfIndex),
    /// Where all frames of the device are mirrored to.
    all: &'v [Pair],
    /// Where those are that leave over the interface alone.
    own: &'v [Pair],
}

impl SpanOutputView<'_> {
    fn look(&mut self, device: IfIndex, over: IfIndex) {
        self.last = (device, over);
        self.all = super::of(&self.mirrors.tx, device);
        self.own = super::of(&self.mirrors.tx_own, over);
    }
}

impl Node for SpanOutput {
    const NAME: &'static str = "span-output";
    type Next = SpanOutputNext;
    type Drop = SpanReason;
    type View<'v> = SpanOutputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> SpanOutputView<'v> {
        SpanOutputView {
            mirrors: self.mirrors.load(guard),
            copier: Copier::new(IfCache::new(&self.plane, guard)),
            last: (IfIndex::MAX, IfIndex::MAX),
            all: &[],
            own: &[],
        }
    }

    #[inline]
    fn step(view: &mut SpanOutputView<'_>, p: &mut Packet<'_>) -> Step<SpanOutputNext, SpanReason> {
        let (device, over) = (p.d.tx, p.d.aux);
        if view.last != (device, over) {
            view.look(device, over);
        }
        if !p.has(MIRRORED) && super::is_frame(p) {
            super::copies(&mut view.copier, p, view.all, view.own, SpanOutputNext::Copy);
        }
        Ok(SpanOutputNext::Continue)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}
