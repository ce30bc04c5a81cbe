//! The services, a file each.

pub mod commands;
mod configuration;
mod pieces;
mod system;

use std::sync::Arc;

use control::commands::Desk;
use control::ctl::Door;

use crate::v1;

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
    /// All commands.
    pub commands: Vec<v1::list_response::Command>,
}
