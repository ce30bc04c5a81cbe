//! What a client may take: calls at once, bytes, time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Sleep;
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::{Request, Status};

use crate::layers::{Answering, Before, Inner};

/// Calls of a connection at once; further ones wait in the client.
pub const CALLS: u32 = 32;
/// The largest message of most services, in bytes.
pub const MESSAGE: usize = 1 << 20;
/// The largest message with a document, in bytes.
pub const DOCUMENT: usize = 32 << 20;
/// What of a connection's requests may be under way and not yet read, in bytes: for each call, and together.
pub const WINDOW: u32 = 1 << 20;
pub const WINDOWS: u32 = 4 << 20;
/// A connection of which nothing is heard for so long is asked whether it is there, and closed when it then says nothing for so long.
pub const SILENCE: Duration = Duration::from_secs(10);
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Pieces of an answer that are held for a client which has not taken them.
pub const PIECES: usize = 2;

/// How long a client wants to wait for a call (`grpc-timeout`, gRPC over HTTP2).
fn time_left(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = number.parse::<u64>().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The deadline of a call.
pub struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// Of a request that has just come.
    pub fn of<T>(request: &Request<T>) -> Deadline {
        Deadline(time_left(request.metadata().as_ref()).map(|t| Box::pin(tokio::time::sleep(t))))
    }
}

fn over() -> Status {
    Status::deadline_exceeded("the time for the call is over")
}

/// Ends calls of which there is no answer yet when their time is over. So does tonic, around all this and no earlier: it says `CANCELLED`.
#[derive(Clone)]
pub struct Deadlines;

impl Before for Deadlines {
    fn call<S: Inner>(&self, inner: &mut S, request: http::Request<Body>) -> Answering<S::Error> {
        let sleep = time_left(request.headers()).map(tokio::time::sleep);
        let answer = inner.call(request);
        let Some(sleep) = sleep else { return Box::pin(answer) };
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = answer => answer,
                () = sleep => Ok(over().into_http()),
            }
        })
    }
}

/// An answer of many messages.
pub type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Ends an answer when the time for it is over.
pub fn until<T>(
    deadline: Deadline,
    answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Answers<T> {
    match deadline.0 {
        None => Box::pin(answers),
        Some(sleep) => Box::pin(Until { sleep: Some(sleep), answers: Box::pin(answers) }),
    }
}

struct Until<S> {
    /// None: it is over.
    sleep: Option<Pin<Box<Sleep>>>,
    answers: Pin<Box<S>>,
}

impl<T, S: Stream<Item = Result<T, Status>>> Stream for Until<S> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(sleep) = self.sleep.as_mut() else { return Poll::Ready(None) };
        if sleep.as_mut().poll(cx).is_ready() {
            self.sleep = None;
            return Poll::Ready(Some(Err(over())));
        }
        let next = ready!(self.answers.as_mut().poll_next(cx));
        Poll::Ready(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::Layer;
    use tonic::codegen::Service;
    use tower::Layer as _;

    #[test]
    fn the_time_for_a_call() {
        let left = |text: &str| {
            let mut metadata = http::HeaderMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            time_left(&metadata)
        };
        assert_eq!(left("2S"), Some(Duration::from_secs(2)));
        assert_eq!(left("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(left("150m"), Some(Duration::from_millis(150)));
        for wrong in ["", "S", "123456789S", "1x", "-1S", "1.5S"] {
            assert_eq!(left(wrong), None, "{wrong}");
        }
    }

    /// No answer comes.
    #[derive(Clone)]
    struct Never;

    impl Service<http::Request<Body>> for Never {
        type Response = http::Response<Body>;
        type Error = Status;
        type Future = std::future::Pending<Result<http::Response<Body>, Status>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: http::Request<Body>) -> Self::Future {
            std::future::pending()
        }
    }

    #[tokio::test]
    async fn a_call_whose_time_is_over_ends_before_tonic_ends_it() {
        let mut request = http::Request::new(Body::default());
        request.headers_mut().insert("grpc-timeout", "50m".parse().unwrap());
        let answer = Layer(Deadlines).layer(Never).call(request).await.unwrap();
        let status = Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }
}
