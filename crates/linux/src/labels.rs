//! The routes of labels, as messages tell of them: of each label one.

use crate::route::{LabelChange, Path, Route};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The routes of labels.
#[derive(Debug, Default)]
pub(crate) struct LabelRoutes {
    /// By label; whether the reading that goes on has seen it.
    routes: BTreeMap<u32, (Arc<Route>, bool)>,
    changes: Vec<LabelChange>,
}

/// Whether packets go over a device to no next hop.
fn into(p: &Path, ifindex: u32) -> bool {
    p.ifindex == ifindex && p.gateway.is_none()
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

    /// Packets that are sent over a device without their label are looked up in this table.
    pub fn follow(&mut self, ifindex: u32, table: Option<u32>) {
        let changes = |r: &Route| r.paths.iter().any(|p| into(p, ifindex) && p.table != table);
        for (label, (route, _)) in self.routes.iter_mut().filter(|(_, (r, _))| changes(r)) {
            let mut new = Route::clone(route);
            new.paths.iter_mut().filter(|p| into(p, ifindex)).for_each(|p| p.table = table);
            let is = Arc::new(new);
            let was = std::mem::replace(route, Arc::clone(&is));
            self.changes.push(LabelChange { key: *label, was: Some(was), is: Some(is) });
        }
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
