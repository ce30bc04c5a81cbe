//! A stream of changes of a client's routes, made in the router a slice at a time.

use super::sets::{Goal, Sets};
use super::{Clients, Hello, Refusal, RouteError, SharedRouter, Welcome, packed, sweep};
use ipnet::IpNet;
use net::router::{Op, OpError, Rank, RouteBatch, RouteSource, RouteTable, Router, TargetId};
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The most routes of one batch.
pub const MOST_ROUTES: usize = 65_536;
/// The longest that a slice should take: others of the control thread wait for its end.
const SLICE: Duration = Duration::from_millis(2);
/// Routes of a slice: fewer where these take too long.
const ROUTES: Range<usize> = 256..4096;
/// Errors that are told of a run of batches; of more only their number.
const MOST_ERRORS: usize = 256;

/// Changes of routes of one family in one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its number, above those of the stream's batches before it.
    pub id: u64,
    /// Number of the table.
    pub table: u32,
    /// Its prefixes are IPv6.
    pub v6: bool,
    /// The routes go; else each is set, in the place of an earlier one.
    pub delete: bool,
    /// The client may have several routes of a prefix, which differ in this.
    pub metric: u32,
    /// The prefixes, packed ([`super::push`]).
    pub prefixes: Vec<u8>,
    /// For each prefix the number of its next-hop set, or one number for all; none where they go.
    pub sets: Vec<u32>,
}

/// What became of batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Workers use all routes of this batch and of those before it, but for those that are refused.
    pub done: u64,
    /// Routes that were refused.
    pub refused: u64,
    /// The first of them.
    pub errors: Vec<RouteError>,
}

impl Outcome {
    fn refuse(&mut self, routes: usize, error: impl FnOnce() -> RouteError) {
        self.refused += routes as u64;
        if self.errors.len() < MOST_ERRORS {
            self.errors.push(error());
        }
    }
}

/// A change that fits, and where it stands.
struct Item {
    prefix: IpNet,
    set: u32,
    batch: u64,
    index: u32,
}

/// What the changes of a slice have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    table: u32,
    v6: bool,
    delete: bool,
    metric: u32,
}

/// A stream of a client. Its end is noted when it is dropped.
pub struct Program {
    router: SharedRouter,
    clients: Rc<Clients>,
    name: String,
    source: RouteSource,
    stream: u64,
    cleared: u64,
    sets: Sets,
    last: u64,
    /// Routes that go into one slice.
    slice: usize,
    /// Targets of sets in the slice that is made, with its number.
    known: Vec<(u64, Option<TargetId>)>,
    slices: u64,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.clients.end(&self.name, self.stream);
    }
}

impl Program {
    /// Begins a stream.
    ///
    /// # Errors
    /// What the client says of itself cannot be, or there are too many.
    pub async fn begin(
        router: &SharedRouter,
        clients: &Rc<Clients>,
        hello: &Hello,
        user: &str,
    ) -> Result<(Program, Welcome), Refusal> {
        let (welcome, source, stream, cleared) = clients.begin(router, hello, user).await?;
        let program = Program {
            router: Rc::clone(router),
            clients: Rc::clone(clients),
            name: welcome.source.clone(),
            source,
            stream,
            cleared,
            sets: Sets::default(),
            last: 0,
            slice: 2048,
            known: vec![],
            slices: 0,
        };
        Ok((program, welcome))
    }

    /// The number of the last batch that was made.
    pub fn done(&self) -> u64 {
        self.last
    }

    /// Says what the number of a set stands for from now on.
    ///
    /// # Errors
    /// It cannot be; what the number stood for stays.
    pub fn define(&mut self, number: u32, goal: Goal) -> Result<(), RouteError> {
        self.sets.define(number, goal)
    }

    /// All routes are sent again from now on. What is not goes with [`Program::sweep`].
    ///
    /// # Errors
    /// Another stream of the client does that.
    pub fn mark(&mut self) -> Result<(), Refusal> {
        self.check()?;
        let stream = self.stream;
        let of = self.clients.with(&self.name, |c| {
            let free = c.syncing.is_none_or(|s| s == stream);
            if free {
                (c.syncing, c.reranked) = (Some(stream), false);
            }
            free
        });
        if of != Some(true) {
            let message = format!("another stream of {} sends all its routes again", self.name);
            return Err(Refusal { malformed: false, message });
        }
        self.router.borrow_mut().mark_routes(self.source);
        Ok(())
    }

