//! What happens in the router.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio_stream::Stream;
use tonic::Streaming;

use crate::keep::{Pause, passes};
use crate::v1::events_client::EventsClient;
use crate::v1::{
    Event, EventChange, EventGap, EventKind, LinkEvent, NeighborEvent, WatchEventsRequest, event,
};
use crate::{Error, Router};

/// Events as they come. It is a [`Stream`]; dropping it ends the call. When the connection or the router has gone it comes back by itself: a
/// gap without counts tells of that, and all numbers and snapshots begin anew behind it.
pub struct Happenings {
    router: Router,
    wanted: WatchEventsRequest,
    /// When the time of the router's calls is over.
    end: Option<Instant>,
    call: Call,
}

enum Call {
    Told(Box<Streaming<Event>>),
    /// Another one is begun.
    Begun(Pin<Box<dyn Future<Output = Result<Streaming<Event>, Error>> + Send>>),
    Ended,
}

impl fmt::Debug for Happenings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Happenings").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Happenings {
    /// The next event; nothing behind the last one.
    ///
    /// # Errors
    /// The router refuses to tell more, or the time for it is over.
    pub async fn message(&mut self) -> Result<Option<Event>, Error> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await.transpose()
    }

    /// Begins again, until it goes well or the router refuses it.
    fn again(&self, mut cause: Error) -> Call {
        let (mut router, wanted, end) = (self.router.clone(), self.wanted.clone(), self.end);
        Call::Begun(Box::pin(async move {
            let mut pause = Pause::new();
            while passes(&cause) {
                pause.wait(&cause).await;
                if let Some(end) = end {
                    router = router.within(end.saturating_duration_since(Instant::now()));
                }
                match router.begin(wanted.clone()).await {
                    Ok(call) => return Ok(call),
                    Err(e) => cause = e,
                }
            }
            Err(cause)
        }))
    }
}

/// What is told of a connection that has gone: how much is lost nobody knows.
fn lost() -> Event {
    Event { what: Some(event::What::Gap(EventGap::default())), ..Event::default() }
}

impl Stream for Happenings {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let cause = match &mut self.call {
                Call::Ended => return Poll::Ready(None),
                Call::Begun(call) => match ready!(call.as_mut().poll(cx)) {
                    Ok(call) => {
                        self.call = Call::Told(Box::new(call));
                        continue;
                    }
                    Err(refused) => refused,
                },
                Call::Told(call) => match ready!(Pin::new(&mut **call).poll_next(cx)) {
                    Some(Ok(event)) => return Poll::Ready(Some(Ok(event))),
                    Some(Err(status)) => status.into(),
                    None => Error::gone("the router has ended the stream of events"),
                },
            };
            if !passes(&cause) {
                self.call = Call::Ended;
                return Poll::Ready(Some(Err(cause)));
            }
            self.call = self.again(cause);
            return Poll::Ready(Some(Ok(lost())));
        }
    }
}

impl Router {
    /// What happens from now on, as far as it is asked for, with the links and neighbors that there are first.
    ///
    /// # Errors
    /// There is no such kind, too many follow already, or the router is gone; later it is waited for.
    pub async fn events(&self, wanted: WatchEventsRequest) -> Result<Happenings, Error> {
        let end = self.deadline();
        let call = Call::Told(Box::new(self.begin(wanted.clone()).await?));
        Ok(Happenings { router: self.clone(), wanted, end, call })
    }

    async fn begin(&self, wanted: WatchEventsRequest) -> Result<Streaming<Event>, Error> {
        Ok(EventsClient::new(self.channel()).watch(self.request(wanted)).await?.into_inner())
    }
}

/// A neighbor: the number of its interface, and its address.
pub type NeighborKey = (u32, IpAddr);

/// The links and neighbors that there are, as the events of one stream tell of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventView {
    /// Links by number.
    pub links: BTreeMap<u32, LinkEvent>,
    /// Neighbors.
    pub neighbors: BTreeMap<NeighborKey, NeighborEvent>,
    /// Kinds of which all is told.
    whole: BTreeSet<i32>,
}

impl EventView {
    /// Takes in an event. A gap in which links or neighbors are lost empties the view of them: they are told anew.
    pub fn apply(&mut self, event: &Event) {
        match &event.what {
            Some(event::What::Link(link)) if link.change() == EventChange::Gone => {
                self.links.remove(&link.index);
            }
            Some(event::What::Link(link)) => {
                self.links.insert(link.index, link.clone());
            }
            Some(event::What::Neighbor(neighbor)) => {
                let Some(address) = address(&neighbor.address) else { return };
                let key = (neighbor.index, address);
                if neighbor.change() == EventChange::Gone {
                    self.neighbors.remove(&key);
                } else {
                    self.neighbors.insert(key, neighbor.clone());
                }
            }
            Some(event::What::SnapshotEnd(_)) => _ = self.whole.insert(event.kind),
            // Of a connection that has gone.
            Some(event::What::Gap(gap)) if gap.lost.is_empty() => *self = EventView::default(),
            Some(event::What::Gap(gap)) => {
                for lost in &gap.lost {
                    self.whole.remove(&lost.kind);
                    match lost.kind() {
                        EventKind::Link => self.links.clear(),
                        EventKind::Neighbor => self.neighbors.clear(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether all that there is of a kind is told: the view is as the router was at some moment behind the last gap.
    pub fn is_whole(&self, kind: EventKind) -> bool {
        self.whole.contains(&kind.into())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match <[u8; 4]>::try_from(bytes) {
        Ok(four) => Some(four.into()),
        Err(_) => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
    }
}
