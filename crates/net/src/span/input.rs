//! `span-input`: copies of the frames that interfaces receive.

use super::{Copier, Mirrors, Pair, SpanReason};
use crate::ethernet::sub_interface;
use crate::interface::{IfIndex, MIRRORED, ifflags};
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::{Guard, Node, Packet, Published, TraceRecord};
use packet::vlan::VlanStack;
use std::fmt;
use std::sync::Arc;
use tables::vlan::VlanTable;

graph::edges! {
    /// Where `span-input` sends frames.
    pub enum SpanInputNext {
        Continue => "@device-input",
        Copy => "interface-output",
    }
}

/// The node.
pub struct SpanInput {
    plane: Arc<Plane>,
    mirrors: Arc<Published<Mirrors>>,
}

impl SpanInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        SpanInput { plane: Arc::clone(plane), mirrors: plane.publish() }
    }
}

/// Snapshot of one vector.
pub struct SpanInputView<'v> {
    mirrors: &'v Mirrors,
    ifs: IfCache<'v>,
    copier: Copier<'v>,
    device: IfIndex,
    /// Where all frames of the device are mirrored to.
    all: &'v [Pair],
    /// Its sub-interfaces, where one of them is mirrored.
    subs: Option<&'v VlanTable>,
}

impl<'v> SpanInputView<'v> {
    fn look(&mut self, device: IfIndex) {
        (self.device, self.all, self.subs) = (device, &[], None);
        let Some(i) = self.ifs.peek(device).filter(|i| i.is(ifflags::UP)) else { return };
        self.all = super::of(&self.mirrors.rx, device);
        if self.mirrors.devices.binary_search(&device).is_ok() {
            self.subs = i.subs.as_deref();
        }
    }

    /// Where frames of the sub-interface of a frame are mirrored to.
    fn of_sub_interface(&mut self, p: &Packet<'_>) -> &'v [Pair] {
        let Some(subs) = self.subs else { return &[] };
        let tags = VlanStack::parse(p.data());
        match tags.and_then(|tags| sub_interface(subs, &tags)) {
            Some(sub) if self.ifs.get(sub).is_some_and(|i| i.is(ifflags::UP)) => {
                super::of(&self.mirrors.rx_own, sub)
            }
            _ => &[],
        }
    }
}

impl Node for SpanInput {
    const NAME: &'static str = "span-input";
    type Next = SpanInputNext;
    type Drop = SpanReason;
    type View<'v> = SpanInputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> SpanInputView<'v> {
        let ifs = || IfCache::new(&self.plane, guard);
        SpanInputView {
            mirrors: self.mirrors.load(guard),
            ifs: ifs(),
            copier: Copier::new(ifs()),
            device: IfIndex::MAX,
            all: &[],
            subs: None,
        }
    }

    #[inline]
    fn step(view: &mut SpanInputView<'_>, p: &mut Packet<'_>) -> Step<SpanInputNext, SpanReason> {
        if p.d.rx != view.device {
            view.look(p.d.rx);
        }
        if !p.has(MIRRORED) && super::is_frame(p) {
            let (all, own) = (view.all, view.of_sub_interface(p));
            super::copies(&mut view.copier, p, all, own, SpanInputNext::Copy);
        }
        Ok(SpanInputNext::Continue)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}
