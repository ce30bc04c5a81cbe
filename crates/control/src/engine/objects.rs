//! The objects of a document, and what they need.

use super::bulk::{Bulk, Goal};
use super::ends::{End, address_tokens, is_link_local, table_of, token};
use super::known::{Known, known};
use super::ties::tie;
use crate::yaml::{
    Diagnostic, Document, Driver, Interface, InterfaceKind, Place, Rate, RingVersion, SubInterface, popped,
};
use graph::memory::OutOfMemory;
use ipnet::IpNet;
use model::{Model, Object};
use net::copp::SetLimit;
use net::dpdk::DpdkOp;
use net::generator::StreamOp;
use net::l2::bridge::{BridgeOp, StaticMac, TagChange};
use net::load::{LoadOp, SetWorkers};
use net::mpls::{MplsOp, TunnelConfig};
use net::plane::MAC_LIMIT;
use net::proxy::NdProxy;
use net::router::{
    BoxedPartOp, Encap, Feature, HostConfig, Named, Op, PcapConfig, Ring, RouteTable, TapConfig,
};
use net::steering::Handoff;
use packet::MacAddr;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Names an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// The limit of a class of packets for the router itself, by its name.
    Punt(&'static str),
    /// The most addresses that are learned.
    LearnLimit,
    /// A setting of the router as a whole, by what it is about.
    Global(String),
    /// A routing table.
    Table(RouteTable),
    /// What tells its flows apart.
    FlowHash(RouteTable),
    /// What becomes of prefixes of a table that lead nowhere.
    WhenDown(RouteTable),
    /// An interface or sub-interface.
    Interface(String),
    /// On which layer it is.
    Layer(String),
    /// Its MAC address.
    Mac(String),
    /// The worker of one of its receive queues.
    Placement(String, usize),
    /// Its MTU.
    Mtu(String),
    /// Its description.
    Description(String),
    /// It takes frames for any station.
    Promiscuous(String),
    /// The routing table that it is in, IPv6 or not.
    Binding(String, bool),
    /// An address of it.
    Address(String, IpNet),
    /// The order of its addresses.
    AddressOrder(String),
    /// Whether it is up.
    State(String),
    /// A setting that a feature declares, by the words that undo it.
    Setting(String, String),
    /// What a part of the router is told of it, by what that is about.
    Told(String, String),
    /// Whose addresses it uses.
    Unnumbered(String),
    /// Where its frames go.
    Xconnect(String),
    /// The bridge domain that it is in.
    Member(String),
    /// What becomes of the tags of its frames.
    Tags(String),
    /// What it lets its bridge domain do.
    PortFeatures(String),
    /// The most addresses that are learned on it.
    PortLimit(String),
    /// A bridge domain.
    Bridge(u32),
    /// A static address of one.
    StaticMac(u32, MacAddr),
    /// An address for which one answers.
    Arp(u32, IpAddr),
    /// The order of all interfaces.
    InterfaceOrder,
    /// A range of addresses that are answered for.
    ProxyArp(Ipv4Addr, Ipv4Addr),
    /// An address of another link that is answered for.
    NdProxy(Ipv6Addr),
    /// A label table.
    LabelTable(u32),
    /// Where an MPLS tunnel leads.
    TunnelPaths(String),
    /// A static neighbour.
    Neighbor(String, IpAddr),
    /// Routes that change alike, by the number of their run.
    Routes(usize),
    /// The same of labels.
    Labels(usize),
}

impl Id {
    /// The interface that it is of.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Id::Interface(n)
            | Id::Layer(n)
            | Id::Mac(n)
            | Id::Placement(n, _)
            | Id::Mtu(n)
            | Id::Description(n)
            | Id::Promiscuous(n)
            | Id::Binding(n, _)
            | Id::Address(n, _)
            | Id::AddressOrder(n)
            | Id::State(n)
            | Id::Setting(n, _)
            | Id::Told(n, _)
            | Id::Unnumbered(n)
            | Id::Xconnect(n)
            | Id::Member(n)
            | Id::Tags(n)
            | Id::PortFeatures(n)
            | Id::PortLimit(n)
            | Id::TunnelPaths(n)
            | Id::Neighbor(n, _) => Some(n),
            _ => None,
        }
    }
}

