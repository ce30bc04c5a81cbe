//! Programming, reading and following routes.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ipnet::IpNet;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::v1::routes_client::RoutesClient;
use crate::v1::{
    ListRoutesRequest, NextHopSet, NextHopSets, ProgramReply, ProgramRequest, RouteBatch, RouteChanges,
    RouteError, RouteEvent, RouteFilter, RouteHello, RouteKind, RouteSync, RouteWelcome, WatchRoutesRequest,
    program_reply, program_request,
};
use crate::{Error, Router};

/// Messages that wait in the client.
const WAITING: usize = 1024;
/// Errors that are kept until somebody takes them.
const MOST_ERRORS: usize = 4096;

/// What a follower is told, as it comes.
pub type Events = Streaming<RouteEvent>;

/// A route as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its prefix.
    pub prefix: IpNet,
    /// Whose it is, and where its packets go.
    pub kind: Arc<RouteKind>,
    /// Packets use it.
    pub used: bool,
}

/// Puts a prefix behind others, packed: its length, then all bytes of its address.
pub fn push(bytes: &mut Vec<u8>, prefix: IpNet) {
    bytes.push(prefix.prefix_len());
    match prefix {
        IpNet::V4(p) => bytes.extend(p.addr().octets()),
        IpNet::V6(p) => bytes.extend(p.addr().octets()),
    }
}

/// The prefixes that stand packed in bytes.
pub fn prefixes(ipv6: bool, bytes: &[u8]) -> impl Iterator<Item = IpNet> + '_ {
    bytes.chunks_exact(if ipv6 { 17 } else { 5 }).filter_map(|b| {
        let (len, address) = b.split_first()?;
        match <[u8; 4]>::try_from(address) {
            Ok(four) => IpNet::new(four.into(), *len).ok(),
            Err(_) => IpNet::new(<[u8; 16]>::try_from(address).ok()?.into(), *len).ok(),
        }
    })
}

impl Router {
    /// Begins to program routes. The role `configure` is needed.
    ///
    /// # Errors
    /// As the router says.
    pub async fn program(&self, hello: RouteHello) -> Result<Program, Error> {
        let (to, requests) = mpsc::channel(WAITING);
        let first = ProgramRequest { what: Some(program_request::What::Hello(hello)) };
        to.send(first).await.map_err(|_| Error::protocol("the stream is closed"))?;
        let request = self.request(ReceiverStream::new(requests));
        let mut replies = RoutesClient::new(self.channel()).program(request).await?.into_inner();
        match replies.message().await?.and_then(|r| r.what) {
            Some(program_reply::What::Welcome(welcome)) => Ok(Program {
                welcome,
                to,
                replies,
                last: 0,
                done: 0,
                refused: 0,
                errors: vec![],
                swept: None,
            }),
            _ => Err(Error::protocol("the router does not say who its client is")),
        }
    }

    /// The routes that a filter takes, by prefix, those of a prefix from the one in use on.
    ///
    /// # Errors
    /// As the router says.
    pub async fn routes(&self, filter: RouteFilter) -> Result<Listed, Error> {
        let batches = self.route_batches(filter).await?;
        Ok(Listed { batches, kinds: Kinds::default(), read: VecDeque::new() })
    }

    /// The same as they come, packed.
    ///
    /// # Errors
    /// As the router says.
    pub async fn route_batches(&self, filter: RouteFilter) -> Result<Streaming<RouteBatch>, Error> {
        let request = self.request(ListRoutesRequest { filter: Some(filter) });
        Ok(RoutesClient::new(self.channel()).list(request).await?.into_inner())
    }

    /// What a follower of the routes that a filter takes is told; [`Kinds`] reads its batches.
    ///
    /// # Errors
    /// As the router says.
    pub async fn watch_routes(&self, filter: RouteFilter) -> Result<Events, Error> {
        let request = self.request(WatchRoutesRequest { filter: Some(filter) });
        Ok(RoutesClient::new(self.channel()).watch(request).await?.into_inner())
    }
}

/// A stream of changes. When it is dropped, what was sent before it is still made.
#[derive(Debug)]
pub struct Program {
    /// What the router has of this client.
    pub welcome: RouteWelcome,
    to: Sender<ProgramRequest>,
    replies: Streaming<ProgramReply>,
    last: u64,
    done: u64,
    refused: u64,
    errors: Vec<RouteError>,
    swept: Option<u64>,
}

impl Program {
    async fn send(&mut self, what: program_request::What) -> Result<(), Error> {
        let mut message = Some(ProgramRequest { what: Some(what) });
        loop {
            // The router waits for answers to be taken as well.
            tokio::select! {
                place = self.to.reserve() => {
                    if let (Ok(place), Some(message)) = (place, message.take()) {
                        place.send(message);
                        return Ok(());
                    }
                    // Why the stream has ended stands in the answers.
                    message = None;
                    let reply = self.replies.message().await;
                    take(reply, &mut self.done, &mut self.refused, &mut self.errors, &mut self.swept)?;
                }
                reply = self.replies.message() => {
                    take(reply, &mut self.done, &mut self.refused, &mut self.errors, &mut self.swept)?;
                }
            }
        }
    }

