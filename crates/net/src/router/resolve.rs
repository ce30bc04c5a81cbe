//! What a next-hop group holds at the moment: its paths, resolved through interfaces, tables and the groups of other
//! routes, down to neighbours. Packets never walk this: it is worked out again when something on the way changes.

use super::adjacencies::AdjKey;
use super::nexthops::{GroupKey, Lookup, NextHops, RoutePath, Target};
use super::{RouteInfo, RouteTable, Router};
use crate::labels::Stack;
use crate::plane::kind;
use crate::plane::table::FibIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use tables::groups::{GroupId, MAX_BUCKETS};

/// The most tables through which one next hop is followed.
const MOST_TABLES: usize = crate::plane::table::MAX_LOOKUPS as usize;

/// What a table is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TableKind {
    Ip4,
    Ip6,
    Mpls,
}

impl TableKind {
    pub fn of_family(v6: bool) -> TableKind {
        if v6 { TableKind::Ip6 } else { TableKind::Ip4 }
    }
}

/// One way of a group, with its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lead {
    pub kind: u8,
    pub key: Option<AdjKey>,
    /// In place of an adjacency: an interface, or the FIB index of a table.
    pub value: u32,
    pub weight: u64,
}

/// What a group holds, and what that hangs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resolution {
    pub leads: Vec<Lead>,
    /// Interfaces whose state matters.
    pub interfaces: Vec<u32>,
    /// Neighbours that were found, answering or not.
    pub neighbors: Vec<IpAddr>,
    /// Next hops that were looked up: family and FIB index of the table, address.
    pub watches: Vec<(bool, FibIndex, IpAddr)>,
    /// Groups of other routes that it goes through.
    pub through: Vec<GroupId>,
    /// Tables that packets are looked up in, with their FIB indexes.
    pub tables: Vec<(TableKind, FibIndex)>,
    /// Of a route onto a link: the interface, whose state matters.
    pub link: Option<u32>,
    /// Paths that were asked for and lead nowhere, or a link that does not carry packets.
    pub lost: bool,
}

impl Resolution {
    fn tidy(&mut self) {
        fn unique<T: Ord>(list: &mut Vec<T>) {
            list.sort_unstable();
            list.dedup();
        }
        unique(&mut self.interfaces);
        unique(&mut self.neighbors);
        unique(&mut self.watches);
        unique(&mut self.through);
        unique(&mut self.tables);
    }
}

fn single(kind: u8, key: Option<AdjKey>, value: u32) -> Lead {
    Lead { kind, key, value, weight: 1 }
}

