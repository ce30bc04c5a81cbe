//! Who put what runs there: a document takes away what a document brought, and nothing else.
//!
//! Of the last document that was started with, applied or saved the names of its objects and routes are kept, as hashes. What runs
//! and is neither among them nor in the new document is a command's. It stays, unless it cannot stand beside what the document
//! wants: something that it needs goes, or the document gives to another what it has to itself.

use super::ends::{End, address_tokens, table_of};
use super::objects::{Id, Side, Value};
use super::rules::{count, last_worker};
use super::steps::Plan;
use super::ties::tie;
use ipnet::IpNet;
use model::{Model, Object};
use net::router::{Feature, Op};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// What the last document brought.
#[derive(Clone, Debug, Default)]
pub struct Brought(Arc<[u64]>);

fn hash(of: impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    of.hash(&mut h);
    h.finish()
}

impl Brought {
    /// All that a document says. Takes a while where it says much: not for the control thread.
    pub fn of(side: &Side) -> Brought {
        Brought::but(side, &Plan::default())
    }

    /// The same of a side that a plan was made of, but for what stays of commands.
    pub fn but(side: &Side, plan: &Plan) -> Brought {
        let others: HashSet<&Id> = plan.stays.iter().map(|s| &s.0).collect();
        let own = side.model.iter().map(|(id, _)| id).filter(|id| !others.contains(id));
        let mut all: Vec<u64> = own.map(hash).collect();
        all.extend(side.bulk.routes.iter().map(|r| hash(r.0)));
        all.extend(side.bulk.labels.iter().map(|l| hash(l.0)));
        all.sort_unstable();
        Brought(all.into())
    }

    /// Whether an object, a route or a label is of that document, by its name.
    pub fn has(&self, name: impl Hash) -> bool {
        self.0.binary_search(&hash(name)).is_ok()
    }

    /// Takes into `to` what runs, is not the document's, and can stay. Answers what that is.
    pub(super) fn stay(&self, from: &Side, to: &mut Side) -> Vec<Id> {
        let others = from.model.iter().filter(|(id, _)| to.model.get(id).is_none() && !self.has(id));
        let mut stays: BTreeSet<&Id> = others.map(|(id, _)| id).collect();
        if stays.is_empty() {
            return vec![];
        }
        let (mut takes, mut bars) = (HashSet::new(), HashSet::new());
        for (_, o) in to.model.iter() {
            takes.extend(o.takes.iter().copied());
            bars.extend(o.bars.iter().copied());
        }
        bars.extend(to.bulk.bars());
        let turned = turned(from, to);
        let placed = placed(from, to, &stays);
        let stands = |id: &Id, stays: &BTreeSet<&Id>| {
            let there = to.model.get(id).is_some() && !turned.contains(id);
            there || stays.contains(id) || from.model.get(id).is_none()
        };
        let of = |id: &Id| placed.get(id).or_else(|| from.model.get(id));
        let own = |id: &&Id| of(id).filter(|o| o.takes.iter().all(|t| !bars.contains(t)));
        let workers = to.model.iter().find_map(|(_, o)| count(o)).unwrap_or(1);
        let has_worker = |o: &Object<Id, Value>| last_worker(o).is_none_or(|w| w < workers);
        stays.retain(|id| {
            let free = |o: &Object<Id, Value>| o.bars.iter().all(|t| !takes.contains(t));
            has_queue(id, to) && own(id).is_some_and(|o| has_worker(o) && free(o))
        });
        let mut parts: HashMap<&str, Vec<&Id>> = HashMap::new();
        let essential = from.model.iter().filter(|(id, o)| is_essential(id, &o.value));
        for (id, _) in essential {
            parts.entry(id.interface().unwrap_or_default()).or_default().push(id);
        }
        // Neither an interface without what it needs, nor that where the document has the interface and says what it needs.
        let is_whole = |id: &Id, stays: &BTreeSet<&Id>| {
            let of = id.interface().and_then(|name| Some((name, parts.get(name)?)));
            of.is_none_or(|(name, parts)| match id {
                Id::Interface(_) => parts.iter().all(|p| stays.contains(p)),
                _ => !parts.contains(&id) || stays.contains(&Id::Interface(name.into())),
            })
        };
        loop {
            let needs = |id: &Id| from.model.get(id).map_or(&[][..], |o| &o.needs);
            let can = |id: &Id| needs(id).iter().all(|n| stands(n, &stays)) && is_whole(id, &stays);
            let gone: Vec<&Id> = stays.iter().filter(|id| !can(id)).copied().collect();
            if gone.is_empty() {
                break;
            }
            gone.into_iter().for_each(|id| _ = stays.remove(id));
        }
        for id in &stays {
            let Some(o) = of(id) else { continue };
            // On the layer on which it is.
            for layer in o.needs.iter().filter(|n| matches!(n, Id::Layer(_))) {
                if let (Some(is), Some(wants)) = (from.model.get(layer), to.model.get_mut(layer)) {
                    wants.value = is.value.clone();
                }
            }
            to.model.set((*id).clone(), o.clone());
            fit(id, to);
            if let Id::Interface(name) = id {
                to.parents.extend(from.parents.get_key_value(name).map(|(s, p)| (s.clone(), p.clone())));
                to.carriers.extend(from.carriers.get_key_value(name).map(|(n, c)| (n.clone(), c.clone())));
                to.carried.extend(from.carried.get_key_value(name).map(|(n, c)| (n.clone(), c.clone())));
            }
        }
        orders(from, &mut to.model, &stays);
        tie(&mut to.model);
        stays.into_iter().cloned().collect()
    }
}

