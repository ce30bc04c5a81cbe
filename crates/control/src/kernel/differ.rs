//! `fib diff kernel`: the kernel's routes, read once more, beside those that the router has of them.

use super::goals::{Devices, Goal};
use super::{Followed, SharedRouter, Speaker, sockets};
use ipnet::IpNet;
use linux::{Key, Route};
use net::background::drop_aside;
use net::router::{Router, Source, Target};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// Routes compared in a turn of the control thread.
const TURN: usize = 500;

/// A route that differs.
pub(crate) struct Difference {
    pub table: u32,
    pub prefix: IpNet,
    pub metric: u32,
    /// What the kernel has; `None`: nothing.
    pub kernel: Option<Arc<Target>>,
    /// What the router has; `None`: nothing.
    pub router: Option<Arc<Target>>,
}

impl Followed {
    /// The routes that differ.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub(crate) async fn differences(&self, router: &SharedRouter) -> Result<Vec<Difference>, String> {
        let netns = self.taken.netns.clone();
        let read = net::background::run(move || read(netns.as_deref())).await;
        let routes = read.map_err(|e| e.to_string())??;
        compare(router, self.taken.netns.as_deref(), &self.taken.devices, routes).await
    }
}

/// Reads the routes of a namespace. Not for the control thread.
fn read(netns: Option<&str>) -> Result<Vec<(Key, Arc<Route>)>, String> {
    let mut sockets = sockets(netns, linux::Sockets::for_requests)?;
    let mirror = linux::reader::read_all(&mut sockets).map_err(|e| e.to_string())?;
    Ok(mirror.iter().map(|(k, r)| (k, Arc::clone(r))).collect())
}

/// By table, then as the router walks its routes: IPv4 first, by address, then by length, then by metric.
fn order(a: &(u32, IpNet, u32), b: &(u32, IpNet, u32)) -> Ordering {
    let place = |(table, prefix, metric): &(u32, IpNet, u32)| {
        (*table, prefix.addr().is_ipv6(), prefix.addr(), prefix.prefix_len(), *metric)
    };
    place(a).cmp(&place(b))
}

/// Routes of one content share what they come to.
type Wanted = HashMap<(u32, IpNet, u32), Arc<Target>>;

/// Compares, and lets others have their turn.
async fn compare(
    router: &SharedRouter,
    netns: Option<&str>,
    devices: &Devices,
    kernel: Vec<(Key, Arc<Route>)>,
) -> Result<Vec<Difference>, String> {
    // It does not grow here: that would move all of it at one go.
    let mut wanted: Wanted = HashMap::with_capacity(kernel.len());
    let mut shared: HashMap<*const Route, Arc<Target>> = HashMap::new();
    for routes in kernel.chunks(TURN) {
        {
            let router = router.borrow();
            let goal = |(key, route): &(Key, Arc<Route>)| {
                let Goal { table, rank, target } =
                    devices.goal(&router, Speaker::KERNEL.preference, key, route).ok()?;
                let known = shared.entry(Arc::as_ptr(route)).or_insert_with(|| Arc::new(target.clone()));
                let target = if **known == target { Arc::clone(known) } else { Arc::new(target) };
                Some(((table, key.prefix, rank.metric), target))
            };
            wanted.extend(routes.iter().filter_map(goal));
        }
        tokio::task::yield_now().await;
    }
    drop_aside(kernel);
    let mut differ = vec![];
    let sources: Vec<Source> = {
        let all = router.borrow().route_sources();
        all.into_iter()
            .filter(|s| Speaker::KERNEL.is_source(&s.name, netns))
            .map(|s| Source::Runtime(s.source))
            .collect()
    };
    let mut at = Some((net::router::RouteTable::V4, None));
    while let Some((table, after)) = at {
        at = beside(&router.borrow(), &sources, &mut wanted, &mut differ, table, after);
        tokio::task::yield_now().await;
    }
    let sorted = move || {
        let missing = |((table, prefix, metric), target)| Difference {
            table,
            prefix,
            metric,
            kernel: Some(target),
            router: None,
        };
        differ.extend(wanted.into_iter().map(missing));
        differ.sort_by(|a, b| order(&(a.table, a.prefix, a.metric), &(b.table, b.prefix, b.metric)));
        // What it took is a good part of what the process has.
        crate::memory::give_back();
        differ
    };
    net::background::run(sorted).await.map_err(|e| e.to_string())
}

/// Compares some routes of a table, and answers where to go on.
fn beside(
    router: &Router,
    sources: &[Source],
    wanted: &mut Wanted,
    differ: &mut Vec<Difference>,
    table: net::router::RouteTable,
    after: Option<IpNet>,
) -> Option<(net::router::RouteTable, Option<IpNet>)> {
    let (mut seen, mut last) = (0, after);
    let mut known: HashMap<u32, Option<Arc<Target>>> = HashMap::new();
    for r in router.routes_after(table, after).take(TURN) {
        (seen, last) = (seen + 1, Some(r.prefix));
        for route in router.routes_of_prefix(&r).filter(|e| sources.contains(&e.source)) {
            let metric = route.rank.metric;
            let has = known
                .entry(route.group)
                .or_insert_with(|| router.group(route.group).map(|h| Arc::new(h.target)))
                .clone();
            let wants = wanted.remove(&(table.id, r.prefix, metric));
            if has != wants {
                differ.push(Difference {
                    table: table.id,
                    prefix: r.prefix,
                    metric,
                    kernel: wants,
                    router: has,
                });
            }
        }
    }
    if seen == TURN {
        return Some((table, last));
    }
    let next = router.table_after(table).or((!table.v6).then_some(net::router::RouteTable::V6));
    next.map(|table| (table, None))
}
