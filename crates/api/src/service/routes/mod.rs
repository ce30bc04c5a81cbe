//! Routes: programmed, read back, followed. What that is stands in [`control::clients`]; here messages are turned into it.

mod from;
mod to;

pub use from::filter;
pub use to::update;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use command::Access;
use control::clients::{self, Answer, Event, Lister, MOST_ROUTES, Order, Page, Refusal, Watch};
use control::commands::Desk;
use control::ctl::Here;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::Router;
use crate::limits::{self, Answers, Deadline};
use crate::v1::routes_server::Routes;
use crate::v1::{
    ListRoutesRequest, ProgramReply, ProgramRequest, RouteBatch, RouteEvent, WatchRoutesRequest,
    program_request,
};
use crate::{status, who};

/// The largest message of this service, in bytes: the most IPv6 routes, each with the number of its set.
pub const MESSAGE: usize = 2 << 20;
/// Messages that are handed on at once, as far as they have come.
const TOGETHER: usize = 512;
/// Handfuls of them that wait for the control thread, answers that wait for the client, and pages of routes.
const ORDERS: usize = 2;
const REPLIES: usize = 8;
const PAGES: usize = 4;

fn refused(r: &Refusal) -> Status {
    match r.malformed {
        true => Status::invalid_argument(&r.message),
        false => Status::failed_precondition(&r.message),
    }
}

/// The next messages as orders, as many as have come; nothing behind the last.
async fn handful(messages: &mut Streaming<ProgramRequest>, ended: &mut bool) -> Result<Vec<Order>, Status> {
    poll_fn(|context| {
        let (mut all, mut count, mut routes) = (vec![], 0, 0);
        while !*ended && count < TOGETHER && routes < MOST_ROUTES {
            match Pin::new(&mut *messages).poll_next(context) {
                Poll::Pending if all.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(None) => *ended = true,
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Err(e)),
                Poll::Ready(Some(Ok(message))) => match from::orders(message, &mut all) {
                    Ok(more) => (count, routes) = (count + 1, routes + more),
                    Err(why) => return Poll::Ready(Err(Status::invalid_argument(why))),
                },
            }
        }
        Poll::Ready(Ok(all))
    })
    .await
}

/// Hands on what a client sends, until it has ended. What came with a message that is none is not used.
async fn take(
    mut messages: Streaming<ProgramRequest>,
    orders: Sender<Vec<Order>>,
    replies: Sender<Result<ProgramReply, Status>>,
) {
    let mut ended = false;
    loop {
        let some = tokio::select! {
            some = handful(&mut messages, &mut ended) => some,
            // The stream was refused.
            () = orders.closed() => return,
        };
        match some {
            Ok(some) if some.is_empty() => return,
            Ok(some) => {
                if orders.send(some).await.is_err() {
                    return;
                }
            }
            Err(e) => {
                let _ = replies.send(Err(e)).await;
                return;
            }
        }
    }
}

/// What the router answers, as messages.
async fn tell(mut answers: Receiver<Result<Answer, Refusal>>, replies: Sender<Result<ProgramReply, Status>>) {
    while let Some(answer) = answers.recv().await {
        let reply = answer.map(to::reply).map_err(|r| refused(&r));
        if replies.send(reply).await.is_err() {
            return;
        }
    }
}

/// Hands on what changes, on the control thread, until nobody takes it any more.
pub async fn tell_changes(mut watch: Watch, to: Sender<Event>) {
    loop {
        let event = tokio::select! {
            event = watch.next() => event,
            () = to.closed() => return,
        };
        if to.send(event).await.is_err() {
            return;
        }
    }
}

/// What comes from the control thread as messages.
fn messages<T: Send + 'static, M: Send + 'static>(
    deadline: Deadline,
    from: Receiver<T>,
    message: fn(T) -> M,
) -> Answers<M> {
    limits::until(deadline, ReceiverStream::new(from).map(move |t| Ok(message(t))))
}

