//! Short cuts: what a node does for the packets that are usual, as one small loop.
//!
//! `step` says what becomes of any packet. Most packets of a vector are alike, though: nothing is wrong with them, and
//! they go where the first one goes. A node with a short cut works out once a vector what the usual packet needs
//! ([`QuickNode::common`]), and then handles runs of usual packets with few instructions ([`QuickNode::quick`]). A packet
//! that is not usual in any way goes by `step`, in its place in the vector. So a short cut may know less than `step`, but
//! never something else. It may do the work of the nodes that follow as well, and leave them out; tests compare graphs
//! with and without short cuts.

use crate::buffer::{Buffers, Rooms, WINDOW};
use crate::desc::{Desc, Seen, VECTOR_SIZE, Vector, flags};
use crate::driver::{Decisions, DynNode};
use crate::edge::{Edge, NodeId};
use crate::env::{Env, resolve};
use crate::epoch::Guard;
use crate::node::{LookupNode, Node};
use crate::packet::Packet;
use std::any::Any;

/// Hands packets from the front of `descs` to `usual` until one has a flag of `UNUSUAL` (at least those of
/// [`flags::UNUSUAL`]) or is refused; how many were taken. A function of its own for each short cut, so that the loop has
/// all registers.
#[inline(never)]
pub fn run<const UNUSUAL: u16>(descs: &mut [Desc], usual: impl FnMut(&mut Desc) -> bool) -> usize {
    const { assert!(UNUSUAL & flags::UNUSUAL == flags::UNUSUAL) };
    // A local copy can live in registers.
    let mut usual = usual;
    let n = descs.len();
    // An iterator counts by its pointer alone.
    let mut rest = descs.iter_mut();
    while let Some(d) = rest.next() {
        if d.flags & UNUSUAL != 0 || !usual(d) {
            return n - rest.len() - 1;
        }
    }
    n
}

/// Packets of several buffers while a short cut sees them: each as if all of it were in its first buffer, where the headers
/// are. Few at once, for a short cut may refuse each and is then shown the rest again.
struct Whole {
    len: usize,
    /// Where they ended, as [`Desc::off`].
    ends: [u32; 32],
}

/// The most bytes of a packet that is shown as a whole: lengths have 16 bits, and a link-layer header may come in front.
const MOST: u32 = 65_000;

/// Shows the packets at the front of `descs` that have several buffers as a whole.
#[cold]
#[inline(never)]
fn show_whole(descs: &mut [Desc], buffers: &Buffers) -> Whole {
    let mut whole = Whole { len: 0, ends: [0; 32] };
    for (d, end) in descs.iter_mut().zip(&mut whole.ends) {
        if d.flags & flags::UNUSUAL != flags::CHAINED || usize::from(d.len) < WINDOW {
            break;
        }
        let len = buffers.total_len(d) as u32;
        if len > MOST {
            break;
        }
        *end = u32::from(d.off) + len;
        d.len = len as u16;
        d.flags &= !flags::CHAINED;
        whole.len += 1;
    }
    whole
}

/// Makes packets of several buffers of them again, with what the short cut changed; of those that it cut off, the buffers
/// behind go back.
#[cold]
#[inline(never)]
fn show_parts(whole: &Whole, descs: &mut [Desc], buffers: &mut Buffers) {
    for (d, end) in descs.iter_mut().zip(&whole.ends[..whole.len]) {
        let len = usize::from(d.len);
        let first_ends = end - buffers.meta(&d.buf).rest;
        d.len = (first_ends - u32::from(d.off)) as u16;
        d.flags |= flags::CHAINED;
        if u32::from(d.off) + len as u32 != *end {
            buffers.trim(d, len);
        }
    }
}

/// True when the first packet has several buffers and is usual otherwise.
#[inline]
fn begins_chained(descs: &[Desc]) -> bool {
    descs.first().is_some_and(|d| d.flags & flags::UNUSUAL == flags::CHAINED)
}

/// Where the usual packets of a vector go.
#[derive(Clone, Copy)]
struct NextNode {
    to: NodeId,
    /// Features of the arc that are left behind `to`.
    feat: u32,
    /// Packets have features to visit: their descriptors are to say so.
    marked: bool,
}

impl NextNode {
    /// The node behind an edge; of an arc the first of `feat`, or the end.
    #[inline]
    fn new<E: Edge>(env: &Env, edges: &[u16], edge: E, mut feat: u32) -> NextNode {
        let marked = feat != 0;
        let to = NodeId(resolve(&env.wiring.arcs, edges[edge.index()], &mut feat));
        NextNode { to, feat, marked }
    }

    #[inline]
    fn mark(self, taken: &mut [Desc]) {
        if self.marked {
            taken.iter_mut().for_each(|d| d.feat = self.feat);
        }
    }
}

