//! Operations: every change of the router's state, checked against what is there, and undone when a later one of the
//! same transaction fails.

use super::aside::Asks;
use super::batch::RouteBatch;
use super::bulk::RouteUndo;
use super::devices::{self, DeviceControl, HostConfig, PcapConfig, TapConfig};
use super::tell::Todo;
use super::{
    BoxedPartOp, Elsewhere, Encap, Feature, IfState, Kind, RoutePath, RouteTable, Router, TapAddresses,
    Target, namespace_for_root,
};
use crate::neighbor::State;
use ipnet::IpNet;
use packet::eth::MacAddr;
use packet::flow::Fields;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// What the MTU of an interface may be, bytes.
pub const MTU: RangeInclusive<u16> = 128..=9216;

/// The MTU of an interface whose device has so many bytes.
pub fn mtu_over(device: u32) -> u16 {
    u16::try_from(device).unwrap_or(u16::MAX).clamp(*MTU.start(), *MTU.end())
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Takes over a Linux device.
    CreateHost {
        /// Name in Quiver.
        name: String,
        /// The device.
        config: HostConfig,
    },
    /// Capture files as an interface.
    CreatePcap {
        /// Name in Quiver.
        name: String,
        /// The files.
        config: PcapConfig,
    },
    /// Makes a TAP.
    CreateTap {
        /// Name in Quiver; `tapN`.
        name: String,
        /// Its host side.
        config: TapConfig,
    },
    /// Makes a loopback `loopN`.
    CreateLoopback {
        /// N; the first free one when absent.
        instance: Option<u32>,
        /// Its MAC address; one of its own when absent.
        mac: Option<MacAddr>,
    },
    /// Makes a sub-interface `PARENT.ID`.
    CreateSub {
        /// The interface.
        parent: String,
        /// Its number, from 1.
        id: u32,
        /// Which frames it takes.
        encap: Encap,
    },
    /// What only one part of the router understands.
    Part(BoxedPartOp),
    /// Takes an interface out, with its sub-interfaces.
    Delete {
        /// Its name.
        name: String,
    },
    /// Sets the administrative state.
    SetState {
        /// Interface.
        name: String,
        /// Up or down.
        up: bool,
    },
    /// Sets the largest IP packet.
    SetMtu {
        /// Interface.
        name: String,
        /// Bytes, within [`MTU`].
        mtu: u16,
    },
    /// Sets the MAC address.
    SetMac {
        /// Interface.
        name: String,
        /// A unicast address; `None`: the one that it had when it was made.
        mac: Option<MacAddr>,
    },
    /// Sets promiscuous mode.
    SetPromiscuous {
        /// Interface.
        name: String,
        /// On or off.
        on: bool,
    },
    /// Chooses the worker that polls a receive queue.
    SetPlacement {
        /// Interface.
        name: String,
        /// Number of the receive queue, from 0.
        queue: usize,
        /// Number of the worker, from 0; `None`: the router chooses.
        worker: Option<usize>,
    },
    /// Sets how many receive queues its device has, while packets flow.
    SetRxQueues {
        /// Interface.
        name: String,
        /// Their number.
        queues: usize,
    },
    /// Sets the description.
    SetDescription {
        /// Interface.
        name: String,
        /// Text.
        text: Option<String>,
    },
    /// Adds an address.
    AddAddress {
        /// Interface.
        name: String,
        /// Address and prefix length.
        net: IpNet,
    },
    /// Removes an address.
    DelAddress {
        /// Interface.
        name: String,
        /// Address and prefix length.
        net: IpNet,
    },
    /// Says what of an interface is not the operator's.
    SetElsewhere {
        /// Interface.
        name: String,
        /// All of it.
        what: Elsewhere,
    },
    /// Sends all frames of an interface to another, or makes it an L3 interface again.
    SetXconnect {
        /// Interface.
        name: String,
        /// The other one.
        peer: Option<String>,
    },
    /// Sets a feature of an interface.
    SetFeature {
        /// Interface.
        name: String,
        /// The feature, with all its settings.
        feature: Feature,
    },
    /// Makes a routing table.
    CreateTable {
        /// Which; not number 0, which is there always.
        table: RouteTable,
        /// The operator's name for it.
        name: Option<String>,
    },
    /// Sets the operator's name for a routing table.
    NameTable {
        /// Which; not number 0.
        table: RouteTable,
        /// The name.
        name: Option<String>,
    },
    /// Puts interfaces, sub-interfaces aside, into this order among themselves.
    OrderInterfaces(Vec<String>),
    /// Puts addresses of an interface into this order: the first one of a prefix is what the router says it is.
    OrderAddresses {
        /// Interface.
        name: String,
        /// Its addresses.
        addresses: Vec<IpNet>,
    },
    /// Takes a routing table out, with its static routes.
    DeleteTable {
        /// Which.
        table: RouteTable,
    },
    /// Puts an interface into a routing table.
    SetTable {
        /// Interface; it has no address of the family.
        name: String,
        /// Which.
        table: RouteTable,
    },
    /// Puts an interface with its addresses into a routing table, as its VRF in Linux has it.
    MoveTable {
        /// Interface.
        name: String,
        /// Which.
        table: RouteTable,
    },
    /// Chooses what tells the flows of a table apart, where routes have several paths.
    SetFlowHash {
        /// Which table.
        table: RouteTable,
        /// Fields of packets.
        fields: Fields,
    },
    /// Chooses what becomes of prefixes of a table none of whose routes leads anywhere.
    SetWhenDown {
        /// Which table.
        table: RouteTable,
        /// They are withdrawn, so that shorter prefixes serve; else packets to them are answered with "unreachable".
        withdraw: bool,
    },
    /// Sets the static route of a prefix, in place of an earlier one.
    SetRoute {
        /// Number of its table.
        table: u32,
        /// Its prefix.
        prefix: IpNet,
        /// Where to.
        target: Target,
    },
    /// Adds a path to the static route of a prefix, or makes the route.
    AddPath {
        /// Number of its table.
        table: u32,
        /// Its prefix.
        prefix: IpNet,
        /// The path.
        path: RoutePath,
    },
    /// Removes a path from the static route of a prefix; the route goes with its last path.
    DelPath {
        /// Number of its table.
        table: u32,
        /// Its prefix.
        prefix: IpNet,
        /// The path; its weight and MTU are not looked at.
        path: RoutePath,
    },
    /// Removes the static route of a prefix.
    DelRoute {
        /// Number of its table.
        table: u32,
        /// Its prefix.
        prefix: IpNet,
    },
    /// Changes many static routes.
    Routes(RouteBatch),
    /// Sets a static neighbour.
    SetNeighbor {
        /// Interface.
        name: String,
        /// Its address.
        address: IpAddr,
        /// Its MAC address.
        mac: MacAddr,
    },
    /// Forgets a neighbour.
    DelNeighbor {
        /// Interface.
        name: String,
        /// Its address.
        address: IpAddr,
    },
}

