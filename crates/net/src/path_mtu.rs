//! Path MTUs that were learnt for what the router itself sends (RFC 1191, RFC 8201): large echo replies go in fragments that
//! reach the asker.
//!
//! A router on the way says so in "fragmentation needed" or "packet too big". The message must quote an echo message of the
//! router's own that is larger than the MTU that it tells. Bounded in number; the oldest goes. Aged after ten minutes.

pub mod commands;
mod part;

pub(crate) use part::PathMtuPart;

use crate::neighbor::Millis;
use crate::plane::Plane;
use crate::reassembly;
use graph::{Guard, Packet, Published, flags};
use packet::IpProtocol;
use packet::icmp4::{self, unreachable};
use packet::icmp6;
use packet::ip4::{Ip4Header, Ip4View};
use packet::ip6::{self, Ip6Header, Ip6View};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The least IPv4 MTU (RFC 791).
pub const LEAST4: u16 = 68;
/// The least IPv4 path MTU that others are believed, as Linux has it: smaller ones would make thousands of fragments of one reply.
pub const LEAST_TOLD4: u16 = 552;
/// The most path MTUs that are kept.
pub const MOST: usize = 256;
/// How long one is kept, milliseconds (RFC 8201 section 4).
pub const KEPT_MS: u64 = 600_000;

/// What workers see: by place of the table and destination, in order.
#[derive(Clone, Debug, Default)]
pub struct PathMtus(Vec<((u32, IpAddr), u16)>);

impl PathMtus {
    fn of(&self, table: u32, to: IpAddr) -> Option<u16> {
        let at = self.0.binary_search_by_key(&(table, to), |e| e.0).ok()?;
        self.0.get(at).map(|e| e.1)
    }
}

/// What nodes read of them.
pub(crate) struct Reader {
    plane: Arc<Plane>,
    known: Arc<Published<PathMtus>>,
}

impl Reader {
    /// For a node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Reader { plane: Arc::clone(plane), known: plane.publish() }
    }

    /// Whether one is known for a destination, in any table.
    pub fn knows(&self, guard: &Guard, to: IpAddr) -> bool {
        self.known.load(guard).0.iter().any(|e| e.0.1 == to)
    }

    /// The path MTU for the packet `p` of the router's own to `to`.
    fn of(&self, guard: &Guard, p: &Packet<'_>, to: IpAddr) -> Option<u16> {
        let known = self.known.load(guard);
        if known.0.is_empty() {
            return None;
        }
        let i = self.plane.interfaces.get(p.d.rx, guard);
        known.of(i.map_or(0, |i| if to.is_ipv6() { i.table6 } else { i.table4 }), to)
    }

    /// The largest IPv4 packet to be sent as it is over an adjacency of this MTU.
    #[inline(always)]
    pub fn largest4(&self, guard: &Guard, p: &Packet<'_>, mtu: u16) -> usize {
        if !p.has(flags::LOCAL | reassembly::REASSEMBLED) {
            return mtu.into();
        }
        self.largest4_of_own(guard, p, mtu)
    }

    #[inline(never)]
    fn largest4_of_own(&self, guard: &Guard, p: &Packet<'_>, mtu: u16) -> usize {
        let most = reassembly::largest4(p, mtu);
        let to = p.head::<20>().filter(|_| p.has(flags::LOCAL)).map(|h| Ip4Header(h).dst());
        let path = to.and_then(|to| self.of(guard, p, to.into()));
        path.map_or(most, |path| most.min(path.into()))
    }

    /// The same for IPv6.
    #[inline(always)]
    pub fn largest6(&self, guard: &Guard, p: &Packet<'_>, mtu: u16) -> usize {
        if !p.has(flags::LOCAL | reassembly::REASSEMBLED) {
            return mtu.into();
        }
        self.largest6_of_own(guard, p, mtu)
    }

    #[inline(never)]
    fn largest6_of_own(&self, guard: &Guard, p: &Packet<'_>, mtu: u16) -> usize {
        let most = reassembly::largest6(p, mtu);
        let to = p.head::<40>().filter(|_| p.has(flags::LOCAL)).map(|h| Ip6Header(h).dst());
        let path = to.and_then(|to| self.of(guard, p, to.into()));
        path.map_or(most, |path| most.min(path.into()))
    }
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Source of the packet that was too large: must be the router's.
    pub own: IpAddr,
    /// Its destination.
    pub to: IpAddr,
    /// The MTU on the way there.
    pub mtu: u16,
}

