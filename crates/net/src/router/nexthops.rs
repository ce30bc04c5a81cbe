//! Next-hop groups as the operator asked for them. A group stands for a wish (these paths, or drop); what it holds at
//! the moment follows the state of interfaces, for all its routes at once.

use super::adjacencies::AdjKey;
use super::{OpError, Router};
use crate::plane::kind;
use std::collections::{BTreeMap, HashMap};
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wish {
    source: Source,
    v6: bool,
    target: Target,
}

struct Hop {
    wish: Wish,
    users: u32,
    adjacencies: Vec<AdjKey>,
    paths: Vec<Path>,
}

pub(crate) struct NextHops {
    pub groups: GroupsWriter,
    by_wish: HashMap<Wish, u32>,
    by_id: BTreeMap<u32, Hop>,
}

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
        NextHops { groups, by_wish: HashMap::new(), by_id: BTreeMap::new() }
    }

    pub fn source(&self, id: u32) -> Option<Source> {
        self.by_id.get(&id).map(|h| h.wish.source)
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
                let mut out = vec![];
                for p in paths {
                    let interface =
                        p.interface.or_else(|| p.address.and_then(|a| self.connected_interface(a)));
                    let Some(i) = interface.filter(|i| self.is_usable(*i)) else { continue };
                    let (kind, key) = match p.address {
                        Some(a) => (kind::REWRITE, AdjKey::Neighbor(i, a)),
                        None => (kind::GLEAN, AdjKey::Glean(i, wish.v6)),
                    };
                    out.push((kind, Some(key), 0, u32::from(p.weight.max(1))));
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

    /// The group for what a route wants, with one user more.
    pub(super) fn hold_group(&mut self, source: Source, v6: bool, target: Target) -> Result<u32, OpError> {
        let wish = Wish { source, v6, target };
        if let Some(&id) = self.nexthops.by_wish.get(&wish) {
            if let Some(h) = self.nexthops.by_id.get_mut(&id) {
                h.users += 1;
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
        self.nexthops.by_wish.insert(wish.clone(), id);
        self.nexthops.by_id.insert(id, Hop { wish, users: 1, adjacencies, paths });
        Ok(id)
    }

    /// One route less on a group.
    pub(super) fn release_group(&mut self, id: u32) {
        let Some(h) = self.nexthops.by_id.get_mut(&id) else { return };
        h.users -= 1;
        if h.users == 0
            && let Some(h) = self.nexthops.by_id.remove(&id)
        {
            self.nexthops.by_wish.remove(&h.wish);
            self.nexthops.groups.release(id);
            h.adjacencies.into_iter().for_each(|k| self.release_adjacency_key(k));
        }
    }

    /// Interfaces or addresses changed: every group of paths is worked out again, and with it its routes move.
    pub(super) fn refresh_groups(&mut self) {
        let of_paths = |h: &Hop| matches!(h.wish.target, Target::Paths(_));
        let ids: Vec<u32> =
            self.nexthops.by_id.iter().filter(|(_, h)| of_paths(h)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some(wish) = self.nexthops.by_id.get(&id).map(|h| h.wish.clone()) else { continue };
            let Ok((paths, keys)) = self.resolve_wish(&wish) else { continue };
            let Some(h) = self.nexthops.by_id.get_mut(&id) else { continue };
            let old = std::mem::replace(&mut h.adjacencies, keys);
            if h.paths != paths {
                h.paths.clone_from(&paths);
                if let Err(e) = self.nexthops.groups.set(id, &paths) {
                    self.note(true, format!("next-hop group {id} keeps its old paths: {e}"));
                }
            }
            old.into_iter().for_each(|k| self.release_adjacency_key(k));
        }
    }

    /// A next-hop group.
    pub fn group(&self, id: u32) -> Option<NextHopInfo> {
        let h = self.nexthops.by_id.get(&id)?;
        Some(NextHopInfo {
            id,
            source: h.wish.source,
            target: h.wish.target.clone(),
            routes: h.users,
            paths: h.paths.clone(),
            buckets: self.nexthops.groups.buckets(id).len(),
        })
    }

    /// All next-hop groups, by number.
    pub fn groups(&self) -> Vec<NextHopInfo> {
        self.nexthops.by_id.keys().filter_map(|id| self.group(*id)).collect()
    }
}
