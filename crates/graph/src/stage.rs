//! Stages: what a node does with its usual packet, written once, as a part from which short cuts are made.
//!
//! A stage says in types what a packet must be when it comes ([`Stage::Needs`]) and what is known of it afterwards
//! ([`Stage::Leaves`]); only stages that fit make a chain ([`Then`]). It has a header of constant length, says what bytes it asks for
//! among the first of the packet, so that the first stage of a chain can compare them all at once, and changes nothing itself:
//! when all stages have agreed, [`run`] writes what they found.

use crate::buffer::{Rooms, WINDOW};
use crate::desc::{Desc, flags};
use crate::like::Like;
use crate::quick;
use std::marker::PhantomData;

/// Where a stage stands in its chain.
#[derive(Clone, Copy)]
pub struct Spot {
    /// Bytes of the headers before its own.
    pub at: usize,
    /// A stage before it has compared what [`Stage::asks`] says.
    asked: bool,
}

impl Spot {
    /// Behind so many bytes of headers that nobody has looked at.
    pub const fn behind(at: usize) -> Self {
        Spot { at, asked: false }
    }

    /// Whether byte `n` of its header has been compared, if the stage asked for it.
    #[inline(always)]
    pub fn has_asked(self, n: usize) -> bool {
        self.asked && self.at + n < Like::BYTES
    }

    /// The header of a stage in a packet.
    #[inline(always)]
    pub fn header<const N: usize>(self, w: &[u8; WINDOW]) -> Option<&[u8; N]> {
        w.get(self.at..)?.first_chunk()
    }
}

/// What the stages of a chain found out of a packet.
#[derive(Clone, Copy)]
pub struct Found {
    /// Bytes of the packet behind the headers that are taken off; more than [`Desc::len`] can say where they are not all there.
    pub len: u32,
    /// The scratch word.
    pub aux: u32,
}

/// One of the things that are done with a packet.
pub trait Stage: Copy {
    /// What the packet must be.
    type Needs;
    /// What it is afterwards.
    type Leaves;
    /// Bytes of the header that is taken off.
    const HEADER: u16;
    /// Whether that is a link-layer header: [`Desc::l2`] is where it began.
    const LINK: bool = false;
    /// Whether it compares what the stages behind it ask.
    const COMPARES: bool = false;
    /// The node that does this alone.
    const NODE: &'static str;

    /// Adds the bytes that it asks for to those of the stages before it; its header begins at byte `at`.
    fn asks(&self, like: Like, at: usize) -> Like {
        let _ = at;
        like
    }

    /// The same stage, which compares these bytes.
    #[must_use]
    fn comparing(self, like: Like) -> Self {
        let _ = like;
        self
    }

    /// Whether the packet is usual, and what is found out of it.
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool;

    /// Whether it does the work of the node `name`.
    fn does(name: &str) -> bool {
        name == Self::NODE
    }
}

/// A stage, and another one behind it.
#[derive(Clone, Copy)]
pub struct Then<A, B>(pub A, pub B);

impl<A: Stage, B: Stage<Needs = A::Leaves>> Then<A, B> {
    /// The chain of both.
    pub fn new(first: A, then: B) -> Self {
        let like = then.asks(first.asks(Like::default(), 0), usize::from(A::HEADER));
        Then(first.comparing(like), then)
    }

    /// Whether a packet for the node `name` goes past work that the chain does: its first stage alone would have sent it there.
    pub fn leaves_out(name: &str) -> bool {
        B::does(name)
    }
}

impl<A: Stage, B: Stage<Needs = A::Leaves>> Stage for Then<A, B> {
    type Needs = A::Needs;
    type Leaves = B::Leaves;
    const HEADER: u16 = A::HEADER + B::HEADER;
    const LINK: bool = A::LINK;
    const COMPARES: bool = A::COMPARES;
    const NODE: &'static str = A::NODE;

    fn asks(&self, like: Like, at: usize) -> Like {
        self.1.asks(self.0.asks(like, at), at + usize::from(A::HEADER))
    }

    fn comparing(self, like: Like) -> Self {
        Then(self.0.comparing(like), self.1)
    }

    #[inline(always)]
    fn usual(&self, d: &Desc, w: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool {
        let behind = Spot { at: spot.at + usize::from(A::HEADER), asked: spot.asked | A::COMPARES };
        self.0.usual(d, w, spot, found) && self.1.usual(d, w, behind, found)
    }

    fn does(name: &str) -> bool {
        A::does(name) || B::does(name)
    }
}

/// A packet that came on a certain interface.
#[derive(Clone, Copy)]
pub struct CameOn<P> {
    rx: u32,
    begins: PhantomData<P>,
}

impl<P> CameOn<P> {
    /// On this one.
    pub fn new(rx: u32) -> Self {
        CameOn { rx, begins: PhantomData }
    }
}

impl<P: Copy> Stage for CameOn<P> {
    type Needs = P;
    type Leaves = P;
    const HEADER: u16 = 0;
    const NODE: &'static str = "";

    #[inline(always)]
    fn usual(&self, d: &Desc, _: &[u8; WINDOW], _: Spot, _: &mut Found) -> bool {
        d.rx == self.rx
    }
}

/// Leaves whatever is inside to the next node.
#[derive(Clone, Copy)]
pub struct Rest;

impl Stage for Rest {
    type Needs = ();
    type Leaves = ();
    const HEADER: u16 = 0;
    const NODE: &'static str = "";

    #[inline(always)]
    fn usual(&self, d: &Desc, _: &[u8; WINDOW], spot: Spot, found: &mut Found) -> bool {
        found.len = u32::from(d.len).wrapping_sub(spot.at as u32);
        true
    }
}

/// What a stage finds of a packet whose header is behind `at` bytes of others; `None` where it is not usual.
#[inline(always)]
pub fn find<S: Stage>(stage: &S, d: &Desc, w: &[u8; WINDOW], at: usize) -> Option<(u16, u32)> {
    let mut found = Found { len: u32::from(d.len), aux: d.aux };
    if !stage.usual(d, w, Spot::behind(at), &mut found) {
        return None;
    }
    Some((u16::try_from(found.len).ok()?, found.aux))
}

/// Takes packets from the front of `descs` through a chain, up to the first that one of its stages does not take for usual;
/// how many.
#[inline(always)]
pub fn run<S: Stage>(stage: S, descs: &mut [Desc], mut rooms: Rooms<'_>) -> usize {
    quick::run::<{ flags::UNUSUAL }>(descs, move |d| {
        let Some(w) = rooms.window::<0>(d) else { return false };
        let Some((len, aux)) = find(&stage, d, w, 0) else { return false };
        if S::LINK {
            d.l2 = d.off;
        }
        d.off += S::HEADER;
        (d.len, d.aux) = (len, aux);
        true
    })
}
