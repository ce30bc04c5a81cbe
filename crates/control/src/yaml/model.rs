//! The typed document: plain data in which every name and rule has been checked.

use net::labels::OutLabels;
use net::router::{Lookup, Rank, TapAddresses};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use command::Access;
pub use drivers::Offload;
use ipnet::IpNet;
pub use net::dpdk::DpdkConfig;
use net::punt::{Class, Limit};
pub use net::router::Encap;
pub use net::router::{HostDriver, Kept, XdpMode};
use packet::MacAddr;

use super::acl::{Acl, AclUse};
use super::diag::{Diagnostic, Diagnostics, Place, Source};
use super::l3::Setting;
use super::scalar::Reference;
use super::sflow::Sflow;
use super::stream::Stream;
use super::table::Tables;

/// A whole configuration, checked.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// The process as a whole: workers, buffers, sockets, log.
    pub settings: Settings,
    /// Devices and TAPs in the order of `interfaces`, then TAPs that stand only in `taps`, then loopbacks.
    pub interfaces: Vec<Interface>,
    /// Access control lists: not supported yet.
    pub acls: Vec<Acl>,
    /// How packets are sampled: not supported yet.
    pub sflow: Option<Sflow>,
    /// Bridge domains.
    pub bridges: Vec<BridgeDomain>,
    /// Routing tables.
    pub tables: Tables,
    /// Static routes.
    pub routes: Routes,
    /// Label tables and labels.
    pub mpls: super::Mpls,
    /// Static neighbours.
    pub neighbors: Vec<Neighbor>,
    /// What the section `l2` asks for, in the order in which it is to be applied.
    pub l2: Vec<Setting>,
    /// What the section `l3` asks for, in the order in which it is to be applied.
    pub l3: Vec<Setting>,
    /// Mirrors.
    pub span: Vec<Setting>,
    /// Pairs in Linux, and what holds for them.
    pub linux_cp: Vec<Setting>,
    /// What interfaces that features make are told of others.
    pub virtuals: Vec<Setting>,
    /// Limits of packets for the router itself; classes that it does not name keep theirs.
    pub punt: Vec<PuntLimit>,
    /// Streams of the packet generator.
    pub streams: Vec<Stream>,
    /// What the operator should know of a document that is right, such as fields that are not supported yet.
    pub notes: Vec<Diagnostic>,
    /// The text, for errors that only show when the document is applied.
    pub source: Arc<Source>,
}

impl Document {
    /// The interface of this name (not a sub-interface).
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|i| i.name == name)
    }

    /// The document, when a router can run it as it stands.
    ///
    /// # Errors
    /// What is not supported yet.
    pub fn runnable(self) -> Result<Document, Diagnostics> {
        self.supported().map(|()| self)
    }

    /// Whether a router can run it as it stands.
    ///
    /// # Errors
    /// What is not supported yet.
    pub fn supported(&self) -> Result<(), Diagnostics> {
        (Diagnostics { errors: self.notes.clone() }).refused().map_or(Ok(()), Err)
    }

    /// Errors found after loading, such as a device that does not exist, with file name and excerpt.
    pub fn refuse(&self, errors: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics::new(&self.source, errors)
    }
}

/// An interface, of whatever kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Interface {
    /// Name in Quiver.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Its path in the document, such as `loopbacks.loop0`.
    pub path: String,
    /// What stands behind it.
    pub kind: InterfaceKind,
    /// Free text.
    pub description: Option<String>,
    /// MAC address to set; the device's own when absent.
    pub mac: Option<MacAddr>,
    /// Takes frames for any station.
    pub promiscuous: bool,
    /// Receive queues of its device whose worker is chosen.
    pub placement: Vec<QueuePlace>,
    /// Among which workers its packets are shared out, and where that stands.
    pub handoff: Option<(Place, net::steering::HandoffConfig)>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Where the MTU stands, or the name when the document gives none.
    pub mtu_place: Place,
    /// Own addresses, at most six.
    pub addresses: Vec<Address>,
    /// Name of its pair in Linux, in the default namespace.
    pub lcp: Option<Reference>,
    /// The interface whose addresses it uses as its own.
    pub unnumbered: Option<Reference>,
    /// Takes labelled packets.
    pub mpls: bool,
    /// The interface every received packet is sent to.
    pub l2xc: Option<Reference>,
    /// Access control lists: not supported yet.
    pub acls: AclUse,
    /// Administrative state.
    pub up: bool,
    /// Sub-interfaces in the order of the document.
    pub sub_interfaces: Vec<SubInterface>,
}

