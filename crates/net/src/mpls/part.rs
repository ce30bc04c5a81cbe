//! Label tables and tunnels as a part of the control side. A route is one word of its table; what it leads to is a next-hop group like that of an
//! IP route. Where all paths put the same single label in the place of the one that came, the word holds that label, so that
//! a million labels to a few neighbours share a few groups.

use super::batch::LabelBatch;
use super::commands;
use super::routes::{apply_labels, empty_label_table, label_routes, no_labels};
use super::tunnel::state::{
    self as tunnels, TunnelConfig, Tunnels, create_tunnel, frame_tunnel, ip_tunnel, set_tunnel_paths,
};
use crate::interface::{Pseudowire, TUNNEL_TX};
use crate::labels::LabelWriters;
use crate::plane::table::FibIndex;
use crate::router::{
    Lookup, Op, OpError, Part, PartOp, RoutePath, Router, Source, Start, Step, TableKind, Target,
    plural_routes,
};
use command::Command;
use graph::arcs::Feature;
use packet::mpls::Label;
use std::any::Any;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use tables::groups::GroupId;
use tables::labels::{LabelEntry, Labels, LabelsWriter, key};
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

impl PartOp for MplsOp {
    fn subject(&self) -> String {
        match self {
            MplsOp::CreateTable { table } | MplsOp::DeleteTable { table } => format!("MPLS table {table}"),
            MplsOp::Routes(batch) => format!("labels of MPLS table {}", batch.table()),
            MplsOp::CreateTunnel { instance, .. } => instance.map_or("an MPLS tunnel".into(), tunnels::name),
            MplsOp::SetTunnelPaths { name, .. } => format!("paths of {name}"),
        }
    }

    fn off(&self) -> Option<Op> {
        Some(match self {
            MplsOp::CreateTable { table } => MplsOp::DeleteTable { table: *table }.into(),
            MplsOp::SetTunnelPaths { name, .. } => {
                MplsOp::SetTunnelPaths { name: name.clone(), paths: vec![] }.into()
            }
            MplsOp::DeleteTable { .. } | MplsOp::Routes(_) | MplsOp::CreateTunnel { .. } => return None,
        })
    }

    fn turned(&self, new: &Self) -> Option<Op> {
        let tunnel = matches!(self, MplsOp::CreateTunnel { .. });
        (!tunnel || self == new).then(|| new.clone().into())
    }

    fn anew(&self) -> &'static str {
        "frames with or without a control word, or packets, are each another tunnel"
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        match self {
            MplsOp::CreateTable { table } => create_label_table(router, table),
            MplsOp::DeleteTable { table } => delete_label_table(router, table),
            MplsOp::CreateTunnel { instance, config } => create_tunnel(router, instance, config),
            MplsOp::SetTunnelPaths { name, paths } => set_tunnel_paths(router, name, paths),
            MplsOp::Routes(_) => Err(OpError::new("a label route cannot undo another change")),
        }
    }

    fn steps(self, router: &mut Router) -> Result<Vec<Step>, OpError> {
        // A table that goes takes its own routes along.
        let batch = match self {
            MplsOp::Routes(batch) => return Ok(vec![Step::held(apply_labels(router, batch)?)]),
            MplsOp::DeleteTable { table: table @ 1.. } => empty_label_table(router, table),
            _ => None,
        };
        let emptied = batch.map(|b| apply_labels(router, b)).transpose()?.map(Step::held);
        match self.apply(router) {
            Ok(undo) => Ok(emptied.into_iter().chain(undo.into_iter().map(Step::Op)).collect()),
            Err(e) => {
                router.undo(emptied.into_iter().collect());
                Err(e)
            }
        }
    }

    fn is_routes(&self) -> bool {
        matches!(self, MplsOp::Routes(_))
    }

    fn log_line(&self) -> Option<String> {
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
pub(super) struct LabelTable {
    fib_index: FibIndex,
    pub labels: LabelsWriter,
    /// Taken out by a transaction that has not ended.
    doomed: bool,
}

/// How many labels are looked at to name one that leads into a table.
const MOST_ASKED: usize = 4096;

/// The part.
pub(crate) struct Mpls;

/// All label tables, and all tunnels by interface.
pub(super) struct MplsState {
    slots: SlotsWriter<Arc<Labels>>,
    pub by_id: BTreeMap<u32, LabelTable>,
    pub tunnels: Tunnels,
}

impl MplsState {
    /// Table 0, and no tunnel.
    fn new(LabelWriters { slots, main }: LabelWriters) -> Self {
        let main = LabelTable { fib_index: FibIndex::MAIN, labels: main, doomed: false };
        MplsState { slots, by_id: BTreeMap::from([(0, main)]), tunnels: Tunnels::new() }
    }

    pub fn get(&self, id: u32) -> Option<&LabelTable> {
        self.by_id.get(&id).filter(|t| !t.doomed)
    }
}

pub(super) fn state(router: &Router) -> Option<&MplsState> {
    router.state()
}

/// A table that is there or goes in this transaction.
pub(super) fn table_mut(router: &mut Router, id: u32) -> Option<&mut LabelTable> {
    router.state_mut::<MplsState>()?.by_id.get_mut(&id)
}

/// A label table as `show mpls fib` lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelTableInfo {
    /// Its number.
    pub id: u32,
    /// Entries; those that are there always included.
    pub entries: usize,
}