/// What an object is: for most the operation that sets it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The operation that makes it.
    Op(Op),
    /// On layer 2.
    Layer2(bool),
    /// The paths of an MPLS tunnel.
    Paths(Goal),
    /// The runs of the old side, or of the new one.
    Run(bool),
}

/// A document as objects, or what runs.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// All that is no bulk.
    pub model: Model<Id, Value>,
    /// Where each object stands in the document, by its place among the objects.
    places: Vec<(Place, Arc<str>)>,
    pub(super) bulk: Bulk,
    /// Where routes and labels come among the objects.
    pub(super) bulk_place: u32,
    /// What an interface has by which packets of routes are carried.
    pub(super) carried: HashMap<String, Vec<Id>>,
    /// Sub-interfaces with their parents.
    pub(super) parents: HashMap<String, String>,
    /// Interfaces with those that carry their frames.
    pub(super) carriers: HashMap<String, Vec<String>>,
}

/// Where an object stands, what it needs, and what it has to itself.
#[derive(Default)]
struct Notes {
    needs: Vec<Id>,
    follows: Vec<Id>,
    takes: Vec<u64>,
    bars: Vec<u64>,
}

impl Notes {
    fn needs(needs: impl IntoIterator<Item = Id>) -> Self {
        Notes { needs: needs.into_iter().collect(), ..Notes::default() }
    }
}

struct Builder<'d> {
    side: Side,
    /// Interfaces on layer 2.
    layer2: HashSet<&'d str>,
    at: (Place, Arc<str>),
}

/// The object that an interface is, without an operation where it cannot be made.
fn create(i: &Interface) -> Option<(Place, Op)> {
    let name = i.name.clone();
    Some(match &i.kind {
        InterfaceKind::Loopback => {
            let instance = name.strip_prefix("loop").and_then(|n| n.parse().ok());
            (i.place, Op::CreateLoopback { instance, mac: None })
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
                mark: None,
                rx_queues: usize::from(t.rx_queues),
                rx_ring: Some(t.rx_ring_size),
                offload: t.offload,
            };
            (t.place, Op::CreateTap { name, config })
        }
        InterfaceKind::Device(d) => match &d.driver {
            Driver::Linux { by, mode, kept, host, namespace, rx_slots, ring, offload } => {
                let config = HostConfig {
                    driver: *by,
                    mode: *mode,
                    kept: kept.clone(),
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
            Driver::Dpdk(config) => (d.place, DpdkOp { name, config: config.clone() }.into()),
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

fn reads_file(i: &Interface) -> bool {
    matches!(&i.kind, InterfaceKind::Device(d) if matches!(&d.driver, Driver::Pcap { read: Some(_), .. }))
}

/// What packets must meet from the first one on.
fn is_early(op: &Op) -> bool {
    match op {
        Op::SetTable { .. } => true,
        Op::SetFeature { feature: Feature::Part(op), .. } => op.is_early(),
        Op::SetFeature { feature: Feature::Setting(choice), .. } => choice.declared().early,
        _ => false,
    }
}

/// What interfaces and sub-interfaces have in common.
struct Port<'d> {
    name: &'d str,
    path: &'d str,
    place: Place,
    addresses: &'d [crate::yaml::Address],
    l2xc: &'d Option<crate::yaml::Reference>,
    unnumbered: &'d Option<crate::yaml::Reference>,
    promiscuous: bool,
    mpls: bool,
    up: bool,
}

/// What an interface has to be without, in the words of the tokens that its objects take: one of packets has no frames, and one of the
/// packets of routes no addresses either.
fn without(i: &Interface) -> &'static [&'static str] {
    const FRAMES: &[&str] = &["frames", "has subs", "bridged", "at an end"];
    const ALL: &[&str] =
        &["frames", "has subs", "bridged", "at an end", "numbered", "unnumbered", "lends", "has a pair"];
    match &i.kind {
        InterfaceKind::MplsTunnel(t) if !t.l2_only => ALL,
        kind if kind.is_point_to_point() => FRAMES,
        _ => &[],
    }
}

/// Interfaces on which frames come and go on account of an operation that is told one.
fn frames_of(names: &[Named]) -> impl Iterator<Item = u64> {
    names.iter().filter_map(|n| match n {
        Named::Frames(name) | Named::Carried(name) => Some(token("frames", name)),
        _ => None,
    })
}

impl<'d> From<&'d Interface> for Port<'d> {
    fn from(i: &'d Interface) -> Self {
        Port {
            name: &i.name,
            path: &i.path,
            place: i.place,
            addresses: &i.addresses,
            l2xc: &i.l2xc,
            unnumbered: &i.unnumbered,
            promiscuous: i.promiscuous,
            mpls: i.mpls,
            up: i.up,
        }
    }
}

impl<'d> From<&'d SubInterface> for Port<'d> {
    fn from(s: &'d SubInterface) -> Self {
        Port {
            name: &s.name,
            path: &s.path,
            place: s.place,
            addresses: &s.addresses,
            l2xc: &s.l2xc,
            unnumbered: &s.unnumbered,
            promiscuous: s.promiscuous,
            mpls: s.mpls,
            up: s.up,
        }
    }
}

fn ports(i: &Interface) -> impl Iterator<Item = Port<'_>> {
    std::iter::once(i.into()).chain(i.sub_interfaces.iter().map(Port::from))
}