/// What stands behind an interface.
#[derive(Debug, Clone, PartialEq)]
pub enum InterfaceKind {
    /// A driver of `devices`.
    Device(Device),
    /// A TAP that Quiver creates.
    Tap(Tap),
    /// A loopback.
    Loopback,
    /// An MPLS tunnel.
    MplsTunnel(super::MplsTunnel),
    /// One that a feature makes.
    Virtual(super::Virtual),
}

impl InterfaceKind {
    /// No entry of `devices` says anything of what stands behind it.
    pub(super) fn is_without_device(&self) -> bool {
        matches!(self, Self::MplsTunnel(_) | Self::Virtual(_))
    }

    /// A tunnel that carries frames.
    pub(super) fn is_tunnel_of_frames(&self) -> bool {
        match self {
            Self::MplsTunnel(t) => t.l2_only,
            Self::Virtual(v) => v.frames,
            _ => false,
        }
    }

    /// Packets go to one other end.
    pub(crate) fn is_point_to_point(&self) -> bool {
        matches!(self, Self::Virtual(v) if !v.frames)
    }
}

/// A sub-interface; its full name is `parent.id`.
#[derive(Debug, Clone, PartialEq)]
pub struct SubInterface {
    /// Identifier under the parent.
    pub id: u32,
    /// Full name, such as `ge0.100`.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Its path in the document.
    pub path: String,
    /// Free text.
    pub description: Option<String>,
    /// The frames it takes; `None` when that was given wrong, which is never the case in a document that was read.
    pub encapsulation: Option<Encap>,
    /// Largest IP packet, in bytes; the parent's when the document gives none.
    pub mtu: u16,
    /// Where the MTU stands, or the name when the document gives none.
    pub mtu_place: Place,
    /// Own addresses, at most six.
    pub addresses: Vec<Address>,
    /// Takes frames for any station.
    pub promiscuous: bool,
    /// As on an interface.
    pub lcp: Option<Reference>,
    /// As on an interface.
    pub unnumbered: Option<Reference>,
    /// Takes labelled packets.
    pub mpls: bool,
    /// As on an interface.
    pub l2xc: Option<Reference>,
    /// As on an interface.
    pub acls: AclUse,
    /// Administrative state.
    pub up: bool,
    /// It may be up under a parent that is down.
    pub follows: bool,
}

/// An interface's own address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Address {
    /// Address and prefix length.
    pub net: IpNet,
    /// Where it stands.
    pub place: Place,
}

/// A receive queue and the worker that polls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePlace {
    /// Where the document says so.
    pub place: Place,
    /// Number of the queue, from 0.
    pub queue: u16,
    /// Number of the worker, from 0.
    pub worker: u16,
}

/// The driver behind an interface, from `devices` or by default.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Where `devices` speaks of it, or where the interface stands.
    pub place: Place,
    /// The driver and what only it knows.
    pub driver: Driver,
    /// Receive queues, 1..64.
    pub rx_queues: u16,
    /// Transmit queues, 1..64.
    pub tx_queues: u16,
}

/// A driver with its own settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Driver {
    /// A Linux device.
    Linux {
        /// Who brings its packets.
        by: HostDriver,
        /// Where AF_XDP's program works; where it works best when absent.
        mode: Option<XdpMode>,
        /// Frames that AF_XDP leaves to Linux.
        kept: Vec<Kept>,
        /// Name of the Linux device.
        host: String,
        /// Network namespace of the device; Quiver's own when absent.
        namespace: Option<String>,
        /// Slots of a receive ring; by the driver's own choice when absent.
        rx_slots: Option<u32>,
        /// Layout of the receive ring.
        ring: RingVersion,
        /// Who completes checksums and cuts super-frames that are sent.
        offload: Offload,
    },
    /// A device of DPDK's, with all that it is to be.
    Dpdk(DpdkConfig),
    /// Capture files in place of a wire.
    Pcap {
        /// File that received packets are read from.
        read: Option<String>,
        /// File that sent packets are written to.
        write: Option<String>,
        /// Speed of reading.
        rate: Rate,
        /// Start again at the end of the file.
        repeat: bool,
    },
}

