//! From the checked document to a running router: settings, then operations.

use crate::yaml::{
    Dad, Diagnostic, Diagnostics, Document, Driver, HugePages, Interface, InterfaceKind, Place, Rate,
    RingVersion, RouteTarget,
};
use graph::{PoolConfig, PoolMemory};
use net::copp::SetLimit;
use net::generator::StreamOp;
use net::mpls::{LabelBatch, MplsOp, TunnelConfig};
use net::neighbor::{DadMode, NeighborConfig};
use net::plane::PlaneConfig;
use net::router::{
    Feature, HostConfig, Op, PcapConfig, Ring, RouteBatch, RoutePath, Router, RouterConfig, TapConfig, Target,
};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How the document wants the router made.
pub fn router_config(d: &Document) -> RouterConfig {
    let s = &d.settings;
    RouterConfig {
        workers: usize::from(s.workers),
        cpus: s.cpus.iter().map(|c| usize::from(*c)).collect(),
        spin: s.spin,
        pool: PoolConfig {
            buffers: s.buffers.count as usize,
            memory: match s.buffers.huge_pages {
                HugePages::Auto => PoolMemory::Auto,
                HugePages::Never => PoolMemory::Normal,
                HugePages::Require => PoolMemory::Huge,
            },
        },
        plane: PlaneConfig {
            hold_per_neighbor: u32::from(s.neighbor.queue),
            hold_per_interface: u32::from(s.neighbor.interface_queue),
            ..PlaneConfig::default()
        },
        neighbor: NeighborConfig {
            retrans_timer: s.neighbor.retransmit.as_millis() as u64,
            base_reachable: s.neighbor.reachable_time.as_millis() as u64,
            max_entries: s.neighbor.max_entries as usize,
            max_per_interface: s.neighbor.max_per_interface.unwrap_or(s.neighbor.max_entries) as usize,
            max_incomplete: s.neighbor.max_unresolved as usize,
            solicit_rate: s.neighbor.solicit_rate,
            ..NeighborConfig::default()
        },
        dad: match s.dad {
            Dad::Optimistic => DadMode::Optimistic,
            Dad::Strict => DadMode::Strict,
            Dad::Off => DadMode::Off,
        },
        // Without a limit of its own: half of what the machine or the cgroup leave now.
        route_memory: Some(
            s.route_memory.map_or_else(
                || graph::memory::room() / 2,
                |bytes| usize::try_from(bytes).unwrap_or(usize::MAX),
            ),
        ),
    }
}

/// Operations with the place of the document that asks for each.
struct Plan {
    ops: Vec<Op>,
    places: Vec<(Place, String)>,
    /// For operations on routes, by their number: which routes of the document they are.
    routes: HashMap<usize, Vec<u32>>,
    /// The same for labels: where they stand.
    labels: HashMap<usize, Vec<Place>>,
}

impl Plan {
    fn add(&mut self, place: Place, path: &str, op: Op) {
        self.ops.push(op);
        self.places.push((place, path.to_string()));
    }
}