impl<'d> Builder<'d> {
    fn new(d: &'d Document) -> Self {
        let mut b = Builder { side: Side::default(), layer2: HashSet::new(), at: Default::default() };
        b.layer2.extend(d.bridges.iter().flat_map(|b| &b.members).map(|m| m.name.as_str()));
        for p in d.interfaces.iter().flat_map(ports) {
            if let Some(peer) = p.l2xc {
                b.layer2.extend([p.name, peer.name.as_str()]);
            }
        }
        b
    }

    fn at(&mut self, place: Place, path: &str) -> &mut Self {
        self.at = (place, path.into());
        self
    }

    fn set(&mut self, id: Id, value: Value, notes: Notes) {
        let Notes { needs, follows, takes, bars } = notes;
        let n = self.side.model.set(id, Object { needs, follows, takes, bars, ..Object::new(value) });
        self.side.places.resize_with(n as usize, Default::default);
        self.side.places.push(self.at.clone());
    }

    fn op(&mut self, id: Id, op: Op, notes: Notes) {
        self.set(id, Value::Op(op), notes);
    }

    fn interface(&mut self, i: &'d Interface) {
        let Some((place, op)) = create(i) else { return };
        let name = || i.name.clone();
        let mut notes = Notes::default();
        if let InterfaceKind::Virtual(v) = &i.kind {
            notes.needs.push(Id::Table(v.table));
        }
        let exclusive = match &op {
            Op::Part(p) => p.exclusive(),
            Op::CreateTap { config, .. } => Some(format!("{:?} {}", config.netns, config.host_name)),
            _ => None,
        };
        if let Some(what) = exclusive {
            let t = token("made", what);
            (notes.takes, notes.bars) = (vec![t], vec![t]);
        }
        // A namespace has one default route of a family.
        if let Op::CreateTap { config, .. } = &op {
            let gateways = [config.addresses.gw4.is_some(), config.addresses.gw6.is_some()];
            for (family, _) in gateways.iter().enumerate().filter(|(_, has)| **has) {
                let t = token("default route", (&config.netns, family));
                notes.takes.push(t);
                notes.bars.push(t);
            }
        }
        notes.bars.extend(without(i).iter().map(|what| token(what, &i.name)));
        self.at(place, &i.path).op(Id::Interface(name()), op, notes);
        let own = || Notes::needs([Id::Interface(name())]);
        self.at(i.place, &i.path);
        self.layer(&i.name);
        if let Some(mac) = i.mac {
            let notes = Notes { takes: vec![token("has a mac", &i.name)], ..own() };
            self.op(Id::Mac(name()), Op::SetMac { name: name(), mac: Some(mac) }, notes);
        }
        for q in &i.placement {
            let (queue, worker) = (usize::from(q.queue), Some(usize::from(q.worker)));
            let op = Op::SetPlacement { name: name(), queue, worker };
            self.at(q.place, &i.path).op(Id::Placement(name(), queue), op, own());
        }
        if let Some((place, config)) = &i.handoff {
            let feature = Handoff(Some(config.clone())).into();
            self.at(*place, &i.path).any(&Op::SetFeature { name: name(), feature });
        }
        self.at(i.mtu_place, &i.path).op(Id::Mtu(name()), Op::SetMtu { name: name(), mtu: i.mtu }, own());
        self.at(i.place, &i.path).description(&i.name, &i.description);
        for s in &i.sub_interfaces {
            let Some(encap) = s.encapsulation else { continue };
            let frames = match encap {
                Encap::Tags { dot1ad, outer, inner, .. } => format!("{dot1ad} {outer:?} {inner:?}"),
                other => format!("{other:?}"),
            };
            let t = token("frames", (&i.name, frames));
            // It is made with the MTU of its parent.
            let needs = [Id::Interface(name()), Id::Mtu(name())];
            // An interface with sub-interfaces is not cross-connected itself.
            let takes = vec![t, token("has subs", &i.name)];
            let bars = vec![t, token("is crossed", &i.name)];
            let notes = Notes { takes, bars, ..Notes::needs(needs) };
            let op = Op::CreateSub { parent: name(), id: s.id, encap };
            self.at(s.place, &s.path).op(Id::Interface(s.name.clone()), op, notes);
            self.side.parents.insert(s.name.clone(), name());
            self.layer(&s.name);
            let own = Notes::needs([Id::Interface(s.name.clone())]);
            let op = Op::SetMtu { name: s.name.clone(), mtu: s.mtu };
            self.at(s.mtu_place, &s.path).op(Id::Mtu(s.name.clone()), op, own);
            self.at(s.place, &s.path).description(&s.name, &s.description);
        }
    }

