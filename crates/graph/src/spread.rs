//! The generic driver of nodes that share packets out among workers: each packet is moved once, into the vector of its worker, and
//! of that only the pointer moves on.

use crate::desc::{Desc, Seen, VECTOR_SIZE, Vector, flags};
use crate::driver::DynNode;
use crate::edge::{Edge, NodeId};
use crate::env::{Env, resolve};
use crate::epoch::Guard;
use crate::node::SpreadNode;
use crate::of_workers::MAX_WORKERS;
use crate::trace::NO_REASON;
use std::any::Any;

const _: () = assert!(MAX_WORKERS <= u64::BITS as usize, "a bit for each worker");

pub(crate) struct SpreadDriver<N> {
    node: N,
    edges: Box<[u16]>,
    /// The worker of each packet.
    to: Box<[u8; VECTOR_SIZE]>,
    /// What each worker gets of a vector: empty between two, and none until the worker gets something.
    parts: [Option<Box<Vector>>; MAX_WORKERS],
    /// Workers that have a vector there, a bit for each.
    ready: u64,
}

impl<N: SpreadNode> SpreadDriver<N> {
    pub fn new(node: N, edges: Box<[u16]>) -> Self {
        let parts = std::array::from_fn(|_| None);
        SpreadDriver { node, edges, to: Box::new([0; VECTOR_SIZE]), parts, ready: 0 }
    }

    /// Notes what becomes of traced packets, before others have them: with those their trace ends.
    #[cold]
    fn trace(&self, env: &Env, guard: &Guard, descs: &mut [Desc]) {
        for (d, to) in descs.iter_mut().zip(self.to.iter()).filter(|(d, _)| d.has(flags::TRACED)) {
            let (before, mut after) = (Seen::of(d), d.moved());
            let next = NodeId(resolve(&env.wiring.arcs, self.edges[N::EDGE.index()], &mut after.feat));
            let stays = usize::from(*to) == env.worker;
            env.trace(guard, &before, d, stays.then_some(next), NO_REASON);
            if !stays {
                d.flags &= !flags::TRACED;
            }
        }
    }

    /// Has a vector for each of the workers, as far as there are some.
    #[cold]
    fn prepare(&mut self, env: &mut Env, workers: u64) {
        for (worker, part) in self.parts.iter_mut().enumerate().filter(|(w, _)| workers >> w & 1 != 0) {
            if part.is_none() {
                let other = |env: &Env| env.handoff.as_ref().and_then(|h| h.empty());
                *part = if worker == env.worker { env.frames.empty() } else { other(env) };
            }
            self.ready |= u64::from(part.is_some()) << worker;
        }
    }

    /// Sends each worker its part, to `node`.
    fn send(&mut self, env: &mut Env, node: NodeId, workers: u64) {
        for worker in bits(workers) {
            let Some(v) = self.parts[worker].as_mut().filter(|v| !v.is_empty()) else { continue };
            if worker == env.worker {
                if !env.frames.pass(node, v) {
                    env.enqueue_all(v.take(), node);
                }
            } else {
                give(env, worker, node, v);
            }
        }
    }
}

/// The numbers of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// Sends a vector to another worker, or drops it.
fn give(env: &mut Env, worker: usize, node: NodeId, v: &mut Box<Vector>) {
    if !env.handoff.as_ref().is_some_and(|h| h.pass(worker, node, v)) {
        v.take().for_each(|d| env.lose(d));
    }
}

impl<N: SpreadNode> DynNode for SpreadDriver<N> {
    fn process(&mut self, env: &mut Env, guard: &Guard, v: &mut Box<Vector>) {
        let (descs, ready) = (v.as_mut_slice(), self.ready.count_ones() as usize);
        let n = descs.len();
        // Other workers have written there last. It comes while it is worked out where packets go.
        for worker in bits(if ready > 1 { self.ready } else { 0 }).filter(|w| *w != env.worker) {
            if let Some(part) = &self.parts[worker] {
                part.prefetch(n / ready + 8);
            }
        }
        let mut view = self.node.view(guard);
        N::workers(&mut view, env, descs, &mut self.to[..n]);
        drop(view);
        let (mut workers, mut seen) = (0u64, 0);
        for (d, to) in descs.iter().zip(self.to.iter()) {
            workers |= 1 << (to % MAX_WORKERS as u8);
            seen |= d.flags;
        }
        if seen & flags::TRACED != 0 {
            self.trace(env, guard, descs);
        }
        if workers & !self.ready != 0 {
            self.prepare(env, workers);
        }
        let next = |env: &Env, edge: u16, feat: u32| {
            let mut left = feat;
            (NodeId(resolve(&env.wiring.arcs, edge, &mut left)), left)
        };
        let edge = self.edges[N::EDGE.index()];
        let mut feat = descs.first().map_or(0, |d| d.feat);
        let (mut node, mut left) = next(env, edge, feat);
        let all = v.take();
        for (i, d) in all.iter().enumerate() {
            if d.feat != feat {
                self.send(env, node, workers);
                feat = d.feat;
                (node, left) = next(env, edge, feat);
            }
            match self.parts.get_mut(usize::from(self.to[i])) {
                Some(Some(part)) if part.room() != 0 => part.put_from(d, left),
                _ => env.lose(d.moved()),
            }
        }
        self.send(env, node, workers);
    }

    fn salvage(&mut self, v: &mut Vector) {
        v.retain(|_| true);
    }

    fn flush(&mut self, _env: &mut Env) {}

