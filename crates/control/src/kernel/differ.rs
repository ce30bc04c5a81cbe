//! `fib diff kernel`: the kernel's routes, read once more, beside those that the router has of them.

use super::goals::{Devices, Goal, LabelGoal, leads_to_own};
use super::{Followed, SharedRouter, Speaker, sockets};
use ipnet::IpNet;
use linux::{Key, Route};
use net::background::drop_aside;
use net::router::{GroupId, Router, Source, Target};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Routes compared in a turn of the control thread.
const TURN: usize = 500;

/// What differs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Route {
        table: u32,
        prefix: IpNet,
        metric: u32,
    },
    /// The route of a label, at the bottom of its stack or above it.
    Label(u32, bool),
}

/// A route that differs.
pub(crate) struct Difference {
    pub of: Of,
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
        let (routes, labels) = read.map_err(|e| e.to_string())??;
        let sources: Vec<Source> = {
            let all = router.borrow().route_sources();
            all.into_iter()
                .filter(|s| Speaker::KERNEL.is_source(&s.name, self.taken.netns.as_deref()))
                .map(|s| Source::Runtime(s.source))
                .collect()
        };
        let mut all = compare(router, &sources, &self.taken.devices, routes).await?;
        all.extend(compare_labels(router, &sources, &self.taken.devices, labels).await);
        Ok(all)
    }
}

type Routes = Vec<(Key, Arc<Route>)>;
type Labels = Vec<(u32, Arc<Route>)>;

/// Reads the routes of a namespace. Not for the control thread.
fn read(netns: Option<&str>) -> Result<(Routes, Labels), String> {
    let mut sockets = sockets(netns, linux::Sockets::for_requests)?;
    let mirror = linux::reader::read_all(&mut sockets).map_err(|e| e.to_string())?;
    let labels = mirror.label_routes().map(|(l, r)| (l, Arc::clone(r))).collect();
    Ok((mirror.iter().map(|(k, r)| (k, Arc::clone(r))).collect(), labels))
}

/// Compares the routes of labels, and lets others have their turn.
async fn compare_labels(
    router: &SharedRouter,
    sources: &[Source],
    devices: &Devices,
    kernel: Labels,
) -> Vec<Difference> {
    let mut wanted: BTreeMap<(u32, bool), Arc<Target>> = BTreeMap::new();
    for routes in kernel.chunks(TURN) {
        for (label, route) in routes {
            if let Ok(LabelGoal { target, bottoms }) = devices.label_goal(&router.borrow(), route) {
                let target = Arc::new(target);
                wanted.extend(bottoms.iter().map(|bottom| ((*label, *bottom), Arc::clone(&target))));
            }
        }
        tokio::task::yield_now().await;
    }
    let (mut differ, mut from) = (vec![], Some((0, false)));
    while let Some(start) = from {
        from = labels_beside(&router.borrow(), sources, &mut wanted, &mut differ, start);
        tokio::task::yield_now().await;
    }
    let missing = |((label, bottom), target)| Difference {
        of: Of::Label(label, bottom),
        kernel: Some(target),
        router: None,
    };
    differ.extend(wanted.into_iter().map(missing));
    differ
}

/// Compares some labels from one on, and answers where to go on.
fn labels_beside(
    router: &Router,
    sources: &[Source],
    wanted: &mut BTreeMap<(u32, bool), Arc<Target>>,
    differ: &mut Vec<Difference>,
    start: (u32, bool),
) -> Option<(u32, bool)> {
    let all = net::mpls::label_routes(router, super::labels::TABLE, start.0);
    for (seen, r) in all.filter(|r| (r.label, r.bottom) >= start).enumerate() {
        if seen == TURN {
            return Some((r.label, r.bottom));
        }
        if !sources.contains(&r.source) {
            continue;
        }
        let kernel = wanted.remove(&(r.label, r.bottom));
        if kernel.as_deref() != Some(&r.target) {
            let of = Of::Label(r.label, r.bottom);
            differ.push(Difference { of, kernel, router: Some(Arc::new(r.target)) });
        }
    }
    None
}

/// By table, then as the router walks its routes: IPv4 first, by address, then by length, then by metric.
fn order(a: &(u32, IpNet, u32), b: &(u32, IpNet, u32)) -> Ordering {
    let place = |(table, prefix, metric): &(u32, IpNet, u32)| {
        (*table, prefix.addr().is_ipv6(), prefix.addr(), prefix.prefix_len(), *metric)
    };
    place(a).cmp(&place(b))
}

/// Which route, what the kernel has, and what the router has.
type Differs = ((u32, IpNet, u32), Option<Arc<Target>>, Option<Arc<Target>>);

/// Routes of one content share what they come to.
type Wanted = HashMap<(u32, IpNet, u32), Arc<Target>>;

/// Compares, and lets others have their turn.
async fn compare(
    router: &SharedRouter,
    sources: &[Source],
    devices: &Devices,
    kernel: Routes,
) -> Result<Vec<Difference>, String> {
    // It does not grow here: that would move all of it at one go.
    let mut wanted: Wanted = HashMap::with_capacity(kernel.len());
    let mut shared: HashMap<*const Route, Arc<Target>> = HashMap::new();
    // These the router need not have.
    let mut own: HashSet<(u32, IpNet, u32)> = HashSet::new();
    for routes in kernel.chunks(TURN) {
        {
            let router = router.borrow();
            let goal = |(key, route): &(Key, Arc<Route>)| {
                let Goal { table, rank, target } =
                    devices.goal(Speaker::KERNEL.preference, key, route).ok()?;
                let known = shared.entry(Arc::as_ptr(route)).or_insert_with(|| Arc::new(target.clone()));
                let target = if **known == target { Arc::clone(known) } else { Arc::new(target) };
                let place = (table, key.prefix, rank.metric);
                if leads_to_own(&router, key.prefix, &target) {
                    own.insert(place);
                }
                Some((place, target))
            };
            wanted.extend(routes.iter().filter_map(goal));
        }
        tokio::task::yield_now().await;
    }
    drop_aside(kernel);
    let mut differ: Vec<Differs> = vec![];
    let mut at = Some((net::router::RouteTable::V4, None));
    while let Some((table, after)) = at {
        at = beside(&router.borrow(), sources, &mut wanted, &mut differ, table, after);
        tokio::task::yield_now().await;
    }
    let sorted = move || {
        let missing = wanted.into_iter().filter(|(place, _)| !own.contains(place));
        differ.extend(missing.map(|(key, target)| (key, Some(target), None)));
        differ.sort_by(|a, b| order(&a.0, &b.0));
        let named = |((table, prefix, metric), kernel, router)| Difference {
            of: Of::Route { table, prefix, metric },
            kernel,
            router,
        };
        let differ: Vec<Difference> = differ.into_iter().map(named).collect();
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
    differ: &mut Vec<Differs>,
    table: net::router::RouteTable,
    after: Option<IpNet>,
) -> Option<(net::router::RouteTable, Option<IpNet>)> {
    let (mut seen, mut last) = (0, after);
    let mut known: HashMap<GroupId, Option<Arc<Target>>> = HashMap::new();
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
                differ.push(((table.id, r.prefix, metric), wants, has));
            }
        }
    }
    if seen == TURN {
        return Some((table, last));
    }
    let next = router.table_after(table).or((!table.v6).then_some(net::router::RouteTable::V6));
    next.map(|table| (table, None))
}
