//! The protocols: one folder a feature, with its nodes, its control-side state and its commands.
//!
//! [`plane::Plane`] is what workers read; [`nodes`] lists every node of the graph in the order in which they run;
//! [`router::Router`] is the control side that owns and changes the state. Features use both, and nothing uses features but
//! the lists and, where it says so, other features.

pub mod adjacency;
mod anycast;
pub mod arcs;
pub mod arp;
pub mod background;
pub mod bond;
pub mod capture;
mod chatter;
mod cli;
pub mod commands;
pub mod copp;
pub mod dpdk;
pub mod ethernet;
pub mod fib;
pub mod first_layer;
pub mod format;
pub mod forward;
pub mod generator;
pub mod gre;
pub mod hold;
pub mod icmp;
pub mod interface;
pub mod ip4;
pub mod ip6;
pub mod l2;
pub mod labels;
pub mod layer;
pub mod linux_bridge;
pub mod linux_cp;
pub mod load;
pub mod local;
pub mod memif;
pub mod midchain;
pub mod mpls;
pub mod mss;
pub mod multicast;
pub mod neighbor;
pub mod nodes;
pub mod offload;
pub mod output;
pub mod path_mtu;
pub mod pcap;
mod peers;
pub mod ping;
pub mod plane;
pub mod programs;
pub mod protocols;
pub mod proxy;
pub mod punt;
pub mod ra;
pub mod rates;
pub mod reassembly;
pub mod redirect;
pub mod router;
pub mod runtime;
#[cfg(test)]
pub(crate) mod short_cuts;
pub mod span;
pub mod steering;
#[cfg(test)]
mod testing;
mod transport;
pub mod tunnel;
pub mod urpf;
pub mod vhost;
pub mod vpp;
pub mod vxlan;
