//! What the control side knows of routing tables: their prefixes, the next hops that are looked up in them, and what makes workers see
//! them.

use super::stamps::Stamps;
use super::{PrefixRoute, RouteTable};
use crate::plane::table::{FibIndex, Table, TableSlots};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use packet::flow::{Fields, Flow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use tables::fib::{Fib4Writer, Fib6Writer, Routes4, Routes6};
use tables::groups::GroupId;
use tables::{LpmConfig, RouteError};

/// What knows the prefixes of a table, and writes what workers read.
pub(super) enum Rib {
    V4(Fib4Writer),
    V6(Fib6Writer),
}

macro_rules! each {
    ($rib:expr, $r:ident => $e:expr) => {
        match $rib {
            Rib::V4($r) => $e,
            Rib::V6($r) => $e,
        }
    };
}

fn net4((a, l, g): (u32, u8, u32)) -> Option<(IpNet, GroupId)> {
    Some((Ipv4Net::new(a.into(), l).ok()?.into(), GroupId(g)))
}

fn net6((a, l, g): (u128, u8, u32)) -> Option<(IpNet, GroupId)> {
    Some((Ipv6Net::new(a.into(), l).ok()?.into(), GroupId(g)))
}

impl Rib {
    #[inline]
    pub fn get(&self, p: IpNet) -> Option<GroupId> {
        match (self, p) {
            (Rib::V4(r), IpNet::V4(p)) => r.get(p.addr().into(), p.prefix_len()),
            (Rib::V6(r), IpNet::V6(p)) => r.get(p.addr().into(), p.prefix_len()),
            _ => None,
        }
        .map(GroupId)
    }

    #[inline]
    pub fn insert(&mut self, p: IpNet, group: GroupId) -> Result<Option<GroupId>, RouteError> {
        match (self, p) {
            (Rib::V4(r), IpNet::V4(p)) => r.insert(p.addr().into(), p.prefix_len(), group.0),
            (Rib::V6(r), IpNet::V6(p)) => r.insert(p.addr().into(), p.prefix_len(), group.0),
            _ => Err(RouteError::Length(p.prefix_len())),
        }
        .map(|old| old.map(GroupId))
    }

    #[inline]
    pub fn remove(&mut self, p: IpNet) -> Option<GroupId> {
        match (self, p) {
            (Rib::V4(r), IpNet::V4(p)) => r.remove(p.addr().into(), p.prefix_len()),
            (Rib::V6(r), IpNet::V6(p)) => r.remove(p.addr().into(), p.prefix_len()),
            _ => None,
        }
        .map(GroupId)
    }

    /// The prefix that decides on an address, with its group.
    pub fn longest(&self, addr: IpAddr) -> Option<(IpNet, GroupId)> {
        match (self, addr) {
            (Rib::V4(r), IpAddr::V4(a)) => r.longest(a.into()).and_then(net4),
            (Rib::V6(r), IpAddr::V6(a)) => r.longest(a.into()).and_then(net6),
            _ => None,
        }
    }

    /// All prefixes that hold an address, the shortest first.
    pub fn covering(&self, addr: IpAddr) -> Vec<(IpNet, GroupId)> {
        match (self, addr) {
            (Rib::V4(r), IpAddr::V4(a)) => r.covering(a.into()).into_iter().filter_map(net4).collect(),
            (Rib::V6(r), IpAddr::V6(a)) => r.covering(a.into()).into_iter().filter_map(net6).collect(),
            _ => vec![],
        }
    }

    /// All prefixes from an address on, in order.
    pub fn iter_from(&self, from: Option<IpAddr>) -> Box<dyn Iterator<Item = (IpNet, GroupId)> + '_> {
        match (self, from) {
            (Rib::V4(r), Some(IpAddr::V4(a))) => Box::new(r.iter_from(a.into()).filter_map(net4)),
            (Rib::V4(r), _) => Box::new(r.iter_from(0).filter_map(net4)),
            (Rib::V6(r), Some(IpAddr::V6(a))) => Box::new(r.iter_from(a.into()).filter_map(net6)),
            (Rib::V6(r), _) => Box::new(r.iter_from(0).filter_map(net6)),
        }
    }

    pub fn len(&self) -> usize {
        each!(self, r => r.len())
    }

    pub fn bytes(&self) -> usize {
        each!(self, r => r.bytes())
    }

    pub fn set_limit(&mut self, bytes: Option<usize>) {
        each!(self, r => r.set_limit(bytes));
    }

    pub fn is_many(&self) -> bool {
        each!(self, r => r.is_many())
    }

    fn pass(&mut self, epoch: u64, safe: u64) {
        each!(self, r => {
            r.reclaim(safe);
            r.retire_epoch(epoch);
        });
    }
}

/// A next hop that groups have in a table.
#[derive(Default)]
pub(super) struct Watch {
    /// The group of the prefix that decides on it, or none.
    pub via: GroupId,
    /// The groups that have it.
    pub groups: BTreeSet<GroupId>,
}