/// Why an operation was refused; nothing of its transaction was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OpError {
    /// Object, rule, value, and what would be right.
    pub message: String,
    /// Position of the operation in its transaction.
    pub index: usize,
    /// Position of the change in its batch, where the operation is [`Op::Routes`].
    pub route: usize,
    /// Where a batch was refused because memory ran out: how many of its changes fitted.
    pub fits: Option<usize>,
}

impl OpError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        OpError { message: message.into(), index: 0, route: 0, fits: None }
    }
}

pub(super) type Undo = Vec<Op>;

/// What there is to do for an operation.
enum Work {
    Op(Op),
    Routes(RouteBatch),
}

/// What undoes a change that may be large, or that holds something for as long as it may be undone.
pub trait Held {
    /// Undoes it.
    fn undo(self: Box<Self>, router: &mut Router);

    /// The transaction stands.
    fn keep(self: Box<Self>, router: &mut Router);
}

/// A part of a transaction that was applied.
pub enum Step {
    /// Undone by this.
    Op(Op),
    /// Undone in a way of its own.
    Held(Box<dyn Held>),
}

impl Step {
    /// Undone in a way of its own.
    pub fn held(undo: impl Held + 'static) -> Step {
        Step::Held(Box::new(undo))
    }
}

impl Held for RouteUndo {
    fn undo(self: Box<Self>, router: &mut Router) {
        router.undo_routes(*self);
    }

