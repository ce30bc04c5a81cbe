//! Links as the kernel tells them (linux/if_link.h).

use crate::wire::{Attributes, u16_at, u32_at};
use std::net::IpAddr;

/// Bytes of `struct ifinfomsg`.
pub const IFINFOMSG: usize = 16;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
/// Linux's index of the device that has another.
pub const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const IFLA_INFO_SLAVE_KIND: u16 = 4;
const IFLA_INFO_SLAVE_DATA: u16 = 5;
const IFLA_BR_AGEING_TIME: u16 = 4;
const IFLA_BR_VLAN_FILTERING: u16 = 7;
const IFLA_BRPORT_LEARNING: u16 = 8;
const IFLA_VLAN_ID: u16 = 1;
const IFLA_VLAN_PROTOCOL: u16 = 5;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
const IFLA_VRF_TABLE: u16 = 1;
const IFLA_VXLAN_ID: u16 = 1;
const IFLA_VXLAN_LOCAL: u16 = 4;
const IFLA_VXLAN_TTL: u16 = 5;
const IFLA_VXLAN_LEARNING: u16 = 7;
const IFLA_VXLAN_PORT: u16 = 15;
const IFLA_VXLAN_LOCAL6: u16 = 17;
const IFLA_VXLAN_UDP_ZERO_CSUM6_TX: u16 = 19;
const IFLA_VXLAN_COLLECT_METADATA: u16 = 25;
/// Kinds of devices that live on the frames of another one.
const UPON: [&[u8]; 6] = [b"vlan", b"macvlan", b"macvtap", b"ipvlan", b"ipvtap", b"macsec"];
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 1 << 3;
/// The table that packets without a rule of their own are routed by.
const RT_TABLE_MAIN: u32 = 254;
/// The carrier itself: IFF_RUNNING follows it up to a second late.
const IFF_LOWER_UP: u32 = 1 << 16;

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Linux's index of it.
    pub ifindex: u32,
    /// Its name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// It has carrier.
    pub carrier: bool,
    /// Bytes behind the Ethernet header; 0 when the message does not tell.
    pub mtu: u32,
    /// Its address, where it has one of six bytes.
    pub mac: Option<[u8; 6]>,
    /// Linux's index of the bridge, bond or VRF that it is in; 0: none.
    pub master: u32,
    /// It is a port of a bridge, which learns addresses on it or not.
    pub port: Option<bool>,
    /// Linux's index of the device on whose frames it lives, where that is in the same namespace: it is a VLAN, MACVLAN, IPVLAN or
    /// MACsec device.
    pub upon: Option<u32>,
    /// What it is, of what there is more to know of.
    pub kind: LinkKind,
}

/// What a device is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// A bridge.
    Bridge {
        /// After how long addresses are forgotten, hundredths of a second; 0: at once.
        ageing: u32,
        /// It tells VLANs apart.
        vlans: bool,
    },
    /// A VXLAN device.
    Vxlan(Vxlan),
    /// A VLAN device.
    Vlan(Vlan),
    /// A VRF device.
    Vrf {
        /// Number of its table.
        table: u32,
    },
    /// The host's own, `lo`.
    Loopback,
    /// Anything else.
    #[default]
    Other,
}

/// A VLAN device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vlan {
    /// The VLAN.
    pub id: u16,
    /// The tag is one of 802.1ad.
    pub dot1ad: bool,
}

/// A VXLAN device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vxlan {
    /// The network identifier.
    pub vni: u32,
    /// The address from which it sends, where it has one.
    pub local: Option<IpAddr>,
    /// The UDP port, of both ends.
    pub port: u16,
    /// TTL or hop limit outside; 0: the kernel's own.
    pub ttl: u8,
    /// It learns where addresses are.
    pub learning: bool,
    /// Over IPv6 it sends no UDP checksum.
    pub zero_checksum: bool,
    /// It is told the network identifier by packet.
    pub external: bool,
}

impl Link {
    /// The table by which packets are routed that Linux takes a label off and sends over the device.
    pub fn table(&self) -> Option<u32> {
        match self.kind {
            LinkKind::Vrf { table } => Some(table),
            LinkKind::Loopback => Some(RT_TABLE_MAIN),
            _ => None,
        }
    }
}

impl LinkKind {
    fn bridge(data: &[u8]) -> Option<LinkKind> {
        let (mut ageing, mut vlans) = (0, false);
        for (kind, value) in Attributes(data) {
            match kind {
                IFLA_BR_AGEING_TIME => ageing = u32_at(value, 0)?,
                IFLA_BR_VLAN_FILTERING => vlans = *value.first()? != 0,
                _ => {}
            }
        }
        Some(LinkKind::Bridge { ageing, vlans })
    }

