//! What both lookups, and those who come after them, do with usual packets: they send them straight to the device, or to where a
//! tunnel puts its headers in front, past the nodes that would have nothing else to do.

use crate::adjacency::{Adjacency, AdjacencyState, MAX_REWRITE, Straight, kind};
use crate::protocols;
use graph::counters::{Run, Table};
use graph::{Desc, Rooms, WINDOW, flags, quick};
use packet::flow::Flow;
use std::net::{IpAddr, Ipv4Addr};
use tables::groups::{Entry, GroupId, GroupsReader, Paths};
use tables::slots::SlotsReader;

/// What sends usual packets to neighbours: the adjacencies and where to count.
#[derive(Clone, Copy)]
pub struct Sender<'v> {
    adjacencies: SlotsReader<'v, Adjacency>,
    sent: &'v Table,
}

impl<'v> Sender<'v> {
    /// Over these adjacencies, counting in `sent`.
    pub fn new(adjacencies: SlotsReader<'v, Adjacency>, sent: &'v Table) -> Self {
        Sender { adjacencies, sent }
    }

    /// For packets straight to the device; `flow` tells flows apart.
    pub fn last(self, groups: GroupsReader<'v>, flow: Option<Flow>) -> LastAdjacency<'v> {
        self.last_to(Straight::Device, groups, flow)
    }

    /// For packets that go so far.
    pub fn last_to(self, to: Straight, groups: GroupsReader<'v>, flow: Option<Flow>) -> LastAdjacency<'v> {
        LastAdjacency {
            sender: self,
            to,
            groups,
            flow,
            group: GroupId::NONE,
            found: &NOWHERE,
            sent: Run::new(self.sent),
        }
    }

    /// The labels that usual IP packets to adjacency `adj` get on their way straight to the device.
    pub fn pushes(&self, adj: u32) -> u8 {
        self.adjacencies.get(adj).map_or(0, |a| a.pushes)
    }

    /// How far packets to adjacency `adj` go at once.
    pub fn straight(&self, adj: u32) -> Straight {
        self.adjacencies.get(adj).map_or(Straight::No, |a| a.straight)
    }

    /// True when packets to adjacency `adj` go straight to the device.
    pub fn is_direct(&self, adj: u32) -> bool {
        self.straight(adj) == Straight::Device
    }

    /// What [`graph::QuickNode::quick`] of both rewrite nodes does: `change` decrements the TTL or hop limit of a header of `N`
    /// bytes, or refuses the packet.
    #[inline(always)]
    pub fn rewrite<const N: usize>(
        self,
        descs: &mut [Desc],
        mut rooms: Rooms<'_>,
        change: impl Fn(&mut [u8; N]) -> bool,
    ) -> usize {
        let mut counts = Run::new(self.sent);
        quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
            let Some(a) = self.adjacencies.get(d.aux) else { return false };
            let n = u16::from(a.len);
            if a.state != AdjacencyState::Complete
                || a.features != 0
                || d.len > a.mtu
                || usize::from(d.len) < N
                || d.off < n
            {
                return false;
            }
            let Some(w) = rooms.window::<0>(d) else { return false };
            if !w.first_chunk_mut().is_some_and(&change) {
                return false;
            }
            counts.add(d.aux, d.len);
            d.off -= n;
            d.len += n;
            d.l2 = d.off;
            d.tx = a.interface;
            let Some(w) = rooms.window::<0>(d) else { return true };
            if n == 14 {
                w[..14].copy_from_slice(&a.rewrite[..14]);
            } else {
                let n = usize::from(n).min(MAX_REWRITE);
                w[..n].copy_from_slice(&a.rewrite[..n]);
            }
            true
        })
    }
}

/// What chooses the path of usual packets: the groups, and what tells flows apart.
#[derive(Clone, Copy)]
pub struct PathSelector<'v> {
    /// The groups.
    pub groups: GroupsReader<'v>,
    /// What tells flows apart; `None`: that is not the same for all packets of the vector.
    pub flow: Option<Flow>,
}

