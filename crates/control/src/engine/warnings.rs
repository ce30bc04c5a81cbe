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
    mtu: HashMap<&'s str, u32>,
    addresses: Vec<(&'s str, IpNet)>,
}

impl<'s> View<'s> {
    fn of(side: &'s Side) -> View<'s> {
        let mut v = View {
            side,
            bound: HashMap::new(),
            down: HashSet::new(),
            mtu: HashMap::new(),
            addresses: vec![],
        };
        for (id, object) in side.model.iter() {
            match (id, &object.value) {
                (Id::Binding(n, v6), Value::Op(Op::SetTable { table, .. })) => {
                    v.bound.insert((n, *v6), table.id);
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
            net.contains(&address) && !self.down.contains(n) && self.table(n, address.is_ipv6()) == table
        });
        here.max_by_key(|(_, net)| net.prefix_len()).map(|(n, _)| *n)
    }

    /// What the longest route to an address says, beside those that lead to the address itself.
    fn routed(&self, table: u32, address: IpAddr) -> Option<&'s Goal> {
        let bulk = &self.side.bulk;
        let covers = bulk.routes.iter().filter(|((t, p, _), goal, _)| {
            *t == table
                && p.contains(&address)
                && bulk.goal_of(*goal).is_some_and(|g| g.hops().all(|h| h != address))
        });
        covers
            .max_by_key(|((_, p, rank), ..)| (p.prefix_len(), std::cmp::Reverse(*rank)))
            .and_then(|(_, goal, _)| bulk.goal_of(*goal))
    }

    /// The interface over which packets to an address leave, as far as the side itself tells.
    fn leaves(&self, table: u32, address: IpAddr, depth: u8) -> Option<&'s str> {
        if let Some(interface) = self.connected(table, address) {
            return Some(interface);
        }
        let Goal::Paths(hops) = self.routed(table, address)? else { return None };
        let hop = hops.first()?;
        match (&hop.interface, hop.address) {
            (Some(interface), _) => Some(interface),
            (None, Some(next)) if depth > 0 => self.leaves(hop.table.unwrap_or(table), next, depth - 1),
            _ => None,
        }
    }

    /// Whether a next hop without interface can be found.
    fn resolves(&self, table: u32, hop: &Hop) -> bool {
        let (Some(address), None) = (hop.address, &hop.interface) else { return true };
        let table = hop.table.unwrap_or(table);
        self.connected(table, address).is_some() || self.routed(table, address).is_some()
    }

    fn is_up(&self, interface: &str) -> bool {
        let there = self.side.model.get(&Id::Interface(interface.to_owned())).is_some();
        there && !self.down.contains(interface)
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
    out.extend(plan.default_routes());
    out.extend(narrow(&from, &to));
    out.extend(empty(&from, &to));
    out.extend(unresolved(&from, &to));
    out
}

/// The interface over which the session comes is lost to it.
fn cut(plan: &Plan, from: &View<'_>, to: &View<'_>, session: Session) -> Option<String> {
    // The router's own address, or one beside it, as of a TAP; else the way to the operator.
    let own = |(n, net): &(&str, IpNet)| {
        (Some(net.addr()) == session.server || session.server.is_some_and(|s| net.contains(&s)))
            .then(|| (n.to_string(), *net))
    };
    let (name, net) = from.addresses.iter().find_map(own).or_else(|| {
        let name = from.leaves(0, session.client, 4)?;
        let net = from
            .addresses
            .iter()
            .find(|(n, net)| *n == name && net.addr().is_ipv4() == session.client.is_ipv4())?;
        Some((name.to_owned(), net.1))
    })?;
    let how = if to.side.model.get(&Id::Interface(name.clone())).is_none() {
        "goes".to_owned()
    } else if plan.interfaces_gone().contains_key(name.as_str()) {
        "is made anew".to_owned()
    } else if !to.addresses.contains(&(name.as_str(), net)) {
        format!("loses its address {net}")
    } else if from.is_up(&name) && !to.is_up(&name) {
        "goes down".to_owned()
    } else {
        return None;
    };
    Some(format!("the interface over which your session comes, {name}, {how}"))
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
        let Some(over) = to.leaves(table, remote, 4).filter(|over| falls.contains(over)) else { continue };
        let (need, has) = (mtu + headers, to.mtu.get(over).copied().unwrap_or(u32::MAX));
        if has < need && from.mtu.get(over).is_some_and(|old| *old >= need) {
            out.push(format!(
                "{name} needs {need} bytes of {over}, whose MTU becomes {has}: its large packets are cut up"
            ));
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
    /// Default routes that go.
    fn default_routes(&self) -> Vec<String> {
        let mut out = vec![];
        for run in &self.runs.routes {
            for item in run.items.iter().filter(|i| i.key.1.prefix_len() == 0) {
                if let (Some(_), None) = self.runs.goals_of(item) {
                    let of =
                        if item.key.0 == 0 { String::new() } else { format!(" of table {}", item.key.0) };
                    out.push(format!("the default route {}{of} goes", item.key.1));
                }
            }
        }
        out
    }
}
