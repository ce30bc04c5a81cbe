//! Routes as the kernel tells them (linux/rtnetlink.h).

use crate::wire::{Attributes, u16_at, u32_at};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// IPv4.
pub const AF_INET: u8 = 2;
/// IPv6.
pub const AF_INET6: u8 = 10;
/// MPLS.
pub const AF_MPLS: u8 = 28;

/// Bytes of `struct rtmsg`.
pub const RTMSG: usize = 12;
const RTNEXTHOP: usize = 8;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_NEWDST: u16 = 19;
const RTA_PREF: u16 = 20;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_NH_ID: u16 = 30;
const RTAX_MTU: u16 = 2;
/// Of a path's flags: its next hop is on the link.
pub(crate) const RTNH_F_ONLINK: u8 = 4;
const RTM_F_CLONED: u32 = 0x200;

/// Encapsulation of a path: labels.
const LWTUNNEL_ENCAP_MPLS: u16 = 1;
const MPLS_IPTUNNEL_DST: u16 = 1;

/// What a route does with its packets (`RTN_...`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends them on.
    Unicast,
    /// Drops them.
    Blackhole,
    /// Drops them, and says "unreachable".
    Unreachable,
    /// Drops them, and says "prohibited".
    Prohibit,
    /// Something else: the router's own addresses, broadcasts, a look into the next table.
    Other(u8),
}

impl Action {
    fn new(kind: u8) -> Action {
        match kind {
            1 => Action::Unicast,
            6 => Action::Blackhole,
            7 => Action::Unreachable,
            8 => Action::Prohibit,
            other => Action::Other(other),
        }
    }
}

/// One way of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    /// The next hop, of either family; none: destinations are on the link.
    pub gateway: Option<IpAddr>,
    /// Linux's index of the device; 0 for none.
    pub ifindex: u32,
    /// Share of the flows, 1 to 256.
    pub weight: u16,
    /// Labels that packets get, outermost first, 20 bits each; of a label's route, in the place of that.
    pub labels: Vec<u32>,
    /// The next hop is on the link, whatever the addresses say.
    pub onlink: bool,
    /// Of a label's route without next hop: the table in which packets are looked up without the label, by what the device is.
    pub table: Option<u32>,
    /// Packets get headers that are not understood here (`LWTUNNEL_ENCAP_...`).
    pub other_encap: Option<u16>,
}

/// What a route is beside its prefix, table and metric; a million routes share few of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Who made it (`RTPROT_...`).
    pub protocol: u8,
    /// What happens to packets.
    pub action: Action,
    /// Where they go.
    pub paths: Vec<Path>,
    /// Number of the nexthop object that says so, or 0.
    pub nexthop: u32,
    /// The number of buckets where that is a resilient group, else 0.
    pub buckets: u16,
    /// The source address of packets that the host itself sends.
    pub source: Option<IpAddr>,
    /// Largest packet, bytes; 0 when the route says nothing of it.
    pub mtu: u32,
    /// How much a router that is advertised wants to be used (RFC 4191): 1 high, 0 medium, -1 low.
    pub wanted: i8,
}

/// Which route of the kernel's it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Number of the table (254: `main`).
    pub table: u32,
    /// Its prefix.
    pub prefix: IpNet,
    /// Metric; less is better.
    pub metric: u32,
    /// Type of service that packets need (IPv4), or 0.
    pub tos: u8,
}

/// A message about a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteMessage {
    /// Which.
    pub key: Key,
    /// What it is.
    pub route: Route,
}

impl RouteMessage {
    /// Whether it leads to the peer of an address, or to what is behind it, of those that the kernel makes of addresses. Of IPv4 an
    /// address of its own is no part of such a prefix. Of IPv6, where nothing is told of that, it is that of one host, as it is of
    /// addresses that stand alone: who has these knows.
    pub(crate) fn is_to_peer(&self) -> bool {
        let one_link =
            self.route.action == Action::Unicast && self.route.paths.iter().all(|p| p.gateway.is_none());
        one_link
            && match (self.key.prefix, self.route.source) {
                (IpNet::V4(_), Some(own)) => !self.key.prefix.contains(&own),
                (IpNet::V4(_), None) => false,
                (IpNet::V6(p), _) => p.prefix_len() == 128 && !p.addr().is_unicast_link_local(),
            }
    }
}

/// Protocol of routes that the kernel makes itself, for addresses of devices.
pub const RTPROT_KERNEL: u8 = 2;
/// Protocol of routes that the kernel makes of routers' advertisements.
pub const RTPROT_RA: u8 = 9;

