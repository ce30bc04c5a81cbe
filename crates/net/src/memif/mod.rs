//! memif: interfaces over shared memory to another process of the machine. The driver does the work ([`drivers::memif`]); here are
//! what an operator asks for, its place among interfaces, and the node where packets come in that have no Ethernet header.

mod commands;
mod input;
mod part;

use crate::peers::PeerPart;

pub use crate::router::memif_numbers as is_name;
pub use drivers::memif::{Config as MemifConfig, MOST_RINGS, Mode, Place, Role};
pub use input::MemifIpInput;
use part::Memif;
pub use part::{DEFAULT_SOCKET, MemifOp, config, default_socket, mtu, socket_of};

/// Its part.
pub(crate) static PART: PeerPart<Memif> = PeerPart::new();
