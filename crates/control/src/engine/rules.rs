//! How objects change, and what comes before what beyond their needs.

use super::known::{Known, known};
use super::objects::{Id, Value};
use super::ties;
use model::{Change, Object, Phase, Rules, Touched};
use net::l2::bridge::BridgeOp;
use net::load::{LoadOp, SetWorkers};
use net::router::{BoxedPartOp, Feature, Op};
use std::collections::HashMap;

/// The rules of the objects of a document.
pub(super) struct DocumentRules<'p> {
    /// Interfaces with those that must be as large, of both sides: sub-interfaces with their parents, and those whose frames others
    /// carry with these.
    pub below: HashMap<&'p str, Vec<&'p str>>,
}

/// What is to be done behind all that it waits for, and makes nothing anew that stands on it.
const ORDER: &str = "the order of what there is";

impl Rules<Id, Value> for DocumentRules<'_> {
    fn change(&self, id: &Id, old: &Value, new: &Value) -> Change {
        let (Value::Op(old), Value::Op(new)) = (old, new) else {
            return match id {
                Id::Layer(_) => Change::Anew("it moves between layer 2 and layer 3"),
                _ => Change::InPlace,
            };
        };
        match id {
            Id::InterfaceOrder | Id::AddressOrder(_) => Change::Anew(ORDER),
            Id::Binding(..) => Change::Anew("addresses belong to a table"),
            Id::Member(_) => match (known(old), known(new)) {
                (
                    Known::Bridge(BridgeOp::Port { member: Some(a), .. }),
                    Known::Bridge(BridgeOp::Port { member: Some(b), .. }),
                ) if a.bvi != b.bvi || a.bvi && a.bridge != b.bridge => {
                    Change::Anew("a BVI is routed, a member is not")
                }
                _ => Change::InPlace,
            },
            Id::Interface(_) => match (old, new) {
                (Op::Part(old), Op::Part(new)) if old.turned(new).is_some() => Change::InPlace,
                (Op::CreateSub { .. }, _) => Change::Anew("frames of other tags are another interface"),
                (Op::CreateTap { .. }, Op::CreateTap { .. }) => {
                    Change::Anew("its host side is made with its settings")
                }
                (Op::CreateHost { config: old, .. }, Op::CreateHost { config: new, .. })
                    if old.becomes(new) =>
                {
                    Change::InPlace
                }
                (Op::CreateHost { .. }, Op::CreateHost { .. }) => {
                    Change::Anew("the device's rings are made with their settings")
                }
                (Op::CreatePcap { .. }, Op::CreatePcap { .. }) => Change::Anew("its files are opened once"),
                (Op::Part(old), Op::Part(_)) => Change::Anew(old.anew()),
                _ => Change::Anew("it is of another kind"),
            },
            Id::Global(_) => match (old, new) {
                (Op::Part(old), Op::Part(new)) if old.turned(new).is_none() => Change::Anew(old.anew()),
                _ => Change::InPlace,
            },
            _ => Change::InPlace,
        }
    }

    fn lets_go(&self, id: &Id, gone: &Id) -> bool {
        // What an interface is itself takes along what it has.
        let own = id.interface().is_some() && id.interface() == gone.interface();
        let names = matches!(
            id,
            Id::Routes(_)
                | Id::Labels(_)
                | Id::TunnelPaths(_)
                | Id::Member(_)
                | Id::Xconnect(_)
                | Id::Told(..)
        );
        // A tunnel leaves the table of its ends.
        let table = matches!((id, gone), (Id::Interface(_), Id::Table(_)));
        (names && !own) || table
    }

    fn phase(&self, step: &Touched<'_, Id, Value>) -> Phase {
        match (step.id, step.new.map(|o| &o.value)) {
            // What comes up does so with all that packets are to meet.
            (Id::State(_), Some(Value::Op(Op::SetState { up: true, .. }))) if step.phase == Phase::Change => {
                Phase::Make
            }
            _ => step.phase,
        }
    }

    /// An MTU that falls does so behind those that must not be larger, and one that rises before them. Workers come before what is
    /// theirs, and go behind it.
    fn before(&self, steps: &[Touched<'_, Id, Value>]) -> Vec<(usize, usize)> {
        let mtu = |v: &Value| if let Value::Op(Op::SetMtu { mtu, .. }) = v { Some(*mtu) } else { None };
        let (mut falling, mut rising): (HashMap<&str, usize>, HashMap<&str, usize>) = Default::default();
        let changes = |s: &Touched<'_, Id, Value>| matches!(s.id, Id::Mtu(_)) && s.phase == Phase::Change;
        for (i, s) in steps.iter().enumerate().filter(|(_, s)| changes(s)) {
            let (old, new) = (s.old.and_then(|o| mtu(&o.value)), s.new.and_then(|o| mtu(&o.value)));
            let list = if old > new { &mut falling } else { &mut rising };
            list.extend(s.id.interface().map(|n| (n, i)));
        }
        let mut out = vec![];
        for (i, s) in steps.iter().enumerate().filter(|(_, s)| s.phase == Phase::Change) {
            let Some(name) = s.id.interface() else { continue };
            let own = [name];
            let of = match s.id {
                Id::Mtu(_) => self.below.get(name).map_or(&[][..], |all| all),
                Id::Told(..) | Id::Setting(..) => &own[..],
                _ => &[],
            };
            out.extend(of.iter().filter_map(|n| falling.get(n)).map(|mtu| (i, *mtu)));
            out.extend(of.iter().filter_map(|n| rising.get(n)).map(|mtu| (*mtu, i)));
        }
        out.extend(by_workers(steps));
        out.extend(by_bvis(steps));
        out
    }
}