/// A neighbour as a group of a family reaches it.
fn neighbor_key(v6: bool, interface: u32, addr: IpAddr) -> AdjKey {
    match addr {
        IpAddr::V6(a) if !v6 => AdjKey::Via6(interface, a, 0),
        _ => AdjKey::Neighbor(interface, addr, 0),
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Joins the ways of several paths: each path has its share of the whole, and each way of it its share of that.
fn join(parts: Vec<(u64, Vec<Lead>)>) -> Vec<Lead> {
    let total = |leads: &[Lead]| leads.iter().map(|l| l.weight).sum::<u64>().max(1);
    // Exact where the common multiple is of a sensible size.
    let common = parts.iter().try_fold(1u64, |all, (_, leads)| {
        let t = total(leads);
        (all / gcd(all, t)).checked_mul(t).filter(|m| *m < 1 << 32)
    });
    let mut out: BTreeMap<(u8, Option<AdjKey>, u32), u64> = BTreeMap::new();
    for (weight, leads) in parts {
        let sum = total(&leads);
        for l in leads {
            let share = match common {
                Some(all) => weight * l.weight * (all / sum),
                None => {
                    (u128::from(weight) * u128::from(l.weight) * (1 << 24) / u128::from(sum)).max(1) as u64
                }
            };
            *out.entry((l.kind, l.key, l.value)).or_default() += share;
        }
    }
    let mut out: Vec<Lead> =
        out.into_iter().map(|((kind, key, value), weight)| Lead { kind, key, value, weight }).collect();
    if out.len() > MAX_BUCKETS {
        out.sort_by_key(|l| std::cmp::Reverse(l.weight));
        out.truncate(MAX_BUCKETS);
        out.sort_unstable();
    }
    let divisor = out.iter().fold(0, |d, l| gcd(d, l.weight)).max(1);
    let most = out.iter().map(|l| l.weight / divisor).max().unwrap_or(1);
    // Weights of a group have 32 bits.
    let shift = (64 - most.leading_zeros()).saturating_sub(31);
    out.iter_mut().for_each(|l| l.weight = ((l.weight / divisor) >> shift).max(1));
    out
}

const _: () = assert!(crate::plane::table::MAX_TABLES <= 1 << 16, "two FIB indexes fit a word");

/// The word of [`kind::DISPOSE_IP`].
fn both_families(four: FibIndex, six: FibIndex) -> u32 {
    four.0 & 0xffff | six.0 << 16
}

/// Works out one group.
struct Work<'r> {
    router: &'r Router,
    v6: bool,
    /// Of a label route.
    mpls: bool,
    /// Groups through which no path may go, as that leads back to this one.
    looped: &'r dyn Fn(GroupId) -> bool,
    out: Resolution,
    /// What becomes of packets when no path is left, where a route on the way says so.
    discard: Option<u8>,
}

impl Work<'_> {
    /// A neighbour on an interface, if packets can be sent there.
    fn neighbor(&mut self, interface: u32, addr: IpAddr) -> Option<Lead> {
        self.out.interfaces.push(interface);
        self.out.neighbors.push(addr);
        let key = neighbor_key(self.v6, interface, addr);
        self.router.is_usable(interface).then(|| single(kind::REWRITE, Some(key), 0))
    }

    fn path(&mut self, p: &RoutePath, table: u32) -> Vec<Lead> {
        let mut leads = self.labelled_path(p, table);
        // Of routes on the way the least MTU counts. Onto a link packets go by its neighbours' own adjacencies once these are known.
        for l in leads.iter_mut().filter(|l| l.kind != kind::GLEAN) {
            l.key = l.key.map(|k| k.within(p.mtu));
        }
        leads
    }

    fn labelled_path(&mut self, p: &RoutePath, table: u32) -> Vec<Lead> {
        let leads = self.plain_path(p, table);
        let to_neighbors =
            p.address.is_some() || p.interface.is_some_and(|i| self.router.group_behind(i).is_some());
        if !self.mpls && p.labels.is_none() || !to_neighbors {
            return leads;
        }
        leads.into_iter().filter_map(|l| self.labelled(p, l)).collect()
    }

    /// A way to a neighbour for packets that get the labels of a path.
    fn labelled(&self, p: &RoutePath, lead: Lead) -> Option<Lead> {
        let key = lead.key.filter(|_| kind::is_neighbor(lead.kind))?;
        let own = if self.mpls { p.labels.in_place() } else { p.labels.pushed() };
        // The labels of routes on the way stand outside of those of the path.
        let outer = key.stack();
        let stack = outer.unwrap_or(Stack::EMPTY).around(&own)?;
        let kind = match (self.mpls && p.labels.pops(), p.labels.uniform) {
            (true, false) => kind::POP,
            (true, true) => kind::POP_UNIFORM,
            (false, _) if self.is_plain(key) && stack.is_empty() && outer.is_none() => return Some(lead),
            (false, _) => kind::LABEL,
        };
        let (interface, address) = key.neighbor()?;
        Some(Lead { kind, key: Some(AdjKey::Mpls(interface, address, stack, key.mtu())), ..lead })
    }

    /// Whether an adjacency serves packets without labels: not those of IPv6 to an IPv4 neighbour.
    fn is_plain(&self, key: AdjKey) -> bool {
        !(self.mpls || self.v6 && key.neighbor().is_some_and(|n| n.1.is_ipv4()))
    }

    /// A path of a label route into a table.
    fn disposed(&mut self, p: &RoutePath) -> Vec<Lead> {
        let uniform = u8::from(p.labels.uniform);
        let (table, kind) = match p.lookup {
            Lookup::Ip => return self.disposed_by_version(p, p.table),
            Lookup::IpEach(six) => return self.disposed_by_version(p, Some(six)),
            Lookup::Ip4 | Lookup::Own | Lookup::Frame => (TableKind::Ip4, kind::DISPOSE4),
            Lookup::Ip6 => (TableKind::Ip6, kind::DISPOSE6),
            Lookup::Mpls => (TableKind::Mpls, kind::NEXT_LABEL),
        };
        // Without a number it is the packet's own table.
        let Some(id) = p.table else { return vec![single(kind + uniform, None, u32::MAX)] };
        let fib_index = match table {
            TableKind::Mpls => self.router.label_fib_index(id),
            _ => self.router.fibs.fib_index(RouteTable { v6: table == TableKind::Ip6, id }),
        };
        let Some(fib_index) = fib_index else { return vec![] };
        self.out.tables.push((table, fib_index));
        vec![single(kind + uniform, None, fib_index.0)]
    }

    /// A path of a label route into the tables of both families.
    fn disposed_by_version(&mut self, p: &RoutePath, six: Option<u32>) -> Vec<Lead> {
        let place = |v6, id: Option<u32>| self.router.fibs.fib_index(RouteTable { v6, id: id? });
        let (Some(four), Some(six)) = (place(false, p.table), place(true, six)) else { return vec![] };
        self.out.tables.extend([(TableKind::Ip4, four), (TableKind::Ip6, six)]);
        let kind = if p.labels.uniform { kind::DISPOSE_IP_UNIFORM } else { kind::DISPOSE_IP };
        vec![single(kind, None, both_families(four, six))]
    }

    /// A path over a tunnel leads where the tunnel's paths lead.
    fn tunnelled(&mut self, interface: u32, group: GroupId) -> Vec<Lead> {
        self.out.interfaces.push(interface);
        self.out.through.push(group);
        let hop = self.router.nexthops.hop(group);
        let usable = self.router.is_usable(interface) && !(self.looped)(group);
        let leads = hop.filter(|_| usable).into_iter().flat_map(|h| &h.resolution.leads);
        leads.filter(|l| l.kind == kind::LABEL).copied().collect()
    }

    fn plain_path(&mut self, p: &RoutePath, table: u32) -> Vec<Lead> {
        if let Some(i) = p.interface {
            if let Some(group) = self.router.group_behind(i) {
                return self.tunnelled(i, group);
            }
            if p.lookup == Lookup::Frame {
                self.out.interfaces.push(i);
                return vec![single(kind::FRAME, None, i)];
            }
        }
        match (p.interface, p.address) {
            (Some(i), Some(a)) => self.neighbor(i, a).into_iter().collect(),
            (Some(i), None) => {
                self.out.interfaces.push(i);
                let lead = self.router.onto_link(i, self.v6);
                self.router.is_usable(i).then_some(lead).into_iter().collect()
            }
            (None, Some(a)) => {
                let table = RouteTable::of(a, p.table.unwrap_or(table));
                match self.router.fibs.fib_index(table) {
                    Some(fib_index) => self.follow(a, fib_index, &mut vec![]),
                    None => vec![],
                }
            }
            (None, None) if self.mpls => self.disposed(p),
            (None, None) => {
                let table = RouteTable { v6: self.v6, id: p.table.unwrap_or(0) };
                let Some(fib_index) = self.router.fibs.fib_index(table) else { return vec![] };
                self.out.tables.push((TableKind::of_family(self.v6), fib_index));
                vec![single(kind::LOOKUP, None, fib_index.0)]
            }
        }
    }

    /// Where packets for a next hop go; `before` are the tables that lead to this one.
    fn follow(&mut self, addr: IpAddr, fib_index: FibIndex, before: &mut Vec<FibIndex>) -> Vec<Lead> {
        if before.contains(&fib_index) || before.len() >= MOST_TABLES {
            return vec![];
        }
        let v6 = addr.is_ipv6();
        self.out.watches.push((v6, fib_index, addr));
        let found = self.router.fibs.get(v6, fib_index).and_then(|v| v.rib.longest(addr));
        let Some((_, group)) = found else { return vec![] };
        let Some(hop) = self.router.nexthops.hop(group) else { return vec![] };
        let discard = match hop.group_key.target {
            Target::Glean(i) => return self.neighbor(i, addr).into_iter().collect(),
            Target::Neighbor(i, a) => return self.neighbor(i, a).into_iter().collect(),
            Target::Local(_) | Target::Broadcast | Target::DirectedBroadcast(_) => return vec![],
            Target::Drop => kind::DROP,
            Target::Unreachable => kind::UNREACHABLE,
            Target::Prohibit => kind::PROHIBIT,
            Target::Paths(_) => {
                self.out.through.push(group);
                if (self.looped)(group) {
                    return vec![];
                }
                let mut parts = vec![];
                for l in &hop.resolution.leads {
                    let leads = match (l.kind, l.key) {
                        // The next hop is a neighbour on the link.
                        (kind::GLEAN | kind::REWRITE, Some(AdjKey::Glean(i, _, mtu))) => {
                            let lead = self.neighbor(i, addr).into_iter();
                            lead.map(|l| Lead { key: l.key.map(|k| k.within(mtu)), ..l }).collect()
                        }
                        (kind::REWRITE, Some(AdjKey::Neighbor(i, a, mtu))) => {
                            let key = neighbor_key(self.v6, i, a).within(mtu);
                            vec![single(kind::REWRITE, Some(key), 0)]
                        }
                        (kind::REWRITE | kind::LABEL, key) => vec![single(l.kind, key, 0)],
                        (kind::LOOKUP, _) => {
                            before.push(fib_index);
                            let leads = self.follow(addr, FibIndex(l.value), before);
                            before.pop();
                            leads
                        }
                        (kind::DROP | kind::PROHIBIT, _) => {
                            self.discard.get_or_insert(l.kind);
                            vec![]
                        }
                        (kind::UNREACHABLE, _) if !hop.resolution.lost => {
                            self.discard.get_or_insert(l.kind);
                            vec![]
                        }
                        _ => vec![],
                    };
                    if !leads.is_empty() {
                        parts.push((l.weight, leads));
                    }
                }
                return join(parts);
            }
        };
        self.discard.get_or_insert(discard);
        vec![]
    }
}