#[tonic::async_trait]
impl Routes for Router {
    type ProgramStream = Answers<ProgramReply>;

    async fn program(
        &self,
        request: Request<Streaming<ProgramRequest>>,
    ) -> Result<Response<Self::ProgramStream>, Status> {
        let caller = who::caller_with(&request, Access::Write)?;
        let deadline = Deadline::of(&request);
        let mut requests = request.into_inner();
        let (to_router, orders) = mpsc::channel(ORDERS);
        let (to_us, answers) = mpsc::channel(REPLIES);
        let (to_client, replies) = mpsc::channel(REPLIES);
        let door = self.0.door.clone();
        tokio::spawn(async move {
            let first = requests.message().await;
            let hello = match first.map(|m| m.and_then(|m| m.what)) {
                Ok(Some(program_request::What::Hello(hello))) => {
                    from::hello(hello).map_err(Status::invalid_argument)
                }
                Ok(None) => return,
                Ok(Some(_)) => {
                    Err(Status::invalid_argument("the first message says who you are: a RouteHello"))
                }
                Err(e) => Err(e),
            };
            let hello = match hello {
                Ok(hello) => hello,
                Err(e) => {
                    let _ = to_client.send(Err(e)).await;
                    return;
                }
            };
            let user = from::user(&caller);
            let begun = door.send(async move |_, desk: Desk| {
                clients::serve(desk.router, desk.clients, (hello, user), orders, to_us).await;
            });
            if let Err(e) = begun.await {
                let _ = to_client.send(Err(status::closed(e))).await;
                return;
            }
            // Who takes no answers any more, or is refused, has ended.
            tokio::join!(take(requests, to_router, to_client.clone()), tell(answers, to_client));
        });
        Ok(Response::new(limits::until(deadline, ReceiverStream::new(replies))))
    }

    type ListStream = Answers<RouteBatch>;

    async fn list(&self, request: Request<ListRoutesRequest>) -> Result<Response<Self::ListStream>, Status> {
        who::caller(&request)?;
        let deadline = Deadline::of(&request);
        let filter = filter(request.into_inner().filter).map_err(Status::invalid_argument)?;
        let (to, pages) = mpsc::channel::<Page>(PAGES);
        let begun = self.0.door.ask(async move |here: Here, desk: Desk| {
            let router = desk.router;
            filter.check(&router.borrow())?;
            let mut lister = Lister::new(filter);
            tokio::task::spawn_local(async move {
                const WHAT: &str = "routes for a program";
                let mut page = here.turn(WHAT, || lister.next(&router.borrow())).await;
                while let Some(routes) = page {
                    if (!routes.is_empty() || routes.forget) && to.send(routes).await.is_err() {
                        return;
                    }
                    // Who asks for little does not wait for those who ask for much, only to hear that this was all.
                    if lister.is_at_end() {
                        return;
                    }
                    page = here.long_turn(WHAT, || lister.next(&router.borrow())).await;
                }
            });
            Ok::<(), String>(())
        });
        begun.await.map_err(status::closed)?.map_err(Status::invalid_argument)?;
        Ok(Response::new(messages(deadline, pages, to::batch)))
    }

    type WatchStream = Answers<RouteEvent>;

    async fn watch(
        &self,
        request: Request<WatchRoutesRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = who::caller(&request)?;
        let deadline = Deadline::of(&request);
        let filter = filter(request.into_inner().filter).map_err(Status::invalid_argument)?;
        let place = self.place(|s| &s.routes, &caller)?;
        let (to, events) = mpsc::channel::<Event>(PAGES);
        let begun = self.0.door.ask(async move |here: Here, desk: Desk| {
            let watch = Watch::new(&desk.router, filter)?.behind(here.long());
            tokio::task::spawn_local(async move {
                tell_changes(watch, to).await;
                drop(place);
            });
            Ok::<(), String>(())
        });
        begun.await.map_err(status::closed)?.map_err(Status::invalid_argument)?;
        Ok(Response::new(messages(deadline, events, to::event)))
    }
}