    fn vlan(data: &[u8]) -> Option<LinkKind> {
        let (mut vlan, mut protocol) = (Vlan::default(), ETH_P_8021Q);
        for (kind, value) in Attributes(data) {
            match kind {
                IFLA_VLAN_ID => vlan.id = u16_at(value, 0)?,
                IFLA_VLAN_PROTOCOL => protocol = u16_at(value, 0).map(u16::from_be)?,
                _ => {}
            }
        }
        vlan.dot1ad = protocol == ETH_P_8021AD;
        Some(LinkKind::Vlan(vlan))
    }

    fn vxlan(data: &[u8]) -> Option<LinkKind> {
        let mut v = Vxlan::default();
        for (kind, value) in Attributes(data) {
            match kind {
                IFLA_VXLAN_ID => v.vni = u32_at(value, 0)?,
                IFLA_VXLAN_LOCAL | IFLA_VXLAN_LOCAL6 => v.local = crate::route::address(value),
                IFLA_VXLAN_TTL => v.ttl = *value.first()?,
                IFLA_VXLAN_LEARNING => v.learning = *value.first()? != 0,
                IFLA_VXLAN_PORT => v.port = u16_at(value, 0).map(u16::from_be)?,
                IFLA_VXLAN_UDP_ZERO_CSUM6_TX => v.zero_checksum = *value.first()? != 0,
                IFLA_VXLAN_COLLECT_METADATA => v.external = *value.first()? != 0,
                _ => {}
            }
        }
        v.local = v.local.filter(|a| !a.is_unspecified());
        Some(LinkKind::Vxlan(v))
    }
}

/// What `IFLA_LINKINFO` says: the kind of a device, and what it is as a port of a bridge.
fn info(nested: &[u8], link: &mut Link) -> Option<()> {
    let (mut kind, mut data, mut slave, mut slave_data) = (&[][..], &[][..], &[][..], &[][..]);
    for (attribute, value) in Attributes(nested) {
        match attribute {
            IFLA_INFO_KIND => kind = value,
            IFLA_INFO_DATA => data = value,
            IFLA_INFO_SLAVE_KIND => slave = value,
            IFLA_INFO_SLAVE_DATA => slave_data = value,
            _ => {}
        }
    }
    let kind = kind.strip_suffix(&[0]).unwrap_or(kind);
    if !UPON.contains(&kind) {
        link.upon = None;
    }
    match kind {
        b"bridge" => link.kind = LinkKind::bridge(data)?,
        b"vxlan" => link.kind = LinkKind::vxlan(data)?,
        b"vlan" => link.kind = LinkKind::vlan(data)?,
        b"vrf" => {
            let (_, table) = Attributes(data).find(|(kind, _)| *kind == IFLA_VRF_TABLE)?;
            link.kind = LinkKind::Vrf { table: u32_at(table, 0)? };
        }
        _ => {}
    }
    if slave.strip_suffix(&[0]).unwrap_or(slave) == b"bridge" {
        let told = Attributes(slave_data).find(|(kind, _)| *kind == IFLA_BRPORT_LEARNING);
        link.port = Some(told.and_then(|(_, v)| v.first().copied()) != Some(0));
    }
    Some(())
}

/// The link of a message. `None` for one that is not as it should be, and for what a bridge tells of its ports under a family of
/// its own: their coming and going is not the device's.
pub fn parse(body: &[u8]) -> Option<Link> {
    let head = body.get(..IFINFOMSG)?;
    if head[0] != 0 {
        return None;
    }
    let flags = u32_at(head, 8)?;
    let mut link = Link {
        ifindex: u32_at(head, 4)?,
        name: String::new(),
        up: flags & IFF_UP != 0,
        carrier: flags & IFF_LOWER_UP != 0,
        mtu: 0,
        mac: None,
        master: 0,
        port: None,
        upon: None,
        kind: if flags & IFF_LOOPBACK != 0 { LinkKind::Loopback } else { LinkKind::Other },
    };
    let (mut nested, mut below, mut elsewhere) = (&[][..], None, false);
    for (kind, value) in Attributes(&body[IFINFOMSG..]) {
        match kind {
            IFLA_LINK => below = Some(u32_at(value, 0)?),
            IFLA_LINK_NETNSID => elsewhere = true,
            IFLA_IFNAME => {
                let text = value.split(|b| *b == 0).next().unwrap_or_default();
                link.name = String::from_utf8_lossy(text).into_owned();
            }
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_ADDRESS => link.mac = value.try_into().ok(),
            IFLA_MASTER => link.master = u32_at(value, 0)?,
            IFLA_LINKINFO => nested = value,
            _ => {}
        }
    }
    link.upon = below.filter(|_| !elsewhere);
    info(nested, &mut link)?;
    Some(link)
}