/// Layout of an AF_PACKET receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingVersion {
    /// One frame a slot.
    TpacketV2,
    /// Blocks of frames.
    TpacketV3,
}

/// Packets a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// As fast as it goes.
    Max,
    /// This many packets a second, at least 1.
    Pps(u64),
}

/// A TAP and its host side.
#[derive(Debug, Clone, PartialEq)]
pub struct Tap {
    /// Where `taps` speaks of it.
    pub place: Place,
    /// Free text.
    pub description: Option<String>,
    /// Name of the Linux side.
    pub host_name: String,
    /// MAC of the Linux side.
    pub host_mac: Option<MacAddr>,
    /// MTU of the Linux side, equal to the interface's.
    pub host_mtu: u16,
    /// Addresses and default gateways of the Linux side.
    pub addresses: TapAddresses,
    /// Linux bridge that the Linux side joins.
    pub bridge: Option<String>,
    /// Create that bridge when it is missing.
    pub bridge_create: bool,
    /// Network namespace of the Linux side.
    pub namespace: Option<String>,
    /// Create that namespace when it is missing.
    pub namespace_create: bool,
    /// Slots of the receive ring, a power of two.
    pub rx_ring_size: u32,
    /// Slots of the transmit ring, a power of two.
    pub tx_ring_size: u32,
    /// The Linux side outlives Quiver.
    pub persistent: bool,
    /// It may have addresses and sub-interfaces.
    pub routed: bool,
    /// Receive queues, 1..64.
    pub rx_queues: u16,
    /// Transmit queues, 1..64.
    pub tx_queues: u16,
    /// Who completes checksums and cuts super-frames.
    pub offload: Offload,
}

/// A bridge domain.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeDomain {
    /// Its number, 1..16777215.
    pub id: u32,
    /// Its name, `bdN`.
    pub name: String,
    /// Where the document speaks of it.
    pub place: Place,
    /// Its path in the document, such as `bridgedomains.bd10`.
    pub path: String,
    /// Free text.
    pub description: Option<String>,
    /// MTU that all its members and its BVI have, in bytes.
    pub mtu: u16,
    /// The loopback through which the bridge is routed.
    pub bvi: Option<Reference>,
    /// Interfaces and sub-interfaces that it bridges, without the BVI.
    pub members: Vec<Reference>,
    /// How it forwards.
    pub settings: BridgeSettings,
}

/// How a bridge domain forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeSettings {
    /// Learn source addresses.
    pub learn: bool,
    /// Flood broadcast and multicast frames.
    pub unicast_flood: bool,
    /// Flood frames to unknown unicast addresses.
    pub unknown_unicast_flood: bool,
    /// Forward frames to known unicast addresses.
    pub unicast_forward: bool,
    /// Answer ARP and neighbour solicitations for known addresses.
    pub arp_termination: bool,
    /// Forward ARP requests as unicast where the address is known.
    pub arp_unicast_forward: bool,
    /// Minutes after which a learned address is forgotten; 0: never.
    pub mac_age_minutes: u8,
}

impl Default for BridgeSettings {
    fn default() -> BridgeSettings {
        BridgeSettings {
            learn: true,
            unicast_flood: true,
            unknown_unicast_flood: true,
            unicast_forward: true,
            arp_termination: false,
            arp_unicast_forward: false,
            mac_age_minutes: 0,
        }
    }
}

/// A static route.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Number of its table.
    pub table: u32,
    /// Destination, without host bits.
    pub prefix: IpNet,
    /// Preference and metric.
    pub rank: Rank,
    /// What happens to its packets.
    pub target: RouteTarget,
    /// Where the prefix stands.
    pub place: Place,
}

