//! Routing tables: table 0 of each family, and those that the operator adds.

use super::fibs::{Fibs, Rib, Vrf};
use super::resolve::TableKind;
use super::{IfState, Op, OpError, Router};
use crate::plane::table::{FibIndex, Table};
use packet::flow::{Fields, Flow};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use tables::fib::{Fib4Writer, Fib6Writer};
use tables::groups::GroupId;

/// A routing table by its family and the operator's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteTable {
    /// True for IPv6.
    pub v6: bool,
    /// The operator's number; 0 is there always.
    pub id: u32,
}

impl RouteTable {
    /// IPv4, table 0.
    pub const V4: RouteTable = RouteTable { v6: false, id: 0 };
    /// IPv6, table 0.
    pub const V6: RouteTable = RouteTable { v6: true, id: 0 };

    /// The table of this number for the family of an address.
    pub fn of(addr: IpAddr, id: u32) -> RouteTable {
        RouteTable { v6: addr.is_ipv6(), id }
    }

    /// `IPv4` or `IPv6`.
    pub fn family(self) -> &'static str {
        if self.v6 { "IPv6" } else { "IPv4" }
    }
}

impl std::fmt::Display for RouteTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} table {}", self.family(), self.id)
    }
}

/// A table as `show ip table` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Which.
    pub table: RouteTable,
    /// Its index in the workers' list.
    pub fib_index: FibIndex,
    /// The operator's name for it.
    pub name: Option<String>,
    /// Its routes.
    pub routes: usize,
    /// Bytes that they take.
    pub bytes: usize,
    /// Whether workers read it in its compact form.
    pub compact: bool,
    /// Interfaces in it.
    pub interfaces: u32,
    /// What tells its flows apart.
    pub fields: Fields,
    /// Prefixes of which no route leads anywhere are withdrawn, so that shorter ones serve.
    pub withdraws: bool,
    /// How many are withdrawn now; they count as routes.
    pub withdrawn: usize,
}

impl Router {
    pub(crate) fn fib_index_of(&self, t: RouteTable) -> Result<FibIndex, OpError> {
        self.fibs.fib_index(t).filter(|p| self.fibs.get(t.v6, *p).is_some_and(|v| !v.doomed)).ok_or_else(
            || {
                let command = if t.v6 { "ip6" } else { "ip" };
                OpError::new(format!("there is no {t}: add it first ({command} table add {})", t.id))
            },
        )
    }