/// The word that `ip route` has for a protocol.
pub fn protocol_name(protocol: u8) -> Option<&'static str> {
    Some(match protocol {
        0 => "unspec",
        1 => "redirect",
        2 => "kernel",
        3 => "boot",
        4 => "static",
        8 => "gated",
        9 => "ra",
        10 => "mrt",
        11 => "zebra",
        12 => "bird",
        13 => "dnrouted",
        14 => "xorp",
        15 => "ntk",
        16 => "dhcp",
        17 => "mrouted",
        18 => "keepalived",
        42 => "babel",
        99 => "openr",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        190 => "ripng",
        191 => "nhrp",
        192 => "eigrp",
        193 => "ldp",
        194 => "sharp",
        195 => "pbr",
        197 => "openfabric",
        _ => return None,
    })
}

/// An address of a family from its bytes.
pub fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn via(bytes: &[u8]) -> Option<IpAddr> {
    let (family, rest) = (u16_at(bytes, 0)?, bytes.get(2..)?);
    address(rest).filter(|a| u16::from(if a.is_ipv6() { AF_INET6 } else { AF_INET }) == family)
}

/// The labels of a stack as they stand in a packet, outermost first; `None` when there is none, or it has no end.
pub fn labels(bytes: &[u8]) -> Option<Vec<u32>> {
    let (entries, rest) = bytes.as_chunks::<4>();
    let entries: Vec<u32> = entries.iter().map(|e| u32::from_be_bytes(*e)).collect();
    let ends = entries.last().is_some_and(|last| last & 0x100 != 0) && rest.is_empty();
    ends.then(|| entries.iter().map(|e| e >> 12).collect())
}

/// The headers that packets of a path get, of which the kind is told before or behind what they are.
#[derive(Debug, Default)]
pub(crate) struct Encap {
    kind: u16,
    labels: Option<Vec<u32>>,
}

impl Encap {
    /// The attribute of the kind.
    pub fn kind(&mut self, value: &[u8]) -> Option<()> {
        self.kind = u16_at(value, 0)?;
        Some(())
    }

    /// The attribute of what they are.
    pub fn headers(&mut self, value: &[u8]) {
        self.labels = Attributes(value).find(|(k, _)| *k == MPLS_IPTUNNEL_DST).and_then(|(_, v)| labels(v));
    }

    /// The path has them.
    pub fn put(self, path: &mut Path) {
        match (self.kind, self.labels) {
            (0, _) => {}
            (LWTUNNEL_ENCAP_MPLS, Some(labels)) => path.labels = labels,
            (other, _) => path.other_encap = Some(other),
        }
    }
}

impl Path {
    /// One attribute that says something of a path.
    fn take(&mut self, kind: u16, value: &[u8], encap: &mut Encap) -> Option<()> {
        match kind {
            RTA_GATEWAY => self.gateway = Some(address(value)?),
            RTA_VIA => self.gateway = Some(via(value)?),
            RTA_NEWDST => self.labels = labels(value)?,
            RTA_OIF => self.ifindex = u32_at(value, 0)?,
            RTA_ENCAP_TYPE => encap.kind(value)?,
            RTA_ENCAP => encap.headers(value),
            _ => {}
        }
        Some(())
    }
}

