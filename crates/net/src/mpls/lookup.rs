//! `mpls-lookup`: the label's entry, and the path of its group.

use crate::adjacency::Adjacency;
use crate::forward::{LastAdjacency, Sender};
use crate::icmp::MplsAsk;
use crate::icmp::along::LOOK_UP;
use crate::ip4::input::Checks4;
use crate::ip6::input::Checks6;
use crate::labels::{Push, top};
use crate::mpls::disposition::{INTO_TABLE, TO_NEIGHBOR, exposed};
use crate::plane::table::MAX_LOOKUPS;
use crate::plane::{IN_TABLE, Plane, kind};
use crate::punt::Class;
use graph::counters::Table;
use graph::node::Step;
use graph::stage;
use graph::{
    Desc, Exit, Guard, LookupNode, Packet, QuickLookup, Rooms, TraceRecord, VECTOR_SIZE, flags, quick,
};
use packet::eth::EtherType;
use packet::flow::{self, Flow};
use packet::mpls::{Entry, Label};
use std::fmt;
use std::sync::Arc;
use tables::groups::{GroupId, Paths};
use tables::labels::{LabelEntry, Labels, key};
use tables::slots::SlotsReader;

graph::edges! {
    /// Where `mpls-lookup` sends packets.
    pub enum MplsLookupNext {
        Swap => "mpls-label-imposition-pipe",
        SwapUniform => "mpls-label-imposition-uniform",
        Ip4 => "ip4-mpls-label-disposition-pipe",
        Ip4Uniform => "ip4-mpls-label-disposition-uniform",
        Ip6 => "ip6-mpls-label-disposition-pipe",
        Ip6Uniform => "ip6-mpls-label-disposition-uniform",
        Output => "mpls-output",
        Error => "mpls-icmp-error",
        Direct => "interface-tx",
        Ip4Lookup => "ip4-lookup",
        Ip6Lookup => "ip6-lookup",
        Policed => "punt-policer",
        Frame => "interface-rx-dpo-l2",
    }
}

graph::reasons! {
    /// What `mpls-lookup` counts.
    pub enum MplsLookupDrop {
        /// The packet ends within its label stack.
        Truncated => "mpls-truncated",
        /// No route for the label.
        NoLabel => "mpls-no-label",
        /// A label route says drop, or all of its paths are gone.
        Blackhole => "mpls-label-drop",
        /// A label from 4 to 15 for which the router has no use.
        Reserved => "mpls-reserved-label",
        /// An entropy label indicator at the bottom of the stack, where no entropy label follows (RFC 6790 section 4.1).
        NoEntropy => "mpls-entropy-label-missing",
        /// Label 3, implicit null, may not be in a packet (RFC 3032 section 2.1).
        ImplicitNull => "mpls-implicit-null-received",
        /// Label 1, router alert: no protocol of the router's waits for it.
        RouterAlert => "mpls-router-alert",
        /// More labels are taken off than one packet may have looked up.
        Loop => "mpls-lookup-loop",
        /// Behind the bottom of the stack is neither IPv4 nor IPv6, and nothing else goes where the label leads.
        NotIp => "mpls-payload-not-ip",
        /// The TTL of the label ran out; who sent the IP packet inside is told so.
        TtlExpired => "mpls-ttl-expired" (info),
    }
}

/// The node.
pub struct MplsLookup {
    plane: Arc<Plane>,
    sent: Arc<Table>,
}

impl MplsLookup {
    /// For worker `worker`.
    pub fn new(plane: &Arc<Plane>, worker: usize) -> Self {
        MplsLookup { plane: Arc::clone(plane), sent: plane.counters.adjacency.of(worker) }
    }
}

/// Snapshot of one vector.
pub struct MplsLookupView<'v> {
    plane: &'v Plane,
    guard: &'v Guard,
    sent: &'v Table,
    tables: SlotsReader<'v, Arc<Labels>>,
    main: Option<&'v Labels>,
    flow: Flow,
}