/// One table.
pub(super) struct Vrf {
    pub table: RouteTable,
    pub name: Option<String>,
    pub rib: Rib,
    /// Prefixes with several routes, with one of an interface or a neighbour, or withdrawn: all of these, the best first.
    /// A route of any other prefix stands in the table alone.
    pub shared: HashMap<IpNet, Vec<PrefixRoute>>,
    /// Prefixes of which no route leads anywhere are taken out of the table, so that shorter ones serve.
    pub withdraws: bool,
    /// Those that are; all of them are among `shared`.
    pub withdrawn: BTreeSet<IpNet>,
    /// How many routes stand alone that are not static ones of the usual rank.
    pub odd: usize,
    /// Next hops that are looked up here.
    pub watched: BTreeMap<IpAddr, Watch>,
    /// Neighbours, with their interfaces, that have a host route by a route that attaches them.
    pub attached: BTreeMap<IpAddr, u32>,
    /// Prefixes that changed since next hops were looked up last; all of them where the list would be long.
    pub(super) changed: Vec<IpNet>,
    pub(super) all_changed: bool,
    /// When prefixes changed.
    pub stamps: Stamps,
    pub(super) interfaces: u32,
    pub(super) fields: Fields,
    /// Routes by prefix length.
    pub(super) lengths: Box<[u32]>,
    /// Its bytes as they are counted in [`Fibs::bytes`].
    pub(super) counted: usize,
    /// Taken out by a transaction that has not ended.
    pub(super) doomed: bool,
}

impl Vrf {
    pub(super) fn new(table: RouteTable, name: Option<String>, rib: Rib) -> Self {
        Vrf {
            table,
            name,
            rib,
            shared: HashMap::new(),
            withdraws: false,
            withdrawn: BTreeSet::new(),
            odd: 0,
            watched: BTreeMap::new(),
            attached: BTreeMap::new(),
            changed: vec![],
            all_changed: false,
            stamps: Stamps::default(),
            interfaces: 0,
            fields: Fields::FIVE_TUPLE,
            lengths: vec![0; if table.v6 { 129 } else { 33 }].into(),
            counted: 0,
            doomed: false,
        }
    }

    /// Its prefixes, with those that are withdrawn.
    pub fn routes(&self) -> usize {
        self.rib.len() + self.withdrawn.len()
    }

    /// Puts a route in, or gives it another group.
    #[inline]
    pub fn insert(&mut self, p: IpNet, group: GroupId) -> Result<Option<GroupId>, RouteError> {
        let was = self.rib.insert(p, group)?;
        if was.is_none()
            && let Some(n) = self.lengths.get_mut(usize::from(p.prefix_len()))
        {
            *n += 1;
        }
        Ok(was)
    }

    /// Takes a route out.
    #[inline]
    pub fn remove(&mut self, p: IpNet) -> Option<GroupId> {
        let was = self.rib.remove(p)?;
        if let Some(n) = self.lengths.get_mut(usize::from(p.prefix_len())) {
            *n = n.saturating_sub(1);
        }
        Some(was)
    }

    /// A prefix got another group: next hops in it may lead elsewhere.
    #[inline]
    pub fn note_change(&mut self, p: IpNet) {
        if self.all_changed {
            return;
        }
        // Also where nothing is looked up yet: the prefix may be the first that attaches a neighbour.
        if self.changed.len() < MOST_CHANGED.max((self.watched.len() + self.attached.len()) / 4) {
            self.changed.push(p);
        } else {
            self.changed.clear();
            self.all_changed = true;
        }
    }

    /// Looks the next hops up that may lead elsewhere, and answers the groups of those that do; the attached neighbours
    /// whose routes may have changed; and the prefixes that did, `None` where they are too many.
    pub(super) fn moved(&mut self) -> Moved {
        let (mut groups, mut neighbors) = (BTreeSet::new(), vec![]);
        let changed = std::mem::take(&mut self.changed);
        let rib = &self.rib;
        let mut look = |addr: &IpAddr, watch: &mut Watch| {
            let via = rib.longest(*addr).map_or(GroupId::NONE, |r| r.1);
            if via != watch.via {
                watch.via = via;
                groups.extend(&watch.groups);
            }
        };
        let all = std::mem::take(&mut self.all_changed);
        if all {
            self.watched.iter_mut().for_each(|(a, w)| look(a, w));
            neighbors.extend(self.attached.iter().map(|(a, i)| (*a, *i)));
        }
        for p in &changed {
            let last = p.broadcast();
            self.watched.range_mut(p.network()..=last).for_each(|(a, w)| look(a, w));
            neighbors.extend(self.attached.range(p.network()..=last).map(|(a, i)| (*a, *i)));
        }
        (groups, neighbors, (!all).then_some(changed))
    }
}

/// What [`Vrf::moved`] answers.
pub(super) type Moved = (BTreeSet<GroupId>, Vec<(IpAddr, u32)>, Option<Vec<IpNet>>);

/// More prefixes than so many that change at once are not looked at one by one, unless far more addresses hang on them.
const MOST_CHANGED: usize = 256;

