//! `ip6-input`: the header checks of RFC 8200 section 3 and the addresses of RFC 4291 section 2.

use crate::interface::ifflags;
use crate::layer::{self, Checked};
use crate::plane::{IfCache, Plane};
use graph::counters::Table;
use graph::node::Step;
use graph::stage::{self, CameOn, Found, Spot, Stage, Then};
use graph::{Desc, Guard, Like, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags};
use packet::ip6::{self, Ip6Error};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// Where `ip6-input` sends packets.
    pub enum Ip6Next {
        Features => "@ip6-unicast",
        HopByHop => "ip6-hop-by-hop",
        Local => "ip6-local",
    }
}

graph::reasons! {
    /// Why `ip6-input` drops packets.
    pub enum Ip6Drop {
        /// Fewer than 40 bytes.
        TooShort => "ip6-too-short",
        /// The IP version is not 6.
        BadVersion => "ip6-bad-version",
        /// The payload length is beyond the packet.
        BadPayloadLength => "ip6-bad-payload-length",
        /// The interface has no IPv6 address.
        NotEnabled => "ip6-not-enabled",
        /// The source is a multicast address (RFC 4291 section 2.7).
        SourceMulticast => "ip6-source-multicast",
        /// The source or destination is the loopback address (RFC 4291 section 2.5.3).
        Loopback => "ip6-loopback-address",
        /// The destination is the unspecified address (RFC 4291 section 2.5.2).
        DestinationUnspecified => "ip6-destination-unspecified",
        /// The destination's multicast scope is reserved or interface-local (RFC 4291 section 2.7).
        BadScope => "ip6-bad-multicast-scope",
        /// A group that the interface has not joined: multicast is not forwarded.
        Multicast => "ip6-multicast-not-handled",
        /// An IPv6 unicast packet in a link-layer multicast or broadcast.
        L2Group => "ip6-unicast-in-l2-multicast",
        /// The unspecified source address does not leave its link (RFC 4291 section 2.5.2).
        SourceUnspecified => "ip6-source-unspecified",
    }
}

impl From<Ip6Error> for Ip6Drop {
    fn from(e: Ip6Error) -> Self {
        match e {
            Ip6Error::TooShort => Ip6Drop::TooShort,
            Ip6Error::BadVersion => Ip6Drop::BadVersion,
            Ip6Error::BadPayloadLength => Ip6Drop::BadPayloadLength,
        }
    }
}

/// The node.
pub struct Ip6Input {
    plane: Arc<Plane>,
    counts: Arc<Table>,
}

impl Ip6Input {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        Ip6Input { plane: Arc::clone(plane), counts: plane.counters.received.ip6.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct Ip6InputView<'v> {
    ifs: IfCache<'v>,
    counts: &'v Table,
}

impl Node for Ip6Input {
    const NAME: &'static str = "ip6-input";
    type Next = Ip6Next;
    type Drop = Ip6Drop;
    type View<'v> = Ip6InputView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6InputView<'v> {
        Ip6InputView { ifs: IfCache::new(&self.plane, guard), counts: &self.counts }
    }

    #[inline]
    fn step(view: &mut Ip6InputView<'_>, p: &mut Packet<'_>) -> Step<Ip6Next, Ip6Drop> {
        view.counts.add(p.d.rx, 1);
        let have = p.total_len();
        let h = ip6::Ip6Header(ip6::check(p.data(), have).map_err(Ip6Drop::from)?);
        let (src, dst) = (h.src_u128(), h.dst_u128());
        let (total, hop_by_hop) = (h.total_len(), h.next_header().0 == 0);
        let Some(i) = view.ifs.get(p.d.rx) else { return Err(Ip6Drop::NotEnabled.into()) };
        if !i.is(ifflags::IP6) {
            return Err(Ip6Drop::NotEnabled.into());
        }
        if total < have {
            p.trim(total);
        }
        if src >> 120 == 0xff {
            return Err(Ip6Drop::SourceMulticast.into());
        }
        if src <= 1 || dst <= 1 {
            if dst == 0 {
                return Err(Ip6Drop::DestinationUnspecified.into());
            }
            if src == 1 || dst == 1 {
                return Err(Ip6Drop::Loopback.into());
            }
            if dst >> 120 != 0xff {
                return Err(Ip6Drop::SourceUnspecified.into());
            }
        }
        p.d.feat = i.ip6_unicast;
        if dst >> 120 == 0xff {
            let scope = dst >> 112 & 0xf;
            if scope <= 1 || scope == 0xf {
                return Err(Ip6Drop::BadScope.into());
            }
            // Groups of one link are for Linux, where it is there (RFC 4291 section 2.7).
            let near = scope == 2 && i.is(ifflags::LINUX);
            if !near && i.groups6.binary_search(&dst).is_err() {
                return Err(Ip6Drop::Multicast.into());
            }
            return Ok(if hop_by_hop { Ip6Next::HopByHop } else { Ip6Next::Local });
        }
        if p.has(flags::L2_GROUP) {
            return Err(Ip6Drop::L2Group.into());
        }
        if hop_by_hop {
            return Ok(Ip6Next::HopByHop);
        }
        Ok(Ip6Next::Features)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

/// Length of a usual packet whose header is `h`: unicast without hop-by-hop options, and nothing for which `step` does more. The
/// caller has seen the version.
#[inline(always)]
fn sane(h: &[u8; ip6::HEADER_LEN]) -> Option<u32> {
    let word = |at: usize| {
        let b = |n: usize| h[at + n];
        u64::from_le_bytes([b(0), b(1), b(2), b(3), b(4), b(5), b(6), b(7)])
    };
    // Unicast addresses whose first half is not zero need no closer look.
    let plain = |half: u64| half as u8 != 0xff && half != 0;
    let first = word(0);
    ((first >> 48) as u8 != 0 && plain(word(8)) && plain(word(24)))
        .then(|| ip6::HEADER_LEN as u32 + u32::from(((first >> 32) as u16).swap_bytes()))
}

/// The checks of a usual packet.
#[derive(Clone, Copy)]
pub struct Checks6;

impl Stage for Checks6 {
    type Needs = layer::Ip6;
    type Leaves = Checked<layer::Ip6>;
    const HEADER: u16 = 0;
    const NODE: &'static str = Ip6Input::NAME;

    fn asks(&self, like: Like, at: usize) -> Like {
        like.and(at, 6 << 4, 0xf0)
    }

    #[inline(always)]
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool {
        let Some(h) = spot.header(w) else { return false };
        if !spot.has_asked(0) && h[0] >> 4 != 6 {
            return false;
        }
        let Some(total) = sane(h) else { return false };
        found.len = total;
        spot.at as u32 + total <= u32::from(d.len)
    }
}

impl QuickNode for Ip6Input {
    /// The interface of the usual packets, which has an IPv6 address, and its features.
    type Common<'v> = (u32, u32, &'v Table);

    fn common<'v>(
        view: &Ip6InputView<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip6Next, Self::Common<'v>)> {
        let i = view.ifs.peek(first.rx)?;
        i.takes_ip6().then_some((Ip6Next::Features, (first.rx, i.ip6_unicast, view.counts)))
    }

    fn features(common: &Self::Common<'_>) -> u32 {
        common.1
    }

    fn quick(&(rx, _, counts): &Self::Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize {
        let taken = stage::run(Then::new(CameOn::new(rx), Checks6), descs, rooms);
        counts.add(rx, taken);
        taken
    }
}
