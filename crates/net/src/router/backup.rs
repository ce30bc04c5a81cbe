//! Routes that take over: of the routes of a prefix the best whose paths lead somewhere is used. Where none does, the best
//! is used all the same and packets are answered with "unreachable", or the prefix is withdrawn, as its table says.
//!
//! Thousands of prefixes may have routes of one group. They are looked at a few at a time: at once for a moment, and in the
//! turns of the control side that follow.

use super::fibs::Fibs;
use super::nexthops::NextHops;
use super::{Op, OpError, PrefixRoute, RouteInfo, RouteTable, Router};
use crate::plane::table::FibIndex;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::time::{Duration, Instant};
use tables::groups::GroupId;

/// So often a group may be turned by others before it is left as it is: two routes whose next hops each need the other one
/// gone would turn for ever.
const MOST_ROUNDS: u8 = 16;
/// How long is worked on it in one turn of the control side.
const TURN: Duration = Duration::from_millis(2);
/// Prefixes that are looked at between two looks at the clock.
const AT_ONCE: usize = 64;
/// Routes of a whole table that are looked at between two looks at the clock, where most need no change.
const WALKED_AT_ONCE: usize = 1024;

/// A prefix: family and FIB index of its table, and the prefix.
type Place = (bool, FibIndex, IpNet);

/// Which prefixes are to be looked at when a group's paths all go, or one comes back.
#[derive(Default)]
pub(super) struct Backups {
    /// Prefixes that are listed beside their table, by the group of each of their routes that may lead nowhere.
    by_group: BTreeSet<(GroupId, Place)>,
    /// Groups whose paths all went, or came back, and the prefixes of which are not all looked at yet.
    turned: BTreeMap<GroupId, Turned>,
    /// Tables that are looked at as a whole, each with the prefix that was looked at last.
    walks: BTreeMap<(bool, FibIndex), Walk>,
    /// How often groups were turned by others.
    rounds: HashMap<GroupId, u8>,
    /// They are looked at now.
    busy: bool,
}

/// How far the prefixes of a group that turned are looked at.
#[derive(Default)]
struct Turned {
    after: Option<Place>,
    seen: u32,
}

/// Some prefixes of a group that turned, and where these are the last, the group with how many it has in all.
type Piece = (Vec<Place>, Option<(GroupId, u32)>);

/// How far the routes of a table are looked at.
#[derive(Clone, Copy, Default)]
struct Walk {
    after: Option<IpNet>,
    /// Once more from the start, as something changed meanwhile.
    again: bool,
}

impl Backups {
    /// A prefix is listed beside its table with other routes than before.
    fn listed(&mut self, place: Place, before: &[PrefixRoute], now: impl Iterator<Item = GroupId>) {
        before.iter().for_each(|e| _ = self.by_group.remove(&(e.group, place)));
        self.by_group.extend(now.map(|group| (group, place)));
    }

    /// The paths of a group all went, or one came back. False: it was left as it is.
    pub fn turn(&mut self, group: GroupId) -> bool {
        if self.busy {
            let rounds = self.rounds.entry(group).or_default();
            *rounds = rounds.saturating_add(1);
            if *rounds > MOST_ROUNDS {
                return *rounds > MOST_ROUNDS + 1;
            }
        }
        self.turned.insert(group, Turned::default());
        true
    }

    /// All routes of a table are to be looked at.
    pub fn walk(&mut self, v6: bool, fib_index: FibIndex) {
        self.walks.entry((v6, fib_index)).and_modify(|w| w.again = true).or_default();
    }

    /// Whether prefixes are to be looked at.
    pub fn is_waiting(&self) -> bool {
        !(self.turned.is_empty() && self.walks.is_empty())
    }

    /// The next prefixes of the first group that turned; they count as looked at.
    fn next(&mut self) -> Option<Piece> {
        let (&group, turned) = self.turned.iter_mut().next()?;
        let from = turned.after.map_or(Bound::Included((group, FIRST)), |p| Bound::Excluded((group, p)));
        let range = self.by_group.range((from, Bound::Excluded((GroupId(group.0.saturating_add(1)), FIRST))));
        let places: Vec<Place> = range.take(AT_ONCE).map(|(_, place)| *place).collect();
        turned.seen += places.len() as u32;
        turned.after = places.last().copied().or(turned.after);
        let last = (places.len() < AT_ONCE).then_some((group, turned.seen));
        if last.is_some() {
            self.turned.remove(&group);
        }
        Some((places, last))
    }
}

/// Before all places.
const FIRST: Place =
    (false, FibIndex(0), IpNet::V4(ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::UNSPECIFIED, 0)));

