//! Routing tables as workers see them, and which of them a packet is looked up in: that of the interface on which it
//! came.
//!
//! Most routers have one table, and most vectors come from one interface: both are asked once a vector. Table 0 is
//! there always, and large from the start.

use crate::interface::{IfSummary, Interface};
use crate::plane::{IN_TABLE, Plane, kind};
use graph::{Desc, Guard, VECTOR_SIZE};
use packet::CpuLevel;
use packet::flow::Flow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use tables::MISS;
use tables::fib::{Routes, Routes4, Routes6};
use tables::groups::{Entry, GroupId, GroupsReader, Paths};
use tables::head::{self, Head, Head4, Head6, Short};
use tables::lpm4::Lpm4;
use tables::lpm6::Lpm6;
use tables::slots::{Slots, SlotsReader, SlotsWriter};

/// By what workers find a routing table or label table of a family; an operator knows it by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FibIndex(pub u32);

impl FibIndex {
    /// That of table 0.
    pub const MAIN: FibIndex = FibIndex(0);

    /// Its place in a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The most tables of one family, table 0 included.
pub const MAX_TABLES: usize = 65_536;
/// The most tables in which one packet is looked up.
pub const MAX_LOOKUPS: u32 = 16;

/// A table as workers see it.
#[repr(C)]
pub struct Table<R: HasHead> {
    /// The head of its routes, first and so in cache lines of its own.
    head: Head<R::Short>,
    /// Its routes: numbers of next-hop groups.
    pub routes: R,
    /// How its packets are told apart for the choice of a path.
    pub flow: Flow,
}

impl<R: HasHead> Table<R> {
    /// Of routes.
    pub fn new(routes: R, flow: Flow) -> Self {
        Table { head: routes.head(), routes, flow }
    }
}

/// Routes that have a head.
pub trait HasHead {
    /// What of an address it compares.
    type Short: Short;
    /// The head.
    fn head(&self) -> Head<Self::Short>;
}

impl HasHead for Routes4 {
    type Short = i32;
    fn head(&self) -> Head4 {
        Routes4::head(self)
    }
}

impl HasHead for Routes6 {
    type Short = i64;
    fn head(&self) -> Head6 {
        Routes6::head(self)
    }
}

/// The tables of one family, by their FIB index; that of table 0 is 0.
pub struct Tables<R: HasHead> {
    /// By FIB index.
    pub slots: Arc<Slots<Table<R>>>,
    /// Interfaces in another table than table 0.
    pub bound: AtomicU32,
    /// Groups with paths that lead into a table.
    pub chained: AtomicU32,
    /// Some table tells flows apart in another way than the rest, or did.
    pub differ: AtomicBool,
    level: CpuLevel,
}

/// Writes the slots of tables.
pub type TableSlots<R> = SlotsWriter<Table<R>>;

impl<R: HasHead + Send + Sync> Tables<R> {
    /// Only table 0.
    pub fn new(main: R, flow: Flow, level: CpuLevel) -> io::Result<(TableSlots<R>, Tables<R>)> {
        let (mut writer, slots) = Slots::new(MAX_TABLES)?;
        // The first slot is free.
        let _ = writer.insert(Table::new(main, flow));
        let [bound, chained] = [0; 2].map(AtomicU32::new);
        let tables = Tables { slots, bound, chained, differ: AtomicBool::new(false), level };
        Ok((writer, tables))
    }
}

/// What differs between IPv4 and IPv6.
pub trait Family: 'static {
    /// An address as lookups take it.
    type Key: Copy;
    /// What heads of tables compare of it.
    type Short: Short<Key = Self::Key>;
    /// Routes as workers see them.
    type Routes: HasHead<Short = Self::Short> + Send + Sync;
    /// The tables.
    fn tables(plane: &Plane) -> &Tables<Self::Routes>;
    /// The FIB index of an interface's table.
    fn fib_index(interface: &Interface) -> u32;
    /// The same.
    fn fib_index_of(summary: IfSummary) -> u32;
    /// Looks one address up.
    fn lookup_one(routes: &Self::Routes, key: &Self::Key) -> u32;
    /// Looks addresses up.
    fn lookup_batch(routes: &Self::Routes, keys: &[Self::Key], results: &mut [u32]);
    /// Looks addresses up in a head that knows something.
    fn lookup_head(head: &Head<Self::Short>, level: CpuLevel, keys: &[Self::Key], results: &mut [u32]);
    /// Looks addresses up in table 0.
    fn lookup_main(plane: &Plane, keys: &[Self::Key], results: &mut [u32]);
}

