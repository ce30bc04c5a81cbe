//! Next-hop groups as the operator asked for them. A group stands for a wish (these paths, or drop); what it holds at
//! the moment follows the state of interfaces, for all its routes at once.

use super::adjacencies::AdjKey;
use super::{OpError, Router};
use crate::plane::kind;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use tables::groups::{GroupsWriter, Path};

/// Who made a route; of several for one prefix the first in this order is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An interface's address.
    Interface,
    /// The operator.
    Static,
    /// A neighbour on a connected prefix.
    Neighbor,
}

impl Source {
    /// The word for it in `show ip fib`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Static => "static",
            Source::Neighbor => "neighbor",
        }
    }
}

/// One path of a static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoutePath {
    /// Next hop; without one, destinations are neighbours on the interface.
    pub address: Option<IpAddr>,
    /// Interface; without one, that of the connected prefix which holds the address.
    pub interface: Option<u32>,
    /// Share of the flows, 1 to 255.
    pub weight: u8,
}

impl RoutePath {
    /// Whether both lead to the same place; the weight does not matter.
    pub fn is_same(&self, other: &RoutePath) -> bool {
        let one_interface = self.interface == other.interface
            || self.address.is_some() && (self.interface.is_none() || other.interface.is_none());
        self.address == other.address && one_interface
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wish {
    source: Source,
    v6: bool,
    target: Target,
}

struct Hop {
    wish: Wish,
    /// Routes that point to it.
    routes: u32,
    /// Transactions that may still come back to it.
    held: u32,
    adjacencies: Vec<AdjKey>,
    paths: Vec<Path>,
}

pub(crate) struct NextHops {
    pub groups: GroupsWriter,
    by_wish: HashMap<Wish, u32>,
    by_id: Vec<Option<Hop>>,
    /// Groups of paths by the interface of a path; [`ANY`] for a path whose interface follows from its address.
    by_interface: BTreeSet<(u32, u32)>,
    /// Groups of paths by the next hop of a path.
    by_address: BTreeSet<(IpAddr, u32)>,
    /// Next hops of groups that did not answer, by interface: left out while another path works.
    dead: BTreeSet<(u32, IpAddr)>,
    /// Bytes that groups take, about.
    bytes: usize,
}

/// In place of an interface: the path's address says which one it is.
const ANY: u32 = u32::MAX;

/// A next-hop group as `show ip fib` explains it.
#[derive(Clone, Debug)]
pub struct NextHopInfo {
    /// Its number.
    pub id: u32,
    /// Who asked for it.
    pub source: Source,
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
            by_wish: HashMap::new(),
            by_id: vec![],
            by_interface: BTreeSet::new(),
            by_address: BTreeSet::new(),
            dead: BTreeSet::new(),
            bytes: 0,
        }
    }

    #[inline]
    fn get(&self, id: u32) -> Option<&Hop> {
        self.by_id.get(id as usize)?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, id: u32) -> Option<&mut Hop> {
        self.by_id.get_mut(id as usize)?.as_mut()
    }

    #[inline]
    pub fn source(&self, id: u32) -> Option<Source> {
        self.get(id).map(|h| h.wish.source)
    }

    pub fn target(&self, id: u32) -> Option<&Target> {
        self.get(id).map(|h| &h.wish.target)
    }

    /// One route more on a group.
    #[inline]
    pub fn add_route(&mut self, id: u32) {
        if let Some(h) = self.get_mut(id) {
            h.routes += 1;
        }
    }

    /// Holds a group once more: [`Router::let_go`] must follow. False where there is none.
    pub fn hold(&mut self, id: u32) -> bool {
        self.get_mut(id).map(|h| h.held += 1).is_some()
    }

    /// A route leaves a group for another, and may come back: one route less, and held once more.
    #[inline]
    pub fn leave(&mut self, id: u32) {
        if let Some(h) = self.get_mut(id) {
            h.routes -= 1;
            h.held += 1;
        }
    }

    /// The reverse of `leave`.
    #[inline]
    pub fn come_back(&mut self, id: u32) {
        if let Some(h) = self.get_mut(id) {
            h.routes += 1;
            h.held -= 1;
        }
    }

    fn insert(&mut self, id: u32, hop: Hop) {
        for i in hop.wish.interfaces() {
            self.by_interface.insert((i, id));
        }
        for a in hop.wish.addresses() {
            self.by_address.insert((a, id));
        }
        self.bytes += hop.bytes();
        self.by_wish.insert(hop.wish.clone(), id);
        if self.by_id.len() <= id as usize {
            self.by_id.resize_with(id as usize + 1, || None);
        }
        self.by_id[id as usize] = Some(hop);
    }

