//! Clamping of the maximum segment size that TCP hosts tell each other (RFC 9293 section 3.7.1), where a tunnel or an uplink
//! takes smaller packets than the hosts' own links.
//!
//! Only the option of SYN segments is changed, only downwards, and the checksum by the difference (RFC 1624). A segment without
//! the option is left as it is: its receiver then sends segments of 536 bytes (IPv6: 1220).

mod clamp;
pub mod commands;

use crate::arcs;
use crate::interface::{Column, Declared, Setting, Settings, Switch, Word};
use crate::plane::{IfCache, Plane};
use graph::arcs::Feature;
use graph::node::Step;
use graph::{Desc, Edge, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, WINDOW, flags, quick};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The least size that TCP can be limited to, bytes: what must fit behind the largest headers of both (RFC 791).
pub const LEAST: u16 = 48;

/// The largest size that a packet of IPv4, or IPv6, has room for behind its header and that of TCP, bytes.
pub const fn most(v6: bool) -> u16 {
    if v6 { u16::MAX - 60 } else { u16::MAX - 40 }
}

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

    /// The size of one direction.
    fn of(self, tx: bool) -> u16 {
        if tx { self.tx } else { self.rx }
    }
}

impl Word for Clamp {
    #[inline]
    fn to_word(self) -> u64 {
        u64::from(self.rx) | u64::from(self.tx) << 16
    }

    #[inline]
    fn from_word(word: u64) -> Self {
        Clamp { rx: word as u16, tx: (word >> 16) as u16 }
    }
}

const DOES: &str = "limits the segment size of TCP";
static SIZE4: Setting<Clamp> = Setting::new(DOES, "set interface tcp-mss-clamp {} ip4 disable").early();
static SIZE6: Setting<Clamp> = Setting::new(DOES, "set interface tcp-mss-clamp {} ip6 disable").early();

/// The largest TCP segment size that passes over IPv4, or IPv6.
pub fn size(v6: bool) -> &'static Setting<Clamp> {
    if v6 { &SIZE6 } else { &SIZE4 }
}

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 2] = [&SIZE4.declared, &SIZE6.declared];

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
}

macro_rules! place {
    ($name:ident, $next:ident, $node:literal, $arc:literal, $v6:literal, $out:literal) => {
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
        }
    };
}

place!(In4, In4Next, "ip4-mss-clamp-in", "@ip4-unicast", false, false);
place!(In6, In6Next, "ip6-mss-clamp-in", "@ip6-unicast", true, false);
place!(Out4, Out4Next, "ip4-mss-clamp-out", "@ip4-output", false, true);
place!(Out6, Out6Next, "ip6-mss-clamp-out", "@ip6-output", true, true);

static IP4_IN: Feature = Feature::new(&arcs::IP4_UNICAST, In4::NAME);
static IP6_IN: Feature = Feature::new(&arcs::IP6_UNICAST, In6::NAME);
static IP4_OUT: Feature = Feature::new(&arcs::IP4_OUTPUT, Out4::NAME);
static IP6_OUT: Feature = Feature::new(&arcs::IP6_OUTPUT, Out6::NAME);

/// What they are switched on by.
pub static SWITCHES: [Switch; 4] = [
    Switch { feature: &IP4_IN, on: |s| is_on::<In4>(s) },
    Switch { feature: &IP6_IN, on: |s| is_on::<In6>(s) },
    Switch { feature: &IP4_OUT, on: |s| is_on::<Out4>(s) },
    Switch { feature: &IP6_OUT, on: |s| is_on::<Out6>(s) },
];

fn is_on<P: Place>(settings: &Settings) -> bool {
    settings.get(size(P::V6)).of(P::OUT) != 0
}

/// The node of a place.
pub struct MssClamp<P> {
    plane: Arc<Plane>,
    sizes: Column<Clamp>,
    place: PhantomData<P>,
}

impl<P: Place> MssClamp<P> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        MssClamp { plane: Arc::clone(plane), sizes: plane.columns.of(size(P::V6)), place: PhantomData }
    }
}

/// Snapshot of one vector.
pub struct MssView<'v> {
    ifs: IfCache<'v>,
    sizes: Column<Clamp>,
}

impl<P: Place> Node for MssClamp<P> {
    const NAME: &'static str = P::NAME;
    type Next = P::Next;
    type Drop = MssReason;
    type View<'v> = MssView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> MssView<'v> {
        MssView { ifs: IfCache::new(&self.plane, guard), sizes: self.sizes }
    }

    #[inline]
    fn step(view: &mut MssView<'_>, p: &mut Packet<'_>) -> Step<P::Next, MssReason> {
        let index = if P::OUT { p.d.tx } else { p.d.rx };
        let sizes = view.sizes;
        let most = view.ifs.get(index).map_or(0, |i| i.settings.get(sizes).of(P::OUT));
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
        _view: &MssView<'v>,
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
            let ip = if P::OUT { d.off.wrapping_add(14) } else { d.off };
            if P::OUT {
                let ethertype = if P::V6 { [0x86, 0xdd] } else { [0x08, 0x00] };
                if rooms.window::<0>(d).is_none_or(|w| w[12..14] != ethertype) {
                    return false;
                }
            }
            d.feat == feat && rooms.sight(d, ip.into()).is_some_and(|w| no_syn(w, P::V6))
        })
    }
}
