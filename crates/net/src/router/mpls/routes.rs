//! Changing label routes, one or a million, and looking at them.

use super::batch::{Change, LabelBatch, Verb, join, split};
use super::check;
use crate::router::nexthops::Source;
use crate::router::{MplsOp, Op, OpError, RoutePath, Router, Target};
use graph::memory::{self, Growth, HELP, OutOfMemory};
use std::collections::HashMap;
use tables::labels::{LabelEntry, place};

/// What undoes a batch: what was at each place before, in the order of the changes. It holds the groups.
pub(in crate::router) struct LabelUndo {
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
    pub group: u32,
    /// The label that the entry itself holds, as [`crate::labels::Push`]; 0: none.
    pub swap: u32,
}

/// Entries of a batch that do not ask for memory.
const FEW: usize = 4096;

impl Router {
    /// Applies a batch, or nothing of it.
    pub(in crate::router) fn apply_labels(&mut self, batch: LabelBatch) -> Result<LabelUndo, OpError> {
        let LabelBatch { table, targets, changes, .. } = batch;
        self.checked_label_place(table)?;
        let mut growth = Growth::default();
        let short = |e: OutOfMemory| format!("no memory is left for it: {e}: {HELP}");
        let grows = changes.iter().any(|c| matches!(c.verb, Verb::Set | Verb::Add));
        if grows {
            memory::check(changes.len() * size_of::<(u32, Option<LabelEntry>)>())
                .map_err(|e| OpError::new(short(e)))?;
        }
        let mut undo = LabelUndo { table, old: Vec::with_capacity(changes.len()) };
        let mut groups: Vec<Option<u32>> = vec![None; targets.len()];
        let mut checked: HashMap<(u32, bool), ()> = HashMap::new();
        let mut result = Ok(());
        for (at, c) in changes.iter().enumerate() {
            let done = check::label(c.place).and_then(|()| {
                if matches!(c.verb, Verb::Set | Verb::Add)
                    && !checked.contains_key(&(c.target, c.place & 1 == 1))
                {
                    self.check_labels(c.place, &join(&targets[c.target as usize], c.swap))?;
                    checked.insert((c.target, c.place & 1 == 1), ());
                } else if c.swap != 0 {
                    // Which label it is differs from entry to entry.
                    let whole = join(&targets[c.target as usize], c.swap);
                    let Target::Paths(paths) = &whole else { return Ok(()) };
                    paths.iter().try_for_each(|p| p.labels.check())?;
                }
                Ok(())
            });
            let before = self.nexthops.bytes();
            let done = done.and_then(|()| self.change_label(table, c, &targets, &mut groups, &mut undo));
            // What a few entries take is small against the reserve, and so is the group that is made before it is asked.
            let grown = if at < FEW { 0 } else { self.nexthops.bytes().saturating_sub(before) };
            let done = done.and_then(|()| growth.take(grown).map_err(short));
            if let Err(why) = done {
                let what =
                    if c.place < tables::labels::ENTRIES { check::name(c.place) } else { "label".into() };
                result = Err(OpError { route: at, ..OpError::new(format!("{what}: {why}")) });
                break;
            }
        }
        groups.into_iter().flatten().for_each(|g| self.let_go(g));
        match result {
            Ok(()) => Ok(undo),
            Err(e) => {
                self.undo_labels(undo);
                Err(e)
            }
        }
    }