    /// Waits for an answer, and notes it.
    pub(crate) async fn reply(&mut self) -> Result<(), Error> {
        let reply = self.replies.message().await;
        take(reply, &mut self.done, &mut self.refused, &mut self.errors, &mut self.swept)
    }

    /// Says where packets of routes go, by number.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn next_hops(&mut self, sets: Vec<NextHopSet>) -> Result<(), Error> {
        self.send(program_request::What::Sets(NextHopSets { sets })).await
    }

    /// Sends changes, to which it gives their number, and answers that. It does not wait until they are made, but for the router to
    /// take more.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn change(&mut self, changes: RouteChanges) -> Result<u64, Error> {
        self.last += 1;
        self.send(program_request::What::Changes(RouteChanges { id: self.last, ..changes })).await?;
        Ok(self.last)
    }

    /// Waits until workers use all changes up to a number.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn wait_for(&mut self, id: u64) -> Result<(), Error> {
        while self.done < id {
            self.reply().await?;
        }
        Ok(())
    }

    /// Waits until workers use all that was sent. What was refused is told by [`Program::errors`].
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.wait_for(self.last).await
    }

    /// Begins to send all routes again.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn begin_sync(&mut self) -> Result<(), Error> {
        self.send(program_request::What::Sync(RouteSync::Begin.into())).await
    }

    /// All are sent: takes away those that were not, and answers how many.
    ///
    /// # Errors
    /// The stream has ended.
    pub async fn end_sync(&mut self) -> Result<u64, Error> {
        self.swept = None;
        self.send(program_request::What::Sync(RouteSync::End.into())).await?;
        loop {
            if let Some(gone) = self.swept.take() {
                return Ok(gone);
            }
            self.reply().await?;
        }
    }

    /// Takes what is known of refused routes and sets: how many routes, and what is wrong with the first of them.
    pub fn errors(&mut self) -> (u64, Vec<RouteError>) {
        (std::mem::take(&mut self.refused), std::mem::take(&mut self.errors))
    }
}

/// Notes what the router has answered.
fn take(
    reply: Result<Option<ProgramReply>, Status>,
    done: &mut u64,
    refused: &mut u64,
    errors: &mut Vec<RouteError>,
    swept: &mut Option<u64>,
) -> Result<(), Error> {
    match reply?.map(|r| r.what) {
        None => return Err(Status::unavailable("the router has ended the stream").into()),
        Some(Some(program_reply::What::Done(d))) => {
            *done = d.id.max(*done);
            *refused += d.refused;
            errors.extend(d.errors.into_iter().take(MOST_ERRORS.saturating_sub(errors.len())));
        }
        Some(Some(program_reply::What::Swept(s))) => *swept = Some(s.gone),
        Some(Some(program_reply::What::Welcome(_)) | None) => {}
    }
    Ok(())
}

/// What numbers of kinds stand for in a stream.
#[derive(Debug, Default)]
pub struct Kinds(HashMap<u32, Arc<RouteKind>>);

impl Kinds {
    /// The routes of a batch.
    pub fn read<'a>(&mut self, batch: &'a mut RouteBatch) -> impl Iterator<Item = Route> {
        if batch.forget_kinds {
            self.0.clear();
        }
        self.0.extend(batch.kinds.drain(..).map(|k| (k.number, Arc::new(k))));
        let batch: &'a RouteBatch = batch;
        let mut unused = batch.unused.iter().copied().peekable();
        let all = prefixes(batch.ipv6, &batch.prefixes).zip(&batch.of_kind).zip(0..);
        all.filter_map(move |((prefix, kind), at)| {
            let used = unused.next_if_eq(&at).is_none();
            Some(Route { prefix, kind: Arc::clone(self.0.get(kind)?), used })
        })
    }
}

/// Routes as they are read.
#[derive(Debug)]
pub struct Listed {
    batches: Streaming<RouteBatch>,
    kinds: Kinds,
    read: VecDeque<Route>,
}

impl Listed {
    /// The next route; nothing behind the last.
    pub async fn next(&mut self) -> Option<Result<Route, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Listed {
    type Item = Result<Route, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(route) = this.read.pop_front() {
                return Poll::Ready(Some(Ok(route)));
            }
            match std::task::ready!(Pin::new(&mut this.batches).poll_next(context)) {
                None => return Poll::Ready(None),
                Some(Err(e)) => return Poll::Ready(Some(Err(e.into()))),
                Some(Ok(mut batch)) => this.read.extend(this.kinds.read(&mut batch)),
            }
        }
    }
}
