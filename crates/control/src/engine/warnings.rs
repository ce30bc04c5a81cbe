//! What would be regretted: what a plan does that its author may not have meant.

use super::bulk::{Bulk, Goal, Hop};
use super::objects::{Id, Side, Value};
use super::steps::Plan;
use ipnet::IpNet;
use net::gre::GreOp;
use net::router::{Op, RouteTable};
use net::vxlan::VxlanOp;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Warnings of a kind; nobody reads more.
const MOST: usize = 20;

/// Next hops that are looked up on the way to one.
const DEEP: usize = 32;

/// The two ends of the connection over which an operator gives commands, such as those of SSH.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Where the operator is.
    pub client: IpAddr,
    /// The address that the operator has connected to.
    pub server: Option<IpAddr>,
}

/// What a side says of interfaces and tables.
struct View<'s> {
    side: &'s Side,
    /// Tables other than the main ones, by interface and family.
    bound: HashMap<(&'s str, bool), u32>,
    down: HashSet<&'s str>,
    /// Of sub-interfaces the interface that they are on.
    parents: HashMap<&'s str, &'s str>,
    mtu: HashMap<&'s str, u32>,
    addresses: Vec<(&'s str, IpNet)>,
}

impl<'s> View<'s> {
    fn of(side: &'s Side) -> View<'s> {
        let mut v = View {
            side,
            bound: HashMap::new(),
            down: HashSet::new(),
            parents: HashMap::new(),
            mtu: HashMap::new(),
            addresses: vec![],
        };
        for (id, object) in side.model.iter() {
            match (id, &object.value) {
                (Id::Binding(n, v6), Value::Op(Op::SetTable { table, .. })) => {
                    v.bound.insert((n, *v6), table.id);
                }
                (Id::Interface(n), Value::Op(Op::CreateSub { parent, .. })) => {
                    _ = v.parents.insert(n, parent)
                }
                (Id::State(n), Value::Op(Op::SetState { up: false, .. })) => _ = v.down.insert(n),
                (Id::Mtu(n), Value::Op(Op::SetMtu { mtu, .. })) => _ = v.mtu.insert(n, u32::from(*mtu)),
                (Id::Address(n, net), _) => v.addresses.push((n, *net)),
                _ => {}
            }
        }
        v
    }

    fn table(&self, interface: &str, v6: bool) -> u32 {
        self.bound.get(&(interface, v6)).copied().unwrap_or(0)
    }

    /// The interface in whose connected prefix an address of a table is.
    fn connected(&self, table: u32, address: IpAddr) -> Option<&'s str> {
        let here = self.addresses.iter().filter(|(n, net)| {
            net.contains(&address) && !self.is_down(n) && self.table(n, address.is_ipv6()) == table
        });
        here.max_by_key(|(_, net)| net.prefix_len()).map(|(n, _)| *n)
    }

    /// What the longest route to an address says, beside those that lead to the address itself.
    fn routed(&self, table: u32, address: IpAddr) -> Option<&'s Goal> {
        let bulk = &self.side.bulk;
        let covers = bulk.routes.iter().filter(|((t, p, _), goal, _)| {
            *t == table
                && p.contains(&address)
                && bulk.goal_of(*goal).is_some_and(|g| g.addresses().all(|h| h != address))
        });
        covers
            .max_by_key(|((_, p, rank), ..)| (p.prefix_len(), std::cmp::Reverse(*rank)))
            .and_then(|(_, goal, _)| bulk.goal_of(*goal))
    }

    /// The interfaces over which packets to an address leave, as far as the side itself tells.
    fn ways(&self, table: u32, address: IpAddr) -> Vec<&'s str> {
        let mut out = vec![];
        self.ways_to(table, address, &mut HashSet::new(), &mut out);
        out
    }

    /// Where it has not been `seen` yet: addresses may lead to each other.
    fn ways_to(
        &self,
        table: u32,
        address: IpAddr,
        seen: &mut HashSet<(u32, IpAddr)>,
        out: &mut Vec<&'s str>,
    ) {
        if !seen.insert((table, address)) || seen.len() > DEEP {
            return;
        }
        if let Some(interface) = self.connected(table, address) {
            out.push(interface);
            return;
        }
        let Some(Goal::Paths(hops)) = self.routed(table, address) else { return };
        for hop in hops {
            match (&hop.interface, hop.address) {
                (Some(interface), _) => out.push(interface.as_str()),
                (None, Some(next)) => self.ways_to(hop.table.unwrap_or(table), next, seen, out),
                (None, None) => {}
            }
        }
    }

    /// Whether a hop leads somewhere; where that takes too long to find out it is taken for granted.
    fn resolves(&self, table: u32, hop: &Hop) -> bool {
        self.resolves_unless(table, hop, &mut HashSet::new())
    }

    /// What was `seen` already leads nowhere by this way.
    fn resolves_unless(&self, table: u32, hop: &Hop, seen: &mut HashSet<(u32, IpAddr)>) -> bool {
        let (address, table) = match (&hop.interface, hop.address) {
            (Some(interface), _) => return !self.is_down(interface),
            (None, None) => return true,
            (None, Some(address)) => (address, hop.table.unwrap_or(table)),
        };
        if !seen.insert((table, address)) {
            return false;
        }
        if seen.len() > DEEP || self.connected(table, address).is_some() {
            return true;
        }
        match self.routed(table, address) {
            None => false,
            Some(Goal::Paths(hops)) => hops.iter().any(|h| self.resolves_unless(table, h, seen)),
            // It is dropped as that route says.
            Some(_) => true,
        }
    }

    /// It is set down, or what it is on.
    fn is_down(&self, interface: &str) -> bool {
        self.down.contains(interface) || self.parents.get(interface).is_some_and(|p| self.is_down(p))
    }
}

