//! Clamping of the maximum segment size that TCP hosts tell each other (RFC 9293 section 3.7.1), where a tunnel or an uplink
//! takes smaller packets than the hosts' own links.
//!
//! Only the option of SYN segments is changed, only downwards, and the checksum by the difference (RFC 1624). A segment without
//! the option is left as it is: its receiver then sends segments of 536 bytes (IPv6: 1220).

mod clamp;
pub mod commands;

use crate::arcs;
use crate::interface::{Features, IfCache, Switch};
use crate::plane::Plane;
use graph::arcs::Feature;
use graph::node::Step;
use graph::{Desc, Edge, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags, quick};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The largest segment size that is let through, bytes; 0 means any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clamp {
    /// In packets received.
    pub rx: u16,
    /// In packets sent.
    pub tx: u16,
}

impl Clamp {
    /// True when nothing is clamped.
    pub fn is_off(self) -> bool {
        self == Clamp::default()
    }
}

graph::reasons! {
    /// What the nodes count.
    pub enum MssReason {
        /// The segment size in a SYN was made smaller.
        Clamped => "tcp-mss-clamped" (info),
    }
}

/// Where a node stands: family and direction.
pub trait Place: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// The arc on which it is.
    type Next: Edge;
    /// The next feature.
    const NEXT: Self::Next;
    /// IPv6.
    const V6: bool;
    /// Packets sent; the link-layer header is in front of them.
    const OUT: bool;
    /// What is clamped to.
    fn size(f: &Features) -> u16;
}

macro_rules! place {
    ($name:ident, $next:ident, $node:literal, $arc:literal, $v6:literal, $out:literal, $size:expr) => {
        graph::edges! {
            #[doc = concat!("Where `", $node, "` sends packets.")]
            pub enum $next { Features => $arc }
        }

        #[doc = concat!("`", $node, "`.")]
        pub struct $name;

        impl Place for $name {
            const NAME: &'static str = $node;
            type Next = $next;
            const NEXT: $next = $next::Features;
            const V6: bool = $v6;
            const OUT: bool = $out;

            fn size(f: &Features) -> u16 {
                let size: fn(&Features) -> u16 = $size;
                size(f)
            }
        }
    };
}

place!(In4, In4Next, "ip4-mss-clamp-in", "@ip4-unicast", false, false, |f| f.mss4.rx);
place!(In6, In6Next, "ip6-mss-clamp-in", "@ip6-unicast", true, false, |f| f.mss6.rx);
place!(Out4, Out4Next, "ip4-mss-clamp-out", "@ip4-output", false, true, |f| f.mss4.tx);
place!(Out6, Out6Next, "ip6-mss-clamp-out", "@ip6-output", true, true, |f| f.mss6.tx);

static IP4_IN: Feature = Feature::new(&arcs::IP4_UNICAST, In4::NAME);
static IP6_IN: Feature = Feature::new(&arcs::IP6_UNICAST, In6::NAME);
static IP4_OUT: Feature = Feature::new(&arcs::IP4_OUTPUT, Out4::NAME);
static IP6_OUT: Feature = Feature::new(&arcs::IP6_OUTPUT, Out6::NAME);

/// What they are switched on by.
pub static SWITCHES: [Switch; 4] = [
    Switch { feature: &IP4_IN, on: |f| In4::size(f) != 0 },
    Switch { feature: &IP6_IN, on: |f| In6::size(f) != 0 },
    Switch { feature: &IP4_OUT, on: |f| Out4::size(f) != 0 },
    Switch { feature: &IP6_OUT, on: |f| Out6::size(f) != 0 },
];

/// The node of a place.
pub struct MssClamp<P> {
    plane: Arc<Plane>,
    place: PhantomData<P>,
}

impl<P: Place> MssClamp<P> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MssClamp { plane: Arc::clone(plane), place: PhantomData }
    }
}

impl<P: Place> Node for MssClamp<P> {
    const NAME: &'static str = P::NAME;
    type Next = P::Next;
    type Drop = MssReason;
    type View<'v> = IfCache<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> IfCache<'v> {
        IfCache::new(&self.plane, guard)
    }

    #[inline]
    fn step(ifs: &mut IfCache<'_>, p: &mut Packet<'_>) -> Step<P::Next, MssReason> {
        let index = if P::OUT { p.d.tx } else { p.d.rx };
        let most = ifs.get(index).map_or(0, |i| P::size(&i.features));
        let partial = p.has(flags::CSUM_PARTIAL);
        if most != 0
            && let Some(segment) = clamp::segment(p.data_mut(), P::V6, P::OUT)
            && clamp::lower(segment, most, partial)
        {
            p.count(MssReason::Clamped);
        }
        Ok(P::NEXT)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if P::OUT { crate::format::output(r, f) } else { crate::format::ip(r.bytes(), f) }
    }
}

/// True for a packet that is certainly no SYN; `w` begins with its IP header. Bytes behind its end are whatever they are: a
/// packet that has no TCP header in full is none either.
#[inline(always)]
fn no_syn(w: &[u8; WINDOW], v6: bool) -> bool {
    const SYN: u8 = 2;
    let (first, protocol, tcp_flags) =
        if v6 { (w[0] >> 4 == 6, w[6], w[40 + 13]) } else { (w[0] == 0x45, w[9], w[20 + 13]) };
    // Behind an extension header there may be TCP.
    first && (protocol == 6 && tcp_flags & SYN == 0 || protocol == 17 || protocol == if v6 { 58 } else { 1 })
}

impl<P: Place> QuickNode for MssClamp<P> {
    /// The features that follow this one.
    type Common<'v> = u32;

    fn common<'v>(
        _view: &IfCache<'v>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(P::Next, u32)> {
        Some((P::NEXT, first.feat))
    }

    fn features(feat: &u32) -> u32 {
        *feat
    }

    fn quick(feat: &u32, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
        let feat = *feat;
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let inner = if P::OUT { Desc { off: d.off.wrapping_add(14), ..*d } } else { *d };
            if P::OUT {
                let ethertype = if P::V6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                if rooms.window::<0>(d).is_none_or(|w| w[12..14] != ethertype) {
                    return false;
                }
            }
            d.feat == feat && rooms.window::<0>(&inner).is_some_and(|w| no_syn(w, P::V6))
        })
    }
}