impl Router {
    /// Onto the link of an interface: to whoever has a packet's destination there, or to the one other end.
    fn onto_link(&self, interface: u32, v6: bool) -> Lead {
        let one_end = self.is_point_to_point(interface);
        let kind = if one_end { kind::REWRITE } else { kind::GLEAN };
        single(kind, Some(AdjKey::Glean(interface, v6, 0)), 0)
    }

    /// What a group holds now. Groups for which `looped` holds lead back to it.
    pub(super) fn resolve(&self, group_key: &GroupKey, looped: &dyn Fn(GroupId) -> bool) -> Resolution {
        let fixed = match &group_key.target {
            Target::Local(i) => single(kind::LOCAL, None, *i),
            Target::Glean(i) => self.onto_link(*i, group_key.v6),
            Target::Neighbor(i, a) => single(kind::REWRITE, Some(AdjKey::Neighbor(*i, *a, 0)), 0),
            Target::Broadcast => single(kind::BROADCAST, None, u32::MAX),
            Target::DirectedBroadcast(i) => single(kind::BROADCAST, Some(AdjKey::Broadcast(*i)), 0),
            Target::Drop => single(kind::DROP, None, 0),
            Target::Unreachable => single(kind::UNREACHABLE, None, 0),
            Target::Prohibit => single(kind::PROHIBIT, None, 0),
            Target::Paths(paths) => return self.resolve_paths(group_key, paths, looped),
        };
        let link = match group_key.target {
            Target::Glean(i) => Some(i),
            _ => None,
        };
        let lost = link.is_some_and(|i| !self.is_usable(i));
        Resolution { leads: vec![fixed], link, lost, ..Resolution::default() }
    }

