//! VXLAN tunnels on the control side.

use super::header::{self, MAX_VNI};
use crate::interface::{Fixup, Midchain, Varies};
use crate::protocols::LocalProtocol;
use crate::router::{BoxedOp, FloodClass, InterfaceOp, Named, OpError, Router, VirtualKind};
use crate::tunnel::{self, Identity, Outside, TunnelConfig, TunnelKind, TunnelOp};
use command::Command;
use packet::IpProtocol;
use packet::checksum::{Sum, pseudo6};
use packet::udp;
use std::net::IpAddr;

/// The largest number of a tunnel.
pub const MAX_INSTANCE: u32 = 2_147_483_647;
/// The largest IP packet inside, unless the operator says otherwise, bytes: members of a bridge domain have all the same.
pub const MTU: u16 = 1500;
/// The port that is VXLAN's.
pub const PORT: u16 = 4789;

static TO_END: VirtualKind = VirtualKind { word: "vxlan-tunnel", frames: true, flood: FloodClass::End };
static TO_GROUP: VirtualKind = VirtualKind { flood: FloodClass::Group, ..TO_END };

/// What the operator wants of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct VxlanConfig {
    /// This end.
    pub local: IpAddr,
    /// The other end, or a multicast group: all that are in it, over the interface that [`GroupInterface`] says.
    pub remote: IpAddr,
    /// Network identifier, 1 to [`MAX_VNI`].
    pub vni: u32,
    /// Number of the routing table in which both are addresses.
    pub table: u32,
    /// The UDP port to which the other end sends, not 0.
    pub local_port: u16,
    /// The UDP port to which this end sends, not 0.
    pub remote_port: u16,
    /// Over IPv6, packets have no UDP checksum (RFC 6935). Over IPv4 they never have.
    pub zero_checksum: bool,
    /// TTL or hop limit outside, 1 to 255; `None`: that of the packet inside.
    pub ttl: Option<u8>,
    /// DSCP outside, 0 to 63; `None`: that of the packet inside.
    pub dscp: Option<u8>,
}

impl VxlanConfig {
    /// A tunnel between two addresses of table 0, without options: TTL 64 and DSCP 0 outside.
    pub fn new(local: IpAddr, remote: IpAddr, vni: u32) -> Self {
        let Outside { table, ttl, dscp, .. } = Outside::new(local, remote);
        let (local_port, remote_port, zero_checksum) = (PORT, PORT, false);
        VxlanConfig { local, remote, vni, table, local_port, remote_port, zero_checksum, ttl, dscp }
    }

    /// What no two tunnels share.
    pub fn identity(&self) -> Identity {
        tunnel::identity::<Vxlan>(self)
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        Vxlan::check(self)
    }
}

/// What tells tunnels between two ends apart.
#[inline]
pub(super) fn id(vni: u32, port: u16) -> u64 {
    u64::from(port) << 32 | u64::from(vni)
}

/// The kind of tunnels.
pub struct Vxlan;

impl TunnelKind for Vxlan {
    type Config = VxlanConfig;
    const STEM: &'static str = "vxlan_tunnel";
    const MAX_INSTANCE: u32 = MAX_INSTANCE;
    const TITLE: &'static str = "VXLAN tunnel";
    const WORDS: &'static str = "vxlan tunnel";
    const PROTOCOL: IpProtocol = IpProtocol::UDP;
    const SAME: &'static str = "ends, VNI and port";
    const ANEW: &'static str =
        "a tunnel to a multicast group is another member of a bridge domain than one to an end";

    fn check(c: &VxlanConfig) -> Result<(), String> {
        if !(1..=MAX_VNI).contains(&c.vni) {
            return Err(format!("{} is no VNI: 1 to {MAX_VNI}", c.vni));
        }
        if c.local_port == 0 || c.remote_port == 0 {
            return Err("a port is 1 to 65535".into());
        }
        Self::outside(c).check(true)
    }

    fn outside(c: &VxlanConfig) -> Outside {
        Outside { local: c.local, remote: c.remote, table: c.table, ttl: c.ttl, dscp: c.dscp }
    }

    fn id(c: &VxlanConfig) -> Option<u64> {
        Some(id(c.vni, c.local_port))
    }