/// The FIB index of a label table.
fn label_fib_index(router: &Router, id: u32) -> Option<FibIndex> {
    state(router)?.get(id).map(|t| t.fib_index)
}

/// The number of the label table of a FIB index.
pub fn label_table_at(router: &Router, fib_index: FibIndex) -> Option<u32> {
    state(router)?.by_id.iter().find(|(_, t)| t.fib_index == fib_index).map(|(id, _)| *id)
}

/// All label tables, by number.
pub fn label_tables(router: &Router) -> Vec<LabelTableInfo> {
    let all = state(router).into_iter().flat_map(|m| &m.by_id);
    let live = all.filter(|(_, t)| !t.doomed);
    live.map(|(id, t)| LabelTableInfo { id: *id, entries: t.labels.len() }).collect()
}

fn create_label_table(router: &mut Router, id: u32) -> Result<Vec<Op>, OpError> {
    let undo = vec![MplsOp::DeleteTable { table: id }.into()];
    match table_mut(router, id) {
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
    if let Some(all) = router.state_mut::<MplsState>() {
        let inserted = all.slots.insert(shared).map_err(|_| {
            let most = crate::labels::MAX_TABLES;
            OpError::new(format!("no room for MPLS table {id}: there are {most} already"))
        })?;
        all.by_id.insert(id, LabelTable { fib_index: FibIndex(inserted), labels, doomed: false });
    }
    fill_labels(router, id)?;
    Ok(undo)
}

fn delete_label_table(router: &mut Router, id: u32) -> Result<Vec<Op>, OpError> {
    if id == 0 {
        return Err(OpError::new("MPLS table 0 is there always"));
    }
    let fib_index = known_label_table(router, id)?;
    let users = router.nexthops().leading_to(TableKind::Mpls, fib_index).filter_map(|g| router.group(g));
    if let Some(g) = users.into_iter().find(|g| g.routes > 0) {
        let (routes, group) = (plural_routes(g.routes), g.id);
        let text =
            format!("MPLS table {id} cannot be removed: {routes} of next-hop group {group} lead into it");
        return Err(OpError::new(text));
    }
    if let Some(t) = table_mut(router, id) {
        t.doomed = true;
    }
    Ok(vec![MplsOp::CreateTable { table: id }.into()])
}

/// The FIB index of a label table, or why there is none.
pub(super) fn known_label_table(router: &Router, id: u32) -> Result<FibIndex, OpError> {
    label_fib_index(router, id).ok_or_else(|| {
        OpError::new(format!("there is no MPLS table {id}: add it first (mpls table add {id})"))
    })
}

/// A transaction ended: tables that it took out go.
fn drop_doomed_labels(router: &mut Router) {
    let doomed = |m: &MplsState| m.by_id.iter().find(|(_, t)| t.doomed).map(|(id, _)| *id);
    while let Some(id) = state(router).and_then(doomed) {
        let Some(all) = router.state_mut::<MplsState>() else { return };
        let Some(t) = all.by_id.remove(&id) else { return };
        all.slots.remove(t.fib_index.0);
        for (_, entry) in t.labels.iter_from(0) {
            router.nexthops_mut().leave(entry.group);
            router.let_go(entry.group);
        }
    }
}

/// The labels whose meaning is fixed: explicit null at the bottom of a stack is followed by a packet of its family, above it
/// by the next label (RFC 4182).
fn fill_labels(router: &mut Router, id: u32) -> Result<(), OpError> {
    let path = |lookup| Target::Paths(vec![RoutePath { lookup, ..RoutePath::default() }]);
    for (label, bottom, lookup) in [
        (Label::IP4_EXPLICIT_NULL, true, Lookup::Ip4),
        (Label::IP4_EXPLICIT_NULL, false, Lookup::Mpls),
        (Label::IP6_EXPLICIT_NULL, true, Lookup::Ip6),
        (Label::IP6_EXPLICIT_NULL, false, Lookup::Mpls),
    ] {
        let group = router.hold_label_group(Source::Interface, path(lookup))?;
        router.nexthops_mut().add_route(group);
        if let Some(t) = table_mut(router, id) {
            t.labels.set(key(label.value(), bottom), Some(LabelEntry { group, swap: 0 }));
        }
        router.let_go(group);
    }
    Ok(())
}

impl Part for Mpls {
    fn state(&self, start: &mut Start) -> Box<dyn Any + Send> {
        match start.ends.labels.take() {
            Some(writers) => Box::new(MplsState::new(writers)),
            None => Box::new(()),
        }
    }

    fn starts(&self, router: &mut Router) -> Result<(), OpError> {
        fill_labels(router, 0)
    }

    fn commands(&self) -> Vec<Command<Router>> {
        commands::all()
    }

    fn label_fib_index(&self, router: &Router, id: u32) -> Option<FibIndex> {
        label_fib_index(router, id)
    }

    fn group_behind(&self, router: &Router, index: u32) -> Option<GroupId> {
        ip_tunnel(router, index)
    }

    fn holds_group(&self, router: &Router, group: GroupId) -> Option<String> {
        let mut all = tunnels::tunnels(router);
        let tunnel = all.find(|t| t.group == group)?;
        Some(format!("the tunnel {}", router.interface_name(tunnel.interface)))
    }

    fn leads_by(&self, router: &Router, group: GroupId) -> Option<String> {
        let more = router.group(group).filter(|g| g.mpls)?.routes.saturating_sub(1);
        let tables = label_tables(router).into_iter();
        let all = tables.flat_map(|t| label_routes(router, t.id, 0).map(move |l| (t.id, l)));
        // Of a million labels the control thread does not look at all for a name: the number of the routes says it then.
        let mut all = all.take(MOST_ASKED);
        let (table, l) = all.find(|(_, l)| l.group == group)?;
        let (label, which) = (l.label, if l.bottom { "eos" } else { "non-eos" });
        let others = if more == 0 { String::new() } else { format!(" and {more} more") };
        let leads = if more == 0 { "leads" } else { "lead" };
        Some(match l.source {
            Source::Static => format!(
                "label {label} of MPLS table {table}{others} {leads} into it (mpls local-label del {label} {which} table {table})"
            ),
            source => format!(
                "label {label} of MPLS table {table}{others} {leads} into it, as {} has said: it is for that to take it away",
                router.source_name(source)
            ),
        })
    }

    fn pseudowire(&self, router: &Router, index: u32) -> Option<Pseudowire> {
        frame_tunnel(router, index)
    }

    fn visits(&self, router: &Router, index: u32) -> Vec<&'static Feature> {
        frame_tunnel(router, index).map(|_| &TUNNEL_TX).into_iter().collect()
    }

    fn leads_over(&self, router: &Router, gone: &HashSet<u32>, name: &str) -> Option<String> {
        let tunnel = router.interface_name(tunnels::tunnel_over(router, gone)?);
        Some(format!("the tunnel {tunnel} goes over {name}: delete it first (mpls tunnel del {tunnel})"))
    }

    fn releases(&self, router: &Router) -> Vec<Op> {
        let led = tunnels::tunnels(router).filter(|t| !t.config.paths.is_empty());
        let name = |index| router.interface_name(index);
        let nowhere = led.map(|t| MplsOp::SetTunnelPaths { name: name(t.interface), paths: vec![] });
        no_labels(router).into_iter().chain(nowhere).map(Op::from).collect()
    }

    fn removed(&self, router: &mut Router, index: u32) {
        tunnels::removed(router, index);
    }

    fn settled(&self, router: &mut Router) {
        drop_doomed_labels(router);
    }

    fn reclaiming(&self, router: &mut Router) {
        let (epoch, safe) = (router.domain().epoch(), router.domain().safe());
        let Some(all) = router.state_mut::<MplsState>() else { return };
        // SAFETY: `safe` is below the epoch of every worker that is awake, and no reference into the slots is held here.
        #[allow(unsafe_code)]
        unsafe {
            all.slots.reclaim(epoch, safe);
        }
    }
}
