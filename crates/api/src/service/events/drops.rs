//! Drops above a rate: counters are read from shared memory once a second, for all who follow together.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use control::commands::Desk;
use control::events::{Dropping, Following, Wanted, What};
use graph::Severity;
use graph::registry::Reader;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::Status;

use super::super::Router;
use crate::status;

/// Time between two looks.
const SECOND: Duration = Duration::from_secs(1);
/// Drops that a follower is told of in a second, those of the highest rates.
const MOST: usize = 256;

/// Packets that are dropped, on an interface or on all together.
#[derive(Clone, Debug)]
pub struct Rate {
    reason: Arc<str>,
    interface: Option<u32>,
    rate: f64,
}

type Rates = Arc<Vec<Rate>>;

/// Looks for drops while somebody follows them.
#[derive(Default)]
pub struct Sampler(Mutex<Option<watch::Sender<Rates>>>);

impl Sampler {
    fn slot(&self) -> MutexGuard<'_, Option<watch::Sender<Rates>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self) -> Option<watch::Receiver<Rates>> {
        self.slot().as_ref().map(watch::Sender::subscribe)
    }

    /// Hands on what was found; false where nobody follows any more.
    fn tell(&self, rates: Vec<Rate>) -> bool {
        let mut slot = self.slot();
        let follows = slot.as_ref().is_some_and(|to| to.send(Arc::new(rates)).is_ok());
        if !follows {
            *slot = None;
        }
        follows
    }
}

/// What was counted by reason, and on which interface.
struct Reading {
    at: Instant,
    names: HashMap<u64, Arc<str>>,
    counts: HashMap<(u64, Option<u32>), u64>,
}

impl Reading {
    /// Of the reasons that are drops.
    fn take(memory: &OwnedFd, drops: &[bool]) -> std::io::Result<Reading> {
        let reader = Reader::open(memory.try_clone()?)?;
        let mut reading = Reading { at: Instant::now(), names: HashMap::new(), counts: HashMap::new() };
        for counter in ["reason", "interface-drop/packets"] {
            let Some(entry) = reader.find(counter) else { continue };
            let mut next = Some(0);
            while let Some(from) = next {
                let (found, more) = reader.values(entry, from)?;
                next = more;
                for v in found {
                    let (reason, interface) = match v.of[..] {
                        [reason] => (reason, None),
                        [interface, reason] => (reason, u32::try_from(interface).ok()),
                        _ => continue,
                    };
                    let is_drop = usize::try_from(reason).ok().and_then(|r| drops.get(r)).copied();
                    if is_drop == Some(true)
                        && let Some((name, _)) = reader.name("reason", reason)
                    {
                        reading.names.entry(reason).or_insert_with(|| name.into());
                        reading.counts.insert((reason, interface), v.value);
                    }
                }
            }
        }
        Ok(reading)
    }

    /// What was dropped since an earlier reading.
    fn since(&self, before: &Reading) -> Vec<Rate> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64().max(0.001);
        let rate = |(of, count): (&(u64, Option<u32>), &u64)| {
            let more = count.saturating_sub(before.counts.get(of).copied().unwrap_or(0));
            let reason = Arc::clone(self.names.get(&of.0)?);
            (more != 0).then(|| Rate { reason, interface: of.1, rate: more as f64 / seconds })
        };
        self.counts.iter().filter_map(rate).collect()
    }
}

async fn sample(router: Router, memory: OwnedFd, drops: Vec<bool>) {
    let (memory, drops) = (Arc::new(memory), Arc::new(drops));
    let mut second = interval(SECOND);
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<Reading> = None;
    loop {
        second.tick().await;
        let (memory, drops) = (Arc::clone(&memory), Arc::clone(&drops));
        let read = tokio::task::spawn_blocking(move || Reading::take(&memory, &drops)).await;
        // What cannot be read now may be readable with the next look.
        let Ok(Ok(now)) = read else { continue };
        let rates = before.as_ref().map(|b| now.since(b)).unwrap_or_default();
        before = Some(now);
        if !router.0.drops.tell(rates) {
            return;
        }
    }
}

impl Router {
    /// What is dropped, once a second.
    pub(super) async fn rates(&self) -> Result<watch::Receiver<Rates>, Status> {
        if let Some(rates) = self.0.drops.join() {
            return Ok(rates);
        }
        let memory = self.memory().await?;
        let drops = self.0.door.ask(async move |_, desk: Desk| {
            let router = desk.router.borrow();
            let reasons = router.graphs().first().map(|g| Arc::clone(&g.reasons)).unwrap_or_default();
            reasons.iter().map(|r| r.severity == Severity::Error).collect::<Vec<bool>>()
        });
        let drops = drops.await.map_err(status::closed)?;
        // Somebody else may have begun meanwhile.
        let mut slot = self.0.drops.slot();
        if let Some(to) = slot.as_ref() {
            return Ok(to.subscribe());
        }
        let (to, rates) = watch::channel(Rates::default());
        *slot = Some(to);
        drop(slot);
        tokio::spawn(sample(self.clone(), memory, drops));
        Ok(rates)
    }

    /// The names of interfaces.
    async fn names(&self, of: Vec<u32>) -> Result<HashMap<u32, String>, Status> {
        let names = self.0.door.ask(async move |_, desk: Desk| {
            let router = desk.router.borrow();
            of.into_iter().map(|index| (index, router.interface_name(index))).collect()
        });
        names.await.map_err(status::closed)
    }
}

/// Tells a follower of drops at so many packets a second or more, for as long as it follows.
pub async fn tell(
    router: Router,
    mut rates: watch::Receiver<Rates>,
    to: Weak<Following>,
    wanted: Wanted,
    least: f64,
) {
    while rates.changed().await.is_ok() {
        let all = Arc::clone(&rates.borrow_and_update());
        // Somebody may follow no longer and nothing be dropped.
        if to.strong_count() == 0 {
            return;
        }
        let of_all = wanted.names() == 0;
        let mut some: Vec<&Rate> =
            // A second is never quite one.
            all.iter().filter(|r| r.rate.round() >= least && (of_all || r.interface.is_some())).collect();
        let mut interfaces: Vec<u32> = some.iter().filter_map(|r| r.interface).collect();
        interfaces.sort_unstable();
        interfaces.dedup();
        let names = match interfaces.is_empty() {
            true => HashMap::new(),
            false => match router.names(interfaces).await {
                Ok(names) => names,
                Err(_) => return,
            },
        };
        let name = |r: &Rate| r.interface.and_then(|i| names.get(&i));
        some.retain(|r| name(r).is_none_or(|n| wanted.takes(n)));
        some.sort_unstable_by(|a, b| b.rate.total_cmp(&a.rate));
        let Some(following) = to.upgrade() else { return };
        for r in some.into_iter().take(MOST) {
            let (node, reason) = r.reason.split_once('/').unwrap_or(("", &r.reason));
            let interface = r.interface.and_then(|i| Some((names.get(&i)?.clone(), i)));
            let (node, reason) = (node.to_owned(), reason.to_owned());
            following.tell(What::Drops(Dropping { node, reason, interface, rate: r.rate }));
        }
    }
}