    fn interface(c: &VxlanConfig) -> &'static VirtualKind {
        if c.remote.is_multicast() { &TO_GROUP } else { &TO_END }
    }

    fn headers(c: &VxlanConfig) -> Vec<u8> {
        let udp = [0, c.remote_port, 0, 0].map(u16::to_be_bytes);
        [&udp.concat()[..], &header::emit(c.vni)].concat()
    }

    fn mtu(_: &VxlanConfig) -> u16 {
        MTU
    }

    fn sums(c: &VxlanConfig) -> bool {
        c.local.is_ipv6() && !c.zero_checksum
    }

    fn varies(_: &VxlanConfig) -> Varies {
        Varies::Flow
    }

    fn fixup(m: &Midchain, f: Fixup<'_>) {
        let len = f.headers.len() + f.len;
        let Some(h) = f.headers.first_chunk_mut::<{ udp::HEADER_LEN }>() else { return };
        Varies::udp(h, f.hash, len as u16);
        if m.sums {
            let address = |at: usize| m.template.get(at..).and_then(|a| a.first_chunk::<16>()).copied();
            let (Some(src), Some(dst)) = (address(8), address(24)) else { return };
            let mut sum = pseudo6(src.into(), dst.into(), IpProtocol::UDP, len as u32);
            sum.append(Sum::of(f.headers));
            sum.append(f.sum);
            if let Some(place) = f.headers.get_mut(6..8) {
                place.copy_from_slice(&sum.checksum_nonzero().to_be_bytes());
            }
        }
    }

    fn protocol() -> &'static LocalProtocol {
        &super::PROTOCOL
    }

    fn port(c: &VxlanConfig) -> Option<u16> {
        Some(c.local_port)
    }

    fn over(interface: Option<String>) -> Option<BoxedOp> {
        Some(BoxedOp::new(GroupInterface(interface)))
    }

    fn is_alike(from: &VxlanConfig, to: &VxlanConfig) -> bool {
        let form = |c: &VxlanConfig| (c.identity(), c.remote, c.remote_port);
        form(from) == form(to)
    }

    fn ends(c: &VxlanConfig) -> String {
        format!("VNI {} from {} to {}", c.vni, c.local, c.remote)
    }

    fn plain(c: &VxlanConfig) -> VxlanConfig {
        VxlanConfig::new(c.local, c.remote, c.vni)
    }

    fn options(from: &VxlanConfig, to: &VxlanConfig) -> Vec<String> {
        super::commands::options(from, to)
    }

    fn create(c: &VxlanConfig) -> Option<String> {
        // A tunnel to a group is made by a command that names its interface as well.
        let VxlanConfig { local, remote, vni, .. } = c;
        (!remote.is_multicast()).then(|| format!("create vxlan tunnel src {local} dst {remote} vni {vni}"))
    }

    fn commands() -> Vec<Command<Router>> {
        super::commands::all()
    }
}

/// A change of tunnels.
pub type VxlanOp = TunnelOp<VxlanConfig>;

impl TunnelConfig for VxlanConfig {
    type Kind = Vxlan;
}

/// The interface, by its name, over which the multicast group of a tunnel is; without one packets go nowhere.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupInterface(pub Option<String>);

impl InterfaceOp for GroupInterface {
    fn subject(&self) -> String {
        "group interface".into()
    }

    fn off(&self) -> Self {
        GroupInterface(None)
    }

    fn names(&self) -> Vec<Named> {
        self.0.iter().cloned().map(Named::Interface).collect()
    }

    fn take(self, router: &mut Router, index: u32) -> Result<Self, OpError> {
        let over = self.0.map(|name| {
            router.interface_index(&name).ok_or_else(|| OpError::new(format!("there is no interface {name}")))
        });
        let was = tunnel::send_over::<Vxlan>(router, index, over.transpose()?)?;
        Ok(GroupInterface(was.map(|i| router.interface_name(i))))
    }

    fn switches_on(&self) -> bool {
        false
    }

    fn names_others(&self) -> bool {
        true
    }

    fn is_essential(&self) -> bool {
        self.0.is_some()
    }

    fn words(&self, name: &str) -> (String, String) {
        let over = self.0.as_deref().unwrap_or("no interface");
        (format!("sends to a group over {over}"), format!("delete interface {name}"))
    }
}

/// A tunnel as it is.
pub type VxlanTunnel = tunnel::Tunnel<VxlanConfig>;

/// All tunnels, by interface.
pub fn tunnels(router: &Router) -> impl Iterator<Item = (u32, &VxlanTunnel)> {
    tunnel::tunnels::<Vxlan>(router)
}

/// The tunnel behind an interface.
pub fn tunnel(router: &Router, interface: u32) -> Option<&VxlanTunnel> {
    tunnel::tunnel::<Vxlan>(router, interface)
}