impl PathSelector<'_> {
    /// The path of a packet to a group; `hash` is its flow hash, if it can be worked out.
    #[inline(always)]
    pub fn path(&self, group: GroupId, hash: impl FnOnce(Flow) -> Option<u32>) -> Option<Entry> {
        match self.groups.paths(group) {
            Paths::One(e) => Some(e),
            Paths::Many(word) => Some(self.groups.pick(word, hash(self.flow?)?)),
        }
    }

    /// Hands packets whose paths are of one kind to the next node, which finds the path's number in `aux`.
    #[inline(always)]
    fn hand_on<const KIND: u8, E: Onward>(
        self,
        descs: &mut [Desc],
        keys: &[E::Key],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        quick::run_lookup::<{ flags::UNUSUAL }, _>(descs, keys, results, move |d, key, group| {
            if !E::takes(key) {
                return false;
            }
            let hash = |flow| E::hash(E::head(rooms.window::<0>(d)?)?, flow);
            let Some(e) = self.path(GroupId(group), hash).filter(|e| e.kind == KIND) else { return false };
            d.aux = e.adj;
            true
        })
    }
}

/// Sends packets from a lookup straight to the device, or to where tunnels are. It remembers the adjacency of the last group, which many vectors
/// share.
pub struct LastAdjacency<'v> {
    sender: Sender<'v>,
    to: Straight,
    groups: GroupsReader<'v>,
    flow: Option<Flow>,
    group: GroupId,
    found: &'v Adjacency,
    sent: Run<'v>,
}

/// The most places of a group whose paths are all looked at beforehand.
const PLACES: usize = 64;

/// The paths of a group that many packets of a vector are shared out among: each is looked at once, and each way counted once.
struct Spread<'v> {
    table: &'v Table,
    /// Of the group's places, less one.
    last: u32,
    ways: [SpreadWay<'v>; PLACES],
}

/// A path of them, and what went there.
#[derive(Clone, Copy)]
struct SpreadWay<'v> {
    to: &'v Adjacency,
    number: u32,
    /// Packets in the low 16 bits, bytes above them.
    sum: u64,
}

impl Spread<'_> {
    /// [`LastAdjacency::straight`] for packets to the group; how many.
    #[inline(always)]
    fn run<E: Onward>(
        &mut self,
        (group, flow): (u32, Flow),
        descs: &mut [Desc],
        keys: &[E::Key],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        let (last, ways) = (self.last, &mut self.ways);
        quick::run_lookup::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, _>(
            descs,
            keys,
            results,
            move |d, key, found| {
                if found != group || !E::takes(key) {
                    return false;
                }
                let Some(w) = rooms.window::<14>(d) else { return false };
                let Some(hash) = E::head(&mut w[14..]).and_then(|h| E::hash(h, flow)) else { return false };
                let way = &mut ways[(hash & last) as usize % PLACES];
                if d.len > way.to.mtu || !E::hop(&mut w[14..]) {
                    return false;
                }
                way.sum += (u64::from(d.len) << 16) + 1;
                put_in_front(d, way.to, w);
                true
            },
        )
    }
}

impl Drop for Spread<'_> {
    fn drop(&mut self) {
        for way in &self.ways[..=self.last as usize % PLACES] {
            if let Some(c) = self.table.get(way.number).filter(|_| way.sum != 0) {
                c.packets.add(way.sum & 0xffff);
                c.bytes.add(way.sum >> 16);
            }
        }
    }
}

/// Takes no packet.
static NOWHERE: Adjacency = Adjacency {
    interface: 0,
    features: 0,
    straight: Straight::No,
    mtu: 0,
    state: AdjacencyState::Incomplete,
    len: 0,
    rewrite: [0; MAX_REWRITE],
    next_hop: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    pushes: 0,
    mpls: None,
};

