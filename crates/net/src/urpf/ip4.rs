//! `ip4-urpf`: whether there is a way back to a packet's source.

use super::{Check, Ip4UrpfNext, Mode, RX4, Source};
use crate::plane::Plane;
use crate::plane::table::{V4, View};
use graph::node::Step;
use graph::{Desc, Guard, LookupNode, Packet, QuickLookup, Rooms, TraceRecord, VECTOR_SIZE, flags};
use std::fmt;
use std::sync::Arc;
use tables::groups::GroupId;

graph::reasons! {
    /// Why `ip4-urpf` drops packets.
    pub enum Ip4UrpfDrop {
        /// No path back to the source leads over the interface on which the packet came (strict, RFC 3704 section 2.2).
        Strict => "ip4-urpf-strict",
        /// No path leads back to the source (loose, RFC 3704 section 2.4).
        Loose => "ip4-urpf-loose",
    }
}

/// The node.
pub struct Ip4Urpf {
    source: Source,
}

impl Ip4Urpf {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip4Urpf { source: Source::new(plane, false, &RX4) }
    }
}

/// Snapshot of one vector.
pub struct Ip4UrpfView<'v> {
    tables: View<'v, V4>,
    check: Check<'v>,
}

impl LookupNode for Ip4Urpf {
    const NAME: &'static str = "ip4-urpf";
    type Next = Ip4UrpfNext;
    type Drop = Ip4UrpfDrop;
    type Key = u32;
    type View<'v> = Ip4UrpfView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip4UrpfView<'v> {
        Ip4UrpfView { tables: View::new(&self.source.plane, guard), check: self.source.check(guard) }
    }

    #[inline]
    fn key(_: &mut Ip4UrpfView<'_>, p: &mut Packet<'_>) -> u32 {
        p.head::<20>().map_or(0, |h| u32::from_be_bytes([h[12], h[13], h[14], h[15]]))
    }

    #[inline]
    fn lookup(view: &mut Ip4UrpfView<'_>, descs: &[Desc], keys: &[u32], results: &mut [u32]) {
        let Ip4UrpfView { tables, check } = view;
        check.lookup(tables, descs, keys, results);
    }

    #[inline]
    fn step(view: &mut Ip4UrpfView<'_>, p: &mut Packet<'_>, result: u32) -> Step<Ip4UrpfNext, Ip4UrpfDrop> {
        let group = GroupId(result);
        let mode = view.check.mode(p.d.rx);
        if view.check.accepts(mode, p.d.rx, group) {
            return Ok(Ip4UrpfNext::Features);
        }
        Err(if mode == Mode::Strict { Ip4UrpfDrop::Strict } else { Ip4UrpfDrop::Loose }.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

impl QuickLookup for Ip4Urpf {
    /// The check, and the features that follow this one.
    type Common<'v> = (Check<'v>, u32);

    fn quick_keys(descs: &[Desc], keys: &mut [u32; VECTOR_SIZE], mut rooms: Rooms<'_>) -> usize {
        let mut seen = 0;
        for (i, (d, key)) in descs.iter().zip(keys).enumerate() {
            let Some(w) = rooms.window::<0>(d) else { return i };
            *key = u32::from_be_bytes([w[12], w[13], w[14], w[15]]);
            seen |= d.flags;
            debug_assert!(d.has(flags::UNUSUAL) || d.len >= 20);
        }
        if seen & flags::UNUSUAL == 0 {
            return descs.len();
        }
        descs.iter().position(|d| d.has(flags::UNUSUAL)).unwrap_or(descs.len())
    }

    fn common<'v>(
        view: &Ip4UrpfView<'v>,
        first: &Desc,
        _result: u32,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip4UrpfNext, (Check<'v>, u32))> {
        Some((Ip4UrpfNext::Features, (view.check, first.feat)))
    }

    fn features(common: &(Check<'_>, u32)) -> u32 {
        common.1
    }

    fn quick(
        common: &(Check<'_>, u32),
        descs: &mut [Desc],
        keys: &[u32],
        results: &[u32],
        _rooms: Rooms<'_>,
    ) -> usize {
        common.0.quick(common.1, descs, keys, results, |_| false)
    }
}