    fn layer(&mut self, name: &str) {
        let value = Value::Layer2(self.layer2.contains(name));
        self.set(Id::Layer(name.into()), value, Notes::needs([Id::Interface(name.into())]));
    }

    fn description(&mut self, name: &str, text: &Option<String>) {
        if text.is_some() {
            let op = Op::SetDescription { name: name.into(), text: text.clone() };
            self.op(Id::Description(name.into()), op, Notes::needs([Id::Interface(name.into())]));
        }
    }

    /// The tables that interfaces are in, where that is not said otherwise.
    fn bindings(&mut self, d: &'d Document) {
        for p in d.interfaces.iter().flat_map(ports) {
            self.at(p.place, p.path);
            for v6 in [false, true] {
                let op = Op::SetTable { name: p.name.into(), table: RouteTable { v6, id: 0 } };
                self.any(&op);
            }
        }
    }

    /// What a section asks for by an operation.
    fn any(&mut self, op: &Op) {
        let (id, notes) = match op {
            Op::CreateTable { table, .. } => (Id::Table(*table), Notes::default()),
            Op::SetFlowHash { table, .. } => (Id::FlowHash(*table), Notes::needs([Id::Table(*table)])),
            Op::SetWhenDown { table, .. } => (Id::WhenDown(*table), Notes::needs([Id::Table(*table)])),
            Op::SetTable { name, table } => {
                let needs = [Id::Interface(name.clone()), Id::Layer(name.clone()), Id::Table(*table)];
                (Id::Binding(name.clone(), table.v6), Notes::needs(needs))
            }
            Op::SetFeature { name, feature } => return self.feature(name, feature, op),
            Op::Part(p) => match known(op) {
                Known::Bridge(op) => return self.bridge(op),
                Known::ProxyArp(p) => (Id::ProxyArp(p.first, p.last), Notes::default()),
                Known::NdProxy(p) => nd_proxy(p),
                _ => return self.part(p, op),
            },
            _ => return,
        };
        self.op(id, op.clone(), notes);
    }

