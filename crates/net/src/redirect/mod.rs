//! Redirects: a host that sends to this router what goes back out to the same link is told the better next hop (RFC 1812
//! section 5.2.7.2, RFC 4861 section 8.2).
//!
//! A feature of the interface, off by default. The packet itself goes on. A pair of addresses is told once a second at most,
//! and all of them within the limit of their class.

pub mod commands;
mod message;

use crate::arcs;
use crate::interface::{Declared, Setting, Switch};
use crate::plane::{IfCache, Plane};
use crate::punt::Class;
use graph::arcs::Feature;
use graph::node::Step;
use graph::{Desc, Edge, Guard, Node, Packet, QuickNode, Rooms, TraceRecord, flags, quick};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

graph::reasons! {
    /// What the nodes count.
    pub enum RedirectReason {
        /// A host was told a better next hop.
        Sent => "redirects-sent" (info),
        /// The limit of redirects was reached; the packet goes on.
        Policed => "redirects-policed" (info),
        /// No buffer for a redirect; the packet goes on.
        NoBuffers => "redirects-no-buffers" (info),
    }
}

graph::edges! {
    /// Where `ip4-redirect` sends packets.
    pub enum Redirect4Next {
        Features => "@ip4-output",
        Lookup => "ip4-lookup",
    }
}

graph::edges! {
    /// Where `ip6-redirect` sends packets.
    pub enum Redirect6Next {
        Features => "@ip6-output",
        Lookup => "ip6-lookup",
    }
}

/// A family.
pub trait Family: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// Its edges.
    type Next: Edge;
    /// Where packets go on.
    const ON: Self::Next;
    /// Where redirects go.
    const LOOKUP: Self::Next;
    /// Writes what is told.
    const REDIRECT: message::Writer;
}

/// IPv4.
pub struct In4;
/// IPv6.
pub struct In6;

impl Family for In4 {
    const NAME: &'static str = "ip4-redirect";
    type Next = Redirect4Next;
    const ON: Redirect4Next = Redirect4Next::Features;
    const LOOKUP: Redirect4Next = Redirect4Next::Lookup;
    const REDIRECT: message::Writer = message::redirect4;
}

impl Family for In6 {
    const NAME: &'static str = "ip6-redirect";
    type Next = Redirect6Next;
    const ON: Redirect6Next = Redirect6Next::Features;
    const LOOKUP: Redirect6Next = Redirect6Next::Lookup;
    const REDIRECT: message::Writer = message::redirect6;
}

static IP4: Feature = Feature::new(&arcs::IP4_OUTPUT, In4::NAME);
static IP6: Feature = Feature::new(&arcs::IP6_OUTPUT, In6::NAME);

const DOES: &str = "sends redirects";
static SENT4: Setting<bool> = Setting::new(DOES, "set interface ip redirects {} ip4 disable");
static SENT6: Setting<bool> = Setting::new(DOES, "set interface ip redirects {} ip6 disable");

/// Whether hosts are told of better next hops on their link, over IPv4 or IPv6.
pub fn sent(v6: bool) -> &'static Setting<bool> {
    if v6 { &SENT6 } else { &SENT4 }
}

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 2] = [&SENT4.declared, &SENT6.declared];

/// What they are switched on by.
pub static SWITCHES: [Switch; 2] =
    [Switch { feature: &IP4, on: |s| s.get(&SENT4) }, Switch { feature: &IP6, on: |s| s.get(&SENT6) }];

/// Places for pairs of addresses that were told a moment ago.
const RECENT: usize = 1024;
/// How soon a pair is told again, nanoseconds.
const AGAIN_NS: u64 = 1_000_000_000;

/// The node of a family.
pub struct Redirect<F> {
    plane: Arc<Plane>,
    /// When a pair with a hash was told last.
    recent: Box<[(u64, u64)]>,
    id: u16,
    family: PhantomData<F>,
}

impl<F: Family> Redirect<F> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        let recent = vec![(0, 0); RECENT].into_boxed_slice();
        Redirect { plane: Arc::clone(plane), recent, id: 0, family: PhantomData }
    }
}

/// Snapshot of one vector.
pub struct RedirectView<'v, F> {
    plane: &'v Plane,
    guard: &'v Guard,
    ifs: IfCache<'v>,
    recent: &'v mut [(u64, u64)],
    id: &'v mut u16,
    family: PhantomData<F>,
}