    fn remove(&mut self, id: u32) -> Option<Hop> {
        let hop = self.by_id.get_mut(id as usize)?.take()?;
        for i in hop.wish.interfaces() {
            self.by_interface.remove(&(i, id));
        }
        for a in hop.wish.addresses() {
            self.by_address.remove(&(a, id));
        }
        self.by_wish.remove(&hop.wish);
        self.bytes -= hop.bytes();
        self.groups.release(id);
        Some(hop)
    }

    /// Bytes of the groups, workers' and control side, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Groups with a path to this next hop.
    fn towards(&self, address: IpAddr) -> BTreeSet<u32> {
        self.by_address.range((address, 0)..=(address, u32::MAX)).map(|(_, id)| *id).collect()
    }

    /// Whether a group with a path to this next hop has another path.
    fn has_choice(&self, address: IpAddr) -> bool {
        let several = |id: u32| matches!(self.target(id), Some(Target::Paths(p)) if p.len() > 1);
        self.towards(address).into_iter().any(several)
    }

    /// Groups that may change when one of these interfaces does.
    fn touched_by(&self, interfaces: &[u32]) -> BTreeSet<u32> {
        let of = |i: u32| self.by_interface.range((i, 0)..=(i, u32::MAX)).map(|(_, id)| *id);
        interfaces.iter().copied().chain([ANY]).flat_map(of).collect()
    }
}

impl Hop {
    /// What a group takes here and in the tables of groups, without counting its buckets exactly: the same at its
    /// making and its end.
    fn bytes(&self) -> usize {
        let paths = match &self.wish.target {
            Target::Paths(p) => p.len(),
            _ => 1,
        };
        // Its word, twice its wish, its paths here and there, its adjacencies' keys, up to 16 buckets a path.
        let path =
            2 * size_of::<RoutePath>() + 3 * size_of::<Path>() + size_of::<AdjKey>() + 16 * size_of::<u64>();
        8 + 2 * size_of::<Hop>() + paths * path
    }
}

impl Wish {
    /// Next hops of the paths.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let paths = match &self.target {
            Target::Paths(p) => p.as_slice(),
            _ => &[],
        };
        paths.iter().filter_map(|p| p.address)
    }

    /// Interfaces whose state decides what the group holds.
    fn interfaces(&self) -> impl Iterator<Item = u32> + '_ {
        let paths = match &self.target {
            Target::Paths(p) => p.as_slice(),
            _ => &[],
        };
        paths.iter().map(|p| p.interface.unwrap_or(ANY))
    }
}

impl Router {
    /// The interface whose connected prefix holds `addr`, the longest prefix first.
    pub fn connected_interface(&self, addr: IpAddr) -> Option<u32> {
        self.interfaces
            .iter()
            .flat_map(|i| i.addresses.iter().map(move |a| (i.index, a)))
            .filter(|(_, a)| a.contains(&addr))
            .max_by_key(|(_, a)| a.prefix_len())
            .map(|(i, _)| i)
    }

    fn paths_of(&self, wish: &Wish) -> Vec<(u8, Option<AdjKey>, u32, u32)> {
        let glean = |i| (kind::GLEAN, Some(AdjKey::Glean(i, wish.v6)), 0, 1);
        match &wish.target {
            Target::Local(i) => vec![(kind::LOCAL, None, *i, 1)],
            Target::Glean(i) => vec![glean(*i)],
            Target::Neighbor(i, a) => vec![(kind::REWRITE, Some(AdjKey::Neighbor(*i, *a)), 0, 1)],
            Target::Broadcast => vec![(kind::BROADCAST, None, 0, 1)],
            Target::Drop => vec![(kind::DROP, None, 0, 1)],
            Target::Unreachable => vec![(kind::UNREACHABLE, None, 0, 1)],
            Target::Prohibit => vec![(kind::PROHIBIT, None, 0, 1)],
            Target::Paths(paths) => {
                let (mut out, mut dead) = (vec![], vec![]);
                for p in paths {
                    let interface =
                        p.interface.or_else(|| p.address.and_then(|a| self.connected_interface(a)));
                    let Some(i) = interface.filter(|i| self.is_usable(*i)) else { continue };
                    let (kind, key) = match p.address {
                        Some(a) => (kind::REWRITE, AdjKey::Neighbor(i, a)),
                        None => (kind::GLEAN, AdjKey::Glean(i, wish.v6)),
                    };
                    let gone = p.address.is_some_and(|a| self.nexthops.dead.contains(&(i, a)));
                    let list = if gone { &mut dead } else { &mut out };
                    list.push((kind, Some(key), 0, u32::from(p.weight.max(1))));
                }
                // When none answers, packets ask for all of them again.
                if out.is_empty() {
                    out = dead;
                }
                if out.is_empty() { vec![(kind::UNREACHABLE, None, 0, 1)] } else { out }
            }
        }
    }

