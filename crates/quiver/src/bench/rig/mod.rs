//! The router under test: an unmodified [`Router`] between a feed and sinks.

mod addresses;
mod bridge;
mod labels;
mod plan;
mod wires;

pub use bridge::{Bridging, VNI};
pub use labels::{FIRST, Labels};
pub use plan::{Gre, Plan, Tags, Vrfs, list4, list6, prefix};

use super::feed::{Control, Feed};
use super::histogram::Histogram;
use super::machine::Machine;
use super::prefixes::Prefixes;
use super::random::Random;
use super::routes::Changes;
use super::sink::{Seen, Sink};
use super::traffic::{HOST, HOST4, HOST6, ROUTER, ROUTER4, ROUTER6};
use addresses::{hop, hop_mac, host_net, own, tagged_net, tagged_net6};
use graph::{PoolConfig, PoolMemory, RxQueue, TxQueue};
use ipnet::{IpNet, Ipv4Net};
use net::gre::{GreConfig, GreOp};
use net::router::{Op, RoutePath, RouteTable, Router, RouterConfig, Target};
use net::span::{Directions, Mirror};
use net::urpf::{Mode, SourceCheck};
use packet::eth::MacAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wires::MTU;

/// Buffers that rotate through the sinks of one worker, at least.
pub const ROTATION: usize = 8192;
/// The router's address in a tunnel.
const TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 253, 0, 1);
/// Packets for whose buffers the pool has room, for each worker.
const POOL: usize = 16_384;
/// Routes of one transaction while a table is loaded, at most: all of a full table.
pub const BULK: usize = 1 << 21;

/// An interface towards next hops.
pub struct Egress {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its sinks, by worker.
    pub sinks: Vec<Arc<Seen>>,
    link: Arc<AtomicBool>,
}

/// A router that is ready to forward.
pub struct Rig {
    /// The router.
    pub router: Router,
    /// The feed's control.
    pub feed: Arc<Control>,
    /// Sinks of the input interface, by worker: what goes back to the host.
    pub back: Vec<Arc<Seen>>,
    /// Interfaces towards next hops.
    pub egress: Vec<Egress>,
    /// Packets of the router itself that have left before the first of the feed came.
    own: u64,
    /// Bytes of a frame; the mean where sizes are mixed.
    pub size: usize,
    /// Routes loaded.
    pub routes: usize,
    /// Time that loading them took, seconds.
    pub load: f64,
}

impl Rig {
    /// Makes the router, its interfaces and neighbours, and loads the routes. No packet comes before [`Rig::start`].
    pub fn new(machine: &Machine, plan: &Plan, latency: bool) -> Result<Rig, String> {
        let longest = plan.traffic.templates.iter().map(|t| t.bytes.len()).max().unwrap_or(0);
        let each = 1 + longest.saturating_sub(graph::buffer::DATA).div_ceil(graph::buffer::ROOM);
        let pool = PoolConfig { buffers: POOL * each * machine.workers, memory: PoolMemory::Auto };
        let config = RouterConfig {
            workers: machine.workers,
            cpus: machine.cpus.clone(),
            pool,
            dad: net::neighbor::DadMode::Off,
            ..RouterConfig::default()
        };
        let router = Router::new(config).map_err(|e| e.to_string())?;
        let mut rig = Rig {
            router,
            feed: Arc::new(Control::default()),
            back: vec![],
            egress: vec![],
            own: 0,
            size: plan.mean_size(),
            routes: 0,
            load: 0.0,
        };
        rig.add_input(plan)?;
        for i in 0..plan.egress {
            rig.add_egress(plan, i, latency)?;
        }
        rig.address(plan)?;
        let began = std::time::Instant::now();
        for table in &plan.routes {
            rig.load(plan, table)?;
        }
        rig.load = began.elapsed().as_secs_f64();
        Ok(rig)
    }

    /// Applies operations.
    pub fn commit(&mut self, ops: Vec<Op>) -> Result<(), String> {
        self.router.commit(ops).map_err(|e| e.to_string())
    }