/// The static routes of a document, with targets that many of them share.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Routes {
    /// What their packets may meet.
    pub targets: Vec<RouteTarget>,
    /// For each target the number of the table of its routes.
    pub tables: Vec<u32>,
    /// For each target preference and metric of its routes.
    pub ranks: Vec<Rank>,
    /// Prefix, number of the target, and where the prefix stands; in the order of the document.
    pub list: Vec<(IpNet, u32, Place)>,
}

impl Routes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Preference and metric of the routes to a target.
    pub fn rank(&self, target: u32) -> Rank {
        self.ranks.get(target as usize).copied().unwrap_or(Rank::STATIC)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The routes one by one.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        self.list.iter().filter_map(|&(prefix, target, place)| {
            let table = self.tables.get(target as usize).copied().unwrap_or(0);
            let rank = self.rank(target);
            let target = self.targets.get(target as usize)?.clone();
            Some(Route { table, prefix, rank, target, place })
        })
    }
}

/// What happens to a route's packets.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteTarget {
    /// Sent over one or more paths, shared out by flow in proportion to their weights.
    Paths(Vec<RoutePath>),
    /// Dropped in silence.
    Drop,
    /// Dropped, with ICMP host unreachable / no route.
    Unreachable,
    /// Dropped, with ICMP administratively prohibited.
    Prohibit,
}

/// One way of a route: at least one of address and interface is there.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutePath {
    /// Next hop, of the prefix's family, or an IPv6 one for an IPv4 prefix.
    pub address: Option<IpAddr>,
    /// Interface or sub-interface; alone, destinations are taken as neighbours on it.
    pub interface: Option<String>,
    /// Number of the table in which the address is looked up, in place of the route's own; alone, that in which packets
    /// are looked up again.
    pub table: Option<u32>,
    /// Share, 1..255.
    pub weight: u8,
    /// Largest IP packet with its labels, bytes; 0: as large as the interface takes.
    pub mtu: u16,
    /// Labels that packets get.
    pub labels: OutLabels,
    /// Of a label: the kind of the table in which packets are looked up.
    pub lookup: Lookup,
    /// Where it stands.
    pub place: Place,
}

/// A static neighbour.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbor {
    /// Interface or sub-interface.
    pub interface: String,
    /// Its address, within a connected prefix or link-local.
    pub address: IpAddr,
    /// Its MAC.
    pub mac: MacAddr,
    /// Where it stands.
    pub place: Place,
}

/// The limit of one class of packets for the router itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PuntLimit {
    /// The class.
    pub class: Class,
    /// Its limit; absent: not limited.
    pub limit: Option<Limit>,
    /// Where it stands.
    pub place: Place,
}

/// The `quiver` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Forwarding threads, 1..64.
    pub workers: u16,
    /// CPUs to pin them to, one each; empty: left to the kernel.
    pub cpus: Vec<u16>,
    /// Where those stand.
    pub cpus_place: Place,
    /// The longest that an idle worker spins before it sleeps.
    pub spin: Duration,
    /// How workers wait, and whether queues move between them.
    pub load: net::load::LoadSettings,
    /// Packet buffers.
    pub buffers: Buffers,
    /// Control socket.
    pub sockets: Sockets,
    /// The API for programs, where there is to be one.
    pub api: Option<Api>,
    /// Log.
    pub log: Log,
    /// Timers and limits of ARP and neighbour discovery.
    pub neighbor: NeighborSettings,
    /// Duplicate address detection.
    pub dad: Dad,
    /// The most bytes that routes may take.
    pub route_memory: Option<u64>,
    /// The folder in which configurations are kept.
    pub state: Option<String>,
    /// Where the section stands.
    pub place: Place,
}

/// Packet buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Buffers {
    /// How many, at least 1024 a worker.
    pub count: u32,
    /// Whether they lie in huge pages.
    pub huge_pages: HugePages,
}

/// Use of huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HugePages {
    /// When there are any.
    Auto,
    /// Not at all.
    Never,
    /// Or do not start.
    Require,
}

