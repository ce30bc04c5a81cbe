//! `ip4-mpls-label-disposition-pipe` and its like: a label taken off an IP packet, which goes on by its own header.
//!
//! Into a table the packet is checked as one that was received; to a neighbour (penultimate hop popping) it goes as it is.

use crate::icmp::Ask;
use crate::labels::top;
use crate::plane::{IN_TABLE, Plane};
use graph::node::Step;
use graph::{Exit, Guard, Node, Packet, TraceRecord};
use packet::eth::EtherType;
use packet::mpls::Entry;
use packet::{ip4, ip6};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

graph::edges! {
    /// Where nodes that take labels off send packets.
    pub enum DispositionNext {
        Ip4Lookup => "ip4-lookup",
        Ip4Options => "ip4-options",
        Ip6Lookup => "ip6-lookup",
        Ip6HopByHop => "ip6-hop-by-hop",
        Output => "mpls-output",
        Push4 => "ip4-mpls-label-imposition-pipe",
        Push6 => "ip6-mpls-label-imposition-pipe",
        Fragment4 => "ip4-frag",
        Error4 => "ip4-icmp-error",
        Error6 => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// Why nodes that take labels off drop packets.
    pub enum DispositionReason {
        /// Behind the bottom of the label stack is no packet of the right family.
        NotIp => "mpls-disposition-not-ip",
        /// Its header is wrong, or the packet shorter than it says.
        BadHeader => "mpls-disposition-bad-header",
        /// An address that may not be seen on a link, or a group.
        BadAddress => "mpls-disposition-bad-address",
        /// The adjacency does not exist any more.
        Gone => "mpls-disposition-adjacency-gone",
        /// Larger than the MTU; the sender is told so.
        TooBig => "mpls-disposition-too-big" (info),
    }
}

type Outcome = Step<DispositionNext, DispositionReason>;

/// `hash` of packets to a neighbour; `aux` is the adjacency then, else the place of a table.
pub(super) const TO_NEIGHBOR: u32 = 1;
/// `hash` of packets into a table.
pub(super) const INTO_TABLE: u32 = 0;

/// The family of the packets, and whether the label's TTL is theirs.
pub trait Inside: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// IPv6.
    const V6: bool;
    /// The packet gets the label's TTL.
    const UNIFORM: bool;
}

macro_rules! variants {
    ($($(#[doc = $doc:literal])* $variant:ident: $name:literal, $v6:literal, $uniform:literal;)*) => {$(
        $(#[doc = $doc])*
        pub struct $variant;

        impl Inside for $variant {
            const NAME: &'static str = $name;
            const V6: bool = $v6;
            const UNIFORM: bool = $uniform;
        }
    )*};
}

variants! {
    /// IPv4, with its own TTL.
    Ip4Pipe: "ip4-mpls-label-disposition-pipe", false, false;
    /// IPv4, with the label's TTL.
    Ip4Uniform: "ip4-mpls-label-disposition-uniform", false, true;
    /// IPv6, with its own hop limit.
    Ip6Pipe: "ip6-mpls-label-disposition-pipe", true, false;
    /// IPv6, with the label's TTL.
    Ip6Uniform: "ip6-mpls-label-disposition-uniform", true, true;
}

/// The node of a variant.
pub struct LabelDisposition<I> {
    plane: Arc<Plane>,
    variant: PhantomData<I>,
}

impl<I: Inside> LabelDisposition<I> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        LabelDisposition { plane: Arc::clone(plane), variant: PhantomData }
    }
}

/// Snapshot of one vector.
pub struct DispositionView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
}

impl<I: Inside> Node for LabelDisposition<I> {
    const NAME: &'static str = I::NAME;
    type Next = DispositionNext;
    type Drop = DispositionReason;
    type View<'v> = DispositionView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> DispositionView<'v> {
        DispositionView { plane: &self.plane, guard }
    }

    /// The label that is taken off is the first of the packet.
    #[inline]
    fn step(view: &mut DispositionView<'_>, p: &mut Packet<'_>) -> Outcome {
        let to_neighbor = p.d.hash == TO_NEIGHBOR;
        let Some(came) = top(p.data()) else { return Err(DispositionReason::NotIp.into()) };
        let _ = p.advance(4);
        let version = p.data().first().map_or(0, |b| b >> 4);
        if version != if I::V6 { 6 } else { 4 } {
            return Err(DispositionReason::NotIp.into());
        }
        // Into a table the packet makes its hop there.
        let ttl = I::UNIFORM.then_some(came.ttl().saturating_sub(u8::from(to_neighbor)));
        if I::V6 { six(p, ttl, to_neighbor, view) } else { four(p, ttl, to_neighbor, view) }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if r.after.off == r.before.off {
            crate::labels::stack(r.bytes(), f)
        } else {
            crate::format::ip(r.bytes(), f)
        }
    }
}