impl Bulk {
    fn goal_of(&self, number: u32) -> Option<&Goal> {
        self.goals().get(number as usize)
    }
}

/// What is to be said of a plan from one side to the other.
pub fn warnings(plan: &Plan, from: &Side, to: &Side, session: Option<Session>) -> Vec<String> {
    let (from, to) = (View::of(from), View::of(to));
    let mut out = vec![];
    out.extend(session.and_then(|s| cut(plan, &from, &to, s)));
    out.extend(plan.default_routes(&to));
    out.extend(narrow(&from, &to));
    out.extend(empty(&from, &to));
    out.extend(unresolved(&from, &to));
    out
}

/// An interface that the session needs is lost to it: the one with the router's address, or one on the way to the operator.
fn cut(plan: &Plan, from: &View<'_>, to: &View<'_>, session: Session) -> Option<String> {
    let v6 = session.client.is_ipv6();
    // The router's own address, or one beside it, as of a TAP.
    let is_own = |net: &IpNet| session.server.is_some_and(|s| net.addr() == s || net.contains(&s));
    let exact = from.addresses.iter().find(|(_, net)| Some(net.addr()) == session.server);
    let own = exact.or_else(|| from.addresses.iter().find(|(_, net)| is_own(net)));
    let table = own.map_or(0, |(name, _)| from.table(name, v6));
    let ways = from.ways(table, session.client);
    let is_left = ways.iter().any(|name| lost(plan, from, to, name, v6).is_none())
        && !to.ways(table, session.client).is_empty();
    let told =
        |name: &str, how: String| format!("the interface over which your session comes, {name}, {how}");
    if let Some((name, net)) = own {
        let gone = || (!to.addresses.contains(&(name, *net))).then(|| format!("loses its address {net}"));
        if let Some(how) = lost(plan, from, to, name, v6).or_else(gone) {
            return Some(told(name, how));
        }
    }
    let name = ways.first()?;
    let here = || from.addresses.iter().filter(|(n, net)| n == name && net.addr().is_ipv6() == v6);
    let address = here().find(|(_, net)| net.contains(&session.client)).or_else(|| here().next());
    // Which of the router's addresses the session has is not known without the server's.
    let moved = address.filter(|a| (own.is_none() || !is_left) && !to.addresses.contains(a));
    if is_left && moved.is_none() {
        return None;
    }
    let how = lost(plan, from, to, name, v6)
        .or_else(|| moved.map(|(_, net)| format!("loses its address {net}")))
        .unwrap_or_else(|| format!("does not lead to {} any more", session.client));
    Some(told(name, how))
}

/// How an interface is lost to what it carries.
fn lost(plan: &Plan, from: &View<'_>, to: &View<'_>, name: &str, v6: bool) -> Option<String> {
    let (was, is) = (from.table(name, v6), to.table(name, v6));
    if to.side.model.get(&Id::Interface(name.to_owned())).is_none() {
        Some("goes".into())
    } else if plan.interfaces_gone().contains_key(name) {
        Some("is made anew".into())
    } else if was != is {
        Some(format!("moves from table {was} to table {is}"))
    } else {
        (!from.is_down(name) && to.is_down(name)).then(|| "goes down".into())
    }
}

