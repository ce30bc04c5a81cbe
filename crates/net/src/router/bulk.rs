//! Changing routes, static ones or those of another source: one or a million, checked as a whole, applied as a whole, undone as a whole.

use super::batch::{Change, Goal, RouteBatch, Verb};
use super::{OpError, Rank, RouteObject, RoutePath, RouteTable, Router, Source, Target};
use crate::plane::table::FibIndex;
use graph::memory;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use tables::groups::GroupId;

/// Changes after which it is looked at what memory is left: that takes some system calls.
const LARGE: usize = 4096;
/// Bytes by which routes may grow as long as so many are left.
const LITTLE: usize = 4 << 20;

/// Whether any of the changes may take memory.
fn grows<K: Key>(changes: &[Change<K>]) -> bool {
    changes.iter().any(|c| matches!(c.verb(), Verb::Set | Verb::Add))
}

/// Addresses of one family.
pub(super) trait Key: Copy + Ord {
    const V6: bool;
    fn net(self, len: u8) -> IpNet;
}

impl Key for u32 {
    const V6: bool = false;
    fn net(self, len: u8) -> IpNet {
        Ipv4Net::new(self.into(), len).unwrap_or_default().into()
    }
}

impl Key for u128 {
    const V6: bool = true;
    fn net(self, len: u8) -> IpNet {
        Ipv6Net::new(self.into(), len).unwrap_or_default().into()
    }
}

impl<K: Key> Change<K> {
    fn prefix(&self) -> IpNet {
        self.key.net(self.len)
    }
}

/// Whose routes are changed, and what they become.
struct Owner {
    source: Source,
    goals: Vec<Goal>,
}

impl Owner {
    fn rank<K>(&self, c: &Change<K>) -> Rank {
        self.goals.get(c.target()).map_or(Rank::STATIC, |g| g.rank)
    }

    fn target<K>(&self, c: &Change<K>) -> Option<&Target> {
        self.goals.get(c.target())?.target.as_ref()
    }

    /// Why a route is not taken away.
    fn no_route(&self, prefix: IpNet, with: &str) -> OpError {
        let word = if self.source == Source::Static { "static route" } else { "route of the source" };
        OpError::new(format!("there is no {word} {prefix}{with}"))
    }
}

/// The groups that a transaction works with; each is held until the transaction ends.
struct Goals {
    owner: Rc<Owner>,
    /// Number of the table.
    table: u32,
    /// Its FIB indexes, by family; 0 where the batch has no change of the family.
    fib_indexes: [FibIndex; 2],
    /// Group of each target, by family; 0: not asked for yet.
    groups: [Vec<GroupId>; 2],
    /// What a group becomes when paths are added to it or taken away. 0: nothing is left.
    mixes: HashMap<(GroupId, u32, bool), GroupId>,
    held: Vec<GroupId>,
    /// The most bytes that all routes may take: the configured limit, or what they took at some time. That may be
    /// more, when an undone transaction needed memory while other still waited for workers; tables keep what they have.
    limit: Option<usize>,
    /// Whether the limit holds now.
    limited: bool,
}

impl Goals {
    fn of<K: Key>(&self) -> RouteTable {
        RouteTable { v6: K::V6, id: self.table }
    }
}

/// Changes that were applied, with the group that each route had before, if any.
struct Done<K> {
    owner: Rc<Owner>,
    /// Place of the table.
    fib_index: FibIndex,
    changes: Vec<Change<K>>,
    old: Vec<GroupId>,
}

/// What undoes a batch of changes of routes. It holds the groups that routes had before.
pub(super) struct RouteUndo {
    v4: Done<u32>,
    v6: Done<u128>,
}

/// The changes that were not applied, and the one that was refused.
struct Refused<K> {
    changes: Vec<Change<K>>,
    at: u32,
    error: OpError,
}

fn sort<K: Key>(changes: &mut [Change<K>]) {
    let order = |c: &Change<K>| (c.key, c.len, c.at);
    if !changes.is_sorted_by_key(order) {
        changes.sort_unstable_by_key(order);
    }
}

