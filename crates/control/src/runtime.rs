//! The control thread's loop: everything that the router waits for, in one place.

use crate::clients::Clients;
use crate::ctl::{Executor, Inside, Server};
use crate::kernel::{self, Kernel};
use drivers::LinkWatch;
use net::neighbor::Millis;
use net::router::{LogLine, Router};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, LocalSet};

/// Lines of the log that are written in a turn.
const LINES: usize = 256;

/// Shared by everything on the control thread. Never borrowed across an await.
pub type SharedRouter = Rc<RefCell<Router>>;

/// Writes a line of the router's log.
pub type Logger = Rc<dyn Fn(&LogLine)>;

/// What brings routes by itself, beside documents and commands.
#[derive(Default)]
pub struct Sources {
    /// Linux's tables.
    pub kernel: Rc<Kernel>,
    /// Programs, by the API.
    pub clients: Rc<Clients>,
}

/// Serves until `stop` is ready, then shuts the router down. Must run on a tokio runtime of the current thread with
/// I/O and time.
///
/// # Errors
/// When a descriptor cannot be watched.
pub async fn run(
    router: SharedRouter,
    server: Server,
    door: Option<Inside>,
    executor: Rc<dyn Executor>,
    sources: Sources,
    log: Logger,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let local = LocalSet::new();
    let load = executor.load();
    let work = local.run_until(async {
        let wake = Rc::new(Notify::new());
        let punts = punts(&router, &wake)?;
        let answers = answers(&router, &wake)?;
        descriptors(&router, &wake)?;
        let done = tokio::select! {
            () = stop => Ok(()),
            r = server.serve_beside(executor, door) => r,
            r = punts => r,
            r = answers => r,
            () = timers(&router, &wake) => Ok(()),
            () = links(&router, &log, &wake) => Ok(()),
            () = logs(&router, &log, &wake) => Ok(()),
            () = rates(&router) => Ok(()),
            () = kernel::follow(&router, &sources.kernel, &log, &wake) => Ok(()),
            () = sources.clients.keep(&router, &*log) => Ok(()),
        };
        flush(&router, &log).await;
        router.borrow_mut().shutdown();
        done
    });
    load.watch(work).await
}

/// Writes the router's log when there may be some of it, while whoever says so goes on.
async fn logs(router: &SharedRouter, log: &Logger, wake: &Notify) {
    loop {
        wake.notified().await;
        flush(router, log).await;
    }
}

/// Writes all of the router's log. A script makes thousands of lines at once: others have their turn between them.
async fn flush(router: &SharedRouter, log: &Logger) {
    loop {
        let lines = router.borrow_mut().take_lines(LINES);
        lines.iter().for_each(|line| log(line));
        if lines.len() < LINES {
            break;
        }
        tokio::task::yield_now().await;
    }
}

fn punts(router: &SharedRouter, wake: &Rc<Notify>) -> io::Result<impl Future<Output = io::Result<()>>> {
    let fd: OwnedFd = router.borrow().punt_fd().try_clone_to_owned()?;
    let fd = crate::fd::watch(fd)?;
    let (router, wake) = (Rc::clone(router), Rc::clone(wake));
    Ok(async move {
        loop {
            let mut ready = fd.readable().await?;
            ready.clear_ready();
            while router.borrow_mut().handle_punts() {
                // A flood of packets to the router must not starve commands.
                tokio::task::yield_now().await;
            }
            wake.notify_one();
        }
    })
}

/// From here on a thread asks Linux about devices: takes in what it answers.
fn answers(router: &SharedRouter, wake: &Rc<Notify>) -> io::Result<impl Future<Output = io::Result<()>>> {
    {
        let mut router = router.borrow_mut();
        router.go_aside()?;
        router.put_back_left();
    }
    let fd = router.borrow().aside_fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
    let fd = fd.map(crate::fd::watch).transpose()?;
    let (router, wake) = (Rc::clone(router), Rc::clone(wake));
    Ok(async move {
        let Some(fd) = fd else { return std::future::pending().await };
        loop {
            let mut ready = fd.readable().await?;
            ready.clear_ready();
            while router.borrow_mut().answers() {
                tokio::task::yield_now().await;
            }
            wake.notify_one();
        }
    })
}