    fn keep(self: Box<Self>, router: &mut Router) {
        router.keep_routes(*self);
    }
}

impl Op {
    /// What of it only root may have done, in words: files and namespaces that a document names are opened by the router, with
    /// its rights, and Linux's addresses are the machine's.
    pub fn for_root(&self) -> Option<String> {
        let namespace = |n: &Option<String>| n.as_deref().map(namespace_for_root);
        match self {
            Op::CreateHost { config, .. } => namespace(&config.netns),
            Op::CreateTap { config, .. } if config.addresses != TapAddresses::default() => {
                Some("only root may give Linux addresses and default routes".to_owned())
            }
            Op::CreateTap { config, .. } => namespace(&config.netns),
            Op::CreatePcap { config, .. } => {
                let file = config.write.as_deref().or(config.read.as_deref()).unwrap_or_default();
                Some(format!(
                    "capture file {file}: a document's are opened with the router's rights, so only root may apply it; `create pcap-interface` opens \
                     them with yours"
                ))
            }
            Op::SetFeature { feature: Feature::Part(op), .. } => op.for_root(),
            Op::Part(op) => op.for_root(),
            _ => None,
        }
    }

    /// What the log says of it once it is applied. Nothing for routes, which come by the million, and for what
    /// the driver itself reports.
    pub(super) fn log_line(&self) -> Option<String> {
        Some(match self {
            Op::CreateLoopback { instance: Some(n), .. } => format!("interface loop{n}: made"),
            Op::CreateLoopback { instance: None, .. } => "a loopback was made".into(),
            Op::CreateSub { parent, id, .. } => format!("interface {parent}.{id}: made"),
            Op::Delete { name } => format!("interface {name}: deleted"),
            Op::SetState { name, up } => format!("interface {name}: set {}", if *up { "up" } else { "down" }),
            Op::SetMtu { name, mtu } => format!("interface {name}: MTU {mtu}"),
            Op::SetMac { name, mac: Some(mac) } => format!("interface {name}: MAC address {mac}"),
            Op::SetMac { name, mac: None } => format!("interface {name}: its own MAC address"),
            Op::SetPromiscuous { name, on } => {
                format!("interface {name}: promiscuous mode {}", if *on { "on" } else { "off" })
            }
            Op::SetPlacement { name, queue, worker: Some(w) } => {
                format!("interface {name}: receive queue {queue} on worker {w}")
            }
            Op::SetPlacement { name, queue, worker: None } => {
                format!("interface {name}: receive queue {queue} on any worker")
            }
            Op::SetRxQueues { name, queues } => format!("interface {name}: {queues} receive queues"),
            Op::AddAddress { name, net } => format!("interface {name}: address {net} added"),
            Op::DelAddress { name, net } => format!("interface {name}: address {net} removed"),
            Op::SetXconnect { name, peer: Some(peer) } => {
                format!("interface {name}: cross-connected to {peer}")
            }
            Op::SetXconnect { name, peer: None } => format!("interface {name}: no cross-connect"),
            Op::CreateTable { table, .. } => format!("{table}: made"),
            Op::DeleteTable { table } => format!("{table}: deleted"),
            Op::SetTable { name, table } | Op::MoveTable { name, table } => {
                format!("interface {name}: in {table}")
            }
            Op::SetFlowHash { table, fields } => {
                format!("{table}: flow hash of {}", fields.words().collect::<Vec<_>>().join(" "))
            }
            Op::SetWhenDown { table, withdraw: true } => {
                format!("{table}: prefixes without a way are withdrawn")
            }
            Op::SetWhenDown { table, withdraw: false } => {
                format!("{table}: prefixes without a way are unreachable")
            }
            Op::Part(op) => return op.log_line(),
            Op::NameTable { table, .. } => format!("{table}: another name"),
            Op::CreateHost { .. }
            | Op::OrderInterfaces(_)
            | Op::OrderAddresses { .. }
            | Op::SetElsewhere { .. }
            | Op::CreatePcap { .. }
            | Op::CreateTap { .. }
            | Op::SetDescription { .. }
            | Op::SetFeature { .. }
            | Op::SetRoute { .. }
            | Op::AddPath { .. }
            | Op::DelPath { .. }
            | Op::DelRoute { .. }
            | Op::Routes(_)
            | Op::SetNeighbor { .. }
            | Op::DelNeighbor { .. } => return None,
        })
    }
}

