//! `ip4-mpls-label-imposition-pipe` and its like: labels put on IP packets, and put in the place of a label that came.
//!
//! The six nodes do the same; which one a packet takes shows how TTL and EXP get into its labels (RFC 3443).

use crate::adjacency::Adjacency;
use crate::icmp::Ask;
use crate::ip4::rewrite::wire_len;
use crate::labels::{Push, top};
use crate::plane::Plane;
use crate::{path_mtu, reassembly};
use graph::node::Step;
use graph::{Guard, Node, Packet, TraceRecord, flags};
use packet::eth::EtherType;
use packet::{ip4, ip6};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

graph::edges! {
    /// Where nodes that put labels on send packets.
    pub enum ImpositionNext {
        Output => "mpls-output",
        Fragment4 => "ip4-frag",
        Fragment6 => "ip6-frag",
        Error4 => "ip4-icmp-error",
        Error6 => "ip6-icmp-error",
    }
}

graph::reasons! {
    /// What nodes that put labels on count.
    pub enum ImpositionReason {
        /// The adjacency does not exist any more.
        Gone => "mpls-imposition-adjacency-gone",
        /// The packet has not the header that is to be behind the labels.
        TooShort => "mpls-imposition-too-short",
        /// No room in front of the packet for the labels.
        NoRoom => "mpls-imposition-no-headroom",
        /// The place of a partial checksum is not within the packet.
        BadOffload => "mpls-imposition-bad-offload",
        /// The TTL or hop limit ran out; the sender is told "time exceeded".
        TtlExpired => "mpls-imposition-ttl-expired" (info),
        /// Larger than the MTU less the labels, and not to be fragmented; the sender is told the MTU.
        TooBig => "mpls-imposition-too-big" (info),
        /// A link-local source address does not leave its link; the sender is told "beyond scope".
        BeyondScope => "mpls-imposition-beyond-scope" (info),
    }
}

/// What the labels are put on, and how.
pub trait Below: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// Puts the labels of an adjacency on a packet.
    fn put(
        view: &ImpositionView<'_>,
        p: &mut Packet<'_>,
        a: &Adjacency,
    ) -> Step<ImpositionNext, ImpositionReason>;
}

macro_rules! variants {
    ($($(#[doc = $doc:literal])* $variant:ident: $name:literal, $put:ident;)*) => {$(
        $(#[doc = $doc])*
        pub struct $variant;

        impl Below for $variant {
            const NAME: &'static str = $name;

            #[inline]
            fn put(
                view: &ImpositionView<'_>,
                p: &mut Packet<'_>,
                a: &Adjacency,
            ) -> Step<ImpositionNext, ImpositionReason> {
                $put(view, p, a)
            }
        }
    )*};
}

variants! {
    /// On IPv4 packets, TTL and EXP set.
    PushIp4Pipe: "ip4-mpls-label-imposition-pipe", on_ip4;
    /// On IPv4 packets, TTL or EXP copied.
    PushIp4Uniform: "ip4-mpls-label-imposition-uniform", on_ip4;
    /// On IPv6 packets, TTL and EXP set.
    PushIp6Pipe: "ip6-mpls-label-imposition-pipe", on_ip6;
    /// On IPv6 packets, TTL or EXP copied.
    PushIp6Uniform: "ip6-mpls-label-imposition-uniform", on_ip6;
    /// In the place of a label; further ones with TTL and EXP set.
    SwapPipe: "mpls-label-imposition-pipe", in_place;
    /// In the place of a label; further ones with TTL or EXP copied.
    SwapUniform: "mpls-label-imposition-uniform", in_place;
}

/// The node of a variant.
pub struct LabelImposition<B> {
    plane: Arc<Plane>,
    path_mtus: path_mtu::Reader,
    variant: PhantomData<B>,
}

impl<B: Below> LabelImposition<B> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        LabelImposition {
            plane: Arc::clone(plane),
            path_mtus: path_mtu::Reader::new(plane),
            variant: PhantomData,
        }
    }
}