impl MplsLookupView<'_> {
    fn entry(&self, at: u32, entry: Entry) -> LabelEntry {
        let table = if at == 0 { self.main } else { self.tables.get(at).map(|t| &**t) };
        table.map_or(LabelEntry::default(), |t| t.get(key_of(entry.0)))
    }
}

impl MplsLookupView<'_> {
    /// A tunnel ends here whose label stands above an entropy label (RFC 6790 section 4.1): the packet without indicator and
    /// entropy label, its label at the bottom if the entropy label was, and what the table has for that. `None` where there is no
    /// entropy label, or another router is to take it off.
    fn above_entropy(
        &self,
        p: &mut Packet<'_>,
        table: u32,
        entry: Entry,
        found: LabelEntry,
    ) -> Option<(Entry, LabelEntry)> {
        let indicator = top(p.data().get(4..)?)?;
        if indicator.label() != Label::ENTROPY_INDICATOR || indicator.is_bottom() {
            return None;
        }
        let entropy = top(p.data().get(8..)?)?;
        let alone = Entry(entry.0 & !Entry::BOTTOM | entropy.0 & Entry::BOTTOM);
        let other = self.entry(table, alone);
        let ends = |e: LabelEntry| ends_here(self.plane.groups.resolve(e.group, 0).kind);
        if !ends(other) || found.group != GroupId::NONE && !ends(found) {
            return None;
        }
        // In the place of the entropy label, whose number nobody looks at any more: errors tell it as it came.
        let now = entropy.with_ttl(entry.ttl()).with_exp(entry.exp());
        let _ = p.advance(8);
        *p.head_mut::<4>()? = now.to_bytes();
        Some((now, other))
    }
}

/// Where an entry stands in a label table.
#[inline(always)]
fn key_of(entry: u32) -> u32 {
    key(entry >> 12, entry & Entry::BOTTOM != 0)
}

impl LookupNode for MplsLookup {
    const NAME: &'static str = "mpls-lookup";
    type Next = MplsLookupNext;
    type Drop = MplsLookupDrop;
    type Key = u32;
    type View<'v> = MplsLookupView<'v>;

    fn view<'v>(&'v mut self, guard: &'v Guard) -> MplsLookupView<'v> {
        let tables = self.plane.labels.reader(guard);
        let flow = Flow::five_tuple(self.plane.config.load(guard).hash_seed);
        MplsLookupView {
            plane: &self.plane,
            guard,
            sent: &self.sent,
            tables,
            main: tables.get(0).map(|t| &**t),
            flow,
        }
    }

    #[inline]
    fn key(_: &mut MplsLookupView<'_>, p: &mut Packet<'_>) -> u32 {
        top(p.data()).unwrap_or(Entry(0)).0
    }

    /// The results are the entries' keys, whose words are near by then.
    #[inline]
    fn lookup(view: &mut MplsLookupView<'_>, _: &[Desc], keys: &[u32], results: &mut [u32]) {
        let Some(main) = view.main else { return };
        for (result, key) in results.iter_mut().zip(keys) {
            *result = key_of(*key);
            main.prefetch(*result);
        }
    }

