//! `gre4-input` and `gre6-input`: packets that come out of GRE tunnels.

use super::Gre;
use super::header::{GreError, GreHeader};
use crate::icmp::Ask;
use crate::plane::Plane;
use crate::punt::Class;
use crate::transport;
use crate::tunnel::{Arrivals, ArrivalsView, Common, Fault, Inside, Over, Over4, Over6};
use graph::node::Step;
use graph::{Desc, Guard, Node, Packet, QuickNode, Rooms, TraceRecord};
use packet::checksum::Sum;
use packet::eth::EtherType;
use packet::icmp6::parameter;
use packet::ip6::ext;
use packet::{ip4, ip6};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

graph::edges! {
    /// Where `gre4-input` and `gre6-input` send packets.
    pub enum GreNext {
        Ip4 => "ip4-input",
        Ip6 => "ip6-input",
        Mpls => "mpls-input",
        Frames => "@device-input",
        Ip4Features => "@ip4-unicast",
        Ip6Features => "@ip6-unicast",
        Bridged => "@l2-input",
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

/// What differs by the family outside.
pub trait GreOver: Over {
    /// Name of the node.
    const NAME: &'static str;
    /// How the sender is told that nobody speaks the protocol.
    fn refusal(p: &Packet<'_>) -> (Ask, GreNext);
}

impl GreOver for Over4 {
    const NAME: &'static str = "gre4-input";

    fn refusal(_: &Packet<'_>) -> (Ask, GreNext) {
        (Ask::V4_PROTOCOL_UNREACHABLE, GreNext::Error4)
    }
}

impl GreOver for Over6 {
    const NAME: &'static str = "gre6-input";

    fn refusal(p: &Packet<'_>) -> (Ask, GreNext) {
        let named_at = ext::walk(p.data()).map_or(0, |u| u.named_at);
        (Ask::v6_parameter_problem(parameter::NEXT_HEADER, named_at as u16), GreNext::Error6)
    }
}

/// The node.
pub struct GreInput<O>(Arrivals<O, Gre>);

impl<O: GreOver> GreInput<O> {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        GreInput(Arrivals::new(plane, worker))
    }
}

impl From<Fault> for GreDrop {
    fn from(f: Fault) -> Self {
        match f {
            Fault::TooShort => GreDrop::TooShort,
            Fault::Checksum => GreDrop::Checksum,
            Fault::SuperFrame => GreDrop::SuperFrame,
            Fault::Down => GreDrop::Down,
            Fault::Congestion => GreDrop::Congestion,
        }
    }
}

/// Where goes what is inside of a tunnel for frames or packets; `None` for what it does not carry.
#[inline]
fn next(frames: bool, what: EtherType) -> Option<GreNext> {
    match what {
        EtherType::TRANSPARENT_ETHERNET if frames => Some(GreNext::Frames),
        EtherType::IPV4 if !frames => Some(GreNext::Ip4),
        EtherType::IPV6 if !frames => Some(GreNext::Ip6),
        EtherType::MPLS if !frames => Some(GreNext::Mpls),
        _ => None,
    }
}

impl<O: GreOver> Node for GreInput<O> {
    const NAME: &'static str = O::NAME;
    type Next = GreNext;
    type Drop = GreDrop;
    type View<'v> = ArrivalsView<'v, O, Gre>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> ArrivalsView<'v, O, Gre> {
        self.0.view(guard)
    }

    /// The packet begins with its IP header; `aux` is how long all headers before that of GRE are.
    #[inline]
    fn step(view: &mut ArrivalsView<'_, O, Gre>, p: &mut Packet<'_>) -> Step<GreNext, GreDrop> {
        let at = p.d.aux as usize;
        let h = GreHeader::parse(p.data().get(at..).unwrap_or_default()).map_err(|e| match e {
            GreError::TooShort => GreDrop::TooShort,
            GreError::Version | GreError::Old => GreDrop::Header,
        })?;
        let Some((tunnel, class)) = view.find(p, h.key.map(u64::from)) else {
            if !view.plane.admits(p, Class::Local) {
                return Ok(GreNext::Policed);
            }
            p.count(GreDrop::NoTunnel);
            let (ask, next) = O::refusal(p);
            p.d.aux = ask.word();
            return Ok(next);
        };
        let len = at + h.len();
        let whole = ArrivalsView::<O, Gre>::finish(p, len).map_err(GreDrop::from)?;
        if h.checksum && !whole && !is_valid(p, at) {
            return Err(GreDrop::Checksum.into());
        }
        let Some(next) = next(tunnel.frames, h.protocol) else { return Err(GreDrop::Protocol.into()) };
        // What comes while it is down has no place in the order.
        if !view.is_up(tunnel) {
            return Err(GreDrop::Down.into());
        }
        if tunnel.last.as_ref().is_some_and(|last| !is_next(last, h.sequence)) {
            return Err(GreDrop::OutOfOrder.into());
        }
        view.take(p, tunnel, len, (h.protocol, class)).map_err(GreDrop::from)?;
        Ok(next)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::interface_and_l2(r, f)
    }
}

impl<O: GreOver> QuickNode for GreInput<O> {
    type Common<'v> = Common<'v>;

    fn common<'v>(
        view: &ArrivalsView<'v, O, Gre>,
        first: &Desc,
        mut rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(GreNext, Common<'v>)> {
        let w = rooms.window::<0>(first)?;
        let plain = |h: &GreHeader| !h.checksum && h.sequence.is_none();
        let h = GreHeader::parse(&w[O::HEADER_LEN..]).ok().filter(plain)?;
        let mask = if h.key.is_some() { u64::MAX } else { u64::MAX << 32 };
        let what = (h.key.map(u64::from), h.protocol);
        let (tunnel, common) = view.common(first, w, what, [mask, 0], h.len(), guard)?;
        let next = next(tunnel.frames, h.protocol)?;
        let next = match common.inside() {
            Inside::Any => next,
            Inside::Ip4(_) => GreNext::Ip4Features,
            Inside::Ip6(_) => GreNext::Ip6Features,
            Inside::Bridged(_) => GreNext::Bridged,
        };
        Some((next, common))
    }

    fn features(common: &Common<'_>) -> u32 {
        common.features()
    }

    fn ends(edge: GreNext, p: &Packet<'_>) -> bool {
        match edge {
            GreNext::Ip4 => ip4::check(p.data(), p.total_len()).is_err(),
            GreNext::Ip6 => ip6::check(p.data(), p.total_len()).is_err(),
            _ => false,
        }
    }

    fn behind(common: &mut Common<'_>, edge: GreNext, _: &Desc) -> Option<GreNext> {
        let overtaken = matches!(
            (common.inside(), edge),
            (Inside::Ip4(_), GreNext::Ip4)
                | (Inside::Ip6(_), GreNext::Ip6)
                | (Inside::Bridged(_), GreNext::Frames)
        );
        overtaken.then(|| common.follow()).map(|()| edge)
    }

    fn quick(common: &Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        common.quick::<O>(descs, rooms, |_, _| true)
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