fn create(i: &Interface) -> Option<(Place, Op)> {
    let name = i.name.clone();
    Some(match &i.kind {
        // `Document::supported` has refused them.
        InterfaceKind::Bond(_) => return None,
        InterfaceKind::Loopback => {
            let instance = name.strip_prefix("loop").and_then(|n| n.parse().ok());
            (i.place, Op::CreateLoopback { instance, mac: i.mac })
        }
        InterfaceKind::MplsTunnel(t) => {
            let instance = name.strip_prefix("mpls-tunnel").and_then(|n| n.parse().ok());
            // Its paths come when the interfaces stand over which they lead.
            let config = TunnelConfig { l2_only: t.l2_only, control_word: t.control_word, paths: vec![] };
            (t.place, Op::from(MplsOp::CreateTunnel { instance, config }))
        }
        InterfaceKind::Virtual(v) => (v.place, v.op.clone()?),
        InterfaceKind::Tap(t) => {
            let config = TapConfig {
                host_name: t.host_name.clone(),
                netns: t.namespace.clone(),
                netns_create: t.namespace_create,
                host_mac: t.host_mac,
                host_mtu: Some(u32::from(t.host_mtu)),
                addresses: t.addresses,
                bridge: t.bridge.clone(),
                bridge_create: t.bridge_create,
                persist: t.persistent,
                rx_queues: usize::from(t.rx_queues),
                rx_ring: Some(t.rx_ring_size),
                offload: t.offload,
            };
            (t.place, Op::CreateTap { name, config })
        }
        InterfaceKind::Device(d) => match &d.driver {
            Driver::AfPacket { host, namespace, rx_slots, ring, offload } => {
                let config = HostConfig {
                    host: host.clone(),
                    netns: namespace.clone(),
                    rx_queues: usize::from(d.rx_queues),
                    ring: match ring {
                        RingVersion::TpacketV2 => Ring::V2,
                        RingVersion::TpacketV3 => Ring::V3,
                    },
                    slots: rx_slots.map(|n| n as usize),
                    offload: *offload,
                };
                (d.place, Op::CreateHost { name, config })
            }
            Driver::Pcap { read, write, rate, repeat } => {
                let pps = match rate {
                    Rate::Max => None,
                    Rate::Pps(n) => Some(*n),
                };
                let config = PcapConfig { read: read.clone(), write: write.clone(), pps, repeat: *repeat };
                (d.place, Op::CreatePcap { name, config })
            }
        },
    })
}

/// The operations that make the interfaces of the document on a router that has none.
fn interfaces(d: &Document) -> Plan {
    let mut p = Plan { ops: vec![], places: vec![], routes: HashMap::new(), labels: HashMap::new() };
    for s in d.tables.settings.iter() {
        p.add(s.place, &s.path, s.op.clone());
    }
    for l in &d.punt {
        p.add(l.place, "punt", SetLimit { class: l.class, limit: l.limit }.into());
    }
    for i in &d.interfaces {
        let Some((place, op)) = create(i) else { continue };
        p.add(place, &i.path, op);
        let name = || i.name.clone();
        if let (Some(mac), false) = (i.mac, matches!(i.kind, InterfaceKind::Loopback)) {
            p.add(i.place, &i.path, Op::SetMac { name: name(), mac: Some(mac) });
        }
        for q in &i.placement {
            let (queue, worker) = (usize::from(q.queue), Some(usize::from(q.worker)));
            p.add(q.place, &i.path, Op::SetPlacement { name: name(), queue, worker });
        }
        p.add(i.mtu_place, &i.path, Op::SetMtu { name: name(), mtu: i.mtu });
        if let Some(text) = &i.description {
            p.add(i.place, &i.path, Op::SetDescription { name: name(), text: Some(text.clone()) });
        }
        for s in &i.sub_interfaces {
            let Some(encap) = s.encapsulation else { continue };
            p.add(s.place, &s.path, Op::CreateSub { parent: name(), id: s.id, encap });
            p.add(s.mtu_place, &s.path, Op::SetMtu { name: s.name.clone(), mtu: s.mtu });
            if let Some(text) = &s.description {
                p.add(
                    s.place,
                    &s.path,
                    Op::SetDescription { name: s.name.clone(), text: Some(text.clone()) },
                );
            }
        }
    }
    for b in &d.bridges {
        b.operations().into_iter().for_each(|s| p.add(s.place, &s.path, s.op));
    }
    for s in crate::yaml::popped(&d.interfaces, &d.bridges).iter().chain(&d.l2) {
        p.add(s.place, &s.path, s.op.clone());
    }
    for s in d.virtuals.iter().chain(&d.span) {
        p.add(s.place, &s.path, s.op.clone());
    }
    // Addresses come into the table of their interface.
    for s in d.l3.iter().filter(|s| before_packets(&s.op)) {
        p.add(s.place, &s.path, s.op.clone());
    }
    for i in &d.interfaces {
        let subs = i
            .sub_interfaces
            .iter()
            .map(|s| (&s.name, &s.path, &s.addresses, &s.l2xc, s.promiscuous, s.mpls, s.up, s.place));
        let own = (&i.name, &i.path, &i.addresses, &i.l2xc, i.promiscuous, i.mpls, i.up, i.place);
        for (name, path, addresses, l2xc, promiscuous, mpls, up, place) in std::iter::once(own).chain(subs) {
            if mpls {
                let feature = net::mpls::TAKEN.to(true).into();
                p.add(place, path, Op::SetFeature { name: name.clone(), feature });
            }
            if promiscuous {
                p.add(place, path, Op::SetPromiscuous { name: name.clone(), on: true });
            }
            for a in addresses {
                p.add(a.place, path, Op::AddAddress { name: name.clone(), net: a.net });
            }
            if let Some(peer) = l2xc {
                p.add(
                    peer.place,
                    path,
                    Op::SetXconnect { name: name.clone(), peer: Some(peer.name.clone()) },
                );
            }
            // A capture file begins when all stands that its packets need.
            if name != &i.name || !reads_file(i) {
                p.add(place, path, Op::SetState { name: name.clone(), up });
            }
        }
    }
    unnumbered(d, &mut p);
    p
}