    fn step(
        view: &mut MplsLookupView<'_>,
        p: &mut Packet<'_>,
        _: u32,
    ) -> Step<MplsLookupNext, MplsLookupDrop> {
        let Some(mut entry) = top(p.data()) else { return Err(MplsLookupDrop::Truncated.into()) };
        let mut table = 0;
        for _ in 0..MAX_LOOKUPS {
            match entry.label().value() {
                1 => return alert(view.plane, p),
                3 => return Err(MplsLookupDrop::ImplicitNull.into()),
                7 => {}
                4..16 => return Err(MplsLookupDrop::Reserved.into()),
                _ => {}
            }
            if entry.ttl() <= 1 {
                return expired(p);
            }
            if entry.label() == Label::ENTROPY_INDICATOR {
                match without_entropy(p, entry)? {
                    Below::Label(next) => entry = next,
                    Below::Packet(next) => return Ok(next),
                }
                continue;
            }
            let mut found = view.entry(table, entry);
            if !entry.is_bottom()
                && let Some(other) = view.above_entropy(p, table, entry, found)
            {
                (entry, found) = other;
            }
            if found.group == GroupId::NONE {
                return Err(MplsLookupDrop::NoLabel.into());
            }
            let e = view.plane.groups.resolve_with(found.group, || flow::of_mpls(p.data(), view.flow));
            p.d.aux = e.adj;
            match e.kind {
                kind::LABEL => {
                    p.d.hash = found.swap;
                    let uniform = view.plane.is_uniform(view.guard, e.adj);
                    return Ok(if uniform { MplsLookupNext::SwapUniform } else { MplsLookupNext::Swap });
                }
                kind::POP | kind::POP_UNIFORM => {
                    return popped(view, p, entry, e.adj, e.kind == kind::POP_UNIFORM);
                }
                kind::DISPOSE4 | kind::DISPOSE4_UNIFORM | kind::DISPOSE6 | kind::DISPOSE6_UNIFORM => {
                    p.d.hash = INTO_TABLE;
                    return Ok(match e.kind {
                        kind::DISPOSE4 => MplsLookupNext::Ip4,
                        kind::DISPOSE4_UNIFORM => MplsLookupNext::Ip4Uniform,
                        kind::DISPOSE6 => MplsLookupNext::Ip6,
                        _ => MplsLookupNext::Ip6Uniform,
                    });
                }
                kind::DISPOSE_IP => return by_version(p, e.adj, [MplsLookupNext::Ip4, MplsLookupNext::Ip6]),
                kind::DISPOSE_IP_UNIFORM => {
                    return by_version(p, e.adj, [MplsLookupNext::Ip4Uniform, MplsLookupNext::Ip6Uniform]);
                }
                kind::NEXT_LABEL | kind::NEXT_LABEL_UNIFORM => {
                    let uniform = e.kind == kind::NEXT_LABEL_UNIFORM;
                    let Some(next) = expose(p, entry, uniform) else {
                        return Err(MplsLookupDrop::Truncated.into());
                    };
                    entry = next;
                    table = if e.adj == u32::MAX { table } else { e.adj };
                }
                kind::FRAME => {
                    let _ = p.advance(4);
                    return Ok(MplsLookupNext::Frame);
                }
                _ => return Err(MplsLookupDrop::Blackhole.into()),
            }
        }
        Err(MplsLookupDrop::Loop.into())
    }

    fn format_trace(r: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::labels::stack(r.bytes(), f)
    }
}

/// What is below an entropy label.
enum Below {
    Label(Entry),
    Packet(MplsLookupNext),
}

/// Takes an indicator that nothing is above and the entropy label behind it off (RFC 6790 section 4.1): penultimate hop popping
/// took the label of the tunnel. An IP packet then is looked up as one below explicit null.
#[cold]
fn without_entropy(p: &mut Packet<'_>, indicator: Entry) -> Result<Below, Exit<MplsLookupDrop>> {
    if indicator.is_bottom() {
        return Err(MplsLookupDrop::NoEntropy.into());
    }
    let Some(entropy) = expose(p, indicator, false) else { return Err(MplsLookupDrop::Truncated.into()) };
    if !entropy.is_bottom() {
        let next = expose(p, entropy, false).map(Below::Label);
        return next.ok_or(MplsLookupDrop::Truncated.into());
    }
    (p.d.hash, p.d.aux) = (INTO_TABLE, u32::MAX);
    match p.data().get(4).map(|b| b >> 4) {
        Some(4) => Ok(Below::Packet(MplsLookupNext::Ip4)),
        Some(6) => Ok(Below::Packet(MplsLookupNext::Ip6)),
        None => Err(MplsLookupDrop::Truncated.into()),
        _ => Err(MplsLookupDrop::NotIp.into()),
    }
}

