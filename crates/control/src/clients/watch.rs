//! Following routes: all that there are, a mark, then what changes, in order, and where changes are lost, that they are.
//!
//! A change says what the routes of a prefix are when it is told, in the place of all that was told of the prefix before. So
//! what is told of the routes that there are, and of changes meanwhile, fits together in any order.

use super::SharedRouter;
use super::pages::{Filter, Kinds, Lister, Match, Page, source_of};
use net::router::{Lost, RouteTable, Router};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::Semaphore;

/// Changes told at once.
const AT_ONCE: usize = 2048;

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Some of the routes that there are.
    Snapshot(Page),
    /// All that there were are told. The next change has this number or a higher one.
    Mark(u64),
    /// What changed.
    Changes {
        /// Number of the first change: the one behind the last that was told of.
        first: u64,
        /// Number of the last one. Of all these only those that are asked for are told.
        last: u64,
        /// What the prefixes have now, by table.
        pages: Vec<Page>,
    },
    /// Changes from `from` up to `to`, without that, are lost. All routes are told anew from here to the next mark: what
    /// is not among them, nor among changes before the mark, is gone.
    Gap(Lost),
}

/// A reader of all that.
pub struct Watch {
    router: SharedRouter,
    filter: Filter,
    /// What there is is told as well.
    whole: bool,
    lister: Option<Lister>,
    kinds: Kinds,
    /// Number of the next change that is looked at.
    at: u64,
    /// Number of the first that no event has told of, nor left out.
    told: u64,
    /// Changes were told last: the snapshot has its turn.
    turn: bool,
    /// Who of those that read much is next.
    long: Rc<Semaphore>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut router) = self.router.try_borrow_mut() {
            router.unfollow_routes();
        }
    }
}

impl Watch {
    /// Begins to follow what a filter asks for.
    ///
    /// # Errors
    /// The filter asks for what cannot be followed.
    pub fn new(router: &SharedRouter, filter: Filter) -> Result<Self, String> {
        Self::begin(router, filter, true)
    }

    /// Begins to follow what changes alone: neither at first nor behind a gap is told what there is.
    ///
    /// # Errors
    /// As for [`Watch::new`].
    pub fn changes_of(router: &SharedRouter, filter: Filter) -> Result<Self, String> {
        Self::begin(router, filter, false)
    }

    fn begin(router: &SharedRouter, filter: Filter, whole: bool) -> Result<Self, String> {
        filter.check(&router.borrow())?;
        if filter.by == Match::Longest {
            return Err(
                "what is longest changes with other prefixes: follow a prefix itself, or those within it"
                    .into(),
            );
        }
        let at = router.borrow_mut().follow_routes();
        let lister = whole.then(|| Lister::new(filter.clone()));
        Ok(Watch {
            router: Rc::clone(router),
            filter,
            whole,
            lister,
            kinds: Kinds::default(),
            at,
            told: at,
            turn: false,
            long: Rc::new(Semaphore::new(1)),
        })
    }

    /// Reads what there is only while it holds this, which others share that read much as well.
    #[must_use]
    pub fn behind(mut self, long: Rc<Semaphore>) -> Watch {
        self.long = long;
        self
    }

    /// What is told next. Waits for a change where all is told.
    pub async fn next(&mut self) -> Event {
        loop {
            let (router, long) = (Rc::clone(&self.router), Rc::clone(&self.long));
            // It is never closed.
            let _held = if self.lister.is_some() { long.acquire().await.ok() } else { None };
            let behind = self.at < router.borrow().next_route_change();
            let event = match (&mut self.lister, behind) {
                (Some(_), true) if !self.turn => self.changes(&router.borrow()),
                (Some(_), _) => self.snapshot(&router.borrow()),
                (None, true) => self.changes(&router.borrow()),
                (None, false) => {
                    self.changed().await;
                    None
                }
            };
            // Also where nothing is told: a filter may take little of much.
            tokio::task::yield_now().await;
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn changed(&self) {
        std::future::poll_fn(|context| {
            let mut router = self.router.borrow_mut();
            if self.at < router.next_route_change() {
                return Poll::Ready(());
            }
            router.wake_at_route_change(context.waker());
            Poll::Pending
        })
        .await;
    }

    fn snapshot(&mut self, router: &Router) -> Option<Event> {
        self.turn = false;
        let lister = self.lister.as_mut()?;
        match lister.next(router) {
            Some(page) if page.is_empty() && !page.forget => None,
            Some(page) => Some(Event::Snapshot(page)),
            None => {
                self.kinds = self.lister.take().map(Lister::into_kinds).unwrap_or_default();
                self.told = self.at;
                Some(Event::Mark(self.at))
            }
        }
    }

    fn changes(&mut self, router: &Router) -> Option<Event> {
        self.turn = true;
        let changed = match router.changed_routes(self.at, AT_ONCE) {
            Ok(changed) => changed,
            Err(lost) => {
                // What was looked at and left out is not lost.
                let lost = Lost { from: self.at, to: lost.to };
                (self.at, self.told) = (lost.to, lost.to);
                if !self.whole {
                    return Some(Event::Gap(lost));
                }
                let kinds = match self.lister.take() {
                    Some(lister) => lister.into_kinds(),
                    None => std::mem::take(&mut self.kinds),
                };
                self.lister = Some(Lister::with_kinds(self.filter.clone(), kinds));
                return Some(Event::Gap(lost));
            }
        };
        let only = source_of(router, self.filter.source.as_deref());
        let kinds = match &mut self.lister {
            Some(lister) => lister.kinds(),
            None => &mut self.kinds,
        };
        let mut pages: BTreeMap<RouteTable, Page> = BTreeMap::new();
        let mut forget = Page::default();
        kinds.make_room(&mut forget);
        for (table, prefix) in changed {
            self.at += 1;
            if !self.filter.takes(table, prefix) {
                continue;
            }
            let page = pages.entry(table).or_insert_with(|| Page::new(table));
            let has = match (router.routes_at(table, prefix), only) {
                (Some(r), Ok(only)) => kinds.put(router, &r, only, page),
                _ => false,
            };
            if !has {
                super::push(&mut page.gone, prefix);
            }
        }
        let mut pages: Vec<Page> = pages.into_values().collect();
        match pages.first_mut() {
            Some(page) => page.forget = forget.forget,
            // Nobody has told that they are forgotten.
            None if forget.forget => pages.push(forget),
            None => return None,
        }
        let first = std::mem::replace(&mut self.told, self.at);
        Some(Event::Changes { first, last: self.at - 1, pages })
    }
}
