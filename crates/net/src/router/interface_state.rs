//! What the operator set on an interface, and what is known of it.

use super::devices::DeviceControl;
use super::placement::Input;
use super::tell::Remote;
use super::{Elsewhere, Op};
use crate::interface::{MtuOf, Settings, Tags};
use crate::neighbor::Millis;
use crate::plane::table::FibIndex;
use graph::TxCaps;
use ipnet::{IpNet, Ipv6Net};
use packet::eth::MacAddr;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tables::vlan::VlanTable;

/// Which tagged frames a sub-interface takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encap {
    /// One tag, or two.
    Tags {
        /// 802.1ad outer tag instead of 802.1Q.
        dot1ad: bool,
        /// Outer VLAN; `None`: any.
        outer: Option<u16>,
        /// Inner 802.1Q tag: `None`: no inner tag named; `Some(None)`: any.
        inner: Option<Option<u16>>,
        /// Exactly these tags, not more.
        exact: bool,
    },
    /// Frames without a tag.
    Untagged,
    /// Whatever no other sub-interface takes.
    Default,
}

impl Encap {
    /// Whether each of its tags is named by number.
    pub fn is_by_number(self) -> bool {
        matches!(self, Encap::Tags { outer: Some(_), inner, .. } if inner != Some(None))
    }

    /// Whether it takes frames of these tags alone, which is what layer 3 needs: what is sent gets them.
    pub fn is_exact(self) -> bool {
        self.is_by_number() && matches!(self, Encap::Tags { exact: true, .. })
    }

    /// Tags of its frames that are known by number.
    pub fn known_tags(self) -> u8 {
        match self {
            Encap::Tags { outer: Some(_), inner, .. } => 1 + u8::from(inner.flatten().is_some()),
            _ => 0,
        }
    }

    /// The same for two that take the same frames, which cannot stand under one interface.
    pub(super) fn frames(self) -> Encap {
        match self {
            Encap::Tags { dot1ad, outer, inner, .. } => Encap::Tags { dot1ad, outer, inner, exact: false },
            other => other,
        }
    }
}

/// What stands behind an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `local0`: nothing.
    Local,
    /// A driver's device.
    Device,
    /// Nothing but its addresses.
    Loopback,
    /// An MPLS tunnel.
    MplsTunnel {
        /// For frames.
        l2: bool,
    },
    /// Made by a part of the router.
    Virtual(&'static VirtualKind),
    /// Tagged frames of another interface.
    Sub {
        /// The interface.
        parent: u32,
        /// The operator's number for it.
        id: u32,
        /// Which frames.
        encap: Encap,
    },
}

/// What a part has made.
#[derive(Debug, PartialEq, Eq)]
pub struct VirtualKind {
    /// The word for it in `show interface`.
    pub word: &'static str,
    /// It carries frames as a device does; else packets, to one other end.
    pub frames: bool,
    /// Whom it reaches.
    pub flood: FloodClass,
}

/// Whom an interface reaches: a bridge domain floods over a tunnel to a group, and not over those to single ends as well, which
/// are in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodClass {
    /// A link of its own.
    Link,
    /// All ends of a multicast group.
    Group,
    /// One end, which may be in a group.
    End,
}

/// What an interface is to its bridge domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The bridge domain.
    pub bridge: u32,
    /// The interface through which it is routed.
    pub bvi: bool,
    /// Split-horizon group: members of one group other than 0 do not exchange frames.
    pub shg: u8,
}

/// The place of an interface among all others, which is its number unless the operator orders otherwise; for sub-interfaces that of
/// the interface that they are of, behind which they stand by their own.
pub type Order = (u32, Option<u32>);

