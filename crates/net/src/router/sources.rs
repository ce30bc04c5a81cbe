//! Who makes routes, and which of several for one prefix is used.
//!
//! A group belongs to one source and one rank, so that a route tells both by its group: it costs nothing more where a
//! prefix has one source. Prefixes with several routes stand in a table beside ([`super::fibs::Vrf`]).

use super::preferences::{self, Preferences};
use super::{Op, OpError, RouteBatch, RouteTable, Router};
use ipnet::IpNet;
use tables::groups::GroupId;

/// Who made a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An interface's address.
    Interface,
    /// The operator.
    Static,
    /// Who registered at run time: a protocol's daemon, a client of the API.
    Runtime(RouteSource),
    /// A neighbour on a connected prefix.
    Neighbor,
}

/// A source of routes that registered at run time, with [`Router::route_source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteSource(u16);

/// How good a route is. Of several for one prefix the least preference counts, then the least metric, then the order of
/// [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// How far its source is believed, 1 to 254; of connected routes 0, of neighbours 255. Others say administrative
    /// distance.
    pub preference: u8,
    /// Tells routes of one source apart.
    pub metric: u32,
}

impl Rank {
    /// Of an interface's address.
    pub const CONNECTED: Rank = Rank { preference: 0, metric: 0 };
    /// Of a static route that does not say.
    pub const STATIC: Rank = Rank { preference: 1, metric: 0 };
    /// Of a neighbour: anybody's route for its address comes first.
    pub const NEIGHBOR: Rank = Rank { preference: 255, metric: u32::MAX };

    /// Whether routes of batches may have it.
    pub(super) fn check(self) -> Result<(), OpError> {
        check_preference(self.preference)
    }
}

/// As in `[1/0]`: preference and metric.
impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}/{}]", self.preference, self.metric)
    }
}

fn check_preference(preference: u8) -> Result<(), OpError> {
    match preference {
        1..=254 => Ok(()),
        n => Err(OpError::new(format!(
            "preference {n}: it is 1 to 254, as 0 is that of connected routes and 255 that of neighbors"
        ))),
    }
}

/// One of the routes of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefixRoute {
    /// How good it is.
    pub rank: Rank,
    /// Whose it is.
    pub source: Source,
    /// Number of its next-hop group.
    pub group: GroupId,
}

impl PrefixRoute {
    /// Whether it came by a batch, and goes by one: not with an interface's address, nor with a neighbour.
    pub fn is_set(&self) -> bool {
        matches!(self.source, Source::Static | Source::Runtime(_))
    }

    /// Whether it is no static route of the usual rank.
    pub(super) fn is_odd(&self) -> bool {
        (self.source, self.rank) != (Source::Static, Rank::STATIC)
    }
}

/// A source that registered, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSourceInfo {
    /// Which.
    pub source: RouteSource,
    /// Its name, such as `kernel:bird`.
    pub name: String,
    /// The preference of its routes that do not say.
    pub preference: u8,
    /// The preference by which these are chosen, where the operator says one.
    pub said: Option<u8>,
    /// Its routes, in all tables.
    pub routes: u64,
    /// Those that are not set again since they were marked.
    pub stale: u64,
}

struct Registered {
    name: String,
    preference: u8,
    /// What the operator says instead.
    said: Option<u8>,
    /// Raised by each mark: groups of an earlier one are stale.
    generation: u32,
}

/// The sources of routes.
#[derive(Default)]
pub(super) struct RouteSources {
    /// Those that registered, by number.
    list: Vec<Option<Registered>>,
    /// What the operator says of them.
    pub preferences: Preferences,
}

/// What the names of sources begin with whose routes are Linux's, and zebra's; a colon follows.
pub const LINUXS: [&str; 2] = ["kernel", "fpm"];
/// The most of them.
const MOST: usize = 4096;
/// The longest name.
const MOST_NAME: usize = 63;
/// Routes that one step of a sweep looks at: a few milliseconds where all of them go.
const SWEPT_AT_ONCE: usize = 2048;

impl RouteSources {
    fn get(&self, source: RouteSource) -> Option<&Registered> {
        self.list.get(usize::from(source.0))?.as_ref()
    }

    fn find(&self, name: &str) -> Option<RouteSource> {
        let at = self.list.iter().position(|s| s.as_ref().is_some_and(|s| s.name == name))?;
        Some(RouteSource(at as u16))
    }

