//! Scenarios that measure something else than clocks a packet.

pub mod api;
pub mod churn;
pub mod converge;
pub mod crowd;
pub mod dpdk;
pub mod growth;
pub mod idle;
pub mod io;
pub mod latency;
pub mod lines;
pub mod objects;
pub mod steering;
pub mod tables;
