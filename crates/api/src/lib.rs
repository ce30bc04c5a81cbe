//! The API for programs: gRPC over a Unix socket, and over TCP with TLS. The schema stands in `api/quiver/v1`, what it is for in `docs/api.md`.
//!
//! The server has a thread of its own. What concerns the router it asks of the control thread through a
//! [`Door`](control::ctl::Door), where it has its turn beside the control socket, with the same roles and the same commands.

mod documents;
pub mod ending;
mod layers;
mod limits;
mod rates;
pub mod server;
mod service;
pub mod status;
pub mod tls;
pub mod who;

/// The messages and services of the schema.
#[allow(missing_docs, clippy::all, clippy::pedantic, unused_qualifications, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("quiver.v1");

    /// The schema, as reflection tells it.
    pub const SCHEMA: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/quiver.bin"));
}
