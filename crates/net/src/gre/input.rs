//! `gre4-input` and `gre6-input`: packets that come out of GRE tunnels.

use super::header::{GreError, GreHeader};
use super::{AllInbound, Ends, Inbound};
use crate::fib::table::{Family, V4, V6, View};
use crate::icmp::Ask;
use crate::interface::{IfCache, comes_in, ifflags};
use crate::mpls::IN_TABLE;
use crate::offload;
use crate::plane::Plane;
use crate::punt::{self, Class};
use crate::transport;
use graph::counters::{Run, Table};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, Published, QuickNode, Rooms, TraceRecord, flags, quick};
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::icmp6::parameter;
use packet::ip4::{self, Ip4Header};
use packet::ip6::{self, Ip6Header, ext};
use packet::vlan::VlanStack;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

graph::edges! {
    /// Where `gre4-input` and `gre6-input` send packets.
    pub enum GreNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
        Mpls => "mpls-input",
        Frames => "@device-input",
        Error4 => "ip4-icmp-error",
        Error6 => "ip6-icmp-error",
        Policed => "punt-policer",
    }
}

graph::reasons! {
    /// What `gre4-input` and `gre6-input` count.
    pub enum GreDrop {
        /// The packet ends within its GRE header.
        TooShort => "gre-too-short",
        /// The version is not 0, or there are fields of RFC 1701.
        Header => "gre-unsupported-header",
        /// The checksum is wrong.
        Checksum => "gre-bad-checksum",
        /// A super-frame whose segments are not those of the packet inside.
        SuperFrame => "gre-super-frame",
        /// The tunnel's interface is administratively down.
        Down => "gre-tunnel-down",
        /// A packet that came behind one with a higher sequence number, or has none where it should (RFC 2890).
        OutOfOrder => "gre-out-of-order",
        /// What is inside is nothing that the tunnel carries.
        Protocol => "gre-unknown-protocol",
        /// Somebody on the way marked a packet as having met congestion whose sender does not know of it (RFC 6040 section 4.2).
        Congestion => "gre-congestion-not-ect",
        /// No tunnel has these ends and this key; the sender is told that nobody speaks the protocol.
        NoTunnel => "gre-no-tunnel" (info),
    }
}

/// The family outside.
pub trait Over: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// Whether it is IPv6.
    const V6: bool;
    /// Its tables.
    type Family: Family;
    /// Bytes of its header without options or extension headers.
    const HEADER_LEN: usize;
    /// The ends, with traffic class; `None` where the header is cut off. The packet begins with its IP header.
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)>;
    /// How the sender is told that nobody speaks the protocol.
    fn refusal(p: &Packet<'_>) -> (Ask, GreNext);
}

/// Over IPv4.
pub enum Over4 {}
/// Over IPv6.
pub enum Over6 {}

impl Over for Over4 {
    const NAME: &'static str = "gre4-input";
    const V6: bool = false;
    const HEADER_LEN: usize = ip4::HEADER_LEN;
    type Family = V4;

    #[inline(always)]
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)> {
        let h = Ip4Header(packet.first_chunk()?);
        Some((h.dst_u32().into(), h.src_u32().into(), h.tos()))
    }

    fn refusal(_: &Packet<'_>) -> (Ask, GreNext) {
        (Ask::V4_PROTOCOL_UNREACHABLE, GreNext::Error4)
    }
}

impl Over for Over6 {
    const NAME: &'static str = "gre6-input";
    const V6: bool = true;
    const HEADER_LEN: usize = ip6::HEADER_LEN;
    type Family = V6;

    #[inline(always)]
    fn outer(packet: &[u8]) -> Option<(u128, u128, u8)> {
        let h = Ip6Header(packet.first_chunk()?);
        Some((h.dst_u128(), h.src_u128(), h.traffic_class()))
    }

    fn refusal(p: &Packet<'_>) -> (Ask, GreNext) {
        let named_at = ext::walk(p.data()).map_or(0, |u| u.named_at);
        (Ask::v6_parameter_problem(parameter::NEXT_HEADER, named_at as u16), GreNext::Error6)
    }
}

/// The node.
pub struct GreInput<O> {
    plane: Arc<Plane>,
    tunnels: Arc<Published<AllInbound>>,
    received: Arc<Table>,
    over: PhantomData<O>,
}

impl<O: Over> GreInput<O> {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        GreInput {
            plane: Arc::clone(plane),
            tunnels: plane.publish(),
            received: plane.counters.received.rx.of(worker),
            over: PhantomData,
        }
    }
}

/// Snapshot of one vector.
pub struct GreView<'v, O: Over> {
    plane: &'v Plane,
    all: &'v AllInbound,
    tables: View<'v, O::Family>,
    ifs: IfCache<'v>,
    received: &'v Table,
    /// The tunnel of the last packet: most packets of a vector share theirs.
    last: Option<(Ends, &'v Inbound)>,
}

