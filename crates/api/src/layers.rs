//! What stands before all services, one around the other: each does something with a call, and has the next one do the rest.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Bytes, Service, StdError};

/// What does the rest of a call.
pub trait Inner:
    Service<Request<Body>, Response = Response<Body>, Error: Send + 'static, Future: Send + 'static>
    + Clone
    + Send
    + 'static
{
}

impl<S> Inner for S where
    S: Service<Request<Body>, Response = Response<Body>, Error: Send + 'static, Future: Send + 'static>
        + Clone
        + Send
        + 'static
{
}

/// An answer that is to come.
pub type Answering<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

/// Does something with each call.
pub trait Before: Clone {
    /// A call comes, for which `inner` is ready.
    fn call<S: Inner>(&self, inner: &mut S, request: Request<Body>) -> Answering<S::Error>;
}

/// Puts something before a service.
#[derive(Clone)]
pub struct Layer<B>(pub B);

impl<B: Before, S> tower::Layer<S> for Layer<B> {
    type Service = Layered<B, S>;

    fn layer(&self, inner: S) -> Layered<B, S> {
        Layered { before: self.0.clone(), inner }
    }
}

/// A service with something before it.
#[derive(Clone)]
pub struct Layered<B, S> {
    before: B,
    inner: S,
}

impl<B: Before, S: Inner> Service<Request<Body>> for Layered<B, S> {
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Answering<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.before.call(&mut self.inner, request)
    }
}

/// A frame of a body, as [`http_body::Body::poll_frame`] has it.
pub type Polled = Poll<Option<Result<Frame<Bytes>, StdError>>>;

/// Does something with what comes of a body.
pub trait Through: Send + Unpin + 'static {
    /// The next frame.
    fn poll(&mut self, body: Pin<&mut Body>, context: &mut Context<'_>) -> Polled;

    /// Nothing comes any more, whatever the body has.
    fn is_over(&self) -> bool {
        false
    }
}

/// A body that comes through something.
pub fn through(body: Body, way: impl Through) -> Body {
    Body::new(Passed { body, way })
}

struct Passed<T> {
    body: Body,
    way: T,
}

impl<T: Through> http_body::Body for Passed<T> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        let Passed { body, way } = &mut *self;
        way.poll(Pin::new(body), context)
    }

    fn is_end_stream(&self) -> bool {
        self.way.is_over() || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
