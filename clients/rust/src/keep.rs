//! A client of routes that comes back by itself when the connection or the router has gone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use ipnet::IpNet;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tonic::Code;

use crate::v1::{NextHopSet, RouteAction, RouteChanges, RouteError, RouteHello, RouteWelcome};
use crate::{Error, Program, Router, push};

/// Prefixes of a message.
const MOST: usize = 65_536;
/// Numbers of next-hop sets that the router takes.
const SETS: usize = 65_536;
/// Sets of a message.
const SETS_AT_ONCE: usize = 1024;
/// What may wait to be sent.
const WAITING: usize = 64;
/// The first pause before a connection is made anew, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(2)];

/// Whether what has failed may go well another time.
pub(crate) fn passes(error: &Error) -> bool {
    matches!(error.code, Code::Unavailable | Code::Cancelled) || error.retry_after.is_some()
}

/// Pauses between attempts.
pub(crate) struct Pause(Duration);

impl Pause {
    pub fn new() -> Pause {
        Pause(PAUSES[0])
    }

    /// As long as what has failed says, where that is longer.
    pub async fn wait(&mut self, cause: &Error) {
        tokio::time::sleep(self.0.max(cause.retry_after.unwrap_or_default())).await;
        self.0 = PAUSES[1].min(2 * self.0);
    }
}

/// What became of the routes that were sent since this was last asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flushed {
    /// Routes that the router has refused.
    pub refused: u64,
    /// What is wrong with the first of them.
    pub errors: Vec<RouteError>,
}

enum Ask {
    /// Routes are set, or go.
    Change(Part, Vec<IpNet>, Option<NextHopSet>),
    Flush(oneshot::Sender<Result<Flushed, Error>>),
    Begin,
    End(oneshot::Sender<Result<u64, Error>>),
}

/// What changes of one message have in common: table, IPv6, and metric.
type Part = (u32, bool, u32);

/// A source of routes that remembers them: when the connection goes, or the router is started anew, all are sent again, and what is not among
/// them goes; a route that is the same loses no packet. Its routes are the router's until this is dropped, and then for the grace time.
#[derive(Debug)]
pub struct Keeper {
    welcome: RouteWelcome,
    asks: mpsc::Sender<Ask>,
}

impl Router {
    /// Begins to be a source of routes that comes back by itself. The role `configure` is needed.
    ///
    /// # Errors
    /// The router is gone or refuses the client; later it is waited for.
    pub async fn keeper(&self, hello: RouteHello) -> Result<Keeper, Error> {
        let program = self.program(hello.clone()).await?;
        let welcome = program.welcome.clone();
        let (asks, to_do) = mpsc::channel(WAITING);
        tokio::spawn(run(self.clone(), hello, program, to_do));
        Ok(Keeper { welcome, asks })
    }
}

fn ended() -> Error {
    Error::protocol("the client of routes has ended")
}

impl Keeper {
    /// What the router had of this client when it began.
    pub fn welcome(&self) -> &RouteWelcome {
        &self.welcome
    }

    async fn ask(&self, ask: Ask) -> Result<(), Error> {
        self.asks.send(ask).await.map_err(|_| ended())
    }

    async fn change(
        &self,
        (table, metric): (u32, u32),
        prefixes: &[IpNet],
        to: Option<NextHopSet>,
    ) -> Result<(), Error> {
        for ipv6 in [false, true] {
            let of: Vec<IpNet> = prefixes.iter().copied().filter(|p| p.addr().is_ipv6() == ipv6).collect();
            for some in of.chunks(MOST) {
                self.ask(Ask::Change((table, ipv6, metric), some.to_vec(), to.clone())).await?;
            }
        }
        Ok(())
    }