    fn resolve_paths(
        &self,
        group_key: &GroupKey,
        paths: &[RoutePath],
        looped: &dyn Fn(GroupId) -> bool,
    ) -> Resolution {
        let mut work = Work {
            router: self,
            v6: group_key.v6,
            mpls: group_key.mpls,
            looped,
            out: Resolution::default(),
            discard: None,
        };
        let (mut alive, mut dead) = (vec![], vec![]);
        for p in paths {
            let leads = work.path(p, group_key.table);
            let (gone, here): (Vec<_>, Vec<_>) = leads.into_iter().partition(|l| self.is_dead(l.key));
            let weight = u64::from(p.weight.max(1));
            // When none answers, packets ask for all of them again.
            for (list, leads) in [(&mut alive, here), (&mut dead, gone)] {
                if !leads.is_empty() {
                    list.push((weight, leads));
                }
            }
        }
        let parts = if alive.is_empty() { dead } else { alive };
        let mut out = work.out;
        out.leads = join(parts);
        if out.leads.is_empty() {
            out.lost = work.discard.is_none();
            out.leads.push(single(work.discard.unwrap_or(kind::UNREACHABLE), None, 0));
        }
        out.tidy();
        out
    }

    fn is_dead(&self, key: Option<AdjKey>) -> bool {
        key.and_then(AdjKey::neighbor).is_some_and(|(i, a)| self.nexthops.is_dead(i, a))
    }