impl<O: Over> Node for GreInput<O> {
    const NAME: &'static str = O::NAME;
    type Next = GreNext;
    type Drop = GreDrop;
    type View<'v> = GreView<'v, O>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> GreView<'v, O> {
        GreView {
            plane: &self.plane,
            all: self.tunnels.load(guard),
            tables: View::new(&self.plane, guard),
            ifs: IfCache::new(&self.plane, guard),
            received: &self.received,
            last: None,
        }
    }

    /// The packet begins with its IP header; `aux` is how long all headers before that of GRE are.
    #[inline]
    fn step(view: &mut GreView<'_, O>, p: &mut Packet<'_>) -> Step<GreNext, GreDrop> {
        let Some((local, remote, class)) = O::outer(p.data()) else { return Err(GreDrop::TooShort.into()) };
        let at = p.d.aux as usize;
        let h = GreHeader::parse(p.data().get(at..).unwrap_or_default()).map_err(|e| match e {
            GreError::TooShort => GreDrop::TooShort,
            GreError::Version | GreError::Old => GreDrop::Header,
        })?;
        let ends = Ends { local, remote, v6: O::V6, table: view.tables.place(p.d), key: h.key };
        if view.last.is_none_or(|(was, _)| was != ends) {
            let Some(found) = view.all.get(&ends) else {
                if !punt::admits(view.plane, p, Class::Local) {
                    return Ok(GreNext::Policed);
                }
                p.count(GreDrop::NoTunnel);
                let (ask, next) = O::refusal(p);
                p.d.aux = ask.word();
                return Ok(next);
            };
            view.last = Some((ends, found));
        }
        let Some((_, tunnel)) = view.last else { return Err(GreDrop::TooShort.into()) };
        // A Linux peer leaves checksums inside to be completed, and super-frames to be cut.
        let whole = p.has(flags::GSO);
        if whole && usize::from(p.meta().csum_start) < usize::from(p.d.off) + at + h.len() + ip4::HEADER_LEN {
            return Err(GreDrop::SuperFrame.into());
        }
        if !whole && p.has(flags::CSUM_PARTIAL) && !offload::complete(&mut p.env.buffers, p.d) {
            return Err(GreDrop::Checksum.into());
        }
        if h.checksum && !whole && !is_valid(p, at) {
            return Err(GreDrop::Checksum.into());
        }
        let Some(next) = tunnel.next(h.protocol) else { return Err(GreDrop::Protocol.into()) };
        let index = tunnel.interface;
        let Some(i) = view.ifs.get(index).filter(|i| i.is(ifflags::UP)) else {
            return Err(GreDrop::Down.into());
        };
        if tunnel.last.as_ref().is_some_and(|last| !is_next(last, h.sequence)) {
            return Err(GreDrop::OutOfOrder.into());
        }
        if !p.advance(at + h.len()) {
            return Err(GreDrop::TooShort.into());
        }
        if class & 3 != 0 && !hand_on(class & 3, h.protocol, p) {
            return Err(GreDrop::Congestion.into());
        }
        let to_do = if whole { p.d.flags & (flags::GSO | flags::CSUM_PARTIAL) } else { 0 };
        comes_in(p.d, index, if tunnel.frames { i.input } else { 0 });
        p.d.flags |= to_do;
        view.received.count(index, p.total_len());
        Ok(next)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

impl Inbound {
    /// Where goes what is inside; `None` for what the tunnel does not carry.
    #[inline]
    fn next(&self, what: EtherType) -> Option<GreNext> {
        match what {
            EtherType::TRANSPARENT_ETHERNET if self.frames => Some(GreNext::Frames),
            EtherType::IPV4 if !self.frames => Some(GreNext::Ip4),
            EtherType::IPV6 if !self.frames => Some(GreNext::Ip6),
            EtherType::MPLS if !self.frames => Some(GreNext::Mpls),
            _ => None,
        }
    }
}

/// What the usual packets of a vector have in common: they come out of one tunnel, with headers that say the same.
pub struct Common<'v> {
    rx: u32,
    local: u128,
    remote: u128,
    /// The first eight bytes from the header of GRE on, as far as they are of it.
    gre: u64,
    mask: u64,
    /// Bytes of all headers.
    len: u16,
    tunnel: u32,
    features: u32,
    received: &'v Table,
}

