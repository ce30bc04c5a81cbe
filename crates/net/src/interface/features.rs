//! What the operator switched on for an interface, as workers see it.

use super::Settings;
use crate::arcs;
use crate::urpf;
use graph::arcs::Feature;

/// Settings of the features of an interface; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Which IPv4 sources packets may come from.
    pub urpf4: urpf::Rule,
    /// The same for IPv6.
    pub urpf6: urpf::Rule,
    /// Which IPv4 sources packets may have that leave.
    pub urpf4_out: urpf::Rule,
    /// The same for IPv6.
    pub urpf6_out: urpf::Rule,
    /// Labelled packets are taken.
    pub mpls: bool,
    /// ARP requests for addresses of the proxied ranges are answered.
    pub proxy_arp: bool,
    /// ARP requests are answered only where the sender is on the link.
    pub arp_sender_check: bool,
    /// Packets to the broadcast address of a connected prefix are sent to all its hosts (RFC 2644).
    pub directed_broadcast: bool,
    /// Packets received from or for 169.254.0.0/16 are not forwarded (RFC 3927 section 2.7).
    pub link_local4_stays: bool,
    /// The largest IPv4 packet that is sent, bytes; 0: the interface's MTU.
    pub mtu4: u16,
    /// The same for IPv6.
    pub mtu6: u16,
    /// The same for labelled packets, labels counted.
    pub mtu_mpls: u16,
}

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

    /// The least that it may be, bytes (RFC 791, RFC 8200 section 5).
    pub fn least(self) -> u16 {
        match self {
            MtuOf::Ip4 => crate::path_mtu::LEAST4,
            MtuOf::Ip6 => packet::ip6::MIN_MTU,
            MtuOf::Mpls => 128,
        }
    }
}

/// A feature's bits on the arcs of IPv4 and IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// On `ip4-unicast`.
    pub ip4: u32,
    /// On `ip6-unicast`.
    pub ip6: u32,
    /// On `ip4-output`.
    pub ip4_output: u32,
    /// On `ip6-output`.
    pub ip6_output: u32,
}

/// A feature that packets visit where the settings of their interface say so.
#[derive(Debug)]
pub struct Switch {
    /// The feature.
    pub feature: &'static Feature,
    /// Whether the settings say so.
    pub on: fn(&Features, &Settings) -> bool,
}

impl Bits {
    /// Those of the features that are switched on; `bit` answers that of one.
    pub fn of<'s>(
        features: &Features,
        settings: &Settings,
        switches: impl IntoIterator<Item = &'s Switch>,
        bit: impl Fn(&Feature) -> u32,
    ) -> Bits {
        let mut bits = Bits::default();
        for s in switches.into_iter().filter(|s| (s.on)(features, settings)) {
            for (arc, to) in [
                (&arcs::IP4_UNICAST, &mut bits.ip4),
                (&arcs::IP6_UNICAST, &mut bits.ip6),
                (&arcs::IP4_OUTPUT, &mut bits.ip4_output),
                (&arcs::IP6_OUTPUT, &mut bits.ip6_output),
            ] {
                if std::ptr::eq(arc, s.feature.arc) {
                    *to |= bit(s.feature);
                }
            }
        }
        bits
    }
}

impl Features {
    /// The source check of a family and direction.
    pub fn urpf(&self, v6: bool, tx: bool) -> urpf::Rule {
        match (v6, tx) {
            (false, false) => self.urpf4,
            (true, false) => self.urpf6,
            (false, true) => self.urpf4_out,
            (true, true) => self.urpf6_out,
        }
    }

    /// The same, to be changed.
    pub fn urpf_mut(&mut self, v6: bool, tx: bool) -> &mut urpf::Rule {
        match (v6, tx) {
            (false, false) => &mut self.urpf4,
            (true, false) => &mut self.urpf6,
            (false, true) => &mut self.urpf4_out,
            (true, true) => &mut self.urpf6_out,
        }
    }

    /// The MTU of its own for a protocol, bytes; 0: none.
    pub fn mtu(&self, of: MtuOf) -> u16 {
        match of {
            MtuOf::Ip4 => self.mtu4,
            MtuOf::Ip6 => self.mtu6,
            MtuOf::Mpls => self.mtu_mpls,
        }
    }

    /// The same, to be changed.
    pub fn mtu_mut(&mut self, of: MtuOf) -> &mut u16 {
        match of {
            MtuOf::Ip4 => &mut self.mtu4,
            MtuOf::Ip6 => &mut self.mtu6,
            MtuOf::Mpls => &mut self.mtu_mpls,
        }
    }
}