    fn add_input(&mut self, plan: &Plan) -> Result<(), String> {
        let (feed, traffic) = (Arc::clone(&self.feed), plan.traffic.clone());
        let mut back = vec![];
        let open = |index: u32, workers: usize| {
            let rx =
                |w| Box::new(Feed::new(index, w, workers, &traffic, Arc::clone(&feed))) as Box<dyn RxQueue>;
            let tx = |_| {
                let seen = Arc::new(Seen::default());
                back.push(Arc::clone(&seen));
                Box::new(Sink::new(64, seen)) as Box<dyn TxQueue>
            };
            let (rx, tx) = ((0..workers).map(rx).collect(), (0..workers).map(tx).collect());
            Ok(wires::device(index, ROUTER, rx, tx, &wires::always()))
        };
        self.router.add_device("in0", open).map_err(|e| e.to_string())?;
        self.back = back;
        Ok(())
    }

    fn add_egress(&mut self, plan: &Plan, i: usize, latency: bool) -> Result<(), String> {
        let name = format!("out{i}");
        let keep = ROTATION.div_ceil(plan.egress);
        let link = Arc::new(AtomicBool::new(true));
        let mut sinks = vec![];
        let open = |index: u32, workers: usize| {
            let tx = |_| {
                let latency = latency.then(|| (Histogram::default(), Histogram::default()));
                let seen = Arc::new(Seen { latency, ..Seen::default() });
                sinks.push(Arc::clone(&seen));
                Box::new(Sink::new(keep, seen)) as Box<dyn TxQueue>
            };
            let mac = MacAddr([0x02, 0xfe, 1, 0, (i >> 8) as u8, i as u8]);
            Ok(wires::device(index, mac, vec![], (0..workers).map(tx).collect(), &link))
        };
        let index = self.router.add_device(&name, open).map_err(|e| e.to_string())?;
        self.egress.push(Egress { name, index, sinks, link });
        Ok(())
    }

    /// Adds an interface `in1` with one receive queue, for packets that do not come from the feed.
    pub fn add_queue(&mut self, queue: impl FnOnce(u32) -> Box<dyn RxQueue>) -> Result<(), String> {
        let open = |index: u32, workers: usize| {
            let tx = |_| Box::new(Sink::new(64, Arc::default())) as Box<dyn TxQueue>;
            let tx = (0..workers).map(tx).collect();
            Ok(wires::device(index, ROUTER, vec![queue(index)], tx, &wires::always()))
        };
        self.router.add_device("in1", open).map_err(|e| e.to_string())?;
        let net = host_net(Ipv4Addr::new(10, 254, 0, 1).into())?;
        let address = Op::AddAddress { name: "in1".into(), net };
        self.commit(vec![address, Op::SetState { name: "in1".into(), up: true }])
    }