/// IPv4.
pub enum V4 {}
/// IPv6.
pub enum V6 {}

impl Family for V4 {
    type Key = u32;
    type Short = i32;
    type Routes = Routes4;

    #[inline(always)]
    fn tables(plane: &Plane) -> &Tables<Routes4> {
        &plane.tables4
    }

    #[inline(always)]
    fn fib_index(interface: &Interface) -> u32 {
        interface.table4
    }

    #[inline(always)]
    fn fib_index_of(summary: IfSummary) -> u32 {
        summary.table4()
    }

    #[inline(always)]
    fn lookup_one(routes: &Routes4, key: &u32) -> u32 {
        routes.lookup_one(*key)
    }

    #[inline(always)]
    fn lookup_batch(routes: &Routes4, keys: &[u32], results: &mut [u32]) {
        routes.lookup_batch(keys, results);
    }

    #[inline(always)]
    fn lookup_head(head: &Head4, level: CpuLevel, keys: &[u32], results: &mut [u32]) {
        head.lookup_batch(level, keys, results);
    }

    #[inline(always)]
    fn lookup_main(plane: &Plane, keys: &[u32], results: &mut [u32]) {
        plane.fib4.lookup_batch(keys, results);
    }
}

impl Family for V6 {
    type Key = [u8; 16];
    type Short = i64;
    type Routes = Routes6;

    #[inline(always)]
    fn tables(plane: &Plane) -> &Tables<Routes6> {
        &plane.tables6
    }

    #[inline(always)]
    fn fib_index(interface: &Interface) -> u32 {
        interface.table6
    }

    #[inline(always)]
    fn fib_index_of(summary: IfSummary) -> u32 {
        summary.table6()
    }

    #[inline(always)]
    fn lookup_one(routes: &Routes6, key: &[u8; 16]) -> u32 {
        routes.lookup_one(key)
    }

    #[inline(always)]
    fn lookup_batch(routes: &Routes6, keys: &[[u8; 16]], results: &mut [u32]) {
        routes.lookup_batch(keys, results);
    }

    #[inline(always)]
    fn lookup_head(head: &Head6, level: CpuLevel, keys: &[[u8; 16]], results: &mut [u32]) {
        head::lookup_each(level, keys, results, |_| Some(head));
    }

    #[inline(always)]
    fn lookup_main(plane: &Plane, keys: &[[u8; 16]], results: &mut [u32]) {
        plane.fib6.lookup_batch(keys, results);
    }
}

/// The tables of a family for one vector.
pub struct View<'v, F: Family> {
    plane: &'v Plane,
    tables: &'v Tables<F::Routes>,
    slots: SlotsReader<'v, Table<F::Routes>>,
    interfaces: SlotsReader<'v, Interface>,
    /// How the packets of the vector are told apart; `None` where their tables differ in that.
    pub flow: Option<Flow>,
}

impl<'v, F: Family> View<'v, F> {
    /// The tables as they are now.
    #[inline]
    pub fn new(plane: &'v Plane, guard: &'v Guard) -> Self {
        let tables = F::tables(plane);
        let slots = tables.slots.reader(guard);
        let flow = slots.get(0).map(|t| t.flow);
        View { plane, tables, slots, interfaces: plane.interfaces.reader(guard), flow }
    }