    /// Works these groups out again, and all that go through them: those first through which others go, so that each is
    /// worked out once. A path that leads back to its own group leads nowhere.
    pub(super) fn refresh(&mut self, groups: BTreeSet<GroupId>) {
        // What leads where may have changed with the groups themselves.
        for &id in &groups {
            let Some(group_key) = self.nexthops.hop(id).map(|h| h.group_key.clone()) else { continue };
            if matches!(group_key.target, Target::Paths(_)) {
                let through = self.resolve(&group_key, &|_| false).through;
                self.nexthops.set_through(id, through);
            }
        }
        for ring in self.nexthops.rings(groups) {
            let ring = &ring;
            let looped = |id: GroupId| ring.contains(&id);
            for &id in ring {
                let Some(hop) = self.nexthops.hop(id) else { continue };
                let alone = ring.len() == 1 && !hop.resolution.through.contains(&id);
                let group_key = hop.group_key.clone();
                let resolution = if alone {
                    self.resolve(&group_key, &|_| false)
                } else {
                    self.resolve(&group_key, &looped)
                };
                self.apply_resolution(id, resolution);
            }
        }
        self.take_over();
    }
}

/// A step on the way from a path's next hop to neighbours.
#[derive(Clone, Debug)]
pub struct NextHopStep {
    /// The table of the lookup.
    pub table: RouteTable,
    /// What was looked up.
    pub addr: IpAddr,
    /// The route that holds it.
    pub via: Option<RouteInfo>,
    /// The route leads back to the group that the path belongs to, and the path is left out.
    pub looped: bool,
    /// The interface that the route leads to, where that is a connected one.
    pub interface: Option<u32>,
}

impl Router {
    /// How the next hop of a group's path is resolved, step by step; nothing for a path with an interface. Of routes
    /// with several paths the first one is followed.
    pub fn next_hop_steps(&self, group: GroupId, path: &RoutePath) -> Vec<NextHopStep> {
        let (mut out, mut groups) = (vec![], vec![group]);
        let mut at = self.nexthops.hop(group).map_or(0, |h| h.group_key.table);
        let mut path = *path;
        let mut wanted: Option<IpAddr> = None;
        while path.interface.is_none() && out.len() < 64 {
            // A path without address looks the next hop itself up in another table.
            let Some(addr) = path.address.or(wanted) else { break };
            wanted = Some(addr);
            let table = RouteTable::of(addr, path.table.unwrap_or(at));
            let found = self.fibs.of(table).and_then(|v| v.rib.longest(addr));
            let Some((prefix, id)) = found else {
                out.push(NextHopStep { table, addr, via: None, looped: false, interface: None });
                break;
            };
            let looped = groups.contains(&id);
            let hop = self.nexthops.hop(id);
            let interface = match hop.map(|h| &h.group_key.target) {
                Some(Target::Glean(i) | Target::Neighbor(i, _)) => Some(*i),
                _ => None,
            };
            let via = Some(RouteInfo { prefix, group: id, hidden: vec![], withdrawn: false });
            out.push(NextHopStep { table, addr, via, looped, interface });
            let next = match hop.map(|h| &h.group_key.target) {
                Some(Target::Paths(p)) if !looped => p.first().copied(),
                _ => None,
            };
            let Some(next) = next else { break };
            at = hop.map_or(0, |h| h.group_key.table);
            groups.push(id);
            path = next;
        }
        out
    }
}