impl Told {
    /// Reads an ICMP or ICMPv6 message to the router, from its IP header; its checksum was checked. `None` where it does not
    /// tell an MTU about a packet as the router sends them.
    pub fn read(message: &[u8]) -> Option<Told> {
        if message.first()? >> 4 == 4 {
            let v = Ip4View::parse_quoted(message).ok()?;
            let icmp = v.payload();
            let head: &[u8; 8] = icmp.first_chunk()?;
            if head[..2] != [icmp4::kind::UNREACHABLE, unreachable::FRAGMENTATION_NEEDED] {
                return None;
            }
            let mtu = u16::from_be_bytes([head[6], head[7]]);
            let quote = Ip4View::parse_quoted(icmp.get(8..)?).ok()?;
            let echo = quote.fixed().protocol() == IpProtocol::ICMP
                && quote.fixed().fragment_offset() == 0
                && matches!(*quote.payload().first()?, icmp4::kind::ECHO_REPLY | icmp4::kind::ECHO_REQUEST);
            let total = quote.fixed().total_len();
            let fits = (LEAST4..total).contains(&mtu) && total > LEAST_TOLD4;
            return (echo && fits).then_some(Told {
                own: quote.fixed().src().into(),
                to: quote.fixed().dst().into(),
                mtu: mtu.max(LEAST_TOLD4),
            });
        }
        let v = Ip6View::parse_quoted(message).ok()?;
        let icmp = message.get(v.upper_layer().ok()?.offset..)?;
        let head: &[u8; 8] = icmp.first_chunk()?;
        if head[0] != icmp6::kind::PACKET_TOO_BIG {
            return None;
        }
        let mtu = u16::try_from(u32::from_be_bytes([head[4], head[5], head[6], head[7]])).ok()?;
        let bytes = icmp.get(8..)?;
        let quote = Ip6View::parse_quoted(bytes).ok()?;
        let upper = quote.upper_layer().ok()?;
        let echo = upper.protocol == IpProtocol::ICMPV6
            && !upper.is_later_fragment()
            && matches!(*bytes.get(upper.offset)?, icmp6::kind::ECHO_REPLY | icmp6::kind::ECHO_REQUEST);
        let len = ip6::HEADER_LEN + usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let fits = mtu >= ip6::MIN_MTU && usize::from(mtu) < len;
        (echo && fits).then_some(Told { own: quote.src().into(), to: quote.dst().into(), mtu })
    }
}

/// A path MTU on the control side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// Bytes.
    pub mtu: u16,
    /// When it was heard of last.
    pub at: Millis,
}

/// What the control side keeps.
#[derive(Default)]
pub(crate) struct PathMtuTable(BTreeMap<(u32, IpAddr), Learnt>);

impl PathMtuTable {
    /// Takes what a message said of a destination in the table at a place; true when workers are to be told. A larger value than
    /// before does not count: the path is found to be wider by forgetting.
    pub fn learn(&mut self, now: Millis, table: u32, told: Told) -> bool {
        let mtu = match self.0.get(&(table, told.to)) {
            Some(known) if known.mtu < told.mtu => return false,
            Some(known) if known.mtu == told.mtu => {
                self.0.insert((table, told.to), Learnt { mtu: told.mtu, at: now });
                return false;
            }
            _ => told.mtu,
        };
        if self.0.len() >= MOST
            && !self.0.contains_key(&(table, told.to))
            && let Some(oldest) = self.0.iter().min_by_key(|(_, l)| l.at).map(|(k, _)| *k)
        {
            self.0.remove(&oldest);
        }
        self.0.insert((table, told.to), Learnt { mtu, at: now });
        true
    }

    /// Forgets what is too old; true when workers are to be told.
    pub fn age(&mut self, now: Millis) -> bool {
        let before = self.0.len();
        self.0.retain(|_, l| now.0.saturating_sub(l.at.0) < KEPT_MS);
        self.0.len() != before
    }

    /// Forgets what is of a table that goes; true when workers are to be told.
    pub fn forget(&mut self, v6: bool, table: u32) -> bool {
        let before = self.0.len();
        self.0.retain(|(at, to), _| *at != table || to.is_ipv6() != v6);
        self.0.len() != before
    }