    /// The lengths of a table's prefixes, and how many routes have each: kept, not counted.
    pub fn route_lengths(&self, table: RouteTable) -> impl Iterator<Item = (u8, u32)> + '_ {
        let lengths = self.fibs.of(table).map_or(&[][..], |v| &v.lengths);
        (0..=128).zip(lengths.iter().copied()).filter(|(_, n)| *n != 0)
    }

    /// How often a table was made so far: one that was taken out and made again has lost the routes of all sources.
    pub fn tables_made(&self) -> u64 {
        self.tables_made
    }

    /// Whether there is such a table.
    pub fn has_table(&self, t: RouteTable) -> bool {
        self.fib_index_of(t).is_ok()
    }

    /// All tables of a family, by number.
    pub fn route_tables(&self, v6: bool) -> Vec<TableInfo> {
        self.fibs.iter(v6).filter_map(|v| self.table_info(v.table)).collect()
    }

    /// How many tables a family has, and their routes and bytes together.
    pub fn table_totals(&self, v6: bool) -> (usize, usize, usize) {
        self.fibs
            .iter(v6)
            .fold((0, 0, 0), |(n, routes, bytes), v| (n + 1, routes + v.routes(), bytes + v.rib.bytes()))
    }

    /// The names of a family's tables, with their numbers.
    pub fn table_names(&self, v6: bool) -> impl Iterator<Item = (&str, u32)> {
        self.fibs.iter(v6).filter_map(|v| Some((v.name.as_deref()?, v.table.id)))
    }

    /// The table of a family with the next number.
    pub fn table_after(&self, table: RouteTable) -> Option<RouteTable> {
        let fib_indexes = &self.fibs.fib_indexes[usize::from(table.v6)];
        let (id, _) = fib_indexes.range(table.id.checked_add(1)?..).next()?;
        Some(RouteTable { id: *id, ..table })
    }

    /// The number of an interface's table of a family.
    pub fn table_of_interface(&self, i: &IfState, v6: bool) -> u32 {
        self.table_at(v6, i.table(v6))
    }

    /// One table.
    pub fn table_info(&self, table: RouteTable) -> Option<TableInfo> {
        let fib_index = self.fibs.fib_index(table)?;
        let v = self.fibs.get(table.v6, fib_index)?;
        Some(TableInfo {
            table,
            fib_index,
            name: v.name.clone(),
            routes: v.routes(),
            bytes: v.rib.bytes(),
            compact: !v.rib.is_many(),
            interfaces: match fib_index {
                FibIndex::MAIN => (self.interfaces().count() as u32).saturating_sub(1 + self.bound(table.v6)),
                _ => v.interfaces,
            },
            fields: v.fields,
            withdraws: v.withdraws,
            withdrawn: v.withdrawn.len(),
        })
    }

    /// The number of the table of a FIB index.
    pub fn table_at(&self, v6: bool, fib_index: FibIndex) -> u32 {
        self.fibs.get(v6, fib_index).map_or(0, |v| v.table.id)
    }

    /// Interfaces outside table 0.
    fn bound(&self, v6: bool) -> u32 {
        let (t4, t6) = (&self.plane.tables4, &self.plane.tables6);
        if v6 { t6.bound.load(Relaxed) } else { t4.bound.load(Relaxed) }
    }

    /// Workers see what changed in a table, and groups whose next hops now lead elsewhere follow.
    pub(super) fn settle(&mut self, v6: bool, fib_index: FibIndex) {
        self.fibs.publish(v6, fib_index);
        let now = self.now();
        let Some(vrf) = self.fibs.get_mut(v6, fib_index) else { return };
        let (moved, neighbors, changed) = vrf.moved();
        vrf.stamps.note(changed.as_deref(), now);
        if !moved.is_empty() {
            self.refresh(moved);
        }
        self.follow_attached(v6, fib_index, neighbors);
        self.note_attaching(v6, fib_index, changed);
    }

    pub(super) fn create_table(
        &mut self,
        table: RouteTable,
        name: Option<String>,
    ) -> Result<Vec<Op>, OpError> {
        self.tables_made += 1;
        if let Some(fib_index) = self.fibs.fib_index(table) {
            let found = self.fibs.get_mut(table.v6, fib_index);
            let Some(vrf) = found.filter(|v| v.doomed) else {
                return Err(OpError::new(format!("there is an {table} already")));
            };
            vrf.doomed = false;
            vrf.name = name;
            self.fibs.doomed.retain(|d| *d != (table.v6, fib_index));
            self.set_flow_hash(table, Fields::FIVE_TUPLE)?;
            self.set_when_down(table, false)?;
            return Ok(vec![Op::DeleteTable { table }]);
        }
        check_table_name(table, name.as_deref())?;
        let full = |_| OpError::new(format!("no room for another table: there are {} already", MAX));
        let flow = Flow::five_tuple(self.fibs.seed);
        let config = self.fibs.config;
        let (fib_index, rib) = if table.v6 {
            let mut rib = Fib6Writer::small(config);
            let routes = rib.fresh().ok_or_else(|| OpError::new("no routes"))?;
            (self.fibs.slots6.insert(Table::new(routes, flow)).map_err(full)?, Rib::V6(rib))
        } else {
            let mut rib = Fib4Writer::small(config);
            let routes = rib.fresh().ok_or_else(|| OpError::new("no routes"))?;
            (self.fibs.slots4.insert(Table::new(routes, flow)).map_err(full)?, Rib::V4(rib))
        };
        let fib_index = FibIndex(fib_index);
        let list = &mut self.fibs.list[usize::from(table.v6)];
        if list.len() <= fib_index.index() {
            list.resize_with(fib_index.index() + 1, || None);
        }
        list[fib_index.index()] = Some(Vrf::new(table, name, rib));
        self.fibs.fib_indexes[usize::from(table.v6)].insert(table.id, fib_index);
        Ok(vec![Op::DeleteTable { table }])
    }

    /// What takes the routes out of a table that is to go.
    pub(super) fn empty_table(&self, table: RouteTable) -> Vec<Op> {
        if table.id == 0 { vec![] } else { self.removal(table, self.routes(table)) }
    }

    /// Refuses to remove a table that is in use: by interfaces, or by more routes than `own`, the number of routes of each
    /// group that would go with it.
    pub fn check_removable(
        &self,
        table: RouteTable,
        own: &HashMap<GroupId, u32>,
    ) -> Result<FibIndex, OpError> {
        let fib_index = self.check_no_interfaces(table)?;
        let Some(vrf) = self.fibs.get(table.v6, fib_index) else { return Ok(fib_index) };
        let users = vrf.watched.values().flat_map(|w| w.groups.iter().copied());
        let users = users.chain(self.nexthops.leading_to(TableKind::of_family(table.v6), fib_index));
        let others = |g: &super::NextHopInfo| g.routes > own.get(&g.id).copied().unwrap_or(0);
        match users.filter_map(|g| self.group(g)).find(others) {
            None => Ok(fib_index),
            Some(g) => {
                let what = self.parts.all.iter().find_map(|p| p.leads_by(self, g.id));
                let what = what.unwrap_or_else(|| {
                    let routes = super::routes::plural_routes(g.routes);
                    format!("{routes} of next-hop group {} lead into it", g.id)
                });
                Err(OpError::new(format!("{table} cannot be removed: {what}")))
            }
        }
    }

    /// Refuses to remove a table that interfaces use; else its FIB index.
    pub fn check_no_interfaces(&self, table: RouteTable) -> Result<FibIndex, OpError> {
        if table.id == 0 {
            return Err(OpError::new(format!("{table} is there always")));
        }
        let fib_index = self.fib_index_of(table)?;
        let fail = |why: String| Err(OpError::new(format!("{table} cannot be removed: {why}")));
        let Some(vrf) = self.fibs.get(table.v6, fib_index) else { return Ok(fib_index) };
        // Most tables that go are empty: nothing is searched for then.
        let inside = |i: &&IfState| i.table(table.v6) == fib_index;
        if vrf.interfaces != 0
            && let Some(i) = self.interfaces().find(inside)
        {
            let command = if table.v6 { "ip6" } else { "ip" };
            return fail(format!("{} is in it (set interface {command} table {} 0)", i.name, i.name));
        }
        if let Some(i) = self.come_back_to(table).next() {
            return fail(format!(
                "{} comes back into it when its device leaves the VRF in Linux (set interface {} table {} 0)",
                i.name,
                if table.v6 { "ip6" } else { "ip" },
                i.name
            ));
        }
        if let Some(why) = self.parts.all.iter().find_map(|p| p.uses_table(self, table.v6, fib_index)) {
            return fail(why);
        }
        Ok(fib_index)
    }

    pub(super) fn name_table(&mut self, table: RouteTable, name: Option<String>) -> Result<Vec<Op>, OpError> {
        check_table_name(table, name.as_deref())?;
        let fib_index = self.fib_index_of(table)?;
        if table.id == 0 {
            return Err(OpError::new("table 0 has no name"));
        }
        let Some(vrf) = self.fibs.get_mut(table.v6, fib_index) else { return Ok(vec![]) };
        let was = std::mem::replace(&mut vrf.name, name);
        Ok(vec![Op::NameTable { table, name: was }])
    }

    pub(super) fn delete_table(&mut self, table: RouteTable) -> Result<Vec<Op>, OpError> {
        let fib_index = self.check_removable(table, &HashMap::new())?;
        let Some(vrf) = self.fibs.get(table.v6, fib_index) else { return Ok(vec![]) };
        let (name, fields, withdraw) = (vrf.name.clone(), vrf.fields, vrf.withdraws);
        if let Some(vrf) = self.fibs.get_mut(table.v6, fib_index) {
            vrf.doomed = true;
            self.fibs.doomed.push((table.v6, fib_index));
        }
        let mut undo = vec![Op::CreateTable { table, name }];
        if fields != Fields::FIVE_TUPLE {
            undo.insert(0, Op::SetFlowHash { table, fields });
        }
        if withdraw {
            undo.insert(0, Op::SetWhenDown { table, withdraw });
        }
        Ok(undo)
    }

    /// A transaction ended: tables that it took out go.
    pub(super) fn drop_doomed_tables(&mut self) {
        for (v6, fib_index) in std::mem::take(&mut self.fibs.doomed) {
            let gone = self.fibs.list[usize::from(v6)].get_mut(fib_index.index()).and_then(Option::take);
            let Some(vrf) = gone else { continue };
            self.fibs.fib_indexes[usize::from(v6)].remove(&vrf.table.id);
            self.fibs.bytes -= vrf.counted;
            self.fibs.many.retain(|m| *m != (v6, fib_index));
            if v6 {
                self.fibs.slots6.remove(fib_index.0);
            } else {
                self.fibs.slots4.remove(fib_index.0);
            }
            self.tell_parts(|part, router| part.table_removed(router, v6, fib_index));
        }
    }

    pub(super) fn set_table(&mut self, name: String, table: RouteTable) -> Result<Vec<Op>, OpError> {
        let v6 = table.v6;
        let i = self.named(&name)?;
        let was = i.table(v6);
        let fib_index = self.fib_index_of(table)?;
        if let Some(a) = i.addresses.iter().find(|a| a.addr().is_ipv6() == v6).filter(|_| was != fib_index) {
            let has = self.fibs.get(v6, was).map_or(table, |v| v.table);
            return Err(OpError::new(match i.elsewhere.tables[usize::from(v6)] {
                None => format!(
                    "{name} has the address {a} in {has}: remove it before the interface moves to {table}"
                ),
                Some(_) => format!(
                    "{name} has the address {a} in {has}, that of its VRF in Linux: take it out of that first \
                     (`ip link set DEVICE nomaster`), or `lcp nl-sync off`"
                ),
            }));
        }
        let (index, before) = self.check_moves(&name, table)?;
        let mut undo = self.operator_sets(index, |e| e.tables[usize::from(v6)] = None);
        self.bind(index, v6, fib_index);
        undo.push(Op::SetTable { name, table: before });
        Ok(undo)
    }

    /// Refuses to move an interface into a table; else its number, and the table in which it is.
    fn check_moves(&self, name: &str, table: RouteTable) -> Result<(u32, RouteTable), OpError> {
        let i = self.named(name)?;
        let before = RouteTable { v6: table.v6, id: self.table_of_interface(i, table.v6) };
        if before != table {
            self.check_features_stay(i.index, name, table.v6)?;
        }
        if table.id != 0 {
            self.check_routed(i)?;
        }
        Ok((i.index, before))
    }

    /// Puts an interface into another table with its addresses and neighbors: it keeps them all the while.
    pub(super) fn move_table(&mut self, name: String, table: RouteTable) -> Result<Vec<Op>, OpError> {
        let (v6, fib_index) = (table.v6, self.fib_index_of(table)?);
        let (index, before) = self.check_moves(&name, table)?;
        if before == table {
            return Ok(vec![]);
        }
        let i = self.named(&name)?;
        let was = i.table(v6);
        let family = i.addresses.iter().filter(|a| a.addr().is_ipv6() == v6);
        family.clone().try_for_each(|net| self.check_free(i, fib_index, *net))?;
        self.disconnect(index, v6);
        self.bind(index, v6, fib_index);
        if let Err(e) = self.connect(index, v6) {
            self.disconnect(index, v6);
            self.bind(index, v6, was);
            self.connect(index, v6)?;
            return Err(e);
        }
        self.tell_parts(|part, router| part.addresses_changed(router, index));
        Ok(vec![Op::MoveTable { name, table: before }])
    }

    /// Puts an interface into the table of a FIB index.
    pub(super) fn bind(&mut self, index: u32, v6: bool, fib_index: FibIndex) {
        let Some(i) = self.interfaces.get_mut(index) else { return };
        let was = std::mem::replace(&mut i.tables[usize::from(v6)], fib_index);
        if was == fib_index {
            return;
        }
        for (p, more) in [(was, false), (fib_index, true)] {
            if let Some(vrf) = self.fibs.get_mut(v6, p) {
                vrf.interfaces = if more { vrf.interfaces + 1 } else { vrf.interfaces.saturating_sub(1) };
            }
        }
        let bound = if v6 { &self.plane.tables6.bound } else { &self.plane.tables4.bound };
        // Workers look at interfaces' tables from before the first one is in another, until after the last one is not.
        if was == FibIndex::MAIN {
            bound.fetch_add(1, Relaxed);
        }
        self.leave_table(index, v6, was);
        self.neighbors.look_again_at(index, v6);
        let leaves = fib_index == FibIndex::MAIN;
        self.publish_interface(index);
        if leaves {
            let bound = if v6 { &self.plane.tables6.bound } else { &self.plane.tables4.bound };
            bound.fetch_sub(1, Relaxed);
        }
    }

    pub(super) fn set_flow_hash(&mut self, table: RouteTable, fields: Fields) -> Result<Vec<Op>, OpError> {
        let fib_index = self.fib_index_of(table)?;
        if fields.has(Fields::LABEL) && !table.v6 {
            return Err(OpError::new("IPv4 has no flow label"));
        }
        fields.check().map_err(|why| OpError::new(format!("{table}: flow hash: {why}")))?;
        let seed = self.fibs.seed;
        let Fibs { list, slots4, slots6, .. } = &mut self.fibs;
        let found = list[usize::from(table.v6)].get_mut(fib_index.index()).and_then(Option::as_mut);
        let Some(vrf) = found else { return Ok(vec![]) };
        let was = std::mem::replace(&mut vrf.fields, fields);
        if fields != was {
            let differ = if table.v6 { &self.plane.tables6.differ } else { &self.plane.tables4.differ };
            differ.store(true, Relaxed);
        }
        let flow = Flow { seed, fields };
        match &mut vrf.rib {
            Rib::V4(r) => _ = slots4.replace(fib_index.0, Table::new(r.again(), flow)),
            Rib::V6(r) => _ = slots6.replace(fib_index.0, Table::new(r.again(), flow)),
        }
        Ok(vec![Op::SetFlowHash { table, fields: was }])
    }
}

fn check_table_name(table: RouteTable, name: Option<&str>) -> Result<(), OpError> {
    match name {
        Some(n) if n.is_empty() || n.len() > 63 || !n.chars().all(|c| c.is_ascii_graphic()) => {
            Err(OpError::new(format!("{table} cannot be called {n:?}: 1 to 63 letters without spaces")))
        }
        _ => Ok(()),
    }
}

/// The most tables of a family.
const MAX: usize = crate::plane::table::MAX_TABLES;