impl<'v> LastAdjacency<'v> {
    /// What chooses without remembering.
    pub fn selector(&self) -> PathSelector<'v> {
        PathSelector { groups: self.groups, flow: self.flow }
    }

    /// True when packets to adjacency `adj` go as far.
    fn reaches(&self, adj: u32) -> bool {
        self.sender.straight(adj) == self.to
    }

    /// The same with nothing remembered.
    pub fn begin(&self) -> LastAdjacency<'v> {
        self.sender.last_to(self.to, self.groups, self.flow)
    }

    /// The adjacency to which a group sends a packet of `len` bytes; `hash` is its flow hash, if it can be worked out.
    #[inline(always)]
    pub fn adjacency(
        &mut self,
        group: GroupId,
        len: u16,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        self.by::<{ kind::REWRITE }>(group, len, |_| true, hash)
    }

    /// The same for paths of another kind, over adjacencies that are `fit`.
    #[inline(always)]
    pub fn by<const KIND: u8>(
        &mut self,
        group: GroupId,
        len: u16,
        fit: impl FnOnce(&Adjacency) -> bool,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        let a = if group == self.group { self.found } else { self.find::<KIND>(group, fit, hash)? };
        (len <= a.mtu).then_some(a)
    }

    #[inline(always)]
    fn find<const KIND: u8>(
        &mut self,
        group: GroupId,
        fit: impl FnOnce(&Adjacency) -> bool,
        hash: impl FnOnce(Flow) -> Option<u32>,
    ) -> Option<&'v Adjacency> {
        let (e, group) = match self.groups.paths(group) {
            Paths::One(e) => (e, group),
            // The next packet may go elsewhere. Group 0 stands for no route: nothing is remembered for it.
            Paths::Many(word) => (self.groups.pick(word, hash(self.flow?)?), GroupId::NONE),
        };
        if e.kind != KIND {
            return None;
        }
        let a = self.sender.adjacencies.get(e.adj).filter(|a| a.straight == self.to && fit(a))?;
        self.sent.turn(e.adj);
        (self.group, self.found) = (group, if group == GroupId::NONE { &NOWHERE } else { a });
        Some(a)
    }

    /// The ways of a group that is shared out, where it is for so many packets that looking at all of them is worth it.
    fn spread(&self, group: GroupId, packets: usize) -> Option<(Flow, Spread<'v>)> {
        let (Paths::Many(word), Some(flow)) = (self.groups.paths(group), self.flow) else { return None };
        let places = self.groups.places(word);
        if places > PLACES || packets < 2 * places {
            return None;
        }
        let nowhere = SpreadWay { to: &NOWHERE, number: u32::MAX, sum: 0 };
        let mut spread = Spread { table: self.sender.sent, last: places as u32 - 1, ways: [nowhere; PLACES] };
        for (way, hash) in spread.ways.iter_mut().zip(0..places as u32) {
            let e = self.groups.pick(word, hash);
            let found = self.sender.adjacencies.get(e.adj);
            if let Some(to) = found.filter(|a| a.straight == self.to && e.kind == kind::REWRITE) {
                (way.to, way.number) = (to, e.adj);
            }
        }
        Some((flow, spread))
    }

    /// What both lookups do with usual packets that go on without labels.
    #[inline(always)]
    fn straight<E: Onward>(
        &self,
        descs: &mut [Desc],
        keys: &[E::Key],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        let mut last = self.begin();
        quick::run_lookup::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, _>(
            descs,
            keys,
            results,
            move |d, key, group| {
                if !E::takes(key) {
                    return false;
                }
                let Some(w) = rooms.window::<14>(d) else { return false };
                let Some(h) = E::head(&mut w[14..]) else { return false };
                let Some(a) = last.adjacency(GroupId(group), d.len, |flow| E::hash(h, flow)) else {
                    return false;
                };
                if !E::hop(&mut w[14..]) {
                    return false;
                }
                last.send(d, a, w);
                true
            },
        )
    }

    /// What both lookups do with usual packets whose adjacencies put `LABELS` labels on: `N` bytes with the link-layer header.
    #[inline(always)]
    fn push<const LABELS: u8, const N: u16, E: Onward>(
        &self,
        descs: &mut [Desc],
        keys: &[E::Key],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        let mut last = self.begin();
        quick::run_lookup::<{ flags::UNUSUAL | flags::CSUM_PARTIAL }, _>(
            descs,
            keys,
            results,
            move |d, key, group| {
                // The window begins where the link-layer header will.
                let w = match N {
                    18 => rooms.window::<18>(d),
                    _ => rooms.window::<22>(d),
                };
                let Some(w) = w else { return false };
                let below = &mut w[usize::from(N)..];
                let fit = |a: &Adjacency| a.pushes == LABELS;
                // Behind two labels the ports may be out of sight.
                let hash = |flow| E::hash(E::head(below)?, flow);
                let Some(a) = last.by::<{ kind::LABEL }>(GroupId(group), d.len + N - 14, fit, hash) else {
                    return false;
                };
                if !E::takes(key) || !E::hop(below) {
                    return false;
                }
                last.send_labelled::<N>(d, a, w);
                true
            },
        )
    }

    /// [`LastAdjacency::send`] with the adjacency's `N` bytes of header and labels; `w` begins as many bytes before the packet's
    /// current header.
    #[inline(always)]
    pub fn send_labelled<const N: u16>(&mut self, d: &mut Desc, a: &Adjacency, w: &mut [u8; WINDOW]) {
        const { assert!(N as usize <= MAX_REWRITE) };
        // Counted with its labels, as `mpls-output` does.
        self.sent.count(d.len + N - 14);
        w[..usize::from(N)].copy_from_slice(&a.rewrite[..usize::from(N)]);
        d.grow_front::<N>();
        d.l2 = d.off;
        d.tx = a.interface;
    }

    /// Counts the packet and puts the adjacency's header in front of it; `w` begins 14 bytes before its current header.
    #[inline(always)]
    pub fn send(&mut self, d: &mut Desc, a: &Adjacency, w: &mut [u8; WINDOW]) {
        self.sent.count(d.len);
        put_in_front(d, a, w);
    }
}