/// Into the table whose place `aux` is.
#[inline]
fn into_table(p: &mut Packet<'_>) {
    if p.d.aux != u32::MAX {
        p.d.tx = p.d.aux;
        p.d.flags |= IN_TABLE;
    }
    p.d.feat = 0;
}

#[inline]
fn four(p: &mut Packet<'_>, ttl: Option<u8>, to_neighbor: bool, view: &DispositionView<'_>) -> Outcome {
    if let (Some(ttl), Some(h)) = (ttl, p.head_mut::<20>()) {
        // Never more than it has: a loop through several tunnels must end.
        let now = h[8].min(ttl);
        ip4::set_ttl(h, now);
    }
    if to_neighbor {
        return neighbor(p, 20, EtherType::IPV4, view);
    }
    let have = p.total_len();
    let checked = ip4::check(p.data(), have).map_err(|_| Exit::from(DispositionReason::BadHeader))?;
    let h = ip4::Ip4Header(checked);
    let (src, dst, total) = (h.src_u32(), h.dst_u32(), usize::from(h.total_len()));
    let options = h.header_len() > ip4::HEADER_LEN;
    if total < have {
        p.trim(total);
    }
    if !crate::ip4::input::may_pass(src, dst) {
        return Err(DispositionReason::BadAddress.into());
    }
    into_table(p);
    p.d.aux = dst;
    Ok(if options { DispositionNext::Ip4Options } else { DispositionNext::Ip4Lookup })
}

#[inline]
fn six(p: &mut Packet<'_>, ttl: Option<u8>, to_neighbor: bool, view: &DispositionView<'_>) -> Outcome {
    if let (Some(ttl), Some(h)) = (ttl, p.head_mut::<40>()) {
        h[7] = h[7].min(ttl);
    }
    if to_neighbor {
        return neighbor(p, 40, EtherType::IPV6, view);
    }
    let have = p.total_len();
    let checked = ip6::check(p.data(), have).map_err(|_| Exit::from(DispositionReason::BadHeader))?;
    let h = ip6::Ip6Header(checked);
    let (src, dst, total, hop_by_hop) = (h.src_u128(), h.dst_u128(), h.total_len(), h.next_header().0 == 0);
    if total < have {
        p.trim(total);
    }
    // No group, neither unspecified nor loopback, and nothing that belongs to one link.
    let passes = |a: u128| a > 1 && a >> 120 != 0xff && a >> 118 != 0xfe80 >> 6;
    if !passes(src) || !passes(dst) {
        return Err(DispositionReason::BadAddress.into());
    }
    into_table(p);
    Ok(if hop_by_hop { DispositionNext::Ip6HopByHop } else { DispositionNext::Ip6Lookup })
}

/// To the neighbour of an adjacency.
fn neighbor(p: &mut Packet<'_>, header: usize, ethertype: EtherType, view: &DispositionView<'_>) -> Outcome {
    let Some(a) = view.plane.adjacencies.get(p.d.aux, view.guard) else {
        return Err(DispositionReason::Gone.into());
    };
    let v6 = header == 40;
    let Some(&fragment) = p.data().get(header - 1).and(p.data().get(6)) else {
        return Err(DispositionReason::BadHeader.into());
    };
    p.d.hash = ethertype.0.into();
    if a.mpls.as_ref().is_some_and(|m| !m.stack.is_empty()) {
        return Ok(if v6 { DispositionNext::Push6 } else { DispositionNext::Push4 });
    }
    if p.total_len() > usize::from(a.mtu) {
        if !v6 && fragment & 0x40 == 0 {
            return Ok(DispositionNext::Fragment4);
        }
        p.count(DispositionReason::TooBig);
        let ask = if v6 { Ask::v6_too_big(a.mtu) } else { Ask::v4_fragmentation_needed(a.mtu) };
        p.d.aux = ask.word();
        return Ok(if v6 { DispositionNext::Error6 } else { DispositionNext::Error4 });
    }
    Ok(DispositionNext::Output)
}

/// The entry below one that is taken off: with mode uniform it has its TTL, one hop less.
#[inline]
pub(super) fn exposed(came: Entry, below: Entry, uniform: bool) -> Entry {
    if uniform { below.with_ttl(below.ttl().min(came.ttl().saturating_sub(1))) } else { below }
}