impl<F: Family> RedirectView<'_, F> {
    /// Whether the pair of addresses with this hash may be told now, which is then noted.
    fn is_due(&mut self, hash: u64, now_ns: u64) -> bool {
        let place = &mut self.recent[(hash >> 32) as usize % RECENT];
        if place.0 == hash && now_ns.saturating_sub(place.1) < AGAIN_NS {
            return false;
        }
        *place = (hash, now_ns);
        true
    }

    /// Tells the sender of a packet that leaves by the interface on which it came.
    fn tell(&mut self, p: &mut Packet<'_>) {
        let Some(a) = self.plane.adjacencies.get(p.d.aux, self.guard) else { return };
        let Some(i) = self.ifs.get(p.d.rx) else { return };
        let (len, mac) = (
            usize::from(a.len),
            [a.rewrite[0], a.rewrite[1], a.rewrite[2], a.rewrite[3], a.rewrite[4], a.rewrite[5]],
        );
        let mut out = [0; message::MOST];
        let id = *self.id;
        let write = |p: &Packet<'_>, out: &mut [u8; message::MOST]| {
            let mut quote = [0; message::MOST];
            let quoted = p.env.buffers.copy_out(p.d, len, &mut quote);
            let made = (F::REDIRECT)(out, &mut quote[..quoted], i, a.next_hop, mac, id)?;
            Some((made, message::hash(&quote)))
        };
        let Some((mut made, pair)) = write(p, &mut out) else { return };
        if !self.is_due(pair, p.env.now_ns) {
            return;
        }
        let (aux, trace_id) = (p.d.aux, p.meta().trace_id);
        let admitted = self.plane.admits(p, Class::Redirect);
        p.d.aux = aux;
        if !admitted {
            p.count(RedirectReason::Policed);
            return;
        }
        // The quote is the packet as it is on the wire, its checksum complete. Few packets come this far.
        if p.has(flags::CSUM_PARTIAL) {
            if !crate::offload::complete(&mut p.env.buffers, p.d) {
                p.d.flags |= flags::CSUM_PARTIAL;
                return;
            }
            let Some((again, _)) = write(p, &mut out) else { return };
            made = again;
        }
        let Some(d) = p.env.buffers.alloc_bytes(&out[..made]) else {
            p.count(RedirectReason::NoBuffers);
            return;
        };
        p.env.buffers.meta_mut(&d.buf).trace_id = trace_id;
        *self.id = self.id.wrapping_add(1);
        let flags = d.flags | flags::LOCAL | p.d.flags & flags::TRACED;
        p.count(RedirectReason::Sent);
        p.env.forward(Desc { rx: p.d.rx, tx: p.d.rx, l2: d.off, flags, ..d }, F::LOOKUP);
    }
}

/// What a packet is about which nobody is told. A super-frame is no packet that its sender knows: it is told about those that
/// opened the connection.
const SILENT: u16 = flags::GSO | flags::LOCAL | flags::L2_GROUP | crate::plane::IN_TABLE;

impl<F: Family> Node for Redirect<F> {
    const NAME: &'static str = F::NAME;
    type Next = F::Next;
    type Drop = RedirectReason;
    type View<'v> = RedirectView<'v, F>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> RedirectView<'v, F> {
        RedirectView {
            plane: &self.plane,
            guard,
            ifs: IfCache::new(&self.plane, guard),
            recent: &mut self.recent,
            id: &mut self.id,
            family: PhantomData,
        }
    }

    fn step(view: &mut RedirectView<'_, F>, p: &mut Packet<'_>) -> Step<F::Next, RedirectReason> {
        if p.d.tx == p.d.rx && !p.has(SILENT) {
            view.tell(p);
        }
        Ok(F::ON)
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}

impl<F: Family> QuickNode for Redirect<F> {
    /// The features that follow this one.
    type Common<'v> = u32;

    fn common<'v>(
        _view: &RedirectView<'v, F>,
        first: &Desc,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(F::Next, u32)> {
        Some((F::ON, first.feat))
    }

    fn features(feat: &u32) -> u32 {
        *feat
    }

    fn quick(feat: &u32, descs: &mut [Desc], _rooms: Rooms<'_>) -> usize {
        let feat = *feat;
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| d.feat == feat && d.tx != d.rx)
    }
}
