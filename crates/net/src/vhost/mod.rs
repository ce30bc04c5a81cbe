//! vhost-user: interfaces of virtual machines and of programs with virtio-user. The driver does the work ([`drivers::vhost`]); here is
//! what an operator asks for, and its place among interfaces.

mod commands;
mod part;

use crate::peers::PeerPart;

pub use crate::peers::MTU;
pub use crate::router::vhost_number as is_name;
pub use drivers::vhost::{Config as VhostConfig, Place, Role};
use part::Vhost;
pub use part::{VhostOp, config, name};

/// Its part.
pub(crate) static PART: PeerPart<Vhost> = PeerPart::new();
