//! The vector packet runtime: buffers, vectors of descriptors, nodes, the dispatcher that runs them, feature arcs,
//! counters, trace, worker threads and the grace periods that let the control side change what workers read.
//!
//! Nothing here knows a protocol. A packet is a [`Desc`] (32 bytes, carried in the vector) that names a buffer of the
//! [`Pool`]; a [`Node`] decides for one packet at a time in [`Node::step`]; the generic driver in [`driver`] turns that
//! into a loop over the vector with prefetch, trace, counters and enqueueing.
//!
//! Reading order: [`desc`], [`buffer`], [`packet`], [`edge`], [`env`](mod@env), [`node`], [`driver`], [`quick`], [`frames`], [`builder`], [`dispatch`],
//! [`worker`].

pub mod arcs;
pub mod buffer;
pub mod builder;
pub mod chain;
pub mod clock;
pub mod counters;
pub mod desc;
pub mod dispatch;
pub mod driver;
pub mod edge;
pub mod env;
pub mod epoch;
pub mod follow;
pub mod frames;
pub mod handle;
pub mod handoff;
mod idle;
pub mod io;
pub mod like;
mod mark;
pub mod memory;
pub mod node;
pub mod of_workers;
pub mod packet;
mod pause;
mod prefetch;
pub mod quick;
mod record;
pub mod registry;
mod spread;
pub mod stage;
pub mod stats;
mod timed;
pub mod trace;
pub mod wheel;
pub mod worker;

pub use buffer::{Buffers, Meta, Pool, PoolConfig, PoolError, PoolMemory, Rooms, WINDOW};
pub use builder::{BuildError, Builder, Graph};
pub use chain::{Chain, Row};
pub use desc::{Aside, Desc, Packets, Seen, VECTOR_SIZE, Vector, flags};
pub use dispatch::Dispatcher;
pub use edge::{Edge, NodeId, Reason, Severity};
pub use env::{DispatchReason, Env};
pub use epoch::{Domain, Guard, Published, Reclaimer};
pub use handle::Buffer;
pub use handoff::Handoff;
pub use idle::Polling;
pub use io::{RxQueue, TxCaps, TxQueue, TxReport};
pub use like::{Alike, Like};
pub use node::{BatchNode, Exit, LookupNode, Node, SpreadNode};
pub use of_workers::{MAX_WORKERS, OfWorkers};
pub use packet::Packet;
pub use prefetch::{prefetch, prefetch_to_write};
pub use quick::{QuickLookup, QuickNode};
pub use registry::Registry;
pub use trace::{TraceLog, TraceRecord};
pub use worker::{Mail, Worker, WorkerConfig, WorkerHandle};
