//! Following the namespaces in which interfaces have pairs.

use super::goals::Devices;
use super::{Counts, Followed, Kernel, Logger, SharedRouter, is_source_of, of_namespace, sockets};
use linux::Event;
use net::router::{LogLine, RouteSource, Router, Sweep};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

/// Batches that wait between the thread that reads and the control thread.
const WAITING: usize = 16;
/// Changes made in a turn of the control thread.
const TURN: usize = 512;
/// Lost messages are told in the log so often at most; `show netlink` counts all.
const TELL: Duration = Duration::from_secs(60);
/// How often what is to be followed is looked at, and how often it is when nothing was configured.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ANYHOW: u32 = 10;

/// A namespace: its name, and what tells it from another of that name.
type Namespace = (Option<String>, Option<(u64, u64)>);

struct Task {
    namespace: Namespace,
    devices: Devices,
    buffer: u32,
    task: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is to be followed: of each namespace the devices.
fn wanted(router: &Router) -> BTreeMap<Namespace, Devices> {
    let mut all: BTreeMap<Option<String>, Devices> = BTreeMap::new();
    let pairs = net::linux_cp::settings(router).netlink.then(|| net::linux_cp::pairs(router));
    for pair in pairs.into_iter().flatten() {
        if let Some(ifindex) = pair.ifindex {
            all.entry(pair.linux.netns).or_default().0.insert(ifindex, pair.interface);
        }
    }
    let identity = |n: &Option<String>| n.as_deref().and_then(drivers::netns::identity);
    all.into_iter().map(|(n, devices)| ((n.clone(), identity(&n)), devices)).collect()
}

/// Follows the kernel's routes for as long as it is polled.
pub(crate) async fn follow(router: &SharedRouter, kernel: &Kernel, log: &Logger, wake: &Rc<Notify>) {
    let mut tasks: Vec<Task> = vec![];
    let (mut seen, mut turns) = (u64::MAX, 0);
    let mut refused: BTreeMap<Option<String>, String> = BTreeMap::new();
    loop {
        let changes = router.borrow().changes();
        if changes != seen || turns >= LOOK_ANYHOW {
            (seen, turns) = (changes, 0);
            let wanted = wanted(&router.borrow());
            let buffer = net::linux_cp::settings(&router.borrow()).rx_buffer;
            let same = |t: &Task| wanted.get(&t.namespace) == Some(&t.devices) && t.buffer == buffer;
            let stays = |t: &Task| same(t) && !t.task.is_finished();
            let ended: Vec<_> = tasks.extract_if(.., |t| !stays(t)).map(|t| t.namespace.0.clone()).collect();
            for netns in ended {
                kernel.followed.borrow_mut().remove(&netns);
                if !wanted.keys().any(|(n, _)| *n == netns) {
                    sweep(router, &marked(router, netns.as_deref())).await;
                }
            }
            for (namespace, devices) in wanted {
                if tasks.iter().any(|t| t.namespace == namespace) {
                    continue;
                }
                match begin(router, log, wake, &namespace.0, devices.clone(), buffer) {
                    Ok((followed, task)) => {
                        refused.remove(&namespace.0);
                        kernel.followed.borrow_mut().insert(namespace.0.clone(), followed);
                        tasks.push(Task { namespace, devices, buffer, task });
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
        turns += 1;
        tokio::time::sleep(LOOK).await;
    }
}

/// The sources of a namespace's routes, marked: what is not set again goes with [`sweep`].
fn marked(router: &SharedRouter, netns: Option<&str>) -> Vec<RouteSource> {
    let mut router = router.borrow_mut();
    let all = router.route_sources().into_iter().filter(|s| is_source_of(&s.name, netns));
    let sources: Vec<RouteSource> = all.map(|s| s.source).collect();
    sources.iter().for_each(|s| router.mark_routes(*s));
    sources
}

async fn sweep(router: &SharedRouter, sources: &[RouteSource]) {
    for source in sources {
        let mut at = Some(Sweep::default());
        while let Some(from) = at {
            at = router.borrow_mut().sweep_routes(*source, from).ok().flatten();
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
    buffer: u32,
) -> Result<(Rc<Followed>, JoinHandle<()>), String> {
    let sockets = sockets(netns.as_deref(), buffer as usize)?;
    let counts = Counts::default();
    let (send, events) = mpsc::channel::<(Instant, Event)>(WAITING);
    let waiting = Arc::clone(&counts.waiting);
    let tell = move |event| {
        waiting.fetch_add(1, Ordering::Relaxed);
        send.blocking_send((Instant::now(), event)).is_ok()
    };
    let marked = marked(router, netns.as_deref());
    let reader = linux::follow(sockets, tell).map_err(|e| e.to_string())?;
    let followed = Rc::new(Followed { netns: netns.clone(), devices, reader, counts });
    let task =
        take_all(Rc::clone(router), Rc::clone(&followed), events, marked, Rc::clone(log), Rc::clone(wake));
    Ok((followed, tokio::task::spawn_local(task)))
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
    let Followed { counts, netns, .. } = &*followed;
    let of = of_namespace(netns.as_deref());
    let (mut marked, mut told_of_loss) = (Some(marked), None::<Instant>);
    while let Some((told, event)) = events.recv().await {
        match event {
            Event::Changes(changes) => {
                for turn in changes.chunks(TURN) {
                    followed.take(&mut router.borrow_mut(), turn);
                    wake.notify_one();
                    tokio::task::yield_now().await;
                }
            }
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
        counts.waiting.fetch_sub(1, Ordering::Relaxed);
        let lag = told.elapsed();
        counts.lag.set(lag);
        counts.most_lag.set(counts.most_lag.get().max(lag));
    }
}