impl Router {
    /// Applies a batch. When one of its changes is refused, those before it are undone, and the error tells the first
    /// one in the order of the batch.
    pub(super) fn apply_routes(&mut self, batch: RouteBatch) -> Result<RouteUndo, OpError> {
        let RouteBatch { table, source, goals, v4, v6, .. } = batch;
        self.check_source(source)?;
        self.static_batches += u64::from(source == Source::Static);
        let owner = Rc::new(Owner { source, goals });
        let changes = v4.len() + v6.len();
        // What each prefix had before, and the same again where the error is looked for.
        if grows(&v4) || grows(&v6) {
            memory::check(changes * 2 * size_of::<u32>()).map_err(|e| {
                OpError::new(format!(
                    "there is no memory for {changes} routes at once: {e}: {}",
                    memory::HELP
                ))
            })?;
            // Many small batches take as much as a large one.
            self.fibs.budget.unlooked += changes;
        }
        let fib_index = |v6: bool, any: bool| {
            if any { self.fib_index_of(RouteTable { v6, id: table }) } else { Ok(FibIndex::MAIN) }
        };
        let fib_indexes = [fib_index(false, !v4.is_empty())?, fib_index(true, !v6.is_empty())?];
        let groups = [vec![GroupId::NONE; owner.goals.len()], vec![GroupId::NONE; owner.goals.len()]];
        self.fibs.budget.most_bytes = self.fibs.budget.most_bytes.max(self.route_bytes());
        let limit = self.config.route_memory.map(|limit| limit.max(self.fibs.budget.most_bytes));
        let limit = if self.fibs.budget.unlooked < LARGE { limit } else { self.limit_now(limit) };
        let mut goals = Goals {
            owner,
            table,
            fib_indexes,
            groups,
            mixes: HashMap::new(),
            held: vec![],
            limit,
            limited: true,
        };
        let result = self.apply_checked(&mut goals, v4, v6);
        self.fibs.budget.short = None;
        goals.held.into_iter().for_each(|id| self.let_go(id));
        result
    }

    /// The most bytes that all routes may take, where others may have taken memory since the limit was chosen.
    fn limit_now(&mut self, limit: Option<usize>) -> Option<usize> {
        // A table that grows stands there twice for a moment: a third of what there will be must be left.
        let (has, spare) = (self.route_bytes(), memory::spare());
        self.fibs.budget.unlooked = 0;
        // What grows little, such as groups of next hops for routes that are there, may take a part of what is left.
        let most = has + (spare / 4 * 3).saturating_sub(has / 4).max(spare.min(LITTLE));
        if limit.is_some_and(|limit| limit <= most) {
            return limit;
        }
        self.fibs.budget.short = Some(most);
        Some(most)
    }

    fn apply_checked(
        &mut self,
        goals: &mut Goals,
        mut v4: Vec<Change<u32>>,
        mut v6: Vec<Change<u128>>,
    ) -> Result<RouteUndo, OpError> {
        let wrong = [self.first_wrong(goals, &v4), self.first_wrong(goals, &v6)];
        if let Some((at, e)) = wrong.into_iter().flatten().min_by_key(|(at, _)| *at) {
            return Err(OpError { route: at as usize, ..e });
        }
        // Neighbouring prefixes share memory, so that this order is several times faster than a random one.
        sort(&mut v4);
        sort(&mut v6);
        // Nothing of a batch that is refused is ever seen by packets, unless it is refused for want of memory.
        let wrong = [self.first_misfit(goals, &v4), self.first_misfit(goals, &v6)];
        if let Some((at, e)) = wrong.into_iter().flatten().min_by_key(|(at, _)| *at) {
            return Err(OpError { route: at as usize, ..e });
        }
        let (refused, v4, v6) = match self.run(goals, v4, true) {
            Ok(v4) => match self.run(goals, v6, true) {
                Ok(v6) => return Ok(RouteUndo { v4, v6 }),
                Err(r6) => {
                    let fits = r6.error.fits.map(|n| n + v4.changes.len());
                    let e = OpError { route: r6.at as usize, fits, ..r6.error };
                    (e, self.revert(v4), r6.changes)
                }
            },
            Err(r4) => (OpError { route: r4.at as usize, ..r4.error }, r4.changes, v6),
        };
        if refused.fits.is_some() {
            return Err(refused);
        }
        Err(self.first_refused(goals, v4, v6).unwrap_or(refused))
    }