    /// The generation of routes that a source makes now.
    pub fn generation(&self, source: Source) -> u32 {
        match source {
            Source::Runtime(s) => self.get(s).map_or(0, |s| s.generation),
            _ => 0,
        }
    }

    /// What the operator says of routes of a source that have a preference by themselves.
    #[inline]
    pub fn preference_said(&self, source: RouteSource, own: u8) -> Option<u8> {
        self.get(source).filter(|s| s.preference == own)?.said
    }

    /// What is said changed.
    pub fn say_preferences(&mut self) {
        for s in self.list.iter_mut().flatten() {
            s.said = self.preferences.of(&s.name);
        }
    }
}

/// Refuses what no source can be called.
pub(super) fn check_source_name(name: &str) -> Result<(), OpError> {
    let graphic = name.bytes().all(|b| b.is_ascii_graphic());
    if name.is_empty() || name.len() > MOST_NAME || !graphic {
        let why = format!("a source of routes cannot be called {name:?}: 1 to 63 letters without spaces");
        return Err(OpError::new(why));
    }
    Ok(())
}

/// How far a sweep is. The default is its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    table: RouteTable,
    after: Option<IpNet>,
}

impl Default for Sweep {
    fn default() -> Self {
        Sweep { table: RouteTable::V4, after: None }
    }
}

impl Router {
    /// Registers a source of routes, or finds it by its name. `preference`, 1 to 254, is that of its routes that do not
    /// say; routes that are there keep theirs.
    ///
    /// # Errors
    /// The name is not 1 to 63 graphic ASCII letters, or is one of the router's own; the preference is out of its range;
    /// there are 4096 sources already.
    pub fn route_source(&mut self, name: &str, preference: u8) -> Result<RouteSource, OpError> {
        check_source_name(name)?;
        let own = [Source::Interface, Source::Static, Source::Neighbor];
        if name == preferences::CONNECTED || own.iter().any(|s| self.source_name(*s) == name) {
            return Err(OpError::new(format!("the router itself has a source of routes called {name}")));
        }
        check_preference(preference)?;
        if let Some(source) = self.sources.find(name) {
            let mut turned = false;
            if let Some(Some(s)) = self.sources.list.get_mut(usize::from(source.0)) {
                let was = std::mem::replace(&mut s.preference, preference);
                turned = s.said.is_some() && was != preference;
            }
            if turned {
                self.choose_again();
            }
            return Ok(source);
        }
        let said = self.sources.preferences.of(name);
        let list = &mut self.sources.list;
        let free = list.iter().position(Option::is_none).unwrap_or(list.len());
        if free >= MOST {
            return Err(OpError::new(format!("no room for the source of routes {name}: there are {MOST}")));
        }
        if free == list.len() {
            list.push(None);
        }
        list[free] = Some(Registered { name: name.to_owned(), preference, said, generation: 0 });
        Ok(RouteSource(free as u16))
    }

    /// Forgets a source that has no routes any more.
    ///
    /// # Errors
    /// It has routes: [`Router::mark_routes`] and a sweep take them away.
    pub fn remove_route_source(&mut self, source: RouteSource) -> Result<(), OpError> {
        let (routes, _) = self.nexthops.routes_of(Source::Runtime(source), 0);
        let routes = routes + self.nexthops.labels_of(Source::Runtime(source));
        if routes != 0 {
            let name = self.source_name(Source::Runtime(source));
            return Err(OpError::new(format!("{name} still has {routes} routes")));
        }
        if let Some(s) = self.sources.list.get_mut(usize::from(source.0)) {
            *s = None;
        }
        Ok(())
    }

