//! What packets visit where an interface is set so, and the MTUs of protocols.

use super::{Declared, Setting, Settings};
use crate::arcs;
use graph::arcs::{Feature, FeatureArc};

static MTU4: Setting<u16> =
    Setting::new("has an MTU of its own for ip4", "set interface mtu ip4 0 {}").in_adjacencies();
static MTU6: Setting<u16> =
    Setting::new("has an MTU of its own for ip6", "set interface mtu ip6 0 {}").in_adjacencies();
static MTU_MPLS: Setting<u16> =
    Setting::new("has an MTU of its own for mpls", "set interface mtu mpls 0 {}").in_adjacencies();

/// Whether packets to the broadcast addresses of an interface's prefixes are sent to all its hosts (RFC 2644).
pub static DIRECTED_BROADCAST: Setting<bool> =
    Setting::new("sends directed broadcasts", "set interface ip directed-broadcast {} disable")
        .in_broadcast_routes();

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 4] =
    [&MTU4.declared, &MTU6.declared, &MTU_MPLS.declared, &DIRECTED_BROADCAST.declared];

/// What an MTU of its own is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuOf {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
    /// Labelled packets.
    Mpls,
}

impl MtuOf {
    /// All of them, with their words.
    pub const ALL: [(&'static str, MtuOf); 3] =
        [("ip4", MtuOf::Ip4), ("ip6", MtuOf::Ip6), ("mpls", MtuOf::Mpls)];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, m)| *m == self).map_or("ip4", |(name, _)| name)
    }

    /// The largest packet that is sent, bytes, labels counted; 0: the interface's MTU.
    pub fn setting(self) -> &'static Setting<u16> {
        match self {
            MtuOf::Ip4 => &MTU4,
            MtuOf::Ip6 => &MTU6,
            MtuOf::Mpls => &MTU_MPLS,
        }
    }

    /// The least that it may be, bytes (RFC 791, RFC 8200 section 5).
    pub fn least(self) -> u16 {
        match self {
            MtuOf::Ip4 => packet::ip4::MIN_MTU,
            MtuOf::Ip6 => packet::ip6::MIN_MTU,
            MtuOf::Mpls => 128,
        }
    }
}

/// The features that packets of an interface visit, as bits of each arc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits([u32; arcs::ALL.len()]);

/// A cross-connect, on which the arc of frames of layer 2 ends for the interface that has one.
pub static L2_XCONNECT: Feature = Feature::new(&arcs::L2_INPUT, "l2-xconnect");

/// A feature that packets visit where the settings of their interface say so.
#[derive(Debug)]
pub struct Switch {
    /// The feature.
    pub feature: &'static Feature,
    /// Whether the settings say so.
    pub on: fn(&Settings) -> bool,
}

impl Bits {
    /// Those on one arc.
    pub fn on(&self, arc: &FeatureArc) -> u32 {
        arcs::ALL.iter().zip(self.0).find(|(a, _)| std::ptr::eq(**a, arc)).map_or(0, |(_, bits)| bits)
    }

    /// Those of `arc` are among them as well.
    pub fn add(&mut self, arc: &FeatureArc, bits: u32) {
        if let Some(at) = arcs::ALL.iter().position(|a| std::ptr::eq(*a, arc)) {
            self.0[at] |= bits;
        }
    }

    /// Those of the features that are switched on; `bit` answers that of one.
    pub fn of<'s>(
        settings: &Settings,
        switches: impl IntoIterator<Item = &'s Switch>,
        bit: impl Fn(&Feature) -> u32,
    ) -> Bits {
        let mut bits = Bits::default();
        for s in switches.into_iter().filter(|s| (s.on)(settings)) {
            bits.add(s.feature.arc, bit(s.feature));
        }
        bits
    }
}