    fn feature(&mut self, name: &str, feature: &Feature, op: &Op) {
        let own = || name.to_owned();
        let (id, notes) = match feature {
            Feature::Setting(c) => {
                let key = format!("{} {:p}", c.declared().undo, c.declared());
                let id = Id::Setting(own(), key);
                if c.is_default() {
                    self.side.model.remove(&id);
                    return;
                }
                (id, Notes::needs(routed(name)))
            }
            Feature::Part(p) => {
                let id = Id::Told(own(), p.subject());
                if p.off() == *p {
                    self.side.model.remove(&id);
                    return;
                }
                let mut needs: Vec<Id> = vec![Id::Interface(own())];
                if !p.names_others() {
                    needs = routed(name);
                }
                needs.extend(p.names().into_iter().map(named));
                let taken: Vec<u64> = p.exclusive().map(|what| token("told", what)).into_iter().collect();
                let (mut takes, mut bars) = (taken.clone(), taken);
                let frames = frames_of(&p.names()).collect::<Vec<_>>();
                if !frames.is_empty() {
                    takes.push(token("frames", name));
                    takes.extend(frames);
                }
                if p.is_pair() {
                    takes.push(token("has a pair", name));
                }
                if let Some(Named::Carried(of)) = p.names().first() {
                    // Its frames are the other's from then on: it has none of its own, the other's MAC address, and is as large.
                    needs.extend([Id::Mtu(of.clone()), Id::Mtu(own())]);
                    self.side.carriers.entry(of.clone()).or_default().push(own());
                    takes.push(token("carries", name));
                    bars.extend(
                        ["numbered", "unnumbered", "lends", "has subs", "is crossed", "bridged", "has a mac"]
                            .map(|w| token(w, name)),
                    );
                }
                (id, Notes { takes, bars, ..Notes::needs(needs) })
            }
            Feature::Unnumbered(Some(lender)) => {
                let mut needs = routed(name);
                needs.extend(routed(lender));
                for v6 in [false, true] {
                    needs.extend([Id::Binding(own(), v6), Id::Binding(lender.clone(), v6)]);
                }
                let takes = vec![token("unnumbered", name), token("lends", lender)];
                let bars = vec![token("numbered", name), token("lends", name), token("unnumbered", lender)];
                (Id::Unnumbered(own()), Notes { takes, bars, ..Notes::needs(needs) })
            }
            Feature::Unnumbered(None) => return,
        };
        self.op(id, op.clone(), notes);
    }

    fn bridge(&mut self, op: &BridgeOp) {
        let on = |name: &str| Notes::needs([Id::Interface(name.into())]);
        let (id, notes) = match op {
            BridgeOp::Create { id, .. } => (Id::Bridge(*id), Notes::default()),
            BridgeOp::Port { name, member: Some(m) } => {
                let needs = [Id::Interface(name.clone()), Id::Layer(name.clone()), Id::Bridge(m.bridge)];
                let t = m.bvi.then(|| token("bvi", m.bridge));
                let with = |more: u64| t.into_iter().chain([more]).collect();
                let notes = Notes {
                    takes: with(token("bridged", name)),
                    bars: with(token("at an end", name)),
                    ..Notes::needs(needs)
                };
                (Id::Member(name.clone()), notes)
            }
            BridgeOp::Tags { name, change } => {
                let id = Id::Tags(name.clone());
                // What is so by itself is no object: a dump does not say it.
                if matches!(change, None | Some(TagChange::Disabled)) && self.side.model.get(&id).is_none() {
                    return;
                }
                (id, on(name))
            }
            BridgeOp::PortFeatures { name, .. } => (Id::PortFeatures(name.clone()), on(name)),
            BridgeOp::PortLimit { name, .. } => (Id::PortLimit(name.clone()), on(name)),
            BridgeOp::TableLimit { limit } if *limit == MAC_LIMIT => return,
            BridgeOp::TableLimit { .. } => (Id::LearnLimit, Notes::default()),
            BridgeOp::Mac { id, mac, to: Some(to) } => {
                let mut needs = vec![Id::Bridge(*id)];
                if let StaticMac::Port(name) = to {
                    needs.push(Id::Member(name.clone()));
                }
                (Id::StaticMac(*id, *mac), Notes::needs(needs))
            }
            BridgeOp::Arp { id, address, .. } => (Id::Arp(*id, *address), Notes::needs([Id::Bridge(*id)])),
            // What is set for a bridge domain that the document makes goes into what makes it.
            BridgeOp::Set { id, settings } => {
                let made = self.side.model.get_mut(&Id::Bridge(*id));
                if let Some(made) = made {
                    made.value = Value::Op(BridgeOp::Create { id: *id, settings: settings.clone() }.into());
                }
                return;
            }
            BridgeOp::Port { .. } | BridgeOp::Mac { .. } | BridgeOp::Delete { .. } => return,
        };
        self.op(id, op.clone().into(), notes);
    }