/// Whether the receive queue that is placed is one of those that its device is to have.
fn has_queue(id: &Id, to: &Side) -> bool {
    let Id::Placement(name, queue) = id else { return true };
    match to.model.get(&Id::Interface(name.clone())).map(|o| &o.value) {
        Some(Value::Op(Op::CreateHost { config, .. })) => *queue < config.rx_queues,
        Some(Value::Op(Op::CreateTap { config, .. })) => *queue < config.rx_queues,
        Some(Value::Op(Op::CreatePcap { config, .. })) => *queue == 0 && config.read.is_some(),
        _ => true,
    }
}

/// Whether the interface that this is of is none without.
fn is_essential(id: &Id, value: &Value) -> bool {
    match value {
        Value::Paths(_) => matches!(id, Id::TunnelPaths(_)),
        Value::Op(Op::SetFeature { feature: Feature::Part(op), .. }) => op.is_essential(),
        _ => false,
    }
}

/// Layers of interfaces that a document wants otherwise, for something that comes there with it.
fn turned(from: &Side, to: &Side) -> HashSet<Id> {
    let differs = |id: &&Id| {
        matches!(id, Id::Layer(_))
            && from.model.get(id).zip(to.model.get(id)).is_some_and(|(a, b)| a.value != b.value)
    };
    let all: HashSet<&Id> = to.model.iter().map(|(id, _)| id).filter(differs).collect();
    let comes = |id: &Id| from.model.get(id).is_none() && !matches!(id, Id::Binding(..));
    let new = to.model.iter().filter(|(id, _)| !all.is_empty() && comes(id));
    new.flat_map(|(_, o)| o.needs.iter().filter(|n| all.contains(n))).cloned().collect()
}

/// Addresses that come into another table with their interface, or of whose prefix the document has one there, as they are beside it.
fn placed(from: &Side, to: &Side, stays: &BTreeSet<&Id>) -> HashMap<Id, Object<Id, Value>> {
    let prefix =
        |id| if let &Id::Address(ref name, net) = id { Some((name.as_str(), net.trunc())) } else { None };
    let prefixes: HashSet<(&str, IpNet)> = to.model.iter().filter_map(|(id, _)| prefix(id)).collect();
    let of = |id: &Id| {
        let Id::Address(name, net) = id else { return None };
        let v6 = net.addr().is_ipv6();
        let table = table_of(&to.model, name, v6);
        let binding = Id::Binding(name.clone(), v6);
        let moves = to.model.get(&binding).is_some() && table != table_of(&from.model, name, v6);
        let has_prefix = prefixes.contains(&(name.as_str(), net.trunc()));
        let o = from.model.get(id).filter(|_| moves || has_prefix)?.clone();
        let (takes, bars) = address_tokens(name, *net, table, !has_prefix);
        Some((id.clone(), Object { takes, bars, ..o }))
    };
    stays.iter().filter_map(|id| of(id)).collect()
}

