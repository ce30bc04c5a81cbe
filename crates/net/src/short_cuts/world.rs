//! A router with interfaces, routes and neighbours of every kind, and a graph of its own that is run inline.

use super::setup::{self, NOTHING, PORTS, limit};
use crate::bond;
use crate::hold::{Ip4Hold, Ip6Hold, MplsHold, Waiting};
use crate::neighbor::DadMode;
use crate::output::InterfaceTx;
use crate::plane::PlaneConfig;
use crate::punt::Class;
use crate::router::{Op, Router, RouterConfig};
use crate::{arcs, nodes, reassembly};
use drivers::pcap::CaptureConfig;
use graph::epoch::Guard;
use graph::{
    Buffers, Builder, Desc, Dispatcher, Domain, Graph, NodeId, Packets, Pool, PoolConfig, PoolMemory,
    Reclaimer, TraceRecord, TxCaps, TxQueue, TxReport, VECTOR_SIZE, flags,
};
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::{Arc, Mutex};

/// The port on whose transmit side a capture runs.
pub const TAPED: &str = "six";

/// A packet that waits for its neighbour: IPv4 (0), IPv6 (1) or labelled (2), its adjacency, its bytes.
pub type Held = (u8, u32, Vec<u8>);

/// A frame that a port was to send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub port: u32,
    pub rx: u32,
    pub flags: u16,
    /// Start and offset of a partial checksum.
    pub partial: Option<(u16, u16)>,
    /// Segment size and kind of a super-frame.
    pub gso: Option<(u16, u8)>,
    pub bytes: Vec<u8>,
}

struct Wire(u32, Arc<Mutex<Vec<Sent>>>);

impl TxQueue for Wire {
    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }

    fn send(&mut self, buffers: &mut Buffers, packets: Packets<'_>) -> TxReport {
        let mut r = TxReport::default();
        for d in packets {
            let bytes = buffers.parts(&d).flatten().copied().collect::<Vec<u8>>();
            let m = buffers.meta(&d.buf);
            let partial =
                d.has(flags::CSUM_PARTIAL).then(|| (m.csum_start.wrapping_sub(d.off), m.csum_offset));
            let gso = d.has(flags::GSO).then_some((m.gso_size, m.gso_type));
            r.packets += 1;
            r.bytes += bytes.len() as u64;
            let sent = Sent { port: self.0, rx: d.rx, flags: d.flags, partial, gso, bytes };
            self.1.lock().unwrap().push(sent);
            buffers.free(d);
        }
        r
    }
}

/// What became of one vector.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A buffer was asked for and there was none: who is first to ask gets one, and which packets those are is not told.
    pub short_of_buffers: bool,
    pub sent: Vec<Sent>,
    pub held: Vec<Held>,
    pub messages: Vec<String>,
    pub traces: Vec<(String, Vec<u8>)>,
}

pub struct World {
    pub router: Router,
    /// Of the first worker, as the graph.
    pub dispatcher: Dispatcher,
    pub graph: Graph,
    /// The second worker, where there is one.
    second: Option<(Dispatcher, Graph)>,
    pub ports: Vec<u32>,
    pub interfaces: u32,
    pool: Arc<Pool>,
    log: Arc<Mutex<Vec<Sent>>>,
    reclaimer: Reclaimer,
    guard: Guard,
    /// What the router's own worker had counted.
    before: Vec<u64>,
    /// The same by adjacency: packets and bytes.
    sent_before: BTreeMap<u32, (u64, u64)>,
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !done() {
        assert!(std::time::Instant::now() < deadline, "the router's worker is stuck");
        std::thread::yield_now();
    }
}

#[allow(unsafe_code)]
fn unprotected() -> Guard {
    // SAFETY: nothing is reclaimed while a vector runs: this thread does both.
    unsafe { Guard::unprotected() }
}

thread_local! {
    static FRAGMENT_HASH: RandomState = RandomState::new();
}

/// The numbers of adjacencies are the same in all worlds, however fast the router's own worker is.
fn commit(router: &mut Router, ops: Vec<Op>) {
    router.commit(ops).unwrap();
    wait_until(|| router.adjacencies_are_settled());
}

impl World {
    /// With the short cuts of nodes, or without; with features on its interfaces, or on none.
    pub fn new(short_cuts: bool, with_features: bool) -> World {
        let empty: fn() -> Builder =
            if short_cuts { nodes::empty } else { || nodes::empty().without_short_cuts() };
        World::of(empty, with_features, 1)
    }

