//! Changing label routes, one or a million, and looking at them.

use super::batch::{Change, LabelBatch, join, split};
use super::check::{self, check_labels};
use super::part::{MplsOp, known_label_table, label_tables, state, table_mut};
use crate::router::{Held, OpError, RoutePath, RouteSource, Router, Source, Target, Verb};
use graph::memory::{self, Growth, HELP, OutOfMemory};
use std::collections::HashMap;
use tables::groups::GroupId;
use tables::labels::{LabelEntry, key};

/// What undoes a batch: what each label had before, in the order of the changes. It holds the groups.
pub(super) struct LabelUndo {
    table: u32,
    old: Vec<(u32, Option<LabelEntry>)>,
}

/// A label route as `show mpls fib` lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelRoute {
    /// The label.
    pub label: u32,
    /// Whether it holds for the label at the bottom of the stack.
    pub bottom: bool,
    /// Who wants it.
    pub source: Source,
    /// What was asked for.
    pub target: Target,
    /// The next-hop group.
    pub group: GroupId,
    /// The label that the entry itself holds, as [`crate::labels::Push`]; 0: none.
    pub swap: u32,
}

/// Entries of a batch that do not ask for memory.
const FEW: usize = 4096;

/// Applies a batch, or nothing of it.
pub(super) fn apply_labels(router: &mut Router, batch: LabelBatch) -> Result<LabelUndo, OpError> {
    let LabelBatch { table, source, targets, changes, .. } = batch;
    known_label_table(router, table)?;
    router.static_batches += u64::from(source == Source::Static);
    let mut growth = Growth::default();
    let short = |e: OutOfMemory| format!("no memory is left for it: {e}: {HELP}");
    let grows = changes.iter().any(|c| matches!(c.verb, Verb::Set | Verb::Add));
    if grows {
        memory::check(changes.len() * size_of::<(u32, Option<LabelEntry>)>())
            .map_err(|e| OpError::new(short(e)))?;
    }
    let mut undo = LabelUndo { table, old: Vec::with_capacity(changes.len()) };
    let mut groups: Vec<Option<GroupId>> = vec![None; targets.len()];
    let mut checked: HashMap<(u32, bool), ()> = HashMap::new();
    let mut result = Ok(());
    for (at, c) in changes.iter().enumerate() {
        let done = check::label(c.key).and_then(|()| {
            if matches!(c.verb, Verb::Set | Verb::Add) && !checked.contains_key(&(c.target, c.key & 1 == 1)) {
                check_labels(router, c.key, &join(&targets[c.target as usize], c.swap))?;
                checked.insert((c.target, c.key & 1 == 1), ());
            } else if c.swap != 0 {
                // Which label it is differs from entry to entry.
                let whole = join(&targets[c.target as usize], c.swap);
                let Target::Paths(paths) = &whole else { return Ok(()) };
                paths.iter().try_for_each(|p| p.labels.check())?;
            }
            Ok(())
        });
        let before = router.nexthops().bytes();
        let done =
            done.and_then(|()| change_label(router, (table, source), c, &targets, &mut groups, &mut undo));
        // What a few entries take is small against the reserve, and so is the group that is made before it is asked.
        let grown = if at < FEW { 0 } else { router.nexthops().bytes().saturating_sub(before) };
        let done = done.and_then(|()| growth.take(grown).map_err(short));
        if let Err(why) = done {
            let what = if c.key < tables::labels::ENTRIES { check::name(c.key) } else { "label".into() };
            result = Err(OpError { route: at, ..OpError::new(format!("{what}: {why}")) });
            break;
        }
    }
    groups.into_iter().flatten().for_each(|g| router.let_go(g));
    match result {
        Ok(()) => Ok(undo),
        Err(e) => {
            undo_labels(router, undo);
            Err(e)
        }
    }
}