    fn part(&mut self, part: &BoxedPartOp, op: &Op) {
        let id = Id::Global(part.subject());
        if part.off().as_ref() == Some(op) {
            self.side.model.remove(&id);
            return;
        }
        let takes = frames_of(&part.names()).collect();
        self.op(id, op.clone(), Notes { takes, ..Notes::needs(part.names().into_iter().map(named)) });
    }

    fn port(&mut self, p: &Port<'d>, reads: bool) {
        let name = || p.name.to_owned();
        self.at(p.place, p.path);
        if p.mpls {
            let feature = net::mpls::TAKEN.to(true).into();
            self.any(&Op::SetFeature { name: name(), feature });
        }
        if p.promiscuous {
            let op = Op::SetPromiscuous { name: name(), on: true };
            let takes = vec![token("frames", p.name)];
            self.op(Id::Promiscuous(name()), op, Notes { takes, ..Notes::needs([Id::Interface(name())]) });
        }
        for a in p.addresses {
            let v6 = a.net.addr().is_ipv6();
            let mut needs = routed(p.name);
            needs.push(Id::Binding(name(), v6));
            let table = table_of(&self.side.model, p.name, v6);
            let (takes, bars) = address_tokens(p.name, a.net, table, true);
            let notes = Notes { takes, bars, ..Notes::needs(needs) };
            let op = Op::AddAddress { name: name(), net: a.net };
            self.at(a.place, p.path).op(Id::Address(name(), a.net), op, notes);
        }
        if p.addresses.len() > 1 {
            let mut addresses: Vec<IpNet> = p.addresses.iter().map(|a| a.net).collect();
            // An interface has its link-local address in front of the others, wherever a document says it.
            addresses.sort_by_key(|a| !is_link_local(a.addr()));
            let needs = addresses.iter().map(|a| Id::Address(name(), *a)).collect::<Vec<_>>();
            let op = Op::OrderAddresses { name: name(), addresses };
            self.op(Id::AddressOrder(name()), op, Notes::needs(needs));
        }
        if let Some(peer) = p.l2xc {
            let ends = [p.name, &peer.name];
            let needs = ends.iter().flat_map(|e| [Id::Interface((*e).into()), Id::Layer((*e).into())]);
            let t = token("cross-connected", &peer.name);
            let both = |what| ends.map(|e| token(what, e));
            let takes = [t, token("is crossed", p.name)].into_iter().chain(both("at an end")).collect();
            let bars = [t, token("has subs", p.name)].into_iter().chain(both("bridged")).collect();
            let notes = Notes { takes, bars, ..Notes::needs(needs) };
            let op = Op::SetXconnect { name: name(), peer: Some(peer.name.clone()) };
            self.at(peer.place, p.path).op(Id::Xconnect(name()), op, notes);
        }
        if !reads {
            self.state(p);
        }
    }

    fn state(&mut self, p: &Port<'d>) {
        let op = Op::SetState { name: p.name.into(), up: p.up };
        let needs = Notes::needs([Id::Interface(p.name.into())]);
        self.at(p.place, p.path).op(Id::State(p.name.into()), op, needs);
    }

