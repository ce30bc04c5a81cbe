//! Label tables and their routes. A route is one word of its table; what it leads to is a next-hop group like that of an
//! IP route. Where all paths put the same single label in the place of the one that came, the word holds that label, so that
//! a million labels to a few neighbours share a few groups.

mod batch;
mod check;
mod routes;
mod tunnels;

pub use batch::LabelBatch;
pub use check::check_label;
pub use routes::LabelRoute;
pub(super) use routes::LabelUndo;
pub(crate) use tunnels::Tunnels;
pub use tunnels::{MAX_TUNNEL, TunnelConfig, TunnelInfo};

use super::nexthops::{Lookup, Source};
use super::resolve::TableKind;
use super::{Op, OpError, RoutePath, Router, Target};
use packet::mpls::Label;
use std::collections::BTreeMap;
use std::sync::Arc;
use tables::labels::{LabelEntry, Labels, LabelsWriter, place};
use tables::slots::SlotsWriter;

/// A change of label tables.
#[derive(Clone, Debug, PartialEq)]
pub enum MplsOp {
    /// Makes a label table.
    CreateTable {
        /// Its number; 0 is there always.
        table: u32,
    },
    /// Takes a label table out, with its routes.
    DeleteTable {
        /// Its number.
        table: u32,
    },
    /// Changes routes of labels.
    Routes(LabelBatch),
    /// Makes a tunnel.
    CreateTunnel {
        /// N of its name `mpls-tunnelN`; the first free one when absent.
        instance: Option<u32>,
        /// What it is.
        config: TunnelConfig,
    },
    /// Sets the paths of a tunnel, in place of those that it had.
    SetTunnelPaths {
        /// Its name.
        name: String,
        /// The paths; none: it drops what it gets.
        paths: Vec<RoutePath>,
    },
}

impl MplsOp {
    pub(super) fn log_line(&self) -> Option<String> {
        Some(match self {
            MplsOp::CreateTable { table } => format!("MPLS table {table}: made"),
            MplsOp::DeleteTable { table } => format!("MPLS table {table}: deleted"),
            MplsOp::Routes(_) => return None,
            MplsOp::CreateTunnel { instance: Some(n), .. } => {
                format!("interface {}: made", tunnels::name(*n))
            }
            MplsOp::CreateTunnel { instance: None, .. } => "an MPLS tunnel was made".into(),
            MplsOp::SetTunnelPaths { name, .. } => format!("interface {name}: other paths"),
        })
    }
}

/// One table.
struct LabelTable {
    place: u32,
    labels: LabelsWriter,
    /// Taken out by a transaction that has not ended.
    doomed: bool,
}

/// All label tables.
pub(crate) struct LabelTables {
    slots: SlotsWriter<Arc<Labels>>,
    by_id: BTreeMap<u32, LabelTable>,
}

impl LabelTables {
    /// Table 0.
    pub fn new(slots: SlotsWriter<Arc<Labels>>, main: LabelsWriter) -> Self {
        LabelTables {
            slots,
            by_id: BTreeMap::from([(0, LabelTable { place: 0, labels: main, doomed: false })]),
        }
    }

    fn get(&self, id: u32) -> Option<&LabelTable> {
        self.by_id.get(&id).filter(|t| !t.doomed)
    }

    /// Frees what no worker sees any more.
    ///
    /// # Safety
    /// As [`SlotsWriter::reclaim`].
    #[allow(unsafe_code)]
    pub unsafe fn reclaim(&mut self, epoch: u64, safe: u64) {
        // SAFETY: by the caller.
        unsafe { self.slots.reclaim(epoch, safe) };
    }
}

/// A label table as `show mpls fib` lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelTableInfo {
    /// Its number.
    pub id: u32,
    /// Entries; those that are there always included.
    pub entries: usize,
}

impl Router {
    /// The place of a label table among those that workers see.
    pub(super) fn label_place(&self, id: u32) -> Option<u32> {
        self.labels.get(id).map(|t| t.place)
    }

    /// The number of the label table at a place.
    pub fn label_table_at(&self, place: u32) -> Option<u32> {
        self.labels.by_id.iter().find(|(_, t)| t.place == place).map(|(id, _)| *id)
    }

    /// All label tables, by number.
    pub fn label_tables(&self) -> Vec<LabelTableInfo> {
        let live = self.labels.by_id.iter().filter(|(_, t)| !t.doomed);
        live.map(|(id, t)| LabelTableInfo { id: *id, entries: t.labels.len() }).collect()
    }

