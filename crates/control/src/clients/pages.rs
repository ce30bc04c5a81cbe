//! Routes as they are read back: pages of packed prefixes, each with the number of what it is.

use super::packed;
use super::sets::Goal;
use ipnet::IpNet;
use net::router::{GroupId, RouteInfo, RouteTable, Router, Source};
use std::collections::HashMap;

/// Routes that are looked at for one page: about a millisecond.
const LOOKED_AT: usize = 4096;
/// Kinds of routes that are known in a stream. Beyond these all are forgotten, and told again as they are met.
const MOST_KINDS: usize = 65_536;

/// Which prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// The prefix itself and those within it.
    #[default]
    Longer,
    /// The prefix itself.
    Exact,
    /// The longest that holds it.
    Longest,
}

/// Which routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Number of the table.
    pub table: u32,
    /// The family; `None`: that of the prefix, or both.
    pub v6: Option<bool>,
    /// Prefixes by this one.
    pub prefix: Option<IpNet>,
    /// How.
    pub by: Match,
    /// The name of their source.
    pub source: Option<String>,
}

/// What routes have in common: whose they are, and where their packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its number in the stream.
    pub number: u32,
    /// The name of its source.
    pub source: String,
    /// How far that is believed, by which the routes of a prefix are compared.
    pub preference: u8,
    /// Tells routes of a source apart.
    pub metric: u32,
    /// Where packets go.
    pub goal: Goal,
}

/// Routes of one family in one table. Those of one prefix stand one behind the other, the one in use first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Number of the table.
    pub table: u32,
    /// Its prefixes are IPv6.
    pub v6: bool,
    /// What numbers stood for is forgotten.
    pub forget: bool,
    /// Kinds that were not told before in the stream.
    pub kinds: Vec<Kind>,
    /// The prefixes, packed ([`super::push`]).
    pub prefixes: Vec<u8>,
    /// The kind of each route.
    pub of: Vec<u32>,
    /// Which of them are not in use, by place.
    pub unused: Vec<u32>,
    /// Prefixes that have no route any more, packed; in what changed only.
    pub gone: Vec<u8>,
}

impl Page {
    pub(super) fn new(table: RouteTable) -> Self {
        Page { table: table.id, v6: table.v6, ..Page::default() }
    }

    /// Whether it tells nothing.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && self.gone.is_empty()
    }
}

impl Filter {
    /// Refuses what asks for nothing that there can be.
    ///
    /// # Errors
    /// Why.
    pub fn check(&self, router: &Router) -> Result<(), String> {
        if let Some(p) = self.prefix {
            if p != p.trunc() {
                return Err(format!("{p} has bits set behind its length: the prefix is {}", p.trunc()));
            }
            if self.v6.is_some_and(|v6| v6 != p.addr().is_ipv6()) {
                return Err(format!("{p} is of the other family than the one that is asked for"));
            }
        }
        if !self.tables().iter().any(|t| router.has_table(*t)) {
            return Err(format!("there is no table {}", self.table));
        }
        Ok(())
    }

    /// The tables that it asks for.
    pub(super) fn tables(&self) -> Vec<RouteTable> {
        let v6 = self.v6.or(self.prefix.map(|p| p.addr().is_ipv6()));
        let all = [false, true].map(|v6| RouteTable { v6, id: self.table });
        all.into_iter().filter(|t| v6.is_none_or(|v6| v6 == t.v6)).collect()
    }

    /// Whether a prefix is one of those that are asked for, other than as the longest.
    pub(super) fn takes(&self, table: RouteTable, prefix: IpNet) -> bool {
        self.tables().contains(&table)
            && match (self.prefix, self.by) {
                (None, _) => true,
                (Some(p), Match::Exact | Match::Longest) => p == prefix,
                (Some(p), Match::Longer) => p.contains(&prefix),
            }
    }
}

/// The kinds that a stream has told.
#[derive(Default)]
pub(super) struct Kinds {
    numbers: HashMap<u64, u32>,
    /// The last group that was asked for: its number, what tells it from others, and its kind.
    last: Option<(GroupId, u64, u32)>,
}