    /// With the nodes added to this graph, of each of one or two workers.
    pub fn of(empty: fn() -> Builder, with_features: bool, workers: usize) -> World {
        // Which packets a full queue refuses depends on the order between flows, which short cuts may change.
        let all = VECTOR_SIZE as u32;
        let plane = PlaneConfig {
            fragment_id: Some(7),
            hold_per_neighbor: all,
            hold_per_interface: all,
            ..PlaneConfig::default()
        };
        let config = RouterConfig {
            pool: PoolConfig { buffers: 16_384, memory: PoolMemory::Normal },
            plane,
            workers,
            dad: DadMode::Off,
            // The same in all worlds, which are compared.
            fragment_hash: FRAGMENT_HASH.with(Clone::clone),
            ..RouterConfig::default()
        };
        let mut router = Router::new(config).unwrap();
        // The same time of day in all worlds.
        router.plane().wall.store(0, std::sync::atomic::Ordering::Relaxed);
        commit(&mut router, setup::interfaces(with_features));
        commit(
            &mut router,
            Class::ALL.iter().map(|c| limit(*c, (*c == Class::Ospf).then_some(NOTHING))).collect(),
        );
        let right = router.interface_index("right");
        commit(&mut router, setup::routes(right));
        commit(&mut router, setup::tunnels());
        commit(&mut router, setup::labels(with_features));
        if with_features {
            // Interfaces of layer 2 take none.
            let targets: Vec<u32> = router.interfaces().filter_map(|i| i.xconnect).collect();
            let carried = |i: &crate::router::IfState| bond::member(&router, i.index).is_some();
            let routed = |i: &&crate::router::IfState| {
                !carried(i)
                    && i.membership.is_none_or(|m| m.bvi)
                    && i.xconnect.is_none()
                    && !targets.contains(&i.index)
            };
            let names: Vec<String> =
                router.interfaces().skip(1).filter(routed).map(|i| i.name.clone()).collect();
            commit(&mut router, setup::features(&names));
            commit(&mut router, setup::table_routes());
            commit(&mut router, setup::mirrors());
        }
        for (interface, host) in [("small", "host"), ("trunk.100", "vlan-host")] {
            crate::linux_cp::pair_over(&mut router, interface, host).unwrap();
        }
        commit(&mut router, vec![Op::SetState { name: "down".into(), up: false }]);
        router.set_link_state(router.interface_index("nolink").unwrap(), true, false);
        let interface = router.interface_index(TAPED);
        let capture = CaptureConfig { max: 1, drop: false, interface, ..CaptureConfig::default() };
        let file = std::env::temp_dir().join(format!("quiver-short-cuts-{}.pcap", std::process::id()));
        let opened = drivers::Files::default().write(&file).unwrap();
        crate::pcap::start(&mut router, drivers::pcap::Capture::new(capture).unwrap(), &file, opened)
            .unwrap();
        let _ = std::fs::remove_file(file);
        let pool = Arc::clone(router.pool());
        // The router's own worker still sends what the new interfaces have to say.
        wait_until(|| pool.in_use() == 0);
        router.shutdown();
        let log = Arc::new(Mutex::new(vec![]));
        let ports: Vec<u32> = PORTS.iter().map(|name| router.interface_index(name).unwrap()).collect();
        let worker = |n| {
            let (mut dispatcher, graph) = nodes::build_from(empty(), router.plane(), &pool, n).unwrap();
            for index in &ports {
                let tx: &mut InterfaceTx = dispatcher.node_mut("interface-tx").unwrap();
                tx.set(*index, Some(Box::new(Wire(*index, Arc::clone(&log)))));
            }
            (dispatcher, graph)
        };
        let (dispatcher, graph) = worker(0);
        let second = (workers > 1).then(|| worker(1));
        let mut world = World {
            interfaces: router.interfaces().map(|i| i.index + 1).max().unwrap(),
            router,
            dispatcher,
            graph,
            second,
            ports,
            pool,
            log,
            reclaimer: Reclaimer::new(Arc::new(Domain::new())),
            guard: unprotected(),
            before: vec![],
            sent_before: BTreeMap::new(),
        };
        let sent = world.router.adjacency_list().into_iter().map(|a| (a.id, (a.packets, a.bytes)));
        world.sent_before = sent.collect();
        // Those of adjacencies, which come last, are 0 now.
        world.before = world.counts().into_iter().map(|c| c.1).collect();
        world
    }

    /// Changes what is configured; the next vector meets it.
    pub fn change(&mut self, ops: Vec<Op>) {
        self.router.commit(ops).unwrap();
    }

    /// All workers, the first one first.
    fn workers(&self) -> impl Iterator<Item = (&Dispatcher, &Graph)> {
        [(&self.dispatcher, &self.graph)].into_iter().chain(self.second.iter().map(|(d, g)| (d, g)))
    }

    /// Their dispatchers.
    fn dispatchers(&mut self) -> impl Iterator<Item = &mut Dispatcher> {
        [&mut self.dispatcher].into_iter().chain(self.second.iter_mut().map(|(d, _)| d))
    }

    /// The dispatcher of the worker that has the packets of a flow.
    pub fn dispatcher_of(&mut self, flow: usize) -> &mut Dispatcher {
        match &mut self.second {
            Some((d, _)) if flow % 2 == 1 => d,
            _ => &mut self.dispatcher,
        }
    }

    /// Runs all workers, one after the other, until none has anything to do.
    fn settle(&mut self) {
        let handoff = Arc::clone(&self.router.plane().handoff);
        let mut work = true;
        while work {
            work = false;
            let guard = std::mem::replace(&mut self.guard, unprotected());
            for d in self.dispatchers() {
                let env = &mut d.env;
                work |= handoff.take(env.worker, |node, v| env.enqueue_all(v.take(), node)) != 0;
                while d.run(&guard) != 0 {
                    work = true;
                }
            }
            self.guard = guard;
        }
    }

