//! GRE tunnels as a part of the control side.

use super::header::GreHeader;
use super::{AllInbound, Ends, Inbound};
use crate::interface::{Fixup, MIDCHAIN_TX, Midchain};
use crate::router::{NewVirtual, Op, OpError, Part, PartOp, RouteTable, Router, VirtualKind};
use command::Command;
use graph::arcs::Feature;
use packet::checksum::Sum;
use packet::eth::{EtherType, MacAddr};
use packet::ip4::{self, Ip4Builder};
use packet::ip6::{self, Ip6Builder};
use packet::{IpProtocol, flow};
use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The largest number of a tunnel.
pub const MAX_INSTANCE: u32 = 65_535;

static PACKETS: VirtualKind = VirtualKind { word: "gre-tunnel", frames: false };
static FRAMES: VirtualKind = VirtualKind { word: "gre-tunnel", frames: true };

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
        GreConfig {
            teb: false,
            local,
            remote,
            table: 0,
            key: None,
            sequence: false,
            checksum: false,
            ttl: Some(64),
            dscp: Some(0),
        }
    }

    /// The largest IP packet that fits into one of 1500 bytes, bytes.
    pub fn mtu(&self) -> u16 {
        let frame = if self.teb { packet::eth::HEADER_LEN } else { 0 };
        1500 - (self.template().len() + frame) as u16
    }

    /// Whether packets could not tell the two tunnels apart.
    pub fn has_ends_of(&self, other: &GreConfig) -> bool {
        let ends = |c: &GreConfig| (c.local, c.remote, c.table, c.key);
        ends(self) == ends(other)
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let (local, remote) = (self.local, self.remote);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(format!("{local} and {remote} are of two families"));
        }
        for a in [local, remote] {
            let link_local = matches!(a, IpAddr::V6(a) if a.is_unicast_link_local());
            let reserved = matches!(a, IpAddr::V4(a) if a.octets()[0] == 0 || a.octets()[0] >= 240);
            if a.is_unspecified() || a.is_multicast() || a.is_loopback() || link_local || reserved {
                return Err(format!("{a} cannot be an end of a tunnel: an address that is routed is needed"));
            }
        }
        if local == remote {
            return Err(format!("both ends are {local}"));
        }
        if self.ttl == Some(0) {
            return Err("a TTL is 1 to 255".into());
        }
        if self.dscp.is_some_and(|d| d > 63) {
            return Err("a DSCP is 0 to 63".into());
        }
        Ok(())
    }

    /// The headers in front of its packets.
    fn template(&self) -> Vec<u8> {
        let mut out = vec![0; ip6::HEADER_LEN];
        let (gre, gre_len) = GreHeader {
            protocol: EtherType::TRANSPARENT_ETHERNET,
            checksum: self.checksum,
            key: self.key,
            sequence: self.sequence.then_some(0),
        }
        .emit();
        let len = match (self.local, self.remote) {
            (IpAddr::V4(l), IpAddr::V4(r)) => Ip4Builder::new(l, r, IpProtocol::GRE).emit(&mut out, 0),
            (IpAddr::V6(l), IpAddr::V6(r)) => Ip6Builder::new(l, r, IpProtocol::GRE).emit(&mut out, 0),
            _ => Ok(0),
        };
        out.truncate(len.unwrap_or(0));
        if self.local.is_ipv4() {
            // Worked out with each packet.
            out[ip4::HEADER_LEN - 10..][..2].fill(0);
        }
        out.extend_from_slice(&gre[..gre_len]);
        out
    }
}

/// Completes a GRE header.
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

/// A change of tunnels.
#[derive(Clone, Debug, PartialEq)]
pub enum GreOp {
    /// Makes a tunnel `greN`.
    Create {
        /// N.
        instance: u32,
        /// What it is.
        config: GreConfig,
    },
}

/// Its name: `gre0`.
fn name(instance: u32) -> String {
    format!("gre{instance}")
}