impl Op {
    /// Changes of static routes become a batch, whether one or many.
    fn sort_out(self) -> Work {
        let table = match &self {
            Op::SetRoute { table, .. }
            | Op::AddPath { table, .. }
            | Op::DelPath { table, .. }
            | Op::DelRoute { table, .. } => *table,
            _ => 0,
        };
        let mut batch = RouteBatch::in_table(table);
        match self {
            Op::SetRoute { prefix, target, .. } => {
                let target = batch.target(target);
                batch.set(prefix, target);
            }
            Op::AddPath { prefix, path, .. } => {
                let target = batch.target(Target::Paths(vec![path]));
                batch.add(prefix, target);
            }
            Op::DelPath { prefix, path, .. } => {
                let target = batch.target(Target::Paths(vec![path]));
                batch.del_paths(prefix, target);
            }
            Op::DelRoute { prefix, .. } => batch.del(prefix),
            Op::Routes(batch) => return Work::Routes(batch),
            other => return Work::Op(other),
        }
        Work::Routes(batch)
    }
}

impl Router {
    /// Applies a transaction: all operations in order, or none of them.
    pub fn commit(&mut self, ops: Vec<Op>) -> Result<(), OpError> {
        let mut steps: Vec<Step> = vec![];
        let mut done: Vec<String> = vec![];
        let (mut more_than_routes, batches) = (false, self.static_batches);
        let mut said = false;
        let was = self.aside.begin();
        for (index, op) in ops.into_iter().enumerate() {
            let words = op.log_line();
            said |= self.is_said(&op);
            // A table that goes takes its own routes along.
            let emptied = match &op {
                Op::DeleteTable { table } => self.empty_table(*table),
                _ => vec![],
            };
            let emptied = emptied.into_iter().try_for_each(|op| match op.sort_out() {
                Work::Routes(batch) => self.apply_routes(batch).map(|u| steps.push(Step::held(u))),
                Work::Op(_) => Ok(()),
            });
            let result = emptied.and_then(|()| match op.sort_out() {
                Work::Routes(batch) => self.apply_routes(batch).map(|u| steps.push(Step::held(u))),
                Work::Op(Op::Part(op)) => {
                    more_than_routes |= !op.is_routes();
                    op.steps(self).map(|u| steps.extend(u))
                }
                Work::Op(op) => {
                    more_than_routes = true;
                    self.apply(op).map(|u| steps.extend(u.into_iter().map(Step::Op)))
                }
            });
            match result {
                Ok(()) => done.extend(words),
                Err(mut e) => {
                    e.index = index;
                    let undone = self.aside.commit();
                    self.aside.turn_back();
                    self.undo(steps);
                    self.companions_go(&[undone, self.aside.commit()]);
                    self.static_batches = batches;
                    self.end_of_transaction();
                    self.aside.end(was, vec![]);
                    return Err(e);
                }
            }
        }
        self.changes += u64::from(more_than_routes);
        self.said += u64::from(more_than_routes && said);
        let mut undo = vec![];
        for step in steps {
            match step {
                Step::Held(held) => held.keep(self),
                Step::Op(op) => undo.push(op),
            }
        }
        self.end_of_transaction();
        for words in done {
            self.note(false, words);
        }
        // What Linux refuses later is undone where it is still as it was set here.
        undo.retain(|_| self.aside.has_asked());
        let undo = undo.into_iter().map(|op| (self.as_it_is(&op), op));
        let undo = undo.map(|(now, op)| (op, now)).collect();
        if !self.aside.has_asked() {
            self.companions_go(&[self.aside.commit()]);
        }
        self.aside.end(was, undo);
        Ok(())
    }

