//! The end of the router, told to who has a call under way: a connection that just breaks leaves a client without a reason.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body as _, Frame};
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request};

use crate::layers::{Answering, Before, Inner, Polled, Through, through};
use crate::status;

/// So long a call may still take of which there is no answer yet: what has been changed is to be acknowledged.
const GRACE: Duration = Duration::from_millis(500);

/// Frames of an answer that still go out: the only message and its status, but not a stream that always has more.
const LATE: u8 = 2;

/// Whether the router ends, for who has to know.
#[derive(Clone, Debug)]
pub struct Ending(watch::Receiver<bool>);

impl Ending {
    /// It ends when the sender says so.
    pub fn new() -> (watch::Sender<bool>, Ending) {
        let (to, told) = watch::channel(false);
        (to, Ending(told))
    }

    /// Waits until the router ends.
    pub async fn told(mut self) {
        // Who could say so has gone: what waits for this is dropped in a moment.
        let _ = self.0.wait_for(|ends| *ends).await;
    }

    fn ends(&self) -> bool {
        *self.0.borrow()
    }
}

/// Why calls end.
pub fn ends() -> Status {
    status::ended("the router ends")
}

/// Refuses calls when the router ends, and ends those that are under way.
#[derive(Clone)]
pub struct Ends(pub Ending);

impl Before for Ends {
    fn call<S: Inner>(&self, inner: &mut S, request: Request<Body>) -> Answering<S::Error> {
        if self.0.ends() {
            return Box::pin(std::future::ready(Ok(ends().into_http())));
        }
        let ending = self.0.clone();
        let answer = inner.call(request);
        Box::pin(async move {
            let over = async {
                ending.clone().told().await;
                tokio::time::sleep(GRACE).await;
            };
            tokio::select! {
                biased;
                answer = answer => Ok(answer?.map(|body| through(body, Answer::new(ending)))),
                () = over => Ok(ends().into_http()),
            }
        })
    }
}

/// An answer, which the end of the router ends.
struct Answer {
    ending: Ending,
    /// Made where the answer has to be waited for.
    told: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Frames that were handed on since then.
    late: u8,
    ended: bool,
}

impl Answer {
    fn new(ending: Ending) -> Self {
        Answer { ending, told: None, late: 0, ended: false }
    }
}

impl Through for Answer {
    fn poll(&mut self, body: Pin<&mut Body>, context: &mut Context<'_>) -> Polled {
        if self.ended {
            return Poll::Ready(None);
        }
        let late = self.ending.ends();
        if !late || self.late < LATE {
            self.late += u8::from(late);
            if let Poll::Ready(frame) = body.poll_frame(context) {
                self.ended = frame.as_ref().is_none_or(|f| f.as_ref().is_ok_and(Frame::is_trailers));
                return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
            }
        }
        let ending = self.ending.clone();
        let told = self.told.get_or_insert_with(|| Box::pin(ending.told()));
        if told.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        let mut trailers = HeaderMap::new();
        ends().add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_over(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Layer;
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};
    use tokio::sync::mpsc;
    use tonic::Code;
    use tonic::codegen::http::Response;
    use tonic::codegen::{Bytes, Service};
    use tower::Layer as _;

    /// Frames that come over a queue.
    struct Queue(mpsc::UnboundedReceiver<Frame<Bytes>>);

    impl http_body::Body for Queue {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.poll_recv(context).map(|frame| frame.map(Ok))
        }
    }

    /// A service that answers with the bodies of a queue.
    #[derive(Clone)]
    struct Bodies(Arc<Mutex<mpsc::UnboundedReceiver<Body>>>);

    impl Service<Request<Body>> for Bodies {
        type Response = Response<Body>;
        type Error = Status;
        type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Status>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let body = self.0.lock().unwrap().try_recv().ok();
            Box::pin(async move {
                match body {
                    Some(body) => Ok(Response::new(body)),
                    None => std::future::pending().await,
                }
            })
        }
    }

    fn data() -> Frame<Bytes> {
        Frame::data(Bytes::from_static(b"x"))
    }

    /// What comes of a body: `d` for data, and the code in the trailers.
    async fn frames(body: &mut Body) -> (String, Option<Code>) {
        let mut seen = String::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            let frame = frame.unwrap();
            match frame.trailers_ref() {
                Some(trailers) => return (seen, Status::from_header_map(trailers).map(|s| s.code())),
                None => seen += "d",
            }
        }
        (seen, None)
    }

    fn ok() -> Frame<Bytes> {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        Frame::trailers(trailers)
    }

    #[tokio::test]
    async fn who_has_a_call_under_way_is_told() {
        let (end, ending) = Ending::new();
        let (bodies, queue) = mpsc::unbounded_channel();
        let mut service = Layer(Ends(ending)).layer(Bodies(Arc::new(Mutex::new(queue))));
        let mut begin = async |frames: Vec<Frame<Bytes>>| {
            let (to, queue) = mpsc::unbounded_channel();
            frames.into_iter().for_each(|f| to.send(f).unwrap());
            bodies.send(Body::new(Queue(queue))).unwrap();
            (to, service.call(Request::default()).await.unwrap().into_body())
        };
        let (_silent, mut silent) = begin(vec![]).await;
        let (_whole, mut whole) = begin(vec![data(), ok()]).await;
        let (endless, mut always) = begin((0..100).map(|_| data()).collect()).await;
        let first = tokio::spawn(async move { frames(&mut silent).await });
        tokio::task::yield_now().await;
        let waits = tokio::spawn(service.call(Request::default()));
        tokio::task::yield_now().await;
        end.send(true).unwrap();
        assert_eq!(first.await.unwrap(), (String::new(), Some(Code::Unavailable)));
        // What is done is acknowledged.
        assert_eq!(frames(&mut whole).await, ("d".into(), Some(Code::Ok)));
        assert_eq!(frames(&mut always).await, ("dd".into(), Some(Code::Unavailable)));
        drop(endless);
        for refused in [waits.await.unwrap(), service.call(Request::default()).await] {
            let status = Status::from_header_map(refused.unwrap().headers()).unwrap();
            assert_eq!((status.code(), status.message()), (Code::Unavailable, "the router ends"));
        }
    }
}