    /// The table of a FIB index.
    #[inline]
    pub fn at(&self, fib_index: u32) -> Option<&'v Table<F::Routes>> {
        self.slots.get(fib_index)
    }

    /// The FIB index of the table of an interface.
    #[inline]
    pub fn fib_index_of(&self, interface: u32) -> u32 {
        self.interfaces.get(interface).map_or(0, F::fib_index)
    }

    /// The FIB index of the table in which a packet is looked up.
    #[inline]
    pub fn fib_index(&self, d: &Desc) -> u32 {
        if d.has(IN_TABLE) { d.tx } else { self.fib_index_of(d.rx) }
    }

    /// The table in which a packet is looked up.
    #[inline]
    fn table(&self, d: &Desc) -> Option<&'v Table<F::Routes>> {
        self.slots.get(self.fib_index(d))
    }

    /// The table of packets that came on an interface.
    #[inline]
    pub fn of(&self, rx: u32) -> Option<&'v Table<F::Routes>> {
        self.slots.get(self.fib_index_of(rx))
    }

    /// The group of an address for a packet.
    pub fn lookup_for(&self, d: &Desc, key: &F::Key) -> GroupId {
        let found = self.table(d).map_or(0, |t| F::lookup_one(&t.routes, key));
        self.chase(GroupId(found), key, &self.plane.groups.reader())
    }

    /// The group of an address for packets that came on an interface.
    pub fn lookup_one(&self, rx: u32, key: &F::Key) -> GroupId {
        let found = self.of(rx).map_or(0, |t| F::lookup_one(&t.routes, key));
        self.chase(GroupId(found), key, &self.plane.groups.reader())
    }

    /// How a packet is told apart from others.
    #[inline]
    pub fn flow(&self, d: &Desc) -> Flow {
        self.flow.or_else(|| self.table(d).map(|t| t.flow)).unwrap_or(Flow::five_tuple(0))
    }

    /// Looks up the addresses of a vector.
    #[inline(always)]
    pub fn lookup(&mut self, descs: &[Desc], keys: &[F::Key], results: &mut [u32]) {
        if self.tables.bound.load(Relaxed) | self.tables.chained.load(Relaxed) == 0 {
            return F::lookup_main(self.plane, keys, results);
        }
        self.lookup_each(descs, keys, results);
    }

    /// Looks up the addresses of a vector, each in the table of the FIB index that its packet has.
    #[inline(never)]
    pub fn lookup_at(
        &self,
        descs: &[Desc],
        keys: &[F::Key],
        results: &mut [u32],
        fib_index: impl Fn(&Desc) -> u32,
    ) {
        let mut fib_indexes = [0u32; VECTOR_SIZE];
        fib_indexes.iter_mut().zip(descs).for_each(|(to, d)| *to = fib_index(d));
        results.fill(head::ASK);
        self.ask_runs(&fib_indexes, keys, results);
        self.chase_all(keys, results);
    }

    /// Follows groups into other tables.
    #[inline]
    fn chase_all(&self, keys: &[F::Key], results: &mut [u32]) {
        if self.tables.chained.load(Relaxed) != 0 {
            let groups = self.plane.groups.reader();
            // Neighbours in a vector mostly have the same group, and mostly it leads nowhere else.
            let mut last = MISS;
            for (result, key) in results.iter_mut().zip(keys) {
                if *result != last {
                    last = *result;
                    *result = self.chase(GroupId(last), key, &groups).0;
                    if *result != last {
                        last = MISS;
                    }
                }
            }
        }
    }

    #[inline(never)]
    fn lookup_each(&mut self, descs: &[Desc], keys: &[F::Key], results: &mut [u32]) {
        let Some(first) = descs.first() else { return };
        let own = if first.has(IN_TABLE) { u32::MAX } else { 0 };
        // Without a branch for each packet: where they are alike, as mostly, all are asked anyway.
        let differ = |d: &Desc| {
            (d.rx ^ first.rx) | (own & (d.tx ^ first.tx)) | u32::from((d.flags ^ first.flags) & IN_TABLE)
        };
        if descs.iter().fold(0, |seen, d| seen | differ(d)) == 0 {
            match self.table(first) {
                Some(table) => {
                    self.flow = Some(table.flow);
                    self.lookup_in(table, keys, results);
                }
                None => results.fill(MISS),
            }
        } else {
            self.lookup_mixed(descs, keys, results);
        }
        self.chase_all(keys, results);
    }

    /// Looks up addresses in one table.
    #[inline]
    fn lookup_in(&self, table: &Table<F::Routes>, keys: &[F::Key], results: &mut [u32]) {
        if !table.head.is_known() {
            return F::lookup_batch(&table.routes, keys, results);
        }
        F::lookup_head(&table.head, self.tables.level, keys, results);
        if results.contains(&head::ASK) {
            let unknown = results.iter_mut().zip(keys).filter(|(r, _)| **r == head::ASK);
            unknown.for_each(|(r, key)| *r = F::lookup_one(&table.routes, key));
        }
    }

    /// A vector from several interfaces: each packet in the head of its table, and where that does not know in the table
    /// itself.
    #[inline(never)]
    fn lookup_mixed(&mut self, descs: &[Desc], keys: &[F::Key], results: &mut [u32]) {
        let mut fib_indexes = [0u32; VECTOR_SIZE];
        for (fib_index, d) in fib_indexes.iter_mut().zip(descs) {
            *fib_index = if d.has(IN_TABLE) { d.tx } else { F::fib_index_of(self.plane.summaries.get(d.rx)) };
            self.prefetch(*fib_index);
        }
        let n = descs.len().min(VECTOR_SIZE);
        let (fib_indexes, keys, results) = (&fib_indexes[..n], &keys[..n], &mut results[..n]);
        head::lookup_each(self.tables.level, keys, results, |n| {
            let fib_index = fib_indexes.get(n)?;
            self.slots.get(*fib_index).map(|t| &t.head)
        });
        self.ask(fib_indexes, keys, results);
        if self.tables.differ.load(Relaxed) {
            let mut flows = fib_indexes.iter().filter_map(|p| self.slots.get(*p)).map(|t| t.flow);
            let first = flows.next();
            self.flow = first.filter(|f| flows.all(|other| other == *f));
        }
    }

    /// Brings the head of a table near.
    #[inline(always)]
    pub fn prefetch(&self, fib_index: u32) {
        Head::<F::Short>::prefetch(self.slots.at(fib_index).cast());
    }

    /// Looks up what heads do not know.
    #[inline(always)]
    fn ask(&self, fib_indexes: &[u32], keys: &[F::Key], results: &mut [u32]) {
        if results.contains(&head::ASK) {
            self.ask_runs(fib_indexes, keys, results);
        }
    }

    /// By runs of packets for one table.
    #[cold]
    #[inline(never)]
    fn ask_runs(&self, fib_indexes: &[u32], keys: &[F::Key], results: &mut [u32]) {
        // Of the keys of a run, the unknown ones side by side, and where their results belong.
        let (mut found, mut at) = ([0u32; VECTOR_SIZE], [0usize; VECTOR_SIZE]);
        let Some(first) = keys.first() else { return };
        let mut unknown = [*first; VECTOR_SIZE];
        let mut from = 0;
        let fib_indexes = &fib_indexes[..results.len().min(fib_indexes.len())];
        while from < fib_indexes.len() {
            let (fib_index, mut n) = (fib_indexes[from], 0);
            let mut to = from;
            while to < fib_indexes.len() && (fib_indexes[to] == fib_index || results[to] != head::ASK) {
                if results[to] == head::ASK {
                    (unknown[n], at[n]) = (keys[to], to);
                    n += 1;
                }
                to += 1;
            }
            from = to;
            match (&unknown[..n], self.slots.get(fib_index)) {
                ([], _) => {}
                (_, None) => found.fill(MISS),
                ([key], Some(table)) => found[0] = F::lookup_one(&table.routes, key),
                (keys, Some(table)) => self.lookup_in(table, keys, &mut found[..n]),
            }
            at[..n].iter().zip(&found).for_each(|(at, found)| results[*at] = *found);
        }
    }

    /// Follows a group whose only path leads into a table. One that is left leads too far: into a loop.
    #[inline]
    fn chase(&self, group: GroupId, key: &F::Key, groups: &GroupsReader<'_>) -> GroupId {
        let mut group = group;
        for _ in 0..MAX_LOOKUPS {
            match groups.paths(group) {
                Paths::One(Entry { kind: kind::LOOKUP, adj }) => {
                    group = GroupId(self.at(adj).map_or(0, |t| F::lookup_one(&t.routes, key)));
                }
                _ => break,
            }
        }
        group
    }

    /// Where a packet goes whose path leads into the table of a FIB index; `hash` is that of its flow. `None` when tables lead
    /// on to others without end.
    #[cold]
    pub fn onward(&self, fib_index: u32, key: &F::Key, hash: impl Fn() -> u32) -> Option<Entry> {
        let mut fib_index = fib_index;
        for _ in 0..MAX_LOOKUPS {
            let group = self.at(fib_index).map_or(0, |t| F::lookup_one(&t.routes, key));
            let entry = self.plane.groups.resolve_with(GroupId(group), &hash);
            if entry.kind != kind::LOOKUP {
                return Some(entry);
            }
            fib_index = entry.adj;
        }
        None
    }
}

/// The main tables.
pub fn main(fib4: &Arc<Lpm4>, fib6: &Arc<Lpm6>) -> (Routes4, Routes6) {
    (Routes::Many(Arc::clone(fib4)), Routes::Many(Arc::clone(fib6)))
}
