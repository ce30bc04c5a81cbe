//! IPv6: the life of a packet is [`input`] (checks), [`lookup`], then [`rewrite`] (to a neighbour), [`local`] (for the
//! router), `ip6-hold` (neighbour not yet known) or an ICMPv6 error.

pub mod frag;
pub mod hop_by_hop;
mod icmp6_input;
pub mod input;
pub mod local;
mod local_end;
pub mod lookup;
mod options;
pub mod rewrite;

pub use frag::{Ip6Frag, Ip6FragReason};
pub use hop_by_hop::{Ip6HopByHop, Ip6HopByHopReason};
pub use icmp6_input::{Icmp6Input, Icmp6Reason};
pub use input::{Ip6Drop, Ip6Input};
pub use local::{Ip6Local, Ip6LocalReason};
pub use local_end::{Ip6LocalEnd, Ip6LocalEndNext};
pub use lookup::{Ip6Lookup, Ip6LookupDrop};
pub use rewrite::{Ip6Rewrite, Ip6RewriteDrop};