    fn load(&mut self, d: &'d Document) {
        let (s, place) = (&d.settings.load, d.settings.place);
        let cpus = d.settings.cpus.iter().map(|c| usize::from(*c)).collect();
        let workers = SetWorkers { count: d.settings.workers.into(), cpus };
        self.at(place, "quiver.workers").any(&workers.into());
        let own = s.own.iter().map(|(worker, p)| LoadOp::Own { worker: *worker, polling: Some(*p) });
        for op in own.chain([LoadOp::Polling(s.polling)]) {
            self.at(place, "quiver.poll").any(&op.into());
        }
        self.at(place, "quiver.workers.balance").any(&LoadOp::Balance(s.balance).into());
    }

    fn all(&mut self, d: &'d Document) {
        for s in d.tables.settings.iter() {
            self.at(s.place, &s.path).any(&s.op);
        }
        for l in &d.punt {
            if l.limit != Some(l.class.default_limit()) {
                let op = SetLimit { class: l.class, limit: l.limit }.into();
                self.at(l.place, "punt").op(Id::Punt(l.class.name()), op, Notes::default());
            }
        }
        self.load(d);
        d.interfaces.iter().for_each(|i| self.interface(i));
        for b in &d.bridges {
            b.operations().into_iter().for_each(|s| self.at(s.place, &s.path).any(&s.op));
        }
        let popped = popped(&d.interfaces, &d.bridges);
        for s in popped.iter().chain(&d.l2).chain(&d.virtuals).chain(&d.span).chain(&d.linux_cp) {
            self.at(s.place, &s.path).any(&s.op);
        }
        // Addresses come into the table of their interface.
        self.bindings(d);
        for s in d.l3.iter().filter(|s| is_early(&s.op)) {
            self.at(s.place, &s.path).any(&s.op);
        }
        for i in &d.interfaces {
            for (n, p) in ports(i).enumerate() {
                // A capture file begins when all stands that its packets need.
                self.port(&p, n == 0 && reads_file(i));
            }
        }
        for p in d.interfaces.iter().flat_map(ports) {
            if let Some(lender) = p.unnumbered {
                let feature = Feature::Unnumbered(Some(lender.name.clone()));
                self.at(lender.place, p.path).any(&Op::SetFeature { name: p.name.into(), feature });
            }
        }
        self.orders(d);
        self.side.bulk_place = self.side.model.reserve();
        for (table, place) in &d.mpls.tables {
            let op = Op::from(MplsOp::CreateTable { table: *table });
            self.at(*place, "mpls").op(Id::LabelTable(*table), op, Notes::default());
        }
        for t in &d.mpls.tunnels {
            let goal = Goal::of_paths(&t.paths);
            let mut notes = Notes::needs([Id::Interface(t.name.clone())]);
            notes.needs.extend(goal.needs(false));
            notes.takes.extend(goal.hops(0).map(|h| h.token("hop")));
            notes.bars.extend(goal.hops(0).map(|h| h.token("own")));
            self.at(t.place, "mpls").set(Id::TunnelPaths(t.name.clone()), Value::Paths(goal), notes);
        }
        for n in &d.neighbors {
            let (name, address) = (n.interface.clone(), n.address);
            let mut needs = routed(&name);
            needs.push(Id::Binding(name.clone(), address.is_ipv6()));
            let on = End::On(&name, address);
            let takes = vec![on.token("hop"), token("frames", &name)];
            let notes = Notes { takes, bars: vec![on.token("own")], ..Notes::needs(needs) };
            let op = Op::SetNeighbor { name: name.clone(), address, mac: n.mac };
            self.at(n.place, "neighbors").op(Id::Neighbor(name, address), op, notes);
        }
        for s in d.l3.iter().filter(|s| !is_early(&s.op)) {
            self.at(s.place, &s.path).any(&s.op);
        }
        for s in &d.streams {
            let op = StreamOp::Create(Box::new(s.def.clone())).into();
            self.at(s.place, "packet-generator").any(&op);
        }
        for i in d.interfaces.iter().filter(|i| reads_file(i)) {
            self.state(&i.into());
        }
    }