impl NextHops {
    /// The groups that go through some of these, themselves included, in an order in which those come first through which others
    /// go. Groups that go through each other come together.
    fn rings(&self, start: BTreeSet<GroupId>) -> Vec<Vec<GroupId>> {
        let mut all = start.clone();
        let mut list: Vec<GroupId> = start.into_iter().collect();
        while let Some(id) = list.pop() {
            list.extend(self.dependents(id).filter(|d| all.insert(*d)));
        }
        // Tarjan's algorithm, without recursion: chains of routes may be long.
        #[derive(Clone, Copy)]
        struct Seen {
            number: usize,
            low: usize,
            open: bool,
        }
        let (mut seen, mut open, mut out): (BTreeMap<GroupId, Seen>, Vec<GroupId>, Vec<Vec<GroupId>>) =
            Default::default();
        for &root in &all {
            if seen.contains_key(&root) {
                continue;
            }
            let mut path: Vec<(GroupId, usize)> = vec![];
            let mut next = Some(root);
            loop {
                if let Some(id) = next.take() {
                    let number = seen.len();
                    seen.insert(id, Seen { number, low: number, open: true });
                    open.push(id);
                    path.push((id, 0));
                }
                let Some((id, at)) = path.last_mut() else { break };
                let id = *id;
                let through = self.hop(id).map_or(&[][..], |h| &h.resolution.through);
                if let Some(&to) = through.get(*at) {
                    *at += 1;
                    match seen.get(&to).copied() {
                        _ if !all.contains(&to) => {}
                        None => next = Some(to),
                        Some(s) if s.open => lower(&mut seen, id, s.number),
                        Some(_) => {}
                    }
                    continue;
                }
                path.pop();
                let Some(own) = seen.get(&id).copied() else { continue };
                if own.low == own.number {
                    let from = open.iter().rposition(|o| *o == id).unwrap_or(0);
                    let ring: Vec<GroupId> = open.drain(from..).collect();
                    for r in &ring {
                        if let Some(s) = seen.get_mut(r) {
                            s.open = false;
                        }
                    }
                    out.push(ring);
                }
                if let Some((parent, _)) = path.last() {
                    lower(&mut seen, *parent, own.low);
                }
            }
        }
        fn lower(seen: &mut BTreeMap<GroupId, Seen>, id: GroupId, to: usize) {
            if let Some(s) = seen.get_mut(&id) {
                s.low = s.low.min(to);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_multiply() {
        let to = |n: u8| AdjKey::Neighbor(1, [10, 0, 0, n].into(), 0);
        let lead = |n: u8, weight| Lead { weight, ..single(kind::REWRITE, Some(to(n)), 0) };
        let joined = |parts| join(parts).into_iter().map(|l| l.weight).collect::<Vec<_>>();
        // A third over 1, two thirds over 2 and 3 in the ratio of 1 to 3.
        assert_eq!(joined(vec![(1, vec![lead(1, 1)]), (2, vec![lead(2, 1), lead(3, 3)])]), [2, 1, 3]);
        // The same neighbour over two ways has both shares.
        assert_eq!(joined(vec![(1, vec![lead(1, 5)]), (1, vec![lead(1, 1), lead(2, 1)])]), [3, 1]);
        let many =
            (0..=255).map(|n| (1 + u64::from(n), vec![lead(n, 1), lead(n.wrapping_add(1), 7)])).collect();
        assert_eq!(joined(many).len(), 256);
    }
}
