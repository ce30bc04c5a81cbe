//! What workers read of the control side's decisions, in one place: every node holds an `Arc<Plane>`.

use crate::adjacency::Adjacency;
use crate::interface::{Columns, IfSummaries, Interface, MAX_INTERFACES};
use crate::labels::LabelWriters;
use crate::punt::{Police, Punt};
use graph::counters::{PerWorker, Table};
use graph::epoch::Published;
use graph::registry::{Owner, Rows};
use graph::stats::Count;
use graph::{Guard, Handoff, OfWorkers, Registry, flags};
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use table::Tables;
use tables::fib::{Routes4, Routes6};
use tables::groups::Groups;
use tables::labels::Labels;
use tables::lpm4::Lpm4;
use tables::lpm6::Lpm6;
use tables::slots::Slots;
use type_map::TypeMap;

mod admit;
mod bridges;
mod cache;
mod groups;
pub(crate) mod sources;
pub mod table;
mod type_map;

pub use bridges::{Bridge, L2Plane, L2Writers, MAC_LIMIT, MAX_BRIDGES, Member, STEP_SECONDS};
pub use cache::IfCache;

pub use crate::adjacency::kind;

/// The most drop reasons that a graph may have.
pub const MAX_REASONS: usize = 640;

/// Counters by object, per worker.
#[derive(Clone)]
pub struct Counters {
    /// What is received, by interface.
    pub received: Received<PerWorker>,
    /// Sent, by interface.
    pub tx: PerWorker,
    /// Dropped on the receive side's account, by interface and reason.
    pub drops: Drops,
    /// Sent over each adjacency.
    pub adjacency: PerWorker,
}

/// Counters of what is received, by interface: of all workers, or of one.
#[derive(Clone)]
pub struct Received<T> {
    /// All but those in `rx4` and `rx6`.
    pub rx: T,
    /// Those on a sub-interface or BVI in a frame that was found at once to hold IPv4: counted here alone, which costs nothing.
    pub rx4: T,
    /// The same for IPv6.
    pub rx6: T,
    /// Packets among `rx` that came to `ip4-input`, or past it by a short cut; no bytes.
    pub ip4: T,
    /// The same for IPv6.
    pub ip6: T,
}

/// One worker's part.
pub type RxCounts = Received<Arc<Table>>;

impl Counters {
    /// Counters for `workers` workers.
    ///
    /// # Errors
    /// The system has not the address space, or the registry has them already.
    pub fn new(registry: &Registry, workers: usize) -> std::io::Result<Self> {
        let table = |group| PerWorker::new(registry, group, workers);
        Ok(Counters {
            received: Received {
                rx: table(&groups::RX)?,
                rx4: table(&groups::RX4)?,
                rx6: table(&groups::RX6)?,
                ip4: table(&groups::IP4)?,
                ip6: table(&groups::IP6)?,
            },
            tx: table(&groups::TX)?,
            drops: Drops::new(registry, workers)?,
            adjacency: table(&groups::ADJACENCY)?,
        })
    }

    /// Counters for so many workers; those that are there stay.
    ///
    /// # Errors
    /// The system has not the address space.
    pub fn grow(&self, registry: &Registry, workers: usize) -> std::io::Result<()> {
        let Received { rx, rx4, rx6, ip4, ip6 } = &self.received;
        for table in [rx, rx4, rx6, ip4, ip6, &self.tx, &self.adjacency] {
            table.grow(registry, workers)?;
        }
        self.drops.grow(registry, workers)
    }

    /// What worker `worker` counts of received packets.
    pub fn received_by(&self, worker: usize) -> RxCounts {
        let (r, of) = (&self.received, |counters: &PerWorker| counters.of(worker));
        Received { rx: of(&r.rx), rx4: of(&r.rx4), rx6: of(&r.rx6), ip4: of(&r.ip4), ip6: of(&r.ip6) }
    }

    /// Packets and bytes received on interface `index`.
    pub fn received(&self, index: u32) -> (u64, u64) {
        let r = &self.received;
        let sums = [&r.rx, &r.rx4, &r.rx6].map(|c| c.sum(index));
        sums.iter().fold((0, 0), |(packets, bytes), s| (packets + s.0, bytes + s.1))
    }

    /// Packets among those received that came to `ip4-input` and to `ip6-input`.
    pub fn by_family(&self, index: u32) -> (u64, u64) {
        let (r, packets) = (&self.received, |c: &PerWorker| c.sum(index).0);
        (packets(&r.rx4) + packets(&r.ip4), packets(&r.rx6) + packets(&r.ip6))
    }
}

/// Drop counters by interface: there is room for an interface when it was [reserved](Drops::reserve).
#[derive(Clone)]
pub struct Drops(OfWorkers<DropTable>);

/// One worker's drop counters.
pub struct DropTable(Rows<Count, MAX_REASONS>);

impl Drops {
    /// Counters for `workers` workers.
    ///
    /// # Errors
    /// The system has no room for them, or the registry has them already.
    pub fn new(registry: &Registry, workers: usize) -> std::io::Result<Self> {
        let all = Drops(OfWorkers::default());
        all.grow(registry, workers)?;
        Ok(all)
    }

