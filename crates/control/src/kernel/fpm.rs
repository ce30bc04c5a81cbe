//! What FRR's zebra tells of its routes itself (`dplane_fpm_nl`), as sources of their own.

use super::follow::{TURN, WAITING, marked, sweep};
use super::goals::Devices;
use super::{Counts, Kernel, Logger, SharedRouter, Speaker, Taken, sockets};
use linux::fpm::{Config, Event, Fpm};
use net::linux_cp::FpmListen;
use net::router::{LogLine, Router};
use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinHandle;

/// How zebra is to be listened to, and in which namespace: its name, and what tells it from another of that name.
type Wanted = (FpmListen, Option<String>, Option<(u64, u64)>);

/// zebra, as it is heard.
pub(crate) struct Heard {
    pub fpm: Fpm,
    pub address: SocketAddr,
    /// Who is connected.
    pub peer: RefCell<Option<SocketAddr>>,
    /// What becomes of its routes: anew when other devices are pairs.
    pub taken: RefCell<Rc<Taken>>,
}

/// Where zebra cannot be listened to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Deaf {
    pub address: SocketAddr,
    pub netns: Option<String>,
    pub why: String,
}

/// The listener that there is, as it was wanted.
#[derive(Default)]
pub(super) struct Listener {
    wanted: Option<Wanted>,
    task: Option<JoinHandle<()>>,
    refused: Option<String>,
    again: Option<Instant>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.iter().for_each(JoinHandle::abort);
    }
}

fn wanted(router: &Router) -> Option<Wanted> {
    let settings = net::linux_cp::settings(router);
    let fpm = settings.fpm?;
    let netns = fpm.netns.clone().or(settings.default_netns);
    let identity = netns.as_deref().and_then(drivers::netns::identity);
    Some((fpm, netns, identity))
}

/// The devices of a namespace that are pairs.
fn devices(router: &Router, netns: Option<&str>) -> Devices {
    let pairs = net::linux_cp::pairs(router).filter(|p| p.linux.netns.as_deref() == netns);
    let mut devices = Devices::default();
    for (ifindex, interface) in pairs.filter_map(|p| Some((p.ifindex?, p.interface))) {
        devices.insert(router, ifindex, interface);
    }
    devices
}

fn taken(router: &Router, netns: &Option<String>) -> Rc<Taken> {
    let devices = devices(router, netns.as_deref());
    let (netns, tables_made) = (netns.clone(), router.tables_made());
    Rc::new(Taken { speaker: Speaker::FPM, netns, devices, tables_made, counts: Counts::default() })
}

impl Listener {
    /// Has the listener be as it is wanted.
    pub fn look(&mut self, router: &SharedRouter, kernel: &Kernel, log: &Logger, wake: &Rc<Notify>) {
        let wanted = wanted(&router.borrow());
        let ended = self.task.as_ref().is_some_and(JoinHandle::is_finished);
        if wanted != self.wanted || ended {
            if let Some(task) = self.task.take() {
                task.abort();
            }
            *kernel.fpm.borrow_mut() = None;
            if let Some((_, netns, _)) = self.wanted.take() {
                let (router, wake) = (Rc::clone(router), Rc::clone(wake));
                let old = marked(&router, Speaker::FPM, netns.as_deref());
                tokio::task::spawn_local(async move {
                    sweep(&router, &old).await;
                    wake.notify_one();
                });
            }
            let Some(wanted) = wanted else {
                self.refused = None;
                kernel.deaf.replace(None);
                return;
            };
            if self.again.is_some_and(|at| at > Instant::now()) {
                return;
            }
            match begin(router, log, wake, &wanted) {
                Ok((heard, task)) => {
                    *kernel.fpm.borrow_mut() = Some(heard);
                    kernel.deaf.replace(None);
                    (self.wanted, self.task, self.refused, self.again) =
                        (Some(wanted), Some(task), None, None);
                }
                Err(e) => {
                    if self.refused.as_ref() != Some(&e) {
                        log(&LogLine { warn: true, text: format!("cannot listen for zebra (lcp fpm): {e}") });
                    }
                    let (fpm, netns, _) = &wanted;
                    let address = SocketAddr::new(fpm.address, fpm.port);
                    kernel.deaf.replace(Some(Deaf { address, netns: netns.clone(), why: e.clone() }));
                    self.refused = Some(e);
                    self.again = Some(Instant::now() + Duration::from_secs(1));
                }
            }
        }
        // Other devices are pairs, or there is another table: all is told anew.
        if let (Some(heard), Some((_, netns, _))) = (kernel.fpm(), &self.wanted) {
            let now = devices(&router.borrow(), netns.as_deref());
            let lacked = heard.taken.borrow().lacks(&router.borrow());
            if heard.taken.borrow().devices != now || lacked {
                heard.taken.replace(taken(&router.borrow(), netns));
                heard.fpm.tell_all();
            }
        }
    }
}