    /// What is refused first when the changes are made in the order given. The limit of memory is not looked at: what
    /// was undone may still wait for workers.
    fn first_refused(
        &mut self,
        goals: &mut Goals,
        mut v4: Vec<Change<u32>>,
        mut v6: Vec<Change<u128>>,
    ) -> Option<OpError> {
        v4.sort_unstable_by_key(|c| c.at);
        v6.sort_unstable_by_key(|c| c.at);
        let (v4, v6) = (self.refusal(goals, v4), self.refusal(goals, v6));
        v4.into_iter().chain(v6).min_by_key(|e| e.route)
    }

    fn refusal<K: Key>(&mut self, goals: &mut Goals, changes: Vec<Change<K>>) -> Option<OpError> {
        match self.run(goals, changes, false) {
            Ok(done) => {
                self.revert(done);
                None
            }
            Err(r) => Some(OpError { route: r.at as usize, ..r.error }),
        }
    }

    /// The first change that can be seen to be wrong without looking at the tables.
    fn first_wrong<K: Key>(&self, goals: &Goals, changes: &[Change<K>]) -> Option<(u32, OpError)> {
        let mut checked = vec![false; goals.owner.goals.len()];
        let wrong = goals.owner.goals.iter().any(|g| g.rank.check().is_err());
        for c in changes {
            let prefix = c.prefix();
            if prefix != prefix.trunc() {
                let right = prefix.trunc();
                let e = format!("{prefix} has bits set behind its length: the prefix is {right}");
                return Some((c.at, OpError::new(e)));
            }
            if wrong && let Err(e) = goals.owner.rank(c).check() {
                return Some((c.at, OpError::new(format!("route {prefix}: {e}"))));
            }
            let Some(target) = goals.owner.target(c) else { continue };
            let result = match c.verb() {
                Verb::Set | Verb::Add if !checked[c.target()] => {
                    self.check_target(goals.table, prefix, target)
                }
                _ => Ok(()),
            };
            checked[c.target()] |= matches!(c.verb(), Verb::Set | Verb::Add);
            if let Err(e) = result {
                return Some((c.at, e));
            }
        }
        None
    }