/// Whether paths of this kind take the label off, and go on by what is below it.
fn ends_here(kind: u8) -> bool {
    (kind::DISPOSE4..=kind::DISPOSE_IP_UNIFORM).contains(&kind)
}

/// Into one of two tables by the version of what is behind the bottom of the stack.
fn by_version(
    p: &mut Packet<'_>,
    tables: u32,
    [four, six]: [MplsLookupNext; 2],
) -> Step<MplsLookupNext, MplsLookupDrop> {
    p.d.hash = INTO_TABLE;
    match p.data().get(4).map(|b| b >> 4) {
        Some(4) => {
            p.d.aux = tables & 0xffff;
            Ok(four)
        }
        Some(6) => {
            p.d.aux = tables >> 16;
            Ok(six)
        }
        None => Err(MplsLookupDrop::Truncated.into()),
        _ => Err(MplsLookupDrop::NotIp.into()),
    }
}

/// Takes the first label off, and answers the next one.
fn expose(p: &mut Packet<'_>, entry: Entry, uniform: bool) -> Option<Entry> {
    let below = top(p.data().get(4..)?)?;
    let next = exposed(entry, below, uniform);
    let _ = p.advance(4);
    *p.head_mut::<4>()? = next.to_bytes();
    Some(next)
}

#[cold]
fn expired(p: &mut Packet<'_>) -> Step<MplsLookupNext, MplsLookupDrop> {
    p.count(MplsLookupDrop::TtlExpired);
    p.d.aux = MplsAsk::TTL_EXPIRED.word();
    p.d.tx = LOOK_UP;
    p.d.hash = EtherType::MPLS.0.into();
    Ok(MplsLookupNext::Error)
}

/// Packets with router alert are for the control side, which takes none yet: their class is limited and counted.
#[cold]
fn alert(plane: &Plane, p: &mut Packet<'_>) -> Step<MplsLookupNext, MplsLookupDrop> {
    if !plane.admits(p, Class::RouterAlert) {
        return Ok(MplsLookupNext::Policed);
    }
    Err(MplsLookupDrop::RouterAlert.into())
}

/// To a neighbour without the label.
fn popped(
    view: &MplsLookupView<'_>,
    p: &mut Packet<'_>,
    entry: Entry,
    adj: u32,
    uniform: bool,
) -> Step<MplsLookupNext, MplsLookupDrop> {
    if entry.is_bottom() {
        p.d.hash = TO_NEIGHBOR;
        return match (p.data().get(4).map(|b| b >> 4), uniform) {
            (Some(4), false) => Ok(MplsLookupNext::Ip4),
            (Some(4), true) => Ok(MplsLookupNext::Ip4Uniform),
            (Some(6), false) => Ok(MplsLookupNext::Ip6),
            (Some(6), true) => Ok(MplsLookupNext::Ip6Uniform),
            (None, _) => Err(MplsLookupDrop::Truncated.into()),
            _ => Err(MplsLookupDrop::NotIp.into()),
        };
    }
    if expose(p, entry, uniform).is_none() {
        return Err(MplsLookupDrop::Truncated.into());
    }
    let a = view.plane.adjacencies.get(adj, view.guard);
    if let Some(stack) = a.and_then(|a| a.mpls.as_ref()).map(|m| &m.stack).filter(|s| !s.is_empty()) {
        // The next label gets labels above it, and stays: as if it were put in its own place.
        return super::imposition::over_label(p, stack.as_slice())
            .map(|()| MplsLookupNext::Output)
            .map_err(|_| MplsLookupDrop::Truncated.into());
    }
    p.d.hash = EtherType::MPLS.0.into();
    Ok(MplsLookupNext::Output)
}

