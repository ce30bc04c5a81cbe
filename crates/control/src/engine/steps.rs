//! A plan: what is to be done, in order, and the operations that do it.

use super::brought::Brought;
use super::bulk::{Goal, Runs, compare};
use super::objects::{Id, Side, Value};
use super::rules::DocumentRules;
use graph::memory::OutOfMemory;
use model::{Model, Phase, Reason};
use net::mpls::MplsOp;
use net::router::{Feature, Op, RouteTable, Router};
use packet::flow::Fields;
use std::collections::{HashMap, HashSet};

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The object.
    pub id: Id,
    /// What is done.
    pub phase: Phase,
    /// Both sides have it, and it is made anew: why.
    pub anew: Option<Reason<Id>>,
    /// What it was.
    pub(super) old: Option<Value>,
    /// What it will be.
    pub(super) new: Option<Value>,
    /// It goes with its interface: nothing is to be done.
    pub(super) goes_along: bool,
}

/// Steps from one side to the other.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    pub(super) runs: Runs,
    /// What commands made and the new side does not say: it stays.
    pub(super) stays: Vec<(Id, Value)>,
}

/// The way from one side to another.
///
/// # Errors
/// There is not enough memory for it.
pub fn plan(from: &Side, to: &Side) -> Result<Plan, OutOfMemory> {
    from.bulk.room_beside(&to.bulk)?;
    Ok(between([from, to], &mut from.model.clone(), &mut to.model.clone(), None))
}

/// As [`plan`], without copies of the two, which may be large. With what documents `brought`, what is of commands stays.
///
/// # Errors
/// As [`plan`].
pub fn plan_of(
    mut from: Side,
    mut to: Side,
    brought: Option<&Brought>,
) -> Result<(Plan, Side, Side), OutOfMemory> {
    from.bulk.room_beside(&to.bulk)?;
    let stays = brought.map_or(vec![], |b| b.stay(&from, &mut to));
    let (mut old, mut new) = (std::mem::take(&mut from.model), std::mem::take(&mut to.model));
    let mut plan = between([&from, &to], &mut old, &mut new, brought);
    let value = |id: Id| old.get(&id).map(|o| o.value.clone()).map(|value| (id, value));
    plan.stays = stays.into_iter().filter_map(value).collect();
    // Runs are of these two sides together.
    for id in plan.runs.ids() {
        old.remove(&id);
        new.remove(&id);
    }
    (from.model, to.model) = (old, new);
    Ok((plan, from, to))
}

fn between(
    [from, to]: [&Side; 2],
    old: &mut Model<Id, Value>,
    new: &mut Model<Id, Value>,
    brought: Option<&Brought>,
) -> Plan {
    let runs = compare([from, to], old, new, brought);
    let parents = from.parents.iter().chain(&to.parents).map(|(s, p)| (s.as_str(), p.as_str()));
    let carriers = from.carriers.iter().chain(&to.carriers);
    let carriers = carriers.flat_map(|(of, by)| by.iter().map(|m| (of.as_str(), m.as_str())));
    let mut below: HashMap<&str, Vec<&str>> = HashMap::new();
    parents.chain(carriers).for_each(|(above, it)| below.entry(above).or_default().push(it));
    let steps = model::plan(&*old, &*new, &DocumentRules { below });
    let gone: HashSet<String> = steps
        .iter()
        .filter(|s| s.phase == Phase::Remove)
        .filter_map(|s| if let Id::Interface(n) = &s.id { Some(n.clone()) } else { None })
        .collect();
    let step = |s: model::Step<Id>| {
        let value = |m: &Model<Id, Value>| m.get(&s.id).map(|o| o.value.clone());
        let (old, new) = (value(old), value(new));
        let own = matches!(
            s.id,
            Id::Mac(_)
                | Id::Mtu(_)
                | Id::Description(_)
                | Id::Promiscuous(_)
                | Id::Placement(..)
                | Id::State(_)
                | Id::PortFeatures(_)
                | Id::PortLimit(_)
                | Id::Tags(_)
        );
        let goes_along =
            own && s.phase == Phase::Remove && s.id.interface().is_some_and(|n| gone.contains(n));
        Step { id: s.id, phase: s.phase, anew: s.anew, old, new, goes_along }
    };
    Plan { steps: steps.into_iter().map(step).collect(), runs, stays: vec![] }
}

impl Step {
    /// It is only made anew for another one: it does not differ.
    pub(super) fn is_taken_along(&self) -> bool {
        let along = matches!(self.anew, Some(Reason::Needs(_) | Reason::Circle));
        along && (matches!(self.id, Id::Routes(_) | Id::Labels(_)) || self.old == self.new)
    }
}

impl Plan {
    /// What of it only root may have done: in words, of the first such step.
    pub fn for_root(&self) -> Option<String> {
        self.steps.iter().find_map(|s| match (&s.new, s.phase) {
            (Some(Value::Op(op)), phase) if phase != Phase::Remove => op.for_root(),
            _ => None,
        })
    }

