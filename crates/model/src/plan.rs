//! The steps from one model to another.

use crate::{Change, Id, Model, Object, Rules, order};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a step does. Of steps that could come in any order, those that take away come first, then changes, then what is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Takes the old object away.
    Remove,
    /// Changes the old one into the new one, in place.
    Change,
    /// Makes the new one.
    Make,
}

/// Why an object that both models have is taken away and made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason<I> {
    /// It cannot change in place.
    Value(&'static str),
    /// It needs this one, which goes or is made anew.
    Needs(I),
    /// Changes in place would have to wait for each other.
    Circle,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<I> {
    /// The object.
    pub id: I,
    /// What is done.
    pub phase: Phase,
    /// Where both models have the object and it is made anew: why.
    pub anew: Option<Reason<I>>,
}

/// A step that is to be put in order, with the objects that it is about.
#[derive(Debug)]
pub struct Touched<'m, I, V> {
    /// The object.
    pub id: &'m I,
    /// What is done.
    pub phase: Phase,
    /// It as it was, where there was one.
    pub old: Option<&'m Object<I, V>>,
    /// It as it will be, where there will be one.
    pub new: Option<&'m Object<I, V>>,
}

/// How each object that is touched comes from one model to the other.
struct Fates<I> {
    changed: HashSet<I>,
    anew: BTreeMap<I, Reason<I>>,
}

/// The steps that lead from one model to another, in order. An object whose value is the same in both is not touched, unless it
/// needs one that goes or is made anew.
pub fn plan<I: Id, V: PartialEq>(
    from: &Model<I, V>,
    to: &Model<I, V>,
    rules: &impl Rules<I, V>,
) -> Vec<Step<I>> {
    let mut forced = BTreeMap::new();
    loop {
        let fates = fates(from, to, rules, &forced);
        let steps = touched(from, to, &fates);
        let (mut edges, soft) = edges(&steps, from, to, rules);
        let hard = edges.len();
        edges.extend(soft);
        let key = |s: &Touched<'_, I, V>| {
            let place = s.new.filter(|_| s.phase != Phase::Remove).map(|o| o.place);
            let gone = s.old.map_or(0, |o| u32::MAX - o.place);
            (rules.phase(s), place.unwrap_or(gone))
        };
        let keys: Vec<_> = steps.iter().map(key).collect();
        let breaks = |i: usize| steps[i].phase == Phase::Change;
        let mut sorted = order::sort(&keys, &edges, breaks);
        // What is only better is given up among those that wait for each other.
        if let Err(stuck) = &sorted {
            let mut kept = edges.split_off(hard);
            kept.retain(|(a, b)| !(stuck.left[*a] && stuck.left[*b]));
            edges.extend(kept);
            sorted = order::sort(&keys, &edges, breaks);
        }
        let order = match sorted {
            Ok(order) => order,
            Err(order::Stuck { breaks: Some(i), .. }) => {
                forced.insert(steps[i].id.clone(), Reason::Circle);
                continue;
            }
            // Objects that need each other: none comes first, and the places tell.
            Err(_) => {
                let mut order: Vec<usize> = (0..steps.len()).collect();
                order.sort_by_key(|i| keys[*i]);
                order
            }
        };
        let step = |i: usize| {
            let Touched { id, phase, .. } = &steps[i];
            Step { id: (*id).clone(), phase: *phase, anew: fates.anew.get(id).cloned() }
        };
        return order.into_iter().map(step).collect();
    }
}

/// An object as it was, and as it will be.
type Pair<'m, I, V> = (&'m I, Option<&'m Object<I, V>>, Option<&'m Object<I, V>>);

