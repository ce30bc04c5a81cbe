//! Packets: captures, traces, and packets to and from a program.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::v1::packets_client::PacketsClient;
use crate::v1::{
    CaptureRequest, CaptureResponse, ErrorInfo, InjectRequest, InjectResponse, PuntRequest, PuntResponse,
    TraceRequest, TraceResponse, capture_response, punt_request, punt_response, trace_response,
};
use crate::{Error, Router};

/// What a stream of packets tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Passed<T> {
    /// A packet.
    Packet(T),
    /// So many packets were lost here, as they were not taken in time.
    Lost(u64),
}

/// Packets as they come, a [`Stream`]. Dropping it ends what brings them.
#[derive(Debug)]
pub struct Passing<M, T> {
    messages: Streaming<M>,
    read: fn(M) -> (Vec<T>, u64),
    waiting: VecDeque<Passed<T>>,
}

impl<M, T> Passing<M, T> {
    /// The first message says that packets come from then on.
    async fn begin(mut messages: Streaming<M>, read: fn(M) -> (Vec<T>, u64)) -> Result<Self, Error> {
        match messages.message().await? {
            Some(_) => Ok(Passing { messages, read, waiting: VecDeque::new() }),
            None => Err(Error::protocol("the router has ended what did not begin")),
        }
    }
}

impl<M, T: Unpin> Stream for Passing<M, T> {
    type Item = Result<Passed<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Poll::Ready(Some(Ok(next)));
            }
            match Pin::new(&mut self.messages).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(Err(status.into()))),
                Poll::Ready(Some(Ok(message))) => {
                    let (packets, lost) = (self.read)(message);
                    self.waiting.extend(packets.into_iter().map(Passed::Packet));
                    self.waiting.extend((lost != 0).then_some(Passed::Lost(lost)));
                }
            }
        }
    }
}

/// Packets of a capture.
pub type Capture = Passing<CaptureResponse, capture_response::Packet>;

/// Packets with what each node did with them.
pub type Trace = Passing<TraceResponse, trace_response::Packet>;

/// Packets that a program has asked for.
pub type Punt = Passing<PuntResponse, punt_response::Packet>;

/// A stream of packets into the graph.
#[derive(Debug)]
pub struct Injector {
    requests: mpsc::Sender<InjectRequest>,
    answers: Streaming<InjectResponse>,
}

impl Injector {
    /// Puts packets into the graph at a node, and waits until they are there; how many were taken. `Err` of `Ok` is a request that was
    /// refused, after which others may follow.
    ///
    /// # Errors
    /// The router is gone, or does not let packets in.
    pub async fn inject(&mut self, request: InjectRequest) -> Result<Result<u64, ErrorInfo>, Error> {
        let gone = || Error::protocol("the router has ended the stream of packets");
        // Why it takes none the answer tells.
        let _ = self.requests.send(request).await;
        let answer = self.answers.message().await?.ok_or_else(gone)?;
        Ok(answer.error.map_or(Ok(answer.taken), Err))
    }
}

impl Router {
    fn packets(&self) -> PacketsClient<tonic::transport::Channel> {
        PacketsClient::new(self.channel())
    }

    /// Copies of packets as they pass: from the return on all of those that were asked for.
    ///
    /// # Errors
    /// There is no such interface, or something else is not right in the request.
    pub async fn capture(&self, what: CaptureRequest) -> Result<Capture, Error> {
        let messages = self.packets().capture(self.request(what)).await?.into_inner();
        Passing::begin(messages, |m| (m.packets, m.lost)).await
    }

    /// What nodes do with packets that come to some of them: from the return on, of as many packets as were asked for.
    ///
    /// # Errors
    /// There is no such node or interface, or something else is not right in the request.
    pub async fn trace(&self, what: TraceRequest) -> Result<Trace, Error> {
        let messages = self.packets().trace(self.request(what)).await?.into_inner();
        Passing::begin(messages, |m| (m.packets, m.lost)).await
    }

    /// Has packets for the router itself, of any of these kinds, come here: from the return on, until this is dropped.
    ///
    /// # Errors
    /// A filter cannot be, or somebody else has its packets.
    pub async fn punt(&self, filters: Vec<punt_request::Filter>) -> Result<Punt, Error> {
        let messages = self.packets().punt(self.request(PuntRequest { filters })).await?.into_inner();
        Passing::begin(messages, |m| (m.packets, m.lost)).await
    }

    /// A way for packets into the graph.
    ///
    /// # Errors
    /// The role `configure` is missing, or the router is gone.
    pub async fn injector(&self) -> Result<Injector, Error> {
        let (requests, sent) = mpsc::channel(1);
        let request = self.request(ReceiverStream::new(sent));
        let answers = self.packets().inject(request).await?.into_inner();
        Ok(Injector { requests, answers })
    }
}