/// Tables, into which addresses come, and what packets must meet from the first one on.
fn before_packets(op: &Op) -> bool {
    match op {
        Op::SetTable { .. } => true,
        Op::SetFeature { feature: Feature::Part(op), .. } => op.is_early(),
        Op::SetFeature { feature: Feature::Setting(choice), .. } => choice.declared().early,
        _ => false,
    }
}

/// Interfaces that use the addresses of others, once these have them.
fn unnumbered(d: &Document, p: &mut Plan) {
    for i in &d.interfaces {
        let subs = i.sub_interfaces.iter().map(|s| (&s.name, &s.path, &s.unnumbered));
        for (name, path, lender) in std::iter::once((&i.name, &i.path, &i.unnumbered)).chain(subs) {
            if let Some(lender) = lender {
                let feature = Feature::Unnumbered(Some(lender.name.clone()));
                p.add(lender.place, path, Op::SetFeature { name: name.clone(), feature });
            }
        }
    }
}

fn reads_file(i: &Interface) -> bool {
    matches!(&i.kind, InterfaceKind::Device(d) if matches!(&d.driver, Driver::Pcap { read: Some(_), .. }))
}

fn target(router: &Router, t: &RouteTarget) -> Target {
    match t {
        RouteTarget::Drop => Target::Drop,
        RouteTarget::Unreachable => Target::Unreachable,
        RouteTarget::Prohibit => Target::Prohibit,
        RouteTarget::Paths(paths) => Target::Paths(
            paths
                .iter()
                .map(|p| RoutePath {
                    address: p.address,
                    // A name that the rules let through and the router does not know cannot be: it was just made.
                    interface: p.interface.as_deref().map(|n| router.interface_index(n).unwrap_or(u32::MAX)),
                    table: p.table,
                    weight: p.weight,
                    labels: p.labels,
                    lookup: p.lookup,
                })
                .collect(),
        ),
    }
}

/// All routes as one change a table, each with the numbers of its routes in the document.
fn routes(d: &Document, router: &Router) -> Vec<(RouteBatch, Vec<u32>)> {
    let all = &d.routes;
    let mut batches: BTreeMap<u32, (RouteBatch, Vec<u32>)> = BTreeMap::new();
    let batch = |table: u32| (RouteBatch::in_table(table), vec![]);
    if all.tables.iter().all(|t| *t == 0) {
        let v6 = all.list.iter().filter(|r| r.0.addr().is_ipv6()).count();
        let (batch, _) = batches.entry(0).or_insert_with(|| batch(0));
        batch.reserve(all.len() - v6, v6);
    }
    let ids: Vec<_> = all
        .targets
        .iter()
        .zip(&all.tables)
        .map(|(t, table)| batches.entry(*table).or_insert_with(|| batch(*table)).0.target(target(router, t)))
        .collect();
    for (n, &(prefix, target, _)) in all.list.iter().enumerate() {
        let table = all.tables.get(target as usize).copied().unwrap_or(0);
        if let (Some(&id), Some((batch, numbers))) = (ids.get(target as usize), batches.get_mut(&table)) {
            batch.set(prefix, id);
            numbers.push(u32::try_from(n).unwrap_or(u32::MAX));
        }
    }
    batches.into_values().filter(|(batch, _)| !batch.is_empty()).collect()
}

