//! Following the namespaces in which interfaces have pairs.

use super::goals::Devices;
use super::stations::Heard;
use super::{Counts, Followed, Kernel, Logger, Makes, SharedRouter, Speaker, Taken, of_namespace, sockets};
use linux::{Event, Sockets};
use net::router::{LogLine, RouteSource, Router, Sweep};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

/// Batches that wait between the thread that reads and the control thread.
pub(super) const WAITING: usize = 16;
/// Changes made in a turn of the control thread.
pub(super) const TURN: usize = 512;
/// Lost messages are told in the log so often at most; `show netlink` counts all.
const TELL: Duration = Duration::from_secs(60);
/// While much is told, what devices are is read so often at least.
const AT_LEAST: Duration = Duration::from_millis(50);
/// How often what is to be followed is looked at, and how often it is when nothing was configured.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ANYHOW: u32 = 10;

/// A namespace: its name, and what tells it from another of that name.
type Namespace = (Option<String>, Option<(u64, u64)>);

struct Task {
    namespace: Namespace,
    devices: Devices,
    buffer: u32,
    makes: Makes,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Task {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What is to be followed: of each namespace the devices.
fn wanted(router: &Router) -> BTreeMap<Namespace, Devices> {
    let mut all: BTreeMap<Option<String>, Devices> = BTreeMap::new();
    let makes = makes(router);
    let pairs = (makes.routes || makes.devices).then(|| net::linux_cp::pairs(router));
    for pair in pairs.into_iter().flatten() {
        if let Some(ifindex) = pair.ifindex {
            all.entry(pair.linux.netns).or_default().insert(router, ifindex, pair.interface);
        }
    }
    for (netns, devices) in all.iter_mut().filter(|_| makes.devices) {
        for (ifindex, interface) in net::linux_bridge::svis(router, netns) {
            devices.insert(router, ifindex, interface);
        }
    }
    // What the router knows of it changes with the numbers of its devices: those of one namespace are not looked for in the next of its name.
    let identity = |n: &str| router.namespace(n).unwrap_or_else(|| drivers::netns::identity(n));
    let there = |(n, devices): (Option<String>, Devices)| match n.as_deref().map(identity) {
        Some(None) => None,
        known => Some(((n, known.flatten()), devices)),
    };
    all.into_iter().filter_map(there).collect()
}

fn makes(router: &Router) -> Makes {
    let settings = net::linux_cp::settings(router);
    Makes { routes: settings.netlink, devices: settings.nl_sync }
}

/// Follows the kernel for as long as it is polled.
pub(crate) async fn follow(router: &SharedRouter, kernel: &Kernel, log: &Logger, wake: &Rc<Notify>) {
    let mut tasks: Vec<Task> = vec![];
    let (mut seen, mut turns) = (u64::MAX, 0);
    let mut fpm = super::fpm::Listener::default();
    let mut refused: BTreeMap<Option<String>, String> = BTreeMap::new();
    loop {
        let changes = router.borrow().changes();
        if changes != seen {
            kernel.followed.borrow().values().for_each(|f| f.look.notify_one());
        }
        if changes != seen || turns >= LOOK_ANYHOW {
            (seen, turns) = (changes, 0);
            let wanted = wanted(&router.borrow());
            let (buffer, makes) = {
                let router = router.borrow();
                (net::linux_cp::settings(&router).rx_buffer, makes(&router))
            };
            let same = |t: &Task| {
                wanted.get(&t.namespace) == Some(&t.devices) && t.buffer == buffer && t.makes == makes
            };
            let lacks = |t: &Task| {
                let followed = kernel.followed.borrow();
                followed.get(&t.namespace.0).is_some_and(|f| f.taken.lacks(&router.borrow()))
            };
            let stays = |t: &Task| same(t) && !lacks(t) && !t.tasks[0].is_finished();
            let ended: Vec<_> = tasks.extract_if(.., |t| !stays(t)).map(|t| t.namespace.0.clone()).collect();
            for netns in ended {
                kernel.followed.borrow_mut().remove(&netns);
                let wanted = wanted.keys().any(|(n, _)| *n == netns);
                if !wanted || !makes.devices {
                    super::bridges::forget(router, &netns).await;
                    super::vlans::forget(router, &netns).await;
                    net::linux_cp::take_vrfs(&mut router.borrow_mut(), &netns, BTreeMap::new());
                }
                if !wanted {
                    sweep(router, &marked(router, Speaker::KERNEL, netns.as_deref())).await;
                }
            }
            for (namespace, devices) in wanted {
                if tasks.iter().any(|t| t.namespace == namespace) {
                    continue;
                }
                match begin(router, log, wake, &namespace.0, devices.clone(), (buffer, makes)) {
                    Ok((followed, tasks_of)) => {
                        refused.remove(&namespace.0);
                        kernel.followed.borrow_mut().insert(namespace.0.clone(), followed);
                        tasks.push(Task { namespace, devices, buffer, makes, tasks: tasks_of });
                    }
                    // Once: it is tried each second.
                    Err(e) if refused.get(&namespace.0) == Some(&e) => {}
                    Err(e) => {
                        let of = of_namespace(namespace.0.as_deref());
                        log(&LogLine {
                            warn: true,
                            text: format!("cannot follow the kernel's routes{of}: {e}"),
                        });
                        refused.insert(namespace.0, e);
                    }
                }
            }
        }
        fpm.look(router, kernel, log, wake);
        turns += 1;
        tokio::time::sleep(LOOK).await;
    }
}

/// The sources of a namespace's routes, marked: what is not set again goes with [`sweep`].
pub(super) fn marked(router: &SharedRouter, speaker: Speaker, netns: Option<&str>) -> Vec<RouteSource> {
    let mut router = router.borrow_mut();
    let all = router.route_sources().into_iter().filter(|s| speaker.is_source(&s.name, netns));
    let sources: Vec<RouteSource> = all.map(|s| s.source).collect();
    sources.iter().for_each(|s| router.mark_routes(*s));
    sources
}

pub(super) async fn sweep(router: &SharedRouter, sources: &[RouteSource]) {
    for source in sources {
        let mut at = Some(Sweep::default());
        while let Some(from) = at {
            at = router.borrow_mut().sweep_routes(*source, from).ok().flatten();
            tokio::task::yield_now().await;
        }
        let mut at = Some((0, 0));
        while let Some(from) = at {
            at = net::mpls::sweep_labels(&mut router.borrow_mut(), *source, from).ok().flatten();
            tokio::task::yield_now().await;
        }
        let _ = router.borrow_mut().remove_route_source(*source);
    }
}

fn begin(
    router: &SharedRouter,
    log: &Logger,
    wake: &Rc<Notify>,
    netns: &Option<String>,
    devices: Devices,
    (buffer, makes): (u32, Makes),
) -> Result<(Rc<Followed>, [JoinHandle<()>; 2]), String> {
    let requests = Arc::new(Mutex::new(sockets(netns.as_deref(), Sockets::for_requests)?));
    let tells = sockets(netns.as_deref(), Sockets::for_requests)?;
    let sockets = sockets(netns.as_deref(), move || Sockets::open(buffer as usize, makes.routes))?;
    let counts = Counts::default();
    let (send, events) = mpsc::channel::<(Instant, Event)>(WAITING);
    let waiting = Arc::clone(&counts.waiting);
    let tell = move |event| {
        waiting.fetch_add(1, Ordering::Relaxed);
        send.blocking_send((Instant::now(), event)).is_ok()
    };
    let marked = marked(router, Speaker::KERNEL, netns.as_deref());
    let reader = linux::follow(sockets, tell).map_err(|e| e.to_string())?;
    let (look, said) = (Notify::new(), RefCell::default());
    let (heard, others) = Default::default();
    let tables_made = router.borrow().tables_made();
    let taken = Taken { speaker: Speaker::KERNEL, netns: netns.clone(), devices, tables_made, counts };
    let followed = Rc::new(Followed { taken, reader, requests, makes, said, heard, others, look });
    let task =
        take_all(Rc::clone(router), Rc::clone(&followed), events, marked, Rc::clone(log), Rc::clone(wake));
    let tell = async move |router, followed, log| {
        if makes.devices {
            super::stations::tell(router, followed, tells, log).await;
        }
    };
    let tell = tell(Rc::clone(router), Rc::clone(&followed), Rc::clone(log));
    Ok((followed, [tokio::task::spawn_local(task), tokio::task::spawn_local(tell)]))
}

/// Makes in the router what the reader tells, until it ends.
async fn take_all(
    router: SharedRouter,
    followed: Rc<Followed>,
    mut events: Receiver<(Instant, Event)>,
    marked: Vec<RouteSource>,
    log: Logger,
    wake: Rc<Notify>,
) {
    let (Taken { counts, netns, .. }, makes) = (&followed.taken, followed.makes);
    let of = of_namespace(netns.as_deref());
    let (mut marked, mut told_of_loss) = (Some(marked), None::<Instant>);
    let (mut changed, mut read) = (BTreeSet::new(), Instant::now());
    loop {
        let (told, event) = tokio::select! {
            event = events.recv() => match event {
                Some(event) => event,
                None => return,
            },
            () = followed.look.notified() => {
                look(&router, &followed, None, &log).await;
                continue;
            }
        };
        match event {
            Event::Changes(changes) => {
                for turn in changes.chunks(TURN).take_while(|_| makes.routes) {
                    followed.taken.take(&mut router.borrow_mut(), turn);
                    wake.notify_one();
                    tokio::task::yield_now().await;
                }
            }
            Event::Labels(changes) => {
                for turn in changes.chunks(TURN).take_while(|_| makes.routes) {
                    followed.taken.take_labels(&mut router.borrow_mut(), turn);
                    wake.notify_one();
                    tokio::task::yield_now().await;
                }
            }
            Event::Devices(devices) => changed.extend(devices),
            Event::Neighbors(neighbors) if makes.devices => {
                followed.take_neighbors(&router, &neighbors).await;
            }
            Event::AllNeighbors(neighbors) if makes.devices => {
                changed.clear();
                look(&router, &followed, None, &log).await;
                followed.take_all_neighbors(&router, &neighbors).await;
                wake.notify_one();
            }
            Event::Fdb(told) if makes.devices => {
                followed.hear(&told, Heard::Some);
                followed.take_fdb(&router, &told).await;
            }
            Event::AllFdb(told) if makes.devices => {
                followed.hear(&told, Heard::All);
                followed.take_all_fdb(&router, &told).await;
                wake.notify_one();
            }
            Event::Neighbors(_) | Event::AllNeighbors(_) | Event::Fdb(_) | Event::AllFdb(_) => {}
            Event::Synced { why, routes, differed, took } => {
                if let Some(marked) = marked.take() {
                    sweep(&router, &marked).await;
                    counts.synced.set(true);
                }
                if why == Some(linux::Doubt::Overflow) && told_of_loss.is_none_or(|at| at.elapsed() >= TELL) {
                    told_of_loss = Some(Instant::now());
                    log(&LogLine {
                        warn: true,
                        text: format!(
                            "messages of the kernel's routes{of} were lost: all {routes} were read anew in {} ms, {differed} differed",
                            took.as_millis()
                        ),
                    });
                }
            }
            Event::Failed(e) => {
                log(&LogLine {
                    warn: true,
                    text: format!("the kernel's routes{of} are followed no longer: {e}"),
                });
            }
        }
        // What devices are is read once for all that waits; routes lead over them.
        if !changed.is_empty() && (events.is_empty() || read.elapsed() >= AT_LEAST) {
            look(&router, &followed, Some(&changed), &log).await;
            (changed, read) = (BTreeSet::new(), Instant::now());
            wake.notify_one();
        }
        counts.taken(told);
    }
}

/// Looks at what devices are.
async fn look(router: &SharedRouter, followed: &Followed, changed: Option<&BTreeSet<u32>>, log: &Logger) {
    if !followed.makes.devices {
        return;
    }
    if let Err(e) = followed.take_devices(router, changed).await {
        let of = of_namespace(followed.taken.netns.as_deref());
        log(&LogLine { warn: true, text: format!("cannot read the devices{of}: {e}") });
    }
}
