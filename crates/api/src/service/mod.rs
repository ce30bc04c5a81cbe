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

use command::CommandError;
use control::commands::Desk;
use control::ctl::Door;
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
    /// All commands.
    pub commands: Vec<v1::list_response::Command>,
}

impl Router {
    /// Does something with what the commands know, on the control thread.
    async fn desk<R: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(Desk) -> Result<R, CommandError> + Send + 'static,
    ) -> Result<R, Status> {
        let done = self.0.door.ask(async move |_, desk| work(desk).await).await;
        done.map_err(status::closed)?.map_err(|e| status::error(&e))
    }
}
