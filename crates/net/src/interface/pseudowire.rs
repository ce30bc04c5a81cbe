//! An interface whose frames take an MPLS tunnel (RFC 4448), as workers see it.

use crate::arcs;
use graph::arcs::Feature;
use tables::groups::GroupId;

/// Where frames meet it that are sent over the interface.
pub static TUNNEL_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, "mpls-tunnel-tx");

/// A tunnel for frames, as workers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pseudowire {
    /// The next-hop group of its paths.
    pub group: GroupId,
    /// A control word stands in front of each frame (RFC 4448 section 4.6).
    pub control_word: bool,
}