    /// Addresses, sub-interfaces, neighbours; everything but the input goes up.
    fn address(&mut self, plan: &Plan) -> Result<(), String> {
        let up = |name: &str| Op::SetState { name: name.into(), up: true };
        let addr = |name: &str, net| Op::AddAddress { name: name.into(), net };
        if plan.xconnect {
            let peer = Some(self.egress.first().map_or("out0", |e| &e.name).to_string());
            return self.commit(vec![Op::SetXconnect { name: "in0".into(), peer }, up("out0"), up("in0")]);
        }
        self.commit(plan.bridging.ops(plan.tagged_in))?;
        if matches!(plan.bridging, Bridging::Members | Bridging::Domains) {
            return self.learn(plan);
        }
        let input = plan.bridging.routed("in0");
        let sub = |parent: &str, v: u32, encap| Op::CreateSub { parent: parent.into(), id: v, encap };
        let mut ops = vec![up("in0")];
        let bind = |name: &str, id| {
            [false, true].map(|v6| Op::SetTable { name: name.into(), table: RouteTable { v6, id } })
        };
        let make = |id| [false, true].map(|v6| Op::CreateTable { table: RouteTable { v6, id }, name: None });
        ops.extend(self.tables(plan).into_iter().filter(|id| *id != 0).flat_map(make));
        if plan.vrfs == Vrfs::One {
            ops.extend(bind("in0", 1));
            ops.extend(self.egress.iter().flat_map(|e| bind(&e.name, 1)));
        }
        ops.extend([addr(input, host_net(ROUTER4.into())?), addr(input, host_net(ROUTER6.into())?)]);
        let known = |name: &str, address, mac| Op::SetNeighbor { name: name.into(), address, mac };
        ops.extend([known(input, HOST4.into(), HOST), known(input, HOST6.into(), HOST)]);
        if plan.urpf_strict {
            let feature = |v6| SourceCheck { v6, tx: false, mode: Mode::Strict, table: None }.into();
            let set = |v6| Op::SetFeature { name: "in0".into(), feature: feature(v6) };
            ops.extend([set(false), set(true)]);
        }
        if plan.mirror_beside {
            let directions = Directions { rx: true, tx: true };
            let mirror = Mirror { destination: "out2".into(), directions, l2: false };
            ops.push(Op::SetFeature { name: "out1".into(), feature: mirror.into() });
        }
        for v in 1..=plan.tagged_in {
            let name = format!("in0.{v}");
            let net = Ipv4Net::new(tagged_net(v), 30).map_err(|e| e.to_string())?;
            ops.push(sub("in0", v, plan.tags.encap(v)));
            if plan.vrfs == Vrfs::Each {
                ops.extend(bind(&name, v));
            }
            ops.extend([addr(&name, net.into()), addr(&name, tagged_net6(v)?), up(&name)]);
        }
        let mut names: Vec<String> = self.egress.iter().map(|e| e.name.clone()).collect();
        ops.extend(names.iter().map(|n| up(n)));
        if let (Some(v), Some(first)) = (plan.tagged_out, names.first_mut()) {
            let name = format!("{first}.{v}");
            ops.extend([sub(first, v, Tags::One.encap(v)), up(&name)]);
            *first = name;
        }
        names.iter_mut().for_each(|n| *n = plan.bridging.routed(n).to_string());
        for (i, n) in names.iter().enumerate() {
            ops.extend([addr(n, host_net(own(i, false))?), addr(n, host_net(own(i, true))?)]);
        }
        for k in 0..plan.hops {
            let mac = hop_mac(k);
            for v6 in [false, true] {
                let (i, address) = hop(k, plan.egress, v6);
                ops.extend(names.get(i).map(|n| known(n, address, mac)));
            }
        }
        ops.extend(plan.labels.ops(plan));
        if plan.gre != Gre::None {
            // Packets that come out come from the host.
            let (local, remote) = match plan.gre {
                Gre::Out => (ROUTER4.into(), HOST4.into()),
                _ => (own(0, false), hop(0, plan.egress, false).1),
            };
            let net = IpNet::new(TUNNEL.into(), 30).map_err(|e| e.to_string())?;
            ops.push(GreOp::Create { instance: 0, config: GreConfig::new(local, remote) }.into());
            ops.extend([up("gre0"), addr("gre0", net)]);
        }
        self.commit(ops)?;
        self.learn(plan)?;
        // Addresses get their networks from the interface's own number where it has a tag.
        if let Some(first) = names.first()
            && let (Some(index), Some(e)) = (self.router.interface_index(first), self.egress.first_mut())
        {
            e.index = index;
        }
        Ok(())
    }

    /// The targets of the routes, one for each first next hop.
    pub fn targets(&self, plan: &Plan, v6: bool) -> Vec<Target> {
        let groups = if plan.same_group { 1 } else { plan.hops };
        (0..groups).map(|k| self.target(plan, k, v6)).collect()
    }

    /// The target of a route whose first path is next hop `k`.
    fn target(&self, plan: &Plan, k: usize, v6: bool) -> Target {
        if plan.gre == Gre::In {
            let interface = self.router.interface_index("gre0");
            return Target::Paths(vec![RoutePath { interface, ..RoutePath::default() }]);
        }
        let path = |n| {
            let (i, address) = hop((k + n) % plan.hops.max(1), plan.egress, v6);
            let interface = self.egress.get(i).map(|e| e.index);
            let labels = plan.labels.pushed();
            RoutePath { address: Some(address), interface, labels, ..RoutePath::default() }
        };
        Target::Paths((0..plan.paths).map(path).collect())
    }