impl NextHops {
    /// Whether no path of a group leads anywhere.
    #[inline]
    pub fn is_lost(&self, group: GroupId) -> bool {
        self.hop(group).is_none_or(|h| h.resolution.lost)
    }

    /// The route of a prefix that is used: the best whose paths lead somewhere. Where none of them does it is the best, or
    /// none in a table that withdraws them; in other tables a connected route stays, whatever its link.
    fn chosen(&self, routes: &[PrefixRoute], withdraws: bool) -> Option<PrefixRoute> {
        let stays =
            |e: &PrefixRoute| !withdraws && self.hop(e.group).is_some_and(|h| h.resolution.link.is_some());
        let alive = routes.iter().find(|e| !self.is_lost(e.group) || stays(e));
        alive.or(routes.first().filter(|_| !withdraws)).copied()
    }
}

impl Fibs {
    /// Whether a table withdraws prefixes of which no route leads anywhere.
    #[inline]
    pub fn withdraws(&self, v6: bool, fib_index: FibIndex) -> bool {
        self.get(v6, fib_index).is_some_and(|v| v.withdraws)
    }
}

impl Router {
    /// Gives a prefix these routes, the best first, in the place of those that were listed, or of the one that stood alone
    /// in the table: puts the one that is to be used into the table, or none.
    pub(super) fn put_routes(
        &mut self,
        fib_index: FibIndex,
        prefix: IpNet,
        (before, alone): (&[PrefixRoute], Option<PrefixRoute>),
        list: Vec<PrefixRoute>,
    ) -> Result<(), OpError> {
        let v6 = prefix.addr().is_ipv6();
        let used = self.fibs.group_of(fib_index, prefix);
        let chosen = self.nexthops.chosen(&list, self.fibs.withdraws(v6, fib_index));
        match chosen {
            Some(e) if used == Some(e.group) => {}
            Some(e) => _ = self.fib_set(fib_index, prefix, e.group)?,
            None if used.is_some() => _ = self.fibs.remove_route(fib_index, prefix),
            None => {}
        }
        let withdrawn = chosen.is_none() && !list.is_empty();
        let stays_alone = matches!(list[..], [one] if one.is_set()) && !withdrawn;
        let listed = if stays_alone { &[][..] } else { &list[..] };
        let turns = listed.iter().map(|e| e.group);
        let turns: Vec<GroupId> =
            turns.filter(|g| self.nexthops.hop(*g).is_some_and(|h| h.may_turn())).collect();
        self.nexthops.backups.listed((v6, fib_index, prefix), before, turns.into_iter());
        let Some(vrf) = self.fibs.get_mut(v6, fib_index) else { return Ok(()) };
        if withdrawn {
            vrf.withdrawn.insert(prefix);
        } else {
            vrf.withdrawn.remove(&prefix);
        }
        vrf.odd -= usize::from(alone.is_some_and(|e| e.is_odd()));
        if stays_alone {
            vrf.odd += list.iter().filter(|e| e.is_odd()).count();
        }
        if list.is_empty() || stays_alone {
            vrf.shared.remove(&prefix);
        } else {
            vrf.shared.insert(prefix, list);
        }
        self.tell_change(fib_index, prefix);
        Ok(())
    }

    /// The paths of a group all went, or one came back.
    pub(super) fn turn(&mut self, group: GroupId) {
        if !self.nexthops.backups.turn(group) {
            self.note(true, "routes whose next hops need each other's absence are left as they are");
        }
    }

    /// Has prefixes use the route that they are to use, for a moment: those whose route is lost take the next one, and those
    /// whose better one is back take that. [`Router::is_behind`] tells whether some are left.
    pub(super) fn take_over(&mut self) {
        if !self.nexthops.backups.is_waiting() || std::mem::replace(&mut self.nexthops.backups.busy, true) {
            return;
        }
        let (until, mut seen) = (Instant::now() + TURN, 0);
        while seen < AT_ONCE || Instant::now() < until {
            let Some((places, last)) = self.nexthops.backups.next() else { break };
            seen += places.len() + 1;
            self.review(&places);
            if let Some((group, listed)) = last {
                self.walk_for(group, listed);
            }
        }
        while (seen < AT_ONCE || Instant::now() < until)
            && let Some((&table, &walk)) = self.nexthops.backups.walks.first_key_value()
        {
            seen += AT_ONCE;
            self.walk_on(table, walk);
        }
        if !self.nexthops.backups.is_waiting() {
            self.nexthops.backups.rounds.clear();
        }
        self.nexthops.backups.busy = false;
    }