/// What the usual packets of a vector have in common.
pub enum Common<'v> {
    /// The label that the entry holds, and straight to the device.
    Swap(&'v Labels, LastAdjacency<'v>),
    /// The IP packet straight to the device.
    Pop(&'v Labels, LastAdjacency<'v>),
    /// The IPv4 packet into the table of a group.
    Ip4(&'v Labels, Into<'v>),
    /// The same for IPv6.
    Ip6(&'v Labels, Into<'v>),
    /// Packets of the vector went a longer way: all do.
    Slow,
}

/// Into a table, for labels of one group.
#[derive(Clone, Copy)]
pub struct Into<'v> {
    groups: tables::groups::GroupsReader<'v>,
    kind: u8,
    group: GroupId,
    fib_index: u32,
}

impl Into<'_> {
    /// The FIB index of the table to which a group leads.
    #[inline(always)]
    fn fib_index(&mut self, group: GroupId) -> Option<u32> {
        if group != self.group {
            match self.groups.paths(group) {
                Paths::One(e) if e.kind == self.kind => {
                    let fib_index = if e.kind == kind::DISPOSE_IP { e.adj & 0xffff } else { e.adj };
                    (self.group, self.fib_index) = (group, fib_index);
                }
                _ => return None,
            }
        }
        Some(self.fib_index)
    }

    /// Without its label.
    #[inline(always)]
    fn send(d: &mut Desc, fib_index: u32, total: u16) {
        d.off += 4;
        d.len = total;
        if fib_index != u32::MAX {
            d.tx = fib_index;
            d.flags |= IN_TABLE;
        }
    }
}

/// The flow hash of a plain IP packet, which has at least 44 bytes.
#[inline(always)]
fn flow_below(packet: &[u8], flow: Flow) -> Option<u32> {
    match packet.first()? >> 4 {
        4 => flow::of_ip4_plain(packet.first_chunk()?, flow),
        6 => flow::of_ip6_plain(packet.first_chunk()?, flow),
        _ => None,
    }
}

/// What packets may not be that go straight to the device.
const PLAIN: u16 = flags::UNUSUAL | flags::CSUM_PARTIAL;

/// A way for packets that get no label but what the entry says.
fn bare(a: &Adjacency) -> bool {
    a.mpls.as_ref().is_some_and(|m| m.stack.is_empty())
}

impl QuickLookup for MplsLookup {
    type Common<'v> = Common<'v>;

    fn quick_keys(descs: &[Desc], keys: &mut [u32; VECTOR_SIZE], _: Rooms<'_>) -> usize {
        quick::keys_in_aux(descs, keys)
    }

    fn common<'v>(
        view: &MplsLookupView<'v>,
        _first: &Desc,
        result: u32,
        _rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(MplsLookupNext, Common<'v>)> {
        let main = view.main?;
        let found = main.get(result);
        let groups = view.plane.groups.reader();
        let e = match groups.paths(found.group) {
            Paths::One(e) => e,
            Paths::Many(word) => groups.pick(word, 0),
        };
        let sender = Sender::new(view.plane.adjacencies.reader(guard), view.sent);
        let into = Into { groups, kind: e.kind, group: GroupId::MAX, fib_index: 0 };
        match e.kind {
            kind::LABEL if found.swap & Push::COPY != 0 && sender.is_direct(e.adj) => {
                Some((MplsLookupNext::Direct, Common::Swap(main, sender.last(groups, Some(view.flow)))))
            }
            kind::POP if sender.is_direct(e.adj) => {
                Some((MplsLookupNext::Direct, Common::Pop(main, sender.last(groups, Some(view.flow)))))
            }
            // Of a label for both families IPv4 alone takes the short way.
            kind::DISPOSE4 | kind::DISPOSE_IP => Some((MplsLookupNext::Ip4Lookup, Common::Ip4(main, into))),
            kind::DISPOSE6 => Some((MplsLookupNext::Ip6Lookup, Common::Ip6(main, into))),
            _ => None,
        }
    }

