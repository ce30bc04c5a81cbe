//! Many changes of label routes as one operation.

use crate::labels::Push;
use crate::router::{RoutePath, RouteSource, Source, Target, Verb};
use std::collections::HashMap;
use tables::labels::key;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The label's key in its table.
    pub key: u32,
    pub verb: Verb,
    pub target: u32,
    pub swap: u32,
}

/// Changes of the routes of labels, applied by one [`super::MplsOp::Routes`].
#[derive(Clone, Debug, PartialEq)]
pub struct LabelBatch {
    pub(super) table: u32,
    /// Whose they are.
    pub(super) source: Source,
    /// As groups have them: without the labels that entries hold.
    pub(super) targets: Vec<Target>,
    numbers: HashMap<Target, u32>,
    pub(super) changes: Vec<Change>,
}

/// What a group holds of a target, and what the entry holds: the label that all paths put in the place of the one that came.
pub(super) fn split(target: &Target) -> (Target, u32) {
    let Target::Paths(paths) = target else { return (target.clone(), 0) };
    let swapped = paths.first().and_then(|p| p.labels.swapped());
    match swapped {
        Some(swap) if paths.iter().all(|p| p.labels.swapped() == Some(swap)) => {
            let left = |p: &RoutePath| RoutePath { labels: p.labels.left_to_entry(), ..*p };
            (Target::Paths(paths.iter().map(left).collect()), swap.0)
        }
        _ => (target.clone(), 0),
    }
}

/// The reverse of [`split`].
pub(super) fn join(target: &Target, swap: u32) -> Target {
    match target {
        Target::Paths(paths) if swap != 0 => {
            let whole = |p: &RoutePath| RoutePath { labels: p.labels.with_entry(Push(swap)), ..*p };
            Target::Paths(paths.iter().map(whole).collect())
        }
        other => other.clone(),
    }
}

impl LabelBatch {
    /// No changes, of the table of this number.
    pub fn in_table(table: u32) -> Self {
        LabelBatch {
            table,
            source: Source::Static,
            targets: vec![],
            numbers: HashMap::new(),
            changes: vec![],
        }
    }

    /// The same of a source that registered at run time: what others have set it leaves alone.
    pub fn of_source(source: RouteSource, table: u32) -> Self {
        LabelBatch { source: Source::Runtime(source), ..Self::in_table(table) }
    }

    /// The number of its table.
    pub fn table(&self) -> u32 {
        self.table
    }

    /// Sets the route of a label at the bottom of its stack or above it, in place of an earlier one.
    pub fn set(&mut self, label: u32, bottom: bool, target: &Target) {
        self.push(label, bottom, Verb::Set, target);
    }

    /// Adds the target's paths to the route of a label, or makes it. A path that it has already gets the new weight.
    pub fn add(&mut self, label: u32, bottom: bool, target: &Target) {
        self.push(label, bottom, Verb::Add, target);
    }

    /// Removes the target's paths from the route of a label, whatever their weights; the route goes with its last path.
    pub fn del_paths(&mut self, label: u32, bottom: bool, target: &Target) {
        self.push(label, bottom, Verb::DelPaths, target);
    }

    /// Removes the route of a label.
    pub fn del(&mut self, label: u32, bottom: bool) {
        self.changes.push(Change { key: at(label, bottom), verb: Verb::Del, target: 0, swap: 0 });
    }

    fn push(&mut self, label: u32, bottom: bool, verb: Verb, target: &Target) {
        let (target, swap) = split(target);
        let next = self.targets.len() as u32;
        let number = match self.numbers.get(&target) {
            Some(n) => *n,
            None => {
                self.numbers.insert(target.clone(), next);
                self.targets.push(target);
                next
            }
        };
        self.changes.push(Change { key: at(label, bottom), verb, target: number, swap });
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The key of a label; of what is no label one that no table has.
fn at(label: u32, bottom: bool) -> u32 {
    if label < tables::labels::LABELS { key(label, bottom) } else { u32::MAX }
}
