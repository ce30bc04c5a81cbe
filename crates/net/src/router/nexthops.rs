//! Next-hop groups as the operator asked for them. A group stands for a group_key (these paths, or drop); what it holds at
//! the moment follows the state of interfaces, for all its routes at once.

use super::adjacencies::AdjKey;
use super::backup::Backups;
use super::resolve::{Lead, Resolution, TableKind};
use super::{OpError, PrefixRoute, Rank, RouteSource, RouteTable, Router, Source};
use crate::labels::OutLabels;
use crate::neighbor::Millis;
use crate::plane::kind;
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use tables::groups::{GroupId, GroupsWriter, Path};

/// One path of a static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutePath {
    /// Next hop; without one, destinations are neighbours on the interface.
    pub address: Option<IpAddr>,
    /// Interface; without one, the address is looked up, and packets go where the route leads that holds it.
    pub interface: Option<u32>,
    /// Number of the table in which the address is looked up, if that is not the route's own. Without an address: the
    /// table in which the packets' destinations are looked up.
    pub table: Option<u32>,
    /// Share of the flows, 1 to 255.
    pub weight: u8,
    /// Largest IP packet with its labels, bytes, where the interface takes larger ones; 0: as large as the interface takes.
    pub mtu: u16,
    /// Labels that packets get; of a label route, in the place of the one that came.
    pub labels: OutLabels,
    /// Of a label route: the kind of the table in which packets are looked up.
    pub lookup: Lookup,
}

/// In which kind of table packets of a path into a table are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lookup {
    /// That of the route.
    #[default]
    Own,
    /// IPv4, behind a label.
    Ip4,
    /// IPv6, behind a label.
    Ip6,
    /// IPv4 or IPv6 behind a label, by the version of the packet: in the tables of both families with the number.
    Ip,
    /// The same where the family of IPv6 has a table of another number, which is this. Only Linux's labels lead so.
    IpEach(u32),
    /// By the next label.
    Mpls,
    /// Not at all: behind the label is a frame that comes in on the path's interface.
    Frame,
}

impl Lookup {
    /// Its word, as in `ip4-lookup-in-table` and `l2-input-on`, of a route of IPv6 or not.
    pub const fn word(self, v6: bool) -> &'static str {
        match self {
            Lookup::Own if v6 => "ip6",
            // Behind it stands that of IPv6.
            Lookup::Own | Lookup::Ip4 | Lookup::IpEach(_) => "ip4",
            Lookup::Ip6 => "ip6",
            Lookup::Ip => "ip",
            Lookup::Mpls => "mpls",
            Lookup::Frame => "l2-input",
        }
    }

    /// Whether it is only for labels at the bottom of a stack, behind which an IP packet or a frame follows.
    pub fn ends_stack(self) -> bool {
        matches!(self, Lookup::Ip4 | Lookup::Ip6 | Lookup::Ip | Lookup::IpEach(_) | Lookup::Frame)
    }
}

impl Default for RoutePath {
    fn default() -> Self {
        RoutePath {
            address: None,
            interface: None,
            table: None,
            weight: 1,
            mtu: 0,
            labels: OutLabels::NONE,
            lookup: Lookup::Own,
        }
    }
}

impl RoutePath {
    /// Whether both lead to the same place; weight and MTU do not matter.
    pub fn is_same(&self, other: &RoutePath) -> bool {
        let one_interface = self.interface == other.interface
            || self.address.is_some() && (self.interface.is_none() || other.interface.is_none());
        let one_table = self.table == other.table && self.lookup == other.lookup;
        self.address == other.address && one_table && one_interface && self.labels == other.labels
    }
}

/// What a route does with its packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Sends them over paths.
    Paths(Vec<RoutePath>),
    /// Takes them: an address of this interface.
    Local(u32),
    /// Resolves their destination on this interface.
    Glean(u32),
    /// Sends them to this neighbour.
    Neighbor(u32, IpAddr),
    /// Drops them, as a broadcast of a connected prefix.
    Broadcast,
    /// Sends them to all hosts on the link of this interface, as a broadcast of its prefix.
    DirectedBroadcast(u32),
    /// Drops them.
    Drop,
    /// Drops them and tells the sender "host unreachable".
    Unreachable,
    /// Drops them and tells the sender "prohibited".
    Prohibit,
}