    /// Nodes that have had a packet.
    pub fn visited(&self) -> Vec<&'static str> {
        let all = self.graph.nodes.iter().zip(self.graph.stats.nodes.iter());
        all.filter(|(_, stats)| stats.packets.get() != 0).map(|(node, _)| node.name).collect()
    }

    /// The node to which the interface of a frame that it received hands it.
    pub fn received(&self, d: &mut Desc) -> NodeId {
        let arc = self.graph.arc(arcs::DEVICE_INPUT.name).unwrap();
        d.feat = self.router.plane().interfaces.get(d.rx, &self.guard).map_or(0, |i| i.input);
        arc.next(&mut d.feat)
    }

    /// Runs what was put into the graph and lets go of what it holds.
    pub fn run(&mut self, traced: usize) -> Outcome {
        self.dispatchers().for_each(|d| d.env.now_ns += 100_000_000_000);
        let all_failures = |w: &World| w.workers().map(|(d, _)| d.env.buffers.failures()).collect::<Vec<_>>();
        let failures = all_failures(self);
        let graphs: Vec<Graph> = self.workers().map(|(_, g)| g.clone()).collect();
        for g in graphs.iter().filter(|_| traced != 0) {
            // Room in the log; the packets are marked already.
            let node = g.node("pg-input").unwrap();
            g.tracing.add(node, traced as u32, &self.guard, &mut self.reclaimer);
        }
        self.settle();
        self.dispatchers().for_each(reassembly::clear);
        self.settle();
        let mut out = Outcome { sent: std::mem::take(&mut *self.log.lock().unwrap()), ..Outcome::default() };
        for d in self.dispatchers() {
            for kind in 0..3 {
                let waiting: &mut Waiting = match kind {
                    0 => d.node_mut::<Ip4Hold>("ip4-hold").unwrap().waiting(),
                    1 => d.node_mut::<Ip6Hold>("ip6-hold").unwrap().waiting(),
                    _ => d.node_mut::<MplsHold>("mpls-hold").unwrap().waiting(),
                };
                let mut held = vec![];
                waiting.take_old(u64::MAX, None, |d| held.push(d));
                for h in held {
                    let bytes = d.env.buffers.parts(&h).flatten().copied().collect();
                    out.held.push((kind, h.aux, bytes));
                    d.env.buffers.free(h);
                }
            }
        }
        out.short_of_buffers = all_failures(self) != failures;
        let punt = &self.router.plane().punt;
        out.messages = std::iter::from_fn(|| punt.pop()).map(|m| format!("{m:?}")).collect();
        if traced != 0 {
            let names = |r: &TraceRecord| {
                let node = |n: NodeId| self.graph.nodes[usize::from(n.0)].name;
                (r.id, node(r.node), r.next.map(node), r.reason, r.after.off, r.after.len, r.data_len)
            };
            for g in &graphs {
                let records = g.tracing.records(&self.guard);
                out.traces.extend(records.iter().map(|r| (format!("{:?}", names(r)), r.bytes().to_vec())));
                g.tracing.clear(&mut self.reclaimer);
            }
            self.reclaimer.domain().advance();
            self.reclaimer.collect();
        }
        assert_eq!(self.pool.in_use(), 0, "every buffer came back");
        let panics = graphs.iter().flat_map(|g| g.stats.nodes.iter()).map(|n| n.panics.get()).sum::<u64>();
        assert_eq!(panics, 0, "no node panics");
        out
    }

    /// Every number that is counted: reasons, interfaces, adjacencies.
    pub fn counts(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> = vec![];
        for (n, (_, g)) in self.workers().enumerate() {
            let reasons = g.reasons.iter().zip(g.stats.reasons.iter());
            all.extend(reasons.map(|(r, c)| (format!("{} {} of worker {n}", r.node, r.name), c.get())));
        }
        let c = &self.router.plane().counters;
        for i in 0..self.interfaces {
            for (what, (packets, bytes)) in [("rx", c.received(i)), ("tx", c.tx.sum(i))] {
                all.push((format!("{what} {i} packets"), packets));
                all.push((format!("{what} {i} bytes"), bytes));
            }
            let (ip4, ip6) = c.by_family(i);
            all.extend([(format!("ip4 {i}"), ip4), (format!("ip6 {i}"), ip6)]);
            for (n, r) in self.graph.reasons.iter().enumerate() {
                all.push((format!("drops of {i} {}", r.name), c.drops.sum(i, n)));
            }
        }
        for (count, before) in all.iter_mut().zip(&self.before) {
            count.1 -= before;
        }
        // Others may have come since.
        for a in self.router.adjacency_list() {
            let before = self.sent_before.get(&a.id).copied().unwrap_or_default();
            all.push((format!("adjacency {} packets", a.id), a.packets - before.0));
            all.push((format!("adjacency {} bytes", a.id), a.bytes - before.1));
        }
        all
    }
}