/// A node with a short cut.
pub trait QuickNode: Node {
    /// What the usual packets of a vector have in common.
    type Common<'v>;

    /// The edge of the usual packets and what they need, judged by the vector's first packet (which may have several
    /// buffers, but no other flag of [`flags::UNUSUAL`]); `None` when that one is not usual.
    fn common<'v>(
        view: &Self::View<'v>,
        first: &Desc,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Self::Next, Self::Common<'v>)>;

    /// Features that the usual packets have yet to visit where their edge leads to an arc; `quick` takes no packet that
    /// has others.
    fn features(common: &Self::Common<'_>) -> u32 {
        let _ = common;
        0
    }

    /// Whether a packet that `step` sent over `edge` will be dropped, or answered, by a node that the short cut leaves out: no
    /// other can overtake it, and [`QuickNode::behind`] is not asked.
    fn ends(edge: Self::Next, p: &Packet<'_>) -> bool {
        let _ = (edge, p);
        false
    }

    /// `step` sent a packet, which came as `before`, over `edge`: where that leads through nodes which the short cut leaves out, the
    /// usual packets behind it must not overtake it, for they may be of its flow. `common` is changed then, and their edge
    /// answered.
    fn behind(common: &mut Self::Common<'_>, edge: Self::Next, before: &Desc) -> Option<Self::Next> {
        let _ = (common, edge, before);
        None
    }

    /// Kinds of packets in a vector that are told apart where vectors are split; what is left then goes as it comes.
    const MOST_KINDS: usize = 4;

    /// Does, for packets from the front of `descs`, what `step` does, as long as `step` would send them over the common
    /// edge; how many. The first packet that is not usual is left unchanged. A packet of several buffers is shown as if all
    /// of it were in the first one. See [`run`].
    fn quick(common: &Self::Common<'_>, descs: &mut [Desc], rooms: Rooms<'_>) -> usize;

    /// Whether vectors of several kinds are split: see [`QuickNode::kinds`].
    const SORTS: bool = false;

    /// Whether that goes for vectors that begin with an unusual packet as well. Where those are answers and the like, a few of
    /// them, asking costs more than the short cut saves.
    const SORTS_UNUSUAL: bool = true;

    /// Says of what kind packets are that have yet to come to the node. Packets of one flow are of one kind, and so are packets
    /// whose order matters otherwise; those of one kind keep their order. A vector of several kinds becomes several vectors, each
    /// with a `common` of its own.
    fn kinds(view: &mut Self::View<'_>, descs: &[Desc], rooms: Rooms<'_>, kinds: &mut [u32]) {
        let _ = (view, descs, rooms, kinds);
    }
}

/// Packets of a vector of which was asked whether they end. Where it is many, asking costs more than the short cut saves.
struct Asked(u8);

impl Asked {
    fn ends(&mut self, ask: impl FnOnce() -> bool) -> bool {
        let more = self.0 < 16;
        self.0 += u8::from(more);
        more && ask()
    }
}

/// The kind of one packet.
fn kind_of<N: QuickNode>(view: &mut N::View<'_>, d: &Desc, rooms: Rooms<'_>) -> u32 {
    let mut kind = [0];
    N::kinds(view, std::slice::from_ref(d), rooms, &mut kind);
    kind[0]
}

pub(crate) struct QuickDriver<N> {
    node: N,
    /// False: each packet goes by `step`, in the order that the short cut gives them.
    short: bool,
    edges: Box<[u16]>,
    decisions: Decisions,
    /// Of a vector that is split: the kinds of its packets, from the first of another kind on, and those packets.
    kinds: Box<[u32]>,
    others: Box<Vector>,
}

impl<N: QuickNode> QuickDriver<N> {
    pub fn new(node: N, short: bool, edges: Box<[u16]>) -> Self {
        let kinds = vec![0; if N::SORTS { VECTOR_SIZE } else { 0 }].into();
        QuickDriver { node, short, edges, decisions: Decisions::new(), kinds, others: Vector::boxed() }
    }

