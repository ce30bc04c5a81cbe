//! `mpls-not-enabled`: the end of labelled packets of interfaces that do not take them.

use crate::arcs;
use crate::interface::Switch;
use graph::arcs::Feature;
use graph::node::{Never, Step};
use graph::{Guard, Node, Packet, TraceRecord};
use std::fmt;

graph::reasons! {
    /// Why `mpls-not-enabled` drops packets.
    pub enum MplsNotEnabledDrop {
        /// The interface does not take labelled packets (set interface mpls IF enable).
        NotEnabled => "mpls-not-enabled",
    }
}

static PLACE: Feature = Feature::new(&arcs::MPLS_INPUT, MplsNotEnabled::NAME);

/// On all interfaces that were not told to take labelled packets.
pub(super) const SWITCH: Switch = Switch { feature: &PLACE, on: |s| !s.get(&super::TAKEN) };

/// The node.
pub struct MplsNotEnabled;

impl Node for MplsNotEnabled {
    const NAME: &'static str = "mpls-not-enabled";
    const READS_PACKET: bool = false;
    type Next = Never;
    type Drop = MplsNotEnabledDrop;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _: &'v Guard) {}

    fn step(_: &mut (), _: &mut Packet<'_>) -> Step<Never, MplsNotEnabledDrop> {
        Err(MplsNotEnabledDrop::NotEnabled.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::stack(r.bytes(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};

    #[test]
    fn nothing_passes() {
        assert_eq!(Rig::new(|_| MplsNotEnabled).drops(Input::new(&[0, 6, 65, 64])), "mpls-not-enabled");
    }
}