    fn change_label(
        &mut self,
        table: u32,
        c: &Change,
        targets: &[Target],
        groups: &mut [Option<u32>],
        undo: &mut LabelUndo,
    ) -> Result<(), String> {
        let known = self.label_entry(table, c.place);
        let target = || targets.get(c.target as usize).ok_or("it has no target");
        let new = match (c.verb, known) {
            (Verb::Del, None) => return Err(format!("there is no such route in MPLS table {table}")),
            (Verb::Del, Some(_)) => None,
            (Verb::Set, _) | (Verb::Add, None) => {
                let group = match groups.get(c.target as usize).copied().flatten() {
                    Some(g) => g,
                    None => {
                        let g = self.hold_label_group(Source::Static, target()?.clone());
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
                let mixed = mix(self.label_target(entry), change, verb == Verb::Add)?;
                match mixed {
                    None => None,
                    Some(whole) => {
                        self.check_labels(c.place, &whole)?;
                        let (wanted, swap) = split(&whole);
                        let group = self.hold_label_group(Source::Static, wanted).map_err(|e| e.message)?;
                        self.put_label(table, c.place, Some(LabelEntry { group, swap }), undo);
                        self.let_go(group);
                        return Ok(());
                    }
                }
            }
        };
        self.put_label(table, c.place, new, undo);
        Ok(())
    }

    fn put_label(&mut self, table: u32, place: u32, new: Option<LabelEntry>, undo: &mut LabelUndo) {
        let Some(t) = self.labels.by_id.get_mut(&table) else { return };
        let old = t.labels.set(place, new);
        if let Some(e) = new {
            self.nexthops.add_route(e.group);
        }
        if let Some(e) = old {
            self.nexthops.leave(e.group);
        }
        undo.old.push((place, old));
    }

    /// Undoes a batch.
    pub(in crate::router) fn undo_labels(&mut self, undo: LabelUndo) {
        for (place, old) in undo.old.into_iter().rev() {
            let Some(t) = self.labels.by_id.get_mut(&undo.table) else { continue };
            let new = t.labels.set(place, old);
            if let Some(e) = new {
                self.nexthops.leave(e.group);
                self.let_go(e.group);
            }
            if let Some(e) = old {
                self.nexthops.come_back(e.group);
            }
        }
    }

    /// The transaction stands: what labels had before is not needed any more.
    pub(in crate::router) fn keep_labels(&mut self, undo: LabelUndo) {
        for (_, old) in undo.old {
            if let Some(e) = old {
                self.let_go(e.group);
            }
        }
    }

    /// What takes the static routes out of a table that is to go.
    pub(in crate::router) fn empty_label_table(&self, table: u32) -> Option<LabelBatch> {
        let mut batch = LabelBatch::in_table(table);
        for r in self.label_routes(table, 0).filter(|r| r.source == Source::Static) {
            batch.del(r.label, r.bottom);
        }
        (!batch.is_empty()).then_some(batch)
    }

    /// What takes out all labels, and all tables but the first.
    pub(in crate::router) fn no_labels(&self) -> Vec<Op> {
        let tables = self.label_tables();
        let batches = tables.iter().filter_map(|t| self.empty_label_table(t.id));
        let mut ops: Vec<Op> = batches.map(|b| Op::Mpls(MplsOp::Routes(b))).collect();
        let further = tables.iter().filter(|t| t.id != 0);
        ops.extend(further.map(|t| Op::Mpls(MplsOp::DeleteTable { table: t.id })));
        ops
    }

    fn label_entry(&self, table: u32, place: u32) -> Option<LabelEntry> {
        self.labels.get(table)?.labels.get(place)
    }

    /// What a label was asked to do.
    fn label_target(&self, entry: LabelEntry) -> Option<Target> {
        self.nexthops.target(entry.group).map(|t| join(t, entry.swap))
    }

    fn label_route_at(&self, place: u32, entry: LabelEntry) -> Option<LabelRoute> {
        let source = self.nexthops.source(entry.group)?;
        let target = self.label_target(entry)?;
        let (label, bottom) = (place >> 1, place & 1 == 1);
        Some(LabelRoute { label, bottom, source, target, group: entry.group, swap: entry.swap })
    }

    /// The route of a label.
    pub fn label_route(&self, table: u32, label: u32, bottom: bool) -> Option<LabelRoute> {
        let place = place(label, bottom);
        self.label_route_at(place, self.label_entry(table, place)?)
    }

    /// The routes of a label table from a label on, in order.
    pub fn label_routes(&self, table: u32, from: u32) -> Box<dyn Iterator<Item = LabelRoute> + '_> {
        let Some(t) = self.labels.get(table) else { return Box::new(std::iter::empty()) };
        let all = t.labels.iter_from(place(from.min(tables::labels::LABELS), false));
        Box::new(all.filter_map(|(place, entry)| self.label_route_at(place, entry)))
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