    /// Decides for the packets of a vector; those of other kinds than the first are left for a vector of their own, while there may be
    /// one. `known`: the kinds of all have been looked at.
    #[inline(always)]
    fn decide(&mut self, env: &mut Env, guard: &Guard, v: &mut Vector, splits: bool, known: bool) {
        self.decisions.begin();
        let mut view = self.node.view(guard);
        let Some(first) = v.as_slice().first().map(Seen::of) else { return };
        let mut usual = Some(&*first)
            .filter(|d| self.short && !d.has(flags::UNUSUAL & !flags::CHAINED))
            .and_then(|first| N::common(&view, first, env.buffers.rooms(), guard))
            .map(|(e, common)| (NextNode::new(env, &self.edges, e, N::features(&common)), common));
        let splits = splits
            && N::SORTS
            && v.len() > 1
            && (N::SORTS_UNUSUAL || !first.has(flags::UNUSUAL & !flags::CHAINED));
        // The kind of the first one, while nobody has looked at those of the others.
        let mut kind = None;
        if splits && (known || usual.is_none()) {
            if !known {
                N::kinds(&mut view, v.as_slice(), env.buffers.rooms(), &mut self.kinds[..v.len()]);
            }
            v.split_off(0, self.kinds[0], &mut self.kinds, &mut self.others);
        } else if splits {
            kind = Some(kind_of::<N>(&mut view, &first, env.buffers.rooms()));
        }
        let (mut at, mut asked) = (0, Asked(0));
        while at < v.len() {
            let descs = v.as_mut_slice();
            if let Some((next, common)) = &usual {
                let rest = &mut descs[at..];
                let whole = begins_chained(rest).then(|| show_whole(rest, &env.buffers));
                let n = N::quick(common, rest, env.buffers.rooms());
                if let Some(whole) = whole {
                    show_parts(&whole, rest, &mut env.buffers);
                }
                next.mark(&mut rest[..n]);
                self.decisions.run(n, next.to);
                at += n;
                if n != 0 && begins_chained(&descs[at..]) {
                    continue;
                }
            }
            let Some(d) = descs.get_mut(at) else { break };
            if let Some(of_first) = kind
                && kind_of::<N>(&mut view, d, env.buffers.rooms()) != of_first
            {
                kind = None;
                let n = v.len();
                N::kinds(&mut view, &v.as_slice()[at..], env.buffers.rooms(), &mut self.kinds[at..n]);
                v.split_off(at, of_first, &mut self.kinds, &mut self.others);
                continue;
            }
            let before = Seen::of(d);
            let decision = N::step(&mut view, &mut Packet { d, env });
            if let (Ok(edge), Some((next, common))) = (&decision, &mut usual)
                && !asked.ends(|| N::ends(*edge, &Packet { d, env }))
                && let Some(other) = N::behind(common, *edge, &before)
            {
                *next = NextNode::new(env, &self.edges, other, N::features(common));
            }
            self.decisions.note(env, guard, &self.edges, &before, d, decision);
            at += 1;
        }
    }
}

impl<N: QuickNode> DynNode for QuickDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        self.decide(env, guard, v, true, false);
        self.decisions.settle(env, v);
        let mut rounds = 1;
        while !self.others.is_empty() {
            rounds += 1;
            std::mem::swap(v, &mut self.others);
            self.decide(env, guard, v, rounds <= N::MOST_KINDS, true);
            self.decisions.settle(env, v);
        }
    }

    fn salvage(&mut self, v: &mut Vector) {
        self.decisions.salvage(v);
        v.append(&mut self.others.take());
    }

    fn flush(&mut self, _env: &mut Env) {}

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }

    fn due_ns(&self) -> Option<u64> {
        self.node.due_ns()
    }

    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        self.node.tick(env, guard)
    }
}

/// A lookup node with a short cut.
pub trait QuickLookup: LookupNode {
    /// What the usual packets of a vector have in common.
    type Common<'v>;

