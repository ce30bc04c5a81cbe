//! Documents are large, and read as a whole before anybody looks at them: only some at once.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use command::{Access, Client};
use control::places::share;
use http_body::Body as _;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;

use crate::layers::{Answering, Before, Inner, Polled, Through, through};
use crate::who::Who;

/// Calls with documents at once of those who may only look, and of those who may do more: nobody of the first keeps the others away.
const LOOKING: usize = 4;
const MORE: usize = 8;
/// A message of which nothing comes for so long is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Where such calls go.
const SERVICE: &str = "/quiver.v1.Configuration/";

/// Places for calls: of all together, and of each client that has some.
struct Places {
    most: usize,
    all: Arc<Semaphore>,
    each: Mutex<HashMap<Client, Weak<Semaphore>>>,
}

impl Places {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Places { most, all: Arc::new(Semaphore::new(most)), each: Mutex::default() })
    }

    fn of(&self, client: Client) -> Arc<Semaphore> {
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = each.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        each.retain(|_, of| of.strong_count() != 0);
        let of = Arc::new(Semaphore::new(share(self.most)));
        each.insert(client, Arc::downgrade(&of));
        of
    }
}

/// Has calls with documents wait for one another, before they are read.
#[derive(Clone)]
pub struct Documents {
    looking: Arc<Places>,
    more: Arc<Places>,
}

impl Documents {
    /// Nobody has begun any.
    pub fn new() -> Self {
        Documents { looking: Places::new(LOOKING), more: Places::new(MORE) }
    }
}

impl Before for Documents {
    fn call<S: Inner>(&self, inner: &mut S, request: Request<Body>) -> Answering<S::Error> {
        // The one that is ready is taken, and a copy of it left.
        let next = inner.clone();
        let mut inner = std::mem::replace(inner, next);
        let caller = request.extensions().get::<Who>().and_then(|who| who.0.as_ref().ok());
        // Whoever has no role is refused for that.
        let Some(caller) = caller.filter(|_| request.uri().path().starts_with(SERVICE)) else {
            return Box::pin(inner.call(request));
        };
        let places = if caller.access < Access::Operate { &self.looking } else { &self.more };
        let (all, own) = (Arc::clone(&places.all), places.of(caller.client()));
        Box::pin(async move {
            let places = (own.acquire_owned().await, all.acquire_owned().await);
            // What has begun goes on where the client is gone, and has its places until it is done.
            let called = tokio::spawn(async move {
                let done = inner.call(request.map(|body| through(body, Coming::new()))).await;
                drop(places);
                done
            });
            let failed = |_| Ok(Status::internal("the call has failed: the router's log tells").into_http());
            called.await.unwrap_or_else(failed)
        })
    }
}

/// A message that has to come.
struct Coming(Pin<Box<Sleep>>);

impl Coming {
    fn new() -> Self {
        Coming(Box::pin(sleep(PATIENCE)))
    }
}

impl Through for Coming {
    fn poll(&mut self, body: Pin<&mut Body>, context: &mut Context<'_>) -> Polled {
        let Poll::Ready(frame) = body.poll_frame(context) else {
            ready!(self.0.as_mut().poll(context));
            let why = format!("nothing of the message came for {} s", PATIENCE.as_secs());
            return Poll::Ready(Some(Err(Status::aborted(why).into())));
        };
        self.0.as_mut().reset(Instant::now() + PATIENCE);
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Layer;
    use crate::who::tests::somebody;
    use http_body::Frame;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::sync::Notify;
    use tonic::Code;
    use tonic::codegen::http::Response;
    use tonic::codegen::{Bytes, Service, StdError};
    use tower::Layer as _;

    /// What it does goes on until it is told that it is done.
    #[derive(Clone, Default)]
    struct Work {
        begun: Arc<AtomicUsize>,
        done: Arc<Notify>,
    }

    impl Service<Request<Body>> for Work {
        type Response = Response<Body>;
        type Error = StdError;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, StdError>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let Work { begun, done } = self.clone();
            Box::pin(async move {
                begun.fetch_add(1, Relaxed);
                done.notified().await;
                Ok(Response::default())
            })
        }
    }

    fn request(user: u32) -> Request<Body> {
        let mut request = Request::default();
        *request.uri_mut() = "http://localhost/quiver.v1.Configuration/Check".parse().unwrap();
        request.extensions_mut().insert(Who(Ok(somebody(user, Access::Read))));
        request
    }

    async fn settled() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn who_goes_away_keeps_his_places_until_what_he_began_is_done() {
        let work = Work::default();
        let mut documents = Layer(Documents::new()).layer(work.clone());
        let begun = || work.begun.load(Relaxed);
        for _ in 0..20 {
            let call = tokio::spawn(documents.call(request(7)));
            settled().await;
            call.abort();
        }
        assert_eq!(begun(), share(LOOKING));
        // He keeps nobody else away.
        let other = tokio::spawn(documents.call(request(8)));
        settled().await;
        assert_eq!(begun(), share(LOOKING) + 1);
        let again = tokio::spawn(documents.call(request(7)));
        settled().await;
        assert_eq!(begun(), share(LOOKING) + 1);
        work.done.notify_waiters();
        other.await.unwrap().unwrap();
        settled().await;
        assert_eq!(begun(), share(LOOKING) + 2);
        work.done.notify_waiters();
        again.await.unwrap().unwrap();
    }

    /// A message of which so much comes, and then nothing.
    struct Stalled(usize);

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = StdError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
            if self.0 == 0 {
                return Poll::Pending;
            }
            self.0 -= 1;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"some")))))
        }
    }

    #[tokio::test]
    async fn a_message_that_does_not_come_is_given_up() {
        let (mut body, mut coming) = (Body::new(Stalled(2)), Coming::new());
        let mut next = async || poll_fn(|cx| coming.poll(Pin::new(&mut body), cx)).await;
        assert!(next().await.unwrap().is_ok() && next().await.unwrap().is_ok());
        coming.0.as_mut().reset(Instant::now());
        let refused = poll_fn(|cx| coming.poll(Pin::new(&mut body), cx)).await;
        assert_eq!(refused.unwrap().unwrap_err().downcast::<Status>().unwrap().code(), Code::Aborted);
    }
}