fn paths(mut rest: &[u8], into: &mut Vec<Path>) -> Option<()> {
    while !rest.is_empty() {
        let len = usize::from(u16_at(rest, 0)?);
        let one = rest.get(..len).filter(|o| o.len() >= RTNEXTHOP)?;
        let mut path = Path {
            ifindex: u32_at(one, 4)?,
            weight: u16::from(one[3]) + 1,
            onlink: one[2] & RTNH_F_ONLINK != 0,
            ..Path::default()
        };
        let mut encap = Encap::default();
        for (kind, value) in Attributes(&one[RTNEXTHOP..]) {
            path.take(kind, value, &mut encap)?;
        }
        encap.put(&mut path);
        into.push(path);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(())
}

/// What a message says of a route, beside what it is a route of.
struct Body {
    route: Route,
    table: u32,
    metric: u32,
}

/// Takes the attributes of a message; `dst` takes what it is a route of.
fn body<'a>(body: &'a [u8], mut dst: impl FnMut(&'a [u8]) -> Option<()>) -> Option<Body> {
    let head = body.get(..RTMSG)?;
    let (mut table, mut metric) = (u32::from(head[4]), 0);
    let mut route = Route {
        protocol: head[5],
        action: Action::new(head[7]),
        paths: Vec::new(),
        nexthop: 0,
        buckets: 0,
        source: None,
        mtu: 0,
        wanted: 0,
    };
    let mut single =
        Path { weight: 1, onlink: u32_at(head, 8)? & u32::from(RTNH_F_ONLINK) != 0, ..Path::default() };
    let mut encap = Encap::default();
    for (kind, value) in Attributes(&body[RTMSG..]) {
        match kind {
            RTA_DST => dst(value)?,
            RTA_SRC => return None,
            RTA_PRIORITY => metric = u32_at(value, 0)?,
            RTA_PREFSRC => route.source = Some(address(value)?),
            RTA_TABLE => table = u32_at(value, 0)?,
            RTA_NH_ID => route.nexthop = u32_at(value, 0)?,
            RTA_METRICS => {
                let mtu = Attributes(value).find(|(k, _)| *k == RTAX_MTU);
                route.mtu = mtu.and_then(|(_, v)| u32_at(v, 0)).unwrap_or(0);
            }
            RTA_MULTIPATH => paths(value, &mut route.paths)?,
            // Two bits with a sign; the fourth value says nothing.
            RTA_PREF => route.wanted = [0, 1, 0, -1][usize::from(value.first()? & 3)],
            _ => single.take(kind, value, &mut encap)?,
        }
    }
    encap.put(&mut single);
    if route.action == Action::Unicast
        && route.paths.is_empty()
        && (single.ifindex != 0 || single.gateway.is_some())
    {
        route.paths.push(single);
    }
    Some(Body { route, table, metric })
}

/// The route of a label (family `AF_MPLS`), and the label; `None` for another message, or one that is not as it should be.
pub fn parse_label(message: &[u8]) -> Option<(u32, Route)> {
    let head = message.get(..RTMSG)?;
    if head[0] != AF_MPLS || head[1] != 20 {
        return None;
    }
    let mut label = None;
    let body = body(message, |value| {
        label = labels(value).filter(|l| l.len() == 1).map(|l| l[0]);
        label.map(drop)
    })?;
    Some((label?, body.route))
}

/// The route of an IPv4 or IPv6 message; `None` for one of another family, one of the kernel's cache, or one that is
/// not as it should be.
pub fn parse(body: &[u8]) -> Option<RouteMessage> {
    let head = body.get(..RTMSG)?;
    let (family, len, src_len, tos) = (head[0], head[1], head[2], head[3]);
    if !matches!(family, AF_INET | AF_INET6) || u32_at(head, 8)? & RTM_F_CLONED != 0 || src_len != 0 {
        return None;
    }
    let mut dst = None;
    let Body { mut route, table, metric } = self::body(body, |value| {
        dst = Some(address(value)?);
        Some(())
    })?;
    let prefix = match (family, dst) {
        (AF_INET, None) => Ipv4Net::new(Ipv4Addr::UNSPECIFIED, len).ok()?.into(),
        (AF_INET6, None) => Ipv6Net::new(Ipv6Addr::UNSPECIFIED, len).ok()?.into(),
        (AF_INET, Some(IpAddr::V4(a))) => IpNet::from(Ipv4Net::new(a, len).ok()?),
        (AF_INET6, Some(IpAddr::V6(a))) => IpNet::from(Ipv6Net::new(a, len).ok()?),
        _ => return None,
    };
    // The kernel tells ways of IPv6 in the order of the one that changed. Those of nexthop objects are ordered in both families, as the objects'
    // own are.
    if family == AF_INET6 || route.nexthop != 0 {
        route.paths.sort_unstable();
    }
    Some(RouteMessage { key: Key { table, prefix: prefix.trunc(), metric, tos }, route })
}

/// A change of a route, of the kernel's by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change<K = Key> {
    /// Of which route.
    pub key: K,
    /// What it was, when it was there.
    pub was: Option<Arc<Route>>,
    /// What it is; `None`: gone.
    pub is: Option<Arc<Route>>,
}

/// A change of the route of a label.
pub type LabelChange = Change<u32>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute;

    fn label(head: [u8; RTMSG], attributes: &[Vec<u8>]) -> Option<(u32, Route)> {
        parse_label(&[&head[..], &attributes.concat()].concat())
    }

    /// As `ip -f mpls route add 100 as 501/502 via inet 10.0.2.2 dev 3` comes.
    #[test]
    fn routes_of_labels() {
        let head = [AF_MPLS, 20, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        let dst = attribute(RTA_DST, &(100u32 << 12 | 0x100).to_be_bytes());
        let new = [(501u32 << 12).to_be_bytes(), (502u32 << 12 | 0x100).to_be_bytes()].concat();
        let via = attribute(RTA_VIA, &[&u16::from(AF_INET).to_ne_bytes()[..], &[10, 0, 2, 2]].concat());
        let all =
            [dst.clone(), attribute(RTA_NEWDST, &new), via.clone(), attribute(RTA_OIF, &3u32.to_ne_bytes())];
        let (value, route) = label(head, &all).unwrap();
        let path = Path {
            gateway: Some(IpAddr::from([10, 0, 2, 2])),
            ifindex: 3,
            weight: 1,
            labels: vec![501, 502],
            ..Path::default()
        };
        assert_eq!((value, route.protocol, &route.paths[..]), (100, 4, &[path][..]));
        // A label has one entry, which ends; its family is MPLS, and all of it counts.
        assert!(label(head, &[attribute(RTA_DST, &new), via.clone()]).is_none());
        assert!(label(head, &[attribute(RTA_DST, &(100u32 << 12).to_be_bytes())]).is_none());
        assert!(label(head, &[via]).is_none());
        assert!(label([AF_INET, 20, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0], std::slice::from_ref(&dst)).is_none());
        assert!(label([AF_MPLS, 19, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0], &[dst]).is_none());
    }
}
