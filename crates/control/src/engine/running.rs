//! What runs, as objects: read piece by piece from the router.
//!
//! All but the routes comes by way of the document that a dump writes, which is known to load to the same state. Routes are read from
//! the tables themselves: a million of them would take seconds as text.

use super::bulk::Goal;
use super::objects::Side;
use crate::dump::{Dump, Source};
use crate::written::Chunks;
use crate::yaml::{Diagnostics, Settings, check};
use graph::memory::OutOfMemory;
use ipnet::IpNet;
use net::router::{GroupId, Rank, RouteTable, Router};
use std::collections::{HashMap, HashSet};

/// Routes that are looked at for a piece.
const ROUTES: usize = 2000;

/// What runs, as far as it was read.
pub struct Reading {
    dump: Dump,
    text: Chunks,
    written: bool,
    /// It had changed before all but the routes was read.
    stale: bool,
    routes: Side,
    table: RouteTable,
    after: Option<IpNet>,
    /// Interfaces whose MAC address the operator chose; that of others is only written down.
    macs: HashSet<String>,
    begun: u64,
}

impl Default for Reading {
    fn default() -> Self {
        Reading {
            dump: Dump::without_routes(),
            text: Chunks::default(),
            written: false,
            stale: false,
            routes: Side::default(),
            table: RouteTable::V4,
            after: None,
            macs: HashSet::new(),
            begun: u64::MAX,
        }
    }
}

/// The table behind another, those of IPv4 first.
fn next_table(router: &Router, table: RouteTable) -> Option<RouteTable> {
    router.table_after(table).or((!table.v6).then_some(RouteTable::V6))
}

/// Routes in all tables.
pub(crate) fn route_count(router: &Router) -> usize {
    let tables = std::iter::successors(Some(RouteTable::V4), |t| next_table(router, *t));
    tables.map(|t| router.route_count(t)).sum()
}

impl Reading {
    /// A reading of a router, for whose routes there is memory.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(router: &Router) -> Result<Reading, OutOfMemory> {
        let mut reading = Reading::default();
        reading.routes.bulk.reserve(route_count(router))?;
        Ok(reading)
    }

    /// Reads the next piece; false at the end.
    pub fn next(&mut self, router: &Router, settings: &Settings) -> bool {
        if self.begun == u64::MAX {
            self.begun = router.said();
        }
        if !self.written {
            match self.dump.next_text(Source { router, settings }) {
                Some(text) => self.text.push(&text),
                None => {
                    (self.written, self.stale) = (true, self.begun != router.said());
                    let chosen = router.interfaces().filter(|i| i.operators_mac().is_some());
                    self.macs = chosen.map(|i| i.name.clone()).collect();
                }
            }
            return true;
        }
        self.routes(router)
    }

    /// All but the routes was read.
    pub fn has_routes_left_only(&self) -> bool {
        self.written
    }

    /// Whether anything but routes has changed while that was read. What changes behind it a plan meets as what changes after it.
    pub fn is_stale(&self, router: &Router) -> bool {
        if self.written { self.stale } else { self.begun != router.said() }
    }

    fn routes(&mut self, router: &Router) -> bool {
        // Groups come and go: their goals are known for one piece.
        let mut goals: HashMap<GroupId, Option<(Rank, u32)>> = HashMap::new();
        for (seen, r) in router.routes_after(self.table, self.after).enumerate() {
            if seen >= ROUTES {
                return true;
            }
            self.after = Some(r.prefix);
            for group in router.static_routes_at(&r) {
                let routes = &mut self.routes;
                let goal = goals.entry(group).or_insert_with(|| {
                    let group = router.group(group)?;
                    let goal = Goal::of_router(router, &group.target)?;
                    Some((group.rank, routes.add_goal(goal)))
                });
                if let Some((rank, goal)) = *goal {
                    self.routes.add_route((self.table.id, r.prefix, rank), goal);
                }
            }
        }
        let next = next_table(router, self.table);
        self.table = next.unwrap_or(self.table);
        self.after = None;
        next.is_some()
    }

    /// The objects. Takes as long as it takes to load the document: not for the control thread.
    ///
    /// # Errors
    /// The running state does not load, which is a bug.
    pub fn side(self) -> Result<Side, Diagnostics> {
        let document = check("the running state", &self.text.whole())?;
        let mut side = Side::of(&document);
        side.keep_macs(&self.macs);
        side.bulk.take_routes(self.routes.bulk);
        Ok(side)
    }

    /// The state at one go, for tests and for routers that nobody waits for.
    ///
    /// # Errors
    /// As [`Reading::side`].
    pub fn whole(router: &Router, settings: &Settings) -> Result<Side, Diagnostics> {
        let mut reading = Reading::default();
        while reading.next(router, settings) {}
        reading.side()
    }
}