fn begin(
    router: &SharedRouter,
    log: &Logger,
    wake: &Rc<Notify>,
    (fpm, netns, _): &Wanted,
) -> Result<(Rc<Heard>, JoinHandle<()>), String> {
    let address = SocketAddr::new(fpm.address, fpm.port);
    let bound = drivers::netns::within(netns.as_deref(), || Ok(TcpListener::bind(address)));
    let bound = bound.map_err(|e| e.to_string())?.map_err(|e| format!("{address}: {e}"))?;
    let taken = taken(&router.borrow(), netns);
    let (send, events) = mpsc::channel::<(Instant, Event)>(WAITING);
    let config = Config { hold: Duration::from_secs(fpm.hold.into()) };
    let tell = move |event| send.blocking_send((Instant::now(), event)).is_ok();
    let mut requests = sockets(netns.as_deref(), linux::Sockets::for_requests)?;
    let tables = move || {
        let all = linux::reader::read_devices(&mut requests).ok()?;
        Some(all.iter().filter_map(|(ifindex, d)| Some((*ifindex, d.link.table()?))).collect())
    };
    let fpm = linux::fpm::listen(bound, config, tables, tell).map_err(|e| e.to_string())?;
    let heard = Rc::new(Heard { fpm, address, peer: RefCell::default(), taken: RefCell::new(taken) });
    let task = take_all(Rc::clone(router), Rc::clone(&heard), events, Rc::clone(log), Rc::clone(wake));
    Ok((heard, tokio::task::spawn_local(task)))
}

/// Makes in the router what zebra tells, until the listener ends.
async fn take_all(
    router: SharedRouter,
    heard: Rc<Heard>,
    mut events: Receiver<(Instant, Event)>,
    log: Logger,
    wake: Rc<Notify>,
) {
    let tell = |warn, text| log(&LogLine { warn, text });
    let mut old = None;
    while let Some((told, event)) = events.recv().await {
        let taken = Rc::clone(&heard.taken.borrow());
        taken.counts.waiting.store(events.len() + 1, Ordering::Relaxed);
        match event {
            Event::Connected(peer) => {
                heard.peer.replace(Some(peer));
                tell(false, format!("FPM: {peer} has connected"));
            }
            Event::Ended(why) => {
                let peer = heard.peer.take();
                let who = peer.map_or_else(|| "zebra".to_owned(), |p| p.to_string());
                tell(true, format!("FPM: the connection with {who} has ended: {why}"));
            }
            Event::Begins => {
                taken.counts.begin();
                old = Some(marked(&router, Speaker::FPM, taken.netns.as_deref()));
            }
            Event::Changes(changes) => {
                for turn in changes.chunks(TURN) {
                    taken.take(&mut router.borrow_mut(), turn);
                    wake.notify_one();
                    tokio::task::yield_now().await;
                }
            }
            Event::Labels(changes) => {
                for turn in changes.chunks(TURN) {
                    taken.take_labels(&mut router.borrow_mut(), turn);
                    wake.notify_one();
                    tokio::task::yield_now().await;
                }
            }
            Event::Synced(_) => {
                if let Some(old) = old.take() {
                    sweep(&router, &old).await;
                }
                taken.counts.synced.set(true);
            }
            Event::Failed(e) => tell(true, format!("FPM: nobody listens any more: {e}")),
        }
        taken.counts.taken(told);
    }
}
