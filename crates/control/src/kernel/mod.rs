//! The kernel's routes as one more source: of each namespace in which an interface has its pair, what daemons and operators
//! program there is followed over netlink and forwarded. What FRR's zebra tells itself (`fpm`) is another.

mod bridges;
mod devices;
mod differ;
mod follow;
mod fpm;
mod goals;
mod labels;
mod stations;
mod take;
mod vlans;

pub(crate) use differ::{Difference, Of};
pub(crate) use follow::follow;
pub(crate) use fpm::{Deaf, Heard};

use goals::Devices;
use linux::{Key, Reader};
use net::router::{LINUXS, LogLine, Router};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Failed routes whose reasons are kept.
const REASONS: usize = 1000;

/// What is followed.
#[derive(Default)]
pub struct Kernel {
    followed: RefCell<BTreeMap<Option<String>, Rc<Followed>>>,
    fpm: RefCell<Option<Rc<Heard>>>,
    /// Where zebra cannot be listened to, though it is to be, and why.
    deaf: RefCell<Option<Deaf>>,
}

type SharedRouter = Rc<RefCell<Router>>;
type Logger = Rc<dyn Fn(&LogLine)>;

/// Who tells of routes over Linux's devices.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Speaker {
    /// What the names of its sources begin with.
    word: &'static str,
    /// How far its routes are believed.
    preference: u8,
}

impl Speaker {
    /// Behind connected and static routes.
    const KERNEL: Speaker = Speaker { word: LINUXS[0], preference: 10 };
    /// zebra, whose routes the kernel may have as well, in its own way.
    const FPM: Speaker = Speaker { word: LINUXS[1], preference: 9 };

    /// What the source of a protocol's routes is called.
    fn source_name(self, netns: Option<&str>, protocol: u8) -> String {
        let who = linux::route::protocol_name(protocol).map_or_else(|| protocol.to_string(), str::to_owned);
        let netns = netns.map_or_else(String::new, |n| format!("@{n}"));
        format!("{}:{who}{netns}", self.word)
    }

    /// Whether a source of this name is one of a namespace's.
    fn is_source(self, name: &str, netns: Option<&str>) -> bool {
        let rest = name.strip_prefix(self.word).and_then(|rest| rest.strip_prefix(':'));
        rest.is_some_and(|rest| rest.split_once('@').map(|(_, n)| n) == netns)
    }
}

/// Routes that are made in the router as somebody tells them.
pub(crate) struct Taken {
    speaker: Speaker,
    pub netns: Option<String>,
    devices: Devices,
    /// [`Router::tables_made`] when all was told.
    tables_made: u64,
    pub counts: Counts,
}

impl Taken {
    /// Whether a table was made since: routes into it were refused, or went with one of its number.
    fn lacks(&self, router: &Router) -> bool {
        self.counts.other_tables.get() && self.tables_made != router.tables_made()
    }

    /// How many devices of it are pairs.
    pub fn devices(&self) -> usize {
        self.devices.0.len()
    }
}

/// A namespace that is followed.
pub(crate) struct Followed {
    pub taken: Taken,
    pub reader: Reader,
    /// For asking what devices are.
    requests: Arc<Mutex<linux::Sockets>>,
    /// What of it is made in the router.
    makes: Makes,
    /// Permanent neighbors of Linux's, by device and address.
    said: RefCell<BTreeMap<(u32, IpAddr), linux::Neighbor>>,
    /// What Linux has told of MAC addresses, for who tells it of those that are learnt.
    heard: RefCell<Vec<stations::Heard>>,
    /// Devices that are neither pairs nor have to do with bridges and VRFs.
    others: RefCell<BTreeSet<u32>>,
    /// The router has changed: devices are looked at anew.
    look: Notify,
}

/// What is made of what Linux has.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Makes {
    routes: bool,
    devices: bool,
}

impl Kernel {
    /// The namespaces that are followed.
    pub(crate) fn followed(&self) -> Vec<Rc<Followed>> {
        self.followed.borrow().values().cloned().collect()
    }

    /// Why there is no listener for zebra, where there is to be one.
    pub(crate) fn deaf(&self) -> Option<Deaf> {
        self.deaf.borrow().clone()
    }

    /// The listener for zebra, where there is one.
    pub(crate) fn fpm(&self) -> Option<Rc<Heard>> {
        self.fpm.borrow().clone()
    }
}

/// A route that the router has refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Failed {
    Route(Key),
    /// Of a label.
    Label(u32),
}

/// What became of the kernel's routes.
#[derive(Default)]
pub(crate) struct Counts {
    /// Routes over devices that are no interface's pair.
    pub foreign: Cell<i64>,
    /// Routes that cannot be forwarded by, and why.
    pub unsupported: RefCell<BTreeMap<&'static str, i64>>,
    /// Routes that the router has refused, and why; of too many only the number.
    pub failed: RefCell<HashMap<Failed, String>>,
    pub more_failed: Cell<u64>,
    /// A route or a label leads into another table than the main one.
    other_tables: Cell<bool>,
    /// Changes that were made in the router.
    pub made: Cell<u64>,
    /// Batches that wait, and the longest that one has waited.
    pub waiting: Arc<std::sync::atomic::AtomicUsize>,
    pub lag: Cell<Duration>,
    pub most_lag: Cell<Duration>,
    pub synced: Cell<bool>,
}

impl Counts {
    /// What was told at this time has been made.
    fn taken(&self, told: Instant) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let lag = told.elapsed();
        self.lag.set(lag);
        self.most_lag.set(self.most_lag.get().max(lag));
    }

    /// All is told anew.
    fn begin(&self) {
        self.foreign.set(0);
        self.unsupported.borrow_mut().clear();
        self.failed.borrow_mut().clear();
        self.more_failed.set(0);
    }

    fn fail(&self, key: Failed, why: String) {
        let mut failed = self.failed.borrow_mut();
        if failed.len() < REASONS || failed.contains_key(&key) {
            failed.insert(key, why);
        } else {
            self.more_failed.set(self.more_failed.get() + 1);
        }
    }
}

/// Sockets in a namespace.
fn sockets(
    netns: Option<&str>,
    open: impl FnOnce() -> std::io::Result<linux::Sockets> + Send,
) -> Result<linux::Sockets, String> {
    let sockets = drivers::netns::within(netns, || Ok(open())).map_err(|e| e.to_string())?;
    sockets.map_err(|e| e.to_string())
}

/// How a message tells of a namespace: nothing of Quiver's own.
fn of_namespace(netns: Option<&str>) -> String {
    netns.map_or_else(String::new, |n| format!(" of namespace {n}"))
}
