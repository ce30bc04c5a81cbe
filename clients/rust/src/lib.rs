//! A client of the Quiver router's API.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), quiver_client::Error> {
//! let router = quiver_client::Router::unix("/run/quiver/api.sock").await?;
//! print!("{}", router.command("show interface").await?);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Router`] is a handle: cloning it is cheap, and calls of all clones go over one connection, which is made anew when it breaks
//! and something is asked. What it has no method for, the generated clients of [`v1`] have: [`Router::channel`] is what they take.

mod answer;
mod configuration;
mod connect;
mod counters;
mod error;
mod events;
mod follow;
mod keep;
mod packets;
mod routes;
mod tls;
mod transaction;

/// The messages and services of the schema, generated.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("quiver.v1");
}

pub use answer::{Answer, Output};
pub use configuration::Apply;
pub use connect::Router;
pub use counters::Reading;
pub use error::Error;
pub use events::{EventView, Happenings, NeighborKey};
pub use follow::{Follower, RouteKey, RouteView};
pub use keep::{Flushed, Keeper};
pub use packets::{Capture, Injector, Passed, Passing, Punt, Trace};
pub use routes::{Events, Kinds, Listed, Program, Route, prefixes, push};
pub use tls::Tls;
pub use transaction::{Got, Transaction};
pub use v1::{ErrorInfo, Role};