/// All tables.
pub(crate) struct Fibs {
    /// By family and FIB index.
    pub(super) list: [Vec<Option<Vrf>>; 2],
    pub(super) fib_indexes: [BTreeMap<u32, FibIndex>; 2],
    pub(super) slots4: TableSlots<Routes4>,
    pub(super) slots6: TableSlots<Routes6>,
    /// Tables that change in place.
    pub(super) many: Vec<(bool, FibIndex)>,
    pub(super) doomed: Vec<(bool, FibIndex)>,
    pub(super) bytes: usize,
    pub(super) seed: u32,
    pub(super) config: LpmConfig,
    /// Changes so far of what a prefix leads to, in all of them.
    pub changes: u64,
    pub budget: Budget,
}

/// What memory routes may take.
#[derive(Default)]
pub(super) struct Budget {
    /// The most bytes that they took between transactions.
    pub most_bytes: usize,
    /// What all may take, for as long as a batch is applied that memory, and no setting, limits.
    pub short: Option<usize>,
    /// Changes since it was looked at what memory is left.
    pub unlooked: usize,
}

impl Fibs {
    pub fn new(
        fib4: Fib4Writer,
        fib6: Fib6Writer,
        slots4: TableSlots<Routes4>,
        slots6: TableSlots<Routes6>,
        seed: u32,
        config: LpmConfig,
    ) -> Self {
        let (v4, v6) =
            (Vrf::new(RouteTable::V4, None, Rib::V4(fib4)), Vrf::new(RouteTable::V6, None, Rib::V6(fib6)));
        Fibs {
            list: [vec![Some(v4)], vec![Some(v6)]],
            fib_indexes: [BTreeMap::from([(0, FibIndex::MAIN)]), BTreeMap::from([(0, FibIndex::MAIN)])],
            slots4,
            slots6,
            many: vec![(false, FibIndex::MAIN), (true, FibIndex::MAIN)],
            doomed: vec![],
            bytes: 0,
            seed,
            config,
            changes: 0,
            budget: Budget::default(),
        }
    }

    #[inline]
    pub fn get(&self, v6: bool, fib_index: FibIndex) -> Option<&Vrf> {
        self.list[usize::from(v6)].get(fib_index.index())?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, v6: bool, fib_index: FibIndex) -> Option<&mut Vrf> {
        self.list[usize::from(v6)].get_mut(fib_index.index())?.as_mut()
    }

    /// The FIB index of a table.
    #[inline]
    pub fn fib_index(&self, t: RouteTable) -> Option<FibIndex> {
        if t.id == 0 {
            return Some(FibIndex::MAIN);
        }
        self.fib_indexes[usize::from(t.v6)].get(&t.id).copied()
    }

    pub fn of(&self, t: RouteTable) -> Option<&Vrf> {
        self.get(t.v6, self.fib_index(t)?)
    }

    /// All tables of a family, by number.
    pub fn iter(&self, v6: bool) -> impl Iterator<Item = &Vrf> {
        self.fib_indexes[usize::from(v6)].values().filter_map(move |p| self.get(v6, *p))
    }

    /// Counts the bytes of a table that changed.
    pub fn count(&mut self, v6: bool, fib_index: FibIndex) {
        if let Some(Some(vrf)) = self.list[usize::from(v6)].get_mut(fib_index.index()) {
            let bytes = vrf.rib.bytes();
            self.bytes = self.bytes - vrf.counted + bytes;
            vrf.counted = bytes;
        }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes workers see a table as it is, and counts its bytes.
    pub(super) fn publish(&mut self, v6: bool, fib_index: FibIndex) {
        let seed = self.seed;
        let Some(vrf) = self.list[usize::from(v6)].get_mut(fib_index.index()).and_then(Option::as_mut) else {
            return;
        };
        let flow = Flow { seed, fields: vrf.fields };
        match &mut vrf.rib {
            Rib::V4(r) => {
                _ = r.fresh().map(|routes| self.slots4.replace(fib_index.0, Table::new(routes, flow)))
            }
            Rib::V6(r) => {
                _ = r.fresh().map(|routes| self.slots6.replace(fib_index.0, Table::new(routes, flow)))
            }
        }
        let many = vrf.rib.is_many();
        self.count(v6, fib_index);
        if many && fib_index != FibIndex::MAIN && !self.many.contains(&(v6, fib_index)) {
            self.many.push((v6, fib_index));
        }
    }

    /// Frees what no worker sees any more.
    ///
    /// # Safety
    /// As [`tables::slots::SlotsWriter::reclaim`].
    #[allow(unsafe_code)]
    pub unsafe fn reclaim(&mut self, epoch: u64, safe: u64) {
        for &(v6, fib_index) in &self.many {
            if let Some(Some(vrf)) = self.list[usize::from(v6)].get_mut(fib_index.index()) {
                vrf.rib.pass(epoch, safe);
            }
        }
        // SAFETY: by the caller.
        unsafe {
            self.slots4.reclaim(epoch, safe);
            self.slots6.reclaim(epoch, safe);
        }
    }
}