fn change_label(
    router: &mut Router,
    (table, source): (u32, Source),
    c: &Change,
    targets: &[Target],
    groups: &mut [Option<GroupId>],
    undo: &mut LabelUndo,
) -> Result<(), String> {
    let known = label_entry(router, table, c.key);
    let owner = known.and_then(|e| router.nexthops().source(e.group));
    if let Some(owner) = owner.filter(|o| *o != source) {
        // The operator takes a label from a daemon by setting it, and not the other way round.
        if source != Source::Static || c.verb != Verb::Set {
            return Err(format!("it has a route of {}", router.source_name(owner)));
        }
    }
    let target = || targets.get(c.target as usize).ok_or("it has no target");
    let new = match (c.verb, known) {
        (Verb::Del, None) => return Err(format!("there is no such route in MPLS table {table}")),
        (Verb::Del, Some(_)) => None,
        (Verb::Set, _) | (Verb::Add, None) => {
            let group = match groups.get(c.target as usize).copied().flatten() {
                Some(g) => g,
                None => {
                    let g = router.hold_label_group(source, target()?.clone());
                    let g = g.map_err(|e| e.message)?;
                    groups[c.target as usize] = Some(g);
                    g
                }
            };
            Some(LabelEntry { group, swap: c.swap })
        }
        (Verb::DelPaths, None) => return Err(format!("there is no such route in MPLS table {table}")),
        (verb @ (Verb::Add | Verb::DelPaths), Some(entry)) => {
            let change = join(target()?, c.swap);
            let mixed = mix(label_target(router, entry), change, verb == Verb::Add)?;
            match mixed {
                None => None,
                Some(whole) => {
                    check_labels(router, c.key, &whole)?;
                    let (wanted, swap) = split(&whole);
                    let group = router.hold_label_group(source, wanted).map_err(|e| e.message)?;
                    put_label(router, table, c.key, Some(LabelEntry { group, swap }), undo);
                    router.let_go(group);
                    return Ok(());
                }
            }
        }
    };
    put_label(router, table, c.key, new, undo);
    Ok(())
}

fn put_label(router: &mut Router, table: u32, key: u32, new: Option<LabelEntry>, undo: &mut LabelUndo) {
    let Some(t) = table_mut(router, table) else { return };
    let old = t.labels.set(key, new);
    if let Some(e) = new {
        router.nexthops_mut().add_route(e.group);
    }
    if let Some(e) = old {
        router.nexthops_mut().leave(e.group);
    }
    undo.old.push((key, old));
}

/// Undoes a batch.
pub(super) fn undo_labels(router: &mut Router, undo: LabelUndo) {
    for (key, old) in undo.old.into_iter().rev() {
        let Some(t) = table_mut(router, undo.table) else { continue };
        let new = t.labels.set(key, old);
        if let Some(e) = new {
            router.nexthops_mut().leave(e.group);
            router.let_go(e.group);
        }
        if let Some(e) = old {
            router.nexthops_mut().come_back(e.group);
        }
    }
}

/// The transaction stands: what labels had before is not needed any more.
pub(super) fn keep_labels(router: &mut Router, undo: LabelUndo) {
    for (_, old) in undo.old {
        if let Some(e) = old {
            router.let_go(e.group);
        }
    }
}

/// Labels looked at in a piece of a sweep.
const SWEPT_AT_ONCE: usize = 2048;

/// Takes away some of the routes of a source, of labels from one on, that were not set again since they were marked; where to go on.
///
/// # Errors
/// Removing is refused, which is a bug.
pub fn sweep_labels(
    router: &mut Router,
    source: RouteSource,
    from: (u32, u32),
) -> Result<Option<(u32, u32)>, OpError> {
    let (table, first) = from;
    if !label_tables(router).iter().any(|t| t.id == table)
        || router.nexthops().labels_of(Source::Runtime(source)) == 0
    {
        return Ok(None);
    }
    let mut batch = LabelBatch::of_source(source, table);
    let mut last = None;
    let mut seen = 0;
    for r in label_routes(router, table, first).take(SWEPT_AT_ONCE) {
        (last, seen) = (Some(r.label), seen + 1);
        if r.source == Source::Runtime(source) && router.is_stale(source, r.group) {
            batch.del(r.label, r.bottom);
        }
    }
    if !batch.is_empty() {
        router.commit(vec![MplsOp::Routes(batch).into()])?;
    }
    // The last label may have one more entry.
    Ok(last.filter(|_| seen == SWEPT_AT_ONCE).map(|label| (table, label)))
}

