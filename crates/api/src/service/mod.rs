//! The services, a file each.

pub mod commands;
mod configuration;
mod counters;
mod edits;
pub mod events;
mod packets;
mod pieces;
pub mod routes;
mod system;

use std::sync::Arc;

use command::{Caller, CommandError};
use control::commands::Desk;
use control::ctl::Door;
use control::places::{Place, Shares};
use tonic::Status;

use crate::{status, v1};

/// What the services share.
#[derive(Clone)]
pub struct Router(pub Arc<Shared>);

/// See [`Router`].
pub struct Shared {
    /// The way to the control thread.
    pub door: Door<Desk>,
    /// The router's version.
    pub version: String,
    /// Tells this start from others.
    pub instance: String,
    /// When the router was started, in seconds since 1970 UTC.
    pub started: i64,
    /// Looks for drops.
    pub drops: events::Sampler,
    /// Places of streams.
    pub streams: Streams,
    /// All commands.
    pub commands: Vec<v1::list_response::Command>,
}

/// Streams of which there are few.
pub struct Streams {
    captures: Shares,
    traces: Shares,
    injections: Shares,
    punts: Shares,
    events: Shares,
    routes: Shares,
}

/// Streams of programs that inject packets: a connection alone could have more.
const INJECTIONS: usize = 64;
/// Followers of events, and of routes; and so many more for who may do more than look.
const FOLLOWERS: usize = 64;
const RESERVED: usize = 16;

impl Default for Streams {
    fn default() -> Self {
        Streams {
            captures: Shares::of("captures", net::pcap::MOST_FOLLOWED, 0),
            traces: Shares::of("traces", graph::follow::MOST_FOLLOWED, 0),
            injections: Shares::of("streams of injected packets", INJECTIONS, 0),
            punts: Shares::of("streams of punted packets", net::programs::MOST_STREAMS, 0),
            events: Shares::of("followers of events", FOLLOWERS, RESERVED),
            routes: Shares::of("followers of routes", FOLLOWERS, RESERVED),
        }
    }
}

impl Router {
    /// A place for a stream of somebody.
    fn place(&self, of: impl FnOnce(&Streams) -> &Shares, caller: &Caller) -> Result<Place, Status> {
        of(&self.0.streams).take(caller).map_err(|full| status::full(&full))
    }

    /// Does something with what the commands know, on the control thread.
    async fn desk<R: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(Desk) -> Result<R, CommandError> + Send + 'static,
    ) -> Result<R, Status> {
        let done = self.0.door.ask(async move |_, desk| work(desk).await).await;
        done.map_err(status::closed)?.map_err(|e| status::error(&e))
    }
}
