//! Programs as sources of routes: who registers under a name of its own sets routes by the million, reads them back and
//! follows what changes. This is what the API does with routes, without how it comes over a socket.
//!
//! A client's source is called `api:NAME@USER`. Its routes stand beside those of all other sources, by preference. When its
//! last stream ends, a grace time decides what becomes of them: a client that returns marks all, sends all, and sweeps; else
//! they go, some thousand in a turn. Nothing here keeps the control thread for more than some milliseconds, and what one
//! client may have is bounded.

mod packed;
mod pages;
mod program;
mod serve;
mod sets;
mod watch;

pub use packed::{push, width};
pub use pages::{Filter, Kind, Lister, Match, Page};
pub use program::{Batch, MOST_ROUTES, Outcome, Program};
pub use serve::{Answer, Order, serve};
pub use sets::{Goal, MOST_HOPS, MOST_SETS, NextHop};
pub use watch::{Event, Watch};

use net::router::{LogLine, RouteSource, Router, Sweep};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

type SharedRouter = Rc<RefCell<Router>>;

/// The preference of a client's routes where it does not say one: behind connected and static routes and those of the
/// kernel. `set route-preference api N` says another for all of them.
pub const PREFERENCE: u8 = 20;
/// The grace time of a client that does not say one.
pub const GRACE: Duration = Duration::from_secs(60);
/// The longest grace time: a day.
pub const MOST_GRACE: Duration = Duration::from_secs(86_400);
/// Clients at once, those in their grace time among them.
const MOST_CLIENTS: usize = 256;
/// Streams of a client at once.
const MOST_STREAMS: usize = 16;
/// What the names of sources begin with.
const WORD: &str = "api";

/// Why a stream is not begun, or cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is right would have been accepted now; else only later, or never.
    pub malformed: bool,
    /// For who reads it.
    pub message: String,
}

/// What is wrong with a route, a set or a whole batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteError {
    /// The batch.
    pub batch: u64,
    /// Which of its routes; `None`: all of it.
    pub index: Option<u32>,
    /// The rule that it breaks, in a word or two.
    pub rule: &'static str,
    /// What broke it.
    pub value: String,
    /// For who reads it: what would be right.
    pub message: String,
}

impl RouteError {
    /// A length is longer than an address.
    pub const LENGTH: &'static str = "prefix-length";
    /// Bits are set behind a prefix.
    pub const HOST_BITS: &'static str = "host-bits";
    /// The bytes of prefixes are not whole prefixes.
    pub const BYTES: &'static str = "prefix-bytes";
    /// There are more routes than a batch may have.
    pub const COUNT: &'static str = "route-count";
    /// There is not one number of a set for each route, or one for all.
    pub const SET_COUNT: &'static str = "set-count";
    /// Nothing was said of this number.
    pub const SET_UNKNOWN: &'static str = "set-unknown";
    /// A number that no set can have.
    pub const SET_NUMBER: &'static str = "set-number";
    /// A set has too many next hops, or none.
    pub const SET_SIZE: &'static str = "set-size";
    /// A next hop cannot be used.
    pub const NEXT_HOP: &'static str = "next-hop";
    /// There is no such table.
    pub const TABLE: &'static str = "table";
    /// The router refuses the route.
    pub const REFUSED: &'static str = "refused";
}

/// What a client says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its name, 1 to 24 letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// Of its routes, 1 to 254.
    pub preference: Option<u8>,
    /// How long its routes stay when it has gone.
    pub grace: Option<Duration>,
}

/// What the router has of a client that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The name of its source, as `show ip fib` has it.
    pub source: String,
    /// By which its routes are chosen where nothing else is set.
    pub preference: u8,
    /// Routes of it that are there.
    pub routes: u64,
    /// It returns: these are from before.
    pub returned: bool,
}

