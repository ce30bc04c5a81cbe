//! Events. What they are stands in [`control::events`]; here they get numbers, and become messages.

mod drops;
mod to;

use std::sync::Arc;

use control::clients::{self, Watch};
use control::commands::Desk;
use control::events::{Following, Kind, Level, Told, Wanted};
use tokio::sync::mpsc::{self, Receiver};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{Router, routes};
use crate::limits::{self, Answers, Deadline};
use crate::v1::events_server::Events;
use crate::v1::{Event, EventKind, LogLevel, WatchEventsRequest, event};
use crate::{status, who};

pub use drops::Sampler;

/// Messages that wait for the client beside the queue of events, and changes of routes that wait.
const MESSAGES: usize = 16;
const CHANGES: usize = 2;

fn kinds(asked: &[i32]) -> Result<Vec<Kind>, Status> {
    if asked.is_empty() {
        return Ok(Kind::ALL.into_iter().filter(|k| *k != Kind::Routes).collect());
    }
    let known = |n: &i32| {
        let kind = EventKind::try_from(*n).ok().and_then(to::kind_of);
        kind.ok_or_else(|| Status::invalid_argument(format!("kinds: there is no kind {n} of events")))
    };
    asked.iter().map(known).collect()
}

fn level(asked: i32) -> Result<Level, Status> {
    match LogLevel::try_from(asked) {
        Ok(LogLevel::Unspecified | LogLevel::Info) => Ok(Level::Info),
        Ok(LogLevel::Error) => Ok(Level::Error),
        Ok(LogLevel::Warn) => Ok(Level::Warn),
        Ok(LogLevel::Debug) => Ok(Level::Debug),
        Ok(LogLevel::Trace) => Ok(Level::Trace),
        Err(_) => Err(Status::invalid_argument(format!("log_level: there is no level {asked}"))),
    }
}

/// Follows until the client takes no messages any more.
async fn follow(
    following: Arc<Following>,
    mut routes: Option<Receiver<clients::Event>>,
    to: mpsc::Sender<Event>,
) {
    let mut number = 1;
    loop {
        let (message, lost) = tokio::select! {
            told = following.next() => match told {
                Told::Event(event) => (to::event(&event), 0),
                Told::Gap(lost) => to::gap(&lost),
            },
            Some(event) = changed(&mut routes) => match event {
                clients::Event::Gap(lost) => to::gap_of_routes(lost),
                event => match to::routes(event) {
                    Some(message) => (message, 0),
                    None => continue,
                },
            },
            () = to.closed() => return,
        };
        let skipped = number + lost;
        if to.send(Event { number, ..message }).await.is_err() {
            return;
        }
        number = skipped + 1;
    }
}

async fn changed(routes: &mut Option<Receiver<clients::Event>>) -> Option<clients::Event> {
    match routes {
        Some(routes) => routes.recv().await,
        None => std::future::pending().await,
    }
}

impl Router {
    /// Changes of routes, without those that there are.
    async fn changes(&self, filter: clients::Filter) -> Result<Receiver<clients::Event>, Status> {
        let (to, events) = mpsc::channel(CHANGES);
        let begun = self.0.door.ask(async move |_, desk: Desk| {
            let watch = Watch::changes_of(&desk.router, filter)?;
            tokio::task::spawn_local(routes::tell_changes(watch, to));
            Ok::<(), String>(())
        });
        begun.await.map_err(status::closed)?.map_err(Status::invalid_argument)?;
        Ok(events)
    }
}

#[tonic::async_trait]
impl Events for Router {
    type WatchStream = Answers<Event>;

    async fn watch(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = who::caller(&request)?;
        let deadline = Deadline::of(&request);
        let WatchEventsRequest { kinds, interfaces, log_level, drops_per_second, routes } =
            request.into_inner();
        let kinds = self::kinds(&kinds)?;
        let mut wanted = Wanted::new(kinds).of(interfaces);
        wanted.level = level(log_level)?;
        let of_routes = wanted.has(Kind::Routes);
        if routes.is_some() && !of_routes {
            return Err(Status::invalid_argument("routes: a filter of what kinds do not ask for"));
        }
        let filter = routes::filter(routes).map_err(Status::invalid_argument)?;
        let drops = wanted.has(Kind::Drops).then(|| wanted.clone());
        let place = self.place(|s| &s.events, &caller)?;
        let begun = self.0.door.ask(async move |_, desk: Desk| desk.events().follow(&desk.router, wanted));
        let following = begun.await.map_err(status::closed)?.map_err(Status::failed_precondition)?;
        let following = Arc::new(following);
        let routes = if of_routes { Some(self.changes(filter).await?) } else { None };
        if let Some(wanted) = drops {
            let rates = self.rates().await?;
            let least = drops_per_second.max(1) as f64;
            tokio::spawn(drops::tell(self.clone(), rates, Arc::downgrade(&following), wanted, least));
        }
        let (to, messages) = mpsc::channel(MESSAGES);
        tokio::spawn(async move {
            follow(following, routes, to).await;
            drop(place);
        });
        let messages = tokio_stream::StreamExt::map(ReceiverStream::new(messages), Ok);
        Ok(Response::new(limits::until(deadline, messages)))
    }
}

/// What is in a message.
pub(super) fn message(kind: EventKind, what: event::What) -> Event {
    Event { number: 0, time_ns: 0, kind: kind.into(), what: Some(what) }
}
