//! `mpls-input`: finds the first label of a packet, and has it visit what its interface has for labelled packets.

use crate::labels::top;
use crate::layer::{Checked, Labelled};
use crate::plane::{IfCache, Plane};
use graph::node::Step;
use graph::stage::{self, CameOn, Found, Spot, Stage, Then};
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `mpls-input` sends packets.
    pub enum MplsInputNext { Features => "@mpls-input" }
}

graph::reasons! {
    /// Why `mpls-input` drops packets.
    pub enum MplsInputDrop {
        /// The interface does not exist any more.
        Gone => "mpls-interface-gone",
        /// The packet ends within its first label.
        TooShort => "mpls-too-short",
        /// A labelled packet in a link-layer broadcast or multicast (RFC 5332 is not done).
        L2Group => "mpls-in-l2-broadcast",
    }
}

/// The node.
pub struct MplsInput {
    plane: Arc<Plane>,
}

impl MplsInput {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MplsInput { plane: Arc::clone(plane) }
    }
}

impl Node for MplsInput {
    const NAME: &'static str = "mpls-input";
    type Next = MplsInputNext;
    type Drop = MplsInputDrop;
    type View<'v> = IfCache<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IfCache<'v> {
        IfCache::new(&self.plane, guard)
    }

    #[inline]
    fn step(ifs: &mut IfCache<'_>, p: &mut Packet<'_>) -> Step<MplsInputNext, MplsInputDrop> {
        let Some(i) = ifs.get(p.d.rx) else { return Err(MplsInputDrop::Gone.into()) };
        if p.has(flags::L2_GROUP) {
            return Err(MplsInputDrop::L2Group.into());
        }
        let Some(entry) = top(p.data()) else { return Err(MplsInputDrop::TooShort.into()) };
        (p.d.aux, p.d.feat) = (entry.0, i.mpls_input);
        Ok(MplsInputNext::Features)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::stack(r.bytes(), f)
    }
}

impl QuickNode for MplsInput {
    /// The interface of the usual packets, and its features.
    type Common<'v> = (u32, u32);

    fn common<'v>(
        ifs: &IfCache<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(MplsInputNext, (u32, u32))> {
        let i = ifs.peek(first.rx)?;
        Some((MplsInputNext::Features, (first.rx, i.mpls_input)))
    }

    fn features((_, features): &(u32, u32)) -> u32 {
        *features
    }

    fn quick((rx, _): &(u32, u32), descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        stage::run(Then::new(CameOn::new(*rx), FirstLabel), descs, rooms)
    }
}

/// Finds the first label.
#[derive(Clone, Copy)]
pub struct FirstLabel;

impl Stage for FirstLabel {
    type Needs = Labelled;
    type Leaves = Checked<Labelled>;
    const HEADER: u16 = 0;
    const NODE: &'static str = MplsInput::NAME;

    #[inline(always)]
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool {
        let Some(entry) = spot.header(w) else { return false };
        found.aux = u32::from_be_bytes(*entry);
        usize::from(d.len) >= spot.at + entry.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig, hex};

    fn rig() -> Rig {
        Rig::new(MplsInput::new)
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        let mut r = rig();
        let packet = hex("00064140 45000014");
        let a = r.one(Input::new(&packet));
        assert_eq!((a.node, a.d.aux, a.bytes), ("mpls-lookup", 0x0006_4140, packet.clone()));
        assert_eq!(r.drops(Input::new(&packet).rx(99)), "mpls-interface-gone");
        assert_eq!(r.drops(Input::new(&packet[..3])), "mpls-too-short");
        assert_eq!(r.drops(Input::new(&packet).flags(flags::L2_GROUP)), "mpls-in-l2-broadcast");
    }
}