/// An interface leaves the bridge domain that is routed through it before it has something of its own of layer 3, with which it could not.
fn by_bvis(steps: &[Touched<'_, Id, Value>]) -> Vec<(usize, usize)> {
    let leaves = |s: &Touched<'_, Id, Value>| {
        s.phase == Phase::Remove && s.old.is_some_and(|o| ties::is_bvi(&o.value))
    };
    let all = steps.iter().enumerate().filter(|(_, s)| matches!(s.id, Id::Member(_)) && leaves(s));
    let gone: HashMap<&str, usize> = all.filter_map(|(i, s)| Some((s.id.interface()?, i))).collect();
    let mut out = vec![];
    for (i, s) in steps.iter().enumerate().filter(|(_, s)| s.phase != Phase::Remove && ties::is_routed(s.id))
    {
        for need in s.new.into_iter().filter(|_| !gone.is_empty()).flat_map(|o| &o.needs) {
            if let Id::Layer(name) = need {
                out.extend(gone.get(name.as_str()).map(|member| (*member, i)));
            }
        }
    }
    out
}

/// Workers that are made are there before what is of one of them, and those that go do so behind it.
fn by_workers(steps: &[Touched<'_, Id, Value>]) -> Vec<(usize, usize)> {
    let counts = steps.iter().map(|s| (s.old.and_then(count), s.new.and_then(count)));
    let Some((at, (old, new))) = counts.enumerate().find(|(_, (old, new))| old.or(*new).is_some()) else {
        return vec![];
    };
    let more = new.unwrap_or(1) > old.unwrap_or(1);
    let of_one =
        |s: &Touched<'_, Id, Value>| [s.old, s.new].into_iter().flatten().any(|o| last_worker(o).is_some());
    let all = steps.iter().enumerate().filter(|(_, s)| of_one(s));
    all.map(|(i, _)| if more { (at, i) } else { (i, at) }).collect()
}

/// How many workers there are by an object, if it says so.
pub(super) fn count(o: &Object<Id, Value>) -> Option<usize> {
    part(Some(o)).and_then(|p| p.get()).map(|set: &SetWorkers| set.count)
}

/// The last of the workers that an object names.
pub(super) fn last_worker(o: &Object<Id, Value>) -> Option<usize> {
    match &o.value {
        Value::Op(Op::SetPlacement { worker, .. }) => *worker,
        Value::Op(Op::SetFeature { feature: Feature::Part(op), .. }) => op.last_worker(),
        Value::Op(Op::Part(p)) => match p.get() {
            Some(LoadOp::Own { worker, .. }) => Some(*worker),
            _ => None,
        },
        _ => None,
    }
}

fn part(o: Option<&Object<Id, Value>>) -> Option<&BoxedPartOp> {
    match o.map(|o| &o.value) {
        Some(Value::Op(Op::Part(p))) => Some(p),
        _ => None,
    }
}
