//! What the nodes of both kinds of reassembly have in common: what they keep, what they read, and what the control side has them do.

use super::fragment::{Family, ReassemblyReason as R};
use super::store::{Held, Store};
use super::table::Piece;
use super::{Config, Kind, Settings, Summary, Walk};
use crate::plane::Plane;
use graph::{Env, Guard, Published};
use std::marker::PhantomData;
use std::sync::Arc;

/// What a node knows of a datagram, by which both kinds differ.
pub trait Datagrams<F: Family>: Held {
    /// Virtual reassembly.
    const SHALLOW: bool;

    /// Lets go of a fragment of a datagram whose time ran out.
    fn late(p: Piece, env: &mut Env);
}

/// The node of a family and a kind.
pub struct Reassembler<F: Family, T> {
    plane: Arc<Plane>,
    config: Arc<Published<Config>>,
    walk: Walk,
    store: Store<F::Key, T>,
    family: PhantomData<F>,
}

/// Snapshot of one vector.
pub struct View<'v, F: Family, T> {
    pub(super) plane: &'v Plane,
    pub(super) guard: &'v Guard,
    pub(super) settings: &'v Settings,
    pub(super) store: &'v mut Store<F::Key, T>,
}

impl<F: Family, T: Datagrams<F>> Reassembler<F, T> {
    const KIND: Kind = Kind { v6: F::IS_V6, shallow: T::SHALLOW };

    /// A node over `plane` for a pool of `buffers` buffers.
    pub fn new(plane: &Arc<Plane>, buffers: usize) -> Self {
        let store = Store::new(buffers, plane.handoff.workers());
        Reassembler {
            plane: Arc::clone(plane),
            config: plane.publish(),
            walk: Walk::default(),
            store,
            family: PhantomData,
        }
    }

    pub(super) fn look<'v>(&'v mut self, guard: &'v Guard) -> View<'v, F, T> {
        let settings = self.config.load(guard).of(Self::KIND);
        View { plane: &self.plane, guard, settings, store: &mut self.store }
    }

    pub(super) fn due(&self) -> Option<u64> {
        self.walk.due_ns(self.store.table.len() != 0)
    }

    pub(super) fn time(&mut self, env: &mut Env, guard: &Guard) -> bool {
        let settings = self.config.load(guard).of(Self::KIND);
        let gone = expire::<F, T>(&mut self.store, env, settings, Walk::AT_ONCE);
        self.walk.looked(env.now_ns, gone, settings)
    }

    /// Looks for what is too old soon, and in the intervals of today's limits from then on.
    pub fn walk_soon(&mut self) {
        self.walk = Walk::default();
    }

    /// Lets go of datagrams whose time ran out, for the control side's mail.
    pub fn walk(&mut self, env: &mut Env, settings: &Settings) {
        expire::<F, T>(&mut self.store, env, settings, usize::MAX);
    }

    /// So many workers share the work from now on: has what is held of others' datagrams come in again, to go to them.
    pub fn share_out(&mut self, env: &mut Env, buffers: usize, workers: usize) {
        self.store.share_out(&self.plane, env, buffers, workers);
    }

    /// Lets go of everything.
    pub fn clear(&mut self, env: &mut Env) {
        while self.store.evict(|d| env.drop(d, R::Evicted)).is_some() {}
    }

    /// What it holds; `details` says whether the datagrams one by one, too.
    pub fn summary(&mut self, now_ns: u64, details: bool) -> Summary {
        self.store.summary(now_ns, details)
    }
}

/// Lets go of at most `most` datagrams whose time ran out, and answers how many went.
pub(super) fn expire<F: Family, T: Datagrams<F>>(
    store: &mut Store<F::Key, T>,
    env: &mut Env,
    settings: &Settings,
    most: usize,
) -> usize {
    for gone in 0..most {
        let Some(c) = store.expired(env.now_ns, settings.timeout) else { return gone };
        store.finish(c, |p| T::late(p, env));
    }
    most
}
