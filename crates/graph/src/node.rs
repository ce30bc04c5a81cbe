//! What the author of a node writes.
//!
//! A node decides for one packet: [`Node::step`] returns where it goes ([`Edge`]) or why it ends ([`Reason`]). The
//! generic drivers in [`crate::driver`] add the loop over the vector, prefetch, trace, counting and enqueueing. A node
//! whose work is a table lookup implements [`LookupNode`] instead, so that the table sees all keys of a vector at once;
//! one that needs the whole vector (transmission) implements [`BatchNode`], and one that shares packets out among workers [`SpreadNode`].

pub use crate::edge::Never;
use crate::edge::{Edge, Reason};
use crate::env::Env;
use crate::epoch::Guard;
use crate::packet::Packet;
use crate::record::TraceRecord;
use crate::{Desc, Vector};
use std::fmt;

/// How a packet leaves a node other than by an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit<D> {
    /// It is dropped and counted.
    Drop(D),
    /// The node took its buffers over (held it, or freed it).
    Consumed,
}

impl<D: Reason> From<D> for Exit<D> {
    #[inline]
    fn from(d: D) -> Self {
        Exit::Drop(d)
    }
}

/// What `step` returns.
pub type Step<N, D> = Result<N, Exit<D>>;

/// A node that decides packet by packet.
pub trait Node: Send + 'static {
    /// Its name in commands and counters.
    const NAME: &'static str;
    /// Whether it reads packet bytes: the driver then prefetches them.
    const READS_PACKET: bool = true;
    /// Whether it has work at certain times, beside packets: [`Node::due_ns`] and [`Node::tick`] are asked.
    const TIMED: bool = false;
    /// Where packets go.
    type Next: Edge;
    /// Why packets end, and what else is counted.
    type Drop: Reason;
    /// What a step needs: one snapshot of each table, and the node's own state.
    type View<'v>
    where
        Self: 'v;

    /// Takes the snapshots for one vector.
    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v>;

    /// Decides for one packet.
    fn step(view: &mut Self::View<'_>, p: &mut Packet<'_>) -> Step<Self::Next, Self::Drop>;

    /// The clock before which there is nothing to do without packets; none: there is nothing. A node with many timers asks its
    /// [wheel](crate::wheel::Wheel).
    fn due_ns(&self) -> Option<u64> {
        None
    }

    /// Does what is due at [`Env::now_ns`], as much as a vector's worth: true when more is left for the next loop. Called some
    /// milliseconds late at most while the worker is awake, and it wakes for it.
    fn tick(&mut self, env: &mut Env, guard: &Guard) -> bool {
        let _ = (env, guard);
        false
    }

    /// Writes what this node has to say of a traced packet.
    fn format_trace(record: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = (record, f);
        Ok(())
    }
}

/// A node whose work is a lookup for the whole vector.
pub trait LookupNode: Send + 'static {
    /// Its name in commands and counters.
    const NAME: &'static str;
    /// Where packets go.
    type Next: Edge;
    /// Why packets end, and what else is counted.
    type Drop: Reason;
    /// What is looked up.
    type Key: Copy + Default + Send;
    /// What a step needs.
    type View<'v>
    where
        Self: 'v;

    /// Takes the snapshots for one vector.
    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v>;

    /// The key of one packet.
    fn key(view: &mut Self::View<'_>, p: &mut Packet<'_>) -> Self::Key;

    /// Looks all keys up: `results` and the packets' descriptors are as many as `keys`.
    fn lookup(view: &mut Self::View<'_>, descs: &[Desc], keys: &[Self::Key], results: &mut [u32]);

    /// Decides for one packet with its result.
    fn step(view: &mut Self::View<'_>, p: &mut Packet<'_>, result: u32) -> Step<Self::Next, Self::Drop>;

    /// Writes what this node has to say of a traced packet.
    fn format_trace(record: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = (record, f);
        Ok(())
    }
}

/// A node that says which worker goes on with each packet, and does nothing else with it.
pub trait SpreadNode: Send + 'static {
    /// Its name in commands and counters.
    const NAME: &'static str;
    /// Where packets go.
    type Next: Edge;
    /// What is counted.
    type Drop: Reason;
    /// Where all packets go, at whichever worker.
    const EDGE: Self::Next;
    /// What it needs: one snapshot of each table, and the node's own state.
    type View<'v>
    where
        Self: 'v;

    /// Takes the snapshots for one vector.
    fn view<'v>(&'v mut self, guard: &'v Guard) -> Self::View<'v>;

    /// Says the worker of each packet, by its number. Those that no worker has are dropped, and counted by the dispatcher.
    fn workers(view: &mut Self::View<'_>, env: &mut Env, descs: &[Desc], to: &mut [u8]);

    /// Writes what this node has to say of a traced packet.
    fn format_trace(record: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = (record, f);
        Ok(())
    }
}

/// A node that works on the whole vector. It must take over every packet: forward with [`Env::enqueue`], drop with
/// [`Env::drop`], or free; then clear the vector. Packets left in the vector are dropped by the dispatcher.
pub trait BatchNode: Send + 'static {
    /// Its name in commands and counters.
    const NAME: &'static str;
    /// Where packets go (for the picture of the graph; resolved with [`Env::edge`]).
    type Next: Edge;
    /// Why packets end, and what else is counted.
    type Drop: Reason;

    /// Works on one vector.
    fn process(&mut self, env: &mut Env, guard: &Guard, vector: &mut Vector);

    /// After all vectors of a loop: the place to flush what was only queued.
    fn flush(&mut self, env: &mut Env) {
        let _ = env;
    }

    /// Writes what this node has to say of a traced packet.
    fn format_trace(record: &TraceRecord, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = (record, f);
        Ok(())
    }
}
