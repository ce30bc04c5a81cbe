//! Documents are large, and read as a whole before anybody looks at them: only some at once.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use command::Access;
use tokio::sync::Semaphore;
use tonic::codegen::Service;
use tonic::codegen::http::Request;

use crate::who::Who;

/// Calls with documents at once of those who may only look, and of those who may do more: nobody of the first keeps the others away.
const LOOKING: usize = 4;
const MORE: usize = 8;
/// Where such calls go.
const SERVICE: &str = "/quiver.v1.Configuration/";

/// Has calls with documents wait for one another, before they are read.
#[derive(Clone)]
pub struct Documents<S> {
    inner: S,
    looking: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

impl<S> Documents<S> {
    /// Before a service.
    pub fn new(inner: S) -> Self {
        let places = |n| Arc::new(Semaphore::new(n));
        Documents { inner, looking: places(LOOKING), more: places(MORE) }
    }
}

impl<S, B> Service<Request<B>> for Documents<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that is ready is taken, and a copy of it left.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        if !request.uri().path().starts_with(SERVICE) {
            return Box::pin(inner.call(request));
        }
        let who = request.extensions().get::<Who>().and_then(|who| who.0.as_ref().ok());
        let looks = who.is_none_or(|caller| caller.access < Access::Operate);
        let places = Arc::clone(if looks { &self.looking } else { &self.more });
        Box::pin(async move {
            let _place = places.acquire_owned().await;
            inner.call(request).await
        })
    }
}