    /// Keys of packets from the front of `descs`, as [`LookupNode::key`] has them, up to the first that has a flag of
    /// [`flags::UNUSUAL`] or for which `key` has to look; how many.
    fn quick_keys(descs: &[Desc], keys: &mut [Self::Key; VECTOR_SIZE], rooms: Rooms<'_>) -> usize;

    /// The edge of the usual packets and what they need, judged by the first packet and its result; `None` when it is not
    /// usual.
    fn common<'v>(
        view: &Self::View<'v>,
        first: &Desc,
        result: u32,
        rooms: Rooms<'_>,
        guard: &'v Guard,
    ) -> Option<(Self::Next, Self::Common<'v>)>;

    /// As [`QuickNode::features`].
    fn features(common: &Self::Common<'_>) -> u32 {
        let _ = common;
        0
    }

    /// As [`QuickNode::ends`].
    fn ends(edge: Self::Next, p: &Packet<'_>) -> bool {
        let _ = (edge, p);
        false
    }

    /// As [`QuickNode::behind`], with what `step` left in the packet's descriptor.
    fn behind(common: &mut Self::Common<'_>, edge: Self::Next, d: &Desc) -> Option<Self::Next> {
        let _ = (common, edge, d);
        None
    }

    /// As [`QuickNode::quick`], with the packets' keys and results. See [`run_lookup`].
    fn quick(
        common: &Self::Common<'_>,
        descs: &mut [Desc],
        keys: &[Self::Key],
        results: &[u32],
        rooms: Rooms<'_>,
    ) -> usize;
}

/// [`QuickLookup::quick_keys`] of a node whose keys stand in [`Desc::aux`].
#[inline(always)]
pub fn keys_in_aux(descs: &[Desc], keys: &mut [u32; VECTOR_SIZE]) -> usize {
    // Four at a time: the loop itself costs more than a packet. Keys behind the last packet are never looked at.
    let (fours, rest) = descs.as_chunks::<4>();
    let mut seen = 0;
    for ([a, b, c, d], keys) in fours.iter().zip(keys.as_chunks_mut::<4>().0) {
        *keys = [a.aux, b.aux, c.aux, d.aux];
        seen |= a.flags | b.flags | c.flags | d.flags;
    }
    for (d, key) in rest.iter().zip(keys.iter_mut().skip(descs.len() - rest.len())) {
        *key = d.aux;
        seen |= d.flags;
    }
    if seen & flags::UNUSUAL == 0 {
        return descs.len();
    }
    descs.iter().position(|d| d.has(flags::UNUSUAL)).unwrap_or(descs.len())
}

/// As [`run`], with what was looked up.
#[inline(never)]
pub fn run_lookup<const UNUSUAL: u16, K: Copy>(
    descs: &mut [Desc],
    keys: &[K],
    results: &[u32],
    usual: impl FnMut(&mut Desc, &K, u32) -> bool,
) -> usize {
    const { assert!(UNUSUAL & flags::UNUSUAL == flags::UNUSUAL) };
    let mut usual = usual;
    let n = descs.len();
    let (keys, results) = (&keys[..n], &results[..n]);
    for i in 0..n {
        let d = &mut descs[i];
        if d.flags & UNUSUAL != 0 || !usual(d, &keys[i], results[i]) {
            return i;
        }
    }
    n
}

pub(crate) struct QuickLookupDriver<N: LookupNode> {
    node: N,
    edges: Box<[u16]>,
    keys: Box<[N::Key; VECTOR_SIZE]>,
    results: Box<[u32; VECTOR_SIZE]>,
    decisions: Decisions,
}

impl<N: QuickLookup> QuickLookupDriver<N> {
    pub fn new(node: N, edges: Box<[u16]>) -> Self {
        QuickLookupDriver {
            node,
            edges,
            keys: Box::new([N::Key::default(); VECTOR_SIZE]),
            results: Box::new([0; VECTOR_SIZE]),
            decisions: Decisions::new(),
        }
    }
}

impl<N: QuickLookup> DynNode for QuickLookupDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        self.decisions.begin();
        let mut view = self.node.view(guard);
        let descs = v.as_mut_slice();
        let n = descs.len();
        let done = N::quick_keys(descs, &mut self.keys, env.buffers.rooms());
        for (d, key) in descs.iter_mut().zip(self.keys.iter_mut()).skip(done) {
            *key = N::key(&mut view, &mut Packet { d, env });
        }
        let (keys, results) = (&self.keys[..n], &mut self.results[..n]);
        N::lookup(&mut view, descs, keys, results);
        let mut usual = N::common(&view, &descs[0], results[0], env.buffers.rooms(), guard)
            .map(|(e, common)| (NextNode::new(env, &self.edges, e, N::features(&common)), common));
        let (mut at, mut asked) = (0, Asked(0));
        while at < n {
            if let Some((next, common)) = &usual {
                let rest = &mut descs[at..];
                let whole = begins_chained(rest).then(|| show_whole(rest, &env.buffers));
                let taken = N::quick(common, rest, &keys[at..], &results[at..], env.buffers.rooms());
                if let Some(whole) = whole {
                    show_parts(&whole, rest, &mut env.buffers);
                }
                next.mark(&mut rest[..taken]);
                self.decisions.run(taken, next.to);
                at += taken;
                if taken != 0 && begins_chained(&descs[at..]) {
                    continue;
                }
            }
            if let Some(d) = descs.get_mut(at) {
                let before = Seen::of(d);
                let decision = N::step(&mut view, &mut Packet { d, env }, results[at]);
                if let (Ok(edge), Some((next, common))) = (&decision, &mut usual)
                    && !asked.ends(|| N::ends(*edge, &Packet { d, env }))
                    && let Some(other) = N::behind(common, *edge, d)
                {
                    *next = NextNode::new(env, &self.edges, other, N::features(common));
                }
                self.decisions.note(env, guard, &self.edges, &before, d, decision);
                at += 1;
            }
        }
        drop(view);
        self.decisions.settle(env, v);
    }

    fn salvage(&mut self, v: &mut Vector) {
        self.decisions.salvage(v);
    }

    fn flush(&mut self, _env: &mut Env) {}

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }
}