/// Puts the adjacency's header in front of a packet; `w` begins 14 bytes before its current header.
#[inline(always)]
fn put_in_front(d: &mut Desc, a: &Adjacency, w: &mut [u8; WINDOW]) {
    w[..14].copy_from_slice(&a.rewrite[..14]);
    d.grow_front::<14>();
    d.l2 = d.off;
    d.tx = a.interface;
}

/// The edges of a lookup that its short cut knows, and what it looks at.
pub trait Onward: Copy + PartialEq {
    /// A destination.
    type Key: Copy;
    /// The first bytes of a packet: the header, and the ports behind it.
    type Head;
    /// To the node that puts the neighbour's header in front.
    const REWRITE: Self;
    /// To where labels are put on.
    const PUSH: Self;
    /// The same with the TTL of the packet.
    const PUSH_UNIFORM: Self;
    /// To the device.
    const DEVICE: Self;
    /// To where tunnels put their headers in front.
    const MIDCHAIN: Self;
    /// To the router itself.
    const LOCAL: Self;
    /// To who takes a protocol, or a port, of packets to the router.
    const PROTOCOL: Self;
    /// Whether it is that of IPv6.
    const V6: bool;
    /// The first bytes of a packet, if there are as many.
    fn head(packet: &mut [u8]) -> Option<&mut Self::Head>;
    /// Whether the table decides for a destination.
    fn takes(key: &Self::Key) -> bool;
    /// A packet's flow hash, if it can be worked out.
    fn hash(head: &Self::Head, flow: Flow) -> Option<u32>;
    /// Counts the TTL or hop limit of a packet down that has its header in sight, or refuses it.
    fn hop(packet: &mut [u8]) -> bool;
}