/// Snapshot of one vector.
pub struct ImpositionView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    path_mtus: &'v path_mtu::Reader,
}

impl<B: Below> Node for LabelImposition<B> {
    const NAME: &'static str = B::NAME;
    type Next = ImpositionNext;
    type Drop = ImpositionReason;
    type View<'v> = ImpositionView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> ImpositionView<'v> {
        ImpositionView { plane: &self.plane, guard, path_mtus: &self.path_mtus }
    }

    #[inline]
    fn step(view: &mut ImpositionView<'_>, p: &mut Packet<'_>) -> Step<ImpositionNext, ImpositionReason> {
        match view.plane.adjacencies.get(p.d.aux, view.guard) {
            Some(a) => B::put(view, p, a),
            None => Err(ImpositionReason::Gone.into()),
        }
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if r.after.off < r.before.off || r.after.hash as u16 == EtherType::MPLS.0 {
            crate::labels::stack(r.bytes(), f)
        } else {
            crate::format::ip(r.bytes(), f)
        }
    }
}

#[cold]
fn error(
    p: &mut Packet<'_>,
    why: ImpositionReason,
    ask: Ask,
    next: ImpositionNext,
) -> Step<ImpositionNext, ImpositionReason> {
    p.count(why);
    p.d.aux = ask.word();
    Ok(next)
}

/// Completes a partial checksum: a device cannot behind labels.
fn complete(p: &mut Packet<'_>) -> Result<(), ImpositionReason> {
    if p.has(flags::CSUM_PARTIAL) && !crate::offload::complete(&mut p.env.buffers, p.d) {
        return Err(ImpositionReason::BadOffload);
    }
    Ok(())
}

/// Puts labels above an IP packet with this TTL and class.
fn push(
    p: &mut Packet<'_>,
    a: &Adjacency,
    ethertype: EtherType,
    ttl: u8,
    class: u8,
) -> Result<(), ImpositionReason> {
    let stack = a.mpls.as_ref().map(|m| m.stack.as_slice()).unwrap_or_default();
    p.d.hash = ethertype.0.into();
    above(p, stack, ttl, class >> 5, true)
}

/// Puts labels in front of what has this TTL and EXP.
fn above(p: &mut Packet<'_>, stack: &[Push], ttl: u8, exp: u8, bottom: bool) -> Result<(), ImpositionReason> {
    if stack.is_empty() {
        return Ok(());
    }
    if !p.prepend(stack.len() * 4) {
        return Err(ImpositionReason::NoRoom);
    }
    let (mut ttl, mut exp, mut bottom) = (ttl, exp, bottom);
    for (place, push) in p.data_mut().as_chunks_mut::<4>().0[..stack.len()].iter_mut().zip(stack).rev() {
        let entry = push.above(ttl, exp, bottom);
        *place = entry.to_bytes();
        (ttl, exp, bottom) = (entry.ttl(), entry.exp(), false);
    }
    p.d.hash = EtherType::MPLS.0.into();
    Ok(())
}

fn on_ip4(
    view: &ImpositionView<'_>,
    p: &mut Packet<'_>,
    a: &Adjacency,
) -> Step<ImpositionNext, ImpositionReason> {
    let (local, len) = (p.has(flags::LOCAL), wire_len(p));
    let (mtu, most) = (a.ip_mtu(), view.path_mtus.largest4(view.guard, p, a.ip_mtu()));
    let super_frame = p.has(flags::GSO);
    let Some(h) = p.head_mut::<20>() else { return Err(ImpositionReason::TooShort.into()) };
    if !local && h[8] <= 1 {
        return error(p, ImpositionReason::TtlExpired, Ask::V4_TTL_EXCEEDED, ImpositionNext::Error4);
    }
    // What cuts into fragments also makes the segments of a super-frame.
    if super_frame && len <= most {
        return Ok(ImpositionNext::Fragment4);
    }
    if len > most {
        if h[6] & 0x40 != 0 {
            let ask = Ask::v4_fragmentation_needed(mtu.max(ip4::MIN_MTU));
            return error(p, ImpositionReason::TooBig, ask, ImpositionNext::Error4);
        }
        return Ok(ImpositionNext::Fragment4);
    }
    if !local {
        ip4::decrement_ttl(h);
    }
    let (ttl, class) = (h[8], h[1]);
    complete(p)?;
    push(p, a, EtherType::IPV4, ttl, class)?;
    Ok(ImpositionNext::Output)
}

