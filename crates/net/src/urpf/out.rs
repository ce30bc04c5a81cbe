//! `ip4-urpf-out`, `ip6-urpf-out`: whether packets may leave over an interface with their sources.

use super::{Check, Mode, Rule, Source, TX4, TX6};
use crate::interface::Setting;
use crate::ip6::lookup::is_link_local;
use crate::plane::Plane;
use crate::plane::table::{Family, V4, V6, View};
use graph::node::Step;
use graph::{Desc, Edge, Guard, LookupNode, Packet, Reason, TraceRecord, flags};
use packet::vlan::VlanStack;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use tables::groups::GroupId;

/// What differs between the nodes of the families.
pub trait Out: Send + 'static {
    /// Name of the node.
    const NAME: &'static str;
    /// Whether it is for IPv6.
    const V6: bool;
    /// The family.
    type Family: Family<Key: Default + Send>;
    /// The arc on which it is.
    type Next: Edge;
    /// The next feature.
    const NEXT: Self::Next;
    /// Why it drops packets.
    type Drop: Reason;
    /// The source's way back leads over this interface.
    const STRICT: Self::Drop;
    /// The source has no way back.
    const LOOSE: Self::Drop;
    /// What is checked.
    const RULE: &'static Setting<Rule>;
    /// The source address of a packet.
    fn source(packet: &[u8]) -> Option<<Self::Family as Family>::Key>;
    /// A source that is on its link, whichever it is.
    fn passes(source: &<Self::Family as Family>::Key) -> bool;
}

graph::edges! {
    /// Where `ip4-urpf-out` sends packets.
    pub enum Out4Next { Features => "@ip4-output" }
}

graph::edges! {
    /// Where `ip6-urpf-out` sends packets.
    pub enum Out6Next { Features => "@ip6-output" }
}

graph::reasons! {
    /// Why `ip4-urpf-out` drops packets.
    pub enum Out4Drop {
        /// A path back to the source leads over the interface over which the packet was to leave (strict).
        Strict => "ip4-urpf-out-strict",
        /// No path leads back to the source of a packet that was to leave (loose and strict).
        Loose => "ip4-urpf-out-loose",
    }
}

graph::reasons! {
    /// Why `ip6-urpf-out` drops packets.
    pub enum Out6Drop {
        /// A path back to the source leads over the interface over which the packet was to leave (strict).
        Strict => "ip6-urpf-out-strict",
        /// No path leads back to the source of a packet that was to leave (loose and strict).
        Loose => "ip6-urpf-out-loose",
    }
}

/// `ip4-urpf-out`.
pub struct Out4;

impl Out for Out4 {
    const NAME: &'static str = "ip4-urpf-out";
    const V6: bool = false;
    type Family = V4;
    type Next = Out4Next;
    const NEXT: Out4Next = Out4Next::Features;
    type Drop = Out4Drop;
    const STRICT: Out4Drop = Out4Drop::Strict;
    const LOOSE: Out4Drop = Out4Drop::Loose;
    const RULE: &'static Setting<Rule> = &TX4;

    fn source(packet: &[u8]) -> Option<u32> {
        Some(u32::from_be_bytes(*packet.get(12..)?.first_chunk()?))
    }

    fn passes(_: &u32) -> bool {
        false
    }
}

/// `ip6-urpf-out`.
pub struct Out6;

impl Out for Out6 {
    const NAME: &'static str = "ip6-urpf-out";
    const V6: bool = true;
    type Family = V6;
    type Next = Out6Next;
    const NEXT: Out6Next = Out6Next::Features;
    type Drop = Out6Drop;
    const STRICT: Out6Drop = Out6Drop::Strict;
    const LOOSE: Out6Drop = Out6Drop::Loose;
    const RULE: &'static Setting<Rule> = &TX6;

    fn source(packet: &[u8]) -> Option<[u8; 16]> {
        packet.get(8..)?.first_chunk().copied()
    }

    fn passes(source: &[u8; 16]) -> bool {
        is_link_local(u128::from_be_bytes(*source))
    }
}

/// The node of a family.
pub struct UrpfOut<O> {
    source: Source,
    family: PhantomData<O>,
}

impl<O: Out> UrpfOut<O> {
    /// A node over `plane`.
    pub fn new(plane: &Arc<Plane>) -> Self {
        UrpfOut { source: Source::new(plane, O::V6, O::RULE), family: PhantomData }
    }
}

/// Snapshot of one vector.
pub struct UrpfOutView<'v, O: Out> {
    tables: View<'v, O::Family>,
    check: Check<'v>,
}

/// The source of a packet behind its Ethernet header.
fn source<O: Out>(p: &Packet<'_>) -> Option<<O::Family as Family>::Key> {
    let data = p.data();
    let at = usize::from(VlanStack::parse(data)?.header_len);
    O::source(data.get(at..)?)
}

impl<O: Out> LookupNode for UrpfOut<O> {
    const NAME: &'static str = O::NAME;
    type Next = O::Next;
    type Drop = O::Drop;
    type Key = <O::Family as Family>::Key;
    type View<'v> = UrpfOutView<'v, O>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> UrpfOutView<'v, O> {
        UrpfOutView { tables: View::new(&self.source.plane, guard), check: self.source.check(guard) }
    }

    fn key(_: &mut UrpfOutView<'_, O>, p: &mut Packet<'_>) -> Self::Key {
        source::<O>(p).unwrap_or_default()
    }

    fn lookup(view: &mut UrpfOutView<'_, O>, descs: &[Desc], keys: &[Self::Key], results: &mut [u32]) {
        let UrpfOutView { tables, check } = view;
        let fib_index = |d: &Desc| check.rule(d.tx).named().unwrap_or_else(|| tables.fib_index_of(d.tx));
        tables.lookup_at(descs, keys, results, fib_index);
    }

    fn step(view: &mut UrpfOutView<'_, O>, p: &mut Packet<'_>, result: u32) -> Step<O::Next, O::Drop> {
        let group = GroupId(result);
        let mode = view.check.rule(p.d.tx).mode;
        if mode == Mode::Off || p.has(flags::LOCAL) || source::<O>(p).is_some_and(|s| O::passes(&s)) {
            return Ok(O::NEXT);
        }
        let why = if !view.check.leads_back(group, None) {
            O::LOOSE
        } else if mode == Mode::Strict && view.check.leads_back(group, Some(p.d.tx)) {
            O::STRICT
        } else {
            return Ok(O::NEXT);
        };
        // It counts where the rule stands.
        p.d.rx = p.d.tx;
        Err(why.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::format::output(r, f)
    }
}