    /// When the first is too old.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.0.values().map(|l| l.at.after(KEPT_MS)).min()
    }

    /// As workers see it.
    pub fn published(&self) -> PathMtus {
        PathMtus(self.0.iter().map(|(k, l)| (*k, l.mtu)).collect())
    }

    /// All, by table and destination.
    pub fn iter(&self) -> impl Iterator<Item = ((u32, IpAddr), Learnt)> + '_ {
        self.0.iter().map(|(k, l)| (*k, *l))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(n: u8, mtu: u16) -> Told {
        Told { own: "10.0.0.1".parse().unwrap(), to: [10, 0, 1, n].into(), mtu }
    }

    #[test]
    fn bounded_and_aged() {
        let mut t = PathMtuTable::default();
        assert!(t.learn(Millis(0), 0, told(1, 1400)));
        assert!(!t.learn(Millis(1), 0, told(1, 1400)), "heard again");
        assert!(!t.learn(Millis(2), 0, told(1, 1450)), "a path does not widen by being told so");
        assert!(t.learn(Millis(3), 0, told(1, 1300)));
        assert_eq!(t.published().of(0, [10, 0, 1, 1].into()), Some(1300));
        assert_eq!(t.published().of(1, [10, 0, 1, 1].into()), None, "another table");
        for n in 0..1000u32 {
            let to = IpAddr::from([11, 0, (n >> 8) as u8, n as u8]);
            t.learn(Millis(10 + u64::from(n)), 0, Told { to, ..told(1, 1300) });
        }
        assert_eq!(t.iter().count(), MOST);
        assert_eq!(t.published().of(0, [10, 0, 1, 1].into()), None, "the oldest went");
        assert_eq!(t.next_deadline(), t.iter().map(|(_, l)| l.at.after(KEPT_MS)).min());
        assert!(!t.age(Millis(KEPT_MS)));
        assert!(t.age(Millis(1009 + KEPT_MS)));
        assert_eq!((t.iter().count(), t.next_deadline()), (0, None));
    }

    #[test]
    fn a_table_that_goes_is_forgotten() {
        let mut t = PathMtuTable::default();
        t.learn(Millis(0), 7, told(1, 1400));
        t.learn(Millis(0), 8, told(1, 1400));
        t.learn(Millis(0), 7, Told { to: "2001:db8::1".parse().unwrap(), ..told(1, 1400) });
        assert!(t.forget(false, 7) && !t.forget(false, 7), "its place may be another table's tomorrow");
        assert_eq!(t.published().of(7, [10, 0, 1, 1].into()), None);
        assert_eq!(t.iter().count(), 2, "the IPv6 table at this place is another one");
    }

    fn quote4(kind: u8, total: u16) -> Vec<u8> {
        use packet::ip4::Ip4Builder;
        let mut q = vec![0; 28];
        let ip = Ip4Builder::new([10, 0, 0, 1].into(), [10, 0, 1, 7].into(), IpProtocol::ICMP);
        ip.emit(&mut q, usize::from(total) - 20).unwrap();
        q[20] = kind;
        let mut out = vec![0; 576];
        let ip = Ip4Builder::new([10, 9, 9, 9].into(), [10, 0, 0, 1].into(), IpProtocol::ICMP);
        let n = icmp4::ErrorMessage::FragmentationNeeded { mtu: 1000 }.emit(&mut out, ip, &q).unwrap();
        out.truncate(n);
        out
    }

    fn quote6(kind: u8, payload: u16, mtu: u32) -> Vec<u8> {
        use packet::ip6::Ip6Builder;
        let (own, to) = ("2001:db8::1".parse().unwrap(), "2001:db8::7".parse().unwrap());
        let mut q = vec![0; 48];
        Ip6Builder::new(own, to, IpProtocol::ICMPV6).emit(&mut q, payload.into()).unwrap();
        q[40] = kind;
        let mut out = vec![0; 1280];
        let ip = Ip6Builder::new("2001:db8::9".parse().unwrap(), own, IpProtocol::ICMPV6);
        let n = icmp6::ErrorMessage::PacketTooBig { mtu }.emit(&mut out, ip, &q).unwrap();
        out.truncate(n);
        out
    }

    #[test]
    fn what_the_router_could_have_sent() {
        let got = Told { own: "10.0.0.1".parse().unwrap(), to: [10, 0, 1, 7].into(), mtu: 1000 };
        assert_eq!(Told::read(&quote4(0, 1001)), Some(got));
        assert_eq!(Told::read(&quote4(8, 1500)), Some(got));
        assert_eq!(Told::read(&quote4(0, 1000)), None, "it fitted");
        assert_eq!(Told::read(&quote4(3, 1500)), None, "no echo");
        let mut small = quote4(0, 1001);
        small[26..28].copy_from_slice(&500u16.to_be_bytes());
        assert_eq!(Told::read(&small), Some(Told { mtu: LEAST_TOLD4, ..got }), "not believed as it is");
        let mut short = quote4(0, LEAST_TOLD4);
        short[26..28].copy_from_slice(&500u16.to_be_bytes());
        assert_eq!(Told::read(&short), None, "it fits in the least that is believed");
        let mut low = quote4(0, 1001);
        low[26..28].copy_from_slice(&67u16.to_be_bytes());
        assert_eq!(Told::read(&low), None, "less than any link has");
        let mut udp = quote4(0, 1001);
        udp[28 + 9] = 17;
        assert_eq!(Told::read(&udp), None);
        let got6 =
            Told { own: "2001:db8::1".parse().unwrap(), to: "2001:db8::7".parse().unwrap(), mtu: 1300 };
        assert_eq!(Told::read(&quote6(129, 1261, 1300)), Some(got6));
        assert_eq!(Told::read(&quote6(129, 1260, 1300)), None, "it fitted");
        assert_eq!(Told::read(&quote6(129, 1400, 1279)), None, "less than IPv6 has");
        assert_eq!(Told::read(&quote6(129, 1400, 65_536 + 1300)), None);
        assert_eq!(Told::read(&quote6(135, 1400, 1300)), None, "no echo");
    }

    #[test]
    fn any_bytes() {
        for whole in [quote4(0, 1500), quote6(129, 1400, 1300)] {
            for len in 0..whole.len() {
                let _ = Told::read(&whole[..len]);
            }
        }
    }
}