impl<O: Over> QuickNode for GreInput<O> {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &GreView<'v, O>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(GreNext, Common<'v>)> {
        // All are looked up in the table of the interface on which they came.
        let w = rooms.window::<0>(first).filter(|_| !first.has(IN_TABLE))?;
        let (local, remote, _) = O::outer(w)?;
        let h = GreHeader::parse(&w[O::HEADER_LEN..]).ok().filter(|h| !h.checksum)?;
        let ends = Ends { local, remote, v6: O::V6, table: view.tables.place(first), key: h.key };
        let tunnel = view.all.get(&ends).filter(|t| t.last.is_none() && h.sequence.is_none())?;
        let i = view.plane.interfaces.get(tunnel.interface, guard).filter(|i| i.is(ifflags::UP))?;
        let features = if tunnel.frames { i.input } else { 0 };
        let common = Common {
            rx: first.rx,
            local,
            remote,
            gre: u64::from_be_bytes(*w[O::HEADER_LEN..].first_chunk()?),
            mask: if h.key.is_some() { u64::MAX } else { u64::MAX << 32 },
            len: (O::HEADER_LEN + h.len()) as u16,
            tunnel: tunnel.interface,
            features,
            received: view.received,
        };
        Some((tunnel.next(h.protocol)?, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features
    }

    fn quick(c: &Common<'_>, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let mut received = Run::new(c.received);
        let &Common { rx, local, remote, gre, mask, len, tunnel, features, .. } = c;
        quick::run::<{ flags::UNUSUAL | flags::CSUM_PARTIAL | IN_TABLE }>(descs, move |d| {
            let Some(w) = rooms.window::<0>(d) else { return false };
            let at = w[O::HEADER_LEN..].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
            let same = O::outer(w).is_some_and(|(l, r, class)| l == local && r == remote && class & 3 == 0);
            if !same || d.rx != rx || d.aux != O::HEADER_LEN as u32 || (at ^ gre) & mask != 0 || d.len < len {
                return false;
            }
            d.off += len;
            d.len -= len;
            comes_in(d, tunnel, features);
            received.add(tunnel, d.len);
            true
        })
    }
}

/// Whether the checksum from `at` on to the end of the packet is right.
fn is_valid(p: &Packet<'_>, at: usize) -> bool {
    let len = p.total_len().saturating_sub(at);
    transport::sum_of(p, at, len, Sum::new()).is_some_and(Sum::is_valid)
}

/// Set once a sequence number has come.
const STARTED: u64 = 1 << 32;

/// Takes a sequence number that is higher than the last one, round the end of the numbers (RFC 2890 section 2.2).
fn is_next(last: &AtomicU64, sequence: Option<u32>) -> bool {
    let Some(n) = sequence else { return false };
    let take = |was: u64| {
        let behind = was & STARTED != 0 && n.wrapping_sub(was as u32).wrapping_sub(1) >= 1 << 31;
        (!behind).then_some(STARTED | u64::from(n))
    };
    last.try_update(Relaxed, Relaxed, take).is_ok()
}

const CONGESTION: u8 = 3;

/// Hands on what the outer ECN field said, which was not 0 (RFC 6040 section 4.2). False where the packet inside cannot be told and
/// must be dropped.
fn hand_on(outer: u8, what: EtherType, p: &mut Packet<'_>) -> bool {
    // ECT(1) counts for more than ECT(0).
    let marked = |inner: u8| match (inner, outer) {
        (0, CONGESTION) => None,
        (0, _) => Some(0),
        (CONGESTION, _) | (_, CONGESTION) => Some(CONGESTION),
        (1, _) | (_, 1) => Some(1),
        _ => Some(inner),
    };
    let link = VlanStack::parse(p.data()).filter(|_| what == EtherType::TRANSPARENT_ETHERNET);
    let (what, at) = link.map_or((what, 0), |l| (l.ethertype, usize::from(l.header_len)));
    let header = p.data_mut().get_mut(at..).unwrap_or_default();
    if let (EtherType::IPV4, Some(h)) = (what, header.first_chunk_mut::<{ ip4::HEADER_LEN }>()) {
        let tos = h[1];
        let Some(ecn) = marked(tos & 3) else { return false };
        if ecn != tos & 3 {
            ip4::set_tos(h, tos & !3 | ecn);
        }
    } else if let (EtherType::IPV6, Some(h)) = (what, header.first_chunk_mut::<{ ip6::HEADER_LEN }>()) {
        let class = Ip6Header(h).traffic_class();
        let Some(ecn) = marked(class & 3) else { return false };
        if ecn != class & 3 {
            ip6::set_traffic_class(h, class & !3 | ecn);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_and_round() {
        let last = AtomicU64::new(0);
        assert!(!is_next(&last, None));
        for (n, taken) in [
            (0xffff_fff0, true),
            (0xffff_fff0, false),
            (0xffff_ffff, true),
            (0, true),
            (0xffff_ffff, false),
            (0x7fff_ffff, true),
            (0, false),
        ] {
            assert_eq!(is_next(&last, Some(n)), taken, "{n:#x}");
        }
        // The first one may be any.
        assert!(is_next(&AtomicU64::new(0), Some(0)) && is_next(&AtomicU64::new(0), Some(0x9000_0000)));
    }
}