impl Target {
    /// The target that throws packets away, by its word: `drop`, `unreachable` or `prohibit`.
    pub fn discard(word: &str) -> Option<Target> {
        Some(match word {
            "drop" => Target::Drop,
            "unreachable" => Target::Unreachable,
            "prohibit" => Target::Prohibit,
            _ => return None,
        })
    }
}

/// An object of a source's by which its routes lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteObject {
    /// Its number; 0: none.
    pub id: u32,
    /// Over how many buckets at least flows are spread, as who made it resilient has said; 0: nobody has.
    pub buckets: u16,
}

impl RouteObject {
    /// No object.
    pub const NONE: RouteObject = RouteObject { id: 0, buckets: 0 };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    pub source: Source,
    pub rank: Rank,
    /// Of a source at run time: in which of its generations it was set last.
    pub generation: u32,
    pub v6: bool,
    /// Of label routes.
    pub mpls: bool,
    /// Number of the table in which next hops are looked up; 0 where none is.
    pub table: u32,
    /// The object of the source's by which its routes lead, and which may come to lead elsewhere with all of them.
    pub object: RouteObject,
    pub target: Target,
}

pub(super) struct Hop {
    pub group_key: GroupKey,
    /// Routes that point to it.
    routes: u32,
    /// Transactions that may still come back to it.
    held: u32,
    adjacencies: Vec<AdjKey>,
    paths: Vec<Path>,
    pub resolution: Resolution,
    changed: Millis,
    /// Never the same for another group, or for another target.
    pub serial: u64,
}

pub(crate) struct NextHops {
    pub groups: GroupsWriter,
    by_group_key: HashMap<GroupKey, GroupId>,
    by_id: Vec<Option<Hop>>,
    /// Groups of paths by the interface of a path.
    by_interface: BTreeSet<(u32, GroupId)>,
    /// Groups of paths by the neighbour of a path.
    by_address: BTreeSet<(IpAddr, GroupId)>,
    /// Groups by a group through which they go.
    by_through: BTreeSet<(GroupId, GroupId)>,
    /// Groups of routes onto a link by the interface of that.
    by_link: BTreeSet<(u32, GroupId)>,
    /// Groups of routes that lead by an object, by that.
    by_object: BTreeSet<(u32, GroupId)>,
    /// Groups by the table into which they lead.
    by_table: BTreeSet<(TableKind, FibIndex, GroupId)>,
    /// Next hops of groups that did not answer, by interface: left out while another path works.
    dead: BTreeSet<(u32, IpAddr)>,
    /// Prefixes with several routes.
    pub(super) backups: Backups,
    /// Bytes that groups take, about.
    bytes: usize,
    /// The last serial number.
    last_serial: u64,
}

/// A next-hop group as `show ip fib` explains it.
#[derive(Clone, Debug)]
pub struct NextHopInfo {
    /// Its number.
    pub id: GroupId,
    /// Who asked for it.
    pub source: Source,
    /// How good its routes are.
    pub rank: Rank,
    /// When what it holds changed last, by the router's clock.
    pub changed: Millis,
    /// Whether its routes are IPv6.
    pub v6: bool,
    /// Whether its routes are labels.
    pub mpls: bool,
    /// The object by which its routes lead.
    pub object: RouteObject,
    /// What was asked for.
    pub target: Target,
    /// Routes that point to it.
    pub routes: u32,
    /// What it holds now: kind and adjacency (or interface, for local) with weights.
    pub paths: Vec<Path>,
    /// Buckets over which flows are spread.
    pub buckets: usize,
}

impl NextHops {
    pub fn new(groups: GroupsWriter) -> Self {
        NextHops {
            groups,
            by_group_key: HashMap::new(),
            by_id: vec![],
            by_interface: BTreeSet::new(),
            by_address: BTreeSet::new(),
            by_through: BTreeSet::new(),
            by_link: BTreeSet::new(),
            by_object: BTreeSet::new(),
            by_table: BTreeSet::new(),
            dead: BTreeSet::new(),
            backups: Backups::default(),
            bytes: 0,
            last_serial: 0,
        }
    }

    fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }

    #[inline]
    fn get(&self, id: GroupId) -> Option<&Hop> {
        self.by_id.get(id.at())?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, id: GroupId) -> Option<&mut Hop> {
        self.by_id.get_mut(id.at())?.as_mut()
    }

    #[inline]
    pub fn source(&self, id: GroupId) -> Option<Source> {
        self.get(id).map(|h| h.group_key.source)
    }

    /// A route of a prefix, by its group.
    #[inline]
    pub fn route(&self, id: GroupId) -> Option<PrefixRoute> {
        self.get(id).map(|h| PrefixRoute { rank: h.group_key.rank, source: h.group_key.source, group: id })
    }

    /// How many routes a source has, and how many of these are not of this generation.
    pub fn routes_of(&self, source: Source, generation: u32) -> (u64, u64) {
        let own = self.by_id.iter().flatten().filter(|h| !h.group_key.mpls && h.group_key.source == source);
        own.fold((0, 0), |(all, stale), h| {
            let n = u64::from(h.routes);
            (all + n, stale + if h.group_key.generation == generation { 0 } else { n })
        })
    }

    /// Routes of labels of a source.
    pub fn labels_of(&self, source: Source) -> u64 {
        let own = self.by_id.iter().flatten().filter(|h| h.group_key.mpls && h.group_key.source == source);
        own.map(|h| u64::from(h.routes)).sum()
    }

    /// Whether what a group is for was not set again since its source's routes were marked.
    pub fn is_stale(&self, id: GroupId, generation: u32) -> bool {
        self.get(id).is_some_and(|h| h.group_key.generation != generation)
    }

    pub fn target(&self, id: GroupId) -> Option<&Target> {
        self.get(id).map(|h| &h.group_key.target)
    }

    /// One route more on a group.
    #[inline]
    pub fn add_route(&mut self, id: GroupId) {
        if let Some(h) = self.get_mut(id) {
            h.routes += 1;
        }
    }

    /// Holds a group once more: [`Router::let_go`] must follow. False where there is none.
    pub fn hold(&mut self, id: GroupId) -> bool {
        self.get_mut(id).map(|h| h.held += 1).is_some()
    }

    /// A route leaves a group for another, and may come back: one route less, and held once more.
    #[inline]
    pub fn leave(&mut self, id: GroupId) {
        if let Some(h) = self.get_mut(id) {
            h.routes -= 1;
            h.held += 1;
        }
    }

    /// The reverse of `leave`.
    #[inline]
    pub fn come_back(&mut self, id: GroupId) {
        if let Some(h) = self.get_mut(id) {
            h.routes += 1;
            h.held -= 1;
        }
    }

    /// A group with all that is known of it.
    pub(super) fn hop(&self, id: GroupId) -> Option<&Hop> {
        self.get(id)
    }

    /// Whether a neighbour did not answer.
    pub(super) fn is_dead(&self, interface: u32, addr: IpAddr) -> bool {
        !self.dead.is_empty() && self.dead.contains(&(interface, addr))
    }

    /// Groups that go through a group.
    pub(super) fn dependents(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        self.by_through.range((id, GroupId::NONE)..=(id, GroupId::MAX)).map(|(_, d)| *d)
    }

    /// Groups that lead into the table of a kind and FIB index.
    pub(crate) fn leading_to(
        &self,
        kind: TableKind,
        fib_index: FibIndex,
    ) -> impl Iterator<Item = GroupId> + '_ {
        self.by_table
            .range((kind, fib_index, GroupId::NONE)..=(kind, fib_index, GroupId::MAX))
            .map(|(_, _, id)| *id)
    }

    /// Notes through which groups a group goes.
    pub(super) fn set_through(&mut self, id: GroupId, through: Vec<GroupId>) {
        let Some(h) = self.by_id.get_mut(id.at()).and_then(Option::as_mut) else { return };
        if h.resolution.through != through {
            for t in &h.resolution.through {
                self.by_through.remove(&(*t, id));
            }
            self.by_through.extend(through.iter().map(|t| (*t, id)));
            h.resolution.through = through;
        }
    }

    fn insert(&mut self, id: GroupId, hop: Hop) {
        self.bytes += hop.bytes();
        self.by_group_key.insert(hop.group_key.clone(), id);
        if hop.group_key.object.id != 0 {
            self.by_object.insert((hop.group_key.object.id, id));
        }
        if self.by_id.len() <= id.at() {
            self.by_id.resize_with(id.at() + 1, || None);
        }
        self.by_id[id.at()] = Some(hop);
    }

    /// Lists a group by what it hangs on, or no more.
    fn list(&mut self, id: GroupId, r: &Resolution, on: bool) {
        fn put<T: Ord>(set: &mut BTreeSet<T>, items: impl Iterator<Item = T>, on: bool) {
            if on {
                set.extend(items);
            } else {
                items.for_each(|i| _ = set.remove(&i));
            }
        }
        put(&mut self.by_interface, r.interfaces.iter().map(|i| (*i, id)), on);
        put(&mut self.by_address, r.neighbors.iter().map(|a| (*a, id)), on);
        put(&mut self.by_through, r.through.iter().map(|t| (*t, id)), on);
        put(&mut self.by_link, r.link.iter().map(|i| (*i, id)), on);
        put(&mut self.by_table, r.tables.iter().map(|(kind, t)| (*kind, *t, id)), on);
    }

    fn remove(&mut self, id: GroupId) -> Option<Hop> {
        let hop = self.by_id.get_mut(id.at())?.take()?;
        if self.by_group_key.get(&hop.group_key) == Some(&id) {
            self.by_group_key.remove(&hop.group_key);
        }
        self.by_object.remove(&(hop.group_key.object.id, id));
        self.bytes -= hop.bytes();
        self.groups.release(id);
        Some(hop)
    }

    /// The groups of routes of a source, family and rank that lead by an object to a target.
    fn of_object(&self, wanted: &GroupKey) -> Vec<GroupId> {
        let of = self.groups_of(wanted.object);
        let same = |id: &GroupId| {
            self.get(*id).is_some_and(|h| {
                // Of whatever generation: all of them lead by the object.
                let generation = h.group_key.generation;
                h.group_key == GroupKey { generation, ..wanted.clone() }
            })
        };
        of.filter(same).collect()
    }

    fn groups_of(&self, object: RouteObject) -> impl DoubleEndedIterator<Item = GroupId> + '_ {
        self.by_object.range((object.id, GroupId::NONE)..=(object.id, GroupId::MAX)).map(|(_, id)| *id)
    }

    /// A group by which routes of an object lead until they are set one by one: flows stay where they are in the one that is to be made.
    fn before(&self, wanted: &GroupKey) -> GroupId {
        let like = |id: &GroupId| {
            self.get(*id).is_some_and(|h| {
                let k = &h.group_key;
                (k.source, k.rank, k.v6, k.object) == (wanted.source, wanted.rank, wanted.v6, wanted.object)
            })
        };
        let mut all = Some(wanted.object).filter(|o| o.id != 0).into_iter().flat_map(|o| self.groups_of(o));
        all.rfind(like).unwrap_or(GroupId::NONE)
    }

    /// Has a group be for another target. False where there is a group for that already.
    fn turn_to(&mut self, id: GroupId, target: &Target) -> bool {
        let serial = self.next_serial();
        let Some(hop) = self.by_id.get_mut(id.at()).and_then(Option::as_mut) else { return false };
        let key = GroupKey { target: target.clone(), ..hop.group_key.clone() };
        if self.by_group_key.contains_key(&key) {
            return false;
        }
        if self.by_group_key.get(&hop.group_key) == Some(&id) {
            self.by_group_key.remove(&hop.group_key);
        }
        self.by_group_key.insert(key.clone(), id);
        self.bytes -= hop.bytes();
        (hop.group_key, hop.serial) = (key, serial);
        self.bytes += hop.bytes();
        true
    }

    /// Has a group lose its ways over interfaces that go. Nobody gets it any more: its routes leave it when their source
    /// sets or removes them.
    fn orphan(&mut self, id: GroupId, gone: &[u32]) {
        let serial = self.next_serial();
        let Some(hop) = self.by_id.get_mut(id.at()).and_then(Option::as_mut) else { return };
        if self.by_group_key.get(&hop.group_key) == Some(&id) {
            self.by_group_key.remove(&hop.group_key);
        }
        self.bytes -= hop.bytes();
        let over = |p: &RoutePath| p.interface.is_some_and(|i| gone.contains(&i));
        let left = match &hop.group_key.target {
            Target::Paths(paths) => paths.iter().filter(|p| !over(p)).copied().collect(),
            _ => vec![],
        };
        hop.serial = serial;
        hop.group_key.target = if left.is_empty() { Target::Unreachable } else { Target::Paths(left) };
        self.bytes += hop.bytes();
    }

    /// Bytes of the groups, workers' and control side, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Groups with a path to this next hop.
    pub(super) fn towards(&self, address: IpAddr) -> BTreeSet<GroupId> {
        self.by_address.range((address, GroupId::NONE)..=(address, GroupId::MAX)).map(|(_, id)| *id).collect()
    }

    /// Whether a group with a path to this next hop has another path.
    fn has_choice(&self, address: IpAddr) -> bool {
        let several =
            |id: GroupId| self.get(id).is_some_and(|h| h.resolution.neighbors.len() > 1 || h.has_paths());
        self.towards(address).into_iter().any(several)
    }

    /// Groups with a path that names one of these interfaces.
    pub fn over(&self, interfaces: &[u32]) -> BTreeSet<GroupId> {
        let of = |i: u32| self.by_interface.range((i, GroupId::NONE)..=(i, GroupId::MAX)).map(|(_, id)| *id);
        interfaces.iter().copied().flat_map(of).collect()
    }

    /// Groups that may change when one of these interfaces does.
    fn touched_by(&self, interfaces: &[u32]) -> BTreeSet<GroupId> {
        let onto = |i: u32| self.by_link.range((i, GroupId::NONE)..=(i, GroupId::MAX)).map(|(_, id)| *id);
        let mut groups = self.over(interfaces);
        groups.extend(interfaces.iter().copied().flat_map(onto));
        groups
    }
}