impl Kinds {
    /// The kind of a group's routes.
    fn of(&mut self, router: &Router, group: GroupId, page: &mut Page) -> Option<u32> {
        let serial = router.group_serial(group)?;
        if let Some((g, s, number)) = self.last
            && (g, s) == (group, serial)
        {
            return Some(number);
        }
        let number = match self.numbers.get(&serial) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len() as u32;
                let g = router.group(group)?;
                page.kinds.push(Kind {
                    number,
                    source: router.source_name(g.source).to_owned(),
                    preference: g.rank.preference,
                    metric: g.rank.metric,
                    goal: Goal::of(router, &g.target),
                });
                self.numbers.insert(serial, number);
                number
            }
        };
        self.last = Some((group, serial, number));
        Some(number)
    }

    /// Room for the kinds of another page.
    pub fn make_room(&mut self, page: &mut Page) {
        if self.numbers.len() > MOST_KINDS {
            *self = Kinds::default();
            page.forget = true;
        }
    }

    /// Puts the routes of a prefix on a page; false where none of them is asked for.
    pub fn put(&mut self, router: &Router, r: &RouteInfo, only: Option<Source>, page: &mut Page) -> bool {
        let before = page.of.len();
        if r.hidden.is_empty() && only.is_none() && !r.withdrawn {
            if let Some(number) = self.of(router, r.group, page) {
                packed::push(&mut page.prefixes, r.prefix);
                page.of.push(number);
            }
            return page.of.len() > before;
        }
        for e in router.routes_of_prefix(r) {
            if only.is_some_and(|s| s != e.source) {
                continue;
            }
            let Some(number) = self.of(router, e.group, page) else { continue };
            if e.group != r.group || r.withdrawn {
                page.unused.push(page.of.len() as u32);
            }
            packed::push(&mut page.prefixes, r.prefix);
            page.of.push(number);
        }
        page.of.len() > before
    }
}

/// The source of a name: none is asked for, this one, or one that is not there.
pub(super) fn source_of(router: &Router, name: Option<&str>) -> Result<Option<Source>, ()> {
    let Some(name) = name else { return Ok(None) };
    let own = [Source::Interface, Source::Static, Source::Neighbor];
    if let Some(source) = own.into_iter().find(|s| router.source_name(*s) == name) {
        return Ok(Some(source));
    }
    let all = router.route_sources();
    all.iter().find(|s| s.name == name).map(|s| Some(Source::Runtime(s.source))).ok_or(())
}

/// Reads routes page by page. What changes meanwhile may be on a page or not.
pub struct Lister {
    filter: Filter,
    kinds: Kinds,
    tables: Vec<RouteTable>,
    after: Option<IpNet>,
}

impl Lister {
    /// What a filter asks for.
    pub fn new(filter: Filter) -> Self {
        Self::with_kinds(filter, Kinds::default())
    }

    pub(super) fn with_kinds(filter: Filter, kinds: Kinds) -> Self {
        let mut tables = filter.tables();
        tables.reverse();
        Lister { filter, kinds, tables, after: None }
    }

    pub(super) fn kinds(&mut self) -> &mut Kinds {
        &mut self.kinds
    }

    pub(super) fn into_kinds(self) -> Kinds {
        self.kinds
    }

    /// Whether the last page was read: there comes none behind it.
    pub fn is_at_end(&self) -> bool {
        self.tables.is_empty()
    }

    /// The next page, which may be empty; nothing behind the last one.
    pub fn next(&mut self, router: &Router) -> Option<Page> {
        let table = *self.tables.last()?;
        let mut page = Page::new(table);
        self.kinds.make_room(&mut page);
        let Ok(only) = source_of(router, self.filter.source.as_deref()) else {
            self.tables.clear();
            return Some(page);
        };
        match (self.filter.prefix, self.filter.by) {
            (Some(p), Match::Exact) => {
                let found = router.routes_at(table, p);
                found.iter().for_each(|r| _ = self.kinds.put(router, r, only, &mut page));
                self.turn();
            }
            (Some(p), Match::Longest) => {
                let all = router.covering_in(table.id, p.addr()).into_iter().rev();
                for r in all.filter(|r| r.prefix.prefix_len() <= p.prefix_len()) {
                    if self.kinds.put(router, &r, only, &mut page) {
                        break;
                    }
                }
                self.turn();
            }
            (within, Match::Longer) | (within @ None, _) => {
                if self.walk(router, table, within, only, &mut page) {
                    self.turn();
                }
            }
        }
        Some(page)
    }

    /// Looks at some routes of a table; true at its end.
    fn walk(
        &mut self,
        router: &Router,
        table: RouteTable,
        within: Option<IpNet>,
        only: Option<Source>,
        page: &mut Page,
    ) -> bool {
        if let Some(p) = within.filter(|_| self.after.is_none()) {
            // The first one: those behind it begin here.
            self.after = Some(p);
            let found = router.routes_at(table, p);
            found.iter().for_each(|r| _ = self.kinds.put(router, r, only, page));
        }
        let mut seen = 0;
        for r in router.routes_after(table, self.after).take(LOOKED_AT) {
            if within.is_some_and(|p| !p.contains(&r.prefix)) {
                return true;
            }
            (seen, self.after) = (seen + 1, Some(r.prefix));
            self.kinds.put(router, &r, only, page);
        }
        seen < LOOKED_AT
    }

    /// On to the next table.
    fn turn(&mut self) {
        self.tables.pop();
        self.after = None;
    }
}