/// An MTU becomes smaller than a tunnel needs that it was large enough for.
fn narrow(from: &View<'_>, to: &View<'_>) -> Vec<String> {
    let falls: HashSet<&str> = to
        .mtu
        .iter()
        .filter(|(n, mtu)| from.mtu.get(*n).is_some_and(|old| old > *mtu))
        .map(|(n, _)| *n)
        .collect();
    if falls.is_empty() {
        return vec![];
    }
    let mut out = vec![];
    for (id, object) in to.side.model.iter() {
        let (Id::Interface(name), Value::Op(Op::Part(part))) = (id, &object.value) else { continue };
        let gre = part
            .get::<GreOp>()
            .map(GreOp::config)
            .map(|config| (config.table, config.remote, 1500 - u32::from(config.mtu())));
        let vxlan = part.get::<VxlanOp>().map(VxlanOp::config).map(|config| {
            // Outer IP, UDP, VXLAN, and the Ethernet header inside.
            (config.table, config.remote, if config.remote.is_ipv4() { 20 } else { 40 } + 8 + 8 + 14)
        });
        let Some((table, remote, headers)) = gre.or(vxlan) else { continue };
        let Some(mtu) = to.mtu.get(name.as_str()) else { continue };
        let need = mtu + headers;
        for over in to.ways(table, remote).into_iter().filter(|over| falls.contains(over)) {
            let has = to.mtu.get(over).copied().unwrap_or(u32::MAX);
            if has < need && from.mtu.get(over).is_some_and(|old| *old >= need) {
                out.push(format!(
                    "{name} needs {need} bytes of {over}, whose MTU becomes {has}: its large packets are cut up"
                ));
            }
        }
    }
    out.truncate(MOST);
    out
}

/// A table that stays has no interface any more.
fn empty(from: &View<'_>, to: &View<'_>) -> Vec<String> {
    let count = |v: &View<'_>| {
        let mut tables: HashMap<RouteTable, usize> = HashMap::new();
        let all = v.bound.iter().filter(|(_, id)| **id != 0);
        all.for_each(|((_, v6), id)| *tables.entry(RouteTable { v6: *v6, id: *id }).or_default() += 1);
        tables
    };
    let (had, has) = (count(from), count(to));
    let mut lost: Vec<RouteTable> = had.into_keys().filter(|t| !has.contains_key(t)).collect();
    lost.retain(|t| to.side.model.get(&Id::Table(*t)).is_some());
    lost.sort();
    let text = |t: &RouteTable| format!("{t} has no interface any more");
    lost.iter().take(MOST).map(text).collect()
}

/// Next hops of routes that could be found, or that are new, and cannot.
fn unresolved(from: &View<'_>, to: &View<'_>) -> Vec<String> {
    let bulk = &to.side.bulk;
    // The first route of each goal and table, and how many there are.
    let mut used: HashMap<(u32, u32), (IpNet, usize)> = HashMap::new();
    let mut last: Option<((u32, u32), IpNet, usize)> = None;
    let mut put = |(key, prefix, count): ((u32, u32), IpNet, usize)| {
        used.entry(key).or_insert((prefix, 0)).1 += count;
    };
    for ((table, prefix, _), goal, _) in &bulk.routes {
        let key = (*goal, *table);
        match &mut last {
            // Neighbours are mostly alike.
            Some((k, _, n)) if *k == key => *n += 1,
            _ => last.replace((key, *prefix, 1)).into_iter().for_each(&mut put),
        }
    }
    last.into_iter().for_each(put);
    let mut found: Vec<((u32, u32), (IpNet, usize))> = used.into_iter().collect();
    found.sort_unstable();
    let had: HashSet<&Goal> = from.side.bulk.goals().iter().collect();
    let mut out = vec![];
    for ((goal, table), (prefix, count)) in found {
        let Some(goal @ Goal::Paths(hops)) = bulk.goal_of(goal) else { continue };
        let lost = |h: &&Hop| !to.resolves(table, h) && (!had.contains(goal) || from.resolves(table, h));
        let Some(address) = hops.iter().find(lost).and_then(|h| h.address) else { continue };
        let others = if count == 1 { String::new() } else { format!(" and {} more", count - 1) };
        let of = if table == 0 { String::new() } else { format!(" of table {table}") };
        out.push(format!("nothing leads to {address}, the next hop of route {prefix}{of}{others}"));
        if out.len() == MOST {
            break;
        }
    }
    out
}

impl Plan {
    /// Default routes that go without another one in their place, or drop packets from now on.
    fn default_routes(&self, to: &View<'_>) -> Vec<String> {
        let mut out = vec![];
        for run in &self.runs.routes {
            for item in run.items.iter().filter(|i| i.key.1.prefix_len() == 0) {
                let (table, prefix, _) = item.key;
                let how = match self.runs.goals_of(item) {
                    (Some(_), None) => "goes",
                    (Some(Goal::Paths(_)), Some(Goal::Drop | Goal::Unreachable | Goal::Prohibit)) => {
                        "drops packets from now on"
                    }
                    _ => continue,
                };
                let mut rest = to.side.bulk.routes.iter();
                if how == "goes" && rest.any(|((t, p, _), ..)| *t == table && *p == prefix) {
                    continue;
                }
                let of = if table == 0 { String::new() } else { format!(" of table {table}") };
                out.push(format!("the default route {prefix}{of} {how}"));
            }
        }
        out
    }
}