impl Hop {
    /// What a group takes here and in the tables of groups, without counting its buckets exactly: the same at its
    /// making and its end.
    fn bytes(&self) -> usize {
        let paths = match &self.group_key.target {
            Target::Paths(p) => p.len(),
            _ => 1,
        };
        // Its word, twice its group_key, its paths here and there, its adjacencies' keys, up to 16 buckets a path.
        let path =
            2 * size_of::<RoutePath>() + 3 * size_of::<Path>() + size_of::<AdjKey>() + 16 * size_of::<u64>();
        8 + 2 * size_of::<Hop>() + paths * path
    }
}

impl Hop {
    /// The interface onto whose link its routes lead straight. One of several paths does not count: flows are then spread,
    /// and no host has a route.
    pub(super) fn attaches(&self) -> Option<u32> {
        match (&self.group_key.target, &self.resolution.leads[..]) {
            (Target::Glean(i), _) => Some(*i),
            (Target::Paths(_), [lead]) if !self.group_key.mpls && lead.kind == kind::GLEAN => {
                match lead.key {
                    Some(AdjKey::Glean(i, v6, _)) if v6 == self.group_key.v6 => Some(i),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether it may come to lead nowhere.
    pub(super) fn may_turn(&self) -> bool {
        self.resolution.link.is_some() || matches!(self.group_key.target, Target::Paths(_))
    }

    /// How many routes point to it.
    pub(super) fn routes(&self) -> u32 {
        self.routes
    }

    fn has_paths(&self) -> bool {
        matches!(&self.group_key.target, Target::Paths(p) if p.len() > 1)
    }
}

impl NextHops {
    /// Forgets what is known of the next hops on an interface.
    pub fn forget_dead(&mut self, interface: u32) {
        self.dead.retain(|(i, _)| *i != interface);
    }

    /// Next hops that are left out, for as long as groups have them.
    pub fn dead(&mut self) -> Vec<(u32, IpAddr)> {
        let mut dead = std::mem::take(&mut self.dead);
        dead.retain(|(_, a)| self.has_choice(*a));
        let list = dead.iter().copied().collect();
        self.dead = dead;
        list
    }
}

impl Router {
    /// Takes the adjacencies that ways need, and answers the group's paths.
    fn take_leads(&mut self, leads: &[Lead]) -> Result<(Vec<Path>, Vec<AdjKey>), OpError> {
        let (mut paths, mut keys) = (vec![], vec![]);
        for l in leads {
            let adj = match l.key {
                Some(k) => {
                    let Some(id) = self.hold_adjacency(k) else {
                        keys.into_iter().for_each(|k| self.release_adjacency_key(k));
                        return Err(OpError::new("no room for another adjacency"));
                    };
                    keys.push(k);
                    id
                }
                None => l.value,
            };
            let weight = u32::try_from(l.weight).unwrap_or(u32::MAX);
            paths.push(Path { entry: tables::groups::Entry { kind: l.kind, adj }, weight });
        }
        Ok((paths, keys))
    }

    /// Lists a group by what it hangs on, or no more.
    fn list_group(&mut self, id: GroupId, mpls: bool, r: &Resolution, on: bool) {
        self.nexthops.list(id, r, on);
        for &(kind, fib_index) in &r.tables {
            let chained = match kind {
                // Packets behind labels are looked up in table 0 like all others.
                TableKind::Ip4 | TableKind::Ip6 if mpls && fib_index == FibIndex::MAIN => continue,
                TableKind::Ip4 => &self.plane.tables4.chained,
                TableKind::Ip6 => &self.plane.tables6.chained,
                TableKind::Mpls => continue,
            };
            if on {
                chained.fetch_add(1, Relaxed);
            } else {
                chained.fetch_sub(1, Relaxed);
            }
        }
        for &(v6, fib_index, addr) in &r.watches {
            let Some(vrf) = self.fibs.get_mut(v6, fib_index) else { continue };
            if on {
                let via = vrf.rib.longest(addr).map_or(GroupId::NONE, |l| l.1);
                let watch = vrf.watched.entry(addr).or_default();
                watch.via = via;
                watch.groups.insert(id);
            } else if let Some(watch) = vrf.watched.get_mut(&addr) {
                watch.groups.remove(&id);
                if watch.groups.is_empty() {
                    vrf.watched.remove(&addr);
                }
            }
        }
    }

    /// The group for what a route of a table wants, held once more: [`Router::let_go`] must follow.
    pub(crate) fn hold_group(
        &mut self,
        source: Source,
        table: RouteTable,
        target: Target,
    ) -> Result<GroupId, OpError> {
        self.hold_group_of((source, self.rank_of(source), RouteObject::NONE), table, target)
    }

    /// [`Router::hold_group`] for routes of a rank, and of an object.
    pub(super) fn hold_group_of(
        &mut self,
        (source, rank, object): (Source, Rank, RouteObject),
        table: RouteTable,
        target: Target,
    ) -> Result<GroupId, OpError> {
        let generation = self.sources.generation(source);
        let looks_up = |p: &RoutePath| p.interface.is_none() && p.table.is_none();
        let id = match &target {
            Target::Paths(p) if p.iter().any(looks_up) => table.id,
            _ => 0,
        };
        self.hold_group_key(GroupKey {
            source,
            rank,
            generation,
            v6: table.v6,
            mpls: false,
            table: id,
            object,
            target,
        })
    }

    /// Has all routes of a source that lead by an object ([`super::RouteBatch::by_object`]), have this rank and are of this family, lead to
    /// another target: by one change of their next-hop group, whatever their number. `like` is one of them, with the number of
    /// its table. False where that cannot be, and each of them has to be set; where there are none there is nothing to do, whether `like` leads
    /// elsewhere or is not set: [`Router::leads_to`] says it.
    ///
    /// # Errors
    /// The target is none for `like`: nothing was done.
    pub fn move_object(
        &mut self,
        source: RouteSource,
        (rank, object): (Rank, RouteObject),
        (table, like): (u32, IpNet),
        from: &Target,
        to: &Target,
    ) -> Result<bool, OpError> {
        let source = Source::Runtime(source);
        self.check_source(source)?;
        self.check_target(table, like, to)?;
        let over_interfaces =
            |t: &Target| matches!(t, Target::Paths(p) if p.iter().all(|p| p.interface.is_some()));
        // Those who follow changes are told each prefix.
        if object.id == 0 || !over_interfaces(from) || !over_interfaces(to) || self.are_routes_followed() {
            return Ok(false);
        }
        let v6 = like.addr().is_ipv6();
        let wanted =
            GroupKey { source, rank, generation: 0, v6, mpls: false, table: 0, object, target: from.clone() };
        let groups = self.nexthops.of_object(&wanted);
        let turned: BTreeSet<GroupId> =
            groups.iter().copied().filter(|id| self.nexthops.turn_to(*id, to)).collect();
        let all = turned.len() == groups.len();
        self.refresh(turned);
        Ok(all)
    }

    /// Whether the route of a source and a rank for a prefix of a table has this target.
    pub fn leads_to(
        &self,
        source: RouteSource,
        rank: Rank,
        (table, prefix): (u32, IpNet),
        target: &Target,
    ) -> bool {
        let (table, prefix) = (RouteTable::of(prefix.addr(), table), prefix.trunc());
        let Some(fib_index) = self.fibs.fib_index(table) else { return false };
        let is = |e: &PrefixRoute| {
            (e.source, e.rank) == (Source::Runtime(source), rank)
                && self.nexthops.target(e.group) == Some(target)
        };
        match self.fibs.shared(fib_index, prefix) {
            Some(list) => list.iter().any(is),
            None => {
                let alone = self.fibs.group_of(fib_index, prefix).and_then(|g| self.nexthops.route(g));
                alone.is_some_and(|e| is(&e))
            }
        }
    }

    /// The group that leads to an address as the routes of a table say, or over an interface, held once more:
    /// [`Router::let_go`] must follow. To a multicast group packets go over an interface, or nowhere.
    pub(crate) fn hold_way_to(
        &mut self,
        table: RouteTable,
        address: IpAddr,
        interface: Option<u32>,
    ) -> Result<GroupId, OpError> {
        let path = RoutePath { address: Some(address), interface, ..RoutePath::default() };
        self.hold_group(Source::Static, table, Target::Paths(vec![path]))
    }

    /// The group for what a label route wants, held once more.
    pub(crate) fn hold_label_group(&mut self, source: Source, target: Target) -> Result<GroupId, OpError> {
        let (rank, generation) = (self.rank_of(source), self.sources.generation(source));
        self.hold_group_key(GroupKey {
            source,
            rank,
            generation,
            v6: false,
            mpls: true,
            table: 0,
            object: RouteObject::NONE,
            target,
        })
    }

    fn hold_group_key(&mut self, group_key: GroupKey) -> Result<GroupId, OpError> {
        if let Some(&id) = self.nexthops.by_group_key.get(&group_key) {
            if let Some(h) = self.nexthops.get_mut(id) {
                h.held += 1;
            }
            return Ok(id);
        }
        let resolution = self.resolve(&group_key, &|_| false);
        let (paths, adjacencies) = self.take_leads(&resolution.leads)?;
        let (before, least) = (self.nexthops.before(&group_key), usize::from(group_key.object.buckets));
        let id =
            self.nexthops.groups.create_after(&paths, before, least).map_err(|e| OpError::new(e.to_string()));
        let id = match id {
            Ok(id) => id,
            Err(e) => {
                adjacencies.into_iter().for_each(|k| self.release_adjacency_key(k));
                return Err(e);
            }
        };
        self.list_group(id, group_key.mpls, &resolution, true);
        let changed = self.now();
        let serial = self.nexthops.next_serial();
        let hop = Hop { group_key, routes: 0, held: 1, adjacencies, paths, resolution, changed, serial };
        self.nexthops.insert(id, hop);
        Ok(id)
    }

    /// One hold less on a group; the last one takes it out, if no route points to it.
    pub(crate) fn let_go(&mut self, id: GroupId) {
        let Some(h) = self.nexthops.get_mut(id) else { return };
        h.held -= 1;
        if h.held == 0
            && h.routes == 0
            && let Some(h) = self.nexthops.remove(id)
        {
            self.list_group(id, h.group_key.mpls, &h.resolution, false);
            h.adjacencies.into_iter().for_each(|k| self.release_adjacency_key(k));
        }
    }

    /// These interfaces changed their state or addresses: every group with a path over them is worked out again, and
    /// with it its routes move. No route is looked at.
    pub(crate) fn refresh_groups(&mut self, interfaces: &[u32]) {
        self.refresh(self.nexthops.touched_by(interfaces));
    }

    /// Routes of sources that registered lose their ways over interfaces that go, as the sources will find out.
    pub(super) fn orphan_groups(&mut self, gone: &[u32]) {
        let of_sources = |id: &GroupId| matches!(self.nexthops.source(*id), Some(Source::Runtime(_)));
        let groups: BTreeSet<GroupId> = self.nexthops.over(gone).into_iter().filter(of_sources).collect();
        groups.iter().for_each(|id| self.nexthops.orphan(*id, gone));
        self.refresh(groups);
    }

    /// A next hop does not answer: packets take the other paths of the groups that have one.
    pub(super) fn next_hop_lost(&mut self, interface: u32, address: IpAddr) {
        if self.nexthops.has_choice(address) && self.nexthops.dead.insert((interface, address)) {
            self.refresh(self.nexthops.towards(address));
        }
    }

    /// A next hop answers.
    pub(super) fn next_hop_found(&mut self, interface: u32, address: IpAddr) {
        if self.nexthops.dead.remove(&(interface, address)) {
            self.refresh(self.nexthops.towards(address));
        }
    }

    /// Gives a group what it holds from now on.
    pub(super) fn apply_resolution(&mut self, id: GroupId, resolution: Resolution) {
        let Some(h) = self.nexthops.get(id) else { return };
        if h.resolution == resolution {
            return;
        }
        let (mpls, same) = (h.group_key.mpls, h.resolution.leads == resolution.leads);
        let (v6, before, now) = (h.group_key.v6, h.attaches(), self.now());
        let gone = if same {
            vec![]
        } else {
            let Ok((paths, keys)) = self.take_leads(&resolution.leads) else { return };
            match (self.nexthops.groups.set(id, &paths), self.nexthops.get_mut(id)) {
                (Ok(()), Some(h)) => {
                    (h.paths, h.changed) = (paths, now);
                    std::mem::replace(&mut h.adjacencies, keys)
                }
                (Err(e), _) => {
                    self.note(true, format!("next-hop group {id} keeps its old paths: {e}"));
                    return keys.into_iter().for_each(|k| self.release_adjacency_key(k));
                }
                (Ok(()), None) => keys,
            }
        };
        let old = self.nexthops.get_mut(id).map(|h| std::mem::replace(&mut h.resolution, resolution.clone()));
        if let Some(old) = old {
            if old.lost != resolution.lost {
                self.turn(id);
            }
            self.list_group(id, mpls, &old, false);
            self.list_group(id, mpls, &resolution, true);
        }
        gone.into_iter().for_each(|k| self.release_adjacency_key(k));
        // No prefix changed, but the neighbours that its routes attach are others.
        let after = self.nexthops.get(id).and_then(Hop::attaches);
        if before != after {
            before.into_iter().chain(after).for_each(|i| self.neighbors.look_again_at(i, v6));
        }
    }

    /// A next-hop group.
    pub fn group(&self, id: GroupId) -> Option<NextHopInfo> {
        let h = self.nexthops.get(id)?;
        Some(NextHopInfo {
            id,
            source: h.group_key.source,
            rank: h.group_key.rank,
            changed: h.changed,
            v6: h.group_key.v6,
            mpls: h.group_key.mpls,
            object: h.group_key.object,
            target: h.group_key.target.clone(),
            routes: h.routes,
            paths: h.paths.clone(),
            buckets: self.nexthops.groups.buckets(id).len(),
        })
    }

    /// All next-hop groups, by number.
    pub fn groups(&self) -> Vec<NextHopInfo> {
        (0..self.nexthops.by_id.len() as u32).filter_map(|id| self.group(GroupId(id))).collect()
    }
}