    /// The first change that does not fit the routes there are, with those before it made. The changes are sorted.
    fn first_misfit<K: Key>(&self, goals: &Goals, changes: &[Change<K>]) -> Option<(u32, OpError)> {
        if changes.iter().all(|c| c.verb() == Verb::Set) {
            return None;
        }
        let fib_index = goals.fib_indexes[usize::from(K::V6)];
        let of_prefix = changes.chunk_by(|a, b| (a.key, a.len) == (b.key, b.len));
        let owner = &goals.owner;
        let misfits = of_prefix.filter_map(|changes| {
            if changes.iter().all(|c| c.verb() == Verb::Set) {
                return None;
            }
            let prefix = changes.first()?.prefix();
            // Routes of several ranks are rare.
            let mut routes: Vec<(Rank, Option<Cow<'_, Target>>)> = vec![];
            for c in changes {
                let rank = owner.rank(c);
                let at = match routes.iter().position(|(known, _)| *known == rank) {
                    Some(at) => at,
                    None => {
                        let group = self.group_of_route(fib_index, prefix, owner.source, rank);
                        let target = group.and_then(|g| self.nexthops.target(g)).map(Cow::Borrowed);
                        routes.push((rank, target));
                        routes.len() - 1
                    }
                };
                let target = owner.target(c).map(Cow::Borrowed);
                let route = &mut routes[at].1;
                *route = match (c.verb(), &route) {
                    (Verb::Set, _) | (Verb::Add, None) => target,
                    (Verb::Del, Some(_)) => None,
                    (Verb::Del, None) if owner.source != Source::Static => None,
                    (Verb::Del, None) => return Some((c.at, owner.no_route(prefix, ""))),
                    (Verb::DelPaths, None) => return Some((c.at, owner.no_route(prefix, " with paths"))),
                    (Verb::Add | Verb::DelPaths, Some(known)) => match self.mixed_target(goals, c, known) {
                        Ok(target) => target.map(Cow::Owned),
                        Err(e) => return Some((c.at, e)),
                    },
                };
            }
            None
        });
        misfits.min_by_key(|(at, _)| *at)
    }

    /// Applies changes of one family in the order given. Nothing is applied when one of them is refused.
    fn run<K: Key>(
        &mut self,
        goals: &mut Goals,
        changes: Vec<Change<K>>,
        limited: bool,
    ) -> Result<Done<K>, Refused<K>> {
        let mut old = Vec::with_capacity(changes.len());
        // What is undone fits, as it was there before; so the limit holds only here.
        goals.limited = limited;
        let fib_index = goals.fib_indexes[usize::from(K::V6)];
        self.set_limit::<K>(goals);
        let refused = changes.iter().find_map(|c| match self.change(goals, c) {
            Ok(group) => {
                old.push(group);
                None
            }
            Err(e) => Some((c.at, e)),
        });
        self.limit::<K>(goals, None);
        self.settle(K::V6, fib_index);
        match refused {
            Some((at, mut error)) => {
                error.fits = error.fits.map(|_| old.len());
                let owner = Rc::clone(&goals.owner);
                let changes = self.revert(Done { owner, fib_index, changes, old });
                Err(Refused { changes, at, error })
            }
            None => Ok(Done { owner: Rc::clone(&goals.owner), fib_index, changes, old }),
        }
    }

    fn change<K: Key>(&mut self, goals: &mut Goals, c: &Change<K>) -> Result<GroupId, OpError> {
        let (prefix, fib_index) = (c.prefix(), goals.fib_indexes[usize::from(K::V6)]);
        let (source, rank) = (goals.owner.source, goals.owner.rank(c));
        let new = match c.verb() {
            Verb::Set => Some(self.goal(goals, c)?),
            Verb::Del => None,
            Verb::Add => match self.group_of_route(fib_index, prefix, source, rank) {
                None => Some(self.goal(goals, c)?),
                Some(group) => self.mix::<K>(goals, c, group)?,
            },
            Verb::DelPaths => match self.group_of_route(fib_index, prefix, source, rank) {
                None => return Err(goals.owner.no_route(prefix, " with paths")),
                Some(group) => self.mix::<K>(goals, c, group)?,
            },
        };
        let old = self.put(fib_index, prefix, (source, rank), new)?;
        if let Some(group) = new {
            self.nexthops.add_route(group);
        }
        match old {
            Some(group) => self.nexthops.leave(group),
            None if new.is_none() && source == Source::Static => {
                return Err(goals.owner.no_route(prefix, ""));
            }
            None => {}
        }
        Ok(old.unwrap_or_default())
    }

    /// Sets the most bytes of the batch's table of this family.
    fn limit<K: Key>(&mut self, goals: &Goals, bytes: Option<usize>) {
        if let Some(vrf) = self.fibs.get_mut(K::V6, goals.fib_indexes[usize::from(K::V6)]) {
            vrf.rib.set_limit(bytes);
        }
    }

    /// The table may take what the others and the groups leave.
    fn set_limit<K: Key>(&mut self, goals: &Goals) {
        let fib_index = goals.fib_indexes[usize::from(K::V6)];
        self.fibs.count(K::V6, fib_index);
        let own = self.fibs.get(K::V6, fib_index).map_or(0, |v| v.rib.bytes());
        let other = self.fibs.bytes() - own;
        let limit = goals.limit.filter(|_| goals.limited);
        // What a table has it may use.
        let limit = limit.map(|limit| limit.saturating_sub(other + self.nexthops.bytes()).max(own));
        self.limit::<K>(goals, limit);
    }

    /// A group was made: refuses it when there is no memory for it.
    fn check_groups<K: Key>(&mut self, goals: &Goals, prefix: IpNet) -> Result<(), OpError> {
        self.set_limit::<K>(goals);
        match goals.limit {
            Some(limit) if goals.limited && self.route_bytes() > limit => {
                Err(self.out_of_memory(prefix, limit))
            }
            _ => Ok(()),
        }
    }

    /// The group of a target.
    fn goal<K: Key>(&mut self, goals: &mut Goals, c: &Change<K>) -> Result<GroupId, OpError> {
        let (family, target) = (usize::from(K::V6), c.target());
        let known = goals.groups[family][target];
        if known != GroupId::NONE {
            return Ok(known);
        }
        let wanted = goals.owner.target(c).cloned().unwrap_or(Target::Drop);
        let object = goals.owner.goals.get(target).map_or(RouteObject::NONE, |g| g.object);
        let of = (goals.owner.source, goals.owner.rank(c), object);
        let id = self.hold_group_of(of, goals.of::<K>(), wanted)?;
        goals.held.push(id);
        self.check_groups::<K>(goals, c.prefix())?;
        goals.groups[family][target] = id;
        Ok(id)
    }

    /// What a route to `known` does with, or without, the paths of the change; `None`: it goes.
    fn mixed_target<K: Key>(
        &self,
        goals: &Goals,
        c: &Change<K>,
        known: &Target,
    ) -> Result<Option<Target>, OpError> {
        let (add, prefix) = (c.verb() == Verb::Add, c.prefix());
        let change = goals.owner.target(c).unwrap_or(&Target::Drop);
        let why = match (change, known) {
            (Target::Paths(change), Target::Paths(paths)) => {
                let paths = mixed(prefix, paths, change, add)?;
                let target = (!paths.is_empty()).then_some(Target::Paths(paths));
                if let Some(t) = target.as_ref().filter(|_| add) {
                    self.check_target(goals.table, prefix, t)?;
                }
                return Ok(target);
            }
            (Target::Paths(_), _) if add => {
                format!("route {prefix} drops its packets: remove it before adding a path")
            }
            (Target::Paths(_), _) => format!("there is no static route {prefix} with paths"),
            (same, known) if same == known => return Ok(add.then(|| same.clone())),
            _ if add => {
                format!("route {prefix} is there already: remove it first, or use 'ip route set'")
            }
            _ => format!("the static route {prefix} does something else"),
        };
        Err(OpError::new(why))
    }

    /// The group for the paths of `group` with, or without, those of the change.
    fn mix<K: Key>(
        &mut self,
        goals: &mut Goals,
        c: &Change<K>,
        group: GroupId,
    ) -> Result<Option<GroupId>, OpError> {
        let (add, prefix) = (c.verb() == Verb::Add, c.prefix());
        let key = (group, c.target() as u32, add);
        if let Some(&id) = goals.mixes.get(&key) {
            return Ok((id != GroupId::NONE).then_some(id));
        }
        let target = match self.nexthops.target(group) {
            Some(known) => self.mixed_target(goals, c, known)?,
            None => return Err(goals.owner.no_route(prefix, " with paths")),
        };
        let id = match target {
            Some(target) => {
                let of = (goals.owner.source, goals.owner.rank(c), RouteObject::NONE);
                let id = self.hold_group_of(of, goals.of::<K>(), target)?;
                goals.held.push(id);
                self.check_groups::<K>(goals, prefix)?;
                id
            }
            None => GroupId::NONE,
        };
        // The key's group must not be given to others while the answer is kept.
        let known = self.nexthops.hold(group);
        goals.held.extend(known.then_some(group));
        goals.mixes.insert(key, id);
        Ok((id != GroupId::NONE).then_some(id))
    }

    /// Puts the routes back that were there before; answers the changes.
    fn revert<K: Key>(&mut self, done: Done<K>) -> Vec<Change<K>> {
        let Done { owner, fib_index, changes, old } = done;
        for (c, &group) in changes.iter().zip(&old).rev() {
            let before = (group != GroupId::NONE).then_some(group);
            match self.put(fib_index, c.prefix(), (owner.source, owner.rank(c)), before) {
                Ok(new) => {
                    if let Some(id) = new {
                        // It may be the last one: the transaction no longer holds groups when a later operation fails.
                        self.nexthops.leave(id);
                        self.let_go(id);
                    }
                    if group != GroupId::NONE {
                        self.nexthops.come_back(group);
                    }
                }
                Err(e) => self.note(true, format!("cannot undo a part of a failed transaction: {e}")),
            }
        }
        self.settle(K::V6, fib_index);
        changes
    }

    /// Undoes a batch that was applied.
    pub(super) fn undo_routes(&mut self, undo: RouteUndo) {
        self.revert(undo.v6);
        self.revert(undo.v4);
    }

    /// The transaction stands: what routes had before is not needed any more.
    pub(super) fn keep_routes(&mut self, undo: RouteUndo) {
        for group in undo.v4.old.into_iter().chain(undo.v6.old).filter(|g| *g != GroupId::NONE) {
            self.let_go(group);
        }
    }
}

/// `paths` with those of `change`, or without them.
fn mixed(
    prefix: IpNet,
    paths: &[RoutePath],
    change: &[RoutePath],
    add: bool,
) -> Result<Vec<RoutePath>, OpError> {
    let mut paths = paths.to_vec();
    for path in change {
        let before = paths.len();
        paths.retain(|p| !p.is_same(path));
        if add {
            paths.push(*path);
        } else if paths.len() == before {
            return Err(OpError::new(format!("the static route {prefix} has no such path")));
        }
    }
    Ok(paths)
}
