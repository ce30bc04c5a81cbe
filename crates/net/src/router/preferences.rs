//! By which preference routes are chosen, where the operator says it of their source.
//!
//! A route keeps the rank with which it was made: that tells it from others of its source. What is said of the source counts
//! in its place when routes of a prefix are compared, so that a setting moves no route. Only prefixes with several routes
//! are looked at again, in turns.

use super::sources::check_source_name;
use super::{Op, OpError, PartOp, PrefixRoute, Rank, Router, Source, Target};
use crate::plane::table::FibIndex;
use std::collections::BTreeMap;

/// The source of connected prefixes, as settings and lists call it.
pub const CONNECTED: &str = "connected";
/// The operator's own routes.
pub const STATIC: &str = "static";
/// The most sources of which something is said.
const MOST: usize = 4096;

/// The preference of a source's routes: `connected` for connected prefixes, `static` for static routes that do not say,
/// else the name of a source that registers at run time, or what stands in it before `@` or `:`, for all of these. Of
/// several that fit a source the longest counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePreference {
    /// The source.
    pub source: String,
    /// 1 to 254; `None`: what its routes have by themselves.
    pub preference: Option<u8>,
}

/// What is said of sources.
#[derive(Default)]
pub(super) struct Preferences {
    set: BTreeMap<String, u8>,
    pub connected: Option<u8>,
    stated: Option<u8>,
}

impl Preferences {
    /// What is said of a source that registered.
    pub fn of(&self, name: &str) -> Option<u8> {
        let before = |c: char| name.split_once(c).map(|(before, _)| before);
        [Some(name), before('@'), before(':')].into_iter().flatten().find_map(|n| self.set.get(n).copied())
    }
}

impl SourcePreference {
    /// Whether it can be said of a source of this name.
    ///
    /// # Errors
    /// No source is called so, or the preference is out of its range.
    pub fn check(&self) -> Result<(), OpError> {
        match self.source.as_str() {
            "interface" => return Err(OpError::new("the routes of interfaces are called connected")),
            "neighbor" => {
                return Err(OpError::new("host routes of neighbors come behind those of all other sources"));
            }
            name => check_source_name(name)?,
        }
        self.preference.map_or(Ok(()), |p| match p {
            1..=254 => Ok(()),
            n => Err(OpError::new(format!("preference {n} of {}: it is 1 to 254", self.source))),
        })
    }
}

impl PartOp for SourcePreference {
    fn subject(&self) -> String {
        format!("preference of routes of {}", self.source)
    }

    fn off(&self) -> Option<Op> {
        Some(SourcePreference { preference: None, ..self.clone() }.into())
    }

    fn apply(self, router: &mut Router) -> Result<Vec<Op>, OpError> {
        self.check()?;
        let preference = router.set_preference(&self)?;
        Ok(vec![SourcePreference { preference, ..self }.into()])
    }

    fn log_line(&self) -> Option<String> {
        let what = self.preference.map_or("their own again".into(), |p| p.to_string());
        Some(format!("preference of routes of {}: {what}", self.source))
    }
}

impl Router {
    /// What is said of the preference of sources, by name.
    pub fn source_preferences(&self) -> impl Iterator<Item = SourcePreference> + '_ {
        let set = self.sources.preferences.set.iter();
        set.map(|(source, p)| SourcePreference { source: source.clone(), preference: Some(*p) })
    }

    /// The preference by which a route is compared with others of its prefix: what is said of its source, or its own.
    #[inline]
    pub fn preference_of(&self, e: &PrefixRoute) -> u8 {
        let of = &self.sources.preferences;
        let own = e.rank.preference;
        let set = match e.source {
            Source::Static if own == Rank::STATIC.preference => of.stated,
            // The router's own addresses, and those of nobody, stay what they are.
            Source::Interface if of.connected.is_some() => {
                of.connected.filter(|_| matches!(self.nexthops.target(e.group), Some(Target::Glean(_))))
            }
            Source::Runtime(s) => self.sources.preference_said(s, own),
            _ => None,
        };
        set.unwrap_or(own)
    }

    /// [`Router::preference_of`] with the metric.
    pub fn rank_used(&self, e: &PrefixRoute) -> Rank {
        Rank { preference: self.preference_of(e), ..e.rank }
    }

    /// Puts routes of one prefix into order, the best first.
    pub(super) fn order_routes(&self, list: &mut [PrefixRoute]) {
        match self.sources.preferences.set.is_empty() {
            true => list.sort_unstable(),
            false => list.sort_unstable_by_key(|e| (self.rank_used(e), e.source, e.rank)),
        }
    }

    /// Answers what was said before.
    fn set_preference(&mut self, new: &SourcePreference) -> Result<Option<u8>, OpError> {
        let of = &mut self.sources.preferences;
        if of.set.len() >= MOST && new.preference.is_some() && !of.set.contains_key(&new.source) {
            let why = format!("no room for the preference of {}: {MOST} are set", new.source);
            return Err(OpError::new(why));
        }
        let was = match new.preference {
            Some(p) => of.set.insert(new.source.clone(), p),
            None => of.set.remove(&new.source),
        };
        if was == new.preference {
            return Ok(was);
        }
        of.stated = of.set.get(STATIC).copied();
        let connected = of.set.get(CONNECTED).copied();
        let turned = std::mem::replace(&mut of.connected, connected).is_some() != connected.is_some();
        self.sources.say_preferences();
        if turned {
            // Neighbours have host routes by their connected prefix as long as nothing comes before that.
            self.neighbors.look_at_all_again();
        }
        self.choose_again();
        Ok(was)
    }

    /// Looks at the prefixes of all tables that have several routes, a while now and the rest in turns.
    pub(super) fn choose_again(&mut self) {
        for v6 in [false, true] {
            let all: Vec<FibIndex> =
                self.fibs.iter(v6).filter_map(|v| self.fibs.fib_index(v.table)).collect();
            all.into_iter().for_each(|at| self.nexthops.backups.walk(v6, at));
        }
        self.take_over();
    }
}
