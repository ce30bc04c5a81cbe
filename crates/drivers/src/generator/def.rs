//! What a stream is, as plain data.

use packet::MacAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A stream of made packets.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamDef {
    /// Its name.
    pub name: String,
    /// Graph node into which its packets are put.
    pub node: String,
    /// Interface on which they count as received.
    pub interface: String,
    /// Headers from the outside in; the packet starts at the first.
    pub layers: Vec<Layer>,
    /// Bytes of a packet from its first header on, without FCS. `None`: 64, or the layers when they are longer.
    pub size: Option<Size>,
    /// Packets a second.
    pub rate: Rate,
    /// Packets to send after each start; 0 for no end.
    pub count: u64,
    /// Send from the start on.
    pub enabled: bool,
    /// Start of the random numbers: the same seed makes the same packets.
    pub seed: u64,
}

impl StreamDef {
    /// A disabled endless stream into `ethernet-input` at full speed, without layers yet.
    pub fn new(name: &str, interface: &str) -> Self {
        StreamDef {
            name: name.to_string(),
            node: "ethernet-input".to_string(),
            interface: interface.to_string(),
            layers: Vec::new(),
            size: None,
            rate: Rate::Max,
            count: 0,
            enabled: false,
            seed: 1,
        }
    }
}

/// Packets a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as it goes.
    Max,
    /// This many.
    Pps(f64),
}

/// How a value walks through its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One up with every packet, from low to high and again.
    Increment,
    /// Uniformly random.
    Random,
}

/// A header field that is fixed or changes with every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<T> {
    /// Always this.
    Fixed(T),
    /// From low to high, both included.
    Range {
        /// First value.
        low: T,
        /// Last value.
        high: T,
        /// Order.
        mode: Mode,
    },
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Field::Fixed(value)
    }
}

/// What can stand in a [`Field`]: a value as the low bits of a number.
pub trait Value: Copy {
    /// The number whose low bits go into the header, most significant first.
    fn number(self) -> u128;
}

macro_rules! values {
    ($($t:ty => |$v:ident| $number:expr),+) => {
        $(impl Value for $t {
            fn number(self) -> u128 {
                let $v = self;
                u128::from($number)
            }
        })+
    };
}
values!(u8 => |v| v, u16 => |v| v, u32 => |v| v, MacAddr => |v| v.to_u64(), Ipv4Addr => |v| v.to_bits(),
    Ipv6Addr => |v| v.to_bits());

/// Length of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always this.
    Fixed(u16),
    /// From low to high, both included.
    Range {
        /// Shortest.
        low: u16,
        /// Longest.
        high: u16,
        /// Order.
        mode: Mode,
    },
    /// Sizes with weights: in each run of as many packets as the sum of weights, each size comes exactly as often as
    /// its weight says, spread over the run.
    Mix(Vec<(u16, u16)>),
}

impl Size {
    /// The simple Internet mix, 7 : 4 : 1 of Ethernet frames of 64, 594 and 1518 bytes on the wire; without their
    /// FCS, which no buffer holds, 60, 590 and 1514.
    pub fn imix() -> Size {
        Size::Mix(vec![(60, 7), (590, 4), (1514, 1)])
    }
}

/// What stands in a checksum field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The right one.
    #[default]
    Correct,
    /// A wrong one.
    Bad,
    /// This; 0 is "none" in UDP.
    Value(u16),
}

/// One header, or the bytes behind the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Layer {
    Ethernet(Ethernet),
    Vlan(Vlan),
    Arp(Arp),
    Ipv4(Ipv4),
    Ipv6(Ipv6),
    Udp(Udp),
    Tcp(Tcp),
    Echo(Echo),
    /// Bytes as they are: behind headers, or a whole packet.
    Raw(Vec<u8>),
    /// What fills a packet up to its size; last.
    Payload(Payload),
}

/// What fills a packet up to its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// 00 01 02 ... ff 00 ... (the default, except behind ARP).
    Increment,
    /// Random bytes, other ones in each packet.
    Random,
    /// Zeros.
    Zero,
}

/// Ethernet header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ethernet {
    /// Source.
    pub src: Field<MacAddr>,
    /// Destination.
    pub dst: Field<MacAddr>,
    /// EtherType; by default that of the next layer.
    pub ethertype: Option<u16>,
}

impl Default for Ethernet {
    fn default() -> Self {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]).into();
        Ethernet { src: mac(1), dst: mac(2), ethertype: None }
    }
}

/// VLAN tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN, 0..4095.
    pub id: Field<u16>,
    /// Priority, 0..7.
    pub pcp: Field<u8>,
    /// Tag protocol.
    pub tpid: u16,
    /// EtherType; by default that of the next layer.
    pub ethertype: Option<u16>,
}

impl Default for Vlan {
    fn default() -> Self {
        Vlan { id: 1.into(), pcp: 0.into(), tpid: 0x8100, ethertype: None }
    }
}

/// ARP for IPv4 over Ethernet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arp {
    /// 1 request, 2 reply.
    pub op: Field<u16>,
    /// Sender's MAC.
    pub sender_mac: Field<MacAddr>,
    /// Sender's address.
    pub sender_ip: Field<Ipv4Addr>,
    /// Target's MAC.
    pub target_mac: Field<MacAddr>,
    /// Target's address.
    pub target_ip: Field<Ipv4Addr>,
}

