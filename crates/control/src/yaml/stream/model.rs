//! What a stream of made packets is, as plain data.

use std::net::{Ipv4Addr, Ipv6Addr};

use packet::MacAddr;

use crate::yaml::diag::Place;
use crate::yaml::model::Rate;

/// A stream of the packet generator.
#[derive(Debug, Clone, PartialEq)]
pub struct PgStream {
    /// Name, unique in the document.
    pub name: String,
    /// Where the name stands.
    pub place: Place,
    /// Graph node that the packets are put into.
    pub node: String,
    /// Where that stands.
    pub node_place: Place,
    /// Interface or sub-interface that the packets count as received on.
    pub interface: String,
    /// Headers from the outside in.
    pub layers: Vec<PgLayer>,
    /// Length of the packets, from the first header on, without FCS.
    pub size: PgSize,
    /// Packets a second.
    pub rate: Rate,
    /// Packets to send, then the stream ends; without limit when absent.
    pub count: Option<u64>,
    /// Start at once.
    pub enabled: bool,
}

/// How a field walks through its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PgMode {
    /// One up with every packet, from low to high and again.
    Increment,
    /// Uniformly random.
    Random,
}

/// A header field that is fixed or changes with every packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PgField<T> {
    /// Always this.
    Fixed(T),
    /// From low to high, both included; low is less than high.
    Range {
        /// First value.
        low: T,
        /// Last value.
        high: T,
        /// Order.
        mode: PgMode,
    },
}

/// Length of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PgSize {
    /// Always this.
    Fixed(u16),
    /// From low to high, both included.
    Range {
        /// Shortest.
        low: u16,
        /// Longest.
        high: u16,
        /// Order.
        mode: PgMode,
    },
    /// Sizes, each with its share.
    Mix(Vec<(u16, u16)>),
}

impl PgSize {
    /// The simple Internet mix: 7 of 60, 4 of 590 and 1 of 1514 bytes (without FCS).
    pub fn imix() -> PgSize {
        PgSize::Mix(vec![(60, 7), (590, 4), (1514, 1)])
    }
}

/// One header of a stream's template. What is `None` follows from the layers around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PgLayer {
    /// Ethernet header.
    Ethernet {
        /// Source.
        src: PgField<MacAddr>,
        /// Destination.
        dst: PgField<MacAddr>,
        /// EtherType.
        ethertype: Option<u16>,
    },
    /// VLAN tag.
    Vlan {
        /// VLAN, 0..4095.
        id: PgField<u16>,
        /// Priority, 0..7.
        pcp: u8,
        /// Tag protocol, 0x8100 by default.
        tpid: u16,
    },
    /// IPv4 header, checksum included.
    Ipv4 {
        /// Source.
        src: PgField<Ipv4Addr>,
        /// Destination.
        dst: PgField<Ipv4Addr>,
        /// Time to live.
        ttl: u8,
        /// Protocol.
        proto: Option<u8>,
        /// Type of service byte.
        tos: u8,
        /// Do not fragment.
        df: bool,
    },
    /// IPv6 header.
    Ipv6 {
        /// Source.
        src: PgField<Ipv6Addr>,
        /// Destination.
        dst: PgField<Ipv6Addr>,
        /// Hop limit.
        hop_limit: u8,
        /// Next header.
        next_header: Option<u8>,
        /// Traffic class.
        traffic_class: u8,
        /// Flow label, 20 bits.
        flow_label: u32,
    },
    /// UDP header, checksum included.
    Udp {
        /// Source port.
        sport: PgField<u16>,
        /// Destination port.
        dport: PgField<u16>,
    },
    /// TCP header without options, checksum included.
    Tcp {
        /// Source port.
        sport: PgField<u16>,
        /// Destination port.
        dport: PgField<u16>,
        /// Flag bits, low byte of the flags field (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32).
        flags: u8,
        /// Sequence number.
        seq: u32,
    },
    /// ICMP or ICMPv6 echo request (by the IP header before it), checksum included.
    Echo {
        /// Identifier.
        id: PgField<u16>,
        /// Sequence number.
        seq: PgField<u16>,
    },
    /// Bytes as they are; as the first layer, a whole packet.
    Raw(Vec<u8>),
}

impl PgLayer {
    /// Bytes the layer takes in the packet.
    pub fn len(&self) -> usize {
        match self {
            PgLayer::Ethernet { .. } => 14,
            PgLayer::Vlan { .. } => 4,
            PgLayer::Ipv4 { .. } | PgLayer::Tcp { .. } => 20,
            PgLayer::Ipv6 { .. } => 40,
            PgLayer::Udp { .. } | PgLayer::Echo { .. } => 8,
            PgLayer::Raw(bytes) => bytes.len(),
        }
    }

    /// True for a raw layer without bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The layer's name in the document.
    pub fn name(&self) -> &'static str {
        match self {
            PgLayer::Ethernet { .. } => "ethernet",
            PgLayer::Vlan { .. } => "vlan",
            PgLayer::Ipv4 { .. } => "ipv4",
            PgLayer::Ipv6 { .. } => "ipv6",
            PgLayer::Udp { .. } => "udp",
            PgLayer::Tcp { .. } => "tcp",
            PgLayer::Echo { .. } => "icmp-echo",
            PgLayer::Raw(_) => "raw",
        }
    }
}