    /// Counters for so many workers; those that are there stay.
    ///
    /// # Errors
    /// As [`Drops::new`].
    pub fn grow(&self, registry: &Registry, workers: usize) -> std::io::Result<()> {
        let table = |w| registry.rows(&groups::DROPS, Owner::Worker(w), MAX_INTERFACES);
        self.0.grow(workers, |w| table(w).map(DropTable))
    }

    /// Makes room for an interface. Without address space for it, drops on it are counted by reason alone.
    pub fn reserve(&self, index: u32) {
        for t in self.0.iter() {
            let _ = t.0.reserve(index as usize);
        }
    }

    /// The table that worker `w` writes.
    pub fn of(&self, w: usize) -> Arc<DropTable> {
        self.0.of(w)
    }

    /// Count of one reason on one interface over all workers.
    pub fn sum(&self, index: u32, reason: usize) -> u64 {
        self.0.iter().filter_map(|t| t.get(index, reason)).map(Count::get).sum()
    }
}

impl DropTable {
    /// The counter of one reason on one interface.
    #[inline]
    pub fn get(&self, index: u32, reason: usize) -> Option<&Count> {
        self.0.get(index as usize, reason)
    }
}

/// The control side's ends of what has one writer, for who is to have them.
#[derive(Default)]
pub struct Ends {
    /// Of bridge domains.
    pub l2: Option<L2Writers>,
    /// Of label tables.
    pub labels: Option<LabelWriters>,
}

/// Settings that nodes read, as the router is made with them.
#[derive(Clone, Debug)]
pub struct PlaneConfig {
    /// Packets held for one unresolved neighbour, per worker.
    pub hold_per_neighbor: u32,
    /// Packets held for all unresolved neighbours of one interface, per worker and family; of all interfaces, 4096.
    pub hold_per_interface: u32,
    /// Seed of the flow hash.
    pub hash_seed: u32,
    /// Hop limit and TTL of packets that the router makes.
    pub ttl: u8,
    /// The identification of all IPv6 fragments and headers of tunnels that the router makes: for tests that compare routers. Random without.
    pub fragment_id: Option<u32>,
}

impl Default for PlaneConfig {
    fn default() -> Self {
        PlaneConfig {
            hold_per_neighbor: 64,
            hold_per_interface: 1024,
            hash_seed: 0x5155_4956,
            ttl: 64,
            fragment_id: None,
        }
    }
}

/// Everything that nodes read and count.
pub struct Plane {
    /// Interfaces and sub-interfaces, by number.
    pub interfaces: Arc<Slots<Interface>>,
    /// What short cuts ask of them.
    pub summaries: IfSummaries,
    /// Where they have the settings that features declare.
    pub columns: Columns,
    /// Adjacencies, by number.
    pub adjacencies: Arc<Slots<Adjacency>>,
    /// IPv4 routes of table 0: group numbers.
    pub fib4: Arc<Lpm4>,
    /// IPv6 routes of table 0: group numbers.
    pub fib6: Arc<Lpm6>,
    /// All IPv4 tables.
    pub tables4: Tables<Routes4>,
    /// All IPv6 tables.
    pub tables6: Tables<Routes6>,
    /// Next-hop groups.
    pub groups: Arc<Groups>,
    /// Bridge domains.
    pub l2: L2Plane,
    /// Label tables, by FIB index; that of table 0 is 0.
    pub labels: Arc<Slots<Arc<Labels>>>,
    /// Settings.
    pub config: Published<PlaneConfig>,
    /// All counters, as other processes find them.
    pub registry: Arc<Registry>,
    /// Counters by object.
    pub counters: Counters,
    /// What workers tell the control side.
    pub punt: Punt,
    /// What is added to the workers' clock, nanoseconds, for the time since 1970.
    pub wall: AtomicU64,
    /// Limits of what goes to the router itself.
    pub police: Police,
    /// Chooses the worker of a datagram whose fragments come; nobody outside knows how.
    pub fragment_hash: RandomState,
    /// Packets from one worker to another.
    pub handoff: Arc<Handoff>,
    /// What features publish, by its type: [`Plane::publish`].
    pub published: TypeMap,
}

/// Flag of a packet that is looked up in a table that does not follow from its interface: the place of that stands in
/// [`graph::Desc::tx`] until the packet has an interface to leave by.
pub const IN_TABLE: u16 = flags::USER << 1;

impl Plane {
    /// Makes what workers count in, and the queues between them, for so many workers; what is there stays.
    ///
    /// # Errors
    /// The system has not the address space, or refuses a descriptor.
    pub fn grow(&self, workers: usize) -> std::io::Result<()> {
        self.counters.grow(&self.registry, workers)?;
        self.l2.grow(&self.registry, workers)?;
        self.police.grow(&self.registry, workers)?;
        self.handoff.grow(workers)
    }

    /// Whether an adjacency puts labels on that copy TTL.
    #[cold]
    pub fn is_uniform(&self, guard: &Guard, adj: u32) -> bool {
        self.adjacencies.get(adj, guard).and_then(|a| a.mpls.as_ref()).is_some_and(|m| m.uniform)
    }

    /// What a feature publishes for workers by this type: the same for all nodes and for the control side. Nodes ask for it when
    /// the graph is built and keep it, so that no packet looks it up. It has the default value until another is published.
    pub fn publish<T: Default + Send + Sync + 'static>(&self) -> Arc<Published<T>> {
        self.published.get_or_make(|| Published::new(T::default()))
    }

    /// The same for what the control side changes in place.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.published.get_or_make(T::default)
    }
}