impl PartOp for GreOp {
    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        let GreOp::Create { instance, config } = &self;
        let name = name(*instance);
        let fail = |why: String| Err(OpError::new(format!("{name}: {why}")));
        if *instance > MAX_INSTANCE {
            return fail(format!("tunnels are gre0 to gre{MAX_INSTANCE}"));
        }
        if let Err(why) = config.check() {
            return fail(why);
        }
        let table = RouteTable::of(config.local, config.table);
        let place = router.place_of(table)?;
        let ends = Ends::new(config.local, config.remote, place, config.key);
        if let Some(other) = router.state::<State>().and_then(|s| s.inbound.get(&ends)) {
            let other = router.interface_name(other.interface);
            return fail(format!("{other} has the same ends and key: packets would not tell them apart"));
        }
        let group = router.hold_way_to(table, config.remote)?;
        let midchain = Midchain {
            template: config.template().into(),
            remote: config.remote,
            v6: config.local.is_ipv6(),
            frames: config.teb,
            group,
            table: place,
            ttl: config.ttl,
            dscp: config.dscp,
            sums: config.checksum,
            fixup,
            sequence: AtomicU32::new(0),
        };
        // The ends differ, and so do their addresses on the link: they are the same after a restart.
        let own =
            flow::hash6(ends.local, ends.remote, config.key.unwrap_or(0), IpProtocol::GRE, 0, *instance);
        let [a, b, c, d] = own.to_be_bytes();
        let new = NewVirtual {
            name: name.clone(),
            kind: if config.teb { &FRAMES } else { &PACKETS },
            origin: self.clone().into(),
            mac: MacAddr([0x02, 0xfe, a, b, c, d]),
            mtu: config.mtu(),
        };
        let last = config.sequence.then(|| Arc::new(AtomicU64::new(0)));
        let tunnel = GreTunnel { config: config.clone(), midchain: Arc::new(midchain), ends };
        let frames = config.teb;
        let made = router.create_virtual(new, |router, interface| {
            if let Some(s) = router.state_mut::<State>() {
                s.inbound.insert(ends, Inbound { interface, frames, last });
                s.tunnels.insert(interface, tunnel);
            }
            publish(router);
        });
        if let Err(e) = made {
            router.let_go(group);
            return Err(e);
        }
        Ok(vec![Op::Delete { name }])
    }

    fn log_line(&self) -> Option<String> {
        let GreOp::Create { instance, config } = self;
        Some(format!("interface {}: GRE tunnel from {} to {}", name(*instance), config.local, config.remote))
    }
}

/// Shows workers the tunnels from which packets come.
fn publish(router: &mut Router) {
    let all = router.state::<State>().map(|s| s.inbound.clone()).unwrap_or_default();
    for v6 in [false, true] {
        router.take_protocol(&super::PROTOCOL, v6, all.keys().any(|ends| ends.v6 == v6));
    }
    router.publish(all);
}

/// A tunnel as it is.
pub struct GreTunnel {
    /// What the operator wants of it.
    pub config: GreConfig,
    midchain: Arc<Midchain>,
    ends: Ends,
}

impl GreTunnel {
    /// The next-hop group that leads to the other end.
    pub fn group(&self) -> u32 {
        self.midchain.group
    }
}

/// All tunnels.
#[derive(Default)]
struct State {
    tunnels: BTreeMap<u32, GreTunnel>,
    inbound: AllInbound,
}

/// All tunnels, by interface.
pub fn tunnels(router: &Router) -> impl Iterator<Item = (u32, &GreTunnel)> {
    router.state::<State>().into_iter().flat_map(|s| s.tunnels.iter().map(|(i, t)| (*i, t)))
}

/// The tunnel behind an interface.
pub fn tunnel(router: &Router, interface: u32) -> Option<&GreTunnel> {
    router.state::<State>()?.tunnels.get(&interface)
}

/// The part.
pub(crate) struct Gre;

impl Part for Gre {
    fn state(&self, _seed: u64) -> Box<dyn Any + Send> {
        Box::new(State::default())
    }

    fn commands(&self) -> Vec<Command<Router>> {
        super::commands::all()
    }

    fn midchain(&self, router: &Router, index: u32) -> Option<Arc<Midchain>> {
        tunnel(router, index).map(|t| Arc::clone(&t.midchain))
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        tunnel(router, index).map(|_| &MIDCHAIN_TX).into_iter().collect()
    }

    fn uses_table(&self, router: &Router, v6: bool, place: u32) -> Option<String> {
        let used = |t: &GreTunnel| t.midchain.v6 == v6 && t.midchain.table == place;
        let (index, _) = tunnels(router).find(|(_, t)| used(t))?;
        let name = router.interface_name(index);
        Some(format!("the ends of {name} are in it (delete interface {name})"))
    }

    fn removed(&self, router: &mut Router, index: u32) {
        let gone = router.state_mut::<State>().and_then(|s| {
            let t = s.tunnels.remove(&index)?;
            s.inbound.remove(&t.ends);
            Some(t)
        });
        if let Some(t) = gone {
            publish(router);
            router.let_go(t.midchain.group);
        }
    }
}