    /// Whether there is such a label table.
    pub fn has_label_table(&self, id: u32) -> bool {
        self.labels.get(id).is_some()
    }

    pub(super) fn apply_mpls(&mut self, op: MplsOp) -> Result<Vec<Op>, OpError> {
        match op {
            MplsOp::CreateTable { table } => self.create_label_table(table),
            MplsOp::DeleteTable { table } => self.delete_label_table(table),
            // `commit` has taken them out.
            MplsOp::CreateTunnel { instance, config } => self.create_tunnel(instance, config),
            MplsOp::SetTunnelPaths { name, paths } => self.set_tunnel_paths(name, paths),
            MplsOp::Routes(_) => Err(OpError::new("a label route cannot undo another change")),
        }
    }

    fn create_label_table(&mut self, id: u32) -> Result<Vec<Op>, OpError> {
        let undo = vec![Op::Mpls(MplsOp::DeleteTable { table: id })];
        match self.labels.by_id.get_mut(&id) {
            Some(t) if t.doomed => {
                t.doomed = false;
                return Ok(undo);
            }
            // Operators of other routers make it first; here it is there.
            Some(_) if id == 0 => return Ok(vec![]),
            Some(_) => return Err(OpError::new(format!("there is an MPLS table {id} already"))),
            None => {}
        }
        let (labels, shared) =
            Labels::new().map_err(|e| OpError::new(format!("no room for MPLS table {id}: {e}")))?;
        let place = self.labels.slots.insert(shared).map_err(|_| {
            OpError::new(format!(
                "no room for MPLS table {id}: there are {} already",
                crate::labels::MAX_TABLES
            ))
        })?;
        self.labels.by_id.insert(id, LabelTable { place, labels, doomed: false });
        self.fill_labels(id)?;
        Ok(undo)
    }

    fn delete_label_table(&mut self, id: u32) -> Result<Vec<Op>, OpError> {
        if id == 0 {
            return Err(OpError::new("MPLS table 0 is there always"));
        }
        let place = self.checked_label_place(id)?;
        let users = self.nexthops.leading_to(TableKind::Mpls, place).filter_map(|g| self.group(g));
        if let Some(g) = users.into_iter().find(|g| g.routes > 0) {
            let (routes, group) = (super::routes::plural_routes(g.routes), g.id);
            let text =
                format!("MPLS table {id} cannot be removed: {routes} of next-hop group {group} lead into it");
            return Err(OpError::new(text));
        }
        if let Some(t) = self.labels.by_id.get_mut(&id) {
            t.doomed = true;
        }
        Ok(vec![Op::Mpls(MplsOp::CreateTable { table: id })])
    }

    fn checked_label_place(&self, id: u32) -> Result<u32, OpError> {
        self.label_place(id).ok_or_else(|| {
            OpError::new(format!("there is no MPLS table {id}: add it first (mpls table add {id})"))
        })
    }

    /// A transaction ended: tables that it took out go.
    pub(super) fn drop_doomed_labels(&mut self) {
        let doomed: Vec<u32> =
            self.labels.by_id.iter().filter(|(_, t)| t.doomed).map(|(id, _)| *id).collect();
        for id in doomed {
            let Some(t) = self.labels.by_id.remove(&id) else { continue };
            for (_, entry) in t.labels.iter_from(0) {
                self.nexthops.leave(entry.group);
                self.let_go(entry.group);
            }
            self.labels.slots.remove(t.place);
        }
    }

    /// The labels whose meaning is fixed: explicit null at the bottom of a stack is followed by a packet of its family, above it
    /// by the next label (RFC 4182).
    pub(super) fn fill_labels(&mut self, id: u32) -> Result<(), OpError> {
        let path = |lookup| Target::Paths(vec![RoutePath { lookup, ..RoutePath::default() }]);
        for (label, bottom, lookup) in [
            (Label::IP4_EXPLICIT_NULL, true, Lookup::Ip4),
            (Label::IP4_EXPLICIT_NULL, false, Lookup::Mpls),
            (Label::IP6_EXPLICIT_NULL, true, Lookup::Ip6),
            (Label::IP6_EXPLICIT_NULL, false, Lookup::Mpls),
        ] {
            let group = self.hold_label_group(Source::Interface, path(lookup))?;
            self.nexthops.add_route(group);
            if let Some(t) = self.labels.by_id.get_mut(&id) {
                t.labels.set(place(label.value(), bottom), Some(LabelEntry { group, swap: 0 }));
            }
            self.let_go(group);
        }
        Ok(())
    }
}
