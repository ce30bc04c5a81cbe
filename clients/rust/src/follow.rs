//! A view of routes that is kept up over connections and starts of the router.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::keep::{Pause, passes};
use crate::v1::{RouteBatch, RouteEvent, RouteFilter, route_event};
use crate::{Error, Kinds, Route, Router, prefixes};

/// A prefix of a table.
pub type RouteKey = (u32, IpNet);

/// The routes that a follower knows, from the one in use on. It becomes the router's by what [`Router::watch_routes`] tells.
#[derive(Debug, Default)]
pub struct RouteView {
    kinds: Kinds,
    routes: BTreeMap<RouteKey, Vec<Route>>,
    complete: bool,
    /// What was told since the last gap, while it is not complete.
    told: BTreeSet<RouteKey>,
}

impl RouteView {
    /// The routes of each prefix.
    pub fn routes(&self) -> &BTreeMap<RouteKey, Vec<Route>> {
        &self.routes
    }

    /// It is as the router's was at some moment after the last gap.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Another stream begins, which tells all anew.
    pub fn restart(&mut self) {
        self.kinds = Kinds::default();
        self.doubt();
    }

    fn doubt(&mut self) {
        self.complete = false;
        self.told.clear();
    }

    /// Takes in what is told.
    pub fn apply(&mut self, event: RouteEvent) {
        match event.what {
            Some(route_event::What::Snapshot(batch)) => self.take(batch),
            Some(route_event::What::Changes(update)) => {
                update.batches.into_iter().for_each(|b| self.take(b));
            }
            Some(route_event::What::Mark(_)) if self.complete => {}
            Some(route_event::What::Mark(_)) => {
                let told = std::mem::take(&mut self.told);
                self.routes.retain(|key, _| told.contains(key));
                self.complete = true;
            }
            Some(route_event::What::Gap(_)) => self.doubt(),
            // Of a kind that this version does not know.
            None => {}
        }
    }

    fn take(&mut self, mut batch: RouteBatch) {
        let table = batch.table;
        let gone: Vec<IpNet> = prefixes(batch.ipv6, &batch.gone).collect();
        let mut all: Vec<(IpNet, Vec<Route>)> = vec![];
        for route in self.kinds.read(&mut batch) {
            match all.last_mut() {
                Some((prefix, routes)) if *prefix == route.prefix => routes.push(route),
                _ => all.push((route.prefix, vec![route])),
            }
        }
        all.extend(gone.into_iter().map(|prefix| (prefix, vec![])));
        for (prefix, routes) in all {
            let key = (table, prefix);
            if !self.complete {
                self.told.insert(key);
            }
            match routes.is_empty() {
                true => self.routes.remove(&key),
                false => self.routes.insert(key, routes),
            };
        }
    }
}

/// What the follower and its task share.
#[derive(Debug)]
struct Shared {
    view: Mutex<RouteView>,
    /// Why it has ended.
    ended: Mutex<Option<Error>>,
    changed: watch::Sender<u64>,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A view of routes that a task keeps up until this is dropped, and makes anew when the connection or the router has gone.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
    task: AbortHandle,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Router {
    /// Follows the routes that a filter takes.
    ///
    /// # Errors
    /// The router is gone or refuses it; later it is waited for.
    pub async fn follow(&self, filter: RouteFilter) -> Result<Follower, Error> {
        let first = self.watch_routes(filter.clone()).await?;
        let (to, changed) = watch::channel(0);
        let shared = Arc::new(Shared { view: Mutex::default(), ended: Mutex::default(), changed: to });
        let (router, of) = (self.clone(), Arc::clone(&shared));
        let task = tokio::spawn(async move {
            let mut events = Ok(first);
            let mut pause = Pause::new();
            loop {
                let cause = match events {
                    Err(e) => e,
                    Ok(mut events) => {
                        lock(&of.view).restart();
                        loop {
                            match events.message().await {
                                Ok(Some(event)) => {
                                    lock(&of.view).apply(event);
                                    of.changed.send_modify(|n| *n += 1);
                                    pause = Pause::new();
                                }
                                Ok(None) => break tonic::Status::unavailable("the router ends").into(),
                                Err(e) => break e.into(),
                            }
                        }
                    }
                };
                if !passes(&cause) {
                    *lock(&of.ended) = Some(cause);
                    of.changed.send_modify(|n| *n += 1);
                    return;
                }
                pause.wait(&cause).await;
                events = router.watch_routes(filter.clone()).await;
            }
        });
        Ok(Follower { shared, changed, task: task.abort_handle() })
    }
}

impl Follower {
    /// Looks at what is known. The task waits meanwhile.
    pub fn view<R>(&self, look: impl FnOnce(&RouteView) -> R) -> R {
        look(&lock(&self.shared.view))
    }

    /// Waits for something to change.
    ///
    /// # Errors
    /// The router has refused to go on: the view is kept up no more.
    pub async fn changed(&mut self) -> Result<(), Error> {
        if let Some(e) = lock(&self.shared.ended).clone() {
            return Err(e);
        }
        let gone = |_| Error::protocol("the view is kept up no more");
        self.changed.changed().await.map_err(gone)
    }
}
