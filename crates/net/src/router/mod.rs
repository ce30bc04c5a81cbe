//! The control side: owner of all state. Every change is an [`Op`]; several make a transaction
//! ([`Router::commit`]) that is applied as a whole or not at all.
//!
//! The router runs on one thread. Its caller (the binary, or a test) waits for [`Router::punt_fd`] and
//! [`Router::next_deadline`], and calls [`Router::handle_punts`] and [`Router::tick`].

mod addresses;
mod adjacencies;
mod aside;
#[cfg(test)]
mod aside_tests;
mod attached;
mod backup;
mod batch;
mod bulk;
mod check;
mod companion;
mod connected;
#[cfg(test)]
mod converge_tests;
mod create;
mod devices;
mod elsewhere;
mod features;
mod fibs;
mod following;
mod happened;
mod inspect;
mod interface_op;
mod interface_publish;
mod interface_settings;
mod interface_state;
mod interfaces;
mod log;
mod mode;
mod neighbors;
mod nexthops;
mod op;
mod part;
mod part_op;
mod peer;
mod placement;
mod preferences;
mod queues;
mod resolve;
mod returning;
mod routes;
mod scale;
mod sources;
mod stamps;
mod tables;
mod tap_addresses;
mod tell;
mod told;
mod traces;
mod words;
mod workers;

pub use ::tables::groups::GroupId;
pub use addresses::{anycast, nobody};
pub use adjacencies::AdjacencyInfo;
pub use aside::{Asks, Waits};
pub(crate) use batch::Verb;
pub use batch::{RouteBatch, TargetId};
pub use check::MOST_PATHS;
pub(crate) use create::NewVirtual;
pub use devices::{
    Device, DeviceControl, HostConfig, HostDriver, Kept, MOST_KEPT, Offload, PcapConfig, PcapFiles, Ring,
    TapConfig, XdpMode, check_held, open_pcap_files, rings_hold,
};
pub use elsewhere::Elsewhere;
pub(crate) use elsewhere::HadElsewhere;
pub use features::Feature;
pub use happened::{Happened, LinkState, Listener};
pub use inspect::ArcFeatures;
pub use interface_op::{BoxedOp, InterfaceOp, Named};
pub use interface_state::{Encap, FloodClass, IfState, Kind, Membership, Order, VirtualKind};
pub use log::LogLine;
pub use nexthops::{Lookup, NextHopInfo, RouteObject, RoutePath, Target};
pub use op::{Held, MTU, Op, OpError, Step, mtu_over};
pub(crate) use part::{Handed, Part, Start};
pub use part_op::{BoxedPartOp, PartOp};
pub use placement::Placement;
pub use preferences::{CONNECTED, STATIC, SourcePreference};
pub use resolve::NextHopStep;
pub(crate) use resolve::TableKind;
pub(crate) use routes::plural_routes;
pub use routes::{PublishCounts, RouteInfo};
pub use scale::BUFFERS_A_WORKER;
pub use sources::{LINUXS, PrefixRoute, Rank, RouteSource, RouteSourceInfo, Source, Sweep};
pub use stamps::Changed;
pub use tables::{RouteTable, TableInfo};
pub use tap_addresses::TapAddresses;
pub use told::Lost;
pub use traces::Untraceable;
pub use words::{
    DEVICE_NAME, HOP_OPTIONS, MOST_DESCRIPTION, check_description, check_namespace, is_device_name,
    is_namespace, is_tap_host, means_already, memif_numbers, namespace_for_root, vhost_number,
};
pub use workers::{ErrorRow, InterfaceCounts, NodeRow, WorkerInfo};