/// The operations for what stands on interfaces: routes, neighbours, streams.
fn upper(d: &Document, router: &Router) -> Plan {
    let mut p = Plan { ops: vec![], places: vec![], routes: HashMap::new(), labels: HashMap::new() };
    for (batch, numbers) in routes(d, router) {
        p.routes.insert(p.ops.len(), numbers);
        p.add(Place::default(), "routes", Op::Routes(batch));
    }
    for (table, place) in &d.mpls.tables {
        p.add(*place, "mpls", Op::from(MplsOp::CreateTable { table: *table }));
    }
    for t in &d.mpls.tunnels {
        let Target::Paths(paths) = target(router, &RouteTarget::Paths(t.paths.clone())) else { continue };
        p.add(t.place, "mpls", Op::from(MplsOp::SetTunnelPaths { name: t.name.clone(), paths }));
    }
    let mut batches: BTreeMap<u32, (LabelBatch, Vec<Place>)> = BTreeMap::new();
    for l in &d.mpls.labels {
        let (batch, places) =
            batches.entry(l.table).or_insert_with(|| (LabelBatch::in_table(l.table), vec![]));
        let target = target(router, &l.target);
        for bottom in &l.bottoms {
            batch.set(l.label, *bottom, &target);
            places.push(l.place);
        }
    }
    for (batch, places) in batches.into_values() {
        p.labels.insert(p.ops.len(), places);
        p.add(Place::default(), "mpls", Op::from(MplsOp::Routes(batch)));
    }
    for n in &d.neighbors {
        let op = Op::SetNeighbor { name: n.interface.clone(), address: n.address, mac: n.mac };
        p.add(n.place, "neighbors", op);
    }
    for s in d.l3.iter().filter(|s| !before_packets(&s.op)) {
        p.add(s.place, &s.path, s.op.clone());
    }
    for s in &d.streams {
        p.add(s.place, "packet-generator", StreamOp::Create(Box::new(s.def.clone())).into());
    }
    for i in d.interfaces.iter().filter(|i| reads_file(i)) {
        p.add(i.place, &i.path, Op::SetState { name: i.name.clone(), up: i.up });
    }
    p
}

fn commit(d: &Document, router: &mut Router, plan: Plan) -> Result<(), Diagnostics> {
    router.commit(plan.ops).map_err(|e| {
        let (mut place, path) = plan.places.get(e.index).cloned().unwrap_or_default();
        let route = plan.routes.get(&e.index).and_then(|numbers| numbers.get(e.route));
        if let Some((_, _, at)) = route.and_then(|n| d.routes.list.get(*n as usize)) {
            place = *at;
        }
        if let Some(at) = plan.labels.get(&e.index).and_then(|places| places.get(e.route)) {
            place = *at;
        }
        d.refuse(vec![Diagnostic::new(place, path, "apply", e.message)])
    })
}

/// How long a start waits for a router that is just ending to let go of its devices.
const PATIENCE: Duration = Duration::from_secs(1);

/// Every device of the document that cannot be opened, at once: opening ends at the first.
fn probe(d: &Document) -> Result<(), Diagnostics> {
    let mut errors = vec![];
    let until = Instant::now() + PATIENCE;
    for i in &d.interfaces {
        if let InterfaceKind::Device(device) = &i.kind
            && let Driver::AfPacket { host, namespace, .. } = &device.driver
            && let Err(e) = drivers::af_packet::probe(host, namespace.as_deref(), until)
        {
            errors.push(Diagnostic::new(device.place, i.path.clone(), "device", format!("{}: {e}", i.name)));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(d.refuse(errors)) }
}

/// Brings a new router to the state of the document. On an error the router is as empty as before.
pub fn start(d: &Document, router: &mut Router) -> Result<(), Diagnostics> {
    d.supported()?;
    probe(d)?;
    commit(d, router, interfaces(d))?;
    let plan = upper(d, router);
    if let Err(e) = commit(d, router, plan) {
        router.clear();
        return Err(e);
    }
    Ok(())
}