fn on_ip6(
    view: &ImpositionView<'_>,
    p: &mut Packet<'_>,
    a: &Adjacency,
) -> Step<ImpositionNext, ImpositionReason> {
    let (local, len, rx) = (p.has(flags::LOCAL), wire_len(p), p.d.rx);
    let (mtu, most) = (a.ip_mtu(), view.path_mtus.largest6(view.guard, p, a.ip_mtu()));
    let super_frame = p.has(flags::GSO);
    let Some(h) = p.head_mut::<40>() else { return Err(ImpositionReason::TooShort.into()) };
    if !local {
        if h[7] <= 1 {
            let ask = Ask::V6_HOP_LIMIT_EXCEEDED;
            return error(p, ImpositionReason::TtlExpired, ask, ImpositionNext::Error6);
        }
        if ip6::Ip6Header(h).src_u128() >> 118 == 0xfe80 >> 6 && a.interface != rx {
            return error(p, ImpositionReason::BeyondScope, Ask::V6_BEYOND_SCOPE, ImpositionNext::Error6);
        }
    }
    if super_frame && len <= most {
        return Ok(ImpositionNext::Fragment6);
    }
    if len > most {
        if local || p.has(reassembly::REASSEMBLED) {
            return Ok(ImpositionNext::Fragment6);
        }
        let ask = Ask::v6_too_big(mtu.max(ip6::MIN_MTU));
        return error(p, ImpositionReason::TooBig, ask, ImpositionNext::Error6);
    }
    if !local {
        ip6::decrement_hop_limit(h);
    }
    let (ttl, class) = (h[7], h[0] << 4 | h[1] >> 4);
    complete(p)?;
    push(p, a, EtherType::IPV6, ttl, class)?;
    Ok(ImpositionNext::Output)
}

/// The label in whose place others come is the first of the packet; `hash` is the one that the label's table has for it, or 0.
fn in_place(
    _: &ImpositionView<'_>,
    p: &mut Packet<'_>,
    a: &Adjacency,
) -> Step<ImpositionNext, ImpositionReason> {
    let stack = a.mpls.as_ref().map(|m| m.stack.as_slice()).unwrap_or_default();
    let Some(came) = top(p.data()) else { return Err(ImpositionReason::TooShort.into()) };
    let (swap, outer) = match (Push(p.d.hash), stack.split_last()) {
        (Push(0), Some((last, outer))) => (*last, outer),
        (Push(0), None) => return Err(ImpositionReason::Gone.into()),
        (held, _) => (held, stack),
    };
    let entry = swap.in_place_of(came);
    if let Some(place) = p.head_mut::<4>() {
        *place = entry.to_bytes();
    }
    p.d.hash = EtherType::MPLS.0.into();
    above(p, outer, entry.ttl(), entry.exp(), false)?;
    Ok(ImpositionNext::Output)
}

/// Puts labels above the one with which a packet begins.
pub(super) fn over_label(p: &mut Packet<'_>, stack: &[Push]) -> Result<(), ImpositionReason> {
    let Some(below) = top(p.data()) else { return Err(ImpositionReason::TooShort) };
    above(p, stack, below.ttl(), below.exp(), false)
}