/// Control socket and who may use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sockets {
    /// Path of the control socket.
    pub ctl: String,
    /// Group whose members may read.
    pub group: Option<String>,
    /// Group whose members may change.
    pub admin_group: Option<String>,
    /// A connection without a request for so long is closed; none is when absent.
    pub idle_timeout: Option<Duration>,
    /// Who has which role.
    pub roles: Vec<command::Role>,
}

/// Where the API for programs is, and who reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Path of its socket.
    pub socket: String,
    /// Group whose members may read; that of the control socket when absent.
    pub group: Option<String>,
    /// Where it is reached over TCP with TLS.
    pub listen: Vec<Listen>,
    /// Connections that each client may have at once.
    pub connections: u16,
    /// What each client may ask for in a second.
    pub rate: ClientRate,
}

/// Connections that each client of the API may have at once, where the document says nothing.
pub const CONNECTIONS: u16 = 32;

/// An address at which the API is reached over TCP, with TLS and certificates on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address and port.
    pub address: SocketAddr,
    /// The router's certificate, with those between it and the CA behind it.
    pub certificate: PemFile,
    /// Its private key.
    pub key: PemFile,
    /// The certificates of those that sign the clients'.
    pub client_ca: PemFile,
    /// Names in certificates of clients, and what each may do.
    pub roles: Vec<(String, Access)>,
}

/// A file with certificates or a key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemFile {
    /// Its path.
    pub path: String,
    /// Where it is named.
    pub place: Place,
}

/// What a client of the API may ask for in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRate {
    /// Calls.
    pub calls: u32,
    /// Bytes of what it sends.
    pub bytes: u64,
}

impl Default for ClientRate {
    fn default() -> ClientRate {
        ClientRate { calls: 20_000, bytes: 256 << 20 }
    }
}

/// Log settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// Least level that is written.
    pub level: LogLevel,
    /// File; standard error when absent.
    pub file: Option<String>,
    /// Lines of JSON in place of text.
    pub json: bool,
}

/// Log levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only errors.
    Error,
    /// And warnings.
    Warn,
    /// And what happens.
    Info,
    /// And what helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

/// Timers and limits of ARP and neighbour discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighborSettings {
    /// How long an answer is believed.
    pub reachable_time: Duration,
    /// Time between two requests.
    pub retransmit: Duration,
    /// Most learned neighbours, over all interfaces.
    pub max_entries: u32,
    /// Most neighbours of one interface, when that is fewer.
    pub max_per_interface: Option<u32>,
    /// Neighbours of one interface that are being resolved at the same time.
    pub max_unresolved: u32,
    /// Requests to everybody a second, on one interface.
    pub solicit_rate: u32,
    /// Packets held for one unresolved neighbour.
    pub queue: u16,
    /// Packets held for all unresolved neighbours of one interface.
    pub interface_queue: u16,
}

/// Duplicate address detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dad {
    /// Use an address at once, give it up when it is taken (RFC 4429).
    Optimistic,
    /// Use an address when nobody has answered for it (RFC 4862).
    Strict,
    /// Do not ask.
    Off,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            workers: 1,
            cpus: Vec::new(),
            cpus_place: Place::default(),
            spin: Duration::from_micros(50),
            load: Default::default(),
            buffers: Buffers { count: 16384, huge_pages: HugePages::Auto },
            sockets: Sockets {
                ctl: "/run/quiver/ctl.sock".into(),
                group: None,
                admin_group: None,
                idle_timeout: Some(Duration::from_secs(3600)),
                roles: vec![],
            },
            api: None,
            log: Log { level: LogLevel::Info, file: None, json: false },
            neighbor: NeighborSettings {
                reachable_time: Duration::from_secs(30),
                retransmit: Duration::from_millis(1000),
                max_entries: 65536,
                max_per_interface: None,
                max_unresolved: 1024,
                solicit_rate: 1000,
                queue: 16,
                interface_queue: 1024,
            },
            dad: Dad::Optimistic,
            route_memory: None,
            state: None,
            place: Place::default(),
        }
    }
}