    /// A group turned, of which so many routes are listed: where it has more, and is lost, they stand alone in their tables.
    fn walk_for(&mut self, group: GroupId, listed: u32) {
        let Some(hop) = self.nexthops.hop(group) else { return };
        if !hop.resolution.lost || hop.routes() <= listed || hop.group_key.mpls {
            return;
        }
        let v6 = hop.group_key.v6;
        let tables = self.fibs.iter(v6).filter(|v| v.withdraws);
        let tables: Vec<FibIndex> = tables.filter_map(|v| self.fibs.fib_index(v.table)).collect();
        tables.into_iter().for_each(|t| self.nexthops.backups.walk(v6, t));
    }

    /// Looks at some more routes of a table.
    fn walk_on(&mut self, (v6, fib_index): (bool, FibIndex), walk: Walk) {
        let mut places = vec![];
        let (mut seen, mut after) = (0, walk.after);
        if let Some(vrf) = self.fibs.get(v6, fib_index) {
            for r in self.routes_after(vrf.table, walk.after) {
                (seen, after) = (seen + 1, Some(r.prefix));
                let lost = vrf.withdraws && self.nexthops.is_lost(r.group);
                let looked_at = lost || r.withdrawn || !r.hidden.is_empty();
                places.extend(looked_at.then_some((v6, fib_index, r.prefix)));
                if seen == WALKED_AT_ONCE || places.len() == AT_ONCE {
                    break;
                }
            }
        }
        match (seen, walk.again) {
            (0, true) => _ = self.nexthops.backups.walks.insert((v6, fib_index), Walk::default()),
            (0, false) => _ = self.nexthops.backups.walks.remove(&(v6, fib_index)),
            _ => _ = self.nexthops.backups.walks.insert((v6, fib_index), Walk { after, ..walk }),
        }
        self.review(&places);
    }

    /// Has these prefixes use the route that they are to use now.
    fn review(&mut self, places: &[Place]) {
        let mut tables = BTreeSet::new();
        for &(v6, fib_index, prefix) in places {
            let Some(vrf) = self.fibs.get(v6, fib_index) else { continue };
            let used = vrf.rib.get(prefix);
            let (before, alone) = match vrf.shared.get(&prefix) {
                Some(list) => (list.clone(), None),
                None => (vec![], used.and_then(|g| self.nexthops.route(g))),
            };
            let mut list = if before.is_empty() { alone.into_iter().collect() } else { before.clone() };
            self.order_routes(&mut list);
            let chosen = self.nexthops.chosen(&list, vrf.withdraws);
            let same = before.is_empty() || list == before;
            if list.is_empty() || (same && chosen.map(|e| e.group) == used) {
                continue;
            }
            if let Err(e) = self.put_routes(fib_index, prefix, (&before, alone), list) {
                self.note(true, e.message);
            }
            tables.insert((v6, fib_index));
        }
        tables.into_iter().for_each(|(v6, fib_index)| self.settle(v6, fib_index));
    }

    /// What becomes of prefixes of a table none of whose routes leads anywhere: withdrawn, or unreachable.
    pub(super) fn set_when_down(&mut self, table: RouteTable, withdraw: bool) -> Result<Vec<Op>, OpError> {
        let fib_index = self.fib_index_of(table)?;
        let Some(vrf) = self.fibs.get_mut(table.v6, fib_index) else { return Ok(vec![]) };
        let was = std::mem::replace(&mut vrf.withdraws, withdraw);
        if was != withdraw {
            self.nexthops.backups.walk(table.v6, fib_index);
            self.take_over();
        }
        Ok(vec![Op::SetWhenDown { table, withdraw: was }])
    }

    /// The withdrawn prefixes of a table that hold an address, the shortest first.
    pub fn withdrawn_covering(&self, table: u32, addr: IpAddr) -> Vec<RouteInfo> {
        let Some(vrf) = self.fibs.of(RouteTable::of(addr, table)) else { return vec![] };
        if vrf.withdrawn.is_empty() {
            return vec![];
        }
        let host = IpNet::from(addr);
        let lengths = 0..=host.max_prefix_len();
        let all = lengths.filter_map(|len| IpNet::new(addr, len).ok()).map(|p| p.trunc());
        all.filter(|p| vrf.withdrawn.contains(p)).filter_map(|p| withdrawn(vrf, p)).collect()
    }
}

/// The routes of a withdrawn prefix.
pub(super) fn withdrawn(vrf: &super::fibs::Vrf, prefix: IpNet) -> Option<RouteInfo> {
    let (first, hidden) = vrf.shared.get(&prefix)?.split_first()?;
    Some(RouteInfo { prefix, group: first.group, hidden: hidden.to_vec(), withdrawn: true })
}