use self::fibs::Fibs;
use crate::interface::{Columns, Switch};
use crate::neighbor::{DadMode, Millis, NeighborConfig};
use crate::plane::table::Tables;
use crate::plane::{Counters, Ends, L2Plane, Plane, PlaneConfig};
use crate::punt::{Police, Punt};
use ::tables::fib::{Fib4Writer, Fib6Writer, Routes};
use ::tables::groups::Groups;
use ::tables::slots::Slots;
use adjacencies::Adjacencies;
use graph::epoch::Published;
use graph::{Domain, Graph, Guard, Handoff, Pool, PoolConfig, Reclaimer, Registry};
use interfaces::Interfaces;
use log::Log;
use neighbors::Neighbors;
use nexthops::NextHops;
use rustix::fd::BorrowedFd;
use sources::RouteSources;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::{Duration, Instant};
use workers::Workers;

/// Makes a worker's graph.
pub(crate) type MakeGraph =
    fn(&Arc<Plane>, &Arc<Pool>, usize) -> Result<(graph::Dispatcher, Graph), graph::BuildError>;

/// The nodes on which workers run.
pub(crate) struct Nodes {
    /// Makes a worker's graph of them.
    pub build: MakeGraph,
    /// Which of them the settings of interfaces switch on.
    pub switches: Vec<&'static Switch>,
    /// What interfaces can be told for them.
    pub settings: Columns,
    /// The features that have a control side of their own.
    pub parts: &'static [&'static dyn Part],
}

/// How a router is made.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Number of workers, at least 1.
    pub workers: usize,
    /// CPUs to pin them to, one each; empty: not pinned.
    pub cpus: Vec<usize>,
    /// To which NUMA nodes CPUs belong.
    pub numa: drivers::numa::Nodes,
    /// The longest that an idle worker polls before it sleeps.
    pub spin: Duration,
    /// Packet buffers.
    pub pool: PoolConfig,
    /// What nodes read.
    pub plane: PlaneConfig,
    /// Timers and limits of the neighbour table.
    pub neighbor: NeighborConfig,
    /// Duplicate address detection of IPv6 addresses.
    pub dad: DadMode,
    /// The most bytes that routes may take: both tables and the next-hop groups, workers' and control side. A change
    /// of static routes that would need more is refused as a whole. Routes of interfaces and neighbours always fit.
    pub route_memory: Option<usize>,
    /// Which worker joins the fragments of a packet: a hash whose key nobody knows, so that nobody can send them all to one.
    pub fragment_hash: RandomState,
}

impl Default for RouterConfig {
    fn default() -> Self {
        RouterConfig {
            workers: 1,
            cpus: vec![],
            numa: drivers::numa::Nodes::of_machine(),
            spin: Duration::from_micros(50),
            pool: PoolConfig { buffers: 16_384, memory: graph::PoolMemory::Auto },
            plane: PlaneConfig::default(),
            neighbor: NeighborConfig::default(),
            dad: DadMode::Optimistic,
            route_memory: None,
            fragment_hash: RandomState::new(),
        }
    }
}