    /// Sets the routes of prefixes, in the place of this client's routes of the same prefixes and metric. It does not wait for the
    /// router: [`Keeper::flush`] does. The number of the set means nothing; routes may lead to 65,536 different sets at a time.
    ///
    /// # Errors
    /// The router has refused the client.
    pub async fn set(
        &self,
        table: u32,
        metric: u32,
        prefixes: &[IpNet],
        to: NextHopSet,
    ) -> Result<(), Error> {
        self.change((table, metric), prefixes, Some(to)).await
    }

    /// Deletes the client's routes of prefixes and a metric.
    ///
    /// # Errors
    /// The router has refused the client.
    pub async fn delete(&self, table: u32, metric: u32, prefixes: &[IpNet]) -> Result<(), Error> {
        self.change((table, metric), prefixes, None).await
    }

    /// Waits until workers use all that was said, also over another start of the router.
    ///
    /// # Errors
    /// The router has refused the client; it ends thereby.
    pub async fn flush(&self) -> Result<Flushed, Error> {
        let (to, answer) = oneshot::channel();
        self.ask(Ask::Flush(to)).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Begins to say all routes again: a client that was started anew has routes of before in the router (`welcome().returned`).
    ///
    /// # Errors
    /// The router has refused the client.
    pub async fn begin(&self) -> Result<(), Error> {
        self.ask(Ask::Begin).await
    }

    /// All are said: those that were not go. How many, where that is known of this start of the router.
    ///
    /// # Errors
    /// The router has refused the client.
    pub async fn end(&self) -> Result<u64, Error> {
        let (to, answer) = oneshot::channel();
        self.ask(Ask::End(to)).await?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }
}

/// What a number stands for, and how many routes lead there: none where the number is free.
#[derive(Default)]
struct Held {
    set: NextHopSet,
    routes: usize,
}

/// All routes that there are to be.
#[derive(Default)]
struct Book {
    /// Numbers of sets by what these are.
    numbers: HashMap<Vec<u8>, u32>,
    /// By number.
    sets: Vec<Held>,
    free: BTreeSet<u32>,
    routes: BTreeMap<Part, HashMap<IpNet, u32>>,
    /// All are being said again.
    syncing: bool,
    flushed: Flushed,
    /// Who waits for the routes to be used.
    waiting: Vec<oneshot::Sender<Result<Flushed, Error>>>,
    ending: Vec<oneshot::Sender<Result<u64, Error>>>,
}

impl Book {
    /// The number of a set, and the set where it is new.
    fn number(&mut self, set: NextHopSet) -> (u32, Option<NextHopSet>) {
        let set = NextHopSet { number: 0, ..set };
        let key = set.encode_to_vec();
        if let Some(number) = self.numbers.get(&key) {
            return (*number, None);
        }
        // New numbers first: of one that stood for something else a set that is refused would not be unknown.
        let number = match self.sets.len() {
            n if n < SETS => n as u32,
            n => self.free.pop_first().unwrap_or(n as u32),
        };
        let set = NextHopSet { number, ..set };
        self.numbers.insert(key, number);
        let held = Held { set: set.clone(), routes: 0 };
        match self.sets.get_mut(number as usize) {
            Some(free) => *free = held,
            None => self.sets.push(held),
        }
        (number, Some(set))
    }

    /// Notes what is said of prefixes. Answers the sets to which no route leads any more: their numbers are free.
    fn note(&mut self, part: Part, prefixes: &[IpNet], set: Option<u32>) -> Vec<u32> {
        let of = self.routes.entry(part).or_default();
        let mut freed = vec![];
        for p in prefixes {
            let old = match set {
                Some(set) => of.insert(*p, set),
                None => of.remove(p),
            };
            // The new one first: a route that stays as it is frees nothing.
            if let Some(held) = set.and_then(|n| self.sets.get_mut(n as usize)) {
                held.routes += 1;
            }
            let Some(n) = old else { continue };
            let Some(held) = self.sets.get_mut(n as usize) else { continue };
            held.routes -= 1;
            if held.routes == 0 {
                freed.push(n);
            }
        }
        freed.iter().for_each(|n| self.free(*n));
        freed
    }