impl Default for Arp {
    fn default() -> Self {
        Arp {
            op: 1.into(),
            sender_mac: MacAddr([2, 0, 0, 0, 0, 1]).into(),
            sender_ip: Ipv4Addr::new(192, 0, 2, 1).into(),
            target_mac: MacAddr::ZERO.into(),
            target_ip: Ipv4Addr::new(192, 0, 2, 2).into(),
        }
    }
}

/// IPv4 header without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Source.
    pub src: Field<Ipv4Addr>,
    /// Destination.
    pub dst: Field<Ipv4Addr>,
    /// Time to live.
    pub ttl: Field<u8>,
    /// DSCP, 0..63.
    pub dscp: Field<u8>,
    /// ECN, 0..3.
    pub ecn: Field<u8>,
    /// Identification.
    pub id: Field<u16>,
    /// Do not fragment.
    pub df: bool,
    /// More fragments.
    pub mf: bool,
    /// Fragment offset in units of 8 bytes.
    pub fragment: Field<u16>,
    /// Protocol; by default that of the next layer.
    pub proto: Option<u8>,
    /// Header checksum.
    pub checksum: Checksum,
}

impl Default for Ipv4 {
    fn default() -> Self {
        Ipv4 {
            src: Ipv4Addr::new(192, 0, 2, 1).into(),
            dst: Ipv4Addr::new(192, 0, 2, 2).into(),
            ttl: 64.into(),
            dscp: 0.into(),
            ecn: 0.into(),
            id: 0.into(),
            df: false,
            mf: false,
            fragment: 0.into(),
            proto: None,
            checksum: Checksum::Correct,
        }
    }
}

/// IPv6 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Source.
    pub src: Field<Ipv6Addr>,
    /// Destination.
    pub dst: Field<Ipv6Addr>,
    /// Hop limit.
    pub hop_limit: Field<u8>,
    /// DSCP and ECN.
    pub traffic_class: Field<u8>,
    /// Flow label, 20 bits.
    pub flow_label: Field<u32>,
    /// Next header; by default that of the next layer.
    pub next_header: Option<u8>,
}

impl Default for Ipv6 {
    fn default() -> Self {
        let addr = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into();
        Ipv6 {
            src: addr(1),
            dst: addr(2),
            hop_limit: 64.into(),
            traffic_class: 0.into(),
            flow_label: 0.into(),
            next_header: None,
        }
    }
}

/// UDP header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub sport: Field<u16>,
    /// Destination port.
    pub dport: Field<u16>,
    /// Checksum.
    pub checksum: Checksum,
}

impl Default for Udp {
    fn default() -> Self {
        Udp { sport: 1024.into(), dport: 9.into(), checksum: Checksum::Correct }
    }
}

/// TCP header without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Source port.
    pub sport: Field<u16>,
    /// Destination port.
    pub dport: Field<u16>,
    /// Sequence number.
    pub seq: Field<u32>,
    /// Acknowledgement number.
    pub ack: Field<u32>,
    /// FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: Field<u8>,
    /// Window.
    pub window: Field<u16>,
    /// Checksum.
    pub checksum: Checksum,
}

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            sport: 1024.into(),
            dport: 9.into(),
            seq: 0.into(),
            ack: 0.into(),
            flags: 16.into(),
            window: 8192.into(),
            checksum: Checksum::Correct,
        }
    }
}

/// ICMP or ICMPv6 echo, by the IP header before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// A reply instead of a request.
    pub reply: bool,
    /// Identifier.
    pub id: Field<u16>,
    /// Sequence number.
    pub seq: Field<u16>,
    /// Checksum.
    pub checksum: Checksum,
}

impl Default for Echo {
    fn default() -> Self {
        Echo { reply: false, id: 1.into(), seq: 1.into(), checksum: Checksum::Correct }
    }
}

impl Layer {
    /// Its name in commands and documents.
    pub fn name(&self) -> &'static str {
        match self {
            Layer::Ethernet(_) => "ethernet",
            Layer::Vlan(_) => "vlan",
            Layer::Arp(_) => "arp",
            Layer::Ipv4(_) => "ipv4",
            Layer::Ipv6(_) => "ipv6",
            Layer::Udp(_) => "udp",
            Layer::Tcp(_) => "tcp",
            Layer::Echo(_) => "icmp-echo",
            Layer::Raw(_) => "raw",
            Layer::Payload(_) => "payload",
        }
    }

    /// True when it may stand behind `before`, or be the first layer when that is `None`.
    pub fn fits_behind(&self, before: Option<&Layer>) -> bool {
        use Layer::*;
        match (before, self) {
            (Some(Payload(_)), _) => false,
            (_, Raw(_) | Payload(_)) => true,
            (None, Ethernet(_) | Arp(_) | Ipv4(_) | Ipv6(_)) => true,
            (Some(Ethernet(_) | Vlan(_)), Vlan(_) | Arp(_) | Ipv4(_) | Ipv6(_)) => true,
            (Some(Ipv4(_) | Ipv6(_)), Ipv4(_) | Ipv6(_) | Udp(_) | Tcp(_) | Echo(_)) => true,
            _ => false,
        }
    }
}
