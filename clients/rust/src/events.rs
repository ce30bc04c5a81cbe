//! What happens in the router.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_stream::Stream;
use tonic::Streaming;

use crate::v1::events_client::EventsClient;
use crate::v1::{Event, EventChange, EventKind, LinkEvent, NeighborEvent, WatchEventsRequest, event};
use crate::{Error, Router};

/// Events as they come. It is a [`Stream`]; dropping it ends the call.
#[derive(Debug)]
pub struct Happenings(Streaming<Event>);

impl Happenings {
    /// The next event; nothing behind the last one.
    ///
    /// # Errors
    /// The router is gone.
    pub async fn message(&mut self) -> Result<Option<Event>, Error> {
        Ok(self.0.message().await?)
    }
}

impl Stream for Happenings {
    type Item = Result<Event, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(cx).map(|next| next.map(|event| event.map_err(Error::from)))
    }
}

impl Router {
    /// What happens from now on, as far as it is asked for, with the links and neighbors that there are first.
    ///
    /// # Errors
    /// There is no such kind, or too many follow already.
    pub async fn events(&self, wanted: WatchEventsRequest) -> Result<Happenings, Error> {
        Ok(Happenings(EventsClient::new(self.channel()).watch(self.request(wanted)).await?.into_inner()))
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
