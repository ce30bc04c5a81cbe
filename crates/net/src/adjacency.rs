//! Adjacencies: how to reach one neighbour, or one link; and what else routes lead to.

use crate::labels::Imposition;
use std::net::IpAddr;

/// What a route leads to; the `kind` of a [`tables::groups::Entry`].
pub mod kind {
    /// No route holds the address: answered with "network unreachable".
    pub const NO_ROUTE: u8 = 0;
    /// To the adjacency: rewrite and send.
    pub const REWRITE: u8 = 1;
    /// An address of the router's own.
    pub const LOCAL: u8 = 2;
    /// On the link of the (glean) adjacency: the destination itself is to be resolved.
    pub const GLEAN: u8 = 3;
    /// Dropped silently.
    pub const DROP: u8 = 4;
    /// Dropped and answered with "host unreachable".
    pub const UNREACHABLE: u8 = 5;
    /// Dropped and answered with "administratively prohibited".
    pub const PROHIBIT: u8 = 6;
    /// The broadcast or network address of a connected prefix: dropped (RFC 2644), unless there is an adjacency by which its
    /// interface sends it to all.
    pub const BROADCAST: u8 = 7;
    /// Into the table at a place: the destination is looked up there.
    pub const LOOKUP: u8 = 8;

    /// To the (MPLS) adjacency with its labels: an IP packet gets them, of a labelled one they take the label's place.
    pub const LABEL: u8 = 9;
    /// To the (MPLS) adjacency without the label that came.
    pub const POP: u8 = 10;
    /// The same, and what is below goes on with the label's TTL.
    pub const POP_UNIFORM: u8 = 11;
    /// Without the label, into the IPv4 table at a place; `u32::MAX`: that of the interface.
    pub const DISPOSE4: u8 = 12;
    /// The same with the label's TTL.
    pub const DISPOSE4_UNIFORM: u8 = 13;
    /// Without the label, into the IPv6 table at a place; `u32::MAX`: that of the interface.
    pub const DISPOSE6: u8 = 14;
    /// The same with the label's TTL.
    pub const DISPOSE6_UNIFORM: u8 = 15;
    /// Without the label, into the MPLS table at a place; `u32::MAX`: the one in which the label was found.
    pub const NEXT_LABEL: u8 = 16;
    /// The same with the label's TTL.
    pub const NEXT_LABEL_UNIFORM: u8 = 17;

    /// Without the label, a frame that comes in on an interface.
    pub const FRAME: u8 = 18;

    /// Without the label, into the IPv4 or the IPv6 table by the version of the packet: the places of both are the two halves of the
    /// word, that of IPv4 the lower one.
    pub const DISPOSE_IP: u8 = 19;
    /// The same with the label's TTL.
    pub const DISPOSE_IP_UNIFORM: u8 = 20;

    /// Whether it leads to a neighbour by an adjacency.
    pub const fn is_neighbor(kind: u8) -> bool {
        matches!(kind, REWRITE | LABEL | POP | POP_UNIFORM)
    }

    /// The word for it in `show ip fib`.
    pub fn name(kind: u8) -> &'static str {
        match kind {
            REWRITE => "forward",
            LOCAL => "local",
            GLEAN => "glean",
            DROP => "drop",
            UNREACHABLE => "unreachable",
            PROHIBIT => "prohibit",
            BROADCAST => "broadcast-drop",
            LOOKUP => "lookup",
            LABEL => "label",
            POP => "pop",
            POP_UNIFORM => "pop-uniform",
            DISPOSE4 => "pop-ip4-lookup",
            DISPOSE4_UNIFORM => "pop-ip4-lookup-uniform",
            DISPOSE6 => "pop-ip6-lookup",
            DISPOSE6_UNIFORM => "pop-ip6-lookup-uniform",
            NEXT_LABEL => "pop-mpls-lookup",
            FRAME => "pop-l2-input",
            DISPOSE_IP => "pop-ip-lookup",
            DISPOSE_IP_UNIFORM => "pop-ip-lookup-uniform",
            NEXT_LABEL_UNIFORM => "pop-mpls-lookup-uniform",
            _ => "no-route",
        }
    }
}

/// Room for an Ethernet header with two tags, or for an untagged one with two labels.
pub const MAX_REWRITE: usize = 22;

/// What becomes of packets sent over an adjacency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjacencyState {
    /// The neighbour's link-layer address is not known: packets are held.
    Incomplete,
    /// The rewrite is complete.
    Complete,
    /// Stands for a whole link: the destination itself is the neighbour.
    Glean,
}

/// How far packets go at once whose rewrite is complete with an untagged header, and which no feature of their family waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Straight {
    /// There is more to do for them.
    No,
    /// To the device: the interface is a device's own, up, with link and without features, so that `interface-output` would have
    /// nothing to do.
    Device,
    /// To where the interface puts more around them, which is all that `interface-output` would find.
    Midchain,
}

/// One adjacency, never changed in place; one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Adjacency {
    /// The interface (or sub-interface) to send on.
    pub interface: u32,
    /// What a short cut asks first.
    pub straight: Straight,
    /// Enabled features of the interface on the arc `ip4-output` or `ip6-output`.
    pub features: u32,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Whether `rewrite` can be used.
    pub state: AdjacencyState,
    /// Valid bytes of `rewrite`; 0 unless complete.
    pub len: u8,
    /// Labels that stand behind the header in `rewrite`, the same for each IP packet; 0 unless they go straight to the device.
    pub pushes: u8,
    /// The link-layer header to put in front.
    pub rewrite: [u8; MAX_REWRITE],
    /// The neighbour; unspecified for a glean adjacency.
    pub next_hop: IpAddr,
    /// For labelled packets, with the labels that they get.
    pub mpls: Option<Box<Imposition>>,
}

const _: () = assert!(size_of::<Adjacency>() == 64, "one cache line");

impl Adjacency {
    /// The largest IP packet that fits with its labels, bytes.
    pub fn ip_mtu(&self) -> u16 {
        self.mtu.saturating_sub(self.mpls.as_ref().map_or(0, |m| m.bytes() as u16))
    }
}
