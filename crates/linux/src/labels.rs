//! The routes of labels, as messages tell of them: of each label one.

use crate::route::{LabelChange, Route};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The routes of labels.
#[derive(Debug, Default)]
pub(crate) struct LabelRoutes {
    /// By label; whether the reading that goes on has seen it.
    routes: BTreeMap<u32, (Arc<Route>, bool)>,
    changes: Vec<LabelChange>,
}

impl LabelRoutes {
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// All will be told anew.
    pub fn begin(&mut self) {
        self.routes.values_mut().for_each(|(_, seen)| *seen = false);
    }

    /// All was told: what was not is gone.
    pub fn end(&mut self) {
        let gone: Vec<u32> = self.routes.iter().filter(|(_, (_, seen))| !seen).map(|(l, _)| *l).collect();
        gone.into_iter().for_each(|label| self.remove(label));
    }

    pub fn set(&mut self, label: u32, route: Route) {
        let was = self.routes.get_mut(&label);
        if let Some((was, seen)) = was
            && **was == route
        {
            *seen = true;
            return;
        }
        let is = Arc::new(route);
        let was = self.routes.insert(label, (Arc::clone(&is), true)).map(|(r, _)| r);
        self.changes.push(LabelChange { key: label, was, is: Some(is) });
    }

    pub fn remove(&mut self, label: u32) {
        if let Some((was, _)) = self.routes.remove(&label) {
            self.changes.push(LabelChange { key: label, was: Some(was), is: None });
        }
    }

    /// What has changed since this was asked last.
    pub fn take_changes(&mut self) -> Vec<LabelChange> {
        std::mem::take(&mut self.changes)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<Route>)> {
        self.routes.iter().map(|(label, (route, _))| (*label, route))
    }
}