    fn node(&mut self) -> &mut dyn Any {
        &mut self.node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{Pool, PoolConfig, PoolMemory};
    use crate::epoch::{Domain, Reclaimer};
    use crate::{Builder, Dispatcher, Graph, Handoff, node::Never};
    use std::sync::Arc;

    /// Says the worker of each packet by its hash.
    struct Share;
    crate::edges! { enum ShareNext { Take => "take" } }
    impl SpreadNode for Share {
        const NAME: &'static str = "share";
        const EDGE: ShareNext = ShareNext::Take;
        type Next = ShareNext;
        type Drop = Never;
        type View<'v> = ();
        fn view<'v>(&'v mut self, _: &'v Guard) {}
        fn workers((): &mut (), _: &mut Env, descs: &[Desc], to: &mut [u8]) {
            to.iter_mut().zip(descs).for_each(|(to, d)| *to = d.hash as u8);
        }
    }

    /// What came, by its `aux`.
    #[derive(Default)]
    struct Take(Vec<u32>);
    impl crate::BatchNode for Take {
        const NAME: &'static str = "take";
        type Next = Never;
        type Drop = Never;
        fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
            self.0.extend(v.as_slice().iter().map(|d| d.aux));
            env.buffers.free_all(v.take());
        }
    }

    struct Bin;
    impl crate::BatchNode for Bin {
        const NAME: &'static str = "bin";
        type Next = Never;
        type Drop = Never;
        fn process(&mut self, env: &mut Env, _: &Guard, v: &mut Vector) {
            env.buffers.free_all(v.take());
        }
    }

    fn graph(pool: &Arc<Pool>, worker: usize, handoff: Option<&Arc<Handoff>>) -> (Dispatcher, Graph) {
        let builder = Builder::new("bin").spread(Share).batch(Take::default()).batch(Bin);
        let (mut d, g) = builder.build(pool, worker).expect("a graph");
        d.env.handoff = handoff.cloned();
        (d, g)
    }

    /// Feeds packets of these workers, numbered in order.
    fn feed(d: &mut Dispatcher, guard: &Guard, to: impl Iterator<Item = u32>) {
        let (id, mut v) = (d.id("share").expect("it is there"), Vector::boxed());
        for (aux, hash) in to.enumerate() {
            let packet = d.env.buffers.alloc_desc().expect("a buffer");
            assert!(v.push(Desc { hash, aux: aux as u32, ..packet }).is_ok());
        }
        d.feed(&mut v, id);
        d.run(guard);
    }

    #[test]
    fn each_worker_gets_its_packets_in_order() {
        let pool = Pool::new(PoolConfig { buffers: 4096, memory: PoolMemory::Normal }).expect("a pool");
        let handoff = Arc::new(Handoff::new(3).expect("queues"));
        let domain = Arc::new(Domain::new());
        let (mut reader, mut d) = (domain.reader(0), graph(&pool, 0, Some(&handoff)));
        reader.online();
        let guard = reader.guard();
        // Of three workers, of itself alone, of another alone, and of one that is not there.
        for (round, to) in [[0, 1, 2], [0, 0, 0], [2, 2, 2], [1, 9, 1]].into_iter().enumerate() {
            for n in [256, 7, 1] {
                feed(&mut d.0, guard, (0..n).map(|i| to[i as usize % 3]));
                let want = |w: u32| (0..n).filter(|i: &u32| to[*i as usize % 3] == w).collect::<Vec<_>>();
                let own = std::mem::take(&mut d.0.node_mut::<Take>("take").expect("it is there").0);
                assert_eq!(own, want(0), "round {round}, {n}");
                for other in [1, 2] {
                    let mut got = vec![];
                    while handoff.take(other, |node, v| {
                        assert_eq!(d.1.nodes[usize::from(node.0)].name, "take");
                        got.extend(v.as_slice().iter().map(|d| d.aux));
                        d.0.env.buffers.free_all(v.take());
                    }) != 0
                    {}
                    assert_eq!(got, want(other as u32), "round {round}, {n}, worker {other}");
                }
                assert_eq!(pool.in_use(), 0);
            }
        }
        let lost = d.1.reasons.iter().position(|r| r.name == "handoff-queue-full").expect("it is counted");
        assert_eq!(d.1.stats.reasons[lost].get(), 85 + 2);
    }

    #[test]
    fn a_trace_ends_where_a_packet_goes_to_another_worker() {
        let pool = Pool::new(PoolConfig { buffers: 4096, memory: PoolMemory::Normal }).expect("a pool");
        let handoff = Arc::new(Handoff::new(2).expect("queues"));
        let domain = Arc::new(Domain::new());
        let mut reclaimer = Reclaimer::new(Arc::clone(&domain));
        let (mut reader, mut d) = (domain.reader(0), graph(&pool, 0, Some(&handoff)));
        reader.online();
        let guard = reader.guard();
        let id = d.0.id("share").expect("it is there");
        d.1.tracing.add(id, 2, guard, &mut reclaimer);
        feed(&mut d.0, guard, [0, 1, 0].into_iter());
        let next =
            |at| d.1.tracing.get(at, guard).map(|r: crate::TraceRecord| (r.node == id, r.next.is_some()));
        assert_eq!([next(0), next(1)], [Some((true, true)), Some((true, false))]);
        handoff.take(1, |_, v| {
            assert!(v.as_slice().iter().all(|d| !d.has(flags::TRACED)));
            d.0.env.buffers.free_all(v.take());
        });
    }
}
