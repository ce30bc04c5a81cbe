//! GRE tunnels on the control side.

use super::header::GreHeader;
use crate::interface::{Fixup, Midchain, Varies};
use crate::protocols::LocalProtocol;
use crate::router::{FloodClass, Router, VirtualKind};
use crate::tunnel::{self, Identity, Outside, TunnelConfig, TunnelKind, TunnelOp};
use command::Command;
use packet::IpProtocol;
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::{ip4, ip6};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest number of a tunnel.
pub const MAX_INSTANCE: u32 = 65_535;

static PACKETS: VirtualKind = VirtualKind { word: "gre-tunnel", frames: false, flood: FloodClass::End };
static FRAMES: VirtualKind = VirtualKind { word: "gre-tunnel", frames: true, flood: FloodClass::Link };

/// What the operator wants of a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct GreConfig {
    /// It carries frames (transparent Ethernet bridging) and not packets.
    pub teb: bool,
    /// This end.
    pub local: IpAddr,
    /// The other end.
    pub remote: IpAddr,
    /// Number of the routing table in which both are addresses.
    pub table: u32,
    /// The key in all its packets (RFC 2890 section 2.1).
    pub key: Option<u32>,
    /// Packets are numbered, and those that come late are dropped (RFC 2890 section 2.2).
    pub sequence: bool,
    /// Packets have a checksum. Those that come are checked in any case.
    pub checksum: bool,
    /// TTL or hop limit outside, 1 to 255; `None`: that of the packet inside.
    pub ttl: Option<u8>,
    /// DSCP outside, 0 to 63; `None`: that of the packet inside.
    pub dscp: Option<u8>,
}

impl GreConfig {
    /// A tunnel for packets between two addresses of table 0, without options: TTL 64 and DSCP 0 outside.
    pub fn new(local: IpAddr, remote: IpAddr) -> Self {
        let Outside { table, ttl, dscp, .. } = Outside::new(local, remote);
        let (key, sequence, checksum) = (None, false, false);
        GreConfig { teb: false, local, remote, table, key, sequence, checksum, ttl, dscp }
    }

    /// The largest IP packet that fits into one of 1500 bytes, bytes.
    pub fn mtu(&self) -> u16 {
        Gre::mtu(self)
    }

    /// What no two tunnels share.
    pub fn identity(&self) -> Identity {
        tunnel::identity::<Gre>(self)
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        Gre::check(self)
    }
}

/// The kind of tunnels.
pub struct Gre;

impl TunnelKind for Gre {
    type Config = GreConfig;
    const STEM: &'static str = "gre";
    const MAX_INSTANCE: u32 = MAX_INSTANCE;
    const TITLE: &'static str = "GRE tunnel";
    const WORDS: &'static str = "gre tunnel";
    const PROTOCOL: IpProtocol = IpProtocol::GRE;
    const SAME: &'static str = "ends and key";
    const ANEW: &'static str = "a tunnel for frames is another interface than one for packets";

    fn check(c: &GreConfig) -> Result<(), String> {
        Self::outside(c).check(false)
    }

    fn outside(c: &GreConfig) -> Outside {
        Outside { local: c.local, remote: c.remote, table: c.table, ttl: c.ttl, dscp: c.dscp }
    }

    fn id(c: &GreConfig) -> Option<u64> {
        c.key.map(u64::from)
    }

    fn interface(c: &GreConfig) -> &'static VirtualKind {
        if c.teb { &FRAMES } else { &PACKETS }
    }

    fn headers(c: &GreConfig) -> Vec<u8> {
        let protocol = EtherType::TRANSPARENT_ETHERNET;
        let sequence = c.sequence.then_some(0);
        let (gre, len) = GreHeader { protocol, checksum: c.checksum, key: c.key, sequence }.emit();
        gre[..len].to_vec()
    }

    fn mtu(c: &GreConfig) -> u16 {
        let frame = if c.teb { packet::eth::HEADER_LEN } else { 0 };
        let ip = if c.local.is_ipv4() { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
        1500 - (ip + Self::headers(c).len() + frame) as u16
    }

    fn sums(c: &GreConfig) -> bool {
        c.checksum
    }

    fn varies(c: &GreConfig) -> Varies {
        if c.sequence { Varies::More } else { Varies::Kind }
    }

    fn fixup(m: &Midchain, f: Fixup<'_>) {
        let [flags, _, a, b, ..] = f.headers else { return };
        let (numbered, summed) = (*flags & 0x10 != 0, *flags & 0x80 != 0);
        [*a, *b] = f.inside.0.to_be_bytes();
        if numbered && let Some(last) = f.headers.last_chunk_mut::<4>() {
            *last = m.sequence.fetch_add(1, Relaxed).to_be_bytes();
        }
        if summed {
            let mut sum = Sum::of(f.headers);
            sum.append(f.sum);
            if let Some(place) = f.headers.get_mut(4..6) {
                place.copy_from_slice(&sum.checksum().to_be_bytes());
            }
        }
    }

    fn last(c: &GreConfig) -> Option<Arc<AtomicU64>> {
        c.sequence.then(|| Arc::new(AtomicU64::new(0)))
    }

    fn protocol() -> &'static LocalProtocol {
        &super::PROTOCOL
    }

    fn is_alike(from: &GreConfig, to: &GreConfig) -> bool {
        let form = |c: &GreConfig| (c.identity(), c.sequence, c.checksum);
        form(from) == form(to)
    }

    fn ends(c: &GreConfig) -> String {
        format!("from {} to {}", c.local, c.remote)
    }

    fn plain(c: &GreConfig) -> GreConfig {
        GreConfig::new(c.local, c.remote)
    }

    fn options(from: &GreConfig, to: &GreConfig) -> Vec<String> {
        super::commands::options(from, to)
    }

    fn create(c: &GreConfig) -> Option<String> {
        Some(format!("create gre tunnel src {} dst {}", c.local, c.remote))
    }

    fn commands() -> Vec<Command<Router>> {
        super::commands::all()
    }
}

/// A change of tunnels.
pub type GreOp = TunnelOp<GreConfig>;

impl TunnelConfig for GreConfig {
    type Kind = Gre;
}

/// A tunnel as it is.
pub type GreTunnel = tunnel::Tunnel<GreConfig>;

/// All tunnels, by interface.
pub fn tunnels(router: &Router) -> impl Iterator<Item = (u32, &GreTunnel)> {
    tunnel::tunnels::<Gre>(router)
}

/// The tunnel behind an interface.
pub fn tunnel(router: &Router, interface: u32) -> Option<&GreTunnel> {
    tunnel::tunnel::<Gre>(router, interface)
}
