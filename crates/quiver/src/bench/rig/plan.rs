//! What a scenario wants of the router: routes, next hops, interfaces and packets.

use super::bridge::Bridging;
use super::labels::Labels;
use crate::bench::feed::{Template, Traffic};
use crate::bench::prefixes::Prefixes;
use ipnet::IpNet;
use net::router::Encap;
use std::sync::Arc;

/// How the router is set up.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Routes, by family.
    pub routes: Vec<Prefixes>,
    /// Next hops over which they are spread, in both families.
    pub hops: usize,
    /// Paths of each route.
    pub paths: usize,
    /// All routes go to the same paths.
    pub same_group: bool,
    /// Interfaces towards the next hops.
    pub egress: usize,
    /// Frames of the input go straight to the first of them.
    pub xconnect: bool,
    /// What is bridged.
    pub bridging: Bridging,
    /// Sub-interfaces `in0.1`, `in0.2`, ... take the packets.
    pub tagged_in: u32,
    /// By which tags.
    pub tags: Tags,
    /// The first egress interface sends with this 802.1Q tag.
    pub tagged_out: Option<u32>,
    /// The sources of packets are checked: there must be a way back over the interface on which they come.
    pub urpf_strict: bool,
    /// Frames of the second egress interface are mirrored to the third; nothing goes there.
    pub mirror_beside: bool,
    /// Routing tables.
    pub vrfs: Vrfs,
    /// Labels.
    pub labels: Labels,
    /// A GRE tunnel to the first next hop: all routes lead into it.
    pub gre: Gre,
    /// The routes' next hop is found over so many other routes.
    pub recursive: u8,
    /// Packets.
    pub traffic: Traffic,
}

/// What goes through a GRE tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gre {
    /// Nothing: there is none.
    #[default]
    None,
    /// Packets go in.
    In,
    /// Packets come out, to the next hops.
    Out,
}

/// Which routing tables are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vrfs {
    /// Table 0.
    None,
    /// Table 1: all interfaces and routes are in it.
    One,
    /// One for each tagged sub-interface, each with all routes.
    Each,
}

/// The tags of sub-interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tags {
    /// An 802.1Q tag of the sub-interface's number.
    One,
    /// Two of them: a hundred inner ones for each outer one.
    Two,
}

impl Tags {
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Tags::One => 1,
            Tags::Two => 2,
        }
    }

    fn ids(self, v: u32) -> (u16, Option<u16>) {
        match self {
            Tags::One => (v as u16, None),
            Tags::Two => ((1 + v / 100) as u16, Some((1 + v % 100) as u16)),
        }
    }

    /// Which frames sub-interface `v` takes.
    pub fn encap(self, v: u32) -> Encap {
        let (outer, inner) = self.ids(v);
        Encap::Tags { dot1ad: false, outer: Some(outer), inner: inner.map(Some), exact: true }
    }

    /// The tags as they stand in a frame, from its byte 12 on.
    pub fn bytes(self, v: u32) -> [u8; 8] {
        let (outer, inner) = self.ids(v);
        let ([a, b], [c, d]) = (outer.to_be_bytes(), inner.unwrap_or(0).to_be_bytes());
        [0x81, 0, a, b, 0x81, 0, c, d]
    }
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            routes: vec![],
            hops: 1,
            paths: 1,
            same_group: false,
            egress: 1,
            xconnect: false,
            bridging: Bridging::None,
            tagged_in: 0,
            tags: Tags::One,
            tagged_out: None,
            urpf_strict: false,
            mirror_beside: false,
            vrfs: Vrfs::None,
            labels: Labels::None,
            gre: Gre::None,
            recursive: 0,
            traffic: Traffic::default(),
        }
    }
}

impl Plan {
    fn frames(&self) -> impl Iterator<Item = &Template> {
        self.traffic.order.iter().filter_map(|n| self.traffic.templates.get(usize::from(*n)))
    }

    /// Bytes of a frame; the mean where sizes are mixed.
    pub fn mean_size(&self) -> usize {
        self.frames().map(|t| t.bytes.len()).sum::<usize>() / self.traffic.order.len().max(1)
    }

    /// A frame as the feed would send it.
    pub fn first_frame(&self) -> Result<Vec<u8>, String> {
        let t = self.frames().next().ok_or("there is no packet to send")?;
        Ok(self.traffic.patched(t))
    }
}

/// IPv4 destinations for the feed.
pub fn list4(addrs: &[u128]) -> Arc<[u32]> {
    addrs.iter().map(|a| (a >> 96) as u32).collect()
}

/// IPv6 destinations for the feed.
pub fn list6(addrs: &[u128]) -> Arc<[[u8; 16]]> {
    addrs.iter().map(|a| a.to_be_bytes()).collect()
}

/// One prefix from its text.
pub fn prefix(text: &str) -> Result<Prefixes, String> {
    Ok(Prefixes::one(text.parse::<IpNet>().map_err(|e| format!("{text}: {e}"))?))
}
