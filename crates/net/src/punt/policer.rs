//! `punt-policer`: the end of packets for the router that are beyond the limit of their class.

use super::class::{Class, PolicedReason};
use graph::node::{Never, Step};
use graph::{Guard, Node, Packet, TraceRecord};
use std::fmt;

/// The node.
pub struct PuntPolicer;

impl Node for PuntPolicer {
    const NAME: &'static str = "punt-policer";
    const READS_PACKET: bool = false;
    type Next = Never;
    type Drop = PolicedReason;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _guard: &'v Guard) {}

    fn step(_: &mut (), p: &mut Packet<'_>) -> Step<Never, PolicedReason> {
        Err(PolicedReason::from(Class::of_number(p.d.aux)).into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  class {}", Class::of_number(r.before.aux).name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Input, Rig};

    #[test]
    fn every_class_has_its_reason() {
        let mut r = Rig::new(|_| PuntPolicer);
        for c in Class::ALL {
            assert_eq!(r.drops(Input::new(&[0; 20]).aux(*c as u32)), format!("policed-{}", c.name()));
        }
    }
}