/// A client as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// The name of its source.
    pub source: String,
    /// Streams that are open.
    pub streams: usize,
    /// Of its routes, as it says.
    pub preference: u8,
    /// The grace time.
    pub grace: Duration,
    /// What is left of it, where no stream is open.
    pub left: Option<Duration>,
    /// Its routes.
    pub routes: u64,
    /// Those of them that were not sent again yet.
    pub stale: u64,
    /// Batches that it has sent.
    pub batches: u64,
    /// Routes that it has set and deleted.
    pub changes: u64,
    /// Routes that were refused.
    pub refused: u64,
    /// Why the last one was.
    pub last_error: Option<String>,
}

struct Client {
    source: RouteSource,
    preference: u8,
    grace: Duration,
    streams: usize,
    /// When the last stream ended.
    since: Option<Instant>,
    /// The stream that sends all again.
    syncing: Option<u64>,
    /// All its routes are being taken away.
    going: bool,
    /// It has routes of another preference than it says now.
    reranked: bool,
    /// Raised by the operator: streams that are older end.
    cleared: u64,
    batches: u64,
    changes: u64,
    refused: u64,
    last_error: Option<String>,
}

/// All clients.
#[derive(Default)]
pub struct Clients {
    all: RefCell<BTreeMap<String, Client>>,
    /// A stream ended, or the operator wants something.
    look: Notify,
    /// A client's routes are gone.
    gone: Notify,
    next_stream: std::cell::Cell<u64>,
}