/// Why a router could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Buffers.
    #[error(transparent)]
    Pool(#[from] graph::PoolError),
    /// The graph's own lists do not fit together (a bug).
    #[error("the graph cannot be built: {0}")]
    Graph(#[from] graph::BuildError),
    /// The system refused something.
    #[error("cannot start {what}: {err}")]
    System {
        /// What was to be started.
        what: &'static str,
        /// The system's answer.
        err: std::io::Error,
    },
    /// The configuration cannot be met.
    #[error("{0}")]
    Config(String),
}

/// What tells when workers do not see any more what was taken out.
struct Grace {
    domain: Arc<Domain>,
    reclaimer: Reclaimer,
    guard: Guard,
}

/// The control side of a running router.
pub struct Router {
    plane: Arc<Plane>,
    pool: Arc<Pool>,
    grace: Grace,
    workers: Workers,
    config: RouterConfig,
    instructions: packet::CpuChoice,
    started: Instant,
    interfaces: Interfaces,
    adjacencies: Adjacencies,
    nexthops: NextHops,
    fibs: Fibs,
    sources: RouteSources,
    told: told::Told,
    listening: Option<Box<happened::Listening>>,
    /// How workers wait that do so otherwise than by default.
    polling: std::collections::BTreeMap<usize, graph::Polling>,
    neighbors: Neighbors,
    parts: part::Parts,
    companions: companion::Companions,
    /// See [`Router::namespace_is`].
    namespaces: std::collections::BTreeMap<String, Option<(u64, u64)>>,
    changes: u64,
    /// Batches of static routes and labels so far.
    pub(crate) static_batches: u64,
    /// See [`Router::said`].
    said: u64,
    /// See [`Router::tables_made`].
    tables_made: u64,
    log: Log,
    aside: aside::Aside,
}

impl Router {
    /// Makes the tables and buffers, and starts the workers on graphs of these nodes.
    #[allow(unsafe_code)]
    pub(crate) fn with_nodes(config: RouterConfig, nodes: Nodes) -> Result<Router, StartError> {
        let system = |what| move |err| StartError::System { what, err };
        scale::check(config.workers, &config.cpus).map_err(StartError::Config)?;
        let pool = Pool::new(config.pool)?;
        let domain = Arc::new(Domain::new());
        let instructions = packet::CpuChoice::from_env().map_err(|e| StartError::Config(e.to_string()))?;
        let lpm = ::tables::LpmConfig { level: instructions.level, ..Default::default() };
        let mut fib4 = Fib4Writer::many(lpm).map_err(system("the IPv4 table"))?;
        let mut fib6 = Fib6Writer::many(lpm).map_err(system("the IPv6 table"))?;
        let (Routes::Many(shared4), Routes::Many(shared6)) = (fib4.again(), fib6.again()) else {
            return Err(StartError::Config("table 0 is too small".into()));
        };
        let seed = config.plane.hash_seed;
        let flow = packet::flow::Flow::five_tuple(seed);
        let level = shared4.level();
        let (main4, main6) = crate::plane::table::main(&shared4, &shared6);
        let (slots4, tables4) = Tables::new(main4, flow, level).map_err(system("the IPv4 tables"))?;
        let (slots6, tables6) = Tables::new(main6, flow, level).map_err(system("the IPv6 tables"))?;
        let fibs = Fibs::new(fib4, fib6, slots4, slots6, seed, lpm);
        let (groups, shared_groups) = Groups::new(1 << 24).map_err(system("the table of next-hop groups"))?;
        let (interfaces, shared_ifs) =
            Slots::new(crate::interface::MAX_INTERFACES).map_err(system("the interfaces"))?;
        let (adjacencies, shared_adjs) = Slots::new(1 << 22).map_err(system("the adjacencies"))?;
        let n = config.workers;
        let registry = Registry::new().map_err(system("the counters"))?;
        let (bridges, l2) = L2Plane::new(&registry, n, level).map_err(system("the bridge domains"))?;
        let (labels, shared_labels) = crate::labels::table0().map_err(system("the label tables"))?;
        let plane = Arc::new(Plane {
            interfaces: shared_ifs,
            summaries: crate::interface::IfSummaries::new(),
            columns: nodes.settings,
            adjacencies: shared_adjs,
            fib4: shared4,
            fib6: shared6,
            tables4,
            tables6,
            groups: shared_groups,
            l2,
            labels: shared_labels,
            config: Published::new(config.plane.clone()),
            counters: Counters::new(&registry, n).map_err(system("the counters"))?,
            wall: Default::default(),
            punt: Punt::new().map_err(system("the queue to the control side"))?,
            police: Police::new(&registry, n).map_err(system("the counters"))?,
            registry,
            fragment_hash: config.fragment_hash.clone(),
            handoff: Arc::new(Handoff::new(n).map_err(system("the queues between workers"))?),
            published: Default::default(),
        });
        let seed = Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id()) << 20;
        let mut router = Router {
            grace: Grace {
                reclaimer: Reclaimer::new(Arc::clone(&domain)),
                // SAFETY: this thread is the only one that reclaims, and it holds no reference while it does.
                guard: unsafe { Guard::unprotected() },
                domain,
            },
            interfaces: Interfaces::new(interfaces, nodes.settings, nodes.switches),
            adjacencies: Adjacencies::new(adjacencies),
            nexthops: NextHops::new(groups),
            neighbors: Neighbors::new(config.neighbor, seed),
            parts: part::Parts::new(
                nodes.parts,
                Start { seed, ends: Ends { l2: Some(bridges), labels: Some(labels) } },
            ),
            companions: companion::Companions::default(),
            namespaces: std::collections::BTreeMap::new(),
            started: Instant::now(),
            changes: 0,
            said: 0,
            tables_made: 0,
            static_batches: 0,
            log: Log::default(),
            aside: aside::Aside::default(),
            plane,
            pool,
            workers: Workers::new(nodes.build),
            config,
            instructions,
            fibs,
            sources: RouteSources::default(),
            told: told::Told::default(),
            listening: None,
            polling: Default::default(),
        };
        router.start_workers(n)?;
        router.set_wall();
        router.make_local0();
        for part in router.parts.all {
            part.starts(&mut router).map_err(|e| StartError::Config(e.message))?;
        }
        Ok(router)
    }

    /// Transactions so far that changed more than routes.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Transactions so far that changed what a document says, but for static routes and labels, and for those that failed. Those of
    /// Linux's are none of them, where they touch what is Linux's alone.
    pub fn said(&self) -> u64 {
        self.said
    }

    /// The same, static routes and labels included.
    pub fn version(&self) -> u64 {
        self.said + self.static_batches
    }

    /// What workers read.
    pub fn plane(&self) -> &Arc<Plane> {
        &self.plane
    }

    /// The buffers.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Each worker's graph: names, counters, trace.
    pub fn graphs(&self) -> &[Graph] {
        &self.workers.graphs
    }

    /// How the router was made.
    pub fn config(&self) -> &RouterConfig {
        &self.config
    }

    /// Time since the router was made.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// By which flows are hashed for the choice of paths.
    pub(crate) fn hash_seed(&self) -> u32 {
        self.config.plane.hash_seed
    }

    /// The router's clock.
    pub fn now(&self) -> Millis {
        Millis(self.started.elapsed().as_millis() as u64)
    }

    /// Readable when workers have something for the control side.
    pub fn punt_fd(&self) -> BorrowedFd<'_> {
        self.plane.punt.fd()
    }

    /// Which instructions vector code uses, and why.
    pub fn instructions(&self) -> packet::CpuChoice {
        self.instructions
    }

    /// Lines for the log since the last call.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        self.take_lines(usize::MAX)
    }

    /// The first of them, so many at most.
    pub fn take_lines(&mut self, most: usize) -> Vec<LogLine> {
        for r in self.workers.panics.try_iter() {
            let bytes: String = r.bytes.iter().map(|b| format!("{b:02x}")).collect();
            self.log.push(
                true,
                format!(
                    "worker {}: node {} panicked ({}); {} packets dropped; first one: {bytes}",
                    r.worker, r.node, r.message, r.packets
                ),
            );
        }
        self.log.take(most)
    }

    /// Whether there are any.
    pub fn has_lines(&self) -> bool {
        !self.log.is_empty()
    }

    pub(crate) fn note(&mut self, warn: bool, text: impl Into<String>) {
        self.log.note(warn, text.into());
    }

    /// The workers.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The workers, to be given something or relieved of it.
    pub(crate) fn workers_mut(&mut self) -> &mut Workers {
        &mut self.workers
    }

    /// The next-hop groups.
    pub(crate) fn nexthops(&self) -> &NextHops {
        &self.nexthops
    }

    /// The next-hop groups, to be used by more or by less.
    pub(crate) fn nexthops_mut(&mut self) -> &mut NextHops {
        &mut self.nexthops
    }

    /// Who sees what of what workers read.
    pub(crate) fn domain(&self) -> &Domain {
        &self.grace.domain
    }

    /// For a look at what workers read.
    pub(crate) fn guard(&self) -> &Guard {
        &self.grace.guard
    }

    /// What workers have of this type now.
    pub(crate) fn current<T: Default + Clone + Send + Sync + 'static>(&self) -> T {
        self.plane.publish::<T>().load(&self.grace.guard).clone()
    }

    /// Publishes for workers what nodes ask for by this type, and answers what was published before.
    pub(crate) fn replace<T: Default + Clone + Send + Sync + 'static>(&mut self, value: T) -> T {
        let was = self.current();
        self.publish(value);
        was
    }

    /// What is changed in place for workers, as nodes ask for it by this type.
    pub(crate) fn in_place<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.plane.shared()
    }

    /// Publishes for workers what nodes ask for by this type.
    pub(crate) fn publish<T: Default + Send + Sync + 'static>(&mut self, value: T) {
        self.plane.publish::<T>().publish(value, &mut self.grace.reclaimer);
    }

    /// Frees what no worker sees any more. Called by [`Router::commit`] and [`Router::tick`].
    pub(crate) fn reclaim(&mut self) {
        self.adjacencies.remove_unused();
        let epoch = self.grace.domain.advance();
        let safe = self.grace.domain.safe();
        self.tell_parts(|part, router| part.reclaiming(router));
        self.grace.reclaimer.collect();
        self.nexthops.groups.reclaim(safe);
        // SAFETY: `safe` is below the epoch of every worker that is awake, and this thread holds no reference into
        // the slots here.
        #[allow(unsafe_code)]
        unsafe {
            self.interfaces.slots.reclaim(epoch, safe);
            self.adjacencies.slots.reclaim(epoch, safe);
            self.fibs.reclaim(epoch, safe);
        }
        self.nexthops.groups.retire_epoch(epoch);
    }

    /// Takes everything out again: routes, what parts have, interfaces.
    pub fn clear(&mut self) {
        let mut ops: Vec<Op> = vec![];
        let tables: Vec<RouteTable> =
            [false, true].into_iter().flat_map(|v6| self.route_tables(v6)).map(|t| t.table).collect();
        for &table in &tables {
            ops.extend(self.removal(table, self.routes(table)));
        }
        let named = |i: &&IfState| i.kind != Kind::Local;
        // It is taken out like all that is the operator's.
        let whole = Elsewhere::default;
        let elsewhere = self.interfaces().filter(|i| i.elsewhere != whole());
        ops.extend(elsewhere.map(|i| Op::SetElsewhere { name: i.name.clone(), what: whole() }));
        ops.extend(
            self.interfaces()
                .filter(named)
                .filter(|i| i.xconnect.is_some())
                .map(|i| Op::SetXconnect { name: i.name.clone(), peer: None }),
        );
        // What needs the addresses that are lent comes before these.
        let lends = |i: &&IfState| i.unnumbered.is_some();
        let behind =
            self.interfaces().filter(lends).flat_map(|i| self.neighbors.table.iter_interface(i.index));
        ops.extend(
            behind
                .filter(|n| n.state == crate::neighbor::State::Static)
                .map(|n| Op::DelNeighbor { name: self.interface_name(n.interface), address: n.addr }),
        );
        ops.extend(self.parts.all.iter().rev().flat_map(|p| p.releases(self)));
        ops.extend(
            self.interfaces()
                .filter(lends)
                .map(|i| Op::SetFeature { name: i.name.clone(), feature: Feature::Unnumbered(None) }),
        );
        let whole = |i: &&IfState| named(i) && !i.companion && !matches!(i.kind, Kind::Sub { .. });
        ops.extend(self.interfaces().filter(whole).map(|i| Op::Delete { name: i.name.clone() }));
        ops.extend(tables.into_iter().filter(|t| t.id != 0).map(|table| Op::DeleteTable { table }));
        if let Err(e) = self.with_companions(|r| r.commit(ops)) {
            self.note(true, format!("cannot take everything out: {e}"));
        }
        self.said += 1;
    }

    /// Stops the workers and closes all devices.
    pub fn shutdown(&mut self) {
        self.tell_parts(|part, router| part.ends(router, None));
        self.end_aside();
        for w in &mut self.workers.handles {
            w.stop();
        }
        self.interfaces.close();
    }
}