    /// Whether a document says what an operation changes: all that the operator does, and of what is done for Linux what takes
    /// something of the operator's along.
    fn is_said(&self, op: &Op) -> bool {
        let of_operator = |name: &String| {
            let Some(i) = self.interface_index(name).and_then(|index| self.interface(index)) else {
                return false;
            };
            let mut all = self.neighbors.table.iter_interface(i.index);
            all.any(|n| n.state == State::Static && !i.elsewhere.neighbors.contains(&n.addr))
        };
        match op {
            _ if !self.changes_companions() => true,
            Op::Delete { .. } => true,
            Op::DelAddress { name, .. } => of_operator(name),
            _ => false,
        }
    }

    /// What follows a transaction, or what undid it.
    pub(super) fn end_of_transaction(&mut self) {
        self.drop_doomed_tables();
        self.tell_parts(|part, router| part.settled(router));
        self.publish_subs();
        self.reclaim();
    }

    pub(crate) fn undo(&mut self, mut steps: Vec<Step>) {
        while let Some(step) = steps.pop() {
            match step {
                Step::Held(undo) => undo.undo(self),
                Step::Op(op) => {
                    let what = format!("{op:?}");
                    // Only what was made is undone by its deletion: nothing of it stays.
                    if let Op::Delete { name } = &op {
                        self.unmake_device(name);
                    }
                    let undone = match op {
                        Op::Part(op) => op.steps(self).map(drop),
                        op => self.apply(op).map(drop),
                    };
                    if let Err(e) = undone {
                        let text = format!("cannot undo a part of a failed transaction: {e} ({what})");
                        self.note(true, text);
                    }
                }
            }
        }
    }

    pub(crate) fn index_of(&self, name: &str) -> Result<u32, OpError> {
        let index = self.interface_index(name);
        let index = index.ok_or_else(|| OpError::new(format!("there is no interface {name}")))?;
        self.interface(index).map_or(Ok(()), |i| self.check_opened(i))?;
        Ok(index)
    }

    pub(crate) fn named(&self, name: &str) -> Result<&IfState, OpError> {
        let index = self.index_of(name)?;
        let found = self.interface(index).filter(|i| i.kind != Kind::Local);
        if found.is_some_and(|i| i.companion) && !self.changes_companions() {
            return Err(OpError::new(format!(
                "{name} belongs to another interface, with which it comes and goes"
            )));
        }
        let found = found.ok_or_else(|| {
            OpError::new(format!("{name} stands for the router itself and cannot be changed"))
        })?;
        self.check_opened(found)?;
        Ok(found)
    }

    pub(crate) fn free_name(&self, name: &str) -> Result<(), OpError> {
        let Some(there) = self.interface_index(name) else { return Ok(()) };
        self.interface(there).map_or(Ok(()), |i| self.check_opened(i))?;
        Err(OpError::new(format!("there is an interface {name} already")))
    }

    /// Whether the rings of a Linux device beside those of all others, or of all but this one, leave enough buffers.
    pub(super) fn check_rings(&self, new: &HostConfig, but: Option<u32>) -> Result<(), String> {
        let buffers = self.pool().count();
        let hold = |c: &HostConfig| devices::rings_hold(c.driver, c.rx_queues, c.slots, buffers);
        let need = hold(new);
        if need == 0 {
            return Ok(());
        }
        let others = self.interfaces().filter_map(|i| match &i.origin {
            Op::CreateHost { config, .. } if Some(i.index) != but => Some(hold(config)),
            _ => None,
        });
        devices::check_held(others.sum::<usize>() + need, buffers)
    }

