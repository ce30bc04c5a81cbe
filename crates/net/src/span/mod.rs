//! Mirroring (`set interface span`, `set bridge-domain span`): a copy of every frame that an interface, a sub-interface, or a member of
//! a bridge domain receives or sends goes out of another interface, as it is on the wire.
//!
//! [`SpanInput`] stands where frames come in, before their sub-interface is known, and [`SpanOutput`] where they leave.
//! [`SpanL2Input`] and [`SpanL2Output`] stand where a bridge domain or cross-connect takes and sends them. A copy bears
//! [`MIRRORED`] for as long as it is in the router, also within a tunnel: it is never mirrored again, so that no arrangement of
//! mirrors makes a loop.

pub mod commands;
mod input;
mod l2_input;
mod l2_output;
mod output;
mod part;
#[cfg(test)]
mod tests;

pub use input::{SpanInput, SpanInputNext};
pub use l2_input::{SpanL2Input, SpanL2InputNext};
pub use l2_output::{SpanL2Output, SpanL2OutputNext};
pub use output::{SpanOutput, SpanOutputNext};
pub(crate) use part::Span;
pub use part::{Mirror, MirrorBridge, Told, bridges, mirrors};

use crate::arcs;
use crate::interface::{IfIndex, MIRRORED, ifflags, retag};
use crate::plane::IfCache;
use graph::arcs::Feature;
use graph::{Edge, Node, Packet, flags};

/// Where received frames are copied.
pub static SPAN_INPUT: Feature = Feature::new(&arcs::DEVICE_INPUT, SpanInput::NAME);
/// Where frames are copied that leave.
pub static SPAN_OUTPUT: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, SpanOutput::NAME);

/// Where frames are copied that layer 2 takes.
pub static SPAN_L2_INPUT: Feature = Feature::new(&arcs::L2_INPUT, SpanL2Input::NAME);
/// Where frames are copied that layer 2 sends.
pub static SPAN_L2_OUTPUT: Feature = Feature::new(&arcs::L2_OUTPUT, SpanL2Output::NAME);

/// What a copy has of the frame: nothing that protocols found out about it.
const KEPT: u16 = flags::TRACED | flags::CHAINED | flags::CSUM_PARTIAL | flags::GSO | flags::CSUM_VALID;

/// The most destinations of one interface.
pub const MOST_DESTINATIONS: usize = 8;

/// Which frames are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// Those received.
    pub rx: bool,
    /// Those sent.
    pub tx: bool,
}

impl Directions {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Directions); 3] = [
        ("both", Directions { rx: true, tx: true }),
        ("rx", Directions { rx: true, tx: false }),
        ("tx", Directions { rx: false, tx: true }),
    ];

    /// True when none are copied.
    pub fn is_off(self) -> bool {
        self == Directions::default()
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, d)| *d == self).map_or("disable", |(name, _)| name)
    }
}

/// A source and one of its destinations.
type Pair = (IfIndex, IfIndex);

/// The mirrors as workers see them, by source.
#[derive(Clone, Debug, Default)]
struct Mirrors {
    /// Of all frames of devices.
    rx: Box<[Pair]>,
    tx: Box<[Pair]>,
    /// Of frames of sub-interfaces.
    rx_own: Box<[Pair]>,
    tx_own: Box<[Pair]>,
    /// Of frames that layer 2 has from and for an interface.
    rx_l2: Box<[Pair]>,
    tx_l2: Box<[Pair]>,
    /// Devices on which the sources of `rx_own` are, in order.
    devices: Box<[IfIndex]>,
}

/// The pairs of a source.
#[inline]
fn of(pairs: &[Pair], source: IfIndex) -> &[Pair] {
    let first = pairs.partition_point(|p| p.0 < source);
    let all = &pairs[first..];
    &all[..all.iter().take_while(|p| p.0 == source).count()]
}

graph::reasons! {
    /// What the nodes count.
    pub enum SpanReason {
        /// A copy was made and sent on.
        Copied => "span-copies" (info),
        /// A destination got no copy: it is down, or has no link.
        Down => "span-destination-down" (info),
        /// A destination got no copy: it does not exist any more.
        Gone => "span-destination-gone" (info),
        /// A destination got no copy: only buffers that other packets need are left.
        NoBuffers => "span-no-buffers" (info),
        /// A destination got no copy: there is no room in front of the frame for its tags.
        NoRoom => "span-no-room-for-tags" (info),
    }
}

/// Makes the copies of one vector.
struct Copier<'v> {
    destinations: IfCache<'v>,
    /// Copies that may still be made, once that was asked.
    left: Option<usize>,
}

impl<'v> Copier<'v> {
    fn new(destinations: IfCache<'v>) -> Self {
        Copier { destinations, left: None }
    }

    /// Sends a copy of a frame out of `to`, over `edge`.
    fn copy(&mut self, p: &mut Packet<'_>, to: IfIndex, edge: impl Edge) {
        let Some(i) = self.destinations.get(to) else { return p.count(SpanReason::Gone) };
        if !i.is(ifflags::UP | ifflags::LINK) {
            return p.count(SpanReason::Down);
        }
        // The last eighth of the pool is for frames that are received.
        let pool = p.env.buffers.pool();
        let left = self.left.get_or_insert_with(|| pool.global_free().saturating_sub(pool.count() / 8));
        let copy = if *left == 0 { None } else { p.duplicate() };
        let Some(mut copy) = copy else { return p.count(SpanReason::NoBuffers) };
        *left -= 1;
        copy.flags = copy.flags & KEPT | MIRRORED;
        (copy.l2, copy.tx) = (copy.off, to);
        let mut c = Packet { d: &mut copy, env: p.env };
        if i.tags.count != 0 && retag::push(&mut c, &i.tags).is_err() {
            p.env.buffers.free(copy);
            return p.count(SpanReason::NoRoom);
        }
        p.count(SpanReason::Copied);
        p.env.forward(copy, edge);
    }
}

/// True for what has a whole Ethernet header.
#[inline]
fn is_frame(p: &Packet<'_>) -> bool {
    p.d.len >= 14
}

/// Copies of a frame for the destinations of all frames of its device, and for those of its interface alone that are none of them.
#[inline]
fn copies(copier: &mut Copier<'_>, p: &mut Packet<'_>, all: &[Pair], own: &[Pair], edge: impl Edge) {
    for (_, to) in all {
        copier.copy(p, *to, edge);
    }
    for (_, to) in own.iter().filter(|(_, to)| all.iter().all(|o| o.1 != *to)) {
        copier.copy(p, *to, edge);
    }
}

/// The destinations of frames that layer 2 has from an interface, or for it, and those to which they go anyway.
#[derive(Clone, Copy, Default)]
struct L2Copies<'v> {
    to: &'v [Pair],
    all: &'v [Pair],
    own: &'v [Pair],
}

impl L2Copies<'_> {
    /// Makes them of a frame.
    #[inline]
    fn make(&self, copier: &mut Copier<'_>, p: &mut Packet<'_>, edge: impl Edge) {
        let is_new = |to: IfIndex| self.all.iter().chain(self.own).all(|o| o.1 != to);
        for (_, to) in self.to.iter().filter(|(_, to)| is_new(*to)) {
            copier.copy(p, *to, edge);
        }
    }
}