/// What takes the static routes out of a table that is to go.
pub(super) fn empty_label_table(router: &Router, table: u32) -> Option<LabelBatch> {
    let mut batch = LabelBatch::in_table(table);
    for r in label_routes(router, table, 0).filter(|r| r.source == Source::Static) {
        batch.del(r.label, r.bottom);
    }
    (!batch.is_empty()).then_some(batch)
}

/// What takes out all labels, and all tables but the first.
pub(super) fn no_labels(router: &Router) -> Vec<MplsOp> {
    let tables = label_tables(router);
    let batches = tables.iter().filter_map(|t| empty_label_table(router, t.id));
    let mut ops: Vec<MplsOp> = batches.map(MplsOp::Routes).collect();
    let further = tables.iter().filter(|t| t.id != 0);
    ops.extend(further.map(|t| MplsOp::DeleteTable { table: t.id }));
    ops
}

fn label_entry(router: &Router, table: u32, key: u32) -> Option<LabelEntry> {
    state(router)?.get(table)?.labels.get(key)
}

/// What a label was asked to do.
fn label_target(router: &Router, entry: LabelEntry) -> Option<Target> {
    router.nexthops().target(entry.group).map(|t| join(t, entry.swap))
}

fn label_route_at(router: &Router, key: u32, entry: LabelEntry) -> Option<LabelRoute> {
    let source = router.nexthops().source(entry.group)?;
    let target = label_target(router, entry)?;
    let (label, bottom) = (key >> 1, key & 1 == 1);
    Some(LabelRoute { label, bottom, source, target, group: entry.group, swap: entry.swap })
}

/// The route of a label.
pub fn label_route(router: &Router, table: u32, label: u32, bottom: bool) -> Option<LabelRoute> {
    let key = key(label, bottom);
    label_route_at(router, key, label_entry(router, table, key)?)
}

/// The routes of a label table from a label on, in order.
pub fn label_routes(router: &Router, table: u32, from: u32) -> Box<dyn Iterator<Item = LabelRoute> + '_> {
    let Some(t) = state(router).and_then(|m| m.get(table)) else { return Box::new(std::iter::empty()) };
    let all = t.labels.iter_from(key(from.min(tables::labels::LABELS), false));
    Box::new(all.filter_map(|(key, entry)| label_route_at(router, key, entry)))
}

impl Held for LabelUndo {
    fn undo(self: Box<Self>, router: &mut Router) {
        undo_labels(router, *self);
    }

    fn keep(self: Box<Self>, router: &mut Router) {
        keep_labels(router, *self);
    }
}

/// `known` with the paths of `change`, or without them; `None` when nothing is left.
fn mix(known: Option<Target>, change: Target, add: bool) -> Result<Option<Target>, String> {
    let (mut paths, change) = match (known, change) {
        (Some(Target::Paths(paths)), Target::Paths(change)) => (paths, change),
        (Some(known), change) if known == change => return Ok(add.then_some(known)),
        _ if add => return Err("its packets are dropped, or are to be: remove it first, or use 'set'".into()),
        _ => return Err("it does something else".into()),
    };
    for path in &change {
        let before = paths.len();
        paths.retain(|p: &RoutePath| !p.is_same(path));
        if add {
            paths.push(*path);
        } else if paths.len() == before {
            return Err("it has no such path".into());
        }
    }
    Ok((!paths.is_empty()).then_some(Target::Paths(paths)))
}
