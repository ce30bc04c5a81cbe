//! Changes of the routes of labels, made in the router. Labels of a namespace are those of MPLS table 0, and stand for packets with more
//! labels behind and without; those that lead into a table for the latter alone.

use super::goals::LabelGoal;
use super::take::last_of_each;
use super::{Failed, Taken};
use linux::LabelChange;
use net::mpls::{LabelBatch, MplsOp};
use net::router::{RouteSource, Router, Target};

/// Where the labels of a namespace are.
pub(super) const TABLE: u32 = 0;

/// One change of one source's label, at the bottom of its stack or above it: the operator may have set either.
struct Step {
    label: u32,
    bottom: bool,
    source: RouteSource,
    /// `None`: it goes.
    target: Option<Target>,
}

impl Step {
    /// What a source's label comes to.
    fn all(label: u32, source: RouteSource, goal: &LabelGoal) -> impl Iterator<Item = Step> {
        let step =
            move |bottom: &bool| Step { label, bottom: *bottom, source, target: Some(goal.target.clone()) };
        goal.bottoms.iter().map(step)
    }

    fn put(&self, batch: &mut LabelBatch) {
        match &self.target {
            Some(target) => batch.set(self.label, self.bottom, target),
            None => batch.del(self.label, self.bottom),
        }
    }
}

impl Taken {
    fn source_of(&self, router: &mut Router, protocol: u8) -> Option<RouteSource> {
        let name = self.speaker.source_name(self.netns.as_deref(), protocol);
        router.route_source(&name, self.speaker.preference).ok()
    }

    /// Makes changes, at most some hundreds: the control thread does nothing else meanwhile.
    pub(super) fn take_labels(&self, router: &mut Router, changes: &[LabelChange]) {
        let mut steps: Vec<Step> = vec![];
        for LabelChange { key: label, was, is } in last_of_each(changes) {
            self.counts.failed.borrow_mut().remove(&Failed::Label(label));
            let was = was.and_then(|r| {
                let goal = self.label_goal(router, &r, -1)?;
                Some((self.source_of(router, r.protocol)?, goal))
            });
            let is = is.and_then(|r| {
                let goal = self.label_goal(router, &r, 1)?;
                Some((self.source_of(router, r.protocol)?, goal))
            });
            if let Some((source, goal)) = was {
                let stays = is.as_ref().filter(|(s, _)| *s == source).map_or(&[][..], |(_, is)| is.bottoms);
                let gone = Step::all(label, source, &goal).filter(|s| !stays.contains(&s.bottom));
                steps.extend(gone.map(|s| Step { target: None, ..s }));
            }
            if let Some((source, goal)) = is {
                steps.extend(Step::all(label, source, &goal));
            }
        }
        // In this order: a label goes over from one source to another.
        for run in steps.chunk_by(|a, b| a.source == b.source) {
            let count = match self.commit_labels(router, run) {
                Ok(()) => run.len(),
                Err(_) => run.iter().filter(|s| self.one_label(router, s)).count(),
            };
            self.counts.made.set(self.counts.made.get() + count as u64);
        }
    }

    fn commit_labels(&self, router: &mut Router, steps: &[Step]) -> Result<(), String> {
        let Some(first) = steps.first() else { return Ok(()) };
        let mut batch = LabelBatch::of_source(first.source, TABLE);
        steps.iter().for_each(|s| s.put(&mut batch));
        router.commit(vec![MplsOp::Routes(batch).into()]).map_err(|e| e.message)
    }

    /// One of several was refused.
    fn one_label(&self, router: &mut Router, step: &Step) -> bool {
        let made = self.commit_labels(router, std::slice::from_ref(step));
        if let (Err(why), Some(_)) = (&made, &step.target) {
            // What it was is right no longer.
            let gone = Step { target: None, ..*step };
            let _ = self.commit_labels(router, &[gone]);
            self.counts.fail(Failed::Label(step.label), why.clone());
        }
        made.is_ok()
    }

    fn label_goal(&self, router: &Router, route: &linux::Route, more: i64) -> Option<LabelGoal> {
        if route.paths.iter().any(|p| p.table.is_some()) {
            self.counts.other_tables.set(true);
        }
        self.counted(self.devices.label_goal(router, route), more)
    }
}