    /// The tables that hold the routes.
    fn tables(&self, plan: &Plan) -> Vec<u32> {
        match plan.vrfs {
            Vrfs::None => vec![0],
            Vrfs::One => vec![1],
            Vrfs::Each => (1..=plan.tagged_in).collect(),
        }
    }

    /// Puts other routes between routes and their next hops, and answers the targets that lead there.
    fn recursive(&mut self, plan: &Plan, v6: bool, targets: Vec<Target>) -> Result<Vec<Target>, String> {
        let mut targets = targets;
        for level in 0..plan.recursive {
            let mut next = vec![];
            for (k, target) in targets.into_iter().enumerate() {
                let address: IpAddr = match v6 {
                    true => Ipv6Addr::new(0xfc00, u16::from(level), k as u16, 0, 0, 0, 0, 1).into(),
                    false => Ipv4Addr::new(203 + level, (k >> 8) as u8, k as u8, 1).into(),
                };
                let prefix = host_net(address)?.trunc();
                self.commit(vec![Op::SetRoute { table: 0, prefix, target }])?;
                let path = RoutePath {
                    address: Some(address),
                    interface: None,
                    table: None,
                    weight: 1,
                    ..Default::default()
                };
                next.push(Target::Paths(vec![path]));
            }
            targets = next;
        }
        Ok(targets)
    }

    fn load(&mut self, plan: &Plan, table: &Prefixes) -> Result<(), String> {
        let targets = self.targets(plan, table.v6);
        let targets = self.recursive(plan, table.v6, targets)?;
        let mut random = Random::new(0x6e65_7874);
        for id in self.tables(plan) {
            for part in table.list.chunks(BULK) {
                let mut changes = Changes::in_table(id, table.v6, &targets);
                part.iter().for_each(|p| changes.set(*p, random.below(targets.len())));
                self.routes += changes.len();
                self.commit(changes.ops())?;
            }
        }
        Ok(())
    }

    /// Every worker has passed a loop when this returns.
    pub fn barrier(&self) {
        drop(self.router.placement());
    }

    /// Lets packets in. What the router itself had to say, such as announcements of its addresses, is out before.
    pub fn start(&mut self) {
        // The mail may be taken in the loop in which the last of the router's own packets goes out, so twice.
        self.barrier();
        self.barrier();
        self.own = self.sunk();
        self.feed.open.store(true, Ordering::Release);
        // Mail makes a sleeping worker look at its inputs.
        self.barrier();
    }

    /// Waits for `seconds`, and until every buffer of the rotation has been used, so that its memory is there.
    pub fn warm_up(&self, seconds: f64) {
        let began = std::time::Instant::now();
        let want = (2 * ROTATION * self.router.config().workers) as u64;
        let patience = seconds.max(30.0);
        loop {
            let passed = began.elapsed().as_secs_f64();
            if passed >= patience || passed >= seconds && self.sent() >= want {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// No more packets; what is on its way has gone out when it returns.
    pub fn stop(&mut self) {
        self.feed.open.store(false, Ordering::Release);
        self.barrier();
        self.barrier();
    }

    fn sinks(&self) -> impl Iterator<Item = &Arc<Seen>> {
        self.back.iter().chain(self.egress.iter().flat_map(|e| &e.sinks))
    }

    fn sunk(&self) -> u64 {
        self.sinks().map(|s| s.packets.load(Ordering::Relaxed)).sum()
    }

    /// Packets of the feed that have left.
    pub fn sent(&self) -> u64 {
        self.sunk() - self.own
    }

    /// Buffers that the sinks keep.
    pub fn held(&self) -> usize {
        self.sinks().map(|s| s.held.load(Ordering::Relaxed) as usize).sum()
    }

    /// The link of egress interface `i` goes or comes back.
    pub fn set_link(&mut self, i: usize, up: bool) {
        let Some(e) = self.egress.get(i) else { return };
        e.link.store(up, Ordering::Release);
        let ev = drivers::LinkEvent {
            ifindex: self.router.interface(e.index).map_or(e.index, |s| s.hw()),
            name: e.name.clone(),
            up,
            running: up,
            mtu: MTU,
            mac: None,
            used: false,
            deleted: false,
        };
        self.router.link_event(Some(""), &ev);
    }
}