/// The objects of both models by id, each as it was and as it will be. Both are in order: none is looked for.
fn both<'m, I: Id, V>(from: &'m Model<I, V>, to: &'m Model<I, V>) -> impl Iterator<Item = Pair<'m, I, V>> {
    let (mut from, mut to) = (from.iter().peekable(), to.iter().peekable());
    std::iter::from_fn(move || {
        let order = match (from.peek(), to.peek()) {
            (Some(a), Some(b)) => a.0.cmp(b.0),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let old = if order.is_le() { from.next() } else { None };
        let new = if order.is_ge() { to.next() } else { None };
        let (id, _) = old.or(new)?;
        Some((id, old.map(|o| o.1), new.map(|o| o.1)))
    })
}

fn fates<I: Id, V: PartialEq>(
    from: &Model<I, V>,
    to: &Model<I, V>,
    rules: &impl Rules<I, V>,
    forced: &BTreeMap<I, Reason<I>>,
) -> Fates<I> {
    let (mut changed, mut anew, mut todo) = (HashSet::new(), BTreeMap::new(), vec![]);
    for (id, old, new) in both(from, to) {
        let Some(old) = old else { continue };
        match new {
            None => todo.push(id),
            Some(new) if old.value == new.value => {}
            Some(new) => match rules.change(id, &old.value, &new.value) {
                Change::InPlace => _ = changed.insert(id.clone()),
                Change::Anew(why) => {
                    anew.insert(id.clone(), Reason::Value(why));
                    todo.push(id);
                }
            },
        }
    }
    // What comes to stand under an object could not go again while that stands: the way back is the same steps.
    for (id, old, new) in both(from, to) {
        let (Some(old), Some(new)) = (old, new) else { continue };
        let came = new.needs.iter().find(|n| {
            // Mostly they are the same, and none of them is looked for.
            !old.needs.contains(n) && from.get(n).is_none() && to.get(n).is_some()
        });
        if let Some(n) = came
            && !anew.contains_key(id)
            && !(changed.contains(id) && rules.lets_go(id, n))
        {
            anew.insert(id.clone(), Reason::Needs(n.clone()));
            todo.extend(from.objects.get_key_value(id).map(|(id, _)| id));
        }
    }
    for (id, why) in forced {
        if let Some((id, _)) = from.objects.get_key_value(id) {
            anew.entry(id.clone()).or_insert_with(|| why.clone());
            todo.push(id);
        }
    }
    if !todo.is_empty() {
        let mut users: HashMap<&I, Vec<&I>> = HashMap::new();
        for (id, old) in from.iter().filter(|(id, _)| to.get(id).is_some()) {
            old.needs.iter().for_each(|n| users.entry(n).or_default().push(id));
        }
        while let Some(gone) = todo.pop() {
            for user in users.get(gone).into_iter().flatten().copied() {
                let keeps = to.get(user).is_some_and(|new| new.needs.contains(gone));
                let moves = !keeps && changed.contains(user) && rules.lets_go(user, gone);
                if moves || anew.contains_key(user) {
                    continue;
                }
                anew.insert(user.clone(), Reason::Needs(gone.clone()));
                todo.push(user);
            }
        }
    }
    changed.retain(|id| !anew.contains_key(id));
    Fates { changed, anew }
}

fn touched<'m, I: Id, V>(
    from: &'m Model<I, V>,
    to: &'m Model<I, V>,
    fates: &Fates<I>,
) -> Vec<Touched<'m, I, V>> {
    let (mut out, mut made) = (vec![], vec![]);
    for (id, old, new) in both(from, to) {
        let Some(old) = old else {
            made.push(Touched { id, phase: Phase::Make, old: None, new });
            continue;
        };
        let mut add = |phase| out.push(Touched { id, phase, old: Some(old), new });
        if new.is_none() || fates.anew.contains_key(id) {
            add(Phase::Remove);
        } else if fates.changed.contains(id) {
            add(Phase::Change);
        }
        if fates.anew.contains_key(id) && new.is_some() {
            add(Phase::Make);
        }
    }
    out.append(&mut made);
    out
}

type Edges = Vec<(usize, usize)>;

/// Which steps must come before which, and which are better to.
fn edges<I: Id, V>(
    steps: &[Touched<'_, I, V>],
    from: &Model<I, V>,
    to: &Model<I, V>,
    rules: &impl Rules<I, V>,
) -> (Edges, Edges) {
    let mut soft = vec![];
    let mut at: HashMap<(&I, Phase), usize> = HashMap::with_capacity(steps.len());
    for (i, s) in steps.iter().enumerate() {
        at.insert((s.id, s.phase), i);
    }
    let find = |id, phase| at.get(&(id, phase)).copied();
    let mut out = rules.before(steps);
    for (i, s) in steps.iter().enumerate() {
        let old = s.old.filter(|_| s.phase != Phase::Make && from.get(s.id).is_some());
        for n in old.into_iter().flat_map(|o| &o.needs) {
            out.extend(find(n, Phase::Remove).map(|n| (i, n)));
            if s.phase == Phase::Remove {
                out.extend(find(n, Phase::Change).map(|n| (i, n)));
            }
        }
        for n in old.into_iter().flat_map(|o| &o.follows) {
            soft.extend(find(n, Phase::Remove).map(|n| (i, n)));
        }
        let new = s.new.filter(|_| s.phase != Phase::Remove && to.get(s.id).is_some());
        for n in new.into_iter().flat_map(|o| &o.follows) {
            soft.extend(find(n, Phase::Make).map(|n| (n, i)));
            soft.extend(find(n, Phase::Change).map(|n| (n, i)));
        }
        for n in new.into_iter().flat_map(|o| &o.needs) {
            out.extend(find(n, Phase::Make).map(|n| (n, i)));
            out.extend(find(n, Phase::Change).map(|n| (n, i)));
        }
        if s.phase == Phase::Make {
            out.extend(find(s.id, Phase::Remove).map(|r| (r, i)));
        }
    }
    exclusions(steps, &mut out);
    (out, soft)
}

/// What an object had to itself is given up before another has it.
fn exclusions<I: Id, V>(steps: &[Touched<'_, I, V>], out: &mut Vec<(usize, usize)>) {
    let mut given: HashMap<u64, Vec<usize>> = HashMap::new();
    for (i, s) in steps.iter().enumerate().filter(|(_, s)| s.phase != Phase::Make) {
        let kept = |t: &u64| s.phase == Phase::Change && s.new.is_some_and(|n| n.takes.contains(t));
        for t in s.old.into_iter().flat_map(|o| &o.takes).filter(|t| !kept(t)) {
            given.entry(*t).or_default().push(i);
        }
    }
    if given.is_empty() {
        return;
    }
    for (i, s) in steps.iter().enumerate().filter(|(_, s)| s.phase != Phase::Remove) {
        for t in s.new.into_iter().flat_map(|o| &o.bars) {
            let others = given.get(t).into_iter().flatten().filter(|g| steps[**g].id != s.id);
            out.extend(others.map(|g| (*g, i)));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