    /// The sources that registered, by name.
    pub fn route_sources(&self) -> Vec<RouteSourceInfo> {
        let numbers = (0..self.sources.list.len() as u16).map(RouteSource);
        let mut all: Vec<_> = numbers
            .filter_map(|source| {
                let s = self.sources.get(source)?;
                let (routes, stale) = self.nexthops.routes_of(Source::Runtime(source), s.generation);
                Some(RouteSourceInfo {
                    source,
                    name: s.name.clone(),
                    preference: s.preference,
                    said: s.said,
                    routes,
                    stale,
                })
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// How many routes a source has.
    pub fn routes_of_source_count(&self, source: RouteSource) -> u64 {
        self.nexthops.routes_of(Source::Runtime(source), 0).0
    }

    /// How many of them were not set again since they were marked.
    pub fn stale_routes_of(&self, source: RouteSource) -> u64 {
        let source = Source::Runtime(source);
        self.nexthops.routes_of(source, self.sources.generation(source)).1
    }

    /// The word for a source in `show ip fib`, or the name under which it registered.
    pub fn source_name(&self, source: Source) -> &str {
        match source {
            Source::Interface => "interface",
            Source::Static => "static",
            Source::Neighbor => "neighbor",
            Source::Runtime(s) => self.sources.get(s).map_or("?", |s| &s.name),
        }
    }

    /// Whether its routes are Linux's or zebra's, over devices of pairs: those of a pair go with it.
    pub(super) fn is_linuxs(&self, source: Source) -> bool {
        let word = self.source_name(source).split_once(':').map(|(word, _)| word);
        matches!(source, Source::Runtime(_)) && word.is_some_and(|word| LINUXS.contains(&word))
    }

    /// The rank of a source's routes that do not say.
    pub(super) fn rank_of(&self, source: Source) -> Rank {
        match source {
            Source::Interface => Rank::CONNECTED,
            Source::Static => Rank::STATIC,
            Source::Neighbor => Rank::NEIGHBOR,
            Source::Runtime(s) => {
                Rank { preference: self.sources.get(s).map_or(u8::MAX, |s| s.preference), metric: 0 }
            }
        }
    }

    pub(super) fn check_source(&self, source: Source) -> Result<(), OpError> {
        match source {
            Source::Runtime(s) if self.sources.get(s).is_none() => {
                Err(OpError::new("the source of these routes is not registered any more"))
            }
            _ => Ok(()),
        }
    }

    /// Changes of a source's routes in the tables of this number, none yet. Other than of static routes, taking away what
    /// is not there is no error.
    pub fn route_batch(&self, source: RouteSource, table: u32) -> RouteBatch {
        let source = Source::Runtime(source);
        RouteBatch::made_for(source, self.rank_of(source), table)
    }

    /// The routes of a source in a table behind the prefix `after`, used or not, by prefix and then by rank. It walks over
    /// all routes of the table.
    pub fn routes_of_source(
        &self,
        source: Source,
        table: RouteTable,
        after: Option<IpNet>,
    ) -> impl Iterator<Item = (IpNet, PrefixRoute)> + '_ {
        let all = self.routes_after(table, after);
        all.flat_map(move |r| {
            let prefix = r.prefix;
            self.routes_of_prefix(&r).filter(move |e| e.source == source).map(move |e| (prefix, e))
        })
    }

    /// Marks all routes of a source. Those that are not set again, whether to the same or to something else, go with
    /// [`Router::sweep_routes`].
    pub fn mark_routes(&mut self, source: RouteSource) {
        if let Some(Some(s)) = self.sources.list.get_mut(usize::from(source.0)) {
            s.generation += 1;
        }
    }

    /// Whether what a next-hop group of a source is for was not set again since its routes were marked.
    pub(crate) fn is_stale(&self, source: RouteSource, group: GroupId) -> bool {
        self.nexthops.is_stale(group, self.sources.generation(Source::Runtime(source)))
    }

    /// Takes away the routes of a source that were not set again since they were marked: some thousand of them, and answers
    /// where to go on, or nothing when all are gone.
    ///
    /// # Errors
    /// Removing is refused, which is a bug.
    pub fn sweep_routes(&mut self, source: RouteSource, at: Sweep) -> Result<Option<Sweep>, OpError> {
        let of = Source::Runtime(source);
        let generation = self.sources.generation(of);
        if self.nexthops.routes_of(of, generation).1 == 0 {
            return Ok(None);
        }
        let Sweep { table, mut after } = at;
        let mut batch = self.route_batch(source, table.id);
        let mut seen = 0;
        for r in self.routes_after(table, after).take(SWEPT_AT_ONCE) {
            (seen, after) = (seen + 1, Some(r.prefix));
            for e in self.routes_of_prefix(&r).filter(|e| e.source == of) {
                if self.nexthops.hop(e.group).is_some_and(|h| h.group_key.generation != generation) {
                    batch.del_ranked(r.prefix, e.rank);
                }
            }
        }
        if !batch.is_empty() {
            self.commit(vec![Op::Routes(batch)])?;
        }
        if seen == SWEPT_AT_ONCE {
            return Ok(Some(Sweep { table, after }));
        }
        let next = self.table_after(table).or((!table.v6).then_some(RouteTable::V6));
        Ok(next.map(|table| Sweep { table, after: None }))
    }
}
