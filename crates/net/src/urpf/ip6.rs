//! `ip6-urpf`: whether there is a way back to a packet's source.

use super::{Check, Ip6UrpfNext, Mode, RX6, Source};
use crate::ip6::lookup::is_link_local;
use crate::plane::Plane;
use crate::plane::table::{V6, View};
use graph::node::Step;
use graph::{Desc, Guard, LookupNode, Packet, QuickLookup, Rooms, TraceRecord, VECTOR_SIZE, flags};
use std::fmt;
use std::sync::Arc;
use tables::groups::GroupId;

graph::reasons! {
    /// Why `ip6-urpf` drops packets.
    pub enum Ip6UrpfDrop {
        /// No path back to the source leads over the interface on which the packet came (strict, RFC 3704 section 2.2).
        Strict => "ip6-urpf-strict",
        /// No path leads back to the source (loose, RFC 3704 section 2.4).
        Loose => "ip6-urpf-loose",
    }
}

/// The node.
pub struct Ip6Urpf {
    source: Source,
}

impl Ip6Urpf {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        Ip6Urpf { source: Source::new(plane, true, &RX6) }
    }
}

/// Snapshot of one vector.
pub struct Ip6UrpfView<'v> {
    tables: View<'v, V6>,
    check: Check<'v>,
}

impl LookupNode for Ip6Urpf {
    const NAME: &'static str = "ip6-urpf";
    type Next = Ip6UrpfNext;
    type Drop = Ip6UrpfDrop;
    type Key = [u8; 16];
    type View<'v> = Ip6UrpfView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> Ip6UrpfView<'v> {
        Ip6UrpfView { tables: View::new(&self.source.plane, guard), check: self.source.check(guard) }
    }

    #[inline]
    fn key(_: &mut Ip6UrpfView<'_>, p: &mut Packet<'_>) -> [u8; 16] {
        p.head::<40>().and_then(|h| h[8..].first_chunk()).copied().unwrap_or_default()
    }

    #[inline]
    fn lookup(view: &mut Ip6UrpfView<'_>, descs: &[Desc], keys: &[[u8; 16]], results: &mut [u32]) {
        let Ip6UrpfView { tables, check } = view;
        check.lookup(tables, descs, keys, results);
    }

    #[inline]
    fn step(view: &mut Ip6UrpfView<'_>, p: &mut Packet<'_>, result: u32) -> Step<Ip6UrpfNext, Ip6UrpfDrop> {
        let group = GroupId(result);
        let source = p.head::<40>().map_or(0, |h| packet::ip6::Ip6Header(h).src_u128());
        let mode = view.check.mode(p.d.rx);
        if is_link_local(source) || view.check.accepts(mode, p.d.rx, group) {
            return Ok(Ip6UrpfNext::Features);
        }
        Err(if mode == Mode::Strict { Ip6UrpfDrop::Strict } else { Ip6UrpfDrop::Loose }.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::ip(r.bytes(), f)
    }
}

impl QuickLookup for Ip6Urpf {
    /// The check, and the features that follow this one.
    type Common<'v> = (Check<'v>, u32);

    fn quick_keys(descs: &[Desc], keys: &mut [[u8; 16]; VECTOR_SIZE], mut rooms: Rooms<'_>) -> usize {
        let mut seen = 0;
        for (i, (d, key)) in descs.iter().zip(keys).enumerate() {
            let Some(src) = rooms.window::<0>(d).and_then(|w| w[8..].first_chunk()) else { return i };
            *key = *src;
            seen |= d.flags;
            debug_assert!(d.has(flags::UNUSUAL) || d.len >= 40);
        }
        if seen & flags::UNUSUAL == 0 {
            return descs.len();
        }
        descs.iter().position(|d| d.has(flags::UNUSUAL)).unwrap_or(descs.len())
    }

    fn common<'v>(
        view: &Ip6UrpfView<'v>,
        first: &Desc,
        _result: u32,
        _rooms: Rooms<'_>,
        _guard: &'v Guard,
    ) -> Option<(Ip6UrpfNext, (Check<'v>, u32))> {
        Some((Ip6UrpfNext::Features, (view.check, first.feat)))
    }

    fn features(common: &(Check<'_>, u32)) -> u32 {
        common.1
    }

    fn quick(
        common: &(Check<'_>, u32),
        descs: &mut [Desc],
        keys: &[[u8; 16]],
        results: &[u32],
        _rooms: Rooms<'_>,
    ) -> usize {
        common.0.quick(common.1, descs, keys, results, |src| {
            u16::from_le_bytes([src[0], src[1]]) & 0xc0ff == 0x80fe
        })
    }
}