/// Where the usual packets of a lookup go.
pub enum Common<'v> {
    /// Straight to the device with a label.
    Push1(LastAdjacency<'v>),
    /// With two.
    Push2(LastAdjacency<'v>),
    /// Labelled packets of the vector went a longer way: all do.
    Slow,
    /// What the nodes that rewrite, and `interface-output`, would do is done at once.
    Straight(LastAdjacency<'v>),
    /// To the node that rewrites.
    Rewrite(PathSelector<'v>),
    /// To the router itself.
    Local(PathSelector<'v>),
    /// To who takes them there: what the local node would do is done at once.
    Taken(PathSelector<'v>, protocols::Common<'v>),
}

impl<'v> Common<'v> {
    /// Judged by the group of the first packet; `flow` as in [`PathSelector`]. `taken` is asked for packets to the router.
    pub fn of<E: Onward>(
        sender: Sender<'v>,
        groups: GroupsReader<'v>,
        flow: Option<Flow>,
        group: GroupId,
        taken: impl FnOnce() -> Option<protocols::Common<'v>>,
    ) -> Option<(E, Common<'v>)> {
        let first = match groups.paths(group) {
            Paths::One(e) => e,
            Paths::Many(word) => groups.pick(word, 0),
        };
        match first.kind {
            kind::LABEL => {
                let last = sender.last(groups, flow);
                match sender.pushes(first.adj) {
                    1 => Some((E::DEVICE, Common::Push1(last))),
                    2 => Some((E::DEVICE, Common::Push2(last))),
                    _ => None,
                }
            }
            kind::REWRITE => Some(match sender.straight(first.adj) {
                Straight::No => (E::REWRITE, Common::Rewrite(PathSelector { groups, flow })),
                to @ Straight::Device => (E::DEVICE, Common::Straight(sender.last_to(to, groups, flow))),
                to @ Straight::Midchain => (E::MIDCHAIN, Common::Straight(sender.last_to(to, groups, flow))),
            }),
            kind::LOCAL => {
                let paths = PathSelector { groups, flow };
                Some(match taken() {
                    Some(taken) => (E::PROTOCOL, Common::Taken(paths, taken)),
                    None => (E::LOCAL, Common::Local(paths)),
                })
            }
            _ => None,
        }
    }

    /// [`graph::QuickLookup::features`].
    pub fn features(&self) -> u32 {
        if let Common::Taken(_, taken) = self { taken.features() } else { 0 }
    }

    /// [`graph::QuickLookup::behind`].
    pub fn behind<E: Onward>(&mut self, edge: E, d: &Desc) -> Option<E> {
        match self {
            Common::Push1(_) | Common::Push2(_) if edge == E::PUSH || edge == E::PUSH_UNIFORM => {
                *self = Common::Slow;
                Some(edge)
            }
            Common::Straight(last) if edge == E::REWRITE && last.reaches(d.aux) => {
                *self = Common::Rewrite(last.selector());
                Some(edge)
            }
            Common::Taken(paths, _) if edge == E::LOCAL => {
                *self = Common::Local(*paths);
                Some(edge)
            }
            _ => None,
        }
    }

    /// [`graph::QuickLookup::quick`].
    #[inline(always)]
    pub fn quick<E: Onward>(
        &self,
        descs: &mut [Desc],
        keys: &[E::Key],
        results: &[u32],
        mut rooms: Rooms<'_>,
    ) -> usize {
        match self {
            Common::Push1(last) => last.push::<1, 18, E>(descs, keys, results, rooms),
            Common::Push2(last) => last.push::<2, 22, E>(descs, keys, results, rooms),
            Common::Slow => 0,
            Common::Straight(last) => {
                let mut shared_out = 0;
                if let Some(&group) = results.first()
                    && let Some((flow, spread)) = &mut last.spread(GroupId(group), descs.len())
                {
                    shared_out = spread.run::<E>((group, *flow), descs, keys, results, rooms.again());
                    if results.get(shared_out).is_none_or(|other| *other == group) {
                        return shared_out;
                    }
                }
                let (keys, results) = (&keys[shared_out..], &results[shared_out..]);
                shared_out + last.straight::<E>(&mut descs[shared_out..], keys, results, rooms)
            }
            Common::Rewrite(choice) => choice.hand_on::<{ kind::REWRITE }, E>(descs, keys, results, rooms),
            Common::Local(choice) => choice.hand_on::<{ kind::LOCAL }, E>(descs, keys, results, rooms),
            Common::Taken(paths, taken) => {
                let (paths, mut takes) = (*paths, taken.takes(E::V6));
                // The last group of the router's own addresses, which are of one path each.
                let mut last = None;
                quick::run_lookup::<{ flags::UNUSUAL }, _>(descs, keys, results, move |d, key, group| {
                    if last != Some(group) {
                        match paths.groups.paths(GroupId(group)) {
                            Paths::One(e) if e.kind == kind::LOCAL => last = Some(group),
                            _ => return false,
                        }
                    }
                    E::takes(key) && rooms.window::<0>(d).is_some_and(|w| takes(d, w))
                })
            }
        }
    }
}