    /// Takes the adjacencies that `wish` needs now and answers the group's paths.
    fn resolve_wish(&mut self, wish: &Wish) -> Result<(Vec<Path>, Vec<AdjKey>), OpError> {
        let (mut paths, mut keys) = (vec![], vec![]);
        for (kind, key, value, weight) in self.paths_of(wish) {
            let adj = match key {
                Some(k) => {
                    let Some(id) = self.hold_adjacency(k) else {
                        keys.into_iter().for_each(|k| self.release_adjacency_key(k));
                        return Err(OpError::new("no room for another adjacency"));
                    };
                    keys.push(k);
                    id
                }
                None => value,
            };
            paths.push(Path { entry: tables::groups::Entry { kind, adj }, weight });
        }
        Ok((paths, keys))
    }

    /// The group for what a route wants, held once more: [`Router::let_go`] must follow.
    pub(super) fn hold_group(&mut self, source: Source, v6: bool, target: Target) -> Result<u32, OpError> {
        let wish = Wish { source, v6, target };
        if let Some(&id) = self.nexthops.by_wish.get(&wish) {
            if let Some(h) = self.nexthops.get_mut(id) {
                h.held += 1;
            }
            return Ok(id);
        }
        let (paths, adjacencies) = self.resolve_wish(&wish)?;
        let id = self.nexthops.groups.create(&paths).map_err(|e| OpError::new(e.to_string()));
        let id = match id {
            Ok(id) => id,
            Err(e) => {
                adjacencies.into_iter().for_each(|k| self.release_adjacency_key(k));
                return Err(e);
            }
        };
        self.nexthops.insert(id, Hop { wish, routes: 0, held: 1, adjacencies, paths });
        Ok(id)
    }

    /// One hold less on a group; the last one takes it out, if no route points to it.
    pub(super) fn let_go(&mut self, id: u32) {
        let Some(h) = self.nexthops.get_mut(id) else { return };
        h.held -= 1;
        if h.held == 0
            && h.routes == 0
            && let Some(h) = self.nexthops.remove(id)
        {
            h.adjacencies.into_iter().for_each(|k| self.release_adjacency_key(k));
        }
    }

    /// These interfaces changed their state or addresses: every group with a path over them is worked out again, and
    /// with it its routes move. No route is looked at.
    pub(super) fn refresh_groups(&mut self, interfaces: &[u32]) {
        self.refresh(self.nexthops.touched_by(interfaces));
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

    /// Forgets what is known of the next hops on an interface.
    pub(super) fn forget_dead(&mut self, interface: u32) {
        self.nexthops.dead.retain(|(i, _)| *i != interface);
    }

    /// Next hops that are left out, for as long as groups have them.
    pub(super) fn dead_next_hops(&mut self) -> Vec<(u32, IpAddr)> {
        let mut dead = std::mem::take(&mut self.nexthops.dead);
        dead.retain(|(_, a)| self.nexthops.has_choice(*a));
        let list = dead.iter().copied().collect();
        self.nexthops.dead = dead;
        list
    }

    fn refresh(&mut self, groups: BTreeSet<u32>) {
        for id in groups {
            let Some(wish) = self.nexthops.get(id).map(|h| h.wish.clone()) else { continue };
            let Ok((paths, keys)) = self.resolve_wish(&wish) else { continue };
            let known = self.nexthops.get(id).is_some_and(|h| h.paths == paths);
            let set = if known { Ok(()) } else { self.nexthops.groups.set(id, &paths) };
            let gone = match (set, self.nexthops.get_mut(id)) {
                (Ok(()), Some(h)) => {
                    h.paths = paths;
                    std::mem::replace(&mut h.adjacencies, keys)
                }
                (Err(e), _) => {
                    self.note(true, format!("next-hop group {id} keeps its old paths: {e}"));
                    keys
                }
                (Ok(()), None) => keys,
            };
            gone.into_iter().for_each(|k| self.release_adjacency_key(k));
        }
    }

    /// A next-hop group.
    pub fn group(&self, id: u32) -> Option<NextHopInfo> {
        let h = self.nexthops.get(id)?;
        Some(NextHopInfo {
            id,
            source: h.wish.source,
            target: h.wish.target.clone(),
            routes: h.routes,
            paths: h.paths.clone(),
            buckets: self.nexthops.groups.buckets(id).len(),
        })
    }

    /// All next-hop groups, by number.
    pub fn groups(&self) -> Vec<NextHopInfo> {
        (0..self.nexthops.by_id.len() as u32).filter_map(|id| self.group(id)).collect()
    }
}