/// One interface on the control side.
pub struct IfState {
    /// Its number (VPP: sw_if_index).
    pub index: u32,
    /// Its place among interfaces; of a sub-interface that of its parent.
    pub(super) rank: u32,
    /// Its name.
    pub name: String,
    /// What stands behind it.
    pub kind: Kind,
    /// Operation that made it.
    pub origin: Op,
    /// Made by a part for another interface, with which it goes: the operator neither changes nor saves it.
    pub companion: bool,
    /// Free text.
    pub description: Option<String>,
    /// The MTU that it was made with, unless the operator says otherwise: of a device 1500.
    pub own_mtu: u16,
    /// What was last told of it.
    pub(super) told: Option<super::happened::Told>,
    /// Administratively up.
    pub up: bool,
    /// The device's link.
    pub link: bool,
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Its MAC address (a sub-interface has its parent's).
    pub mac: MacAddr,
    /// The MAC address that it had when it was made.
    pub own_mac: MacAddr,
    /// The operator chose its MAC address.
    pub mac_set: bool,
    /// What of all that is not the operator's.
    pub elsewhere: Elsewhere,
    /// Takes frames for any station.
    pub promiscuous: bool,
    /// Its addresses as configured.
    pub addresses: Vec<IpNet>,
    /// Its IPv6 link-local address, made when it gets its first IPv6 address.
    pub link_local: Option<Ipv6Addr>,
    /// The link-local address that the operator chose in place of the one made from the MAC address.
    pub own_link_local: Option<Ipv6Net>,
    /// The interface to which all its frames go.
    pub xconnect: Option<u32>,
    /// What it is to its bridge domain.
    pub membership: Option<Membership>,
    /// What the operator told it, as features declare it.
    pub settings: Settings,
    /// The interface whose addresses it has as its own.
    pub unnumbered: Option<u32>,
    /// Sub-interfaces by the operator's number.
    pub subs: BTreeMap<u32, u32>,
    /// FIB indexes of its IPv4 and IPv6 table.
    pub(super) tables: [FibIndex; 2],
    /// Which of them takes which frames.
    pub(super) by_encap: HashMap<Encap, u32>,
    /// The same as workers see it.
    pub(super) vlans: Option<Arc<VlanTable>>,
    /// IPv6 addresses that may be used.
    pub(super) usable6: Vec<Ipv6Addr>,
    /// The multicast groups that workers are to take packets to.
    pub(super) groups4: Box<[u32]>,
    pub(super) groups6: Box<[u128]>,
    pub(super) caps: TxCaps,
    pub(super) device: Option<Box<dyn DeviceControl>>,
    pub(super) remote: Remote,
    /// Its device's receive queues.
    pub(super) inputs: Vec<Input>,
    /// Workers that the operator chose, by number of the receive queue.
    pub placed: BTreeMap<usize, usize>,
    /// Packets that devices dropped that stood behind it before this one.
    pub(super) earlier_drops: Vec<(&'static str, u64)>,
    /// Why its device, which is back, cannot be opened, as it was told.
    pub(super) trouble: Option<String>,
    /// When its device came back.
    pub(super) returned: Option<Millis>,
    /// Features of `device-input` that frames of its device's queues visit.
    pub(super) rx_features: Arc<AtomicU32>,
}

impl IfState {
    /// Whether packets may come from one of its IPv6 addresses: duplicate address detection lets them.
    pub(crate) fn may_use(&self, address: &Ipv6Addr) -> bool {
        self.usable6.contains(address)
    }

    /// The largest packet of a protocol that is sent, bytes.
    pub fn mtu_of(&self, of: MtuOf) -> u16 {
        match self.settings.get(of.setting()) {
            0 => self.mtu,
            own => own.min(self.mtu),
        }
    }

    /// The tags it puts in front of frames.
    pub fn tags(&self) -> Tags {
        let Kind::Sub { encap: Encap::Tags { dot1ad, outer: Some(outer), inner, .. }, .. } = self.kind else {
            return Tags::default();
        };
        let mut t = Tags { count: 1, bytes: [0; 8] };
        t.bytes[..2].copy_from_slice(&if dot1ad { 0x88a8u16 } else { 0x8100 }.to_be_bytes());
        t.bytes[2..4].copy_from_slice(&outer.to_be_bytes());
        if let Some(Some(inner)) = inner {
            t.count = 2;
            t.bytes[4..6].copy_from_slice(&0x8100u16.to_be_bytes());
            t.bytes[6..8].copy_from_slice(&inner.to_be_bytes());
        }
        t
    }

    /// The FIB index of its table of a family.
    pub(crate) fn table(&self, v6: bool) -> FibIndex {
        self.tables[usize::from(v6)]
    }

    /// True where no station can be: on a loopback that is not the BVI of a bridge domain.
    pub fn is_alone(&self) -> bool {
        self.kind == Kind::Loopback && self.membership.is_none()
    }

    /// True where packets go to one other end, which needs no address on the link.
    pub fn is_point_to_point(&self) -> bool {
        matches!(self.kind, Kind::Virtual(k) if !k.frames)
    }

    /// True where no station is to be found or told of anything: on a loopback that is not the BVI of a bridge domain, and
    /// where packets go to one other end.
    pub fn is_without_stations(&self) -> bool {
        self.is_alone() || self.is_point_to_point()
    }

    /// The number of the interface whose queues carry its frames.
    pub fn hw(&self) -> u32 {
        if let Kind::Sub { parent, .. } = self.kind { parent } else { self.index }
    }

    /// Where it stands among all interfaces.
    pub fn order(&self) -> Order {
        let Kind::Sub { id, .. } = self.kind else { return (self.rank, None) };
        (self.rank, Some(id))
    }

    /// The driver's words about its device.
    pub fn device(&self) -> Option<&dyn DeviceControl> {
        self.device.as_deref()
    }

    /// What is done for packets that are sent over it.
    pub(crate) fn caps(&self) -> TxCaps {
        self.caps
    }

    pub(super) fn device_mut(&mut self) -> Option<&mut Box<dyn DeviceControl>> {
        self.device.as_mut()
    }

    pub(super) fn set_device(&mut self, device: Box<dyn DeviceControl>) {
        self.device = Some(device);
    }

    /// Packets that its devices dropped before they reached the graph, by reason.
    pub fn device_drops(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.device.as_ref().map(|d| d.drops()).unwrap_or_default();
        for (reason, n) in &self.earlier_drops {
            match all.iter_mut().find(|d| d.0 == *reason) {
                Some(d) => d.1 += n,
                None => all.push((reason, *n)),
            }
        }
        all
    }

    /// Its IPv6 addresses that are not usable (yet).
    pub fn unusable6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.all6().filter(|a| !self.usable6.contains(a))
    }

    /// All addresses that it was given, by the operator or elsewhere.
    pub fn configured(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.own_link_local.map(IpNet::V6).into_iter().chain(self.addresses.iter().copied())
    }

    /// Whether it has an IPv6 address of the operator's.
    pub fn has_ip6(&self) -> bool {
        self.configured().any(|a| a.addr().is_ipv6())
    }

    pub(super) fn all6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let configured = self.addresses.iter().filter_map(|a| match a.addr() {
            IpAddr::V6(a) => Some(a),
            IpAddr::V4(_) => None,
        });
        self.link_local.into_iter().chain(configured)
    }
}