    /// Takes away what was not sent again, and answers how many routes that were.
    ///
    /// # Errors
    /// Nothing was marked by this stream.
    pub async fn sweep(&mut self) -> Result<u64, Refusal> {
        self.check()?;
        let stream = self.stream;
        if self.clients.with(&self.name, |c| c.syncing == Some(stream)) != Some(true) {
            let message = "the end of sending all again, which was not begun in this stream".to_owned();
            return Err(Refusal { malformed: true, message });
        }
        let gone = sweep(&self.router, self.source).await;
        self.clients.with(&self.name, |c| c.syncing = None);
        Ok(gone)
    }

    /// Whether the stream may go on.
    fn check(&self) -> Result<(), Refusal> {
        match self.clients.with(&self.name, |c| c.cleared == self.cleared) {
            Some(true) => Ok(()),
            _ => {
                let message = format!("an operator has taken the routes of {} away", self.name);
                Err(Refusal { malformed: false, message })
            }
        }
    }

    /// Makes changes, in the order given. What is refused leaves what was there.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub async fn program(&mut self, batches: &[Batch]) -> Result<Outcome, Refusal> {
        let mut out = Outcome { done: self.last, ..Outcome::default() };
        let mut items: Vec<Item> = vec![];
        let mut at = None;
        let mut changed = 0;
        for b in batches {
            if b.id <= self.last {
                let message = format!("batch {} comes behind batch {}: numbers rise", b.id, self.last);
                return Err(Refusal { malformed: true, message });
            }
            self.last = b.id;
            let place = Place { table: b.table, v6: b.v6, delete: b.delete, metric: b.metric };
            if at != Some(place) {
                changed += self.make(at, &mut items, &mut out).await?;
                at = Some(place);
            }
            let Some(count) = self.fits(b, &mut out) else { continue };
            let one = b.sets.first().copied().unwrap_or_default();
            let each = b.sets.len() == count && !b.delete;
            for (index, prefix) in packed::read(b.v6, &b.prefixes).enumerate() {
                let set = if each { b.sets.get(index).copied().unwrap_or(one) } else { one };
                let (batch, at_index) = (b.id, index as u32);
                match prefix {
                    Err(w) => out.refuse(1, || RouteError {
                        batch,
                        index: Some(at_index),
                        rule: w.rule,
                        value: w.value,
                        message: w.message,
                    }),
                    Ok(prefix) if !b.delete && self.sets.get(set).is_none() => out.refuse(1, || RouteError {
                        batch,
                        index: Some(at_index),
                        rule: RouteError::SET_UNKNOWN,
                        value: set.to_string(),
                        message: format!(
                            "route {prefix}: nothing was said of next-hop set {set} in this stream"
                        ),
                    }),
                    Ok(prefix) => items.push(Item { prefix, set, batch, index: at_index }),
                }
                if items.len() >= self.slice {
                    changed += self.make(at, &mut items, &mut out).await?;
                }
            }
        }
        changed += self.make(at, &mut items, &mut out).await?;
        out.done = self.last;
        self.clients.with(&self.name, |c| {
            c.batches += batches.len() as u64;
            c.changes += changed;
            c.refused += out.refused;
            if let Some(e) = out.errors.last() {
                c.last_error = Some(e.message.clone());
            }
        });
        Ok(out)
    }

    /// How many routes a batch has, where it is whole and may be.
    fn fits(&self, b: &Batch, out: &mut Outcome) -> Option<usize> {
        let whole = |rule, value: usize, message| RouteError {
            batch: b.id,
            index: None,
            rule,
            value: value.to_string(),
            message,
        };
        let Some(count) = packed::count(b.v6, &b.prefixes) else {
            let (len, width) = (b.prefixes.len(), packed::width(b.v6));
            let why = format!("batch {}: {len} bytes of prefixes, of which each takes {width}", b.id);
            out.refuse(len / width, || whole(RouteError::BYTES, len, why));
            return None;
        };
        if count > MOST_ROUTES {
            let why = format!("batch {}: {count} routes, of which {MOST_ROUTES} fit", b.id);
            out.refuse(count, || whole(RouteError::COUNT, count, why));
            return None;
        }
        let sets = b.sets.len();
        if !b.delete && count != 0 && sets != count && sets != 1 {
            let why = format!(
                "batch {}: {sets} numbers of next-hop sets for {count} routes: one each, or one",
                b.id
            );
            out.refuse(count, || whole(RouteError::SET_COUNT, sets, why));
            return None;
        }
        let table = RouteTable { v6: b.v6, id: b.table };
        if !self.router.borrow().has_table(table) {
            let why = format!("batch {}: there is no {table}", b.id);
            out.refuse(count, || whole(RouteError::TABLE, b.table as usize, why));
            return None;
        }
        Some(count)
    }

    /// Makes the changes of a slice and lets others have their turn; answers how many were made. Where some are refused,
    /// halves are made until these are found.
    async fn make(
        &mut self,
        place: Option<Place>,
        items: &mut Vec<Item>,
        out: &mut Outcome,
    ) -> Result<u64, Refusal> {
        let Some(place) = place.filter(|_| !items.is_empty()) else { return Ok(0) };
        let mut todo: Vec<Range<usize>> = std::iter::once(0..items.len()).collect();
        let (mut made, mut began, whole) = (0, Instant::now(), items.len());
        while let Some(part) = todo.pop() {
            self.check()?;
            self.check_rank()?;
            let some = items.get(part.clone()).unwrap_or_default();
            let done = self.commit(place, some, out);
            match done {
                Ok(count) => made += count,
                Err(_) if part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    todo.push(middle..part.end);
                    todo.push(part.start..middle);
                }
                Err(e) => {
                    if let Some(item) = some.first() {
                        out.refuse(1, || RouteError {
                            batch: item.batch,
                            index: Some(item.index),
                            rule: RouteError::REFUSED,
                            value: item.prefix.to_string(),
                            message: e.message,
                        });
                    }
                }
            }
            let took = began.elapsed();
            if part.len() == whole {
                self.slice = match took {
                    t if t > SLICE => (whole / 2).max(ROUTES.start),
                    t if t < SLICE / 3 && whole >= self.slice => (whole * 2).min(ROUTES.end),
                    _ => self.slice,
                };
            }
            if took > SLICE / 3 || todo.is_empty() {
                tokio::task::yield_now().await;
                began = Instant::now();
            }
        }
        items.clear();
        Ok(made)
    }

    /// Routes of another preference would stand beside the client's old ones.
    fn check_rank(&self) -> Result<(), Refusal> {
        match self.clients.with(&self.name, |c| c.reranked) {
            Some(true) => {
                let message = format!(
                    "{} had routes of another preference: begin to send all again before the first route",
                    self.name
                );
                Err(Refusal { malformed: true, message })
            }
            _ => Ok(()),
        }
    }

    /// Makes some changes as one transaction. Those whose next hops cannot be named now are refused here.
    fn commit(&mut self, place: Place, items: &[Item], out: &mut Outcome) -> Result<u64, OpError> {
        let mut router = self.router.borrow_mut();
        let mut batch = router.route_batch(self.source, place.table);
        let rank = Rank { metric: place.metric, ..batch.rank() };
        let n = items.len();
        if place.v6 {
            batch.reserve(0, n);
        } else {
            batch.reserve(n, 0);
        }
        self.slices += 1;
        let mut unnamed = vec![];
        for item in items {
            if place.delete {
                batch.del_ranked(item.prefix, rank);
                continue;
            }
            let target = match self.known.get(item.set as usize) {
                Some((slice, target)) if *slice == self.slices => *target,
                _ => {
                    let named = named(&router, &self.sets, item.set, &mut batch, rank);
                    let at = item.set as usize;
                    if self.known.len() <= at {
                        self.known.resize(at + 1, (0, None));
                    }
                    self.known[at] = (self.slices, named);
                    named
                }
            };
            match target {
                Some(target) => batch.set(item.prefix, target),
                None => unnamed.push(item),
            }
        }
        // Of a part that is refused as a whole, its halves tell them.
        let made = batch.len() as u64;
        if made != 0 {
            router.commit(vec![Op::Routes(batch)])?;
        }
        for item in unnamed {
            out.refuse(1, || {
                let why = self.sets.get(item.set).and_then(|goal| goal.target(&router).err());
                let (value, why) = why.unwrap_or_default();
                RouteError {
                    batch: item.batch,
                    index: Some(item.index),
                    rule: RouteError::NEXT_HOP,
                    value,
                    message: format!("route {}: {why}", item.prefix),
                }
            });
        }
        Ok(made)
    }
}

/// The target of a set in a batch; nothing where one of its interfaces is not there.
fn named(router: &Router, sets: &Sets, set: u32, batch: &mut RouteBatch, rank: Rank) -> Option<TargetId> {
    let target = sets.get(set)?.target(router).ok()?;
    Some(batch.ranked(rank, target))
}