    fn behind(common: &mut Common<'_>, edge: MplsLookupNext, _: &Desc) -> Option<MplsLookupNext> {
        use MplsLookupNext as N;
        let overtaken = match common {
            Common::Swap(..) | Common::Pop(..) => !matches!(edge, N::Error | N::Policed | N::Direct),
            Common::Ip4(..) => matches!(edge, N::Ip4 | N::Ip4Uniform),
            Common::Ip6(..) => matches!(edge, N::Ip6 | N::Ip6Uniform),
            Common::Slow => false,
        };
        if !overtaken {
            return None;
        }
        *common = Common::Slow;
        Some(edge)
    }

    fn quick(
        common: &Common<'_>,
        descs: &mut [Desc],
        keys: &[u32],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        match common {
            Common::Swap(main, last) => {
                let (main, mut last) = (*main, last.begin());
                quick::run_lookup::<PLAIN, _>(descs, keys, results, move |d, &key, at| {
                    let Some(w) = rooms.window::<14>(d) else { return false };
                    let e = main.get(at);
                    if (key as u8) < 2 || e.swap & Push::COPY == 0 {
                        return false;
                    }
                    let (bottom, len) = (key & Entry::BOTTOM != 0, d.len);
                    let hash = |flow| flow_below(&w[18..], flow).filter(|_| bottom && len >= 48);
                    let Some(a) = last.by::<{ kind::LABEL }>(e.group, d.len, bare, hash) else {
                        return false;
                    };
                    let entry = (e.swap & !0xfff | key & 0xfff) - 1;
                    w[14..18].copy_from_slice(&entry.to_be_bytes());
                    last.send(d, a, w);
                    true
                })
            }
            Common::Pop(main, last) => {
                let (main, mut last) = (*main, last.begin());
                quick::run_lookup::<PLAIN, _>(descs, keys, results, move |d, &key, at| {
                    let Some(w) = rooms.window::<10>(d) else { return false };
                    if (key as u8) < 2 || key & Entry::BOTTOM == 0 || d.len < 44 {
                        return false;
                    }
                    let ethertype = match w[14] >> 4 {
                        4 => EtherType::IPV4.0,
                        6 => EtherType::IPV6.0,
                        _ => return false,
                    };
                    let e = main.get(at);
                    let len = d.len;
                    let hash = |flow| flow_below(&w[14..], flow).filter(|_| len >= 48);
                    let Some(a) = last.by::<{ kind::POP }>(e.group, d.len - 4, bare, hash) else {
                        return false;
                    };
                    d.off += 4;
                    d.len -= 4;
                    last.send(d, a, w);
                    w[12..14].copy_from_slice(&ethertype.to_be_bytes());
                    true
                })
            }
            Common::Ip4(main, into) => {
                let (main, mut into) = (*main, *into);
                // Handed in, what it knows is in memory near a register; as constants of the loop it takes more instructions.
                let checks = Checks4::unlabelled();
                quick::run_lookup::<{ flags::UNUSUAL }, _>(descs, keys, results, move |d, &key, at| {
                    let Some(w) = rooms.window::<0>(d) else { return false };
                    if (key as u8) < 2 {
                        return false;
                    }
                    let Some(fib_index) = into.fib_index(main.get(at).group) else { return false };
                    let Some((total, dst)) = stage::find(&checks, d, w, 4) else {
                        return false;
                    };
                    d.aux = dst;
                    Into::send(d, fib_index, total);
                    true
                })
            }
            Common::Ip6(main, into) => {
                let (main, mut into) = (*main, *into);
                quick::run_lookup::<{ flags::UNUSUAL }, _>(descs, keys, results, move |d, &key, at| {
                    let Some(w) = rooms.window::<0>(d) else { return false };
                    if (key as u8) < 2 || w[4 + 8] == 0xfe || w[4 + 24] == 0xfe {
                        return false;
                    }
                    let Some(fib_index) = into.fib_index(main.get(at).group) else { return false };
                    let Some((total, _)) = stage::find(&Checks6, d, w, 4) else { return false };
                    Into::send(d, fib_index, total);
                    true
                })
            }
            Common::Slow => 0,
        }
    }
}
