//! What brings packets in and takes them out: drivers behind [`graph::io`]'s traits.

pub mod af_packet;
pub mod af_xdp;
mod bpf;
mod counts;
pub mod dpdk;
pub mod error;
pub mod files;
pub mod generator;
pub mod host;
pub mod identity;
pub mod link;
mod linux;
pub mod memif;
mod netlink;
pub mod netns;
pub mod offload;
mod partial;
pub mod pcap;
mod signal;
mod stage;
mod station;
mod sys;
pub mod tap;
mod tcx;
mod turn;
pub mod vnet;
pub mod watch;

pub use counts::RxDrops;
pub use error::Error;
pub use files::Files;
pub use host::{Control, Host};
pub use identity::Identity;
pub use link::{Link, LinkState};
pub use offload::Offload;
pub use watch::{LinkEvent, LinkWatch};
