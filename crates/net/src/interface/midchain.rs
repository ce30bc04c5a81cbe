//! What an interface that is no device puts around its packets: the middle of the chain from an adjacency over the interface to one
//! over a device.

use crate::arcs;
use graph::arcs::Feature;
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::udp;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use tables::groups::GroupId;

/// Where packets that are sent over such an interface get their headers.
pub static MIDCHAIN_TX: Feature = Feature::new(&arcs::INTERFACE_OUTPUT, "adj-midchain-tx");

/// The end of a tunnel as workers see it, never changed in place but for its sequence number: what changes a tunnel shows them another one.
pub struct Midchain {
    /// The headers that go in front, outermost first: IP, and what stands between it and the packet inside. What differs from
    /// packet to packet is 0.
    pub template: Box<[u8]>,
    /// The other end.
    pub remote: IpAddr,
    /// Whether the outer header is IPv6.
    pub v6: bool,
    /// Frames go inside as they are; else packets, whose Ethernet header only says what they are.
    pub frames: bool,
    /// The next-hop group that leads to the other end.
    pub group: GroupId,
    /// Place of the table in which the other end is looked up where the group cannot be followed at once.
    pub table: u32,
    /// Outer TTL or hop limit; `None`: that of the packet inside.
    pub ttl: Option<u8>,
    /// Outer DSCP; `None`: that of the packet inside.
    pub dscp: Option<u8>,
    /// Whether `fixup` needs the sum of the packet inside.
    pub sums: bool,
    /// Writes what the template cannot know behind the outer IP header.
    pub fixup: fn(&Midchain, Fixup<'_>),
    /// What that depends on: short cuts may know it without asking each time.
    pub varies: Varies,
    /// Packets that `fixup` has numbered: also by what stood here before, where a tunnel has changed.
    pub sequence: Arc<AtomicU32>,
}

/// What `fixup` of a [`Midchain`] depends on, where it needs no sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varies {
    /// Only on what kind of packet is inside.
    Kind,
    /// It writes a UDP header as [`Varies::udp`] does, and nothing else.
    Flow,
    /// On more.
    More,
}

impl Varies {
    /// Completes the UDP header outside of a packet of a flow with `len` bytes from that header on, without a checksum: flows have
    /// ports of their own, of those that nobody owns (RFC 7348 section 5, RFC 6335 section 6).
    #[inline(always)]
    pub fn udp(h: &mut [u8; udp::HEADER_LEN], hash: u32, len: u16) {
        let port = 0xc000 | (hash ^ hash >> 16) as u16;
        h[..2].copy_from_slice(&port.to_be_bytes());
        h[4..6].copy_from_slice(&len.to_be_bytes());
    }
}

/// What there is to know of one packet.
pub struct Fixup<'p> {
    /// The headers behind the outer IP header, as in the template.
    pub headers: &'p mut [u8],
    /// What is inside.
    pub inside: EtherType,
    /// Its flow hash.
    pub hash: u32,
    /// Its bytes.
    pub len: usize,
    /// The sum of its bytes, where [`Midchain::sums`] asks for it; 0 else.
    pub sum: Sum,
}

impl fmt::Debug for Midchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Midchain")
            .field("template", &self.template)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