/// Waits for what parts of the router wait for beside packets.
fn descriptors(router: &SharedRouter, wake: &Rc<Notify>) -> io::Result<()> {
    let router_now = router.borrow();
    for (number, fd) in router_now.descriptors() {
        let fd = crate::fd::watch(fd.try_clone_to_owned()?)?;
        let (router, wake) = (Rc::clone(router), Rc::clone(wake));
        tokio::task::spawn_local(async move {
            while let Ok(mut ready) = fd.readable().await {
                ready.clear_ready();
                while router.borrow_mut().part_readable(number) {
                    tokio::task::yield_now().await;
                }
                wake.notify_one();
            }
        });
    }
    Ok(())
}

async fn timers(router: &SharedRouter, wake: &Notify) {
    loop {
        let wait = {
            let r = router.borrow();
            let Millis(at) = r.next_deadline();
            at.saturating_sub(r.now().0)
        };
        // Events may bring a deadline forward: look at least every 50 ms while something is due soon.
        tokio::time::sleep(Duration::from_millis(wait.clamp(1, 50))).await;
        let (due, said) = {
            let r = router.borrow();
            (r.next_deadline() <= r.now(), r.has_lines())
        };
        if due {
            router.borrow_mut().tick();
        }
        if due || said {
            wake.notify_one();
        }
    }
}

/// Looks at the counters of workers and interfaces once a second.
async fn rates(router: &SharedRouter) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        net::load::sample(&mut router.borrow_mut(), std::time::Instant::now());
        while net::rates::sample(&mut router.borrow_mut(), std::time::Instant::now()) {
            tokio::task::yield_now().await;
        }
    }
}

/// A namespace whose links are followed, and what tells it from another of its name.
struct Watched {
    ns: Option<String>,
    identity: Option<(u64, u64)>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Follows the links of the Linux devices in every namespace that has one, and looks for devices that are gone.
async fn links(router: &SharedRouter, log: &Logger, wake: &Rc<Notify>) {
    let mut watched: Vec<Watched> = vec![];
    loop {
        let wanted = router.borrow().namespaces();
        watched.retain(|w| wanted.contains(&w.ns));
        router.borrow_mut().forget_namespaces_but(&wanted);
        for ns in wanted {
            let identity = ns.as_deref().and_then(drivers::netns::identity);
            if let Some(name) = &ns {
                router.borrow_mut().namespace_is(name, identity);
            }
            if watched.iter().any(|w| w.ns == ns && w.identity == identity) {
                continue;
            }
            watched.retain(|w| w.ns != ns);
            let mut task = None;
            match LinkWatch::open(ns.as_deref()) {
                Ok(w) => {
                    let (router, wake) = (Rc::clone(router), Rc::clone(wake));
                    task = Some(tokio::task::spawn_local(watch(w, ns.clone(), router, wake)));
                }
                // One that is gone comes back with another identity.
                Err(_) if ns.is_some() && identity.is_none() => {}
                Err(e) => {
                    log(&LogLine { warn: true, text: format!("cannot follow the links of devices: {e}") })
                }
            }
            watched.push(Watched { ns, identity, task });
        }
        router.borrow_mut().look_for_devices();
        wake.notify_one();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Events of devices after which others have their turn.
const TURN: u32 = 64;

async fn watch(w: LinkWatch, ns: Option<String>, router: SharedRouter, wake: Rc<Notify>) {
    let Ok(mut fd) = crate::fd::watch(w) else { return };
    loop {
        let Ok(mut ready) = fd.readable_mut().await else { return };
        let mut events = 0u32;
        while let Some(event) = ready.get_inner_mut().next_event() {
            router.borrow_mut().link_event(ns.as_deref(), &event);
            events = events.wrapping_add(1);
            if events.is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
        ready.clear_ready();
        wake.notify_one();
    }
}
