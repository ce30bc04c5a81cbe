//! IPv4: the life of a packet is [`input`] (checks), [`lookup`], then [`rewrite`] (to a neighbour), [`local`] (for the
//! router), [`hold`](crate::hold) (neighbour not yet known) or an ICMP error.

pub mod commands;
pub mod frag;
mod icmp4_input;
pub mod input;
pub mod link_local;
pub mod local;
mod local_end;
pub mod lookup;
pub(crate) mod options;
pub mod rewrite;

pub use frag::{Ip4Frag, Ip4FragReason};
pub use icmp4_input::{Icmp4Input, Icmp4Reason};
pub use input::{BROADCAST_SOURCES_FORWARD, Ip4Drop, Ip4Input};
pub use link_local::{Ip4LinkLocal, Ip4LinkLocalDrop, LINK_LOCAL_STAYS};
pub use local::{Ip4Local, Ip4LocalReason};
pub use local_end::{Ip4LocalEnd, Ip4LocalEndNext};
pub use lookup::{Ip4Lookup, Ip4LookupDrop};
pub use options::{Ip4Options, Ip4OptionsReason, OptionPolicy};
pub use rewrite::{Ip4Rewrite, Ip4RewriteDrop};

use crate::interface::{Declared, Switch};

/// What interfaces can be told.
pub static SETTINGS: [&Declared; 2] = [&LINK_LOCAL_STAYS.declared, &BROADCAST_SOURCES_FORWARD.declared];

/// What the settings switch on.
pub static SWITCHES: [Switch; 1] = [link_local::SWITCH];