    fn free(&mut self, number: u32) {
        let Some(held) = self.sets.get_mut(number as usize) else { return };
        let set = std::mem::take(held).set;
        self.numbers.remove(&NextHopSet { number: 0, ..set }.encode_to_vec());
        self.free.insert(number);
    }

    /// Forgets all routes. Answers the numbers that are free thereby.
    fn clear(&mut self) -> Vec<u32> {
        self.routes.clear();
        let freed: Vec<u32> = self.live().map(|set| set.number).collect();
        freed.iter().for_each(|n| self.free(*n));
        freed
    }

    /// The sets to which routes lead.
    fn live(&self) -> impl Iterator<Item = &NextHopSet> {
        self.sets.iter().filter(|held| held.routes != 0).map(|held| &held.set)
    }

    /// Tells everything to a router that has been away.
    async fn tell(&mut self, program: &mut Program) -> Result<(), Error> {
        program.begin_sync().await?;
        let sets: Vec<NextHopSet> = self.live().cloned().collect();
        for some in sets.chunks(SETS_AT_ONCE) {
            program.next_hops(some.to_vec()).await?;
        }
        for (part, routes) in &self.routes {
            let all: Vec<(IpNet, u32)> = routes.iter().map(|(p, set)| (*p, *set)).collect();
            for some in all.chunks(MOST) {
                let sets = some.iter().map(|(_, set)| *set).collect();
                program.change(changes(*part, some.iter().map(|(p, _)| *p), Some(sets))).await?;
            }
        }
        program.flush().await?;
        if !self.syncing || !self.ending.is_empty() {
            self.end(program).await?;
        }
        self.answer(program);
        Ok(())
    }

    /// All routes were said: those that were not go.
    async fn end(&mut self, program: &mut Program) -> Result<(), Error> {
        let gone = program.end_sync().await?;
        self.syncing = false;
        self.ending.drain(..).for_each(|to| _ = to.send(Ok(gone)));
        Ok(())
    }

    /// All is used.
    fn answer(&mut self, program: &mut Program) {
        self.take_errors(program);
        for to in self.waiting.drain(..) {
            // Who waits no more takes nothing away from who asks next.
            if let Err(Ok(flushed)) = to.send(Ok(std::mem::take(&mut self.flushed))) {
                self.flushed = flushed;
            }
        }
    }

    fn take_errors(&mut self, program: &mut Program) {
        let (refused, errors) = program.errors();
        self.flushed.refused += refused;
        self.flushed.errors.extend(errors);
    }

    async fn obey(&mut self, program: &mut Program, ask: Ask) -> Result<(), Error> {
        match ask {
            Ask::Change(part, prefixes, to) => {
                let set = to.map(|to| self.number(to));
                let number = set.as_ref().map(|(number, _)| *number);
                let freed = self.note(part, &prefixes, number);
                if let Some((_, Some(new))) = set {
                    program.next_hops(vec![new]).await?;
                }
                program.change(changes(part, prefixes, number.map(|n| vec![n]))).await?;
                forget(program, &freed).await?;
            }
            Ask::Flush(to) => {
                self.waiting.push(to);
                program.flush().await?;
                self.answer(program);
            }
            Ask::Begin => {
                self.syncing = true;
                let freed = self.clear();
                program.begin_sync().await?;
                forget(program, &freed).await?;
            }
            Ask::End(to) => {
                self.ending.push(to);
                program.flush().await?;
                self.end(program).await?;
            }
        }
        Ok(())
    }
}

/// Gives back the next hops of sets that are needed no more: those of all sets of a stream are limited. Routes that were set by them stay
/// as they are.
async fn forget(program: &mut Program, freed: &[u32]) -> Result<(), Error> {
    for some in freed.chunks(SETS_AT_ONCE) {
        let drop = |n: &u32| NextHopSet { number: *n, action: RouteAction::Drop.into(), next_hops: vec![] };
        program.next_hops(some.iter().map(drop).collect()).await?;
    }
    Ok(())
}

fn changes(
    (table, ipv6, metric): Part,
    prefixes: impl IntoIterator<Item = IpNet>,
    sets: Option<Vec<u32>>,
) -> RouteChanges {
    let mut bytes = vec![];
    prefixes.into_iter().for_each(|p| push(&mut bytes, p));
    let delete = sets.is_none();
    RouteChanges { table, ipv6, delete, metric, prefixes: bytes, sets: sets.unwrap_or_default(), id: 0 }
}

/// Does what is asked for until nobody can ask any more, over as many connections as that takes.
async fn run(router: Router, hello: RouteHello, mut program: Program, mut asks: mpsc::Receiver<Ask>) {
    let mut book = Book::default();
    loop {
        let cause = loop {
            let done = tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => book.obey(&mut program, ask).await,
                    None => return,
                },
                // Nothing may be on the way, and yet the router goes.
                reply = program.reply() => reply,
            };
            if let Err(cause) = done {
                break cause;
            }
        };
        book.take_errors(&mut program);
        let Some(next) = again(&router, &hello, &mut book, &asks, cause).await else { return };
        program = next;
    }
}

