//! Nodes that let everything pass, one on each arc where interfaces have features of their own: packets of an interface that is
//! told so visit them all, and those of the others meet the arc as if there were none.

use crate::arcs;
use crate::interface::{Declared, Setting, Switch};
use graph::arcs::Feature;
use graph::node::{Never, Step};
use graph::{Builder, Edge, Guard, Node, Packet};
use std::marker::PhantomData;

/// Whether packets visit them.
pub static VISITS: Setting<bool> =
    Setting::new("visits nodes that let everything pass", "(a test's)").any_layer();

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 1] = [&VISITS.declared];

/// A node's name, and where it sends packets.
pub trait Place: Edge + Send {
    /// The name.
    const NODE: &'static str;
    /// Along its arc.
    const ON: Self;
}

/// The node.
pub struct Passing<P>(PhantomData<P>);

impl<P: Place> Node for Passing<P> {
    const NAME: &'static str = P::NODE;
    const READS_PACKET: bool = false;
    type Next = P;
    type Drop = Never;
    type View<'v> = ();

    fn view<'v>(&'v mut self, _: &'v Guard) {}

    fn step(_: &mut (), _: &mut Packet<'_>) -> Step<P, Never> {
        Ok(P::ON)
    }
}

macro_rules! places {
    ($($place:ident: $arc:ident, $node:literal -> $next:literal;)*) => {
        $(graph::edges! {
            /// Along the arc.
            pub enum $place { On => $next }
        }
        impl Place for $place {
            const NODE: &'static str = $node;
            const ON: Self = $place::On;
        })*

        /// Adds all of them to a graph.
        pub fn add(builder: Builder) -> Builder {
            builder$(.node(Passing::<$place>(PhantomData)))*
        }

        /// What the setting switches on.
        pub static SWITCHES: &[Switch] = &[$({
            static PLACE: Feature = Feature::new(&arcs::$arc, $node);
            Switch { feature: &PLACE, on: |s| s.get(&VISITS) }
        }),*];
    };
}

places! {
    DeviceInput: DEVICE_INPUT, "test-device-input" -> "@device-input";
    L2Input: L2_INPUT, "test-l2-input" -> "@l2-input";
    L2Output: L2_OUTPUT, "test-l2-output" -> "@l2-output";
    Ip4Unicast: IP4_UNICAST, "test-ip4-unicast" -> "@ip4-unicast";
    Ip6Unicast: IP6_UNICAST, "test-ip6-unicast" -> "@ip6-unicast";
    Ip4Output: IP4_OUTPUT, "test-ip4-output" -> "@ip4-output";
    Ip6Output: IP6_OUTPUT, "test-ip6-output" -> "@ip6-output";
    InterfaceOutput: INTERFACE_OUTPUT, "test-interface-output" -> "@interface-output";
    MplsInput: MPLS_INPUT, "test-mpls-input" -> "@mpls-input";
    Ip4Local: IP4_LOCAL, "test-ip4-local" -> "@ip4-local";
    Ip6Local: IP6_LOCAL, "test-ip6-local" -> "@ip6-local";
}
