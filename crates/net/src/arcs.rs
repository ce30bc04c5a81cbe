//! The feature arcs. What stands on them is told in the folders of the features, each in a `static` of its own, and listed
//! in [`crate::nodes`].

use graph::arcs::FeatureArc;

/// Frames as devices deliver them.
pub static DEVICE_INPUT: FeatureArc = FeatureArc { name: "device-input", end: "ethernet-input" };
/// Frames of an interface on layer 2, before its bridge domain or cross-connect has them. [`graph::Desc::aux`] is the number of the
/// bridge domain; features leave it as it is.
pub static L2_INPUT: FeatureArc = FeatureArc { name: "l2-input", end: "l2-bridge" };
/// Frames that a bridge domain or cross-connect sends over an interface, [`graph::Desc::tx`], with their tags as on the wire.
pub static L2_OUTPUT: FeatureArc = FeatureArc { name: "l2-output", end: "interface-output" };
/// IPv4 packets whose headers were checked, before they are looked up.
pub static IP4_UNICAST: FeatureArc = FeatureArc { name: "ip4-unicast", end: "ip4-lookup" };
/// The same for IPv6.
pub static IP6_UNICAST: FeatureArc = FeatureArc { name: "ip6-unicast", end: "ip6-lookup" };
/// IPv4 packets that were rewritten, before they leave.
pub static IP4_OUTPUT: FeatureArc = FeatureArc { name: "ip4-output", end: "interface-output" };
/// The same for IPv6.
pub static IP6_OUTPUT: FeatureArc = FeatureArc { name: "ip6-output", end: "interface-output" };
/// Frames that leave over an interface, which [`graph::Desc::aux`] names: a sub-interface, where [`graph::Desc::tx`] is the one
/// whose queues carry them.
pub static INTERFACE_OUTPUT: FeatureArc = FeatureArc { name: "interface-output", end: "interface-tx" };
/// Labelled packets, before their label is looked up; [`graph::Desc::aux`] is its entry.
pub static MPLS_INPUT: FeatureArc = FeatureArc { name: "mpls-input", end: "mpls-lookup" };
/// IPv4 packets to the router, before anybody takes or answers them.
pub static IP4_LOCAL: FeatureArc = FeatureArc { name: "ip4-local", end: "ip4-local-end-of-arc" };
/// The same for IPv6.
pub static IP6_LOCAL: FeatureArc = FeatureArc { name: "ip6-local", end: "ip6-local-end-of-arc" };
/// IPv4 packets to the router of protocols that features take ([`crate::protocols`]): each goes to the one that takes it.
pub static IP4_PROTOCOL: FeatureArc = FeatureArc { name: "ip4-protocol", end: "error-drop" };
/// The same for IPv6.
pub static IP6_PROTOCOL: FeatureArc = FeatureArc { name: "ip6-protocol", end: "error-drop" };
/// IPv4 packets to the router that are nothing to it, or not to it alone, and within the limit of their class. Where an interface has
/// features here, one of them takes its packets.
pub static IP4_PUNT: FeatureArc = FeatureArc { name: "ip4-punt", end: "error-drop" };
/// The same for IPv6.
pub static IP6_PUNT: FeatureArc = FeatureArc { name: "ip6-punt", end: "error-drop" };

/// All of them.
pub static ALL: [&FeatureArc; 15] = [
    &DEVICE_INPUT,
    &L2_INPUT,
    &L2_OUTPUT,
    &IP4_UNICAST,
    &IP6_UNICAST,
    &IP4_OUTPUT,
    &IP6_OUTPUT,
    &INTERFACE_OUTPUT,
    &MPLS_INPUT,
    &IP4_LOCAL,
    &IP6_LOCAL,
    &IP4_PROTOCOL,
    &IP6_PROTOCOL,
    &IP4_PUNT,
    &IP6_PUNT,
];