/// Another stream, to which everything was told; none where the router refuses the client or nobody asks any more.
async fn again(
    router: &Router,
    hello: &RouteHello,
    book: &mut Book,
    asks: &mpsc::Receiver<Ask>,
    mut cause: Error,
) -> Option<Program> {
    let mut pause = Pause::new();
    while passes(&cause) && !(asks.is_closed() && asks.is_empty()) {
        pause.wait(&cause).await;
        cause = match router.program(hello.clone()).await {
            Ok(mut program) => match book.tell(&mut program).await {
                Ok(()) => return Some(program),
                Err(e) => e,
            },
            Err(e) => e,
        };
    }
    book.waiting.drain(..).for_each(|to| _ = to.send(Err(cause.clone())));
    book.ending.drain(..).for_each(|to| _ = to.send(Err(cause.clone())));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::NextHop;

    const PART: Part = (0, false, 0);

    fn to(n: u32) -> NextHopSet {
        let hop = NextHop { address: n.to_be_bytes().to_vec(), ..NextHop::default() };
        NextHopSet { number: 7, next_hops: vec![hop], ..NextHopSet::default() }
    }

    fn prefix(n: u8) -> IpNet {
        format!("10.{n}.0.0/16").parse().unwrap()
    }

    #[test]
    fn numbers_of_sets_are_used_again() {
        let mut book = Book::default();
        let (stays, new) = book.number(to(u32::MAX));
        assert_eq!(new.unwrap().number, stays);
        assert!(book.note(PART, &[prefix(0), prefix(1)], Some(stays)).is_empty());
        assert_eq!(book.number(to(u32::MAX)), (stays, None));
        let mut before: Option<u32> = None;
        for n in 0..2 * SETS as u32 {
            let (number, new) = book.number(to(n));
            assert!((number as usize) < SETS && number != stays && new.unwrap().number == number);
            assert_eq!(book.note(PART, &[prefix(2), prefix(2)], Some(number)), Vec::from_iter(before));
            before = Some(number);
        }
        assert_eq!(book.live().count(), 2);
        assert_eq!(book.numbers.len(), 2);
        assert_eq!(book.note(PART, &[prefix(0), prefix(2)], None), Vec::from_iter(before));
        assert_eq!(book.live().map(|set| set.number).collect::<Vec<_>>(), [stays]);
        assert_eq!(book.clear(), [stays]);
        assert!(book.numbers.is_empty() && book.routes.is_empty() && book.free.len() == book.sets.len());
    }

    #[test]
    fn what_may_be_tried_again_passes() {
        let mut error = Error::protocol("too much");
        assert!(!passes(&error));
        error.retry_after = Some(Duration::from_secs(1));
        assert!(passes(&error));
    }
}