/// A sub-interface is no larger than its parent becomes.
fn fit(id: &Id, to: &mut Side) {
    let mtu = |v: &Value| if let Value::Op(Op::SetMtu { mtu, .. }) = v { Some(*mtu) } else { None };
    let Id::Mtu(name) = id else { return };
    let parent = to.parents.get(name).and_then(|p| to.model.get(&Id::Mtu(p.clone())));
    let most = parent.and_then(|o| mtu(&o.value));
    if let Some(o) = to.model.get_mut(id)
        && let (Some(own), Some(most)) = (mtu(&o.value), most)
    {
        o.value = Value::Op(Op::SetMtu { name: name.clone(), mtu: own.min(most) });
    }
}

/// What stays has its place among what the document puts in order: behind what it stands behind now.
fn orders(from: &Side, to: &mut Model<Id, Value>, stays: &BTreeSet<&Id>) {
    let both: Vec<Id> =
        from.model.iter().map(|(id, _)| id.clone()).filter(|id| to.get(id).is_some()).collect();
    for id in both {
        let (Some(old), Some(new)) = (from.model.get(&id), to.get_mut(&id)) else { continue };
        match (&old.value, &mut new.value) {
            (Value::Op(Op::OrderInterfaces(was)), Value::Op(Op::OrderInterfaces(is))) => {
                let more = among(was, is, |n| stays.contains(&Id::Interface(n.clone())));
                new.needs.extend(more.into_iter().map(Id::Interface));
            }
            (
                Value::Op(Op::OrderAddresses { name, addresses: was }),
                Value::Op(Op::OrderAddresses { addresses: is, .. }),
            ) => {
                let more = among(was, is, |a| stays.contains(&Id::Address(name.clone(), *a)));
                new.needs.extend(more.into_iter().map(|a| Id::Address(name.clone(), a)));
            }
            _ => {}
        }
    }
}

/// Puts those of a list that stay into another one, and answers them.
fn among<T: Clone + PartialEq>(was: &[T], is: &mut Vec<T>, stays: impl Fn(&T) -> bool) -> Vec<T> {
    let mut more = vec![];
    let mut at = 0;
    for one in was {
        if let Some(there) = is.iter().position(|i| i == one) {
            at = there + 1;
        } else if stays(one) {
            is.insert(at, one.clone());
            more.push(one.clone());
            at += 1;
        }
    }
    more
}

/// Whether routes and labels of commands can stay beside what a document wants.
pub(super) struct Beside<'s> {
    pub brought: Option<&'s Brought>,
    runs: &'s Model<Id, Value>,
    wanted: &'s Model<Id, Value>,
    bars: OnceCell<HashSet<u64>>,
}

impl<'s> Beside<'s> {
    pub fn new(
        brought: Option<&'s Brought>,
        runs: &'s Model<Id, Value>,
        wanted: &'s Model<Id, Value>,
    ) -> Self {
        Beside { brought, runs, wanted, bars: OnceCell::new() }
    }

    /// One that needs these objects and leads to these hops.
    pub fn stays<'a>(&self, name: impl Hash, needs: &[Id], mut hops: impl Iterator<Item = End<'a>>) -> bool {
        if self.brought.is_none_or(|b| b.has(name)) {
            return false;
        }
        // Routes lead over interfaces that are routed. What neither has, as table 0, is there by itself.
        let stands = |id: &Id| match self.wanted.get(id) {
            Some(o) => o.value != Value::Layer2(true),
            None => self.runs.get(id).is_none(),
        };
        let bars = || self.wanted.iter().flat_map(|(_, o)| o.bars.iter().copied()).collect();
        needs.iter().all(stands) && hops.all(|h| !self.bars.get_or_init(bars).contains(&h.token("hop")))
    }
}