    /// Whether a device may get this name.
    pub(crate) fn new_name(&self, name: &str) -> Result<(), OpError> {
        self.free_name(name)?;
        super::words::check_device_name(name).map_err(OpError::new)
    }

    /// Applies one operation and answers the operations that undo it, to be run last first.
    pub(super) fn apply(&mut self, op: Op) -> Result<Undo, OpError> {
        match op {
            Op::CreateHost { ref name, ref config } => {
                self.new_name(name)?;
                let (name, config) = (name.clone(), config.clone());
                config.check().map_err(|e| OpError::new(format!("{name}: {e}")))?;
                self.check_rings(&config, None).map_err(|e| OpError::new(format!("{name}: {e}")))?;
                self.lose_dead(&config);
                let pool = std::sync::Arc::clone(self.pool());
                self.open_device(name, op, Asks::Linux, move |index, workers| {
                    devices::open_host(&config, index, workers, &pool)
                })
            }
            Op::CreatePcap { ref name, ref config } => {
                self.new_name(name)?;
                let (name, config) = (name.clone(), config.clone());
                // A command has opened them; those of a document are opened now.
                match self.interfaces.opened.take() {
                    Some(files) => self.create_device(name, op, |index, workers| {
                        Ok(devices::pcap_device(files, index, workers))
                    }),
                    None => self.open_device(name, op, Asks::Disk, move |index, workers| {
                        let files = devices::open_pcap_files(&config, &drivers::Files::default())?;
                        Ok(devices::pcap_device(files, index, workers))
                    }),
                }
            }
            Op::CreateTap { ref name, ref config } => {
                self.free_name(name)?;
                config.check(name).map_err(|e| OpError::new(format!("{name}: {e}")))?;
                let (name, config) = (name.clone(), config.clone());
                self.open_device(name, op, Asks::Linux, move |index, workers| {
                    devices::open_tap(&config, index, workers)
                })
            }
            Op::CreateLoopback { instance, mac } => self.create_loopback(instance, mac),
            Op::CreateSub { ref parent, id, encap } => {
                let parent = parent.clone();
                self.create_sub(&parent, id, encap, op)
            }
            Op::Delete { name } => self.delete(&name),
            Op::SetState { name, up } => {
                let i = self.named(&name)?;
                let (index, was, link) = (i.index, i.up, i.link);
                if was != up {
                    self.set_admin(index, up, link)?;
                }
                let mut undo = self.operator_sets(index, |e| e.up = None);
                undo.push(Op::SetState { name, up: was });
                Ok(undo)
            }
            Op::SetMtu { name, mtu } => {
                let i = self.named(&name)?;
                if !MTU.contains(&mtu) {
                    return Err(OpError::new(format!(
                        "{name}: MTU {mtu} is out of range, {} to {} bytes",
                        MTU.start(),
                        MTU.end()
                    )));
                }
                if let Op::CreateTap { config, .. } = &i.origin {
                    let fits = config.addresses.check(false, Some(u32::from(mtu)));
                    fits.map_err(|e| OpError::new(format!("{name}: {e}")))?;
                }
                let (index, was, hw) = (i.index, i.mtu, i.hw());
                if let Some(p) = self.interface(hw).filter(|p| p.index != index && p.mtu < mtu) {
                    let (parent, most) = (&p.name, p.mtu);
                    return Err(OpError::new(format!(
                        "{name}: MTU {mtu} is more than its parent {parent} has, {most}"
                    )));
                }
                let larger = i.subs.values().filter_map(|s| self.interface(*s)).filter(|s| s.mtu > mtu);
                let (linuxs, others): (Vec<_>, Vec<_>) = larger.partition(|s| s.companion);
                if let Some(s) = others.first() {
                    let (sub, has) = (&s.name, s.mtu);
                    return Err(OpError::new(format!(
                        "{name}: MTU {mtu} is less than its sub-interface {sub} has, {has}"
                    )));
                }
                self.check_mtu_carries(i, mtu)?;
                self.check_mtu_carried(i, mtu)?;
                // As in Linux. They get more again when it is looked at what Linux has.
                for sub in linuxs.iter().map(|s| s.index).collect::<Vec<_>>() {
                    self.set_mtu(sub, mtu)?;
                }
                self.set_mtu(index, mtu)?;
                let mut undo = self.operator_sets(index, |e| e.mtu = None);
                undo.push(Op::SetMtu { name, mtu: was });
                Ok(undo)
            }
            Op::SetMac { name, mac } => {
                let i = self.named(&name)?;
                let (set, was) = (mac.is_some(), i.mac_set.then_some(i.mac));
                let mac = mac.unwrap_or(i.own_mac);
                if !mac.is_station() {
                    return Err(OpError::new(format!(
                        "{name}: {mac} is not the address of a single station"
                    )));
                }
                if matches!(i.kind, Kind::Sub { .. }) {
                    return Err(OpError::new(format!("{name} has the MAC address of its parent")));
                }
                self.check_own_frames(i)?;
                let index = i.index;
                self.set_mac(index, mac)?;
                if let Some(i) = self.interfaces.get_mut(index) {
                    i.mac_set = set;
                }
                let mut undo = self.operator_sets(index, |e| e.mac = None);
                undo.push(Op::SetMac { name, mac: was });
                Ok(undo)
            }
            Op::SetPromiscuous { name, on } => {
                let i = self.named(&name)?;
                let (index, was) = (i.index, i.promiscuous);
                if let Some(why) = self.takes_no_frames(index).filter(|_| on) {
                    return Err(OpError::new(why));
                }
                self.set_promiscuous(index, on)?;
                Ok(vec![Op::SetPromiscuous { name, on: was }])
            }
            Op::SetPlacement { name, queue, worker } => self.set_placement(name, queue, worker),
            Op::SetRxQueues { name, queues } => self.set_rx_queues(name, queues),
            Op::SetDescription { name, text } => {
                let index = self.named(&name)?.index;
                if let Some(Err(why)) = text.as_deref().map(super::words::check_description) {
                    return Err(OpError::new(format!("{name}: {why}")));
                }
                let was =
                    self.interfaces.get_mut(index).and_then(|i| std::mem::replace(&mut i.description, text));
                Ok(vec![Op::SetDescription { name, text: was }])
            }
            Op::AddAddress { name, net } => {
                let index = self.index_of(&name)?;
                // One that it has from elsewhere is the operator's from now on.
                if self.interface(index).is_some_and(|i| i.configured().any(|n| n == net)) {
                    let undo = self.operator_sets(index, |e| _ = e.addresses.remove(&net));
                    if !undo.is_empty() {
                        return Ok(undo);
                    }
                }
                let mut undo = self.give_way(index, net)?;
                if let Err(e) = self.check_address(&name, net).and_then(|()| self.add_address(index, net)) {
                    while let Some(op) = undo.pop() {
                        self.apply(op)?;
                    }
                    return Err(e);
                }
                undo.push(Op::DelAddress { name, net });
                Ok(undo)
            }
            Op::DelAddress { name, net } => {
                self.check_not_elsewhere(&name, net)?;
                let i = self.named(&name)?;
                let index = i.index;
                if net.addr().is_ipv6() && i.configured().any(|n| n == net) {
                    let left = i.configured().any(|n| n != net && n.addr().is_ipv6());
                    self.check_asks_on(index, left)?;
                }
                let fixed: Vec<(IpAddr, MacAddr)> = self
                    .neighbors()
                    .filter(|n| n.interface == index && n.state == State::Static)
                    .filter_map(|n| Some((n.addr, n.mac?)))
                    .collect();
                self.tell_of_last_address6(index, net);
                self.del_address(index, net)?;
                // The neighbours that went with it come back behind it.
                let gone = fixed.into_iter().filter(|(a, _)| self.neighbors.table.get(index, *a).is_none());
                let set = |(address, mac)| Op::SetNeighbor { name: name.clone(), address, mac };
                let mut undo: Vec<Op> = gone.map(set).collect();
                undo.push(Op::AddAddress { name, net });
                Ok(undo)
            }
            Op::SetFeature { name, feature } => self.set_feature(name, feature),
            Op::SetXconnect { name, peer } => {
                let was = self.named(&name)?.xconnect.map(|p| self.interface_name(p));
                self.check_xconnect(&name, peer.as_deref())?;
                let index = self.index_of(&name)?;
                let to = peer.as_deref().map(|p| self.index_of(p)).transpose()?;
                self.set_xconnect(index, to)?;
                Ok(vec![Op::SetXconnect { name, peer: was }])
            }
            Op::CreateTable { table, name } => self.create_table(table, name),
            Op::NameTable { table, name } => self.name_table(table, name),
            Op::OrderInterfaces(names) => self.order_interfaces(names),
            Op::SetElsewhere { name, what } => self.set_elsewhere(name, what),
            Op::OrderAddresses { name, addresses } => self.order_addresses(name, addresses),
            Op::DeleteTable { table } => self.delete_table(table),
            Op::SetTable { name, table } => self.set_table(name, table),
            Op::MoveTable { name, table } => self.move_table(name, table),
            Op::SetFlowHash { table, fields } => self.set_flow_hash(table, fields),
            Op::SetWhenDown { table, withdraw } => self.set_when_down(table, withdraw),
            // `commit` has taken them out.
            Op::Part(_)
            | Op::SetRoute { .. }
            | Op::AddPath { .. }
            | Op::DelPath { .. }
            | Op::DelRoute { .. }
            | Op::Routes(_) => Err(OpError::new("this is no single operation")),
            Op::SetNeighbor { name, address, mac } => {
                let i = self.named(&name)?;
                if i.configured().any(|n| n.addr() == address) || self.interfaces.is_anycast(i.index, address)
                {
                    return Err(OpError::new(format!("{address} is the router's own address")));
                }
                if i.is_point_to_point() {
                    return Err(OpError::new(format!(
                        "{name}: packets go to the one other end, which needs no neighbors"
                    )));
                }
                self.check_routed(i)?;
                let index = i.index;
                let mut undo = self.operator_sets(index, |e| _ = e.neighbors.remove(&address));
                undo.extend(self.set_neighbor(index, name, address, mac)?);
                Ok(undo)
            }
            Op::DelNeighbor { name, address } => {
                let i = self.named(&name)?;
                if i.elsewhere.neighbors.contains(&address) {
                    return Err(OpError::new(format!(
                        "{name}: the neighbor {address} was given in Linux, where it can be taken away (`ip neighbor del`)"
                    )));
                }
                self.del_neighbor(i.index, name, address)
            }
        }
    }

    pub(super) fn set_admin(&mut self, index: u32, up: bool, link: bool) -> Result<(), OpError> {
        if !up {
            self.tell_parts(|part, router| part.ends(router, Some(index)));
        }
        self.tell_device(index, Todo::Up(up))?;
        // One that is told aside tells its link when it has done it.
        let now = self.interface(index).and_then(IfState::device);
        let now = now.filter(|d| !(self.aside.is_on() && d.asks() == Asks::Linux));
        let link = now.map_or(link, DeviceControl::link);
        self.set_link_state(index, up, link);
        let Some(i) = self.interfaces.get_mut(index) else { return Ok(()) };
        if let Some(d) = i.device_mut() {
            d.admitted(up);
        }
        i.inputs.iter().for_each(|input| self.workers.look_at(input.id));
        Ok(())
    }
}