    /// How many steps and changes of routes and labels there are.
    pub(crate) fn len(&self) -> usize {
        self.steps.iter().map(|s| self.runs.len(&s.id).max(1)).sum()
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// In how many pieces a step can be carried out, of some thousand changes at most.
    pub(super) fn pieces(&self, step: &Step, most: usize) -> usize {
        self.runs.len(&step.id).div_ceil(most).max(1)
    }

    /// The operations of a piece of a step, or those that undo it. With routes: the positions in the new side.
    pub(super) fn ops(
        &self,
        router: &Router,
        step: &Step,
        piece: std::ops::Range<usize>,
        back: bool,
    ) -> Vec<(Op, Vec<u32>)> {
        let (old, new) = if back { (&step.new, &step.old) } else { (&step.old, &step.new) };
        let phase = match (step.phase, back) {
            (Phase::Make, true) => Phase::Remove,
            (Phase::Remove, true) => Phase::Make,
            (phase, _) => phase,
        };
        if matches!(step.id, Id::Routes(_) | Id::Labels(_)) {
            return self.runs.ops(router, &step.id, piece, phase, back);
        }
        let old = old.as_ref().filter(|_| phase != Phase::Make);
        let new = new.as_ref().filter(|_| phase != Phase::Remove);
        if step.goes_along && phase == Phase::Remove {
            return vec![];
        }
        let alone = |op| (op, vec![]);
        ops(router, &step.id, old, new).into_iter().map(alone).collect()
    }
}

/// What brings one object from one value to another.
fn ops(router: &Router, id: &Id, old: Option<&Value>, new: Option<&Value>) -> Vec<Op> {
    match (old, new) {
        (_, Some(Value::Paths(goal))) => paths(router, id, Some(goal)),
        (Some(Value::Paths(_)), None) => paths(router, id, None),
        _ => plain(id, old, new),
    }
}

/// The same, of what names no interface by number.
pub(super) fn plain(id: &Id, old: Option<&Value>, new: Option<&Value>) -> Vec<Op> {
    match (old, new) {
        (Some(Value::Op(old)), None) => remove(id, old).into_iter().collect(),
        (None, Some(Value::Op(new))) => vec![new.clone()],
        (Some(Value::Op(old)), Some(Value::Op(new))) => vec![turn(old, new)],
        _ => vec![],
    }
}

fn paths(router: &Router, id: &Id, goal: Option<&Goal>) -> Vec<Op> {
    let Id::TunnelPaths(name) = id else { return vec![] };
    let paths = match goal.map(|g| g.target(router)) {
        Some(net::router::Target::Paths(paths)) => paths,
        _ => vec![],
    };
    vec![Op::from(MplsOp::SetTunnelPaths { name: name.clone(), paths })]
}

/// What changes an object in place.
fn turn(old: &Op, new: &Op) -> Op {
    match (old, new) {
        (Op::CreateTable { .. }, Op::CreateTable { table, name }) => {
            Op::NameTable { table: *table, name: name.clone() }
        }
        (Op::CreateHost { config: old, .. }, Op::CreateHost { name, config }) if old.becomes(config) => {
            Op::SetRxQueues { name: name.clone(), queues: config.rx_queues }
        }
        (Op::Part(old), Op::Part(part)) => old.turned(part).unwrap_or_else(|| new.clone()),
        _ => new.clone(),
    }
}

/// What takes an object away.
fn remove(id: &Id, op: &Op) -> Option<Op> {
    let name = || id.interface().unwrap_or_default().to_owned();
    Some(match (id, op) {
        (Id::Interface(_), _) => Op::Delete { name: name() },
        // They are there for as long as the interface is.
        (Id::Mtu(_) | Id::State(_) | Id::Layer(_) | Id::InterfaceOrder | Id::AddressOrder(_), _) => {
            return None;
        }
        (Id::Mac(_), _) => Op::SetMac { name: name(), mac: None },
        (Id::Description(_), _) => Op::SetDescription { name: name(), text: None },
        (Id::Promiscuous(_), _) => Op::SetPromiscuous { name: name(), on: false },
        (Id::Placement(_, queue), _) => Op::SetPlacement { name: name(), queue: *queue, worker: None },
        (Id::Binding(_, v6), Op::SetTable { table, .. }) => {
            let main = RouteTable { v6: *v6, id: 0 };
            return (table.id != 0).then(|| Op::SetTable { name: name(), table: main });
        }
        (Id::Address(_, net), _) => Op::DelAddress { name: name(), net: *net },
        (Id::Setting(..), Op::SetFeature { feature: Feature::Setting(c), .. }) => {
            Op::SetFeature { name: name(), feature: c.off().into() }
        }
        (Id::Told(..), Op::SetFeature { feature: Feature::Part(p), .. }) => {
            Op::SetFeature { name: name(), feature: Feature::Part(p.off()) }
        }
        (Id::Unnumbered(_), _) => Op::SetFeature { name: name(), feature: Feature::Unnumbered(None) },
        (Id::Xconnect(_), _) => Op::SetXconnect { name: name(), peer: None },
        (
            Id::Member(_)
            | Id::Tags(_)
            | Id::PortFeatures(_)
            | Id::PortLimit(_)
            | Id::LearnLimit
            | Id::Bridge(_)
            | Id::StaticMac(..)
            | Id::Arp(..)
            | Id::ProxyArp(..)
            | Id::NdProxy(_)
            | Id::LabelTable(_)
            | Id::Punt(_)
            | Id::Global(_),
            Op::Part(p),
        ) => return p.off(),
        (Id::Table(table), _) => Op::DeleteTable { table: *table },
        (Id::FlowHash(table), _) => Op::SetFlowHash { table: *table, fields: Fields::FIVE_TUPLE },
        (Id::WhenDown(table), _) => Op::SetWhenDown { table: *table, withdraw: false },
        (Id::Neighbor(_, address), _) => Op::DelNeighbor { name: name(), address: *address },
        _ => return None,
    })
}

impl Plan {
    /// Interfaces that are taken away, with whether they are made again.
    pub(super) fn interfaces_gone(&self) -> HashMap<&str, bool> {
        let gone = self.steps.iter().filter(|s| s.phase == Phase::Remove);
        gone.filter_map(|s| match &s.id {
            Id::Interface(n) => Some((n.as_str(), s.new.is_some())),
            _ => None,
        })
        .collect()
    }
}