impl Clients {
    /// What a client's source is called.
    fn source_name(name: &str, user: &str) -> Result<String, Refusal> {
        let malformed = |message| Err(Refusal { malformed: true, message });
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.len() > 24 || !name.chars().all(fits) {
            return malformed(format!(
                "a client cannot be called {name:?}: 1 to 24 letters, digits, '.', '-' and '_'"
            ));
        }
        let user: String =
            user.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).take(33).collect();
        Ok(format!("{WORD}:{name}@{user}"))
    }

    /// Begins a stream of a client, which ends when what is answered is dropped. Waits where the client's old routes are
    /// just being taken away.
    ///
    /// # Errors
    /// What the client says of itself cannot be, or there are too many.
    async fn begin(
        &self,
        router: &SharedRouter,
        hello: &Hello,
        user: &str,
    ) -> Result<(Welcome, RouteSource, u64, u64), Refusal> {
        let name = Self::source_name(&hello.name, user)?;
        let grace = hello.grace.unwrap_or(GRACE);
        if grace > MOST_GRACE {
            let message =
                format!("a grace time of {} s: it is {} s at most", grace.as_secs(), MOST_GRACE.as_secs());
            return Err(Refusal { malformed: true, message });
        }
        loop {
            let gone = self.gone.notified();
            if !self.all.borrow().get(&name).is_some_and(|c| c.going) {
                break;
            }
            gone.await;
        }
        let mut all = self.all.borrow_mut();
        let full = |message| Err(Refusal { malformed: false, message });
        if all.get(&name).is_some_and(|c| c.streams >= MOST_STREAMS) {
            return full(format!("{name} has {MOST_STREAMS} streams already"));
        }
        if !all.contains_key(&name) && all.len() >= MOST_CLIENTS {
            return full(format!("no room for {name}: there are {MOST_CLIENTS} clients with routes"));
        }
        let was = all.get(&name).filter(|c| c.streams > 0).map(|c| c.preference);
        if let (Some(was), Some(says)) = (was, hello.preference)
            && was != says
        {
            return full(format!("{name} has a stream whose routes have the preference {was}, not {says}"));
        }
        let preference = hello.preference.or(all.get(&name).map(|c| c.preference)).unwrap_or(PREFERENCE);
        let source = router.borrow_mut().route_source(&name, preference);
        let source = source.map_err(|e| Refusal { malformed: true, message: e.message })?;
        let returned = all.contains_key(&name);
        let client = all.entry(name.clone()).or_insert_with(|| Client::new(source));
        let routes = router.borrow().routes_of_source_count(source);
        client.reranked |= routes != 0 && client.preference != preference;
        (client.preference, client.grace) = (preference, grace);
        client.streams += 1;
        client.since = None;
        let stream = self.next_stream.get() + 1;
        self.next_stream.set(stream);
        Ok((Welcome { source: name, preference, routes, returned }, source, stream, client.cleared))
    }

    fn with<T>(&self, name: &str, f: impl FnOnce(&mut Client) -> T) -> Option<T> {
        self.all.borrow_mut().get_mut(name).map(f)
    }

    /// A stream has ended.
    fn end(&self, name: &str, stream: u64) {
        self.with(name, |c| {
            c.streams = c.streams.saturating_sub(1);
            if c.syncing == Some(stream) {
                c.syncing = None;
            }
            if c.streams == 0 {
                c.since = Some(Instant::now());
            }
        });
        self.look.notify_one();
    }

    /// All clients, by the names of their sources.
    pub fn list(&self, router: &Router) -> Vec<ClientInfo> {
        let sources = router.route_sources();
        let all = self.all.borrow();
        let info = |(name, c): (&String, &Client)| {
            let has = sources.iter().find(|s| s.source == c.source);
            ClientInfo {
                source: name.clone(),
                streams: c.streams,
                preference: c.preference,
                grace: c.grace,
                left: c.since.map(|since| c.grace.saturating_sub(since.elapsed())),
                routes: has.map_or(0, |s| s.routes),
                stale: has.map_or(0, |s| s.stale),
                batches: c.batches,
                changes: c.changes,
                refused: c.refused,
                last_error: c.last_error.clone(),
            }
        };
        all.iter().map(info).collect()
    }

    /// Ends a client's streams and takes its routes away, in turns that follow. False: there is no such client.
    pub fn clear(&self, name: &str) -> bool {
        let known = self.with(name, |c| {
            c.cleared += 1;
            c.grace = Duration::ZERO;
            c.going = true;
        });
        self.look.notify_one();
        known.is_some()
    }

    /// The next client whose routes are to go, and when to look again.
    fn due(&self) -> Result<(String, RouteSource), Option<Duration>> {
        let mut all = self.all.borrow_mut();
        let left = |c: &Client| c.since.map(|since| c.grace.saturating_sub(since.elapsed()));
        let over = |c: &Client| c.going || left(c) == Some(Duration::ZERO);
        if let Some((name, c)) = all.iter_mut().find(|(_, c)| over(c)) {
            c.going = true;
            return Ok((name.clone(), c.source));
        }
        Err(all.values().filter_map(left).min())
    }

    /// Takes away the routes of clients whose grace time is over, for as long as it is polled.
    pub async fn keep(&self, router: &SharedRouter, log: &dyn Fn(&LogLine)) {
        loop {
            match self.due() {
                Ok((name, source)) => {
                    router.borrow_mut().mark_routes(source);
                    let gone = sweep(router, source).await;
                    let of = self.with(&name, |c| (c.streams, c.going));
                    if of.is_some_and(|(streams, _)| streams == 0) {
                        self.all.borrow_mut().remove(&name);
                        let _ = router.borrow_mut().remove_route_source(source);
                    } else {
                        self.with(&name, |c| c.going = false);
                    }
                    self.gone.notify_waiters();
                    let text = format!("routes of {name}: {gone} are taken away");
                    log(&LogLine { warn: false, text });
                }
                Err(None) => self.look.notified().await,
                Err(Some(wait)) => {
                    tokio::select! {
                        () = self.look.notified() => {}
                        () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
                    }
                }
            }
        }
    }
}

impl Client {
    fn new(source: RouteSource) -> Self {
        Client {
            source,
            preference: PREFERENCE,
            grace: GRACE,
            streams: 0,
            since: None,
            syncing: None,
            going: false,
            reranked: false,
            cleared: 0,
            batches: 0,
            changes: 0,
            refused: 0,
            last_error: None,
        }
    }
}

/// Takes away what was not set again since it was marked, and answers how many routes that were.
async fn sweep(router: &SharedRouter, source: RouteSource) -> u64 {
    let count = || router.borrow().stale_routes_of(source);
    let mut gone = count();
    let mut at = Some(Sweep::default());
    while let Some(from) = at {
        at = router.borrow_mut().sweep_routes(source, from).ok().flatten();
        tokio::task::yield_now().await;
    }
    gone -= count().min(gone);
    gone
}