    fn orders(&mut self, d: &'d Document) {
        let names: Vec<String> = d.interfaces.iter().map(|i| i.name.clone()).collect();
        let needs = names.iter().cloned().map(Id::Interface).collect::<Vec<_>>();
        self.at(Place::default(), "interfaces");
        self.op(Id::InterfaceOrder, Op::OrderInterfaces(names), Notes::needs(needs));
    }
}

fn nd_proxy(p: &NdProxy) -> (Id, Notes) {
    let NdProxy { name, address, .. } = p;
    let mut needs = routed(name);
    needs.push(Id::Binding(name.clone(), true));
    let end = End::Anywhere(IpAddr::V6(*address));
    (
        Id::NdProxy(*address),
        Notes { takes: vec![end.token("hop")], bars: vec![end.token("own")], ..Notes::needs(needs) },
    )
}

/// What something of layer 3 of an interface needs.
fn routed(name: &str) -> Vec<Id> {
    vec![Id::Interface(name.into()), Id::Layer(name.into())]
}

fn named(n: Named) -> Id {
    match n {
        Named::Interface(name) => Id::Interface(name),
        Named::Table(table) => Id::Table(table),
        Named::Bridge(id) => Id::Bridge(id),
        Named::Carried(name) | Named::Frames(name) => Id::Interface(name),
    }
}

impl Side {
    /// Whether there is memory for the objects of a document beside it.
    ///
    /// # Errors
    /// When there is none.
    pub fn room_for(d: &Document) -> Result<(), OutOfMemory> {
        Bulk::room_for(d)
    }

    /// The objects of a document.
    pub fn of(d: &Document) -> Side {
        let mut b = Builder::new(d);
        b.all(d);
        let mut side = std::mem::take(&mut b.side);
        side.bulk = Bulk::of(d);
        tie(&mut side.model);
        let carried = d.interfaces.iter().flat_map(ports).map(|p| {
            let name = || p.name.to_owned();
            let own = p.addresses.iter().map(|a| Id::Address(name(), a.net));
            (name(), own.chain([Id::State(name()), Id::Unnumbered(name())]).collect())
        });
        side.carried = carried.collect();
        side
    }

    /// Where an object stands.
    pub(super) fn place_of(&self, id: &Id) -> Option<&(Place, Arc<str>)> {
        self.model.get(id).and_then(|o| self.places.get(o.place as usize))
    }

    /// What is wrong with an object, at its place in the document.
    pub(crate) fn refusal(&self, id: &Id, number: Option<u32>, message: &str) -> Diagnostic {
        let (mut place, path) = self.place_of(id).cloned().unwrap_or_default();
        match id {
            Id::Routes(_) => place = number.and_then(|n| self.bulk.route_place(n)).unwrap_or_default(),
            Id::Labels(_) => place = number.and_then(|n| self.bulk.label_place(n)).unwrap_or_default(),
            _ => {}
        }
        let path = match id {
            Id::Routes(_) => "routes".into(),
            Id::Labels(_) => "mpls".into(),
            _ => path.to_string(),
        };
        Diagnostic::new(place, path, "apply", message)
    }

    /// Forgets MAC addresses that were only written down: those that the operator chose are in `chosen`.
    pub(super) fn keep_macs(&mut self, chosen: &HashSet<String>) {
        self.retain_macs(|name| chosen.contains(name));
    }

    /// Forgets those of these interfaces.
    pub(crate) fn forget_macs(&mut self, names: &[String]) {
        self.retain_macs(|name| !names.iter().any(|n| n == name));
    }

    pub(super) fn retain_macs(&mut self, keep: impl Fn(&str) -> bool) {
        let ids: Vec<Id> =
            self.model.iter().map(|(id, _)| id).filter(|id| matches!(id, Id::Mac(_))).cloned().collect();
        for id in ids {
            if id.interface().is_some_and(|n| !keep(n)) {
                self.model.remove(&id);
            }
        }
    }
}
